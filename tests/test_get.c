/* SPDX-License-Identifier: MIT */
/*
 * The client's GET (client/get.c, rules G1 to G3), on a store in this process: what another client
 * or the memory's reuse could do between or during two READs is done exactly there, by hooks
 * (tests/direct.h). After each case the store is checked for leaks, copies included.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/barrier.h"
#include "tests/direct.h"

#define REGION_BYTES (32u << 20)
#define VALUE_BYTES (4u << 20)

static struct store store;
static struct direct *direct;
static struct kvd *kvd;
static uint8_t value[VALUE_BYTES], found[VALUE_BYTES];
static unsigned int reads, requests, bucket_reads; /* seen by the hooks */
static uint32_t rewrite_len; /* of what rewrite() wrote last */

static void setup_level(uint32_t level, const struct kvd_options *options)
{
	uint64_t x = 88172645463325252;

	for (size_t i = 0; i < VALUE_BYTES; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(value + i, &x, 8);
	}
	store_create(&store, REGION_BYTES, level, 2);
	direct = direct_open(&store, 1, options);
	kvd = &direct->kvd;
	reads = requests = bucket_reads = 0;
	rewrite_len = 60000;
}

static int setup(void **state)
{
	(void)state;
	setup_level(6, NULL);
	return 0;
}

static int setup_one_bucket(void **state)
{
	(void)state;
	setup_level(0, NULL);
	return 0;
}

static int setup_no_cache(void **state)
{
	struct kvd_options options;

	(void)state;
	kvd_options_init(&options);
	options.cache_bytes = 0;
	setup_level(6, &options);
	return 0;
}

static int teardown(void **state)
{
	const char *error;

	(void)state;
	kvd_close(kvd);
	error = store_check(&store, NULL);
	if (error)
		print_error("%s\n", error);
	store_destroy(&store);
	return error ? -1 : 0;
}

/* Another client's PUT and DELETE: by writer 0, behind the handle's back. */
static void other_put(const char *key, const void *v, uint32_t len)
{
	assert_int_equal(store_put(&store, key, (uint32_t)strlen(key), v, len, NULL), WIRE_OK);
}

static void other_delete(const char *key)
{
	assert_int_equal(store_delete(&store, key, (uint32_t)strlen(key)), WIRE_OK);
}

static uint64_t place_of(const char *key)
{
	uint32_t len = (uint32_t)strlen(key);
	const struct bucket *bucket = store_home(&store, key, len);
	uint16_t tag = hash_tag(table_hash(&store.table, key, len));

	for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
		if (bucket->slots[i] && slot_tag(bucket->slots[i]) == tag)
			return slot_offset(bucket->slots[i]);
	return 0;
}

static struct item *item_of(const char *key)
{
	return region_at(&store.region, place_of(key));
}

static bool in_index(uint64_t offset)
{
	return offset < store.region.heap;
}

static void reset_stats(void)
{
	memset(&kvd->stats, 0, sizeof(kvd->stats));
	reads = requests = bucket_reads = 0;
}

static void assert_get_bytes(const void *key, size_t key_len, const void *v, size_t len)
{
	struct kvd_item item;

	memset(found, 0xee, len + 1);
	assert_int_equal(kvd_get(kvd, key, key_len, found, sizeof(found), &item), KVD_OK);
	assert_int_equal(item.value_len, len);
	assert_int_equal(item.flags, len ^ 0xf1a95);
	assert_memory_equal(found, v, len);
	assert_int_equal(found[len], 0xee);
}

static void assert_get(const char *key, const void *v, size_t len)
{
	assert_get_bytes(key, strlen(key), v, len);
}

static void assert_not_found(const char *key)
{
	memset(found, 0xee, 8);
	assert_int_equal(kvd_get(kvd, key, strlen(key), found, sizeof(found), NULL),
			 KVD_NOT_FOUND);
	assert_int_equal(found[0], 0xee);
}

/* What the last GET cost. */
static void assert_cost(uint64_t all_reads, uint64_t retries, uint64_t fallbacks)
{
	assert_int_equal(kvd->stats.reads, all_reads);
	assert_int_equal(kvd->stats.retries, retries);
	assert_int_equal(kvd->stats.fallbacks, fallbacks);
	reset_stats();
}

