/* SPDX-License-Identifier: MIT */
#include "server/memcached/forwarder.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <urcu-qsbr.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "server/fleet/fleet_thread.h"
#include "server/memcached/flusher.h"

#define NS_PER_MS 1000000ull
/* Of operations, which all have their own. */
#define CALL_MS 2000
/* Until a handle that could not be opened is tried again. */
#define RETRY_NS (500 * NS_PER_MS)
/* A handle that is not used for this long is closed, and how often to look. */
#define IDLE_NS (60000 * NS_PER_MS)
#define IDLE_LOOK_MS 10000
/* Operations submitted at once. */
#define SUBMIT_MAX 64u

struct lane {
	struct forward_list waiting;
	unsigned int flying;
};

/* A tenant's way to the other members. */
struct forward_route {
	LIST_ENTRY(forward_route) entry;
	char tenant[WIRE_TENANT_MAX + 1];
	struct kvd *handle;  /* NULL: it could not be opened, and `why` says why */
	int fd;		     /* the handle's */
	uint64_t retry_ns;   /* by clock_ns() */
	uint64_t used_ns;    /* likewise */
	unsigned int active; /* operations that wait or fly */
	char why[FLEET_HANDLE_WHY_MAX];
	struct forward_list flying;
	struct lane lanes[FORWARDER_LANES];
};

struct forwarder {
	struct fleet_identity identity;
	struct flusher flusher;
	pthread_t thread;
	bool started;
	int event_fd;	      /* readable while something is in `sent`, or it should stop */
	pthread_mutex_t lock; /* guards the fields below */
	bool stops;
	struct forward_list sent;

	/* The thread's. */
	LIST_HEAD(forward_routes, forward_route) routes;
	unsigned int route_count;
};

static void send_back(struct forward *forward)
{
	/* From here on it may be gone. */
	mailbox_send(forward->back, &forward->note);
}

static void event_set(struct forwarder *forwarder)
{
	uint64_t one = 1;

	/* write() fails only when the counter is full, and then the descriptor is readable. */
	if (write(forwarder->event_fd, &one, sizeof(one)) < 0)
		log_debug("forwarder: %m");
}

void forwarder_send(struct forwarder *forwarder, struct forward *forward)
{
	bool stops, first;

	if (forward->kind == FORWARD_FLUSH) {
		stops = !flusher_send(&forwarder->flusher, forward);
		first = false;
	} else {
		pthread_mutex_lock(&forwarder->lock);
		stops = forwarder->stops;
		first = !stops && TAILQ_EMPTY(&forwarder->sent);
		if (!stops)
			TAILQ_INSERT_TAIL(&forwarder->sent, forward, entry);
		pthread_mutex_unlock(&forwarder->lock);
	}
	if (first)
		event_set(forwarder);
	if (!stops)
		return;
	forward->op.status = KVD_ERR_CANCELED;
	send_back(forward);
}

/* The operation has not begun, or has ended. */
static void forward_end(struct forward *forward, enum kvd_status status, const char *why)
{
	forward->route->active--;
	forward->op.status = status;
	snprintf(forward->why, sizeof(forward->why), "%s", why);
	send_back(forward);
}

static void op_done(struct kvd_op *op, void *user)
{
	struct forward *forward = user;

	TAILQ_REMOVE(&forward->route->flying, forward, entry);
	forward->route->lanes[forward->lane].flying--;
	forward_end(forward, op->status, "");
}

static struct forward_route *route_of(struct forwarder *forwarder, const char *tenant)
{
	struct forward_route *route;

	LIST_FOREACH(route, &forwarder->routes, entry)
		if (!strcmp(route->tenant, tenant))
			return route;
	route = calloc(1, sizeof(*route));
	if (!route)
		return NULL;
	strcpy(route->tenant, tenant);
	TAILQ_INIT(&route->flying);
	for (unsigned int i = 0; i < FORWARDER_LANES; i++)
		TAILQ_INIT(&route->lanes[i].waiting);
	LIST_INSERT_HEAD(&forwarder->routes, route, entry);
	forwarder->route_count++;
	return route;
}

static void route_open(struct forwarder *forwarder, struct forward_route *route)
{
	if (route->handle || clock_ns() < route->retry_ns)
		return;
	if (!fleet_handle_open(&forwarder->identity, route->tenant, CALL_MS, &route->handle,
			       route->why)) {
		route->fd = kvd_fd(route->handle);
		if (route->fd >= 0)
			return;
		snprintf(route->why, sizeof(route->why), "%s", kvd_error(route->handle));
		kvd_close(route->handle);
		route->handle = NULL;
	}
	route->retry_ns = clock_ns() + RETRY_NS;
	log_ratelimited(LOG_WARN, 10, "memcached: can't ask the fleet for keys of tenant %s: %s",
			route->tenant, route->why);
}

