/* SPDX-License-Identifier: MIT */
/* Builds and posts responses, and takes their buffers back when they complete. */
#include "server/worker/response.h"

#include <string.h>

#include "common/util/stat.h"
#include "server/worker/conn.h"
#include "server/worker/permit.h"
#include "server/worker/window.h"
#include "server/worker/worker.h"

/*
 * A connection may always hold its window of response buffers, and of places in the completion
 * queue, and more as long as some are spare. A response's completion may arrive later than the
 * client's next request, so an honest client may have more responses outstanding than its window;
 * it then depends on the spare ones, and if none are left, on its own responses to complete.
 */
static bool conn_has_buffer(const struct poller *poller, const struct conn *conn)
{
	return conn->buffers < conn->window || poller->spare_buffers;
}

bool response_room(const struct conn *conn)
{
	return conn_has_buffer(conn->poller, conn) && sq_room(conn);
}

void response_reserve(struct conn *conn)
{
	sq_take(conn);
}

void response_unreserve(struct conn *conn)
{
	sq_put(conn, 1);
}

struct response_wr *response_start(struct response_list *responses, struct conn *conn,
				   enum wire_op op, uint32_t id)
{
	struct response_wr *response = &responses->list[responses->count++];

	response->head = (struct wire_response){
		.op = (uint8_t)op,
		.id = id,
		.clock_ns = responses->poller->worker->part.thread.now_ns,
	};
	response->conn = conn;
	response->buffer = BUFFER_NONE;
	response->value_len = 0;
	sq_take(conn);
	return response;
}

static uint32_t conn_take_buffer(struct poller *poller, struct conn *conn)
{
	if (!conn_has_buffer(poller, conn))
		return BUFFER_NONE;
	if (conn->buffers >= conn->window)
		poller->spare_buffers--;
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

void *response_buffer_again(struct response_list *responses, struct response_wr *response,
			    uint32_t buffer, uint32_t *size)
{
	response->buffer = buffer;
	*size = response->conn->response_bytes - (uint32_t)sizeof(response->head);
	return poller_buffer(responses->poller, buffer) + sizeof(response->head);
}

void *response_buffer(struct response_list *responses, struct response_wr *response, uint32_t *size)
{
	struct poller *poller = responses->poller;
	uint32_t buffer = conn_take_buffer(poller, response->conn);

	if (buffer == BUFFER_NONE) {
		/* Happens only if response_room() was not asked. */
		conn_fail(response->conn, "no buffer is left for a response");
		return NULL;
	}
	return response_buffer_again(responses, response, buffer, size);
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
	struct response_wr *response = &responses->list[--responses->count];

	response_drop_buffer(responses, response);
	sq_put(response->conn, 1);
}

uint32_t response_keep_buffer(struct response_list *responses)
{
	struct response_wr *response = &responses->list[responses->count - 1];
	uint32_t buffer = response->buffer;

	response->buffer = BUFFER_NONE;
	response_cancel(responses);
	return buffer;
}

void response_buffer_free(struct conn *conn, uint32_t buffer)
{
	conn_put_buffer(conn->poller, conn, buffer);
}

/* Fills in the work request: where the message is, and whether it is sent inline. */
static void response_fill(struct poller *poller, struct response_wr *response)
{
	bool buffered = response->buffer != BUFFER_NONE;
	void *message = buffered ? (void *)poller_buffer(poller, response->buffer) :
				   (void *)&response->head;

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
 * it completes; of the inline ones, one in RESPONSE_SIGNAL_EVERY is. All have a wr_id: a queue pair
 * that fails completes the unsignaled ones too, and 0 would mean a receive.
 */
static void response_signal(struct poller *poller, struct response_wr *response)
{
	struct worker *worker = poller->worker;
	struct conn *conn = response->conn;
	bool buffered = !(response->wr.send_flags & IBV_SEND_INLINE);

	conn->sq_unsignaled++;
	stat_add(&worker->stats.responses, 1);
	/* Of a BATCH each operation was counted: server/worker/operation.c. */
	if (response->head.op != WIRE_BATCH)
		command_count(&worker->commands, conn->client.kind, response->head.op,
			      response->head.status, response->head.flags);
	stat_add(&worker->stats.response_bytes, response->sge.length);
	stat_add(&conn->client.sent_bytes, response->sge.length);
	/* A refused request costs nothing, or a client that retries at once would never get in. */
	if (response->head.status != WIRE_LIMIT &&
	    response->head.op != WIRE_BATCH && /* server/worker/operation.c */
	    response->head.op != WIRE_ACCESS)  /* server/worker/request.c */
		permit_charge(&conn->client, response->sge.length, worker->part.thread.now_ns);
	response->wr.wr_id = wr_id_make(WR_RESPONSE, conn->sq_unsignaled, conn->serial,
					buffered ? response->buffer : BUFFER_NONE);
	if (!buffered && conn->sq_unsignaled < poller->limits.signal_every)
		return;
	response->wr.send_flags |= IBV_SEND_SIGNALED;
	conn->sq_unsignaled = 0;
	stat_add(&worker->stats.responses_signaled, 1);
}

/* The time in the access fields of items, and the sample of keys whose GETs are all reported. */
static uint16_t tick_tell(const struct table *table)
{
	uint32_t sample = table->curve ? curve_sample(table->curve) : 0;

	return (uint16_t)((access_time_now(table) & ACCESS_TIME) | sample << WIRE_SAMPLE_SHIFT);
}

/* Appends the response to its connection's chain. */
static void response_chain(struct poller *poller, struct response_wr *response)
{
	struct conn *conn = response->conn;

	conn->responses++;
	/* In HELLO's response the welcome has the window. */
	if (response->head.op != WIRE_HELLO)
		response->head.window = window_tell(conn);
	response->head.tick = tick_tell(conn_thread(conn)->table);
	response_fill(poller, response);
	response_signal(poller, response);
	if (!(response->wr.send_flags & IBV_SEND_INLINE))
		sent_push(poller, conn, response->buffer);
	if (conn->chain_first)
		conn->chain_last->next = &response->wr;
	else
		conn->chain_first = &response->wr;
	conn->chain_last = &response->wr;
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
		if (response->conn->stopped) {
			response_drop_buffer(responses, response);
			sq_put(response->conn, 1);
			response->conn = NULL;
		} else {
			response_chain(poller, response);
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
	sq_put(conn, wr_id_covers(wr_id));
	if (wr_id_buffer(wr_id) != BUFFER_NONE && conn->sent_first != BUFFER_NONE)
		sent_pop(poller, conn);
}

void response_release_all(struct poller *poller, struct conn *conn)
{
	while (conn->sent_first != BUFFER_NONE)
		sent_pop(poller, conn);
	sq_put(conn, conn->sq_used);
}
