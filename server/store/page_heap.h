/* SPDX-License-Identifier: MIT */
/*
 * The page heap: allocates spans of 4 KiB pages of the region, for slabs, large items and the
 * index.
 *
 * Words: a span is a number of pages allocated together, a run a number of free pages side by side.
 * Page numbers count from the region's first byte. Neither a span nor a run crosses from an extent
 * to the next (EXTENT-1).
 *
 * Every page has a descriptor of 16 bytes in the page map, outside the region. The map is mapped
 * for the largest region at the start (untouched pages of it cost nothing, or it is in the file of
 * the state: keep.h), so nothing here allocates memory later. What it says of a span that holds an
 * item is stored before that item becomes valid: KEEP-3.
 *
 * Threads: any. All functions take the heap's lock except do_*, which expect it held, and
 * page_heap_may_have(). mem_sample() and others read single words of the map without it, as hints
 * that may be outdated; so these words are stored and loaded as relaxed atomics.
 */
#ifndef KVD_SERVER_STORE_PAGE_HEAP_H
#define KVD_SERVER_STORE_PAGE_HEAP_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"
#include "common/util/spin.h"
#include "server/store/keep.h"

#define PAGE_BYTES 4096u
#define PAGE_NONE UINT32_MAX

/*
 * A spin lock, for the page heap, a size class or a thread's magazines: held for a few
 * instructions, or for creating a slab at most. Waiting threads yield after MEM_LOCK_SPINS looks,
 * a few microseconds, so that a holder that lost its CPU gets it back.
 */
#define MEM_LOCK_SPINS 100

static inline void mem_lock(uint32_t *lock)
{
	unsigned int spins = 0;

	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(lock, __ATOMIC_RELAXED))
			spin_pause(spins++ < MEM_LOCK_SPINS ? 0 : SPIN_PAUSE_NS);
}

