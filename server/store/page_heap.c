/* SPDX-License-Identifier: MIT */
/*
 * The page heap: allocates spans of pages of the region. Free pages form runs that merge with their
 * neighbours and are listed in bins by length.
 */
#include "server/store/page_heap.h"

#include <assert.h>
#include <errno.h>

/* Pages that are added with the lock held. */
#define GROW_PAGES 512u

static struct page *page_at(const struct page_heap *heap, uint32_t page)
{
	return &heap->map[page];
}

static enum page_kind kind_of(const struct page_heap *heap, uint32_t page)
{
	return (enum page_kind)(hint_load(&page_at(heap, page)->word) & PAGE_KIND);
}

static bool is_evacuating(const struct page_heap *heap, uint32_t page)
{
	return hint_load(&page_at(heap, page)->word) & PAGE_EVACUATING;
}

static void set_word(struct page_heap *heap, uint32_t page, enum page_kind kind, uint32_t span)
{
	hint_store(&page_at(heap, page)->word, kind | span << PAGE_SPAN_SHIFT);
}

static uint32_t span_of(const struct page_heap *heap, uint32_t page)
{
	return hint_load(&page_at(heap, page)->word) >> PAGE_SPAN_SHIFT;
}

/* The bin of runs of @pages pages; see RUN_BINS. */
static unsigned int bin_of(uint32_t pages)
{
	unsigned int log2 = 31 - (unsigned int)__builtin_clz(pages);

	return log2 < 4 ? pages - 1 : 15 + 2 * (log2 - 4) + (pages >> (log2 - 1) & 1);
}

/* Lists a run of free pages in its bin; the pages are PAGE_FREE already. */
static void do_link(struct page_heap *heap, uint32_t page, uint32_t pages)
{
	unsigned int bin = bin_of(pages);
	struct page *head = page_at(heap, page);

	/* do_free() of neighbouring pages finds the run at both ends. */
	set_word(heap, page, PAGE_FREE, page);
	set_word(heap, page + pages - 1, PAGE_FREE, page);
	head->pages = pages;
	hint_store(&head->next, heap->bins[bin]);
	head->prev = PAGE_NONE;
	if (head->next != PAGE_NONE)
		page_at(heap, head->next)->prev = page;
	heap->bins[bin] = page;
	hint_store(&heap->bins_used, heap->bins_used | 1ull << bin);
	heap->free += pages;
}

/* Takes the run that begins at @page out of its bin; returns its length. */
static uint32_t do_unlink(struct page_heap *heap, uint32_t page)
{
	struct page *head = page_at(heap, page);
	unsigned int bin = bin_of(head->pages);

	if (head->prev != PAGE_NONE)
		hint_store(&page_at(heap, head->prev)->next, head->next);
	else
		heap->bins[bin] = head->next;
	if (head->next != PAGE_NONE)
		page_at(heap, head->next)->prev = head->prev;
	if (heap->bins[bin] == PAGE_NONE)
		hint_store(&heap->bins_used, heap->bins_used & ~(1ull << bin));
	heap->free -= head->pages;
	return head->pages;
}

/* Whether @page is the first of an extent: no run goes on from the page before it. */
static bool begins_extent(const struct page_heap *heap, uint32_t page)
{
	return page % heap->extent_pages == 0;
}

/*
 * Makes pages of an extent free: they become one run with the free pages before and after them.
 */
static void do_free(struct page_heap *heap, uint32_t page, uint32_t pages)
{
	uint32_t before;

	/* All pages' kinds: a caller may ask for a page in the middle of the run. */
	for (uint32_t i = 0; i < pages; i++)
		set_word(heap, page + i, PAGE_FREE, page);
	if (page + pages < extent_end(heap, page) && kind_of(heap, page + pages) == PAGE_FREE)
		pages += do_unlink(heap, page + pages);
	if (page > heap->first && !begins_extent(heap, page) &&
	    kind_of(heap, page - 1) == PAGE_FREE) {
		before = span_of(heap, page - 1);
		pages += do_unlink(heap, before);
		page = before;
	}
	do_link(heap, page, pages);
}

