/* SPDX-License-Identifier: MIT */
/*
 * Tests of several requests in one message (OPERATION-1 to OPERATION-6 in
 * server/worker/operation.h): each kind, in order; results that don't fit; the bound on a turn;
 * requests that take several turns, and those after them; limits; connections that end in between.
 */
#include "server/worker/operation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/worker/answers.h"

static bool time_is_up; /* the time of each piece is up */

static uint64_t test_clock_ns(void)
{
	return time_is_up ? UINT64_MAX : clock_ns();
}

#define clock_ns test_clock_ns
#include "server/worker/operation.c"
#undef clock_ns

#include "tests/support/limit_fixture.h"
#include "tests/support/store_fixture.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (64u << 20)
#define LARGE (2u << 20) /* of an item that takes several pieces */
#define MORE_BYTES 16u
#define LONG_NS 3600000000000ull
#define ENDS_MAX 30
#define SMALL_REGION_BYTES (8u << 20)

static struct test_conn *const conn = &test_conns[0];
static struct test_conn *const other = &test_conns[1];
static uint8_t *large;
static size_t message_len; /* of the message that is being made in receive `message` */
static uint32_t message;
static size_t result_at;
static struct response result;

static int setup(void **state)
{
	(void)state;
	return test_worker_create(REGION_BYTES, LARGE + (1u << 20));
}

static int teardown(void **state)
{
	(void)state;
	test_worker_destroy();
	return 0;
}

static int group_setup(void **state)
{
	(void)state;
	large = malloc(LARGE + MORE_BYTES);
	if (!large)
		return -1;
	for (uint32_t i = 0; i < LARGE + MORE_BYTES; i++)
		large[i] = (uint8_t)(i * 2654435761u >> 24);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	free(large);
	return 0;
}

static void message_begin(uint32_t buffer)
{
	const struct wire_request head = { .op = WIRE_BATCH, .id = 100 + buffer };

	memcpy(test_recv(buffer), &head, sizeof(head));
	message = buffer;
	message_len = sizeof(head);
}

static void add(struct request request, const char *key, const void *value, uint32_t value_len)
{
	struct wire_request *head = (struct wire_request *)test_recv(message);

	request.key = (const uint8_t *)key;
	request.key_len = key ? (uint32_t)strlen(key) : 0;
	request.value = value;
	request.value_len = value_len;
	assert_true(message_len + wire_batched_bytes(&request) <= TEST_BUFFER_BYTES);
	wire_batched_write(&request, test_recv(message) + message_len);
	message_len += wire_batched_bytes(&request);
	head->count++;
	head->value_len = (uint32_t)(message_len - sizeof(*head));
}

#define ADD(key, ...) add((struct request){ __VA_ARGS__ }, key, NULL, 0)
#define PUT(key, value) add((struct request){ .op = WIRE_PUT }, key, value, (uint32_t)strlen(value))

static bool batch_send(struct test_conn *c)
{
	return test_receive(c, message, message_len);
}

/* The connection has @responses by now, and the last one is that to the batch in @buffer. */
static void assert_answered(const struct test_conn *c, unsigned int responses, uint32_t buffer,
			    uint32_t count)
{
	assert_int_equal(c->responses, responses);
	assert_int_equal(c->response.op, WIRE_BATCH);
	assert_int_equal(c->response.id, 100 + buffer);
	assert_int_equal(c->response.status, WIRE_OK);
	assert_int_equal(c->response.entries, count);
	assert_int_equal(c->response.value_len, c->value_len);
	result_at = 0;
}

/* The next result. */
static void assert_result(const struct test_conn *c, enum wire_op op, enum wire_status status)
{
	assert_null(wire_result_parse(&result, c->value, c->value_len, &result_at));
	assert_int_equal(result.op, op);
	assert_int_equal(result.status, status);
}

static void assert_no_more(const struct test_conn *c)
{
	assert_int_equal(result_at, c->value_len);
}

