/* SPDX-License-Identifier: MIT */
/*
 * Tests of requests whose shard a fleet's member must not serve any more when they go on in a later
 * turn (OWNER-1, OWNER-2 in server/fleet/fleet.h): those that waited, that room is made for, large
 * appends, parts of a BATCH, and large values in each state. They change nothing, are answered
 * AWAY, which is recorded, and leave nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/stat.h"
#include "server/worker/budget.h"
#include "server/worker/member.h"
#include "server/worker/pull.h"
#include "server/worker/pull_reads.h"
#include "server/worker/request.h"
#include "tests/support/fleet_fixture.h"
#include "tests/support/store_fixture.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (64u << 20)
#define VALUE_BYTES (8u << 20) /* summed and copied in several pieces */
#define SMALL_BYTES (2 * PULL_PIECE_BYTES)
#define LONG_NS 3600000000000ull
#define TURNS_MAX 100000

static struct test_conn *const c = &test_conns[0];
static struct answers answers;
static uint8_t *value, *out;
static const char key[] = "key"; /* three bytes of it */
#define KEY_LEN 3u

static uint64_t hash_of(const char *name)
{
	return table_hash(&test_store.table, name, KEY_LEN);
}

static int setup(void **state)
{
	(void)state;
	value = malloc(VALUE_BYTES);
	out = malloc(2 * VALUE_BYTES);
	if (!value || !out)
		return -1;
	for (uint32_t i = 0; i < VALUE_BYTES; i++)
		value[i] = (uint8_t)(i * 2654435761u >> 24);
	test_worker_create(REGION_BYTES, 2 * VALUE_BYTES);
	test_fleet_create(1);
	answers_init(&answers, 1);
	c->conn.client.fleet = &test_fleet;
	c->conn.answers = &answers;
	return 0;
}

/* Nothing of any request is left: test_worker_destroy(). */
static int teardown(void **state)
{
	(void)state;
	test_conn_complete(c);
	test_store.table.eviction = EVICTION_NONE;
	test_worker_destroy();
	test_fleet_destroy();
	free(value);
	free(out);
	return 0;
}

/* The message in receive @n; a request with a key has three bytes of it. True: executed at once. */
static bool receive(uint32_t n, struct wire_request head, const char *name, const void *body,
		    uint32_t len)
{
	uint8_t *to = test_recv(n);

	head.id = n;
	head.key_len = name ? KEY_LEN : 0;
	if (!(head.flags & WIRE_F_PULL))
		head.value_len = len;
	memcpy(to, &head, sizeof(head));
	if (name)
		memcpy(to + sizeof(head), name, KEY_LEN);
	if (len)
		memcpy(to + sizeof(head) + head.key_len, body, len);
	return test_receive(c, n, sizeof(head) + head.key_len + len);
}

#define RECEIVE(n, name, len, ...)                                                                 \
	receive(n, (struct wire_request){ __VA_ARGS__ }, name, value, len)

static void pull(uint32_t n, const char *name, enum wire_put mode, uint32_t len)
{
	assert_false(RECEIVE(n, name, 0, .op = WIRE_PUT, .flags = WIRE_F_PULL, .value_len = len,
			     .mode = (uint8_t)mode, .change = n + 1,
			     .pull_addr = (uintptr_t)value));
}

/* The last response is to receive @n's request, refused; sent again it is refused, too. */
static void assert_away(uint32_t n)
{
	assert_int_equal(c->response.id, n);
	assert_int_equal(c->response.status, WIRE_AWAY);
	assert_true(c->response.epoch == TEST_EPOCH);
	assert_int_equal(c->value_len, 0);
	assert_int_equal(stat_read(&test_worker.stats.fleet_away), 1);
}

/* OWNER-2: though the shard is served by now. */
static void assert_stays_away(uint32_t change)
{
	test_fleet_serve(hash_of(key), true);
	test_conn_complete(c);
	assert_true(RECEIVE(3, key, 1, .op = WIRE_PUT, .change = change));
	assert_int_equal(c->response.status, WIRE_AWAY);
	assert_int_equal(c->response.flags, WIRE_R_REPEATED);
	assert_true(c->response.epoch == TEST_EPOCH);
}

static void assert_missing(const char *name)
{
	struct store_value found;

	assert_int_equal(test_store_get(&test_store, name, KEY_LEN, out, 1, &found),
			 WIRE_NOT_FOUND);
}

