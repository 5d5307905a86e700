/* SPDX-License-Identifier: MIT */
/*
 * Tests of what connections share on a poller: response buffers and places in the completion queue.
 * The device is a function that keeps what was posted; the test decides when it completes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/users/account.h"
#include "server/users/user.h"
#include "server/worker/response.h"
#include "server/worker/window.h"
#include "server/worker/worker.h"

#define SRQ_DEPTH 32u
#define SPARE_SENDS 6u
#define BUFFER_BYTES 2048u
#define CONNS 5
#define POSTED_MAX 256
#define STEPS 100000

/* The windows use up the receives. The first connections take no response, the last one does. */
static const uint32_t windows[CONNS] = { 8, 8, 8, 7, 1 };

struct posted {
	uint64_t wr_id;
	bool signaled, is_inline;
};

struct test_conn {
	struct conn conn;
	struct ibv_qp qp;
	struct cm_id id;
	struct posted posted[POSTED_MAX]; /* oldest first */
	unsigned int count;
};

static struct worker worker;
static struct table table;
static struct poller *const poller = &worker.pollers[0];
static struct test_conn conns[CONNS];
static struct ibv_context verbs;
static struct ibv_mr mr;
static struct mailbox control;
static struct worker_env env = { .control = &control };
static struct device dev = { .name = "fake0" };
static struct nic nic = { .dev = &dev };
static int post_error;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct test_conn *c = caa_container_of(qp, struct test_conn, qp);

	*bad = wr;
	if (post_error)
		return post_error;
	for (; wr; wr = wr->next) {
		assert_true(c->count < POSTED_MAX);
		c->posted[c->count++] = (struct posted){
			.wr_id = wr->wr_id,
			.signaled = wr->send_flags & IBV_SEND_SIGNALED,
			.is_inline = wr->send_flags & IBV_SEND_INLINE,
		};
	}
	return 0;
}

static void poller_setup(void)
{
	uint32_t i, buffers = SRQ_DEPTH + SRQ_DEPTH / 4;

	*poller = (struct poller){
		.worker = &worker,
		.limits = { .srq_depth = SRQ_DEPTH,
			    .buffer_bytes = BUFFER_BYTES,
			    .signal_every = 1 + SENDS_BESIDE_WINDOW },
		.spare_buffers = SRQ_DEPTH / 4,
		.spare_sends = SPARE_SENDS,
		.inline_max = sizeof(struct wire_response),
		.memory = calloc(buffers, BUFFER_BYTES),
		.buffers = calloc(buffers, sizeof(struct buffer)),
		.free = calloc(buffers, sizeof(uint32_t)),
		.mr = &mr,
	};
	for (i = 0; i < buffers; i++)
		buffer_put(poller, i);
}

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	memset(&worker, 0, sizeof(worker));
	memset(conns, 0, sizeof(conns));
	verbs.ops.post_send = post_send;
	worker.env = &env;
	worker.part.thread.table = &table;
	post_error = 0;
	assert_int_equal(mailbox_init(&control), 0);
	poller_setup();
	poller->nic = &nic;
	for (i = 0; i < CONNS; i++) {
		conns[i].qp.context = &verbs;
		conns[i].conn = (struct conn){
			.qp = &conns[i].qp,
			.id = &conns[i].id,
			.poller = poller,
			.client.worker = &worker,
			.client.part = &worker.part,
			.window = windows[i],
			.sq_depth = poller_sq_depth(poller, windows[i]) - MARKERS,
			.response_bytes = BUFFER_BYTES,
			.sent_first = BUFFER_NONE,
			.sent_last = BUFFER_NONE,
		};
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(poller->memory);
	free(poller->buffers);
	free(poller->free);
	assert_null(mailbox_take(&control));
	mailbox_release(&control);
	return 0;
}

/* Responds to a request, with a value that needs a buffer or without one. False: it has to wait. */
static bool respond(struct test_conn *c, bool value)
{
	struct response_list responses = { .poller = poller };
	struct response_wr *response;
	uint32_t size;

	if (!response_room(&c->conn))
		return false;
	response = response_start(&responses, &c->conn, WIRE_GET, 1);
	if (value) {
		assert_non_null(response_buffer(&responses, response, &size));
		response->value_len = size;
	}
	responses_send(&responses);
	assert_false(c->conn.stopped);
	return true;
}

