/* SPDX-License-Identifier: MIT */
/*
 * Item memory: allocates and frees blocks through threads' magazines and large items as spans,
 * samples blocks at random, and adds up the statistics.
 */
#include "server/store/memory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/barrier.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "common/util/stat.h"
#include "server/store/slab.h"

/*
 * The most that a wider block may have, in times the bytes asked for. Else a client that deletes
 * large items to store small ones would get one for one, and never the slab that holds hundreds.
 */
#define WIDER_TIMES 2u

/* Magazines. do_* functions expect the cache's lock to be held. */

/* Sets the number of blocks; magazine_bytes follows, so that MEMORY-3 is one comparison. */
static void do_magazine_resize(struct mem_cache *cache, unsigned int class_id, unsigned int count)
{
	struct mem_magazine *magazine = &cache->magazines[class_id];
	int64_t more = (int64_t)count - magazine->count;

	magazine->count = (uint16_t)count;
	stat_add(&cache->magazine_bytes, (uint64_t)(more * cache->memory->classes[class_id].bytes));
}

/*
 * The most bytes in the magazines of a cache (MEMORY-3), which may have more for a while after the
 * index has grown.
 */
static uint64_t magazines_max(const struct memory *memory)
{
	return memory_bytes(memory) / MAGAZINES_SHARE;
}

static bool do_magazine_is_full(const struct mem_cache *cache, unsigned int class_id)
{
	return cache->magazines[class_id].count == MAGAZINE_BLOCKS ||
	       cache->magazine_bytes + cache->memory->classes[class_id].bytes >
		       magazines_max(cache->memory);
}

/* Allocates a block, and fills up to half of the empty magazine, as far as MEMORY-3 allows. */
static void *do_magazine_refill(struct mem_cache *cache, unsigned int class_id)
{
	struct mem_magazine *magazine = &cache->magazines[class_id];
	uint64_t bytes = cache->memory->classes[class_id].bytes, max = magazines_max(cache->memory);
	unsigned int want = MAGAZINE_BLOCKS / 2, n;
	void *blocks[MAGAZINE_BLOCKS / 2 + 1];

	while (want && cache->magazine_bytes + want * bytes > max)
		want--;
	n = slabs_alloc(cache->memory, class_id, blocks, want + 1);
	if (!n)
		return NULL;
	/*
	 * In reverse: the magazine is used from its end, and the lowest address should come first.
	 */
	for (unsigned int i = n - 1; i > 0; i--)
		magazine->blocks[n - 1 - i] = blocks[i];
	do_magazine_resize(cache, class_id, n - 1);
	return blocks[0];
}

/* Frees the @count blocks that have been in the magazine longest into their slabs. */
static void do_magazine_drain(struct mem_cache *cache, unsigned int class_id, unsigned int count)
{
	struct mem_magazine *magazine = &cache->magazines[class_id];

	if (!count)
		return;
	slabs_free(cache->memory, class_id, magazine->blocks, count);
	memmove(magazine->blocks, magazine->blocks + count,
		(magazine->count - count) * sizeof(magazine->blocks[0]));
	do_magazine_resize(cache, class_id, magazine->count - count);
}

static void do_cache_drain(struct mem_cache *cache)
{
	for (unsigned int class_id = 0; class_id < MEM_CLASSES_MAX; class_id++)
		do_magazine_drain(cache, class_id, cache->magazines[class_id].count);
}

/*
 * In the common case a block comes from the thread's magazine, under a lock that is not contended.
 */
static void *block_alloc(struct mem_cache *cache, unsigned int class_id)
{
	struct mem_magazine *magazine = &cache->magazines[class_id];
	void *p = NULL;

	if (!cache->memory->classes[class_id].has_magazines) {
		slabs_alloc(cache->memory, class_id, &p, 1);
		return p;
	}
	mem_lock(&cache->lock);
	if (__builtin_expect(magazine->count, 1)) {
		p = magazine->blocks[magazine->count - 1];
		do_magazine_resize(cache, class_id, magazine->count - 1);
	} else {
		p = do_magazine_refill(cache, class_id);
	}
	mem_unlock(&cache->lock);
	return p;
}

/*
 * Whether the block's slab is being evacuated: then the block is freed into the slab. Looked up
 * only during evacuations, since it costs two cache misses.
 */
