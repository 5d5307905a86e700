/* SPDX-License-Identifier: MIT */
/*
 * Tests of softnic's completion channels (channel.c): the descriptor is readable while there is an
 * event and not afterwards, no event is lost, what a sleep waits for besides, and what is left of a
 * channel that is destroyed or could not be created.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/cm.h"
#include "common/rdma/softnic/completion_channel.h"
#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "tests/support/descriptors.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define SECOND 1000000000ull

static struct end server, client;

/* The call that fails. */
enum step { STEP_EPOLL, STEP_EVENTFD, STEP_TIMER, STEP_WATCH, STEP_WATCH_SECOND, STEP_COUNT };

static enum step failing = STEP_COUNT;
static int watches; /* since then */

static bool fails(enum step step)
{
	if (step != failing)
		return false;
	errno = EMFILE;
	return true;
}

int epoll_create1(int flags)
{
	return fails(STEP_EPOLL) ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

int eventfd(unsigned int count, int flags)
{
	return fails(STEP_EVENTFD) ? -1 : (int)syscall(SYS_eventfd2, count, flags);
}

int timerfd_create(clockid_t clock, int flags)
{
	return fails(STEP_TIMER) ? -1 : (int)syscall(SYS_timerfd_create, clock, flags);
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (op == EPOLL_CTL_ADD && fails(watches++ ? STEP_WATCH_SECOND : STEP_WATCH))
		return -1;
	return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

static int setup(void **state)
{
	(void)state;
	return default_ends(&server, &client);
}

static int teardown(void **state)
{
	(void)state;
	failing = STEP_COUNT;
	end_release(&client);
	end_release(&server);
	return 0;
}

static struct sn_channel *channel_of(const struct end *end)
{
	return sn_container(end->comp, struct sn_channel, verbs);
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

/* Events of two CQs, of one of them twice, as if it was armed again before the first was taken. */
static void each_event_is_taken_once(void **state)
{
	struct sn_channel *channel = channel_of(&server);
	struct ibv_cq *second, *cq;

	(void)state;
	assert_int_equal(OPS->create_cq(server.dev, 4, NULL, server.comp, &second), 0);
	for (unsigned int round = 0; round < 2; round++) {
		assert_false(is_readable(server.comp->fd));
		assert_int_equal(OPS->get_cq_event(server.comp, &cq), -EAGAIN);
		sn_channel_event(channel, to_sn_cq(server.cq));
		sn_channel_event(channel, to_sn_cq(server.cq));
		sn_channel_event(channel, to_sn_cq(second));
		for (unsigned int i = 0; i < 3; i++) {
			assert_true(is_readable(server.comp->fd));
			assert_int_equal(OPS->get_cq_event(server.comp, &cq), 0);
			assert_ptr_equal(cq, i < 2 ? server.cq : second);
		}
	}
	assert_int_equal(OPS->get_cq_event(server.comp, &cq), -EAGAIN);
	assert_false(is_readable(server.comp->fd));
	OPS->destroy_cq(second);
}

/* What is there already ends a sleep, which takes it; what comes afterwards is told again. */
static void a_sleep_takes_all_events(void **state)
{
	struct sn_channel *channel = channel_of(&server);
	const uint64_t before = pair_now_ms();
	struct ibv_cq *cq;

	(void)state;
	for (unsigned int round = 0; round < 3; round++) {
		sn_channel_event(channel, to_sn_cq(server.cq));
		sn_channel_event(channel, to_sn_cq(server.cq));
		assert_true(is_readable(server.comp->fd));
		assert_int_equal(OPS->sleep(server.comp, -1, PAIR_WAIT_MS), 0);
		assert_true(pair_now_ms() - before < PAIR_WAIT_MS);
		assert_false(is_readable(server.comp->fd));
		assert_int_equal(OPS->get_cq_event(server.comp, &cq), -EAGAIN);
		/* Nothing was there. */
		assert_int_equal(OPS->sleep(server.comp, -1, 0), 0);
	}
}

static void a_destroyed_queue_has_no_events(void **state)
{
	struct ibv_cq *second, *cq;

	(void)state;
	assert_int_equal(OPS->create_cq(server.dev, 4, NULL, server.comp, &second), 0);
	assert_ptr_equal(TAILQ_LAST(&channel_of(&server)->cqs, sn_cq_list), to_sn_cq(second));
	sn_channel_event(channel_of(&server), to_sn_cq(second));
	OPS->destroy_cq(second);
	assert_ptr_equal(TAILQ_LAST(&channel_of(&server)->cqs, sn_cq_list), to_sn_cq(server.cq));
	assert_false(is_readable(server.comp->fd));
	assert_int_equal(OPS->get_cq_event(server.comp, &cq), -EAGAIN);
}

/* A byte to sleep for, in a pipe of the test's. */
static void pipe_open(int fds[2])
{
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], "", 1), 1);
}

