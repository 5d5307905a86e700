/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's records: the documented layout, and that the check finds any damage, in
 * whatever byte.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/record.h"

#define KEY "user6284781860667377211"
#define KEY_LEN (sizeof(KEY) - 1)

static const uint32_t lengths[5] = { 0, 1, 100, 7, 64 };
static const struct record_shape shapes[] = {
	{ 10, 100, NULL }, { 1, 0, NULL }, { 3, 5, NULL }, { 1, 4096, NULL }, { 5, 0, lengths },
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static const struct record_generation first = { 0x1122334455667788, 1 };
static const struct record_generation second = { 0x1122334455667788, 2 };
static uint8_t a[8192], b[8192];
static struct record_fault fault;

static size_t build(uint8_t *record, const struct record_shape *shape,
		    const struct record_generation *generation)
{
	record_build(record, shape, generation, KEY, KEY_LEN);
	return record_size(shape);
}

static int check(const uint8_t *record, size_t len)
{
	return record_check(record, len, KEY, KEY_LEN, &fault);
}

static void sizes(void **state)
{
	(void)state;
	assert_int_equal(record_size(&shapes[0]), 1032);
	assert_int_equal(record_size(&shapes[1]), 32);
	assert_int_equal(record_size(&shapes[4]), 32 + 5 * 4 + 172);
}

static void header_is_as_documented(void **state)
{
	static const uint8_t want[24] = { 'k',	'v',  'r',  '1',  10,	0,    0,    0,
					  0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
					  1,	0,    0,    0,	  0,	0,    0,    0 };

	(void)state;
	build(a, &shapes[0], &first);
	assert_memory_equal(a, want, sizeof(want));
	build(a, &shapes[4], &first);
	assert_int_equal(a[6], 1);
	assert_int_equal(a[32 + 2 * 4], 100);
}

static void good_records_pass(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < SHAPES; i++) {
		memset(a, 0x5a, sizeof(a));
		assert_int_equal(check(a, build(a, &shapes[i], &first)), 0);
		assert_int_equal(a[record_size(&shapes[i])], 0x5a);
		memmove(a + 1, a, record_size(&shapes[i]));
		assert_int_equal(check(a + 1, record_size(&shapes[i])), 0);
	}
}

static void every_flipped_bit_is_found(void **state)
{
	size_t i, at, len;
	int bit;

	(void)state;
	for (i = 0; i < SHAPES; i++) {
		len = build(a, &shapes[i], &first);
		for (at = 0; at < len; at++) {
			for (bit = 0; bit < 8; bit++) {
				a[at] ^= (uint8_t)(1 << bit);
				assert_int_equal(check(a, len), -EBADMSG);
				a[at] ^= (uint8_t)(1 << bit);
			}
		}
		assert_int_equal(check(a, len), 0);
	}
}

static void the_fault_is_located(void **state)
{
	const size_t len = build(a, &shapes[0], &first);

	(void)state;
	a[32 + 4 * 100 + 17] ^= 1;
	a[32 + 7 * 100] ^= 1;
	assert_int_equal(check(a, len), -EBADMSG);
	assert_int_equal(fault.offset, 32 + 4 * 100 + 17);
	assert_int_equal(fault.field, 4);
	assert_int_equal(fault.expected ^ fault.got, 1);
	assert_int_equal(fault.got, a[fault.offset]);
	assert_true(fault.generation.writer == first.writer && fault.generation.counter == 1);
	build(a, &shapes[4], &first);
	a[32 + 20 + 101 + 3] ^= 1;
	assert_int_equal(check(a, record_size(&shapes[4])), -EBADMSG);
	assert_int_equal(fault.field, 3);
}

/* Every shorter record, and every other length. */
static void a_cut_or_longer_record_is_found(void **state)
{
	size_t i, len, cut;

	(void)state;
	for (i = 0; i < SHAPES; i++) {
		memset(a, 0, sizeof(a));
		len = build(a, &shapes[i], &first);
		for (cut = 0; cut < len + 200; cut++)
			assert_int_equal(check(a, cut), cut == len ? 0 : -EBADMSG);
	}
}

