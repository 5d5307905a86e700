/* SPDX-License-Identifier: MIT */
/*
 * A lookup: how one GET goes through the index, by rules on the data that was READ.
 * client/libkvd/get.c does the READs.
 */
#ifndef KVD_CLIENT_LIBKVD_LOOKUP_H
#define KVD_CLIENT_LIBKVD_LOOKUP_H

#include <string.h>

#include "client/libkvd/handle.h"
#include "common/sum.h"

/* Longer keys are compared by memcmp(). */
#define KEY_INLINE_MAX 32u

/* The bytes of a value from @at to @end: @end is not less. */
struct value_range {
	uint64_t at, end;
};

/* What a lookup of a range wants of a value of @value_len bytes. */
static inline struct value_range range_of(const struct lookup *l, uint64_t value_len)
{
	uint64_t at = l->range_at < value_len ? l->range_at : value_len;
	uint64_t left = value_len - at, size = l->request->value_size;

	return (struct value_range){ at, at + (size < left ? size : left) };
}

/* Starts, or starts again, at the home bucket. */
void lookup_restart(const struct kvd *handle, struct lookup *l);

/* The member may not be READ for the key now: the server does the GET. */
void lookup_closed(struct kvd *handle, struct lookup *l);
/* Starts again, since what was READ does not count (MEMBER-1); after get_tries by request. */
void lookup_again(struct kvd *handle, struct lookup *l);

/* Starts at the cached slot, or else at the home bucket. @l->request and hash are set. */
static inline void lookup_start(struct kvd *handle, struct lookup *l)
{
	const struct member *member = &handle->member;

	l->since_ns = 0;
	l->slot = 0;
	l->tries = 0;
	l->moves = 0;
	l->backoff = false;
	l->clock_refreshed = false;
	l->whole_key = false;
	if (member->shards) {
		l->judgement = member->judgement;
		if (member->shards[fleet_shard(l->hash)] != member->mine) {
			lookup_closed(handle, l);
			return;
		}
	}
	l->slots[0] = bcache_lookup(&handle->cache, l->hash);
	if (!l->slots[0]) {
		lookup_restart(handle, l);
		return;
	}
	l->slot_count = 1;
	l->step = STEP_ITEM;
	l->cached = true;
	l->others = 0;
}

/* Ends the lookup with @status. */
static inline void lookup_finish(struct lookup *l, enum kvd_status status)
{
	l->request->status = status;
	l->step = STEP_DONE;
}

/* Process a bucket, which is in @l->buffer, or @item, of which @bytes were READ. */
void lookup_bucket(struct kvd *handle, struct lookup *l);
void lookup_item(struct kvd *handle, struct lookup *l, const struct item *item, uint64_t bytes);
/* The item, verified, is the key's, and its value is where the caller wants it. */
void lookup_found(struct kvd *handle, struct lookup *l, const struct item *item);
/* The current slot led to another key's item. */
void lookup_other_key(struct kvd *handle, struct lookup *l);
/* The current slot led to no valid item: drops it from the cache, and starts again. */
void lookup_stale(struct kvd *handle, struct lookup *l);
/* Does STEP_MOVED, by the current geometry. */
void lookup_moved(struct kvd *handle, struct lookup *l);

/* How much of an item of @bytes, by its slot, the lookup READs: no value if none is wanted. */
static inline uint32_t lookup_item_bytes(const struct lookup *l, uint32_t bytes)
{
	uint32_t head = (uint32_t)sizeof(union item_front) +
			(l->whole_key ? KEY_MAX : (uint32_t)l->request->key_len);

	return l->part == PART_NONE && bytes > ITEM_SHORT_BYTES_MAX && bytes > head ? head : bytes;
}

/* Copies a value to the caller's pieces, or says that the buffer is too small; KVD_ERR_BUFFER. */
enum kvd_status value_deliver(struct kvd *handle, const struct lookup *l, const void *value);

/*
 * Copies the value at @from to the caller's buffer; NULL: it is there already. KVD_ERR_BUFFER: that
 * is too small.
 */
static inline enum kvd_status lookup_deliver(struct kvd *handle, struct lookup *l, const void *from,
					     const struct kvd_item *item)
{
	struct kvd_get_request *request = l->request;

	request->item = *item;
	if (item->value_len > request->value_size)
		return value_deliver(handle, l, from);
	if (from && item->value_len)
		memcpy(request->value, from, item->value_len);
	return KVD_OK;
}

/* Whether the item's lengths are possible and it is not marked invalid. */
static inline bool item_is_plausible(const struct item *item)
{
	return item->sum != ITEM_SUM_INVALID && item_key_len(item) &&
	       item_key_len(item) <= KEY_MAX && item_value_len(item) <= VALUE_MAX;
}

/* Whether @item, of which @bytes were READ at @offset, is whole and valid there. */
static inline bool item_verifies(const struct item *item, uint64_t bytes, const struct sum_key *key,
				 uint64_t seed, uint64_t offset)
{
	return item_is_plausible(item) && item_bytes(item) <= bytes &&
	       item_sum(item, key, seed, offset) == item->sum && item_value_verifies(item, key);
}

/*
 * Whether the item was valid there (GET-5), without looking at a value that a value sum stands for.
 */
static inline bool item_head_verifies(const struct item *item, uint64_t bytes,
				      const struct sum_key *key, uint64_t seed, uint64_t offset)
{
	return item_is_plausible(item) && item_covered_bytes(item) <= bytes &&
	       item_sum(item, key, seed, offset) == item->sum;
}

/* Compares keys; the usual short ones without a call. */
static inline bool keys_equal(const uint8_t *a, const uint8_t *b, size_t bytes)
{
	uint64_t x, y, differ;
	uint32_t first, last, other;
	size_t at;

	if (bytes < sizeof(first) || bytes > KEY_INLINE_MAX)
		return !memcmp(a, b, bytes);
	/* The last word overlaps the previous one. */
	if (bytes < sizeof(x)) {
		memcpy(&first, a, sizeof(first));
		memcpy(&other, b, sizeof(other));
		first ^= other;
		memcpy(&last, a + bytes - sizeof(last), sizeof(last));
		memcpy(&other, b + bytes - sizeof(other), sizeof(other));
		return !(first | (last ^ other));
	}
	memcpy(&x, a + bytes - sizeof(x), sizeof(x));
	memcpy(&y, b + bytes - sizeof(y), sizeof(y));
	differ = x ^ y;
	for (at = 0; at + sizeof(x) < bytes; at += sizeof(x)) {
		memcpy(&x, a + at, sizeof(x));
		memcpy(&y, b + at, sizeof(y));
		differ |= x ^ y;
	}
	return !differ;
}

static inline bool item_is_for(const struct item *item, const struct kvd_get_request *request)
{
	return item_key_len(item) == request->key_len &&
	       keys_equal(item_key(item), request->key, request->key_len);
}

static inline struct kvd_item item_info(const struct item *item)
{
	return (struct kvd_item){
		.value_len = item_value_len(item),
		.version = item->version,
		.flags = item_flags(item),
		.expires_s = item->expires,
	};
}

#endif /* KVD_CLIENT_LIBKVD_LOOKUP_H */
