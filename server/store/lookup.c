/* SPDX-License-Identifier: MIT */
/*
 * Lookups: find keys and copy items inside the server without a lock, verifying what was read, and
 * retry when it was being changed.
 */
#include "server/store/lookup.h"

#include <string.h>

#include "common/util/clock.h"
#include "common/util/spin.h"
#include "common/util/stat.h"
#include "common/sum.h"
#include "server/store/chain.h"

bool backoff_wait(struct store_thread *thread, struct backoff *backoff)
{
	uint64_t now = clock_ns();

	stat_add(&thread->stats.lookup_retries, 1);
	if (!backoff->since_ns)
		backoff->since_ns = now;
	spin_pause(now - backoff->since_ns);
	return now - backoff->since_ns < LOOKUP_NS_MAX;
}

/* Header and key of an item, as they were at one instant. */
struct item_snapshot {
	uint8_t key[KEY_MAX];
	union item_front front;
};

/* False: the item was invalid or changed meanwhile (LOOKUP-2). */
static bool item_snapshot_take(const struct table *table, const struct item *item,
			       struct item_snapshot *snapshot)
{
	struct item *front = &snapshot->front.item;
	uint64_t sum = item_sum_first(item);

	if (sum == ITEM_SUM_INVALID)
		return false;
	/* The copy may be garbage: its lengths are checked before they are used. */
	racy_copy(&snapshot->front, item, sizeof(snapshot->front));
	if (item_key_len(front) < 1 || item_key_len(front) > KEY_MAX ||
	    region_offset(table->region, item) + item_bytes(front) >
		    stat_read(&table->region->bytes))
		return false;
	racy_copy(snapshot->key, (const uint8_t *)item + item_front_bytes(front),
		  item_key_len(front));
	front->sum = sum;
	return item_sum_again(item) == sum;
}

/* Whether the slot leads to the key; if not, with the checks of LOOKUP-4. */
static enum lookup_result slot_lookup(const struct table *table, const uint64_t *slot_at,
				      uint64_t slot, const void *key, uint32_t key_len,
				      struct item_ref *ref)
{
	struct item *item = slot_item(table, slot);
	struct item_snapshot snapshot;

	if (!item_snapshot_take(table, item, &snapshot))
		return LOOKUP_RETRY;
	if (item_key_len(&snapshot.front.item) == key_len && !memcmp(snapshot.key, key, key_len)) {
		ref->item = item;
		ref->front = snapshot.front;
		return LOOKUP_FOUND;
	}
	if (slot_follow(slot_at) != slot || item_sum_again(item) != snapshot.front.item.sum)
		return LOOKUP_RETRY;
	return LOOKUP_MISSING;
}

static enum lookup_result bucket_lookup(const struct table *table, const struct bucket *bucket,
					uint64_t hash, const void *key, uint32_t key_len,
					struct item_ref *ref)
{
	enum lookup_result result = LOOKUP_MISSING;
	unsigned int i;

	for (i = 0; result == LOOKUP_MISSING && i < BUCKET_SLOTS; i++) {
		uint64_t slot = slot_follow(&bucket->slots[i]);

		if (slot && slot_tag(slot) == hash_tag(hash))
			result = slot_lookup(table, &bucket->slots[i], slot, key, key_len, ref);
	}
	return result;
}

static enum lookup_result lookup_once(const struct table *table, uint64_t hash, const void *key,
				      uint32_t key_len, struct item_ref *ref)
{
	const struct bucket *home = index_home(table, hash), *bucket;
	uint16_t epoch = chain_epoch_first(home);
	enum lookup_result result = LOOKUP_MISSING;

	/* Slots are being moved (INDEX-3), or the index size is outdated (INDEX-1). */
	if (epoch & 1 || low_bits(hash, bucket_level_load(home)) != index_number(table, home))
		return LOOKUP_RETRY;
	chain_for_each(table, bucket, home) {
		result = bucket_lookup(table, bucket, hash, key, key_len, ref);
		if (result != LOOKUP_MISSING)
			break;
	}
	/* A key that was found existed, whatever moved; a miss needs that nothing moved. */
	if (result == LOOKUP_MISSING && chain_epoch_again(home) != epoch)
		return LOOKUP_RETRY;
	return result;
}

enum lookup_result lookup_find(const struct store_thread *thread, uint64_t hash, const void *key,
			       uint32_t key_len, struct item_ref *ref)
{
	return lookup_once(thread->table, hash, key, key_len, ref);
}

bool lookup_ref_copy(const struct item_ref *ref, void *to, const void *from, size_t bytes)
{
	/* LOOKUP-3 */
	bool stays = item_bytes(&ref->front.item) >= LIMBO_ITEM_BYTES;

	if (bytes)
		racy_copy(to, from, bytes);
	return stays || item_sum_again(ref->item) == ref->front.item.sum;
}

/* Uses an item that was found: copies it. */
typedef enum lookup_result (*use_fn)(struct store_thread *thread, struct item_ref *ref, void *arg);

/* Looks the key up and uses its item; retries until no change came in between. */
static enum wire_status lookup_until(struct store_thread *thread, uint64_t hash, const void *key,
				     uint32_t key_len, struct item_ref *ref, use_fn use, void *arg)
{
	struct backoff backoff = { 0 };
	enum lookup_result result;

	do {
		result = lookup_once(thread->table, hash, key, key_len, ref);
		if (result == LOOKUP_FOUND && is_expired(ref->front.item.expires, thread->now_ns))
			result = LOOKUP_MISSING;
		else if (result == LOOKUP_FOUND)
			result = use(thread, ref, arg);
	} while (result == LOOKUP_RETRY && backoff_wait(thread, &backoff));
	return result == LOOKUP_FOUND	? WIRE_OK :
	       result == LOOKUP_MISSING ? WIRE_NOT_FOUND :
					  WIRE_BUSY;
}

