/* SPDX-License-Identifier: MIT */
/* Manages the connections for the control thread: from CONNECT_REQUEST to the last note. */
#include "server/control/conn_manager.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/control/admission.h"
#include "server/control/client_user.h"
#include "server/control/query_answer.h"
#include "server/control/session_manager.h"
#include "server/control/traces.h"
#include "server/memcached/session.h"
#include "server/worker/audit.h"
#include "server/worker/conn.h"
#include "server/worker/deferred.h"
#include "server/worker/grant.h"
#include "server/worker/keepalive.h"
#include "server/worker/permit.h"
#include "server/worker/poller.h"
#include "server/worker/snapshot.h"

/*
 * How long to wait for IBV_EVENT_QP_LAST_WQE_REACHED, which reports that a queue pair in error
 * takes no more receives from its SRQ. Not every device raises it (server/DESIGN.md).
 */
#define FLUSH_WAIT_NS 100000000ull

/* Transport retries. Not 7, the maximum: rdma_rxe (Linux 6.1) takes that for no limit. */
#define RETRY_COUNT 6
/* Retries of a response to a client that has no receive posted, which breaks the protocol. */
#define RNR_RETRY_COUNT 6
/*
 * How long a client that finds no receive posted waits before it retries: IBTA code 12 is 0.64 ms;
 * code 0, rdma_cm's default, would be 655 ms.
 */
#define MIN_RNR_TIMER 12

/* Events of one kind that are handled before notes, deadlines and signals have their turn. */
#define EVENTS_AT_ONCE 64
/*
 * Queries handled at once, STATS apart. One takes as long as the device's ibv_modify_qp() at most.
 */
#define QUERIES_AT_ONCE 64

/*
 * The time between two snapshots of the statistics: clients that ask for them in a loop take 2 % of
 * this thread's time. All requests that arrived before a snapshot was started share it.
 */
#define STATS_INTERVAL_NS 5000000u
#define NS_PER_MS 1000000u

static const struct device_ops *conn_ops(const struct conn *conn)
{
	return conn->id->dev->ops;
}

static struct worker *conn_worker(const struct conn *conn)
{
	return conn->poller->worker;
}

static void conn_list_add(struct net *net, struct conn *conn)
{
	conn->prev = NULL;
	conn->next = net->conns;
	if (conn->next)
		conn->next->prev = conn;
	net->conns = conn;
	conn->client.number = conn_registry_add(&net->registry, &conn->client);
	conn->client.part->tenant->conns_count++;
	conn->poller->nic->conns_count++;
	stat_add(&net->stats.connections, 1);
	stat_add(&net->stats.connections_total, 1);
	if (conn->admin)
		net->admins_count++;
	else
		conn->poller->conns_count++;
}

/* No worker asks for the connection's user any more. */
static void conn_set_nobody(struct conn *conn)
{
	struct users *users = conn->client.users;

	admission_set(&conn->client, NULL, NULL);
	users_put(users);
}

static void conn_list_remove(struct net *net, struct conn *conn)
{
	if (conn->prev)
		conn->prev->next = conn->next;
	else
		net->conns = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	audit_closed(&conn->client, conn->why);
	traces_take(net);
	conn_set_nobody(conn);
	if (conn->client.account)
		accounts_close(&net->accounts, conn->client.principal, conn->client.part->tenant,
			       store_clock_ns(conn->client.part->store));
	conn_registry_remove(&net->registry, conn->client.number);
	conn->client.part->tenant->conns_count--;
	conn->poller->nic->conns_count--;
	stat_sub(&net->stats.connections, 1);
	if (conn->admin)
		net->admins_count--;
	else
		conn->poller->conns_count--;
}

static void query_forget(struct conn *conn)
{
	if (!conn->queries)
		return;
	TAILQ_REMOVE(conn->queries, conn, query_entry);
	conn->queries = NULL;
}

/* A later stage has its own deadline, or none, and its queries are not answered any more. */
static void conn_set_stage(struct net *net, struct conn *conn, enum conn_stage stage)
{
	conn->stage = stage;
	query_forget(conn);
	identity_disinherit(conn);
	conn_timer_cancel(&net->timers, conn);
	if (stage == CONN_FLUSHING)
		conn_timer_set(&net->timers, conn, CONN_TIMER_FLUSH, clock_ns());
}

/* Tells a client why its connection is refused, in words that it can print. */
static void connect_reject(struct net *net, struct cm_id *id, enum wire_reject_reason reason,
			   const char *text)
{
	struct wire_reject reject = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.reason = reason,
	};
	struct cm_peer peer;

	snprintf(reject.text, sizeof(reject.text), "%s", text);
	stat_add(&net->stats.connections_rejected, 1);
	log_ratelimited(LOG_WARN, 10, "device %s: connection refused: %s", id->dev->name, text);
	if (id->dev->ops->query_peer(id, &peer))
		peer = (struct cm_peer){ 0 };
	audit_refused(id->dev->kind, &peer, text);
	id->dev->ops->reject(id, &reject, sizeof(reject));
}

