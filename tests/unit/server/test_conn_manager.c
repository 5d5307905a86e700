/* SPDX-License-Identifier: MIT */
/*
 * Tests of the control thread's half of connections: which clients are accepted, every way to
 * the end, in which order, and what the events of a device do to the server. The connections'
 * module is compiled here with a clock, a grace period and an end of connections of the test's own;
 * the device is a table of functions that keep what was called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "server/worker/conn.h"
#include "tests/support/default_tenant.h"
#include "tests/support/log_fixture.h"
#include "tests/support/users_file.h"

static uint64_t test_now;
static void grace_period(void);
static void conn_destroyed(struct conn *conn);

static uint64_t test_clock_ns(void)
{
	return test_now;
}

#undef synchronize_rcu
#define synchronize_rcu grace_period
#define clock_ns test_clock_ns
#define conn_destroy conn_destroyed
/* Logs each line: what the case before has logged in the same second must not count. */
#define log_limit_check(limit, level, per_second) ((void)(limit), true)
#include "server/control/conn_manager.c"
#undef log_limit_check
#undef synchronize_rcu
#undef clock_ns
#undef conn_destroy

#define SECOND_NS 1000000000ull
#define WORKERS 2
#define CONNS 8
#define EVENTS 200
#define SRQ_DEPTH 64u
#define OTHER_UID 61234

static struct net net;
static struct store store; /* nothing but its clock */
static struct config config;
static struct worker workers[WORKERS];
static struct tenant tenant;
static struct ibv_mr mr;
static struct ibv_srq srqs[WORKERS];
static struct cm_channel channel;

/* What the device reports, oldest first. */
static struct cm_event cm_events[EVENTS];
static struct device_async_event async_events[EVENTS];
static unsigned int cm_count, cm_taken, async_count, async_taken;

/* What it was asked for. */
static unsigned int disconnects, qps_destroyed, ids_destroyed, rejects, accepts, limits_armed;
static struct wire_reject rejected;
static const struct ibv_srq *limit_of;
static int accept_error, create_error, alloc_error, query_error;
static bool disconnect_fails;
static const char *peer_identity; /* of who connects */
static uint64_t peer_since;
static unsigned int mws_count; /* memory windows */
static struct ibv_mw mws[CONNS];
static uid_t peer_uid; /* of who connects */

static unsigned int grace_periods, conns_destroyed, snapshots;
static struct ibv_qp qps[CONNS];
static struct cm_id ids[CONNS];
static unsigned int id_count;

static int cm_get_event(struct cm_channel *from, struct cm_event *event)
{
	assert_ptr_equal(from, &channel);
	if (cm_taken == cm_count)
		return -EAGAIN;
	*event = cm_events[cm_taken++];
	return 0;
}

static int get_async_event(struct device *dev, struct device_async_event *event)
{
	(void)dev;
	if (async_taken == async_count)
		return -EAGAIN;
	*event = async_events[async_taken++];
	return 0;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	assert_non_null(qp);
	assert_int_equal(mask, IBV_QP_STATE);
	attr->qp_state = qp->state;
	return query_error;
}

static int disconnect(struct cm_id *id)
{
	assert_non_null(id->qp);
	if (!disconnect_fails)
		id->qp->state = IBV_QPS_ERR;
	disconnects++;
	return 0;
}

static int alloc_mw(struct ibv_pd *pd, struct ibv_mw **mw)
{
	(void)pd;
	if (alloc_error)
		return alloc_error;
	*mw = &mws[mws_count++];
	return 0;
}

static void dealloc_mw(struct ibv_mw *mw)
{
	(void)mw;
	assert_true(mws_count > 0);
	mws_count--;
}

static void destroy_qp(struct cm_id *id)
{
	const struct conn *conn = id->context;
	const struct note *note = conn->poller->worker->mailbox.first;

	assert_non_null(id->qp);
	/* A queue pair must have no windows left. */
	assert_null(conn->mws[0]);
	/* The worker releases what the device may use until then. */
	for (; note; note = note->next)
		assert_true(note != &conn->notes[NOTE_RELEASE]);
	id->qp = NULL;
	qps_destroyed++;
}

static void destroy_id(struct cm_id *id)
{
	(void)id;
	ids_destroyed++;
}

static int reject(struct cm_id *id, const void *data, uint8_t len)
{
	(void)id;
	assert_int_equal(len, sizeof(rejected));
	memcpy(&rejected, data, sizeof(rejected));
	rejects++;
	return 0;
}

static int accept_id(struct cm_id *id, const struct cm_param *param)
{
	assert_non_null(id->qp);
	assert_int_equal(param->retry_count, RETRY_COUNT);
	assert_int_equal(param->rnr_retry_count, RNR_RETRY_COUNT);
	assert_int_equal(param->min_rnr_timer, MIN_RNR_TIMER);
	accepts++;
	return accept_error;
}

static int create_qp(struct cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int access)
{
	(void)pd;
	assert_int_equal(access, net.nics[0].windows ? IBV_ACCESS_MW_BIND : 0);
	if (create_error)
		return create_error;
	id->qp = &qps[id - ids];
	id->qp->qp_num = (uint32_t)(id - ids) + 100;
	id->qp->qp_context = attr->qp_context;
	id->qp->state = IBV_QPS_RTS;
	return 0;
}

static int query_peer(struct cm_id *id, struct cm_peer *peer)
{
	(void)id;
	*peer = (struct cm_peer){ .address = "10.0.0.1:5", .uid_known = true, .uid = peer_uid };
	peer->identity = peer_identity;
	peer->since_ns = peer_since;
	return 0;
}

static int modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	assert_int_equal(mask, IBV_SRQ_LIMIT);
	assert_int_equal(attr->srq_limit, SRQ_DEPTH / 8);
	limit_of = srq;
	limits_armed++;
	return 0;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	assert_non_null(qp);
	assert_int_equal(mask, IBV_QP_ACCESS_FLAGS);
	assert_int_equal(attr->qp_access_flags,
			 IBV_ACCESS_REMOTE_READ | (net.nics[0].windows ? IBV_ACCESS_MW_BIND : 0));
	return 0;
}

static const struct device_ops ops = {
	.cm_get_event = cm_get_event,
	.get_async_event = get_async_event,
	.disconnect = disconnect,
	.alloc_mw = alloc_mw,
	.dealloc_mw = dealloc_mw,
	.query_qp = query_qp,
	.destroy_qp = destroy_qp,
	.destroy_id = destroy_id,
	.reject = reject,
	.accept = accept_id,
	.create_qp = create_qp,
	.query_peer = query_peer,
	.modify_srq = modify_srq,
	.modify_qp = modify_qp,
};
static struct device dev = { .name = "fake0", .ops = &ops };

/*
 * Workers may have found a connection before it left its table: none is freed before that has
 * ended. At the end of all, the workers have stopped, and queue pairs may be left.
 */
static bool grace_ended, workers_stopped;

static void grace_period(void)
{
	grace_periods++;
	grace_ended = true;
}

static void conn_destroyed(struct conn *conn)
{
	if (!workers_stopped) {
		assert_true(grace_ended);
		assert_null(conn->id->qp);
	}
	conns_destroyed++;
	conn_destroy(conn);
}

static const struct principal *snapshot_viewer;

static uint32_t print_stats(const struct stats_source *source, const struct tenant *of,
			    const struct principal *viewer, char *text, uint32_t size)
{
	(void)source;
	(void)of;
	snapshot_viewer = viewer;
	snapshots++;
	return (uint32_t)snprintf(text, size, "snapshot %u\n", snapshots);
}

static int setup(void **state)
{
	(void)state;
	rcu_register_thread();
	rcu_thread_offline();
	memset(&net, 0, sizeof(net));
	memset(workers, 0, sizeof(workers));
	memset(ids, 0, sizeof(ids));
	cm_count = cm_taken = async_count = async_taken = id_count = 0;
	disconnects = qps_destroyed = ids_destroyed = rejects = accepts = limits_armed = 0;
	grace_periods = conns_destroyed = snapshots = 0;
	workers_stopped = false;
	dev.kind = DEVICE_SOFTNIC;
	accept_error = create_error = alloc_error = query_error = 0;
	disconnect_fails = false;
	peer_identity = NULL;
	peer_since = 0;
	peer_uid = OTHER_UID;
	test_now = 1000 * SECOND_NS;
	config.server.max_connections = CONNS - 2;
	config.server.handshake_timeout = 10 * SECOND_NS;
	config.server.keepalive_interval = 0;
	net.env.config = &config;
	net.env.stats_print = print_stats;
	net.workers = workers;
	net.worker_count = net.env.workers = WORKERS;
	net.nic_count = 1;
	default_tenant_init(&tenant, &store, workers, WORKERS);
	tenant.now.mrs[0][0] = &mr;
	atomic_store(&tenant.now.extents, 1);
	net.tenants.list[0] = &tenant;
	net.nics[0].dev = &dev;
	memcpy(net.nics[0].name, dev.name, sizeof(dev.name));
	net.endpoints[0] =
		(struct endpoint){ .dev = &dev, .nic = &net.nics[0], .channel = &channel };
	net.endpoint_count = 1;
	for (unsigned int i = 0; i < WORKERS; i++) {
		struct poller *poller = &workers[i].pollers[0];

		workers[i].number = i;
		workers[i].env = &net.env;
		poller->worker = &workers[i];
		poller->nic = &net.nics[0];
		poller->srq = &srqs[i];
		poller->limits.srq_depth = SRQ_DEPTH;
		poller->limits.conns_max = CONNS;
		poller->limits.window = 8;
		poller->conns = cds_lfht_new(16, 16, 16, 0, NULL);
		assert_int_equal(mailbox_init(&workers[i].mailbox), 0);
	}
	assert_int_equal(mailbox_init(&net.mailbox), 0);
	assert_int_equal(conn_registry_init(&net.registry, CONNS), 0);
	assert_int_equal(identities_init(&net.identities, 4, SECOND_NS), 0);
	accounts_init(&net.accounts);
	conn_manager_init(&net);
	return test_log_begin();
}