static void assert_value(const char *name, uint32_t len)
{
	struct store_value found;

	assert_int_equal(test_store_get(&test_store, name, KEY_LEN, out, 2 * VALUE_BYTES, &found),
			 WIRE_OK);
	assert_int_equal(found.value_len, len);
	assert_memory_equal(out, value, len);
}

static void put_value(void)
{
	assert_int_equal(test_store_put(&test_store, key, KEY_LEN, value, VALUE_BYTES, NULL),
			 WIRE_OK);
}

/* The device has READ what the oldest READ asks for. */
static void serve_read(void)
{
	uint64_t wr_id = c->reads[0].wr_id;

	assert_true(c->read_count);
	memcpy((void *)(uintptr_t)c->sges[0].addr,
	       (void *)(uintptr_t)c->reads[0].wr.rdma.remote_addr, c->sges[0].length);
	c->read_count--;
	memmove(c->reads, c->reads + 1, c->read_count * sizeof(c->reads[0]));
	memmove(c->sges, c->sges + 1, c->read_count * sizeof(c->sges[0]));
	pull_done(&c->conn, wr_id);
	deferred_wake(&c->conn);
}

static void read_all(void)
{
	while (c->read_count) {
		serve_read();
		test_turns();
	}
}

/* What waited for another request is refused, and what was executed before is not. */
static void while_it_waits(void **state)
{
	(void)state;
	assert_true(RECEIVE(0, key, 5, .op = WIRE_PUT, .change = 1));
	test_conn_complete(c);
	assert_false(RECEIVE(0, NULL, 0, .op = WIRE_SCAN));
	assert_false(RECEIVE(1, key, 5, .op = WIRE_PUT, .change = 1));
	assert_false(RECEIVE(2, key, 5, .op = WIRE_PUT, .change = 2));
	test_fleet_serve(hash_of(key), false);
	while (c->response.id != 1)
		assert_true(test_turn());
	assert_int_equal(c->response.status, WIRE_OK);
	assert_int_equal(c->response.flags, WIRE_R_REPEATED);
	test_turns();
	assert_away(2);
	assert_stays_away(2);
	test_conn_complete(c);
	/* A GET as well, and its response has no value. */
	assert_false(RECEIVE(0, NULL, 0, .op = WIRE_SCAN));
	assert_false(RECEIVE(1, key, 0, .op = WIRE_GET));
	test_fleet_serve(hash_of(key), false);
	test_turns();
	assert_int_equal(c->response.id, 1);
	assert_int_equal(c->response.status, WIRE_AWAY);
	assert_int_equal(c->value_len, 0);
}

/* All memory is in old items of other sizes than the next one. */
static void fill(void)
{
	uint64_t name = 0;

	test_store.table.eviction = EVICTION_NONE;
	for (uint32_t bytes = 20000; bytes >= 200; bytes /= 10)
		while (test_store_put(&test_store, &name, sizeof(name), value, bytes, NULL) ==
		       WIRE_OK)
			name++;
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	test_store.table.tick += ACCESS_TICKS;
	test_worker.part.thread.now_ns += LONG_NS;
}

static void while_room_is_made(void **state)
{
	struct memory_stats stats;

	(void)state;
	fill();
	assert_false(RECEIVE(0, key, 3000, .op = WIRE_PUT, .change = 1));
	assert_true(room_pending(&test_poller->deferred[0].operations.execution.room));
	test_fleet_serve(hash_of(key), false);
	assert_true(test_turn());
	assert_away(0);
	memory_stats(test_store.memory, &stats);
	assert_int_equal(stats.evacuating, 0);
	assert_missing(key);
	assert_stays_away(1);
}

static void while_it_appends(void **state)
{
	(void)state;
	put_value();
	assert_false(RECEIVE(0, key, 5, .op = WIRE_PUT, .mode = WIRE_APPEND, .change = 1));
	do
		assert_true(test_turn());
	while (!test_poller->deferred[0].operations.execution.large.begun ||
	       !test_poller->deferred[0].operations.execution.large.steps.value_done);
	test_fleet_serve(hash_of(key), false);
	assert_true(test_turn());
	assert_away(0);
	assert_value(key, VALUE_BYTES);
	assert_stays_away(1);
}

