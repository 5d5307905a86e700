/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvtrace's command line: the effect of each option, what each command prints, and the
 * exit statuses. bench/kvtrace/main.c is compiled here; what plays traces is the test's.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/kvtrace/replay.h"
#include "bench/kvtrace/synth.h"
#include "tests/support/program_run.h"

#define URL "softnic:///tmp/kvd-test-kvtrace"

/* What a replay finds. */
static struct replay_result found;
static int replay_fails;

static int fake_replay_run(struct trace *trace, const struct replay_options *options,
			   struct replay_result *result)
{
	const struct trace_format *format = &trace->format;

	program_note("%s at %s, %" PRIu32 " ms, cache %" PRIu64 ", batches of %u, warm-up %" PRIu64
		     ", rate %" PRIu64 "; ",
		     options->target.backend->name, options->target.url, options->timeout_ms,
		     options->cache_bytes, options->batch, options->warmup, options->rate);
	program_note("%s: key %" PRIu32 "%s, size %" PRIu32 " or %" PRIu32, trace->name,
		     format->key_column, format->text_keys ? " text" : "", format->size_column,
		     format->size_default);
	trace->cut = 7;
	*result = found;
	return replay_fails;
}

#define replay_run fake_replay_run
#define main kvtrace_main
int kvtrace_main(int argc, char **argv);
#include "bench/kvtrace/main.c"
#undef main

#define RUN(...) program_run(kvtrace_main, "kvtrace", (const char *const[]){ __VA_ARGS__, NULL })

#define assert_fails(status, text, ...)                                                            \
	do {                                                                                       \
		assert_int_equal(RUN(__VA_ARGS__), status);                                        \
		assert_string_equal(program_result.err, text);                                     \
		assert_string_equal(program_result.out, "");                                       \
	} while (0)

#define assert_usage(text, ...) assert_fails(2, "kvtrace: " text "; see kvtrace -h\n", __VA_ARGS__)

static int setup(void **state)
{
	(void)state;
	memset(&program_files, 0, sizeof(program_files));
	memset(&found, 0, sizeof(found));
	replay_fails = 0;
	return 0;
}

static void input_is(const char *text)
{
	program_files.input = text;
	program_files.input_len = strlen(text);
}

static void assert_played(const char *how, const char *file)
{
	char notes[400];

	snprintf(notes, sizeof(notes), "%s; %s", how, file);
	assert_string_equal(program_result.notes, notes);
}

static void options_of_a_replay(void **state)
{
	(void)state;
	assert_int_equal(RUN("play", "-a", URL, "-"), 0);
	assert_played("kvd at " URL ", 0 ms, cache 33554432, batches of 1, warm-up 0, rate 0",
		      "standard input: key 1, size 2 or 100");
	assert_int_equal(RUN("-a", URL, "-d", "kvd", "-B32", "-c", "64k", "-R", "1000000000", "-t",
			     "4294967294", "-w", "18446744073709551615", "-K64", "-Z3", "-T", "-s",
			     "1000000", "play", "/dev/null"),
			 0);
	assert_played("kvd at " URL ", 4294967294 ms, cache 65536, batches of 32, warm-up "
		      "18446744073709551615, rate 1000000000",
		      "/dev/null: key 64 text, size 3 or 1000000");
	assert_int_equal(RUN("-a", "redis://h:1", "-d", "redis", "-Z64", "play", "-"), 0);
	assert_played("redis at redis://h:1, 0 ms, cache 33554432, batches of 1, warm-up 0, rate 0",
		      "standard input: key 1, size 64 or 100");
}

static void what_a_replay_found(void **state)
{
	(void)state;
	found = (struct replay_result){ .accesses = 9000000000,
					.hits = 3000000000,
					.not_stored = 4000000000,
					.resized = 5000000000,
					.elapsed_ns = 61001500000 };
	assert_int_equal(RUN("play", "-a", URL, "-"), 0);
	assert_string_equal(program_result.out, "accesses 9000000000\nhits 3000000000\n"
						"hit_percent 33.333\nnot_stored 4000000000\n"
						"resized 5000000000\nwrong 0\ncut 7\n"
						"seconds 61.002\n");
	found = (struct replay_result){ .wrong = 1, .accesses = 1, .hits = 1 };
	assert_int_equal(RUN("play", "-a", URL, "-"), 1);
	assert_string_equal(program_result.out, "accesses 1\nhits 1\nhit_percent 100.000\n"
						"not_stored 0\nresized 0\nwrong 1\ncut 7\n"
						"seconds 0.000\n");
	replay_fails = -EIO;
	assert_fails(1, "", "play", "-a", URL, "-");
}

