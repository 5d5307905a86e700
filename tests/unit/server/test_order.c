/* SPDX-License-Identifier: MIT */
/*
 * Tests of the order of the table's stores (TABLE-1 of server/store/table.h, guarantee B), step by
 * step, so that they do not depend on luck: the table is compiled here so that after every store
 * that readers depend on, a view is taken: what a reader would find at this point, through the
 * buckets and at every place that a client's cache may still lead to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/store_fixture.h"
#include "tests/support/store_hooks.h"

#define REGION_BYTES (8u << 20)
#define PLACES_MAX 64
#define VIEWS_MAX 64

static struct store store;
static uint8_t value[8192];

/* The key that is watched, and every place where its item was or may be. */
static const char *watched;
static uint32_t watched_len;
static uint64_t places[PLACES_MAX];
static unsigned int place_count;

/* What was found after each store. */
static struct {
	const char *after;
	uint64_t valid; /* version of the copy that verifies, at any place; 0: none */
	uint64_t place; /* of that copy */
	uint64_t slot;	/* of the key in the buckets; 0: none */
	uint64_t sum;	/* of the item that the slot leads to, whether it verifies or not */
	bool sealed;	/* all buckets of the chain verify */
	bool linked;	/* all but the home bucket do */
} views[VIEWS_MAX];
static unsigned int view_count;

/* The bucket that is being split, if one is, and its level before. */
static const struct bucket *splitting;
static uint32_t split_number, split_level;
static unsigned int split_views;

/* Whether there is an item of the watched key, valid or not. */
static bool is_of_the_key(uint64_t place)
{
	const struct item *item = region_at(&store.region, place);

	return item_key_len(item) == watched_len && item_value_len(item) <= sizeof(value) &&
	       !memcmp(item_key(item), watched, watched_len);
}

static bool is_valid(uint64_t place)
{
	const struct item *item = region_at(&store.region, place);

	return item->sum != ITEM_SUM_INVALID && is_of_the_key(place) &&
	       item->sum == item_sum(item, &store.region.sum_key, store.region.geometry.incarnation,
				     place);
}

static void note_place(uint64_t place)
{
	for (unsigned int i = 0; i < place_count; i++)
		if (places[i] == place)
			return;
	assert_true(place_count < PLACES_MAX);
	places[place_count++] = place;
}

static bool is_sealed(const struct bucket *bucket, const struct bucket *home)
{
	return bucket->sum ==
	       bucket_sum(bucket, &store.region.sum_key, store.region.geometry.incarnation,
			  region_offset(&store.region, bucket), region_offset(&store.region, home));
}

/* The slot of the key in its chain: of those with its tag the one that leads to its bytes. */
static uint64_t find_slot(bool *sealed, bool *linked)
{
	uint16_t tag = hash_tag(table_hash(&store.table, watched, watched_len));
	const struct bucket *bucket = test_store_home(&store, watched, watched_len);
	const struct bucket *home = bucket;
	uint64_t slot = 0;

	*sealed = *linked = true;
	for (;;) {
		if (!is_sealed(bucket, home)) {
			*sealed = false;
			*linked = *linked && bucket == home;
		}
		for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
			if (bucket->slots[i] && slot_tag(bucket->slots[i]) == tag &&
			    is_of_the_key(slot_offset(bucket->slots[i])))
				slot = bucket->slots[i];
		if (!bucket->overflow)
			return slot;
		bucket = region_at(&store.region, (uint64_t)bucket->overflow * BUCKET_BYTES);
	}
}

/*
 * INDEX-2: a bucket that the index's size or another one's level leads to is complete and sealed.
 */
static void view_split(const char *after)
{
	const struct bucket *added = index_bucket(&store.table, split_number + (1u << split_level));

	if (splitting->level == split_level &&
	    index_buckets(&store.table) <= split_number + (1u << split_level))
		return;
	split_views++;
	if (added->level != split_level + 1 || !is_sealed(added, added))
		fail_msg("after %s: the new bucket can be reached, but is not sealed", after);
}

void store_hook(const char *after)
{
	unsigned int i;

	if (splitting)
		view_split(after);
	if (!watched)
		return;
	assert_true(view_count < VIEWS_MAX);
	views[view_count].after = after;
	views[view_count].valid = 0;
	views[view_count].slot = find_slot(&views[view_count].sealed, &views[view_count].linked);
	views[view_count].sum = ITEM_SUM_INVALID;
	if (views[view_count].slot) {
		const struct item *item = region_at(&store.region,
						    slot_offset(views[view_count].slot));

		views[view_count].sum = item->sum;
		note_place(slot_offset(views[view_count].slot));
	}
	for (i = 0; i < place_count; i++) {
		if (!is_valid(places[i]))
			continue;
		/* TABLE-1: one valid copy at most, at any instant. */
		if (views[view_count].valid)
			fail_msg("after %s: two valid copies of the key", after);
		views[view_count].place = places[i];
		views[view_count].valid =
			((struct item *)region_at(&store.region, places[i]))->version;
	}
	view_count++;
}