/* All connections have ended, and nothing is left of them. */
static int teardown(void **state)
{
	(void)state;
	log_init(LOG_OFF, NULL);
	assert_null(net.conns);
	assert_null(net.accounts.tree);
	assert_int_equal(net.stats.connections, 0);
	assert_int_equal(mws_count, 0);
	for (unsigned int i = 0; i < WORKERS; i++) {
		assert_int_equal(workers[i].pollers[0].conns_count, 0);
		assert_null(mailbox_take(&workers[i].mailbox));
		mailbox_release(&workers[i].mailbox);
		assert_int_equal(cds_lfht_destroy(workers[i].pollers[0].conns, NULL), 0);
	}
	for (unsigned int kind = 0; kind < CONN_TIMER_KINDS; kind++)
		assert_false(conn_timer_any(&net.timers, (enum conn_timer)kind));
	mailbox_release(&net.mailbox);
	identities_release(&net.identities);
	conn_registry_release(&net.registry);
	rcu_thread_online();
	rcu_unregister_thread();
	return 0;
}

static struct cm_event *add_cm(enum cm_event_type type, struct cm_id *id)
{
	struct cm_event *event = &cm_events[cm_count++];

	*event = (struct cm_event){ .type = type, .id = id };
	return event;
}

static struct device_async_event *add_async(enum ibv_event_type type)
{
	struct device_async_event *event = &async_events[async_count++];

	*event = (struct device_async_event){ .type = type };
	return event;
}

static const struct wire_connect good_connect = {
	.magic = WIRE_MAGIC,
	.abi = WIRE_ABI,
};

static void add_connect_of(struct wire_connect connect)
{
	struct cm_event *event;

	ids[id_count].dev = &dev;
	event = add_cm(CM_CONNECT_REQUEST, &ids[id_count++]);
	memcpy(event->private_data, &connect, sizeof(connect));
	event->private_len = sizeof(connect);
}

static void add_connect(void)
{
	add_connect_of(good_connect);
}

static void take_events(void)
{
	conn_manager_cm_events(&net, &net.endpoints[0]);
	conn_manager_async_events(&net, &net.nics[0]);
}

static struct conn *connected(void)
{
	add_connect();
	take_events();
	assert_non_null(ids[id_count - 1].context);
	return ids[id_count - 1].context;
}

/* The worker has this note of that connection, and no other. */
static void assert_note(struct conn *conn, enum note_kind kind)
{
	struct note *note = mailbox_take(&conn->poller->worker->mailbox);

	assert_non_null(note);
	assert_null(note->next);
	assert_int_equal(note->kind, kind);
	assert_ptr_equal(note->conn, conn);
}

static void assert_no_note(const struct conn *conn)
{
	assert_null(mailbox_take(&conn->poller->worker->mailbox));
}

static void read_mail(void)
{
	grace_ended = false;
	conn_manager_read_mail(&net);
}

static void worker_says(struct conn *conn, enum note_kind kind)
{
	mailbox_send(&net.mailbox, &conn->notes[kind]);
	read_mail();
}

/* From QUIESCE, which the worker has been sent, to the end. */
static void finish(struct conn *conn)
{
	unsigned int qps_before = qps_destroyed, ids_before = ids_destroyed;

	assert_note(conn, NOTE_QUIESCE);
	assert_int_equal(conn->stage, CONN_QUIESCING);
	table_remove(conn); /* teardown_drained() */
	worker_says(conn, NOTE_QUIESCED);
	assert_int_equal(qps_destroyed, qps_before + 1);
	assert_note(conn, NOTE_RELEASE);
	assert_int_equal(conn->stage, CONN_RELEASING);
	assert_int_equal(ids_destroyed, ids_before);
	worker_says(conn, NOTE_RELEASED);
	assert_int_equal(ids_destroyed, ids_before + 1);
}

static void flush_late(void)
{
	conn_manager_expire(&net, test_now + FLUSH_WAIT_NS);
	test_now += FLUSH_WAIT_NS + 1;
	conn_manager_expire(&net, test_now);
}

