/* SPDX-License-Identifier: MIT */
/*
 * Tests of access times: what an access field becomes with each use, and how cold an item is by it,
 * from tick to tick, also where the fields' few bits come around.
 */
#include "server/store/access_time.h"

#include "server/store/update.h"
#include "tests/support/store_test.h"

#define REGION_BYTES (4u << 20)
#define SHARE 25u
#define TIME_MAX 3600u

/* As in server/store/access_time.c: of LFU's counter. */
#define FIRST 5u
#define MAX 127u
#define UNIT 512u

static struct store_thread *const thread = &test_threads[0];

static int create(enum eviction_policy policy)
{
	const struct store_options options = { .fill = STORE_NO_GROWTH,
					       .eviction = policy,
					       .pin_share = SHARE,
					       .pin_time_max = TIME_MAX };

	test_store_create_with(&store, REGION_BYTES, 4, 1, &options);
	set_now(ENGINE_NOW_NS);
	return 0;
}

static int setup_lru(void **state)
{
	(void)state;
	return create(EVICTION_LRU);
}

static int setup_lfu(void **state)
{
	(void)state;
	return create(EVICTION_LFU);
}

static int setup_none(void **state)
{
	(void)state;
	return create(EVICTION_NONE);
}

static int teardown(void **state)
{
	(void)state;
	test_store_destroy(&store);
	return 0;
}

static void set_tick(uint32_t tick)
{
	atomic_store(&store.table.tick, tick);
}

static uint32_t tick(void)
{
	return atomic_load(&store.table.tick);
}

static uint32_t coldness_until(uint16_t access, uint32_t expires)
{
	struct item item = { .expires = expires };

	item_access_store(&item, access);
	return access_time_coldness(thread, &item);
}

static uint32_t coldness(uint16_t access)
{
	return coldness_until(access, 0);
}

static uint16_t stored(uint32_t pin, bool low)
{
	return access_time_store(thread, NULL, &(struct access_wish){ .pin = pin, .low = low });
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(eviction_policy_name(EVICTION_NONE), "none");
	assert_string_equal(eviction_policy_name(EVICTION_LRU), "lru");
	assert_string_equal(eviction_policy_name(EVICTION_LFU), "lfu");
}

/* The ticks since the last use, also when the clock has more bits than the field. */
static void lru_counts_ticks(void **state)
{
	static const uint32_t begins[] = { 0, 77, ACCESS_TIME - 3, 5 * (ACCESS_TIME + 1) - 2 };
	uint16_t access;

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		set_tick(begins[i]);
		access = access_time_initial(thread);
		assert_false(access & ACCESS_LOW);
		assert_int_equal(coldness(access), 1);
		set_tick(begins[i] + 10);
		assert_int_equal(coldness(access), 11);
		assert_int_equal(coldness(access_time_update(thread, access)), 1);
		set_tick(begins[i] + ACCESS_TIME);
		assert_int_equal(coldness(access), ACCESS_TIME + 1);
	}
}

/* The counter falls by one in each unit, down to 0 and no further, whatever the clock says. */
static void lfu_falls(void **state)
{
	static const uint32_t begins[] = { 0, 3, 126, 128, 1000 };
	uint16_t access;

	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		set_tick(begins[i] * UNIT);
		access = access_time_initial(thread);
		assert_false(access & ACCESS_LOW);
		for (uint32_t units = 0; units <= MAX; units++) {
			set_tick((begins[i] + units) * UNIT + UNIT - 1);
			assert_int_equal(coldness(access),
					 MAX + 1 - (units < FIRST ? FIRST - units : 0));
		}
	}
}

/* A use takes off what has fallen since the last one, and no more the next time. */
static void lfu_use_after_units(void **state)
{
	uint16_t access = MAX;

	(void)state;
	set_tick(300 * UNIT);
	access = (uint16_t)(300 % (MAX + 1) << 8 | 100);
	assert_int_equal(coldness(access), MAX + 1 - 100);
	set_tick(320 * UNIT);
	thread->random = 1;
	access = access_time_update(thread, access);
	assert_in_range(coldness(access), MAX - 80, MAX + 1 - 80);
	/* One that has fallen to the first value or below rises with each use. */
	access = access_time_initial(thread);
	for (unsigned int i = 0; i < 50; i++)
		assert_int_equal(coldness(access_time_update(thread, access)), MAX - FIRST);
	set_tick(323 * UNIT);
	for (unsigned int i = 0; i < 50; i++)
		assert_int_equal(coldness(access_time_update(thread, access)), MAX - FIRST + 3);
}

