/* SPDX-License-Identifier: MIT */
/*
 * Extents are not closed before all of their pages were looked at, whatever other threads do
 * between two steps. The test takes the steps of the maintenance thread itself.
 */
#include "server/store/extents.c"

#include "tests/support/store_test.h"

#define EXTENT ((uint64_t)2 << 20)
#define VALUE_BYTES 3000u
#define KEYS_FIRST 550u /* in both extents */
#define KEYS_MAX 4000u

static uint8_t value[VALUE_BYTES], got[VALUE_BYTES];

static int setup(void **state)
{
	struct store_options options = {
		.bytes_max = EXTENTS_MAX * EXTENT,
		.fill = STORE_NO_GROWTH,
		.eviction = EVICTION_NONE,
		.sweep_share = 5,
	};

	(void)state;
	rcu_register_thread();
	test_store_create_with(&store, 2 * EXTENT, 10, 1, &options);
	set_now(ENGINE_NOW_NS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	extents_release(&store.maintenance.extents);
	test_store_destroy(&store);
	rcu_unregister_thread();
	return 0;
}

static bool put(uint64_t key)
{
	return !test_store_put(&store, &key, sizeof(key), value, VALUE_BYTES, NULL);
}

static bool is_there(uint64_t key)
{
	struct store_value header;

	return !test_store_get(&store, &key, sizeof(key), got, sizeof(got), &header);
}

/* Where the key's item is. */
static uint64_t offset_of(uint64_t key)
{
	uint64_t hash = hash_of(&key, sizeof(key));
	const struct bucket *bucket, *home = index_home(&store.table, hash);

	chain_for_each(&store.table, bucket, home) {
		for (unsigned int i = 0; i < BUCKET_SLOTS; i++) {
			const struct item *item;

			if (!bucket->slots[i])
				continue;
			item = slot_item(&store.table, bucket->slots[i]);
			if (!memcmp(item_key(item), &key, sizeof(key)))
				return region_offset(&store.region, item);
		}
	}
	return 0;
}

/*
 * Of the first pages so many items find no room that the pass ends early; and before it does, they
 * are deleted. The items of the pages after them are still there.
 */
static void a_pass_that_ends_early(void **state)
{
	struct extents *extents = &store.maintenance.extents;
	struct store_thread *thread = &test_threads[0];
	uint64_t key, first, end, rest[KEYS_MAX], rest_count = 0;

	(void)state;
	for (key = 0; key < KEYS_FIRST; key++)
		assert_true(put(key));
	assert_int_equal(extents_close(extents, &store.table, 1), 0);
	while (extents->phase == EXTENTS_CLOSE)
		extents_step(extents, thread);
	while (put(key))
		key++;
	while (extents->emptying.left < NO_ROOM_ITEMS) {
		assert_int_equal(extents->phase, EXTENTS_EMPTY);
		extents_step(extents, thread);
	}
	first = (uint64_t)extents->emptying.evacuation.page * PAGE_BYTES;
	end = (uint64_t)extents->next * PAGE_BYTES;
	assert_true(extents->empties && extents->next < extents->closed);
	for (key = 0; key < KEYS_FIRST; key++) {
		uint64_t offset = offset_of(key);

		if (offset >= end)
			rest[rest_count++] = key;
		else if (offset >= first)
			assert_int_equal(test_store_delete(&store, &key, sizeof(key)), WIRE_OK);
	}
	assert_true(rest_count);
	while (atomic_load(&extents->state) == EXTENTS_CLOSING) {
		extents_step(extents, thread);
		extents->next_ns = 0;
		rcu_quiescent_state();
	}
	for (uint64_t i = 0; i < rest_count; i++) {
		assert_true(is_there(rest[i]));
		if (atomic_load(&extents->state) == EXTENTS_CLOSED)
			assert_true(offset_of(rest[i]) < EXTENT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_pass_that_ends_early, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