static void cold_is_two_reads_and_warm_one(void **state)
{
	(void)state;
	other_put("key", value, 100);
	assert_get("key", value, 100);
	assert_int_equal(kvd->stats.cache_hits, 0);
	assert_int_equal(kvd->stats.bucket_reads, 1);
	assert_cost(2, 0, 0);
	assert_get("key", value, 100);
	assert_int_equal(kvd->stats.cache_hits, 1);
	assert_int_equal(kvd->stats.requests, 0);
	assert_cost(1, 0, 0);
	/* In place: the cached slot is still good. */
	other_put("key", value + 1, 99);
	assert_get("key", value + 1, 99);
	assert_int_equal(kvd->stats.hits, 1);
	assert_cost(1, 0, 0);
}

static void without_a_cache_all_are_cold(void **state)
{
	(void)state;
	assert_int_equal(kvd_put(kvd, "key", 3, value, 100, &(struct kvd_put_args){ 100 ^ 0xf1a95 },
				 NULL),
			 KVD_OK);
	assert_get("key", value, 100);
	assert_get("key", value, 100);
	assert_cost(4, 0, 0);
}

static void a_put_teaches_the_place(void **state)
{
	struct kvd_put_args args = { 100 ^ 0xf1a95 };
	uint64_t version = 0;
	struct kvd_item item;

	(void)state;
	assert_int_equal(kvd_put(kvd, "key", 3, value, 100, &args, &version), KVD_OK);
	assert_get("key", value, 100);
	assert_cost(1, 0, 0);
	assert_int_equal(kvd_get(kvd, "key", 3, found, 100, &item), KVD_OK);
	assert_true(item.version == version && version);
	assert_int_equal(kvd_delete(kvd, "key", 3), KVD_OK);
	assert_not_found("key");
	assert_int_equal(kvd_delete(kvd, "key", 3), KVD_NOT_FOUND);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

static void a_miss_is_one_read(void **state)
{
	(void)state;
	assert_not_found("key");
	assert_int_equal(kvd->stats.misses, 1);
	assert_cost(1, 0, 0);
	/* A cached bucket never proves a miss. */
	assert_not_found("key");
	assert_cost(1, 0, 0);
	other_put("key", value, 5);
	assert_get("key", value, 5);
	assert_cost(2, 0, 0);
	other_delete("key");
	assert_not_found("key");
	assert_int_equal(kvd->stats.cache_stale, 1);
	assert_cost(2, 0, 0);
}

static void keys_and_values_of_all_lengths(void **state)
{
	uint8_t key[KEY_MAX] = { 0 };
	struct kvd_put_args args;
	uint32_t len;

	(void)state;
	for (len = 1; len <= KEY_MAX; len += len < 20 ? 1 : 251) {
		args.flags = (2 * len) ^ 0xf1a95;
		assert_int_equal(kvd_put(kvd, key, len, value + len, 2 * len, &args, NULL), KVD_OK);
		assert_get_bytes(key, len, value + len, 2 * len);
	}
	args.flags = 0 ^ 0xf1a95;
	assert_int_equal(kvd_put(kvd, key, 1, NULL, 0, &args, NULL), KVD_OK);
	assert_get_bytes(key, 1, NULL, 0);
	assert_int_equal(kvd_get(kvd, key, 1, NULL, 0, NULL), KVD_OK);
	key[5] = 1;
	assert_int_equal(kvd_get(kvd, key, 6, NULL, 0, NULL), KVD_NOT_FOUND);
}

/* Flips a bit of each bucket that is read, as often as *arg says. */
static void tear_bucket(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
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

static void a_torn_bucket_is_read_again(void **state)
{
	unsigned int left = 3;

	(void)state;
	other_put("key", value, 100);
	direct->after_read = tear_bucket;
	direct->arg = &left;
	assert_get("key", value, 100);
	assert_cost(5, 3, 0);
}

static void a_bucket_that_never_verifies(void **state)
{
	unsigned int left = 1000;

	(void)state;
	other_put("key", value, 100);
	direct->after_read = tear_bucket;
	direct->arg = &left;
	assert_get("key", value, 100);
	assert_int_equal(kvd->stats.requests, 1);
	assert_cost(kvd->options.get_tries, kvd->options.get_tries, 1);
	/* Nor does it prove a miss. */
	assert_not_found("no such key");
	assert_cost(kvd->options.get_tries, kvd->options.get_tries, 1);
}

/* Empties the bucket that is read: it looks like a miss, but its sum tells. */
static void empty_bucket(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	unsigned int *left = d->arg;

	if (bytes == BUCKET_BYTES && in_index(offset) && *left) {
		--*left;
		memset(to + 16, 0, BUCKET_BYTES - 16);
	}
}

static void an_emptied_bucket_is_no_miss(void **state)
{
	unsigned int left = 1;

	(void)state;
	other_put("key", value, 100);
	direct->after_read = empty_bucket;
	direct->arg = &left;
	assert_get("key", value, 100);
	assert_cost(3, 1, 0);
}

/* A bucket that verifies but is of another level is no snapshot of this index. */
static void change_level(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct bucket *bucket = (struct bucket *)to;

	if (bytes != BUCKET_BYTES || !in_index(offset) || !*(unsigned int *)d->arg)
		return;
	--*(unsigned int *)d->arg;
	bucket->level++;
	memset(bucket->slots, 0, sizeof(bucket->slots));
	bucket->sum = bucket_sum(bucket, store.region.geometry.incarnation, offset);
}

static void a_bucket_of_another_level(void **state)
{
	unsigned int left = 2;

	(void)state;
	other_put("key", value, 100);
	direct->after_read = change_level;
	direct->arg = &left;
	assert_get("key", value, 100);
	assert_cost(4, 2, 0);
}

/* A bucket with good sum whose slots lead out of the region: nothing is read there. */
static void mislead_slots(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct bucket *bucket = (struct bucket *)to;

	(void)d;
	if (bytes != BUCKET_BYTES || !in_index(offset))
		return;
	for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
		if (bucket->slots[i])
			bucket->slots[i] = slot_make(slot_tag(bucket->slots[i]),
						     store.region.bytes - 16, 64);
	bucket->sum = bucket_sum(bucket, store.region.geometry.incarnation, offset);
}

static void mislead_chain(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct bucket *bucket = (struct bucket *)to;

	(void)d;
	if (bytes != BUCKET_BYTES || !in_index(offset))
		return;
	memset(bucket->slots, 0, sizeof(bucket->slots));
	bucket->overflow = (uint32_t)(store.region.bytes / BUCKET_BYTES);
	bucket->sum = bucket_sum(bucket, store.region.geometry.incarnation, offset);
}

/* A chain without an end, every bucket of which verifies. */
static void loop_chain(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct bucket *bucket = (struct bucket *)to;

	mislead_chain(d, offset, to, bytes);
	if (bytes != BUCKET_BYTES || !in_index(offset))
		return;
	bucket->overflow = (uint32_t)(offset / BUCKET_BYTES);
	bucket->sum = bucket_sum(bucket, store.region.geometry.incarnation, offset);
}

static void buckets_that_lead_astray(void **state)
{
	(void)state;
	other_put("key", value, 100);
	direct->after_read = mislead_slots;
	assert_get("key", value, 100);
	assert_cost(kvd->options.get_tries, kvd->options.get_tries, 1);
	direct->after_read = mislead_chain;
	assert_get("key", value, 100);
	assert_cost(1, 0, 1);
	direct->after_read = loop_chain;
	assert_get("key", value, 100);
	assert_true(kvd->stats.reads < 100);
	assert_int_equal(kvd->stats.fallbacks, 1);
}

/* Invalid while it is read, as in the middle of a PUT: as often as *arg says. */
static uint64_t hidden_sum;

static void hide_item(struct direct *d, uint64_t offset, uint32_t bytes)
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

static void show_item(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct item *item = region_at(&store.region, offset);

	(void)d, (void)to, (void)bytes;
	if (hidden_sum)
		item->sum = hidden_sum;
}

static void an_item_being_changed_is_read_again(void **state)
{
	unsigned int left = 2;

	(void)state;
	other_put("key", value, 100);
	direct->before_read = hide_item;
	direct->after_read = show_item;
	direct->arg = &left;
	assert_get("key", value, 100);
	assert_cost(6, 2, 0);
	left = 1;
	assert_get("key", value, 100);
	assert_int_equal(kvd->stats.cache_stale, 1);
	assert_cost(3, 0, 0);
	left = 1000;
	assert_get("key", value, 100);
	assert_cost(1 + 2 * kvd->options.get_tries, kvd->options.get_tries, 1);
}

/* Every bit of an item that is read, its access time excepted, is seen to be wrong. */
static void flip_bit(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	unsigned int bit = *(unsigned int *)d->arg;

	if (!in_index(offset) && bit / 8 < bytes && reads++ == 0)
		to[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static void any_wrong_bit_is_seen(void **state)
{
	unsigned int bit, access = offsetof(struct item, access) * 8;

	(void)state;
	other_put("key", value, 100);
	direct->after_read = flip_bit;
	direct->arg = &bit;
	for (bit = 0; bit < item_bytes(3, 100) * 8; bit++) {
		bool counts = bit < access || bit >= access + 16;

		kvd->cache.entries[0].unit = 0;
		memset(kvd->cache.entries, 0, bcache_bytes(&kvd->cache));
		reset_stats();
		assert_get("key", value, 100);
		assert_int_equal(kvd->stats.retries, counts);
	}
}

/*
 * A slot cached from before leads to memory that is another's now. jemalloc gives back what was
 * freed last, so the next item of the class takes its place.
 */
static void a_recycled_slot_in_the_cache(void **state)
{
	uint64_t place;

	(void)state;
	other_put("key", value, 100);
	place = place_of("key");
	assert_get("key", value, 100);
	other_put("key", value + 1, 1000);
	other_put("heir", value + 2, 100);
	assert_int_equal(place_of("heir"), place);
	reset_stats();
	assert_get("key", value + 1, 1000);
	assert_cost(3, 0, 0);
	/* Gone, and its place taken. */
	other_delete("key");
	other_put("next", value + 3, 1000);
	assert_not_found("key");
	/* Back in the very place it had at first. */
	assert_get("heir", value + 2, 100);
	other_delete("heir");
	other_put("heir", value + 4, 100);
	assert_int_equal(place_of("heir"), place);
	reset_stats();
	assert_get("heir", value + 4, 100);
	assert_cost(1, 0, 0);
}

/* An older item left behind in freed memory, whole and with its sum: not if it is elsewhere. */
static void a_copy_elsewhere_does_not_verify(void **state)
{
	uint64_t from, to;

	(void)state;
	other_put("key", value, 100);
	other_put("kez", value + 1, 100);
	from = place_of("key");
	assert_get("key", value, 100);
	other_put("key", value + 2, 1000);
	to = place_of("key");
	assert_true(from != to);
	/* Forge it: the place is part of the sum, so even a faithful copy is refused. */
	memcpy(region_at(&store.region, from), item_of("kez"), item_bytes(3, 100));
	((struct item *)region_at(&store.region, from))->data[2] = 'y';
	reset_stats();
	assert_get("key", value + 2, 1000);
	assert_int_equal(kvd->stats.cache_stale, 1);
}

static void replace_at_item(struct direct *d, uint64_t offset, uint32_t bytes)
{
	(void)bytes;
	if (in_index(offset) || reads++)
		return;
	other_put("key", value + 1, 1000);
	if (d->arg)
		other_put(d->arg, value + 2, 100);
}

/* Replaced elsewhere between the READ of the bucket and that of the item. */
static void moved_between_two_reads(void **state)
{
	(void)state;
	other_put("key", value, 100);
	direct->before_read = replace_at_item;
	assert_get("key", value + 1, 1000);
	assert_cost(4, 1, 0);
}

/* The same, and the old place is another key's when the item is read: no miss, the server knows. */
static void recycled_between_two_reads(void **state)
{
	char heir[] = "heir";

	(void)state;
	other_put("key", value, 100);
	direct->before_read = replace_at_item;
	direct->arg = heir;
	assert_get("key", value + 1, 1000);
	assert_cost(2, 0, 1);
}

static void delete_at_item(struct direct *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)bytes;
	if (!in_index(offset) && !reads++)
		other_delete("key");
}

static void deleted_between_two_reads(void **state)
{
	(void)state;
	other_put("key", value, 100);
	direct->before_read = delete_at_item;
	assert_not_found("key");
	assert_cost(3, 1, 0);
}

/* Keys of one bucket and tag: found by their bytes; that one is missing only the server can say. */
static void colliding_tags(void **state)
{
	uint64_t keys[8] = { 1 }, from = 1u << 24;
	unsigned int i, round;

	(void)state;
	for (i = 1; i < 8; i++)
		keys[i] = store_collide(&store, keys[0], true, &from);
	for (i = 0; i < 7; i++)
		assert_int_equal(store_put(&store, &keys[i], 8, value + i, 50 + i, NULL), WIRE_OK);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 7; i++)
			assert_get_bytes(&keys[i], 8, value + i, 50 + i);
		assert_int_equal(kvd->stats.fallbacks, 0);
	}
	reset_stats();
	assert_int_equal(kvd_get(kvd, &keys[7], 8, found, 1, NULL), KVD_NOT_FOUND);
	/* Four cached ones, the bucket, all seven. */
	assert_cost(4 + 1 + 7, 0, 1);
	/* What the handle PUT, it finds although others of the tag are cached. */
	assert_int_equal(kvd_put(kvd, &keys[7], 8, value, 9, &(struct kvd_put_args){ 9 ^ 0xf1a95 },
				 NULL),
			 KVD_OK);
	assert_get_bytes(&keys[7], 8, value, 9);
	for (i = 0; i < 7; i++)
		assert_get_bytes(&keys[i], 8, value + i, 50 + i);
}

#define CHAINED 100

static void put_chain(void)
{
	uint64_t key;

	for (key = 0; key < CHAINED; key++)
		assert_int_equal(store_put(&store, &key, 8, value + key, 40, NULL), WIRE_OK);
}

/* 100 keys of one bucket: 8 buckets in the chain. */
static void chains(void **state)
{
	uint64_t key, round;

	(void)state;
	put_chain();
	for (round = 0; round < 3; round++)
		for (key = 0; key < CHAINED; key++)
			assert_get_bytes(&key, 8, value + key, 40);
	reset_stats();
	/* Key 0 is in the home bucket, key 30 in the second overflow bucket. The cache is of one
	 * entry, since there is but one home bucket, and holds what was read last. */
	key = 30;
	assert_int_equal(bcache_bytes(&kvd->cache), sizeof(struct bcache_entry));
	assert_get_bytes(&key, 8, value + key, 40);
	assert_cost(4, 0, 0);
	key = 12345;
	assert_int_equal(kvd_get(kvd, &key, 8, found, 1, NULL), KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.bucket_reads, 8);
}

static void tear_overflow(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	unsigned int *left = d->arg;

	if (bytes == BUCKET_BYTES && !in_index(offset) && *left && !--*left)
		to[20] ^= 4;
}

/* One torn bucket anywhere in the chain, and it is read again from home. */
static void a_torn_overflow_bucket(void **state)
{
	uint64_t key = 95;
	unsigned int left = 3;

	(void)state;
	put_chain();
	direct->after_read = tear_overflow;
	direct->arg = &left;
	assert_get_bytes(&key, 8, value + key, 40);
	assert_int_equal(kvd->stats.retries, 1);
	assert_int_equal(kvd->stats.bucket_reads, 4 + 7);
	assert_int_equal(kvd->stats.fallbacks, 0);
}

/* The chain grows by the very key while it is walked. */
static void extend_at_overflow(struct direct *d, uint64_t offset, uint32_t bytes)
{
	uint64_t key = CHAINED;

	(void)d;
	if (in_index(offset) || bytes != BUCKET_BYTES || reads++)
		return;
	for (; key < 14 * 10; key++)
		assert_int_equal(store_put(&store, &key, 8, value + key, 40, NULL), WIRE_OK);
}

static void a_chain_that_grows(void **state)
{
	uint64_t key = 14 * 10 - 1;

	(void)state;
	put_chain();
	direct->before_read = extend_at_overflow;
	assert_get_bytes(&key, 8, value + key, 40);
	assert_int_equal(kvd->stats.bucket_reads, 10);
	assert_int_equal(kvd->stats.retries, 0);
}

/* Rewrites the key, another length each time, whenever something of it is read or asked. */
static void rewrite(void)
{
	rewrite_len = rewrite_len == 60000 ? 50000 : 60000;
	other_put("key", value + reads++ % 1000, rewrite_len);
}

static void rewrite_at_item(struct direct *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)bytes;
	if (!in_index(offset))
		rewrite();
}

