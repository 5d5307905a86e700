/* SPDX-License-Identifier: MIT */
/*
 * The inside of the item memory, for memory.c and evacuation.c alone: what describes it, outside of the
 * region, and the heap of free pages.
 *
 * Every 4 KiB page has a descriptor in the page map; every slab one in an array of slabs. All arrays
 * are sized for the worst case when the memory is made, of pages that cost nothing until they are
 * touched (MAP_NORESERVE), so that nothing here ever allocates. In use are 16 bytes for each page
 * of items and 256 for each slab: 0.8 % of the memory, and 4 bytes for each block of a bucket slab.
 *
 * Who reads without a lock (mem_sample(), hints before a lock is taken) reads single words, which are
 * therefore stored and loaded as relaxed atomics, and believes none of them.
 */
#ifndef KVD_SERVER_STORE_SPANS_H
#define KVD_SERVER_STORE_SPANS_H

#include <pthread.h>
#include <stdalign.h>

#include "common/util/spin.h"
#include "server/store/memory.h"

#define PAGE_NONE UINT32_MAX
#define SLAB_NONE UINT32_MAX

/*
 * Guards a few instructions, or the making of a slab at most. A holder that lost its CPU gets it
 * back from those who wait: they yield after some microseconds.
 */
#define MEM_SPINS_ALONE 100

static inline void mem_lock(uint32_t *lock)
{
	unsigned int spins = 0;

	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(lock, __ATOMIC_RELAXED))
			spin_pause(spins++ < MEM_SPINS_ALONE ? 0 : SPIN_ALONE_NS);
}

