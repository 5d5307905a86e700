/* SPDX-License-Identifier: MIT */
/*
 * Submitted operations: they wait in the order of submission for one of options.depth slots, and
 * are handed back by kvd_poll() or kvd_wait() when they have ended.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/libkvd/connect.h"
#include "client/libkvd/engine.h"
#include "client/libkvd/flight.h"
#include "client/libkvd/message.h"
#include "client/libkvd/observe.h"
#include "client/libkvd/op.h"
#include "client/libkvd/transfer.h"
#include "common/util/clock.h"
#include "common/util/heap.h"

enum op_state { OP_IDLE = 0, OP_WAITING, OP_FLYING, OP_ENDED };

/* What is in struct kvd_op's reserved words while the operation is submitted. */
struct op_private {
	struct list link;
	struct flight *flight; /* OP_FLYING */
	uint64_t deadline_ns;
	uint64_t start_ns; /* 0: not timed */
	const struct kvd *handle;
	enum op_state state;
};
static_assert(sizeof(struct op_private) <= sizeof(((struct kvd_op *)0)->reserved), "has room");

static struct op_private *private_of(struct kvd_op *op)
{
	return (struct op_private *)(void *)op->reserved;
}

static struct kvd_op *op_of(struct list *link)
{
	return (struct kvd_op *)(void *)((char *)link - offsetof(struct kvd_op, reserved) -
					 offsetof(struct op_private, link));
}

void submitted_release(struct kvd *handle)
{
	uint32_t i;

	for (i = 0; handle->slot_memory && i < handle->options.depth; i++)
		if (handle->slot_memory[i].direct && handle->slot_memory[i].place != PLACE_ENDED)
			flight_put_memory(handle, &handle->slot_memory[i]);
	heap_free(handle->slot_memory);
	heap_free(handle->conn.batches);
	if (handle->timer_fd >= 0)
		close(handle->timer_fd);
	/* A member has its fleet's. */
	if (handle->epoll_fd >= 0 && !handle->member.home)
		close(handle->epoll_fd);
}

/* Queues an operation that has ended, to be handed back. */
static void op_ended(struct kvd *handle, struct kvd_op *op)
{
	struct op_private *private = private_of(op);

	private->state = OP_ENDED;
	list_add(op->done ? &handle->called_back : &handle->done, &private->link);
	handle->ended++;
}

static void op_end(struct kvd *handle, struct flight *f)
{
	struct kvd_op *op = f->op;

	if (handle->member.home) {
		if (handle->member.home->fleet_ops->ended(handle, f))
			return;
		handle = handle->member.home;
	}
	op_count(handle, f);
	f->op = NULL;
	list_add_first(&handle->slots, &f->link);
	if (!list_empty(&handle->waiting))
		handle->attention = true;
	op_ended(handle, op);
}

/* Ends an operation that waits for a slot. */
static void waiting_end(struct kvd *handle, struct kvd_op *op, enum kvd_status status)
{
	struct observed observed = op_observed(op, private_of(op)->start_ns);

	list_remove(&private_of(op)->link);
	op->status = status;
	handle->stats.away += status == KVD_ERR_AWAY;
	observed.submitted = op;
	if (handle->observing)
		observe_end(handle, &observed, NULL, status, clock_ns());
	op_ended(handle, op);
}

static void flight_begin(struct kvd *handle, struct flight *f)
{
	if (handle->fleet)
		handle->fleet_ops->begin(handle, f);
	else
		op_begin(handle, f);
}

static void ops_start(struct kvd *handle)
{
	struct flight *flights[GETS_MAX], *f;
	unsigned int i, n;
	struct kvd_op *op;

	while (!list_empty(&handle->waiting) && !list_empty(&handle->slots)) {
		for (n = 0;
		     n < GETS_MAX && !list_empty(&handle->waiting) && !list_empty(&handle->slots);
		     n++) {
			op = op_of(handle->waiting.next);
			list_remove(&private_of(op)->link);
			f = list_entry(handle->slots.next, struct flight, link);
			list_remove(&f->link);
			op_flight(f, op, NULL, private_of(op)->start_ns);
			f->ended = op_end;
			private_of(op)->flight = f;
			private_of(op)->state = OP_FLYING;
			op_prepare(handle, f);
			flights[n] = f;
		}
		for (i = 0; i < n; i++)
			flight_begin(handle, flights[i]);
	}
}

