/* SPDX-License-Identifier: MIT */
/* Memory windows: mw.c. */
#ifndef KVD_COMMON_RDMA_SOFTNIC_MEMORY_WINDOW_H
#define KVD_COMMON_RDMA_SOFTNIC_MEMORY_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/softnic.h"

#define SN_MW_MAX 65536

struct sn_mw {
	struct ibv_mw verbs;
	/*
	 * The fields below are under mr_lock. A window is bound under its queue pair's lock, too,
	 * and ends under ctx->lock, so a thread that holds these two may read the fields.
	 */
	struct sn_qp *qp; /* the queue pair to which it is bound; NULL: none */
	struct sn_mr *mr;
	uint32_t rkey;
	uint64_t addr;
	uint64_t length;
	LIST_ENTRY(sn_mw) in_qp;
};

LIST_HEAD(sn_mw_list, sn_mw);

int sn_alloc_mw(struct ibv_pd *pd, struct ibv_mw **mw);
void sn_dealloc_mw(struct ibv_mw *mw);
/*
 * Binds what the work request says to the queue pair, whose lock is held. False: that is not
 * allowed. If true, the caller calls sn_grants_update() next.
 */
bool do_sn_mw_bind(struct sn_qp *qp, const struct ibv_send_wr *wr);
/*
 * The queue pair's window with this key, or NULL. The caller holds mr_lock, or ctx->lock and the
 * queue pair's lock.
 */
struct sn_mw *do_sn_mw_find(const struct sn_qp *qp, uint32_t rkey);
/* Ends the windows of memory that is deregistered. ctx->lock is held. */
void do_sn_mw_lose_mr(struct sn_context *ctx, const struct sn_mr *mr);
/* Ends the windows of a queue pair that is in no list any more. */
void sn_mw_lose_qp(struct sn_qp *qp);

static inline bool sn_mw_covers(const struct sn_mw *mw, uint64_t addr, uint64_t length)
{
	uint64_t offset = addr - mw->addr;

	return offset <= mw->length && length <= mw->length - offset;
}

#endif /* KVD_COMMON_RDMA_SOFTNIC_MEMORY_WINDOW_H */