/* Connections are freed after one grace period for all that ended together, and not earlier. */
static void freed_after_a_grace_period(void **state)
{
	struct conn *conns[3];
	uint64_t numbers[3];

	(void)state;
	read_mail();
	assert_int_equal(grace_periods, 0);
	for (unsigned int i = 0; i < 3; i++) {
		conns[i] = connected();
		numbers[i] = conns[i]->client.number;
		assert_ptr_equal(conn_registry_find(&net.registry, numbers[i]), &conns[i]->client);
	}
	assert_int_equal(net.stats.connections, 3);
	assert_int_equal(net.stats.connections_total, 3);
	conn_manager_close_all(&net);
	assert_int_equal(disconnects, 3);
	assert_true(conn_manager_flushing(&net));
	flush_late();
	assert_false(conn_manager_flushing(&net));
	for (unsigned int i = 0; i < 3; i++) {
		table_remove(conns[i]);
		worker_says(conns[i], NOTE_QUIESCED);
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		mailbox_take(&workers[i].mailbox);
	assert_int_equal(conns_destroyed, 0);
	assert_int_equal(net.stats.connections, 3);
	for (unsigned int i = 0; i < 3; i++)
		mailbox_send(&net.mailbox, &conns[i]->notes[NOTE_RELEASED]);
	assert_int_equal(grace_periods, 0);
	read_mail();
	assert_int_equal(grace_periods, 1);
	assert_int_equal(conns_destroyed, 3);
	assert_int_equal(ids_destroyed, 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_null(conn_registry_find(&net.registry, numbers[i]));
	assert_int_equal(net.stats.connections_total, 3);
}

/* However a connection ends, the steps are the same, and each is made once. */
static void ends_in_order(void **state)
{
	(void)state;
	for (unsigned int way = 0; way < 5; way++) {
		struct conn *conn = connected();
		unsigned int before = disconnects;

		switch (way) {
		case 0:
			add_cm(CM_DISCONNECTED, conn->id);
			add_cm(CM_DISCONNECTED, conn->id);
			break;
		case 1:
			add_cm(CM_UNREACHABLE, conn->id);
			break;
		case 2:
			add_async(IBV_EVENT_QP_FATAL)->qp = conn->qp;
			add_async(IBV_EVENT_QP_ACCESS_ERR)->qp = conn->qp;
			break;
		case 3:
			worker_says(conn, NOTE_FAILED);
			break;
		case 4:
			conn_manager_close_all(&net);
			break;
		}
		take_events();
		conn_manager_close_all(&net);
		assert_int_equal(disconnects, before + 1);
		assert_int_equal(conn->stage, CONN_FLUSHING);
		conn_manager_expire(&net, test_now + FLUSH_WAIT_NS);
		assert_no_note(conn);
		if (way % 2) {
			/* Not every device raises the event, and some are late. */
			test_now += FLUSH_WAIT_NS + 1;
			conn_manager_expire(&net, test_now);
		} else {
			add_async(IBV_EVENT_QP_LAST_WQE_REACHED)->qp = conn->qp;
			take_events();
		}
		grace_periods = conns_destroyed = 0;
		finish(conn);
		assert_int_equal(grace_periods, 1);
		assert_int_equal(conns_destroyed, 1);
		assert_int_equal(net.stats.async_errors, way < 2 ? 0 : 2);
		id_count = 0;
	}
	assert_logged("closed: the device reports: local work queue catastrophic error");
}

/* Events of a queue pair that is about to be destroyed do nothing but count. */
static void late_events(void **state)
{
	struct conn *conn = connected();
	struct ibv_qp *qp = conn->qp;

	(void)state;
	add_async(IBV_EVENT_QP_LAST_WQE_REACHED)->qp = qp;
	take_events();
	assert_int_equal(disconnects, 1);
	add_async(IBV_EVENT_QP_LAST_WQE_REACHED)->qp = qp;
	add_async(IBV_EVENT_QP_REQ_ERR)->qp = qp;
	take_events();
	assert_int_equal(disconnects, 1);
	assert_int_equal(net.stats.async_errors, 1);
	finish(conn);
}

/* Without HELLO a connection ends at its deadline; with one it stays. */
static void hello_in_time(void **state)
{
	struct conn *late = connected(), *good = connected();

	(void)state;
	atomic_store(&good->hello_taken, true);
	conn_manager_expire(&net, test_now + config.server.handshake_timeout);
	assert_int_equal(disconnects, 0);
	test_now += config.server.handshake_timeout + 1;
	conn_manager_expire(&net, test_now);
	assert_int_equal(disconnects, 1);
	assert_int_equal(late->stage, CONN_FLUSHING);
	assert_int_equal(good->stage, CONN_LIVE);
	assert_int_equal(net.stats.connections_expired, 1);
	assert_logged("closed: no valid HELLO within server.handshake_timeout");
	add_cm(CM_DISCONNECTED, good->id);
	take_events();
	flush_late();
	finish(late);
	finish(good);
}

static void assert_refused(enum wire_reject_reason reason, const char *text)
{
	static unsigned int before;

	before = ids_destroyed;
	take_events();
	assert_int_equal(rejected.magic, WIRE_MAGIC);
	assert_int_equal(rejected.reason, reason);
	assert_non_null(strstr(rejected.text, text));
	assert_int_equal(ids_destroyed, before + 1);
	assert_null(ids[id_count - 1].context);
	id_count--;
}

static void refused(void **state)
{
	struct wire_connect connect = good_connect;
	unsigned int n = 0;

	(void)state;
	connect.magic++;
	add_connect_of(connect);
	connect = good_connect;
	assert_refused(WIRE_REJECT_VERSION, "does not speak");
	connect.abi++;
	add_connect_of(connect);
	connect = good_connect;
	assert_refused(WIRE_REJECT_VERSION, "");
	connect.reserved++;
	add_connect_of(connect);
	connect = good_connect;
	assert_refused(WIRE_REJECT_VERSION, "breaks the protocol");
	add_connect();
	cm_events[cm_count - 1].private_len = sizeof(connect) - 1;
	assert_refused(WIRE_REJECT_VERSION, "breaks the protocol");
	add_connect();
	cm_events[cm_count - 1].private_len = offsetof(struct wire_connect, tenant) - 1;
	assert_refused(WIRE_REJECT_VERSION, "does not speak");
	create_error = -ENOMEM;
	add_connect();
	assert_refused(WIRE_REJECT_ERROR, "could not set up");
	assert_logged("Cannot allocate memory; allow the process more memory");
	create_error = 0;
	assert_int_equal(rejects, 6);
	assert_int_equal(net.stats.connections_rejected, 6);
	assert_int_equal(net.stats.connections_total, 0);
	/* As many as there may be, and in equal parts. */
	for (; n < config.server.max_connections; n++)
		connected();
	for (unsigned int i = 0; i < WORKERS; i++)
		assert_int_equal(workers[i].pollers[0].conns_count, n / WORKERS);
	add_connect();
	assert_refused(WIRE_REJECT_FULL, "server.max_connections");
	config.server.max_connections++;
	for (unsigned int i = 0; i < WORKERS; i++)
		workers[i].pollers[0].limits.conns_max = n / WORKERS;
	add_connect();
	assert_refused(WIRE_REJECT_FULL, "request.srq_depth");
	net.stopping = true;
	add_connect();
	assert_refused(WIRE_REJECT_STOPPING, "stopping");
	assert_int_equal(accepts, n);
	workers_stopped = true;
	conn_manager_free_all(&net);
	assert_int_equal(conns_destroyed, n);
}

static struct tenant alpha = { .name = "alpha", .state = TENANT_SERVES };
static struct tenant_part alpha_parts[WORKERS];
static struct ibv_mr alpha_mr;

static void alpha_start(void)
{
	alpha.now.mrs[0][0] = &alpha_mr;
	for (unsigned int i = 0; i < WORKERS; i++) {
		alpha.now.parts[i] = &alpha_parts[i];
		alpha_parts[i].tenant = &alpha;
		alpha_parts[i].store = &store;
	}
	net.tenants.list[5] = &alpha;
}

/* The tenant that a client names; it is there, and serves on its device. */
static void tenants(void **state)
{
	struct wire_connect connect = good_connect;
	struct conn *conn;

	(void)state;
	alpha_start();
	strcpy(connect.tenant, "beta");
	add_connect_of(connect);
	assert_refused(WIRE_REJECT_TENANT, "there is no tenant beta");
	strcpy(connect.tenant, "a b");
	add_connect_of(connect);
	assert_refused(WIRE_REJECT_TENANT, "by an invalid name");
	strcpy(connect.tenant, "alpha");
	alpha.now.mrs[0][0] = NULL;
	add_connect_of(connect);
	assert_refused(WIRE_REJECT_TENANT, "alpha is not served on this device");
	alpha.now.mrs[0][0] = &alpha_mr;
	alpha.state = TENANT_CLOSING;
	add_connect_of(connect);
	assert_refused(WIRE_REJECT_TENANT, "alpha is being created, resized or dropped");
	alpha.state = TENANT_SERVES;
	assert_int_equal(alpha.conns_count, 0);
	add_connect_of(connect);
	take_events();
	conn = net.conns;
	assert_ptr_equal(conn->client.part, &alpha_parts[conn->poller->worker->number]);
	assert_ptr_equal(conn->mrs[0], &alpha_mr);
	assert_int_equal(alpha.conns_count, 1);
	assert_int_equal(tenant.conns_count, 0);
	/* One that names none. */
	add_connect();
	take_events();
	assert_ptr_equal(net.conns->client.part->tenant, &tenant);
	assert_ptr_equal(net.conns->mrs[0], &mr);
	workers_stopped = true;
	conn_manager_free_all(&net);
	assert_int_equal(alpha.conns_count, 0);
	assert_int_equal(tenant.conns_count, 0);
}

/* Administrators have places of their own beyond all others, and take none from these. */
static void administrators(void **state)
{
	struct conn *other;

	(void)state;
	config.server.max_connections = 1;
	for (unsigned int i = 0; i < WORKERS; i++)
		workers[i].pollers[0].limits.admins_max = 2;
	other = connected();
	peer_uid = 0;
	connected();
	connected();
	assert_int_equal(net.admins_count, 2);
	assert_false(other->admin);
	assert_true(net.conns->admin);
	assert_int_equal(other->sq_depth, poller_sq_depth(other->poller, 8) - MARKERS);
	assert_int_equal(net.conns->sq_depth, poller_sq_depth(other->poller, 1) - MARKERS);
	add_connect();
	assert_refused(WIRE_REJECT_FULL, "server.max_connections");
	peer_uid = OTHER_UID;
	add_connect();
	assert_refused(WIRE_REJECT_FULL, "server.max_connections");
	/* A place that becomes free is for anybody. */
	worker_says(other, NOTE_FAILED);
	flush_late();
	finish(other);
	connected();
	assert_int_equal(net.stats.connections, 3);
	assert_int_equal(net.admins_count, 2);
	add_connect();
	assert_refused(WIRE_REJECT_FULL, "server.max_connections");
	workers_stopped = true;
	conn_manager_free_all(&net);
	assert_int_equal(net.admins_count, 0);
}

/* The fabric pads what the client sends. */
static void padded(void **state)
{
	uint32_t serial = 0;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		add_connect();
		cm_events[cm_count - 1].private_len = (uint8_t)(sizeof(struct wire_connect) +
								16 * i);
		take_events();
		assert_true(net.conns->client.connected_ns == test_now);
		/* By which its completions are told from those of an older connection. */
		assert_int_not_equal(net.conns->serial, serial);
		serial = net.conns->serial;
	}
	workers_stopped = true;
	conn_manager_free_all(&net);
}

/* A connection gets, of its worker's pollers, the one that is on its device. */
static void second_device(void **state)
{
	static struct cm_channel other;
	struct nic *nic = &net.nics[1];
	struct conn *conn;

	(void)state;
	net.nic_count = net.endpoint_count = 2;
	*nic = (struct nic){ .dev = &dev };
	tenant.now.mrs[1][0] = &mr;
	net.endpoints[1] = (struct endpoint){ .dev = &dev, .nic = nic, .channel = &channel };
	net.endpoints[0].channel = &other;
	for (unsigned int i = 0; i < WORKERS; i++) {
		workers[i].pollers[1] = workers[i].pollers[0];
		workers[i].pollers[1].nic = nic;
		workers[i].pollers[1].limits.admins_max = 1;
		workers[i].pollers[1].srq = &srqs[!i];
		workers[i].pollers[0].conns_count = i + 1;
	}
	config.server.max_connections = 2;
	peer_uid = 0;
	for (unsigned int i = 0; i < 3; i++) {
		add_connect();
		conn_manager_cm_events(&net, &net.endpoints[1]);
		assert_ptr_equal(net.conns->poller, &workers[i % 2].pollers[1]);
		assert_int_equal(net.conns->admin, i == 2);
	}
	/* The limit of the receives, on either device. */
	for (unsigned int i = 0; i < 2 * WORKERS; i++) {
		struct poller *poller = &workers[i / 2].pollers[i % 2];

		poller->limit_reached = true;
		limit_of = NULL;
		conn_manager_arm_srq_limits(&net);
		assert_ptr_equal(limit_of, poller->srq);
		assert_false(poller->limit_reached);
	}
	assert_int_equal(limits_armed, 2 * WORKERS);
	workers_stopped = true;
	while ((conn = net.conns)) {
		conn_timer_cancel(&net.timers, conn);
		conn_list_remove(&net, conn);
		table_remove(conn);
		conn_destroyed(conn);
	}
	for (unsigned int i = 0; i < WORKERS; i++) {
		assert_int_equal(workers[i].pollers[1].conns_count, 0);
		workers[i].pollers[0].conns_count = 0;
	}
}

/* A queue pair that could not be accepted may have taken receives: it ends as all others do. */
static void accept_fails(void **state)
{
	struct conn *conn;

	(void)state;
	accept_error = -ECONNREFUSED;
	conn = connected();
	assert_int_equal(rejected.reason, WIRE_REJECT_ERROR);
	assert_int_equal(conn->stage, CONN_FLUSHING);
	assert_int_equal(ids_destroyed, 0);
	assert_int_equal(net.stats.connections, 1);
	/* The connection has the deadline of its flush alone. */
	assert_false(conn_timer_any(&net.timers, CONN_TIMER_HELLO));
	flush_late();
	finish(conn);
	assert_int_equal(net.stats.connections, 0);
	assert_int_equal(net.stats.connections_rejected, 1);
}

/* However the device says that a client READ what it may not, and whenever: once. */
static void reads_what_it_may_not(void **state)
{
	(void)state;
	for (unsigned int way = 0; way < 5; way++) {
		struct conn *conn = connected();

		net.stats.access_errors = 0;
		if (way == 0 || way == 1)
			add_async(IBV_EVENT_QP_ACCESS_ERR)->qp = conn->qp;
		if (way == 1)
			conn_close(&net, conn, CLIENT_LEFT); /* it disconnected meanwhile */
		if (way == 2)
			add_cm(CM_DISCONNECTED, conn->id)->status = -EACCES;
		if (way == 3) {
			add_cm(CM_DISCONNECTED, conn->id)->status = -EACCES;
			add_async(IBV_EVENT_QP_ACCESS_ERR)->qp = conn->qp;
		}
		if (way == 4)
			add_cm(CM_DISCONNECTED, conn->id)->status = -ECONNRESET;
		take_events();
		assert_int_equal(net.stats.access_errors, way < 4);
		assert_int_equal(conn->stage, CONN_FLUSHING);
		flush_late();
		finish(conn);
		id_count = 0;
	}
	assert_logged("closed: its client 10.0.0.1:5 READ with a key that is not its own");
}

/* Each connection has a memory window, from before it is accepted until its queue pair ends. */
static void memory_windows(void **state)
{
	struct conn *conn;

	(void)state;
	net.nics[0].windows = true;
	conn = connected();
	assert_ptr_equal(conn->mws[0], &mws[0]);
	conn->query.op = WIRE_HELLO;
	worker_says(conn, NOTE_QUERY);
	conn_manager_answer(&net, test_now);
	assert_note(conn, NOTE_ANSWER);
	assert_true(conn->query.granted);
	conn_close(&net, conn, CLIENT_LEFT);
	assert_int_equal(mws_count, 1);
	flush_late();
	finish(conn);
	assert_int_equal(mws_count, 0);
}

/* A client that the device has no window for hears so, and nothing is left of it. */
static void no_memory_window(void **state)
{
	struct conn *conn;

	(void)state;
	net.nics[0].windows = true;
	alloc_error = -ENOMEM;
	conn = connected();
	assert_null(conn->mws[0]);
	assert_int_equal(accepts, 0);
	assert_int_equal(rejects, 1);
	assert_int_equal(rejected.reason, WIRE_REJECT_FULL);
	assert_string_equal(rejected.text,
			    "the server's device has no memory window left (rdma.windows)");
	assert_logged("lower server.max_connections to what it has (`ibv_devinfo -v`, max_mw), or "
		      "set rdma.windows = no");
	flush_late();
	finish(conn);
}

/*
 * The event of a shared receive queue that gets short is counted and logged, and armed again by the
 * next tick, for that queue alone.
 */
static void srq_limit(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < WORKERS; i++) {
		add_async(IBV_EVENT_SRQ_LIMIT_REACHED)->srq = &srqs[i];
		take_events();
		assert_int_equal(net.stats.srq_limits, i + 1);
		assert_int_equal(limits_armed, i);
		for (unsigned int j = 0; j < WORKERS; j++)
			assert_int_equal(workers[j].pollers[0].limit_reached, i == j);
		conn_manager_arm_srq_limits(&net);
		conn_manager_arm_srq_limits(&net);
		assert_int_equal(limits_armed, i + 1);
		assert_ptr_equal(limit_of, &srqs[i]);
	}
	assert_logged("device fake0: a shared receive queue has less than an eighth");
	assert_int_equal(net.stats.async_errors, 0);
	assert_int_equal(net.nics[0].state, NIC_SERVES);
}

