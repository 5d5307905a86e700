/* SPDX-License-Identifier: MIT */
/*
 * Scans: collects the keys of one chain after the other as a reader without a lock (server/store/lookup.h)
 * and writes them to the response.
 */
#include "server/store/scan.h"

#include <string.h>

#include "server/store/chain.h"

/* A key of the bucket that is being scanned: where it is in the order, and its item. */
struct found {
	uint64_t order;
	const struct item *item;
	uint64_t sum; /* of the item when its key was read */
};

struct bucket_scan {
	struct found found[CHAIN_SLOTS_MAX];
	unsigned int count;
	uint8_t level;
};

static uint64_t bits_reversed(uint64_t x)
{
	x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
	x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
	x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
	return __builtin_bswap64(x);
}

/* Reads the key that the slot leads to (L4). False: it is being changed. */
static bool found_add(const struct table *table, struct bucket_scan *b, const uint64_t *slot_at,
		      uint64_t slot, uint64_t from)
{
	struct found *found = &b->found[b->count];
	uint64_t hash;

	found->item = slot_item(table, slot);
	found->sum = item_sum_first(found->item);
	if (found->sum == ITEM_SUM_INVALID || !lookup_block_hash(table, found->item, &hash) ||
	    slot_follow(slot_at) != slot || item_sum_again(found->item) != found->sum)
		return false;
	found->order = bits_reversed(hash);
	if (found->order >= from)
		b->count++;
	return true;
}

/* All keys of the chain of the bucket that @from falls into, those before @from left out. */
static bool bucket_collect(const struct table *table, struct bucket_scan *b, uint64_t from)
{
	const struct bucket *home = index_home(table, bits_reversed(from)), *bucket;
	uint16_t epoch = chain_epoch_first(home);
	unsigned int i;

	b->count = 0;
	b->level = bucket_level_load(home);
	if (epoch & 1 || low_bits(bits_reversed(from), b->level) != index_number(table, home))
		return false;
	chain_for_each(table, bucket, home) {
		for (i = 0; i < BUCKET_SLOTS; i++) {
			uint64_t slot = slot_follow(&bucket->slots[i]);

			if (slot && !found_add(table, b, &bucket->slots[i], slot, from))
				return false;
		}
	}
	return chain_epoch_again(home) == epoch;
}

static void bucket_sort(struct bucket_scan *b)
{
	unsigned int i, j;

	for (i = 1; i < b->count; i++) {
		struct found found = b->found[i];

		for (j = i; j && b->found[j - 1].order > found.order; j--)
			b->found[j] = b->found[j - 1];
		b->found[j] = found;
	}
}

static bool has_prefix(const struct scan *scan, const struct item *head, const uint8_t *key)
{
	/* Without a prefix there is nothing to point at. */
	return !scan->prefix_len ||
	       (head->key_len >= scan->prefix_len && !memcmp(key, scan->prefix, scan->prefix_len));
}

enum emit { EMIT_DONE, EMIT_FULL, EMIT_RETRY };

/*
 * Writes the item as an entry, unless it is over, or its key has not the prefix. A value goes with it
 * if an empty buffer could hold it; if this one can't, it is full.
 */
static enum emit entry_emit(struct store_thread *thread, struct scan *scan,
			    const struct found *found)
{
	uint8_t *to = scan->buffer + scan->used;
	uint32_t left = scan->size - scan->used;
	struct wire_entry entry;
	struct item head;

	racy_copy(&head, found->item, sizeof(head));
	if (item_sum_again(found->item) != found->sum)
		return EMIT_RETRY;
	entry = (struct wire_entry){
		.version = head.version,
		.value_len = head.value_len,
		.item_flags = head.flags,
		.expires = head.expires,
		.key_len = head.key_len,
	};
	if (scan->values && item_bytes(head.key_len, head.value_len) <= scan->size)
		entry.value_sent = head.value_len;
	if (expires_is_over(head.expires, thread->now_ns))
		return EMIT_DONE;
	if (sizeof(entry) + head.key_len + entry.value_sent > left)
		return EMIT_FULL;
	racy_copy(to + sizeof(entry), found->item->data, head.key_len + entry.value_sent);
	if (item_sum_again(found->item) != found->sum)
		return EMIT_RETRY;
	if (!has_prefix(scan, &head, to + sizeof(entry)))
		return EMIT_DONE;
	memcpy(to, &entry, sizeof(entry));
	scan->used += (uint32_t)sizeof(entry) + head.key_len + entry.value_sent;
	scan->entries++;
	return EMIT_DONE;
}

/* The keys of one bucket from scan->cursor on; what was written moves the cursor. */
static enum emit bucket_emit(struct store_thread *thread, struct scan *scan,
			     const struct bucket_scan *b)
{
	enum emit emit = EMIT_DONE;
	unsigned int i;

	for (i = 0; emit == EMIT_DONE && i < b->count; i++) {
		scan->cursor = b->found[i].order;
		if (scan->most && scan->entries >= scan->most)
			return EMIT_FULL;
		emit = entry_emit(thread, scan, &b->found[i]);
	}
	return emit;
}

/* The first place of the order behind the bucket that @cursor falls into; 0: there is none. */
static uint64_t bucket_behind(uint64_t cursor, uint8_t level)
{
	return level ? ((cursor >> (64 - level)) + 1) << (64 - level) : 0;
}

enum wire_status table_scan(struct store_thread *thread, struct scan *scan)
{
	uint64_t start = scan->cursor;
	struct backoff backoff = { 0 };
	unsigned int buckets = 0;
	struct bucket_scan b;
	enum emit emit;

	scan->used = scan->entries = 0;
	while (buckets < SCAN_BUCKETS_MAX) {
		emit = EMIT_RETRY;
		if (bucket_collect(thread->table, &b, scan->cursor)) {
			bucket_sort(&b);
			emit = bucket_emit(thread, scan, &b);
		}
		if (emit == EMIT_FULL) {
			/* Keys of one and the same hash do not fit: the scan goes on behind them. */
			scan->cursor += scan->entries && scan->cursor == start;
			return WIRE_OK;
		}
		if (emit == EMIT_DONE) {
			scan->cursor = bucket_behind(scan->cursor, b.level);
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
