/* SPDX-License-Identifier: MIT */
/*
 * The numbers of records inserted while a workload runs: handed out in order, and readable only
 * once every lower one is acknowledged, so that no thread asks for a record whose insert is still
 * under way. The idea is YCSB's (AcknowledgedCounterGenerator.java): a window of flags and a limit
 * that whoever gets the lock moves forward.
 *
 * Threads: any thread may call any of these at any time. A number is acknowledged by the thread
 * that took it, exactly once. counter_limit() synchronises with counter_acknowledge(): what was
 * done before a number was acknowledged has happened for who sees it at or below the limit.
 */
#ifndef KVD_BENCH_COUNTER_H
#define KVD_BENCH_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How far numbers handed out may be ahead of the limit. */
#define COUNTER_WINDOW (1u << 16)

struct counter {
	_Alignas(64) _Atomic uint64_t next;
	_Alignas(64) _Atomic uint64_t limit; /* all below are acknowledged */
	atomic_flag moving;
	_Atomic uint8_t window[COUNTER_WINDOW]; /* 1: acknowledged, not yet in the limit */
};

void counter_init(struct counter *counter, uint64_t start);

/*
 * Takes the next number into *@number. False if the window is full, because an old insert hangs:
 * try again later.
 */
bool counter_take(struct counter *counter, uint64_t *number);

void counter_acknowledge(struct counter *counter, uint64_t number);

/* The largest number of which all lower ones, itself included, are acknowledged, plus 1. */
static inline uint64_t counter_limit(struct counter *counter)
{
	return atomic_load_explicit(&counter->limit, memory_order_acquire);
}

#endif /* KVD_BENCH_COUNTER_H */
