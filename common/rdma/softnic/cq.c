/* SPDX-License-Identifier: MIT */
/* Completion queues: completions and notifications. scan.c chooses what a poll looks at. */
#include "common/rdma/softnic/completion_queue.h"

#include <errno.h>
#include <limits.h>

#include "common/rdma/softnic/async_event.h"
#include "common/rdma/softnic/completion_channel.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"
#include "common/util/log.h"

/* A channel pair's CQ starts small and grows: a client may have thousands of pairs. */
static uint32_t cq_entries_first(const struct sn_cq *cq, int cqe)
{
	uint32_t entries = sn_round_up((uint32_t)cqe);

	if (cq->channel && cq->channel->paired && entries > SN_QUEUE_FIRST)
		entries = SN_QUEUE_FIRST;
	return entries;
}

int sn_create_cq(struct device *dev, int cqe, void *cq_context, struct ibv_comp_channel *channel,
		 struct ibv_cq **out)
{
	struct sn_context *ctx = dev_to_sn_context(dev);
	struct sn_cq *cq;
	int ret;

	ret = fault_check(FAULT_create_cq, ctx);
	if (ret)
		return ret;
	if (cqe < 1 || cqe > SN_CQE_MAX) {
		log_error("softnic: can't create a completion queue of %d entries: use 1 to %d",
			  cqe, SN_CQE_MAX);
		return -EINVAL;
	}
	ret = sn_object_add(ctx, SN_OBJECT_CQ);
	if (ret)
		return ret;
	cq = heap_calloc(1, sizeof(*cq));
	if (!cq)
		goto no_memory;
	if (channel)
		cq->channel = sn_container(channel, struct sn_channel, verbs);
	cq->mask = cq_entries_first(cq, cqe) - 1;
	/* Not zeroed: the queue keeps to its first entries, so the other pages stay unused. */
	cq->cqes = heap_alloc(((size_t)cq->mask + 1) * sizeof(*cq->cqes));
	if (!cq->cqes)
		goto no_memory;
	cq->ctx = ctx;
	cq->verbs.context = &ctx->verbs;
	cq->verbs.channel = channel;
	cq->verbs.cq_context = cq_context;
	cq->verbs.cqe = cqe;
	cq->error.event = (struct device_async_event){
		.type = IBV_EVENT_CQ_ERR,
		.cq = &cq->verbs,
	};
	sn_lock_init(&cq->lock, cq->channel && cq->channel->paired);
	sn_lock_init(&cq->list_lock, cq->lock.single);
	cq->serve_after = SN_SERVE_AFTER;
	TAILQ_INIT(&cq->waiting);
	TAILQ_INIT(&cq->cold);
	if (channel)
		sn_channel_add(cq->channel, cq);
	*out = &cq->verbs;
	return 0;

no_memory:
	heap_free(cq);
	sn_object_remove(ctx, SN_OBJECT_CQ);
	return -ENOMEM;
}

void sn_destroy_cq(struct ibv_cq *verbs)
{
	struct sn_cq *cq = verbs ? to_sn_cq(verbs) : NULL;

	if (!cq)
		return;
	if (cq->channel)
		sn_channel_remove(cq->channel, cq);
	sn_async_forget(cq->ctx, &cq->error);
	sn_object_remove(cq->ctx, SN_OBJECT_CQ);
	sn_lock_destroy(&cq->list_lock);
	sn_lock_destroy(&cq->lock);
	heap_free(cq->hot_members);
	heap_free(cq->hot);
	heap_free(cq->cqes);
	heap_free(cq);
}

static void do_cq_overrun(struct sn_cq *cq)
{
	if (cq->dead)
		return;
	cq->dead = true;
	log_error(
		"softnic: a completion queue of %d entries overflowed and can't be used any more: "
		"it must hold the completions of all requests that may be outstanding",
		cq->verbs.cqe);
	sn_async_push(cq->ctx, &cq->error);
}

static void do_cq_notify(struct sn_cq *cq, bool solicited)
{
	int notify = atomic_load_explicit(&cq->notify, memory_order_relaxed);

	if (notify == SN_NOTIFY_ANY || (notify == SN_NOTIFY_SOLICITED && solicited)) {
		atomic_store_explicit(&cq->notify, SN_NOTIFY_NONE, memory_order_relaxed);
		if (cq->channel)
			sn_channel_event(cq->channel, cq);
	}
}

/* Doubles the memory. False: there is none. */
static bool do_cq_grow(struct sn_cq *cq)
{
	uint32_t mask = 2 * cq->mask + 1, i;
	struct sn_cqe *cqes = heap_alloc(((size_t)mask + 1) * sizeof(*cqes));

	if (!cqes)
		return false;
	for (i = cq->tail; i != cq->head; i++)
		cqes[i & mask] = cq->cqes[i & cq->mask];
	heap_free(cq->cqes);
	cq->cqes = cqes;
	cq->mask = mask;
	return true;
}

