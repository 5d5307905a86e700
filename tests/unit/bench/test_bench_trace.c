/* SPDX-License-Identifier: MIT */
/*
 * Tests of cache traces: lines that the reader accepts and refuses, the shape of synthetic traces,
 * and exact LRU against a simple one that searches all its items.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/kvtrace/lru.h"
#include "bench/kvtrace/synth.h"
#include "bench/kvtrace/trace.h"

#define SIMPLE_ITEMS 200

static struct trace trace;

static void trace_text(const char *text, const struct trace_format *format)
{
	char path[] = "/tmp/kvd-test-trace.XXXXXX";
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	assert_int_equal(trace_open(&trace, path, format), 0);
	trace.name = "T";
	unlink(path);
}

static void expect_access(uint64_t key, uint32_t size)
{
	struct trace_access access;

	assert_int_equal(trace_next(&trace, &access), 1);
	assert_int_equal(access.key, key);
	assert_int_equal(access.size, size);
}

static void expect_end(void)
{
	struct trace_access access;

	assert_int_equal(trace_next(&trace, &access), 0);
	trace_close(&trace);
}

/* Asserts that the first line of @text is refused with @why. */
static void expect_bad(const char *text, const char *why)
{
	struct trace_access access;

	trace_text(text, &TRACE_FORMAT_DEFAULT);
	assert_int_equal(trace_next(&trace, &access), -EINVAL);
	assert_non_null(strstr(trace.error, why));
	assert_non_null(strstr(trace.error, "T:1: "));
	trace_close(&trace);
}

static void lines_are_parsed(void **state)
{
	(void)state;
	trace_text("1 5\n# note\n\n  2,7\r\n3\n18446744073709551615 ,\t0 9 x",
		   &TRACE_FORMAT_DEFAULT);
	expect_access(1, 5);
	expect_access(2, 7);
	expect_access(3, 100);
	expect_access(UINT64_MAX, 0);
	assert_int_equal(trace.line, 6);
	expect_end();
}

static void columns_are_parsed(void **state)
{
	const struct trace_format format = { .key_column = 2, .size_column = 4, .text_keys = true };
	struct trace_access a, b, c;

	(void)state;
	trace_text("0,k1,2,77,9\n1,k2,2,2000000,9\n2,k1,2,,9\n", &format);
	assert_int_equal(trace_next(&trace, &a), 1);
	assert_int_equal(trace_next(&trace, &b), 1);
	assert_int_equal(trace_next(&trace, &c), 1);
	assert_int_equal(a.size, 77);
	assert_int_equal(b.size, TRACE_SIZE_MAX);
	assert_int_equal(trace.cut, 1);
	assert_int_equal(c.size, 0); /* an empty field is no size: the default */
	assert_int_equal(a.key, c.key);
	assert_int_not_equal(a.key, b.key);
	expect_end();
}