static void connect_refuse(struct net *net, struct cm_id *id, enum wire_reject_reason reason,
			   const char *text)
{
	connect_reject(net, id, reason, text);
	id->dev->ops->destroy_id(id);
}

/* The worker with the fewest connections on this device that can take one more, or NULL. */
static struct poller *poller_choose(struct net *net, const struct nic *nic)
{
	struct poller *best = NULL, *poller;
	unsigned int i, n = (unsigned int)(nic - net->nics);

	for (i = 0; i < net->env.workers; i++) {
		poller = &net->workers[i].pollers[n];
		if (poller->conns_count >= poller->limits.conns_max)
			continue;
		if (!best || poller->conns_count < best->conns_count)
			best = poller;
	}
	return best;
}

/* The poller that takes an administrator's client for which there is no other place, or NULL. */
static struct poller *poller_choose_admin(struct net *net, const struct nic *nic, struct cm_id *id)
{
	struct poller *poller = &net->workers[0].pollers[nic - net->nics];
	struct cm_peer peer;

	if (net->admins_count >= poller->limits.admins_max || id->dev->ops->query_peer(id, &peer))
		return NULL;
	return peer_is_admin(&peer) ? poller : NULL;
}

/* False: the request is refused, and @text says why. */
static bool connect_parse(struct wire_connect *connect, const struct cm_event *event,
			  char text[WIRE_REJECT_TEXT_BYTES])
{
	/* The fabric may pad it. */
	size_t len = event->private_len < sizeof(*connect) ? event->private_len : sizeof(*connect);

	*connect = (struct wire_connect){ 0 };
	memcpy(connect, event->private_data, len);
	if (len < offsetof(struct wire_connect, tenant) || connect->magic != WIRE_MAGIC)
		snprintf(text, WIRE_REJECT_TEXT_BYTES, "the client does not speak kvd's protocol");
	else if (connect->abi != WIRE_ABI)
		wire_abi_text(text, connect->abi, WIRE_ABI);
	else if (len < sizeof(*connect) || connect->reserved)
		snprintf(text, WIRE_REJECT_TEXT_BYTES,
			 "the client's connect request breaks the protocol");
	else
		return true;
	return false;
}

/*
 * The tenant that the client asks for, or that of its user, or the default one. NULL: @text says
 * why it is refused.
 */
static struct tenant *connect_tenant(const struct net *net, const struct nic *nic,
				     const struct wire_connect *connect, const struct user *user,
				     char text[WIRE_REJECT_TEXT_BYTES])
{
	static const char none[WIRE_TENANT_MAX];
	uint32_t length = wire_tenant_length(connect->tenant);
	bool named = memcmp(connect->tenant, none, sizeof(none));
	char name[WIRE_TENANT_MAX + 1];
	struct tenant *tenant;

	strcpy(name, user ? user->tenant : TENANT_DEFAULT);
	if (named) {
		memcpy(name, connect->tenant, length);
		name[length] = '\0';
	}
	tenant = tenants_find(&net->tenants, name);
	if (named && !length)
		snprintf(text, WIRE_REJECT_TEXT_BYTES,
			 "the client asks for a tenant by an invalid name");
	else if (user && strcmp(name, user->tenant) != 0)
		snprintf(text, WIRE_REJECT_TEXT_BYTES, "user %.30s has the tenant %s, not %s",
			 user->name, user->tenant, name);
	else if (!tenant)
		snprintf(text, WIRE_REJECT_TEXT_BYTES, "there is no tenant %s", name);
	else if (tenant->state != TENANT_SERVES)
		snprintf(text, WIRE_REJECT_TEXT_BYTES,
			 "the tenant %s is being created, resized or dropped", name);
	else if (!tenant->now.mrs[nic - net->nics][0])
		snprintf(text, WIRE_REJECT_TEXT_BYTES, "the tenant %s is not served on this device",
			 name);
	else
		return tenant;
	return NULL;
}

/* This thread is RCU-offline otherwise: server/control_loop.c. */
static void table_remove(struct conn *conn)
{
	rcu_thread_online();
	conn_table_remove(conn);
	rcu_thread_offline();
}

/* Logs the chosen GID and the like; rate-limited, since peers decide how often. */
static void link_log(const struct conn *conn)
{
	char link[DEVICE_LINK_TEXT_MAX];

	if (!log_enabled(LOG_INFO))
		return;
	device_link_text(conn->id->dev, conn->id->qp, link);
	if (*link)
		log_ratelimited(LOG_INFO, 10, CONN_FMT ": %s", CONN_ARG(conn), link);
}

/*
 * After an error id->context is the connection, if there is one; the caller closes it. @user: the
 * client's, NULL if the server has no users.
 */
static int connect_accept(struct net *net, struct poller *poller, struct tenant *tenant,
			  struct cm_id *id, bool admin, const struct user *user)
{
	const struct cm_param param = {
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = RNR_RETRY_COUNT,
		.min_rnr_timer = MIN_RNR_TIMER,
	};
	struct principal principal;
	struct conn *conn;
	int err;

