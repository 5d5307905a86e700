/* SPDX-License-Identifier: MIT */
/*
 * Tests of moves beside changes: threads change, delete and evict items of one store, while another
 * one copies half of its keys to a second store, segment by segment as they are marked. When the
 * threads have ended and no segment is marked, both have exactly the same items.
 */
#include <pthread.h>
#include <sched.h>

#include <urcu-qsbr.h>

#include "tests/support/store_test.h"

#define FROM_BYTES (4u << 20)
#define TO_BYTES (32u << 20)
#define WRITERS 3u
#define CHANGES 20000u /* of each writer */
#define KEYS 16000u    /* more than there is room for */
#define LENGTH_MAX 900u

static struct moving moving;
static struct store to;
static struct store_thread reader, writer;
static uint8_t buffer[64u << 10];
static _Atomic unsigned int ended;

static int setup(void **state)
{
	struct store_options options = {
		.fill = 65,
		.eviction = EVICTION_OBJECT_HITS,
		.pin_share = 10,
		.pin_time_max = 60,
		.hash_seed = 1,
	};

	(void)state;
	test_store_create_with(&store, FROM_BYTES, 4, WRITERS, &options);
	set_now(ENGINE_NOW_NS);
	options.bytes = TO_BYTES;
	options.hugepages = HUGEPAGES_OFF;
	options.value_max = VALUE_MAX;
	assert_int_equal(store_create(&to, &options), 0);
	store_set_clock(&to, store.table.clock_base);
	assert_int_equal(store_thread_init(&writer, &to.table, 9), 0);
	store_reader_init(&reader, &store.table);
	for (unsigned int i = 0; i < KEY_PARTS_WORDS; i++)
		moving.parts[i] = 0x5555555555555555;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_store(NULL);
	test_store_destroy(&store);
	store_thread_release(&writer);
	store_destroy(&to);
	return 0;
}

/* The next number of a thread. */
static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void change_one(struct store_thread *thread, uint64_t *x)
{
	const uint64_t key = next(x) % KEYS, kind = next(x) % 16;
	const uint64_t hash = table_hash(&store.table, &key, sizeof(key));
	uint8_t value[LENGTH_MAX];
	struct table_change change = {
		.key = &key,
		.key_len = sizeof(key),
		.value = value,
		.value_len = (uint32_t)(next(x) % LENGTH_MAX),
		.flags = (uint32_t)(next(x) % 3),
		.ttl = kind & 1 ? 1000 : 0,
	};

	value_make(value, change.value_len & ~7u, key, *x);
	memset(value + (change.value_len & ~7u), 1, change.value_len & 7);
	if (kind < 3) {
		table_delete(thread, hash, &change);
	} else if (kind < 5) {
		table_touch(thread, hash, &change);
	} else {
		change.mode = kind == 5 ? WIRE_APPEND : WIRE_SET;
		change.value_len = kind == 5 ? 9 : change.value_len;
		table_put(thread, hash, &change);
	}
}

static void *changes(void *arg)
{
	struct store_thread *thread = arg;
	uint64_t x = 77 + (uint64_t)(thread - test_threads);

	rcu_register_thread();
	for (uint32_t n = 0; n < CHANGES; n++) {
		change_one(thread, &x);
		rcu_quiescent_state();
	}
	rcu_unregister_thread();
	atomic_fetch_add(&ended, 1);
	return NULL;
}

static void copy(const struct wire_entry *entry, const uint8_t *key)
{
	const uint64_t now_s = (reader.now_ns + SECOND_NS - 1) / SECOND_NS;
	struct table_change change = {
		.key = key,
		.key_len = entry->key_len,
		.mode = WIRE_COPY,
		.value = key + entry->key_len,
		.value_len = entry->value_len,
		.flags = entry->item_flags,
		.version = entry->version,
		.ttl = entry->expires ? (uint32_t)(entry->expires - now_s) : 0,
		.use = wire_use_pack((enum wire_use)entry->use, entry->uses, entry->age),
	};

	assert_int_equal(entry->value_sent, entry->value_len);
	assert_int_equal(table_put(&writer, table_hash(&to.table, key, entry->key_len), &change),
			 WIRE_OK);
}

