/* SPDX-License-Identifier: MIT */
/*
 * Tests of the item memory: where blocks are and what new ones hold; that any size can use nearly
 * all memory after any other; that the statistics add up; and which blocks samples find.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "server/store/memory.h"
#include "server/store/slab.h"

#define BYTES ((uint64_t)32 << 20)
#define INDEX_BYTES 10000u
#define BLOCKS_MAX (BYTES / CLASS_BYTES_MIN)

static struct region region;
static struct memory *memory;
static struct mem_cache a, b;
static void *blocks[BLOCKS_MAX];
static uint64_t seed;

static int setup(void **state)
{
	(void)state;
	seed = 42;
	region.bytes = region.bytes_max = region.extent_bytes = BYTES;
	region.base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(region.base, 0xee, BYTES);
	return memory_create(&memory, &region, INDEX_BYTES) || mem_cache_init(&a, memory) ||
	       mem_cache_init(&b, memory);
}

/*
 * Each class lists all of its slabs, from which samples are drawn, and each knows its place; the
 * totals of the class are the sums of theirs.
 */
static void check_slabs(void)
{
	for (unsigned int class_id = 0; class_id < MEM_CLASSES_MAX; class_id++) {
		const struct size_class *size_class = &memory->classes[class_id];
		uint64_t pages = 0, free = 0, ends = 0;

		for (uint32_t i = 0; i < size_class->slabs; i++) {
			const struct slab *slab = &memory->slabs[size_class->slab_ids[i]];

			assert_int_equal(slab->index, i);
			assert_int_equal(slab->class_id, class_id);
			pages += slab->pages;
			free += slab->free;
			ends += slab->pages * PAGE_BYTES - slab->blocks * size_class->bytes;
		}
		assert_int_equal(size_class->slab_pages, pages);
		assert_int_equal(size_class->free, free);
		assert_int_equal(size_class->available, free);
		assert_int_equal(size_class->slab_ends, ends);
	}
}

/* All size classes together are what the totals say. */
static void check_size_classes(const struct memory_stats *s)
{
	uint64_t bytes = 0, free_bytes = 0, used_bytes = 0, ends = 0;

	for (unsigned int class_id = 0; class_id < MEM_CLASSES_MAX; class_id++) {
		struct size_class_stats stats;
		uint32_t size = size_class_stats(memory, class_id, &stats);

		assert_int_equal(size != 0,
				 class_id != CLASS_BUCKETS && memory->classes[class_id].slabs);
		if (!size)
			continue;
		assert_int_equal(size, size_class_bytes[class_id]);
		assert_int_equal(stats.slabs, memory->classes[class_id].slabs);
		bytes += stats.bytes;
		free_bytes += stats.free * size;
		used_bytes += stats.used * size;
		ends += memory->classes[class_id].slab_ends;
	}
	assert_int_equal(bytes, s->item_slabs);
	assert_int_equal(free_bytes, s->item_slabs_free);
	assert_int_equal(used_bytes, bytes - free_bytes - ends);
}

static void check_stats(uint64_t used)
{
	struct memory_stats s;

	check_slabs();
	memory_stats(memory, &s);
	check_size_classes(&s);
	assert_int_equal(sizeof(struct superblock) + s.index + s.free + s.item_slabs +
				 s.bucket_slabs + s.large + REGION_PAD,
			 BYTES);
	assert_int_equal(memory_bytes(memory), BYTES - REGION_PAD - s.index - PAGE_BYTES);
	assert_int_equal(a.allocated_bytes + b.allocated_bytes - a.freed_bytes - b.freed_bytes,
			 used);
	/* Bytes of slabs that are not in free blocks are in use, or ends too short for a block. */
	assert_int_equal(s.item_slabs - s.item_slabs_free + s.bucket_slabs - s.bucket_slabs_free -
				 s.slab_ends + s.large,
			 used);
	assert_int_equal(memory_free_bytes(memory),
			 s.free + s.item_slabs_free + s.bucket_slabs_free);
}

/* When all blocks are freed the pages are one run again. */
static void check_empty(void)
{
	struct memory_stats s;

	memory_gather(memory);
	check_stats(0);
	memory_stats(memory, &s);
	assert_int_equal(s.free, memory_bytes(memory));
	assert_int_equal(memory->heap.map[memory->heap.first].pages,
			 memory_bytes(memory) / PAGE_BYTES);
	assert_int_equal(a.magazine_bytes + b.magazine_bytes, 0);
}

