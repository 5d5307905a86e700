/* SPDX-License-Identifier: MIT */
/*
 * Lookups: find keys and copy items inside the server without a lock, for two-sided GETs, scans and
 * eviction. The caller is an RCU reader (QSBR) and passes no quiescent state meanwhile.
 *
 *   LOOKUP-1. A chain stays readable: overflow buckets are freed only after a grace period. The
 *	 epoch shows whether a slot was moved past the reader (server/store/index.h, INDEX-3).
 *   LOOKUP-2. A small item may be rewritten or reused while it is read. The copy is used only if
 *	 the item's sum was valid and the same before and after: the sum covers version and
 *	 place. Else the lookup is retried.
 *   LOOKUP-3. A large item (LIMBO_ITEM_BYTES) is never rewritten in place, except for its expiry
 *	 time, and is freed only after a grace period. Once seen valid it can be copied without
 *	 another check.
 *   LOOKUP-4. "Not found" needs the same even epoch before and after, and for each slot with the
 *	 key's tag that its item was valid and another key's, that the slot still led to it then,
 *	 and that its sum was the same after that.
 */
#ifndef KVD_SERVER_STORE_LOOKUP_H
#define KVD_SERVER_STORE_LOOKUP_H

#include "common/wire.h"
#include "server/store/table.h"

/* How long a lookup is retried before it returns WIRE_BUSY. */
#define LOOKUP_NS_MAX 1000000000ull

/* An item that was found valid. */
struct item_ref {
	struct item *item;
	union item_front front; /* a verified copy of the bytes before the key */
};

/* The result of one try to look up a key. */
enum lookup_result {
	LOOKUP_FOUND,
	LOOKUP_MISSING,
	LOOKUP_RETRY, /* something was being changed */
};

/* One try, without a pause. An expired item is found, too. */
enum lookup_result lookup_find(const struct store_thread *thread, uint64_t hash, const void *key,
			       uint32_t key_len, struct item_ref *ref);
/* The value in the item. */
static inline const uint8_t *lookup_ref_value(const struct item_ref *ref)
{
	const struct item *front = &ref->front.item;

	return (const uint8_t *)ref->item + item_front_bytes(front) + item_key_len(front);
}

/* The value sum; 0: the item has none. */
static inline uint64_t lookup_ref_value_sum(const struct item_ref *ref)
{
	const struct item *front = &ref->front.item;

	return item_is_long(front) ? item_long(front)->value_sum : 0;
}

/* Copies @bytes of an item that was found. False: it has changed (LOOKUP-2, LOOKUP-3). */
bool lookup_ref_copy(const struct item_ref *ref, void *to, const void *from, size_t bytes);

/*
 * Finds the key, fills in @ref, and copies the value to @buffer if it has at most @size bytes.
 * WIRE_OK; WIRE_NOT_FOUND; WIRE_BUSY: it kept changing for LOOKUP_NS_MAX. A retry pauses: see
 * backoff_wait().
 */
enum wire_status lookup_get(struct store_thread *thread, uint64_t hash, const void *key,
			    uint32_t key_len, void *buffer, size_t size, struct item_ref *ref);

/*
 * As lookup_get(), but copies the part of the value from @offset on, @size bytes at most, and sets
 * *@len to its bytes.
 */
enum wire_status lookup_get_part(struct store_thread *thread, uint64_t hash, const void *key,
				 uint32_t key_len, uint64_t offset, void *buffer, size_t size,
				 struct item_ref *ref, uint32_t *len);

/*
 * As lookup_get_part(), and verifies the pieces that have the part; of a value without piece sums
 * all of it. WIRE_BUSY: also if they do not verify: memory is damaged.
 */
enum wire_status lookup_get_verified(struct store_thread *thread, uint64_t hash, const void *key,
				     uint32_t key_len, uint64_t offset, void *buffer, size_t size,
				     struct item_ref *ref, uint32_t *len);

/*
 * Hashes the key of the item at @block, which may hold anything. False: there is no valid item.
 */
bool lookup_block_hash(const struct table *table, const void *block, uint64_t *hash);

/* The pauses of a lookup that is retried. */
struct backoff {
	uint64_t since_ns; /* clock_ns() when the first try failed; 0: none has */
};

/* Counts the retry and pauses, longer each time. False: LOOKUP_NS_MAX has passed. */
bool backoff_wait(struct store_thread *thread, struct backoff *backoff);

#endif /* KVD_SERVER_STORE_LOOKUP_H */
