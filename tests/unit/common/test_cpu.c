/* SPDX-License-Identifier: MIT */
/*
 * Tests of the CPUs that a process may run on (common/util/cpu.h), by an affinity mask of the
 * test's own.
 */
#include "common/util/cpu.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static cpu_set_t mask;
static int mask_error;

static int affinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	assert_int_equal(pid, 0);
	assert_int_equal(bytes, sizeof(*set));
	if (mask_error)
		return -1;
	*set = mask;
	return 0;
}

#define sched_getaffinity affinity
#include "common/util/cpu.c"
#undef sched_getaffinity

static void use(const int *cpus, unsigned int count)
{
	mask_error = 0;
	CPU_ZERO(&mask);
	while (count)
		CPU_SET((unsigned int)cpus[--count], &mask);
}

static void how_many(void **state)
{
	static const int three[] = { 1, 5, 6 };

	(void)state;
	use(three, 3);
	assert_int_equal(cpu_count(), 3);
	mask_error = 1;
	assert_int_equal(cpu_count(), 1);
}

/* CPUs are numbered in order; there is none for higher numbers. */
static void which(void **state)
{
	static const int cpus[] = { 0, 3, 4, 63, 64, CPU_SETSIZE - 1 };

	(void)state;
	use(cpus, 6);
	for (unsigned int i = 0; i < 6; i++)
		assert_int_equal(cpu_number(i), cpus[i]);
	assert_int_equal(cpu_number(6), -1);
	use(cpus + 1, 1);
	assert_int_equal(cpu_number(0), 3);
	assert_int_equal(cpu_number(1), -1);
	mask_error = 1;
	assert_int_equal(cpu_number(0), 0);
	assert_int_equal(cpu_number(1), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(how_many),
		cmocka_unit_test(which),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