static bool do_is_evacuated(const struct memory *memory, const void *p)
{
	return hint_load(&memory->evacuations) && hint_load(&slab_of(memory, p)->evacuating);
}

/*
 * A full magazine is drained by half, so that a thread that alternates between alloc and free does
 * not drain it each time.
 */
static void block_free(struct mem_cache *cache, unsigned int class_id, void *p)
{
	struct memory *memory = cache->memory;
	struct mem_magazine *magazine = &cache->magazines[class_id];

	/* MEMORY-1 */
	assert(hint_load((uint64_t *)p) == 0);
	if (!memory->classes[class_id].has_magazines) {
		slabs_free(memory, class_id, &p, 1);
		return;
	}
	mem_lock(&cache->lock);
	if (__builtin_expect(do_magazine_is_full(cache, class_id), 0))
		do_magazine_drain(cache, class_id, (magazine->count + 1u) / 2);
	if (__builtin_expect(do_is_evacuated(memory, p) || do_magazine_is_full(cache, class_id),
			     0)) {
		slabs_free(memory, class_id, &p, 1);
	} else {
		magazine->blocks[magazine->count] = p;
		do_magazine_resize(cache, class_id, magazine->count + 1u);
	}
	mem_unlock(&cache->lock);
}

/*
 * The comparison comes first: pages_of() returns 32 bits. MEMORY-1: the span's first 8 bytes are
 * zeroed.
 */
static void *large_alloc(struct memory *memory, size_t bytes)
{
	uint32_t page = PAGE_NONE;

	if (bytes <= memory_block_max(memory))
		page = page_heap_alloc(&memory->heap, pages_of(bytes), PAGE_LARGE, 0);
	if (page == PAGE_NONE)
		return NULL;
	store_relaxed64(page_address(memory, page), 0);
	page_heap_ready(&memory->heap, page);
	return page_address(memory, page);
}

void *mem_alloc(struct mem_cache *cache, size_t bytes)
{
	unsigned int class_id = mem_class(bytes);
	void *p = class_id == MEM_CLASS_LARGE ? large_alloc(cache->memory, bytes) :
						block_alloc(cache, class_id);

	if (p)
		stat_add(&cache->allocated_bytes, mem_class_bytes(bytes));
	else
		stat_add(&cache->failures, 1);
	return p;
}

void *mem_alloc_wider(struct mem_cache *cache, size_t bytes)
{
	unsigned int class_id = mem_class(bytes), max;
	void *p = NULL;

	if (class_id == MEM_CLASS_LARGE)
		return NULL;
	max = mem_class(WIDER_TIMES * (size_t)size_class_bytes[class_id]);
	while (!p && ++class_id <= max && class_id < CLASS_BUCKETS && size_class_bytes[class_id])
		p = block_alloc(cache, class_id);
	if (p) {
		hint_store(&cache->memory->wider, 1);
		stat_add(&cache->allocated_bytes, size_class_bytes[class_id]);
	}
	return p;
}

void mem_free(struct mem_cache *cache, void *p, size_t bytes)
{
	unsigned int class_id = mem_class(bytes);

	if (class_id == MEM_CLASS_LARGE) {
		assert(hint_load((uint64_t *)p) == 0);
		stat_add(&cache->freed_bytes, mem_class_bytes(bytes));
		page_heap_free(&cache->memory->heap, page_of(cache->memory, p));
		return;
	}
	/* Looked up only if the class may differ, since it costs two cache misses. */
	if (__builtin_expect(hint_load(&cache->memory->wider), 0))
		class_id = hint_load(&slab_of(cache->memory, p)->class_id);
	stat_add(&cache->freed_bytes, size_class_bytes[class_id]);
	block_free(cache, class_id, p);
}

void *mem_alloc_bucket(struct mem_cache *cache, uint64_t home)
{
	void *p = block_alloc(cache, CLASS_BUCKETS);

	if (p) {
		mem_bucket_set_home(cache->memory, p, home);
		stat_add(&cache->allocated_bytes, BUCKET_BYTES);
	} else {
		stat_add(&cache->failures, 1);
	}
	return p;
}

void mem_free_bucket(struct mem_cache *cache, void *p)
{
	stat_add(&cache->freed_bytes, BUCKET_BYTES);
	block_free(cache, CLASS_BUCKETS, p);
}

void mem_bucket_set_home(struct memory *memory, void *p, uint64_t home)
{
	hint_store(&memory->homes[region_offset(memory->region, p) / BUCKET_BYTES], (uint32_t)home);
}

