/* SPDX-License-Identifier: MIT */
/*
 * Hot and cold queue pairs: which queue pairs of a completion queue a poll looks at. README.md has
 * measurements of what this buys.
 *
 * A queue pair with recent traffic is *hot*. A scan looks at the bells of up to SN_HOT_SCAN hot
 * queue pairs in turn, and does nothing for one whose bell has not changed. It begins after the
 * last queue pair that had work, and ends SN_SCAN_ON bells after the next one: looking at a
 * thousand takes as long as serving one. An array (struct sn_hot) holds the place of each bell and
 * its last value, so that a bell takes a nanosecond or two: a scan touches half a cache line of
 * that array and the line with the bell, and no line of the queue pair itself. No client can forge
 * or clear a hint for another one: only the client can write its bell, and the array is ours.
 *
 * A queue pair without traffic for SN_COLD_AFTER_MS becomes *cold*, if its CQ has a completion
 * channel: it asks its peer for a wake-up, stays armed, and costs a scan nothing. The channel says
 * which cold queue pairs were woken. A thread that sleeps learns it at once; one that polls asks
 * now and then, and more often after one was woken, since a client that uses many connections in
 * turn wakes another each time. In case a wake-up is lost, each clock tick also looks at the bells
 * of a few cold queue pairs.
 *
 * Arming a CQ arms its hot queue pairs, and makes those cold that had no traffic for that long. The
 * others stay hot and are *asleep*: the next arming passes over them, so that it costs as much as
 * the queue pairs that were served since the last one, and a thread that polls again finds their
 * work by their bells. (If arming made all cold, a worker that sleeps now and then would need to
 * ask the channel for the work of each connection once more.)
 *
 * A queue pair that has work which no bell announces (it waits for a receive, or READs a file) is
 * in the CQ's waiting list, and is served by each scan. One with two CQs is always hot in both,
 * since two pollers can't agree when it is idle.
 *
 * No lost wake-up: ibv_req_notify_cq() first sets notify and then arms every queue pair that is not
 * armed; arming checks the peer's words again after it asked for the wake-up (link.h). What came
 * before that check is in the CQ; what comes later wakes us. Queue pairs that are cold or asleep
 * are armed at all times; a wake-up that their peers have sent is on the socket until it is served.
 */
#include "common/rdma/softnic/completion_queue.h"

#include <errno.h>

#include "common/rdma/softnic/completion_channel.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"

static struct sn_member *cq_member(struct sn_cq *cq, struct sn_qp *qp)
{
	return &qp->members[qp->member_count > 1 && cq == qp->recv_cq];
}

static uint32_t clock_tick_ms(void)
{
	return (uint32_t)(sn_now_ns(CLOCK_MONOTONIC_COARSE) / 1000000u);
}

static void do_cq_clock(struct sn_cq *cq)
{
	uint32_t now_ms = clock_tick_ms();

	cq->ticked |= now_ms != cq->tick_ms;
	cq->tick_ms = now_ms;
}

static void do_hot_add(struct sn_cq *cq, struct sn_member *member)
{
	struct sn_qp *qp = member->qp;

	member->index = cq->hot_count++;
	cq->hot_members[member->index] = member;
	cq->hot[member->index] = (struct sn_hot){
		.theirs = atomic_load_explicit(&qp->theirs, memory_order_relaxed),
		.seen = atomic_load_explicit(&qp->seen_bell, memory_order_relaxed),
		.active_ms = clock_tick_ms(),
	};
	member->hot = true;
}

/* The last hot queue pair takes the place of @member. */
static void do_hot_remove(struct sn_cq *cq, struct sn_member *member)
{
	uint32_t last = --cq->hot_count;

	cq->hot[member->index] = cq->hot[last];
	cq->hot_members[member->index] = cq->hot_members[last];
	cq->hot_members[member->index]->index = member->index;
	member->hot = false;
}

/* Makes a queue pair cold that is armed and has had no traffic for long. */
static void do_member_make_cold(struct sn_cq *cq, struct sn_member *member)
{
	do_hot_remove(cq, member);
	TAILQ_INSERT_TAIL(&cq->cold, member, in_cold);
	atomic_store_explicit(&member->asleep, true, memory_order_relaxed);
}

