/* SPDX-License-Identifier: MIT */
/* The server as a whole: its configuration, its store and its network part. */
#ifndef KVD_SERVER_SERVER_H
#define KVD_SERVER_SERVER_H

#include "server/config/config.h"
#include "server/control/net.h"
#include "server/fleet/fleet.h"
#include "server/fleet/fleet_stores.h"
#include "server/fleet/membership_thread.h"
#include "server/http/http.h"
#include "server/stats.h"
#include "server/store/store.h"

/* The options of the store, and what they point to. */
struct store_setup {
	char device[IBV_SYSFS_NAME_MAX];
	struct numa_local local;
	struct store_options options;
};

struct server {
	struct config config;
	const struct config_source *source; /* SIGHUP reads it again */
	struct store_setup setup;
	struct host_sleep sleep; /* of the stores, with fleet.etcd */
	struct fleet fleet;	 /* all zero: the server is in none */
	struct fleet_stores fleet_stores;
	struct fleet_tls fleet_tls;
	struct config_member member;	     /* what it says of itself, with fleet.etcd */
	struct membership_thread membership; /* with fleet.etcd */
	struct store store;		     /* of the tenant default */
	struct net net;
	struct forwarder *forwarder; /* with memcached:// in a fleet, or NULL */
	struct http *http;	     /* with server.http, or NULL */
	struct stats_source stats_source;

	/* The control thread's: server/control_loop.c. */
	bool ready;		   /* clients are served, or were */
	uint64_t drain_until_ns;   /* 0: not stopping */
	uint64_t respond_until_ns; /* stopping: requests are executed until then */
	uint64_t force_until_ns;   /* 0: connections are not being closed yet */
	/* By CONFIG set, since the file was read or written. */
	bool options_set[OPTION_COUNT];
	uint32_t options_version; /* counts changes of options */
};

/*
 * Checks, before anything is allocated, whether this host can give the server what its
 * configuration asks for: memory, within the host's, the control groups' and the process's limits;
 * huge pages that are required; NUMA nodes; and, for a verbs device, memory that may be locked,
 * for which it raises the soft limit if that is enough. For --check-config too. Returns 0 or, after
 * logging, a negative errno.
 */
int server_check(const struct config *config);

/*
 * Sets up everything except the stores, whose memory takes long to fill. The caller has filled in
 * server->config and server->source; the rest is zero. Returns 0, or a negative errno after
 * logging, with nothing left to release.
 */
int server_init(struct server *server);
/*
 * Makes the server a member of its fleet, once it listens, if the fleet is in etcd; and ends that,
 * before the workers stop. 0, or a negative errno after logging.
 */
int server_join(struct server *server);
void server_leave(struct server *server);
/* Hands the paths of [tls] to the threads that are clients of other members. */
void server_renew_tls(struct server *server);
/* Releases everything in reverse order. */
void server_release(struct server *server);

/*
 * Creates the stores, and serves once all exist. SIGTERM and SIGINT, which the caller has blocked,
 * end it at any time, as does an error; it then closes all connections. Returns 0, or a negative
 * errno after logging. In server/control_loop.c.
 */
int server_run(struct server *server);

#endif /* KVD_SERVER_SERVER_H */
