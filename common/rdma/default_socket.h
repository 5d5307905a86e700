/* SPDX-License-Identifier: MIT */
/*
 * The default address: where kvd listens with server.listen = softnic://, and where clients connect
 * if no URL is given. Both compute it here.
 *
 * A server of root, or of the owner of /run/kvd (in the systemd unit), is the system's: it listens
 * at /run/kvd/kvd.sock. Every other user's server listens at $XDG_RUNTIME_DIR/kvd/kvd.sock or,
 * where there is no such folder that is this user's alone, at /tmp/kvd-UID/kvd.sock.
 *
 * A client takes the first of these sockets that exists: in $XDG_RUNTIME_DIR, in /tmp/kvd-UID, the
 * system's. Any user may create a folder in /tmp, so the server refuses a folder that another user
 * owns or may write to, and a client skips it: otherwise its owner could pose as the server.
 */
#ifndef KVD_COMMON_RDMA_DEFAULT_SOCKET_H
#define KVD_COMMON_RDMA_DEFAULT_SOCKET_H

#include <stdbool.h>

#define DEFAULT_SOCKET_SYSTEM "/run/kvd/kvd.sock"

/* Writes to @path, of DEVICE_PATH_MAX bytes, where a server of this user listens. */
void default_socket_serve(char *path);

/*
 * Writes to @path, of DEVICE_PATH_MAX bytes, the socket that a client of this user connects to. If
 * there is none, it is the one in $XDG_RUNTIME_DIR, or else the system's: no other user can make
 * either of them.
 */
void default_socket_find(char *path);

/*
 * Writes to @path, of DEVICE_PATH_MAX bytes, where a server of this user listens. False for root,
 * whose server is the system's.
 */
bool default_socket_own(char *path);

/*
 * Whether a folder is this user's and no other user may write to it. A symbolic link is not safe:
 * it may be changed to lead elsewhere.
 */
bool default_socket_folder_safe(const char *folder);

#endif /* KVD_COMMON_RDMA_DEFAULT_SOCKET_H */
