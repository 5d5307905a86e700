/* SPDX-License-Identifier: MIT */
/* The calls that make and end connections. */
#include "common/rdma/tcp/tcp.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/rdma/inet.h"
#include "common/util/heap.h"
#include "common/util/log.h"

static void channel_close(struct tcp_channel *oc)
{
	if (oc->channel.fd >= 0)
		close(oc->channel.fd);
	if (oc->timer_fd >= 0)
		close(oc->timer_fd);
	if (oc->spare_fd >= 0)
		close(oc->spare_fd);
	pthread_mutex_destroy(&oc->lock);
	heap_free(oc);
}

static int channel_open(struct tcp_channel *oc)
{
	struct epoll_event event = { .events = EPOLLIN };

	oc->channel.fd = epoll_create1(EPOLL_CLOEXEC);
	oc->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	oc->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (oc->channel.fd < 0 || oc->timer_fd < 0 || oc->spare_fd < 0 ||
	    epoll_ctl(oc->channel.fd, EPOLL_CTL_ADD, oc->timer_fd, &event))
		return -errno;
	return 0;
}

int tcp_create_cm_channel(struct device *dev, struct cm_channel **channel)
{
	struct tcp_channel *oc = heap_calloc(1, sizeof(*oc));
	int err;

	if (!oc)
		return -ENOMEM;
	oc->channel.dev = dev;
	pthread_mutex_init(&oc->lock, NULL);
	setups_init(&oc->setups);
	TAILQ_INIT(&oc->failures);
	err = channel_open(oc);
	if (err) {
		errno = -err;
		log_error("%s: can't create a channel for connection events: %m", dev->name);
		channel_close(oc);
		return err;
	}
	*channel = &oc->channel;
	return 0;
}

void tcp_destroy_cm_channel(struct cm_channel *channel)
{
	if (!channel)
		return;
	tcp_setups_drop(tcp_channel_of(channel));
	channel_close(tcp_channel_of(channel));
}

int tcp_id_alloc(struct cm_channel *channel, enum tcp_state state, struct tcp_id **oid)
{
	struct tcp_id *fresh = heap_calloc(1, sizeof(*fresh));

	if (!fresh)
		return -ENOMEM;
	fresh->id.dev = channel->dev;
	fresh->id.channel = channel;
	fresh->state = state;
	fresh->fd = -1;
	*oid = fresh;
	return 0;
}

void tcp_id_free(struct tcp_id *oid)
{
	verbs_qp_destroy(oid->id.dev, oid->id.qp);
	tcp_hang_up(oid);
	heap_free(oid);
}

/* Tells a peer that waits for an answer that it is rejected. */
static int reject_send(struct tcp_id *oid, const void *private_data, uint8_t private_len)
{
	struct tcp_message reject = { .kind = TCP_REJECT, .private_len = private_len };

	if (private_len)
		memcpy(reject.private_data, private_data, private_len);
	return tcp_send(oid, &reject);
}

void tcp_destroy_id(struct cm_id *id)
{
	struct tcp_channel *oc;
	struct tcp_id *oid = tcp_id_of(id);

	if (!id)
		return;
	oc = tcp_channel_of(id->channel);
	pthread_mutex_lock(&oc->lock);
	tcp_failure_forget(oid);
	if (oid->state == TCP_ASKED)
		(void)reject_send(oid, NULL, 0);
	tcp_id_free(oid);
	pthread_mutex_unlock(&oc->lock);
}

/* The socket that open() bound, or another one at the same address. */
static int listener_socket(struct tcp_device *od, int *fd)
{
	struct sockaddr_storage addr = od->addr;

	*fd = atomic_exchange(&od->bound_fd, -1);
	return *fd >= 0 ? 0 : inet_bind(&addr, fd);
}

static int listener_start(struct tcp_id *oid, int backlog)
{
	int err = listener_socket(tcp_device_of(oid->id.dev), &oid->fd);

	if (err) {
		oid->fd = -1;
		return err;
	}
	if (listen(oid->fd, backlog))
		return -errno;
	return tcp_watch(oid, EPOLLIN, EPOLL_CTL_ADD);
}

int tcp_listen(struct cm_channel *channel, int backlog, struct cm_id **id)
{
	struct tcp_id *oid;
	int err;

	if (tcp_device_of(channel->dev)->role != DEVICE_LISTEN)
		return -EINVAL;
	err = tcp_id_alloc(channel, TCP_LISTENING, &oid);
	if (err)
		return err;
	err = listener_start(oid, backlog);
	if (err) {
		tcp_id_free(oid);
		errno = -err;
		log_error("%s: can't listen at %s: %m", channel->dev->name, channel->dev->address);
		return err;
	}
	*id = &oid->id;
	return 0;
}

int tcp_create_id(struct cm_channel *channel, struct cm_id **id)
{
	struct tcp_id *oid;
	int err;

	if (tcp_device_of(channel->dev)->role != DEVICE_CONNECT)
		return -EINVAL;
	err = tcp_id_alloc(channel, TCP_IDLE, &oid);
	if (!err)
		*id = &oid->id;
	return err;
}

/* Fills in the message for the peer, with the READs that the caller grants at most. */
static void param_take(struct tcp_id *oid, const struct cm_param *param, uint8_t responder_max,
		       uint8_t initiator_max)
{
	oid->param = verbs_param_copy(verbs_port_of(oid->id.dev), param);
	oid->mine.responder_resources = verbs_reads_limit(param->responder_resources,
							  responder_max);
	oid->mine.initiator_depth = verbs_reads_limit(param->initiator_depth, initiator_max);
	oid->told = (struct tcp_message){ .private_len = param->private_len };
	if (param->private_len)
		memcpy(oid->told.private_data, param->private_data, param->private_len);
}

