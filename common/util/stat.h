/* SPDX-License-Identifier: MIT */
/*
 * Statistics counters, each written by one thread only and read by others at any time: a plain
 * addition without a lock prefix; no reader sees a half-written value.
 */
#ifndef KVD_COMMON_UTIL_STAT_H
#define KVD_COMMON_UTIL_STAT_H

#include <stdint.h>

static inline void stat_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* For a sum over threads: one may subtract what another added; the sum is right modulo 2^64. */
static inline void stat_sub(uint64_t *counter, uint64_t n)
{
	stat_add(counter, -n);
}

static inline void stat_set(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

static inline uint64_t stat_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

#endif /* KVD_COMMON_UTIL_STAT_H */
