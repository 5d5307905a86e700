/* SPDX-License-Identifier: MIT */
#include "server/table.h"

#include <stdio.h>
#include <string.h>

#include "common/barrier.h"
#include "server/stat.h"

/* Where a key is, or where one could be put. */
struct place {
	struct bucket *home;
	struct bucket *bucket; /* of the slot */
	uint64_t *slot;	       /* NULL: not there */
	struct item *item;
	/* for an insert: */
	struct bucket *tail;	/* last of the chain */
	struct bucket *free_in; /* first bucket of the chain with an empty slot, or NULL */
	uint64_t *free_slot;
	unsigned int length; /* overflow buckets in the chain */
};

int table_writer_init(struct table_writer *writer, struct table *table, struct memory *memory,
		      uint8_t id)
{
	*writer = (struct table_writer){ .table = table, .id = id };
	return mem_cache_init(&writer->cache, memory);
}

void table_writer_release(struct table_writer *writer)
{
	mem_cache_release(&writer->cache);
}

static struct bucket *home_bucket(const struct table *table, uint64_t hash)
{
	const struct geometry *g = &table->region->geometry;

	return region_at(table->region, geometry_bucket_offset(g, geometry_home(g, hash)));
}

static struct bucket *next_bucket(const struct table *table, const struct bucket *bucket)
{
	uint32_t overflow = bucket_overflow_peek(bucket);

	return overflow ? region_at(table->region, (uint64_t)overflow * BUCKET_BYTES) : NULL;
}

static struct item *slot_item(const struct table *table, uint64_t slot)
{
	return region_at(table->region, slot_offset(slot));
}

void table_prefetch_bucket(const struct table *table, uint64_t hash)
{
	const struct bucket *bucket = home_bucket(table, hash);

	__builtin_prefetch(bucket, 1);
	__builtin_prefetch((const uint8_t *)bucket + 64, 1);
}

void table_prefetch_item(const struct table *table, uint64_t hash)
{
	const struct bucket *bucket = home_bucket(table, hash);
	uint16_t tag = hash_tag(hash);
	unsigned int i;

	for (i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t slot = slot_peek(&bucket->slots[i]);

		if (slot && slot_tag(slot) == tag) {
			const uint8_t *item = (const uint8_t *)slot_item(table, slot);

			__builtin_prefetch(item, 1);
			__builtin_prefetch(item + 64, 1);
			return;
		}
	}
}

static bool item_has_key(const struct item *item, const void *key, uint32_t key_len)
{
	return item->key_len == key_len && !memcmp(item->data, key, key_len);
}

/* Looks for the key in one bucket and notes the first empty slot. */
static bool do_search_bucket(const struct table *table, struct place *place, struct bucket *bucket,
			     uint16_t tag, const void *key, uint32_t key_len)
{
	unsigned int i;

	for (i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t slot = bucket->slots[i];

		if (!slot) {
			if (!place->free_in) {
				place->free_in = bucket;
				place->free_slot = &bucket->slots[i];
			}
			continue;
		}
		if (slot_tag(slot) != tag || !item_has_key(slot_item(table, slot), key, key_len))
			continue;
		place->bucket = bucket;
		place->slot = &bucket->slots[i];
		place->item = slot_item(table, slot);
		return true;
	}
	return false;
}

static bool do_search(const struct table *table, struct place *place, struct bucket *home,
		      uint64_t hash, const void *key, uint32_t key_len)
{
	struct bucket *bucket;

	*place = (struct place){ .home = home };
	for (bucket = home; bucket; bucket = next_bucket(table, bucket)) {
		if (do_search_bucket(table, place, bucket, hash_tag(hash), key, key_len))
			return true;
		if (bucket != home)
			place->length++;
		place->tail = bucket;
	}
	return false;
}

static void do_seal(const struct table *table, struct bucket *bucket)
{
	uint64_t offset = region_offset(table->region, bucket);

	bucket_seal(bucket, bucket_sum(bucket, table->region->geometry.incarnation, offset));
}

static uint64_t slot_for(const struct table *table, uint64_t hash, const struct item *item)
{
	return slot_make(hash_tag(hash), region_offset(table->region, item),
			 item_bytes(item->key_len, item->value_len));
}

