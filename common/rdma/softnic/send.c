/* SPDX-License-Identifier: MIT */
/*
 * The send queue: starts the posted SENDs and READs and completes them, both in the order in which
 * they were posted:
 *
 *	SEND		copied to the request ring, in pieces if it is long, at once if there
 *			is room; complete when the peer has counted it as received
 *	READ, mapped	copied once every SEND before it is complete, since a READ must see
 *			what they did to the peer's memory
 *	READ, file	likewise, but by a scan, a part of it in each: a post copies nothing, so
 *			that it takes no long time and all queue pairs have their turn
 *	READ, served	a request in the ring; complete when the last piece of the response is here
 *
 *	BIND_MW		done when it is posted, and complete when all before it is
 *
 * A request without IBV_SEND_SIGNALED keeps its slot until a later completion is polled. If a chain
 * does not fit, the requests from the first that does not are refused with ENOMEM.
 */
#include "common/rdma/softnic/send_queue.h"

#include <errno.h>
#include <string.h>

#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/file_grant.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/memory_region.h"
#include "common/rdma/softnic/memory_window.h"
#include "common/rdma/softnic/peer_file.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/scatter_gather.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"
#include "common/util/log.h"

#define SEND_FLAGS (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)

static enum ibv_wc_opcode wc_opcode(const struct sn_send *send)
{
	switch (send->opcode) {
	case IBV_WR_SEND:
		return IBV_WC_SEND;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	default:
		return IBV_WC_RDMA_READ;
	}
}

/* Pushes a completion; false if the CQ is full: then it is dead, and so is the queue pair. */
static bool do_send_report(struct sn_qp *qp, uint32_t index, enum ibv_wc_status status)
{
	struct sn_send *send = sn_send_at(qp, index);
	struct sn_cqe cqe = {
		.qp = qp,
		.sq_end = index + 1,
		.is_send = true,
		.solicited = status != IBV_WC_SUCCESS,
		.wc = {
			.wr_id = send->wr_id,
			.status = status,
			.opcode = wc_opcode(send),
			.byte_len = send->length,
			.qp_num = qp->verbs.qp_num,
		},
	};

	return sn_cq_push(qp->send_cq, &cqe);
}

/* Fault plan: whether the oldest request, which is done, completes later, or not at all. */
static bool do_send_defers(struct sn_qp *qp)
{
	uint64_t now, late_ns;

	if (qp->lost_until_ns)
		return true;
	if (qp->verbs.state != IBV_QPS_RTS)
		return false;
	now = sn_now_ns(CLOCK_MONOTONIC);
	if (!qp->late_until_ns) {
		late_ns = fault_late_ns();
		qp->late_until_ns = late_ns ? now + late_ns : 0;
	}
	if (now < qp->late_until_ns)
		return true;
	qp->late_until_ns = 0;
	return do_sn_qp_loses(qp);
}

void do_sn_send_complete(struct sn_qp *qp)
{
	struct sn_send_queue *sq = &qp->sq;

	while (sq->done != sq->pushed) {
		struct sn_send *send = sn_send_at(qp, sq->done);

		if (send->opcode == IBV_WR_SEND ? (int32_t)(sq->acked - send->number) < 0 :
						  send->state != SN_SEND_DONE)
			return;
		if (send->signaled && fault_on() && do_send_defers(qp))
			return;
		sq->done++;
		if (send->signaled && !do_send_report(qp, sq->done - 1, IBV_WC_SUCCESS)) {
			do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
			return;
		}
	}
}

void do_sn_send_flush(struct sn_qp *qp, enum ibv_wc_status first)
{
	struct sn_send_queue *sq = &qp->sq;

	while (sq->done != sq->posted) {
		do_send_report(qp, sq->done++, first);
		first = IBV_WC_WR_FLUSH_ERR;
	}
	sq->pushed = sq->posted;
	sq->reads = 0;
	qp->copying = false;
}

int do_sn_send_acked(struct sn_qp *qp, uint32_t acked)
{
	struct sn_send_queue *sq = &qp->sq;

	if (acked - sq->acked > sq->sends - sq->acked)
		return -EPROTO;
	if (qp->is_active)
		qp->sends_taken += acked - sq->acked;
	sq->acked = acked;
	return 0;
}

