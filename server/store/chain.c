/* SPDX-License-Identifier: MIT */
/*
 * Chains: finds keys in a chain of buckets, and writes, shortens and seals chains in the order that
 * readers without a lock rely on.
 */
#include "server/store/chain.h"

#include <string.h>

#include "common/slot_match.h"
#include "common/util/stat.h"
#include "server/store/moving.h"

static bool item_has_key(const struct item *item, const void *key, uint32_t key_len)
{
	return item_key_len(item) == key_len && !memcmp(item_key(item), key, key_len);
}

/* Notes the chain's first empty slot, for an insert. */
static void do_bucket_note_free(struct chain_pos *pos, struct bucket *bucket)
{
	unsigned int empty = slots_match(bucket->slots, 0), i;

	for (; empty; empty &= empty - 1) {
		i = (unsigned int)__builtin_ctz(empty);
		if (bucket->slots[i])
			continue;
		pos->free_in = bucket;
		pos->free_slot = &bucket->slots[i];
		return;
	}
}

/* Finds the key in one bucket; if it is not there, notes the first empty slot of the chain. */
static bool do_bucket_find(const struct table *table, struct chain_pos *pos, struct bucket *bucket,
			   uint16_t tag, const void *key, uint32_t key_len)
{
	unsigned int matches = slots_match(bucket->slots, tag), i;
	uint64_t slot;

	for (; matches; matches &= matches - 1) {
		i = (unsigned int)__builtin_ctz(matches);
		slot = bucket->slots[i];
		if (!slot || !item_has_key(slot_item(table, slot), key, key_len))
			continue;
		pos->bucket = bucket;
		pos->slot = &bucket->slots[i];
		pos->item = slot_item(table, slot);
		return true;
	}
	if (!pos->free_in)
		do_bucket_note_free(pos, bucket);
	return false;
}

void do_chain_find(const struct store_thread *thread, struct chain_pos *pos, struct bucket *home,
		   uint64_t hash, const void *key, uint32_t key_len)
{
	const struct table *table = thread->table;
	struct bucket *bucket;

	*pos = (struct chain_pos){ .home = home };
	/* If the key is missing the loop ends at the tail, which an insert needs. */
	chain_for_each(table, bucket, home) {
		if (do_bucket_find(table, pos, bucket, hash_tag(hash), key, key_len)) {
			pos->live = !is_expired(pos->item->expires, thread->now_ns);
			return;
		}
		if (bucket != home)
			pos->length++;
		pos->tail = bucket;
	}
}

bool do_chain_find_block(const struct table *table, struct chain_pos *pos, struct bucket *home,
			 const void *block)
{
	uint64_t offset = region_offset(table->region, block);
	struct bucket *bucket;
	unsigned int i;

	*pos = (struct chain_pos){ .home = home };
	chain_for_each(table, bucket, home) {
		for (i = 0; i < BUCKET_SLOTS; i++) {
			if (!bucket->slots[i] || slot_offset(bucket->slots[i]) != offset)
				continue;
			pos->bucket = bucket;
			pos->slot = &bucket->slots[i];
			pos->item = slot_item(table, bucket->slots[i]);
			return true;
		}
		if (bucket != home)
			pos->length++;
	}
	return false;
}

/*
 * The sum covers the places of the bucket and of its home bucket, so a bucket that has moved to
 * another chain does not verify for a client that reached it through this one.
 */
void do_chain_seal(const struct table *table, const struct bucket *home, struct bucket *bucket)
{
	const struct region *region = table->region;

	bucket_seal(bucket, bucket_sum(bucket, &region->sum_key, region->geometry.incarnation,
				       region_offset(region, bucket), region_offset(region, home)));
}

/* Writes @count slots and clears the others. */
static void bucket_fill(struct bucket *bucket, const uint64_t *slots, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < BUCKET_SLOTS; i++)
		__atomic_store_n(&bucket->slots[i], i < count ? slots[i] : 0, __ATOMIC_RELAXED);
}

/*
 * Field by field and atomically: a reader that holds no lock may still be in the bucket. The lock,
 * level and epoch of a reused block are whatever its last owner left.
 */
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

void do_chain_take_apart(const struct table *table, struct bucket *home, const struct bucket *avoid,
			 struct chain_parts *parts)
{
	struct bucket *bucket;
	unsigned int i;

