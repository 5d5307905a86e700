/* SPDX-License-Identifier: MIT */
/*
 * Scans: collects the keys of one chain after another without a lock (server/store/lookup.h),
 * sorts them and writes them to the response.
 */
#include "server/store/scan.h"

#include <string.h>

#include "common/util/clock.h"
#include "server/store/access_time.h"
#include "server/store/chain.h"

/* A key of the chain that is being scanned. */
struct scan_key {
	uint64_t order; /* hash_order() */
	const struct item *item;
	uint64_t sum; /* the item's when its key was read */
};

struct bucket_scan {
	struct scan_key keys[CHAIN_SLOTS_MAX];
	unsigned int count;
	uint8_t level;
};

/* Adds the key that the slot leads to, if it is wanted (LOOKUP-4). False: it is being changed. */
static bool scan_key_add(const struct table *table, struct bucket_scan *b, const uint64_t *slot_at,
			 uint64_t slot, const struct scan *scan)
{
	struct scan_key *key = &b->keys[b->count];
	uint64_t hash;

	key->item = slot_item(table, slot);
	key->sum = item_sum_first(key->item);
	if (key->sum == ITEM_SUM_INVALID || !lookup_block_hash(table, key->item, &hash) ||
	    slot_follow(slot_at) != slot || item_sum_again(key->item) != key->sum)
		return false;
	key->order = hash_order(hash);
	/* With an end of 0 there is no order beyond it. */
	if (key->order >= scan->cursor && key->order <= scan->end - 1 &&
	    (!scan->parts || key_parts_have(scan->parts, hash)))
		b->count++;
	return true;
}

/*
 * Collects the keys from the cursor on of the chain whose range the cursor is in. False: the chain
 * was being changed.
 */
static bool bucket_collect(const struct table *table, struct bucket_scan *b,
			   const struct scan *scan)
{
	const uint64_t from = scan->cursor;
	const struct bucket *home = index_home(table, hash_order(from)), *bucket;
	uint16_t epoch = chain_epoch_first(home);
	unsigned int i;

	b->count = 0;
	b->level = bucket_level_load(home);
	if (epoch & 1 || low_bits(hash_order(from), b->level) != index_number(table, home))
		return false;
	chain_for_each(table, bucket, home) {
		for (i = 0; i < BUCKET_SLOTS; i++) {
			uint64_t slot = slot_follow(&bucket->slots[i]);

			if (slot && !scan_key_add(table, b, &bucket->slots[i], slot, scan))
				return false;
		}
	}
	return chain_epoch_again(home) == epoch;
}

/* By insertion: a chain has 14 slots, seldom more. */
static void bucket_sort(struct bucket_scan *b)
{
	unsigned int i, j;

	for (i = 1; i < b->count; i++) {
		struct scan_key key = b->keys[i];

		for (j = i; j && b->keys[j - 1].order > key.order; j--)
			b->keys[j] = b->keys[j - 1];
		b->keys[j] = key;
	}
}

static bool has_prefix(const struct scan *scan, const uint8_t *key, uint32_t key_len)
{
	/* An empty prefix may be NULL, which memcmp() does not allow. */
	return !scan->prefix_len ||
	       (key_len >= scan->prefix_len && !memcmp(key, scan->prefix, scan->prefix_len));
}

enum emit { EMIT_DONE, EMIT_FULL, EMIT_RETRY };

/*
 * Writes the item as an entry, unless it has expired or its key does not begin with the prefix. Its
 * value is left out if it would not fit even an empty buffer; EMIT_FULL if only this one has no
 * room.
 */
