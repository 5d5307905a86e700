/* SPDX-License-Identifier: MIT */
/* Receives messages on the TCP connections of a channel and makes events of them. */
#include "common/rdma/tcp/tcp.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/rdma/inet.h"
#include "common/util/clock.h"
#include "common/util/log.h"

/*
 * How long a peer may take to set up a connection once TCP is connected. A host that is short of
 * CPU stops a process for seconds; SETUPS_MAX, not this, bounds the cost of silent peers.
 */
#define SETUP_MS 60000
/* Readable sockets that one call may handle without a result; those left keep the fd readable. */
#define EVENTS_PER_CALL_MAX 64

#define NS_PER_MS 1000000u
#define NS_PER_S 1000000000u

int tcp_watch(struct tcp_id *oid, uint32_t events, int op)
{
	struct epoll_event event = { .events = events, .data.ptr = oid };

	return epoll_ctl(oid->id.channel->fd, op, oid->fd, &event) ? -errno : 0;
}

void tcp_hang_up(struct tcp_id *oid)
{
	tls_end(oid->tls);
	oid->tls = NULL;
	oid->shaking = false;
	if (oid->fd >= 0)
		close(oid->fd);
	oid->fd = -1;
}

/* The stream of a connection, a socket or TLS over one: a negative errno, or how many bytes. */
static ssize_t stream_send(struct tcp_id *oid, const void *from, size_t bytes)
{
	ssize_t sent;

	if (oid->tls)
		return tls_send(oid->tls, from, bytes);
	sent = send(oid->fd, from, bytes, MSG_NOSIGNAL);
	return sent < 0 ? -errno : sent;
}

/* 0: the peer sends no more. */
static ssize_t stream_receive(struct tcp_id *oid, void *to, size_t bytes)
{
	ssize_t got;

	if (oid->tls)
		return tls_recv(oid->tls, to, bytes);
	got = recv(oid->fd, to, bytes, 0);
	return got < 0 ? -errno : got;
}

int tcp_send(struct tcp_id *oid, const struct tcp_message *message)
{
	uint8_t bytes[TCP_MESSAGE_BYTES];
	ssize_t sent;

	if (oid->fd < 0)
		return -EPIPE;
	tcp_message_print(bytes, message);
	/* There is room in a new socket's buffer for the two messages that an end ever sends. */
	sent = stream_send(oid, bytes, sizeof(bytes));
	if (sent < 0)
		return (int)sent;
	return sent == sizeof(bytes) ? 0 : -EPIPE;
}

