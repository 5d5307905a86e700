/* SPDX-License-Identifier: MIT */
/*
 * Tests of common/util/parse.h: the sizes, times, integers, modes and booleans that it accepts,
 * those that it refuses, and the reasons that it gives.
 */
#include "common/util/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNTOUCHED 0xdeadbeefull

typedef int parse_fn(const char *text, uint64_t min, uint64_t max, uint64_t *value,
		     struct parse_why *why);

struct good {
	const char *text;
	uint64_t value;
};

static void accept_all(parse_fn *parse, const struct good *good, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct parse_why why = { "" };
		uint64_t value = UNTOUCHED;

		if (parse(good[i].text, 0, UINT64_MAX, &value, &why))
			fail_msg("'%s' was refused: %s", good[i].text, why.text);
		if (value != good[i].value)
			fail_msg("'%s' became %" PRIu64, good[i].text, value);
	}
}

static void refuse_all(parse_fn *parse, const char *const *texts, int error, const char *hint)
{
	for (; *texts; texts++) {
		struct parse_why why = { "" };
		uint64_t value = UNTOUCHED;
		int ret = parse(*texts, 0, UINT64_MAX, &value, &why);

		if (ret != error)
			fail_msg("'%s' gave %d", *texts, ret);
		assert_int_equal(value, UNTOUCHED);
		if (!strstr(why.text, hint))
			fail_msg("'%s': '%s' does not say '%s'", *texts, why.text, hint);
		/* Without a buffer for the reason, too. */
		assert_int_equal(parse(*texts, 0, UINT64_MAX, &value, NULL), error);
	}
}

#define ACCEPT(parse, ...)                                                                         \
	do {                                                                                       \
		static const struct good list[] = { __VA_ARGS__ };                                 \
		accept_all(parse, list, sizeof(list) / sizeof(list[0]));                           \
	} while (0)

#define REFUSE(parse, error, hint, ...)                                                            \
	do {                                                                                       \
		static const char *const list[] = { __VA_ARGS__, NULL };                           \
		refuse_all(parse, list, error, hint);                                              \
	} while (0)

static void test_uint(void **state)
{
	(void)state;
	ACCEPT(parse_uint, { "0", 0 }, { "7", 7 }, { "0010", 10 },
	       { "18446744073709551615", UINT64_MAX });
	REFUSE(parse_uint, -EINVAL, "digits", "", " ", "-1", "+1", "1 ", " 1", "0x10", "1.5", "1e3",
	       "1k", "one", "18446744073709551616k");
	/* Also if the digits after the overflow fit again. */
	REFUSE(parse_uint, -ERANGE, "out of range", "18446744073709551616", "18446744073709551617",
	       "184467440737095516160", "184467440737095516161",
	       "99999999999999999999999999999999999999999999999999999999999999999999999999999");
}

static void test_size(void **state)
{
	(void)state;
	ACCEPT(parse_size, { "0", 0 }, { "4096", 4096 }, { "2k", 2048 }, { "64m", 64ull << 20 },
	       { "64M", 64ull << 20 }, { "512g", 512ull << 30 }, { "1t", 1ull << 40 }, { "0g", 0 },
	       { "16777215t", 16777215ull << 40 });
	REFUSE(parse_size, -EINVAL, "64m", "", "m", "64mb", "64 m", "1.5g", "-1k", "64ms", "5s",
	       "1kk", "k1");
	REFUSE(parse_size, -ERANGE, "out of range", "16777216t", "18446744073709551616",
	       "18446744073709551615k", "184467440737095516161073741824", "18014398509481985k");
}

