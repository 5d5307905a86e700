/* SPDX-License-Identifier: MIT */
/*
 * Updates: the operations that change a key (PUT in all its modes, arithmetic, TOUCH, DELETE).
 *
 * All of them follow TABLE-1 to TABLE-4 of server/store/table.h. They take the lock of the key's
 * home bucket, so the caller holds none; where memory is short they make room, which may wait for a
 * grace period.
 */
#ifndef KVD_SERVER_STORE_UPDATE_H
#define KVD_SERVER_STORE_UPDATE_H

#include "server/store/attempt.h"

/*
 * PUT in all its modes. WIRE_OK; WIRE_NO_SPACE; WIRE_NOT_FOUND and WIRE_EXISTS where the mode says
 * so; WIRE_TOO_LARGE if the value, with what it is appended or prepended to, is longer than the
 * region's value_max; WIRE_PROTOCOL: no such mode; WIRE_INVALID: a pin longer than pin_time_max;
 * WIRE_BUSY with change->pins_full: it has a pin, or extends a pinned value, and no more may be
 * pinned.
 */
enum wire_status table_put(struct store_thread *thread, uint64_t hash, struct table_change *change);

/*
 * Adds to or subtracts from a value that is a decimal number. WIRE_OK, WIRE_NO_SPACE,
 * WIRE_NOT_FOUND, WIRE_NOT_A_NUMBER, and WIRE_BUSY as above.
 */
enum wire_status table_arith(struct store_thread *thread, uint64_t hash,
			     struct table_change *change);

/* Sets the expiry time; value and version stay. WIRE_OK or WIRE_NOT_FOUND. */
enum wire_status table_touch(struct store_thread *thread, uint64_t hash,
			     struct table_change *change);

/* Removes the key. WIRE_OK, WIRE_NOT_FOUND or WIRE_EXISTS (it has another version). */
enum wire_status table_delete(struct store_thread *thread, uint64_t hash,
			      const struct table_change *change);

/*
 * A PUT whose value arrives later. table_reserve() allocates an item that is not in the table and
 * fills in key and header; the caller writes the value to table_reserved_value(). NULL: no space.
 * The item is the caller's until table_commit(), which consumes it also on failure, or
 * table_abandon().
 */
struct item *table_reserve(struct store_thread *thread, const struct table_change *change);
/*
 * As table_reserve(), in steps. If it returns NULL and room_pending(@room), the caller runs the
 * steps of the room to their end and calls it again; NULL else: no space. Call room_init() first.
 */
struct item *table_reserve_begin(struct store_thread *thread, const struct table_change *change,
				 struct room *room);
/*
 * Whether the item could be pinned as the change wants: WIRE_OK, also without a pin; WIRE_INVALID
 * or WIRE_BUSY as table_put(). A hint: table_commit() decides.
 */
enum wire_status table_may_pin(struct store_thread *thread, struct table_change *change);
/* As table_put(); key, value and their lengths are the item's. */
enum wire_status table_commit(struct store_thread *thread, uint64_t hash, struct item *item,
			      struct table_change *change);
/* Frees the item. */
void table_abandon(struct store_thread *thread, struct item *item);

static inline void *table_reserved_value(struct item *item)
{
	return item_value(item);
}

#endif /* KVD_SERVER_STORE_UPDATE_H */
