/* SPDX-License-Identifier: MIT */
/*
 * The index: finds the home bucket of a key. Home buckets are one array after the superblock,
 * which grows at its end; each begins a chain of overflow buckets. It grows by linear hashing
 * (Litwin, VLDB 1980): with 2^level + split buckets the next split divides bucket number `split`
 * into itself and a new last bucket, and both get the next higher level.
 *
 *   INDEX-1. A bucket's level says which keys are in its chain: those whose hash has the bucket's
 *	 number in its low `level` bits. Levels only rise. So a reader that comes to a bucket with
 *	 an outdated index size sees that the key is elsewhere, and where.
 *   INDEX-2. A bucket is reachable (through the index size, the superblock's geometry or another
 *	 bucket's level) only after it is complete and sealed.
 *   INDEX-3. Slots are moved, by a split or to shorten a chain, only between chain_move_begin() and
 *	 chain_move_end(). The home bucket's epoch is odd meanwhile, and then all buckets of the
 *	 chain get a new one. So a reader that finds the same even epoch before and after, or in all
 *	 buckets that it read, has missed no slot.
 *   INDEX-4. The epoch of one chain rises less than 2^16 times a second (CHAIN_MOVES_MAX), so a
 *	 reader that takes less than a second does not meet the same epoch again.
 *
 * Threads: any; the functions here block only for a bucket's lock, where they say so.
 */
#ifndef KVD_SERVER_STORE_INDEX_H
#define KVD_SERVER_STORE_INDEX_H

#include "common/barrier.h"
#include "server/store/table.h"

/* table.index_size: level and split, in one word, so that both are read at once. */
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

/*
 * The place of a hash in the order of scans: its bits reversed. In that order the keys of a home
 * bucket of any level are one range. The inverse of itself.
 */
static inline uint64_t hash_order(uint64_t hash)
{
	hash = (hash >> 1 & 0x5555555555555555) | (hash & 0x5555555555555555) << 1;
	hash = (hash >> 2 & 0x3333333333333333) | (hash & 0x3333333333333333) << 2;
	hash = (hash >> 4 & 0x0f0f0f0f0f0f0f0f) | (hash & 0x0f0f0f0f0f0f0f0f) << 4;
	return __builtin_bswap64(hash);
}

/* Where the range after that of the bucket of @level begins which has @order; 0: it is the last. */
static inline uint64_t order_after(uint64_t order, uint8_t level)
{
	return level ? ((order >> (64 - level)) + 1) << (64 - level) : 0;
}

static inline uint64_t index_buckets(const struct table *table)
{
	uint64_t size = atomic_load_explicit(&table->index_size, memory_order_acquire);

	return (1ull << index_size_level(size)) + index_size_split(size);
}

/* Home bucket number @number: the segments of the geometry lie one after another. */
static inline struct bucket *index_bucket(const struct table *table, uint64_t number)
{
	return region_at(table->region, sizeof(struct superblock) + number * BUCKET_BYTES);
}

static inline uint64_t index_number(const struct table *table, const struct bucket *home)
{
	return (region_offset(table->region, home) - sizeof(struct superblock)) / BUCKET_BYTES;
}

/* The value of an overflow field that leads to @bucket. */
static inline uint32_t bucket_ref(const struct region *region, const struct bucket *bucket)
{
	return (uint32_t)(region_offset(region, bucket) / BUCKET_BYTES);
}

/* The next bucket of the chain, or NULL. With or without the lock. */
static inline struct bucket *bucket_next(const struct table *table, const struct bucket *bucket)
{
	uint32_t overflow = bucket_overflow_load(bucket);

	return overflow ? region_at(table->region, (uint64_t)overflow * BUCKET_BYTES) : NULL;
}

static inline struct item *slot_item(const struct table *table, uint64_t slot)
{
	return region_at(table->region, slot_offset(slot));
}

/* The home bucket of @hash now; as it is not locked, a split may move the key on. */
__attribute__((returns_nonnull)) struct bucket *index_home(const struct table *table,
							   uint64_t hash);
/* The home bucket of @hash, locked. The caller unlocks it: bucket_unlock(). */
__attribute__((returns_nonnull)) struct bucket *index_lock_home(const struct table *table,
								uint64_t hash);
/* Home bucket number @number, locked. The caller unlocks it. */
__attribute__((returns_nonnull)) struct bucket *index_lock_number(const struct table *table,
								  uint64_t number);

/* Copies the present geometry, with its sum, to @geometry. */
void index_geometry(const struct table *table, struct geometry *geometry);

/*
 * Prefetch the home bucket of @hash; and, once that is in the cache, its first item whose slot has
 * the key's tag.
 */
void table_prefetch_bucket(const struct table *table, uint64_t hash);
void table_prefetch_item(const struct table *table, uint64_t hash);

#endif /* KVD_SERVER_STORE_INDEX_H */
