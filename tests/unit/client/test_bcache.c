/* SPDX-License-Identifier: MIT */
/*
 * The client's bucket cache (client/libkvd/bcache.h): its size, storing, lookup, dropping, full
 * lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/random.h"
#include "client/libkvd/bcache.h"

#define LINES 64
#define LEVEL 20

static struct bcache cache;

static int setup(void **state)
{
	(void)state;
	if (bcache_init(&cache, LINES * sizeof(struct bcache_line)))
		return -1;
	bcache_level(&cache, LEVEL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	bcache_release(&cache);
	bcache_release(&cache);
	return 0;
}

/* A hash of bucket @number, at any level up to 48, with this tag. */
static uint64_t hash_of(uint64_t number, uint16_t tag)
{
	return (uint64_t)tag << 48 | number;
}

static uint64_t lookup(uint64_t number, uint16_t tag)
{
	return bcache_lookup(&cache, hash_of(number, tag));
}

static void assert_cached(uint64_t number, uint64_t slot)
{
	assert_true(lookup(number, slot_tag(slot)) == slot);
}

static void assert_not_cached(uint64_t number, uint64_t slot)
{
	assert_int_equal(lookup(number, slot_tag(slot)), 0);
}

/* A bucket with @count slots whose tags rise by @step from @tag on, at offsets above @at. */
static struct bucket bucket_of(unsigned int count, unsigned int tag, unsigned int step, uint64_t at)
{
	struct bucket bucket = { 0 };

	for (unsigned int i = 0; i < count; i++)
		bucket.slots[i] = slot_make((uint16_t)(tag + i * step), at + i * 64, 100);
	return bucket;
}

static void assert_bytes(size_t bytes, size_t want)
{
	struct bcache other;

	assert_int_equal(bcache_init(&other, bytes), 0);
	assert_int_equal(bcache_bytes(&other), want);
	bcache_release(&other);
	assert_int_equal(bcache_bytes(&other), 0);
}

static void sizes(void **state)
{
	(void)state;
	assert_bytes(0, 0);
	assert_bytes(63, 0);
	assert_bytes(64, 64);
	assert_bytes(1000, 512);
	assert_bytes(16 << 20, 16 << 20);
}

/* Turned off, it stores nothing, and every call is safe. */
static void off(void **state)
{
	struct bucket bucket = bucket_of(3, 1, 1, 1 << 20);
	struct bcache none;

	(void)state;
	assert_int_equal(bcache_init(&none, 0), 0);
	bcache_level(&none, LEVEL);
	bcache_store(&none, 5, &bucket, 1);
	bcache_learn(&none, hash_of(5, 1), bucket.slots[0]);
	bcache_drop(&none, hash_of(5, 1), bucket.slots[0]);
	bcache_prefetch(&none, hash_of(5, 1));
	assert_int_equal(bcache_lookup(&none, hash_of(5, 1)), 0);
	bcache_release(&none);
}

static void stores_and_looks_up(void **state)
{
	struct bucket bucket = bucket_of(BUCKET_SLOTS, 10, 1, 1 << 20);
	unsigned int i;

	(void)state;
	assert_int_equal(lookup(5, 10), 0);
	bcache_store(&cache, 5, &bucket, 10);
	for (i = 0; i < BUCKET_SLOTS; i++)
		assert_cached(5, bucket.slots[i]);
	assert_int_equal(lookup(5, 9), 0);
	/* Other keys' lines: by the bucket's number, and by the tag. */
	assert_int_equal(lookup(6, 10), 0);
	bcache_prefetch(&cache, hash_of(5, 10));
}

/* An overflow bucket's slots are beside those of its home bucket. */
static void slots_of_a_chain_are_together(void **state)
{
	struct bucket home = bucket_of(BUCKET_SLOTS, 10, 1, 1 << 20);
	struct bucket next = bucket_of(BUCKET_SLOTS, 100, 1, 2 << 20);
	unsigned int i;

	(void)state;
	bcache_store(&cache, 5, &home, 10);
	bcache_store(&cache, 5, &next, 101);
	for (i = 0; i < BUCKET_SLOTS; i++) {
		assert_cached(5, home.slots[i]);
		assert_cached(5, next.slots[i]);
	}
}

/* Tag 0 is a valid tag; an empty slot does not have it. */
static void tag_zero(void **state)
{
	struct bucket bucket = bucket_of(1, 0, 1, 1 << 20);

	(void)state;
	assert_int_equal(lookup(5, 0), 0);
	bcache_store(&cache, 5, &bucket, 0);
	assert_cached(5, bucket.slots[0]);
	bcache_drop(&cache, hash_of(5, 0), bucket.slots[0]);
	assert_int_equal(lookup(5, 0), 0);
}

/* Two keys of one line and tag take turns: the newest is the one that is cached. */
static void a_tag_is_cached_once(void **state)
{
	struct bucket bucket = bucket_of(BUCKET_SLOTS, 7, 0, 1 << 20);

	(void)state;
	bcache_store(&cache, 5, &bucket, 7);
	assert_cached(5, bucket.slots[BUCKET_SLOTS - 1]);
	/* Also if a slot before it is empty. */
	bcache_learn(&cache, hash_of(5, 15), slot_make(15, 64, 64));
	bcache_drop(&cache, hash_of(5, 7), bucket.slots[BUCKET_SLOTS - 1]);
	bcache_learn(&cache, hash_of(5, 15), slot_make(15, 128, 64));
	assert_cached(5, slot_make(15, 128, 64));
}

