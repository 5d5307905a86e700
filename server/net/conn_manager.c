/* SPDX-License-Identifier: MIT */
#include "server/net/conn_manager.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/net/conn.h"
#include "server/net/poller.h"

/*
 * How long to wait for IBV_EVENT_QP_LAST_WQE_REACHED, which says that a queue pair in error takes no
 * more receives from its SRQ. Not every device reports it (see server/DESIGN.md).
 */
#define FLUSH_WAIT_NS 100000000ull

/*
 * Transport retries, and how long a peer that finds no receive posted waits before it tries again:
 * IBTA code 12 is 0.64 ms; code 0, rdma_cm's default, would be 655 ms.
 */
#define RETRY_COUNT 7
#define RNR_RETRY_COUNT                                                                            \
	6 /* our responses to a client that posts no receives: it broke its promise */
#define MIN_RNR_TIMER 12

/* Events of one kind taken before notes, deadlines and signals have their turn. */
#define EVENTS_AT_ONCE 64

static const struct device_ops *conn_ops(const struct conn *conn)
{
	return conn->id->dev->ops;
}

static struct worker *conn_worker(const struct conn *conn)
{
	return conn->poller->worker;
}

static void conns_add(struct net *net, struct conn *conn)
{
	conn->prev = NULL;
	conn->next = net->conns;
	if (conn->next)
		conn->next->prev = conn;
	net->conns = conn;
	stat_add(&net->stats.connections, 1);
	stat_add(&net->stats.connections_total, 1);
	conn->poller->conns_count++;
	conn->poller->credits -= conn->window;
}

static void conns_remove(struct net *net, struct conn *conn)
{
	if (conn->prev)
		conn->prev->next = conn->next;
	else
		net->conns = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	stat_add(&net->stats.connections, (uint64_t)-1);
	conn->poller->conns_count--;
	conn->poller->credits += conn->window;
}

/* Refuses a connection with a reason the client can print. */
static void refuse(struct net *net, struct cm_id *id, enum wire_reject_reason reason,
		   const char *text)
{
	struct wire_reject reject = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.reason = reason,
	};

	snprintf(reject.text, sizeof(reject.text), "%s", text);
	stat_add(&net->stats.connections_rejected, 1);
	log_ratelimited(LOG_WARN, 10, "device %s: connection refused: %s", id->dev->name, text);
	id->dev->ops->reject(id, &reject, sizeof(reject));
	id->dev->ops->destroy_id(id);
}

/* The worker with the fewest connections on this device that can take one more, or NULL. */
static struct poller *choose_poller(struct net *net, const struct nic *nic)
{
	struct poller *best = NULL, *poller;
	unsigned int i, n = (unsigned int)(nic - net->nics);

	for (i = 0; i < net->worker_count; i++) {
		poller = &net->workers[i].pollers[n];
		if (!poller->credits || poller->conns_count >= poller->conns_max)
			continue;
		if (!best || poller->conns_count < best->conns_count)
			best = poller;
	}
	return best;
}

static bool connect_is_ours(const struct cm_event *event)
{
	struct wire_connect hello;

	if (event->private_len < sizeof(hello))
		return false;
	memcpy(&hello, event->private_data, sizeof(hello));
	return hello.magic == WIRE_MAGIC && hello.abi == WIRE_ABI && hello.bytes == sizeof(hello);
}

/* Credits are shared out so that some are left for each connection that may still come. */
static uint32_t window_for(const struct net *net, const struct poller *poller)
{
	uint32_t share = poller->credits / (poller->conns_max - poller->conns_count);

	if (!share)
		return 1;
	return share < net->env.config->request.window ? share : net->env.config->request.window;
}

static int accept_on(struct net *net, struct poller *poller, struct cm_id *id)
{
	const struct cm_param param = {
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = RNR_RETRY_COUNT,
		.min_rnr_timer = MIN_RNR_TIMER,
	};
	uint32_t window = window_for(net, poller);
	struct conn *conn;
	int err;

	err = conn_create(&conn, poller, id, ++net->serial, window);
	if (err)
		return err;
	conn->deadline_ns = clock_ns() + net->env.config->server.handshake_timeout;
	err = id->dev->ops->accept(id, &param);
	if (err) {
		rcu_read_lock();
		conn_remove(conn);
		rcu_read_unlock();
		synchronize_rcu();
		id->dev->ops->destroy_qp(id);
		id->context = NULL;
		free(conn);
		return err;
	}
	conns_add(net, conn);
	log_debug(CONN_FMT ": worker %u, window %u", CONN_ARG(conn), conn_worker(conn)->number,
		  window);
	return 0;
}

