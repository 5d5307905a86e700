/* SPDX-License-Identifier: MIT */
/*
 * Tests of changes that are sent again (server/worker/answers.h) through a worker's dispatch of
 * requests: a client whose connection breaks goes on at another worker, and each change was done
 * once, by either. The devices are tables of functions that keep the last response.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <urcu-qsbr.h>

#include "common/util/stat.h"
#include "server/worker/budget.h"
#include "server/worker/deferred.h"
#include "server/worker/pull.h"
#include "server/worker/pull_reads.h"
#include "server/worker/request.h"
#include "tests/support/limit_fixture.h"
#include "tests/support/store_fixture.h"

#define REGION_BYTES (16u << 20)
#define RECVS 16
#define BUFFER_BYTES 512
#define VALUE_BYTES 100
#define LONG_NS 3600000000000ull

/* A worker with one connection. */
static struct side {
	struct worker worker;
	struct conn conn;
	struct ibv_qp qp;
	struct ibv_send_wr read; /* the last one */
	struct ibv_sge sge;
	unsigned int reads, responses;
	struct wire_response response;
	uint8_t memory[2 * RECVS * BUFFER_BYTES]; /* receives, then responses */
	struct buffer buffers[2 * RECVS];
	uint32_t free[2 * RECVS];
} sides[2];

static struct store store;
static struct worker_env env;
static struct tenant tenant;
static struct late_principals late_principals;
static struct config config;
static struct mailbox control;

/* As a device whose values come by READs only. */
static int64_t read_now(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, void *to, uint32_t bytes,
			struct value_sum *sum)
{
	(void)qp, (void)rkey, (void)addr, (void)to, (void)bytes, (void)sum;
	return -EOPNOTSUPP;
}

static const struct device_ops ops = { .read_now = read_now };
static struct device dev = { .name = "test", .ops = &ops };
static struct nic nic = { .dev = &dev };
static struct ibv_context verbs;
static struct ibv_srq srq;
static struct ibv_mr mr;
static struct ibv_mr *mrs[EXTENTS_MAX] = { &mr };
static struct answers answers;
static struct budget_gates gates;
static bool device_refuses;

static int post_srq_recv(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)to;
	(void)wr;
	(void)bad;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct side *side = caa_container_of(qp, struct side, qp);

	(void)bad;
	if (device_refuses)
		return EINVAL;
	for (; wr; wr = wr->next) {
		if (wr->opcode == IBV_WR_SEND) {
			memcpy(&side->response, (void *)(uintptr_t)wr->sg_list->addr,
			       sizeof(side->response));
			side->responses++;
			continue;
		}
		side->read = *wr;
		side->sge = *wr->sg_list;
		side->reads++;
	}
	return 0;
}

static void conn_setup(struct side *side)
{
	static const struct principal principal = { "uid=0" };

	side->conn = (struct conn){
		.poller = &side->worker.pollers[0],
		.client.worker = &side->worker,
		.client.part = &side->worker.part,
		.client.principal = &principal,
		.client.wake = deferred_wake_client,
		.mrs = mrs,
		.qp = &side->qp,
		.window = RECVS,
		.response_bytes = BUFFER_BYTES,
		.probes_answered = 1,
		.sent_first = BUFFER_NONE,
		.sent_last = BUFFER_NONE,
		.answers = &answers,
		.change_admitted = answers.last,
		.hello_done = true,
	};
	TAILQ_INIT(&side->conn.deferred);
	side->conn.client.gates = &gates;
	side->conn.pull_hold.client = &side->conn.client;
	side->conn.pull_hold.own = &gates.pulls;
	for (unsigned int i = 0; i < NOTE_KINDS; i++)
		side->conn.notes[i] = (struct note){ .conn = &side->conn, .kind = i };
}

static void side_setup(struct side *side, uint8_t number)
{
	struct worker *worker = &side->worker;

	memset(side, 0, sizeof(*side));
	side->qp.context = &verbs;
	worker->env = &env;
	worker->limits = (struct worker_limits){ .pull_ns = LONG_NS, .pull_stall_ns = LONG_NS };
	TAILQ_INIT(&worker->deferred_conns);
	TAILQ_INIT(&worker->pulls);
	TAILQ_INIT(&worker->pulls_by_progress);
	worker->part.store = &store;
	worker->part.tenant = &tenant;
	worker->pollers[0] = (struct poller){
		.worker = worker,
		.nic = &nic,
		.limits = { .srq_depth = RECVS,
			    .signal_every = RECVS,
			    .buffer_bytes = BUFFER_BYTES },
		.srq = &srq,
		.mr = &mr,
		.memory = side->memory,
		.buffers = side->buffers,
		.free = side->free,
		.inline_max = BUFFER_BYTES,
	};
	for (uint32_t i = 2 * RECVS; i > RECVS; i--)
		buffer_put(&worker->pollers[0], i - 1);
	assert_int_equal(deferred_init(&worker->pollers[0]), 0);
	assert_int_equal(store_thread_init(&worker->part.thread, &store.table, number), 0);
	conn_setup(side);
}

