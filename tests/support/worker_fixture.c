/* SPDX-License-Identifier: MIT */
/* Sets up a worker on a device of functions, and takes what it posts. */
#include "tests/support/worker_fixture.h"

#include <limits.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <urcu-qsbr.h>

#include "common/sum.h"
#include "common/util/stat.h"
#include "server/worker/budget.h"
#include "server/worker/deferred.h"
#include "server/worker/pull.h"
#include "server/worker/request.h"
#include "tests/support/store_fixture.h"

#define BUFFERS (TEST_RECVS * 2)
#define TURNS_MAX 100000
#define LONG_NS 3600000000000ull

struct store test_store;
struct worker test_worker;
struct tenant test_tenant;
struct late_principals test_late_principals;
/* Gates of the principal of all connections, and of others. */
static struct budget_gates test_gates[1 + TEST_CONNS];
struct ibv_mr test_tenant_mr;
struct ibv_mr *test_tenant_mrs[EXTENTS_MAX] = { &test_tenant_mr };
struct poller *const test_poller = &test_worker.pollers[0];
struct test_conn test_conns[TEST_CONNS];
unsigned int test_recvs[TEST_RECVS], test_recvs_left;
uint64_t test_now_bytes;
unsigned int test_now_refusals;
const struct test_conn *test_now_busy;
bool test_now_busy_till_probe;

static struct worker_env env;
static struct mailbox control;
static int64_t read_now(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, void *to, uint32_t bytes,
			struct value_sum *sum);
static const struct device_ops ops = { .read_now = read_now };
static struct device dev = { .name = "test", .ops = &ops };
static struct nic nic = { .dev = &dev };
static struct ibv_context verbs;
static struct ibv_srq srq;
static struct ibv_mr mr;

static int64_t read_now(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, void *to, uint32_t bytes,
			struct value_sum *sum)
{
	(void)rkey;
	if (test_now_refusals) {
		test_now_refusals--;
		return -EAGAIN;
	}
	if (!test_now_bytes)
		return -EAGAIN;
	if (test_now_busy && qp == &test_now_busy->qp && bytes)
		return -EBUSY;
	if (bytes > test_now_bytes)
		bytes = (uint32_t)test_now_bytes;
	test_now_bytes -= bytes;
	if (bytes)
		value_sum_copy(sum, to, (const void *)(uintptr_t)addr, bytes);
	return bytes;
}

static int post_srq_recv(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)to;
	for (; wr && test_recvs_left; wr = wr->next, test_recvs_left--)
		test_recvs[wr_id_buffer(wr->wr_id)]++;
	*bad = wr;
	return wr ? ENOMEM : 0;
}

static void take_response(struct test_conn *c, const struct ibv_send_wr *wr)
{
	const uint8_t *message = (const uint8_t *)(uintptr_t)wr->sg_list->addr;

	assert_in_range(wr->sg_list->length, sizeof(c->response), c->conn.response_bytes);
	memcpy(&c->response, message, sizeof(c->response));
	c->value_len = wr->sg_list->length - (uint32_t)sizeof(c->response);
	memcpy(c->value, message + sizeof(c->response), c->value_len);
	c->responses++;
	if (c->id_count < TEST_POSTED_MAX)
		c->ids[c->id_count++] = c->response.id;
	if (wr->send_flags & IBV_SEND_SIGNALED)
		c->completes = wr->wr_id;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct test_conn *c = caa_container_of(qp, struct test_conn, qp);

	(void)bad;
	for (; wr; wr = wr->next) {
		if (wr->opcode == IBV_WR_SEND) {
			take_response(c, wr);
			continue;
		}
		if (wr->opcode == IBV_WR_BIND_MW) {
			/* Before the key is said. */
			assert_int_equal(c->responses, 0);
			assert_int_equal(c->bind.wr_id, 0);
			c->bind = *wr;
			continue;
		}
		assert_int_equal(wr->opcode, IBV_WR_RDMA_READ);
		if (!wr->num_sge) {
			assert_int_equal(c->probe, 0);
			c->probe = wr->wr_id;
			if (test_now_busy_till_probe)
				test_now_busy = NULL;
			test_now_busy_till_probe = false;
			continue;
		}
		assert_true(c->read_count < TEST_POSTED_MAX);
		c->reads[c->read_count] = *wr;
		c->sges[c->read_count++] = *wr->sg_list;
	}
	return 0;
}

