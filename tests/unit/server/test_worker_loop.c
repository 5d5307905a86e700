/* SPDX-License-Identifier: MIT */
/*
 * Tests of the worker's loop: what becomes of each receive in a batch of completions, whatever
 * happens to its connection meanwhile; and what a worker does beside that which finds work in each
 * turn and never rests. The loop is compiled here, and run by the test's own thread, on a device of
 * functions that say what has completed.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/net/worker.h"

static void quiescent(void);
static int test_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
		       void *arg);
static int test_name(pthread_t thread, const char *name);

#undef rcu_quiescent_state
#define rcu_quiescent_state quiescent
#define pthread_create test_create
#define pthread_setname_np test_name
#include "server/net/worker_loop.c"
#undef pthread_create
#undef pthread_setname_np

#include "tests/support/log_fixture.h"
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

static unsigned int polls, notifies; /* notifies: requested, and not polled since */

static unsigned int quiescents;

static void quiescent(void)
{
	quiescents++;
	urcu_qsbr_quiescent_state();
}

/* Of a thread that is to be started. */
static char started_name[16];
static int create_error;

static int test_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
		       void *arg)
{
	(void)attr;
	(void)run;
	(void)arg;
	*thread = pthread_self();
	return create_error;
}

static int test_name(pthread_t thread, const char *name)
{
	assert_true(pthread_equal(thread, pthread_self()));
	strcpy(started_name, name);
	return 0;
}

static int poll_cq(struct ibv_cq *from, int max, struct ibv_wc *wcs)
{
	int n;

	assert_ptr_equal(from, &cq);
	polls++;
	if (on_poll)
		on_poll();
	notifies = 0;
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
	completion_count = polls = notifies = 0;
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

/* A copy takes the bytes of its value out of its connection's limit, as a value in a response. */
static void copies_cost(void **state)
{
	struct conn_limit *limit = &test_conns[0].conn.limit;

	(void)state;
	conn_limit_init(limit, 0, 1);
	copy_make();
	assert_int_equal(limit->bytes.missing / TOKEN_UNITS, sizeof(struct wire_request) + 1 +
								     sizeof(struct wire_response) +
								     LONG_VALUE);
	copy_drop(&test_worker, &test_conns[0].conn);
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
		{ { .op = WIRE_TOUCH }, "a" },
		{ { .op = WIRE_DELETE }, "none" },
		{ { .op = WIRE_DELETE }, "a" },
		{ { .op = WIRE_PING }, NULL },
	};
	const struct worker_stats *stats = &test_worker.stats;
	unsigned int n = sizeof(asked) / sizeof(asked[0]);

	(void)state;
	test_store.region.geometry.value_max = 10;
	for (unsigned int i = 0; i < n; i++) {
		add_request(&test_conns[0], 0, asked[i].request, asked[i].key)->byte_len +=
			asked[i].request.value_len;
		poller_poll(test_poller);
		test_conn_complete(&test_conns[0]);
	}
	assert_int_equal(stats->requests, n);
	assert_int_equal(stats->puts, 4);
	assert_int_equal(stats->put_too_large, 1);
	assert_int_equal(stats->put_no_space, 0);
	assert_int_equal(stats->gets, 3);
	assert_int_equal(stats->get_misses, 2);
	assert_int_equal(stats->touches, 1);
	assert_int_equal(stats->deletes, 2);
	assert_int_equal(stats->delete_misses, 1);
	assert_int_equal(stats->protocol_errors, 0);
	test_store.region.geometry.value_max = VALUE_MAX_BYTES;
}

/* A message with nothing but an access record. */
static void add_access(const struct test_conn *c, uint32_t recv)
{
	const uint64_t hash = 1;

	ADD(c, recv, NULL, .op = WIRE_ACCESS, .access_count = 1)->byte_len += sizeof(hash);
	memcpy(test_recv(recv) + sizeof(struct wire_request), &hash, sizeof(hash));
}

/*
 * A request takes its message's bytes, access records included, and its response's; a part of the
 * first one's is refilled before the second.
 */