	err = conn_create(&conn, poller, tenant, id, ++net->serial,
			  admin ? 1 : poller->limits.window);
	if (err)
		return err;
	conn->admin = admin;
	conn->client.wake = deferred_wake_client;
	conn->client.connected_ns = clock_ns();
	principal_init(&principal, &conn->client.peer, user);
	if (user)
		admission_set(&conn->client, net->users, user);
	conn_list_add(net, conn);
	if (!accounts_open(&net->accounts, &principal, tenant, &conn->client,
			   store_clock_ns(conn->client.part->store)))
		return -ENOMEM;
	conn->pull_hold.own = &conn->client.gates->pulls;
	conn->extents_max = atomic_load(&tenant->now.extents);
	err = grant_open(conn, conn->extents_max);
	if (!err)
		err = id->dev->ops->accept(id, &param);
	if (err)
		return err;
	conn_timer_set(&net->timers, conn, CONN_TIMER_HELLO, clock_ns());
	log_debug(CONN_FMT ": worker %u", CONN_ARG(conn), conn_worker(conn)->number);
	link_log(conn);
	audit_opened(&conn->client);
	return 0;
}

static const char *connect_advice(int err)
{
	switch (err) {
	case -EMFILE:
	case -ENFILE:
		return ADVICE_OPEN_FILES " or lower server.max_connections";
	case -ENOSPC:
		return "the device has no memory window left: lower server.max_connections to what "
		       "it has (`ibv_devinfo -v`, max_mw), or set rdma.windows = no, with which "
		       "all clients READ by one key";
	case -EINVAL:
		return "the device may not support send queues of this depth: lower "
		       "request.window";
	case -ENOMEM:
		return "allow the process more memory, for an RDMA device " ADVICE_LOCKED_MEMORY
		       ", or lower server.max_connections or request.window";
	default:
		return "the client may have given up; if this repeats, check the device and the "
		       "network";
	}
}

/* Starts to close a connection, as client_ends() has it; further calls do nothing. */
static void conn_close(struct net *net, struct conn *conn, enum client_end end)
{
	if (conn->stage != CONN_LIVE)
		return;
	(void)client_ends(&conn->client, end);
	conn_set_stage(net, conn, CONN_FLUSHING);
	log_debug(CONN_FMT ": closing", CONN_ARG(conn));
	conn_ops(conn)->disconnect(conn->id);
}

static void client_close(struct net *net, struct client *client, enum client_end end)
{
	if (client_is_session(client))
		session_manager_close(session_of(client), end);
	else
		conn_close(net, client_conn(client), end);
}

/*
 * A queue pair that was being accepted may have taken receives from the shared queue already, so it
 * ends like that of any other connection, after its last completion.
 */
static void connect_failed(struct net *net, const struct nic *nic, struct cm_id *id, int err)
{
	enum wire_reject_reason reason = WIRE_REJECT_ERROR;
	const char *text = "the server could not set up the connection";

	if (err == -ENOSPC) {
		reason = WIRE_REJECT_FULL;
		text = "the server's device has no memory window left (rdma.windows)";
	}
	log_ratelimited(LOG_ERROR, 1, "device %s: can't accept a connection, %llu are open: %s; %s",
			nic->dev->name, (unsigned long long)net->stats.connections, strerror(-err),
			connect_advice(err));
	if (!id->context) {
		connect_refuse(net, id, reason, text);
		return;
	}
	connect_reject(net, id, reason, text);
	conn_close(net, id->context, CLIENT_FAILED);
}

/* False: the client may not connect, and has been refused. @user: as for connect_accept(). */
static bool connect_admit(struct net *net, struct cm_id *id, const struct user **user)
{
	const struct config *config = net->env.config;
	struct admission admission;
	struct cm_peer peer;

	*user = NULL;
	if (!net->users && !*config->rdma.networks && !config->users.require_identity)
		return true;
	if (id->dev->ops->query_peer(id, &peer)) {
		connect_refuse(net, id, WIRE_REJECT_ERROR,
			       "the server can't tell who the client is");
		return false;
	}
	admission_decide(&admission, net->users, &net->accounts, config, id->dev->kind, &peer);
	*user = admission.user;
	if (!admission.reason)
		return true;
	stat_add(&net->stats.connections_not_allowed, admission.reason == WIRE_REJECT_USER);
	stat_add(&net->stats.connections_over_limit, admission.reason == WIRE_REJECT_LIMIT);
	connect_refuse(net, id, admission.reason, admission.text);
	return false;
}

/* Whether the client's identity was revoked while it connected. */
static bool connect_revoked(const struct net *net, struct cm_id *id)
{
	struct cm_peer peer;

	return !id->dev->ops->query_peer(id, &peer) &&
	       revoked_find(net->revoked, &peer, clock_ns());
}

