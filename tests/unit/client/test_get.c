/* SPDX-License-Identifier: MIT */
/*
 * The client's GET: what it costs, warm and cold, and that torn buckets and items, reused memory,
 * colliding tags and growing chains never give a wrong result.
 */
#include "common/util/clock.h"
#include "tests/support/chosen_keys.h"
#include "tests/support/get_test.h"

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
	/* Rewritten in place: the cached slot is still valid. */
	other_put("key", value + 1, 99);
	assert_get("key", value + 1, 99);
	assert_int_equal(kvd->stats.hits, 1);
	assert_cost(1, 0, 0);
}

static void without_a_cache_all_are_cold(void **state)
{
	(void)state;
	assert_int_equal(kvd_put(kvd, "key", 3, value, 100,
				 &(struct kvd_put_args){ .flags = 100 ^ 0xf1a95 }, NULL),
			 KVD_OK);
	assert_get("key", value, 100);
	assert_get("key", value, 100);
	assert_cost(4, 0, 0);
}

static void a_put_teaches_the_place(void **state)
{
	struct kvd_put_args args = { .flags = 100 ^ 0xf1a95 };
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
	struct kvd_put_args args = { 0 };
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

static void a_torn_bucket_is_read_again(void **state)
{
	unsigned int left = 3;

	(void)state;
	other_put("key", value, 100);
	loopback->after_read = tear_bucket;
	loopback->arg = &left;
	assert_get("key", value, 100);
	assert_cost(5, 3, 0);
}

static void a_bucket_that_never_verifies(void **state)
{
	unsigned int left = 1000;

	(void)state;
	other_put("key", value, 100);
	loopback->after_read = tear_bucket;
	loopback->arg = &left;
	assert_get("key", value, 100);
	assert_int_equal(kvd->stats.requests, 1);
	assert_cost(kvd->options.get_tries, kvd->options.get_tries, 1);
	/* Nor does it prove a miss. */
	assert_not_found("no such key");
	assert_cost(kvd->options.get_tries, kvd->options.get_tries, 1);
}

/* Empties the bucket that is READ: it looks like a miss, but its sum is wrong. */
static void empty_bucket(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
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
	loopback->after_read = empty_bucket;
	loopback->arg = &left;
	assert_get("key", value, 100);
	assert_cost(3, 1, 0);
}

/* A bucket that verifies, but has a lower level than the index began with, is invalid. */
static void lower_level(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct bucket *bucket = (struct bucket *)to;

	if (bytes != BUCKET_BYTES || !in_index(offset) || !*(unsigned int *)d->arg)
		return;
	--*(unsigned int *)d->arg;
	bucket->level--;
	memset(bucket->slots, 0, sizeof(bucket->slots));
	bucket->sum = bucket_sum(bucket, &store.region.sum_key, store.region.geometry.incarnation,
				 offset, offset);
}

static void a_bucket_of_a_lower_level(void **state)
{
	unsigned int left = 2;

	(void)state;
	other_put("key", value, 100);
	loopback->after_read = lower_level;
	loopback->arg = &left;
	assert_get("key", value, 100);
	assert_cost(4, 2, 0);
}

/* A bucket with a right sum and slots out of the region: they are not READ. */
static void mislead_slots(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct bucket *bucket = (struct bucket *)to;

	(void)d;
	if (bytes != BUCKET_BYTES || !in_index(offset))
		return;
	for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
		if (bucket->slots[i])
			bucket->slots[i] = slot_make(slot_tag(bucket->slots[i]),
						     store.region.bytes - 16, 64);
	bucket->sum = bucket_sum(bucket, &store.region.sum_key, store.region.geometry.incarnation,
				 offset, offset);
}

static void mislead_chain(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct bucket *bucket = (struct bucket *)to;

	(void)d;
	if (bytes != BUCKET_BYTES || !in_index(offset))
		return;
	memset(bucket->slots, 0, sizeof(bucket->slots));
	bucket->overflow = (uint32_t)(store.region.bytes / BUCKET_BYTES);
	bucket->sum = bucket_sum(bucket, &store.region.sum_key, store.region.geometry.incarnation,
				 offset, offset);
}

/* An endless chain; every bucket verifies. */
static void loop_chain(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct bucket *bucket = (struct bucket *)to;

	mislead_chain(d, offset, to, bytes);
	if (bytes != BUCKET_BYTES || !in_index(offset))
		return;
	bucket->overflow = (uint32_t)(offset / BUCKET_BYTES);
	bucket->sum = bucket_sum(bucket, &store.region.sum_key, store.region.geometry.incarnation,
				 offset, offset);
}

static void slots_out_of_the_region(void **state)
{
	(void)state;
	other_put("key", value, 100);
	loopback->after_read = mislead_slots;
	assert_get("key", value, 100);
	assert_cost(kvd->options.get_tries, kvd->options.get_tries, 1);
	loopback->after_read = mislead_chain;
	assert_get("key", value, 100);
	assert_cost(1, 0, 1);
	loopback->after_read = loop_chain;
	assert_get("key", value, 100);
	assert_true(kvd->stats.reads < 100);
	assert_int_equal(kvd->stats.fallbacks, 1);
}

static void an_item_being_changed_is_read_again(void **state)
{
	unsigned int left = 2;

	(void)state;
	other_put("key", value, 100);
	loopback->before_read = hide_item;
	loopback->after_read = show_item;
	loopback->arg = &left;
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

/* A wrong bit anywhere in an item, except in its access time, is detected. */
static void flip_bit(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	unsigned int bit = *(unsigned int *)d->arg;

	if (!in_index(offset) && bit / 8 < bytes && reads++ == 0)
		to[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static void assert_bits_are_seen(uint32_t len)
{
	unsigned int bit, access = offsetof(struct item, access) * 8;

	other_put("key", value, len);
	loopback->after_read = flip_bit;
	loopback->arg = &bit;
	for (bit = 0; bit < item_bytes_for(3, len, 0) * 8; bit++) {
		bool counts = bit < access || bit >= access + 16;

		memset(kvd->cache.lines, 0, bcache_bytes(&kvd->cache));
		reset_stats();
		assert_get("key", value, len);
		assert_int_equal(kvd->stats.retries, counts);
	}
	loopback->after_read = NULL;
}

/* In an item without a value sum, and in one that has it. */
static void any_wrong_bit_is_seen(void **state)
{
	(void)state;
	assert_bits_are_seen(50);
	assert_bits_are_seen(100);
}

/*
 * A cached slot leads to memory that another item uses now: memory that was freed last is allocated
 * first, so the next item of the size class gets it.
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
	/* Deleted, and its memory reused. */
	other_delete("key");
	other_put("next", value + 3, 1000);
	assert_not_found("key");
	/* Stored again, in the same memory as at first. */
	assert_get("heir", value + 2, 100);
	other_delete("heir");
	other_put("heir", value + 4, 100);
	assert_int_equal(place_of("heir"), place);
	reset_stats();
	assert_get("heir", value + 4, 100);
	assert_cost(1, 0, 0);
}

/* A whole old item in freed memory, with its sum: rejected at another offset. */
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
	/* The sum covers the offset, so an exact copy is rejected. */
	memcpy(region_at(&store.region, from), item_of("kez"), item_bytes_for(3, 100, 0));
	item_key(region_at(&store.region, from))[2] = 'y';
	reset_stats();
	assert_get("key", value + 2, 1000);
	assert_int_equal(kvd->stats.cache_stale, 1);
}

/*
 * Bytes at a place of the key that a reader has kept, as they are when another client's value lies
 * there, which it has laid out as an item for that key.
 */
static void forge(uint64_t place, const struct sum_key *sum_key)
{
	struct item *item = region_at(&store.region, place);

	*item = (struct item){ .version = 1ull << 60 };
	item_set_lengths(item, 3, 100, 0);
	memcpy(item_key(item), "key", 3);
	memset(item_value(item), 'x', 100);
	item_value_sum_make(item, sum_key);
	item->sum = item_sum(item, sum_key, store.region.geometry.incarnation, place);
}

/* A reader keeps a place of the key, where then lie bytes that were forged with @sum_key. */
static void leave_forged(const struct sum_key *sum_key)
{
	uint64_t place;

	other_put("key", value, 100);
	place = place_of("key");
	assert_get("key", value, 100);
	other_put("key", value + 1, 1000);
	assert_true(place_of("key") != place);
	forge(place, sum_key);
	reset_stats();
}

/*
 * An item can't be forged without the store's key: not with zeros, with XXH3's own secret, or with
 * the key but for a bit. With the key it can, so the rest of the bytes is right.
 */
static void a_forged_item_does_not_verify(void **state)
{
	struct sum_key guesses[3] = { 0 };

	(void)state;
	memcpy(guesses[1].secret, XXH3_kSecret, sizeof(guesses[1].secret));
	guesses[2] = store.region.sum_key;
	guesses[2].secret[20] ^= 1;
	for (unsigned int i = 0; i < 3; i++) {
		leave_forged(&guesses[i]);
		assert_get("key", value + 1, 1000);
		assert_int_equal(kvd->stats.cache_stale, 1);
	}
	leave_forged(&store.region.sum_key);
	assert_int_equal(kvd_get(kvd, "key", 3, found, sizeof(found), NULL), KVD_OK);
	assert_int_equal(found[0], 'x');
}

static void replace_at_item(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)bytes;
	if (in_index(offset) || reads++)
		return;
	other_put("key", value + 1, 1000);
	if (d->arg)
		other_put(d->arg, value + 2, 100);
}

/* Replaced in other memory, between the READs of the bucket and of the item. */
static void moved_between_two_reads(void **state)
{
	(void)state;
	other_put("key", value, 100);
	loopback->before_read = replace_at_item;
	assert_get("key", value + 1, 1000);
	assert_cost(4, 1, 0);
}

/* Replaced in other memory, and another key's item is in the old memory: asks the server. */
static void recycled_between_two_reads(void **state)
{
	char heir[] = "heir";

	(void)state;
	other_put("key", value, 100);
	loopback->before_read = replace_at_item;
	loopback->arg = heir;
	assert_get("key", value + 1, 1000);
	assert_cost(2, 0, 1);
}

static void delete_at_item(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)bytes;
	if (!in_index(offset) && !reads++)
		other_delete("key");
}