static void rewrite_at_request(struct direct *d, const struct request *request)
{
	(void)d, (void)request;
	requests++;
	rewrite();
}

/* WIRE_R_COPY: too long for a response, and never twice the same. */
static void a_large_value_rewritten_all_the_time(void **state)
{
	struct kvd_item item;

	(void)state;
	other_put("key", value, 60000);
	direct->before_read = rewrite_at_item;
	direct->before_request = rewrite_at_request;
	for (unsigned int i = 0; i < 20; i++) {
		reset_stats();
		assert_int_equal(kvd_get(kvd, "key", 3, found, sizeof(found), &item), KVD_OK);
		assert_int_equal(kvd->stats.fallbacks, 1);
		assert_int_equal(requests, 1);
		/* The copy is of the moment of the request; it was rewritten again after it. */
		assert_true(item.value_len == 50000 || item.value_len == 60000);
		assert_int_equal(item.flags, item.value_len ^ 0xf1a95);
		assert_memory_equal(found, value + reads - 2, item.value_len);
	}
	assert_non_null(direct->copy);
	/* The next request gives the copy's memory back. */
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_null(direct->copy);
	assert_int_equal(kvd_get(kvd, "key", 3, found, 10, &item), KVD_ERR_BUFFER);
	assert_true(item.value_len >= 50000);
}