static void test_time(void **state)
{
	(void)state;
	ACCEPT(parse_time, { "0", 0 }, { "0s", 0 }, { "100ns", 100 }, { "50us", 50000 },
	       { "500ms", 500000000 }, { "5s", 5000000000 }, { "2m", 120000000000 },
	       { "1h", 3600000000000 }, { "10MS", 10000000 });
	/* A time without a unit could be seconds or milliseconds: it is refused. */
	REFUSE(parse_time, -EINVAL, "500ms", "", "5", "500", "s", "5 s", "1.5s", "-1s", "5k",
	       "5min", "18446744073709551616");
	REFUSE(parse_time, -ERANGE, "out of range", "5124096h", "18446744073709551616ns");
}

static void test_limits(void **state)
{
	struct parse_why why;
	uint64_t value = UNTOUCHED;

	(void)state;
	assert_int_equal(parse_uint("65", 1, 64, &value, &why), -ERANGE);
	assert_string_equal(why.text, "'65' is out of range: give 1 to 64");
	assert_int_equal(parse_uint("0", 1, 64, &value, &why), -ERANGE);
	assert_int_equal(parse_size("15m", 16 << 20, 1ull << 30, &value, &why), -ERANGE);
	assert_string_equal(why.text, "'15m' is out of range: give 16m to 1g");
	assert_int_equal(parse_time("2s", 0, 1000000000, &value, &why), -ERANGE);
	assert_string_equal(why.text, "'2s' is out of range: give 0 to 1s");
	assert_int_equal(value, UNTOUCHED);

	assert_int_equal(parse_uint("1", 1, 64, &value, &why), 0);
	assert_int_equal(value, 1);
	assert_int_equal(parse_uint("64", 1, 64, &value, &why), 0);
	assert_int_equal(value, 64);
}

static void test_mode(void **state)
{
	static const char *const bad[] = { "", "0o660", "rw", "8", "0668", "-1", "660 " };
	struct parse_why why;
	uint32_t mode = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(parse_mode(bad[i], &mode, &why), -EINVAL);
		assert_non_null(strstr(why.text, "octal"));
	}
	assert_int_equal(parse_mode("1000", &mode, &why), -ERANGE);
	assert_int_equal(parse_mode("7777777777777777777777777777", &mode, &why), -ERANGE);
	assert_int_equal(mode, 1);
	assert_int_equal(parse_mode("0660", &mode, &why), 0);
	assert_int_equal(mode, 0660);
	assert_int_equal(parse_mode("777", &mode, NULL), 0);
	assert_int_equal(mode, 0777);
}

static void test_bool(void **state)
{
	static const char *const words[][2] = {
		{ "yes", "no" }, { "true", "false" }, { "on", "off" },
		{ "1", "0" },	 { "YES", "No" },
	};
	struct parse_why why;
	bool value;

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		value = false;
		assert_int_equal(parse_bool(words[i][0], &value, &why), 0);
		assert_true(value);
		assert_int_equal(parse_bool(words[i][1], &value, &why), 0);
		assert_false(value);
	}
	value = true;
	assert_int_equal(parse_bool("y", &value, &why), -EINVAL);
	assert_int_equal(parse_bool("", &value, NULL), -EINVAL);
	assert_int_equal(parse_bool("2", &value, &why), -EINVAL);
	assert_string_equal(why.text, "'2' is neither: give yes or no");
	assert_true(value);
}

static void test_format(void **state)
{
	char text[PARSE_FORMAT_MAX];

	(void)state;
	assert_string_equal(format_size(0, text), "0");
	assert_string_equal(format_size(1023, text), "1023");
	assert_string_equal(format_size(1536, text), "1536");
	assert_string_equal(format_size(2048, text), "2k");
	assert_string_equal(format_size(64ull << 20, text), "64m");
	assert_string_equal(format_size(3ull << 40, text), "3t");
	assert_string_equal(format_size(UINT64_MAX, text), "18446744073709551615");
	assert_string_equal(format_time(0, text), "0");
	assert_string_equal(format_time(50000, text), "50us");
	assert_string_equal(format_time(1500000000, text), "1500ms");
	assert_string_equal(format_time(90000000000, text), "90s");
	assert_string_equal(format_time(60000000000, text), "1m");
	assert_string_equal(format_time(UINT64_MAX, text), "18446744073709551615ns");
}

