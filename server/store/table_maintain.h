/* SPDX-License-Identifier: MIT */
/*
 * Changes of the table that begin at a block of memory or a bucket, not at a key: items that are
 * evicted, moved, swept or flushed, and access records.
 */
#ifndef KVD_SERVER_STORE_TABLE_MAINTAIN_H
#define KVD_SERVER_STORE_TABLE_MAINTAIN_H

#include "server/store/table.h"

/*
 * Removes the item at @block, if a slot of the chain of @hash leads there. Returns whether it did.
 */
bool table_remove_block(struct store_thread *thread, uint64_t hash, const void *block,
			enum removal why);
/* Moves it to other memory of its class, in the order of T1. WIRE_NO_SPACE, WIRE_NOT_FOUND. */
enum wire_status table_move_block(struct store_thread *thread, uint64_t hash, const void *block);

/* Removes what is over, or has a version of at most @version, from the chain of bucket @number. */
void table_sweep_bucket(struct store_thread *thread, uint64_t number, uint64_t version);

/* A GET of the key was heard of: notes its time for eviction. */
void table_access(struct store_thread *thread, uint64_t hash);

#endif /* KVD_SERVER_STORE_TABLE_MAINTAIN_H */
