/* SPDX-License-Identifier: MIT */
/*
 * Tests of large values in a worker's turns (PULL-1 to PULL-4 in server/worker/pull.h,
 * budget_take_build()): what has arrived is summed and appended in pieces, one in each turn, and
 * others have theirs in between; values of one connection are READ one after another and take
 * effect in their order, and what comes after them waits; READs don't run ahead of the sum; values
 * that are made from others keep to their budget; the response always has a place; a connection
 * that ends in any of the pieces leaves nothing. The device is a table of functions that keep what
 * was posted; the test decides when it completes.
 */
#include "server/worker/pull.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/worker/budget.h"
#include "server/worker/keepalive.h"
#include "server/worker/pull_reads.h"
#include "tests/support/limit_fixture.h"
#include "tests/support/store_fixture.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (512u << 20)
#define VALUE_BYTES (64u << 20)
#define SMALL_REGION_BYTES (64u << 20)		   /* quickly filled */
#define ROOM_BYTES (8u << 20)			   /* room for it in that takes steps */
#define MORE_BYTES (PULL_DEPTH * PULL_PIECE_BYTES) /* READ ahead of the sum */
/* What a value takes at most. */
#define ITEM_BYTES(value_len) mem_class_bytes(item_bytes_for(KEY_MAX, value_len, 0))
#define BUILD_BYTES (100u << 20) /* one append to the value */
/* Pieces of 20 us that 64 MiB surely take: none copies or sums 6 MiB in that time. */
#define PIECES_MIN 10
#define PIECES_MAX 100000
#define LONG_NS 3600000000000ull
#define STALL_NS 100000000000ull

static uint8_t *value, *more, *both;
static const char key[] = "key";

static int setup(void **state)
{
	(void)state;
	test_worker_create(REGION_BYTES, VALUE_BYTES + TEST_CONNS * MORE_BYTES);
	budget_init(&test_tenant.build_budget, BUILD_BYTES);
	return 0;
}

static int setup_small(void **state)
{
	(void)state;
	return test_worker_create(SMALL_REGION_BYTES, VALUE_BYTES);
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
	value = malloc(VALUE_BYTES);
	more = malloc(MORE_BYTES);
	both = malloc(VALUE_BYTES + TEST_CONNS * MORE_BYTES);
	if (!value || !more || !both)
		return -1;
	for (uint32_t i = 0; i < VALUE_BYTES; i++)
		value[i] = (uint8_t)(i * 2654435761u >> 24);
	for (uint32_t i = 0; i < MORE_BYTES; i++)
		more[i] = (uint8_t)(i * 2246822519u >> 24);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	free(value);
	free(more);
	free(both);
	return 0;
}

/* The pull of the connection's first request. */
static struct pull *pull_of(struct test_conn *c)
{
	return &TAILQ_FIRST(&c->conn.deferred)->pull;
}

/* The connection's receives are its number times the window and what follows. */
static uint32_t recv_of(const struct test_conn *c, uint32_t n)
{
	return (uint32_t)(c - test_conns) * TEST_WINDOW + n;
}

/*
 * The request for a pull, in its @n-th receive, arrives, with what else @put says. True: READs it
 * at once.
 */
static bool send_pull_as(struct test_conn *c, uint32_t n, const char *name, struct wire_request put,
			 const uint8_t *from, uint32_t len)
{
	size_t bytes = sizeof(put) + strlen(name) + 1, accesses = 8u * put.access_count;
	uint32_t pulls = c->conn.pulls;

	put.op = WIRE_PUT;
	put.flags |= WIRE_F_PULL;
	put.id = 7 + n;
	put.key_len = (uint16_t)(strlen(name) + 1);
	put.value_len = len;
	put.pull_addr = (uintptr_t)from;
	memcpy(test_recv(recv_of(c, n)), &put, sizeof(put));
	memcpy(test_recv(recv_of(c, n)) + sizeof(put), name, put.key_len);
	memset(test_recv(recv_of(c, n)) + bytes, 1, accesses);
	assert_false(test_receive(c, recv_of(c, n), bytes + accesses));
	return c->conn.pulls > pulls;
}

static bool send_pull(struct test_conn *c, uint32_t n, const char *name, enum wire_put mode,
		      const uint8_t *from, uint32_t len)
{
	return send_pull_as(c, n, name, (struct wire_request){ .mode = (uint8_t)mode }, from, len);
}

/* Sends a pull with nothing outstanding after it, and gives it the turns that it needs. */
static bool ask(struct test_conn *c, enum wire_put mode, const uint8_t *from, uint32_t len)
{
	send_pull(c, 0, key, mode, from, len);
	for (unsigned int n = 0; !c->conn.pulls && c->conn.deferred_runs; n++) {
		assert_true(n < PIECES_MAX);
		test_turn();
	}
	return c->conn.pulls;
}

/* The device has read what the oldest READ asks for. */
static void serve_read(struct test_conn *c)
{
	uint64_t ahead = c->conn.pull_ahead - c->conn.reads_bytes + c->sges[0].length;
	uint64_t wr_id = c->reads[0].wr_id;
	unsigned int count = c->read_count;

	assert_true(c->read_count);
	memcpy((void *)(uintptr_t)c->sges[0].addr,
	       (void *)(uintptr_t)c->reads[0].wr.rdma.remote_addr, c->sges[0].length);
	c->read_count--;
	memmove(c->reads, c->reads + 1, c->read_count * sizeof(c->reads[0]));
	memmove(c->sges, c->sges + 1, c->read_count * sizeof(c->sges[0]));
	pull_done(&c->conn, wr_id);
	/* The piece is not summed with the batch. */
	assert_int_equal(c->conn.pull_ahead - c->conn.reads_bytes, ahead);
	assert_true(c->read_count <= count && c->read_count <= PULL_DEPTH);
	deferred_wake(&c->conn);
}

/* Serves all READs, and runs all pieces. Returns these. */
static unsigned int pull_through(struct test_conn *c)
{
	unsigned int pieces = 0;

	while (c->read_count) {
		serve_read(c);
		pieces += test_turns();
	}
	return pieces;
}

static void assert_stored(const char *name, const uint8_t *bytes, uint32_t len)
{
	uint32_t name_len = (uint32_t)strlen(name) + 1;
	struct store_value out;
	uint8_t *buffer = malloc(len);

	assert_non_null(buffer);
	assert_int_equal(test_store_get(&test_store, name, name_len, buffer, len, &out), WIRE_OK);
	assert_int_equal(out.value_len, len);
	assert_memory_equal(buffer, bytes, len);
	free(buffer);
}

static void assert_value(const uint8_t *bytes, uint32_t len)
{
	assert_stored(key, bytes, len);
}

static void assert_responded(const struct test_conn *c, enum wire_status status)
{
	assert_int_equal(c->responses, 1);
	assert_int_equal(c->response.op, WIRE_PUT);
	assert_int_equal(c->response.id, 7);
	assert_int_equal(c->response.status, status);
}

static void put_value(void)
{
	assert_int_equal(test_store_put(&test_store, key, sizeof(key), value, VALUE_BYTES, NULL),
			 WIRE_OK);
}

/* What arrives is summed piece by piece, each in a turn of its own. */
static void sums_in_pieces(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	assert_false(test_turn());
	assert_true(pull_through(c) >= PIECES_MIN);
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
	assert_int_equal(c->conn.sq_used, 1);
}

/* All that server.pull_stall gives. */
static void stall_time_passes(void)
{
	test_worker.limits.pull_stall_ns = 0;
	usleep(1);
	pull_expire(&test_worker);
}

/* PULL-5: without a READ, in pieces, and others have their turns in between. */
static void now_in_pieces(void **state)
{
	struct test_conn *c = &test_conns[0], *other = &test_conns[1];
	unsigned int pieces = 0;

	(void)state;
	test_now_bytes = UINT64_MAX;
	test_worker.limits.pull_stall_ns = 0;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	usleep(1);
	pull_expire(&test_worker);
	assert_false(c->conn.stopped);
	assert_false(send_pull(other, 0, "other", WIRE_SET, more, 1000));
	assert_true(test_turn());
	assert_true(test_turn());
	assert_responded(other, WIRE_OK);
	assert_int_equal(c->responses, 0);
	while (test_turn())
		pieces++;
	assert_true(pieces >= PIECES_MIN);
	assert_responded(c, WIRE_OK);
	assert_int_equal(c->read_count + other->read_count, 0);
	assert_value(value, VALUE_BYTES);
	assert_stored("other", more, 1000);
	assert_int_equal(c->conn.sq_used, 1);
}

/* After any number of bytes READs are posted for the rest. */
static void now_no_more(void **state)
{
	static const uint32_t ends[] = { 1, 1000, 65536, 65537, MORE_BYTES - 1, MORE_BYTES };
	struct test_conn *c = &test_conns[0];

	(void)state;
	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		memset(c, 0, sizeof(*c));
		test_conn_setup(c);
		test_now_bytes = ends[i];
		ask(c, WIRE_SET, value + i, MORE_BYTES);
		while (test_turn())
			;
		assert_int_equal(c->responses, ends[i] == MORE_BYTES);
		assert_int_equal(!c->read_count, ends[i] == MORE_BYTES);
		pull_through(c);
		assert_responded(c, WIRE_OK);
		assert_value(value + i, MORE_BYTES);
		assert_int_equal(c->conn.sq_used, 1);
		test_conn_complete(c);
	}
}

