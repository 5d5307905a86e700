/* SPDX-License-Identifier: MIT */
/* The index: finds and locks the home bucket of a key while the index grows, and prefetches it. */
#include "server/store/index.h"

struct bucket *index_home(const struct table *table, uint64_t hash)
{
	uint64_t size = atomic_load_explicit(&table->index_size, memory_order_acquire), differ;
	uint32_t level = index_size_level(size);
	uint64_t number = low_bits(hash, level);
	struct bucket *home;

	if (number < index_size_split(size))
		number = low_bits(hash, level + 1);
	/*
	 * INDEX-1. The index size may be outdated by now. The bucket was split once for each bit
	 * above its old level. The first of these bits in which the key's hash differs tells the
	 * split in which the key left, and the bucket that it went to, which was complete by then.
	 */
	for (;;) {
		home = index_bucket(table, number);
		differ = low_bits(hash ^ number, bucket_level_load(home));
		if (!differ)
			return home;
		number = low_bits(hash, (uint32_t)__builtin_ctzll(differ) + 1);
	}
}

struct bucket *index_lock_home(const struct table *table, uint64_t hash)
{
	struct bucket *home;

	for (;;) {
		home = index_home(table, hash);
		bucket_lock(home);
		if (low_bits(hash, home->level) == index_number(table, home))
			return home;
		bucket_unlock(home);
	}
}

struct bucket *index_lock_number(const struct table *table, uint64_t number)
{
	struct bucket *home = index_bucket(table, number);

	bucket_lock(home);
	return home;
}

void index_geometry(const struct table *table, struct geometry *geometry)
{
	uint64_t size = atomic_load(&table->index_size);

	/* Only level, split and sum ever change; they are overwritten here. */
	racy_copy(geometry, &table->region->geometry, sizeof(*geometry));
	geometry->level = index_size_level(size);
	geometry->split = index_size_split(size);
	geometry->sum = geometry_sum(geometry);
}

void table_prefetch_bucket(const struct table *table, uint64_t hash)
{
	uint64_t size = atomic_load_explicit(&table->index_size, memory_order_relaxed);
	uint64_t number = low_bits(hash, index_size_level(size));
	const struct bucket *bucket;

	if (number < index_size_split(size))
		number = low_bits(hash, index_size_level(size) + 1);
	bucket = index_bucket(table, number);
	__builtin_prefetch(bucket, 1);
	__builtin_prefetch((const uint8_t *)bucket + 64, 1);
}

void table_prefetch_item(const struct table *table, uint64_t hash)
{
	const struct bucket *bucket = index_home(table, hash);
	uint16_t tag = hash_tag(hash);
	unsigned int i;

	for (i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t slot = slot_load(&bucket->slots[i]);

		if (slot && slot_tag(slot) == tag) {
			const uint8_t *item = (const uint8_t *)slot_item(table, slot);

			__builtin_prefetch(item, 1);
			__builtin_prefetch(item + 64, 1);
			__builtin_prefetch(item + 128, 1);
			return;
		}
	}
}
