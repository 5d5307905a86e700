/* SPDX-License-Identifier: MIT */
/*
 * Tests of evacuations: which spans they cover, that nothing is allocated from these, and that any
 * mix of sizes can be turned into any other by moving the blocks in them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "server/store/evacuate.h"
#include "server/store/slab.h"

#define BYTES ((uint64_t)16 << 20)
#define INDEX_BYTES PAGE_BYTES
#define UNITS (BYTES / ITEM_ALIGN)

static struct region region;
static struct memory *memory;
static struct mem_cache a, b;
static uint64_t seed;

/* The model: for each address the bytes of the block there, or a bucket and its home. */
static struct {
	uint32_t bytes;
	uint32_t home;
} live[UNITS];
static unsigned int live_count;

static int setup(void **state)
{
	(void)state;
	seed = 7;
	live_count = 0;
	memset(live, 0, sizeof(live));
	region.bytes = region.bytes_max = region.extent_bytes = BYTES;
	region.base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory_create(&memory, &region, INDEX_BYTES) || mem_cache_init(&a, memory) ||
	       mem_cache_init(&b, memory);
}

static int teardown(void **state)
{
	(void)state;
	mem_cache_release(&a);
	mem_cache_release(&b);
	memory_destroy(memory);
	munmap(region.base, BYTES);
	return 0;
}

static uint64_t unit(const void *p)
{
	return region_offset(&region, p) / ITEM_ALIGN;
}

/* Writes an item that says at both of its ends what it is. */
static void *put(struct mem_cache *cache, uint32_t bytes)
{
	void *p = mem_alloc(cache, bytes);

	if (!p)
		return NULL;
	assert_int_equal(*(uint64_t *)p, 0);
	assert_int_equal(live[unit(p)].bytes, 0);
	live[unit(p)].bytes = bytes;
	live_count++;
	memset(p, (int)bytes | 1, bytes);
	return p;
}

static void *put_bucket(struct mem_cache *cache, uint32_t home)
{
	void *p = mem_alloc_bucket(cache, home);

	if (!p)
		return NULL;
	live[unit(p)].bytes = BUCKET_BYTES;
	live[unit(p)].home = home;
	live_count++;
	memset(p, 1, BUCKET_BYTES);
	return p;
}

static void drop(struct mem_cache *cache, void *p, enum mem_kind kind)
{
	uint32_t bytes = live[unit(p)].bytes;

	assert_true(bytes > 0);
	assert_int_equal(((uint8_t *)p)[bytes - 1], (uint8_t)(kind == MEM_BUCKET ? 1 : bytes | 1));
	store_relaxed64(p, 0);
	live[unit(p)].bytes = 0;
	live_count--;
	if (kind == MEM_BUCKET)
		mem_free_bucket(cache, p);
	else
		mem_free(cache, p, bytes);
}

/* Moves a block of the evacuated spans elsewhere. */
static bool move(struct mem_cache *cache, const struct mem_evacuation *e,
		 const struct mem_block *block)
{
	uint32_t bytes = live[unit(block->p)].bytes, home = live[unit(block->p)].home;
	void *to;

	assert_true(bytes > 0);
	assert_true(bytes <= block->bytes);
	if (block->kind == MEM_BUCKET) {
		assert_int_equal(block->home, home);
		to = put_bucket(cache, home);
	} else {
		to = put(cache, bytes);
	}
	if (!to)
		return false;
	assert_false(page_of(memory, to) - e->page < e->pages);
	drop(cache, block->p, block->kind);
	return true;
}

/* Empties the spans by moving what can be moved; frees the rest if @drop_rest. */
static unsigned int empty(struct mem_evacuation *e, bool drop_rest)
{
	struct mem_block block;
	unsigned int n = 0;

	while (mem_evacuation_next(e, &block)) {
		n++;
		if (!move(&a, e, &block) && drop_rest)
			drop(&b, block.p, block.kind);
	}
	return n;
}

static struct memory_stats stats(void)
{
	struct memory_stats s;

	memory_stats(memory, &s);
	assert_int_equal(sizeof(struct superblock) + s.index + s.free + s.item_slabs +
				 s.bucket_slabs + s.large + REGION_PAD,
			 BYTES);
	return s;
}

