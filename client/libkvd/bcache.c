/* SPDX-License-Identifier: MIT */
/* The bucket cache: stores buckets and slots, looks slots up by their tag, drops stale ones. */
#include "client/libkvd/bcache.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

int bcache_init(struct bcache *cache, size_t bytes)
{
	uint64_t lines = bytes / sizeof(struct bcache_line);
	void *p;

	*cache = (struct bcache){ 0 };
	if (!lines)
		return 0;
	cache->bits = (uint8_t)(63 - __builtin_clzll(lines));
	cache->tag_bits = cache->bits < BCACHE_TAG_BITS ? cache->bits : BCACHE_TAG_BITS;
	cache->tag_mask = (1u << cache->tag_bits) - 1;
	lines = 1ull << cache->bits;
	/*
	 * The kernel allocates a page when it is first used: if it can a large one, since with
	 * small pages each lookup of a random key walks the page tables. The lines of an index
	 * that is small for the cache lie together.
	 */
	p = mmap(NULL, lines * sizeof(struct bcache_line), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	madvise(p, lines * sizeof(struct bcache_line), MADV_HUGEPAGE);
	/* A child after fork(2) has no use for it: the handles are its parent's. */
	madvise(p, lines * sizeof(struct bcache_line), MADV_DONTFORK);
	cache->lines = p;
	return 0;
}

size_t bcache_bytes(const struct bcache *cache)
{
	return cache->lines ? sizeof(struct bcache_line) << cache->bits : 0;
}

void bcache_release(struct bcache *cache)
{
	if (cache->lines)
		munmap(cache->lines, bcache_bytes(cache));
	cache->lines = NULL;
}

void bcache_level(struct bcache *cache, uint32_t level)
{
	uint32_t bits = cache->bits - cache->tag_bits;

	cache->low_mask = (1ull << (level < bits ? level : bits)) - 1;
}

/* Replaces the slot with the same tag, or takes an empty one, or, if @force, any. */
static void line_store(struct bcache *cache, struct bcache_line *line, uint64_t slot, bool force)
{
	unsigned int i, at = LINE_SLOTS;
	uint64_t old;

	for (i = 0; i < LINE_SLOTS; i++) {
		old = slot_load(&line->slots[i]);
		/* No store: the line may be in other cores' caches, too. */
		if (old == slot)
			return;
		if (!old) {
			at = i;
		} else if (slot_tag(old) == slot_tag(slot)) {
			at = i;
			break;
		}
	}
	if (at == LINE_SLOTS && force)
		at = cache->victim++ % LINE_SLOTS;
	if (at < LINE_SLOTS)
		store_relaxed64(&line->slots[at], slot);
}

void bcache_store(struct bcache *cache, uint64_t number, const struct bucket *bucket, uint16_t tag)
{
	unsigned int i;
	uint64_t slot;

	if (!cache->lines)
		return;
	for (i = 0; i < BUCKET_SLOTS; i++) {
		slot = bucket->slots[i];
		if (slot)
			line_store(cache, bcache_line(cache, number, slot_tag(slot)), slot,
				   slot_tag(slot) == tag);
	}
}

void bcache_learn(struct bcache *cache, uint64_t hash, uint64_t slot)
{
	/* A key that is replaced in place is where it was. */
	if (cache->lines && bcache_lookup(cache, hash) != slot)
		line_store(cache, bcache_line(cache, hash, slot_tag(slot)), slot, true);
}

void bcache_drop(struct bcache *cache, uint64_t hash, uint64_t slot)
{
	struct bcache_line *line;
	unsigned int i;

	if (!cache->lines)
		return;
	line = bcache_line(cache, hash, slot_tag(slot));
	for (i = 0; i < LINE_SLOTS; i++)
		if (slot_load(&line->slots[i]) == slot)
			store_relaxed64(&line->slots[i], 0);
}
