/* SPDX-License-Identifier: MIT */
/*
 * The page heap: the pages of the item memory, handed out as spans of whole pages.
 *
 * Every 4 KiB page has a descriptor in the page map, outside of the region. The map is sized for the
 * whole region when the heap is made, of pages that cost nothing until they are touched
 * (MAP_NORESERVE), so that nothing here ever allocates: 16 bytes are in use for each page of items.
 *
 * Who reads without a lock (mem_sample(), hints before a lock is taken) reads single words, which are
 * therefore stored and loaded as relaxed atomics, and believes none of them.
 */
#ifndef KVD_SERVER_STORE_PAGE_HEAP_H
#define KVD_SERVER_STORE_PAGE_HEAP_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"
#include "common/util/spin.h"

#define PAGE_BYTES 4096u
#define PAGE_NONE UINT32_MAX

/*
 * Guards a few instructions, or the making of a slab at most. A holder that lost its CPU gets it
 * back from those who wait: they yield after some microseconds.
 */
#define MEM_LOCK_SPINS 100

static inline void mem_lock(uint32_t *lock)
{
	unsigned int spins = 0;

	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(lock, __ATOMIC_RELAXED))
			spin_pause(spins++ < MEM_LOCK_SPINS ? 0 : SPIN_ALONE_NS);
}

static inline void mem_unlock(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#define hint_load(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define hint_store(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)

/* Pages */

enum page_kind {
	PAGE_FREE,     /* all there is at first, so that the map need not be written */
	PAGE_RESERVED, /* free, but kept by an evacuation */
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
#define RUN_BINS 63u
/* How many runs of a bin are looked at. A large item may miss one that fits behind so many smaller. */
#define RUN_TRIES_MAX 64u

struct page_heap {
	alignas(64) uint32_t lock; /* guards all of it and the page map */
	uint32_t first, end;	   /* pages of the region; those before are the index's */
	struct page *map;
	uint64_t mask; /* bins with a run */
	uint32_t bins[RUN_BINS];
	uint32_t free, reserved, large, evacuating; /* pages */
};

int page_heap_init(struct page_heap *heap, uint32_t first, uint32_t end);
void page_heap_release(struct page_heap *heap);

/* Without the lock: whether it is worth a try to take so many pages. */
bool page_heap_may_have(const struct page_heap *heap, uint32_t pages);
/*
 * Takes pages: of the runs of the smallest bin that has what is needed the one at the highest address,
 * and there the end. Returns the first page or PAGE_NONE.
 */
uint32_t page_heap_alloc(struct page_heap *heap, uint32_t pages, enum page_kind kind,
			 uint32_t slab);
/* Gives back a whole span; if it is being evacuated its pages are held from now on. */
void page_heap_free(struct page_heap *heap, uint32_t page);

/* What is at a page: a span, or a piece of a free run or of held pages that begins there. */
struct span {
	uint32_t page, pages;
	enum page_kind kind;
	bool evacuating;
	uint32_t slab;
};

/* The span that @page is in; a free or held piece begins at @page itself. Pieces end before @end. */
struct span do_span_at(const struct page_heap *heap, uint32_t page, uint32_t end);
/* The first page of the free run that @page is in. */
uint32_t do_run_first(const struct page_heap *heap, uint32_t page);
/* Takes the lock: what is at @page, of which is known that it is not in a free run. */
struct span span_at(struct page_heap *heap, uint32_t page);

/*
 * Keeps whole spans that cover [@page, @page + @pages) from being handed out: they are being evacuated now,
 * free pages among them held. False, and nothing is changed: one of them is in a evacuation, or it is out of
 * bounds. *@first, *@count are what is kept.
 */
bool do_page_heap_close(struct page_heap *heap, uint32_t page, uint32_t pages, uint32_t *first,
			uint32_t *count);
/* Undoes it for what is at @page: a span, or all held pages from there to @end. Returns its length. */
uint32_t page_heap_open(struct page_heap *heap, uint32_t page, uint32_t end);
/* Whether all pages are held; takes them then for a large item (@kind) or for the index. */
bool page_heap_all_reserved(struct page_heap *heap, uint32_t page, uint32_t pages);
bool page_heap_alloc_reserved(struct page_heap *heap, uint32_t page, uint32_t pages);
bool page_heap_alloc_index(struct page_heap *heap, uint32_t page, uint32_t pages);

static inline uint32_t pages_of(size_t bytes)
{
	return (uint32_t)((bytes + PAGE_BYTES - 1) / PAGE_BYTES);
}

#endif /* KVD_SERVER_STORE_PAGE_HEAP_H */
