/* SPDX-License-Identifier: MIT */
/*
 * Evacuations: close the spans that a caller wants to empty, list what is in them, open them again.
 *
 * The spans are marked in the page map, under the page heap's lock. A marked span that is freed
 * becomes reserved pages, not free ones, so until the evacuation ends pages in it can
 * only become reserved. That is why a slab may be looked up first and locked after that.
 */
#include "server/store/evacuate.h"

#include <assert.h>

#include "common/barrier.h"
#include "common/util/stat.h"
#include "server/store/slab.h"

/*
 * Slabs of a class's emptiest list that are looked at to choose the one with the fewest blocks.
 */
#define SPARSE_TRIES 64u

/* Pages looked at, or closed or opened, in one step: some tens of slabs at most. */
#define LOOK_PAGES 256u
#define CLOSE_PAGES 128u
#define OPEN_PAGES 512u
/* Blocks sampled to estimate the cost of a slab; and all blocks sampled in one step. */
#define COST_SAMPLES 4u
#define LOOK_SAMPLES 48u

static bool is_slab(enum page_kind kind)
{
	return kind == PAGE_ITEMS || kind == PAGE_BUCKETS;
}

/* Locks the class of the slab that begins at a page of an evacuation. NULL: the slab was freed. */
static struct slab *slab_lock(struct memory *memory, uint32_t page)
{
	struct span span = span_at(&memory->heap, page);
	struct size_class *size_class;

	if (!is_slab(span.kind))
		return NULL;
	/* The wrong class if the slab is freed now and its descriptor reused: checked below. */
	size_class = &memory->classes[hint_load(&memory->slabs[span.slab].class_id)];
	mem_lock(&size_class->lock);
	if (is_slab(span_at(&memory->heap, page).kind))
		return &memory->slabs[span.slab];
	mem_unlock(&size_class->lock);
	return NULL;
}

static struct size_class *class_of(struct memory *memory, const struct slab *slab)
{
	return &memory->classes[slab->class_id];
}

/* Closes the slab at @page: once this returns, no more of its blocks are allocated. */
static void slab_close(struct memory *memory, uint32_t page, uint32_t pages)
{
	struct slab *slab = slab_lock(memory, page);
	struct size_class *size_class;
	unsigned int class_id;

	if (!slab)
		return;
	class_id = slab->class_id;
	size_class = class_of(memory, slab);
	hint_store(&slab->evacuating, 1);
	hint_store(&size_class->available, size_class->available - slab->free);
	do_slab_list(memory, slab);
	mem_unlock(&size_class->lock);
	magazines_collect(memory, class_id, page, pages);
}

/* Opens the slab at @page again. False: it was freed. */
static bool slab_open(struct memory *memory, uint32_t page)
{
	struct slab *slab = slab_lock(memory, page);
	struct size_class *size_class;

	if (!slab)
		return false;
	size_class = class_of(memory, slab);
	hint_store(&slab->evacuating, 0);
	hint_store(&size_class->available, size_class->available + slab->free);
	do_slab_list(memory, slab);
	page_heap_open(&memory->heap, page, page + slab->pages);
	mem_unlock(&size_class->lock);
	return true;
}

/* The page heap's lock is held. */
static void do_evacuations_count(struct memory *memory, uint32_t n)
{
	const struct mem_evacuation *first = TAILQ_FIRST(&memory->evacuations_open);

	hint_store(&memory->evacuations, memory->evacuations + n);
	hint_store(&memory->evacuation_oldest, first ? first->number : UINT64_MAX);
}

static void evacuation_add(struct mem_evacuation *evacuation)
{
	struct memory *memory = evacuation->memory;

	mem_lock(&memory->heap.lock);
	if (!evacuation->lasts) {
		evacuation->number = memory->evacuations_begun + 1;
		hint_store(&memory->evacuations_begun, evacuation->number);
		TAILQ_INSERT_TAIL(&memory->evacuations_open, evacuation, entry);
	}
	do_evacuations_count(memory, 1);
	mem_unlock(&memory->heap.lock);
}

