/* SPDX-License-Identifier: MIT */
/*
 * Shared by the unit tests of the storage engine: the store, its clock, random numbers, values and
 * sums of statistics, for cmocka programs with one store.
 */
#ifndef KVD_TESTS_SUPPORT_STORE_TEST_H
#define KVD_TESTS_SUPPORT_STORE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "tests/support/store_fixture.h"

static struct store store;

/* What the tests set the engine's clock to: far from 0, and not a whole second. */
#define ENGINE_NOW_NS 1700000000500000000ull
#define SECOND_NS 1000000000ull

__attribute__((unused)) static uint64_t random_next(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* Sets the store's clock, which advances from there on. */
__attribute__((unused)) static void set_now(uint64_t now_ns)
{
	store.table.clock_base = now_ns - clock_raw_ns();
	for (unsigned int i = 0; i < test_thread_count; i++)
		test_threads[i].now_ns = now_ns;
}

#define assert_store(census)                                                                       \
	do {                                                                                       \
		const char *store_error = test_store_check(&store, census);                        \
		if (store_error)                                                                   \
			fail_msg("%s", store_error);                                               \
	} while (0)

__attribute__((unused)) static uint64_t hash_of(const void *key, uint32_t key_len)
{
	return table_hash(&store.table, key, key_len);
}

/* The sum of a statistic over all store threads. */
__attribute__((unused)) static uint64_t stats_sum(size_t offset)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < store.table.thread_count; i++)
		sum += stat_read(
			(const uint64_t *)((char *)&store.table.threads[i]->stats + offset));
	return sum;
}

#define STAT(name) stats_sum(offsetof(struct table_stats, name))

/* Fills @value with a word that depends on @key and @salt, repeated. */
__attribute__((unused)) static void value_make(uint8_t *value, uint32_t len, uint64_t key,
					       uint64_t salt)
{
	uint64_t word = (key + 1) * 0x9e3779b97f4a7c15u + salt;

	for (uint32_t i = 0; i < len; i += sizeof(word))
		memcpy(value + i, &word, len - i < sizeof(word) ? len - i : sizeof(word));
}

#endif /* KVD_TESTS_SUPPORT_STORE_TEST_H */
