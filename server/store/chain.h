/* SPDX-License-Identifier: MIT */
/*
 * Chains: a home bucket and its overflow buckets; how keys are found in one, and how one is changed.
 * The rules are at the head of server/store/index.h (I3, I4).
 */
#ifndef KVD_SERVER_STORE_CHAIN_H
#define KVD_SERVER_STORE_CHAIN_H

#include "common/barrier.h"
#include "server/store/index.h"

/*
 * Buckets in one chain beside the home bucket. At a fill of 65 % the longest of a million chains has
 * 2; the limit is for a client that picks keys of one bucket, and for an index that could not grow: a
 * PUT into a full chain fails.
 */
#define CHAIN_MAX 32
#define CHAIN_SLOTS_MAX ((CHAIN_MAX + 1) * BUCKET_SLOTS)

/* Chains that are shortened in one second, all in all. Two seconds' worth still keeps I4. */
#define CHAIN_MOVES_MAX 10000

/* A chain that would be left with so few free slots is not shortened: the next PUT would need them. */
#define SPARE_SLOTS 6

/* Overflow buckets of one chain that were unlinked, to be freed when no lock is held: server/store/limbo.h. */
struct retired {
	struct bucket *buckets[CHAIN_MAX + 1]; /* a chain's, and a spare one that was not needed */
	unsigned int count;
};

/*
 * Goes through the buckets of the chain of @home, from it on. Bounded, since a reader that holds no lock
 * may be led from a bucket that was freed into another chain.
 */
#define chain_for_each(table, bucket, home)                                                        \
	for (unsigned int chain_hops = ((bucket) = (home), 0);                                     \
	     (bucket) && chain_hops <= CHAIN_MAX;                                                  \
	     (bucket) = bucket_next(table, bucket), chain_hops++)

/* Where a key is, or where one could be put. */
struct chain_pos {
	struct bucket *home;
	struct bucket *bucket; /* of the slot */
	uint64_t *slot;	       /* NULL: not there */
	struct item *item;
	bool live; /* there, and its time is not over */
	/* for an insert: */
	struct bucket *tail;	/* last of the chain */
	struct bucket *free_in; /* first bucket of the chain with an empty slot, or NULL */
	uint64_t *free_slot;
	unsigned int length; /* overflow buckets in the chain, as far as it was followed */
};

/* Looks for the key in the chain of @home, which is locked. */
void do_chain_find(const struct store_thread *thread, struct chain_pos *pos, struct bucket *home,
		   uint64_t hash, const void *key, uint32_t key_len);
/* Looks for the slot that leads to @block, whatever its key. */
bool do_chain_find_block(const struct table *table, struct chain_pos *pos, struct bucket *home,
			 const void *block);

/* Takes the item out of the table; the caller frees it, and what is added to @retired. */
void do_remove(struct store_thread *thread, struct chain_pos *pos, struct retired *retired);

/* An empty bucket, not sealed. What it was before may still be looked at. */
void bucket_clear(struct bucket *bucket, uint8_t level, uint16_t epoch);

/* Makes a bucket's sum right. @home: of its chain. */
void do_chain_seal(const struct table *table, const struct bucket *home, struct bucket *bucket);

/*
 * Puts the slots of a chain into as few buckets as they fit. @avoid, unless NULL, is an overflow
 * bucket that is to leave the chain, and @spare one that takes its place. What is not needed any more
 * is added to @retired. Not done, with false, when it would give back nothing, or for I4.
 */
bool do_chain_shorten(struct store_thread *thread, struct bucket *home, struct bucket *avoid,
		      struct bucket *spare, struct retired *retired);

/*
 * A chain taken apart: its slots, and its overflow buckets to be used again. Both ends of a split are
 * written from one.
 */
struct chain_parts {
	uint64_t slots[CHAIN_SLOTS_MAX];
	unsigned int slot_count;
	struct bucket *buckets[CHAIN_MAX + 1];
	unsigned int bucket_count, bucket_used;
};

/* Takes the locked chain apart; @avoid, unless NULL, is not among the buckets. */
void do_chain_take_apart(const struct table *table, struct bucket *home, const struct bucket *avoid,
			 struct chain_parts *parts);
/*
 * Writes a chain anew: overflow buckets from the last to the first, then the home bucket, whose epoch
 * is odd. It stays locked.
 */
void do_chain_write(const struct table *table, struct bucket *home, uint8_t level,
		    const uint64_t *slots, unsigned int count, struct chain_parts *parts);
/* The overflow buckets that were not used again. */
void chain_parts_retire(struct store_thread *thread, struct chain_parts *parts,
			struct retired *retired);

/* Frees what a change left, no lock held. */
void retired_free(struct store_thread *thread, struct retired *retired);

#endif /* KVD_SERVER_STORE_CHAIN_H */
