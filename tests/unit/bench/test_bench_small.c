/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's small records against a store of the test: each number once, with the key and
 * the value that belong to it, in as many calls as it takes; and what is not as it should be.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "bench/small.h"
#include "tests/support/captured.h"
#include "tests/support/fake_store.h"

#define RECORDS 200 /* not a multiple of SMALL_BATCH */
#define RECORDS_MAX 256
#define PAUSE_NS 3000000

static struct {
	char keys[RECORDS_MAX][SMALL_KEY_BYTES], values[RECORDS_MAX][SMALL_VALUE_BYTES];
	char missed[RECORDS_MAX][SMALL_KEY_BYTES];
	bool stored[RECORDS_MAX];
	size_t count;			 /* of keys that were ever stored, in their order */
	unsigned int asked[RECORDS_MAX]; /* by GET or DELETE */
	size_t first_asked;		 /* the record that the first of them was for */
	uint64_t gets, misses, deletes, calls;
	enum kvd_status change_status;
	bool finds_all;
	size_t shorter; /* bytes that the values of GETs lack */
	bool pauses;
} store;

static size_t find(const void *key, size_t key_len)
{
	size_t i;

	assert_int_equal(key_len, SMALL_KEY_BYTES);
	for (i = 0; i < store.count; i++)
		if (!memcmp(store.keys[i], key, key_len))
			break;
	return i;
}

static size_t ask(const void *key, size_t key_len)
{
	const size_t i = find(key, key_len);

	if (store.gets + store.misses + store.deletes == 0)
		store.first_asked = i;
	if (i < store.count)
		store.asked[i]++;
	return i;
}

/* Each time another key. */
static void miss(const void *key)
{
	for (size_t i = 0; i < store.misses; i++)
		assert_memory_not_equal(store.missed[i], key, SMALL_KEY_BYTES);
	assert_true(store.misses < RECORDS_MAX);
	memcpy(store.missed[store.misses++], key, SMALL_KEY_BYTES);
}

static void store_get(struct db *db, struct kvd_get_request *requests, size_t count)
{
	(void)db;
	assert_in_range(count, 1, SMALL_BATCH);
	store.calls++;
	for (size_t r = 0; r < count; r++) {
		const size_t i = ask(requests[r].key, requests[r].key_len);

		requests[r].status = KVD_NOT_FOUND;
		if (!store.finds_all && (i == store.count || !store.stored[i])) {
			miss(requests[r].key);
			continue;
		}
		store.gets++;
		assert_int_equal(requests[r].value_size, SMALL_VALUE_BYTES);
		requests[r].status = KVD_OK;
		requests[r].item.value_len = SMALL_VALUE_BYTES - store.shorter;
		memcpy(requests[r].value, store.values[i], SMALL_VALUE_BYTES);
	}
}

static void pause_if(bool pauses)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	if (pauses)
		nanosleep(&pause, NULL);
}

static enum kvd_status store_put(struct db *db, const struct db_change *changes, size_t count)
{
	(void)db;
	assert_in_range(count, 1, SMALL_BATCH);
	pause_if(store.pauses);
	store.calls++;
	for (size_t c = 0; c < count; c++) {
		const size_t i = find(changes[c].key, changes[c].key_len);

		assert_int_equal(i, store.count); /* a new one */
		assert_true(i < RECORDS_MAX);
		assert_int_equal(changes[c].value_len, SMALL_VALUE_BYTES);
		memcpy(store.keys[i], changes[c].key, SMALL_KEY_BYTES);
		memcpy(store.values[i], changes[c].value, SMALL_VALUE_BYTES);
		store.stored[i] = true;
		store.count++;
	}
	return store.change_status;
}

static enum kvd_status store_remove(struct db *db, const struct db_change *changes, size_t count)
{
	(void)db;
	store.calls++;
	for (size_t c = 0; c < count; c++) {
		const size_t i = ask(changes[c].key, changes[c].key_len);

		assert_true(i < store.count && store.stored[i]);
		store.stored[i] = false;
		store.deletes++;
	}
	return store.change_status;
}

static const struct db_backend backend = {
	.name = "test",
	.open = fake_store_open,
	.close = fake_store_close,
	.get = store_get,
	.put = store_put,
	.remove = store_remove,
	.server_stats = fake_store_statistics,
	.error = fake_store_error,
};

static const struct db_target target = { &backend, "test:somewhere", 7 };

static int setup(void **state)
{
	(void)state;
	memset(&store, 0, sizeof(store));
	fake_store_reset(&backend);
	return 0;
}

/* Expects that @op ends well. Returns what it printed. */
static const char *run(enum small_op op, uint64_t records)
{
	int error;

	captured_begin(stdout);
	error = small_run(&target, op, records);
	assert_int_equal(error, 0);
	assert_string_equal(fake_store.url, target.url);
	return captured_end();
}

static void assert_fails(enum small_op op, uint64_t records, int error, const char *why)
{
	const char *printed;
	int got;

	captured_begin(stderr);
	got = small_run(&target, op, records);
	printed = captured_end();
	assert_int_equal(got, error);
	if (!strstr(printed, why))
		fail_msg("printed %s, not %s", printed, why);
}