static void damage_copy(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	if (d->copy && offset == region_offset(&store.region, d->copy))
		to[bytes - 1] ^= 1;
}

static void a_damaged_copy_breaks_the_connection(void **state)
{
	(void)state;
	other_put("key", value, 60000);
	direct->before_read = rewrite_at_item;
	direct->after_read = damage_copy;
	assert_int_equal(kvd_get(kvd, "key", 3, found, sizeof(found), NULL), KVD_ERR_PROTOCOL);
	assert_int_equal(kvd_get(kvd, "key", 3, found, sizeof(found), NULL), KVD_ERR_DISCONNECTED);
}

static void lead_astray(struct direct *d, struct wire_response *response)
{
	(void)d;
	if (response->flags & WIRE_R_COPY)
		response->slot = slot_make(0, store.region.bytes - 16, 64);
}

static void a_copy_out_of_bounds(void **state)
{
	(void)state;
	other_put("key", value, 60000);
	direct->before_read = rewrite_at_item;
	direct->before_response = lead_astray;
	assert_int_equal(kvd_get(kvd, "key", 3, found, sizeof(found), NULL), KVD_ERR_PROTOCOL);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
}

/* No memory for a copy: BUSY, and the handle is as good as before. */
static void no_memory_for_a_copy(void **state)
{
	unsigned int left = 1000;
	uint64_t key = 0;

	(void)state;
	other_put("key", value, 60000);
	while (store_put(&store, &key, 8, value, 40000, NULL) == WIRE_OK)
		key++;
	direct->before_read = hide_item;
	direct->after_read = show_item;
	direct->arg = &left;
	assert_int_equal(kvd_get(kvd, "key", 3, found, sizeof(found), NULL), KVD_ERR_BUSY);
	direct->before_read = NULL;
	direct->after_read = NULL;
	assert_get("key", value, 60000);
}