/*
 * A device that fails ends its connections and not the server; those who connect are told; and it
 * is logged once.
 */
static void device_fails(void **state)
{
	static const enum ibv_event_type types[] = { IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR,
						     IBV_EVENT_SRQ_ERR };
	struct nic *nic = &net.nics[0];
	struct conn *conn;

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		conn = connected();
		assert_int_equal(nic->conns_count, 1);
		if (i < 3)
			add_async(types[i]);
		else
			add_cm(CM_DEVICE_REMOVED, NULL);
		take_events();
		assert_int_equal(nic->state, NIC_CLOSING);
		assert_true(nic->gone);
		assert_int_equal(conn->stage, CONN_FLUSHING);
		assert_false(net.stopping);
		assert_int_equal(net.stats.async_errors, i < 3 ? i + 1 : 3);
		assert_int_equal(net.stats.device_failures, i + 1);
		add_connect();
		assert_refused(WIRE_REJECT_ERROR, "device has failed");
		flush_late();
		finish(conn);
		assert_int_equal(nic->conns_count, 0);
		nic->state = NIC_SERVES;
		nic->gone = false;
	}
	assert_logged("device fake0 failed (local catastrophic error): its connections are closed");
	assert_logged("device fake0 failed (it was removed): its connections are closed");
	/* Once it has, others are counted, and not logged. */
	nic->state = NIC_AWAY;
	assert_int_equal(test_log_begin(), 0);
	add_async(IBV_EVENT_DEVICE_FATAL);
	take_events();
	assert_int_equal(net.stats.async_errors, 4);
	assert_int_equal(net.stats.device_failures, 4);
	assert_null(strstr(test_log_text(), "failed"));
	/* Nor is anything asked of one that is released. */
	net.endpoints[0].channel = NULL;
	nic->dev = NULL;
	add_connect();
	add_async(IBV_EVENT_DEVICE_FATAL);
	take_events();
	assert_int_equal(net.stats.async_errors, 4);
}

/* The connections of other devices go on. */
static void another_device_fails(void **state)
{
	struct conn *conn = connected();
	struct nic *other = &net.nics[1];

	(void)state;
	other->state = NIC_SERVES;
	conn_manager_device_failed(&net, other, "test");
	assert_int_equal(other->state, NIC_CLOSING);
	assert_int_equal(net.nics[0].state, NIC_SERVES);
	assert_int_equal(conn->stage, CONN_LIVE);
	take_events();
	add_cm(CM_DISCONNECTED, conn->id);
	take_events();
	flush_late();
	finish(conn);
}

/* Each worker says when it does not poll a device any more. */
static void detached(void **state)
{
	struct poller *poller = &workers[1].pollers[0];

	(void)state;
	net.nics[0].workers_left = 2;
	poller->note = (struct note){ .poller = poller, .kind = NOTE_DETACHED };
	mailbox_send(&net.mailbox, &poller->note);
	conn_manager_read_mail(&net);
	assert_int_equal(net.nics[0].workers_left, 1);
}

/* Other events concern nobody. */
static void other_events(void **state)
{
	struct conn *conn = connected();

	(void)state;
	add_async(IBV_EVENT_PORT_ERR);
	add_async(IBV_EVENT_GID_CHANGE);
	add_cm(CM_ESTABLISHED, conn->id);
	add_cm(CM_DISCONNECTED, NULL);
	take_events();
	assert_int_equal(net.stats.async_errors, 0);
	assert_int_equal(net.nics[0].state, NIC_SERVES);
	assert_int_equal(conn->stage, CONN_LIVE);
	add_cm(CM_REJECTED, conn->id);
	take_events();
	assert_int_equal(conn->stage, CONN_FLUSHING);
	flush_late();
	finish(conn);
}

