/* SPDX-License-Identifier: MIT */
/*
 * Tests of how workers, their pollers and connections are set up: what they ask of the device, what
 * they take from the configuration, how few connections a small device or configuration leaves, and
 * that a step that fails leaves nothing. The device is a table of functions that count their
 * objects.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "common/util/stat.h"
#include "common/wire.h"
#include "server/worker/conn.h"
#include "server/worker/worker.h"
#include "server/worker/worker_loop.h"
#include "tests/support/default_tenant.h"
#include "tests/support/log_fixture.h"
#include "tests/support/store_fixture.h"

#define SRQ_DEPTH 64u
#define BUFFERS (2 * SRQ_DEPTH + SRQ_DEPTH / 4)
#define BUFFER_BYTES 1024u
#define CONNS 10u
#define ADMINS 2u
#define WINDOW 8u
#define BESIDE (SENDS_BESIDE_WINDOW + MARKERS) /* completions beside those of windows */
#define NEEDED(conns) (2 * SRQ_DEPTH + ((conns) + ADMINS) * BESIDE)
#define SPARE (2 * SRQ_DEPTH)
#define OTHER_UID 61234

static struct worker worker;
static struct tenant tenant;
static struct worker_env env;
static struct mailbox control;
static struct nic nic;
static struct ibv_context verbs;
static struct ibv_mr mr = { .lkey = 17 };
static struct ibv_comp_channel channel;
static struct ibv_cq cq;
static struct ibv_srq srq = { .context = &verbs };
static struct ibv_pd pd;

static int fails;		       /* the step that fails, from 1 on; 0: none */
static int steps;		       /* taken */
static int objects;		       /* that the device has */
static unsigned int receives[BUFFERS]; /* times that each was posted */
static int cqes;
static uint32_t srq_limit;

static int step(void)
{
	return ++steps == fails ? -ENOMEM : 0;
}

static int made(void)
{
	int err = step();

	objects += !err;
	return err;
}

/* The poller that is being set up. */
static struct poller *making = &worker.pollers[0];

/* The device writes clients' messages to these buffers alone, and nobody reads them remotely. */
static int reg_mr(struct ibv_pd *of, const struct device_mem *mem, int access, struct ibv_mr **out)
{
	assert_ptr_equal(of, &pd);
	assert_ptr_equal(mem->addr, making->memory);
	assert_int_equal(mem->length, BUFFERS * BUFFER_BYTES);
	assert_int_equal(mem->fd, -1);
	assert_int_equal(access, IBV_ACCESS_LOCAL_WRITE);
	if (made())
		return -ENOMEM;
	*out = &mr;
	return 0;
}

static int create_comp_channel(struct device *dev, struct ibv_comp_channel **out)
{
	assert_ptr_equal(dev, making->nic->dev);
	if (made())
		return -ENOMEM;
	*out = &channel;
	return 0;
}

static int create_cq(struct device *dev, int cqe, void *context, struct ibv_comp_channel *of,
		     struct ibv_cq **out)
{
	(void)dev;
	assert_ptr_equal(of, &channel);
	assert_ptr_equal(context, making);
	cqes = cqe;
	if (made())
		return -ENOMEM;
	*out = &cq;
	return 0;
}

static int create_srq(struct ibv_pd *of, struct ibv_srq_init_attr *attr, struct ibv_srq **out)
{
	assert_ptr_equal(of, &pd);
	assert_int_equal(attr->attr.max_wr, SRQ_DEPTH);
	assert_int_equal(attr->attr.max_sge, 1);
	if (made())
		return -ENOMEM;
	*out = &srq;
	return 0;
}

static int post_srq_recv(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	assert_ptr_equal(to, &srq);
	*bad = wr;
	if (step())
		return ENOMEM;
	for (; wr; wr = wr->next) {
		uint32_t buffer = wr_id_buffer(wr->wr_id);

		assert_int_equal(wr_id_kind(wr->wr_id), WR_RECV);
		assert_true(buffer < SRQ_DEPTH);
		assert_int_equal(wr->num_sge, 1);
		assert_true(wr->sg_list->addr ==
			    (uintptr_t)(making->memory + (size_t)buffer * BUFFER_BYTES));
		assert_int_equal(wr->sg_list->length, BUFFER_BYTES);
		assert_int_equal(wr->sg_list->lkey, mr.lkey);
		receives[buffer]++;
	}
	return 0;
}

