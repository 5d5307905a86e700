/* SPDX-License-Identifier: MIT */
/*
 * Slabs: creates slabs, allocates their blocks and frees them, and keeps the lists that say which
 * slab a block comes from. do_* functions expect the lock of the slab's class to be held.
 */
#include "server/store/slab.h"

#include <assert.h>

#include "common/barrier.h"

/* Allocates a descriptor. NULL: slabs_max are in use. */
static struct slab *do_descriptor_alloc(struct memory *memory)
{
	struct slab *slab = NULL;

	mem_lock(&memory->heap.lock);
	if (memory->slabs_spare != SLAB_NONE) {
		slab = &memory->slabs[memory->slabs_spare];
		memory->slabs_spare = slab->next;
	} else if (memory->slabs_used < memory->slabs_max) {
		slab = &memory->slabs[memory->slabs_used++];
	}
	mem_unlock(&memory->heap.lock);
	return slab;
}

static void do_descriptor_free(struct memory *memory, struct slab *slab)
{
	mem_lock(&memory->heap.lock);
	slab->next = memory->slabs_spare;
	memory->slabs_spare = (uint32_t)(slab - memory->slabs);
	mem_unlock(&memory->heap.lock);
}

static void do_slab_unlist(struct memory *memory, struct slab *slab)
{
	struct size_class *size_class = &memory->classes[slab->class_id];

	if (slab->list == SLAB_LISTS)
		return;
	if (slab->prev != SLAB_NONE)
		memory->slabs[slab->prev].next = slab->next;
	else
		size_class->lists[slab->list] = slab->next;
	if (slab->next != SLAB_NONE)
		memory->slabs[slab->next].prev = slab->prev;
	slab->list = SLAB_LISTS;
}

void do_slab_list(struct memory *memory, struct slab *slab)
{
	struct size_class *size_class = &memory->classes[slab->class_id];
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
	slab->next = size_class->lists[list];
	if (slab->next != SLAB_NONE)
		memory->slabs[slab->next].prev = number;
	size_class->lists[list] = number;
}

/*
 * The length of the next shorter slab to try; 0: none. Below the smallest whole slab that is the
 * length of the longest shorter run: small items can use gaps of any length between large ones.
 */
static uint16_t slab_shorter(const struct page_heap *heap, uint16_t pages)
{
	uint64_t shorter;

	if (pages > SLAB_BYTES_MIN / PAGE_BYTES)
		return pages / 2;
	/* Bin n has the runs of n + 1 pages: see RUN_BINS. */
	shorter = hint_load(&heap->bins_used) & ((1ull << (pages - 1)) - 1);
	return shorter ? (uint16_t)(64 - __builtin_clzll(shorter)) : 0;
}

/*
 * Allocates pages for a slab; fewer if there is no room for a whole slab and little is wasted.
 */
static uint32_t do_slab_pages(struct memory *memory, const struct size_class *size_class,
			      struct slab *slab, uint16_t *pages)
{
	enum page_kind kind = slab->class_id == CLASS_BUCKETS ? PAGE_BUCKETS : PAGE_ITEMS;
	uint32_t page, bytes;

	for (*pages = size_class->pages; *pages >= SLAB_PAGES_MIN;
	     *pages = slab_shorter(&memory->heap, *pages)) {
		bytes = *pages * PAGE_BYTES;
		/* At most an eighth may be left over. */
		if (bytes % size_class->bytes > bytes / 8)
			continue;
		page = page_heap_alloc(&memory->heap, *pages, kind,
				       (uint32_t)(slab - memory->slabs));
		if (page != PAGE_NONE)
			return page;
	}
	return PAGE_NONE;
}

/* Makes all blocks free, and invalid items to readers of the region (MEMORY-1). */
static void do_slab_format(struct memory *memory, struct slab *slab, uint32_t blocks)
{
	for (uint32_t i = 0; i < blocks; i++)
		store_relaxed64(slab_block(memory, slab, i), 0);
	for (uint32_t i = 0; i < SLAB_WORDS; i++)
		hint_store(&slab->free_bits[i], blocks >= 64 * (i + 1) ? UINT64_MAX :
						blocks > 64 * i ? (1ull << (blocks - 64 * i)) - 1 :
								  0);
	hint_store(&slab->free, (uint16_t)blocks);
	slab->first_word = 0;
	/* Last: a slab that was kept has blocks only if each can be told from others: KEEP-3. */
	__atomic_store_n(&slab->blocks, (uint16_t)blocks, __ATOMIC_RELEASE);
}