/* A storm of events keeps notes and deadlines waiting for EVENTS_AT_ONCE at most. */
static void events_are_bounded(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < EVENTS_AT_ONCE - 1; i++)
		add_async(IBV_EVENT_PORT_ACTIVE);
	take_events();
	assert_int_equal(async_taken, EVENTS_AT_ONCE - 1);
	assert_false(net.events_left);
	for (unsigned int i = 0; i < EVENTS_AT_ONCE + 1; i++) {
		add_async(IBV_EVENT_PORT_ACTIVE);
		add_cm(CM_ESTABLISHED, NULL);
	}
	take_events();
	assert_int_equal(async_taken, 2 * EVENTS_AT_ONCE - 1);
	assert_int_equal(cm_taken, EVENTS_AT_ONCE);
	assert_true(net.events_left);
	net.events_left = false;
	take_events();
	assert_int_equal(async_taken, async_count);
	assert_int_equal(cm_taken, cm_count);
	assert_false(net.events_left);
}

/* Beyond those of one turn queries have the next one, before which the thread does not sleep. */
static void queries_are_bounded(void **state)
{
	static struct conn askers[QUERIES_AT_ONCE + 1];
	struct note *note;
	unsigned int i;

	(void)state;
	for (i = 0; i <= QUERIES_AT_ONCE; i++) {
		askers[i] = (struct conn){ .poller = &workers[0].pollers[0],
					   .query = { .op = WIRE_KILL, .arg = UINT64_MAX } };
		askers[i].notes[NOTE_QUERY] = (struct note){ .conn = &askers[i],
							     .kind = NOTE_QUERY };
		worker_says(&askers[i], NOTE_QUERY);
	}
	for (unsigned int turn = 0; turn < 2; turn++) {
		net.events_left = false;
		conn_manager_answer(&net, test_now);
		i = 0;
		for (note = mailbox_take(&workers[0].mailbox); note; note = note->next)
			i++;
		assert_int_equal(i, turn ? 1 : QUERIES_AT_ONCE);
		assert_int_equal(net.events_left, !turn);
	}
}

/* HELLO, checked by the worker. */
static void say_hello(struct conn *conn)
{
	conn->query.op = WIRE_HELLO;
	conn->query.hello = (struct hello_query){ .identity = "client", .change_next = 1 };
	worker_says(conn, NOTE_QUERY);
	conn_manager_answer(&net, test_now);
}

/* A client connects anew, and again before that was answered: the last connection has its place. */
static void replaced_while_it_waits(void **state)
{
	struct conn *conns[3];

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		conns[i] = connected();
		say_hello(conns[i]);
		if (i)
			continue;
		assert_note(conns[0], NOTE_ANSWER);
		assert_non_null(conns[0]->identity);
	}
	assert_int_equal(conns[0]->stage, CONN_FLUSHING);
	assert_int_equal(conns[1]->stage, CONN_FLUSHING);
	flush_late();
	finish(conns[1]);
	finish(conns[0]);
	conn_manager_answer(&net, test_now);
	assert_note(conns[2], NOTE_ANSWER);
	assert_non_null(conns[2]->identity);
	assert_true(conns[2]->query.hello.known);
	add_cm(CM_DISCONNECTED, conns[2]->id);
	take_events();
	flush_late();
	finish(conns[2]);
}

/* A connection that ends while its HELLO waits inherits nothing: the next one need not wait. */
static void ends_while_it_waits(void **state)
{
	struct conn *first = connected(), *heir = connected(), *next;

	(void)state;
	say_hello(first);
	assert_note(first, NOTE_ANSWER);
	say_hello(heir);
	add_cm(CM_DISCONNECTED, heir->id);
	take_events();
	flush_late();
	finish(heir);
	finish(first);
	assert_int_equal(net.identities.kept_count, 1);
	next = connected();
	say_hello(next);
	assert_note(next, NOTE_ANSWER);
	assert_true(next->query.hello.known);
	add_cm(CM_DISCONNECTED, next->id);
	take_events();
	flush_late();
	finish(next);
}

static void close_and_finish(struct conn *conn)
{
	add_cm(CM_DISCONNECTED, conn->id);
	take_events();
	flush_late();
	finish(conn);
}

/* What the clients of one identity are is counted as it changes. */
static void identities_are_counted(void **state)
{
	struct conn *first = connected(), *next = connected(), *anonymous = connected();

	(void)state;
	say_hello(first);
	assert_note(first, NOTE_ANSWER);
	assert_int_equal(net.stats.identities, 1);
	assert_int_equal(net.stats.identities_kept, 0);
	/* One without an identity is none. */
	anonymous->query.op = WIRE_HELLO;
	worker_says(anonymous, NOTE_QUERY);
	conn_manager_answer(&net, test_now);
	assert_note(anonymous, NOTE_ANSWER);
	assert_null(anonymous->identity);
	assert_int_equal(net.stats.identities_refused, 0);
	say_hello(next);
	assert_int_equal(net.stats.connections_replaced, 1);
	assert_logged("closed: its client connected anew");
	assert_int_equal(disconnects, 1);
	assert_int_equal(net.stats.identities, 1);
	assert_int_equal(net.stats.identities_refused, 0);
	flush_late();
	finish(first);
	conn_manager_answer(&net, test_now);
	assert_note(next, NOTE_ANSWER);
	assert_int_equal(net.stats.connections_replaced, 1);
	close_and_finish(next);
	assert_int_equal(net.stats.identities, 0);
	assert_int_equal(net.stats.identities_kept, 1);
	conn_manager_expire(&net, test_now + SECOND_NS / 2);
	assert_int_equal(net.stats.identities_kept, 1);
	conn_manager_expire(&net, test_now + SECOND_NS);
	assert_int_equal(net.stats.identities_kept, 0);
	assert_int_equal(net.stats.identities_evicted, 0);
	close_and_finish(anonymous);
}

/* One that is being closed for another reason is not replaced. */
static void ends_before_it_is_replaced(void **state)
{
	struct conn *first = connected(), *next = connected();

	(void)state;
	say_hello(first);
	assert_note(first, NOTE_ANSWER);
	worker_says(first, NOTE_FAILED);
	say_hello(next);
	assert_int_equal(net.stats.connections_replaced, 0);
	assert_null(strstr(test_log_text(), "connected anew"));
	flush_late();
	finish(first);
	conn_manager_answer(&net, test_now);
	assert_note(next, NOTE_ANSWER);
	close_and_finish(next);
}

static void ask_to_kill(struct conn *conn, uint64_t number)
{
	conn->query.op = WIRE_KILL;
	conn->query.arg = number;
	worker_says(conn, NOTE_QUERY);
	conn_manager_answer(&net, test_now);
}

/* Without room for its identity a client is served, without it; a kept one makes room. */
static void identities_without_room(void **state)
{
	struct conn *conns[3];

	(void)state;
	identities_release(&net.identities);
	assert_int_equal(identities_init(&net.identities, 1, SECOND_NS), 0);
	for (unsigned int i = 0; i < 3; i++) {
		conns[i] = connected();
		conns[i]->query.op = WIRE_HELLO;
		conns[i]->query.hello = (struct hello_query){ .change_next = 1 };
		conns[i]->query.hello.identity[0] = (uint8_t)(i + 1);
		if (i == 2)
			close_and_finish(conns[0]);
		worker_says(conns[i], NOTE_QUERY);
		conn_manager_answer(&net, test_now);
		assert_note(conns[i], NOTE_ANSWER);
		assert_true(conns[i]->query.granted);
		assert_int_equal(conns[i]->identity != NULL, i != 1);
		assert_int_equal(net.stats.identities_refused, i > 0);
		assert_int_equal(net.stats.identities_evicted, i > 1);
		assert_int_equal(net.stats.identities, 1);
	}
	/* What it asks for next has nothing to do with that. */
	ask_to_kill(conns[1], 12345);
	assert_note(conns[1], NOTE_ANSWER);
	assert_null(conns[1]->identity);
	assert_int_equal(net.stats.identities_refused, 1);
	close_and_finish(conns[1]);
	close_and_finish(conns[2]);
}

/* KILL closes the one that it names, and is answered unless that is the one that asked. */
static void kills(void **state)
{
	struct conn *admin = connected(), *other = connected();

	(void)state;
	ask_to_kill(admin, 12345);
	assert_note(admin, NOTE_ANSWER);
	assert_int_equal(admin->query.status, WIRE_NOT_FOUND);
	assert_int_equal(net.stats.connections_killed, 0);
	ask_to_kill(admin, other->client.number);
	assert_note(admin, NOTE_ANSWER);
	assert_int_equal(admin->query.status, WIRE_OK);
	assert_int_equal(net.stats.connections_killed, 1);
	assert_int_equal(other->stage, CONN_FLUSHING);
	assert_int_equal(disconnects, 1);
	assert_logged("closed: 10.0.0.1:5 asked for it (KILL ");
	flush_late();
	finish(other);
	ask_to_kill(admin, admin->client.number);
	assert_no_note(admin);
	assert_int_equal(net.stats.connections_killed, 2);
	assert_int_equal(admin->stage, CONN_FLUSHING);
	flush_late();
	finish(admin);
}