static int modify_srq(struct ibv_srq *of, struct ibv_srq_attr *attr, int mask)
{
	assert_ptr_equal(of, &srq);
	assert_int_equal(mask, IBV_SRQ_LIMIT);
	srq_limit = attr->srq_limit;
	return step();
}

static void dereg_mr(struct ibv_mr *of)
{
	objects -= of != NULL;
}

static void destroy_comp_channel(struct ibv_comp_channel *of)
{
	objects -= of != NULL;
}

static void destroy_cq(struct ibv_cq *of)
{
	objects -= of != NULL;
}

static void destroy_srq(struct ibv_srq *of)
{
	objects -= of != NULL;
}

/* Connections: what was asked for of the last queue pair, and how they end. */
static struct ibv_qp qp;
static struct ibv_qp_init_attr asked;
static unsigned int qps_asked, ids_destroyed;
static uint32_t inline_most; /* that the device has */
static struct cm_peer peer;
static int peer_error;

static int create_qp(struct cm_id *id, struct ibv_pd *of, struct ibv_qp_init_attr *attr, int access)
{
	assert_ptr_equal(of, &pd);
	/* Nothing before HELLO (guarantee D). */
	assert_int_equal(access, 0);
	qps_asked++;
	asked = *attr;
	if (step())
		return -ENOMEM;
	if (attr->cap.max_inline_data > inline_most)
		return -EINVAL;
	qp.qp_num = 0x1234;
	id->qp = &qp;
	return 0;
}

static int query_peer(struct cm_id *id, struct cm_peer *out)
{
	(void)id;
	*out = peer;
	return peer_error;
}

static void destroy_id(struct cm_id *id)
{
	(void)id;
	ids_destroyed++;
}

static const struct device_ops ops = {
	.reg_mr = reg_mr,
	.create_comp_channel = create_comp_channel,
	.create_cq = create_cq,
	.create_srq = create_srq,
	.modify_srq = modify_srq,
	.dereg_mr = dereg_mr,
	.destroy_comp_channel = destroy_comp_channel,
	.destroy_cq = destroy_cq,
	.destroy_srq = destroy_srq,
	.create_qp = create_qp,
	.query_peer = query_peer,
	.destroy_id = destroy_id,
};
static struct device dev = { .name = "fake0", .kind = DEVICE_SOFTNIC, .ops = &ops };
static struct cm_id id = { .dev = &dev };

static int setup(void **state)
{
	(void)state;
	rcu_register_thread();
	rcu_thread_offline();
	verbs.ops.post_srq_recv = post_srq_recv;
	memset(&worker, 0, sizeof(worker));
	env.control = &control;
	worker.env = &env;
	nic = (struct nic){ .dev = &dev, .pd = &pd, .attr.max_cqe = 100000 };
	fails = steps = objects = 0;
	memset(receives, 0, sizeof(receives));
	qps_asked = ids_destroyed = 0;
	inline_most = UINT32_MAX;
	peer = (struct cm_peer){ .address = "10.9.0.1:5" };
	peer_error = 0;
	id.qp = NULL;
	id.context = NULL;
	assert_int_equal(mailbox_init(&control), 0);
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	log_init(LOG_OFF, NULL);
	assert_int_equal(objects, 0);
	assert_null(mailbox_take(&control));
	mailbox_release(&control);
	rcu_thread_online();
	rcu_unregister_thread();
	return 0;
}

static int init_with(uint32_t conns_max)
{
	const struct poller_limits limits = {
		.srq_depth = SRQ_DEPTH,
		.buffer_bytes = BUFFER_BYTES,
		.signal_every = 4,
		.window = WINDOW,
		.conns_max = conns_max,
		.admins_max = ADMINS,
	};

	return poller_init(&worker.pollers[0], &worker, 3, &limits, &nic);
}