static void requests_cost(void **state)
{
	struct conn_limit *limit = &test_conns[0].conn.limit;
	uint64_t bytes = sizeof(struct wire_request) + sizeof(struct wire_response) + 3;

	(void)state;
	conn_limit_init(limit, 0, 1);
	ADD(&test_conns[0], 0, "key", .op = WIRE_GET);
	poller_poll(test_poller);
	assert_int_equal((limit->bytes.missing + TOKEN_UNITS - 1) / TOKEN_UNITS, bytes);
	add_access(&test_conns[0], 1);
	poller_poll(test_poller);
	bytes += sizeof(struct wire_request) + sizeof(struct wire_response) + WIRE_ACCESS_BYTES;
	assert_int_equal((limit->bytes.missing + TOKEN_UNITS - 1) / TOKEN_UNITS, bytes);
}

/* What administrators ask is never beyond a limit; of others it may be. */
static void administrators_have_no_limit(void **state)
{
	static const enum wire_op ops[] = { WIRE_STATS, WIRE_CLIENTS, WIRE_KILL };

	(void)state;
	for (unsigned int i = 0; i < 6; i++) {
		struct test_conn *c = &test_conns[i % 2];

		conn_limit_init(&c->conn.limit, 1, 0);
		while (conn_limit_admit(&c->conn.limit, 1, test_worker.store_thread.now_ns))
			;
		c->conn.by_admin = i % 2;
		add_request(c, i, (struct wire_request){ .op = (uint8_t)ops[i / 2] }, NULL);
		poller_poll(test_poller);
		assert_int_equal(c->conn.deferred_count, i % 2);
		assert_int_equal(stat_read(&test_worker.stats.requests_limited), i / 2 + 1);
		if (i % 2 == 0)
			assert_int_equal(c->response.status, WIRE_BUSY);
		deferred_cancel(&c->conn);
	}
}

/* A flush begins, at its time; who asks again by its ticket learns when it has ended. */
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
		    test_worker.store_thread.now_ns + 7 * SECOND_NS);
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
		assert_true(i < 1000);
		ADD(a, 3, NULL, .op = WIRE_FLUSH);
		poller_poll(test_poller);
		test_conn_complete(a);
	}
	assert_int_equal(a->response.status, WIRE_BUSY);
	assert_true(a->response.ticket == 0);
	memset(maintenance, 0, sizeof(*maintenance));
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

static void assert_activity(enum activity expected)
{
	assert_int_equal(poller_poll(test_poller), expected);
}

/* A worker that has just slept rests again, unless it is a client that waits for what it found. */
static void activities(void **state)
{
	struct test_conn *a = &test_conns[0];

	(void)state;
	assert_activity(ACTIVITY_NONE);
	assert_int_equal(stat_read(&test_worker.stats.batches), 0);
	add_access(a, 0);
	assert_activity(ACTIVITY_UNAWAITED);
	add_completion(a, wr_id_make(WR_RESPONSE, 1, a->conn.serial, BUFFER_NONE));
	assert_activity(ACTIVITY_UNAWAITED);
	assert_int_equal(a->conn.sq_used, 0);
	assert_int_equal(stat_read(&test_worker.stats.batches), 2);
	add_access(a, 1);
	ADD(a, 2, NULL, .op = WIRE_PING);
	assert_activity(ACTIVITY_AWAITED);
	add_access(a, 3);
	assert_activity(ACTIVITY_UNAWAITED);
	assert_posted(4);
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
		assert_int_equal(a->conn.requests, i);
		assert_int_equal(a->conn.received_bytes, i * (sizeof(struct wire_request) + 3));
		assert_true(a->conn.active_ns >= before_ns);
		assert_true(a->conn.active_ns == test_worker.store_thread.now_ns);
		assert_int_equal(test_worker.turn.completions, i);
		test_conn_complete(a);
	}
	assert_true(test_worker.turn.began_ns != 0);
	assert_true(test_worker.turn.began_ns < test_worker.store_thread.now_ns);
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
	uint64_t late_ns = test_worker.store_thread.now_ns + 3600 * SECOND_NS;

	(void)state;
	conn->window_moves = true;
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
	conn->window_moves = false;
}