static void do_send_copy(struct sn_qp *qp, uint32_t index, const struct sn_send *send,
			 uint32_t length)
{
	struct sn_send_queue *sq = &qp->sq;
	uint32_t at = sizeof(struct link_request);

	if (send->is_inline)
		ring_out_write(&qp->request_out, at,
			       sq->inline_data +
				       (size_t)(index & sq->mask) * qp->cap.max_inline_data +
				       send->moved,
			       length);
	else
		sn_sges_to_ring(&qp->request_out, at, sn_send_sges(qp, index), send->num_sge,
				send->moved, length);
}

/* Copies as much of a SEND as there is room for; true if all of it is in the ring. */
static bool do_push_send(struct sn_qp *qp, uint32_t index)
{
	struct sn_send *send = sn_send_at(qp, index);
	struct ring_out *ring = &qp->request_out;

	do {
		uint32_t left = send->length - send->moved;
		uint32_t length = left < LINK_PIECE_MAX ? left : LINK_PIECE_MAX;
		uint32_t room = ring_out_room(ring);
		struct link_request request;

		if (room < ring_span((uint32_t)sizeof(request) + length)) {
			if (room < LINK_PIECE_MIN)
				return false;
			length = room - (uint32_t)sizeof(request);
		}
		request = (struct link_request){
			.opcode = send->solicited ? LINK_SEND_SOLICITED : LINK_SEND,
			.length = length,
			.total = send->length,
		};
		ring_out_write(ring, 0, &request, sizeof(request));
		do_send_copy(qp, index, send, length);
		ring_out_commit(ring, (uint32_t)sizeof(request) + length);
		qp->changed |= LINK_WAKE_EVENT;
		send->moved += length;
	} while (send->moved < send->length);
	send->number = ++qp->sq.sends;
	send->state = SN_SEND_WAITING;
	return true;
}

static bool do_push_read_request(struct sn_qp *qp, struct sn_send *send)
{
	struct {
		struct link_request request;
		struct link_read read;
	} record = {
		.request = { .opcode = LINK_READ, .length = sizeof(record.read) },
		.read = { .addr = send->remote_addr, .rkey = send->rkey, .length = send->length },
	};

	if (qp->sq.reads >= qp->reads_max ||
	    ring_out_room(&qp->request_out) < ring_span(sizeof(record)))
		return false;
	ring_out_write(&qp->request_out, 0, &record, sizeof(record));
	ring_out_commit(&qp->request_out, sizeof(record));
	qp->changed |= LINK_WAKE_EVENT;
	qp->sq.reads++;
	send->state = SN_SEND_WAITING;
	return true;
}

/* A request that can't be executed fails once all before it are complete. */
static void do_push_fail(struct sn_qp *qp, uint32_t index, enum ibv_wc_status status,
			 enum link_error why)
{
	do_sn_send_complete(qp);
	if (qp->sq.done == index)
		do_sn_qp_error(qp, status, why);
}

/* Copies the next part of a READ of a file; true if that was the last. */
static bool do_push_read_file(struct sn_qp *qp, uint32_t index, const struct sn_source *source)
{
	struct sn_send *send = sn_send_at(qp, index);
	uint32_t part = send->length - send->moved;
	struct iovec iovs[SN_SGE_MAX];
	unsigned int count;
	int64_t got;

	/* The side that connects serves no other peer meanwhile. */
	if (!qp->is_active && part > qp->copy_left)
		part = qp->copy_left;
	if (fault_on())
		part = fault_part(part);
	qp->copying = true;
	if (!part)
		return false;
	count = sn_sges_iovecs(sn_send_sges(qp, index), send->num_sge, send->moved, part, iovs);
	got = sn_file_read(qp->ctx, source->file, source->offset + send->moved, iovs, count);
	if (got < 0) {
		log_ratelimited(LOG_ERROR, 1,
				"softnic: queue pair %#x: a READ of %u bytes of the peer's memory "
				"failed: %s; disconnecting the peer",
				qp->verbs.qp_num, part, strerrordesc_np((int)-got));
		do_push_fail(qp, index, IBV_WC_REM_OP_ERR, LINK_ERROR_GONE);
		return false;
	}
	send->moved += (uint32_t)got;
	if (!qp->is_active)
		qp->copy_left = got < part ? 0 : qp->copy_left - part;
	if (send->moved < send->length)
		return false;
	/* Otherwise the path is chosen again: the peer serves the READ, or is gone. */
	if (!do_sn_read_stands(qp, send->rkey)) {
		send->moved = 0;
		return false;
	}
	qp->copying = false;
	send->state = SN_SEND_DONE;
	return true;
}

