/* SPDX-License-Identifier: MIT */
/*
 * Tests of the index: growth bucket by bucket, as seen by readers with every index size that was
 * ever true; chains that get longer, are split and get shorter; with memory to grow into and
 * without; and the share of keys in overflow buckets that common/layout.h states.
 */
#include <math.h>

#include "server/store/evict.h"
#include "tests/support/store_test.h"

/* When a home bucket has been found, and before it is locked, another thread splits it. */
static bool split_first;

static void lock_later(struct bucket *bucket)
{
	if (split_first) {
		split_first = false;
		index_grow(&test_threads[1]);
	}
	bucket_lock(bucket);
}

#define bucket_lock lock_later
#include "server/store/index.c"
#undef bucket_lock

#define REGION_BYTES (8u << 20)
#define FILL 65

static int create(uint64_t bytes, uint32_t fill)
{
	const struct store_options options = { .fill = fill };

	test_store_create_with(&store, bytes, 0, 2, &options);
	set_now(ENGINE_NOW_NS);
	return 0;
}

static int setup_growing(void **state)
{
	(void)state;
	return create(REGION_BYTES, FILL);
}

static int setup_fixed(void **state)
{
	(void)state;
	return create(REGION_BYTES, STORE_NO_GROWTH);
}

static int teardown(void **state)
{
	(void)state;
	test_store_destroy(&store);
	return 0;
}

static void put(uint64_t key)
{
	assert_int_equal(test_store_put(&store, &key, 8, &key, 8, NULL), WIRE_OK);
}

static void delete_key(uint64_t key)
{
	assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
}

static void assert_there(uint64_t key)
{
	struct store_value out;
	uint64_t found = 0;

	assert_int_equal(test_store_get(&store, &key, 8, &found, 8, &out), WIRE_OK);
	assert_true(found == key);
}

static void assert_geometry(void)
{
	struct geometry g;

	memcpy(&g, &region_superblock(&store.region)->geometry, sizeof(g));
	assert_true(g.sum == geometry_sum(&g));
	assert_null(geometry_check(&g));
	assert_true(geometry_buckets(&g) == index_buckets(&store.table));
}

/*
 * What a client does that still has the old geometry @g: the buckets' levels lead it on (INDEX-1).
 */
static bool client_finds(const struct geometry *g, uint64_t key)
{
	uint64_t hash = hash_of(&key, 8), number = geometry_home(g, hash), home, offset;
	const struct bucket *bucket = index_bucket(&store.table, number);

	while (low_bits(hash, bucket->level) != number) {
		/*
		 * One split at a time: the bucket with all of the level's bits may not exist yet.
		 */
		number = low_bits(hash, (uint32_t)__builtin_ctzll(hash ^ number) + 1);
		bucket = index_bucket(&store.table, number);
	}
	home = region_offset(&store.region, bucket);
	while (bucket) {
		offset = region_offset(&store.region, bucket);
		assert_true(bucket->sum == bucket_sum(bucket, &store.region.sum_key, g->incarnation,
						      offset, home));
		for (unsigned int i = 0; i < BUCKET_SLOTS; i++) {
			uint64_t slot = bucket->slots[i];
			const struct item *item = region_at(&store.region, slot_offset(slot));

			if (slot && slot_tag(slot) == hash_tag(hash) &&
			    !memcmp(item_key(item), &key, 8))
				return true;
		}
		bucket = bucket_next(&store.table, bucket);
	}
	return false;
}

#define GROWTH_KEYS 3000
#define KNOWN_MAX 12

/* The home for a thread that read the index size when it was that of @g, and was delayed since. */
static const struct bucket *late_home(const struct geometry *g, uint64_t key)
{
	uint64_t size = atomic_load(&store.table.index_size);
	const struct bucket *home;

	atomic_store(&store.table.index_size, index_size_make(g->level, g->split));
	home = index_home(&store.table, hash_of(&key, 8));
	atomic_store(&store.table.index_size, size);
	return home;
}