static void deleted_between_two_reads(void **state)
{
	(void)state;
	other_put("key", value, 100);
	loopback->before_read = delete_at_item;
	assert_not_found("key");
	assert_cost(3, 1, 0);
}

/* Keys of one bucket and tag are told apart by their bytes; a miss needs the server. */
static void colliding_tags(void **state)
{
	enum { SAME = 5 };
	uint64_t keys[SAME + 1] = { 1 }, from = 1u << 24;
	unsigned int i, round;

	(void)state;
	for (i = 1; i <= SAME; i++)
		keys[i] = test_store_collide(&store, keys[0], true, &from);
	for (i = 0; i < SAME; i++)
		assert_int_equal(test_store_put(&store, &keys[i], 8, value + i, 50 + i, NULL),
				 WIRE_OK);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < SAME; i++)
			assert_get_bytes(&keys[i], 8, value + i, 50 + i);
		assert_int_equal(kvd->stats.fallbacks, 0);
	}
	/* Keys of one tag take turns in the cache: each is found there when it was the last. */
	for (i = 0; i < SAME; i++) {
		assert_get_bytes(&keys[i], 8, value + i, 50 + i);
		reset_stats();
		assert_get_bytes(&keys[i], 8, value + i, 50 + i);
		assert_cost(1, 0, 0);
	}
	assert_int_equal(kvd_get(kvd, &keys[SAME], 8, found, 1, NULL), KVD_NOT_FOUND);
	/* READs: the cached slot, the bucket, all slots. */
	assert_cost(1 + 1 + SAME, 0, 1);
	/* A key that this handle PUT is a hit although other keys with the tag are cached. */
	assert_int_equal(kvd_put(kvd, &keys[SAME], 8, value, 9,
				 &(struct kvd_put_args){ .flags = 9 ^ 0xf1a95 }, NULL),
			 KVD_OK);
	assert_get_bytes(&keys[SAME], 8, value, 9);
	for (i = 0; i < SAME; i++)
		assert_get_bytes(&keys[i], 8, value + i, 50 + i);
}

