/* SPDX-License-Identifier: MIT */
/*
 * Tests of softnic's fault plan and, with it, of the error path of every call: a session uses all
 * calls, and each of its calls fails once (the N-th call, for all N); nothing may be leaked.
 */
#include "common/rdma/softnic/fault.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/device_context.h"
#include "common/util/clock.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define CALLS_MAX 400 /* calls of one kind a session makes at most, but for polling ones */
#define POLLED_STEP 7 /* of calls that poll, only one in 7 fails, and only the first 100 */
#define POLLED_MAX 100
#define LARGE 20000

static const char *path;

static int session_message(struct end *server, struct end *client)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	int ret = -ibv_req_notify_cq(server->recv_cq, 0);

	if (ret)
		return ret;
	ret = end_post_send(client, client->id->qp, 0, 100, IBV_SEND_SIGNALED);
	while (!ret)
		ret = OPS->get_cq_event(server->comp, &cq) ?: 1;
	if (ret < 0 && ret != -EAGAIN)
		return ret;
	ret = end_wait(server, client, &wc);
	if (!ret && (wc.status || wc.opcode != IBV_WC_RECV))
		return -EIO;
	if (!ret)
		ret = end_post_recv(server, (unsigned int)wc.wr_id);
	if (!ret)
		ret = end_wait(client, server, &wc);
	return ret ?: (wc.status ? -EIO : 0);
}

static int session_reads(struct end *server, struct end *client)
{
	struct ibv_wc wc;
	int ret = end_post_read(client, client->id->qp, 0, LARGE, client->remote.addr,
				client->remote.rkey);

	if (!ret)
		ret = end_wait(client, server, &wc);
	if (!ret && wc.status)
		ret = -EIO;
	/* In the other direction nothing is mapped: the server reads the client's file. */
	if (!ret)
		ret = end_post_read(server, server->id->qp, 0, LARGE, (uintptr_t)client->mem,
				    client->mr->rkey);
	if (!ret)
		ret = end_wait(server, client, &wc);
	return ret ?: (wc.status ? -EIO : 0);
}

static int session_reject(struct end *server, struct end *client)
{
	struct cm_id *other = NULL;
	struct cm_event event;
	int ret = end_connect(client, &other, &END_DEFAULTS);

	if (!ret)
		do
			ret = OPS->cm_get_event(server->cm, &event);
		while (ret == -EAGAIN);
	if (!ret) {
		ret = OPS->reject(event.id, "no", 2);
		OPS->destroy_id(event.id);
	}
	if (!ret)
		do
			ret = OPS->cm_get_event(client->cm, &event);
		while (ret == -EAGAIN);
	if (!ret)
		ret = event.type == CM_REJECTED && event.private_len == 2 ? 0 : -EIO;
	OPS->destroy_id(other);
	return ret;
}

static int session_rest(struct end *server, struct end *client)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR, .qp_access_flags = 0 };
	struct ibv_srq_attr limit = { .srq_limit = 4 };
	struct device_async_event event;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad; /* refused with a shared receive queue */
	struct device_mem mem = { .fd = -1 };
	struct ibv_mw *mw = NULL;
	struct cm_peer peer;
	int ret = OPS->query(client->dev, &device, &port);

	if (!ret)
		ret = OPS->alloc_mem(client->dev, LARGE, &mem);
	OPS->free_mem(client->dev, &mem);
	if (!ret)
		ret = OPS->alloc_mw(server->pd, &mw);
	OPS->dealloc_mw(mw);
	if (!ret)
		ret = OPS->query_qp(client->id->qp, &attr, IBV_QP_STATE);
	if (!ret)
		ret = attr.qp_state == IBV_QPS_RTS ? 0 : -EIO;
	if (!ret)
		ret = OPS->modify_srq(server->srq, &limit, IBV_SRQ_LIMIT);
	if (!ret)
		ret = OPS->modify_qp(server->id->qp, &attr, IBV_QP_ACCESS_FLAGS);
	if (!ret)
		ret = OPS->get_async_event(client->dev, &event);
	if (ret == -EAGAIN)
		ret = session_reject(server, client);
	if (!ret)
		ret = ibv_post_recv(client->id->qp, &wr, &bad) == EINVAL ? 0 : -EIO;
	if (!ret)
		ret = OPS->query_peer(server->id, &peer);
	if (!ret)
		ret = OPS->disconnect(client->id);
	return ret;
}