static void all_freed(void)
{
	for (uint64_t i = 0; i < UNITS; i++)
		if (live[i].bytes)
			drop(&a, region.base + i * ITEM_ALIGN,
			     live[i].home ? MEM_BUCKET : MEM_ITEM);
	memory_gather(memory);
	assert_int_equal(stats().free, memory_bytes(memory));
	assert_int_equal(stats().evacuating, 0);
	assert_int_equal(memory->heap.map[memory->heap.first].pages,
			 memory_bytes(memory) / PAGE_BYTES);
}

static void nothing_done(void **state)
{
	struct memory_stats before, after;
	struct mem_evacuation e, other;
	struct mem_block block;
	void *p, *large;
	unsigned int n = 0;

	(void)state;
	for (unsigned int i = 0; i < 600; i++)
		assert_non_null(put(&a, 200));
	p = put(&a, 200);
	large = put(&a, 100000);
	assert_true(put_bucket(&a, 5) != NULL);
	memory_gather(memory);
	before = stats();

	assert_true(mem_evacuation_begin(&e, memory, p));
	assert_int_equal(e.pages, 16);
	assert_false(mem_evacuation_begin(&other, memory, p));
	assert_int_equal(stats().evacuating, 16 * PAGE_BYTES);
	while (mem_evacuation_next(&e, &block)) {
		assert_int_equal(live[unit(block.p)].bytes, 200);
		assert_int_equal(block.bytes, 200);
		assert_int_equal(block.kind, MEM_ITEM);
		n++;
	}
	assert_int_equal(n, 601 - 65536 / 200);
	assert_false(mem_evacuation_end(&e));

	/* Any address inside of a large item */
	assert_true(mem_evacuation_begin(&e, memory, (uint8_t *)large + 50000));
	assert_true(mem_evacuation_next(&e, &block));
	assert_ptr_equal(block.p, large);
	assert_int_equal(block.bytes, 25 * PAGE_BYTES);
	assert_false(mem_evacuation_next(&e, &block));
	assert_false(mem_evacuation_end(&e));

	assert_false(mem_evacuation_begin(&e, memory, region.base));
	assert_false(mem_evacuation_begin(&e, memory, region.base + INDEX_BYTES));
	assert_false(mem_evacuation_begin(&e, memory, region.base + 2 * PAGE_BYTES));
	assert_false(mem_evacuation_begin(&e, memory, region.base + BYTES - 1));
	after = stats();
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(memory->evacuations, 0);
	all_freed();
}

/* Nothing is allocated from these spans: blocks free before, freed since, or in any magazine. */
static void closed(void **state)
{
	struct mem_evacuation e;
	void *p[400], *q;
	unsigned int i, n = 65536 / 200;

	(void)state;
	for (i = 0; i < n; i++)
		p[i] = put(&a, 200);
	assert_int_equal(stats().item_slabs_free, 0);
	for (i = 0; i < 8; i++)
		drop(i % 2 ? &a : &b, p[i], MEM_ITEM);
	assert_int_equal(a.magazines[mem_class(200)].count, 4);
	assert_int_equal(b.magazines[mem_class(200)].count, 4);
	assert_true(mem_evacuation_begin(&e, memory, p[100]));
	assert_int_equal(a.magazine_bytes + b.magazine_bytes, 0);
	for (i = 8; i < 16; i++)
		drop(i % 2 ? &a : &b, p[i], MEM_ITEM);
	assert_int_equal(a.magazine_bytes + b.magazine_bytes, 0);
	for (i = 0; i < 500; i++) {
		q = put(i % 2 ? &a : &b, 200);
		assert_false(page_of(memory, q) - e.page < e.pages);
	}
	assert_int_equal(empty(&e, false), n - 16);
	assert_int_equal(stats().evacuating, 65536);
	assert_true(mem_evacuation_end(&e));
	assert_int_equal(stats().evacuating, 0);
	all_freed();
}