static void ask_to_revoke(struct conn *conn, const char *who, enum wire_status status,
			  uint64_t closed)
{
	static char text[TLS_IDENTITY_MAX * 2];

	conn->query.op = WIRE_REVOKE;
	snprintf(text, sizeof(text), "%s", who);
	conn->query.text = text;
	conn->query.len = (uint32_t)strlen(who);
	worker_says(conn, NOTE_QUERY);
	conn_manager_answer(&net, test_now);
	assert_note(conn, NOTE_ANSWER);
	conn->query.text = NULL;
	assert_int_equal(conn->query.status, status);
	assert_int_equal(conn->query.closed, closed);
	assert_int_equal(conn->query.len, 0);
}

/* All connections of a client, and only these, have lost their queue pairs when it is answered. */
static void revokes(void **state)
{
	struct conn *admin, *other, *alice[3];

	(void)state;
	admin = connected();
	other = connected();
	peer_identity = "alice";
	for (unsigned int i = 0; i < 3; i++)
		alice[i] = connected();
	ask_to_revoke(admin, "identity=bob", WIRE_NOT_FOUND, 0);
	ask_to_revoke(admin, "alice", WIRE_INVALID, 0);
	assert_int_equal(disconnects, 0);
	/* One has begun to end by itself. */
	conn_close(&net, alice[0], CLIENT_LEFT);
	ask_to_revoke(admin, "identity=alice", WIRE_OK, 3);
	assert_logged("revoked identity=alice, asked for by 10.0.0.1:5: 3 connections closed");
	assert_int_equal(disconnects, 3);
	assert_int_equal(net.stats.connections_revoked, 2);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(qps[alice[i]->id - ids].state, IBV_QPS_ERR);
	assert_int_equal(other->stage, CONN_LIVE);
	/* The administrator's own connection stays, whoever it is. */
	ask_to_revoke(admin, "addr=10.0.0.1", WIRE_OK, 4);
	assert_int_equal(admin->stage, CONN_LIVE);
	assert_int_equal(other->stage, CONN_FLUSHING);
	flush_late();
	for (unsigned int i = 0; i < 3; i++)
		table_remove(alice[i]);
	table_remove(other);
	for (struct conn *conn = net.conns, *next; conn; conn = next) {
		next = conn->next;
		if (conn == admin)
			continue;
		assert_non_null(mailbox_take(&conn->poller->worker->mailbox) ?: (void *)1);
		worker_says(conn, NOTE_QUIESCED);
		while (mailbox_take(&conn->poller->worker->mailbox))
			;
		worker_says(conn, NOTE_RELEASED);
	}
	ask_to_revoke(admin, "identity=alice", WIRE_NOT_FOUND, 0);
	close_and_finish(admin);
}

/* A queue pair of which the device does not say that it is in error may still serve READs. */
static void revokes_and_is_not_certain(void **state)
{
	struct conn *admin = connected(), *other = connected();

	(void)state;
	disconnect_fails = true;
	ask_to_revoke(admin, "id=999999", WIRE_NOT_FOUND, 0);
	char who[40];

	snprintf(who, sizeof(who), "id=%llu", (unsigned long long)other->client.number);
	ask_to_revoke(admin, who, WIRE_BUSY, 1);
	assert_int_equal(other->stage, CONN_FLUSHING);
	ask_to_revoke(admin, who, WIRE_BUSY, 1);
	qps[other->id - ids].state = IBV_QPS_ERR;
	query_error = -EIO;
	ask_to_revoke(admin, who, WIRE_BUSY, 1);
	query_error = 0;
	ask_to_revoke(admin, who, WIRE_OK, 1);
	assert_int_equal(net.stats.connections_revoked, 1);
	/* A device that is gone serves nothing. */
	qps[other->id - ids].state = IBV_QPS_RTS;
	atomic_store(&net.nics[0].gone, true);
	ask_to_revoke(admin, who, WIRE_OK, 1);
	atomic_store(&net.nics[0].gone, false);
	flush_late();
	finish(other);
	close_and_finish(admin);
}

/* A client that showed credentials before the revocation is refused; one with new ones is not. */
static void revoked_on_its_way(void **state)
{
	struct conn *admin = connected(), *late;

	(void)state;
	ask_to_revoke(admin, "identity=alice", WIRE_NOT_FOUND, 0);
	peer_identity = "alice";
	peer_since = test_now - 1;
	add_connect();
	take_events();
	assert_null(ids[id_count - 1].context);
	assert_int_equal(rejects, 1);
	assert_string_equal(rejected.text, "the client's identity was revoked while it connected");
	peer_since = test_now + 1;
	late = connected();
	close_and_finish(late);
	close_and_finish(admin);
}

/* A query of a connection that is being closed is not answered, whichever of them came first. */
static void no_answer_at_the_end(void **state)
{
	(void)state;
	for (unsigned int stats = 0; stats < 2; stats++)
		for (unsigned int late = 0; late < 2; late++) {
			struct conn *conn = connected(), *next = connected();

			conn->query.op = next->query.op = stats ? WIRE_STATS : WIRE_KILL;
			if (late)
				worker_says(conn, NOTE_FAILED);
			worker_says(conn, NOTE_QUERY);
			if (!late)
				worker_says(conn, NOTE_FAILED);
			conn_manager_answer(&net, test_now);
			assert_no_note(conn);
			/* Nor does it keep others from theirs. */
			test_now += STATS_INTERVAL_NS;
			worker_says(next, NOTE_QUERY);
			conn_manager_answer(&net, test_now);
			assert_note(next, NOTE_ANSWER);
			snapshot_drop(next->query.stats);
			next->query.stats = NULL;
			flush_late();
			finish(conn);
			close_and_finish(next);
			id_count = 0;
		}
}

static void ask_for_stats(struct conn *conn)
{
	conn->query.op = WIRE_STATS;
	worker_says(conn, NOTE_QUERY);
}

/* Users see no names of others in the statistics, but administrators do: they share none. */
static void stats_of_users(void **state)
{
	static const struct user plain = { .name = "plain", .rights = USER_STATS },
				 admin = { .name = "admin", .rights = USER_ALL };
	const struct user *users[] = { &plain, &admin, &plain, NULL, &plain };
	static const struct principal principals[] = { { "uid=0" }, { "uid=1" } };
	static struct conn askers[5];

	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		askers[i] = (struct conn){ .poller = &workers[0].pollers[0],
					   .client.part = &workers[0].part };
		askers[i].client.principal = &principals[i / 4];
		for (unsigned int kind = 0; kind < NOTE_KINDS; kind++)
			askers[i].notes[kind] = (struct note){ .conn = &askers[i],
							       .kind = (enum note_kind)kind };
		atomic_store(&askers[i].client.user, users[i]);
		ask_for_stats(&askers[i]);
	}
	for (unsigned int i = 0; i < 3; i++) {
		conn_manager_answer(&net, net.stats_at_ns);
		assert_int_equal(snapshots, i + 1);
		if (i == 1)
			assert_null(snapshot_viewer);
		else
			assert_string_equal(snapshot_viewer->name, i ? "uid=1" : "uid=0");
	}
	assert_ptr_equal(askers[0].query.stats, askers[2].query.stats);
	assert_ptr_equal(askers[1].query.stats, askers[3].query.stats);
	assert_ptr_not_equal(askers[0].query.stats, askers[1].query.stats);
	assert_ptr_not_equal(askers[0].query.stats, askers[4].query.stats);
	mailbox_take(&workers[0].mailbox);
	for (unsigned int i = 0; i < 5; i++)
		snapshot_drop(askers[i].query.stats);
}

/* Clients that ask for statistics within one interval share a snapshot, and the last frees it. */
static void stats_are_shared(void **state)
{
	static struct conn askers[QUERIES_AT_ONCE + 1];
	struct snapshot *snapshot;

	(void)state;
	assert_int_equal(conn_manager_wait_ms(&net, 7), 7);
	for (unsigned int i = 0; i <= QUERIES_AT_ONCE; i++) {
		askers[i] = (struct conn){ .poller = &workers[0].pollers[0],
					   .client.part = &workers[0].part };
		for (unsigned int kind = 0; kind < NOTE_KINDS; kind++)
			askers[i].notes[kind] = (struct note){ .conn = &askers[i],
							       .kind = (enum note_kind)kind };
		ask_for_stats(&askers[i]);
	}
	assert_int_equal(conn_manager_wait_ms(&net, 7), 0);
	conn_manager_answer(&net, test_now);
	assert_int_equal(snapshots, 1);
	snapshot = askers[0].query.stats;
	assert_non_null(snapshot);
	for (unsigned int i = 1; i < QUERIES_AT_ONCE; i++)
		assert_ptr_equal(askers[i].query.stats, snapshot);
	assert_int_equal(atomic_load(&snapshot->references), QUERIES_AT_ONCE);
	mailbox_take(&workers[0].mailbox);
	/* The one beyond them gets the next one, in time. */
	assert_null(askers[QUERIES_AT_ONCE].query.stats);
	test_now += STATS_INTERVAL_NS - 1;
	conn_manager_answer(&net, test_now);
	assert_int_equal(snapshots, 1);
	assert_int_equal(conn_manager_wait_ms(&net, 7), 1);
	assert_int_equal(conn_manager_wait_ms(&net, 0), 0);
	test_now = net.stats_at_ns - 2 * NS_PER_MS;
	assert_int_equal(conn_manager_wait_ms(&net, 7), 3);
	assert_int_equal(conn_manager_wait_ms(&net, 2), 2);
	test_now = net.stats_at_ns;
	conn_manager_answer(&net, test_now);
	assert_int_equal(snapshots, 2);
	assert_note(&askers[QUERIES_AT_ONCE], NOTE_ANSWER);
	assert_int_equal(conn_manager_wait_ms(&net, 7), 7);
	for (unsigned int i = 0; i <= QUERIES_AT_ONCE; i++)
		snapshot_drop(askers[i].query.stats);
}