/* The last batch is not a whole one. A value has its record's number. */
static void every_record_is_stored(void **state)
{
	char value[SMALL_VALUE_BYTES + 1];
	const char *printed;

	(void)state;
	printed = run(SMALL_PUT, RECORDS);
	assert_non_null(strstr(printed, "records 200\n"));
	assert_non_null(strstr(printed, "seconds "));
	assert_non_null(strstr(printed, "per_second "));
	assert_int_equal(store.count, RECORDS);
	assert_int_equal(store.calls, (RECORDS + SMALL_BATCH - 1) / SMALL_BATCH);
	assert_int_equal(fake_store.options.depth, target.depth);
	for (unsigned int i = 0; i < RECORDS; i++) {
		snprintf(value, sizeof(value), "%032u", i);
		assert_memory_equal(store.values[i], value, SMALL_VALUE_BYTES);
	}
}

/* A sleep is never shorter than asked for: the rate is that of the time that the calls took. */
static void the_rate_is_of_the_time_it_took(void **state)
{
	const double seconds_min = 4 * (double)PAUSE_NS / 1e9; /* of 200 in batches of 64 */
	double records, seconds, per_second;

	(void)state;
	store.pauses = true;
	assert_int_equal(sscanf(run(SMALL_PUT, RECORDS), "records %lf seconds %lf per_second %lf",
				&records, &seconds, &per_second),
			 3);
	assert_true(seconds >= seconds_min - 0.001);
	assert_true(per_second > 0 && per_second <= RECORDS / seconds_min);
}

static void assert_each_asked_once(void)
{
	for (size_t i = 0; i < RECORDS_MAX; i++)
		assert_int_equal(store.asked[i], i < RECORDS);
}

static void every_record_is_read(void **state)
{
	(void)state;
	run(SMALL_PUT, RECORDS);
	store.calls = 0;
	run(SMALL_GET, RECORDS);
	assert_int_equal(store.gets, RECORDS);
	assert_int_equal(store.misses, 0);
	assert_int_equal(store.calls, (RECORDS + SMALL_BATCH - 1) / SMALL_BATCH);
	assert_each_asked_once();
	assert_int_not_equal(store.first_asked, 0); /* not in the order of the PUTs */
}

static void every_record_is_deleted(void **state)
{
	(void)state;
	run(SMALL_PUT, RECORDS);
	run(SMALL_DELETE, RECORDS);
	assert_int_equal(store.deletes, RECORDS);
	assert_each_asked_once();
}

static void misses_are_of_other_keys(void **state)
{
	(void)state;
	run(SMALL_PUT, RECORDS);
	run(SMALL_MISS, RECORDS);
	assert_int_equal(store.misses, RECORDS);
	assert_int_equal(store.gets, 0);
}

static void what_is_wrong_is_reported(void **state)
{
	(void)state;
	run(SMALL_PUT, RECORDS);
	assert_fails(SMALL_GET, RECORDS + 1, -EBADMSG, "GET: not found: the store's reason");
	store.values[RECORDS - 1][SMALL_VALUE_BYTES - 1] ^= 1;
	assert_fails(SMALL_GET, RECORDS, -EBADMSG, "GET: WRONG VALUE");
	store.values[RECORDS - 1][SMALL_VALUE_BYTES - 1] ^= 1;
	store.shorter = 1;
	assert_fails(SMALL_GET, RECORDS, -EBADMSG, "GET: WRONG VALUE");
	store.change_status = KVD_ERR_NO_SPACE;
	assert_fails(SMALL_DELETE, RECORDS, -EBADMSG, "DELETE: ");
	memset(&store, 0, sizeof(store));
	fake_store_reset(&backend);
	store.change_status = KVD_ERR_NO_SPACE;
	assert_fails(SMALL_PUT, RECORDS, -EBADMSG, "PUT: ");
	assert_int_equal(store.calls, 1); /* nothing is done after a failure */
	memset(&store, 0, sizeof(store));
	fake_store_reset(&backend);
	store.finds_all = true;
	assert_fails(SMALL_MISS, RECORDS, -EBADMSG, "GET: ");
}

static void no_connection(void **state)
{
	(void)state;
	fake_store.open_status = KVD_ERR_UNREACHABLE;
	assert_fails(SMALL_GET, 1, -ENOTCONN, "can't connect to test:somewhere");
	fake_store.open_status = KVD_ERR_INVALID;
	assert_fails(SMALL_GET, 1, -EINVAL, "can't connect to test:somewhere");
	fake_store.open_status = KVD_ERR_NO_MEMORY;
	assert_fails(SMALL_GET, 1, -ENOMEM, "can't connect to test:somewhere");
	assert_int_equal(store.calls, 0);
}

static void keys_are_counted(void **state)
{
	const char *printed;
	int error;

	(void)state;
	fake_store.statistics = "evictions 3\nitems 4711\nitems_all 5\n";
	captured_begin(stdout);
	error = small_count(&target);
	printed = captured_end();
	assert_int_equal(error, 0);
	assert_string_equal(printed, "4711\n");
	fake_store.statistics = "items_all 5\n";
	captured_begin(stderr);
	error = small_count(&target);
	printed = captured_end();
	assert_int_equal(error, -EBADMSG);
	assert_non_null(strstr(printed, "does not report"));
	fake_store.open_status = KVD_ERR_UNREACHABLE;
	captured_begin(stderr);
	error = small_count(&target);
	captured_end();
	assert_int_equal(error, -ENOTCONN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fake_store_teardown)
		TEST(every_record_is_stored),
		TEST(the_rate_is_of_the_time_it_took),
		TEST(every_record_is_read),
		TEST(every_record_is_deleted),
		TEST(misses_are_of_other_keys),
		TEST(what_is_wrong_is_reported),
		TEST(no_connection),
		TEST(keys_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
