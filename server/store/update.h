/* SPDX-License-Identifier: MIT */
/*
 * Updates: the operations that change a key: PUT in all its modes, arithmetic, TOUCH, DELETE.
 */
#ifndef KVD_SERVER_STORE_UPDATE_H
#define KVD_SERVER_STORE_UPDATE_H

#include "server/store/table.h"

/* What one change of a key is to do, and what came of it. */
struct table_change {
	const void *key;
	uint32_t key_len;
	enum wire_put mode;
	const void *value;
	uint32_t value_len;
	uint32_t flags;
	uint32_t ttl;	  /* seconds, 0: for ever */
	uint64_t version; /* in: cas, delete; out: the item's */
	bool if_version;  /* delete */
	bool create;	  /* arith */
	bool decrement;	  /* arith */
	uint64_t delta;	  /* arith */
	uint64_t number;  /* arith, in: to create; out: the result */
	uint64_t slot;	  /* out: what leads to the item */
	uint32_t expires; /* out */
};

/*
 * PUT in all its modes. WIRE_OK, WIRE_NO_SPACE, WIRE_NOT_FOUND, WIRE_EXISTS, WIRE_TOO_LARGE (append,
 * prepend).
 */
enum wire_status table_put(struct store_thread *thread, uint64_t hash, struct table_change *change);

/* Adds to or subtracts from a decimal number. As table_put(), and WIRE_NOT_A_NUMBER. */
enum wire_status table_arith(struct store_thread *thread, uint64_t hash,
			     struct table_change *change);

/* Sets the expiry time; value and version stay. WIRE_OK or WIRE_NOT_FOUND. */
enum wire_status table_touch(struct store_thread *thread, uint64_t hash,
			     struct table_change *change);

/* WIRE_OK, WIRE_NOT_FOUND or WIRE_EXISTS (another version). */
enum wire_status table_delete(struct store_thread *thread, uint64_t hash,
			      const struct table_change *change);

/*
 * A PUT whose value arrives later. table_reserve() gives an item that is not in the table, key and
 * header filled in, the value at table_reserved_value() to be filled; NULL: no space. It is the
 * caller's until table_commit() (which consumes it, also on failure) or table_abandon().
 */
struct item *table_reserve(struct store_thread *thread, const struct table_change *change);
/* As table_put(), of whose arguments key, value and their lengths are the item's. */
enum wire_status table_commit(struct store_thread *thread, uint64_t hash, struct item *item,
			      struct table_change *change);
void table_abandon(struct store_thread *thread, struct item *item);

static inline void *table_reserved_value(struct item *item)
{
	return item->data + item->key_len;
}

#endif /* KVD_SERVER_STORE_UPDATE_H */
