/* SPDX-License-Identifier: MIT */
/*
 * One-sided reads of the server's region, in chains of RDMA READs. A reliable connection completes
 * READs in order, so only the last one of a chain is signaled. A READ that fails completes anyway.
 */
#include "client/read.h"

#include <string.h>

#include "client/completion.h"

/* Bytes of one READ of a long item, unless the device's longest message is shorter. */
#define PIECE_BYTES (1u << 20)

/* Work requests before the last signaled one are complete with it: their entries are free again. */
enum kvd_status read_chain(struct kvd *handle, unsigned int count)
{
	struct ibv_send_wr *last = &handle->read_wrs[count - 1], *next = last->next, *bad;
	uint32_t chain = ++handle->read_chain;
	int err;

	handle->stats.reads += count;
	handle->stats.round_trips++;
	handle->unsignaled = 0;
	last->wr_id = wr_id_make(WR_READ, chain);
	last->send_flags = IBV_SEND_SIGNALED;
	last->next = NULL;
	err = ibv_post_send(handle->qp, handle->read_wrs, &bad);
	last->send_flags = 0;
	last->next = next;
	if (err)
		return handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_post_send: %s",
				   handle->dev->name, strerror(err));
	return completion_wait_read(handle, chain);
}

enum kvd_status read_long(struct kvd *handle, uint64_t offset, uint64_t bytes)
{
	uint32_t piece = PIECE_BYTES;
	enum kvd_status status;
	uint64_t at = 0;
	unsigned int n;

	if (handle->message_max < piece)
		piece = handle->message_max;
	while (at < bytes) {
		for (n = 0; n < GETS_MAX && at < bytes; n++) {
			uint32_t next = bytes - at < piece ? (uint32_t)(bytes - at) : piece;

			read_add(handle, n, offset + at, &handle->scratch, at, next);
			at += next;
		}
		status = read_chain(handle, n);
		if (status)
			return status;
	}
	return KVD_OK;
}
