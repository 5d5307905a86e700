/* SPDX-License-Identifier: MIT */
/*
 * Tests of the dispatch of requests (server/worker/request.h) where it seldom gets: after what
 * takes several turns, with a limit, sent again, before HELLO; a scan of a bucket that changes;
 * values in parts; a PUT for which room is made, and what happens to its key or its connection
 * meanwhile.
 */
#include "server/worker/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <urcu-qsbr.h>

#include "common/util/stat.h"
#include "server/store/lookup.h"
#include "server/worker/answers.h"
#include "server/worker/deferred.h"
#include "tests/support/limit_fixture.h"
#include "tests/support/store_fixture.h"
#include "tests/support/test_clock.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (24u << 20)
#define LARGE (2u << 20)
#define GROWN (256u << 10)
#define PARTED 10000u /* of a value in three parts of, at most: */
#define PART_BYTES (TEST_BUFFER_BYTES - (uint32_t)sizeof(struct wire_response))
#define PUT_BYTES 3000u
#define TTL_S 1000u
#define LONG_NS 3600000000000ull
#define ENDS_MAX 30
#define SMALL_REGION_BYTES (8u << 20)

static struct test_conn *const conn = &test_conns[0];
static struct test_conn *const other = &test_conns[1];
static uint8_t *large;

static int setup(void **state)
{
	(void)state;
	large = calloc(1, LARGE);
	return large ? test_worker_create(REGION_BYTES, LARGE) : -1;
}

static int teardown(void **state)
{
	(void)state;
	test_store.table.eviction = EVICTION_NONE;
	test_worker_destroy();
	free(large);
	return 0;
}

/* The request's id is the receive's number. True: it was executed at once. */
static bool receive(struct test_conn *c, uint32_t buffer, struct wire_request head, const char *key,
		    uint32_t value_len)
{
	uint32_t rest = value_len + head.access_count * WIRE_ACCESS_BYTES;
	uint8_t *to = test_recv(buffer);

	head.id = buffer;
	head.key_len = key ? (uint16_t)strlen(key) : 0;
	head.value_len = value_len;
	assert_true(sizeof(head) + head.key_len + rest <= TEST_BUFFER_BYTES);
	memcpy(to, &head, sizeof(head));
	if (key)
		memcpy(to + sizeof(head), key, head.key_len);
	memset(to + sizeof(head) + head.key_len, 'v', rest);
	return test_receive(c, buffer, sizeof(head) + head.key_len + rest);
}

#define RECEIVE(c, buffer, key, value_len, ...)                                                    \
	receive(c, buffer, (struct wire_request){ __VA_ARGS__ }, key, value_len)

/* The responses so far are to these requests; the last one says that. */
static void assert_responses(const struct test_conn *c, const uint32_t *ids, unsigned int count,
			     enum wire_status status)
{
	assert_int_equal(c->responses, count);
	assert_memory_equal(c->ids, ids, count * sizeof(*ids));
	assert_int_equal(c->response.status, status);
}

static struct store_value found(const char *key)
{
	struct store_value value = { 0 };

	assert_int_equal(test_store_get(&test_store, key, (uint32_t)strlen(key), large, LARGE,
					&value),
			 WIRE_OK);
	return value;
}

/* The refused request's answer comes after that of the scan, and it was not executed. */
static void refused_in_order(void **state)
{
	static const uint32_t ids[] = { 0, 1, 2, 3 };
	static struct test_limit limit;

	(void)state;
	assert_false(RECEIVE(conn, 0, NULL, 0, .op = WIRE_SCAN));
	test_limit_set(&limit, &conn->conn, 1, 0);
	test_limit_use_up(&limit, &conn->conn);
	assert_false(RECEIVE(conn, 1, "k", 5, .op = WIRE_PUT));
	test_turns();
	assert_responses(conn, ids, 2, WIRE_LIMIT);
	assert_int_equal(test_store_get(&test_store, "k", 1, NULL, 0, &(struct store_value){ 0 }),
			 WIRE_NOT_FOUND);
	assert_int_equal(stat_read(&test_worker.stats.requests_over_limit), 1);
	assert_true(RECEIVE(conn, 2, "k", 5, .op = WIRE_PUT));
	assert_responses(conn, ids, 3, WIRE_LIMIT);
	/* Records are ignored, without a word. */
	assert_true(RECEIVE(conn, 3, NULL, 0, .op = WIRE_ACCESS, .access_count = 1));
	assert_responses(conn, ids, 4, WIRE_OK);
}

