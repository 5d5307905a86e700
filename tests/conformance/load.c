/* SPDX-License-Identifier: MIT */
/* Conformance cases under load: many connections, many threads, long streams of messages. */
#include "tests/conformance/conformance.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MANY 100
#define AT_ONCE 48
#define THREADS 16
#define PER_THREAD 4

/* Messages each way, by a thread at each end. */
#define STREAM_SOFTNIC 20000
#define STREAM_VERBS 1500
#define STREAM_RECVS 24
#define STREAM_SENDS 8 /* outstanding */

/* One connection after another on the same devices: no resource is used up. */
static void connect_many(void)
{
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	for (unsigned int i = 0; i < MANY; i++) {
		pair_connect(&pair, &PAIR_DEFAULTS);
		pair_ping(&pair);
		if (i % 2)
			CHECK_OK(suite.ops->disconnect(pair.client.id));
		side_destroy_id(&pair.client);
		CHECK(side_event(&pair.server, CM_DISCONNECTED).id == pair.server.id);
		side_destroy_id(&pair.server);
	}
	pair_close(&pair);
}

/* Many connections at the same time, on one client device and one server device. */
static void connect_many_at_once(void)
{
	struct cm_id *clients[AT_ONCE], *servers[AT_ONCE];
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		pair_connect(&pair, &PAIR_DEFAULTS);
		pair_ping(&pair);
		clients[i] = pair.client.id;
		servers[i] = pair.server.id;
	}
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		pair.client.id = clients[i];
		pair.server.id = servers[i];
		pair_ping(&pair);
	}
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		suite.ops->destroy_id(clients[i]);
		suite.ops->destroy_id(servers[i]);
	}
	pair.client.id = NULL;
	pair.server.id = NULL;
	pair_close(&pair);
}

struct crowd {
	struct device_addr addr;
	_Atomic unsigned int done;
	_Atomic int64_t slowest_us; /* to connect */
};

static void crowd_time(struct crowd *crowd, int64_t start_us)
{
	int64_t us = suite_now_us() - start_us;
	int64_t slowest_us = atomic_load(&crowd->slowest_us);

	while (us > slowest_us &&
	       !atomic_compare_exchange_weak(&crowd->slowest_us, &slowest_us, us))
		;
}

/* A client like libkvd: it opens a device, makes one connection, works, and closes all. */
static void *crowd_client(void *arg)
{
	struct crowd *crowd = arg;

	for (unsigned int i = 0; i < PER_THREAD; i++) {
		struct side client;
		struct cm_event event;
		int64_t start_us;

		side_open(&client, "client", &crowd->addr, DEVICE_CONNECT, &PAIR_DEFAULTS);
		start_us = suite_now_us();
		side_connect(&client, &PAIR_DEFAULTS);
		event = side_event(&client, CM_ESTABLISHED);
		crowd_time(crowd, start_us);
		side_hello_read(&client, &event);
		CHECK_OK(read_post(&client, 1, 0, 4096, 0, IBV_SEND_SIGNALED));
		side_wc_is(&client, 1, IBV_WC_SUCCESS);
		mem_check(&client, 0, 4096, 77);
		side_close(&client);
	}
	atomic_fetch_add(&crowd->done, 1);
	return NULL;
}

static void crowd_accept(struct side *server, const struct cm_event *event)
{
	struct hello hello = { (uintptr_t)server->mem, server->mr->rkey,
			       (uint32_t)server->mem_bytes };
	struct cm_param param = PAIR_DEFAULTS.param;

	param.private_data = &hello;
	param.private_len = sizeof(hello);
	side_create_qp(server, event->id, IBV_ACCESS_REMOTE_READ, &PAIR_DEFAULTS);
	CHECK_OK(suite.ops->accept(event->id, &param));
}

/* Takes one event; returns the number of connections that ended. */
static unsigned int crowd_serve_one(struct side *server)
{
	struct cm_event event;
	struct pollfd pfd = { .fd = server->cm->fd, .events = POLLIN };
	int err = suite.ops->cm_get_event(server->cm, &event);

	side_poll(server);
	if (err) {
		poll(&pfd, 1, 1);
		CHECK_INT(err, -EAGAIN);
		return 0;
	}
	if (event.type == CM_CONNECT_REQUEST)
		crowd_accept(server, &event);
	if (event.type != CM_DISCONNECTED)
		return 0;
	suite.ops->destroy_id(event.id);
	return 1;
}

static void connect_by_threads(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct device_addr addr = suite_listen_addr();
	struct crowd crowd = { .done = 0 };
	pthread_t threads[THREADS];
	struct side server;
	unsigned int ended = 0;

	options.server_fd = true;
	side_open(&server, "server", &addr, DEVICE_LISTEN, &options);
	mem_fill(&server, 0, 4096, 77);
	side_listen(&server);
	crowd.addr = suite_connect_addr(server.dev);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, crowd_client, &crowd), 0);
	while (ended < THREADS * PER_THREAD)
		ended += crowd_serve_one(&server);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_INT(atomic_load(&crowd.done), THREADS);
	fprintf(stderr, "slowest connect: %lld us\n", (long long)atomic_load(&crowd.slowest_us));
	side_event_none(&server);
	side_close(&server);
}

