/* SPDX-License-Identifier: MIT */
/* The client's bucket cache (client/bcache.h): its size, storing, lookup, dropping, chains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/bcache.h"

#define ENTRIES 64
#define HOME (4096 + 5 * BUCKET_BYTES)
#define OVERFLOW (1 << 20)

static struct bcache cache;
static uint64_t found[BCACHE_MATCHES_MAX];

static int setup(void **state)
{
	(void)state;
	return bcache_init(&cache, ENTRIES * sizeof(struct bcache_entry), 1 << 20);
}

static int teardown(void **state)
{
	(void)state;
	bcache_release(&cache);
	bcache_release(&cache);
	return 0;
}

/* A bucket with @count slots of consecutive tags, at offsets above @at. */
static struct bucket bucket_of(unsigned int count, uint16_t tag, uint64_t at, uint64_t overflow)
{
	struct bucket bucket = { .overflow = (uint32_t)(overflow / BUCKET_BYTES) };

	for (unsigned int i = 0; i < count; i++)
		bucket.slots[i] = slot_make((uint16_t)(tag + i), at + i * 64, 100);
	return bucket;
}

static void assert_bytes(size_t bytes, uint64_t buckets, size_t want)
{
	struct bcache other;

	assert_int_equal(bcache_init(&other, bytes, buckets), 0);
	assert_int_equal(bcache_bytes(&other), want);
	bcache_release(&other);
	assert_int_equal(bcache_bytes(&other), 0);
}

static void sizes(void **state)
{
	(void)state;
	assert_bytes(0, 1000, 0);
	assert_bytes(127, 1000, 0);
	assert_bytes(128, 1000, 128);
	assert_bytes(1000, 1000, 512);
	assert_bytes(1 << 20, 1, 128);
	assert_bytes(1 << 20, 1000, 512 * 128);
	assert_bytes(16 << 20, 1 << 30, 16 << 20);
}

/* Turned off, it stores nothing, and every call is safe. */
static void off(void **state)
{
	struct bucket bucket = bucket_of(3, 1, 1 << 20, 0);
	struct bcache none;

	(void)state;
	assert_int_equal(bcache_init(&none, 0, 1000), 0);
	bcache_store(&none, HOME, &bucket);
	bcache_learn(&none, HOME, bucket.slots[0]);
	bcache_drop(&none, HOME, bucket.slots[0]);
	bcache_prefetch(&none, HOME);
	assert_int_equal(bcache_lookup(&none, HOME, 1, found), 0);
	bcache_release(&none);
}

static void stores_and_looks_up(void **state)
{
	struct bucket bucket = bucket_of(BUCKET_SLOTS, 10, 1 << 20, 0);

	(void)state;
	assert_int_equal(bcache_lookup(&cache, HOME, 10, found), 0);
	bcache_store(&cache, HOME, &bucket);
	for (uint16_t i = 0; i < BUCKET_SLOTS; i++) {
		assert_int_equal(bcache_lookup(&cache, HOME, (uint16_t)(10 + i), found), 1);
		assert_true(found[0] == bucket.slots[i]);
	}
	assert_int_equal(bcache_lookup(&cache, HOME, 9, found), 0);
	assert_int_equal(bcache_lookup(&cache, HOME + BUCKET_BYTES, 10, found), 0);
	/* Another bucket with the same entry replaces it. */
	bucket = bucket_of(1, 77, 1 << 21, 0);
	bcache_store(&cache, HOME + ENTRIES * BUCKET_BYTES, &bucket);
	assert_int_equal(bcache_lookup(&cache, HOME, 10, found), 0);
	assert_int_equal(bcache_lookup(&cache, HOME + ENTRIES * BUCKET_BYTES, 77, found), 1);
}

/* Tag 0 is a valid tag; an empty slot does not have it. */
static void tag_zero(void **state)
{
	struct bucket bucket = bucket_of(1, 0, 1 << 20, 0);

	(void)state;
	bcache_store(&cache, HOME, &bucket);
	assert_int_equal(bcache_lookup(&cache, HOME, 0, found), 1);
	bcache_drop(&cache, HOME, bucket.slots[0]);
	assert_int_equal(bcache_lookup(&cache, HOME, 0, found), 0);
}

static void colliding_tags_are_bounded(void **state)
{
	struct bucket bucket = bucket_of(BUCKET_SLOTS, 10, 1 << 20, 0);

	(void)state;
	for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
		bucket.slots[i] = slot_make(7, (i + 1) * 64, 100);
	bcache_store(&cache, HOME, &bucket);
	assert_int_equal(bcache_lookup(&cache, HOME, 7, found), BCACHE_MATCHES_MAX);
	assert_true(found[0] == bucket.slots[0] && found[3] == bucket.slots[3]);
}

