/* SPDX-License-Identifier: MIT */
/*
 * Tests of common/layout.h: slots at all their limits, and the offsets of buckets, also in indexes
 * that grew by splitting.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/sum.h"
#include "common/wire.h"

static void assert_slot(uint16_t tag, uint64_t offset, uint64_t bytes)
{
	uint64_t slot = slot_make(tag, offset, bytes);
	uint64_t units = (bytes + SLOT_UNIT - 1) / SLOT_UNIT;

	assert_true(slot != 0);
	assert_int_equal(slot_tag(slot), tag);
	assert_true(slot_offset(slot) == offset);
	assert_int_equal(slot_is_long(slot), units >= SLOT_UNITS_MAX);
	if (slot_is_long(slot))
		assert_int_equal(slot_bytes(slot), SLOT_UNITS_MAX * SLOT_UNIT);
	else
		assert_true(slot_bytes(slot) == units * SLOT_UNIT && slot_bytes(slot) >= bytes);
}

static void slots_keep_what_they_are_given(void **state)
{
	const uint64_t offsets[] = { 16,
				     4096,
				     1ull << 20,
				     (1ull << 32) - 16,
				     1ull << 32,
				     REGION_BYTES_MAX - 16,
				     (1ull << 39) - 8 };
	const uint16_t tags[] = { 0, 1, 0x7fff, 0x8000, 0xffff };
	const uint64_t bytes[] = { 33,	   63,	   64,	   65,	   128,	    262015,
				   262016, 262017, 262080, 262081, 1 << 20, ITEM_BYTES_MAX };
	unsigned int t, o, b;

	(void)state;
	for (t = 0; t < 5; t++)
		for (o = 0; o < 7; o++)
			for (b = 0; b < 12; b++)
				assert_slot(tags[t], offsets[o], bytes[b]);
	/* The longest length that a slot can hold, and the first that it can't. */
	assert_false(slot_is_long(slot_make(0, 16, 4094 * 64)));
	assert_true(slot_is_long(slot_make(0, 16, 4094 * 64 + 1)));
	for (b = 1; b <= 262100; b++)
		assert_slot((uint16_t)b, (uint64_t)b * ITEM_ALIGN, b);
}

static void fields_do_not_touch(void **state)
{
	(void)state;
	assert_true((slot_make(0xffff, 0, 0) ^ slot_make(0, 0x7fffffff8, 0) ^
		     slot_make(0, 0, 1ull << 30)) == slot_make(0xffff, 0x7fffffff8, 1ull << 30));
	assert_true(slot_make(0xffff, (1ull << 39) - 8, 1ull << 30) == ~0ull);
}

struct lengths {
	uint32_t key_len, value_len, flags;
	size_t front;
	uint32_t pieces; /* that have sums */
};

/* What is planned is what the item says, whatever was there before. */
static void assert_item(const struct lengths *lengths)
{
	union item_front front;
	const struct item *item = &front.item;
	const uint8_t *first = (const uint8_t *)item; /* of an item that is longer than the front */
	uint32_t key_len = lengths->key_len, value_len = lengths->value_len;
	uint64_t value_end = lengths->front + key_len + value_len;
	uint64_t bytes = value_end + 8ull * lengths->pieces;

	for (unsigned int fill = 0; fill < 256; fill += 255) {
		memset(&front, (int)fill, sizeof(front));
		item_set_lengths(&front.item, key_len, value_len, lengths->flags);
		assert_int_equal(item_key_len(item), key_len);
		assert_int_equal(item_value_len(item), value_len);
		assert_int_equal(item_flags(item), lengths->flags);
		assert_int_equal(item_front_bytes(item), lengths->front);
		assert_true(item_is_long(item) == item_has_value_sum(key_len, value_len));
		assert_int_equal(item_bytes(item), bytes);
		assert_ptr_equal(item_key(item), first + lengths->front);
		assert_ptr_equal(item_value(item), first + lengths->front + key_len);
		assert_ptr_equal(item_piece_sums(item), lengths->pieces ? first + value_end : NULL);
	}
	assert_int_equal(item_key_at(key_len, value_len, lengths->flags), lengths->front);
	assert_int_equal(item_bytes_for(key_len, value_len, lengths->flags), bytes);
}

