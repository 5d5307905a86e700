/* SPDX-License-Identifier: MIT */
/*
 * The receiving half of a queue pair: writes the peer's SENDs to posted receives, and serves its
 * READs from the registrations of the PD. Requests are executed in order; one that waits, for a
 * receive or for room for its response, delays those after it.
 */
#include "common/rdma/softnic/queue_pair.h"

#include <errno.h>

#include "common/rdma/softnic/async_event.h"
#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/memory_region.h"
#include "common/rdma/softnic/memory_window.h"
#include "common/rdma/softnic/receive_queue.h"
#include "common/rdma/softnic/scatter_gather.h"
#include "common/rdma/softnic/send_queue.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/log.h"

int sn_post_recv(struct ibv_qp *verbs, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct sn_qp *qp = to_sn_qp(verbs);
	int ret = fault_check(FAULT_post_recv, qp->ctx);

	if (!ret && qp->srq)
		ret = -EINVAL;
	if (ret) {
		*bad_wr = wr;
		return -ret;
	}
	sn_lock(&qp->lock);
	for (; wr; wr = wr->next) {
		ret = sn_recv_queue_post(&qp->rq, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	if (verbs->state == IBV_QPS_ERR)
		do_sn_recv_flush(qp);
	sn_unlock(&qp->lock);
	return -ret;
}

static void do_recv_complete(struct sn_qp *qp, enum ibv_wc_status status, bool solicited)
{
	struct sn_incoming *in = &qp->incoming;
	struct sn_cqe cqe = {
		.qp = qp,
		.solicited = solicited || status != IBV_WC_SUCCESS,
		.wc = {
			.wr_id = in->wr_id,
			.status = status,
			.opcode = IBV_WC_RECV,
			.byte_len = in->total,
			.qp_num = qp->verbs.qp_num,
		},
	};

	in->active = false;
	if (!sn_cq_push(qp->recv_cq, &cqe))
		do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
}

void do_sn_recv_flush(struct sn_qp *qp)
{
	struct sn_incoming *in = &qp->incoming;

	in->waiting = false;
	in->total = 0;
	if (in->active)
		do_recv_complete(qp, IBV_WC_WR_FLUSH_ERR, false);
	while (!qp->srq && sn_recv_queue_take(&qp->rq, in)) {
		in->total = 0;
		do_recv_complete(qp, IBV_WC_WR_FLUSH_ERR, false);
	}
}

/* No receive is posted: tells the peer now, and again each time a NIC would have retried. */
static void do_recv_wait(struct sn_qp *qp)
{
	struct sn_incoming *in = &qp->incoming;
	uint64_t now = sn_now_ns(CLOCK_MONOTONIC);
	uint64_t count;

	if (!in->waiting) {
		in->waiting = true;
		in->waiting_since_ns = now;
	}
	count = 1 + (now - in->waiting_since_ns) / sn_rnr_timer_ns(qp->min_rnr_timer);
	if (count > UINT8_MAX)
		count = UINT8_MAX; /* a retry count is 7 at most */
	if (side_load(&qp->mine->rnr_count) == count && side_load(&qp->mine->rnr_send) == qp->acked)
		return;
	side_store(&qp->mine->rnr_count, 0);
	side_store(&qp->mine->rnr_send, qp->acked);
	side_store(&qp->mine->rnr_count, (uint32_t)count);
	qp->changed |= LINK_WAKE_EVENT;
}

/* Takes a receive for a message whose first piece is here. */
static bool do_recv_begin(struct sn_qp *qp, uint32_t total)
{
	struct sn_incoming *in = &qp->incoming;

	if (!(qp->srq ? sn_srq_take(qp->srq, in) : sn_recv_queue_take(&qp->rq, in))) {
		do_recv_wait(qp);
		return false;
	}
	in->active = true;
	in->waiting = false;
	in->total = total;
	in->moved = 0;
	if (sn_sges_length(in->sges, in->num_sge) < total) {
		do_recv_complete(qp, IBV_WC_LOC_LEN_ERR, false);
		do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_TOO_LONG);
		return false;
	}
	if (!sn_sges_valid(qp, in->sges, in->num_sge, IBV_ACCESS_LOCAL_WRITE)) {
		do_recv_complete(qp, IBV_WC_LOC_PROT_ERR, false);
		do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_OPERATION);
		return false;
	}
	return true;
}

/* Receives one piece of a SEND. 1: done; 0: not now; -EPROTO. */
static int do_recv_send(struct sn_qp *qp, const struct link_request *request)
{
	struct sn_incoming *in = &qp->incoming;

	if (!in->active) {
		if (request->total > SN_MESSAGE_MAX || request->length > request->total ||
		    (!request->length && request->total))
			return -EPROTO;
		if (!do_recv_begin(qp, request->total))
			return 0;
	} else if (!request->length || request->length > in->total - in->moved) {
		return -EPROTO;
	}
	sn_sges_from_ring(&qp->request_in, sizeof(*request), in->sges, in->num_sge, in->moved,
			  request->length);
	in->moved += request->length;
	if (in->moved == in->total) {
		if (fault_on() && do_sn_qp_loses(qp))
			return 0;
		qp->acked++;
		if (!qp->is_active)
			qp->sends_taken++;
		qp->changed |= LINK_WAKE_ACK;
		do_recv_complete(qp, IBV_WC_SUCCESS, request->opcode == LINK_SEND_SOLICITED);
	}
	return 1;
}

