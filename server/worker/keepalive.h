/* SPDX-License-Identifier: MIT */
/*
 * Keepalive: finds clients whose host vanished silently, so that their windows, slots and memory
 * come back. A connection from which nothing arrived for a while is probed with an RDMA READ of no
 * bytes, which the client's device answers, not the client: so a client that is busy, stopped or
 * asleep is alive. A READ of no bytes needs neither an address nor a key.
 *
 * The control thread looks at each connection once in server.keepalive_interval (CONN_TIMER_
 * KEEPALIVE) and sends the worker a note if it needs a probe. So n connections cause at most n
 * notes in an interval, sent together once a second, and wake a worker at most once a second.
 *
 * server/DESIGN.md has the time until a host that vanished is found.
 *
 * On softnic no keepalive is needed: the kernel reports at once that a process ended. There the
 * client answers a probe, when it polls.
 */
#ifndef KVD_SERVER_WORKER_KEEPALIVE_H
#define KVD_SERVER_WORKER_KEEPALIVE_H

#include "server/worker/conn.h"

/*
 * Two, so that a host that is stopped for an interval (a live migration, say) keeps its
 * connections. How soon a vanished host is found is set by server.keepalive_interval.
 */
#define KEEPALIVE_COUNT 2

enum keepalive {
	KEEPALIVE_NOTHING, /* something arrived, or the probe has more time */
	KEEPALIVE_PROBE,   /* send NOTE_PROBE */
	KEEPALIVE_DEAD,	   /* close the connection */
};

/* Whether the device needs probes. */
bool keepalive_needed(const struct conn *conn);

/*
 * The control thread, once in an interval: what to do with the connection. A probe has failed when
 * it is not answered after KEEPALIVE_COUNT more intervals.
 */
enum keepalive keepalive_check(struct conn *conn);

/* The worker: posts a probe, because of NOTE_PROBE. */
void keepalive_probe(struct conn *conn);
/* The worker: posts a probe for a reason of its own, if none is posted and there is room. */
void keepalive_post(struct conn *conn);
/* The worker: the probe with this wr_id was answered. */
void keepalive_answered(struct conn *conn, uint64_t wr_id);

#endif /* KVD_SERVER_WORKER_KEEPALIVE_H */