/*
 * Another client fills the chain of a key with keys that it made up, of the same tag: a GET of that
 * key does not READ all of their items, but asks the server, and so does one of a key that is
 * missing. Guarantee F.
 */
static void tags_that_were_made_up(void **state)
{
	const uint64_t seed = store.region.geometry.hash_seed;
	uint64_t key;
	uint32_t n;

	(void)state;
	for (n = 0; n < CHAIN_SLOTS_MAX - 1; n++) {
		key = chosen_key(chosen_hash(0, n, true), seed);
		assert_int_equal(test_store_put(&store, &key, 8, value, 20, NULL), WIRE_OK);
	}
	key = chosen_key(chosen_hash(0, n, true), seed);
	assert_int_equal(test_store_put(&store, &key, 8, value + 1, 40, NULL), WIRE_OK);
	assert_get_bytes(&key, 8, value + 1, 40);
	/* The bucket, and five items. */
	assert_cost(1 + 5, 0, 1);
	key = chosen_key(chosen_hash(0, n + 1, true), seed);
	assert_int_equal(kvd_get(kvd, &key, 8, found, 1, NULL), KVD_NOT_FOUND);
	assert_true(kvd->stats.reads <= 1 + 1 + 5);
	assert_int_equal(kvd->stats.fallbacks, 1);
}