void test_conn_setup(struct test_conn *c)
{
	*c = (struct test_conn){
		.qp = { .context = &verbs },
		.conn = {
			.poller = test_poller,
			.client.worker = &test_worker,
			.client.part = &test_worker.part,
			.client.principal = &c->principal,
			.client.wake = deferred_wake_client,
			.mrs = test_tenant_mrs,
			.qp = &c->qp,
			.window = TEST_WINDOW,
			.response_bytes = TEST_BUFFER_BYTES,
			.sq_depth = poller_sq_depth(test_poller, TEST_WINDOW) - MARKERS,
			.probes_answered = 1,
			.sent_first = BUFFER_NONE,
			.sent_last = BUFFER_NONE,
		},
	};
	TAILQ_INIT(&c->conn.deferred);
	c->conn.client.gates = &test_gates[0];
	c->conn.pull_hold.client = &c->conn.client;
	c->conn.pull_hold.own = &test_gates[0].pulls;
	atomic_store(&c->conn.hello_done, true);
	for (unsigned int i = 0; i < NOTE_KINDS; i++)
		c->conn.notes[i] = (struct note){ .conn = &c->conn, .kind = (enum note_kind)i };
}

void test_conn_principal(struct test_conn *c, const char *name)
{
	struct budget_gates *gates = &test_gates[1 + (c - test_conns)];

	assert_int_equal(c->conn.pull_hold.bytes + c->conn.pull_hold.wanted, 0);
	snprintf(c->principal.name, sizeof(c->principal.name), "%s", name);
	c->conn.client.gates = gates;
	c->conn.pull_hold.own = &gates->pulls;
}

void test_conn_complete(struct test_conn *c)
{
	while (c->conn.sent_first != BUFFER_NONE)
		response_done(test_poller, &c->conn, c->completes);
	sq_put(&c->conn, c->conn.sq_used);
	c->conn.sq_unsignaled = 0;
}

void test_conn_end(struct test_conn *c)
{
	c->conn.stopped = true;
	deferred_cancel(&c->conn);
	c->conn.qp_destroyed = true;
	deferred_cancel(&c->conn);
	pull_release(&c->conn);
	response_release_all(test_poller, &c->conn);
	assert_int_equal(c->conn.sq_used, 0);
	assert_int_equal(c->conn.buffers, 0);
}

static void poller_setup(void)
{
	*test_poller = (struct poller){
		.worker = &test_worker,
		.nic = &nic,
		.limits = { .srq_depth = TEST_RECVS,
			    .buffer_bytes = TEST_BUFFER_BYTES,
			    .signal_every = TEST_WINDOW },
		.posted = TEST_RECVS,
		.srq = &srq,
		.mr = &mr,
		.inline_max = sizeof(struct wire_response),
		.memory = calloc(BUFFERS, TEST_BUFFER_BYTES),
		.buffers = calloc(BUFFERS, sizeof(struct buffer)),
		.free = calloc(BUFFERS, sizeof(uint32_t)),
	};
	for (uint32_t i = TEST_RECVS; i < BUFFERS; i++)
		buffer_put(test_poller, i);
}

