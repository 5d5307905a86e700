/* SPDX-License-Identifier: MIT */
/*
 * A lookup: the state of one GET on its way through the index, and the rules by which data that was
 * READ moves it on. client/get.c does the READs.
 */
#ifndef KVD_CLIENT_LOOKUP_H
#define KVD_CLIENT_LOOKUP_H

#include <string.h>

#include "client/handle.h"
#include "common/sum.h"

/* Longer keys are compared by memcmp(). */
#define KEY_INLINE_MAX 32u

enum step {
	STEP_BUCKET, /* READ the bucket at bucket_offset */
	STEP_ITEM,   /* READ the item of slots[slot] */
	STEP_MOVED,  /* the bucket was split: find the key's new one, by lookup_moved() */
	STEP_CLOCK,  /* narrow the server's clock, then READ the item again */
	STEP_RPC,    /* send a request: the server does the GET */
	STEP_DONE,
};

/* What every GET uses comes first, and next to it what lookup_start() zeroes. */
struct lookup {
	struct kvd_get_request *request;
	uint64_t hash;
	uint64_t number;       /* of the home bucket, as far as the client knows */
	uint64_t home;	       /* its offset */
	const uint8_t *buffer; /* to which the current READ goes */
	enum step step;
	uint32_t bytes;	   /* of the current READ */
	uint64_t since_ns; /* clock_raw_ns(); the item was READ after it; 0: unknown */
	unsigned int slot, slot_count;
	unsigned int tries, hops, moves;
	uint8_t level_min; /* the least level that the home bucket may have */
	bool cached;	   /* slots are from the bucket cache */
	bool key_mismatch; /* an item had the key's tag, but another key */
	bool backoff;	   /* to retry: pause first */
	bool clock_refreshed;
	uint8_t level;	/* of the home bucket; STEP_MOVED: the least level of the key's new one */
	uint16_t epoch; /* of the home bucket */
	uint64_t slots[BUCKET_SLOTS]; /* slots of one bucket that have the key's tag */
	uint64_t bucket_offset;
	uint64_t chain_ns; /* clock_raw_ns(); the home bucket's READ was posted then or later */
	uint32_t overflow; /* of the bucket that was READ last */
};

/* Starts, or starts again, at the home bucket. */
void lookup_restart(const struct kvd *handle, struct lookup *l);

/* Starts at the cached slot, or else at the home bucket. @l->request and hash are set. */
static inline void lookup_start(struct kvd *handle, struct lookup *l)
{
	l->since_ns = 0;
	l->slot = 0;
	l->tries = 0;
	l->moves = 0;
	l->backoff = false;
	l->clock_refreshed = false;
	l->slots[0] = bcache_lookup(&handle->cache, l->hash);
	if (!l->slots[0]) {
		lookup_restart(handle, l);
		return;
	}
	l->slot_count = 1;
	l->step = STEP_ITEM;
	l->cached = true;
	l->key_mismatch = false;
}

/* Ends the lookup with @status. */
static inline void lookup_finish(struct lookup *l, enum kvd_status status)
{
	l->request->status = status;
	l->step = STEP_DONE;
}

/* Takes in a bucket, from @l->buffer, or @item, of which @bytes were READ. */
void lookup_bucket(struct kvd *handle, struct lookup *l);
void lookup_item(struct kvd *handle, struct lookup *l, const struct item *item, uint64_t bytes);
/* The current slot led to no valid item: drops it from the cache, and starts again. */
void lookup_stale(struct kvd *handle, struct lookup *l);
/* Does STEP_MOVED. Fails only if the connection does. */
enum kvd_status lookup_moved(struct kvd *handle, struct lookup *l);

/* Copies a value to the caller's buffer. KVD_ERR_BUFFER if that is too small. */
enum kvd_status lookup_deliver(struct kvd *handle, struct kvd_get_request *request,
			       const void *value, const struct kvd_item *item);

/* Whether @item, of which @bytes were READ at @offset, is whole and valid there. */
static inline bool item_verifies(const struct item *item, uint64_t bytes, uint64_t seed,
				 uint64_t offset)
{
	return item->sum != ITEM_SUM_INVALID && item->key_len && item->key_len <= KEY_MAX &&
	       item->value_len <= VALUE_MAX &&
	       item_bytes(item->key_len, item->value_len) <= bytes &&
	       item_sum(item, seed, offset) == item->sum && item_value_verifies(item);
}

/* Compares keys; the usual short ones without a call. */
static inline bool keys_equal(const uint8_t *a, const uint8_t *b, size_t bytes)
{
	uint64_t x, y, differ;
	size_t at;

	if (bytes < sizeof(x) || bytes > KEY_INLINE_MAX)
		return !memcmp(a, b, bytes);
	/* The last word overlaps the one before. */
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
	return item->key_len == request->key_len &&
	       keys_equal(item_key(item), request->key, request->key_len);
}

static inline struct kvd_item item_info(const struct item *item)
{
	return (struct kvd_item){
		.value_len = item->value_len,
		.version = item->version,
		.flags = item->flags,
		.expires_s = item->expires,
	};
}

#endif /* KVD_CLIENT_LOOKUP_H */
