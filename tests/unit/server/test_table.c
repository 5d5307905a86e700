/* SPDX-License-Identifier: MIT */
/*
 * Tests of the table: every operation, with the whole table checked against TABLE-1 to TABLE-4 of
 * server/store/table.h after each (test_store_check()); a long random walk beside a model; the
 * limits; and the share of keys in overflow buckets that common/layout.h states.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/stat.h"
#include "tests/support/form.h"
#include "tests/support/store_fixture.h"

#define REGION_BYTES (8u << 20)
#define VALUE_BYTES (64u << 10)

static struct store store;
static uint8_t value[VALUE_BYTES], found[VALUE_BYTES + 1];

static uint64_t random_next(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static int setup_level(uint32_t level)
{
	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)random_next();
	test_store_create(&store, REGION_BYTES, level, 2);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return setup_level(6);
}

static int setup_one_bucket(void **state)
{
	(void)state;
	return setup_level(0);
}

static int teardown(void **state)
{
	(void)state;
	test_store_destroy(&store);
	return 0;
}

static void assert_store(struct store_census *census)
{
	const char *error = test_store_check(&store, census);

	if (error)
		fail_msg("%s", error);
}

static void put(const char *key, const void *v, uint32_t len, struct table_change *out)
{
	assert_int_equal(test_store_put(&store, key, (uint32_t)strlen(key), v, len, out), WIRE_OK);
}

static void put_and_check(const char *key, const void *v, uint32_t len, struct table_change *out)
{
	put(key, v, len, out);
	assert_store(NULL);
}

static void assert_value(const void *key, uint32_t key_len, const void *v, uint32_t len)
{
	struct store_value out;

	memset(found, 0xee, len + 1);
	assert_int_equal(test_store_get(&store, key, key_len, found, sizeof(found), &out), WIRE_OK);
	assert_int_equal(out.value_len, len);
	assert_int_equal(out.flags, len ^ 0xf1a95);
	assert_memory_equal(found, v, len);
}

static void assert_missing(const void *key, uint32_t key_len)
{
	struct store_value out;

	assert_int_equal(test_store_get(&store, key, key_len, found, sizeof(found), &out),
			 WIRE_NOT_FOUND);
}

static uint64_t stat_of(size_t offset)
{
	return *(uint64_t *)((char *)&test_threads[0].stats + offset);
}

#define STAT(name) stat_of(offsetof(struct table_stats, name))

static void insert_get_delete(void **state)
{
	struct store_census census;
	struct table_change out;

	(void)state;
	assert_missing("k", 1);
	assert_int_equal(test_store_delete(&store, "k", 1), WIRE_NOT_FOUND);
	put_and_check("k", "first", 5, &out);
	assert_value("k", 1, "first", 5);
	assert_true(out.version > 0);
	assert_int_equal(slot_bytes(out.slot), 64);
	assert_missing("l", 1);
	assert_missing("kk", 2);
	assert_int_equal(test_store_delete(&store, "k", 1), WIRE_OK);
	assert_store(&census);
	assert_int_equal(census.items, 0);
	assert_missing("k", 1);
	assert_int_equal(test_store_delete(&store, "k", 1), WIRE_NOT_FOUND);
	assert_int_equal(STAT(inserts), 1);
	assert_int_equal(STAT(removes), 1);
}

/* Same size class, same length in slot units: the slot does not change. */
static void replace_in_place_keeps_the_slot(void **state)
{
	struct table_change a, b;

	(void)state;
	put_and_check("key", value, 100, &a);
	put_and_check("key", value + 1, 99, &b);
	assert_true(a.slot == b.slot);
	assert_true(b.version > a.version);
	assert_value("key", 3, value + 1, 99);
	assert_int_equal(STAT(replaces_in_place), 1);
	assert_int_equal(STAT(replaces_elsewhere), 0);
}

/* Bytes of an item's header, value sum and a key of 3 bytes. */
#define HEAD_BYTES (uint32_t)(sizeof(union item_front) + 3)

