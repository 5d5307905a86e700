/* SPDX-License-Identifier: MIT */
/* The monotonic clock in nanoseconds, for deadlines and latencies. */
#ifndef KVD_COMMON_UTIL_CLOCK_H
#define KVD_COMMON_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif /* KVD_COMMON_UTIL_CLOCK_H */
