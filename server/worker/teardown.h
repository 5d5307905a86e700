/* SPDX-License-Identifier: MIT */
/*
 * The worker's half of the end of a connection (server/worker/conn.h has both).
 *
 * Before a queue pair is destroyed its completions must be taken, or its receive buffers would be
 * lost. The worker takes them in its ordinary turns, among those of other connections: it posts a
 * marker to the queue pair, which is in the error state, and the marker's flush is the last
 * completion. (By then the control thread has seen IBV_EVENT_QP_LAST_WQE_REACHED, or waited for
 * FLUSH_WAIT_NS: the completions of receives are in the queue already. Those of sends come in
 * order.) The Linux kernel drains queue pairs in the same way, ib_drain_qp().
 *
 * Some devices take no work requests in the error state. Then the worker counts: a completion queue
 * holds at most cqe entries, so once it has taken that many more, or found the queue empty, it has
 * taken all that were there when the marker was refused.
 *
 * A failed device completes nothing more, so the worker does not wait for its markers.
 *
 * A connection leaves the poller's table before its queue pair is destroyed, so a lookup finds a
 * new connection whose queue pair gets the same number.
 */
#ifndef KVD_SERVER_WORKER_TEARDOWN_H
#define KVD_SERVER_WORKER_TEARDOWN_H

#include "server/worker/conn.h"

/* NOTE_QUIESCE: nothing more is posted but the marker. */
void teardown_begin(struct conn *conn);
/* The marker completed. */
void teardown_drained(struct conn *conn);
/* @count completions were taken at once, of BATCH_MAX that were asked for. */
void teardown_count(struct poller *poller, unsigned int count);
/* NOTE_RELEASE: releases what the connection holds. */
void teardown_release(struct conn *conn);

#endif /* KVD_SERVER_WORKER_TEARDOWN_H */