/* The device completes the work requests up to the next signaled one. False: there is none. */
static bool complete(struct test_conn *c)
{
	unsigned int n = 0;

	while (n < c->count && !c->posted[n].signaled)
		n++;
	if (n == c->count)
		return false;
	response_done(poller, &c->conn, c->posted[n].wr_id);
	c->count -= n + 1;
	memmove(c->posted, c->posted + n + 1, c->count * sizeof(c->posted[0]));
	return true;
}

static unsigned int sends_outstanding(void)
{
	unsigned int i, sum = 0;

	for (i = 0; i < CONNS; i++)
		sum += conns[i].conn.sq_used;
	return sum;
}

/* Deaf clients take all that is spare; one of window 1 goes on for ever. */
static void window_1_beside_deaf(bool value)
{
	struct test_conn *honest = &conns[CONNS - 1];
	unsigned int i, n;

	for (i = 0; i < CONNS - 1; i++)
		while (respond(&conns[i], value))
			;
	assert_true(value ? !poller->spare_buffers : !poller->spare_sends);
	for (n = 0; n < 1000; n++) {
		/* The honest client's completions come as late as they can. */
		while (respond(honest, value))
			;
		assert_true(complete(honest));
		assert_true(respond(honest, value) || complete(honest));
	}
}

static void values_beside_deaf(void **state)
{
	(void)state;
	window_1_beside_deaf(true);
}

static void headers_beside_deaf(void **state)
{
	(void)state;
	window_1_beside_deaf(false);
}

/* Whatever is posted and completed, nobody waits without a completion of his own to come. */
static void nobody_waits_in_vain(void **state)
{
	uint32_t places = SPARE_SENDS, i;
	unsigned int step;

	(void)state;
	srand(1);
	for (i = 0; i < CONNS; i++)
		places += windows[i] + SENDS_BESIDE_WINDOW;
	for (step = 0; step < STEPS; step++) {
		struct test_conn *c = &conns[rand() % CONNS];

		if (rand() % 3)
			respond(c, rand() % 2);
		else
			complete(c);
		assert_true(poller->spare_sends <= SPARE_SENDS);
		assert_true(poller->spare_buffers <= SRQ_DEPTH / 4);
		assert_true(sends_outstanding() <= places);
		if (!response_room(&c->conn)) {
			unsigned int before = c->conn.sq_used;

			assert_true(complete(c));
			assert_true(c->conn.sq_used < before);
		}
	}
	for (i = 0; i < CONNS; i++)
		response_release_all(poller, &conns[i].conn);
	assert_int_equal(poller->spare_sends, SPARE_SENDS);
	assert_int_equal(poller->spare_buffers, SRQ_DEPTH / 4);
	assert_int_equal(poller->free_count, SRQ_DEPTH + SRQ_DEPTH / 4);
}

/*
 * Nobody waits, and windows change all the time. Of as many work requests in a row as a connection
 * with the smallest window may have outstanding, one is signaled.
 */
static void nobody_waits_while_windows_move(void **state)
{
	unsigned int step, i;

	(void)state;
	srand(2);
	poller->limits.window = 8;
	poller->limits.conns_max = CONNS;
	window_pool_init(poller);
	for (i = 0; i < CONNS; i++) {
		conns[i].conn.window = conns[i].conn.window_next = conns[i].conn.window_told = 1;
		conns[i].conn.sq_depth = poller_sq_depth(poller, 8) - MARKERS;
	}
	for (step = 0; step < STEPS; step++) {
		struct test_conn *c = &conns[rand() % CONNS];

		switch (rand() % 4) {
		case 0:
			c->conn.client.requests++;
			c->conn.client.active_ns = worker.part.thread.now_ns;
			window_request(&c->conn);
			break;
		case 1:
			respond(c, !(rand() % 16));
			break;
		case 2:
			complete(c);
			break;
		default:
			worker.part.thread.now_ns += (uint64_t)(rand() % 1000000000);
			window_expire(poller, worker.part.thread.now_ns);
		}
		assert_true(poller->spare_sends <= SPARE_SENDS);
		assert_true(poller->spare_buffers <= SRQ_DEPTH / 4);
		assert_true(sends_outstanding() <=
			    SRQ_DEPTH + CONNS * SENDS_BESIDE_WINDOW + SPARE_SENDS);
		assert_true(response_room(&c->conn) || complete(c));
	}
	assert_true(worker.stats.windows_lapsed > 100);
	assert_true(worker.stats.windows_shrunk > 100);
	for (i = 0; i < CONNS; i++) {
		response_release_all(poller, &conns[i].conn);
		window_release(&conns[i].conn);
	}
	assert_int_equal(poller->spare_sends, SPARE_SENDS);
	assert_int_equal(poller->spare_buffers, SRQ_DEPTH / 4);
	assert_int_equal(poller->windows.left, SRQ_DEPTH - CONNS);
}

