/* SPDX-License-Identifier: MIT */
/*
 * Growth: formats the index's first buckets, splits buckets as keys are added, and adds memory to
 * the index.
 */
#include "server/store/growth.h"

#include <errno.h>

#include "common/util/stat.h"
#include "server/store/evacuate.h"

int index_format(struct table *table, const _Atomic bool *cancel)
{
	const struct geometry *g = &table->region->geometry;
	uint32_t level;
	uint64_t i;

	for (i = 0; i < geometry_buckets(g); i++) {
		struct bucket *bucket = index_bucket(table, i);

		if (cancel && atomic_load_explicit(cancel, memory_order_relaxed))
			return -ECANCELED;
		/* Buckets that were split, and what they were split into, are a level up. */
		level = g->level + (i < g->split || i >> g->level);
		bucket_clear(bucket, (uint8_t)level, 0);
		do_chain_seal(table, bucket, bucket);
	}
	atomic_store(&table->index_size, index_size_make(g->level, g->split));
	return 0;
}

/* Orders the slots by bit @bit of their keys' hashes, 0 first; returns how many have a 0. */
static unsigned int do_partition(const struct table *table, struct chain_parts *parts, uint32_t bit)
{
	unsigned int low = 0, high = parts->slot_count, i;

	/* The keys are hashed again: prefetched, the cache misses overlap. */
	for (i = 0; i < parts->slot_count; i++)
		__builtin_prefetch(slot_item(table, parts->slots[i]));
	while (low < high) {
		uint64_t slot = parts->slots[low];
		const struct item *item = slot_item(table, slot);

		if (table_hash(table, item_key(item), item_key_len(item)) >> bit & 1) {
			parts->slots[low] = parts->slots[--high];
			parts->slots[high] = slot;
		} else {
			low++;
		}
	}
	return low;
}

/*
 * Splits home bucket @number, which has @level. The new bucket is complete before the old one,
 * whose level leads to it, loses a slot (INDEX-2). Both chains together need no more overflow
 * buckets than the old one had: n slots from c + 1 buckets, n <= 14 (c + 1), fit two home buckets
 * and c more, however they are divided.
 */
static void split(struct store_thread *thread, uint64_t number, uint32_t level)
{
	const struct table *table = thread->table;
	struct bucket *home = index_lock_number(table, number);
	struct bucket *added = index_bucket(table, number + (1ull << level));
	struct retired retired = { .count = 0 };
	struct chain_parts parts;
	unsigned int low;

	do_chain_take_apart(table, home, NULL, &parts);
	low = do_partition(table, &parts, level);
	/*
	 * Locked, since it can be reached through the old bucket's level before its chain is
	 * unlocked.
	 */
	bucket_clear(added, (uint8_t)(level + 1), 0);
	bucket_lock(added);
	chain_move_begin(added);
	chain_move_begin(home);
	do_chain_write(table, added, (uint8_t)(level + 1), parts.slots + low,
		       parts.slot_count - low, &parts);
	do_chain_write(table, home, (uint8_t)(level + 1), parts.slots, low, &parts);
	chain_parts_retire(thread, &parts, &retired);
	bucket_unlock(added);
	bucket_unlock(home);
	stat_add(&thread->stats.splits, 1);
	retired_free(thread, &retired);
}

/* Publishes the larger size of the index, in this process and in the superblock. */
static void index_size_advance(struct table *table, uint32_t level, uint64_t next)
{
	struct geometry *g = &table->region->geometry;

	if (next == 1ull << level) {
		level++;
		next = 0;
	}
	/* Only the thread that holds table.growing gets here, so the geometry has one writer. */
	g->level = level;
	g->split = next;
	atomic_store_explicit(&table->index_size, index_size_make(level, next),
			      memory_order_release);
	region_publish_geometry(table->region);
}

bool index_extend(struct table *table)
{
	uint64_t room = atomic_load(&table->buckets_max);
	struct mem_evacuation evacuation;
	struct mem_block block;

	if (!mem_evacuation_begin_index(&evacuation, table->memory, INDEX_STEP * BUCKET_BYTES))
		return false;
	/* Only if the pages are empty: moving items is the maintenance thread's work. */
	if (mem_evacuation_next(&evacuation, &block)) {
		mem_evacuation_end(&evacuation);
		return false;
	}
	if (!mem_evacuation_end_index(&evacuation))
		return false;
	atomic_store(&table->buckets_max, room + INDEX_STEP);
	return true;
}

/* Whether the items fill more than table.fill percent of the slots of @buckets home buckets. */
static bool index_is_full(const struct table *table, uint64_t buckets)
{
	int64_t items = atomic_load_explicit(&table->items, memory_order_relaxed);

	return items > 0 && (uint64_t)items * 100 > buckets * BUCKET_SLOTS * (uint64_t)table->fill;
}

static void do_grow(struct store_thread *thread)
{
	struct table *table = thread->table;
	uint64_t size = atomic_load(&table->index_size), next = index_size_split(size);
	uint32_t level = index_size_level(size);
	uint64_t buckets = (1ull << level) + next;

	if (!index_is_full(table, buckets))
		return;
	if (buckets >= atomic_load(&table->buckets_max)) {
		/* The maintenance thread, if there is one, was asked already and will do it. */
		if (atomic_load(&table->room_wanted) && table->wake_fd >= 0)
			return;
		if (!index_extend(table)) {
			atomic_store(&table->room_wanted, true);
			table_wake_maintenance(table);
			return;
		}
	}
	/* In this order: INDEX-2. */
	split(thread, next, level);
	index_size_advance(table, level, next + 1);
}

void index_grow(struct store_thread *thread)
{
	struct table *table = thread->table;

	if (!index_is_full(table, index_buckets(table)))
		return;
	/* One thread splits at a time; others need not wait for it. */
	if (atomic_exchange_explicit(&table->growing, 1, memory_order_acquire))
		return;
	do_grow(thread);
	atomic_store_explicit(&table->growing, 0, memory_order_release);
}