/* Same size class, another length in slot units: same place, new slot, bucket sealed again. */
static void replace_in_place_tells_the_new_length(void **state)
{
	struct table_change a, b;
	uint32_t bytes;

	(void)state;
	/* The first size above 1 KiB that fills a slot unit but not its class. */
	for (bytes = 17 * SLOT_UNIT; mem_class(bytes) != mem_class(bytes + 1);)
		bytes += SLOT_UNIT;
	put_and_check("key", value, bytes - HEAD_BYTES, &a);
	put_and_check("key", value + 1, bytes + 1 - HEAD_BYTES, &b);
	assert_int_equal(slot_offset(a.slot), slot_offset(b.slot));
	assert_int_equal(slot_bytes(a.slot), bytes);
	assert_int_equal(slot_bytes(b.slot), bytes + SLOT_UNIT);
	assert_value("key", 3, value + 1, bytes + 1 - HEAD_BYTES);
	assert_int_equal(STAT(replaces_in_place), 1);
}

static void replace_elsewhere_frees_the_old(void **state)
{
	struct table_change a, b;

	(void)state;
	put_and_check("key", value, 100, &a);
	put_and_check("key", value + 1, 1000, &b);
	assert_true(slot_offset(a.slot) != slot_offset(b.slot));
	assert_true(b.version > a.version);
	assert_value("key", 3, value + 1, 1000);
	assert_int_equal(STAT(replaces_elsewhere), 1);
	/* TABLE-1: a stale slot leads to nothing valid. */
	assert_int_equal(((struct item *)region_at(&store.region, slot_offset(a.slot)))->sum,
			 ITEM_SUM_INVALID);
}

static void delete_leaves_nothing_valid(void **state)
{
	struct table_change out;

	(void)state;
	put_and_check("key", value, 100, &out);
	assert_int_equal(test_store_delete(&store, "key", 3), WIRE_OK);
	assert_int_equal(((struct item *)region_at(&store.region, slot_offset(out.slot)))->sum,
			 ITEM_SUM_INVALID);
}

/* Lengths from 0 up, on both sides of every border between size classes. */
static void every_length(void **state)
{
	static const uint8_t key[1] = { 0 };
	uint32_t len;

	(void)state;
	for (len = 0; len < 700; len++) {
		assert_int_equal(test_store_put(&store, key, 1, value + len, len, NULL), WIRE_OK);
		assert_value(key, 1, value + len, len);
		assert_store(NULL);
	}
	for (len = VALUE_BYTES; len > 600; len -= len / 7) {
		assert_int_equal(test_store_put(&store, key, 1, value, len, NULL), WIRE_OK);
		assert_value(key, 1, value, len);
		assert_store(NULL);
	}
	assert_true(STAT(replaces_in_place) > 500);
	assert_true(STAT(replaces_elsewhere) > 30);
}

static void keys_of_any_bytes_and_length(void **state)
{
	static uint8_t keys[KEY_MAX + 1][KEY_MAX];
	uint32_t len;

	(void)state;
	/* Each key is a prefix of the next: only the length tells them apart. */
	for (len = 1; len <= KEY_MAX; len += len < 40 ? 1 : 41)
		assert_int_equal(test_store_put(&store, keys[0], len, value + len, len % 50, NULL),
				 WIRE_OK);
	assert_int_equal(test_store_put(&store, keys[0], KEY_MAX, value + KEY_MAX, 7, NULL),
			 WIRE_OK);
	assert_store(NULL);
	for (len = 1; len <= KEY_MAX; len += len < 40 ? 1 : 41)
		if (len != KEY_MAX)
			assert_value(keys[0], len, value + len, len % 50);
	assert_value(keys[0], KEY_MAX, value + KEY_MAX, 7);
	/* All keys that have one byte. */
	for (len = 0; len < 256; len++) {
		keys[1][0] = (uint8_t)len;
		assert_int_equal(test_store_put(&store, keys[1], 1, value + len, 9, NULL), WIRE_OK);
	}
	assert_store(NULL);
	for (len = 0; len < 256; len++) {
		keys[1][0] = (uint8_t)len;
		assert_value(keys[1], 1, value + len, 9);
	}
}

