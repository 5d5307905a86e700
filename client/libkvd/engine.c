/* SPDX-License-Identifier: MIT */
/*
 * The engine: moves flights on and waits for completions, first by polling, which is enough when
 * they come within microseconds, then asleep; ends what has waited for too long or has become
 * impossible.
 */
#include "client/libkvd/engine.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "client/libkvd/changes.h"
#include "client/libkvd/connect.h"
#include "client/libkvd/flight.h"
#include "client/libkvd/read.h"
#include "client/libkvd/reconnect.h"
#include "client/libkvd/rpc.h"
#include "common/util/clock.h"

/* The clock is read after this many completions, while each poll finds some. */
#define TICK_COMPLETIONS 64
/* The connection's events are checked once in this time: that is a system call. */
#define EVENTS_NS 10000000u
/* Longest sleep: a lost peer may cause no event, so completions are polled again. */
#define SLEEP_MS_MAX 100
/*
 * While the server is away, a call that comes PROBE_AFTER_NS or more after the last one may wait
 * PROBE_MS for a try to succeed, 2 % of the time. Connecting takes some milliseconds.
 */
#define PROBE_AFTER_NS 1000000000u
#define PROBE_MS 20u

/* Moves on the flights whose pause has ended. */
static void paused_run(struct kvd *handle)
{
	struct list waiters;
	struct flight *f;
	uint64_t now;

	if (list_empty(&handle->paused))
		return;
	now = clock_ns();
	list_init(&waiters);
	list_move_all(&waiters, &handle->paused);
	while (!list_empty(&waiters)) {
		f = list_entry(waiters.next, struct flight, link);
		list_remove(&f->link);
		if (now >= f->retry_ns)
			f->ops->ready(handle, f);
		else
			list_add(&handle->paused, &f->link);
	}
}

/* Makes the ring larger after a READ did not fit. It is empty: nothing writes to it. */
static void ring_grow(struct kvd *handle)
{
	struct connection *conn = &handle->conn;

	conn->ring_small = false;
	if (conn->ring.bytes < RING_BYTES_MAX)
		ring_resize(handle, RING_BYTES_MAX);
	conn->ring_stuck = conn->ring.bytes < RING_BYTES_MAX;
}

/* Moves on the flights that wait for room to READ, in order, while there is some. */
static void ready_run(struct kvd *handle)
{
	struct connection *conn = &handle->conn;
	struct flight *f;

	while (!list_empty(&handle->ready) && !conn->broken) {
		if (!chain_room(conn)) {
			if (!conn->chain_count)
				return;
			chain_post(handle);
			continue;
		}
		if (conn->ring_small && conn->read_tail == conn->read_head)
			ring_grow(handle);
		f = list_entry(handle->ready.next, struct flight, link);
		list_remove(&f->link);
		f->ops->ready(handle, f);
		if (handle->ready.prev != &f->link)
			continue;
		/* The flight still waits: it keeps its turn. */
		list_remove(&f->link);
		list_add_first(&handle->ready, &f->link);
		return;
	}
}

/* A fleet's descriptor has all of its members' completions and events. */
static int fleet_sleep(struct kvd *handle, int timeout_ms)
{
	struct pollfd fd = { .fd = handle->epoll_fd, .events = POLLIN };
	int n = poll(&fd, 1, timeout_ms);

	handle->fleet_ops->disarm(handle);
	return n < 0 && errno != EINTR ? -errno : 0;
}

/*
 * Sleeps until a completion or an event of the connection comes; without a connection, until the
 * next try. Returns 1 after an event, or a negative errno.
 */
static int sleep_once(struct kvd *handle, uint64_t left_ns)
{
	uint64_t ms = left_ns / 1000000 + 1;
	int timeout = ms < SLEEP_MS_MAX ? (int)ms : SLEEP_MS_MAX;

	handle->stats.sleeps++;
	if (handle->fleet)
		return fleet_sleep(handle, timeout);
	if (handle->conn.cm_channel)
		return handle->dev->ops->sleep(handle->conn.comp_channel,
					       handle->conn.cm_channel->fd, timeout);
	poll(NULL, 0, timeout);
	return 0;
}

