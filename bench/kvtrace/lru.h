/* SPDX-License-Identifier: MIT */
/*
 * Exact LRU in memory, to compare real caches with: counts hits and holds no values.
 *
 * A missing key is added, and the least recently used items are evicted until the limits hold. An
 * item takes key + value + overhead bytes; one that is larger than the limit is not added.
 */
#ifndef KVD_BENCH_KVTRACE_LRU_H
#define KVD_BENCH_KVTRACE_LRU_H

#include <stdbool.h>
#include <stdint.h>

struct lru_limits {
	uint64_t items;		/* 0: no limit but LRU_ITEMS_MAX */
	uint64_t bytes;		/* 0: no limit */
	uint64_t item_overhead; /* bytes of an item without its value: key and the cache's own */
};

#define LRU_ITEMS_MAX (UINT32_MAX - 1)

struct lru_item;

struct lru {
	struct lru_limits limits;
	struct lru_item *items;
	uint32_t *heads; /* of the hash table's chains */
	uint32_t item_size, head_size;
	uint32_t item_next; /* the first number that was never used */
	uint32_t free;	    /* evicted items, chained */
	uint32_t newest, oldest;
	uint64_t count, bytes; /* of all items */
};

void lru_init(struct lru *lru, const struct lru_limits *limits);
void lru_release(struct lru *lru);

/* One access. Returns 1 for a hit, 0 for a miss, -ENOMEM. */
int lru_access(struct lru *lru, uint64_t key, uint32_t size);

#endif /* KVD_BENCH_KVTRACE_LRU_H */