/* A change that was sent before is answered after the scan, and not executed again. */
static void repeated_in_order(void **state)
{
	static const uint32_t ids[] = { 0, 1, 2 };
	static struct answers answers;
	uint64_t version;

	(void)state;
	answers_init(&answers, 1);
	conn->conn.answers = &answers;
	assert_true(RECEIVE(conn, 0, "k", 5, .op = WIRE_PUT, .change = 1));
	version = conn->response.version;
	assert_false(RECEIVE(conn, 1, NULL, 0, .op = WIRE_SCAN));
	assert_false(RECEIVE(conn, 2, "k", 5, .op = WIRE_PUT, .change = 1));
	test_turns();
	assert_responses(conn, ids, 3, WIRE_OK);
	assert_int_equal(conn->response.flags, WIRE_R_REPEATED);
	assert_true(conn->response.version == version);
	assert_true(found("k").version == version);
	assert_int_equal(stat_read(&test_worker.stats.answers_repeated), 1);
}

/* What came after a HELLO that waits is executed after it; if it was refused, never. */
static void after_hello(void **state)
{
	static const uint32_t ids[] = { 0, 1 };

	(void)state;
	for (int refused = 0; refused < 2; refused++) {
		test_conn_setup(conn);
		/* In place of a HELLO that takes several turns. */
		assert_false(RECEIVE(conn, 0, NULL, 0, .op = WIRE_SCAN));
		atomic_store(&conn->conn.hello_done, false);
		assert_false(RECEIVE(conn, 1, NULL, 0, .op = WIRE_PING));
		atomic_store(&conn->conn.hello_done, !refused);
		test_turns();
		assert_responses(conn, ids, refused ? 1 : 2, WIRE_OK);
		assert_int_equal(conn->conn.stopped, refused);
		test_conn_end(conn);
	}
}

/* A scan waits while its bucket's chain changes, and others do not; but no longer than a second. */
static void scan_of_a_changing_bucket(void **state)
{
	static const uint32_t ids[] = { 0, 1 };
	const struct geometry *geometry = &test_store.region.geometry;
	struct bucket *first = region_at(&test_store.region, geometry_bucket_offset(geometry, 0));

	(void)state;
	test_clock_stop();
	for (unsigned int ends = 0; ends < 2; ends++) {
		test_conn_setup(conn);
		first->epoch++;
		assert_false(RECEIVE(conn, 0, NULL, 0, .op = WIRE_SCAN));
		for (unsigned int i = 0; i < 3; i++)
			assert_true(test_turn());
		assert_int_equal(conn->responses, 0);
		assert_true(RECEIVE(other, 1, NULL, 0, .op = WIRE_PING));
		assert_int_equal(other->responses, ends + 1);
		test_clock_pass(LOOKUP_NS_MAX / 2);
		assert_true(test_turn());
		assert_int_equal(conn->responses, 0);
		first->epoch -= ends;
		test_clock_pass(LOOKUP_NS_MAX / 2);
		test_turns();
		first->epoch -= !ends;
		assert_responses(conn, ids, 1, ends ? WIRE_OK : WIRE_BUSY);
		test_conn_end(conn);
	}
	test_clock_start();
}

/* The response has these bytes of the value that put_parted() has stored. */
static void assert_part(uint32_t offset, uint32_t len)
{
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(conn->response.flags, 0);
	assert_int_equal(conn->response.result, PARTED);
	assert_int_equal(conn->response.value_len, len);
	assert_int_equal(conn->value_len, len);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(conn->value[i], (uint8_t)((offset + i) * 7 + (offset + i) / 251));
}

