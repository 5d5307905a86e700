/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's property parser: the syntax of java.util.Properties, rule by rule, and errors.
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

#include "bench/props.h"

static struct props props;

static int setup(void **state)
{
	(void)state;
	props_init(&props);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	props_release(&props);
	return 0;
}

static int parse(const char *text)
{
	return props_parse(&props, text, strlen(text), "file");
}

static const char *value_of(const char *key)
{
	const struct prop *prop = props_find(&props, key);

	return prop ? prop->value : "(none)";
}

/* Asserts that @text is exactly this property. */
static void expect_one(const char *text, const char *key, const char *value)
{
	props_release(&props);
	assert_int_equal(parse(text), 0);
	assert_int_equal(props.count, 1);
	assert_string_equal(props.list[0].key, key);
	assert_string_equal(props.list[0].value, value);
}

static void separators(void **state)
{
	(void)state;
	expect_one("a=b", "a", "b");
	expect_one("a:b", "a", "b");
	expect_one("a b", "a", "b");
	expect_one("a\tb", "a", "b");
	expect_one("a\fb", "a", "b");
	expect_one("  a  =  b", "a", "b");
	expect_one("a = = b", "a", "= b");
	expect_one("a : = b", "a", "= b");
	expect_one("a", "a", "");
	expect_one("a=", "a", "");
	expect_one("a=b=c:d", "a", "b=c:d");
	expect_one("=b", "", "b");
}

static void byte_order_mark(void **state)
{
	(void)state;
	expect_one("\xef\xbb\xbf"
		   "a=b",
		   "a", "b");
	expect_one("\xef\xbb\xbf# c\na=b", "a", "b");
}

static void trailing_blanks_stay(void **state)
{
	(void)state;
	expect_one("a=b \n", "a", "b ");
	expect_one("a=b c\t\r\n", "a", "b c\t");
}

static void comments_and_blank_lines(void **state)
{
	(void)state;
	expect_one("# a=1\n! b=2\n   # c=3\n\n \t\f\n\r\nd=4\n#e=5", "d", "4");
	expect_one("a=#b", "a", "#b");
	expect_one("#a\\\nb=1", "b", "1"); /* a comment is not continued */
}

static void line_ends(void **state)
{
	(void)state;
	assert_int_equal(parse("a=1\r\nb=2\rc=3\nd=4"), 0);
	assert_string_equal(value_of("a"), "1");
	assert_string_equal(value_of("b"), "2");
	assert_string_equal(value_of("c"), "3");
	assert_string_equal(value_of("d"), "4");
	assert_int_equal(props_find(&props, "a")->line, 1);
	assert_int_equal(props_find(&props, "b")->line, 2);
	assert_int_equal(props_find(&props, "c")->line, 3);
	assert_int_equal(props_find(&props, "d")->line, 4);
}

static void continuations(void **state)
{
	(void)state;
	expect_one("a=b\\\n   c", "a", "bc");
	expect_one("a=b\\\r\n\t c", "a", "bc");
	expect_one("a\\\n =b", "a", "b");
	expect_one("a=b\\\\\n", "a", "b\\");
	expect_one("a=b\\\\\\\nc", "a", "b\\c");
	expect_one("a=b\\\n#c", "a", "b#c");
	expect_one("a=b\\\n\n", "a", "b");
	expect_one("a=b\\", "a", "b");
}

static void a_continued_line_has_its_first_number(void **state)
{
	(void)state;
	assert_int_equal(parse("\n\na=1\\\n2\\\n3\nb=4"), 0);
	assert_int_equal(props_find(&props, "a")->line, 3);
	assert_int_equal(props_find(&props, "b")->line, 6);
}

static void escapes(void **state)
{
	(void)state;
	expect_one("a\\=b=c", "a=b", "c");
	expect_one("a\\:b c", "a:b", "c");
	expect_one("a\\ b c", "a b", "c");
	expect_one("a=\\t\\n\\r\\f\\z\\\"", "a", "\t\n\r\fz\"");
	expect_one("a=\\u0041\\u00e4\\u20AC", "a", "A\xc3\xa4\xe2\x82\xac");
	expect_one("a=\\\\u0041", "a", "\\u0041");
}

static void bad_unicode_is_refused_by_line(void **state)
{
	static const char *const bad[] = { "x=1\na=\\u12", "x=1\na=\\u12g4", "x=1\na=\\u",
					   "x=1\na=\\u0000", "x=1\n\\u-123=a" };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(parse(bad[i]), -EINVAL);
		assert_non_null(strstr(props.error, "file:2: "));
	}
}

static void later_values_win(void **state)
{
	char where[64];

	(void)state;
	assert_int_equal(parse("a=1\na=2"), 0);
	assert_int_equal(props.count, 1);
	assert_string_equal(value_of("a"), "2");
	assert_string_equal(prop_where(props_find(&props, "a"), where, sizeof(where)), "file:2");
	assert_int_equal(props_parse(&props, "b=1\n\na=3", 8, "other"), 0);
	assert_string_equal(prop_where(props_find(&props, "a"), where, sizeof(where)), "other:3");
	assert_int_equal(props_set(&props, "a=4=5 "), 0);
	assert_string_equal(value_of("a"), "4=5 ");
	assert_string_equal(prop_where(props_find(&props, "a"), where, sizeof(where)), "-p");
}

static void arguments_need_key_and_equals(void **state)
{
	(void)state;
	assert_int_equal(props_set(&props, "a"), -EINVAL);
	assert_int_equal(props_set(&props, "=a"), -EINVAL);
	assert_int_equal(props_set(&props, "a="), 0);
	assert_string_equal(value_of("a"), "");
}

static void bounds(void **state)
{
	char text[64];
	int i;

	(void)state;
	assert_int_equal(props_parse(&props, "a=1\0b", 5, "file"), -EINVAL);
	for (i = 0; i < PROPS_MAX; i++) {
		snprintf(text, sizeof(text), "key%d=1", i);
		assert_int_equal(props_set(&props, text), 0);
	}
	assert_int_equal(props_set(&props, "one-more=1"), -E2BIG);
	assert_int_equal(props_set(&props, "key7=2"), 0);
}

static void files(void **state)
{
	char path[] = "/tmp/kvd-props.XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	unsigned int i;

	(void)state;
	assert_int_equal(props_load(&props, "/nonexistent/file"), -ENOENT);
	assert_non_null(strstr(props.error, "/nonexistent/file"));
	assert_int_equal(props_load(&props, "/"), -EISDIR);
	fputs("a=1\n", file);
	fflush(file);
	assert_int_equal(props_load(&props, path), 0);
	assert_string_equal(value_of("a"), "1");
	for (i = 0; i < PROPS_FILE_MAX; i++)
		fputc('#', file);
	fclose(file);
	assert_int_equal(props_load(&props, path), -E2BIG);
	unlink(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(separators),
		TEST(byte_order_mark),
		TEST(trailing_blanks_stay),
		TEST(comments_and_blank_lines),
		TEST(line_ends),
		TEST(continuations),
		TEST(a_continued_line_has_its_first_number),
		TEST(escapes),
		TEST(bad_unicode_is_refused_by_line),
		TEST(later_values_win),
		TEST(arguments_need_key_and_equals),
		TEST(bounds),
		TEST(files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