static void grows_from_one_bucket(void **state)
{
	static struct geometry known[KNOWN_MAX];
	uint64_t key, other, splits = 0;
	unsigned int i, known_count = 0;

	(void)state;
	for (key = 0; key < GROWTH_KEYS; key++) {
		put(key);
		assert_geometry();
		if (STAT(splits) == splits)
			continue;
		splits++;
		assert_int_equal(STAT(splits), splits);
		assert_int_equal(index_buckets(&store.table), 1 + splits);
		assert_store(NULL);
		if (!(splits & (splits - 1)) && known_count < KNOWN_MAX)
			index_geometry(&store.table, &known[known_count++]);
		for (other = splits % 7; other <= key; other += 7)
			assert_there(other);
		for (i = 0; i < known_count; i++)
			for (other = splits % 61; other <= key; other += 61) {
				assert_true(client_finds(&known[i], other));
				assert_ptr_equal(late_home(&known[i], other),
						 test_store_home(&store, &other, 8));
			}
	}
	assert_true(splits > 300);
	assert_true(known_count > 7);
	/* The configured fill, within the keys that threads have not added to table.items yet. */
	assert_in_range(index_buckets(&store.table) * BUCKET_SLOTS * FILL / 100,
			GROWTH_KEYS - ITEMS_UNREPORTED_MAX - BUCKET_SLOTS,
			GROWTH_KEYS + BUCKET_SLOTS);
	for (key = 0; key < GROWTH_KEYS; key++)
		delete_key(key);
	assert_store(NULL);
	assert_int_equal(index_buckets(&store.table), 1 + splits);
}

/* A chain of many buckets is split, and its overflow buckets are divided or freed. */
static void long_chains_are_split(void **state)
{
	struct store_census census;
	uint64_t key, overflow;

	(void)state;
	for (key = 0; key < 230; key++)
		put(key);
	assert_store(&census);
	assert_int_equal(census.chain_max, 16);
	overflow = census.overflow_buckets;
	store.table.fill = FILL;
	for (; key < 1000; key++) {
		put(key);
		assert_store(&census);
		assert_true(census.overflow_buckets <= overflow + 1);
		overflow = census.overflow_buckets;
	}
	assert_true(STAT(splits) > 100);
	assert_true(census.chain_max <= 3);
	for (key = 0; key < 1000; key++)
		assert_there(key);
}

/* A full chain whose keys all go to one half. */
static void a_split_that_parts_nothing(void **state)
{
	uint64_t keys[CHAIN_SLOTS_MAX], key = 0;
	struct store_census census;
	unsigned int n = 0;

	(void)state;
	while (n < CHAIN_SLOTS_MAX) {
		key++;
		if (hash_of(&key, 8) & 1)
			continue;
		put(keys[n++] = key);
	}
	assert_store(&census);
	assert_int_equal(census.chain_max, CHAIN_MAX);
	store.table.fill = FILL;
	index_grow(&test_threads[0]);
	assert_int_equal(STAT(splits), 1);
	assert_store(&census);
	assert_int_equal(census.chain_max, CHAIN_MAX);
	while (index_buckets(&store.table) < 16)
		index_grow(&test_threads[0]);
	assert_store(&census);
	for (n = 0; n < CHAIN_SLOTS_MAX; n++)
		assert_there(keys[n]);
}

/* A change of a key that leaves for another bucket at that moment goes there. */
static void split_before_it_is_locked(void **state)
{
	uint64_t keys[2] = { 0 }, key, value = 777, found = 0;
	struct store_census census;
	struct store_value out;

	(void)state;
	for (key = 0; key < CHAIN_SLOTS_MAX; key++) {
		put(key);
		keys[hash_of(&key, 8) & 1] = key;
	}
	store.table.fill = FILL;
	split_first = true;
	assert_int_equal(test_store_put(&store, &keys[1], 8, &value, 8, NULL), WIRE_OK);
	assert_false(split_first);
	assert_int_equal(STAT(splits), 1);
	assert_int_equal(test_store_get(&store, &keys[1], 8, &found, 8, &out), WIRE_OK);
	assert_true(found == value);
	assert_there(keys[0]);
	assert_store(&census);
}