/* Uses every call at least once. */
static int session(void)
{
	struct end server, client;
	int ret = end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS);

	if (ret) {
		end_release(&server);
		return ret;
	}
	ret = end_init(&client, DEVICE_CONNECT, path, &END_DEFAULTS);
	if (!ret)
		ret = ends_connect(&server, &client, &client.id, &END_DEFAULTS, &END_DEFAULTS);
	if (!ret)
		ret = session_message(&server, &client);
	if (!ret)
		ret = session_reads(&server, &client);
	if (!ret)
		ret = session_rest(&server, &client);
	end_release(&client);
	end_release(&server);
	return ret;
}

static bool call_polls(enum fault_call call)
{
	return call == FAULT_poll_cq || call == FAULT_cm_get_event || call == FAULT_get_cq_event;
}

/* Calls without which the same is done in another way. */
static bool call_has_other(enum fault_call call)
{
	return call == FAULT_take_file;
}

static void test_session(void **state)
{
	(void)state;
	assert_int_equal(session(), 0);
}

static void test_all_calls_are_made(void **state)
{
	struct fault_plan plan = { .seed = 1 };
	unsigned int call;

	(void)state;
	fault_set(&plan);
	assert_int_equal(session(), 0);
	fault_reset();
	for (call = 0; call < FAULT_CALL_COUNT; call++)
		if (!fault_count(call))
			fail_msg("%s is not called by the session", fault_call_name(call));
}

/* The N-th call of every kind fails, for all N. */
static void test_nth_call_fails(void **state)
{
	unsigned int call;

	(void)state;
	for (call = 0; call < FAULT_CALL_COUNT; call++) {
		struct fault_plan plan = { .fail_call = call, .fail_errno = EMFILE };
		unsigned int step = call_polls(call) ? POLLED_STEP : 1;
		unsigned int max = call_polls(call) ? POLLED_MAX : CALLS_MAX;
		int ret;

		for (plan.fail_at = 1; plan.fail_at <= max; plan.fail_at += step) {
			fault_set(&plan);
			ret = session();
			fault_reset();
			if (fault_count(call) < plan.fail_at)
				break;
			if (!ret && !call_has_other(call))
				fail_msg("%s number %u failed and nobody noticed",
					 fault_call_name(call), (unsigned int)plan.fail_at);
		}
		if (!call_polls(call))
			assert_true(plan.fail_at <= CALLS_MAX);
	}
}

/*
 * The device dies at each call in turn: what is under way fails, and all objects must still be
 * destroyed cleanly.
 */
static void test_device_dies(void **state)
{
	struct fault_plan plan = { .seed = 1 };
	unsigned int call;
	uint64_t calls;
	int ret;

	(void)state;
	for (plan.kill_at = 1; plan.kill_at < 150; plan.kill_at++) {
		fault_set(&plan);
		ret = session();
		fault_reset();
		for (call = 0, calls = 0; call < FAULT_CALL_COUNT; call++)
			calls += fault_count(call);
		assert_true(calls >= plan.kill_at);
		if (!ret)
			fail_msg("the device died at call %u and nobody noticed",
				 (unsigned int)plan.kill_at);
	}
}

static void both_init(struct end *server, struct end *client)
{
	assert_int_equal(end_init(server, DEVICE_LISTEN, path, &END_DEFAULTS), 0);
	assert_int_equal(end_init(client, DEVICE_CONNECT, path, &END_DEFAULTS), 0);
	assert_int_equal(ends_connect(server, client, &client->id, &END_DEFAULTS, &END_DEFAULTS),
			 0);
}

