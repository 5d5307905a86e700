/* SPDX-License-Identifier: MIT */
/*
 * Ranges of values that other clients overwrite meanwhile, with a real server over softnic: each
 * range is of one version, the one that its item names, and versions never go back.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/local_server.h"

#define WRITERS 2
#define READERS 2
#define KEYS 3
#define ROUNDS 400
#define RANGES 8
#define VALUE_BYTES 400000u
#define RANGE_BYTES 150000u

static char url[256];
static atomic_bool stop;

/* Every word of a value has the seed, which no other value has; lengths differ by it. */
struct value {
	uint64_t words[VALUE_BYTES / 8];
};

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s\n", what);
		abort();
	}
}

static size_t length_of(uint64_t seed)
{
	return VALUE_BYTES - seed % 1000 * 8;
}

static void *writer(void *arg)
{
	struct kvd *db = local_server_open(url, NULL);
	struct value *value = malloc(sizeof(*value));
	uint64_t seed = (uint64_t)(uintptr_t)arg;
	char key;

	for (; !atomic_load(&stop); seed += WRITERS) {
		for (size_t i = 0; i < VALUE_BYTES / 8; i++)
			value->words[i] = seed ^ i << 40;
		key = (char)('a' + seed / WRITERS % KEYS);
		must(!kvd_put(db, &key, 1, value, length_of(seed), NULL, NULL), kvd_error(db));
	}
	kvd_close(db);
	free(value);
	return NULL;
}

/* Whether the range has the words of one value, and ends where that ends. */
static void check(const struct kvd_range *range)
{
	const uint64_t *words = range->value, first = range->offset / 8;
	size_t left = range->item.value_len - range->offset;
	size_t count = (left < range->value_size ? left : range->value_size) / 8;
	uint64_t seed = words[0] ^ first << 40;

	must(range->item.value_len == length_of(seed), "the item is another value's");
	for (size_t i = 0; i < count; i++)
		must(words[i] == (seed ^ (first + i) << 40), "bytes of two values");
}

static void *reader(void *arg)
{
	struct kvd *db = local_server_open(url, NULL);
	uint64_t versions[KEYS] = { 0 }, random = (uint64_t)(uintptr_t)arg * 7919 + 1;
	struct kvd_range ranges[RANGES];
	uint8_t *memory = malloc((size_t)RANGES * RANGE_BYTES);
	char keys[] = "abc";

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < RANGES; i++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			ranges[i] = (struct kvd_range){
				.key = &keys[i % KEYS],
				.key_len = 1,
				.offset = (random >> 33) % (VALUE_BYTES - 10000) / 8 * 8,
				.value = memory + (size_t)i * RANGE_BYTES,
				.value_size = RANGE_BYTES / 8 * 8,
			};
		}
		must(!kvd_get_ranges(db, ranges, RANGES), kvd_error(db));
		for (int i = 0; i < RANGES; i++) {
			/* Busy: it was overwritten at each try. */
			if (ranges[i].status == KVD_ERR_BUSY)
				continue;
			must(ranges[i].status == KVD_OK, kvd_status_text(ranges[i].status));
			check(&ranges[i]);
			/* The ranges of one call are under way together. */
			must(i >= KEYS || ranges[i].item.version >= versions[i], "an older value");
		}
		for (int i = 0; i < KEYS; i++)
			if (!ranges[i].status)
				versions[i] = ranges[i].item.version;
	}
	kvd_close(db);
	free(memory);
	return NULL;
}

static void overwritten_meanwhile(void **state)
{
	pthread_t writers[WRITERS], readers[READERS];
	struct kvd *db = local_server_open(url, NULL);
	struct value *value = calloc(1, sizeof(*value));

	(void)state;
	for (size_t i = 0; i < VALUE_BYTES / 8; i++)
		value->words[i] = i << 40;
	for (int i = 0; i < KEYS; i++)
		assert_int_equal(kvd_put(db, &"abc"[i], 1, value, VALUE_BYTES, NULL, NULL), KVD_OK);
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, writer, (void *)i), 0);
	for (uintptr_t i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, reader, (void *)i), 0);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	atomic_store(&stop, true);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	kvd_close(db);
	free(value);
}

int main(void)
{
	static const char *const options[] = { "memory.size=64m", "limits.max_value=1m", NULL };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overwritten_meanwhile),
	};
	int failed;

	local_server_init();
	snprintf(url, sizeof(url), "%s", local_server_begin(options));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return local_server_end() ? failed : 1;
}
