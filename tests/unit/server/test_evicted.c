/* SPDX-License-Identifier: MIT */
/*
 * Tests of what is counted of evicted items: their ages by the server's clock, their size classes,
 * and the youngest of a period (server/store/evicted.h).
 */
#include "server/store/evicted.h"

#include "server/store/access_time.h"
#include "server/store/size_class.h"
#include "tests/support/store_test.h"

#define REGION_BYTES (16u << 20)
#define VALUE_BYTES 1000u
#define NOW_S (ENGINE_NOW_NS / SECOND_NS)

static uint64_t now_s;

static int setup(void **state)
{
	const struct store_options options = { .fill = STORE_NO_GROWTH,
					       .eviction = EVICTION_OBJECT_HITS,
					       .pin_share = 25,
					       .pin_time_max = 3600 };
	uint32_t youngest_s;

	(void)state;
	test_store_create_with(&store, REGION_BYTES, 10, 1, &options);
	now_s = NOW_S;
	set_now(ENGINE_NOW_NS);
	access_time_init(&store.table);
	evicted_tick(&store.table, now_s, &youngest_s);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_store_destroy(&store);
	return 0;
}

static void pass(uint64_t seconds)
{
	now_s += seconds;
	set_now(ENGINE_NOW_NS + (now_s - NOW_S) * SECOND_NS);
}

static void put_of(uint64_t key, uint32_t bytes, bool low)
{
	static uint8_t value[200000];
	struct table_change change = {
		.key = &key,
		.key_len = sizeof(key),
		.value = value,
		.value_len = bytes,
		.wish.low = low,
	};

	assert_int_equal(table_put(&test_threads[0], hash_of(&key, sizeof(key)), &change), WIRE_OK);
}

static void put(uint64_t key)
{
	put_of(key, VALUE_BYTES, false);
}

/* Until something is evicted. Returns the next key. */
static uint64_t fill(uint64_t key, bool low)
{
	while (!STAT(evictions))
		put_of(key++, VALUE_BYTES, low);
	return key;
}

static bool ticks(uint32_t *youngest_s)
{
	return evicted_tick(&store.table, now_s, youngest_s);
}

/* All that is evicted was stored in the first second. */
static void ages(void **state)
{
	static const struct {
		uint64_t age_s;
		size_t stat;
	} cases[] = {
		{ 59, offsetof(struct table_stats, evictions_1m) },
		{ 60, offsetof(struct table_stats, evictions_10m) },
		{ 600, offsetof(struct table_stats, evictions_1h) },
		{ 86399, offsetof(struct table_stats, evictions_1d) },
	};
	uint64_t key = fill(0, false), counted = STAT(evictions_1m);
	unsigned int i;

	(void)state;
	assert_int_equal(counted, STAT(evictions));
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t before = stats_sum(cases[i].stat), evictions = STAT(evictions);

		pass(NOW_S + cases[i].age_s - now_s);
		while (STAT(evictions) < evictions + 20)
			put(key++);
		evictions = STAT(evictions) - evictions;
		assert_int_equal(stats_sum(cases[i].stat), before + evictions);
		counted += evictions;
	}
	/* Older items are in none of these. */
	pass(NOW_S + 86400 - now_s);
	while (STAT(evictions) < counted + 20)
		put(key++);
	assert_int_equal(STAT(evictions_1m) + STAT(evictions_10m) + STAT(evictions_1h) +
				 STAT(evictions_1d),
			 counted);
}

/* A use makes an item young again: the time of its tick counts, not that at which it was stored. */
static void age_since_use(void **state)
{
	struct store_thread *thread = &test_threads[0];
	uint32_t tick = access_time_now(&store.table);

	(void)state;
	pass(100);
	access_time_add(thread, memory_bytes(store.memory) / ACCESS_TICKS + 1);
	assert_int_equal(access_time_now(&store.table), tick + 1);
	pass(7);
	assert_int_equal(access_time_age_s(thread, 0), 7);
	assert_int_equal(access_time_age_s(thread, 1), 107);
	/* As many ticks at once as there are in the record, and more. */
	access_time_add(thread, memory_bytes(store.memory) / ACCESS_TICKS * (TICKS_TOLD + 5ul));
	pass(3);
	assert_int_equal(access_time_age_s(thread, 0), 3);
	assert_int_equal(access_time_age_s(thread, ACCESS_TIME), 3);
}

static void classes(void **state)
{
	const unsigned int class = mem_class(item_bytes_for(8, VALUE_BYTES, 0));
	uint64_t key = fill(0, false), evictions = STAT(evictions);

	(void)state;
	assert_int_equal(test_threads[0].evicted[class], evictions);
	assert_int_equal(STAT(evictions_large), 0);
	/* Large ones are evicted for others of their kind. */
	pass(1);
	while (!STAT(evictions_large))
		put_of(key++, 200000, false);
	evictions = STAT(evictions) - STAT(evictions_large);
	assert_int_equal(test_threads[0].evicted[class], evictions);
}

/* Items of low priority are meant to go at once. */
static void low_ones_have_no_age(void **state)
{
	uint32_t youngest_s;

	(void)state;
	fill(0, true);
	assert_int_equal(STAT(evictions_low), STAT(evictions));
	assert_int_equal(STAT(evictions_1m), 0);
	assert_int_equal(evicted_youngest_s(&store.table), EVICTED_NONE);
	pass(EVICTED_PERIOD_S);
	assert_false(ticks(&youngest_s));
}

/* Evictions of young items are logged once, when they begin, and again when they begin again. */
static void youngest(void **state)
{
	uint32_t youngest_s;
	uint64_t key = 0;

	(void)state;
	assert_int_equal(evicted_youngest_s(&store.table), EVICTED_NONE);
	pass(EVICTED_PERIOD_S - now_s % EVICTED_PERIOD_S + 30);
	assert_false(ticks(&youngest_s));
	access_time_init(&store.table);
	key = fill(key, false);
	assert_int_equal(evicted_youngest_s(&store.table), 0);
	assert_false(ticks(&youngest_s));
	for (unsigned int i = 0; i < 3; i++) {
		pass(EVICTED_PERIOD_S);
		assert_int_equal(ticks(&youngest_s), i == 0);
		assert_int_equal(youngest_s, i < 2 ? i * 5 : EVICTED_NONE);
		if (i)
			continue;
		/* An older one changes nothing, the period apart. */
		access_time_init(&store.table);
		pass(5);
		for (uint64_t n = STAT(evictions); n == STAT(evictions);)
			put(key++);
	}
	assert_int_equal(evicted_youngest_s(&store.table), EVICTED_NONE);
	/* The clock went on for long, and nobody asked. */
	access_time_init(&store.table);
	pass(8);
	for (uint64_t n = STAT(evictions); n == STAT(evictions);)
		put(key++);
	assert_int_equal(evicted_youngest_s(&store.table), 8);
	pass(100 * EVICTED_PERIOD_S);
	assert_true(ticks(&youngest_s));
	assert_int_equal(youngest_s, 8);
	assert_int_equal(evicted_youngest_s(&store.table), EVICTED_NONE);
	pass(EVICTED_PERIOD_S);
	assert_false(ticks(&youngest_s));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(ages),	CASE(age_since_use),	    CASE(classes),
		CASE(youngest), CASE(low_ones_have_no_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
