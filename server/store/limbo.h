/* SPDX-License-Identifier: MIT */
/*
 * The limbo: delays the freeing of memory that readers inside the server may still use, until an
 * RCU grace period has passed: overflow buckets that were unlinked, and large items that were
 * replaced or removed. Many entries share one grace period. Clients need no such delay: they verify
 * all that they read.
 *
 * Small items are freed at once. A reader in the server that meets one that is being reused retries
 * (server/store/lookup.h), which takes less time than waiting would cost.
 *
 * Threads: each has a limbo of its own (struct store_thread) and is an RCU reader (QSBR).
 */
#ifndef KVD_SERVER_STORE_LIMBO_H
#define KVD_SERVER_STORE_LIMBO_H

#include "server/store/hold.h"
#include "server/store/memory.h"

/* Entries in one limbo; when it is full it is emptied. */
#define LIMBO_MAX 32
/* A limbo with more than 1/1024 of the item memory is emptied, too. */
#define LIMBO_SHARE 1024

/*
 * Items of at least this many bytes wait in limbo; smaller ones are copied faster than they are
 * reused.
 */
#define LIMBO_ITEM_BYTES 32768u

struct limbo_entry {
	void *p;
	size_t bytes; /* 0: an overflow bucket */
};

struct limbo {
	struct holds *holds; /* of the values that are sent from items */
	struct limbo_entry entries[LIMBO_MAX];
	uint64_t count; /* other threads may read it */
	uint64_t bytes;
};

/*
 * Frees @p through @cache after a grace period, for which it waits if the limbo is full. @bytes: of
 * an item, which must be invalid; 0: an overflow bucket. No lock held, no item or bucket in use.
 */
void limbo_add(struct limbo *limbo, struct mem_cache *cache, void *p, size_t bytes);
/* Waits for a grace period and frees everything. Nothing if it is empty. Conditions as above. */
void limbo_empty(struct limbo *limbo, struct mem_cache *cache);

#endif /* KVD_SERVER_STORE_LIMBO_H */
