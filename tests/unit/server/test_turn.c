/* SPDX-License-Identifier: MIT */
/* Tests of the statistics of a worker's turns (server/worker/turn.h). */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "server/worker/turn.h"

static struct turn_stats stats;

static int setup(void **state)
{
	(void)state;
	memset(&stats, 0, sizeof(stats));
	return 0;
}

static void turn_of(struct turn *turn, uint64_t began_ns, uint64_t ns, uint64_t completions)
{
	turn_begin(turn, began_ns);
	turn->completions += completions;
	turn_end(turn, &stats, began_ns + ns);
}

static void turns_are_summed(void **state)
{
	struct turn turn = { 0 };
	struct hist hist;

	(void)state;
	turn_of(&turn, 5, 100, 3);
	turn_of(&turn, 1000, 70, 32);
	turn_of(&turn, 2000, 5000, 1);
	hist_init(&hist);
	turn_stats_read(&stats, &hist);
	assert_int_equal(hist_count(&hist), 3);
	assert_int_equal(hist_max(&hist), 5000);
	assert_int_equal(hist.sum_ns, 5170);
	assert_int_equal(stats.completions_max, 32);
	/* Another worker's turns are added. */
	turn_stats_read(&stats, &hist);
	assert_int_equal(hist_count(&hist), 6);
	assert_int_equal(hist.sum_ns, 2 * 5170);
}

static void a_turn_begins_once(void **state)
{
	struct turn turn = { 0 };

	(void)state;
	turn_begin(&turn, 10);
	turn_begin(&turn, 90);
	turn_end(&turn, &stats, 100);
	assert_int_equal(stats.ns_sum, 90);
	assert_int_equal(turn.began_ns, 0);
	assert_int_equal(turn.completions, 0);
}

static void classes_have_each_turn_once(void **state)
{
	struct turn turn = { 0 };
	uint64_t above = 0, sum = 0;
	struct hist hist;

	(void)state;
	for (uint64_t ns = 1; ns < 1ull << 40; ns = ns * 3 + 1)
		turn_of(&turn, 7, ns, 1);
	hist_init(&hist);
	turn_stats_read(&stats, &hist);
	assert_int_equal(turn_class_count(&hist, 0, 1000), 6); /* 1 4 13 40 121 364 */
#define X(name, ns)                                                                                \
	sum += turn_class_count(&hist, above, ns);                                                 \
	above = ns;
	TURN_CLASSES(X)
#undef X
	assert_int_equal(sum, hist_count(&hist));
	/* Also those that take as long as the border between two classes. */
	for (unsigned int i = 0; i < HIST_BUCKETS; i++)
		hist.buckets[i] = 1;
	above = sum = 0;
#define X(name, ns)                                                                                \
	sum += turn_class_count(&hist, above, ns);                                                 \
	above = ns;
	TURN_CLASSES(X)
#undef X
	assert_int_equal(sum, hist_bucket(above) + 1);
}

/* With many clients the completion of a response often comes before the next request. */
static void polls_on_after_a_request(void **state)
{
	(void)state;
	assert_false(pace_rests(PACE_ACTIVE, ACTIVITY_UNAWAITED));
	assert_false(pace_rests(PACE_ACTIVE, ACTIVITY_NONE));
	assert_false(pace_rests(PACE_WAITING, ACTIVITY_UNAWAITED));
	assert_false(pace_rests(PACE_WAITING, ACTIVITY_NONE));
}

/* Access records of idle clients cost no polling; a wake-up for nothing may announce a request. */
static void rests_when_woken_for_nothing_awaited(void **state)
{
	(void)state;
	assert_true(pace_rests(PACE_WOKEN, ACTIVITY_UNAWAITED));
	assert_false(pace_rests(PACE_WOKEN, ACTIVITY_NONE));
	assert_false(pace_rests(PACE_WOKEN, ACTIVITY_AWAITED));
}

static struct turn waited_for;
static bool done; /* written in the turn */

static void *end_the_turn(void *pause)
{
	nanosleep(pause, NULL);
	done = true;
	turn_end(&waited_for, &stats, 2000);
	return NULL;
}

/* Another thread's turn: what it did is seen afterwards. Without a turn there is no wait. */
static void a_turn_is_waited_for(void **state)
{
	struct timespec pause = { 0, 20000000 };
	pthread_t thread;

	(void)state;
	turn_wait(&waited_for);
	turn_begin(&waited_for, 1000);
	assert_int_equal(pthread_create(&thread, NULL, end_the_turn, &pause), 0);
	turn_wait(&waited_for);
	assert_true(done);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(turns_are_summed, setup),
		cmocka_unit_test_setup(a_turn_begins_once, setup),
		cmocka_unit_test_setup(classes_have_each_turn_once, setup),
		cmocka_unit_test_setup(a_turn_is_waited_for, setup),
		cmocka_unit_test(polls_on_after_a_request),
		cmocka_unit_test(rests_when_woken_for_nothing_awaited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
