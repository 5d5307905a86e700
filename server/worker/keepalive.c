/* SPDX-License-Identifier: MIT */
/* Decides which connections are probed, and probes them. */
#include "server/worker/keepalive.h"

#include "common/util/stat.h"
#include "server/worker/poller.h"

bool keepalive_needed(const struct conn *conn)
{
	return device_kind_is_rdma(conn->id->dev->kind);
}

enum keepalive keepalive_check(struct conn *conn)
{
	uint64_t arrived = stat_read(&conn->client.requests) + stat_read(&conn->probes_answered);

	if (arrived != conn->arrived_before) {
		conn->arrived_before = arrived;
		conn->probe_intervals = 0;
		return KEEPALIVE_NOTHING;
	}
	/* The note may be sent again only after the worker took it. */
	if (atomic_load_explicit(&conn->probe_noted, memory_order_acquire))
		return KEEPALIVE_NOTHING;
	if (conn->probe_intervals++)
		return conn->probe_intervals > KEEPALIVE_COUNT ? KEEPALIVE_DEAD : KEEPALIVE_NOTHING;
	atomic_store_explicit(&conn->probe_noted, true, memory_order_relaxed);
	return KEEPALIVE_PROBE;
}

void keepalive_post(struct conn *conn)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id_make(WR_PROBE, conn->sq_unsignaled + 1, conn->serial, BUFFER_NONE),
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
	};

	/* A probe that is not answered yet does as well, and so does anything else outstanding. */
	if (conn->stopped || conn->probing || !sq_room(conn))
		return;
	if (ibv_post_send(conn->qp, &wr, &bad)) {
		conn_fail(conn, "ibv_post_send of a probe failed");
		return;
	}
	conn->probing = true;
	sq_take(conn);
	conn->sq_unsignaled = 0;
}

void keepalive_probe(struct conn *conn)
{
	atomic_store_explicit(&conn->probe_noted, false, memory_order_release);
	keepalive_post(conn);
}

void keepalive_answered(struct conn *conn, uint64_t wr_id)
{
	sq_put(conn, wr_id_covers(wr_id));
	conn->probing = false;
	stat_add(&conn->probes_answered, 1);
}
