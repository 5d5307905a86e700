/* SPDX-License-Identifier: MIT */
/*
 * The bucket cache: where keys were when last looked. Direct-mapped by the bucket's place in the
 * region. What it holds are hints: they may find an item, which proves itself by its sum and its
 * key, but never prove that there is none.
 */
#ifndef KVD_CLIENT_BCACHE_H
#define KVD_CLIENT_BCACHE_H

#include "common/layout.h"

struct bcache_entry {
	uint32_t unit;	   /* offset / BUCKET_BYTES of the bucket; 0: empty entry */
	uint32_t overflow; /* as in the bucket */
	uint64_t slots[BUCKET_SLOTS];
	uint64_t pad;
};
static_assert(sizeof(struct bcache_entry) == 128, "two cache lines");

struct bcache {
	struct bcache_entry *entries; /* NULL: off */
	uint32_t mask;
};

/* Colliding tags that are tried before the bucket is read; more are one in 10^8 lookups. */
#define BCACHE_MATCHES_MAX 4

/* At most @bytes, at most one entry for each of @buckets. 0 or -ENOMEM. */
int bcache_init(struct bcache *cache, size_t bytes, uint64_t buckets);
void bcache_release(struct bcache *cache);
size_t bcache_bytes(const struct bcache *cache);

/*
 * Collects the slots with @tag in what is cached of the chain that starts at offset @home. Returns
 * how many.
 */
unsigned int bcache_lookup(const struct bcache *cache, uint64_t home, uint16_t tag,
			   uint64_t slots[BCACHE_MATCHES_MAX]);

/* Remembers a bucket that verified. */
void bcache_store(struct bcache *cache, uint64_t offset, const struct bucket *bucket);

/* Remembers that @slot is now the place of a key with its tag and home bucket. */
void bcache_learn(struct bcache *cache, uint64_t home, uint64_t slot);

/* Forgets one slot of the chain, which led nowhere. */
void bcache_drop(struct bcache *cache, uint64_t home, uint64_t slot);

static inline void bcache_prefetch(const struct bcache *cache, uint64_t offset)
{
	const struct bcache_entry *entry;

	if (!cache->entries)
		return;
	entry = &cache->entries[offset / BUCKET_BYTES & cache->mask];
	__builtin_prefetch(entry);
	__builtin_prefetch((const uint8_t *)entry + 64);
}

#endif /* KVD_CLIENT_BCACHE_H */
