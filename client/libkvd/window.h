/* SPDX-License-Identifier: MIT */
/*
 * The window: how many requests the client may have outstanding, ACCESS messages included. Each
 * response says it, and a client that has posted nothing for a while takes it for 1
 * (common/PROTOCOL.md, server/worker/window.h). Before a request is posted:
 *
 *	window_look(), with the time of now;
 *	fewer than conn->window requests are outstanding, else wait for a response and look again;
 *	window_posted(), with a time that is not later than the request is posted.
 */
#ifndef KVD_CLIENT_LIBKVD_WINDOW_H
#define KVD_CLIENT_LIBKVD_WINDOW_H

#include "client/libkvd/handle.h"
#include "common/wire.h"

/* @now_ns: by clock_raw_ns(). */
static inline void window_look(struct connection *conn, uint64_t now_ns)
{
	conn->window = connection_window(conn, now_ns);
}

static inline void window_posted(struct connection *conn, uint64_t now_ns)
{
	conn->posted_ns = now_ns;
}

/* Takes the window from a response. KVD_ERR_PROTOCOL if it is 0, or HELLO has one. */
enum kvd_status window_learn(struct kvd *handle, const struct response *response);

#endif /* KVD_CLIENT_LIBKVD_WINDOW_H */
