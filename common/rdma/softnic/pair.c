/* SPDX-License-Identifier: MIT */
/*
 * Pairs: a completion channel and a CM channel of one connection, with one descriptor for both. A
 * client has one for each of its handles, and may have thousands of these.
 *
 * The descriptor is an epoll that usually has the connection's socket in it and nothing else. Both
 * channels watch the socket; the epoll's entry has the sum of what they want. A *kick*, which makes
 * the epoll readable although the peer sent nothing, needs no other descriptor: while there is
 * something to take, the socket is watched for being writable too, and it is writable or has hung
 * up. (The exception is a peer that leaves more wake-ups in it than it may, which can only delay
 * that peer's connection.) Without a socket there is an eventfd for as long as the kick lasts. A
 * timer, of a handshake or of a message that finds no receive, exists while it is set.
 *
 * The CM channel asks its one socket what happened, not the epoll, which also reports the queue
 * pair's events.
 */
#include "common/rdma/softnic/completion_channel.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/rdma/softnic/cm.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/util/log.h"

#define GONE_EVENTS (EPOLLRDHUP | EPOLLHUP | EPOLLERR)

void sn_pair_init(struct sn_pair *pair)
{
	pair->sock = -1;
}

/* An eventfd that is readable as long as it exists. */
static int do_pair_kick_fd(struct sn_channel *channel, bool wanted)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &channel->kick_fd };

	if (wanted == (channel->kick_fd >= 0))
		return 0;
	if (!wanted) {
		close(channel->kick_fd);
		channel->kick_fd = -1;
		return 0;
	}
	channel->kick_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	if (channel->kick_fd < 0 ||
	    epoll_ctl(channel->verbs.fd, EPOLL_CTL_ADD, channel->kick_fd, &event))
		return -errno;
	return 0;
}

static int do_pair_watch(struct sn_channel *channel, uint32_t events)
{
	struct sn_pair *pair = &channel->pair;
	struct epoll_event event = { .events = events, .data.ptr = &pair->sock };
	int op = !events ? EPOLL_CTL_DEL : pair->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (events == pair->watched)
		return 0;
	if (epoll_ctl(channel->verbs.fd, op, pair->sock, &event))
		return -errno;
	pair->watched = events;
	return 0;
}

int do_sn_pair_update(struct sn_channel *channel)
{
	struct sn_pair *pair = &channel->pair;
	uint32_t events = pair->cm_events | pair->qp_events;
	int ret = 0;

	if (channel->kicked)
		events |= EPOLLOUT;
	if (pair->sock >= 0)
		ret = do_pair_watch(channel, events);
	if (!ret)
		ret = do_pair_kick_fd(channel, channel->kicked && pair->sock < 0);
	if (ret)
		log_ratelimited(LOG_ERROR, 1,
				"softnic: can't watch a connection: %s; if the limit of open files "
				"is reached, raise it (ulimit -n)",
				strerrordesc_np(-ret));
	return ret;
}

int sn_pair_watch_cm(struct sn_channel *channel, int sock, uint32_t events)
{
	int ret;

	pthread_mutex_lock(&channel->event_lock);
	channel->pair.sock = sock;
	channel->pair.cm_events = events;
	ret = do_sn_pair_update(channel);
	pthread_mutex_unlock(&channel->event_lock);
	return ret;
}

void sn_pair_unwatch_cm(struct sn_channel *channel)
{
	pthread_mutex_lock(&channel->event_lock);
	channel->pair.cm_events = 0;
	do_sn_pair_update(channel);
	pthread_mutex_unlock(&channel->event_lock);
}

void sn_pair_forget(struct sn_channel *channel)
{
	pthread_mutex_lock(&channel->event_lock);
	channel->pair.cm_events = channel->pair.qp_events = 0;
	if (channel->pair.sock >= 0)
		do_pair_watch(channel, 0);
	channel->pair.sock = -1;
	do_sn_pair_update(channel);
	pthread_mutex_unlock(&channel->event_lock);
}

int sn_pair_watch_qp(struct sn_channel *channel, struct sn_qp *qp)
{
	int ret;

	pthread_mutex_lock(&channel->lock);
	pthread_mutex_lock(&channel->event_lock);
	if (channel->pair.qp || channel->pair.sock != qp->sock) {
		ret = -EINVAL;
	} else {
		channel->pair.qp = qp;
		channel->pair.qp_events = EPOLLIN | EPOLLRDHUP;
		ret = do_sn_pair_update(channel);
	}
	pthread_mutex_unlock(&channel->event_lock);
	pthread_mutex_unlock(&channel->lock);
	return ret;
}

void do_sn_pair_unwatch_qp(struct sn_channel *channel, bool gone)
{
	pthread_mutex_lock(&channel->event_lock);
	channel->pair.qp_events = 0;
	do_sn_pair_update(channel);
	pthread_mutex_unlock(&channel->event_lock);
	if (gone)
		channel->pair.qp = NULL;
}

void sn_pair_kick_cm(struct sn_channel *channel, bool kicked)
{
	pthread_mutex_lock(&channel->event_lock);
	channel->pair.cm_kicked = kicked;
	do_sn_channel_kick(channel);
	pthread_mutex_unlock(&channel->event_lock);
}

bool do_sn_pair_serve(struct sn_channel *channel, uint32_t events)
{
	struct sn_qp *qp = channel->pair.qp;
	bool kicked;

	pthread_mutex_lock(&channel->event_lock);
	kicked = channel->pair.cm_kicked;
	pthread_mutex_unlock(&channel->event_lock);
	/* Writable alone is a kick. */
	if (qp && events & (EPOLLIN | GONE_EVENTS))
		do_sn_channel_serve_qp(channel, qp, events);
	return kicked || !qp || events & GONE_EVENTS;
}

int sn_create_channel_pair(struct device *dev, struct ibv_comp_channel **comp,
			   struct cm_channel **cm)
{
	struct sn_context *ctx = dev_to_sn_context(dev);
	struct sn_channel *channel;
	int ret = sn_channel_create(ctx, true, &channel);

	if (ret)
		return ret;
	ret = sn_cm_channel_create(ctx, channel, cm);
	if (ret)
		sn_destroy_comp_channel(&channel->verbs);
	else
		*comp = &channel->verbs;
	return ret;
}
