/* SPDX-License-Identifier: MIT */
/*
 * The storage engine without a server, for measurements of it alone: region, item memory, table and
 * one thread, on one thread. Everything these programs know of the server library is in this pair.
 */
#ifndef KVD_BENCH_ENGINE_STORE_H
#define KVD_BENCH_ENGINE_STORE_H

#include <urcu-qsbr.h>

#include "server/store/index.h"
#include "server/store/lookup.h"
#include "server/store/table.h"

/* A fill in percent that no index reaches: its chains are full before. */
#define STORE_FILL_NEVER 100000u

struct store {
	struct region region;
	struct memory *memory;
	struct table table;
	struct store_thread thread;
};

/*
 * Makes a store of @bytes with 2^@level buckets that grows at @fill percent. The calling thread becomes
 * an RCU reader. Ends the process if it can't.
 */
void store_create(struct store *store, uint64_t bytes, uint32_t level, uint32_t fill);
void store_destroy(struct store *store);

static inline uint64_t store_hash(const struct store *store, const void *key, uint32_t key_len)
{
	return table_hash(&store->table, key, key_len);
}

static inline bool store_put(struct store *store, uint64_t hash, const void *key, uint32_t key_len,
			     const void *value, uint32_t value_len)
{
	struct table_change change = {
		.key = key,
		.key_len = key_len,
		.mode = WIRE_SET,
		.value = value,
		.value_len = value_len,
	};

	return table_put(&store->thread, hash, &change) == WIRE_OK;
}

/* Copies the value, of at most @size bytes, as a two-sided GET does. */
static inline bool store_get(struct store *store, uint64_t hash, const void *key, uint32_t key_len,
			     void *value, size_t size)
{
	struct item_ref ref;

	return lookup_get(&store->thread, hash, key, key_len, value, size, &ref) == WIRE_OK;
}

static inline bool store_delete(struct store *store, uint64_t hash, const void *key,
				uint32_t key_len)
{
	const struct table_change change = { .key = key, .key_len = key_len };

	return table_delete(&store->thread, hash, &change) == WIRE_OK;
}

/* Between two batches of a worker. */
static inline void store_turn(void)
{
	urcu_qsbr_quiescent_state();
}

static inline uint64_t store_buckets(const struct store *store)
{
	return index_buckets(&store->table);
}

static inline const struct bucket *store_bucket(const struct store *store, uint64_t number)
{
	return index_bucket(&store->table, number);
}

static inline const struct bucket *store_next(const struct store *store,
					      const struct bucket *bucket)
{
	return bucket_next(&store->table, bucket);
}

#endif /* KVD_BENCH_ENGINE_STORE_H */
