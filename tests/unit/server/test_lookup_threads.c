/* SPDX-License-Identifier: MIT */
/*
 * Tests of lookups beside changes: a short item gets flags, loses them, is extended and is moved,
 * mostly where it is, and what readers verify, inside of the server or as by a READ, is whole.
 */
#include "server/store/lookup.h"

#include <pthread.h>
#include <stdalign.h>

#include <urcu-qsbr.h>

#include "server/store/table_maintain.h"
#include "server/store/update.h"
#include "tests/support/store_test.h"

#define CHANGES 200000u
#define SHORTEST 57u
#define LONGEST 66u /* two bytes were appended or prepended */

static uint64_t hash;
static _Atomic bool ended;

static int setup(void **state)
{
	const struct store_options options = { .fill = STORE_NO_GROWTH };

	(void)state;
	test_store_create_with(&store, 4u << 20, 6, 2, &options);
	set_now(ENGINE_NOW_NS);
	hash = hash_of("key", 3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_store_destroy(&store);
	return 0;
}

/* All bytes of a value are alike, and say whether there are flags, and which. */
static uint8_t byte_of(uint32_t flags, uint32_t n)
{
	return (uint8_t)(flags ? 0x80 | (flags & 0x7f) : n & 0x7f);
}

static void change(struct store_thread *thread, uint32_t n)
{
	const uint32_t flags = n % 3 ? 0 : n | 1u << 24;
	uint8_t value[64];
	struct table_change put = { .key = "key",
				    .key_len = 3,
				    .value = value,
				    .value_len = (flags ? 60 : 64) - n / 8 % 4,
				    .flags = flags },
			    extend = { .key = "key",
				       .key_len = 3,
				       .mode = n & 1 ? WIRE_APPEND : WIRE_PREPEND,
				       .value = value,
				       .value_len = 2 };

	memset(value, byte_of(flags, n), sizeof(value));
	assert_int_equal(table_put(thread, hash, &put), WIRE_OK);
	if (n % 7 == 0)
		assert_int_equal(table_put(thread, hash, &extend), WIRE_OK);
	if (n % 1000 == 0)
		table_move_block(thread, hash, slot_item(&store.table, put.slot));
	rcu_quiescent_state();
}

static void *changes(void *arg)
{
	(void)arg;
	rcu_register_thread();
	for (uint32_t n = 0; n < CHANGES; n++)
		change(&test_threads[0], n);
	rcu_unregister_thread();
	atomic_store(&ended, true);
	return NULL;
}

static void assert_whole(const uint8_t *value, uint32_t len, uint32_t flags)
{
	assert_in_range(len, SHORTEST, LONGEST);
	assert_int_equal(value[0], byte_of(flags, value[0]));
	for (uint32_t i = 1; i < len; i++)
		assert_int_equal(value[i], value[0]);
}

/* As a client does: copies bytes and verifies the copy. */
static bool read_copy(const struct item *item)
{
	const struct region *region = store.table.region;
	union {
		struct item item;
		alignas(64) uint8_t bytes[ITEM_SHORT_BYTES_MAX];
	} copy;

	racy_copy(copy.bytes, item, sizeof(copy.bytes));
	if (copy.item.sum == ITEM_SUM_INVALID || item_is_long(&copy.item) ||
	    item_key_len(&copy.item) != 3 || item_bytes(&copy.item) > sizeof(copy.bytes) ||
	    item_sum(&copy.item, &region->sum_key, region->geometry.incarnation,
		     region_offset(region, item)) != copy.item.sum)
		return false;
	assert_whole(item_value(&copy.item), item_value_len(&copy.item), item_flags(&copy.item));
	return true;
}

static void flags_come_and_go(void **state)
{
	uint64_t lookups = 0, copies = 0;
	uint8_t value[LONGEST];
	struct item_ref ref;
	pthread_t thread;

	(void)state;
	change(&test_threads[0], 0);
	assert_int_equal(pthread_create(&thread, NULL, changes, NULL), 0);
	while (!atomic_load(&ended)) {
		if (!lookup_get(&test_threads[1], hash, "key", 3, value, sizeof(value), &ref)) {
			assert_whole(value, item_value_len(&ref.front.item),
				     item_flags(&ref.front.item));
			lookups++;
			for (unsigned int i = 0; i < 10; i++)
				copies += read_copy(ref.item);
		}
		rcu_quiescent_state();
	}
	/* The thread waits for grace periods. */
	rcu_thread_offline();
	pthread_join(thread, NULL);
	rcu_thread_online();
	print_message("%llu lookups, %llu copies verified, %llu changes in place\n",
		      (unsigned long long)lookups, (unsigned long long)copies,
		      (unsigned long long)STAT(replaces_in_place));
	assert_true(STAT(replaces_in_place) > CHANGES / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(flags_come_and_go, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
