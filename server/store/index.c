/* SPDX-License-Identifier: MIT */
#include "server/store/evacuate.h"
#include "server/store/index.h"

#include <string.h>

#include "common/util/stat.h"

struct bucket *index_home(const struct table *table, uint64_t hash)
{
	uint64_t size = atomic_load_explicit(&table->index_size, memory_order_acquire), differ;
	uint32_t level = index_size_level(size);
	uint64_t number = low_bits(hash, level);
	struct bucket *home;

	if (number < index_size_split(size))
		number = low_bits(hash, level + 1);
	/*
	 * I1. The index size may be old by now. The bucket was split once for each bit from its old level
	 * on: the key left it with the first that differs, for a bucket that is there since.
	 */
	for (;;) {
		home = index_bucket(table, number);
		differ = low_bits(hash ^ number, bucket_level_load(home));
		if (!differ)
			return home;
		number = low_bits(hash, (uint32_t)__builtin_ctzll(differ) + 1);
	}
}

struct bucket *index_lock_home(const struct table *table, uint64_t hash)
{
	struct bucket *home;

	for (;;) {
		home = index_home(table, hash);
		bucket_lock(home);
		if (low_bits(hash, home->level) == index_number(table, home))
			return home;
		bucket_unlock(home);
	}
}

struct bucket *index_lock_number(const struct table *table, uint64_t number)
{
	struct bucket *home = index_bucket(table, number);

	bucket_lock(home);
	return home;
}

void do_chain_seal(const struct table *table, const struct bucket *home, struct bucket *bucket)
{
	bucket_seal(bucket, bucket_sum(bucket, table->region->geometry.incarnation,
				       region_offset(table->region, bucket),
				       region_offset(table->region, home)));
}

static void bucket_fill(struct bucket *bucket, const uint64_t *slots, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < BUCKET_SLOTS; i++)
		__atomic_store_n(&bucket->slots[i], i < count ? slots[i] : 0, __ATOMIC_RELAXED);
}

void bucket_clear(struct bucket *bucket, uint8_t level, uint16_t epoch)
{
	unsigned int i;

	for (i = 0; i < BUCKET_SLOTS; i++)
		__atomic_store_n(&bucket->slots[i], 0, __ATOMIC_RELAXED);
	bucket_unlock(bucket);
	bucket_level_store(bucket, level);
	__atomic_store_n(&bucket->epoch, epoch, __ATOMIC_RELAXED);
	bucket_link(bucket, 0);
}

void index_format(struct table *table)
{
	const struct geometry *g = &table->region->geometry;
	uint64_t i;

	for (i = 0; i < geometry_buckets(g); i++) {
		struct bucket *bucket = index_bucket(table, i);

		bucket_clear(bucket, (uint8_t)g->level, 0);
		do_chain_seal(table, bucket, bucket);
	}
	atomic_store(&table->index_size, index_size_make(g->level, g->split));
}

/* A chain taken apart: its slots, and its overflow buckets to be used again. */
struct parts {
	uint64_t slots[CHAIN_SLOTS_MAX];
	unsigned int slot_count;
	struct bucket *buckets[CHAIN_MAX + 1];
	unsigned int bucket_count, bucket_used;
};

static void do_take_apart(const struct table *table, struct bucket *home,
			  const struct bucket *avoid, struct parts *parts)
{
	struct bucket *bucket;
	unsigned int i;

	parts->slot_count = parts->bucket_count = parts->bucket_used = 0;
	for (bucket = home; bucket; bucket = bucket_next(table, bucket)) {
		for (i = 0; i < BUCKET_SLOTS; i++)
			if (bucket->slots[i])
				parts->slots[parts->slot_count++] = bucket->slots[i];
		if (bucket != home && bucket != avoid)
			parts->buckets[parts->bucket_count++] = bucket;
	}
}

/* Overflow buckets that @count slots need. */
static unsigned int overflow_for(unsigned int count)
{
	return count <= BUCKET_SLOTS ? 0 : (count - 1) / BUCKET_SLOTS;
}

/*
 * Writes a chain anew: overflow buckets from the last to the first, then the home bucket, whose epoch
 * is odd. It stays locked.
 */
