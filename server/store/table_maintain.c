/* SPDX-License-Identifier: MIT */
/*
 * Table maintenance: removes, moves and sweeps items that were found by their memory or their
 * bucket, and notes the GETs that clients report.
 */
#include "server/store/table_maintain.h"

#include <string.h>

#include <urcu-qsbr.h>

#include "common/util/stat.h"
#include "server/store/access_time.h"
#include "server/store/chain.h"
#include "server/store/curve.h"
#include "server/store/evicted.h"
#include "server/store/moving.h"

/* Bytes of a large item that are moved between two quiescent states: less than 50 us. */
#define MOVE_PIECE_BYTES (256u << 10)

/* Whether the item, in its locked bucket, may be evicted; then it is counted. */
static bool do_may_evict(struct store_thread *thread, const struct item *item)
{
	if (access_time_is_pinned(thread, item))
		return false;
	do_evicted_count(thread, item);
	return true;
}

/*
 * The slot decides under the lock: the block may have been freed or reused since @hash was read
 * from it without a lock, and then no slot of the chain leads there, or a slot whose item may be
 * removed as well.
 */
bool table_remove_block(struct store_thread *thread, uint64_t hash, const void *block,
			enum removal why)
{
	struct bucket *home = index_lock_home(thread->table, hash);
	struct retired retired = { .count = 0 };
	struct chain_pos pos;
	bool found = do_chain_find_block(thread->table, &pos, home, block);

	/* The item may have been pinned since it was chosen. */
	if (found && why == REMOVAL_EVICTED)
		found = do_may_evict(thread, pos.item);
	if (found)
		do_remove(thread, &pos, &retired);
	bucket_unlock(home);
	if (!found)
		return false;
	count_removal(thread, why);
	item_free(thread, pos.item);
	retired_free(thread, &retired);
	return true;
}

/* Finds the slot of the item of that version in the chain. */
static bool do_find_version(const struct table *table, struct chain_pos *pos, struct bucket *home,
			    uint64_t version)
{
	*pos = (struct chain_pos){ .home = home };
	chain_for_each(table, pos->bucket, home) {
		for (unsigned int i = 0; i < BUCKET_SLOTS; i++) {
			pos->slot = &pos->bucket->slots[i];
			pos->item = *pos->slot ? slot_item(table, *pos->slot) : NULL;
			if (pos->item && pos->item->version == version)
				return true;
		}
	}
	return false;
}

void table_remove_version(struct store_thread *thread, uint64_t hash, uint64_t version)
{
	struct bucket *home = index_lock_home(thread->table, hash);
	struct retired retired = { .count = 0 };
	struct chain_pos pos;
	bool found = do_find_version(thread->table, &pos, home, version);

	if (found)
		do_remove(thread, &pos, &retired);
	bucket_unlock(home);
	if (!found)
		return;
	count_keys(thread, -1);
	item_free(thread, pos.item);
	retired_free(thread, &retired);
}

/*
 * Makes @to the key's item, in the order of TABLE-1. It has a copy of all that follows the item's
 * header. The new sum is made from the original's bytes, so that a copy that differs does not
 * verify.
 */
static void do_move(struct store_thread *thread, uint64_t hash, struct chain_pos *pos,
		    struct item *to)
{
	const struct table *table = thread->table;
	struct item *from = pos->item;
	uint64_t body = item_body_sum(from, &table->region->sum_key);
	size_t sum_bytes = sizeof(from->sum);

	/* All but the sum: @to stays invalid until it is published. */
	memcpy((uint8_t *)to + sum_bytes, (const uint8_t *)from + sum_bytes,
	       sizeof(*from) - sum_bytes);
	keep_change_begin(thread->change, table->region->base, from, from->sum, to, 0);
	item_invalidate(from);
	slot_store(pos->slot, slot_for(table, hash, to));
	do_chain_seal(table, pos->home, pos->bucket);
	item_publish(to, item_seal_sum(table, to, body));
	keep_change_end(thread->change);
	stat_add(&thread->stats.moves, 1);
}

/* Whether the item is still where it was, under the lock, with @pos of its slot. */
static bool do_move_find(const struct table_move *move, struct chain_pos *pos, struct bucket *home)
{
	return do_chain_find_block(move->thread->table, pos, home, move->item) &&
	       pos->item->version == move->version;
}

/* Whether the item is still there: then it stays until the next quiescent state. */
static bool move_find(const struct table_move *move)
{
	struct bucket *home = index_lock_home(move->thread->table, move->hash);
	struct chain_pos pos;
	bool found = do_move_find(move, &pos, home);

	bucket_unlock(home);
	return found;
}

