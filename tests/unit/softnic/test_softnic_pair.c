/* SPDX-License-Identifier: MIT */
/*
 * Tests of channel pairs: what a connection costs in descriptors, that the one for both channels is
 * readable when and only when either has something to do, and that threads which share a device do
 * not touch each other's connections.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/rdma/softnic/cm.h"
#include "common/rdma/softnic/completion_channel.h"
#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/peer_file.h"
#include "common/rdma/softnic/softnic.h"
#include "common/rdma/softnic/timer.h"
#include "tests/support/descriptors.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define LINES 20
#define THREADS 4
#define ROUNDS 200
#define ACCESS_FLAGS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)

static const struct end_options paired = {
	.access = IBV_ACCESS_REMOTE_READ,
	.rnr_retry = 7,
	.min_rnr_timer = 1,
	.paired = true,
};

static struct end server, client;

/* A further connection of the client's device. */
struct line {
	struct ibv_comp_channel *comp;
	struct cm_channel *cm;
	struct ibv_cq *cq;
	struct cm_id *id;
	struct ibv_mr *mr;
	uint8_t *mem;
};

static int ends_start(void **state)
{
	struct end_options shared = END_DEFAULTS;
	char path[64];
	int ret;

	(void)state;
	shared.share = true;
	snprintf(path, sizeof(path), "%s", pair_path());
	ret = end_init(&server, DEVICE_LISTEN, path, &shared);
	return ret ?: end_init(&client, DEVICE_CONNECT, path, &paired);
}

static int ends_stop(void **state)
{
	(void)state;
	end_release(&client);
	end_release(&server);
	return 0;
}

static bool is_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

static bool readable_soon(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, PAIR_WAIT_MS) == 1;
}

static void connect_client(void)
{
	assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS, &paired), 0);
}

static void line_open(struct line *line)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct device_mem mem;

	line->mem = calloc(1, 4096);
	assert_non_null(line->mem);
	mem = (struct device_mem){ .addr = line->mem, .length = 4096, .fd = -1 };
	assert_int_equal(OPS->reg_mr(client.pd, &mem, ACCESS_FLAGS, &line->mr), 0);
	assert_int_equal(OPS->create_channel_pair(client.dev, &line->comp, &line->cm), 0);
	assert_int_equal(OPS->create_cq(client.dev, 16, line, line->comp, &line->cq), 0);
	assert_int_equal(OPS->create_id(line->cm, &line->id), 0);
	attr.send_cq = attr.recv_cq = line->cq;
	assert_int_equal(OPS->create_qp(line->id, client.pd, &attr, IBV_ACCESS_REMOTE_READ), 0);
}

/* The server's events are served by the caller, or by another thread if it is not. */
static void line_connect(struct line *line, bool serve)
{
	struct cm_param param = { .rnr_retry_count = 7, .min_rnr_timer = 1, .retry_count = 7 };
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	unsigned int before = serve ? server.connected : 0;
	bool established = false;
	struct cm_event event;

	assert_int_equal(OPS->connect(line->id, &param), 0);
	while (!established || (serve && server.connected == before)) {
		if (!OPS->cm_get_event(line->cm, &event))
			established = event.type == CM_ESTABLISHED;
		if (serve)
			end_serve_cm(&server, &END_DEFAULTS);
		assert_true(pair_now_ms() < deadline);
	}
}

static void line_close(struct line *line)
{
	OPS->destroy_id(line->id);
	OPS->destroy_cm_channel(line->cm);
	OPS->destroy_cq(line->cq);
	OPS->destroy_comp_channel(line->comp);
	OPS->dereg_mr(line->mr);
	free(line->mem);
}

static void line_read(struct line *line, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)line->mem, bytes, line->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)server.mem, server.mr->rkey },
	};
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(line->id->qp, &wr, &bad), 0);
	while (!ibv_poll_cq(line->cq, 1, &wc))
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Two of the client's, and the server's socket; nothing is left afterwards. */
static void takes_two_descriptors(void **state)
{
	struct line lines[LINES];
	int before, i;

	(void)state;
	connect_client();
	before = descriptors();
	for (i = 0; i < LINES; i++) {
		line_open(&lines[i]);
		line_connect(&lines[i], true);
		line_read(&lines[i], 64);
	}
	/* And of all together the two files of the server. */
	assert_int_equal(descriptors() - before, LINES * (2 + 1) + 2);
	for (i = 0; i < LINES; i++)
		line_close(&lines[i]);
	while (server.disconnected < LINES)
		end_serve_cm(&server, &END_DEFAULTS);
	assert_int_equal(descriptors(), before);
}

