/* SPDX-License-Identifier: MIT */
/*
 * Remote procedure calls: sends a request to a worker of the server and waits for the response. One
 * request is outstanding at a time, and beside it at most one message of access records, whose
 * response no call waits for (client/completion.c drops it). One SEND in SIGNAL_EVERY is signaled:
 * the response proves that the request arrived, and a SEND that fails completes anyway.
 */
#include "client/rpc.h"

#include <string.h>

#include "client/completion.h"
#include "client/window.h"
#include "common/util/clock.h"

static_assert((int)WIRE_OK == KVD_OK && (int)WIRE_NOT_FOUND == KVD_NOT_FOUND &&
		      (int)WIRE_INVALID == KVD_ERR_INVALID &&
		      (int)WIRE_TOO_LARGE == KVD_ERR_TOO_LARGE &&
		      (int)WIRE_NO_SPACE == KVD_ERR_NO_SPACE &&
		      (int)WIRE_PROTOCOL == KVD_ERR_PROTOCOL && (int)WIRE_BUSY == KVD_ERR_BUSY &&
		      (int)WIRE_EXISTS == KVD_ERR_EXISTS &&
		      (int)WIRE_NOT_A_NUMBER == KVD_ERR_NOT_A_NUMBER,
	      "wire statuses are those of the API");

/* One SEND in so many is signaled, so that the send queue's entries are freed. */
#define SIGNAL_EVERY 16

/* The request is written behind the response buffers, in the same registered memory. */
static uint8_t *request_buffer(const struct kvd *handle)
{
	return handle->messages.base + RECVS * RESPONSE_BYTES;
}

/* 0 is not an id: access_id uses it for "none". */
static uint32_t request_id_next(struct kvd *handle)
{
	if (!++handle->request_id)
		handle->request_id = 1;
	return handle->request_id;
}

/* Moves access records to the end of the message, as many as fit; returns how many. */
static uint16_t access_append(struct kvd *handle, uint8_t *message, size_t used)
{
	uint32_t n;

	if (!handle->access.count || used > handle->request_bytes)
		return 0;
	n = access_take(&handle->access, message + used, handle->request_bytes - used);
	handle->stats.access_records += n;
	return (uint16_t)n;
}

/* Writes header, key, value and access records; returns the message's length in bytes. */
static uint32_t request_fill(struct kvd *handle, struct rpc *rpc)
{
	uint32_t value_len = rpc->head.flags & WIRE_F_PULL ? 0 : rpc->head.value_len;
	uint8_t *message = request_buffer(handle);
	size_t used = sizeof(rpc->head);

	if (rpc->key_len)
		memcpy(message + used, rpc->key, rpc->key_len);
	used += rpc->key_len;
	if (value_len)
		memcpy(message + used, rpc->value, value_len);
	used += value_len;
	rpc->head.id = request_id_next(handle);
	rpc->head.key_len = (uint16_t)rpc->key_len;
	rpc->head.access_count = access_append(handle, message, used);
	memcpy(message, &rpc->head, sizeof(rpc->head));
	return (uint32_t)(used + (size_t)rpc->head.access_count * WIRE_ACCESS_BYTES);
}

/*
 * Posts a message, inline if it is short enough: then the device need not READ it from memory. The
 * buffer may be written again when the response has arrived.
 */
static enum kvd_status request_post(struct kvd *handle, const struct reg_buf *buf,
				    const uint8_t *message, uint32_t bytes)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)message,
		.length = bytes,
		.lkey = buf->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id_make(WR_SEND, 0),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = bytes <= handle->inline_max ? IBV_SEND_INLINE : 0,
	};
	int err;

	if (++handle->unsignaled >= SIGNAL_EVERY) {
		wr.send_flags |= IBV_SEND_SIGNALED;
		handle->unsignaled = 0;
	}
	handle->stats.requests++;
	handle->stats.sent_bytes += bytes;
	err = ibv_post_send(handle->qp, &wr, &bad);
	if (err)
		return handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_post_send: %s",
				   handle->dev->name, strerror(err));
	return KVD_OK;
}

/* The caller may use the last response until now; its buffer is posted again. */
static enum kvd_status recv_recycle(struct kvd *handle)
{
	if (!handle->recv_ready)
		return KVD_OK;
	handle->recv_ready = false;
	return recv_post(handle, handle->recv_index);
}

/* *@response points into the receive buffer; every length in it is checked. */
static enum kvd_status response_parse(struct kvd *handle, const struct rpc *rpc,
				      struct response *response)
{
	const uint8_t *p = handle->messages.base + (size_t)handle->recv_index * RESPONSE_BYTES;
	const char *error = wire_response_parse(response, p, handle->recv_len);

	if (error)
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "malformed response from the server at %s: %s",
				   handle->dev->address, error);
	if (response->id != rpc->head.id || response->op != rpc->head.op)
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "the server at %s sent the response to another request: %s",
				   handle->dev->address, HANDLE_SHARED_HINT);
	return KVD_OK;
}

/* Waits until one more request may be outstanding: an ACCESS message may be. */
static enum kvd_status window_wait(struct kvd *handle)
{
	if (!handle->access_id)
		return KVD_OK;
	window_look(handle, clock_raw_ns());
	return handle->window < 2 ? completion_wait_access(handle) : KVD_OK;
}