/* Lists free pages, which may be in several extents, as runs. */
static void do_link_all(struct page_heap *heap, uint32_t page, uint32_t end)
{
	for (; page < end; page = extent_end(heap, page))
		do_link(heap, page,
			(extent_end(heap, page) < end ? extent_end(heap, page) : end) - page);
}

int page_heap_init(struct page_heap *heap, struct keep *keep, uint32_t first, uint32_t end,
		   uint32_t max, uint32_t extent_pages)
{
	*heap = (struct page_heap){
		.first = first, .end = end, .max = max, .extent_pages = extent_pages
	};
	heap->map = keep_map(keep, heap->max * sizeof(struct page));
	if (!heap->map)
		return -ENOMEM;
	for (unsigned int i = 0; i < RUN_BINS; i++)
		heap->bins[i] = PAGE_NONE;
	if (keep->found == KEEP_FOUND_NONE)
		do_link_all(heap, first, end);
	return 0;
}

void page_heap_release(struct page_heap *heap, const struct keep *keep)
{
	keep_unmap(keep, heap->map, heap->max * sizeof(struct page));
	heap->map = NULL;
}

bool page_heap_may_have(const struct page_heap *heap, uint32_t pages)
{
	return pages <= heap->extent_pages && hint_load(&heap->bins_used) >> bin_of(pages);
}

/* Of the first RUN_TRIES_MAX runs of a bin, the long enough one at the highest address. */
static uint32_t do_bin_find(const struct page_heap *heap, unsigned int bin, uint32_t pages)
{
	uint32_t best = PAGE_NONE;
	unsigned int n = 0;

	for (uint32_t run = heap->bins[bin]; run != PAGE_NONE && n < RUN_TRIES_MAX;
	     run = page_at(heap, run)->next, n++)
		if (page_at(heap, run)->pages >= pages && (best == PAGE_NONE || run > best))
			best = run;
	return best;
}

/* A run of at least @pages; only the first bin may have runs that are too short. */
static uint32_t do_run_find(const struct page_heap *heap, uint32_t pages)
{
	unsigned int bin = bin_of(pages);
	uint32_t run = do_bin_find(heap, bin, pages);
	uint64_t above = heap->bins_used >> bin >> 1;

	if (run == PAGE_NONE && above)
		run = do_bin_find(heap, bin + 1 + (unsigned int)__builtin_ctzll(above), pages);
	return run;
}

/* Makes pages that were taken out of a run, or were reserved, a span. */
static void do_use(struct page_heap *heap, uint32_t page, uint32_t pages, enum page_kind kind,
		   uint32_t slab)
{
	/* The first page leads to the span only once its length is there: KEEP-3. */
	page_at(heap, page)->pages = pages;
	if (kind == PAGE_LARGE)
		hint_store(&page_at(heap, page)->slab, slab);
	for (uint32_t i = 0; i < pages; i++) {
		if (kind != PAGE_LARGE)
			hint_store(&page_at(heap, page + i)->slab, slab);
		set_word(heap, page + i, kind, page);
	}
	if (kind == PAGE_LARGE)
		heap->large += pages;
}

uint32_t page_heap_alloc(struct page_heap *heap, uint32_t pages, enum page_kind kind, uint32_t slab)
{
	uint32_t page, rest;

	/* Without the lock, so that threads don't wait for each other when memory is full. */
	if (!page_heap_may_have(heap, pages))
		return PAGE_NONE;
	mem_lock(&heap->lock);
	page = do_run_find(heap, pages);
	if (page != PAGE_NONE) {
		rest = do_unlink(heap, page) - pages;
		if (rest)
			do_link(heap, page, rest);
		page += rest;
		do_use(heap, page, pages, kind, slab);
	}
	mem_unlock(&heap->lock);
	return page;
}

