/* SPDX-License-Identifier: MIT */
/*
 * Tests of the control thread's loop: what it does each second, and when a server that stops closes
 * its connections and ends. The loop is compiled here, with a clock and a wait of the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/net/conn.h"
#include "tests/support/log_fixture.h"
#include "tests/support/store_fixture.h"

static uint64_t test_now;
static int test_wait(int fd, struct epoll_event *events, int max, int timeout_ms);

static uint64_t test_clock_ns(void)
{
	return test_now;
}

#define clock_ns test_clock_ns
#define epoll_wait test_wait
#include "server/control_loop.c"
#undef clock_ns
#undef epoll_wait

#define SECOND_NS 1000000000ull
#define MS_NS 1000000ull
#define REGION_BYTES (8u << 20)
#define DRAIN_NS (3 * SECOND_NS)
#define BEGUN_NS (1000 * SECOND_NS)

static struct server server;
static struct loop loop;
static struct worker worker;
static struct conn conn;
static struct cm_id id;
static unsigned int disconnects, waits, stop_after;

static int disconnect(struct cm_id *of)
{
	assert_ptr_equal(of, &id);
	disconnects++;
	return 0;
}

static const struct device_ops ops = { .disconnect = disconnect };
static struct device dev = { .name = "fake0", .ops = &ops };

static const struct superblock *superblock(void)
{
	return region_superblock(&server.store.region);
}

static int setup(void **state)
{
	(void)state;
	memset(&server, 0, sizeof(server));
	memset(&worker, 0, sizeof(worker));
	memset(&conn, 0, sizeof(conn));
	test_store_create(&server.store, REGION_BYTES, 6, 1);
	server.config.server.drain_timeout = DRAIN_NS;
	server.net.env.config = &server.config;
	server.net.env.store = &server.store;
	server.net.workers = &worker;
	server.net.worker_count = 1;
	assert_int_equal(identities_init(&server.net.identities, 4, SECOND_NS), 0);
	conn_manager_init(&server.net);
	worker.pollers[0].worker = &worker;
	worker.pollers[0].nic = &server.net.nics[0];
	server.net.nics[0].dev = &dev;
	id.dev = &dev;
	conn.id = &id;
	conn.poller = &worker.pollers[0];
	server.net.conns = &conn;
	server.net.stats.connections = 1;
	loop = (struct loop){ .server = &server, .epoll_fd = -1, .signal_fd = -1 };
	test_now = BEGUN_NS;
	disconnects = waits = 0;
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	log_init(LOG_OFF, NULL);
	identities_release(&server.net.identities);
	test_store_destroy(&server.store);
	return 0;
}

/* Before its time it goes on, and at its time it closes the connections, once. */
static void assert_closes_at(uint64_t at)
{
	assert_false(stopping_done(&server, at - 1));
	assert_int_equal(disconnects, 0);
	assert_int_equal(server.force_until_ns, 0);
	assert_false(stopping_done(&server, at));
	assert_int_equal(disconnects, 1);
	assert_int_equal(conn.stage, CONN_FLUSHING);
	assert_false(stopping_done(&server, at + 1));
	assert_int_equal(disconnects, 1);
}

static void goes_on(void **state)
{
	(void)state;
	assert_false(stopping_done(&server, UINT64_MAX));
	assert_int_equal(disconnects, 0);
	assert_int_equal(conn.stage, CONN_LIVE);
}

/* Requests that have arrived are executed for a while; then, without pulls, it ends at once. */
static void drains(void **state)
{
	(void)state;
	stop(&server);
	assert_true(server.net.stopping);
	assert_closes_at(BEGUN_NS + RESPOND_NS);
	server.net.conns = NULL;
	assert_true(stopping_done(&server, BEGUN_NS + RESPOND_NS + 2));
}

/* Values that are being pulled have until server.drain_timeout. */
static void drains_pulls(void **state)
{
	(void)state;
	stat_set(&worker.pulls_count, 1);
	stop(&server);
	assert_closes_at(BEGUN_NS + DRAIN_NS);
}

/* When the last one has ended nothing is waited for any more. */
static void pulls_end(void **state)
{
	(void)state;
	stat_set(&worker.pulls_count, 1);
	stop(&server);
	assert_false(stopping_done(&server, BEGUN_NS + 2 * SECOND_NS));
	stat_set(&worker.pulls_count, 0);
	assert_false(stopping_done(&server, BEGUN_NS + 2 * SECOND_NS));
	assert_int_equal(disconnects, 1);
}

