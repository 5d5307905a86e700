/* SPDX-License-Identifier: MIT */
#include "server/store/chain.h"

#include <string.h>

#include "common/util/stat.h"

static bool item_has_key(const struct item *item, const void *key, uint32_t key_len)
{
	return item->key_len == key_len && !memcmp(item->data, key, key_len);
}

/* Looks for the key in one bucket and notes the first empty slot. */
static bool do_bucket_find(const struct table *table, struct chain_pos *pos, struct bucket *bucket,
			   uint16_t tag, const void *key, uint32_t key_len)
{
	unsigned int i;

	for (i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t slot = bucket->slots[i];

		if (!slot) {
			if (!pos->free_in) {
				pos->free_in = bucket;
				pos->free_slot = &bucket->slots[i];
			}
			continue;
		}
		if (slot_tag(slot) != tag || !item_has_key(slot_item(table, slot), key, key_len))
			continue;
		pos->bucket = bucket;
		pos->slot = &bucket->slots[i];
		pos->item = slot_item(table, slot);
		return true;
	}
	return false;
}

void do_chain_find(const struct store_thread *thread, struct chain_pos *pos, struct bucket *home,
		   uint64_t hash, const void *key, uint32_t key_len)
{
	const struct table *table = thread->table;
	struct bucket *bucket;

	*pos = (struct chain_pos){ .home = home };
	for (bucket = home; bucket; bucket = bucket_next(table, bucket)) {
		if (do_bucket_find(table, pos, bucket, hash_tag(hash), key, key_len)) {
			pos->live = !expires_is_over(pos->item->expires, thread->now_ns);
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
	for (bucket = home; bucket; bucket = bucket_next(table, bucket)) {
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

uint64_t slot_for(const struct table *table, uint64_t hash, const struct item *item)
{
	return slot_make(hash_tag(hash), region_offset(table->region, item),
			 item_bytes(item->key_len, item->value_len));
}

uint64_t next_version(struct store_thread *thread, const struct item *old)
{
	uint64_t seen = old ? old->version >> THREAD_ID_BITS : 0, clock = thread->clock;

	if (clock < thread->floor)
		clock = thread->floor;
	if (clock < seen)
		clock = seen;
	/* Flushes read it: server/store/maintenance.c. */
	__atomic_store_n(&thread->clock, ++clock, __ATOMIC_RELAXED);
	return clock << THREAD_ID_BITS | thread->id;
}

void item_count(struct store_thread *thread, const struct item *item)
{
	stat_add(&thread->stats.live_bytes, item_bytes(item->key_len, item->value_len));
	stat_add(&thread->stats.expiring, item->expires != 0);
}

void item_uncount(struct store_thread *thread, const struct item *item)
{
	stat_sub(&thread->stats.live_bytes, item_bytes(item->key_len, item->value_len));
	stat_sub(&thread->stats.expiring, item->expires != 0);
}

void count_keys(struct store_thread *thread, int64_t n)
{
	thread->items_unreported += n;
	if (thread->items_unreported < ITEMS_UNREPORTED_MAX &&
	    thread->items_unreported > -ITEMS_UNREPORTED_MAX)
		return;
	atomic_fetch_add_explicit(&thread->table->items, thread->items_unreported,
				  memory_order_relaxed);
	thread->items_unreported = 0;
}

uint64_t item_seal_sum(const struct table *table, const struct item *item, uint64_t body)
{
	return item_sum_of(item, body, table->region->geometry.incarnation,
			   region_offset(table->region, item));
}

void item_free(struct store_thread *thread, struct item *item)
{
	size_t bytes = item_bytes(item->key_len, item->value_len);

	if (bytes >= LIMBO_ITEM_BYTES)
		limbo_add(&thread->limbo, &thread->cache, item, bytes);
	else
		mem_free(&thread->cache, item, bytes);
}

void do_remove(struct store_thread *thread, struct chain_pos *pos, struct retired *retired)
{
	item_uncount(thread, pos->item);
	item_invalidate(pos->item);
	slot_store(pos->slot, 0);
	do_chain_seal(thread->table, pos->home, pos->bucket);
	stat_add(&thread->stats.removes, 1);
	if (pos->home->overflow)
		do_chain_shorten(thread, pos->home, NULL, NULL, retired);
}

void count_removal(struct store_thread *thread, enum removal why)
{
	stat_add(&thread->stats.evictions, why == REMOVE_EVICTED);
	stat_add(&thread->stats.flushed, why == REMOVE_FLUSHED);
	count_keys(thread, -1);
}