static uint16_t epoch_of_the_bucket(void)
{
	return index_bucket(&store.table, 0)->epoch;
}

/* A bucket is freed when SPARE_SLOTS stay free without it, and the epoch says that slots moved. */
static void chains_get_shorter(void **state)
{
	uint64_t key, overflow = 5, count = BUCKET_SLOTS * 6;
	struct store_census census;
	uint16_t epoch;

	(void)state;
	for (key = 0; key < count; key++)
		put(key);
	epoch = epoch_of_the_bucket();
	assert_int_equal(epoch, 0);
	for (key = 0; key < BUCKET_SLOTS * 6; key++) {
		delete_key(key);
		count--;
		if (overflow && count + SPARE_SLOTS <= BUCKET_SLOTS * overflow) {
			overflow--;
			epoch += 2;
		}
		assert_store(&census);
		assert_int_equal(census.overflow_buckets, overflow);
		assert_int_equal(epoch_of_the_bucket(), epoch);
	}
	assert_int_equal(overflow, 0);
	assert_int_equal(STAT(chains_shortened), 5);
}

/* Inserts and deletes around the border of a bucket move no slots. */
static void to_and_fro_moves_nothing(void **state)
{
	uint64_t key;

	(void)state;
	for (key = 0; key < BUCKET_SLOTS; key++)
		put(key);
	for (unsigned int i = 0; i < 100; i++) {
		put(1000);
		delete_key(1000);
	}
	assert_int_equal(STAT(chains_shortened), 0);
	assert_int_equal(epoch_of_the_bucket(), 0);
	assert_store(NULL);
}

/* INDEX-4: CHAIN_MOVES_MAX in a second and not one more. */
static void moves_have_a_limit(void **state)
{
	struct store_census census;
	uint64_t key, round, shortened;

	(void)state;
	for (round = 0; round < CHAIN_MOVES_MAX + 10; round++) {
		for (key = 0; key < BUCKET_SLOTS + 1; key++)
			put(key);
		for (key = 0; key < BUCKET_SLOTS + 1; key++)
			delete_key(key);
	}
	shortened = STAT(chains_shortened);
	assert_int_equal(shortened, CHAIN_MOVES_MAX);
	assert_store(&census);
	assert_int_equal(census.overflow_buckets, 1);
	/* A thread whose clock is a little behind does not begin a new second. */
	test_threads[0].now_ns -= SECOND_NS;
	put(1);
	delete_key(1);
	assert_int_equal(STAT(chains_shortened), shortened);
	set_now(ENGINE_NOW_NS + SECOND_NS);
	put(1);
	delete_key(1);
	assert_int_equal(STAT(chains_shortened), shortened + 1);
	assert_store(&census);
	assert_int_equal(census.overflow_buckets, 0);
}

/* The longest chain, emptied while no slot may move, frees all its buckets at once later. */
static void the_longest_chain_leaves_at_once(void **state)
{
	struct store_thread *w = &test_threads[0];
	struct bucket *spare, *home;
	struct retired retired = { .count = 0 };
	struct store_census census;
	uint64_t key;

	(void)state;
	for (key = 0; key < CHAIN_SLOTS_MAX; key++)
		put(key);
	atomic_store(&store.table.chain_moves_s, ENGINE_NOW_NS / SECOND_NS);
	atomic_store(&store.table.chain_moves, CHAIN_MOVES_MAX);
	for (key = 3; key < CHAIN_SLOTS_MAX; key++)
		delete_key(key);
	assert_store(&census);
	assert_int_equal(census.overflow_buckets, CHAIN_MAX);
	set_now(ENGINE_NOW_NS + SECOND_NS);
	spare = mem_alloc_bucket(&w->cache, 0);
	home = index_lock_number(&store.table, 0);
	assert_true(do_chain_shorten(w, home, bucket_next(&store.table, home), spare, &retired));
	bucket_unlock(home);
	assert_int_equal(retired.count, CHAIN_MAX + 1);
	retired_free(w, &retired);
	assert_store(&census);
	assert_int_equal(census.overflow_buckets, 0);
	for (key = 0; key < 3; key++)
		assert_there(key);
}