static uint16_t used(uint16_t access, unsigned int times)
{
	while (times--)
		access = access_time_update(thread, access);
	return access;
}

/* Each use counts less than the one before: some 100 uses are far from the most that is counted. */
static void lfu_counts_logarithmically(void **state)
{
	uint32_t little, much;

	(void)state;
	thread->random = 0x9e3779b97f4a7c15;
	set_tick(40 * UNIT);
	little = coldness(used(access_time_initial(thread), 100));
	assert_in_range(little, MAX - 40, MAX - FIRST - 2);
	much = coldness(used(access_time_initial(thread), 3000));
	assert_in_range(much, MAX - 90, little - 20);
	/* No more than that: it would count as pinned. */
	assert_int_equal(coldness(used(access_time_initial(thread), 200000)), 1);
}

/* What is of low priority is colder than all others, and the coldest was stored first. */
static void low_priority(enum eviction_policy policy)
{
	uint16_t first, second;

	create(policy);
	set_tick(ACCESS_TIME_LOW - 1);
	first = stored(0, true);
	assert_true(access_is_low(first) && !access_is_pin(first));
	assert_int_equal(coldness(first), COLDNESS_LOW);
	set_tick(ACCESS_TIME_LOW + 3);
	second = stored(0, true);
	assert_int_equal(coldness(second), COLDNESS_LOW);
	assert_int_equal(coldness(first), COLDNESS_LOW + 4);
	/* No use changes that, until it is stored again. */
	assert_int_equal(used(first, 10), first);
	assert_true(coldness(stored(0, false)) < COLDNESS_LOW);
	teardown(NULL);
}

static void low(void **state)
{
	(void)state;
	low_priority(EVICTION_LRU);
	low_priority(EVICTION_LFU);
}

/* A new value of an item that has been used is as warm as one more use; of a low one, as a new. */
static void replaced(void **state)
{
	const struct access_wish none = { 0 };
	struct item old = { 0 };

	(void)state;
	set_tick(40 * UNIT);
	item_access_store(&old, (uint16_t)(40 << 8 | FIRST));
	assert_int_equal(coldness(access_time_store(thread, &old, &none)), MAX - FIRST);
	item_access_store(&old, stored(0, true));
	assert_int_equal(coldness(access_time_store(thread, &old, &none)), MAX - FIRST + 1);
	assert_int_equal(coldness(access_time_store(thread, NULL, &none)), MAX - FIRST + 1);
}

static struct item *item_of(const struct table_change *change)
{
	return region_at(&store.region, slot_offset(change->slot));
}

/* Each change of a key is a use of its item, and none forgets those before it. */
static void changes_are_uses(void **state)
{
	static const enum wire_put modes[] = { WIRE_SET, WIRE_REPLACE, WIRE_APPEND, WIRE_PREPEND };
	struct table_change change = { .key = "k", .key_len = 1, .value = "1", .value_len = 1 };
	const uint64_t hash = hash_of("k", 1);
	uint16_t access;

	(void)state;
	set_tick(40 * UNIT);
	assert_int_equal(table_put(thread, hash, &change), WIRE_OK);
	access = used(item_access_load(item_of(&change)), 1000);
	change.delta = 1;
	for (unsigned int i = 0; i < 6; i++) {
		item_access_store(item_of(&change), access);
		thread->random = 1;
		set_tick(41 * UNIT);
		if (i < 4) {
			change.mode = modes[i];
			assert_int_equal(table_put(thread, hash, &change), WIRE_OK);
		} else if (i == 4) {
			assert_int_equal(table_arith(thread, hash, &change), WIRE_OK);
		} else {
			assert_int_equal(table_touch(thread, hash, &change), WIRE_OK);
		}
		thread->random = 1;
		assert_int_equal(item_access_load(item_of(&change)),
				 access_time_update(thread, access));
		assert_int_not_equal(item_access_load(item_of(&change)), access);
	}
	assert_store(NULL);
}

