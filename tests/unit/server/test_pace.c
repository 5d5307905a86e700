/* SPDX-License-Identifier: MIT */
/* Tests of server/worker/pace.h: when a worker rests without polling for more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/worker/pace.h"

/* With many clients the completion of a response often comes before the next request. */
static void test_polls_on_after_a_request(void **state)
{
	(void)state;
	assert_false(pace_rests(PACE_ACTIVE, ACTIVITY_UNAWAITED));
	assert_false(pace_rests(PACE_ACTIVE, ACTIVITY_NONE));
	assert_false(pace_rests(PACE_WAITING, ACTIVITY_UNAWAITED));
	assert_false(pace_rests(PACE_WAITING, ACTIVITY_NONE));
}

/* Access records of idle clients cost no polling; a wake-up for nothing may announce a request. */
static void test_rests_when_woken_for_nothing_awaited(void **state)
{
	(void)state;
	assert_true(pace_rests(PACE_WOKEN, ACTIVITY_UNAWAITED));
	assert_false(pace_rests(PACE_WOKEN, ACTIVITY_NONE));
	assert_false(pace_rests(PACE_WOKEN, ACTIVITY_AWAITED));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_polls_on_after_a_request),
		cmocka_unit_test(test_rests_when_woken_for_nothing_awaited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