static void watch(const char *key)
{
	watched = key;
	watched_len = (uint32_t)strlen(key);
	view_count = 0;
}

/* In every change, the old version is valid, then none, then the new one, and none again later. */
static void assert_order(uint64_t old, uint64_t latest)
{
	unsigned int i, stage = 0;

	assert_true(view_count > 0);
	for (i = 0; i < view_count; i++) {
		uint64_t valid = views[i].valid;

		if (stage == 0 && valid != old)
			stage = 1;
		if (stage == 1 && valid)
			stage = 2;
		if (valid != (stage == 0 ? old : stage == 1 ? 0 : latest))
			fail_msg("step %u, after %s: version %llu is valid, out of order", i,
				 views[i].after, (unsigned long long)valid);
		/*
		 * Readers in the server do not sum what they copy: only the sum tells them
		 * (LOOKUP-2).
		 */
		if (!valid && views[i].sum != ITEM_SUM_INVALID)
			fail_msg("step %u, after %s: not valid, but its sum says so", i,
				 views[i].after);
		/* TABLE-1: when one reader can see the new value, all can, through the slot. */
		if (valid && slot_offset(views[i].slot) != views[i].place)
			fail_msg("step %u, after %s: valid, but its slot leads elsewhere", i,
				 views[i].after);
		/* And as long as it says. */
		if (valid && valid == latest && views[i].slot != views[view_count - 1].slot)
			fail_msg("step %u, after %s: valid, but its slot is of the old value", i,
				 views[i].after);
	}
	assert_int_equal(stage, latest ? 2 : 1);
	assert_true(views[view_count - 1].sealed);
	assert_int_equal(views[view_count - 1].valid, latest);
	watched = NULL;
	assert_null(test_store_check(&store, NULL));
}

/* TABLE-3: the key has a slot at every point. */
static void assert_never_without_slot(void)
{
	for (unsigned int i = 0; i < view_count; i++)
		if (!views[i].slot)
			fail_msg("step %u, after %s: no slot", i, views[i].after);
}

static uint64_t put(const char *key, uint32_t len)
{
	struct table_change out;

	assert_int_equal(test_store_put(&store, key, (uint32_t)strlen(key), value, len, &out),
			 WIRE_OK);
	return out.version;
}

static int create(uint32_t level, uint32_t fill)
{
	const struct store_options options = { .fill = fill };

	watched = NULL;
	place_count = 0;
	test_store_create_with(&store, REGION_BYTES, level, 1, &options);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return create(4, STORE_NO_GROWTH);
}

static int setup_one_bucket(void **state)
{
	(void)state;
	return create(0, STORE_NO_GROWTH);
}

static int setup_growing(void **state)
{
	(void)state;
	return create(4, 65);
}

static int teardown(void **state)
{
	(void)state;
	test_store_destroy(&store);
	return 0;
}

static void insert(void **state)
{
	(void)state;
	watch("key");
	assert_order(0, put("key", 100));
}

static void replace_in_place(void **state)
{
	uint64_t old = put("key", 100), latest;
	uint32_t len = 1000;

	(void)state;
	watch("key");
	latest = put("key", 99);
	assert_never_without_slot();
	assert_order(old, latest);
	/* With another length in the slot */
	while (item_bytes_for(3, len, 0) % SLOT_UNIT ||
	       mem_class(item_bytes_for(3, len, 0)) != mem_class(item_bytes_for(3, len + 1, 0)))
		len++;
	old = put("key", len);
	watch("key");
	latest = put("key", len + 1);
	assert_true(view_count > 1 && views[0].slot != views[view_count - 1].slot);
	assert_never_without_slot();
	assert_order(old, latest);
	assert_int_equal(test_threads[0].stats.replaces_in_place, 2);
}

/* Back and forth between two places: the key's old place becomes its new one again. */
static void replace_elsewhere(void **state)
{
	uint64_t old = put("key", 100), latest;
	unsigned int i;

	(void)state;
	for (i = 0; i < 10; i++) {
		watch("key");
		latest = put("key", i % 2 ? 100 : 1000);
		assert_never_without_slot();
		assert_order(old, latest);
		old = latest;
	}
	assert_int_equal(place_count, 2);
}

