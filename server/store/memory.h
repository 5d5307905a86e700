/* SPDX-License-Identifier: MIT */
/*
 * Item memory: allocates the blocks of items and overflow buckets, in the part of the region after
 * the index.
 *
 *	+------------+-----------------+--------------------------------------------+-----+
 *	| superblock | index, grows -> |      pages: free, slabs, large items       | pad |
 *	+------------+-----------------+--------------------------------------------+-----+
 *
 * Memory is allocated in spans of 4 KiB pages: slabs, which are cut into blocks of one size class,
 * and large items, each a span. Spans come from the region's end, so the pages after the index
 * stay free for it as long as possible. All descriptors are outside the region.
 *
 *   MEMORY-1. A block that is free, or allocated and not written yet, begins with 8 zero bytes: to
 *	 readers of the region an invalid item. mem_alloc() writes them for new slabs and large
 *	 items, and a thread writes them before it frees a block (item_invalidate()).
 *   MEMORY-2. Any span can be emptied: an evacuation (server/store/evacuate.h) keeps its free
 *	 blocks from being allocated while its user moves or frees the items in it. So memory can
 *	 always go to another size.
 *   MEMORY-3. Bounded: nothing is allocated beyond the region, and the free blocks in a thread's
 *	 magazines are at most 1/512 of the item memory.
 *
 * Threads: any, each with a struct mem_cache of its own. One thread at a time uses a cache, but an
 * evacuation takes blocks out of all magazines, so each cache has a lock. Lock order: a cache's, a
 * size class's, the page heap's. The only callback is the cost of a place
 * (server/store/evacuate.h). Allocating and freeing take only spin locks; functions that visit all
 * caches take caches_lock, a mutex, before them.
 */
#ifndef KVD_SERVER_STORE_MEMORY_H
#define KVD_SERVER_STORE_MEMORY_H

#include <stdbool.h>

#include "server/store/page_heap.h"
#include "server/store/region.h"
#include "server/store/size_class.h"

struct memory;

/*
 * How the region is divided, in bytes: superblock + index + free + item_slabs + bucket_slabs +
 * large + pad = the region. X(name, help)
 */
#define MEMORY_STATS(X)                                                                            \
	X(index, "memory of the index, its overflow buckets not included")                         \
	X(free, "free pages")                                                                      \
	X(item_slabs, "slabs of items")                                                            \
	X(item_slabs_free, "free blocks in slabs of items, those in threads' magazines included")  \
	X(bucket_slabs, "slabs of overflow buckets")                                               \
	X(bucket_slabs_free, "free blocks in slabs of overflow buckets")                           \
	X(slab_ends, "ends of slabs that are too short for a block")                               \
	X(large, "pages of items that are too large for a slab")                                   \
	X(evacuating, "pages that are being emptied now")

struct memory_stats {
#define X(name, help) uint64_t name;
	MEMORY_STATS(X)
#undef X
};

/* Statistics of one size class of items. X(name, help): N in the names is the bytes of a block. */
#define SIZE_CLASS_STATS(X)                                                                        \
	X(slabs, "slabs of blocks of N bytes, for each N with slabs: an item takes the smallest "  \
		 "block that holds header, key and value, or a larger one if memory is full and "  \
		 "eviction off")                                                                   \
	X(bytes, "memory of the slabs of N bytes; the sum over all N is memory.item_slabs")        \
	X(used, "blocks of N bytes that hold items")                                               \
	X(free, "free blocks of N bytes, those in threads' magazines included")

struct size_class_stats {
#define X(name, help) uint64_t name;
	SIZE_CLASS_STATS(X)
#undef X
};

struct mem_cache;

/*
 * Makes the part of the region after the superblock and @index_bytes of index item memory. The
 * region remains the caller's, must outlive it and has one struct memory at a time. Returns 0, or
 * after logging a negative errno, with *@memory NULL: EINVAL if nothing is left for items, ENOMEM.
 * If the region was kept, nothing is free until memory_adopt() (adopt.h).
 */
int memory_create(struct memory **memory, struct region *region, uint64_t index_bytes);
void memory_destroy(struct memory *memory);

/*
 * Bytes that items and overflow buckets may take now, allocated or not. Falls as the index grows.
 */
uint64_t memory_bytes(const struct memory *memory);
/* The initial memory_bytes() of a region of @region_bytes, with an index of @index_bytes. */
uint64_t memory_bytes_first(uint64_t region_bytes, uint64_t index_bytes);
/* The longest block that can ever be: it has to fit an extent. */
uint64_t memory_block_max(const struct memory *memory);
/*
 * Adds the pages of a region that has @bytes from now on, and raises region->bytes as it goes. One
 * thread at a time. memory_cut() removes those beyond @bytes, which an evacuation has emptied.
 */
