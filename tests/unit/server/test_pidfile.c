/* SPDX-License-Identifier: MIT */
/*
 * Tests of the pid file (server/pidfile.h): what it says, who may have it, and that nothing is
 * overwritten or removed that is no pid file of this server.
 */
#include "server/pidfile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sys/file.h>

/* What happens when the file is locked; and how much of the number is written. */
static void (*on_lock)(void);
static ssize_t written_max;

static int test_flock(int fd, int operation)
{
	void (*now)(void) = on_lock;

	on_lock = NULL;
	if (now)
		now();
	return flock(fd, operation);
}

static ssize_t test_pwrite(int fd, const void *text, size_t length, off_t at)
{
	if (written_max >= (ssize_t)length)
		return pwrite(fd, text, length, at);
	errno = ENOSPC;
	return written_max ? pwrite(fd, text, (size_t)written_max, at) : -1;
}

#define flock test_flock
#define pwrite test_pwrite
#include "server/pidfile.c"
#undef flock
#undef pwrite

#include "tests/support/log_fixture.h"

#define LONG_PID "1234567890\n"

static char path[80], other[80];

static int group_setup(void **state)
{
	int err = test_log_group_setup(state);

	snprintf(path, sizeof(path), "%s/pid", test_log_dir);
	snprintf(other, sizeof(other), "%s/other", test_log_dir);
	return err;
}

static int setup(void **state)
{
	(void)state;
	on_lock = NULL;
	written_max = 100;
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	pidfile_remove();
	unlink(path);
	unlink(other);
	return 0;
}

static void write_file(const char *name, const char *text)
{
	FILE *out = fopen(name, "we");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

static void assert_file(const char *name, const char *text)
{
	char found[64];
	FILE *in = fopen(name, "re");

	assert_non_null(in);
	found[fread(found, 1, sizeof(found) - 1, in)] = '\0';
	fclose(in);
	assert_string_equal(found, text);
}

static void assert_file_is_ours(void)
{
	char text[32];

	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	assert_file(path, text);
}

static void comes_and_goes(void **state)
{
	(void)state;
	assert_int_equal(pidfile_create(NULL), 0);
	pidfile_remove();
	assert_int_equal(pidfile_create(path), 0);
	assert_file_is_ours();
	pidfile_remove();
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(test_log_lines(), 0);
}

/* One that a dead server left: nothing stays of its number, which may be longer. */
static void of_a_dead_server(void **state)
{
	(void)state;
	write_file(path, LONG_PID);
	assert_int_equal(pidfile_create(path), 0);
	assert_file_is_ours();
	assert_logged("replacing the file of process 1234567890, which died");
	pidfile_remove();
	/* The other kvd died before it had written its number. */
	write_file(path, "");
	assert_int_equal(pidfile_create(path), 0);
	assert_file_is_ours();
}

static void of_a_server_that_runs(void **state)
{
	char text[64];

	(void)state;
	assert_int_equal(pidfile_create(path), 0);
	assert_int_equal(pidfile_create(path), -EBUSY);
	snprintf(text, sizeof(text), "process %d runs and holds it", (int)getpid());
	assert_logged(text);
	assert_file_is_ours();
}

static void no_pid_file(void **state)
{
	static const char *const texts[] = { "12x\n", "-1\n", "a text\n", "1234567890123456\n" };

	(void)state;
	for (unsigned int i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		write_file(path, texts[i]);
		assert_int_equal(pidfile_create(path), -EEXIST);
		assert_file(path, texts[i]);
	}
	assert_logged("the file is not a pid file");
	assert_int_equal(unlink(path), 0);
	/* Not what a link leads to. */
	write_file(other, LONG_PID);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(pidfile_create(path), -ELOOP);
	assert_file(other, LONG_PID);
}

/* Somebody has put another file in its place. */
static void not_ours_any_more(void **state)
{
	(void)state;
	assert_int_equal(pidfile_create(path), 0);
	write_file(other, LONG_PID);
	assert_int_equal(rename(other, path), 0);
	pidfile_remove();
	assert_file(path, LONG_PID);
}

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void remove_it(void)
{
	assert_int_equal(unlink(path), 0);
}

/* A server that stops removes its file just when the next one has opened that. */
static void removed_meanwhile(void **state)
{
	unsigned int files = open_files();

	(void)state;
	on_lock = remove_it;
	assert_int_equal(pidfile_create(path), 0);
	assert_file_is_ours();
	assert_int_equal(open_files(), files + 1);
}

/* The disk is full: no file without a number stays, or with half of one, and no descriptor. */
static void not_written(void **state)
{
	unsigned int files = open_files();

	(void)state;
	for (written_max = 0; written_max < 2; written_max++) {
		assert_int_equal(pidfile_create(path), -ENOSPC);
		assert_logged("can't write it: No space left on device");
		assert_int_equal(access(path, F_OK), -1);
		assert_int_equal(open_files(), files);
	}
}

/* Whoever has it may not have written a number yet. */
static void without_a_number(void **state)
{
	unsigned int files;
	int fd;

	(void)state;
	write_file(path, "");
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	files = open_files();
	assert_int_equal(pidfile_create(path), -EBUSY);
	assert_logged("process (unknown) runs and holds it");
	assert_int_equal(open_files(), files);
	close(fd);
	write_file(path, "a text");
	files = open_files();
	assert_int_equal(pidfile_create(path), -EEXIST);
	assert_int_equal(open_files(), files);
}

/* The file is removed once, whatever has its descriptor's number by then. */
static void removed_once(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(pidfile_create(path), 0);
	pidfile_remove();
	fd = open(other, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	pidfile_remove();
	assert_true(fcntl(fd, F_GETFD) >= 0);
	close(fd);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(comes_and_goes), CASE(of_a_dead_server),  CASE(of_a_server_that_runs),
		CASE(no_pid_file),    CASE(not_ours_any_more), CASE(removed_meanwhile),
		CASE(not_written),    CASE(without_a_number),  CASE(removed_once),
	};

	return cmocka_run_group_tests(tests, group_setup, test_log_group_teardown);
}
