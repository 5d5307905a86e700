/* SPDX-License-Identifier: MIT */
/*
 * What a supervisor or a debugger does to kvd, for the system tests:
 *
 *	sys_supervise listen ADDRESS	is systemd's socket: prints each message that it gets; an
 *					address that begins with @ is abstract
 *	sys_supervise freeze TID	stops one thread of a process until it is killed itself
 *
 * Both print a line when they have begun.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGE_BYTES 4096

static int fail(const char *what)
{
	printf("FAIL  %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static int listen_at(const char *address)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = strlen(address);
	char message[MESSAGE_BYTES];
	ssize_t n;
	int fd;

	if (len >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return fail(address);
	}
	memcpy(addr.sun_path, address, len + 1);
	/* An abstract name has no zero at its end. */
	if (address[0] == '@')
		addr.sun_path[0] = 0;
	else
		len++;
	fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)))
		return fail(address);
	puts("listening");
	while ((n = recv(fd, message, sizeof(message), 0)) >= 0)
		printf("%.*s\n", (int)n, message);
	return fail("recv");
}

/* A tracer that dies lets the thread go on. */
static int freeze(pid_t tid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) ||
	    waitpid(tid, &status, __WALL) != tid)
		return fail("ptrace");
	puts("frozen");
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "listen"))
		return listen_at(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "freeze"))
		return freeze((pid_t)atoi(argv[2]));
	fputs("usage: sys_supervise listen ADDRESS\n"
	      "       sys_supervise freeze TID\n",
	      stderr);
	return 64;
}