static void assert_stored(const char *key, const void *value, uint32_t len)
{
	struct store_value out;
	uint8_t *bytes = malloc(len + 1);

	assert_non_null(bytes);
	assert_int_equal(test_store_get(&test_store, key, (uint32_t)strlen(key), bytes, len + 1,
					&out),
			 WIRE_OK);
	assert_int_equal(out.value_len, len);
	assert_memory_equal(bytes, value, len);
	free(bytes);
}

/* Each request is executed after the one before it. */
static void all_kinds_in_order(void **state)
{
	uint64_t version;

	(void)state;
	message_begin(0);
	add((struct request){ .op = WIRE_PUT, .item_flags = 77 }, "a", "first", 5);
	ADD("a", .op = WIRE_GET);
	ADD("n", .op = WIRE_ARITH, .flags = WIRE_F_CREATE, .initial = 5);
	ADD("n", .op = WIRE_ARITH, .delta = 2);
	ADD(NULL, .op = WIRE_PING);
	ADD("a", .op = WIRE_TOUCH, .ttl = 1000);
	add((struct request){ .op = WIRE_PUT, .mode = WIRE_CAS, .version = 1 }, "a", "x", 1);
	add((struct request){ .op = WIRE_PUT, .mode = WIRE_APPEND }, "a", "+", 1);
	ADD("a", .op = WIRE_GET);
	ADD("a", .op = WIRE_DELETE);
	ADD("a", .op = WIRE_GET);
	ADD("a", .op = WIRE_DELETE, .flags = WIRE_F_IF_VERSION, .version = 1);
	assert_true(batch_send(conn));
	assert_answered(conn, 1, 0, 12);
	assert_result(conn, WIRE_PUT, WIRE_OK);
	version = result.version;
	assert_true(version && result.slot);
	assert_result(conn, WIRE_GET, WIRE_OK);
	assert_true(result.version == version);
	assert_int_equal(result.item_flags, 77);
	assert_int_equal(result.value_len, 5);
	assert_memory_equal(result.value, "first", 5);
	assert_result(conn, WIRE_ARITH, WIRE_OK);
	assert_int_equal(result.result, 5);
	assert_result(conn, WIRE_ARITH, WIRE_OK);
	assert_int_equal(result.result, 7);
	assert_true(result.slot && result.version);
	assert_result(conn, WIRE_PING, WIRE_OK);
	assert_result(conn, WIRE_TOUCH, WIRE_OK);
	assert_true(result.expires && result.version == version && !result.slot);
	assert_result(conn, WIRE_PUT, WIRE_EXISTS);
	assert_true(!result.slot && result.version == version);
	assert_result(conn, WIRE_PUT, WIRE_OK);
	assert_result(conn, WIRE_GET, WIRE_OK);
	assert_int_equal(result.value_len, 6);
	assert_memory_equal(result.value, "first+", 6);
	assert_result(conn, WIRE_DELETE, WIRE_OK);
	assert_result(conn, WIRE_GET, WIRE_NOT_FOUND);
	assert_result(conn, WIRE_DELETE, WIRE_NOT_FOUND);
	assert_no_more(conn);
	assert_int_equal(stat_read(&test_worker.stats.requests), 11); /* and one for the message */
	assert_int_equal(stat_read(&test_worker.stats.batched), 12);
	assert_int_equal(command_counts_stats(&test_worker.commands).puts, 5);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.gets), 3);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.get_misses), 1);
	assert_int_equal(conn->conn.sq_used, 1);
}