/* But not in the time in which requests are executed. */
static void pulls_end_early(void **state)
{
	(void)state;
	stat_set(&worker.pulls_count, 1);
	stop(&server);
	assert_false(stopping_done(&server, BEGUN_NS + 1));
	stat_set(&worker.pulls_count, 0);
	assert_closes_at(BEGUN_NS + RESPOND_NS);
}

static void no_time_to_drain(void **state)
{
	(void)state;
	server.config.server.drain_timeout = 0;
	stat_set(&worker.pulls_count, 1);
	stop(&server);
	assert_false(stopping_done(&server, BEGUN_NS));
	assert_int_equal(disconnects, 1);
}

/* A second signal ends all waiting, and so does a device that failed. */
static void told_twice(void **state)
{
	(void)state;
	for (unsigned int failed = 0; failed < 2; failed++) {
		server.drain_until_ns = server.force_until_ns = disconnects = 0;
		conn.stage = CONN_LIVE;
		stat_set(&worker.pulls_count, 1);
		if (!failed)
			stop(&server);
		assert_false(stopping_done(&server, BEGUN_NS + 1));
		assert_int_equal(disconnects, 0);
		server.net.failed = failed;
		if (!failed)
			stop(&server);
		assert_false(stopping_done(&server, BEGUN_NS + 2));
		assert_int_equal(disconnects, 1);
		conn_timer_cancel(&server.net.timers, &conn);
	}
}

/* A connection that does not close keeps the server for FORCE_NS, which is logged. */
static void connections_that_stay(void **state)
{
	(void)state;
	stop(&server);
	assert_closes_at(BEGUN_NS + RESPOND_NS);
	assert_false(stopping_done(&server, BEGUN_NS + RESPOND_NS + FORCE_NS));
	assert_true(stopping_done(&server, BEGUN_NS + RESPOND_NS + FORCE_NS + 1));
	assert_logged("1 connections did not close within 5 s");
}

/* The clock and the number of keys that clients read, by the store that they are of. */
static void assert_superblock(uint64_t late_s)
{
	uint64_t clock_s = store_clock_ns(&server.store) / SECOND_NS;

	assert_in_range(superblock()->clock_s, clock_s - late_s, clock_s);
}

/* A wait of at most a second: the store's clock goes on with the loop's. */
static int test_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	(void)fd;
	(void)events;
	(void)max;
	assert_in_range(timeout_ms, 1, TICK_MS);
	if (!waits)
		assert_int_equal(superblock()->clock_s, 0);
	/* Written in the last second, or two if a wait has just ended. */
	if (waits > 1)
		assert_superblock(2);
	assert_in_range(superblock()->items, waits / 4 > 2 ? waits / 4 - 2 : 0, waits / 4);
	if (++waits % 4 == 0)
		assert_int_equal(test_store_put(&server.store, &waits, sizeof(waits), "v", 1, NULL),
				 WIRE_OK);
	/* Events come at any time, and are no reason to put a tick off. */
	if (waits % 3)
		timeout_ms = timeout_ms / 3 + 1;
	test_now += (uint64_t)timeout_ms * MS_NS;
	server.store.table.clock_base += (uint64_t)timeout_ms * MS_NS;
	if (waits == stop_after) {
		server.net.conns = NULL;
		server.net.failed = true;
	}
	return 0;
}

/* Once a second the superblock has the clock and the number of keys, with and without events. */
static void ticks(void **state)
{
	uint64_t clock_s = store_clock_ns(&server.store) / SECOND_NS;

	(void)state;
	stop_after = 100;
	assert_int_equal(loop_run(&loop), 0);
	assert_int_equal(waits, stop_after);
	assert_in_range(superblock()->clock_s, clock_s + 50, clock_s + 100);
	assert_superblock(1);
	assert_in_range(superblock()->items, stop_after / 4 - 2, stop_after / 4);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(goes_on),	       CASE(drains),
		CASE(drains_pulls),    CASE(pulls_end),
		CASE(pulls_end_early), CASE(no_time_to_drain),
		CASE(told_twice),      CASE(connections_that_stay),
		CASE(ticks),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
