/* SPDX-License-Identifier: MIT */
#include "server/request.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "server/copy.h"
#include "server/pull.h"
#include "server/stat.h"
#include "server/stats.h"

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
	const struct table *table = endpoint->worker->writer.table;

	*welcome = (struct wire_welcome){
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.window = conn->window,
		.request_bytes = endpoint->worker->limits.buffer_bytes,
		.rkey = endpoint->nic->mr->rkey,
		.region_addr = (uintptr_t)table->region->base,
		.geometry = table->region->geometry,
	};
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

/* The value fits no response: the client reads a copy. See server/table.h, table_copy(). */
static void reply_with_copy(struct replies *replies, struct reply *reply,
			    const struct request *request, uint64_t hash)
{
	struct worker *worker = replies->endpoint->worker;
	struct conn *conn = reply->conn;
	uint64_t seed = worker->copy_seed++;
	enum wire_status status;
	struct item *copy;

	reply_drop_buffer(replies, reply);
	status = table_copy(&worker->writer, hash, request->key, request->key_len, seed, &copy);
	reply->head.status = (uint8_t)status;
	if (status)
		return;
	copy_keep(worker, conn, copy);
	stat_add(&worker->stats.get_copies, 1);
	reply->head.flags = WIRE_R_COPY;
	reply->head.seed = seed;
	reply->head.version = copy->version;
	reply->head.item_flags = copy->flags;
	reply->head.value_len = copy->value_len;
	reply->head.slot = slot_make(hash_tag(hash),
				     region_offset(worker->writer.table->region, copy),
				     item_bytes(copy->key_len, copy->value_len));
}

static void request_get(struct replies *replies, struct conn *conn, const struct request *request,
			uint64_t hash)
{
	struct worker *worker = replies->endpoint->worker;
	struct reply *reply = reply_start(replies, conn, WIRE_GET, request->id);
	struct table_value value;
	enum wire_status status;
	uint32_t size;
	void *buffer = reply_buffer(replies, reply, &size);

	if (!buffer)
		return;
	stat_add(&worker->stats.gets, 1);
	status = table_get(&worker->writer, hash, request->key, request->key_len, buffer, size,
			   &value);
	reply->head.status = (uint8_t)status;
	if (status) {
		stat_add(&worker->stats.get_misses, 1);
	} else if (value.value_len > size) {
		reply_with_copy(replies, reply, request, hash);
	} else {
		reply->value_len = value.value_len;
		reply->head.version = value.version;
		reply->head.item_flags = value.flags;
	}
}

static void request_put(struct replies *replies, struct conn *conn, const struct request *request,
			uint64_t hash)
{
	struct worker *worker = replies->endpoint->worker;
	struct table_put put = {
		.key = request->key,
		.key_len = request->key_len,
		.value = request->value,
		.value_len = request->value_len,
		.flags = request->item_flags,
	};
	struct reply *reply;

	stat_add(&worker->stats.puts, 1);
	if (request->pull) {
		pull_start(replies, conn, request, hash);
		return;
	}
	reply = reply_start(replies, conn, WIRE_PUT, request->id);
	if (put.value_len > worker->writer.table->region->geometry.value_max) {
		stat_add(&worker->stats.put_too_large, 1);
		reply->head.status = WIRE_TOO_LARGE;
		return;
	}
	reply->head.status = (uint8_t)table_put(&worker->writer, hash, &put);
	if (reply->head.status) {
		stat_add(&worker->stats.put_no_space, 1);
		return;
	}
	reply->head.slot = put.slot;
	reply->head.version = put.version;
}

static void request_delete(struct replies *replies, struct conn *conn,
			   const struct request *request, uint64_t hash)
{
	struct worker *worker = replies->endpoint->worker;
	struct reply *reply = reply_start(replies, conn, WIRE_DELETE, request->id);

	stat_add(&worker->stats.deletes, 1);
	reply->head.status = (uint8_t)table_delete(&worker->writer, hash, request->key,
						   request->key_len);
	if (reply->head.status)
		stat_add(&worker->stats.delete_misses, 1);
}

static void request_stats(struct replies *replies, struct conn *conn, const struct request *request)
{
	struct reply *reply = reply_start(replies, conn, WIRE_STATS, request->id);
	uint32_t size;
	char *text = reply_buffer(replies, reply, &size);

	if (text)
		reply->value_len = stats_print(replies->endpoint->worker->server,
					       request->item_flags, text, size,
					       &reply->head.item_flags);
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
	case WIRE_PING:
		reply_start(replies, conn, WIRE_PING, request->id);
		break;
	case WIRE_GET:
		request_get(replies, conn, request, hash);
		break;
	case WIRE_PUT:
		request_put(replies, conn, request, hash);
		break;
	case WIRE_DELETE:
		request_delete(replies, conn, request, hash);
		break;
	case WIRE_STATS:
		request_stats(replies, conn, request);
		break;
	}
}