/* A value has the room that the results of all others leave. */
static void values_that_do_not_fit(void **state)
{
	uint32_t room = WIRE_RESPONSE_MIN - sizeof(struct wire_response) -
			4 * sizeof(struct wire_result);

	(void)state;
	conn->conn.response_bytes = WIRE_RESPONSE_MIN;
	test_store_put(&test_store, "just", 4, large, room, NULL);
	test_store_put(&test_store, "byte", 4, large, 1, NULL);
	test_store_put(&test_store, "none", 4, large, 0, NULL);
	message_begin(0);
	ADD("just", .op = WIRE_GET);
	ADD("byte", .op = WIRE_GET);
	ADD("none", .op = WIRE_GET);
	ADD("n", .op = WIRE_ARITH, .flags = WIRE_F_CREATE, .initial = 3);
	assert_true(batch_send(conn));
	assert_answered(conn, 1, 0, 4);
	assert_result(conn, WIRE_GET, WIRE_OK);
	assert_int_equal(result.value_len, room);
	assert_memory_equal(result.value, large, room);
	assert_result(conn, WIRE_GET, WIRE_TOO_LARGE);
	assert_result(conn, WIRE_GET, WIRE_OK);
	assert_int_equal(result.value_len, 0);
	assert_result(conn, WIRE_ARITH, WIRE_OK);
	assert_int_equal(result.result, 3);
	assert_no_more(conn);
	/* Alone the value would have fit. */
	message_begin(1);
	ADD("byte", .op = WIRE_GET);
	assert_true(batch_send(conn));
	assert_answered(conn, 2, 1, 1);
	assert_result(conn, WIRE_GET, WIRE_OK);
	test_conn_complete(conn);
	/* Nor is there a part of one that fits no response. */
	test_store_put(&test_store, "large", 5, large, LARGE, NULL);
	message_begin(2);
	ADD("large", .op = WIRE_GET);
	assert_true(batch_send(conn));
	assert_answered(conn, 3, 2, 1);
	assert_result(conn, WIRE_GET, WIRE_TOO_LARGE);
	assert_no_more(conn);
}

/* A client that may not READ is not told the sum of a value. */
static void sums_of_values(void **state)
{
	(void)state;
	test_store_put(&test_store, "k", 1, large, 500, NULL);
	for (unsigned int by_request = 0; by_request < 2; by_request++) {
		conn->conn.query.by_request = by_request;
		message_begin(by_request);
		ADD("k", .op = WIRE_GET);
		assert_true(batch_send(conn));
		assert_answered(conn, 1 + by_request, by_request, 1);
		assert_result(conn, WIRE_GET, WIRE_OK);
		assert_int_equal(result.value_len, 500);
		assert_int_equal(!result.value_sum, by_request);
		assert_no_more(conn);
		test_conn_complete(conn);
	}
}

/* OPERATION-3: a range that is verified comes in a piece, others at once. */
static void a_range_is_a_piece(void **state)
{
	const struct wire_request head = { .op = WIRE_GET, .key_len = 1, .length = 5 };

	(void)state;
	assert_int_equal(test_store_put(&test_store, "k", 1, large, 70000, NULL), WIRE_OK);
	for (uint32_t by_request = 0; by_request < 2; by_request++) {
		conn->conn.query.by_request = by_request;
		memcpy(test_recv(0), &head, sizeof(head));
		*(test_recv(0) + sizeof(head)) = 'k';
		assert_int_equal(test_receive(conn, 0, sizeof(head) + 1), by_request);
		assert_int_equal(stat_read(&test_worker.stats.deferred), 1);
		test_turns();
		assert_int_equal(conn->responses, by_request + 1);
		assert_int_equal(conn->response.status, WIRE_OK);
		assert_int_equal(conn->value_len, 5);
		assert_memory_equal(conn->value, large, 5);
		test_conn_complete(conn);
	}
}

static void add_full(void)
{
	for (unsigned int i = 0; i < WIRE_BATCH_MAX; i++)
		ADD("n", .op = WIRE_ARITH, .flags = WIRE_F_CREATE, .delta = 1);
}

/* The longest batch fits the shortest receive buffer. */
static void as_many_as_there_may_be(void **state)
{
	(void)state;
	conn->conn.response_bytes = WIRE_RESPONSE_MIN;
	message_begin(0);
	add_full();
	assert_true(batch_send(conn));
	assert_answered(conn, 1, 0, WIRE_BATCH_MAX);
	for (unsigned int i = 0; i < WIRE_BATCH_MAX; i++) {
		assert_result(conn, WIRE_ARITH, WIRE_OK);
		assert_int_equal(result.result, i);
	}
	assert_no_more(conn);
}