/*
 * The responses to a connection that stopped in the same batch are not posted, and leave nothing;
 * those to others are, whatever their place.
 */
static void stopped_in_the_batch(void **state)
{
	struct response_list responses = { .poller = poller };
	struct response_wr *response;
	unsigned int i;
	uint32_t size;

	(void)state;
	for (i = 0; i < 8; i++) {
		response = response_start(&responses, &conns[i % 2].conn, WIRE_GET, i);
		if (i < 4)
			continue;
		assert_non_null(response_buffer(&responses, response, &size));
		response->value_len = size;
	}
	assert_int_equal(conns[0].conn.buffers, 2);
	assert_int_equal(conns[0].conn.sq_used, 4);
	conns[0].conn.stopped = true;
	responses_send(&responses);
	assert_int_equal(responses.count, 0);
	assert_int_equal(conns[0].count, 0);
	assert_int_equal(conns[0].conn.buffers, 0);
	assert_int_equal(conns[0].conn.sq_used, 0);
	assert_int_equal(conns[0].conn.responses, 0);
	assert_int_equal(conns[1].count, 4);
	assert_int_equal(conns[1].conn.buffers, 2);
	assert_int_equal(conns[1].conn.responses, 4);
	while (complete(&conns[1]))
		;
	for (i = 0; i < 2; i++)
		response_release_all(poller, &conns[i].conn);
	assert_int_equal(poller->free_count, SRQ_DEPTH + SRQ_DEPTH / 4);
	assert_int_equal(poller->spare_buffers, SRQ_DEPTH / 4);
	assert_int_equal(poller->spare_sends, SPARE_SENDS);
}

/* A response with a value of @bytes, or none. */
static void send_one(struct test_conn *c, enum wire_op op, enum wire_status status, uint32_t bytes)
{
	struct response_list responses = { .poller = poller };
	struct response_wr *response = response_start(&responses, &c->conn, op, 1);
	uint32_t size;

	response->head.status = status;
	if (bytes) {
		assert_non_null(response_buffer(&responses, response, &size));
		assert_int_equal(size, BUFFER_BYTES - sizeof(struct wire_response));
		response->value_len = bytes;
	}
	responses_send(&responses);
}

/* Each response is counted, with its bytes, and taken out of its client's limit. */
static void counted(void **state)
{
	const uint64_t header = sizeof(struct wire_response);
	static struct user user = { .name = "limited", .bytes = 1 };
	static struct user_account account;
	struct test_conn *c = &conns[0];

	(void)state;
	atomic_store(&c->conn.client.user, &user);
	c->conn.client.account = &account;
	account = (struct user_account){ .base_ns = worker.part.thread.now_ns };
	for (unsigned int i = 1; i <= 4; i++) {
		send_one(c, WIRE_GET, WIRE_NOT_FOUND, 0);
		assert_int_equal(stat_read(&worker.stats.responses), i);
		assert_int_equal(stat_read(&worker.stats.responses_signaled), i == 4);
		assert_int_equal(c->conn.client.sent_bytes, i * header);
		assert_int_equal(account.bytes_full, i * header * ACCOUNT_SECOND);
	}
	send_one(c, WIRE_GET, WIRE_OK, 5);
	assert_int_equal(stat_read(&worker.stats.responses_signaled), 2);
	assert_int_equal(c->conn.client.sent_bytes, 5 * header + 5);
	assert_int_equal(account.bytes_full, (5 * header + 5) * ACCOUNT_SECOND);
	/* A refusal takes nothing; a batch, and records, have paid. */
	send_one(c, WIRE_GET, WIRE_LIMIT, 0);
	send_one(c, WIRE_BATCH, WIRE_OK, 5);
	send_one(c, WIRE_ACCESS, WIRE_OK, 0);
	assert_int_equal(account.bytes_full, (5 * header + 5) * ACCOUNT_SECOND);
	assert_int_equal(c->conn.client.sent_bytes, 8 * header + 10);
	assert_int_equal(stat_read(&worker.stats.response_bytes), 8 * header + 10);
	atomic_store(&c->conn.client.user, NULL);
	while (complete(c))
		;
	response_release_all(poller, &c->conn);
}