/* Each connection is passed the server's files: its memory, and its life word. */
static void maps_a_file_once(void **state)
{
	struct sn_map_list *maps = &dev_to_sn_context(client.dev)->maps;
	struct line lines[LINES];
	const struct sn_map *map;
	int i, count = 0;

	(void)state;
	for (i = 0; i < LINES; i++) {
		line_open(&lines[i]);
		line_connect(&lines[i], true);
		line_read(&lines[i], 64);
		assert_memory_equal(lines[i].mem, server.mem, 64);
	}
	TAILQ_FOREACH(map, maps, in_context) {
		assert_int_equal(map->users, LINES);
		count++;
	}
	assert_int_equal(count, 2);
	for (i = 0; i < LINES - 1; i++)
		line_close(&lines[i]);
	line_read(&lines[i], 64);
	line_close(&lines[i]);
	assert_true(TAILQ_EMPTY(maps));
	while (server.disconnected < LINES)
		end_serve_cm(&server, &END_DEFAULTS);
}

static void one_descriptor_for_both(void **state)
{
	struct cm_event event;
	struct ibv_cq *cq;
	struct ibv_wc wc;

	(void)state;
	connect_client();
	assert_int_equal(client.comp->fd, client.cm->fd);
	assert_int_equal(ibv_req_notify_cq(client.cq, 0), 0);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	/* The first one takes the server's file. */
	assert_int_equal(OPS->sleep(client.comp, client.cm->fd, 0), 0);
	assert_false(is_readable(client.comp->fd));
	assert_int_equal(OPS->sleep(client.comp, client.cm->fd, 0), 0);

	assert_int_equal(ibv_req_notify_cq(client.cq, 0), 0);
	assert_int_equal(end_post_send(&server, server.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_true(readable_soon(client.comp->fd));
	assert_int_equal(OPS->get_cq_event(client.comp, &cq), 0);
	assert_ptr_equal(cq, client.cq);
	assert_int_equal(OPS->cm_get_event(client.cm, &event), -EAGAIN);
	assert_false(is_readable(client.comp->fd));
	assert_int_equal(end_wait(&client, NULL, &wc), 0);

	OPS->disconnect(server.id);
	assert_true(readable_soon(client.comp->fd));
	assert_int_equal(OPS->sleep(client.comp, client.cm->fd, PAIR_WAIT_MS), 1);
	assert_int_equal(OPS->cm_get_event(client.cm, &event), 0);
	assert_int_equal(event.type, CM_DISCONNECTED);
	while (!OPS->get_cq_event(client.comp, &cq))
		;
	assert_false(is_readable(client.comp->fd));
}

/* A completion that no packet announces makes the descriptor readable, too, until it is taken. */
static void a_kick_needs_no_descriptor(void **state)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	int before;

	(void)state;
	connect_client();
	before = descriptors();
	assert_int_equal(ibv_req_notify_cq(client.cq, 0), 0);
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 64, client.remote.addr,
				       client.remote.rkey),
			 0);
	assert_true(is_readable(client.comp->fd));
	/* The server's two files have come. */
	assert_int_equal(descriptors(), before + 2);
	assert_int_equal(OPS->get_cq_event(client.comp, &cq), 0);
	assert_int_equal(OPS->get_cq_event(client.comp, &cq), -EAGAIN);
	assert_false(is_readable(client.comp->fd));
	assert_int_equal(end_wait(&client, &server, &wc), 0);
}

/* An event that did not come through the socket: a sleeper is told to look for it. */
static void a_kick_of_its_events_ends_a_sleep(void **state)
{
	struct cm_event event;

	(void)state;
	connect_client();
	OPS->sleep(client.comp, client.cm->fd, 0);
	assert_int_equal(OPS->sleep(client.comp, client.cm->fd, 0), 0);
	sn_cm_channel_kick(sn_container(client.cm, struct sn_cm_channel, cm));
	assert_int_equal(OPS->sleep(client.comp, client.cm->fd, PAIR_WAIT_MS), 1);
	assert_int_equal(OPS->cm_get_event(client.cm, &event), -EAGAIN);
	assert_int_equal(OPS->sleep(client.comp, client.cm->fd, 0), 0);
}

