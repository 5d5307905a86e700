/* SPDX-License-Identifier: MIT */
/*
 * Readers inside the server: two-sided GETs, scans, the search for something to evict. They take no
 * lock. The caller is an RCU reader (QSBR) and stays in one batch.
 *
 *   L1. The chain stays readable: overflow buckets are freed only after a grace period. That none of
 *	 its slots was moved past the reader, the epoch tells (server/store/index.h, I3).
 *   L2. A small item may be rewritten or reused while it is read. It counts if its sum was valid and
 *	 the same before and after; the sum says version and place. Where that fails, the reader
 *	 looks again.
 *   L3. A large item (LIMBO_ITEM_BYTES) is never rewritten in place, but for its expiry time, and is
 *	 freed after a grace period. Once seen valid it can be copied at leisure.
 *   L4. "Not there" needs the epoch to be as it was, and of each slot with the key's tag that its item
 *	 was another key's, valid, with the slot leading to it, and valid with the same sum after that.
 */
#ifndef KVD_SERVER_STORE_LOOKUP_H
#define KVD_SERVER_STORE_LOOKUP_H

#include "server/store/table.h"

/* How long a reader looks again and again before it says WIRE_BUSY. */
#define LOOKUP_NS_MAX 1000000000ull

/* An item that was seen valid. */
struct item_ref {
	struct item *item;
	struct item head; /* of it, verified */
};

/*
 * Copies the value to @buffer if it has at most @size bytes, else only ref->head is filled in. WIRE_OK,
 * WIRE_NOT_FOUND, or WIRE_BUSY: it kept changing for LOOKUP_NS_MAX.
 */
enum wire_status lookup_get(struct store_thread *thread, uint64_t hash, const void *key,
			    uint32_t key_len, void *buffer, size_t size, struct item_ref *ref);

/*
 * Sets aside a copy of the item for one reader: valid to who knows @seed, and in no bucket. The
 * caller frees it with table_abandon(). As lookup_get(); WIRE_BUSY also if there is no space for a copy.
 */
enum wire_status lookup_copy(struct store_thread *thread, uint64_t hash, const void *key,
			     uint32_t key_len, uint64_t seed, struct item **copy);

/* The hash of the key of what may be an item at @block. False: nothing valid is there now. */
bool lookup_block_hash(const struct table *table, const void *block, uint64_t *hash);

/* The pauses between the tries of a reader that met a change. */
struct backoff {
	uint64_t since_ns; /* of the first try that failed; 0: none has */
};

/* Pauses, longer each time, and counts the retry. False: LOOKUP_NS_MAX is over. */
bool backoff_wait(struct store_thread *thread, struct backoff *backoff);

#endif /* KVD_SERVER_STORE_LOOKUP_H */
