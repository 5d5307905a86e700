/* SPDX-License-Identifier: MIT */
/*
 * Tests of the marks of items that meta commands make: they belong to a version (MARK-1), the
 * oldest makes place for a new one, and is given out if its item is stale (MARK-2), and a key that
 * another worker is marking is known (MARK-3).
 */
#include "server/memcached/marks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tenant tenant;
static struct marks *marks;

static int setup(void **state)
{
	(void)state;
	memset(&tenant, 0, sizeof(tenant));
	assert_null(marks_of(&tenant, false));
	marks = marks_of(&tenant, true);
	assert_non_null(marks);
	assert_ptr_equal(marks_of(&tenant, false), marks);
	assert_ptr_equal(marks_of(&tenant, true), marks);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	marks_destroy(marks);
	return 0;
}

static struct mark_item item_of(const char *key, uint64_t version)
{
	return (struct mark_item){
		.key = (const uint8_t *)key,
		.key_len = (uint32_t)strlen(key),
		.hash = version * 3,
		.version = version,
	};
}

/* Adds a mark, for which no other one has to go. */
static unsigned int add(const char *key, uint64_t version, unsigned int bits)
{
	const struct mark_item item = item_of(key, version);
	struct mark_item victim;
	unsigned int before;
	bool made;

	before = marks_add(marks, &item, bits, &victim, &made);
	assert_true(made);
	assert_null(victim.key);
	return before;
}

static void marks_are_of_versions(void **state)
{
	(void)state;
	assert_int_equal(marks_get(marks, 256), 0);
	assert_int_equal(add("a", 256, MARK_STALE), 0);
	assert_int_equal(marks_get(marks, 256), MARK_STALE);
	assert_int_equal(marks_get(marks, 257), 0);
	assert_int_equal(add("a", 256, MARK_WON), MARK_STALE);
	assert_int_equal(add("a", 256, MARK_WON), MARK_STALE | MARK_WON);
	assert_int_equal(marks_get(marks, 256), MARK_STALE | MARK_WON);
	assert_int_equal(add("a", 512, MARK_WON), 0);
	assert_int_equal(marks_get(marks, 512), MARK_WON);
}

/* The oldest goes: one that is stale is the caller's to delete, another is forgotten. */
static void oldest_goes(void **state)
{
	struct mark_item item, victim;
	char key[32];
	bool made;

	(void)state;
	add("stale", 1, MARK_STALE);
	add("won", 2, MARK_WON);
	for (uint64_t version = 3; version <= MARKS_MAX; version++) {
		snprintf(key, sizeof(key), "key%llu", (unsigned long long)version);
		add(key, version, MARK_WON);
	}
	item = item_of("one more", MARKS_MAX + 1);
	assert_int_equal(marks_add(marks, &item, MARK_STALE, &victim, &made), 0);
	assert_true(made);
	assert_int_equal(victim.version, 1);
	assert_int_equal(victim.hash, 3);
	assert_int_equal(victim.key_len, strlen("stale"));
	assert_memory_equal(victim.key, "stale", victim.key_len);
	free((void *)victim.key);
	assert_int_equal(marks_get(marks, 1), 0);
	assert_int_equal(marks_get(marks, 2), MARK_WON);
	assert_int_equal(add("two more", MARKS_MAX + 2, MARK_STALE), 0);
	assert_int_equal(marks_get(marks, 2), 0);
	assert_int_equal(marks_get(marks, MARKS_MAX + 1), MARK_STALE);
}

static void keys_that_are_marked_now(void **state)
{
	(void)state;
	assert_false(marks_pending(marks, 7));
	marks_begin(marks, 0, 7);
	marks_begin(marks, WORKERS_MAX - 1, 0);
	assert_true(marks_pending(marks, 7));
	assert_true(marks_pending(marks, 0));
	assert_false(marks_pending(marks, 8));
	marks_end(marks, 0);
	assert_false(marks_pending(marks, 7));
	assert_true(marks_pending(marks, 0));
	marks_end(marks, WORKERS_MAX - 1);
	assert_false(marks_pending(marks, 0));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(marks_are_of_versions),
		CASE(oldest_goes),
		CASE(keys_that_are_marked_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
