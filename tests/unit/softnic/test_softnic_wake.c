/* SPDX-License-Identifier: MIT */
/*
 * Tests of sleeping and waking on softnic (SOFTNIC-3): many connections that are mostly idle,
 * both ends asleep, work that needs several turns, receives that are posted late, two CQs.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/queue_pair.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define MANY 150
#define ROUNDS 3000
#define LONG_BYTES 100000
#define WRAP_SENDS 8
#define WRAP_BYTES 16
#define WRAP_TURNS 100

static struct end server, client;
static char path[64];
static struct cm_id *ids[MANY];
static _Atomic bool stop;
static _Atomic unsigned int slept;

/* For threads other than cmocka's. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static int ends_init(const struct end_options *options)
{
	int ret;

	snprintf(path, sizeof(path), "%s", pair_path());
	ret = end_init(&server, DEVICE_LISTEN, path, options);
	return ret ?: end_init(&client, DEVICE_CONNECT, path, options);
}

static void ends_release(void)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;

	end_release(&client);
	while (atomic_load(&dev_to_sn_context(server.dev)->objects[SN_OBJECT_ID]) > 1) {
		end_serve_cm(&server, &END_DEFAULTS);
		assert_true(pair_now_ms() < deadline);
	}
	end_release(&server);
}

/* Sleeps until the channel's fd is readable; false after the timeout. */
static bool comp_sleep(struct ibv_comp_channel *comp, int timeout_ms)
{
	struct pollfd pfd = { .fd = comp->fd, .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1;
}

/* As a worker does: polls; if there is nothing, arms and polls again; then sleeps. */
static int wait_asleep(struct end *end, struct ibv_wc *wc, int timeout_ms)
{
	struct ibv_cq *cq;
	int ret;

	for (;;) {
		int got = ibv_poll_cq(end->recv_cq, 1, wc);

		if (!got && ibv_req_notify_cq(end->recv_cq, 0))
			return -EIO;
		if (!got)
			got = ibv_poll_cq(end->recv_cq, 1, wc);
		if (got)
			return got < 0 ? got : 0;
		atomic_fetch_add(&slept, 1);
		if (!comp_sleep(end->comp, timeout_ms))
			return -ETIMEDOUT;
		ret = OPS->get_cq_event(end->comp, &cq);
		if (ret && ret != -EAGAIN)
			return ret;
	}
}

static struct ibv_qp *qp_by_number(struct end *end, uint32_t number)
{
	struct sn_context *ctx = dev_to_sn_context(end->dev);
	struct sn_qp *qp;

	pthread_mutex_lock(&ctx->lock);
	TAILQ_FOREACH(qp, &ctx->qps, in_context)
		if (qp->verbs.qp_num == number)
			break;
	pthread_mutex_unlock(&ctx->lock);
	return qp ? &qp->verbs : NULL;
}

/* Sends back a message of the same length for each one, and sleeps when there is none. */
static void *echo(void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	while (!atomic_load(&stop)) {
		int ret = wait_asleep(&server, &wc, 50);

		if (ret == -ETIMEDOUT)
			continue;
		MUST(!ret && wc.status == IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV)
			continue;
		MUST(!end_post_recv(&server, (unsigned int)wc.wr_id));
		MUST(!end_post_send(&server, qp_by_number(&server, wc.qp_num), 0, wc.byte_len,
				    IBV_SEND_SIGNALED));
	}
	return NULL;
}

static void connect_many(unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		assert_int_equal(
			ends_connect(&server, &client, &ids[i], &END_DEFAULTS, &END_DEFAULTS), 0);
}

static void disconnect_many(unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		OPS->destroy_id(ids[i]);
}

static void roundtrip(struct cm_id *id, uint32_t length, bool asleep)
{
	bool sent = false, received = false;
	struct ibv_wc wc;

	assert_int_equal(end_post_send(&client, id->qp, 0, length, IBV_SEND_SIGNALED), 0);
	while (!sent || !received) {
		assert_int_equal(asleep ? wait_asleep(&client, &wc, PAIR_WAIT_MS) :
					  end_wait(&client, NULL, &wc),
				 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_SEND) {
			sent = true;
			continue;
		}
		received = true;
		assert_int_equal(wc.qp_num, id->qp->qp_num);
		assert_int_equal(wc.byte_len, length);
		assert_int_equal(end_post_recv(&client, (unsigned int)wc.wr_id), 0);
	}
}

static void test_many_idle(void **state)
{
	pthread_t thread;
	uint32_t seed = 1;
	unsigned int i;

	(void)state;
	assert_int_equal(ends_init(&END_DEFAULTS), 0);
	connect_many(MANY);
	atomic_store(&stop, false);
	atomic_store(&slept, 0);
	assert_int_equal(pthread_create(&thread, NULL, echo, NULL), 0);
	for (i = 0; i < ROUNDS; i++) {
		seed = seed * 1664525u + 1013904223u;
		roundtrip(ids[(seed >> 8) % MANY], 1 + (seed >> 4) % end_recv_bytes(), i % 2);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_true(atomic_load(&slept) > 0);
	disconnect_many(MANY);
	ends_release();
}

/* More messages than the rings hold, in both directions, with ends that sleep when they can. */
static void test_streams_asleep(void **state)
{
	struct ibv_wc wc;
	pthread_t thread;
	unsigned int i, done = 0, received = 0;

	(void)state;
	assert_int_equal(ends_init(&END_DEFAULTS), 0);
	connect_many(1);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, echo, NULL), 0);
	for (i = 0; i < 40; i++)
		assert_int_equal(end_post_send(&client, ids[0]->qp, 0, end_recv_bytes(),
					       IBV_SEND_SIGNALED),
				 0);
	while (done < 40 || received < 40) {
		assert_int_equal(wait_asleep(&client, &wc, PAIR_WAIT_MS), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_SEND)
			done++;
		else
			received++;
		if (wc.opcode == IBV_WC_RECV)
			assert_int_equal(end_post_recv(&client, (unsigned int)wc.wr_id), 0);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	disconnect_many(1);
	ends_release();
}

/* READs that the other end has to serve while it sleeps. */
static void test_served_asleep(void **state)
{
	struct end_options unshared = END_DEFAULTS;
	struct ibv_wc wc;
	pthread_t thread;
	unsigned int i;

	(void)state;
	unshared.share = false;
	assert_int_equal(ends_init(&unshared), 0);
	connect_many(1);
	for (i = 0; i < LONG_BYTES; i++)
		server.mem[i] = (uint8_t)(i * 7 + i / 256);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, echo, NULL), 0);
	for (i = 0; i < 20; i++) {
		memset(client.mem, 0, LONG_BYTES);
		assert_int_equal(end_post_read(&client, ids[0]->qp, 0, LONG_BYTES,
					       client.remote.addr, client.remote.rkey),
				 0);
		assert_int_equal(wait_asleep(&client, &wc, PAIR_WAIT_MS), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_memory_equal(client.mem, server.mem, LONG_BYTES);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	disconnect_many(1);
	ends_release();
}

/* The receiver sleeps without a receive; when one is posted later, it must wake. */
static void test_late_receive(void **state)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	unsigned int i;

	(void)state;
	assert_int_equal(ends_init(&END_DEFAULTS), 0);
	connect_many(1);
	for (i = 0; i < PAIR_RECVS; i++) {
		assert_int_equal(end_post_send(&client, ids[0]->qp, 0, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
	}
	while (ibv_poll_cq(server.cq, 1, &wc) == 1)
		;
	assert_int_equal(end_post_send(&client, ids[0]->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
	/* The timer wakes it a few times, without a notification. */
	while (comp_sleep(server.comp, 20))
		if (OPS->get_cq_event(server.comp, &cq) != -EAGAIN || i++ > PAIR_RECVS + 3)
			break;
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
	assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
	assert_int_equal(end_post_recv(&server, 0), 0);
	for (;;) {
		assert_true(comp_sleep(server.comp, PAIR_WAIT_MS));
		if (!OPS->get_cq_event(server.comp, &cq))
			break;
	}
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	disconnect_many(1);
	ends_release();
}

/* A sender that sleeps gets the error when the other end is never ready. */
static void test_never_ready_asleep(void **state)
{
	struct end_options options = END_DEFAULTS;
	struct ibv_wc wc;
	struct ibv_cq *cq;
	unsigned int i;

	(void)state;
	options.rnr_retry = 3;
	options.min_rnr_timer = 14; /* 1.28 ms */
	assert_int_equal(ends_init(&options), 0);
	assert_int_equal(ends_connect(&server, &client, &client.id, &options, &options), 0);
	for (i = 0; i < PAIR_RECVS; i++) {
		assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
	}
	while (ibv_poll_cq(server.cq, 1, &wc) == 1)
		;
	assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(client.cq, 0), 0);
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	/*
	 * Each end is served only when it wakes: the server by its timer, the client by the server.
	 */
	while (!comp_sleep(client.comp, 0) || OPS->get_cq_event(client.comp, &cq)) {
		assert_true(comp_sleep(server.comp, PAIR_WAIT_MS));
		OPS->get_cq_event(server.comp, &cq);
	}
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
	ends_release();
}

/* Sends and receives on separate CQs: each wakes its own channel, whichever CQ was polled. */
static void test_two_cqs(void **state)
{
	struct end_options options = END_DEFAULTS;
	struct ibv_wc wc;
	struct ibv_cq *cq;
	unsigned int i;

	(void)state;
	options.two_cqs = true;
	assert_int_equal(ends_init(&options), 0);
	assert_int_equal(ends_connect(&server, &client, &client.id, &options, &options), 0);
	for (i = 0; i < 300; i++) {
		assert_int_equal(ibv_req_notify_cq(client.cq, 0), 0);
		assert_int_equal(ibv_req_notify_cq(server.recv_cq, 0), 0);
		assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
		/* The server's other CQ is polled first and moves the connection forward. */
		if (i % 2)
			assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
		do
			assert_true(comp_sleep(server.comp, PAIR_WAIT_MS));
		while (OPS->get_cq_event(server.comp, &cq));
		assert_ptr_equal(cq, server.recv_cq);
		assert_int_equal(ibv_poll_cq(server.recv_cq, 1, &wc), 1);
		assert_int_equal(end_post_recv(&server, (unsigned int)wc.wr_id), 0);
		if (i % 3)
			assert_int_equal(ibv_poll_cq(client.recv_cq, 1, &wc), 0);
		do
			assert_true(comp_sleep(client.cq->channel, PAIR_WAIT_MS));
		while (OPS->get_cq_event(client.cq->channel, &cq));
		assert_ptr_equal(cq, client.cq);
		assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 1);
		assert_int_equal(wc.opcode, IBV_WC_SEND);
	}
	ends_release();
}

/* What was published after the last poll and before arming is seen by the arming. */
static void test_arming_checks_again(void **state)
{
	struct sn_cq *cq;
	struct sn_qp *qp;

	(void)state;
	assert_int_equal(ends_init(&END_DEFAULTS), 0);
	connect_many(1);
	cq = to_sn_cq(server.cq);
	qp = to_sn_qp(server.id->qp);
	assert_int_equal(end_post_send(&client, ids[0]->qp, 0, 8, 0), 0);
	assert_int_equal(cq->head, cq->tail);
	sn_lock(&qp->lock);
	assert_true(do_sn_qp_arm(qp));
	sn_unlock(&qp->lock);
	assert_int_equal(cq->head, cq->tail + 1);
	disconnect_many(1);
	ends_release();
}

/* Polls the server, which finds nothing, until it has @hot hot connections. */
static void poll_until_hot(uint32_t hot)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct ibv_wc wc;

	while (to_sn_cq(server.cq)->hot_count != hot) {
		assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
		assert_true(pair_now_ms() < deadline);
	}
}

/*
 * Connections without traffic for some time become cold, and their messages are found all the same;
 * those with traffic stay hot (SOFTNIC-8).
 */
static void test_cold(void **state)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct sn_cq *cq;
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	assert_int_equal(ends_init(&END_DEFAULTS), 0);
	connect_many(MANY);
	cq = to_sn_cq(server.cq);
	assert_int_equal(cq->hot_count, MANY);
	poll_until_hot(0);
	for (i = 0; i < MANY; i += 7) {
		assert_int_equal(end_post_send(&client, ids[i]->qp, 0, 8, 0), 0);
		while (!ibv_poll_cq(server.cq, 1, &wc))
			assert_true(pair_now_ms() < deadline);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_true(cq->hot_count > 0);
		assert_int_equal(end_post_recv(&server, (unsigned int)wc.wr_id), 0);
	}
	poll_until_hot(0);
	disconnect_many(MANY);
	ends_release();
}

