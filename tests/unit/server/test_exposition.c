/* SPDX-License-Identifier: MIT */
/*
 * Tests of the text format of Prometheus (server/http/exposition.h): how labels are escaped, that
 * what does not fit is left out whole, times as seconds, histograms, and the bound of a text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/exposition.h"

static struct exposition out;

static int teardown(void **state)
{
	(void)state;
	free(out.text);
	out = (struct exposition){ 0 };
	return 0;
}

static void assert_text(const char *wanted)
{
	assert_false(out.failed);
	assert_int_equal(out.bytes, strlen(wanted));
	assert_memory_equal(out.text, wanted, out.bytes);
}

static void families_and_samples(void **state)
{
	struct labels labels = { 0 };

	(void)state;
	exposition_one(&out, "kvd_up", METRIC_GAUGE, "it is up", 1);
	exposition_family(&out, "kvd_x_total", METRIC_COUNTER, "a count");
	label_add(&labels, "a", "b");
	exposition_number(&out, label_add_number(&labels, "n", 7), UINT64_MAX);
	exposition_number(&out, NULL, 0);
	assert_text("# HELP kvd_up it is up\n# TYPE kvd_up gauge\nkvd_up 1\n"
		    "# HELP kvd_x_total a count\n# TYPE kvd_x_total counter\n"
		    "kvd_x_total{a=\"b\",n=\"7\"} 18446744073709551615\nkvd_x_total 0\n");
}

/* A value can't end its quotes, its line or the encoding. */
static void labels_are_escaped(void **state)
{
	static const struct {
		const char *value, *text;
	} cases[] = {
		{ "", "a=\"\"" },
		{ "x y", "a=\"x y\"" },
		{ "a\"} 1", "a=\"a\\\"} 1\"" },
		{ "\\n", "a=\"\\\\n\"" },
		{ "1\n2\t3", "a=\"1_2_3\"" },
		{ "\xff\x7f\x01", "a=\"___\"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct labels labels = { 0 };

		label_add(&labels, "a", cases[i].value);
		assert_int_equal(labels.bytes, strlen(cases[i].text));
		assert_memory_equal(labels.text, cases[i].text, labels.bytes);
	}
}

/* A label that does not fit is not there, and neither is a part of it that would need an escape. */
static void labels_are_bounded(void **state)
{
	char value[2 * EXPOSITION_LABELS_MAX];
	struct labels labels, before;

	(void)state;
	for (size_t length = EXPOSITION_LABELS_MAX - 20; length < sizeof(value) - 1; length++) {
		memset(value, '"', length);
		value[length] = '\0';
		labels = (struct labels){ 0 };
		label_add(&labels, "first", "1");
		before = labels;
		label_add(&labels, "long", value);
		assert_int_equal(labels.bytes, before.bytes);
		memset(value, 'x', length);
		label_add(&labels, "long", value);
		assert_true(labels.bytes <= EXPOSITION_LABELS_MAX);
		assert_int_equal(labels.text[labels.bytes - 1], '"');
		label_add(&labels, "after", "1");
		assert_true(labels.bytes <= EXPOSITION_LABELS_MAX);
	}
	exposition_family(&out, "kvd_x", METRIC_GAUGE, "x");
	exposition_number(&out, &before, 1);
	assert_text("# HELP kvd_x x\n# TYPE kvd_x gauge\nkvd_x{first=\"1\"} 1\n");
}

static void times_are_seconds(void **state)
{
	(void)state;
	exposition_family(&out, "t", METRIC_GAUGE, "x");
	exposition_ns(&out, NULL, 0);
	exposition_ns(&out, NULL, 1);
	exposition_ns(&out, NULL, 1500000000);
	exposition_ns(&out, NULL, 100000000000);
	exposition_ns(&out, NULL, UINT64_MAX);
	assert_text("# HELP t x\n# TYPE t gauge\nt 0\nt 0.000000001\nt 1.5\nt 100\n"
		    "t 18446744073.709551615\n");
}

/* Buckets are cumulated, the last one has all values, and the count is the same. */
static void histograms(void **state)
{
	static const uint64_t bounds_ns[] = { 1000, 4000, 1000000000, UINT64_MAX };
	static const uint64_t counts[] = { 5, 0, 2, 1 };
	struct labels labels = { 0 };

	(void)state;
	exposition_family(&out, "h", METRIC_HISTOGRAM, "x");
	label_add(&labels, "w", "0");
	exposition_histogram(&out, &labels, bounds_ns, counts, 4, 2500000000);
	assert_text("# HELP h x\n# TYPE h histogram\n"
		    "h_bucket{w=\"0\",le=\"0.000001\"} 5\nh_bucket{w=\"0\",le=\"0.000004\"} 5\n"
		    "h_bucket{w=\"0\",le=\"1\"} 7\nh_bucket{w=\"0\",le=\"+Inf\"} 8\n"
		    "h_sum{w=\"0\"} 2.5\nh_count{w=\"0\"} 8\n");
}

/* A text that is too long fails as a whole: a part of it would look like fewer metrics. */
static void texts_are_bounded(void **state)
{
	(void)state;
	exposition_family(&out, "kvd_x", METRIC_GAUGE, "x");
	while (!out.failed) {
		exposition_number(&out, NULL, UINT64_MAX);
		assert_true(out.bytes <= EXPOSITION_BYTES_MAX);
	}
	assert_true(out.bytes > EXPOSITION_BYTES_MAX - 64);
	exposition_one(&out, "y", METRIC_GAUGE, "y", 1);
	assert_true(out.failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(families_and_samples, teardown),
		cmocka_unit_test_teardown(labels_are_escaped, teardown),
		cmocka_unit_test_teardown(labels_are_bounded, teardown),
		cmocka_unit_test_teardown(times_are_seconds, teardown),
		cmocka_unit_test_teardown(histograms, teardown),
		cmocka_unit_test_teardown(texts_are_bounded, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