#define CHAINED 100

static void put_chain(void)
{
	uint64_t key;

	for (key = 0; key < CHAINED; key++)
		assert_int_equal(test_store_put(&store, &key, 8, value + key, 40, NULL), WIRE_OK);
}

/* 100 keys of one bucket: 8 buckets in the chain. */
/* Other keys of the chain with the tag of @key: each may cost one READ more. */
static unsigned int twins(uint64_t key)
{
	uint64_t tag = hash_tag(key_hash(&key, 8, kvd->geometry.hash_seed)), other;
	unsigned int count = 0;

	for (other = 0; other < CHAINED; other++)
		count += other != key &&
			 hash_tag(key_hash(&other, 8, kvd->geometry.hash_seed)) == tag;
	return count;
}

static void assert_reads(uint64_t key, uint64_t least)
{
	assert_in_range(kvd->stats.reads, least, least + twins(key));
	assert_int_equal(kvd->stats.retries, 0);
	assert_int_equal(kvd->stats.fallbacks, 0);
	reset_stats();
}

static void chains(void **state)
{
	uint64_t key, round;

	(void)state;
	put_chain();
	for (round = 0; round < 3; round++)
		for (key = 0; key < CHAINED; key++)
			assert_get_bytes(&key, 8, value + key, 40);
	reset_stats();
	/* Key 0 is in the home bucket, key 30 in the second overflow bucket. The cache has two
	 * lines, since there is but one home bucket, and holds what was read last. */
	key = 99;
	assert_get_bytes(&key, 8, value + key, 40);
	assert_reads(key, 1);
	key = 30;
	assert_int_equal(bcache_bytes(&kvd->cache), 2 * sizeof(struct bcache_line));
	assert_get_bytes(&key, 8, value + key, 40);
	/* In two of 1,000 runs the line still has it. */
	assert_reads(key, kvd->stats.reads == 1 ? 1 : 4);
	key = 12345;
	assert_int_equal(kvd_get(kvd, &key, 8, found, 1, NULL), KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.bucket_reads, 8);
}

