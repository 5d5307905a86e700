/* SPDX-License-Identifier: MIT */
/*
 * Requests that the control thread answers while they are deferred, off the workers' path: CLIENTS,
 * KILL, REVOKE, TENANT, WHOAMI and REPORT, since it has the connections and tenants; SHUTDOWN and
 * CONFIG,
 * which it carries out; STATS, which takes longer than a worker's turn should; and HELLO
 * (server/worker/hello.h), for its system call.
 *
 *	worker	 query_send()		NOTE_QUERY
 *	control	 conn_manager_answer()	NOTE_ANSWER, unless the connection that asked is being closed
 *	worker	 query_answered()	the request goes on, and responds
 *
 * A connection has one query at a time, since its deferred requests are executed in order. Its
 * struct query is the worker's, between the two notes the control thread's. When the connection is
 * closed between them, the request is cancelled like every deferred one, and the control thread
 * forgets the query: it alone destroys the queue pair, so that exists while it works on the query.
 */
#ifndef KVD_SERVER_WORKER_QUERY_H
#define KVD_SERVER_WORKER_QUERY_H

#include "server/worker/deferred.h"

/* Busy turns from one held_show() to the next. */
#define HELD_TURNS 64

/* CLIENTS, KILL, REVOKE, TENANT, SHUTDOWN, WHOAMI, REPORT, CONFIG */
extern const struct deferred_kind query_kind;
extern const struct deferred_kind stats_kind;

/*
 * Shows in worker->held how much of each limited resource the worker's connections hold. When no
 * client asks for anything, each number is back at its earlier value; otherwise there is a leak.
 * The worker calls it when it has had nothing to do for a while, after every HELD_TURNS turns, and
 * for its own clients' STATS, so that a response includes what its own request holds.
 */
void held_show(struct worker *worker);

/* Asks the control thread. */
void query_send(struct conn *conn, enum wire_op op, uint64_t arg);

/* NOTE_ANSWER: the query of @conn was answered. */
void query_answered(struct conn *conn);

#endif /* KVD_SERVER_WORKER_QUERY_H */