/* A version above that of the item that is replaced and above all others of this writer. */
static uint64_t next_version(struct table_writer *writer, const struct item *old)
{
	uint64_t seen = old ? old->version >> WRITER_BITS : 0;

	if (writer->clock < seen)
		writer->clock = seen;
	return ++writer->clock << WRITER_BITS | writer->id;
}

/* Fills an item that no reader takes for valid. */
static void item_fill(struct item *item, const struct table_put *put)
{
	item->expires = 0;
	item->value_len = put->value_len;
	item->flags = put->flags;
	item->key_len = (uint16_t)put->key_len;
	item->access = 0;
	memcpy(item->data, put->key, put->key_len);
	if (put->value && put->value_len)
		memcpy(item->data + put->key_len, put->value, put->value_len);
}

static struct item *item_alloc(struct table_writer *writer, const struct table_put *put)
{
	struct item *item = mem_alloc(&writer->cache, item_bytes(put->key_len, put->value_len));

	/* Recycled memory may still look like the valid item it once was: not while it is filled. */
	if (item)
		item_invalidate(item);
	return item;
}

static void item_free(struct table_writer *writer, struct item *item)
{
	mem_free(&writer->cache, item, item_bytes(item->key_len, item->value_len));
}

static uint64_t item_seal_sum(const struct table *table, const struct item *item, uint64_t body)
{
	return item_sum_of(item, body, table->region->geometry.incarnation,
			   region_offset(table->region, item));
}

static bool fits_in_place(const struct item *old, const struct table_put *put)
{
	return mem_class(item_bytes(old->key_len, old->value_len)) ==
	       mem_class(item_bytes(put->key_len, put->value_len));
}

/* Rewrites the item where it is. Clients' cached slots stay good, unless the length changed. */
static void do_replace_in_place(struct table_writer *writer, uint64_t hash, struct place *place,
				struct table_put *put)
{
	const struct table *table = writer->table;
	struct item *item = place->item;

	item_invalidate(item);
	item->version = next_version(writer, item);
	item_fill(item, put);
	put->slot = slot_for(table, hash, item);
	put->version = item->version;
	if (put->slot != *place->slot) {
		slot_store(place->slot, put->slot);
		do_seal(table, place->bucket);
	}
	item_publish(item, item_seal_sum(table, item, item_body_sum(item)));
	stat_add(&writer->stats.replaces_in_place, 1);
}

/* Adds an overflow bucket with @slot in it to the chain. */
static bool do_extend_chain(struct table_writer *writer, struct place *place, uint64_t slot)
{
	const struct table *table = writer->table;
	struct bucket *bucket;

	if (place->length >= CHAIN_MAX) {
		stat_add(&writer->stats.chain_full, 1);
		return false;
	}
	bucket = mem_alloc(&writer->cache, BUCKET_BYTES);
	if (!bucket)
		return false;
	memset(bucket, 0, sizeof(*bucket));
	bucket->level = place->home->level;
	bucket->slots[0] = slot;
	do_seal(table, bucket);
	bucket_link(place->tail, (uint32_t)(region_offset(table->region, bucket) / BUCKET_BYTES));
	do_seal(table, place->tail);
	stat_add(&writer->stats.overflow_buckets, 1);
	return true;
}

/* Points the table at the new item and makes it valid. @body is its item_body_sum(). */
static enum wire_status do_place(struct table_writer *writer, uint64_t hash, struct place *place,
				 struct item *item, uint64_t body, struct table_put *put)
{
	const struct table *table = writer->table;
	uint64_t slot = slot_for(table, hash, item);

	item->version = next_version(writer, place->item);
	if (place->slot) {
		item_invalidate(place->item);
		slot_store(place->slot, slot);
		do_seal(table, place->bucket);
		stat_add(&writer->stats.replaces_elsewhere, 1);
	} else if (place->free_in) {
		slot_store(place->free_slot, slot);
		do_seal(table, place->free_in);
		stat_add(&writer->stats.inserts, 1);
	} else if (do_extend_chain(writer, place, slot)) {
		stat_add(&writer->stats.inserts, 1);
	} else {
		return WIRE_NO_SPACE;
	}
	item_publish(item, item_seal_sum(table, item, body));
	put->slot = slot;
	put->version = item->version;
	return WIRE_OK;
}

static enum wire_status do_put(struct table_writer *writer, uint64_t hash, struct place *place,
			       struct table_put *put)
{
	enum wire_status status;
	struct item *item;