static void large_freed_in_its_evacuation(void **state)
{
	uint64_t pages = memory_bytes(memory) / PAGE_BYTES;
	struct mem_evacuation e;
	void *p = put(&a, 10 * PAGE_BYTES);

	(void)state;
	assert_non_null(put(&a, (uint32_t)(pages - 10) * PAGE_BYTES));
	assert_true(mem_evacuation_begin(&e, memory, p));
	drop(&b, p, MEM_ITEM);
	assert_null(mem_alloc(&a, 10 * PAGE_BYTES));
	assert_null(mem_alloc(&a, 100));
	assert_true(mem_evacuation_end(&e));
	assert_ptr_equal(put(&a, 10 * PAGE_BYTES), p);
}

/*
 * Fills the memory with one size, frees all but each @keep-th, and moves until other sizes have
 * room.
 */
static void thin_out(uint32_t bytes, unsigned int keep)
{
	uint32_t n = 0;

	while (put(&a, bytes))
		;
	for (uint64_t i = 0; i < UNITS; i++)
		if (live[i].bytes == bytes && random_below(&seed, keep))
			drop(n++ % 2 ? &a : &b, region.base + i * ITEM_ALIGN, MEM_ITEM);
}

static unsigned int move_until_dense(void)
{
	struct mem_evacuation e;
	unsigned int evacuations = 0;

	while (mem_evacuation_begin_sparse(&e, memory, NULL)) {
		empty(&e, false);
		if (!mem_evacuation_end(&e)) {
			/* The free blocks of the class are in the other cache's magazine. */
			memory_gather(memory);
		}
		assert_true(++evacuations < 10000);
	}
	return evacuations;
}

static void shift_of_sizes(void **state)
{
	static const uint32_t sizes[] = { 148, 4144, 148, 30000, 700 };
	unsigned int i, n, evacuations, kept;
	struct memory_stats s;

	(void)state;
	for (i = 0; i + 1 < sizeof(sizes) / sizeof(sizes[0]); i++) {
		thin_out(sizes[i], 4);
		kept = live_count;
		evacuations = move_until_dense();
		assert_int_equal(live_count, kept);
		for (n = 0; put(&a, sizes[i + 1]); n++)
			;
		s = stats();
		print_message("%u -> %u bytes: %u kept, %u evacuations, %u new; free: %llu pages, "
			      "%llu in slabs\n",
			      sizes[i], sizes[i + 1], kept, evacuations, n,
			      (unsigned long long)s.free / PAGE_BYTES,
			      (unsigned long long)s.item_slabs_free);
		/* Three quarters of the memory now have the other sizes. */
		assert_true((uint64_t)n * sizes[i + 1] > BYTES * 66 / 100);
		assert_true(s.free < SLAB_BYTES_MAX + SLAB_BYTES_MIN);
		all_freed();
	}
}

static void sparse_choice(void **state)
{
	void *p[1200];
	struct mem_evacuation e;
	unsigned int i, n = 65536 / 200;

	(void)state;
	assert_false(mem_evacuation_begin_sparse(&e, memory, NULL));
	for (i = 0; i < 3 * n; i++)
		p[i] = put(&a, 200);
	assert_false(mem_evacuation_begin_sparse(&e, memory, NULL));
	/* 100 blocks of the second slab are left, and 150 of the third: together they fit one. */
	for (i = n + 100; i < 2 * n; i++)
		drop(&a, p[i], MEM_ITEM);
	memory_gather(memory);
	assert_false(mem_evacuation_begin_sparse(&e, memory, NULL));
	for (i = 2 * n + 150; i < 3 * n; i++)
		drop(&b, p[i], MEM_ITEM);
	assert_true(b.magazine_bytes > 0);
	assert_true(mem_evacuation_begin_sparse(&e, memory, NULL));
	assert_true(page_of(memory, p[n]) - e.page < e.pages);
	assert_int_equal(empty(&e, false), 100);
	assert_true(mem_evacuation_end(&e));
	memory_gather(memory);
	assert_false(mem_evacuation_begin_sparse(&e, memory, NULL));
	all_freed();
}

/*
 * Half of one slab of each of three sizes is in use, and of another one these shares: the smallest
 * of all sizes comes first, and those that are skipped not at all.
 */