/* Many keys with one tag in one bucket: only the keys themselves tell them apart. */
static void colliding_tags(void **state)
{
	uint64_t keys[20] = { 4711 }, from = 1u << 20;
	unsigned int i;

	(void)state;
	for (i = 1; i < 20; i++)
		keys[i] = test_store_collide(&store, keys[0], true, &from);
	for (i = 0; i < 20; i++)
		assert_int_equal(test_store_put(&store, &keys[i], 8, value + i, 40, NULL), WIRE_OK);
	assert_store(NULL);
	for (i = 0; i < 20; i += 2)
		assert_int_equal(test_store_delete(&store, &keys[i], 8), WIRE_OK);
	for (i = 1; i < 20; i += 2)
		assert_int_equal(test_store_put(&store, &keys[i], 8, value + 2 * i, 400, NULL),
				 WIRE_OK);
	assert_store(NULL);
	for (i = 0; i < 20; i++) {
		if (i % 2)
			assert_value(&keys[i], 8, value + 2 * i, 400);
		else
			assert_missing(&keys[i], 8);
	}
}

/* Sets the last 8 of @len bytes, to @from or above, so that the key has the tag. */
static void collide_at_end(uint8_t *key, uint32_t len, uint16_t tag, uint64_t from)
{
	for (;; from++) {
		memcpy(key + len - sizeof(from), &from, sizeof(from));
		if (hash_tag(table_hash(&store.table, key, len)) == tag)
			break;
	}
}

/* So do keys that begin with another key, or that differ in their last bytes only. */
static void colliding_tags_of_long_keys(void **state)
{
	static const uint32_t lens[] = { 8, 16, 200, 200 };
	static uint8_t keys[4][200];
	uint16_t tag = hash_tag(table_hash(&store.table, keys[0], 8));
	unsigned int i;

	(void)state;
	for (i = 1; i < 4; i++)
		collide_at_end(keys[i], lens[i], tag, (uint64_t)i << 32);
	for (unsigned int last = 0; last < 4; last++) {
		for (i = 1; i < 4; i++)
			assert_int_equal(test_store_put(&store, keys[(last + i) % 4],
							lens[(last + i) % 4], value, 40, NULL),
					 WIRE_OK);
		assert_missing(keys[last], lens[last]);
		assert_int_equal(test_store_put(&store, keys[last], lens[last], value + 1, 40,
						NULL),
				 WIRE_OK);
		assert_store(NULL);
		for (i = 0; i < 4; i++) {
			assert_value(keys[i], lens[i], value + (i == last), 40);
			assert_int_equal(test_store_delete(&store, keys[i], lens[i]), WIRE_OK);
		}
	}
}

#define WALK_KEYS 300
#define WALK_STEPS 6000

static const uint32_t walk_lengths[] = {
	0, 1, 7, 8, 15, 24, 60, 88, 120, 150, 152, 184, 185, 216, 217, 470, 473, 984, 2000, 14000,
};

struct model {
	uint64_t version;
	uint32_t offset, len;
	bool there;
};

/* Returns the status of thread @w's PUT of @m's value. */
static enum wire_status walk_put(uint64_t key, struct model *m, unsigned int w, bool late)
{
	struct table_change p = {
		.key = &key,
		.key_len = 8,
		.value = late ? NULL : value + m->offset,
		.value_len = m->len,
		.flags = m->len ^ 0xf1a95,
	};
	uint64_t hash = table_hash(&store.table, &key, 8), old = m->there ? m->version : 0;
	struct store_thread *thread = &test_threads[w];
	struct item *item;
	enum wire_status status;

	if (late) {
		item = table_reserve(thread, &p);
		assert_non_null(item);
		memcpy(table_reserved_value(item), value + m->offset, m->len);
		status = table_commit(thread, hash, item, &p);
	} else {
		status = table_put(thread, hash, &p);
	}
	assert_true(p.version > old);
	m->version = p.version;
	m->there = true;
	return status;
}

static enum wire_status walk_delete(uint64_t key, unsigned int w)
{
	const struct table_change change = { .key = &key, .key_len = 8 };

	return table_delete(&test_threads[w], table_hash(&store.table, &key, 8), &change);
}

/*
 * Two threads, then one: PUTs of all kinds and DELETEs beside a model; the table is checked after
 * each.
 */
