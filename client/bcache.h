/* SPDX-License-Identifier: MIT */
/*
 * The bucket cache: a client's copies of index buckets, so that a GET of a key it has seen takes
 * one READ. Direct-mapped by the bucket's offset in the region. A cached slot is a hint: the item
 * it leads to proves by its sum and its key that it is the right one. The cache never proves that a
 * key does not exist.
 */
#ifndef KVD_CLIENT_BCACHE_H
#define KVD_CLIENT_BCACHE_H

#include "common/layout.h"
#include "common/slot_match.h"

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

/* Cached buckets of a chain that are followed; the rest of a longer chain is READ. */
#define BCACHE_HOPS_MAX 4
/* Slots with one tag that are tried before the bucket is read; more: one in 10^8 lookups. */
#define BCACHE_MATCHES_MAX 4

/* Takes at most @bytes, and at most one entry for each of @buckets. 0 or -ENOMEM. */
int bcache_init(struct bcache *cache, size_t bytes, uint64_t buckets);
void bcache_release(struct bcache *cache);
size_t bcache_bytes(const struct bcache *cache);

/* Stores a bucket that verified. */
void bcache_store(struct bcache *cache, uint64_t offset, const struct bucket *bucket);

/* Stores @slot, which now leads to a key with its tag and home bucket. */
void bcache_learn(struct bcache *cache, uint64_t home, uint64_t slot);

/* Removes one slot of the chain, which no longer led to its key. */
void bcache_drop(struct bcache *cache, uint64_t home, uint64_t slot);

/* The only entry in which a bucket may be. @unit: its offset / BUCKET_BYTES. */
static inline struct bcache_entry *bcache_entry_at(const struct bcache *cache, uint32_t unit)
{
	return &cache->entries[unit & cache->mask];
}

/* The entry of this bucket, or NULL. */
static inline struct bcache_entry *bcache_entry_lookup(const struct bcache *cache, uint32_t unit)
{
	struct bcache_entry *entry;

	if (!cache->entries || !unit)
		return NULL;
	entry = bcache_entry_at(cache, unit);
	return entry->unit == unit ? entry : NULL;
}

/*
 * Copies to @slots those with @tag from the first cached bucket of the chain at offset @home that
 * has any. Returns how many. Inline: each GET does it.
 */
static inline unsigned int bcache_lookup(const struct bcache *cache, uint64_t home, uint16_t tag,
					 uint64_t slots[BCACHE_MATCHES_MAX])
{
	const struct bcache_entry *entry = bcache_entry_lookup(cache,
							       (uint32_t)(home / BUCKET_BYTES));
	unsigned int matches, hops, found = 0;
	uint64_t slot;

	for (hops = 0; entry && !found && hops < BCACHE_HOPS_MAX; hops++) {
		matches = slots_match(entry->slots, tag);
		for (; matches && found < BCACHE_MATCHES_MAX; matches &= matches - 1) {
			slot = entry->slots[__builtin_ctz(matches)];
			if (slot)
				slots[found++] = slot;
		}
		entry = bcache_entry_lookup(cache, entry->overflow);
	}
	return found;
}

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
