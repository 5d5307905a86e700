/* SPDX-License-Identifier: MIT */
/*
 * Tests of a fleet's member (OWNER-1 to OWNER-3 in server/fleet/fleet.h): what it refuses because
 * another member has the key, alone and in a BATCH, by number, within a user's limits; what it does
 * not; and the map, in parts.
 */
#include "server/worker/member.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/stat.h"
#include "server/fleet/fleet.h"
#include "server/fleet/static_map.h"
#include "server/worker/request.h"
#include "tests/support/limit_fixture.h"
#include "tests/support/store_fixture.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (8u << 20)
#define LARGE (1u << 20)
#define EPOCH 7u

static struct test_conn *const conn = &test_conns[0];
static struct fleet fleet;
static char mine[16], theirs[16]; /* keys of this member, and of the other */

static void key_find(char key[16], uint32_t member)
{
	uint64_t hash;
	unsigned int i = 0;

	do {
		snprintf(key, 16, "key%u", i++);
		hash = table_hash(&test_store.table, (const uint8_t *)key, (uint32_t)strlen(key));
	} while (fleet_row_owner(fleet.map->rows[fleet_shard(hash)]) != member);
}

static int setup(void **state)
{
	static const char text[] = "[fleet]\nname=f\nseed=0x77\nepoch=7\n"
				   "[member a]\nurl=softnic:///a\n[member b]\nurl=softnic:///b\n";
	char copy[sizeof(text)], why[STATIC_MAP_WHY_MAX];

	(void)state;
	strcpy(copy, text);
	assert_int_equal(static_map_parse(&fleet.map, copy, strlen(copy), why), 0);
	fleet.member = 1;
	assert_int_equal(test_worker_create(REGION_BYTES, LARGE), 0);
	conn->conn.fleet = &fleet;
	key_find(mine, 1);
	key_find(theirs, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_conn_complete(conn);
	test_worker_destroy();
	fleet_close(&fleet);
	return 0;
}

/* Receive 0 has the message, and earlier responses are sent. True: it was executed at once. */
static bool receive(struct wire_request head, const char *key, const void *value, uint32_t len)
{
	uint8_t *to = test_recv(0);

	test_conn_complete(conn);
	head.key_len = key ? (uint16_t)strlen(key) : 0;
	if (!head.value_len)
		head.value_len = len;
	memcpy(to, &head, sizeof(head));
	if (key)
		memcpy(to + sizeof(head), key, head.key_len);
	if (len)
		memcpy(to + sizeof(head) + head.key_len, value, len);
	return test_receive(conn, 0, sizeof(head) + head.key_len + len);
}

#define RECEIVE(key, value, ...)                                                                   \
	receive((struct wire_request){ __VA_ARGS__ }, key, value,                                  \
		value ? (uint32_t)strlen(value) : 0)

static void assert_moved(void)
{
	assert_int_equal(conn->response.status, WIRE_MOVED);
	assert_true(conn->response.epoch == EPOCH);
	assert_int_equal(conn->value_len, 0);
}

static const char *const no_value = NULL;

/* Each request that has a key; nothing is done, and no value is READ from the client. */
static void keyed_requests_are_refused(void **state)
{
	(void)state;
	assert_true(RECEIVE(theirs, no_value, .op = WIRE_GET));
	assert_moved();
	assert_true(RECEIVE(theirs, no_value, .op = WIRE_GET, .flags = WIRE_F_NO_VALUE));
	assert_moved();
	assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT));
	assert_moved();
	assert_true(RECEIVE(theirs, no_value, .op = WIRE_PUT, .flags = WIRE_F_PULL,
			    .value_len = LARGE, .pull_addr = 1));
	assert_moved();
	assert_int_equal(conn->read_count, 0);
	assert_true(RECEIVE(theirs, no_value, .op = WIRE_DELETE));
	assert_moved();
	assert_true(RECEIVE(theirs, no_value, .op = WIRE_ARITH, .flags = WIRE_F_CREATE));
	assert_moved();
	assert_true(RECEIVE(theirs, no_value, .op = WIRE_TOUCH));
	assert_moved();
	assert_true(RECEIVE(theirs, no_value, .op = WIRE_TOUCH, .flags = WIRE_F_VALUE));
	assert_moved();
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 8);
	assert_int_equal(stat_read(&test_worker.stats.puts), 0);
	assert_int_equal(store_items(&test_store), 0);
}

/* The member's own keys; requests without a key; and a prefix, which is in many shards. */
static void others_are_executed(void **state)
{
	(void)state;
	assert_true(RECEIVE(mine, "v", .op = WIRE_PUT));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_true(RECEIVE(mine, no_value, .op = WIRE_GET));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(conn->value_len, 1);
	assert_true(RECEIVE(NULL, no_value, .op = WIRE_PING));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_false(RECEIVE(theirs, no_value, .op = WIRE_SCAN));
	test_turns();
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 0);
}

/* A server in no fleet has all keys, and no map. */
static void no_fleet(void **state)
{
	(void)state;
	conn->conn.fleet = NULL;
	assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_false(RECEIVE(NULL, no_value, .op = WIRE_MAP));
	test_turns();
	assert_int_equal(conn->response.status, WIRE_NOT_FOUND);
	assert_true(!conn->response.epoch && !conn->response.result);
	assert_int_equal(conn->value_len, 0);
}

