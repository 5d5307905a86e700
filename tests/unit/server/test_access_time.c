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

/* As in server/store/access_time.c. */
#define YOUNG_MAX (ACCESS_TICKS / 4)
#define OLD_MAX (ACCESS_TICKS * 4)
#define USES_MAX 15u
#define UNIT 16u

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

static int setup(void **state)
{
	(void)state;
	return create(EVICTION_OBJECT_HITS);
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

/* Coldness of a short item, which takes three units of memory. */
static uint64_t coldness_until(uint16_t access, uint32_t expires)
{
	union item_front front = { .item.expires = expires };

	item_access_store(&front.item, access);
	return access_time_coldness(thread, &front.item);
}

static uint64_t coldness(uint16_t access)
{
	return coldness_until(access, 0);
}

/* What a short item of that age, which was used, has. */
static uint64_t cold(uint32_t age)
{
	if (age > OLD_MAX)
		return COLDNESS_STALE + age;
	return (age > YOUNG_MAX ? COLDNESS_OLD : 0) + (age + 1) * 3;
}

/* And one that was not used since it was stored. */
static uint64_t cold_unused(uint32_t age)
{
	return cold(age) + (age > OLD_MAX ? 0 : (age + 1) * 3);
}

static uint16_t stored(uint32_t pin, bool low)
{
	return access_time_store(thread, NULL, &(struct access_wish){ .pin = pin, .low = low });
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(eviction_policy_name(EVICTION_NONE), "none");
	assert_string_equal(eviction_policy_name(EVICTION_OBJECT_HITS), "object-hits");
	assert_string_equal(eviction_policy_name(EVICTION_BYTE_HITS), "byte-hits");
}

static uint16_t used(uint16_t access, unsigned int times)
{
	while (times--)
		access = access_time_update(thread, access, 1);
	return access;
}

/* The ticks since the last use, also when the clock has more bits than the field. */
static void ages(void **state)
{
	static const uint32_t begins[] = { 0, 77, ACCESS_TIME - 3, 5 * (ACCESS_TIME + 1) - 2 };
	static const uint32_t of[] = { 0,	10,	     YOUNG_MAX,	 YOUNG_MAX + 1,
				       OLD_MAX, OLD_MAX + 1, ACCESS_TIME };
	uint16_t access;

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		for (unsigned int j = 0; j < 7; j++) {
			set_tick(begins[i]);
			access = access_time_initial(thread);
			assert_false(access & ACCESS_LOW);
			assert_int_equal(coldness(access), cold_unused(0));
			set_tick(begins[i] + of[j]);
			assert_int_equal(coldness(access), cold_unused(of[j]));
			assert_int_equal(coldness(used(access, 1)), cold(0));
			set_tick(begins[i] + 3 * of[j]);
			access = used(access, 1);
			set_tick(begins[i] + 4 * of[j]);
			assert_int_equal(coldness(access), cold(of[j]));
		}
}

/* Kinds come in order, whatever the length is, and half of a coldness is of its kind. */
static void kinds(void **state)
{
	union item_front fronts[2] = { 0 };
	struct item *longest = &fronts[0].item, *shortest = &fronts[1].item;
	const uint16_t access = access_time_initial(thread), low = stored(0, true);
	uint64_t young, old, expired;

	(void)state;
	longest->sum = 1;
	item_set_lengths(longest, KEY_MAX, VALUE_MAX, 0);
	item_set_lengths(shortest, 1, 0, 0);
	item_access_store(longest, access);
	item_access_store(shortest, access);
	set_tick(YOUNG_MAX);
	young = access_time_coldness(thread, longest);
	assert_int_equal(coldness_kind(young), COLDNESS_IS_YOUNG);
	assert_int_equal(access_time_cost(thread, longest, 4096), 4096ull / 8 << 36);
	set_tick(YOUNG_MAX + 1);
	old = access_time_coldness(thread, shortest);
	assert_int_equal(coldness_kind(old), COLDNESS_IS_OLD);
	assert_int_equal(old, COLDNESS_OLD + 2ull * (YOUNG_MAX + 2) * 3);
	assert_int_equal(coldness_half(old), COLDNESS_OLD + (YOUNG_MAX + 2) * 3);
	set_tick(OLD_MAX);
	old = access_time_coldness(thread, longest);
	assert_int_equal(coldness_kind(old), COLDNESS_IS_OLD);
	assert_int_equal(coldness_kind(coldness_half(old)), COLDNESS_IS_OLD);
	assert_true(coldness_half(young) > young / 2 - 1 && coldness_half(young) < young);
	assert_int_equal(coldness_kind(coldness(low)), COLDNESS_IS_LOW);
	set_tick(OLD_MAX + 1);
	assert_int_equal(access_time_coldness(thread, longest), COLDNESS_STALE + OLD_MAX + 1);
	assert_int_equal(coldness_kind(coldness(access)), COLDNESS_IS_STALE);
	assert_int_equal(coldness_half(coldness(access)), COLDNESS_STALE + (OLD_MAX + 2) / 2);
	assert_int_equal(access_time_cost(thread, longest, 4096), 0);
	assert_int_equal(coldness_half(COLDNESS_LOW + 8), COLDNESS_LOW + 4);
	expired = coldness_until(access, 1);
	assert_int_equal(coldness_kind(expired), COLDNESS_IS_EXPIRED);
	assert_int_equal(coldness_half(expired), UINT64_MAX);
	assert_int_equal(coldness_half(0), 0);
}

/* With object-hits the longer one of two items of an age is the colder. */
static void lengths(void **state)
{
	union item_front front;
	struct item *item = &front.item;

	(void)state;
	item_set_lengths(item, 8, 1000, 0);
	item->expires = 0;
	item_access_store(item, access_time_initial(thread));
	set_tick(99);
	item->sum = 1;
	assert_int_equal(access_time_coldness(thread, item), COLDNESS_OLD + 2 * 100 * (1048 / 8));
	assert_int_equal(access_time_cost(thread, item, 1056), 132);
	store.table.eviction = EVICTION_BYTE_HITS;
	assert_int_equal(access_time_coldness(thread, item), COLDNESS_OLD + 2 * 100);
	assert_int_equal(access_time_cost(thread, item, 1056), 132);
	/* What is being written keeps a place from being chosen, what is free does not. */
	item->sum = ITEM_SUM_INVALID;
	assert_int_equal(access_time_cost(thread, item, 1056), 0);
	assert_int_equal(access_time_cost(thread, item, 1u << 20), 1ull << 17 << 36);
}

static struct access_told told(uint16_t access)
{
	struct access_told told = access_time_tell(thread, access);

	assert_int_equal(told.use, WIRE_USE_NORMAL);
	return told;
}

/* Each use counts less than the one before: n are about 2^n - 1, and no more than fit. */
static void uses_count_logarithmically(void **state)
{
	uint64_t sum = 0;

	(void)state;
	thread->random = 0x9e3779b97f4a7c15;
	assert_int_equal(told(access_time_initial(thread)).uses, 0);
	assert_int_equal(told(used(access_time_initial(thread), 1)).uses, 1);
	for (unsigned int i = 0; i < 200; i++)
		sum += told(used(access_time_initial(thread), 100)).uses;
	assert_in_range(sum, 200 * 70, 200 * 140);
	assert_int_equal(told(used(access_time_initial(thread), 2000000)).uses,
			 (1u << USES_MAX) - 1);
	assert_false(used(access_time_initial(thread), 2000000) & ACCESS_LOW);
}

/* Uses are half as many with each quarter of the memory, and a use takes off what has fallen. */
static void uses_fall(void **state)
{
	const uint16_t much = (uint16_t)(6u << ACCESS_USES_SHIFT);
	uint16_t access;

	(void)state;
	for (uint32_t quarters = 0; quarters < 10; quarters++) {
		set_tick(quarters * YOUNG_MAX + YOUNG_MAX - 1);
		assert_int_equal(told(much).uses, quarters < 6 ? (1u << (6 - quarters)) - 1 : 0);
		assert_int_equal(told(much).age, tick());
	}
	/* The item was used, though: it is not as cold as what never was. */
	assert_int_equal(coldness(much), cold(tick()));
	set_tick(2 * YOUNG_MAX);
	for (unsigned int i = 0; i < 50; i++) {
		access = access_time_update(thread, much, 1);
		assert_int_equal(told(access).age, 0);
		assert_true(told(access).uses == 15 || told(access).uses == 31);
	}
}

/* What is of low priority is colder than all others, and the coldest was stored first. */
static void low(void **state)
{
	uint16_t first, second;

	(void)state;
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
}

/* A new value of an item is one more use of it; of a low one, it is a new item. */
static void replaced(void **state)
{
	const struct access_wish none = { 0 };
	struct item old = { 0 };

	(void)state;
	set_tick(40 * UNIT);
	item_access_store(&old, (uint16_t)(40 * UNIT | 1u << ACCESS_USES_SHIFT));
	thread->random = 2; /* of the two uses that it is about, it is the second */
	assert_in_range(told(access_time_store(thread, &old, &none)).uses, 1, 3);
	item_access_store(&old, stored(0, true));
	assert_int_equal(told(access_time_store(thread, &old, &none)).uses, 0);
	assert_int_equal(told(access_time_store(thread, NULL, &none)).uses, 0);
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
				 access_time_update(thread, access, 1));
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
	assert_int_equal(access_time_update(thread, normal, 1), normal);
	assert_false(access_time_is_over(thread, normal));
	/* One that has expired is not kept. */
	item.expires = (uint32_t)(ENGINE_NOW_NS / SECOND_NS);
	assert_false(access_time_is_pinned(thread, &item));
	assert_int_equal(coldness_until(normal, item.expires), UINT64_MAX);
	item.expires = 0;
	/* The very instant at which it ends. */
	set_now(end_ns);
	access_time_advance_pins(thread);
	set_tick(25);
	assert_int_equal(coldness(normal), cold_unused(5));
	assert_int_equal(coldness(low_one), COLDNESS_LOW + 5);
	assert_false(access_time_is_pinned(thread, &item));
	assert_true(access_time_is_over(thread, normal));
	assert_int_equal(coldness(access_time_update(thread, normal, 1)), cold(0));
	assert_int_equal(coldness(access_time_update(thread, low_one, 1)), COLDNESS_LOW + 5);
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
	/* Blocks of this length are larger by more than what the last one leaves. */
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

/* As many ticks as a part of the memory was added, whatever the steps are. */
static void ticks(void **state)
{
	const uint64_t each = memory_bytes(store.memory) / ACCESS_TICKS;
	static const size_t steps[] = { 48, 1000, 70000, 3u << 20 };

	(void)state;
	for (unsigned int i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		const uint32_t begin = tick();

		atomic_store(&store.table.tick_bytes, 0);
		for (uint64_t n = 1; n * steps[i] < 5 * each + steps[i]; n++) {
			access_time_add(&test_threads[0], steps[i]);
			assert_int_equal(tick() - begin, n * steps[i] / each);
		}
	}
}

static void put(const char *key, uint32_t len)
{
	static uint8_t value[100000];

	assert_int_equal(test_store_put(&store, key, 1, value, len, NULL), WIRE_OK);
}

/* An item that is added ages the others by its bytes; one that is replaced, by what is longer. */
static void what_ages(void **state)
{
	const uint64_t each = memory_bytes(store.memory) / ACCESS_TICKS;
	const uint64_t one = mem_class_bytes(100000 + 48);

	(void)state;
	put("a", 100000);
	assert_int_equal(tick() * each + atomic_load(&store.table.tick_bytes), one);
	for (unsigned int i = 0; i < 20; i++)
		put("a", i % 2 ? 100000 : 90000);
	assert_int_equal(tick() * each + atomic_load(&store.table.tick_bytes),
			 one + 10 * (one - mem_class_bytes(90000 + 48)));
}

/* Without eviction there are no times, pins or priorities. */
static void without_eviction(void **state)
{
	(void)state;
	access_time_add(&test_threads[0], REGION_BYTES);
	assert_int_equal(tick(), 0);
	assert_int_equal(stored(10, false), 0);
	assert_int_equal(stored(0, true), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		CASE(ages),
		CASE(kinds),
		CASE(lengths),
		CASE(uses_count_logarithmically),
		CASE(uses_fall),
		CASE(low),
		CASE(replaced),
		CASE(changes_are_uses),
		CASE(pinned),
		CASE(share),
		CASE(ticks),
		CASE(what_ages),
		cmocka_unit_test_setup_teardown(without_eviction, setup_none, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
