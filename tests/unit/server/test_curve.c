/* SPDX-License-Identifier: MIT */
/*
 * Tests of the miss-ratio curve (server/store/curve.h): that it is exact LRU's while all keys are
 * in the sample, that it comes near to it when few are, and what changes of keys do to it.
 */
#include "server/store/curve.h"

#include <pthread.h>

#include "tests/support/store_test.h"

#define REGION_BYTES (16u << 20)
#define MODEL_KEYS 4000u
/* Most GETs before they count half. */
#define GETS_MAX 260000u

static struct curve *curve;
static uint64_t memory;

/* Exact LRU: when each key was used, and all are searched. */
static struct {
	uint64_t bytes[MODEL_KEYS]; /* 0: not stored */
	uint64_t used[MODEL_KEYS];  /* when */
	uint64_t now, gets;
	uint64_t hits[8]; /* at each point */
} model;

static int setup(void **state)
{
	const struct store_options options = { .fill = STORE_NO_GROWTH,
					       .eviction = EVICTION_OBJECT_HITS,
					       .curve = true };

	(void)state;
	test_store_create_with(&store, REGION_BYTES, 10, 2, &options);
	set_now(ENGINE_NOW_NS);
	curve = store.table.curve;
	memory = memory_bytes(store.memory);
	memset(&model, 0, sizeof(model));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_store_destroy(&store);
	return 0;
}

static const uint64_t points[] = {
#define X(percent) percent,
	CURVE_POINTS(X)
#undef X
};

#define POINTS (sizeof(points) / sizeof(points[0]))

/* The hits of @stats, at each point. */
static const uint64_t *hits_of(const struct curve_stats *stats)
{
	return &stats->hits_25;
}

static uint64_t hash_at(uint32_t key)
{
	return key_hash(&key, sizeof(key), 2);
}

static void put(uint32_t key, uint64_t bytes)
{
	if (key < MODEL_KEYS) {
		model.bytes[key] = bytes;
		model.used[key] = ++model.now;
	}
	if (table_samples(&store.table, hash_at(key)))
		curve_put(curve, hash_at(key), bytes, 0);
}

/* A GET of a key that is in the memory, or isn't. */
static void tell(uint32_t key, uint64_t bytes)
{
	stat_add(&test_threads[0].stats.gets, 1);
	if (!table_samples(&store.table, hash_at(key)))
		return;
	if (bytes)
		curve_hit(curve, hash_at(key));
	else
		curve_miss(curve, hash_at(key), ENGINE_NOW_NS);
}

/* A GET, and what it would be in each memory. */
static void get(uint32_t key)
{
	uint64_t bytes = model.bytes[key];

	for (uint32_t i = 0; i < MODEL_KEYS && model.bytes[key]; i++)
		if (model.used[i] > model.used[key])
			bytes += model.bytes[i];
	model.gets++;
	for (unsigned int i = 0; i < POINTS; i++)
		model.hits[i] += model.bytes[key] && bytes < memory / 100 * points[i];
	tell(key, bytes < memory ? model.bytes[key] : 0);
	if (model.bytes[key])
		model.used[key] = ++model.now;
}

static struct curve_stats stats_now(void)
{
	struct curve_stats stats;

	curve_stats(curve, &stats);
	return stats;
}

/* @gets GETs since @before, of which @hits hit at each point. */
static void assert_hits(const struct curve_stats *before, uint64_t gets, uint64_t hits)
{
	struct curve_stats stats = stats_now();

	assert_int_equal(stats.gets - before->gets, gets);
	for (unsigned int i = 0; i < POINTS; i++)
		assert_int_equal(hits_of(&stats)[i] - hits_of(before)[i], hits);
}

/* Some keys are used much, most are not. */
static uint32_t some_key(uint32_t keys)
{
	uint64_t r = random_next();

	return (uint32_t)((r & 3 ? random_next() % (keys / 20) : random_next()) % keys);
}

/* All keys are in the sample, which is more than the points need, so some are forgotten. */
static void exact(void **state)
{
	const uint32_t keys = MODEL_KEYS;
	struct curve_stats stats;

	(void)state;
	for (unsigned int i = 0; i < 60000; i++) {
		uint32_t key = some_key(keys);

		if (random_next() % 8)
			get(key);
		else
			put(key, 8 * (1 + random_next() % (memory / 2000)));
	}
	stats = stats_now();
	assert_int_equal(stats.one_in, 1);
	assert_true(stats.keys < keys && stats.keys > keys / 4);
	assert_int_equal(stats.gets, model.gets);
	for (unsigned int i = 0; i < POINTS; i++) {
		print_message("%3llu %%: %llu, exact %llu of %llu\n", (unsigned long long)points[i],
			      (unsigned long long)hits_of(&stats)[i],
			      (unsigned long long)model.hits[i], (unsigned long long)model.gets);
		/* Parts of the memory are rounded down. */
		assert_in_range(hits_of(&stats)[i] + model.gets / 1000, model.hits[i],
				model.hits[i] + model.gets / 500);
	}
	assert_true(model.hits[0] < model.hits[POINTS - 1] - model.gets / 10);
}