static void pipe_close(const int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

/* One call waits for a descriptor that the next one does not wait for. */
static void what_a_sleep_waits_for_besides(void **state)
{
	struct ibv_comp_channel *comps[2] = { server.comp };
	struct cm_channel *cm;
	int pipes[2][2];

	(void)state;
	assert_int_equal(OPS->create_channel_pair(client.dev, &comps[1], &cm), 0);
	pipe_open(pipes[0]);
	assert_int_equal(pipe(pipes[1]), 0); /* nothing in it */
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(OPS->sleep(comps[i], pipes[0][0], PAIR_WAIT_MS), 1);
		assert_int_equal(OPS->sleep(comps[i], pipes[0][0], PAIR_WAIT_MS), 1);
		assert_int_equal(OPS->sleep(comps[i], pipes[1][0], 0), 0);
		assert_int_equal(OPS->sleep(comps[i], pipes[0][0], PAIR_WAIT_MS), 1);
		assert_int_equal(OPS->sleep(comps[i], -1, 0), 0);
	}
	pipe_close(pipes[0]);
	pipe_close(pipes[1]);
	OPS->destroy_cm_channel(cm);
	OPS->destroy_comp_channel(comps[1]);
}

/* The caller learns each time that nothing would wake it, and is woken once that works again. */
static void what_a_sleep_can_not_wait_for(void **state)
{
	int fds[2];

	(void)state;
	pipe_open(fds);
	failing = STEP_WATCH;
	for (unsigned int i = 0; i < 2; i++) {
		watches = 0;
		assert_int_equal(OPS->sleep(server.comp, fds[0], 0), -EMFILE);
	}
	failing = STEP_COUNT;
	assert_int_equal(OPS->sleep(server.comp, fds[0], PAIR_WAIT_MS), 1);
	pipe_close(fds);
}

/* One object that is needed can't be had: nothing is left, and it works the next time. */
static void one_that_can_not_be_created(void **state)
{
	struct sn_context *ctx = dev_to_sn_context(server.dev);
	const int objects = atomic_load(&ctx->objects[SN_OBJECT_COMP_CHANNEL]);
	const int before = descriptors();
	struct ibv_comp_channel *comp;

	(void)state;
	for (enum step step = 0; step < STEP_COUNT; step++) {
		failing = step;
		watches = 0;
		assert_int_equal(OPS->create_comp_channel(server.dev, &comp), -EMFILE);
		failing = STEP_COUNT;
		assert_int_equal(descriptors(), before);
		assert_int_equal(atomic_load(&ctx->objects[SN_OBJECT_COMP_CHANNEL]), objects);
		assert_int_equal(OPS->create_comp_channel(server.dev, &comp), 0);
		assert_ptr_equal(comp->context, server.dev->verbs);
		assert_ptr_equal(&TAILQ_LAST(&ctx->channels, sn_channel_list)->verbs, comp);
		OPS->destroy_comp_channel(comp);
		assert_ptr_equal(&TAILQ_LAST(&ctx->channels, sn_channel_list)->verbs, server.comp);
		assert_int_equal(descriptors(), before);
	}
}