/* The longest item whose length a slot can tell, the next, and some that are read in pieces. */
static void long_items(void **state)
{
	const uint32_t border = (SLOT_UNITS_MAX - 1) * SLOT_UNIT - (uint32_t)item_bytes(3, 0);
	const uint32_t lens[] = { border - 1, border, border + 1, border + 64, 262080 - 35,
				  262081 - 35, 300000, (1 << 20) - 35, (1 << 20) - 34, 3500000 };

	(void)state;
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		other_put("key", value + i, lens[i]);
		assert_get("key", value + i, lens[i]);
		assert_get("key", value + i, lens[i]);
		assert_int_equal(kvd->stats.fallbacks + kvd->stats.retries, 0);
		reset_stats();
		assert_get("key", value + i, lens[i]);
		assert_int_equal(kvd->stats.reads,
				 lens[i] <= border ? 1 : 1 + (lens[i] + 35 + (1 << 20) - 1) / (1 << 20));
		reset_stats();
	}
}

static void damage_head(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	if (!in_index(offset) && bytes == sizeof(struct item) && *(unsigned int *)d->arg) {
		--*(unsigned int *)d->arg;
		((struct item *)to)->value_len = ~0u;
	}
}

static void shorten_at_body(struct direct *d, uint64_t offset, uint32_t bytes)
{
	(void)d;
	if (!in_index(offset) && bytes > sizeof(struct item) && !reads++)
		other_put("key", value + 1, 300001);
}

