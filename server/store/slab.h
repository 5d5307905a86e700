/* SPDX-License-Identifier: MIT */
/*
 * Slabs: spans of pages cut into blocks of one size class; and struct memory, whose parts memory.c,
 * slab.c and evacuate.c share.
 *
 * Every slab has a descriptor of 256 bytes in an array outside of the region, sized for the worst case
 * when the memory is made, of pages that cost nothing until they are touched. With the page map that
 * is 0.8 % of the memory, and 4 bytes for each block of a bucket slab.
 */
#ifndef KVD_SERVER_STORE_SLAB_H
#define KVD_SERVER_STORE_SLAB_H

#include <pthread.h>
#include <stdalign.h>

#include "server/store/page_heap.h"
#include "server/store/region.h"
#include "server/store/size_class.h"

#define SLAB_NONE UINT32_MAX

/* The shortest slab, made only where there is no room for a usual one. */
#define SLAB_PAGES_MIN 4u
#define SLAB_BLOCKS_MAX (SLAB_BYTES_MIN / CLASS_BYTES_MIN)
#define SLAB_WORDS ((SLAB_BLOCKS_MAX + 63) / 64)
/* Partial slabs are listed by how full they are: 0 the fullest, from which blocks are taken first. */
#define SLAB_LISTS 8u

struct slab {
	alignas(64) uint32_t page; /* the class's lock guards all of it */
	uint16_t pages;
	uint16_t class_id; /* set before the page map leads here */
	uint16_t blocks;
	uint16_t free;
	uint8_t list; /* SLAB_LISTS: in none */
	uint8_t evacuating;
	uint16_t first_word; /* no free block in the words of bits before */
	uint32_t next, prev;
	uint32_t index;			/* in the class's array */
	uint64_t free_bits[SLAB_WORDS]; /* set: free */
};
static_assert(sizeof(struct slab) == 256, "four cache lines");

struct size_class {
	alignas(64) uint32_t lock;
	uint32_t bytes;
	uint32_t inverse;   /* 2^32 / (bytes / 16), rounded up */
	uint16_t pages;	    /* of a slab; where there is no room a half or a quarter will do */
	uint16_t blocks;    /* of a whole slab */
	bool has_magazines; /* small enough for caches to keep some */
	uint32_t available; /* free blocks not in slabs that are evacuated */
	uint32_t slabs;
	uint32_t *slab_ids; /* of all slabs */
	uint32_t lists[SLAB_LISTS];
	uint64_t slab_pages;
	uint64_t free; /* blocks, those in slabs that are evacuated included, those in magazines not */
};

struct memory {
	struct region *region;
	struct page_heap heap;
	struct size_class classes[MEM_CLASSES_MAX];
	struct slab *slabs;
	uint32_t slabs_max;
	uint32_t slabs_used,
		slabs_spare; /* under the page heap's lock: never used, and free descriptors */
	uint32_t *slab_ids;  /* of the classes, slabs_max each */
	uint32_t *homes;     /* of every BUCKET_BYTES of the region */
	pthread_mutex_t caches_lock; /* taken before a cache's */
	struct mem_cache *caches;
	uint32_t evacuations; /* under way: only then frees look where they free */
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

static inline struct slab *slab_of(const struct memory *memory, const void *p)
{
	return &memory->slabs[hint_load(&memory->heap.map[page_of(memory, p)].slab)];
}

/* Up to @count free blocks of a class; a new slab is made for the first alone. */
unsigned int slabs_alloc(struct memory *memory, unsigned int number, void **blocks,
			 unsigned int count);
void slabs_free(struct memory *memory, unsigned int number, void *const *blocks,
		unsigned int count);
/* With the class's lock: files the slab in the list that its free blocks ask for. */
void do_slab_list(struct memory *memory, struct slab *slab);

static inline uint32_t random_below(uint64_t *random, uint32_t n)
{
	uint64_t z = *random += 0x9e3779b97f4a7c15ull; /* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (uint32_t)(((z ^ z >> 31) >> 32) * n >> 32);
}

#endif /* KVD_SERVER_STORE_SLAB_H */
