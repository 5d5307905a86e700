/* SPDX-License-Identifier: MIT */
/*
 * The storage engine without a server, for measurements of it alone: region, item memory, table and
 * one thread, on one thread. Everything these programs know of the server library is in this pair.
 */
#ifndef KVD_BENCH_ENGINE_ENGINE_H
#define KVD_BENCH_ENGINE_ENGINE_H

#include <urcu-qsbr.h>

#include "server/store/store.h"

/* A fill in percent that no index reaches: its chains are full before. */
#define STORE_FILL_NEVER 100000u

struct engine {
	struct store store;
	struct store_thread thread;
};

/*
 * Creates a store of @bytes with 2^@level buckets that grows at @fill percent. The calling thread
 * becomes an RCU reader. Exits the process on failure.
 */
void engine_create(struct engine *engine, uint64_t bytes, uint32_t level, uint32_t fill);
void engine_destroy(struct engine *engine);

static inline uint64_t engine_hash(const struct engine *engine, const void *key, uint32_t key_len)
{
	return table_hash(&engine->store.table, key, key_len);
}

static inline bool engine_put(struct engine *engine, uint64_t hash, const void *key,
			      uint32_t key_len, const void *value, uint32_t value_len)
{
	struct table_change change = {
		.key = key,
		.key_len = key_len,
		.mode = WIRE_SET,
		.value = value,
		.value_len = value_len,
	};

	return table_put(&engine->thread, hash, &change) == WIRE_OK;
}

/* Copies the value, of at most @size bytes, as a two-sided GET does. */
static inline bool engine_get(struct engine *engine, uint64_t hash, const void *key,
			      uint32_t key_len, void *value, size_t size)
{
	struct item_ref ref;

	return lookup_get(&engine->thread, hash, key, key_len, value, size, &ref) == WIRE_OK;
}

static inline bool engine_delete(struct engine *engine, uint64_t hash, const void *key,
				 uint32_t key_len)
{
	const struct table_change change = { .key = key, .key_len = key_len };

	return table_delete(&engine->thread, hash, &change) == WIRE_OK;
}

/* Between two batches of a worker. */
static inline void engine_turn(void)
{
	urcu_qsbr_quiescent_state();
}

static inline uint64_t engine_buckets(const struct engine *engine)
{
	return index_buckets(&engine->store.table);
}

static inline const struct bucket *engine_bucket(const struct engine *engine, uint64_t number)
{
	return index_bucket(&engine->store.table, number);
}

static inline const struct bucket *engine_next(const struct engine *engine,
					       const struct bucket *bucket)
{
	return bucket_next(&engine->store.table, bucket);
}

#endif /* KVD_BENCH_ENGINE_ENGINE_H */
