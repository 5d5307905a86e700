/* SPDX-License-Identifier: MIT */
/* Tests of when a connection is probed, and when it counts as dead. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/worker/keepalive.h"
#include "server/worker/worker.h"

static struct conn conn;

static int setup(void **state)
{
	(void)state;
	conn = (struct conn){ .client.requests = 1 };
	assert_int_equal(keepalive_check(&conn), KEEPALIVE_NOTHING);
	return 0;
}

/* The worker took the note and posted the probe. */
static void probe_posted(void)
{
	atomic_store(&conn.probe_noted, false);
}

static void one_that_sends_is_not_probed(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		conn.client.requests++;
		assert_int_equal(keepalive_check(&conn), KEEPALIVE_NOTHING);
	}
}

static void an_answer_counts_as_alive(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		assert_int_equal(keepalive_check(&conn), KEEPALIVE_PROBE);
		probe_posted();
		conn.probes_answered++;
		assert_int_equal(keepalive_check(&conn), KEEPALIVE_NOTHING);
	}
}

static void no_answer_for_count_intervals(void **state)
{
	(void)state;
	assert_int_equal(keepalive_check(&conn), KEEPALIVE_PROBE);
	probe_posted();
	for (unsigned int i = 1; i < KEEPALIVE_COUNT; i++)
		assert_int_equal(keepalive_check(&conn), KEEPALIVE_NOTHING);
	assert_int_equal(keepalive_check(&conn), KEEPALIVE_DEAD);
}

static void an_answer_in_the_last_interval(void **state)
{
	(void)state;
	assert_int_equal(keepalive_check(&conn), KEEPALIVE_PROBE);
	probe_posted();
	for (unsigned int i = 1; i < KEEPALIVE_COUNT; i++)
		assert_int_equal(keepalive_check(&conn), KEEPALIVE_NOTHING);
	conn.probes_answered++;
	assert_int_equal(keepalive_check(&conn), KEEPALIVE_NOTHING);
	assert_int_equal(keepalive_check(&conn), KEEPALIVE_PROBE);
}

/* A worker that does not come to its mailbox is no reason to close the connection. */
static void a_note_that_was_not_taken(void **state)
{
	(void)state;
	assert_int_equal(keepalive_check(&conn), KEEPALIVE_PROBE);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(keepalive_check(&conn), KEEPALIVE_NOTHING);
}

static unsigned int posts;
static uint64_t posted; /* the wr_id of the last one */
static int post_error;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	assert_null(wr->next);
	assert_int_equal(wr->opcode, IBV_WR_RDMA_READ);
	assert_int_equal(wr->num_sge, 0);
	assert_true(wr->send_flags & IBV_SEND_SIGNALED);
	if (post_error)
		return post_error;
	posted = wr->wr_id;
	posts++;
	return 0;
}

/*
 * A probe takes a place in the send queue and covers the responses before it; its answer gives all
 * of them back. There is one at a time, and none without a place, or where it was refused.
 */
static void a_probe_and_its_place(void **state)
{
	static struct worker worker;
	static struct ibv_context context;
	static struct worker_env env;
	static struct mailbox control;
	static struct nic nic;
	static struct device dev = { .name = "fake0" };
	struct ibv_qp qp = { .context = &context };
	struct poller *poller = &worker.pollers[0];

	(void)state;
	context.ops.post_send = post_send;
	env.control = &control;
	worker.env = &env;
	nic.dev = &dev;
	poller->worker = &worker;
	poller->nic = &nic;
	assert_int_equal(mailbox_init(&control), 0);
	conn = (struct conn){
		.qp = &qp, .poller = poller, .window = 1, .sq_depth = 10, .serial = 5
	};
	conn.notes[NOTE_FAILED] = (struct note){ .conn = &conn, .kind = NOTE_FAILED };
	conn.sq_used = conn.sq_unsignaled = 2;
	atomic_store(&conn.probe_noted, true);
	keepalive_probe(&conn);
	assert_false(atomic_load(&conn.probe_noted));
	assert_int_equal(posts, 1);
	assert_int_equal(wr_id_kind(posted), WR_PROBE);
	assert_int_equal(wr_id_covers(posted), 3);
	assert_int_equal(wr_id_serial(posted), 5);
	assert_true(conn.probing);
	assert_int_equal(conn.sq_used, 3);
	assert_int_equal(conn.sq_unsignaled, 0);
	keepalive_post(&conn);
	assert_int_equal(posts, 1);
	/* A response meanwhile, which stays outstanding. */
	sq_take(&conn);
	keepalive_answered(&conn, posted);
	assert_false(conn.probing);
	assert_int_equal(conn.sq_used, 1);
	assert_int_equal(conn.probes_answered, 1);
	while (sq_room(&conn))
		sq_take(&conn);
	keepalive_post(&conn);
	assert_int_equal(posts, 1);
	sq_put(&conn, 1);
	post_error = ENOMEM;
	keepalive_post(&conn);
	assert_true(conn.stopped);
	assert_false(conn.probing);
	assert_true(sq_room(&conn));
	assert_ptr_equal(mailbox_take(&control), &conn.notes[NOTE_FAILED]);
	post_error = 0;
	keepalive_post(&conn);
	assert_int_equal(posts, 1);
	mailbox_release(&control);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_that_sends_is_not_probed, setup),
		cmocka_unit_test_setup(an_answer_counts_as_alive, setup),
		cmocka_unit_test_setup(no_answer_for_count_intervals, setup),
		cmocka_unit_test_setup(an_answer_in_the_last_interval, setup),
		cmocka_unit_test_setup(a_note_that_was_not_taken, setup),
		cmocka_unit_test(a_probe_and_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