static int do_connect(struct tcp_id *oid, const struct cm_param *param)
{
	const struct verbs_port *port = verbs_port_of(oid->id.dev);
	int err;

	if (oid->state != TCP_IDLE)
		return oid->state == TCP_CLOSED ? -ENOTCONN : -EISCONN;
	param_take(oid, param, port->responder_resources_max, port->initiator_depth_max);
	oid->state = TCP_CONNECTING;
	err = inet_connect(&tcp_device_of(oid->id.dev)->addr, &oid->fd);
	if (!err)
		err = tcp_watch(oid, EPOLLOUT, EPOLL_CTL_ADD);
	else
		oid->fd = -1;
	/* The caller learns it from an event, as if the answer took longer. */
	if (err)
		tcp_failure(oid, err);
	return 0;
}

int tcp_connect(struct cm_id *id, const struct cm_param *param)
{
	struct tcp_channel *oc = tcp_channel_of(id->channel);
	struct tcp_id *oid = tcp_id_of(id);
	int err;

	if (oid->passive || !id->qp || !verbs_param_valid(param, CM_PRIVATE_MAX_CONNECT))
		return -EINVAL;
	pthread_mutex_lock(&oc->lock);
	err = do_connect(oid, param);
	pthread_mutex_unlock(&oc->lock);
	return err;
}

static int do_accept(struct tcp_id *oid, const struct cm_param *param)
{
	struct sockaddr_storage local;
	int err;

	if (oid->state != TCP_ASKED)
		return -ENOTCONN;
	/* Until now these were the most that the peer and our device allow. */
	param_take(oid, param, oid->mine.responder_resources, oid->mine.initiator_depth);
	err = inet_local(oid->fd, &local);
	if (!err)
		err = tcp_end_describe(oid, &local, &oid->got.end);
	if (!err)
		err = tcp_qp_connect(oid);
	if (err)
		return err;
	oid->told.kind = TCP_ACCEPT;
	oid->told.end = oid->mine;
	oid->state = TCP_ACCEPTED;
	err = tcp_send(oid, &oid->told);
	if (!err)
		err = tcp_watch(oid, EPOLLIN, EPOLL_CTL_MOD);
	if (err) {
		oid->state = TCP_CLOSED;
		tcp_hang_up(oid);
		tcp_qp_error(oid);
	}
	return err;
}

int tcp_accept(struct cm_id *id, const struct cm_param *param)
{
	struct tcp_channel *oc = tcp_channel_of(id->channel);
	struct tcp_id *oid = tcp_id_of(id);
	int err;

	if (!oid->passive || !id->qp || !verbs_param_valid(param, CM_PRIVATE_MAX_ACCEPT))
		return -EINVAL;
	pthread_mutex_lock(&oc->lock);
	err = do_accept(oid, param);
	pthread_mutex_unlock(&oc->lock);
	return err;
}

int tcp_reject(struct cm_id *id, const void *private_data, uint8_t private_len)
{
	struct tcp_channel *oc = tcp_channel_of(id->channel);
	struct tcp_id *oid = tcp_id_of(id);
	int err = -ENOTCONN;

	if (!oid->passive || private_len > CM_PRIVATE_MAX_REJECT)
		return -EINVAL;
	pthread_mutex_lock(&oc->lock);
	if (oid->state == TCP_ASKED) {
		err = reject_send(oid, private_data, private_len);
		oid->state = TCP_CLOSED;
		tcp_hang_up(oid);
	}
	pthread_mutex_unlock(&oc->lock);
	return err;
}

int tcp_query_peer(struct cm_id *id, struct cm_peer *peer)
{
	struct tcp_id *oid = tcp_id_of(id);
	const char *identity = oid->tls ? tls_identity(oid->tls) : NULL;
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	*peer = (struct cm_peer){ 0 };
	if (getpeername(oid->fd, (struct sockaddr *)&addr, &len))
		return -errno;
	inet_text(&addr, peer->address, sizeof(peer->address));
	if (identity) {
		/* The connection's TLS may end before it does: tcp_hang_up(). */
		snprintf(oid->identity, sizeof(oid->identity), "%s", identity);
		peer->identity = oid->identity;
	}
	peer->since_ns = oid->setup.since_ns;
	return 0;
}

int tcp_disconnect(struct cm_id *id)
{
	struct tcp_channel *oc = tcp_channel_of(id->channel);
	struct tcp_id *oid = tcp_id_of(id);
	int err;

	pthread_mutex_lock(&oc->lock);
	tcp_failure_forget(oid);
	err = tcp_qp_error(oid);
	if (oid->state == TCP_ASKED)
		(void)reject_send(oid, NULL, 0);
	tcp_hang_up(oid);
	oid->state = TCP_CLOSED;
	pthread_mutex_unlock(&oc->lock);
	return err;
}

/* Members of struct device_ops. */
#define TCP_CALLS                                                                                  \
	VERBS_OBJECTS, .open = tcp_open, .close = tcp_close, .create_qp = tcp_create_qp,           \
		       .destroy_qp = tcp_destroy_qp, .create_cm_channel = tcp_create_cm_channel,   \
		       .destroy_cm_channel = tcp_destroy_cm_channel,                               \
		       .cm_get_event = tcp_cm_get_event, .listen = tcp_listen,                     \
		       .create_id = tcp_create_id, .connect = tcp_connect, .accept = tcp_accept,   \
		       .reject = tcp_reject, .query_peer = tcp_query_peer,                         \
		       .disconnect = tcp_disconnect, .destroy_id = tcp_destroy_id

const struct device_ops tcp_ops = { .name = "rdma+tcp", TCP_CALLS };
const struct device_ops tcp_tls_ops = { .name = "rdma+tls", TCP_CALLS, .renew = tcp_renew };