static void connect_handle(struct net *net, struct nic *nic, const struct cm_event *event)
{
	char text[WIRE_REJECT_TEXT_BYTES];
	struct wire_connect connect;
	struct tenant *tenant;
	struct poller *poller;
	bool full, admin = false;
	const struct user *user;
	int err;

	if (!connect_parse(&connect, event, text)) {
		connect_refuse(net, event->id, WIRE_REJECT_VERSION, text);
		return;
	}
	if (net->stopping) {
		connect_refuse(net, event->id, WIRE_REJECT_STOPPING, "the server is stopping");
		return;
	}
	if (nic->state != NIC_SERVES) {
		connect_refuse(net, event->id, WIRE_REJECT_ERROR, "the server's device has failed");
		return;
	}
	if (connect_revoked(net, event->id)) {
		connect_refuse(net, event->id, WIRE_REJECT_ERROR,
			       "the client's identity was revoked while it connected");
		return;
	}
	if (!connect_admit(net, event->id, &user))
		return;
	tenant = connect_tenant(net, nic, &connect, user, text);
	if (!tenant) {
		connect_refuse(net, event->id, WIRE_REJECT_TENANT, text);
		return;
	}
	full = net->stats.connections - net->admins_count >=
	       net->env.config->server.max_connections;
	poller = full ? NULL : poller_choose(net, nic);
	if (!poller) {
		admin = true;
		poller = poller_choose_admin(net, nic, event->id);
	}
	if (!poller) {
		connect_refuse(net, event->id, WIRE_REJECT_FULL,
			       full ? "server.max_connections is reached" :
				      "every receive is taken by a connection (request.srq_depth)");
		return;
	}
	err = connect_accept(net, poller, tenant, event->id, admin, user);
	if (err)
		connect_failed(net, nic, event->id, err);
}

static void conn_quiesce(struct net *net, struct conn *conn)
{
	conn_set_stage(net, conn, CONN_QUIESCING);
	mailbox_send(&conn_worker(conn)->mailbox, &conn->notes[NOTE_QUIESCE]);
}

void conn_manager_device_failed(struct net *net, struct nic *nic, const char *what)
{
	struct conn *conn;

	if (nic->state != NIC_SERVES)
		return;
	log_error("device %s failed (%s): its connections are closed; kvd serves on it again when "
		  "it is back",
		  nic->name, what);
	stat_add(&net->stats.device_failures, 1);
	nic->state = NIC_CLOSING;
	atomic_store_explicit(&nic->gone, true, memory_order_relaxed);
	for (conn = net->conns; conn; conn = conn->next)
		if (conn->poller->nic == nic)
			conn_close(net, conn, CLIENT_DEVICE);
}

/*
 * The peer's READ got a remote access error, which ends its connection. The device may say so after
 * the peer has disconnected.
 */
static void access_refused(struct net *net, struct conn *conn)
{
	if (conn->access_refused)
		return;
	conn->access_refused = true;
	stat_add(&net->stats.access_errors, 1);
	log_ratelimited(LOG_WARN, 10,
			CONN_FMT ": closed: its client %s READ with a key that is not "
				 "its own, or outside the region",
			CONN_ARG(conn), conn->client.peer.address);
	conn_close(net, conn, CLIENT_ACCESS);
}

void conn_manager_cm_events(struct net *net, struct endpoint *endpoint)
{
	const struct device_ops *ops;
	unsigned int count = 0;
	struct cm_event event;

	if (!endpoint->channel)
		return;
	ops = endpoint->dev->ops;
	while (!ops->cm_get_event(endpoint->channel, &event)) {
		if (++count == EVENTS_AT_ONCE)
			net->events_left = true;
		switch (event.type) {
		case CM_CONNECT_REQUEST:
			connect_handle(net, endpoint->nic, &event);
			break;
		case CM_ESTABLISHED:
			break;
		case CM_DEVICE_REMOVED:
			conn_manager_device_failed(net, endpoint->nic, "it was removed");
			break;
		case CM_REJECTED:
		case CM_UNREACHABLE:
		case CM_DISCONNECTED:
			if (!event.id || !event.id->context)
				break;
			if (event.status == -EACCES)
				access_refused(net, event.id->context);
			conn_close(net, event.id->context, CLIENT_LEFT);
			break;
		}
		if (count >= EVENTS_AT_ONCE)
			return;
	}
}

/*
 * The connection of an event's queue pair, NULL if the queue pair is about to be destroyed. The
 * queue pair still exists: this thread destroys it, and no device reports events of a destroyed
 * one.
 */
static struct conn *event_conn(const struct ibv_qp *qp)
{
	struct conn *conn = qp->qp_context;

	return conn->stage <= CONN_FLUSHING ? conn : NULL;
}

static void last_wqe_reached(struct net *net, const struct ibv_qp *qp)
{
	struct conn *conn = event_conn(qp);

	if (!conn)
		return;
	conn_close(net, conn, CLIENT_LEFT);
	conn_quiesce(net, conn);
}

/* Iterates over all pollers, with *@at 0 at first; NULL at the end. */
static struct poller *poller_next(struct net *net, unsigned int *at)
{
	unsigned int worker = *at / NIC_MAX, nic = *at % NIC_MAX;

	if (worker >= net->worker_count)
		return NULL;
	*at += nic + 1 < net->nic_count ? 1 : NIC_MAX - nic;
	return &net->workers[worker].pollers[nic];
}