/* Every receive is posted, and what a connection may need of buffers and completions is there. */
static void all_of_it(void **state)
{
	(void)state;
	assert_int_equal(init_with(CONNS), 0);
	for (uint32_t i = 0; i < SRQ_DEPTH; i++)
		assert_int_equal(receives[i], 1);
	assert_int_equal(worker.pollers[0].posted, SRQ_DEPTH);
	assert_int_equal(worker.pollers[0].unposted_count, 0);
	assert_int_equal(srq_limit, SRQ_DEPTH / 8);
	assert_int_equal(worker.pollers[0].limits.conns_max, CONNS);
	assert_int_equal(cqes, NEEDED(CONNS) + SPARE);
	assert_int_equal(worker.pollers[0].spare_sends, SPARE);
	assert_int_equal(worker.pollers[0].spare_sends_max, SPARE);
	assert_int_equal(worker.pollers[0].spare_buffers, SRQ_DEPTH / 4);
	assert_int_equal(worker.pollers[0].spare_buffers_max, SRQ_DEPTH / 4);
	/* Buffers for responses are no receives, and each is there once. */
	assert_int_equal(worker.pollers[0].free_count, BUFFERS - SRQ_DEPTH);
	assert_int_equal(worker.pollers[0].free_max, BUFFERS - SRQ_DEPTH);
	for (uint32_t n = worker.pollers[0].free_count; n; n--) {
		uint32_t buffer = buffer_take(&worker.pollers[0]);

		assert_in_range(buffer, SRQ_DEPTH, BUFFERS - 1);
		assert_int_equal(receives[buffer]++, 0);
		/* The buffers do not overlap: the memory is as long as all of them. */
		memset(poller_buffer(&worker.pollers[0], buffer), 1, BUFFER_BYTES);
	}
	assert_int_equal(buffer_take(&worker.pollers[0]), BUFFER_NONE);
	assert_int_equal(test_log_lines(), 0);
	poller_release(&worker.pollers[0]);
}

/* A small completion queue has fewer spare places first, and then fewer connections. */
static void small_queues(void **state)
{
	(void)state;
	nic.attr.max_cqe = NEEDED(CONNS) + 7;
	assert_int_equal(init_with(CONNS), 0);
	assert_int_equal(cqes, nic.attr.max_cqe);
	assert_int_equal(worker.pollers[0].spare_sends, 7);
	assert_int_equal(worker.pollers[0].spare_sends_max, 7);
	assert_int_equal(worker.pollers[0].limits.conns_max, CONNS);
	assert_int_equal(test_log_lines(), 0);
	poller_release(&worker.pollers[0]);
	nic.attr.max_cqe = NEEDED(CONNS);
	assert_int_equal(init_with(CONNS), 0);
	assert_int_equal(worker.pollers[0].spare_sends, 0);
	assert_int_equal(worker.pollers[0].limits.conns_max, CONNS);
	poller_release(&worker.pollers[0]);
	nic.attr.max_cqe = NEEDED(CONNS) - 1;
	assert_int_equal(init_with(CONNS), 0);
	assert_int_equal(cqes, nic.attr.max_cqe);
	assert_int_equal(worker.pollers[0].limits.conns_max, CONNS - 1);
	assert_int_equal(worker.pollers[0].spare_sends, BESIDE - 1);
	assert_logged("worker 3 on device fake0: takes at most 9 connections instead of 10, since "
		      "a completion queue of the device has at most ");
	poller_release(&worker.pollers[0]);
	nic.attr.max_cqe = NEEDED(1);
	assert_int_equal(init_with(CONNS), 0);
	assert_int_equal(worker.pollers[0].limits.conns_max, 1);
	poller_release(&worker.pollers[0]);
	nic.attr.max_cqe = NEEDED(1) - 1;
	assert_int_equal(init_with(CONNS), -EINVAL);
	assert_logged("with one connection need 140: lower request.srq_depth");
}

/* Places for more connections later, as far as receives and the spare places allow. */
static int init_for(uint32_t conns_all)
{
	const struct poller_limits limits = {
		.srq_depth = SRQ_DEPTH,
		.buffer_bytes = BUFFER_BYTES,
		.signal_every = 4,
		.window = WINDOW,
		.conns_max = CONNS,
		.conns_all = conns_all,
		.admins_max = ADMINS,
	};

	return poller_init(&worker.pollers[0], &worker, 3, &limits, &nic);
}

