/* SPDX-License-Identifier: MIT */
/*
 * The fixture for the tests of the client's GET (client/libkvd/get.c, rules GET-1 to GET-3): a
 * store in this process and a handle on it (tests/support/loopback.h). Hooks do what another client
 * or the reuse of memory could do during a READ or between two. After each case the store is
 * checked for leaks, copies for GETs of large values included.
 */
#ifndef KVD_TESTS_SUPPORT_GET_TEST_H
#define KVD_TESTS_SUPPORT_GET_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/loopback.h"

#define REGION_BYTES (32u << 20)
#define VALUE_BYTES (4u << 20)

static struct store store;
static struct loopback *loopback;
static struct kvd *kvd;
static uint8_t value[VALUE_BYTES], found[VALUE_BYTES];
static unsigned int reads, requests, bucket_reads; /* counted by the hooks */
static uint32_t rewrite_len;			   /* of the value rewrite() wrote last */

static inline void setup_level(uint32_t level, const struct kvd_options *options)
{
	struct kvd_options small;
	uint64_t x = 88172645463325252;

	/* Two lines for each home bucket: room for all of its slots. */
	kvd_options_init(&small);
	small.cache_bytes = 2 * sizeof(struct bcache_line) << level;
	for (size_t i = 0; i < VALUE_BYTES; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(value + i, &x, 8);
	}
	test_store_create(&store, REGION_BYTES, level, 2);
	loopback = loopback_open(&store, 1, options ? options : &small);
	kvd = &loopback->kvd;
	reads = requests = bucket_reads = 0;
	rewrite_len = 60000;
}

static inline int setup(void **state)
{
	(void)state;
	setup_level(6, NULL);
	return 0;
}

static inline int setup_one_bucket(void **state)
{
	(void)state;
	setup_level(0, NULL);
	return 0;
}

static inline int setup_no_cache(void **state)
{
	struct kvd_options options;

	(void)state;
	kvd_options_init(&options);
	options.cache_bytes = 0;
	setup_level(6, &options);
	return 0;
}

static inline int teardown(void **state)
{
	const char *error;

	(void)state;
	kvd_close(kvd);
	error = test_store_check(&store, NULL);
	if (error)
		print_error("%s\n", error);
	test_store_destroy(&store);
	return error ? -1 : 0;
}

/* Another client's PUT and DELETE: store thread 0 does them without the handle. */
static inline void other_put(const char *key, const void *v, uint32_t len)
{
	assert_int_equal(test_store_put(&store, key, (uint32_t)strlen(key), v, len, NULL), WIRE_OK);
}

static inline void other_delete(const char *key)
{
	assert_int_equal(test_store_delete(&store, key, (uint32_t)strlen(key)), WIRE_OK);
}

/*
 * The offset of the key's item, which is in its home bucket; 0 if it is not. Of a key that it
 * knows, gcc 12 warns of what the hash does with longer ones.
 */
static inline uint64_t place_of(const char *name)
{
	const char *volatile hidden = name;
	const char *key = hidden;
	uint32_t len = (uint32_t)strlen(key);
	const struct bucket *bucket = test_store_home(&store, key, len);
	uint16_t tag = hash_tag(table_hash(&store.table, key, len));

	for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
		if (bucket->slots[i] && slot_tag(bucket->slots[i]) == tag)
			return slot_offset(bucket->slots[i]);
	return 0;
}

static inline struct item *item_of(const char *key)
{
	return region_at(&store.region, place_of(key));
}

static inline bool in_index(uint64_t offset)
{
	return offset <
	       sizeof(struct superblock) + geometry_buckets(&store.region.geometry) * BUCKET_BYTES;
}

static inline void reset_stats(void)
{
	memset(&kvd->stats, 0, sizeof(kvd->stats));
	reads = requests = bucket_reads = 0;
}

static inline void assert_get_bytes(const void *key, size_t key_len, const void *v, size_t len)
{
	struct kvd_item item;

	memset(found, 0xee, len + 1);
	assert_int_equal(kvd_get(kvd, key, key_len, found, sizeof(found), &item), KVD_OK);
	assert_int_equal(item.value_len, len);
	assert_int_equal(item.flags, len ^ 0xf1a95);
	assert_memory_equal(found, v, len);
	assert_int_equal(found[len], 0xee);
}

static inline void assert_get(const char *key, const void *v, size_t len)
{
	assert_get_bytes(key, strlen(key), v, len);
}

static inline void assert_not_found(const char *key)
{
	memset(found, 0xee, 8);
	assert_int_equal(kvd_get(kvd, key, strlen(key), found, sizeof(found), NULL), KVD_NOT_FOUND);
	assert_int_equal(found[0], 0xee);
}

/* The READs, retries and fallbacks since the last call. */
static inline void assert_cost(uint64_t all_reads, uint64_t retries, uint64_t fallbacks)
{
	assert_int_equal(kvd->stats.reads, all_reads);
	assert_int_equal(kvd->stats.retries, retries);
	assert_int_equal(kvd->stats.fallbacks, fallbacks);
	reset_stats();
}

/* Flips a bit of each bucket that is READ, *arg times. */
static inline void tear_bucket(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	unsigned int *left = d->arg;

	if (bytes != BUCKET_BYTES || !in_index(offset))
		return;
	bucket_reads++;
	if (!*left)
		return;
	--*left;
	to[16 + bucket_reads % 112] ^= 1;
}

static uint64_t hidden_sum; /* of the item that hide_item() invalidated, or 0 */

/* Makes an item invalid while it is READ, as a PUT does, *arg times. show_item() follows. */
static inline void hide_item(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	struct item *item = region_at(&store.region, offset);

	(void)bytes;
	hidden_sum = 0;
	if (in_index(offset) || !*(unsigned int *)d->arg)
		return;
	--*(unsigned int *)d->arg;
	hidden_sum = item->sum;
	item->sum = ITEM_SUM_INVALID;
}

static inline void show_item(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct item *item = region_at(&store.region, offset);

	(void)d, (void)to, (void)bytes;
	if (hidden_sum)
		item->sum = hidden_sum;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define CASE_ONE_BUCKET(f) cmocka_unit_test_setup_teardown(f, setup_one_bucket, teardown)

#endif /* KVD_TESTS_SUPPORT_GET_TEST_H */
