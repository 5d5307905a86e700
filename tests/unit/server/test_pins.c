/* SPDX-License-Identifier: MIT */
/*
 * Tests of pins and priorities: pinned items stay while others are evicted, until their time; items
 * of low priority go first; as much is pinned as may be, and no more; and the account of what is
 * pinned is right whatever happens to the items.
 */
#include "server/store/pins.h"

#include "server/store/access_time.h"
#include "server/store/evict.h"
#include "server/store/update.h"
#include "tests/support/store_test.h"

#define REGION_BYTES (16u << 20)
#define SHARE 25u
#define TIME_MAX 3600u
#define VALUE_BYTES (1u << 20)

/* Sanitizers make each change many times slower: a part of them finds what they are to find. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SLOW 8u
#else
#define SLOW 1u
#endif

static uint8_t value[VALUE_BYTES];

static int create(uint32_t level, uint32_t fill, enum eviction_policy policy, uint32_t share)
{
	const struct store_options options = {
		.fill = fill, .eviction = policy, .pin_share = share, .pin_time_max = TIME_MAX
	};

	test_store_create_with(&store, REGION_BYTES, level, 2, &options);
	set_now(ENGINE_NOW_NS);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return create(8, 65, EVICTION_OBJECT_HITS, SHARE);
}

static int setup_byte_hits(void **state)
{
	(void)state;
	return create(8, 65, EVICTION_BYTE_HITS, SHARE);
}

/* An index that need not grow: without the maintenance thread it would not, in full memory. */
static int setup_wide(void **state)
{
	(void)state;
	return create(14, 65, EVICTION_OBJECT_HITS, SHARE);
}

static int setup_wide_byte_hits(void **state)
{
	(void)state;
	return create(14, 65, EVICTION_BYTE_HITS, SHARE);
}

static int setup_no_growth(void **state)
{
	(void)state;
	return create(8, STORE_NO_GROWTH, EVICTION_OBJECT_HITS, SHARE);
}

static int setup_off(void **state)
{
	(void)state;
	return create(8, 65, EVICTION_OBJECT_HITS, 0);
}

static int setup_none(void **state)
{
	(void)state;
	return create(8, 65, EVICTION_NONE, SHARE);
}

static int teardown(void **state)
{
	(void)state;
	assert_store(NULL);
	test_store_destroy(&store);
	return 0;
}

static uint16_t field(uint64_t until)
{
	return access_pin_make(until, false);
}

static void assert_account(struct pins *pins, uint64_t bytes, uint64_t items, uint64_t fields)
{
	struct pins_stats stats;

	pins_stats(pins, &stats);
	assert_int_equal(stats.bytes, bytes);
	assert_int_equal(stats.items, items);
	assert_int_equal(stats.fields, fields);
}

/* The account by itself: to the byte, and to the unit of time. */
static void to_the_byte_and_the_unit(void **state)
{
	struct keep keep = { .head = NULL };
	struct pins *pins = pins_create(&keep);
	const uint64_t now = 1000;

	(void)state;
	assert_non_null(pins);
	pins_advance(pins, now * PIN_UNIT_NS, 5);
	assert_true(pins_may_take(pins, field(now + 10), 100, 100));
	assert_false(pins_may_take(pins, field(now + 10), 101, 100));
	assert_true(pins_take(pins, field(now + 10), 60, 0, 100));
	assert_false(pins_take(pins, field(now + 20), 41, 0, 100));
	assert_account(pins, 60, 1, 1);
	assert_true(pins_take(pins, field(now + 20), 40, 0, 100));
	assert_false(pins_may_take(pins, field(now + 20), 1, 100));
	/* In place of one: both count for an instant. */
	assert_false(pins_take(pins, field(now + 20), 41, 40, 100));
	assert_true(pins_take(pins, field(now + 20), 40, 40, 100));
	assert_account(pins, 140, 3, 3);
	pins_give(pins, field(now + 20), 40);
	assert_account(pins, 100, 2, 2);
	/* A pin lasts until its unit is reached. */
	pins_advance(pins, (now + 10) * PIN_UNIT_NS - 1, 6);
	assert_account(pins, 100, 2, 2);
	assert_int_equal(pins_tick(pins, now + 10, 99), 99);
	pins_advance(pins, (now + 10) * PIN_UNIT_NS, 7);
	assert_account(pins, 40, 1, 2);
	pins_advance(pins, (now + 12) * PIN_UNIT_NS, 8);
	assert_int_equal(pins_tick(pins, now + 10, 99), 7);
	assert_int_equal(pins_tick(pins, now + 12, 99), 8);
	assert_int_equal(pins_tick(pins, now + 13, 99), 99);
	pins_give(pins, field(now + 10), 60);
	assert_account(pins, 40, 1, 1);
	/* A sweep is wanted in time, unless there is nothing to sweep. */
	assert_false(pins_want_sweep(pins));
	pins_advance(pins, (now + PIN_UNITS / 4) * PIN_UNIT_NS, 9);
	assert_account(pins, 0, 0, 1);
	assert_false(pins_want_sweep(pins));
	pins_advance(pins, (now + PIN_UNITS / 4 + 1) * PIN_UNIT_NS, 9);
	assert_true(pins_want_sweep(pins));
	pins_swept(pins, now + 1);
	assert_false(pins_want_sweep(pins));
	/* Never back. */
	pins_swept(pins, now);
	assert_false(pins_want_sweep(pins));
	pins_advance(pins, (now + PIN_UNITS / 4 + 2) * PIN_UNIT_NS, 9);
	assert_true(pins_want_sweep(pins));
	pins_give(pins, field(now + 20), 40);
	assert_false(pins_want_sweep(pins));
	assert_account(pins, 0, 0, 0);
	pins_destroy(&keep, pins);
}