/* OWNER-2: a refused change that is sent again has the same answer. */
static void refusals_are_recorded(void **state)
{
	static struct answers answers;

	(void)state;
	answers_init(&answers, 1);
	conn->conn.answers = &answers;
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT, .change = 1));
		assert_moved();
		assert_int_equal(conn->response.flags, i ? WIRE_R_REPEATED : 0);
		/* By then the member has the key: the change stays refused. */
		fleet.member = 0;
	}
	assert_int_equal(store_items(&test_store), 0);
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 1);
	/* And what was executed is not refused later. */
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT, .change = 2));
		assert_int_equal(conn->response.status, WIRE_OK);
		assert_int_equal(conn->response.flags, i ? WIRE_R_REPEATED : 0);
		fleet.member = 1;
	}
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 1);
}

static struct wire_result batch_result_at(size_t *at)
{
	struct response parsed;
	struct wire_result result;

	memcpy(&result, conn->value + *at, sizeof(result));
	assert_null(wire_result_parse(&parsed, conn->value, conn->value_len, at));
	return result;
}

/* In a BATCH each request has its own owner, and its own answer, the second time as well. */
static void in_a_batch(void **state)
{
	static struct answers answers;
	const char *const keys[] = { theirs, mine, theirs };
	struct wire_request head = { .op = WIRE_BATCH, .count = 3, .change = 1 };
	uint8_t body[512];
	size_t used = 0;

	(void)state;
	answers_init(&answers, 1);
	conn->conn.answers = &answers;
	for (unsigned int i = 0; i < 3; i++) {
		const struct request put = {
			.op = WIRE_PUT,
			.key = (const uint8_t *)keys[i],
			.key_len = (uint32_t)strlen(keys[i]),
			.value = (const uint8_t *)"v",
			.value_len = 1,
		};

		wire_batched_write(&put, body + used);
		used += wire_batched_bytes(&put);
	}
	for (unsigned int again = 0; again < 2; again++) {
		size_t at = 0;

		assert_true(receive(head, NULL, body, (uint32_t)used));
		assert_int_equal(conn->response.status, WIRE_OK);
		assert_int_equal(conn->response.entries, 3);
		for (unsigned int i = 0; i < 3; i++) {
			const struct wire_result result = batch_result_at(&at);

			assert_int_equal(result.status, i == 1 ? WIRE_OK : WIRE_MOVED);
			assert_int_equal(result.flags, again ? WIRE_R_REPEATED : 0);
			if (i != 1)
				assert_true(result.version == EPOCH);
		}
	}
	assert_int_equal(store_items(&test_store), 1);
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 2);
}

/* OWNER-3: refusals count against the limits of a user; beyond them the answer is LIMIT. */
static void refusals_are_charged(void **state)
{
	static struct test_limit limit;
	uint64_t before;

	(void)state;
	test_limit_set(&limit, &conn->conn, 1, 0);
	before = test_limit_taken(&limit.account.requests_full);
	assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT));
	assert_moved();
	assert_true(test_limit_taken(&limit.account.requests_full) == before + 1);
	test_limit_use_up(&limit, &conn->conn);
	assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT));
	assert_int_equal(conn->response.status, WIRE_LIMIT);
	/* What the user may not do comes first. */
	test_limit_set(&limit, &conn->conn, 0, 0);
	limit.user.rights = USER_READ;
	assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT));
	assert_int_equal(conn->response.status, WIRE_NOT_ALLOWED);
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 1);
}

/* As much of the map as fits a response, from an offset on; nothing at the end, or after it. */
static void the_map_in_parts(void **state)
{
	const uint64_t bytes = fleet.map->bytes;
	const uint64_t ends[] = { bytes - 1, bytes, bytes + 1, UINT64_MAX };
	uint8_t *copy = malloc(bytes);
	struct fleet_map *map;
	uint64_t at = 0;

	(void)state;
	assert_non_null(copy);
	while (at < bytes) {
		assert_false(RECEIVE(NULL, no_value, .op = WIRE_MAP, .offset = at));
		test_turns();
		assert_int_equal(conn->response.status, WIRE_OK);
		assert_true(conn->response.epoch == EPOCH);
		assert_true(conn->response.result == bytes);
		assert_in_range(conn->value_len, 1, bytes - at);
		memcpy(copy + at, conn->value, conn->value_len);
		at += conn->value_len;
	}
	assert_null(fleet_map_make(&map, copy, bytes));
	assert_memory_equal(map->head, fleet.map->head, bytes);
	fleet_map_free(map);
	free(copy);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		assert_false(RECEIVE(NULL, no_value, .op = WIRE_MAP, .offset = ends[i]));
		test_turns();
		assert_int_equal(conn->response.status, WIRE_OK);
		assert_true(conn->response.result == bytes);
		assert_int_equal(conn->value_len, !i);
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(keyed_requests_are_refused),
		CASE(others_are_executed),
		CASE(no_fleet),
		CASE(refusals_are_recorded),
		CASE(in_a_batch),
		CASE(refusals_are_charged),
		CASE(the_map_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
