/* SPDX-License-Identifier: MIT */
/* Conformance: completion queues and their notifications. */
#include "tests/conf.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * A wake-up is lost in a window of less than a microsecond, so it takes many rounds to have a chance
 * of meeting it; emulated, each takes a millisecond.
 */
#define ROUNDS_SOFTNIC 20000
#define ROUNDS_VERBS 3000
#define DELAY_SPINS 4000 /* at random, up to some microseconds: about the time of a round */

static bool comp_readable(struct side *side, int wait_ms)
{
	struct pollfd pfd = { .fd = side->comp->fd, .events = POLLIN };

	return poll(&pfd, 1, wait_ms) == 1;
}

static void notification_take(struct side *side)
{
	struct ibv_cq *cq;

	CHECK_OK(conf.ops->get_cq_event(side->comp, &cq));
	CHECK(cq == side->cq && cq->cq_context == side);
}

static void notification_none(struct side *side)
{
	struct ibv_cq *cq;

	CHECK(!comp_readable(side, CONF_QUIET_MS));
	CHECK_INT(conf.ops->get_cq_event(side->comp, &cq), -EAGAIN);
}

/* Not armed: silent. Armed: one notification for the next completion, and no more. */
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
	CHECK(comp_readable(&pair.server, CONF_WAIT_MS));
	notification_take(&pair.server);
	CHECK_OK(send_post(&pair.client, 3, 0, 16, 0));
	notification_none(&pair.server);
	side_wc_is(&pair.server, 1, IBV_WC_SUCCESS);
	side_wc_is(&pair.server, 2, IBV_WC_SUCCESS);

	CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	CHECK_OK(send_post(&pair.client, 4, 0, 16, 0));
	CHECK(comp_readable(&pair.server, CONF_WAIT_MS));
	notification_take(&pair.server);
	side_wc_is(&pair.server, 3, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* The client's own completions notify as well: of sends, READs and of what is flushed. */
static void notify_of_own_work(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;

	options.server_fd = true;
	pair_open(&pair, &options);
	CHECK_OK(ibv_req_notify_cq(pair.client.cq, 0));
	CHECK_OK(read_post(&pair.client, 1, 0, 64, 0, IBV_SEND_SIGNALED));
	CHECK(comp_readable(&pair.client, CONF_WAIT_MS));
	notification_take(&pair.client);
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);

	CHECK_OK(send_post(&pair.client, 2, 0, 64, IBV_SEND_SIGNALED)); /* nobody receives */
	CHECK_OK(ibv_req_notify_cq(pair.client.cq, 0));
	notification_none(&pair.client);
	CHECK_OK(conf.ops->disconnect(pair.client.id));
	CHECK(comp_readable(&pair.client, CONF_WAIT_MS));
	notification_take(&pair.client);
	side_wc_is(&pair.client, 2, IBV_WC_WR_FLUSH_ERR);
	pair_close(&pair);
}

/* Destroying a queue whose notification nobody took does not hang. */
static void destroy_with_notification(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(recv_post(&pair.server, 1, 0, 64));
	CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	CHECK_OK(send_post(&pair.client, 1, 0, 16, 0));
	CHECK(comp_readable(&pair.server, CONF_WAIT_MS));
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

/* As a worker does: arm, look once more, and only then sleep. */
static void consume_one(struct side *server)
{
	struct ibv_wc wc;
	int count;

	CHECK_OK(ibv_req_notify_cq(server->cq, 0));
	count = ibv_poll_cq(server->cq, 1, &wc);
	CHECK(count >= 0);
	if (count == 0) {
		if (!comp_readable(server, CONF_WAIT_MS))
			conf_fail(__FILE__, __LINE__, "a wake-up was lost");
		notification_take(server);
		count = ibv_poll_cq(server->cq, 1, &wc);
	}
	/* A notification may be of what was polled before: arm, completion, poll. Look again. */
	if (count == 1)
		CHECK_INT(wc.status, IBV_WC_SUCCESS);
	CHECK(count == 0 || wc.opcode == IBV_WC_RECV);
	server->stash_tail += (unsigned int)count; /* counts what was consumed */
}

static void no_lost_wakeup(void)
{
	struct producer producer = {
		.rounds = conf.kind == DEVICE_SOFTNIC ? ROUNDS_SOFTNIC : ROUNDS_VERBS,
	};
	struct pair pair;
	pthread_t thread;

	pair_open(&pair, &PAIR_DEFAULTS);
	pair.client.other = NULL; /* each thread has an end for itself */
	producer.client = &pair.client;
	CHECK_OK(recv_post(&pair.server, 0, 0, 64));
	CHECK_INT(pthread_create(&thread, NULL, produce, &producer), 0);
	while (pair.server.stash_tail < producer.rounds) {
		unsigned int before = pair.server.stash_tail;

		consume_one(&pair.server);
		if (pair.server.stash_tail == before)
			continue;
		CHECK_OK(recv_post(&pair.server, 0, 0, 64));
		atomic_store(&producer.consumed, pair.server.stash_tail);
	}
	pthread_join(thread, NULL);
	pair_close(&pair);
}

/* Many completions are taken at once, and no more than were asked for. */
static void poll_batches(void)
{
	struct pair pair;
	struct ibv_wc wc[8];
	unsigned int got = 0;
	int64_t deadline_us = conf_now_us() + CONF_WAIT_MS * 1000LL;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_INT(ibv_poll_cq(pair.server.cq, 8, wc), 0);
	for (unsigned int i = 0; i < 20; i++) {
		CHECK_OK(recv_post(&pair.server, i, 0, 64));
		CHECK_OK(send_post(&pair.client, i, 0, 16, IBV_SEND_SIGNALED));
	}
	for (unsigned int i = 0; i < 20; i++) {
		pair.client.other = NULL;
		side_wc_is(&pair.client, i, IBV_WC_SUCCESS);
	}
	while (got < 20 && conf_now_us() < deadline_us) {
		int count = ibv_poll_cq(pair.server.cq, 8, wc);

		CHECK(count >= 0 && count <= 8);
		for (int i = 0; i < count; i++)
			CHECK_INT(wc[i].wr_id, got++);
	}
	CHECK_INT(got, 20);
	pair_close(&pair);
}

const struct conf_case cq_cases[] = {
	{ "notify_once", notify_once, CONF_BOTH },
	{ "notify_of_own_work", notify_of_own_work, CONF_BOTH },
	{ "destroy_with_notification", destroy_with_notification, CONF_BOTH },
	{ "no_lost_wakeup", no_lost_wakeup, CONF_BOTH },
	{ "poll_batches", poll_batches, CONF_BOTH },
	{ NULL, NULL, 0 },
};
