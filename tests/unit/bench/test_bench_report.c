/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's report: every figure of a made-up run, in the table and in the JSON. The
 * latencies of each operation are far apart, so that no figure is near another one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/report.h"

/* Latencies of an operation, as multiples of its own unit: 1,000 in all. */
static const struct {
	unsigned int count;
	uint64_t units;
} latencies[] = { { 1, 1 }, { 499, 4 }, { 450, 20 }, { 40, 100 }, { 9, 500 }, { 1, 2500 } };

/* What follows from them: their mean is (1 + 1,996 + 9,000 + 4,000 + 4,500 + 2,500) / 1,000. */
enum { MIN, MEAN, P50, P95, P99, P99_9, MAX };
static const double want_units[] = { 1, 21.997, 4, 20, 100, 500, 2500 };
static const char *const json_names[] = { "min", "mean", "p50", "p95", "p99", "p99_9", "max" };

static const char *const text_operations[] = { "READ", "UPDATE", "INSERT", "READ-MODIFY-WRITE" };
static const char *const json_operations[] = { "read", "update", "insert", "rmw" };

/* Nanoseconds of the unit of each operation: no figure of one is one of another. */
static const uint64_t units_ns[] = { 1000, 1700, 2300, 3100 };

static struct workload workload;
static struct run_options options;
static struct result result;
static const struct report report = { &workload, &options, &result, "name" };
static char text[8192];

static void prepare(void)
{
	size_t operation, i;
	unsigned int n;

	workload = (struct workload){ .record_count = 777,
				      .insert_count = WORKLOAD_COUNT_REST,
				      .field_count = 3,
				      .field_length = 50,
				      .threads = 6,
				      .request_distribution = DISTRIBUTION_LATEST,
				      .check = true };
	options = (struct run_options){ .target = { &db_kvd, "softnic:///x\"\\\n", 1 },
					.phase = PHASE_RUN,
					.batch = 1 };
	memset(&result, 0, sizeof(result));
	for (operation = 0; operation < OPERATION_COUNT; operation++) {
		hist_init(&result.stats[operation].latency);
		for (i = 0; i < sizeof(latencies) / sizeof(latencies[0]); i++)
			for (n = 0; n < latencies[i].count; n++)
				hist_record(&result.stats[operation].latency,
					    latencies[i].units * units_ns[operation]);
		result.stats[operation].failed = 11 + operation;
	}
	result.seed = 4711;
	result.elapsed_ns = 2500000000;
	result.operations = 3500;
	result.not_found = 21;
	result.failed = 46;
	result.wrong = 5;
	result.client_cpu_us = 700000;
	result.server_cpu = (struct server_cpu){ true, 1400000, true, 350000, 105000 };
	result.evictions_known = true;
	result.evictions = 99;
	result.client = (struct kvd_stats){ .gets = 2000,
					    .hits = 1900,
					    .puts = 3000,
					    .deletes = 10,
					    .reads = 2600,
					    .round_trips = 5510,
					    .cache_hits = 1500,
					    .cache_stale = 31,
					    .retries = 41,
					    .fallbacks = 51 };
}

static void print(void (*form)(const struct report *report, FILE *out))
{
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_non_null(out);
	form(&report, out);
	assert_int_equal(fclose(out), 0);
}

/* The place after `"name": ` in the JSON, or NULL. */
static const char *json_find(const char *name)
{
	char line[64];
	const char *at;

	snprintf(line, sizeof(line), "\n  \"%s\": ", name);
	at = strstr(text, line);
	return at ? at + strlen(line) : NULL;
}

static double json_figure(const char *name)
{
	const char *at = json_find(name);
	double figure;
	char *end;

	if (!at)
		fail_msg("no %s in\n%s", name, text);
	figure = strtod(at, &end);
	if (end == at || (strncmp(end, ",\n", 2) && strcmp(end, "\n}\n")))
		fail_msg("%s is no number: %.20s", name, at);
	return figure;
}

static void expect(const char *what, double got, double want, double error)
{
	if (fabs(got - want) > error)
		fail_msg("%s: %f instead of %f\n%s", what, got, want, text);
}

static void expect_json(const char *name, double want)
{
	expect(name, json_figure(name), want, 0.0006);
}

/* The histogram keeps quantiles within 1.6 %; minimum, mean and maximum are exact. */
static double allowed(unsigned int figure, double want)
{
	return (figure >= P50 && figure <= P99_9 ? 0.016 * want : 0) + 0.0006;
}

static void json_has_every_latency(void **state)
{
	unsigned int operation, figure;
	char name[32];
	double want;

	(void)state;
	prepare();
	print(report_json);
	for (operation = 0; operation < OPERATION_COUNT; operation++) {
		for (figure = MIN; figure <= MAX; figure++) {
			want = want_units[figure] * (double)units_ns[operation] / 1000;
			snprintf(name, sizeof(name), "%s_%s_us", json_operations[operation],
				 json_names[figure]);
			expect(name, json_figure(name), want, allowed(figure, want));
		}
		snprintf(name, sizeof(name), "%s_count", json_operations[operation]);
		expect_json(name, 1000);
		snprintf(name, sizeof(name), "%s_failed", json_operations[operation]);
		expect_json(name, 11 + operation);
		snprintf(name, sizeof(name), "%s_per_second", json_operations[operation]);
		expect_json(name, 400);
	}
}

