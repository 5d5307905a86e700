/* SPDX-License-Identifier: MIT */
/*
 * Tests of the time that the host slept (SLEEP-1, SLEEP-2 in server/store/host_sleep.h): sleep at
 * each moment, threads that are preempted between two clocks; and of the clocks of stores, with it
 * and without.
 */
#include "server/store/host_sleep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "tests/support/store_fixture.h"

#define S 1000000000ull
#define MS 1000000ull
#define READING_NS 20u
#define REGION_BYTES (8u << 20)
/* What SLEEP-2 leaves out. */
#define UNKNOWN_NS (CLOCK_SLEPT_NS_MIN + 2 * SLEEP_READING_NS_MAX)

static uint64_t awake_ns, slept_ns; /* of the host, since it started */
/* Before this reading from now, the host sleeps, or the thread is preempted; 0: never. */
static unsigned int until_sleep, until_preempted;
static uint64_t sleep_ns, preempted_ns;

static bool is_due(unsigned int *until)
{
	return *until && !--*until;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
	uint64_t ns;

	if (is_due(&until_sleep))
		slept_ns += sleep_ns;
	if (is_due(&until_preempted))
		awake_ns += preempted_ns;
	awake_ns += READING_NS;
	ns = awake_ns;
	if (id == CLOCK_BOOTTIME || id == CLOCK_REALTIME)
		ns += slept_ns;
	now->tv_sec = (time_t)(ns / S);
	now->tv_nsec = (long)(ns % S);
	return 0;
}

static struct host_sleep host;

static int setup(void **state)
{
	(void)state;
	awake_ns = 1000 * S;
	slept_ns = 300 * S;
	until_sleep = until_preempted = 0;
	host_sleep_init(&host);
	return 0;
}

/* What was slept since the start is known, but for what may be left out, and no more. */
static void assert_slept(uint64_t ns, uint64_t left_out)
{
	uint64_t known = host_sleep_ns(&host);

	assert_in_range(known, ns < left_out ? 0 : ns - left_out, ns);
}

static void sleep_counts_from_the_start(void **state)
{
	(void)state;
	assert_slept(0, 0);
	awake_ns += 100 * S;
	assert_slept(0, 0);
	slept_ns += 5 * S;
	assert_slept(5 * S, UNKNOWN_NS);
	awake_ns += 100 * S;
	assert_slept(5 * S, UNKNOWN_NS);
	slept_ns += 2 * MS;
	assert_slept(5 * S + 2 * MS, UNKNOWN_NS);
}

/* Short ones add up. */
static void short_sleep_counts_later(void **state)
{
	(void)state;
	for (unsigned int i = 1; i <= 100; i++) {
		slept_ns += MS / 2;
		assert_slept(i * MS / 2, UNKNOWN_NS);
		assert_true(i > 1 || !host_sleep_ns(&host));
	}
}

/* A thread that is preempted sees no sleep, and misses none, wherever that is. */
static void preempted_between_two_clocks(void **state)
{
	(void)state;
	preempted_ns = 10 * MS;
	for (unsigned int at = 1; at < 10; at++) {
		setup(NULL);
		until_preempted = at;
		assert_slept(0, 0);
		assert_slept(0, 0);
		setup(NULL);
		slept_ns += 2 * MS;
		until_preempted = at;
		assert_slept(2 * MS, UNKNOWN_NS);
		/* At the start. */
		awake_ns = 1000 * S;
		until_preempted = at;
		host_sleep_init(&host);
		until_preempted = 0;
		assert_slept(0, 0);
		slept_ns += 2 * MS;
		assert_slept(2 * MS, UNKNOWN_NS);
	}
}

/* Sleep may be known at once, or by the next call. */
static void sleep_between_two_clocks(void **state)
{
	uint64_t before;

	(void)state;
	sleep_ns = 3 * MS;
	for (unsigned int at = 1; at < 10; at++) {
		setup(NULL);
		until_sleep = at;
		before = host_sleep_ns(&host);
		assert_true(!before || before >= sleep_ns - UNKNOWN_NS);
		until_sleep = 0;
		assert_in_range(host_sleep_ns(&host), before, slept_ns - 300 * S);
		assert_slept(slept_ns - 300 * S, UNKNOWN_NS);
	}
}

/* The stores have one clock, which is never ahead, and has what was slept. */
static void clocks_of_stores(void **state)
{
	static struct store store, other;
	static struct store_thread other_thread;
	const struct store_options options = {
		.bytes = REGION_BYTES,
		.value_max = 1000,
		.fill = INDEX_FILL,
		.level = 4,
		.sleep = &host,
		.sweep_share = EXPIRY_SWEEP_SHARE,
	};
	struct store_thread *thread = &test_threads[0];
	uint64_t start_ns, awake_start_ns;

	(void)state;
	test_store_create_with(&store, REGION_BYTES, 4, 1, &options);
	slept_ns += 7 * S;
	assert_int_equal(store_create(&other, &options), 0);
	store_set_clock(&other, store.table.clock_base);
	assert_int_equal(store_thread_init(&other_thread, &other.table, 0), 0);
	start_ns = store_clock_ns(&store);
	awake_start_ns = awake_ns;
	sleep_ns = 5 * S;
	/* Before each of the clocks that are read. */
	for (unsigned int at = 1; at < 8; at++) {
		until_sleep = at;
		store_thread_clock(thread);
		/* The clock that is read last shows it. */
		if (!until_sleep)
			assert_true(thread->now_ns + UNKNOWN_NS >= start_ns + at * sleep_ns);
		else
			slept_ns += sleep_ns;
		until_sleep = 0;
		assert_true(thread->now_ns <= start_ns + at * sleep_ns + awake_ns - awake_start_ns);
		store_thread_clock(thread);
		store_thread_clock(&other_thread);
		assert_true(thread->now_ns + UNKNOWN_NS >= start_ns + at * sleep_ns);
		assert_true(thread->now_ns <= start_ns + at * sleep_ns + awake_ns - awake_start_ns);
		assert_in_range(other_thread.now_ns - thread->now_ns, 0, 1000);
		assert_in_range(store_clock_ns(&other) - thread->now_ns, 0, 1000);
	}
	store_thread_release(&other_thread);
	store_destroy(&other);
	/* A server without a lease. */
	store.table.sleep = NULL;
	start_ns = store_clock_ns(&store);
	slept_ns += 5 * S;
	assert_in_range(store_clock_ns(&store) - start_ns, 0, 1000);
	store.table.sleep = &host;
	test_store_destroy(&store);
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(sleep_counts_from_the_start),
		CASE(short_sleep_counts_later),
		CASE(preempted_between_two_clocks),
		CASE(sleep_between_two_clocks),
		CASE(clocks_of_stores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