	/* The arrays, some 4 KiB, are not cleared: nothing beyond the counts is read. */
	parts->slot_count = parts->bucket_count = parts->bucket_used = 0;
	chain_for_each(table, bucket, home) {
		for (i = 0; i < BUCKET_SLOTS; i++)
			if (bucket->slots[i])
				parts->slots[parts->slot_count++] = bucket->slots[i];
		if (bucket != home && bucket != avoid)
			parts->buckets[parts->bucket_count++] = bucket;
	}
}

void do_chain_extend(struct store_thread *thread, const struct chain_pos *pos,
		     struct bucket *bucket, uint64_t slot)
{
	const struct table *table = thread->table;
	struct bucket *home = pos->home;

	mem_bucket_set_home(table->memory, bucket, index_number(table, home));
	bucket_clear(bucket, home->level, home->epoch);
	slot_store(&bucket->slots[0], slot);
	do_chain_seal(table, home, bucket);
	bucket_link(pos->tail, bucket_ref(table->region, bucket));
	do_chain_seal(table, home, pos->tail);
	stat_add(&thread->stats.overflow_buckets, 1);
}

/* Overflow buckets that @count slots need beside the home bucket. */
static unsigned int overflow_for(unsigned int count)
{
	return count <= BUCKET_SLOTS ? 0 : (count - 1) / BUCKET_SLOTS;
}

void do_chain_write(const struct table *table, struct bucket *home, uint8_t level,
		    const uint64_t *slots, unsigned int count, struct chain_parts *parts)
{
	unsigned int n = overflow_for(count), i;
	struct bucket *next = NULL, *bucket;

	/*
	 * From the end: each bucket is sealed before the one that leads to it. The buckets already
	 * have the epoch that chain_move_end() gives the home bucket.
	 */
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

/* The buckets go through the limbo: readers without a lock may be in them (LOOKUP-1). */
void chain_parts_retire(struct store_thread *thread, struct chain_parts *parts,
			struct retired *retired)
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

/* Whether one more chain may be shortened in this second (INDEX-4). Counts it. */
static bool chain_move_allowed(struct store_thread *thread)
{
	struct table *table = thread->table;
	uint64_t now_s = thread->now_ns / 1000000000u;
	uint64_t then = atomic_load_explicit(&table->chain_moves_s, memory_order_relaxed);

	/* Threads' clocks differ by a batch. Only forward: else a second would have two budgets. */
	if (now_s > then && atomic_compare_exchange_strong(&table->chain_moves_s, &then, now_s))
		atomic_store(&table->chain_moves, 0);
	return atomic_fetch_add(&table->chain_moves, 1) < CHAIN_MOVES_MAX;
}

bool do_chain_shorten(struct store_thread *thread, struct bucket *home, struct bucket *avoid,
		      struct bucket *spare, struct retired *retired)
{
	const struct table *table = thread->table;
	struct chain_parts parts;
	unsigned int needed;

	do_chain_take_apart(table, home, avoid, &parts);
	needed = overflow_for(parts.slot_count);
	/* To replace @avoid the chain is always written. */
	if (!avoid) {
		needed = overflow_for(parts.slot_count + SPARE_SLOTS);
		if (needed >= parts.bucket_count)
			return false;
	}
	if (!chain_move_allowed(thread))
		return false;
	if (avoid) {
		/* The last use may have left the lock set, and nothing would clear it. */
		bucket_clear(spare, home->level, home->epoch);
		parts.buckets[parts.bucket_count++] = spare;
		stat_add(&thread->stats.overflow_buckets, 1);
	}
	chain_move_begin(home);
	do_chain_write(table, home, home->level, parts.slots, parts.slot_count, &parts);
	/* @avoid is not in parts, so it is not retired with them. */
	if (avoid) {
		stat_sub(&thread->stats.overflow_buckets, 1);
		retired->buckets[retired->count++] = avoid;
	}
	chain_parts_retire(thread, &parts, retired);
	stat_add(&thread->stats.chains_shortened, 1);
	return true;
}

/* In the order of TABLE-1: the item is invalid before its slot is cleared. */
void do_remove(struct store_thread *thread, struct chain_pos *pos, struct retired *retired)
{
	item_unpin(thread, pos->item);
	item_uncount(thread, pos->item);
	item_invalidate(pos->item);
	slot_store(pos->slot, 0);
	do_chain_seal(thread->table, pos->home, pos->bucket);
	stat_add(&thread->stats.removes, 1);
	if (pos->home->overflow)
		do_chain_shorten(thread, pos->home, NULL, NULL, retired);
	do_moving_note_item(thread->table, pos->item);
}