void table_move_cancel(struct table_move *move)
{
	mem_free(&move->thread->cache, move->to, move->bytes);
	move->to = NULL;
}

/* Makes the complete copy the key's item. */
static enum wire_status move_end(struct table_move *move)
{
	struct bucket *home = index_lock_home(move->thread->table, move->hash);
	struct chain_pos pos;
	bool found = do_move_find(move, &pos, home);

	if (found)
		do_move(move->thread, move->hash, &pos, move->to);
	bucket_unlock(home);
	if (!found) {
		table_move_cancel(move);
		return WIRE_NOT_FOUND;
	}
	item_free(move->thread, pos.item);
	return WIRE_OK;
}

enum wire_status table_move_step(struct table_move *move, uint64_t bytes_max)
{
	uint64_t bytes = move->bytes - sizeof(*move->item) - move->done;

	if (!move_find(move)) {
		table_move_cancel(move);
		return WIRE_NOT_FOUND;
	}
	if (bytes > bytes_max)
		bytes = bytes_max;
	/* LOOKUP-3: it is large, so it does not change. */
	racy_copy(move->to->tail + move->done, move->item->tail + move->done, bytes);
	move->done += bytes;
	return move->done < move->bytes - sizeof(*move->item) ? WIRE_BUSY : move_end(move);
}

/* With the lock held: only now is the length known, so the block is allocated now, quickly. */
static enum wire_status do_move_small(struct store_thread *thread, uint64_t hash,
				      struct chain_pos *pos)
{
	const struct item *from = pos->item;
	size_t bytes = item_bytes(from);
	struct item *to = mem_alloc(&thread->cache, bytes);

	/* The item may be in a wider block itself. */
	if (!to && thread->table->eviction == EVICTION_NONE)
		to = mem_alloc_wider(&thread->cache, bytes);
	if (!to)
		return WIRE_NO_SPACE;
	memcpy(to->tail, from->tail, bytes - sizeof(*from));
	do_move(thread, hash, pos, to);
	return WIRE_OK;
}

enum wire_status table_move_begin(struct table_move *move, struct store_thread *thread,
				  uint64_t hash, const void *block)
{
	struct bucket *home = index_lock_home(thread->table, hash);
	enum wire_status status = WIRE_NOT_FOUND;
	struct chain_pos pos;
	bool large = false;

	if (do_chain_find_block(thread->table, &pos, home, block)) {
		move->item = pos.item;
		move->version = pos.item->version;
		move->bytes = item_bytes(pos.item);
		large = move->bytes >= LARGE_BYTES;
		status = large ? WIRE_BUSY : do_move_small(thread, hash, &pos);
	}
	bucket_unlock(home);
	if (!status)
		item_free(thread, pos.item);
	if (!large)
		return status;
	move->thread = thread;
	move->hash = hash;
	move->done = 0;
	move->to = mem_alloc(&thread->cache, move->bytes);
	return move->to ? WIRE_BUSY : WIRE_NO_SPACE;
}

enum wire_status table_move_block(struct store_thread *thread, uint64_t hash, const void *block)
{
	struct table_move move;
	enum wire_status status = table_move_begin(&move, thread, hash, block);

	while (status == WIRE_BUSY) {
		status = table_move_step(&move, MOVE_PIECE_BYTES);
		/* Other threads' grace periods don't wait until all is copied. */
		if (status == WIRE_BUSY)
			rcu_quiescent_state();
	}
	return status;
}

/* Keys of @parts whose hashes are from @first to @last in the order of scans, hash_order(). */
struct key_range {
	const uint64_t *parts; /* KEY_PARTS_WORDS */
	uint64_t first, last;
};

/* Which items are removed beside those that have expired. */
struct sweep {
	uint64_t version;	       /* those with this version at most; 0: none */
	const struct key_range *range; /* those with a key in it; NULL: none */
};

static bool range_has(const struct key_range *range, uint64_t hash)
{
	uint64_t order = hash_order(hash);

	return key_parts_have(range->parts, hash) && order >= range->first && order <= range->last;
}

static bool do_is_swept(const struct table *table, const struct sweep *sweep,
			const struct item *item)
{
	uint64_t hash;

	if (!sweep->range)
		return item->version <= sweep->version;
	hash = table_hash(table, item_key(item), item_key_len(item));
	if (!range_has(sweep->range, hash))
		return false;
	if (table_samples(table, hash))
		curve_remove(table->curve, hash);
	return true;
}

