/* SPDX-License-Identifier: MIT */
/* What kvctl bigkeys counts (client/kvctl/sizes.h), and patterns of keys (client/kvctl/glob.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/random.h"
#include "client/kvctl/glob.h"
#include "client/kvctl/sizes.h"

static void ranges(void **state)
{
	static const struct {
		uint64_t size;
		unsigned int range;
	} cases[] = {
		{ 0, 0 },
		{ 1, 1 },
		{ 2, 2 },
		{ 3, 2 },
		{ 4, 3 },
		{ 1023, 10 },
		{ 1024, 11 },
		{ KVD_VALUE_MAX, 31 },
		{ UINT64_MAX, SIZES_RANGES - 1 },
	};
	uint64_t low, high, last = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sizes sizes = { 0 };

		sizes_add(&sizes, cases[i].size);
		assert_int_equal(sizes.counts[cases[i].range], 1);
		assert_true(sizes.sums[cases[i].range] == cases[i].size);
		assert_true(sizes.max == cases[i].size);
	}
	for (unsigned int i = 0; i < SIZES_RANGES; i++) {
		sizes_range(i, &low, &high);
		assert_true(low == last && high >= low);
		last = high + 1;
	}
}

/* Against all keys, sorted. */
static void the_largest(void **state)
{
	struct random random;

	(void)state;
	random_init(&random, 1);
	for (size_t room = 1; room < 20; room++) {
		uint64_t least = UINT64_MAX;
		char key[20];
		struct top top;
		unsigned int n;

		assert_true(top_init(&top, room));
		for (n = 0; n < 100; n++) {
			const uint64_t number = random_next(&random) % 1000 * 100 + n;

			snprintf(key, sizeof(key), "key %u", n);
			top_add(&top, key, strlen(key), number);
			top_add(&top, key, strlen(key), number);
		}
		top_sort(&top);
		assert_int_equal(top.count, room);
		for (size_t i = 0; i < room; i++) {
			assert_true(top.keys[i].number < least);
			least = top.keys[i].number;
			snprintf(key, sizeof(key), "key %u", (unsigned int)(least % 100));
			assert_int_equal(top.keys[i].key_len, strlen(key));
			assert_memory_equal(top.keys[i].key, key, strlen(key));
		}
		top_release(&top);
	}
}

static void the_largest_are_the_largest(void **state)
{
	struct top top;

	(void)state;
	assert_true(top_init(&top, 3));
	for (unsigned int n = 0; n < 100; n++)
		top_add(&top, &n, sizeof(n), n * 37 % 100);
	top_sort(&top);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(top.keys[i].number, 99 - i);
	top_release(&top);
}

static bool matches(const char *pattern, const char *key)
{
	return glob_matches((const uint8_t *)pattern, strlen(pattern), (const uint8_t *)key,
			    strlen(key));
}

static void patterns(void **state)
{
	static const struct {
		const char *pattern, *key;
		bool is_match;
	} cases[] = {
		{ "a", "a", true },	   { "a", "b", false },
		{ "a", "ab", false },	   { "*", "", true },
		{ "*", "abc", true },	   { "a*c", "abbc", true },
		{ "a*c", "abcb", false },  { "a*b*c", "axbxbc", true },
		{ "**a**", "a", true },	   { "?", "x", true },
		{ "?", "", false },	   { "[abc]", "b", true },
		{ "[a-c]x", "bx", true },  { "[!a-c]", "b", false },
		{ "[^a-c]", "d", true },   { "[]]", "]", true },
		{ "[a-]", "-", true },	   { "[abc", "[abc", true },
		{ "\\*", "*", true },	   { "\\*", "x", false },
		{ "[\\]]", "]", true },	   { "*.txt", "a.txt", true },
		{ "*a", "aab", false },	   { "\\", "\\", true },
		{ "", "", true },	   { "", "a", false },
		{ "\xff*", "\xff", true }, { "[\x80-\xff]", "\xc3", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (matches(cases[i].pattern, cases[i].key) != cases[i].is_match)
			fail_msg("%s and %s", cases[i].pattern, cases[i].key);
	assert_true(glob_matches((const uint8_t *)"a*\0", 3, (const uint8_t *)"a\0b\0", 4));
	assert_false(glob_matches((const uint8_t *)"a", 1, (const uint8_t *)"a\0", 2));
}

/* Backtracking does not explode. */
static void a_costly_pattern(void **state)
{
	char pattern[1001], key[1025];

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		pattern[i] = i % 2 ? 'a' : '*';
	pattern[999] = 'b';
	pattern[1000] = '\0';
	memset(key, 'a', 1024);
	key[1024] = '\0';
	assert_false(matches(pattern, key));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges),
		cmocka_unit_test(the_largest),
		cmocka_unit_test(the_largest_are_the_largest),
		cmocka_unit_test(patterns),
		cmocka_unit_test(a_costly_pattern),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
