/* SPDX-License-Identifier: MIT */
/* Tests of receives that the device refuses: they are posted later, each once. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/worker_fixture.h"

#define REGION_BYTES (16u << 20)
#define COUNT 5u

static int setup(void **state)
{
	(void)state;
	return test_worker_create(REGION_BYTES, 1u << 20);
}

/* Posts receives that have completed. */
static void post(const uint32_t *buffers, unsigned int count)
{
	test_poller->posted -= count;
	poller_post_recvs(test_poller, buffers, count);
}

static int teardown(void **state)
{
	(void)state;
	test_worker_destroy();
	return 0;
}

/* The first @taken of COUNT receives are posted, and not more of them when they are tried again. */
static void refuse(unsigned int taken)
{
	static const uint32_t buffers[COUNT] = { 7, 2, 9, 4, 0 };

	test_recvs_left = taken;
	post(buffers, COUNT);
	poller_post_refused(test_poller);
	assert_int_equal(test_poller->unposted_count, COUNT - taken);
	for (unsigned int i = 0; i < COUNT; i++)
		assert_int_equal(test_recvs[buffers[i]], i < taken);
	test_recvs_left = UINT_MAX;
	poller_post_refused(test_poller);
	assert_int_equal(test_poller->unposted_count, 0);
	poller_post_refused(test_poller);
	for (unsigned int i = 0; i < COUNT; i++) {
		assert_int_equal(test_recvs[buffers[i]], 1);
		test_recvs[buffers[i]] = 0;
	}
}

static void refused(void **state)
{
	(void)state;
	for (unsigned int taken = 0; taken <= COUNT; taken++)
		refuse(taken);
}

/* A worker may have none left at all. */
static void all_refused(void **state)
{
	(void)state;
	test_recvs_left = 0;
	for (uint32_t i = 0; i < TEST_RECVS; i++)
		post(&i, 1);
	assert_int_equal(test_poller->unposted_count, TEST_RECVS);
	test_recvs_left = TEST_RECVS / 2;
	poller_post_refused(test_poller);
	assert_int_equal(test_poller->unposted_count, TEST_RECVS / 2);
	test_recvs_left = UINT_MAX;
	poller_post_refused(test_poller);
	for (uint32_t i = 0; i < TEST_RECVS; i++)
		assert_int_equal(test_recvs[i], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(refused, setup, teardown),
		cmocka_unit_test_setup_teardown(all_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
