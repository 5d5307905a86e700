/* SPDX-License-Identifier: MIT */
/*
 * splitmix64, a generator of pseudorandom numbers whose state is one word: Steele, Lea, Flood,
 * "Fast splittable pseudorandom number generators", OOPSLA 2014, with the constants of Vigna's
 * public domain implementation. Not for secrets.
 */
#ifndef KVD_COMMON_UTIL_SPLITMIX_H
#define KVD_COMMON_UTIL_SPLITMIX_H

#include <stdint.h>

/* 2^64 divided by the golden ratio. */
#define SPLITMIX_STEP UINT64_C(0x9e3779b97f4a7c15)

/* One to one; each bit of @z changes about half of the result's. */
static inline uint64_t splitmix_mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* The next number of the sequence whose state is *@state; any state will do. */
static inline uint64_t splitmix_next(uint64_t *state)
{
	return splitmix_mix(*state += SPLITMIX_STEP);
}

#endif /* KVD_COMMON_UTIL_SPLITMIX_H */