static void evacuation_remove(struct mem_evacuation *evacuation)
{
	struct memory *memory = evacuation->memory;

	mem_lock(&memory->heap.lock);
	if (!evacuation->lasts)
		TAILQ_REMOVE(&memory->evacuations_open, evacuation, entry);
	do_evacuations_count(memory, -1u);
	mem_unlock(&memory->heap.lock);
}

uint32_t mem_evacuations(const struct memory *memory)
{
	return hint_load(&memory->evacuations);
}

uint64_t mem_evacuations_begun(const struct memory *memory)
{
	return hint_load(&memory->evacuations_begun);
}

bool mem_evacuations_ended(const struct memory *memory, uint64_t number)
{
	return hint_load(&memory->evacuation_oldest) > number;
}

static void evacuation_init(struct mem_evacuation *evacuation, struct memory *memory,
			    uint32_t target, uint32_t target_pages)
{
	*evacuation = (struct mem_evacuation){ .memory = memory,
					       .target = target,
					       .target_pages = target_pages };
	/*
	 * Before any slab is marked. A thread that frees a block sees it at the latest after its
	 * magazines were collected.
	 */
	evacuation_add(evacuation);
}

/* The pages of the target that are not closed yet, from *@page on. */
static uint32_t pages_to_close(const struct mem_evacuation *evacuation, uint32_t *page)
{
	uint32_t end = evacuation->target + evacuation->target_pages;

	*page = evacuation->pages ? evacuation->page + evacuation->pages : evacuation->target;
	return *page < end ? end - *page : 0;
}

/*
 * Closes the spans that cover the next @pages pages of the target. Releases the page heap's lock,
 * which is held. False: one of them is being evacuated already, or they are out of bounds.
 */
static bool do_evacuation_close(struct mem_evacuation *evacuation, uint32_t pages)
{
	struct memory *memory = evacuation->memory;
	uint32_t page, count;
	struct span span;
	bool ok;

	pages_to_close(evacuation, &page);
	ok = do_page_heap_close(&memory->heap, page, pages, &page, &count);
	mem_unlock(&memory->heap.lock);
	if (!ok)
		return false;
	if (!evacuation->pages)
		evacuation->page = evacuation->next_page = page;
	evacuation->pages += count;
	for (uint32_t at = page; at < page + count; at += span.pages) {
		span = span_at(&memory->heap, at);
		if (is_slab(span.kind))
			slab_close(memory, at, span.pages);
	}
	return true;
}

/* Closes all spans of the target, as do_evacuation_close(). */
static bool do_evacuation_begin(struct mem_evacuation *evacuation)
{
	bool ok = do_evacuation_close(evacuation, evacuation->target_pages);

	if (!ok)
		evacuation_remove(evacuation);
	return ok;
}

bool mem_evacuation_begin(struct mem_evacuation *evacuation, struct memory *memory, const void *p)
{
	struct page_heap *heap = &memory->heap;
	uint32_t page = page_of(memory, p);
	struct span span = { .kind = PAGE_FREE };

	evacuation_init(evacuation, memory, 0, 0);
	mem_lock(&heap->lock);
	/* do_span_at() is slow for a page in a long free run, and a free page is refused anyway. */
	if (page >= heap->first && page < heap->end &&
	    (hint_load(&heap->map[page].word) & PAGE_KIND) != PAGE_FREE)
		span = do_span_at(heap, page, page + 1);
	if (span.kind != PAGE_FREE) {
		evacuation->target = span.page;
		evacuation->target_pages = span.pages;
	}
	return do_evacuation_begin(evacuation);
}

static bool is_skipped(const struct mem_skip *skip, uint32_t page)
{
	for (unsigned int i = 0; skip && i < skip->count; i++)
		if (skip->pages[i] == page)
			return true;
	return false;
}

/*
 * The slab of the class with the fewest blocks in use, if free blocks of other slabs can take them.
 */
