/* SPDX-License-Identifier: MIT */
/*
 * Completion channels: how a thread sleeps until one of its CQs has work. A channel's fd is an
 * epoll of the sockets of all queue pairs whose CQs use it (a byte there is a wake-up, its end
 * means that the peer is gone), of an eventfd that is readable while there are notifications, and
 * of a timer for queue pairs that wait for a point in time rather than for their peer.
 * get_cq_event() serves what woke its caller and returns a notification or -EAGAIN; it never waits.
 *
 * sleep() waits for the epoll itself. So a sleep takes two system calls, epoll_wait() and the
 * recvmsg() that takes the wake-up off the socket, and waking takes one, sendmsg(): a notification
 * that the sleeper itself causes, when it serves what woke it, needs no kick.
 */
#include "common/rdma/softnic/completion_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"
#include "common/util/log.h"

static int channel_add_fd(int epoll_fd, int fd, uint32_t events, void *ptr)
{
	struct epoll_event event = { .events = events, .data.ptr = ptr };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int channel_open_timer(struct sn_channel *channel)
{
	channel->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (channel->timer_fd < 0)
		return -errno;
	return channel_add_fd(channel->verbs.fd, channel->timer_fd, EPOLLIN, &channel->timer_fd);
}

/* A pair's descriptors are opened when they are needed, and closed afterwards. */
static int channel_open_fds(struct sn_channel *channel)
{
	channel->verbs.fd = epoll_create1(EPOLL_CLOEXEC);
	if (channel->verbs.fd < 0)
		return -errno;
	if (channel->paired)
		return 0;
	channel->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (channel->kick_fd < 0)
		return -errno;
	if (channel_add_fd(channel->verbs.fd, channel->kick_fd, EPOLLIN, &channel->kick_fd))
		return -errno;
	return channel_open_timer(channel);
}

static void channel_free(struct sn_channel *channel)
{
	if (channel->timer_fd >= 0)
		close(channel->timer_fd);
	if (channel->kick_fd >= 0)
		close(channel->kick_fd);
	if (channel->verbs.fd >= 0)
		close(channel->verbs.fd);
	pthread_mutex_destroy(&channel->event_lock);
	pthread_mutex_destroy(&channel->lock);
	heap_free(channel);
}

int sn_channel_create(struct sn_context *ctx, bool paired, struct sn_channel **out)
{
	struct sn_channel *channel;
	int ret;

	ret = fault_check(FAULT_create_comp_channel, ctx);
	if (ret)
		return ret;
	ret = sn_object_add(ctx, SN_OBJECT_COMP_CHANNEL);
	if (ret)
		return ret;
	channel = heap_calloc(1, sizeof(*channel));
	if (!channel) {
		sn_object_remove(ctx, SN_OBJECT_COMP_CHANNEL);
		return -ENOMEM;
	}
	channel->ctx = ctx;
	channel->verbs.context = &ctx->verbs;
	channel->paired = paired;
	channel->also_fd = channel->kick_fd = channel->timer_fd = -1;
	sn_pair_init(&channel->pair);
	TAILQ_INIT(&channel->ready);
	TAILQ_INIT(&channel->cqs);
	pthread_mutex_init(&channel->lock, NULL);
	pthread_mutex_init(&channel->event_lock, NULL);
	ret = channel_open_fds(channel);
	if (ret) {
		log_error("softnic: can't create a completion channel: %s; if the limit of open "
			  "files is reached, raise it (ulimit -n)",
			  strerrordesc_np(-ret));
		channel_free(channel);
		sn_object_remove(ctx, SN_OBJECT_COMP_CHANNEL);
		return ret;
	}
	pthread_mutex_lock(&ctx->lock);
	TAILQ_INSERT_TAIL(&ctx->channels, channel, in_context);
	pthread_mutex_unlock(&ctx->lock);
	*out = channel;
	return 0;
}

int sn_create_comp_channel(struct device *dev, struct ibv_comp_channel **out)
{
	struct sn_channel *channel;
	int ret = sn_channel_create(dev_to_sn_context(dev), false, &channel);

	if (!ret)
		*out = &channel->verbs;
	return ret;
}

void sn_destroy_comp_channel(struct ibv_comp_channel *verbs)
{
	struct sn_channel *channel = verbs ? sn_container(verbs, struct sn_channel, verbs) : NULL;

	if (!channel)
		return;
	pthread_mutex_lock(&channel->ctx->lock);
	TAILQ_REMOVE(&channel->ctx->channels, channel, in_context);
	pthread_mutex_unlock(&channel->ctx->lock);
	sn_object_remove(channel->ctx, SN_OBJECT_COMP_CHANNEL);
	channel_free(channel);
}

void do_sn_channel_kick(struct sn_channel *channel)
{
	bool wanted = !TAILQ_EMPTY(&channel->ready) || channel->pair.cm_kicked;
	uint64_t count = 1;

	if (wanted == channel->kicked)
		return;
	channel->kicked = wanted;
	if (channel->paired) {
		do_sn_pair_update(channel);
		return;
	}
	/* The eventfd's count is 0 or 1, so neither can fail. */
	if (wanted)
		(void)!write(channel->kick_fd, &count, sizeof(count));
	else
		(void)!read(channel->kick_fd, &count, sizeof(count));
}

void sn_channel_add(struct sn_channel *channel, struct sn_cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	TAILQ_INSERT_TAIL(&channel->cqs, cq, in_channel);
	channel->verbs.refcnt++;
	pthread_mutex_unlock(&channel->lock);
}

void sn_channel_remove(struct sn_channel *channel, struct sn_cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	TAILQ_REMOVE(&channel->cqs, cq, in_channel);
	channel->verbs.refcnt--;
	pthread_mutex_lock(&channel->event_lock);
	if (cq->events)
		TAILQ_REMOVE(&channel->ready, cq, in_ready);
	cq->events = 0;
	do_sn_channel_kick(channel);
	pthread_mutex_unlock(&channel->event_lock);
	pthread_mutex_unlock(&channel->lock);
}

void sn_channel_event(struct sn_channel *channel, struct sn_cq *cq)
{
	pthread_mutex_lock(&channel->event_lock);
	if (!cq->events++)
		TAILQ_INSERT_TAIL(&channel->ready, cq, in_ready);
	if (!channel->taking)
		do_sn_channel_kick(channel);
	pthread_mutex_unlock(&channel->event_lock);
}

void sn_channel_timer(struct sn_channel *channel, uint64_t delay_ns)
{
	struct itimerspec now, next = { .it_value = { .tv_sec = (time_t)(delay_ns / 1000000000u),
						      .tv_nsec = (long)(delay_ns % 1000000000u) } };

	pthread_mutex_lock(&channel->event_lock);
	if (channel->timer_fd < 0 && channel_open_timer(channel))
		log_ratelimited(LOG_ERROR, 1,
				"softnic: can't create a timer: %m; a message that waits for a "
				"receive may wait longer");
	else if (timerfd_gettime(channel->timer_fd, &now) ||
		 (!now.it_value.tv_sec && !now.it_value.tv_nsec) ||
		 (uint64_t)now.it_value.tv_sec * 1000000000u + (uint64_t)now.it_value.tv_nsec >
			 delay_ns)
		timerfd_settime(channel->timer_fd, 0, &next, NULL);
	pthread_mutex_unlock(&channel->event_lock);
}

int sn_channel_watch(struct sn_channel *channel, struct sn_qp *qp, int sock)
{
	if (channel->paired)
		return sn_pair_watch_qp(channel, qp);
	return channel_add_fd(channel->verbs.fd, sock, EPOLLIN | EPOLLRDHUP, qp);
}

void sn_channel_unwatch(struct sn_channel *channel, int sock)
{
	/* The lock: get_cq_event() may be serving the queue pair that is about to be destroyed. */
	pthread_mutex_lock(&channel->lock);
	if (channel->paired)
		do_sn_pair_unwatch_qp(channel, true);
	else
		epoll_ctl(channel->verbs.fd, EPOLL_CTL_DEL, sock, NULL);
	channel->unwatched++;
	pthread_mutex_unlock(&channel->lock);
}

/* The calling thread serves and then calls one of the next two. */
static void channel_take_begin(struct sn_channel *channel)
{
	pthread_mutex_lock(&channel->event_lock);
	channel->taking = true;
	pthread_mutex_unlock(&channel->event_lock);
}

static bool channel_take(struct sn_channel *channel, struct ibv_cq **out)
{
	struct sn_cq *cq;

	pthread_mutex_lock(&channel->event_lock);
	cq = TAILQ_FIRST(&channel->ready);
	if (cq && !--cq->events)
		TAILQ_REMOVE(&channel->ready, cq, in_ready);
	channel->taking = false;
	do_sn_channel_kick(channel);
	pthread_mutex_unlock(&channel->event_lock);
	if (!cq)
		return false;
	*out = &cq->verbs;
	return true;
}

/* Whether there were any. */
static bool channel_take_all(struct sn_channel *channel)
{
	struct sn_cq *cq;
	bool any = false;

	pthread_mutex_lock(&channel->event_lock);
	while ((cq = TAILQ_FIRST(&channel->ready))) {
		TAILQ_REMOVE(&channel->ready, cq, in_ready);
		cq->events = 0;
		any = true;
	}
	channel->taking = false;
	do_sn_channel_kick(channel);
	pthread_mutex_unlock(&channel->event_lock);
	return any;
}

static void do_channel_serve_timed(struct sn_channel *channel)
{
	struct sn_cq *cq;
	uint64_t count;

	pthread_mutex_lock(&channel->event_lock);
	(void)!read(channel->timer_fd, &count, sizeof(count));
	if (channel->paired) {
		close(channel->timer_fd);
		channel->timer_fd = -1;
	}
	pthread_mutex_unlock(&channel->event_lock);
	TAILQ_FOREACH(cq, &channel->cqs, in_channel)
		sn_cq_serve_waiting(cq);
}

void do_sn_channel_serve_qp(struct sn_channel *channel, struct sn_qp *qp, uint32_t events)
{
	struct sn_cq *cq = qp->recv_cq->channel == channel ? qp->recv_cq : qp->send_cq;

	sn_cq_serve(cq, qp);
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		sn_qp_lost(qp);
	/* In error it has nothing to be woken for; its socket may stay readable. */
	if (!sn_qp_in_error(qp))
		return;
	if (channel->paired)
		do_sn_pair_unwatch_qp(channel, false);
	else
		epoll_ctl(channel->verbs.fd, EPOLL_CTL_DEL, qp->sock, NULL);
}

/* Whether also_fd is readable, or a socket that a pair's CM channel watches. */
static bool do_channel_serve_events(struct sn_channel *channel, const struct epoll_event *events,
				    int count)
{
	bool also = false;
	int i;

	for (i = 0; i < count; i++) {
		void *ptr = events[i].data.ptr;

		if (ptr == &channel->timer_fd)
			do_channel_serve_timed(channel);
		else if (ptr == &channel->pair.sock ||
			 (channel->paired && ptr == &channel->kick_fd))
			also |= do_sn_pair_serve(channel, events[i].events);
		else if (ptr == &channel->also_fd || channel->paired)
			also = true; /* of a pair: the CM channel's timer */
		else if (ptr != &channel->kick_fd)
			do_sn_channel_serve_qp(channel, ptr, events[i].events);
	}
	return also;
}

static void do_channel_serve(struct sn_channel *channel)
{
	struct epoll_event events[SN_WAKE_MAX];
	int count = epoll_wait(channel->verbs.fd, events, SN_WAKE_MAX, 0);

	do_channel_serve_events(channel, events, count);
}

void sn_channel_serve(struct sn_channel *channel)
{
	if (pthread_mutex_trylock(&channel->lock))
		return;
	do_channel_serve(channel);
	pthread_mutex_unlock(&channel->lock);
}

static int do_channel_set_also(struct sn_channel *channel, int fd)
{
	int ret;

	/* A pair's CM channel is in the epoll. */
	if (channel->paired && fd == channel->verbs.fd)
		fd = -1;
	if (fd == channel->also_fd)
		return 0;
	if (channel->also_fd >= 0)
		epoll_ctl(channel->verbs.fd, EPOLL_CTL_DEL, channel->also_fd, NULL);
	channel->also_fd = -1;
	if (fd < 0)
		return 0;
	ret = channel_add_fd(channel->verbs.fd, fd, EPOLLIN, &channel->also_fd);
	if (!ret)
		channel->also_fd = fd;
	return ret;
}

/*
 * The epoll is waited for without the lock, so that queue pairs can be destroyed meanwhile. If one
 * was, the events may point to it and are fetched anew, which loses none: they are level-triggered.
 */
static int do_channel_wait(struct sn_channel *channel, struct epoll_event *events, int timeout_ms)
{
	uint32_t unwatched = channel->unwatched;
	int count;

	pthread_mutex_unlock(&channel->lock);
	count = epoll_wait(channel->verbs.fd, events, SN_WAKE_MAX, timeout_ms);
	pthread_mutex_lock(&channel->lock);
	if (channel->unwatched != unwatched)
		count = epoll_wait(channel->verbs.fd, events, SN_WAKE_MAX, 0);
	return count;
}

int sn_sleep(struct ibv_comp_channel *verbs, int fd, int timeout_ms)
{
	struct sn_channel *channel = sn_container(verbs, struct sn_channel, verbs);
	struct epoll_event events[SN_WAKE_MAX];
	int ret = fault_check(FAULT_get_cq_event, channel->ctx);
	int count;

	if (ret)
		return ret;
	pthread_mutex_lock(&channel->lock);
	ret = do_channel_set_also(channel, fd);
	if (!ret && !channel_take_all(channel)) {
		count = do_channel_wait(channel, events, timeout_ms);
		channel_take_begin(channel);
		ret = do_channel_serve_events(channel, events, count);
		channel_take_all(channel);
	}
	pthread_mutex_unlock(&channel->lock);
	return ret;
}

int sn_get_cq_event(struct ibv_comp_channel *verbs, struct ibv_cq **cq)
{
	struct sn_channel *channel = sn_container(verbs, struct sn_channel, verbs);
	int ret = fault_check(FAULT_get_cq_event, channel->ctx);

	if (ret)
		return ret;
	pthread_mutex_lock(&channel->lock);
	if (!channel_take(channel, cq)) {
		channel_take_begin(channel);
		do_channel_serve(channel);
		if (!channel_take(channel, cq))
			ret = -EAGAIN;
	}
	pthread_mutex_unlock(&channel->lock);
	return ret;
}
