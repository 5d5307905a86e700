/* SPDX-License-Identifier: MIT */
/*
 * Unit tests of server/store/resize.h: a store of another size has the same items, with all that
 * belongs to them; what expired is left out; and what does not fit is refused, or evicted.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/store/chain.h"
#include "server/store/store.h"

#define MIB (1ull << 20)
#define NS_PER_S 1000000000ull
#define KEYS 2000u
#define LARGE 300000u /* bytes of a value that is copied in steps elsewhere */

struct side {
	struct store store;
	struct store_thread threads[2];
	struct store_thread *list[2];
};

static struct side from, to;
static uint8_t value[MIB];
static _Atomic bool stop;

static void side_create_in(struct side *side, uint64_t bytes, enum eviction_policy eviction,
			   const char *file)
{
	const struct store_options options = {
		.file = file,
		.bytes = bytes,
		.hugepages = HUGEPAGES_OFF,
		.level = INDEX_LEVEL_MIN,
		.value_max = bytes / 4,
		.fill = 65,
		.eviction = eviction,
		.pin_share = 50,
		.pin_time_max = 100,
		.sweep_share = 1,
	};

	assert_int_equal(store_create(&side->store, &options), 0);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(
			store_thread_init(&side->threads[i], &side->store.table, (uint8_t)i), 0);
		side->list[i] = &side->threads[i];
	}
}

static void side_create(struct side *side, uint64_t bytes, enum eviction_policy eviction)
{
	side_create_in(side, bytes, eviction, NULL);
}

static void side_destroy(struct side *side)
{
	if (!side->store.region.base)
		return;
	for (unsigned int i = 0; i < 2; i++)
		store_thread_release(&side->threads[i]);
	store_destroy(&side->store);
	memset(side, 0, sizeof(*side));
}

static int setup(void **state)
{
	(void)state;
	memset(&from, 0, sizeof(from));
	memset(&to, 0, sizeof(to));
	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)(i * 31 >> 3);
	stop = false;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	side_destroy(&from);
	side_destroy(&to);
	return 0;
}

static uint64_t hash_of(const struct side *side, uint32_t key)
{
	return table_hash(&side->store.table, &key, sizeof(key));
}

static uint32_t length_of(uint32_t key)
{
	return key % 500 == 7 ? LARGE : key % 97;
}

/* Both threads PUT, so that versions have the numbers of both. */
static void put(uint32_t key, const struct table_change *as)
{
	struct table_change change = *as;
	struct item *item;

	change.key = &key;
	change.key_len = sizeof(key);
	change.mode = WIRE_SET;
	change.value = value;
	change.value_len = length_of(key);
	item = table_reserve(&from.threads[key % 2], &change);
	assert_non_null(item);
	memcpy(table_reserved_value(item), value, change.value_len);
	assert_int_equal(table_commit(&from.threads[key % 2], hash_of(&from, key), item, &change),
			 WIRE_OK);
}

static const struct item *find(struct side *side, uint32_t key)
{
	struct table *table = &side->store.table;
	const struct bucket *bucket, *home = index_home(table, hash_of(side, key));

	chain_for_each(table, bucket, home)
		for (unsigned int i = 0; i < BUCKET_SLOTS; i++) {
			const struct item *item = bucket->slots[i] ?
							  slot_item(table, bucket->slots[i]) :
							  NULL;

			if (item && item_key_len(item) == sizeof(key) &&
			    !memcmp(item_key(item), &key, sizeof(key)))
				return item;
		}
	return NULL;
}

static void assert_same(uint32_t key)
{
	const struct item *a = find(&from, key), *b = find(&to, key);

	assert_non_null(a);
	assert_non_null(b);
	assert_true(a->version == b->version);
	assert_int_equal(item_flags(a), item_flags(b));
	assert_int_equal(a->expires, b->expires);
	assert_int_equal(item_access_load(a), item_access_load(b));
	assert_int_equal(item_value_len(a), item_value_len(b));
	assert_memory_equal(item_value(a), item_value(b), item_value_len(a));
	/* As readers find it. */
	assert_true(item_sum_first(b) != ITEM_SUM_INVALID);
}

