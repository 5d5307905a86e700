/* SPDX-License-Identifier: MIT */
/*
 * What readers inside the server may still be looking at: overflow buckets that were unlinked and
 * large items that were replaced or removed. It is freed after an RCU grace period, many at a time.
 * Readers of the region need no such thing: whatever they find there must verify.
 *
 * Small items are not kept: they are freed at once, and a reader in the server that meets one that
 * is being reused reads again (server/store/lookup.h), which takes less time than waiting would cost.
 */
#ifndef KVD_SERVER_STORE_LIMBO_H
#define KVD_SERVER_STORE_LIMBO_H

#include "server/store/memory.h"

#define LIMBO_MAX 32
/* Bytes in one limbo: at most this share of the item memory, or one item. */
#define LIMBO_SHARE 1024

/* Items of at least so many bytes are kept; the others are copied faster than they are reused. */
#define LIMBO_ITEM_BYTES 32768u

struct limbo_entry {
	void *p;
	size_t bytes; /* 0: an overflow bucket */
};

struct limbo {
	struct limbo_entry entries[LIMBO_MAX];
	unsigned int count;
	uint64_t bytes;
};

/* Frees @p through @cache after a grace period. Waits for one now and then. */
void limbo_add(struct limbo *limbo, struct mem_cache *cache, void *p, size_t bytes);
/* Waits for a grace period and frees all, if there is anything. */
void limbo_empty(struct limbo *limbo, struct mem_cache *cache);

#endif /* KVD_SERVER_STORE_LIMBO_H */