static void sparse_of_all_classes(void **state)
{
	static const uint32_t sizes[] = { 100, 1000, 3000 };
	static const unsigned int eighths[] = { 2, 1, 3 };
	void *p[2 * SLAB_BLOCKS_MAX];
	struct mem_evacuation e;

	(void)state;
	for (unsigned int turn = 0; turn < 3; turn++) {
		struct mem_skip skip = { .count = 0 };
		uint32_t pages[4];

		for (unsigned int i = 0; i < 3; i++) {
			unsigned int n = SLAB_BYTES_MIN / (unsigned int)mem_class_bytes(sizes[i]);
			unsigned int eighth = eighths[(i + turn) % 3], at;

			for (at = 0; at < 2 * n; at++)
				p[at] = put(&a, sizes[i]);
			pages[eighth] = page_of(memory, p[n]);
			for (at = n / 2; at < 2 * n; at++)
				if (at < n || at >= n + n * eighth / 8)
					drop(&a, p[at], MEM_ITEM);
		}
		memory_gather(memory);
		for (unsigned int eighth = 1; eighth <= 3; eighth++) {
			assert_true(mem_evacuation_begin_sparse(&e, memory, &skip));
			assert_int_equal(e.page, pages[eighth]);
			assert_false(mem_evacuation_end(&e));
			skip.pages[skip.count++] = e.page;
		}
		all_freed();
	}
}

/* Evacuations end in any order: up to a number all have when the oldest of them has. */
static void ended_up_to_a_number(void **state)
{
	struct mem_evacuation e[3];

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(mem_evacuation_begin(&e[i], memory, put(&a, 100000)));
		assert_int_equal(mem_evacuations(memory), i + 1);
		assert_int_equal(mem_evacuations_begun(memory), i + 1);
		assert_false(mem_evacuations_ended(memory, 1));
	}
	mem_evacuation_end(&e[1]);
	assert_false(mem_evacuations_ended(memory, 1));
	mem_evacuation_end(&e[0]);
	assert_true(mem_evacuations_ended(memory, 2));
	assert_false(mem_evacuations_ended(memory, 3));
	mem_evacuation_end(&e[2]);
	assert_true(mem_evacuations_ended(memory, 3));
	assert_int_equal(mem_evacuations(memory), 0);
	all_freed();
}

/* A slab that was closed in vain is as before: its blocks have room in no other one. */
static void closed_in_vain(void **state)
{
	struct mem_evacuation e;
	void *p = put(&a, 200);

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		assert_false(mem_evacuation_begin_sparse(&e, memory, NULL));
		assert_true(mem_evacuation_begin(&e, memory, p));
		assert_false(mem_evacuation_end(&e));
		/* The slab's free blocks are used again. */
		assert_int_equal(page_of(memory, put(&a, 200)), page_of(memory, p));
		assert_int_equal(stats().item_slabs, SLAB_BYTES_MIN);
	}
	all_freed();
}

/*
 * As many free blocks as a slab has are enough to empty one, those in magazines included; one less
 * is not.
 */
static void just_enough_free_blocks(void **state)
{
	unsigned int n = SLAB_BYTES_MIN / (unsigned int)mem_class_bytes(200);
	void *p[2 * SLAB_BLOCKS_MAX];
	struct mem_evacuation e;

	(void)state;
	for (unsigned int i = 0; i < 2 * n; i++)
		p[i] = put(&a, 200);
	for (unsigned int i = 0; i < 2 * (n - 1); i += 2)
		drop(&b, p[i], MEM_ITEM);
	assert_false(mem_evacuation_begin_sparse(&e, memory, NULL));
	drop(&b, p[2 * (n - 1)], MEM_ITEM);
	assert_true(b.magazine_bytes > 0);
	assert_true(mem_evacuation_begin_sparse(&e, memory, NULL));
	assert_int_equal(b.magazine_bytes, 0);
	empty(&e, false);
	assert_true(mem_evacuation_end(&e));
	all_freed();
}

