/* SPDX-License-Identifier: MIT */
/*
 * Slabs: spans of pages cut into blocks of one size class; and struct memory, which memory.c,
 * slab.c and evacuate.c share.
 *
 * Every slab has a descriptor of 256 bytes in an array outside the region. The array is mapped for
 * the worst case of the largest region at the start, in the file of the state if the store is kept
 * (keep.h); else untouched pages of it cost nothing. With the page map this comes to 0.8 % of the
 * memory, and to 4 bytes for each block of a bucket slab.
 */
#ifndef KVD_SERVER_STORE_SLAB_H
#define KVD_SERVER_STORE_SLAB_H

#include <pthread.h>
#include <stdalign.h>
#include <sys/queue.h>

#include "common/util/splitmix.h"
#include "server/store/page_heap.h"
#include "server/store/region.h"
#include "server/store/size_class.h"

#define SLAB_NONE UINT32_MAX

/* The shortest slab, created only if there is no room for a whole one. */
#define SLAB_PAGES_MIN 4u
#define SLAB_BLOCKS_MAX (SLAB_BYTES_MIN / CLASS_BYTES_MIN)
#define SLAB_WORDS ((SLAB_BLOCKS_MAX + 63) / 64)
/*
 * Lists of slabs with free blocks, by how full they are: list 0 has the fullest, which are used
 * first.
 */
#define SLAB_LISTS 8u

/* Guarded by the lock of its class. */
struct slab {
	alignas(64) uint32_t page; /* its first page */
	uint16_t pages;
	uint16_t class_id; /* stored before the page map leads to the slab */
	uint16_t blocks;   /* 0: the descriptor is free */
	uint16_t free;
	uint8_t list; /* SLAB_LISTS: in no list */
	uint8_t evacuating;
	uint16_t first_word;		/* words of free_bits before this one are 0 */
	uint32_t next, prev;		/* in its list */
	uint32_t index;			/* in slab_ids of its class */
	uint64_t free_bits[SLAB_WORDS]; /* bit i set: block i is free */
};
static_assert(sizeof(struct slab) == 256, "four cache lines");

struct size_class {
	alignas(64) uint32_t lock;
	uint32_t bytes;	    /* of a block; 0: no such class */
	uint32_t inverse;   /* 2^32 / (bytes / CLASS_STEP), rounded up: to divide by multiplying */
	uint16_t pages;	    /* of a whole slab; shorter ones are created if that does not fit */
	uint16_t blocks;    /* of a whole slab */
	bool has_magazines; /* threads keep free blocks in magazines */
	uint32_t available; /* free blocks in slabs that are not being evacuated */
	uint32_t slabs;	    /* number of slabs */
	uint32_t *slab_ids; /* of all its slabs: indexes into memory.slabs */
	uint32_t lists[SLAB_LISTS];
	uint64_t slab_pages; /* of all its slabs */
	uint64_t slab_ends;  /* bytes at their ends, too short for a block */
	uint64_t free; /* free blocks, also of slabs being evacuated; not those in magazines */
};

struct memory {
	struct region *region;
	struct page_heap heap;
	struct size_class classes[MEM_CLASSES_MAX];
	struct slab *slabs; /* descriptors */
	uint32_t slabs_max;
	uint32_t slabs_used;  /* descriptors ever used; with the page heap's lock */
	uint32_t slabs_spare; /* the first free one; with the page heap's lock */
	uint32_t *slab_ids;   /* slab_ids of all classes, slabs_max each */
	uint32_t *homes; /* the home of the overflow bucket at each BUCKET_BYTES of the region */
	pthread_mutex_t caches_lock; /* taken before a cache's */
	struct mem_cache *caches;
	uint32_t evacuations; /* under way; only then must a free check its slab for one */
	uint32_t wider;	      /* mem_alloc_wider() was used: a block's class is that of its slab */
	/* Evacuations under way, oldest first, and the numbers of the last and the first. */
	TAILQ_HEAD(evacuation_list, mem_evacuation)
	evacuations_open;	    /* with the page heap's lock */
	uint64_t evacuations_begun; /* likewise */
	uint64_t evacuation_oldest; /* UINT64_MAX: there is none */
};

static inline void *page_address(const struct memory *memory, uint32_t page)
{
	return memory->region->base + (uint64_t)page * PAGE_BYTES;
}

static inline uint32_t page_of(const struct memory *memory, const void *p)
{
	return (uint32_t)(region_offset(memory->region, p) / PAGE_BYTES);
}

static inline void *slab_block(const struct memory *memory, const struct slab *slab, uint32_t i)
{
	return (uint8_t *)page_address(memory, hint_load(&slab->page)) +
	       (uint64_t)i * memory->classes[slab->class_id].bytes;
}

/* The slab that the block @p is in. */
static inline struct slab *slab_of(const struct memory *memory, const void *p)
{
	return &memory->slabs[hint_load(&memory->heap.map[page_of(memory, p)].slab)];
}

/*
 * Allocates up to @count blocks of a class; creates a new slab only if no block is free. Returns
 * how many. Takes the class's lock and then the page heap's, as slabs_free() does.
 */
unsigned int slabs_alloc(struct memory *memory, unsigned int class_id, void **blocks,
			 unsigned int count);
void slabs_free(struct memory *memory, unsigned int class_id, void *const *blocks,
		unsigned int count);
/*
 * Moves the slab to the list for its number of free blocks; to none if it is full or being
 * evacuated.
 */
void do_slab_list(struct memory *memory, struct slab *slab);

/* Adds a slab that was kept, with its free_bits, to its class. Before threads start. */
void slab_adopt(struct memory *memory, struct slab *slab);

/*
 * A random block of slab @number. NULL: the block drawn is free, or the slab is being emptied or
 * has overflow buckets. Without a lock, so a hint.
 */
void *slab_sample(const struct memory *memory, uint32_t number, uint64_t *random);

/* A random number less than @n; @random is the caller's state. */
static inline uint32_t random_below(uint64_t *random, uint32_t n)
{
	return (uint32_t)((splitmix_next(random) >> 32) * n >> 32);
}

#endif /* KVD_SERVER_STORE_SLAB_H */
