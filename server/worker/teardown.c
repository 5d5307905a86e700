/* SPDX-License-Identifier: MIT */
/* Drains connections that end and releases what they hold. */
#include "server/worker/teardown.h"

#include "server/worker/deferred.h"
#include "server/worker/pull.h"
#include "server/worker/response.h"
#include "server/worker/window.h"
#include "server/worker/worker.h"

/* False: the device does not take it. There is a place for it in the send queue. */
static bool marker_post(struct conn *conn)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id_make(WR_MARKER, 1, conn->serial, BUFFER_NONE),
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	return !ibv_post_send(conn->qp, &wr, &bad);
}

void teardown_begin(struct conn *conn)
{
	struct poller *poller = conn->poller;

	conn->stopped = true;
	deferred_cancel(conn);
	conn->marked = marker_post(conn);
	if (conn->marked) {
		TAILQ_INSERT_TAIL(&poller->marked, conn, drain_entry);
		return;
	}
	conn->drained_at = poller->taken + (uint64_t)poller->cq->cqe;
	TAILQ_INSERT_TAIL(&poller->unmarked, conn, drain_entry);
}

void teardown_drained(struct conn *conn)
{
	struct poller *poller = conn->poller;

	if (conn->marked)
		TAILQ_REMOVE(&poller->marked, conn, drain_entry);
	else
		TAILQ_REMOVE(&poller->unmarked, conn, drain_entry);
	rcu_read_lock();
	conn_table_remove(conn);
	rcu_read_unlock();
	mailbox_send(conn->poller->worker->env->control, &conn->notes[NOTE_QUIESCED]);
}

void teardown_count(struct poller *poller, unsigned int count)
{
	struct conn *conn;

	poller->taken += count;
	while ((conn = TAILQ_FIRST(&poller->unmarked)) &&
	       (count < BATCH_MAX || poller->taken >= conn->drained_at))
		teardown_drained(conn);
	if (count == BATCH_MAX || !atomic_load_explicit(&poller->nic->gone, memory_order_relaxed))
		return;
	while ((conn = TAILQ_FIRST(&poller->marked)))
		teardown_drained(conn);
}

void teardown_release(struct conn *conn)
{
	struct poller *poller = conn->poller;

	conn->qp_destroyed = true;
	deferred_cancel(conn);
	pull_release(conn);
	response_release_all(poller, conn);
	window_release(conn);
	mailbox_send(poller->worker->env->control, &conn->notes[NOTE_RELEASED]);
}
