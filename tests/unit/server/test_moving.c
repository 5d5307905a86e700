/* SPDX-License-Identifier: MIT */
/*
 * Tests of server/store/moving.h and of copies: every change and removal of an item marks its
 * segment, a segment can be scanned and cleared whatever the size of the index, and a copy keeps
 * what its item had.
 */
#include <pthread.h>

#include <urcu-qsbr.h>

#include "server/store/chain.h"

#include "tests/support/store_test.h"

#define REGION_BYTES (16u << 20)
#define KEYS 3000u
#define LARGE 300000u /* bytes of a value that is summed in steps */
#define PIN_TIME_MAX_S 60u

static struct moving moving;
static uint64_t all[KEY_PARTS_WORDS];
static uint8_t value[LARGE], buffer[64u << 10];
static struct store_thread reader;

static void begin(void)
{
	memset(all, 0xff, sizeof(all));
	memset(&moving, 0, sizeof(moving));
	memcpy(moving.parts, all, sizeof(all));
	moving_begin(&store.table, &moving);
	store_reader_init(&reader, &store.table);
	reader.now_ns = ENGINE_NOW_NS;
}

static int create_of(uint64_t bytes, uint32_t level, uint32_t fill, enum eviction_policy eviction)
{
	const struct store_options options = {
		.fill = fill,
		.eviction = eviction,
		.pin_share = 1,
		.pin_time_max = PIN_TIME_MAX_S,
		.hash_seed = 1,
	};

	test_store_create_with(&store, bytes, level, 2, &options);
	set_now(ENGINE_NOW_NS);
	begin();
	return 0;
}

static int create(uint32_t level, uint32_t fill, enum eviction_policy eviction)
{
	return create_of(REGION_BYTES, level, fill, eviction);
}

#ifndef __SANITIZE_THREAD__
/* Each segment is the range of two buckets: too much memory for ThreadSanitizer. */
static int setup_wide(void **state)
{
	const uint32_t level = KEY_SEGMENT_BITS + 1;

	(void)state;
	return create_of(2ull * BUCKET_BYTES << level, level, STORE_NO_GROWTH, EVICTION_NONE);
}
#endif

static int setup(void **state)
{
	(void)state;
	return create(4, STORE_NO_GROWTH, EVICTION_NONE);
}

static int setup_growing(void **state)
{
	(void)state;
	return create(0, 65, EVICTION_NONE);
}

static int setup_evicting(void **state)
{
	(void)state;
	return create(4, STORE_NO_GROWTH, EVICTION_OBJECT_HITS);
}

static int teardown(void **state)
{
	(void)state;
	assert_store(NULL);
	test_store_destroy(&store);
	return 0;
}

static uint64_t hash_of_number(uint64_t key)
{
	return hash_of(&key, sizeof(key));
}

static uint32_t segment_of_number(uint64_t key)
{
	return segment_of(hash_of_number(key));
}

static enum wire_status change_put(uint64_t key, const struct table_change *as,
				   struct table_change *out)
{
	struct table_change change = *as;
	enum wire_status status;

	change.key = &key;
	change.key_len = sizeof(key);
	change.value = value;
	status = table_put(&test_threads[0], hash_of_number(key), &change);
	if (out)
		*out = change;
	return status;
}

static void put(uint64_t key, uint32_t len)
{
	const struct table_change change = { .value_len = len };

	assert_int_equal(change_put(key, &change, NULL), WIRE_OK);
}

static const struct item *find(uint64_t key)
{
	struct table *table = &store.table;
	struct chain_pos pos;

	do_chain_find(&test_threads[0], &pos, index_home(table, hash_of_number(key)),
		      hash_of_number(key), &key, sizeof(key));
	return pos.item;
}

/* Only the segment of @key is marked; takes the mark. */
static void assert_marked(uint64_t key)
{
	uint32_t segment = 0;

	assert_int_equal(moving_marked(&moving), 1);
	assert_true(moving_take(&moving, &segment));
	assert_int_equal(segment, segment_of_number(key));
	assert_int_equal(moving_marked(&moving), 0);
	assert_false(moving_take(&moving, &segment));
}

static void assert_unmarked(void)
{
	assert_int_equal(moving_marked(&moving), 0);
}

