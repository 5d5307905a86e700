/* SPDX-License-Identifier: MIT */
/*
 * The client's GET while the index grows (client/libkvd/lookup.c, GET-2 and GET-4): with geometries
 * of any age, through splits that are not in the superblock yet, and while slots are being moved.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/engine.h"
#include "client/libkvd/geometry.h"
#include "common/sum.h"
#include "tests/support/fake_server.h"

#define KEYS 200

static struct fake_server *server;
static struct kvd *kvd;
static uint8_t found[4096];
static unsigned int seen;

static int setup(void **state)
{
	uint64_t key;

	(void)state;
	server = fake_server_open(2, 1, 0, 0, NULL);
	kvd = &server->kvd;
	for (key = 0; key < KEYS; key++)
		fake_server_put(server, key, 20, 0);
	seen = 0;
	return 0;
}

static int setup_no_cache(void **state)
{
	struct kvd_options options;

	(void)state;
	kvd_options_init(&options);
	options.cache_bytes = 0;
	server = fake_server_open(2, 1, 0, 0, &options);
	kvd = &server->kvd;
	seen = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

static void assert_found(uint64_t key)
{
	struct kvd_item item;

	assert_int_equal(kvd_get(kvd, &key, 8, found, sizeof(found), &item), KVD_OK);
	assert_int_equal(item.value_len, 20);
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(found[i], (uint8_t)key);
}

static void assert_missing(uint64_t key)
{
	assert_int_equal(kvd_get(kvd, &key, 8, found, sizeof(found), NULL), KVD_NOT_FOUND);
}

/* So that a refresh is due. */
static void age_geometry(void)
{
	kvd->geometry_ns = 0;
}

static void forget(void)
{
	memset(kvd->cache.lines, 0, bcache_bytes(&kvd->cache));
}

/* At every size of the index, with a geometry of every older size. */
static void all_keys_at_every_size(void **state)
{
	unsigned int splits;
	uint64_t key;

	(void)state;
	for (splits = 0; splits < 70; splits++) {
		forget();
		for (key = 0; key < KEYS; key++)
			assert_found(key);
		for (key = KEYS; key < KEYS + 50; key++)
			assert_missing(key);
		fake_server_split(server, 1);
		/* Published at once, later, or not at all. */
		if (splits % 3 == 0)
			fake_server_publish(server);
		if (splits % 5 == 0)
			age_geometry();
	}
	assert_int_equal(server->requests, 0);
	assert_int_equal(kvd->stats.retries, 0);
	assert_true(kvd->stats.geometry_reads > 5);
}

/* The client knows 4 buckets of 77; the levels lead it to the key without a refresh. */
static void without_a_refresh(void **state)
{
	uint64_t key;

	(void)state;
	fake_server_split(server, 73);
	kvd->geometry_ns = ~0ull >> 1; /* not for 292 years */
	for (key = 0; key < KEYS; key++)
		assert_found(key);
	assert_missing(KEYS);
	/* A refresh that brings nothing new is not repeated for each key. */
	assert_true(kvd->stats.geometry_reads <= KEYS);
	assert_int_equal(server->requests, 0);
	assert_int_equal(geometry_buckets(&kvd->geometry), 4);
}

static void a_refresh_ends_the_detours(void **state)
{
	uint64_t key, reads;

	(void)state;
	fake_server_split(server, 28);
	fake_server_publish(server);
	for (key = 0; kvd->stats.geometry_reads == 0 && key < KEYS; key++)
		assert_found(key);
	assert_int_equal(kvd->stats.geometry_reads, 1);
	assert_int_equal(geometry_buckets(&kvd->geometry), 32);
	reads = kvd->stats.bucket_reads;
	forget();
	for (key = 0; key < KEYS; key++)
		assert_found(key);
	assert_int_equal(kvd->stats.geometry_reads, 1);
	/* No more READs of buckets than keys and their chains need. */
	assert_true(kvd->stats.bucket_reads - reads < KEYS + KEYS / 4);
}

