/* SPDX-License-Identifier: MIT */
/*
 * Tests of a fleet's member (OWNER-1 to OWNER-3 in server/fleet/fleet.h): what it refuses because
 * another member has the key, or because it must not serve it, now or after the end of its word;
 * alone and in a BATCH, by number, within a user's limits; what it does not refuse; changes after a
 * refusal (ANSWER-4 in server/worker/answers.h); a new view; and the map, in parts.
 * test_away has requests that are refused in the middle.
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
#include <urcu-qsbr.h>

#include "common/util/stat.h"
#include "server/fleet/fleet.h"
#include "server/store/host_sleep.h"
#include "server/worker/request.h"
#include "tests/support/fleet_fixture.h"
#include "tests/support/limit_fixture.h"
#include "tests/support/store_fixture.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (8u << 20)
#define LARGE (1u << 20)
#define NS_PER_S 1000000000ull

static struct test_conn *const conn = &test_conns[0];
static char mine[16], theirs[16]; /* keys of this member, and of the other */

static void key_find(char key[16], uint32_t member)
{
	uint64_t hash;
	unsigned int i = 0;

	do {
		snprintf(key, 16, "key%u", i++);
		hash = table_hash(&test_store.table, (const uint8_t *)key, (uint32_t)strlen(key));
	} while (fleet_row_owner(test_fleet.view->map->rows[fleet_shard(hash)]) != member);
}

static int setup(void **state)
{
	(void)state;
	test_fleet_create(2);
	assert_int_equal(test_worker_create(REGION_BYTES, LARGE), 0);
	conn->conn.client.fleet = &test_fleet;
	key_find(mine, 1);
	key_find(theirs, 0);
	return 0;
}

static uint64_t hash_of(const char *key)
{
	return table_hash(&test_store.table, key, (uint32_t)strlen(key));
}

static int teardown(void **state)
{
	(void)state;
	test_conn_complete(conn);
	test_worker_destroy();
	test_fleet_destroy();
	return 0;
}

/* Receive @n has the message, and earlier responses are sent. True: it was executed at once. */
static bool receive_in(uint32_t n, struct wire_request head, const char *key, const void *value,
		       uint32_t len)
{
	uint8_t *to = test_recv(n);

	test_conn_complete(conn);
	head.key_len = key ? (uint16_t)strlen(key) : 0;
	if (!head.value_len)
		head.value_len = len;
	memcpy(to, &head, sizeof(head));
	if (key)
		memcpy(to + sizeof(head), key, head.key_len);
	if (len)
		memcpy(to + sizeof(head) + head.key_len, value, len);
	return test_receive(conn, n, sizeof(head) + head.key_len + len);
}

static bool receive(struct wire_request head, const char *key, const void *value, uint32_t len)
{
	return receive_in(0, head, key, value, len);
}

#define RECEIVE(key, value, ...)                                                                   \
	receive((struct wire_request){ __VA_ARGS__ }, key, value,                                  \
		value ? (uint32_t)strlen(value) : 0)

static void assert_moved(void)
{
	assert_int_equal(conn->response.status, WIRE_MOVED);
	assert_true(conn->response.epoch == TEST_EPOCH);
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
	assert_int_equal(command_counts_stats(&test_worker.commands).puts, 0);
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

static void assert_away(uint64_t count)
{
	assert_int_equal(conn->response.status, WIRE_AWAY);
	assert_true(conn->response.epoch == TEST_EPOCH);
	assert_int_equal(stat_read(&test_worker.stats.fleet_away), count);
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 0);
}

/* A shard that has no owner, and one of the member that it must not serve. */
static void nobody_serves_them(void **state)
{
	uint64_t row = fleet_row(FLEET_NO_OWNER, false, 1);

	(void)state;
	memcpy((void *)(uintptr_t)&test_fleet.view->map->rows[fleet_shard(hash_of(theirs))], &row,
	       sizeof(row));
	assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT));
	assert_away(1);
	test_fleet_serve(hash_of(mine), false);
	assert_true(RECEIVE(mine, "v", .op = WIRE_PUT));
	assert_away(2);
	assert_true(RECEIVE(mine, no_value, .op = WIRE_GET));
	assert_away(3);
	assert_int_equal(store_items(&test_store), 0);
}

/* Whether the member answers for its key at @now_ns. */
static bool answers_at(uint64_t now_ns)
{
	const struct request request = { .op = WIRE_GET };
	enum wire_status status;

	test_worker.part.thread.now_ns = now_ns;
	status = member_admit(&conn->conn, &request, hash_of(mine));
	assert_true(status == WIRE_OK || status == WIRE_AWAY);
	assert_int_equal(!status, member_serves(&conn->conn, &request, hash_of(mine)));
	return !status;
}

