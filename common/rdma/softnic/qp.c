/* SPDX-License-Identifier: MIT */
/* Queue pairs: creating and destroying them, connecting them to a peer, and the error state. */
#include "common/rdma/softnic/queue_pair.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/rdma/softnic/async_event.h"
#include "common/rdma/softnic/cm.h"
#include "common/rdma/softnic/completion_channel.h"
#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/file_grant.h"
#include "common/rdma/softnic/life_word.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/memory_window.h"
#include "common/rdma/softnic/receive_queue.h"
#include "common/rdma/softnic/scatter_gather.h"
#include "common/rdma/softnic/send_queue.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"
#include "common/util/log.h"

#define QP_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)
#define QP_MASK (IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER)

static int qp_check(const struct ibv_qp_init_attr *attr, int access)
{
	const struct ibv_qp_cap *cap = &attr->cap;

	if (attr->qp_type != IBV_QPT_RC)
		return -EOPNOTSUPP;
	if (access & ~QP_ACCESS) {
		log_error(
			"softnic: can't create a queue pair with access %#x: softnic never writes "
			"a peer's memory; use LOCAL_WRITE, REMOTE_READ and MW_BIND only",
			(unsigned int)access);
		return -EINVAL;
	}
	if (!attr->send_cq || !attr->recv_cq || cap->max_send_wr > SN_WR_MAX ||
	    cap->max_recv_wr > SN_WR_MAX || cap->max_send_sge > SN_SGE_MAX ||
	    cap->max_recv_sge > SN_SGE_MAX || cap->max_inline_data > SN_INLINE_MAX) {
		log_error(
			"softnic: can't create a queue pair of %u+%u requests, %u+%u pieces, %u "
			"bytes inline: give it both CQs and at most %d requests, %d pieces and %d "
			"bytes inline",
			cap->max_send_wr, cap->max_recv_wr, cap->max_send_sge, cap->max_recv_sge,
			cap->max_inline_data, SN_WR_MAX, SN_SGE_MAX, SN_INLINE_MAX);
		return -EINVAL;
	}
	return 0;
}

static int qp_alloc_queues(struct sn_qp *qp)
{
	int ret = sn_send_queue_init(qp);

	if (ret || qp->srq)
		return ret;
	return sn_recv_queue_init(&qp->rq, qp->cap.max_recv_wr, qp->cap.max_recv_sge,
				  qp->lock.single);
}

static void qp_free(struct sn_qp *qp)
{
	sn_recv_queue_release(&qp->rq);
	sn_send_queue_release(&qp->sq);
	sn_lock_destroy(&qp->lock);
	heap_free(qp);
}

static void qp_init(struct sn_qp *qp, struct sn_context *ctx, struct ibv_pd *pd,
		    const struct ibv_qp_init_attr *attr, int access)
{
	unsigned int i;

	qp->ctx = ctx;
	qp->send_cq = to_sn_cq(attr->send_cq);
	qp->recv_cq = to_sn_cq(attr->recv_cq);
	sn_lock_init(&qp->lock, qp->send_cq->lock.single && qp->recv_cq->lock.single);
	qp->srq = attr->srq ? to_sn_srq(attr->srq) : NULL;
	qp->cap = attr->cap;
	qp->signal_all = attr->sq_sig_all;
	qp->access = access;
	qp->sock = -1;
	qp->reads_max = SN_READS_MAX;
	LIST_INIT(&qp->windows);
	qp->member_count = qp->send_cq == qp->recv_cq ? 1 : 2;
	for (i = 0; i < qp->member_count; i++)
		qp->members[i].qp = qp;
	qp->last_wqe.event = (struct device_async_event){
		.type = IBV_EVENT_QP_LAST_WQE_REACHED,
		.qp = &qp->verbs,
	};
	qp->access_error.event = (struct device_async_event){
		.type = IBV_EVENT_QP_ACCESS_ERR,
		.qp = &qp->verbs,
	};
	qp->verbs = (struct ibv_qp){
		.context = &ctx->verbs,
		.qp_context = attr->qp_context,
		.pd = pd,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.state = IBV_QPS_INIT,
		.qp_type = IBV_QPT_RC,
	};
	if (qp->srq)
		qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
}