/* Sets the timer that wakes the waiting thread at the next deadline. */
static void timer_arm(struct tcp_channel *oc)
{
	struct itimerspec when = { 0 };
	uint64_t at_ns = setups_deadline(&oc->setups);

	if (!TAILQ_EMPTY(&oc->failures))
		at_ns = 1; /* at once */
	when.it_value.tv_sec = (time_t)(at_ns / NS_PER_S);
	when.it_value.tv_nsec = (long)(at_ns % NS_PER_S);
	timerfd_settime(oc->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void setup_begin(struct tcp_channel *oc, struct tcp_id *oid)
{
	oid->setup.fd = oid->fd;
	setups_add(&oc->setups, &oid->setup, clock_ns(), (uint64_t)SETUP_MS * NS_PER_MS);
	if (oc->setups.count == 1)
		timer_arm(oc);
}

static void setup_free(struct tcp_channel *oc, struct tcp_id *oid)
{
	setups_remove(&oc->setups, &oid->setup);
	tcp_id_free(oid);
}

static void setup_drop(struct tcp_channel *oc, struct tcp_id *oid, const char *why)
{
	log_ratelimited(LOG_WARN, 1, "%s: a connection is closed before it was set up: %s",
			oid->id.dev->address, why);
	setup_free(oc, oid);
}

void tcp_setups_drop(struct tcp_channel *oc)
{
	while (!TAILQ_EMPTY(&oc->setups.list))
		setup_drop(oc, tcp_id_of_setup(TAILQ_FIRST(&oc->setups.list)), "the server stops");
}

void tcp_failure(struct tcp_id *oid, int err)
{
	struct tcp_channel *oc = tcp_channel_of(oid->id.channel);

	oid->error = err;
	TAILQ_INSERT_TAIL(&oc->failures, oid, entry);
	timer_arm(oc);
}

void tcp_failure_forget(struct tcp_id *oid)
{
	if (!oid->error)
		return;
	TAILQ_REMOVE(&tcp_channel_of(oid->id.channel)->failures, oid, entry);
	oid->error = 0;
}

static bool deliver(struct cm_event *event, struct tcp_id *oid, enum cm_event_type type, int status)
{
	event->type = type;
	event->id = &oid->id;
	event->status = status;
	if (type == CM_CONNECT_REQUEST || type == CM_ESTABLISHED) {
		event->responder_resources = oid->mine.responder_resources;
		event->initiator_depth = oid->mine.initiator_depth;
	}
	if (status == -EKEYREJECTED && oid->tls)
		event->private_len = (uint8_t)snprintf((char *)event->private_data, UINT8_MAX,
						       "%.250s", tls_why(oid->tls));
	if (type == CM_CONNECT_REQUEST || type == CM_REJECTED ||
	    (type == CM_ESTABLISHED && !oid->passive)) {
		memcpy(event->private_data, oid->got.private_data, oid->got.private_len);
		event->private_len = oid->got.private_len;
	}
	return true;
}

/* Handlers return true if they made an event to deliver. */

/*
 * TLS refused the peer, and told it why. Data that the peer sent meanwhile must be read before the
 * socket is closed: else TCP would reset the connection, and the peer might never see the reason.
 */
static void linger(struct tcp_channel *oc, struct tcp_id *oid)
{
	struct cm_peer peer;

	(void)tcp_query_peer(&oid->id, &peer);
	log_ratelimited(LOG_WARN, 1, "%s: %s is refused: %s", oid->id.dev->address, peer.address,
			tls_why(oid->tls));
	oid->state = TCP_LINGERING;
	oid->shaking = false;
	if (shutdown(oid->fd, SHUT_WR) || tcp_watch(oid, EPOLLIN, EPOLL_CTL_MOD))
		setup_free(oc, oid);
}

static void on_lingering(struct tcp_channel *oc, struct tcp_id *oid)
{
	uint8_t ignored[TCP_MESSAGE_BYTES];
	ssize_t got = recv(oid->fd, ignored, sizeof(ignored), 0);

	if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	setup_free(oc, oid);
}

/* The connection has ended, or failed to be set up, because of @status. */
static bool gone(struct tcp_channel *oc, struct tcp_id *oid, struct cm_event *event, int status)
{
	enum tcp_state state = oid->state;
	bool delivered = false;

	if (state == TCP_SETTING_UP) {
		if (status == -EKEYREJECTED)
			linger(oc, oid);
		else
			setup_drop(oc, oid,
				   status == -EPROTO ? "its message is wrong" : strerror(-status));
		return false;
	}
	switch (state) {
	case TCP_CONNECTING:
	case TCP_REQUESTED:
		delivered = deliver(event, oid, CM_UNREACHABLE, status);
		break;
	case TCP_ACCEPTED:
	case TCP_UP:
		if (oid->passive && verbs_qp_failed(oid->id.qp))
			status = -EACCES;
		tcp_qp_error(oid);
		delivered = deliver(event, oid, CM_DISCONNECTED, status);
		break;
	default:
		/* ASKED: accept() will say so. */
		break;
	}
	tcp_hang_up(oid);
	oid->state = TCP_CLOSED;
	return delivered;
}

static bool on_request(struct tcp_channel *oc, struct tcp_id *oid, struct cm_event *event)
{
	const struct verbs_port *port = verbs_port_of(oid->id.dev);
	const struct tcp_end *peer = &oid->got.end;

	if (peer->link_layer != port->link_layer) {
		setup_drop(oc, oid, "one end has InfiniBand, the other Ethernet");
		return false;
	}
	setups_remove(&oc->setups, &oid->setup);
	oid->state = TCP_ASKED;
	/* Nothing is read before the request is answered, but a hang-up is noticed. */
	if (tcp_watch(oid, EPOLLRDHUP, EPOLL_CTL_MOD))
		log_ratelimited(LOG_ERROR, 1, "%s: can't watch a connection: %m",
				oid->id.dev->address);
	oid->mine.responder_resources = verbs_min_u8(port->responder_resources_max,
						     peer->initiator_depth);
	oid->mine.initiator_depth = verbs_min_u8(port->initiator_depth_max,
						 peer->responder_resources);
	return deliver(event, oid, CM_CONNECT_REQUEST, 0);
}

static bool on_accept(struct tcp_channel *oc, struct tcp_id *oid, struct cm_event *event)
{
	const struct tcp_message ready = { .kind = TCP_READY };
	const struct tcp_end *peer = &oid->got.end;
	int err;

	oid->mine.responder_resources = verbs_min_u8(oid->mine.responder_resources,
						     peer->initiator_depth);
	oid->mine.initiator_depth = verbs_min_u8(oid->mine.initiator_depth,
						 peer->responder_resources);
	err = tcp_qp_connect(oid);
	if (!err)
		err = tcp_send(oid, &ready);
	if (err)
		return gone(oc, oid, event, err);
	oid->state = TCP_UP;
	return deliver(event, oid, CM_ESTABLISHED, 0);
}

static bool on_reject(struct tcp_id *oid, struct cm_event *event)
{
	tcp_hang_up(oid);
	oid->state = TCP_CLOSED;
	return deliver(event, oid, CM_REJECTED, 0);
}

static bool on_ready(struct tcp_id *oid, struct cm_event *event)
{
	oid->state = TCP_UP;
	return deliver(event, oid, CM_ESTABLISHED, 0);
}

static bool on_message(struct tcp_channel *oc, struct tcp_id *oid, struct cm_event *event)
{
	const char *error = tcp_message_parse(&oid->got, oid->in);

	if (!error) {
		if (oid->state == TCP_SETTING_UP && oid->got.kind == TCP_REQUEST)
			return on_request(oc, oid, event);
		if (oid->state == TCP_REQUESTED && oid->got.kind == TCP_ACCEPT)
			return on_accept(oc, oid, event);
		if (oid->state == TCP_REQUESTED && oid->got.kind == TCP_REJECT)
			return on_reject(oid, event);
		if (oid->state == TCP_ACCEPTED && oid->got.kind == TCP_READY)
			return on_ready(oid, event);
		error = "a message that is not expected now";
	}
	log_ratelimited(LOG_WARN, 1, "%s: %s", oid->id.dev->address, error);
	return gone(oc, oid, event, -EPROTO);
}

static bool on_readable(struct tcp_channel *oc, struct tcp_id *oid, struct cm_event *event)
{
	ssize_t got = stream_receive(oid, oid->in + oid->in_len, sizeof(oid->in) - oid->in_len);

	/* A client has nothing more to send: endless messages of TLS itself would cost us time. */
	if (got == -EAGAIN && oid->tls && oid->passive && oid->state == TCP_UP)
		return gone(oc, oid, event, -EPROTO);
	if (got == -EAGAIN || got == -EINTR)
		return false;
	if (got <= 0)
		return gone(oc, oid, event, got ? (int)got : -ECONNRESET);
	oid->in_len += (unsigned int)got;
	if (oid->in_len < sizeof(oid->in))
		return false;
	oid->in_len = 0;
	/* One record may hold more than the message: epoll would not report the rest. */
	if (oid->tls && tls_pending(oid->tls))
		return gone(oc, oid, event, -EPROTO);
	return on_message(oc, oid, event);
}

/* Sends REQUEST: our queue pair and the private data of connect(). */
static int request_send(struct tcp_id *oid)
{
	struct sockaddr_storage local;
	int err = inet_local(oid->fd, &local);

	if (!err)
		err = tcp_end_describe(oid, &local, NULL);
	if (!err)
		err = tcp_watch(oid, EPOLLIN, EPOLL_CTL_MOD);
	if (err)
		return err;
	oid->told.kind = TCP_REQUEST;
	oid->told.end = oid->mine;
	return tcp_send(oid, &oid->told);
}

static bool request(struct tcp_channel *oc, struct tcp_id *oid, struct cm_event *event)
{
	int err = request_send(oid);

	if (err)
		return gone(oc, oid, event, err);
	oid->state = TCP_REQUESTED;
	return false;
}

/* Starts TLS, if the device wants it: oid->shaking. */
static int shaking_begin(struct tcp_id *oid)
{
	struct tls_context *tls = tcp_tls_get(tcp_device_of(oid->id.dev));
	int err;

	if (!tls)
		return 0;
	err = tls_start(&oid->tls, tls, oid->fd);
	tls_context_put(tls);
	oid->shaking = !err;
	return err;
}

static bool on_shaking(struct tcp_channel *oc, struct tcp_id *oid, struct cm_event *event)
{
	uint32_t events = EPOLLIN;
	int err = tls_handshake(oid->tls, &events);
	bool done = !err;

	if (done || err == -EAGAIN)
		err = tcp_watch(oid, events, EPOLL_CTL_MOD);
	if (err)
		return gone(oc, oid, event, err);
	if (!done)
		return false;
	oid->shaking = false;
	return oid->passive ? false : request(oc, oid, event);
}

static int socket_connected(struct tcp_id *oid)
{
	socklen_t len = sizeof(int);
	int status = 0, err;

	if (getsockopt(oid->fd, SOL_SOCKET, SO_ERROR, &status, &len))
		return -errno;
	if (status)
		return -status;
	if (!oid->id.qp)
		return -EINVAL;
	err = inet_stream_set(oid->fd);
	return err ? err : shaking_begin(oid);
}

static bool on_connected(struct tcp_channel *oc, struct tcp_id *oid, struct cm_event *event)
{
	int err = socket_connected(oid);

	if (err)
		return gone(oc, oid, event, err);
	return oid->shaking ? on_shaking(oc, oid, event) : request(oc, oid, event);
}

static void accept_without_fd(struct tcp_channel *oc, struct tcp_id *listener)
{
	log_ratelimited(LOG_ERROR, 1,
			"%s: connections are closed: no descriptor is left: raise the limit on "
			"open files (ulimit -n)",
			listener->id.dev->address);
	inet_refuse(listener->fd, &oc->spare_fd);
}

static void host_of(struct ip_address *host, const struct sockaddr_storage *peer)
{
	char text[DEVICE_PEER_MAX];

	inet_text(peer, text, sizeof(text));
	ip_address_parse(host, text);
	ip_address_to_host(host);
}

static int setup_new(struct tcp_channel *oc, int fd, const struct sockaddr_storage *peer)
{
	struct tcp_id *oid;
	int err = tcp_id_alloc(&oc->channel, TCP_SETTING_UP, &oid);

	if (err) {
		close(fd);
		return err;
	}
	oid->passive = true;
	oid->fd = fd;
	host_of(&oid->setup.host, peer);
	err = inet_stream_set(fd);
	if (!err)
		err = shaking_begin(oid);
	if (!err)
		err = tcp_watch(oid, EPOLLIN, EPOLL_CTL_ADD);
	if (err) {
		tcp_id_free(oid);
		return err;
	}
	if (oc->setups.count == SETUPS_MAX)
		setup_drop(oc, tcp_id_of_setup(setups_to_drop(&oc->setups, clock_ns())),
			   "too many are being set up");
	setup_begin(oc, oid);
	return 0;
}

static void on_incoming(struct tcp_channel *oc, struct tcp_id *listener)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t len = sizeof(peer);
	int fd = accept4(listener->fd, (struct sockaddr *)&peer, &len,
			 SOCK_NONBLOCK | SOCK_CLOEXEC);
	int err;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		accept_without_fd(oc, listener);
		return;
	}
	/* Other errors belong to the connection to accept: it is gone. */
	if (fd < 0)
		return;
	err = setup_new(oc, fd, &peer);
	if (err) {
		errno = -err;
		log_ratelimited(LOG_ERROR, 1, "%s: can't set up a connection: %m",
				listener->id.dev->address);
	}
}