static void long_items_being_changed(void **state)
{
	unsigned int left = 2;

	(void)state;
	other_put("key", value, 400000);
	direct->after_read = damage_head;
	direct->arg = &left;
	assert_get("key", value, 400000);
	assert_int_equal(kvd->stats.retries, 2);
	assert_int_equal(kvd->stats.fallbacks, 0);
	/* Replaced after its head was read. */
	reset_stats();
	direct->before_read = shorten_at_body;
	assert_get("key", value + 1, 300001);
	assert_int_equal(kvd->stats.fallbacks, 0);
	direct->before_read = NULL;
	left = 1000;
	reset_stats();
	assert_get("key", value + 1, 300001);
	assert_int_equal(kvd->stats.fallbacks, 1);
}

static void a_buffer_too_small(void **state)
{
	struct kvd_item item = { 0 };
	unsigned int left = 1000;

	(void)state;
	other_put("key", value, 100);
	memset(found, 0xee, 200);
	assert_int_equal(kvd_get(kvd, "key", 3, found, 99, &item), KVD_ERR_BUFFER);
	assert_int_equal(item.value_len, 100);
	assert_int_equal(item.flags, 100 ^ 0xf1a95);
	assert_true(item.version > 0);
	assert_int_equal(found[0], 0xee);
	assert_int_equal(kvd_get(kvd, "key", 3, found, 100, &item), KVD_OK);
	assert_memory_equal(found, value, 100);
	assert_int_equal(found[100], 0xee);
	assert_int_equal(kvd_get(kvd, "key", 3, NULL, 0, &item), KVD_ERR_BUFFER);
	assert_int_equal(kvd->stats.hits, 3);
	/* Told by the server, the same. */
	direct->after_read = tear_bucket;
	direct->arg = &left;
	memset(kvd->cache.entries, 0, bcache_bytes(&kvd->cache));
	memset(found, 0xee, 200);
	assert_int_equal(kvd_get(kvd, "key", 3, found, 99, &item), KVD_ERR_BUFFER);
	assert_int_equal(item.value_len, 100);
	assert_int_equal(found[0], 0xee);
	assert_int_equal(kvd->stats.fallbacks, 1);
}