static int qp_enlist(struct sn_qp *qp)
{
	struct sn_context *ctx = qp->ctx;
	int ret;

	pthread_mutex_lock(&ctx->lock);
	ret = do_sn_qp_number_take(&ctx->qp_numbers, qp);
	if (!ret)
		TAILQ_INSERT_TAIL(&ctx->qps, qp, in_context);
	pthread_mutex_unlock(&ctx->lock);
	return ret;
}

static void qp_delist(struct sn_qp *qp)
{
	pthread_mutex_lock(&qp->ctx->lock);
	TAILQ_REMOVE(&qp->ctx->qps, qp, in_context);
	do_sn_qp_number_put(&qp->ctx->qp_numbers, qp);
	pthread_mutex_unlock(&qp->ctx->lock);
}

/* Assumes that all pages of the link's memory are used, and that the send queue has grown. */
uint64_t sn_conn_bytes(const struct ibv_qp_cap *cap)
{
	const uint64_t slot = sizeof(struct sn_send) + cap->max_send_sge * sizeof(struct ibv_sge) +
			      cap->max_inline_data;
	uint64_t slots = 1;

	while (slots < cap->max_send_wr)
		slots *= 2;
	return LINK_BYTES + sizeof(struct sn_id) + sizeof(struct sn_qp) + slots * slot;
}

int sn_create_qp(struct cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int access)
{
	struct sn_context *ctx = to_sn_context(pd->context);
	struct sn_qp *qp;
	int ret;

	ret = fault_check(FAULT_create_qp, ctx);
	if (ret)
		return ret;
	ret = qp_check(attr, access);
	if (ret)
		return ret;
	ret = sn_object_add(ctx, SN_OBJECT_QP);
	if (ret)
		return ret;
	qp = heap_calloc(1, sizeof(*qp));
	if (!qp) {
		ret = -ENOMEM;
		goto remove_object;
	}
	qp_init(qp, ctx, pd, attr, access);
	ret = qp_alloc_queues(qp);
	if (ret)
		goto free_qp;
	ret = sn_cq_reserve(qp->send_cq);
	if (ret)
		goto free_qp;
	ret = sn_cq_reserve(qp->recv_cq);
	if (ret)
		goto unreserve_send;
	ret = qp_enlist(qp);
	if (ret)
		goto unreserve_recv;
	ret = sn_id_set_qp(id, qp);
	if (ret)
		goto delist_qp;
	attr->cap = qp->cap;
	return 0;

delist_qp:
	qp_delist(qp);
unreserve_recv:
	sn_cq_unreserve(qp->recv_cq);
unreserve_send:
	sn_cq_unreserve(qp->send_cq);
free_qp:
	qp_free(qp);
remove_object:
	sn_object_remove(ctx, SN_OBJECT_QP);
	return ret;
}

static void qp_leave_cqs(struct sn_qp *qp)
{
	if (!qp->attached)
		return;
	if (qp->send_cq->channel)
		sn_channel_unwatch(qp->send_cq->channel, qp->sock);
	if (qp->recv_cq->channel && qp->recv_cq->channel != qp->send_cq->channel)
		sn_channel_unwatch(qp->recv_cq->channel, qp->sock);
	sn_cq_remove(qp->send_cq, &qp->members[0]);
	if (qp->member_count > 1)
		sn_cq_remove(qp->recv_cq, &qp->members[1]);
}

void sn_qp_destroy(struct sn_qp *qp)
{
	struct sn_context *ctx = qp->ctx;

	qp_delist(qp);
	sn_mw_lose_qp(qp);
	sn_lock(&qp->lock);
	if (qp->mine && qp->verbs.state != IBV_QPS_ERR) {
		side_store(&qp->mine->error, LINK_ERROR_GONE);
		qp->changed |= LINK_WAKE_EVENT;
		do_sn_qp_publish(qp);
	}
	qp->verbs.state = IBV_QPS_ERR;
	do_sn_qp_attend(qp, false);
	do_sn_grants_release(qp);
	do_sn_life_release(qp);
	sn_unlock(&qp->lock);
	qp_leave_cqs(qp);
	sn_cq_forget(qp->send_cq, qp);
	sn_cq_forget(qp->recv_cq, qp);
	sn_async_forget(ctx, &qp->last_wqe);
	sn_async_forget(ctx, &qp->access_error);
	link_unmap(qp->shared);
	sn_object_remove(ctx, SN_OBJECT_QP);
	sn_cq_unreserve(qp->send_cq);
	sn_cq_unreserve(qp->recv_cq);
	qp_free(qp);
}