static bool do_push_read(struct sn_qp *qp, uint32_t index)
{
	struct sn_send *send = sn_send_at(qp, index);
	struct sn_source source;

	if (qp->sq.acked != qp->sq.sends)
		return false;
	switch (do_sn_read_resolve(qp, send->rkey, send->remote_addr, send->length, &source)) {
	case SN_READ_MAPPED:
		sn_sges_read(sn_send_sges(qp, index), send->num_sge, source.memory, send->length);
		send->state = SN_SEND_DONE;
		return true;
	case SN_READ_FILE:
		return do_push_read_file(qp, index, &source);
	case SN_READ_SERVED:
		send->moved = 0; /* if the grant was revoked halfway */
		return do_push_read_request(qp, send);
	case SN_READ_LOST:
		return false;
	default:
		do_push_fail(qp, index, IBV_WC_REM_ACCESS_ERR, LINK_ERROR_ACCESS);
		return false;
	}
}

static bool do_push(struct sn_qp *qp, uint32_t index)
{
	switch (sn_send_at(qp, index)->opcode) {
	case IBV_WR_SEND:
		return do_push_send(qp, index);
	case IBV_WR_BIND_MW:
		return true;
	default:
		return do_push_read(qp, index);
	}
}

static enum ibv_wc_status faulty_status(const struct sn_send *send)
{
	return send->opcode == IBV_WR_BIND_MW ? IBV_WC_MW_BIND_ERR : IBV_WC_LOC_PROT_ERR;
}

void do_sn_send_push(struct sn_qp *qp)
{
	struct sn_send_queue *sq = &qp->sq;

	qp->copying = false;
	while (qp->verbs.state == IBV_QPS_RTS && sq->pushed != sq->posted) {
		struct sn_send *send = sn_send_at(qp, sq->pushed);

		if (send->fence && sq->reads)
			return;
		if (send->state == SN_SEND_FAULTY) {
			do_push_fail(qp, sq->pushed, faulty_status(send), LINK_ERROR_GONE);
			return;
		}
		if (!do_push(qp, sq->pushed))
			return;
		sq->pushed++;
	}
}

/* The oldest READ without a complete response; the caller knows that there is one. */
static uint32_t do_send_oldest_read(struct sn_qp *qp)
{
	uint32_t index = qp->sq.done;

	for (; index != qp->sq.pushed; index++) {
		struct sn_send *send = sn_send_at(qp, index);

		if (send->opcode == IBV_WR_RDMA_READ && send->state == SN_SEND_WAITING)
			break;
	}
	return index;
}

/* Takes one piece of a response: 0, or -EPROTO. */
static int do_response_take(struct sn_qp *qp, const struct link_response *response)
{
	uint32_t index = do_send_oldest_read(qp);
	struct sn_send *send = sn_send_at(qp, index);
	uint32_t left = send->length - send->moved;

	if (response->status) {
		do_sn_send_complete(qp);
		do_sn_qp_error(qp, IBV_WC_REM_ACCESS_ERR, LINK_ERROR_GONE);
		return 0;
	}
	if (response->length > left || (!response->length && left))
		return -EPROTO;
	sn_sges_from_ring(&qp->response_in, sizeof(*response), sn_send_sges(qp, index),
			  send->num_sge, send->moved, response->length);
	send->moved += response->length;
	if (send->moved == send->length) {
		send->state = SN_SEND_DONE;
		qp->sq.reads--;
	}
	return 0;
}

