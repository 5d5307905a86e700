/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's backend for kvd against a server in this process: changes under way together
 * have the status of one that failed, whichever it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/db.h"
#include "tests/support/local_server.h"

#define DEPTH 8
#define HANGS_MS 300000
#define COUNT 100 /* more than are submitted together */

static struct db *db;

static void put(const char *key)
{
	const struct db_change change = { key, strlen(key), "value", 5 };

	assert_int_equal(db_put(db, &change, 1), KVD_OK);
}

static enum kvd_status delete_two(const char *first, const char *second)
{
	const struct db_change changes[] = { { first, strlen(first), NULL, 0 },
					     { second, strlen(second), NULL, 0 } };

	return db_delete(db, changes, 2);
}

static void the_status_is_of_one_that_failed(void **state)
{
	(void)state;
	put("a");
	assert_int_equal(delete_two("none", "a"), KVD_NOT_FOUND);
	put("a");
	assert_int_equal(delete_two("a", "none"), KVD_NOT_FOUND);
	put("a");
	put("b");
	assert_int_equal(delete_two("a", "b"), KVD_OK);
	assert_int_equal(delete_two("a", "b"), KVD_NOT_FOUND);
}

static void changes_fill(struct db_change *changes, uint16_t *keys)
{
	for (uint16_t i = 0; i < COUNT; i++) {
		keys[i] = i;
		changes[i] = (struct db_change){ &keys[i], sizeof(keys[i]), "value", 5 };
	}
}

/* Each change is done, also those after the first that are submitted together. */
static void all_of_many_are_done(void **state)
{
	struct db_change changes[COUNT];
	uint16_t keys[COUNT];
	char value[8];

	(void)state;
	changes_fill(changes, keys);
	assert_int_equal(db_put(db, changes, COUNT), KVD_OK);
	for (unsigned int i = 0; i < COUNT; i++) {
		struct kvd_get_request request = { .key = &keys[i],
						   .key_len = sizeof(keys[i]),
						   .value = value,
						   .value_size = sizeof(value) };

		db_get(db, &request, 1);
		assert_int_equal(request.status, KVD_OK);
		assert_int_equal(request.item.value_len, 5);
	}
	assert_int_equal(db_delete(db, changes, COUNT), KVD_OK);
	assert_int_equal(db_delete(db, changes + COUNT - 1, 1), KVD_NOT_FOUND);
}

static int server_begin(void **state)
{
	static const char *const assignments[] = { "memory.size=64m", NULL };
	const char *url = local_server_begin(assignments);
	struct kvd_options options;
	struct kvd *handle;
	char error[DB_ERROR_MAX];

	(void)state;
	kvd_options_init(&options);
	/* The first one waits until the server listens. */
	handle = local_server_open(url, &options);
	kvd_close(handle);
	options.depth = DEPTH;
	options.timeout_ms = options.connect_timeout_ms = HANGS_MS;
	return (int)db_kvd.open(&db, url, &options, error);
}

static int server_end(void **state)
{
	(void)state;
	db_close(db);
	return !local_server_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_status_is_of_one_that_failed),
		cmocka_unit_test(all_of_many_are_done),
	};

	local_server_init();
	return cmocka_run_group_tests(tests, server_begin, server_end);
}