static struct slab *do_class_sparse(struct memory *memory, const struct size_class *size_class,
				    const struct mem_skip *skip)
{
	struct slab *best = NULL, *slab;
	unsigned int list, n = 0;

	for (list = SLAB_LISTS; list-- && !best;)
		for (uint32_t i = size_class->lists[list]; i != SLAB_NONE && n < SPARSE_TRIES;
		     i = slab->next, n++) {
			slab = &memory->slabs[i];
			if (is_skipped(skip, slab->page))
				continue;
			if (!best || slab->blocks - slab->free < best->blocks - best->free)
				best = slab;
		}
	/* As many free blocks as the slab has blocks: other slabs can take its blocks in use. */
	return best && best->blocks <= size_class->available ? best : NULL;
}

/*
 * The share in use of do_class_sparse()'s slab, in 2^16ths, and its first page. UINT32_MAX: none.
 */
static uint32_t class_sparse(struct memory *memory, unsigned int class_id,
			     const struct mem_skip *skip, uint32_t *page)
{
	struct size_class *size_class = &memory->classes[class_id];
	uint32_t share = UINT32_MAX;
	struct slab *slab;

	/*
	 * If free blocks in magazines are needed, drain the magazines. The thread that moves the
	 * items can't allocate from those of other threads: it would create a new slab for the
	 * rest, which would be the next sparse one, and so on for ever.
	 */
	if (hint_load(&size_class->available) < size_class->blocks &&
	    hint_load(&size_class->slabs) &&
	    hint_load(&size_class->available) + magazines_count(memory, class_id) >=
		    size_class->blocks)
		magazines_collect(memory, class_id, 0, UINT32_MAX);
	mem_lock(&size_class->lock);
	slab = do_class_sparse(memory, size_class, skip);
	if (slab) {
		share = ((uint32_t)(slab->blocks - slab->free) << 16) / slab->blocks;
		*page = slab->page;
	}
	mem_unlock(&size_class->lock);
	return share;
}

bool mem_evacuation_begin_sparse(struct mem_evacuation *evacuation, struct memory *memory,
				 const struct mem_skip *skip)
{
	uint32_t best = UINT32_MAX, best_page = 0, share, page = 0;

	for (unsigned int class_id = 0; class_id < MEM_CLASSES_MAX; class_id++) {
		share = memory->classes[class_id].bytes ?
				class_sparse(memory, class_id, skip, &page) :
				UINT32_MAX;
		if (share < best) {
			best = share;
			best_page = page;
		}
	}
	return best != UINT32_MAX &&
	       mem_evacuation_begin(evacuation, memory, page_address(memory, best_page));
}

/* The cost of a slab's blocks in use, estimated by some of them. */
static uint64_t slab_cost(const struct mem_place *place, const struct memory *memory,
			  uint32_t number, uint64_t *random)
{
	const struct slab *slab = &memory->slabs[number];
	uint32_t bytes = memory->classes[hint_load(&slab->class_id)].bytes;
	/* Without the class's lock: may be negative for a slab that is being created. */
	int used = hint_load(&slab->blocks) - hint_load(&slab->free);
	unsigned int i, n = 0;
	uint64_t cost = 0;
	void *block;

	if (used <= 0)
		return 0;
	if (!place->cost_of)
		return (uint64_t)used * bytes;
	for (i = 0; i < COST_SAMPLES; i++) {
		block = slab_sample(memory, number, random);
		if (!block)
			continue;
		cost += place->cost_of(place->context, block, bytes);
		n++;
	}
	return n ? cost / n * (unsigned int)used : 0;
}

/* Whether the span is being evacuated, or can't be. */
static bool span_stays(const struct span *span)
{
	return span->evacuating || span->kind == PAGE_RESERVED || span->kind == PAGE_BUCKETS;
}

/*
 * The cost of the spans from place->at to the first that ends at or after @until, or of as many as
 * take LOOK_SAMPLES; @end: of the place's pages. UINT64_MAX: they can't be evacuated. Moves
 * place->at past them.
 */