/* A bucket of a chain is replaced by another, wherever in the chain it is. */
static void a_bucket_is_replaced(void **state)
{
	struct store_thread *w = &test_threads[0];
	struct retired retired = { .count = 0 };
	uint64_t key;

	(void)state;
	for (key = 0; key < BUCKET_SLOTS * 5; key++)
		put(key);
	for (unsigned int nth = 1; nth < 5; nth++) {
		struct bucket *home = index_lock_number(&store.table, 0), *avoid = home, *spare;
		const struct bucket *bucket;

		for (unsigned int i = 0; i < nth; i++)
			avoid = bucket_next(&store.table, avoid);
		spare = mem_alloc_bucket(&w->cache, 0);
		/* All but the sum is whatever was there before. */
		memset((uint8_t *)spare + sizeof(spare->sum), 0xff,
		       sizeof(*spare) - sizeof(spare->sum));
		assert_true(do_chain_shorten(w, home, avoid, spare, &retired));
		bucket_unlock(home);
		assert_int_equal(retired.count, 1);
		assert_ptr_equal(retired.buckets[0], avoid);
		for (bucket = home; bucket; bucket = bucket_next(&store.table, bucket))
			assert_ptr_not_equal(bucket, avoid);
		retired_free(w, &retired);
		assert_store(NULL);
		for (key = 0; key < BUCKET_SLOTS * 5; key++)
			assert_there(key);
	}
}

/* Buckets that no chain may leave in this second stay where they are, and nothing is lost. */
static void no_bucket_may_be_replaced_now(void **state)
{
	struct store_thread *w = &test_threads[0];
	struct store_census census;
	struct emptying emptying;
	struct bucket *bucket;
	uint64_t key;

	(void)state;
	for (key = 0; key < BUCKET_SLOTS * 5; key++)
		put(key);
	atomic_store(&store.table.chain_moves_s, ENGINE_NOW_NS / SECOND_NS);
	atomic_store(&store.table.chain_moves, CHAIN_MOVES_MAX);
	for (unsigned int later = 0; later < 2; later++) {
		bucket = bucket_next(&store.table, index_bucket(&store.table, 0));
		assert_true(mem_evacuation_begin(&emptying.evacuation, store.memory, bucket));
		evict_evacuate(w, &emptying, false);
		assert_int_equal(mem_evacuation_end(&emptying.evacuation), later);
		assert_store(&census);
		assert_int_equal(census.overflow_buckets, 4);
		for (key = 0; key < BUCKET_SLOTS * 5; key++)
			assert_there(key);
		set_now(ENGINE_NOW_NS + SECOND_NS);
	}
}

static void fill_with(uint32_t len, uint64_t *key)
{
	static uint8_t value[64 << 10];

	while (test_store_put(&store, key, 8, value, len, NULL) == WIRE_OK)
		++*key;
}

/* Small items replace large ones: memory is full all the time. */
static void put_for(uint64_t key, uint64_t *large)
{
	while (test_store_put(&store, &key, 8, &key, 8, NULL) == WIRE_NO_SPACE)
		delete_key(--*large);
}

/*
 * Items follow the index: it does not grow and asks for room; PUTs go on. Then there is room again.
 */
static void no_room_for_the_index(void **state)
{
	uint64_t large = 1ull << 32, key, room, last;

	(void)state;
	fill_with(30000, &large);
	fill_with(4000, &large);
	for (key = 0; !atomic_load(&store.table.room_wanted) && key < 100000; key++) {
		put_for(key, &large);
		if (key % 500 == 0)
			assert_store(NULL);
	}
	assert_true(atomic_load(&store.table.room_wanted));
	assert_false(index_extend(&store.table));
	assert_int_equal(index_buckets(&store.table), atomic_load(&store.table.buckets_max));
	assert_store(NULL);
	for (last = key + 500; key < last; key++)
		put_for(key, &large);
	assert_int_equal(index_buckets(&store.table), atomic_load(&store.table.buckets_max));
	assert_store(NULL);
	while (large > 1ull << 32)
		delete_key(--large);
	for (last = key, key = 0; key < last; key += 10)
		assert_there(key);
	/* All but a few keys, so that the pages after the index become free. */
	for (key = 0; key < last; key++)
		delete_key(key);
	test_store_check(&store, NULL);
	memory_gather(store.memory);
	room = atomic_load(&store.table.buckets_max);
	assert_true(index_extend(&store.table));
	assert_int_equal(atomic_load(&store.table.buckets_max), room + INDEX_STEP);
	for (key = 0; key < 2 * last; key++)
		put(key);
	assert_true(index_buckets(&store.table) > room);
	assert_store(NULL);
}