static void connect_request(struct net *net, struct nic *nic, const struct cm_event *event)
{
	struct poller *poller;
	int err;

	if (!connect_is_ours(event)) {
		refuse(net, event->id, WIRE_REJECT_VERSION,
		       "the client does not speak this version of kvd's protocol");
		return;
	}
	if (net->stopping) {
		refuse(net, event->id, WIRE_REJECT_STOPPING, "the server is stopping");
		return;
	}
	/* Before the pollers are asked, whose share of this limit may be used up too. */
	if (net->stats.connections >= net->env.config->server.max_connections) {
		refuse(net, event->id, WIRE_REJECT_FULL, "server.max_connections is reached");
		return;
	}
	poller = choose_poller(net, nic);
	if (!poller) {
		refuse(net, event->id, WIRE_REJECT_FULL,
		       "no window left to grant (request.srq_depth)");
		return;
	}
	err = accept_on(net, poller, event->id);
	if (err) {
		log_error("device %s: can't accept a connection: %s", nic->dev->name,
			  strerror(-err));
		refuse(net, event->id, WIRE_REJECT_ERROR,
		       "the server could not set up the connection");
	}
}

/* The first step to the end of a connection; more calls do nothing. */
static void conn_close(struct conn *conn)
{
	if (conn->stage != CONN_LIVE)
		return;
	conn->stage = CONN_FLUSHING;
	conn->deadline_ns = clock_ns() + FLUSH_WAIT_NS;
	log_debug(CONN_FMT ": closing", CONN_ARG(conn));
	conn_ops(conn)->disconnect(conn->id);
}

static void conn_quiesce(struct conn *conn)
{
	conn->stage = CONN_QUIESCING;
	mailbox_send(&conn_worker(conn)->mailbox, &conn->notes[NOTE_QUIESCE]);
}

static void device_failed(struct net *net, const struct nic *nic, const char *what)
{
	if (net->failed)
		return;
	log_error("device %s: %s: the server stops; start it again when the device is back",
		  nic->dev->name, what);
	net->failed = net->stopping = true;
}

void conn_manager_cm_events(struct net *net, struct nic *nic)
{
	unsigned int count = 0;
	struct cm_event event;

	while (!nic->dev->ops->cm_get_event(nic->channel, &event)) {
		if (++count == EVENTS_AT_ONCE)
			net->events_left = true;
		switch (event.type) {
		case CM_CONNECT_REQUEST:
			connect_request(net, nic, &event);
			break;
		case CM_ESTABLISHED:
			break;
		case CM_DEVICE_REMOVED:
			device_failed(net, nic, "removed");
			break;
		case CM_REJECTED:
		case CM_UNREACHABLE:
		case CM_DISCONNECTED:
			if (event.id && event.id->context)
				conn_close(event.id->context);
			break;
		}
		if (count >= EVENTS_AT_ONCE)
			return;
	}
}

/* The connection whose queue pair this is and still exists, or NULL. */
static struct conn *conn_of_qp(const struct net *net, const struct ibv_qp *qp)
{
	struct conn *conn;

	for (conn = net->conns; conn; conn = conn->next)
		if (conn->qp == qp && conn->stage <= CONN_FLUSHING)
			return conn;
	return NULL;
}

static void last_wqe_reached(struct net *net, const struct ibv_qp *qp)
{
	struct conn *conn = conn_of_qp(net, qp);

	if (!conn)
		return;
	conn_close(conn);
	conn_quiesce(conn);
}

static struct poller *next_poller(struct net *net, unsigned int *at)
{
	unsigned int worker = *at / NIC_MAX, nic = *at % NIC_MAX;

	if (worker >= net->worker_count)
		return NULL;
	*at += nic + 1 < net->nic_count ? 1 : NIC_MAX - nic;
	return &net->workers[worker].pollers[nic];
}

/* The event is one-shot and armed again by the next tick: a flood makes one a second, not more. */
static void srq_limit_reached(struct net *net, struct nic *nic, const struct ibv_srq *srq)
{
	struct poller *poller;
	unsigned int at = 0;

	stat_add(&net->stats.srq_limits, 1);
	log_ratelimited(LOG_WARN, 1, "device %s: receives run low: clients exceed their windows",
			nic->dev->name);
	while ((poller = next_poller(net, &at)))
		if (poller->srq == srq)
			poller->limit_reached = true;
}

void conn_manager_rearm(struct net *net)
{
	struct poller *poller;
	unsigned int at = 0;

	while ((poller = next_poller(net, &at)))
		if (poller->limit_reached) {
			poller->limit_reached = false;
			poller_arm_srq_limit(poller);
		}
}

