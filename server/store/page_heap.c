/* SPDX-License-Identifier: MIT */
/*
 * The heap of free pages: runs that merge with their neighbours, in bins by length; and the slabs that
 * are made of them.
 */
#include "server/store/page_heap.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

static struct page *page_at(const struct spans *spans, uint32_t page)
{
	return &spans->map[page];
}

static enum page_kind kind_of(const struct spans *spans, uint32_t page)
{
	return (enum page_kind)(hint_load(&page_at(spans, page)->word) & PAGE_KIND);
}

static bool is_evacuating(const struct spans *spans, uint32_t page)
{
	return hint_load(&page_at(spans, page)->word) & PAGE_EVACUATING;
}

static void set_word(struct spans *spans, uint32_t page, enum page_kind kind, uint32_t span)
{
	hint_store(&page_at(spans, page)->word, kind | span << PAGE_SPAN_SHIFT);
}

static uint32_t span_of(const struct spans *spans, uint32_t page)
{
	return hint_load(&page_at(spans, page)->word) >> PAGE_SPAN_SHIFT;
}

/* The bin of runs of so many pages. */
static unsigned int bin_of(uint32_t pages)
{
	unsigned int log2 = 31 - (unsigned int)__builtin_clz(pages);

	return log2 < 4 ? pages - 1 : 15 + 2 * (log2 - 4) + (pages >> (log2 - 1) & 1);
}

/* Makes a run of free pages one that can be found; their kind says already that they are free. */
static void do_link(struct spans *spans, uint32_t page, uint32_t pages)
{
	unsigned int bin = bin_of(pages);
	struct page *head = page_at(spans, page);

	set_word(spans, page, PAGE_FREE, page);
	set_word(spans, page + pages - 1, PAGE_FREE, page);
	head->pages = pages;
	hint_store(&head->next, spans->bins[bin]);
	head->prev = PAGE_NONE;
	if (head->next != PAGE_NONE)
		page_at(spans, head->next)->prev = page;
	spans->bins[bin] = page;
	hint_store(&spans->mask, spans->mask | 1ull << bin);
	spans->free += pages;
}

static uint32_t do_unlink(struct spans *spans, uint32_t page)
{
	struct page *head = page_at(spans, page);
	unsigned int bin = bin_of(head->pages);

	if (head->prev != PAGE_NONE)
		hint_store(&page_at(spans, head->prev)->next, head->next);
	else
		spans->bins[bin] = head->next;
	if (head->next != PAGE_NONE)
		page_at(spans, head->next)->prev = head->prev;
	if (spans->bins[bin] == PAGE_NONE)
		hint_store(&spans->mask, spans->mask & ~(1ull << bin));
	spans->free -= head->pages;
	return head->pages;
}

/* Frees pages: they become one run with those before and after them. */
static void do_free(struct spans *spans, uint32_t page, uint32_t pages)
{
	uint32_t before;

	for (uint32_t i = 0; i < pages; i++)
		set_word(spans, page + i, PAGE_FREE, page);
	if (page + pages < spans->end && kind_of(spans, page + pages) == PAGE_FREE)
		pages += do_unlink(spans, page + pages);
	if (page > spans->first && kind_of(spans, page - 1) == PAGE_FREE) {
		before = span_of(spans, page - 1);
		pages += do_unlink(spans, before);
		page = before;
	}
	do_link(spans, page, pages);
}

