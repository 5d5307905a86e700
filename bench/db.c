/* SPDX-License-Identifier: MIT */
/*
 * Chooses the backend that -d names and the URL that fits it: see db.h.
 */
#include "bench/db.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/rdma/device.h"

static const struct db_backend *const backends[] = { &db_kvd, &db_memcached, &db_redis };

#define BACKENDS (sizeof(backends) / sizeof(backends[0]))

/* For a wrong URL of kvd @why (DB_ERROR_MAX bytes) says what is wrong, else it is "". */
static bool url_fits(const struct db_backend *backend, const char *url, char *why)
{
	struct device_addr addr;

	*why = '\0';
	/* libkvd checks the URL of a fleet. */
	if (!backend->prefix)
		return !strncmp(url, "fleet", strlen("fleet")) ||
		       !device_addr_parse(&addr, url, why, DB_ERROR_MAX);
	return !strncmp(url, backend->prefix, strlen(backend->prefix));
}

static const struct db_backend *backend_find(const char *name)
{
	size_t i;

	for (i = 0; i < BACKENDS; i++)
		if (!strcmp(backends[i]->name, name))
			return backends[i];
	return NULL;
}

/* @error has what url_fits() wrote. */
static int url_refuse(const struct db_target *target, char *error)
{
	const char *hint = NULL;
	char why[DB_ERROR_MAX];
	size_t i;

	for (i = 0; i < BACKENDS; i++)
		if (url_fits(backends[i], target->url, why))
			hint = backends[i]->name;
	if (hint || !*error)
		snprintf(error, DB_ERROR_MAX, "-d %s takes %s, not %.200s%s%s",
			 target->backend->name, target->backend->urls, target->url,
			 hint ? ": that is for -d " : "", hint ? hint : "");
	else if (error[strlen(error) - 1] == '.')
		error[strlen(error) - 1] = '\0'; /* the caller goes on with the sentence */
	return -EINVAL;
}

int db_target_parse(struct db_target *target, const char *name, const char *url, char *error)
{
	static char default_url[KVD_URL_MAX];

	target->backend = backend_find(name ? name : "kvd");
	target->url = url ? url : getenv("KVD_URL");
	if (!target->backend) {
		snprintf(error, DB_ERROR_MAX,
			 "-d %.100s: no such store; give kvd, memcached or redis", name);
		return -EINVAL;
	}
	if (!url && target->backend == &db_kvd)
		target->url = kvd_default_url(default_url);
	if (!target->url || !*target->url) {
		snprintf(error, DB_ERROR_MAX, "no server: give -a URL or set KVD_URL");
		return -EINVAL;
	}
	return url_fits(target->backend, target->url, error) ? 0 : url_refuse(target, error);
}

void db_help(FILE *out)
{
	size_t i;

	for (i = 0; i < BACKENDS; i++)
		fprintf(out, "      %-9s  %s\n", backends[i]->name, backends[i]->urls);
}

int db_connect_failed(const struct db_target *target, enum kvd_status status, const char *error)
{
	fprintf(stderr, "%s: can't connect to %s: %s%s%s\n", program_invocation_short_name,
		target->url, kvd_status_text(status), *error ? ": " : "", error);
	switch (status) {
	case KVD_ERR_INVALID:
		return -EINVAL;
	case KVD_ERR_NO_MEMORY:
		return -ENOMEM;
	default:
		return -ENOTCONN;
	}
}
