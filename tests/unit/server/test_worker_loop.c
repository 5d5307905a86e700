/* SPDX-License-Identifier: MIT */
/*
 * Tests of what the worker's loop does with its work: what becomes of each receive in a batch of
 * completions, whatever happens to its connection meanwhile; flushes, windows and notes.
 */
#include "tests/support/limit_fixture.h"
#include "tests/support/worker_loop_test.h"

#define LONG_VALUE 8000u /* does not fit a response */

static uint8_t value[LONG_VALUE];

static uint64_t failed(void)
{
	return stat_read(&test_worker.stats.connections_failed);
}

/* A request stops its connection: later ones are not executed, but their receives go back. */
static void stops_within_a_batch(void **state)
{
	struct test_conn *a = &test_conns[0], *b = &test_conns[1];

	(void)state;
	ADD(a, 0, NULL, .op = WIRE_PING, .id = 1);
	/* The client has no identity. */
	ADD(a, 1, "k", .op = WIRE_DELETE, .id = 2, .change = 1);
	ADD(b, 2, NULL, .op = WIRE_PING, .id = 3);
	ADD(a, 3, NULL, .op = WIRE_PING, .id = 4);
	assert_int_equal(poller_poll(test_poller), ACTIVITY_AWAITED);
	assert_true(a->conn.stopped);
	assert_int_equal(failed(), 1);
	assert_posted(4);
	/* Not even what was executed before is answered. */
	assert_int_equal(a->responses, 0);
	assert_int_equal(a->conn.sq_used, 0);
	assert_int_equal(a->conn.batch_requests, 0);
	assert_int_equal(b->responses, 1);
	assert_int_equal(b->response.id, 3);
	assert_false(b->conn.stopped);
	assert_int_equal(stat_read(&test_worker.stats.requests), 4);
	/* What comes later is dropped. */
	ADD(a, 4, NULL, .op = WIRE_PING, .id = 5);
	poller_poll(test_poller);
	assert_posted(5);
	assert_int_equal(stat_read(&test_worker.stats.requests), 4);
	assert_int_equal(failed(), 1);
}

/* What is not executed ends its connection if that is to blame, and its receive goes back. */
static void drops(void **state)
{
	struct test_conn *a = &test_conns[0], *b = &test_conns[1], *c = &test_conns[2];
	struct ibv_wc *wc;

	(void)state;
	/* Of a queue pair that is no connection's. */
	ADD(a, 0, NULL, .op = WIRE_PING)->qp_num = 7;
	/* Flushed: somebody else knows why. */
	wc = ADD(a, 1, NULL, .op = WIRE_PING);
	wc->status = IBV_WC_WR_FLUSH_ERR;
	wc->byte_len = 12345;
	ADD(c, 2, NULL, .op = WIRE_PING, .id = 8);
	assert_int_equal(poller_poll(test_poller), ACTIVITY_AWAITED);
	assert_posted(3);
	assert_int_equal(failed(), 0);
	assert_int_equal(a->conn.client.requests, 0);
	assert_int_equal(a->conn.client.received_bytes, 0);
	assert_int_equal(c->responses, 1);
	/* Too short to be a request. */
	ADD(a, 3, NULL, .op = WIRE_PING)->byte_len = 3;
	/* A failed receive. */
	ADD(b, 4, NULL, .op = WIRE_PING)->status = IBV_WC_LOC_LEN_ERR;
	assert_int_equal(poller_poll(test_poller), ACTIVITY_UNAWAITED);
	assert_posted(5);
	assert_true(a->conn.stopped);
	assert_true(b->conn.stopped);
	assert_false(c->conn.stopped);
	assert_int_equal(failed(), 2);
	assert_int_equal(stat_read(&test_worker.stats.protocol_errors), 1);
	assert_int_equal(a->conn.client.requests, 1);
	assert_int_equal(b->conn.client.requests, 0);
	assert_int_equal(a->responses + b->responses, 0);
}