/* The end is by the server's clock. */
static void until_the_word_ends(void **state)
{
	const uint64_t end_ns = 1000000;

	(void)state;
	test_fleet.end_ns = end_ns;
	assert_true(answers_at(end_ns - 1));
	assert_false(answers_at(end_ns));
	/* Whose keys are not the member's is told so after the end, too. */
	test_fleet.end_ns = 1;
	assert_true(RECEIVE(theirs, no_value, .op = WIRE_GET));
	assert_moved();
	/* What has no key goes on. */
	assert_true(RECEIVE(NULL, no_value, .op = WIRE_PING));
	assert_int_equal(conn->response.status, WIRE_OK);
}

/* The clock shows the sleep of the host before a request is executed, and in the response. */
static void until_the_host_sleeps(void **state)
{
	static struct host_sleep sleep;

	(void)state;
	host_sleep_init(&sleep);
	test_store.table.sleep = &sleep;
	test_fleet.end_ns = store_clock_ns(&test_store) + 1000 * NS_PER_S;
	assert_true(RECEIVE(mine, no_value, .op = WIRE_GET));
	assert_int_equal(conn->response.status, WIRE_NOT_FOUND);
	assert_true(conn->response.clock_ns < test_fleet.end_ns);
	sleep.start_ns -= 1001 * NS_PER_S;
	assert_true(RECEIVE(mine, no_value, .op = WIRE_GET));
	assert_away(1);
	assert_true(conn->response.clock_ns >= test_fleet.end_ns);
	assert_true(atomic_load(&sleep.ns) >= 1000 * NS_PER_S);
}

/* Keys of shards that are not served are left out; the scan ends as ever. */
static void scan_of_what_is_served(void **state)
{
	(void)state;
	assert_true(RECEIVE(mine, "v", .op = WIRE_PUT));
	assert_int_equal(test_store_put(&test_store, theirs, (uint32_t)strlen(theirs), "v", 1,
					NULL),
			 WIRE_OK);
	for (unsigned int serves = 2; serves--;) {
		uint64_t cursor = 0;
		uint32_t entries = 0;

		test_fleet_serve(hash_of(mine), serves);
		/* A part ends when its time is up, too. */
		do {
			assert_false(RECEIVE(NULL, no_value, .op = WIRE_SCAN, .cursor = cursor));
			test_turns();
			assert_int_equal(conn->response.status, WIRE_OK);
			entries += conn->response.entries;
			cursor = conn->response.cursor;
		} while (cursor);
		assert_int_equal(entries, serves);
	}
	test_fleet.end_ns = 1;
	assert_false(RECEIVE(NULL, no_value, .op = WIRE_SCAN));
	test_turns();
	assert_away(1);
	assert_int_equal(conn->response.op, WIRE_SCAN);
	assert_int_equal(conn->value_len, 0);
}

static const struct fleet_view *seen;

static void turns_are_waited_for(void *fleet)
{
	seen = fleet_view(fleet);
}

/* OWNER-6: the new view is there when the turns are waited for. */
static void a_new_view(void **state)
{
	struct fleet_map *map;
	struct fleet_view *view;

	(void)state;
	assert_null(fleet_map_make(&map, test_fleet.view->map->head, test_fleet.view->map->bytes));
	view = fleet_view_make(map, test_fleet.id);
	assert_non_null(view);
	test_fleet.turns_wait = turns_are_waited_for;
	test_fleet.workers = &test_fleet;
	rcu_unregister_thread();
	fleet_publish(&test_fleet, view);
	rcu_register_thread();
	assert_ptr_equal(seen, view);
	assert_ptr_equal(test_fleet.view, view);
	/* The new view serves nothing yet. */
	assert_true(RECEIVE(mine, no_value, .op = WIRE_GET));
	assert_away(1);
}

/* A server in no fleet has all keys, and no map. */
static void no_fleet(void **state)
{
	(void)state;
	conn->conn.client.fleet = NULL;
	assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_false(RECEIVE(NULL, no_value, .op = WIRE_MAP));
	test_turns();
	assert_int_equal(conn->response.status, WIRE_NOT_FOUND);
	assert_true(!conn->response.epoch && !conn->response.result);
	assert_int_equal(conn->value_len, 0);
}

static struct answers answers;

