/* SPDX-License-Identifier: MIT */
/*
 * Store hooks: compiles the table and the index into the test that includes this file, with a call
 * of store_hook() after every memory store that readers depend on, so that the test can check what
 * a reader finds at each of these points. The linker then takes no objects of these files from the
 * library. Include it in one file of a program.
 */
#ifndef KVD_TESTS_SUPPORT_STORE_HOOKS_H
#define KVD_TESTS_SUPPORT_STORE_HOOKS_H

#include "common/barrier.h"

/* The test defines it. @after: the name of the function of common/barrier.h that was called. */
void store_hook(const char *after);

static inline void hooked_item_invalidate(struct item *item)
{
	item_invalidate(item);
	store_hook("item_invalidate");
}

static inline void hooked_item_publish(struct item *item, uint64_t sum)
{
	item_publish(item, sum);
	store_hook("item_publish");
}

static inline void hooked_slot_store(uint64_t *slot, uint64_t value)
{
	slot_store(slot, value);
	store_hook("slot_store");
}

static inline void hooked_bucket_link(struct bucket *bucket, uint32_t overflow)
{
	bucket_link(bucket, overflow);
	store_hook("bucket_link");
}

static inline void hooked_bucket_seal(struct bucket *bucket, uint64_t sum)
{
	bucket_seal(bucket, sum);
	store_hook("bucket_seal");
}

static inline void hooked_bucket_level_store(struct bucket *bucket, uint8_t level)
{
	bucket_level_store(bucket, level);
	store_hook("bucket_level_store");
}

static inline void hooked_chain_move_begin(struct bucket *home)
{
	chain_move_begin(home);
	store_hook("chain_move_begin");
}

static inline void hooked_chain_move_end(struct bucket *home)
{
	chain_move_end(home);
	store_hook("chain_move_end");
}

static inline void hooked_store_load_barrier(void)
{
	store_load_barrier();
	store_hook("store_load_barrier");
}

/* Included before the macros, which must not change the functions in headers. */
#include "server/store/growth.h"

#define item_invalidate hooked_item_invalidate
#define item_publish hooked_item_publish
#define slot_store hooked_slot_store
#define bucket_link hooked_bucket_link
#define bucket_seal hooked_bucket_seal
#define bucket_level_store hooked_bucket_level_store
#define chain_move_begin hooked_chain_move_begin
#define chain_move_end hooked_chain_move_end
#define store_load_barrier hooked_store_load_barrier
#include "server/store/chain.c"
#include "server/store/growth.c"
#include "server/store/table_maintain.c"
#include "server/store/attempt.c"
#include "server/store/large.c"
#include "server/store/update.c"
#undef item_invalidate
#undef item_publish
#undef slot_store
#undef bucket_link
#undef bucket_seal
#undef bucket_level_store
#undef chain_move_begin
#undef chain_move_end
#undef store_load_barrier

#endif /* KVD_TESTS_SUPPORT_STORE_HOOKS_H */