/* Caches */

int mem_cache_init(struct mem_cache *cache, struct memory *memory)
{
	*cache = (struct mem_cache){ .memory = memory };
	pthread_mutex_lock(&memory->caches_lock);
	cache->next = memory->caches;
	memory->caches = cache;
	pthread_mutex_unlock(&memory->caches_lock);
	return 0;
}

void mem_cache_drain(struct mem_cache *cache)
{
	mem_lock(&cache->lock);
	do_cache_drain(cache);
	mem_unlock(&cache->lock);
}

void mem_cache_release(struct mem_cache *cache)
{
	struct memory *memory = cache->memory;
	struct mem_cache **link;

	if (!memory)
		return;
	/* Both locks: evacuations and statistics go through the list. */
	pthread_mutex_lock(&memory->caches_lock);
	for (link = &memory->caches; *link != cache; link = &(*link)->next)
		;
	*link = cache->next;
	mem_cache_drain(cache);
	pthread_mutex_unlock(&memory->caches_lock);
	cache->memory = NULL;
}

void memory_gather(struct memory *memory)
{
	pthread_mutex_lock(&memory->caches_lock);
	for (struct mem_cache *cache = memory->caches; cache; cache = cache->next)
		mem_cache_drain(cache);
	pthread_mutex_unlock(&memory->caches_lock);
}

/* A number that changes with every allocation and every free. Any thread. */
static uint64_t cache_activity(const struct mem_cache *cache)
{
	return stat_read(&cache->allocated_bytes) + stat_read(&cache->freed_bytes);
}

uint64_t memory_gather_idle(struct memory *memory, const struct mem_cache *own)
{
	uint64_t bytes = 0, activity;

	pthread_mutex_lock(&memory->caches_lock);
	for (struct mem_cache *cache = memory->caches; cache; cache = cache->next) {
		activity = cache_activity(cache);
		if (cache != own && (cache->gathered == activity || !cache->gathered)) {
			mem_lock(&cache->lock);
			bytes += cache->magazine_bytes;
			do_cache_drain(cache);
			mem_unlock(&cache->lock);
		}
		cache->gathered = activity;
	}
	pthread_mutex_unlock(&memory->caches_lock);
	return bytes;
}

/* The remaining blocks keep their order: the block freed last is used first. */
static void do_magazine_collect(struct mem_cache *cache, unsigned int class_id, uint32_t page,
				uint32_t pages)
{
	struct mem_magazine *magazine = &cache->magazines[class_id];
	void *blocks[MAGAZINE_BLOCKS];
	unsigned int n = 0, kept = 0;

	for (unsigned int i = 0; i < magazine->count; i++)
		if (page_of(cache->memory, magazine->blocks[i]) - page < pages)
			blocks[n++] = magazine->blocks[i];
		else
			magazine->blocks[kept++] = magazine->blocks[i];
	if (n) {
		do_magazine_resize(cache, class_id, kept);
		slabs_free(cache->memory, class_id, blocks, n);
	}
}

void magazines_collect(struct memory *memory, unsigned int class_id, uint32_t page, uint32_t pages)
{
	pthread_mutex_lock(&memory->caches_lock);
	for (struct mem_cache *cache = memory->caches; cache; cache = cache->next) {
		mem_lock(&cache->lock);
		do_magazine_collect(cache, class_id, page, pages);
		mem_unlock(&cache->lock);
	}
	pthread_mutex_unlock(&memory->caches_lock);
}

uint64_t magazines_count(struct memory *memory, unsigned int class_id)
{
	uint64_t n = 0;

	pthread_mutex_lock(&memory->caches_lock);
	for (struct mem_cache *cache = memory->caches; cache; cache = cache->next) {
		mem_lock(&cache->lock);
		n += cache->magazines[class_id].count;
		mem_unlock(&cache->lock);
	}
	pthread_mutex_unlock(&memory->caches_lock);
	return n;
}

/* Sampling, without a lock: a block that is found may no longer be one. */

#define SAMPLE_TRIES 8u /* at most, for each block that is wanted */

/* Whether these bytes are in the item memory: values read without a lock may be garbage. */
static bool in_pages(const struct memory *memory, uint64_t offset, uint64_t bytes)
{
	return offset >= (uint64_t)hint_load(&memory->heap.first) * PAGE_BYTES &&
	       offset + bytes <= (uint64_t)hint_load(&memory->heap.end) * PAGE_BYTES;
}

