/* SPDX-License-Identifier: MIT */
/*
 * Test of the account of pins (server/store/pins.h) where threads change it, and the keys, at the
 * same time. What one thread does with it is in test_pins.c.
 */
#include "server/store/pins.h"

#include <pthread.h>

#include <urcu-qsbr.h>

#include "server/store/access_time.h"
#include "server/store/update.h"
#include "tests/support/store_test.h"

#define REGION_BYTES (16u << 20)
#define SHARE 25u
#define TIME_MAX 3600u
#define VALUE_BYTES (1u << 20)

static uint8_t value[VALUE_BYTES];

static struct pins_stats pinned(void)
{
	struct pins_stats stats;

	access_time_advance_pins(&test_threads[0]);
	pins_stats(store.pins, &stats);
	return stats;
}

static uint64_t share_bytes(void)
{
	return memory_bytes(store.memory) / 100 * SHARE;
}

#define THREADS 2u

/* Changes keys that other threads change, too, under pressure. */
static void *change_keys(void *arg)
{
	struct store_thread *thread = arg;
	uint64_t x = 0x9e3779b97f4a7c15u * (thread->id + 1u);

	rcu_register_thread();
	for (unsigned int i = 0; i < 20000; i++) {
		uint64_t key = (x = x * 6364136223846793005u + 1442695040888963407u) >> 33;
		struct table_change change = {
			.key = &key,
			.key_len = 8,
			.value = value,
			.value_len = key % 7 ? key % 2000 : key % 150000,
			.mode = key % 5 ? WIRE_SET : WIRE_APPEND,
		};
		uint64_t hash;

		if (change.mode == WIRE_SET)
			change.wish = (struct access_wish){ .pin = key % 3, .low = key % 2 };
		key %= i % 4 ? 200 : 100000;
		hash = hash_of(&key, 8);
		if (i % 8 == 7)
			table_delete(thread, hash, &change);
		else
			table_put(thread, hash, &change);
		table_access(thread, hash, 1);
		store_thread_clock(thread);
		rcu_quiescent_state();
	}
	store_thread_idle(thread);
	rcu_unregister_thread();
	return NULL;
}

/* The account is exact also where threads change it, and the keys, at the same time. */
static void threads(void **state)
{
	pthread_t ids[THREADS];

	(void)state;
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, change_keys, &test_threads[i]), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	assert_store(NULL);
	assert_true(pinned().bytes <= share_bytes());
	for (uint64_t number = 0; number < index_buckets(&store.table); number++)
		table_sweep_bucket(&test_threads[0], number, UINT64_MAX);
	assert_int_equal(pinned().items + pinned().bytes + pinned().fields, 0);
}

static int setup(void **state)
{
	/* An index that need not grow. */
	const struct store_options options = { .fill = 65,
					       .eviction = EVICTION_OBJECT_HITS,
					       .pin_share = SHARE,
					       .pin_time_max = TIME_MAX };

	(void)state;
	test_store_create_with(&store, REGION_BYTES, 14, 2, &options);
	set_now(ENGINE_NOW_NS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_store(NULL);
	test_store_destroy(&store);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(threads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