static void random_walk(void **state)
{
	static struct model model[WALK_KEYS];
	struct store_census census;
	uint64_t key, i, there;
	unsigned int w;

	(void)state;
	memset(model, 0, sizeof(model));
	for (i = 0; i < WALK_STEPS; i++) {
		/* Uneven, so that some keys are inserted and deleted often. */
		key = random_next() % (1 + random_next() % WALK_KEYS);
		w = random_next() % 2;
		if (random_next() % 100 < (i < WALK_STEPS / 2 ? 20 : 45)) {
			assert_int_equal(walk_delete(key, w),
					 model[key].there ? WIRE_OK : WIRE_NOT_FOUND);
			model[key].there = false;
		} else {
			model[key].offset = (uint32_t)(random_next() % (VALUE_BYTES - 20000));
			model[key].len = walk_lengths[random_next() % 20];
			assert_int_equal(walk_put(key, &model[key], w, random_next() % 4 == 0),
					 WIRE_OK);
		}
		if (i % 16 == 0 || i < 300)
			assert_store(&census);
	}
	assert_store(&census);
	for (key = there = 0; key < WALK_KEYS; key++) {
		if (model[key].there)
			assert_value(&key, 8, value + model[key].offset, model[key].len);
		else
			assert_missing(&key, 8);
		there += model[key].there;
	}
	assert_int_equal(census.items, there);
}

/* A chain frees the buckets that it does not need any more, and grows again. */
static void overflow_buckets_come_and_go(void **state)
{
	struct store_census before, after;
	uint64_t key;

	(void)state;
	for (key = 0; key < 100; key++)
		assert_int_equal(test_store_put(&store, &key, 8, value, 50, NULL), WIRE_OK);
	assert_store(&before);
	assert_int_equal(before.chain_max, 7);
	assert_int_equal(before.overflow_items, 100 - BUCKET_SLOTS);
	for (key = 0; key < 100; key++) {
		assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
		assert_store(NULL);
	}
	assert_store(&after);
	assert_int_equal(after.overflow_buckets, 0);
	for (key = 1000; key < 1100; key++)
		assert_int_equal(test_store_put(&store, &key, 8, value, 50, NULL), WIRE_OK);
	assert_store(&after);
	assert_int_equal(after.overflow_buckets, before.overflow_buckets);
	for (key = 1000; key < 1100; key++)
		assert_value(&key, 8, value, 50);
}

/* A key is added where its chain has the first free slot: most are found in the home bucket. */
static void first_free_slot(void **state)
{
	const struct bucket *home = test_store_home(&store, "", 0);
	struct store_census census;
	uint64_t key;

	(void)state;
	/* One is left free in the second bucket, and a few in the third. */
	for (key = 0; key < 2 * BUCKET_SLOTS + 3; key++)
		assert_int_equal(test_store_put(&store, &key, 8, value, 50, NULL), WIRE_OK);
	for (key = 0; key <= BUCKET_SLOTS; key += BUCKET_SLOTS)
		assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
	assert_int_equal(home->slots[0], 0);
	key = 1000;
	assert_int_equal(test_store_put(&store, &key, 8, value, 50, NULL), WIRE_OK);
	assert_int_not_equal(home->slots[0], 0);
	assert_store(&census);
	assert_int_equal(census.overflow_items, BUCKET_SLOTS + 2);
	assert_int_equal(census.overflow_buckets, 2);
}

/*
 * TABLE-4: a PUT of a new key into a full chain fails and changes nothing; replacing still works.
 */
static void full_chain(void **state)
{
	const uint64_t most = (CHAIN_MAX + 1) * BUCKET_SLOTS;
	struct store_census before, after;
	struct table_change late = { .key = "late", .key_len = 4, .value_len = 10 };
	struct item *item;
	uint64_t key;

	(void)state;
	for (key = 0; key < most; key++)
		assert_int_equal(test_store_put(&store, &key, 8, value, 50, NULL), WIRE_OK);
	assert_store(&before);
	assert_int_equal(before.chain_max, CHAIN_MAX);
	assert_int_equal(test_store_put(&store, &key, 8, value, 50, NULL), WIRE_NO_SPACE);
	item = table_reserve(&test_threads[0], &late);
	memcpy(table_reserved_value(item), value, 10);
	assert_int_equal(table_commit(&test_threads[0], table_hash(&store.table, "late", 4), item,
				      &late),
			 WIRE_NO_SPACE);
	assert_store(&after);
	assert_true(before.digest == after.digest);
	assert_int_equal(STAT(chain_full), 2);
	assert_missing(&key, 8);
	for (key = 0; key < most; key += 9) {
		assert_int_equal(test_store_put(&store, &key, 8, value + key, 700, NULL), WIRE_OK);
		assert_value(&key, 8, value + key, 700);
	}
	key = 100;
	assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
	assert_int_equal(test_store_put(&store, "late", 4, value, 50, NULL), WIRE_OK);
	assert_store(NULL);
}