/* OPERATION-3: what is beyond the bound comes in pieces, in which connections take turns. */
static void a_turn_is_bounded(void **state)
{
	unsigned int sent = 0, at_once = 0;

	(void)state;
	for (uint32_t buffer = 0; buffer < 6; buffer++, sent++) {
		message_begin(buffer);
		add_full();
		at_once += batch_send(buffer < 3 ? conn : other);
		assert_true(test_worker.turn.batched <= BATCHED_TURN_MAX);
	}
	assert_int_equal(at_once, BATCHED_TURN_MAX / WIRE_BATCH_MAX);
	assert_int_equal(stat_read(&test_worker.stats.deferred), sent - at_once);
	/* A request that comes alone is not held up. */
	memcpy(test_recv(7), &(struct wire_request){ .op = WIRE_PING },
	       sizeof(struct wire_request));
	assert_true(test_receive(&test_conns[2], 7, sizeof(struct wire_request)));
	assert_true(test_turn());
	assert_int_equal(test_worker.turns.batched_max, BATCHED_TURN_MAX);
	test_turns();
	assert_answered(conn, 3, 2, WIRE_BATCH_MAX);
	assert_answered(other, 3, 5, WIRE_BATCH_MAX);
	for (unsigned int i = 0; i < WIRE_BATCH_MAX; i++)
		assert_result(other, WIRE_ARITH, WIRE_OK);
	assert_int_equal(result.result, 6 * WIRE_BATCH_MAX - 1);
	/* The next turn has as much again. */
	message_begin(0);
	add_full();
	assert_true(batch_send(conn));
}

/* A batch with an append to a large item between two small changes, of which the last waits. */
static void batch_with_large(uint32_t buffer)
{
	assert_int_equal(test_store_put(&test_store, "large", 5, large, LARGE, NULL), WIRE_OK);
	message_begin(buffer);
	PUT("before", "1");
	add((struct request){ .op = WIRE_PUT, .mode = WIRE_APPEND }, "large", large + LARGE,
	    MORE_BYTES);
	ADD("large", .op = WIRE_TOUCH, .ttl = 1000);
	PUT("after", "2");
	ADD("before", .op = WIRE_GET);
	assert_false(batch_send(conn));
	assert_stored("before", "1", 1);
}

/* What follows the append is not stored before it. */
static void assert_append_first(void)
{
	struct store_value value = { 0 }, after;

	assert_int_equal(test_store_get(&test_store, "large", 5, NULL, 0, &value), WIRE_OK);
	if (value.value_len == LARGE)
		assert_int_equal(test_store_get(&test_store, "after", 5, NULL, 0, &after),
				 WIRE_NOT_FOUND);
}

/* OPERATION-4: requests after one that takes several turns wait, in the batch and after it. */
static void large_items_in_between(void **state)
{
	unsigned int pieces = 0;

	(void)state;
	batch_with_large(0);
	message_begin(1);
	add((struct request){ .op = WIRE_PUT, .mode = WIRE_APPEND }, "after", "3", 1);
	assert_false(batch_send(conn));
	message_begin(2);
	PUT("others", "4");
	assert_true(batch_send(other));
	while (!conn->responses) {
		assert_int_equal(test_recvs[0], 0);
		assert_append_first();
		assert_true(test_turn());
		pieces++;
	}
	assert_true(pieces >= 2);
	assert_int_equal(test_recvs[0], 1);
	assert_answered(conn, 1, 0, 5);
	assert_result(conn, WIRE_PUT, WIRE_OK);
	assert_result(conn, WIRE_PUT, WIRE_OK);
	assert_true(result.slot);
	assert_result(conn, WIRE_TOUCH, WIRE_OK);
	assert_true(result.expires > 0 && !result.slot);
	assert_result(conn, WIRE_PUT, WIRE_OK);
	assert_result(conn, WIRE_GET, WIRE_OK);
	assert_no_more(conn);
	test_turns();
	assert_answered(conn, 2, 1, 1);
	assert_result(conn, WIRE_PUT, WIRE_OK);
	assert_stored("after", "23", 2);
	assert_stored("large", large, LARGE + MORE_BYTES);
}

