/* SPDX-License-Identifier: MIT */
/* One turn of a loop that polls for what a device or another thread is about to bring. */
#ifndef KVD_COMMON_UTIL_SPIN_H
#define KVD_COMMON_UTIL_SPIN_H

#include <sched.h>

#include "common/barrier.h"

/*
 * How long to poll before letting others run between two looks. What comes sooner comes without a
 * system call; what takes longer may be waiting for this very CPU: a worker, a client, or the
 * kernel's half of Soft-RoCE.
 */
#define SPIN_ALONE_NS 5000

static inline void spin_pause(uint64_t spent_ns)
{
	if (spent_ns < SPIN_ALONE_NS)
		cpu_relax();
	else
		sched_yield();
}

#endif /* KVD_COMMON_UTIL_SPIN_H */
