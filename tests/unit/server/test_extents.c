/* SPDX-License-Identifier: MIT */
/*
 * Tests of extents (server/store/extents.h): a region grows and shrinks while items of all kinds
 * are in it. After each case the fixture checks all of the store.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include <urcu-qsbr.h>

#include "server/store/slab.h"

#include "tests/support/store_test.h"

#define EXTENT ((uint64_t)2 << 20)
#define BYTES_MAX (EXTENTS_MAX * EXTENT)
#define DEADLINE_NS (300 * SECOND_NS)
#define LARGE (300u << 10)
#define KEYS_MAX 20000u

static struct store_options options;
static uint8_t value[2 * EXTENT], got[2 * EXTENT];
static uint32_t lengths[KEYS_MAX]; /* of the value of each key; 0: it is not stored */
static char why[EXTENTS_WHY_MAX];

static int create(unsigned int extents, uint32_t level, enum eviction_policy policy)
{
	options = (struct store_options){
		.bytes_max = BYTES_MAX,
		.fill = STORE_NO_GROWTH,
		.eviction = policy,
		.pin_share = policy ? 50 : 0,
		.pin_time_max = policy ? 600 : 0,
		.sweep_share = 5,
	};
	memset(lengths, 0, sizeof(lengths));
	rcu_register_thread();
	test_store_create_with(&store, extents * EXTENT, level, 1, &options);
	set_now(ENGINE_NOW_NS);
	return store_start(&store, NULL);
}

/* Few buckets, so that most items are in overflow buckets. */
static int setup(void **state)
{
	(void)state;
	return create(3, 6, EVICTION_NONE);
}

static int setup_evicts(void **state)
{
	(void)state;
	return create(4, 9, EVICTION_OBJECT_HITS);
}

static int setup_wide(void **state)
{
	(void)state;
	return create(3, 13, EVICTION_NONE);
}

static int teardown(void **state)
{
	(void)state;
	rcu_thread_offline();
	store_stop(&store);
	rcu_thread_online();
	test_store_destroy(&store);
	rcu_unregister_thread();
	return 0;
}

static enum wire_status put(uint64_t key, uint32_t len)
{
	enum wire_status status;

	value_make(value, len, key, len);
	status = test_store_put(&store, &key, sizeof(key), value, len, NULL);
	if (!status)
		lengths[key] = len;
	return status;
}

static void drop(uint64_t key)
{
	assert_int_equal(test_store_delete(&store, &key, sizeof(key)), WIRE_OK);
	lengths[key] = 0;
}

/* Fills the memory, and returns the number of keys from @key on. */
static uint64_t fill(uint64_t key, uint32_t len)
{
	uint64_t n = 0;

	while (!put(key + n, len))
		n++;
	assert_true(n);
	return n;
}

/* Every key has its value; an evicted one may be missing. Returns how many are there. */
static uint64_t check_values(bool evicts)
{
	struct store_value header;
	uint64_t n = 0;

	for (uint64_t key = 0; key < KEYS_MAX; key++) {
		enum wire_status status = test_store_get(&store, &key, sizeof(key), got,
							 sizeof(got), &header);

		if (status == WIRE_NOT_FOUND && (evicts || !lengths[key]))
			continue;
		assert_int_equal(status, WIRE_OK);
		assert_int_equal(header.value_len, lengths[key]);
		value_make(value, lengths[key], key, lengths[key]);
		assert_memory_equal(got, value, lengths[key]);
		n++;
	}
	return n;
}

/* The parts of the region add up to the extents in use. */
static void check_parts(unsigned int extents)
{
	struct memory_stats s;

	memory_stats(store.memory, &s);
	assert_true(store.region.bytes == extents * EXTENT);
	assert_int_equal(region_extents(&store.region), extents);
	assert_true(sizeof(struct superblock) + s.index + s.free + s.item_slabs + s.bucket_slabs +
			    s.large + REGION_PAD ==
		    extents * EXTENT);
	assert_int_equal(s.evacuating, 0);
	assert_int_equal(store.memory->evacuations, 0);
}

static void grow(unsigned int extents)
{
	assert_int_equal(region_extend(&store.region, &options, extents), 0);
	assert_int_equal(store.region.extent_count, extents);
	store_open_extents(&store, extents);
	check_parts(extents);
}

/* Waits until the closing has ended. */
static enum extents_state closing_end(void)
{
	const struct timespec ms = { 0, 1000000 };
	uint64_t deadline_ns = clock_ns() + DEADLINE_NS;
	enum extents_state state;

	while ((state = store_extents_state(&store, why, sizeof(why))) == EXTENTS_CLOSING) {
		store_thread_idle(&test_threads[0]);
		rcu_thread_offline();
		nanosleep(&ms, NULL);
		rcu_thread_online();
		if (clock_ns() > deadline_ns)
			fail_msg("the closing does not end");
	}
	return state;
}