/* A pinned item has no coldness until its pin ends; then it counts as used at that time. */
static void pinned(void **state)
{
	const struct access_wish wish = { .pin = 10 };
	uint16_t normal, low_one;
	struct item item = { 0 };
	uint64_t end_ns;

	(void)state;
	assert_int_equal(access_time_may_pin(thread, &wish, 100), WIRE_OK);
	set_tick(7);
	normal = stored(10, false);
	low_one = stored(10, true);
	end_ns = pin_until(ENGINE_NOW_NS, 10) * PIN_UNIT_NS;
	assert_true(access_is_pin(normal) && !access_is_low(normal));
	assert_true(access_is_pin(low_one) && access_is_low(low_one));
	item_access_store(&item, normal);
	set_now(end_ns - 1);
	access_time_advance_pins(thread);
	set_tick(20);
	assert_int_equal(coldness(normal), 0);
	assert_int_equal(coldness(low_one), 0);
	assert_true(access_time_is_pinned(thread, &item));
	assert_int_equal(access_time_update(thread, normal), normal);
	assert_false(access_time_is_over(thread, normal));
	/* One that has expired is not kept. */
	item.expires = (uint32_t)(ENGINE_NOW_NS / SECOND_NS);
	assert_false(access_time_is_pinned(thread, &item));
	assert_int_equal(coldness_until(normal, item.expires), UINT32_MAX);
	item.expires = 0;
	/* The very instant at which it ends. */
	set_now(end_ns);
	access_time_advance_pins(thread);
	set_tick(25);
	assert_int_equal(coldness(normal), 6);
	assert_int_equal(coldness(low_one), COLDNESS_LOW + 5);
	assert_false(access_time_is_pinned(thread, &item));
	assert_true(access_time_is_over(thread, normal));
	assert_int_equal(coldness(access_time_update(thread, normal)), 1);
	assert_int_equal(coldness(access_time_update(thread, low_one)), COLDNESS_LOW + 5);
}

/* What may be pinned is a share of the memory, in whole blocks as they are allocated. */
static void share(void **state)
{
	const uint64_t most = memory_bytes(store.memory) / 100 * SHARE;
	const struct access_wish wish = { .pin = 10 };
	struct pins_stats stats;
	uint16_t access;
	size_t bytes = 100;

	(void)state;
	/* Their block is larger by more than what the last one leaves. */
	while (mem_class_bytes(bytes) - bytes <= most % mem_class_bytes(bytes))
		bytes++;
	access = stored(10, false);
	for (uint64_t n = 0; n < most / mem_class_bytes(bytes); n++) {
		assert_int_equal(access_time_may_pin(thread, &wish, bytes), WIRE_OK);
		assert_true(access_time_pin(thread, access, bytes, 0));
	}
	pins_stats(store.pins, &stats);
	assert_true(stats.bytes <= most);
	assert_true(stats.bytes + mem_class_bytes(bytes) > most);
	assert_int_equal(access_time_may_pin(thread, &wish, bytes), WIRE_BUSY);
	assert_false(access_time_pin(thread, access, bytes, 0));
	/* In place of one of the class there is room for another. */
	assert_true(access_time_pin(thread, access, bytes, bytes));
	for (uint64_t n = 0; n <= most / mem_class_bytes(bytes); n++)
		pins_give(store.pins, access, mem_class_bytes(bytes));
	pins_stats(store.pins, &stats);
	assert_int_equal(stats.bytes + stats.fields, 0);
}

/* 1,024 ticks while as many keys are added as there are; one with each key while there are few. */
static void ticks(void **state)
{
	static const struct {
		int64_t items;
		uint32_t each;
	} cases[] = {
		{ 0, 1 }, { 1023, 1 }, { 2047, 1 }, { 2048, 2 }, { 10240, 10 }, { 11263, 10 }
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const uint32_t begin = tick();

		atomic_store(&store.table.tick_inserts, 0);
		atomic_store(&store.table.items, cases[i].items);
		for (uint32_t n = 1; n <= 5 * cases[i].each; n++) {
			access_time_tick(&store.table);
			assert_int_equal(tick() - begin, n / cases[i].each);
		}
	}
	atomic_store(&store.table.items, 0);
}

/* Without eviction there are no times, pins or priorities. */
static void without_eviction(void **state)
{
	(void)state;
	access_time_tick(&store.table);
	assert_int_equal(tick(), 0);
	assert_int_equal(stored(10, false), 0);
	assert_int_equal(stored(0, true), 0);
}

#define LRU(f) cmocka_unit_test_setup_teardown(f, setup_lru, teardown)
#define LFU(f) cmocka_unit_test_setup_teardown(f, setup_lfu, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		LRU(lru_counts_ticks),
		LFU(lfu_falls),
		LFU(lfu_use_after_units),
		LFU(lfu_counts_logarithmically),
		cmocka_unit_test(low),
		LFU(replaced),
		LFU(changes_are_uses),
		LRU(pinned),
		LRU(share),
		LRU(ticks),
		cmocka_unit_test_setup_teardown(without_eviction, setup_none, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
