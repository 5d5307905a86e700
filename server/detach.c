/* SPDX-License-Identifier: MIT */
/* kvd -d: see detach.h. */
#include "server/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/log.h"
#include "server/log_writer.h"

/* The server's end of the pipe on which it says that it is ready. */
static int ready_fd = -1;

/* In the original process: waits until the server is ready or has ended, and exits. */
static _Noreturn void await_server(pid_t server, int fd)
{
	ssize_t length;
	int status;
	char byte;

	do
		length = read(fd, &byte, 1);
	while (length < 0 && errno == EINTR);
	if (length == 1)
		_exit(EXIT_SUCCESS);
	while (waitpid(server, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
	fprintf(stderr, "kvd: signal %d (%s) ended the server before it was ready\n",
		WTERMSIG(status), strsignal(WTERMSIG(status)));
	_exit(EXIT_FAILURE);
}

int detach(void)
{
	pid_t pid, parent = getpid();
	int fds[2], err;

	if (pipe2(fds, O_CLOEXEC)) {
		err = -errno;
		log_error("-d: can't make a pipe: %s", strerror(-err));
		return err;
	}
	pid = fork();
	if (pid < 0) {
		err = -errno;
		log_error("-d: can't start a process: %s", strerror(-err));
		close(fds[0]);
		goto close_ready;
	}
	if (pid) {
		close(fds[1]);
		await_server(pid, fds[0]);
	}
	close(fds[0]);
	/* Until the server is ready, it ends with the waiting process, which Ctrl-C may end. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM)) {
		err = -errno;
		log_error("-d: can't ask for a signal when the waiting process ends: %s",
			  strerror(-err));
		goto close_ready;
	}
	if (getppid() != parent) {
		err = -ECANCELED;
		log_error("-d: the process that waits for the server has ended: kvd stops");
		goto close_ready;
	}
	setsid();
	ready_fd = fds[1];
	return 0;

close_ready:
	close(fds[1]);
	return err;
}

static bool is_file(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode);
}

void detach_ready(void)
{
	int null;

	if (ready_fd < 0)
		return;
	if (!*log_file() && !is_file(STDERR_FILENO))
		log_notice("detached: all further log lines are lost; set log.file");
	log_writer_flush();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		if (!is_file(STDERR_FILENO))
			dup2(null, STDERR_FILENO);
		if (null > STDERR_FILENO)
			close(null);
	}
	prctl(PR_SET_PDEATHSIG, 0);
	if (write(ready_fd, "", 1) != 1) {
		log_error("-d: the process that waits for the server has ended (%m): kvd stops");
		raise(SIGTERM);
	}
	close(ready_fd);
	ready_fd = -1;
}