void page_heap_forget(struct page_heap *heap, uint32_t page)
{
	set_word(heap, page, PAGE_FREE, page);
}

void page_heap_adopt(struct page_heap *heap, const struct span *span)
{
	if (span->kind != PAGE_FREE) {
		do_use(heap, span->page, span->pages, span->kind, span->slab);
		return;
	}
	for (uint32_t i = 0; i < span->pages; i++)
		set_word(heap, span->page + i, PAGE_FREE, span->page);
	do_link_all(heap, span->page, span->page + span->pages);
}

/* Makes pages that are in no run reserved. */
static void do_reserve(struct page_heap *heap, uint32_t page, uint32_t pages)
{
	for (uint32_t i = 0; i < pages; i++)
		set_word(heap, page + i, PAGE_RESERVED, page + i);
	heap->reserved += pages;
}

void page_heap_free(struct page_heap *heap, uint32_t page)
{
	uint32_t pages;

	mem_lock(&heap->lock);
	assert(kind_of(heap, page) >= PAGE_ITEMS && span_of(heap, page) == page);
	pages = page_at(heap, page)->pages;
	if (kind_of(heap, page) == PAGE_LARGE)
		heap->large -= pages;
	if (is_evacuating(heap, page))
		do_reserve(heap, page, pages);
	else
		do_free(heap, page, pages);
	mem_unlock(&heap->lock);
}

/*
 * The loop is short where it matters: a caller that asks for a page in the middle of a run needs
 * more pages than any run has.
 */
uint32_t do_run_first(const struct page_heap *heap, uint32_t page)
{
	uint32_t first = page - page % heap->extent_pages;

	/* The last page of a run leads to the first. */
	if (page + 1 == extent_end(heap, page) || kind_of(heap, page + 1) != PAGE_FREE)
		return span_of(heap, page);
	first = first < heap->first ? heap->first : first;
	while (page > first && kind_of(heap, page - 1) == PAGE_FREE)
		page--;
	return page;
}

struct span do_span_at(const struct page_heap *heap, uint32_t page, uint32_t end)
{
	struct span span = { .page = page, .pages = 1, .kind = kind_of(heap, page) };
	uint32_t run;

	if (span.kind == PAGE_FREE) {
		run = do_run_first(heap, page);
		span.pages = run + page_at(heap, run)->pages - page;
		if (span.pages > end - page)
			span.pages = end - page;
	} else if (span.kind != PAGE_RESERVED) {
		span.page = span_of(heap, page);
		span.pages = page_at(heap, span.page)->pages;
		span.evacuating = is_evacuating(heap, span.page);
		/* Of a large item, whose writer sets it without the lock, nobody uses it. */
		span.slab = hint_load(&page_at(heap, page)->slab);
	}
	return span;
}

struct span span_at(struct page_heap *heap, uint32_t page)
{
	struct span span;

	mem_lock(&heap->lock);
	span = do_span_at(heap, page, page + 1);
	mem_unlock(&heap->lock);
	return span;
}

/* Takes pages out of a free run and reserves them. */
static void do_reserve_free(struct page_heap *heap, uint32_t page, uint32_t pages)
{
	uint32_t run = do_run_first(heap, page);
	uint32_t length = do_unlink(heap, run);

	if (run < page)
		do_link(heap, run, page - run);
	if (page + pages < run + length)
		do_link(heap, page + pages, run + length - page - pages);
	do_reserve(heap, page, pages);
}