/* The destination of a value. */
struct value_buffer {
	void *buffer;
	size_t size;
};

static enum lookup_result use_value(struct store_thread *thread, struct item_ref *ref, void *arg)
{
	uint32_t value_len = item_value_len(&ref->front.item);
	const struct value_buffer *to = arg;

	(void)thread;
	if (value_len > to->size ||
	    lookup_ref_copy(ref, to->buffer, lookup_ref_value(ref), value_len))
		return LOOKUP_FOUND;
	return LOOKUP_RETRY;
}

enum wire_status lookup_get(struct store_thread *thread, uint64_t hash, const void *key,
			    uint32_t key_len, void *buffer, size_t size, struct item_ref *ref)
{
	struct value_buffer to = { buffer, size };

	return lookup_until(thread, hash, key, key_len, ref, use_value, &to);
}

/* The destination of a part of a value. */
struct part_buffer {
	void *buffer;
	size_t size;
	uint64_t offset;
	uint32_t len; /* out */
	bool damaged; /* out: use_verified() */
};

static uint32_t part_len(const struct item_ref *ref, const struct part_buffer *to)
{
	uint64_t left = item_value_len(&ref->front.item);

	left = to->offset < left ? left - to->offset : 0;
	return (uint32_t)(left < to->size ? left : to->size);
}

static enum lookup_result use_part(struct store_thread *thread, struct item_ref *ref, void *arg)
{
	struct part_buffer *to = arg;

	(void)thread;
	to->len = part_len(ref, to);
	if (!to->len)
		return LOOKUP_FOUND;
	return lookup_ref_copy(ref, to->buffer, lookup_ref_value(ref) + to->offset, to->len) ?
		       LOOKUP_FOUND :
		       LOOKUP_RETRY;
}

enum wire_status lookup_get_part(struct store_thread *thread, uint64_t hash, const void *key,
				 uint32_t key_len, uint64_t offset, void *buffer, size_t size,
				 struct item_ref *ref, uint32_t *len)
{
	struct part_buffer to = { .buffer = buffer, .size = size, .offset = offset };
	enum wire_status status = lookup_until(thread, hash, key, key_len, ref, use_part, &to);

	*len = to.len;
	return status;
}

/*
 * Copies what the part has of the piece at @at from a copy of the piece, of which it makes the sum:
 * the item may change, or be freed, meanwhile.
 */
static enum lookup_result piece_take(const struct sum_key *key, const struct item_ref *ref,
				     uint64_t at, struct part_buffer *to)
{
	uint64_t value_len = item_value_len(&ref->front.item), stored = lookup_ref_value_sum(ref);
	uint64_t bytes = value_len - at < PIECE_BYTES ? value_len - at : PIECE_BYTES;
	uint64_t first = to->offset > at ? to->offset : at, end = to->offset + to->len;
	const uint8_t *value = lookup_ref_value(ref);
	const uint8_t *sum = value + value_len + at / PIECE_BYTES * PIECE_SUM_BYTES;
	uint8_t copy[PIECE_BYTES];

	if (!lookup_ref_copy(ref, copy, value + at, bytes) ||
	    (has_piece_sums(value_len) && !lookup_ref_copy(ref, &stored, sum, sizeof(stored))))
		return LOOKUP_RETRY;
	to->damaged = sum_bytes(key, copy, bytes) != stored;
	end = end < at + bytes ? end : at + bytes;
	memcpy((uint8_t *)to->buffer + (first - to->offset), copy + (first - at), end - first);
	return LOOKUP_FOUND;
}

static enum lookup_result use_verified(struct store_thread *thread, struct item_ref *ref, void *arg)
{
	const struct sum_key *key = &thread->table->region->sum_key;
	enum lookup_result result = LOOKUP_FOUND;
	struct part_buffer *to = arg;
	uint64_t at = to->offset - to->offset % PIECE_BYTES;

	if (!item_is_long(&ref->front.item))
		return use_part(thread, ref, to);
	to->len = part_len(ref, to);
	if (!to->len)
		return LOOKUP_FOUND;
	for (; result == LOOKUP_FOUND && at < to->offset + to->len && !to->damaged;
	     at += PIECE_BYTES)
		result = piece_take(key, ref, at, to);
	return result;
}

enum wire_status lookup_get_verified(struct store_thread *thread, uint64_t hash, const void *key,
				     uint32_t key_len, uint64_t offset, void *buffer, size_t size,
				     struct item_ref *ref, uint32_t *len)
{
	struct part_buffer to = { .buffer = buffer, .size = size, .offset = offset };
	enum wire_status status = lookup_until(thread, hash, key, key_len, ref, use_verified, &to);

	*len = to.len;
	return status == WIRE_OK && to.damaged ? WIRE_BUSY : status;
}

bool lookup_block_hash(const struct table *table, const void *block, uint64_t *hash)
{
	struct item_snapshot snapshot;

	if (!item_snapshot_take(table, block, &snapshot))
		return false;
	*hash = table_hash(table, snapshot.key, item_key_len(&snapshot.front.item));
	return true;
}
