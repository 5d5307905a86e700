/* SPDX-License-Identifier: MIT */
/* Conformance cases for completion queues and their notifications. */
#include "tests/conformance/conformance.h"
#include "tests/support/form.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * A wake-up can be lost only within less than a microsecond, so it takes many rounds to have a
 * chance of hitting that moment; emulated, each round takes a millisecond. In the short form
 * test_softnic_sleep and test_softnic_wake do it where they hold one end.
 */
#define ROUNDS_SOFTNIC (long_form() ? 20000 : 4000)
#define ROUNDS_VERBS 3000
#define DELAY_SPINS 4000 /* random delay, up to some microseconds: about the time of a round */

static void notification_none(struct side *side)
{
	int64_t deadline_us = suite_now_us() + SUITE_QUIET_MS * 1000LL;
	unsigned int spurious = 0;
	struct ibv_cq *cq;

	do {
		CHECK_INT(suite.ops->get_cq_event(side->comp, &cq), -EAGAIN);
		spurious += side_readable(side, SUITE_QUIET_MS);
		CHECK(spurious < SPURIOUS_MAX);
	} while (suite_now_us() < deadline_us);
}

/* Not armed: no notification. Armed: one for the next completion, and no more. */
static void notify_once(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	for (unsigned int i = 0; i < 4; i++)
		CHECK_OK(recv_post(&pair.server, i, 0, 64));
	CHECK_OK(send_post(&pair.client, 1, 0, 16, 0));
	notification_none(&pair.server);
	side_wc_is(&pair.server, 0, IBV_WC_SUCCESS);

	CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	notification_none(&pair.server);
	CHECK_OK(send_post(&pair.client, 2, 0, 16, 0));
	side_notified(&pair.server);
	CHECK_OK(send_post(&pair.client, 3, 0, 16, 0));
	notification_none(&pair.server);
	side_wc_is(&pair.server, 1, IBV_WC_SUCCESS);
	side_wc_is(&pair.server, 2, IBV_WC_SUCCESS);

	CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	CHECK_OK(send_post(&pair.client, 4, 0, 16, 0));
	side_notified(&pair.server);
	side_wc_is(&pair.server, 3, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* Completions of the client's own work notify as well: sends, READs, flushed requests. */
static void notify_of_own_work(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;

	options.server_fd = true;
	pair_open(&pair, &options);
	CHECK_OK(ibv_req_notify_cq(pair.client.cq, 0));
	CHECK_OK(read_post(&pair.client, 1, 0, 64, 0, IBV_SEND_SIGNALED));
	side_notified(&pair.client);
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);

	CHECK_OK(send_post(&pair.client, 2, 0, 64, IBV_SEND_SIGNALED)); /* no receive is posted */
	CHECK_OK(ibv_req_notify_cq(pair.client.cq, 0));
	notification_none(&pair.client);
	CHECK_OK(suite.ops->disconnect(pair.client.id));
	side_notified(&pair.client);
	side_wc_is(&pair.client, 2, IBV_WC_WR_FLUSH_ERR);
	pair_close(&pair);
}

/* The receive is posted after the message came, and nobody polls: it completes and notifies too. */
static void notify_after_late_receive(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	CHECK_OK(send_post(&pair.client, 1, 0, 16, 0));
	notification_none(&pair.server);
	CHECK_OK(recv_post(&pair.server, 2, 0, 64));
	side_notified(&pair.server);
	side_wc_is(&pair.server, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/*
 * The client sleeps until its response comes, as it does after a PUT; meanwhile the server READs
 * its memory. softnic has to wake the client for that: the channel's fd is readable, get_cq_event()
 * has no notification, and the poll after it serves the READ.
 */
static void *sleeper_run(void *arg)
{
	struct side *client = arg;
	struct ibv_cq *cq;
	struct ibv_wc wc;

	while (!side_wc_within(client, &wc, 0)) {
		CHECK_OK(ibv_req_notify_cq(client->cq, 0));
		if (side_wc_within(client, &wc, 0))
			break;
		CHECK(side_readable(client, SUITE_WAIT_MS));
		suite.ops->get_cq_event(client->comp, &cq);
	}
	CHECK_INT(wc.status, IBV_WC_SUCCESS);
	CHECK_INT(wc.wr_id, 1);
	return NULL;
}

static void sleeper_is_readable(void)
{
	struct pair pair;
	pthread_t thread;

	pair_open(&pair, &PAIR_DEFAULTS);
	pair.client.other = NULL;
	pair.server.other = NULL;
	mem_fill(&pair.client, 0, 8192, 5);
	CHECK_OK(recv_post(&pair.client, 1, 16384, 64));
	CHECK_INT(pthread_create(&thread, NULL, sleeper_run, &pair.client), 0);
	for (unsigned int i = 0; i < 20; i++) {
		suite_sleep_us(1000); /* so that the client does sleep */
		CHECK_OK(read_post(&pair.server, i, 0, 8192, 0, IBV_SEND_SIGNALED));
		side_wc_is(&pair.server, i, IBV_WC_SUCCESS);
		mem_check(&pair.server, 0, 8192, 5);
	}
	CHECK_OK(send_post(&pair.server, 99, 0, 16, IBV_SEND_SIGNALED));
	side_wc_is(&pair.server, 99, IBV_WC_SUCCESS);
	pthread_join(thread, NULL);
	pair_close(&pair);
}

/* More completions than the queue holds: an async event reports it, and all can be destroyed. */
static void cq_overrun(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct device_async_event event;
	struct pair pair;
	int64_t deadline_us = suite_now_us() + SUITE_WAIT_MS * 1000LL;
	int err;

	options.cqe = 4;
	options.send_wr = 256;
	options.server_fd = true;
	pair_open(&pair, &options);
	CHECK(pair.client.cq->cqe >= 4 && pair.client.cq->cqe < 250);
	for (int i = 0; i < pair.client.cq->cqe + 4; i++)
		CHECK_OK(read_post(&pair.client, 1, 0, 16, 0, IBV_SEND_SIGNALED));
	do {
		err = suite.ops->get_async_event(pair.client.dev, &event);
		sched_yield();
	} while (err == -EAGAIN && suite_now_us() < deadline_us);
	CHECK_OK(err);
	CHECK_INT(event.type, IBV_EVENT_CQ_ERR);
	CHECK(event.cq == pair.client.cq && !event.qp && !event.srq);
	pair_close(&pair);
}

/* Destroying a queue with a pending notification does not hang. */
static void destroy_with_notification(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(recv_post(&pair.server, 1, 0, 64));
	CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	CHECK_OK(send_post(&pair.client, 1, 0, 16, 0));
	CHECK(side_readable(&pair.server, SUITE_WAIT_MS));
	pair_close(&pair);
}

struct producer {
	struct side *client;
	unsigned int rounds;
	_Atomic unsigned int consumed;
};

/* Sends a message, some time after the one before was consumed. */
static void *produce(void *arg)
{
	struct producer *producer = arg;
	struct side *client = producer->client;
	unsigned int seed = 1;

	for (unsigned int i = 0; i < producer->rounds; i++) {
		while (atomic_load(&producer->consumed) < i)
			sched_yield();
		seed = seed * 1103515245 + 12345;
		for (unsigned int spin = (seed >> 8) % DELAY_SPINS; spin; spin--)
			atomic_signal_fence(memory_order_seq_cst);
		CHECK_OK(send_post(client, i, 0, 16, IBV_SEND_SIGNALED));
		side_wc_is(client, i, IBV_WC_SUCCESS);
	}
	return NULL;
}

/* Sleeps as a program with its own event loop does. */
static void sleep_by_poll(struct side *server)
{
	struct ibv_cq *cq;

	if (!side_readable(server, SUITE_WAIT_MS))
		suite_fail(__FILE__, __LINE__, "a wake-up was lost");
	/* The result means nothing: the event may be for a completion polled before. */
	suite.ops->get_cq_event(server->comp, &cq);
}

static void sleep_by_device(struct side *server)
{
	int64_t start_us = suite_now_us();

	CHECK(suite.ops->sleep(server->comp, server->cm->fd, SUITE_WAIT_MS) >= 0);
	if (suite_now_us() - start_us >= SUITE_WAIT_MS * 1000LL)
		suite_fail(__FILE__, __LINE__, "a wake-up was lost");
}

/* As a worker does: arm, poll once more, and only then sleep. True if there was a completion. */
static bool consume_one(struct side *server, void (*sleep_until_woken)(struct side *server))
{
	struct ibv_wc wc;
	int count;

	CHECK_OK(ibv_req_notify_cq(server->cq, 0));
	count = ibv_poll_cq(server->cq, 1, &wc);
	if (count == 0) {
		sleep_until_woken(server);
		count = ibv_poll_cq(server->cq, 1, &wc);
	}
	CHECK(count >= 0);
	if (count)
		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
	return count;
}

static void wake_often(void (*sleep_until_woken)(struct side *server))
{
	struct producer producer = {
		.rounds = suite.kind == DEVICE_SOFTNIC ? ROUNDS_SOFTNIC : ROUNDS_VERBS,
	};
	struct pair pair;
	pthread_t thread;

	pair_open(&pair, &PAIR_DEFAULTS);
	pair.client.other = NULL; /* each thread polls one end */
	producer.client = &pair.client;
	CHECK_OK(recv_post(&pair.server, 0, 0, 64));
	CHECK_INT(pthread_create(&thread, NULL, produce, &producer), 0);
	while (atomic_load(&producer.consumed) < producer.rounds) {
		if (!consume_one(&pair.server, sleep_until_woken))
			continue;
		CHECK_OK(recv_post(&pair.server, 0, 0, 64));
		atomic_fetch_add(&producer.consumed, 1);
	}
	pthread_join(thread, NULL);
	pair_close(&pair);
}

static void no_lost_wakeup(void)
{
	wake_often(sleep_by_poll);
}

static void no_lost_wakeup_asleep(void)
{
	wake_often(sleep_by_device);
}

/* sleep() returns for a completion, for the other file and after the timeout. */
static void sleep_for_each(void)
{
	struct cm_event event;
	struct pair pair;
	int64_t start_us;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(recv_post(&pair.server, 1, 0, 64));
	CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	start_us = suite_now_us();
	CHECK_OK(suite.ops->sleep(pair.server.comp, pair.server.cm->fd, SUITE_QUIET_MS));
	CHECK(suite_now_us() - start_us >= SUITE_QUIET_MS * 1000LL - 1000);

	CHECK_OK(send_post(&pair.client, 1, 0, 16, 0));
	CHECK_OK(suite.ops->sleep(pair.server.comp, pair.server.cm->fd, SUITE_WAIT_MS));
	side_wc_is(&pair.server, 1, IBV_WC_SUCCESS);
	CHECK_OK(suite.ops->sleep(pair.server.comp, -1, 0)); /* none is left */

	CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	CHECK_OK(suite.ops->disconnect(pair.client.id));
	start_us = suite_now_us();
	while (suite.ops->sleep(pair.server.comp, pair.server.cm->fd, SUITE_WAIT_MS) != 1)
		CHECK(suite_now_us() - start_us < SUITE_WAIT_MS * 1000LL);
	CHECK_OK(suite.ops->cm_get_event(pair.server.cm, &event));
	CHECK_INT(event.type, CM_DISCONNECTED);
	pair_close(&pair);
}

/* One poll takes many completions, and no more than were asked for. */
static void poll_batches(void)
{
	struct pair pair;
	struct ibv_wc wc[8];
	unsigned int got = 0;
	int64_t deadline_us = suite_now_us() + SUITE_WAIT_MS * 1000LL;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_INT(ibv_poll_cq(pair.server.cq, 8, wc), 0);
	for (unsigned int i = 0; i < 20; i++) {
		CHECK_OK(recv_post(&pair.server, i, 0, 64));
		CHECK_OK(send_post(&pair.client, i, 0, 16, 0));
	}
	while (got < 20 && suite_now_us() < deadline_us) {
		int count = ibv_poll_cq(pair.server.cq, 8, wc);

		CHECK(count >= 0 && count <= 8);
		for (int i = 0; i < count; i++)
			CHECK_INT(wc[i].wr_id, got++);
	}
	CHECK_INT(got, 20);
	pair_close(&pair);
}

const struct suite_case cq_cases[] = {
	{ "notify_once", notify_once, ALL_DEVICES },
	{ "notify_of_own_work", notify_of_own_work, ALL_DEVICES },
	{ "notify_after_late_receive", notify_after_late_receive, ALL_DEVICES },
	{ "sleeper_is_readable", sleeper_is_readable, ALL_DEVICES },
	{ "cq_overrun", cq_overrun, ALL_DEVICES },
	{ "destroy_with_notification", destroy_with_notification, ALL_DEVICES },
	{ "no_lost_wakeup", no_lost_wakeup, ALL_DEVICES },
	{ "no_lost_wakeup_asleep", no_lost_wakeup_asleep, ALL_DEVICES },
	{ "sleep_for_each", sleep_for_each, ALL_DEVICES },
	{ "poll_batches", poll_batches, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
