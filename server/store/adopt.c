/* SPDX-License-Identifier: MIT */
/* Adopts a store that was kept, and stores what that needs. */
#include "server/store/adopt.h"

#include <inttypes.h>

#include "common/util/log.h"
#include "server/store/chain.h"

static_assert(KEEP_TICKS == TICKS_TOLD, "of all ticks");

/* Whether slab @number is the one that begins at the span. */
static bool slab_fits(const struct memory *memory, const struct span *span)
{
	const struct slab *slab = &memory->slabs[span->slab];
	unsigned int class_id = slab->class_id;
	uint32_t bytes;

	if (class_id >= MEM_CLASSES_MAX || slab->page != span->page || slab->pages != span->pages)
		return false;
	if ((class_id == CLASS_BUCKETS) != (span->kind == PAGE_BUCKETS))
		return false;
	bytes = memory->classes[class_id].bytes;
	return bytes && slab->blocks && slab->blocks <= SLAB_BLOCKS_MAX &&
	       (uint64_t)slab->blocks * bytes <= (uint64_t)span->pages * PAGE_BYTES;
}

bool kept_span(const struct memory *memory, uint32_t page, struct span *span)
{
	const struct page *head = &memory->heap.map[page];
	uint32_t word = hint_load(&head->word);

	*span = (struct span){
		.page = page,
		.pages = head->pages,
		.kind = (enum page_kind)(word & PAGE_KIND),
		.slab = head->slab,
	};
	if (word >> PAGE_SPAN_SHIFT != page || !span->pages ||
	    span->pages > extent_end(&memory->heap, page) - page)
		return false;
	switch (span->kind) {
	case PAGE_LARGE:
		return span->slab == PAGE_READY;
	case PAGE_ITEMS:
	case PAGE_BUCKETS:
		return span->slab < memory->slabs_max && slab_fits(memory, span);
	case PAGE_FREE:
	case PAGE_RESERVED:
		break;
	}
	return false;
}

static void free_pages_adopt(struct memory *memory, uint32_t first, uint32_t end)
{
	const struct span span = { .page = first, .pages = end - first, .kind = PAGE_FREE };

	if (span.pages)
		page_heap_adopt(&memory->heap, &span);
}

/* Descriptors that no span has become the spare ones. */
static void descriptors_adopt(struct memory *memory, uint32_t used)
{
	memory->slabs_used = used;
	for (uint32_t i = 0; i < used; i++) {
		struct slab *slab = &memory->slabs[i];

		if (slab->blocks)
			continue;
		slab->next = memory->slabs_spare;
		memory->slabs_spare = i;
	}
}

/* A descriptor that none of the spans has is of a slab that was being made or freed. */
static bool slab_is_kept(const struct memory *memory, uint32_t number)
{
	const struct slab *slab = &memory->slabs[number];
	struct span span;

	return slab->blocks && slab->page >= memory->heap.first && slab->page < memory->heap.end &&
	       kept_span(memory, slab->page, &span) && span.kind != PAGE_LARGE &&
	       span.slab == number;
}

static uint32_t descriptors_check(struct memory *memory)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < memory->slabs_max; i++)
		if (slab_is_kept(memory, i))
			used = i + 1;
		else if (memory->slabs[i].blocks)
			memory->slabs[i].blocks = 0;
	return used;
}

void memory_adopt(struct memory *memory, uint32_t first)
{
	uint32_t page = first, free_from = first, used;
	struct span span;

	memory->heap.first = first;
	used = descriptors_check(memory);
	while (page < memory->heap.end) {
		if (!kept_span(memory, page, &span)) {
			page++;
			continue;
		}
		free_pages_adopt(memory, free_from, page);
		page_heap_adopt(&memory->heap, &span);
		if (span.kind != PAGE_LARGE)
			slab_adopt(memory, &memory->slabs[span.slab]);
		page += span.pages;
		free_from = page;
	}
	free_pages_adopt(memory, free_from, page);
	descriptors_adopt(memory, used);
}

/* The home of each overflow bucket, by which it is moved. */
static void homes_adopt(const struct table *table)
{
	uint64_t buckets = index_buckets(table);
	struct bucket *home, *bucket;

	for (uint64_t i = 0; i < buckets; i++) {
		home = index_bucket(table, i);
		if (!home->overflow)
			continue;
		chain_for_each(table, bucket, home)
			if (bucket != home)
				mem_bucket_set_home(table->memory, bucket, i);
	}
}

void store_adopt(struct table *table)
{
	struct keep_head *head = table->region->keep.head;
	const struct geometry *g = &table->region->geometry;
	uint64_t index = (uint64_t)head->page_first * PAGE_BYTES - sizeof(struct superblock);

	ticks_adopt(table);
	memory_adopt(table->memory, head->page_first);
	table->memory->wider = head->wider;
	atomic_store(&table->index_size, index_size_make(g->level, g->split));
	atomic_store(&table->buckets_max, index / BUCKET_BYTES);
	homes_adopt(table);
	table->items_kept = head->items;
	atomic_store(&table->items, (int64_t)head->items);
	table->stats_kept.live_bytes = head->live_bytes;
	table->stats_kept.expiring = head->expiring;
	table->stats_kept.overflow_buckets = head->overflow_buckets;
	for (unsigned int i = 0; i < STORE_THREADS_MAX; i++)
		keep_change_end(&table->region->keep.changes[i]);
	log_notice("store: %" PRIu64 " items are kept since the last kvd stopped", head->items);
}

void ticks_adopt(struct table *table)
{
	const struct keep_head *head = table->region->keep.head;

	atomic_store(&table->tick, head->tick);
	atomic_store(&table->tick_bytes, head->tick_bytes);
	for (unsigned int i = 0; i < TICKS_TOLD; i++)
		atomic_store(&table->tick_began_s[i], head->tick_began_s[i]);
}

void store_keep_tick(const struct table *table)
{
	struct keep_head *head = table->region->keep.head;

	if (!head)
		return;
	keep_raise_version(&table->region->keep, table_clock_max(table));
	head->tick = atomic_load_explicit(&table->tick, memory_order_relaxed);
	head->tick_bytes = atomic_load_explicit(&table->tick_bytes, memory_order_relaxed);
	for (unsigned int i = 0; i < TICKS_TOLD; i++)
		head->tick_began_s[i] = atomic_load_explicit(&table->tick_began_s[i],
							     memory_order_relaxed);
}

void store_keep(const struct table *table)
{
	struct keep *keep = &table->region->keep;
	struct keep_head *head = keep->head;

	if (!head || !keep->serves)
		return;
	store_keep_tick(table);
	/* Removes are read first: as in store_items(). */
	head->items = table->items_kept -
		      table_sum(table, offsetof(struct store_thread, stats.removes));
	head->items += table_sum(table, offsetof(struct store_thread, stats.inserts));
	head->live_bytes = table_sum(table, offsetof(struct store_thread, stats.live_bytes));
	head->expiring = table_sum(table, offsetof(struct store_thread, stats.expiring));
	head->overflow_buckets = table_sum(table,
					   offsetof(struct store_thread, stats.overflow_buckets));
	head->page_first = table->memory->heap.first;
	head->wider = table->memory->wider;
	keep->clean = true;
}
