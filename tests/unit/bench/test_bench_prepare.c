/* SPDX-License-Identifier: MIT */
/*
 * Tests of what kvbench checks of a workload before it connects, and of its exit statuses.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/client.h"
#include "bench/exit_status.h"
#include "bench/prepare.h"
#include "tests/support/captured.h"

static struct arguments arguments;
static struct workload workload;
static char printed[1024];

static int setup(void **state)
{
	(void)state;
	arguments_init(&arguments);
	arguments.target.backend = &db_kvd;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arguments_release(&arguments);
	return 0;
}

/* Prepares a workload of @properties, one on a line. */
static int prepare(enum phase phase, const char *properties)
{
	int result;

	props_release(&arguments.props);
	props_init(&arguments.props);
	assert_int_equal(
		props_parse(&arguments.props, properties, strlen(properties), "properties"), 0);
	captured_begin(stderr);
	result = workload_prepare(&workload, phase, &arguments);
	snprintf(printed, sizeof(printed), "%s", captured_end());
	return result;
}

/* As many as there are operations of the phase. */
static void no_thread_without_an_operation(void **state)
{
	static const char properties[] =
		"recordcount=100\ninsertcount=5\noperationcount=7\nthreadcount=8";

	(void)state;
	assert_int_equal(prepare(PHASE_LOAD, properties), 0);
	assert_int_equal(workload.threads, 5);
	assert_string_equal(printed, "kvbench: only 5 threads, one for each operation\n");
	assert_int_equal(prepare(PHASE_RUN, properties), 0);
	assert_int_equal(workload.threads, 7);
	assert_string_equal(printed, "kvbench: only 7 threads, one for each operation\n");
	assert_int_equal(prepare(PHASE_RUN, "recordcount=1\noperationcount=8\nthreadcount=8"), 0);
	assert_int_equal(workload.threads, 8);
	assert_string_equal(printed, "");
	/* No operation count is no limit. */
	assert_int_equal(prepare(PHASE_RUN, "recordcount=1\nmaxexecutiontime=1\nthreadcount=8"), 0);
	assert_int_equal(workload.threads, 8);
}

static void properties_are_refused(void **state)
{
	(void)state;
	assert_int_equal(prepare(PHASE_RUN, "recordcount=1\noperationcount=1\nnothing=1"), -EINVAL);
	assert_non_null(strstr(printed, "kvbench: properties:3: "));
	/* What a run needs a load does not. */
	assert_int_equal(prepare(PHASE_RUN, "recordcount=1"), -EINVAL);
	assert_int_equal(prepare(PHASE_LOAD, "recordcount=1"), 0);
}

static void keys_that_the_store_does_not_take(void **state)
{
	char properties[128];

	(void)state;
	arguments.target.backend = &db_memcached;
	snprintf(properties, sizeof(properties), "recordcount=1\nzeropadding=%zu",
		 db_memcached.key_max - 4);
	assert_int_equal(prepare(PHASE_LOAD, properties), 0);
	snprintf(properties, sizeof(properties), "recordcount=1\nzeropadding=%zu",
		 db_memcached.key_max - 3);
	assert_int_equal(prepare(PHASE_LOAD, properties), -EINVAL);
	assert_non_null(strstr(printed, "zeropadding: keys would have 251 bytes, memcached takes"));
}

/* The limit is of the threads that there will be. */
static void threads_with_registered_memory(void **state)
{
	char properties[128];

	(void)state;
	arguments.registered = true;
	snprintf(properties, sizeof(properties), "recordcount=1000\nthreadcount=%d",
		 CLIENT_REGISTERED_MAX);
	assert_int_equal(prepare(PHASE_LOAD, properties), 0);
	snprintf(properties, sizeof(properties), "recordcount=1000\nthreadcount=%d",
		 CLIENT_REGISTERED_MAX + 1);
	assert_int_equal(prepare(PHASE_LOAD, properties), -EINVAL);
	assert_non_null(strstr(printed, "--registered takes 64 threads at most, not 65"));
	snprintf(properties, sizeof(properties), "recordcount=3\nthreadcount=%d",
		 CLIENT_REGISTERED_MAX + 1);
	assert_int_equal(prepare(PHASE_LOAD, properties), 0);
	arguments.registered = false;
	snprintf(properties, sizeof(properties), "recordcount=1000\nthreadcount=%d",
		 CLIENT_REGISTERED_MAX + 1);
	assert_int_equal(prepare(PHASE_LOAD, properties), 0);
}

static void exit_statuses_of_errors(void **state)
{
	(void)state;
	assert_int_equal(exit_status_of_error(0), 0);
	assert_int_equal(exit_status_of_error(-EINVAL), 2);
	assert_int_equal(exit_status_of_error(-ENOTCONN), 69);
	assert_int_equal(exit_status_of_error(-ENOMEM), 1);
	assert_int_equal(exit_status_of_error(-EBADMSG), 1);
	assert_int_equal(exit_status_of_error(-EIO), 1);
}

/* Wrong values are worse than a lost connection, and that than failures. */
static void exit_statuses_of_results(void **state)
{
	static const struct {
		uint64_t wrong, failed, not_found;
		enum kvd_status ended;
		int status;
	} results[] = {
		{ 0, 0, 0, KVD_OK, 0 },
		{ 1, 0, 0, KVD_OK, 1 },
		{ 0, 1, 0, KVD_OK, 1 },
		{ 0, 0, 1, KVD_OK, 1 },
		{ 0, 0, 0, KVD_ERR_DISCONNECTED, 69 },
		{ 0, 0, 0, KVD_ERR_TIMEOUT, 69 },
		{ 0, 0, 0, KVD_ERR_DEVICE, 69 },
		{ 0, 0, 0, KVD_ERR_PROTOCOL, 69 },
		{ 0, 1, 1, KVD_ERR_TIMEOUT, 69 },
		{ 1, 0, 0, KVD_ERR_TIMEOUT, 1 },
		{ 0, 1, 0, KVD_ERR_NO_SPACE, 1 },
	};
	static struct result result;

	(void)state;
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		result.wrong = results[i].wrong;
		result.failed = results[i].failed;
		result.not_found = results[i].not_found;
		result.ended = results[i].ended;
		assert_int_equal(exit_status_of_result(&result), results[i].status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(no_thread_without_an_operation),
		TEST(properties_are_refused),
		TEST(keys_that_the_store_does_not_take),
		TEST(threads_with_registered_memory),
		cmocka_unit_test(exit_statuses_of_errors),
		cmocka_unit_test(exit_statuses_of_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
