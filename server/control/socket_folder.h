/* SPDX-License-Identifier: MIT */
/* The folder of the Unix socket: created if it is missing, removed at the end if we created it. */
#ifndef KVD_SERVER_CONTROL_SOCKET_FOLDER_H
#define KVD_SERVER_CONTROL_SOCKET_FOLDER_H

#include <stdbool.h>

#include "common/rdma/device.h"

struct socket_folder {
	char path[DEVICE_PATH_MAX];
	bool made; /* by us */
};

/*
 * Creates the folder of @socket if it does not exist, but not the folder above it. @is_default: the
 * path is the default one, where other users might lie in wait, so the folder must be this user's
 * (common/rdma/default_socket.h). 0 or a negative errno, not logged; -EPERM: it is another user's.
 */
int socket_folder_make(struct socket_folder *folder, const char *socket, bool is_default);

/*
 * Checks, without changing anything, that socket_folder_make() would succeed and that this user may
 * create a socket in the folder. 0 or the negative errno.
 */
int socket_folder_check(const char *socket, bool is_default);

/* Removes the folder if we created it and it is empty. */
void socket_folder_release(struct socket_folder *folder);

#endif /* KVD_SERVER_CONTROL_SOCKET_FOLDER_H */
