/* SPDX-License-Identifier: MIT */
/*
 * Pseudo-random numbers for one thread: xoshiro256** by Blackman and Vigna (2018), seeded by
 * splitmix64 as its authors advise.
 */
#ifndef KVD_BENCH_RANDOM_H
#define KVD_BENCH_RANDOM_H

#include <stdint.h>

#include "common/util/splitmix.h"

struct random {
	uint64_t s[4];
};

static inline void random_init(struct random *random, uint64_t seed)
{
	int i;

	for (i = 0; i < 4; i++)
		random->s[i] = splitmix_next(&seed);
}

static inline uint64_t random_rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline uint64_t random_next(struct random *random)
{
	uint64_t *s = random->s;
	const uint64_t result = random_rotate(s[1] * 5, 7) * 9;
	const uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = random_rotate(s[3], 45);
	return result;
}

/* Uniform in [0, 1), in steps of 2^-53. */
static inline double random_double(struct random *random)
{
	return (double)(random_next(random) >> 11) * 0x1p-53;
}

/* Uniform in [0, bound); @bound is not 0. The bias is below bound / 2^64. */
static inline uint64_t random_below(struct random *random, uint64_t bound)
{
	return (uint64_t)((unsigned __int128)random_next(random) * bound >> 64);
}

#endif /* KVD_BENCH_RANDOM_H */