/* What another thread causes before there is a socket. */
static void a_kick_without_a_socket(void **state)
{
	struct cm_event event;
	int before = descriptors();

	(void)state;
	assert_int_equal(OPS->create_id(client.cm, &client.id), 0);
	assert_false(is_readable(client.cm->fd));
	sn_cm_channel_kick(sn_container(client.cm, struct sn_cm_channel, cm));
	assert_true(is_readable(client.cm->fd));
	assert_int_equal(OPS->cm_get_event(client.cm, &event), -EAGAIN);
	assert_false(is_readable(client.cm->fd));
	sn_context_kill(dev_to_sn_context(client.dev));
	assert_true(is_readable(client.cm->fd));
	assert_int_equal(OPS->cm_get_event(client.cm, &event), 0);
	assert_int_equal(event.type, CM_DEVICE_REMOVED);
	OPS->sleep(client.comp, -1, 0);
	assert_false(is_readable(client.cm->fd));
	assert_int_equal(descriptors(), before);
}

static void has_one_connection(void **state)
{
	struct cm_id *second;

	(void)state;
	assert_int_equal(OPS->create_id(client.cm, &client.id), 0);
	assert_int_equal(OPS->create_id(client.cm, &second), -EINVAL);
	OPS->destroy_id(client.id);
	assert_int_equal(OPS->create_id(client.cm, &client.id), 0);
}

static void never_listens(void **state)
{
	struct ibv_comp_channel *comp;
	struct cm_channel *cm;
	struct cm_id *id;

	(void)state;
	assert_int_equal(OPS->create_channel_pair(server.dev, &comp, &cm), 0);
	assert_int_equal(OPS->listen(cm, 1, &id), -EINVAL);
	OPS->destroy_cm_channel(cm);
	OPS->destroy_comp_channel(comp);
}

static _Atomic bool serving;

static void *server_serve(void *arg)
{
	struct ibv_wc wc;

	/* To the end of all, so that nothing of them is left. */
	(void)arg;
	while (atomic_load(&serving) || server.disconnected < THREADS) {
		end_serve_cm(&server, &END_DEFAULTS);
		/* A READ may come before the client knows that it may copy: the owner serves it. */
		assert_int_equal(ibv_poll_cq(server.recv_cq, 0, &wc), 0);
	}
	return NULL;
}

/* READs, and registers memory that peers may read: which concerns all connections of a PD. */
static void *line_use(void *arg)
{
	struct line line;
	struct ibv_mr *mr;
	unsigned int i;

	(void)arg;
	line_open(&line);
	line_connect(&line, false);
	for (i = 0; i < ROUNDS; i++) {
		struct device_mem mem = { .addr = line.mem, .length = 4096, .fd = -1 };

		line_read(&line, 512);
		assert_int_equal(OPS->reg_mr(client.pd, &mem, ACCESS_FLAGS, &mr), 0);
		OPS->dereg_mr(mr);
	}
	line_close(&line);
	return NULL;
}

static void threads_share_a_device(void **state)
{
	pthread_t threads[THREADS], server_thread;
	unsigned int i;

	(void)state;
	atomic_store(&serving, true);
	pthread_create(&server_thread, NULL, server_serve, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, line_use, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&serving, false);
	pthread_join(server_thread, NULL);
}

static _Atomic unsigned int ready;

/* Polls until its own connection fails. */
static void *line_outlives(void *arg)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct ibv_sge sge;
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	struct line line;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };

	(void)arg;
	line_open(&line);
	sge = (struct ibv_sge){ (uintptr_t)line.mem, 64, line.mr->lkey };
	assert_int_equal(ibv_post_recv(line.id->qp, &wr, &bad), 0);
	line_connect(&line, false);
	atomic_fetch_add(&ready, 1);
	while (!ibv_poll_cq(line.cq, 1, &wc))
		assert_true(pair_now_ms() < deadline);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	line_close(&line);
	return NULL;
}

/* The thread that finds the device dead leaves the connections of others to them. */
static void a_dead_device_is_noticed_by_all(void **state)
{
	pthread_t threads[THREADS], server_thread;
	unsigned int i;

	(void)state;
	atomic_store(&ready, 0);
	atomic_store(&serving, true);
	pthread_create(&server_thread, NULL, server_serve, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, line_outlives, NULL);
	while (atomic_load(&ready) < THREADS)
		;
	sn_context_kill(dev_to_sn_context(client.dev));
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&serving, false);
	pthread_join(server_thread, NULL);
}