static void each_change_marks(void **state)
{
	struct table_change arith = { .key = &(uint64_t){ 2 }, .key_len = 8, .create = true };
	struct table_change one = { .key = &(uint64_t){ 1 }, .key_len = 8, .ttl = 100 };
	const struct table_change add = { .mode = WIRE_ADD, .value_len = 8 };
	const struct table_change append = { .mode = WIRE_APPEND, .value_len = 8 };
	const struct table_change replace = { .mode = WIRE_REPLACE, .value_len = 8 };
	const uint64_t hash = hash_of_number(1);
	struct store_thread *thread = &test_threads[0];

	(void)state;
	put(1, 100); /* new */
	assert_marked(1);
	put(1, 100); /* in place */
	assert_marked(1);
	put(1, 1000); /* elsewhere */
	assert_marked(1);
	assert_int_equal(change_put(1, &append, NULL), WIRE_OK);
	assert_marked(1);
	put(1, LARGE);
	assert_marked(1);
	assert_int_equal(change_put(1, &append, NULL), WIRE_OK);
	assert_marked(1);
	assert_int_equal(table_touch(thread, hash, &one), WIRE_OK);
	assert_marked(1);
	assert_int_equal(table_arith(thread, hash_of_number(2), &arith), WIRE_OK);
	assert_marked(2);
	assert_int_equal(table_delete(thread, hash, &one), WIRE_OK);
	assert_marked(1);

	/* What changes nothing. */
	assert_int_equal(table_delete(thread, hash, &one), WIRE_NOT_FOUND);
	assert_int_equal(table_touch(thread, hash, &one), WIRE_NOT_FOUND);
	assert_int_equal(change_put(2, &add, NULL), WIRE_EXISTS);
	assert_int_equal(change_put(1, &replace, NULL), WIRE_NOT_FOUND);
	table_access(thread, hash_of_number(2), 1);
	assert_int_equal(table_move_block(thread, hash_of_number(2), find(2)), WIRE_OK);
	assert_unmarked();

	/* Not of the parts that move; and nothing moves. */
	memset(moving.parts, 0, sizeof(moving.parts));
	put(1, 100);
	assert_unmarked();
	memcpy(moving.parts, all, sizeof(all));
	moving_end(&store.table);
	put(1, 100);
	assert_unmarked();
}

static void each_removal_marks(void **state)
{
	const struct table_change expires = { .value_len = 8, .ttl = 1 };
	struct store_thread *thread = &test_threads[0];
	struct table_change one = { .key = &(uint64_t){ 1 }, .key_len = 8 }, out;
	const struct item *item;

	(void)state;
	/* Evicted; the block's hash is a hint, of any key in the chain. */
	put(1, 100);
	assert_marked(1);
	item = find(1);
	assert_true(
		table_remove_block(thread, hash_of_number(1) ^ 1ull << 40, item, REMOVAL_EVICTED));
	assert_marked(1);

	/* Expired: found by a sweep, and by a DELETE. */
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(change_put(1, &expires, NULL), WIRE_OK);
		assert_marked(1);
		set_now(store.table.threads[0]->now_ns + 3 * SECOND_NS);
		if (i)
			assert_int_equal(table_delete(thread, hash_of_number(1), &one),
					 WIRE_NOT_FOUND);
		for (uint64_t number = 0; !i && number < index_buckets(&store.table); number++)
			table_sweep_bucket(thread, number, 0);
		assert_marked(1);
	}

	/* Flushed: found by the sweep, and by a change that fails. */
	assert_int_equal(change_put(1, &(struct table_change){ .value_len = 8 }, &out), WIRE_OK);
	assert_marked(1);
	atomic_store(&store.table.flushing, out.version >> THREAD_ID_BITS);
	assert_int_equal(table_touch(thread, hash_of_number(1), &one), WIRE_NOT_FOUND);
	assert_marked(1);
	atomic_store(&store.table.flushing, 0);
	assert_int_equal(change_put(1, &(struct table_change){ .value_len = 8 }, &out), WIRE_OK);
	assert_marked(1);
	for (uint64_t number = 0; number < index_buckets(&store.table); number++)
		table_sweep_bucket(thread, number, out.version);
	assert_marked(1);
	assert_null(find(1));
}