static void lengths(void **state)
{
	static const struct lengths items[] = {
		{ 1, 0, 0, 24, 0 },
		{ 1, 0, 1, 28, 0 },
		{ 100, 0, 0, 24, 0 },
		{ 100, 0, ~0u, 28, 0 },
		{ 1, 99, 1u << 31, 28, 0 },
		{ 16, 84, 0, 24, 0 },
		{ 16, 85, 0, 40, 0 },
		{ 16, 85, ~0u, 40, 0 },
		{ 101, 0, 0, 40, 0 },
		{ KEY_MAX, 0, 0, 40, 0 },
		{ 1, PIECE_BYTES - 1, 0, 40, 0 },
		{ KEY_MAX, PIECE_BYTES, 0, 40, 0 },
		{ 1, PIECE_BYTES + 1, 0, 40, 2 },
		{ 8, 2 * PIECE_BYTES, ~0u, 40, 2 },
		{ 8, 2 * PIECE_BYTES + 1, 0, 40, 3 },
		{ KEY_MAX, VALUE_MAX, ~0u, 40, VALUE_MAX / PIECE_BYTES },
		{ 1, VALUE_MAX, 0, 40, VALUE_MAX / PIECE_BYTES },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(items) / sizeof(items[0]); i++)
		assert_item(&items[i]);
	assert_true(item_bytes_for(KEY_MAX, VALUE_MAX, 0) == ITEM_BYTES_MAX);
	assert_int_equal(hash_tag(0x1234ffffffffffff), 0x1234);
}

/* The longest value that fits: its item does, with any key, and that of a longer one does not. */
static void longest_value(void **state)
{
	const uint64_t beside = sizeof(union item_front) + KEY_MAX, piece = PIECE_BYTES;
	uint64_t bytes, fits;

	(void)state;
	for (bytes = 0; bytes <= beside; bytes++)
		assert_int_equal(value_len_max(bytes), 0);
	for (bytes = beside + 1; bytes<beside + 5 * piece; bytes += bytes % piece> 2000 &&
						 bytes % piece < piece - 2000 ?
					 1009 :
					 1) {
		fits = value_len_max(bytes);
		assert_true(item_bytes_for(KEY_MAX, fits, 0) <= bytes);
		assert_true(item_bytes_for(KEY_MAX, fits + 1, 0) > bytes);
	}
	assert_true(value_len_max(ITEM_BYTES_MAX) == VALUE_MAX);
}

/* Segment k > 0 holds as many buckets as all before it. Segments are apart, in descending order. */
static void geometry_make(struct geometry *g, uint32_t base, uint32_t level, uint64_t split)
{
	uint64_t at = 1ull << 20;

	memset(g, 0, sizeof(*g));
	g->level_base = base;
	g->level = level;
	g->split = split;
	for (int k = (int)(level - base) + 1; k >= 0; k--) {
		g->segments[k] = at;
		at += (BUCKET_BYTES << (k ? base + (unsigned int)k - 1 : base)) + 4096;
	}
}

#define MOST 4096

/* Every bucket has its own offset, inside its segment. */
static void assert_apart(const struct geometry *g)
{
	static uint64_t seen[MOST];
	uint64_t i, j, n = geometry_buckets(g);

	assert_true(n <= MOST);
	for (i = 0; i < n; i++) {
		seen[i] = geometry_bucket_offset(g, i);
		assert_true(seen[i] >= 1 << 20 && seen[i] % BUCKET_BYTES == 0);
		for (j = 0; j < i; j++)
			assert_true(seen[i] != seen[j]);
	}
}