/* Of several nearly empty slabs the one with the fewest blocks is emptied. */
static void the_sparsest_of_many(void **state)
{
	static const unsigned int used[][3] = { { 5, 20, 12 }, { 20, 12, 5 }, { 12, 5, 20 } };
	unsigned int n = SLAB_BYTES_MIN / (unsigned int)mem_class_bytes(200);
	void *p[3 * SLAB_BLOCKS_MAX];
	struct mem_evacuation e;

	(void)state;
	for (unsigned int turn = 0; turn < 3; turn++) {
		uint32_t page = 0;

		for (unsigned int i = 0; i < 3 * n; i++)
			p[i] = put(&a, 200);
		for (unsigned int i = 0; i < 3; i++) {
			if (used[turn][i] == 5)
				page = page_of(memory, p[i * n]);
			for (unsigned int k = used[turn][i]; k < n; k++)
				drop(&a, p[i * n + k], MEM_ITEM);
		}
		memory_gather(memory);
		assert_true(mem_evacuation_begin_sparse(&e, memory, NULL));
		assert_int_equal(e.page, page);
		mem_evacuation_end(&e);
		all_freed();
	}
}

/* A place that begins inside of a span is closed in steps, and no span of it is left out. */
static void all_of_a_place_is_closed(void **state)
{
	struct mem_place place = { .pages = 300 };
	struct mem_evacuation e;
	enum mem_close close;
	unsigned int steps = 0;
	struct span span;

	(void)state;
	for (unsigned int i = 0; i < 40; i++)
		assert_non_null(put(&a, 9 * PAGE_BYTES));
	/* The best page lies before those. */
	place.best_page = page_of(memory, put(&a, 20 * PAGE_BYTES)) + 11;
	mem_evacuation_begin_place(&e, memory, &place);
	do
		close = mem_evacuation_close(&e);
	while (++steps && close == MEM_CLOSE_AGAIN);
	assert_int_equal(close, MEM_CLOSED);
	assert_true(steps > 1);
	assert_true(e.page < place.best_page);
	assert_true(e.page + e.pages >= place.best_page + place.pages);
	for (uint32_t page = place.best_page; page < place.best_page + place.pages;
	     page = span.page + span.pages) {
		span = span_at(&memory->heap, page);
		assert_true(span.evacuating);
	}
	assert_int_equal(stats().evacuating, e.pages * PAGE_BYTES);
	while (mem_evacuation_open(&e))
		;
	assert_int_equal(stats().evacuating, 0);
	all_freed();
}

static void large(void **state)
{
	uint32_t bytes = (1 << 20) + 5;
	struct mem_evacuation e;
	void *p;

	(void)state;
	while (put(&a, 148))
		;
	assert_null(mem_alloc(&a, bytes));
	assert_false(mem_evacuation_begin_large(&e, memory, BYTES, &seed, 8));
	assert_true(mem_evacuation_begin_large(&e, memory, bytes, &seed, 8));
	assert_int_equal(e.target_pages, 257);
	assert_null(mem_evacuation_end_large(&e, &a, bytes));

	assert_true(mem_evacuation_begin_large(&e, memory, bytes, &seed, 8));
	assert_true(empty(&e, true) > 257 * 20);
	p = mem_evacuation_end_large(&e, &a, bytes);
	assert_non_null(p);
	assert_int_equal(*(uint64_t *)p, 0);
	assert_int_equal(page_of(memory, p), e.target);
	assert_int_equal(stats().large, 257 * PAGE_BYTES);
	assert_int_equal(stats().evacuating, 0);
	live[unit(p)].bytes = bytes;
	live_count++;
	memset(p, (int)bytes | 1, bytes);
	all_freed();
}

/* Of many places the one with the fewest bytes in use: a quarter of the memory is nearly empty. */
static void large_chooses(void **state)
{
	struct mem_evacuation e;
	struct mem_block block;
	uint64_t in_use = 0;

	(void)state;
	while (put(&a, 1000))
		;
	for (uint64_t i = UNITS / 2; i < UNITS * 3 / 4; i++)
		if (live[i].bytes && i % 50)
			drop(&a, region.base + i * ITEM_ALIGN, MEM_ITEM);
	assert_true(mem_evacuation_begin_large(&e, memory, 1 << 20, &seed, 64));
	while (mem_evacuation_next(&e, &block))
		in_use += block.bytes;
	assert_true(in_use < (1 << 20) / 2);
	mem_evacuation_end(&e);
	all_freed();
}