static int setup(void **state)
{
	(void)state;
	rcu_register_thread();
	test_store_create(&store, REGION_BYTES, 4, 2);
	budget_gates_init(&gates);
	budget_init(&tenant.pull_budget, REGION_BYTES);
	budget_init(&tenant.build_budget, REGION_BYTES);
	late_principals = (struct late_principals){ 0 };
	env = (struct worker_env){
		.store = &store,
		.control = &control,
		.config = &config,
		.late_principals = &late_principals,
	};
	verbs.ops.post_send = post_send;
	verbs.ops.post_srq_recv = post_srq_recv;
	srq.context = &verbs;
	nic.port.max_msg_sz = 1u << 30;
	device_refuses = false;
	answers_init(&answers, 1);
	assert_int_equal(mailbox_init(&control), 0);
	side_setup(&sides[0], 1);
	side_setup(&sides[1], 2);
	assert_int_equal(maintenance_init(&store.maintenance, &store.table, 3, 1, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		deferred_release(&sides[i].worker.pollers[0]);
		store_thread_release(&sides[i].worker.part.thread);
	}
	mailbox_release(&control);
	maintenance_release(&store.maintenance);
	test_store_destroy(&store);
	rcu_unregister_thread();
	return 0;
}

/* The request arrives, and is executed with all that it defers, but for READs. */
static void send(struct side *side, const struct request *request)
{
	struct poller *poller = &side->worker.pollers[0];
	struct response_list responses = { .poller = poller };
	static uint32_t buffer;
	uint64_t hash = request->key ? table_hash(&store.table, request->key, request->key_len) : 0;

	store_thread_clock(&side->worker.part.thread);
	side->responses = 0;
	buffer = (buffer + 1) % RECVS;
	request_execute(&responses, &side->conn, request, hash, buffer);
	responses_send(&responses);
	while (deferred_run(&side->worker))
		rcu_quiescent_state();
	response_release_all(poller, &side->conn);
}

/* The client's next connection is to the other worker. */
static void connect_to(struct side *side)
{
	for (int i = 0; i < 2; i++)
		deferred_cancel(&sides[i].conn);
	conn_setup(side);
}

#define KEY(k) .key = (const uint8_t *)(k), .key_len = sizeof(k) - 1
#define VALUE(v) .value = (const uint8_t *)(v), .value_len = sizeof(v) - 1

/* The changes that the cases make, and what each answers when it is executed. */
static const struct {
	struct request request;
	enum wire_status status;
} changes[] = {
	{ { .op = WIRE_ARITH, KEY("n"), .flags = WIRE_F_CREATE, .initial = 40, .delta = 1 },
	  WIRE_OK },
	{ { .op = WIRE_ARITH, KEY("n"), .delta = 2 }, WIRE_OK },
	{ { .op = WIRE_PUT, KEY("s"), VALUE("ab"), .mode = WIRE_ADD }, WIRE_OK },
	{ { .op = WIRE_PUT, KEY("s"), VALUE("ab"), .mode = WIRE_ADD }, WIRE_EXISTS },
	{ { .op = WIRE_PUT, KEY("s"), VALUE("cd"), .mode = WIRE_APPEND }, WIRE_OK },
	{ { .op = WIRE_TOUCH, KEY("s"), .ttl = 1000 }, WIRE_OK },
	{ { .op = WIRE_TOUCH, KEY("s"), .flags = WIRE_F_VALUE, .ttl = 2000 }, WIRE_OK },
	{ { .op = WIRE_TOUCH, KEY("none"), .flags = WIRE_F_VALUE, .ttl = 2000 }, WIRE_NOT_FOUND },
	{ { .op = WIRE_PING }, WIRE_OK },
	{ { .op = WIRE_PUT, KEY("d"), VALUE("x") }, WIRE_OK },
	{ { .op = WIRE_DELETE, KEY("d") }, WIRE_OK },
	{ { .op = WIRE_DELETE, KEY("d") }, WIRE_NOT_FOUND },
	/* Of which the answer has a ticket. */
	{ { .op = WIRE_FLUSH, .ttl = 1000 }, WIRE_OK },
	{ { .op = WIRE_PUT, KEY("d"), VALUE("y") }, WIRE_OK },
};
#define CHANGES (sizeof(changes) / sizeof(changes[0]))
#define TOUCHED 6 /* index in `changes` of the TOUCH with a value */

static void send_change(struct side *side, unsigned int i)
{
	struct request request = changes[i].request;

	request.change = request.id = i + 1;
	send(side, &request);
	assert_int_equal(side->responses, 1);
	assert_int_equal(side->response.id, i + 1);
	assert_int_equal(side->response.status, changes[i].status);
}

static void assert_value(const char *key, const char *value)
{
	struct store_value out;
	char bytes[VALUE_BYTES] = "";

	assert_int_equal(test_store_get(&store, key, (uint32_t)strlen(key), bytes, sizeof(bytes),
					&out),
			 WIRE_OK);
	assert_int_equal(out.value_len, strlen(value));
	assert_memory_equal(bytes, value, out.value_len);
}

static void assert_all_done_once(void)
{
	assert_value("n", "42");
	assert_value("s", "abcd");
	assert_value("d", "y");
}

/* After each change the connection breaks, and all of them are sent again at the other worker. */
static void each_is_done_once(void **state)
{
	struct wire_response first[CHANGES];
	uint32_t values = 0;

	(void)state;
	for (unsigned int i = 0; i < CHANGES; i++) {
		struct side *side = &sides[i % 2];

		connect_to(side);
		for (unsigned int j = 0; j < i; j++) {
			send_change(side, j);
			assert_int_equal(side->response.flags, WIRE_R_REPEATED);
			assert_true(side->response.version == first[j].version);
			assert_true(side->response.slot == first[j].slot);
			assert_true(side->response.arg64 == first[j].arg64);
			assert_int_equal(side->response.expires, first[j].expires);
			assert_int_equal(side->response.value_len, 0);
		}
		send_change(side, i);
		assert_int_equal(side->response.flags, 0);
		first[i] = side->response;
		values += side->response.value_len;
	}
	assert_int_equal(first[1].result, 42);
	/* The value came once; later answers have its length and version. */
	assert_int_equal(values, 4);
	assert_int_equal(first[TOUCHED].result, 4);
	assert_true(first[TOUCHED].version == first[TOUCHED - 1].version);
	assert_all_done_once();
	assert_int_equal(sides[0].worker.stats.answers_repeated +
				 sides[1].worker.stats.answers_repeated,
			 CHANGES * (CHANGES - 1) / 2);
}

/* The change is recorded even if the device does not take its response. */
static void done_without_a_response(void **state)
{
	struct request incr = { .op = WIRE_ARITH, KEY("n"), .delta = 1, .change = 2 };

	(void)state;
	send_change(&sides[0], 0);
	device_refuses = true;
	send(&sides[0], &incr);
	device_refuses = false;
	assert_int_equal(sides[0].responses, 0);
	assert_true(sides[0].conn.stopped);
	connect_to(&sides[1]);
	send(&sides[1], &incr);
	assert_int_equal(sides[1].response.flags, WIRE_R_REPEATED);
	assert_int_equal(sides[1].response.result, 41);
	assert_value("n", "41");
}

/* LIMIT uses the number up, and what was sent before is never refused for a limit. */
static void limits(void **state)
{
	static struct test_limit limit;
	struct request put = { .op = WIRE_PUT, KEY("s"), VALUE("ab"), .change = 1 };

	(void)state;
	send(&sides[0], &put);
	assert_int_equal(sides[0].response.status, WIRE_OK);
	test_limit_set(&limit, &sides[0].conn, 1, 0);
	while (sides[0].response.status == WIRE_OK) {
		put.change++;
		send(&sides[0], &put);
	}
	assert_int_equal(sides[0].response.status, WIRE_LIMIT);
	assert_int_equal(answers.last, put.change);
	put.change--;
	send(&sides[0], &put);
	assert_int_equal(sides[0].response.flags, WIRE_R_REPEATED);
	assert_int_equal(sides[0].response.status, WIRE_OK);
	put.change++;
	connect_to(&sides[1]);
	send(&sides[1], &put);
	assert_int_equal(sides[1].response.flags, WIRE_R_REPEATED);
	assert_int_equal(sides[1].response.status, WIRE_LIMIT);
	put.change++;
	send(&sides[1], &put);
	assert_int_equal(sides[1].response.status, WIRE_OK);
}

/* Statistics and lists count like other requests. */
static void limits_of_queries(void **state)
{
	static const enum wire_op ops_of[] = { WIRE_STATS, WIRE_CLIENTS, WIRE_KILL };
	static struct test_limit limit;
	struct side *side = &sides[0];

	(void)state;
	test_limit_set(&limit, &side->conn, 1, 0);
	do
		send(side, &(struct request){ .op = WIRE_PING, .id = 1 });
	while (side->response.status == WIRE_OK);
	for (unsigned int i = 0; i < 3; i++) {
		send(side, &(struct request){ .op = ops_of[i], .id = 2 });
		assert_int_equal(side->responses, 1);
		assert_int_equal(side->response.op, ops_of[i]);
		assert_int_equal(side->response.status, WIRE_LIMIT);
	}
	assert_null(mailbox_take(&control));
}

static void forgotten(void **state)
{
	struct request incr = { .op = WIRE_ARITH, KEY("n"), .delta = 1, .change = 1 };

	(void)state;
	send_change(&sides[0], 0);
	answers_init(&answers, 2);
	connect_to(&sides[1]);
	send(&sides[1], &incr);
	assert_int_equal(sides[1].response.status, WIRE_UNKNOWN);
	assert_int_equal(sides[1].response.flags, 0);
	assert_int_equal(sides[1].worker.stats.answers_unknown, 1);
	assert_value("n", "40");
}

static enum piece_next wait_step(struct deferred *deferred, struct response_list *responses,
				 uint64_t until_ns)
{
	(void)deferred;
	(void)responses;
	(void)until_ns;
	return PIECE_WAIT;
}

static const struct deferred_kind waiting_kind = { .step = wait_step };

static void numbers_that_end_the_connection(void **state)
{
	struct request put = { .op = WIRE_PUT, KEY("s"), VALUE("ab"), .change = 2 };

	(void)state;
	send(&sides[0], &put);
	assert_true(sides[0].conn.stopped);
	connect_to(&sides[0]);
	sides[0].conn.answers = NULL;
	put.change = 1;
	send(&sides[0], &put);
	assert_true(sides[0].conn.stopped);
	connect_to(&sides[0]);
	sides[0].conn.hello_done = false;
	send(&sides[0], &put);
	assert_true(sides[0].conn.stopped);
	/* After a HELLO that waits. */
	connect_to(&sides[0]);
	sides[0].conn.hello_done = false;
	deferred_start(&sides[0].conn, &waiting_kind, &(struct request){ .op = WIRE_HELLO }, 0, 0);
	send(&sides[0], &put);
	assert_true(sides[0].conn.stopped);
	assert_int_equal(answers.last, 0);
	/* A change without a number is as before. */
	connect_to(&sides[0]);
	put.change = 0;
	send(&sides[0], &put);
	assert_int_equal(sides[0].response.status, WIRE_OK);
	assert_int_equal(answers.last, 0);
}

static void serve_read(struct side *side)
{
	memcpy((void *)(uintptr_t)side->sge.addr, (void *)(uintptr_t)side->read.wr.rdma.remote_addr,
	       side->sge.length);
	pull_done(&side->conn, side->read.wr_id);
	deferred_wake(&side->conn);
}

/* A pull that the end of its connection interrupts was not executed; one that arrived was, once. */
static void pulls(void **state)
{
	static const char value[] = "pulled";
	struct request put = {
		.op = WIRE_PUT,
		KEY("s"),
		.mode = WIRE_APPEND,
		.flags = WIRE_F_PULL,
		.value_len = sizeof(value) - 1,
		.pull_addr = (uintptr_t)value,
		.change = 2,
	};

	(void)state;
	send(&sides[0], &(struct request){ .op = WIRE_PUT, KEY("s"), VALUE("ab"), .change = 1 });
	send(&sides[0], &put);
	deferred_run(&sides[0].worker);
	assert_int_equal(sides[0].reads, 1);
	serve_read(&sides[0]);
	/* The connection ends before the piece that would have stored it. */
	sides[0].conn.stopped = true;
	deferred_run(&sides[0].worker);
	pull_release(&sides[0].conn);
	assert_int_equal(answers.last, 1);
	assert_value("s", "ab");
	connect_to(&sides[1]);
	send(&sides[1], &put);
	deferred_run(&sides[1].worker);
	assert_int_equal(sides[1].reads, 1);
	serve_read(&sides[1]);
	while (deferred_run(&sides[1].worker))
		rcu_quiescent_state();
	assert_int_equal(sides[1].response.status, WIRE_OK);
	assert_int_equal(sides[1].response.flags, 0);
	connect_to(&sides[0]);
	send(&sides[0], &put);
	assert_int_equal(sides[0].reads, 1);
	assert_int_equal(sides[0].response.flags, WIRE_R_REPEATED);
	assert_true(sides[0].response.version == sides[1].response.version);
	assert_value("s", "abpulled");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_is_done_once),
		CASE(done_without_a_response),
		CASE(limits),
		CASE(limits_of_queries),
		CASE(forgotten),
		CASE(numbers_that_end_the_connection),
		CASE(pulls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