/*
 * A random block of a slab, drawn from @blocks (0: from as many as the slab has), so that blocks of
 * short slabs are not drawn more often. NULL: the slab has no such block, or it is free.
 */
static void *sample_slab(const struct memory *memory, uint32_t number, uint32_t blocks,
			 uint64_t *random)
{
	const struct slab *slab = &memory->slabs[number];
	uint32_t class_id = hint_load(&slab->class_id), has = hint_load(&slab->blocks), i;
	uint64_t offset;

	/* Evictions in a slab that is being emptied make no room yet. */
	if (!has || class_id == CLASS_BUCKETS || hint_load(&slab->evacuating))
		return NULL;
	i = random_below(random, blocks ? blocks : has);
	if (i >= has || hint_load(&slab->free_bits[i / 64]) >> i % 64 & 1)
		return NULL;
	offset = (uint64_t)hint_load(&slab->page) * PAGE_BYTES +
		 (uint64_t)i * memory->classes[class_id].bytes;
	if (!in_pages(memory, offset, memory->classes[class_id].bytes))
		return NULL;
	return region_at(memory->region, offset);
}

void *slab_sample(const struct memory *memory, uint32_t number, uint64_t *random)
{
	return sample_slab(memory, number, 0, random);
}

/* The content of a random page: a large item or, if @slabs, a block of its slab; or NULL. */
static void *sample_page(const struct memory *memory, bool slabs, uint64_t *random)
{
	uint32_t first = hint_load(&memory->heap.first), word, slab, head;
	uint32_t pages = hint_load(&memory->heap.end) - first;
	const struct page *page = &memory->heap.map[first + random_below(random, pages)];

	word = hint_load(&page->word);
	if ((word & PAGE_KIND) == PAGE_LARGE) {
		head = word >> PAGE_SPAN_SHIFT;
		if (!in_pages(memory, (uint64_t)head * PAGE_BYTES, PAGE_BYTES) ||
		    hint_load(&memory->heap.map[head].word) & PAGE_EVACUATING)
			return NULL;
		return page_address(memory, head);
	}
	slab = hint_load(&page->slab);
	if (!slabs || (word & PAGE_KIND) != PAGE_ITEMS || slab >= memory->slabs_max)
		return NULL;
	return sample_slab(memory, slab, 0, random);
}

static void *sample_class(const struct memory *memory, const struct size_class *size_class,
			  uint64_t *random)
{
	uint32_t slabs = hint_load(&size_class->slabs);

	if (!slabs)
		return NULL;
	return sample_slab(memory, hint_load(&size_class->slab_ids[random_below(random, slabs)]),
			   size_class->blocks, random);
}

unsigned int mem_sample(struct memory *memory, unsigned int class_id, uint64_t *random,
			void **blocks, unsigned int count)
{
	unsigned int n = 0;
	void *p;

	for (unsigned int tries = count * SAMPLE_TRIES; n < count && tries; tries--) {
		if (class_id == MEM_CLASS_LARGE)
			p = sample_page(memory, false, random);
		else
			p = sample_class(memory, &memory->classes[class_id], random);
		if (p)
			blocks[n++] = p;
	}
	return n;
}

unsigned int mem_sample_any(struct memory *memory, uint64_t *random, void **blocks,
			    unsigned int count)
{
	unsigned int n = 0;
	void *p;

	for (unsigned int tries = count * SAMPLE_TRIES; n < count && tries; tries--) {
		p = sample_page(memory, true, random);
		if (p)
			blocks[n++] = p;
	}
	return n;
}

/* Totals, creation and release */

uint64_t memory_bytes(const struct memory *memory)
{
	return (uint64_t)(hint_load(&memory->heap.end) - hint_load(&memory->heap.first)) *
	       PAGE_BYTES;
}

uint64_t memory_block_max(const struct memory *memory)
{
	uint64_t bytes = memory_bytes(memory), extent = memory->region->extent_bytes;

	return bytes < extent ? bytes : extent;
}

uint32_t memory_end_page(uint64_t bytes)
{
	return (uint32_t)((bytes - REGION_PAD) / PAGE_BYTES);
}

/* region->bytes follows, so that the parts of the region add up. */
static void do_region_bytes(struct memory *memory)
{
	stat_set(&memory->region->bytes, (uint64_t)memory->heap.end * PAGE_BYTES + REGION_PAD);
}

