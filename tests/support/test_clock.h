/* SPDX-License-Identifier: MIT */
/*
 * The clocks of this host as a case wants them: they stand still while it does what has to be done
 * in time, however busy the machine is, and are set ahead in place of waiting. For one source file
 * of a program, whose code reads clocks by common/util/clock.h, in one thread.
 */
#ifndef KVD_TESTS_SUPPORT_TEST_CLOCK_H
#define KVD_TESTS_SUPPORT_TEST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Each reading of a clock that stands takes this: what waits for a time without a sleep ends. */
#define TEST_CLOCK_READING_NS 1000u

static struct {
	bool stands;
	uint64_t passed_ns;		    /* since then */
	uint64_t at_ns[CLOCK_BOOTTIME + 1]; /* when it was stopped */
	uint64_t ahead_ns[CLOCK_BOOTTIME + 1];
} test_clock;

int clock_gettime(clockid_t id, struct timespec *now)
{
	uint64_t ns;

	if (syscall(SYS_clock_gettime, id, now))
		return -1;
	if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_RAW && id != CLOCK_BOOTTIME)
		return 0;
	ns = (uint64_t)now->tv_sec * 1000000000u + (uint64_t)now->tv_nsec + test_clock.ahead_ns[id];
	if (test_clock.stands)
		ns = test_clock.at_ns[id] + (test_clock.passed_ns += TEST_CLOCK_READING_NS);
	now->tv_sec = (time_t)(ns / 1000000000u);
	now->tv_nsec = (long)(ns % 1000000000u);
	return 0;
}

static inline uint64_t test_clock_read(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void test_clock_stop(void)
{
	for (clockid_t id = 0; id <= CLOCK_BOOTTIME; id++)
		test_clock.at_ns[id] = test_clock_read(id);
	test_clock.passed_ns = 0;
	test_clock.stands = true;
}

/* From where it stands. */
static inline void test_clock_start(void)
{
	test_clock.stands = false;
	for (clockid_t id = 0; id <= CLOCK_BOOTTIME; id++)
		test_clock.ahead_ns[id] += test_clock.at_ns[id] + test_clock.passed_ns -
					   test_clock_read(id);
}

/* While it stands. */
static inline void test_clock_pass(uint64_t ns)
{
	test_clock.passed_ns += ns;
}

#endif /* KVD_TESTS_SUPPORT_TEST_CLOCK_H */
