/* SPDX-License-Identifier: MIT */
/* Waiting for events and completions with a deadline, for all conformance cases. */
#include "tests/conformance/conformance.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>

#define POLL_BATCH 16
#define LOOKS_PER_SLEEP 20
#define CM_SLEEP_MS 5
#define LOOK_SLEEP_US 50

/* Pauses between two polls, because others need the CPU; false once the deadline has passed. */
static bool wait_more(int64_t deadline_us)
{
	static _Thread_local unsigned int looks;

	if (++looks % LOOKS_PER_SLEEP)
		sched_yield();
	else
		suite_sleep_us(LOOK_SLEEP_US);
	return suite_now_us() < deadline_us;
}

/*
 * Sleeps until an event comes, for a short time, if another thread or process polls the other end.
 */
static void cm_sleep(struct side *side)
{
	struct pollfd pfd = { .fd = side->cm->fd, .events = POLLIN };

	if (!side->other)
		poll(&pfd, 1, CM_SLEEP_MS);
}

/*
 * While a connect request is on its way, its sender has to take events too: on verbs, every id but
 * a device's first one resolves its address first. None of those events may reach the caller.
 */
static void other_takes_none(struct side *side)
{
	struct cm_event event;

	if (side->other)
		CHECK_INT(suite.ops->cm_get_event(side->other->cm, &event), -EAGAIN);
}

struct cm_event side_event(struct side *side, enum cm_event_type type)
{
	int64_t deadline_us = suite_now_us() + SUITE_WAIT_MS * 1000LL;
	struct cm_event event;
	int err;

	do {
		err = suite.ops->cm_get_event(side->cm, &event);
		if (err == -EAGAIN && type == CM_CONNECT_REQUEST)
			other_takes_none(side);
		if (err == -EAGAIN) {
			side_poll(side);
			cm_sleep(side);
		}
	} while (err == -EAGAIN && wait_more(deadline_us));
	if (err)
		suite_fail(__FILE__, __LINE__, "%s: no event of type %d: %s", side->name, type,
			   strerror(-err));
	if (event.type != type)
		suite_fail(__FILE__, __LINE__, "%s: event %d (status %d) instead of %d", side->name,
			   event.type, event.status, type);
	return event;
}

void side_event_none(struct side *side)
{
	int64_t deadline_us = suite_now_us() + SUITE_QUIET_MS * 1000LL;
	struct cm_event event;
	int err;

	do {
		err = suite.ops->cm_get_event(side->cm, &event);
		if (!err)
			suite_fail(__FILE__, __LINE__, "%s: unexpected event %d", side->name,
				   event.type);
		CHECK_INT(err, -EAGAIN);
	} while (wait_more(deadline_us));
}

static bool async_take(struct side *side, enum ibv_event_type type,
		       struct device_async_event *event, int wait_ms)
{
	int64_t deadline_us = suite_now_us() + wait_ms * 1000LL;
	int err;

	do {
		err = suite.ops->get_async_event(side->dev, event);
		if (!err && event->type == type)
			return true;
		if (err)
			CHECK_INT(err, -EAGAIN);
		side_poll(side);
	} while (wait_more(deadline_us));
	return false;
}

struct device_async_event side_async(struct side *side, enum ibv_event_type type)
{
	struct device_async_event event;

	if (!async_take(side, type, &event, SUITE_WAIT_MS))
		suite_fail(__FILE__, __LINE__, "%s: no async event '%s'", side->name,
			   ibv_event_type_str(type));
	return event;
}

bool side_async_seen(struct side *side, enum ibv_event_type type, int wait_ms)
{
	struct device_async_event event;

	return async_take(side, type, &event, wait_ms);
}

static void poll_one_side(struct side *side)
{
	struct ibv_wc wc[POLL_BATCH];
	int count = ibv_poll_cq(side->cq, POLL_BATCH, wc);

	CHECK(count >= 0);
	for (int i = 0; i < count; i++) {
		CHECK(side->stash_tail - side->stash_head < SIDE_STASH_MAX);
		side->stash[side->stash_tail++ % SIDE_STASH_MAX] = wc[i];
	}
}

void side_poll(struct side *side)
{
	poll_one_side(side);
	if (side->other)
		poll_one_side(side->other);
}

bool side_wc_within(struct side *side, struct ibv_wc *wc, int wait_ms)
{
	int64_t deadline_us = suite_now_us() + wait_ms * 1000LL;

	do {
		side_poll(side);
		if (side->stash_head != side->stash_tail) {
			*wc = side->stash[side->stash_head++ % SIDE_STASH_MAX];
			return true;
		}
	} while (wait_more(deadline_us));
	return false;
}

struct ibv_wc side_wc(struct side *side)
{
	struct ibv_wc wc;

	if (!side_wc_within(side, &wc, SUITE_WAIT_MS))
		suite_fail(__FILE__, __LINE__, "%s: no completion", side->name);
	return wc;
}

struct ibv_wc side_wc_is(struct side *side, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = side_wc(side);

	if (wc.wr_id != wr_id || wc.status != status)
		suite_fail(__FILE__, __LINE__, "%s: completion %llu '%s' instead of %llu '%s'",
			   side->name, (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
			   (unsigned long long)wr_id, ibv_wc_status_str(status));
	CHECK_INT(wc.qp_num, side->id->qp->qp_num);
	return wc;
}

void side_wc_none(struct side *side)
{
	struct ibv_wc wc;

	if (side_wc_within(side, &wc, SUITE_QUIET_MS))
		suite_fail(__FILE__, __LINE__, "%s: unexpected completion %llu '%s'", side->name,
			   (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}

void side_qp_in_error(struct side *side)
{
	int64_t deadline_us = suite_now_us() + SUITE_WAIT_MS * 1000LL;
	struct ibv_qp_attr attr;

	do {
		CHECK_OK(suite.ops->query_qp(side->id->qp, &attr, IBV_QP_STATE));
		if (attr.qp_state == IBV_QPS_ERR)
			return;
		side_poll(side);
	} while (wait_more(deadline_us));
	suite_fail(__FILE__, __LINE__, "%s: the queue pair is in state %d, not in error",
		   side->name, attr.qp_state);
}

bool side_readable(struct side *side, int wait_ms)
{
	struct pollfd pfd = { .fd = side->comp->fd, .events = POLLIN };

	return poll(&pfd, 1, wait_ms) == 1;
}

/*
 * The fd may be readable without a notification: softnic's peers wake us when they want to be
 * served, and get_cq_event() then returns EAGAIN. A sleeper has to check again; but it must get to
 * sleep.
 */
void side_notified(struct side *side)
{
	struct ibv_cq *cq;
	int err = -EAGAIN;

	for (unsigned int i = 0; i < SPURIOUS_MAX && err == -EAGAIN; i++) {
		if (!side_readable(side, SUITE_WAIT_MS))
			suite_fail(__FILE__, __LINE__, "%s: no notification", side->name);
		err = suite.ops->get_cq_event(side->comp, &cq);
	}
	CHECK_OK(err);
	CHECK(cq == side->cq && cq->cq_context == side);
}
