/* SPDX-License-Identifier: MIT */
/*
 * Tests of the worker's half of STATS, CLIENTS and KILL: what is asked of the control thread, what
 * the responses say, and what memory a connection holds for them meanwhile and afterwards. The test
 * answers in place of the control thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/stat.h"
#include "server/worker/deferred.h"
#include "server/worker/query.h"
#include "server/worker/snapshot.h"
#include "tests/support/store_fixture.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (8u << 20)
#define VALUE_MAX_BYTES (1u << 20)
#define LINES 1500u /* several pages */
#define PAGES_MAX 100u

static char whole[LINES * 16], found[LINES * 16];
static uint32_t whole_bytes;
static struct worker_env env;
static struct test_conn *const c = &test_conns[0];

static uint32_t print(const struct stats_source *source, const struct tenant *tenant,
		      const struct principal *viewer, char *text, uint32_t size)
{
	(void)source;
	(void)tenant;
	(void)viewer;
	memcpy(text, whole, whole_bytes < size ? whole_bytes : size);
	return whole_bytes;
}

static int setup(void **state)
{
	(void)state;
	test_worker_create(REGION_BYTES, VALUE_MAX_BYTES);
	env = *test_worker.env;
	env.stats_print = print;
	whole_bytes = 0;
	for (unsigned int i = 0; i < LINES; i++)
		whole_bytes += (uint32_t)sprintf(whole + whole_bytes, "line %u\n", i);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	/* As conn_destroy() */
	free(c->conn.query.text);
	snapshot_drop(c->conn.query.stats);
	test_worker_destroy();
	return 0;
}

/* The request arrives, and runs until it waits or has its response. */
static void ask(enum wire_op op, uint32_t first_line, uint64_t arg)
{
	const struct wire_request request = {
		.op = (uint8_t)op, .id = 3, .first_line = first_line, .arg64 = arg
	};

	test_conn_complete(c);
	memcpy(test_recv(0), &request, sizeof(request));
	test_receive(c, 0, sizeof(request));
	test_turns();
}

/* The control thread has been asked, once, for that. */
static void assert_asked(enum wire_op op, uint64_t arg)
{
	struct note *note = mailbox_take(env.control);

	assert_non_null(note);
	assert_null(note->next);
	assert_int_equal(note->kind, NOTE_QUERY);
	assert_ptr_equal(note->conn, &c->conn);
	assert_int_equal(c->conn.query.op, op);
	assert_int_equal(c->conn.query.arg, arg);
	assert_false(c->conn.query.answered);
}

static void answered(void)
{
	query_answered(&c->conn);
	test_turns();
}

/* All pages but the first: they need no answer, and the last one ends the snapshot. */
static uint32_t rest_of_pages(uint32_t used)
{
	unsigned int pages = 1;

	while (c->response.next_line) {
		assert_non_null(c->conn.query.stats);
		ask(WIRE_STATS, c->response.next_line, 0);
		assert_null(mailbox_take(env.control));
		assert_int_equal(c->response.status, WIRE_OK);
		memcpy(found + used, c->value, c->value_len);
		used += c->value_len;
		assert_true(++pages < PAGES_MAX);
	}
	assert_true(pages > 2);
	assert_null(c->conn.query.stats);
	return used;
}

static void first_page(void)
{
	unsigned int responses = c->responses;

	ask(WIRE_STATS, 0, 0);
	assert_asked(WIRE_STATS, 0);
	/* The query may be woken for another reason, and goes on waiting. */
	deferred_wake(&c->conn);
	test_turns();
	assert_int_equal(c->responses, responses);
	c->conn.query.stats = snapshot_make(&env, NULL, NULL);
	answered();
	assert_int_equal(c->responses, responses + 1);
	assert_int_equal(c->response.status, WIRE_OK);
	memcpy(found, c->value, c->value_len);
}

static void stats_in_pages(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		memset(found, 0, sizeof(found));
		first_page();
		assert_int_equal(rest_of_pages(c->value_len), whole_bytes);
		assert_memory_equal(found, whole, whole_bytes);
	}
}

