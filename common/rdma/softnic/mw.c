/* SPDX-License-Identifier: MIT */
/*
 * Memory windows of type 2B: keys by which the peer of one queue pair, and no other, may read a
 * part of a registration. Code that serves a READ, or passes the file, looks for the key among the
 * windows of that queue pair.
 *
 * A key of a window has the highest bit set, then a tag of 7 bits, its slot, and 8 bits for the
 * owner (ibv_inc_rkey()). Slots are used in turn, and the tag grows each time, so that a key is
 * reused after 8 million windows at the earliest.
 */
#include "common/rdma/softnic/memory_window.h"

#include <errno.h>

#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/file_grant.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/memory_region.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"

#define MW_KEY 0x80000000u
#define MW_TAG_SHIFT 24
#define MW_SLOT_SHIFT 8
#define MW_OWNER_MASK 0xffu /* bits of a key that its owner chooses */
/* In a byte of mw_slots; the rest is the tag. */
#define MW_USED 0x80u

_Static_assert(SN_MW_MAX == 1 << (MW_TAG_SHIFT - MW_SLOT_SHIFT), "the slot is part of the key");

static struct sn_mw *to_sn_mw(struct ibv_mw *mw)
{
	return sn_container(mw, struct sn_mw, verbs);
}

/* Finds a free slot, which exists since windows are counted. ctx->lock is held. */
static uint32_t do_slot_take(struct sn_context *ctx)
{
	uint32_t slot = ctx->mw_next;
	uint8_t tag;

	while (ctx->mw_slots[slot] & MW_USED)
		slot = (slot + 1) % SN_MW_MAX;
	tag = (ctx->mw_slots[slot] + 1) % MW_USED;
	ctx->mw_slots[slot] = tag | MW_USED;
	ctx->mw_next = (slot + 1) % SN_MW_MAX;
	return MW_KEY | (uint32_t)tag << MW_TAG_SHIFT | slot << MW_SLOT_SHIFT;
}

static void do_slot_put(struct sn_context *ctx, uint32_t rkey)
{
	ctx->mw_slots[rkey >> MW_SLOT_SHIFT & (SN_MW_MAX - 1)] &= (uint8_t)~MW_USED;
}

static int mw_take_key(struct sn_context *ctx, struct sn_mw *mw)
{
	int ret = 0;

	pthread_mutex_lock(&ctx->lock);
	if (!ctx->mw_slots)
		ctx->mw_slots = heap_calloc(SN_MW_MAX, 1);
	if (ctx->mw_slots)
		mw->verbs.rkey = do_slot_take(ctx);
	else
		ret = -ENOMEM;
	pthread_mutex_unlock(&ctx->lock);
	return ret;
}

int sn_alloc_mw(struct ibv_pd *pd, struct ibv_mw **out)
{
	struct sn_context *ctx = to_sn_context(pd->context);
	struct sn_mw *mw;
	int ret;

	ret = fault_check(FAULT_alloc_mw, ctx);
	if (ret)
		return ret;
	ret = sn_object_add(ctx, SN_OBJECT_MW);
	if (ret)
		return ret;
	mw = heap_calloc(1, sizeof(*mw));
	ret = mw ? mw_take_key(ctx, mw) : -ENOMEM;
	if (ret) {
		heap_free(mw);
		sn_object_remove(ctx, SN_OBJECT_MW);
		return ret;
	}
	mw->verbs.context = pd->context;
	mw->verbs.pd = pd;
	mw->verbs.type = IBV_MW_TYPE_2;
	*out = &mw->verbs;
	return 0;
}

static void do_mw_unbind(struct sn_mw *mw)
{
	LIST_REMOVE(mw, in_qp);
	mw->qp = NULL;
	mw->mr = NULL;
}