void engine_probe(struct kvd *handle, uint32_t timeout_ms)
{
	uint64_t now_ns = clock_ns(), until_ns = now_ns;
	unsigned int tries = handle->reconnect.tries;

	if (now_ns - handle->tick_ns >= PROBE_AFTER_NS)
		until_ns += (timeout_ms < PROBE_MS ? timeout_ms : PROBE_MS) * 1000000ull;
	while (!handle->up && !handle->closed && handle->reconnect.tries == tries) {
		if (until_ns > now_ns && handle->conn.cq)
			ibv_req_notify_cq(handle->conn.cq, 0);
		if (reconnect_progress(handle))
			continue;
		now_ns = clock_ns();
		if (now_ns >= until_ns || sleep_once(handle, until_ns - now_ns) < 0)
			return;
	}
}

/* Without a connection. Returns whether there is one now. */
static bool lost_attend(struct kvd *handle)
{
	const struct kvd *home = handle_home(handle);

	if (handle->reconnect.away && home->call_count)
		engine_probe(handle, handle->options.timeout_ms);
	if (handle->up)
		return true;
	if (handle->reconnect.away)
		away_end(handle);
	else if (!handle->closed && !list_empty(&handle->waiting))
		handle->submitted->start(handle);
	/* While the server is away, whatever begins ends here. */
	handle->attention = handle->reconnect.away;
	return false;
}

static void engine_attend(struct kvd *handle)
{
	if (handle->fleet) {
		if (!list_empty(&handle->waiting))
			handle->submitted->start(handle);
		handle->attention = false;
		handle->fleet_ops->post(handle);
		return;
	}
	if (!handle->up && !lost_attend(handle))
		return;
	if (!list_empty(&handle->waiting))
		handle->submitted->start(handle);
	paused_run(handle);
	ready_run(handle);
	requests_post(handle);
	if (handle->conn.broken) {
		reconnect_lost(handle);
		return;
	}
	handle->attention = !list_empty(&handle->paused) || !list_empty(&handle->ready) ||
			    !list_empty(&handle->requests) || !list_empty(&handle->waiting) ||
			    changes_to_resend(&handle->sent) || handle->access.due;
	if (handle->attention && connection_is_silent(&handle->conn)) {
		/* The response that ends the silence may be there. */
		completions_poll(handle);
		silence_end(handle);
	}
}

/* Posts what the flights need. */
static inline void engine_push(struct kvd *handle)
{
	if (handle->attention)
		engine_attend(handle);
	/* A lost connection may have no queue pair any more. */
	if (handle->conn.chain_count && !handle->conn.broken)
		chain_post(handle);
}

void engine_post(struct kvd *handle)
{
	engine_push(handle);
}

/*
 * Handles what depends on time: deadlines of submitted operations, events of the connection. Runs
 * after every poll that finds nothing, and every TICK_COMPLETIONS completions, so that completions
 * delay neither.
 */
static void engine_tick(struct kvd *handle)
{
	uint64_t now = clock_ns();

	handle->tick_ns = now;
	handle->tick_left = TICK_COMPLETIONS; /* engine_wait(): the clock has just been read */
	if (handle->next_deadline_ns && now >= handle->next_deadline_ns)
		handle->submitted->expire(handle, now);
	if (handle->up && now >= handle->events_ns) {
		handle->events_ns = now + EVENTS_NS;
		events_poll(handle);
	}
}

/* If posting fails, the connection is lost at once. */
inline unsigned int engine_progress(struct kvd *handle)
{
	unsigned int n = 0;

	if (handle->up)
		n = completions_poll(handle);
	else if (handle->fleet)
		n = handle->fleet_ops->progress(handle);
	else
		n = reconnect_progress(handle);
	if (n && n < handle->tick_left)
		handle->tick_left -= n;
	else
		engine_tick(handle);
	engine_push(handle);
	if (handle->conn.broken && handle->up)
		reconnect_lost(handle);
	return n;
}

uint64_t engine_next_ns(const struct kvd *handle)
{
	uint64_t next = handle->next_deadline_ns ? handle->next_deadline_ns : UINT64_MAX;
	uint64_t other = UINT64_MAX;
	const struct list *link;

	for (link = handle->paused.next; link != &handle->paused; link = link->next)
		if (list_entry(link, struct flight, link)->retry_ns < next)
			next = list_entry(link, struct flight, link)->retry_ns;
	if (handle->fleet)
		other = handle->fleet_ops->next_ns(handle);
	else if (!handle->up)
		other = reconnect_next_ns(handle);
	return other < next ? other : next;
}