/* Removes one item. False: there is none. */
static bool do_sweep_one(struct store_thread *thread, struct bucket *home,
			 const struct sweep *sweep, struct item **item, struct retired *retired)
{
	const struct table *table = thread->table;
	struct chain_pos pos = { .home = home };
	unsigned int i;
	bool expired;

	chain_for_each(table, pos.bucket, home) {
		for (i = 0; i < BUCKET_SLOTS; i++) {
			if (!pos.bucket->slots[i])
				continue;
			pos.item = slot_item(table, pos.bucket->slots[i]);
			do_access_time_settle(thread, pos.item);
			expired = is_expired(pos.item->expires, thread->now_ns);
			if (!expired && !do_is_swept(table, sweep, pos.item))
				continue;
			pos.slot = &pos.bucket->slots[i];
			do_remove(thread, &pos, retired);
			stat_add(&thread->stats.expired, expired);
			stat_add(&thread->stats.flushed, !expired && !sweep->range);
			stat_add(&thread->stats.dropped, !expired && sweep->range);
			*item = pos.item;
			return true;
		}
	}
	return false;
}

/*
 * Sweeps the chain of the home bucket that @lock finds for @at: index_lock_number() or
 * index_lock_home(). Returns its level when nothing more was found. The chain is searched from its
 * start after each removal, which may have moved its slots.
 */
static uint8_t bucket_sweep(struct store_thread *thread,
			    struct bucket *(*lock)(const struct table *table, uint64_t at),
			    uint64_t at, const struct sweep *sweep)
{
	struct retired retired;
	struct bucket *home;
	struct item *item;
	uint8_t level;
	bool found;

	do {
		retired.count = 0;
		home = lock(thread->table, at);
		level = home->level;
		found = do_sweep_one(thread, home, sweep, &item, &retired);
		bucket_unlock(home);
		if (found) {
			item_free(thread, item);
			retired_free(thread, &retired);
			count_keys(thread, -1);
		}
	} while (found);
	return level;
}

void table_sweep_bucket(struct store_thread *thread, uint64_t number, uint64_t version)
{
	bucket_sweep(thread, index_lock_number, number, &(struct sweep){ .version = version });
}

void table_drop_bucket(struct store_thread *thread, uint64_t number,
		       const uint64_t parts[KEY_PARTS_WORDS])
{
	const struct key_range range = { .parts = parts, .last = UINT64_MAX };

	bucket_sweep(thread, index_lock_number, number, &(struct sweep){ .range = &range });
}

void moving_clear(struct store_thread *thread, uint32_t segment,
		  const uint64_t parts[KEY_PARTS_WORDS])
{
	const struct key_range range = {
		.parts = parts,
		.first = segment_begin(segment),
		.last = segment_end(segment) - 1,
	};
	const struct sweep sweep = { .range = &range };
	uint64_t at = range.first;

	/* A bucket that is split after it was swept has left no such keys to the new one. */
	do
		at = order_after(at, bucket_sweep(thread, index_lock_home, hash_order(at), &sweep));
	while (at && at <= range.last);
}

/* The record has a hash, but no key: the first item with the tag is taken for the key's. */
unsigned int table_access(struct store_thread *thread, uint64_t hash, uint32_t hits)
{
	const struct table *table = thread->table;
	struct bucket *home = index_home(table, hash), *bucket;
	unsigned int i, buckets = 0;
	const bool sampled = table_samples(table, hash);
	bool found = false;

	/* An access is not worth a wait; a change under way notes an access itself. */
	if (!bucket_trylock(home)) {
		if (sampled)
			curve_lose(table->curve, 1);
		return 1;
	}
	chain_for_each(table, bucket, home) {
		buckets++;
		for (i = 0; i < BUCKET_SLOTS; i++)
			if (bucket->slots[i] && slot_tag(bucket->slots[i]) == hash_tag(hash))
				break;
		if (i == BUCKET_SLOTS)
			continue;
		do_access_time_use(thread, slot_item(table, bucket->slots[i]), hits);
		found = true;
		break;
	}
	bucket_unlock(home);
	/* How long a key that is gone would have stayed is unknown. */
	if (sampled && found)
		curve_hit(table->curve, hash);
	else if (sampled)
		curve_lose(table->curve, 1);
	stat_add(&thread->stats.accesses, 1);
	return buckets;
}

void table_missed(const struct store_thread *thread, uint64_t hash)
{
	if (table_samples(thread->table, hash))
		curve_miss(thread->table->curve, hash, thread->now_ns);
}
