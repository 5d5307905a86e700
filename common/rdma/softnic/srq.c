/* SPDX-License-Identifier: MIT */
/* Receive queues: the queue of posted receives, and shared receive queues with their limit. */
#include "common/rdma/softnic/receive_queue.h"

#include <errno.h>
#include <string.h>

#include "common/rdma/softnic/async_event.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/scatter_gather.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"
#include "common/util/log.h"

static int recv_queue_alloc(struct sn_recv_queue *queue, uint32_t slots)
{
	queue->mask = slots - 1;
	queue->wrs = heap_calloc(slots, sizeof(*queue->wrs));
	queue->sges = heap_calloc((size_t)slots * queue->max_sge, sizeof(*queue->sges));
	if (!queue->wrs || !queue->sges) {
		sn_recv_queue_release(queue);
		return -ENOMEM;
	}
	return 0;
}

int sn_recv_queue_init(struct sn_recv_queue *queue, uint32_t max_wr, uint32_t max_sge, bool grows)
{
	uint32_t slots = sn_round_up(max_wr);

	memset(queue, 0, sizeof(*queue));
	queue->max_wr = max_wr;
	queue->max_sge = max_sge ? max_sge : 1;
	return recv_queue_alloc(queue, grows && slots > SN_QUEUE_FIRST ? SN_QUEUE_FIRST : slots);
}

/* Doubles the memory. */
static int recv_queue_grow(struct sn_recv_queue *queue)
{
	struct sn_recv_queue grown = *queue;
	uint32_t i, from, to;

	if (recv_queue_alloc(&grown, 2 * (queue->mask + 1)))
		return -ENOMEM;
	for (i = queue->tail; i != queue->head; i++) {
		from = i & queue->mask;
		to = i & grown.mask;
		grown.wrs[to] = queue->wrs[from];
		memcpy(&grown.sges[(size_t)to * queue->max_sge],
		       &queue->sges[(size_t)from * queue->max_sge],
		       queue->max_sge * sizeof(*queue->sges));
	}
	heap_free(queue->wrs);
	heap_free(queue->sges);
	*queue = grown;
	return 0;
}

void sn_recv_queue_release(struct sn_recv_queue *queue)
{
	heap_free(queue->wrs);
	heap_free(queue->sges);
	memset(queue, 0, sizeof(*queue));
}

int sn_recv_queue_post(struct sn_recv_queue *queue, const struct ibv_recv_wr *wr)
{
	uint32_t slot;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->max_sge)
		return -EINVAL;
	if (queue->head - queue->tail >= queue->max_wr)
		return -ENOMEM;
	if (queue->head - queue->tail > queue->mask && recv_queue_grow(queue))
		return -ENOMEM;
	slot = queue->head & queue->mask;
	queue->wrs[slot].wr_id = wr->wr_id;
	queue->wrs[slot].num_sge = (uint32_t)wr->num_sge;
	if (wr->num_sge)
		memcpy(&queue->sges[(size_t)slot * queue->max_sge], wr->sg_list,
		       (size_t)wr->num_sge * sizeof(*wr->sg_list));
	queue->head++;
	return 0;
}

bool sn_recv_queue_take(struct sn_recv_queue *queue, struct sn_incoming *in)
{
	uint32_t slot = queue->tail & queue->mask;

	if (queue->head == queue->tail)
		return false;
	in->wr_id = queue->wrs[slot].wr_id;
	in->num_sge = queue->wrs[slot].num_sge;
	memcpy(in->sges, &queue->sges[(size_t)slot * queue->max_sge],
	       in->num_sge * sizeof(in->sges[0]));
	queue->tail++;
	return true;
}

int sn_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct ibv_srq **out)
{
	struct sn_context *ctx = to_sn_context(pd->context);
	struct sn_srq *srq;
	int ret;

	ret = fault_check(FAULT_create_srq, ctx);
	if (ret)
		return ret;
	if (!attr->attr.max_wr || attr->attr.max_wr > SN_SRQ_WR_MAX ||
	    attr->attr.max_sge > SN_SGE_MAX) {
		log_error(
			"softnic: can't create a shared receive queue of %u receives of %u pieces: "
			"use 1 to %d of at most %d",
			attr->attr.max_wr, attr->attr.max_sge, SN_SRQ_WR_MAX, SN_SGE_MAX);
		return -EINVAL;
	}
	ret = sn_object_add(ctx, SN_OBJECT_SRQ);
	if (ret)
		return ret;
	srq = heap_calloc(1, sizeof(*srq));
	if (!srq) {
		ret = -ENOMEM;
		goto remove_object;
	}
	ret = sn_recv_queue_init(&srq->queue, attr->attr.max_wr, attr->attr.max_sge, false);
	if (ret)
		goto free_srq;
	srq->ctx = ctx;
	srq->verbs.context = &ctx->verbs;
	srq->verbs.srq_context = attr->srq_context;
	srq->limit_reached.event = (struct device_async_event){
		.type = IBV_EVENT_SRQ_LIMIT_REACHED,
		.srq = &srq->verbs,
	};
	srq->verbs.pd = pd;
	pthread_mutex_init(&srq->lock, NULL);
	attr->attr.max_sge = srq->queue.max_sge;
	*out = &srq->verbs;
	return 0;

free_srq:
	heap_free(srq);
remove_object:
	sn_object_remove(ctx, SN_OBJECT_SRQ);
	return ret;
}

int sn_modify_srq(struct ibv_srq *verbs, struct ibv_srq_attr *attr, int mask)
{
	struct sn_srq *srq = to_sn_srq(verbs);
	int ret = fault_check(FAULT_modify_srq, srq->ctx);

	if (ret)
		return ret;
	if (mask & IBV_SRQ_MAX_WR)
		return -EOPNOTSUPP;
	if (mask != IBV_SRQ_LIMIT || attr->srq_limit > srq->queue.max_wr)
		return -EINVAL;
	pthread_mutex_lock(&srq->lock);
	srq->limit = attr->srq_limit;
	pthread_mutex_unlock(&srq->lock);
	return 0;
}

void sn_destroy_srq(struct ibv_srq *verbs)
{
	struct sn_srq *srq = verbs ? to_sn_srq(verbs) : NULL;

	if (!srq)
		return;
	sn_async_forget(srq->ctx, &srq->limit_reached);
	sn_object_remove(srq->ctx, SN_OBJECT_SRQ);
	pthread_mutex_destroy(&srq->lock);
	sn_recv_queue_release(&srq->queue);
	heap_free(srq);
}

int sn_post_srq_recv(struct ibv_srq *verbs, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct sn_srq *srq = to_sn_srq(verbs);
	int ret = fault_check(FAULT_post_srq_recv, srq->ctx);

	if (ret) {
		*bad_wr = wr;
		return -ret;
	}
	pthread_mutex_lock(&srq->lock);
	for (; wr; wr = wr->next) {
		ret = sn_recv_queue_post(&srq->queue, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	pthread_mutex_unlock(&srq->lock);
	return -ret;
}

bool sn_srq_take(struct sn_srq *srq, struct sn_incoming *in)
{
	struct sn_recv_queue *queue = &srq->queue;
	bool low = false;
	bool taken;

	pthread_mutex_lock(&srq->lock);
	taken = sn_recv_queue_take(queue, in);
	if (srq->limit && queue->head - queue->tail < srq->limit) {
		srq->limit = 0;
		low = true;
	}
	pthread_mutex_unlock(&srq->lock);
	if (low)
		sn_async_push(srq->ctx, &srq->limit_reached);
	return taken;
}