/*
 * One key in many: the estimate is near. Expected are the hits of the part of the keys that is used
 * uniformly, whose memory is known.
 */
static void sampled(void **state)
{
	const uint32_t keys = 160000, bytes = (uint32_t)(memory * 2 / keys / 8 * 8);
	struct curve_stats stats;

	(void)state;
	for (uint32_t key = 0; key < keys; key++)
		put(key, bytes);
	for (unsigned int i = 0; i < 4 * keys; i++)
		tell((uint32_t)(random_next() % keys), bytes);
	stats = stats_now();
	assert_true(stats.one_in >= 16 && stats.keys <= CURVE_KEYS);
	assert_true(stats.keys > CURVE_KEYS / 4);
	for (unsigned int i = 0; i < POINTS; i++) {
		double hit = (double)hits_of(&stats)[i] / (double)stats.gets;
		double wanted = (double)points[i] / 200;

		print_message("%3llu %%: %.3f\n", (unsigned long long)points[i], hit);
		assert_true(hit > wanted - 0.05 || hit > 0.95);
		assert_true(hit < wanted + 0.05 || wanted >= 1);
	}
}

/* The sample lacks the key that is used most, or has it: then its GETs are too many. */
static void one_hot_key(void **state)
{
	const uint32_t keys = 100000, bytes = (uint32_t)(memory * 2 / keys / 8 * 8);
	uint32_t hot = 0;

	(void)state;
	for (unsigned int in_sample = 0; in_sample < 2; in_sample++) {
		struct curve_stats stats;

		curve_clear(curve);
		for (uint32_t key = 0; key < keys; key++)
			put(key, bytes);
		while (curve_samples(curve, hash_at(hot)) != in_sample)
			hot++;
		/* Nine of ten GETs. */
		for (unsigned int i = 0; i < 2 * keys; i++)
			tell(i % 10 ? hot : (uint32_t)(random_next() % keys), bytes);
		stats = stats_now();
		print_message("%llu GETs\n", (unsigned long long)stats.gets);
		assert_in_range(stats.gets, 2 * keys / stats.one_in - 2,
				2 * keys / stats.one_in + 2);
		/* Of the others half would hit. */
		assert_in_range(stats.hits_100, stats.gets * 92 / 100, stats.gets * 98 / 100);
	}
}

/* A key that was removed, or has expired, would hit in no memory; one that was evicted would. */
static void absent(void **state)
{
	struct curve_stats before;
	const uint64_t now = ENGINE_NOW_NS;

	(void)state;
	curve_put(curve, hash_at(1), 100, 0);
	curve_put(curve, hash_at(2), 100, (uint32_t)(now / SECOND_NS));
	curve_put(curve, hash_at(3), 100, (uint32_t)(now / SECOND_NS) + 1);
	/* These push the others so far back that no miss can be a late report. */
	curve_put(curve, hash_at(4), memory / 6, 0);
	curve_put(curve, hash_at(5), memory / 6, 0);
	before = stats_now();
	curve_remove(curve, hash_at(1));
	tell(1, 0);
	tell(2, 0);
	assert_hits(&before, 2, 0);
	before = stats_now();
	tell(3, 0);
	assert_int_equal(stats_now().hits_25, before.hits_25);
	assert_int_equal(stats_now().hits_50, before.hits_50 + 1);
	assert_int_equal(stats_now().keys, 3);
	/* Key 3 is the last used now. */
	before = stats_now();
	tell(3, 0);
	assert_hits(&before, 1, 1);
	/* Nobody stored it. */
	before = stats_now();
	tell(9, 0);
	assert_hits(&before, 1, 0);
	curve_remove(curve, hash_at(9));
	assert_int_equal(stats_now().keys, 3);
}

/* A miss that is told after the change that follows it is not counted: it was before that. */
static void told_late(void **state)
{
	struct curve_stats before;

	(void)state;
	before = stats_now();
	put(1, 100);
	tell(1, 0);
	assert_hits(&before, 0, 0);
	/* Half of the memory was used since: it may have been evicted. */
	put(2, memory / 2);
	tell(1, 0);
	assert_int_equal(stats_now().gets - before.gets, 1);
	assert_int_equal(stats_now().hits_50, before.hits_50);
	assert_int_equal(stats_now().hits_75, before.hits_75 + 1);
	/* Another client missed it, too, before anybody stored it. */
	before = stats_now();
	tell(1, 0);
	assert_hits(&before, 1, 1);
}

/* What a client says of keys that nobody stored adds none. */
static void invented(void **state)
{
	(void)state;
	for (uint32_t key = 0; key < 100; key++)
		tell(key, 100);
	assert_int_equal(stats_now().gets, 0);
	assert_int_equal(stats_now().keys, 0);
}

/* An access record has fewer bits of the hash: it is the same key. */
static void of_a_record(void **state)
{
	const struct wire_access record = wire_access_make(hash_at(1), 1);
	struct curve_stats before;

	(void)state;
	put(1, 100);
	before = stats_now();
	curve_hit(curve, wire_access_hash(record));
	assert_hits(&before, 1, 1);
	assert_int_equal(stats_now().keys, 1);
}