/* Its client lost the right to it: not every device flushes a queue pair that such an event is of. */
static void qp_failed(struct net *net, struct nic *nic, const struct device_async_event *event)
{
	struct conn *conn = conn_of_qp(net, event->qp);

	stat_add(&net->stats.async_errors, 1);
	if (!conn)
		return;
	log_ratelimited(LOG_WARN, 10, CONN_FMT ": closed: %s on device %s", CONN_ARG(conn),
			ibv_event_type_str(event->type), nic->dev->name);
	conn_close(conn);
}

void conn_manager_async_events(struct net *net, struct nic *nic)
{
	struct device_async_event event;
	unsigned int count = 0;

	while (!nic->dev->ops->get_async_event(nic->dev, &event)) {
		if (++count == EVENTS_AT_ONCE)
			net->events_left = true;
		switch (event.type) {
		case IBV_EVENT_QP_LAST_WQE_REACHED:
			last_wqe_reached(net, event.qp);
			break;
		case IBV_EVENT_SRQ_LIMIT_REACHED:
			srq_limit_reached(net, nic, event.srq);
			break;
		case IBV_EVENT_DEVICE_FATAL:
		case IBV_EVENT_CQ_ERR:
		case IBV_EVENT_SRQ_ERR:
			stat_add(&net->stats.async_errors, 1);
			device_failed(net, nic, ibv_event_type_str(event.type));
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
			qp_failed(net, nic, &event);
			break;
		default:
			log_info("device %s: %s", nic->dev->name, ibv_event_type_str(event.type));
			break;
		}
		if (count >= EVENTS_AT_ONCE)
			return;
	}
}

/* Frees those at @conn, linked by next, after everyone who might look at one is done. */
static void conns_free(struct conn *conn)
{
	struct conn *next;

	if (conn)
		synchronize_rcu();
	for (; conn; conn = next) {
		next = conn->next;
		log_debug(CONN_FMT ": closed", CONN_ARG(conn));
		conn_destroy(conn);
	}
}

void conn_manager_read_mail(struct net *net)
{
	struct conn *conn, *released = NULL;
	struct note *note, *next;

	for (note = mailbox_take(&net->mailbox); note; note = next) {
		next = note->next;
		conn = note->conn;
		switch (note->type) {
		case NOTE_FAILED:
			conn_close(conn);
			break;
		case NOTE_QUIESCED:
			conn->stage = CONN_RELEASING;
			conn_ops(conn)->destroy_qp(conn->id);
			mailbox_send(&conn_worker(conn)->mailbox, &conn->notes[NOTE_RELEASE]);
			break;
		case NOTE_RELEASED:
			conns_remove(net, conn);
			conn->next = released;
			released = conn;
			break;
		default:
			break;
		}
	}
	conns_free(released);
}

static bool conn_expired(const struct net *net, const struct conn *conn, uint64_t now_ns)
{
	uint64_t pull = atomic_load_explicit(&conn->pull_since_ns, memory_order_relaxed);

	if (pull && now_ns > pull && now_ns - pull > net->env.config->server.pull_timeout) {
		log_warn(CONN_FMT ": closed: a large value did not arrive in time", CONN_ARG(conn));
		return true;
	}
	if (!atomic_load_explicit(&conn->greeted, memory_order_relaxed) &&
	    now_ns > conn->deadline_ns) {
		log_warn(CONN_FMT ": closed: no HELLO in time", CONN_ARG(conn));
		return true;
	}
	return false;
}

void conn_manager_expire(struct net *net, uint64_t now_ns)
{
	struct conn *conn;

	for (conn = net->conns; conn; conn = conn->next) {
		if (conn->stage == CONN_FLUSHING && now_ns > conn->deadline_ns) {
			conn_quiesce(conn);
		} else if (conn->stage == CONN_LIVE && conn_expired(net, conn, now_ns)) {
			stat_add(&net->stats.connections_expired, 1);
			conn_close(conn);
		}
	}
}

void conn_manager_close_all(struct net *net)
{
	struct conn *conn;

	for (conn = net->conns; conn; conn = conn->next)
		conn_close(conn);
}

bool conn_manager_pulling(const struct net *net)
{
	const struct conn *conn;

	for (conn = net->conns; conn; conn = conn->next)
		if (atomic_load_explicit(&conn->pull_since_ns, memory_order_relaxed))
			return true;
	return false;
}

bool conn_manager_flushing(const struct net *net)
{
	const struct conn *conn;

	for (conn = net->conns; conn; conn = conn->next)
		if (conn->stage == CONN_FLUSHING)
			return true;
	return false;
}

void conn_manager_free_all(struct net *net)
{
	struct conn *conn;

	while (net->conns) {
		conn = net->conns;
		conns_remove(net, conn);
		rcu_read_lock();
		conn_remove(conn);
		rcu_read_unlock();
		conn_destroy(conn);
	}
}