/* Puts what workers have sent into the lanes. False: the thread should stop. */
static bool sent_take(struct forwarder *forwarder)
{
	struct forward_list sent = TAILQ_HEAD_INITIALIZER(sent);
	struct forward *forward;
	uint64_t count;
	bool stops;

	if (read(forwarder->event_fd, &count, sizeof(count)) < 0)
		count = 0;
	pthread_mutex_lock(&forwarder->lock);
	TAILQ_CONCAT(&sent, &forwarder->sent, entry);
	stops = forwarder->stops;
	pthread_mutex_unlock(&forwarder->lock);
	while ((forward = TAILQ_FIRST(&sent))) {
		TAILQ_REMOVE(&sent, forward, entry);
		forward->route = route_of(forwarder, forward->tenant);
		if (!forward->route) {
			forward->op.status = KVD_ERR_NO_MEMORY;
			send_back(forward);
			continue;
		}
		forward->route->active++;
		forward->route->used_ns = clock_ns();
		TAILQ_INSERT_TAIL(&forward->route->lanes[forward->lane].waiting, forward, entry);
	}
	return !stops;
}

/* One that has waited for too long has not begun, and never will. */
static bool time_set(struct forward *forward)
{
	uint64_t now_ns = clock_ns(), left_ms;

	if (now_ns >= forward->end_ns)
		return false;
	left_ms = (forward->end_ns - now_ns) / NS_PER_MS + 1;
	forward->op.timeout_ms = (uint32_t)left_ms;
	return true;
}

/* The next operation of the lane that may fly, or NULL. */
static struct forward *lane_next(struct forward_route *route, struct lane *lane)
{
	struct forward *forward;

	while (lane->flying < FORWARDER_LANE_MAX && (forward = TAILQ_FIRST(&lane->waiting))) {
		TAILQ_REMOVE(&lane->waiting, forward, entry);
		if (!route->handle) {
			forward_end(forward, KVD_ERR_AWAY, route->why);
		} else if (!time_set(forward)) {
			forward_end(forward, KVD_ERR_DISCONNECTED,
				    "it has not answered other requests in time");
		} else {
			lane->flying++;
			TAILQ_INSERT_TAIL(&route->flying, forward, entry);
			return forward;
		}
	}
	return NULL;
}

static void not_submitted(struct forward_route *route, struct forward *forward,
			  enum kvd_status status)
{
	TAILQ_REMOVE(&route->flying, forward, entry);
	route->lanes[forward->lane].flying--;
	forward_end(forward, status, kvd_error(route->handle));
}

/* All of them, or those that can be. */
static void submit(struct forward_route *route, struct forward *forwards[], unsigned int count)
{
	struct kvd_op *ops[SUBMIT_MAX];
	enum kvd_status status;

	for (unsigned int i = 0; i < count; i++)
		ops[i] = &forwards[i]->op;
	if (!count || !kvd_submit(route->handle, ops, count))
		return;
	for (unsigned int i = 0; i < count; i++) {
		status = kvd_submit(route->handle, &ops[i], 1);
		if (status)
			not_submitted(route, forwards[i], status);
	}
}

static void route_send(struct forwarder *forwarder, struct forward_route *route)
{
	struct forward *forwards[SUBMIT_MAX], *forward;
	unsigned int count = 0;

	if (route->active)
		route_open(forwarder, route);
	for (unsigned int i = 0; i < FORWARDER_LANES; i++)
		while ((forward = lane_next(route, &route->lanes[i]))) {
			forward->op.done = op_done;
			forward->op.user = forward;
			forwards[count++] = forward;
			if (count == SUBMIT_MAX) {
				submit(route, forwards, count);
				count = 0;
			}
		}
	submit(route, forwards, count);
}

/* Ends what waits and flies. */
static void route_free(struct forwarder *forwarder, struct forward_route *route)
{
	struct forward *forward;

	for (unsigned int i = 0; i < FORWARDER_LANES; i++)
		while ((forward = TAILQ_FIRST(&route->lanes[i].waiting))) {
			TAILQ_REMOVE(&route->lanes[i].waiting, forward, entry);
			forward_end(forward, KVD_ERR_CANCELED, "");
		}
	/* The library uses no operation's memory any more. */
	kvd_close(route->handle);
	while ((forward = TAILQ_FIRST(&route->flying))) {
		TAILQ_REMOVE(&route->flying, forward, entry);
		forward_end(forward, KVD_ERR_UNKNOWN, "");
	}
	LIST_REMOVE(route, entry);
	forwarder->route_count--;
	free(route);
}

