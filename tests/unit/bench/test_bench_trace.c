/* SPDX-License-Identifier: MIT */
/*
 * Tests of cache traces: lines that the reader accepts and refuses, the shape of synthetic traces,
 * and exact LRU against a simple one that searches all its items.
 */
#include <errno.h>
#include <fcntl.h>
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
#include "common/util/splitmix.h"

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
	trace_text("\xef\xbb\xbf"
		   "1 5\n# note\n\n  2,7\r\n3\n18446744073709551615 ,\t0 9 x",
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
}

/* Column numbers, and sizes up to the largest one. */
static void columns_that_are_not_there(void **state)
{
	const struct trace_format format = { .key_column = 3, .size_column = 1, .size_default = 9 };
	struct trace_access access;

	(void)state;
	trace_text("1000000 x 5\n1000001 x 6\n 7 8\n", &format);
	expect_access(5, 1000000);
	assert_int_equal(trace.cut, 0);
	expect_access(6, 1000000);
	assert_int_equal(trace.cut, 1);
	assert_int_equal(trace_next(&trace, &access), -EINVAL);
	assert_string_equal(trace.error, "T:3: no key in column 3");
	trace_close(&trace);
}

/* The numbers are those of FNV-1a, so that two runs agree. */
static void text_keys_are_hashed(void **state)
{
	const struct trace_format format = { .key_column = 1, .text_keys = true, .size_column = 2 };

	(void)state;
	trace_text("a\nfoobar 5\n", &format);
	expect_access(UINT64_C(0xaf63dc4c8601ec8c), 0);
	expect_access(UINT64_C(0x85944171f73967e8), 5);
	expect_end();
}

static void lines_of_the_greatest_length(void **state)
{
	static char text[2 * TRACE_LINE_MAX];

	(void)state;
	memset(text, ' ', sizeof(text) - 1);
	text[0] = '1';
	text[TRACE_LINE_MAX - 3] = '7';
	text[TRACE_LINE_MAX - 2] = '\n';
	text[TRACE_LINE_MAX - 1] = '2';
	text[TRACE_LINE_MAX] = '\0';
	trace_text(text, &TRACE_FORMAT_DEFAULT);
	expect_access(1, 7);
	expect_access(2, 100);
	expect_end();
	text[TRACE_LINE_MAX - 2] = ' ';
	text[TRACE_LINE_MAX - 1] = '\n';
	expect_bad(text, "longer than 4094 bytes");
}

static void files_that_fail(void **state)
{
	struct trace_access access;

	(void)state;
	assert_int_equal(trace_open(&trace, "/nowhere/trace", &TRACE_FORMAT_DEFAULT), -ENOENT);
	assert_string_equal(trace.error, "/nowhere/trace: No such file or directory");
	trace_close(&trace);
	assert_int_equal(trace_open(&trace, "/", &TRACE_FORMAT_DEFAULT), 0);
	assert_int_equal(trace_next(&trace, &access), -EIO);
	assert_string_equal(trace.error, "/:0: Is a directory");
	trace_close(&trace);
}

/* The standard input is not the trace's to close. */
static void the_standard_input_stays_open(void **state)
{
	(void)state;
	assert_int_equal(trace_open(&trace, "-", &TRACE_FORMAT_DEFAULT), 0);
	assert_string_equal(trace.name, "standard input");
	trace_close(&trace);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
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

/* All between the two, as many small ones as large ones by their logarithm; a key has one size. */
static void synth_sizes(void **state)
{
	struct synth_shape shape = { .keys = 5000, .scan_run = 1, .size_min = 1, .size_max = 4 };
	unsigned int sizes[5] = { 0 }, small = 0;
	static struct synth synth;
	struct trace_access access;
	uint64_t key = 0;
	uint32_t size = 0;

	(void)state;
	synth_init(&synth, &shape);
	for (unsigned int i = 0; i < 10000; i++) {
		synth_next(&synth, &access);
		assert_in_range(access.size, 1, 4);
		sizes[access.size]++;
		if (!i)
			key = access.key, size = access.size;
		assert_true(access.key != key || access.size == size);
	}
	for (unsigned int i = 1; i < 5; i++)
		assert_true(sizes[i] > 500);
	shape.size_max = 10000;
	shape.scan_share = 0.99; /* each key once */
	synth_init(&synth, &shape);
	for (unsigned int i = 0; i < 10000; i++) {
		synth_next(&synth, &access);
		small += access.size < 141; /* the root of 2 * 10,001, less 1 */
	}
	assert_in_range(small, 4700, 5300);
}

/* One scan takes up where the last one ended, and its keys are one after the other. */
static void scans_go_on(void **state)
{
	const struct synth_shape shape = { .keys = 1, .scan_run = 5, .scan_share = 0.5 };
	struct trace_access access;
	static struct synth synth;
	unsigned int run = 0;
	uint64_t next = SYNTH_KEYS_MAX, only, number;

	(void)state;
	synth_init(&synth, &shape);
	synth_next(&synth, &access);
	only = access.key;
	run = synth.scan_left ? 0 : 5;
	for (unsigned int i = 0; i < 1000; i++) {
		synth_next(&synth, &access);
		if (access.key == only) {
			assert_int_equal(run % 5, 0);
			continue;
		}
		number = next++;
		assert_int_equal(access.key, splitmix_next(&number));
		run++;
	}
	assert_in_range(run, 400, 600);
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

/* Beyond the first size of its tables, several times over. */
static void lru_grows(void **state)
{
	const struct lru_limits limits = { .items = 5000, .item_overhead = 10 };
	const struct lru_limits none = { 0 };
	struct lru lru;
	uint64_t key;

	(void)state;
	lru_init(&lru, &limits);
	for (key = 0; key < 5000; key++)
		assert_int_equal(lru_access(&lru, key, 5), 0);
	for (key = 0; key < 5000; key++)
		assert_int_equal(lru_access(&lru, key, 5), 1);
	assert_int_equal(lru.count, 5000);
	assert_int_equal(lru.bytes, 75000);
	for (key = 5000; key < 7000; key++)
		assert_int_equal(lru_access(&lru, key, 6), 0);
	assert_int_equal(lru.count, 5000);
	assert_int_equal(lru.bytes, 77000);
	for (key = 2000; key < 7000; key++)
		assert_int_equal(lru_access(&lru, key, 5), 1);
	assert_int_equal(lru_access(&lru, 1999, 5), 0);
	assert_int_equal(lru_access(&lru, 2000, 5), 0);
	lru_release(&lru);
	/* A table has a chain for each item: longer ones make an access slow. */
	lru_init(&lru, &none);
	for (key = 0; key < 3000; key++)
		assert_int_equal(lru_access(&lru, key, UINT32_MAX), 0);
	assert_int_equal(lru.count, 3000);
	assert_int_equal(lru.bytes, 3000 * (uint64_t)UINT32_MAX);
	assert_true(lru.head_size >= 3000);
	lru_release(&lru);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_parsed),
		cmocka_unit_test(columns_are_parsed),
		cmocka_unit_test(bad_lines_are_refused),
		cmocka_unit_test(synth_has_its_shape),
		cmocka_unit_test(synth_repeats),
		cmocka_unit_test(lru_is_exact),
		cmocka_unit_test(columns_that_are_not_there),
		cmocka_unit_test(text_keys_are_hashed),
		cmocka_unit_test(lines_of_the_greatest_length),
		cmocka_unit_test(files_that_fail),
		cmocka_unit_test(the_standard_input_stays_open),
		cmocka_unit_test(synth_sizes),
		cmocka_unit_test(scans_go_on),
		cmocka_unit_test(lru_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