/* The event is one-shot; the next tick arms it again, so there is at most one a second. */
static void srq_limit_reached(struct net *net, struct nic *nic, const struct ibv_srq *srq)
{
	struct poller *poller;
	unsigned int at = 0;

	stat_add(&net->stats.srq_limits, 1);
	log_ratelimited(LOG_WARN, 1,
			"device %s: a shared receive queue has less than an eighth of its "
			"receives left: clients exceed their windows, or many use them fully at "
			"once (then raise request.srq_depth)",
			nic->dev->name);
	while ((poller = poller_next(net, &at)))
		if (poller->srq == srq)
			poller->limit_reached = true;
}

void conn_manager_arm_srq_limits(struct net *net)
{
	struct poller *poller;
	unsigned int at = 0;

	while ((poller = poller_next(net, &at)))
		if (poller->limit_reached) {
			poller->limit_reached = false;
			poller_arm_srq_limit(poller);
		}
}

/* Ends the connection: not every device flushes the queue pair by itself. */
static void qp_failed(struct net *net, const struct device_async_event *event)
{
	struct conn *conn = event_conn(event->qp);

	stat_add(&net->stats.async_errors, 1);
	if (!conn)
		return;
	if (event->type == IBV_EVENT_QP_ACCESS_ERR) {
		access_refused(net, conn);
		return;
	}
	log_ratelimited(LOG_WARN, 10, CONN_FMT ": closed: the device reports: %s", CONN_ARG(conn),
			ibv_event_type_str(event->type));
	conn_ends(conn, ibv_event_type_str(event->type));
	conn_close(net, conn, CLIENT_FAILED);
}

void conn_manager_async_events(struct net *net, struct nic *nic)
{
	struct device_async_event event;
	unsigned int count = 0;

	while (nic->dev && !nic->dev->ops->get_async_event(nic->dev, &event)) {
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
			conn_manager_device_failed(net, nic, ibv_event_type_str(event.type));
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
			qp_failed(net, &event);
			break;
		default:
			log_ratelimited(LOG_INFO, 10, "device %s reports: %s", nic->dev->name,
					ibv_event_type_str(event.type));
			break;
		}
		if (count >= EVENTS_AT_ONCE)
			return;
	}
}

/* Frees the list at @conn after a grace period: workers may still have one from conn_lookup(). */
static void conn_list_free(struct conn *conn)
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

/* NOTE_QUERY */
static void query_taken(struct net *net, struct conn *conn)
{
	if (conn->stage != CONN_LIVE)
		return;
	conn->queries = conn->query.op == WIRE_STATS  ? &net->stats_queries :
			conn->query.op == WIRE_TENANT ? &net->tenant_queries :
			conn->query.op == WIRE_CONFIG ? &net->config_queries :
							&net->queries;
	TAILQ_INSERT_TAIL(conn->queries, conn, query_entry);
}

/* The oldest query of the list, or NULL. */
static struct conn *query_next(struct query_list *queries)
{
	struct conn *conn = TAILQ_FIRST(queries);

	if (conn)
		query_forget(conn);
	return conn;
}

static void answer_send(struct conn *conn)
{
	mailbox_send(&conn_worker(conn)->mailbox, &conn->notes[NOTE_ANSWER]);
}

void conn_manager_answered(struct conn *conn)
{
	answer_send(conn);
}

void conn_manager_forget_query(struct conn *conn)
{
	query_forget(conn);
}

void conn_manager_close_tenant(struct net *net, const struct tenant *tenant)
{
	for (struct conn *conn = net->conns; conn; conn = conn->next)
		if (conn->client.part->tenant == tenant)
			conn_close(net, conn, CLIENT_TENANT);
	session_manager_close_tenant(net, tenant);
}

void conn_manager_close_workers(struct net *net, unsigned int first)
{
	for (struct conn *conn = net->conns; conn; conn = conn->next)
		if (conn_worker(conn)->number >= first)
			conn_close(net, conn, CLIENT_WORKER);
	session_manager_finish_workers(net, first);
}

void conn_manager_grant(struct net *net, const struct tenant *tenant, uint32_t extents)
{
	for (struct conn *conn = net->conns; conn; conn = conn->next) {
		if (conn->client.part->tenant != tenant || conn->stage != CONN_LIVE)
			continue;
		conn->extents_max = extents;
		/* Without windows its client goes on with what it has. */
		(void)grant_open(conn, extents);
	}
}

unsigned int conn_manager_close_extents(struct net *net, const struct tenant *tenant,
					uint32_t extents)
{
	unsigned int count = 0;

	for (struct conn *conn = net->conns; conn; conn = conn->next) {
		if (conn->client.part->tenant != tenant || conn->extents_max <= extents)
			continue;
		conn_close(net, conn, CLIENT_MEMORY);
		count++;
	}
	return count;
}

static void identities_count(struct net *net)
{
	const struct identities *identities = &net->identities;

	stat_set(&net->stats.identities, identities->count - identities->kept_count);
	stat_set(&net->stats.identities_kept, identities->kept_count);
	stat_set(&net->stats.identities_evicted, identities->evicted);
}

