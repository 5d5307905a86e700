/* SPDX-License-Identifier: MIT */
/* The Unix sockets that server.listen names: whether they can be made, and why they can't. */
#ifndef KVD_SERVER_CONTROL_UNIX_ADDRESS_H
#define KVD_SERVER_CONTROL_UNIX_ADDRESS_H

#include <stdbool.h>

#include "common/rdma/device.h"

/*
 * Checks, without changing anything, that the folder could be made, as socket_folder_make(), and
 * the socket in it. 0, or a negative errno, not logged; -EADDRINUSE: a process listens there.
 */
int unix_address_check(const struct device_addr *addr, bool is_default);

/* Logs why the socket can't be made. @at names option and URL: "server.listen = softnic:///s". */
void unix_address_error(const char *at, const struct device_addr *addr, int err);

#endif /* KVD_SERVER_CONTROL_UNIX_ADDRESS_H */
