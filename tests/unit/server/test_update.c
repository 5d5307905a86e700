/* SPDX-License-Identifier: MIT */
/*
 * Tests of updates: every way to change a key, on a key that is live, absent or expired; in place
 * and elsewhere; within limits and beyond. After each the whole store is checked.
 */
#include "tests/support/store_test.h"

#define REGION_BYTES (8u << 20)
#define VALUE_BYTES (192u << 10)

static uint8_t value[VALUE_BYTES], found[VALUE_BYTES + 1];

/* The state of a key before it is changed. */
enum before { LIVE, ABSENT, EXPIRED };

#define OLD_TTL 10
#define OLD_FLAGS 77
#define NEW_FLAGS 88

static int setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)random_next();
	test_store_create(&store, REGION_BYTES, 6, 2);
	set_now(ENGINE_NOW_NS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_store_destroy(&store);
	return 0;
}

static struct table_change change_of(enum wire_put mode, const void *v, uint32_t len)
{
	return (struct table_change){
		.key = "key",
		.key_len = 3,
		.mode = mode,
		.value = v,
		.value_len = len,
		.flags = NEW_FLAGS,
	};
}

static enum wire_status put(struct table_change *change)
{
	return table_put(&test_threads[0], hash_of("key", 3), change);
}

/* As put(), but the value arrives later. */
static enum wire_status put_late(struct table_change *change)
{
	const void *v = change->value;
	struct item *item;

	change->value = NULL;
	item = table_reserve(&test_threads[0], change);
	assert_non_null(item);
	memcpy(table_reserved_value(item), v, change->value_len);
	return table_commit(&test_threads[0], hash_of("key", 3), item, change);
}

/* Brings the key into that state. Returns the version of its value; 0: it has none. */
static uint64_t make(enum before before, const void *v, uint32_t len)
{
	struct table_change change = change_of(WIRE_SET, v, len);
	const struct table_change key = { .key = "key", .key_len = 3 };

	set_now(ENGINE_NOW_NS);
	table_delete(&test_threads[0], hash_of("key", 3), &key);
	if (before == ABSENT)
		return 0;
	change.flags = OLD_FLAGS;
	change.ttl = OLD_TTL;
	assert_int_equal(put(&change), WIRE_OK);
	assert_int_equal(change.expires, ENGINE_NOW_NS / SECOND_NS + 1 + OLD_TTL);
	if (before == EXPIRED)
		set_now(change.expires * SECOND_NS);
	return change.version;
}

static void assert_missing(void)
{
	struct store_value out;

	assert_int_equal(test_store_get(&store, "key", 3, found, sizeof(found), &out),
			 WIRE_NOT_FOUND);
}

static void assert_value(const void *v, uint32_t len, uint32_t flags, uint32_t expires)
{
	struct store_value out;

	assert_int_equal(test_store_get(&store, "key", 3, found, sizeof(found), &out), WIRE_OK);
	assert_int_equal(out.value_len, len);
	assert_memory_equal(found, v, len);
	assert_int_equal(out.flags, flags);
	assert_int_equal(out.expires, expires);
}

#define OLD_EXPIRES ((uint32_t)(ENGINE_NOW_NS / SECOND_NS + 1 + OLD_TTL))

/* What readers must see after a change that failed. */
static void assert_unchanged(enum before before, const void *v, uint32_t len)
{
	if (before == LIVE)
		assert_value(v, len, OLD_FLAGS, OLD_EXPIRES);
	else
		assert_missing();
	assert_store(NULL);
}

/*
 * Sizes for which the new value goes to the old one's place or elsewhere, smaller, larger, or in
 * limbo.
 */
static const struct {
	uint32_t old_len, new_len;
} sizes[] = {
	{ 100, 100 },  { 100, 99 },	 { 100, 1000 },	   { 1000, 100 },
	{ 0, 0 },      { 0, 5000 },	 { 5000, 0 },	   { 100, 100000 },
	{ 40000, 50 }, { 40000, 40000 }, { 50000, 40000 }, { 32733, 32732 },
};

