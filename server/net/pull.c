/* SPDX-License-Identifier: MIT */
#include "server/net/pull.h"

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/net/operate.h"

static uint32_t piece_bytes(const struct endpoint *endpoint, uint32_t left)
{
	uint32_t most = PULL_PIECE_BYTES;

	if (endpoint->nic->port.max_msg_sz < most)
		most = endpoint->nic->port.max_msg_sz;
	return left < most ? left : most;
}

static bool pull_post(struct endpoint *endpoint, struct conn *conn)
{
	struct pull *pull = &conn->pull;
	uint32_t bytes = piece_bytes(endpoint, pull->left);
	struct ibv_sge sge = {
		.addr = (uintptr_t)pull->to,
		.length = bytes,
		.lkey = endpoint->nic->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id_make(WR_PULL, conn->sq_unsignaled + 1, conn->serial, BUFFER_NONE),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = pull->addr, .rkey = pull->rkey },
	};

	if (ibv_post_send(conn->qp, &wr, &bad)) {
		conn_fail(conn, "ibv_post_send of a READ failed");
		return false;
	}
	conn->sq_used++;
	conn->sq_unsignaled = 0;
	pull->out++;
	pull->addr += bytes;
	pull->to += bytes;
	pull->left -= bytes;
	return true;
}

static void pull_fill_queue(struct endpoint *endpoint, struct conn *conn)
{
	while (conn->pull.left && conn->pull.out < PULL_DEPTH)
		if (!pull_post(endpoint, conn))
			return;
}

/* Whether the value can be taken at all. */
static enum wire_status pull_admit(struct endpoint *endpoint, struct conn *conn,
				   const struct request *request)
{
	struct worker *worker = endpoint->worker;

	if (request->value_len > worker->store_thread.table->region->geometry.value_max) {
		stat_add(&worker->stats.put_too_large, 1);
		return WIRE_TOO_LARGE;
	}
	if (conn->pull.item)
		return WIRE_BUSY;
	return WIRE_OK;
}

void pull_start(struct replies *replies, struct conn *conn, const struct request *request,
		uint64_t hash)
{
	struct endpoint *endpoint = replies->endpoint;
	struct store_thread *thread = &endpoint->worker->store_thread;
	enum wire_status status = pull_admit(endpoint, conn, request);
	struct table_change change;
	struct item *item;

	stat_add(&endpoint->worker->stats.puts, 1);
	operate_put_change(request, &change);
	item = status ? NULL : table_reserve(thread, &change);
	if (!status && !item) {
		stat_add(&endpoint->worker->stats.put_no_space, 1);
		status = WIRE_NO_SPACE;
	}
	if (status) {
		reply_start(replies, conn, WIRE_PUT, request->id)->head.status = (uint8_t)status;
		return;
	}
	conn->pull = (struct pull){
		.item = item,
		.hash = hash,
		.addr = request->pull_addr,
		.to = table_reserved_value(item),
		.left = request->value_len,
		.rkey = request->pull_rkey,
		.id = request->id,
		.mode = request->mode,
		.ttl = request->ttl,
		.version = request->version,
	};
	atomic_store_explicit(&conn->pull_since_ns, clock_ns(), memory_order_relaxed);
	stat_add(&endpoint->worker->stats.pulls, 1);
	stat_add(&endpoint->worker->stats.pull_bytes, request->value_len);
	pull_fill_queue(endpoint, conn);
}

static void pull_finish(struct replies *replies, struct conn *conn)
{
	struct worker *worker = replies->endpoint->worker;
	struct reply *reply = reply_start(replies, conn, WIRE_PUT, conn->pull.id);
	struct table_change change = {
		.mode = (enum wire_put)conn->pull.mode,
		.ttl = conn->pull.ttl,
		.version = conn->pull.version,
		.flags = conn->pull.item->flags,
	};
	enum wire_status status;

	status = table_commit(&worker->store_thread, conn->pull.hash, conn->pull.item, &change);
	conn->pull.item = NULL;
	atomic_store_explicit(&conn->pull_since_ns, 0, memory_order_relaxed);
	operate_changed(&change, status, &reply->head);
	stat_add(&worker->stats.put_no_space, status == WIRE_NO_SPACE);
	stat_add(&worker->stats.put_too_large, status == WIRE_TOO_LARGE);
}

void pull_done(struct replies *replies, struct conn *conn, uint64_t wr_id)
{
	conn->sq_used -= wr_id_covers(wr_id);
	conn->pull.out--;
	if (conn->stopped)
		return;
	if (conn->pull.left)
		pull_fill_queue(replies->endpoint, conn);
	else if (!conn->pull.out)
		pull_finish(replies, conn);
}

void pull_release(struct endpoint *endpoint, struct conn *conn)
{
	if (conn->pull.item)
		table_abandon(&endpoint->worker->store_thread, conn->pull.item);
	conn->pull.item = NULL;
}
