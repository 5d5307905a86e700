/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's request distributions against YCSB's: shares of the most popular records,
 * bounds, inserts that are not acknowledged; and of the counter of inserts with several threads.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/counter.h"
#include "bench/keys.h"
#include "bench/random.h"
#include "bench/zipfian.h"
#include "tests/support/form.h"

#define RECORDS 1000
#define DRAWS 1000000
#define COUNTER_THREADS 4
#define COUNTER_NUMBERS 50000
#define COUNTER_ROUNDS (long_form() ? 50u : 5u)

static struct keys keys;
static struct key_chooser chooser;
static struct random rng;
static struct workload workload;
static uint64_t hits[2 * RECORDS];

static void prepare(unsigned int distribution)
{
	random_init(&rng, 20240101);
	workload = (struct workload){
		.record_count = RECORDS,
		.insert_count = WORKLOAD_COUNT_REST,
		.operation_count = 1000,
		.request_distribution = distribution,
		.hotspot_data_fraction = 0.2,
		.hotspot_operation_fraction = 0.8,
		.exponential_percentile = 95,
		.exponential_fraction = 0.1,
	};
	keys_init(&keys, &workload);
	key_chooser_init(&chooser, &keys);
}

/* Draws and counts record numbers, which must be below @bound. */
static void draw(uint64_t bound)
{
	uint64_t number;
	int i;

	memset(hits, 0, sizeof(hits));
	for (i = 0; i < DRAWS; i++) {
		number = key_chooser_next(&chooser, &rng);
		assert_true(number < bound);
		hits[number]++;
	}
}

/* Allows 5 standard deviations of a count and a few per cent for the error of the reference. */
static void expect_share(uint64_t number, double share)
{
	const double want = share * DRAWS;
	const double error = 5 * sqrt(want) + 0.02 * want;

	if (fabs((double)hits[number] - want) > error)
		fail_msg("record %d: %d hits instead of %.0f", (int)number, (int)hits[number],
			 want);
}

/* Shares measured with YCSB's own ScrambledZipfianGenerator(0, 1000), 10^6 draws. */
static void zipfian_is_scrambled_as_in_ycsb(void **state)
{
	(void)state;
	prepare(DISTRIBUTION_ZIPFIAN);
	assert_int_equal(keys.scrambled_count, 1001);
	draw(RECORDS);
	expect_share(144, 0.038477);
	expect_share(610, 0.019880);
	expect_share(213, 0.015947);
	expect_share(679, 0.011619);
}

/* The most popular item is 0, whose hash is known; YCSB's record 144 of 1,001 follows from it. */
static void fnv_hash_equals_ycsb(void **state)
{
	(void)state;
	assert_true(fnv_hash(0) == UINT64_C(6284781860667377211));
	assert_int_equal(fnv_hash(0) % 1001, 144);
	assert_true(fnv_hash(UINT64_C(1) << 40) == UINT64_C(6908947124047430886));
}

/* Shares measured with YCSB's own SkewedLatestGenerator(CounterGenerator(1000)), 10^6 draws. */
static void latest_prefers_the_newest(void **state)
{
	(void)state;
	prepare(DISTRIBUTION_LATEST);
	draw(RECORDS);
	expect_share(999, 0.129462);
	expect_share(998, 0.064971);
	expect_share(997, 0.050545);
	expect_share(996, 0.036702);
	expect_share(995, 0.028078);
}

static void latest_follows_the_inserts(void **state)
{
	struct zipfian fresh;
	uint64_t number;
	int i;

	(void)state;
	prepare(DISTRIBUTION_LATEST);
	for (i = 0; i < 500; i++) {
		assert_true(counter_take(&keys.inserted, &number));
		counter_acknowledge(&keys.inserted, number);
	}
	draw(RECORDS + 500);
	assert_true(hits[RECORDS + 499] > hits[RECORDS + 498]);
	assert_true(hits[RECORDS + 499] > DRAWS / 10);
	assert_int_equal(chooser.latest.zeta_items, RECORDS + 499);
	/* zeta grew record by record to what it would be with all records from the start. */
	zipfian_init(&fresh, RECORDS + 499);
	assert_true(fabs(chooser.latest.zeta - fresh.zeta) < 1e-9);
}

static void unacknowledged_inserts_are_not_drawn(void **state)
{
	uint64_t first, second;

	(void)state;
	prepare(DISTRIBUTION_LATEST);
	assert_true(counter_take(&keys.inserted, &first));
	assert_true(counter_take(&keys.inserted, &second));
	counter_acknowledge(&keys.inserted, second);
	draw(RECORDS); /* neither: the first one is not acknowledged */
	counter_acknowledge(&keys.inserted, first);
	draw(RECORDS + 2);
	assert_true(hits[RECORDS + 1] > 0);
}

/* Zipfian with inserts to come draws only existing records, though most numbers are larger. */
static void zipfian_skips_future_inserts(void **state)
{
	(void)state;
	prepare(DISTRIBUTION_ZIPFIAN);
	workload.proportions[OPERATION_INSERT] = 1;
	workload.operation_count = 10000;
	keys_init(&keys, &workload);
	assert_int_equal(keys.scrambled_count, RECORDS + 20000 + 1);
	draw(RECORDS);
}

static void uniform_is_even(void **state)
{
	int i;

	(void)state;
	prepare(DISTRIBUTION_UNIFORM);
	draw(RECORDS);
	for (i = 0; i < RECORDS; i++)
		expect_share((uint64_t)i, 1.0 / RECORDS);
}

static void sequential_wraps_around(void **state)
{
	int i;

	(void)state;
	prepare(DISTRIBUTION_SEQUENTIAL);
	workload.insert_start = 100;
	keys_init(&keys, &workload);
	for (i = 0; i < 2 * 900; i++)
		assert_int_equal(key_chooser_next(&chooser, &rng), 100 + i % 900);
}

