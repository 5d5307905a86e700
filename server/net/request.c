/* SPDX-License-Identifier: MIT */
#include "server/net/request.h"

#include <stdio.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/net/copy.h"
#include "server/net/operate.h"
#include "server/net/pull.h"
#include "server/server.h"
#include "server/stats.h"
#include "server/store/store.h"

/*
 * Only now may the client's queue pair read here, and only now does it learn where (design: the
 * handshake). A system call, but not on the path of a request: a connection says HELLO once.
 */
static bool grant_remote_read(struct conn *conn)
{
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_READ };
	int err = conn->id->dev->ops->modify_qp(conn->qp, &attr, IBV_QP_ACCESS_FLAGS);

	if (err) {
		log_error(CONN_FMT ": can't grant remote read: %s", CONN_ARG(conn), strerror(-err));
		conn_fail(conn, "remote read could not be granted");
	}
	return !err;
}

static void welcome_fill(struct wire_welcome *welcome, const struct conn *conn)
{
	const struct endpoint *endpoint = conn->endpoint;
	const struct table *table = endpoint->worker->store_thread.table;
	const struct config *config = &endpoint->worker->server->config;
	bool evicts = config->memory.eviction != EVICTION_NONE;

	*welcome = (struct wire_welcome){
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.window = conn->window,
		.request_bytes = endpoint->worker->limits.buffer_bytes,
		.rkey = endpoint->nic->mr->rkey,
		.region_addr = (uintptr_t)table->region->base,
		.access_rate = evicts ? config->memory.access_rate : 0,
		.access_delay_ms = (uint32_t)(config->memory.access_delay / 1000000),
	};
	index_geometry(table, &welcome->geometry);
}

static void request_hello(struct replies *replies, struct conn *conn, const struct request *request)
{
	uint32_t most = replies->endpoint->worker->limits.buffer_bytes;
	struct wire_welcome welcome;
	struct wire_hello hello;
	struct reply *reply;
	uint32_t size;
	void *value;

	memcpy(&hello, request->value, sizeof(hello));
	if (hello.magic != WIRE_MAGIC || hello.features || conn->open ||
	    hello.response_bytes < WIRE_RESPONSE_MIN || hello.response_bytes > WIRE_RESPONSE_MAX) {
		conn_fail(conn, "HELLO with impossible values");
		return;
	}
	reply = reply_start(replies, conn, WIRE_HELLO, request->id);
	if (hello.abi != WIRE_ABI) {
		reply->head.status = WIRE_PROTOCOL;
		return;
	}
	conn->response_bytes = hello.response_bytes < most ? hello.response_bytes : most;
	if (!grant_remote_read(conn))
		return;
	value = reply_buffer(replies, reply, &size);
	if (!value)
		return;
	welcome_fill(&welcome, conn);
	memcpy(value, &welcome, sizeof(welcome));
	reply->value_len = sizeof(welcome);
	conn->open = true;
	atomic_store_explicit(&conn->greeted, true, memory_order_relaxed);
}

/* The value fits no response: the client reads a copy. */
static void reply_with_copy(struct replies *replies, struct reply *reply,
			    const struct request *request, uint64_t hash)
{
	struct worker *worker = replies->endpoint->worker;
	struct item *copy;

	reply_drop_buffer(replies, reply);
	copy = operate_copy(&worker->store_thread, request, hash, worker->copy_seed++,
			    &reply->head);
	if (!copy)
		return;
	copy_keep(worker, reply->conn, copy);
	stat_add(&worker->stats.get_copies, 1);
}

static void count_operation(struct worker_stats *stats, enum wire_op op, enum wire_status status)
{
	switch (op) {
	case WIRE_GET:
		stat_add(&stats->gets, 1);
		stat_add(&stats->get_misses, status == WIRE_NOT_FOUND);
		break;
	case WIRE_PUT:
	case WIRE_ARITH:
		stat_add(&stats->puts, 1);
		stat_add(&stats->put_no_space, status == WIRE_NO_SPACE);
		stat_add(&stats->put_too_large, status == WIRE_TOO_LARGE);
		break;
	case WIRE_DELETE:
		stat_add(&stats->deletes, 1);
		stat_add(&stats->delete_misses, status == WIRE_NOT_FOUND);
		break;
	case WIRE_TOUCH:
		stat_add(&stats->touches, 1);
		break;
	case WIRE_SCAN:
		stat_add(&stats->scans, 1);
		break;
	default:
		break;
	}
}

static void request_operate(struct replies *replies, struct conn *conn,
			    const struct request *request, uint64_t hash)
{
	struct worker *worker = replies->endpoint->worker;
	struct reply *reply = reply_start(replies, conn, request->op, request->id);
	struct answer answer = { 0 };

	if (operate_answers(request->op)) {
		answer.value = reply_buffer(replies, reply, &answer.size);
		if (!answer.value)
			return;
	}
	operate(&worker->store_thread, request, hash, &reply->head, &answer);
	count_operation(&worker->stats, request->op, reply->head.status);
	reply->value_len = answer.len;
	if (request->op == WIRE_GET && !reply->head.status && reply->head.value_len > answer.size)
		reply_with_copy(replies, reply, request, hash);
}

static void request_flush(struct replies *replies, struct conn *conn, const struct request *request)
{
	struct worker *worker = replies->endpoint->worker;
	struct reply *reply = reply_start(replies, conn, WIRE_FLUSH, request->id);
	struct maintenance *maintenance = &worker->server->store.maintenance;

	reply->head.ticket = request->ticket;
	if (request->ticket) {
		reply->head.status = maintenance_flushed(maintenance, request->ticket) ? WIRE_OK :
											 WIRE_BUSY;
		return;
	}
	reply->head.ticket = maintenance_flush(maintenance, worker->store_thread.now_ns,
					       request->ttl);
	reply->head.status = reply->head.ticket ? WIRE_OK : WIRE_BUSY;
}

static void request_stats(struct replies *replies, struct conn *conn, const struct request *request)
{
	struct reply *reply = reply_start(replies, conn, WIRE_STATS, request->id);
	uint32_t size;
	char *text = reply_buffer(replies, reply, &size);

	if (text)
		reply->value_len = stats_print(replies->endpoint->worker->server,
					       request->first_line, text, size,
					       &reply->head.next_line);
}

void request_execute(struct replies *replies, struct conn *conn, const struct request *request,
		     uint64_t hash)
{
	if (!conn->open && request->op != WIRE_HELLO) {
		conn_fail(conn, "a request before HELLO");
		return;
	}
	copy_drop(replies->endpoint->worker, conn);
	switch (request->op) {
	case WIRE_HELLO:
		request_hello(replies, conn, request);
		break;
	case WIRE_STATS:
		request_stats(replies, conn, request);
		break;
	case WIRE_FLUSH:
		request_flush(replies, conn, request);
		break;
	case WIRE_PUT:
		if (request->flags & WIRE_F_PULL)
			pull_start(replies, conn, request, hash);
		else
			request_operate(replies, conn, request, hash);
		break;
	case WIRE_PING:
	case WIRE_ACCESS:
	case WIRE_GET:
	case WIRE_DELETE:
	case WIRE_ARITH:
	case WIRE_TOUCH:
	case WIRE_SCAN:
		request_operate(replies, conn, request, hash);
		break;
	}
	operate_access(&replies->endpoint->worker->store_thread, request);
}