/*
 * Waits asleep for a completion: requests a notification, polls once more, sleeps. The order
 * matters: a completion that arrives before the request causes no notification, but the poll finds
 * it. Completions are handled before events: a response that arrived before the disconnect counts.
 */
static void engine_sleep(struct kvd *handle, uint64_t until_ns)
{
	bool up = handle->up;
	int has_event;

	for (;;) {
		if (handle->fleet)
			handle->fleet_ops->arm(handle);
		if (handle->conn.cq && ibv_req_notify_cq(handle->conn.cq, 0))
			handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_req_notify_cq",
				    handle->dev->name);
		if (engine_progress(handle) || handle->up != up)
			return;
		if ((up && handle->conn.broken) || handle->tick_ns >= until_ns)
			return;
		has_event = sleep_once(handle, until_ns - handle->tick_ns);
		if (has_event > 0)
			handle->events_ns = 0;
		if (has_event < 0)
			handle_fail(handle, KVD_ERR_DEVICE, "device %s: can't sleep: %s",
				    handle->dev->name, strerror(-has_event));
	}
}

/*
 * How long a call may poll. On softnic it polls longer while the server READs a value: the polls
 * serve the READs, and a byte takes less than a nanosecond. If the call slept, each piece would
 * wake it up, and it would run on the worker's CPU and hold up the worker.
 */
static uint64_t poll_ns_max(const struct kvd *handle)
{
	uint64_t spin_ns = handle->options.spin_us * 1000ull;

	return spin_ns && handle->dev && handle->dev->kind == DEVICE_SOFTNIC ?
		       spin_ns + handle->served_bytes :
		       spin_ns;
}

/*
 * Waits by polling, for poll_ns_max() after the last completion, or less if polling has been
 * useless lately (spin.h); then asleep, unless a retry pauses. A call that finds its completion at
 * the first poll reads no clock, so the deadline of a call is set at the first poll that finds
 * nothing.
 */
bool engine_wait(struct kvd *handle, bool (*stop)(struct kvd *handle, const void *arg),
		 const void *arg, uint64_t *deadline_ns)
{
	struct spin *spin = &handle->spin;
	bool waited = false, any = false;
	uint64_t now, next;

	for (;;) {
		any |= engine_progress(handle);
		if (stop(handle, arg))
			break;
		if (handle->tick_left != TICK_COMPLETIONS)
			continue;
		now = handle->tick_ns;
		if (!*deadline_ns)
			*deadline_ns = now + handle->options.timeout_ms * 1000000ull;
		if (now >= *deadline_ns) {
			if (waited)
				spin_end(spin, false);
			return false;
		}
		if (!waited || any)
			spin_begin(spin, poll_ns_max(handle), now);
		waited = true;
		any = false;
		if (!list_empty(&handle->paused)) {
			cpu_relax();
			continue;
		}
		if (spin_wait(spin, now))
			continue;
		spin_end(spin, true);
		waited = false;
		next = engine_next_ns(handle);
		engine_sleep(handle, next < *deadline_ns ? next : *deadline_ns);
	}
	if (waited)
		spin_end(spin, false);
	return true;
}

static bool has_turn(struct kvd *handle, const void *arg)
{
	(void)arg;
	return list_empty(&handle->waiting) || handle->closed;
}

enum kvd_status engine_turn_wait(struct kvd *handle)
{
	if (!engine_wait(handle, has_turn, NULL, &handle->deadline_ns))
		return timeout_fail(handle, NULL);
	return handle->closed ? handle->conn.lost : KVD_OK;
}

static bool all_ended(struct kvd *handle, const void *arg)
{
	(void)handle;
	return !*(const unsigned int *)arg;
}

static enum kvd_status calls_wait(struct kvd *handle, const unsigned int *left)
{
	bool stopping = false;
	uint64_t drained_ns;
	struct flight *f;
	unsigned int i;

