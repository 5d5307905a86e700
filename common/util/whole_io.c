/* SPDX-License-Identifier: MIT */
/* Reads and writes in a loop, past signals. */
#include "common/util/whole_io.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

int write_whole(int fd, const void *bytes, size_t count)
{
	const uint8_t *at = bytes;
	ssize_t n;

	while (count) {
		n = write(fd, at, count);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			at += n;
			count -= (size_t)n;
		}
	}
	return 0;
}

bool read_whole(int fd, void *bytes, size_t count)
{
	uint8_t *at = bytes;
	ssize_t n = 1;

	while (count && n) {
		n = read(fd, at, count);
		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			at += n;
			count -= (size_t)n;
		}
	}
	return !count;
}