static uint64_t do_place_cost(struct mem_place *place, const struct memory *memory, uint32_t until,
			      uint32_t end, uint64_t *random)
{
	uint64_t cost = 0, bytes;
	unsigned int samples = 0;
	struct span span;

	for (; place->at < until && samples < LOOK_SAMPLES; place->at = span.page + span.pages) {
		span = do_span_at(&memory->heap, place->at, end);
		if (span_stays(&span))
			return UINT64_MAX;
		bytes = (uint64_t)span.pages * PAGE_BYTES;
		if (span.kind == PAGE_LARGE)
			cost += place->cost_of ?
					place->cost_of(place->context,
						       page_address(memory, span.page), bytes) :
					bytes;
		if (span.kind == PAGE_ITEMS) {
			cost += slab_cost(place, memory, span.slab, random);
			samples += COST_SAMPLES;
		}
	}
	return cost;
}

/*
 * Chooses a place that begins with the span or run at a random page. False: the rest of the index's
 * extent, or of the last one, is too short.
 */
static bool do_place_draw(struct mem_place *place, const struct page_heap *heap, uint64_t *random)
{
	uint32_t at = heap->first + random_below(random, heap->end - heap->first);
	struct span span = do_span_at(heap, at, heap->end);
	uint32_t first = at - at % heap->extent_pages, end = extent_end(heap, at);

	if (first < heap->first)
		first = heap->first;
	if (place->pages > end - first)
		return false;
	place->page = span.kind == PAGE_FREE ? do_run_first(heap, at) : span.page;
	if (place->page > end - place->pages)
		place->page = end - place->pages;
	place->at = place->page;
	place->cost = 0;
	return true;
}

/* Looks at more of one place. True: all of it was seen, or it can't be used. */
static bool do_place_look(struct mem_place *place, const struct memory *memory, uint64_t *random)
{
	uint32_t end = place->page + place->pages, until = end;
	uint64_t cost;

	if (until - place->at > LOOK_PAGES)
		until = place->at + LOOK_PAGES;
	cost = do_place_cost(place, memory, until, end, random);
	place->cost = cost == UINT64_MAX ? UINT64_MAX : place->cost + cost;
	return place->cost == UINT64_MAX || place->at >= end;
}

void mem_place_begin(struct mem_place *place, size_t bytes, unsigned int tries, mem_cost_fn cost_of,
		     const void *context)
{
	*place = (struct mem_place){
		.pages = pages_of(bytes),
		.cost_of = cost_of,
		.context = context,
		.tries = tries,
		.best = UINT64_MAX,
	};
}

bool mem_place_step(struct mem_place *place, struct memory *memory, uint64_t *random)
{
	struct page_heap *heap = &memory->heap;
	bool seen = true;

	mem_lock(&heap->lock);
	if (place->at || do_place_draw(place, heap, random))
		seen = do_place_look(place, memory, random);
	else
		place->cost = UINT64_MAX;
	mem_unlock(&heap->lock);
	if (!seen)
		return true;
	place->at = 0;
	if (place->cost < place->best) {
		place->best = place->cost;
		place->best_page = place->page;
	}
	return --place->tries && place->best;
}

void mem_evacuation_begin_place(struct mem_evacuation *evacuation, struct memory *memory,
				const struct mem_place *place)
{
	evacuation_init(evacuation, memory, place->best_page, place->pages);
}

enum mem_close mem_evacuation_close(struct mem_evacuation *evacuation)
{
	struct memory *memory = evacuation->memory;
	uint32_t page, pages = pages_to_close(evacuation, &page), at, end;
	struct span span;

	if (pages > CLOSE_PAGES)
		pages = CLOSE_PAGES;
	end = page + pages;
	mem_lock(&memory->heap.lock);
	/* A bucket slab may have been created there meanwhile. */
	for (at = page; at < end; at = span.page + span.pages) {
		span = do_span_at(&memory->heap, at, end);
		if (span_stays(&span)) {
			mem_unlock(&memory->heap.lock);
			return MEM_CLOSE_FAILED;
		}
	}
	if (!do_evacuation_close(evacuation, pages))
		return MEM_CLOSE_FAILED;
	return pages_to_close(evacuation, &page) ? MEM_CLOSE_AGAIN : MEM_CLOSED;
}

void mem_evacuation_begin_from(struct mem_evacuation *evacuation, struct memory *memory,
			       uint32_t page)
{
	*evacuation = (struct mem_evacuation){ .memory = memory,
					       .target = page,
					       .target_pages = memory->heap.end - page,
					       .lasts = true };
	evacuation_add(evacuation);
}