/* What is formatted is parsed back to the same value, for values of all magnitudes. */
static void test_round_trip(void **state)
{
	char text[PARSE_FORMAT_MAX];
	uint64_t value;

	(void)state;
	for (unsigned int shift = 0; shift < 64; shift++) {
		for (uint64_t add = 0; add < 3; add++) {
			uint64_t wanted = (1ull << shift) + add * 1000 - 1;

			assert_int_equal(parse_size(format_size(wanted, text), 0, UINT64_MAX,
						    &value, NULL),
					 0);
			assert_int_equal(value, wanted);
			assert_int_equal(parse_time(format_time(wanted, text), 0, UINT64_MAX,
						    &value, NULL),
					 0);
			assert_int_equal(value, wanted);
		}
	}
}

/* A hostile text neither overruns the message nor fills all of it. */
static void test_long_text(void **state)
{
	struct parse_why why;
	uint64_t value;
	char text[4096];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(parse_size(text, 0, 1, &value, &why), -EINVAL);
	assert_true(strlen(why.text) < sizeof(why.text) - 1);
	assert_non_null(strstr(why.text, "64m"));
	memset(text, '9', sizeof(text) - 1);
	assert_int_equal(parse_size(text, 0, UINT64_MAX, &value, &why), -ERANGE);
	assert_non_null(strstr(why.text, "give 0 to 18446744073709551615"));
}

/* Numbers without a unit count in the one that is asked for. */
static void test_duration(void **state)
{
	struct parse_why why;
	uint64_t value = 7;

	(void)state;
	assert_int_equal(parse_duration("5s", 1000000, 1, 3600000, &value, &why), 0);
	assert_int_equal(value, 5000);
	assert_int_equal(parse_duration("5000", 1000000, 1, 3600000, &value, &why), 0);
	assert_int_equal(value, 5000);
	assert_int_equal(parse_duration("2m", 1000000000, 1, 120, &value, &why), 0);
	assert_int_equal(value, 120);
	assert_int_equal(parse_duration("0", 1000000000, 0, 120, &value, &why), 0);
	assert_int_equal(value, 0);
	value = 7;
	assert_int_equal(parse_duration("121", 1000000000, 0, 120, &value, &why), -ERANGE);
	assert_non_null(strstr(why.text, "give 0 to 2m"));
	assert_int_equal(parse_duration("1500us", 1000000, 0, 120, &value, &why), -EINVAL);
	assert_non_null(strstr(why.text, "not a multiple of 1ms"));
	assert_int_equal(parse_duration("", 1000000, 0, 120, &value, &why), -EINVAL);
	assert_int_equal(parse_duration("99999999999999999999999", 1000000, 0, 120, &value, NULL),
			 -ERANGE);
	assert_int_equal(value, 7);
}

static void test_shown_sizes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} each[] = {
		{ 0, "0 bytes" },
		{ 1, "1 byte" },
		{ 1023, "1023 bytes" },
		{ 1024, "1 KiB" },
		{ 1025, "1.0 KiB" },
		{ 1536, "1.5 KiB" },
		{ 1048575, "1023.9 KiB" },
		{ 96ull << 20, "96 MiB" },
		{ 1ull << 30, "1 GiB" },
		{ (1ull << 40) + (1ull << 39), "1.5 TiB" },
		{ UINT64_MAX, "16777215.9 TiB" },
	};
	char text[PARSE_FORMAT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
		assert_string_equal(show_size(each[i].bytes, text), each[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uint),	    cmocka_unit_test(test_size),
		cmocka_unit_test(test_time),	    cmocka_unit_test(test_duration),
		cmocka_unit_test(test_shown_sizes), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_mode),	    cmocka_unit_test(test_bool),
		cmocka_unit_test(test_format),	    cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_long_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