/*
 * Blocks of a slab. The last one, with its length rounded up to SLOT_UNIT, must not reach into the
 * next extent: EXTENT-1.
 */
static uint32_t do_slab_blocks(const struct memory *memory, const struct size_class *size_class,
			       const struct slab *slab)
{
	uint32_t bytes = slab->pages * PAGE_BYTES;

	if ((slab->page + slab->pages) % memory->heap.extent_pages == 0)
		bytes -= -size_class->bytes % SLOT_UNIT;
	return bytes / size_class->bytes;
}

static uint32_t slab_end(const struct size_class *size_class, const struct slab *slab)
{
	return slab->pages * PAGE_BYTES - slab->blocks * size_class->bytes;
}

/* Creates a slab with all blocks free. NULL: no pages or no descriptor. */
static struct slab *do_slab_create(struct memory *memory, unsigned int class_id)
{
	struct size_class *size_class = &memory->classes[class_id];
	struct slab *slab;
	uint32_t page;

	if (!page_heap_may_have(&memory->heap, SLAB_PAGES_MIN))
		return NULL;
	slab = do_descriptor_alloc(memory);
	if (!slab)
		return NULL;
	hint_store(&slab->class_id, (uint16_t)class_id);
	hint_store(&slab->evacuating, 0);
	slab->list = SLAB_LISTS;
	page = do_slab_pages(memory, size_class, slab, &slab->pages);
	if (page == PAGE_NONE) {
		do_descriptor_free(memory, slab);
		return NULL;
	}
	hint_store(&slab->page, page);
	do_slab_format(memory, slab, do_slab_blocks(memory, size_class, slab));
	slab->index = size_class->slabs;
	hint_store(&size_class->slab_ids[slab->index], (uint32_t)(slab - memory->slabs));
	hint_store(&size_class->slabs, size_class->slabs + 1);
	size_class->slab_pages += slab->pages;
	size_class->free += slab->blocks;
	hint_store(&size_class->available, size_class->available + slab->blocks);
	size_class->slab_ends += slab_end(size_class, slab);
	do_slab_list(memory, slab);
	return slab;
}

/*
 * Frees a slab when its last block is freed, so that its pages serve other sizes at once.
 */
static void do_slab_destroy(struct memory *memory, struct slab *slab)
{
	struct size_class *size_class = &memory->classes[slab->class_id];
	uint32_t last = size_class->slab_ids[size_class->slabs - 1];

	/* The last slab takes its place in slab_ids, which has no gaps. */
	do_slab_unlist(memory, slab);
	hint_store(&size_class->slabs, size_class->slabs - 1);
	hint_store(&size_class->slab_ids[slab->index], last);
	memory->slabs[last].index = slab->index;
	size_class->slab_pages -= slab->pages;
	size_class->free -= slab->blocks;
	if (!slab->evacuating)
		hint_store(&size_class->available, size_class->available - slab->blocks);
	size_class->slab_ends -= slab_end(size_class, slab);
	hint_store(&slab->blocks, 0);
	page_heap_free(&memory->heap, slab->page);
	do_descriptor_free(memory, slab);
}

/* Frees a block; divides by the size with size_class.inverse. */
static void do_slab_free_block(struct memory *memory, struct slab *slab, const void *p)
{
	struct size_class *size_class = &memory->classes[slab->class_id];
	uint64_t offset = (uint64_t)((const uint8_t *)p -
				     (uint8_t *)page_address(memory, slab->page));
	uint32_t i = (uint32_t)(offset / CLASS_STEP * size_class->inverse >> 32), word = i / 64;
	uint64_t bit = 1ull << i % 64;

	/* @p is where a block begins, and that block is allocated. */
	assert((uint64_t)i * size_class->bytes == offset && !(slab->free_bits[word] & bit));
	hint_store(&slab->free_bits[word], slab->free_bits[word] | bit);
	if (word < slab->first_word)
		slab->first_word = (uint16_t)word;
	hint_store(&slab->free, (uint16_t)(slab->free + 1));
	size_class->free++;
	if (!slab->evacuating)
		hint_store(&size_class->available, size_class->available + 1);
	if (slab->free == slab->blocks)
		do_slab_destroy(memory, slab);
	else
		do_slab_list(memory, slab);
}