/* The client has an identity, of which the member knows nothing yet. */
static void identify(void)
{
	answers_init(&answers, 1);
	conn->conn.answers = &answers;
	conn->conn.change_admitted = 0;
}

/* The client has connected again. */
static void connect_again(void)
{
	conn->conn.change_admitted = answers.last;
}

/* OWNER-2: a refused change that is sent again has the same answer. */
static void refusals_are_recorded(void **state)
{
	(void)state;
	identify();
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT, .change = 1));
		assert_moved();
		assert_int_equal(conn->response.flags, i ? WIRE_R_REPEATED : 0);
		/* By then the member has the key: the change stays refused. */
		test_fleet_serve(hash_of(theirs), true);
	}
	assert_int_equal(store_items(&test_store), 0);
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 1);
	/* And what was executed is not refused later. */
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(
			RECEIVE(theirs, "v", .op = WIRE_PUT, .flags = WIRE_F_RESUME, .change = 2));
		assert_int_equal(conn->response.status, WIRE_OK);
		assert_int_equal(conn->response.flags, i ? WIRE_R_REPEATED : 0);
		test_fleet_serve(hash_of(theirs), false);
	}
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 1);
}

/* The answer to a PUT of a key that the member serves. */
static enum wire_status put_mine(uint32_t change, uint16_t flags)
{
	assert_true(RECEIVE(mine, "v", .op = WIRE_PUT, .flags = flags, .change = change));
	return conn->response.status;
}

/*
 * ANSWER-4: after a refusal all changes are refused, on the next connection, too, until the client
 * says that it knows.
 */
static void later_changes_are_refused(void **state)
{
	(void)state;
	identify();
	assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT, .change = 1));
	assert_moved();
	test_fleet_serve(hash_of(theirs), true);
	assert_true(RECEIVE(theirs, "w", .op = WIRE_PUT, .change = 2));
	assert_moved();
	assert_int_equal(conn->response.flags, 0);
	connect_again();
	assert_int_equal(put_mine(3, 0), WIRE_MOVED);
	/* What changes nothing, has no number, or takes one of a change that was given up. */
	assert_true(RECEIVE(theirs, no_value, .op = WIRE_GET));
	assert_int_equal(conn->response.status, WIRE_NOT_FOUND);
	assert_int_equal(put_mine(0, 0), WIRE_OK);
	assert_true(RECEIVE(NULL, no_value, .op = WIRE_PING, .change = 4));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(put_mine(5, 0), WIRE_MOVED);
	assert_int_equal(put_mine(6, WIRE_F_RESUME), WIRE_OK);
	assert_int_equal(put_mine(7, 0), WIRE_OK);
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 4);
}

/* ANSWER-4: what is sent again was sent before the client knew of later refusals. */
static void sent_again_it_does_not_resume(void **state)
{
	(void)state;
	identify();
	assert_int_equal(put_mine(1, WIRE_F_RESUME), WIRE_OK);
	assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT, .change = 2));
	assert_moved();
	connect_again();
	assert_int_equal(put_mine(1, WIRE_F_RESUME), WIRE_OK);
	assert_int_equal(conn->response.flags, WIRE_R_REPEATED);
	assert_int_equal(put_mine(3, 0), WIRE_MOVED);
	/* That one was not executed before; nor is it now, if the key is not the member's. */
	assert_true(RECEIVE(theirs, "v", .op = WIRE_PUT, .flags = WIRE_F_RESUME, .change = 4));
	assert_moved();
	assert_int_equal(put_mine(5, 0), WIRE_MOVED);
	/* A change that was given up may have been the one. */
	assert_true(RECEIVE(NULL, no_value, .op = WIRE_PING, .flags = WIRE_F_RESUME, .change = 6));
	assert_int_equal(put_mine(7, 0), WIRE_OK);
}

/* ANSWER-4: the client does not send again what is AWAY. */
static void away_refuses_nothing_else(void **state)
{
	(void)state;
	identify();
	test_fleet_serve(hash_of(mine), false);
	assert_int_equal(put_mine(1, 0), WIRE_AWAY);
	test_fleet_serve(hash_of(mine), true);
	assert_int_equal(put_mine(2, 0), WIRE_OK);
}