static void limits_of_lru(void **state)
{
	(void)state;
	input_is("1 10\n2 20\n1 10\n3 30\n2 20\n");
	assert_int_equal(RUN("lru", "-"), 0);
	assert_string_equal(program_result.out,
			    "accesses 5\nhits 2\nhit_percent 40.000\nitems 3\nbytes 60\n");
	assert_int_equal(RUN("-i2", "lru", "-"), 0);
	assert_string_equal(program_result.out,
			    "accesses 5\nhits 1\nhit_percent 20.000\nitems 2\nbytes 50\n");
	assert_int_equal(RUN("-b", "59", "lru", "-"), 0);
	assert_string_equal(program_result.out,
			    "accesses 5\nhits 1\nhit_percent 20.000\nitems 2\nbytes 50\n");
	assert_int_equal(RUN("-b", "1k", "-o1000", "lru", "-"), 0);
	assert_string_equal(program_result.out,
			    "accesses 5\nhits 0\nhit_percent 0.000\nitems 1\nbytes 1020\n");
	assert_int_equal(RUN("-w4", "-s7", "-Z3", "lru", "-"), 0);
	assert_string_equal(program_result.out,
			    "accesses 1\nhits 1\nhit_percent 100.000\nitems 3\nbytes 21\n");
	input_is("");
	assert_int_equal(RUN("lru", "-"), 0);
	assert_string_equal(program_result.out,
			    "accesses 0\nhits 0\nhit_percent 0.000\nitems 0\nbytes 0\n");
}

/* Nothing of a bad trace is reported. */
static void traces_that_fail(void **state)
{
	(void)state;
	input_is("1\nx\n");
	assert_fails(1, "kvtrace: standard input:2: 'x' is no key: give a number below 2^64\n",
		     "lru", "-");
	assert_fails(1, "kvtrace: /nowhere/trace: No such file or directory\n", "lru",
		     "/nowhere/trace");
	assert_fails(1, "kvtrace: /nowhere/trace: No such file or directory\n", "play", "-a", URL,
		     "/nowhere/trace");
	assert_string_equal(program_result.notes, "");
}

/* The output is a trace of this shape. */
static void assert_made(const struct synth_shape *shape, size_t count)
{
	static struct synth synth;
	const char *at = program_result.out;
	struct trace_access access;
	char line[64];

	synth_init(&synth, shape);
	while (count--) {
		synth_next(&synth, &access);
		snprintf(line, sizeof(line), "%" PRIu64 " %" PRIu32 "\n", access.key, access.size);
		assert_memory_equal(at, line, strlen(line));
		at += strlen(line);
	}
	assert_string_equal(at, "");
}

static void traces_of_each_shape(void **state)
{
	struct synth_shape shape = {
		.keys = 50, .scan_run = 1000, .size_min = 100, .size_max = 100, .seed = 1
	};

	(void)state;
	assert_int_equal(RUN("make", "-n500", "-k50"), 0);
	assert_made(&shape, 500);
	shape.scan_share = 0.25;
	assert_int_equal(RUN("-n1000", "-k50", "-p25", "make"), 0);
	assert_made(&shape, 1000);
	shape.scan_run = 7;
	shape.drift = 3;
	shape.seed = 4294967295;
	shape.size_min = 0;
	shape.size_max = 1000000;
	assert_int_equal(RUN("-n1k", "-k50", "-p25", "-r7", "-D3", "-S4294967295", "-s0-1000000",
			     "make"),
			 0);
	assert_made(&shape, 1024);
	shape.size_min = shape.size_max = 1000000;
	assert_int_equal(RUN("-n10", "-k50", "-p25", "-r7", "-D3", "-S4294967295",
			     "-s1000000-1000000", "make"),
			 0);
	assert_made(&shape, 10);
}