/* Makes room for one more completion of @count. False: there is no room, and the CQ is dead. */
static bool do_cq_make_room(struct sn_cq *cq, uint32_t count)
{
	if (!cq->dead && count < (uint32_t)cq->verbs.cqe && do_cq_grow(cq))
		return true;
	do_cq_overrun(cq);
	return false;
}

static inline bool do_cq_push(struct sn_cq *cq, const struct sn_cqe *cqe)
{
	uint32_t count = cq->head - cq->tail;

	if ((cq->dead || count >= (uint32_t)cq->verbs.cqe || count > cq->mask) &&
	    !do_cq_make_room(cq, count))
		return false;
	cq->cqes[cq->head++ & cq->mask] = *cqe;
	if (atomic_load_explicit(&cq->notify, memory_order_relaxed))
		do_cq_notify(cq, cqe->solicited);
	return true;
}

bool sn_cq_push(struct sn_cq *cq, const struct sn_cqe *cqe)
{
	bool pushed;

	sn_lock(&cq->lock);
	pushed = do_cq_push(cq, cqe);
	sn_unlock(&cq->lock);
	return pushed;
}

/* Brings the oldest completion of a random queue pair to the front. */
static void do_cq_reorder(struct sn_cq *cq)
{
	uint32_t at = cq->tail + fault_pick(cq->head - cq->tail);
	struct sn_qp *qp = cq->cqes[at & cq->mask].qp;
	struct sn_cqe cqe;

	for (at = cq->tail; cq->cqes[at & cq->mask].qp != qp; at++)
		;
	cqe = cq->cqes[at & cq->mask];
	for (; at != cq->tail; at--)
		cq->cqes[at & cq->mask] = cq->cqes[(at - 1) & cq->mask];
	cq->cqes[at & cq->mask] = cqe;
}

static inline int do_cq_pop(struct sn_cq *cq, int count, struct ibv_wc *wc)
{
	int got = 0;

	while (got < count && cq->tail != cq->head) {
		struct sn_cqe *cqe = &cq->cqes[cq->tail++ & cq->mask];

		wc[got++] = cqe->wc;
		if (cqe->is_send)
			atomic_store_explicit(&cqe->qp->sq.freed, cqe->sq_end,
					      memory_order_release);
	}
	/* With few completions at a time the queue keeps to its first entries, in the cache. */
	if (cq->tail == cq->head)
		cq->tail = cq->head = 0;
	return got;
}

void sn_cq_forget(struct sn_cq *cq, struct sn_qp *qp)
{
	uint32_t from, to;

	sn_lock(&cq->lock);
	for (from = to = cq->tail; from != cq->head; from++) {
		if (cq->cqes[from & cq->mask].qp == qp)
			continue;
		if (from != to)
			cq->cqes[to & cq->mask] = cq->cqes[from & cq->mask];
		to++;
	}
	cq->head = to;
	sn_unlock(&cq->lock);
}

/* Fault plan: takes all that is there, in a random order of the queue pairs. */
static int cq_poll_reordered(struct sn_cq *cq, int count, struct ibv_wc *wc)
{
	int got = 0;
	bool dead;

	sn_cq_scan(cq, INT_MAX);
	sn_lock(&cq->lock);
	while (got < count && cq->tail != cq->head) {
		do_cq_reorder(cq);
		got += do_cq_pop(cq, 1, wc + got);
	}
	dead = cq->dead;
	sn_unlock(&cq->lock);
	return got || !dead ? got : -EIO;
}

int sn_poll_cq(struct ibv_cq *verbs, int count, struct ibv_wc *wc)
{
	struct sn_cq *cq = to_sn_cq(verbs);
	bool dead;
	int got, ret;

	if (fault_on()) {
		ret = fault_hit(FAULT_poll_cq, cq->ctx);
		if (ret)
			return ret;
		if (fault_reorders())
			return cq_poll_reordered(cq, count, wc);
	}
	sn_lock(&cq->lock);
	got = do_cq_pop(cq, count, wc);
	if (got && cq->skipped++ < SN_SKIP_MAX) {
		sn_unlock(&cq->lock);
		return got;
	}
	cq->skipped = 0;
	sn_unlock(&cq->lock);
	sn_cq_scan(cq, count - got > 0 ? count - got : 1);
	sn_lock(&cq->lock);
	/* A program that only looks, with a count of 0, may have no array. */
	got += do_cq_pop(cq, count - got, got ? wc + got : wc);
	dead = cq->dead;
	sn_unlock(&cq->lock);
	return got || !dead ? got : -EIO;
}

int sn_req_notify_cq(struct ibv_cq *verbs, int solicited_only)
{
	struct sn_cq *cq = to_sn_cq(verbs);
	int ret = fault_check(FAULT_req_notify_cq, cq->ctx);

	if (ret)
		return -ret;
	sn_lock(&cq->list_lock);
	do_sn_cq_arm_all(cq, solicited_only ? SN_NOTIFY_SOLICITED : SN_NOTIFY_ANY);
	sn_unlock(&cq->list_lock);
	return 0;
}