static inline void mem_unlock(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#define hint_load(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define hint_store(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)

/* Pages */

enum page_kind {
	PAGE_FREE, /* all there is at first, so that the map need not be written */
	PAGE_HELD, /* free, but kept by an evacuation */
	PAGE_ITEMS,
	PAGE_BUCKETS,
	PAGE_LARGE,
};

struct page {
	uint32_t word; /* kind, in a evacuation, first page of the span; of free pages only the run's
			  first and last have the latter */
	uint32_t pages; /* of the first page: length of span or run */
	union {
		uint32_t slab; /* of all pages of a slab */
		uint32_t next; /* of the first page of a free run: the next of its bin */
	};
	uint32_t prev;
};

#define PAGE_KIND 7u
#define PAGE_EVACUATING 8u
#define PAGE_SPAN_SHIFT 4
static_assert(REGION_BYTES_MAX / PAGE_BYTES <= 1u << (32 - PAGE_SPAN_SHIFT), "page numbers fit");

/*
 * Free runs by length: bins 0 to 14 hold runs of 1 to 15 pages, those above have two to a doubling, so
 * that one word says which bins have any. A slab's lengths, 16, 32 and 64 pages, begin bins: every run
 * in them or above will do.
 */
#define SPAN_BINS 63u
/* How many runs of a bin are looked at. A large item may miss one that fits behind so many smaller. */
#define SPAN_TRIES 64u

struct spans {
	alignas(64) uint32_t lock; /* guards all of it and the page map */
	uint32_t first, end;	   /* pages of the region; those before are the index's */
	struct page *map;
	uint64_t mask; /* bins with a run */
	uint32_t bins[SPAN_BINS];
	uint32_t free, held, large, evacuating; /* pages */
};

int spans_init(struct spans *spans, uint32_t first, uint32_t end);
void spans_release(struct spans *spans);

/* Without the lock: whether it is worth a try to take so many pages. */
bool spans_may_have(const struct spans *spans, uint32_t pages);
/*
 * Takes pages: of the runs of the smallest bin that has what is needed the one at the highest address,
 * and there the end. Returns the first page or PAGE_NONE.
 */
uint32_t spans_take(struct spans *spans, uint32_t pages, enum page_kind kind, uint32_t slab);
/* Gives back a whole span; if it is being evacuated its pages are held from now on. */
void spans_give(struct spans *spans, uint32_t page);

/* What is at a page: a span, or a piece of a free run or of held pages that begins there. */
struct span {
	uint32_t page, pages;
	enum page_kind kind;
	bool evacuating;
	uint32_t slab;
};

/* The span that @page is in; a free or held piece begins at @page itself. Pieces end before @end. */
struct span do_span_at(const struct spans *spans, uint32_t page, uint32_t end);
/* The first page of the free run that @page is in. */
uint32_t do_run_of(const struct spans *spans, uint32_t page);
/* Takes the lock: what is at @page, of which is known that it is not in a free run. */
struct span span_at(struct spans *spans, uint32_t page);

/*
 * Keeps whole spans that cover [@page, @page + @pages) from being handed out: they are being evacuated now,
 * free pages among them held. False, and nothing is changed: one of them is in a evacuation, or it is out of
 * bounds. *@first, *@count are what is kept.
 */
bool do_spans_hold(struct spans *spans, uint32_t page, uint32_t pages, uint32_t *first,
		   uint32_t *count);
/* Undoes it for what is at @page: a span, or all held pages from there to @end. Returns its length. */
uint32_t spans_unhold(struct spans *spans, uint32_t page, uint32_t end);
/* Whether all pages are held; takes them then for a large item (@kind) or for the index. */
bool spans_all_held(struct spans *spans, uint32_t page, uint32_t pages);
bool spans_take_held(struct spans *spans, uint32_t page, uint32_t pages);
bool spans_index_held(struct spans *spans, uint32_t page, uint32_t pages);

/* Slabs */

/* The shortest slab, made only where there is no room for a usual one. */
#define SLAB_PAGES_MIN 4u
#define CLASS_BYTES_MIN 48u
#define CLASS_BYTES_MAX (32u << 10)
#define SLAB_BLOCKS_MAX (SLAB_BYTES_MIN / CLASS_BYTES_MIN)
#define SLAB_WORDS ((SLAB_BLOCKS_MAX + 63) / 64)
/* Partial slabs are listed by how full they are: 0 the fullest, from which blocks are taken first. */
#define SLAB_LISTS 8u

struct slab {
	alignas(64) uint32_t page; /* the class's lock guards all of it */
	uint16_t pages;
	uint16_t class; /* set before the page map leads here */
	uint16_t blocks;
	uint16_t free;
	uint8_t list; /* SLAB_LISTS: in none */
	uint8_t evacuating;
	uint16_t from; /* no free block in the words of bits before */
	uint32_t next, prev;
	uint32_t index;		   /* in the class's array */
	uint64_t bits[SLAB_WORDS]; /* set: free */
};
static_assert(sizeof(struct slab) == 256, "four cache lines");

struct slab_class {
	alignas(64) uint32_t lock;
	uint32_t bytes;
	uint32_t inverse;   /* 2^32 / (bytes / 16), rounded up */
	uint16_t pages;	    /* of a slab; where there is no room a half or a quarter will do */
	uint16_t blocks;    /* of a whole slab */
	bool has_magazines; /* small enough for caches to keep some */
	uint32_t available; /* free blocks not in slabs that are evacuated */
	uint32_t slabs;
	uint32_t *array; /* of all slabs */
	uint32_t lists[SLAB_LISTS];
	uint64_t slab_pages;
	uint64_t free; /* blocks, those in slabs that are evacuated included, those in magazines not */
};

/* The class of overflow buckets; items of the same size have one of their own. */
#define CLASS_BUCKETS (MEM_CLASSES_MAX - 1)

struct memory {
	struct region *region;
	struct spans spans;
	struct slab_class classes[MEM_CLASSES_MAX];
	struct slab *slabs;
	uint32_t slabs_max;
	uint32_t slabs_made,
		slab_spare;	     /* under the spans' lock: never used, and free descriptors */
	uint32_t *arrays;	     /* of the classes, slabs_max each */
	uint32_t *homes;	     /* of every BUCKET_BYTES of the region */
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

static inline uint32_t pages_of(size_t bytes)
{
	return (uint32_t)((bytes + PAGE_BYTES - 1) / PAGE_BYTES);
}

static inline void *slab_block(const struct memory *memory, const struct slab *slab, uint32_t i)
{
	return (uint8_t *)page_address(memory, hint_load(&slab->page)) +
	       (uint64_t)i * memory->classes[slab->class].bytes;
}

static inline struct slab *slab_of(const struct memory *memory, const void *p)
{
	return &memory->slabs[hint_load(&memory->spans.map[page_of(memory, p)].slab)];
}

/* Up to @count free blocks of a class; a new slab is made for the first alone. */
unsigned int class_take(struct memory *memory, unsigned int number, void **blocks,
			unsigned int count);
void class_give(struct memory *memory, unsigned int number, void *const *blocks,
		unsigned int count);
/* With the class's lock: files the slab in the list that its free blocks ask for. */
void do_slab_list(struct memory *memory, struct slab *slab);
/* Takes what is in these pages, a slab of the class, out of all caches' magazines. */
void magazines_collect(struct memory *memory, unsigned int class, uint32_t page, uint32_t pages);
/* Blocks of a class that are in caches' magazines. */
uint64_t magazines_count(struct memory *memory, unsigned int class);

static inline uint32_t random_below(uint64_t *random, uint32_t n)
{
	uint64_t z = *random += 0x9e3779b97f4a7c15ull; /* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (uint32_t)(((z ^ z >> 31) >> 32) * n >> 32);
}

#endif /* KVD_SERVER_STORE_SPANS_H */