/* What fits the work request needs its buffer no longer; what does not keeps it until then. */
static void inline_or_not(void **state)
{
	struct test_conn *c = &conns[0];

	(void)state;
	poller->inline_max = sizeof(struct wire_response) + 50;
	send_one(c, WIRE_GET, WIRE_OK, 50);
	assert_true(c->posted[0].is_inline);
	assert_false(c->posted[0].signaled);
	assert_int_equal(wr_id_buffer(c->posted[0].wr_id), BUFFER_NONE);
	assert_int_equal(c->conn.buffers, 0);
	send_one(c, WIRE_GET, WIRE_OK, 51);
	assert_false(c->posted[1].is_inline);
	assert_true(c->posted[1].signaled);
	assert_int_equal(c->conn.buffers, 1);
	/* The completion of one without a buffer gives back none. */
	for (unsigned int i = 0; i < 4; i++)
		send_one(c, WIRE_GET, WIRE_OK, 50);
	assert_true(c->posted[5].signaled);
	response_done(poller, &c->conn, c->posted[5].wr_id);
	assert_int_equal(c->conn.buffers, 1);
	response_done(poller, &c->conn, c->posted[1].wr_id);
	assert_int_equal(c->conn.buffers, 0);
	assert_int_equal(c->conn.sq_used, 0);
	poller->inline_max = sizeof(struct wire_response);
}

/* A queue pair that takes no response, and one that has no buffer left, ends its connection. */
static void can_not_be_sent(void **state)
{
	struct response_list responses = { .poller = poller };
	struct test_conn *c = &conns[4];
	struct response_wr *response;
	uint32_t size;

	(void)state;
	c->conn.notes[NOTE_FAILED] = (struct note){ .conn = &c->conn, .kind = NOTE_FAILED };
	post_error = ENOMEM;
	send_one(c, WIRE_GET, WIRE_OK, 5);
	assert_true(c->conn.stopped);
	assert_ptr_equal(mailbox_take(&control), &c->conn.notes[NOTE_FAILED]);
	assert_null(c->conn.chain_first);
	response_release_all(poller, &c->conn);
	assert_int_equal(c->conn.buffers, 0);
	c->conn.stopped = false;
	poller->spare_buffers = 0;
	c->conn.buffers = c->conn.window;
	response = response_start(&responses, &c->conn, WIRE_GET, 1);
	assert_null(response_buffer(&responses, response, &size));
	assert_true(c->conn.stopped);
	assert_ptr_equal(mailbox_take(&control), &c->conn.notes[NOTE_FAILED]);
	responses_send(&responses);
	assert_int_equal(c->conn.buffers, c->conn.window);
	c->conn.buffers = 0;
	poller->spare_buffers = SRQ_DEPTH / 4;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stopped_in_the_batch, setup, teardown),
		cmocka_unit_test_setup_teardown(counted, setup, teardown),
		cmocka_unit_test_setup_teardown(inline_or_not, setup, teardown),
		cmocka_unit_test_setup_teardown(can_not_be_sent, setup, teardown),
		cmocka_unit_test_setup_teardown(values_beside_deaf, setup, teardown),
		cmocka_unit_test_setup_teardown(headers_beside_deaf, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_waits_in_vain, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_waits_while_windows_move, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
