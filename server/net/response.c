/* SPDX-License-Identifier: MIT */
#include "server/net/response.h"

#include <string.h>

#include "common/util/stat.h"

struct reply *reply_start(struct replies *replies, struct conn *conn, enum wire_op op, uint32_t id)
{
	struct reply *reply = &replies->list[replies->count++];

	reply->head = (struct wire_response){
		.op = (uint8_t)op,
		.id = id,
		.clock_ns = replies->endpoint->worker->store_thread.now_ns,
	};
	reply->conn = conn;
	reply->buffer = BUFFER_NONE;
	reply->value_len = 0;
	return reply;
}

/*
 * A connection has as many buffers as its window. A completion may come in later than the request
 * that the client sent when it had the response, so there are some more; they are shared, and who
 * finds none left did not take its responses.
 */
static uint32_t conn_take_buffer(struct endpoint *endpoint, struct conn *conn)
{
	if (conn->buffers >= conn->window) {
		if (!endpoint->extra)
			return BUFFER_NONE;
		endpoint->extra--;
	}
	conn->buffers++;
	return buffer_take(endpoint);
}

static void conn_put_buffer(struct endpoint *endpoint, struct conn *conn, uint32_t buffer)
{
	if (conn->buffers > conn->window)
		endpoint->extra++;
	conn->buffers--;
	buffer_put(endpoint, buffer);
}

void *reply_buffer(struct replies *replies, struct reply *reply, uint32_t *size)
{
	struct endpoint *endpoint = replies->endpoint;
	uint32_t buffer = conn_take_buffer(endpoint, reply->conn);

	if (buffer == BUFFER_NONE) {
		conn_fail(reply->conn, "too many responses not taken");
		return NULL;
	}
	reply->buffer = buffer;
	*size = reply->conn->response_bytes - (uint32_t)sizeof(reply->head);
	return endpoint_buffer(endpoint, buffer) + sizeof(reply->head);
}

static void sent_push(struct endpoint *endpoint, struct conn *conn, uint32_t buffer)
{
	endpoint->buffers[buffer].next = BUFFER_NONE;
	if (conn->sent_first == BUFFER_NONE)
		conn->sent_first = buffer;
	else
		endpoint->buffers[conn->sent_last].next = buffer;
	conn->sent_last = buffer;
}

static void sent_pop(struct endpoint *endpoint, struct conn *conn)
{
	uint32_t buffer = conn->sent_first;

	conn->sent_first = endpoint->buffers[buffer].next;
	conn_put_buffer(endpoint, conn, buffer);
}

void reply_drop_buffer(struct replies *replies, struct reply *reply)
{
	if (reply->buffer != BUFFER_NONE)
		conn_put_buffer(replies->endpoint, reply->conn, reply->buffer);
	reply->buffer = BUFFER_NONE;
}

/* Where the message lies, and whether it goes inside the work request. */
static void reply_fill(struct endpoint *endpoint, struct reply *reply)
{
	bool bare = reply->buffer == BUFFER_NONE;
	void *message = bare ? (void *)&reply->head : endpoint_buffer(endpoint, reply->buffer);

	/* A GET whose value is in a copy tells its length, though none of it follows. */
	if (reply->value_len)
		reply->head.value_len = reply->value_len;
	if (!bare)
		memcpy(message, &reply->head, sizeof(reply->head));
	reply->sge = (struct ibv_sge){
		.addr = (uintptr_t)message,
		.length = (uint32_t)sizeof(reply->head) + reply->value_len,
		.lkey = endpoint->mr->lkey,
	};
	reply->wr = (struct ibv_send_wr){
		.opcode = IBV_WR_SEND,
		.sg_list = &reply->sge,
		.num_sge = 1,
	};
	if (reply->sge.length <= endpoint->inline_max)
		reply->wr.send_flags = IBV_SEND_INLINE;
}

/*
 * A response in a buffer is signaled, to get the buffer back; of the others every N-th. All have a
 * wr_id: a queue pair that fails completes the unsignaled ones too, and 0 would say a receive.
 */
static void reply_sign(struct endpoint *endpoint, struct reply *reply)
{
	struct worker *worker = endpoint->worker;
	struct conn *conn = reply->conn;
	bool buffered = !(reply->wr.send_flags & IBV_SEND_INLINE);

	conn->sq_used++;
	conn->sq_unsignaled++;
	stat_add(&worker->stats.responses, 1);
	reply->wr.wr_id = wr_id_make(WR_RESPONSE, conn->sq_unsignaled, conn->serial,
				     buffered ? reply->buffer : BUFFER_NONE);
	if (!buffered && conn->sq_unsignaled < worker->limits.signal_every)
		return;
	reply->wr.send_flags |= IBV_SEND_SIGNALED;
	conn->sq_unsignaled = 0;
	stat_add(&worker->stats.responses_signaled, 1);
}

/* Appends the reply to its connection's chain; false if the queue pair has no room. */
static bool reply_chain(struct endpoint *endpoint, struct reply *reply)
{
	const struct worker_limits *limits = &endpoint->worker->limits;
	struct conn *conn = reply->conn;

	if (conn->sq_used >= conn_sq_depth(conn->window, limits->signal_every) - PULL_DEPTH) {
		conn_fail(conn, "responses not taken while more is requested");
		return false;
	}
	reply_fill(endpoint, reply);
	reply_sign(endpoint, reply);
	if (!(reply->wr.send_flags & IBV_SEND_INLINE))
		sent_push(endpoint, conn, reply->buffer);
	if (conn->chain_first)
		conn->chain_last->next = &reply->wr;
	else
		conn->chain_first = &reply->wr;
	conn->chain_last = &reply->wr;
	return true;
}

static void conn_post_chain(struct conn *conn)
{
	struct ibv_send_wr *bad;

	if (!conn->chain_first)
		return;
	if (ibv_post_send(conn->qp, conn->chain_first, &bad))
		conn_fail(conn, "ibv_post_send failed");
	conn->chain_first = NULL;
}

void replies_send(struct replies *replies)
{
	struct endpoint *endpoint = replies->endpoint;
	struct reply *reply;
	unsigned int i;

	for (i = 0; i < replies->count; i++) {
		reply = &replies->list[i];
		if (reply->conn->stopped || !reply_chain(endpoint, reply)) {
			reply_drop_buffer(replies, reply);
			reply->conn = NULL;
		}
	}
	for (i = 0; i < replies->count; i++) {
		reply = &replies->list[i];
		if (!reply->conn)
			continue;
		conn_post_chain(reply->conn);
		if (reply->wr.send_flags & IBV_SEND_INLINE)
			reply_drop_buffer(replies, reply);
	}
	replies->count = 0;
}

void reply_done(struct endpoint *endpoint, struct conn *conn, uint64_t wr_id)
{
	conn->sq_used -= wr_id_covers(wr_id);
	if (wr_id_buffer(wr_id) != BUFFER_NONE && conn->sent_first != BUFFER_NONE)
		sent_pop(endpoint, conn);
}

void reply_release_all(struct endpoint *endpoint, struct conn *conn)
{
	while (conn->sent_first != BUFFER_NONE)
		sent_pop(endpoint, conn);
}
