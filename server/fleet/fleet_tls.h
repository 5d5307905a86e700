/* SPDX-License-Identifier: MIT */
/*
 * The files of [tls] that a member of a fleet shows other members by rdma+tls://, as their client.
 * The control thread changes them, while other threads open handles with them.
 */
#ifndef KVD_SERVER_FLEET_FLEET_TLS_H
#define KVD_SERVER_FLEET_FLEET_TLS_H

#include <pthread.h>

#include "client/kvd.h"

#define FLEET_TLS_PATH_MAX 160 /* with the final zero; OPTION_FILE_MAX */

/* "": none. */
struct fleet_tls_paths {
	char ca[FLEET_TLS_PATH_MAX], certificate[FLEET_TLS_PATH_MAX];
	char key[FLEET_TLS_PATH_MAX], psk[FLEET_TLS_PATH_MAX];
};

struct fleet_tls {
	pthread_mutex_t lock; /* guards the paths */
	struct fleet_tls_paths paths;
};

/* Without paths. */
void fleet_tls_init(struct fleet_tls *tls);
/* Handles that are opened from now on use these. Any thread. */
void fleet_tls_set(struct fleet_tls *tls, const struct fleet_tls_paths *paths);
/*
 * Sets the files of @options, which point into @paths from then on: until kvd_open() has returned.
 * Any thread.
 */
void fleet_tls_get(struct fleet_tls *tls, struct fleet_tls_paths *paths,
		   struct kvd_options *options);

#endif /* KVD_SERVER_FLEET_FLEET_TLS_H */
