/* SPDX-License-Identifier: MIT */
/*
 * The connections as the control thread sees them: server/net/conn.h tells their life. All functions are
 * for the control thread; none blocks.
 */
#ifndef KVD_SERVER_NET_CONN_MANAGER_H
#define KVD_SERVER_NET_CONN_MANAGER_H

#include "server/server.h"

/*
 * Takes the events of the device's connections, up to a bound: server->events_left says that there
 * may be more.
 */
void conn_manager_cm_events(struct server *server, struct nic *nic);
/* Takes the device's asynchronous events, likewise. */
void conn_manager_async_events(struct server *server, struct nic *nic);
/* Takes the workers' notes. */
void conn_manager_read_mail(struct server *server);
/* Arms the limits of shared receive queues again that were reached. */
void conn_manager_rearm(struct server *server);
/* Closes the connections whose time is over. */
void conn_manager_expire(struct server *server, uint64_t now_ns);
/* Begins to close all. */
void conn_manager_close_all(struct server *server);
/* Whether a value is being pulled from a client. */
bool conn_manager_pulling(const struct server *server);
/* Whether a connection waits for its last flushed completion. */
bool conn_manager_flushing(const struct server *server);
/* Frees what is left when no worker runs any more. */
void conn_manager_free_all(struct server *server);

#endif /* KVD_SERVER_NET_CONN_MANAGER_H */