	if (engine_wait(handle, all_ended, left, &handle->deadline_ns))
		return KVD_OK;
	for (i = 0, f = handle->calls; i < handle->call_count; i++, f++)
		if (f->place != PLACE_ENDED)
			stopping |= flight_expire(flight_handle(handle, f), f);
	if (stopping) {
		drained_ns = clock_ns() + FLIGHT_DRAIN_NS;
		engine_wait(handle, all_ended, left, &drained_ns);
	}
	for (i = 0, f = handle->calls; i < handle->call_count; i++, f++)
		if (f->place != PLACE_ENDED)
			flight_expire(flight_handle(handle, f), f);
	return handle->up ? KVD_ERR_TIMEOUT : KVD_ERR_DISCONNECTED;
}

void engine_step(struct kvd *handle)
{
	engine_push(handle);
	engine_progress(handle);
}

/* Why flights that were not done had no connection. @status: of calls_wait(). */
static enum kvd_status lost_status(const struct kvd *handle, enum kvd_status status)
{
	if (handle->closed)
		return handle->conn.lost;
	if (handle->reconnect.status == KVD_ERR_AUTH)
		return KVD_ERR_AUTH;
	return handle->reconnect.away && !status ? KVD_ERR_AWAY : status;
}

enum kvd_status engine_run(struct kvd *handle, struct flight *flights, unsigned int count,
			   const unsigned int *left)
{
	enum kvd_status status = KVD_OK;

	handle->calls = flights;
	handle->call_count = count;
	engine_push(handle);
	engine_progress(handle);
	if (*left)
		status = calls_wait(handle, left);
	handle->call_count = 0;
	return handle->up ? status : lost_status(handle, status);
}

/* Frees the last response: the caller could use it until now. */
static void held_release(struct connection *conn)
{
	if (!conn->held)
		return;
	conn->held = false;
	conn->recv_free[conn->recv_free_count++] = (uint8_t)conn->held_index;
}

static void raw_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	struct connection *conn = &handle->conn;

	conn->held = true;
	conn->held_index = conn->response_index;
	f->response = *response;
	f->status = KVD_OK;
	flight_end(handle, f);
}

static void raw_fail(struct flight *f, enum kvd_status status)
{
	f->status = status;
}

static const struct flight_ops raw_ops = { .response = raw_response, .fail = raw_fail };

enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response)
{
	enum kvd_status status = engine_turn(handle);
	struct flight f;
	unsigned int left = 1;

	if (status)
		return status;
	held_release(&handle->conn);
	if (rpc->on_loss == LOSS_FAILS && !handle->up && !handle->reconnect.away)
		return handle_error_set(handle, KVD_ERR_DISCONNECTED,
					"the connection to %s was lost, and another one does not "
					"have what the call is about; nothing was done",
					handle->dev->address);
	flight_init_lookup(&f, &left, NULL);
	f.kind = FLIGHT_RAW;
	f.ops = &raw_ops;
	f.rpc = *rpc;
	request_add(handle, &f);
	engine_run(handle, &f, 1, &left);
	if (f.status)
		return f.status;
	*response = f.response;
	return response_status(handle, response);
}

static bool access_posted(struct kvd *handle, const void *arg)
{
	(void)arg;
	return !handle->access.due || !handle->up;
}

void access_settle(struct kvd *handle)
{
	handle->attention = true;
	engine_post(handle);
	if (!access_posted(handle, NULL))
		engine_wait(handle, access_posted, NULL, &handle->deadline_ns);
}

static bool access_reported(struct kvd *handle, const void *arg)
{
	(void)arg;
	return !handle->up || (access_is_empty(&handle->access) && !handle->conn.accesses);
}

/* Makes what is left due, one message after another, since each has room for some only. */
static bool access_all(struct kvd *handle, const void *arg)
{
	if (!access_is_empty(&handle->access) && !handle->conn.accesses) {
		handle->access.due = true;
		handle->attention = true;
	}
	return access_reported(handle, arg);
}

/* Ignores failures: the handle is being closed, and a lost record is only a lost hint. */
void access_report_all(struct kvd *handle, unsigned int wait_ms)
{
	uint64_t until_ns = clock_ns() + wait_ms * 1000000ull;

	if (!access_all(handle, NULL))
		engine_wait(handle, access_all, NULL, &until_ns);
}