static uint64_t put_parted(const char *key)
{
	for (uint32_t i = 0; i < PARTED; i++)
		large[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(test_store_put(&test_store, key, (uint32_t)strlen(key), large, PARTED,
					NULL),
			 WIRE_OK);
	return found(key).version;
}

/* A value that fits no response comes in parts, each at once, and is one GET. */
static void get_in_parts(void **state)
{
	static const uint64_t ends[] = { PARTED, PARTED + 1, UINT64_MAX };
	uint64_t version;
	uint32_t at, len;

	(void)state;
	version = put_parted("k");
	for (at = 0; at < PARTED; at += len) {
		len = PARTED - at < PART_BYTES ? PARTED - at : PART_BYTES;
		assert_true(RECEIVE(conn, 0, "k", 0, .op = WIRE_GET, .offset = at));
		assert_part(at, len);
		assert_true(conn->response.version == version);
		assert_true(conn->response.value_sum != 0);
		test_conn_complete(conn);
	}
	assert_int_equal(stat_read(&test_worker.part.thread.stats.gets), 1);
	/* At its end, and after it, there is nothing more. */
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(RECEIVE(conn, 0, "k", 0, .op = WIRE_GET, .offset = ends[i]));
		assert_part(0, 0);
		test_conn_complete(conn);
	}
	assert_int_equal(stat_read(&test_worker.part.thread.stats.gets), 1);
	/* Nor is there anything of an empty value. */
	assert_int_equal(test_store_put(&test_store, "e", 1, NULL, 0, NULL), WIRE_OK);
	assert_true(RECEIVE(conn, 0, "e", 0, .op = WIRE_GET));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(conn->response.result, 0);
	assert_int_equal(conn->value_len, 0);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.gets), 2);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.get_misses), 0);
}

/* A large item, too, is touched and answered at once; it counts as a touch and a GET. */
static void touch_with_value(void **state)
{
	uint64_t version;

	(void)state;
	version = put_parted("k");
	assert_true(
		RECEIVE(conn, 0, "k", 0, .op = WIRE_TOUCH, .flags = WIRE_F_VALUE, .ttl = TTL_S));
	assert_part(0, PART_BYTES);
	assert_true(conn->response.version == version);
	assert_int_not_equal(conn->response.expires, 0);
	assert_int_equal(conn->response.expires, found("k").expires);
	assert_true(found("k").version == version);
	test_conn_complete(conn);
	assert_true(RECEIVE(conn, 0, "k", 0, .op = WIRE_GET, .offset = PART_BYTES));
	assert_part(PART_BYTES, PART_BYTES);
	test_conn_complete(conn);
	assert_int_equal(command_counts_stats(&test_worker.commands).touches, 1);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.gets), 1);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.get_misses), 0);
	test_store_delete(&test_store, "k", 1);
	assert_true(
		RECEIVE(conn, 0, "k", 0, .op = WIRE_TOUCH, .flags = WIRE_F_VALUE, .ttl = TTL_S));
	assert_int_equal(conn->response.status, WIRE_NOT_FOUND);
	assert_int_equal(conn->value_len, 0);
	assert_int_equal(command_counts_stats(&test_worker.commands).touches, 2);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.gets), 2);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.get_misses), 1);
}

/* Sent again it does not touch again, and is answered with the length, but without the value. */
static void touch_with_value_is_done_once(void **state)
{
	static struct answers answers;
	uint32_t expires = 0;
	uint64_t version;

	(void)state;
	answers_init(&answers, 1);
	conn->conn.answers = &answers;
	version = put_parted("k");
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(RECEIVE(conn, 0, "k", 0, .op = WIRE_TOUCH, .flags = WIRE_F_VALUE,
				    .ttl = i ? 2 * TTL_S : TTL_S, .change = 1));
		assert_int_equal(conn->response.status, WIRE_OK);
		assert_int_equal(conn->response.flags, i ? WIRE_R_REPEATED : 0);
		assert_true(conn->response.version == version);
		assert_int_equal(conn->response.result, PARTED);
		assert_int_equal(conn->response.value_len, i ? 0 : PART_BYTES);
		assert_int_equal(conn->value_len, i ? 0 : PART_BYTES);
		if (!i)
			expires = conn->response.expires;
		assert_int_equal(conn->response.expires, expires);
		assert_int_equal(found("k").expires, expires);
		test_conn_complete(conn);
	}
	assert_int_equal(command_counts_stats(&test_worker.commands).touches, 1);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.gets), 1);
}

