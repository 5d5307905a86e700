/* SPDX-License-Identifier: MIT */
/* Keeps the deadlines of connections in one list for each kind. */
#include "server/control/conn_timer.h"

void conn_timers_init(struct conn_timers *timers, const uint64_t delays_ns[CONN_TIMER_KINDS])
{
	unsigned int kind;

	for (kind = 0; kind < CONN_TIMER_KINDS; kind++) {
		TAILQ_INIT(&timers->lists[kind]);
		timers->delays_ns[kind] = delays_ns[kind];
	}
}

void conn_timer_cancel(struct conn_timers *timers, struct conn *conn)
{
	if (!conn->timer_due_ns)
		return;
	TAILQ_REMOVE(&timers->lists[conn->timer], conn, timer_entry);
	conn->timer_due_ns = 0;
}

void conn_timer_set(struct conn_timers *timers, struct conn *conn, enum conn_timer kind,
		    uint64_t now_ns)
{
	conn_timer_cancel(timers, conn);
	conn->timer = kind;
	conn->timer_due_ns = now_ns + timers->delays_ns[kind];
	TAILQ_INSERT_TAIL(&timers->lists[kind], conn, timer_entry);
}

struct conn *conn_timer_take(struct conn_timers *timers, enum conn_timer kind, uint64_t now_ns)
{
	struct conn *conn = TAILQ_FIRST(&timers->lists[kind]);

	if (!conn || now_ns <= conn->timer_due_ns)
		return NULL;
	conn_timer_cancel(timers, conn);
	return conn;
}
