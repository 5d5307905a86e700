/* SPDX-License-Identifier: MIT */
/*
 * Tests of what a sleep on softnic costs and of the fences it relies on: the order of publishing
 * and arming as a litmus test, and the system calls of a sleep and of a wake-up, which this program
 * counts by defining the C library's functions for them itself.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/link.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define CELLS 64
#define ROUNDS 100000
#define MEET_SPINS 1000
#define LITMUS_MS 3000
#define REARMS 3000000
#define REARM_SPINS 8
#define SLEEPS 300
#define IDLE 40 /* connections beside the one that is used */

/*
 * Litmus test of link.h: of a side that publishes and one that arms at the same moment, at least
 * one sees the other. On x86-64 it fails if the store in side_publish() is not sequentially
 * consistent. The two threads start each round together, each on a CPU of its own: with one for
 * both, where the kernel may leave them, the test shows nothing. Where other programs want the
 * CPUs too, a round takes as long as the turns of these, so there is a limit of the time.
 */
static struct link_side publishers[CELLS], sleepers[CELLS];
static uint8_t woke[CELLS], saw[CELLS];
static _Atomic uint32_t at[2];	       /* the round that each thread has reached */
static _Atomic uint32_t last = ROUNDS; /* round */

static void litmus_meet(unsigned int me, uint32_t round)
{
	unsigned int spins = 0;

	atomic_store(&at[me], round);
	while ((int32_t)(atomic_load(&at[!me]) - round) < 0)
		if (++spins % MEET_SPINS == 0)
			sched_yield();
}

/* The @nth of the CPUs in @allowed alone, if there are that many: else it is left to the kernel. */
static void run_on(const cpu_set_t *allowed, int nth)
{
	cpu_set_t one;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, allowed) || nth--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static cpu_set_t cpus; /* of this process, while a test has two threads */

/* Starts the other thread, each of the two on a CPU of its own. It begins with run_on(&cpus, 1). */
static pthread_t other_begin(void *(*run)(void *))
{
	pthread_t thread;

	assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
	run_on(&cpus, 0);
	return thread;
}

static void other_end(pthread_t thread)
{
	pthread_join(thread, NULL);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void *litmus_publish(void *arg)
{
	uint32_t round;

	(void)arg;
	run_on(&cpus, 1);
	for (round = 1; round <= atomic_load(&last); round++) {
		uint32_t i = round % CELLS;

		litmus_meet(0, round);
		side_publish(&publishers[i], round);
		woke[i] = side_take_wake(&sleepers[i], LINK_WAKE_EVENT);
	}
	litmus_meet(0, round);
	return NULL;
}

static void test_litmus(void **state)
{
	uint64_t deadline = pair_now_ms() + LITMUS_MS;
	uint32_t round, before, lost = 0;
	pthread_t thread;

	(void)state;
	thread = other_begin(litmus_publish);
	for (round = 1; round <= atomic_load(&last); round++) {
		uint32_t i = round % CELLS;

		/* The other one waits for this round at most, and looks at `last` after it. */
		if (i == 0 && pair_now_ms() > deadline)
			atomic_store(&last, round);
		litmus_meet(1, round);
		side_arm(&sleepers[i], LINK_WAKE_EVENT);
		saw[i] = side_bell(&publishers[i]) == round;
		/* Both threads have finished the round before this one. */
		before = (round - 1) % CELLS;
		lost += round > 1 && !woke[before] && !saw[before];
	}
	litmus_meet(1, round);
	other_end(thread);
	assert_int_equal(lost, 0);
}

/* Somebody else's publishing is for another event than the one that is asked for at last. */
static struct link_side rearmed;
static _Atomic bool publishing, done;

static void *acks_run(void *arg)
{
	(void)arg;
	run_on(&cpus, 1);
	atomic_store(&publishing, true);
	while (!atomic_load(&done))
		side_take_wake(&rearmed, LINK_WAKE_ACK);
	return NULL;
}

static void test_arming_anew(void **state)
{
	uint32_t round, spins, lost = 0;
	pthread_t thread;

	(void)state;
	thread = other_begin(acks_run);
	while (!atomic_load(&publishing))
		sched_yield();
	for (round = 0; round < REARMS && !lost; round++) {
		side_arm(&rearmed, LINK_WAKE_EVENT | LINK_WAKE_ACK);
		side_arm(&rearmed, LINK_WAKE_EVENT);
		for (spins = 0; spins < REARM_SPINS; spins++)
			lost += atomic_load(&rearmed.wake) != LINK_WAKE_EVENT;
	}
	atomic_store(&done, true);
	other_end(thread);
	assert_int_equal(lost, 0);
}

/* System calls of this thread, while it counts. */
static _Thread_local bool counting;
static _Thread_local unsigned int waits, receives, sends, others;

/* A thread that counts waits, or is about to: what it waits for has to wake it up from now on. */
static _Atomic bool asleep;

/* Destroyed by the next epoll_wait(2) that has an event, before it returns. */
static struct cm_id *doomed;

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	struct cm_id *id = doomed;
	int count;

	waits += counting;
	if (counting && timeout_ms)
		atomic_store(&asleep, true);
	count = (int)syscall(SYS_epoll_pwait, fd, events, max, timeout_ms, NULL, 8);
	if (counting && timeout_ms)
		atomic_store(&asleep, false);
	if (count > 0 && id) {
		doomed = NULL;
		OPS->destroy_id(id);
	}
	return count;
}

int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int count, int flags, struct timespec *timeout)
{
	receives += counting;
	return (int)syscall(SYS_recvmmsg, fd, msgs, count, flags, timeout);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	receives += counting;
	return syscall(SYS_recvmsg, fd, msg, flags);
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	sends += counting;
	return syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
}