static inline void mem_unlock(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* Words that are also read without the lock that guards them. */
#define hint_load(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define hint_store(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)

enum page_kind {
	PAGE_FREE,     /* 0: all pages at first, so that the map need not be written */
	PAGE_RESERVED, /* free, but not allocated until an evacuation ends */
	PAGE_ITEMS,    /* of a slab of items */
	PAGE_BUCKETS,  /* of a slab of overflow buckets */
	PAGE_LARGE,    /* of a large item */
};

struct page {
	/*
	 * Kind, PAGE_EVACUATING, and the first page of the span; of free pages, only a run's first
	 * and last page have the run's first page here.
	 */
	uint32_t word;
	uint32_t pages; /* in the first page of a span or run: its length */
	union {
		/*
		 * In all pages of a slab: its number; in the first page of a large item:
		 * PAGE_READY, once the item can be told from what the page held before.
		 */
		uint32_t slab;
		uint32_t next; /* in the first page of a free run: the next run of its bin */
	};
	uint32_t prev; /* in the first page of a free run: the previous run of its bin */
};

#define PAGE_READY 1u
#define PAGE_KIND 7u
#define PAGE_EVACUATING 8u /* in the first page of a span that is being evacuated */
#define PAGE_SPAN_SHIFT 4
static_assert(REGION_BYTES_MAX / PAGE_BYTES <= 1u << (32 - PAGE_SPAN_SHIFT), "page numbers fit");

/*
 * Free runs are listed in bins by their length: bins 0 to 14 hold runs of 1 to 15 pages; above,
 * there are two bins for each doubling. So one word can tell which bins have runs. 16, 32 and 64
 * pages, which slabs take, are the shortest runs of their bins: every run in these and higher bins
 * fits.
 */
#define RUN_BINS 63u
/* Runs of a bin that are tried. A large item may miss one that fits after more shorter ones. */
#define RUN_TRIES_MAX 64u

struct page_heap {
	alignas(64) uint32_t lock; /* guards all of it and the page map */
	uint32_t first, end;	   /* the pages [first, end); those before are the index's */
	uint32_t max;		   /* pages of the map: @end at most */
	uint32_t extent_pages;
	struct page *map;
	uint64_t bins_used;	 /* one bit for each bin that has a run */
	uint32_t bins[RUN_BINS]; /* the first page of each bin's first run */
	/* Numbers of pages; evacuating: in spans and runs that are evacuated, reserved ones too. */
	uint32_t free, reserved, large, evacuating;
};

/* The content of a page: a span, the rest of a free run from there on, or a reserved page. */
struct span {
	uint32_t page, pages;
	enum page_kind kind;
	bool evacuating;
	uint32_t slab;
};

/*
 * The pages from @first up to @end, which may become @max, are free; if the map was kept none is,
 * until it is adopted. Returns 0 or a negative errno, not logged.
 */
int page_heap_init(struct page_heap *heap, struct keep *keep, uint32_t first, uint32_t end,
		   uint32_t max, uint32_t extent_pages);
void page_heap_release(struct page_heap *heap, const struct keep *keep);

/* Of a map that was kept, before threads start: the span, or run of free pages, at @page. */
void page_heap_adopt(struct page_heap *heap, const struct span *span);
/* Notes that @page has no span, until it is adopted. Any thread that no other one meets there. */
void page_heap_forget(struct page_heap *heap, uint32_t page);
/* The first 8 bytes of the large item at @page are written. */
static inline void page_heap_ready(struct page_heap *heap, uint32_t page)
{
	__atomic_store_n(&heap->map[page].slab, PAGE_READY, __ATOMIC_RELEASE);
}

/* Whether allocating @pages is worth a try. Takes no lock: a hint. */
bool page_heap_may_have(const struct page_heap *heap, uint32_t pages);
/*
 * Allocates a span: the end of a free run, from the smallest bin that has a long enough one, and
 * there of the run at the highest address (so the pages after the index stay free longest). @slab:
 * the number of the slab, unless @kind is PAGE_LARGE. Returns the first page, or PAGE_NONE.
 */
uint32_t page_heap_alloc(struct page_heap *heap, uint32_t pages, enum page_kind kind,
			 uint32_t slab);
/* Frees the span that begins at @page; if it is being evacuated, its pages become reserved. */
void page_heap_free(struct page_heap *heap, uint32_t page);

/* The span that @page is in; or the free pages from @page on, up to @end; or the reserved page. */
struct span do_span_at(const struct page_heap *heap, uint32_t page, uint32_t end);
/* The first page of the free run of @page. Takes a step for each page from there to @page. */
uint32_t do_run_first(const struct page_heap *heap, uint32_t page);
/* As do_span_at(), for one page. */
struct span span_at(struct page_heap *heap, uint32_t page);

/* The end of the pages that are in one extent with @page. */
static inline uint32_t extent_end(const struct page_heap *heap, uint32_t page)
{
	uint32_t end = page - page % heap->extent_pages + heap->extent_pages;

	return end < heap->end ? end : heap->end;
}

/* Adds some of the pages up to @end. True: all of them are there. */
bool do_page_heap_grow(struct page_heap *heap, uint32_t end);
/* Removes the pages from @end on, which are all reserved by one evacuation. */
void do_page_heap_shrink(struct page_heap *heap, uint32_t end);

/*
 * Begins to evacuate the spans that cover [@page, @page + @pages): marks them, and reserves the
 * free pages among them. *@first and *@count say which pages that are. Returns false and changes
 * nothing if some of them are being evacuated already, or out of bounds.
 */
bool do_page_heap_close(struct page_heap *heap, uint32_t page, uint32_t pages, uint32_t *first,
			uint32_t *count);
/*
 * Ends the evacuation of the span at @page, or of the reserved pages from there to @end or to the
 * end of their extent, which become free. Returns the number of pages.
 */
uint32_t page_heap_open(struct page_heap *heap, uint32_t page, uint32_t end);
/*
 * Whether all these pages are reserved. If so, page_heap_alloc_reserved() makes them the span of a
 * large item; page_heap_alloc_index() gives them to the index, if they are the first pages.
 */
bool page_heap_all_reserved(struct page_heap *heap, uint32_t page, uint32_t pages);
/* The number of reserved pages from @page to the first of another kind, or to @end. */
uint32_t page_heap_reserved(struct page_heap *heap, uint32_t page, uint32_t end);
bool page_heap_alloc_reserved(struct page_heap *heap, uint32_t page, uint32_t pages);
bool page_heap_alloc_index(struct page_heap *heap, uint32_t page, uint32_t pages);

/* Pages that @bytes take. */
static inline uint32_t pages_of(size_t bytes)
{
	return (uint32_t)((bytes + PAGE_BYTES - 1) / PAGE_BYTES);
}

#endif /* KVD_SERVER_STORE_PAGE_HEAP_H */
