/* SPDX-License-Identifier: MIT */
/*
 * Connection management: channels, ids and their events.
 *
 * A channel's lock guards all of the channel and its ids, also their queue pair pointers. Nothing
 * waits while holding it: sockets are non-blocking, and every step that waits for a peer has a
 * deadline. An event is a bit in its id, so delivering one needs no memory, and an id gets each
 * event once.
 */
#include "common/rdma/softnic/cm.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/rdma/softnic/completion_channel.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "common/rdma/softnic/timer.h"
#include "common/util/heap.h"
#include "common/util/log.h"

#define CM_SERVE_MAX 64 /* sockets that one cm_get_event() serves */

static int cm_channel_open_timer(struct sn_cm_channel *channel)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &channel->timer_fd };

	channel->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (channel->timer_fd < 0)
		return -errno;
	return epoll_ctl(channel->cm.fd, EPOLL_CTL_ADD, channel->timer_fd, &event) ? -errno : 0;
}

static int cm_channel_open_fds(struct sn_cm_channel *channel)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &channel->kick_fd };

	if (channel->pair)
		return 0;
	channel->cm.fd = epoll_create1(EPOLL_CLOEXEC);
	channel->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (channel->cm.fd < 0 || channel->kick_fd < 0)
		return -errno;
	if (epoll_ctl(channel->cm.fd, EPOLL_CTL_ADD, channel->kick_fd, &event))
		return -errno;
	return cm_channel_open_timer(channel);
}

static void cm_channel_free(struct sn_cm_channel *channel)
{
	if (channel->timer_fd >= 0)
		close(channel->timer_fd);
	if (channel->kick_fd >= 0)
		close(channel->kick_fd);
	if (channel->pair)
		sn_pair_kick_cm(channel->pair, false);
	else if (channel->cm.fd >= 0)
		close(channel->cm.fd);
	pthread_mutex_destroy(&channel->lock);
	heap_free(channel);
}

int sn_cm_channel_create(struct sn_context *ctx, struct sn_channel *pair, struct cm_channel **out)
{
	struct sn_cm_channel *channel;
	int ret;

	ret = fault_check(FAULT_create_cm_channel, ctx);
	if (ret)
		return ret;
	ret = sn_object_add(ctx, SN_OBJECT_CM_CHANNEL);
	if (ret)
		return ret;
	channel = heap_calloc(1, sizeof(*channel));
	if (!channel) {
		sn_object_remove(ctx, SN_OBJECT_CM_CHANNEL);
		return -ENOMEM;
	}
	channel->cm = (struct cm_channel){ .dev = &ctx->dev, .fd = pair ? pair->verbs.fd : -1 };
	channel->pair = pair;
	channel->kick_fd = channel->timer_fd = -1;
	channel->ctx = ctx;
	TAILQ_INIT(&channel->ids);
	TAILQ_INIT(&channel->ready);
	TAILQ_INIT(&channel->half_open);
	sn_timers_init(&channel->timers);
	pthread_mutex_init(&channel->lock, NULL);
	ret = cm_channel_open_fds(channel);
	if (ret) {
		log_error("softnic: can't create a channel for connection events: %s; if the limit "
			  "of open files is reached, raise it (ulimit -n)",
			  strerrordesc_np(-ret));
		cm_channel_free(channel);
		sn_object_remove(ctx, SN_OBJECT_CM_CHANNEL);
		return ret;
	}
	pthread_mutex_lock(&ctx->lock);
	TAILQ_INSERT_TAIL(&ctx->cm_channels, channel, in_context);
	pthread_mutex_unlock(&ctx->lock);
	*out = &channel->cm;
	return 0;
}

int sn_create_cm_channel(struct device *dev, struct cm_channel **out)
{
	return sn_cm_channel_create(dev_to_sn_context(dev), NULL, out);
}

void sn_destroy_cm_channel(struct cm_channel *cm)
{
	struct sn_cm_channel *channel = cm ? to_sn_cm_channel(cm) : NULL;
	struct sn_context *ctx;
	struct sn_id *id, *next;

	if (!channel)
		return;
	ctx = channel->ctx;
	pthread_mutex_lock(&channel->lock);
	for (id = TAILQ_FIRST(&channel->ids); id; id = next) {
		next = TAILQ_NEXT(id, in_channel);
		if (!id->reported)
			do_sn_id_free(id);
		else
			log_error(
				"softnic: a channel for connection events was destroyed before its "
				"connections: their memory is leaked until this process ends");
	}
	pthread_mutex_unlock(&channel->lock);
	pthread_mutex_lock(&ctx->lock);
	TAILQ_REMOVE(&ctx->cm_channels, channel, in_context);
	pthread_mutex_unlock(&ctx->lock);
	sn_object_remove(ctx, SN_OBJECT_CM_CHANNEL);
	cm_channel_free(channel);
}