static void do_qp_attach(struct sn_qp *qp, const struct sn_attach *attach)
{
	struct link_shared *shared = attach->shared;
	unsigned int me = attach->is_active ? LINK_ACTIVE : LINK_PASSIVE;

	qp->shared = shared;
	qp->mine = link_side(shared, attach->line, me);
	qp->sock = attach->sock;
	qp->is_active = attach->is_active;
	qp->rnr_retry = attach->rnr_retry;
	qp->min_rnr_timer = attach->min_rnr_timer;
	qp->reads_max = attach->reads_max;
	qp->life_due = !attach->is_active;
	qp->request_out.data = shared->request[me];
	qp->response_out.data = shared->response[me];
	qp->request_in.data = shared->request[!me];
	qp->response_in.data = shared->response[!me];
	if (!qp->is_active)
		side_store(&qp->mine->follows, 1);
	/* Until the files are passed, READs are served. */
	if (qp->access & IBV_ACCESS_REMOTE_READ)
		side_store(&qp->mine->serves, 1);
	qp->verbs.state = IBV_QPS_RTS;
	atomic_store_explicit(&qp->theirs, link_side(shared, attach->line, !me),
			      memory_order_release);
}

int sn_qp_attach(struct sn_qp *qp, const struct sn_attach *attach)
{
	int ret = 0;

	sn_lock(&qp->lock);
	if (qp->verbs.state != IBV_QPS_INIT || qp->shared)
		ret = -EINVAL;
	else
		do_qp_attach(qp, attach);
	sn_unlock(&qp->lock);
	if (ret)
		return ret;
	sn_cq_add(qp->send_cq, &qp->members[0]);
	if (qp->member_count > 1)
		sn_cq_add(qp->recv_cq, &qp->members[1]);
	sn_lock(&qp->lock);
	qp->attached = true;
	sn_unlock(&qp->lock);
	return 0;
}

void sn_qp_announce(struct sn_qp *qp)
{
	sn_lock(&qp->lock);
	qp->announced = true;
	sn_unlock(&qp->lock);
	sn_grants_update(qp);
}

int sn_qp_establish(struct sn_qp *qp)
{
	struct sn_channel *send = qp->send_cq->channel;
	struct sn_channel *recv = qp->recv_cq->channel;
	int ret = 0;

	sn_lock(&qp->lock);
	qp->established = true;
	sn_unlock(&qp->lock);
	if (send)
		ret = sn_channel_watch(send, qp, qp->sock);
	if (!ret && recv && recv != send)
		ret = sn_channel_watch(recv, qp, qp->sock);
	if (ret)
		log_ratelimited(LOG_ERROR, 1,
				"softnic: queue pair %#x: can't watch its connection: %s",
				qp->verbs.qp_num, strerrordesc_np(-ret));
	return ret;
}

void do_sn_qp_error(struct sn_qp *qp, enum ibv_wc_status status, enum link_error why)
{
	if (qp->verbs.state == IBV_QPS_ERR)
		return;
	qp->verbs.state = IBV_QPS_ERR;
	do_sn_send_complete(qp);
	do_sn_send_flush(qp, status);
	do_sn_recv_flush(qp);
	do_sn_qp_attend(qp, false);
	if (qp->mine) {
		side_store(&qp->mine->error, (uint32_t)why);
		qp->changed |= LINK_WAKE_EVENT;
		do_sn_qp_publish(qp);
	}
	if (qp->srq)
		sn_async_push(qp->ctx, &qp->last_wqe);
}