int do_sn_send_responses(struct sn_qp *qp)
{
	struct ring_in *ring = &qp->response_in;

	/* At most RING_BYTES / RING_UNIT records, since the peer's head is not loaded again. */
	while (qp->verbs.state == IBV_QPS_RTS && ring_in_ready(ring)) {
		struct link_response response;
		uint32_t span;

		ring_in_read(ring, 0, &response, sizeof(response));
		if (response.length > LINK_PIECE_MAX || !qp->sq.reads)
			return -EPROTO;
		span = ring_span((uint32_t)sizeof(response) + response.length);
		if (span > ring_in_ready(ring))
			return -EPROTO;
		if (do_response_take(qp, &response))
			return -EPROTO;
		ring_in_consume(ring, span);
		qp->changed |= LINK_WAKE_ROOM;
	}
	return 0;
}

static int do_send_check(struct sn_qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
	struct sn_send_queue *sq = &qp->sq;

	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_RDMA_READ &&
	    wr->opcode != IBV_WR_BIND_MW)
		return -EINVAL;
	if (wr->opcode == IBV_WR_BIND_MW && wr->num_sge)
		return -EINVAL;
	if ((wr->send_flags & ~(unsigned int)SEND_FLAGS) || length > SN_MESSAGE_MAX)
		return -EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE &&
	    (wr->opcode != IBV_WR_SEND || length > qp->cap.max_inline_data))
		return -EINVAL;
	if (sq->posted - atomic_load_explicit(&sq->freed, memory_order_acquire) >=
	    qp->cap.max_send_wr)
		return -ENOMEM;
	return 0;
}

/*
 * One piece of memory: with many queue pairs each page of it is a TLB miss. Not zeroed, since an
 * entry is written before it is read.
 */
static int send_queue_alloc(struct sn_send_queue *sq, uint32_t slots)
{
	size_t sges = slots * sizeof(*sq->wrs);

	sq->wrs = heap_alloc(sges + (size_t)slots * sq->stride * sizeof(*sq->sges));
	if (!sq->wrs)
		return -ENOMEM;
	sq->sges = (struct ibv_sge *)(void *)((uint8_t *)sq->wrs + sges);
	sq->mask = slots - 1;
	return 0;
}

/* A channel pair's queue starts small and grows: a client may have thousands of pairs. */
int sn_send_queue_init(struct sn_qp *qp)
{
	uint32_t slots = sn_round_up(qp->cap.max_send_wr);

	if (qp->lock.single && slots > SN_QUEUE_FIRST)
		slots = SN_QUEUE_FIRST;
	qp->sq.stride = qp->cap.max_send_sge ? qp->cap.max_send_sge : 1;
	return send_queue_alloc(&qp->sq, slots);
}

void sn_send_queue_release(struct sn_send_queue *sq)
{
	heap_free(sq->inline_data);
	heap_free(sq->wrs);
}

/* Copies request @index from @from to @to, which differ in memory only. */
static void do_send_move(struct sn_qp *qp, const struct sn_send_queue *from,
			 struct sn_send_queue *to, uint32_t index)
{
	const size_t inline_max = qp->cap.max_inline_data;
	uint32_t a = index & from->mask, b = index & to->mask;

	to->wrs[b] = from->wrs[a];
	memcpy(&to->sges[(size_t)b * to->stride], &from->sges[(size_t)a * to->stride],
	       to->stride * sizeof(*to->sges));
	if (to->inline_data)
		memcpy(to->inline_data + b * inline_max, from->inline_data + a * inline_max,
		       inline_max);
}

/* Doubles the memory, for requests that are not complete. */
static int do_send_grow(struct sn_qp *qp)
{
	struct sn_send_queue *sq = &qp->sq;
	struct sn_send_queue grown = { .stride = sq->stride };
	uint32_t slots = 2 * (sq->mask + 1), i;

	if (sq->inline_data) {
		grown.inline_data = heap_alloc((size_t)slots * qp->cap.max_inline_data);
		if (!grown.inline_data)
			return -ENOMEM;
	}
	if (send_queue_alloc(&grown, slots)) {
		heap_free(grown.inline_data);
		return -ENOMEM;
	}
	for (i = sq->done; i != sq->posted; i++)
		do_send_move(qp, sq, &grown, i);
	sn_send_queue_release(sq);
	sq->wrs = grown.wrs;
	sq->sges = grown.sges;
	sq->inline_data = grown.inline_data;
	sq->mask = grown.mask;
	return 0;
}