static void fill(void)
{
	for (uint32_t key = 0; key < KEYS; key++)
		put(key, &(struct table_change){
				 .flags = key * 3,
				 .ttl = key % 5 ? 0 : 1000 + key,
				 .wish = { .pin = key % 100 == 3 ? 50 : 0, .low = key % 11 == 5 },
			 });
}

static uint64_t highest_version(void)
{
	uint64_t highest = 0;

	for (uint32_t key = 0; key < KEYS; key++)
		if (find(&from, key)->version > highest)
			highest = find(&from, key)->version;
	return highest;
}

/* Every item is there as it was, and a later change has a version above all. */
static void all_of_it(void **state)
{
	static const struct {
		uint64_t bytes;
		enum eviction_policy eviction;
	} cases[] = { { 64 * MIB, EVICTION_OBJECT_HITS },
		      { 16 * MIB, EVICTION_OBJECT_HITS },
		      { 16 * MIB, EVICTION_NONE },
		      { 64 * MIB, EVICTION_BYTE_HITS } };
	struct pins_stats was, is;
	struct table_change change;
	uint32_t key = 1;

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setup(state);
		side_create(&from, 32 * MIB, cases[i].eviction);
		fill();
		side_create(&to, cases[i].bytes, cases[i].eviction);
		assert_int_equal(resize_fill(to.list, 2, &from.store.table, &stop), 0);
		for (uint32_t at = 0; at < KEYS; at++)
			assert_same(at);
		assert_int_equal(store_items(&to.store), KEYS);
		pins_stats(from.store.pins, &was);
		pins_stats(to.store.pins, &is);
		assert_true(was.bytes == is.bytes && was.items == is.items);
		for (unsigned int n = 0; n < 2; n++) {
			assert_int_equal(to.threads[n].id,
					 (uint8_t)(to.store.table.version_start + n));
			change = (struct table_change){ .key = &key,
							.key_len = sizeof(key),
							.mode = WIRE_SET };
			assert_int_equal(table_put(&to.threads[n], hash_of(&to, key), &change),
					 WIRE_OK);
			assert_true(change.version >> THREAD_ID_BITS > highest_version() >>
				    THREAD_ID_BITS);
		}
		teardown(state);
	}
}

/* What has expired, and what does so within the second, is left out; the rest is exact. */
static void what_expires(void **state)
{
	uint64_t now_s;

	(void)state;
	side_create(&from, 16 * MIB, EVICTION_OBJECT_HITS);
	for (uint32_t ttl = 1; ttl <= 20; ttl++)
		put(ttl, &(struct table_change){ .ttl = ttl });
	put(21, &(struct table_change){ 0 });
	side_create(&to, 16 * MIB, EVICTION_OBJECT_HITS);
	/* A clock that is ahead stays there. */
	to.threads[0].now_ns = from.threads[0].now_ns + 10 * NS_PER_S;
	now_s = (to.threads[0].now_ns + NS_PER_S - 1) / NS_PER_S;
	assert_int_equal(resize_fill(to.list, 2, &from.store.table, &stop), 0);
	for (uint32_t ttl = 1; ttl <= 20; ttl++)
		if (find(&from, ttl)->expires > now_s)
			assert_int_equal(find(&to, ttl)->expires, find(&from, ttl)->expires);
		else
			assert_null(find(&to, ttl));
	assert_non_null(find(&to, 20));
	assert_null(find(&to, 9));
	assert_int_equal(find(&to, 21)->expires, 0);
}

