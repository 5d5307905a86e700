/* SPDX-License-Identifier: MIT */
/* Scatter/gather lists: copies between their memory and a ring, and from mapped memory. */
#include "common/rdma/softnic/scatter_gather.h"

#include "common/rdma/softnic/file_grant.h"

uint64_t sn_sges_length(const struct ibv_sge *sges, uint32_t count)
{
	uint64_t length = 0;
	uint32_t i;

	for (i = 0; i < count; i++)
		length += sges[i].length;
	return length;
}

static void *sge_at(const struct ibv_sge *sge, uint32_t offset)
{
	return (uint8_t *)(uintptr_t)sge->addr + offset;
}

/* Most lists have one entry, used from its start. */
static inline bool sges_are_one(const struct ibv_sge *sges, uint32_t count, uint32_t offset,
				uint32_t length)
{
	return count && length && !offset && length <= sges[0].length;
}

unsigned int sn_sges_iovecs(const struct ibv_sge *sges, uint32_t count, uint32_t offset,
			    uint32_t length, struct iovec iovs[SN_SGE_MAX])
{
	unsigned int used = 0;
	uint32_t i;

	for (i = 0; i < count && length; i++) {
		uint32_t part = sges[i].length;

		if (offset >= part) {
			offset -= part;
			continue;
		}
		part = part - offset < length ? part - offset : length;
		iovs[used++] = (struct iovec){ sge_at(&sges[i], offset), part };
		offset = 0;
		length -= part;
	}
	return used;
}

void sn_sges_to_ring(struct ring_out *ring, uint32_t at, const struct ibv_sge *sges, uint32_t count,
		     uint32_t offset, uint32_t length)
{
	struct iovec iovs[SN_SGE_MAX];
	unsigned int i, parts;

	if (sges_are_one(sges, count, offset, length)) {
		ring_out_write(ring, at, sge_at(&sges[0], 0), length);
		return;
	}
	parts = sn_sges_iovecs(sges, count, offset, length, iovs);
	for (i = 0; i < parts; i++) {
		ring_out_write(ring, at, iovs[i].iov_base, (uint32_t)iovs[i].iov_len);
		at += (uint32_t)iovs[i].iov_len;
	}
}

void sn_sges_from_ring(const struct ring_in *ring, uint32_t at, const struct ibv_sge *sges,
		       uint32_t count, uint32_t offset, uint32_t length)
{
	struct iovec iovs[SN_SGE_MAX];
	unsigned int i, parts;

	if (sges_are_one(sges, count, offset, length)) {
		ring_in_read(ring, at, sge_at(&sges[0], 0), length);
		return;
	}
	parts = sn_sges_iovecs(sges, count, offset, length, iovs);
	for (i = 0; i < parts; i++) {
		ring_in_read(ring, at, iovs[i].iov_base, (uint32_t)iovs[i].iov_len);
		at += (uint32_t)iovs[i].iov_len;
	}
}

void sn_sges_read(const struct ibv_sge *sges, uint32_t count, const uint8_t *from, uint32_t length)
{
	uint32_t i;

	for (i = 0; i < count && length; i++) {
		uint32_t part = sges[i].length < length ? sges[i].length : length;

		sn_read_copy(sge_at(&sges[i], 0), from, part);
		from += part;
		length -= part;
	}
}
