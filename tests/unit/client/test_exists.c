/* SPDX-License-Identifier: MIT */
/*
 * Whether keys exist (client/libkvd/get.c, GET-5): what it costs, and that it is true whatever
 * other clients change meanwhile, whatever memory the slots lead to, and whichever bit is wrong.
 */
#include "tests/support/get_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <urcu-qsbr.h>

#include "common/util/clock.h"

/* Bytes of header, value sum and a key of 3 bytes. */
#define HEAD_BYTES (sizeof(union item_front) + 3)

static struct kvd_exists exists_of(const void *key, size_t len)
{
	struct kvd_key k = { key, len };
	struct kvd_exists result;
	size_t present;

	assert_int_equal(kvd_exists_many(kvd, &k, 1, &result, &present), KVD_OK);
	assert_int_equal(present, result.status == KVD_OK);
	return result;
}

static void assert_exists(const char *key, size_t len)
{
	struct kvd_exists e = exists_of(key, strlen(key));

	assert_int_equal(e.status, KVD_OK);
	assert_int_equal(e.item.value_len, len);
	assert_int_equal(e.item.flags, len ^ 0xf1a95);
	assert_true(e.item.version);
	assert_int_equal(e.item.expires_s, 0);
}

static void assert_absent(const char *key)
{
	assert_int_equal(exists_of(key, strlen(key)).status, KVD_NOT_FOUND);
}

static void assert_reads(uint64_t count, uint64_t bytes)
{
	assert_int_equal(kvd->stats.reads, count);
	assert_int_equal(kvd->stats.read_bytes, bytes);
	assert_int_equal(kvd->stats.requests, 0);
	reset_stats();
}

/* No value is READ, and no message sent; a short item is READ whole. */
static void what_it_costs(void **state)
{
	static const uint32_t lens[] = { 98, 1000, 100000, 262100, 3500000 };

	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		other_put("key", value, lens[i]);
		reset_stats();
		assert_exists("key", lens[i]);
		if (i)
			assert_reads(3, 2 * HEAD_BYTES + BUCKET_BYTES); /* the cached slot is old */
		else
			assert_reads(2, HEAD_BYTES + BUCKET_BYTES);
		assert_exists("key", lens[i]);
		assert_reads(1, HEAD_BYTES);
	}
	other_put("abc", value, 20);
	reset_stats();
	assert_exists("abc", 20);
	assert_reads(2, SLOT_UNIT + BUCKET_BYTES);
	assert_exists("abc", 20);
	assert_reads(1, SLOT_UNIT);
	assert_absent("none");
	assert_reads(1, BUCKET_BYTES);
	other_delete("abc");
	assert_absent("abc");
	assert_reads(2, SLOT_UNIT + BUCKET_BYTES);
}

/* The first READ of an item changes bit *arg of it. */
static void flip_once(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	unsigned int bit = *(unsigned int *)d->arg;

	if (in_index(offset) || reads++)
		return;
	assert_true(bit < bytes * 8);
	to[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* A wrong bit in what was READ is no answer, but for those of the access time. */
static void any_wrong_bit_is_seen(void **state)
{
	static const uint32_t lens[] = { 50, 100, 3000000 };
	unsigned int bit, access = offsetof(struct item, access) * 8;

	(void)state;
	loopback->arg = &bit;
	for (unsigned int i = 0; i < 3; i++) {
		uint64_t bytes = i ? HEAD_BYTES : item_bytes_for(3, 50, 0);

		loopback->after_read = NULL;
		other_put("key", value, lens[i]);
		loopback->after_read = flip_once;
		for (bit = 0; bit < bytes * 8; bit++) {
			assert_exists("key", lens[i]);
			reset_stats();
			assert_exists("key", lens[i]);
			assert_int_equal(kvd->stats.cache_stale,
					 bit < access || bit >= access + 16);
			assert_int_equal(kvd->stats.fallbacks, 0);
			reads = 0;
		}
	}
}

/* Other keys of the bucket and tag, whatever their lengths, are told apart. */
static void colliding_tags(void **state)
{
	uint64_t keys[3] = { 1, 0, 0 }, from = 2;

	(void)state;
	for (unsigned int i = 1; i < 3; i++)
		keys[i] = test_store_collide(&store, keys[0], true, &from);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(test_store_put(&store, &keys[i], 8, value, 1000 + i, NULL),
				 WIRE_OK);
	for (unsigned int round = 0; round < 2; round++)
		for (unsigned int i = 0; i < 2; i++) {
			struct kvd_exists e = exists_of(&keys[i], 8);

			assert_int_equal(e.status, KVD_OK);
			assert_int_equal(e.item.value_len, 1000 + i);
		}
	/* The slots' memory may have been reused: the server is asked, and sends no value. */
	reset_stats();
	assert_int_equal(exists_of(&keys[2], 8).status, KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.fallbacks, 1);
}

/* A slot of the key's tag leads to an item whose key is longer than what is READ at first. */
static void a_longer_key_of_the_same_tag(void **state)
{
	char longer[201];
	struct bucket *home;
	uint64_t slot;

	(void)state;
	home = test_store_home(&store, "key", 3);
	longer[200] = '\0';
	/* Of another bucket, which depends on the store's hash seed. */
	memset(longer, 'l', 200);
	while (test_store_home(&store, longer, 200) == home)
		longer[0]++;
	other_put(longer, value, 500);
	other_put("key", value, 300);
	/* In front of the key's own slot: as if their tags were the same. */
	slot = home->slots[0];
	home->slots[1] = slot;
	home->slots[0] = slot_make(slot_tag(slot), place_of(longer), item_bytes_for(200, 500, 0));
	do_chain_seal(&store.table, home, home);
	reset_stats();
	assert_exists("key", 300);
	assert_cost(4, 0, 0);
	home->slots[0] = slot;
	home->slots[1] = 0;
	do_chain_seal(&store.table, home, home);
}

/* The server is asked after get_tries: it says all but the value. */
static void hide_all(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)d, (void)bytes;
	if (!in_index(offset))
		memset(to, 0, 8);
}

static void asked_of_the_server(void **state)
{
	(void)state;
	other_put("key", value, 1000000);
	loopback->after_read = hide_all;
	assert_exists("key", 1000000);
	assert_int_equal(kvd->stats.fallbacks, 1);
	other_delete("key");
	assert_absent("key");
}

static void change_at_item(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)bytes;
	if (in_index(offset) || reads++)
		return;
	if (d->arg)
		other_put("key", value, *(uint32_t *)d->arg);
	else
		other_delete("key");
}