#define SIZES (sizeof(sizes) / sizeof(*sizes))

static enum wire_status (*const ways[])(struct table_change *) = { put, put_late };

/* A PUT in a mode, on a key in a state, with all sizes; its status must be @expected. */
static void try_put(enum wire_put mode, enum before before, enum wire_status expected)
{
	for (unsigned int way = 0; way < 2; way++)
		for (unsigned int i = 0; i < SIZES; i++) {
			uint64_t old = make(before, value, sizes[i].old_len);
			struct table_change change = change_of(mode, value + 7, sizes[i].new_len);

			change.ttl = 100;
			change.version = old;
			assert_int_equal(ways[way](&change), expected);
			if (expected) {
				assert_unchanged(before, value, sizes[i].old_len);
				continue;
			}
			assert_true(change.version > old);
			assert_value(value + 7, sizes[i].new_len, NEW_FLAGS, change.expires);
			assert_int_equal(change.expires,
					 expires_after(test_threads[0].now_ns, 100));
			assert_store(NULL);
		}
}

static void set(void **state)
{
	(void)state;
	try_put(WIRE_SET, LIVE, WIRE_OK);
	try_put(WIRE_SET, ABSENT, WIRE_OK);
	try_put(WIRE_SET, EXPIRED, WIRE_OK);
}

static void add(void **state)
{
	(void)state;
	try_put(WIRE_ADD, LIVE, WIRE_EXISTS);
	try_put(WIRE_ADD, ABSENT, WIRE_OK);
	try_put(WIRE_ADD, EXPIRED, WIRE_OK);
}

static void replace(void **state)
{
	(void)state;
	try_put(WIRE_REPLACE, LIVE, WIRE_OK);
	try_put(WIRE_REPLACE, ABSENT, WIRE_NOT_FOUND);
	try_put(WIRE_REPLACE, EXPIRED, WIRE_NOT_FOUND);
}

static void cas(void **state)
{
	struct table_change change;
	unsigned int way;
	uint64_t old;

	(void)state;
	try_put(WIRE_CAS, LIVE, WIRE_OK);
	try_put(WIRE_CAS, ABSENT, WIRE_NOT_FOUND);
	try_put(WIRE_CAS, EXPIRED, WIRE_NOT_FOUND);
	for (way = 0; way < 2; way++) {
		old = make(LIVE, value, 100);
		change = change_of(WIRE_CAS, value + 1, 100);
		change.version = old + 1;
		assert_int_equal(ways[way](&change), WIRE_EXISTS);
		assert_unchanged(LIVE, value, 100);
		change = change_of(WIRE_CAS, value + 1, 100);
		change.version = old;
		assert_int_equal(ways[way](&change), WIRE_OK);
		/* A version is good for one CAS. */
		change = change_of(WIRE_CAS, value + 2, 100);
		change.version = old;
		assert_int_equal(ways[way](&change), WIRE_EXISTS);
		assert_value(value + 1, 100, NEW_FLAGS, 0);
	}
}

static void no_mode(void **state)
{
	struct table_change change = change_of((enum wire_put)(WIRE_PUT_MAX + 1), value, 10);

	(void)state;
	make(LIVE, value, 100);
	assert_int_equal(put(&change), WIRE_PROTOCOL);
	assert_unchanged(LIVE, value, 100);
}

/* The old value is in the middle of @value, so the expected result is in @value, too. */
static void try_append(enum before before, enum wire_status expected)
{
	const uint8_t *old = value + 60000;
	struct table_change change;

	for (unsigned int way = 0; way < 2; way++)
		for (unsigned int i = 0; i < SIZES; i++)
			for (int behind = 0; behind < 2; behind++) {
				uint32_t len = sizes[i].old_len % 50000,
					 more = sizes[i].new_len % 60000;
				uint64_t version = make(before, old, len);

				change = behind ? change_of(WIRE_APPEND, old + len, more) :
						  change_of(WIRE_PREPEND, old - more, more);
				change.ttl = 5;
				assert_int_equal(ways[way](&change), expected);
				if (expected) {
					assert_unchanged(before, old, len);
					continue;
				}
				assert_true(change.version > version);
				assert_value(behind ? old : old - more, len + more, OLD_FLAGS,
					     OLD_EXPIRES);
				assert_store(NULL);
			}
}