/*
 * One end of a stream: it sends numbered messages of all sizes and receives the other's, and
 * between them READs memory that the other does not change. Receives are posted again one by one,
 * so the faster end meets a receiver that is not ready again and again.
 */
struct streamer {
	struct side *side;
	_Atomic unsigned int *running; /* ends that are not done */
	unsigned int count, sent, acked, received, reads_left;
};

static uint32_t stream_len(unsigned int i)
{
	return 4 + (i * 2654435761u) % 2000;
}

static void stream_send(struct streamer *s)
{
	size_t at = (s->sent % STREAM_SENDS) * SIDE_RECV_BYTES;
	uint32_t len = stream_len(s->sent);

	mem_fill(s->side, at, len, s->sent);
	CHECK_OK(send_post(s->side, s->sent, at, len, IBV_SEND_SIGNALED));
	s->sent++;
}

static void stream_receive(struct streamer *s, const struct ibv_wc *wc)
{
	size_t at = wc->wr_id;

	CHECK_INT(wc->byte_len, stream_len(s->received));
	mem_check(s->side, at, wc->byte_len, s->received);
	s->received++;
	CHECK_OK(recv_post(s->side, at, at, SIDE_RECV_BYTES));
}

static void stream_complete(struct streamer *s, const struct ibv_wc *wc)
{
	CHECK_INT(wc->status, IBV_WC_SUCCESS);
	switch (wc->opcode) {
	case IBV_WC_RECV:
		stream_receive(s, wc);
		break;
	case IBV_WC_SEND:
		CHECK_INT(wc->wr_id, s->acked++);
		break;
	default:
		CHECK_INT(wc->opcode, IBV_WC_RDMA_READ);
		mem_check(s->side, s->side->mem_bytes - 2 * SIDE_RECV_BYTES, 1000, 99);
		s->reads_left--;
	}
}

#define STREAM_READ_EVERY 16

static void *stream_run(void *arg)
{
	struct streamer *s = arg;
	size_t fixed = s->side->mem_bytes - SIDE_RECV_BYTES;

	while (s->received < s->count || s->acked < s->count || s->reads_left) {
		struct ibv_wc wc;

		if (s->sent < s->count && s->sent - s->acked < STREAM_SENDS) {
			stream_send(s);
			if (s->sent % STREAM_READ_EVERY == 0) {
				CHECK_OK(read_post(s->side, 0, fixed - SIDE_RECV_BYTES, 1000, fixed,
						   IBV_SEND_SIGNALED));
				s->reads_left++;
			}
		}
		if (side_wc_within(s->side, &wc, 0))
			stream_complete(s, &wc);
	}
	/* The other end may still need us to serve its READs. */
	atomic_fetch_sub(s->running, 1);
	while (atomic_load(s->running))
		side_poll(s->side);
	return NULL;
}

static void stream_prepare(struct streamer *s, struct side *side)
{
	side->other = NULL;
	s->side = side;
	s->count = suite.kind == DEVICE_SOFTNIC ? STREAM_SOFTNIC : STREAM_VERBS;
	mem_fill(side, side->mem_bytes - SIDE_RECV_BYTES, 1000, 99);
	for (size_t i = 0; i < STREAM_RECVS; i++) {
		size_t at = (STREAM_SENDS + i) * SIDE_RECV_BYTES;

		CHECK_OK(recv_post(side, at, at, SIDE_RECV_BYTES));
	}
}

static void stream_both_ways(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	_Atomic unsigned int running = 2;
	struct streamer streamers[2] = { { .running = &running }, { .running = &running } };
	struct pair pair;
	pthread_t thread;

	options.mem_bytes = (STREAM_SENDS + STREAM_RECVS + 2) * SIDE_RECV_BYTES;
	options.server_fd = true;
	pair_open(&pair, &options);
	stream_prepare(&streamers[0], &pair.client);
	stream_prepare(&streamers[1], &pair.server);
	CHECK_INT(pthread_create(&thread, NULL, stream_run, &streamers[0]), 0);
	stream_run(&streamers[1]);
	pthread_join(thread, NULL);
	pair_close(&pair);
}

const struct suite_case load_cases[] = {
	{ "connect_many", connect_many, ALL_DEVICES },
	{ "connect_many_at_once", connect_many_at_once, ALL_DEVICES | MANY_IDS },
	{ "connect_by_threads", connect_by_threads, ALL_DEVICES },
	{ "stream_both_ways", stream_both_ways, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