/* One that became cold while its peer polled wakes the peer that sleeps now. */
static void test_cold_and_asleep(void **state)
{
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	assert_int_equal(ends_init(&END_DEFAULTS), 0);
	connect_many(MANY);
	for (i = 0; i < MANY; i += 50) {
		poll_until_hot(0);
		assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
		assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
		assert_false(comp_sleep(server.comp, 0));
		assert_int_equal(end_post_send(&client, ids[i]->qp, 0, 8, 0), 0);
		assert_int_equal(wait_asleep(&server, &wc, PAIR_WAIT_MS), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(end_post_recv(&server, (unsigned int)wc.wr_id), 0);
	}
	disconnect_many(MANY);
	ends_release();
}

/*
 * A poll looks at all hot connections: the message of any is found by the next poll, however many
 * others there are and in whatever order they send.
 */
static void test_hot(void **state)
{
	struct ibv_wc wc;
	unsigned int i;
	uint32_t seed = 1;
	bool all_hot;

	(void)state;
	assert_int_equal(ends_init(&END_DEFAULTS), 0);
	connect_many(MANY);
	assert_int_equal(to_sn_cq(server.cq)->hot_count, MANY);
	for (i = 0; i < ROUNDS; i++) {
		seed = seed * 1664525u + 1013904223u;
		/* One that becomes cold takes longer. */
		all_hot = to_sn_cq(server.cq)->hot_count == MANY;
		assert_int_equal(end_post_send(&client, ids[(seed >> 8) % MANY]->qp, 0, 8,
					       IBV_SEND_SIGNALED),
				 0);
		if (!ibv_poll_cq(server.cq, 1, &wc)) {
			assert_false(all_hot);
			assert_int_equal(end_wait(&server, NULL, &wc), 0);
		}
		assert_int_equal(end_post_recv(&server, (unsigned int)wc.wr_id), 0);
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
	}
	disconnect_many(MANY);
	ends_release();
}

/* As if both sides of a connection had seen @number SENDs of the client. */
static void sends_begin_at(uint32_t number)
{
	struct sn_qp *from = to_sn_qp(ids[0]->qp), *to = to_sn_qp(server.id->qp);

	from->sq.sends = from->sq.acked = number;
	to->acked = number;
	side_store(&to->mine->acked, number);
}

/* Moves both ends forward: none of the SENDs may complete. */
static void expect_none_complete(void)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < WRAP_TURNS; i++) {
		assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
		assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	}
}

