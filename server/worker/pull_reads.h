/* SPDX-License-Identifier: MIT */
/*
 * The READs of large values: posted in the order of the connection's requests, PULL_DEPTH at a time
 * and at most that many pieces ahead of the sum; and how long a client may take for them.
 */
#ifndef KVD_SERVER_WORKER_PULL_READS_H
#define KVD_SERVER_WORKER_PULL_READS_H

#include "server/worker/deferred.h"
#include "server/worker/worker.h"

/*
 * The most bytes of one READ; the device's longest message may be shorter. A worker sums that much
 * in a step: so it sums while the rest arrives, and sees the value arrive. On softnic, where both
 * ends copy, it would fall asleep during a longer READ, and be woken for each 8 KiB of it.
 */
#define PULL_PIECE_BYTES (64u << 10)
/*
 * The most bytes of one READ over RDMA, for a connection with several pulls: another value is
 * summed while a READ arrives, and each READ is work for the devices. On Soft-RoCE that stores 4 to
 * 20 % more values of 1 MiB a second, with 4 under way; 256 KiB made no difference.
 */
#define PULL_PIECE_BYTES_LONG (1u << 20)

/* PULL-6: a client that has filled nothing for this long is not running: a part takes some 2 us. */
#define PULL_FILL_NS 20000u
/* PULL-6: how often a client may be late within one value. */
#define PULL_FILL_WAITS 8u

/* READs the value of @deferred, whose pull has just got memory. */
void pull_reads_begin(struct deferred *deferred);
/* READs it with pull_now_step() (PULL-5 in pull.h). Takes room for the response, which there is. */
void pull_now_begin(struct deferred *deferred);
/*
 * READs and sums @bytes_max at most; or, if the device can't, posts READs: pull->now is false.
 * False: the client is filling its memory, and pull_now_wait() says what is next.
 */
bool pull_now_step(struct deferred *deferred, uint32_t bytes_max);
enum piece_next pull_now_wait(struct deferred *deferred);
/* Posts as many READs as there is room for. */
void pull_reads_fill(struct conn *conn);
/* @bytes of the value have been summed. */
void pull_reads_summed(struct deferred *deferred, uint64_t bytes);

/* The client has server.pull_stall for its next step. Does nothing if the clock runs already. */
void pull_clock_start(struct conn *conn);
void pull_clock_stop(struct conn *conn);
/* The time of the next value starts now. */
void pull_clock_next(struct conn *conn);

/*
 * A READ has completed: posts further ones. The caller then calls deferred_wake(), so that the
 * pull's step sums what has arrived.
 */
void pull_done(struct conn *conn, uint64_t wr_id);

/* Whether pull_expire() will have something to do, now or later. */
static inline bool pull_expires(const struct worker *worker)
{
	return !TAILQ_EMPTY(&worker->pulls);
}

/*
 * Fails the connections whose pull takes longer than server.pull_timeout, or gets no part for
 * server.pull_stall.
 */
void pull_expire(struct worker *worker);

#endif /* KVD_SERVER_WORKER_PULL_READS_H */