/* There are as many threads as numbers for them in versions, and not one more. */
static void threads_have_a_limit(void **state)
{
	static struct store_thread threads[STORE_THREADS_MAX], more;
	unsigned int n = store.table.thread_count, i;

	(void)state;
	for (i = n; i < STORE_THREADS_MAX; i++)
		assert_int_equal(store_thread_init(&threads[i], &store.table, (uint8_t)i), 0);
	assert_int_equal(store_thread_init(&more, &store.table, 0), -ENOMEM);
	assert_int_equal(store.table.thread_count, STORE_THREADS_MAX);
	put_and_check("key", value, 100, NULL);
	/* All threads count. */
	stat_add(&threads[STORE_THREADS_MAX - 1].stats.inserts, 7);
	assert_int_equal(table_sum(&store.table, offsetof(struct store_thread, stats.inserts)), 8);
	while (i-- > n)
		store_thread_release(&threads[i]);
	store.table.thread_count = n;
}

static uint64_t fill_memory(uint32_t len)
{
	uint64_t key = 0;

	while (test_store_put(&store, &key, 8, value, len, NULL) == WIRE_OK)
		key++;
	return key;
}

/* TABLE-4: without memory for the new item or the reserved item the old value stays. */
static void out_of_memory(void **state)
{
	struct table_change reserve = { .key = "r", .key_len = 1, .value_len = 5000 };
	uint64_t keys = fill_memory(5000), key;
	struct store_census before, after;

	(void)state;
	assert_true(keys * 5000 > REGION_BYTES * 8ull / 10);
	assert_store(&before);
	key = 3;
	assert_int_equal(test_store_put(&store, &key, 8, value + 1, 9000, NULL), WIRE_NO_SPACE);
	assert_null(table_reserve(&test_threads[0], &reserve));
	assert_store(&after);
	assert_true(before.digest == after.digest);
	assert_value(&key, 8, value, 5000);
	/* Replacing in place needs no memory. */
	assert_int_equal(test_store_put(&store, &key, 8, value + 1, 4999, NULL), WIRE_OK);
	assert_value(&key, 8, value + 1, 4999);
	/* Memory of deleted items can be used again. */
	assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
	assert_int_equal(test_store_put(&store, "n", 1, value + 7, 5000, NULL), WIRE_OK);
	assert_store(NULL);
	for (key = 0; key < keys; key++)
		if (key != 3)
			assert_value(&key, 8, value, 5000);
}

/* Allocates blocks of @bytes until there are none; returns the bytes they take. */
static uint64_t exhaust(struct store_thread *thread, size_t bytes)
{
	uint64_t taken = 0;

	while (mem_alloc(&thread->cache, bytes))
		taken += mem_class_bytes(bytes);
	return taken;
}

static uint64_t exhaust_buckets(struct store_thread *thread)
{
	uint64_t taken = 0;

	while (mem_alloc_bucket(&thread->cache, 0))
		taken += BUCKET_BYTES;
	return taken;
}

/* There is memory for the item, but none for the overflow bucket it needs: the item's is freed. */
static void out_of_memory_for_a_bucket(void **state)
{
	struct table_change p = { .key = "x", .key_len = 1, .value = value, .value_len = 1200 };
	struct store_thread *thread = &test_threads[1];
	size_t bytes = item_bytes_for(p.key_len, p.value_len, 0);
	struct store_census before, after;
	uint64_t key, taken;
	void *room;

	(void)state;
	for (key = 0; key < BUCKET_SLOTS; key++)
		assert_int_equal(test_store_put(&store, &key, 8, value, 50, NULL), WIRE_OK);
	assert_store(&before);
	room = mem_alloc(&thread->cache, bytes);
	taken = exhaust(thread, 64 << 10) + exhaust(thread, 4096) + exhaust_buckets(thread) +
		exhaust(thread, bytes);
	mem_free(&thread->cache, room, bytes);
	assert_int_equal(table_put(thread, table_hash(&store.table, "x", 1), &p), WIRE_NO_SPACE);
	/* The bucket was missing: the item's memory is still free. */
	room = mem_alloc(&thread->cache, bytes);
	assert_non_null(room);
	mem_free(&thread->cache, room, bytes);
	test_store_taken += taken;
	assert_store(&after);
	assert_true(before.digest == after.digest);
	assert_missing("x", 1);
	assert_int_equal(thread->stats.chain_full, 0);
}