/* Makes sure that there is memory for one more, which max_send_wr allows. */
static inline int do_send_reserve(struct sn_qp *qp)
{
	return qp->sq.posted - qp->sq.done <= qp->sq.mask ? 0 : do_send_grow(qp);
}

/*
 * Memory for inline data is allocated for the first request that does not go to the ring at once.
 */
static int do_send_inline_init(struct sn_qp *qp)
{
	struct sn_send_queue *sq = &qp->sq;

	if (!sq->inline_data)
		sq->inline_data = heap_alloc(((size_t)sq->mask + 1) * qp->cap.max_inline_data);
	return sq->inline_data ? 0 : -ENOMEM;
}

static void do_send_copy_inline(struct sn_qp *qp, uint32_t index, const struct ibv_send_wr *wr)
{
	uint8_t *to = qp->sq.inline_data + (size_t)(index & qp->sq.mask) * qp->cap.max_inline_data;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

/* Keeps the parts of a request that are needed until it completes. */
static void do_send_fill(struct sn_qp *qp, struct sn_send *send, const struct ibv_send_wr *wr,
			 uint64_t length)
{
	*send = (struct sn_send){
		.wr_id = wr->wr_id,
		.length = (uint32_t)length,
		.opcode = (uint8_t)wr->opcode,
		.num_sge = (uint8_t)wr->num_sge,
		.signaled = qp->signal_all || wr->send_flags & IBV_SEND_SIGNALED,
		.fence = wr->send_flags & IBV_SEND_FENCE,
		.solicited = wr->send_flags & IBV_SEND_SOLICITED,
		.is_inline = wr->send_flags & IBV_SEND_INLINE,
	};
}

/*
 * A SEND with nothing ahead of it, and room for it, goes from the caller's memory to the ring.
 * False: it must be queued.
 */
static bool do_send_direct(struct sn_qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
	struct sn_send_queue *sq = &qp->sq;
	struct sn_send *send = sn_send_at(qp, sq->posted);
	struct link_request request = {
		.opcode = wr->send_flags & IBV_SEND_SOLICITED ? LINK_SEND_SOLICITED : LINK_SEND,
		.length = (uint32_t)length,
		.total = (uint32_t)length,
	};
	uint32_t span = ring_span((uint32_t)sizeof(request) + (uint32_t)length);

	if (wr->opcode != IBV_WR_SEND || length > LINK_PIECE_MAX || sq->pushed != sq->posted ||
	    (wr->send_flags & IBV_SEND_FENCE && sq->reads) || qp->verbs.state != IBV_QPS_RTS ||
	    ring_out_room(&qp->request_out) < span)
		return false;
	if (!(wr->send_flags & IBV_SEND_INLINE) &&
	    !sn_sges_valid(qp, wr->sg_list, (uint32_t)wr->num_sge, 0))
		return false;
	ring_out_write(&qp->request_out, 0, &request, sizeof(request));
	sn_sges_to_ring(&qp->request_out, sizeof(request), wr->sg_list, (uint32_t)wr->num_sge, 0,
			(uint32_t)length);
	ring_out_commit(&qp->request_out, (uint32_t)sizeof(request) + (uint32_t)length);
	qp->changed |= LINK_WAKE_EVENT;
	do_send_fill(qp, send, wr, length);
	send->number = ++sq->sends;
	send->state = SN_SEND_WAITING;
	sq->pushed = ++sq->posted;
	return true;
}

/* After one request was queued: checks its local memory; in the error state flushes it. */
static void do_send_begin(struct sn_qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t index = qp->sq.posted - 1;
	struct sn_send *send = sn_send_at(qp, index);
	int access = send->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;

	if (qp->verbs.state != IBV_QPS_RTS)
		do_sn_send_flush(qp, IBV_WC_WR_FLUSH_ERR);
	else if (send->opcode == IBV_WR_BIND_MW)
		send->state = do_sn_mw_bind(qp, wr) ? SN_SEND_DONE : SN_SEND_FAULTY;
	else if (!send->is_inline &&
		 !sn_sges_valid(qp, sn_send_sges(qp, index), send->num_sge, access))
		send->state = SN_SEND_FAULTY;
}

/* Starts or queues one request. */
static int do_send_post(struct sn_qp *qp, const struct ibv_send_wr *wr)
{
	struct sn_send_queue *sq = &qp->sq;
	uint32_t index = sq->posted;
	struct sn_send *send;
	uint64_t length;
	int ret;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
		return -EINVAL;
	length = sn_sges_length(wr->sg_list, (uint32_t)wr->num_sge);
	ret = do_send_check(qp, wr, length);
	if (!ret)
		ret = do_send_reserve(qp);
	if (ret)
		return ret;
	send = sn_send_at(qp, index);
	if (do_send_direct(qp, wr, length))
		return 0;
	if (wr->send_flags & IBV_SEND_INLINE && length) {
		ret = do_send_inline_init(qp);
		if (ret)
			return ret;
	}
	do_send_fill(qp, send, wr, length);
	if (wr->opcode == IBV_WR_RDMA_READ) {
		send->remote_addr = wr->wr.rdma.remote_addr;
		send->rkey = wr->wr.rdma.rkey;
	}
	if (send->is_inline && length)
		do_send_copy_inline(qp, index, wr);
	else if (!send->is_inline && wr->num_sge)
		memcpy(sn_send_sges(qp, index), wr->sg_list,
		       (size_t)wr->num_sge * sizeof(*wr->sg_list));
	sq->posted++;
	do_send_begin(qp, wr);
	return 0;
}

static void do_post_chain(struct sn_qp *qp, struct ibv_send_wr **wr, int *ret)
{
	while (*wr) {
		if (qp->verbs.state == IBV_QPS_RTS && qp->sq.done == qp->sq.posted &&
		    !(fault_on() && fault_defers()) && do_sn_read_chain(qp, wr))
			continue;
		*ret = do_send_post(qp, *wr);
		if (*ret)
			break;
		*wr = (*wr)->next;
	}
}

/* Whether we wait for more than the peer is asked to wake us up for. */
static inline bool do_wants_more(const struct sn_qp *qp)
{
	/* Anything else is an event, for which the peer wakes us up in any case. */
	bool busy = qp->sq.done != qp->sq.posted || qp->serving.active;

	return busy && (do_sn_qp_wanted(qp) & ~qp->armed);
}

int sn_post_send(struct ibv_qp *verbs, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct sn_qp *qp = to_sn_qp(verbs);
	bool warm, bound;
	int ret = fault_check(FAULT_post_send, qp->ctx);

	if (ret) {
		*bad_wr = wr;
		return -ret;
	}
	if (fault_on() && fault_drops())
		sn_qp_drop(qp);
	/* A message may name new memory, so the peer gets its file first: grant.c. */
	if (wr && wr->opcode == IBV_WR_SEND && qp->lock.single &&
	    qp->mr_changes != atomic_load_explicit(&qp->ctx->mr_changes, memory_order_relaxed))
		sn_grants_update(qp);
	sn_lock(&qp->lock);
	if (verbs->state != IBV_QPS_RTS && verbs->state != IBV_QPS_ERR)
		ret = -EINVAL;
	else
		do_post_chain(qp, &wr, &ret);
	if (qp->sq.pushed != qp->sq.posted || qp->changed)
		do_sn_qp_posted(qp);
	if (qp->armed && (qp->rearm || do_wants_more(qp)))
		do_sn_qp_arm(qp);
	warm = qp->attached && qp->sq.done != qp->sq.posted;
	bound = qp->window_new;
	sn_unlock(&qp->lock);
	if (bound)
		sn_grants_update(qp);
	/* The response should find us polling, and not have to wake us. */
	if (warm && atomic_load_explicit(&qp->members[0].asleep, memory_order_relaxed))
		sn_cq_warm(qp->send_cq, &qp->members[0]);
	if (ret)
		*bad_wr = wr;
	return -ret;
}
