/* SPDX-License-Identifier: MIT */
/*
 * Pulls: PUTs of large values, which the worker READs from the client's registered memory into a
 * fresh item. The item enters the table only when it is whole. The client writes nothing to the
 * server's memory (guarantee D), and may not change its buffer before the response.
 *
 *   PULL-1. A pull is a deferred request: it keeps its receive, and takes effect in its place among
 *	 the requests of its connection. Later requests wait (DEFERRED-3).
 *   PULL-2. Consecutive pulls, from the first request of the connection on, are READ one after
 *	 another without a pause: while the first is summed and put into the table, the next ones
 *	 arrive. They enter the table in order.
 *   PULL-3. Only the first pull waits for memory, for room to be made, or is refused. A later one
 *	 begins early if there is memory that nobody waits for (BUDGET-5 in server/worker/budget.h);
 *	 otherwise when it is the first.
 *   PULL-4. READs of a connection complete in the order of its pulls. So a pull that has arrived
 *	 never follows one that has not, and a client that holds data back delays only its own
 *	 values.
 *   PULL-5. Where the device can READ without the client (read_now() in common/rdma/device.h), the
 *	 steps of a pull do that, in pieces of their turns, and copy and sum in one pass. Such a
 *	 pull begins when it is the first request of its connection, and no later value is READ
 *	 ahead. The client's time limits do not run, but for PULL-6. If that can't go on, READs are
 *	 posted for the rest.
 *   PULL-6. The client may still be filling its memory (fill() in common/rdma/device.h): the steps
 *	 READ what is there, and leave their time to others when there is nothing. A client that
 *	 filled nothing for PULL_FILL_NS is not running, or slow: then the pull waits until it has
 *	 served a READ of no bytes, which it does when all is there. After server.pull_stall the
 *	 pull looks once more: if nothing came, the connection ends; else it goes on. If the client
 *	 serves the READ and not all is there, or it is late PULL_FILL_WAITS times, READs are posted
 *	 for the rest. So a client that stops halfway costs the others no more than one that serves
 *	 no READ.
 */
#ifndef KVD_SERVER_WORKER_PULL_H
#define KVD_SERVER_WORKER_PULL_H

#include "server/worker/deferred.h"
#include "server/worker/worker.h"

/* A PUT whose value is pulled. */
extern const struct deferred_kind pull_kind;

/* A probe of the connection was answered: a pull that waits for it has no deadline any more. */
void pull_probed(struct conn *conn);

/* Begins pulls early and posts READs, if there is memory, and room in the send queue. */
void pull_more(struct conn *conn);

/* The connection's queue pair is destroyed: releases the memory that READs filled. */
void pull_release(struct conn *conn);

#endif /* KVD_SERVER_WORKER_PULL_H */