static void in_a_batch(void **state)
{
	static const char *const names[] = { "ab1", key, "cd2" };
	const enum wire_status statuses[] = { WIRE_OK, WIRE_AWAY, WIRE_OK };
	struct response parsed;
	uint8_t body[512];
	size_t used = 0, at = 0;

	(void)state;
	put_value();
	for (unsigned int i = 0; i < 3; i++) {
		const struct request put = {
			.op = WIRE_PUT,
			.mode = i == 1 ? WIRE_APPEND : WIRE_SET,
			.key = (const uint8_t *)names[i],
			.key_len = KEY_LEN,
			.value = value,
			.value_len = 1,
		};

		wire_batched_write(&put, body + used);
		used += wire_batched_bytes(&put);
	}
	assert_false(receive(0, (struct wire_request){ .op = WIRE_BATCH, .count = 3, .change = 1 },
			     NULL, body, (uint32_t)used));
	assert_true(test_turn());
	test_fleet_serve(hash_of(key), false);
	test_turns();
	assert_int_equal(c->response.status, WIRE_OK);
	assert_int_equal(c->response.entries, 3);
	for (unsigned int i = 0; i < 3; i++) {
		struct wire_result result;

		memcpy(&result, c->value + at, sizeof(result));
		assert_null(wire_result_parse(&parsed, c->value, c->value_len, &at));
		assert_int_equal(result.status, statuses[i]);
		if (i == 1)
			assert_true(result.version == TEST_EPOCH);
	}
	assert_int_equal(stat_read(&test_worker.stats.fleet_away), 1);
	assert_value(key, VALUE_BYTES);
	assert_stays_away(2);
}

/* The device may write to the memory of a value that arrives: it is kept until all has come. */
static void while_a_value_arrives(void **state)
{
	(void)state;
	pull(0, key, WIRE_SET, SMALL_BYTES);
	test_turns();
	assert_true(c->read_count);
	test_fleet_serve(hash_of(key), false);
	serve_read();
	test_turns();
	assert_int_equal(c->responses, 0);
	read_all();
	assert_away(0);
	assert_missing(key);
	assert_int_equal(c->conn.pull_ahead, 0);
	assert_stays_away(1);
	assert_int_equal(store_items(&test_store), 0);
}

/* All has arrived, and is being summed. */
static void when_a_value_has_arrived(void **state)
{
	(void)state;
	pull(0, key, WIRE_SET, SMALL_BYTES);
	test_turns();
	while (c->read_count)
		serve_read();
	test_fleet_serve(hash_of(key), false);
	test_turns();
	assert_away(0);
	assert_missing(key);
	assert_int_equal(c->conn.pull_ahead, 0);
	assert_stays_away(1);
}

/* The worker READs the value by itself: it stops at once. */
static void while_a_value_is_read_now(void **state)
{
	(void)state;
	test_now_bytes = UINT64_MAX;
	pull(0, key, WIRE_SET, VALUE_BYTES);
	assert_true(test_turn());
	assert_true(test_poller->deferred[0].pull.now);
	assert_in_range(test_poller->deferred[0].pull.arrived, 1, VALUE_BYTES - 1);
	test_fleet_serve(hash_of(key), false);
	assert_true(test_turn());
	assert_away(0);
	assert_false(c->conn.pull_arrived);
	assert_missing(key);
	assert_stays_away(1);
}

/* The value has come, and is being joined to the key's. */
static void while_a_value_is_appended(void **state)
{
	const struct pull *pulled = &test_poller->deferred[0].pull;

	(void)state;
	put_value();
	pull(0, key, WIRE_APPEND, SMALL_BYTES);
	test_turns();
	while (c->read_count)
		serve_read();
	while (pulled->steps.kind != LARGE_APPEND || !pulled->steps.value_done)
		assert_true(test_turn());
	test_fleet_serve(hash_of(key), false);
	test_turns();
	assert_away(0);
	assert_value(key, VALUE_BYTES);
	assert_stays_away(1);
}

static void while_it_waits_for_memory(void **state)
{
	struct budget_hold *hold = &test_conns[1].conn.pull_hold;
	struct budget *budget = &test_tenant.pull_budget;

	(void)state;
	budget_init(budget, VALUE_BYTES);
	/* Of the same principal. */
	assert_true(budget_take(budget, hold, budget->share));
	pull(0, key, WIRE_SET, SMALL_BYTES);
	test_turns();
	assert_int_equal(budget->waits, 1);
	test_fleet_serve(hash_of(key), false);
	deferred_wake(&c->conn);
	test_turns();
	assert_away(0);
	assert_int_equal(budget->waits, 0);
	assert_int_equal(c->read_count, 0);
	budget_give(budget, hold, budget->share);
	assert_stays_away(1);
}