static int teardown(void **state)
{
	(void)state;
	mem_cache_release(&a);
	mem_cache_release(&a);
	mem_cache_release(&b);
	memory_destroy(memory);
	munmap(region.base, BYTES);
	return 0;
}

/* Checks where a new block is and what it holds, and writes all of it. */
static void check_block(const void *p, size_t bytes)
{
	uint64_t at = region_offset(&region, p), sum;

	assert_true(at >= sizeof(struct superblock) + INDEX_BYTES);
	assert_true(at + mem_class_bytes(bytes) <= BYTES - REGION_PAD);
	assert_int_equal(at % ITEM_ALIGN, 0);
	memcpy(&sum, p, sizeof(sum));
	assert_int_equal(sum, 0);
}

static void put_back(struct mem_cache *cache, void *p, size_t bytes)
{
	store_relaxed64(p, 0);
	mem_free(cache, p, bytes);
}

static uint64_t fill(struct mem_cache *cache, size_t bytes)
{
	uint64_t n = 0;
	void *p;

	while ((p = mem_alloc(cache, bytes))) {
		check_block(p, bytes);
		memset(p, (int)n | 1, bytes);
		blocks[n++] = p;
	}
	return n;
}

static void print_used(uint64_t n, size_t bytes, double percent)
{
	double used = 100.0 * (double)(n * bytes) / (double)memory_bytes(memory);

	print_message("%zu bytes: %llu blocks, %.2f %% of the memory\n", bytes,
		      (unsigned long long)n, used);
	assert_true(used >= percent);
	assert_true(used <= 100);
}

/* Whatever size was used before, another one finds nearly as much room. */
static void all_of_it_again_and_again(void **state)
{
	static const struct {
		size_t bytes;
		double percent;
	} sizes[] = { { 160, 99 },     { 4144, 98.5 }, { 148, 97 },   { 48, 99 },
		      { 32768, 98 },   { 4144, 98.5 }, { 1280, 97 },  { 100000, 96 },
		      { 1 << 20, 96 }, { 148, 97 },    { 30000, 90 }, { 1, 2 },
		      { 1055, 96 },    { 9000, 96 },   { 8193, 96 } };
	uint64_t n;

	(void)state;
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		n = fill(i % 2 ? &b : &a, sizes[i].bytes);
		print_used(n, sizes[i].bytes, sizes[i].percent);
		check_stats(n * mem_class_bytes(sizes[i].bytes));
		while (n)
			put_back(i % 3 ? &a : &b, blocks[--n], sizes[i].bytes);
		check_empty();
	}
	assert_int_equal(a.failures + b.failures, sizeof(sizes) / sizeof(sizes[0]));
}

/* The model of a random walk. */
#define LIVE_MAX 6000u

static struct {
	uint8_t *p;
	uint32_t bytes; /* 0: a bucket */
	uint8_t mark;
} live[LIVE_MAX];
static unsigned int live_count;
static uint64_t live_bytes;

static size_t size_random(void)
{
	static const uint32_t limits[] = { 100, 200, 600, 600, 5000, 40000, 300000 };
	uint32_t limit = limits[random_below(&seed, random_below(&seed, 20) ? 5 : 7)];

	return 1 + random_below(&seed, limit);
}

static size_t live_size(unsigned int i)
{
	return live[i].bytes ? mem_class_bytes(live[i].bytes) : BUCKET_BYTES;
}

static void walk_take(struct mem_cache *cache)
{
	uint32_t bytes = random_below(&seed, 5) ? (uint32_t)size_random() : 0;
	uint8_t *p = bytes ? mem_alloc(cache, bytes) : mem_alloc_bucket(cache, live_count);

	if (!p)
		return;
	check_block(p, bytes ? bytes : BUCKET_BYTES);
	if (!bytes)
		assert_int_equal(region_offset(&region, p) % BUCKET_BYTES, 0);
	live[live_count].p = p;
	live[live_count].bytes = bytes;
	live[live_count].mark = (uint8_t)(1 + random_below(&seed, 255));
	/* All bytes of its class: blocks that overlap would overwrite each other. */
	memset(p, live[live_count].mark, live_size(live_count));
	live_bytes += live_size(live_count++);
}