/* Calls @use with the keys in a range of cursors of the store that move. Returns their number. */
static unsigned int scan_keys(struct store_thread *thread, uint64_t begin, uint64_t end,
			      void (*use)(const struct wire_entry *entry, const uint8_t *key))
{
	struct scan scan = {
		.buffer = buffer,
		.size = sizeof(buffer),
		.values = true,
		.copies = true,
		.parts = moving.parts,
		.cursor = begin,
		.end = end,
		.until_ns = UINT64_MAX,
	};
	unsigned int count = 0;
	struct wire_entry entry;
	const uint8_t *key;
	uint32_t at;

	do {
		/* WIRE_BUSY: its bucket kept changing. */
		while (table_scan(thread, &scan))
			rcu_quiescent_state();
		for (at = 0; (key = scan_copy_next(&scan, &at, &entry)); count++)
			if (use)
				use(&entry, key);
		rcu_quiescent_state();
	} while (scan.cursor);
	return count;
}

/* Copies the marked segments until the writers have ended, and then the rest. */
static unsigned int copy_marked(void)
{
	unsigned int segments = 0;
	bool last;

	do {
		last = atomic_load(&ended) == WRITERS;
		for (uint32_t at = 0; moving_take(&moving, &at); at++, segments++) {
			moving_clear(&writer, at, moving.parts);
			scan_keys(&reader, segment_begin(at), segment_end(at), copy);
		}
		rcu_quiescent_state();
	} while (!last);
	return segments;
}

static void assert_same(const struct wire_entry *entry, const uint8_t *key)
{
	const uint64_t hash = table_hash(&to.table, key, entry->key_len);
	uint8_t value[LENGTH_MAX + 16 * 9];
	struct item_ref ref;

	if (lookup_get(&writer, hash, key, entry->key_len, value, sizeof(value), &ref))
		fail_msg("an item was not copied");
	assert_true(ref.front.item.version == entry->version);
	assert_int_equal(item_flags(&ref.front.item), entry->item_flags);
	assert_int_equal(item_value_len(&ref.front.item), entry->value_len);
	assert_true(entry->value_len <= sizeof(value));
	assert_memory_equal(value, key + entry->key_len, entry->value_len);
	/* The seconds left were counted at one time, and added at another. */
	assert_in_range(ref.front.item.expires, entry->expires, entry->expires + 1);
}

static void stores_are_equal(void **state)
{
	unsigned int segments, items;
	pthread_t threads[WRITERS];
	uint64_t x = 5;

	(void)state;
	rcu_register_thread();
	for (uint32_t n = 0; n < CHANGES / 4; n++)
		change_one(&test_threads[0], &x);
	moving_begin(&store.table, &moving);
	for (unsigned int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, changes, &test_threads[i]), 0);
	scan_keys(&reader, 0, 0, copy);
	segments = copy_marked();
	assert_int_equal(moving_marked(&moving), 0);
	rcu_thread_offline();
	for (unsigned int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	rcu_thread_online();
	moving_end(&store.table);

	items = scan_keys(&reader, 0, 0, assert_same);
	assert_int_equal(scan_keys(&writer, 0, 0, NULL), items);
	print_message("%u items of %llu, %u segments, %llu evictions, %llu splits\n", items,
		      (unsigned long long)store_items(&store), segments,
		      (unsigned long long)STAT(evictions), (unsigned long long)STAT(splits));
	assert_true(items > 100 && STAT(evictions) > 100 && STAT(splits) > 100);
	assert_int_equal(store_items(&to), items);
	rcu_unregister_thread();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stores_are_equal, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