/* What does not fit the longest memory is forgotten; an item longer than that hits in none. */
static void bounded(void **state)
{
	struct curve_stats before;

	(void)state;
	for (uint32_t key = 0; key < 100; key++)
		put(key, memory / 10);
	assert_in_range(stats_now().keys, 39, 41);
	before = stats_now();
	put(100, memory * 5);
	tell(100, memory * 5);
	assert_hits(&before, 1, 0);
	put(101, 8);
	assert_in_range(stats_now().keys, 1, 2);
}

/* Beginning anew, all keys are in the sample again. */
static void cleared(void **state)
{
	(void)state;
	for (uint32_t key = 0; key < 3 * CURVE_KEYS; key++) {
		put(key, 8);
		tell(key, 8);
	}
	assert_true(stats_now().one_in >= 4);
	assert_int_equal(stats_now().one_in, 1u << (curve_sample(curve) - 1));
	curve_clear(curve);
	assert_int_equal(stats_now().keys + stats_now().gets, 0);
	assert_int_equal(curve_sample(curve), 1);
	put(1, 8);
	tell(1, 8);
	assert_int_equal(stats_now().keys, 1);
	assert_int_equal(stats_now().hits_25, 1);
}

/* What was long ago counts less: the curve follows. */
static void follows(void **state)
{
	struct curve_stats stats;

	(void)state;
	for (unsigned int i = 0; i < GETS_MAX; i++)
		tell(1, 0);
	assert_int_equal(stats_now().hits_400, 0);
	put(2, 8);
	for (unsigned int i = 0; i < 3 * GETS_MAX; i++)
		tell(2, 8);
	stats = stats_now();
	assert_true(stats.gets < GETS_MAX + GETS_MAX / 2);
	assert_true(stats.hits_25 > stats.gets * 85 / 100);
}

/* The store tells of changes and of reports. */
static void of_the_store(void **state)
{
	struct curve_stats before;
	struct table_change change = {
		.key = "k", .key_len = 1, .value = "v", .value_len = 1, .flags = 1
	};
	const uint64_t hash = hash_of("k", 1);

	(void)state;
	assert_int_equal(table_put(&test_threads[0], hash, &change), WIRE_OK);
	assert_int_equal(stats_now().keys, 1);
	/* Whatever a record stands for, it is one GET. */
	table_access(&test_threads[0], hash, UINT16_MAX);
	assert_int_equal(stats_now().gets, 1);
	assert_int_equal(stats_now().hits_25, 1);
	/* A touch is a use. */
	put(1, memory / 2);
	change.ttl = 1;
	assert_int_equal(table_touch(&test_threads[0], hash, &change), WIRE_OK);
	before = stats_now();
	table_access(&test_threads[0], hash, 1);
	assert_hits(&before, 1, 1);
	/* The key's expiry time is known. */
	set_now(ENGINE_NOW_NS + 3 * SECOND_NS);
	before = stats_now();
	table_missed(&test_threads[0], hash);
	assert_hits(&before, 1, 0);
	change.ttl = 0;
	assert_int_equal(table_put(&test_threads[0], hash, &change), WIRE_OK);
	assert_int_equal(table_delete(&test_threads[0], hash, &change), WIRE_OK);
	assert_int_equal(stats_now().keys, 1);
	/* What is gone when it is told, nobody knows where it was. */
	before = stats_now();
	table_access(&test_threads[0], hash, 1);
	assert_hits(&before, 0, 0);
	table_missed(&test_threads[0], hash);
	assert_hits(&before, 1, 0);
	/* An item that was evicted before it is deleted. */
	curve_put(curve, hash, 100, 0);
	assert_int_equal(table_delete(&test_threads[0], hash, &change), WIRE_NOT_FOUND);
	assert_int_equal(stats_now().keys, 1);
}

static void tell_hit(uint64_t hash)
{
	curve_hit(curve, hash);
}

static void tell_miss(uint64_t hash)
{
	curve_miss(curve, hash, ENGINE_NOW_NS);
}

static void *use_all(void *arg)
{
	const uint32_t from = *(const uint32_t *)arg;

	for (uint32_t i = 0; i < 40000; i++) {
		uint32_t key = from + i % 20000;

		if (i % 3 == 0)
			curve_put(curve, hash_at(key), 64, 0);
		else if (table_samples(&store.table, hash_at(key)))
			(i % 3 == 1 ? tell_hit : tell_miss)(hash_at(key));
		if (i % 1000 == 0)
			stats_now();
	}
	return NULL;
}

static void threads(void **state)
{
	uint32_t from[] = { 0, 10000 };
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, use_all, &from[0]), 0);
	use_all(&from[1]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(stats_now().keys <= CURVE_KEYS);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(exact),	 TEST(sampled),	 TEST(one_hot_key),  TEST(absent),
		TEST(told_late), TEST(invented), TEST(of_a_record),  TEST(bounded),
		TEST(cleared),	 TEST(follows),	 TEST(of_the_store), TEST(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
