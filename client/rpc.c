/* SPDX-License-Identifier: MIT */
/*
 * Requests to a worker of the server and its responses. One is outstanding at a time. The SEND is
 * unsignaled but every SIGNAL_EVERY-th: the response says that it arrived, and a failed one
 * completes in any case.
 */
#include <string.h>

#include "client/handle.h"

static_assert((int)WIRE_OK == KVD_OK && (int)WIRE_NOT_FOUND == KVD_NOT_FOUND &&
		      (int)WIRE_TOO_LARGE == KVD_ERR_TOO_LARGE &&
		      (int)WIRE_NO_SPACE == KVD_ERR_NO_SPACE &&
		      (int)WIRE_PROTOCOL == KVD_ERR_PROTOCOL && (int)WIRE_BUSY == KVD_ERR_BUSY,
	      "wire statuses are those of the API");

static uint8_t *request_buffer(const struct kvd *handle)
{
	return handle->messages.base + RECVS * RESPONSE_BYTES;
}

/* Lays out header, key and value; returns the message's length. */
static uint32_t request_fill(struct kvd *handle, struct rpc *rpc)
{
	uint32_t value_len = rpc->head.flags & WIRE_F_PULL ? 0 : rpc->head.value_len;
	uint8_t *p = request_buffer(handle);

	rpc->head.id = ++handle->request_id;
	rpc->head.key_len = (uint16_t)rpc->key_len;
	memcpy(p, &rpc->head, sizeof(rpc->head));
	p += sizeof(rpc->head);
	if (rpc->key_len)
		memcpy(p, rpc->key, rpc->key_len);
	p += rpc->key_len;
	if (value_len)
		memcpy(p, rpc->value, value_len);
	return (uint32_t)(sizeof(rpc->head) + rpc->key_len + value_len);
}

static enum kvd_status request_post(struct kvd *handle, uint32_t bytes)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)request_buffer(handle),
		.length = bytes,
		.lkey = handle->messages.mr->lkey,
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
	handle->stats.round_trips++;
	handle->stats.sent_bytes += bytes;
	err = ibv_post_send(handle->qp, &wr, &bad);
	if (err)
		return kvd_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_post_send: %s",
				handle->dev->name, strerror(err));
	return KVD_OK;
}

/* The buffer of the response before goes back to the device only now that nobody looks at it. */
static enum kvd_status recv_recycle(struct kvd *handle)
{
	if (!handle->recv_ready)
		return KVD_OK;
	handle->recv_ready = false;
	return post_recv(handle, handle->recv_index);
}

static enum kvd_status response_take(struct kvd *handle, const struct rpc *rpc,
				     struct response *response)
{
	const uint8_t *p = handle->messages.base + (size_t)handle->recv_index * RESPONSE_BYTES;
	const char *error = wire_response_parse(response, p, handle->recv_len);

	if (!error && response->op != rpc->head.op)
		error = "response to another operation";
	if (!error && response->id != rpc->head.id)
		error = "response to another request";
	if (error)
		return kvd_fail(handle, KVD_ERR_PROTOCOL, "the server at %s sent nonsense: %s",
				handle->dev->address, error);
	return KVD_OK;
}

enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response)
{
	enum kvd_status status;

	status = recv_recycle(handle);
	if (!status)
		status = request_post(handle, request_fill(handle, rpc));
	if (!status)
		status = wait_response(handle);
	if (!status)
		status = response_take(handle, rpc, response);
	return status;
}

enum kvd_status rpc_status(struct kvd *handle, const struct response *response)
{
	switch (response->status) {
	case WIRE_OK:
		return KVD_OK;
	case WIRE_NOT_FOUND:
		return KVD_NOT_FOUND;
	case WIRE_TOO_LARGE:
		return kvd_fail(handle, KVD_ERR_TOO_LARGE,
				"the server takes values of at most %llu bytes (limits.max_value)",
				(unsigned long long)handle->geometry.value_max);
	case WIRE_NO_SPACE:
		return kvd_fail(handle, KVD_ERR_NO_SPACE,
				"the server's memory is full: raise memory.size or delete keys");
	case WIRE_BUSY:
		return kvd_fail(handle, KVD_ERR_BUSY, "the server is busy with this key");
	case WIRE_PROTOCOL:
		break;
	}
	return kvd_fail(handle, KVD_ERR_PROTOCOL,
			"the server at %s refuses the request: it speaks another version of the "
			"protocol",
			handle->dev->address);
}
