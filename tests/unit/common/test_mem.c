/* SPDX-License-Identifier: MIT */
/*
 * Tests of memory for the data of RDMA (common/rdma/mem.h): that it is there with and without a
 * file, that a child does not have it, and that nothing of it is left when it is given back.
 */
#include "common/rdma/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES (5u << 12)

/* The lowest descriptor that is not in use. */
static int free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static bool is_mapped(void *addr)
{
	unsigned char pages[BYTES >> 12];

	return !mincore(addr, BYTES, pages);
}

static bool is_mapped_in_child(void *addr)
{
	pid_t child = fork();
	int status = 0;

	assert_true(child >= 0);
	if (!child)
		_exit(is_mapped(addr));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void given_back(void **state)
{
	const int fd = free_fd();
	struct device_mem mem;
	struct stat st;
	void *addr;
	int other;

	(void)state;
	for (unsigned int with_file = 0; with_file < 2; with_file++) {
		assert_int_equal(mem_map(&mem, BYTES, with_file), 0);
		assert_int_equal(mem.length, BYTES);
		assert_int_equal(mem.fd, with_file ? fd : -1);
		memset(mem.addr, 7, BYTES);
		addr = mem.addr;
		other = with_file ? dup(mem.fd) : -1;
		mem_unmap(&mem);
		assert_null(mem.addr);
		assert_int_equal(mem.fd, -1);
		assert_false(is_mapped(addr));
		assert_int_equal(free_fd(), fd);
		/* Whoever has the file has none of its pages. */
		assert_true(!with_file || !fstat(other, &st));
		assert_true(!with_file || (st.st_blocks == 0 && st.st_size == BYTES));
		if (with_file)
			close(other);
		mem_unmap(&mem);
	}
}

/* A child would keep the pages, and what it writes to them would not be seen here. */
static void not_in_a_child(void **state)
{
	struct device_mem mem;

	(void)state;
	for (unsigned int with_file = 0; with_file < 2; with_file++) {
		assert_int_equal(mem_map(&mem, BYTES, with_file), 0);
		assert_true(is_mapped(mem.addr));
		assert_false(is_mapped_in_child(mem.addr));
		mem_unmap(&mem);
	}
}

/* In whole pages; nothing, and more than there is, are refused, and leave nothing. */
static void lengths(void **state)
{
	const int fd = free_fd();
	struct device_mem mem;

	(void)state;
	for (unsigned int with_file = 0; with_file < 2; with_file++) {
		assert_int_equal(mem_map(&mem, 1, with_file), 0);
		assert_int_equal(mem.length, 4096);
		mem_unmap(&mem);
		assert_int_equal(mem_map(&mem, 4097, with_file), 0);
		assert_int_equal(mem.length, 8192);
		mem_unmap(&mem);
		assert_int_equal(mem_map(&mem, 0, with_file), -EINVAL);
		assert_int_equal(mem_map(&mem, SIZE_MAX / 2 + 1, with_file), -EINVAL);
		/* More than a process has addresses. */
		assert_true(mem_map(&mem, (size_t)1 << 60, with_file) < 0);
		assert_int_equal(free_fd(), fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(given_back),
		cmocka_unit_test(not_in_a_child),
		cmocka_unit_test(lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