/*
 * Mean and variance of the keys that do not fit a home bucket with @mean keys on average (Poisson).
 */
static void excess(double mean, double *expected, double *variance)
{
	double p = exp(-mean), square = 0;

	*expected = 0;
	for (unsigned int k = 1; k < 120; k++) {
		double over = k > BUCKET_SLOTS ? k - (double)BUCKET_SLOTS : 0;

		p *= mean / k;
		*expected += p * over;
		square += p * over * over;
	}
	*variance = square - *expected * *expected;
}

/*
 * The share of keys in overflow buckets must be as Poisson says, within 6 deviations. Returns it.
 */
static double assert_poisson(void)
{
	const struct geometry *g = &store.region.geometry;
	double buckets = (double)(1ull << g->level), split = (double)g->split;
	double expected[2], variance[2], all, deviation, share;
	struct store_census census;

	assert_store(&census);
	excess((double)census.items / buckets, &expected[0], &variance[0]);
	excess((double)census.items / buckets / 2, &expected[1], &variance[1]);
	all = (buckets - split) * expected[0] + 2 * split * expected[1];
	deviation = sqrt((buckets - split) * variance[0] + 2 * split * variance[1]);
	share = 100.0 * (double)census.overflow_items / (double)census.items;
	print_message("%5llu + %5llu buckets, fill %.1f %%: %.3f %% in overflow buckets, "
		      "%.3f %% expected, longest chain %u\n",
		      1ull << g->level, (unsigned long long)g->split,
		      100 * (double)census.items / (BUCKET_SLOTS * (buckets + split)), share,
		      100 * all / (double)census.items, census.chain_max);
	assert_true(fabs((double)census.overflow_items - all) < 6 * deviation + 1);
	return 100 * all / (double)census.items;
}

#define POISSON_LEVEL 13

/* While the index grows: where all buckets have one level, and half-way to the next. */
static void overflow_share_of_fill(uint32_t fill, double layout)
{
	uint64_t key = 0;
	double share;

	create(32u << 20, fill);
	while (index_buckets(&store.table) < 1ull << POISSON_LEVEL)
		put(key++);
	share = assert_poisson();
	if (layout > 0)
		assert_true(fabs(share - layout) < layout / 10);
	while (index_buckets(&store.table) < 3ull << (POISSON_LEVEL - 1))
		put(key++);
	assert_poisson();
	test_store_destroy(&store);
}

static void overflow_is_what_layout_h_says(void **state)
{
	(void)state;
	overflow_share_of_fill(50, 0.14);
	overflow_share_of_fill(60, 0.57);
	overflow_share_of_fill(65, 1.0);
	overflow_share_of_fill(75, 2.5);
	overflow_share_of_fill(90, 0);
}

#define CASE(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(grows_from_one_bucket, setup_growing),
		CASE(long_chains_are_split, setup_fixed),
		CASE(a_split_that_parts_nothing, setup_fixed),
		CASE(split_before_it_is_locked, setup_fixed),
		CASE(chains_get_shorter, setup_fixed),
		CASE(to_and_fro_moves_nothing, setup_fixed),
		CASE(moves_have_a_limit, setup_fixed),
		CASE(the_longest_chain_leaves_at_once, setup_fixed),
		CASE(a_bucket_is_replaced, setup_fixed),
		CASE(no_bucket_may_be_replaced_now, setup_fixed),
		CASE(no_room_for_the_index, setup_growing),
		cmocka_unit_test(overflow_is_what_layout_h_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
