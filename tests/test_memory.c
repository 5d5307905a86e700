/* SPDX-License-Identifier: MIT */
/*
 * Item memory: that nearly all of the area can be used, in small pieces, and after them in large
 * ones; where blocks lie; and that caches of several threads share it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/memory.h"

#define BYTES ((uint64_t)64 << 20)
#define BLOCKS_MAX (BYTES / 16)

static struct region region;
static struct memory *memory;
static struct mem_cache a, b;
static void *blocks[BLOCKS_MAX];

static int setup(void **state)
{
	(void)state;
	return region_create(&region, BYTES, HUGEPAGES_OFF, 4, 0) ||
	       memory_create(&memory, &region) || mem_cache_init(&a, memory) ||
	       mem_cache_init(&b, memory);
}

static int teardown(void **state)
{
	(void)state;
	mem_cache_release(&a);
	mem_cache_release(&a);
	mem_cache_release(&b);
	memory_destroy(memory);
	region_destroy(&region);
	return 0;
}

static bool inside(const void *p, size_t bytes)
{
	uint64_t at = region_offset(&region, p);

	return (const uint8_t *)p >= region.base && at >= region.heap &&
	       at + bytes <= region.bytes - REGION_PAD;
}

/* Takes all there is, writes each block to its end, and returns how many there were. */
static uint64_t fill(struct mem_cache *cache, size_t bytes)
{
	uint64_t n = 0;
	void *p;

	while ((p = mem_alloc(cache, bytes))) {
		assert_true(n < BLOCKS_MAX);
		assert_true(inside(p, mem_class(bytes)));
		assert_true((uintptr_t)p % ITEM_ALIGN == 0);
		memset(p, (int)n, bytes);
		blocks[n++] = p;
	}
	return n;
}

static void give_back(struct mem_cache *cache, uint64_t n, size_t bytes)
{
	while (n)
		mem_free(cache, blocks[--n], bytes);
}

static void assert_used(uint64_t n, size_t bytes, unsigned int percent)
{
	print_message("%zu bytes: %llu blocks, %.2f %% of the area\n", bytes, (unsigned long long)n,
		      100.0 * (double)(n * bytes) / (double)memory_bytes(memory));
	assert_true(n * bytes * 100 >= memory_bytes(memory) * percent);
	assert_true(n * bytes <= memory_bytes(memory));
}

/* No size leaves the area in a state in which another finds no room. */
static void all_of_it_again_and_again(void **state)
{
	static const size_t sizes[] = { 160, 4096, 48, 100 << 10, 1280, 1 << 20, 160 };
	uint64_t n;

	(void)state;
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		n = fill(i % 2 ? &b : &a, sizes[i]);
		assert_used(n, sizes[i], sizes[i] > 64 << 10 ? 75 : 95);
		give_back(i % 3 ? &a : &b, n, sizes[i]);
	}
	assert_true(a.allocated_bytes + b.allocated_bytes == a.freed_bytes + b.freed_bytes);
	assert_int_equal(a.failures + b.failures, sizeof(sizes) / sizeof(sizes[0]));
}

static void blocks_do_not_overlap(void **state)
{
	uint64_t i, n, bytes;

	(void)state;
	for (n = 0; n < 20000; n++) {
		bytes = 33 + n * 7 % 3000;
		blocks[n] = mem_alloc(n % 2 ? &a : &b, bytes);
		assert_non_null(blocks[n]);
		memset(blocks[n], (int)(n % 251), bytes);
	}
	for (n = 0; n < 20000; n++) {
		bytes = 33 + n * 7 % 3000;
		for (i = 0; i < bytes; i++)
			assert_int_equal(((uint8_t *)blocks[n])[i], n % 251);
		mem_free(n % 3 ? &a : &b, blocks[n], bytes);
	}
	assert_true(a.allocated_bytes + b.allocated_bytes == a.freed_bytes + b.freed_bytes);
}

