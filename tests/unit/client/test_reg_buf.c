/* SPDX-License-Identifier: MIT */
/*
 * Registered buffers (client/libkvd/memory.c): what they hold after each change of their size,
 * what they are after a registration that failed, and that a child after fork(2) does not get them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/libkvd/memory.h"

#define PAGE 4096u
#define ACCESS 5

static struct reg_buf buf;
static struct device device;
static unsigned int made, fail_at, fail_count; /* calls; of these, so many fail from that one on */
static size_t registered;		       /* bytes */

static int reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access, struct ibv_mr **mr)
{
	(void)pd;
	assert_int_equal(access, ACCESS);
	/* A device that holds old and new pages would need memory for both. */
	assert_int_equal(registered, 0);
	if (++made >= fail_at && made < fail_at + fail_count)
		return -ENOMEM;
	*mr = calloc(1, sizeof(**mr));
	assert_non_null(*mr);
	(*mr)->addr = mem->addr;
	(*mr)->length = mem->length;
	registered = mem->length;
	return 0;
}

static void dereg_mr(struct ibv_mr *mr)
{
	assert_int_equal(mr->length, registered);
	registered = 0;
	free(mr);
}

static const struct device_ops ops = { .name = "test", .reg_mr = reg_mr, .dereg_mr = dereg_mr };

static int resize(size_t bytes)
{
	return reg_buf_resize(&buf, &device, NULL, bytes, ACCESS);
}

static void fill(size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		buf.base[i] = (uint8_t)(i * 7 + i / PAGE);
}

static void assert_holds(size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (buf.base[i] != (uint8_t)(i * 7 + i / PAGE))
			fail_msg("byte %zu", i);
}

static void assert_bytes(size_t bytes)
{
	assert_int_equal(buf.bytes, bytes);
	assert_int_equal(registered, bytes);
	assert_int_equal(!!buf.base, !!bytes);
	assert_int_equal(!!buf.mr, !!bytes);
	if (!bytes)
		return;
	assert_ptr_equal(buf.mr->addr, buf.base);
	/* All of it is there. */
	buf.base[0] = buf.base[0];
	buf.base[bytes - 1] = buf.base[bytes - 1];
}

static int setup(void **state)
{
	(void)state;
	device.ops = &ops;
	memset(&buf, 0, sizeof(buf));
	made = fail_count = 0;
	fail_at = 1;
	registered = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fail_count = 0;
	reg_buf_release(&buf, &device);
	reg_buf_release(&buf, &device);
	return registered || buf.base;
}

static void sizes(void **state)
{
	static const size_t wanted[] = { 1, PAGE - 1, PAGE, PAGE + 1, 64 * PAGE, 64 * PAGE - 1,
					 1, 1 << 21,  PAGE };
	size_t i, bytes, before = 0;
	unsigned int calls;

	(void)state;
	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		bytes = (wanted[i] + PAGE - 1) / PAGE * PAGE;
		calls = made;
		assert_int_equal(resize(wanted[i]), 0);
		assert_bytes(bytes);
		assert_holds(before < bytes ? before : bytes);
		/* The same number of pages is nothing to do. */
		assert_int_equal(made - calls, bytes != before);
		fill(bytes);
		before = bytes;
	}
}

/* From a size to another, of which the first @count registrations fail. */
static void change(size_t from, size_t to, unsigned int count)
{
	if (from)
		assert_int_equal(resize(from), 0);
	if (from)
		fill(from);
	fail_at = made + 1;
	fail_count = count;
	assert_int_equal(resize(to), -ENOMEM);
	fail_count = 0;
}

/* After a failure the buffer has its old size and content, and can be resized later. */
static void one_failure_restores(void **state)
{
	static const struct {
		size_t from, to, kept;
	} cases[] = {
		{ 4 * PAGE, 64 * PAGE, 4 * PAGE },
		{ PAGE, 1 << 21, PAGE },
		{ 4 * PAGE, 5 * PAGE, 4 * PAGE },
		{ 64 * PAGE, PAGE, PAGE }, /* it has shrunk in place */
		{ 0, PAGE, 0 },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (i && teardown(state) + setup(state))
			fail();
		change(cases[i].from, cases[i].to, 1);
		assert_bytes(cases[i].kept);
		assert_holds(cases[i].kept);
		assert_int_equal(resize(128 * PAGE), 0);
		assert_bytes(128 * PAGE);
		assert_holds(cases[i].kept);
	}
}

/* Not even its old size can be registered: there is none, and nothing leaks. */
static void two_failures_leave_none(void **state)
{
	static const size_t cases[][2] = { { 4 * PAGE, 64 * PAGE }, { 64 * PAGE, PAGE } };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (i && teardown(state) + setup(state))
			fail();
		change(cases[i][0], cases[i][1], 2);
		assert_bytes(0);
		assert_int_equal(resize(PAGE), 0);
		assert_bytes(PAGE);
	}
}

static bool is_mapped(const uint8_t *addr)
{
	unsigned char pages[1];

	return !mincore((void *)(uintptr_t)addr, PAGE, pages);
}

/* Neither where it was made nor where it moved when it grew. */
static void a_child_does_not_get_it(void **state)
{
	static const size_t wanted[] = { PAGE, 64 * PAGE, 1 << 21, 2 * PAGE };
	int status;
	pid_t pid;

	(void)state;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		assert_int_equal(resize(wanted[i]), 0);
		assert_true(is_mapped(buf.base));
		pid = fork();
		assert_true(pid >= 0);
		if (!pid)
			_exit(is_mapped(buf.base) || is_mapped(buf.base + buf.bytes - PAGE));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(sizes),
		CASE(one_failure_restores),
		CASE(two_failures_leave_none),
		CASE(a_child_does_not_get_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