/* A key that is evicted since its chain can't get longer. */
static void victim_is_marked(void **state)
{
	uint64_t key = 0, keys[CHAIN_SLOTS_MAX + 1], from = 0;
	unsigned int n, gone = 0;

	(void)state;
	for (n = 0; n <= CHAIN_SLOTS_MAX; n++) {
		keys[n] = n ? test_store_collide(&store, keys[0], false, &from) : key;
		memset(moving.marks, 0, sizeof(moving.marks));
		put(keys[n], 8);
	}
	assert_int_equal(STAT(chain_evictions), 1);
	for (n = 0; n < CHAIN_SLOTS_MAX; n++)
		if (!find(keys[n])) {
			uint32_t segment = segment_of_number(keys[n]);

			assert_true(moving_take(&moving, &segment));
			assert_int_equal(segment, segment_of_number(keys[n]));
			gone++;
		}
	assert_int_equal(gone, 1);
	assert_marked(keys[CHAIN_SLOTS_MAX]);
}

static void taken_in_order(void **state)
{
	static const uint32_t segments[] = { 0, 1, 63, 64, 70000, KEY_SEGMENTS - 1 };
	uint32_t segment = 0;

	(void)state;
	for (unsigned int i = 0; i < 6; i++)
		moving_mark(&moving, hash_order(segment_begin(segments[i])));
	assert_int_equal(moving_marked(&moving), 6);
	for (unsigned int i = 0; i < 6; i++, segment++) {
		assert_true(moving_take(&moving, &segment));
		assert_int_equal(segment, segments[i]);
	}
	assert_int_equal(segment, KEY_SEGMENTS);
	assert_false(moving_take(&moving, &segment));
	segment = 65;
	moving_mark(&moving, hash_order(segment_begin(64)));
	assert_false(moving_take(&moving, &segment));
}

/* Scans a segment by the reader. Returns how many keys it has; all are of the segment. */
static unsigned int segment_scan(uint32_t segment)
{
	struct scan scan = {
		.buffer = buffer,
		.size = 200, /* a few entries */
		.cursor = segment_begin(segment),
		.end = segment_end(segment),
		.until_ns = UINT64_MAX,
	};
	unsigned int count = 0;
	struct scan_entry entry;

	do {
		assert_int_equal(table_scan(&reader, &scan), WIRE_OK);
		for (size_t at = 0; at < scan.used; count++) {
			assert_null(wire_entry_parse(&entry, buffer, scan.used, &at));
			assert_int_equal(segment_of(hash_of(entry.key, entry.key_len)), segment);
		}
	} while (scan.cursor);
	return count;
}

/* All segments that have keys: what is scanned, in sum, is each key once. */
static void assert_segments(void)
{
	unsigned int count = 0, marked = moving_marked(&moving);
	uint32_t segment = 0;

	assert_in_range(marked, KEYS - KEYS / 100, KEYS);
	while (moving_take(&moving, &segment))
		count += segment_scan(segment);
	assert_int_equal(count, KEYS);
}

static void segments_are_scanned(void **state)
{
	(void)state;
	for (uint64_t key = 0; key < KEYS; key++)
		put(key, 8);
	assert_segments();
	assert_int_equal(segment_scan(KEY_SEGMENTS - 1), 0);
}

/* The last range of the table is a bucket's, which has many segments. */
static void clears_its_segment_only(void **state)
{
	uint64_t parts[KEY_PARTS_WORDS] = { 0 };
	const uint64_t hash = hash_of_number(7);
	const uint32_t part = (uint32_t)(hash >> KEY_PART_SHIFT) & (KEY_PARTS - 1);
	unsigned int there = 0;

	(void)state;
	for (uint64_t key = 0; key < KEYS; key++)
		put(key, 8);
	moving_clear(&test_threads[1], segment_of(hash), parts);
	assert_non_null(find(7));
	parts[part / 64] = 1ull << part % 64;
	moving_clear(&test_threads[1], segment_of(hash) ^ 1, parts);
	assert_non_null(find(7));
	moving_clear(&test_threads[1], segment_of(hash), parts);
	assert_null(find(7));
	assert_int_equal(STAT(dropped), 1);
	moving_clear(&test_threads[1], segment_of_number(8), all);
	for (uint64_t key = 0; key < KEYS; key++) {
		const uint32_t segment = segment_of_number(key);

		assert_true(!find(key) == (key == 7 || segment == segment_of_number(8)));
		there += find(key) != NULL;
	}
	assert_int_equal(STAT(dropped), KEYS - there);
	for (uint32_t segment = 0; segment < KEY_SEGMENTS; segment += KEY_SEGMENTS / 64)
		moving_clear(&test_threads[1], segment, all);
	moving_clear(&test_threads[1], KEY_SEGMENTS - 1, all);
}