/* As many requests in a batch as the window allows are executed; one more ends the connection. */
static void window_in_a_batch(void **state)
{
	struct test_conn *a = &test_conns[0], *b = &test_conns[1];
	uint32_t recv = 0;

	(void)state;
	for (uint32_t i = 0; i < TEST_WINDOW; i++, recv++)
		ADD(a, recv, NULL, .op = WIRE_PING, .id = recv);
	for (uint32_t i = 0; i <= TEST_WINDOW; i++, recv++)
		ADD(b, recv, NULL, .op = WIRE_PING, .id = recv);
	poller_poll(test_poller);
	assert_posted(recv);
	assert_int_equal(a->responses, TEST_WINDOW);
	assert_false(a->conn.stopped);
	assert_true(b->conn.stopped);
	assert_int_equal(b->responses, 0);
	assert_int_equal(b->conn.sq_used, 0);
	assert_int_equal(stat_read(&test_worker.stats.protocol_errors), 1);
	test_conn_complete(a);
	/* The next batch counts anew. */
	memset(test_recvs, 0, sizeof(test_recvs));
	for (recv = 0; recv < TEST_WINDOW; recv++)
		ADD(a, recv, NULL, .op = WIRE_PING, .id = recv);
	poller_poll(test_poller);
	assert_posted(recv);
	assert_int_equal(a->responses, 2 * TEST_WINDOW);
	assert_false(a->conn.stopped);
}

/* Completions of an older connection with the same number are not this one's. */
static void older_completions(void **state)
{
	struct test_conn *a = &test_conns[0];

	(void)state;
	ADD(a, 0, "k", .op = WIRE_GET, .id = 1);
	poller_poll(test_poller);
	assert_int_equal(a->conn.sq_used, 1);
	add_completion(a, wr_id_make(WR_RESPONSE, 1, a->conn.serial + 1, BUFFER_NONE));
	add_completion(a, wr_id_make(WR_RESPONSE, 1, a->conn.serial + 1, BUFFER_NONE))->status =
		IBV_WC_RETRY_EXC_ERR;
	poller_poll(test_poller);
	assert_int_equal(a->conn.sq_used, 1);
	assert_false(a->conn.stopped);
	add_completion(a, wr_id_make(WR_RESPONSE, 1, a->conn.serial, BUFFER_NONE));
	poller_poll(test_poller);
	assert_int_equal(a->conn.sq_used, 0);
	add_completion(a, wr_id_make(WR_RESPONSE, 1, a->conn.serial, BUFFER_NONE))->status =
		IBV_WC_RETRY_EXC_ERR;
	poller_poll(test_poller);
	assert_true(a->conn.stopped);
	assert_int_equal(failed(), 1);
}