static bool on_failure(struct tcp_channel *oc, struct cm_event *event)
{
	struct tcp_id *oid = TAILQ_FIRST(&oc->failures);
	int err;

	if (!oid)
		return false;
	err = oid->error;
	tcp_failure_forget(oid);
	return gone(oc, oid, event, err);
}

static bool on_timer(struct tcp_channel *oc, struct cm_event *event)
{
	uint64_t now_ns = clock_ns(), times;
	struct setup *setup;
	bool delivered;

	if (read(oc->timer_fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
		log_ratelimited(LOG_ERROR, 1, "can't read a timer: %m");
	while ((setup = setups_expired(&oc->setups, now_ns)))
		setup_drop(oc, tcp_id_of_setup(setup), "the peer took too long");
	delivered = on_failure(oc, event);
	timer_arm(oc);
	return delivered;
}

static bool handle(struct tcp_channel *oc, const struct epoll_event *ready, struct cm_event *event)
{
	struct tcp_id *oid = ready->data.ptr;

	if (!oid)
		return on_timer(oc, event);
	oid->setup.heard = true;
	if (oid->shaking)
		return on_shaking(oc, oid, event);
	switch (oid->state) {
	case TCP_LISTENING:
		on_incoming(oc, oid);
		return false;
	case TCP_CONNECTING:
		return on_connected(oc, oid, event);
	case TCP_ASKED:
		return gone(oc, oid, event, -ECONNRESET);
	case TCP_LINGERING:
		on_lingering(oc, oid);
		return false;
	default:
		return on_readable(oc, oid, event);
	}
}

int tcp_cm_get_event(struct cm_channel *channel, struct cm_event *event)
{
	struct tcp_channel *oc = tcp_channel_of(channel);
	struct epoll_event ready;
	bool delivered = false;
	int n = 1;

	memset(event, 0, sizeof(*event));
	pthread_mutex_lock(&oc->lock);
	for (int i = 0; i < EVENTS_PER_CALL_MAX && n == 1 && !delivered; i++) {
		n = epoll_wait(channel->fd, &ready, 1, 0);
		if (n == 1)
			delivered = handle(oc, &ready, event);
	}
	pthread_mutex_unlock(&oc->lock);
	return delivered ? 0 : -EAGAIN;
}