#ifndef __SANITIZE_THREAD__
static void segments_of_several_buckets(void **state)
{
	(void)state;
	for (uint64_t key = 0; key < KEYS; key++)
		put(key, 8);
	assert_segments();
	for (uint64_t key = 0; key < KEYS; key++)
		moving_clear(&test_threads[1], segment_of_number(key), all);
	assert_int_equal(store_items(&store), 0);
}
#endif

static _Atomic bool ended;

static void *grow(void *arg)
{
	(void)arg;
	rcu_register_thread();
	for (uint64_t key = KEYS; key < 20 * KEYS; key++) {
		put(key, 8);
		rcu_quiescent_state();
	}
	rcu_unregister_thread();
	atomic_store(&ended, true);
	return NULL;
}

/* While buckets are split. */
static void clears_while_it_grows(void **state)
{
	uint64_t key = 0;
	pthread_t thread;

	(void)state;
	rcu_register_thread();
	for (key = 0; key < KEYS; key++)
		put(key, 8);
	atomic_store(&ended, false);
	assert_int_equal(pthread_create(&thread, NULL, grow, NULL), 0);
	for (key = 0; key < KEYS; key++) {
		moving_clear(&test_threads[1], segment_of_number(key), all);
		rcu_quiescent_state();
	}
	rcu_thread_offline();
	pthread_join(thread, NULL);
	rcu_thread_online();
	for (key = 0; key < KEYS; key++)
		assert_null(find(key));
	assert_true(STAT(dropped) >= KEYS && STAT(splits) > 1000);
	rcu_unregister_thread();
}

/* PUTs a copy of @version, and checks what the item has. */
static void copy(uint64_t key, uint64_t version, uint32_t len, bool reserve)
{
	struct table_change change = {
		.key = &key,
		.key_len = sizeof(key),
		.mode = WIRE_COPY,
		.value = value,
		.value_len = len,
		.flags = len ^ 0xf1a95,
		.ttl = 30,
		.version = version,
	};
	struct store_thread *thread = &test_threads[0];
	struct item *item = reserve ? table_reserve(thread, &change) : NULL;
	const struct item *stored;

	if (item)
		memcpy(table_reserved_value(item), value, len);
	assert_int_equal(item ? table_commit(thread, hash_of_number(key), item, &change) :
				table_put(thread, hash_of_number(key), &change),
			 WIRE_OK);
	assert_int_equal(change.version, version);
	stored = find(key);
	assert_int_equal(stored->version, version);
	assert_int_equal(item_value_len(stored), len);
	assert_int_equal(item_flags(stored), len ^ 0xf1a95);
	assert_int_equal(stored->expires, ENGINE_NOW_NS / SECOND_NS + 31);
	assert_memory_equal(item_value(stored), value, len);
	assert_int_equal(segment_scan(segment_of_number(key)), 1);
}

static void copies_keep_all(void **state)
{
	const uint64_t low = (test_threads[0].clock - (1u << 20)) << THREAD_ID_BITS | 5;
	const uint64_t high = (test_threads[0].clock + (1u << 30)) << THREAD_ID_BITS | 250;
	struct table_change change = { .mode = WIRE_COPY, .value_len = 9, .version = high - 1 };

	(void)state;
	for (uint32_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)(i * 7 >> 2);
	copy(1, low, 100, false);
	copy(1, low + 1, 100, false);  /* in place */
	copy(1, low + 1, 100, false);  /* one version again */
	copy(1, low + 2, 1000, false); /* elsewhere */
	copy(1, low + 3, LARGE, true);
	copy(1, low + 4, LARGE, true);
	assert_true(STAT(replaces_in_place) == 2);
	/* No new version was made, and new ones are above all that were. */
	put(1, 10);
	assert_true(find(1)->version > low + 4 && find(1)->version < high);
	copy(1, high, 20, true);
	assert_int_equal(change_put(1, &change, &change), WIRE_EXISTS);
	assert_true(change.existing == high && find(1)->version == high);
	put(2, 10);
	assert_true(find(2)->version >> THREAD_ID_BITS == (high >> THREAD_ID_BITS) + 1);
}