void memory_grow(struct memory *memory, uint64_t bytes);
void memory_cut(struct memory *memory, uint64_t bytes);
/* The first page that a region of @bytes does not have: its pad. */
uint32_t memory_end_page(uint64_t bytes);
/*
 * Bytes of free pages and free blocks, magazines included. Takes every lock in turn, so it is slow,
 * as memory_stats() is.
 */
uint64_t memory_free_bytes(const struct memory *memory);
void memory_stats(const struct memory *memory, struct memory_stats *stats);
/*
 * The statistics of size class @class_id. Returns the bytes of its blocks; 0: it has no slabs, does
 * not exist or is that of overflow buckets, and @stats is not written. Takes the class's lock, and
 * each cache's only if there are slabs. Any thread.
 */
uint32_t size_class_stats(const struct memory *memory, unsigned int class_id,
			  struct size_class_stats *stats);

/* Makes an empty cache for one thread. Returns 0. */
int mem_cache_init(struct mem_cache *cache, struct memory *memory);
/* Frees the blocks in its magazines into their slabs. Any thread. */
void mem_cache_drain(struct mem_cache *cache);
/* As mem_cache_drain(); the cache is not used any more. */
void mem_cache_release(struct mem_cache *cache);

/*
 * Allocates a block for @bytes, aligned to ITEM_ALIGN; its content is undefined except the first 8
 * bytes (MEMORY-1). Returns NULL, and quickly, if there is neither a free block of the class nor
 * pages for a slab.
 */
void *mem_alloc(struct mem_cache *cache, size_t bytes);
/*
 * Allocates from the next larger class that has a free block, of at most twice the bytes and not of
 * pages. A last resort: the rest of the block is lost until it is freed, and from the first such
 * block on each mem_free() of the memory looks up the block's slab.
 */
void *mem_alloc_wider(struct mem_cache *cache, size_t bytes);
/* Frees a block that was allocated with @bytes of the same class, through this cache or another. */
void mem_free(struct mem_cache *cache, void *p, size_t bytes);

/*
 * Allocate and free an overflow bucket, aligned to BUCKET_BYTES. @home: the number of the home
 * bucket of its chain.
 */
void *mem_alloc_bucket(struct mem_cache *cache, uint64_t home);
void mem_free_bucket(struct mem_cache *cache, void *p);
/* Notes that an overflow bucket is in the chain of @home now. */
void mem_bucket_set_home(struct memory *memory, void *p, uint64_t home);

/*
 * Frees the blocks in all caches' magazines into their slabs, and the slabs that are empty then.
 * Slow (takes every lock in turn): before a PUT fails, not on each.
 */
void memory_gather(struct memory *memory);

/*
 * As memory_gather(), but only for the caches, except @own, of idle threads: those from which
 * nothing was allocated or freed since the last call, by any thread, and those that no call has
 * looked at yet. Returns the bytes freed. For a thread that would evict items while magazines of
 * other threads hold free blocks; busy threads keep their magazines.
 */
uint64_t memory_gather_idle(struct memory *memory, const struct mem_cache *own);

/*
 * Chooses up to @count blocks at random, of one class or, with mem_sample_any(), of all items; each
 * byte of their memory is as likely as any other. Takes no lock, so these are hints: a block may be
 * free by now, or of another class, or be returned twice. Returns how many were found; overflow
 * buckets are not among them, nor is what is in memory that is being emptied. @random is the
 * caller's state.
 */
unsigned int mem_sample(struct memory *memory, unsigned int class_id, uint64_t *random,
			void **blocks, unsigned int count);
unsigned int mem_sample_any(struct memory *memory, uint64_t *random, void **blocks,
			    unsigned int count);

/* A thread's free blocks of one class: a magazine (Bonwick & Adams 2001). */
#define MAGAZINE_BLOCKS 16u
#define MAGAZINES_SHARE 512u /* 1/512 of the item memory for all magazines of a cache (MEMORY-3) */

struct mem_magazine {
	uint16_t count;
	void *blocks[MAGAZINE_BLOCKS];
};

/* What a thread allocates from: its magazines, and its part of the totals. */
struct mem_cache {
	struct memory *memory;
	struct mem_cache *next;	  /* of all caches of the memory */
	uint32_t lock;		  /* guards the magazines; a mem_lock() */
	uint64_t magazine_bytes;  /* in all magazines */
	uint64_t allocated_bytes; /* by this cache, in blocks and pages; stats add up all caches */
	uint64_t freed_bytes;
	uint64_t failures; /* allocations that found nothing free */
	uint64_t gathered; /* its last cache_activity() in memory_gather_idle(); with caches_lock */
	struct mem_magazine magazines[MEM_CLASSES_MAX];
};

/* For evacuations. They take caches_lock and each cache's lock in turn. */

/* Moves the blocks of a class in these pages from all magazines to their slabs. */
void magazines_collect(struct memory *memory, unsigned int class_id, uint32_t page, uint32_t pages);
/* The number of blocks of a class that are in magazines. */
uint64_t magazines_count(struct memory *memory, unsigned int class_id);

#endif /* KVD_SERVER_STORE_MEMORY_H */
