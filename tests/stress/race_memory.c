/* SPDX-License-Identifier: MIT */
/*
 * Race test of the item memory: threads allocate and free blocks, also each other's, while movers
 * evacuate spans and take samples and statistics. Every word of a block but the first holds the
 * number of the slot that owns it, so that blocks that overlap are detected.
 *
 *	race_memory [operations per thread]
 *
 * A block in use belongs to a slot, which has a lock, as an item belongs to a bucket: a thread
 * that frees or moves a block holds its slot's lock, so that movers can move blocks that others
 * allocated.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "server/store/evacuate.h"
#include "server/store/slab.h"

#define BYTES ((uint64_t)16 << 20)
#define WORKERS 3u
#define MOVERS 2u
#define SLOTS 8192u

struct slot {
	uint32_t lock;
	uint32_t bytes;
	uint64_t *p;
};

static struct region region;
static struct memory *memory;
static struct slot slots[SLOTS];
static uint32_t owner[BYTES / ITEM_ALIGN]; /* slot + 1 of the block that begins here; a hint */
static unsigned int operations = 60000, working = WORKERS;

/* The movers' evacuations; each is in progress while seq is odd. */
static struct open_evacuation {
	uint32_t seq, page, pages;
} open_evacuations[MOVERS];

#define check(ok)                                                                                  \
	do {                                                                                       \
		if (!(ok)) {                                                                       \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok);                   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static uint64_t unit(const void *p)
{
	return region_offset(&region, p) / ITEM_ALIGN;
}

static void do_check_block(const struct slot *slot, uint32_t mark)
{
	for (uint32_t i = 1; i < slot->bytes / 8; i++)
		check(slot->p[i] == mark);
}

static void evacuation_publish(struct open_evacuation *open, const struct mem_evacuation *w)
{
	hint_store(&open->page, w->page);
	hint_store(&open->pages, w->pages);
	__atomic_store_n(&open->seq, open->seq + 1, __ATOMIC_RELEASE);
}

/* A block may not come from a span whose evacuation began before the call and has not ended. */
static void *alloc_checked(struct mem_cache *cache, uint32_t bytes)
{
	struct open_evacuation before[MOVERS];
	void *p;

	for (unsigned int i = 0; i < MOVERS; i++) {
		before[i].seq = __atomic_load_n(&open_evacuations[i].seq, __ATOMIC_ACQUIRE);
		before[i].page = hint_load(&open_evacuations[i].page);
		before[i].pages = hint_load(&open_evacuations[i].pages);
	}
	p = mem_alloc(cache, bytes);
	for (unsigned int i = 0; p && i < MOVERS; i++)
		if (before[i].seq % 2 &&
		    __atomic_load_n(&open_evacuations[i].seq, __ATOMIC_ACQUIRE) == before[i].seq)
			check(page_of(memory, p) - before[i].page >= before[i].pages);
	return p;
}

/* Allocates a block for a slot. */
static bool do_put(struct mem_cache *cache, struct slot *slot, uint32_t number, uint32_t bytes)
{
	uint64_t *p = alloc_checked(cache, bytes);

	if (!p)
		return false;
	check(*p == 0);
	for (uint32_t i = 1; i < bytes / 8; i++)
		p[i] = number;
	store_relaxed64(p, 1);
	slot->p = p;
	slot->bytes = bytes;
	hint_store(&owner[unit(p)], number + 1);
	return true;
}

static void do_drop(struct mem_cache *cache, struct slot *slot, uint32_t number)
{
	do_check_block(slot, number);
	check(*slot->p == 1);
	hint_store(&owner[unit(slot->p)], 0);
	store_relaxed64(slot->p, 0);
	mem_free(cache, slot->p, slot->bytes);
	slot->p = NULL;
}

static uint32_t bytes_random(uint64_t *random)
{
	static const uint32_t limits[] = { 200, 200, 600, 5000, 5000, 30000, 100000 };

	return 48 + random_below(random, limits[random_below(random, 7)]) / 8 * 8;
}

static void *worker(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	struct mem_cache *cache = calloc(1, sizeof(*cache));
	uint32_t number;
	struct slot *slot;
	void *found[8];

	mem_cache_init(cache, memory);
	for (unsigned int i = 0; i < operations; i++) {
		number = random_below(&random, SLOTS);
		slot = &slots[number];
		mem_lock(&slot->lock);
		if (slot->p)
			do_drop(cache, slot, number);
		else if (!do_put(cache, slot, number, bytes_random(&random)) && i % 64 == 0)
			memory_gather(memory);
		mem_unlock(&slot->lock);
		if (i % 16 == 0)
			mem_sample_any(memory, &random, found, 8);
		if (i % 16 == 8)
			mem_sample(memory, mem_class(bytes_random(&random)), &random, found, 8);
	}
	mem_cache_release(cache);
	free(cache);
	__atomic_fetch_sub(&working, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Moves a block, or frees it. False: it belongs to no slot (yet, or any more). */
static bool evacuate(struct mem_cache *cache, const struct mem_evacuation *w, const void *p)
{
	uint32_t number = hint_load(&owner[unit(p)]);
	struct slot *slot, old = { 0 };

	if (!number--)
		return false;
	slot = &slots[number];
	mem_lock(&slot->lock);
	if (slot->p != p) {
		mem_unlock(&slot->lock);
		return false;
	}
	old.p = slot->p;
	old.bytes = slot->bytes;
	if (do_put(cache, slot, number, slot->bytes)) {
		check(page_of(memory, slot->p) - w->page >= w->pages);
		do_drop(cache, &old, number);
	} else {
		do_drop(cache, slot, number);
	}
	mem_unlock(&slot->lock);
	return true;
}

static bool evacuation_random(struct mem_evacuation *w, uint64_t *random, bool *large, bool *index)
{
	void *found;

	*large = *index = false;
	switch (random_below(random, 4)) {
	case 0:
		return mem_evacuation_begin_sparse(w, memory, NULL);
	case 1:
		return *large = mem_evacuation_begin_large(w, memory, 300000, random, 4);
	case 2:
		if (memory_bytes(memory) > BYTES / 2)
			return *index = mem_evacuation_begin_index(w, memory, PAGE_BYTES);
		return false;
	default:
		return mem_sample_any(memory, random, &found, 1) &&
		       mem_evacuation_begin(w, memory, found);
	}
}

static unsigned int emptied, left;

static void *mover(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	struct open_evacuation *open = &open_evacuations[(uintptr_t)arg - WORKERS - 1];
	struct mem_cache *cache = calloc(1, sizeof(*cache));
	struct memory_stats stats;
	struct mem_evacuation w;
	struct mem_block block;
	bool large, index, ok;
	void *p;

	mem_cache_init(cache, memory);
	while (__atomic_load_n(&working, __ATOMIC_ACQUIRE)) {
		memory_stats(memory, &stats);
		if (!evacuation_random(&w, &random, &large, &index))
			continue;
		evacuation_publish(open, &w);
		for (unsigned int round = 0; round < 3; round++)
			while (mem_evacuation_next(&w, &block))
				evacuate(cache, &w, block.p);
		__atomic_store_n(&open->seq, open->seq + 1, __ATOMIC_RELEASE);
		if (large) {
			p = mem_evacuation_end_large(&w, cache, 300000);
			ok = p;
			if (p)
				mem_free(cache, p, 300000);
		} else {
			ok = index ? mem_evacuation_end_index(&w) : mem_evacuation_end(&w);
		}
		__atomic_fetch_add(ok ? &emptied : &left, 1, __ATOMIC_RELAXED);
	}
	mem_cache_release(cache);
	free(cache);
	return NULL;
}

static void check_all_freed(void)
{
	static struct mem_cache cache;
	struct memory_stats s;

	mem_cache_init(&cache, memory);
	for (uint32_t i = 0; i < SLOTS; i++)
		if (slots[i].p)
			do_drop(&cache, &slots[i], i);
	mem_cache_release(&cache);
	memory_stats(memory, &s);
	check(s.free == memory_bytes(memory) && s.evacuating == 0);
	check(sizeof(struct superblock) + s.index + s.free + REGION_PAD == BYTES);
	check(memory->heap.map[memory->heap.first].pages == s.free / PAGE_BYTES);
	for (unsigned int i = 0; i < MEM_CLASSES_MAX; i++)
		check(memory->classes[i].free == 0 && memory->classes[i].available == 0);
}

int main(int argc, char **argv)
{
	pthread_t threads[WORKERS + MOVERS];

	if (argc > 1)
		operations = (unsigned int)strtoul(argv[1], NULL, 10);
	region.bytes = region.bytes_max = region.extent_bytes = BYTES;
	region.base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(region.base != MAP_FAILED);
	check(!memory_create(&memory, &region, PAGE_BYTES));
	for (uintptr_t i = 0; i < WORKERS + MOVERS; i++)
		check(!pthread_create(&threads[i], NULL, i < WORKERS ? worker : mover,
				      (void *)(i + 1)));
	for (unsigned int i = 0; i < WORKERS + MOVERS; i++)
		pthread_join(threads[i], NULL);
	check_all_freed();
	printf("%u evacuations emptied their span, %u did not\n", emptied, left);
	check(emptied > 10);
	memory_destroy(memory);
	munmap(region.base, BYTES);
	return 0;
}