static void shrink(unsigned int extents)
{
	assert_int_equal(store_close_extents(&store, extents), 0);
	assert_int_equal(closing_end(), EXTENTS_CLOSED);
	check_parts(extents);
	region_cut(&store.region);
	assert_int_equal(store.region.extent_count, extents);
	for (unsigned int i = extents; i < EXTENTS_MAX; i++)
		assert_true(store.region.extents[i].fd <= 0);
}

static void grows(void **state)
{
	uint64_t first, more;

	(void)state;
	check_parts(3);
	first = fill(0, 3000);
	grow(4);
	more = fill(first, 3000);
	assert_true(more > EXTENT / 3000 * 9 / 10);
	grow(EXTENTS_MAX);
	assert_int_equal(put(KEYS_MAX - 1, LARGE), WIRE_OK);
	assert_int_equal(check_values(false), first + more + 1);
	/* An item that is longer than an extent fails at once. */
	assert_int_equal(put(0, EXTENT), WIRE_NO_SPACE);
	assert_store(NULL);
}

/* Items of all kinds are in all extents; what is left of them fits. */
static void shrinks(void **state)
{
	uint64_t n = 0;

	(void)state;
	grow(6);
	for (; n < 8; n++)
		assert_int_equal(put(n, LARGE), WIRE_OK);
	for (unsigned int i = 0; i < 400; i++)
		assert_int_equal(put(n++, 10000), WIRE_OK);
	n += fill(n, 100 + (uint32_t)(random_next() % 8));
	assert_true(STAT(overflow_buckets) > 100);
	for (uint64_t key = 0; key < n; key++)
		if (key % 4 || key < 4)
			drop(key);
	assert_store(NULL);
	for (unsigned int extents = 5; extents >= 2; extents--) {
		shrink(extents);
		check_values(false);
		assert_store(NULL);
	}
	/* The region grows again, and memory that was given back is usable. */
	grow(5);
	fill(n, 3000);
	check_values(false);
	assert_store(NULL);
}

static void does_not_fit(void **state)
{
	(void)state;
	fill(0, 3000);
	assert_int_equal(store_close_extents(&store, 2), -ENOSPC);
	check_parts(3);
}

/* By bytes three items fit two extents, but neither has room for two. */
static void does_not_fit_whole(void **state)
{
	(void)state;
	for (uint64_t key = 0; key < 3; key++)
		assert_int_equal(put(key, EXTENT / 8 * 5), WIRE_OK);
	assert_int_equal(store_close_extents(&store, 2), 0);
	assert_int_equal(store_close_extents(&store, 2), -EBUSY);
	assert_int_equal(closing_end(), EXTENTS_FAILED);
	assert_string_equal(why, "what is stored finds no room in the new size");
	check_parts(3);
	assert_int_equal(check_values(false), 3);
	/* All of the memory is usable again. */
	assert_true(fill(3, 3000) > EXTENT / 3000);
	assert_store(NULL);
}

static void index_does_not_fit(void **state)
{
	(void)state;
	/* The index takes 1 MiB, and then crosses into the second extent. */
	assert_int_equal(store_close_extents(&store, 1), -ENOSPC);
	shrink(2);
	grow(3);
	for (unsigned int i = 0; i < 24; i++) {
		atomic_store(&store.table.growing, 1);
		assert_true(index_extend(&store.table));
		atomic_store(&store.table.growing, 0);
	}
	assert_int_equal(store_close_extents(&store, 2), -ENOSPC);
	check_parts(3);
}

static void evicts(void **state)
{
	uint64_t n, before, now, last;

	(void)state;
	for (n = 0; n < 600; n++)
		put(n, 10000);
	for (uint64_t i = 0; i < 10; i++)
		put(n++, LARGE);
	for (uint64_t i = 0; i < 4000; i++)
		put(n++, 1000);
	assert_true(STAT(evictions) > 0);
	before = check_values(true);
	last = STAT(evictions);
	shrink(2);
	now = check_values(true);
	assert_true(now < before && now > before / 4);
	assert_int_equal(before - now, STAT(evictions) - last);
	assert_store(NULL);
	shrink(1);
	assert_true(check_values(true) > 0);
	assert_store(NULL);
}