static void more_later(void **state)
{
	struct poller *poller = &worker.pollers[0];

	(void)state;
	assert_int_equal(init_for(2 * CONNS), 0);
	assert_int_equal(poller->conns_fit, 2 * CONNS);
	assert_int_equal(poller->limits.conns_max, CONNS);
	assert_int_equal(cqes, NEEDED(2 * CONNS) + SPARE);
	assert_int_equal(poller->spare_sends, SPARE);
	assert_int_equal(poller->conns_wanted, CONNS);
	assert_int_equal(poller->conns_reserved, CONNS);
	poller_release(poller);
	assert_int_equal(init_for(SRQ_DEPTH), 0);
	assert_int_equal(poller->conns_fit, SRQ_DEPTH - ADMINS);
	poller_release(poller);
	nic.attr.max_cqe = NEEDED(2 * CONNS) - 1 + SPARE;
	assert_int_equal(init_for(2 * CONNS), 0);
	assert_int_equal(poller->conns_fit, 2 * CONNS - 1);
	assert_int_equal(poller->spare_sends, SPARE);
	poller_release(poller);
	nic.attr.max_cqe = NEEDED(CONNS) + 7;
	assert_int_equal(init_for(2 * CONNS), 0);
	assert_int_equal(poller->conns_fit, CONNS);
	poller_release(poller);
}

/* Each connection has a receive, also those of administrators. */
static void few_receives(void **state)
{
	(void)state;
	assert_int_equal(init_with(SRQ_DEPTH - ADMINS), 0);
	assert_int_equal(worker.pollers[0].limits.conns_max, SRQ_DEPTH - ADMINS);
	assert_int_equal(test_log_lines(), 0);
	poller_release(&worker.pollers[0]);
	assert_int_equal(init_with(SRQ_DEPTH), 0);
	assert_int_equal(worker.pollers[0].limits.conns_max, SRQ_DEPTH - ADMINS);
	assert_int_equal(cqes, NEEDED(SRQ_DEPTH - ADMINS) + SPARE);
	assert_logged("takes at most 62 connections instead of 64, one for each receive; raise "
		      "request.srq_depth");
	poller_release(&worker.pollers[0]);
}

/* Whatever step fails, nothing is left, and it is said what to do. */
static void a_step_fails(void **state)
{
	static const char *const logged[] = {
		"can't register its message buffers",
		"can't create its completion channel",
		"can't create its completion queue",
		"can't create its shared receive queue",
		"can't post receives",
		"can't post receives", /* the second chain of them */
		"can't set the limit of its shared receive queue",
	};

	(void)state;
	for (fails = 1; fails <= 7; fails++) {
		steps = 0;
		assert_int_equal(test_log_begin(), 0);
		assert_int_equal(init_with(CONNS), -ENOMEM);
		assert_int_equal(objects, 0);
		assert_int_equal(steps, fails);
		assert_logged(logged[fails - 1]);
		assert_logged("Cannot allocate memory (64 receives, 144 buffers of 1 KiB, 10 "
			      "connections");
		assert_logged(", or allow the process more memory");
	}
}

static struct conn *new_conn(uint32_t window_max)
{
	struct conn *conn;

	assert_int_equal(conn_create(&conn, &worker.pollers[0], &tenant, &id, 7, window_max), 0);
	assert_ptr_equal(id.context, conn);
	return conn;
}

static void end_conn(struct conn *conn)
{
	unsigned int before = ids_destroyed;

	rcu_thread_online();
	conn_table_remove(conn);
	assert_null(conn_lookup(&worker.pollers[0], qp.qp_num));
	rcu_thread_offline();
	conn_destroy(conn);
	assert_int_equal(ids_destroyed, before + 1);
}

