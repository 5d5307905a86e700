/* SPDX-License-Identifier: MIT */
/*
 * Completion queues, and the choice of the queue pairs that a poll scans.
 *
 * A queue pair with recent traffic is in its CQ's hot list, all of which is scanned in turn; one
 * without is in the cold list, of which a scan visits only a few, in turn. A queue pair that
 * becomes cold asks its peer for a wake-up (if the CQ has a completion channel), and stays armed
 * while it is cold. So arming a CQ costs only as much as its hot queue pairs, and a thousand idle
 * connections cost a poll only those few visits and, if it finds no work, now and then a call that
 * finds out from the channel which of them were woken. A queue pair with two CQs is always hot in
 * both: two pollers can't agree when it is idle.
 *
 * No lost wake-up: ibv_req_notify_cq() first sets notify and then arms every hot queue pair; arming
 * checks the peer's words again after it asked for the wake-up (link.h). What came before that
 * check is in the CQ; what comes later wakes us.
 */
#include "common/rdma/softnic/softnic.h"

#include <errno.h>
#include <stdlib.h>

#include "common/util/log.h"

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
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		goto no_memory;
	cq->mask = sn_round_up((uint32_t)cqe) - 1;
	cq->cqes = calloc((size_t)cq->mask + 1, sizeof(*cq->cqes));
	if (!cq->cqes)
		goto no_memory;
	cq->ctx = ctx;
	cq->verbs.context = &ctx->verbs;
	cq->verbs.channel = channel;
	cq->verbs.cq_context = cq_context;
	cq->verbs.cqe = cqe;
	pthread_mutex_init(&cq->lock, NULL);
	pthread_mutex_init(&cq->list_lock, NULL);
	TAILQ_INIT(&cq->hot);
	TAILQ_INIT(&cq->cold);
	if (channel) {
		cq->channel = sn_container(channel, struct sn_channel, verbs);
		sn_channel_add(cq->channel, cq);
	}
	*out = &cq->verbs;
	return 0;

no_memory:
	free(cq);
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
	sn_async_forget(cq->ctx, verbs);
	sn_object_remove(cq->ctx, SN_OBJECT_CQ);
	pthread_mutex_destroy(&cq->list_lock);
	pthread_mutex_destroy(&cq->lock);
	free(cq->cqes);
	free(cq);
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
	sn_async_push(cq->ctx, &(struct device_async_event){
				       .type = IBV_EVENT_CQ_ERR,
				       .cq = &cq->verbs,
			       });
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

bool do_sn_cq_push(struct sn_cq *cq, const struct sn_cqe *cqe)
{
	if (cq->dead || cq->head - cq->tail >= (uint32_t)cq->verbs.cqe) {
		do_cq_overrun(cq);
		return false;
	}
	cq->cqes[cq->head++ & cq->mask] = *cqe;
	if (atomic_load_explicit(&cq->notify, memory_order_relaxed))
		do_cq_notify(cq, cqe->solicited);
	return true;
}

bool sn_cq_push(struct sn_cq *cq, const struct sn_cqe *cqe)
{
	bool pushed;

	pthread_mutex_lock(&cq->lock);
	pushed = do_sn_cq_push(cq, cqe);
	pthread_mutex_unlock(&cq->lock);
	return pushed;
}

static int do_cq_pop(struct sn_cq *cq, int count, struct ibv_wc *wc)
{
	int got = 0;

	while (got < count && cq->tail != cq->head) {
		struct sn_cqe *cqe = &cq->cqes[cq->tail++ & cq->mask];

		wc[got++] = cqe->wc;
		if (cqe->is_send)
			atomic_store_explicit(&cqe->qp->sq.freed, cqe->sq_end,
					      memory_order_release);
	}
	return got;
}

void sn_cq_forget(struct sn_cq *cq, struct sn_qp *qp)
{
	uint32_t from, to;

	pthread_mutex_lock(&cq->lock);
	for (from = to = cq->tail; from != cq->head; from++) {
		if (cq->cqes[from & cq->mask].qp == qp)
			continue;
		if (from != to)
			cq->cqes[to & cq->mask] = cq->cqes[from & cq->mask];
		to++;
	}
	cq->head = to;
	pthread_mutex_unlock(&cq->lock);
}

static void do_member_place(struct sn_cq *cq, struct sn_member *member, bool hot)
{
	member->active = cq->scans;
	if (member->hot == hot)
		return;
	TAILQ_REMOVE(member->hot ? &cq->hot : &cq->cold, member, entry);
	member->hot = hot;
	TAILQ_INSERT_TAIL(hot ? &cq->hot : &cq->cold, member, entry);
}

static bool cq_notifies(const struct sn_cq *cq)
{
	return atomic_load_explicit(&cq->notify, memory_order_relaxed) != SN_NOTIFY_NONE;
}

/* Asks for wake-ups by the peer or, where a point in time is waited for, by the timer. */
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
	do_member_place(cq, member, !sleeping || qp->member_count > 1);
}

