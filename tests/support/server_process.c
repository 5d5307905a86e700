/* SPDX-License-Identifier: MIT */
/* Forks a server, and learns by a pipe where it listens. */
#include "tests/support/server_process.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/local_server.h"

/* Runs until the other end of the descriptor is closed. */
static void run(int to_fd, int from_fd, const char *const *options)
{
	const char *at;
	char byte;

	local_server_init();
	at = local_server_begin(options);
	if (write(to_fd, at, strlen(at) + 1) < 0)
		_exit(EXIT_FAILURE);
	(void)!read(from_fd, &byte, 1);
	_exit(local_server_end() ? EXIT_SUCCESS : EXIT_FAILURE);
}

bool server_process_start(struct server_process *server, const char *const *options)
{
	int to[2], from[2];

	if (pipe(to) || pipe(from))
		return false;
	server->pid = fork();
	if (!server->pid) {
		close(to[1]);
		close(from[0]);
		run(from[1], to[0], options);
	}
	close(to[0]);
	close(from[1]);
	server->stop_fd = to[1];
	if (server->pid < 0 || read(from[0], server->url, sizeof(server->url) - 1) <= 0)
		return false;
	close(from[0]);
	/* Waits for the server, and the process has what it keeps. */
	kvd_close(local_server_open(server->url, NULL));
	return true;
}

bool server_process_stop(struct server_process *server)
{
	int status;

	close(server->stop_fd);
	return waitpid(server->pid, &status, 0) == server->pid && !status;
}