/* Skips blanks and returns the number there. */
static double next_number(const char **at)
{
	double number;
	char *end;

	number = strtod(*at, &end);
	assert_ptr_not_equal(end, *at);
	*at = end;
	return number;
}

/* In the table's order: count, per second, and all but the minimum. */
static void table_has_every_latency(void **state)
{
	unsigned int operation, figure;
	char begin[32];
	const char *at;
	double want;

	(void)state;
	prepare();
	print(report_text);
	assert_non_null(strstr(text, "      count  per second   mean us       p50       p95       "
				     "p99     p99.9       max\n"));
	for (operation = 0; operation < OPERATION_COUNT; operation++) {
		snprintf(begin, sizeof(begin), "\n%-18s ", text_operations[operation]);
		at = strstr(text, begin);
		assert_non_null(at);
		at += strlen(begin);
		assert_true(next_number(&at) == 1000);
		assert_true(next_number(&at) == 400);
		for (figure = MEAN; figure <= MAX; figure++) {
			want = want_units[figure] * (double)units_ns[operation] / 1000;
			/* Two decimals below 100 us, one below 10 ms. */
			expect(begin, next_number(&at), want, allowed(figure, want) + 0.051);
		}
		assert_int_equal(*at, '\n');
	}
	assert_non_null(strstr(text, "\nall                       3500        1400   in 2.50 s\n"));
}

static void json_has_the_rest(void **state)
{
	(void)state;
	prepare();
	print(report_json);
	expect_json("records", 777);
	expect_json("threads", 6);
	expect_json("batch", 1);
	expect_json("depth", 1);
	expect_json("seed", 4711);
	expect_json("seconds", 2.5);
	expect_json("operations", 3500);
	expect_json("operations_per_second", 1400);
	expect_json("reads_per_get", 1.3);
	expect_json("round_trips_per_get", 1.25);
	expect_json("client_gets", 2000);
	expect_json("client_hits", 1900);
	expect_json("client_cache_stale", 31);
	expect_json("client_cpu_us", 700000);
	expect_json("client_cpu_us_per_operation", 200);
	expect_json("server_cpu_us", 1400000);
	expect_json("server_cpu_us_per_operation", 400);
	expect_json("server_useful_us_per_operation", 100);
	expect_json("server_polling_us_per_operation", 30);
	expect_json("not_found", 21);
	expect_json("failed", 46);
	expect_json("wrong", 5);
	assert_int_equal(strncmp(json_find("checked"), "true,\n", 6), 0);
	assert_int_equal(strncmp(json_find("url"), "\"softnic:///x\\\"\\\\\\u000a\",\n", 26), 0);
	assert_int_equal(strncmp(json_find("distribution"), "\"latest\",\n", 10), 0);
}

static void table_has_the_rest(void **state)
{
	static const char *const lines[] = {
		"run name: 6 threads, latest over 777 records of 3 x 50 B\n",
		"\nREADs per GET        1.300\n",
		"\nround trips per GET  1.250\n",
		"\nbucket cache         75.00 % of GETs hit, 31 stale\n",
		"\nretries              41 reads again, 51 fallbacks to the server\n",
		"\nCPU, kvd process     400.000 us per operation, 56.0 % of a core\n",
		"\nCPU, its workers     100.000 us per operation useful, 30.000 us polling\n",
		"\nCPU, kvbench         200.000 us per operation, 28.0 % of a core\n",
		"\nnot found            21\nfailed               46\n",
		"\nwrong values         5 of 1900 checked\n",
		"\n21 GETs found no record: it was not loaded, or it was evicted (99 evictions",
	};
	size_t i;

	(void)state;
	prepare();
	print(report_text);
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (!strstr(text, lines[i]))
			fail_msg("no '%s' in\n%s", lines[i], text);
}

/* What did not happen, or is not known, is left out rather than printed as 0. */
static void nothing_is_made_up(void **state)
{
	(void)state;
	prepare();
	hist_init(&result.stats[OPERATION_RMW].latency);
	result.stats[OPERATION_RMW].failed = 0;
	result.server_cpu = (struct server_cpu){ 0 };
	options.target.depth = 16;
	print(report_json);
	assert_null(json_find("rmw_count"));
	assert_null(json_find("rmw_mean_us"));
	assert_null(json_find("server_cpu_us"));
	assert_null(json_find("server_useful_us"));
	assert_null(json_find("round_trips_per_get"));
	expect_json("insert_count", 1000);
	print(report_text);
	assert_null(strstr(text, "READ-MODIFY-WRITE"));
	assert_null(strstr(text, "round trips"));
	assert_non_null(strstr(text, "not known: the server did not report it\n"));
	/* One that only failed is there, without a latency. */
	result.stats[OPERATION_RMW].failed = 2;
	print(report_json);
	expect_json("rmw_count", 0);
	expect_json("rmw_failed", 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_has_every_latency), cmocka_unit_test(table_has_every_latency),
		cmocka_unit_test(json_has_the_rest),	  cmocka_unit_test(table_has_the_rest),
		cmocka_unit_test(nothing_is_made_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
