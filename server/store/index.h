/* SPDX-License-Identifier: MIT */
/*
 * The index: home buckets, one array behind the superblock that grows at its end, and their chains of
 * overflow buckets. It grows by linear hashing (Litwin, VLDB 1980): with 2^level + split buckets the
 * next split takes bucket number `split` apart, into itself and a new last one, and both are of a
 * level one higher.
 *
 *   I1. A bucket's level says which keys are in its chain: those whose hash's low `level` bits are its
 *	 number. Levels only rise. So whoever comes to a bucket with an old idea of the index's size
 *	 sees that the key is elsewhere, and where.
 *   I2. A bucket is in the index (the index size, the superblock's geometry, another bucket's level lead
 *	 to it) only after it is whole and sealed.
 *   I3. Slots are moved, by a split or to shorten a chain, only between chain_move_begin() and
 *	 chain_move_end(). The home bucket's epoch is odd meanwhile, and then all buckets of the chain
 *	 have a new one. So a reader that sees the same even epoch before and after, or in all buckets
 *	 it read, has missed no slot.
 *   I4. The epoch of one chain rises less than 2^16 times a second (MOVES_MAX), so that a reader that
 *	 takes less than that does not meet the same epoch again.
 */
#ifndef KVD_SERVER_STORE_INDEX_H
#define KVD_SERVER_STORE_INDEX_H

#include "common/barrier.h"
#include "server/store/table.h"

/*
 * Buckets in one chain beside the home bucket. At a fill of 65 % the longest of a million chains has
 * 2; the limit is for a client that picks keys of one bucket, and for an index that could not grow: a
 * PUT into a full chain fails.
 */
#define CHAIN_MAX 32
#define CHAIN_SLOTS_MAX ((CHAIN_MAX + 1) * BUCKET_SLOTS)

/* Chains that are shortened in one second, all in all. Two seconds' worth still keeps I4. */
#define MOVES_MAX 10000

/* A chain that would be left with so few free slots is not shortened: the next PUT would need them. */
#define SPARE_SLOTS 6

/* Memory is added to the index in steps of so many buckets: 64 KiB. */
#define INDEX_STEP 512u

/* Overflow buckets of one chain that were unlinked, to be freed when no lock is held: server/store/limbo.h. */
struct retired {
	struct bucket *buckets[CHAIN_MAX + 1]; /* a chain's, and a spare one that was not needed */
	unsigned int count;
};

static inline uint64_t index_size_make(uint32_t level, uint64_t split)
{
	return (uint64_t)level << 56 | split;
}

static inline uint32_t index_size_level(uint64_t size)
{
	return (uint32_t)(size >> 56);
}

static inline uint64_t index_size_split(uint64_t size)
{
	return size & ((1ull << 56) - 1);
}

static inline uint64_t low_bits(uint64_t hash, uint32_t level)
{
	return hash & ((1ull << level) - 1);
}

static inline uint64_t index_buckets(const struct table *table)
{
	uint64_t size = atomic_load_explicit(&table->index_size, memory_order_acquire);

	return (1ull << index_size_level(size)) + index_size_split(size);
}

/* Home bucket number @number. The segments of the geometry lie one behind the other. */
static inline struct bucket *index_bucket(const struct table *table, uint64_t number)
{
	return region_at(table->region, sizeof(struct superblock) + number * BUCKET_BYTES);
}

static inline uint64_t index_number(const struct table *table, const struct bucket *home)
{
	return (region_offset(table->region, home) - sizeof(struct superblock)) / BUCKET_BYTES;
}

static inline uint32_t bucket_ref(const struct region *region, const struct bucket *bucket)
{
	return (uint32_t)(region_offset(region, bucket) / BUCKET_BYTES);
}

static inline struct bucket *bucket_next(const struct table *table, const struct bucket *bucket)
{
	uint32_t overflow = bucket_overflow_load(bucket);

	return overflow ? region_at(table->region, (uint64_t)overflow * BUCKET_BYTES) : NULL;
}

static inline struct item *slot_item(const struct table *table, uint64_t slot)
{
	return region_at(table->region, slot_offset(slot));
}

/* The home bucket of @hash at this moment. */
struct bucket *index_home(const struct table *table, uint64_t hash);
/* The home bucket of @hash, locked. */
struct bucket *index_lock_home(const struct table *table, uint64_t hash);
/* Home bucket number @number, locked. */
struct bucket *index_lock_number(const struct table *table, uint64_t number);

/* Formats the buckets the geometry begins with, in memory that is the index's. */
void index_format(struct table *table);

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

/* Called with no lock held after a key was added: splits a bucket if there are keys enough. */
void index_grow(struct store_thread *thread);

/*
 * Adds a step of memory to the index, if it is free. Else the maintenance thread has to empty it: false.
 */
bool index_extend(struct table *table);

/* The geometry as of now, sealed. Any thread. */
void index_geometry(const struct table *table, struct geometry *geometry);

/* Wakes the maintenance, if there is one: server/store/maintenance.c. */
void table_wake_maintenance(const struct table *table);

/* Frees what a change left, no lock held. */
void retired_free(struct store_thread *thread, struct retired *retired);

#endif /* KVD_SERVER_STORE_INDEX_H */
