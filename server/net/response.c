/* SPDX-License-Identifier: MIT */
/* Builds and posts responses, and takes their buffers back when they complete. */
#include "server/net/response.h"

#include <string.h>

#include "common/util/stat.h"
#include "server/net/worker.h"

struct response_wr *response_start(struct response_list *responses, struct conn *conn,
				   enum wire_op op, uint32_t id)
{
	struct response_wr *response = &responses->list[responses->count++];

	response->head = (struct wire_response){
		.op = (uint8_t)op,
		.id = id,
		.clock_ns = responses->poller->worker->store_thread.now_ns,
	};
	response->conn = conn;
	response->buffer = BUFFER_NONE;
	response->value_len = 0;
	return response;
}

/*
 * A connection may hold as many buffers as its window. A response's completion may arrive later
 * than the client's next request, so there are spare ones, which all connections share; one that
 * finds none left does not take its responses.
 */
static uint32_t conn_take_buffer(struct poller *poller, struct conn *conn)
{
	if (conn->buffers >= conn->window) {
		if (!poller->spare_buffers)
			return BUFFER_NONE;
		poller->spare_buffers--;
	}
	conn->buffers++;
	return buffer_take(poller);
}

static void conn_put_buffer(struct poller *poller, struct conn *conn, uint32_t buffer)
{
	if (conn->buffers > conn->window)
		poller->spare_buffers++;
	conn->buffers--;
	buffer_put(poller, buffer);
}

void *response_buffer(struct response_list *responses, struct response_wr *response, uint32_t *size)
{
	struct poller *poller = responses->poller;
	uint32_t buffer = conn_take_buffer(poller, response->conn);

	if (buffer == BUFFER_NONE) {
		conn_fail(response->conn,
			  "the client does not take its responses: no buffer is left");
		return NULL;
	}
	response->buffer = buffer;
	*size = response->conn->response_bytes - (uint32_t)sizeof(response->head);
	return poller_buffer(poller, buffer) + sizeof(response->head);
}

static void sent_push(struct poller *poller, struct conn *conn, uint32_t buffer)
{
	poller->buffers[buffer].next = BUFFER_NONE;
	if (conn->sent_first == BUFFER_NONE)
		conn->sent_first = buffer;
	else
		poller->buffers[conn->sent_last].next = buffer;
	conn->sent_last = buffer;
}

static void sent_pop(struct poller *poller, struct conn *conn)
{
	uint32_t buffer = conn->sent_first;

	conn->sent_first = poller->buffers[buffer].next;
	conn_put_buffer(poller, conn, buffer);
}

void response_drop_buffer(struct response_list *responses, struct response_wr *response)
{
	if (response->buffer != BUFFER_NONE)
		conn_put_buffer(responses->poller, response->conn, response->buffer);
	response->buffer = BUFFER_NONE;
}

void response_cancel(struct response_list *responses)
{
	response_drop_buffer(responses, &responses->list[--responses->count]);
}

/* Fills in the work request: where the message is, and whether it is sent inline. */
static void response_fill(struct poller *poller, struct response_wr *response)
{
	bool buffered = response->buffer != BUFFER_NONE;
	void *message = buffered ? (void *)poller_buffer(poller, response->buffer) :
				   (void *)&response->head;

	/* Else head.value_len stays as it is: of a GET whose value is in a copy, its length. */
	if (response->value_len)
		response->head.value_len = response->value_len;
	if (buffered)
		memcpy(message, &response->head, sizeof(response->head));
	response->sge = (struct ibv_sge){
		.addr = (uintptr_t)message,
		.length = (uint32_t)sizeof(response->head) + response->value_len,
		.lkey = poller->mr->lkey,
	};
	response->wr = (struct ibv_send_wr){
		.opcode = IBV_WR_SEND,
		.sg_list = &response->sge,
		.num_sge = 1,
	};
	if (response->sge.length <= poller->inline_max)
		response->wr.send_flags = IBV_SEND_INLINE;
}

/*
 * A response that the device reads from its buffer is signaled, since the buffer is free only when
 * it completes; of the inline ones, one in request.signal_every is. All have a wr_id: a queue pair
 * that fails completes the unsignaled ones too, and 0 would stand for a receive.
 */
static void response_signal(struct poller *poller, struct response_wr *response)
{
	struct worker *worker = poller->worker;
	struct conn *conn = response->conn;
	bool buffered = !(response->wr.send_flags & IBV_SEND_INLINE);

	conn->sq_used++;
	conn->sq_unsignaled++;
	stat_add(&worker->stats.responses, 1);
	response->wr.wr_id = wr_id_make(WR_RESPONSE, conn->sq_unsignaled, conn->serial,
					buffered ? response->buffer : BUFFER_NONE);
	if (!buffered && conn->sq_unsignaled < poller->limits.signal_every)
		return;
	response->wr.send_flags |= IBV_SEND_SIGNALED;
	conn->sq_unsignaled = 0;
	stat_add(&worker->stats.responses_signaled, 1);
}

/* Appends the response to its connection's chain; false if the queue pair has no room. */
static bool response_chain(struct poller *poller, struct response_wr *response)
{
	struct conn *conn = response->conn;

	if (conn->sq_used >= poller_sq_depth(poller, conn->window) - NOT_RESPONSES_MAX) {
		conn_fail(conn, "the client does not take its responses: the send queue is full");
		return false;
	}
	response_fill(poller, response);
	response_signal(poller, response);
	if (!(response->wr.send_flags & IBV_SEND_INLINE))
		sent_push(poller, conn, response->buffer);
	if (conn->chain_first)
		conn->chain_last->next = &response->wr;
	else
		conn->chain_first = &response->wr;
	conn->chain_last = &response->wr;
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

void responses_send(struct response_list *responses)
{
	struct poller *poller = responses->poller;
	struct response_wr *response;
	unsigned int i;

	for (i = 0; i < responses->count; i++) {
		response = &responses->list[i];
		if (response->conn->stopped || !response_chain(poller, response)) {
			response_drop_buffer(responses, response);
			response->conn = NULL;
		}
	}
	for (i = 0; i < responses->count; i++) {
		response = &responses->list[i];
		if (!response->conn)
			continue;
		conn_post_chain(response->conn);
		if (response->wr.send_flags & IBV_SEND_INLINE)
			response_drop_buffer(responses, response);
	}
	responses->count = 0;
}

void response_done(struct poller *poller, struct conn *conn, uint64_t wr_id)
{
	conn->sq_used -= wr_id_covers(wr_id);
	if (wr_id_buffer(wr_id) != BUFFER_NONE && conn->sent_first != BUFFER_NONE)
		sent_pop(poller, conn);
}

void response_release_all(struct poller *poller, struct conn *conn)
{
	while (conn->sent_first != BUFFER_NONE)
		sent_pop(poller, conn);
}