static void walk_give(struct mem_cache *cache, unsigned int i)
{
	size_t size = live_size(i);

	for (size_t k = 0; k < size; k++)
		if (live[i].p[k] != live[i].mark)
			fail_msg("block %u, byte %zu of %zu was overwritten", i, k, size);
	live_bytes -= size;
	store_relaxed64((uint64_t *)live[i].p, 0);
	if (live[i].bytes)
		mem_free(cache, live[i].p, live[i].bytes);
	else
		mem_free_bucket(cache, live[i].p);
	live[i] = live[--live_count];
}

static void random_walk(void **state)
{
	unsigned int step, more;

	(void)state;
	for (step = 0; step < 120000; step++) {
		more = step / 10000 % 2 ? 35 : 65;
		if (live_count < LIVE_MAX && random_below(&seed, 100) < more)
			walk_take(step % 3 ? &a : &b);
		else if (live_count)
			walk_give(step % 2 ? &a : &b, random_below(&seed, live_count));
		assert_true(a.magazine_bytes <= memory_bytes(memory) / MAGAZINES_SHARE);
		if (step % 1000 == 0)
			check_stats(live_bytes);
		if (step % 7777 == 0)
			memory_gather(memory);
	}
	while (live_count)
		walk_give(&a, live_count - 1);
	check_empty();
}

static void classes(void **state)
{
	size_t last = 0;

	(void)state;
	for (size_t bytes = 0; bytes < 70000; bytes++) {
		size_t class = mem_class_bytes(bytes);

		assert_true(class >= bytes && class >= 40 && class % ITEM_ALIGN == 0);
		assert_true(class >= last);
		assert_int_equal(mem_class_bytes(class), class);
		assert_int_equal(mem_class(bytes), mem_class(class));
		assert_int_equal(mem_class(bytes) == MEM_CLASS_LARGE, bytes > 32768);
		last = class;
	}
	assert_int_equal(mem_class_bytes(4144), 4160);
	assert_int_equal(mem_class_bytes(148), 152);
	assert_int_equal(mem_class_bytes(1 << 30), 1 << 30);
}

/* The table at the head of server/store/size_class.c. */
static void waste(void **state)
{
	static const uint32_t ends[] = { 40,   512,   1024,  2048,  4096,
					 8192, 16384, 32768, 65536, 1 << 20 };
	static const double worst[] = { 3.4, 4.3, 4.0, 6.0, 4.4, 6.0, 11.2, 11.2, 6.0 };

	(void)state;
	for (unsigned int i = 0; i < 9; i++) {
		double sum = 0, most = 0, lost;
		unsigned int n = 0;

		for (uint32_t bytes = ends[i]; bytes <= ends[i + 1]; bytes += ITEM_ALIGN) {
			size_t class = mem_class_bytes(bytes);
			uint32_t slab = class <= 4096 ? SLAB_BYTES_MIN : SLAB_BYTES_MAX;
			double of = (double)class;

			if (i && bytes == ends[i])
				continue;
			if (class <= 32768)
				of = (double)slab / (double)(slab / class);
			lost = 100 * (1 - bytes / of);
			sum += lost;
			n++;
			most = lost > most ? lost : most;
		}
		print_message("%7u - %7u  %4.1f  %4.1f\n", ends[i], ends[i + 1], sum / n, most);
		assert_true(most < worst[i]);
	}
}

/* An allocation fails, and succeeds when other threads' magazines are drained. */
static void gathering(void **state)
{
	uint64_t n = fill(&a, 160);
	void *p;

	(void)state;
	put_back(&b, blocks[--n], 160);
	assert_int_equal(b.magazine_bytes, 160);
	assert_null(mem_alloc(&a, 160));
	memory_gather(memory);
	assert_int_equal(b.magazine_bytes, 0);
	p = mem_alloc(&a, 160);
	assert_ptr_equal(p, blocks[n]);
	assert_null(mem_alloc(&a, 32));
	assert_null(mem_alloc(&a, 5000));
	assert_null(mem_alloc(&a, 50000));
	assert_null(mem_alloc(&a, SIZE_MAX));
	assert_null(mem_alloc(&a, SIZE_MAX - 4096));
	assert_null(mem_alloc(&a, BYTES));
	assert_null(mem_alloc_bucket(&a, 0));
	/* Two before that, and each of these. */
	assert_int_equal(a.failures, 9);
}