static void hotspot_has_its_share(void **state)
{
	uint64_t hot = 0;
	int i;

	(void)state;
	prepare(DISTRIBUTION_HOTSPOT);
	draw(RECORDS);
	for (i = 0; i < RECORDS / 5; i++)
		hot += hits[i];
	assert_true(fabs((double)hot / DRAWS - 0.8) < 0.01);
	expect_share(0, 0.8 / 200);
	expect_share(RECORDS - 1, 0.2 / 800);
}

static void exponential_has_its_share(void **state)
{
	uint64_t recent = 0;
	int i;

	(void)state;
	prepare(DISTRIBUTION_EXPONENTIAL);
	draw(RECORDS);
	for (i = RECORDS - 100; i < RECORDS; i++)
		recent += hits[i];
	assert_true(fabs((double)recent / DRAWS - 0.95) < 0.01);
	assert_true(hits[RECORDS - 1] > hits[RECORDS - 20]);
}

static void one_record_is_enough(void **state)
{
	unsigned int distribution;

	(void)state;
	for (distribution = 0; distribution <= DISTRIBUTION_EXPONENTIAL; distribution++) {
		if (distribution == DISTRIBUTION_HOTSPOT)
			continue; /* refused: there would be no hot record */
		prepare(distribution);
		workload.record_count = 1;
		keys_init(&keys, &workload);
		key_chooser_init(&chooser, &keys);
		draw(1);
	}
}

static void counter_limits_unacknowledged_inserts(void **state)
{
	static struct counter counter;
	uint64_t number, i;

	(void)state;
	counter_init(&counter, 7);
	for (i = 0; i < COUNTER_AHEAD_MAX; i++) {
		assert_true(counter_take(&counter, &number));
		assert_int_equal(number, 7 + i);
	}
	assert_false(counter_take(&counter, &number));
	counter_acknowledge(&counter, 8);
	assert_false(counter_take(&counter, &number));
	assert_int_equal(counter_limit(&counter), 7);
	counter_acknowledge(&counter, 7);
	assert_int_equal(counter_limit(&counter), 9);
	assert_true(counter_take(&counter, &number));
}

static struct counter shared;
static _Atomic uint8_t inserted[COUNTER_THREADS * COUNTER_NUMBERS + 1];

static void *insert_some(void *argument)
{
	uint64_t number, limit;
	int i;

	for (i = 0; i < COUNTER_NUMBERS; i++) {
		while (!counter_take(&shared, &number))
			sched_yield();
		atomic_store_explicit(&inserted[number], 1, memory_order_relaxed);
		counter_acknowledge(&shared, number);
		/* Every number below the limit has been inserted. */
		limit = counter_limit(&shared);
		if (limit && !atomic_load_explicit(&inserted[limit - 1], memory_order_relaxed))
			return argument;
	}
	return NULL;
}

/* No insert is lost, and the limit stays below inserts that are not done. */
static void counter_under_threads(void **state)
{
	pthread_t threads[COUNTER_THREADS];
	void *failed;
	int i;

	(void)state;
	counter_init(&shared, 0);
	for (i = 0; i < COUNTER_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, insert_some, &shared), 0);
	for (i = 0; i < COUNTER_THREADS; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	assert_int_equal(counter_limit(&shared), COUNTER_THREADS * COUNTER_NUMBERS);
}

/* Takes and acknowledges as many as may be handed out, each as soon as the limit lets it. */
static void *follow_the_limit(void *argument)
{
	uint64_t number;
	unsigned int i;

	for (i = 0; i < COUNTER_AHEAD_MAX; i++) {
		while (!counter_take(&shared, &number))
			;
		counter_acknowledge(&shared, number);
	}
	return argument;
}

/*
 * A number that is held back lets all others be handed out. When it is acknowledged the limit moves
 * over all of them, and the flag of each is used again by a thread that is close behind it.
 */
static void flags_are_used_again_while_the_limit_moves(void **state)
{
	uint64_t held, number;
	pthread_t thread;
	unsigned int round, i;

	(void)state;
	for (round = 0; round < COUNTER_ROUNDS; round++) {
		counter_init(&shared, 0);
		assert_true(counter_take(&shared, &held));
		for (i = 1; i < COUNTER_AHEAD_MAX; i++) {
			assert_true(counter_take(&shared, &number));
			counter_acknowledge(&shared, number);
		}
		assert_false(counter_take(&shared, &number));
		assert_int_equal(pthread_create(&thread, NULL, follow_the_limit, NULL), 0);
		counter_acknowledge(&shared, held);
		pthread_join(thread, NULL);
		assert_int_equal(counter_limit(&shared), 2 * COUNTER_AHEAD_MAX);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fnv_hash_equals_ycsb),
		cmocka_unit_test(zipfian_is_scrambled_as_in_ycsb),
		cmocka_unit_test(zipfian_skips_future_inserts),
		cmocka_unit_test(latest_prefers_the_newest),
		cmocka_unit_test(latest_follows_the_inserts),
		cmocka_unit_test(unacknowledged_inserts_are_not_drawn),
		cmocka_unit_test(uniform_is_even),
		cmocka_unit_test(sequential_wraps_around),
		cmocka_unit_test(hotspot_has_its_share),
		cmocka_unit_test(exponential_has_its_share),
		cmocka_unit_test(one_record_is_enough),
		cmocka_unit_test(counter_limits_unacknowledged_inserts),
		cmocka_unit_test(counter_under_threads),
		cmocka_unit_test(flags_are_used_again_while_the_limit_moves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