static void append_and_prepend(void **state)
{
	(void)state;
	try_append(LIVE, WIRE_OK);
	try_append(ABSENT, WIRE_NOT_FOUND);
	try_append(EXPIRED, WIRE_NOT_FOUND);
}

/* A large value is extended in steps, and the results are those of the new item. */
static void append_to_large(void **state)
{
	const uint32_t len = LARGE_BYTES + 1000;
	struct table_change change;
	struct store_value out;
	const struct item *item;

	(void)state;
	for (unsigned int way = 0; way < 4; way++) {
		uint64_t old = make(LIVE, value + 1000, len);

		change = way % 2 ? change_of(WIRE_APPEND, value + 1000 + len, 900) :
				   change_of(WIRE_PREPEND, value + 100, 900);
		change.ttl = 5;
		assert_int_equal(ways[way / 2](&change), WIRE_OK);
		assert_value(value + (way % 2 ? 1000 : 100), len + 900, OLD_FLAGS, OLD_EXPIRES);
		assert_int_equal(test_store_get(&store, "key", 3, found, sizeof(found), &out),
				 WIRE_OK);
		assert_true(out.version > old);
		assert_true(change.version == out.version);
		assert_int_equal(change.expires, OLD_EXPIRES);
		item = region_at(&store.region, slot_offset(change.slot));
		assert_true(item->version == out.version);
		assert_store(NULL);
	}
	assert_int_equal(STAT(large_changes), 4);
}

/* A value grows by a few bytes, through every size class and over every border between classes. */
static void append_grows(void **state)
{
	uint32_t behind = 0, before = 0;

	(void)state;
	make(LIVE, value + 10000, 0);
	while (behind + before < 6000) {
		uint32_t n = 1 + (uint32_t)(random_next() % 7);
		struct table_change change;

		if (random_next() % 2) {
			change = change_of(WIRE_APPEND, value + 10000 + behind, n);
			behind += n;
		} else {
			before += n;
			change = change_of(WIRE_PREPEND, value + 10000 - before, n);
		}
		assert_int_equal(put(&change), WIRE_OK);
		assert_value(value + 10000 - before, before + behind, OLD_FLAGS, OLD_EXPIRES);
	}
	assert_store(NULL);
	assert_true(STAT(replaces_in_place) > 100);
	assert_true(STAT(replaces_elsewhere) > 50);
}

static void value_max(void **state)
{
	static const enum wire_put modes[] = { WIRE_APPEND, WIRE_PREPEND };
	struct table_change change;

	(void)state;
	store.region.geometry.value_max = 1000;
	region_publish_geometry(&store.region);
	for (unsigned int i = 0; i < 4; i++) {
		make(LIVE, value + 300, 300);
		change = change_of(modes[i % 2], value + (i % 2 ? 0 : 600), 701);
		assert_int_equal(ways[i / 2](&change), WIRE_TOO_LARGE);
		assert_unchanged(LIVE, value + 300, 300);
		change = change_of(modes[i % 2], value, 700);
		assert_int_equal(ways[i / 2](&change), WIRE_OK);
	}
	assert_store(NULL);
}

static enum wire_status arith(uint64_t delta, bool decrement, uint64_t *number)
{
	struct table_change change = change_of(WIRE_SET, NULL, 0);
	enum wire_status status;

	change.delta = delta;
	change.decrement = decrement;
	status = table_arith(&test_threads[0], hash_of("key", 3), &change);
	*number = change.number;
	return status;
}