static void test_dead_device_tells(void **state)
{
	struct fault_plan plan = { .kill_at = 1 };
	struct device_async_event event;
	struct end server, client;
	struct ibv_wc wc;

	(void)state;
	both_init(&server, &client);
	fault_set(&plan);
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	fault_reset();
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	do
		assert_int_equal(OPS->get_async_event(client.dev, &event), 0);
	while (event.type == IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(event.type, IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(end_serve_cm(&client, &END_DEFAULTS), -ENODEV);
	end_release(&client);
	end_release(&server);
}

/* Also a server that waits for its first client, without a connection that could fail. */
static void test_dead_device_wakes(void **state)
{
	struct end server;
	struct cm_event event;
	struct pollfd fd;

	(void)state;
	assert_int_equal(end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS), 0);
	fd = (struct pollfd){ .fd = server.cm->fd, .events = POLLIN };
	assert_int_equal(poll(&fd, 1, 0), 0);
	sn_context_kill(dev_to_sn_context(server.dev));
	assert_int_equal(poll(&fd, 1, PAIR_WAIT_MS), 1);
	assert_int_equal(OPS->cm_get_event(server.cm, &event), 0);
	assert_int_equal(event.type, CM_DEVICE_REMOVED);
	end_release(&server);
}

static void test_dropped(void **state)
{
	struct fault_plan plan = { .drop_at = 3 };
	struct end server, client;
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	both_init(&server, &client);
	fault_set(&plan);
	for (i = 1; i <= 4; i++) {
		assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.status, i < 3 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
	}
	fault_reset();
	while (!client.disconnected || !server.disconnected) {
		end_serve_cm(&client, &END_DEFAULTS);
		end_serve_cm(&server, &END_DEFAULTS);
	}
	end_release(&client);
	end_release(&server);
}

static void test_delayed(void **state)
{
	struct fault_plan plan = { .seed = 3, .delay_ns = 3000000 };

	(void)state;
	fault_set(&plan);
	assert_int_equal(session(), 0);
	plan.late_ns = 3000000;
	plan.reorder = 1;
	fault_set(&plan);
	assert_int_equal(session(), 0);
	fault_reset();
}

/* Returns the time that the plan's first random choice of lateness is. */
static uint64_t late_plan(void)
{
	const struct fault_plan plan = { .seed = 5, .late_ns = 40000000 };
	uint64_t late_ns;

	fault_set(&plan);
	late_ns = fault_late_ns();
	fault_set(&plan);
	assert_true(late_ns > 5000000);
	return late_ns;
}

/* A READ of mapped memory is done when it is posted, and completes later. */
static void test_late(void **state)
{
	struct end server, client;
	uint64_t late_ns, began_ns;
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	both_init(&server, &client);
	/* The first READ takes the server's file. */
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 8, client.remote.addr,
				       client.remote.rkey),
			 0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	late_ns = late_plan();
	began_ns = clock_ns();
	for (i = 0; i < 3; i++)
		assert_int_equal(end_post_read(&client, client.id->qp, i * 8, 8, client.remote.addr,
					       client.remote.rkey),
				 0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(clock_ns() - began_ns >= late_ns);
	for (i = 1; i < 3; i++) {
		uint64_t before = wc.wr_id;

		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_true(wc.wr_id >= before);
	}
	fault_reset();
	end_release(&client);
	end_release(&server);
}

/* A thread that sleeps is woken for it, although its peer does nothing. */
static void test_late_wakes(void **state)
{
	struct end server, client;
	struct pollfd fd;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	int ret;

	(void)state;
	both_init(&server, &client);
	late_plan();
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 8, client.remote.addr,
				       client.remote.rkey),
			 0);
	assert_int_equal(ibv_req_notify_cq(client.recv_cq, 0), 0);
	fd = (struct pollfd){ .fd = client.comp->fd, .events = POLLIN };
	do {
		assert_int_equal(poll(&fd, 1, PAIR_WAIT_MS), 1);
		ret = OPS->get_cq_event(client.comp, &cq);
	} while (ret == -EAGAIN);
	assert_int_equal(ret, 0);
	fault_reset();
	assert_int_equal(ibv_poll_cq(client.recv_cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	end_release(&client);
	end_release(&server);
}

/* What is late when the queue pair fails has succeeded. */
static void test_late_and_failed(void **state)
{
	const struct fault_plan plan = { .seed = 5, .late_ns = 10000000000 };
	struct end server, client;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	(void)state;
	both_init(&server, &client);
	fault_set(&plan);
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 8, client.remote.addr,
				       client.remote.rkey),
			 0);
	assert_int_equal(OPS->modify_qp(client.id->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_poll_cq(client.recv_cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_poll_cq(client.recv_cq, 1, &wc), 0);
	fault_reset();
	end_release(&client);
	end_release(&server);
}

#define MESSAGES 6u

/* Two clients send MESSAGES each, of 1, 2, ... bytes; returns how often the source changes. */
static unsigned int changes_of_source(const struct fault_plan *plan)
{
	struct end server, clients[2];
	unsigned int i, n, changes = 0;
	uint32_t lengths[2] = { 0, 0 }, first = 0, last = 0;
	struct ibv_wc wc;

	assert_int_equal(end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(end_init(&clients[i], DEVICE_CONNECT, path, &END_DEFAULTS), 0);
		assert_int_equal(ends_connect(&server, &clients[i], &clients[i].id, &END_DEFAULTS,
					      &END_DEFAULTS),
				 0);
	}
	for (i = 0; i < 2; i++)
		for (n = 1; n <= MESSAGES; n++)
			assert_int_equal(end_post_send(&clients[i], clients[i].id->qp, 0, n, 0), 0);
	fault_set(plan);
	for (n = 0; n < 2 * MESSAGES; n++) {
		assert_int_equal(end_wait(&server, NULL, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (!n)
			first = wc.qp_num;
		changes += n && wc.qp_num != last;
		last = wc.qp_num;
		assert_int_equal(wc.byte_len, ++lengths[last != first]);
	}
	fault_reset();
	for (i = 0; i < 2; i++)
		end_release(&clients[i]);
	while (server.disconnected < 2)
		end_serve_cm(&server, &END_DEFAULTS);
	end_release(&server);
	return changes;
}

/* Completions of two queue pairs are mixed; those of each stay in their order. */
static void test_reordered(void **state)
{
	unsigned int i, changes, most = 0;

	(void)state;
	changes = changes_of_source(&(struct fault_plan){ .seed = 1 });
	for (i = 1; i <= 5; i++) {
		unsigned int n = changes_of_source(&(struct fault_plan){ .seed = i, .reorder = 1 });

		most = n > most ? n : most;
	}
	if (changes != 1 || most < 3)
		fail_msg("%u changes of the source without a plan, %u with one", changes, most);
}

/* Posts two messages of which one completion is lost; returns the time when the first is there. */
static uint64_t lose(struct end *server, struct end *client, uint64_t at, uint64_t after_ns)
{
	struct fault_plan plan = { .lose_at = at, .lose_ns = after_ns };
	struct ibv_wc wc;

	both_init(server, client);
	fault_set(&plan);
	assert_int_equal(end_post_send(client, client->id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_wait(server, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(end_wait(client, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(end_post_send(client, client->id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	return clock_ns();
}

/* The peer has the message, but its sender does not learn that, nor what the peer sends then. */
static void test_lost_send(void **state)
{
	const uint64_t after_ns = 30000000;
	struct end server, client;
	struct ibv_wc wc;
	uint64_t began_ns;

	(void)state;
	began_ns = lose(&server, &client, 4, after_ns);
	assert_int_equal(end_wait(&server, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(end_post_send(&server, server.id->qp, 0, 8, 0), 0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_true(clock_ns() - began_ns >= after_ns);
	fault_reset();
	end_release(&client);
	end_release(&server);
}

/* The receiver's: it has taken a receive for the message, which is flushed. */
static void test_lost_receive(void **state)
{
	const uint64_t after_ns = 30000000;
	struct end server, client;
	struct ibv_wc wc;
	uint64_t began_ns;

	(void)state;
	began_ns = lose(&server, &client, 3, after_ns);
	assert_int_equal(end_wait(&server, &client, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_true(clock_ns() - began_ns >= after_ns);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	fault_reset();
	end_release(&client);
	end_release(&server);
}

/* Each completion is lost once. */
static void test_each_is_lost(void **state)
{
	struct fault_plan plan = { .lose_at = 1, .lose_ns = 1000000 };
	int ret;

	(void)state;
	for (; plan.lose_at < 100; plan.lose_at++) {
		fault_set(&plan);
		ret = session();
		fault_reset();
		if (!ret)
			break;
	}
	assert_in_range(plan.lose_at, 4, 99);
}

/* What a plan did is counted, by its kind, and from 0 on with the next plan. */
static void test_what_a_plan_did(void **state)
{
	static const uint64_t nothing[FAULT_KIND_COUNT];
	const struct fault_plan none = { .seed = 1 };
	const struct fault_plan plan = { .tear = 4,
					 .drop_at = 1,
					 .delay_ns = 5,
					 .late_ns = 5,
					 .reorder = 1,
					 .lose_at = 2,
					 .lose_ns = 7,
					 .stall_call = FAULT_listen,
					 .stall_at = 1,
					 .stall_ns = 1,
					 .fail_call = FAULT_listen,
					 .fail_at = 1 };
	const uint64_t did[FAULT_KIND_COUNT] = {
		[FAULT_KIND_fail] = 1,	[FAULT_KIND_tear] = 2,	  [FAULT_KIND_drop] = 1,
		[FAULT_KIND_delay] = 1, [FAULT_KIND_stall] = 1,	  [FAULT_KIND_late] = 1,
		[FAULT_KIND_lose] = 1,	[FAULT_KIND_reorder] = 1,
	};
	const struct fault_plan *const plans[] = { &none, &plan, &none };
	char bytes[8] = "";

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		const uint64_t *want = plans[i] == &none ? nothing : did;

		fault_set(plans[i]);
		fault_hit(FAULT_listen, NULL);
		fault_hit(FAULT_listen, NULL);
		fault_hit(FAULT_post_send, NULL);
		fault_drops();
		fault_delay_ns();
		fault_late_ns();
		fault_loses_ns();
		fault_loses_ns();
		fault_pick(1);
		fault_pick(2);
		fault_part(4);
		fault_part(5);
		fault_copy(bytes, "abc", 4);
		fault_copy(bytes, "abcdef", 5);
		for (int kind = 0; kind < FAULT_KIND_COUNT; kind++)
			if (fault_kind_count((enum fault_kind)kind) != want[kind])
				fail_msg("plan %u, kind %d: %llu", i, kind,
					 (unsigned long long)fault_kind_count(
						 (enum fault_kind)kind));
	}
	fault_reset();
}

static struct timespec stalled; /* by the last nanosleep(2), which is not slept */

int nanosleep(const struct timespec *time, struct timespec *rest)
{
	(void)rest;
	stalled = *time;
	return 0;
}

/* That call, and no other, takes so long. */
static void test_stalls(void **state)
{
	const struct fault_plan plan = { .stall_call = FAULT_accept,
					 .stall_at = 2,
					 .stall_ns = 3000000007 };

	(void)state;
	fault_set(&plan);
	for (unsigned int i = 1; i <= 3; i++) {
		stalled = (struct timespec){ 0 };
		assert_int_equal(fault_hit(FAULT_accept, NULL), 0);
		assert_int_equal(stalled.tv_sec, i == 2 ? 3 : 0);
		assert_int_equal(stalled.tv_nsec, i == 2 ? 7 : 0);
		assert_int_equal(fault_hit(FAULT_connect, NULL), 0);
		assert_int_equal(stalled.tv_sec, i == 2 ? 3 : 0);
	}
	fault_reset();
}

/* What happens once happens at that call alone. */
static void test_once(void **state)
{
	const struct fault_plan plan = { .drop_at = 2, .lose_at = 2, .lose_ns = 5 };
	unsigned int i;

	(void)state;
	fault_set(&plan);
	for (i = 1; i <= 4; i++) {
		fault_hit(FAULT_post_send, NULL);
		assert_int_equal(fault_drops(), i == 2);
		assert_int_equal(fault_loses_ns(), i == 2 ? 5 : 0);
	}
	fault_reset();
}

/* A device that died fails its calls but those that take what is left; others are not concerned. */
static void test_calls_of_the_dead(void **state)
{
	const struct fault_plan plan = { .kill_at = 1 };
	struct sn_context *dead, *other;
	struct end server, client;

	(void)state;
	both_init(&server, &client);
	dead = dev_to_sn_context(server.dev);
	other = dev_to_sn_context(client.dev);
	fault_set(&plan);
	assert_int_equal(fault_hit(FAULT_open, NULL), 0); /* which is of no device */
	assert_int_equal(fault_hit(FAULT_poll_cq, dead), 0);
	assert_true(sn_context_is_dead(dead));
	assert_int_equal(fault_hit(FAULT_reg_mr, dead), -EIO);
	assert_int_equal(fault_hit(FAULT_accept, dead), -EIO);
	assert_int_equal(fault_hit(FAULT_disconnect, dead), 0);
	assert_int_equal(fault_hit(FAULT_reg_mr, other), 0);
	assert_false(sn_context_is_dead(other));
	/* A plan that kills none leaves it to the device what its calls do. */
	fault_set(&(struct fault_plan){ .seed = 1 });
	assert_int_equal(fault_hit(FAULT_reg_mr, dead), 0);
	fault_reset();
	end_release(&client);
	end_release(&server);
}

/* What a plan does not say is as without a plan. */
static void test_what_a_plan_does_not_say(void **state)
{
	(void)state;
	fault_set(&(struct fault_plan){ .seed = 1 });
	assert_true(fault_mr_max() == SIZE_MAX);
	assert_false(fault_reuses());
	assert_false(fault_reorders());
	assert_false(fault_defers());
	assert_int_equal(fault_delay_ns(), 0);
	fault_set(&(struct fault_plan){ .mr_max = 4096, .reuse = 1 });
	assert_int_equal(fault_mr_max(), 4096);
	assert_true(fault_reuses());
	fault_reset();
	assert_true(fault_mr_max() == SIZE_MAX);
	fault_set(&(struct fault_plan){ .lose_at = 1 });
	assert_true(fault_defers());
	fault_set(&(struct fault_plan){ .late_ns = 1 });
	assert_true(fault_defers());
	fault_reset();
}

/* The seed alone says which they are. */
static void test_random_times(void **state)
{
	uint64_t times[3][4];
	unsigned int i, n, same = 0;

	(void)state;
	for (i = 0; i < 3; i++) {
		fault_set(&(struct fault_plan){ .seed = 5 + i % 2, .delay_ns = 1u << 30 });
		for (n = 0; n < 4; n++) {
			times[i][n] = fault_delay_ns();
			assert_true(times[i][n] < 1u << 30);
		}
		for (n = 0; n < 3; n++)
			same += times[i][n] == times[i][n + 1];
	}
	fault_reset();
	assert_int_equal(same, 0);
	assert_memory_equal(times[0], times[2], sizeof(times[0]));
	assert_memory_not_equal(times[0], times[1], sizeof(times[0]));
}

/* A torn copy has all bytes in their places, and not one more. */
static void test_torn_copy(void **state)
{
	uint8_t from[16] = "abcdefghijklmno", to[16] = { 0 };

	(void)state;
	fault_set(&(struct fault_plan){ .tear = 4 });
	fault_copy(to, from, 10);
	fault_reset();
	assert_memory_equal(to, from, 10);
	assert_int_equal(to[10], 0);
	assert_int_equal(to[11], 0);
}

/* A process reads its environment once: these do it before any case has done so. */
static pid_t environments[3];

static void environments_fork(void)
{
	static const char *const plans[] = { "fail=alloc_pd:1", "fail=alloc_pd", NULL };

	for (unsigned int i = 0; i < 3; i++) {
		environments[i] = fork();
		if (environments[i])
			continue;
		if (plans[i])
			setenv(FAULT_ENV, plans[i], 1);
		else
			unsetenv(FAULT_ENV);
		_exit(fault_init() != (i == 1 ? -EINVAL : 0) ||
		      fault_check(FAULT_alloc_pd, NULL) != (i == 0 ? -ENOMEM : 0));
	}
}

/* The plan of the environment is in force from the first device on; a wrong one opens none. */
static void test_environment(void **state)
{
	int status;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(waitpid(environments[i], &status, 0), environments[i]);
		assert_int_equal(status, 0);
	}
}

/* The least and the most of each number, and nothing of an earlier plan. */
static void test_parse_bounds(void **state)
{
	static const char *const wrong[] = {
		"drop=0",
		"kill=0",
		"reuse=2",
		"mr_max=0",
		"delay=0us",
		"delay=10001ms",
		"late=10001ms",
		"late=0us",
		"lose=1:10001ms",
		"lose=1:0us",
		"stall=open:1:0us",
		"tear=4294967296",
		"stall=open:1:10001ms",
	};
	struct fault_plan plan;
	char text[400], why[256];

	(void)state;
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (fault_parse(&plan, wrong[i], why, sizeof(why)) != -EINVAL)
			fail_msg("'%s' was taken", wrong[i]);
	memset(&plan, 1, sizeof(plan));
	assert_int_equal(fault_parse(&plan, "seed=0,late=10s,tear=4294967295", why, sizeof(why)),
			 0);
	assert_int_equal(plan.seed, 0);
	assert_int_equal(plan.tear, UINT32_MAX);
	assert_int_equal(plan.late_ns, 10000000000);
	assert_int_equal(plan.fail_at + plan.drop_at + plan.kill_at + plan.lose_at, 0);
	assert_null(plan.tear_hook);
	/* As long as one may be, and a character more. */
	memset(text, '0', sizeof(text));
	memcpy(text, "seed=", 5);
	text[255] = 0;
	assert_int_equal(fault_parse(&plan, text, why, sizeof(why)), 0);
	text[255] = '0';
	text[256] = 0;
	assert_int_equal(fault_parse(&plan, text, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "255"));
	assert_int_equal(fault_parse(&plan, "", why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "255"));
}

static void test_parse(void **state)
{
	static const char *const wrong[] = {
		"",
		"seed",
		"seed=",
		"seed=x",
		"fail=create_qp",
		"fail=x:1",
		"fail=open:0",
		"tear=0",
		"tear=1,",
		"delay=5",
		"delay=20s",
		"boom=1",
		"tear=5000000000",
		"seed=1;kill=2",
		" seed=1",
		"stall=3s",
		"stall=accept:3s",
		"stall=x:1:3s",
		"stall=accept:1:",
		"stall=accept:0:3s",
		"late=5",
		"late=",
		"reorder=2",
		"lose=4",
		"lose=4:",
		"lose=0:3ms",
		"lose=x:3ms",
		"lose=4:20s",
		"seed=1,late=5us,seed=2",
		"fail=open:1,fail=open:2",
	};
	struct fault_plan plan;
	char why[256];
	unsigned int i;

	(void)state;
	assert_int_equal(
		fault_parse(&plan,
			    "seed=7,fail=create_qp:3,tear=64,drop=5,delay=200us,kill=9,reuse=1,"
			    "stall=modify_qp:2:3ms,mr_max=4096,late=5us,reorder=1,lose=8:2ms",
			    why, sizeof(why)),
		0);
	assert_int_equal(plan.seed, 7);
	assert_int_equal(plan.fail_call, FAULT_create_qp);
	assert_int_equal(plan.fail_at, 3);
	assert_int_equal(plan.tear, 64);
	assert_int_equal(plan.drop_at, 5);
	assert_int_equal(plan.delay_ns, 200000);
	assert_int_equal(plan.kill_at, 9);
	assert_int_equal(plan.stall_call, FAULT_modify_qp);
	assert_int_equal(plan.stall_at, 2);
	assert_int_equal(plan.stall_ns, 3000000);
	assert_int_equal(plan.mr_max, 4096);
	assert_int_equal(plan.late_ns, 5000);
	assert_int_equal(plan.reorder, 1);
	assert_int_equal(plan.lose_at, 8);
	assert_int_equal(plan.lose_ns, 2000000);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		why[0] = 0;
		if (fault_parse(&plan, wrong[i], why, sizeof(why)) != -EINVAL)
			fail_msg("'%s' was taken", wrong[i]);
		assert_true(strlen(why) > 10);
	}
}

static int group_setup(void **state)
{
	(void)state;
	environments_fork();
	path = pair_path();
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	pair_path_release();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environment), /* before a device is opened */
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_parse_bounds),
		cmocka_unit_test(test_what_a_plan_did),
		cmocka_unit_test(test_session),
		cmocka_unit_test(test_all_calls_are_made),
		cmocka_unit_test(test_nth_call_fails),
		cmocka_unit_test(test_device_dies),
		cmocka_unit_test(test_dead_device_tells),
		cmocka_unit_test(test_dead_device_wakes),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_delayed),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_late_wakes),
		cmocka_unit_test(test_late_and_failed),
		cmocka_unit_test(test_reordered),
		cmocka_unit_test(test_lost_send),
		cmocka_unit_test(test_lost_receive),
		cmocka_unit_test(test_each_is_lost),
		cmocka_unit_test(test_stalls),
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_calls_of_the_dead),
		cmocka_unit_test(test_what_a_plan_does_not_say),
		cmocka_unit_test(test_random_times),
		cmocka_unit_test(test_torn_copy),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