static void idle_close(struct forwarder *forwarder)
{
	struct forward_route *route, *next;
	uint64_t now_ns = clock_ns();

	for (route = LIST_FIRST(&forwarder->routes); route; route = next) {
		next = LIST_NEXT(route, entry);
		if (!route->active && now_ns - route->used_ns > IDLE_NS)
			route_free(forwarder, route);
	}
}

/* Sleeps until there is something to do. */
static void wait_for_work(struct forwarder *forwarder)
{
	struct pollfd *fds = calloc(forwarder->route_count + 1, sizeof(*fds));
	struct pollfd own = { .fd = forwarder->event_fd, .events = POLLIN };
	struct forward_route *route;
	bool ready = false;
	nfds_t count = 0;

	if (fds)
		fds[count++] = own;
	LIST_FOREACH(route, &forwarder->routes, entry) {
		if (!route->handle)
			continue;
		ready |= kvd_arm(route->handle) == KVD_ERR_BUSY;
		if (fds)
			fds[count++] = (struct pollfd){ .fd = route->fd, .events = POLLIN };
	}
	if (!ready && fds)
		poll(fds, count, forwarder->route_count ? IDLE_LOOK_MS : -1);
	else if (!ready)
		poll(&own, 1, 1);
	free(fds);
}

static void *forwarder_run(void *arg)
{
	struct forwarder *forwarder = arg;
	struct forward_route *route;

	rcu_register_thread();
	rcu_thread_offline();
	while (sent_take(forwarder)) {
		LIST_FOREACH(route, &forwarder->routes, entry) {
			route_send(forwarder, route);
			if (route->handle)
				(void)kvd_poll(route->handle, NULL, 0);
			/* What has ended made place for others. */
			route_send(forwarder, route);
		}
		idle_close(forwarder);
		wait_for_work(forwarder);
	}
	while ((route = LIST_FIRST(&forwarder->routes)))
		route_free(forwarder, route);
	rcu_unregister_thread();
	return NULL;
}

struct forwarder *forwarder_make(const struct fleet_identity *identity)
{
	struct forwarder *forwarder = calloc(1, sizeof(*forwarder));
	int err = -ENOMEM;

	if (!forwarder)
		goto fail;
	forwarder->identity = forwarder->flusher.identity = *identity;
	TAILQ_INIT(&forwarder->sent);
	LIST_INIT(&forwarder->routes);
	forwarder->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = forwarder->event_fd < 0 ? -errno : 0;
	if (err)
		goto fail_free;
	err = flusher_init(&forwarder->flusher);
	if (err)
		goto fail_close;
	err = -pthread_mutex_init(&forwarder->lock, NULL);
	if (!err)
		return forwarder;
	flusher_release(&forwarder->flusher);
fail_close:
	close(forwarder->event_fd);
fail_free:
	free(forwarder);
fail:
	log_error("memcached: can't make the thread that asks the fleet: %s%s", strerror(-err),
		  err == -EMFILE ? ": " ADVICE_OPEN_FILES : "");
	return NULL;
}

int forwarder_start(struct forwarder *forwarder)
{
	int err = flusher_start(&forwarder->flusher);

	if (!err)
		err = fleet_thread_start(&forwarder->thread, "forwarder", forwarder_run, forwarder);
	forwarder->started = !err;
	return err;
}

/* What was sent to a thread that was not started, or has stopped. */
static void sent_cancel(struct forwarder *forwarder)
{
	struct forward *forward;

	while ((forward = TAILQ_FIRST(&forwarder->sent))) {
		TAILQ_REMOVE(&forwarder->sent, forward, entry);
		forward->op.status = KVD_ERR_CANCELED;
		send_back(forward);
	}
}

void forwarder_stop(struct forwarder *forwarder)
{
	if (!forwarder)
		return;
	pthread_mutex_lock(&forwarder->lock);
	forwarder->stops = true;
	pthread_mutex_unlock(&forwarder->lock);
	event_set(forwarder);
	if (forwarder->started)
		pthread_join(forwarder->thread, NULL);
	forwarder->started = false;
	sent_cancel(forwarder);
	flusher_stop(&forwarder->flusher);
}

void forwarder_free(struct forwarder *forwarder)
{
	if (!forwarder)
		return;
	pthread_mutex_destroy(&forwarder->lock);
	flusher_release(&forwarder->flusher);
	close(forwarder->event_fd);
	free(forwarder);
}
