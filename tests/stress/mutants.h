/* SPDX-License-Identifier: MIT */
/*
 * Mutants: deliberate bugs in the table and in the client's lookup, to check that the torture
 * finds them (mutation testing). tests/stress/race_torture.c compiles the table with the functions
 * of common/barrier.h replaced by those declared here, which behave the same unless a mutant is
 * active. Each mutant breaks one rule of server/store/table.h, index.h, lookup.h or of
 * client/libkvd/lookup.c, and makes the time longer in which others can observe that.
 */
#ifndef KVD_TESTS_STRESS_MUTANTS_H
#define KVD_TESTS_STRESS_MUTANTS_H

#include "client/libkvd/lookup.h"
#include "server/store/index.h"
#include "tests/support/loopback.h"

/* clang-format off */
#define MUTANT_MAP(X) \
	X(NONE, "none") \
	X(OLD_STAYS, "TABLE-1: a replaced item is invalidated after the new one is valid") \
	X(SUM_FIRST, "TABLE-1: an item is valid before its slot points to it") \
	X(REWRITE_VALID, "TABLE-1: an item stays valid while it is rewritten in place") \
	X(ACK_EARLY, "TABLE-2: an insert returns before its slot is stored and the bucket sealed") \
	X(FREE_VALID, "TABLE-1: a deleted or replaced item is invalidated when its memory is freed, later") \
	X(SPLIT_CLEARS, "INDEX-2: a split clears what it moves before the new bucket has it") \
	X(LEVEL_LATE, "INDEX-1: a split bucket gets its new level late") \
	X(MOVE_VALID, "TABLE-1: a moved item stays valid at its old place for a while") \
	X(LEVEL_IGNORED, "GET-2: a client accepts a miss from a bucket that was split") \
	X(KEY_IGNORED, "GET-1: a client does not compare the item's key") \
	X(EPOCH_STAYS, "INDEX-3: a chain that is shortened keeps its epoch") \
	X(EPOCH_IGNORED, "LOOKUP-4: readers in the server ignore the epoch")
/* clang-format on */

enum mutant {
#define X(name, text) MUTANT_##name,
	MUTANT_MAP(X)
#undef X
		MUTANTS
};

extern enum mutant mutant_active; /* set before threads start */
extern const struct table *mutant_table;

const char *mutant_text(unsigned int number);

/* @in: the name of the calling function, by which a mutant picks the call that it changes. */
void mutant_item_invalidate(struct item *item, const char *in);
void mutant_item_publish(struct item *item, uint64_t sum, const char *in);
void mutant_slot_store(uint64_t *slot, uint64_t value, const char *in);
void mutant_mem_free(struct mem_cache *cache, void *p, size_t bytes);
void *mutant_memmove(void *to, const void *from, size_t bytes);
void mutant_bucket_lock(struct bucket *bucket);
void mutant_bucket_unlock(struct bucket *bucket, const char *in);
void mutant_level_store(struct bucket *bucket, uint8_t level, const char *in);
void mutant_chain_move_begin(struct bucket *home, const char *in);
void mutant_chain_move_end(struct bucket *home);
uint64_t mutant_slot_follow(const uint64_t *slot);
uint16_t mutant_epoch_first(const struct bucket *home);
uint16_t mutant_epoch_again(const struct bucket *home, uint16_t epoch);
bool mutant_item_is_for(const struct item *item, const struct kvd_get_request *request);

/* Carries out what the calling thread has postponed. */
void mutant_settle(void);

/* Hooks of struct loopback. */
void mutant_before_read(struct loopback *loopback, uint64_t offset, uint32_t bytes);
void mutant_after_read(struct loopback *loopback, uint64_t offset, uint8_t *to, uint32_t bytes);

#endif /* KVD_TESTS_STRESS_MUTANTS_H */
