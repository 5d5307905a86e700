/* SPDX-License-Identifier: MIT */
/* Reads the file of users, if only its owner may write to it. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/heap.h"
#include "common/util/trusted_file.h"
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

/* Whoever can write the file decides what all clients may do: trusted_file_read(). */
int users_load(struct users **users, const char *path, char *why)
{
	char reason[USERS_WHY_MAX] = "";
	bool is_secret;
	size_t length;
	char *text;
	int err = trusted_file_read(&text, &length, path, USERS_FILE_MAX, &is_secret, reason);

	if (!err)
		err = users_parse(users, text, length, uid_of, reason);
	if (text)
		explicit_bzero(text, USERS_FILE_MAX + 1);
	heap_free(text);
	if (!err && (*users)->with_password && !is_secret) {
		users_put(*users);
		*users = NULL;
		snprintf(reason, sizeof(reason),
			 "it has passwords, and other users may read it: `chmod 600` it");
		err = -EINVAL;
	}
	if (err)
		snprintf(why, USERS_WHY_MAX, "%.120s: %.270s", path,
			 *reason ? reason : strerror(-err));
	return err;
}