/* A queue pair holds what windows of that size need, and its connection begins with one of 1. */
static void a_connection(void **state)
{
	struct snapshot *snapshot;
	struct conn *conn;

	(void)state;
	assert_int_equal(init_with(CONNS), 0);
	conn = new_conn(WINDOW);
	assert_int_equal(asked.qp_type, IBV_QPT_RC);
	assert_ptr_equal(asked.send_cq, &cq);
	assert_ptr_equal(asked.recv_cq, &cq);
	assert_ptr_equal(asked.srq, &srq);
	assert_ptr_equal(asked.qp_context, conn);
	assert_false(asked.sq_sig_all);
	assert_int_equal(asked.cap.max_send_wr, poller_sq_depth(&worker.pollers[0], WINDOW));
	assert_int_equal(asked.cap.max_send_sge, 1);
	assert_int_equal(asked.cap.max_inline_data, worker.pollers[0].inline_max);
	assert_true(worker.pollers[0].inline_max > sizeof(struct wire_response));
	/* The marker's place is no other's. */
	assert_int_equal(conn->sq_depth, poller_sq_depth(&worker.pollers[0], WINDOW) - MARKERS);
	assert_int_equal(conn->window, 1);
	assert_int_equal(conn->window_next, 1);
	assert_int_equal(conn->window_told, 1);
	assert_int_equal(conn->window_shown, 1);
	assert_int_equal(conn->serial, 7);
	assert_int_equal(conn->sent_first, BUFFER_NONE);
	assert_int_equal(conn->sent_last, BUFFER_NONE);
	assert_ptr_equal(conn->pull_hold.client, &conn->client);
	assert_ptr_equal(conn->client.worker, &worker);
	assert_false(client_is_session(&conn->client));
	assert_string_equal(conn->client.peer.address, "10.9.0.1:5");
	rcu_thread_online();
	assert_ptr_equal(conn_lookup(&worker.pollers[0], qp.qp_num), conn);
	assert_null(conn_lookup(&worker.pollers[0], qp.qp_num + 1));
	/* Not all of it can be seen yet. */
	atomic_store(&conn->published, false);
	assert_null(conn_lookup(&worker.pollers[0], qp.qp_num));
	rcu_thread_offline();
	/* What it holds of the statistics, and its text, ends with it. */
	snapshot = calloc(1, sizeof(*snapshot));
	atomic_init(&snapshot->references, 2);
	conn->query.stats = snapshot;
	conn->query.text = malloc(100);
	end_conn(conn);
	assert_int_equal(atomic_load(&snapshot->references), 1);
	snapshot_drop(snapshot);
	poller_release(&worker.pollers[0]);
}

/* A device with less room for inline data is asked for it once, and for less from then on. */
static void little_inline_data(void **state)
{
	(void)state;
	assert_int_equal(init_with(CONNS), 0);
	inline_most = sizeof(struct wire_response);
	end_conn(new_conn(WINDOW));
	assert_int_equal(qps_asked, 2);
	assert_int_equal(worker.pollers[0].inline_max, sizeof(struct wire_response));
	assert_int_equal(asked.cap.max_inline_data, sizeof(struct wire_response));
	end_conn(new_conn(WINDOW));
	assert_int_equal(qps_asked, 3);
	poller_release(&worker.pollers[0]);
}

/* A connection that can't be made leaves nothing, and another error is not tried again. */
static void no_connection(void **state)
{
	struct conn *conn;

	(void)state;
	assert_int_equal(init_with(CONNS), 0);
	inline_most = 0;
	assert_int_equal(conn_create(&conn, &worker.pollers[0], &tenant, &id, 1, WINDOW), -EINVAL);
	assert_null(conn);
	assert_null(id.context);
	assert_int_equal(qps_asked, 2);
	worker.pollers[0].inline_max = 200;
	fails = steps + 1;
	assert_int_equal(conn_create(&conn, &worker.pollers[0], &tenant, &id, 1, WINDOW), -ENOMEM);
	assert_int_equal(qps_asked, 3);
	assert_int_equal(worker.pollers[0].inline_max, 200);
	peer_error = -EIO;
	assert_int_equal(conn_create(&conn, &worker.pollers[0], &tenant, &id, 1, WINDOW), -EIO);
	assert_int_equal(qps_asked, 3);
	assert_null(conn);
	assert_null(id.context);
	poller_release(&worker.pollers[0]);
}

