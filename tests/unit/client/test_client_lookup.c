/* SPDX-License-Identifier: MIT */
/*
 * Tests of client/libkvd/lookup.h: the comparison of keys, whose short ones are compared word by
 * word, and a lookup along a chain of two buckets that this test makes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/lookup.h"
#include "common/util/clock.h"

#define BYTES_MAX (2 * KEY_INLINE_MAX)

/* Neither ends where a word ends, and what follows the keys differs. */
static void keys_differ_in_any_byte(void **state)
{
	uint8_t a[1 + BYTES_MAX + 8], b[3 + BYTES_MAX + 8];
	size_t bytes, at;

	(void)state;
	for (bytes = 1; bytes <= BYTES_MAX; bytes++) {
		memset(a, 0x11, sizeof(a));
		memset(b, 0x22, sizeof(b));
		for (at = 0; at < bytes; at++)
			a[1 + at] = b[3 + at] = (uint8_t)(at * 37 + bytes);
		assert_true(keys_equal(a + 1, b + 3, bytes));
		for (at = 0; at < bytes; at++) {
			b[3 + at] ^= (uint8_t)(1u << at % 8);
			assert_false(keys_equal(a + 1, b + 3, bytes));
			b[3 + at] ^= (uint8_t)(1u << at % 8);
		}
	}
}

#define HASH 0xabcd000000000001ull
#define HOME (4 * BUCKET_BYTES)
#define OVERFLOW (9 * BUCKET_BYTES)

static struct kvd handle;
static struct lookup lookup;
static struct bucket bucket;
static struct kvd_get_request request;

static void bucket_arrives(uint64_t offset, uint64_t slot, uint64_t next)
{
	bucket = (struct bucket){
		.overflow = (uint32_t)(next / BUCKET_BYTES),
		.epoch = 2,
		.slots = { slot },
	};
	bucket.sum = bucket_sum(&bucket, &handle.sum_key, handle.geometry.incarnation, offset,
				HOME);
	assert_int_equal(lookup.step, STEP_BUCKET);
	assert_true(lookup.bucket_offset == offset);
	lookup_bucket(&handle, &lookup);
}

/* A chain of two buckets, of which the first has @slot. */
static void chain_arrives(uint64_t slot)
{
	handle = (struct kvd){
		.geometry = { .incarnation = 7, .segments = { HOME } },
		.options = { .get_tries = 16 },
	};
	lookup = (struct lookup){
		.request = &request,
		.hash = HASH,
		.buffer = (uint8_t *)&bucket,
		.chain_ns = clock_raw_ns(),
	};
	lookup_restart(&handle, &lookup);
	bucket_arrives(HOME, slot, OVERFLOW);
	if (slot) {
		assert_int_equal(lookup.step, STEP_ITEM);
		lookup_other_key(&handle, &lookup);
	}
	bucket_arrives(OVERFLOW, 0, 0);
}

/*
 * A client that finds another key's item in the key's place looks at the rest of the chain, and
 * then asks the server: the key may have moved to a slot that was read before.
 */
static void another_key_in_the_first_bucket(void **state)
{
	(void)state;
	chain_arrives(slot_make(hash_tag(HASH), 1 << 20, 100));
	assert_int_equal(lookup.step, STEP_RPC);
	assert_int_equal(handle.stats.retries, 0);
	/* A chain that takes long is looked at again. */
	do
		chain_arrives(0);
	while (lookup.step == STEP_BUCKET);
	assert_int_equal(lookup.step, STEP_DONE);
	assert_int_equal(request.status, KVD_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_differ_in_any_byte),
		cmocka_unit_test(another_key_in_the_first_bucket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
