/* SPDX-License-Identifier: MIT */
/*
 * Requests about connections: CLIENTS lists them, KILL closes one. The control thread has the
 * connections, so it answers, off the workers' path, while the request is deferred:
 *
 *	worker	 query_step()		NOTE_QUERY
 *	control	 query_answer()		NOTE_ANSWER, unless the connection that asked is being closed
 *	worker	 query_answered()	the request goes on, and responds
 *
 * A connection has one query at a time, since its deferred requests are executed in order. Its
 * struct query is the worker's, between the two notes the control thread's.
 */
#ifndef KVD_SERVER_NET_QUERY_H
#define KVD_SERVER_NET_QUERY_H

#include "server/net/deferred.h"

extern const struct deferred_kind query_kind;

/* NOTE_ANSWER: the query of @conn was answered. */
void query_answered(struct conn *conn);

#endif /* KVD_SERVER_NET_QUERY_H */
