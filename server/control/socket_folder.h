/* SPDX-License-Identifier: MIT */
/* The folder of the Unix socket: made if it is missing, removed at the end if we made it. */
#ifndef KVD_SERVER_CONTROL_SOCKET_FOLDER_H
#define KVD_SERVER_CONTROL_SOCKET_FOLDER_H

#include <stdbool.h>

#include "common/rdma/device.h"

struct socket_folder {
	char path[DEVICE_PATH_MAX];
	bool made; /* by us */
};

/*
 * Makes the folder of @socket if it does not exist, but not the folder above it. @is_default: the
 * path is the default one, where others might wait for us, so that the folder has to be this user's
 * (common/rdma/default_socket.h). 0 or a negative errno, not logged; -EPERM: it is another's.
 */
int socket_folder_make(struct socket_folder *folder, const char *socket, bool is_default);

/*
 * Checks, without changing anything, that socket_folder_make() would succeed and that this user may
 * make a socket in the folder. 0 or the negative errno that would be met.
 */
int socket_folder_check(const char *socket, bool is_default);

/* Removes the folder if we made it and it is empty. */
void socket_folder_release(struct socket_folder *folder);

#endif /* KVD_SERVER_CONTROL_SOCKET_FOLDER_H */
