/* SPDX-License-Identifier: MIT */
/*
 * Tests of the player of traces against a store of the test: what is a hit, what of it is counted,
 * and that each value is checked.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/kvtrace/replay.h"
#include "tests/support/captured.h"
#include "tests/support/fake_store.h"

#define KEYS_MAX 16
#define SIZE_MAX_OF_TEST 200

/* The keys of the test's traces are small: each has its place. */
static struct {
	unsigned int gets, batches, puts;
	size_t len[KEYS_MAX];
	bool stored[KEYS_MAX];
	uint8_t values[KEYS_MAX][SIZE_MAX_OF_TEST];
	enum kvd_status put_fails_with, get_fails_with;
} store;

static struct replay_options options;
static struct replay_result result;
static char printed[1000]; /* to stderr, by the last replay */

static size_t number_of(const void *key, size_t key_len)
{
	char digits[REPLAY_KEY_BYTES + 1] = "";
	size_t number;

	assert_int_equal(key_len, REPLAY_KEY_BYTES);
	memcpy(digits, key, key_len);
	number = strtoull(digits, NULL, 16);
	assert_true(number < KEYS_MAX);
	return number;
}

static void store_get(struct db *db, struct kvd_get_request *requests, size_t count)
{
	size_t i, number;

	(void)db;
	store.batches += count != 0;
	for (i = 0; i < count; i++) {
		number = number_of(requests[i].key, requests[i].key_len);
		store.gets++;
		requests[i].status = store.get_fails_with ? store.get_fails_with :
				     store.stored[number] ? KVD_OK :
							    KVD_NOT_FOUND;
		requests[i].item.value_len = store.len[number];
		assert_true(store.len[number] <= requests[i].value_size);
		memcpy(requests[i].value, store.values[number], store.len[number]);
	}
}

static enum kvd_status store_put(struct db *db, const struct db_change *changes, size_t count)
{
	const size_t number = number_of(changes->key, changes->key_len);

	(void)db;
	assert_int_equal(count, 1);
	store.puts++;
	if (store.put_fails_with)
		return store.put_fails_with;
	assert_true(changes->value_len <= SIZE_MAX_OF_TEST);
	memcpy(store.values[number], changes->value, changes->value_len);
	store.len[number] = changes->value_len;
	store.stored[number] = true;
	return KVD_OK;
}

static const struct db_backend backend = {
	.name = "test",
	.open = fake_store_open,
	.close = fake_store_close,
	.get = store_get,
	.put = store_put,
	.error = fake_store_error,
};

static int setup(void **state)
{
	(void)state;
	memset(&store, 0, sizeof(store));
	fake_store_reset(&backend);
	options = (struct replay_options){
		.target = { &backend, "test:", 1 },
		.timeout_ms = 23456,
		.cache_bytes = 12345,
		.batch = 1,
	};
	return 0;
}

static int play(const char *text)
{
	static struct trace trace;
	int ret;

	trace = (struct trace){ .format = TRACE_FORMAT_DEFAULT, .name = "T" };
	trace.file = fmemopen((char *)(uintptr_t)text, strlen(text), "r");
	assert_non_null(trace.file);
	captured_begin(stderr);
	ret = replay_run(&trace, &options, &result);
	snprintf(printed, sizeof(printed), "%s", captured_end());
	trace_close(&trace);
	assert_string_equal(fake_store.url, options.target.url);
	assert_int_equal(fake_store.options.cache_bytes, options.cache_bytes);
	return ret;
}

static void assert_counted(uint64_t accesses, uint64_t hits)
{
	assert_int_equal(result.accesses, accesses);
	assert_int_equal(result.hits, hits);
	assert_int_equal(result.wrong, 0);
	assert_int_equal(fake_store.closed, 1);
	assert_string_equal(printed, "");
}

static void a_miss_is_stored_and_then_a_hit(void **state)
{
	(void)state;
	assert_int_equal(play("1 10\n2 20\n1 10\n3 0\n2 20\n3 0\n"), 0);
	assert_counted(6, 3);
	assert_int_equal(store.puts, 3);
	assert_int_equal(store.len[2], 20);
	assert_int_equal(result.resized + result.not_stored, 0);
}

/* A batch ends before a key that it has already. */
static void a_key_twice_is_a_miss_and_a_hit(void **state)
{
	(void)state;
	options.batch = 8;
	assert_int_equal(play("1 10\n1 10\n2 20\n3 30\n2 20\n2 20\n"), 0);
	assert_counted(6, 3);
	assert_int_equal(store.puts, 3);
	assert_int_equal(store.batches, 4);
}

static void a_full_batch_is_sent(void **state)
{
	(void)state;
	options.batch = 2;
	assert_int_equal(play("1 10\n2 20\n3 30\n4 40\n5 50\n1 10\n"), 0);
	assert_counted(6, 1);
	assert_int_equal(store.batches, 3);
}

static void the_warm_up_is_not_counted(void **state)
{
	(void)state;
	options.warmup = 5;
	assert_int_equal(play("1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n"), 0);
	assert_counted(5, 5);
	assert_int_equal(store.gets, 10);
}

/* A warm-up that ends in the middle of a batch is not counted either. */
static void the_warm_up_ends_within_a_batch(void **state)
{
	(void)state;
	options.warmup = 5;
	options.batch = 4;
	assert_int_equal(play("1\n2\n3\n4\n1\n2\n3\n5\n"), 0);
	assert_counted(3, 2);
}

static void what_finds_no_room_is_counted(void **state)
{
	(void)state;
	store.put_fails_with = KVD_ERR_NO_SPACE;
	assert_int_equal(play("1 10\n1 10\n"), 0);
	assert_counted(2, 0);
	assert_int_equal(result.not_stored, 2);
}

