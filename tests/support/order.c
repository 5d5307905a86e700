/* SPDX-License-Identifier: MIT */
/*
 * The order of the cases in a unit test. All test programs are linked so that this stands in front
 * of cmocka's function that runs a group of cases, and the environment decides:
 *
 *	KVD_TEST_ORDER=NUMBER	runs them in a random order, the same for the same number. A case
 *				that relies on what an earlier one left fails in some of them.
 *	KVD_TEST_CASE=PATTERN	runs only those whose name matches, as cmocka_set_test_filter()
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/store/slab.h"

int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction setup, CMFixtureFunction teardown);

/* Fisher and Yates. */
static void shuffle(struct CMUnitTest *tests, size_t count, uint64_t seed)
{
	struct CMUnitTest other;
	size_t i, j;

	for (i = count; i > 1; i--) {
		j = random_below(&seed, (uint32_t)i);
		other = tests[i - 1];
		tests[i - 1] = tests[j];
		tests[j] = other;
	}
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction setup, CMFixtureFunction teardown)
{
	const char *order = getenv("KVD_TEST_ORDER"), *only = getenv("KVD_TEST_CASE");
	struct CMUnitTest *shuffled = NULL;
	int failed;

	if (only)
		cmocka_set_test_filter(only);
	if (order) {
		shuffled = malloc(count * sizeof(*shuffled));
		if (!shuffled)
			return (int)count;
		memcpy(shuffled, tests, count * sizeof(*shuffled));
		shuffle(shuffled, count, strtoull(order, NULL, 10));
		printf("the order of the cases: KVD_TEST_ORDER=%s\n", order);
		tests = shuffled;
	}
	failed = __real__cmocka_run_group_tests(name, tests, count, setup, teardown);
	free(shuffled);
	return failed;
}
