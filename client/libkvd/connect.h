/* SPDX-License-Identifier: MIT */
/*
 * A connection: the steps from its start to the server's welcome, of which none waits
 * (client/libkvd/reconnect.h takes them), the completions that arrive on it, and its end.
 */
#ifndef KVD_CLIENT_LIBKVD_CONNECT_H
#define KVD_CLIENT_LIBKVD_CONNECT_H

#include "client/libkvd/handle.h"
#include "common/wire.h"

/* Whether the process or the host lacks memory or descriptors. */
bool connect_is_shortage(int err);
/* The status for a device's negative errno while connecting. */
enum kvd_status connect_status(int err);
/* Fails: the permissions of the socket, or of a folder on its path, forbid to connect. */
enum kvd_status connect_no_permission(struct kvd *handle, const char *path, int err);

/*
 * Makes the queue pair and what it needs on the handle's device, and asks for a connection. There
 * must be none. After a failure connection_drop() destroys what was made.
 */
enum kvd_status connect_start(struct kvd *handle);
/* Takes events. *@done: the connection is established. Not KVD_OK: why it can't be. */
enum kvd_status connect_progress(struct kvd *handle, bool *done);
/* Sends HELLO for @flight, whose ops get the response. */
void hello_post(struct kvd *handle, struct flight *flight);
/* Takes the server's welcome. */
enum kvd_status hello_take(struct kvd *handle, const struct response *response);

/*
 * Destroys the connection, as far as there is one, and resets its state. Its buffers stay; no
 * device writes to them any more. No flight may be on it.
 */
void connection_drop(struct kvd *handle);
/* Adds its descriptors to that of kvd_fd(), if both exist. 0 or a negative errno. */
int connection_watch(struct kvd *handle);

/* Takes in the completions that have arrived; returns how many. */
unsigned int completions_poll(struct kvd *handle);

/* Tests use these on a handle without a device, too: */

/* Allocates the buffers of messages and READs. */
enum kvd_status open_buffers(struct kvd *handle);
/*
 * Checks the server's welcome and stores its content in the handle. Another incarnation of the
 * server has another bucket cache.
 */
enum kvd_status open_welcome(struct kvd *handle, const struct wire_welcome *welcome);

#endif /* KVD_CLIENT_LIBKVD_CONNECT_H */
