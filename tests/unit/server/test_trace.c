/* SPDX-License-Identifier: MIT */
/*
 * Tests of what a worker notes of the operations that it has executed (server/worker/trace.h):
 * which are kept, what is noted, that a full ring loses and counts but never grows, that a sample
 * ends without its reader; and a reader on another thread.
 */
#include "server/worker/trace.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire.h"
#include "server/worker/client.h"

#define SLOW_NS 1000u
#define NOW_NS 1000000u

static struct trace trace;
static const struct client client = { .number = 77 };

static int setup(void **state)
{
	(void)state;
	memset(&trace, 0, sizeof(trace));
	return trace_init(&trace, SLOW_NS);
}

static int teardown(void **state)
{
	(void)state;
	trace_release(&trace);
	return 0;
}

/* Notes a PUT of the key @number. */
static void put(uint64_t number, uint64_t arrived_ns)
{
	const struct request request = {
		.op = WIRE_PUT,
		.key = (const uint8_t *)&number,
		.key_len = sizeof(number),
		.value_len = (uint32_t)number,
	};
	const struct wire_response head = { .status = WIRE_EXISTS };

	trace_note(&trace, &client, &request, &head, arrived_ns);
}

/* The next entry's key; -1: there is none. */
static int64_t take(struct trace_entry *entry)
{
	int64_t number;

	if (!trace_take(&trace, entry))
		return -1;
	memcpy(&number, entry->key, sizeof(number));
	return number;
}

static void assert_empty(void)
{
	struct trace_entry entry;

	assert_int_equal(take(&entry), -1);
}

static void slow_ones_are_kept(void **state)
{
	struct trace_entry entry;

	(void)state;
	put(1, NOW_NS - SLOW_NS);     /* just not slow */
	put(2, NOW_NS - SLOW_NS - 1); /* slow */
	put(3, NOW_NS);
	put(4, NOW_NS - 5 * SLOW_NS);
	assert_empty(); /* it is not known yet */
	trace_turn_end(&trace, NOW_NS);
	assert_int_equal(take(&entry), 2);
	assert_true(entry.slow && !entry.sampled);
	assert_int_equal(entry.arrived_ns, NOW_NS - SLOW_NS - 1);
	assert_int_equal(entry.took_ns, SLOW_NS + 1);
	assert_int_equal(entry.client, 77);
	assert_int_equal(entry.op, WIRE_PUT);
	assert_int_equal(entry.status, WIRE_EXISTS);
	assert_int_equal(entry.key_len, 8);
	assert_int_equal(entry.value_len, 2);
	assert_int_equal(take(&entry), 4);
	assert_empty();
	/* The next turn begins anew. */
	put(5, NOW_NS);
	trace_turn_end(&trace, NOW_NS);
	assert_empty();
}

static void nothing_while_off(void **state)
{
	(void)state;
	stat_set(&trace.slow_ns, 0);
	assert_false(trace_is_on(&trace));
	put(1, 1);
	assert_int_equal(trace.oldest_ns, 0);
	trace_turn_end(&trace, NOW_NS);
	assert_empty();
}

static void values_and_keys(void **state)
{
	static const uint8_t key[1024] = "begins so";
	struct request request = { .op = WIRE_GET, .key = key, .key_len = sizeof(key) };
	struct wire_response head = { .status = WIRE_OK, .result = 500 };
	struct trace_entry entry;

	(void)state;
	trace_note(&trace, &client, &request, &head, 1);
	head.status = WIRE_NOT_FOUND;
	trace_note(&trace, &client, &request, &head, 1);
	request = (struct request){ .op = WIRE_FLUSH };
	trace_note(&trace, &client, &request, &head, 1);
	trace_turn_end(&trace, NOW_NS);
	assert_true(trace_take(&trace, &entry));
	assert_int_equal(entry.value_len, 500);
	assert_int_equal(entry.key_len, sizeof(key));
	assert_memory_equal(entry.key, key, TRACE_KEY_BYTES);
	assert_true(trace_take(&trace, &entry));
	assert_int_equal(entry.value_len, 0);
	assert_true(trace_take(&trace, &entry));
	assert_int_equal(entry.key_len, 0);
	assert_empty();
}

/* What does not fit is lost and counted; it counts as slow only if the turn was. */
static void a_full_ring(void **state)
{
	struct trace_entry entry;

	(void)state;
	for (uint64_t i = 0; i < TRACE_ENTRIES + 10; i++)
		put(i, NOW_NS);
	trace_turn_end(&trace, NOW_NS);
	assert_int_equal(trace.slow_lost, 0);
	assert_empty();
	for (uint64_t i = 0; i < TRACE_ENTRIES + 10; i++)
		put(i, 1);
	trace_turn_end(&trace, NOW_NS);
	assert_int_equal(trace.slow_lost, 10);
	put(5000, 1);
	trace_turn_end(&trace, NOW_NS);
	assert_int_equal(trace.slow_lost, 11);
	for (uint64_t i = 0; i < TRACE_ENTRIES; i++)
		assert_int_equal(take(&entry), i);
	assert_empty();
	put(5001, 1);
	trace_turn_end(&trace, NOW_NS);
	assert_int_equal(take(&entry), 5001);
}

