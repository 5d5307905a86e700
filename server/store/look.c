/* SPDX-License-Identifier: MIT */
#include "server/store/look.h"

#include <string.h>

#include "common/util/clock.h"
#include "common/util/spin.h"
#include "server/store/index.h"
#include "common/util/stat.h"

/* What one look at a key, a slot or an item gives. */
enum look {
	LOOK_FOUND,
	LOOK_MISSING,
	LOOK_AGAIN, /* it was being changed */
};

/* Looks again and again, with pauses, until LOOK_NS_MAX. */
struct patience {
	uint64_t since_ns;
};

static bool patience_left(struct table_writer *writer, struct patience *patience)
{
	uint64_t now = clock_ns();

	stat_add(&writer->stats.look_retries, 1);
	if (!patience->since_ns)
		patience->since_ns = now;
	spin_pause(now - patience->since_ns);
	return now - patience->since_ns < LOOK_NS_MAX;
}

/* Header and key of an item, as they were at one instant. */
struct peeked {
	uint8_t key[KEY_MAX];
	struct item head;
};

static bool item_peek(const struct table *table, const struct item *item, struct peeked *peeked)
{
	uint64_t sum = item_sum_first(item);

	if (sum == ITEM_SUM_INVALID)
		return false;
	racy_copy(&peeked->head, item, sizeof(*item));
	if (peeked->head.key_len < 1 || peeked->head.key_len > KEY_MAX ||
	    region_offset(table->region, item) +
			    item_bytes(peeked->head.key_len, peeked->head.value_len) >
		    table->region->bytes)
		return false;
	racy_copy(peeked->key, item->data, peeked->head.key_len);
	peeked->head.sum = sum;
	return item_sum_again(item) == sum;
}

/* Whether the slot leads to the key (L4). */
static enum look slot_look(const struct table *table, const uint64_t *slot_at, uint64_t slot,
			   const void *key, uint32_t key_len, struct looked *looked)
{
	struct item *item = slot_item(table, slot);
	struct peeked peeked;

	if (!item_peek(table, item, &peeked))
		return LOOK_AGAIN;
	if (peeked.head.key_len == key_len && !memcmp(peeked.key, key, key_len)) {
		looked->item = item;
		looked->head = peeked.head;
		return LOOK_FOUND;
	}
	if (slot_follow(slot_at) != slot || item_sum_again(item) != peeked.head.sum)
		return LOOK_AGAIN;
	return LOOK_MISSING;
}

static enum look bucket_look(const struct table *table, const struct bucket *bucket, uint64_t hash,
			     const void *key, uint32_t key_len, struct looked *looked)
{
	enum look look = LOOK_MISSING;
	unsigned int i;

	for (i = 0; look == LOOK_MISSING && i < BUCKET_SLOTS; i++) {
		uint64_t slot = slot_follow(&bucket->slots[i]);

		if (slot && slot_tag(slot) == hash_tag(hash))
			look = slot_look(table, &bucket->slots[i], slot, key, key_len, looked);
	}
	return look;
}

static enum look look_once(const struct table *table, uint64_t hash, const void *key,
			   uint32_t key_len, struct looked *looked)
{
	const struct bucket *home = index_home(table, hash), *bucket = home;
	uint16_t epoch = chain_epoch_first(home);
	enum look look = LOOK_MISSING;
	unsigned int hops;

	if (epoch & 1 || low_bits(hash, bucket_level_peek(home)) != index_number(table, home))
		return LOOK_AGAIN;
	for (hops = 0; look == LOOK_MISSING && bucket && hops <= CHAIN_MAX; hops++) {
		look = bucket_look(table, bucket, hash, key, key_len, looked);
		bucket = bucket_next(table, bucket);
	}
	if (look == LOOK_MISSING && chain_epoch_again(home) != epoch)
		return LOOK_AGAIN;
	return look;
}

/* Copies from an item that was seen valid. False: it was changed meanwhile (L2, L3). */
static bool looked_copy(const struct looked *looked, void *to, const void *from, size_t bytes)
{
	bool stays = item_bytes(looked->head.key_len, looked->head.value_len) >= LIMBO_ITEM_BYTES;

	if (bytes)
		racy_copy(to, from, bytes);
	return stays || item_sum_again(looked->item) == looked->head.sum;
}

/* One look, and what is to be copied of it. */
typedef enum look (*look_fn)(struct table_writer *writer, struct looked *looked, void *arg);

static enum wire_status look_until(struct table_writer *writer, uint64_t hash, const void *key,
				   uint32_t key_len, struct looked *looked, look_fn use, void *arg)
{
	struct patience patience = { 0 };
	enum look look;

	do {
		look = look_once(writer->table, hash, key, key_len, looked);
		if (look == LOOK_FOUND && expires_is_over(looked->head.expires, writer->now_ns))
			look = LOOK_MISSING;
		else if (look == LOOK_FOUND)
			look = use(writer, looked, arg);
	} while (look == LOOK_AGAIN && patience_left(writer, &patience));
	return look == LOOK_FOUND ? WIRE_OK : look == LOOK_MISSING ? WIRE_NOT_FOUND : WIRE_BUSY;
}

struct room {
	void *buffer;
	size_t size;
};

static enum look use_value(struct table_writer *writer, struct looked *looked, void *arg)
{
	const struct room *room = arg;

	(void)writer;
	if (looked->head.value_len > room->size ||
	    looked_copy(looked, room->buffer, looked->item->data + looked->head.key_len,
			looked->head.value_len))
		return LOOK_FOUND;
	return LOOK_AGAIN;
}

enum wire_status look_get(struct table_writer *writer, uint64_t hash, const void *key,
			  uint32_t key_len, void *buffer, size_t size, struct looked *looked)
{
	struct room room = { buffer, size };

	return look_until(writer, hash, key, key_len, looked, use_value, &room);
}

/* No room for the copy looks like a copy that was made: the caller tells them apart. */
static enum look use_copy(struct table_writer *writer, struct looked *looked, void *arg)
{
	size_t bytes = item_bytes(looked->head.key_len, looked->head.value_len);
	struct item **copy = arg;

	*copy = mem_alloc(&writer->cache, bytes);
	if (!*copy)
		return LOOK_FOUND;
	memcpy((uint8_t *)*copy + sizeof(uint64_t), (uint8_t *)&looked->head + sizeof(uint64_t),
	       sizeof(**copy) - sizeof(uint64_t));
	if (looked_copy(looked, (*copy)->data, looked->item->data, bytes - sizeof(**copy)))
		return LOOK_FOUND;
	mem_free(&writer->cache, *copy, bytes);
	*copy = NULL;
	return LOOK_AGAIN;
}

enum wire_status look_copy(struct table_writer *writer, uint64_t hash, const void *key,
			   uint32_t key_len, uint64_t seed, struct item **copy)
{
	enum wire_status status;
	struct looked looked;

	*copy = NULL;
	status = look_until(writer, hash, key, key_len, &looked, use_copy, copy);
	if (status)
		return status;
	if (!*copy)
		return WIRE_BUSY;
	item_publish(*copy, item_sum(*copy, seed, region_offset(writer->table->region, *copy)));
	return WIRE_OK;
}

bool look_block_hash(const struct table *table, const void *block, uint64_t *hash)
{
	struct peeked peeked;

	if (!item_peek(table, block, &peeked))
		return false;
	*hash = table_hash(table, peeked.key, peeked.head.key_len);
	return true;
}
