/* SPDX-License-Identifier: MIT */
/*
 * Tests of the sums (common/sum.h): any single wrong bit that they cover changes them, and no other
 * bit does.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/sum.h"

#define INCARNATION 0x0123456789abcdefull
#define OFFSET 0x7654320ull
#define BUCKET 0x7654300ull
#define HOME 0x12380ull
#define CHANGING_BYTES (64u << 10)
#define CHANGING_ROUNDS 5000

static struct sum_key sum_key;

static union {
	struct item item;
	uint8_t bytes[sizeof(union item_front) + 40 + 200 + ITEM_SHORT_LEN + 1];
} u;

static void item_make(uint32_t key_len, uint32_t value_len, uint32_t flags)
{
	for (size_t i = 0; i < sizeof(u); i++)
		u.bytes[i] = (uint8_t)(i * 37 + 11);
	item_set_lengths(&u.item, key_len, value_len, flags);
}

/* A flipped bit of a length is summed only if the longer item would still be inside the buffer. */
static bool in_bounds(void)
{
	return item_bytes(&u.item) <= sizeof(u);
}

/* The value sum by its definition in common/layout.h. */
static uint64_t value_sum_of(const uint8_t *value, uint32_t length)
{
	uint64_t sums[4];
	uint32_t at, n = 0;

	if (length <= PIECE_BYTES)
		return sum_bytes(&sum_key, value, length);
	for (at = 0; at < length; at += PIECE_BYTES)
		sums[n++] = sum_bytes(&sum_key, value + at,
				      length - at < PIECE_BYTES ? length - at : PIECE_BYTES);
	return sum_bytes(&sum_key, sums, n * sizeof(*sums));
}

/* In parts of any lengths the value's sum is the same. */
static void value_in_pieces(void **state)
{
	static uint8_t bytes[200000];
	static const uint32_t lengths[] = { 0,	   1,	   200,	   240,	   241,	  255,
					    256,   257,	   4096,   65535,  65536, 65537,
					    69000, 131071, 131072, 131073, 200000 };
	static const uint32_t pieces[] = { 1, 63, 64, 256, 1000, 65536, 65537, 200000 };
	static struct value_sum sum;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + (i >> 8));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (size_t j = 0; j < sizeof(pieces) / sizeof(pieces[0]); j++) {
			uint32_t done, n;

			value_sum_begin(&sum, &sum_key);
			for (done = 0; done < lengths[i]; done += n) {
				n = lengths[i] - done < pieces[j] ? lengths[i] - done : pieces[j];
				value_sum_add(&sum, bytes + done, n);
			}
			assert_int_equal(value_sum_end(&sum), value_sum_of(bytes, lengths[i]));
		}
}

/* An item of this value, with all its sums: made at once, or as the value comes. */
static struct item *large_make(uint32_t value_len, uint32_t part)
{
	static uint64_t item_words[(40 + 8 + 200000 + 40) / 8];
	struct item *item = (struct item *)(void *)item_words;
	struct value_sum sum;
	uint32_t at, n;

	memset(item_words, 0xee, sizeof(item_words));
	item_set_lengths(item, 8, value_len, 0);
	for (at = 0; at < value_len; at++)
		item_value(item)[at] = (uint8_t)(at * 53 + at / 300);
	if (!part) {
		item_value_sum_make(item, &sum_key);
		return item;
	}
	value_sum_begin(&sum, &sum_key);
	sum.piece_sums = item_piece_sums(item);
	for (at = 0; at < value_len; at += n) {
		n = value_len - at < part ? value_len - at : part;
		value_sum_add(&sum, item_value(item) + at, n);
	}
	item_value_sum_store(item, value_sum_end(&sum));
	return item;
}

/* Both ways write the same sums, and not a byte after them; each byte of value and sums counts. */
static void piece_sums(void **state)
{
	static const uint32_t lengths[] = { 65535, 65536, 65537, 131072, 131073, 200000 };
	static const uint32_t parts[] = { 0, 1000, 65536, 200000 };
	uint64_t value_sum = 0;
	struct item *item;
	uint32_t at;

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (size_t j = 0; j < sizeof(parts) / sizeof(parts[0]); j++) {
			const uint32_t sums = (uint32_t)piece_sums_bytes(lengths[i]);

			item = large_make(lengths[i], parts[j]);
			assert_true(item_value_verifies(item, &sum_key));
			if (j)
				assert_true(item_long(item)->value_sum == value_sum);
			value_sum = item_long(item)->value_sum;
			assert_true(value_sum == value_sum_of(item_value(item), lengths[i]));
			assert_int_equal(((uint8_t *)item)[item_bytes(item)], 0xee);
			for (at = j ? lengths[i] : 0; at < lengths[i] + sums;
			     at += at < lengths[i] ? 4999 : 1) {
				item_value(item)[at] ^= 1;
				assert_false(item_value_verifies(item, &sum_key));
				item_value(item)[at] ^= 1;
			}
		}
}

