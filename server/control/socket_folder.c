/* SPDX-License-Identifier: MIT */
/* The folder of the Unix socket: see socket_folder.h. */
#include "server/control/socket_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rdma/default_socket.h"

/* Clients pass through the folder: softnic.socket_mode says which of them may connect. */
#define FOLDER_MODE 0755
/* For a user's own server; no other user looks for it. */
#define FOLDER_MODE_OWN 0700

static bool is_own(const char *socket, bool is_default)
{
	return is_default && strcmp(socket, DEFAULT_SOCKET_SYSTEM) != 0;
}

int socket_folder_make(struct socket_folder *folder, const char *socket, bool is_default)
{
	bool own = is_own(socket, is_default);
	char path[DEVICE_PATH_MAX];

	*folder = (struct socket_folder){ .made = false };
	strcpy(path, socket);
	strcpy(folder->path, dirname(path));
	folder->made = !mkdir(folder->path, own ? FOLDER_MODE_OWN : FOLDER_MODE);
	if (!folder->made && errno != EEXIST)
		return -errno;
	return own && !default_socket_folder_safe(folder->path) ? -EPERM : 0;
}

/* 0: files can be created in the folder; or a negative errno. */
static int check_writable(const char *folder)
{
	struct stat st;

	if (stat(folder, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) ? -errno : 0;
}

int socket_folder_check(const char *socket, bool is_default)
{
	char path[DEVICE_PATH_MAX];
	char *folder;
	int err;

	strcpy(path, socket);
	folder = dirname(path);
	err = check_writable(folder);
	if (err == -ENOENT)
		return check_writable(dirname(folder));
	/* A wrong owner is the better message than a folder that can't be written to. */
	return is_own(socket, is_default) && !default_socket_folder_safe(folder) ? -EPERM : err;
}

void socket_folder_release(struct socket_folder *folder)
{
	if (folder->made)
		rmdir(folder->path);
	folder->made = false;
}