/* Nothing later is READ ahead of it, and all take effect in their order. */
static void now_in_order(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	test_now_bytes = MORE_BYTES;
	assert_false(send_pull(c, 0, key, WIRE_SET, value, MORE_BYTES));
	/* Nothing of this one can be READ so; the one before may still need READs. */
	assert_true(test_turn());
	assert_false(send_pull(c, 1, key, WIRE_APPEND, more, 1000));
	assert_int_equal(c->read_count, 0);
	while (test_turn())
		;
	assert_int_equal(c->responses, 1);
	assert_int_equal(c->read_count, 1);
	assert_false(send_pull(c, 2, key, WIRE_APPEND, more, 2000) && c->responses > 1);
	pull_through(c);
	assert_int_equal(c->id_count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(c->ids[i], 7 + i);
	memcpy(both, value, MORE_BYTES);
	memcpy(both + MORE_BYTES, more, 1000);
	memcpy(both + MORE_BYTES + 1000, more, 2000);
	assert_value(both, MORE_BYTES + 3000);
}

/* One that needs READs waits for those that the one before may still need. */
static void now_ends_before_another(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	/* A connection of which a value has arrived may have others begun early. */
	c->conn.pull_arrived = true;
	test_now_bytes = UINT64_MAX;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	test_now_bytes = 0;
	assert_false(send_pull(c, 1, key, WIRE_APPEND, more, 1000));
	assert_int_equal(c->read_count, 0);
	assert_true(test_turn());
	pull_through(c);
	assert_int_equal(c->id_count, 2);
	assert_int_equal(c->ids[0], 7);
	memcpy(both, value, VALUE_BYTES);
	memcpy(both + VALUE_BYTES, more, 1000);
	assert_value(both, VALUE_BYTES + 1000);
}

/* No READ can write to the item: it is free at once. */
static void now_connection_ends(void **state)
{
	struct test_conn *c = &test_conns[0];
	uint64_t free_bytes = memory_free_bytes(test_store.memory);

	(void)state;
	test_now_bytes = UINT64_MAX;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	assert_true(test_turn());
	assert_int_equal(c->responses, 0);
	c->conn.stopped = true;
	deferred_cancel(&c->conn);
	assert_false(deferred_pending(&c->conn));
	assert_int_equal(memory_free_bytes(test_store.memory), free_bytes);
	test_conn_end(c);
}

/* Turns of others come while a client fills its memory, until it is late. */
static void now_waits_for_a_client(void **state)
{
	struct test_conn *c = &test_conns[0], *other = &test_conns[1];

	(void)state;
	test_now_bytes = UINT64_MAX;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	test_now_busy = c;
	assert_true(test_turn());
	assert_true(c->conn.deferred_runs && !c->probe);
	assert_false(send_pull(other, 0, "other", WIRE_SET, more, 1000));
	while (!other->responses)
		assert_true(test_turn());
	assert_responded(other, WIRE_OK);
	assert_int_equal(c->responses, 0);
	test_now_busy = NULL;
	deferred_wake(&c->conn);
	test_turns();
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
	assert_int_equal(c->read_count + other->read_count, 0);
}

/* One that asks for a value that its client does not fill, until the client is late. */
static void ask_late(struct test_conn *c)
{
	test_now_bytes = UINT64_MAX;
	test_now_busy = c;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	test_turns();
	assert_true(c->probe);
	assert_int_equal(c->read_count, 0);
	assert_false(c->conn.stopped);
}

static void answer_probe(struct test_conn *c)
{
	keepalive_answered(&c->conn, c->probe);
	pull_probed(&c->conn);
	c->probe = 0;
	deferred_wake(&c->conn);
	test_turns();
}

/* PULL-6: it goes on when the client has answered, and has all its time for the next part. */
static void now_waits_for_a_probe(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	ask_late(c);
	/* Woken up for another reason. */
	deferred_wake(&c->conn);
	test_turns();
	assert_int_equal(c->read_count, 0);
	test_now_busy = NULL;
	test_now_bytes = 100000;
	answer_probe(c);
	/* No more can be READ so. */
	assert_int_equal(c->responses, 0);
	assert_true(c->read_count);
	pull_through(c);
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
}

/* The client fills some more, once, and is late again. */
static void fill_some(struct test_conn *c)
{
	test_now_busy = NULL;
	deferred_wake(&c->conn);
	assert_true(test_turn());
	assert_int_equal(c->responses, 0);
	test_now_busy = c;
	test_turns();
}

/* No deadline counts while it goes on; and it may be late again. */
static void now_goes_on(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	ask_late(c);
	test_now_busy = NULL;
	deferred_wake(&c->conn);
	assert_true(test_turn());
	assert_int_equal(c->responses, 0);
	stall_time_passes();
	assert_false(c->conn.stopped);
	test_now_busy = c;
	test_turns();
	assert_true(pull_of(c)->awaits && !c->read_count);
	test_now_busy = NULL;
	answer_probe(c);
	assert_responded(c, WIRE_OK);
	assert_int_equal(c->read_count, 0);
	assert_value(value, VALUE_BYTES);
}

/* When the fill was late PULL_FILL_WAITS times the rest is READ. */
static void now_late_often(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	ask_late(c);
	for (unsigned int i = 1; i < PULL_FILL_WAITS; i++) {
		fill_some(c);
		assert_int_equal(c->read_count, 0);
	}
	fill_some(c);
	assert_true(c->read_count && pull_of(c)->arrived);
	pull_through(c);
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
	keepalive_answered(&c->conn, c->probe);
}

/* A client that was late, then filled all, and did nothing else: it need not answer. */
static void now_looks_once_more(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	ask_late(c);
	test_now_busy = NULL;
	stall_time_passes();
	test_turns();
	assert_false(c->conn.stopped);
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
	keepalive_answered(&c->conn, c->probe);
}

/* One that was done before it could see the probe does not answer it: nobody has to. */
static void now_done_when_probed(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	test_now_bytes = UINT64_MAX;
	test_now_busy = c;
	test_now_busy_till_probe = true;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	test_turns();
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
	keepalive_answered(&c->conn, c->probe);
}

/* One is not closed that has answered, when it is the worker that was late. */
static void now_answered_in_time(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	ask_late(c);
	keepalive_answered(&c->conn, c->probe);
	pull_probed(&c->conn);
	stall_time_passes();
	assert_false(c->conn.stopped || pull_of(c)->looks);
	test_now_busy = NULL;
	deferred_wake(&c->conn);
	test_turns();
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
}

/* The client has answered, and does not fill: READs are posted, which it has to serve. */
static void now_never_there(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	ask_late(c);
	answer_probe(c);
	assert_int_equal(c->responses, 0);
	assert_true(c->read_count);
	pull_through(c);
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
}

/* No answer: the connection fails after either time, and its principal is late: BUDGET-4. */
static void now_stands_still(void **state)
{
	const struct worker_limits limits = test_worker.limits;
	struct test_conn *c = &test_conns[0];
	uint64_t free_bytes = memory_free_bytes(test_store.memory);

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		memset(c, 0, sizeof(*c));
		test_conn_setup(c);
		ask_late(c);
		pull_expire(&test_worker);
		assert_false(c->conn.stopped);
		test_worker.limits.pull_stall_ns = i ? limits.pull_stall_ns : 0;
		test_worker.limits.pull_ns = i ? 0 : limits.pull_ns;
		usleep(1);
		pull_expire(&test_worker);
		test_turns();
		assert_true(c->conn.stopped);
		assert_int_equal(stat_read(&test_worker.stats.pulls_stalled), i + 1);
		test_worker.limits = limits;
		sq_put(&c->conn, 1);
		test_conn_end(c);
		assert_true(late_principals_have(&test_late_principals, c->conn.client.principal,
						 clock_ns()));
		test_late_principals = (struct late_principals){ 0 };
		assert_int_equal(memory_free_bytes(test_store.memory), free_bytes);
	}
}

/* The copy begins when the response has a place, and keeps that. */
static void now_has_a_place(void **state)
{
	struct response_list responses = { .poller = test_poller };
	struct test_conn *c = &test_conns[0];

	(void)state;
	test_now_bytes = UINT64_MAX;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	while (sq_room(&c->conn)) {
		response_start(&responses, &c->conn, WIRE_PING, 1);
		responses_send(&responses);
	}
	c->responses = 0;
	while (test_turn())
		;
	assert_responded(c, WIRE_OK);
	assert_true(c->conn.sq_used <= sq_share(&c->conn));
	assert_false(send_pull(c, 1, key, WIRE_SET, more, 1000));
	while (test_turn())
		;
	assert_int_equal(c->responses, 1);
	test_conn_complete(c);
	deferred_wake(&c->conn);
	while (test_turn())
		;
	assert_int_equal(c->responses, 2);
	assert_value(more, 1000);
}

/* A worker that is late with the sum READs no more than PULL_DEPTH pieces ahead of it. */
static void reads_wait_for_the_sum(void **state)
{
	struct test_conn *c = &test_conns[0];
	unsigned int served = 0, pieces = 0;

	(void)state;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	for (; c->read_count; served++)
		serve_read(c);
	assert_int_equal(served, PULL_DEPTH);
	while (test_turn())
		pieces++;
	assert_true(pieces > 0);
	assert_int_equal(c->read_count, PULL_DEPTH);
	pull_through(c);
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
}

