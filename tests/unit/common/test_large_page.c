/* SPDX-License-Identifier: MIT */
/*
 * Tests of mappings for large pages (common/util/large_page.h): where they lie, that they show the
 * file from the right place, and that they take no more addresses than was asked for.
 */
#include "common/util/large_page.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGE ((size_t)4096)
#define FILE_BYTES (5 * LARGE_PAGE_BYTES)
#define PROT (PROT_READ | PROT_WRITE)

static int fd;

/* The addresses that this process has mapped. By calls that map nothing themselves. */
static size_t mapped_bytes(void)
{
	const int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	char text[128];
	ssize_t got;

	assert_true(statm >= 0);
	got = read(statm, text, sizeof(text) - 1);
	close(statm);
	assert_true(got > 0);
	text[got] = 0;
	return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void check_map(size_t bytes, uint64_t offset)
{
	const size_t before = mapped_bytes();
	uint8_t last = 0;
	uint8_t *base = large_page_map(bytes, PROT, MAP_SHARED, fd, offset);

	assert_ptr_not_equal(base, MAP_FAILED);
	assert_int_equal(mapped_bytes() - before, bytes);
	assert_int_equal(((uintptr_t)base - offset) % LARGE_PAGE_BYTES, 0);
	base[bytes - 1] = 0x5a;
	assert_int_equal(pread(fd, &last, 1, (off_t)(offset + bytes - 1)), 1);
	assert_int_equal(last, 0x5a);
	base[bytes - 1] = 0;
	assert_int_equal(munmap(base, bytes), 0);
	assert_int_equal(mapped_bytes(), before);
}

static void maps_what_was_asked_for(void **state)
{
	(void)state;
	check_map(LARGE_PAGE_BYTES, 0);
	check_map(LARGE_PAGE_BYTES, LARGE_PAGE_BYTES);
	check_map(2 * LARGE_PAGE_BYTES, 3 * PAGE);
	check_map(LARGE_PAGE_BYTES + 7 * PAGE, LARGE_PAGE_BYTES - PAGE);
	check_map(3 * PAGE, 2 * LARGE_PAGE_BYTES + PAGE);
}

static void a_failed_map_keeps_nothing(void **state)
{
	const size_t before = mapped_bytes();

	(void)state;
	assert_ptr_equal(large_page_map(LARGE_PAGE_BYTES, PROT, MAP_SHARED, -1, 0), MAP_FAILED);
	assert_int_equal(errno, EBADF);
	assert_ptr_equal(large_page_map(SIZE_MAX / 2, PROT, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(mapped_bytes(), before);
}

static int file_open(void **state)
{
	(void)state;
	fd = memfd_create("test", MFD_CLOEXEC);
	return fd < 0 || ftruncate(fd, FILE_BYTES);
}

static int file_close(void **state)
{
	(void)state;
	return close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(maps_what_was_asked_for),
		cmocka_unit_test(a_failed_map_keeps_nothing),
	};

	return cmocka_run_group_tests(tests, file_open, file_close);
}
