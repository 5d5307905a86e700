/* SPDX-License-Identifier: MIT */
/*
 * Tests of the store as a whole: what is left of one that could not be created, wherever that
 * failed, and what it tells clients once a second.
 */
#include "server/store/store.h"

#include <errno.h>

static bool no_memory, no_pins;

static int test_memory_create(struct memory **memory, struct region *region, uint64_t index_bytes)
{
	*memory = NULL;
	return no_memory ? -ENOMEM : memory_create(memory, region, index_bytes);
}

static struct pins *test_pins_create(struct keep *keep)
{
	return no_pins ? NULL : pins_create(keep);
}

#define memory_create test_memory_create
#define pins_create test_pins_create
#include "server/store/store.c"
#undef memory_create
#undef pins_create

#include "tests/support/store_test.h"

#define REGION_BYTES (8u << 20)

/* Nothing is held, and it may be created again. */
static void creation_fails(void **state)
{
	struct store_options options = {
		.bytes = REGION_BYTES, .level = 6, .value_max = 1u << 20, .fill = 65
	};

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		no_memory = i == 0;
		no_pins = i == 1;
		assert_int_equal(store_create(&store, &options), i < 2 ? -ENOMEM : 0);
		assert_int_equal(!store.region.base, i < 2);
		assert_int_equal(!store.region.extent_count, i < 2);
		assert_int_equal(!store.memory, i < 2);
		assert_int_equal(!store.pins, i < 2);
		store_destroy(&store);
		assert_null(store.region.base);
		assert_null(store.memory);
		assert_null(store.pins);
		/* Once more does nothing. */
		store_destroy(&store);
	}
	options.level = 30;
	assert_int_equal(store_create(&store, &options), -EINVAL);
	assert_null(store.region.base);
	store_destroy(&store);
}

/* Cancelled, while memory is filled or while the index is formatted, it leaves nothing. */
static void creation_is_cancelled(void **state)
{
	const _Atomic bool cancel = true;
	struct store_options options = {
		.bytes = REGION_BYTES, .level = 6, .value_max = 1u << 20, .cancel = &cancel
	};

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		options.prefault = i & 1;
		options.hugepages = i & 2 ? HUGEPAGES_AUTO : HUGEPAGES_OFF;
		assert_int_equal(store_create(&store, &options), -ECANCELED);
		assert_null(store.region.base);
		assert_null(store.memory);
		assert_null(store.pins);
	}
}

/* Clients read the clock in seconds, and how many keys there are now. */
static void told_by_the_superblock(void **state)
{
	const struct superblock *super;
	uint32_t youngest_s;
	uint64_t key;

	(void)state;
	test_store_create(&store, REGION_BYTES, 6, 2);
	super = region_superblock(&store.region);
	set_now(ENGINE_NOW_NS);
	assert_false(store_tick(&store, &youngest_s));
	assert_in_range(super->clock_s, ENGINE_NOW_NS / SECOND_NS, ENGINE_NOW_NS / SECOND_NS + 60);
	assert_int_equal(super->items, 0);
	for (key = 0; key < 10; key++)
		assert_int_equal(test_store_put(&store, &key, 8, "v", 1, NULL), WIRE_OK);
	/* Not one of them twice. */
	assert_int_equal(test_store_put(&store, &(uint64_t){ 3 }, 8, "w", 1, NULL), WIRE_OK);
	assert_int_equal(super->items, 0);
	assert_false(store_tick(&store, &youngest_s));
	assert_int_equal(super->items, 10);
	for (key = 0; key < 4; key++)
		assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
	set_now(ENGINE_NOW_NS + 1000 * SECOND_NS);
	assert_false(store_tick(&store, &youngest_s));
	assert_int_equal(super->items, 6);
	assert_int_equal(store_items(&store), 6);
	assert_in_range(super->clock_s, ENGINE_NOW_NS / SECOND_NS + 1000,
			ENGINE_NOW_NS / SECOND_NS + 1060);
	assert_store(NULL);
	test_store_destroy(&store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(creation_fails),
		cmocka_unit_test(creation_is_cancelled),
		cmocka_unit_test(told_by_the_superblock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