void sn_cm_channel_kick(struct sn_cm_channel *channel)
{
	static const uint64_t one = 1;

	if (channel->pair)
		sn_pair_kick_cm(channel->pair, true);
	else
		(void)!write(channel->kick_fd, &one, sizeof(one));
}

/* After all events were taken. */
static void cm_channel_unkick(struct sn_cm_channel *channel)
{
	uint64_t count;

	if (channel->pair)
		sn_pair_kick_cm(channel->pair, false);
	else
		(void)!read(channel->kick_fd, &count, sizeof(count));
}

struct sn_id *do_sn_id_create(struct sn_cm_channel *channel, enum sn_id_state state)
{
	struct sn_id *id;

	if (sn_object_add(channel->ctx, SN_OBJECT_ID))
		return NULL;
	id = heap_calloc(1, sizeof(*id));
	if (!id) {
		sn_object_remove(channel->ctx, SN_OBJECT_ID);
		return NULL;
	}
	id->cm.dev = &channel->ctx->dev;
	id->cm.channel = &channel->cm;
	id->ctx = channel->ctx;
	id->state = state;
	id->sock = -1;
	id->deadline.owner = id->retry.owner = id;
	id->reported = state != SN_ID_HALF_OPEN;
	if (state == SN_ID_HALF_OPEN) {
		TAILQ_INSERT_TAIL(&channel->half_open, id, in_half_open);
		channel->half_open_count++;
		channel->unreported++;
	}
	TAILQ_INSERT_TAIL(&channel->ids, id, in_channel);
	return id;
}

void do_sn_id_opened(struct sn_id *id, enum sn_id_state state)
{
	struct sn_cm_channel *channel = sn_id_channel(id);

	TAILQ_REMOVE(&channel->half_open, id, in_half_open);
	channel->half_open_count--;
	id->state = state;
}

void do_sn_id_free(struct sn_id *id)
{
	struct sn_cm_channel *channel = sn_id_channel(id);

	if (id->state == SN_ID_HALF_OPEN)
		do_sn_id_opened(id, SN_ID_DONE);
	sn_timer_cancel(&channel->timers, &id->deadline);
	sn_timer_cancel(&channel->timers, &id->retry);
	if (!id->reported)
		channel->unreported--;
	if (id->cm.qp) {
		sn_qp_disconnect(to_sn_qp(id->cm.qp));
		sn_qp_destroy(to_sn_qp(id->cm.qp));
	}
	do_sn_id_unwatch(id);
	if (channel->pair)
		sn_pair_forget(channel->pair);
	if (id->sock >= 0 && id->state != SN_ID_LISTENING)
		link_drop_socket(id->sock, id->ctx->role == DEVICE_LISTEN);
	if (id->pending)
		TAILQ_REMOVE(&channel->ready, id, in_ready);
	TAILQ_REMOVE(&channel->ids, id, in_channel);
	sn_object_remove(channel->ctx, SN_OBJECT_ID);
	heap_free(id);
}

void do_sn_id_event(struct sn_id *id, enum cm_event_type type)
{
	struct sn_cm_channel *channel = sn_id_channel(id);

	if (!id->pending)
		TAILQ_INSERT_TAIL(&channel->ready, id, in_ready);
	id->pending |= 1u << type;
	sn_cm_channel_kick(channel);
}

/* Drops a pending event that is no longer true. */
static void do_id_withdraw(struct sn_id *id, enum cm_event_type type)
{
	if (id->pending == 1u << type)
		TAILQ_REMOVE(&sn_id_channel(id)->ready, id, in_ready);
	id->pending &= ~(1u << type);
}

/* Watches the id's socket for @events from now on. */
int do_sn_id_watch(struct sn_id *id, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = id };
	struct sn_channel *pair = sn_id_channel(id)->pair;
	int op = id->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
	int ret;

	if (pair)
		ret = sn_pair_watch_cm(pair, id->sock, events);
	else
		ret = epoll_ctl(id->cm.channel->fd, op, id->sock, &event) ? -errno : 0;
	if (ret)
		log_ratelimited(LOG_ERROR, 1, "softnic: can't watch a connection (epoll_ctl): %s",
				strerrordesc_np(-ret));
	else
		id->watched = true;
	return ret;
}

