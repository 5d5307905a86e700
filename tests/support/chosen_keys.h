/* SPDX-License-Identifier: MIT */
/*
 * Keys of a wanted hash, as a client makes them that knows the store's hash seed. XXH3 of 8 bytes
 * is a permutation: it is undone here, so that a key costs no search. Longer keys would have to be
 * tried, 2^level for one of a bucket.
 */
#ifndef KVD_TESTS_SUPPORT_CHOSEN_KEYS_H
#define KVD_TESTS_SUPPORT_CHOSEN_KEYS_H

#include <stdint.h>
#include <string.h>

#include "common/sum.h"

/* XXH3's factor in the mixing of 4 to 8 bytes, and what undoes it: their product is 1 mod 2^64. */
#define CHOSEN_FACTOR UINT64_C(0x9fb21c651e98df25)

static inline uint64_t chosen_rotate(uint64_t x, unsigned int by)
{
	return x << by | x >> (64 - by);
}

/* By Newton: each step doubles the low bits that are right, 3 at first. */
static inline uint64_t chosen_inverse(uint64_t odd)
{
	uint64_t x = odd;

	for (unsigned int i = 0; i < 5; i++)
		x *= 2 - odd * x;
	return x;
}

/* The one key of 8 bytes that has @hash with @seed. */
static inline uint64_t chosen_key(uint64_t hash, uint64_t seed)
{
	const uint64_t inverse = chosen_inverse(CHOSEN_FACTOR);
	uint64_t x = hash, flip, at8, at16;

	memcpy(&at8, XXH3_kSecret + 8, sizeof(at8));
	memcpy(&at16, XXH3_kSecret + 16, sizeof(at16));
	seed ^= (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
	flip = (at8 ^ at16) - seed;
	x ^= x >> 28 ^ x >> 56;
	x *= inverse;
	x ^= (x >> 35) + 8;
	x *= inverse;
	/* A sum of three rotations is of order 64: 63 more of them undo it. */
	for (unsigned int i = 0; i < 63; i++)
		x ^= chosen_rotate(x, 49) ^ chosen_rotate(x, 24);
	x ^= flip;
	return x << 32 | x >> 32;
}

/*
 * The hash of key number @n, below 2^16 (@same_tag) or 2^31, among those of the home bucket of
 * @like at every level that an index can have; with the same tag, or with any.
 */
static inline uint64_t chosen_hash(uint64_t like, uint32_t n, bool same_tag)
{
	uint64_t low = like & 0xffffffff;

	return same_tag ? like >> 48 << 48 | (uint64_t)n << 32 | low :
			  (uint64_t)(n * 0x9e3779b1u) << 32 | low;
}

#endif /* KVD_TESTS_SUPPORT_CHOSEN_KEYS_H */