/* A segment that is not in the welcome, but in the superblock. */
static void segments_that_come_later(void **state)
{
	uint64_t key;

	(void)state;
	memset(&kvd->geometry.segments[1], 0, sizeof(kvd->geometry.segments[1]) * 8);
	fake_server_split(server, 30);
	fake_server_publish(server);
	for (key = 0; key < KEYS; key++)
		assert_found(key);
	assert_int_equal(server->requests, 0);
	assert_int_equal(kvd->stats.geometry_reads, 1);
}

/* A segment in neither: the client asks the server. */
static void segments_that_are_not_published(void **state)
{
	uint64_t key;

	(void)state;
	fake_server_split(server, 30);
	for (unsigned int k = 1; k < 8; k++)
		kvd->geometry.segments[k] = k % 2 ? 0 : FAKE_SERVER_REGION_BYTES;
	((struct superblock *)(void *)server->region)->geometry = kvd->geometry;
	for (key = 0; key < KEYS; key++)
		assert_found(key);
	assert_true(server->gets > 0 && kvd->stats.fallbacks == server->gets);
	assert_missing(KEYS + 1);
}

static void tear_geometry(struct fake_server *p, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)p;
	if (offset == offsetof(struct superblock, geometry) && bytes == sizeof(struct geometry)) {
		seen++;
		to[40] ^= 1;
	}
}

static void a_torn_geometry_is_not_taken(void **state)
{
	uint64_t key;

	(void)state;
	fake_server_split(server, 30);
	fake_server_publish(server);
	server->after_read = tear_geometry;
	for (key = 0; key < KEYS && !seen; key++)
		assert_found(key);
	assert_int_equal(seen, 4);
	assert_int_equal(geometry_buckets(&kvd->geometry), 4);
	assert_int_equal(server->requests, 0);
}

/* As for a lookup that found its key moved. */
static void refresh(void)
{
	geometry_read(kvd);
	engine_post(kvd);
	while (kvd->geometry_flight.place == PLACE_READING)
		engine_progress(kvd);
}

/* A geometry of another region or of a smaller index is ignored, although its sum is right. */
static void another_geometry_is_not_taken(void **state)
{
	struct geometry other;
	uint64_t key = 1;

	(void)state;
	fake_server_split(server, 30);
	other = kvd->geometry;
	other.hash_seed++;
	other.sum = geometry_sum(&other);
	((struct superblock *)(void *)server->region)->geometry = other;
	refresh();
	assert_true(kvd->geometry.hash_seed != other.hash_seed);
	fake_server_publish(server);
	age_geometry();
	refresh();
	assert_int_equal(geometry_buckets(&kvd->geometry), 34);
	other.hash_seed--;
	other.sum = geometry_sum(&other);
	((struct superblock *)(void *)server->region)->geometry = other;
	age_geometry();
	refresh();
	assert_int_equal(geometry_buckets(&kvd->geometry), 34);
	assert_found(key);
}

static bool is_bucket(const struct fake_server *p, uint64_t offset, uint32_t bytes)
{
	(void)p;
	return bytes == BUCKET_BYTES && (offset < FAKE_SERVER_REGION_BYTES / 4 ||
					 offset >= FAKE_SERVER_REGION_BYTES * 3 / 4);
}

static bool is_overflow(uint64_t offset, uint32_t bytes)
{
	return bytes == BUCKET_BYTES && offset >= FAKE_SERVER_REGION_BYTES * 3 / 4;
}

static void odd_for_a_while(struct fake_server *p, uint64_t offset, uint32_t bytes)
{
	if (!is_bucket(p, offset, bytes))
		return;
	p->epoch = ++seen < 4 ? 7 : 8;
	fake_server_lay_out(p);
}

static void an_odd_epoch_is_read_again(void **state)
{
	(void)state;
	server->before_read = odd_for_a_while;
	assert_missing(KEYS + 1);
	assert_int_equal(kvd->stats.retries, 3);
	assert_int_equal(server->requests, 0);
}

/* Slots moved between the READs of the home bucket and of the next: a miss proves nothing. */
static void epoch_at_overflow(struct fake_server *p, uint64_t offset, uint32_t bytes)
{
	if (is_overflow(offset, bytes) && !seen++) {
		p->epoch = (uint16_t)(p->epoch + 2);
		fake_server_lay_out(p);
	}
}

