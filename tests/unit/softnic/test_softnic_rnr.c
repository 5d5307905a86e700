/* SPDX-License-Identifier: MIT */
/*
 * Tests of what a queue pair without a receive tells its peer: the number of a SEND and how often
 * that one found none, in an order in which no peer takes the count for another SEND's. The
 * receiving half is compiled here, with each store looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/queue_pair.h"

static struct link_side mine;
static unsigned int stores;

/* A peer that looks between two stores finds no count, or that of the SEND that it sees. */
static void look_and_store(_Atomic uint32_t *word, uint32_t value)
{
	if (word == &mine.rnr_send && value != side_load(word))
		assert_int_equal(side_load(&mine.rnr_count), 0);
	stores++;
	side_store(word, value);
}

#define side_store look_and_store
#include "common/rdma/softnic/recv.c"
#undef side_store

#define TIMER 12

static void test_counts_of_each_send(void **state)
{
	static struct sn_qp qp = { .mine = &mine, .min_rnr_timer = TIMER };

	(void)state;
	for (qp.acked = 7; qp.acked < 10; qp.acked++) {
		qp.incoming.waiting = false;
		do_recv_wait(&qp);
		assert_int_equal(side_load(&mine.rnr_send), qp.acked);
		assert_true(side_load(&mine.rnr_count) >= 1);
		/* As after five retries of a NIC. */
		qp.incoming.waiting_since_ns -= 5 * sn_rnr_timer_ns(TIMER);
		do_recv_wait(&qp);
		assert_int_equal(side_load(&mine.rnr_send), qp.acked);
		assert_true(side_load(&mine.rnr_count) >= 6);
	}
	assert_true(stores > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_of_each_send),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