/*
 * SENDs are counted in 32 bits, so that long-lived connections pass 2^32: those after it complete
 * one for each receive, and none before.
 */
static void test_sends_wrap(void **state)
{
	struct end_options patient = END_DEFAULTS;
	unsigned int i, done = 0;
	struct ibv_wc wc;

	(void)state;
	patient.rnr_retry = 7; /* for ever */
	assert_int_equal(ends_init(&patient), 0);
	assert_int_equal(ends_connect(&server, &client, &ids[0], &patient, &patient), 0);
	for (i = 0; i < PAIR_RECVS; i++) {
		assert_int_equal(end_post_send(&client, ids[0]->qp, 0, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&server, NULL, &wc), 0);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
	}
	sends_begin_at(UINT32_MAX - 2);
	for (i = 0; i < WRAP_SENDS; i++)
		assert_int_equal(end_post_send(&client, ids[0]->qp, WRAP_BYTES * i, WRAP_BYTES,
					       IBV_SEND_SIGNALED),
				 0);
	expect_none_complete();
	for (i = 0; i < WRAP_SENDS; i++) {
		assert_int_equal(end_post_recv(&server, i), 0);
		assert_int_equal(end_wait(&server, &client, &wc), 0);
		assert_int_equal(wc.byte_len, WRAP_BYTES);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, WRAP_BYTES * done++);
		expect_none_complete();
	}
	OPS->destroy_id(ids[0]);
	ends_release();
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
		cmocka_unit_test(test_many_idle),	    cmocka_unit_test(test_streams_asleep),
		cmocka_unit_test(test_served_asleep),	    cmocka_unit_test(test_late_receive),
		cmocka_unit_test(test_never_ready_asleep),  cmocka_unit_test(test_two_cqs),
		cmocka_unit_test(test_arming_checks_again), cmocka_unit_test(test_cold),
		cmocka_unit_test(test_cold_and_asleep),	    cmocka_unit_test(test_hot),
		cmocka_unit_test(test_sends_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, group_teardown);
}
