/* SPDX-License-Identifier: MIT */
/* Tests of the registry of connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/control/conn_registry.h"
#include "server/worker/conn.h"

#define CONNS_MAX 20
#define SLOTS 32
#define STEPS 100000

static struct conn_registry registry;
static struct conn conns[SLOTS];
static uint64_t numbers[SLOTS]; /* 0: not in the registry */

static int setup(void **state)
{
	(void)state;
	memset(numbers, 0, sizeof(numbers));
	return conn_registry_init(&registry, CONNS_MAX);
}

static int teardown(void **state)
{
	(void)state;
	conn_registry_release(&registry);
	return 0;
}

static void a_number_is_used_once(void **state)
{
	uint64_t first, second;

	(void)state;
	first = conn_registry_add(&registry, &conns[0].client);
	assert_ptr_equal(conn_registry_find(&registry, first), &conns[0].client);
	conn_registry_remove(&registry, first);
	assert_null(conn_registry_find(&registry, first));
	second = conn_registry_add(&registry, &conns[1].client);
	assert_int_not_equal(first, second);
	assert_null(conn_registry_find(&registry, first));
	assert_null(conn_registry_find(&registry, 0));
	assert_null(conn_registry_find(&registry, UINT64_MAX));
	conn_registry_remove(&registry, second);
}

static void full(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < SLOTS; i++)
		assert_int_not_equal(conn_registry_add(&registry, &conns[i].client), 0);
	assert_int_equal(conn_registry_add(&registry, &conns[0].client), 0);
}

/* Pages of a few slots find each connection once. */
static void list_and_compare(void)
{
	unsigned int seen[SLOTS] = { 0 }, i;
	struct client *client;
	uint32_t slot = 0;

	while (slot < registry.count) {
		client = conn_registry_next(&registry, &slot, 3);
		if (client)
			seen[client_conn(client) - conns]++;
	}
	for (i = 0; i < SLOTS; i++)
		assert_int_equal(seen[i], numbers[i] != 0);
}

static void as_a_model(void **state)
{
	unsigned int step, i;

	(void)state;
	srand(1);
	for (step = 0; step < STEPS; step++) {
		i = (unsigned int)rand() % SLOTS;
		if (numbers[i]) {
			assert_ptr_equal(conn_registry_find(&registry, numbers[i]),
					 &conns[i].client);
			conn_registry_remove(&registry, numbers[i]);
			assert_null(conn_registry_find(&registry, numbers[i]));
			numbers[i] = 0;
		} else {
			numbers[i] = conn_registry_add(&registry, &conns[i].client);
			assert_int_not_equal(numbers[i], 0);
		}
		if (step % 64 == 0)
			list_and_compare();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_number_is_used_once, setup, teardown),
		cmocka_unit_test_setup_teardown(full, setup, teardown),
		cmocka_unit_test_setup_teardown(as_a_model, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