/* Receives that the device refused are tried again in each turn, and the worker does not sleep. */
static void refused_receives(void **state)
{
	(void)state;
	test_recvs_left = 0;
	ADD(&test_conns[0], 0, NULL, .op = WIRE_PING);
	assert_activity(ACTIVITY_AWAITED);
	assert_posted(0);
	assert_int_equal(test_poller->unposted_count, 1);
	assert_activity(ACTIVITY_UNAWAITED);
	test_recvs_left = UINT_MAX;
	assert_activity(ACTIVITY_NONE);
	assert_posted(1);
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
		/* What comes meanwhile waits behind them. */
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
	conn->window_moves = true;
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
	conn->window_moves = true;
	test_poller->limits.window = TEST_WINDOW;
	copy_make();
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
	assert_null(conn->copy);
	assert_int_equal(test_worker.copies_bytes, 0);
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

/* D1: a turn has one piece, whoever has deferred requests. */
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
		assert_int_equal(stat_read(&test_worker.stats.scans), i);
	}
	assert_false(deferred_run(&test_worker));
	assert_int_equal(stat_read(&test_worker.stats.deferred), 2);
}

/* What is held is that of all pollers, and of each budget in all classes. */
static void what_is_held(void **state)
{
	static struct worker w;

	(void)state;
	w.poller_count = 2;
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
	for (unsigned int i = 0; i < BUDGET_CLASSES; i++) {
		w.pull_budget.held[i] = 1000 << i;
		w.pull_budget.waiting_count[i] = 1 << i;
		w.build_budget.held[i] = 100 << i;
		w.build_budget.waiting_count[i] = 10 << i;
	}
	w.pulls_count = 5;
	w.copies_bytes = 77;
	/* It is what is held now, not what was held so far. */
	for (unsigned int i = 0; i < 2; i++) {
		held_show(&w);
		assert_int_equal(w.held.receives, 21);
		assert_int_equal(w.held.response_buffers, 11);
		assert_int_equal(w.held.spare_buffers, 5);
		assert_int_equal(w.held.spare_sends, 15);
		assert_int_equal(w.held.windows, 7);
		assert_int_equal(w.held.pulls, 5);
		assert_int_equal(w.held.pull_bytes, 7000);
		assert_int_equal(w.held.pull_waits, 7);
		assert_int_equal(w.held.build_bytes, 700);
		assert_int_equal(w.held.build_waits, 70);
		assert_int_equal(w.held.copy_bytes, 77);
	}
}

static int (*posts)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static int post_behind_receives(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	assert_posted(2);
	return posts(qp, wr, bad);
}

/* W4: the client meets a receive for what it sends when it has the response. */
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
	a->conn.stopped = true;
	add_completion(a, wr_id_make(WR_MARKER, 1, a->conn.serial, BUFFER_NONE));
	poller_poll(test_poller);
	assert_int_equal(a->conn.sq_used, 0);
	assert_quiesced(&a->conn, true);
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

/* A device that can wait: what it is asked for, and with what. */
static unsigned int sleeps;
static int sleep_fd, sleep_error, notify_error;

static int idle_sleep(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	assert_ptr_equal(channel, test_poller->comp_channel);
	(void)timeout_ms;
	sleep_fd = fd;
	sleeps++;
	/* No grace period waits for a worker that sleeps. */
	assert_false(rcu_read_ongoing());
	return sleep_error;
}

static int req_notify_cq(struct ibv_cq *of, int solicited)
{
	assert_ptr_equal(of, &cq);
	assert_int_equal(solicited, 0);
	notifies++;
	return notify_error;
}

static const struct device_ops *idle_begin(void)
{
	static struct device_ops idle_ops;
	const struct device_ops *before = test_poller->nic->dev->ops;

	idle_ops = *before;
	idle_ops.sleep = idle_sleep;
	test_poller->nic->dev->ops = &idle_ops;
	cq.context->ops.req_notify_cq = req_notify_cq;
	sleeps = 0;
	sleep_error = notify_error = 0;
	return before;
}

static void idle_end(const struct device_ops *before)
{
	test_poller->nic->dev->ops = before;
}

static void request_arrives(void)
{
	/* Between the request for a notification and the sleep. */
	if (!test_conns[0].conn.requests)
		ADD(&test_conns[0], 0, NULL, .op = WIRE_PING);
}