bool do_page_heap_close(struct page_heap *heap, uint32_t page, uint32_t pages, uint32_t *first,
			uint32_t *count)
{
	uint32_t end = page + pages, at;
	struct span span;

	if (!pages || page < heap->first || pages > heap->end || end > heap->end)
		return false;
	/* All spans are checked before one is marked, so that a failure changes nothing. */
	for (at = page; at < end; at = span.page + span.pages) {
		span = do_span_at(heap, at, end);
		if (span.evacuating || span.kind == PAGE_RESERVED)
			return false;
		if (at == page)
			*first = span.page;
	}
	*count = at - *first;
	for (at = *first; at < end; at = span.page + span.pages) {
		span = do_span_at(heap, at, end);
		if (span.kind == PAGE_FREE)
			do_reserve_free(heap, at, span.pages);
		else
			hint_store(&page_at(heap, at)->word,
				   page_at(heap, at)->word | PAGE_EVACUATING);
	}
	heap->evacuating += *count;
	return true;
}

uint32_t page_heap_open(struct page_heap *heap, uint32_t page, uint32_t end)
{
	uint32_t pages = 0;
	struct span span;

	mem_lock(&heap->lock);
	end = end < extent_end(heap, page) ? end : extent_end(heap, page);
	while (page + pages < end && kind_of(heap, page + pages) == PAGE_RESERVED)
		pages++;
	if (pages) {
		heap->reserved -= pages;
		do_free(heap, page, pages);
	} else {
		span = do_span_at(heap, page, end);
		assert(span.page == page && span.evacuating);
		hint_store(&page_at(heap, page)->word,
			   page_at(heap, page)->word & ~PAGE_EVACUATING);
		pages = span.pages;
	}
	heap->evacuating -= pages;
	mem_unlock(&heap->lock);
	return pages;
}

bool do_page_heap_grow(struct page_heap *heap, uint32_t end)
{
	uint32_t page = heap->end, until = page - page % heap->extent_pages + heap->extent_pages;

	until = until < end ? until : end;
	until = until < page + GROW_PAGES ? until : page + GROW_PAGES;
	hint_store(&heap->end, until);
	do_free(heap, page, until - page);
	return until == end;
}

void do_page_heap_shrink(struct page_heap *heap, uint32_t end)
{
	uint32_t pages = heap->end - end;

	heap->reserved -= pages;
	heap->evacuating -= pages;
	hint_store(&heap->end, end);
}

static bool do_all_reserved(const struct page_heap *heap, uint32_t page, uint32_t pages)
{
	for (uint32_t i = 0; i < pages; i++)
		if (kind_of(heap, page + i) != PAGE_RESERVED)
			return false;
	return true;
}

uint32_t page_heap_reserved(struct page_heap *heap, uint32_t page, uint32_t end)
{
	uint32_t pages = 0;

	mem_lock(&heap->lock);
	while (page + pages < end && kind_of(heap, page + pages) == PAGE_RESERVED)
		pages++;
	mem_unlock(&heap->lock);
	return pages;
}

bool page_heap_all_reserved(struct page_heap *heap, uint32_t page, uint32_t pages)
{
	bool all;

	mem_lock(&heap->lock);
	all = do_all_reserved(heap, page, pages);
	mem_unlock(&heap->lock);
	return all;
}

/* Checked and allocated under one lock: another evacuation can't begin in between. */
bool page_heap_alloc_reserved(struct page_heap *heap, uint32_t page, uint32_t pages)
{
	bool all;

	mem_lock(&heap->lock);
	all = do_all_reserved(heap, page, pages);
	if (all) {
		heap->reserved -= pages;
		heap->evacuating -= pages;
		do_use(heap, page, pages, PAGE_LARGE, 0);
	}
	mem_unlock(&heap->lock);
	return all;
}

bool page_heap_alloc_index(struct page_heap *heap, uint32_t page, uint32_t pages)
{
	bool all;

	mem_lock(&heap->lock);
	all = page == heap->first && do_all_reserved(heap, page, pages);
	if (all) {
		heap->reserved -= pages;
		heap->evacuating -= pages;
		hint_store(&heap->first, page + pages);
	}
	mem_unlock(&heap->lock);
	return all;
}