void memory_grow(struct memory *memory, uint64_t bytes)
{
	bool done;

	do {
		mem_lock(&memory->heap.lock);
		done = do_page_heap_grow(&memory->heap, memory_end_page(bytes));
		do_region_bytes(memory);
		mem_unlock(&memory->heap.lock);
	} while (!done);
}

void memory_cut(struct memory *memory, uint64_t bytes)
{
	mem_lock(&memory->heap.lock);
	do_page_heap_shrink(&memory->heap, memory_end_page(bytes));
	do_region_bytes(memory);
	mem_unlock(&memory->heap.lock);
}

/*
 * Magazines are counted before the slabs, so blocks on their way between may be missed or counted
 * twice.
 */
static void stats_add_class(struct memory *memory, unsigned int class_id,
			    struct memory_stats *stats)
{
	struct size_class *size_class = &memory->classes[class_id];
	uint64_t cached = magazines_count(memory, class_id), pages, free, ends;

	mem_lock(&size_class->lock);
	pages = size_class->slab_pages;
	free = size_class->free;
	ends = size_class->slab_ends;
	mem_unlock(&size_class->lock);
	stats->slab_ends += ends;
	if (class_id == CLASS_BUCKETS) {
		stats->bucket_slabs = pages * PAGE_BYTES;
		stats->bucket_slabs_free = (free + cached) * size_class->bytes;
	} else {
		stats->item_slabs += pages * PAGE_BYTES;
		stats->item_slabs_free += (free + cached) * size_class->bytes;
	}
}

void memory_stats(const struct memory *constant, struct memory_stats *stats)
{
	struct memory *memory = (struct memory *)constant; /* for its locks */
	struct page_heap *heap = &memory->heap;

	*stats = (struct memory_stats){ 0 };
	for (unsigned int class_id = 0; class_id < MEM_CLASSES_MAX; class_id++)
		if (memory->classes[class_id].bytes)
			stats_add_class(memory, class_id, stats);
	mem_lock(&heap->lock);
	stats->index = (uint64_t)heap->first * PAGE_BYTES - sizeof(struct superblock);
	stats->free = ((uint64_t)heap->free + heap->reserved) * PAGE_BYTES;
	stats->large = (uint64_t)heap->large * PAGE_BYTES;
	stats->evacuating = (uint64_t)heap->evacuating * PAGE_BYTES;
	mem_unlock(&heap->lock);
}

/* As stats_add_class(), but blocks counted twice do not exceed the blocks that exist. */
uint32_t size_class_stats(const struct memory *constant, unsigned int class_id,
			  struct size_class_stats *stats)
{
	struct memory *memory = (struct memory *)constant; /* for its locks */
	struct size_class *size_class = &memory->classes[class_id];
	uint64_t cached, blocks, free;

	if (class_id == CLASS_BUCKETS || !hint_load(&size_class->slabs))
		return 0;
	cached = magazines_count(memory, class_id);
	mem_lock(&size_class->lock);
	stats->slabs = size_class->slabs;
	stats->bytes = size_class->slab_pages * PAGE_BYTES;
	blocks = (stats->bytes - size_class->slab_ends) / size_class->bytes;
	free = size_class->free + cached;
	mem_unlock(&size_class->lock);
	stats->free = free < blocks ? free : blocks;
	stats->used = blocks - stats->free;
	return stats->slabs ? size_class->bytes : 0;
}

uint64_t memory_free_bytes(const struct memory *memory)
{
	struct memory_stats stats;

	memory_stats(memory, &stats);
	return stats.free + stats.item_slabs_free + stats.bucket_slabs_free;
}

/* Inverses that are rounded up give exact quotients for all offsets in a slab. */
static void classes_init(struct memory *memory)
{
	for (unsigned int i = 0; i < MEM_CLASSES_MAX; i++) {
		struct size_class *size_class = &memory->classes[i];

		size_class->bytes = size_class_bytes[i];
		if (!size_class->bytes)
			continue;
		size_class->inverse = (uint32_t)(((1ull << 32) + size_class->bytes / CLASS_STEP -
						  1) /
						 (size_class->bytes / CLASS_STEP));
		size_class->pages = (uint16_t)(size_class_slab_bytes(size_class->bytes) /
					       PAGE_BYTES);
		size_class->blocks = (uint16_t)(size_class->pages * PAGE_BYTES / size_class->bytes);
		size_class->has_magazines = size_class->bytes <= CLASS_SMALL_MAX;
		size_class->slab_ids = memory->slab_ids + (size_t)i * memory->slabs_max;
		for (unsigned int list = 0; list < SLAB_LISTS; list++)
			size_class->lists[list] = SLAB_NONE;
	}
}