static struct pins_stats pinned(void)
{
	struct pins_stats stats;

	access_time_advance_pins(&test_threads[0]);
	pins_stats(store.pins, &stats);
	return stats;
}

static enum wire_status change_mode(uint64_t key, uint32_t len, enum wire_put mode, uint32_t pin,
				    bool low)
{
	struct table_change put = {
		.key = &key,
		.key_len = 8,
		.value = value,
		.value_len = len,
		.mode = mode,
		.wish = { .pin = pin, .low = low },
	};

	return table_put(&test_threads[0], hash_of(&key, 8), &put);
}

static enum wire_status try_pin(uint64_t key, uint32_t len, uint32_t seconds)
{
	return change_mode(key, len, WIRE_SET, seconds, false);
}

static void put(uint64_t key, uint32_t len)
{
	assert_int_equal(change_mode(key, len, WIRE_SET, 0, false), WIRE_OK);
}

static void put_low(uint64_t key, uint32_t len)
{
	assert_int_equal(change_mode(key, len, WIRE_SET, 0, true), WIRE_OK);
}

static void pin(uint64_t key, uint32_t len, uint32_t seconds)
{
	assert_int_equal(try_pin(key, len, seconds), WIRE_OK);
}

static bool is_there(uint64_t key)
{
	struct store_value out;

	return test_store_get(&store, &key, 8, NULL, 0, &out) == WIRE_OK;
}

static uint64_t count_there(uint64_t from, uint64_t to)
{
	uint64_t n = 0;

	for (uint64_t key = from; key < to; key++)
		n += is_there(key);
	return n;
}

/* Puts values of these sizes, together of @bytes. */
static void press_bytes(uint64_t *key, const uint32_t *lens, unsigned int count, uint64_t bytes)
{
	uint64_t done = 0;

	while (done < bytes) {
		uint32_t len = lens[random_next() % count];

		put((*key)++, len);
		done += len;
	}
}

/* @times as much as there is memory. */
static void press(uint64_t *key, const uint32_t *lens, unsigned int count, unsigned int times)
{
	press_bytes(key, lens, count, (uint64_t)times * REGION_BYTES);
}

static uint64_t share_bytes(void)
{
	return memory_bytes(store.memory) / 100 * SHARE;
}

/* Pins items of @len until no more may be pinned. Returns how many. */
static uint64_t pin_all(uint64_t first, uint32_t len, uint32_t seconds)
{
	uint64_t key = first;

	while (try_pin(key, len, seconds) == WIRE_OK)
		key++;
	assert_int_equal(try_pin(key, len, seconds), WIRE_BUSY);
	assert_false(is_there(key));
	assert_true(pinned().bytes <= share_bytes());
	assert_true(pinned().bytes + mem_class_bytes(item_bytes_for(8, len, 0)) > share_bytes());
	return key - first;
}

