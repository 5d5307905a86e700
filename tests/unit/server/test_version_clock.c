/* SPDX-License-Identifier: MIT */
/*
 * Tests of the version clock: that the versions of a start are above those of earlier ones, at full
 * speed and with any random part, and what is left of that when the time of day is set back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/layout.h"
#include "server/store/table.h"

#define SECOND_NS 1000000000ull
#define NOW_NS (1795000000ull * SECOND_NS) /* in 2026 */
/* What CLOCK-1 says of a second: changes, and flushes. */
#define RISE_MAX ((1ull << 25) + FLOOR_MARGIN * SECOND_NS / FLUSH_NS_MIN)

static uint64_t random_next(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* The highest counter that a start can reach in @seconds. */
static uint64_t highest(uint64_t realtime_ns, uint64_t random, uint64_t seconds)
{
	return (version_clock_start(realtime_ns, random) >> THREAD_ID_BITS) + seconds * RISE_MAX;
}

static void later_starts_are_above(void **state)
{
	static const uint64_t seconds[] = {
		1, 2, 3, 60, 3600, 86400, 365 * 86400, 20u * 365 * 86400
	};
	unsigned int i, n;

	(void)state;
	for (i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++)
		for (n = 0; n < 1000; n++) {
			uint64_t at = NOW_NS + random_next() % (SECOND_NS * 1000);
			/* Also the worst case: most random ticks before, none after. */
			uint64_t before = n ? random_next() : UINT64_MAX;
			uint64_t after = n ? random_next() : 0;

			assert_true(highest(at, before, seconds[i]) <
				    version_clock_start(at + seconds[i] * SECOND_NS, after) >>
				    THREAD_ID_BITS);
		}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Two starts at the same time of day. The random bits decide, each of them: 2^14 starts of 2^32
 * possible ones have 2^28 / 2^33 = 0.03 equal pairs on average.
 */
static void clock_set_back(void **state)
{
	enum { STARTS = 1 << 14 };
	uint64_t *starts = calloc(STARTS, sizeof(*starts)), any = 0, all = UINT64_MAX;
	unsigned int i, equal = 0;

	(void)state;
	assert_non_null(starts);
	for (i = 0; i < STARTS; i++) {
		starts[i] = version_clock_start(NOW_NS, random_next());
		any |= starts[i] - version_clock_start(NOW_NS, 0);
		all &= starts[i] - version_clock_start(NOW_NS, 0);
	}
	assert_int_equal(any, (1ull << (VERSION_RANDOM_BITS + THREAD_ID_BITS)) - 1);
	assert_int_equal(all, 0);
	qsort(starts, STARTS, sizeof(*starts), compare);
	for (i = 1; i < STARTS; i++)
		equal += starts[i] == starts[i - 1];
	assert_true(equal <= 1);
	free(starts);
}

/* A time of day that is not set, or far in the future, leaves room for the counters as well. */
static void any_time_of_day(void **state)
{
	static const uint64_t times[] = {
		0, 1, VERSION_EPOCH_S - 1, VERSION_EPOCH_S, UINT32_MAX, UINT64_MAX / SECOND_NS
	};
	const uint64_t room = VERSION_SECONDS_LEFT / 2 * RISE_MAX;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		uint64_t start = version_clock_start(times[i] * SECOND_NS, UINT64_MAX);

		assert_true(start >> THREAD_ID_BITS < (1ull << (64 - THREAD_ID_BITS)) - 1 - room);
	}
	assert_int_equal(version_clock_start(0, 0), 0);
	assert_int_equal(version_clock_start(VERSION_EPOCH_S * SECOND_NS, 0), 0);
	assert_int_equal(version_clock_start((VERSION_EPOCH_S + 1) * SECOND_NS, 0),
			 1ull << (VERSION_TICKS_BITS + THREAD_ID_BITS));
}

/* The low bits stay different for all threads, wherever they begin. */
static void threads_differ(void **state)
{
	struct memory *memory = NULL;
	struct region region = { .base = NULL };
	const struct store_options options = { .fill = 65 };
	bool seen[1 << THREAD_ID_BITS];
	struct table table;
	unsigned int i, n;

	(void)state;
	for (n = 0; n < 300; n++) {
		region.geometry.incarnation = random_next();
		table_init(&table, &region, memory, NULL, &options);
		memset(seen, 0, sizeof(seen));
		for (i = 0; i < STORE_THREADS_MAX; i++) {
			uint8_t id = (uint8_t)(table.version_start + i);

			assert_false(seen[id]);
			seen[id] = true;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(later_starts_are_above),
		cmocka_unit_test(clock_set_back),
		cmocka_unit_test(any_time_of_day),
		cmocka_unit_test(threads_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