/* A client that begins anew gets a new snapshot, and the old one is gone. */
static void stats_begun_anew(void **state)
{
	struct snapshot *first;

	(void)state;
	first_page();
	first = snapshot_share(c->conn.query.stats);
	assert_int_equal(atomic_load(&first->references), 2);
	ask(WIRE_STATS, 0, 0);
	assert_asked(WIRE_STATS, 0);
	assert_null(c->conn.query.stats);
	assert_int_equal(atomic_load(&first->references), 1);
	snapshot_drop(first);
	c->conn.query.stats = snapshot_make(&env, NULL, NULL);
	answered();
	assert_int_equal(rest_of_pages(c->value_len), whole_bytes);
	/* A page of one that is gone is of a new one, too. */
	ask(WIRE_STATS, LINES - 1, 0);
	assert_asked(WIRE_STATS, 0);
	c->conn.query.stats = snapshot_make(&env, NULL, NULL);
	answered();
	assert_int_equal(c->value_len, strlen("line 1499\n"));
	assert_memory_equal(c->value, "line 1499\n", c->value_len);
	assert_null(c->conn.query.stats);
}

/* Without memory for a snapshot. */
static void no_stats(void **state)
{
	(void)state;
	ask(WIRE_STATS, 0, 0);
	assert_asked(WIRE_STATS, 0);
	answered();
	assert_int_equal(c->response.status, WIRE_BUSY);
	assert_int_equal(c->value_len, 0);
	assert_int_equal(c->conn.buffers, 0);
}

/* The text for CLIENTS and KILL is made once, as long as a response may be. */
static void one_text(void **state)
{
	const char *text;

	(void)state;
	assert_null(c->conn.query.text);
	ask(WIRE_CLIENTS, 0, 17);
	assert_asked(WIRE_CLIENTS, 17);
	text = c->conn.query.text;
	assert_int_equal(c->conn.query.size, TEST_BUFFER_BYTES - sizeof(struct wire_response));
	for (unsigned int i = 0; i < 3; i++) {
		memset(c->conn.query.text, 'a' + (int)i, 100);
		c->conn.query.len = i ? 100 : c->conn.query.size;
		c->conn.query.cursor = 5 + i;
		c->conn.query.status = WIRE_OK;
		answered();
		assert_int_equal(c->responses, i + 1);
		assert_int_equal(c->response.status, WIRE_OK);
		assert_int_equal(c->response.cursor, 5 + i);
		assert_int_equal(c->value_len, i ? 100 : c->conn.query.size);
		assert_int_equal(c->value[99], 'a' + i);
		ask(WIRE_CLIENTS, 0, i);
		assert_asked(WIRE_CLIENTS, i);
		assert_ptr_equal(c->conn.query.text, text);
	}
	/* None of the connections that it looked at is left; others are. */
	c->conn.query.len = 0;
	answered();
	assert_int_equal(c->response.status, WIRE_OK);
	assert_int_equal(c->response.cursor, 7);
	assert_int_equal(c->value_len, 0);
	ask(WIRE_CLIENTS, 0, 7);
	assert_asked(WIRE_CLIENTS, 7);
	c->conn.query.status = WIRE_NOT_FOUND;
	answered();
	assert_int_equal(c->response.status, WIRE_NOT_FOUND);
	assert_int_equal(c->value_len, 0);
	ask(WIRE_KILL, 0, 1ull << 40);
	assert_asked(WIRE_KILL, 1ull << 40);
	assert_ptr_equal(c->conn.query.text, text);
	c->conn.query.status = WIRE_OK;
	c->conn.query.len = 0;
	answered();
	assert_int_equal(c->response.op, WIRE_KILL);
	assert_int_equal(c->response.status, WIRE_OK);
	assert_int_equal(c->response.cursor, 0);
	assert_int_equal(c->value_len, 0);
}

