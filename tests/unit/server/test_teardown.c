/* SPDX-License-Identifier: MIT */
/*
 * Tests of the worker's half of the end of a connection: it is drained when its marker completes
 * or, on a device that takes none, when enough completions were taken; and it has left the table of
 * connections when the control thread may destroy its queue pair, so that a new connection with the
 * same number is found. The device is a table of two functions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/worker/deferred.h"
#include "server/worker/teardown.h"
#include "server/worker/tenant.h"
#include "server/worker/worker.h"
#include "tests/support/store_fixture.h"

/* The function under test sends its notes by this one, which looks at the table before. */
static void note_send(struct mailbox *mailbox, struct note *note);

#define mailbox_send note_send
#include "server/worker/teardown.c"
#undef mailbox_send

#define REGION_BYTES (8u << 20)
#define RECVS 16
#define CONNS 3
#define CQES 100
#define QP_NUM 7

static struct store store;
static struct worker worker;
static struct tenant tenant;
static struct worker_env env;
static struct mailbox control;
static struct ibv_context context;
static struct ibv_srq srq;
static struct ibv_cq cq;
static struct nic nic;
static struct ibv_mr mr;
static struct ibv_qp qp;
static struct conn conns[CONNS];
static struct poller *const poller = &worker.pollers[0];
static uint8_t memory[1]; /* of receives, of which nobody looks at a byte */
static bool refuses;
static uint64_t marker; /* wr_id of the last one */
static unsigned int markers, recvs;

static int post_srq_recv(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)to;
	(void)bad;
	for (; wr; wr = wr->next)
		recvs++;
	return 0;
}

static int post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)to;
	(void)bad;
	if (refuses)
		return EINVAL;
	assert_null(wr->next);
	assert_int_equal(wr->num_sge, 0);
	assert_true(wr->send_flags & IBV_SEND_SIGNALED);
	marker = wr->wr_id;
	markers++;
	return 0;
}

static void add(unsigned int i)
{
	unsigned int n;

	conns[i] = (struct conn){
		.poller = poller,
		.client.worker = &worker,
		.client.part = &worker.part,
		.client.wake = deferred_wake_client,
		.qp = &qp,
		.qp_num = QP_NUM,
		.serial = i + 1,
		.sent_first = BUFFER_NONE,
		.published = true,
	};
	TAILQ_INIT(&conns[i].deferred);
	for (n = 0; n < NOTE_KINDS; n++)
		conns[i].notes[n] = (struct note){ .conn = &conns[i], .kind = (enum note_kind)n };
	conn_table_add(&conns[i]);
}

static int setup(void **state)
{
	(void)state;
	test_store_create(&store, REGION_BYTES, 6, 1);
	rcu_register_thread();
	memset(&worker, 0, sizeof(worker));
	refuses = false;
	atomic_store(&nic.gone, false);
	markers = recvs = 0;
	context.ops.post_srq_recv = post_srq_recv;
	context.ops.post_send = post_send;
	srq.context = qp.context = &context;
	cq.cqe = CQES;
	*poller = (struct poller){
		.memory = memory,
		.worker = &worker,
		.nic = &nic,
		.limits = { .srq_depth = RECVS },
		.srq = &srq,
		.cq = &cq,
		.mr = &mr,
		.conns = cds_lfht_new(16, 16, 16, 0, NULL),
	};
	TAILQ_INIT(&poller->marked);
	TAILQ_INIT(&poller->unmarked);
	TAILQ_INIT(&worker.deferred_conns);
	assert_int_equal(mailbox_init(&control), 0);
	env.control = &control;
	worker.env = &env;
	worker.part.tenant = &tenant;
	add(0);
	assert_int_equal(deferred_init(poller), 0);
	return store_thread_init(&worker.part.thread, &store.table, 1);
}

static int teardown(void **state)
{
	(void)state;
	deferred_release(poller);
	store_thread_release(&worker.part.thread);
	mailbox_release(&control);
	assert_int_equal(cds_lfht_destroy(poller->conns, NULL), 0);
	rcu_unregister_thread();
	test_store_destroy(&store);
	return 0;
}

static struct conn *found(void)
{
	struct conn *conn;

	rcu_read_lock();
	conn = conn_lookup(poller, QP_NUM);
	rcu_read_unlock();
	return conn;
}

/*
 * When the control thread has the note QUIESCED it destroys the queue pair, and its number may be a
 * new connection's: so the old one has left the table.
 */
static void note_send(struct mailbox *mailbox, struct note *note)
{
	struct conn *other;

	assert_ptr_equal(mailbox, &control);
	other = found();
	if (note->kind == NOTE_QUIESCED)
		assert_ptr_not_equal(other, note->conn);
	if (note->kind == NOTE_RELEASED)
		assert_true(note->conn->qp_destroyed);
	mailbox_send(mailbox, note);
}

