/* SPDX-License-Identifier: MIT */
/*
 * Tests of scans: every key that is there all the time is returned once, in the order of the
 * cursors, whatever the buffer's size, and whatever is added, removed and split between two
 * batches.
 */
#include "tests/support/store_test.h"

#define REGION_BYTES (16u << 20)
#define KEYS_MAX 20000
#define FILL 65
#define BUFFER_MAX (64u << 10)

static uint8_t buffer[BUFFER_MAX + 16], value[100000];
static uint8_t times[KEYS_MAX]; /* each key was returned */
static uint64_t last_order;
static bool any_order;

static int create(uint32_t level, uint32_t fill)
{
	const struct store_options options = { .fill = fill };

	test_store_create_with(&store, REGION_BYTES, level, 1, &options);
	set_now(ENGINE_NOW_NS);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return create(4, STORE_NO_GROWTH);
}

static int setup_growing(void **state)
{
	(void)state;
	return create(0, FILL);
}

static int setup_wide(void **state)
{
	(void)state;
	return create(12, STORE_NO_GROWTH);
}

static int setup_evicting(void **state)
{
	const struct store_options options = { .fill = STORE_NO_GROWTH,
					       .eviction = EVICTION_OBJECT_HITS,
					       .pin_share = 10,
					       .pin_time_max = 60 };

	(void)state;
	test_store_create_with(&store, REGION_BYTES, 4, 1, &options);
	set_now(ENGINE_NOW_NS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_store(NULL);
	test_store_destroy(&store);
	return 0;
}

static uint32_t len_of(uint64_t key)
{
	return (uint32_t)(key * 7 % 90);
}

static void put(uint64_t key)
{
	value_make(value, len_of(key), key, 0);
	assert_int_equal(test_store_put(&store, &key, 8, value, len_of(key), NULL), WIRE_OK);
}

static void delete (uint64_t key)
{
	assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
}

static uint64_t bits_reversed(uint64_t x)
{
	uint64_t y = 0;

	for (unsigned int i = 0; i < 64; i++)
		y |= (x >> i & 1) << (63 - i);
	return y;
}

static void scan_init(struct scan *scan, uint32_t size, bool values)
{
	*scan = (struct scan){
		.buffer = buffer, .size = size, .values = values, .until_ns = UINT64_MAX
	};
	memset(times, 0, sizeof(times));
	any_order = false;
}

static void entry_met(const struct scan *scan, const struct scan_entry *entry)
{
	uint64_t order = bits_reversed(hash_of(entry->key, entry->key_len)), key;

	assert_true(!any_order || order > last_order);
	any_order = true;
	last_order = order;
	if (entry->key_len != 8)
		return;
	memcpy(&key, entry->key, 8);
	assert_true(key < KEYS_MAX);
	assert_int_equal(times[key]++, 0);
	assert_int_equal(entry->value_len, len_of(key));
	assert_int_equal(entry->item_flags, len_of(key) ^ 0xf1a95);
	assert_true(entry->version > 0);
	value_make(value, len_of(key), key, 0);
	if (scan->values && len_of(key))
		assert_memory_equal(entry->value, value, len_of(key));
	if (!scan->values && len_of(key))
		assert_null(entry->value);
}

/* Checks one batch. Returns whether there is more. */
static bool batch(struct scan *scan)
{
	uint64_t cursor = scan->cursor;
	struct scan_entry entry;
	uint32_t entries = 0;
	size_t at = 0;

	memset(buffer, 0xee, sizeof(buffer));
	assert_int_equal(table_scan(&test_threads[0], scan), WIRE_OK);
	assert_true(scan->used <= scan->size);
	assert_true(!scan->keys_max || scan->entries <= scan->keys_max);
	assert_int_equal(buffer[scan->size], 0xee);
	for (; at < scan->used; entries++) {
		const char *error = wire_entry_parse(&entry, buffer, scan->used, &at);

		if (error)
			fail_msg("%s", error);
		entry_met(scan, &entry);
	}
	assert_int_equal(entries, scan->entries);
	/* The cursor advances, past all keys that were returned. */
	assert_true(!scan->cursor || scan->cursor > cursor);
	assert_true(!scan->cursor || !any_order || scan->cursor > last_order);
	return scan->cursor;
}

static unsigned int scan_whole(struct scan *scan)
{
	unsigned int batches = 1;

	while (batch(scan))
		batches++;
	return batches;
}

static void assert_met(uint64_t from, uint64_t to, unsigned int n)
{
	for (uint64_t key = from; key < to; key++)
		assert_int_equal(times[key], n);
}

static void nothing_to_scan(void **state)
{
	struct scan scan;

	(void)state;
	scan_init(&scan, 1000, true);
	assert_int_equal(scan_whole(&scan), 1);
	assert_false(any_order);
}

/* Bounded, also if no key is found. */
static void many_empty_buckets(void **state)
{
	struct scan scan;

	(void)state;
	scan_init(&scan, 1000, true);
	assert_int_equal(scan_whole(&scan), 4096 / SCAN_BUCKETS_MAX);
	put(77);
	scan_init(&scan, 1000, true);
	assert_int_equal(scan_whole(&scan), 4096 / SCAN_BUCKETS_MAX);
	assert_int_equal(times[77], 1);
}

/* When the time is up, a call still gets on, by one bucket. */
static void time_is_up(void **state)
{
	const uint64_t key = 77;
	struct bucket *home;
	struct scan scan;
	uint64_t at;

	(void)state;
	put(key);
	scan_init(&scan, 1000, true);
	scan.until_ns = 0;
	assert_int_equal(scan_whole(&scan), 4096);
	assert_int_equal(times[key], 1);
	/* One that finds its first chain being changed has nothing to return. */
	home = test_store_home(&store, &key, sizeof(key));
	chain_move_begin(home);
	scan_init(&scan, 1000, true);
	scan.until_ns = 0;
	scan.cursor = at = bits_reversed(hash_of(&key, sizeof(key)));
	assert_int_equal(table_scan(&test_threads[0], &scan), WIRE_BUSY);
	assert_int_equal(scan.cursor, at);
	chain_move_end(home);
	do_chain_seal(&store.table, home, home);
	assert_true(batch(&scan));
}

static void every_size_of_buffer(void **state)
{
	uint32_t size;
	struct scan scan;

	(void)state;
	for (uint64_t key = 0; key < 1000; key++)
		put(key);
	for (size = 32 + 8 + 90; size <= BUFFER_MAX; size += 1 + size / 5) {
		scan_init(&scan, size, true);
		scan_whole(&scan);
		assert_met(0, 1000, 1);
		scan_init(&scan, size, false);
		scan_whole(&scan);
		assert_met(0, 1000, 1);
	}
	assert_int_equal(times[1000], 0);
}

static void at_most_so_many(void **state)
{
	struct scan scan;

	(void)state;
	for (uint64_t key = 0; key < 500; key++)
		put(key);
	for (uint32_t most = 1; most < 600; most += 1 + most / 3) {
		scan_init(&scan, BUFFER_MAX, true);
		scan.keys_max = most;
		/* The batch with the last key may be followed by an empty one. */
		assert_in_range(scan_whole(&scan), (500 + most - 1) / most, 500 / most + 1);
		assert_met(0, 500, 1);
	}
}

/*
 * A value that fits no buffer is left out; one that fits an empty buffer only waits for the next
 * batch.
 */
static void long_values(void **state)
{
	/* The last one's low 16 bits would fit. */
	static const uint32_t lens[] = { 10, 500, 959, 960, 961, 2000, 100000, 65546 };
	uint8_t seen[8] = { 0 };
	struct scan_entry entry;
	struct scan scan;
	size_t at;

	(void)state;
	for (uint8_t i = 0; i < 8; i++)
		assert_int_equal(test_store_put(&store, &i, 1, value, lens[i], NULL), WIRE_OK);
	scan_init(&scan, 32 + 1 + 960, true);
	do {
		assert_int_equal(table_scan(&test_threads[0], &scan), WIRE_OK);
		for (at = 0; at < scan.used;) {
			assert_null(wire_entry_parse(&entry, buffer, scan.used, &at));
			seen[*entry.key]++;
			assert_int_equal(entry.value_len, lens[*entry.key]);
			assert_int_equal(entry.value != NULL, lens[*entry.key] <= 960);
		}
	} while (scan.cursor);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(seen[i], 1);
}

static void prefixes(void **state)
{
	static const char *const keys[] = { "a", "ab", "abc", "abd", "b", "ba", "abcdefghi" };
	static const struct {
		const char *prefix;
		unsigned int count;
	} cases[] = { { "", 7 },     { "a", 5 }, { "ab", 4 }, { "abc", 2 },
		      { "abcd", 1 }, { "b", 2 }, { "c", 0 },  { "abcdefghijkl", 0 } };
	struct scan_entry entry;
	struct scan scan;
	unsigned int i, n;
	size_t at;

	(void)state;
	for (i = 0; i < 7; i++)
		assert_int_equal(test_store_put(&store, keys[i], (uint32_t)strlen(keys[i]), value,
						20, NULL),
				 WIRE_OK);
	for (i = 0; i < 8; i++) {
		n = 0;
		scan_init(&scan, 70, true);
		scan.prefix = (const uint8_t *)cases[i].prefix;
		scan.prefix_len = (uint32_t)strlen(cases[i].prefix);
		do {
			assert_int_equal(table_scan(&test_threads[0], &scan), WIRE_OK);
			for (at = 0; at < scan.used; n++) {
				assert_null(wire_entry_parse(&entry, buffer, scan.used, &at));
				assert_memory_equal(entry.key, scan.prefix, scan.prefix_len);
			}
		} while (scan.cursor);
		assert_int_equal(n, cases[i].count);
	}
}

/* What follows a key in memory, its value, is no part of it. */
static void prefix_longer_than_the_key(void **state)
{
	struct scan scan;

	(void)state;
	assert_int_equal(test_store_put(&store, "ab", 2, "cd", 2, NULL), WIRE_OK);
	scan_init(&scan, 1000, true);
	scan.prefix = (const uint8_t *)"abc";
	scan.prefix_len = 3;
	assert_int_equal(table_scan(&test_threads[0], &scan), WIRE_OK);
	assert_int_equal(scan.entries, 0);
	assert_int_equal(scan.cursor, 0);
}

/* An expired key is left out, and the scan goes on after it; others say when they will. */
static void expiring_keys(void **state)
{
	const uint64_t keys = 200;
	unsigned int n = 0;
	struct scan_entry entry;
	struct scan scan;
	size_t at;

	(void)state;
	for (uint64_t key = 0; key < keys; key++) {
		struct table_change change = {
			.key = &key, .key_len = 8, .mode = WIRE_SET, .ttl = key % 2 ? 10 : 1000
		};

		assert_int_equal(table_put(&test_threads[0], hash_of(&key, 8), &change), WIRE_OK);
	}
	set_now(ENGINE_NOW_NS + 100 * SECOND_NS);
	scan_init(&scan, BUFFER_MAX, true);
	assert_int_equal(table_scan(&test_threads[0], &scan), WIRE_OK);
	assert_int_equal(scan.cursor, 0);
	for (at = 0; at < scan.used; n++) {
		assert_null(wire_entry_parse(&entry, buffer, scan.used, &at));
		assert_int_equal(*(const uint8_t *)entry.key % 2, 0);
		assert_int_equal(entry.expires, expires_after(ENGINE_NOW_NS, 1000));
	}
	assert_int_equal(n, keys / 2);
}

/*
 * The index grows from one bucket to hundreds during the scan: between two batches many keys are
 * added and others removed; those below STAY stay.
 */
#define STAY 600

static struct scan_entry use_of(const char *key)
{
	struct scan_entry entry;
	struct scan scan;
	size_t at = 0;

	scan_init(&scan, BUFFER_MAX, false);
	scan.prefix = (const uint8_t *)key;
	scan.prefix_len = (uint32_t)strlen(key);
	scan.uses = true;
	assert_int_equal(table_scan(&test_threads[0], &scan), WIRE_OK);
	assert_int_equal(scan.entries, 1);
	assert_null(wire_entry_parse(&entry, buffer, scan.used, &at));
	return entry;
}

static void assert_use(const char *key, enum wire_use use, uint32_t uses, uint32_t age)
{
	struct scan_entry entry = use_of(key);

	if (entry.use != use || entry.uses != uses || entry.age != age)
		fail_msg("%s: use %d, %u times, age %u", key, entry.use, entry.uses, entry.age);
}

/* The time stands still. */
static void put_wishing(const char *key, const struct access_wish *wish)
{
	uint32_t tick = atomic_load(&store.table.tick);
	struct table_change change = {
		.key = key,
		.key_len = (uint32_t)strlen(key),
		.wish = *wish,
		.value = "v",
		.value_len = 1,
	};

	assert_int_equal(attempt_put(&test_threads[0], hash_of(key, change.key_len), &change),
			 WIRE_OK);
	atomic_store(&store.table.tick, tick);
}

/* What eviction goes by; and to be scanned is no use. */
static void uses(void **state)
{
	struct table *table = &store.table;
	struct scan scan;

	(void)state;
	table->eviction = EVICTION_OBJECT_HITS;
	put_wishing("used", &(struct access_wish){ 0 });
	put_wishing("low", &(struct access_wish){ .low = true });
	put_wishing("pinned", &(struct access_wish){ .pin = 60 });
	assert_use("used", WIRE_USE_NORMAL, 0, 0);
	assert_use("low", WIRE_USE_LOW, 0, 0);
	assert_use("pinned", WIRE_USE_PINNED, 0, 0);
	atomic_fetch_add(&table->tick, 300);
	for (unsigned int i = 0; i < 3; i++)
		assert_use("used", WIRE_USE_NORMAL, 0, 300);
	assert_use("low", WIRE_USE_LOW, 0, 300);
	table_access(&test_threads[0], hash_of("used", 4), 1);
	assert_use("used", WIRE_USE_NORMAL, 1, 0);
	table_access(&test_threads[0], hash_of("low", 3), 1);
	assert_use("low", WIRE_USE_LOW, 0, 300);
	/* A pin that is over counts as the use that it was. */
	set_now(ENGINE_NOW_NS + 120 * 1000000000ull);
	assert_use("pinned", WIRE_USE_NORMAL, 0, 0);
	set_now(ENGINE_NOW_NS);
	/* A client that does not ask is not told. */
	scan_init(&scan, BUFFER_MAX, false);
	assert_int_equal(table_scan(&test_threads[0], &scan), WIRE_OK);
	assert_int_equal(((struct wire_entry *)buffer)->use, WIRE_USE_NONE);
	assert_int_equal(((struct wire_entry *)buffer)->uses, 0);
	assert_int_equal(((struct wire_entry *)buffer)->age, 0);
}

static void growth_between_batches(uint32_t size, unsigned int add)
{
	uint64_t key, added = STAY, gone = STAY;
	struct scan scan;

	for (key = 0; key < STAY; key++)
		put(key);
	scan_init(&scan, size, true);
	while (batch(&scan)) {
		for (unsigned int i = 0; i < add && added < KEYS_MAX; i++)
			put(added++);
		for (; gone + 300 < added; gone += 2)
			delete (gone);
	}
	assert_met(0, STAY, 1);
}

static void growing_meanwhile(void **state)
{
	static const unsigned int adds[] = { 1, 10, 100, 1000 };
	static const uint32_t sizes[] = { 150, 1000, 20000 };

	(void)state;
	for (unsigned int i = 0; i < 12; i++) {
		create(0, FILL);
		growth_between_batches(sizes[i % 3], adds[i / 3]);
		teardown(NULL);
	}
}

/* A scan that began when there was one bucket is continued from any of its cursors. */
static void old_cursors(void **state)
{
	uint64_t cursors[200], key;
	unsigned int n = 0, i;
	struct scan scan;

	(void)state;
	for (key = 0; key < 150; key++)
		put(key);
	scan_init(&scan, 150, true);
	cursors[n++] = 0;
	while (batch(&scan)) {
		assert_true(n < 200);
		cursors[n++] = scan.cursor;
	}
	for (; key < 5000; key++)
		put(key);
	for (i = 0; i < n; i++) {
		scan_init(&scan, 5000, false);
		scan.cursor = cursors[i];
		scan_whole(&scan);
		for (key = 0; key < 5000; key++)
			assert_int_equal(times[key], bits_reversed(hash_of(&key, 8)) >= cursors[i]);
	}
	/* A client may send any cursor. */
	scan_init(&scan, 5000, false);
	scan.cursor = UINT64_MAX;
	assert_false(batch(&scan));
}

/* Long chains are split and shortened while a scan is in the middle of them. */
static void chains_change_meanwhile(void **state)
{
	uint64_t key, round = 0;
	struct scan scan;

	(void)state;
	for (key = 0; key < 400; key++)
		put(key);
	scan_init(&scan, 150, true);
	while (batch(&scan)) {
		for (key = 100; key < 400; key++)
			delete (key);
		for (key = 100; key < 400; key++)
			put(100 + (key * 37 + round) % 300);
		round++;
	}
	assert_true(round > 50);
	assert_met(0, 100, 1);
	for (key = 100; key < 400; key++)
		assert_true(times[key] <= 1);
}

/* A key that does not even fit an empty buffer does not keep the scan from ending. */
static void long_key_in_a_small_buffer(void **state)
{
	static const uint8_t key[KEY_MAX];
	struct scan scan;
	unsigned int i;

	(void)state;
	for (i = 0; i < 100; i++)
		put(i);
	assert_int_equal(test_store_put(&store, key, KEY_MAX, value, 10, NULL), WIRE_OK);
	scan_init(&scan, WIRE_RESPONSE_MIN - sizeof(struct wire_response), true);
	for (i = 0; i < 200; i++)
		if (table_scan(&test_threads[0], &scan) || !scan.cursor)
			break;
	assert_true(i < 200);
}

#define CASE(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(nothing_to_scan, setup),
		CASE(many_empty_buckets, setup_wide),
		CASE(time_is_up, setup_wide),
		CASE(every_size_of_buffer, setup),
		CASE(at_most_so_many, setup),
		CASE(long_values, setup),
		CASE(prefixes, setup),
		CASE(prefix_longer_than_the_key, setup),
		CASE(expiring_keys, setup),
		CASE(uses, setup_evicting),
		cmocka_unit_test(growing_meanwhile),
		CASE(old_cursors, setup_growing),
		CASE(chains_change_meanwhile, setup),
		CASE(long_key_in_a_small_buffer, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
