/* SPDX-License-Identifier: MIT */
/*
 * The network part of the server: its devices, its workers, and its connections.
 */
#ifndef KVD_SERVER_NET_NET_H
#define KVD_SERVER_NET_NET_H

#include "server/net/worker.h"

/* X(name, help): counted by the control thread. */
#define NET_STATS(X)                                                                               \
	X(connections, "connections open")                                                         \
	X(connections_total, "connections accepted since the start")                               \
	X(connections_rejected, "connections refused")                                             \
	X(connections_expired, "connections closed at a deadline")                                 \
	X(srq_limits, "times receives ran low on a shared receive queue")                          \
	X(async_errors, "asynchronous errors reported by a device")

struct net_stats {
#define X(name, help) uint64_t name;
	NET_STATS(X)
#undef X
};

struct net {
	struct worker_env env;
	struct nic nics[NIC_MAX];
	unsigned int nic_count;
	struct worker *workers;
	unsigned int worker_count;
	struct mailbox mailbox; /* notes to the control thread */

	/* The control thread's: server/net/conn_manager.h. */
	struct net_stats stats; /* others may read */
	struct conn *conns;	/* all, by next and prev */
	uint32_t serial;	/* of the next connection */
	bool events_left;	/* a device may have more events than were taken at once */
	bool stopping;		/* connections are refused */
	bool failed;		/* a device failed: the server has to stop */
};

/*
 * Opens the devices that the configuration asks for and sets up the workers. @env: config, store,
 * stats_print and stats_arg are the caller's, the rest is filled in. @net is all zero before.
 * Returns 0 or a negative errno after logging; net_release() takes what is left half done.
 */
int net_init(struct net *net, const struct worker_env *env);
/* When no worker runs and no connection is left. */
void net_release(struct net *net);

/* Starts the workers, then the listeners. 0 or a negative errno after logging. */
int net_start(struct net *net);
/* Stops the workers. */
void net_stop(struct net *net);

#endif /* KVD_SERVER_NET_NET_H */
