/* SPDX-License-Identifier: MIT */
#include "server/store/memory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/util/log.h"
#include "server/store/page_heap.h"
#include "common/util/stat.h"

/*
 * Size classes: steps of 16 bytes up to 512; above, as many bytes as let a certain number of blocks
 * fit a slab, with about one block in 22 less from class to class: 131 classes. Percent of the memory of
 * full slabs that are lost, over all sizes that ITEM_ALIGN divides (others lose up to 15 bytes more);
 * tests/unit/server/test_memory.c prints it:
 *
 *	   bytes	classes	average	worst
 *	   48 -   512	     30	    0.2	  0.5
 *	  513 -  1024	     17	    1.4	  3.8
 *	 1025 -  2048	     22	    1.5	  3.9
 *	 2049 -  4096	     16	    2.3	  5.9
 *	 4097 -  8192	     22	    1.6	  4.2
 *	 8193 - 16384	     16	    2.3	  5.9
 *	16385 - 32768	      8	    4.4	 11.1
 *	32769 - 65536	  spans	    4.1	 11.1
 *	65537 -   2^20	  spans	    0.6	  5.9
 *
 * A value of 4 KiB with a short key has a class of its own, 4160: 0.4 % are lost for 4144 bytes.
 */
#define CLASS_STEP 16u
#define CLASS_STEPS_MAX 512u /* bytes */
#define CLASS_SHRINK 22u
/* Blocks up to this size are in slabs of SLAB_BYTES_MIN and in magazines. */
#define CLASS_SMALL_MAX 4096u

static uint16_t class_bytes[MEM_CLASSES_MAX];
static uint8_t class_numbers[CLASS_BYTES_MAX / CLASS_STEP + 1];
static unsigned int classes_count;

static uint32_t class_slab_bytes(uint32_t bytes)
{
	return bytes <= CLASS_SMALL_MAX ? SLAB_BYTES_MIN : SLAB_BYTES_MAX;
}

static void class_add(uint32_t bytes)
{
	assert(classes_count < CLASS_BUCKETS);
	class_bytes[classes_count++] = (uint16_t)bytes;
}

/* Classes for blocks larger than @from, up to @to. */
static void classes_add(uint32_t from, uint32_t to)
{
	uint32_t slab = class_slab_bytes(to), blocks = slab / from, last = from, bytes;

	while (last < to) {
		blocks -= blocks > CLASS_SHRINK * 2 && last > from ? blocks / CLASS_SHRINK : 1;
		bytes = slab / blocks / CLASS_STEP * CLASS_STEP;
		if (bytes > last)
			class_add(bytes);
		last = bytes;
	}
	assert(last == to);
}

/* Before main(), since sizes have classes without a memory too. */
__attribute__((constructor)) static void classes_make(void)
{
	unsigned int class = 0;

	for (uint32_t bytes = CLASS_BYTES_MIN; bytes <= CLASS_STEPS_MAX; bytes += CLASS_STEP)
		class_add(bytes);
	classes_add(CLASS_STEPS_MAX, CLASS_SMALL_MAX);
	classes_add(CLASS_SMALL_MAX, CLASS_BYTES_MAX);
	class_bytes[CLASS_BUCKETS] = BUCKET_BYTES;
	for (uint32_t step = 0; step <= CLASS_BYTES_MAX / CLASS_STEP; step++) {
		if (step * CLASS_STEP > class_bytes[class])
			class ++;
		class_numbers[step] = (uint8_t) class;
	}
}

unsigned int mem_class(size_t bytes)
{
	if (bytes > CLASS_BYTES_MAX)
		return MEM_CLASS_LARGE;
	return class_numbers[(bytes + CLASS_STEP - 1) / CLASS_STEP];
}

