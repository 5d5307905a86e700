/* SPDX-License-Identifier: MIT */
/*
 * Registered memory with a real server over softnic: threads that read and store from an arena
 * while others register, use and end memory of their own, and registrations that a device splits.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/local_server.h"

#define THREADS 3
#define ROUNDS 40
#define VALUE_BYTES 300000u
#define ARENA_BYTES (4u << 20)

static char url[256];

static void fill(uint8_t *to, uint8_t seed)
{
	for (size_t i = 0; i < VALUE_BYTES; i++)
		to[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s\n", what);
		abort();
	}
}

static void store_and_read(struct kvd *db, const char *key, uint8_t *in, uint8_t *out, uint8_t seed)
{
	struct kvd_item item;

	fill(in, seed);
	must(!kvd_put(db, key, strlen(key), in, VALUE_BYTES, NULL, NULL), kvd_error(db));
	memset(out, 0, VALUE_BYTES);
	must(!kvd_get(db, key, strlen(key), out, VALUE_BYTES, &item), kvd_error(db));
	must(item.value_len == VALUE_BYTES && !memcmp(in, out, VALUE_BYTES), "wrong bytes");
}

/* In turn from memory of its own, that it ends, and from plain memory. */
static void *work(void *arg)
{
	uint8_t *plain = malloc(2 * (size_t)VALUE_BYTES);
	struct kvd *db = local_server_open(url, NULL);
	struct kvd_stats stats;
	struct kvd_mem *mem;
	char key[16];
	void *at;

	snprintf(key, sizeof(key), "key%d", (int)(intptr_t)arg);
	for (int i = 0; i < ROUNDS; i++) {
		must(!kvd_alloc(db, 2 * (size_t)VALUE_BYTES, &at, &mem), kvd_error(db));
		store_and_read(db, key, at, (uint8_t *)at + VALUE_BYTES, (uint8_t)i);
		must(!kvd_free(mem), kvd_error(NULL));
		must(!kvd_register(db, plain, 2 * (size_t)VALUE_BYTES, &mem), kvd_error(db));
		store_and_read(db, key, plain, plain + VALUE_BYTES, (uint8_t)(i + 1));
		must(!kvd_deregister(mem), kvd_error(NULL));
		store_and_read(db, key, plain, plain + VALUE_BYTES, (uint8_t)(i + 2));
	}
	kvd_stats(db, &stats);
	/* On softnic what is stored from memory that has no file is copied. */
	must(stats.direct_bytes == ROUNDS * 3ull * VALUE_BYTES, "direct_bytes");
	kvd_close(db);
	free(plain);
	return NULL;
}

static void threads_register_and_end(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (intptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* Every place of a buffer in an arena that one thread's handle registered and another's uses. */
static void across_handles(void **state)
{
	struct kvd *a = local_server_open(url, NULL), *b = local_server_open(url, NULL);
	struct kvd_mem_info info;
	struct kvd_mem *mem;
	void *arena;
	size_t at;

	(void)state;
	assert_int_equal(kvd_alloc(a, ARENA_BYTES, &arena, &mem), KVD_OK);
	kvd_mem_info(mem, &info);
	kvd_close(a);
	for (at = 0; at + 2 * (size_t)VALUE_BYTES <= ARENA_BYTES; at += 99991)
		store_and_read(b, "key", (uint8_t *)arena + at, (uint8_t *)arena + at + VALUE_BYTES,
			       (uint8_t)at);
	kvd_close(b);
	assert_int_equal(kvd_free(mem), KVD_OK);
	print_message("%u registrations\n", info.registrations);
}

/* What is under way when its handle is closed uses the memory no longer. */
static void a_handle_is_closed_under_operations(void **state)
{
	struct kvd *owner = local_server_open(url, NULL);
	struct kvd_op put, *ops[] = { &put };
	struct kvd_mem *mem;
	struct kvd *db;
	void *addr;

	(void)state;
	assert_int_equal(kvd_alloc(owner, VALUE_BYTES, &addr, &mem), KVD_OK);
	fill(addr, 1);
	for (int i = 0; i < 3; i++) {
		db = local_server_open(url, NULL);
		kvd_prep_put(&put, "key", 3, addr, VALUE_BYTES, NULL);
		assert_int_equal(kvd_submit(db, ops, 1), KVD_OK);
		assert_int_equal(kvd_free(mem), KVD_ERR_BUSY);
		kvd_close(db);
	}
	assert_int_equal(kvd_free(mem), KVD_OK);
	kvd_close(owner);
}

int main(void)
{
	static const char *const options[] = { "memory.size=64m", "limits.max_value=1m", NULL };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_register_and_end),
		cmocka_unit_test(across_handles),
		cmocka_unit_test(a_handle_is_closed_under_operations),
	};
	int failed;

	local_server_init();
	snprintf(url, sizeof(url), "%s", local_server_begin(options));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return local_server_end() ? failed : 1;
}