/* The clients meant are copied: the receive may hold another message by the time it is read. */
static void revokes(void **state)
{
	struct wire_request request = { .op = WIRE_REVOKE, .id = 3, .key_len = 6 };

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		memcpy(test_recv(1), &request, sizeof(request));
		memcpy(test_recv(1) + sizeof(request), "uid=77", 6);
		assert_false(test_receive(c, 1, sizeof(request) + 6));
		test_turns();
		assert_asked(WIRE_REVOKE, 0);
		memset(test_recv(1), 'x', sizeof(request) + 6);
		assert_int_equal(c->conn.query.len, 6);
		assert_memory_equal(c->conn.query.text, "uid=77", 6);
		c->conn.query.len = 0;
		c->conn.query.closed = 5 + i;
		c->conn.query.status = i == 0 ? WIRE_OK : i == 1 ? WIRE_BUSY : WIRE_NOT_FOUND;
		answered();
		assert_int_equal(c->response.op, WIRE_REVOKE);
		assert_int_equal(c->response.status, c->conn.query.status);
		assert_int_equal(c->response.result, 5 + i);
		assert_int_equal(c->value_len, 0);
	}
}

/* The options to set are copied, likewise; a refusal has its reason, and a list its cursor. */
static void configures(void **state)
{
	struct wire_request request = {
		.op = WIRE_CONFIG, .mode = WIRE_CONFIG_SET, .id = 3, .key_len = 14
	};

	(void)state;
	memcpy(test_recv(1), &request, sizeof(request));
	memcpy(test_recv(1) + sizeof(request), "log.level=info", 14);
	assert_false(test_receive(c, 1, sizeof(request) + 14));
	test_turns();
	assert_asked(WIRE_CONFIG, 0);
	memset(test_recv(1), 'x', sizeof(request) + 14);
	assert_int_equal(c->conn.query.mode, WIRE_CONFIG_SET);
	assert_int_equal(c->conn.query.len, 14);
	assert_memory_equal(c->conn.query.text, "log.level=info", 14);
	memcpy(c->conn.query.text, "why", 3);
	c->conn.query.len = 3;
	c->conn.query.cursor = 9;
	c->conn.query.status = WIRE_INVALID;
	answered();
	assert_int_equal(c->response.op, WIRE_CONFIG);
	assert_int_equal(c->response.status, WIRE_INVALID);
	assert_int_equal(c->response.cursor, 9);
	assert_int_equal(c->value_len, 3);
	/* Without a key there is nothing to copy. */
	ask(WIRE_CONFIG, 0, 77);
	assert_asked(WIRE_CONFIG, 77);
	assert_int_equal(c->conn.query.len, 0);
	assert_int_equal(c->conn.query.mode, WIRE_CONFIG_GET);
	c->conn.query.status = WIRE_OK;
	answered();
	assert_int_equal(c->response.status, WIRE_OK);
}

/* What is held when the statistics are asked for is in them. */
static void shows_what_is_held(void **state)
{
	(void)state;
	test_worker.pulls_count = 3;
	ask(WIRE_STATS, 0, 0);
	assert_asked(WIRE_STATS, 0);
	assert_int_equal(stat_read(&test_worker.held.pulls), 3);
	test_worker.pulls_count = 0;
	answered();
}

/* A message with an access record. */
static void as_other_requests(void **state)
{
	static const enum wire_op ops[] = { WIRE_STATS, WIRE_CLIENTS, WIRE_KILL };
	struct wire_request request;
	uint64_t hash = table_hash(&test_store.table, "k", 1), accesses;

	(void)state;
	test_store.table.eviction = EVICTION_OBJECT_HITS;
	for (unsigned int i = 0; i < 3; i++) {
		accesses = stat_read(&test_worker.part.thread.stats.accesses);
		request = (struct wire_request){ .op = (uint8_t)ops[i], .access_count = 1 };
		memcpy(test_recv(0), &request, sizeof(request));
		memcpy(test_recv(0) + sizeof(request), &hash, sizeof(hash));
		assert_false(test_receive(c, 0, sizeof(request) + sizeof(hash)));
		test_turns();
		assert_asked(ops[i], 0);
		c->conn.query.status = WIRE_OK;
		c->conn.query.len = 0;
		answered();
		assert_int_equal(c->response.op, ops[i]);
		assert_int_equal(stat_read(&test_worker.part.thread.stats.accesses), accesses + 1);
		test_conn_complete(c);
	}
	test_store.table.eviction = EVICTION_NONE;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(stats_in_pages),	 CASE(stats_begun_anew), CASE(no_stats),
		CASE(one_text),		 CASE(revokes),		 CASE(configures),
		CASE(as_other_requests), CASE(one_text),	 CASE(shows_what_is_held),
		CASE(as_other_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
