/* SPDX-License-Identifier: MIT */
/* Memory registrations: mr.c. */
#ifndef KVD_COMMON_RDMA_SOFTNIC_MEMORY_REGION_H
#define KVD_COMMON_RDMA_SOFTNIC_MEMORY_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/softnic.h"

struct sn_mr {
	struct ibv_mr verbs;
	int access;
	int fd; /* our descriptor of its file, if peers may have it; else -1 */
	uint64_t fd_offset;
	bool is_fixed; /* the file's length is sealed: servers may have it, too */
};

int sn_reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access, struct ibv_mr **mr);
void sn_dereg_mr(struct ibv_mr *mr);

/* An address before the region has an offset that wraps around, and so is too large. */
static inline bool sn_mr_covers(const struct sn_mr *mr, uint64_t addr, uint64_t length)
{
	uint64_t offset = addr - (uintptr_t)mr->verbs.addr;

	return offset <= mr->verbs.length && length <= mr->verbs.length - offset;
}

/* The registration with this key if it covers the range, is of this PD and allows @access. */
static inline struct sn_mr *sn_mr_find(struct sn_context *ctx, const struct ibv_pd *pd,
				       uint32_t key, uint64_t addr, uint64_t length, int access)
{
	struct sn_mr *mr = atomic_load_explicit(&ctx->mrs[key % SN_MR_MAX], memory_order_acquire);

	if (!mr || mr->verbs.lkey != key || mr->verbs.pd != pd || (mr->access & access) != access)
		return NULL;
	return sn_mr_covers(mr, addr, length) ? mr : NULL;
}

/* Whether the queue pair may access all memory of the list with these rights. */
bool sn_sges_valid(struct sn_qp *qp, const struct ibv_sge *sges, uint32_t count, int access);

#endif /* KVD_COMMON_RDMA_SOFTNIC_MEMORY_REGION_H */