/* The peer may not read that memory: it gets a refusal, and the queue pair goes to error. */
static void do_serve_refuse(struct sn_qp *qp)
{
	struct link_response response = { .status = 1 };

	log_ratelimited(
		LOG_WARN, 10,
		"softnic: queue pair %#x: refused the peer's READ of %u bytes at %#llx: key %#x "
		"does not allow it; disconnecting the peer",
		qp->verbs.qp_num, qp->serving.left, (unsigned long long)qp->serving.addr,
		qp->serving.rkey);
	qp->serving.active = false;
	ring_out_write(&qp->response_out, 0, &response, sizeof(response));
	ring_out_commit(&qp->response_out, sizeof(response));
	qp->changed |= LINK_WAKE_EVENT;
	do_sn_qp_publish(qp);
	sn_async_push(qp->ctx, &qp->access_error);
	do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
}

/* Whether what is left of the READ is allowed, by a registration or a window. mr_lock is held. */
static bool do_serve_allowed(const struct sn_qp *qp)
{
	const struct sn_serving *serving = &qp->serving;
	const struct sn_mw *mw;

	if (!(qp->access & IBV_ACCESS_REMOTE_READ))
		return false;
	mw = do_sn_mw_find(qp, serving->rkey);
	if (mw)
		return sn_mw_covers(mw, serving->addr, serving->left);
	return sn_mr_find(qp->ctx, qp->verbs.pd, serving->rkey, serving->addr, serving->left,
			  IBV_ACCESS_REMOTE_READ);
}

static bool do_serve_piece(struct sn_qp *qp, uint32_t length)
{
	struct sn_serving *serving = &qp->serving;
	struct link_response response = { .length = length };
	bool allowed;

	ring_out_write(&qp->response_out, 0, &response, sizeof(response));
	if (!length)
		goto commit; /* a zero-length READ needs no key */
	pthread_mutex_lock(&qp->ctx->mr_lock);
	allowed = do_serve_allowed(qp);
	if (allowed)
		ring_out_write(&qp->response_out, sizeof(response),
			       (const void *)(uintptr_t)serving->addr, length);
	pthread_mutex_unlock(&qp->ctx->mr_lock);
	if (!allowed)
		return false;
	serving->addr += length;
	serving->left -= length;
commit:
	ring_out_commit(&qp->response_out, (uint32_t)sizeof(response) + length);
	qp->changed |= LINK_WAKE_EVENT;
	return true;
}

/* Writes the response while there is room. 1: all is in the ring; 0: not now. */
static int do_serve(struct sn_qp *qp)
{
	struct sn_serving *serving = &qp->serving;

	do {
		uint32_t room = ring_out_room(&qp->response_out);
		uint32_t length = serving->left < LINK_PIECE_MAX ? serving->left : LINK_PIECE_MAX;

		if (room < ring_span((uint32_t)sizeof(struct link_response) + length)) {
			if (room < LINK_PIECE_MIN)
				return 0;
			length = room - (uint32_t)sizeof(struct link_response);
		}
		if (!do_serve_piece(qp, length)) {
			do_serve_refuse(qp);
			return 0;
		}
	} while (serving->left);
	serving->active = false;
	return 1;
}

static int do_recv_read(struct sn_qp *qp, const struct link_request *request)
{
	struct link_read read;

	/* The READ may want memory that is not filled yet; its response says that all is. */
	if (qp->filling)
		return 0;
	if (!qp->serving.active) {
		if (request->length != sizeof(read))
			return -EPROTO;
		ring_in_read(&qp->request_in, sizeof(*request), &read, sizeof(read));
		if (read.length > SN_MESSAGE_MAX)
			return -EPROTO;
		qp->serving = (struct sn_serving){
			.active = true,
			.addr = read.addr,
			.rkey = read.rkey,
			.left = read.length,
		};
	}
	return do_serve(qp);
}

int do_sn_recv_requests(struct sn_qp *qp)
{
	struct ring_in *ring = &qp->request_in;

	/* At most RING_BYTES / RING_UNIT records, since the peer's head is not loaded again. */
	while (qp->verbs.state == IBV_QPS_RTS && ring_in_ready(ring)) {
		struct link_request request;
		uint32_t span;
		int ret;

		ring_in_read(ring, 0, &request, sizeof(request));
		if (request.length > LINK_PIECE_MAX)
			return -EPROTO;
		span = ring_span((uint32_t)sizeof(request) + request.length);
		if (span > ring_in_ready(ring))
			return -EPROTO;
		switch (request.opcode) {
		case LINK_SEND:
		case LINK_SEND_SOLICITED:
			ret = do_recv_send(qp, &request);
			break;
		case LINK_READ:
			ret = qp->incoming.active ? -EPROTO : do_recv_read(qp, &request);
			break;
		default:
			ret = -EPROTO;
		}
		if (ret <= 0)
			return ret;
		ring_in_consume(ring, span);
		qp->changed |= LINK_WAKE_ROOM;
	}
	return 0;
}
