/* SPDX-License-Identifier: MIT */
/*
 * Pulls: PUTs of large values, which the worker READs from the client's registered memory into a
 * fresh item. The item enters the table only when it is whole. The client writes nothing to the
 * server's memory (guarantee D), and may not change its buffer before the response.
 *
 *   PULL-1. A pull is a deferred request: it keeps its receive, and takes effect in its place among
 *	 the requests of its connection. What comes behind it waits (DEFERRED-3).
 *   PULL-2. Pulls that follow one another, from the first request of the connection on, are READ
 *	 one behind the other without a pause: while the first one is summed and put into the table,
 *	 the next ones arrive. They are put into the table in their order.
 *   PULL-3. Only the first one waits for memory, has room made for it, or is refused. A later one
 *	 begins early if there is memory for it that nobody waits for (BUDGET-5 in
 *	 server/worker/budget.h); else when it is the first one.
 *   PULL-4. READs of a connection complete in the order of its pulls. So one that has arrived is
 *	 behind none that has not, and what a client holds back holds up no value but its own.
 *   PULL-5. Where the device can READ without the client (read_now() in common/rdma/device.h), the
 *	 steps of a pull do that, in pieces of their turns, and copy and sum in one pass. Such a
 *	 pull begins when it is the first request of its connection, and nothing is READ ahead
 *	 behind it. No time passes for the client, but for PULL-6. If it can't go on so, READs are
 *	 posted for the rest.
 *   PULL-6. The client may still be filling its memory (fill() in common/rdma/device.h): the steps
 *	 READ what is there, and leave their time to others when there is nothing. A client that
 *	 filled nothing for PULL_FILL_NS is not running, or slow: then the pull waits until it has
 *	 served a READ of no bytes, which it does when all is there. After server.pull_stall the
 *	 pull looks once more: if nothing came, the connection ends; else it goes on. If the client
 *	 serves the READ and not all is there, or it is late PULL_FILL_WAITS times, READs are
 *	 posted for the rest. So a client that stops halfway costs the others what one costs that
 *	 serves no READ.
 */
#ifndef KVD_SERVER_WORKER_PULL_H
#define KVD_SERVER_WORKER_PULL_H

#include "server/worker/deferred.h"
#include "server/worker/worker.h"

/* A PUT whose value is pulled. */
extern const struct deferred_kind pull_kind;

/* A probe of the connection was answered: a pull that waits for that has no deadline any more. */
void pull_probed(struct conn *conn);

/* Begins pulls early and posts READs, if there is memory, and room in the send queue, again. */
void pull_more(struct conn *conn);

/* The connection's queue pair is destroyed: what was being READ into is free. */
void pull_release(struct conn *conn);

#endif /* KVD_SERVER_WORKER_PULL_H */