int test_worker_create(uint64_t region_bytes, uint64_t value_max)
{
	rcu_register_thread();
	test_store_create(&test_store, region_bytes, 5, 1);
	test_store.region.geometry.value_max = value_max;
	memset(&test_worker, 0, sizeof(test_worker));
	memset(test_recvs, 0, sizeof(test_recvs));
	test_recvs_left = UINT_MAX;
	test_now_bytes = test_now_refusals = 0;
	test_now_busy = NULL;
	test_late_principals = (struct late_principals){ 0 };
	env = (struct worker_env){
		.store = &test_store,
		.control = &control,
		.late_principals = &test_late_principals,
	};
	test_worker.env = &env;
	test_worker.limits = (struct worker_limits){
		.pull_ns = LONG_NS,
		.pull_stall_ns = LONG_NS,
		.workers = 1,
	};
	test_worker.part.store = &test_store;
	TAILQ_INIT(&test_worker.deferred_conns);
	TAILQ_INIT(&test_worker.pulls);
	TAILQ_INIT(&test_worker.pulls_by_progress);
	test_worker.part.tenant = &test_tenant;
	test_tenant = (struct tenant){ .state = TENANT_SERVES, .now.extents = 1 };
	for (unsigned int i = 0; i <= TEST_CONNS; i++)
		budget_gates_init(&test_gates[i]);
	budget_init(&test_tenant.pull_budget, region_bytes);
	budget_init(&test_tenant.build_budget, region_bytes);
	verbs.ops.post_send = post_send;
	verbs.ops.post_srq_recv = post_srq_recv;
	srq.context = &verbs;
	nic.port.max_msg_sz = 1u << 30;
	poller_setup();
	for (unsigned int i = 0; i < TEST_CONNS; i++)
		test_conn_setup(&test_conns[i]);
	assert_int_equal(mailbox_init(&control), 0);
	assert_int_equal(deferred_init(test_poller), 0);
	assert_int_equal(store_thread_init(&test_worker.part.thread, &test_store.table, 1), 0);
	store_thread_clock(&test_worker.part.thread);
	return 0;
}

void test_worker_destroy(void)
{
	const char *error;

	for (unsigned int i = 0; i < TEST_CONNS; i++) {
		assert_false(deferred_pending(&test_conns[i].conn));
		assert_int_equal(test_conns[i].conn.deferred_count, 0);
		test_conn_complete(&test_conns[i]);
		assert_int_equal(test_conns[i].conn.buffers, 0);
	}
	assert_int_equal(test_poller->posted + test_poller->unposted_count, TEST_RECVS);
	assert_int_equal(test_poller->spare_buffers, test_poller->spare_buffers_max);
	assert_int_equal(test_poller->spare_sends, test_poller->spare_sends_max);
	assert_int_equal(test_poller->windows.left, test_poller->windows.left_max);
	assert_false(deferred_run(&test_worker));
	assert_int_equal(test_poller->free_count, BUFFERS - TEST_RECVS);
	assert_int_equal(test_tenant.pull_budget.all.passed, 0);
	assert_int_equal(test_tenant.pull_budget.waits, 0);
	assert_int_equal(test_tenant.build_budget.all.passed, 0);
	assert_int_equal(test_tenant.build_budget.waits, 0);
	assert_true(TAILQ_EMPTY(&test_worker.pulls));
	assert_true(TAILQ_EMPTY(&test_worker.pulls_by_progress));
	assert_int_equal(stat_read(&test_worker.pulls_count), 0);
	deferred_release(test_poller);
	free(test_poller->memory);
	free(test_poller->buffers);
	free(test_poller->free);
	mailbox_release(&control);
	store_thread_idle(&test_worker.part.thread);
	/* That the test has set: the superblock has another one. */
	test_store.region.geometry.value_max =
		region_superblock(&test_store.region)->geometry.value_max;
	error = test_store_check(&test_store, NULL);
	if (error)
		print_error("%s\n", error);
	assert_null(error);
	store_thread_release(&test_worker.part.thread);
	test_store_destroy(&test_store);
	rcu_unregister_thread();
}

uint8_t *test_recv(uint32_t buffer)
{
	assert_true(buffer < TEST_RECVS);
	return poller_buffer(test_poller, buffer);
}

bool test_receive(struct test_conn *c, uint32_t buffer, size_t len)
{
	struct response_list responses = { .poller = test_poller };
	struct request request;
	uint64_t hash = 0;
	bool done;

	assert_null(wire_request_parse(&request, test_recv(buffer), len));
	if (request.key)
		hash = table_hash(&test_store.table, request.key, request.key_len);
	store_thread_clock(&test_worker.part.thread);
	rcu_read_lock();
	done = request_execute(&responses, &c->conn, &request, hash, buffer);
	responses_send(&responses);
	rcu_read_unlock();
	test_poller->posted -= !done;
	return done;
}

bool test_turn(void)
{
	bool ran = deferred_run(&test_worker);

	rcu_quiescent_state();
	turn_end(&test_worker.turn, &test_worker.turns, test_worker.part.thread.now_ns);
	return ran;
}

unsigned int test_turns(void)
{
	unsigned int n = 0;

	while (test_turn())
		assert_true(++n < TURNS_MAX);
	return n;
}
