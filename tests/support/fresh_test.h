/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of EVICT-1 in server/store/evict.h: of a full store nothing that was stored
 * within the last quarter of its memory is evicted while there is something older, whatever the
 * sizes are.
 */
#ifndef KVD_TESTS_SUPPORT_FRESH_TEST_H
#define KVD_TESTS_SUPPORT_FRESH_TEST_H

#include <urcu-qsbr.h>

#include "server/store/lookup.h"
#include "server/store/update.h"
#include "tests/support/form.h"
#include "tests/support/store_test.h"

/* The first key of a pass; keys of the first items count from 0 on. */
#define KEYS_OF(pass) ((uint64_t)(pass) << 32)

/* The short form has every other of them. */
static const uint32_t lengths[] = {
	8, 200, 1000, 10000, 40000, 300000, 1 << 20, 4u << 20, 16u << 20
};
#define LENGTHS (sizeof(lengths) / sizeof(*lengths) - (long_form() ? 0 : 2))
#define STEP (long_form() ? 1u : 2u)

static uint8_t value[96u << 20];

static uint64_t region_bytes(void)
{
	return long_form() ? 256u << 20 : 32u << 20;
}

static void create(enum eviction_policy policy, unsigned int threads)
{
	const struct store_options options = {
		.fill = STORE_NO_GROWTH,
		.eviction = policy,
		.pin_share = 30,
		.pin_time_max = 3600,
	};

	test_store_create_with(&store, region_bytes(), long_form() ? 20 : 17, threads, &options);
	set_now(ENGINE_NOW_NS);
}

static uint64_t bytes_of(uint32_t len)
{
	return mem_class_bytes(item_bytes_for(8, len, 0));
}

static void put_with(struct store_thread *thread, uint64_t key, uint32_t len, uint32_t pin)
{
	struct table_change change = {
		.key = &key, .key_len = 8, .value = value, .value_len = len, .wish.pin = pin
	};

	if (table_put(thread, hash_of(&key, 8), &change))
		fail_msg("%u bytes were not stored", len);
	rcu_quiescent_state();
}

static uint64_t put_all(uint64_t first, uint64_t bytes, uint32_t len)
{
	uint64_t n = bytes / bytes_of(len);

	for (uint64_t i = 0; i < n; i++)
		put_with(&test_threads[0], first + i, len, 0);
	return n;
}

static uint64_t lost(uint64_t first, uint64_t n)
{
	struct item_ref ref;
	uint64_t missing = 0;

	for (uint64_t key = first; key < first + n; key++)
		missing += lookup_get(&test_threads[0], hash_of(&key, 8), &key, 8, NULL, 0, &ref) !=
			   WIRE_OK;
	return missing;
}

/* A little less than a quarter, since an item is longer than what is known of it. */
static uint64_t quarter(void)
{
	return memory_bytes(store.memory) / 100 * 24;
}

static void fill(uint32_t len)
{
	put_all(KEYS_OF(0), memory_bytes(store.memory) / 4 * 5, len);
}

static void assert_none_lost(uint64_t first, uint64_t n, uint32_t before, uint32_t len)
{
	uint64_t missing = lost(first, n);

	if (missing)
		fail_msg("of %llu values of %u bytes, stored after those of %u, %llu are lost",
			 (unsigned long long)n, len, before, (unsigned long long)missing);
}

#endif /* KVD_TESTS_SUPPORT_FRESH_TEST_H */
