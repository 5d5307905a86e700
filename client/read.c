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

bool region_holds(const struct kvd *handle, uint64_t offset, uint64_t bytes)
{
	return offset < handle->geometry.region_bytes &&
	       bytes <= handle->geometry.region_bytes - offset;
}

/* Work requests before the last signaled one are complete with it: their entries are free again. */
enum kvd_status read_chain(struct kvd *handle, const struct read *reads, unsigned int count)
{
	struct ibv_send_wr wrs[GETS_MAX], *bad;
	struct ibv_sge sges[GETS_MAX];
	uint32_t chain = ++handle->read_chain;
	unsigned int i;
	int err;

	for (i = 0; i < count; i++) {
		bool last = i + 1 == count;

		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)reads[i].to,
			.length = reads[i].bytes,
			.lkey = reads[i].buf->mr->lkey,
		};
		wrs[i].wr_id = wr_id_make(WR_READ, chain);
		wrs[i].next = last ? NULL : &wrs[i + 1];
		wrs[i].sg_list = &sges[i];
		wrs[i].num_sge = 1;
		wrs[i].opcode = IBV_WR_RDMA_READ;
		wrs[i].send_flags = last ? IBV_SEND_SIGNALED : 0;
		wrs[i].wr.rdma.remote_addr = handle->region_addr + reads[i].offset;
		wrs[i].wr.rdma.rkey = handle->rkey;
		handle->stats.read_bytes += reads[i].bytes;
	}
	handle->stats.reads += count;
	handle->stats.round_trips++;
	handle->unsignaled = 0;
	err = ibv_post_send(handle->qp, wrs, &bad);
	if (err)
		return handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_post_send: %s",
				   handle->dev->name, strerror(err));
	return completion_wait_read(handle, chain);
}

enum kvd_status read_long(struct kvd *handle, uint64_t offset, uint64_t bytes)
{
	uint32_t piece = PIECE_BYTES;
	struct read reads[GETS_MAX];
	enum kvd_status status;
	uint64_t at = 0;
	unsigned int n;

	if (handle->port.max_msg_sz < piece)
		piece = handle->port.max_msg_sz;
	while (at < bytes) {
		for (n = 0; n < GETS_MAX && at < bytes; n++) {
			reads[n] = (struct read){
				.offset = offset + at,
				.to = handle->scratch.base + at,
				.buf = &handle->scratch,
				.bytes = bytes - at < piece ? (uint32_t)(bytes - at) : piece,
			};
			at += reads[n].bytes;
		}
		status = read_chain(handle, reads, n);
		if (status)
			return status;
	}
	return KVD_OK;
}
