/* SPDX-License-Identifier: MIT */
/*
 * A complete server in a process of its own, for tests in which the calls of the client's process
 * fail: it is forked from the test, so that there is one program. Start it before other threads.
 */
#ifndef KVD_TESTS_SUPPORT_SERVER_PROCESS_H
#define KVD_TESTS_SUPPORT_SERVER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct server_process {
	pid_t pid;
	int stop_fd; /* the server ends when this is closed */
	char url[128];
};

/* @options as for local_server_begin(). Returns when the server listens, or false. */
bool server_process_start(struct server_process *server, const char *const *options);

/* Whether it ended without an error. */
bool server_process_stop(struct server_process *server);

#endif /* KVD_TESTS_SUPPORT_SERVER_PROCESS_H */