/* An append to a value of 64 MiB takes pieces, and so does the other connection in between. */
static void appends_in_pieces(void **state)
{
	struct test_conn *c = &test_conns[0], *other = &test_conns[1];
	unsigned int pieces = 0;

	(void)state;
	put_value();
	assert_true(ask(c, WIRE_APPEND, more, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	while (pull_of(c)->steps.kind != LARGE_APPEND)
		assert_true(test_turn());
	/* The other's small value needs two turns at most: this connection's, and then its own. */
	assert_true(ask(other, WIRE_SET, more, 1000));
	serve_read(other);
	assert_int_equal(other->responses, 0);
	assert_true(test_turn());
	assert_true(test_turn());
	assert_responded(other, WIRE_OK);
	assert_int_equal(c->responses, 0);
	/* The key has another version then: the append is to that. */
	while (test_turn())
		pieces++;
	assert_responded(c, WIRE_OK);
	memcpy(both, more, 1000);
	memcpy(both + 1000, more, MORE_BYTES);
	assert_value(both, 1000 + MORE_BYTES);

	put_value();
	c->responses = 0;
	assert_true(ask(c, WIRE_PREPEND, more, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	for (pieces = 0; test_turn(); pieces++)
		;
	assert_true(pieces >= PIECES_MIN);
	assert_responded(c, WIRE_OK);
	memcpy(both, more, MORE_BYTES);
	memcpy(both + MORE_BYTES, value, VALUE_BYTES);
	assert_value(both, VALUE_BYTES + MORE_BYTES);
}

/* The response has a place even if all others are taken by responses that do not complete. */
static void response_has_a_place(void **state)
{
	struct response_list responses = { .poller = test_poller };
	struct test_conn *c = &test_conns[0];

	(void)state;
	assert_true(ask(c, WIRE_SET, value, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	while (sq_room(&c->conn)) {
		response_start(&responses, &c->conn, WIRE_PING, 1);
		responses_send(&responses);
	}
	c->responses = 0;
	while (test_turn())
		;
	assert_responded(c, WIRE_OK);
	assert_true(c->conn.sq_used <= sq_share(&c->conn));
	assert_value(value, MORE_BYTES);
}

/* After any number of pieces. */
static void connection_ends(void **state)
{
	static const unsigned int ends[] = { 0, 1, 2, 3, 5, 10, 30, 100 };
	struct test_conn *c = &test_conns[0];
	uint64_t free_bytes;

	(void)state;
	put_value();
	free_bytes = memory_free_bytes(test_store.memory);
	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		test_conn_setup(c);
		assert_true(ask(c, WIRE_APPEND, more, MORE_BYTES));
		while (c->read_count)
			serve_read(c);
		for (unsigned int n = 0; n < ends[i] && !c->responses; n++)
			test_turn();
		if (c->responses) {
			put_value();
			continue;
		}
		test_conn_end(c);
		assert_int_equal(memory_free_bytes(test_store.memory), free_bytes);
	}
}

/* A client stands still when a READ is outstanding, not when the worker is late with the sum. */
static void stands_still(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	test_worker.limits.pull_stall_ns = 0;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	while (c->read_count)
		serve_read(c);
	usleep(1);
	pull_expire(&test_worker);
	assert_false(c->conn.stopped);
	while (test_turn())
		;
	usleep(1);
	pull_expire(&test_worker);
	assert_true(c->conn.stopped);
	assert_int_equal(stat_read(&test_worker.stats.pulls_stalled), 1);
	test_conn_end(c);
}

/* One that gets on, and has for longer, hides none that stands still. */
static void one_of_two_stands_still(void **state)
{
	struct test_conn *c = &test_conns[0], *still = &test_conns[1];

	(void)state;
	test_worker.limits.pull_stall_ns = STALL_NS;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	assert_true(ask(still, WIRE_SET, more, MORE_BYTES));
	serve_read(c);
	still->conn.progress_ns -= 2 * STALL_NS;
	pull_expire(&test_worker);
	assert_true(still->conn.stopped);
	assert_false(c->conn.stopped);
	assert_int_equal(stat_read(&test_worker.stats.pulls_stalled), 1);
	test_conn_end(still);
	test_turns();
	pull_through(c);
	assert_responded(c, WIRE_OK);
}

/* However long ago the last value was, the time of the next one begins with it. */
static void time_of_the_next_value(void **state)
{
	struct test_conn *c = &test_conns[0];
	uint64_t begun_ns;

	(void)state;
	assert_true(ask(c, WIRE_SET, more, MORE_BYTES));
	pull_through(c);
	assert_responded(c, WIRE_OK);
	begun_ns = clock_ns();
	assert_true(ask(c, WIRE_SET, value, MORE_BYTES));
	assert_true(c->conn.pull_since_ns >= begun_ns);
	assert_true(c->conn.progress_ns >= begun_ns);
	pull_through(c);
	assert_value(value, MORE_BYTES);
}

/*
 * BUDGET-3: a client that has served no READ yet is asked to, and has neither memory nor a place in
 * the queue.
 */
static void probed_first(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	c->conn.probes_answered = 0;
	assert_false(ask(c, WIRE_SET, value, MORE_BYTES));
	for (unsigned int i = 0; i < 3; i++) {
		deferred_wake(&c->conn);
		assert_true(test_turn());
	}
	assert_true(c->probe);
	assert_int_equal(c->read_count, 0);
	assert_int_equal(c->conn.pull_hold.bytes, 0);
	assert_int_equal(test_tenant.pull_budget.waits, 0);
	assert_int_equal(stat_read(&test_worker.stats.pulls_probed), 1);
	keepalive_answered(&c->conn, c->probe);
	pull_probed(&c->conn);
	/* From now on it has no deadline until it holds memory. */
	stall_time_passes();
	assert_false(c->conn.stopped);
	c->probe = 0;
	deferred_wake(&c->conn);
	assert_true(test_turn());
	assert_int_equal(c->conn.pulls, 1);
	pull_through(c);
	assert_responded(c, WIRE_OK);
	assert_int_equal(c->probe, 0);
}

static void probe_is_not_answered(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	c->conn.probes_answered = 0;
	test_worker.limits.pull_stall_ns = 0;
	assert_false(ask(c, WIRE_SET, value, MORE_BYTES));
	usleep(1);
	pull_expire(&test_worker);
	assert_true(c->conn.stopped);
	assert_int_equal(stat_read(&test_worker.stats.pulls_stalled), 1);
	test_conn_end(c);
}

/* An answer to a probe is no part of a value that is being READ. */
static void answers_and_stands_still(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	assert_true(ask(c, WIRE_SET, value, MORE_BYTES));
	pull_probed(&c->conn);
	stall_time_passes();
	assert_true(c->conn.stopped);
	assert_int_equal(stat_read(&test_worker.stats.pulls_stalled), 1);
	test_conn_end(c);
}

/* The device takes no READ: the connection has failed, and nothing more is posted. */
static int refused_sends;

static int refuse_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = wr;
	refused_sends++;
	return ENOMEM;
}

static void read_is_not_posted(void **state)
{
	struct ibv_context refusing = { .ops = { .post_send = refuse_send } };
	struct test_conn *c = &test_conns[0];

	(void)state;
	refused_sends = 0;
	c->qp.context = &refusing;
	send_pull(c, 0, key, WIRE_SET, value, MORE_BYTES);
	test_turns();
	assert_true(c->conn.stopped);
	assert_int_equal(refused_sends, 1);
	assert_int_equal(c->conn.sq_used, 0);
	assert_int_equal(stat_read(&test_worker.stats.connections_failed), 1);
	test_conn_end(c);
}

/* Connections that have ended otherwise are closed and counted as what they are. */
static void ended_otherwise(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	test_worker.limits.pull_stall_ns = 0;
	for (unsigned int i = 0; i < 2; i++) {
		test_conn_setup(c);
		c->conn.probes_answered = i;
		assert_int_equal(ask(c, WIRE_SET, value, MORE_BYTES), i);
		c->conn.stopped = true;
		usleep(1);
		pull_expire(&test_worker);
		test_conn_end(c);
	}
	assert_int_equal(stat_read(&test_worker.stats.pulls_stalled), 0);
	assert_int_equal(stat_read(&test_worker.stats.connections_failed), 0);
}

/*
 * BUDGET-4: connections of a late principal pass the gate of the late ones, those that wait already
 * when their turn comes, until the time is over.
 */
static void late_ones_share(void **state)
{
	struct test_conn *late = &test_conns[0], *also_late = &test_conns[1],
			 *other = &test_conns[2];
	const struct budget *budget = &test_tenant.pull_budget;

	(void)state;
	test_conn_principal(other, "addr=10.0.0.2");
	budget_init(&test_tenant.pull_budget, ITEM_BYTES(VALUE_BYTES));
	assert_true(ask(late, WIRE_SET, value, VALUE_BYTES));
	assert_false(ask(also_late, WIRE_SET, value, VALUE_BYTES));
	assert_true(ask(other, WIRE_SET, more, MORE_BYTES));
	assert_int_equal(budget->late.passed, 0);
	test_conn_end(late);
	test_conn_setup(late);
	test_turns();
	assert_true(also_late->conn.pulls && also_late->conn.pull_hold.late);
	assert_int_equal(budget->late.passed, also_late->conn.pull_hold.bytes);
	assert_int_equal(stat_read(&test_worker.stats.pulls_late), 1);
	/* Another late one has no room beside it, and one that is not late has. */
	late_principals_add(&test_late_principals, other->conn.client.principal,
			    clock_ns() + LONG_NS);
	test_conn_principal(late, "addr=10.0.0.3");
	pull_through(other);
	other->responses = 0;
	assert_false(ask(other, WIRE_SET, more, MORE_BYTES));
	assert_true(other->conn.pull_hold.late);
	assert_int_equal(stat_read(&test_worker.stats.pulls_late), 2);
	assert_true(ask(late, WIRE_SET, value, VALUE_BYTES));
	assert_false(late->conn.pull_hold.late);
	/* When the time is over, what waits keeps its place. */
	test_late_principals = (struct late_principals){ 0 };
	deferred_wake(&other->conn);
	test_turns();
	assert_true(other->conn.pull_hold.wanted && other->conn.pull_hold.late);
	pull_through(also_late);
	assert_responded(also_late, WIRE_OK);
	pull_through(late);
	assert_responded(late, WIRE_OK);
	pull_through(other);
	assert_responded(other, WIRE_OK);
	/* The next one is as any other. */
	assert_true(ask(other, WIRE_SET, more, MORE_BYTES));
	assert_false(other->conn.pull_hold.late);
	other->responses = 0;
	pull_through(other);
	assert_int_equal(budget->late.passed, 0);
}

/*
 * BUDGET-4: one that ends while room is made for its value was late; one that only waited was not.
 */
static void ends_while_room_is_made(void **state)
{
	struct test_conn *late = &test_conns[0], *waited = &test_conns[1];
	struct budget_hold *third = &test_conns[2].conn.pull_hold;
	struct budget *budget = &test_tenant.pull_budget;

	(void)state;
	test_conn_principal(late, "addr=10.0.0.1");
	test_conn_principal(waited, "addr=10.0.0.2");
	budget_init(budget, ITEM_BYTES(VALUE_BYTES));
	assert_true(budget_take(budget, third, budget->share));
	for (uint64_t other = 0; other < REGION_BYTES / VALUE_BYTES; other++)
		test_store_put(&test_store, &other, sizeof(other), value, VALUE_BYTES, NULL);
	assert_false(send_pull(late, 0, key, WIRE_SET, value, VALUE_BYTES));
	assert_false(send_pull(waited, 0, key, WIRE_SET, value, VALUE_BYTES));
	while (!budget->waits)
		assert_true(test_turn());
	budget_give(budget, third, third->bytes);
	assert_true(late->conn.pull_hold.bytes > 0);
	assert_int_equal(late->conn.pulls, 0);
	test_conn_end(waited);
	test_conn_end(late);
	assert_true(late_principals_have(&test_late_principals, late->conn.client.principal,
					 clock_ns()));
	assert_false(late_principals_have(&test_late_principals, waited->conn.client.principal,
					  clock_ns()));
}

/* Some of them are remembered, each for its time. */
static void late_ones(void **state)
{
	static const struct principal host = { "addr=10.0.0.1" }, longer = { "addr=10.0.0.11" },
				      local = { "uid=1000" }, another = { "uid=100" },
				      other = { "uid=1" };
	static struct late_principals known;
	struct principal principal;

	(void)state;
	assert_false(late_principals_have(&known, &host, 0));
	late_principals_add(&known, &host, 10);
	assert_true(late_principals_have(&known, &host, 9));
	assert_false(late_principals_have(&known, &host, 10));
	assert_false(late_principals_have(&known, &longer, 9));
	late_principals_add(&known, &local, 20);
	assert_true(late_principals_have(&known, &local, 19));
	assert_false(late_principals_have(&known, &another, 19));
	assert_false(late_principals_have(&known, &host, 19));
	late_principals_add(&known, &host, 21);
	assert_true(late_principals_have(&known, &host, 20));
	for (unsigned int i = 0; i < LATE_PRINCIPALS_MAX - 1; i++) {
		principal = (struct principal){ 0 };
		snprintf(principal.name, sizeof(principal.name), "addr=10.0.1.%u", i);
		late_principals_add(&known, &principal, 30);
		assert_true(late_principals_have(&known, &principal, 29));
	}
	/* The local one's time was the shortest. */
	assert_true(late_principals_have(&known, &host, 15));
	assert_false(late_principals_have(&known, &local, 15));
	/* The host's is the next, and its name is longer than the new one. */
	late_principals_add(&known, &other, 40);
	assert_true(late_principals_have(&known, &other, 39));
	assert_false(late_principals_have(&known, &host, 15));
}

/*
 * One that has served all its READs is not closed, whatever time the rest takes; and a server that
 * stops still sees its pull.
 */
static void arrived(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	test_worker.limits.pull_ns = 0;
	assert_true(ask(c, WIRE_SET, value, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	usleep(1);
	pull_expire(&test_worker);
	assert_false(c->conn.stopped);
	assert_int_equal(stat_read(&test_worker.pulls_count), 1);
	while (test_turn())
		;
	assert_responded(c, WIRE_OK);
	assert_int_equal(stat_read(&test_worker.pulls_count), 0);
	assert_true(ask(c, WIRE_SET, value, MORE_BYTES));
	usleep(1);
	pull_expire(&test_worker);
	assert_true(c->conn.stopped);
	assert_int_equal(stat_read(&test_worker.stats.pulls_stalled), 1);
	test_conn_end(c);
}

/* The number of connections that build something. */
static unsigned int builders(void)
{
	const struct deferred *first;
	unsigned int n = 0;

	for (unsigned int i = 0; i < TEST_CONNS; i++) {
		first = TAILQ_FIRST(&test_conns[i].conn.deferred);
		if (first)
			n += (first->pulls ? first->pull.build.bytes :
					     first->operations.execution.large.hold.bytes) > 0;
	}
	return n;
}

/* Runs all pieces, in each of which one connection at most builds something. */
static unsigned int build_all(void)
{
	unsigned int n = 0;

	for (; test_turn(); n++)
		assert_true(builders() <= 1);
	return n;
}

/*
 * Appends of several clients to one value, of which the budget has room for one: the others wait
 * without memory, and are done one after the other, though each needs more than the one before.
 */
static void appends_wait_for_memory(void **state)
{
	(void)state;
	put_value();
	for (unsigned int i = 0; i < TEST_CONNS; i++) {
		assert_true(ask(&test_conns[i], WIRE_APPEND, more, MORE_BYTES));
		while (test_conns[i].read_count)
			serve_read(&test_conns[i]);
	}
	build_all();
	for (unsigned int i = 0; i < TEST_CONNS; i++)
		assert_responded(&test_conns[i], WIRE_OK);
	assert_int_equal(stat_read(&test_worker.stats.large_waited), TEST_CONNS - 1);
	memcpy(both, value, VALUE_BYTES);
	for (unsigned int i = 0; i < TEST_CONNS; i++)
		memcpy(both + VALUE_BYTES + i * MORE_BYTES, more, MORE_BYTES);
	assert_value(both, VALUE_BYTES + TEST_CONNS * MORE_BYTES);
}

/* The connection asks for one byte to be appended, in a message. */
static void append_byte(struct test_conn *c)
{
	const struct wire_request put = {
		.op = WIRE_PUT,
		.mode = WIRE_APPEND,
		.id = 7,
		.key_len = sizeof(key),
		.value_len = 1,
	};
	uint8_t *message = test_recv(recv_of(c, 1));

	memcpy(message, &put, sizeof(put));
	memcpy(message + sizeof(put), key, sizeof(key));
	message[sizeof(put) + sizeof(key)] = 'x';
	assert_false(test_receive(c, recv_of(c, 1), sizeof(put) + sizeof(key) + 1));
}

/* Values that came in messages wait for memory, beside one that is pulled meanwhile. */
static void requests_wait_for_memory(void **state)
{
	(void)state;
	put_value();
	assert_true(ask(&test_conns[0], WIRE_APPEND, more, MORE_BYTES));
	append_byte(&test_conns[1]);
	append_byte(&test_conns[2]);
	while (!builders())
		assert_true(test_turn());
	while (test_conns[0].read_count)
		serve_read(&test_conns[0]);
	build_all();
	for (unsigned int i = 0; i < TEST_CONNS; i++)
		assert_responded(&test_conns[i], WIRE_OK);
	assert_int_equal(stat_read(&test_worker.stats.large_waited), TEST_CONNS - 1);
	memcpy(both, value, VALUE_BYTES);
	memset(both + VALUE_BYTES, 'x', 2);
	memcpy(both + VALUE_BYTES + 2, more, MORE_BYTES);
	assert_value(both, VALUE_BYTES + MORE_BYTES + 2);
}

/* An append that waits is counted once, however often it is woken. */
static void appends_are_counted(void **state)
{
	const unsigned int *count = &test_tenant.build_budget.waits;

	(void)state;
	put_value();
	append_byte(&test_conns[0]);
	while (!builders())
		assert_true(test_turn());
	append_byte(&test_conns[1]);
	while (!*count)
		assert_true(test_turn());
	deferred_wake(&test_conns[1].conn);
	assert_true(test_turn());
	assert_int_equal(*count, 1);
	assert_int_equal(stat_read(&test_worker.stats.large_waited), 1);
	build_all();
	assert_responded(&test_conns[1], WIRE_OK);
	memcpy(both, value, VALUE_BYTES);
	memset(both + VALUE_BYTES, 'x', 2);
	assert_value(both, VALUE_BYTES + 2);
}

/* What is built may take all of its budget, whoever it is for; whole pages count. */
static void appends_share(void **state)
{
	const uint64_t bytes = mem_class_bytes(item_bytes_for(sizeof(key), VALUE_BYTES / 4 + 1, 0));
	const struct budget *budget = &test_tenant.build_budget;

	(void)state;
	assert_int_equal(test_store_put(&test_store, key, sizeof(key), value, VALUE_BYTES / 4,
					NULL),
			 WIRE_OK);
	budget_init(&test_tenant.build_budget, 2 * bytes);
	append_byte(&test_conns[0]);
	append_byte(&test_conns[1]);
	while (budget->all.passed < 2 * bytes)
		assert_true(test_turn());
	assert_int_equal(test_conns[0].responses + test_conns[1].responses, 0);
	assert_int_equal(budget->all.passed, 2 * bytes);
	test_turns();
	assert_responded(&test_conns[0], WIRE_OK);
	assert_responded(&test_conns[1], WIRE_OK);
}

/* One whose client takes no responses any more does not keep the memory for that. */
static void no_room_while_building(void **state)
{
	struct response_list responses = { .poller = test_poller };
	struct test_conn *c = &test_conns[1];

	(void)state;
	put_value();
	append_byte(c);
	append_byte(&test_conns[2]);
	while (!builders())
		assert_true(test_turn());
	while (sq_room(&c->conn)) {
		response_start(&responses, &c->conn, WIRE_PING, 1);
		responses_send(&responses);
	}
	c->responses = 0;
	build_all();
	assert_responded(c, WIRE_OK);
	assert_responded(&test_conns[2], WIRE_OK);
	assert_true(c->conn.sq_used <= sq_share(&c->conn));
}

/*
 * A connection fails while what it has pulled is being appended: the others have the memory at
 * once, though its queue pair is not destroyed yet.
 */
static void fails_while_building(void **state)
{
	struct test_conn *c = &test_conns[0];
	uint64_t free_bytes;

	(void)state;
	put_value();
	free_bytes = memory_free_bytes(test_store.memory);
	assert_true(ask(c, WIRE_APPEND, more, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	while (!pull_of(c)->build.bytes)
		assert_true(test_turn());
	append_byte(&test_conns[1]);
	while (!test_tenant.build_budget.waits)
		assert_true(test_turn());
	c->conn.stopped = true;
	deferred_cancel(&c->conn);
	assert_int_equal(c->conn.pull_hold.bytes, 0);
	assert_true(memory_free_bytes(test_store.memory) >= free_bytes);
	build_all();
	assert_responded(&test_conns[1], WIRE_OK);
	test_conn_end(c);
}

/* Small enough that two of them are READ at once. */
#define SMALL_BYTES (MORE_BYTES / 2)

/* Puts large values under other keys, until there is no memory for another one. */
static void fill_memory(void)
{
	uint64_t other = 0;

	while (test_store_put(&test_store, &other, sizeof(other), value, VALUE_BYTES / 2, NULL) ==
	       WIRE_OK)
		other++;
	assert_true(other > 1);
}

/*
 * A pull that holds its part of the budget while room is made for it keeps a place for its
 * response: others take all places before its first piece, and it is done, though its own client
 * takes no responses.
 */
static void room_has_a_place(void **state)
{
	struct response_list responses = { .poller = test_poller };
	struct test_conn *c = &test_conns[0];

	(void)state;
	fill_memory();
	assert_false(send_pull(c, 0, key, WIRE_SET, value, VALUE_BYTES));
	assert_true(test_turn());
	assert_true(c->conn.pull_hold.bytes > 0);
	assert_true(room_pending(&pull_of(c)->room));
	while (sq_room(&c->conn)) {
		response_start(&responses, &c->conn, WIRE_PING, 1);
		responses_send(&responses);
	}
	c->responses = 0;
	for (unsigned int n = 0; !c->responses; n++) {
		assert_true(n < PIECES_MAX);
		assert_true(test_turn());
	}
	assert_responded(c, WIRE_NO_SPACE);
	assert_true(c->conn.sq_used <= sq_share(&c->conn));
	assert_int_equal(c->conn.pull_hold.bytes, 0);
}

/* A value that there was no space for has not arrived. */
static void without_space(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	fill_memory();
	assert_false(send_pull(c, 0, key, WIRE_SET, value, VALUE_BYTES));
	test_turns();
	assert_responded(c, WIRE_NO_SPACE);
	assert_false(c->conn.pull_arrived);
	assert_int_equal(command_counts_stats(&test_worker.commands).put_no_space, 1);
	assert_int_equal(command_counts_stats(&test_worker.commands).puts, 1);
	assert_int_equal(stat_read(&test_worker.stats.pulls), 0);
}

/* All memory is in small items, which others are evicted for: room is made in steps. */
static void fill_evictable(void)
{
	uint64_t other = 0;

	while (test_store_put(&test_store, &other, sizeof(other), value, 20000, NULL) == WIRE_OK)
		other++;
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	test_worker.part.thread.now_ns += LONG_NS; /* making room did not fail just now */
}

static uint64_t evacuating(void)
{
	struct memory_stats stats;

	memory_stats(test_store.memory, &stats);
	return stats.evacuating;
}

static void assert_nothing_closed(void)
{
	assert_int_equal(evacuating(), 0);
	test_store.table.eviction = EVICTION_NONE;
}

/* The value for which room was made is to arrive in its time, like any other. */
static void time_after_room(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	fill_evictable();
	assert_false(send_pull(c, 0, key, WIRE_SET, value, ROOM_BYTES));
	assert_true(test_turn());
	assert_true(room_pending(&pull_of(c)->room));
	test_turns();
	assert_int_equal(c->conn.pulls, 1);
	test_worker.limits.pull_ns = 0;
	usleep(1);
	pull_expire(&test_worker);
	assert_true(c->conn.stopped);
	test_conn_end(c);
	assert_nothing_closed();
}

/* A connection that ends while room is made for its value leaves nothing closed. */
static void ends_in_a_room(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	fill_evictable();
	assert_false(send_pull(c, 0, key, WIRE_SET, value, ROOM_BYTES));
	assert_true(test_turn());
	while (!evacuating())
		assert_true(room_step(&pull_of(c)->room) == ROOM_AGAIN);
	test_conn_end(c);
	assert_nothing_closed();
}

/*
 * A value for which room is made does not begin early, though there is memory by now when the next
 * one comes.
 */
static void not_early_in_a_room(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	budget_init(&test_tenant.pull_budget, REGION_BYTES);
	c->conn.pull_arrived = true;
	fill_evictable();
	assert_false(send_pull(c, 0, key, WIRE_SET, value, ROOM_BYTES));
	assert_true(test_turn());
	assert_true(room_pending(&pull_of(c)->room));
	for (uint64_t other = 0; other < 2000; other++)
		test_store_delete(&test_store, &other, sizeof(other));
	limbo_empty(&test_threads[0].limbo, &test_threads[0].cache);
	assert_false(send_pull(c, 1, "next", WIRE_SET, more, 1000));
	assert_int_equal(c->conn.pulls, 0);
	while (c->responses < 2)
		if (c->read_count)
			serve_read(c);
		else
			assert_true(test_turn());
	assert_int_equal(c->response.status, WIRE_OK);
	assert_stored(key, value, ROOM_BYTES);
	assert_nothing_closed();
}

/* Connections that end leave the budget to the others, whether they hold some or wait. */
static void builders_end(void **state)
{
	uint64_t free_bytes;

	(void)state;
	put_value();
	free_bytes = memory_free_bytes(test_store.memory);
	assert_true(ask(&test_conns[0], WIRE_APPEND, more, MORE_BYTES));
	while (test_conns[0].read_count)
		serve_read(&test_conns[0]);
	/* The others begin when it builds: otherwise its sum may take longer than their turns. */
	while (!pull_of(&test_conns[0])->build.bytes)
		assert_true(test_turn());
	append_byte(&test_conns[1]);
	append_byte(&test_conns[2]);
	while (test_tenant.build_budget.waits < TEST_CONNS - 1)
		assert_true(test_turn());
	assert_int_equal(builders(), 1);
	for (unsigned int i = 0; i < TEST_CONNS - 1; i++) {
		test_conn_end(&test_conns[i]);
	}
	assert_true(memory_free_bytes(test_store.memory) >= free_bytes);
	build_all();
	assert_responded(&test_conns[2], WIRE_OK);
}

/* A connection whose values have arrived before. */
static void prove(struct test_conn *c)
{
	assert_true(ask(c, WIRE_SET, more, 100));
	pull_through(c);
	assert_responded(c, WIRE_OK);
	c->responses = 0;
}

/* PULL-2: values of a connection are READ one after another, and take effect in their order. */
static void several_values(void **state)
{
	struct test_conn *c = &test_conns[0];
	unsigned int reads;

	(void)state;
	prove(c);
	for (uint32_t n = 0; n < TEST_WINDOW; n++)
		assert_true(send_pull(c, n, n % 2 ? "a" : "b", n / 2 ? WIRE_APPEND : WIRE_SET,
				      more + n, SMALL_BYTES));
	assert_int_equal(c->conn.pulls, TEST_WINDOW);
	/* Of two values, and no more before what has arrived is summed. */
	assert_int_equal(c->read_count, PULL_DEPTH);
	for (reads = 0; c->read_count; reads++)
		serve_read(c);
	assert_int_equal(reads, PULL_DEPTH);
	assert_int_equal(c->responses, 0);
	/* The second one has all arrived, and waits for the first one. */
	assert_true(TAILQ_NEXT(TAILQ_FIRST(&c->conn.deferred), entry)->reserved);
	while (!c->responses)
		assert_true(test_turn());
	assert_int_equal(c->response.id, 7);
	while (c->responses < TEST_WINDOW) {
		if (c->read_count)
			serve_read(c);
		else
			assert_true(test_turn());
	}
	for (uint32_t n = 0; n < TEST_WINDOW; n++) {
		assert_int_equal(c->ids[n + 1], 7 + n);
		assert_int_equal(test_recvs[recv_of(c, n)], 1 + !n);
	}
	memcpy(both, more, SMALL_BYTES);
	memcpy(both + SMALL_BYTES, more + 2, SMALL_BYTES);
	assert_stored("b", both, 2 * SMALL_BYTES);
	memcpy(both, more + 1, SMALL_BYTES);
	memcpy(both + SMALL_BYTES, more + 3, SMALL_BYTES);
	assert_stored("a", both, 2 * SMALL_BYTES);
	assert_int_equal(c->conn.pull_ahead, 0);
	assert_int_equal(c->conn.reads_bytes, 0);
}

/*
 * A value that can't begin early, since no memory is free, holds nothing of the budget until its
 * turn comes.
 */
static void no_memory_for_an_early_one(void **state)
{
	static void *blocks[4096];
	static size_t bytes[4096];
	struct mem_cache *cache = &test_worker.part.thread.cache;
	const struct budget *budget = &test_tenant.pull_budget;
	struct test_conn *c = &test_conns[0];
	size_t size = REGION_BYTES / 2;
	unsigned int count = 0;
	uint64_t held;

	(void)state;
	prove(c);
	assert_true(send_pull(c, 0, "a", WIRE_SET, more, SMALL_BYTES));
	held = c->conn.pull_hold.bytes;
	assert_int_equal(held, mem_class_bytes(item_bytes_for(2, SMALL_BYTES, 0)));
	while (size >= SMALL_BYTES / 2) {
		blocks[count] = mem_alloc(cache, size);
		bytes[count] = size;
		if (blocks[count])
			assert_true(++count < 4096);
		else
			size /= 2;
	}
	for (uint32_t n = 1; n < TEST_WINDOW; n++) {
		assert_false(send_pull(c, n, "b", WIRE_SET, more + n, SMALL_BYTES));
		assert_int_equal(c->conn.pull_hold.bytes, held);
		assert_int_equal(budget->all.passed, held);
		assert_int_equal(c->conn.pulls, 1);
		assert_int_equal(stat_read(&test_worker.pulls_count), 1);
	}
	while (count--)
		mem_free(cache, blocks[count], bytes[count]);
	while (c->responses < TEST_WINDOW) {
		if (c->read_count)
			serve_read(c);
		else
			assert_true(test_turn());
	}
	assert_int_equal(c->response.status, WIRE_OK);
	assert_stored("b", more + TEST_WINDOW - 1, SMALL_BYTES);
	assert_int_equal(c->conn.pull_hold.bytes, 0);
	assert_int_equal(budget->all.passed, 0);
	assert_int_equal(c->conn.pulls, 0);
}

/* Over RDMA the READs are longer while another value of the connection is outstanding. */
static void several_over_rdma(void **state)
{
	const uint32_t bytes = 3 * PULL_PIECE_BYTES_LONG + 5000;
	struct test_conn *c = &test_conns[0];
	uint32_t longest = 0;

	(void)state;
	prove(c);
	c->conn.poller->nic->dev->kind = DEVICE_RDMA;
	assert_true(send_pull(c, 0, "a", WIRE_SET, value, bytes));
	assert_int_equal(c->read_count, PULL_DEPTH);
	assert_int_equal(c->sges[PULL_DEPTH - 1].length, PULL_PIECE_BYTES);
	assert_true(send_pull(c, 1, "b", WIRE_SET, value + 1, bytes));
	while (c->responses < 2) {
		if (!c->read_count) {
			assert_true(test_turn());
			continue;
		}
		if (c->sges[0].length > longest)
			longest = c->sges[0].length;
		serve_read(c);
	}
	c->conn.poller->nic->dev->kind = DEVICE_SOFTNIC;
	assert_int_equal(longest, PULL_PIECE_BYTES_LONG);
	assert_stored("a", value, bytes);
	assert_stored("b", value + 1, bytes);
	assert_int_equal(c->conn.pull_ahead, 0);
	assert_int_equal(c->conn.reads_bytes, 0);
}

/*
 * Whether the device can READ without the client, is in memory that the client writes: what is said
 * at the first look counts. A pull that is not the first is READ as those before it.
 */
static void several_values_and_a_second_look(void **state)
{
	struct test_conn *c = &test_conns[0];
	struct deferred *second;

	(void)state;
	prove(c);
	assert_true(send_pull(c, 0, "b", WIRE_SET, more, SMALL_BYTES));
	test_now_bytes = UINT64_MAX;
	test_now_refusals = 1;
	assert_true(send_pull(c, 1, "a", WIRE_SET, more + 1, SMALL_BYTES));
	test_now_bytes = 0;
	second = TAILQ_NEXT(TAILQ_FIRST(&c->conn.deferred), entry);
	assert_true(second->pulls);
	assert_false(second->pull.now);
	while (c->responses < 2) {
		if (c->read_count)
			serve_read(c);
		else
			assert_true(test_turn());
	}
	assert_stored("b", more, SMALL_BYTES);
	assert_stored("a", more + 1, SMALL_BYTES);
}

/* A request that fits a message. True: it was executed at once. */
static bool send_small(struct test_conn *c, uint32_t n, enum wire_op op, const char *byte)
{
	const struct wire_request request = {
		.op = (uint8_t)op,
		.id = 7 + n,
		.key_len = sizeof(key),
		.value_len = byte ? 1 : 0,
	};
	uint8_t *message = test_recv(recv_of(c, n));
	size_t len = sizeof(request) + sizeof(key);

	memcpy(message, &request, sizeof(request));
	memcpy(message + sizeof(request), key, sizeof(key));
	if (byte)
		message[len++] = (uint8_t)*byte;
	return test_receive(c, recv_of(c, n), len);
}

/* A user's limit counts the request, the value that is READ, and the response. */
static void counted_once(void **state)
{
	const uint64_t message = sizeof(struct wire_request) + sizeof(key);
	struct test_conn *c = &test_conns[0];
	static struct test_limit limit;
	uint64_t at_begin;

	(void)state;
	/* A second has a byte: none comes meanwhile. */
	test_limit_set(&limit, &c->conn, 1, 1);
	assert_true(ask(c, WIRE_SET, more, MORE_BYTES));
	at_begin = test_limit_taken(&limit.account.bytes_full);
	pull_through(c);
	assert_responded(c, WIRE_OK);
	assert_int_equal(at_begin, message + MORE_BYTES);
	assert_int_equal(test_limit_taken(&limit.account.bytes_full),
			 message + MORE_BYTES + sizeof(c->response));
	assert_int_equal(test_limit_taken(&limit.account.requests_full), 1);
}

/* PULL-1: what follows a pull waits for it, and a pull that follows that is not READ before. */
static void order_is_kept(void **state)
{
	struct test_conn *c = &test_conns[0], *other = &test_conns[1];

	(void)state;
	prove(c);
	assert_true(send_pull(c, 0, key, WIRE_SET, value, MORE_BYTES));
	assert_false(send_small(c, 1, WIRE_PUT, "2"));
	assert_false(send_small(c, 2, WIRE_GET, NULL));
	assert_false(send_pull(c, 3, key, WIRE_APPEND, more, SMALL_BYTES));
	assert_int_equal(c->conn.pulls, 1);
	/* Others do not wait. */
	assert_true(send_small(other, 0, WIRE_PUT, "1"));
	while (c->conn.pulls_reading)
		serve_read(c);
	assert_int_equal(c->responses, 0);
	while (c->responses < 3)
		assert_true(test_turn());
	assert_int_equal(c->response.op, WIRE_GET);
	assert_int_equal(c->value_len, 1);
	assert_int_equal(c->value[0], '2');
	test_turns();
	assert_int_equal(c->conn.pulls, 1);
	pull_through(c);
	for (uint32_t n = 0; n < 4; n++)
		assert_int_equal(c->ids[n + 1], 7 + n);
	both[0] = '2';
	memcpy(both + 1, more, SMALL_BYTES);
	assert_value(both, 1 + SMALL_BYTES);
}

/* BUDGET-5: further values only of what nobody waits for, and up to a part of all. */
static void several_values_share(void **state)
{
	struct test_conn *c = &test_conns[0], *other = &test_conns[1];
	uint64_t bytes = mem_class_bytes(item_bytes_for(2, SMALL_BYTES, 0));

	(void)state;
	prove(c);
	budget_init(&test_tenant.pull_budget, 3 * BUDGET_MORE_PART * bytes);
	for (uint32_t n = 0; n < TEST_WINDOW; n++)
		assert_int_equal(send_pull(c, n, "a", WIRE_SET, more, SMALL_BYTES), n < 3);
	assert_int_equal(c->conn.pull_hold.bytes, 3 * bytes);
	/* Another one waits for all that is left and more. */
	assert_false(ask(other, WIRE_SET, value, (uint32_t)(10 * bytes)));
	assert_int_equal(test_tenant.pull_budget.waits, 1);
	while (c->responses < 3)
		if (c->read_count)
			serve_read(c);
		else
			assert_true(test_turn());
	/* The other had its turn when the memory of the first ones came back. */
	assert_int_equal(other->conn.pulls, 1);
	pull_through(other);
	assert_responded(other, WIRE_OK);
	test_turns();
	pull_through(c);
	assert_int_equal(c->responses, TEST_WINDOW);
	/* Alone, one more begins when one of the first ones has ended. */
	test_conn_complete(c);
	for (uint32_t n = 0; n < TEST_WINDOW; n++)
		assert_int_equal(send_pull(c, n, "a", WIRE_SET, more, SMALL_BYTES), n < 3);
	while (c->responses == TEST_WINDOW)
		if (c->read_count)
			serve_read(c);
		else
			assert_true(test_turn());
	assert_int_equal(c->conn.pulls, 3);
	test_turns();
	pull_through(c);
	assert_int_equal(c->responses, 2 * TEST_WINDOW);
}

/* Nothing is left of values that have arrived, of those that have not, and of those that wait. */
static void several_values_end(void **state)
{
	struct test_conn *c = &test_conns[0];
	uint64_t free_bytes;

	(void)state;
	prove(c);
	free_bytes = memory_free_bytes(test_store.memory);
	for (unsigned int served = 0; served < 7; served++) {
		test_conn_setup(c);
		c->conn.pull_arrived = true;
		snprintf(c->principal.name, sizeof(c->principal.name), "addr=10.0.0.%u", served);
		memset(test_recvs, 0, sizeof(test_recvs));
		for (uint32_t n = 0; n < 3; n++)
			assert_true(send_pull(c, n, "a", WIRE_SET, value, SMALL_BYTES));
		assert_false(send_small(c, 3, WIRE_GET, NULL));
		for (unsigned int n = 0; n < served; n++) {
			if (!c->read_count)
				assert_true(test_turn());
			serve_read(c);
		}
		/* READs may still write to what has not arrived: it is kept, with its receive. */
		c->conn.stopped = true;
		deferred_cancel(&c->conn);
		assert_int_equal(c->conn.deferred_count, c->conn.pulls_reading);
		assert_int_equal(c->conn.pulls, c->conn.pulls_reading);
		assert_int_equal(stat_read(&test_worker.pulls_count), c->conn.pulls);
		test_conn_end(c);
		for (uint32_t n = 0; n < TEST_WINDOW; n++)
			assert_int_equal(test_recvs[recv_of(c, n)], 1);
		assert_int_equal(late_principals_have(&test_late_principals,
						      c->conn.client.principal, clock_ns()),
				 served < 6);
		test_store_delete(&test_store, "a", 2);
		limbo_empty(&test_threads[0].limbo, &test_threads[0].cache);
		limbo_empty(&test_worker.part.thread.limbo, &test_worker.part.thread.cache);
		assert_int_equal(memory_free_bytes(test_store.memory), free_bytes);
	}
}

/* The client has its time for each value, and none passes while the worker is late with one. */
static void several_values_in_time(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	prove(c);
	test_worker.limits.pull_ns = 0;
	for (uint32_t n = 0; n < 3; n++)
		assert_true(send_pull(c, n, "a", WIRE_SET, value, SMALL_BYTES));
	c->conn.pull_since_ns = 1;
	serve_read(c);
	assert_int_equal(c->conn.pull_since_ns, 1);
	serve_read(c);
	assert_true(c->conn.pull_since_ns > 1);
	while (c->conn.pulls_reading > 1)
		serve_read(c);
	usleep(1);
	pull_expire(&test_worker);
	assert_false(c->conn.stopped);
	test_turns();
	assert_int_equal(c->responses, 2);
	usleep(1);
	pull_expire(&test_worker);
	assert_true(c->conn.stopped);
	assert_int_equal(stat_read(&test_worker.stats.pulls_stalled), 1);
	test_conn_end(c);
}

/* The time of the next value begins when the one before it is done, not when that has arrived. */
static void time_behind_the_sum(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	prove(c);
	assert_true(send_pull(c, 0, "a", WIRE_SET, value, SMALL_BYTES));
	assert_true(send_pull(c, 1, "a", WIRE_SET, value, MORE_BYTES));
	while (c->conn.pulls_reading > 1)
		serve_read(c);
	assert_int_equal(c->responses, 0);
	c->conn.pull_since_ns = c->conn.progress_ns = 1;
	while (!c->responses)
		assert_true(test_turn());
	assert_true(c->conn.pull_since_ns > 1);
	assert_true(c->conn.progress_ns > 1);
	test_turns();
	pull_through(c);
	assert_int_equal(c->responses, 2);
}

/* PULL-3: nothing of a value begins early that is refused when its turn comes. */
static void refused_behind_another(void **state)
{
	static const enum wire_status expected[] = { WIRE_TOO_LARGE, WIRE_INVALID };
	const struct wire_request pinned = { .flags = WIRE_F_PIN, .pin = 2 };
	struct test_conn *c = &test_conns[0];
	uint64_t bytes = mem_class_bytes(item_bytes_for(2, SMALL_BYTES, 0));

	(void)state;
	test_store.table.pin_time_max = 1;
	prove(c);
	for (unsigned int i = 0; i < 2; i++) {
		test_conn_complete(c);
		c->responses = 0;
		test_store.region.geometry.value_max = SMALL_BYTES;
		assert_true(send_pull(c, 0, "a", WIRE_SET, more, SMALL_BYTES));
		if (expected[i] == WIRE_TOO_LARGE)
			assert_false(send_pull(c, 1, "b", WIRE_SET, more, SMALL_BYTES + 1));
		else
			assert_false(send_pull_as(c, 1, "b", pinned, more, SMALL_BYTES));
		assert_int_equal(c->conn.pull_hold.bytes, bytes);
		pull_through(c);
		assert_int_equal(c->responses, 2);
		assert_int_equal(c->response.status, expected[i]);
		assert_int_equal(c->response.id, 8);
	}
	assert_int_equal(command_counts_stats(&test_worker.commands).put_too_large, 1);
}

/* BUDGET-4: nor does one whose peer is late by then. */
static void late_behind_another(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	prove(c);
	test_conn_principal(c, "addr=10.0.0.1");
	assert_true(send_pull(c, 0, "a", WIRE_SET, more, SMALL_BYTES));
	late_principals_add(&test_late_principals, c->conn.client.principal, clock_ns() + LONG_NS);
	assert_false(send_pull(c, 1, "b", WIRE_SET, more, SMALL_BYTES));
	pull_through(c);
	assert_int_equal(c->responses, 2);
	assert_int_equal(c->response.status, WIRE_OK);
	assert_int_equal(stat_read(&test_worker.stats.pulls_late), 1);
}

/*
 * What can't be stored is refused at once, of a client that has served no READ, too: nothing is
 * READ or probed. As with any request, its access records count.
 */
static void refused_at_once(void **state)
{
	const struct wire_request plain = { .access_count = 2 },
				  pinned = { .flags = WIRE_F_PIN, .pin = 2, .access_count = 2 };
	struct test_conn *c = &test_conns[0];

	(void)state;
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	test_store.table.pin_time_max = 1;
	test_store.region.geometry.value_max = SMALL_BYTES;
	c->conn.probes_answered = 0;
	assert_false(send_pull_as(c, 0, "a", plain, more, SMALL_BYTES + 1));
	test_turns();
	assert_responded(c, WIRE_TOO_LARGE);
	assert_int_equal(command_counts_stats(&test_worker.commands).put_too_large, 1);
	assert_int_equal(command_counts_stats(&test_worker.commands).puts, 1);
	assert_int_equal(stat_read(&test_worker.stats.pulls), 0);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.accesses), 2);
	assert_int_equal(c->probe, 0);
	test_conn_complete(c);
	c->responses = 0;
	c->conn.probes_answered = 1;
	send_pull_as(c, 0, "a", pinned, more, SMALL_BYTES);
	test_turns();
	assert_responded(c, WIRE_INVALID);
	assert_int_equal(c->read_count, 0);
	assert_int_equal(test_tenant.pull_budget.all.passed, 0);
	test_store.table.eviction = EVICTION_NONE;
}

/* The longest value is READ, and access records count. */
static void longest_value(void **state)
{
	const struct wire_request put = { .access_count = 2 };
	struct test_conn *c = &test_conns[0];

	(void)state;
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	test_store.region.geometry.value_max = SMALL_BYTES;
	send_pull_as(c, 0, key, put, more + 1, SMALL_BYTES);
	test_turns();
	assert_int_equal(c->conn.pulls, 1);
	pull_through(c);
	assert_responded(c, WIRE_OK);
	assert_value(more + 1, SMALL_BYTES);
	assert_int_equal(command_counts_stats(&test_worker.commands).puts, 1);
	assert_int_equal(stat_read(&test_worker.stats.pulls), 1);
	assert_int_equal(stat_read(&test_worker.stats.pull_bytes), SMALL_BYTES);
	assert_int_equal(command_counts_stats(&test_worker.commands).put_too_large, 0);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.accesses), 2);
	test_store.table.eviction = EVICTION_NONE;
}

/* A connection that waits is counted once, however often it is woken. */
static void waits_are_counted(void **state)
{
	struct test_conn *first = &test_conns[0], *waits = &test_conns[1];

	(void)state;
	budget_init(&test_tenant.pull_budget, ITEM_BYTES(MORE_BYTES));
	assert_true(ask(first, WIRE_SET, more, MORE_BYTES));
	assert_int_equal(stat_read(&test_worker.stats.pulls_waited), 0);
	assert_false(ask(waits, WIRE_SET, more, MORE_BYTES));
	deferred_wake(&waits->conn);
	test_turns();
	assert_int_equal(stat_read(&test_worker.stats.pulls_waited), 1);
	/* One that fails while it waits is out of the way before its queue pair is destroyed. */
	waits->conn.stopped = true;
	deferred_cancel(&waits->conn);
	assert_int_equal(test_tenant.pull_budget.waits, 0);
	test_conn_end(waits);
	pull_through(first);
	assert_responded(first, WIRE_OK);
}

/* PULL-5: the append itself takes steps when all of the value is there. */
static void now_appends_in_pieces(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	put_value();
	test_now_bytes = UINT64_MAX;
	assert_true(ask(c, WIRE_APPEND, more, MORE_BYTES));
	assert_true(test_turns() >= PIECES_MIN);
	assert_responded(c, WIRE_OK);
	assert_int_equal(c->read_count, 0);
	memcpy(both, value, VALUE_BYTES);
	memcpy(both + VALUE_BYTES, more, MORE_BYTES);
	assert_value(both, VALUE_BYTES + MORE_BYTES);
}

/* What arrives is summed though the client takes no responses: the sum needs no place for one. */
static void sums_without_room(void **state)
{
	struct response_list responses = { .poller = test_poller };
	struct test_conn *c = &test_conns[0];

	(void)state;
	assert_true(ask(c, WIRE_SET, value, 2 * MORE_BYTES));
	serve_read(c);
	while (sq_room(&c->conn)) {
		response_start(&responses, &c->conn, WIRE_PING, 1);
		responses_send(&responses);
	}
	test_turns();
	assert_int_equal(pull_of(c)->summed, PULL_PIECE_BYTES);
	/* But no further READ is posted. */
	assert_int_equal(c->read_count, PULL_DEPTH - 1);
	assert_false(sq_room(&c->conn));
	/* The client takes the responses: what is left are READs. */
	sq_put(&c->conn, c->conn.sq_used - c->read_count);
	c->conn.sq_unsignaled = 0;
	c->responses = 0;
	deferred_wake(&c->conn);
	pull_through(c);
	assert_responded(c, WIRE_OK);
}

/* A READ that completes when the connection has failed is not followed by others. */
static void read_completes_after_failure(void **state)
{
	struct response_list responses = { .poller = test_poller };
	struct test_conn *c = &test_conns[0];

	(void)state;
	assert_true(ask(c, WIRE_SET, value, 2 * MORE_BYTES));
	serve_read(c);
	while (sq_room(&c->conn)) {
		response_start(&responses, &c->conn, WIRE_PING, 1);
		responses_send(&responses);
	}
	test_turns();
	assert_int_equal(c->read_count, PULL_DEPTH - 1);
	/* Now there is a place, and it is due. */
	c->conn.stopped = true;
	pull_done(&c->conn, c->reads[0].wr_id);
	assert_int_equal(c->read_count, PULL_DEPTH - 1);
	test_conn_end(c);
}

/*
 * What the device is asked for: memory that both sides have registered, in no longer messages than
 * it takes; and each READ completes what was posted before it.
 */
static void work_requests(void **state)
{
	const struct wire_request put = { .pull_rkey = 78 };
	struct response_list responses = { .poller = test_poller };
	struct test_conn *c = &test_conns[0];
	const struct ibv_send_wr *wr;

	(void)state;
	c->conn.serial = 79;
	test_tenant_mr.lkey = 77;
	test_poller->nic->port.max_msg_sz = 1000;
	response_start(&responses, &c->conn, WIRE_PING, 1);
	responses_send(&responses);
	c->responses = 0;
	send_pull_as(c, 0, key, put, more, PULL_DEPTH * 1000 + 1);
	test_turns();
	assert_int_equal(c->read_count, PULL_DEPTH);
	for (unsigned int i = 0; i < PULL_DEPTH; i++) {
		wr = &c->reads[i];
		assert_int_equal(wr->send_flags, IBV_SEND_SIGNALED);
		assert_int_equal(wr->wr.rdma.rkey, 78);
		assert_int_equal(c->sges[i].lkey, 77);
		assert_int_equal(c->sges[i].length, 1000);
		assert_int_equal(wr_id_serial(wr->wr_id), 79);
		assert_int_equal(wr_id_covers(wr->wr_id), 1 + !i);
	}
	pull_through(c);
	assert_responded(c, WIRE_OK);
	assert_value(more, PULL_DEPTH * 1000 + 1);
	assert_int_equal(c->conn.sq_used, 1);
	test_tenant_mr.lkey = 0;
}

/* A further value that begins early gives the client no more time for the first one. */
static void time_of_the_first_value(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	prove(c);
	assert_true(send_pull(c, 0, "a", WIRE_SET, value, SMALL_BYTES));
	c->conn.pull_since_ns = c->conn.progress_ns = 1;
	assert_true(send_pull(c, 1, "b", WIRE_SET, value, SMALL_BYTES));
	assert_int_equal(c->conn.pull_since_ns, 1);
	assert_int_equal(c->conn.progress_ns, 1);
	pull_through(c);
	assert_int_equal(c->responses, 2);
}

/* A client that has served all READs does not stand still, whatever the append waits for. */
static void appends_for_long(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	put_value();
	assert_true(ask(c, WIRE_APPEND, more, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	while (pull_of(c)->steps.kind != LARGE_APPEND)
		assert_true(test_turn());
	stall_time_passes();
	assert_false(c->conn.stopped);
	test_turns();
	assert_responded(c, WIRE_OK);
}

/*
 * BUDGET-4: nor is a peer late that has served READs at last, since it did not fill its memory
 * before.
 */
static void now_arrived_at_last(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	test_conn_principal(c, "addr=10.0.0.1");
	test_now_bytes = UINT64_MAX;
	test_now_busy = c;
	assert_true(ask(c, WIRE_SET, value, SMALL_BYTES));
	test_turns();
	answer_probe(c);
	while (c->conn.pulls_reading)
		serve_read(c);
	test_conn_end(c);
	assert_false(
		late_principals_have(&test_late_principals, c->conn.client.principal, clock_ns()));
}

/* A client that serves none of these READs has no more time than others. */
static void now_is_read_in_time(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	ask_late(c);
	answer_probe(c);
	assert_true(c->read_count);
	test_worker.limits.pull_ns = 0;
	usleep(1);
	pull_expire(&test_worker);
	assert_true(c->conn.stopped);
	assert_int_equal(stat_read(&test_worker.stats.pulls_stalled), 1);
	test_conn_end(c);
}

/* PULL-6: one that filled some in its time has all of it again for the next part. */
static void now_late_after_a_look(void **state)
{
	struct test_conn *c = &test_conns[0];

	(void)state;
	ask_late(c);
	stall_time_passes();
	assert_true(pull_of(c)->looks);
	fill_some(c);
	assert_false(c->conn.stopped);
	assert_true(pull_of(c)->awaits);
	test_now_busy = NULL;
	answer_probe(c);
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(sums_in_pieces),
		CASE(now_in_pieces),
		CASE(now_no_more),
		CASE(now_in_order),
		CASE(now_ends_before_another),
		CASE(now_connection_ends),
		CASE(now_has_a_place),
		CASE(now_waits_for_a_client),
		CASE(now_waits_for_a_probe),
		CASE(now_goes_on),
		CASE(now_never_there),
		CASE(now_late_often),
		CASE(now_looks_once_more),
		CASE(now_done_when_probed),
		CASE(now_answered_in_time),
		CASE(now_stands_still),
		CASE(reads_wait_for_the_sum),
		CASE(appends_in_pieces),
		CASE(response_has_a_place),
		CASE(connection_ends),
		CASE(stands_still),
		CASE(one_of_two_stands_still),
		CASE(time_of_the_next_value),
		CASE(answers_and_stands_still),
		CASE(read_is_not_posted),
		CASE(ended_otherwise),
		CASE(arrived),
		CASE(late_ones_share),
		CASE(ends_while_room_is_made),
		cmocka_unit_test(late_ones),
		CASE(appends_wait_for_memory),
		CASE(requests_wait_for_memory),
		CASE(appends_are_counted),
		CASE(appends_share),
		CASE(no_room_while_building),
		CASE(room_has_a_place),
		CASE(without_space),
		cmocka_unit_test_setup_teardown(time_after_room, setup_small, teardown),
		cmocka_unit_test_setup_teardown(ends_in_a_room, setup_small, teardown),
		cmocka_unit_test_setup_teardown(not_early_in_a_room, setup_small, teardown),
		CASE(fails_while_building),
		CASE(builders_end),
		CASE(probed_first),
		CASE(probe_is_not_answered),
		CASE(several_values),
		CASE(no_memory_for_an_early_one),
		CASE(several_over_rdma),
		CASE(several_values_and_a_second_look),
		CASE(counted_once),
		CASE(order_is_kept),
		CASE(several_values_share),
		CASE(several_values_end),
		CASE(several_values_in_time),
		CASE(time_behind_the_sum),
		CASE(refused_behind_another),
		CASE(late_behind_another),
		CASE(refused_at_once),
		CASE(longest_value),
		CASE(waits_are_counted),
		CASE(now_appends_in_pieces),
		CASE(sums_without_room),
		CASE(read_completes_after_failure),
		CASE(work_requests),
		CASE(time_of_the_first_value),
		CASE(appends_for_long),
		CASE(now_arrived_at_last),
		CASE(now_is_read_in_time),
		CASE(now_late_after_a_look),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