/* Maps an array of zeros, whose pages cost nothing until they are touched. */
static void *map_array(size_t count, size_t size)
{
	void *p = mmap(NULL, count * size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void unmap_array(void *p, size_t count, size_t size)
{
	if (p)
		munmap(p, count * size);
}

static size_t homes_count(const struct memory *memory)
{
	return memory->region->bytes_max / BUCKET_BYTES;
}

static int arrays_create(struct memory *memory)
{
	memory->slabs = keep_map(&memory->region->keep, memory->slabs_max * sizeof(struct slab));
	memory->slab_ids = map_array((size_t)memory->slabs_max * MEM_CLASSES_MAX, sizeof(uint32_t));
	memory->homes = map_array(homes_count(memory), sizeof(uint32_t));
	return memory->slabs && memory->slab_ids && memory->homes ? 0 : -ENOMEM;
}

static struct memory *memory_alloc(struct region *region)
{
	struct memory *memory = aligned_alloc(alignof(struct memory), sizeof(*memory));

	if (!memory)
		return NULL;
	memset(memory, 0, sizeof(*memory));
	memory->region = region;
	memory->slabs_spare = SLAB_NONE;
	TAILQ_INIT(&memory->evacuations_open);
	memory->evacuation_oldest = UINT64_MAX;
	pthread_mutex_init(&memory->caches_lock, NULL);
	return memory;
}

static uint64_t first_page(uint64_t index_bytes)
{
	return (sizeof(struct superblock) + index_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
}

uint64_t memory_bytes_first(uint64_t region_bytes, uint64_t index_bytes)
{
	uint64_t first = first_page(index_bytes), end = memory_end_page(region_bytes);

	return first < end ? (end - first) * PAGE_BYTES : 0;
}

int memory_create(struct memory **out, struct region *region, uint64_t index_bytes)
{
	uint64_t first = first_page(index_bytes), end = memory_end_page(region->bytes);
	char index[PARSE_FORMAT_MAX], size[PARSE_FORMAT_MAX];
	struct memory *memory;
	uint32_t max;
	int err;

	*out = NULL;
	if (region->bytes_max > REGION_BYTES_MAX || first >= end) {
		log_error("memory: an index of %s leaves nothing for items in a region of %s; "
			  "raise memory.size or lower index.keys",
			  show_size(index_bytes, index), show_size(region->bytes, size));
		return -EINVAL;
	}
	memory = memory_alloc(region);
	if (!memory) {
		log_error("memory: can't allocate %s for the size classes: %s",
			  show_size(sizeof(*memory), size), strerror(ENOMEM));
		return -ENOMEM;
	}
	/* The worst case: all slabs have minimum length, and one more is being created. */
	max = memory_end_page(region->bytes_max);
	memory->slabs_max = (uint32_t)(max - first) / SLAB_PAGES_MIN + 1;
	err = page_heap_init(&memory->heap, &region->keep, (uint32_t)first, (uint32_t)end, max,
			     (uint32_t)(region->extent_bytes / PAGE_BYTES));
	if (!err)
		err = arrays_create(memory);
	if (err) {
		log_error(
			"memory: can't map the descriptors of pages and slabs: %s; raise the limit "
			"of address space (ulimit -v) or lower memory.size",
			strerror(-err));
		memory_destroy(memory);
		return err;
	}
	classes_init(memory);
	*out = memory;
	return 0;
}

void memory_destroy(struct memory *memory)
{
	if (!memory)
		return;
	unmap_array(memory->homes, homes_count(memory), sizeof(uint32_t));
	unmap_array(memory->slab_ids, (size_t)memory->slabs_max * MEM_CLASSES_MAX,
		    sizeof(uint32_t));
	keep_unmap(&memory->region->keep, memory->slabs, memory->slabs_max * sizeof(struct slab));
	page_heap_release(&memory->heap, &memory->region->keep);
	pthread_mutex_destroy(&memory->caches_lock);
	free(memory);
}