/* Between the READs of the bucket and of the item, or of a cached slot. */
static void changed_between_two_reads(void **state)
{
	uint32_t len = 1000;

	(void)state;
	for (unsigned int warm = 0; warm < 2; warm++) {
		other_put("key", value, 500);
		loopback->before_read = NULL;
		memset(kvd->cache.lines, 0, bcache_bytes(&kvd->cache));
		if (warm)
			assert_exists("key", 500);
		reads = 0;
		loopback->arg = &len;
		loopback->before_read = change_at_item;
		assert_exists("key", 1000);
		/* The item's memory is another key's. */
		loopback->before_read = NULL;
		other_delete("key");
		other_put("heir", value, 1000);
		assert_absent("key");
		assert_exists("heir", 1000);
		other_delete("heir");
		/* Deleted. */
		other_put("key", value, 500);
		memset(kvd->cache.lines, 0, bcache_bytes(&kvd->cache));
		if (warm)
			assert_exists("key", 500);
		reads = 0;
		loopback->arg = NULL;
		loopback->before_read = change_at_item;
		assert_absent("key");
		loopback->before_read = NULL;
	}
}

static void expired_is_absent(void **state)
{
	struct table_change change = {
		.key = "key", .key_len = 3, .value = value, .value_len = 1000, .ttl = 1000
	};

	(void)state;
	assert_int_equal(table_put(&test_threads[0], table_hash(&store.table, "key", 3), &change),
			 WIRE_OK);
	assert_int_equal(exists_of("key", 3).status, KVD_OK);
	assert_int_equal(exists_of("key", 3).item.expires_s, change.expires);
	item_of("key")->expires = 1000;
	item_of("key")->sum = item_sum(item_of("key"), &store.region.sum_key,
				       store.region.geometry.incarnation, place_of("key"));
	assert_absent("key");
	assert_int_equal(kvd->stats.fallbacks, 0);
}

#define MANY 10000

/* Many at once; and the first ones: no more is READ than the answer needs. */
static void many(void **state)
{
	static struct kvd_exists results[MANY];
	static struct kvd_key keys[MANY];
	static uint64_t numbers[MANY];
	size_t present;

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		numbers[i] = i;
		keys[i] = (struct kvd_key){ &numbers[i], 8 };
		if (i < 500 && i != 3 && i != 300)
			assert_int_equal(test_store_put(&store, &i, 8, value, (uint32_t)i, NULL),
					 WIRE_OK);
	}
	assert_int_equal(kvd_exists_many(kvd, keys, 700, results, &present), KVD_OK);
	assert_int_equal(present, 498);
	for (unsigned int i = 0; i < 700; i++) {
		bool is = i < 500 && i != 3 && i != 300;

		assert_int_equal(results[i].status, is ? KVD_OK : KVD_NOT_FOUND);
		assert_int_equal(results[i].item.value_len, is ? i : 0);
	}
	assert_int_equal(kvd->stats.exists, 700);
	assert_int_equal(kvd->stats.exists_found, 498);
	assert_int_equal(kvd->stats.gets, 0);
	assert_int_equal(kvd_exists_many(kvd, keys, 700, NULL, &present), KVD_OK);
	assert_int_equal(present, 498);
	reset_stats();
	assert_int_equal(kvd_exists_leading(kvd, keys, MANY, &present), KVD_OK);
	assert_int_equal(present, 3);
	assert_int_equal(kvd->stats.exists, 4);
	reset_stats();
	assert_int_equal(kvd_exists_leading(kvd, keys + 4, MANY - 4, &present), KVD_OK);
	assert_int_equal(present, 296);
	assert_in_range(kvd->stats.exists, 297, 296 + 32);
	assert_int_equal(kvd_exists_leading(kvd, keys + 4, 100, &present), KVD_OK);
	assert_int_equal(present, 100);
	assert_int_equal(kvd_exists_leading(kvd, keys, 0, &present), KVD_OK);
	assert_int_equal(present, 0);
	/* One of a bad length is an error of its own. */
	keys[2].key_len = KEY_MAX + 1;
	assert_int_equal(kvd_exists_many(kvd, keys, 5, results, &present), KVD_OK);
	assert_int_equal(present, 3);
	assert_int_equal(results[2].status, KVD_ERR_INVALID);
	assert_int_equal(kvd_exists_leading(kvd, keys, 5, &present), KVD_ERR_INVALID);
	assert_int_equal(present, 2);
}

