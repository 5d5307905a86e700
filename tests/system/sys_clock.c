/* SPDX-License-Identifier: MIT */
/*
 * Sets the host's time of day wrong, for tests/system/clock.sh; in the test machine only:
 *
 *	sys_clock step SECONDS	moves the clock by SECONDS
 *	sys_clock tick USEC	lets the clock go by USEC microseconds at each of what should be
 *				10000, and with it CLOCK_MONOTONIC
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

/* Only the guest of tests/vm/run has it. */
#define TEST_MACHINE "/run/kvd-vm-command"

static int fail(const char *what)
{
	printf("FAIL  %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static int step(long seconds)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now))
		return fail("clock_gettime");
	now.tv_sec += seconds;
	return clock_settime(CLOCK_REALTIME, &now) ? fail("clock_settime") : EXIT_SUCCESS;
}

static int tick(long usec)
{
	struct timex timex = { .modes = ADJ_TICK, .tick = usec };

	return adjtimex(&timex) < 0 ? fail("adjtimex") : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	if (access(TEST_MACHINE, F_OK))
		return fail(TEST_MACHINE);
	if (argc == 3 && !strcmp(argv[1], "step"))
		return step(atol(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "tick"))
		return tick(atol(argv[2]));
	fputs("usage: sys_clock step SECONDS\n"
	      "       sys_clock tick USEC\n",
	      stderr);
	return 64;
}