/* All memory is in old items of other sizes than the next one, so that room for it takes steps. */
static void fill(void)
{
	uint64_t key = 0;

	test_store.table.eviction = EVICTION_NONE;
	for (uint32_t bytes = 20000; bytes >= 200; bytes /= 10)
		while (test_store_put(&test_store, &key, sizeof(key), large, bytes, NULL) ==
		       WIRE_OK)
			key++;
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	test_store.table.tick += ACCESS_TICKS;
	test_worker.part.thread.now_ns += LONG_NS; /* making room did not fail just now */
}

static void room_begin_for(const char *key, uint8_t mode, uint32_t len)
{
	fill();
	assert_false(RECEIVE(conn, 0, key, len, .op = WIRE_PUT, .mode = mode));
	assert_true(room_pending(&test_poller->deferred[0].operations.execution.room));
	assert_int_equal(conn->responses, 0);
}

/* The connection ends after any step of making room: nothing stays closed or taken. */
static void ends_while_room_is_made(void **state)
{
	struct memory_stats stats;

	(void)state;
	for (unsigned int ends = 0; ends < ENDS_MAX; ends++) {
		/* None of the blocks that the last one has given back is at hand. */
		test_store.table.eviction = EVICTION_NONE;
		test_worker_destroy();
		test_worker_create(SMALL_REGION_BYTES, LARGE);
		room_begin_for("k", WIRE_SET, PUT_BYTES);
		for (unsigned int n = 0; n < ends; n++)
			if (room_step(&test_poller->deferred[0].operations.execution.room) ==
			    ROOM_DONE)
				break;
		test_conn_end(conn);
		memory_stats(test_store.memory, &stats);
		assert_int_equal(stats.evacuating, 0);
	}
}

/* When room was made for an append, its item has become large: so it is made in pieces. */
static void append_is_large_by_now(void **state)
{
	static const uint32_t ids[] = { 0 };

	(void)state;
	assert_int_equal(test_store_put(&test_store, "k", 1, large, 1, NULL), WIRE_OK);
	room_begin_for("k", WIRE_APPEND, PUT_BYTES);
	assert_int_equal(test_store_put(&test_store, "k", 1, large, GROWN, NULL), WIRE_OK);
	test_turns();
	assert_responses(conn, ids, 1, WIRE_OK);
	assert_int_equal(found("k").value_len, GROWN + PUT_BYTES);
}

/* Until there is no room for a further response of the connection. */
static void take_all_room(void)
{
	struct response_list responses = { .poller = test_poller };

	while (response_room(&conn->conn)) {
		response_start(&responses, &conn->conn, WIRE_PING, 1);
		responses_send(&responses);
	}
	conn->responses = 0;
	conn->id_count = 0;
}

/* Room is made, and the response sent, though others have taken all other places meanwhile. */
static void room_has_a_place(void **state)
{
	static const uint32_t ids[] = { 0 };

	(void)state;
	room_begin_for("k", WIRE_SET, PUT_BYTES);
	take_all_room();
	test_turns();
	assert_responses(conn, ids, 1, WIRE_OK);
	assert_true(conn->conn.sq_used <= sq_share(&conn->conn));
	assert_int_equal(found("k").value_len, PUT_BYTES);
}

/* A counter for which there is no memory has room made, as a value has. */
static void counter_in_a_room(void **state)
{
	static const uint32_t ids[] = { 0 };
	uint64_t key = 1u << 20;

	(void)state;
	fill();
	test_store.table.eviction = EVICTION_NONE;
	while (test_store_put(&test_store, &key, sizeof(key), large, 1, NULL) == WIRE_OK)
		key++;
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	test_worker.part.thread.now_ns += LONG_NS;
	assert_false(
		RECEIVE(conn, 0, "k", 0, .op = WIRE_ARITH, .flags = WIRE_F_CREATE, .initial = 40));
	test_turns();
	assert_responses(conn, ids, 1, WIRE_OK);
	assert_int_equal(conn->response.result, 40);
	assert_int_equal(found("k").value_len, 2);
}

