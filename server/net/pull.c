/* SPDX-License-Identifier: MIT */
/* READs large values from clients, piece by piece, and commits them to the table. */
#include "server/net/pull.h"

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/net/execute.h"
#include "server/net/worker.h"

static void pull_list_add(struct worker *worker, struct conn *conn)
{
	conn->pull_since_ns = clock_ns();
	TAILQ_INSERT_TAIL(&worker->pulls, conn, pull_entry);
	stat_add(&worker->pulls_count, 1);
}

static void pull_list_remove(struct worker *worker, struct conn *conn)
{
	if (!conn->pull_since_ns)
		return;
	TAILQ_REMOVE(&worker->pulls, conn, pull_entry);
	conn->pull_since_ns = 0;
	stat_sub(&worker->pulls_count, 1);
}

static uint32_t piece_bytes(const struct poller *poller, uint32_t left)
{
	uint32_t bytes_max = PULL_PIECE_BYTES;

	if (poller->nic->port.max_msg_sz < bytes_max)
		bytes_max = poller->nic->port.max_msg_sz;
	return left < bytes_max ? left : bytes_max;
}

static bool pull_post(struct poller *poller, struct conn *conn)
{
	struct pull *pull = &conn->pull;
	uint32_t bytes = piece_bytes(poller, pull->left);
	struct ibv_sge sge = {
		.addr = (uintptr_t)pull->to,
		.length = bytes,
		.lkey = poller->nic->mr->lkey,
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
		conn_fail(conn, "ibv_post_send of the READ of a large value failed");
		return false;
	}
	sq_take(conn);
	conn->sq_unsignaled = 0;
	pull->reads_posted++;
	pull->addr += bytes;
	pull->to += bytes;
	pull->left -= bytes;
	return true;
}

static void pull_fill_queue(struct poller *poller, struct conn *conn)
{
	while (conn->pull.left && conn->pull.reads_posted < PULL_DEPTH && sq_room(conn))
		if (!pull_post(poller, conn))
			return;
}

/* Checks what needs no memory: the value's length, and that no other pull is active. */
static enum wire_status pull_admit(struct poller *poller, struct conn *conn,
				   const struct request *request)
{
	struct worker *worker = poller->worker;

	if (request->value_len > worker->store_thread.table->region->geometry.value_max) {
		stat_add(&worker->stats.put_too_large, 1);
		return WIRE_TOO_LARGE;
	}
	if (conn->pull.item)
		return WIRE_BUSY;
	return WIRE_OK;
}

void pull_start(struct response_list *responses, struct conn *conn, const struct request *request,
		uint64_t hash)
{
	struct poller *poller = responses->poller;
	struct store_thread *thread = &poller->worker->store_thread;
	enum wire_status status = pull_admit(poller, conn, request);
	struct table_change change;
	struct item *item;

	stat_add(&poller->worker->stats.puts, 1);
	put_change_init(request, &change);
	item = status ? NULL : table_reserve(thread, &change);
	if (!status && !item) {
		stat_add(&poller->worker->stats.put_no_space, 1);
		status = WIRE_NO_SPACE;
	}
	if (status) {
		response_start(responses, conn, WIRE_PUT, request->id)->head.status =
			(uint8_t)status;
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
	pull_list_add(poller->worker, conn);
	stat_add(&poller->worker->stats.pulls, 1);
	stat_add(&poller->worker->stats.pull_bytes, request->value_len);
	pull_fill_queue(poller, conn);
}

static void pull_finish(struct response_list *responses, struct conn *conn)
{
	struct worker *worker = responses->poller->worker;
	struct response_wr *response = response_start(responses, conn, WIRE_PUT, conn->pull.id);
	struct table_change change = {
		.mode = (enum wire_put)conn->pull.mode,
		.ttl = conn->pull.ttl,
		.version = conn->pull.version,
		.flags = conn->pull.item->flags,
	};
	enum wire_status status;

	status = table_commit(&worker->store_thread, conn->pull.hash, conn->pull.item, &change);
	conn->pull.item = NULL;
	pull_list_remove(worker, conn);
	response_set_change(&change, status, &response->head);
	stat_add(&worker->stats.put_no_space, status == WIRE_NO_SPACE);
	stat_add(&worker->stats.put_too_large, status == WIRE_TOO_LARGE);
}

void pull_done(struct response_list *responses, struct conn *conn, uint64_t wr_id)
{
	sq_put(conn, wr_id_covers(wr_id));
	conn->pull.reads_posted--;
	if (conn->stopped)
		return;
	if (conn->pull.left)
		pull_fill_queue(responses->poller, conn);
	else if (!conn->pull.reads_posted)
		pull_finish(responses, conn);
}

void pull_expire(struct worker *worker)
{
	struct conn *conn;
	uint64_t now_ns;

	if (TAILQ_EMPTY(&worker->pulls))
		return;
	now_ns = clock_ns();
	while ((conn = TAILQ_FIRST(&worker->pulls)) &&
	       now_ns - conn->pull_since_ns > worker->limits.pull_ns) {
		pull_list_remove(worker, conn);
		conn_fail(conn, "a large value was not read from the client within "
				"server.pull_timeout");
	}
}

void pull_continue(struct poller *poller, struct conn *conn)
{
	if (conn->pull.item && !conn->stopped)
		pull_fill_queue(poller, conn);
}

void pull_release(struct poller *poller, struct conn *conn)
{
	pull_list_remove(poller->worker, conn);
	if (conn->pull.item)
		table_abandon(&poller->worker->store_thread, conn->pull.item);
	conn->pull.item = NULL;
}