/* W3: it asks to be woken, looks once more, and sleeps only if there is nothing at all. */
static void sleeps_if_there_is_nothing(void **state)
{
	const struct device_ops *before = idle_begin();

	(void)state;
	assert_int_equal(worker_sleep(&test_worker), ACTIVITY_NONE);
	assert_int_equal(sleeps, 1);
	assert_int_equal(sleep_fd, test_worker.mailbox.event_fd);
	assert_int_equal(polls, 1);
	assert_int_equal(notifies, 0);
	assert_int_equal(stat_read(&test_worker.stats.sleeps), 1);
	assert_true(rcu_read_ongoing());
	on_poll = request_arrives;
	assert_int_equal(worker_sleep(&test_worker), ACTIVITY_AWAITED);
	assert_int_equal(sleeps, 1);
	assert_int_equal(test_conns[0].responses, 1);
	on_poll = NULL;
	mailbox_wake(&test_worker.mailbox);
	assert_int_equal(worker_sleep(&test_worker), ACTIVITY_NONE);
	assert_int_equal(sleeps, 1);
	mailbox_take(&test_worker.mailbox);
	atomic_store(&test_worker.stop, true);
	worker_sleep(&test_worker);
	assert_int_equal(sleeps, 1);
	atomic_store(&test_worker.stop, false);
	/* A device that does not promise to wake it. */
	notify_error = EIO;
	polls = 0;
	assert_int_equal(worker_sleep(&test_worker), ACTIVITY_NONE);
	assert_int_equal(sleeps, 1);
	assert_int_equal(stat_read(&test_worker.stats.sleeps), 1);
	idle_end(before);
}

static void can_not_sleep(void **state)
{
	const struct device_ops *before = idle_begin();

	(void)state;
	assert_int_equal(test_log_begin(), 0);
	sleep_error = -EBADF;
	worker_sleep(&test_worker);
	assert_logged("can't sleep: Bad file descriptor");
	assert_true(rcu_read_ongoing());
	log_init(LOG_OFF, NULL);
	idle_end(before);
}

/* At rest what others may need is given back, and shown. */
static void rests(void **state)
{
	const struct device_ops *before = idle_begin();
	struct conn *conn = &test_conns[1].conn;

	(void)state;
	copy_make();
	test_worker.pulls_count = 3;
	test_store.table.clock_base += COPY_NS_MAX + SECOND_NS;
	worker_rest(&test_worker);
	assert_null(test_conns[0].conn.copy);
	assert_int_equal(stat_read(&test_worker.held.pulls), 3);
	test_worker.pulls_count = 0;
	assert_int_equal(sleeps, 1);
	/* A window that is due comes first. */
	conn->window_look_ns = 0;
	TAILQ_INSERT_TAIL(&test_poller->windows.active, conn, window_entry);
	worker_rest(&test_worker);
	assert_int_equal(sleeps, 1);
	TAILQ_REMOVE(&test_poller->windows.active, conn, window_entry);
	worker_rest(&test_worker);
	assert_int_equal(sleeps, 2);
	/* server.poll = busy */
	test_worker.limits.busy = true;
	worker_rest(&test_worker);
	assert_int_equal(sleeps, 2);
	idle_end(before);
}

