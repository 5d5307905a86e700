/* SPDX-License-Identifier: MIT */
/* Tests of the counts of commands: by which front they came, and the statistics that they make. */
#include "server/worker/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct command_counts counts;

static void count(enum device_kind kind, enum wire_op op, enum wire_status status)
{
	command_count(&counts, kind, op, status, 0);
}

static uint64_t of(enum front front, enum wire_op op, enum wire_status status)
{
	return counts.of[front][op][status];
}

static int setup(void **state)
{
	(void)state;
	counts = (struct command_counts){ 0 };
	return 0;
}

static void fronts(void **state)
{
	static const struct {
		enum device_kind kind;
		enum front front;
	} kinds[] = {
		{ DEVICE_RDMA, FRONT_RDMA },	       { DEVICE_RDMA_TCP, FRONT_RDMA },
		{ DEVICE_RDMA_TLS, FRONT_RDMA },       { DEVICE_SOFTNIC, FRONT_SOFTNIC },
		{ LISTEN_MEMCACHED, FRONT_MEMCACHED }, { LISTEN_MEMCACHED_TLS, FRONT_MEMCACHED },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint64_t before = of(kinds[i].front, WIRE_PUT, WIRE_EXISTS);

		count(kinds[i].kind, WIRE_PUT, WIRE_EXISTS);
		assert_int_equal(of(kinds[i].front, WIRE_PUT, WIRE_EXISTS), before + 1);
	}
}

static void answers_that_are_repeated(void **state)
{
	(void)state;
	command_count(&counts, DEVICE_RDMA, WIRE_PUT, WIRE_OK, WIRE_R_REPEATED);
	assert_int_equal(of(FRONT_RDMA, WIRE_PUT, WIRE_OK), 0);
	command_count(&counts, DEVICE_RDMA, WIRE_PUT, WIRE_BUSY, WIRE_R_PINS);
	assert_int_equal(of(FRONT_RDMA, WIRE_PUT, WIRE_BUSY), 1);
}

static void reads(void **state)
{
	(void)state;
	command_count_reads(&counts, DEVICE_SOFTNIC, &(struct wire_gets){ .hits = 7, .misses = 2 });
	assert_int_equal(of(FRONT_SOFTNIC, WIRE_GET, WIRE_OK), 7);
	assert_int_equal(of(FRONT_SOFTNIC, WIRE_GET, WIRE_NOT_FOUND), 2);
}

static void statistics(void **state)
{
	struct command_counts sums = { 0 };
	struct command_stats stats;

	(void)state;
	count(DEVICE_RDMA, WIRE_PUT, WIRE_OK);
	count(DEVICE_SOFTNIC, WIRE_ARITH, WIRE_NOT_A_NUMBER);
	count(LISTEN_MEMCACHED, WIRE_PUT, WIRE_NO_SPACE);
	count(LISTEN_MEMCACHED, WIRE_PUT, WIRE_TOO_LARGE);
	count(DEVICE_RDMA, WIRE_PUT, WIRE_NOT_ALLOWED);
	count(DEVICE_RDMA, WIRE_PUT, WIRE_LIMIT);
	count(DEVICE_RDMA, WIRE_PUT, WIRE_MOVED);
	count(DEVICE_RDMA, WIRE_PUT, WIRE_AWAY);
	count(DEVICE_RDMA, WIRE_PUT, WIRE_UNKNOWN);
	count(DEVICE_RDMA, WIRE_DELETE, WIRE_OK);
	count(DEVICE_RDMA, WIRE_DELETE, WIRE_NOT_FOUND);
	count(DEVICE_RDMA, WIRE_TOUCH, WIRE_OK);
	count(DEVICE_RDMA, WIRE_SCAN, WIRE_OK);
	/* Of two workers. */
	command_counts_add(&counts, &sums);
	command_counts_add(&counts, &sums);
	stats = command_counts_stats(&sums);
	assert_int_equal(stats.puts, 8);
	assert_int_equal(stats.put_no_space, 2);
	assert_int_equal(stats.put_too_large, 2);
	assert_int_equal(stats.deletes, 4);
	assert_int_equal(stats.delete_misses, 2);
	assert_int_equal(stats.touches, 2);
	assert_int_equal(stats.scans, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(fronts, setup),
		cmocka_unit_test_setup(answers_that_are_repeated, setup),
		cmocka_unit_test_setup(reads, setup),
		cmocka_unit_test_setup(statistics, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