/* After any number of pieces. */
static void connection_ends(void **state)
{
	static const char *const keys[] = { "large", "before", "after", "b" };
	uint64_t free_bytes = 0;

	(void)state;
	for (unsigned int ends = 0; ends < 50; ends++) {
		test_conn_setup(conn);
		test_recvs[0] = test_recvs[1] = 0;
		batch_with_large(0);
		message_begin(1);
		PUT("b", "later");
		assert_false(batch_send(conn));
		for (unsigned int n = 0; n < ends && !conn->responses; n++)
			assert_true(test_turn());
		if (!conn->responses && ends)
			assert_true(conn->conn.buffers > 0);
		test_conn_end(conn);
		assert_int_equal(test_recvs[0] + test_recvs[1], 2);
		for (unsigned int i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			test_store_delete(&test_store, keys[i], (uint32_t)strlen(keys[i]));
		rcu_quiescent_state();
		limbo_empty(&test_worker.part.thread.limbo, &test_worker.part.thread.cache);
		limbo_empty(&test_threads[0].limbo, &test_threads[0].cache);
		if (!ends)
			free_bytes = memory_free_bytes(test_store.memory);
		assert_int_equal(memory_free_bytes(test_store.memory), free_bytes);
	}
}

/* Fills all memory with items of some sizes down to @bytes_min. */
static void fill(uint32_t bytes_min)
{
	uint64_t key = 0;

	for (uint32_t bytes = 20000; bytes >= bytes_min; bytes /= 10)
		while (test_store_put(&test_store, &key, sizeof(key), large, bytes, NULL) ==
		       WIRE_OK)
			key++;
	test_worker.part.thread.now_ns += LONG_NS; /* making room did not fail just now */
}

/* In full memory room is made for one of them. False: one of the others' blocks was free. */
static bool begins_a_room(void)
{
	/* None of the blocks that the last one has given back is at hand. */
	test_store.table.eviction = EVICTION_NONE;
	test_worker_destroy();
	test_worker_create(SMALL_REGION_BYTES, LARGE);
	fill(200);
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	message_begin(0);
	ADD(NULL, .op = WIRE_PING);
	add((struct request){ .op = WIRE_PUT }, "k", large, 3000);
	return !batch_send(conn);
}

/* After any number of its steps nothing stays closed or taken. */
static void connection_ends_in_a_room(void **state)
{
	struct memory_stats stats;
	unsigned int in_vain = 0;

	(void)state;
	for (unsigned int ends = 0; ends < ENDS_MAX; ends++) {
		while (!begins_a_room())
			assert_true(++in_vain < ENDS_MAX);
		assert_true(room_pending(&test_poller->deferred[0].operations.execution.room));
		for (unsigned int n = 0; n < ends; n++)
			if (room_step(&test_poller->deferred[0].operations.execution.room) ==
			    ROOM_DONE)
				break;
		test_conn_end(conn);
		memory_stats(test_store.memory, &stats);
		assert_int_equal(stats.evacuating, 0);
	}
	test_store.table.eviction = EVICTION_NONE;
}

static struct test_limit limit;

/* Memory is full: room is made in pieces, without success here, and the others are executed. */
static void no_room(void **state)
{
	(void)state;
	fill(2000);
	test_limit_set(&limit, &conn->conn, 1, 0);
	message_begin(0);
	ADD(NULL, .op = WIRE_PING);
	add((struct request){ .op = WIRE_PUT }, "full", large, 2000);
	ADD("n", .op = WIRE_DELETE);
	if (!batch_send(conn)) {
		/* The client takes no responses meanwhile: the batch has its place and buffer. */
		assert_true(test_poller->deferred[0].reserved);
		while (sq_room(&conn->conn))
			sq_take(&conn->conn);
		test_turns();
	}
	assert_answered(conn, 1, 0, 3);
	assert_result(conn, WIRE_PING, WIRE_OK);
	assert_result(conn, WIRE_PUT, WIRE_NO_SPACE);
	assert_result(conn, WIRE_DELETE, WIRE_NOT_FOUND);
	assert_int_equal(command_counts_stats(&test_worker.commands).put_no_space, 1);
	assert_int_equal(stat_read(&test_worker.stats.deferred), 1);
	/* One that was begun twice has taken one token. */
	assert_true(test_limit_taken(&limit.account.requests_full) <= 3);
}

/* OPERATION-5: those beyond the limit are refused, each for itself, and take nothing. */
static void limits(void **state)
{
	unsigned int admitted = 0, refused = 0;
	uint64_t full;

	(void)state;
	test_limit_set(&limit, &conn->conn, 1, 1000000);
	test_store_put(&test_store, "large", 5, large, LARGE, NULL);
	for (uint32_t buffer = 0; buffer < 2; buffer++) {
		message_begin(buffer);
		for (unsigned int i = 0; i < 20; i++)
			if (i == 3)
				add((struct request){ .op = WIRE_PUT, .mode = WIRE_APPEND },
				    "large", "+", 1);
			else
				PUT("small", "-");
		assert_false(batch_send(conn));
		test_turns();
		test_conn_complete(conn);
		assert_answered(conn, buffer + 1, buffer, 20);
		for (unsigned int i = 0; i < 20; i++) {
			assert_null(wire_result_parse(&result, conn->value, conn->value_len,
						      &result_at));
			admitted += result.status == WIRE_OK;
			refused += result.status == WIRE_LIMIT;
		}
	}
	/* One that takes several pieces takes one token. */
	assert_int_equal(admitted, ACCOUNT_REQUESTS_MIN);
	assert_int_equal(refused, 40 - ACCOUNT_REQUESTS_MIN);
	assert_int_equal(stat_read(&test_worker.stats.requests_over_limit), refused);
	assert_int_equal(command_counts_stats(&test_worker.commands).puts, admitted);
	full = atomic_load(&limit.account.bytes_full);
	message_begin(2);
	add_full();
	assert_true(batch_send(conn));
	assert_answered(conn, 3, 2, WIRE_BATCH_MAX);
	assert_result(conn, WIRE_ARITH, WIRE_LIMIT);
	assert_true(atomic_load(&limit.account.bytes_full) == full);
}

static void batch_number(uint32_t change)
{
	((struct wire_request *)test_recv(message))->change = change;
}

static void add_access_record(void)
{
	uint64_t hash = table_hash(&test_store.table, "a", 1);

	((struct wire_request *)test_recv(message))->access_count = 1;
	memcpy(test_recv(message) + message_len, &hash, sizeof(hash));
	message_len += sizeof(hash);
}

static uint64_t bytes_taken(void)
{
	return test_limit_taken(&limit.account.bytes_full);
}

/* OPERATION-5: the message takes each of its bytes once, and its response does. */
static void bytes_of_the_limit(void **state)
{
	static struct answers answers;
	uint64_t before;

	(void)state;
	test_limit_set(&limit, &conn->conn, 0, 1);
	message_begin(0);
	PUT("a", "0123456789");
	ADD("a", .op = WIRE_GET);
	ADD(NULL, .op = WIRE_PING);
	add_access_record();
	assert_true(batch_send(conn));
	assert_answered(conn, 1, 0, 3);
	assert_int_equal(bytes_taken(),
			 message_len + sizeof(struct wire_response) + conn->value_len);
	/* What was sent before takes nothing, whether its answer is known or not. */
	answers_init(&answers, 201);
	conn->conn.answers = &answers;
	conn->conn.change_admitted = answers.last;
	message_begin(1);
	ADD("n", .op = WIRE_ARITH, .flags = WIRE_F_CREATE, .initial = 5);
	batch_number(201);
	assert_true(batch_send(conn));
	before = bytes_taken();
	for (uint32_t i = 0; i < 2; i++) {
		message_begin(2 + i);
		ADD("n", .op = WIRE_ARITH, .delta = 2);
		batch_number(i ? 1 : 201);
		assert_true(batch_send(conn));
		assert_answered(conn, 3 + i, 2 + i, 1);
		assert_result(conn, WIRE_ARITH, i ? WIRE_UNKNOWN : WIRE_OK);
		assert_int_equal(bytes_taken(), i ? before + sizeof(struct wire_result) : before);
		assert_int_equal(stat_read(&test_worker.stats.answers_unknown), i);
	}
}

/* Records in a message of which not one request was admitted count for nothing. */
static void access_records_and_limits(void **state)
{
	(void)state;
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	test_store_put(&test_store, "a", 1, "x", 1, NULL);
	test_limit_set(&limit, &conn->conn, 1, 0);
	test_limit_use_up(&limit, &conn->conn);
	for (uint32_t i = 0; i < 2; i++) {
		message_begin(i);
		ADD(NULL, .op = WIRE_PING);
		ADD(NULL, .op = WIRE_PING);
		add_access_record();
		assert_true(batch_send(conn));
		assert_answered(conn, i + 1, i, 2);
		assert_result(conn, WIRE_PING, i ? WIRE_OK : WIRE_LIMIT);
		assert_result(conn, WIRE_PING, WIRE_LIMIT);
		assert_int_equal(stat_read(&test_worker.part.thread.stats.accesses), i);
		/* And with one that is admitted they count. */
		atomic_fetch_sub(&limit.account.requests_full, ACCOUNT_SECOND);
	}
	test_store.table.eviction = EVICTION_NONE;
}

/* A deferred batch leaves its turn to others when the time is up, after any of its requests. */
static void one_piece_for_each(void **state)
{
	(void)state;
	test_worker.turn.batched = BATCHED_TURN_MAX;
	message_begin(0);
	for (unsigned int i = 0; i < 5; i++)
		ADD(NULL, .op = WIRE_PING);
	assert_false(batch_send(conn));
	time_is_up = true;
	assert_int_equal(test_turns(), 5);
	time_is_up = false;
	assert_answered(conn, 1, 0, 5);
}

/* Access records, which follow the requests, are taken. */
static void access_records(void **state)
{
	struct wire_request *head = (struct wire_request *)test_recv(0);
	uint64_t hash;

	(void)state;
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	test_store_put(&test_store, "a", 1, "x", 1, NULL);
	hash = table_hash(&test_store.table, "a", 1);
	message_begin(0);
	ADD(NULL, .op = WIRE_PING);
	head->access_count = 1;
	memcpy(test_recv(0) + message_len, &hash, sizeof(hash));
	message_len += sizeof(hash);
	assert_true(batch_send(conn));
	assert_answered(conn, 1, 0, 1);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.accesses), 1);
	test_store.table.eviction = EVICTION_NONE;
}