/* An item that has expired has its version, too. */
static void expired_item_is_newer(void **state)
{
	const struct table_change expires = { .value_len = 8, .ttl = 1 };
	struct table_change change;

	(void)state;
	assert_int_equal(change_put(1, &expires, &change), WIRE_OK);
	set_now(ENGINE_NOW_NS + 5 * SECOND_NS);
	change = (struct table_change){ .mode = WIRE_COPY, .version = change.version - 1 };
	assert_int_equal(change_put(1, &change, NULL), WIRE_EXISTS);
	change.version++;
	assert_int_equal(change_put(1, &change, NULL), WIRE_OK);
}

static void versions_are_raised(void **state)
{
	const uint64_t counter = test_threads[0].clock + (1u << 30);

	(void)state;
	table_raise_versions(&store.table, counter);
	table_raise_versions(&store.table, counter - 5);
	assert_int_equal(table_clock_max(&store.table), counter);
	put(1, 8);
	assert_int_equal(find(1)->version >> THREAD_ID_BITS, counter + 1);
}

/* The use of a key's item as a scan for copies tells it. */
static uint32_t use_of(uint64_t key)
{
	struct scan scan = {
		.buffer = buffer,
		.size = sizeof(buffer),
		.copies = true,
		.prefix = (const uint8_t *)&key,
		.prefix_len = sizeof(key),
		.until_ns = UINT64_MAX,
	};
	struct wire_entry entry;
	const uint8_t *found;
	uint32_t at = 0;

	assert_int_equal(table_scan(&reader, &scan), WIRE_OK);
	assert_int_equal(scan.entries, 1);
	found = scan_copy_next(&scan, &at, &entry);
	assert_memory_equal(found, &key, sizeof(key));
	assert_null(scan_copy_next(&scan, &at, &entry));
	return wire_use_pack((enum wire_use)entry.use, entry.uses, entry.age);
}

static void copy_use(uint64_t key, uint32_t len, uint32_t use)
{
	const struct table_change change = {
		.mode = WIRE_COPY, .version = key + 1, .value_len = len, .use = use
	};

	if (find(key))
		assert_int_equal(test_store_delete(&store, &key, sizeof(key)), WIRE_OK);
	assert_int_equal(change_put(key, &change, NULL), WIRE_OK);
	assert_false(change.pins_full);
}

static void copies_keep_their_use(void **state)
{
	const struct table_change low = { .wish.low = true }, pin = { .wish.pin = 20 },
				  low_pin = { .wish = { .pin = 40, .low = true } };
	const uint64_t unit = test_threads[0].now_ns / PIN_UNIT_NS;
	uint16_t access[5];
	struct pins_stats pins;

	(void)state;
	atomic_store(&store.table.tick, 100000);
	put(0, 100);
	put(1, 100);
	for (unsigned int i = 0; i < 10; i++)
		table_access(&test_threads[0], hash_of_number(1), 9);
	assert_int_equal(change_put(2, &low, NULL), WIRE_OK);
	/* A counter has fallen by now for clients; a copy's falls as the original would have. */
	atomic_store(&store.table.tick, 100000 + ACCESS_TICKS);
	assert_int_equal(change_put(3, &pin, NULL), WIRE_OK);
	assert_int_equal(change_put(4, &low_pin, NULL), WIRE_OK);
	for (uint64_t key = 0; key < 5; key++) {
		access[key] = item_access_load(find(key));
		copy_use(key, 100, use_of(key));
	}
	for (unsigned int key = 0; key < 3; key++)
		assert_int_equal(item_access_load(find(key)), access[key]);
	assert_true(access[1] >> ACCESS_USES_SHIFT > 3);
	/* The time left is rounded up, and so is its end, here and there. */
	assert_int_equal(access[3], access_pin_make(unit + 11, false));
	assert_int_equal(item_access_load(find(3)), access_pin_make(unit + 12, false));
	assert_int_equal(item_access_load(find(4)), access_pin_make(unit + 22, true));
	assert_int_equal(atomic_load(&store.table.tick), 100000 + ACCESS_TICKS);
	pins_stats(store.pins, &pins);
	assert_int_equal(pins.items, 2);

	/* No longer than may be here; and not at all if it does not fit. */
	copy_use(3, 100, wire_use_pack(WIRE_USE_PINNED, 0, 1000));
	assert_int_equal(item_access_load(find(3)),
			 access_pin_make(pin_until(test_threads[0].now_ns, PIN_TIME_MAX_S), false));
	copy_use(3, LARGE, wire_use_pack(WIRE_USE_PINNED, 1, 10));
	assert_int_equal(item_access_load(find(3)),
			 ACCESS_LOW | ((100000 + ACCESS_TICKS) & ACCESS_TIME_LOW));
	copy_use(3, 100, 0);
	assert_int_equal(STAT(pins_refused), 0);
	/* Any number that a server sends is taken. */
	for (uint32_t use = 0; use < 4; use++)
		copy_use(3, 100, wire_use_pack(use, WIRE_USES_MAX, WIRE_AGE_MAX));
	copy_use(3, 100, wire_use_pack(WIRE_USE_PINNED, 0, 0));
}

