/* SPDX-License-Identifier: MIT */
/* The pid file: see pidfile.h. */
#include "server/pidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/log.h"

/* Attempts: a stopping server may remove the file between our open() and flock(). */
#define TRIES_MAX 10
#define TEXT_MAX 16

static const char *pid_path;
static int pid_fd = -1;

/* Whether @fd still is the file at @path: a server that stopped may just have removed it. */
static bool is_at(int fd, const char *path)
{
	struct stat opened, there;

	return !fstat(fd, &opened) && !lstat(path, &there) && opened.st_dev == there.st_dev &&
	       opened.st_ino == there.st_ino;
}

/*
 * Reads a process ID. Returns it as text, "" if the file is empty, or NULL: errno is 0 if it is not
 * a pid file, else the error of reading it.
 */
static const char *read_pid(int fd, char text[TEXT_MAX])
{
	ssize_t length;

	errno = 0;
	length = pread(fd, text, TEXT_MAX - 1, 0);
	if (length < 0)
		return NULL;
	text[length] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return length < TEXT_MAX - 1 && strspn(text, "0123456789") == strlen(text) ? text : NULL;
}

/* Locks the file at @path. Returns its descriptor, or a negative errno; -EBUSY after logging. */
static int open_locked(const char *path)
{
	int fd, err;

	for (int tries = 0; tries < TRIES_MAX; tries++) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK,
			  0644);
		if (fd < 0)
			return -errno;
		err = flock(fd, LOCK_EX | LOCK_NB) ? -errno : 0;
		if (err == -EWOULDBLOCK) {
			char text[TEXT_MAX];
			const char *pid = read_pid(fd, text);

			log_error("--pidfile %s: process %s runs and holds it: stop that kvd, or "
				  "choose another file",
				  path, pid && *pid ? pid : "(unknown)");
			err = -EBUSY;
		}
		if (!err && is_at(fd, path))
			return fd;
		close(fd);
		if (err)
			return err;
	}
	return -EAGAIN;
}

static int write_pid(int fd)
{
	char text[TEXT_MAX];
	int length = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)length, 0) != length)
		return errno ? -errno : -EIO;
	return 0;
}

int pidfile_create(const char *path)
{
	char text[TEXT_MAX];
	const char *old;
	int fd, err;

	if (!path)
		return 0;
	fd = open_locked(path);
	if (fd < 0) {
		if (fd != -EBUSY)
			log_error(
				"--pidfile %s: can't create it: %s; choose a file in a folder that "
				"this user may write to",
				path, strerror(-fd));
		return fd;
	}
	old = read_pid(fd, text);
	if (!old) {
		err = errno ? -errno : -EEXIST;
		log_error("--pidfile %s: %s: choose another", path,
			  errno ? strerror(errno) : "the file is not a pid file");
		close(fd);
		return err;
	}
	if (*old)
		log_notice("--pidfile %s: replacing the file of process %s, which died", path, old);
	err = write_pid(fd);
	if (err) {
		log_error("--pidfile %s: can't write it: %s", path, strerror(-err));
		unlink(path);
		close(fd);
		return err;
	}
	pid_path = path;
	pid_fd = fd;
	return 0;
}

void pidfile_remove(void)
{
	if (pid_fd < 0)
		return;
	/* Removed before it is unlocked: a server that locks it next sees that it is gone. */
	if (is_at(pid_fd, pid_path))
		unlink(pid_path);
	close(pid_fd);
	pid_fd = -1;
}