/* One after the other: the second has nothing of the first. */
static void connects_again(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (unsigned int i = 1; i <= 3; i++) {
		connect_client();
		assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		OPS->destroy_id(client.id);
		client.id = NULL;
		assert_null(sn_container(client.comp, struct sn_channel, verbs)->pair.qp);
		while (server.disconnected < i)
			end_serve_cm(&server, &END_DEFAULTS);
	}
}

/* A message that finds no receive, at a client that sleeps. */
static void a_timer_is_there_while_it_is_set(void **state)
{
	const struct sn_channel *channel = sn_container(client.comp, struct sn_channel, verbs);
	struct ibv_wc wc;
	int before;

	(void)state;
	connect_client();
	for (unsigned int i = 0; i < PAIR_RECVS; i++) {
		assert_int_equal(end_post_send(&server, server.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
		assert_int_equal(end_wait(&server, &client, &wc), 0);
	}
	OPS->sleep(client.comp, client.cm->fd, 0);
	before = descriptors();
	assert_int_equal(end_post_send(&server, server.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(ibv_req_notify_cq(client.cq, 0), 0);
		assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
		assert_true(channel->timer_fd >= 0);
		assert_true(readable_soon(client.comp->fd));
		if (i == 2)
			assert_int_equal(end_post_recv(&client, 0), 0);
		assert_int_equal(OPS->sleep(client.comp, client.cm->fd, PAIR_WAIT_MS), 0);
	}
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(channel->timer_fd, -1);
	assert_int_equal(descriptors(), before);
}

/* A time of connection management, of a connection that is not there yet, ends a sleep. */
static void a_deadline_of_its_events_ends_a_sleep(void **state)
{
	struct sn_cm_channel *channel = sn_container(client.cm, struct sn_cm_channel, cm);
	struct cm_event event;
	struct sn_id *id;

	(void)state;
	assert_int_equal(end_connect(&client, &client.id, &paired), 0);
	id = to_sn_id(client.id);
	pthread_mutex_lock(&channel->lock);
	do_sn_id_set_timer(id, &id->retry, SN_DELAY_RETRY); /* instead of the five seconds */
	pthread_mutex_unlock(&channel->lock);
	assert_int_equal(OPS->sleep(client.comp, client.cm->fd, PAIR_WAIT_MS), 1);
	assert_int_equal(OPS->cm_get_event(client.cm, &event), 0);
	assert_int_equal(event.type, CM_UNREACHABLE);
	assert_int_equal(event.status, -ETIMEDOUT);
}

/* A thread that only sleeps learns of it, too, by its own request. */
static void a_dead_device_wakes_who_sleeps(void **state)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct ibv_cq *cq;
	struct ibv_wc wc;

	(void)state;
	connect_client();
	OPS->sleep(client.comp, client.cm->fd, 0); /* the server's file comes by the socket */
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(ibv_req_notify_cq(client.cq, 0), 0);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	assert_true(to_sn_qp(client.id->qp)->members[0].asleep);
	sn_context_kill(dev_to_sn_context(client.dev));
	while (OPS->get_cq_event(client.comp, &cq))
		assert_true(pair_now_ms() < deadline);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

/* And one that polls, in its next poll. */
static void a_dead_device_is_polled(void **state)
{
	struct ibv_wc wc;

	(void)state;
	connect_client();
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	sn_context_kill(dev_to_sn_context(client.dev));
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, ends_start, ends_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(takes_two_descriptors),
		TEST(maps_a_file_once),
		TEST(one_descriptor_for_both),
		TEST(a_kick_needs_no_descriptor),
		TEST(a_kick_of_its_events_ends_a_sleep),
		TEST(a_kick_without_a_socket),
		TEST(has_one_connection),
		TEST(never_listens),
		TEST(threads_share_a_device),
		TEST(a_dead_device_is_noticed_by_all),
		TEST(connects_again),
		TEST(a_timer_is_there_while_it_is_set),
		TEST(a_deadline_of_its_events_ends_a_sleep),
		TEST(a_dead_device_wakes_who_sleeps),
		TEST(a_dead_device_is_polled),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	pair_path_release();
	return failed;
}