static void an_epoch_that_changed_in_the_chain(void **state)
{
	(void)state;
	server->before_read = epoch_at_overflow;
	assert_missing(KEYS + 1);
	assert_true(seen > 1);
	assert_int_equal(kvd->stats.retries, 1);
	assert_int_equal(server->requests, 0);
}

/* Split between the two READs: the overflow bucket now belongs to another chain. */
static void split_at_overflow(struct fake_server *p, uint64_t offset, uint32_t bytes)
{
	if (is_overflow(offset, bytes) && !seen++)
		fake_server_split(p, 4);
}

static void a_split_in_the_middle_of_a_chain(void **state)
{
	uint64_t key;

	(void)state;
	server->before_read = split_at_overflow;
	for (key = 0; key < KEYS; key++) {
		seen = server->geometry.level > 5;
		forget();
		assert_found(key);
	}
	assert_true(kvd->stats.retries > 0);
	assert_int_equal(server->requests, 0);
}

/* Swaps in a chain of the same level and epoch: the sum covers the home bucket. */
static void swap_home(struct fake_server *p, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct bucket *bucket = (struct bucket *)(void *)to;

	(void)p;
	if (!is_overflow(offset, bytes) || seen++)
		return;
	memset(bucket->slots, 0, sizeof(bucket->slots));
	bucket->overflow = 0;
	bucket->sum = bucket_sum(bucket, &kvd->sum_key, kvd->geometry.incarnation, offset,
				 4096 + BUCKET_BYTES * 9);
}

static void a_bucket_of_another_chain(void **state)
{
	uint64_t key;

	(void)state;
	server->after_read = swap_home;
	for (key = 0; key < KEYS; key++) {
		seen = 0;
		forget();
		assert_found(key);
	}
	assert_true(kvd->stats.retries > 0);
	assert_int_equal(server->requests, 0);
}

/* A bucket with a lower level than the geometry's, or an impossible one, is invalid. */
static void wrong_level(struct fake_server *p, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	static const uint8_t levels[] = { 1, 0, 34, 63, 64, 255 };
	struct bucket *bucket = (struct bucket *)(void *)to;

	if (!is_bucket(p, offset, bytes) || is_overflow(offset, bytes) || seen >= sizeof(levels))
		return;
	bucket->level = levels[seen++];
	memset(bucket->slots, 0, sizeof(bucket->slots));
	bucket->overflow = 0;
	bucket->sum = bucket_sum(bucket, &kvd->sum_key, kvd->geometry.incarnation, offset, offset);
}

static void impossible_levels(void **state)
{
	(void)state;
	server->after_read = wrong_level;
	assert_found(3);
	assert_int_equal(kvd->stats.retries, 6);
	assert_int_equal(server->requests, 0);
}

/* Buckets with wrong levels and right sums: the lookup ends, with any result. */
static void ever_deeper(struct fake_server *p, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct bucket *bucket = (struct bucket *)(void *)to;

	if (!is_bucket(p, offset, bytes) || is_overflow(offset, bytes))
		return;
	bucket->level = (uint8_t)(3 + seen++ % 30);
	bucket->sum = bucket_sum(bucket, &kvd->sum_key, kvd->geometry.incarnation, offset, offset);
}

static void chases_end(void **state)
{
	uint64_t key;

	(void)state;
	server->after_read = ever_deeper;
	for (key = 0; key < 20; key++)
		kvd_get(kvd, &key, 8, found, sizeof(found), NULL);
	assert_true(seen > 4 && seen < 20 * 200);
}

/* A chain that took longer to READ than epochs take to wrap around proves nothing. */
static void slow_chain(struct fake_server *p, uint64_t offset, uint32_t bytes)
{
	struct timespec pause = { 1, 50000000 };

	(void)p;
	if (is_overflow(offset, bytes) && !seen++)
		nanosleep(&pause, NULL);
}