static void buckets_have_places_of_their_own(void **state)
{
	struct geometry g;
	uint32_t level;

	(void)state;
	for (level = 3; level < 8; level++) {
		geometry_make(&g, 3, level, 0);
		assert_apart(&g);
		geometry_make(&g, 3, level, 5);
		assert_apart(&g);
		geometry_make(&g, 3, level, (1ull << level) - 1);
		assert_apart(&g);
	}
	geometry_make(&g, 0, 0, 0);
	assert_apart(&g);
	assert_true(geometry_bucket_offset(&g, 0) == g.segments[0]);
	geometry_make(&g, 2, 4, 3);
	assert_true(geometry_bucket_offset(&g, 3) == g.segments[0] + 3 * BUCKET_BYTES);
	assert_true(geometry_bucket_offset(&g, 4) == g.segments[1]);
	assert_true(geometry_bucket_offset(&g, 7) == g.segments[1] + 3 * BUCKET_BYTES);
	assert_true(geometry_bucket_offset(&g, 8) == g.segments[2]);
	assert_true(geometry_bucket_offset(&g, 18) == g.segments[3] + 2 * BUCKET_BYTES);
}

/* Splitting bucket s sends its keys to s and s + 2^level, and moves no others. */
static void a_split_moves_one_buckets_keys(void **state)
{
	struct geometry before, after;
	uint64_t hash, split, was, now;

	(void)state;
	for (split = 0; split < 31; split++) {
		geometry_make(&before, 2, 5, split);
		geometry_make(&after, 2, 5, split + 1);
		for (hash = 0; hash < 1000; hash++) {
			was = geometry_home(&before, hash * 0x9e3779b97f4a7c15);
			now = geometry_home(&after, hash * 0x9e3779b97f4a7c15);
			assert_true(was < geometry_buckets(&before));
			assert_true(was == now || (was == split && now == split + 32));
		}
	}
	/* The last split is the next level. */
	geometry_make(&before, 2, 5, 32);
	geometry_make(&after, 2, 6, 0);
	for (hash = 0; hash < 1000; hash++)
		assert_true(geometry_home(&before, hash * 31) == geometry_home(&after, hash * 31));
}

/*
 * Why a reader with an older geometry finds a key: from whatever bucket it starts, the key is in
 * the bucket of the lowest bits that differ, or was moved on from there, and these buckets exist.
 */
static void a_key_is_followed_from_any_older_index(void **state)
{
	struct geometry older, newer;
	uint64_t hash, number, home, n;
	uint32_t level;

	(void)state;
	for (n = 4; n < 64; n++) {
		geometry_make(&newer, 2, (uint32_t)(63 - __builtin_clzll(n)), 0);
		newer.split = n - (1ull << newer.level);
		geometry_make(&older, 2, 2, n % 4);
		for (hash = 0; hash < 4096; hash++) {
			home = geometry_home(&newer, hash);
			number = geometry_home(&older, hash);
			for (;;) {
				assert_true(number < n);
				level = newer.level +
					(number < newer.split || number >> newer.level);
				if ((hash & ((1ull << level) - 1)) == number)
					break;
				number = hash & ((2ull << __builtin_ctzll(hash ^ number)) - 1);
			}
			assert_true(number == home);
		}
	}
}

static void large_indexes_do_not_overflow(void **state)
{
	struct geometry g;

	(void)state;
	memset(&g, 0, sizeof(g));
	g.level = g.level_base = 32;
	g.segments[0] = 4096;
	assert_true(geometry_buckets(&g) == 1ull << 32);
	assert_true(geometry_home(&g, ~0ull) == 0xffffffff);
	assert_true(geometry_bucket_offset(&g, 0xffffffff) == 4096 + 0xffffffffull * 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_keep_what_they_are_given),
		cmocka_unit_test(fields_do_not_touch),
		cmocka_unit_test(lengths),
		cmocka_unit_test(longest_value),
		cmocka_unit_test(buckets_have_places_of_their_own),
		cmocka_unit_test(a_split_moves_one_buckets_keys),
		cmocka_unit_test(a_key_is_followed_from_any_older_index),
		cmocka_unit_test(large_indexes_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
