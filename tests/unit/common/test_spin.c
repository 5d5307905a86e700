/* SPDX-License-Identifier: MIT */
/* Waiting by polling: when a thread pauses, yields and sleeps, with a clock that the test sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "common/util/spin.h"

#define LIMIT_NS 200000u
#define POLL_NS 100u

static uint64_t now_ns;
static uint64_t yield_ns; /* how long a yield takes */
static unsigned int yields;

/* Take the place of libc's in this program. */
int sched_yield(void)
{
	yields++;
	now_ns += yield_ns;
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	time->tv_sec = (time_t)(now_ns / 1000000000u);
	time->tv_nsec = (long)(now_ns % 1000000000u);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	now_ns = 1000000000u;
	yield_ns = 300;
	yields = 0;
	return 0;
}

/* One that has just yielded, so that it need not because it ran for long. */
static struct spin spin_fresh(void)
{
	return (struct spin){ .shared_ns = now_ns };
}

/* A wait whose response comes after @response_ns. Returns whether it came before it slept. */
static bool wait_for(struct spin *spin, uint64_t response_ns)
{
	const uint64_t end_ns = now_ns + response_ns;

	spin_begin(spin, LIMIT_NS, now_ns);
	while (now_ns < end_ns) {
		if (!spin_wait(spin, now_ns)) {
			spin_end(spin, true);
			return false;
		}
		now_ns += POLL_NS;
	}
	spin_end(spin, false);
	return true;
}

/* What comes soon costs no system call. */
static void test_pauses_first(void **state)
{
	struct spin spin = spin_fresh();

	(void)state;
	assert_true(wait_for(&spin, SPIN_PAUSE_NS - POLL_NS));
	assert_int_equal(yields, 0);
	assert_true(wait_for(&spin, SPIN_PAUSE_NS + 2 * POLL_NS));
	assert_int_not_equal(yields, 0);
}

/* Whoever needs this CPU for the response gets it at once, when pauses were in vain. */
static void test_yields_at_once(void **state)
{
	struct spin spin = spin_fresh();
	unsigned int i;

	(void)state;
	for (i = 0; i < SPIN_VAIN_MAX; i++)
		wait_for(&spin, SPIN_PAUSE_NS + POLL_NS);
	for (i = 0; i < SPIN_PROBE_EVERY - 1; i++) {
		yields = 0;
		wait_for(&spin, POLL_NS);
		assert_int_equal(yields, 1);
	}
	/* The probe: it pauses, so what comes soon brings the pauses back. */
	spin.shared_ns = now_ns;
	yields = 0;
	wait_for(&spin, 10 * POLL_NS);
	wait_for(&spin, 10 * POLL_NS);
	assert_int_equal(yields, 0);
}

/* A thread that never waits for long yields once in a while. */
static void test_shares(void **state)
{
	struct spin spin = spin_fresh();
	uint64_t end_ns = now_ns + 10 * SPIN_STRETCH_NS;

	(void)state;
	while (now_ns < end_ns)
		wait_for(&spin, 10 * POLL_NS);
	assert_in_range(yields, 8, 10);
	yields = 0;
	spin_share(&spin, spin.shared_ns + SPIN_STRETCH_NS - 1);
	assert_int_equal(yields, 0);
	spin_share(&spin, spin.shared_ns + SPIN_STRETCH_NS);
	assert_int_equal(yields, 1);
}

/* Where each yield gives a time slice to a program that computes, there are few. */
static void test_busy_neighbour(void **state)
{
	struct spin spin = spin_fresh();
	const uint64_t begin_ns = now_ns;

	(void)state;
	yield_ns = 3000000;
	while (now_ns < begin_ns + 10000000000u) {
		wait_for(&spin, 2 * SPIN_PAUSE_NS);
		now_ns += POLL_NS;
	}
	assert_true(yields * yield_ns <= (now_ns - begin_ns) / SPIN_BUSY_TIMES + yield_ns);
}

/* Where it gets its share and no more, yields cost nothing and go on. */
static void test_fair_neighbour(void **state)
{
	struct spin spin = spin_fresh();
	unsigned int i;

	(void)state;
	for (i = 0; i < 10000; i++) {
		yield_ns = i && i % (2 * SPIN_LONG_EVERY) == 0 ? 3000000 : 300;
		spin_yield(&spin, now_ns);
		assert_false(spin.busy);
	}
}

/* Busy, it pauses for the whole limit, as the response may come from another CPU... */
static void test_busy_pauses(void **state)
{
	struct spin spin = spin_fresh();

	(void)state;
	yield_ns = 3000000;
	wait_for(&spin, LIMIT_NS / 2);
	assert_true(spin.busy);
	yields = 0;
	assert_true(wait_for(&spin, LIMIT_NS - POLL_NS));
	assert_int_equal(yields, 0);
	assert_false(wait_for(&spin, 2 * LIMIT_NS));
	assert_int_equal(yields, 0);
}

/* ...but if that is in vain it sleeps at once. */
static void test_busy_sleeps(void **state)
{
	struct spin spin = spin_fresh();
	uint64_t before_ns;
	unsigned int i;

	(void)state;
	yield_ns = 3000000;
	wait_for(&spin, LIMIT_NS / 2);
	for (i = 0; i < SPIN_VAIN_MAX; i++)
		assert_false(wait_for(&spin, 2 * LIMIT_NS));
	before_ns = now_ns;
	assert_false(wait_for(&spin, 2 * LIMIT_NS));
	assert_int_equal(now_ns - before_ns, 0);
	/* When what it lost is made up for, it yields again. */
	now_ns = spin.busy_until_ns;
	yield_ns = 300;
	wait_for(&spin, LIMIT_NS / 2);
	assert_false(spin.busy);
	assert_int_not_equal(yields, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_pauses_first, setup),
		cmocka_unit_test_setup(test_yields_at_once, setup),
		cmocka_unit_test_setup(test_shares, setup),
		cmocka_unit_test_setup(test_busy_neighbour, setup),
		cmocka_unit_test_setup(test_fair_neighbour, setup),
		cmocka_unit_test_setup(test_busy_pauses, setup),
		cmocka_unit_test_setup(test_busy_sleeps, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
