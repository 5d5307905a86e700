/* SPDX-License-Identifier: MIT */
/* The bucket cache: stores buckets and slots, looks slots up by their tag, drops stale ones. */
#include "client/bcache.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

int bcache_init(struct bcache *cache, size_t bytes, uint64_t buckets)
{
	uint64_t entries = bytes / sizeof(struct bcache_entry);
	void *p;

	*cache = (struct bcache){ 0 };
	if (entries > buckets)
		entries = buckets;
	if (!entries)
		return 0;
	entries = 1ull << (63 - __builtin_clzll(entries));
	if (entries > 1ull << 31)
		entries = 1ull << 31;
	/*
	 * The kernel allocates a page when it is first used: a large one if it has one, since a
	 * lookup of a random key costs a walk of the page tables where pages are small. The
	 * buckets of an index lie together, so little of a large page stays unused.
	 */
	p = mmap(NULL, entries * sizeof(struct bcache_entry), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	madvise(p, entries * sizeof(struct bcache_entry), MADV_HUGEPAGE);
	cache->entries = p;
	cache->mask = (uint32_t)(entries - 1);
	return 0;
}

size_t bcache_bytes(const struct bcache *cache)
{
	return cache->entries ? ((size_t)cache->mask + 1) * sizeof(struct bcache_entry) : 0;
}

void bcache_release(struct bcache *cache)
{
	if (cache->entries)
		munmap(cache->entries, bcache_bytes(cache));
	cache->entries = NULL;
}

void bcache_store(struct bcache *cache, uint64_t offset, const struct bucket *bucket)
{
	uint32_t unit = (uint32_t)(offset / BUCKET_BYTES);
	struct bcache_entry *entry;

	if (!cache->entries)
		return;
	entry = bcache_entry_at(cache, unit);
	entry->unit = unit;
	entry->overflow = bucket->overflow;
	memcpy(entry->slots, bucket->slots, sizeof(entry->slots));
}

/* The first cached slot of the chain that equals @slot or, unless @equal, has its tag. */
static uint64_t *slot_lookup(const struct bcache *cache, uint64_t home, uint64_t slot, bool equal)
{
	struct bcache_entry *entry = bcache_entry_lookup(cache, (uint32_t)(home / BUCKET_BYTES));
	unsigned int i, hops;

	for (hops = 0; entry && hops < BCACHE_HOPS_MAX; hops++) {
		for (i = 0; i < BUCKET_SLOTS; i++)
			if (equal ? entry->slots[i] == slot :
				    entry->slots[i] && slot_tag(entry->slots[i]) == slot_tag(slot))
				return &entry->slots[i];
		entry = bcache_entry_lookup(cache, entry->overflow);
	}
	return NULL;
}

/*
 * Replaces the slot with the same tag, or takes an empty one of the chain; if there is none, the
 * slot is not stored. An entry of another bucket is dropped for it: the newest use wins.
 */
void bcache_learn(struct bcache *cache, uint64_t home, uint64_t slot)
{
	uint32_t unit = (uint32_t)(home / BUCKET_BYTES);
	struct bcache_entry *entry;
	uint64_t *known;

	if (!cache->entries)
		return;
	known = slot_lookup(cache, home, slot, false);
	if (known) {
		*known = slot;
		return;
	}
	entry = bcache_entry_at(cache, unit);
	if (entry->unit != unit) {
		memset(entry, 0, sizeof(*entry));
		entry->unit = unit;
	}
	known = slot_lookup(cache, home, 0, true);
	if (known)
		*known = slot;
}

void bcache_drop(struct bcache *cache, uint64_t home, uint64_t slot)
{
	uint64_t *known = cache->entries ? slot_lookup(cache, home, slot, true) : NULL;

	if (known)
		*known = 0;
}