/* Pinned items of a size stay while all sizes are put, and go when their time is over. */
static void stay_until_their_time(uint32_t len)
{
	static const uint32_t sizes[] = { 100, 1000, 5000, 40000, 300000, VALUE_BYTES };
	uint64_t key = 1000000, n;

	press(&key, sizes, 5, 1);
	n = pin_all(0, len, 100);
	for (unsigned int i = 0; i < 6; i++) {
		press_bytes(&key, &sizes[i], 1, REGION_BYTES / (sizes[i] < 5000 ? SLOW : 1));
		assert_int_equal(count_there(0, n), n);
		assert_store(NULL);
	}
	assert_int_equal(pinned().items, n);
	set_now(ENGINE_NOW_NS + 99 * SECOND_NS);
	assert_int_equal(pinned().items, n);
	press(&key, sizes, 6, 1);
	assert_int_equal(count_there(0, n), n);
	set_now(ENGINE_NOW_NS + 103 * SECOND_NS);
	assert_int_equal(pinned().items, 0);
	assert_int_equal(pinned().bytes, 0);
	press(&key, &len, 1, len < 5000 ? 2 : 4);
	print_message("%llu pinned items of %u: %llu left\n", (unsigned long long)n, len,
		      (unsigned long long)count_there(0, n));
	assert_true(count_there(0, n) <= n / 20);
}

/*
 * Values of a sixteenth of the memory are stored while pinned items stand in between everywhere, of
 * a size of which nothing else is.
 */
static void large_beside(uint32_t pin_len, uint32_t other_len)
{
	uint64_t key = 1000000, pins = 0;
	unsigned int failed = 0;

	while (STAT(evictions) < 20) {
		if (key % 4 == 0 && try_pin(pins, pin_len, 100) == WIRE_OK)
			pins++;
		put(key++, other_len);
	}
	for (unsigned int i = 0; i < 40; i++) {
		failed += change_mode(key++, sizeof(value), WIRE_SET, 0, false) != WIRE_OK;
		for (unsigned int n = 0; n < 20; n++)
			put(key++, other_len);
	}
	assert_int_equal(count_there(0, pins), pins);
	assert_int_equal(failed, 0);
}

static void large_beside_small(void **state)
{
	(void)state;
	large_beside(SLOW > 1 ? 400 : 100, SLOW > 1 ? 1500 : 300);
}

static void large_beside_large(void **state)
{
	(void)state;
	large_beside(300000, 40000);
}

static void large_beside_same(void **state)
{
	(void)state;
	large_beside(100000, 100000);
}

static void large_beside_medium(void **state)
{
	(void)state;
	large_beside(20000, 1000);
}

static void small_stay(void **state)
{
	(void)state;
	stay_until_their_time(SLOW > 1 ? 2000 : 300);
}

static void medium_stay(void **state)
{
	(void)state;
	stay_until_their_time(5000);
}

static void large_stay(void **state)
{
	(void)state;
	stay_until_their_time(100000);
}

/*
 * Items of low priority go before all others, and first in, first out, whatever is read. Candidates
 * are drawn, so when few are left others go beside them.
 */
static void low_go_first(void **state)
{
	const uint64_t low = 20000, all = 40000;
	uint64_t key, first, last;

	(void)state;
	for (key = 0; key < all; key++)
		key < low ? put(key, 300) : put_low(key, 300);
	for (unsigned int i = 0; i < 3; i++)
		for (key = low; key < low + 100; key++)
			table_access(&test_threads[0], hash_of(&key, 8), 1);
	for (key = 1000000; STAT(evictions) < 5000; key++)
		put(key, 300);
	first = count_there(low, low + 1000);
	last = count_there(all - 1000, all);
	print_message("%llu of %llu evictions; of the first 1000 stay %llu, of the last %llu\n",
		      (unsigned long long)STAT(evictions_low), (unsigned long long)STAT(evictions),
		      (unsigned long long)first, (unsigned long long)last);
	assert_true(count_there(0, low) + 5 >= low);
	assert_true(STAT(evictions_low) + 5 >= STAT(evictions));
	assert_int_equal(STAT(evictions_low), all - low - count_there(low, all));
	assert_true(first < 250);
	assert_true(count_there(low, low + 100) < 50);
	assert_true(last > 950);
	if (SLOW > 1)
		return;
	/* When there are no more of them, the others go. */
	for (; STAT(evictions) < 2 * all; key++)
		put(key, 300);
	assert_true(count_there(low, all) < 20);
	assert_true(count_there(0, low) < low / 10);
}