void do_sn_id_unwatch(struct sn_id *id)
{
	struct sn_channel *pair = sn_id_channel(id)->pair;

	if (id->watched && pair)
		sn_pair_unwatch_cm(pair);
	else if (id->watched)
		epoll_ctl(id->cm.channel->fd, EPOLL_CTL_DEL, id->sock, NULL);
	id->watched = false;
}

/* Whether there is a timer to set. A pair has one only while it has something to wait for. */
static bool do_channel_needs_timer(struct sn_cm_channel *channel, uint64_t first)
{
	if (!channel->pair)
		return true;
	if (!first && channel->timer_fd >= 0) {
		close(channel->timer_fd);
		channel->timer_fd = -1;
	}
	if (first && channel->timer_fd < 0 && cm_channel_open_timer(channel))
		log_ratelimited(LOG_ERROR, 1,
				"softnic: can't create a timer: %m; if the limit of open files is "
				"reached, raise it (ulimit -n)");
	return channel->timer_fd >= 0;
}

static void do_channel_set_timer(struct sn_cm_channel *channel)
{
	uint64_t first = sn_timers_first_ns(&channel->timers);
	struct itimerspec next = { .it_value = {
					   .tv_sec = (time_t)(first / 1000000000u),
					   .tv_nsec = (long)(first % 1000000000u),
				   } };

	channel->timer_ns = first;
	if (do_channel_needs_timer(channel, first))
		timerfd_settime(channel->timer_fd, TFD_TIMER_ABSTIME, &next, NULL);
}

void do_sn_id_set_timer(struct sn_id *id, struct sn_timer *timer, enum sn_delay delay)
{
	struct sn_cm_channel *channel = sn_id_channel(id);

	sn_timer_set(&channel->timers, timer, delay, sn_now_ns(CLOCK_MONOTONIC));
	if (!channel->timer_ns || timer->when_ns < channel->timer_ns)
		do_channel_set_timer(channel);
}

/* A cancelled timer does not change timer_fd, which then fires for nothing; a pair closes it. */
void do_sn_id_cancel_timer(struct sn_id *id, struct sn_timer *timer)
{
	struct sn_cm_channel *channel = sn_id_channel(id);

	sn_timer_cancel(&channel->timers, timer);
	if (channel->pair && !sn_timers_first_ns(&channel->timers))
		do_channel_set_timer(channel);
}

/* Stops listening to the peer. */
static void do_id_stop(struct sn_id *id)
{
	do_sn_id_unwatch(id);
	do_sn_id_cancel_timer(id, &id->deadline);
	do_sn_id_cancel_timer(id, &id->retry);
	id->state = SN_ID_DONE;
	if (id->sock >= 0)
		shutdown(id->sock, SHUT_RDWR);
}

void do_sn_id_end(struct sn_id *id, enum cm_event_type type, int status)
{
	if (id->state == SN_ID_DONE)
		return;
	if (id->cm.qp)
		sn_qp_lost(to_sn_qp(id->cm.qp));
	do_id_stop(id);
	id->status = status;
	do_sn_id_event(id, type);
}

/*
 * Drops the oldest half-open connections if there are too many, but none whose connect request has
 * arrived meanwhile.
 */
static void do_channel_bound(struct sn_cm_channel *channel)
{
	struct sn_id *id, *next = TAILQ_FIRST(&channel->half_open);

	while (next && channel->half_open_count > SN_HALF_OPEN_MAX) {
		id = next;
		next = TAILQ_NEXT(id, in_half_open);
		do_sn_handshake(id, EPOLLIN);
		if (id->state != SN_ID_HALF_OPEN)
			continue;
		log_ratelimited(LOG_WARN, 1,
				"softnic: more than %d peers connected without a connect request: "
				"disconnecting the oldest",
				SN_HALF_OPEN_MAX);
		do_sn_id_free(id);
	}
}