/* False: HELLO waits for another connection to end, identity_leave(). */
static bool query_claim(struct net *net, struct conn *conn)
{
	struct conn *closes;
	bool claimed;

	if (conn->query.op != WIRE_HELLO || !conn->query.hello.change_next)
		return true;
	claimed = identity_claim(&net->identities, conn, &closes);
	if (closes && closes->stage == CONN_LIVE) {
		log_ratelimited(LOG_NOTICE, 10, CONN_FMT ": closed: its client connected anew",
				CONN_ARG(closes));
		stat_add(&net->stats.connections_replaced, 1);
		conn_close(net, closes, CLIENT_REPLACED);
	}
	stat_add(&net->stats.identities_refused, claimed && !conn->identity);
	identities_count(net);
	return claimed;
}

/* Whether nothing that a peer posts to the connection's queue pair succeeds any more. */
static bool conn_is_cut(const struct conn *conn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_UNKNOWN };

	if (conn->stage == CONN_RELEASING ||
	    atomic_load_explicit(&conn->poller->nic->gone, memory_order_relaxed))
		return true;
	return !conn_ops(conn)->query_qp(conn->qp, &attr, IBV_QP_STATE) &&
	       attr.qp_state == IBV_QPS_ERR;
}

/*
 * Revokes all matching connections but the one that asks. BUSY: the device has not yet put a queue
 * pair in error; it will be destroyed soon, and the client asks again.
 */
static void revoke_run(struct net *net, struct conn *asks)
{
	struct query *query = &asks->query;
	char text[PRINCIPAL_BYTES + 1];
	unsigned int left = 0, sessions;
	struct revoke revoke;
	struct conn *conn;

	query->closed = 0;
	query->status = WIRE_INVALID;
	if (!revoke_parse(&revoke, query->text, query->len))
		return;
	query->status = WIRE_BUSY;
	if (!revoked_add(net->revoked, &revoke, clock_ns()))
		return;
	for (conn = net->conns; conn; conn = conn->next) {
		if (conn == asks || !revoke_matches(&revoke, &conn->client))
			continue;
		stat_add(&net->stats.connections_revoked, conn->stage == CONN_LIVE);
		query->closed += conn->stage != CONN_RELEASING;
		conn_close(net, conn, CLIENT_REVOKED);
		left += !conn_is_cut(conn);
	}
	sessions = session_manager_revoke(net, &revoke);
	query->closed += sessions;
	left += sessions;
	log_ratelimited(LOG_NOTICE, 10, "revoked %.*s, asked for by %s: %llu connections closed",
			(int)query->len, query->text, asks->client.peer.address,
			(unsigned long long)query->closed);
	if (!left)
		query->status = query->closed ? WIRE_OK : WIRE_NOT_FOUND;
	snprintf(text, sizeof(text), "%.*s", (int)query->len, query->text);
	audit_admin(&asks->client, "REVOKE", text, left ? "not all are closed yet" : "ok");
}

static void kill_audit(const struct conn *asks, const struct client *kill)
{
	char target[sizeof("connection") + 20];

	if (asks->query.op != WIRE_KILL)
		return;
	snprintf(target, sizeof(target), "connection %" PRIu64, asks->query.arg);
	audit_admin(&asks->client, "KILL", target, kill ? "ok" : "there is no such connection");
}

/* A connection that asks for its own end gets no answer. */
static void query_run(struct net *net, struct conn *conn)
{
	struct client *kill;

	if (!query_claim(net, conn))
		return;
	if (conn->query.op == WIRE_REVOKE) {
		revoke_run(net, conn);
		conn->query.len = 0;
		answer_send(conn);
		return;
	}
	kill = query_answer(net, conn);
	kill_audit(conn, kill);
	if (kill) {
		log_ratelimited(LOG_NOTICE, 10,
				"connection of %s: closed: %s asked for it (KILL %llu)",
				kill->peer.address, conn->client.peer.address,
				(unsigned long long)kill->number);
		stat_add(&net->stats.connections_killed, 1);
		client_close(net, kill, CLIENT_KILLED);
	}
	if (conn->stage == CONN_LIVE)
		answer_send(conn);
}

/* The principal for whom statistics are made; NULL: one that may see those of others. */
static const struct principal *conn_viewer(const struct conn *conn)
{
	return client_sees_others(&conn->client) ? NULL : conn->client.principal;
}

static bool is_viewer(const struct conn *conn, const struct principal *viewer)
{
	const struct principal *own = conn_viewer(conn);

	return own && viewer ? principal_is(own, viewer) : own == viewer;
}

/*
 * All waiting requests arrived before this snapshot is started. Requests of another tenant than the
 * first one's, of another viewer, and those left over, get the next snapshot.
 */
static void stats_run(struct net *net)
{
	const struct conn *first = TAILQ_FIRST(&net->stats_queries);
	const struct tenant *tenant = first->client.part->tenant;
	const struct principal *viewer = conn_viewer(first);
	struct snapshot *snapshot = snapshot_make(&net->env, tenant, viewer);
	struct conn *conn, *next;
	unsigned int i = 0;

	for (conn = TAILQ_FIRST(&net->stats_queries); conn && i < QUERIES_AT_ONCE; conn = next) {
		next = TAILQ_NEXT(conn, query_entry);
		if (conn->client.part->tenant != tenant || !is_viewer(conn, viewer))
			continue;
		query_forget(conn);
		conn->query.stats = snapshot_share(snapshot);
		answer_send(conn);
		i++;
	}
	snapshot_drop(snapshot);
	net->stats_at_ns = clock_ns() + STATS_INTERVAL_NS;
}