ssize_t read(int fd, void *buf, size_t len)
{
	others += counting;
	return syscall(SYS_read, fd, buf, len);
}

ssize_t write(int fd, const void *buf, size_t len)
{
	others += counting;
	return syscall(SYS_write, fd, buf, len);
}

static struct end server, client;
static struct cm_id *ids[IDLE + 1];
static _Atomic unsigned int received;

static void *sleep_often(void *arg)
{
	unsigned int *calls = arg;
	struct ibv_wc wc;

	counting = true;
	while (atomic_load(&received) < SLEEPS) {
		int got;

		ibv_req_notify_cq(server.cq, 0);
		got = ibv_poll_cq(server.cq, 1, &wc);
		if (!got) {
			int ret = OPS->sleep(server.comp, server.cm->fd, PAIR_WAIT_MS);

			/* A timer of the handshakes, if all takes that long. */
			counting = false;
			if (ret < 0 || (ret && end_serve_cm(&server, &END_DEFAULTS) != -EAGAIN))
				abort();
			counting = true;
			got = ibv_poll_cq(server.cq, 1, &wc);
		}
		if (got && end_post_recv(&server, (unsigned int)wc.wr_id))
			abort();
		atomic_fetch_add(&received, (unsigned int)got);
	}
	counting = false;
	calls[0] = waits;
	calls[1] = receives;
	calls[2] = sends + others;
	return NULL;
}

/* A sleep takes two system calls, and waking takes one, whatever else is connected and idle. */
static void test_system_calls(void **state)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	unsigned int calls[3], i;
	struct ibv_wc wc;
	pthread_t thread;
	char path[64];
	struct end_options private = END_DEFAULTS;

	(void)state;
	private.share = false; /* no file is passed */
	snprintf(path, sizeof(path), "%s", pair_path());
	assert_int_equal(end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS), 0);
	assert_int_equal(end_init(&client, DEVICE_CONNECT, path, &private), 0);
	for (i = 0; i <= IDLE; i++)
		assert_int_equal(
			ends_connect(&server, &client, &ids[i], &END_DEFAULTS, &END_DEFAULTS), 0);
	assert_int_equal(pthread_create(&thread, NULL, sleep_often, calls), 0);
	for (i = 0; i < SLEEPS; i++) {
		while (atomic_load(&received) < i || !atomic_load(&asleep)) {
			assert_true(pair_now_ms() < deadline);
			sched_yield();
		}
		counting = true;
		assert_int_equal(end_post_send(&client, ids[IDLE / 2]->qp, 0, 8, IBV_SEND_SIGNALED),
				 0);
		counting = false;
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
	}
	pthread_join(thread, NULL);
	assert_in_range(calls[0], SLEEPS, SLEEPS * 11 / 10);
	assert_in_range(calls[1], 0, SLEEPS * 11 / 10);
	assert_in_range(calls[2], 0, SLEEPS / 10);
	assert_in_range(sends, 0, SLEEPS);
	assert_int_equal(waits + receives + others, 0);
	for (i = 0; i <= IDLE; i++)
		OPS->destroy_id(ids[i]);
	while (atomic_load(&dev_to_sn_context(server.dev)->objects[SN_OBJECT_ID]) > 1)
		end_serve_cm(&server, &END_DEFAULTS);
	end_release(&client);
	end_release(&server);
}

/*
 * Another thread may destroy a queue pair while this one sleeps, and the event that ends the sleep
 * points to it. Then the events are fetched anew, and those of others are served: AddressSanitizer
 * sees whether the queue pair is.
 */
static void test_event_of_a_destroyed_queue_pair(void **state)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct cm_id *gone, *other;
	char path[64];
	struct ibv_wc wc;

	(void)state;
	snprintf(path, sizeof(path), "%s", pair_path());
	assert_int_equal(end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS), 0);
	assert_int_equal(end_init(&client, DEVICE_CONNECT, path, &END_DEFAULTS), 0);
	assert_int_equal(ends_connect(&server, &client, &gone, &END_DEFAULTS, &END_DEFAULTS), 0);
	assert_int_equal(ends_connect(&server, &client, &other, &END_DEFAULTS, &END_DEFAULTS), 0);
	do
		ibv_req_notify_cq(server.cq, 0);
	while (ibv_poll_cq(server.cq, 1, &wc));
	assert_int_equal(end_post_send(&client, gone->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_post_send(&client, other->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	doomed = server.id; /* the first one */
	server.id = NULL;
	counting = true;
	waits = 0;
	assert_true(OPS->sleep(server.comp, server.cm->fd, PAIR_WAIT_MS) >= 0);
	counting = false;
	assert_null(doomed);
	assert_int_equal(waits, 2);
	assert_int_equal(end_wait(&server, NULL, &wc), 0);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	receives = sends = others = waits = 0;
	OPS->destroy_id(gone);
	OPS->destroy_id(other);
	while (atomic_load(&dev_to_sn_context(server.dev)->objects[SN_OBJECT_ID]) > 1) {
		end_serve_cm(&server, &END_DEFAULTS);
		assert_true(pair_now_ms() < deadline);
	}
	end_release(&client);
	end_release(&server);
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
		cmocka_unit_test(test_litmus),
		cmocka_unit_test(test_arming_anew),
		cmocka_unit_test(test_system_calls),
		cmocka_unit_test(test_event_of_a_destroyed_queue_pair),
	};

	return cmocka_run_group_tests(tests, NULL, group_teardown);
}
