/* SPDX-License-Identifier: MIT */
/*
 * Tests of the worker's loop: what becomes of each receive in a batch of completions, whatever
 * happens to its connection meanwhile; and what a worker does beside that which finds work in each
 * turn and never rests. The loop is compiled here, and run by the test's own thread, on a device of
 * functions that say what has completed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/net/worker_loop.c"

#include "tests/support/store_fixture.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (8u << 20)
#define VALUE_MAX_BYTES (1u << 20)
#define LONG_VALUE 8000u /* does not fit a response */
#define SECOND_NS 1000000000ull
#define TURNS 200

static struct ibv_cq cq;
static uint8_t value[LONG_VALUE];

/* What the next poll finds. */
static struct ibv_wc completions[BATCH_MAX];
static unsigned int completion_count;

/* Called by each poll; it may add completions. */
static void (*on_poll)(void);

static int poll_cq(struct ibv_cq *from, int max, struct ibv_wc *wcs)
{
	int n;

	assert_ptr_equal(from, &cq);
	if (on_poll)
		on_poll();
	n = (int)completion_count;
	assert_true(n <= max);
	memcpy(wcs, completions, completion_count * sizeof(*wcs));
	completion_count = 0;
	return n;
}

static uint32_t qp_num_of(const struct test_conn *c)
{
	return (uint32_t)(c - test_conns) + 100;
}