static void ops_each(struct kvd *handle, void (*visit)(struct kvd *handle, struct flight *f))
{
	struct kvd *home = handle_home(handle);
	uint32_t i;

	for (i = 0; i < home->options.depth; i++)
		if (home->slot_memory[i].op && flight_is_at(handle, &home->slot_memory[i]))
			visit(handle, &home->slot_memory[i]);
}

static void ops_close(struct kvd *handle, enum kvd_status status)
{
	while (!list_empty(&handle->waiting))
		waiting_end(handle, op_of(handle->waiting.next), status);
}

static void deadline_note(struct kvd *handle, uint64_t deadline_ns)
{
	if (!handle->next_deadline_ns || deadline_ns < handle->next_deadline_ns)
		handle->next_deadline_ns = deadline_ns;
}

/* Looks at all operations, but runs only when one may be late: once in a timeout. */
static void ops_expire(struct kvd *handle, uint64_t now_ns)
{
	struct list *link, *next;
	struct kvd_op *op;
	struct flight *f;
	uint32_t i;

	handle->next_deadline_ns = 0;
	for (i = 0; i < handle->options.depth; i++) {
		f = &handle->slot_memory[i];
		op = f->op;
		if (op && private_of(op)->deadline_ns <= now_ns &&
		    !flight_expire(flight_handle(handle, f), f))
			continue;
		if (op && private_of(op)->deadline_ns <= now_ns)
			private_of(op)->deadline_ns = now_ns + FLIGHT_DRAIN_NS;
		if (op)
			deadline_note(handle, private_of(op)->deadline_ns);
	}
	for (link = handle->waiting.next; link != &handle->waiting; link = next) {
		next = link->next;
		op = op_of(link);
		if (private_of(op)->deadline_ns <= now_ns)
			waiting_end(handle, op, timeout_fail(handle, NULL));
		else
			deadline_note(handle, private_of(op)->deadline_ns);
	}
}

static const struct submitted_ops submitted_ops = {
	.start = ops_start,
	.expire = ops_expire,
	.each = ops_each,
	.close = ops_close,
};

enum kvd_status slots_make(struct kvd *handle, const struct submitted_ops *ops)
{
	uint32_t i;

	if (handle->slot_memory)
		return KVD_OK;
	handle->slot_memory = heap_calloc(handle->options.depth, sizeof(struct flight));
	if (!handle->slot_memory)
		return handle_fail(handle, KVD_ERR_NO_MEMORY,
				   "no memory for %u operations in flight (depth)",
				   handle->options.depth);
	handle->submitted = ops;
	for (i = 0; i < handle->options.depth; i++)
		list_add(&handle->slots, &handle->slot_memory[i].link);
	return KVD_OK;
}

static enum kvd_status submit_prepare(struct kvd *handle)
{
	enum kvd_status status;

	if (handle->slot_memory)
		return KVD_OK;
	status = slots_make(handle, &submitted_ops);
	/* Without memory for batches requests go alone. */
	if (!status)
		handle->conn.batches = heap_calloc(MESSAGES_MAX, sizeof(struct batch));
	return status;
}

static enum kvd_status submit_check(struct kvd *handle, struct kvd_op *op)
{
	if (!op)
		return handle_fail(handle, KVD_ERR_INVALID, "an operation is NULL");
	if (private_of(op)->state != OP_IDLE)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "an operation is submitted already, or was not prepared");
	return op_check(handle, op);
}

/* Takes all operations, or none. */
static enum kvd_status submit_check_all(struct kvd *handle, struct kvd_op *const ops[],
					size_t count)
{
	enum kvd_status status = KVD_OK;
	size_t i;

	for (i = 0; i < count; i++) {
		status = submit_check(handle, ops[i]);
		if (status)
			break;
		private_of(ops[i])->state = OP_WAITING;
	}
	if (status)
		while (i--)
			private_of(ops[i])->state = OP_IDLE;
	return status;
}

