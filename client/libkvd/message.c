/* SPDX-License-Identifier: MIT */
/* Messages: makes their buffers; which requests share one, and what their results are. */
#include "client/libkvd/message.h"

#include <string.h>

#include "client/libkvd/changes.h"
#include "client/libkvd/observe.h"

/* From this many on, requests that wait while none is outstanding go in two messages. */
#define SPLIT_MIN 8u

enum kvd_status messages_grow(struct kvd *handle)
{
	struct connection *conn = &handle->conn;
	uint32_t i = conn->message_count, chunk = i / MESSAGES_CHUNK;
	enum kvd_status status;

	status = handle_buf_resize(handle, &conn->recvs[chunk], MESSAGES_CHUNK * RESPONSE_BYTES,
				   IBV_ACCESS_LOCAL_WRITE);
	if (!status)
		status = handle_buf_resize(handle, &conn->sends[chunk],
					   MESSAGES_CHUNK * (size_t)conn->message_bytes,
					   IBV_ACCESS_LOCAL_WRITE);
	if (status)
		return status;
	conn->message_count += MESSAGES_CHUNK;
	/* The one freed last is taken first, so a handle with few requests uses few buffers. */
	for (i = conn->message_count; i-- > chunk * MESSAGES_CHUNK;) {
		conn->free[conn->free_count++] = (uint8_t)i;
		conn->recv_free[conn->recv_free_count++] = (uint8_t)i;
	}
	return KVD_OK;
}

/* Makes messages @bytes long. A buffer that was lost when it could not grow is made again. */
static enum kvd_status buffers_resize(struct kvd *handle, uint32_t bytes)
{
	struct connection *conn = &handle->conn;
	enum kvd_status status = KVD_OK;
	uint32_t i;

	for (i = 0; i < conn->message_count / MESSAGES_CHUNK && !status; i++) {
		status = handle_buf_resize(handle, &conn->recvs[i], MESSAGES_CHUNK * RESPONSE_BYTES,
					   IBV_ACCESS_LOCAL_WRITE);
		if (!status)
			status = handle_buf_resize(handle, &conn->sends[i],
						   MESSAGES_CHUNK * (size_t)bytes,
						   IBV_ACCESS_LOCAL_WRITE);
	}
	if (!status)
		conn->message_bytes = bytes;
	return status;
}

enum kvd_status messages_open(struct kvd *handle)
{
	struct connection *conn = &handle->conn;

	if (conn->message_count)
		return buffers_resize(handle, conn->message_bytes);
	conn->message_bytes = WIRE_REQUEST_MIN;
	return messages_grow(handle);
}

enum kvd_status messages_resize(struct kvd *handle)
{
	struct connection *conn = &handle->conn;

	return conn->request_bytes <= conn->message_bytes ?
		       KVD_OK :
		       buffers_resize(handle, conn->request_bytes);
}

/* The request as it is written to a batch. */
static struct request request_of(const struct rpc *rpc)
{
	return (struct request){
		.op = (enum wire_op)rpc->head.op,
		.key = rpc->key,
		.key_len = (uint32_t)rpc->key_len,
		.value = rpc->value,
		.value_len = rpc->head.value_len,
		.flags = rpc->head.flags,
		.mode = rpc->head.mode,
		.arg32 = rpc->head.arg32,
		.arg64 = rpc->head.arg64,
		.arg_addr = rpc->head.arg_addr,
		.ttl = rpc->head.ttl,
	};
}

bool request_may_share(const struct flight *f)
{
	if (f->kind == FLIGHT_CHANGE)
		return !f->rpc.pieces;
	return (f->kind == FLIGHT_LOOKUP || f->kind == FLIGHT_GET) && !f->rpc.head.flags &&
	       !f->rpc.alone;
}

unsigned int batch_count(const struct kvd *handle)
{
	size_t bytes = sizeof(struct wire_request);
	const struct list *link;
	struct request request;
	unsigned int n = 0, numbers = 0;

	for (link = handle->requests.next; link != &handle->requests && n < WIRE_BATCH_MAX;
	     link = link->next) {
		const struct flight *f = list_entry(link, struct flight, link);

		if (!request_may_share(f) || request_waits(handle, f) || change_is_held(f))
			break;
		if (change_is_numbered(&handle->sent, f) && ++numbers > changes_room(&handle->sent))
			break;
		request = request_of(&f->rpc);
		bytes += wire_batched_bytes(&request);
		if (bytes > handle->conn.request_bytes)
			break;
		n++;
	}
	/* Two messages, so that the server works on one while this thread makes the other. */
	return !handle->conn.outstanding && n >= SPLIT_MIN ? n / 2 : n;
}

size_t batch_fill(struct kvd *handle, struct batch *batch, unsigned int count, uint32_t message,
		  uint32_t id, uint8_t *to)
{
	struct wire_request head = { .op = WIRE_BATCH, .id = id, .count = count };
	size_t used = sizeof(head);
	struct request request;
	uint64_t first = 0;
	struct flight *f;
	unsigned int i;

	batch->count = count;
	for (i = 0; i < count; i++) {
		f = list_entry(handle->requests.next, struct flight, link);
		list_remove(&f->link);
		request = request_of(&f->rpc);
		wire_batched_write(&request, to + used);
		used += wire_batched_bytes(&request);
		batch->flights[i] = f;
		f->place = PLACE_SENT;
		f->message = message;
		f->sent = true;
		if (handle->observing)
			observe_request(f);
		if (!change_is_numbered(&handle->sent, f))
			continue;
		change_number(&handle->sent, f);
		if (!first)
			first = f->rpc.change;
		handle->conn.messages[message].change = first;
		handle->conn.messages[message].changes = (uint32_t)(f->rpc.change - first) + 1;
	}
	head.change = (uint32_t)first;
	head.flags = change_flag(&handle->sent, first);
	head.value_len = (uint32_t)(used - sizeof(head));
	memcpy(to, &head, sizeof(head));
	return used;
}

/* NULL, or what is wrong with the results. */
static const char *results_check(const struct batch *batch, const struct response *response)
{
	struct response result;
	const char *error;
	unsigned int n;
	size_t at = 0;

	for (n = 0; at < response->value_len; n++) {
		error = wire_result_parse(&result, response->value, response->value_len, &at);
		if (error)
			return error;
		if (n == batch->count ||
		    (batch->flights[n] && batch->flights[n]->rpc.head.op != result.op))
			return "a result of another request";
	}
	return n == batch->count ? NULL : "a result is missing";
}

bool batch_check(struct kvd *handle, const struct batch *batch, const struct response *response)
{
	const char *error = response->status ? "a batch failed as a whole" :
					       results_check(batch, response);

	if (error)
		handle_fail(handle, KVD_ERR_PROTOCOL,
			    "malformed response from the server at %s: %s", handle->dev->address,
			    error);
	return !error;
}

void batch_response(struct kvd *handle, struct batch *batch, const struct response *response)
{
	struct response result;
	struct flight *f;
	unsigned int i;
	size_t at = 0;

	for (i = 0; i < batch->count; i++) {
		(void)wire_result_parse(&result, response->value, response->value_len, &at);
		f = batch->flights[i];
		batch->flights[i] = NULL;
		if (!f)
			continue;
		f->place = PLACE_NONE;
		f->ops->response(handle, f, &result);
	}
}