/* After its pin an item of low priority is one, and another one has been used then. */
static void after_the_pin(void **state)
{
	const uint64_t n = 10000, all = 35000;
	uint64_t key, odd = 0;

	(void)state;
	/* One by which no bucket has two of the keys with one tag: a read is noted for either. */
	store.region.geometry.hash_seed = 1;
	region_publish_geometry(&store.region);
	for (key = 0; key < n; key++)
		assert_int_equal(change_mode(key, 300, WIRE_SET, 10, key % 2), WIRE_OK);
	for (; key < all; key++)
		put(key, 300);
	set_now(ENGINE_NOW_NS + 13 * SECOND_NS);
	assert_int_equal(pinned().items, 0);
	for (; STAT(evictions_low) < n / 2 * 9 / 10; key++)
		put(key, 300);
	for (uint64_t i = 1; i < n; i += 2)
		odd += is_there(i);
	assert_int_equal(odd, n / 2 - STAT(evictions_low));
	assert_true(count_there(0, n) - odd > n / 2 * 95 / 100);
	/* Unlike those that were stored before the end of the pins. */
	assert_true(count_there(n, n + 5000) < 4900);
	assert_true(pinned().fields >= n / 2);
	/* A read takes them out of the account. */
	assert_true(pinned().fields >= n / 2);
	for (key = 0; key < n; key++)
		table_access(&test_threads[0], hash_of(&key, 8), 1);
	assert_int_equal(pinned().fields, 0);
}

static enum wire_status touch(uint64_t key)
{
	struct table_change change = { .key = &key, .key_len = 8, .ttl = 1000000 };

	return table_touch(&test_threads[0], hash_of(&key, 8), &change);
}

static enum wire_status incr(uint64_t key)
{
	struct table_change change = { .key = &key, .key_len = 8, .delta = 1 };

	return table_arith(&test_threads[0], hash_of(&key, 8), &change);
}

static void assert_pinned(uint64_t items, size_t bytes)
{
	struct pins_stats stats = pinned();

	assert_int_equal(stats.items, items);
	assert_int_equal(stats.bytes, items * mem_class_bytes(item_bytes_for(8, bytes, 0)));
}

/* What keeps a pin, and what ends it. */
static void kept_and_ended(void **state)
{
	uint64_t number = 1;

	(void)state;
	pin(1, 10, 100);
	assert_pinned(1, 10);
	assert_int_equal(change_mode(1, 500, WIRE_APPEND, 0, false), WIRE_OK);
	assert_pinned(1, 510);
	assert_int_equal(change_mode(1, 200000, WIRE_PREPEND, 0, false), WIRE_OK);
	assert_pinned(1, 200510);
	assert_int_equal(touch(1), WIRE_OK);
	assert_pinned(1, 200510);
	put(1, 10);
	assert_pinned(0, 0);
	memset(value, '1', 5);
	pin(number, 5, 100);
	assert_int_equal(incr(number), WIRE_OK);
	assert_int_equal(touch(number), WIRE_OK);
	assert_pinned(1, 5);
	/* In place. */
	put(number, 5);
	assert_pinned(0, 0);
	pin(1, 5, 100);
	pin(1, 5, 200);
	assert_pinned(1, 5);
	pin(1, 500, 200);
	assert_pinned(1, 500);
	assert_int_equal(test_store_delete(&store, &number, 8), WIRE_OK);
	assert_pinned(0, 0);
	assert_int_equal(change_mode(1, 5, WIRE_ADD, 100, false), WIRE_OK);
	assert_int_equal(change_mode(1, 5, WIRE_ADD, 100, false), WIRE_EXISTS);
	assert_int_equal(change_mode(2, 5, WIRE_REPLACE, 100, false), WIRE_NOT_FOUND);
	assert_pinned(1, 5);
	assert_int_equal(pinned().fields, 1);
}

/*
 * A key that a PUT replaces may be evicted for the room that its new value needs. The pin of the
 * attempt that lacked room has been taken back then, and is not once more.
 */