/*
 * There is memory for the item that has arrived, but none for the overflow bucket it needs: until
 * the caller has made that, the item remains its own.
 */
static void commit_waits_for_a_bucket(void **state)
{
	struct table_change p = { .key = "x", .key_len = 1, .value_len = 1200 };
	const uint64_t hash = table_hash(&store.table, "x", 1);
	struct store_thread *thread = &test_threads[1];
	const size_t bytes = item_bytes_for(p.key_len, p.value_len, 0);
	struct item *item;
	struct room room;
	void *bucket;
	uint64_t key;

	(void)state;
	for (key = 0; key < BUCKET_SLOTS; key++)
		assert_int_equal(test_store_put(&store, &key, 8, value, 50, NULL), WIRE_OK);
	item = table_reserve(thread, &p);
	assert_non_null(item);
	memcpy(table_reserved_value(item), value, 1200);
	item_value_sum_make(item, &store.region.sum_key);
	bucket = mem_alloc_bucket(&thread->cache, 0);
	assert_non_null(bucket);
	test_store_taken += exhaust(thread, 64 << 10) + exhaust(thread, 4096) +
			    exhaust_buckets(thread) + exhaust(thread, bytes);
	room_init(&room);
	p.room = &room;
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(attempt_commit(thread, hash, &p, item, 0), WIRE_BUSY);
		assert_true(change_wants_room(&p));
		assert_true(room.bytes == ROOM_BUCKET);
		assert_null(mem_alloc(&thread->cache, bytes));
		assert_missing("x", 1);
		if (!i)
			room_cancel(&room);
	}
	mem_free_bucket(&thread->cache, bucket);
	room_run(&room);
	assert_int_equal(attempt_commit(thread, hash, &p, item, 0), WIRE_OK);
	assert_false(room_pending(&room));
	assert_int_equal(test_store_get(&store, "x", 1, found, sizeof(found),
					&(struct store_value){ 0 }),
			 WIRE_OK);
	assert_memory_equal(found, value, 1200);
	assert_store(NULL);
}

/* Room for an overflow bucket that the chain does not need any more is free again. */
static void room_is_not_needed(void **state)
{
	struct table_change p = { .key = "x", .key_len = 1, .value = value, .value_len = 1200 };
	const uint64_t hash = table_hash(&store.table, "x", 1);
	struct store_thread *thread = &test_threads[1];
	const size_t bytes = item_bytes_for(p.key_len, p.value_len, 0);
	void *block, *bucket;
	struct room room;
	uint64_t key;

	(void)state;
	for (key = 0; key < BUCKET_SLOTS; key++)
		assert_int_equal(test_store_put(&store, &key, 8, value, 50, NULL), WIRE_OK);
	block = mem_alloc(&thread->cache, bytes);
	bucket = mem_alloc_bucket(&thread->cache, 0);
	assert_true(block && bucket);
	test_store_taken += exhaust(thread, 64 << 10) + exhaust(thread, 4096) +
			    exhaust_buckets(thread) + exhaust(thread, bytes);
	mem_free(&thread->cache, block, bytes);
	room_init(&room);
	p.room = &room;
	assert_int_equal(attempt_put(thread, hash, &p), WIRE_BUSY);
	assert_true(change_wants_room(&p) && room.bytes == ROOM_BUCKET);
	mem_free_bucket(&thread->cache, bucket);
	room_run(&room);
	assert_null(mem_alloc_bucket(&thread->cache, 0));
	key = 3;
	assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
	assert_int_equal(attempt_put(thread, hash, &p), WIRE_OK);
	assert_ptr_equal(mem_alloc_bucket(&thread->cache, 0), bucket);
	mem_free_bucket(&thread->cache, bucket);
	assert_store(NULL);
}