/* Pinned items are moved and never evicted. */
static void pinned(void **state)
{
	uint64_t key;

	(void)state;
	value_make(value, 5000, 7, 0);
	for (key = 0; key < 550; key++) {
		struct table_change change = { .key = &key,
					       .key_len = sizeof(key),
					       .value = value,
					       .value_len = 5000,
					       .wish = { .pin = 500 } };

		assert_int_equal(table_put(&test_threads[0], hash_of(&key, sizeof(key)), &change),
				 WIRE_OK);
	}
	for (; key < 4000; key++)
		put(key, 3000);
	shrink(2);
	for (key = 0; key < 550; key++) {
		struct store_value header;

		assert_int_equal(test_store_get(&store, &key, sizeof(key), got, sizeof(got),
						&header),
				 WIRE_OK);
	}
	assert_store(NULL);
	/* One extent is too small for them. */
	assert_int_equal(store_close_extents(&store, 1), 0);
	assert_int_equal(closing_end(), EXTENTS_FAILED);
	assert_string_equal(why, "pinned items find no room in the new size");
	check_parts(2);
}

/* A block that is being written stays until the item is valid, and then moves. */
static void written(void **state)
{
	struct table_change change[2];
	struct item *item[2];
	uint64_t keys[2] = { 1, 2 };

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		lengths[keys[i]] = i ? LARGE : 100;
		change[i] = (struct table_change){ .key = &keys[i],
						   .key_len = sizeof(keys[i]),
						   .value_len = lengths[keys[i]] };
		item[i] = table_reserve(&test_threads[0], &change[i]);
		assert_non_null(item[i]);
		assert_true(region_offset(&store.region, item[i]) > 2 * EXTENT);
	}
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(store_close_extents(&store, 2), 0);
		assert_int_equal(put(3, 3000), WIRE_OK);
		for (unsigned int n = 0; n < 50; n++) {
			const struct timespec ms = { 0, 1000000 };

			rcu_thread_offline();
			nanosleep(&ms, NULL);
			rcu_thread_online();
			assert_int_equal(store_extents_state(&store, why, sizeof(why)),
					 EXTENTS_CLOSING);
		}
		if (i)
			break;
		store_close_cancel(&store);
		assert_int_equal(closing_end(), EXTENTS_IDLE);
		check_parts(3);
	}
	for (unsigned int i = 0; i < 2; i++) {
		value_make(table_reserved_value(item[i]), lengths[keys[i]], keys[i],
			   lengths[keys[i]]);
		assert_int_equal(table_commit(&test_threads[0], hash_of(&keys[i], sizeof(keys[i])),
					      item[i], &change[i]),
				 WIRE_OK);
	}
	assert_int_equal(closing_end(), EXTENTS_CLOSED);
	region_cut(&store.region);
	assert_int_equal(check_values(false), 3);
	assert_store(NULL);
}

/* The end of the maintenance thread ends a closing. */
static void stopped(void **state)
{
	uint64_t key = 1;
	const struct table_change change = { .key = &key, .key_len = sizeof(key), .value_len = 9 };
	struct item *item = table_reserve(&test_threads[0], &change);

	(void)state;
	assert_int_equal(store_close_extents(&store, 1), 0);
	rcu_thread_offline();
	store_stop(&store);
	rcu_thread_online();
	check_parts(3);
	table_abandon(&test_threads[0], item);
	assert_int_equal(store_start(&store, NULL), 0);
	shrink(1);
}

/* A READ of a block whose length is rounded up as in a slot ends in the block's extent. */
static void ends_of_extents(void **state)
{
	const struct memory *memory = store.memory;
	unsigned int at_ends = 0;

	(void)state;
	grow(4);
	/* Blocks of which slabs of 64 KiB have no rest that is long enough. */
	for (uint64_t key = 0; !test_store_put(&store, &key, sizeof(key), value, 40, NULL);)
		key++;
	for (uint32_t i = 0; i < memory->slabs_used; i++) {
		const struct slab *slab = &memory->slabs[i];
		uint32_t bytes = memory->classes[slab->class_id].bytes;
		uint64_t last, pages = slab->page + slab->pages;

		if (!slab->blocks || pages % (EXTENT / PAGE_BYTES))
			continue;
		last = region_offset(&store.region, slab_block(memory, slab, slab->blocks - 1u));
		at_ends++;
		assert_true(last + (bytes + SLOT_UNIT - 1) / SLOT_UNIT * SLOT_UNIT <=
			    pages * PAGE_BYTES);
	}
	assert_true(at_ends >= 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(grows),
		TEST(shrinks),
		TEST(does_not_fit),
		TEST(does_not_fit_whole),
		cmocka_unit_test_setup_teardown(index_does_not_fit, setup_wide, teardown),
		cmocka_unit_test_setup_teardown(evicts, setup_evicts, teardown),
		cmocka_unit_test_setup_teardown(pinned, setup_evicts, teardown),
		TEST(written),
		TEST(stopped),
		cmocka_unit_test_setup_teardown(ends_of_extents, setup_wide, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