static void evicted_for_its_own_room(void **state)
{
	const uint32_t len = 1000;
	uint64_t next = 0, key;
	unsigned int evicted = 0;

	(void)state;
	press(&next, &len, 1, 2);
	pin(next, len, 100);
	for (key = 0; key < next && !evicted; key++) {
		if (!is_there(key))
			continue;
		evicted = change_mode(key, 20000, WIRE_REPLACE, 100, false) == WIRE_NOT_FOUND;
		/* Without its pin, and nothing is free then. */
		if (!evicted)
			put(key, 20000);
		assert_pinned(1, len);
	}
	assert_int_equal(evicted, 1);
}

/* No more than the share is pinned, whatever is tried, and what is refused changes nothing. */
static void share_is_kept(void **state)
{
	const uint32_t len = 100000;
	uint64_t n, items;
	struct pins_stats stats;

	(void)state;
	n = pin_all(0, len, TIME_MAX);
	stats = pinned();
	items = STAT(inserts) - STAT(removes);
	/* A pin is not renewed: both would have to fit. */
	assert_int_equal(try_pin(0, len, TIME_MAX), WIRE_BUSY);
	assert_int_equal(change_mode(0, len, WIRE_APPEND, 0, false), WIRE_BUSY);
	assert_int_equal(change_mode(0, VALUE_BYTES, WIRE_APPEND, 0, false), WIRE_BUSY);
	assert_int_equal(try_pin(n + 1, len, 1), WIRE_BUSY);
	assert_int_equal(STAT(inserts) - STAT(removes), items);
	assert_int_equal(pinned().bytes, stats.bytes);
	assert_int_equal(pinned().items, n);
	assert_int_equal(count_there(0, n), n);
	/* One that takes no more memory is no more pinned. */
	assert_int_equal(change_mode(0, 1, WIRE_APPEND, 0, false), WIRE_OK);
	assert_int_equal(touch(0), WIRE_OK);
	assert_int_equal(pinned().bytes, stats.bytes);
	put(0, len);
	pin(n, len, 1);
	assert_int_equal(pinned().bytes, stats.bytes);
	assert_true(STAT(pins_refused) >= 5);
}

/* Refused are pins for too long, however long; none is refused for its time up to the longest. */
static void time_is_bounded(void **state)
{
	(void)state;
	assert_int_equal(try_pin(1, 10, TIME_MAX + 1), WIRE_INVALID);
	assert_int_equal(try_pin(1, 10, UINT32_MAX), WIRE_INVALID);
	assert_false(is_there(1));
	pin(1, 10, TIME_MAX);
	set_now(ENGINE_NOW_NS + (TIME_MAX - 1) * SECOND_NS);
	assert_pinned(1, 10);
	set_now(ENGINE_NOW_NS + (TIME_MAX + 2) * SECOND_NS);
	assert_pinned(0, 0);
}

static void share_of_nothing(void **state)
{
	(void)state;
	assert_int_equal(try_pin(1, 10, 1), WIRE_BUSY);
	assert_false(is_there(1));
	put_low(1, 10);
}

/* A PUT that wants a pin, and whose value is pulled. */
static struct table_change pulled(const uint64_t *key, uint32_t len, uint32_t seconds)
{
	return (struct table_change){
		.key = key, .key_len = 8, .value_len = len, .wish = { .pin = seconds }
	};
}

/* With eviction off pins and priorities are taken, and do nothing. */
static void without_eviction(void **state)
{
	struct table_change wish;
	uint64_t key = 0;

	(void)state;
	while (try_pin(key, 10000, TIME_MAX) == WIRE_OK)
		key++;
	assert_int_equal(try_pin(key, 10000, TIME_MAX), WIRE_NO_SPACE);
	assert_true(key * 10000 > REGION_BYTES / 10 * 9);
	assert_int_equal(change_mode(0, 10000, WIRE_SET, 1, true), WIRE_OK);
	assert_int_equal(try_pin(0, 10000, TIME_MAX + 1), WIRE_INVALID);
	/* Even of more than the share. */
	wish = pulled(&key, REGION_BYTES, 1);
	assert_int_equal(table_may_pin(&test_threads[0], &wish), WIRE_OK);
	assert_int_equal(STAT(pins_refused), 0);
	assert_pinned(0, 0);
	assert_int_equal(pinned().fields, 0);
}