int spans_init(struct spans *spans, uint32_t first, uint32_t end)
{
	*spans = (struct spans){ .first = first, .end = end };
	spans->map = mmap(NULL, end * sizeof(struct page), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (spans->map == MAP_FAILED) {
		spans->map = NULL;
		return -errno;
	}
	for (unsigned int i = 0; i < SPAN_BINS; i++)
		spans->bins[i] = PAGE_NONE;
	do_link(spans, first, end - first);
	return 0;
}

void spans_release(struct spans *spans)
{
	if (spans->map)
		munmap(spans->map, spans->end * sizeof(struct page));
	spans->map = NULL;
}

bool spans_may_have(const struct spans *spans, uint32_t pages)
{
	return pages <= spans->end && hint_load(&spans->mask) >> bin_of(pages);
}

/* The run of a bin that is long enough and at the highest address, of the first SPAN_TRIES. */
static uint32_t do_bin_fit(const struct spans *spans, unsigned int bin, uint32_t pages)
{
	uint32_t best = PAGE_NONE;
	unsigned int n = 0;

	for (uint32_t run = spans->bins[bin]; run != PAGE_NONE && n < SPAN_TRIES;
	     run = page_at(spans, run)->next, n++)
		if (page_at(spans, run)->pages >= pages && (best == PAGE_NONE || run > best))
			best = run;
	return best;
}

static uint32_t do_run_fit(const struct spans *spans, uint32_t pages)
{
	unsigned int bin = bin_of(pages);
	uint32_t run = do_bin_fit(spans, bin, pages);
	uint64_t above = spans->mask >> bin >> 1;

	if (run == PAGE_NONE && above)
		run = do_bin_fit(spans, bin + 1 + (unsigned int)__builtin_ctzll(above), pages);
	return run;
}

static void do_use(struct spans *spans, uint32_t page, uint32_t pages, enum page_kind kind,
		   uint32_t slab)
{
	for (uint32_t i = 0; i < pages; i++) {
		if (kind != PAGE_LARGE)
			hint_store(&page_at(spans, page + i)->slab, slab);
		set_word(spans, page + i, kind, page);
	}
	page_at(spans, page)->pages = pages;
	if (kind == PAGE_LARGE)
		spans->large += pages;
}

uint32_t spans_take(struct spans *spans, uint32_t pages, enum page_kind kind, uint32_t slab)
{
	uint32_t page, rest;

	if (!spans_may_have(spans, pages))
		return PAGE_NONE;
	mem_lock(&spans->lock);
	page = do_run_fit(spans, pages);
	if (page != PAGE_NONE) {
		rest = do_unlink(spans, page) - pages;
		if (rest)
			do_link(spans, page, rest);
		page += rest;
		do_use(spans, page, pages, kind, slab);
	}
	mem_unlock(&spans->lock);
	return page;
}

static void do_held(struct spans *spans, uint32_t page, uint32_t pages)
{
	for (uint32_t i = 0; i < pages; i++)
		set_word(spans, page + i, PAGE_HELD, page + i);
	spans->held += pages;
}

void spans_give(struct spans *spans, uint32_t page)
{
	uint32_t pages;

	mem_lock(&spans->lock);
	assert(kind_of(spans, page) >= PAGE_ITEMS && span_of(spans, page) == page);
	pages = page_at(spans, page)->pages;
	if (kind_of(spans, page) == PAGE_LARGE)
		spans->large -= pages;
	if (is_evacuating(spans, page))
		do_held(spans, page, pages);
	else
		do_free(spans, page, pages);
	mem_unlock(&spans->lock);
}

/*
 * The first page of the free run that @page is in. As many steps as the run is long: who asks for a
 * page in the midst of one looks for more than any run has.
 */
uint32_t do_run_of(const struct spans *spans, uint32_t page)
{
	while (page > spans->first && kind_of(spans, page - 1) == PAGE_FREE)
		page--;
	return page;
}

struct span do_span_at(const struct spans *spans, uint32_t page, uint32_t end)
{
	struct span span = { .page = page, .pages = 1, .kind = kind_of(spans, page) };
	uint32_t run;

	if (span.kind == PAGE_FREE) {
		run = do_run_of(spans, page);
		span.pages = run + page_at(spans, run)->pages - page;
		if (span.pages > end - page)
			span.pages = end - page;
	} else if (span.kind != PAGE_HELD) {
		span.page = span_of(spans, page);
		span.pages = page_at(spans, span.page)->pages;
		span.evacuating = is_evacuating(spans, span.page);
		span.slab = page_at(spans, page)->slab;
	}
	return span;
}

struct span span_at(struct spans *spans, uint32_t page)
{
	struct span span;

	mem_lock(&spans->lock);
	span = do_span_at(spans, page, page + 1);
	mem_unlock(&spans->lock);
	return span;
}

/* Takes a piece out of a free run. */
static void do_hold_free(struct spans *spans, uint32_t page, uint32_t pages)
{
	uint32_t run = do_run_of(spans, page);
	uint32_t length = do_unlink(spans, run);

	if (run < page)
		do_link(spans, run, page - run);
	if (page + pages < run + length)
		do_link(spans, page + pages, run + length - page - pages);
	do_held(spans, page, pages);
}

bool do_spans_hold(struct spans *spans, uint32_t page, uint32_t pages, uint32_t *first,
		   uint32_t *count)
{
	uint32_t end = page + pages, at;
	struct span span;

	if (!pages || page < spans->first || pages > spans->end || end > spans->end)
		return false;
	for (at = page; at < end; at = span.page + span.pages) {
		span = do_span_at(spans, at, end);
		if (span.evacuating || span.kind == PAGE_HELD)
			return false;
		if (at == page)
			*first = span.page;
	}
	*count = at - *first;
	for (at = *first; at < end; at = span.page + span.pages) {
		span = do_span_at(spans, at, end);
		if (span.kind == PAGE_FREE)
			do_hold_free(spans, at, span.pages);
		else
			hint_store(&page_at(spans, at)->word,
				   page_at(spans, at)->word | PAGE_EVACUATING);
	}
	spans->evacuating += *count;
	return true;
}

uint32_t spans_unhold(struct spans *spans, uint32_t page, uint32_t end)
{
	uint32_t pages = 0;
	struct span span;

	mem_lock(&spans->lock);
	while (page + pages < end && kind_of(spans, page + pages) == PAGE_HELD)
		pages++;
	if (pages) {
		spans->held -= pages;
		do_free(spans, page, pages);
	} else {
		span = do_span_at(spans, page, end);
		assert(span.page == page && span.evacuating);
		hint_store(&page_at(spans, page)->word,
			   page_at(spans, page)->word & ~PAGE_EVACUATING);
		pages = span.pages;
	}
	spans->evacuating -= pages;
	mem_unlock(&spans->lock);
	return pages;
}

static bool do_all_held(const struct spans *spans, uint32_t page, uint32_t pages)
{
	for (uint32_t i = 0; i < pages; i++)
		if (kind_of(spans, page + i) != PAGE_HELD)
			return false;
	return true;
}

bool spans_all_held(struct spans *spans, uint32_t page, uint32_t pages)
{
	bool all;

	mem_lock(&spans->lock);
	all = do_all_held(spans, page, pages);
	mem_unlock(&spans->lock);
	return all;
}

bool spans_take_held(struct spans *spans, uint32_t page, uint32_t pages)
{
	bool all;

	mem_lock(&spans->lock);
	all = do_all_held(spans, page, pages);
	if (all) {
		spans->held -= pages;
		spans->evacuating -= pages;
		do_use(spans, page, pages, PAGE_LARGE, 0);
	}
	mem_unlock(&spans->lock);
	return all;
}

bool spans_index_held(struct spans *spans, uint32_t page, uint32_t pages)
{
	bool all;

	mem_lock(&spans->lock);
	all = page == spans->first && do_all_held(spans, page, pages);
	if (all) {
		spans->held -= pages;
		spans->evacuating -= pages;
		hint_store(&spans->first, page + pages);
	}
	mem_unlock(&spans->lock);
	return all;
}

/* Slabs */

static struct slab *do_slab_new(struct memory *memory)
{
	struct slab *slab = NULL;

	mem_lock(&memory->spans.lock);
	if (memory->slab_spare != SLAB_NONE) {
		slab = &memory->slabs[memory->slab_spare];
		memory->slab_spare = slab->next;
	} else if (memory->slabs_made < memory->slabs_max) {
		slab = &memory->slabs[memory->slabs_made++];
	}
	mem_unlock(&memory->spans.lock);
	return slab;
}

static void do_slab_spare(struct memory *memory, struct slab *slab)
{
	mem_lock(&memory->spans.lock);
	slab->next = memory->slab_spare;
	memory->slab_spare = (uint32_t)(slab - memory->slabs);
	mem_unlock(&memory->spans.lock);
}

static void do_slab_unlist(struct memory *memory, struct slab *slab)
{
	struct slab_class *class = &memory->classes[slab->class];

	if (slab->list == SLAB_LISTS)
		return;
	if (slab->prev != SLAB_NONE)
		memory->slabs[slab->prev].next = slab->next;
	else
		class->lists[slab->list] = slab->next;
	if (slab->next != SLAB_NONE)
		memory->slabs[slab->next].prev = slab->prev;
	slab->list = SLAB_LISTS;
}

void do_slab_list(struct memory *memory, struct slab *slab)
{
	struct slab_class *class = &memory->classes[slab->class];
	uint32_t number = (uint32_t)(slab - memory->slabs);
	uint8_t list = SLAB_LISTS;

	if (slab->free && !slab->evacuating)
		list = (uint8_t)((slab->free - 1u) * SLAB_LISTS / slab->blocks);
	if (list == slab->list)
		return;
	do_slab_unlist(memory, slab);
	if (list == SLAB_LISTS)
		return;
	slab->list = list;
	slab->prev = SLAB_NONE;
	slab->next = class->lists[list];
	if (slab->next != SLAB_NONE)
		memory->slabs[slab->next].prev = number;
	class->lists[list] = number;
}

/*
 * The length of the next shorter slab to try. Below the smallest usual one any length serves, so that
 * the gaps that large items leave are not lost to small ones: what has a run of that length.
 */
static uint16_t slab_shorter(const struct spans *spans, uint16_t pages)
{
	uint64_t shorter;

	if (pages > SLAB_BYTES_MIN / PAGE_BYTES)
		return pages / 2;
	/* Bins of short runs hold one length each: bin n runs of n + 1 pages. */
	shorter = hint_load(&spans->mask) & ((1ull << (pages - 1)) - 1);
	return shorter ? (uint16_t)(64 - __builtin_clzll(shorter)) : 0;
}

/* Pages for a slab: where there is no room for a whole one, fewer, if that wastes little. */
static uint32_t do_slab_pages(struct memory *memory, const struct slab_class *class,
			      struct slab *slab, uint16_t *pages)
{
	enum page_kind kind = slab->class == CLASS_BUCKETS ? PAGE_BUCKETS : PAGE_ITEMS;
	uint32_t page, bytes;

	for (*pages = class->pages; *pages >= SLAB_PAGES_MIN;
	     *pages = slab_shorter(&memory->spans, *pages)) {
		bytes = *pages * PAGE_BYTES;
		if (bytes % class->bytes > bytes / 8)
			continue;
		page = spans_take(&memory->spans, *pages, kind, (uint32_t)(slab - memory->slabs));
		if (page != PAGE_NONE)
			return page;
	}
	return PAGE_NONE;
}

/* All blocks of a new slab are free, and invalid items to whoever reads them (M1). */
static void do_slab_fill(struct memory *memory, struct slab *slab, uint32_t blocks)
{
	for (uint32_t i = 0; i < blocks; i++)
		store_relaxed64(slab_block(memory, slab, i), 0);
	for (uint32_t i = 0; i < SLAB_WORDS; i++)
		hint_store(&slab->bits[i], blocks >= 64 * (i + 1) ? UINT64_MAX :
					   blocks > 64 * i ? (1ull << (blocks - 64 * i)) - 1 :
							     0);
	hint_store(&slab->blocks, (uint16_t)blocks);
	hint_store(&slab->free, (uint16_t)blocks);
	slab->from = 0;
}

static struct slab *do_slab_make(struct memory *memory, unsigned int number)
{
	struct slab_class *class = &memory->classes[number];
	struct slab *slab;
	uint32_t page;

	if (!spans_may_have(&memory->spans, SLAB_PAGES_MIN))
		return NULL;
	slab = do_slab_new(memory);
	if (!slab)
		return NULL;
	hint_store(&slab->class, (uint16_t)number);
	hint_store(&slab->evacuating, 0);
	slab->list = SLAB_LISTS;
	page = do_slab_pages(memory, class, slab, &slab->pages);
	if (page == PAGE_NONE) {
		do_slab_spare(memory, slab);
		return NULL;
	}
	hint_store(&slab->page, page);
	do_slab_fill(memory, slab, slab->pages * PAGE_BYTES / class->bytes);
	slab->index = class->slabs;
	hint_store(&class->array[slab->index], (uint32_t)(slab - memory->slabs));
	hint_store(&class->slabs, class->slabs + 1);
	class->slab_pages += slab->pages;
	class->free += slab->blocks;
	hint_store(&class->available, class->available + slab->blocks);
	do_slab_list(memory, slab);
	return slab;
}

/* At once when it is empty, so that nobody who needs pages has to look for them. */
static void do_slab_free(struct memory *memory, struct slab *slab)
{
	struct slab_class *class = &memory->classes[slab->class];
	uint32_t last = class->array[class->slabs - 1];

	do_slab_unlist(memory, slab);
	hint_store(&class->slabs, class->slabs - 1);
	hint_store(&class->array[slab->index], last);
	memory->slabs[last].index = slab->index;
	class->slab_pages -= slab->pages;
	class->free -= slab->blocks;
	if (!slab->evacuating)
		hint_store(&class->available, class->available - slab->blocks);
	spans_give(&memory->spans, slab->page);
	do_slab_spare(memory, slab);
}

static void do_slab_give(struct memory *memory, struct slab *slab, const void *p)
{
	struct slab_class *class = &memory->classes[slab->class];
	uint64_t offset = (uint64_t)((const uint8_t *)p -
				     (uint8_t *)page_address(memory, slab->page));
	uint32_t i = (uint32_t)(offset / 16 * class->inverse >> 32), word = i / 64;
	uint64_t bit = 1ull << i % 64;

	/* A block's start, and one that was handed out. */
	assert((uint64_t)i * class->bytes == offset && !(slab->bits[word] & bit));
	hint_store(&slab->bits[word], slab->bits[word] | bit);
	if (word < slab->from)
		slab->from = (uint16_t)word;
	hint_store(&slab->free, (uint16_t)(slab->free + 1));
	class->free++;
	if (!slab->evacuating)
		hint_store(&class->available, class->available + 1);
	if (slab->free == slab->blocks)
		do_slab_free(memory, slab);
	else
		do_slab_list(memory, slab);
}

/* Takes up to @count free blocks out of a slab. */
static unsigned int do_slab_take(struct memory *memory, struct slab *slab, void **blocks,
				 unsigned int count)
{
	struct slab_class *class = &memory->classes[slab->class];
	unsigned int n = 0, i = slab->from;
	uint64_t bits;

	if (count > slab->free)
		count = slab->free;
	for (;; i++) {
		for (bits = slab->bits[i]; bits && n < count; bits &= bits - 1)
			blocks[n++] = slab_block(memory, slab,
						 64 * i + (unsigned int)__builtin_ctzll(bits));
		hint_store(&slab->bits[i], bits);
		if (n == count)
			break;
	}
	slab->from = (uint16_t)i;
	hint_store(&slab->free, (uint16_t)(slab->free - n));
	class->free -= n;
	hint_store(&class->available, class->available - n);
	do_slab_list(memory, slab);
	return n;
}

/* Classes */

static struct slab *do_class_slab(struct memory *memory, const struct slab_class *class)
{
	for (unsigned int i = 0; i < SLAB_LISTS; i++)
		if (class->lists[i] != SLAB_NONE)
			return &memory->slabs[class->lists[i]];
	return NULL;
}

unsigned int class_take(struct memory *memory, unsigned int number, void **blocks,
			unsigned int count)
{
	struct slab_class *class = &memory->classes[number];
	struct slab *slab;
	unsigned int n = 0;

	/* Without a lock: a full store must not make its workers wait for each other. */
	if (!hint_load(&class->available) && !spans_may_have(&memory->spans, SLAB_PAGES_MIN))
		return 0;
	mem_lock(&class->lock);
	while (n < count) {
		slab = do_class_slab(memory, class);
		if (!slab && !n)
			slab = do_slab_make(memory, number);
		if (!slab)
			break;
		n += do_slab_take(memory, slab, blocks + n, count - n);
	}
	mem_unlock(&class->lock);
	return n;
}

void class_give(struct memory *memory, unsigned int number, void *const *blocks, unsigned int count)
{
	struct slab_class *class = &memory->classes[number];

	/* They are anywhere: let the two misses for each overlap. */
	for (unsigned int i = 0; i < count; i++)
		__builtin_prefetch(&memory->spans.map[page_of(memory, blocks[i])]);
	for (unsigned int i = 0; i < count; i++)
		__builtin_prefetch(slab_of(memory, blocks[i]), 1);
	mem_lock(&class->lock);
	for (unsigned int i = 0; i < count; i++)
		do_slab_give(memory, slab_of(memory, blocks[i]), blocks[i]);
	mem_unlock(&class->lock);
}