static void a_chain_that_took_too_long(void **state)
{
	(void)state;
	server->before_read = slow_chain;
	assert_missing(KEYS + 1);
	assert_int_equal(kvd->stats.retries, 1);
	assert_int_equal(server->requests, 0);
}

/* Many GETs at once, half of the keys moved: one READ of the geometry for all. */
static void many_at_once(void **state)
{
	static struct kvd_get_request list[KEYS + 20];
	static uint64_t keys[KEYS + 20];
	static uint8_t values[KEYS + 20][32];

	(void)state;
	fake_server_split(server, 60);
	fake_server_publish(server);
	for (uint64_t i = 0; i < KEYS + 20; i++) {
		keys[i] = i;
		list[i] =
			(struct kvd_get_request){ &keys[i], 8, values[i], 32, KVD_ERR_BUSY, { 0 } };
	}
	assert_int_equal(kvd_get_many(kvd, list, KEYS + 20), KVD_OK);
	for (unsigned int i = 0; i < KEYS + 20; i++) {
		assert_int_equal(list[i].status, i < KEYS ? KVD_OK : KVD_NOT_FOUND);
		if (i < KEYS)
			assert_int_equal(values[i][19], (uint8_t)i);
	}
	assert_int_equal(kvd->stats.geometry_reads, 1);
	assert_int_equal(server->requests, 0);
}

static void accept_try(struct fake_device *fake)
{
	fake_device_event(fake, CM_ESTABLISHED, 0);
}

/* A READ of the geometry that a loss ended: when the index grows again, it is READ anew. */
static void a_loss_while_it_is_read(void **state)
{
	struct kvd_op ops[KEYS], *list[KEYS], *done[KEYS];
	static uint64_t keys[KEYS];
	static uint8_t values[KEYS][32];
	unsigned int i, left = KEYS;
	uint64_t reads;

	(void)state;
	kvd->options.reconnect = 1;
	server->fake.connect = accept_try;
	fake_server_split(server, 60);
	fake_server_publish(server);
	for (i = 0; i < KEYS; i++) {
		keys[i] = i;
		list[i] = &ops[i];
		kvd_prep_get(&ops[i], &keys[i], 8, values[i], 32);
	}
	server->fake.hold_reads = true;
	assert_int_equal(kvd_submit(kvd, list, KEYS), KVD_OK);
	while (kvd->geometry_flight.place != PLACE_READING || !server->fake.held_count) {
		fake_device_release(&server->fake);
		left -= (unsigned int)kvd_poll(kvd, done, KEYS);
	}
	fake_device_lose(&server->fake);
	server->fake.hold_reads = false;
	while (left)
		left -= (unsigned int)kvd_wait(kvd, done, KEYS, left, FAKE_TIMEOUT_MS);
	for (i = 0; i < KEYS; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	fake_server_split(server, 60);
	fake_server_publish(server);
	forget();
	age_geometry();
	reads = kvd->stats.geometry_reads;
	for (i = 0; i < KEYS; i++)
		assert_found(i);
	assert_true(kvd->stats.geometry_reads > reads);
}

static void without_a_cache(void **state)
{
	uint64_t key;

	(void)state;
	for (key = 0; key < 50; key++)
		fake_server_put(server, key, 20, 0);
	fake_server_split(server, 9);
	for (key = 0; key < 50; key++)
		assert_found(key);
	assert_missing(77);
	assert_int_equal(kvd->stats.cache_hits, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(all_keys_at_every_size),
		CASE(without_a_refresh),
		CASE(a_refresh_ends_the_detours),
		CASE(segments_that_come_later),
		CASE(segments_that_are_not_published),
		CASE(a_torn_geometry_is_not_taken),
		CASE(another_geometry_is_not_taken),
		CASE(an_odd_epoch_is_read_again),
		CASE(an_epoch_that_changed_in_the_chain),
		CASE(a_split_in_the_middle_of_a_chain),
		CASE(a_bucket_of_another_chain),
		CASE(impossible_levels),
		CASE(chases_end),
		CASE(a_chain_that_took_too_long),
		CASE(many_at_once),
		CASE(a_loss_while_it_is_read),
		cmocka_unit_test_setup_teardown(without_a_cache, setup_no_cache, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