/* Allocates up to @count blocks of a slab, lowest addresses first. */
static unsigned int do_slab_alloc_blocks(struct memory *memory, struct slab *slab, void **blocks,
					 unsigned int count)
{
	struct size_class *size_class = &memory->classes[slab->class_id];
	unsigned int n = 0, i = slab->first_word;
	uint64_t bits;

	if (count > slab->free)
		count = slab->free;
	for (;; i++) {
		for (bits = slab->free_bits[i]; bits && n < count; bits &= bits - 1)
			blocks[n++] = slab_block(memory, slab,
						 64 * i + (unsigned int)__builtin_ctzll(bits));
		hint_store(&slab->free_bits[i], bits);
		if (n == count)
			break;
	}
	slab->first_word = (uint16_t)i;
	hint_store(&slab->free, (uint16_t)(slab->free - n));
	size_class->free -= n;
	hint_store(&size_class->available, size_class->available - n);
	do_slab_list(memory, slab);
	return n;
}

/* The fullest slab that has free blocks, or NULL. */
static struct slab *do_class_fullest(struct memory *memory, const struct size_class *size_class)
{
	for (unsigned int i = 0; i < SLAB_LISTS; i++)
		if (size_class->lists[i] != SLAB_NONE)
			return &memory->slabs[size_class->lists[i]];
	return NULL;
}

void slab_adopt(struct memory *memory, struct slab *slab)
{
	struct size_class *size_class = &memory->classes[slab->class_id];

	slab->evacuating = 0;
	slab->list = SLAB_LISTS;
	slab->first_word = 0;
	slab->free = 0;
	for (unsigned int i = 0; i < SLAB_WORDS; i++)
		slab->free = (uint16_t)(slab->free + __builtin_popcountll(slab->free_bits[i]));
	slab->index = size_class->slabs;
	size_class->slab_ids[size_class->slabs++] = (uint32_t)(slab - memory->slabs);
	size_class->slab_pages += slab->pages;
	size_class->free += slab->free;
	size_class->available += slab->free;
	size_class->slab_ends += slab_end(size_class, slab);
	do_slab_list(memory, slab);
}

unsigned int slabs_alloc(struct memory *memory, unsigned int class_id, void **blocks,
			 unsigned int count)
{
	struct size_class *size_class = &memory->classes[class_id];
	struct slab *slab;
	unsigned int n = 0;

	/* Without the lock: in a full store, workers must not wait for each other here. */
	if (!hint_load(&size_class->available) &&
	    !page_heap_may_have(&memory->heap, SLAB_PAGES_MIN))
		return 0;
	mem_lock(&size_class->lock);
	while (n < count) {
		slab = do_class_fullest(memory, size_class);
		if (!slab && !n)
			slab = do_slab_create(memory, class_id);
		if (!slab)
			break;
		n += do_slab_alloc_blocks(memory, slab, blocks + n, count - n);
	}
	mem_unlock(&size_class->lock);
	return n;
}

void slabs_free(struct memory *memory, unsigned int class_id, void *const *blocks,
		unsigned int count)
{
	struct size_class *size_class = &memory->classes[class_id];

	/* Each block costs two cache misses. Prefetched, they overlap. */
	for (unsigned int i = 0; i < count; i++)
		__builtin_prefetch(&memory->heap.map[page_of(memory, blocks[i])]);
	for (unsigned int i = 0; i < count; i++)
		__builtin_prefetch(slab_of(memory, blocks[i]), 1);
	mem_lock(&size_class->lock);
	for (unsigned int i = 0; i < count; i++)
		do_slab_free_block(memory, slab_of(memory, blocks[i]), blocks[i]);
	mem_unlock(&size_class->lock);
}