/* A connection that was granted what it asked for, at the time at which its HELLO is due. */
static struct conn *open_for_keepalive(enum device_kind kind, uint64_t interval)
{
	struct conn *conn;

	dev.kind = kind;
	config.server.keepalive_interval = interval;
	conn_manager_init(&net);
	conn = connected();
	atomic_store(&conn->hello_taken, true);
	test_now += config.server.handshake_timeout + 1;
	conn_manager_expire(&net, test_now);
	return conn;
}

static void interval_passes(void)
{
	conn_manager_expire(&net, test_now + config.server.keepalive_interval);
	test_now += config.server.keepalive_interval + 1;
	conn_manager_expire(&net, test_now);
}

/* A silent client is probed, and closed when its device does not answer in time. */
static void probed_and_closed(void **state)
{
	struct conn *conn = open_for_keepalive(DEVICE_RDMA, 15 * SECOND_NS);

	(void)state;
	stat_add(&conn->client.requests, 1);
	interval_passes();
	assert_no_note(conn);
	for (unsigned int i = 1; i <= 2; i++) {
		interval_passes();
		assert_note(conn, NOTE_PROBE);
		atomic_store(&conn->probe_noted, false);
		assert_int_equal(net.stats.keepalive_probes, i);
		if (i == 2)
			break;
		stat_add(&conn->probes_answered, 1);
		interval_passes();
		assert_no_note(conn);
	}
	interval_passes();
	assert_int_equal(conn->stage, CONN_LIVE);
	interval_passes();
	assert_no_note(conn);
	assert_int_equal(conn->stage, CONN_FLUSHING);
	assert_int_equal(disconnects, 1);
	assert_int_equal(net.stats.connections_expired, 1);
	assert_int_equal(net.stats.keepalive_probes, 2);
	assert_logged("closed: the client's device did not answer a keepalive probe");
	flush_late();
	finish(conn);
}

/* Where the kernel reports the end of a client, or keepalive is off, none is probed. */
static void not_probed(void **state)
{
	(void)state;
	for (unsigned int off = 0; off < 2; off++) {
		struct conn *conn = open_for_keepalive(off ? DEVICE_RDMA : DEVICE_SOFTNIC,
						       off ? 0 : SECOND_NS);

		assert_false(conn_timer_any(&net.timers, CONN_TIMER_KEEPALIVE));
		for (unsigned int i = 0; i < 5; i++)
			interval_passes();
		assert_int_equal(net.stats.keepalive_probes, 0);
		assert_int_equal(conn->stage, CONN_LIVE);
		close_and_finish(conn);
		id_count = 0;
	}
}

/* A change of the interval counts for the connections that are open. */
static void keepalive_changes(void **state)
{
	struct conn *conn = open_for_keepalive(DEVICE_RDMA, 0);

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		/* Sooner than the deadline that it has. */
		config.server.keepalive_interval = i ? 15 * SECOND_NS : 3600 * SECOND_NS;
		conn_manager_renew_options(&net);
		assert_true(conn_timer_any(&net.timers, CONN_TIMER_KEEPALIVE));
	}
	stat_add(&conn->client.requests, 1);
	interval_passes();
	assert_no_note(conn);
	interval_passes();
	assert_note(conn, NOTE_PROBE);
	atomic_store(&conn->probe_noted, false);
	config.server.keepalive_interval = 0;
	conn_manager_renew_options(&net);
	assert_false(conn_timer_any(&net.timers, CONN_TIMER_KEEPALIVE));
	test_now += 7200 * SECOND_NS;
	conn_manager_expire(&net, test_now);
	assert_int_equal(conn->stage, CONN_LIVE);
	close_and_finish(conn);
}

/* The deadline of a HELLO is no matter of keepalive. Workers and identities get their options. */
static void options_are_passed_on(void **state)
{
	struct conn *conn;

	(void)state;
	dev.kind = DEVICE_RDMA;
	config.server.keepalive_interval = SECOND_NS;
	conn_manager_init(&net);
	conn = connected();
	config.server.keepalive_interval = 2 * SECOND_NS;
	config.server.identity_time = 3;
	config.server.spin_time = 4;
	config.server.pull_timeout = 5;
	config.server.pull_stall = 6;
	conn_manager_renew_options(&net);
	assert_false(conn_timer_any(&net.timers, CONN_TIMER_KEEPALIVE));
	assert_true(conn_timer_any(&net.timers, CONN_TIMER_HELLO));
	assert_int_equal(net.identities.keep_ns, 3);
	for (unsigned int i = 0; i < WORKERS; i++) {
		assert_int_equal(workers[i].limits.spin_ns, 4);
		assert_int_equal(workers[i].limits.pull_ns, 5);
		assert_int_equal(workers[i].limits.pull_stall_ns, 6);
		assert_true(mailbox_pending(&workers[i].mailbox));
		(void)mailbox_take(&workers[i].mailbox);
	}
	close_and_finish(conn);
}

/* A value that any worker still pulls. */
static void pulling(void **state)
{
	(void)state;
	assert_false(conn_manager_pulling(&net));
	for (unsigned int i = 0; i < WORKERS; i++) {
		stat_set(&workers[i].pulls_count, 1);
		assert_true(conn_manager_pulling(&net));
		stat_set(&workers[i].pulls_count, 0);
	}
}

static struct users *users_of(const char *text)
{
	char why[USERS_WHY_MAX] = "";
	struct users *users = NULL;

	if (users_parse(&users, text, strlen(text), NULL, why))
		fail_msg("%s", why);
	return users;
}

/* Without net_release() */
static void users_end(void)
{
	users_put(net.users);
	net.users = NULL;
}

#define OF(name, uid, rights) "[user " name "]\nuid = " uid "\nrights = " rights "\n"

static void assert_rejected(enum wire_reject_reason reason, const char *text)
{
	unsigned int before = rejects;

	take_events();
	assert_int_equal(rejects, before + 1);
	assert_int_equal(rejected.reason, reason);
	assert_string_equal(rejected.text, text);
}

static void assert_connections(const char *name, uint32_t count)
{
	struct principal principal = { 0 };

	strcpy(principal.name, name);
	assert_int_equal(accounts_connections(&net.accounts, &principal), count);
}

static void users_connect(void **state)
{
	struct conn *first, *second;

	(void)state;
	net.users = users_of(OF("alice", "61234", "all") "connections = 2\n" OF(
		"bob", "7", "read") "read_prefixes = x\n" OF("carol", "8", "write"));
	first = connected();
	assert_string_equal(client_user(&first->client)->name, "alice");
	assert_ptr_equal(first->client.wake, deferred_wake_client);
	assert_string_equal(first->client.principal->name, "user=alice");
	assert_connections("user=alice", 1);
	second = connected();
	add_connect();
	assert_rejected(WIRE_REJECT_LIMIT, "user=alice is at its limit of connections (2)");
	assert_int_equal(net.stats.connections_over_limit, 1);
	assert_int_equal(net.stats.connections_not_allowed, 0);
	peer_uid = 9;
	add_connect();
	assert_rejected(WIRE_REJECT_USER, "users.file has no user for uid=9");
	assert_int_equal(net.stats.connections_not_allowed, 1);
	assert_int_equal(net.stats.connections_rejected, 2);
	close_and_finish(second);
	assert_connections("user=alice", 1);
	id_count = 1;
	peer_uid = OTHER_UID;
	second = connected();
	assert_connections("user=alice", 2);
	close_and_finish(first);
	close_and_finish(second);
	assert_connections("user=alice", 0);
	assert_int_equal(net.users->holders, 1);
	users_end();
}

/* "*" is many clients: what one of them has open keeps no other out. */
static void clients_of_other(void **state)
{
	struct conn *first, *second;

	(void)state;
	net.users = users_of("[user *]\nrights = all\nconnections = 1\n");
	first = connected();
	add_connect();
	assert_rejected(WIRE_REJECT_LIMIT, "uid=61234 is at its limit of connections (1)");
	peer_uid = 9;
	second = connected();
	assert_connections("uid=61234", 1);
	assert_connections("uid=9", 1);
	assert_ptr_not_equal(first->client.account, second->client.account);
	assert_ptr_not_equal(first->client.gates, second->client.gates);
	assert_ptr_equal(first->pull_hold.own, &first->client.gates->pulls);
	close_and_finish(first);
	close_and_finish(second);
	users_end();
}