static enum wire_status commit(struct table_change *change)
{
	struct item *item = table_reserve(&test_threads[0], change);
	uint64_t hash = hash_of(change->key, 8);

	assert_non_null(item);
	memset(table_reserved_value(item), 1, change->value_len);
	return table_commit(&test_threads[0], hash, item, change);
}

/* What is pulled is pinned when all of it is there; before that there is a first answer. */
static void pulled_items_are_pinned(void **state)
{
	static const uint32_t lens[] = { 10, 5000, 200000 };
	const uint64_t key = 1, other = 2;
	struct store_thread *w = &test_threads[0];
	struct table_change change;
	uint64_t n, refused;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		change = pulled(&key, lens[i], TIME_MAX);
		assert_int_equal(table_may_pin(w, &change), WIRE_OK);
		assert_int_equal(commit(&change), WIRE_OK);
		assert_false(change.pins_full);
		assert_pinned(1, lens[i]);
		change = pulled(&key, lens[i], TIME_MAX + 1);
		assert_int_equal(table_may_pin(w, &change), WIRE_INVALID);
		assert_false(change.pins_full);
		assert_int_equal(commit(&change), WIRE_INVALID);
		assert_pinned(1, lens[i]);
	}
	assert_int_equal(STAT(pins_refused), 0);
	n = pin_all(1000, 100000, TIME_MAX);
	for (unsigned int i = 1; i < 3; i++) {
		refused = STAT(pins_refused);
		change = pulled(&other, 100000, i);
		assert_int_equal(table_may_pin(w, &change), WIRE_BUSY);
		assert_true(change.pins_full);
		assert_int_equal(STAT(pins_refused), refused + 1);
		change = pulled(&other, i == 1 ? 100000 : 300000, i);
		assert_int_equal(commit(&change), WIRE_BUSY);
		assert_true(change.pins_full);
		assert_int_equal(STAT(pins_refused), refused + 2);
		assert_false(is_there(other));
		assert_int_equal(pinned().items, n + 1);
		assert_store(NULL);
	}
	change = pulled(&other, 100000, 0);
	assert_int_equal(table_may_pin(w, &change), WIRE_OK);
	assert_false(change.pins_full);
	/* When the others have ended there is room again, whoever asks first. */
	set_now(ENGINE_NOW_NS + (TIME_MAX + 2) * SECOND_NS);
	change = pulled(&other, 100000, 100);
	assert_int_equal(table_may_pin(w, &change), WIRE_OK);
	assert_int_equal(commit(&change), WIRE_OK);
	assert_pinned(1, 100000);
	pin_all(1000, 100000, 10);
	set_now(ENGINE_NOW_NS + (TIME_MAX + 15) * SECOND_NS);
	change = pulled(&key, 100000, 100);
	assert_int_equal(commit(&change), WIRE_OK);
	assert_pinned(2, 100000);
}

/* An item that was pinned after it was chosen is not evicted before its pin has ended. */
static void pinned_since_it_was_chosen(void **state)
{
	struct table_change change;
	uint64_t key = 1, hash = hash_of(&key, 8);
	struct item *item;

	(void)state;
	for (unsigned int low = 0; low < 2; low++) {
		pin(key, 10, 100);
		assert_int_equal(change_mode(key, 10, WIRE_SET, 100, low), WIRE_OK);
		change = (struct table_change){ .key = &key, .key_len = 8 };
		assert_int_equal(table_touch(&test_threads[0], hash, &change), WIRE_OK);
		item = region_at(&store.region, slot_offset(change.slot));
		assert_false(table_remove_block(&test_threads[0], hash, item, REMOVAL_EVICTED));
		assert_true(is_there(key));
		assert_pinned(1, 10);
		assert_store(NULL);
		set_now(test_threads[0].now_ns + 102 * SECOND_NS);
		assert_true(table_remove_block(&test_threads[0], hash, item, REMOVAL_EVICTED));
		assert_false(is_there(key));
		assert_int_equal(STAT(evictions), low + 1);
		assert_int_equal(STAT(evictions_low), low);
		assert_pinned(0, 0);
		/* The item is not there any more. */
		assert_false(table_remove_block(&test_threads[0], hash, item, REMOVAL_EVICTED));
		assert_int_equal(STAT(evictions), low + 1);
		assert_store(NULL);
	}
}

