/* SPDX-License-Identifier: MIT */
/* Where the lines that somebody typed are kept, for the next time. */
#ifndef KVD_CLIENT_KVCTL_HISTORY_FILE_H
#define KVD_CLIENT_KVCTL_HISTORY_FILE_H

#include <limits.h>
#include <stdbool.h>

/*
 * $XDG_STATE_HOME/kvd/history, or ~/.local/state/kvd/history (XDG Base Directory Specification),
 * with folders that are made if they are missing, for this user alone. False: there is no such
 * place.
 */
bool history_file(char path[PATH_MAX]);

#endif /* KVD_CLIENT_KVCTL_HISTORY_FILE_H */