/* Magazines are drained whose thread did nothing since the last time. */
static void gathering_from_the_idle(void **state)
{
	struct mem_cache c;
	void *p, *q;

	(void)state;
	assert_int_equal(mem_cache_init(&c, memory), 0);
	p = mem_alloc(&a, 160);
	q = mem_alloc(&b, 160);
	assert_non_null(mem_alloc(&c, 320));
	assert_int_equal(a.magazine_bytes, MAGAZINE_BLOCKS / 2 * 160);
	/* Magazines that were never looked at, but for the caller's own. */
	assert_int_equal(memory_gather_idle(memory, &a), MAGAZINE_BLOCKS / 2 * (160 + 320));
	assert_int_equal(b.magazine_bytes + c.magazine_bytes, 0);
	assert_int_equal(memory_gather_idle(memory, &a), 0);
	assert_int_equal(a.magazine_bytes, MAGAZINE_BLOCKS / 2 * 160);
	/* A free is enough to be busy, and so are an allocation and a free. */
	put_back(&b, q, 160);
	assert_int_equal(memory_gather_idle(memory, &a), 0);
	assert_int_equal(b.magazine_bytes, 160);
	put_back(&b, mem_alloc(&b, 160), 160);
	assert_int_equal(memory_gather_idle(memory, &a), 0);
	assert_int_equal(memory_gather_idle(memory, &a), 160);
	assert_int_equal(b.magazine_bytes, 0);
	q = mem_alloc(&b, 160);
	assert_int_equal(memory_gather_idle(memory, &a), 0);
	put_back(&b, q, 160);
	put_back(&a, p, 160);
	mem_cache_release(&c);
}

/* A thread that ends leaves nothing in its magazines, and is not looked at any more. */
static void released_caches_keep_nothing(void **state)
{
	void *p = mem_alloc(&b, 160), *q = mem_alloc(&a, 160);

	(void)state;
	put_back(&b, p, 160);
	assert_true(b.magazine_bytes > 0);
	mem_cache_release(&b);
	assert_int_equal(magazines_count(memory, mem_class(160)),
			 a.magazines[mem_class(160)].count);
	put_back(&a, q, 160);
	mem_cache_release(&a);
	assert_int_equal(memory->heap.free, memory_bytes(memory) / PAGE_BYTES);
	assert_null(memory->caches);
	assert_int_equal(mem_cache_init(&a, memory) || mem_cache_init(&b, memory), 0);
}

/* Where only a few pages are left, slabs are short, down to SLAB_PAGES_MIN. */
static void short_slabs(void **state)
{
	uint64_t pages = memory_bytes(memory) / PAGE_BYTES;
	void *large = mem_alloc(&a, (pages - 23) * PAGE_BYTES), *found;

	(void)state;
	assert_non_null(large);
	assert_int_equal(fill(&a, 32768), 2);
	/* Seven pages are left: one slab of blocks of 48 bytes takes all of them. */
	assert_int_equal(fill(&a, 48), 7 * PAGE_BYTES / 48);
	check_stats((pages - 23) * PAGE_BYTES + 2 * 32768 + 7 * PAGE_BYTES / 48 * 48);
	/* Samples are of blocks that it has. */
	for (unsigned int i = 0; i < 1000; i++)
		if (mem_sample(memory, mem_class(48), &seed, &found, 1))
			assert_true(page_of(memory, found) - page_of(memory, blocks[0]) < 7);
}