static void commit(void **state)
{
	struct table_change p = { .key = "key", .key_len = 3, .value_len = 3000 };
	uint64_t hash = table_hash(&store.table, "key", 3), old = put("key", 2900);
	struct store_thread *thread = &test_threads[0];
	struct item *item;

	(void)state;
	watch("key");
	item = table_reserve(thread, &p);
	note_place(region_offset(&store.region, item));
	memcpy(table_reserved_value(item), value, 3000);
	assert_int_equal(table_commit(thread, hash, item, &p), WIRE_OK);
	assert_never_without_slot();
	assert_order(old, p.version);
}

static void delete (void **state)
{
	uint64_t old = put("key", 100);

	(void)state;
	watch("key");
	store_hook("before");
	assert_int_equal(test_store_delete(&store, "key", 3), WIRE_OK);
	assert_order(old, 0);
	/* And back */
	watch("key");
	assert_order(0, put("key", 100));
}

/*
 * Guarantee B: when the clock is read that says whether a key has expired, nobody can read its
 * value any more; if it is not changed then, all can again.
 */
static void expiring(void **state)
{
	struct table_change change = {
		.key = "key", .key_len = 3, .value = value, .value_len = 100, .ttl = 1000
	};
	const uint64_t hash = table_hash(&store.table, "key", 3);

	(void)state;
	assert_int_equal(table_put(&test_threads[0], hash, &change), WIRE_OK);
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t old = change.version;
		unsigned int barriers = 0;

		watch("key");
		store_hook("before");
		assert_int_equal(views[0].valid, old);
		change.mode = i ? WIRE_SET : WIRE_ADD;
		assert_int_equal(table_put(&test_threads[0], hash, &change),
				 i ? WIRE_OK : WIRE_EXISTS);
		for (unsigned int n = 0; n < view_count; n++) {
			if (strcmp(views[n].after, "store_load_barrier") != 0)
				continue;
			assert_int_equal(views[n].valid, 0);
			assert_int_equal(views[n].sum, ITEM_SUM_INVALID);
			barriers++;
		}
		assert_int_equal(barriers, 1);
		assert_never_without_slot();
		assert_int_equal(views[view_count - 1].valid, change.version);
		if (i)
			assert_order(old, change.version);
	}
}

/* The overflow bucket is complete before it is linked. */
static void insert_into_a_new_overflow_bucket(void **state)
{
	char key[3] = "a";

	(void)state;
	for (; key[0] < 'a' + (int)BUCKET_SLOTS; key[0]++)
		put(key, 50);
	watch("z");
	assert_order(0, put("z", 50));
	assert_true(view_count >= 5);
	for (unsigned int i = 0; i < view_count; i++)
		if (!views[i].linked)
			fail_msg("step %u, after %s: a bucket is linked that is not sealed", i,
				 views[i].after);
}

/* What can be reached is watched in each split, until all buckets of the level were split. */
static void split_buckets(void **state)
{
	uint64_t key, size, splits = 0;

	(void)state;
	for (key = 0; splits < 16; key++) {
		size = atomic_load(&store.table.index_size);
		split_number = (uint32_t)index_size_split(size);
		split_level = index_size_level(size);
		splitting = index_bucket(&store.table, split_number);
		assert_int_equal(test_store_put(&store, &key, 8, value, 20, NULL), WIRE_OK);
		splitting = NULL;
		splits += index_buckets(&store.table) > (1u << split_level) + split_number;
	}
	/* What unlocks its chain, at least, comes after the new bucket is reachable. */
	assert_true(split_views >= splits);
	assert_null(test_store_check(&store, NULL));
}

/* A failed PUT leaves the old value valid at every step. */
static void no_space(void **state)
{
	uint64_t old = put("key", 100), key = 0, i;

	(void)state;
	while (test_store_put(&store, &key, 8, value, 5000, NULL) == WIRE_OK)
		key++;
	watch("key");
	store_hook("before");
	assert_int_equal(test_store_put(&store, "key", 3, value, 6000, NULL), WIRE_NO_SPACE);
	store_hook("after");
	for (i = 0; i < view_count; i++)
		assert_true(views[i].valid == old);
	watched = NULL;
	assert_null(test_store_check(&store, NULL));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(insert),
		CASE(replace_in_place),
		CASE(replace_elsewhere),
		CASE(commit),
		CASE(delete),
		CASE(expiring),
		cmocka_unit_test_setup_teardown(insert_into_a_new_overflow_bucket, setup_one_bucket,
						teardown),
		cmocka_unit_test_setup_teardown(split_buckets, setup_growing, teardown),
		CASE(no_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
