/* SPDX-License-Identifier: MIT */
/*
 * A store without a server, for tests: region, item memory, table and threads; and a check of the
 * whole of it against what server/store/table.h promises.
 */
#ifndef KVD_TESTS_SUPPORT_STORE_FIXTURE_H
#define KVD_TESTS_SUPPORT_STORE_FIXTURE_H

#include "server/store/growth.h"
#include "server/store/store.h"

#define TEST_THREADS_MAX 8

/* Those of the test's store; there is one store in a program. */
extern struct store_thread test_threads[TEST_THREADS_MAX];
extern unsigned int test_thread_count;

/* What test_store_check() counted. */
struct store_census {
	uint64_t items;
	uint64_t overflow_items; /* of those, in overflow buckets */
	uint64_t overflow_buckets;
	uint64_t class_bytes; /* of all items and overflow buckets */
	uint64_t digest;      /* of all buckets and items, locks excepted */
	unsigned int chain_max;
};

/* For struct store_options: the index keeps the size it was made with. */
#define STORE_NO_GROWTH 100000u

/* Ends the process if it can't. An index of 2^@level buckets that does not grow, and no eviction. */
void test_store_create(struct store *store, uint64_t bytes, uint32_t level, unsigned int threads);
void test_store_create_with(struct store *store, uint64_t bytes, uint32_t level,
			    unsigned int threads, const struct store_options *options);
void test_store_destroy(struct store *store);

/*
 * Empties the threads' limbos, then walks all buckets. Returns NULL, or what is wrong (a static string): every bucket verifies and is
 * unlocked, every slot is exactly what slot_make() gives for a valid item, in its key's chain and
 * there once, inside the heap and apart from all others; versions are unique; the threads' counts
 * of items, overflow buckets and bytes are right. No thread may be at work. @census may be NULL.
 */
const char *test_store_check(struct store *store, struct store_census *census);

/* The home bucket of a key. */
struct bucket *test_store_home(const struct store *store, const void *key, uint32_t key_len);

/* What a GET found. */
struct store_value {
	uint64_t version;
	uint32_t value_len;
	uint32_t flags;
	uint32_t expires;
};

/* PUT, DELETE, GET by thread 0. */
enum wire_status test_store_put(struct store *store, const void *key, uint32_t key_len,
				const void *value, uint32_t value_len, struct table_change *out);
enum wire_status test_store_delete(struct store *store, const void *key, uint32_t key_len);
enum wire_status test_store_get(struct store *store, const void *key, uint32_t key_len,
				void *buffer, size_t size, struct store_value *value);

/*
 * The @n-th key, starting at 8-byte integers above *@from, that has the home bucket and, with @tag,
 * the tag of @key. Advances *@from past it.
 */
uint64_t test_store_collide(const struct store *store, uint64_t key, bool tag, uint64_t *from);

#endif /* KVD_TESTS_SUPPORT_STORE_FIXTURE_H */