/* Blocks come from the fullest slab, so that others get empty; a new one only if there is none. */
static void fullest_slab_first(void **state)
{
	const struct size_class *size_class = &memory->classes[mem_class(2000)];
	unsigned int n = size_class->blocks, i;
	void *p;

	(void)state;
	for (i = 0; i < 3 * n; i++)
		blocks[i] = mem_alloc(&a, 2000);
	assert_int_equal(size_class->slabs, 3);
	/* One block of the second slab is free, and most of the others. */
	for (i = 0; i < 3 * n; i++)
		if (i % n && (i / n != 1 || i % n == 1))
			put_back(&a, blocks[i], 2000);
	memory_gather(memory);
	assert_int_equal(size_class->available, 2 * (n - 1) + 1);
	p = mem_alloc(&a, 2000);
	assert_ptr_equal(p, blocks[n + 1]);
	/* The magazine has some of another slab, and no slab more was created. */
	assert_int_equal(size_class->slabs, 3);
	while (size_class->available)
		assert_non_null(mem_alloc(&a, 2000));
	assert_int_equal(size_class->slabs, 3);
}

/* A gap of any length from the shortest slab's on is used up. */
static void slabs_of_any_length(void **state)
{
	uint64_t pages = memory_bytes(memory) / PAGE_BYTES, n;

	(void)state;
	for (unsigned int gap = SLAB_PAGES_MIN; gap <= 20; gap++) {
		size_t bytes = (pages - gap) * PAGE_BYTES;
		void *large = mem_alloc(&a, bytes);

		assert_non_null(large);
		n = fill(&a, 48);
		/* After a whole slab three pages may be left. */
		if (gap > 16 && gap < 20)
			assert_int_equal(n, 16 * PAGE_BYTES / 48);
		else if (gap == 20)
			assert_int_equal(n, 16 * PAGE_BYTES / 48 + 4 * PAGE_BYTES / 48);
		else
			assert_int_equal(n, gap * PAGE_BYTES / 48);
		check_stats(bytes + n * 48);
		while (n)
			put_back(&a, blocks[--n], 48);
		put_back(&a, large, bytes);
		check_empty();
	}
}

/* Three pages make no slab, nor do four for blocks of which more than an eighth would be wasted. */
static void no_shorter_slabs(void **state)
{
	uint64_t pages = memory_bytes(memory) / PAGE_BYTES;
	void *large = mem_alloc(&a, (pages - 7) * PAGE_BYTES), *more;

	(void)state;
	assert_non_null(large);
	assert_int_equal(fill(&a, 10912), 0);
	more = mem_alloc(&a, 4 * PAGE_BYTES + 1);
	assert_null(more);
	assert_int_equal(fill(&a, 4096), 7);
	mem_free(&a, large, (pages - 7) * PAGE_BYTES);
	large = mem_alloc(&a, (pages - 10) * PAGE_BYTES);
	assert_non_null(large);
	assert_int_equal(fill(&a, 48), 0);
}

/* Attempts that find no pages for a slab cost nothing, however many there are. */
static void failures_cost_nothing(void **state)
{
	uint64_t pages = memory_bytes(memory) / PAGE_BYTES;
	size_t bytes = (pages - 7) * PAGE_BYTES;
	void *large = mem_alloc(&a, bytes);

	(void)state;
	assert_non_null(large);
	/* As many as the memory could have slabs. */
	for (uint64_t i = 0; i <= pages / SLAB_PAGES_MIN + 1; i++)
		assert_null(mem_alloc(&a, 10912));
	put_back(&a, large, bytes);
	assert_true(fill(&a, 10912) * 10912 > bytes * 9 / 10);
}

/*
 * 1 MiB each of three sizes: samples of all items go by bytes, those of a class find only that
 * class.
 */
