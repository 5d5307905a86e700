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
 *   I4. The epoch of one chain rises less than 2^16 times a second (CHAIN_MOVES_MAX), so that a reader that
 *	 takes less than that does not meet the same epoch again.
 */
#ifndef KVD_SERVER_STORE_INDEX_H
#define KVD_SERVER_STORE_INDEX_H

#include "common/barrier.h"
#include "server/store/table.h"

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
__attribute__((returns_nonnull)) struct bucket *index_home(const struct table *table,
							   uint64_t hash);
/* The home bucket of @hash, locked. */
__attribute__((returns_nonnull)) struct bucket *index_lock_home(const struct table *table,
								uint64_t hash);
/* Home bucket number @number, locked. */
__attribute__((returns_nonnull)) struct bucket *index_lock_number(const struct table *table,
								  uint64_t number);

/* The geometry as of now, sealed. Any thread. */
void index_geometry(const struct table *table, struct geometry *geometry);

/* Brings the home bucket of @hash to the cache; then, once it is there, the item. */
void table_prefetch_bucket(const struct table *table, uint64_t hash);
void table_prefetch_item(const struct table *table, uint64_t hash);

#endif /* KVD_SERVER_STORE_INDEX_H */