static void while_a_value_gets_room(void **state)
{
	struct memory_stats stats;

	(void)state;
	fill();
	pull(0, key, WIRE_SET, VALUE_BYTES);
	assert_true(test_turn());
	while (!test_poller->deferred[0].pull.room.open)
		assert_true(test_turn());
	test_fleet_serve(hash_of(key), false);
	assert_true(test_turn());
	assert_away(0);
	memory_stats(test_store.memory, &stats);
	assert_int_equal(stats.evacuating, 0);
	assert_int_equal(c->conn.pull_hold.bytes, 0);
	assert_stays_away(1);
}

/* Of several values of a connection only those of the shard are refused, in their order. */
static void one_of_several_values(void **state)
{
	static const char *const names[] = { "ab1", "key", "cd2" };

	(void)state;
	pull(0, "one", WIRE_SET, SMALL_BYTES);
	test_turns();
	read_all();
	test_conn_complete(c);
	c->id_count = 0;
	for (uint32_t n = 0; n < 3; n++)
		assert_false(RECEIVE(n, names[n], 0, .op = WIRE_PUT, .flags = WIRE_F_PULL,
				     .value_len = SMALL_BYTES, .change = n + 2,
				     .pull_addr = (uintptr_t)value));
	assert_int_equal(c->conn.pulls, 3);
	test_fleet_serve(hash_of(key), false);
	read_all();
	assert_int_equal(c->id_count, 3);
	for (uint32_t n = 0; n < 3; n++)
		assert_int_equal(c->ids[n], n);
	assert_int_equal(stat_read(&test_worker.stats.fleet_away), 1);
	assert_value("ab1", SMALL_BYTES);
	assert_missing(key);
	assert_value("cd2", SMALL_BYTES);
	assert_int_equal(c->conn.pull_ahead, 0);
	assert_int_equal(c->conn.reads_bytes, 0);
}

/* Nothing is READ in vain: a value whose turn has not come is not READ early. */
static void not_read_early(void **state)
{
	(void)state;
	pull(0, "one", WIRE_SET, SMALL_BYTES);
	test_turns();
	read_all();
	test_conn_complete(c);
	assert_false(RECEIVE(0, "ab1", 0, .op = WIRE_PUT, .flags = WIRE_F_PULL,
			     .value_len = SMALL_BYTES, .change = 2, .pull_addr = (uintptr_t)value));
	/* There was no memory for the second one. */
	c->conn.pull_tried = true;
	assert_false(RECEIVE(1, key, 0, .op = WIRE_PUT, .flags = WIRE_F_PULL,
			     .value_len = SMALL_BYTES, .change = 3, .pull_addr = (uintptr_t)value));
	assert_int_equal(c->conn.pulls, 1);
	test_fleet_serve(hash_of(key), false);
	c->conn.pull_tried = false;
	pull_more(&c->conn);
	assert_int_equal(c->conn.pulls, 1);
	read_all();
	assert_away(1);
	assert_value("ab1", SMALL_BYTES);
	assert_int_equal(stat_read(&test_worker.stats.pulls), 2);
}

/* The word ends in the middle: the same, for all shards, and a SCAN. */
static void the_word_ends(void **state)
{
	(void)state;
	pull(0, key, WIRE_SET, SMALL_BYTES);
	assert_false(RECEIVE(1, NULL, 0, .op = WIRE_SCAN));
	test_turns();
	test_fleet.end_ns = 1;
	while (c->response.status != WIRE_AWAY) {
		serve_read();
		test_turn();
	}
	assert_away(0);
	test_turns();
	assert_int_equal(c->response.id, 1);
	assert_int_equal(c->response.op, WIRE_SCAN);
	assert_int_equal(c->response.status, WIRE_AWAY);
	assert_true(c->response.epoch == TEST_EPOCH);
	assert_int_equal(stat_read(&test_worker.stats.fleet_away), 2);
	assert_int_equal(store_items(&test_store), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(while_it_waits),
		CASE(while_room_is_made),
		CASE(while_it_appends),
		CASE(in_a_batch),
		CASE(while_a_value_arrives),
		CASE(when_a_value_has_arrived),
		CASE(while_a_value_is_read_now),
		CASE(while_a_value_is_appended),
		CASE(while_it_waits_for_memory),
		CASE(while_a_value_gets_room),
		CASE(one_of_several_values),
		CASE(not_read_early),
		CASE(the_word_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