enum mem_close mem_evacuation_close_span(struct mem_evacuation *evacuation)
{
	struct memory *memory = evacuation->memory;
	uint32_t page, pages = pages_to_close(evacuation, &page);
	struct span span;

	if (pages > CLOSE_PAGES)
		pages = CLOSE_PAGES;
	mem_lock(&memory->heap.lock);
	span = do_span_at(&memory->heap, page, page + pages);
	if (!do_evacuation_close(evacuation, span.kind == PAGE_FREE ? span.pages : 1))
		return MEM_CLOSE_FAILED;
	return pages_to_close(evacuation, &page) ? MEM_CLOSE_AGAIN : MEM_CLOSED;
}

void mem_evacuation_look(struct mem_evacuation *evacuation, uint32_t page, uint32_t pages)
{
	evacuation->page = evacuation->next_page = evacuation->target = page;
	evacuation->pages = evacuation->target_pages = pages;
	evacuation->next_block = evacuation->opened = 0;
}

uint32_t mem_evacuation_look_some(struct mem_evacuation *evacuation, uint32_t page, uint32_t end)
{
	struct page_heap *heap = &evacuation->memory->heap;
	uint32_t until = end - page > LOOK_PAGES ? page + LOOK_PAGES : end, at = page;
	struct span span;

	mem_lock(&heap->lock);
	for (; at < until; at = span.page + span.pages)
		span = do_span_at(heap, at, end);
	mem_unlock(&heap->lock);
	mem_evacuation_look(evacuation, page, at - page);
	return at;
}

bool mem_evacuation_begin_large(struct mem_evacuation *evacuation, struct memory *memory,
				size_t bytes, uint64_t *random, unsigned int tries)
{
	enum mem_close close;
	struct mem_place place;

	if (bytes > memory_block_max(memory))
		return false;
	mem_place_begin(&place, bytes, tries, NULL, NULL);
	while (mem_place_step(&place, memory, random))
		;
	if (place.best == UINT64_MAX)
		return false;
	mem_evacuation_begin_place(evacuation, memory, &place);
	do
		close = mem_evacuation_close(evacuation);
	while (close == MEM_CLOSE_AGAIN);
	if (close == MEM_CLOSE_FAILED)
		while (mem_evacuation_open(evacuation))
			;
	return close == MEM_CLOSED;
}

bool mem_evacuation_begin_index(struct mem_evacuation *evacuation, struct memory *memory,
				uint64_t bytes)
{
	evacuation_init(evacuation, memory, 0, 0);
	mem_lock(&memory->heap.lock);
	/* Not all of it: item memory keeps at least one page. */
	if (bytes < memory_bytes(memory)) {
		evacuation->target = memory->heap.first;
		evacuation->target_pages = pages_of(bytes);
	}
	return do_evacuation_begin(evacuation);
}

/* The first block in use from block @from on. False: there is none. */
static bool do_slab_next(struct memory *memory, const struct slab *slab, uint32_t from,
			 struct mem_evacuation *evacuation, struct mem_block *block)
{
	uint32_t i = from;

	while (i < slab->blocks && slab->free_bits[i / 64] >> i % 64 & 1)
		i++;
	evacuation->next_block = i + 1;
	if (i >= slab->blocks)
		return false;
	block->p = slab_block(memory, slab, i);
	block->bytes = class_of(memory, slab)->bytes;
	block->kind = slab->class_id == CLASS_BUCKETS ? MEM_BUCKET : MEM_ITEM;
	block->home = 0;
	if (block->kind == MEM_BUCKET)
		block->home = hint_load(
			&memory->homes[region_offset(memory->region, block->p) / BUCKET_BYTES]);
	return true;
}

/* The next block of the slab at next_page; the only one if a large item is there. */
static bool span_next(struct mem_evacuation *evacuation, const struct span *span,
		      struct mem_block *block)
{
	struct memory *memory = evacuation->memory;
	struct slab *slab;
	bool found;