static void assert_number(const char *key, const char *number)
{
	assert_stored(key, number, (uint32_t)strlen(number));
}

/* OPERATION-6: each number is executed once, though it is sent again in other company. */
static void numbers(void **state)
{
	static struct answers answers;

	(void)state;
	answers_init(&answers, 1);
	conn->conn.answers = other->conn.answers = &answers;
	message_begin(0);
	ADD("n", .op = WIRE_ARITH, .flags = WIRE_F_CREATE, .initial = 5);
	ADD("n", .op = WIRE_GET);
	ADD("n", .op = WIRE_ARITH, .delta = 2);
	ADD(NULL, .op = WIRE_PING);
	batch_number(1);
	assert_true(batch_send(conn));
	assert_answered(conn, 1, 0, 4);
	assert_int_equal(answers.last, 3);
	/* Again, with the next one after them, and deferred. */
	other->conn.change_admitted = answers.last;
	test_worker.turn.batched = BATCHED_TURN_MAX;
	message_begin(1);
	ADD("n", .op = WIRE_ARITH, .delta = 2);
	ADD("n", .op = WIRE_GET);
	ADD(NULL, .op = WIRE_PING);
	ADD("n", .op = WIRE_ARITH, .delta = 2);
	batch_number(2);
	assert_false(batch_send(other));
	test_turns();
	assert_answered(other, 1, 1, 4);
	assert_result(other, WIRE_ARITH, WIRE_OK);
	assert_int_equal(result.flags, WIRE_R_REPEATED);
	assert_int_equal(result.result, 7);
	assert_result(other, WIRE_GET, WIRE_OK);
	assert_int_equal(result.flags, 0);
	assert_result(other, WIRE_PING, WIRE_OK);
	assert_int_equal(result.flags, WIRE_R_REPEATED);
	assert_result(other, WIRE_ARITH, WIRE_OK);
	assert_int_equal(result.flags, 0);
	assert_int_equal(result.result, 9);
	assert_int_equal(answers.last, 4);
	assert_int_equal(stat_read(&test_worker.stats.answers_repeated), 2);
	/* What is refused for a limit has its answer, too; what was sent before is not refused. */
	test_limit_set(&limit, &other->conn, 1, 0);
	test_limit_use_up(&limit, &other->conn);
	message_begin(2);
	ADD("n", .op = WIRE_ARITH, .delta = 2);
	batch_number(5);
	assert_true(batch_send(other));
	assert_answered(other, 2, 2, 1);
	assert_result(other, WIRE_ARITH, WIRE_LIMIT);
	assert_int_equal(answers.last, 5);
	/* A gap ends the connection, and nothing of the message is executed. */
	message_begin(3);
	ADD("n", .op = WIRE_ARITH, .delta = 2);
	batch_number(7);
	assert_true(batch_send(other));
	assert_true(other->conn.stopped);
	assert_number("n", "9");
	test_conn_end(other);
	assert_int_equal(wire_change_of(~0u, 0), ~0u);
	assert_int_equal(wire_change_of(~0u, 1), 1);
	assert_int_equal(wire_change_of(~0u - 1, 3), 2);
}

