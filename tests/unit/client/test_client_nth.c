/* SPDX-License-Identifier: MIT */
/*
 * Tests of libkvd with little memory and few descriptors: of what a session allocates, maps and
 * opens, the N-th fails, for each N, alone and with all after it. Every call says so by a status
 * and a text, nothing leaks, and what could be had again afterwards works.
 *
 * The calls are wrapped by the linker (Makefile), and fail only in the thread that asks for it.
 * The server is another process.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/kvd.h"
#include "tests/support/descriptors.h"
#include "tests/support/server_process.h"

#define CALLS_MAX 1000
#define LARGE_BYTES 300000u
#define SUBMITTED 6
#define MAPPINGS 3 /* calls that map the server's memory: an object and addresses */
#define WAIT_MS 300000

static const char *url;
static unsigned int countdown, calls; /* 0: none fails */
static bool on, all_after, lost;
static const char *failed;
static const void *failed_at;

/* Whether this call, made from there, fails. */
static bool fails(const char *name, const void *from)
{
	if (!on)
		return false;
	calls++;
	if (calls < countdown || (calls > countdown && !all_after))
		return false;
	if (calls == countdown) {
		failed = name;
		failed_at = from;
	}
	return true;
}

/* clang-format off */
#define WRAP(type, name, error, result, params, args) \
	type __real_##name params; \
	type __wrap_##name params; \
	type __wrap_##name params \
	{ \
		if (!fails(#name, __builtin_return_address(0))) \
			return __real_##name args; \
		errno = (error); \
		return result; \
	}
/* clang-format on */

WRAP(void *, malloc, ENOMEM, NULL, (size_t size), (size))
WRAP(void *, calloc, ENOMEM, NULL, (size_t count, size_t size), (count, size))
WRAP(void *, realloc, ENOMEM, NULL, (void *old, size_t size), (old, size))
WRAP(void *, mmap, ENOMEM, MAP_FAILED,
     (void *at, size_t bytes, int prot, int flags, int fd, off_t offset),
     (at, bytes, prot, flags, fd, offset))
WRAP(int, memfd_create, EMFILE, -1, (const char *name, unsigned int flags), (name, flags))
WRAP(int, eventfd, EMFILE, -1, (unsigned int count, int flags), (count, flags))
WRAP(int, epoll_create1, EMFILE, -1, (int flags), (flags))
WRAP(int, timerfd_create, EMFILE, -1, (int clock, int flags), (clock, flags))
WRAP(int, socket, EMFILE, -1, (int domain, int type, int protocol), (domain, type, protocol))

/* On softnic the server's memory is mapped after kvd_open(); without it the connection ends. */
static bool is_expected(const struct kvd *kvd, enum kvd_status status)
{
	if (status == KVD_ERR_DISCONNECTED && kvd && strstr(kvd_error(kvd), "could not map"))
		lost = true;
	return !status || status == KVD_ERR_NO_MEMORY || (lost && status == KVD_ERR_DISCONNECTED);
}

/* A call ends well, or says that there is no memory. */
static void expect(const struct kvd *kvd, const char *what, enum kvd_status status)
{
	if (!is_expected(kvd, status))
		fail_msg("%s, where call %u, %s, fails: %s: %s", what, countdown, failed,
			 kvd_status_text(status), kvd_error(kvd));
	if (status && !strlen(kvd_error(kvd)))
		fail_msg("%s, where call %u, %s, fails: no text", what, countdown, failed);
}

static uint8_t large[LARGE_BYTES], values[SUBMITTED][LARGE_BYTES];

static void submit(struct kvd *kvd)
{
	struct kvd_op ops[SUBMITTED], *list[SUBMITTED], *done[SUBMITTED];
	enum kvd_status status;
	size_t n;

	kvd_prep_put(&ops[0], "a", 1, "1", 1, NULL);
	kvd_prep_get(&ops[1], "a", 1, values[1], 10);
	kvd_prep_put(&ops[2], "l", 1, large, sizeof(large), NULL);
	kvd_prep_get(&ops[3], "l", 1, values[3], sizeof(large));
	kvd_prep_incr(&ops[4], "a", 1, 1, NULL);
	kvd_prep_get(&ops[5], "a", 1, values[5], 10);
	for (n = 0; n < SUBMITTED; n++)
		list[n] = &ops[n];
	status = kvd_submit(kvd, list, SUBMITTED);
	expect(kvd, "kvd_submit", status);
	if (status)
		return;
	n = kvd_wait(kvd, done, SUBMITTED, SUBMITTED, WAIT_MS);
	assert_int_equal(n, SUBMITTED);
	while (n--)
		if (!is_expected(kvd, done[n]->status) && done[n] != &ops[3])
			fail_msg("operation %td, where call %u, %s, fails: %s", done[n] - ops,
				 countdown, failed, kvd_status_text(done[n]->status));
	if (!ops[3].status)
		assert_memory_equal(values[3], large, sizeof(large));
	if (kvd_fd(kvd) >= 0)
		expect(kvd, "kvd_arm", kvd_arm(kvd));
	else
		assert_true(strlen(kvd_error(kvd)) > 0);
}

/* A value that is stored from and read to registered memory. */
static void use_registered(struct kvd *kvd)
{
	struct kvd_mem *mem;
	enum kvd_status status;
	void *addr;

	status = kvd_alloc(kvd, sizeof(large), &addr, &mem);
	expect(kvd, "kvd_alloc", status);
	if (status)
		return;
	memcpy(addr, large, sizeof(large));
	expect(kvd, "kvd_put of registered memory",
	       kvd_put(kvd, "l", 1, addr, sizeof(large), NULL, NULL));
	status = kvd_get(kvd, "l", 1, addr, sizeof(large), NULL);
	if (status != KVD_NOT_FOUND)
		expect(kvd, "kvd_get to registered memory", status);
	if (!status)
		assert_memory_equal(addr, large, sizeof(large));
	assert_int_equal(kvd_free(mem), KVD_OK);
}

static void use(struct kvd *kvd)
{
	struct kvd_item item;
	enum kvd_status status;

	expect(kvd, "kvd_put", kvd_put(kvd, "s", 1, "Ada", 3, NULL, NULL));
	status = kvd_get(kvd, "s", 1, values[0], 100, &item);
	if (status != KVD_NOT_FOUND)
		expect(kvd, "kvd_get", status);
	expect(kvd, "a long kvd_put", kvd_put(kvd, "l", 1, large, sizeof(large), NULL, NULL));
	status = kvd_get(kvd, "l", 1, values[0], sizeof(large), &item);
	if (status != KVD_NOT_FOUND)
		expect(kvd, "a long kvd_get", status);
	if (!status)
		assert_memory_equal(values[0], large, sizeof(large));
	submit(kvd);
	use_registered(kvd);
}

/* With all that it needs. */
static void works(struct kvd *kvd)
{
	struct kvd_item item;

	assert_int_equal(kvd_put(kvd, "s", 1, "Bob", 3, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_get(kvd, "s", 1, values[0], 100, &item), KVD_OK);
	assert_memory_equal(values[0], "Bob", 3);
	assert_int_equal(kvd_put(kvd, "l", 1, large, sizeof(large), NULL, NULL), KVD_OK);
	memset(values[0], 0, sizeof(values[0]));
	assert_int_equal(kvd_get(kvd, "l", 1, values[0], sizeof(large), &item), KVD_OK);
	assert_memory_equal(values[0], large, sizeof(large));
}

/* False: it made fewer calls than that. */
static bool session(unsigned int n)
{
	unsigned int before = descriptors();
	struct kvd_options options;
	enum kvd_status status;
	struct kvd *kvd;

	kvd_options_init(&options);
	/* Without memory for the next connection either, each call would wait for its deadline. */
	options.reconnect = 0;
	options.cache_bytes = 1u << 20;
	options.timeout_ms = options.connect_timeout_ms = WAIT_MS;
	countdown = n;
	calls = 0;
	lost = false;
	on = true;
	status = kvd_open(&kvd, url, &options);
	expect(NULL, "kvd_open", status);
	if (!status) {
		use(kvd);
		on = false;
		if (!lost)
			works(kvd);
	}
	on = false;
	kvd_close(kvd);
	if (descriptors() != before)
		fail_msg("descriptors leak where call %u, %s, fails", n, failed);
	return calls >= n;
}

/* When the mappings are made varies, so that one may be met by several sessions. */
static void each(void **state)
{
	const void *losing[MAPPINGS];
	unsigned int n = 1, losses = 0, i;

	(void)state;
	all_after = false;
	while (session(n)) {
		for (i = 0; lost && i < losses && losing[i] != failed_at; i++)
			;
		if (lost && i == losses) {
			assert_true(losses < MAPPINGS);
			losing[losses++] = failed_at;
		}
		n++;
		assert_true(n < CALLS_MAX);
	}
	print_message("%u calls; from %u places one lost a connection\n", n - 1, losses);
	assert_true(n > 30);
}

static void each_and_all_after(void **state)
{
	unsigned int n = 1;

	(void)state;
	all_after = true;
	while (session(n))
		n++;
}

int main(void)
{
	static const char *const options[] = { "memory.size=64m", "limits.max_value=1m", NULL };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each),
		cmocka_unit_test(each_and_all_after),
	};
	struct server_process server = { .pid = -1 };
	int failures;

	if (!server_process_start(&server, options))
		return EXIT_FAILURE;
	url = server.url;
	memset(large, 'x', sizeof(large));
	failures = cmocka_run_group_tests(tests, NULL, NULL);
	return !server_process_stop(&server) || failures;
}