static void learns(void **state)
{
	uint64_t slot = slot_make(5, 4096, 100), moved = slot_make(5, 8192, 300);

	(void)state;
	bcache_learn(&cache, hash_of(5, 5), slot);
	assert_cached(5, slot);
	/* The new slot replaces the one with its tag. */
	bcache_learn(&cache, hash_of(5, 5), moved);
	assert_cached(5, moved);
	/* Slots with other tags stay. */
	bcache_learn(&cache, hash_of(5, 13), slot_make(13, 64, 64));
	assert_cached(5, moved);
	assert_cached(5, slot_make(13, 64, 64));
}

/* A line has LINE_SLOTS. What was looked for gets in, its neighbours only where there is room. */
static void a_full_line(void **state)
{
	const unsigned int step = 1 << BCACHE_TAG_BITS; /* tags of one line */
	struct bucket bucket = bucket_of(LINE_SLOTS, 1, step, 1 << 20);
	struct bucket more = bucket_of(2, 1 + LINE_SLOTS * step, step, 2 << 20);
	unsigned int i, left = 0;

	(void)state;
	bcache_store(&cache, 5, &bucket, 1);
	for (i = 0; i < LINE_SLOTS; i++)
		assert_cached(5, bucket.slots[i]);
	bcache_store(&cache, 5, &more, slot_tag(more.slots[1]));
	assert_not_cached(5, more.slots[0]);
	assert_cached(5, more.slots[1]);
	bcache_learn(&cache, hash_of(5, slot_tag(more.slots[0])), more.slots[0]);
	assert_cached(5, more.slots[0]);
	/* The next one replaces another one, not that. */
	assert_cached(5, more.slots[1]);
	for (i = 0; i < LINE_SLOTS; i++)
		left += lookup(5, slot_tag(bucket.slots[i])) != 0;
	assert_int_equal(left, LINE_SLOTS - 2);
}

static void drops_only_what_is_equal(void **state)
{
	uint64_t slot = slot_make(5, 4096, 100);

	(void)state;
	bcache_learn(&cache, hash_of(5, 5), slot);
	bcache_drop(&cache, hash_of(5, 5), slot_make(5, 8192, 100));
	bcache_drop(&cache, hash_of(6, 5), slot);
	assert_cached(5, slot);
	bcache_drop(&cache, hash_of(5, 5), slot);
	assert_not_cached(5, slot);
}

/*
 * In a cache that is smaller than the index a key stays where it is when its bucket is split. One
 * that is larger uses more of itself as the index grows; what is stored then is found there.
 */
static void levels(void **state)
{
	uint64_t slot = slot_make(5, 4096, 100);
	struct random random;
	unsigned int level, i;

	(void)state;
	bcache_learn(&cache, hash_of(0x12345, 5), slot);
	for (level = LEVEL; level < 40; level++) {
		bcache_level(&cache, level);
		assert_cached(0x12345, slot);
	}
	random_init(&random, 1);
	for (level = 0; level < 8; level++) {
		bcache_level(&cache, level);
		for (i = 0; i < 1000; i++) {
			uint64_t number = random_next(&random);
			uint64_t last = slot_make((uint16_t)(number >> 48), 4096 + i * 64, 100);

			bcache_learn(&cache, number, last);
			assert_true(bcache_lookup(&cache, number) == last);
			/* The bucket's number alone finds it, too. */
			assert_cached(number & ((1u << level) - 1), last);
		}
	}
}

/* A cache of fewer lines than tags of one bucket are spread over: all are its own, and used. */
static void few_lines(void **state)
{
	(void)state;
	for (unsigned int lines = 1; lines <= 2 << BCACHE_TAG_BITS; lines *= 2) {
		bool used[2 << BCACHE_TAG_BITS] = { false };
		struct bcache few;

		assert_int_equal(bcache_init(&few, lines * sizeof(struct bcache_line)), 0);
		bcache_level(&few, LEVEL);
		for (unsigned int i = 0; i < 4 * lines * BUCKET_SLOTS; i++) {
			const uint64_t hash = hash_of(i / lines, (uint16_t)(i % lines + 8 * i));
			struct bcache_line *line = bcache_line(&few, hash, hash_tag(hash));

			assert_in_range(line - few.lines, 0, lines - 1);
			used[line - few.lines] = true;
			bcache_learn(&few, hash, slot_make(hash_tag(hash), 4096, 100));
			assert_int_not_equal(bcache_lookup(&few, hash), 0);
		}
		for (unsigned int i = 0; i < lines; i++)
			assert_true(used[i]);
		bcache_release(&few);
	}
}

/* The lines of an index that is small for the cache lie together. */
static void a_small_index_uses_little(void **state)
{
	struct random random;
	unsigned int i, used = 0;

	(void)state;
	bcache_level(&cache, 1);
	random_init(&random, 1);
	for (i = 0; i < 1000; i++) {
		uint64_t hash = random_next(&random);

		bcache_learn(&cache, hash, slot_make(hash_tag(hash), 4096, 100));
	}
	for (i = 0; i < LINES; i++)
		used += cache.lines[i].slots[0] != 0;
	assert_int_equal(used, 2 << BCACHE_TAG_BITS);
	assert_true(cache.lines[used - 1].slots[0] != 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(off),
		CASE(stores_and_looks_up),
		CASE(slots_of_a_chain_are_together),
		CASE(tag_zero),
		CASE(a_tag_is_cached_once),
		CASE(learns),
		CASE(a_full_line),
		CASE(drops_only_what_is_equal),
		CASE(levels),
		CASE(a_small_index_uses_little),
		cmocka_unit_test(few_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