void conn_manager_answer(struct net *net, uint64_t now_ns)
{
	struct conn *conn;
	unsigned int i;

	for (i = 0; i < QUERIES_AT_ONCE && (conn = query_next(&net->queries)); i++)
		query_run(net, conn);
	if (!TAILQ_EMPTY(&net->queries))
		net->events_left = true;
	if (!TAILQ_EMPTY(&net->stats_queries) && now_ns >= net->stats_at_ns)
		stats_run(net);
}

int conn_manager_wait_ms(const struct net *net, int wait_ms)
{
	uint64_t now_ns, due_ms = 0;

	wait_ms = logins_wait_ms(&net->logins, wait_ms);
	if (TAILQ_EMPTY(&net->stats_queries))
		return wait_ms;
	now_ns = clock_ns();
	if (net->stats_at_ns > now_ns)
		due_ms = (net->stats_at_ns - now_ns) / NS_PER_MS + 1;
	return due_ms < (uint64_t)wait_ms ? (int)due_ms : wait_ms;
}

/* No request of the connection is executed any more. A HELLO that waited for that goes on. */
static void conn_quiesced(struct net *net, struct conn *conn)
{
	struct conn *heir = identity_leave(&net->identities, conn, clock_ns());

	if (heir)
		query_taken(net, heir);
	identities_count(net);
	conn->stage = CONN_RELEASING;
	grant_close(conn);
	conn_ops(conn)->destroy_qp(conn->id);
	mailbox_send(&conn_worker(conn)->mailbox, &conn->notes[NOTE_RELEASE]);
}

void conn_manager_read_mail(struct net *net)
{
	struct conn *conn, *released = NULL;
	struct note *note, *next;

	for (note = mailbox_take(&net->mailbox); note; note = next) {
		next = note->next;
		conn = note->conn;
		switch (note->kind) {
		case NOTE_FAILED:
			conn_close(net, conn, CLIENT_FAILED);
			break;
		case NOTE_QUERY:
			query_taken(net, conn);
			break;
		case NOTE_QUIESCED:
			conn_quiesced(net, conn);
			break;
		case NOTE_RELEASED:
			conn_list_remove(net, conn);
			conn->next = released;
			released = conn;
			break;
		case NOTE_DETACHED:
			note->poller->nic->workers_left--;
			break;
		case NOTE_TENANT_DETACHED:
			net->command.workers_left--;
			break;
		case NOTE_TENANT_DONE:
			net->jobs.runs = false;
			break;
		case NOTE_PASSWORD_DONE:
			session_manager_password_checked(net);
			break;
		case NOTE_SESSION_ASKS:
		case NOTE_SESSION_ENDED:
			session_manager_note(net, note);
			break;
		case NOTE_HANDSHAKES:
			session_manager_handshakes(net);
			break;
		default:
			break;
		}
	}
	conn_list_free(released);
}

static void hello_due(struct net *net, struct conn *conn, uint64_t now_ns)
{
	/* A HELLO that waits for this thread is not late. */
	if (atomic_load_explicit(&conn->hello_taken, memory_order_relaxed)) {
		if (net->env.config->server.keepalive_interval && keepalive_needed(conn))
			conn_timer_set(&net->timers, conn, CONN_TIMER_KEEPALIVE, now_ns);
		return;
	}
	log_ratelimited(LOG_WARN, 10,
			CONN_FMT ": closed: no valid HELLO within server.handshake_timeout",
			CONN_ARG(conn));
	stat_add(&net->stats.connections_expired, 1);
	conn_close(net, conn, CLIENT_HELLO_LATE);
}

static void keepalive_due(struct net *net, struct conn *conn, uint64_t now_ns)
{
	conn_timer_set(&net->timers, conn, CONN_TIMER_KEEPALIVE, now_ns);
	switch (keepalive_check(conn)) {
	case KEEPALIVE_NOTHING:
		break;
	case KEEPALIVE_PROBE:
		stat_add(&net->stats.keepalive_probes, 1);
		mailbox_send(&conn_worker(conn)->mailbox, &conn->notes[NOTE_PROBE]);
		break;
	case KEEPALIVE_DEAD:
		log_ratelimited(LOG_WARN, 10,
				CONN_FMT ": closed: the client's device did not answer a keepalive "
					 "probe within 2 intervals of server.keepalive_interval",
				CONN_ARG(conn));
		stat_add(&net->stats.connections_expired, 1);
		conn_close(net, conn, CLIENT_SILENT);
		break;
	}
}

void conn_manager_expire(struct net *net, uint64_t now_ns)
{
	struct conn *conn;

	while ((conn = conn_timer_take(&net->timers, CONN_TIMER_FLUSH, now_ns)))
		conn_quiesce(net, conn);
	while ((conn = conn_timer_take(&net->timers, CONN_TIMER_HELLO, now_ns)))
		hello_due(net, conn, now_ns);
	while ((conn = conn_timer_take(&net->timers, CONN_TIMER_KEEPALIVE, now_ns)))
		keepalive_due(net, conn, now_ns);
	session_manager_expire(net, now_ns);
	identities_expire(&net->identities, now_ns);
	identities_count(net);
}