/* Root and the server's own user are administrators, if the kernel says that they are. */
static void administrators(void **state)
{
	const struct {
		bool known;
		uid_t uid;
		bool admin;
	} cases[] = {
		{ true, 0, true },   { true, geteuid(), true },	  { true, OTHER_UID, false },
		{ false, 0, false }, { false, geteuid(), false },
	};
	struct conn *conn;

	(void)state;
	assert_int_equal(init_with(CONNS), 0);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		peer.uid_known = cases[i].known;
		peer.uid = cases[i].uid;
		assert_int_equal(peer_is_admin(&peer), cases[i].admin);
		conn = new_conn(WINDOW);
		assert_int_equal(conn->client.by_admin, cases[i].admin);
		end_conn(conn);
	}
	poller_release(&worker.pollers[0]);
}

/* A user that is not root is one of its own server. */
static void own_server(void **state)
{
	uid_t before = geteuid();

	(void)state;
	if (before) /* then administrators() has shown it */
		return;
	peer = (struct cm_peer){ .uid_known = true, .uid = OTHER_UID };
	assert_int_equal(seteuid(OTHER_UID), 0);
	assert_true(peer_is_admin(&peer));
	peer.uid++;
	assert_false(peer_is_admin(&peer));
	assert_int_equal(seteuid(before), 0);
}

/* A connection fails once, whatever comes after that. */
static void fails_once(void **state)
{
	struct conn *conn;

	(void)state;
	assert_int_equal(init_with(CONNS), 0);
	conn = new_conn(WINDOW);
	conn_fail(conn, "it did that");
	assert_true(conn->stopped);
	assert_int_equal(stat_read(&worker.stats.connections_failed), 1);
	assert_ptr_equal(mailbox_take(&control), &conn->notes[NOTE_FAILED]);
	assert_logged("connection fake0/0x001234: closed: it did that");
	conn_fail(conn, "and that");
	assert_int_equal(stat_read(&worker.stats.connections_failed), 1);
	assert_null(mailbox_take(&control));
	assert_null(strstr(test_log_text(), "and that"));
	end_conn(conn);
	poller_release(&worker.pollers[0]);
}

#define REGION_BYTES (16u << 20)
#define WORKERS 3u
#define SECOND_NS 1000000000ull
#define OVER_32 (1ull << 32) /* does not fit 32 bits */

static struct store store;
static struct config config;
static struct nic nics[2];

/* A worker of three, on a device of each kind. */
static int make_worker(unsigned int number)
{
	const struct worker_env of = {
		.config = &config,
		.store = &store,
		.nics = nics,
		.nic_count = 2,
		.workers = WORKERS,
		.control = &control,
	};
	static struct worker_env kept;

	kept = of;
	steps = 0;
	return worker_init(&worker, &kept, number, -1);
}

/* The second device's poller is set up after the first one's. */
static int reg_mr_of_either(struct ibv_pd *of, const struct device_mem *mem, int access,
			    struct ibv_mr **out)
{
	making = &worker.pollers[worker.poller_count];
	return reg_mr(of, mem, access, out);
}

static void worker_begin(void)
{
	static struct device_ops either;
	static struct device devs[2];

	worker.env = NULL;
	test_store_create(&store, REGION_BYTES, 4, WORKERS);
	config_init(&config);
	config.request.srq_depth = SRQ_DEPTH;
	config.request.buffer = BUFFER_BYTES;
	config.request.window = WINDOW;
	config.server.max_connections = 3 * CONNS + 1;
	config.server.pull_timeout = OVER_32 + 12;
	config.server.pull_stall = OVER_32 + 13;
	config.memory.pull_share = 10;
	either = ops;
	either.reg_mr = reg_mr_of_either;
	for (unsigned int i = 0; i < 2; i++) {
		devs[i] = (struct device){ .kind = i ? DEVICE_SOFTNIC : DEVICE_RDMA,
					   .ops = &either };
		strcpy(devs[i].name, i ? "softnic" : "mlx9");
		nics[i] = (struct nic){ .dev = &devs[i], .pd = &pd, .attr.max_cqe = 100000 };
	}
}

static void worker_end(void)
{
	making = &worker.pollers[0];
	test_store_destroy(&store);
}

