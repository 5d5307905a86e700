/* SPDX-License-Identifier: MIT */
/*
 * Tests of the gates at which kvbench's threads meet: an arrival waits, all are counted however
 * close together they arrive, and a signal is seen once while the main thread waits.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/meeting.h"

#define THREADS 4
#define GATES 3
#define ROUNDS 50
/* A meeting that does not end would hang the test. */
#define LIMIT_S 300

static struct meeting meeting;
static _Atomic unsigned int gate_open; /* gates that the test has opened */
static _Atomic unsigned int early;     /* threads that passed one before */
static unsigned int ticks, signals;

static void *pass_gates(void *argument)
{
	unsigned int gate;

	for (gate = 0; gate < GATES; gate++) {
		meeting_arrive(&meeting, gate);
		if (atomic_load(&gate_open) <= gate)
			atomic_fetch_add(&early, 1);
	}
	return argument;
}

static void signal_came(void *context)
{
	assert_ptr_equal(context, &meeting);
	signals++;
}

static const struct meeting_watch watch = { .context = &meeting, .interrupted = signal_came };

static void setup_meeting(void)
{
	alarm(LIMIT_S);
	ticks = signals = 0;
	assert_int_equal(meeting_init(&meeting), 0);
}

static void end_meeting(void)
{
	meeting_release(&meeting);
	alarm(0);
}

/* How many have arrived that the main thread has not taken. */
static unsigned long long arrived(void)
{
	unsigned long long count = 0;
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", meeting.arrivals);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "eventfd-count: %llx", &count);
	fclose(file);
	return count;
}

static void nobody_passes_before_the_gate_opens(void **state)
{
	pthread_t threads[THREADS];
	unsigned int round, gate, i;

	(void)state;
	for (round = 0; round < ROUNDS; round++) {
		setup_meeting();
		atomic_store(&gate_open, 0);
		for (i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, pass_gates, NULL), 0);
		for (gate = 0; gate < GATES; gate++) {
			meeting_wait(&meeting, THREADS, &watch);
			atomic_store(&gate_open, gate + 1);
			meeting_open(&meeting);
		}
		for (i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(arrived(), 0);
		end_meeting();
	}
	assert_int_equal(atomic_load(&early), 0);
}

/* All of them are counted by one look. */
static void threads_that_arrive_together_are_counted(void **state)
{
	pthread_t threads[THREADS];
	unsigned int gate, i;

	(void)state;
	setup_meeting();
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pass_gates, NULL), 0);
	for (gate = 0; gate < GATES; gate++) {
		while (arrived() < THREADS)
			sched_yield();
		meeting_wait(&meeting, THREADS, &watch);
		atomic_store(&gate_open, gate + 1);
		meeting_open(&meeting);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	end_meeting();
}

static void *arrive_last(void *argument)
{
	meeting_arrive(&meeting, 0);
	return argument;
}

static pthread_t last;

/* The meeting ends after the third tick. */
static void tick(void *context)
{
	assert_ptr_equal(context, &meeting);
	if (++ticks == 3)
		assert_int_equal(pthread_create(&last, NULL, arrive_last, NULL), 0);
}

static void the_main_thread_ticks_while_it_waits(void **state)
{
	const struct meeting_watch ticking = { &meeting, signal_came, tick, 1000000 };

	(void)state;
	setup_meeting();
	meeting_wait(&meeting, 1, &ticking);
	assert_true(ticks >= 3);
	meeting_open(&meeting);
	pthread_join(last, NULL);
	assert_int_equal(signals, 0);
	end_meeting();
}

static void arrive_after_a_signal(void *context)
{
	signal_came(context);
	assert_int_equal(pthread_create(&last, NULL, arrive_last, NULL), 0);
}

/* The first signal ends nothing but the run; a second one would end the process. */
static void a_signal_interrupts_once(void **state)
{
	static const int numbers[] = { SIGINT, SIGTERM };
	const struct meeting_watch watching = { .context = &meeting,
						.interrupted = arrive_after_a_signal };
	sigset_t blocked;
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		setup_meeting();
		assert_false(meeting.interrupted);
		pthread_sigmask(SIG_BLOCK, NULL, &blocked);
		assert_true(sigismember(&blocked, numbers[i]));
		assert_int_equal(kill(getpid(), numbers[i]), 0);
		meeting_wait(&meeting, 1, &watching);
		assert_int_equal(signals, 1);
		assert_true(meeting.interrupted);
		pthread_sigmask(SIG_BLOCK, NULL, &blocked);
		assert_false(sigismember(&blocked, numbers[i]));
		meeting_open(&meeting);
		pthread_join(last, NULL);
		end_meeting();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_passes_before_the_gate_opens),
		cmocka_unit_test(threads_that_arrive_together_are_counted),
		cmocka_unit_test(the_main_thread_ticks_while_it_waits),
		cmocka_unit_test(a_signal_interrupts_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