static void numbers(void **state)
{
	static const struct {
		const char *old;
		uint64_t delta;
		bool decrement;
		const char *result;
	} cases[] = {
		{ "0", 1, false, "1" },
		{ "9", 1, false, "10" },
		{ "10", 1, true, "9" },
		{ "5", 6, true, "0" },
		{ "5", 0, false, "5" },
		{ "007", 1, false, "8" },
		{ "18446744073709551615", 1, false, "0" },
		{ "18446744073709551615", 0, false, "18446744073709551615" },
		{ "18446744073709551614", UINT64_MAX, false, "18446744073709551613" },
		{ "18446744073709551615", UINT64_MAX, true, "0" },
		{ "00000000000000000012", 1, true, "11" },
	};
	uint64_t number;

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t old = make(LIVE, cases[i].old, (uint32_t)strlen(cases[i].old));
		struct store_value out;

		assert_int_equal(arith(cases[i].delta, cases[i].decrement, &number), WIRE_OK);
		assert_true(number == strtoull(cases[i].result, NULL, 10));
		assert_value(cases[i].result, (uint32_t)strlen(cases[i].result), OLD_FLAGS,
			     OLD_EXPIRES);
		assert_int_equal(test_store_get(&store, "key", 3, found, 100, &out), WIRE_OK);
		assert_true(out.version > old);
		assert_store(NULL);
	}
}

static void not_numbers(void **state)
{
	static const char *const texts[] = {
		"",
		"x",
		"1x",
		" 1",
		"1 ",
		"-1",
		"+1",
		"18446744073709551616",
		"000000000000000000001",
		"99999999999999999999",
		"1.0",
		"0x10",
		"1\n",
		"1:", /* the character after 9 */
		"/",  /* in front of 0 */
	};
	uint64_t number;

	(void)state;
	for (unsigned int i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		uint32_t len = (uint32_t)strlen(texts[i]);

		make(LIVE, texts[i], len);
		assert_int_equal(arith(1, i % 2, &number), WIRE_NOT_A_NUMBER);
		assert_unchanged(LIVE, texts[i], len);
	}
	make(LIVE, "1\0", 2);
	assert_int_equal(arith(1, false, &number), WIRE_NOT_A_NUMBER);
	make(LIVE, value, 60000);
	assert_int_equal(arith(1, false, &number), WIRE_NOT_A_NUMBER);
}

static void arith_creates(void **state)
{
	static const enum before befores[] = { ABSENT, EXPIRED };
	struct table_change change;
	uint64_t number;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		make(befores[i], "5", 1);
		assert_int_equal(arith(1, false, &number), WIRE_NOT_FOUND);
		assert_unchanged(befores[i], NULL, 0);
		make(befores[i], "5", 1);
		change = change_of(WIRE_SET, NULL, 0);
		change.create = true;
		change.number = UINT64_MAX;
		change.delta = 3;
		change.ttl = 9;
		assert_int_equal(table_arith(&test_threads[0], hash_of("key", 3), &change),
				 WIRE_OK);
		assert_true(change.number == UINT64_MAX);
		assert_value("18446744073709551615", 20, NEW_FLAGS, change.expires);
		assert_int_equal(change.expires, expires_after(test_threads[0].now_ns, 9));
		/* The key is there now: the delta is used, the number is not. */
		change.number = 1;
		assert_int_equal(table_arith(&test_threads[0], hash_of("key", 3), &change),
				 WIRE_OK);
		assert_value("2", 1, NEW_FLAGS, change.expires);
		assert_store(NULL);
	}
}