static void do_channel_serve_timer(struct sn_cm_channel *channel)
{
	uint64_t now = sn_now_ns(CLOCK_MONOTONIC);
	struct sn_timer *timer;
	uint64_t count;

	(void)!read(channel->timer_fd, &count, sizeof(count));
	while ((timer = sn_timers_take(&channel->timers, now)))
		do_sn_handshake_due(timer->owner);
	do_channel_bound(channel);
	do_channel_set_timer(channel);
}

static void do_channel_report_removal(struct sn_cm_channel *channel)
{
	struct sn_id *id;

	if (!atomic_load(&channel->ctx->dead) || channel->removed_reported)
		return;
	channel->removed_reported = true;
	TAILQ_FOREACH(id, &channel->ids, in_channel)
		if (id->reported)
			do_sn_id_event(id, CM_DEVICE_REMOVED);
}

/* The pair's epoll also reports other events: asks the one connection itself. */
static void do_channel_serve_pair(struct sn_cm_channel *channel)
{
	struct sn_id *id = TAILQ_FIRST(&channel->ids);
	struct pollfd fd = { .events = (short)channel->pair->pair.cm_events };

	if (id && id->watched) {
		fd.fd = id->sock;
		if (poll(&fd, 1, 0) > 0)
			do_sn_handshake(id, (uint32_t)fd.revents);
	}
	if (channel->timer_fd >= 0)
		do_channel_serve_timer(channel);
}

static void do_channel_serve_epoll(struct sn_cm_channel *channel)
{
	struct epoll_event events[CM_SERVE_MAX];
	int count = epoll_wait(channel->cm.fd, events, CM_SERVE_MAX, 0);
	bool timer = false;
	int i;

	/* The timer last: it frees ids that other events of this batch may point to. */
	for (i = 0; i < count; i++) {
		if (events[i].data.ptr == &channel->timer_fd)
			timer = true;
		else if (events[i].data.ptr != &channel->kick_fd)
			do_sn_handshake(events[i].data.ptr, events[i].events);
	}
	if (timer)
		do_channel_serve_timer(channel);
}

static void do_channel_serve(struct sn_cm_channel *channel)
{
	do_channel_report_removal(channel);
	if (channel->pair)
		do_channel_serve_pair(channel);
	else
		do_channel_serve_epoll(channel);
}

static bool do_channel_take(struct sn_cm_channel *channel, struct cm_event *event)
{
	struct sn_id *id = TAILQ_FIRST(&channel->ready);

	if (id) {
		*event = (struct cm_event){
			.type = (enum cm_event_type)__builtin_ctz(id->pending),
			.id = &id->cm,
		};
		if (!id->reported)
			channel->unreported--;
		id->reported = true;
		id->pending &= id->pending - 1;
		if (!id->pending)
			TAILQ_REMOVE(&channel->ready, id, in_ready);
		if (event->type == CM_UNREACHABLE)
			event->status = id->status;
		if (event->type <= CM_REJECTED) {
			event->private_len = id->message.private_len;
			memcpy(event->private_data, id->message.private_data,
			       id->message.private_len);
		}
		if (event->type <= CM_ESTABLISHED) {
			event->responder_resources = id->responder_resources;
			event->initiator_depth = id->initiator_depth;
		}
	}
	if (TAILQ_EMPTY(&channel->ready))
		cm_channel_unkick(channel);
	return id;
}

int sn_cm_get_event(struct cm_channel *cm, struct cm_event *event)
{
	struct sn_cm_channel *channel = to_sn_cm_channel(cm);
	int ret = fault_check(FAULT_cm_get_event, channel->ctx);

	if (ret)
		return ret;
	pthread_mutex_lock(&channel->lock);
	if (!do_channel_take(channel, event)) {
		do_channel_serve(channel);
		if (!do_channel_take(channel, event))
			ret = -EAGAIN;
	}
	pthread_mutex_unlock(&channel->lock);
	return ret;
}

int sn_listen(struct cm_channel *cm, int backlog, struct cm_id **out)
{
	struct sn_cm_channel *channel = to_sn_cm_channel(cm);
	struct sn_context *ctx = channel->ctx;
	struct sn_id *id;
	int ret = fault_check(FAULT_listen, ctx);

	if (ret)
		return ret;
	if (ctx->listen_fd < 0 || channel->pair)
		return -EINVAL;
	if (listen(ctx->listen_fd, backlog > 0 ? backlog : SOMAXCONN))
		return -errno;
	pthread_mutex_lock(&channel->lock);
	id = do_sn_id_create(channel, SN_ID_LISTENING);
	if (!id) {
		ret = -ENOMEM;
		goto unlock;
	}
	id->sock = ctx->listen_fd;
	ret = do_sn_id_watch(id, EPOLLIN);
	if (ret)
		do_sn_id_free(id);
	else
		*out = &id->cm;
unlock:
	pthread_mutex_unlock(&channel->lock);
	return ret;
}