static void tear_overflow(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	unsigned int *left = d->arg;

	if (bytes == BUCKET_BYTES && !in_index(offset) && *left && !--*left)
		to[20] ^= 4;
}

/* One torn bucket anywhere in the chain: the chain is READ again from the home bucket. */
static void a_torn_overflow_bucket(void **state)
{
	uint64_t key = 95;
	unsigned int left = 3;

	(void)state;
	put_chain();
	loopback->after_read = tear_overflow;
	loopback->arg = &left;
	assert_get_bytes(&key, 8, value + key, 40);
	assert_int_equal(kvd->stats.retries, 1);
	assert_int_equal(kvd->stats.bucket_reads, 4 + 7);
	assert_int_equal(kvd->stats.fallbacks, 0);
}

/* The key is added to the chain while the chain is READ. */
static void extend_at_overflow(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	uint64_t key = CHAINED;

	(void)d;
	if (in_index(offset) || bytes != BUCKET_BYTES || reads++)
		return;
	for (; key < 14 * 10; key++)
		assert_int_equal(test_store_put(&store, &key, 8, value + key, 40, NULL), WIRE_OK);
}

static void a_chain_that_grows(void **state)
{
	uint64_t key = 14 * 10 - 1;

	(void)state;
	put_chain();
	loopback->before_read = extend_at_overflow;
	assert_get_bytes(&key, 8, value + key, 40);
	assert_int_equal(kvd->stats.bucket_reads, 10);
	assert_int_equal(kvd->stats.retries, 0);
}

/* Items that expire, by the server's clock in the responses. */
static void items_that_expire(void **state)
{
	struct kvd_put_args args = { .flags = 100 ^ 0xf1a95, .ttl_s = 1000 };
	struct kvd_item item;

	(void)state;
	/* A response that takes long says too little of the clock: a GET would ask for it. */
	do
		assert_int_equal(kvd_put(kvd, "key", 3, value, 100, &args, NULL), KVD_OK);
	while (server_clock_width(&kvd->clock, clock_raw_ns()) > CLOCK_WIDTH_NS_MAX / 2);
	reset_stats();
	assert_int_equal(kvd_get(kvd, "key", 3, found, 100, &item), KVD_OK);
	assert_true(item.expires_s > 0);
	assert_true(item.expires_s * 1000000000ull >=
		    server_clock_low(&kvd->clock, clock_raw_ns()));
	assert_int_equal(kvd->stats.clock_asks, 0);
	assert_cost(1, 0, 0);
	/* The key never expires again. */
	assert_int_equal(kvd_touch(kvd, "key", 3, 0, NULL), KVD_OK);
	assert_int_equal(kvd_get(kvd, "key", 3, found, 100, &item), KVD_OK);
	assert_int_equal(item.expires_s, 0);
	/* Expired by this client's clock: a miss without a request. */
	assert_int_equal(kvd_get_and_touch(kvd, "key", 3, 1000, found, 100, &item), KVD_OK);
	reset_stats();
	kvd->clock.low_ns = kvd->clock.high_ns = (item.expires_s + 1) * 1000000000ull;
	assert_not_found("key");
	assert_int_equal(kvd->stats.expired, 1);
	assert_int_equal(kvd->stats.requests, 0);
}

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
		CASE(a_bucket_of_a_lower_level),
		CASE(slots_out_of_the_region),
		CASE(an_item_being_changed_is_read_again),
		CASE(any_wrong_bit_is_seen),
		CASE(a_recycled_slot_in_the_cache),
		CASE(a_copy_elsewhere_does_not_verify),
		CASE(a_forged_item_does_not_verify),
		CASE(moved_between_two_reads),
		CASE(recycled_between_two_reads),
		CASE(deleted_between_two_reads),
		CASE(items_that_expire),
		CASE(colliding_tags),
		CASE_ONE_BUCKET(tags_that_were_made_up),
		CASE_ONE_BUCKET(chains),
		CASE_ONE_BUCKET(a_torn_overflow_bucket),
		CASE_ONE_BUCKET(a_chain_that_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