static void bad_lines_are_refused(void **state)
{
	static char long_line[TRACE_LINE_MAX + 10];

	(void)state;
	expect_bad("x 5\n", "'x' is no key");
	expect_bad("-1 5\n", "'-1' is no key");
	expect_bad("18446744073709551616 5\n", "is no key");
	expect_bad("1 5k\n", "'5k' is no size");
	expect_bad(",5\n", "no key in column 1");
	memset(long_line, '1', sizeof(long_line) - 1);
	expect_bad(long_line, "longer than");
	assert_int_equal(trace_open(&trace, "/nowhere/trace", &TRACE_FORMAT_DEFAULT), -ENOENT);
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Of @count accesses: sets the number of keys, the number of accesses to the most used key, and the
 * number of keys used once.
 */
static void census(const struct synth_shape *shape, size_t count, size_t *keys, size_t *top,
		   size_t *once)
{
	uint64_t *all = calloc(count, sizeof(*all));
	static struct synth synth;
	struct trace_access access;
	size_t i, run = 1;

	assert_non_null(all);
	synth_init(&synth, shape);
	for (i = 0; i < count; i++) {
		synth_next(&synth, &access);
		assert_in_range(access.size, shape->size_min, shape->size_max);
		all[i] = access.key;
	}
	qsort(all, count, sizeof(*all), compare);
	*keys = *top = *once = 0;
	for (i = 1; i <= count; i++, run++) {
		if (i < count && all[i] == all[i - 1])
			continue;
		++*keys;
		*once += run == 1;
		*top = run > *top ? run : *top;
		run = 0;
	}
	free(all);
}

static void synth_has_its_shape(void **state)
{
	struct synth_shape shape = {
		.keys = 1000,
		.scan_run = 100,
		.size_min = 10,
		.size_max = 99,
	};
	size_t keys, top, once;

	(void)state;
	/* zeta(1000, 0.99) is 7.73: the first of 1,000 keys has 12.9 %. */
	census(&shape, 200000, &keys, &top, &once);
	assert_in_range(keys, 990, 1000);
	assert_in_range(top, 25000, 26700);
	shape.scan_share = 0.2;
	census(&shape, 200000, &keys, &top, &once);
	assert_in_range(once, 36000, 44000);
	assert_in_range(top, 20000, 21400);
	shape.scan_share = 0;
	shape.drift = 20;
	census(&shape, 200000, &keys, &top, &once);
	assert_in_range(keys, 10500, 11000);
	assert_true(top < 1000);
}

static void synth_repeats(void **state)
{
	const struct synth_shape one = { .keys = 50, .scan_run = 7, .scan_share = 0.5, .seed = 1 };
	struct synth_shape other = one;
	static struct synth a, b, c;
	struct trace_access x, y, z;
	int i, same = 0;

	(void)state;
	other.seed = 2;
	synth_init(&a, &one);
	synth_init(&b, &one);
	synth_init(&c, &other);
	for (i = 0; i < 1000; i++) {
		synth_next(&a, &x);
		synth_next(&b, &y);
		synth_next(&c, &z);
		assert_int_equal(x.key, y.key);
		same += x.key == z.key;
	}
	assert_int_equal(same, 0);
}

/* The items, newest first. */
struct simple {
	struct trace_access items[SIMPLE_ITEMS];
	size_t count;
	uint64_t bytes;
};

static bool simple_access(struct simple *simple, const struct lru_limits *limits,
			  const struct trace_access *access)
{
	struct trace_access item = *access;
	bool hit = false;
	size_t i;

	for (i = 0; i < simple->count && !hit; i += !hit)
		hit = simple->items[i].key == access->key;
	if (hit)
		item = simple->items[i];
	else if (access->size + limits->item_overhead > limits->bytes)
		return false;
	while (!hit && (simple->count == limits->items ||
			simple->bytes + item.size + limits->item_overhead > limits->bytes))
		simple->bytes -= simple->items[--simple->count].size + limits->item_overhead;
	if (!hit) {
		i = simple->count++;
		simple->bytes += item.size + limits->item_overhead;
	}
	memmove(simple->items + 1, simple->items, i * sizeof(item));
	simple->items[0] = item;
	return hit;
}

static void lru_is_exact(void **state)
{
	static const struct lru_limits limits[] = {
		{ .items = 1, .bytes = 1 << 20 },
		{ .items = SIMPLE_ITEMS, .bytes = 1 << 20, .item_overhead = 3 },
		{ .items = SIMPLE_ITEMS, .bytes = 3000, .item_overhead = 50 },
		{ .items = SIMPLE_ITEMS, .bytes = 150, .item_overhead = 100 },
	};
	const struct synth_shape shape = {
		.keys = 1000, .scan_run = 50, .scan_share = 0.3, .size_min = 1, .size_max = 100
	};
	static struct simple simple;
	static struct synth synth;
	struct trace_access access;
	struct lru lru;
	size_t i;
	int j;

	(void)state;
	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		memset(&simple, 0, sizeof(simple));
		synth_init(&synth, &shape);
		lru_init(&lru, &limits[i]);
		for (j = 0; j < 20000; j++) {
			synth_next(&synth, &access);
			access.size = (access.size + (uint32_t)j) % 100; /* changes with time */
			assert_int_equal(lru_access(&lru, access.key, access.size),
					 simple_access(&simple, &limits[i], &access));
			assert_int_equal(lru.count, simple.count);
			assert_int_equal(lru.bytes, simple.bytes);
		}
		lru_release(&lru);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_parsed),	 cmocka_unit_test(columns_are_parsed),
		cmocka_unit_test(bad_lines_are_refused), cmocka_unit_test(synth_has_its_shape),
		cmocka_unit_test(synth_repeats),	 cmocka_unit_test(lru_is_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
