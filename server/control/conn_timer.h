/* SPDX-License-Identifier: MIT */
/*
 * Deadlines of connections, for the control thread. All deadlines of one kind have the same delay,
 * so appending to one list for each kind keeps it in the order of expiry: each call takes constant
 * time, whatever the number of connections.
 *
 * A connection has one deadline at a time: first for its HELLO, at the end for its flush.
 */
#ifndef KVD_SERVER_CONTROL_CONN_TIMER_H
#define KVD_SERVER_CONTROL_CONN_TIMER_H

#include <stdint.h>

#include "server/worker/conn.h"

TAILQ_HEAD(conn_timer_list, conn);

struct conn_timers {
	struct conn_timer_list lists[CONN_TIMER_KINDS];
	uint64_t delays_ns[CONN_TIMER_KINDS];
};

/* @delays_ns: for each kind, from conn_timer_set() to the deadline. */
void conn_timers_init(struct conn_timers *timers, const uint64_t delays_ns[CONN_TIMER_KINDS]);

/* Sets the connection's deadline, replacing any other. @now_ns never goes back. */
void conn_timer_set(struct conn_timers *timers, struct conn *conn, enum conn_timer kind,
		    uint64_t now_ns);
/* The connection has no deadline any more. */
void conn_timer_cancel(struct conn_timers *timers, struct conn *conn);

/* The connection whose deadline of this kind passed first, or NULL. Removes that deadline. */
struct conn *conn_timer_take(struct conn_timers *timers, enum conn_timer kind, uint64_t now_ns);

/* Whether a connection has a deadline of this kind. */
static inline bool conn_timer_any(const struct conn_timers *timers, enum conn_timer kind)
{
	return !TAILQ_EMPTY(&timers->lists[kind]);
}

#endif /* KVD_SERVER_CONTROL_CONN_TIMER_H */
