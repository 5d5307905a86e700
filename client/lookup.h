/* SPDX-License-Identifier: MIT */
/*
 * One GET on its way through the index: what it has to READ next, and what it makes of what was
 * read. client/get.c does the READs.
 */
#ifndef KVD_CLIENT_LOOKUP_H
#define KVD_CLIENT_LOOKUP_H

#include <string.h>

#include "client/handle.h"
#include "common/sum.h"

enum step {
	STEP_BUCKET, /* needs the bucket at bucket_offset */
	STEP_ITEM,   /* needs the item of slots[slot] */
	STEP_MOVED,  /* its bucket was split: needs to know where to (lookup_moved()) */
	STEP_CLOCK,  /* needs to know the server's clock better, then the item again */
	STEP_RPC,    /* needs the server */
	STEP_DONE,
};

struct lookup {
	struct kvd_get_request *request;
	uint64_t hash;
	uint64_t number; /* of the home bucket, as far as is known */
	uint64_t home;	 /* its offset */
	uint64_t bucket_offset;
	uint64_t slots[BUCKET_SLOTS]; /* with the key's tag, of one bucket */
	const uint8_t *buffer;	      /* where the READ under way puts it */
	uint64_t chain_ns;	      /* when the READ of the home bucket was posted, or before */
	uint64_t since_ns;	      /* the READs of items were posted after this; 0: not known */
	enum step step;
	unsigned int slot, slot_count;
	unsigned int tries, hops, moves;
	uint32_t overflow; /* of the bucket that was read last */
	uint16_t epoch;	   /* of the home bucket */
	uint8_t level;	   /* of the home bucket; STEP_MOVED: that the one to go to has at least */
	uint8_t level_min; /* that the home bucket has at least */
	bool cached;	   /* slots are from the bucket cache */
	bool key_mismatch; /* a slot's tag matched, its item's key did not */
	bool backoff;	   /* reads again: pause first */
	bool clock_refreshed;
};

/* Begins, where the bucket cache leads if it knows the key's home. @l->hash and home are set. */
void lookup_start(struct kvd *handle, struct lookup *l);
/* Ends it. */
void lookup_finish(struct lookup *l, enum kvd_status status);

/* The bucket or the item (of which @bytes were read) is in @l->buffer, or in @item. */
void lookup_bucket(struct kvd *handle, struct lookup *l);
void lookup_item(struct kvd *handle, struct lookup *l, const struct item *item, uint64_t bytes);
/* A slot led to something that is not valid there (any more). */
void lookup_stale(struct kvd *handle, struct lookup *l);
/* After STEP_MOVED. Fails if the connection does. */
enum kvd_status lookup_moved(struct kvd *handle, struct lookup *l);

/* Gives a value to the caller. */
enum kvd_status lookup_deliver(struct kvd *handle, struct kvd_get_request *request,
			       const void *value, const struct kvd_item *item);

/* Whether @item, of which @bytes were read, is whole and valid at @offset. */
static inline bool item_verifies(const struct item *item, uint64_t bytes, uint64_t seed,
				 uint64_t offset)
{
	return item->sum != ITEM_SUM_INVALID && item->key_len && item->key_len <= KEY_MAX &&
	       item->value_len <= VALUE_MAX &&
	       item_bytes(item->key_len, item->value_len) <= bytes &&
	       item_sum(item, seed, offset) == item->sum;
}

static inline bool item_is_for(const struct item *item, const struct kvd_get_request *request)
{
	return item->key_len == request->key_len &&
	       !memcmp(item->data, request->key, request->key_len);
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
