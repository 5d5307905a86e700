/* SPDX-License-Identifier: MIT */
/*
 * The store fixture for tests: a store without a server (region, item memory, table and store
 * threads), short forms of PUT, DELETE and GET, and a check of all of it against what
 * server/store/table.h promises.
 */
#ifndef KVD_TESTS_SUPPORT_STORE_FIXTURE_H
#define KVD_TESTS_SUPPORT_STORE_FIXTURE_H

#include "server/store/growth.h"
#include "server/store/store.h"

#define TEST_THREADS_MAX 8

/* The store threads of the test's store. A program has one store at a time. */
extern struct store_thread test_threads[TEST_THREADS_MAX];
extern unsigned int test_thread_count;
/* Bytes that the test has allocated for itself, and keeps. */
extern uint64_t test_store_taken;

/* What test_store_check() counted. */
struct store_census {
	uint64_t items;
	uint64_t overflow_items; /* items in overflow buckets */
	uint64_t overflow_buckets;
	uint64_t class_bytes; /* of the blocks of all items and overflow buckets */
	uint64_t digest;      /* of all buckets and items, without the locks */
	unsigned int chain_max;
};

/* The fill of struct store_options at which the index never grows. */
#define STORE_NO_GROWTH 100000u

/*
 * Creates a store whose index has 2^@level buckets and does not grow, without eviction. Exits the
 * process on failure.
 */
void test_store_create(struct store *store, uint64_t bytes, uint32_t level, unsigned int threads);
void test_store_create_with(struct store *store, uint64_t bytes, uint32_t level,
			    unsigned int threads, const struct store_options *options);
/* What test_store_check() checks must hold, or the process ends: nothing has leaked. */
void test_store_destroy(struct store *store);

/*
 * Empties the store threads' limbos, then walks all buckets. Returns NULL, or a static string that
 * says what is wrong. It checks that
 *  - every bucket verifies and is unlocked;
 *  - every slot is exactly what slot_make() gives for a valid item of that chain;
 *  - every key is in its own chain, once;
 *  - items and overflow buckets are inside the heap and do not overlap;
 *  - versions are unique;
 *  - the store threads' counts of items, overflow buckets and bytes are right, and those of pins;
 *  - live_bytes, expiring and the reasons of removals are counted right;
 *  - each overflow bucket is noted for its chain;
 *  - all other memory is free.
 * No store thread may be in use meanwhile. @census may be NULL.
 */
const char *test_store_check(struct store *store, struct store_census *census);

/* Returns the home bucket of a key. */
struct bucket *test_store_home(const struct store *store, const void *key, uint32_t key_len);

/* The header of the item that a GET found. */
struct store_value {
	uint64_t version;
	uint32_t value_len;
	uint32_t flags;
	uint32_t expires;
};

/* PUT, DELETE and GET by store thread 0. */
enum wire_status test_store_put(struct store *store, const void *key, uint32_t key_len,
				const void *value, uint32_t value_len, struct table_change *out);
enum wire_status test_store_delete(struct store *store, const void *key, uint32_t key_len);
enum wire_status test_store_get(struct store *store, const void *key, uint32_t key_len,
				void *buffer, size_t size, struct store_value *value);

/*
 * Returns the first 8-byte integer above *@from that, as a key, has the same home bucket as @key
 * and, with @tag, the same tag. Sets *@from to it.
 */
uint64_t test_store_collide(const struct store *store, uint64_t key, bool tag, uint64_t *from);

#endif /* KVD_TESTS_SUPPORT_STORE_FIXTURE_H */
