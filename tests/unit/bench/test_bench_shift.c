/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's shifts of value sizes against a store of the test: how much is written, of
 * which sizes, what is reported, and what ends it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/shift.h"
#include "tests/support/captured.h"
#include "tests/support/fake_store.h"

#define MEMORY 14800u /* of items; one of 100 bytes takes 148 */
#define LIVE 7400u
#define LEN_MAX (1u << 20)
#define FAILURES_MAX 100

static struct {
	uint64_t puts, bytes, last_key;
	uint64_t puts_of[LEN_MAX + 1];
	uint64_t fails_from;  /* this PUT and all after it fail; 0: none */
	uint64_t fails_until; /* all PUTs up to this one fail */
	uint64_t put_ns;      /* how long a PUT takes by the clock; 0: as long as it takes */
} store;

int clock_gettime(clockid_t id, struct timespec *now)
{
	uint64_t ns = store.puts * store.put_ns;

	if (!store.put_ns)
		return (int)syscall(SYS_clock_gettime, id, now);
	now->tv_sec = (time_t)(ns / 1000000000u);
	now->tv_nsec = (long)(ns % 1000000000u);
	return 0;
}

static enum kvd_status store_put(struct db *db, const struct db_change *changes, size_t count)
{
	char digits[17] = "";
	uint64_t key;

	(void)db;
	assert_int_equal(count, 1);
	assert_int_equal(changes->key_len, 16);
	memcpy(digits, changes->key, 16);
	key = strtoull(digits, NULL, 16);
	assert_true(!store.puts || key == store.last_key + 1); /* a new one each time */
	store.last_key = key;
	assert_true(changes->value_len <= LEN_MAX);
	store.puts_of[changes->value_len]++;
	store.bytes += changes->value_len;
	store.puts++;
	if (store.puts <= store.fails_until)
		return KVD_ERR_NO_SPACE;
	return store.fails_from && store.puts >= store.fails_from ? KVD_ERR_NO_SPACE : KVD_OK;
}

static const struct db_backend backend = {
	.name = "test",
	.open = fake_store_open,
	.close = fake_store_close,
	.put = store_put,
	.server_stats = fake_store_statistics,
	.error = fake_store_error,
};

static const struct db_target target = { &backend, "test:somewhere", 1 };

static int setup(void **state)
{
	static char statistics[128];

	(void)state;
	memset(&store, 0, sizeof(store));
	fake_store_reset(&backend);
	snprintf(statistics, sizeof(statistics),
		 "item_memory_bytes %u\nitem_memory_live_bytes %u\n", MEMORY, LIVE);
	fake_store.statistics = statistics;
	return 0;
}

static char printed[4096];

static int shift(uint64_t times, const char *first, const char *second)
{
	char *sizes[] = { (char *)(uintptr_t)first, (char *)(uintptr_t)second };
	int result;

	captured_begin(stdout);
	result = shift_run(&target, times, sizes, second ? 2 : 1);
	snprintf(printed, sizeof(printed), "%s", captured_end());
	return result;
}

/* A line of the report: the figures that do not depend on the time. */
static void assert_line(const char *line, unsigned int low, unsigned int high, unsigned int puts,
			unsigned int failed)
{
	unsigned int figures[7];
	double seconds, ratio, live;

	assert_int_equal(sscanf(line, "%u-%u %u %lf %u %u %lf %lf %u", &figures[0], &figures[1],
				&figures[2], &seconds, &figures[3], &figures[4], &ratio, &live,
				&figures[5]),
			 9);
	assert_int_equal(figures[0], low);
	assert_int_equal(figures[1], high);
	assert_int_equal(figures[2], puts);
	assert_int_equal(figures[5], failed);
	assert_true(live == 50.0);
}

/* As many as fill the memory so often, with what an item takes beside its value. */
static void the_memory_is_written_so_often(void **state)
{
	(void)state;
	assert_int_equal(shift(1, "100", NULL), 0);
	assert_int_equal(store.puts, 100);
	assert_int_equal(store.puts_of[100], 100);
	assert_line(strchr(printed, '\n') + 1, 100, 100, 100, 0);
	assert_int_equal(shift(3, "100", NULL), 0);
	assert_int_equal(store.puts, 400);
}

static void each_size_has_its_line(void **state)
{
	const char *line;
	uint64_t between = 0;

	(void)state;
	assert_int_equal(shift(2, "252", "10-19"), 0);
	assert_int_equal(store.puts_of[252], 99); /* 29,600 / 300 */
	for (unsigned int len = 10; len < 20; len++) {
		assert_true(store.puts_of[len] > 0);
		between += store.puts_of[len];
	}
	assert_int_equal(between + 99, store.puts);
	line = strchr(printed, '\n') + 1;
	assert_line(line, 252, 252, 99, 0);
	assert_line(strchr(line, '\n') + 1, 10, 19, (unsigned int)between, 0);
}