static void chains_are_followed(void **state)
{
	struct bucket home = bucket_of(BUCKET_SLOTS, 10, 1 << 20, OVERFLOW);
	struct bucket next = bucket_of(3, 100, 2 << 20, 0);

	(void)state;
	bcache_store(&cache, HOME, &home);
	assert_int_equal(bcache_lookup(&cache, HOME, 101, found), 0);
	bcache_store(&cache, OVERFLOW, &next);
	assert_int_equal(bcache_lookup(&cache, HOME, 101, found), 1);
	assert_true(found[0] == next.slots[1]);
	bcache_drop(&cache, HOME, next.slots[1]);
	assert_int_equal(bcache_lookup(&cache, HOME, 101, found), 0);
	assert_int_equal(bcache_lookup(&cache, HOME, 102, found), 1);
	/* Only up to the first bucket with the tag. */
	next.slots[0] = slot_make(12, 3 << 20, 100);
	bcache_store(&cache, OVERFLOW, &next);
	assert_int_equal(bcache_lookup(&cache, HOME, 12, found), 1);
	assert_true(found[0] == home.slots[2]);
	/* Stale entries may form a cycle: the lookup ends nevertheless. */
	next.overflow = HOME / BUCKET_BYTES;
	bcache_store(&cache, OVERFLOW, &next);
	assert_int_equal(bcache_lookup(&cache, HOME, 9999, found), 0);
	next.overflow = OVERFLOW / BUCKET_BYTES;
	bcache_store(&cache, OVERFLOW, &next);
	assert_int_equal(bcache_lookup(&cache, HOME, 9999, found), 0);
	bcache_drop(&cache, HOME, slot_make(9999, 64, 64));
}

static void learns(void **state)
{
	uint64_t slot = slot_make(5, 4096, 100), moved = slot_make(5, 8192, 300);
	struct bucket full = bucket_of(BUCKET_SLOTS, 10, 1 << 20, 0);

	(void)state;
	/* A slot of a bucket that is not cached. */
	bcache_learn(&cache, HOME, slot);
	assert_int_equal(bcache_lookup(&cache, HOME, 5, found), 1);
	assert_true(found[0] == slot);
	/* It replaces the slot with its tag. */
	bcache_learn(&cache, HOME, moved);
	assert_int_equal(bcache_lookup(&cache, HOME, 5, found), 1);
	assert_true(found[0] == moved);
	/* Slots with other tags stay. */
	bcache_learn(&cache, HOME, slot_make(6, 64, 64));
	assert_int_equal(bcache_lookup(&cache, HOME, 5, found), 1);
	assert_int_equal(bcache_lookup(&cache, HOME, 6, found), 1);
	/* In a full bucket it is not stored, and no other slot is dropped. */
	bcache_store(&cache, HOME, &full);
	bcache_learn(&cache, HOME, slot);
	assert_int_equal(bcache_lookup(&cache, HOME, 5, found), 0);
	for (uint16_t i = 0; i < BUCKET_SLOTS; i++)
		assert_int_equal(bcache_lookup(&cache, HOME, (uint16_t)(10 + i), found), 1);
	/* The bucket's entry is used by another bucket: that one is dropped. */
	bcache_learn(&cache, HOME + ENTRIES * BUCKET_BYTES, slot);
	assert_int_equal(bcache_lookup(&cache, HOME, 10, found), 0);
	assert_int_equal(bcache_lookup(&cache, HOME + ENTRIES * BUCKET_BYTES, 5, found), 1);
}

static void drops_only_what_is_equal(void **state)
{
	uint64_t slot = slot_make(5, 4096, 100);

	(void)state;
	bcache_learn(&cache, HOME, slot);
	bcache_drop(&cache, HOME, slot_make(5, 8192, 100));
	bcache_drop(&cache, HOME + BUCKET_BYTES, slot);
	assert_int_equal(bcache_lookup(&cache, HOME, 5, found), 1);
	bcache_drop(&cache, HOME, slot);
	assert_int_equal(bcache_lookup(&cache, HOME, 5, found), 0);
	bcache_prefetch(&cache, HOME);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(off),
		CASE(stores_and_looks_up),
		CASE(tag_zero),
		CASE(colliding_tags_are_bounded),
		CASE(chains_are_followed),
		CASE(learns),
		CASE(drops_only_what_is_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
