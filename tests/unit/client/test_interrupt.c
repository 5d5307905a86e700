/* SPDX-License-Identifier: MIT */
/* Tests of how kvctl notes SIGINT: calls that block end with EINTR, whenever they began. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/kvctl/interrupt.h"

static struct sigaction before;
static int ends[2];

static int setup(void **state)
{
	(void)state;
	interrupt_clear();
	return pipe(ends);
}

static int teardown(void **state)
{
	(void)state;
	interrupt_clear();
	interrupt_leave(&before);
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static void assert_read_is_interrupted(void)
{
	char byte;

	errno = 0;
	assert_int_equal(read(ends[0], &byte, 1), -1);
	assert_int_equal(errno, EINTR);
	assert_true(interrupted());
}

static void assert_alarm_is_as_before(void)
{
	struct sigaction action;

	assert_int_equal(alarm(0), 0);
	assert_int_equal(sigaction(SIGALRM, NULL, &action), 0);
	assert_true(action.sa_handler == SIG_DFL);
}

/* The signal comes between the look at interrupted() and the call, which then waits for nobody. */
static void a_call_that_begins_after_the_signal(void **state)
{
	(void)state;
	interrupt_catch(&before);
	assert_false(interrupted());
	assert_int_equal(raise(SIGINT), 0);
	assert_read_is_interrupted();
	/* Whatever waits next does not wait for long, either. */
	assert_read_is_interrupted();
	interrupt_clear();
	assert_false(interrupted());
	assert_alarm_is_as_before();
}

static void a_signal_that_is_caught_once(void **state)
{
	struct sigaction action;

	(void)state;
	interrupt_catch_once(&before);
	assert_int_equal(raise(SIGINT), 0);
	assert_read_is_interrupted();
	assert_int_equal(sigaction(SIGINT, NULL, &action), 0);
	assert_true(action.sa_handler == SIG_DFL);
}

/* Without a SIGINT nobody's alarm is touched. */
static void an_alarm_of_others(void **state)
{
	(void)state;
	alarm(1000);
	interrupt_catch(&before);
	interrupt_clear();
	interrupt_leave(&before);
	assert_in_range(alarm(0), 2, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_call_that_begins_after_the_signal, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_signal_that_is_caught_once, setup, teardown),
		cmocka_unit_test_setup_teardown(an_alarm_of_others, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