int sn_create_id(struct cm_channel *cm, struct cm_id **out)
{
	struct sn_cm_channel *channel = to_sn_cm_channel(cm);
	struct sn_id *id = NULL;
	int ret = fault_check(FAULT_create_id, channel->ctx);

	if (ret)
		return ret;
	pthread_mutex_lock(&channel->lock);
	if (channel->pair && !TAILQ_EMPTY(&channel->ids))
		ret = -EINVAL;
	else
		id = do_sn_id_create(channel, SN_ID_NEW);
	pthread_mutex_unlock(&channel->lock);
	if (!id)
		return ret ? ret : -ENOMEM;
	*out = &id->cm;
	return 0;
}

/* Ends every connection of a closed listener that was not reported by an event or not accepted. */
static void do_listener_drain(struct sn_id *listener)
{
	struct sn_cm_channel *channel = sn_id_channel(listener);
	struct sn_id *id, *next;
	unsigned int count;
	int sock;

	for (id = TAILQ_FIRST(&channel->ids); id; id = next) {
		next = TAILQ_NEXT(id, in_channel);
		if (!id->reported)
			do_sn_id_free(id);
	}
	for (count = 0; count < SOMAXCONN; count++) {
		sock = accept4(listener->sock, NULL, NULL, SOCK_CLOEXEC);
		if (sock < 0)
			break;
		link_drop_socket(sock, true);
	}
}

void sn_destroy_id(struct cm_id *cm)
{
	static const struct link_message reject = {
		.magic = LINK_MAGIC,
		.version = LINK_VERSION,
		.type = LINK_MESSAGE_REJECT,
	};
	struct sn_id *id = cm ? to_sn_id(cm) : NULL;
	struct sn_cm_channel *channel;

	if (!id)
		return;
	channel = sn_id_channel(id);
	pthread_mutex_lock(&channel->lock);
	if (id->state == SN_ID_REQUESTED)
		link_send(id->sock, &reject, -1);
	if (id->state == SN_ID_LISTENING)
		do_listener_drain(id);
	do_sn_id_free(id);
	pthread_mutex_unlock(&channel->lock);
}

int sn_id_set_qp(struct cm_id *cm, struct sn_qp *qp)
{
	struct sn_cm_channel *channel = sn_id_channel(to_sn_id(cm));
	int ret = 0;

	pthread_mutex_lock(&channel->lock);
	if (cm->qp)
		ret = -EINVAL;
	else
		cm->qp = &qp->verbs;
	pthread_mutex_unlock(&channel->lock);
	return ret;
}

void sn_destroy_qp(struct cm_id *cm)
{
	struct sn_cm_channel *channel;

	if (!cm)
		return;
	channel = sn_id_channel(to_sn_id(cm));
	pthread_mutex_lock(&channel->lock);
	if (cm->qp)
		sn_qp_destroy(to_sn_qp(cm->qp));
	cm->qp = NULL;
	pthread_mutex_unlock(&channel->lock);
}

int sn_query_peer(struct cm_id *cm, struct cm_peer *peer)
{
	struct sn_id *id = to_sn_id(cm);
	int ret = fault_check(FAULT_query_peer, id->ctx);

	return ret ? ret : cm_peer_local(peer, id->sock);
}

int sn_disconnect(struct cm_id *cm)
{
	struct sn_id *id = to_sn_id(cm);
	struct sn_cm_channel *channel = sn_id_channel(id);
	int ret = fault_check(FAULT_disconnect, id->ctx);

	if (ret)
		return ret;
	pthread_mutex_lock(&channel->lock);
	if (cm->qp)
		sn_qp_disconnect(to_sn_qp(cm->qp));
	switch (id->state) {
	case SN_ID_ESTABLISHED:
	case SN_ID_ACCEPTED:
	case SN_ID_RETRYING:
	case SN_ID_WAITING:
		do_id_stop(id);
		do_id_withdraw(id, CM_ESTABLISHED);
		break;
	default:
		break;
	}
	pthread_mutex_unlock(&channel->lock);
	return 0;
}