static void do_write_chain(const struct table *table, struct bucket *home, uint8_t level,
			   const uint64_t *slots, unsigned int count, struct parts *parts)
{
	unsigned int n = overflow_for(count), i;
	struct bucket *next = NULL, *bucket;

	for (i = n; i; i--) {
		bucket = parts->buckets[parts->bucket_used + i - 1];
		bucket_fill(bucket, slots + i * BUCKET_SLOTS,
			    i < n ? BUCKET_SLOTS : count - n * BUCKET_SLOTS);
		bucket_level_store(bucket, level);
		__atomic_store_n(&bucket->epoch, (uint16_t)(home->epoch + 1), __ATOMIC_RELAXED);
		bucket_link(bucket, next ? bucket_ref(table->region, next) : 0);
		mem_bucket_set_home(table->memory, bucket, index_number(table, home));
		do_chain_seal(table, home, bucket);
		next = bucket;
	}
	parts->bucket_used += n;
	bucket_fill(home, slots, count < BUCKET_SLOTS ? count : BUCKET_SLOTS);
	bucket_link(home, next ? bucket_ref(table->region, next) : 0);
	bucket_level_store(home, level);
	chain_move_end(home);
	do_chain_seal(table, home, home);
}

static void parts_retire(struct store_thread *thread, struct parts *parts, struct retired *retired)
{
	stat_sub(&thread->stats.overflow_buckets, parts->bucket_count - parts->bucket_used);
	while (parts->bucket_used < parts->bucket_count)
		retired->buckets[retired->count++] = parts->buckets[parts->bucket_used++];
}

void retired_free(struct store_thread *thread, struct retired *retired)
{
	while (retired->count)
		limbo_add(&thread->limbo, &thread->cache, retired->buckets[--retired->count], 0);
}

/* I4: whether one more chain may be shortened in this second. */
static bool moves_take(struct store_thread *thread)
{
	struct table *table = thread->table;
	uint64_t now_s = thread->now_ns / 1000000000u;
	uint64_t then = atomic_load_explicit(&table->moves_s, memory_order_relaxed);

	/* Times of workers differ by a batch; only forward, or seconds would be counted twice. */
	if (now_s > then && atomic_compare_exchange_strong(&table->moves_s, &then, now_s))
		atomic_store(&table->moves, 0);
	return atomic_fetch_add(&table->moves, 1) < MOVES_MAX;
}

bool do_chain_shorten(struct store_thread *thread, struct bucket *home, struct bucket *avoid,
		      struct bucket *spare, struct retired *retired)
{
	const struct table *table = thread->table;
	struct parts parts;
	unsigned int needed;

	do_take_apart(table, home, avoid, &parts);
	needed = overflow_for(parts.slot_count);
	if (!avoid) {
		needed = overflow_for(parts.slot_count + SPARE_SLOTS);
		if (needed >= parts.bucket_count)
			return false;
	}
	if (!moves_take(thread))
		return false;
	if (avoid) {
		parts.buckets[parts.bucket_count++] = spare;
		stat_add(&thread->stats.overflow_buckets, 1);
	}
	chain_move_begin(home);
	do_write_chain(table, home, home->level, parts.slots, parts.slot_count, &parts);
	if (avoid) {
		stat_sub(&thread->stats.overflow_buckets, 1);
		retired->buckets[retired->count++] = avoid;
	}
	parts_retire(thread, &parts, retired);
	stat_add(&thread->stats.chains_shortened, 1);
	return true;
}

/* Orders the slots by the bit of their keys' hashes that the split looks at; returns how many have 0. */
static unsigned int do_partition(const struct table *table, struct parts *parts, uint32_t bit)
{
	unsigned int low = 0, high = parts->slot_count, i;

	for (i = 0; i < parts->slot_count; i++)
		__builtin_prefetch(slot_item(table, parts->slots[i]));
	while (low < high) {
		uint64_t slot = parts->slots[low];
		const struct item *item = slot_item(table, slot);

		if (table_hash(table, item->data, item->key_len) >> bit & 1) {
			parts->slots[low] = parts->slots[--high];
			parts->slots[high] = slot;
		} else {
			low++;
		}
	}
	return low;
}

