/* SPDX-License-Identifier: MIT */
/* One-sided reads of the server's region: chains of RDMA READs with one completion each. */
#ifndef KVD_CLIENT_READ_H
#define KVD_CLIENT_READ_H

#include "client/handle.h"
#include "common/util/prefetch.h"

/*
 * Puts a READ of @bytes at @offset of the region to @buf, from its byte @at on, into the chain as
 * number @i. What all READs have in common is in the work requests since handle_init().
 */
static inline void read_add(struct kvd *handle, unsigned int i, uint64_t offset,
			    const struct reg_buf *buf, uint64_t at, uint32_t bytes)
{
	struct ibv_send_wr *wr = &handle->read_wrs[i];
	struct ibv_sge *sge = &handle->read_sges[i];

	sge->addr = (uintptr_t)(buf->base + at);
	sge->length = bytes;
	sge->lkey = buf->mr->lkey;
	wr->wr.rdma.remote_addr = handle->region_addr + offset;
	wr->wr.rdma.rkey = handle->rkey;
	handle->stats.read_bytes += bytes;
}

/* Where the hardware goes on by itself. */
#define PREFETCH_BYTES_MAX 2048u

/*
 * Prefetches what a READ that comes soon will copy, if the region is mapped here. How often the
 * loop runs does not depend on where the memory begins: that is known only when a line of the
 * bucket cache arrives, and a branch mispredicted then would hold up the next lookup.
 */
static inline void read_prefetch(const struct kvd *handle, uint64_t offset, uint32_t bytes)
{
	const uint8_t *from;
	uint32_t at;

	if (!handle->region_source)
		return;
	from = handle->region_source + offset;
	if (bytes > PREFETCH_BYTES_MAX)
		bytes = PREFETCH_BYTES_MAX;
	for (at = 0; at < bytes; at += PREFETCH_LINE)
		prefetch_line(from + at);
	prefetch_line(from + bytes - 1);
}

/* Posts the chain, @count (1 to GETS_MAX) READs, and waits until all have completed. */
enum kvd_status read_chain(struct kvd *handle, unsigned int count);
/* READs @bytes, in as many READs as the device needs, to the start of scratch, which has room. */
enum kvd_status read_long(struct kvd *handle, uint64_t offset, uint64_t bytes);

/* Whether @bytes at @offset lie inside the region. */
static inline bool region_holds(const struct kvd *handle, uint64_t offset, uint64_t bytes)
{
	return offset < handle->geometry.region_bytes &&
	       bytes <= handle->geometry.region_bytes - offset;
}

#endif /* KVD_CLIENT_READ_H */
