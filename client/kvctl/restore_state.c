/* SPDX-License-Identifier: MIT */
/* Saves the progress of a restore: see restore_state.h. */
#include "client/kvctl/restore_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* NAME.restore, followed by @more. False: the path is too long. */
static bool name_make(char path[PATH_MAX], const char *name, const char *more)
{
	return snprintf(path, PATH_MAX, "%s" RESTORE_SUFFIX "%s", name, more) < PATH_MAX;
}

static uint64_t state_sum(const struct restore_state *state)
{
	return dump_body_sum(state, offsetof(struct restore_state, sum), NULL, 0);
}

int restore_state_write(const char *name, struct restore_state *state)
{
	char path[PATH_MAX], fresh[PATH_MAX];
	ssize_t written;
	int fd, err;

	memcpy(state->magic, RESTORE_MAGIC, sizeof(state->magic));
	state->sum = state_sum(state);
	if (!name_make(path, name, "") || !name_make(fresh, name, ".new"))
		return -ENAMETOOLONG;
	fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	written = write(fd, state, sizeof(*state));
	err = written < 0 ? -errno : written == (ssize_t)sizeof(*state) ? 0 : -ENOSPC;
	close(fd);
	if (!err && rename(fresh, path))
		err = -errno;
	if (err)
		unlink(fresh);
	return err;
}

int restore_state_read(const char *name, struct restore_state *state)
{
	char path[PATH_MAX];
	ssize_t got;
	int fd;

	if (!name_make(path, name, ""))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, state, sizeof(*state));
	close(fd);
	if (got != (ssize_t)sizeof(*state) ||
	    memcmp(state->magic, RESTORE_MAGIC, sizeof(state->magic)) != 0 ||
	    state->sum != state_sum(state))
		return -EINVAL;
	return 0;
}

void restore_state_remove(const char *name)
{
	char path[PATH_MAX];

	if (name_make(path, name, ""))
		unlink(path);
}
