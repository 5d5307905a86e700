/* SPDX-License-Identifier: MIT */
/* The standard streams of a program: see streams.h. */
#include "common/util/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int streams_init(const char *program)
{
	/* Standard input and output are opened for the direction that they are not used in. */
	static const int modes[] = { O_WRONLY, O_RDONLY, O_WRONLY };

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF || open("/dev/null", modes[fd]) >= 0)
			continue;
		const int err = errno;

		fprintf(stderr, "%s: can't open /dev/null for standard descriptor %d: %s\n",
			program, fd, strerror(err));
		return -err;
	}
	return 0;
}
