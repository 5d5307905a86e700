/* SPDX-License-Identifier: MIT */
/*
 * Pulls: PUTs of large values, which the worker READs from the client's registered memory into a
 * fresh item. The item enters the table only when it is whole. The client writes nothing to the
 * server's memory (guarantee D), and may not change its buffer before the response. A connection
 * has one pull at a time; later requests of it may be done first.
 */
#ifndef KVD_SERVER_NET_PULL_H
#define KVD_SERVER_NET_PULL_H

#include "server/net/response.h"
#include "server/net/worker.h"

/*
 * Most bytes of one READ; the device's longest message may be shorter. As much as a worker sums in
 * a step: so it sums while the rest arrives, and sees the value arrive. On softnic, where both ends
 * copy, it would go to sleep within a longer READ, and be woken up for each 8 KiB of it.
 */
#define PULL_PIECE_BYTES (64u << 10)

/*
 * Starts to READ the value of @request, which gets its response when the value has arrived; or
 * responds with an error. False: it is to be called again. If room_pending(@room), when its steps
 * have made room for the item, until when the pull keeps its part of the budget; else it waits for
 * that, or for the answer to a probe (B1 to B6 in server/net/budget.h), and the connection is woken
 * by deferred_wake(). room_init() before the first call.
 */
bool pull_start(struct response_list *responses, struct conn *conn, const struct request *request,
		uint64_t hash, struct room *room);

/* A probe of the connection was answered: a pull that waits for that has no deadline any more. */
void pull_probed(struct conn *conn);

/* A pull that waits is not to be started any more. */
void pull_wait_cancel(struct conn *conn);

/*
 * A READ has completed: posts the next one. The caller calls deferred_wake() then: what has arrived
 * is summed by the connection's work (D7 in server/net/deferred.h), which puts the whole item into
 * the table and starts the response, for which there is a place then.
 */
void pull_done(struct conn *conn, uint64_t wr_id);

/* Whether pull_expire() will have something to do, now or later. */
static inline bool pull_expires(const struct worker *worker)
{
	return !TAILQ_EMPTY(&worker->pulls) ||
	       !TAILQ_EMPTY(&worker->pull_budget.waiting[BUDGET_LATE]);
}

/*
 * Fails the connections whose pull takes longer than server.pull_timeout, or of which no part
 * arrived for server.pull_stall. Wakes one of a late peer when its turn has come.
 */
void pull_expire(struct worker *worker);

/*
 * Other work requests of the connection completed: posts READs of its pull, if there is one, for
 * which there was no room in the send queue.
 */
void pull_continue(struct poller *poller, struct conn *conn);

/* The connection's queue pair is destroyed: frees the item of a pull that was not finished. */
void pull_release(struct poller *poller, struct conn *conn);

#endif /* KVD_SERVER_NET_PULL_H */
