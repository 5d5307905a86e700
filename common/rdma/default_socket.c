/* SPDX-License-Identifier: MIT */
/* The default address: see default_socket.h. */
#include "common/rdma/default_socket.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rdma/device.h"

#define SYSTEM_FOLDER "/run/kvd"

/* A folder itself, not what a symbolic link leads to; @others: permissions that it must not give.
 */
static bool folder_is_mine(const char *folder, mode_t others)
{
	struct stat st;

	return !lstat(folder, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & others);
}

bool default_socket_folder_safe(const char *folder)
{
	return folder_is_mine(folder, S_IWGRP | S_IWOTH);
}

/* False if there is no such folder: XDG's specification has it 0700 and the user's own. */
static bool runtime_socket(char *path)
{
	const char *folder = getenv("XDG_RUNTIME_DIR");

	return folder && folder[0] == '/' && folder_is_mine(folder, S_IRWXG | S_IRWXO) &&
	       snprintf(path, DEVICE_PATH_MAX, "%s/kvd/kvd.sock", folder) < DEVICE_PATH_MAX;
}

static void tmp_socket(char *path)
{
	snprintf(path, DEVICE_PATH_MAX, "/tmp/kvd-%u/kvd.sock", (unsigned int)geteuid());
}

bool default_socket_own(char *path)
{
	if (!geteuid() || folder_is_mine(SYSTEM_FOLDER, 0))
		return false;
	if (!runtime_socket(path))
		tmp_socket(path);
	return true;
}

void default_socket_serve(char *path)
{
	if (!default_socket_own(path))
		strcpy(path, DEFAULT_SOCKET_SYSTEM);
}

static bool is_socket(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISSOCK(st.st_mode);
}

static bool own_server(const char *path)
{
	char folder[DEVICE_PATH_MAX];

	strcpy(folder, path);
	return default_socket_folder_safe(dirname(folder)) && is_socket(path);
}

void default_socket_find(char *path)
{
	if (geteuid()) {
		if (runtime_socket(path) && own_server(path))
			return;
		tmp_socket(path);
		if (own_server(path))
			return;
	}
	strcpy(path, DEFAULT_SOCKET_SYSTEM);
	/*
	 * Not in /tmp: another user may have created that folder, or may before the program
	 * connects.
	 */
	if (geteuid() && !is_socket(path) && !runtime_socket(path))
		strcpy(path, DEFAULT_SOCKET_SYSTEM);
}