static void buckets_are_aligned(void **state)
{
	uint64_t n, i;

	(void)state;
	for (i = 0; i < 100; i++)
		mem_alloc(&a, 16 + i * 16);
	n = fill(&a, BUCKET_BYTES);
	assert_true(n > 1000);
	for (i = 0; i < n; i++)
		assert_true(region_offset(&region, blocks[i]) % BUCKET_BYTES == 0);
}

/* A block goes by its class: any size of the class serves to free it. */
static void classes(void **state)
{
	size_t bytes;
	void *p;

	(void)state;
	assert_int_equal(mem_class(1), mem_class(8));
	assert_int_equal(mem_class(113), 128);
	assert_int_equal(mem_class(BUCKET_BYTES), BUCKET_BYTES);
	for (bytes = 33; bytes < 100000; bytes += bytes / 9) {
		assert_true(mem_class(bytes) >= bytes);
		assert_int_equal(mem_class(mem_class(bytes)), mem_class(bytes));
		p = mem_alloc(&a, bytes);
		assert_non_null(p);
		memset(p, 1, mem_class(bytes));
		mem_free(&a, p, mem_class(bytes));
	}
	for (bytes = 113; bytes <= 128; bytes++) {
		p = mem_alloc(&a, bytes);
		mem_free(&a, p, 113 + (bytes * 7) % 16);
	}
	assert_true(a.allocated_bytes == a.freed_bytes);
}

/* More than there is, and more than there could be. */
static void too_much(void **state)
{
	(void)state;
	assert_null(mem_alloc(&a, BYTES));
	assert_null(mem_alloc(&a, ITEM_BYTES_MAX));
	assert_int_equal(a.failures, 2);
	assert_int_equal(a.allocated_bytes, 0);
	assert_non_null(mem_alloc(&a, 100));
}

/* What one thread has set aside does not keep another from using all of the area. */
static void blocks_set_aside_are_flushed(void **state)
{
	uint64_t n = fill(&a, 160), m;

	(void)state;
	give_back(&a, n, 160);
	m = fill(&a, 4096);
	assert_used(m, 4096, 95);
}

struct worker {
	pthread_t thread;
	struct mem_cache cache;
	uint64_t random;
};

#define THREADS 4
#define HELD 500

/* Blocks change hands through a shared list, as items do when another worker replaces them. */
static _Atomic(uint64_t *) shared[HELD];

static void *churn(void *arg)
{
	struct worker *w = arg;
	uint64_t *p, *old;
	size_t bytes;

	for (unsigned int i = 0; i < 30000; i++) {
		w->random = w->random * 6364136223846793005 + 1442695040888963407;
		bytes = 16 + (w->random >> 40) % 2000;
		p = mem_alloc(&w->cache, bytes);
		if (!p)
			return NULL;
		p[0] = bytes;
		p[1] = (uintptr_t)p;
		old = atomic_exchange(&shared[(w->random >> 20) % HELD], p);
		if (old && old[1] != (uintptr_t)old)
			return NULL;
		if (old)
			mem_free(&w->cache, old, old[0]);
	}
	return w;
}

static void threads_share_the_area(void **state)
{
	static struct worker workers[THREADS];
	uint64_t allocated = 0, freed = 0;
	void *done;

	(void)state;
	for (unsigned int i = 0; i < THREADS; i++) {
		assert_int_equal(mem_cache_init(&workers[i].cache, memory), 0);
		workers[i].random = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, churn, &workers[i]), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, &done), 0);
		assert_non_null(done);
	}
	for (unsigned int i = 0; i < HELD; i++)
		if (shared[i])
			mem_free(&workers[0].cache, shared[i], shared[i][0]);
	for (unsigned int i = 0; i < THREADS; i++) {
		allocated += workers[i].cache.allocated_bytes;
		freed += workers[i].cache.freed_bytes;
		mem_cache_release(&workers[i].cache);
	}
	assert_true(allocated == freed);
	assert_used(fill(&a, 160), 160, 95);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(all_of_it_again_and_again),
		CASE(blocks_do_not_overlap),
		CASE(buckets_are_aligned),
		CASE(classes),
		CASE(too_much),
		CASE(blocks_set_aside_are_flushed),
		CASE(threads_share_the_area),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
