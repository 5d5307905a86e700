/* SPDX-License-Identifier: MIT */
/*
 * Progress: the one function that moves a connection forward (it takes what the peer published,
 * does what can be done, and publishes the result), and the arming of wake-ups before a thread
 * sleeps.
 *
 * A peer may send one wake-up for each time it was asked for one. More end the connection: each
 * costs us two system calls, so one client could slow all others. sn_qp.wakes counts those that may
 * still come. Arming adds one; it is taken back when the wake-up arrives, or when we disarm and
 * find that the peer has not taken it. A peer that has taken it (our word is 0) and was interrupted
 * before it sent the byte keeps it, so that it may come late. As it sends the byte before it
 * publishes again, at most SN_WAKES_LATE can be on their way once the socket has been emptied.
 */
#include "common/rdma/softnic/queue_pair.h"

#include <errno.h>
#include <unistd.h>

#include "common/rdma/softnic/async_event.h"
#include "common/rdma/softnic/completion_channel.h"
#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/file_grant.h"
#include "common/rdma/softnic/life_word.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/peer_file.h"
#include "common/rdma/softnic/send_queue.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/log.h"

/* IBTA's codes for the RNR NAK timer, in units of 10 us. */
static const uint32_t rnr_timer_10us[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

uint64_t sn_rnr_timer_ns(uint8_t code)
{
	return rnr_timer_10us[code & 31] * 10000ull;
}

/* Takes the peer's ring positions and count of SENDs; -EPROTO if one is impossible. */
static int do_qp_take_positions(struct sn_qp *qp, struct link_side *theirs)
{
	uint32_t acked = side_load(&theirs->acked);

	if (ring_in_update(&qp->request_in, side_load(&theirs->request_head)) ||
	    ring_in_update(&qp->response_in, side_load(&theirs->response_head)) ||
	    ring_out_update(&qp->request_out, side_load(&theirs->request_tail)) ||
	    ring_out_update(&qp->response_out, side_load(&theirs->response_tail)))
		return -EPROTO;
	return do_sn_send_acked(qp, acked);
}

/* Whether the message at the head of our ring has waited too long for a receive at the peer. */
static bool do_qp_rnr_exceeded(struct sn_qp *qp, struct link_side *theirs)
{
	return qp->rnr_retry < 7 && qp->sq.done != qp->sq.posted &&
	       side_load(&theirs->rnr_send) == qp->sq.acked &&
	       side_load(&theirs->rnr_count) > qp->rnr_retry;
}

/* Takes the peer's error or disconnect, after the messages it sent before. */
static void do_qp_take_peer_error(struct sn_qp *qp, struct link_side *theirs)
{
	switch (side_load(&theirs->error)) {
	case LINK_ERROR_NONE:
		break;
	case LINK_ERROR_TOO_LONG:
		do_sn_qp_error(qp, IBV_WC_REM_INV_REQ_ERR, LINK_ERROR_GONE);
		return;
	case LINK_ERROR_OPERATION:
		do_sn_qp_error(qp, IBV_WC_REM_OP_ERR, LINK_ERROR_GONE);
		return;
	case LINK_ERROR_ACCESS:
		sn_async_push(qp->ctx, &qp->access_error);
		do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
		return;
	default:
		/* As with a NIC: without an outstanding request we don't notice a dead peer. */
		if (qp->sq.done != qp->sq.posted) {
			do_sn_qp_error(qp, IBV_WC_RETRY_EXC_ERR, LINK_ERROR_GONE);
			return;
		}
	}
	if (side_load(&theirs->closed))
		do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
	else if (do_qp_rnr_exceeded(qp, theirs))
		do_sn_qp_error(qp, IBV_WC_RNR_RETRY_EXC_ERR, LINK_ERROR_GONE);
}

/* Fault plan: delays what the peer published. True while the delay lasts. */
static bool do_qp_held(struct sn_qp *qp)
{
	uint64_t now = sn_now_ns(CLOCK_MONOTONIC);

	if (!qp->hold_until_ns)
		qp->hold_until_ns = now + fault_delay_ns();
	if (now < qp->hold_until_ns)
		return true;
	qp->hold_until_ns = 0;
	return false;
}

/* Fault plan: whether there is no progress, as the queue pair is delayed or lost. May fail it. */
static bool do_qp_stands(struct sn_qp *qp)
{
	if (qp->verbs.state != IBV_QPS_RTS)
		return false;
	if (!qp->lost_until_ns)
		return do_qp_held(qp);
	if (sn_now_ns(CLOCK_MONOTONIC) < qp->lost_until_ns)
		return true;
	do_sn_qp_error(qp, IBV_WC_RETRY_EXC_ERR, LINK_ERROR_GONE);
	return false;
}

void do_sn_qp_progress(struct sn_qp *qp)
{
	struct link_side *theirs = atomic_load_explicit(&qp->theirs, memory_order_relaxed);
	uint32_t bell;

	if (!theirs)
		return;
	bell = side_bell(theirs);
	if (fault_on() && do_qp_stands(qp)) {
		do_sn_qp_attend(qp, true);
		return;
	}
	atomic_store_explicit(&qp->seen_bell, bell, memory_order_relaxed);
	if (qp->verbs.state != IBV_QPS_RTS)
		return;
	if (atomic_load_explicit(&qp->ctx->dead, memory_order_relaxed)) {
		do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
		return;
	}
	if (do_qp_take_positions(qp, theirs)) {
		do_sn_qp_broken(qp, "wrote an impossible ring position or counter");
		return;
	}
	if (ring_in_ready(&qp->response_in) && do_sn_send_responses(qp)) {
		do_sn_qp_broken(qp, "sent a malformed response, or one to no READ");
		return;
	}
	do_sn_send_complete(qp);
	if (qp->sq.pushed != qp->sq.posted) {
		do_sn_send_push(qp);
		do_sn_send_complete(qp);
	}
	/* A peer in error has given up its requests; one that only disconnected has not. */
	if (!qp->lost_until_ns && !side_load(&theirs->error) && do_sn_recv_requests(qp)) {
		do_sn_qp_broken(qp, "sent a malformed request");
		return;
	}
	if (qp->verbs.state == IBV_QPS_RTS && !qp->lost_until_ns)
		do_qp_take_peer_error(qp, theirs);
	if (qp->grants_open)
		do_sn_grants_review(qp);
	do_sn_qp_attend(qp, qp->verbs.state == IBV_QPS_RTS &&
				    (qp->incoming.waiting || qp->copying || qp->filling ||
				     qp->late_until_ns || qp->lost_until_ns));
	do_sn_qp_publish(qp);
}

void do_sn_qp_posted(struct sn_qp *qp)
{
	const struct link_side *theirs = atomic_load_explicit(&qp->theirs, memory_order_relaxed);

	/* A peer in error may have raised its bell before there was a request that fails by it. */
	if (!fault_on() && theirs && qp->verbs.state == IBV_QPS_RTS &&
	    qp->sq.pushed == qp->sq.posted && !qp->grants_open && !sn_qp_has_work(qp) &&
	    !side_load(&theirs->error) &&
	    !atomic_load_explicit(&qp->ctx->dead, memory_order_relaxed))
		do_sn_qp_publish(qp);
	else
		do_sn_qp_progress(qp);
}

void do_sn_qp_publish(struct sn_qp *qp)
{
	struct link_side *mine = qp->mine;

	if (!qp->changed || !mine)
		return;
	side_store(&mine->request_head, qp->request_out.head);
	side_store(&mine->request_tail, qp->request_in.tail);
	side_store(&mine->response_head, qp->response_out.head);
	side_store(&mine->response_tail, qp->response_in.tail);
	side_store(&mine->acked, qp->acked);
	side_publish(mine, ++qp->bell);
	if (side_take_wake(atomic_load_explicit(&qp->theirs, memory_order_relaxed), qp->changed))
		link_wake(qp->sock);
	qp->changed = 0;
}

uint32_t do_sn_qp_wanted(const struct sn_qp *qp)
{
	uint32_t wanted = LINK_WAKE_EVENT;
	uint32_t i;

	if (qp->sq.pushed != qp->sq.posted)
		wanted |= LINK_WAKE_ROOM | LINK_WAKE_ACK;
	if (qp->serving.active)
		wanted |= LINK_WAKE_ROOM;
	for (i = qp->sq.done; i != qp->sq.pushed && !(wanted & LINK_WAKE_ACK); i++)
		if (qp->sq.wrs[i & qp->sq.mask].signaled)
			wanted |= LINK_WAKE_ACK;
	return wanted;
}

bool do_sn_qp_arm(struct sn_qp *qp)
{
	struct link_side *theirs = atomic_load_explicit(&qp->theirs, memory_order_relaxed);
	unsigned int round;

	if (!theirs)
		return true;
	/* Until it is established, wake-ups on the socket wait for the handshake to be taken. */
	if (!qp->armed && qp->wakes && qp->established) {
		do_sn_qp_drain(qp, true);
		if (qp->wakes > SN_WAKES_LATE)
			qp->wakes = SN_WAKES_LATE;
	}
	qp->rearm = false;
	for (round = 0; round < SN_ARM_ROUNDS; round++) {
		uint32_t wanted = do_sn_qp_wanted(qp);

		if (side_arm(qp->mine, wanted) || !qp->armed)
			qp->wakes++;
		qp->armed = wanted;
		if (side_bell(theirs) == atomic_load_explicit(&qp->seen_bell, memory_order_relaxed))
			return true;
		do_sn_qp_progress(qp);
		if (qp->hold_until_ns || qp->lost_until_ns)
			return true; /* the fault plan's timer will wake us */
	}
	do_sn_qp_attend(qp, qp->verbs.state == IBV_QPS_RTS);
	if (qp->send_cq->channel)
		sn_channel_timer(qp->send_cq->channel, 1);
	if (qp->recv_cq->channel)
		sn_channel_timer(qp->recv_cq->channel, 1);
	return false;
}

void do_sn_qp_disarm(struct sn_qp *qp)
{
	if (!qp->armed)
		return;
	qp->armed = 0;
	if (!side_disarm(qp->mine) && qp->wakes)
		qp->wakes--;
}

static void do_qp_take_file(struct sn_qp *qp, const struct link_message *message, int fd)
{
	if (message->magic == LINK_MAGIC && message->type == LINK_MESSAGE_LIFE)
		do_sn_life_take(qp, fd);
	else
		do_sn_grant_take(qp, message, fd);
}

/* The side that connects gets files, too; and it trusts its server not to flood it. */
static void do_qp_drain_active(struct sn_qp *qp, bool all)
{
	struct link_message message;
	unsigned int count;
	int got, fd;

	for (count = 0; count < SN_DRAIN_MAX; count++) {
		got = link_receive(qp->sock, &message, &fd);
		if (got == sizeof(message) && fd >= 0)
			do_qp_take_file(qp, &message, fd);
		if (fd >= 0)
			link_drop_file(fd, false);
		if (got == 1 && qp->wakes)
			qp->wakes--;
		if (got <= 0 || (got == 1 && !all))
			return;
	}
}

/* A wake-up that was asked for, or memory that we may read: false if it is neither. */
static bool do_qp_take_packet(struct sn_qp *qp, const struct link_packet *packet)
{
	if (packet->length == 1) {
		if (!qp->wakes || packet->fd >= 0 || packet->stray)
			return false;
		qp->wakes--;
		return true;
	}
	return packet->length == sizeof(packet->message) && !packet->stray &&
	       !do_sn_grant_open(qp, &packet->message, packet->fd);
}

/*
 * Takes all packets at once. A wake-up that came too soon and was left would be taken after the
 * next arming, and pass for the answer to it. More than LINK_PACKETS_TAKEN are there only after the
 * handshake, which took its time, or with files; sn_qp.wakes and do_sn_grant_allowed() bound their
 * number.
 */
static void do_qp_drain_passive(struct sn_qp *qp)
{
	struct link_packet packets[LINK_PACKETS_TAKEN];
	bool good = true;
	int got, i;

	do {
		got = link_take(qp->sock, packets);
		for (i = 0; i < got; i++) {
			good = good && (qp->verbs.state != IBV_QPS_RTS ||
					do_qp_take_packet(qp, &packets[i]));
			if (packets[i].stray)
				sn_file_bar(qp->ctx, qp->sock);
			if (packets[i].fd >= 0)
				link_drop_file(packets[i].fd, true);
		}
		if (qp->verbs.state == IBV_QPS_RTS && !good)
			do_sn_qp_broken(qp, "sent more wake-ups or files than it may, or a packet "
					    "that is neither");
	} while (qp->verbs.state == IBV_QPS_RTS && got == LINK_PACKETS_TAKEN);
}

void do_sn_qp_drain(struct sn_qp *qp, bool all)
{
	if (!qp->established)
		return;
	if (qp->is_active)
		do_qp_drain_active(qp, all);
	else
		do_qp_drain_passive(qp);
}

uint64_t do_sn_qp_timer_ns(const struct sn_qp *qp)
{
	uint64_t rnr_ns;

	if (qp->hold_until_ns || qp->late_until_ns || qp->lost_until_ns)
		return SN_RNR_SLEEP_NS;
	if (qp->copying)
		return 1;
	if (!qp->incoming.waiting)
		return 0;
	rnr_ns = sn_rnr_timer_ns(qp->min_rnr_timer);
	return rnr_ns > SN_RNR_SLEEP_NS ? rnr_ns : SN_RNR_SLEEP_NS;
}