/* Without eviction nothing is lost: it fails. With it, it does not, and as much is kept as fits. */
static void too_many(void **state)
{
	(void)state;
	side_create(&from, 64 * MIB, EVICTION_NONE);
	for (uint32_t i = 0; i < 100; i++)
		put(7 + 500 * i, &(struct table_change){ 0 });
	side_create(&to, 16 * MIB, EVICTION_NONE);
	assert_int_equal(resize_fill(to.list, 2, &from.store.table, &stop), -ENOSPC);
	side_destroy(&to);
	side_create(&to, 16 * MIB, EVICTION_OBJECT_HITS);
	assert_int_equal(resize_fill(to.list, 2, &from.store.table, &stop), 0);
	assert_in_range(store_items(&to.store), 16 * MIB / LARGE * 8 / 10, 16 * MIB / LARGE);
	for (uint32_t i = 0; i < 100; i++)
		if (find(&to, 7 + 500 * i))
			assert_same(7 + 500 * i);
}

static void too_long(void **state)
{
	struct table_change change = { .mode = WIRE_SET, .value = value };
	uint32_t key = 1;
	struct item *item;

	(void)state;
	side_create(&from, 64 * MIB, EVICTION_OBJECT_HITS);
	side_create(&to, 16 * MIB, EVICTION_OBJECT_HITS);
	change.key = &key;
	change.key_len = sizeof(key);
	change.value_len = 4 * MIB;
	item = table_reserve(&from.threads[0], &change);
	memset(table_reserved_value(item), 1, change.value_len);
	assert_int_equal(table_commit(&from.threads[0], hash_of(&from, key), item, &change),
			 WIRE_OK);
	assert_int_equal(resize_fill(to.list, 2, &from.store.table, &stop), 0);
	change.value_len++;
	item = table_reserve(&from.threads[0], &change);
	memset(table_reserved_value(item), 1, change.value_len);
	assert_int_equal(table_commit(&from.threads[0], hash_of(&from, key), item, &change),
			 WIRE_OK);
	side_destroy(&to);
	side_create(&to, 16 * MIB, EVICTION_OBJECT_HITS);
	assert_int_equal(resize_fill(to.list, 2, &from.store.table, &stop), -E2BIG);
}

/* A version of an item that is gone, which a client may hold, is never made again. */
static void versions_go_on(void **state)
{
	struct table_change change = { .key = "k", .key_len = 1, .value = value };
	uint64_t version;

	(void)state;
	side_create(&from, 32 * MIB, EVICTION_OBJECT_HITS);
	from.threads[1].clock += 1ull << 40; /* the time of day was set back since */
	assert_int_equal(table_put(&from.threads[1], table_hash(&from.store.table, "k", 1),
				   &change),
			 WIRE_OK);
	version = change.version;
	change = (struct table_change){ .key = "k", .key_len = 1 };
	assert_int_equal(table_delete(&from.threads[1], table_hash(&from.store.table, "k", 1),
				      &change),
			 WIRE_OK);
	side_create(&to, 64 * MIB, EVICTION_OBJECT_HITS);
	assert_int_equal(resize_fill(to.list, 2, &from.store.table, &stop), 0);
	for (unsigned int i = 0; i < 2; i++) {
		change = (struct table_change){ .key = "k", .key_len = 1, .value = value };
		assert_int_equal(table_put(&to.threads[i], table_hash(&to.store.table, "k", 1),
					   &change),
				 WIRE_OK);
		assert_true(change.version > version);
	}
}

/* Items have the age that they had: when the ticks began goes over with the ticks. */
static void ages_go_on(void **state)
{
	(void)state;
	side_create(&from, 32 * MIB, EVICTION_OBJECT_HITS);
	side_create(&to, 64 * MIB, EVICTION_OBJECT_HITS);
	from.store.table.tick = 300;
	from.store.table.tick_began_s[290] = 7;
	assert_int_equal(resize_fill(to.list, 2, &from.store.table, &stop), 0);
	assert_int_equal(to.store.table.tick, 300);
	to.threads[0].now_ns = 107000000000;
	assert_int_equal(access_time_age_s(&to.threads[0], 10), 100);
}