/* Without eviction there is no use to tell, and none is kept. */
static void copies_without_eviction(void **state)
{
	(void)state;
	put(1, 100);
	assert_int_equal(use_of(1), 0);
	copy_use(1, 100, wire_use_pack(WIRE_USE_PINNED, 1, 10));
	assert_int_equal(item_access_load(find(1)), access_time_initial(&test_threads[0]));
}

/* Copying adds nothing to the clock of access times. */
static void copies_age_nothing(void **state)
{
	(void)state;
	put(1, 100);
	for (uint64_t key = 100; key < 140; key++)
		copy_use(key, LARGE, wire_use_pack(WIRE_USE_NORMAL, 1, 5));
	assert_int_equal(atomic_load(&store.table.tick), 0);
}

static void wait_until(struct maintenance *maintenance, uint64_t ticket)
{
	rcu_thread_offline();
	while (!maintenance_flushed(maintenance, ticket))
		sched_yield();
	rcu_thread_online();
}

/* A flush that has ended has no say in copies of older versions, nor lowers the floor. */
static void copies_after_a_flush(void **state)
{
	const uint64_t old = (test_threads[0].clock + 5) << THREAD_ID_BITS;
	const uint64_t raised = test_threads[0].clock + (1u << 30);
	const struct table_change append = { .mode = WIRE_APPEND, .value_len = 8 };
	static struct maintenance maintenance; /* the table keeps its thread */

	(void)state;
	rcu_register_thread();
	assert_int_equal(maintenance_init(&maintenance, &store.table, TEST_THREADS_MAX, 1, NULL),
			 0);
	assert_int_equal(maintenance_start(&maintenance), 0);
	put(1, 8);
	table_raise_versions(&store.table, raised);
	wait_until(&maintenance, maintenance_flush(&maintenance, test_threads[0].now_ns, 0, "x"));
	assert_null(find(1));
	assert_true(atomic_load(&store.table.version_floor) > raised);
	copy(1, old, 100, false);
	assert_int_equal(change_put(1, &append, NULL), WIRE_OK);
	assert_int_equal(item_value_len(find(1)), 108);
	assert_int_equal(STAT(flushed), 1);
	/* The next one removes it. */
	wait_until(&maintenance, maintenance_flush(&maintenance, test_threads[0].now_ns, 0, "x"));
	assert_null(find(1));
	rcu_thread_offline();
	maintenance_stop(&maintenance);
	rcu_thread_online();
	rcu_unregister_thread();
	assert_store(NULL);
	maintenance_release(&maintenance);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_change_marks, setup, teardown),
		cmocka_unit_test_setup_teardown(each_removal_marks, setup, teardown),
		cmocka_unit_test_setup_teardown(victim_is_marked, setup_evicting, teardown),
		cmocka_unit_test_setup_teardown(taken_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(segments_are_scanned, setup, teardown),
		cmocka_unit_test_setup_teardown(segments_are_scanned, setup_growing, teardown),
		cmocka_unit_test_setup_teardown(clears_its_segment_only, setup, teardown),
		cmocka_unit_test_setup_teardown(clears_its_segment_only, setup_growing, teardown),
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test_setup_teardown(segments_of_several_buckets, setup_wide, teardown),
#endif
		cmocka_unit_test_setup_teardown(clears_while_it_grows, setup_growing, teardown),
		cmocka_unit_test_setup_teardown(copies_keep_all, setup, teardown),
		cmocka_unit_test_setup_teardown(expired_item_is_newer, setup, teardown),
		cmocka_unit_test_setup_teardown(versions_are_raised, setup, teardown),
		cmocka_unit_test_setup_teardown(copies_keep_their_use, setup_evicting, teardown),
		cmocka_unit_test_setup_teardown(copies_without_eviction, setup, teardown),
		cmocka_unit_test_setup_teardown(copies_age_nothing, setup_evicting, teardown),
		cmocka_unit_test_setup_teardown(copies_after_a_flush, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