/* Each operation is counted by its kind, and by what became of it. */
static void operations_are_counted(void **state)
{
	static const struct {
		struct wire_request request;
		const char *key;
	} asked[] = {
		{ { .op = WIRE_PUT, .mode = WIRE_SET }, "a" },
		{ { .op = WIRE_PUT, .mode = WIRE_REPLACE }, "none" },
		{ { .op = WIRE_PUT, .mode = WIRE_SET, .value_len = 11 }, "b" }, /* too large */
		{ { .op = WIRE_ARITH, .arg64 = 1 }, "none" },
		{ { .op = WIRE_GET }, "a" },
		{ { .op = WIRE_GET }, "none" },
		{ { .op = WIRE_GET }, "none" },
		/* Further parts are of a GET that was counted. */
		{ { .op = WIRE_GET, .offset = 1 }, "a" },
		{ { .op = WIRE_GET, .offset = 1 }, "none" },
		{ { .op = WIRE_TOUCH }, "a" },
		{ { .op = WIRE_TOUCH }, "none" },
		{ { .op = WIRE_TOUCH, .flags = WIRE_F_VALUE }, "a" },
		{ { .op = WIRE_TOUCH, .flags = WIRE_F_VALUE }, "none" },
		{ { .op = WIRE_DELETE }, "none" },
		{ { .op = WIRE_DELETE }, "a" },
		{ { .op = WIRE_PING }, NULL },
	};
	const struct worker_stats *stats = &test_worker.stats;
	const uint64_t(*of)[WIRE_STATUS_MAX + 1] = test_worker.commands.of[FRONT_SOFTNIC];
	unsigned int n = sizeof(asked) / sizeof(asked[0]);
	struct command_stats commands;

	(void)state;
	test_store.region.geometry.value_max = 10;
	test_conns[0].conn.client.kind = DEVICE_SOFTNIC;
	for (unsigned int i = 0; i < n; i++) {
		add_request(&test_conns[0], 0, asked[i].request, asked[i].key)->byte_len +=
			asked[i].request.value_len;
		poller_poll(test_poller);
		test_conn_complete(&test_conns[0]);
	}
	assert_int_equal(stats->requests, n);
	commands = command_counts_stats(&test_worker.commands);
	assert_int_equal(commands.puts, 4);
	assert_int_equal(commands.put_too_large, 1);
	assert_int_equal(commands.put_no_space, 0);
	assert_int_equal(of[WIRE_PUT][WIRE_TOO_LARGE], 1);
	assert_int_equal(of[WIRE_TOUCH][WIRE_NOT_FOUND], 2);
	assert_int_equal(of[WIRE_PING][WIRE_OK], 1);
	assert_int_equal(test_worker.part.thread.stats.gets, 5);
	assert_int_equal(test_worker.part.thread.stats.get_misses, 3);
	assert_int_equal(test_worker.part.thread.stats.get_hits, 2);
	assert_int_equal(commands.touches, 4);
	assert_int_equal(commands.deletes, 2);
	assert_int_equal(commands.delete_misses, 1);
	assert_int_equal(stats->protocol_errors, 0);
	test_store.region.geometry.value_max = VALUE_MAX_BYTES;
}

/*
 * A request takes its message's bytes, access records included, and its response's; a part of the
 * first one's is refilled before the second. A refused one takes nothing.
 */
static void requests_cost(void **state)
{
	static struct test_limit limit;
	uint64_t bytes = sizeof(struct wire_request) + sizeof(struct wire_response) + 3;

	(void)state;
	test_limit_set(&limit, &test_conns[0].conn, 0, 1);
	ADD(&test_conns[0], 0, "key", .op = WIRE_GET);
	poller_poll(test_poller);
	assert_int_equal(test_limit_taken(&limit.account.bytes_full), bytes);
	add_access(&test_conns[0], 1);
	poller_poll(test_poller);
	bytes += sizeof(struct wire_request) + sizeof(struct wire_response) + WIRE_ACCESS_BYTES;
	assert_int_equal(test_limit_taken(&limit.account.bytes_full), bytes);
	/* Refused records take nothing, though they are answered OK. */
	account_charge(&limit.account, 1, 1u << 30, test_worker.part.thread.now_ns);
	bytes = limit.account.bytes_full;
	add_access(&test_conns[0], 2);
	poller_poll(test_poller);
	test_conn_complete(&test_conns[0]);
	assert_int_equal(test_conns[0].response.status, WIRE_OK);
	assert_int_equal(stat_read(&test_worker.stats.requests_over_limit), 1);
	assert_true(limit.account.bytes_full == bytes);
}

static enum wire_status get_part(uint32_t recv, const char *key, uint64_t offset)
{
	ADD(&test_conns[0], recv, key, .op = WIRE_GET, .offset = offset);
	poller_poll(test_poller);
	test_conn_complete(&test_conns[0]);
	return test_conns[0].response.status;
}

/*
 * Of a value in parts the first request costs, and each response; together they are one GET. What
 * follows is not beyond a limit, but only if it is asked for in a row.
 */
