/* SPDX-License-Identifier: MIT */
/*
 * Tests of softnic's rings: records come out as they went in, and impossible positions are refused.
 */
#include "common/rdma/softnic/ring.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS 200000

static uint8_t shared[RING_BYTES];

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* Records of any length, across the ring's end and across the wrap of the 32-bit position. */
static void test_model(void **state)
{
	uint32_t start = UINT32_MAX - 10 * RING_BYTES - UINT32_MAX % RING_UNIT;
	struct ring_out out = { .data = shared, .head = start & ~(RING_UNIT - 1) };
	struct ring_in in = { .data = shared };
	uint8_t record[RING_BYTES], back[RING_BYTES];
	uint32_t lengths[RING_BYTES / RING_UNIT];
	unsigned int put = 0, got = 0, round;
	uint32_t seed = 1;

	(void)state;
	out.tail = in.head = in.tail = out.head;
	for (round = 0; round < ROUNDS; round++) {
		uint32_t length = 1 + next_random(&seed) % 4096;

		if (next_random(&seed) % 2 && ring_out_room(&out) >= ring_span(length)) {
			memset(record, (int)(put & 0xff), length);
			ring_out_write(&out, 0, record, length / 3);
			ring_out_write(&out, length / 3, record, length - length / 3);
			ring_out_commit(&out, length);
			lengths[put++ % (RING_BYTES / RING_UNIT)] = length;
			assert_int_equal(ring_in_update(&in, out.head), 0);
		} else if (got != put) {
			length = lengths[got % (RING_BYTES / RING_UNIT)];
			assert_true(ring_in_ready(&in) >= ring_span(length));
			memset(record, (int)(got++ & 0xff), length);
			ring_in_read(&in, 0, back, length / 2);
			ring_in_read(&in, length / 2, back + length / 2, length - length / 2);
			assert_memory_equal(back, record, length);
			ring_in_consume(&in, length);
			assert_int_equal(ring_out_update(&out, in.tail), 0);
		}
		assert_int_equal(ring_out_room(&out), RING_BYTES - (out.head - in.tail));
	}
	assert_true(got > ROUNDS / 10);
}

static void test_head_of_peer(void **state)
{
	struct ring_in in = { .data = shared, .head = 1024, .tail = 512 };

	(void)state;
	assert_int_equal(ring_in_update(&in, 1024), 0);
	assert_int_equal(ring_in_update(&in, 512 + RING_BYTES), 0);
	in.head = 1024;
	assert_int_equal(ring_in_update(&in, 512 + RING_BYTES + RING_UNIT), -EPROTO);
	assert_int_equal(ring_in_update(&in, 1024 - RING_UNIT), -EPROTO);
	assert_int_equal(ring_in_update(&in, 512), -EPROTO);
	assert_int_equal(ring_in_update(&in, 448), -EPROTO);
	assert_int_equal(ring_in_update(&in, 1025), -EPROTO);
	assert_int_equal(in.head, 1024);
}

static void test_tail_of_peer(void **state)
{
	struct ring_out out = { .data = shared, .head = 1024, .tail = 512 };

	(void)state;
	assert_int_equal(ring_out_update(&out, 512), 0);
	assert_int_equal(ring_out_update(&out, 1024 + RING_UNIT), -EPROTO);
	assert_int_equal(ring_out_update(&out, 512 - RING_UNIT), -EPROTO);
	assert_int_equal(ring_out_update(&out, 513), -EPROTO);
	assert_int_equal(out.tail, 512);
	assert_int_equal(ring_out_update(&out, 1024), 0);
	assert_int_equal(ring_out_room(&out), RING_BYTES);
}

/* Whatever positions a peer writes, the room to read and to write stays within the ring. */
static void test_any_position(void **state)
{
	struct ring_in in = { .data = shared };
	struct ring_out out = { .data = shared };
	uint32_t seed = 7;
	unsigned int round;

	(void)state;
	for (round = 0; round < ROUNDS; round++) {
		uint32_t near = (next_random(&seed) % 256) * RING_UNIT;

		ring_in_update(&in, next_random(&seed) % 4 ? in.tail + near : next_random(&seed));
		assert_true(ring_in_ready(&in) <= RING_BYTES);
		if (ring_in_ready(&in) && next_random(&seed) % 2)
			ring_in_consume(&in, RING_UNIT);
		ring_out_update(&out,
				next_random(&seed) % 4 ? out.tail + near : next_random(&seed));
		assert_true(ring_out_room(&out) <= RING_BYTES);
		if (ring_out_room(&out) && next_random(&seed) % 2)
			ring_out_commit(&out, RING_UNIT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_head_of_peer),
		cmocka_unit_test(test_tail_of_peer),
		cmocka_unit_test(test_any_position),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
