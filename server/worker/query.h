/* SPDX-License-Identifier: MIT */
/*
 * Requests that the control thread answers while they are deferred, off the workers' path: CLIENTS,
 * KILL, REVOKE and TENANT, since it has the connections and tenants; STATS, which takes longer than
 * a worker's turn should; and HELLO (server/worker/hello.h), for its system call.
 *
 *	worker	 query_send()		NOTE_QUERY
 *	control	 conn_manager_answer()	NOTE_ANSWER, unless the connection that asked is being closed
 *	worker	 query_answered()	the request goes on, and responds
 *
 * A connection has one query at a time, since its deferred requests are executed in order. Its
 * struct query is the worker's, between the two notes the control thread's. When the connection is
 * closed between them, the request is cancelled like every deferred one, and the control thread
 * forgets the query: it destroys the queue pair itself, so that is there while it works on it.
 */
#ifndef KVD_SERVER_WORKER_QUERY_H
#define KVD_SERVER_WORKER_QUERY_H

#include "server/worker/deferred.h"

extern const struct deferred_kind query_kind; /* CLIENTS, KILL, REVOKE, TENANT */
extern const struct deferred_kind stats_kind;

/* Asks the control thread. */
void query_send(struct conn *conn, enum wire_op op, uint64_t arg);

/* NOTE_ANSWER: the query of @conn was answered. */
void query_answered(struct conn *conn);

#endif /* KVD_SERVER_WORKER_QUERY_H */