static void a_sample(void **state)
{
	struct trace_entry entry;

	(void)state;
	trace_sample(&trace, 10, NOW_NS);
	/* The denser of two readers counts for both. */
	trace_sample(&trace, 5, NOW_NS);
	trace_sample(&trace, 10, NOW_NS);
	for (uint64_t i = 1; i <= 20; i++)
		put(i, NOW_NS);
	trace_turn_end(&trace, NOW_NS);
	for (int64_t i = 5; i <= 20; i += 5) {
		assert_int_equal(take(&entry), i);
		assert_true(entry.sampled && !entry.slow);
	}
	assert_empty();
}

/* A sample leaves room to what is slow. */
static void a_full_sample(void **state)
{
	struct trace_entry entry;

	(void)state;
	trace_sample(&trace, 1, NOW_NS);
	for (uint64_t i = 0; i < 2 * TRACE_ENTRIES; i++) {
		put(i, NOW_NS);
		trace_turn_end(&trace, NOW_NS);
	}
	assert_int_equal(trace.sampled_lost, 2 * TRACE_ENTRIES - TRACE_SAMPLED_MAX);
	put(5000, 1);
	trace_turn_end(&trace, NOW_NS);
	for (uint64_t i = 0; i < TRACE_SAMPLED_MAX; i++)
		assert_int_equal(take(&entry), i);
	assert_int_equal(take(&entry), 5000);
	assert_true(entry.slow && !entry.sampled);
	assert_int_equal(trace.slow_lost, 0);
}

static void a_sample_ends_without_its_reader(void **state)
{
	uint64_t end_ns = NOW_NS + TRACE_SAMPLE_NS;
	struct trace_entry entry;

	(void)state;
	stat_set(&trace.slow_ns, 0);
	trace_sample(&trace, 1, NOW_NS);
	put(1, end_ns - 1);
	trace_turn_end(&trace, end_ns - 1);
	assert_true(trace_is_on(&trace));
	put(2, end_ns);
	trace_turn_end(&trace, end_ns);
	assert_false(trace_is_on(&trace));
	assert_int_equal(take(&entry), 1);
	assert_int_equal(take(&entry), 2);
	/* And begins again, as dense as the next reader asks. */
	trace_sample(&trace, 3, end_ns);
	for (uint64_t i = 1; i <= 3; i++)
		put(i, end_ns);
	trace_turn_end(&trace, end_ns);
	assert_int_equal(take(&entry), 3);
	assert_empty();
	/* A sample ends even if its next operation is one in the far future. */
	stat_set(&trace.every, 0);
	trace_sample(&trace, UINT32_MAX, NOW_NS);
	put(4, end_ns - 1);
	trace_turn_end(&trace, end_ns - 1);
	assert_true(trace_is_on(&trace));
	put(5, end_ns);
	trace_turn_end(&trace, end_ns);
	assert_false(trace_is_on(&trace));
	assert_empty();
}

#define PUTS 200000u

static void *put_many(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < PUTS; i++) {
		put(i, NOW_NS);
		if (i % 5 == 4)
			trace_turn_end(&trace, NOW_NS);
		if (i % 64 == 0)
			sched_yield();
	}
	return NULL;
}

/* Each entry is whole and in order, and each operation was taken or counted. */
static void a_reader_on_another_thread(void **state)
{
	struct trace_entry entry;
	uint64_t taken = 0;
	int64_t last = -1;
	pthread_t writer;

	(void)state;
	stat_set(&trace.slow_ns, 0);
	trace_sample(&trace, 1, NOW_NS);
	assert_int_equal(pthread_create(&writer, NULL, put_many, NULL), 0);
	for (bool ended = false; !ended;) {
		trace_sample(&trace, 1, NOW_NS);
		ended = !pthread_tryjoin_np(writer, NULL);
		while (take(&entry) >= 0) {
			int64_t number;

			memcpy(&number, entry.key, sizeof(number));
			assert_true(number > last);
			assert_int_equal(entry.value_len, number);
			last = number;
			taken++;
		}
	}
	assert_true(taken > 0);
	assert_int_equal(taken + trace.sampled_lost, PUTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(slow_ones_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_while_off, setup, teardown),
		cmocka_unit_test_setup_teardown(values_and_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(a_sample, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_sample, setup, teardown),
		cmocka_unit_test_setup_teardown(a_sample_ends_without_its_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reader_on_another_thread, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
