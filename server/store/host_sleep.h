/* SPDX-License-Identifier: MIT */
/*
 * How long the host was suspended since the server started. CLOCK_MONOTONIC_RAW stands still then,
 * while other members of a fleet take over the server's shards: so the clock of a server that has a
 * lease counts sleep, too (store_clock_ns()). All its stores share one struct host_sleep.
 *
 *   SLEEP-1. It never goes back, and grows only by sleep that is certain.
 *   SLEEP-2. It has all that was slept before the call, but for CLOCK_SLEPT_NS_MIN + 2 *
 *	 SLEEP_READING_NS_MAX. So a clock that is read after a resume shows the sleep, and nothing
 *	 is executed or answered by one that does not. The margin of a word covers what is left out.
 */
#ifndef KVD_SERVER_STORE_HOST_SLEEP_H
#define KVD_SERVER_STORE_HOST_SLEEP_H

#include <stdatomic.h>
#include <stdint.h>

/* Two clocks that were read further apart, with a preemption between them, are read again. */
#define SLEEP_READING_NS_MAX 50000u

struct host_sleep {
	uint64_t start_ns; /* clock_slept_ns() when the server started */
	_Atomic uint64_t ns;
};

/* From now on. Before threads start. */
void host_sleep_init(struct host_sleep *sleep);
/* Any thread. */
uint64_t host_sleep_ns(struct host_sleep *sleep);

#endif /* KVD_SERVER_STORE_HOST_SLEEP_H */
