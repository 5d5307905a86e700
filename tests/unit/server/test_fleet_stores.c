/* SPDX-License-Identifier: MIT */
/*
 * Tests of the stores of all tenants of a fleet's member (STORES-1, STORES-2 in
 * server/fleet/fleet_stores.h): all have the newest word, also one that is made later or replaces
 * another; and what is dropped goes from all of them, however a resize and the drop meet.
 */
#include "server/fleet/fleet_stores.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/stat.h"

#define STORES 3u
#define REGION_BYTES (8u << 20)
#define KEYS 500u
#define DEADLINE_NS 300000000000ull

static struct side {
	struct store store;
	struct store_thread thread;
} sides[STORES];
static struct fleet_stores stores;
static uint64_t shards[FLEET_SHARDS / 64];

static void side_create(struct side *side)
{
	const struct store_options options = {
		.bytes = REGION_BYTES,
		.hugepages = HUGEPAGES_OFF,
		.level = INDEX_LEVEL_MIN,
		.value_max = REGION_BYTES / 8,
		.fill = 65,
		.sweep_share = 1,
		.hash_seed = 0x77,
	};

	assert_int_equal(store_create(&side->store, &options), 0);
	assert_int_equal(store_thread_init(&side->thread, &side->store.table, 0), 0);
}

static int setup(void **state)
{
	(void)state;
	fleet_stores_init(&stores);
	for (unsigned int i = 0; i < STORES; i++)
		side_create(&sides[i]);
	/* Each second one, with an even number. */
	memset(shards, 0x55, sizeof(shards));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < STORES; i++) {
		fleet_stores_remove(&stores, &sides[i].store);
		store_stop(&sides[i].store);
		store_thread_release(&sides[i].thread);
		store_destroy(&sides[i].store);
	}
	fleet_stores_release(&stores);
	return 0;
}

static bool is_there(struct side *side, uint32_t key)
{
	uint64_t hash = table_hash(&side->store.table, &key, sizeof(key));
	struct item_ref ref;

	return lookup_get(&side->thread, hash, &key, sizeof(key), NULL, 0, &ref) == WIRE_OK;
}

static void put(struct side *side, uint32_t key)
{
	struct table_change change = {
		.key = &key, .key_len = sizeof(key), .mode = WIRE_SET, .value = "v", .value_len = 1
	};

	assert_int_equal(table_put(&side->thread, table_hash(&side->store.table, &key, sizeof(key)),
				   &change),
			 WIRE_OK);
}

/* The store of a tenant: it is started, and added. */
static void begin(struct side *side)
{
	for (uint32_t key = 0; key < KEYS; key++)
		put(side, key);
	assert_int_equal(store_start(&side->store, NULL), 0);
	fleet_stores_add(&stores, &side->store, "default");
}

static void wait_until_dropped(void)
{
	const struct timespec ms = { 0, 1000000 };
	uint64_t deadline_ns = clock_ns() + DEADLINE_NS;

	while (!fleet_stores_dropped(&stores)) {
		assert_true(clock_ns() < deadline_ns);
		nanosleep(&ms, NULL);
	}
}

static void assert_left(struct side *side)
{
	for (uint32_t key = 0; key < KEYS; key++) {
		uint64_t hash = table_hash(&side->store.table, &key, sizeof(key));

		assert_int_equal(is_there(side, key), fleet_shard(hash) & 1);
	}
}

/* As a client READs it. */
static void assert_word(const struct side *side, uint64_t generation, uint64_t epoch,
			uint64_t end_ns)
{
	const struct superblock *super = region_superblock(&side->store.region);
	struct fleet_word word;

	assert_true(super->word.generation == generation);
	assert_true(super->word.epoch == epoch);
	assert_true(super->word.end_ns == end_ns);
	assert_true(super->word.sum == fleet_word_sum(&super->word, super->geometry.incarnation));
	assert_true(store_word(&side->store, &word));
	assert_memory_equal(&word, &super->word, sizeof(word));
}

static void the_newest_word(void **state)
{
	static const struct fleet_word none;
	struct fleet_word word = { .generation = 3, .epoch = 7, .end_ns = 1000 };

	(void)state;
	/* A server in no fleet has zeros. */
	assert_memory_equal(&region_superblock(&sides[0].store.region)->word, &none, sizeof(none));
	assert_false(store_word(&sides[0].store, &word));
	word = (struct fleet_word){ .generation = 3, .epoch = 7, .end_ns = 1000 };
	begin(&sides[0]);
	assert_word(&sides[0], 0, 0, 0);
	fleet_stores_word(&stores, &word);
	assert_word(&sides[0], 3, 7, 1000);
	begin(&sides[1]);
	assert_word(&sides[1], 3, 7, 1000);
	word.end_ns = 2000;
	fleet_stores_word(&stores, &word);
	for (unsigned int i = 0; i < 2; i++)
		assert_word(&sides[i], 3, 7, 2000);
	/* One that was removed, which need not be there, stays as it is. */
	fleet_stores_remove(&stores, &sides[1].store);
	fleet_stores_remove(&stores, &sides[1].store);
	word.epoch = 8;
	fleet_stores_word(&stores, &word);
	assert_word(&sides[0], 3, 8, 2000);
	assert_word(&sides[1], 3, 7, 2000);
	maintenance_stop(&sides[0].store.maintenance);
	assert_int_equal(store_start(&sides[2].store, &sides[0].store), 0);
	fleet_stores_replace(&stores, &sides[0].store, &sides[2].store);
	assert_word(&sides[2], 3, 8, 2000);
	word.epoch = 9;
	fleet_stores_word(&stores, &word);
	assert_word(&sides[2], 3, 9, 2000);
	assert_word(&sides[0], 3, 8, 2000);
}

