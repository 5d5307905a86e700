/* SPDX-License-Identifier: MIT */
/* Scatter/gather lists of work requests: sge.c. */
#ifndef KVD_COMMON_RDMA_SOFTNIC_SCATTER_GATHER_H
#define KVD_COMMON_RDMA_SOFTNIC_SCATTER_GATHER_H

#include <stdint.h>
#include <sys/uio.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/ring.h"

#define SN_SGE_MAX 16

uint64_t sn_sges_length(const struct ibv_sge *sges, uint32_t count);
/* Copy between a ring and the list's memory, from byte @offset of that memory on. */
void sn_sges_to_ring(struct ring_out *ring, uint32_t at, const struct ibv_sge *sges, uint32_t count,
		     uint32_t offset, uint32_t length);
void sn_sges_from_ring(const struct ring_in *ring, uint32_t at, const struct ibv_sge *sges,
		       uint32_t count, uint32_t offset, uint32_t length);
/* Sets @iovs to at most @length bytes of the list's memory from byte @offset on; their number. */
unsigned int sn_sges_iovecs(const struct ibv_sge *sges, uint32_t count, uint32_t offset,
			    uint32_t length, struct iovec iovs[SN_SGE_MAX]);
/* Copies @length bytes, which the peer may be changing, to the list's memory. */
void sn_sges_read(const struct ibv_sge *sges, uint32_t count, const uint8_t *from, uint32_t length);

#endif /* KVD_COMMON_RDMA_SOFTNIC_SCATTER_GATHER_H */
