/* SPDX-License-Identifier: MIT */
/* The file that keeps typed lines for later sessions. */
#ifndef KVD_CLIENT_KVCTL_HISTORY_FILE_H
#define KVD_CLIENT_KVCTL_HISTORY_FILE_H

#include <limits.h>
#include <stdbool.h>

/*
 * $XDG_STATE_HOME/kvd/history, or ~/.local/state/kvd/history (XDG Base Directory Specification),
 * with missing folders made for this user alone. False: neither variable names a place.
 */
bool history_file(char path[PATH_MAX]);

#endif /* KVD_CLIENT_KVCTL_HISTORY_FILE_H */
