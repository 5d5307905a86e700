/* SPDX-License-Identifier: MIT */
/*
 * Chains: a home bucket and its overflow buckets; finds keys in one and changes one. The rules are
 * at the head of server/store/index.h (INDEX-3, INDEX-4).
 *
 * do_* functions expect the home bucket's lock to be held, and none of them blocks.
 */
#ifndef KVD_SERVER_STORE_CHAIN_H
#define KVD_SERVER_STORE_CHAIN_H

#include "common/barrier.h"
#include "server/store/index.h"

/*
 * Overflow buckets in one chain. At a fill of 65 % the longest of a million chains has 2, at 1,000
 * percent 14. An index has such fills for as long as it finds no room: where larger items made way
 * for smaller ones in full memory and nothing is evicted, there were more than 8
 * (none_page_to_small in tests/unit/server/test_evict.c). The limit is for a client that chooses
 * keys of one bucket, which costs it nothing: it knows the hash seed, and XXH3 of short keys can be
 * inverted. The table shows what such a client can make others pay, by chains of keys that all have
 * one tag (ns of the server's CPU, for changes under the bucket's lock; 256 such chains in turn):
 *
 *	overflow	keys	GET	PUT	miss	DELETE and PUT	READs of buckets
 *	 0		14	 290	 140	 250	 300		 1
 *	 4		70	1340	 460	1290	 960		 5
 *	 8		126	2430	1230	2380	2080		 9
 *	16		238	4590	2400	4540	4010		17
 *	32		462	9020	4670	8990	7750		33
 *
 * With 16, each is a quarter of a piece of a deferred request at most (20 us). A PUT of a new key
 * into a full chain evicts another key of it or, without eviction, fails: evict_choose_slot().
 */
#define CHAIN_MAX 16
#define CHAIN_SLOTS_MAX ((CHAIN_MAX + 1) * BUCKET_SLOTS)

/*
 * Chains shortened in one second, in the whole table. Each adds 2 to an epoch, so those of two
 * seconds add 40,000 at most: INDEX-4.
 */
#define CHAIN_MOVES_MAX 10000

/* A chain is shortened only if this many slots stay free, for the next PUTs. */
#define SPARE_SLOTS 6

/* Overflow buckets that were unlinked; retired_free() frees them, without the lock. */
struct retired {
	struct bucket *buckets[CHAIN_MAX + 1]; /* a chain's, and an unused spare */
	unsigned int count;
};

/*
 * Visits the buckets of the chain of @home, @home first. Bounded: while a reader without the lock
 * is at a bucket, it may become part of another chain and lead the reader there. @home must not be
 * NULL.
 */
#define chain_for_each(table, bucket, home)                                                        \
	for (unsigned int chain_hops = ((bucket) = (home), 0);                                     \
	     !chain_hops || ((bucket) && chain_hops <= CHAIN_MAX);                                 \
	     (bucket) = bucket_next(table, bucket), chain_hops++)

/* Where a key is in its chain, or where it can be inserted. */
struct chain_pos {
	struct bucket *home;
	struct bucket *bucket; /* the one that has the slot */
	uint64_t *slot;	       /* NULL: the key is not there */
	struct item *item;
	bool live; /* it is there and has not expired */
	/* For an insert: */
	struct bucket *tail;	/* last bucket of the chain */
	struct bucket *free_in; /* first bucket of the chain with an empty slot, or NULL */
	uint64_t *free_slot;
	unsigned int length; /* overflow buckets in the chain, as far as it was followed */
};

/* Finds the key in the chain of @home. */
void do_chain_find(const struct store_thread *thread, struct chain_pos *pos, struct bucket *home,
		   uint64_t hash, const void *key, uint32_t key_len);
/* Finds the slot that leads to @block, whatever the key. False: there is none. */
bool do_chain_find_block(const struct table *table, struct chain_pos *pos, struct bucket *home,
			 const void *block);

/*
 * Removes the item at @pos from the table, and shortens the chain if that frees an overflow bucket.
 * The caller frees the item and the buckets added to @retired, both without the lock.
 */
void do_remove(struct store_thread *thread, struct chain_pos *pos, struct retired *retired);

/* Makes @bucket empty, unlocked and the last of a chain; not sealed. Readers may still be in it. */
void bucket_clear(struct bucket *bucket, uint8_t level, uint16_t epoch);

/* Adds @bucket, with @slot, to the chain at @pos: sealed before it is linked. */
void do_chain_extend(struct store_thread *thread, const struct chain_pos *pos,
		     struct bucket *bucket, uint64_t slot);

/* Stores the sum of the bucket's content. @home: of its chain. */
void do_chain_seal(const struct table *table, const struct bucket *home, struct bucket *bucket);

/*
 * Writes the slots of a chain into as few buckets as possible. @avoid, unless NULL, is an overflow
 * bucket that must leave the chain, and @spare one that replaces it. Buckets that are not needed
 * are added to @retired. Returns false and changes nothing if that would free no bucket or break
 * INDEX-4.
 */
bool do_chain_shorten(struct store_thread *thread, struct bucket *home, struct bucket *avoid,
		      struct bucket *spare, struct retired *retired);

/*
 * A chain taken apart: its slots, and its overflow buckets for reuse. A split writes both of its
 * chains from one.
 */
struct chain_parts {
	uint64_t slots[CHAIN_SLOTS_MAX];
	unsigned int slot_count;
	struct bucket *buckets[CHAIN_MAX + 1];
	unsigned int bucket_count, bucket_used; /* the first bucket_used are in a chain again */
};

/* Copies slots and buckets of the chain, which is not changed. @avoid, unless NULL, is left out. */
void do_chain_take_apart(const struct table *table, struct bucket *home, const struct bucket *avoid,
			 struct chain_parts *parts);
/*
 * Writes a chain of @count @slots: overflow buckets from the last to the first, then the home
 * bucket. Ends the move that chain_move_begin() began. The chain stays locked.
 */
void do_chain_write(const struct table *table, struct bucket *home, uint8_t level,
		    const uint64_t *slots, unsigned int count, struct chain_parts *parts);
/* Adds the overflow buckets that were not used again to @retired. */
void chain_parts_retire(struct store_thread *thread, struct chain_parts *parts,
			struct retired *retired);

/* Frees the buckets, after a grace period, for which it may wait. No lock held. */
void retired_free(struct store_thread *thread, struct retired *retired);

#endif /* KVD_SERVER_STORE_CHAIN_H */