/* A place in a large item costs as much as all of that: one with a few small ones is better. */
static void large_avoids_large(void **state)
{
	uint32_t half = (uint32_t)(BYTES / 2);
	struct mem_evacuation e;
	void *p = put(&a, half);

	(void)state;
	while (put(&a, 1000))
		;
	for (uint64_t i = 0; i < UNITS; i++)
		if (live[i].bytes == 1000 && i % 50)
			drop(&a, region.base + i * ITEM_ALIGN, MEM_ITEM);
	assert_true(mem_evacuation_begin_large(&e, memory, 1 << 20, &seed, 64));
	assert_true(e.page + e.pages <= page_of(memory, p) ||
		    e.page >= page_of(memory, p) + half / PAGE_BYTES);
	mem_evacuation_end(&e);
	all_freed();
}

/* The cost of a place is that of all of it, in however many steps it is looked at. */
static void large_places_cost_all(void **state)
{
	struct mem_place place;
	unsigned int steps = 1;

	(void)state;
	while (put(&a, 1000))
		;
	mem_place_begin(&place, 1500 * PAGE_BYTES, 1, NULL, NULL);
	while (mem_place_step(&place, memory, &seed))
		steps++;
	assert_true(steps > 1);
	assert_true(place.best > 1400 * PAGE_BYTES);
	assert_true(place.best <= 1532 * PAGE_BYTES);
	all_freed();
}

/* A place that another evacuation has is not chosen, though what is in it would cost nothing. */
static void large_avoids_what_others_have(void **state)
{
	const struct mem_place theirs = { .pages = 300, .best_page = memory->heap.end - 300 };
	struct mem_evacuation e, other;

	(void)state;
	for (unsigned int few = 0; few < 2; few++) {
		enum mem_close close;

		while (put(&a, 1000))
			;
		for (uint64_t i = theirs.best_page * (PAGE_BYTES / ITEM_ALIGN); i < UNITS; i++)
			if (live[i].bytes && (!few || i % 50))
				drop(&a, region.base + i * ITEM_ALIGN, MEM_ITEM);
		memory_gather(memory);
		mem_evacuation_begin_place(&other, memory, &theirs);
		do
			close = mem_evacuation_close(&other);
		while (close == MEM_CLOSE_AGAIN);
		assert_int_equal(close, MEM_CLOSED);
		assert_true(mem_evacuation_begin_large(&e, memory, 200 * PAGE_BYTES, &seed, 64));
		assert_true(e.page + e.pages <= other.page);
		mem_evacuation_end(&e);
		mem_evacuation_end(&other);
		all_freed();
	}
}

/* A slab of buckets that is created in the place before all of it is closed stays there. */
static void buckets_come_meanwhile(void **state)
{
	uint64_t bytes = memory_bytes(memory);
	struct mem_evacuation e;
	struct mem_place place;
	enum mem_close close;

	(void)state;
	mem_place_begin(&place, bytes, 1, NULL, NULL);
	while (mem_place_step(&place, memory, &seed))
		;
	assert_int_equal(place.best, 0);
	mem_evacuation_begin_place(&e, memory, &place);
	assert_int_equal(mem_evacuation_close(&e), MEM_CLOSE_AGAIN);
	assert_non_null(put_bucket(&a, 3));
	do
		close = mem_evacuation_close(&e);
	while (close == MEM_CLOSE_AGAIN);
	assert_int_equal(close, MEM_CLOSE_FAILED);
	while (mem_evacuation_open(&e))
		;
	assert_int_equal(mem_evacuations(memory), 0);
	all_freed();
}

static void large_avoids_buckets(void **state)
{
	uint64_t pages = memory_bytes(memory) / PAGE_BYTES;
	struct mem_evacuation e, inner;
	uint8_t *p;

	(void)state;
	while (put_bucket(&a, 3))
		;
	assert_false(mem_evacuation_begin_large(&e, memory, 40000, &seed, 200));
	all_freed();
	/* All of the memory at once; then there is nothing else to evacuate. */
	p = put(&a, (uint32_t)pages * PAGE_BYTES);
	assert_true(mem_evacuation_begin_large(&e, memory, pages * PAGE_BYTES, &seed, 1));
	assert_false(mem_evacuation_begin_large(&inner, memory, 40000, &seed, 200));
	assert_false(mem_evacuation_begin_index(&inner, memory, PAGE_BYTES));
	drop(&a, p, MEM_ITEM);
	assert_ptr_equal(mem_evacuation_end_large(&e, &b, pages * PAGE_BYTES), p);
	mem_free(&a, p, pages * PAGE_BYTES);
	all_freed();
}