/* It polls for spin_ns before it sleeps, and after a wake-up that nobody awaited not at all. */
static void spins_before_it_sleeps(void **state)
{
	const struct device_ops *before = idle_begin();
	enum pace pace = PACE_ACTIVE;

	(void)state;
	test_worker.limits.spin_ns = 3600 * SECOND_NS;
	for (unsigned int i = 0; i < 3; i++) {
		worker_idle(&test_worker, ACTIVITY_NONE, &pace);
		assert_int_equal(sleeps, 0);
		assert_int_equal(pace, PACE_WAITING);
	}
	assert_true(test_worker.spin.limit_ns > 0);
	/* Its wait was long enough. */
	test_worker.spin.since_ns -= 2 * test_worker.limits.spin_ns;
	worker_idle(&test_worker, ACTIVITY_NONE, &pace);
	assert_int_equal(sleeps, 1);
	assert_int_equal(pace, PACE_WOKEN);
	assert_int_equal(test_worker.spin.vain, 1);
	worker_idle(&test_worker, ACTIVITY_UNAWAITED, &pace);
	assert_int_equal(sleeps, 2);
	assert_int_equal(pace, PACE_WOKEN);
	/* A request, and then it polls again as long. */
	worker_active(&test_worker, &pace);
	assert_int_equal(pace, PACE_ACTIVE);
	worker_idle(&test_worker, ACTIVITY_UNAWAITED, &pace);
	assert_int_equal(sleeps, 2);
	assert_int_equal(pace, PACE_WAITING);
	worker_active(&test_worker, &pace);
	assert_int_equal(test_worker.spin.vain, 0);
	/* A worker that always finds work lets others have the CPU, now and then. */
	test_worker.spin = (struct spin){ 0 };
	test_worker.stats.batches = SHARE_CHECK_EVERY + 1;
	worker_active(&test_worker, &pace);
	assert_true(test_worker.spin.shared_ns == 0);
	test_worker.stats.batches = SHARE_CHECK_EVERY - 1;
	test_worker.stats.deferred_pieces = 1;
	worker_active(&test_worker, &pace);
	assert_true(test_worker.spin.shared_ns != 0);
	/* server.poll = busy: for ever, with a clock that goes on. */
	test_worker.limits.busy = true;
	test_worker.limits.spin_ns = 0;
	test_worker.store_thread.now_ns = 0;
	for (unsigned int i = 0; i < 3; i++)
		worker_idle(&test_worker, ACTIVITY_NONE, &pace);
	assert_int_equal(sleeps, 2);
	assert_true(test_worker.store_thread.now_ns != 0);
	idle_end(before);
}

/* A turn that found nothing is none; the others are counted with what they found. */
static void three_turns(void)
{
	turns++;
	if (turns == 2 || turns == 4 || turns == 5)
		ADD(&test_conns[0], turns, NULL, .op = WIRE_PING);
	if (turns == 4)
		ADD(&test_conns[1], 0, NULL, .op = WIRE_PING);
	if (turns == 6)
		atomic_store(&test_worker.stop, true);
}

static void turns_are_counted(void **state)
{
	struct hist hist;

	(void)state;
	hist_init(&hist);
	turns = 0;
	test_worker.limits.busy = true;
	test_worker.cpu = -1;
	run(three_turns);
	turn_stats_read(&test_worker.turns, &hist);
	assert_int_equal(hist_count(&hist), 3);
	assert_int_equal(stat_read(&test_worker.turns.completions_max), 2);
	assert_int_equal(test_worker.turn.began_ns, 0);
	assert_int_equal(test_worker.held_turns, 3);
	/* Every HELD_TURNS of them say what is held. */
	test_worker.pulls_count = 7;
	test_worker.held_turns = HELD_TURNS - 2;
	worker_turn_begin(&test_worker);
	worker_turn_end(&test_worker);
	assert_int_equal(stat_read(&test_worker.held.pulls), 0);
	worker_turn_begin(&test_worker);
	worker_turn_end(&test_worker);
	assert_int_equal(stat_read(&test_worker.held.pulls), 7);
	test_worker.pulls_count = 0;
}

/* With two devices: either wakes it, and only one that has something is asked to do its work. */
static unsigned int works[2];
static struct ibv_comp_channel channels[2];

static int work_of_device(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	assert_int_equal(fd, -1);
	assert_int_equal(timeout_ms, 0);
	works[channel - channels]++;
	return 0;
}

static int refuse_notify(struct ibv_cq *of, int solicited)
{
	(void)of;
	(void)solicited;
	return EIO;
}

