/* SPDX-License-Identifier: MIT */
/* Reads the file of users, if only its owner may write to it. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/heap.h"
#include "server/users/users.h"

/* Room for a line of passwd(5): more than any needs. */
#define PASSWD_MAX 16384

static int uid_of(const char *name, uid_t *uid)
{
	struct passwd entry, *found = NULL;
	char *room = malloc(PASSWD_MAX);
	int err = room ? getpwnam_r(name, &entry, room, PASSWD_MAX, &found) : ENOMEM;

	if (found)
		*uid = found->pw_uid;
	free(room);
	return found ? 0 : err ? -err : -ENOENT;
}

/* Whoever can write the file decides what all clients may do. NULL, or what is wrong. */
static const char *file_check(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "it is no regular file";
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return "it belongs to another user, who could change it: `chown root` it";
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

static int file_parse(struct users **users, int fd, char *reason)
{
	char *text = heap_alloc(USERS_FILE_MAX + 1);
	ssize_t length;
	int err;

	if (!text)
		return -ENOMEM;
	length = read_all(fd, text, USERS_FILE_MAX + 1);
	if (length < 0) {
		err = (int)length;
	} else if (length > USERS_FILE_MAX) {
		snprintf(reason, USERS_WHY_MAX, "it is longer than 1 MiB");
		err = -EINVAL;
	} else {
		err = users_parse(users, text, (size_t)length, uid_of, reason);
	}
	heap_free(text);
	return err;
}

int users_load(struct users **users, const char *path, char *why)
{
	int err = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char reason[USERS_WHY_MAX] = "";
	const char *wrong = NULL;

	if (fd < 0) {
		err = -errno;
	} else {
		wrong = file_check(fd);
		if (wrong)
			err = -EINVAL;
		else
			err = file_parse(users, fd, reason);
		close(fd);
	}
	if (err)
		snprintf(why, USERS_WHY_MAX, "%.120s: %.270s", path,
			 wrong	 ? wrong :
			 *reason ? reason :
				   strerror(-err));
	return err;
}
