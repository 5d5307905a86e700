/* SPDX-License-Identifier: MIT */
/* Pausing between two polls of a loop that waits for a device or another thread. */
#ifndef KVD_COMMON_UTIL_SPIN_H
#define KVD_COMMON_UTIL_SPIN_H

#include <sched.h>

#include "common/barrier.h"

/*
 * How long to poll before the loop lets other threads run between two polls. What comes sooner
 * costs no system call; what takes longer may be waiting for this CPU: a worker, a client, or the
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
