/* SPDX-License-Identifier: MIT */
/*
 * Prefetching a line of memory, also where a function does nothing else. GCC 12 takes a static
 * function that only calls __builtin_prefetch() for one without effect and removes calls of it. The
 * empty statement is an effect, and costs nothing.
 */
#ifndef KVD_COMMON_UTIL_PREFETCH_H
#define KVD_COMMON_UTIL_PREFETCH_H

#define PREFETCH_LINE 64u

static inline void prefetch_line(const void *at)
{
	__builtin_prefetch(at);
	__asm__ __volatile__("" : : "r"(at));
}

#endif /* KVD_COMMON_UTIL_PREFETCH_H */