/* The least and the most that each option takes. */
static void numbers_out_of_range(void **state)
{
	static const struct {
		const char *option, *least, *below, *most, *beyond;
	} each[] = {
		{ "-b", "1", "0", "18446744073709551615", "18446744073709551616" },
		{ "-B", "1", "0", "32", "33" },
		{ "-c", "0", "-1", "18446744073709551615", "18446744073709551616" },
		{ "-D", "1", "0", "18446744073709551615", "18446744073709551616" },
		{ "-i", "1", "0", "4294967294", "4294967295" },
		{ "-k", "1", "0", "1099511627776", "1099511627777" },
		{ "-K", "1", "0", "64", "65" },
		{ "-n", "1", "0", "18446744073709551615", "18446744073709551616" },
		{ "-o", "0", "-1", "1000000", "1000001" },
		{ "-p", "0", "-1", "99", "100" },
		{ "-r", "1", "0", "1099511627776", "1099511627777" },
		{ "-R", "1", "0", "1000000000", "1000000001" },
		{ "-s", "0", "-1", "1000000", "1000001" },
		{ "-s", "0-0", "0-", "999999-1000000", "0-1000001" },
		{ "-s", "5-5", "5-4", "10-99", "x-5" },
		{ "-S", "0", "-1", "4294967295", "4294967296" },
		{ "-t", "1", "0", "4294967294", "4294967295" },
		{ "-w", "0", "-1", "18446744073709551615", "18446744073709551616" },
		{ "-Z", "1", "0", "64", "65" },
	};
	char said[20];

	(void)state;
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		assert_int_equal(RUN(each[i].option, each[i].least, "lru", "/dev/null"), 0);
		assert_int_equal(RUN(each[i].option, each[i].most, "lru", "/dev/null"), 0);
		snprintf(said, sizeof(said), "kvtrace: %s: ", each[i].option);
		assert_int_equal(RUN(each[i].option, each[i].below, "lru", "/dev/null"), 2);
		program_assert_said(said);
		assert_int_equal(RUN(each[i].option, each[i].beyond, "lru", "/dev/null"), 2);
		program_assert_said(said);
		assert_string_equal(program_result.out, "");
	}
	assert_usage("-s: no size", "-s", "00000000000000000000000000000000", "lru", "-");
	assert_int_equal(RUN("-s", "0000000000000000000000000000001", "lru", "-"), 0);
}

static void refusals(void **state)
{
	(void)state;
	assert_usage("give a command: make, play or lru", "-n5");
	assert_usage("no such command: frobnicate", "frobnicate");
	assert_usage("one argument too many: more", "lru", "-", "more");
	assert_usage("make: -n and -k are needed", "make", "-n5");
	assert_usage("make: -n and -k are needed", "make", "-k5");
	assert_usage("make: it takes no FILE, and prints the trace", "make", "-n5", "-k5", "trace");
	assert_usage("lru: a FILE is needed", "lru");
	assert_usage("play: a FILE is needed", "play", "-a", URL);
	assert_usage("play: -d leveldb: no such store; give kvd, memcached or redis", "play", "-d",
		     "leveldb", "-a", URL, "-");
	assert_usage("play: -c is for -d kvd only: others have no bucket cache", "play", "-d",
		     "redis", "-a", "redis://h:1", "-c0", "-");
	assert_string_equal(program_result.notes, "");
	assert_int_equal(RUN("-q"), 2);
	program_assert_said("-- 'q'");
	assert_int_equal(RUN("-a"), 2);
}

static void help_of_kvtrace(void **state)
{
	(void)state;
	assert_int_equal(RUN("-h", "play"), 0);
	assert_memory_equal(program_result.out, "Usage: kvtrace make ", 20);
	assert_non_null(strstr(program_result.out, "\n      memcached  "));
	assert_non_null(strstr(program_result.out, "\nExit status: 0 success;"));
	assert_string_equal(program_result.err, "");
}

/* A trace that is cut off would give other hits. */
static void output_that_is_full(void **state)
{
	static const char full[] = "kvtrace: standard output: No space left on device\n";

	(void)state;
	program_files.output_path = "/dev/full";
	assert_fails(1, full, "make", "-n5", "-k5");
	assert_fails(1, full, "make", "-n1m", "-k5");
	assert_fails(1, full, "play", "-a", URL, "-");
	assert_fails(1, full, "lru", "/dev/null");
	assert_fails(1, full, "-h");
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(options_of_a_replay),
		CASE(what_a_replay_found),
		CASE(limits_of_lru),
		CASE(traces_that_fail),
		CASE(traces_of_each_shape),
		CASE(numbers_out_of_range),
		CASE(refusals),
		CASE(help_of_kvtrace),
		CASE(output_that_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