/* The queue pair was served and, with @asleep, armed. */
static void do_member_make_hot(struct sn_cq *cq, struct sn_member *member, bool asleep)
{
	if (!member->hot) {
		TAILQ_REMOVE(&cq->cold, member, in_cold);
		do_hot_add(cq, member);
	}
	/* Progress has seen all up to now; no second look is needed. */
	cq->hot[member->index].seen = atomic_load_explicit(&member->qp->seen_bell,
							   memory_order_relaxed);
	cq->hot[member->index].asleep = asleep;
	atomic_store_explicit(&member->asleep, asleep, memory_order_relaxed);
}

static bool cq_notifies(const struct sn_cq *cq)
{
	return atomic_load_explicit(&cq->notify, memory_order_relaxed) != SN_NOTIFY_NONE;
}

/* Asks for wake-ups by the peer or, to wait for a point in time, by the timer. */
static bool do_member_arm(struct sn_cq *cq, struct sn_qp *qp)
{
	uint64_t delay_ns;

	if (!cq->channel)
		return true;
	if (!do_sn_qp_arm(qp))
		return false;
	delay_ns = do_sn_qp_timer_ns(qp);
	if (delay_ns)
		sn_channel_timer(cq->channel, delay_ns);
	return true;
}

/* After a queue pair was served: if a thread sleeps on one of its CQs, the peer must wake it. */
static void do_member_settle(struct sn_cq *cq, struct sn_member *member)
{
	struct sn_qp *qp = member->qp;
	bool sleeping = cq_notifies(qp->send_cq) || cq_notifies(qp->recv_cq);

	if (sleeping) {
		do_member_arm(qp->send_cq, qp);
		if (qp->recv_cq != qp->send_cq)
			do_member_arm(qp->recv_cq, qp);
	} else {
		do_sn_qp_disarm(qp);
	}
	do_member_make_hot(cq, member, sleeping && cq->channel && qp->member_count == 1);
}

static void do_member_serve(struct sn_cq *cq, struct sn_member *member, bool woken)
{
	struct sn_qp *qp = member->qp;

	sn_lock(&qp->lock);
	if (woken)
		do_sn_qp_drain(qp, false);
	do_sn_qp_progress(qp);
	do_member_settle(cq, member);
	sn_unlock(&qp->lock);
}

/* Serves a queue pair of the waiting list, which may also READ some of a file. */
static void do_member_serve_waiting(struct sn_cq *cq, struct sn_member *member)
{
	struct sn_qp *qp = member->qp;
	uint32_t part = cq->copy_left < SN_COPY_STEP ? cq->copy_left : SN_COPY_STEP;

	sn_lock(&qp->lock);
	qp->copy_left = part;
	do_sn_qp_progress(qp);
	cq->copy_left -= part - qp->copy_left;
	qp->copy_left = 0;
	do_member_settle(cq, member);
	sn_unlock(&qp->lock);
}

/* Whether the hot queue pair has had no traffic for long. One with two CQs stays hot. */
static bool cq_hot_rests(const struct sn_cq *cq, uint32_t at)
{
	return cq->tick_ms - cq->hot[at].active_ms >= SN_COLD_AFTER_MS &&
	       cq->hot_members[at]->qp->member_count == 1;
}

static void do_member_cool(struct sn_cq *cq, struct sn_member *member)
{
	struct sn_qp *qp = member->qp;
	bool resting;

	sn_lock(&qp->lock);
	resting = !atomic_load_explicit(&qp->attention, memory_order_relaxed) && do_sn_qp_arm(qp);
	if (resting)
		do_member_make_cold(cq, member);
	else
		cq->hot[member->index].active_ms = cq->tick_ms;
	sn_unlock(&qp->lock);
}

static bool cq_has(struct sn_cq *cq, int wanted)
{
	bool has;

	sn_lock(&cq->lock);
	has = cq->head - cq->tail >= (uint32_t)wanted;
	sn_unlock(&cq->lock);
	return has;
}