/* Only a key that is not there is a miss. */
static void misses_of_deletes(void **state)
{
	(void)state;
	assert_int_equal(test_store_put(&test_store, "k", 1, "v", 1, NULL), WIRE_OK);
	RECEIVE(conn, 0, "k", 0, .op = WIRE_DELETE, .flags = WIRE_F_IF_VERSION, .version = 1);
	assert_int_equal(conn->response.status, WIRE_EXISTS);
	assert_int_equal(command_counts_stats(&test_worker.commands).delete_misses, 0);
	RECEIVE(conn, 0, "l", 0, .op = WIRE_DELETE);
	assert_int_equal(command_counts_stats(&test_worker.commands).delete_misses, 1);
	assert_int_equal(command_counts_stats(&test_worker.commands).deletes, 2);
}

/* A change that waits for another request and finds no memory gets room made, too. */
static void room_after_another(void **state)
{
	static const uint32_t ids[] = { 0, 1 };

	(void)state;
	fill();
	assert_false(RECEIVE(conn, 0, NULL, 0, .op = WIRE_SCAN));
	assert_false(RECEIVE(conn, 1, "k", PUT_BYTES, .op = WIRE_PUT));
	test_turns();
	assert_responses(conn, ids, 2, WIRE_OK);
	assert_int_equal(found("k").value_len, PUT_BYTES);
}

/* When the room has ended it keeps its place, and waits for nothing of its client. */
static void keeps_its_place_after_a_room(void **state)
{
	const struct operations *operations = &test_poller->deferred[0].operations;
	static const uint32_t ids[] = { 0 };

	(void)state;
	assert_int_equal(test_store_put(&test_store, "k", 1, large, 1, NULL), WIRE_OK);
	room_begin_for("k", WIRE_APPEND, PUT_BYTES);
	assert_int_equal(test_store_put(&test_store, "k", 1, large, GROWN, NULL), WIRE_OK);
	while (operations->execution.next != EXECUTION_LARGE)
		assert_true(test_turn());
	take_all_room();
	test_turns();
	assert_responses(conn, ids, 1, WIRE_OK);
}

/*
 * When room was made for an append, its item has become longer: the room that is made then has a
 * place, too.
 */
static void place_in_a_further_room(void **state)
{
	struct room *room = &test_poller->deferred[0].operations.execution.room;
	static const uint32_t ids[] = { 0 };
	const uint32_t grown = 120000;

	(void)state;
	assert_int_equal(test_store_put(&test_store, "k", 1, large, 1, NULL), WIRE_OK);
	room_begin_for("k", WIRE_APPEND, PUT_BYTES);
	while (room_step(room) != ROOM_DONE)
		rcu_quiescent_state();
	assert_int_equal(test_store_put(&test_store, "k", 1, large, grown, NULL), WIRE_OK);
	fill();
	assert_true(test_turn());
	assert_int_equal(conn->responses, 0);
	assert_true(room_pending(room) && room->bytes > grown);
	take_all_room();
	test_turns();
	assert_responses(conn, ids, 1, WIRE_OK);
	assert_true(conn->conn.sq_used <= sq_share(&conn->conn));
	assert_int_equal(found("k").value_len, grown + PUT_BYTES);
}

/* A change that takes several turns is recorded and counted as any other: it is done once. */
static void large_append_is_done_once(void **state)
{
	static const uint32_t ids[] = { 0, 1 };
	static struct answers answers;

	(void)state;
	answers_init(&answers, 1);
	conn->conn.answers = &answers;
	assert_int_equal(test_store_put(&test_store, "k", 1, large, GROWN, NULL), WIRE_OK);
	for (uint32_t i = 0; i < 2; i++) {
		RECEIVE(conn, i, "k", 5, .op = WIRE_PUT, .mode = WIRE_APPEND, .change = 1);
		test_turns();
		assert_responses(conn, ids, i + 1, WIRE_OK);
		assert_int_equal(conn->response.flags, i ? WIRE_R_REPEATED : 0);
		assert_int_equal(found("k").value_len, GROWN + 5);
		assert_int_equal(command_counts_stats(&test_worker.commands).puts, 1);
	}
}