/* Returns KVD_OK if there is a response, whatever its status. */
static enum kvd_status rpc_exchange(struct kvd *handle, struct rpc *rpc, struct response *response)
{
	enum kvd_status status;
	uint64_t sent_ns = 0;
	uint32_t bytes;

	handle->served_bytes = rpc->head.flags & WIRE_F_PULL ? rpc->head.value_len : 0;
	status = recv_recycle(handle);
	if (!status)
		status = window_wait(handle);
	if (!status) {
		bytes = request_fill(handle, rpc);
		sent_ns = clock_raw_ns();
		window_look(handle, sent_ns);
		window_posted(handle, sent_ns);
		handle->stats.round_trips++;
		status = request_post(handle, &handle->messages, request_buffer(handle), bytes);
	}
	if (!status)
		status = completion_wait_response(handle);
	if (!status)
		status = response_parse(handle, rpc, response);
	if (!status)
		status = window_learn(handle, response);
	if (!status &&
	    !server_clock_learn(&handle->clock, response->clock_ns, sent_ns, clock_raw_ns()))
		handle->stats.clock_jumps++;
	return status;
}

/* The status of a response, for the caller. Only WIRE_PROTOCOL closes the connection. */
static enum kvd_status rpc_status(struct kvd *handle, const struct response *response)
{
	switch (response->status) {
	case WIRE_OK:
		return KVD_OK;
	case WIRE_NOT_FOUND:
		return KVD_NOT_FOUND;
	case WIRE_INVALID:
		return handle_fail(handle, KVD_ERR_INVALID,
				   "the server pins no item for so long (memory.pin_time_max)");
	case WIRE_TOO_LARGE:
		return handle_fail(
			handle, KVD_ERR_TOO_LARGE,
			"the server takes values of at most %llu bytes (limits.max_value)",
			(unsigned long long)handle->geometry.value_max);
	case WIRE_NO_SPACE:
		return handle_fail(handle, KVD_ERR_NO_SPACE,
				   "the server's memory is full: raise memory.size or delete keys");
	case WIRE_BUSY:
		if (response->flags & WIRE_R_PINS)
			return handle_fail(handle, KVD_ERR_BUSY,
					   "as many bytes are pinned as the server allows "
					   "(memory.pin_share); try again later, or without a pin");
		return handle_fail(handle, KVD_ERR_BUSY,
				   "the server can't do this now, or the connection is over its "
				   "limit (limits.connection_requests, limits.connection_bytes); "
				   "try again later");
	case WIRE_EXISTS:
		return handle_fail(handle, KVD_ERR_EXISTS,
				   "the condition does not hold; nothing was changed");
	case WIRE_NOT_A_NUMBER:
		return handle_fail(handle, KVD_ERR_NOT_A_NUMBER,
				   "a number has 1 to 20 digits and is less than 2^64");
	case WIRE_UNKNOWN: /* it numbers no changes */
	case WIRE_PROTOCOL:
		break;
	}
	return handle_fail(handle, KVD_ERR_PROTOCOL,
			   "the server at %s refuses the request: it speaks another version of the "
			   "protocol; use the same version of kvd on both sides",
			   handle->dev->address);
}

enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response)
{
	enum kvd_status status = rpc_exchange(handle, rpc, response);

	return status ? status : rpc_status(handle, response);
}

enum kvd_status rpc_ping(struct kvd *handle)
{
	struct rpc rpc = { .head.op = WIRE_PING };
	struct response response;

	return rpc_call(handle, &rpc, &response);
}

enum kvd_status rpc_clock(struct kvd *handle)
{
	struct rpc rpc = { .head.op = WIRE_PING };
	struct response response;
	enum kvd_status status = rpc_exchange(handle, &rpc, &response);

	if (status || response.status == WIRE_BUSY)
		return status;
	return rpc_status(handle, &response);
}

/* The buffer is free again after the response to the message before. */
enum kvd_status access_report(struct kvd *handle)
{
	struct wire_request head = { .op = WIRE_ACCESS };
	size_t bytes = sizeof(head) + WIRE_ACCESS_MAX * WIRE_ACCESS_BYTES;
	enum kvd_status status = KVD_OK;
	uint64_t now_ns;

	if (handle->access_id)
		status = completion_wait_access(handle);
	if (!status)
		status = handle_buf_resize(handle, &handle->access_messages, bytes,
					   IBV_ACCESS_LOCAL_WRITE);
	if (status)
		return status;
	/* Nothing else is outstanding. */
	now_ns = clock_raw_ns();
	window_look(handle, now_ns);
	window_posted(handle, now_ns);
	head.id = request_id_next(handle);
	head.access_count = access_append(handle, handle->access_messages.base, sizeof(head));
	memcpy(handle->access_messages.base, &head, sizeof(head));
	handle->access_id = head.id;
	handle->stats.access_messages++;
	return request_post(handle, &handle->access_messages, handle->access_messages.base,
			    (uint32_t)sizeof(head) + head.access_count * WIRE_ACCESS_BYTES);
}

/* Failures are ignored: the handle is being closed, and a lost record costs a hint only. */
void access_report_all(struct kvd *handle, unsigned int wait_ms)
{
	enum kvd_status status = handle->broken ? KVD_ERR_DISCONNECTED : KVD_OK;

	handle->deadline_ns = clock_ns() + wait_ms * 1000000ull;
	while (!status && handle->access.count)
		status = access_report(handle);
	if (!status && handle->access_id)
		completion_wait_access(handle);
}