/* The control thread's next note is of this kind and this connection, and the only one. */
static void assert_note(enum note_kind kind, unsigned int conn)
{
	struct note *note = mailbox_take(&control);

	assert_non_null(note);
	assert_null(note->next);
	assert_int_equal(note->kind, kind);
	assert_ptr_equal(note->conn, &conns[conn]);
}

static void assert_drained(unsigned int conn)
{
	assert_null(found());
	assert_note(NOTE_QUIESCED, conn);
}

static void marker_completes(void **state)
{
	const struct request request = { .op = WIRE_PING };
	static const struct deferred_kind kind;

	(void)state;
	deferred_start(&conns[0], &kind, &request, 0, 3);
	teardown_begin(&conns[0]);
	assert_true(conns[0].stopped);
	assert_int_equal(recvs, 1);
	assert_int_equal(markers, 1);
	assert_int_equal(wr_id_kind(marker), WR_MARKER);
	assert_int_equal(wr_id_serial(marker), 1);
	/* Completions of others don't matter, not even that there is none. */
	teardown_count(poller, 0);
	assert_ptr_equal(found(), &conns[0]);
	assert_null(mailbox_take(&control));
	teardown_drained(&conns[0]);
	assert_drained(0);
	teardown_release(&conns[0]);
	assert_note(NOTE_RELEASED, 0);
}

static bool cancel_without_qp(struct deferred *deferred)
{
	return deferred->conn->qp_destroyed;
}

/* What the device may still write to is released when it can't any more. */
static void a_request_that_outlives_the_queue_pair(void **state)
{
	const struct request request = { .op = WIRE_PING };
	static const struct deferred_kind kind = { .cancel = cancel_without_qp };

	(void)state;
	deferred_start(&conns[0], &kind, &request, 0, 3);
	teardown_begin(&conns[0]);
	teardown_drained(&conns[0]);
	assert_drained(0);
	assert_true(deferred_pending(&conns[0]));
	assert_int_equal(recvs, 0);
	teardown_release(&conns[0]);
	assert_note(NOTE_RELEASED, 0);
	assert_false(deferred_pending(&conns[0]));
	assert_int_equal(conns[0].deferred_count, 0);
	assert_int_equal(recvs, 1);
}

/* The new connection comes between the notes QUIESCED and RELEASE of the old one. */
static void number_is_used_again(void **state)
{
	(void)state;
	teardown_begin(&conns[0]);
	teardown_drained(&conns[0]);
	assert_drained(0);
	add(1);
	assert_ptr_equal(found(), &conns[1]);
	teardown_release(&conns[0]);
	assert_note(NOTE_RELEASED, 0);
	assert_ptr_equal(found(), &conns[1]);
	teardown_begin(&conns[1]);
	teardown_drained(&conns[1]);
	assert_drained(1);
}

static void empty_queue_without_a_marker(void **state)
{
	(void)state;
	refuses = true;
	teardown_begin(&conns[0]);
	teardown_count(poller, BATCH_MAX);
	assert_ptr_equal(found(), &conns[0]);
	teardown_count(poller, BATCH_MAX - 1);
	assert_drained(0);
}

/* The queue never gets empty, because of others. */
static void full_queue_without_a_marker(void **state)
{
	unsigned int taken;

	(void)state;
	refuses = true;
	teardown_count(poller, BATCH_MAX);
	teardown_begin(&conns[0]);
	for (taken = BATCH_MAX; taken < CQES; taken += BATCH_MAX) {
		teardown_count(poller, BATCH_MAX);
		assert_null(mailbox_take(&control));
	}
	teardown_count(poller, BATCH_MAX);
	assert_drained(0);
	teardown_count(poller, 0);
	assert_null(mailbox_take(&control));
}

/*
 * A device that has failed completes nothing more: a connection that waits for a marker is drained
 * with what the queue still had.
 */
static void without_the_device(void **state)
{
	(void)state;
	teardown_begin(&conns[0]);
	assert_int_equal(markers, 1);
	teardown_count(poller, 0);
	assert_null(mailbox_take(&control));
	atomic_store(&nic.gone, true);
	teardown_count(poller, BATCH_MAX);
	assert_null(mailbox_take(&control));
	teardown_count(poller, BATCH_MAX - 1);
	assert_drained(0);
	/* The next one ends afterwards. */
	add(1);
	teardown_begin(&conns[1]);
	assert_null(mailbox_take(&control));
	teardown_count(poller, 0);
	assert_drained(1);
	teardown_count(poller, 0);
	assert_null(mailbox_take(&control));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(marker_completes),
		CASE(a_request_that_outlives_the_queue_pair),
		CASE(number_is_used_again),
		CASE(empty_queue_without_a_marker),
		CASE(full_queue_without_a_marker),
		CASE(without_the_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