/*
 * Looks at hot queue pairs until @wanted completions are there, or SN_SCAN_ON bells after the last
 * one with work, so that a completion does not wait for the bells of a thousand others. The next
 * scan begins after the last one with work, so each has its turn.
 */
static bool do_scan_hot(struct sn_cq *cq, int wanted)
{
	uint32_t left = cq->hot_count < SN_HOT_SCAN ? cq->hot_count : SN_HOT_SCAN;
	uint32_t at = cq->hot_next, next = at;
	bool found = false;

	for (; left && cq->hot_count; left--, at++) {
		struct sn_hot *hot;
		uint32_t bell;

		if (at >= cq->hot_count)
			at = 0;
		hot = &cq->hot[at];
		bell = side_bell(hot->theirs);
		if (bell == hot->seen)
			continue;
		hot->active_ms = cq->tick_ms;
		if (!sn_qp_has_work(cq->hot_members[at]->qp)) {
			hot->seen = bell; /* another thread has served it */
			continue;
		}
		do_member_serve(cq, cq->hot_members[at], false);
		found = true;
		next = at + 1;
		if (cq_has(cq, wanted))
			break;
		if (left > SN_SCAN_ON)
			left = SN_SCAN_ON;
	}
	cq->hot_next = found ? next : at;
	return found;
}

/*
 * Serves the first @max queue pairs of the waiting list, until SN_COPY_SCAN bytes of files were
 * READ. Those that were not served are first in the next scan.
 */
static void do_scan_waiting(struct sn_cq *cq, uint32_t max)
{
	uint32_t left = atomic_load_explicit(&cq->waiting_count, memory_order_relaxed);
	struct sn_member *member;

	cq->copy_left = SN_COPY_SCAN;
	for (left = left < max ? left : max; left && cq->copy_left; left--) {
		/* The member stays valid: it leaves the CQ only under list_lock. */
		sn_lock(&cq->lock);
		member = TAILQ_FIRST(&cq->waiting);
		if (member) {
			TAILQ_REMOVE(&cq->waiting, member, in_waiting);
			TAILQ_INSERT_TAIL(&cq->waiting, member, in_waiting);
		}
		sn_unlock(&cq->lock);
		if (!member)
			return;
		do_member_serve_waiting(cq, member);
	}
	/* A thread that sleeps needs a timer for those that were left. */
	if (left && cq_notifies(cq) && cq->channel)
		sn_channel_timer(cq->channel, 1);
}

/* Makes hot queue pairs without traffic for long cold, a few at a time. */
static void do_tick_cool(struct sn_cq *cq)
{
	uint32_t left = cq->hot_count < SN_HOT_SCAN ? cq->hot_count : SN_HOT_SCAN;
	uint32_t cooled = 0;

	for (; left && cq->hot_count && cooled < SN_COOL_MAX; left--, cq->cool_next++) {
		struct sn_member *member;

		if (cq->cool_next >= cq->hot_count)
			cq->cool_next = 0;
		if (!cq_hot_rests(cq, cq->cool_next))
			continue;
		member = cq->hot_members[cq->cool_next];
		do_member_cool(cq, member);
		cooled++;
	}
}

static void do_tick_check_cold(struct sn_cq *cq)
{
	struct sn_member *member;
	unsigned int i;

	for (i = 0; i < SN_COLD_SCAN; i++) {
		member = TAILQ_FIRST(&cq->cold);
		if (!member)
			break;
		TAILQ_REMOVE(&cq->cold, member, in_cold);
		TAILQ_INSERT_TAIL(&cq->cold, member, in_cold);
		if (sn_qp_has_work(member->qp))
			do_member_serve(cq, member, false);
	}
}

/*
 * A peer that was killed leaves its memory in place: only its socket shows it. The channel's epoll
 * watches all sockets; without a channel each tick checks a few.
 */
static void do_tick_check_lives(struct sn_cq *cq)
{
	unsigned int i;

	for (i = 0; i < SN_TICK_SCAN && cq->hot_count; i++, cq->cool_next++) {
		struct sn_qp *qp;
		bool lost;

		if (cq->cool_next >= cq->hot_count)
			cq->cool_next = 0;
		qp = cq->hot_members[cq->cool_next]->qp;
		sn_lock(&qp->lock);
		lost = qp->verbs.state == IBV_QPS_RTS && link_hung_up(qp->sock);
		sn_unlock(&qp->lock);
		if (lost)
			sn_qp_lost(qp);
	}
}