/*
 * The first users come while an operation is executed in pieces: it was admitted, and goes on;
 * those after it are asked for.
 */
static void users_come_in_between(void **state)
{
	static struct user reader = { .name = "reader", .rights = USER_READ };
	struct memory_stats stats;
	unsigned int in_vain = 0;

	(void)state;
	batch_with_large(0);
	atomic_store(&conn->conn.client.user, &reader);
	test_turns();
	assert_answered(conn, 1, 0, 5);
	assert_result(conn, WIRE_PUT, WIRE_OK);
	assert_result(conn, WIRE_PUT, WIRE_OK);
	assert_result(conn, WIRE_TOUCH, WIRE_NOT_ALLOWED);
	assert_result(conn, WIRE_PUT, WIRE_NOT_ALLOWED);
	assert_result(conn, WIRE_GET, WIRE_OK);
	assert_stored("large", large, LARGE + MORE_BYTES);
	while (!begins_a_room())
		assert_true(++in_vain < ENDS_MAX);
	atomic_store(&conn->conn.client.user, &reader);
	test_turns();
	assert_answered(conn, 1, 0, 2);
	assert_result(conn, WIRE_PING, WIRE_OK);
	assert_result(conn, WIRE_PUT, WIRE_OK);
	memory_stats(test_store.memory, &stats);
	assert_int_equal(stats.evacuating, 0);
	atomic_store(&conn->conn.client.user, NULL);
	test_store.table.eviction = EVICTION_NONE;
}

/* Without HELLO the connection fails; a batch that came right after it waits. */
static void before_hello(void **state)
{
	(void)state;
	atomic_store(&conn->conn.hello_done, false);
	message_begin(0);
	PUT("a", "1");
	assert_true(batch_send(conn));
	assert_true(conn->conn.stopped);
	assert_int_equal(conn->responses, 0);
	assert_int_equal(test_store_get(&test_store, "a", 1, NULL, 0, &(struct store_value){ 0 }),
			 WIRE_NOT_FOUND);
	test_conn_end(conn);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(all_kinds_in_order),
		CASE(values_that_do_not_fit),
		CASE(sums_of_values),
		CASE(as_many_as_there_may_be),
		CASE(a_range_is_a_piece),
		CASE(a_turn_is_bounded),
		CASE(large_items_in_between),
		CASE(connection_ends),
		CASE(connection_ends_in_a_room),
		CASE(no_room),
		CASE(limits),
		CASE(bytes_of_the_limit),
		CASE(access_records_and_limits),
		CASE(one_piece_for_each),
		CASE(access_records),
		CASE(before_hello),
		CASE(users_come_in_between),
		CASE(numbers),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