static void values_that_are_too_large_are_counted(void **state)
{
	(void)state;
	store.put_fails_with = KVD_ERR_TOO_LARGE;
	assert_int_equal(play("1 10\n2 10\n"), 0);
	assert_counted(2, 0);
	assert_int_equal(result.not_stored, 2);
}

static void other_failures_end_it(void **state)
{
	(void)state;
	store.put_fails_with = KVD_ERR_TIMEOUT;
	assert_int_equal(play("1 10\n1 10\n"), -EIO);
	assert_int_equal(store.puts, 1);
	assert_int_equal(fake_store.closed, 1);
	assert_string_equal(printed, "kvtrace: PUT after 1 accesses failed: timed out: "
				     "the store's reason\n");
}

static void a_get_that_fails_ends_it(void **state)
{
	(void)state;
	options.batch = 2;
	store.get_fails_with = KVD_ERR_DISCONNECTED;
	assert_int_equal(play("1 10\n2 10\n3 10\n"), -EIO);
	assert_int_equal(store.gets, 2);
	assert_int_equal(store.puts, 0);
	assert_int_equal(result.hits, 0);
	assert_int_equal(fake_store.closed, 1);
	assert_string_equal(printed, "kvtrace: GET after 1 accesses failed: connection lost: "
				     "the store's reason\n");
}

/* What came before it is played. */
static void a_bad_line_ends_it(void **state)
{
	(void)state;
	assert_int_equal(play("1 10\n1 10\nx\n"), -EINVAL);
	assert_int_equal(store.puts, 1);
	assert_int_equal(fake_store.closed, 1);
	assert_string_equal(printed, "kvtrace: T:3: 'x' is no key: give a number below 2^64\n");
}

static void no_server(void **state)
{
	(void)state;
	fake_store.open_status = KVD_ERR_UNREACHABLE;
	assert_int_equal(play("1 10\n"), -ENOTCONN);
	assert_int_equal(fake_store.closed, 0);
	assert_non_null(strstr(printed, ": can't connect to test:: server unreachable: the store"));
}

/* Timeouts are those of the options, else libkvd's own. */
static void timeouts(void **state)
{
	struct kvd_options usual;

	(void)state;
	assert_int_equal(play("1 10\n"), 0);
	assert_int_equal(fake_store.options.timeout_ms, 23456);
	assert_int_equal(fake_store.options.connect_timeout_ms, 23456);
	options.timeout_ms = 0;
	assert_int_equal(play("1 10\n"), 0);
	kvd_options_init(&usual);
	assert_int_equal(fake_store.options.timeout_ms, usual.timeout_ms);
	assert_int_equal(fake_store.options.connect_timeout_ms, usual.connect_timeout_ms);
}

static void an_empty_trace(void **state)
{
	(void)state;
	assert_int_equal(play("# nothing\n"), 0);
	assert_counted(0, 0);
	assert_int_equal(store.gets, 0);
}

/* The last of 21 accesses is not before its turn; its time is that of all. */
static void no_faster_than_the_rate(void **state)
{
	(void)state;
	options.rate = 2000;
	assert_int_equal(play("1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n"),
			 0);
	assert_counted(21, 20);
	assert_true(result.elapsed_ns >= 10000000);
}

/* A shorter value that was stored before is no wrong one. */
static void values_of_another_size_are_counted(void **state)
{
	(void)state;
	assert_int_equal(play("1 10\n1 20\n1 10\n"), 0);
	assert_counted(3, 2);
	assert_int_equal(result.resized, 1);
}

static void wrong_values_are_found(void **state)
{
	(void)state;
	store.stored[1] = true;
	store.len[1] = 10;
	assert_int_equal(play("1 10\n2 10\n2 10\n"), 0);
	assert_int_equal(result.wrong, 1);
	assert_int_equal(result.hits, 2);
	assert_string_equal(printed, "kvtrace: WRONG VALUE of key 1 (10 bytes)\n");
}

/* All bytes of each value are looked at; the first wrong one is printed. */
static void wrong_bytes_are_found(void **state)
{
	(void)state;
	assert_int_equal(play("15 100\n14 1\n"), 0);
	store.values[15][99] ^= 1;
	store.values[14][0] ^= 1;
	assert_int_equal(play("15 100\n14 1\n15 100\n15 99\n"), 0);
	assert_int_equal(result.wrong, 4);
	assert_int_equal(result.resized, 1);
	assert_string_equal(printed, "kvtrace: WRONG VALUE of key 15 (100 bytes)\n");
}

/* Another key has another one. */
static void values_follow_from_keys(void **state)
{
	(void)state;
	assert_int_equal(play("1 32\n2 32\n"), 0);
	assert_memory_not_equal(store.values[1], store.values[2], 8);
	assert_memory_not_equal(store.values[1], store.values[1] + 8, 8);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fake_store_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_miss_is_stored_and_then_a_hit),
		TEST(a_key_twice_is_a_miss_and_a_hit),
		TEST(a_full_batch_is_sent),
		TEST(the_warm_up_is_not_counted),
		TEST(the_warm_up_ends_within_a_batch),
		TEST(what_finds_no_room_is_counted),
		TEST(values_that_are_too_large_are_counted),
		TEST(other_failures_end_it),
		TEST(a_get_that_fails_ends_it),
		TEST(a_bad_line_ends_it),
		TEST(no_server),
		TEST(timeouts),
		TEST(an_empty_trace),
		TEST(no_faster_than_the_rate),
		TEST(values_of_another_size_are_counted),
		TEST(wrong_values_are_found),
		TEST(wrong_bytes_are_found),
		TEST(values_follow_from_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
