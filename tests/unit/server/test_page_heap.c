/* SPDX-License-Identifier: MIT */
/* Tests of the page heap, against a model that says of every page whether it is allocated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/store/slab.h"

#define FIRST 7u
#define END 3000u
#define LIVE_MAX 400u
/* Of the cases with several extents, of which the last has a pad. */
#define EXTENT 1000u

static struct page_heap heap;
static struct keep not_kept;
static struct {
	uint32_t page, pages;
} live[LIVE_MAX];
static unsigned int live_count;
static uint8_t used[END];
static uint64_t seed;

static int setup_extents(uint32_t end, uint32_t extent_pages)
{
	seed = 1;
	live_count = 0;
	for (uint32_t i = 0; i < END; i++)
		used[i] = 0;
	return page_heap_init(&heap, &not_kept, FIRST, end, END, extent_pages);
}

static int setup(void **state)
{
	(void)state;
	return setup_extents(END, END + 1);
}

static int setup_three(void **state)
{
	(void)state;
	return setup_extents(END, EXTENT);
}

static int setup_one_of_three(void **state)
{
	(void)state;
	return setup_extents(EXTENT - 1, EXTENT);
}

static int teardown(void **state)
{
	(void)state;
	page_heap_release(&heap, &not_kept);
	return 0;
}

static void span_alloc(uint32_t pages)
{
	uint32_t page = page_heap_alloc(&heap, pages, PAGE_LARGE, 0);

	if (page == PAGE_NONE)
		return;
	assert_true(page >= FIRST && page + pages <= heap.end);
	assert_int_equal(page / heap.extent_pages, (page + pages - 1) / heap.extent_pages);
	for (uint32_t i = 0; i < pages; i++) {
		assert_int_equal(used[page + i], 0);
		used[page + i] = 1;
	}
	live[live_count].page = page;
	live[live_count++].pages = pages;
}

static void span_free(unsigned int i)
{
	for (uint32_t k = 0; k < live[i].pages; k++)
		used[live[i].page + k] = 0;
	page_heap_free(&heap, live[i].page);
	live[i] = live[--live_count];
}

static uint32_t model_free(void)
{
	uint32_t n = 0;

	for (uint32_t i = FIRST; i < heap.end; i++)
		n += !used[i];
	return n;
}

/*
 * Every free page is in a run that is as long as possible in its extent, and in the bin for its
 * length.
 */
static void check_runs(void)
{
	uint32_t listed = 0;

	for (unsigned int bin = 0; bin < RUN_BINS; bin++) {
		assert_int_equal(heap.bins[bin] != PAGE_NONE, heap.bins_used >> bin & 1);
		for (uint32_t run = heap.bins[bin]; run != PAGE_NONE; run = heap.map[run].next) {
			uint32_t end = run + heap.map[run].pages;

			assert_true(end <= heap.end);
			for (uint32_t i = run; i < end; i++) {
				assert_int_equal(used[i], 0);
				/* Pages in the middle are looked at, too. */
				assert_int_equal(heap.map[i].word & PAGE_KIND, PAGE_FREE);
			}
			assert_true(run == FIRST || run % heap.extent_pages == 0 || used[run - 1]);
			assert_true(end == heap.end || end % heap.extent_pages == 0 || used[end]);
			listed += end - run;
		}
	}
	assert_int_equal(listed, model_free());
	assert_int_equal(heap.free, listed);
}

static void walk(void)
{
	for (unsigned int step = 0; step < 20000; step++) {
		if (live_count < LIVE_MAX && random_below(&seed, 100) < 55)
			span_alloc(1 + random_below(&seed, random_below(&seed, 10) ? 20 : 300));
		else if (live_count)
			span_free(random_below(&seed, live_count));
		if (step % 50 == 0)
			check_runs();
	}
	while (live_count)
		span_free(live_count - 1);
	check_runs();
}

static void random_walk(void **state)
{
	(void)state;
	walk();
	assert_int_equal(heap.bins[62 - __builtin_clzll(heap.bins_used) + 1], FIRST);
	assert_int_equal(heap.map[FIRST].pages, END - FIRST);
}

