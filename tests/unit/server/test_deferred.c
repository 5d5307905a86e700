/* SPDX-License-Identifier: MIT */
/*
 * Tests of deferred requests (DEFERRED-1 to DEFERRED-6 in server/worker/deferred.h): one piece at a
 * time, connections take turns, each one's requests stay in order, waiting costs nothing, and
 * receive buffers are posted again before the responses, once each. The device is a table of two
 * functions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/worker/deferred.h"
#include "server/worker/worker.h"
#include "tests/support/store_fixture.h"

/* The time that a piece may take does not pass, however busy the machine is. */
static uint64_t test_clock_ns(void)
{
	return 1;
}

#define clock_ns test_clock_ns
#include "server/worker/deferred.c"
#undef clock_ns

#define REGION_BYTES (8u << 20)
#define RECVS 16
#define CONNS 3
#define BUFFER_BYTES 256
#define ORDER_MAX 100

static struct store store;
static struct worker worker;
static struct ibv_context context;
static struct ibv_srq srq;
static struct ibv_mr mr;
static struct ibv_qp qps[CONNS];
static struct conn conns[CONNS];
static uint8_t memory[RECVS * BUFFER_BYTES];
static unsigned int posted[RECVS]; /* times that the receive was posted again */
static unsigned int recvs, sends;  /* posted */
static uint32_t order[ORDER_MAX];  /* ids in the order of their pieces */
static unsigned int pieces, cancelled;
static unsigned int pieces_wanted[RECVS]; /* by buffer */
static bool idle[RECVS];		  /* by buffer */
static bool waits;

static int post_srq_recv(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)to;
	(void)bad;
	for (; wr; wr = wr->next, recvs++)
		posted[(uint32_t)wr->wr_id]++;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	/* WORKER-4: the receive that the response lets the client use is posted. */
	for (; wr; wr = wr->next)
		assert_true(++sends <= recvs);
	return 0;
}

static int setup(void **state)
{
	struct poller *poller = &worker.pollers[0];
	unsigned int i;

	(void)state;
	test_store_create(&store, REGION_BYTES, 6, 1);
	memset(&worker, 0, sizeof(worker));
	memset(conns, 0, sizeof(conns));
	memset(posted, 0, sizeof(posted));
	recvs = sends = pieces = cancelled = 0;
	waits = false;
	context.ops.post_srq_recv = post_srq_recv;
	context.ops.post_send = post_send;
	srq.context = &context;
	*poller = (struct poller){
		.worker = &worker,
		.limits = { .srq_depth = RECVS, .buffer_bytes = BUFFER_BYTES, .signal_every = 64 },
		.srq = &srq,
		.mr = &mr,
		.memory = memory,
		.inline_max = BUFFER_BYTES,
	};
	TAILQ_INIT(&worker.deferred_conns);
	for (i = 0; i < CONNS; i++) {
		qps[i].context = &context;
		conns[i] = (struct conn){ .poller = poller,
					  .client.worker = &worker,
					  .client.part = &worker.part,
					  .client.wake = deferred_wake_client,
					  .qp = &qps[i],
					  .window = RECVS };
		TAILQ_INIT(&conns[i].deferred);
	}
	assert_int_equal(deferred_init(poller), 0);
	return store_thread_init(&worker.part.thread, &store.table, 1);
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < CONNS; i++) {
		assert_false(deferred_pending(&conns[i]));
		assert_int_equal(conns[i].deferred_count, 0);
	}
	assert_false(deferred_run(&worker));
	deferred_release(&worker.pollers[0]);
	store_thread_release(&worker.part.thread);
	test_store_destroy(&store);
	return 0;
}

/* A step that takes as many pieces as its buffer has been told to. */
static enum piece_next step(struct deferred *deferred, struct response_list *responses,
			    uint64_t until_ns)
{
	assert_true(until_ns);
	assert_true(pieces < ORDER_MAX);
	order[pieces++] = deferred->request.id;
	if (waits)
		return PIECE_WAIT;
	if (idle[deferred->buffer])
		return PIECE_IDLE;
	if (pieces_wanted[deferred->buffer] && --pieces_wanted[deferred->buffer])
		return PIECE_AGAIN;
	response_start(responses, deferred->conn, WIRE_PING, deferred->request.id);
	return PIECE_DONE;
}

static bool cancel(struct deferred *deferred)
{
	(void)deferred;
	cancelled++;
	return true;
}

static const struct deferred_kind kind = { .step = step, .cancel = cancel };

/* Defers request @buffer, which has its buffer's number as id. */
static void start(unsigned int conn, uint32_t buffer, unsigned int wanted)
{
	struct request request = { .op = WIRE_PING, .id = buffer };

	pieces_wanted[buffer] = wanted;
	deferred_start(&conns[conn], &kind, &request, 0, buffer);
}

static void run_all(void)
{
	while (deferred_run(&worker))
		;
}

static void assert_order(const uint32_t *ids, unsigned int count)
{
	assert_int_equal(pieces, count);
	assert_memory_equal(order, ids, count * sizeof(*ids));
}