/* As a submitted operation; after a change of the same handle, it sees that. */
static void submitted(void **state)
{
	struct kvd_op put, here, gone, *ops[] = { &put, &here, &gone }, *done[3];

	(void)state;
	kvd_prep_put(&put, "key", 3, value, 1000, NULL);
	kvd_prep_exists(&here, "key", 3);
	kvd_prep_exists(&gone, "gone", 4);
	assert_int_equal(kvd_submit(kvd, ops, 3), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, 3, 3, FAKE_TIMEOUT_MS), 3);
	assert_int_equal(put.status, KVD_OK);
	assert_int_equal(here.status, KVD_OK);
	assert_int_equal(here.item.value_len, 1000);
	assert_int_equal(here.item.version, put.item.version);
	assert_int_equal(gone.status, KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.exists, 2);
	assert_int_equal(kvd->stats.exists_found, 1);
}

/* Several at once that the server is asked for: they go alone, not in a batch. */
static void asked_together(void **state)
{
	struct kvd_op list[12], *ops[12], *done[12];

	(void)state;
	other_put("key", value, 1000);
	loopback->after_read = hide_all;
	for (unsigned int i = 0; i < 12; i++) {
		kvd_prep_exists(&list[i], "key", 3);
		ops[i] = &list[i];
	}
	assert_int_equal(kvd_submit(kvd, ops, 12), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, 12, 12, FAKE_TIMEOUT_MS), 12);
	for (unsigned int i = 0; i < 12; i++) {
		assert_int_equal(list[i].status, KVD_OK);
		assert_int_equal(list[i].item.value_len, 1000);
	}
	assert_int_equal(kvd->stats.fallbacks, 12);
}

#define RACE_NS 300000000ull
#define RACE_KEYS 16

static atomic_bool race_ends;

/* Keys of even number are replaced all the time, others deleted and memory reused by others. */
static void *race_writer(void *arg)
{
	uint32_t n = 0;

	(void)arg;
	rcu_register_thread();
	while (!atomic_load(&race_ends)) {
		uint64_t key = n % RACE_KEYS & ~1u, churn = 1000 + n % 64;
		uint32_t len = 20 + n * 7919 % 4000;

		assert_int_equal(test_store_put(&store, &key, 8, value, len, NULL), WIRE_OK);
		assert_int_equal(test_store_put(&store, &churn, 8, value, len, NULL), WIRE_OK);
		if (n % 3 == 0)
			test_store_delete(&store, &churn, 8);
		n++;
		rcu_quiescent_state();
	}
	rcu_unregister_thread();
	return NULL;
}

/* Never false for a key that is stored all the time, never true for one that never is. */
static void beside_changes(void **state)
{
	uint64_t numbers[RACE_KEYS], end;
	struct kvd_exists results[RACE_KEYS];
	struct kvd_key keys[RACE_KEYS];
	pthread_t thread;
	size_t present;

	(void)state;
	for (uint64_t i = 0; i < RACE_KEYS; i++) {
		numbers[i] = i;
		keys[i] = (struct kvd_key){ &numbers[i], 8 };
		if (i % 2 == 0)
			assert_int_equal(test_store_put(&store, &i, 8, value, 100, NULL), WIRE_OK);
	}
	loopback->scatter = true;
	atomic_store(&race_ends, false);
	assert_int_equal(pthread_create(&thread, NULL, race_writer, NULL), 0);
	end = clock_ns() + RACE_NS;
	do {
		assert_int_equal(kvd_exists_many(kvd, keys, RACE_KEYS, results, &present), KVD_OK);
		assert_int_equal(present, RACE_KEYS / 2);
		for (unsigned int i = 0; i < RACE_KEYS; i++) {
			assert_int_equal(results[i].status, i % 2 ? KVD_NOT_FOUND : KVD_OK);
			assert_true(i % 2 || results[i].item.value_len >= 20);
		}
	} while (clock_ns() < end);
	atomic_store(&race_ends, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_it_costs),
		CASE(any_wrong_bit_is_seen),
		CASE_ONE_BUCKET(colliding_tags),
		CASE(a_longer_key_of_the_same_tag),
		CASE(asked_of_the_server),
		CASE(changed_between_two_reads),
		CASE(expired_is_absent),
		CASE(many),
		CASE(submitted),
		CASE(asked_together),
		CASE(beside_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
