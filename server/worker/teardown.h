/* SPDX-License-Identifier: MIT */
/*
 * The worker's half of the end of a connection (server/worker/conn.h has both).
 *
 * Before a queue pair is destroyed its completions have to be taken, or its receive buffers would
 * be lost. They are taken in the ordinary turns, behind those of other connections: the worker
 * posts a marker to the queue pair, which is in the error state, and the marker's flush is the last
 * completion. (By then the control thread has seen IBV_EVENT_QP_LAST_WQE_REACHED, or waited for
 * FLUSH_WAIT_NS: the completions of receives are in the queue already. Those of sends come in
 * order.) The Linux kernel drains queue pairs in the same way, ib_drain_qp().
 *
 * Some devices take no work requests in the error state. Then the worker counts: a completion queue
 * holds cqe entries at most, so when as many more were taken, or it was found empty, all that were
 * in it when the marker was refused have been taken.
 *
 * A device that failed completes nothing more: there the markers are not waited for.
 *
 * A connection leaves the poller's table before its queue pair is destroyed, so a new connection
 * whose queue pair gets the same number is found by it.
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
