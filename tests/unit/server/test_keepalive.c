/* SPDX-License-Identifier: MIT */
/* Tests of when a connection is probed, and when it counts as dead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/net/keepalive.h"

#define COUNT 3

static struct conn conn;

static int setup(void **state)
{
	(void)state;
	conn = (struct conn){ .requests = 1 };
	assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_NOTHING);
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
		conn.requests++;
		assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_NOTHING);
	}
}

static void an_answer_counts_as_alive(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_PROBE);
		probe_posted();
		conn.probes_answered++;
		assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_NOTHING);
	}
}

static void no_answer_for_count_intervals(void **state)
{
	(void)state;
	assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_PROBE);
	probe_posted();
	for (unsigned int i = 1; i < COUNT; i++)
		assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_NOTHING);
	assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_DEAD);
}

static void an_answer_in_the_last_interval(void **state)
{
	(void)state;
	assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_PROBE);
	probe_posted();
	for (unsigned int i = 1; i < COUNT; i++)
		assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_NOTHING);
	conn.probes_answered++;
	assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_NOTHING);
	assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_PROBE);
}

/* A worker that does not come to its mailbox is no reason to close the connection. */
static void a_note_that_was_not_taken(void **state)
{
	(void)state;
	assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_PROBE);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(keepalive_check(&conn, COUNT), KEEPALIVE_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_that_sends_is_not_probed, setup),
		cmocka_unit_test_setup(an_answer_counts_as_alive, setup),
		cmocka_unit_test_setup(no_answer_for_count_intervals, setup),
		cmocka_unit_test_setup(an_answer_in_the_last_interval, setup),
		cmocka_unit_test_setup(a_note_that_was_not_taken, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