static void parts_cost(void **state)
{
	static struct test_limit limit;
	uint64_t message = sizeof(struct wire_request) + 1;
	uint32_t at, part = 0;

	(void)state;
	assert_int_equal(test_store_put(&test_store, "k", 1, value, sizeof(value), NULL), WIRE_OK);
	assert_int_equal(test_store_put(&test_store, "l", 1, value, sizeof(value), NULL), WIRE_OK);
	for (at = 0; at < LONG_VALUE; at += part, message = 0) {
		test_limit_set(&limit, &test_conns[0].conn, 0, 1);
		assert_int_equal(get_part(0, "k", at), WIRE_OK);
		part = test_conns[0].value_len;
		assert_true(part > 0);
		assert_int_equal(test_limit_taken(&limit.account.bytes_full),
				 message + sizeof(struct wire_response) + part);
	}
	assert_int_equal(at, LONG_VALUE);
	assert_int_equal(stat_read(&test_worker.part.thread.stats.gets), 1);
	assert_int_equal(get_part(0, "k", 0), WIRE_OK);
	part = test_conns[0].value_len;
	/* More than is paid in years. */
	account_charge(&limit.account, 1, 1u << 30, test_worker.part.thread.now_ns);
	assert_int_equal(get_part(1, "k", 0), WIRE_LIMIT);
	assert_int_equal(get_part(2, "l", part), WIRE_LIMIT);
	assert_int_equal(get_part(3, "k", part - 1), WIRE_LIMIT);
	assert_int_equal(get_part(4, "k", part), WIRE_OK);
	assert_int_equal(part + test_conns[0].value_len, LONG_VALUE);
	assert_int_equal(get_part(5, "k", part), WIRE_LIMIT);
	assert_int_equal(get_part(6, "k", LONG_VALUE), WIRE_LIMIT);
	assert_int_equal(stat_read(&test_worker.stats.requests_over_limit), 5);
}

/* A flush begins, at its time; a client that asks again by its ticket learns when it ends. */
static void flushes(void **state)
{
	struct maintenance *maintenance = &test_store.maintenance;
	struct test_conn *a = &test_conns[0];
	static struct answers answers;
	uint64_t ticket;

	(void)state;
	maintenance->table = &test_store.table;
	answers_init(&answers, 1);
	a->conn.answers = &answers;
	ADD(a, 0, NULL, .op = WIRE_FLUSH, .ttl = 7, .change = 1);
	poller_poll(test_poller);
	ticket = a->response.ticket;
	assert_int_equal(a->response.status, WIRE_OK);
	assert_true(ticket != 0);
	assert_true(maintenance->waiting[0].at_ns ==
		    test_worker.part.thread.now_ns + 7 * SECOND_NS);
	assert_int_equal(answers.last, 1);
	for (unsigned int ended = 0; ended < 2; ended++) {
		if (ended)
			maintenance->waiting[0].ticket = 0;
		ADD(a, 1 + ended, NULL, .op = WIRE_FLUSH, .ticket = ticket);
		poller_poll(test_poller);
		assert_int_equal(a->response.status, ended ? WIRE_OK : WIRE_BUSY);
		assert_true(a->response.ticket == ticket);
		assert_true(maintenance->ticket == ticket);
		test_conn_complete(a);
	}
	/* There is room for some that wait. */
	for (unsigned int i = 0; !a->response.status; i++) {
		assert_true(i <= WIRE_FLUSHES_OWNER_MAX);
		ADD(a, 3, NULL, .op = WIRE_FLUSH, .ttl = 7);
		poller_poll(test_poller);
		test_conn_complete(a);
	}
	assert_int_equal(a->response.status, WIRE_BUSY);
	assert_true(a->response.ticket == 0);
	/* Flushes that wait are the principal's. */
	strcpy(a->principal.name, "uid=5");
	for (unsigned int any = 0; any < 2; any++) {
		ADD(a, 4, NULL, .op = WIRE_FLUSH,
		    .mode = any ? WIRE_FLUSH_CANCEL_ANY : WIRE_FLUSH_CANCEL);
		poller_poll(test_poller);
		assert_int_equal(a->response.status, any ? WIRE_OK : WIRE_NOT_FOUND);
		assert_int_equal(a->response.result, any ? WIRE_FLUSHES_OWNER_MAX : 0);
		test_conn_complete(a);
	}
	ADD(a, 5, NULL, .op = WIRE_FLUSH, .ttl = 7);
	ADD(a, 6, NULL, .op = WIRE_FLUSH, .mode = WIRE_FLUSH_CANCEL);
	poller_poll(test_poller);
	assert_int_equal(a->response.status, WIRE_OK);
	assert_int_equal(a->response.result, 1);
	test_conn_complete(a);
	memset(maintenance, 0, sizeof(*maintenance));
}