/*
 * Splits the home bucket @number of @level. The new bucket is whole before the old one, which leads to
 * it by its level, has lost anything (I2). Both chains together need no more overflow buckets than
 * there were: n slots in c + 1 buckets, n <= 14 (c + 1), fit two homes and c more, however they fall.
 */
static void split(struct store_thread *thread, uint64_t number, uint32_t level)
{
	const struct table *table = thread->table;
	struct bucket *home = index_lock_number(table, number);
	struct bucket *fresh = index_bucket(table, number + (1ull << level));
	struct retired retired = { .count = 0 };
	struct parts parts;
	unsigned int low;

	do_take_apart(table, home, NULL, &parts);
	low = do_partition(table, &parts, level);
	bucket_clear(fresh, (uint8_t)(level + 1), 0);
	bucket_lock(fresh);
	chain_move_begin(fresh);
	chain_move_begin(home);
	do_write_chain(table, fresh, (uint8_t)(level + 1), parts.slots + low,
		       parts.slot_count - low, &parts);
	do_write_chain(table, home, (uint8_t)(level + 1), parts.slots, low, &parts);
	parts_retire(thread, &parts, &retired);
	bucket_unlock(fresh);
	bucket_unlock(home);
	stat_add(&thread->stats.splits, 1);
	retired_free(thread, &retired);
}

void index_geometry(const struct table *table, struct geometry *geometry)
{
	uint64_t size = atomic_load(&table->index_size);

	/* All but level and split is for good. */
	racy_copy(geometry, &table->region->geometry, sizeof(*geometry));
	geometry->level = index_size_level(size);
	geometry->split = index_size_split(size);
	geometry->sum = geometry_sum(geometry);
}

/* Makes the larger index known, to this process and to readers of the superblock. */
static void index_size_advance(struct table *table, uint32_t level, uint64_t next)
{
	struct geometry *g = &table->region->geometry;

	if (next == 1ull << level) {
		level++;
		next = 0;
	}
	g->level = level;
	g->split = next;
	atomic_store_explicit(&table->index_size, index_size_make(level, next),
			      memory_order_release);
	region_publish_geometry(table->region);
}

bool index_extend(struct table *table)
{
	uint64_t room = atomic_load(&table->room);
	struct mem_evacuation evacuation;
	struct mem_block block;

	if (!mem_evacuation_begin_index(&evacuation, table->memory, INDEX_STEP * BUCKET_BYTES))
		return false;
	if (mem_evacuation_next(&evacuation, &block)) {
		mem_evacuation_end(&evacuation);
		return false;
	}
	if (!mem_evacuation_end_index(&evacuation))
		return false;
	atomic_store(&table->room, room + INDEX_STEP);
	return true;
}

static bool index_is_full(const struct table *table, uint64_t buckets)
{
	int64_t items = atomic_load_explicit(&table->items, memory_order_relaxed);

	return items > 0 &&
	       (uint64_t)items * 100 > buckets * BUCKET_SLOTS * (uint64_t)table->options.fill;
}

static void do_grow(struct store_thread *thread)
{
	struct table *table = thread->table;
	uint64_t size = atomic_load(&table->index_size), next = index_size_split(size);
	uint32_t level = index_size_level(size);
	uint64_t buckets = (1ull << level) + next;

	if (!index_is_full(table, buckets))
		return;
	if (buckets >= atomic_load(&table->room)) {
		/* Once the maintenance thread, if there is one, was asked, it does it. */
		if (atomic_load(&table->room_wanted) && table->wake_fd >= 0)
			return;
		if (!index_extend(table)) {
			atomic_store(&table->room_wanted, true);
			table_wake_maintenance(table);
			return;
		}
	}
	split(thread, next, level);
	index_size_advance(table, level, next + 1);
}

void index_grow(struct store_thread *thread)
{
	struct table *table = thread->table;

	if (!index_is_full(table, index_buckets(table)))
		return;
	/* One splits at a time; who comes second has nothing to wait for. */
	if (atomic_exchange_explicit(&table->growing, 1, memory_order_acquire))
		return;
	do_grow(thread);
	atomic_store_explicit(&table->growing, 0, memory_order_release);
}