/* ANSWER-4: what has arrived, and was admitted, before the refusal. */
static void deferred_changes_are_refused(void **state)
{
	(void)state;
	for (unsigned int pulls = 0; pulls < 2; pulls++) {
		const uint64_t refused = stat_read(&test_worker.stats.fleet_refused);
		struct wire_request put = {
			.op = WIRE_PUT,
			.flags = WIRE_F_PULL,
			.value_len = LARGE,
			.pull_addr = 1,
			.change = 1,
		};

		identify();
		test_fleet_serve(hash_of(theirs), true);
		assert_false(receive_in(0, put, theirs, NULL, 0));
		if (!pulls)
			put = (struct wire_request){ .op = WIRE_PUT };
		put.change = 2;
		assert_false(receive_in(1, put, mine, NULL, 0));
		test_fleet_serve(hash_of(theirs), false);
		test_turns();
		assert_moved();
		assert_int_equal(answers.last, 2);
		assert_int_equal(stat_read(&test_worker.stats.fleet_refused), refused + 2);
		assert_int_equal(store_items(&test_store), 0);
	}
}

static struct wire_result batch_result_at(size_t *at)
{
	struct response parsed;
	struct wire_result result;

	memcpy(&result, conn->value + *at, sizeof(result));
	assert_null(wire_result_parse(&parsed, conn->value, conn->value_len, at));
	return result;
}

/* Sends PUTs of three keys in a BATCH; their results are expected, of moved ones with the epoch. */
static void put_batch(struct wire_request head, const char *const keys[3],
		      const enum wire_status statuses[3])
{
	uint8_t body[512];
	size_t used = 0, at = 0;

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
	head.op = WIRE_BATCH;
	head.count = 3;
	assert_true(receive(head, NULL, body, (uint32_t)used));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(conn->response.entries, 3);
	for (unsigned int i = 0; i < 3; i++) {
		const struct wire_result result = batch_result_at(&at);

		assert_int_equal(result.status, statuses[i]);
		if (result.status == WIRE_MOVED)
			assert_true(result.version == TEST_EPOCH);
	}
}

/* In a BATCH each request has its own owner, and its own answer. */
static void in_a_batch(void **state)
{
	const char *const keys[] = { theirs, mine, theirs };

	(void)state;
	put_batch((struct wire_request){ 0 }, keys,
		  (enum wire_status[]){ WIRE_MOVED, WIRE_OK, WIRE_MOVED });
	assert_int_equal(store_items(&test_store), 1);
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 2);
}

/* ANSWER-4: after one that is refused; the second time as well. */
static void numbered_in_a_batch(void **state)
{
	const char *const first[] = { mine, theirs, mine }, *const all[] = { mine, mine, mine };
	const enum wire_status refused[] = { WIRE_MOVED, WIRE_MOVED, WIRE_MOVED };
	const enum wire_status statuses[] = { WIRE_OK, WIRE_MOVED, WIRE_MOVED };

	(void)state;
	identify();
	put_batch((struct wire_request){ .change = 1 }, first, statuses);
	put_batch((struct wire_request){ .change = 1 }, first, statuses);
	assert_int_equal(stat_read(&test_worker.stats.answers_repeated), 3);
	put_batch((struct wire_request){ .change = 4 }, all, refused);
	put_batch((struct wire_request){ .change = 7, .flags = WIRE_F_RESUME }, first, statuses);
	/* A part of it was executed before. */
	connect_again();
	put_batch((struct wire_request){ .change = 9, .flags = WIRE_F_RESUME }, all, refused);
	put_batch((struct wire_request){ .change = 12, .flags = WIRE_F_RESUME }, all,
		  (enum wire_status[]){ WIRE_OK, WIRE_OK, WIRE_OK });
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
	const uint64_t bytes = test_fleet.view->map->bytes;
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
		assert_true(conn->response.epoch == TEST_EPOCH);
		assert_true(conn->response.result == bytes);
		assert_in_range(conn->value_len, 1, bytes - at);
		memcpy(copy + at, conn->value, conn->value_len);
		at += conn->value_len;
	}
	assert_null(fleet_map_make(&map, copy, bytes));
	assert_memory_equal(map->head, test_fleet.view->map->head, bytes);
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
		CASE(nobody_serves_them),
		CASE(until_the_word_ends),
		CASE(until_the_host_sleeps),
		CASE(scan_of_what_is_served),
		CASE(a_new_view),
		CASE(no_fleet),
		CASE(refusals_are_recorded),
		CASE(later_changes_are_refused),
		CASE(sent_again_it_does_not_resume),
		CASE(away_refuses_nothing_else),
		CASE(deferred_changes_are_refused),
		CASE(in_a_batch),
		CASE(numbered_in_a_batch),
		CASE(refusals_are_charged),
		CASE(the_map_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
