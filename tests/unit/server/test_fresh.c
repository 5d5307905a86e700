/* SPDX-License-Identifier: MIT */
/*
 * Tests of EVICT-1 in server/store/evict.h, for one thread. Each store is filled with items of one
 * size, then items of another size are stored, a little less than a quarter in bytes, and all of
 * these have to be there. With threads: test_fresh_threads.c.
 */
#include "server/store/evict.h"

#include "server/store/access_time.h"
#include "server/store/chain.h"
#include "tests/support/fresh_test.h"

static void pair(enum eviction_policy policy, uint32_t before, uint32_t len)
{
	create(policy, 1);
	fill(before);
	assert_none_lost(KEYS_OF(1), put_all(KEYS_OF(1), quarter(), len), before, len);
	assert_store(NULL);
	test_store_destroy(&store);
}

static void pairs(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < LENGTHS; i += STEP)
		for (unsigned int j = 0; j < LENGTHS; j += STEP)
			if (i != j)
				pair(EVICTION_OBJECT_HITS, lengths[i], lengths[j]);
	pair(EVICTION_BYTE_HITS, 200, 1u << 20);
	pair(EVICTION_BYTE_HITS, 1u << 20, 200);
}

/* Half of the quarter has one size, half of it another. */
static void three_sizes(void **state)
{
	static const uint32_t of[][3] = { { 200, 1u << 20, 40000 },
					  { 1u << 20, 200, 300000 },
					  { 40000, 1000, 2u << 20 },
					  { 1000, 2u << 20, 8 } };

	(void)state;
	for (unsigned int i = 0; i < sizeof(of) / sizeof(*of); i++) {
		uint64_t n[2];

		create(EVICTION_OBJECT_HITS, 1);
		fill(of[i][0]);
		for (unsigned int j = 0; j < 2; j++)
			n[j] = put_all(KEYS_OF(1 + j), quarter() / 2, of[i][1 + j]);
		for (unsigned int j = 0; j < 2; j++)
			assert_none_lost(KEYS_OF(1 + j), n[j], of[i][0], of[i][1 + j]);
		assert_store(NULL);
		test_store_destroy(&store);
	}
}

/* The index grows into memory of what was just stored: something older makes way. */
static void the_index_grows(void **state)
{
	const struct store_options options = { .fill = 67,
					       .eviction = EVICTION_OBJECT_HITS,
					       .sweep_share = 5 };
	const uint32_t len = 200;
	uint64_t n;

	(void)state;
	test_store_create_with(&store, region_bytes(), 6, 1, &options);
	set_now(ENGINE_NOW_NS);
	assert_int_equal(store_start(&store, NULL), 0);
	fill(1u << 20);
	n = quarter() / bytes_of(len);
	for (uint64_t i = 0; i < n; i++) {
		put_with(&test_threads[0], KEYS_OF(1) + i, len, 0);
		/* Chains that get too long meanwhile are another matter. */
		while (atomic_load(&store.table.room_wanted)) {
			rcu_quiescent_state();
			sched_yield();
		}
	}
	/* store_stop() waits for a grace period. */
	rcu_thread_offline();
	store_stop(&store);
	rcu_thread_online();
	assert_none_lost(KEYS_OF(1), n, 1u << 20, len);
	assert_true(index_buckets(&store.table) > 1000);
	test_store_destroy(&store);
}

/* What is pinned counts as nothing older: it stays, and so does what is stored. */
static void beside_pins(void **state)
{
	uint64_t pinned = 0, n;

	(void)state;
	create(EVICTION_OBJECT_HITS, 1);
	fill(1000);
	for (; pinned < memory_bytes(store.memory) / 4 / bytes_of(300000); pinned++)
		put_with(&test_threads[0], KEYS_OF(1) + pinned, 300000, 600);
	/* These items are young, too, until as much was added. */
	put_all(KEYS_OF(2), memory_bytes(store.memory) / 2, 1000);
	n = put_all(KEYS_OF(3), quarter(), 1u << 20);
	assert_none_lost(KEYS_OF(1), pinned, 1000, 300000);
	assert_none_lost(KEYS_OF(3), n, 1000, 1u << 20);
	assert_store(NULL);
	test_store_destroy(&store);
}

/* Uses what is there but for the keys of one pass, and returns how many others there are. */
static uint64_t use_all_but(unsigned int pass)
{
	uint64_t n = 0, key;

	for (uint64_t number = 0; number < index_buckets(&store.table); number++) {
		struct bucket *bucket, *home = index_lock_number(&store.table, number);

		chain_for_each(&store.table, bucket, home)
			for (unsigned int i = 0; i < BUCKET_SLOTS; i++) {
				struct item *item = slot_item(&store.table, bucket->slots[i]);

				if (!bucket->slots[i])
					continue;
				memcpy(&key, item_key(item), sizeof(key));
				if (key >> 32 == pass)
					continue;
				do_access_time_use(&test_threads[0], item, 1);
				n++;
			}
		bucket_unlock(home);
	}
	return n;
}

