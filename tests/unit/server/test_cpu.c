/* SPDX-License-Identifier: MIT */
/*
 * Tests of the CPUs that workers run on: their number, and which one each is pinned to, by an
 * affinity mask of the test's own.
 */
#include "server/worker/cpu.h"

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
#include "server/worker/cpu.c"
#undef sched_getaffinity

static void use(const int *cpus, unsigned int count)
{
	mask_error = 0;
	CPU_ZERO(&mask);
	while (count)
		CPU_SET((unsigned int)cpus[--count], &mask);
}

static unsigned int workers(unsigned int configured)
{
	const struct config config = { .server.workers = configured };

	return cpu_workers(&config);
}

/* One worker for each CPU that the process may run on, unless the configuration says how many. */
static void how_many(void **state)
{
	static const int three[] = { 1, 5, 6 };

	(void)state;
	use(three, 3);
	assert_int_equal(workers(0), 3);
	assert_int_equal(workers(1), 1);
	assert_int_equal(workers(7), 7);
	assert_int_equal(workers(WORKERS_MAX), WORKERS_MAX);
	assert_int_equal(workers(WORKERS_MAX + 1), WORKERS_MAX);
	CPU_ZERO(&mask);
	for (unsigned int cpu = 0; cpu < WORKERS_MAX + 1; cpu++)
		CPU_SET(cpu, &mask);
	assert_int_equal(workers(0), WORKERS_MAX);
	mask_error = 1;
	assert_int_equal(workers(0), 1);
}

/* The n-th worker is pinned to the n-th of these CPUs; there is none for more. */
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