/* When this returns, the peer's READs by the key find nothing. ctx->lock and mr_lock are held. */
static void do_mw_end(struct sn_mw *mw)
{
	struct sn_qp *qp = mw->qp;

	do_mw_unbind(mw);
	do_sn_grant_revoke(qp, mw->rkey);
}

void sn_dealloc_mw(struct ibv_mw *verbs)
{
	struct sn_mw *mw = verbs ? to_sn_mw(verbs) : NULL;
	struct sn_context *ctx;

	if (!mw)
		return;
	ctx = to_sn_context(verbs->context);
	pthread_mutex_lock(&ctx->lock);
	pthread_mutex_lock(&ctx->mr_lock);
	if (mw->qp)
		do_mw_end(mw);
	pthread_mutex_unlock(&ctx->mr_lock);
	do_slot_put(ctx, verbs->rkey);
	pthread_mutex_unlock(&ctx->lock);
	sn_object_remove(ctx, SN_OBJECT_MW);
	heap_free(mw);
}

void do_sn_mw_lose_mr(struct sn_context *ctx, const struct sn_mr *mr)
{
	struct sn_mw *mw, *next;
	struct sn_qp *qp;

	pthread_mutex_lock(&ctx->mr_lock);
	TAILQ_FOREACH(qp, &ctx->qps, in_context)
		for (mw = LIST_FIRST(&qp->windows); mw; mw = next) {
			next = LIST_NEXT(mw, in_qp);
			if (mw->mr == mr)
				do_mw_end(mw);
		}
	pthread_mutex_unlock(&ctx->mr_lock);
}

void sn_mw_lose_qp(struct sn_qp *qp)
{
	struct sn_mw *mw;

	pthread_mutex_lock(&qp->ctx->mr_lock);
	while ((mw = LIST_FIRST(&qp->windows)))
		do_mw_unbind(mw);
	pthread_mutex_unlock(&qp->ctx->mr_lock);
}

struct sn_mw *do_sn_mw_find(const struct sn_qp *qp, uint32_t rkey)
{
	struct sn_mw *mw;

	LIST_FOREACH(mw, &qp->windows, in_qp)
		if (mw->rkey == rkey)
			return mw;
	return NULL;
}

/* The registration that the request binds, or NULL if it may not. */
static struct sn_mr *do_bind_check(const struct sn_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	const struct sn_mw *mw = to_sn_mw(wr->bind_mw.mw);
	uint32_t change = wr->bind_mw.rkey ^ mw->verbs.rkey;

	if (!(qp->access & IBV_ACCESS_MW_BIND) || mw->qp || mw->verbs.pd != qp->verbs.pd)
		return NULL;
	if (!change || (change & ~MW_OWNER_MASK) || !info->length ||
	    info->mw_access_flags != IBV_ACCESS_REMOTE_READ)
		return NULL;
	return sn_mr_find(qp->ctx, qp->verbs.pd, info->mr->lkey, info->addr, info->length,
			  IBV_ACCESS_MW_BIND);
}

bool do_sn_mw_bind(struct sn_qp *qp, const struct ibv_send_wr *wr)
{
	struct sn_mw *mw = to_sn_mw(wr->bind_mw.mw);
	struct sn_mr *mr;

	pthread_mutex_lock(&qp->ctx->mr_lock);
	mr = do_bind_check(qp, wr);
	if (mr) {
		mw->qp = qp;
		mw->mr = mr;
		mw->rkey = wr->bind_mw.rkey;
		mw->addr = wr->bind_mw.bind_info.addr;
		mw->length = wr->bind_mw.bind_info.length;
		LIST_INSERT_HEAD(&qp->windows, mw, in_qp);
	}
	pthread_mutex_unlock(&qp->ctx->mr_lock);
	if (!mr)
		return false;
	/* Until the file is passed, READs are served. */
	qp->window_new = true;
	if (qp->mine && (qp->access & IBV_ACCESS_REMOTE_READ))
		side_store(&qp->mine->serves, 1);
	return true;
}