/* A line of the report: the figures of the time. */
static void assert_rates(const char *line, double seconds, unsigned int steady, unsigned int worst,
			 double ratio)
{
	double numbers[2];
	unsigned int rates[2];

	assert_int_equal(sscanf(line, "%*u-%*u %*u %lf %u %u %lf", &numbers[0], &rates[0],
				&rates[1], &numbers[1]),
			 4);
	assert_true(numbers[0] == seconds);
	assert_int_equal(rates[0], steady);
	assert_int_equal(rates[1], worst);
	assert_true(numbers[1] == ratio);
}

/* PUTs in a tenth of a second, and the worst one: not the last, which is seldom a whole one. */
static void rates_are_of_whole_intervals(void **state)
{
	(void)state;
	store.put_ns = 5000000;
	/* 19, 20, 20, 20, 20, and 1: the first one is counted when it is done. */
	assert_int_equal(shift(1, "100", NULL), 0);
	assert_rates(strchr(printed, '\n') + 1, 0.6, 200, 190, 0.95);
}

/* 19, 20, and 11 of the second size: with none of the first one's. */
static void each_size_has_its_rates(void **state)
{
	const char *line;

	(void)state;
	store.put_ns = 5000000;
	assert_int_equal(shift(1, "100", "252"), 0);
	line = strchr(printed, '\n') + 1;
	assert_rates(line, 0.6, 200, 190, 0.95);
	assert_rates(strchr(line, '\n') + 1, 0.3, 200, 190, 0.95);
}

/* One PUT takes 36 s: the last one ends after the last interval that is counted. */
static void a_step_of_an_hour(void **state)
{
	(void)state;
	store.put_ns = 36000000000;
	assert_int_equal(shift(1, "100", NULL), 0);
	assert_rates(strchr(printed, '\n') + 1, 3564.1, 0, 0, 0);
}

static void failures_are_counted_and_end_a_step(void **state)
{
	char warning[1024];
	char *sizes[] = { (char *)(uintptr_t) "10", (char *)(uintptr_t) "20" };
	int result;

	(void)state;
	store.fails_from = 5;
	captured_begin(stderr);
	result = shift_run(&target, 1000, sizes, 1);
	snprintf(warning, sizeof(warning), "%s", captured_end());
	assert_int_equal(result, -EIO);
	assert_int_equal(store.puts, 4 + FAILURES_MAX);
	/* One of them is printed. */
	assert_non_null(strstr(warning, "PUT of 10 bytes: "));
	assert_null(strstr(strchr(warning, '\n'), "PUT of"));
	/* A size that fails does not hide behind one that does not. */
	store.puts = 0;
	store.fails_from = 0;
	store.fails_until = FAILURES_MAX;
	assert_int_equal(shift(1, "100", "252"), -EIO);
	assert_line(strchr(printed, '\n') + 1, 100, 100, 0, FAILURES_MAX);
	assert_line(strchr(strchr(printed, '\n') + 1, '\n') + 1, 252, 252, 50, 0);
}

static void assert_refused(const char *first, const char *second)
{
	const char *why;
	char *sizes[] = { (char *)(uintptr_t)first, (char *)(uintptr_t)second };
	int result;

	captured_begin(stderr);
	result = shift_run(&target, 1, sizes, second ? 2 : 1);
	why = captured_end();
	assert_int_equal(result, -EINVAL);
	assert_non_null(strstr(why, "shift takes SIZE or SIZE-SIZE"));
	assert_int_equal(fake_store.opened, 0);
}

static void sizes_that_are_none(void **state)
{
	(void)state;
	assert_refused("", NULL);
	assert_refused("x", NULL);
	assert_refused("5k", NULL);
	assert_refused("5-", "10-9");
	assert_refused("10-9", NULL);
	assert_refused("1048577", NULL);
	assert_refused("1-1048577", NULL);
	/* The second one is found before the first one is done. */
	assert_refused("100", "y");
	assert_int_equal(shift(1, "1048576", NULL), 0);
	assert_int_equal(store.puts_of[LEN_MAX], 1);
}

static void a_server_without_the_figures(void **state)
{
	const char *why;
	int result;

	(void)state;
	fake_store.statistics = "item_memory_live_bytes 5\n";
	captured_begin(stderr);
	result = shift_run(&target, 1, (char *[]){ (char *)(uintptr_t) "10" }, 1);
	why = captured_end();
	assert_int_equal(result, -EIO);
	assert_non_null(strstr(why, "item_memory_bytes: the store's reason"));
	assert_int_equal(store.puts, 0);
	fake_store.open_status = KVD_ERR_UNREACHABLE;
	captured_begin(stderr);
	result = shift_run(&target, 1, (char *[]){ (char *)(uintptr_t) "10" }, 1);
	captured_end();
	assert_int_equal(result, -ENOTCONN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fake_store_teardown)
		TEST(rates_are_of_whole_intervals), TEST(the_memory_is_written_so_often),
		TEST(each_size_has_its_line),	    TEST(failures_are_counted_and_end_a_step),
		TEST(sizes_that_are_none),	    TEST(a_server_without_the_figures),
		TEST(each_size_has_its_rates),	    TEST(a_step_of_an_hour),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