/* Room that the caller could not make is not asked for again: there is none. */
static void no_room_was_made(void **state)
{
	struct table_change p = { .key = "x", .key_len = 1, .value = value, .value_len = 1200 };
	const uint64_t hash = table_hash(&store.table, "x", 1);
	struct store_thread *thread = &test_threads[1];
	struct room room;

	(void)state;
	/* Whatever it would evict there is none. */
	store.table.eviction = EVICTION_OBJECT_HITS;
	test_store_taken += exhaust(thread, 64 << 10) + exhaust(thread, 4096) +
			    exhaust(thread, item_bytes_for(1, 1200, 0));
	room_init(&room);
	p.room = &room;
	assert_int_equal(attempt_put(thread, hash, &p), WIRE_BUSY);
	assert_true(change_wants_room(&p));
	room_run(&room);
	assert_int_equal(attempt_put(thread, hash, &p), WIRE_NO_SPACE);
	assert_false(change_wants_room(&p));
	assert_missing("x", 1);
	assert_store(NULL);
}

/*
 * While a flush is under way: the change removes the key's item, finds no memory, and is repeated.
 * The memory of the item, which it may get then, is freed once.
 */
static void flushed_item_is_freed_once(void **state)
{
	static const uint32_t lens[] = { 1200, LIMBO_ITEM_BYTES };
	struct store_thread *thread = &test_threads[0];

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t flushed = STAT(flushed);
		struct table_change old;

		put("x", value, lens[i], &old);
		test_store_taken += exhaust(thread, 64 << 10) + exhaust(thread, 4096) +
				    exhaust(thread, item_bytes_for(1, lens[i], 0));
		/* This item is the last one that the flush has to remove. */
		atomic_store(&store.table.flushing, old.version >> THREAD_ID_BITS);
		put("x", value + 1, lens[i], NULL);
		assert_int_equal(STAT(flushed), flushed + 1);
		/* The item's memory was all that there was. */
		assert_null(mem_alloc(&thread->cache, item_bytes_for(1, lens[i], 0)));
		assert_value("x", 1, value + 1, lens[i]);
		assert_store(NULL);
		teardown(NULL);
		setup(NULL);
	}
}

static void reserve_commit_abandon(void **state)
{
	struct table_change p = {
		.key = "pulled", .key_len = 6, .value_len = 3000, .flags = 3000 ^ 0xf1a95
	};
	uint64_t hash = table_hash(&store.table, "pulled", 6);
	struct store_thread *w = &test_threads[0];
	struct item *item;

	(void)state;
	item = table_reserve(w, &p);
	assert_non_null(item);
	assert_int_equal(item->sum, ITEM_SUM_INVALID);
	assert_missing("pulled", 6);
	memcpy(table_reserved_value(item), value, 3000);
	assert_int_equal(table_commit(w, hash, item, &p), WIRE_OK);
	assert_true(p.slot && p.version);
	assert_value("pulled", 6, value, 3000);
	assert_store(NULL);

	item = table_reserve(w, &p);
	memset(table_reserved_value(item), 1, 1500);
	table_abandon(w, item);
	assert_value("pulled", 6, value, 3000);
	assert_store(NULL);

	/* The key is replaced, and deleted, while a value is being pulled. */
	item = table_reserve(w, &p);
	memcpy(table_reserved_value(item), value + 9, 3000);
	put("pulled", "short", 5, NULL);
	assert_int_equal(table_commit(w, hash, item, &p), WIRE_OK);
	assert_value("pulled", 6, value + 9, 3000);
	item = table_reserve(w, &p);
	memcpy(table_reserved_value(item), value + 5, 3000);
	assert_int_equal(test_store_delete(&store, "pulled", 6), WIRE_OK);
	assert_int_equal(table_commit(w, hash, item, &p), WIRE_OK);
	assert_value("pulled", 6, value + 5, 3000);
	assert_store(NULL);
}

/* lookup_get() copies a value that fits, and returns the length of one that does not. */
static void get_into_a_small_buffer(void **state)
{
	struct store_value out;

	(void)state;
	put_and_check("k", value, 100, NULL);
	memset(found, 0xee, 100);
	assert_int_equal(test_store_get(&store, "k", 1, found, 99, &out), WIRE_OK);
	assert_int_equal(out.value_len, 100);
	assert_int_equal(found[0], 0xee);
	assert_int_equal(test_store_get(&store, "k", 1, found, 100, &out), WIRE_OK);
	assert_memory_equal(found, value, 100);
	put_and_check("k", value, 0, NULL);
	assert_int_equal(test_store_get(&store, "k", 1, NULL, 0, &out), WIRE_OK);
	assert_int_equal(out.value_len, 0);
}