void conn_manager_close_all(struct net *net)
{
	struct conn *conn;

	for (conn = net->conns; conn; conn = conn->next)
		conn_close(net, conn, CLIENT_STOP);
	session_manager_close_all(net);
}

/* True: the connection has a new user now, and no longer uses the old snapshot. */
static bool conn_renew_user(struct net *net, struct conn *conn, struct users *users)
{
	if (conn->stage != CONN_LIVE)
		return false;
	if (client_user_renew(&conn->client, users, !conn->query.by_request))
		return true;
	stat_add(&net->stats.connections_withdrawn, 1);
	conn_close(net, conn, CLIENT_USERS);
	return false;
}

/* Open connections have the previous users; closing ones may have older ones, and keep them. */
static void set_users(struct net *net, struct users *users)
{
	struct users *before = net->users;
	struct conn *conn;
	bool renewed = session_manager_renew_users(net, users);

	for (conn = net->conns; conn; conn = conn->next)
		renewed |= conn_renew_user(net, conn, users);
	if (renewed && before)
		synchronize_rcu(); /* no worker has a previous user any more */
	for (conn = net->conns; conn; conn = conn->next) {
		users_put(conn->client.users_old);
		conn->client.users_old = NULL;
	}
	session_manager_put_users(net);
	users_put(before);
	net->users = users;
	net->users_sized = 0;
	stat_set(&net->stats.users, users ? users->count : 0);
}

void conn_manager_renew_users(struct net *net)
{
	struct users *users;

	if (admission_load(&users, net->env.config)) {
		log_error("the users stay as they were: fix users.file and reload again");
		audit_admin(NULL, "reload", "users", "users.file has errors: the log has them");
		return;
	}
	if (!users && !net->users)
		return;
	set_users(net, users);
	log_notice("[users]: %llu users", (unsigned long long)net->stats.users);
	audit_admin(NULL, "reload", "users", "ok");
}

/* Deadlines under way begin anew, so the list stays in their order. */
static void keepalive_renew(struct net *net, uint64_t interval_ns)
{
	const uint64_t now_ns = clock_ns();
	struct conn *conn;

	if (net->timers.delays_ns[CONN_TIMER_KEEPALIVE] == interval_ns)
		return;
	net->timers.delays_ns[CONN_TIMER_KEEPALIVE] = interval_ns;
	for (conn = net->conns; conn; conn = conn->next) {
		if (conn->timer_due_ns ? conn->timer != CONN_TIMER_KEEPALIVE :
					 conn->stage != CONN_LIVE)
			continue;
		conn_timer_cancel(&net->timers, conn);
		if (interval_ns && keepalive_needed(conn))
			conn_timer_set(&net->timers, conn, CONN_TIMER_KEEPALIVE, now_ns);
	}
}

void conn_manager_renew_options(struct net *net)
{
	const struct config *config = net->env.config;
	struct worker_limits *limits;

	keepalive_renew(net, config->server.keepalive_interval);
	net->identities.keep_ns = config->server.identity_time;
	for (unsigned int i = 0; i < net->worker_count; i++) {
		limits = &net->workers[i].limits;
		stat_set(&limits->spin_ns, config->server.spin_time);
		stat_set(&limits->pull_ns, config->server.pull_timeout);
		stat_set(&limits->pull_stall_ns, config->server.pull_stall);
		/* One that sleeps has not seen a new memcached.idle_timeout. */
		mailbox_wake(&net->workers[i].mailbox);
	}
}

bool conn_manager_pulling(const struct net *net)
{
	unsigned int i;

	for (i = 0; i < net->worker_count; i++)
		if (stat_read(&net->workers[i].pulls_count))
			return true;
	return false;
}

bool conn_manager_flushing(const struct net *net)
{
	return conn_timer_any(&net->timers, CONN_TIMER_FLUSH);
}

void conn_manager_init(struct net *net)
{
	const uint64_t delays_ns[CONN_TIMER_KINDS] = {
		[CONN_TIMER_HELLO] = net->env.config->server.handshake_timeout,
		[CONN_TIMER_KEEPALIVE] = net->env.config->server.keepalive_interval,
		[CONN_TIMER_FLUSH] = FLUSH_WAIT_NS,
	};

	conn_timers_init(&net->timers, delays_ns);
	TAILQ_INIT(&net->queries);
	TAILQ_INIT(&net->stats_queries);
	TAILQ_INIT(&net->tenant_queries);
	TAILQ_INIT(&net->config_queries);
	LIST_INIT(&net->sessions);
	TAILQ_INIT(&net->sessions_locked);
}

void conn_manager_free_all(struct net *net)
{
	struct conn *conn;

	while (net->conns) {
		conn = net->conns;
		conn_timer_cancel(&net->timers, conn);
		conn_list_remove(net, conn);
		table_remove(conn);
		grant_close(conn);
		conn_destroy(conn);
	}
	session_manager_free_all(net);
}