/*
 * In a full chain a few that are pinned stay; but a client can't keep keys out by pinning all of
 * it, nor have another's, which is not pinned, always go.
 */
static void full_chain(void **state)
{
	const uint64_t overflow = CHAIN_MAX * BUCKET_SLOTS;
	uint64_t from = 1000, keys[CHAIN_SLOTS_MAX], n = 0, key, other;
	unsigned int stayed = 0;

	(void)state;
	/* One of 60 is pinned. */
	for (n = 0; n < CHAIN_SLOTS_MAX; n++) {
		keys[n] = test_store_collide(&store, 1, false, &from);
		if (n % 60 == 17)
			pin(keys[n], 10, 1000);
		else
			put(keys[n], 10);
	}
	for (unsigned int i = 0; i < 100; i++)
		put(test_store_collide(&store, 1, false, &from), 10);
	for (n = 17; n < CHAIN_SLOTS_MAX; n += 60)
		assert_true(is_there(keys[n]));
	/* All are, but another client's, each time that it stored it again. */
	for (unsigned int i = 0; i < 20 * overflow; i++)
		pin(test_store_collide(&store, 1, false, &from), 10, 1000);
	for (unsigned int i = 0; i < 50; i++) {
		other = test_store_collide(&store, 1, false, &from);
		put(other, 10);
		assert_true(is_there(other));
		key = test_store_collide(&store, 1, false, &from);
		pin(key, 10, 1000);
		assert_true(is_there(key));
		stayed += is_there(other);
	}
	assert_true(stayed > 40);
}

/* The clock of the fields comes around: what was not swept is never taken for a later pin. */
static void units_come_around(void **state)
{
	uint64_t now_ns = ENGINE_NOW_NS, key = 0, refused = 0, swept = 0;
	const uint64_t step = 600 * SECOND_NS;

	(void)state;
	for (unsigned int i = 0; i < 300; i++, now_ns += step) {
		enum wire_status status;

		set_now(now_ns);
		status = try_pin(key, 10, TIME_MAX);
		refused += status == WIRE_BUSY;
		key += !status;
		assert_int_equal(pinned().items, key < 6 ? key : pinned().items);
		assert_store(NULL);
		/* The sweep comes late: every other time that it is wanted for long. */
		if (i % 40 != 39 || !pins_want_sweep(store.pins))
			continue;
		for (uint64_t number = 0; number < index_buckets(&store.table); number++)
			table_sweep_bucket(&test_threads[0], number, 0);
		pins_swept(store.pins, now_ns / PIN_UNIT_NS);
		swept++;
	}
	print_message("%llu pinned, %llu refused, %llu sweeps\n", (unsigned long long)key,
		      (unsigned long long)refused, (unsigned long long)swept);
	assert_true(refused > 0 && key > 100 && swept > 3);
	set_now(now_ns + 2 * TIME_MAX * SECOND_NS);
	assert_pinned(0, 0);
}

/* The model: what is known of each key. */
#define KEYS 300u
static struct {
	bool there, pinned;
	uint64_t until;
	uint32_t len;
} model[KEYS];

static uint64_t unit_now(void)
{
	return test_threads[0].now_ns / PIN_UNIT_NS;
}

static void model_put(uint64_t key)
{
	uint32_t len = random_next() % 50 ? random_next() % 3000 : random_next() % 200000;
	uint32_t seconds = random_next() % 2 ? random_next() % 200 : 0;
	enum wire_put mode = (enum wire_put)(random_next() % 3);
	enum wire_status status = change_mode(key, len, mode, seconds, random_next() % 4 == 0);

	if (status)
		return;
	model[key].there = true;
	model[key].pinned = seconds;
	model[key].until = pin_until(test_threads[0].now_ns, seconds);
	model[key].len = len;
}

static void model_append(uint64_t key)
{
	uint32_t len = random_next() % 20 ? random_next() % 300 : random_next() % 100000;
	enum wire_put mode = random_next() % 2 ? WIRE_APPEND : WIRE_PREPEND;

	if (model[key].len + len <= VALUE_BYTES && change_mode(key, len, mode, 0, false) == WIRE_OK)
		model[key].len += len;
}

