/* SPDX-License-Identifier: MIT */
/*
 * Table maintenance: removes, moves and sweeps items that were found by their memory or their
 * bucket, and notes the GETs that clients report.
 */
#include "server/store/table_maintain.h"

#include <string.h>

#include "common/util/stat.h"
#include "server/store/access_time.h"
#include "server/store/chain.h"

/*
 * The slot decides under the lock: the block may have been freed or reused since @hash was read
 * from it without a lock, and then no slot of that chain leads there, or one whose item may be
 * removed as well.
 */
bool table_remove_block(struct store_thread *thread, uint64_t hash, const void *block,
			enum removal why)
{
	struct bucket *home = index_lock_home(thread->table, hash);
	struct retired retired = { .count = 0 };
	struct chain_pos pos;
	bool found = do_chain_find_block(thread->table, &pos, home, block);

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

/* Copies the item to @to and makes the copy the key's, in the order of T1. */
static void do_move(struct store_thread *thread, uint64_t hash, struct chain_pos *pos,
		    struct item *to)
{
	const struct table *table = thread->table;
	struct item *from = pos->item;
	size_t sum_bytes = sizeof(from->sum);

	/* All but the sum, which covers the place: @to stays invalid until it is published. */
	memcpy((uint8_t *)to + sum_bytes, (const uint8_t *)from + sum_bytes,
	       item_bytes(from->key_len, from->value_len) - sum_bytes);
	item_invalidate(from);
	slot_store(pos->slot, slot_for(table, hash, to));
	do_chain_seal(table, pos->home, pos->bucket);
	item_publish(to, item_seal_sum(table, to, item_body_sum(to)));
	stat_add(&thread->stats.moves, 1);
}

enum wire_status table_move_block(struct store_thread *thread, uint64_t hash, const void *block)
{
	struct bucket *home = index_lock_home(thread->table, hash);
	struct item *to = NULL;
	struct chain_pos pos;
	bool found = do_chain_find_block(thread->table, &pos, home, block);

	/* Quick, so it is allocated with the lock held: its length is known only now. */
	if (found)
		to = mem_alloc(&thread->cache, item_bytes(pos.item->key_len, pos.item->value_len));
	if (to)
		do_move(thread, hash, &pos, to);
	bucket_unlock(home);
	if (!found)
		return WIRE_NOT_FOUND;
	if (!to)
		return WIRE_NO_SPACE;
	item_free(thread, pos.item);
	return WIRE_OK;
}

/* Removes one item that has expired or that a flush of @version covers. False: there is none. */
static bool do_sweep_one(struct store_thread *thread, struct bucket *home, uint64_t version,
			 struct item **item, struct retired *retired)
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
			expired = is_expired(pos.item->expires, thread->now_ns);
			if (!expired && pos.item->version > version)
				continue;
			pos.slot = &pos.bucket->slots[i];
			do_remove(thread, &pos, retired);
			stat_add(&thread->stats.expired, expired);
			stat_add(&thread->stats.flushed, !expired);
			*item = pos.item;
			return true;
		}
	}
	return false;
}

/* The chain is searched from its start after each removal, which may have moved its slots. */
void table_sweep_bucket(struct store_thread *thread, uint64_t number, uint64_t version)
{
	struct retired retired;
	struct bucket *home;
	struct item *item;
	bool found;

	do {
		retired.count = 0;
		home = index_lock_number(thread->table, number);
		found = do_sweep_one(thread, home, version, &item, &retired);
		bucket_unlock(home);
		if (found) {
			item_free(thread, item);
			retired_free(thread, &retired);
			count_keys(thread, -1);
		}
	} while (found);
}

/*
 * The record has a hash and no key, so all items of the chain with the tag count as used: one that
 * has the tag by chance is kept a little longer.
 */
void table_access(struct store_thread *thread, uint64_t hash)
{
	const struct table *table = thread->table;
	struct bucket *home = index_home(table, hash), *bucket;
	uint16_t tag = hash_tag(hash);
	unsigned int i;

	/* An access is not worth waiting for; a change under way notes an access itself. */
	if (!bucket_trylock(home))
		return;
	chain_for_each(table, bucket, home) {
		for (i = 0; i < BUCKET_SLOTS; i++) {
			struct item *item;

			if (!bucket->slots[i] || slot_tag(bucket->slots[i]) != tag)
				continue;
			item = slot_item(table, bucket->slots[i]);
			item_access_store(item, access_time_update(thread, item_access_load(item)));
		}
	}
	bucket_unlock(home);
	stat_add(&thread->stats.accesses, 1);
}