	if (span->kind == PAGE_LARGE) {
		*block = (struct mem_block){ .p = page_address(memory, span->page),
					     .bytes = (size_t)span->pages * PAGE_BYTES,
					     .kind = MEM_ITEM };
		return !evacuation->next_block++;
	}
	slab = slab_lock(memory, evacuation->next_page);
	if (!slab)
		return false;
	found = do_slab_next(memory, slab, evacuation->next_block, evacuation, block);
	mem_unlock(&class_of(memory, slab)->lock);
	return found;
}

bool mem_evacuation_next(struct mem_evacuation *evacuation, struct mem_block *block)
{
	uint32_t end = evacuation->page + evacuation->pages;
	struct span span;

	while (evacuation->next_page < end) {
		span = span_at(&evacuation->memory->heap, evacuation->next_page);
		if (span.kind == PAGE_RESERVED)
			span.pages = page_heap_reserved(&evacuation->memory->heap,
							evacuation->next_page, end);
		else if (span_next(evacuation, &span, block))
			return true;
		evacuation->next_page += span.pages;
		evacuation->next_block = 0;
	}
	evacuation->next_page = evacuation->page;
	return false;
}

/*
 * Opens the spans from @page to the first one that ends at or after @until, in order and never
 * going back: a span that is open may be in another evacuation already. Returns the page after
 * them.
 */
static uint32_t evacuation_open(struct mem_evacuation *evacuation, uint32_t page, uint32_t until)
{
	struct memory *memory = evacuation->memory;
	struct span span;

	while (page < until) {
		span = span_at(&memory->heap, page);
		if (!is_slab(span.kind))
			page += page_heap_open(&memory->heap, page, until);
		else if (slab_open(memory, page))
			page += span.pages;
	}
	return page;
}

bool mem_evacuation_open(struct mem_evacuation *evacuation)
{
	uint32_t end = evacuation->page + evacuation->pages, until;
	uint32_t page = evacuation->page + evacuation->opened;

	/* Once the target is allocated, other threads may use and free it. */
	if (evacuation->taken && page == evacuation->target)
		page += evacuation->target_pages;
	until = end - page > OPEN_PAGES ? page + OPEN_PAGES : end;
	if (evacuation->taken && page < evacuation->target && until > evacuation->target)
		until = evacuation->target;
	page = evacuation_open(evacuation, page, until);
	evacuation->opened = page - evacuation->page;
	if (page < end)
		return true;
	evacuation_remove(evacuation);
	return false;
}

static void evacuation_end(struct mem_evacuation *evacuation)
{
	while (mem_evacuation_open(evacuation))
		;
}

bool mem_evacuation_is_empty(struct mem_evacuation *evacuation)
{
	return page_heap_all_reserved(&evacuation->memory->heap, evacuation->target,
				      evacuation->target_pages);
}

bool mem_evacuation_end(struct mem_evacuation *evacuation)
{
	bool empty = mem_evacuation_is_empty(evacuation);

	evacuation_end(evacuation);
	return empty;
}

void *mem_evacuation_take(struct mem_evacuation *evacuation, struct mem_cache *cache, size_t bytes)
{
	void *p;

	assert(mem_class(bytes) == MEM_CLASS_LARGE && pages_of(bytes) == evacuation->target_pages);
	evacuation->taken = page_heap_alloc_reserved(&evacuation->memory->heap, evacuation->target,
						     evacuation->target_pages);
	if (!evacuation->taken)
		return NULL;
	p = page_address(evacuation->memory, evacuation->target);
	store_relaxed64(p, 0);
	page_heap_ready(&evacuation->memory->heap, evacuation->target);
	stat_add(&cache->allocated_bytes, mem_class_bytes(bytes));
	return p;
}

void *mem_evacuation_end_large(struct mem_evacuation *evacuation, struct mem_cache *cache,
			       size_t bytes)
{
	void *p = mem_evacuation_take(evacuation, cache, bytes);

	evacuation_end(evacuation);
	return p;
}

bool mem_evacuation_end_index(struct mem_evacuation *evacuation)
{
	evacuation->taken = page_heap_alloc_index(&evacuation->memory->heap, evacuation->target,
						  evacuation->target_pages);
	evacuation_end(evacuation);
	return evacuation->taken;
}