/*
 * Of a store in which all else was just used @percent are old, of another length than what is
 * stored, and go for it.
 */
static void few_are_old(uint32_t young, uint32_t old, uint32_t len, unsigned int percent)
{
	uint64_t n, used, others;

	create(EVICTION_OBJECT_HITS, 1);
	fill(young);
	n = put_all(KEYS_OF(1), memory_bytes(store.memory) / 100 * percent, old);
	for (uint64_t i = 0, evictions = STAT(evictions); STAT(evictions) == evictions; i++)
		put_with(&test_threads[0], KEYS_OF(3) + i, young, 0);
	atomic_fetch_add(&store.table.tick, ACCESS_TICKS);
	others = use_all_but(1);
	used = memory_bytes(store.memory) / 100 * percent / 3 / bytes_of(len);
	for (uint64_t i = 0; i < used; i++)
		put_with(&test_threads[0], KEYS_OF(2) + i, len, 0);
	assert_none_lost(KEYS_OF(2), used, young, len);
	if (!lost(KEYS_OF(1), n))
		fail_msg("%u percent of %u among %u: none went for %u", percent, old, young, len);
	if (use_all_but(1) != others + used)
		fail_msg("%u percent of %u among %u: %llu others went for %u", percent, old, young,
			 (unsigned long long)(others + used - use_all_but(1)), len);
	assert_store(NULL);
	test_store_destroy(&store);
}

static void what_is_old_is_searched_for(void **state)
{
	(void)state;
	few_are_old(200, 40000, 1000, 3);
	few_are_old(40000, 200, 1000, 3);
	few_are_old(200, 1u << 20, 40000, 10);
	few_are_old(200, 1u << 20, 1500000, 30);
	few_are_old(40000, 1u << 20, 300000, 30);
}

/* Where all is young the oldest goes, and a PUT does not fail. */
static void all_young(void **state)
{
	uint64_t n, gone;

	(void)state;
	create(EVICTION_OBJECT_HITS, 1);
	fill(1000);
	use_all_but(9);
	n = put_all(KEYS_OF(1), memory_bytes(store.memory) / 8, 1000);
	atomic_fetch_add(&store.table.tick, ACCESS_TICKS / 16);
	use_all_but(1);
	gone = lost(KEYS_OF(1), n);
	put_all(KEYS_OF(2), memory_bytes(store.memory) / 16, 1000);
	gone = lost(KEYS_OF(1), n) - gone;
	/* Most that go for those are of the older ones: half of them. */
	assert_in_range(gone, n / 3, n / 2 + 1);
	for (unsigned int i = 0; i < 4; i++) {
		use_all_but(9);
		put_with(&test_threads[0], KEYS_OF(3) + i, lengths[6 - i], 0);
		assert_int_equal(lost(KEYS_OF(3) + i, 1), 0);
	}
	assert_store(NULL);
	test_store_destroy(&store);
}

/* Short values that nobody reads do not stay beside long ones for ever. */
static void short_ones_go_stale(void **state)
{
	uint64_t n, gone;

	(void)state;
	create(EVICTION_OBJECT_HITS, 1);
	n = put_all(KEYS_OF(1), memory_bytes(store.memory) / 10 * 6, 8);
	put_all(KEYS_OF(2), memory_bytes(store.memory) * 7, 1u << 20);
	gone = lost(KEYS_OF(1), n);
	print_message("%llu of %llu went\n", (unsigned long long)gone, (unsigned long long)n);
	assert_true(gone > n / 100 * 80);
	assert_store(NULL);
	test_store_destroy(&store);
}

/* An item does not age by its own length. */
static void as_long_as_a_part(void **state)
{
	uint32_t then;

	(void)state;
	create(EVICTION_OBJECT_HITS, 1);
	fill(1000);
	then = access_time_now(&store.table);
	put_with(&test_threads[0], KEYS_OF(1), (uint32_t)memory_bytes(store.memory) / 3, 0);
	assert_in_range(access_time_now(&store.table) - then, ACCESS_TICKS / 3 - 1,
			ACCESS_TICKS / 3 + 1);
	put_all(KEYS_OF(2), quarter() / 2, 1000);
	assert_int_equal(lost(KEYS_OF(1), 1), 0);
	assert_store(NULL);
	test_store_destroy(&store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs),
		cmocka_unit_test(three_sizes),
		cmocka_unit_test(the_index_grows),
		cmocka_unit_test(beside_pins),
		cmocka_unit_test(all_young),
		cmocka_unit_test(what_is_old_is_searched_for),
		cmocka_unit_test(short_ones_go_stale),
		cmocka_unit_test(as_long_as_a_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