static void sampling(void **state)
{
	static const size_t sizes[] = { 160, 4096, 65536 };
	unsigned int hits[4] = { 0 }, n = 0, got, of, i;
	void *found[8];

	(void)state;
	for (of = 0; of < 3; of++)
		for (i = 0; i < (1u << 20) / sizes[of]; i++) {
			blocks[n] = mem_alloc(&a, sizes[of]);
			*(uint64_t *)blocks[n++] = of + 1;
		}
	for (i = 0; i < 1000; i++)
		assert_non_null(mem_alloc_bucket(&a, i));
	/* Leave nothing free, so that each sample finds something. */
	assert_non_null(mem_alloc(&a, memory->heap.map[memory->heap.first].pages * PAGE_BYTES));
	for (i = 0; i < 60000; i++) {
		got = mem_sample_any(memory, &seed, found, 8);
		for (unsigned int k = 0; k < got; k++)
			hits[*(uint64_t *)found[k] & 3]++;
	}
	print_message("of 3 MiB in three sizes: %u %u %u samples\n", hits[1], hits[2], hits[3]);
	for (of = 1; of < 4; of++) {
		assert_true(hits[of] * 2.7 < hits[1] + hits[2] + hits[3]);
		assert_true(hits[of] * 3.3 > hits[1] + hits[2] + hits[3]);
	}
	for (of = 0; of < 2; of++) {
		got = mem_sample(memory, mem_class(sizes[of]), &seed, found, 8);
		assert_in_range(got, 5, 8);
		while (got)
			assert_int_equal(*(uint64_t *)found[--got], of + 1);
	}
	assert_int_equal(mem_sample(memory, mem_class(1000), &seed, found, 8), 0);
	got = mem_sample(memory, MEM_CLASS_LARGE, &seed, found, 8);
	assert_true(got > 0);
	for (i = 0; i < 1000; i++) {
		/* Large items only: those, and the one that is in the rest. */
		got = mem_sample(memory, MEM_CLASS_LARGE, &seed, found, 8);
		while (got--)
			assert_true(*(uint64_t *)found[got] == 3 || *(uint64_t *)found[got] == 0);
		/* No more than are asked for. */
		found[2] = found;
		assert_true(mem_sample_any(memory, &seed, found, 2) <= 2);
		assert_true(mem_sample(memory, mem_class(160), &seed, found, 2) <= 2);
		assert_ptr_equal(found[2], found);
	}
}

/* Each block of a class is as likely as any other; free ones are not found. */
static void sampling_is_even(void **state)
{
	static unsigned int hits[BYTES / 64];
	unsigned int n = 4000, i, got, least = UINT32_MAX, most = 0;
	void *found[4];

	(void)state;
	for (i = 0; i < n; i++)
		blocks[i] = mem_alloc(&a, 300);
	for (i = 0; i < n; i += 2)
		put_back(&a, blocks[i], 300);
	memory_gather(memory);
	for (i = 0; i < 100000; i++)
		for (got = mem_sample(memory, mem_class(300), &seed, found, 4); got;)
			hits[region_offset(&region, found[--got]) / 64]++;
	for (i = 0; i < n; i++) {
		unsigned int h = hits[region_offset(&region, blocks[i]) / 64];

		if (i % 2 == 0) {
			assert_int_equal(h, 0);
			continue;
		}
		least = h < least ? h : least;
		most = h > most ? h : most;
	}
	print_message("2000 blocks, 400000 samples: %u to %u each\n", least, most);
	assert_true(least > 120 && most < 290);
}

static void refused(void **state)
{
	struct memory *none = (struct memory *)1;

	(void)state;
	assert_int_equal(memory_create(&none, &region, BYTES), -EINVAL);
	assert_null(none);
	memory_destroy(NULL);
}

/* The index may take all pages but one. */
static void one_page_is_enough(void **state)
{
	uint64_t none_left = BYTES / PAGE_BYTES * PAGE_BYTES - sizeof(struct superblock);
	struct region longest = { .bytes_max = REGION_BYTES_MAX + PAGE_BYTES };
	struct memory *other;

	(void)state;
	while ((none_left + sizeof(struct superblock)) / PAGE_BYTES >
	       (BYTES - REGION_PAD) / PAGE_BYTES)
		none_left -= PAGE_BYTES;
	assert_int_equal(memory_create(&other, &region, none_left), -EINVAL);
	assert_null(other);
	assert_int_equal(memory_create(&other, &region, none_left - PAGE_BYTES), 0);
	assert_int_equal(memory_bytes(other), PAGE_BYTES);
	memory_destroy(other);
	assert_int_equal(memory_create(&other, &longest, INDEX_BYTES), -EINVAL);
	assert_null(other);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(all_of_it_again_and_again),
		TEST(random_walk),
		TEST(classes),
		TEST(waste),
		TEST(gathering),
		TEST(gathering_from_the_idle),
		TEST(released_caches_keep_nothing),
		TEST(short_slabs),
		TEST(fullest_slab_first),
		TEST(slabs_of_any_length),
		TEST(no_shorter_slabs),
		TEST(failures_cost_nothing),
		TEST(sampling),
		TEST(sampling_is_even),
		TEST(refused),
		TEST(one_page_is_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
