/* SPDX-License-Identifier: MIT */
/*
 * Table maintenance: changes of the table that begin at a block of memory, a bucket or a hash, not
 * at a key: evicting and moving an item, sweeping a bucket, noting an access.
 *
 * They take a bucket's lock, so the caller holds none, and may wait for a grace period. They keep
 * TABLE-1 to TABLE-4 of server/store/table.h.
 */
#ifndef KVD_SERVER_STORE_TABLE_MAINTAIN_H
#define KVD_SERVER_STORE_TABLE_MAINTAIN_H

#include "common/wire.h"
#include "server/store/table.h"

/*
 * Removes the item at @block and frees it. False: no slot of the chain of @hash leads there; or it
 * should be evicted, but is pinned.
 */
bool table_remove_block(struct store_thread *thread, uint64_t hash, const void *block,
			enum removal why);
/* Removes the item of this version, if a key of this hash has it, and frees it. */
void table_remove_version(struct store_thread *thread, uint64_t hash, uint64_t version);
/*
 * Moves the item at @block to other memory of its size class and frees the block. Its version
 * stays. A large item is copied in pieces without the lock, and the thread passes quiescent states
 * meanwhile. WIRE_OK; WIRE_NOT_FOUND: no slot of the chain of @hash leads there, or not any more;
 * WIRE_NO_SPACE.
 */
enum wire_status table_move_block(struct store_thread *thread, uint64_t hash, const void *block);

/*
 * A move of a large item in steps, between which the caller may pass quiescent states: each finds
 * the item again, and the last one makes the copy the key's (LARGE-1 to LARGE-3 in
 * server/store/large.h). The value sum moves with the value, which is not summed again, so a copy
 * that differs from the stored value does not verify.
 */
struct table_move {
	struct store_thread *thread;
	uint64_t hash;
	const struct item *item;
	uint64_t version; /* of the item that is moved */
	uint64_t bytes;	  /* of the item */
	uint64_t done;	  /* bytes after the header that are copied */
	struct item *to;
};

/* As table_move_block(), but WIRE_BUSY: the item is large, and table_move_step() moves it. */
enum wire_status table_move_begin(struct table_move *move, struct store_thread *thread,
				  uint64_t hash, const void *block);
/* Copies up to @bytes_max bytes. WIRE_BUSY: more are left. Else as table_move_block(). */
enum wire_status table_move_step(struct table_move *move, uint64_t bytes_max);
/* Ends the move before table_move_step() did. The item stays in its place. */
void table_move_cancel(struct table_move *move);

/*
 * Removes the items that have expired, or have a version of at most @version, from the chain of
 * home bucket @number, and ended pins from the fields of the remaining items. The lock is held for
 * one item at a time.
 */
void table_sweep_bucket(struct store_thread *thread, uint64_t number, uint64_t version);
/* Likewise, the items that have expired, or whose keys are in @parts. */
void table_drop_bucket(struct store_thread *thread, uint64_t number,
		       const uint64_t parts[KEY_PARTS_WORDS]);

/*
 * Removes the items that have expired or whose keys are in @parts from @segment of the keys
 * (server/store/moving.h), however often buckets are split meanwhile. The caller sees to it that
 * no thread stores such keys.
 */
void moving_clear(struct store_thread *thread, uint32_t segment,
		  const uint64_t parts[KEY_PARTS_WORDS]);

/*
 * A client has reported @hits GETs: notes time and uses in the first item of the chain whose slot
 * has the tag of @hash, which is another key's 1 time in 65,536. Does nothing if the bucket is
 * locked; takes no other lock and does not wait. Returns the number of buckets that it has read.
 */
unsigned int table_access(struct store_thread *thread, uint64_t hash, uint32_t hits);

/* A GET did not find the key. */
void table_missed(const struct store_thread *thread, uint64_t hash);

#endif /* KVD_SERVER_STORE_TABLE_MAINTAIN_H */