/* A version is above the one it replaces, whichever thread wrote that; no two are equal. */
static void versions(void **state)
{
	uint64_t last = 0, hash = table_hash(&store.table, "v", 1);
	struct table_change p = { .key = "v", .key_len = 1, .value = value, .value_len = 10 };
	unsigned int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		/* One thread's clock is far ahead of the other's. */
		assert_int_equal(table_put(&test_threads[i % 7 == 6], hash, &p), WIRE_OK);
		assert_true(p.version > last);
		assert_int_equal(p.version & ((1 << THREAD_ID_BITS) - 1),
				 test_threads[i % 7 == 6].id);
		last = p.version;
	}
}

static void prefetching_finds_nothing_amiss(void **state)
{
	uint64_t key, hash;

	(void)state;
	put_and_check("k", value, 10, NULL);
	for (key = 0; key < 1000; key++) {
		hash = table_hash(&store.table, &key, 8);
		table_prefetch_bucket(&store.table, hash);
		table_prefetch_item(&store.table, hash);
	}
	table_prefetch_item(&store.table, table_hash(&store.table, "k", 1));
	assert_store(NULL);
}

#define FILL_LEVEL 15

static double overflow_share(unsigned int percent)
{
	uint64_t n = ((uint64_t)BUCKET_SLOTS << FILL_LEVEL) * percent / 100, key;
	struct store_census census;

	test_store_create(&store, 64u << 20, FILL_LEVEL, 1);
	for (key = 0; key < n; key++)
		assert_int_equal(test_store_put(&store, &key, 8, NULL, 0, NULL), WIRE_OK);
	assert_store(&census);
	test_store_destroy(&store);
	assert_int_equal(census.items, n);
	print_message("fill %u %%: %.2f %% of %llu keys in overflow buckets, longest chain %u\n",
		      percent, 100.0 * (double)census.overflow_items / (double)n,
		      (unsigned long long)n, census.chain_max);
	return 100.0 * (double)census.overflow_items / (double)n;
}

/*
 * The table of overflow shares in common/layout.h. The hash seed is random: 6 deviations are
 * allowed.
 */
static void overflow_is_what_layout_h_says(void **state)
{
	static const struct {
		unsigned int fill;
		double least, most;
	} rows[] = { { 75, 2.1, 2.9 }, { 50, 0.07, 0.21 }, { 60, 0.42, 0.72 }, { 65, 0.8, 1.2 } };

	(void)state;
	for (unsigned int i = 0; i < (long_form() ? 4 : 1); i++) {
		double share = overflow_share(rows[i].fill);

		assert_true(share > rows[i].least && share < rows[i].most);
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define CASE_ONE_BUCKET(f) cmocka_unit_test_setup_teardown(f, setup_one_bucket, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(insert_get_delete),
		CASE(replace_in_place_keeps_the_slot),
		CASE(replace_in_place_tells_the_new_length),
		CASE(replace_elsewhere_frees_the_old),
		CASE(delete_leaves_nothing_valid),
		CASE(every_length),
		CASE(keys_of_any_bytes_and_length),
		CASE(colliding_tags),
		CASE_ONE_BUCKET(colliding_tags_of_long_keys),
		CASE(random_walk),
		CASE_ONE_BUCKET(overflow_buckets_come_and_go),
		CASE_ONE_BUCKET(first_free_slot),
		CASE_ONE_BUCKET(full_chain),
		CASE(threads_have_a_limit),
		CASE(out_of_memory),
		CASE_ONE_BUCKET(out_of_memory_for_a_bucket),
		CASE_ONE_BUCKET(commit_waits_for_a_bucket),
		CASE_ONE_BUCKET(room_is_not_needed),
		CASE(no_room_was_made),
		CASE(flushed_item_is_freed_once),
		CASE(reserve_commit_abandon),
		CASE(get_into_a_small_buffer),
		CASE(versions),
		CASE(prefetching_finds_nothing_amiss),
		cmocka_unit_test(overflow_is_what_layout_h_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
