/* SPDX-License-Identifier: MIT */
/*
 * Tests of a whole server while memory is filled, at the start, and for a tenant that is created or
 * resized: nobody is served from that memory, everybody else is, and SIGTERM ends the server after
 * the pieces that are under way. The test holds the calls that fill up, until the server waits for
 * its threads.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "server/store/pieces.h"
#include "server/store/prefault.h"
#include "tests/support/local_server.h"
#include "tests/support/users_file.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HANGS_NS 300000000000ull
#define FILLED_BYTES "64m" /* many pieces of 256 KiB */
#define DEFAULT_BYTES "16m"
#define DEFAULT_PIECES 64u

static pthread_t tester;
static atomic_bool holds, held, hangs;
static atomic_uint populates;  /* since it holds them, */
static unsigned int held_from; /* this one */

int __real_madvise(void *addr, size_t length, int advice);
int __wrap_madvise(void *addr, size_t length, int advice);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);

static void await(const atomic_bool *what, bool value)
{
	uint64_t deadline = clock_ns() + HANGS_NS;
	const struct timespec pause = { 0, 1000000 };

	while (atomic_load(what) != value && clock_ns() < deadline)
		nanosleep(&pause, NULL);
	if (atomic_load(what) != value)
		atomic_store(&hangs, true);
}

int __wrap_madvise(void *addr, size_t length, int advice)
{
	if (advice == MADV_POPULATE_WRITE && atomic_fetch_add(&populates, 1) + 1 >= held_from &&
	    atomic_load(&holds)) {
		atomic_store(&held, true);
		await(&holds, false);
	}
	return __real_madvise(addr, length, advice);
}

/* A server that ends waits for a thread of its own: it has told all of them. */
int __wrap_pthread_join(pthread_t thread, void **result)
{
	if (atomic_load(&held) && !pthread_equal(pthread_self(), tester))
		atomic_store(&holds, false);
	return __real_pthread_join(thread, result);
}

static void hold(unsigned int from)
{
	held_from = from;
	atomic_store(&populates, 0);
	atomic_store(&held, false);
	atomic_store(&holds, true);
}

/* A second SIGTERM may be left of one that had ended. */
static void assert_ends(void)
{
	assert_true(local_server_end());
	assert_false(atomic_load(&hangs));
	/* Each thread ended the piece that it had; there are 256 of them. */
	assert_in_range(populates, held_from, held_from + PIECES_THREADS_MAX);
}

static struct kvd *open_with(const char *url, const char *tenant, enum kvd_status *status)
{
	struct kvd_options options;
	struct kvd *kvd = NULL;

	kvd_options_init(&options);
	options.tenant = tenant;
	options.timeout_ms = options.connect_timeout_ms = 2000;
	*status = kvd_open(&kvd, url, &options);
	return kvd;
}

static void at_the_start(void **state)
{
	const char *const options[] = { "memory.size=" FILLED_BYTES, NULL };
	enum kvd_status status;
	const char *url;

	(void)state;
	hold(3);
	url = local_server_begin(options);
	await(&held, true);
	open_with(url, NULL, &status);
	assert_int_not_equal(status, KVD_OK);
	assert_ends();
}

/* A client connects to a tenant of users.file, when `default` has its memory. */
static void of_a_users_tenant(void **state)
{
	char option[USERS_OPTION_BYTES];
	const char *const options[] = { "memory.size=" DEFAULT_BYTES,
					"tenants.memory=" FILLED_BYTES, option, NULL };
	enum kvd_status status;
	const char *url;

	(void)state;
	users_option_begin(option,
			   "[user *]\nrights = all\ntenant = a\nmemory = " FILLED_BYTES "\n");
	hold(DEFAULT_PIECES + 3);
	url = local_server_begin(options);
	await(&held, true);
	open_with(url, NULL, &status);
	assert_int_not_equal(status, KVD_OK);
	assert_ends();
	users_option_end(option);
}

struct change {
	struct kvd *kvd;
	bool resizes;
	enum kvd_status status;
};

static void *change_run(void *arg)
{
	struct change *change = arg;

	change->status = change->resizes ? kvd_tenant_resize(change->kvd, "a", 64u << 20) :
					   kvd_tenant_create(change->kvd, "a", 64u << 20);
	return NULL;
}

/* Others are served meanwhile, by connections that are there and by new ones. */
static void assert_serves(const char *url)
{
	struct kvd *kvd = local_server_open(url, NULL);
	char value[8];

	assert_int_equal(kvd_put(kvd, "key", 3, "value", 5, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_get(kvd, "key", 3, value, sizeof(value), NULL), KVD_OK);
	kvd_close(kvd);
}

static void of_a_tenant(void **state)
{
	const char *const options[] = { "memory.size=" DEFAULT_BYTES, "tenants.memory=128m", NULL };
	struct change change = { 0 };
	enum kvd_status status;
	pthread_t thread;
	const char *url;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		url = local_server_begin(options);
		kvd_close(local_server_open(url, NULL));
		change.resizes = i;
		change.kvd = open_with(url, NULL, &status);
		assert_int_equal(status, KVD_OK);
		if (i)
			assert_int_equal(kvd_tenant_create(change.kvd, "a", 16u << 20), KVD_OK);
		hold(3);
		assert_int_equal(pthread_create(&thread, NULL, change_run, &change), 0);
		await(&held, true);
		assert_serves(url);
		kvd_close(open_with(url, "a", &status));
		assert_int_not_equal(status, KVD_OK);
		assert_ends();
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_not_equal(change.status, KVD_OK);
		kvd_close(change.kvd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_the_start),
		cmocka_unit_test(of_a_users_tenant),
		cmocka_unit_test(of_a_tenant),
	};

	tester = pthread_self();
	local_server_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
