/* SPDX-License-Identifier: MIT */
/*
 * The connections as the control thread sees them: server/net/conn.h tells their life. All functions are
 * for the control thread; none blocks.
 */
#ifndef KVD_SERVER_NET_CONN_MANAGER_H
#define KVD_SERVER_NET_CONN_MANAGER_H

#include "server/net/net.h"

/*
 * Takes the events of the device's connections, up to a bound: net->events_left says that there
 * may be more.
 */
void conn_manager_cm_events(struct net *net, struct nic *nic);
/* Takes the device's asynchronous events, likewise. */
void conn_manager_async_events(struct net *net, struct nic *nic);
/* Takes the workers' notes. */
void conn_manager_read_mail(struct net *net);
/* Arms the limits of shared receive queues again that were reached. */
void conn_manager_rearm(struct net *net);
/* Closes the connections whose time is over. */
void conn_manager_expire(struct net *net, uint64_t now_ns);
/* Begins to close all. */
void conn_manager_close_all(struct net *net);
/* Whether a value is being pulled from a client. */
bool conn_manager_pulling(const struct net *net);
/* Whether a connection waits for its last flushed completion. */
bool conn_manager_flushing(const struct net *net);
/* Frees what is left when no worker runs any more. */
void conn_manager_free_all(struct net *net);

#endif /* KVD_SERVER_NET_CONN_MANAGER_H */