static void model_move(uint64_t key)
{
	struct item_ref ref;
	uint64_t hash = hash_of(&key, 8);

	if (lookup_find(&test_threads[0], hash, &key, 8, &ref) == LOOKUP_FOUND)
		table_move_block(&test_threads[0], hash, ref.item);
}

static void model_flush(void)
{
	for (uint64_t number = 0; number < index_buckets(&store.table); number++)
		table_sweep_bucket(&test_threads[0], number, UINT64_MAX);
	memset(model, 0, sizeof(model));
}

static void model_change(void)
{
	uint64_t key = random_next() % KEYS;

	switch (random_next() % 8) {
	case 0:
		test_store_delete(&store, &key, 8);
		model[key].there = model[key].pinned = false;
		break;
	case 1:
		model_append(key);
		break;
	case 2:
		touch(key);
		table_access(&test_threads[0], hash_of(&key, 8), 1);
		break;
	case 3:
		model_move(key);
		break;
	default:
		model_put(key);
	}
}

/* What the model says is pinned is there, and nothing else is in the account. */
static void model_check(void)
{
	uint64_t items = 0, bytes = 0;

	for (uint64_t key = 0; key < KEYS; key++) {
		if (!model[key].pinned || model[key].until <= unit_now())
			continue;
		assert_true(is_there(key));
		items++;
		bytes += mem_class_bytes(item_bytes_for(8, model[key].len, 0));
	}
	assert_int_equal(pinned().items, items);
	assert_int_equal(pinned().bytes, bytes);
	assert_true(bytes <= share_bytes());
	assert_store(NULL);
}

static void account_is_exact(void **state)
{
	uint64_t now_ns = ENGINE_NOW_NS, other = 1000000;

	(void)state;
	memset(model, 0, sizeof(model));
	for (unsigned int i = 0; i < (SLOW > 1 ? 35 : 100); i++) {
		for (unsigned int n = 0; n < 100; n++)
			model_change();
		for (unsigned int n = 0; n < 30; n++)
			put(other++, 100 + random_next() % 30000);
		if (i % 10 == 0)
			evict_compact(&test_threads[0]);
		model_check();
		if (i % 30 == 29)
			model_flush();
		now_ns += random_next() % 20 * SECOND_NS;
		set_now(now_ns);
	}
	set_now(now_ns + 300 * SECOND_NS);
	assert_int_equal(pinned().bytes, 0);
	for (uint64_t number = 0; number < index_buckets(&store.table); number++)
		table_sweep_bucket(&test_threads[0], number, 0);
	assert_int_equal(pinned().fields, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(to_the_byte_and_the_unit),
		cmocka_unit_test_setup_teardown(large_beside_small, setup, teardown),
		cmocka_unit_test_setup_teardown(large_beside_large, setup, teardown),
		cmocka_unit_test_setup_teardown(large_beside_same, setup, teardown),
		cmocka_unit_test_setup_teardown(large_beside_medium, setup, teardown),
		cmocka_unit_test_setup_teardown(small_stay, setup_wide, teardown),
		cmocka_unit_test_setup_teardown(medium_stay, setup_byte_hits, teardown),
		cmocka_unit_test_setup_teardown(large_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(low_go_first, setup_wide, teardown),
		cmocka_unit_test_setup_teardown(low_go_first, setup_wide_byte_hits, teardown),
		cmocka_unit_test_setup_teardown(after_the_pin, setup_wide, teardown),
		cmocka_unit_test_setup_teardown(kept_and_ended, setup, teardown),
		cmocka_unit_test_setup_teardown(evicted_for_its_own_room, setup, teardown),
		cmocka_unit_test_setup_teardown(share_is_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(time_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(share_of_nothing, setup_off, teardown),
		cmocka_unit_test_setup_teardown(without_eviction, setup_none, teardown),
		cmocka_unit_test_setup_teardown(pulled_items_are_pinned, setup, teardown),
		cmocka_unit_test_setup_teardown(pinned_since_it_was_chosen, setup, teardown),
		cmocka_unit_test_setup_teardown(full_chain, setup_no_growth, teardown),
		cmocka_unit_test_setup_teardown(units_come_around, setup, teardown),
		cmocka_unit_test_setup_teardown(account_is_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(account_is_exact, setup_byte_hits, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