/* What operators see of a connection: each request, its bytes, and when the last one came. */
static void requests_are_counted(void **state)
{
	struct test_conn *a = &test_conns[0];
	uint64_t before_ns;

	(void)state;
	for (unsigned int i = 1; i <= 3; i++) {
		before_ns = store_clock_ns(&test_store);
		ADD(a, i, "key", .op = WIRE_GET);
		poller_poll(test_poller);
		assert_int_equal(a->conn.client.requests, i);
		assert_int_equal(a->conn.client.received_bytes,
				 i * (sizeof(struct wire_request) + 3));
		assert_int_equal(test_worker.stats.request_bytes, a->conn.client.received_bytes);
		assert_true(a->conn.client.active_ns >= before_ns);
		assert_true(a->conn.client.active_ns == test_worker.part.thread.now_ns);
		assert_int_equal(test_worker.turn.completions, i);
		test_conn_complete(a);
	}
	assert_true(test_worker.turn.began_ns != 0);
	assert_true(test_worker.turn.began_ns < test_worker.part.thread.now_ns);
}

/* The window counts what is deferred, too: a client can't have more outstanding over batches. */
static void window_over_batches(void **state)
{
	struct test_conn *a = &test_conns[0];

	(void)state;
	for (uint32_t i = 0; i < TEST_WINDOW - 1; i++)
		ADD(a, i, NULL, .op = WIRE_SCAN);
	poller_poll(test_poller);
	assert_int_equal(a->conn.deferred_count, TEST_WINDOW - 1);
	ADD(a, TEST_WINDOW - 1, NULL, .op = WIRE_PING);
	poller_poll(test_poller);
	assert_false(a->conn.stopped);
	assert_int_equal(a->conn.deferred_count, TEST_WINDOW);
	ADD(a, TEST_WINDOW, NULL, .op = WIRE_PING);
	poller_poll(test_poller);
	assert_true(a->conn.stopped);
	test_turns();
	assert_posted(TEST_WINDOW + 1);
}

/* A full batch may not be all that has arrived: until it is known no window lapses. */
static void more_may_have_arrived(void **state)
{
	struct conn *conn = &test_conns[1].conn;
	uint64_t late_ns = test_worker.part.thread.now_ns + 3600 * SECOND_NS;

	(void)state;
	test_poller->windows.active_count = 1;
	TAILQ_INSERT_TAIL(&test_poller->windows.active, conn, window_entry);
	for (unsigned int i = 0; i < BATCH_MAX; i++)
		add_completion(&test_conns[0], wr_id_make(WR_RESPONSE, 1, 77, BUFFER_NONE));
	poller_poll(test_poller);
	conn->window_next = conn->window_told = TEST_WINDOW;
	windows_expire(&test_worker, late_ns);
	assert_true(conn->window_active);
	for (unsigned int i = 0; i < BATCH_MAX - 1; i++)
		add_completion(&test_conns[0], wr_id_make(WR_RESPONSE, 1, 77, BUFFER_NONE));
	poller_poll(test_poller);
	assert_true(windows_due(&test_worker));
	windows_expire(&test_worker, late_ns);
	assert_false(conn->window_active);
	assert_int_equal(conn->window, WIRE_WINDOW_LAPSED);
	assert_int_equal(conn->window_next, WIRE_WINDOW_LAPSED);
	assert_int_equal(conn->window_told, WIRE_WINDOW_LAPSED);
	assert_false(windows_due(&test_worker));
	test_poller->windows.left = test_poller->windows.left_max;
	conn->window = TEST_WINDOW;
}