/* A queue pair that is gone, or has failed, keeps nobody awake: its socket stays readable. */
static void a_connection_that_ended_wakes_once(void **state)
{
	struct ibv_cq *cq;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS,
					      &END_DEFAULTS),
				 0);
		if (i)
			OPS->destroy_qp(client.id);
		shutdown(to_sn_qp(server.id->qp)->sock, SHUT_RDWR);
		if (!i)
			assert_true(readable_soon(client.comp->fd));
		while (!OPS->get_cq_event(client.comp, &cq))
			;
		assert_false(is_readable(client.comp->fd));
		OPS->destroy_id(client.id);
		client.id = NULL;
		while (server.disconnected <= i)
			end_serve_cm(&server, &END_DEFAULTS);
	}
}

/* The timer's next expiry is the nearest that was asked for, seconds or parts of one away. */
static void the_nearest_time_counts(void **state)
{
	static const struct {
		uint64_t first, second, left;
	} times[] = {
		{ 3600 * SECOND, 500 * SECOND, 500 * SECOND },
		{ 500 * SECOND, 3600 * SECOND, 500 * SECOND },
		{ 500 * SECOND, 3600 * SECOND + 1, 500 * SECOND },
		{ 3600 * SECOND + 1, 500 * SECOND - 1, 500 * SECOND },
		{ SECOND - 1, SECOND / 2, SECOND / 2 },
		{ SECOND / 2, SECOND - 1, SECOND / 2 },
	};
	struct sn_channel *channel = channel_of(&server);

	(void)state;
	for (unsigned int i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		const struct itimerspec none = { 0 };
		struct itimerspec next;

		timerfd_settime(channel->timer_fd, 0, &none, NULL);
		sn_channel_timer(channel, times[i].first);
		sn_channel_timer(channel, times[i].second);
		assert_int_equal(timerfd_gettime(channel->timer_fd, &next), 0);
		assert_in_range((uint64_t)next.it_value.tv_sec * SECOND +
					(uint64_t)next.it_value.tv_nsec,
				1, times[i].left);
		/* Nor much nearer, unless this program could not run for so long. */
		if (times[i].left > SECOND)
			assert_true((uint64_t)next.it_value.tv_sec >= 400);
	}
	timerfd_settime(channel->timer_fd, 0, &(struct itimerspec){ 0 }, NULL);
}

/* A message that finds no receive is delivered after it was posted, whichever of its CQs it is. */
static void a_message_waits_at_the_second_queue(void **state)
{
	struct ibv_cq *first = server.cq, *second, *cq;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(OPS->create_cq(server.dev, 1024, NULL, server.comp, &second), 0);
	server.cq = server.recv_cq = second;
	assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS, &END_DEFAULTS),
			 0);
	for (unsigned int i = 0; i < PAIR_RECVS; i++) {
		assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&server, NULL, &wc), 0);
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
	}
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, 0), 0);
	assert_int_equal(ibv_req_notify_cq(second, 0), 0);
	assert_int_equal(ibv_poll_cq(second, 1, &wc), 0);
	/* The client's file comes by the socket: nothing else does. */
	assert_int_equal(OPS->get_cq_event(server.comp, &cq), -EAGAIN);
	assert_int_equal(end_post_recv(&server, 0), 0);
	do
		assert_true(readable_soon(server.comp->fd));
	while (OPS->get_cq_event(server.comp, &cq));
	assert_ptr_equal(cq, second);
	assert_int_equal(ibv_poll_cq(second, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	OPS->destroy_id(client.id);
	client.id = NULL;
	while (!server.disconnected)
		end_serve_cm(&server, &END_DEFAULTS);
	server.cq = server.recv_cq = first;
	OPS->destroy_cq(second);
}

static int group_teardown(void **state)
{
	(void)state;
	pair_path_release();
	return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_event_is_taken_once),
		CASE(a_sleep_takes_all_events),
		CASE(a_destroyed_queue_has_no_events),
		CASE(what_a_sleep_waits_for_besides),
		CASE(what_a_sleep_can_not_wait_for),
		CASE(one_that_can_not_be_created),
		CASE(a_connection_that_ended_wakes_once),
		CASE(the_nearest_time_counts),
		CASE(a_message_waits_at_the_second_queue),
	};

	return cmocka_run_group_tests(tests, NULL, group_teardown);
}
