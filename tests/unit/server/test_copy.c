/* SPDX-License-Identifier: MIT */
/*
 * Tests of copies of large items: they take a bounded share of the memory, and the oldest are freed
 * first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/net/copy.h"
#include "tests/support/store_fixture.h"

#define REGION_BYTES (8u << 20)
#define CONNS 64

static struct store store;
static struct worker worker;
static struct poller poller;
static struct conn conns[CONNS];
static uint8_t value[200000];

static int setup(void **state)
{
	(void)state;
	test_store_create(&store, REGION_BYTES, 6, 1);
	memset(&worker, 0, sizeof(worker));
	memset(conns, 0, sizeof(conns));
	TAILQ_INIT(&worker.copies);
	TAILQ_INIT(&worker.part.copies);
	worker.limits.workers = 1;
	worker.part.store = &store;
	poller.worker = &worker;
	for (unsigned int i = 0; i < CONNS; i++) {
		conns[i].poller = &poller;
		conns[i].part = &worker.part;
	}
	return store_thread_init(&worker.part.thread, &store.table, 1);
}

static int teardown(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < CONNS; i++)
		copy_drop(&worker, &conns[i]);
	assert_int_equal(worker.part.copies_bytes, 0);
	store_thread_release(&worker.part.thread);
	assert_null(test_store_check(&store, NULL));
	test_store_destroy(&store);
	return 0;
}

/* Puts the key, and gives a copy of its item to the connection. */
static void keep(unsigned int conn, const char *key, uint32_t len)
{
	uint32_t key_len = (uint32_t)strlen(key);
	uint64_t hash = table_hash(&store.table, key, key_len);
	struct large large;

	assert_int_equal(test_store_put(&store, key, key_len, value, len, NULL), WIRE_OK);
	large_copy(&large, &worker.part.thread, hash, key, key_len, 7);
	large_run(&large);
	assert_int_equal(large.status, WIRE_OK);
	copy_keep(&worker, &conns[conn], large.copy);
}

/* Connections that have a copy. */
static unsigned int kept(void)
{
	unsigned int i, n = 0;

	for (i = 0; i < CONNS; i++)
		n += conns[i].copy != NULL;
	return n;
}

/* The share is in bytes: it holds many small copies or few large ones. */
static void share_of_the_memory(uint32_t len)
{
	uint64_t share = memory_bytes(store.memory) / COPIES_SHARE;
	uint64_t copy_bytes = mem_class_bytes(item_bytes(1, len));
	unsigned int i;

	for (i = 0; i < CONNS; i++)
		keep(i, "k", len);
	assert_int_equal(kept(), share / copy_bytes);
	assert_true(worker.part.copies_bytes <= share);
	/* The newest are kept. */
	for (i = 0; i < CONNS; i++)
		assert_int_equal(conns[i].copy != NULL, i >= CONNS - share / copy_bytes);
}

static void small_copies(void **state)
{
	(void)state;
	share_of_the_memory(8000);
}

static void large_copies(void **state)
{
	(void)state;
	share_of_the_memory(70000);
}

/* The workers divide the share. */
static void a_share_for_each_worker(void **state)
{
	(void)state;
	worker.limits.workers = 4;
	for (unsigned int i = 0; i < CONNS; i++)
		keep(i, "k", 8000);
	assert_int_equal(kept(), memory_bytes(store.memory) / COPIES_SHARE / 4 /
					 mem_class_bytes(item_bytes(1, 8000)));
}

/* An idle connection does not keep its copy for ever. */
static void old_copies(void **state)
{
	(void)state;
	keep(0, "k", 8000);
	worker.part.thread.now_ns += COPY_NS_MAX - 1;
	keep(1, "l", 8000);
	copy_expire(&worker);
	assert_int_equal(kept(), 2);
	worker.part.thread.now_ns += 1;
	copy_expire(&worker);
	assert_int_equal(kept(), 1);
	assert_non_null(conns[1].copy);
}

/* A copy that is larger than the share is kept, as the only one. */
static void a_copy_above_the_share(void **state)
{
	(void)state;
	keep(0, "k", 8000);
	keep(1, "l", sizeof(value));
	keep(2, "m", sizeof(value));
	assert_int_equal(kept(), 1);
	assert_non_null(conns[2].copy);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(small_copies), CASE(large_copies),		  CASE(a_share_for_each_worker),
		CASE(old_copies),   CASE(a_copy_above_the_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
