/* SPDX-License-Identifier: MIT */
/*
 * Statistics of sizes: their number and sum, and how many lie between powers of two; and the keys
 * with the largest numbers.
 */
#ifndef KVD_CLIENT_KVCTL_SIZES_H
#define KVD_CLIENT_KVCTL_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvd.h"

/* Range 0 has size 0, range 1 size 1, range 2 sizes 2 and 3, range n sizes 2^(n-1) to 2^n - 1. */
#define SIZES_RANGES 34u

struct sizes {
	uint64_t count, sum, max;
	uint64_t counts[SIZES_RANGES], sums[SIZES_RANGES];
};

/* Sizes above the last range, which kvd does not have, count in it. */
void sizes_add(struct sizes *sizes, uint64_t size);
/* The smallest and the largest size of a range. */
void sizes_range(unsigned int range, uint64_t *low, uint64_t *high);

struct top_key {
	uint64_t number;
	size_t key_len;
	uint8_t key[KVD_KEY_MAX];
};

/* The keys with the largest numbers, up to a fixed count. */
struct top {
	struct top_key *keys; /* a heap: the least of them is the first, until top_sort() */
	size_t count, room;
};

/* False: no memory. */
bool top_init(struct top *top, size_t room);
void top_release(struct top *top);
/* A key that is already in the list is not added again. */
void top_add(struct top *top, const void *key, size_t key_len, uint64_t number);
/* Sorts by number, largest first, then by the bytes of the key. Add nothing after it. */
void top_sort(struct top *top);

#endif /* KVD_CLIENT_KVCTL_SIZES_H */