/* A response that completes makes room for the connection's next one. */
static void goes_on_with_room(void **state)
{
	struct test_conn *a = &test_conns[0];

	(void)state;
	while (sq_room(&a->conn))
		sq_take(&a->conn);
	ADD(a, 0, NULL, .op = WIRE_PING, .id = 5);
	poller_poll(test_poller);
	test_turns();
	assert_int_equal(a->responses, 0);
	add_completion(a, wr_id_make(WR_RESPONSE, 1, a->conn.serial, BUFFER_NONE));
	poller_poll(test_poller);
	test_turns();
	assert_int_equal(a->responses, 1);
	assert_int_equal(a->response.id, 5);
	assert_posted(1);
}

/* Notes are handled in their order, and NOTES_AT_ONCE of them in a turn. */
static void notes_in_turns(void **state)
{
	static struct conn conns[NOTES_AT_ONCE + 2];
	unsigned int n = sizeof(conns) / sizeof(conns[0]);

	(void)state;
	assert_false(worker_read_mail(&test_worker));
	for (unsigned int i = 0; i < n; i++) {
		conns[i] = (struct conn){ .poller = test_poller };
		TAILQ_INIT(&conns[i].deferred);
		conns[i].notes[NOTE_ANSWER] = (struct note){ .conn = &conns[i],
							     .kind = NOTE_ANSWER };
		mailbox_send(&test_worker.mailbox, &conns[i].notes[NOTE_ANSWER]);
	}
	for (unsigned int turn = 0; turn < 2; turn++) {
		test_worker.turn.began_ns = 0;
		assert_true(worker_read_mail(&test_worker));
		assert_true(test_worker.turn.began_ns != 0);
		for (unsigned int i = 0; i < n; i++)
			assert_int_equal(conns[i].query.answered, turn || i < NOTES_AT_ONCE);
		/* What comes meanwhile waits for the notes before it. */
		conns[0].query.answered = turn;
		if (!turn)
			mailbox_send(&test_worker.mailbox, &conns[0].notes[NOTE_ANSWER]);
		conns[0].query.answered = true;
	}
	conns[0].query.answered = false;
	assert_true(worker_read_mail(&test_worker));
	assert_true(conns[0].query.answered);
	assert_false(worker_read_mail(&test_worker));
}

/* Each note reaches its part of the worker. */
static void notes_of_a_connection(void **state)
{
	struct test_conn *a = &test_conns[0];
	struct mailbox *control = test_worker.env->control;

	(void)state;
	atomic_store(&a->conn.probe_noted, true);
	mailbox_send(&test_worker.mailbox, &a->conn.notes[NOTE_PROBE]);
	assert_true(worker_read_mail(&test_worker));
	assert_false(atomic_load(&a->conn.probe_noted));
	assert_true(a->probe != 0);
	/* A pull that waited for the answer has no deadline any more. */
	pull_clock_start(&a->conn);
	add_completion(a, a->probe);
	assert_activity(ACTIVITY_UNAWAITED);
	assert_int_equal(a->conn.pull_since_ns, 0);
	assert_int_equal(a->conn.probes_answered, 2);
	assert_false(a->conn.probing);
	assert_int_equal(a->conn.sq_used, 0);
	a->conn.window_active = false;
	mailbox_send(&test_worker.mailbox, &a->conn.notes[NOTE_RELEASE]);
	assert_true(worker_read_mail(&test_worker));
	assert_true(a->conn.qp_destroyed);
	assert_ptr_equal(mailbox_take(control), &a->conn.notes[NOTE_RELEASED]);
}

/* The first request makes a connection active. */
static void becomes_active(void **state)
{
	struct conn *conn = &test_conns[0].conn;

	(void)state;
	conn->window_active = false;
	test_worker.pollers[0].limits.window = TEST_WINDOW;
	ADD(&test_conns[0], 0, NULL, .op = WIRE_PING);
	poller_poll(test_poller);
	assert_true(conn->window_active);
	assert_int_equal(test_poller->windows.active_count, 1);
	window_release(conn);
	conn->window = TEST_WINDOW;
	test_poller->windows.left = test_poller->windows.left_max;
}