#define MANY 150

/* More than are worked on at once: duplicates, misses, impossible keys, small buffers, long items. */
static void many(void **state)
{
	static struct kvd_get_request list[MANY];
	static const char too_long[KVD_KEY_MAX + 1];
	static char names[MANY][16];
	static uint8_t buffers[MANY][2000];
	uint32_t len;
	unsigned int i, round;

	(void)state;
	for (i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "key%u", i % 40);
		len = i % 40 == 7 ? 500000 : i % 40 == 8 ? 60000 : i % 40 * 20;
		if (i < 40 && i != 9)
			other_put(names[i], value + i, len);
	}
	for (round = 0; round < 3; round++) {
		for (i = 0; i < MANY; i++) {
			list[i] = (struct kvd_get_request){
				.key = i % 11 == 3 ? NULL : i % 13 == 4 ? too_long : names[i],
				.key_len = i % 13 == 4 ? sizeof(too_long) : strlen(names[i]),
				.value = i % 40 == 7 || i % 40 == 8 ? found : buffers[i],
				.value_size = i % 40 == 7 || i % 40 == 8 ? sizeof(found) :
									    sizeof(buffers[i]),
			};
			if (i == 50)
				list[i].key_len = 0;
			if (i == 60)
				list[i].value_size = 399;
		}
		assert_int_equal(kvd_get_many(kvd, list, MANY), KVD_OK);
		for (i = 0; i < MANY; i++) {
			len = i % 40 == 7 ? 500000 : i % 40 == 8 ? 60000 : i % 40 * 20;
			if (i % 11 == 3 || i % 13 == 4 || i == 50) {
				assert_int_equal(list[i].status, KVD_ERR_INVALID);
			} else if (i % 40 == 9) {
				assert_int_equal(list[i].status, KVD_NOT_FOUND);
			} else if (i == 60) {
				assert_int_equal(list[i].status, KVD_ERR_BUFFER);
				assert_int_equal(list[i].item.value_len, 400);
			} else {
				assert_int_equal(list[i].status, KVD_OK);
				assert_int_equal(list[i].item.value_len, len);
				if (list[i].value != found)
					assert_memory_equal(list[i].value, value + i % 40, len);
			}
		}
		assert_int_equal(kvd->stats.gets, MANY * (round + 1));
	}
	assert_int_equal(kvd_get_many(kvd, NULL, 0), KVD_OK);
}

/* 32 GETs are two chains of READs when cold and one when warm. */
static void many_share_their_round_trips(void **state)
{
	struct kvd_get_request list[GETS_MAX];
	static char names[GETS_MAX][8];
	static uint8_t buffers[GETS_MAX][64];
	unsigned int i, round;

	(void)state;
	for (i = 0; i < GETS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		other_put(names[i], value + i, 64);
	}
	for (round = 2; round; round--) {
		for (i = 0; i < GETS_MAX; i++)
			list[i] = (struct kvd_get_request){ names[i], strlen(names[i]), buffers[i],
							    64, KVD_ERR_BUSY, { 0 } };
		assert_int_equal(kvd_get_many(kvd, list, GETS_MAX), KVD_OK);
		for (i = 0; i < GETS_MAX; i++) {
			assert_int_equal(list[i].status, KVD_OK);
			assert_memory_equal(buffers[i], value + i, 64);
		}
		assert_int_equal(kvd->stats.round_trips, round);
		assert_cost(GETS_MAX * round, 0, 0);
	}
}

/* The connection goes in the middle of many: who was not answered is told so. */
static void break_at_read(struct direct *d, uint64_t offset, uint32_t bytes)
{
	(void)offset, (void)bytes;
	if (++reads == 70)
		d->kvd.region_addr -= 1ull << 40;
}