static void sleeps_on_two_devices(void **state)
{
	struct ibv_context deaf_context = { .ops.req_notify_cq = refuse_notify };
	struct ibv_cq deaf = { .context = &deaf_context };
	const struct device_ops *before = idle_begin();
	struct device_ops two = *before;

	(void)state;
	two.sleep = work_of_device;
	test_poller->nic->dev->ops = &two;
	test_worker.pollers[1] = *test_poller;
	TAILQ_INIT(&test_worker.pollers[1].windows.active);
	test_worker.poller_count = 2;
	for (unsigned int i = 0; i < 2; i++) {
		channels[i].fd = eventfd(0, EFD_NONBLOCK);
		test_worker.pollers[i].comp_channel = &channels[i];
	}
	for (unsigned int bits = 0; bits < 4; bits++) {
		works[0] = works[1] = 0;
		for (unsigned int i = 0; i < 2; i++)
			eventfd_write(channels[i].fd, bits >> i & 1);
		assert_int_equal(pollers_sleep(&test_worker, 0), 0);
		for (unsigned int i = 0; i < 2; i++) {
			eventfd_t count;

			assert_int_equal(works[i], bits >> i & 1);
			eventfd_read(channels[i].fd, &count);
		}
	}
	/* And so does mail, or this would not end. */
	works[0] = works[1] = 0;
	mailbox_wake(&test_worker.mailbox);
	assert_int_equal(pollers_sleep(&test_worker, -1), 0);
	assert_int_equal(works[0] + works[1], 0);
	mailbox_take(&test_worker.mailbox);
	/* Both are asked to wake it: only if both will, it sleeps. */
	for (unsigned int i = 0; i < 2; i++) {
		polls = 0;
		works[0] = works[1] = 0;
		notifies = 0;
		mailbox_wake(&test_worker.mailbox);
		test_worker.pollers[1].cq = i ? &cq : &deaf;
		assert_int_equal(worker_sleep(&test_worker), ACTIVITY_NONE);
		assert_int_equal(polls, 2 * i);
	}
	mailbox_take(&test_worker.mailbox);
	/* Both are polled, and the more urgent of what they have counts. */
	polls = 0;
	ADD(&test_conns[0], 0, NULL, .op = WIRE_PING);
	assert_int_equal(worker_poll(&test_worker), ACTIVITY_AWAITED);
	assert_int_equal(polls, 2);
	for (unsigned int i = 0; i < 2; i++)
		close(channels[i].fd);
	test_worker.poller_count = 1;
	test_poller->comp_channel = NULL;
	idle_end(before);
}

static struct bucket *changing; /* its chain */

static void no_sleep_beside_work(void)
{
	turns++;
	if (turns == 1)
		ADD(&test_conns[0], 0, NULL, .op = WIRE_SCAN);
	/* It was not armed in between, to sleep. */
	if (turns > 1 && turns < 10)
		assert_int_equal(notifies, 0);
	if (turns == 10)
		changing->epoch--;
	if (turns == 30)
		atomic_store(&test_worker.stop, true);
}

/* While a request is executed in pieces the worker goes on with it, whatever else there is. */
static void no_sleep_before_the_last_piece(void **state)
{
	const struct geometry *geometry = &test_store.region.geometry;
	const struct device_ops *before = idle_begin();

	(void)state;
	changing = region_at(&test_store.region, geometry_bucket_offset(geometry, 0));
	changing->epoch++;
	turns = 0;
	test_worker.cpu = -1;
	run(no_sleep_beside_work);
	assert_int_equal(test_conns[0].responses, 1);
	assert_int_equal(test_conns[0].response.status, WIRE_OK);
	assert_true(sleeps > 0);
	idle_end(before);
}

static struct note answer;
static unsigned int after_mail; /* the poll that follows the mail */

static void mail_in_a_turn(void)
{
	turns++;
	/* In the poll of a turn, not in the one before it sleeps. */
	if (turns > 3 && !notifies && !after_mail) {
		mailbox_send(&test_worker.mailbox, &answer);
		after_mail = turns + 1;
	}
	if (turns == after_mail)
		assert_int_equal(notifies, 0);
	if (turns == 30)
		atomic_store(&test_worker.stop, true);
}

/* The control thread's mail is expected to be followed by more: the worker polls on. */
static void no_sleep_behind_mail(void **state)
{
	const struct device_ops *before = idle_begin();

	(void)state;
	answer = (struct note){ .conn = &test_conns[0].conn, .kind = NOTE_ANSWER };
	turns = after_mail = 0;
	test_worker.cpu = -1;
	run(mail_in_a_turn);
	assert_true(after_mail > 0);
	assert_true(test_conns[0].conn.query.answered);
	assert_true(sleeps > 0);
	idle_end(before);
}

static void stop_soon(void)
{
	if (++turns == 20)
		atomic_store(&test_worker.stop, true);
}