size_t mem_class_bytes(size_t bytes)
{
	if (bytes > CLASS_BYTES_MAX)
		return (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	return class_bytes[mem_class(bytes)];
}

/* Magazines; with the cache's lock */

static void do_magazine_resize(struct mem_cache *cache, unsigned int class, unsigned int count)
{
	struct mem_magazine *magazine = &cache->magazines[class];
	int64_t more = (int64_t)count - magazine->count;

	magazine->count = (uint16_t)count;
	stat_add(&cache->magazine_bytes, (uint64_t)(more * cache->memory->classes[class].bytes));
}

/* What the magazines of a cache may take (M3). They may hold more for a while: the index has grown. */
static uint64_t magazines_max(const struct memory *memory)
{
	return memory_bytes(memory) / MAGAZINES_SHARE;
}

static bool do_magazine_full(const struct mem_cache *cache, unsigned int class)
{
	return cache->magazines[class].count == MAGAZINE_BLOCKS ||
	       cache->magazine_bytes + cache->memory->classes[class].bytes >
		       magazines_max(cache->memory);
}

/* The block that is returned, and half a magazine, or what may be of it. */
static void *do_refill(struct mem_cache *cache, unsigned int class)
{
	struct mem_magazine *magazine = &cache->magazines[class];
	uint64_t bytes = cache->memory->classes[class].bytes, max = magazines_max(cache->memory);
	unsigned int want = MAGAZINE_BLOCKS / 2, n;
	void *blocks[MAGAZINE_BLOCKS / 2 + 1];

	while (want && cache->magazine_bytes + want * bytes > max)
		want--;
	n = class_take(cache->memory, class, blocks, want + 1);
	if (!n)
		return NULL;
	/* The lowest address is the next. */
	for (unsigned int i = n - 1; i > 0; i--)
		magazine->blocks[n - 1 - i] = blocks[i];
	do_magazine_resize(cache, class, n - 1);
	return blocks[0];
}

/* Gives back the blocks that are longest in the magazine. */
static void do_flush(struct mem_cache *cache, unsigned int class, unsigned int count)
{
	struct mem_magazine *magazine = &cache->magazines[class];

	if (!count)
		return;
	class_give(cache->memory, class, magazine->blocks, count);
	memmove(magazine->blocks, magazine->blocks + count,
		(magazine->count - count) * sizeof(magazine->blocks[0]));
	do_magazine_resize(cache, class, magazine->count - count);
}

static void do_flush_all(struct mem_cache *cache)
{
	for (unsigned int class = 0; class < MEM_CLASSES_MAX; class ++)
		do_flush(cache, class, cache->magazines[class].count);
}

static void *class_alloc(struct mem_cache *cache, unsigned int class)
{
	struct mem_magazine *magazine = &cache->magazines[class];
	void *p = NULL;

	if (!cache->memory->classes[class].has_magazines) {
		class_take(cache->memory, class, &p, 1);
		return p;
	}
	mem_lock(&cache->lock);
	if (__builtin_expect(magazine->count, 1)) {
		p = magazine->blocks[magazine->count - 1];
		do_magazine_resize(cache, class, magazine->count - 1);
	} else {
		p = do_refill(cache, class);
	}
	mem_unlock(&cache->lock);
	return p;
}

/* Its slab is evacuated: it stays there. Asked only during an evacuation: it costs two cache misses. */
static bool do_must_give(const struct memory *memory, const void *p)
{
	return hint_load(&memory->evacuations) && hint_load(&slab_of(memory, p)->evacuating);
}

static void class_free(struct mem_cache *cache, unsigned int class, void *p)
{
	struct memory *memory = cache->memory;
	struct mem_magazine *magazine = &cache->magazines[class];

	/* M1: what readers of the region see from now on. */
	assert(hint_load((uint64_t *)p) == 0);
	if (!memory->classes[class].has_magazines) {
		class_give(memory, class, &p, 1);
		return;
	}
	mem_lock(&cache->lock);
	if (__builtin_expect(do_magazine_full(cache, class), 0))
		do_flush(cache, class, (magazine->count + 1u) / 2);
	if (__builtin_expect(do_must_give(memory, p) || do_magazine_full(cache, class), 0)) {
		class_give(memory, class, &p, 1);
	} else {
		magazine->blocks[magazine->count] = p;
		do_magazine_resize(cache, class, magazine->count + 1u);
	}
	mem_unlock(&cache->lock);
}

static void *large_alloc(struct memory *memory, size_t bytes)
{
	uint32_t page = PAGE_NONE;

	if (bytes <= memory_bytes(memory))
		page = spans_take(&memory->spans, pages_of(bytes), PAGE_LARGE, 0);
	if (page == PAGE_NONE)
		return NULL;
	store_relaxed64(page_address(memory, page), 0);
	return page_address(memory, page);
}

void *mem_alloc(struct mem_cache *cache, size_t bytes)
{
	unsigned int class = mem_class(bytes);
	void *p = class == MEM_CLASS_LARGE ? large_alloc(cache->memory, bytes) :
					     class_alloc(cache, class);

	if (p)
		stat_add(&cache->allocated_bytes, mem_class_bytes(bytes));
	else
		stat_add(&cache->failures, 1);
	return p;
}

void mem_free(struct mem_cache *cache, void *p, size_t bytes)
{
	unsigned int class = mem_class(bytes);

	stat_add(&cache->freed_bytes, mem_class_bytes(bytes));
	if (class == MEM_CLASS_LARGE) {
		assert(hint_load((uint64_t *)p) == 0);
		spans_give(&cache->memory->spans, page_of(cache->memory, p));
	} else {
		class_free(cache, class, p);
	}
}

void *mem_alloc_bucket(struct mem_cache *cache, uint64_t home)
{
	void *p = class_alloc(cache, CLASS_BUCKETS);

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
	class_free(cache, CLASS_BUCKETS, p);
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

void mem_cache_release(struct mem_cache *cache)
{
	struct memory *memory = cache->memory;
	struct mem_cache **link;

	if (!memory)
		return;
	pthread_mutex_lock(&memory->caches_lock);
	for (link = &memory->caches; *link != cache; link = &(*link)->next)
		;
	*link = cache->next;
	mem_lock(&cache->lock);
	do_flush_all(cache);
	mem_unlock(&cache->lock);
	pthread_mutex_unlock(&memory->caches_lock);
	cache->memory = NULL;
}

void memory_gather(struct memory *memory)
{
	pthread_mutex_lock(&memory->caches_lock);
	for (struct mem_cache *cache = memory->caches; cache; cache = cache->next) {
		mem_lock(&cache->lock);
		do_flush_all(cache);
		mem_unlock(&cache->lock);
	}
	pthread_mutex_unlock(&memory->caches_lock);
}

static void do_magazine_collect(struct mem_cache *cache, unsigned int class, uint32_t page,
				uint32_t pages)
{
	struct mem_magazine *magazine = &cache->magazines[class];
	void *blocks[MAGAZINE_BLOCKS];
	unsigned int n = 0, kept = 0;

	for (unsigned int i = 0; i < magazine->count; i++)
		if (page_of(cache->memory, magazine->blocks[i]) - page < pages)
			blocks[n++] = magazine->blocks[i];
		else
			magazine->blocks[kept++] = magazine->blocks[i];
	if (n) {
		do_magazine_resize(cache, class, kept);
		class_give(cache->memory, class, blocks, n);
	}
}

void magazines_collect(struct memory *memory, unsigned int class, uint32_t page, uint32_t pages)
{
	pthread_mutex_lock(&memory->caches_lock);
	for (struct mem_cache *cache = memory->caches; cache; cache = cache->next) {
		mem_lock(&cache->lock);
		do_magazine_collect(cache, class, page, pages);
		mem_unlock(&cache->lock);
	}
	pthread_mutex_unlock(&memory->caches_lock);
}

uint64_t magazines_count(struct memory *memory, unsigned int class)
{
	uint64_t n = 0;

	pthread_mutex_lock(&memory->caches_lock);
	for (struct mem_cache *cache = memory->caches; cache; cache = cache->next) {
		mem_lock(&cache->lock);
		n += cache->magazines[class].count;
		mem_unlock(&cache->lock);
	}
	pthread_mutex_unlock(&memory->caches_lock);
	return n;
}

/* Sampling: on hints, without a lock. What is found was a block, or part of one, some time ago. */

#define SAMPLE_TRIES 8u /* for each block that is wanted */

static bool in_pages(const struct memory *memory, uint64_t offset, uint64_t bytes)
{
	return offset >= (uint64_t)hint_load(&memory->spans.first) * PAGE_BYTES &&
	       offset + bytes <= (uint64_t)memory->spans.end * PAGE_BYTES;
}

/* A block of a slab, of @blocks that it would have (0: of those it has). NULL: that one is not in use. */
static void *sample_slab(const struct memory *memory, uint32_t number, uint32_t blocks,
			 uint64_t *random)
{
	const struct slab *slab = &memory->slabs[number];
	uint32_t class = hint_load(&slab->class), has = hint_load(&slab->blocks), i;
	uint64_t offset;

	if (!has || class == CLASS_BUCKETS)
		return NULL;
	i = random_below(random, blocks ? blocks : has);
	if (i >= has || hint_load(&slab->bits[i / 64]) >> i % 64 & 1)
		return NULL;
	offset = (uint64_t)hint_load(&slab->page) * PAGE_BYTES +
		 (uint64_t)i * memory->classes[class].bytes;
	if (!in_pages(memory, offset, memory->classes[class].bytes))
		return NULL;
	return region_at(memory->region, offset);
}

/* What a random page holds: a large item, or a block of its slab if @slabs. */
static void *sample_page(const struct memory *memory, bool slabs, uint64_t *random)
{
	uint32_t first = hint_load(&memory->spans.first), word, slab, head;
	const struct page *page;

	page = &memory->spans.map[first + random_below(random, memory->spans.end - first)];
	word = hint_load(&page->word);
	if ((word & PAGE_KIND) == PAGE_LARGE) {
		head = word >> PAGE_SPAN_SHIFT;
		return in_pages(memory, (uint64_t)head * PAGE_BYTES, PAGE_BYTES) ?
			       page_address(memory, head) :
			       NULL;
	}
	slab = hint_load(&page->slab);
	if (!slabs || (word & PAGE_KIND) != PAGE_ITEMS || slab >= memory->slabs_max)
		return NULL;
	return sample_slab(memory, slab, 0, random);
}

static void *sample_class(const struct memory *memory, const struct slab_class *class,
			  uint64_t *random)
{
	uint32_t slabs = hint_load(&class->slabs);

	if (!slabs)
		return NULL;
	return sample_slab(memory, hint_load(&class->array[random_below(random, slabs)]),
			   class->blocks, random);
}

unsigned int mem_sample(struct memory *memory, unsigned int class, uint64_t *random, void **blocks,
			unsigned int count)
{
	unsigned int n = 0;
	void *p;

	for (unsigned int tries = count * SAMPLE_TRIES; n < count && tries; tries--) {
		if (class == MEM_CLASS_LARGE)
			p = sample_page(memory, false, random);
		else
			p = sample_class(memory, &memory->classes[class], random);
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

/* The whole */

uint64_t memory_bytes(const struct memory *memory)
{
	return (uint64_t)(memory->spans.end - hint_load(&memory->spans.first)) * PAGE_BYTES;
}

static void stats_add_class(struct memory *memory, unsigned int number, struct memory_stats *stats)
{
	struct slab_class *class = &memory->classes[number];
	uint64_t cached = magazines_count(memory, number), pages, free;

	mem_lock(&class->lock);
	pages = class->slab_pages;
	free = class->free;
	mem_unlock(&class->lock);
	if (number == CLASS_BUCKETS) {
		stats->bucket_slabs = pages * PAGE_BYTES;
		stats->bucket_slabs_free = (free + cached) * class->bytes;
	} else {
		stats->item_slabs += pages * PAGE_BYTES;
		stats->item_slabs_free += (free + cached) * class->bytes;
	}
}

void memory_stats(const struct memory *constant, struct memory_stats *stats)
{
	struct memory *memory = (struct memory *)constant; /* for its locks */
	struct spans *spans = &memory->spans;

	*stats = (struct memory_stats){ 0 };
	for (unsigned int class = 0; class < MEM_CLASSES_MAX; class ++)
		if (memory->classes[class].bytes)
			stats_add_class(memory, class, stats);
	mem_lock(&spans->lock);
	stats->index = (uint64_t)spans->first * PAGE_BYTES - sizeof(struct superblock);
	stats->free = ((uint64_t)spans->free + spans->held) * PAGE_BYTES;
	stats->large = (uint64_t)spans->large * PAGE_BYTES;
	stats->evacuating = (uint64_t)spans->evacuating * PAGE_BYTES;
	mem_unlock(&spans->lock);
}

uint64_t memory_free_bytes(const struct memory *memory)
{
	struct memory_stats stats;

	memory_stats(memory, &stats);
	return stats.free + stats.item_slabs_free + stats.bucket_slabs_free;
}

static void classes_init(struct memory *memory)
{
	for (unsigned int i = 0; i < MEM_CLASSES_MAX; i++) {
		struct slab_class *class = &memory->classes[i];

		class->bytes = class_bytes[i];
		if (!class->bytes)
			continue;
		class->inverse = (uint32_t)(((1ull << 32) + class->bytes / 16 - 1) /
					    (class->bytes / 16));
		class->pages = (uint16_t)(class_slab_bytes(class->bytes) / PAGE_BYTES);
		class->blocks = (uint16_t)(class->pages * PAGE_BYTES / class->bytes);
		class->has_magazines = class->bytes <= CLASS_SMALL_MAX;
		class->array = memory->arrays + (size_t)i * memory->slabs_max;
		for (unsigned int list = 0; list < SLAB_LISTS; list++)
			class->lists[list] = SLAB_NONE;
	}
}

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
	return memory->region->bytes / BUCKET_BYTES;
}

static int arrays_create(struct memory *memory)
{
	memory->slabs = map_array(memory->slabs_max, sizeof(struct slab));
	memory->arrays = map_array((size_t)memory->slabs_max * MEM_CLASSES_MAX, sizeof(uint32_t));
	memory->homes = map_array(homes_count(memory), sizeof(uint32_t));
	return memory->slabs && memory->arrays && memory->homes ? 0 : -ENOMEM;
}

static struct memory *memory_new(struct region *region)
{
	struct memory *memory = aligned_alloc(alignof(struct memory), sizeof(*memory));

	if (!memory)
		return NULL;
	memset(memory, 0, sizeof(*memory));
	memory->region = region;
	memory->slab_spare = SLAB_NONE;
	pthread_mutex_init(&memory->caches_lock, NULL);
	return memory;
}

int memory_create(struct memory **out, struct region *region, uint64_t index_bytes)
{
	uint64_t first = (sizeof(struct superblock) + index_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
	uint64_t end = (region->bytes - REGION_PAD) / PAGE_BYTES;
	struct memory *memory;
	int err;

	*out = NULL;
	if (region->bytes > REGION_BYTES_MAX || first >= end) {
		log_error("memory: an index of %llu bytes leaves nothing for items in a region of "
			  "%llu; raise memory.size",
			  (unsigned long long)index_bytes, (unsigned long long)region->bytes);
		return -EINVAL;
	}
	memory = memory_new(region);
	if (!memory)
		return -ENOMEM;
	memory->slabs_max = (end - first) / SLAB_PAGES_MIN + 1;
	err = spans_init(&memory->spans, (uint32_t)first, (uint32_t)end);
	if (!err)
		err = arrays_create(memory);
	if (err) {
		log_error("memory: can't map what describes the pages: %s; raise the limit of "
			  "address space (ulimit -v) or lower memory.size",
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
	unmap_array(memory->arrays, (size_t)memory->slabs_max * MEM_CLASSES_MAX, sizeof(uint32_t));
	unmap_array(memory->slabs, memory->slabs_max, sizeof(struct slab));
	spans_release(&memory->spans);
	pthread_mutex_destroy(&memory->caches_lock);
	free(memory);
}