/* Flushes that were acknowledged, and are not due. */
static void flushes_go_on(void **state)
{
	struct maintenance *old, *new;
	uint64_t tickets[2];

	(void)state;
	side_create(&from, 32 * MIB, EVICTION_OBJECT_HITS);
	side_create(&to, 64 * MIB, EVICTION_OBJECT_HITS);
	old = &from.store.maintenance;
	new = &to.store.maintenance;
	assert_int_equal(maintenance_init(old, &from.store.table, 2, 1, NULL), 0);
	for (unsigned int i = 0; i < 2; i++)
		tickets[i] = maintenance_flush(old, from.threads[0].now_ns, 100 + i, "uid=1");
	assert_int_equal(maintenance_init(new, &to.store.table, 2, 1, old), 0);
	for (unsigned int i = 0; i < 2; i++) {
		assert_false(maintenance_flushed(new, tickets[i]));
		assert_string_equal(new->waiting[i].owner, "uid=1");
		assert_int_equal(new->waiting[i].at_ns,
				 from.threads[0].now_ns + (100 + i) * NS_PER_S);
	}
	assert_int_equal(maintenance_flush(new, to.threads[0].now_ns, 0, "uid=1"), tickets[1] + 1);
	assert_int_equal(maintenance_cancel(new, 0, "uid=1"), 2);
	maintenance_release(old);
	maintenance_release(new);
}

static unsigned int notes_of(const struct keep *keep, uint64_t hash, uint64_t version)
{
	unsigned int notes = 0;

	for (unsigned int i = 0; i < KEEP_STALE_MAX; i++)
		notes += keep->stale[i].hash == hash && keep->stale[i].version == version;
	return notes;
}

/* What the next process must not serve is noted in the new store's file, by the hash there. */
static void stale_notes_go_on(void **state)
{
	const uint32_t stale = 5, replaced = 6;
	char folder[] = "/dev/shm/kvd-test-resize-XXXXXX", names[2][64];
	uint64_t gone;

	(void)state;
	assert_non_null(mkdtemp(folder));
	for (unsigned int i = 0; i < 2; i++)
		snprintf(names[i], sizeof(names[i]), "%s/%u", folder, i);
	side_create_in(&from, 32 * MIB, EVICTION_OBJECT_HITS, names[0]);
	side_create_in(&to, 64 * MIB, EVICTION_OBJECT_HITS, names[1]);
	fill();
	gone = find(&from, replaced)->version;
	keep_note_stale(&from.store.region.keep, hash_of(&from, stale),
			find(&from, stale)->version);
	keep_note_stale(&from.store.region.keep, hash_of(&from, replaced), gone);
	put(replaced, &(struct table_change){ 0 });
	assert_int_equal(resize_fill(to.list, 2, &from.store.table, &stop), 0);
	assert_true(hash_of(&from, stale) != hash_of(&to, stale));
	assert_int_equal(
		notes_of(&to.store.region.keep, hash_of(&to, stale), find(&to, stale)->version), 1);
	assert_int_equal(notes_of(&to.store.region.keep, hash_of(&to, replaced), gone), 0);
	for (unsigned int i = 0; i < 2; i++)
		keep_remove(names[i]);
	rmdir(folder);
}

static void is_stopped(void **state)
{
	(void)state;
	side_create(&from, 16 * MIB, EVICTION_OBJECT_HITS);
	side_create(&to, 16 * MIB, EVICTION_OBJECT_HITS);
	stop = true;
	assert_int_equal(resize_fill(to.list, 2, &from.store.table, &stop), -ECANCELED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		CASE(all_of_it),      CASE(what_expires),      CASE(too_many),
		CASE(too_long),	      CASE(stale_notes_go_on), CASE(is_stopped),
		CASE(versions_go_on), CASE(flushes_go_on),     CASE(ages_go_on),
#undef CASE
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
