/* SPDX-License-Identifier: MIT */
/* The standard streams of a program: see streams.h. */
#include "common/util/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Room for the longest line: a message with a key whose bytes are all escaped. */
#define LINE_BYTES 8192

/* Fills the lowest descriptor so that wrong use of it fails: stdin and stdout get EBADF. */
static int null_open(int fd)
{
	return fd == STDOUT_FILENO ? open("/dev/null", O_RDONLY) : open("/dev/null", O_WRONLY);
}

int streams_init(const char *program)
{
	static char line[LINE_BYTES];

	setvbuf(stderr, line, _IOLBF, sizeof(line));
	signal(SIGXFSZ, SIG_IGN);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF || null_open(fd) >= 0)
			continue;
		const int err = errno;

		fprintf(stderr, "%s: can't open /dev/null for standard descriptor %d: %s\n",
			program, fd, strerror(err));
		return -err;
	}
	return 0;
}

int streams_flush(const char *program)
{
	int err;

	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	err = errno ? errno : EIO; /* of the last failure, maybe an earlier write */
	fprintf(stderr, "%s: standard output: %s\n", program, strerror(err));
	clearerr(stdout);
	return -err;
}