static void touch(void **state)
{
	static const uint32_t lens[] = { 0, 100, 5000, 100000 };
	struct table_change change;

	(void)state;
	for (unsigned int i = 0; i < 8; i++) {
		uint64_t old = make(LIVE, value, lens[i / 2]);

		change = (struct table_change){ .key = "key", .key_len = 3, .ttl = i % 2 * 50 };
		assert_int_equal(table_touch(&test_threads[0], hash_of("key", 3), &change),
				 WIRE_OK);
		assert_true(change.version == old);
		assert_value(value, lens[i / 2], OLD_FLAGS, change.expires);
		assert_int_equal(change.expires, expires_after(ENGINE_NOW_NS, i % 2 * 50));
		assert_store(NULL);
		/* The item lives longer than it would have. */
		set_now(OLD_EXPIRES * SECOND_NS);
		assert_value(value, lens[i / 2], OLD_FLAGS, change.expires);
	}
	make(ABSENT, NULL, 0);
	assert_int_equal(table_touch(&test_threads[0], hash_of("key", 3), &change), WIRE_NOT_FOUND);
	make(EXPIRED, value, 10);
	assert_int_equal(table_touch(&test_threads[0], hash_of("key", 3), &change), WIRE_NOT_FOUND);
	assert_unchanged(EXPIRED, NULL, 0);
	assert_int_equal(STAT(expiring), 1);
}

static enum wire_status delete_if(uint64_t version)
{
	const struct table_change change = {
		.key = "key", .key_len = 3, .if_version = true, .version = version
	};

	return table_delete(&test_threads[0], hash_of("key", 3), &change);
}

static void delete_key(void **state)
{
	struct store_census census;
	uint64_t old;

	(void)state;
	old = make(LIVE, value, 100);
	assert_int_equal(delete_if(old + 1), WIRE_EXISTS);
	assert_unchanged(LIVE, value, 100);
	assert_int_equal(delete_if(old), WIRE_OK);
	assert_missing();
	assert_int_equal(delete_if(old), WIRE_NOT_FOUND);
	old = make(EXPIRED, value, 100);
	assert_int_equal(delete_if(old), WIRE_NOT_FOUND);
	/* Not there, whatever version it had. */
	old = make(EXPIRED, value, 100);
	assert_int_equal(delete_if(old + 1), WIRE_NOT_FOUND);
	make(EXPIRED, value, 100);
	assert_int_equal(test_store_delete(&store, "key", 3), WIRE_NOT_FOUND);
	/* Of the four that were removed. */
	assert_int_equal(STAT(expired), 3);
	make(LIVE, value, 100000);
	assert_int_equal(test_store_delete(&store, "key", 3), WIRE_OK);
	assert_store(&census);
	assert_int_equal(census.items, 0);
	assert_int_equal(STAT(expiring), 0);
	assert_int_equal(STAT(live_bytes), 0);
}

/* CAS and a conditional DELETE want the very version, in each of its bits. */
static void versions_are_compared_whole(void **state)
{
	uint64_t old = make(LIVE, value, 100);
	struct store_value out;

	(void)state;
	for (unsigned int bit = 0; bit <= 64; bit++) {
		/* Version 0 is none that an item has. */
		uint64_t other = bit == 64 ? 0 : old ^ 1ull << bit;

		for (unsigned int way = 0; way < 2; way++) {
			struct table_change change = change_of(WIRE_CAS, value + 1, 100);

			change.version = other;
			assert_int_equal(ways[way](&change), WIRE_EXISTS);
		}
		assert_int_equal(delete_if(other), WIRE_EXISTS);
	}
	assert_unchanged(LIVE, value, 100);
	assert_int_equal(test_store_get(&store, "key", 3, found, sizeof(found), &out), WIRE_OK);
	assert_true(out.version == old);
	assert_int_equal(delete_if(old), WIRE_OK);
	assert_missing();
}

/*
 * Guarantee B: whether an item has expired is decided by the clock as it is when nobody can read
 * the item any more, however old the thread's own reading is.
 */