/* Spans and runs stay in one extent. */
static void extents(void **state)
{
	(void)state;
	walk();
	assert_int_equal(heap.map[FIRST].pages, EXTENT - FIRST);
	assert_int_equal(heap.map[EXTENT].pages, EXTENT);
	assert_int_equal(heap.map[2 * EXTENT].pages, END - 2 * EXTENT);
	assert_int_equal(page_heap_alloc(&heap, EXTENT + 1, PAGE_LARGE, 0), PAGE_NONE);
}

/*
 * Pages are added while the others are in use, some at a time. The pad of the extent that was the
 * last joins the free pages before it.
 */
static void grown(void **state)
{
	unsigned int steps = 1;

	(void)state;
	walk();
	for (unsigned int i = 0; i < 100; i++)
		span_alloc(3);
	while (!do_page_heap_grow(&heap, 2 * EXTENT - 1)) {
		check_runs();
		steps++;
	}
	assert_int_equal(steps, 3);
	check_runs();
	assert_int_equal(heap.end, 2 * EXTENT - 1);
	while (!do_page_heap_grow(&heap, END))
		;
	walk();
	assert_int_equal(heap.map[FIRST].pages, EXTENT - FIRST);
	assert_int_equal(heap.map[EXTENT].pages, EXTENT);
	assert_int_equal(heap.map[2 * EXTENT].pages, END - 2 * EXTENT);
}

/* Pages are reserved and opened across extents; the last are removed, and come back. */
static void shrunk(void **state)
{
	uint32_t first, count;

	(void)state;
	assert_true(do_page_heap_close(&heap, EXTENT - 10, END - EXTENT + 10, &first, &count));
	assert_int_equal(count, END - EXTENT + 10);
	assert_int_equal(heap.free, EXTENT - 10 - FIRST);
	do_page_heap_shrink(&heap, 2 * EXTENT);
	assert_int_equal(heap.reserved, EXTENT + 10);
	assert_int_equal(heap.evacuating, EXTENT + 10);
	assert_int_equal(page_heap_open(&heap, EXTENT - 10, 2 * EXTENT), 10);
	assert_int_equal(page_heap_open(&heap, EXTENT, 2 * EXTENT), EXTENT);
	check_runs();
	while (!do_page_heap_grow(&heap, END))
		;
	check_runs();
	assert_int_equal(heap.free, END - FIRST);
}

/* Pages are allocated from the end, and later from the gap at the highest address that fits. */
static void from_the_end(void **state)
{
	uint32_t a, b, c;

	(void)state;
	a = page_heap_alloc(&heap, 16, PAGE_LARGE, 0);
	b = page_heap_alloc(&heap, 16, PAGE_LARGE, 0);
	c = page_heap_alloc(&heap, 16, PAGE_LARGE, 0);
	assert_int_equal(a, END - 16);
	assert_int_equal(b, END - 32);
	assert_int_equal(c, END - 48);
	page_heap_free(&heap, a);
	page_heap_free(&heap, c);
	assert_int_equal(page_heap_alloc(&heap, 4, PAGE_LARGE, 0), END - 4);
	assert_int_equal(page_heap_alloc(&heap, 16, PAGE_LARGE, 0), c);
}

/* The highest of the gaps that fit is taken, in whatever order they came to be. */
static void the_highest_gap(void **state)
{
	uint32_t spans[5];

	(void)state;
	for (unsigned int turn = 0; turn < 2; turn++) {
		for (unsigned int i = 0; i < 5; i++)
			spans[i] = page_heap_alloc(&heap, 16, PAGE_LARGE, 0);
		page_heap_free(&heap, spans[turn ? 1 : 3]);
		page_heap_free(&heap, spans[turn ? 3 : 1]);
		assert_int_equal(page_heap_alloc(&heap, 16, PAGE_LARGE, 0), spans[1]);
		assert_int_equal(page_heap_alloc(&heap, 16, PAGE_LARGE, 0), spans[3]);
		for (unsigned int i = 0; i < 5; i++)
			page_heap_free(&heap, spans[i]);
	}
}