void do_sn_qp_broken(struct sn_qp *qp, const char *what)
{
	log_ratelimited(
		LOG_WARN, 10,
		"softnic: queue pair %#x: the peer %s; disconnecting it. The usual cause is a "
		"handle that two threads, or a process and its child after fork(), use at once",
		qp->verbs.qp_num, what);
	side_store(&qp->mine->closed, 1);
	do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
	shutdown(qp->sock, SHUT_RDWR);
}

void sn_qp_disconnect(struct sn_qp *qp)
{
	sn_lock(&qp->lock);
	if (qp->mine) {
		side_store(&qp->mine->closed, 1);
		qp->changed |= LINK_WAKE_EVENT;
	}
	do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_NONE);
	do_sn_qp_publish(qp);
	sn_unlock(&qp->lock);
}

void do_sn_qp_lost(struct sn_qp *qp)
{
	do_sn_qp_progress(qp);
	do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
}

void sn_qp_lost(struct sn_qp *qp)
{
	sn_lock(&qp->lock);
	do_sn_qp_lost(qp);
	sn_unlock(&qp->lock);
}

bool sn_qp_in_error(struct sn_qp *qp)
{
	bool in_error;

	sn_lock(&qp->lock);
	in_error = qp->verbs.state == IBV_QPS_ERR;
	sn_unlock(&qp->lock);
	return in_error;
}

void sn_qp_drop(struct sn_qp *qp)
{
	sn_lock(&qp->lock);
	if (qp->sock >= 0) {
		shutdown(qp->sock, SHUT_RDWR);
		do_sn_qp_lost(qp);
	}
	sn_unlock(&qp->lock);
}

bool do_sn_qp_loses(struct sn_qp *qp)
{
	uint64_t after_ns = qp->verbs.state == IBV_QPS_RTS ? fault_loses_ns() : 0;

	if (after_ns)
		qp->lost_until_ns = sn_now_ns(CLOCK_MONOTONIC) + after_ns;
	return after_ns;
}

static int do_qp_modify(struct sn_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (!mask || (mask & ~QP_MASK))
		return -EINVAL;
	if ((mask & IBV_QP_STATE) && attr->qp_state != IBV_QPS_ERR &&
	    attr->qp_state != qp->verbs.state)
		return -EINVAL; /* only connection management makes other changes */
	if ((mask & IBV_QP_ACCESS_FLAGS) && (attr->qp_access_flags & ~(unsigned int)QP_ACCESS))
		return -EINVAL;
	if ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31)
		return -EINVAL;
	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->access = (int)attr->qp_access_flags;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		qp->min_rnr_timer = attr->min_rnr_timer;
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR)
		do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
	return 0;
}

int sn_modify_qp(struct ibv_qp *verbs, struct ibv_qp_attr *attr, int mask)
{
	struct sn_qp *qp = to_sn_qp(verbs);
	int ret = fault_check(FAULT_modify_qp, qp->ctx);

	if (ret)
		return ret;
	sn_lock(&qp->lock);
	ret = do_qp_modify(qp, attr, mask);
	sn_unlock(&qp->lock);
	if (!ret)
		sn_grants_update(qp);
	return ret;
}

int sn_query_qp(struct ibv_qp *verbs, struct ibv_qp_attr *attr, int mask)
{
	struct sn_qp *qp = to_sn_qp(verbs);
	int ret = fault_check(FAULT_query_qp, qp->ctx);

	(void)mask; /* returns all attributes, as libibverbs allows */
	if (ret)
		return ret;
	sn_lock(&qp->lock);
	*attr = (struct ibv_qp_attr){
		.qp_state = verbs->state,
		.cur_qp_state = verbs->state,
		.path_mtu = IBV_MTU_4096,
		.qp_access_flags = (unsigned int)qp->access,
		.cap = qp->cap,
		.max_rd_atomic = qp->reads_max,
		.max_dest_rd_atomic = SN_READS_MAX,
		.min_rnr_timer = qp->min_rnr_timer,
		.port_num = 1,
		.rnr_retry = qp->rnr_retry,
	};
	sn_unlock(&qp->lock);
	return 0;
}