/* Two generations of one record, joined at every byte where the result differs from both. */
static void a_torn_record_is_found(void **state)
{
	static uint8_t torn[8192];
	size_t i, len, at, found = 0;

	(void)state;
	for (i = 0; i < SHAPES; i++) {
		len = build(a, &shapes[i], &first);
		build(b, &shapes[i], &second);
		for (at = 0; at <= len; at++) {
			memcpy(torn, a, at);
			memcpy(torn + at, b + at, len - at);
			if (!memcmp(torn, a, len) || !memcmp(torn, b, len))
				continue; /* the result equals one of them */
			assert_int_equal(check(torn, len), -EBADMSG);
			found++;
		}
	}
	assert_true(found > 5000);
}

/* A word, cache line or field replaced by that of another generation, by zeros or the next one. */
static void a_mixed_record_is_found(void **state)
{
	const size_t len = build(a, &shapes[0], &first);
	size_t at, size;

	(void)state;
	build(b, &shapes[0], &second);
	for (size = 8; size <= 64; size *= 2) {
		for (at = 32; at + size <= len; at += size) {
			build(a, &shapes[0], &first);
			memcpy(a + at, b + at, size);
			assert_int_equal(check(a, len), -EBADMSG);
			assert_true(fault.offset >= at && fault.offset < at + size);
			memset(a + at, 0, size);
			assert_int_equal(check(a, len), -EBADMSG);
		}
	}
	build(a, &shapes[0], &first);
	memcpy(b, a + 132, 100);
	memcpy(a + 132, a + 232, 100);
	memcpy(a + 232, b, 100);
	assert_int_equal(check(a, len), -EBADMSG);
}

static void another_keys_record_is_found(void **state)
{
	const size_t len = build(a, &shapes[0], &first);

	(void)state;
	assert_int_equal(record_check(a, len, "user1", 5, &fault), -EBADMSG);
	assert_int_equal(record_check(a, len, KEY, KEY_LEN - 1, &fault), -EBADMSG);
	assert_int_equal(record_check(a, len, KEY "\0", KEY_LEN + 1, &fault), -EBADMSG);
}

static void generations_differ_nearly_everywhere(void **state)
{
	const size_t len = build(a, &shapes[0], &first);
	size_t i, same = 0;

	(void)state;
	build(b, &shapes[0], &second);
	for (i = 32; i < len; i++)
		same += a[i] == b[i];
	assert_true(same < 30); /* of 1,000, 4 by chance */
	for (i = 32, same = 0; i + 100 < len; i++)
		same += a[i] == a[i + 100];
	assert_true(same < 30);
}

static void garbage_is_no_record(void **state)
{
	(void)state;
	memset(a, 0, sizeof(a));
	assert_int_equal(check(a, 1032), -EBADMSG);
	memset(a, 0xff, sizeof(a));
	assert_int_equal(check(a, 1032), -EBADMSG);
	assert_int_equal(check(a, 0), -EBADMSG);
	/* A table of lengths that is larger than the value. */
	build(a, &shapes[4], &first);
	a[4] = 0xff;
	a[5] = 0xff;
	assert_int_equal(check(a, record_size(&shapes[4])), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(header_is_as_documented),
		cmocka_unit_test(good_records_pass),
		cmocka_unit_test(every_flipped_bit_is_found),
		cmocka_unit_test(the_fault_is_located),
		cmocka_unit_test(a_cut_or_longer_record_is_found),
		cmocka_unit_test(a_torn_record_is_found),
		cmocka_unit_test(a_mixed_record_is_found),
		cmocka_unit_test(another_keys_record_is_found),
		cmocka_unit_test(generations_differ_nearly_everywhere),
		cmocka_unit_test(garbage_is_no_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