/* What a client reports counts with requests that take several turns, too. */
static void access_records(void **state)
{
	const uint64_t *accesses = &test_worker.part.thread.stats.accesses;

	(void)state;
	assert_int_equal(test_store_put(&test_store, "l", 1, large, GROWN, NULL), WIRE_OK);
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	assert_true(RECEIVE(conn, 0, NULL, 0, .op = WIRE_ACCESS, .access_count = 1));
	assert_false(RECEIVE(conn, 0, NULL, 0, .op = WIRE_SCAN, .access_count = 1));
	test_turns();
	assert_int_equal(stat_read(accesses), 2);
	assert_false(
		RECEIVE(conn, 0, "l", 5, .op = WIRE_PUT, .mode = WIRE_APPEND, .access_count = 3));
	test_turns();
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(stat_read(accesses), 5);
	fill();
	assert_false(RECEIVE(conn, 0, "k", PUT_BYTES, .op = WIRE_PUT, .access_count = 4));
	test_turns();
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(stat_read(accesses), 9);
}

/* A scan's response has what it found. */
static void scan_has_its_keys(void **state)
{
	struct scan_entry entry;
	size_t at = 0;

	(void)state;
	assert_int_equal(test_store_put(&test_store, "k", 1, "v", 1, NULL), WIRE_OK);
	/* Each goes on for a time, so it may take more than one to get there. */
	do {
		RECEIVE(conn, 0, NULL, 0, .op = WIRE_SCAN, .cursor = conn->response.cursor);
		test_turns();
	} while (!conn->response.entries && conn->response.cursor);
	assert_int_equal(conn->response.entries, 1);
	assert_int_equal(conn->response.value_len, conn->value_len);
	assert_null(wire_entry_parse(&entry, conn->value, conn->value_len, &at));
	assert_int_equal(entry.key_len, 1);
	assert_memory_equal(entry.key, "k", 1);
	assert_int_equal(at, conn->value_len);
}

/* A scan of uses, and where there are none the client loses its connection. */
static void scan_of_uses(void **state)
{
	struct scan_entry entry;
	size_t at = 0;

	(void)state;
	test_store.table.eviction = EVICTION_BYTE_HITS;
	assert_int_equal(test_store_put(&test_store, "k", 1, "v", 1, NULL), WIRE_OK);
	do {
		RECEIVE(conn, 0, NULL, 0, .op = WIRE_SCAN, .cursor = conn->response.cursor,
			.flags = WIRE_F_USES);
		test_turns();
	} while (!conn->response.entries && conn->response.cursor);
	assert_int_equal(conn->response.entries, 1);
	assert_null(wire_entry_parse(&entry, conn->value, conn->value_len, &at));
	assert_int_equal(entry.use, WIRE_USE_NORMAL);
	assert_int_equal(entry.uses, 0);
	assert_false(conn->conn.stopped);
	test_store.table.eviction = EVICTION_NONE;
	RECEIVE(conn, 0, NULL, 0, .op = WIRE_SCAN, .flags = WIRE_F_USES);
	test_turns();
	assert_true(conn->conn.stopped);
}

#define CASE(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(refused_in_order, setup),
		CASE(repeated_in_order, setup),
		CASE(after_hello, setup),
		CASE(scan_of_a_changing_bucket, setup),
		CASE(get_in_parts, setup),
		CASE(touch_with_value, setup),
		CASE(touch_with_value_is_done_once, setup),
		CASE(ends_while_room_is_made, setup),
		CASE(append_is_large_by_now, setup),
		CASE(room_has_a_place, setup),
		CASE(counter_in_a_room, setup),
		CASE(misses_of_deletes, setup),
		CASE(room_after_another, setup),
		CASE(keeps_its_place_after_a_room, setup),
		CASE(place_in_a_further_room, setup),
		CASE(large_append_is_done_once, setup),
		CASE(access_records, setup),
		CASE(scan_has_its_keys, setup),
		CASE(scan_of_uses, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
