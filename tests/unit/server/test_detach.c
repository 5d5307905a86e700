/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvd -d (server/detach.h): what the process that was started ends with, and what the
 * server is that goes on in the background. Each case is a child process, which detaches.
 */
#include "server/detach.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "tests/support/log_fixture.h"

/* What the server found, for the test; it is done when `done` is readable. */
static struct seen {
	pid_t server, session;
	int signal_before, signal_after; /* when the process that waits ends */
	bool null[3];			 /* its streams are /dev/null */
} * seen;
static int done[2];

/* The server, in the background. */
static void ends_with_7(void)
{
	_exit(7);
}

static void ends_with_0(void)
{
	_exit(0);
}

static void dies(void)
{
	const struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	raise(SIGKILL);
}

static bool is_null(int fd)
{
	struct stat st, null;

	return !fstat(fd, &st) && !stat("/dev/null", &null) && st.st_rdev == null.st_rdev;
}

static void is_ready(void)
{
	seen->server = getpid();
	seen->session = getsid(0);
	prctl(PR_GET_PDEATHSIG, &seen->signal_before);
	detach_ready();
	prctl(PR_GET_PDEATHSIG, &seen->signal_after);
	for (int fd = 0; fd < 3; fd++)
		seen->null[fd] = is_null(fd);
	/* Once. */
	detach_ready();
	_exit(write(done[1], "", 1) != 1);
}

static char output[1000];

/* The status with which the process that was started ends; its stderr is a pipe, or a file. */
static int started(void (*server)(void), bool to_file)
{
	char path[100];
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/stderr", test_log_dir);
	assert_int_equal(pipe(fds), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(to_file ? open(path, O_CREAT | O_TRUNC | O_RDWR, 0600) : fds[1],
		     STDERR_FILENO);
		close(fds[1]);
		dup2(fds[0], STDOUT_FILENO);
		if (detach())
			_exit(99);
		server();
		_exit(98);
	}
	close(fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	n = to_file ? 0 : read(fds[0], output, sizeof(output) - 1);
	output[n > 0 ? n : 0] = '\0';
	close(fds[0]);
	unlink(path);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int setup(void **state)
{
	(void)state;
	memset(seen, 0, sizeof(*seen));
	return pipe(done);
}

static int teardown(void **state)
{
	(void)state;
	close(done[0]);
	close(done[1]);
	return 0;
}

/* A server that ends before it is ready has failed, whatever it says. */
static void never_ready(void **state)
{
	(void)state;
	assert_int_equal(started(ends_with_7, false), 7);
	assert_string_equal(output, "");
	assert_int_equal(started(ends_with_0, false), EXIT_FAILURE);
	assert_int_equal(started(dies, false), EXIT_FAILURE);
	assert_string_equal(output,
			    "kvd: signal 9 (Killed) ended the server before it was ready\n");
}

/*
 * One that is ready is on its own: no terminal, no streams but a file for its errors, and no end
 * with the process that waited, as it had until then.
 */
static void ready(void **state)
{
	char byte;

	(void)state;
	for (unsigned int to_file = 0; to_file < 2; to_file++) {
		assert_int_equal(started(is_ready, to_file), EXIT_SUCCESS);
		assert_int_equal(read(done[0], &byte, 1), 1);
		assert_int_equal(seen->session, seen->server);
		assert_int_equal(seen->signal_before, SIGTERM);
		assert_int_equal(seen->signal_after, 0);
		assert_true(seen->null[STDIN_FILENO]);
		assert_true(seen->null[STDOUT_FILENO]);
		assert_int_equal(seen->null[STDERR_FILENO], !to_file);
	}
}

/* A server that was not detached says nobody that it is ready. */
static void not_detached(void **state)
{
	int before = dup(STDOUT_FILENO);

	(void)state;
	detach_ready();
	assert_int_equal(is_null(STDOUT_FILENO), is_null(before));
	close(before);
}

static int group_setup(void **state)
{
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return seen == MAP_FAILED || test_log_group_setup(state);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(never_ready),
		CASE(ready),
		CASE(not_detached),
	};

	return cmocka_run_group_tests(tests, group_setup, test_log_group_teardown);
}