static void changes_read_the_clock(void **state)
{
	static const enum wire_put modes[] = { WIRE_REPLACE, WIRE_CAS, WIRE_APPEND, WIRE_PREPEND };
	struct table_change change;
	uint64_t number, old;

	(void)state;
	for (unsigned int i = 0; i < 7; i++)
		for (int late = 0; late < 2; late++) {
			enum wire_status status = late ? WIRE_NOT_FOUND : WIRE_OK;

			old = make(LIVE, "123", 3);
			/* Only the clock itself; some time passes from here to the change. */
			store.table.clock_base += OLD_EXPIRES * SECOND_NS - ENGINE_NOW_NS -
						  (late ? 0 : 5 * SECOND_NS);
			test_threads[0].now_ns = ENGINE_NOW_NS;
			if (i < 4) {
				change = change_of(modes[i], value, 3);
				change.version = old;
				assert_int_equal(put(&change), status);
			} else if (i == 4) {
				assert_int_equal(arith(1, false, &number), status);
			} else if (i == 5) {
				change = change_of(WIRE_SET, NULL, 0);
				assert_int_equal(table_touch(&test_threads[0], hash_of("key", 3),
							     &change),
						 status);
			} else {
				assert_int_equal(delete_if(old), status);
			}
			assert_true(test_threads[0].now_ns > ENGINE_NOW_NS);
			if (late)
				assert_missing();
			assert_store(NULL);
		}
	/* And the other way round: what has expired is absent to an ADD. */
	make(LIVE, "123", 3);
	store.table.clock_base += OLD_EXPIRES * SECOND_NS - ENGINE_NOW_NS;
	test_threads[0].now_ns = ENGINE_NOW_NS;
	change = change_of(WIRE_ADD, value, 3);
	assert_int_equal(put(&change), WIRE_OK);
	assert_store(NULL);
}

/* An item expires at its time and not before. */
static void expires_to_the_nanosecond(void **state)
{
	struct table_change change = change_of(WIRE_SET, value, 10);

	(void)state;
	change.ttl = 1;
	assert_int_equal(put(&change), WIRE_OK);
	assert_true(change.expires * SECOND_NS >= ENGINE_NOW_NS + SECOND_NS);
	assert_true(change.expires * SECOND_NS < ENGINE_NOW_NS + 2 * SECOND_NS);
	set_now(change.expires * SECOND_NS - 1);
	assert_value(value, 10, NEW_FLAGS, change.expires);
	set_now(change.expires * SECOND_NS);
	assert_missing();
	/* A whole second is not rounded up. */
	assert_int_equal(put(&change), WIRE_OK);
	assert_true(change.expires * SECOND_NS == test_threads[0].now_ns + SECOND_NS);
	/* The longest time to live. */
	change.ttl = WIRE_TTL_MAX;
	assert_int_equal(put(&change), WIRE_OK);
	set_now(ENGINE_NOW_NS + (WIRE_TTL_MAX - 1ull) * SECOND_NS);
	assert_value(value, 10, NEW_FLAGS, change.expires);
}

static void fill(uint32_t len)
{
	static uint64_t key;

	while (test_store_put(&store, &key, 8, value, len, NULL) == WIRE_OK)
		key++;
}

/* TABLE-4, in every mode that needs memory: without it, the old value stays. */
static void no_space(void **state)
{
	static const enum wire_put modes[] = {
		WIRE_SET, WIRE_REPLACE, WIRE_CAS, WIRE_APPEND, WIRE_PREPEND,
	};
	uint64_t old = make(LIVE, "12345678", 8), number;
	struct store_census before, after;
	struct table_change change;

	(void)state;
	fill(100000);
	fill(4000);
	fill(0);
	assert_store(&before);
	for (unsigned int i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		change = change_of(modes[i], value, 200000 >> i);
		change.version = old;
		assert_int_equal(put(&change), WIRE_NO_SPACE);
		change = change_of(modes[i], value, 200000 >> i);
		assert_null(table_reserve(&test_threads[0], &change));
		assert_value("12345678", 8, OLD_FLAGS, OLD_EXPIRES);
	}
	assert_store(&after);
	assert_true(before.digest == after.digest);
	/* Changes in place need no memory, with another length either. */
	assert_int_equal(arith(1, false, &number), WIRE_OK);
	assert_value("12345679", 8, OLD_FLAGS, OLD_EXPIRES);
	change = change_of(WIRE_APPEND, "0", 1);
	assert_int_equal(put(&change), WIRE_OK);
	assert_value("123456790", 9, OLD_FLAGS, OLD_EXPIRES);
	assert_store(NULL);
}

