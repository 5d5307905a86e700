/* SPDX-License-Identifier: MIT */
/*
 * Item memory: what the region holds beside its superblock and the index.
 *
 *	+------------+-----------------+--------------------------------------------+-----+
 *	| superblock | index, grows -> |      pages: free, slabs, large items       | pad |
 *	+------------+-----------------+--------------------------------------------+-----+
 *
 * Memory is handed out in spans of 4 KiB pages: slabs, cut into blocks of one size class, and large
 * items, a span each. Pages are taken from the region's end, so that what lies behind the index stays
 * free for it as long as there is room. All that describes them is outside of the region.
 *
 *   M1. A block that is free, or was handed out and not written yet, begins with 8 zero bytes: to
 *	 readers of the region an invalid item. mem_alloc() makes it so for new slabs and large
 *	 items, and who frees a block has zeroed them before (item_invalidate()).
 *   M2. Any span can be emptied: an evacuation (server/store/evacuate.h) keeps its free blocks from being handed out again,
 *	 while its user moves or frees what lives there. No mix of sizes is for good.
 *   M3. Bounded: nothing is handed out beyond the region, and a thread's magazine of free blocks is at
 *	 most 1/512 of the item memory.
 *
 * Threads: any, each with a cache of its own (struct mem_cache is for one thread at a time, but
 * evacuations take from every cache what they need, so each has a lock). Lock order: a cache's, a class's,
 * the pages'. No callbacks are made with any of them held.
 */
#ifndef KVD_SERVER_STORE_MEMORY_H
#define KVD_SERVER_STORE_MEMORY_H

#include <stdbool.h>

#include "server/store/page_heap.h"
#include "server/store/region.h"
#include "server/store/size_class.h"

struct memory;

/* How the region is divided, in bytes. superblock + index + pages + pad = the region. */
#define MEMORY_STATS(X)                                                                            \
	X(index, "memory of the index, its overflow buckets not included")                         \
	X(free, "pages that belong to nothing")                                                    \
	X(item_slabs, "slabs of items")                                                            \
	X(item_slabs_free, "of those, blocks that are free, threads' magazines included")          \
	X(bucket_slabs, "slabs of overflow buckets")                                               \
	X(bucket_slabs_free, "of those, blocks that are free")                                     \
	X(large, "spans of items that are too large for a slab")                                   \
	X(evacuating, "spans that are being emptied now")

struct memory_stats {
#define X(name, help) uint64_t name;
	MEMORY_STATS(X)
#undef X
};

struct mem_cache;

/*
 * At most one struct memory at a time exists for a region, which stays the caller's and outlives it.
 * @index_bytes of index come first. 0, or -EINVAL or -ENOMEM after logging and *@memory NULL.
 */
int memory_create(struct memory **memory, struct region *region, uint64_t index_bytes);
void memory_destroy(struct memory *memory);

/* Bytes that items and overflow buckets can take now; falls as the index grows. */
uint64_t memory_bytes(const struct memory *memory);
/* Free pages and free blocks, magazines included. Adds up all classes: not for each PUT. */
uint64_t memory_free_bytes(const struct memory *memory);
void memory_stats(const struct memory *memory, struct memory_stats *stats);

/* 0 or a negative errno. */
int mem_cache_init(struct mem_cache *cache, struct memory *memory);
/* Puts its magazine back. */
void mem_cache_release(struct mem_cache *cache);

/*
 * Takes @bytes, aligned to ITEM_ALIGN. NULL, and quickly, when there is no free block of the class, nor
 * pages for a slab of it. But for its first 8 bytes (M1) what it holds is undefined.
 */
void *mem_alloc(struct mem_cache *cache, size_t bytes);
/* Gives back what was taken with @bytes of the same class, by this cache or another. */
void mem_free(struct mem_cache *cache, void *p, size_t bytes);

/* The same for an overflow bucket, aligned to BUCKET_BYTES, of the chain of home bucket @home. */
void *mem_alloc_bucket(struct mem_cache *cache, uint64_t home);
void mem_free_bucket(struct mem_cache *cache, void *p);
/* A split gives the bucket to another chain. */
void mem_bucket_set_home(struct memory *memory, void *p, uint64_t home);

/*
 * Empties all caches' magazines into the slabs, and frees the slabs that are empty then. Slow (takes
 * every lock): before a PUT fails, not on each.
 */
void memory_gather(struct memory *memory);

/*
 * Up to @count blocks chosen at random, of one class or (mem_sample_any) of all items, each byte of
 * item memory as likely as any other. No lock is taken. Hints: a block may be free or become so, be of
 * another class by now, or be returned twice. Returns how many were found, none of them a bucket.
 */
unsigned int mem_sample(struct memory *memory, unsigned int class_id, uint64_t *random,
			void **blocks, unsigned int count);
unsigned int mem_sample_any(struct memory *memory, uint64_t *random, void **blocks,
			    unsigned int count);

/* A thread's magazine of free blocks, and its share of the totals. */
#define MAGAZINE_BLOCKS 16u
#define MAGAZINES_SHARE 512u /* of the memory that all magazines of a cache may take (M3) */

struct mem_magazine {
	uint16_t count;
	void *blocks[MAGAZINE_BLOCKS];
};

struct mem_cache {
	struct memory *memory;
	struct mem_cache *next; /* of all caches of the memory */
	uint32_t lock;
	uint64_t magazine_bytes;
	uint64_t allocated_bytes; /* by this cache, as mem_class_bytes(); stats add up all caches */
	uint64_t freed_bytes;
	uint64_t failures;
	struct mem_magazine magazines[MEM_CLASSES_MAX];
};

/* For evacuations. */

/* Takes what is in these pages, a slab of the class, out of all caches' magazines. */
void magazines_collect(struct memory *memory, unsigned int class_id, uint32_t page, uint32_t pages);
/* Blocks of a class that are in caches' magazines. */
uint64_t magazines_count(struct memory *memory, unsigned int class_id);

#endif /* KVD_SERVER_STORE_MEMORY_H */
