/* SPDX-License-Identifier: MIT */
/*
 * Attempts: changes of a key in one pass, under the lock of the key's home bucket, in the order of
 * TABLE-1 to TABLE-4 of server/store/table.h. update.h has the operations.
 *
 * A change that would copy or sum a large item changes nothing: it returns WIRE_BUSY and sets
 * change->large. server/store/large.h prepares it without the lock, in steps, and then calls again
 * with the item prepared.
 *
 * The caller holds no lock. Where memory is short, room is made (server/store/room.h): completely,
 * which may wait for grace periods; or, with change->room, only by steps that take some us. If that
 * is not enough the change returns WIRE_BUSY and has changed nothing. The caller runs the steps of
 * the room to their end, and then begins the change anew with that room, which has the block.
 */
#ifndef KVD_SERVER_STORE_ATTEMPT_H
#define KVD_SERVER_STORE_ATTEMPT_H

#include "common/wire.h"
#include "server/store/access_time.h"
#include "server/store/room.h"

/* The item that the change of a large item begins with. */
struct change_from {
	uint64_t version;
	uint32_t value_len;
	uint32_t flags;
};

/* The arguments of one change of a key, and its results. Key and value remain the caller's. */
struct table_change {
	const void *key;
	uint32_t key_len;
	enum wire_put mode; /* table_put(), table_commit() */
	const void *value;
	uint32_t value_len;
	uint32_t flags;
	uint32_t ttl;		 /* seconds to live, 0: never expires */
	uint32_t use;		 /* WIRE_COPY: wire_use_pack(), instead of @wish */
	struct access_wish wish; /* table_put(), table_commit() in modes that replace the value */
	uint64_t version;	 /* in: what CAS or a conditional DELETE expects, or the version of
				  * a COPY, which the item gets; out: the item's */
	uint64_t existing;	 /* out, with WIRE_EXISTS of a PUT: the version of the key */
	bool if_version;	 /* table_delete(): only that version */
	bool expects;		 /* table_arith(), append, prepend: only */
	uint64_t expected;	 /* this version, else WIRE_EXISTS */
	bool create;		 /* table_arith(): a key that is missing gets @number */
	bool decrement;		 /* table_arith(): subtract, not below 0; else add, modulo 2^64 */
	bool large;		 /* out: nothing was changed: the item, @from, is large */
	bool pins_full;		 /* out: WIRE_BUSY: no more may be pinned now */
	uint64_t delta;		 /* table_arith() */
	uint64_t number;	 /* table_arith(): in: see @create; out: the result */
	uint64_t slot;		 /* out: the slot that leads to the item */
	uint32_t expires;	 /* out: the item's */
	struct change_from from;
	struct room *room; /* NULL: room is made at once */
};

/* Whether the change has returned WIRE_BUSY because its room must be made first. */
static inline bool change_wants_room(const struct table_change *change)
{
	return change->room && room_pending(change->room);
}

/*
 * The statuses are those of server/store/update.h, and WIRE_BUSY with change->large or
 * change_wants_room(). With any other status the room is empty again.
 */
enum wire_status attempt_put(struct store_thread *thread, uint64_t hash,
			     struct table_change *change);
enum wire_status attempt_arith(struct store_thread *thread, uint64_t hash,
			       struct table_change *change);
enum wire_status attempt_delete(struct store_thread *thread, uint64_t hash,
				struct table_change *change);
enum wire_status attempt_touch(struct store_thread *thread, uint64_t hash,
			       struct table_change *change);
/*
 * Puts @item into the table. It has key, value, value sum and header except version, expiry and
 * access time. APPEND and PREPEND: it was made from version @from, which must still be the key's.
 * Consumes the item, also on failure, unless the change wants room.
 */
enum wire_status attempt_commit(struct store_thread *thread, uint64_t hash,
				struct table_change *change, struct item *item, uint64_t from);

/* Writes the key, and the header except sum, version, expiry, access time and value sum. */
void item_fill_head(struct item *item, const struct table_change *change, uint32_t value_len,
		    uint32_t flags);

#endif /* KVD_SERVER_STORE_ATTEMPT_H */