/* A worker that never sleeps ends what has had its time, too, and holds up no grace period. */
static void looks_after_it_in_each_turn(void **state)
{
	struct conn *conn = &test_conns[1].conn;

	(void)state;
	test_worker.limits.busy = true;
	test_worker.limits.pull_stall_ns = 1;
	test_worker.cpu = -1;
	pull_clock_start(&test_conns[0].conn);
	conn->window_moves = true;
	test_poller->windows.active_count = 1;
	TAILQ_INSERT_TAIL(&test_poller->windows.active, conn, window_entry);
	turns = quiescents = 0;
	run(stop_soon);
	assert_true(test_conns[0].conn.stopped);
	assert_int_equal(test_conns[0].conn.pull_since_ns, 0);
	assert_false(conn->window_active);
	assert_int_equal(quiescents, turns);
	test_poller->windows.left = test_poller->windows.left_max;
	conn->window = TEST_WINDOW;
	conn->window_moves = false;
}

/* A worker whose thread can't be started is none, and one that was is stopped once. */
static void starts(void **state)
{
	struct worker *worker = &test_worker;
	struct timespec before, after;
	cpu_set_t cpus, one;
	uint64_t cpu_ns;

	(void)state;
	assert_int_equal(test_log_begin(), 0);
	worker->number = 42;
	create_error = EAGAIN;
	started_name[0] = '\0';
	assert_int_equal(worker_start(worker), -EAGAIN);
	assert_false(worker->started);
	assert_string_equal(started_name, "");
	assert_logged("worker 42: can't start its thread: Resource temporarily unavailable");
	assert_int_equal(worker_cpu_ns(worker), 0);
	worker_stop(worker);
	assert_false(worker->stop);
	create_error = 0;
	assert_int_equal(worker_start(worker), 0);
	assert_true(worker->started);
	assert_string_equal(started_name, "worker-42");
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	cpu_ns = worker_cpu_ns(worker);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	assert_in_range(cpu_ns, (uint64_t)before.tv_sec * SECOND_NS + (uint64_t)before.tv_nsec,
			(uint64_t)after.tv_sec * SECOND_NS + (uint64_t)after.tv_nsec);
	worker->started = false;
	/* Pinned to one CPU, or to none. */
	pthread_getaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	worker->cpu = -1;
	worker_pin(worker);
	pthread_getaffinity_np(pthread_self(), sizeof(one), &one);
	assert_true(CPU_EQUAL(&one, &cpus));
	for (worker->cpu = 0; !CPU_ISSET(worker->cpu, &cpus); worker->cpu++)
		;
	worker_pin(worker);
	pthread_getaffinity_np(pthread_self(), sizeof(one), &one);
	assert_int_equal(CPU_COUNT(&one), 1);
	assert_true(CPU_ISSET(worker->cpu, &one));
	pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	log_init(LOG_OFF, NULL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(stops_within_a_batch),
		CASE(drops),
		CASE(window_in_a_batch),
		CASE(older_completions),
		CASE(copies_end_beside_others),
		CASE(copies_end_with_the_next_request),
		CASE(looks_after_what_expires),
		CASE(activities),
		CASE(requests_are_counted),
		CASE(window_over_batches),
		CASE(more_may_have_arrived),
		CASE(refused_receives),
		CASE(goes_on_with_room),
		CASE(notes_in_turns),
		CASE(notes_of_a_connection),
		CASE(sleeps_if_there_is_nothing),
		CASE(can_not_sleep),
		CASE(rests),
		CASE(spins_before_it_sleeps),
		CASE(turns_are_counted),
		CASE(sleeps_on_two_devices),
		CASE(copies_cost),
		CASE(flushes),
		CASE(operations_are_counted),
		CASE(requests_cost),
		CASE(administrators_have_no_limit),
		CASE(becomes_active),
		CASE(releases_all),
		CASE(a_receive_used_again),
		CASE(one_piece_in_a_turn),
		CASE(what_is_held),
		CASE(receives_before_responses),
		CASE(drains),
		CASE(no_sleep_before_the_last_piece),
		CASE(no_sleep_behind_mail),
		CASE(looks_after_it_in_each_turn),
		CASE(starts),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
