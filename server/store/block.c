/* SPDX-License-Identifier: MIT */
/*
 * Changes of server/store/table.h that begin at a block of memory or a bucket, not at a key: items that are
 * evicted, moved, swept, flushed, or were heard of.
 */
#include <string.h>

#include "server/store/evict.h"
#include "server/store/place.h"
#include "common/util/stat.h"

bool table_remove_block(struct table_writer *writer, uint64_t hash, const void *block,
			enum removal why)
{
	struct bucket *home = index_lock_home(writer->table, hash);
	struct retired retired = { .count = 0 };
	struct place place;
	bool found = do_search_block(writer->table, &place, home, block);

	if (found)
		do_remove(writer, &place, &retired);
	bucket_unlock(home);
	if (!found)
		return false;
	count_removal(writer, why);
	item_free(writer, place.item);
	retired_free(writer, &retired);
	return true;
}

/* Copies the item to @to and makes that the key's. */
static void do_move(struct table_writer *writer, uint64_t hash, struct place *place,
		    struct item *to)
{
	const struct table *table = writer->table;
	struct item *from = place->item;
	size_t sum_bytes = sizeof(from->sum);

	memcpy((uint8_t *)to + sum_bytes, (const uint8_t *)from + sum_bytes,
	       item_bytes(from->key_len, from->value_len) - sum_bytes);
	item_invalidate(from);
	slot_store(place->slot, slot_for(table, hash, to));
	do_seal(table, place->home, place->bucket);
	item_publish(to, item_seal_sum(table, to, item_body_sum(to)));
	stat_add(&writer->stats.moves, 1);
}

enum wire_status table_move_block(struct table_writer *writer, uint64_t hash, const void *block)
{
	struct bucket *home = index_lock_home(writer->table, hash);
	struct item *to = NULL;
	struct place place;
	bool found = do_search_block(writer->table, &place, home, block);

	if (found)
		to = mem_alloc(&writer->cache,
			       item_bytes(place.item->key_len, place.item->value_len));
	if (to)
		do_move(writer, hash, &place, to);
	bucket_unlock(home);
	if (!found)
		return WIRE_NOT_FOUND;
	if (!to)
		return WIRE_NO_SPACE;
	item_free(writer, place.item);
	return WIRE_OK;
}

/* Removes one item of the chain that is over or too old. False: there is none. */
static bool do_sweep_one(struct table_writer *writer, struct bucket *home, uint64_t version,
			 struct item **item, struct retired *retired)
{
	const struct table *table = writer->table;
	struct place place = { .home = home };
	unsigned int i;
	bool over;

	for (place.bucket = home; place.bucket; place.bucket = bucket_next(table, place.bucket)) {
		for (i = 0; i < BUCKET_SLOTS; i++) {
			if (!place.bucket->slots[i])
				continue;
			place.item = slot_item(table, place.bucket->slots[i]);
			over = expires_is_over(place.item->expires, writer->now_ns);
			if (!over && place.item->version > version)
				continue;
			place.slot = &place.bucket->slots[i];
			do_remove(writer, &place, retired);
			stat_add(&writer->stats.expired, over);
			stat_add(&writer->stats.flushed, !over);
			*item = place.item;
			return true;
		}
	}
	return false;
}

void table_sweep_bucket(struct table_writer *writer, uint64_t number, uint64_t version)
{
	struct retired retired;
	struct bucket *home;
	struct item *item;
	bool found;

	do {
		retired.count = 0;
		home = index_lock_number(writer->table, number);
		found = do_sweep_one(writer, home, version, &item, &retired);
		bucket_unlock(home);
		if (found) {
			item_free(writer, item);
			retired_free(writer, &retired);
			count_keys(writer, -1);
		}
	} while (found);
}

void table_access(struct table_writer *writer, uint64_t hash)
{
	const struct table *table = writer->table;
	struct bucket *home = index_home(table, hash), *bucket;
	uint16_t tag = hash_tag(hash);
	unsigned int i;

	/* What is being changed just now is in use anyway: nobody waits to note that. */
	if (!bucket_trylock(home))
		return;
	for (bucket = home; bucket; bucket = bucket_next(table, bucket)) {
		for (i = 0; i < BUCKET_SLOTS; i++) {
			struct item *item;

			if (!bucket->slots[i] || slot_tag(bucket->slots[i]) != tag)
				continue;
			item = slot_item(table, bucket->slots[i]);
			item_access_store(item, evict_touched(writer, item_access_peek(item)));
		}
	}
	bucket_unlock(home);
	stat_add(&writer->stats.accesses, 1);
}
