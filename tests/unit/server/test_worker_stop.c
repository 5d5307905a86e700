/* SPDX-License-Identifier: MIT */
/*
 * Tests that a worker ends whenever it is stopped: also by mail that it takes in the turn in which
 * it goes to sleep. The device is a table of functions, one of which stops the worker.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/worker/pull_reads.h"
#include "server/worker/worker_loop.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (8u << 20)

static struct device dev;
static struct device_ops ops;
static struct nic nic;
static struct ibv_context context;
static struct ibv_cq cq = { .context = &context };
static unsigned int polls, stop_at, sleeps_too_long;
static unsigned int sleeps, sleeps_without_end;

/* The control thread's half of worker_stop(), between two steps of the worker. */
static int poll_cq(struct ibv_cq *from, int max, struct ibv_wc *wcs)
{
	(void)from;
	(void)max;
	(void)wcs;
	if (++polls == stop_at) {
		atomic_store(&test_worker.stop, true);
		mailbox_wake(&test_worker.mailbox);
	}
	return 0;
}

static int req_notify_cq(struct ibv_cq *of, int solicited)
{
	(void)of;
	(void)solicited;
	return 0;
}

/* Does not sleep: if nothing would end it, it says so, and the worker looks again. */
static int sleep_until(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	struct pollfd mail = { fd, POLLIN, 0 };

	(void)channel;
	sleeps++;
	sleeps_without_end += timeout_ms < 0;
	if (atomic_load(&test_worker.stop) && poll(&mail, 1, 0) != 1)
		sleeps_too_long++;
	return 0;
}

static void worker_setup(void)
{
	assert_int_equal(test_worker_create(REGION_BYTES, REGION_BYTES / 16), 0);
	assert_int_equal(mailbox_init(&test_worker.mailbox), 0);
	nic = *test_poller->nic;
	ops = *nic.dev->ops;
	dev = *nic.dev;
	ops.sleep = sleep_until;
	dev.ops = &ops;
	nic.dev = &dev;
	context.ops.poll_cq = poll_cq;
	context.ops.req_notify_cq = req_notify_cq;
	test_poller->nic = &nic;
	test_poller->cq = &cq;
	test_worker.poller_count = 1;
	test_worker.attached[0] = true;
	test_worker.cpu = -1;
}

static void test_stop_in_any_turn(void **state)
{
	(void)state;
	for (stop_at = 1; stop_at < 6; stop_at++) {
		polls = sleeps_too_long = 0;
		worker_setup();
		assert_int_equal(worker_start(&test_worker), 0);
		pthread_join(test_worker.thread, NULL);
		assert_int_equal(sleeps_too_long, 0);
		mailbox_release(&test_worker.mailbox);
		test_worker_destroy();
	}
}

static void worker_runs(unsigned int turns)
{
	stop_at = turns;
	polls = sleeps = sleeps_without_end = sleeps_too_long = 0;
	assert_int_equal(worker_start(&test_worker), 0);
	pthread_join(test_worker.thread, NULL);
	assert_true(sleeps > 0);
	atomic_store(&test_worker.stop, false);
}

/* What only time ends does not wait for something else to happen: a pull whose client is gone. */
static void test_wakes_for_a_deadline(void **state)
{
	(void)state;
	worker_setup();
	worker_runs(6);
	assert_int_equal(sleeps_without_end, sleeps);
	pull_clock_start(&test_conns[0].conn);
	worker_runs(6);
	assert_int_equal(sleeps_without_end, 0);
	pull_clock_stop(&test_conns[0].conn);
	mailbox_release(&test_worker.mailbox);
	test_worker_destroy();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stop_in_any_turn),
		cmocka_unit_test(test_wakes_for_a_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