static void no_more_than_there_is(void **state)
{
	(void)state;
	assert_int_equal(page_heap_alloc(&heap, END - FIRST + 1, PAGE_LARGE, 0), PAGE_NONE);
	assert_int_equal(page_heap_alloc(&heap, UINT32_MAX, PAGE_LARGE, 0), PAGE_NONE);
	assert_int_equal(page_heap_alloc(&heap, END - FIRST, PAGE_LARGE, 0), FIRST);
	assert_false(page_heap_may_have(&heap, 1));
	assert_int_equal(page_heap_alloc(&heap, 1, PAGE_LARGE, 0), PAGE_NONE);
	page_heap_free(&heap, FIRST);
	assert_true(page_heap_may_have(&heap, END - FIRST));
}

/*
 * Pages that are freed are joined with their free neighbours, whichever was freed first: at both
 * ends of the memory, and of runs of one page.
 */
static void neighbours_are_joined(void **state)
{
	static const unsigned int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
						  { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

	(void)state;
	for (uint32_t pages = 1; pages <= 3; pages++)
		for (unsigned int end = 0; end < 2; end++)
			for (unsigned int i = 0; i < 6; i++) {
				uint32_t spans[3], rest = END - FIRST - 3 * pages,
						   other = PAGE_NONE;

				if (end)
					other = page_heap_alloc(&heap, rest, PAGE_LARGE, 0);
				for (unsigned int j = 0; j < 3; j++)
					spans[j] = page_heap_alloc(&heap, pages, PAGE_LARGE, 0);
				if (!end)
					other = page_heap_alloc(&heap, rest, PAGE_LARGE, 0);
				assert_int_equal(other, end ? END - rest : FIRST);
				assert_int_equal(heap.free, 0);
				for (unsigned int j = 0; j < 3; j++)
					page_heap_free(&heap, spans[orders[i][j]]);
				assert_int_equal(heap.map[spans[2]].pages, 3 * pages);
				assert_int_equal(heap.free, 3 * pages);
				page_heap_free(&heap, other);
				check_runs();
			}
}

/* Pages are reserved from the middle of a free run, and of a span that is freed later. */
static void reserved(void **state)
{
	uint32_t page, first, count;

	(void)state;
	page = page_heap_alloc(&heap, 10, PAGE_LARGE, 0);
	assert_false(do_page_heap_close(&heap, END - 1, 2, &first, &count));
	assert_false(do_page_heap_close(&heap, END, 1, &first, &count));
	assert_true(do_page_heap_close(&heap, page - 20, 25, &first, &count));
	assert_int_equal(first, page - 20);
	assert_int_equal(count, 30);
	assert_int_equal(heap.reserved, 20);
	assert_int_equal(heap.free, END - FIRST - 30);
	assert_false(do_page_heap_close(&heap, page - 1, 1, &first, &count));
	assert_false(do_page_heap_close(&heap, page + 9, 1, &first, &count));
	assert_false(do_page_heap_close(&heap, END - 1, 2, &first, &count));
	assert_false(do_page_heap_close(&heap, FIRST - 1, 2, &first, &count));
	assert_false(page_heap_all_reserved(&heap, page - 20, 25));
	page_heap_free(&heap, page);
	assert_true(page_heap_all_reserved(&heap, page - 20, 30));
	assert_int_equal(heap.free, END - FIRST - 30);
	/* The index takes the first pages only. */
	assert_false(page_heap_alloc_index(&heap, page - 20, 30));
	assert_int_equal(heap.first, FIRST);
	assert_int_equal(heap.reserved, 30);
	assert_int_equal(page_heap_open(&heap, page - 20, page + 10), 30);
	assert_int_equal(heap.free, END - FIRST);
	assert_int_equal(heap.reserved + heap.evacuating + heap.large, 0);
	check_runs();
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(random_walk),
		TEST(from_the_end),
		TEST(the_highest_gap),
		TEST(no_more_than_there_is),
		TEST(neighbours_are_joined),
		TEST(reserved),
		cmocka_unit_test_setup_teardown(extents, setup_three, teardown),
		cmocka_unit_test_setup_teardown(grown, setup_one_of_three, teardown),
		cmocka_unit_test_setup_teardown(shrunk, setup_three, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
