/* SPDX-License-Identifier: MIT */
/*
 * The connection manager: accepts, refuses, closes and frees connections, as events, notes and
 * deadlines require. server/worker/conn.h has the life of a connection. All functions are for the
 * control thread. None blocks, except for the grace period before a connection is freed.
 */
#ifndef KVD_SERVER_CONTROL_CONN_MANAGER_H
#define KVD_SERVER_CONTROL_CONN_MANAGER_H

#include "server/control/net.h"

/* Called before any other of these functions, once net->env is set. */
void conn_manager_init(struct net *net);
/*
 * Handles connection events of the endpoint, EVENTS_AT_ONCE at most; net->events_left says that
 * there may be more.
 */
void conn_manager_cm_events(struct net *net, struct endpoint *endpoint);
/*
 * The device has failed because of @what: its connections end. server/control/recovery.h has what
 * follows. Does nothing if the device has failed before.
 */
void conn_manager_device_failed(struct net *net, struct nic *nic, const char *what);
/* Handles asynchronous events of the device, like connection events. */
void conn_manager_async_events(struct net *net, struct nic *nic);
/* Handles the workers' notes. */
void conn_manager_read_mail(struct net *net);
/*
 * Answers queries that read_mail() found (server/worker/query.h), a bounded number of them:
 * net->events_left says that there are more. Makes at most one snapshot of the statistics.
 */
void conn_manager_answer(struct net *net, uint64_t now_ns);
/* How long to wait for events: @wait_ms, or less if a snapshot is due earlier. */
int conn_manager_wait_ms(const struct net *net, int wait_ms);
/* Arms again the limit events of shared receive queues that were raised. */
void conn_manager_arm_srq_limits(struct net *net);
/* Closes connections whose HELLO is late or whose client is gone; quiesces flushed ones. */
void conn_manager_expire(struct net *net, uint64_t now_ns);
/* Sends the answer to the query of @conn, which is in no list, to the worker. */
void conn_manager_answered(struct conn *conn);
/* Takes the query of @conn out of the list that it waits in. */
void conn_manager_forget_query(struct conn *conn);
/* Starts to close all connections of the tenant. */
void conn_manager_close_tenant(struct net *net, const struct tenant *tenant);
/* Starts to close all connections of worker @first and those after it. */
void conn_manager_close_workers(struct net *net, unsigned int first);
/* Allocates the windows of the tenant's connections for the first @extents extents. */
void conn_manager_grant(struct net *net, const struct tenant *tenant, uint32_t extents);
/*
 * Starts to close the connections of the tenant that may have keys of more than the first @extents
 * extents. Returns how many there are still.
 */
unsigned int conn_manager_close_extents(struct net *net, const struct tenant *tenant,
					uint32_t extents);
/* Starts to close all connections. */
void conn_manager_close_all(struct net *net);
/*
 * Reads the file of [users] again; an unusable file changes nothing, and is logged. Connections get
 * their user's new rights; a connection is closed if it now has no user, another user, or one that
 * may no longer read all keys. May wait for a grace period.
 */
void conn_manager_renew_users(struct net *net);

/*
 * Takes options of net->env.config that have changed: deadlines of connections and of identities,
 * and what workers have of them.
 */
void conn_manager_renew_options(struct net *net);
/* Whether a value is being pulled from a client. */
bool conn_manager_pulling(const struct net *net);
/* Whether a connection is being flushed. */
bool conn_manager_flushing(const struct net *net);
/* Frees all connections that are left. No worker may run. */
void conn_manager_free_all(struct net *net);

#endif /* KVD_SERVER_CONTROL_CONN_MANAGER_H */