static void index_grows(void **state)
{
	uint64_t before = memory_bytes(memory), step = 16 * PAGE_BYTES;
	struct mem_evacuation e, other;
	unsigned int i, n = 0;
	void *p;

	(void)state;
	/* Into free pages */
	assert_true(mem_evacuation_begin_index(&e, memory, step));
	assert_false(mem_evacuation_begin_index(&other, memory, step));
	assert_true(mem_evacuation_end_index(&e));
	assert_int_equal(memory_bytes(memory), before - step);
	assert_int_equal(stats().index, INDEX_BYTES + step);

	/* Into pages full of items and buckets, a third of which are freed after that */
	for (i = 0; (p = i % 3 ? put(&a, i % 3 == 1 ? 128 : 20000) : put_bucket(&a, i + 1)); i++)
		;
	while (put_bucket(&a, ++i))
		;
	while (put(&b, 128))
		;
	assert_true(mem_evacuation_begin_index(&e, memory, step));
	assert_false(mem_evacuation_end_index(&e));
	assert_int_equal(memory_bytes(memory), before - step);
	for (i = 0; i < UNITS; i++)
		if (live[i].bytes && random_below(&seed, 3) == 0)
			drop(&a, region.base + (uint64_t)i * ITEM_ALIGN,
			     live[i].home ? MEM_BUCKET : MEM_ITEM);
	memory_gather(memory);
	while (memory_bytes(memory) > before * 3 / 4) {
		assert_true(mem_evacuation_begin_index(&e, memory, step));
		n += empty(&e, true);
		assert_true(mem_evacuation_end_index(&e));
		stats();
	}
	print_message("%u blocks were in the way of the index\n", n);
	assert_true(n > 100);
	for (i = 0; i < UNITS; i++)
		assert_true(!live[i].bytes ||
			    (uint64_t)i * ITEM_ALIGN >= PAGE_BYTES + stats().index);
	assert_false(mem_evacuation_begin_index(&e, memory, memory_bytes(memory)));
	assert_false(mem_evacuation_begin_index(&e, memory, BYTES * 2));
	all_freed();
}

static void homes(void **state)
{
	struct mem_evacuation e;
	struct mem_block block;
	unsigned int n = 0;
	void *p[40];

	(void)state;
	for (uint32_t i = 0; i < 40; i++)
		p[i] = put_bucket(&a, 1000 + i);
	for (uint32_t i = 0; i < 40; i += 2) {
		live[unit(p[i])].home = UINT32_MAX - i;
		mem_bucket_set_home(memory, p[i], UINT32_MAX - i);
	}
	assert_true(mem_evacuation_begin(&e, memory, p[3]));
	while (mem_evacuation_next(&e, &block)) {
		assert_int_equal(block.kind, MEM_BUCKET);
		assert_int_equal(block.bytes, BUCKET_BYTES);
		assert_int_equal(block.home, live[unit(block.p)].home);
		n++;
	}
	assert_int_equal(n, 40);
	assert_int_equal(empty(&e, false), 40); /* it starts over */
	assert_true(mem_evacuation_end(&e));
	all_freed();
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(nothing_done),
		TEST(closed),
		TEST(large_freed_in_its_evacuation),
		TEST(shift_of_sizes),
		TEST(sparse_choice),
		TEST(closed_in_vain),
		TEST(large),
		TEST(large_chooses),
		TEST(large_avoids_buckets),
		TEST(index_grows),
		TEST(homes),
		TEST(sparse_of_all_classes),
		TEST(ended_up_to_a_number),
		TEST(the_sparsest_of_many),
		TEST(just_enough_free_blocks),
		TEST(large_places_cost_all),
		TEST(large_avoids_what_others_have),
		TEST(all_of_a_place_is_closed),
		TEST(large_avoids_large),
		TEST(buckets_come_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