/*
 * Whether this scan may do the work of a tick: in a wait that has lasted through the tick, or after
 * many scans with work. Not in a wait that has just begun: a program that uses many connections in
 * turn begins one on each in about every tick, and would make a system call each time.
 */
static bool cq_tick_due(struct sn_cq *cq, bool found)
{
	if (found) {
		cq->waits = false;
		if (++cq->found_scans < SN_SERVE_AFTER)
			return false;
		cq->found_scans = 0;
		return true;
	}
	if (!cq->waits)
		cq->wait_tick_ms = cq->tick_ms;
	cq->waits = true;
	return cq->wait_tick_ms != cq->tick_ms;
}

/* Does the work of a tick of the kernel's coarse clock; true if there was one. */
static bool do_scan_tick(struct sn_cq *cq)
{
	if (!cq->ticked)
		return false;
	cq->ticked = false;
	if (cq->channel) {
		do_tick_cool(cq);
		do_tick_check_cold(cq);
	} else {
		do_tick_check_lives(cq);
	}
	return true;
}

static void do_cq_attend_all(struct sn_cq *cq)
{
	struct sn_member *member;
	uint32_t i;

	cq->dead_noticed = true;
	for (i = 0; i < cq->hot_count; i++) {
		member = cq->hot_members[i];
		if (member->qp->attached && member->qp->verbs.state == IBV_QPS_RTS)
			do_sn_qp_attend(member->qp, true);
	}
	TAILQ_FOREACH(member, &cq->cold, in_cold)
		if (member->qp->attached && member->qp->verbs.state == IBV_QPS_RTS)
			do_sn_qp_attend(member->qp, true);
}

/* The thread that finds the device dead leaves other threads' queue pairs alone. */
static inline void do_cq_notice_death(struct sn_cq *cq)
{
	if (cq->list_lock.single && !cq->dead_noticed &&
	    atomic_load_explicit(&cq->ctx->dead, memory_order_relaxed))
		do_cq_attend_all(cq);
}

void sn_cq_scan(struct sn_cq *cq, int wanted)
{
	bool serve = false;
	bool found;

	/* Another thread is scanning: it pushes its completions to the same CQ. */
	if (sn_trylock(&cq->list_lock))
		return;
	do_cq_notice_death(cq);
	do_cq_clock(cq);
	found = do_scan_hot(cq, wanted);
	do_scan_waiting(cq, SN_WAITING_SCAN);
	/* A thread about to sleep learns the rest from the channel; but it may stay awake. */
	if (!cq->channel || !cq_notifies(cq) || ++cq->armed_scans > SN_ARMED_SCANS) {
		/* A scan counts by the time that it took. */
		cq->unserved += (found ? SN_BUSY_SCAN : 1) + cq->hot_count / SN_HOT_COST;
		if (cq_tick_due(cq, found))
			serve = do_scan_tick(cq);
		if (cq->unserved >= cq->serve_after) {
			cq->unserved = 0;
			if (cq->serve_after < SN_SERVE_AFTER)
				cq->serve_after *= 2;
			serve |= !TAILQ_EMPTY(&cq->cold);
		}
	}
	sn_unlock(&cq->list_lock);
	if (serve && cq->channel)
		sn_channel_serve(cq->channel);
}

static void do_member_arm_for_sleep(struct sn_cq *cq, struct sn_member *member)
{
	sn_lock(&member->qp->lock);
	do_member_settle(cq, member);
	sn_unlock(&member->qp->lock);
}