	if (place->slot && fits_in_place(place->item, put)) {
		do_replace_in_place(writer, hash, place, put);
		place->item = NULL;
		return WIRE_OK;
	}
	item = item_alloc(writer, put);
	if (!item) {
		place->item = NULL;
		return WIRE_NO_SPACE;
	}
	item_fill(item, put);
	status = do_place(writer, hash, place, item, item_body_sum(item), put);
	if (status)
		item_free(writer, item);
	return status;
}

enum wire_status table_put(struct table_writer *writer, uint64_t hash, struct table_put *put)
{
	struct bucket *home = home_bucket(writer->table, hash);
	enum wire_status status;
	struct place place;

	bucket_lock(home);
	do_search(writer->table, &place, home, hash, put->key, put->key_len);
	status = do_put(writer, hash, &place, put);
	bucket_unlock(home);
	if (!status && place.item)
		item_free(writer, place.item);
	return status;
}

struct item *table_reserve(struct table_writer *writer, const struct table_put *put)
{
	struct item *item = item_alloc(writer, put);

	if (item)
		item_fill(item, put);
	return item;
}

enum wire_status table_commit(struct table_writer *writer, uint64_t hash, struct item *item,
			      struct table_put *put)
{
	struct bucket *home = home_bucket(writer->table, hash);
	uint64_t body = item_body_sum(item);
	enum wire_status status;
	struct place place;

	bucket_lock(home);
	do_search(writer->table, &place, home, hash, item->data, item->key_len);
	status = do_place(writer, hash, &place, item, body, put);
	bucket_unlock(home);
	if (status)
		item_free(writer, item);
	else if (place.item)
		item_free(writer, place.item);
	return status;
}

void table_abandon(struct table_writer *writer, struct item *item)
{
	item_invalidate(item);
	item_free(writer, item);
}

enum wire_status table_delete(struct table_writer *writer, uint64_t hash, const void *key,
			      uint32_t key_len)
{
	struct bucket *home = home_bucket(writer->table, hash);
	struct place place;

	bucket_lock(home);
	if (do_search(writer->table, &place, home, hash, key, key_len)) {
		item_invalidate(place.item);
		slot_store(place.slot, 0);
		do_seal(writer->table, place.bucket);
	}
	bucket_unlock(home);
	if (!place.slot)
		return WIRE_NOT_FOUND;
	stat_add(&writer->stats.removes, 1);
	item_free(writer, place.item);
	return WIRE_OK;
}

enum wire_status table_get(struct table_writer *writer, uint64_t hash, const void *key,
			   uint32_t key_len, void *buffer, size_t size, struct table_value *value)
{
	struct bucket *home = home_bucket(writer->table, hash);
	struct place place;

	bucket_lock(home);
	if (do_search(writer->table, &place, home, hash, key, key_len)) {
		value->version = place.item->version;
		value->value_len = place.item->value_len;
		value->flags = place.item->flags;
		if (value->value_len && value->value_len <= size)
			memcpy(buffer, place.item->data + key_len, value->value_len);
	}
	bucket_unlock(home);
	return place.slot ? WIRE_OK : WIRE_NOT_FOUND;
}

/* A copy of the item, its sum excepted. */
static struct item *do_copy(struct table_writer *writer, const struct item *item)
{
	size_t bytes = item_bytes(item->key_len, item->value_len);
	struct item *copy = mem_alloc(&writer->cache, bytes);

	if (!copy)
		return NULL;
	item_invalidate(copy);
	memcpy((uint8_t *)copy + sizeof(copy->sum), (const uint8_t *)item + sizeof(copy->sum),
	       bytes - sizeof(copy->sum));
	return copy;
}

enum wire_status table_copy(struct table_writer *writer, uint64_t hash, const void *key,
			    uint32_t key_len, uint64_t seed, struct item **out)
{
	struct bucket *home = home_bucket(writer->table, hash);
	struct place place;

	*out = NULL;
	bucket_lock(home);
	if (do_search(writer->table, &place, home, hash, key, key_len))
		*out = do_copy(writer, place.item);
	bucket_unlock(home);
	if (!place.slot)
		return WIRE_NOT_FOUND;
	if (!*out)
		return WIRE_BUSY;
	item_publish(*out, item_sum(*out, seed, region_offset(writer->table->region, *out)));
	return WIRE_OK;
}