static void do_member_serve(struct sn_cq *cq, struct sn_member *member, bool woken)
{
	struct sn_qp *qp = member->qp;

	pthread_mutex_lock(&qp->lock);
	if (woken)
		do_sn_qp_drain(qp, false);
	do_sn_qp_progress(qp);
	do_member_settle(cq, member);
	pthread_mutex_unlock(&qp->lock);
}

/* Makes a queue pair cold that has had no traffic for long. */
static void do_member_cool(struct sn_cq *cq, struct sn_member *member)
{
	struct sn_qp *qp = member->qp;
	bool resting = true;

	member->active = cq->scans;
	if (qp->member_count > 1)
		return;
	pthread_mutex_lock(&qp->lock);
	if (atomic_load_explicit(&qp->attention, memory_order_relaxed))
		resting = false;
	else if (cq->channel)
		resting = do_sn_qp_arm(qp);
	pthread_mutex_unlock(&qp->lock);
	if (resting)
		do_member_place(cq, member, false);
}

static bool cq_has(struct sn_cq *cq, int wanted)
{
	bool has;

	pthread_mutex_lock(&cq->lock);
	has = cq->head - cq->tail >= (uint32_t)wanted;
	pthread_mutex_unlock(&cq->lock);
	return has;
}

static bool do_cq_scan_hot(struct sn_cq *cq, int wanted)
{
	struct sn_member *member = TAILQ_FIRST(&cq->hot);
	unsigned int scanned = 0;
	bool found = false;

	while (member && scanned++ < SN_HOT_SCAN) {
		struct sn_member *next = TAILQ_NEXT(member, entry);

		if (sn_qp_has_work(member->qp)) {
			do_member_serve(cq, member, false);
			found = true;
			if (cq_has(cq, wanted)) {
				member = next;
				break;
			}
		} else if (cq->scans - member->active >= SN_COLD_AFTER) {
			do_member_cool(cq, member);
		}
		member = next;
	}
	/* The one after those that were scanned is the first next time. */
	if (member && member->hot && member != TAILQ_FIRST(&cq->hot)) {
		struct sn_member *first;

		while ((first = TAILQ_FIRST(&cq->hot)) != member && scanned--) {
			TAILQ_REMOVE(&cq->hot, first, entry);
			TAILQ_INSERT_TAIL(&cq->hot, first, entry);
		}
	}
	return found;
}

static bool do_cq_scan_cold(struct sn_cq *cq)
{
	unsigned int scanned = 0;
	bool found = false;

	for (; scanned < SN_COLD_SCAN; scanned++) {
		struct sn_member *member = TAILQ_FIRST(&cq->cold);

		if (!member)
			break;
		TAILQ_REMOVE(&cq->cold, member, entry);
		TAILQ_INSERT_TAIL(&cq->cold, member, entry);
		if (sn_qp_has_work(member->qp)) {
			do_member_serve(cq, member, false);
			found = true;
		}
	}
	return found;
}

static void member_check_life(struct sn_member *member)
{
	struct sn_qp *qp = member->qp;
	bool lost;

	pthread_mutex_lock(&qp->lock);
	lost = qp->verbs.state == IBV_QPS_RTS && link_hung_up(qp->sock);
	pthread_mutex_unlock(&qp->lock);
	if (lost)
		sn_qp_lost(qp);
}

/*
 * A peer that was killed leaves its memory in place: only its socket shows it. So a poll without
 * work checks the sockets of a few queue pairs, in turn, once per tick of the kernel's coarse
 * clock.
 */
static void do_cq_check_lives(struct sn_cq *cq)
{
	uint64_t tick = sn_now_ns(CLOCK_MONOTONIC_COARSE);
	struct sn_member *member;
	unsigned int checks;

	if (tick == cq->tick)
		return;
	cq->tick = tick;
	for (checks = 0; checks < SN_TICK_SCAN; checks++) {
		member = TAILQ_FIRST(&cq->hot);
		if (!member)
			break;
		member_check_life(member);
		TAILQ_REMOVE(&cq->hot, member, entry);
		TAILQ_INSERT_TAIL(&cq->hot, member, entry);
	}
	member = TAILQ_FIRST(&cq->cold);
	if (member)
		member_check_life(member);
}

/* True if it is time to find out which cold queue pairs were woken. */
static bool do_cq_serve_due(struct sn_cq *cq)
{
	return cq->channel && !TAILQ_EMPTY(&cq->cold) &&
	       ++cq->empty_scans % SN_COLD_SERVE_EVERY == 0;
}