static void submit_one(struct kvd *handle, struct kvd_op *op, uint64_t now_ns)
{
	uint32_t timeout_ms = op->timeout_ms ? op->timeout_ms : handle->options.timeout_ms;
	struct op_private *private = private_of(op);
	struct observed observed;

	private->handle = handle;
	private->deadline_ns = now_ns + timeout_ms * 1000000ull;
	private->start_ns = op_is_timed(handle, op) ? now_ns : 0;
	list_add(&handle->waiting, &private->link);
	handle->outstanding++;
	deadline_note(handle, private->deadline_ns);
	if (handle->observing) {
		observed = op_observed(op, now_ns);
		observed.submitted = op;
		observe_start(handle, &observed);
	}
}

static enum kvd_status submit(struct kvd *handle, struct kvd_op *const ops[], size_t count)
{
	enum kvd_status status;
	uint64_t now_ns;
	size_t i;

	if (handle->closed)
		return handle_closed(handle);
	if (!ops && count)
		return handle_fail(handle, KVD_ERR_INVALID, "the operations are NULL");
	status = submit_prepare(handle);
	if (!status)
		status = submit_check_all(handle, ops, count);
	if (status)
		return status;
	handle_bounce_age(handle);
	now_ns = clock_ns();
	for (i = 0; i < count; i++)
		submit_one(handle, ops[i], now_ns);
	handle->attention = true;
	engine_post(handle);
	return KVD_OK;
}

enum kvd_status kvd_submit(struct kvd *handle, struct kvd_op *const ops[], size_t count)
{
	bool nested = false;
	enum kvd_status status = call_enter(handle, &nested);

	if (status)
		return status;
	status = submit(handle, ops, count);
	return nested ? status : call_end(handle, status);
}

/* Whether the server may have changed something, so that only its response tells. */
static bool op_is_sent(const struct flight *f)
{
	return f->touching || (f->sent && f->kind == FLIGHT_CHANGE && f->op->op != KVD_OP_PING);
}

static enum kvd_status cancel(struct kvd *handle, struct kvd_op *op)
{
	struct op_private *private;

	if (!op)
		return handle_fail(handle, KVD_ERR_INVALID, "the operation is NULL");
	private = private_of(op);
	if (private->state == OP_IDLE || private->handle != handle)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "the operation is not submitted to this handle");
	if (private->state == OP_ENDED)
		return handle_error_set(handle, KVD_ERR_BUSY,
					"the operation has ended: kvd_poll() hands it back");
	if (private->state == OP_FLYING && op_is_sent(private->flight))
		return handle_error_set(handle, KVD_ERR_BUSY,
					"the change was sent: its response says what it did");
	/* The operation ends when its READs to the caller's memory have completed. */
	if (private->state == OP_FLYING && transfer_touches(private->flight))
		transfer_stop(private->flight, KVD_ERR_CANCELED);
	else if (private->state == OP_FLYING)
		flight_cut(flight_handle(handle, private->flight), private->flight,
			   KVD_ERR_CANCELED);
	else
		waiting_end(handle, op, KVD_ERR_CANCELED);
	return KVD_OK;
}

enum kvd_status kvd_cancel(struct kvd *handle, struct kvd_op *op)
{
	bool nested = false;
	enum kvd_status status = call_enter(handle, &nested);

	if (status)
		return status;
	status = cancel(handle, op);
	return nested ? status : call_end(handle, status);
}

/* From now on the caller may use the operation's memory for other things. */
static void op_hand_back(struct kvd *handle, struct kvd_op *op)
{
	struct op_private *private = private_of(op);

	list_remove(&private->link);
	private->state = OP_IDLE;
	handle->ended--;
	handle->outstanding--;
}

/* Operations that callbacks submit, and that end at once, are for the next call. */
static void call_back(struct kvd *handle)
{
	struct kvd_op *op;
	struct list list;

	if (list_empty(&handle->called_back))
		return;
	list_init(&list);
	list_move_all(&list, &handle->called_back);
	handle->in_callback = true;
	while (!list_empty(&list)) {
		op = op_of(list.next);
		op_hand_back(handle, op);
		op->done(op, op->user);
	}
	handle->in_callback = false;
}

static size_t hand_back(struct kvd *handle, struct kvd_op **done, size_t max)
{
	size_t n;

	call_back(handle);
	for (n = 0; n < max && !list_empty(&handle->done); n++) {
		done[n] = op_of(handle->done.next);
		op_hand_back(handle, done[n]);
	}
	return n;
}