/* A store that leaves marks nothing, and one that takes its place has versions above its own. */
static void marks_and_versions(void **state)
{
	static struct moving moving;
	struct fleet_stores *list = &stores;
	unsigned int count;
	uint64_t changes;

	(void)state;
	begin(&sides[0]);
	begin(&sides[1]);
	changes = fleet_stores_lock(list, &count);
	assert_int_equal(count, 2);
	for (unsigned int i = 0; i < 2; i++)
		moving_begin(&sides[i].store.table, &moving);
	fleet_stores_let_go(list);
	assert_true(fleet_stores_hold(list, changes));
	fleet_stores_let_go(list);
	maintenance_stop(&sides[0].store.maintenance);
	assert_int_equal(store_start(&sides[2].store, &sides[0].store), 0);
	table_raise_versions(&sides[0].store.table, 1ull << 55);
	fleet_stores_replace(list, &sides[0].store, &sides[2].store);
	assert_true(table_clock_max(&sides[2].store.table) >= 1ull << 55);
	assert_false(fleet_stores_hold(list, changes));
	assert_null(atomic_load(&sides[0].store.table.moving));
	assert_non_null(atomic_load(&sides[1].store.table.moving));
	moving_end(&sides[1].store.table);
}

static void dropped_from_all(void **state)
{
	(void)state;
	begin(&sides[0]);
	begin(&sides[1]);
	assert_true(fleet_stores_dropped(&stores));
	fleet_stores_drop(&stores, shards);
	wait_until_dropped();
	assert_left(&sides[0]);
	assert_left(&sides[1]);
	/* An empty set ends, too. */
	memset(shards, 0, sizeof(shards));
	fleet_stores_drop(&stores, shards);
	wait_until_dropped();
	memset(shards, 0x55, sizeof(shards));
	assert_left(&sides[0]);
}

enum meeting { BEFORE_THE_COPY, AFTER_THE_COPY, AFTER_THE_START };

/*
 * A tenant is resized, as server/control/tenant_job.c does it, and the drop comes at some time: the
 * new store has no dropped item in the end, and it is not said before.
 */
static void resized(enum meeting meeting)
{
	struct side *old = &sides[0], *made = &sides[1];
	struct store_thread *threads[] = { &made->thread };
	_Atomic bool stop = false;

	begin(old);
	maintenance_stop(&old->store.maintenance);
	if (meeting == BEFORE_THE_COPY)
		fleet_stores_drop(&stores, shards);
	assert_int_equal(resize_fill(threads, 1, &old->store.table, &stop), 0);
	for (uint32_t key = 0; key < KEYS; key++)
		assert_true(is_there(made, key));
	if (meeting == AFTER_THE_COPY)
		fleet_stores_drop(&stores, shards);
	assert_int_equal(store_start(&made->store, &old->store), 0);
	if (meeting == AFTER_THE_START)
		fleet_stores_drop(&stores, shards);
	assert_false(fleet_stores_dropped(&stores));
	fleet_stores_replace(&stores, &old->store, &made->store);
	wait_until_dropped();
	assert_left(made);
}

static void dropped_before_the_copy(void **state)
{
	(void)state;
	resized(BEFORE_THE_COPY);
}

static void dropped_after_the_copy(void **state)
{
	(void)state;
	resized(AFTER_THE_COPY);
}

static void dropped_after_the_start(void **state)
{
	(void)state;
	resized(AFTER_THE_START);
}

/* The drop is under way when the old store stops; what it has done so far does not count. */
static void dropped_in_the_middle(void **state)
{
	struct side *old = &sides[0], *made = &sides[1];
	struct store_thread *threads[] = { &made->thread };
	const struct timespec ms = { 0, 1000000 };
	_Atomic bool stop = false;

	(void)state;
	begin(old);
	/* The pass can't end. */
	atomic_store(&old->store.table.growing, 1);
	fleet_stores_drop(&stores, shards);
	while (!stat_read(&old->store.maintenance.store_thread.stats.dropped))
		nanosleep(&ms, NULL);
	maintenance_stop(&old->store.maintenance);
	assert_int_equal(resize_fill(threads, 1, &old->store.table, &stop), 0);
	for (uint32_t key = 0; key < KEYS; key++)
		put(made, key);
	assert_int_equal(store_start(&made->store, &old->store), 0);
	fleet_stores_replace(&stores, &old->store, &made->store);
	wait_until_dropped();
	assert_left(made);
	atomic_store(&old->store.table.growing, 0);
}

/* A resize that fails: the old store goes on, and so does its drop. */
static void resize_fails(void **state)
{
	(void)state;
	begin(&sides[0]);
	maintenance_stop(&sides[0].store.maintenance);
	fleet_stores_drop(&stores, shards);
	assert_false(fleet_stores_dropped(&stores));
	assert_int_equal(maintenance_start(&sides[0].store.maintenance), 0);
	wait_until_dropped();
	assert_left(&sides[0]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_newest_word),	      CASE(marks_and_versions),
		CASE(dropped_from_all),	      CASE(dropped_before_the_copy),
		CASE(dropped_after_the_copy), CASE(dropped_after_the_start),
		CASE(dropped_in_the_middle),  CASE(resize_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
