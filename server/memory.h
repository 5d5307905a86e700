/* SPDX-License-Identifier: MIT */
/*
 * Item memory: jemalloc's size classes and slabs inside the region.
 *
 * One arena takes its extents from the region and from nowhere else, so the configured size is a
 * hard limit; its metadata stays outside. What has been measured of jemalloc 5.3 is in
 * server/DESIGN.md, "Memory".
 *
 * Threads: any, each with a cache of its own (struct mem_cache is for one thread at a time).
 */
#ifndef KVD_SERVER_MEMORY_H
#define KVD_SERVER_MEMORY_H

#include <stdbool.h>

#include "server/region.h"

struct memory;

/* A thread's stock of free blocks, and its share of the totals. */
struct mem_cache {
	struct memory *memory;
	unsigned int tcache;
	uint64_t allocated_bytes; /* by this cache; stats add up all caches */
	uint64_t freed_bytes;
	uint64_t failures;
	uint64_t flushed_at; /* freed_bytes when it was last flushed in vain */
};

/* At most one struct memory at a time exists in a process for a region. */
int memory_create(struct memory **memory, struct region *region);
void memory_destroy(struct memory *memory);

/* Bytes that items and overflow buckets can take. */
uint64_t memory_bytes(const struct memory *memory);

int mem_cache_init(struct mem_cache *cache, struct memory *memory);
void mem_cache_release(struct mem_cache *cache);

/*
 * Takes @bytes, aligned to ITEM_ALIGN, or to BUCKET_BYTES for exactly that many. NULL when the
 * region is full. What it holds is undefined.
 */
void *mem_alloc(struct mem_cache *cache, size_t bytes);
/* Gives back what was taken with the same @bytes, by this cache or another. */
void mem_free(struct mem_cache *cache, void *p, size_t bytes);
/* What a block of @bytes really takes: its size class. */
size_t mem_class(size_t bytes);

#endif /* KVD_SERVER_MEMORY_H */
