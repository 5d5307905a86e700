/* SPDX-License-Identifier: MIT */
/* The comparison of a bucket's tags (common/slot_match.h): as the scalar one, on random buckets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/random.h"
#include "common/slot_match.h"

#define ROUNDS 20000
/* Few, so that several slots of a bucket match. */
#define TAGS 5

static const uint16_t tags[TAGS] = { 0, 1, 0x7fff, 0x8000, 0xffff };

static uint64_t slot_random(struct random *random)
{
	uint64_t word = random_next(random) & ((1ull << 48) - 1);

	/* Also slots whose other 16-bit parts equal a tag, and empty ones. */
	if (random_below(random, 4) == 0)
		word = tags[random_below(random, TAGS)] * 0x000100010001ull;
	if (random_below(random, 4) == 0)
		return 0;
	return word | (uint64_t)tags[random_below(random, TAGS)] << 48;
}

static void test_equals_scalar(void **state)
{
	struct {
		uint64_t before; /* makes the slots unaligned for 16 bytes, as in a cache's entry */
		uint64_t slots[BUCKET_SLOTS];
	} bucket;
	struct random random;
	unsigned int i, round, expected;

	(void)state;
	random_init(&random, 1);
	for (round = 0; round < ROUNDS; round++) {
		bucket.before = random_next(&random);
		for (i = 0; i < BUCKET_SLOTS; i++)
			bucket.slots[i] = slot_random(&random);
		for (i = 0; i < TAGS; i++) {
			expected = match_scalar(bucket.slots, BUCKET_SLOTS, tags[i]);
			assert_int_equal(slots_match(bucket.slots, tags[i]), expected);
			assert_int_equal(line_match(bucket.slots, tags[i]),
					 expected & ((1u << LINE_SLOTS) - 1));
		}
	}
}

/* Each slot has its own bit. */
static void test_each_slot(void **state)
{
	uint64_t slots[BUCKET_SLOTS];
	unsigned int i;

	(void)state;
	for (i = 0; i < BUCKET_SLOTS; i++) {
		memset(slots, 0, sizeof(slots));
		slots[i] = slot_make(0x1234, 4096, 64);
		assert_int_equal(slots_match(slots, 0x1234), 1u << i);
		assert_int_equal(slots_match(slots, 0), ((1u << BUCKET_SLOTS) - 1) ^ 1u << i);
		if (i >= LINE_SLOTS)
			continue;
		assert_int_equal(line_match(slots, 0x1234), 1u << i);
		assert_int_equal(line_match(slots, 0), ((1u << LINE_SLOTS) - 1) ^ 1u << i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equals_scalar),
		cmocka_unit_test(test_each_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
