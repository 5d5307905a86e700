/* SPDX-License-Identifier: MIT */
/*
 * Sizes of many things: their number, sum, and how many have sizes between two powers of two; and
 * the few keys with the largest numbers of some kind.
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

/* Sizes beyond the last range, of which kvd has none, count in it. */
void sizes_add(struct sizes *sizes, uint64_t size);
/* The smallest and the largest size of a range. */
void sizes_range(unsigned int range, uint64_t *low, uint64_t *high);

struct top_key {
	uint64_t number;
	size_t key_len;
	uint8_t key[KVD_KEY_MAX];
};

/* The keys with the largest numbers, as many as there is room for. */
struct top {
	struct top_key *keys; /* a heap: the least of them is the first, until top_sort() */
	size_t count, room;
};

/* False: no memory. */
bool top_init(struct top *top, size_t room);
void top_release(struct top *top);
/* A key that is among them already stays so once. */
void top_add(struct top *top, const void *key, size_t key_len, uint64_t number);
/* The largest first; keys with equal numbers in the order of their bytes. Nothing is added then. */
void top_sort(struct top *top);

#endif /* KVD_CLIENT_KVCTL_SIZES_H */