/* What a worker takes from the configuration, and its part of what all of them share. */
static void a_worker(void **state)
{
	(void)state;
	worker_begin();
	for (unsigned int busy = 0; busy < 2; busy++) {
		config.server.poll = busy ? POLL_BUSY : POLL_ADAPTIVE;
		config.server.spin_time = busy ? 0 : OVER_32 + 11;
		assert_int_equal(make_worker(2), 0);
		assert_int_equal(worker.limits.busy, busy);
		assert_int_equal(worker.number, 2);
		assert_true(worker.limits.spin_ns == config.server.spin_time);
		assert_true(worker.limits.pull_ns == OVER_32 + 12);
		assert_true(worker.limits.pull_stall_ns == OVER_32 + 13);
		assert_int_equal(worker.limits.workers, WORKERS);
		assert_int_equal(worker.poller_count, 2);
		for (unsigned int i = 0; i < 2; i++) {
			const struct poller *of = &worker.pollers[i];

			assert_ptr_equal(of->nic, &nics[i]);
			assert_ptr_equal(of->worker, &worker);
			assert_int_equal(of->limits.srq_depth, SRQ_DEPTH);
			assert_int_equal(of->limits.buffer_bytes, BUFFER_BYTES);
			assert_int_equal(of->limits.signal_every, RESPONSE_SIGNAL_EVERY);
			assert_int_equal(of->limits.window, WINDOW);
			/* Together they take all connections; administrators' on the socket. */
			assert_int_equal(of->limits.conns_max, CONNS + 1);
			assert_int_equal(of->limits.admins_max, i ? ADMIN_CONNECTIONS : 0);
			assert_int_equal(of->windows.left,
					 SRQ_DEPTH - (CONNS + 1) - (i ? ADMIN_CONNECTIONS : 0));
			assert_non_null(of->deferred);
		}
		worker_release(&worker);
		assert_int_equal(objects, 0);
		assert_null(worker.env);
		worker_release(&worker);
		memset(&worker, 0, sizeof(worker));
	}
	worker_end();
}

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Whatever fails, on either device, nothing of the worker is left, and its number is free. */
static void a_worker_that_fails(void **state)
{
	unsigned int files;

	(void)state;
	worker_begin();
	files = open_files();
	for (fails = 1; fails <= 14; fails++) {
		assert_int_equal(make_worker(1), -ENOMEM);
		assert_int_equal(objects, 0);
		assert_int_equal(worker.poller_count, 0);
		assert_int_equal(open_files(), files);
		/* Nothing is released twice. */
		worker_release(&worker);
		assert_int_equal(objects, 0);
		memset(&worker, 0, sizeof(worker));
	}
	fails = 0;
	assert_int_equal(make_worker(1), 0);
	worker_release(&worker);
	worker_end();
}

/* One that is taken away keeps its mailbox and its counters, and comes again without a device. */
static void a_worker_that_comes_again(void **state)
{
	struct device *away;
	unsigned int files;

	(void)state;
	worker_begin();
	away = nics[1].dev;
	assert_int_equal(make_worker(1), 0);
	files = open_files();
	stat_add(&worker.stats.requests, 7);
	mailbox_wake(&worker.mailbox);
	worker_retire(&worker);
	assert_int_equal(objects, 0);
	assert_int_equal(worker.poller_count, 0);
	assert_null(worker.trace.ring);
	assert_false(mailbox_pending(&worker.mailbox));
	for (fails = 1; fails <= 7; fails++) {
		assert_int_equal(make_worker(1), -ENOMEM);
		assert_int_equal(objects, 0);
		assert_non_null(worker.env);
		assert_int_equal(open_files(), files);
	}
	fails = 0;
	nics[1].dev = NULL;
	assert_int_equal(make_worker(1), 0);
	assert_int_equal(worker.poller_count, 2);
	assert_true(worker.attached[0] && !worker.attached[1]);
	assert_null(worker.pollers[1].nic);
	assert_int_equal(worker.stats.requests, 7);
	assert_int_equal(open_files(), files);
	worker_release(&worker);
	assert_int_equal(objects, 0);
	assert_int_equal(open_files(), files - 1);
	nics[1].dev = away;
	worker_end();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(all_of_it),
		CASE(small_queues),
		CASE(few_receives),
		CASE(a_step_fails),
		CASE(a_connection),
		CASE(no_connection),
		CASE(little_inline_data),
		CASE(administrators),
		CASE(own_server),
		CASE(fails_once),
		CASE(a_worker),
		CASE(a_worker_that_fails),
		CASE(a_worker_that_comes_again),
		CASE(more_later),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