/* Requests that wait for what others hold leave the piece to them, and are asked once a turn. */
static void idle_ones_leave_the_piece(void **state)
{
	static const uint32_t expected[] = { 1, 2, 3, 1, 2, 3, 1, 2, 1, 2 };

	(void)state;
	idle[1] = idle[2] = true;
	start(0, 1, 1);
	start(1, 2, 1);
	start(2, 3, 2);
	for (unsigned int i = 0; i < 2; i++)
		assert_true(deferred_run(&worker));
	assert_int_equal(sends, 1);
	assert_true(deferred_run(&worker));
	assert_int_equal(pieces, 8);
	idle[1] = idle[2] = false;
	run_all();
	assert_order(expected, 10);
	assert_int_equal(sends, 3);
}

static void one_piece_a_run(void **state)
{
	(void)state;
	start(0, 5, 3);
	for (unsigned int i = 1; i <= 3; i++) {
		assert_int_equal(sends, 0);
		assert_true(deferred_run(&worker));
		assert_int_equal(pieces, i);
	}
	assert_int_equal(sends, 1);
	assert_int_equal(posted[5], 1);
	assert_int_equal(recvs, 1);
	assert_int_equal(stat_read(&worker.stats.deferred), 1);
	assert_int_equal(stat_read(&worker.stats.deferred_pieces), 3);
}

/* Connection 0 defers a window full, the others one each: they get a third of the pieces each. */
static void connections_take_turns(void **state)
{
	static const uint32_t ids[] = { 0, 10, 11, 0, 10, 11, 1, 10, 11, 1, 2, 3 };

	(void)state;
	start(0, 0, 2);
	start(0, 1, 2);
	start(0, 2, 1);
	start(0, 3, 1);
	start(1, 10, 3);
	start(2, 11, 3);
	run_all();
	assert_order(ids, 12);
	assert_int_equal(sends, 6);
	assert_int_equal(recvs, 6);
}

/* A request that waits gets no pieces, and keeps later ones of its connection from running. */
static void waiting(void **state)
{
	static const uint32_t ids[] = { 1, 3, 1, 2 };

	(void)state;
	waits = true;
	start(0, 1, 1);
	start(0, 2, 1);
	assert_true(deferred_run(&worker));
	waits = false;
	start(1, 3, 1);
	run_all();
	assert_int_equal(pieces, 2);
	deferred_wake(&conns[1]); /* has none */
	deferred_wake(&conns[0]);
	deferred_wake(&conns[0]); /* does not wait any more */
	run_all();
	assert_order(ids, 4);
}

/* A connection that ends posts its receives again, whether its first request waits or runs. */
static void cancelling(void **state)
{
	(void)state;
	waits = true;
	start(0, 1, 1);
	start(0, 2, 1);
	assert_true(deferred_run(&worker));
	waits = false;
	start(1, 3, 2);
	assert_true(deferred_run(&worker));
	deferred_cancel(&conns[0]);
	deferred_cancel(&conns[1]);
	deferred_cancel(&conns[2]);
	assert_int_equal(cancelled, 3);
	assert_int_equal(sends, 0);
	assert_int_equal(recvs, 3);
	assert_false(deferred_run(&worker));
	deferred_wake(&conns[0]);
	assert_false(deferred_run(&worker));
}

/* So does one that failed, before it is told to. */
static void failed_connection(void **state)
{
	(void)state;
	start(0, 1, 1);
	start(0, 2, 1);
	start(1, 3, 1);
	conns[0].stopped = true;
	/* That takes a turn as a piece does. */
	assert_true(deferred_run(&worker));
	assert_true(worker.turn.began_ns > 0);
	run_all();
	assert_int_equal(cancelled, 2);
	assert_int_equal(pieces, 1);
	assert_int_equal(recvs, 3);
	assert_int_equal(sends, 1);
}

static bool keeps;

static bool cancel_later(struct deferred *deferred)
{
	if (keeps && !deferred->conn->qp_destroyed)
		return false;
	cancelled++;
	return true;
}

static const struct deferred_kind kept = { .step = step, .cancel = cancel_later };

/* DEFERRED-6: one that waits for the end of the queue pair keeps its receive until then. */
static void cancelled_later(void **state)
{
	const struct request request = { .op = WIRE_PING };

	(void)state;
	keeps = true;
	deferred_start(&conns[0], &kept, &request, 0, 1);
	start(0, 2, 1);
	deferred_cancel(&conns[0]);
	deferred_cancel(&conns[0]);
	assert_int_equal(cancelled, 1);
	assert_int_equal(posted[1], 0);
	assert_int_equal(posted[2], 1);
	conns[0].qp_destroyed = true;
	deferred_cancel(&conns[0]);
	assert_int_equal(cancelled, 2);
	assert_int_equal(posted[1], 1);
}

static const struct deferred_kind early = { .step = step, .needs_no_room = true };

/* A step that needs no room for a response is due without it; another one is not. */
static void without_room(void **state)
{
	const struct request request = { .op = WIRE_PING };

	(void)state;
	conns[0].buffers = RECVS; /* a window full, and there are no spare ones */
	start(0, 1, 2);
	assert_true(deferred_run(&worker));
	assert_int_equal(pieces, 0);
	deferred_start(&conns[1], &early, &request, 0, 2);
	conns[1].buffers = RECVS;
	pieces_wanted[2] = 2;
	assert_true(deferred_run(&worker));
	assert_int_equal(pieces, 1);
	conns[0].buffers = conns[1].buffers = 0;
	deferred_wake(&conns[0]);
	run_all();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(one_piece_a_run),
		CASE(idle_ones_leave_the_piece),
		CASE(connections_take_turns),
		CASE(waiting),
		CASE(cancelling),
		CASE(failed_connection),
		CASE(cancelled_later),
		CASE(without_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
