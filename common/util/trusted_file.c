/* SPDX-License-Identifier: MIT */
#include "common/util/trusted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/heap.h"

const char *trusted_file_check(int fd, bool is_secret)
{
	struct stat st;

	if (fstat(fd, &st))
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "it is not a regular file";
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return "it belongs to another user, who could change it: `chown` it";
	if (is_secret && st.st_mode & (S_IRWXO | S_IWGRP))
		return "it is a secret that other users may read or change: `chmod 600` it";
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return "other users may write to it: `chmod go-w` it";
	return NULL;
}

/* Returns its length, or a negative errno. */
static ssize_t read_all(int fd, char *text, size_t size)
{
	size_t length = 0;
	ssize_t n;

	do {
		n = read(fd, text + length, size - length);
		if (n < 0)
			return -errno;
		length += (size_t)n;
	} while (n && length < size);
	return (ssize_t)length;
}

static int file_read(char *text, size_t *length, int fd, size_t max, bool *is_secret, char *why)
{
	const char *wrong = trusted_file_check(fd, false);
	ssize_t n;

	if (wrong) {
		snprintf(why, TRUSTED_FILE_WHY_MAX, "%s", wrong);
		return -EINVAL;
	}
	if (is_secret)
		*is_secret = !trusted_file_check(fd, true);
	n = read_all(fd, text, max + 1);
	if (n < 0)
		return (int)n;
	if ((size_t)n > max) {
		snprintf(why, TRUSTED_FILE_WHY_MAX, "it is longer than %zu MiB", max >> 20);
		return -EINVAL;
	}
	text[n] = '\0';
	*length = (size_t)n;
	return 0;
}

int trusted_file_read(char **text, size_t *length, const char *path, size_t max, bool *is_secret,
		      char *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int err = fd < 0 ? -errno : 0;

	*why = '\0';
	*text = fd < 0 ? NULL : heap_alloc(max + 1);
	if (!err)
		err = *text ? file_read(*text, length, fd, max, is_secret, why) : -ENOMEM;
	if (fd >= 0)
		close(fd);
	if (!err)
		return 0;
	if (!*why)
		snprintf(why, TRUSTED_FILE_WHY_MAX, "%s", strerror(-err));
	heap_free(*text);
	*text = NULL;
	return err;
}