static void cq_scan(struct sn_cq *cq, int wanted)
{
	bool serve = false;
	bool found;

	/* Another thread is scanning: it pushes its completions to the same CQ. */
	if (pthread_mutex_trylock(&cq->list_lock))
		return;
	cq->scans++;
	found = do_cq_scan_hot(cq, wanted);
	found |= do_cq_scan_cold(cq);
	/* A thread that is about to sleep learns of these from the channel. */
	if (!found && !(cq->channel && cq_notifies(cq))) {
		do_cq_check_lives(cq);
		serve = do_cq_serve_due(cq);
	}
	pthread_mutex_unlock(&cq->list_lock);
	if (serve)
		sn_channel_serve(cq->channel);
}

int sn_poll_cq(struct ibv_cq *verbs, int count, struct ibv_wc *wc)
{
	struct sn_cq *cq = to_sn_cq(verbs);
	bool dead;
	int ret = fault_check(FAULT_poll_cq, cq->ctx);
	int got;

	if (ret)
		return ret;
	pthread_mutex_lock(&cq->lock);
	got = do_cq_pop(cq, count, wc);
	if (got && cq->skipped++ < SN_SKIP_MAX) {
		pthread_mutex_unlock(&cq->lock);
		return got;
	}
	cq->skipped = 0;
	pthread_mutex_unlock(&cq->lock);
	cq_scan(cq, count - got > 0 ? count - got : 1);
	pthread_mutex_lock(&cq->lock);
	got += do_cq_pop(cq, count - got, wc + got);
	dead = cq->dead;
	pthread_mutex_unlock(&cq->lock);
	return got || !dead ? got : -EIO;
}

/* Completes what is there before it arms, so that this causes no notification. */
static void do_cq_arm_all(struct sn_cq *cq, int notify)
{
	struct sn_member *member, *next;

	TAILQ_FOREACH(member, &cq->hot, entry)
		if (sn_qp_has_work(member->qp)) {
			pthread_mutex_lock(&member->qp->lock);
			do_sn_qp_progress(member->qp);
			pthread_mutex_unlock(&member->qp->lock);
		}
	pthread_mutex_lock(&cq->lock);
	if (notify > atomic_load_explicit(&cq->notify, memory_order_relaxed))
		atomic_store_explicit(&cq->notify, notify, memory_order_relaxed);
	pthread_mutex_unlock(&cq->lock);
	for (member = TAILQ_FIRST(&cq->hot); member; member = next) {
		next = TAILQ_NEXT(member, entry);
		pthread_mutex_lock(&member->qp->lock);
		do_member_settle(cq, member);
		pthread_mutex_unlock(&member->qp->lock);
	}
}

int sn_req_notify_cq(struct ibv_cq *verbs, int solicited_only)
{
	struct sn_cq *cq = to_sn_cq(verbs);
	int ret = fault_check(FAULT_req_notify_cq, cq->ctx);

	if (ret)
		return -ret;
	pthread_mutex_lock(&cq->list_lock);
	do_cq_arm_all(cq, solicited_only ? SN_NOTIFY_SOLICITED : SN_NOTIFY_ANY);
	pthread_mutex_unlock(&cq->list_lock);
	return 0;
}

void sn_cq_add(struct sn_cq *cq, struct sn_member *member)
{
	pthread_mutex_lock(&cq->list_lock);
	member->hot = true;
	member->active = cq->scans;
	TAILQ_INSERT_TAIL(&cq->hot, member, entry);
	do_member_serve(cq, member, false);
	pthread_mutex_unlock(&cq->list_lock);
}

void sn_cq_warm(struct sn_cq *cq, struct sn_member *member)
{
	pthread_mutex_lock(&cq->list_lock);
	pthread_mutex_lock(&member->qp->lock);
	do_member_settle(cq, member);
	pthread_mutex_unlock(&member->qp->lock);
	pthread_mutex_unlock(&cq->list_lock);
}

void sn_cq_remove(struct sn_cq *cq, struct sn_member *member)
{
	pthread_mutex_lock(&cq->list_lock);
	TAILQ_REMOVE(member->hot ? &cq->hot : &cq->cold, member, entry);
	pthread_mutex_unlock(&cq->list_lock);
}

void sn_cq_serve(struct sn_cq *cq, struct sn_qp *qp)
{
	struct sn_member *member = &qp->members[qp->member_count > 1 && cq == qp->recv_cq];

	pthread_mutex_lock(&cq->list_lock);
	do_member_serve(cq, member, true);
	pthread_mutex_unlock(&cq->list_lock);
}

static void do_list_serve_timed(struct sn_cq *cq, struct sn_member_list *list)
{
	struct sn_member *member, *next;

	for (member = TAILQ_FIRST(list); member; member = next) {
		next = TAILQ_NEXT(member, entry);
		if (sn_qp_has_work(member->qp))
			do_member_serve(cq, member, false);
	}
}

void sn_cq_serve_timed(struct sn_cq *cq)
{
	pthread_mutex_lock(&cq->list_lock);
	do_list_serve_timed(cq, &cq->hot);
	do_list_serve_timed(cq, &cq->cold);
	pthread_mutex_unlock(&cq->list_lock);
}