static int setup(void **state)
{
	(void)state;
	test_worker_create(REGION_BYTES, VALUE_MAX_BYTES);
	region_publish_geometry(&test_store.region);
	completion_count = 0;
	on_poll = NULL;
	cq.context = test_conns[0].qp.context;
	cq.context->ops.poll_cq = poll_cq;
	cq.cqe = 1000;
	test_poller->cq = &cq;
	test_poller->conns = cds_lfht_new(16, 16, 16, 0, NULL);
	TAILQ_INIT(&test_poller->unmarked);
	TAILQ_INIT(&test_poller->windows.active);
	test_worker.poller_count = 1;
	assert_int_equal(mailbox_init(&test_worker.mailbox), 0);
	for (unsigned int i = 0; i < TEST_CONNS; i++) {
		test_conns[i].conn.qp_num = qp_num_of(&test_conns[i]);
		test_conns[i].conn.serial = i + 1;
		test_conns[i].conn.window_active = true;
		test_conns[i].conn.window_next = TEST_WINDOW;
		conn_table_add(&test_conns[i].conn);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_true(TAILQ_EMPTY(&test_worker.copies));
	assert_int_equal(test_worker.copies_bytes, 0);
	rcu_read_lock();
	for (unsigned int i = 0; i < TEST_CONNS; i++)
		conn_table_remove(&test_conns[i].conn);
	rcu_read_unlock();
	rcu_thread_offline();
	assert_int_equal(cds_lfht_destroy(test_poller->conns, NULL), 0);
	rcu_thread_online();
	mailbox_release(&test_worker.mailbox);
	assert_null(test_store_check(&test_store, NULL));
	test_worker_destroy();
	return 0;
}

static struct ibv_wc *add_completion(const struct test_conn *c, uint64_t wr_id)
{
	struct ibv_wc *wc = &completions[completion_count++];

	*wc = (struct ibv_wc){ .wr_id = wr_id, .qp_num = qp_num_of(c) };
	return wc;
}

/* The message has arrived in @recv, with a key unless it is NULL. */
static struct ibv_wc *add_request(const struct test_conn *c, uint32_t recv,
				  struct wire_request wire, const char *key)
{
	struct ibv_wc *wc = add_completion(c, wr_id_make(WR_RECV, 0, 0, recv));

	wire.key_len = key ? (uint16_t)strlen(key) : 0;
	memcpy(test_recv(recv), &wire, sizeof(wire));
	if (key)
		memcpy(test_recv(recv) + sizeof(wire), key, wire.key_len);
	wc->byte_len = (uint32_t)sizeof(wire) + wire.key_len;
	return wc;
}

#define ADD(c, recv, key, ...) add_request(c, recv, (struct wire_request){ __VA_ARGS__ }, key)

/* So many receives, from number 0 on, were posted again, each once. */
static void assert_posted(unsigned int count)
{
	for (unsigned int i = 0; i < TEST_RECVS; i++)
		if (test_recvs[i] != (i < count))
			fail_msg("receive %u was posted %u times", i, test_recvs[i]);
}

static uint64_t failed(void)
{
	return stat_read(&test_worker.stats.connections_failed);
}

/* A request stops its connection: those behind it are not executed, but their receives go back. */
static void stops_within_a_batch(void **state)
{
	struct test_conn *a = &test_conns[0], *b = &test_conns[1];

	(void)state;
	ADD(a, 0, NULL, .op = WIRE_PING, .id = 1);
	/* It has no identity. */
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
	assert_int_equal(a->conn.requests, 0);
	assert_int_equal(a->conn.received_bytes, 0);
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
	assert_int_equal(a->conn.requests, 1);
	assert_int_equal(b->conn.requests, 0);
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

/* Runs the loop until a poll stops it. */
static void run(void (*each_poll)(void))
{
	on_poll = each_poll;
	atomic_store(&test_worker.stop, false);
	rcu_unregister_thread();
	worker_run(&test_worker);
	rcu_register_thread();
	on_poll = NULL;
}

/* A copy for the first connection, of its GET. */
static void copy_make(void)
{
	assert_int_equal(test_store_put(&test_store, "k", 1, value, sizeof(value), NULL), WIRE_OK);
	ADD(&test_conns[0], 0, "k", .op = WIRE_GET, .id = 1);
	poller_poll(test_poller);
	assert_int_equal(test_conns[0].response.flags, WIRE_R_COPY);
	assert_non_null(test_conns[0].conn.copy);
	test_conn_complete(&test_conns[0]);
}

static unsigned int turns;
static uint64_t copy_at_ns, kept_until_ns; /* the copy was seen at that time, at last */

/* Each turn has a request of another connection, and takes half a second. */
static void busy_turn(void)
{
	struct test_conn *b = &test_conns[1];

	if (test_conns[0].conn.copy)
		kept_until_ns = store_clock_ns(&test_store);
	test_conn_complete(b);
	/* The last turn, too, finds work. */
	if (++turns == TURNS)
		atomic_store(&test_worker.stop, true);
	test_store.table.clock_base += SECOND_NS / 2;
	ADD(b, 1 + turns % 8, NULL, .op = WIRE_PING, .id = turns);
}

/*
 * A copy stands for COPY_NS_MAX, also in a worker that never rests: a client that is gone must not
 * keep the memory because others are busy.
 */
static void copies_end_beside_others(void **state)
{
	(void)state;
	copy_make();
	copy_at_ns = kept_until_ns = store_clock_ns(&test_store);
	turns = 0;
	run(busy_turn);
	assert_int_equal(test_conns[1].responses, TURNS);
	assert_null(test_conns[0].conn.copy);
	assert_true(kept_until_ns >= copy_at_ns + COPY_NS_MAX - 2 * SECOND_NS);
	assert_true(kept_until_ns <= copy_at_ns + COPY_NS_MAX + 2 * SECOND_NS);
}

static uint64_t memory_in_use(void)
{
	return memory_bytes(test_store.memory) - memory_free_bytes(test_store.memory);
}

/* Whatever the client asks for next, its copy is invalid and its memory free; others' stay. */
static void copies_end_with_the_next_request(void **state)
{
	static const struct wire_request requests[] = {
		{ .op = WIRE_PING },
		{ .op = WIRE_GET },
		{ .op = WIRE_DELETE },
		{ .op = WIRE_TOUCH, .ttl = 5 },
		{ .op = WIRE_PUT, .mode = WIRE_SET },
		{ .op = WIRE_ARITH, .mode = WIRE_INCR, .arg64 = 1 },
		{ .op = WIRE_SCAN, .arg32 = 1 },
	};
	struct test_conn *a = &test_conns[0], *b = &test_conns[1];
	const struct item *copy;
	uint64_t before;

	(void)state;
	for (unsigned int i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		unsigned int responses = a->responses;
		bool keyless = requests[i].op == WIRE_PING || requests[i].op == WIRE_SCAN;

		/* So that no request finds the key "x" that it changes: the memory says it all. */
		assert_int_equal(test_store_put(&test_store, "k", 1, value, sizeof(value), NULL),
				 WIRE_OK);
		if (requests[i].op == WIRE_PUT || requests[i].op == WIRE_ARITH)
			test_store_put(&test_store, "x", 1, "1", requests[i].op == WIRE_ARITH,
				       NULL);
		else
			test_store_delete(&test_store, "x", 1);
		before = memory_in_use();
		copy_make();
		copy = a->conn.copy;
		assert_int_equal(test_worker.copies_bytes,
				 mem_class_bytes(item_bytes(1, LONG_VALUE)));
		assert_int_equal(memory_in_use(), before + test_worker.copies_bytes);
		/* Another's request does nothing to it. */
		ADD(b, 5, NULL, .op = WIRE_PING);
		poller_poll(test_poller);
		test_conn_complete(b);
		assert_ptr_equal(a->conn.copy, copy);
		add_request(a, 6, requests[i], keyless ? NULL : "x");
		poller_poll(test_poller);
		test_turns();
		assert_int_equal(a->responses, responses + 2);
		assert_null(a->conn.copy);
		assert_int_equal(copy->sum, ITEM_SUM_INVALID);
		assert_int_equal(test_worker.copies_bytes, 0);
		assert_true(TAILQ_EMPTY(&test_worker.copies));
		assert_int_equal(memory_in_use(), before);
		test_conn_complete(a);
	}
}

static int slept_ms;

static int sleep_for(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	(void)channel;
	assert_int_equal(fd, test_worker.mailbox.event_fd);
	slept_ms = timeout_ms;
	return 0;
}

/* How long the worker sleeps if nothing comes; -1: for ever. */
static int sleeps_ms(void)
{
	static const struct device_ops ops = { .sleep = sleep_for };
	struct device *dev = test_poller->nic->dev;
	const struct device_ops *before = dev->ops;

	dev->ops = &ops;
	slept_ms = 0;
	worker_wait(&test_worker);
	dev->ops = before;
	return slept_ms;
}

/* While anything ends by itself some day, the worker looks after it, though no request comes. */
static void looks_after_what_expires(void **state)
{
	struct conn *conn = &test_conns[1].conn;

	(void)state;
	assert_int_equal(sleeps_ms(), -1);
	copy_make();
	assert_int_equal(sleeps_ms(), EXPIRE_MS);
	copy_drop(&test_worker, &test_conns[0].conn);
	assert_int_equal(sleeps_ms(), -1);
	/* The window of an idle client, which is not to be looked at yet. */
	conn->window_look_ns = test_worker.store_thread.now_ns + 3600 * SECOND_NS;
	TAILQ_INSERT_TAIL(&test_poller->windows.active, conn, window_entry);
	assert_false(windows_due(&test_worker));
	assert_int_equal(sleeps_ms(), EXPIRE_MS);
	TAILQ_REMOVE(&test_poller->windows.active, conn, window_entry);
	TAILQ_INSERT_TAIL(&test_worker.pulls, conn, pull_entry);
	assert_int_equal(sleeps_ms(), EXPIRE_MS);
	TAILQ_REMOVE(&test_worker.pulls, conn, pull_entry);
	assert_int_equal(sleeps_ms(), -1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(stops_within_a_batch),	CASE(drops),
		CASE(window_in_a_batch),	CASE(older_completions),
		CASE(copies_end_beside_others), CASE(copies_end_with_the_next_request),
		CASE(looks_after_what_expires),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
