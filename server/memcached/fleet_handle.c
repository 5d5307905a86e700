/* SPDX-License-Identifier: MIT */
#include "server/memcached/fleet_handle.h"

#include <stdio.h>
#include <string.h>

#include <urcu-qsbr.h>

#define CONNECT_MS 2000
/* Operations that fly at a time, at all members together; others wait in the library. */
#define DEPTH 1024
#define CACHE_BYTES (4u << 20)
#define FLEET_URL_MAX (FLEET_URLS_MAX + FLEET_NAME_MAX + 16)

/* Schemes of members' URLs, and of a fleet that is reached by these; the best one first. */
static const struct {
	const char *member, *fleet;
} schemes[] = {
	{ "rdma://", "fleet://" },
	{ "rdma+tls://", "fleet+tls://" },
	{ "rdma+tcp://", "fleet+tcp://" },
	{ "softnic://", "fleet+softnic://" },
};
#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

/* The first of the @len bytes of URLs that has the scheme: what follows that, of *@rest bytes. */
static const char *url_find(const char *urls, size_t len, const char *scheme, size_t *rest)
{
	const size_t scheme_len = strlen(scheme);
	const char *end = urls + len, *at, *comma;

	for (at = urls; at < end; at = comma + 1) {
		comma = memchr(at, ',', (size_t)(end - at));
		if (!comma)
			comma = end;
		if ((size_t)(comma - at) > scheme_len && !memcmp(at, scheme, scheme_len)) {
			*rest = (size_t)(comma - at) - scheme_len;
			return at + scheme_len;
		}
	}
	return NULL;
}

/* Whether each member of the map has a URL of the scheme. */
static bool reaches_all(const struct fleet_map *map, const char *scheme)
{
	size_t rest;

	for (uint32_t i = 0; i < map->head->members; i++)
		if (!url_find(map->members[i]->urls, map->members[i]->urls_len, scheme, &rest))
			return false;
	return true;
}

/* Writes the fleet's URL with this server as the member that has the map. */
static bool url_write(const struct fleet_view *view, char url[FLEET_URL_MAX])
{
	const struct fleet_map *map = view->map;
	const struct fleet_member *own;
	const char *at;
	size_t rest;

	if (view->member >= map->head->members)
		return false;
	own = map->members[view->member];
	for (unsigned int all = 1; all <= 1; all--)
		for (unsigned int i = 0; i < SCHEMES; i++) {
			at = url_find(own->urls, own->urls_len, schemes[i].member, &rest);
			if (!at || (all && !reaches_all(map, schemes[i].member)))
				continue;
			snprintf(url, FLEET_URL_MAX, "%s%.*s/%.*s", schemes[i].fleet, (int)rest, at,
				 (int)FLEET_NAME_MAX, map->head->name);
			return true;
		}
	return false;
}

static void options_fill(const char *tenant, uint32_t timeout_ms, struct kvd_options *options)
{
	kvd_options_init(options);
	options->timeout_ms = timeout_ms;
	options->connect_timeout_ms = CONNECT_MS;
	options->cache_bytes = CACHE_BYTES;
	options->spin_us = 0;
	options->depth = DEPTH;
	options->tenant = tenant;
}

static enum kvd_status open_url(const struct fleet_identity *identity, const char *url,
				const char *tenant, uint32_t timeout_ms, struct kvd **handle,
				char why[FLEET_HANDLE_WHY_MAX])
{
	struct fleet_tls_paths paths;
	struct kvd_options options;
	enum kvd_status status;

	options_fill(tenant, timeout_ms, &options);
	fleet_tls_get(identity->tls, &paths, &options);
	status = kvd_open(handle, url, &options);
	if (status)
		snprintf(why, FLEET_HANDLE_WHY_MAX, "%s", kvd_error(NULL));
	return status;
}

enum kvd_status fleet_handle_open(const struct fleet_identity *identity, const char *tenant,
				  uint32_t timeout_ms, struct kvd **handle,
				  char why[FLEET_HANDLE_WHY_MAX])
{
	char url[FLEET_URL_MAX];
	bool written;

	*handle = NULL;
	rcu_thread_online();
	written = url_write(fleet_view(identity->fleet), url);
	rcu_thread_offline();
	if (!written) {
		snprintf(why, FLEET_HANDLE_WHY_MAX, "this server is not in the fleet's map");
		return KVD_ERR_AWAY;
	}
	return open_url(identity, url, tenant, timeout_ms, handle, why);
}

enum kvd_status member_handle_open(const struct fleet_identity *identity, const char *tenant,
				   uint32_t timeout_ms, struct kvd *home, uint32_t number,
				   struct kvd **handle, char why[FLEET_HANDLE_WHY_MAX])
{
	struct kvd_fleet_member member;
	enum kvd_status status = kvd_fleet_member(home, number, &member, sizeof(member));
	char url[FLEET_URL_MAX], scheme[16];
	struct kvd_info info;
	const char *at;
	size_t rest;

	*handle = NULL;
	if (status)
		return status;
	kvd_info(home, &info);
	snprintf(scheme, sizeof(scheme), "%s://", info.device_kind);
	at = url_find(member.urls, strlen(member.urls), scheme, &rest);
	if (!at) {
		snprintf(why, FLEET_HANDLE_WHY_MAX, "member %s has no URL of %s", member.id,
			 scheme);
		return KVD_ERR_UNREACHABLE;
	}
	snprintf(url, sizeof(url), "%s%.*s", scheme, (int)rest, at);
	return open_url(identity, url, tenant, timeout_ms, handle, why);
}
