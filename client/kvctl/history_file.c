/* SPDX-License-Identifier: MIT */
/* Finds the file of the history: see history_file.h. */
#include "client/kvctl/history_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Makes the folders above the file @path. */
static bool folder_make(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		bool made;

		*slash = '\0';
		made = !mkdir(path, 0700) || errno == EEXIST;
		*slash = '/';
		if (!made)
			return false;
	}
	return true;
}

bool history_file(char path[PATH_MAX])
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int len;

	/* The specification says to ignore a path that is not absolute. */
	if (state && *state == '/')
		len = snprintf(path, PATH_MAX, "%s/kvd/history", state);
	else if (home && *home == '/')
		len = snprintf(path, PATH_MAX, "%s/.local/state/kvd/history", home);
	else
		return false;
	return len < PATH_MAX && folder_make(path);
}