void do_sn_cq_arm_all(struct sn_cq *cq, int notify)
{
	struct sn_member *member;
	uint32_t i;

	cq->armed_scans = 0;
	do_scan_waiting(cq, SN_WAITING_SCAN);
	do_cq_clock(cq);
	for (i = 0; i < cq->hot_count; i++) {
		if (cq->hot[i].asleep || side_bell(cq->hot[i].theirs) == cq->hot[i].seen)
			continue;
		member = cq->hot_members[i];
		sn_lock(&member->qp->lock);
		do_sn_qp_progress(member->qp);
		sn_unlock(&member->qp->lock);
	}
	sn_lock(&cq->lock);
	if (notify > atomic_load_explicit(&cq->notify, memory_order_relaxed))
		atomic_store_explicit(&cq->notify, notify, memory_order_relaxed);
	sn_unlock(&cq->lock);
	/* Backwards, since the last one takes the place of one that becomes cold. */
	for (i = cq->hot_count; i-- > 0;) {
		member = cq->hot_members[i];
		if (!cq->hot[i].asleep)
			do_member_arm_for_sleep(cq, member);
		if (cq->channel && cq_hot_rests(cq, i))
			do_member_cool(cq, member);
	}
}

/* Makes room for @count hot queue pairs. */
static int do_hot_reserve(struct sn_cq *cq, uint32_t count)
{
	struct sn_member **members;
	struct sn_hot *hot;

	if (count <= cq->hot_max)
		return 0;
	count = sn_round_up(count);
	hot = heap_realloc(cq->hot, count * sizeof(*hot));
	if (!hot)
		return -ENOMEM;
	cq->hot = hot;
	members = heap_realloc(cq->hot_members, count * sizeof(struct sn_member *));
	if (!members)
		return -ENOMEM;
	cq->hot_members = members;
	cq->hot_max = count;
	return 0;
}

int sn_cq_reserve(struct sn_cq *cq)
{
	int ret;

	sn_lock(&cq->list_lock);
	ret = do_hot_reserve(cq, cq->reserved + 1);
	cq->reserved += !ret;
	sn_unlock(&cq->list_lock);
	return ret;
}

void sn_cq_unreserve(struct sn_cq *cq)
{
	sn_lock(&cq->list_lock);
	cq->reserved--;
	sn_unlock(&cq->list_lock);
}

void sn_cq_add(struct sn_cq *cq, struct sn_member *member)
{
	sn_lock(&cq->list_lock);
	do_hot_add(cq, member);
	do_member_serve(cq, member, false);
	sn_unlock(&cq->list_lock);
}

void sn_cq_warm(struct sn_cq *cq, struct sn_member *member)
{
	sn_lock(&cq->list_lock);
	sn_lock(&member->qp->lock);
	do_member_settle(cq, member);
	sn_unlock(&member->qp->lock);
	sn_unlock(&cq->list_lock);
}

void sn_cq_remove(struct sn_cq *cq, struct sn_member *member)
{
	sn_lock(&cq->list_lock);
	if (member->hot)
		do_hot_remove(cq, member);
	else
		TAILQ_REMOVE(&cq->cold, member, in_cold);
	sn_unlock(&cq->list_lock);
}

void sn_cq_serve(struct sn_cq *cq, struct sn_qp *qp)
{
	sn_lock(&cq->list_lock);
	do_member_serve(cq, cq_member(cq, qp), true);
	cq->serve_after = SN_SERVE_SOON;
	sn_unlock(&cq->list_lock);
}

void sn_cq_serve_waiting(struct sn_cq *cq)
{
	sn_lock(&cq->list_lock);
	do_cq_notice_death(cq);
	do_scan_waiting(cq, SN_QP_MAX);
	sn_unlock(&cq->list_lock);
}

void do_sn_qp_attend(struct sn_qp *qp, bool attention)
{
	unsigned int i;

	if (atomic_load_explicit(&qp->attention, memory_order_relaxed) == attention)
		return;
	atomic_store_explicit(&qp->attention, attention, memory_order_relaxed);
	for (i = 0; i < qp->member_count; i++) {
		struct sn_cq *cq = i ? qp->recv_cq : qp->send_cq;

		sn_lock(&cq->lock);
		if (attention)
			TAILQ_INSERT_TAIL(&cq->waiting, &qp->members[i], in_waiting);
		else
			TAILQ_REMOVE(&cq->waiting, &qp->members[i], in_waiting);
		atomic_fetch_add_explicit(&cq->waiting_count, attention ? 1u : -1u,
					  memory_order_relaxed);
		sn_unlock(&cq->lock);
	}
}