/* The key is changed while a value is being pulled: the condition is checked at the commit. */
static void pulled_conditions(void **state)
{
	struct table_change change = change_of(WIRE_ADD, NULL, 500);
	struct store_thread *w = &test_threads[0];
	uint64_t hash = hash_of("key", 3), old;
	struct item *item;

	(void)state;
	make(ABSENT, NULL, 0);
	item = table_reserve(w, &change);
	memcpy(table_reserved_value(item), value, 500);
	old = make(LIVE, value + 1, 100);
	assert_int_equal(table_commit(w, hash, item, &change), WIRE_EXISTS);
	assert_unchanged(LIVE, value + 1, 100);

	change = change_of(WIRE_CAS, NULL, 500);
	change.version = old;
	item = table_reserve(w, &change);
	memcpy(table_reserved_value(item), value, 500);
	make(LIVE, value + 2, 100);
	assert_int_equal(table_commit(w, hash, item, &change), WIRE_EXISTS);
	assert_unchanged(LIVE, value + 2, 100);

	change = change_of(WIRE_APPEND, NULL, 500);
	item = table_reserve(w, &change);
	memcpy(table_reserved_value(item), value + 3 + 200, 500);
	make(LIVE, value + 3, 200);
	assert_int_equal(table_commit(w, hash, item, &change), WIRE_OK);
	assert_value(value + 3, 700, OLD_FLAGS, OLD_EXPIRES);
	assert_store(NULL);
}

/*
 * LOOKUP-3 of server/store/lookup.h: an item that readers copy without a second check is never
 * rewritten; smaller ones are, where they are.
 */
static void large_items_are_not_rewritten(void **state)
{
	const uint32_t limit = LIMBO_ITEM_BYTES - (uint32_t)sizeof(union item_front) - 3;
	/* By how many bytes the values are larger than the largest that is rewritten. */
	static const int old_and_new[][2] = { { 0, 0 }, { 0, -1 }, { -1, 0 },
					      { 1, 1 }, { 0, 1 },  { 1, 0 } };

	(void)state;
	assert_int_equal(item_bytes_for(3, limit, 0), LIMBO_ITEM_BYTES);
	assert_int_equal(mem_class(LIMBO_ITEM_BYTES), mem_class(LIMBO_ITEM_BYTES - 1));
	for (unsigned int i = 0; i < 6; i++) {
		uint32_t old_len = limit - 1 + (uint32_t)old_and_new[i][0];
		uint32_t new_len = limit - 1 + (uint32_t)old_and_new[i][1];
		bool large = old_len >= limit || new_len >= limit;
		struct table_change a = change_of(WIRE_SET, value, old_len);
		struct table_change b = change_of(WIRE_SET, value + 1, new_len);

		assert_int_equal(put(&a), WIRE_OK);
		assert_int_equal(put(&b), WIRE_OK);
		assert_int_equal(slot_offset(a.slot) != slot_offset(b.slot), large);
		assert_value(value + 1, new_len, NEW_FLAGS, 0);
		assert_store(NULL);
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(set),
		CASE(add),
		CASE(replace),
		CASE(cas),
		CASE(no_mode),
		CASE(append_and_prepend),
		CASE(append_to_large),
		CASE(append_grows),
		CASE(value_max),
		CASE(numbers),
		CASE(not_numbers),
		CASE(arith_creates),
		CASE(touch),
		CASE(delete_key),
		CASE(versions_are_compared_whole),
		CASE(changes_read_the_clock),
		CASE(expires_to_the_nanosecond),
		CASE(no_space),
		CASE(pulled_conditions),
		CASE(large_items_are_not_rewritten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