/* rdma.networks applies to the ways without a secret, and to those alone. */
static void networks(void **state)
{
	struct conn *conn;

	(void)state;
	strcpy(config.rdma.networks, "10.0.1.0/24");
	conn = connected();
	assert_string_equal(conn->client.principal->name, "uid=61234");
	close_and_finish(conn);
	for (unsigned int i = 0; i < 2; i++) {
		dev.kind = i ? DEVICE_RDMA_TCP : DEVICE_RDMA;
		add_connect();
		assert_rejected(WIRE_REJECT_USER, "10.0.0.1:5 is in none of rdma.networks");
	}
	assert_int_equal(net.stats.connections_not_allowed, 2);
	strcpy(config.rdma.networks, "10.0.1.0/24,10.0.0.0/24");
	dev.kind = DEVICE_RDMA;
	close_and_finish(connected());
	*config.rdma.networks = '\0';
	/* A user's networks count there, too, and nowhere else. */
	net.users = users_of("[user a]\nnetworks = 10.0.0.0/24\nrights = all\n");
	conn = connected();
	assert_string_equal(client_user(&conn->client)->name, "a");
	close_and_finish(conn);
	dev.kind = DEVICE_RDMA_TLS;
	add_connect();
	assert_rejected(WIRE_REJECT_USER, "users.file has no user for uid=61234");
	users_end();
}

/* A user has one tenant, which its clients need not name. */
static void tenants_of_users(void **state)
{
	struct wire_connect connect = good_connect;
	struct conn *conn;

	(void)state;
	alpha_start();
	net.users = users_of(OF("a", "61234", "all") "tenant = alpha\n" OF("b", "7", "all"));
	conn = connected();
	assert_ptr_equal(conn->client.part->tenant, &alpha);
	close_and_finish(conn);
	strcpy(connect.tenant, "alpha");
	add_connect_of(connect);
	take_events();
	conn = ids[id_count - 1].context;
	assert_ptr_equal(conn->client.part->tenant, &alpha);
	peer_uid = 7;
	add_connect_of(connect);
	assert_rejected(WIRE_REJECT_TENANT, "user b has the tenant default, not alpha");
	/* The connection is in a store that its user has not any more. */
	set_users(&net, users_of(OF("a", "61234", "all")));
	assert_int_equal(conn->stage, CONN_FLUSHING);
	assert_logged("its user has another tenant now");
	flush_late();
	finish(conn);
	assert_int_equal(alpha.conns_count, 0);
	net.tenants.list[5] = NULL;
	users_end();
}

/* The file is read again: each gets what its user may do now, in place. */
static void users_are_renewed(void **state)
{
	const struct user *user;
	struct conn *conn;

	(void)state;
	net.users = users_of(OF("alice", "61234", "all"));
	conn = connected();
	grace_periods = 0;
	set_users(&net, users_of(OF("alice", "61234", "read stats") "requests = 7\n"));
	assert_int_equal(grace_periods, 1);
	user = client_user(&conn->client);
	assert_ptr_equal(user, &net.users->list[0]);
	assert_int_equal(user->rights, USER_READ | USER_STATS);
	assert_connections("user=alice", 1);
	assert_int_equal(net.users->holders, 2);
	assert_int_equal(net.stats.users, 1);
	assert_int_equal(conn->stage, CONN_LIVE);
	/* There are none any more: everybody may do everything. */
	set_users(&net, NULL);
	assert_null(client_user(&conn->client));
	assert_int_equal(net.stats.users, 0);
	assert_int_equal(conn->stage, CONN_LIVE);
	/* And again. */
	set_users(&net, users_of(OF("alice", "61234", "all")));
	assert_string_equal(client_user(&conn->client)->name, "alice");
	assert_connections("user=alice", 1);
	assert_int_equal(net.stats.connections_withdrawn, 0);
	close_and_finish(conn);
	assert_int_equal(net.users->holders, 1);
	users_end();
}

/* Files with which the connection of alice, with uid 61234, can't go on. */
static const struct {
	const char *text, *why;
} ends[] = {
	{ OF("bob", "7", "all"), "users.file has no user for this client any more" },
	{ "", "users.file has no user for this client any more" },
	{ OF("bob", "61234", "all"), "its client is another user of users.file now" },
	{ OF("alice", "61234", "write"), "its user may not read all keys any more" },
	{ OF("alice", "61234", "all") "read_prefixes = x\n",
	  "its user may not read all keys any more" },
};

static void users_are_withdrawn(void **state)
{
	struct conn *conn;

	(void)state;
	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		net.users = users_of(OF("alice", "61234", "all"));
		conn = connected();
		set_users(&net, users_of(ends[i].text));
		assert_int_equal(net.stats.connections_withdrawn, i + 1);
		assert_int_equal(conn->stage, CONN_FLUSHING);
		assert_logged(ends[i].why);
		/* The worker may ask for the user until the connection has ended. */
		assert_string_equal(client_user(&conn->client)->name, "alice");
		set_users(&net, users_of(ends[i].text));
		assert_int_equal(net.stats.connections_withdrawn, i + 1);
		flush_late();
		finish(conn);
		id_count = 0;
		users_end();
	}
}

/* One without remote read goes on with less, and has none when it gets more. */
static void users_by_request(void **state)
{
	struct conn *conn;

	(void)state;
	net.users = users_of(OF("bob", "61234", "write"));
	conn = connected();
	conn->query.by_request = true; /* query_answer() */
	set_users(&net, users_of(OF("bob", "61234", "scan")));
	assert_int_equal(conn->stage, CONN_LIVE);
	assert_int_equal(client_user(&conn->client)->rights, USER_SCAN);
	set_users(&net, users_of(OF("bob", "61234", "all")));
	assert_int_equal(conn->stage, CONN_LIVE);
	assert_true(conn->query.by_request);
	close_and_finish(conn);
	users_end();
}

static void users_write(const char *text)
{
	users_file_write(config.users.file, text, 0600);
}

/* The memory of all is compared with what their tenants have. */
static void memory_is_renewed(void **state)
{
	(void)state;
	snprintf(config.users.file, sizeof(config.users.file), "%s/users", test_log_dir);
	users_write(OF("alice", "61234", "all") "memory = 24m\n");
	net.users_sized = 7;
	conn_manager_renew_users(&net);
	assert_int_equal(net.stats.users, 1);
	assert_true(net.users->list[0].memory == 24 << 20);
	assert_int_equal(net.users_sized, 0);
	unlink(config.users.file);
	*config.users.file = '\0';
	users_end();
}

/* A file that can't be used changes nothing. */
static void bad_files_change_nothing(void **state)
{
	struct users *before = users_of(OF("alice", "61234", "all"));
	struct conn *conn;

	(void)state;
	net.users = before;
	conn = connected();
	strcpy(config.users.file, "/nonexistent/users");
	conn_manager_renew_users(&net);
	assert_logged("users.file = /nonexistent/users: No such file or directory");
	assert_logged("the users stay as they were");
	assert_ptr_equal(net.users, before);
	/* Nor does one that gives a tenant two sizes. */
	snprintf(config.users.file, sizeof(config.users.file), "%s/users", test_log_dir);
	users_write(OF("alice", "61234", "all") "memory = 16m\n" OF(
		"bob", "61235", "all") "tenant = alice\nmemory = 17m\n");
	net.users_sized = 7;
	conn_manager_renew_users(&net);
	assert_logged("/users: line 5: the tenant 'alice' has the memory of user 'alice'");
	assert_ptr_equal(net.users, before);
	assert_int_equal(net.users_sized, 7);
	unlink(config.users.file);
	assert_ptr_equal(client_user(&conn->client), &before->list[0]);
	*config.users.file = '\0';
	close_and_finish(conn);
	users_end();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(freed_after_a_grace_period),
		CASE(ends_in_order),
		CASE(late_events),
		CASE(hello_in_time),
		CASE(refused),
		CASE(tenants),
		CASE(administrators),
		CASE(padded),
		CASE(second_device),
		CASE(accept_fails),
		CASE(reads_what_it_may_not),
		CASE(memory_windows),
		CASE(no_memory_window),
		CASE(srq_limit),
		CASE(device_fails),
		CASE(another_device_fails),
		CASE(detached),
		CASE(other_events),
		CASE(events_are_bounded),
		CASE(queries_are_bounded),
		CASE(replaced_while_it_waits),
		CASE(ends_while_it_waits),
		CASE(identities_are_counted),
		CASE(ends_before_it_is_replaced),
		CASE(identities_without_room),
		CASE(kills),
		CASE(revokes),
		CASE(revokes_and_is_not_certain),
		CASE(revoked_on_its_way),
		CASE(no_answer_at_the_end),
		CASE(stats_are_shared),
		CASE(stats_of_users),
		CASE(probed_and_closed),
		CASE(not_probed),
		CASE(keepalive_changes),
		CASE(options_are_passed_on),
		CASE(pulling),
		CASE(users_connect),
		CASE(clients_of_other),
		CASE(networks),
		CASE(tenants_of_users),
		CASE(users_are_renewed),
		CASE(memory_is_renewed),
		CASE(users_are_withdrawn),
		CASE(users_by_request),
		CASE(bad_files_change_nothing),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