/* Two pieces that changed places, with their sums, are another value. */
static void pieces_have_places(void **state)
{
	static uint8_t piece[PIECE_BYTES];
	struct item *item = large_make(2 * PIECE_BYTES, 0);
	uint8_t *value = item_value(item), *sums = item_piece_sums(item), first[8];

	(void)state;
	memcpy(piece, value, PIECE_BYTES);
	memcpy(value, value + PIECE_BYTES, PIECE_BYTES);
	memcpy(value + PIECE_BYTES, piece, PIECE_BYTES);
	memcpy(first, sums, 8);
	memmove(sums, sums + 8, 8);
	memcpy(sums + 8, first, 8);
	assert_false(item_value_verifies(item, &sum_key));
}

typedef void copy_function(struct value_sum *sum, void *to, const void *from, size_t count);

/* Wherever it begins, the copy is whole, its sum is the value's, and nothing beside it changes. */
static void copies(copy_function *copy)
{
	static uint8_t from[70000], to[70200];
	static const uint32_t lengths[] = { 0, 1, 63, 64, 300, 4095, 4096, 4160, 8200, 69000 };
	static const uint32_t pieces[] = { 1000, 4096, 65536 };
	static struct value_sum sum;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 41 + (i >> 8));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (size_t j = 0; j < 3 * 66; j++) {
			uint32_t at = 1 + (uint32_t)j / 3, length = lengths[i],
				 piece = pieces[j % 3];
			uint32_t done, n;

			memset(to, 0xee, sizeof(to));
			value_sum_begin(&sum, &sum_key);
			for (done = 0; done < length; done += n) {
				n = length - done < piece ? length - done : piece;
				copy(&sum, to + at + done, from + done, n);
			}
			assert_int_equal(value_sum_end(&sum), value_sum_of(from, length));
			assert_memory_equal(to + at, from, length);
			assert_int_equal(to[at - 1], 0xee);
			assert_int_equal(to[at + length], 0xee);
		}
}

static void a_value_is_copied_and_summed(void **state)
{
	(void)state;
	copies(value_sum_copy);
}

/* All variants that this CPU has move a value past the cache. */
static void a_value_is_moved_past_the_cache(void **state)
{
	struct sum_variant variant;
	unsigned int n;

	(void)state;
	for (n = 0; sum_variant(n, &variant); n++) {
		sum_lines_move = variant.move;
		copies(value_sum_move);
	}
	assert_true(n);
}

/* As a reader does. */
static bool verifies(uint64_t sum)
{
	return item_sum(&u.item, &sum_key, INCARNATION, OFFSET) == sum &&
	       item_value_verifies(&u.item, &sum_key);
}

