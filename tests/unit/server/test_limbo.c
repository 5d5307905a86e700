/* SPDX-License-Identifier: MIT */
/*
 * Tests of the limbo: nothing in it is freed or changed before a grace period has ended, and all of
 * it after that; one grace period for many. The limbo is compiled here with a function in place of
 * the grace period, which looks at what is in limbo when it ends.
 */
#include <urcu-qsbr.h>

#include "tests/support/store_test.h"

static void grace_period(void);

#undef synchronize_rcu
#define synchronize_rcu grace_period
#include "server/store/limbo.c"
#undef synchronize_rcu

#define REGION_BYTES (64u << 20)

static struct limbo *limbo;
static struct mem_cache *cache;
static unsigned int grace_periods;
static uint64_t freed; /* bytes, by the test's account */

/* What is in limbo; its bytes from @from on may not change. */
static struct {
	uint8_t *p;
	size_t from, bytes, class_bytes;
} blocks[LIMBO_MAX];
static unsigned int block_count;

static uint8_t pattern(unsigned int block, size_t i)
{
	return (uint8_t)(i * 7 + block + 1);
}

static void grace_period(void)
{
	grace_periods++;
	assert_int_equal(limbo->count, block_count);
	assert_int_equal(stat_read(&cache->freed_bytes), freed);
	for (unsigned int i = 0; i < block_count; i++)
		for (size_t at = blocks[i].from; at < blocks[i].bytes; at++)
			if (blocks[i].p[at] != pattern(i, at))
				fail_msg("byte %zu of block %u was changed", at, i);
}

static int setup(void **state)
{
	(void)state;
	test_store_create(&store, REGION_BYTES, 6, 1);
	limbo = &test_threads[0].limbo;
	cache = &test_threads[0].cache;
	grace_periods = block_count = 0;
	freed = 0;
	return 0;
}

/* All is freed after one more grace period, or was already. */
static void assert_freed(unsigned int periods)
{
	for (unsigned int i = 0; i < block_count; i++) {
		freed += blocks[i].class_bytes;
		/* MEMORY-1 of server/store/memory.h; readers then see an invalid item or bucket. */
		assert_memory_equal(blocks[i].p, &(uint64_t){ 0 }, sizeof(uint64_t));
	}
	block_count = 0;
	assert_int_equal(grace_periods, periods);
	assert_int_equal(limbo->count, 0);
	assert_int_equal(limbo->bytes, 0);
	assert_int_equal(stat_read(&cache->freed_bytes), freed);
}

static int teardown(void **state)
{
	(void)state;
	limbo_empty(limbo, cache);
	assert_freed(grace_periods);
	assert_store(NULL);
	test_store_destroy(&store);
	return 0;
}

/* @bytes: of an item, which is invalid by now; 0: an overflow bucket, which verifies still. */
static void add(size_t bytes)
{
	uint8_t *p = bytes ? mem_alloc(cache, bytes) : mem_alloc_bucket(cache, 0);
	size_t size = bytes ? bytes : BUCKET_BYTES, from = bytes ? sizeof(uint64_t) : 0;

	assert_non_null(p);
	for (size_t i = from; i < size; i++)
		p[i] = pattern(block_count, i);
	blocks[block_count].p = p;
	blocks[block_count].from = from;
	blocks[block_count].bytes = size;
	blocks[block_count++].class_bytes = bytes ? mem_class_bytes(bytes) : BUCKET_BYTES;
	limbo_add(limbo, cache, p, bytes);
}

static void nothing_waits(void **state)
{
	(void)state;
	limbo_empty(limbo, cache);
	assert_freed(0);
}

static void items_and_buckets_wait(void **state)
{
	(void)state;
	add(0);
	add(LIMBO_ITEM_BYTES / 4);
	add(0);
	add(LIMBO_ITEM_BYTES / 4);
	assert_int_equal(limbo->count, 4);
	assert_int_equal(limbo->bytes, LIMBO_ITEM_BYTES / 2);
	assert_int_equal(grace_periods, 0);
	assert_int_equal(stat_read(&cache->freed_bytes), 0);
	limbo_empty(limbo, cache);
	assert_freed(1);
	/* Once is enough. */
	limbo_empty(limbo, cache);
	assert_freed(1);
}

/* The last entry that fits empties it. */
static void entries_have_a_limit(void **state)
{
	(void)state;
	for (unsigned int round = 1; round <= 3; round++) {
		for (unsigned int i = 0; i < LIMBO_MAX; i++) {
			assert_int_equal(grace_periods, round - 1);
			assert_int_equal(limbo->count, i);
			add(0);
		}
		assert_freed(round);
	}
}

/* As many bytes as it may have stay, one more empties it. */
static void bytes_have_a_limit(void **state)
{
	size_t limit = memory_bytes(cache->memory) / LIMBO_SHARE;

	(void)state;
	add(limit - 1000);
	add(1000);
	assert_int_equal(grace_periods, 0);
	assert_int_equal(limbo->bytes, limit);
	add(0);
	assert_int_equal(grace_periods, 0);
	add(100);
	assert_freed(1);
	add(limit + 1);
	assert_freed(2);
}

/*
 * HOLD-2: a value that is held stays as it is, in memory of its own, and its item is freed a grace
 * period later. Another one, which nobody holds, is not copied.
 */
static void what_is_held_is_copied(void **state)
{
	struct holds *holds = limbo->holds;
	struct hold held = { 0 }, other = { 0 };
	const uint8_t *bytes;

	(void)state;
	add(LIMBO_ITEM_BYTES / 8);
	add(LIMBO_ITEM_BYTES / 8);
	hold_begin(holds, &held, blocks[1].p + 100, 1000);
	hold_begin(holds, &other, &grace_periods, sizeof(grace_periods));
	limbo_empty(limbo, cache);
	assert_freed(2);
	bytes = hold_bytes(&held);
	assert_ptr_not_equal(bytes, blocks[1].p + 100);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(bytes[i], pattern(1, i + 100));
	assert_ptr_equal(hold_bytes(&other), &grace_periods);
	/* No item holds the bytes any more: one grace period is enough. */
	add(LIMBO_ITEM_BYTES / 8);
	limbo_empty(limbo, cache);
	assert_freed(3);
	hold_end(holds, &held);
	hold_end(holds, &other);
	assert_int_equal(atomic_load(&holds->count), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(nothing_waits),	  CASE(items_and_buckets_wait), CASE(entries_have_a_limit),
		CASE(bytes_have_a_limit), CASE(what_is_held_is_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
