/* SPDX-License-Identifier: MIT */
/*
 * Numbers the records that a workload inserts while it runs. Numbers are handed out in order, and a
 * number can be read only after it and all lower ones are acknowledged, so that no thread reads a
 * record whose insert is still under way.
 *
 * The method is YCSB's (AcknowledgedCounterGenerator.java): an array of flags, and a limit that the
 * thread that gets the lock moves forward.
 *
 * Threads: any thread may call any function at any time. The thread that took a number acknowledges
 * it, exactly once. counter_limit() synchronises with counter_acknowledge(): what a thread did
 * before it acknowledged a number has happened for every thread that sees the limit above that
 * number.
 */
#ifndef KVD_BENCH_COUNTER_H
#define KVD_BENCH_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How many numbers may be handed out above the limit. */
#define COUNTER_AHEAD_MAX (1u << 16)

struct counter {
	_Alignas(64) _Atomic uint64_t next;
	_Alignas(64) _Atomic uint64_t limit; /* all below are acknowledged */
	atomic_flag moving;
	_Atomic uint8_t flags[COUNTER_AHEAD_MAX]; /* 1: acknowledged, still above the limit */
};

void counter_init(struct counter *counter, uint64_t start);

/*
 * Takes the next number into *@number. Returns false if too many are not acknowledged, because an
 * old insert hangs: try again later.
 */
bool counter_take(struct counter *counter, uint64_t *number);

void counter_acknowledge(struct counter *counter, uint64_t number);

/* All numbers below this one are acknowledged. */
static inline uint64_t counter_limit(struct counter *counter)
{
	return atomic_load_explicit(&counter->limit, memory_order_acquire);
}

#endif /* KVD_BENCH_COUNTER_H */
