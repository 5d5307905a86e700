/* SPDX-License-Identifier: MIT */
/*
 * The clocks of this host in nanoseconds, and what each is for:
 *
 *   clock_ns()		deadlines, pauses and latencies on this host. NTP steers its rate, by up
 *			to 500 ppm, and by up to 100,000 ppm where chrony or adjtimex(2) slews it.
 *   clock_raw_ns()	times compared with another host's clock: the server's clock, to which
 *			sleep may be added, and clients' idea of it. Its rate is the hardware's, and
 *			is not steered.
 *   clock_boot_ns()	times that must pass while this host is suspended, too: until when a
 *			server's word counts. As steered as clock_ns().
 *   clock_slept_ns()	how long this host was suspended, which the first two leave out.
 *
 * All are read in the vDSO, without a system call, where the kernel's clock source allows that: 20
 * ns each on Linux 6 with the TSC.
 */
#ifndef KVD_COMMON_UTIL_CLOCK_H
#define KVD_COMMON_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_raw_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC_RAW);
}

static inline uint64_t clock_boot_ns(void)
{
	return clock_read_ns(CLOCK_BOOTTIME);
}

/* A host was suspended if it slept this much more; less is time between two readings. */
#define CLOCK_SLEPT_NS_MIN 1000000u

/* In total, since boot; too large by the time between the two readings. */
static inline uint64_t clock_slept_ns(void)
{
	uint64_t awake = clock_ns();

	return clock_boot_ns() - awake;
}

#endif /* KVD_COMMON_UTIL_CLOCK_H */
