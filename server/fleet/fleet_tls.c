/* SPDX-License-Identifier: MIT */
#include "server/fleet/fleet_tls.h"

#include <stddef.h>

void fleet_tls_init(struct fleet_tls *tls)
{
	*tls = (struct fleet_tls){ .lock = PTHREAD_MUTEX_INITIALIZER };
}

void fleet_tls_set(struct fleet_tls *tls, const struct fleet_tls_paths *paths)
{
	pthread_mutex_lock(&tls->lock);
	tls->paths = *paths;
	pthread_mutex_unlock(&tls->lock);
}

static const char *path_or_null(const char *path)
{
	return *path ? path : NULL;
}

void fleet_tls_get(struct fleet_tls *tls, struct fleet_tls_paths *paths,
		   struct kvd_options *options)
{
	pthread_mutex_lock(&tls->lock);
	*paths = tls->paths;
	pthread_mutex_unlock(&tls->lock);
	options->tls_ca = path_or_null(paths->ca);
	options->tls_certificate = path_or_null(paths->certificate);
	options->tls_key = path_or_null(paths->key);
	options->tls_psk = path_or_null(paths->psk);
}