static enum emit entry_emit(struct store_thread *thread, struct scan *scan,
			    const struct scan_key *key)
{
	uint8_t *to = scan->buffer + scan->used;
	uint32_t left = scan->size - scan->used, key_len, value_len;
	struct wire_entry entry;
	union item_front front;
	const struct item *head = &front.item;

	racy_copy(&front, key->item, sizeof(front));
	if (item_sum_again(key->item) != key->sum)
		return EMIT_RETRY;
	key_len = item_key_len(head);
	value_len = item_value_len(head);
	entry = (struct wire_entry){
		.version = head->version,
		.value_len = value_len,
		.item_flags = item_flags(head),
		.expires = head->expires,
		.key_len = (uint16_t)key_len,
	};
	if (scan->values && sizeof(entry) + key_len + (uint64_t)value_len <= scan->size)
		entry.value_sent = value_len;
	if (scan->uses || scan->copies) {
		struct access_told told = scan->copies ?
						  access_time_tell_copy(thread, head->access) :
						  access_time_tell(thread, head->access);

		entry.use = (uint16_t)told.use;
		entry.uses = (uint16_t)told.uses;
		entry.age = (uint16_t)told.age;
	}
	if (is_expired(head->expires, thread->now_ns))
		return EMIT_DONE;
	if (sizeof(entry) + key_len + entry.value_sent > left)
		return EMIT_FULL;
	racy_copy(to + sizeof(entry), (const uint8_t *)key->item + item_front_bytes(head),
		  key_len + entry.value_sent);
	if (item_sum_again(key->item) != key->sum)
		return EMIT_RETRY;
	if (!has_prefix(scan, to + sizeof(entry), key_len))
		return EMIT_DONE;
	memcpy(to, &entry, sizeof(entry));
	scan->used += (uint32_t)sizeof(entry) + key_len + entry.value_sent;
	scan->entries++;
	return EMIT_DONE;
}

/* Writes the collected keys in order. The cursor ends at the last key handled. */
static enum emit bucket_emit(struct store_thread *thread, struct scan *scan,
			     const struct bucket_scan *b)
{
	enum emit emit = EMIT_DONE;
	unsigned int i;

	for (i = 0; emit == EMIT_DONE && i < b->count; i++) {
		scan->cursor = b->keys[i].order;
		if (scan->keys_max && scan->entries >= scan->keys_max)
			return EMIT_FULL;
		emit = entry_emit(thread, scan, &b->keys[i]);
	}
	return emit;
}

enum wire_status table_scan(struct store_thread *thread, struct scan *scan)
{
	uint64_t start = scan->cursor;
	struct backoff backoff = { 0 };
	unsigned int buckets = 0;
	bool tried = false;
	struct bucket_scan b;
	enum emit emit;

	scan->used = scan->entries = 0;
	while (buckets < SCAN_BUCKETS_MAX) {
		if (tried && clock_ns() >= scan->until_ns)
			return scan->cursor == start && !scan->entries ? WIRE_BUSY : WIRE_OK;
		tried = true;
		emit = EMIT_RETRY;
		if (bucket_collect(thread->table, &b, scan)) {
			bucket_sort(&b);
			emit = bucket_emit(thread, scan, &b);
		}
		if (emit == EMIT_FULL) {
			/*
			 * Entries were written and the cursor stands still: more keys have this
			 * hash than fit in a buffer. The scan skips the rest, or it would never
			 * end.
			 */
			scan->cursor += scan->entries && scan->cursor == start;
			return WIRE_OK;
		}
		if (emit == EMIT_DONE) {
			scan->cursor = order_after(scan->cursor, b.level);
			if (scan->cursor > scan->end - 1)
				scan->cursor = 0;
			if (!scan->cursor)
				return WIRE_OK;
			buckets++;
			backoff.since_ns = 0;
		} else if (!backoff_wait(thread, &backoff)) {
			return WIRE_BUSY;
		}
	}
	return WIRE_OK;
}

const uint8_t *scan_copy_next(const struct scan *scan, uint32_t *at, struct wire_entry *entry)
{
	const uint8_t *key = scan->buffer + *at + sizeof(*entry);

	if (*at >= scan->used)
		return NULL;
	memcpy(entry, scan->buffer + *at, sizeof(*entry));
	*at += (uint32_t)sizeof(*entry) + entry->key_len + entry->value_sent;
	return key;
}