/* Consumes what made the descriptor readable. */
static void disarm(struct kvd *handle)
{
	struct ibv_cq *cq;
	uint64_t count;

	if (!handle->armed)
		return;
	handle->armed = false;
	(void)!read(handle->timer_fd, &count, sizeof(count));
	if (handle->fleet)
		handle->fleet_ops->disarm(handle);
	if (!handle->conn.comp_channel)
		return;
	while (!handle->dev->ops->get_cq_event(handle->conn.comp_channel, &cq))
		;
	handle->events_ns = 0;
}

size_t kvd_poll(struct kvd *handle, struct kvd_op **done, size_t max)
{
	size_t n;

	if (call_enter(handle, NULL))
		return 0;
	disarm(handle);
	engine_progress(handle);
	n = hand_back(handle, done, done ? max : 0);
	call_end(handle, KVD_OK);
	return n;
}

static bool enough_ended(struct kvd *handle, const void *arg)
{
	return handle->ended >= *(const size_t *)arg || handle->ended == handle->outstanding;
}

size_t kvd_wait(struct kvd *handle, struct kvd_op **done, size_t max, size_t min,
		uint32_t timeout_ms)
{
	uint64_t deadline_ns = UINT64_MAX;
	size_t n;

	if (call_enter(handle, NULL))
		return 0;
	if (timeout_ms != UINT32_MAX)
		deadline_ns = clock_ns() + timeout_ms * 1000000ull;
	disarm(handle);
	if (!handle->up && handle->reconnect.away)
		engine_probe(handle, timeout_ms);
	engine_wait(handle, enough_ended, &min, &deadline_ns);
	n = hand_back(handle, done, done ? max : 0);
	call_end(handle, KVD_OK);
	return n;
}

size_t kvd_outstanding(const struct kvd *handle)
{
	return handle ? handle->outstanding : 0;
}

int submitted_fd(struct kvd *handle)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (handle->epoll_fd >= 0)
		return handle->epoll_fd;
	handle->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	handle->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (handle->epoll_fd >= 0 && handle->timer_fd >= 0 &&
	    !epoll_ctl(handle->epoll_fd, EPOLL_CTL_ADD, handle->timer_fd, &event) &&
	    !connection_watch(handle))
		return handle->epoll_fd;
	handle_fail(handle, KVD_ERR_NO_MEMORY, "can't make a descriptor: %s", strerror(errno));
	if (handle->epoll_fd >= 0)
		close(handle->epoll_fd);
	if (handle->timer_fd >= 0)
		close(handle->timer_fd);
	handle->epoll_fd = handle->timer_fd = -1;
	return -1;
}

int kvd_fd(struct kvd *handle)
{
	int fd;

	if (call_enter(handle, NULL))
		return -1;
	fd = submitted_fd(handle);
	call_end(handle, KVD_OK);
	return fd;
}

/* Sets the timer to the next deadline or retry; without one it is stopped. */
static void timer_set(struct kvd *handle)
{
	uint64_t next_ns = engine_next_ns(handle);
	struct itimerspec at = { 0 };

	if (next_ns != UINT64_MAX)
		at.it_value = (struct timespec){
			.tv_sec = (time_t)(next_ns / 1000000000u),
			.tv_nsec = (long)(next_ns % 1000000000u),
		};
	timerfd_settime(handle->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/*
 * Requests a notification, and then polls once more: a completion that came before the request
 * causes no notification, but is found here.
 */
static enum kvd_status arm(struct kvd *handle)
{
	unsigned int n;

	if (handle->epoll_fd < 0)
		return handle_fail(handle, KVD_ERR_INVALID, "kvd_fd() was not called");
	do {
		if (handle->ended)
			return handle_error_set(handle, KVD_ERR_BUSY,
						"an operation has ended: call kvd_poll() first");
		if (handle->closed)
			return handle_closed(handle);
		disarm(handle);
		handle->armed = true;
		if (handle->fleet)
			handle->fleet_ops->arm(handle);
		if (handle->conn.cq && ibv_req_notify_cq(handle->conn.cq, 0))
			handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_req_notify_cq",
				    handle->dev->name);
		n = engine_progress(handle);
	} while (n || (handle->up && handle->conn.broken) || handle->closed || handle->ended);
	timer_set(handle);
	return KVD_OK;
}

enum kvd_status kvd_arm(struct kvd *handle)
{
	enum kvd_status status = call_enter(handle, NULL);

	return status ? status : call_end(handle, arm(handle));
}