/* Whatever a connection held, nothing of it stays when its queue pair is destroyed. */
static void releases_all(void **state)
{
	struct test_conn *a = &test_conns[0];
	struct conn *conn = &a->conn;

	(void)state;
	conn->window_active = false;
	test_poller->limits.window = TEST_WINDOW;
	ADD(a, 0, NULL, .op = WIRE_PING);
	poller_poll(test_poller);
	test_conn_complete(a);
	assert_true(conn->window_active);
	conn->window = TEST_WINDOW;
	assert_int_equal(test_store_put(&test_store, "s", 1, value, 1000, NULL), WIRE_OK);
	ADD(a, 2, NULL, .op = WIRE_SCAN);
	poller_poll(test_poller);
	/* In place of responses that the device has not sent. */
	response_reserve(conn);
	pull_clock_start(conn);
	assert_int_equal(conn->deferred_count, 1);
	conn->stopped = true;
	mailbox_send(&test_worker.mailbox, &conn->notes[NOTE_RELEASE]);
	assert_true(worker_read_mail(&test_worker));
	assert_int_equal(conn->deferred_count, 0);
	assert_int_equal(conn->sq_used, 0);
	assert_int_equal(conn->buffers, 0);
	assert_int_equal(conn->pull_since_ns, 0);
	assert_false(conn->window_active);
	assert_int_equal(conn->window, 1);
	assert_int_equal(test_poller->windows.active_count, 0);
	assert_int_equal(test_recvs[2], 1);
	assert_ptr_equal(mailbox_take(test_worker.env->control), &conn->notes[NOTE_RELEASED]);
	test_poller->windows.left = test_poller->windows.left_max;
	conn->stopped = false;
	conn->window = TEST_WINDOW;
}

/* What a receive held before is not of the request that it holds now. */
static void a_receive_used_again(void **state)
{
	struct deferred *deferred = &test_poller->deferred[0];

	(void)state;
	memset(deferred, 0x5a, sizeof(*deferred));
	ADD(&test_conns[0], 0, NULL, .op = WIRE_SCAN);
	poller_poll(test_poller);
	assert_false(deferred->reserved);
	assert_false(deferred->pulls);
	assert_int_equal(deferred->scan.busy_since_ns, 0);
	test_turns();
	assert_int_equal(test_conns[0].responses, 1);
}

/* DEFERRED-1: a turn has one piece, whoever has deferred requests. */
static void one_piece_in_a_turn(void **state)
{
	(void)state;
	ADD(&test_conns[0], 0, NULL, .op = WIRE_SCAN);
	ADD(&test_conns[1], 1, NULL, .op = WIRE_SCAN);
	poller_poll(test_poller);
	for (unsigned int i = 1; i <= 2; i++) {
		assert_true(deferred_run(&test_worker));
		assert_int_equal(test_conns[0].responses + test_conns[1].responses, i);
		assert_int_equal(stat_read(&test_worker.stats.deferred_pieces), i);
		assert_int_equal(command_counts_stats(&test_worker.commands).scans, i);
	}
	assert_false(deferred_run(&test_worker));
	assert_int_equal(stat_read(&test_worker.stats.deferred), 2);
}

