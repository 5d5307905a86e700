/* SPDX-License-Identifier: MIT */
/*
 * Bugs planted in the table on purpose, to see that the torture finds them: tests/stress/race_torture.c
 * compiles the table with the functions of common/barrier.h replaced by those here, which do the
 * same unless one bug is planted. Each breaks one rule of server/store/table.h, index.h, look.h or of
 * client/lookup.c, and widens the moment in which that shows.
 */
#ifndef KVD_TESTS_STRESS_PLANT_H
#define KVD_TESTS_STRESS_PLANT_H

#include "client/lookup.h"
#include "server/store/index.h"
#include "tests/support/loopback.h"

/* clang-format off */
#define PLANT_MAP(X) \
	X(NONE, "none") \
	X(OLD_STAYS, "T1: a replaced item is invalidated after the new one is valid") \
	X(SUM_FIRST, "T1: an item is valid before its slot leads to it") \
	X(REWRITE_VALID, "T1: an item stays valid while it is rewritten in place") \
	X(ACK_EARLY, "T2: an insert returns before its slot is stored and the bucket sealed") \
	X(FREE_VALID, "T1: a deleted or replaced item is invalidated when its memory is freed, later") \
	X(SPLIT_CLEARS, "I2: a split clears what it moves before the new bucket has it") \
	X(LEVEL_LATE, "I1: a split bucket has its new level late") \
	X(MOVE_VALID, "T1: a moved item stays valid where it was, for a while") \
	X(LEVEL_IGNORED, "G2: a client takes a miss from a bucket that was split") \
	X(KEY_IGNORED, "G1: a client does not compare the item's key") \
	X(EPOCH_STAYS, "I3: a chain that is shortened keeps its epoch") \
	X(EPOCH_IGNORED, "L4: readers in the server do not look at the epoch")
/* clang-format on */

enum plant {
#define X(name, text) PLANT_##name,
	PLANT_MAP(X)
#undef X
		PLANTS
};

extern enum plant planted; /* set before threads start */
extern const struct table *plant_table;

const char *plant_text(unsigned int number);

/* @in: the function that calls. */
void plant_item_invalidate(struct item *item, const char *in);
void plant_item_publish(struct item *item, uint64_t sum, const char *in);
void plant_slot_store(uint64_t *slot, uint64_t value, const char *in);
void plant_mem_free(struct mem_cache *cache, void *p, size_t bytes);
void *plant_memmove(void *to, const void *from, size_t bytes);
void plant_bucket_lock(struct bucket *bucket);
void plant_bucket_unlock(struct bucket *bucket, const char *in);
void plant_level_store(struct bucket *bucket, uint8_t level, const char *in);
void plant_chain_move_begin(struct bucket *home, const char *in);
void plant_chain_move_end(struct bucket *home);
uint64_t plant_slot_follow(const uint64_t *slot);
uint16_t plant_epoch_first(const struct bucket *home);
uint16_t plant_epoch_again(const struct bucket *home, uint16_t epoch);
bool plant_item_is_for(const struct item *item, const struct kvd_get_request *request);

/* Does what the calling thread has left to do. */
void plant_settle(void);

/* Hooks of struct direct. */
void plant_before_read(struct direct *direct, uint64_t offset, uint32_t bytes);
void plant_after_read(struct direct *direct, uint64_t offset, uint8_t *to, uint32_t bytes);

#endif /* KVD_TESTS_STRESS_PLANT_H */