static void assert_bits_count(uint32_t key_len, uint32_t value_len, uint32_t flags)
{
	size_t bit, access = offsetof(struct item, access);
	size_t bytes = item_bytes_for(key_len, value_len, flags);
	uint64_t sum;

	item_make(key_len, value_len, flags);
	item_value_sum_make(&u.item, &sum_key);
	sum = item_sum(&u.item, &sum_key, INCARNATION, OFFSET);
	assert_true(sum != ITEM_SUM_INVALID);
	for (bit = 64; bit < bytes * 8; bit++) {
		bool counts = bit / 8 < access || bit / 8 >= access + 2;

		u.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (in_bounds())
			assert_int_equal(!verifies(sum), counts);
		u.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_true(verifies(sum));
	/* The sum covers neither its own field nor what follows the item. */
	u.item.sum = ~u.item.sum;
	memset(u.bytes + bytes, 0, sizeof(u) - bytes);
	assert_true(verifies(sum));
}

static void every_bit_of_an_item_counts(void **state)
{
	(void)state;
	for (uint32_t flags = 0; flags < 2; flags++) {
		assert_bits_count(1, 0, flags);
		assert_bits_count(8, 8, flags);
		assert_bits_count(40, 200, flags);
		assert_bits_count(17, 100, flags);
		/* The longest without a value sum, and the shortest with one. */
		assert_bits_count(16, ITEM_SHORT_MAX - 16, flags);
		assert_bits_count(16, ITEM_SHORT_MAX - 15, flags);
		assert_bits_count(ITEM_SHORT_MAX, 0, flags);
		assert_bits_count(ITEM_SHORT_MAX + 1, 0, flags);
	}
}

/*
 * Header, value sum and key alone have the sum: no byte of the value is in it. Of a short item,
 * which has no value sum, each is.
 */
static void the_value_is_not_needed(void **state)
{
	uint64_t sum;

	(void)state;
	item_make(40, 150, 0);
	item_value_sum_make(&u.item, &sum_key);
	sum = item_sum(&u.item, &sum_key, INCARNATION, OFFSET);
	memset(item_value(&u.item), 0, 150);
	assert_true(item_sum(&u.item, &sum_key, INCARNATION, OFFSET) == sum);
	assert_false(verifies(sum));
	item_make(8, 40, 0);
	item_value_sum_make(&u.item, &sum_key);
	sum = item_sum(&u.item, &sum_key, INCARNATION, OFFSET);
	memset(item_value(&u.item), 0, 40);
	assert_true(item_sum(&u.item, &sum_key, INCARNATION, OFFSET) != sum);
}

static void place_and_incarnation_count(void **state)
{
	uint64_t sum;
	unsigned int bit;

	(void)state;
	item_make(8, 100, 0);
	sum = item_sum(&u.item, &sum_key, INCARNATION, OFFSET);
	for (bit = 0; bit < 64; bit++) {
		assert_true(item_sum(&u.item, &sum_key, INCARNATION ^ 1ull << bit, OFFSET) != sum);
		assert_true(item_sum(&u.item, &sum_key, INCARNATION, OFFSET ^ 1ull << bit) != sum);
	}
	assert_true(item_sum(&u.item, &sum_key, OFFSET, INCARNATION) != sum);
}

/* Bytes of the key that XXH3 uses for a hash of the length of an item's head, and of a bucket's. */
#define HEAD_KEY_BYTES 64u
#define BUCKET_KEY_BYTES 128u

/* Without any one bit of the key no sum is right: each counts for long values, most for others. */
static void every_bit_of_the_key_counts(void **state)
{
	static uint8_t value[2000];
	struct bucket empty;
	uint64_t of_item, of_head, of_bucket, of_value;
	struct sum_key other;

	(void)state;
	item_make(8, 60, 0);
	memset(&empty, 0, sizeof(empty));
	of_head = item_sum_of(&u.item, 1, &sum_key, INCARNATION, OFFSET);
	of_item = item_sum(&u.item, &sum_key, INCARNATION, OFFSET);
	of_bucket = bucket_sum(&empty, &sum_key, INCARNATION, BUCKET, HOME);
	of_value = sum_bytes(&sum_key, value, sizeof(value));
	for (unsigned int bit = 0; bit < 8 * SUM_KEY_BYTES; bit++) {
		other = sum_key;
		other.secret[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_true(sum_bytes(&other, value, sizeof(value)) != of_value);
		if (bit < 8 * HEAD_KEY_BYTES) {
			assert_true(item_sum_of(&u.item, 1, &other, INCARNATION, OFFSET) !=
				    of_head);
			assert_true(item_sum(&u.item, &other, INCARNATION, OFFSET) != of_item);
		}
		if (bit < 8 * BUCKET_KEY_BYTES)
			assert_true(bucket_sum(&empty, &other, INCARNATION, BUCKET, HOME) !=
				    of_bucket);
	}
}

/* Body and value sum are keyed, too: bytes of the same plain hash can't stand for each other. */
static void body_and_value_are_keyed(void **state)
{
	struct sum_key other = sum_key;
	uint64_t body, value;

	(void)state;
	other.secret[0] ^= 1;
	item_make(8, 10, 0);
	body = item_body_sum(&u.item, &sum_key);
	assert_true(body != item_body_sum(&u.item, &other));
	item_make(8, 150, 0);
	item_value_sum_make(&u.item, &sum_key);
	value = item_long(&u.item)->value_sum;
	item_value_sum_make(&u.item, &other);
	assert_true(value != item_long(&u.item)->value_sum);
	assert_false(item_value_verifies(&u.item, &sum_key));
}

/* The same bytes, split differently into key and value. */
static void the_cut_between_key_and_value_counts(void **state)
{
	uint64_t sum;

	(void)state;
	item_make(8, 92, 0);
	sum = item_sum(&u.item, &sum_key, INCARNATION, OFFSET);
	item_set_lengths(&u.item, 9, 91, 0);
	assert_true(item_sum(&u.item, &sum_key, INCARNATION, OFFSET) != sum);
}

static void the_body_can_be_summed_before(void **state)
{
	uint64_t body;

	(void)state;
	item_make(8, 92, 0);
	body = item_body_sum(&u.item, &sum_key);
	u.item.version = 77;
	assert_true(item_sum_of(&u.item, body, &sum_key, INCARNATION, OFFSET) ==
		    item_sum(&u.item, &sum_key, INCARNATION, OFFSET));
}

static void every_bit_of_a_bucket_counts(void **state)
{
	union {
		struct bucket bucket;
		uint8_t bytes[BUCKET_BYTES];
	} b;
	unsigned int bit, byte;
	uint64_t sum;

	(void)state;
	for (byte = 0; byte < BUCKET_BYTES; byte++)
		b.bytes[byte] = (uint8_t)(byte * 31 + 7);
	sum = bucket_sum(&b.bucket, &sum_key, INCARNATION, BUCKET, HOME);
	for (bit = 0; bit < BUCKET_BYTES * 8; bit++) {
		byte = bit / 8;
		b.bytes[byte] ^= (uint8_t)(1u << bit % 8);
		/* Bits of the sum's own field and of the lock do not count. */
		assert_int_equal(bucket_sum(&b.bucket, &sum_key, INCARNATION, BUCKET, HOME) != sum,
				 byte >= 8 && byte != offsetof(struct bucket, lock));
		b.bytes[byte] ^= (uint8_t)(1u << bit % 8);
	}
	for (bit = 0; bit < 64; bit++)
		assert_true(bucket_sum(&b.bucket, &sum_key, INCARNATION ^ 1ull << bit, BUCKET,
				       HOME) != sum);
	/* Every bit of the offset that a bucket, or its home, can have in the largest region. */
	for (bit = 7; 1ull << bit < REGION_BYTES_MAX; bit++) {
		assert_true(bucket_sum(&b.bucket, &sum_key, INCARNATION, BUCKET ^ 1ull << bit,
				       HOME) != sum);
		assert_true(bucket_sum(&b.bucket, &sum_key, INCARNATION, BUCKET,
				       HOME ^ 1ull << bit) != sum);
	}
	assert_true(bucket_sum(&b.bucket, &sum_key, INCARNATION, HOME, BUCKET) != sum);
}

static void every_bit_of_a_geometry_counts(void **state)
{
	union {
		struct geometry geometry;
		uint8_t bytes[sizeof(struct geometry)];
	} g;
	unsigned int bit;
	uint64_t sum;

	(void)state;
	memset(&g, 0x5a, sizeof(g));
	sum = geometry_sum(&g.geometry);
	for (bit = 0; bit < sizeof(g) * 8; bit++) {
		g.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(geometry_sum(&g.geometry) != sum,
				 bit / 8 < offsetof(struct geometry, sum));
		g.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

/* Clients and servers of other builds must agree: fixed results of XXH3-64. */
static void the_algorithm_is_the_one_of_the_abi(void **state)
{
	struct bucket empty;

	(void)state;
	assert_true(key_hash("", 0, 0) == 0x2d06800538d394c2);
	assert_true(XXH3_64bits("kvd", 3) == key_hash("kvd", 3, 0));
	assert_true(key_hash("kvd", 3, 1) != key_hash("kvd", 3, 0));
	memset(&empty, 0, sizeof(empty));
	assert_true(bucket_sum(&empty, &sum_key, 0, 0, 0) != 0);
}

/* Pieces whose lengths do and don't fill what is kept between two of them. */
static uint64_t sum_in_pieces(const struct sum_variant *variant, const uint8_t *data, size_t bytes)
{
	static _Alignas(VALUE_SUM_ALIGN) XXH3_state_t state;
	size_t at, piece;

	XXH3_64bits_reset_withSecret(&state, sum_key.secret, SUM_KEY_BYTES);
	for (at = 0, piece = 1; at < bytes; at += piece, piece = piece * 3 + 1) {
		if (piece > bytes - at)
			piece = bytes - at;
		variant->add(&state, data + at, piece);
	}
	return XXH3_64bits_digest(&state);
}

/* All variants that this CPU has, for all lengths and alignments. */
static void test_variants(void **state)
{
	enum { BYTES_MAX = 5000, OFFSETS = 65 };
	static uint8_t data[OFFSETS + BYTES_MAX];
	struct sum_variant variant;
	unsigned int n, offset;
	uint64_t sum;
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 167 + (i >> 8) * 59 + 13);
	for (bytes = 0; bytes <= BYTES_MAX; bytes++) {
		offset = (unsigned int)(bytes * 7 % OFFSETS);
		sum = XXH3_64bits_withSecret(data + offset, bytes, sum_key.secret, SUM_KEY_BYTES);
		assert_true(sum_bytes(&sum_key, data + offset, bytes) == sum);
		for (n = 0; sum_variant(n, &variant); n++)
			assert_true(variant.sum(data + offset, bytes, sum_key.secret) == sum);
	}
	for (offset = 0; offset < OFFSETS; offset++) {
		sum = sum_bytes(&sum_key, data + offset, BYTES_MAX);
		for (n = 0; sum_variant(n, &variant); n++)
			assert_true(variant.sum(data + offset, BYTES_MAX, sum_key.secret) == sum &&
				    sum_in_pieces(&variant, data + offset, BYTES_MAX) == sum);
	}
	/* The fastest one is in use. */
	assert_true(n && sum_variant(n - 1, &variant) && sum_long == variant.sum &&
		    sum_long_add == variant.add && sum_lines_move == variant.move);
}

static uint8_t changing[CHANGING_BYTES], copied[CHANGING_BYTES];
static _Atomic bool stop;

/* A client that writes to its memory while the server pulls from it: a word in each 512 bytes. */
static void *keep_changing(void *argument)
{
	volatile uint64_t *word;
	uint64_t i;

	for (i = 0; !atomic_load(&stop); i++) {
		word = (volatile uint64_t *)(changing + i * 512 % CHANGING_BYTES);
		*word = i;
	}
	return argument;
}

/* What is summed is what was copied, whatever happens to the source meanwhile. */
static void the_sum_is_of_the_copy(void **state)
{
	static struct value_sum sum;
	pthread_t thread;
	unsigned int i;

	(void)state;
#ifdef __SANITIZE_THREAD__
	print_message("the source changes on purpose, which ThreadSanitizer would report\n");
	skip();
#endif
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, keep_changing, NULL), 0);
	for (i = 0; i < CHANGING_ROUNDS; i++) {
		value_sum_begin(&sum, &sum_key);
		value_sum_copy(&sum, copied, changing, sizeof(copied));
		if (value_sum_end(&sum) != sum_bytes(&sum_key, copied, sizeof(copied)))
			break;
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(i, CHANGING_ROUNDS);
}

static int setup(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < sizeof(sum_key.secret); i++)
		sum_key.secret[i] = (uint8_t)(i * 167 + 13);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(value_in_pieces),
		cmocka_unit_test(piece_sums),
		cmocka_unit_test(pieces_have_places),
		cmocka_unit_test(a_value_is_copied_and_summed),
		cmocka_unit_test(a_value_is_moved_past_the_cache),
		cmocka_unit_test(the_sum_is_of_the_copy),
		cmocka_unit_test(every_bit_of_an_item_counts),
		cmocka_unit_test(the_value_is_not_needed),
		cmocka_unit_test(place_and_incarnation_count),
		cmocka_unit_test(every_bit_of_the_key_counts),
		cmocka_unit_test(body_and_value_are_keyed),
		cmocka_unit_test(the_cut_between_key_and_value_counts),
		cmocka_unit_test(the_body_can_be_summed_before),
		cmocka_unit_test(every_bit_of_a_bucket_counts),
		cmocka_unit_test(every_bit_of_a_geometry_counts),
		cmocka_unit_test(the_algorithm_is_the_one_of_the_abi),
		cmocka_unit_test(test_variants),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