static void a_lost_connection(void **state)
{
	static struct kvd_get_request list[100];
	unsigned int i;

	(void)state;
	other_put("key", value, 100);
	memset(kvd->cache.entries, 0, bcache_bytes(&kvd->cache));
	for (i = 0; i < 100; i++)
		list[i] = (struct kvd_get_request){ "key", 3, found, 100, KVD_ERR_BUSY, { 0 } };
	direct->before_read = break_at_read;
	assert_int_equal(kvd_get_many(kvd, list, 100), KVD_ERR_DISCONNECTED);
	for (i = 0; i < 100; i++)
		assert_int_equal(list[i].status, i < 64 ? KVD_OK : KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_get_many(kvd, list, 100), KVD_ERR_DISCONNECTED);
	assert_int_equal(list[0].status, KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_put(kvd, "a", 1, "b", 1, NULL, NULL), KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_delete(kvd, "a", 1), KVD_ERR_DISCONNECTED);
	assert_true(strlen(kvd_error(kvd)) > 10);
}

static void answer_another(struct direct *d, struct wire_response *response)
{
	if (d->arg)
		response->op = WIRE_PING;
	else
		response->id++;
}

static void an_answer_to_another_request(void **state)
{
	(void)state;
	direct->before_response = answer_another;
	assert_int_equal(kvd_delete(kvd, "key", 3), KVD_ERR_PROTOCOL);
	assert_int_equal(kvd_delete(kvd, "key", 3), KVD_ERR_DISCONNECTED);
}

static void an_answer_to_another_operation(void **state)
{
	(void)state;
	direct->before_response = answer_another;
	direct->arg = direct;
	assert_int_equal(kvd_delete(kvd, "key", 3), KVD_ERR_PROTOCOL);
	assert_non_null(strstr(kvd_error(kvd), "nonsense"));
}

static void arguments(void **state)
{
	static const char key[KVD_KEY_MAX + 1];

	(void)state;
	assert_int_equal(kvd_get(kvd, key, 0, found, 1, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_get(kvd, NULL, 3, found, 1, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_get(kvd, key, sizeof(key), found, 1, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_put(kvd, key, 0, "v", 1, NULL, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_put(kvd, key, sizeof(key), "v", 1, NULL, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_put(kvd, key, 1, NULL, 1, NULL, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_put(kvd, key, 1, "v", VALUE_MAX + 1ull, NULL, NULL),
			 KVD_ERR_TOO_LARGE);
	assert_int_equal(kvd_delete(kvd, key, 0), KVD_ERR_INVALID);
	assert_int_equal(kvd_delete(kvd, key, sizeof(key)), KVD_ERR_INVALID);
	assert_int_equal(kvd->stats.requests, 0);
	assert_int_equal(kvd_get(kvd, key, KVD_KEY_MAX, found, 1, NULL), KVD_NOT_FOUND);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define CASE_ONE_BUCKET(f) cmocka_unit_test_setup_teardown(f, setup_one_bucket, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(cold_is_two_reads_and_warm_one),
		cmocka_unit_test_setup_teardown(without_a_cache_all_are_cold, setup_no_cache,
						teardown),
		CASE(a_put_teaches_the_place),
		CASE(a_miss_is_one_read),
		CASE(keys_and_values_of_all_lengths),
		CASE(a_torn_bucket_is_read_again),
		CASE(a_bucket_that_never_verifies),
		CASE(an_emptied_bucket_is_no_miss),
		CASE(a_bucket_of_another_level),
		CASE(buckets_that_lead_astray),
		CASE(an_item_being_changed_is_read_again),
		CASE(any_wrong_bit_is_seen),
		CASE(a_recycled_slot_in_the_cache),
		CASE(a_copy_elsewhere_does_not_verify),
		CASE(moved_between_two_reads),
		CASE(recycled_between_two_reads),
		CASE(deleted_between_two_reads),
		CASE(colliding_tags),
		CASE_ONE_BUCKET(chains),
		CASE_ONE_BUCKET(a_torn_overflow_bucket),
		CASE_ONE_BUCKET(a_chain_that_grows),
		CASE(a_large_value_rewritten_all_the_time),
		CASE(a_damaged_copy_breaks_the_connection),
		CASE(a_copy_out_of_bounds),
		CASE(no_memory_for_a_copy),
		CASE(long_items),
		CASE(long_items_being_changed),
		CASE(a_buffer_too_small),
		CASE(many),
		CASE(many_share_their_round_trips),
		CASE(a_lost_connection),
		CASE(an_answer_to_another_request),
		CASE(an_answer_to_another_operation),
		CASE(arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