/* What is held is that of all pollers. */
static void what_is_held(void **state)
{
	static struct worker w;

	(void)state;
	w.poller_count = 3;
	w.attached[0] = w.attached[1] = true;
	/* Of a device that failed, and what is left in it counts no more. */
	w.pollers[2].limits.srq_depth = 1000;
	for (unsigned int i = 0; i < 2; i++)
		w.pollers[i] = (struct poller){
			.limits.srq_depth = 100,
			.posted = 90 - i,
			.free_max = 50,
			.free_count = 45 - i,
			.spare_buffers_max = 30,
			.spare_buffers = 28 - i,
			.spare_sends_max = 20,
			.spare_sends = 13 - i,
			.windows = { .left_max = 40, .left = 37 - i },
		};
	w.pulls_count = 5;
	/* The figures say what is held now, not what was held so far. */
	for (unsigned int i = 0; i < 2; i++) {
		held_show(&w);
		assert_int_equal(w.held.receives, 21);
		assert_int_equal(w.held.response_buffers, 11);
		assert_int_equal(w.held.spare_buffers, 5);
		assert_int_equal(w.held.spare_sends, 15);
		assert_int_equal(w.held.windows, 7);
		assert_int_equal(w.held.pulls, 5);
	}
}

static int (*posts)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static int post_behind_receives(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	assert_posted(2);
	return posts(qp, wr, bad);
}

/* WORKER-4: the client meets a receive for what it sends when it has the response. */
static void receives_before_responses(void **state)
{
	(void)state;
	posts = cq.context->ops.post_send;
	cq.context->ops.post_send = post_behind_receives;
	ADD(&test_conns[0], 0, NULL, .op = WIRE_PING);
	ADD(&test_conns[1], 1, NULL, .op = WIRE_PING);
	poller_poll(test_poller);
	assert_int_equal(test_conns[0].responses, 1);
	cq.context->ops.post_send = posts;
}

static void assert_quiesced(struct conn *conn, bool expected)
{
	struct note *note = mailbox_take(test_worker.env->control);

	assert_ptr_equal(note, expected ? &conn->notes[NOTE_QUIESCED] : NULL);
	rcu_read_lock();
	assert_ptr_equal(conn_lookup(test_poller, conn->qp_num), expected ? NULL : conn);
	if (expected)
		conn_table_add(conn);
	rcu_read_unlock();
}

/*
 * A connection that ends is drained by the completion of its marker; without one, when as many
 * completions were taken as the queue holds, or it was empty.
 */
static void drains(void **state)
{
	struct test_conn *a = &test_conns[0];

	(void)state;
	a->conn.stopped = a->conn.marked = true;
	TAILQ_INSERT_TAIL(&test_poller->marked, &a->conn, drain_entry);
	add_completion(a, wr_id_make(WR_MARKER, 1, a->conn.serial, BUFFER_NONE));
	poller_poll(test_poller);
	assert_int_equal(a->conn.sq_used, 0);
	assert_quiesced(&a->conn, true);
	assert_true(TAILQ_EMPTY(&test_poller->marked));
	a->conn.marked = false;
	a->conn.drained_at = test_poller->taken + 2 * BATCH_MAX;
	TAILQ_INSERT_TAIL(&test_poller->unmarked, &a->conn, drain_entry);
	for (unsigned int batch = 0; batch < 2; batch++) {
		for (unsigned int i = 0; i < BATCH_MAX; i++)
			add_completion(a, wr_id_make(WR_RESPONSE, 1, 77, BUFFER_NONE));
		poller_poll(test_poller);
		assert_quiesced(&a->conn, batch == 1);
	}
	a->conn.drained_at = UINT64_MAX;
	TAILQ_INSERT_TAIL(&test_poller->unmarked, &a->conn, drain_entry);
	poller_poll(test_poller);
	assert_quiesced(&a->conn, true);
	a->conn.stopped = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(stops_within_a_batch),
		CASE(drops),
		CASE(window_in_a_batch),
		CASE(older_completions),
		CASE(requests_are_counted),
		CASE(window_over_batches),
		CASE(more_may_have_arrived),
		CASE(goes_on_with_room),
		CASE(notes_in_turns),
		CASE(notes_of_a_connection),
		CASE(parts_cost),
		CASE(flushes),
		CASE(operations_are_counted),
		CASE(requests_cost),
		CASE(becomes_active),
		CASE(releases_all),
		CASE(a_receive_used_again),
		CASE(one_piece_in_a_turn),
		CASE(what_is_held),
		CASE(receives_before_responses),
		CASE(drains),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
