/* SPDX-License-Identifier: MIT */
/*
 * Remote procedure calls: requests to a worker of the server and their responses, the window of
 * requests, and access records in messages of their own.
 */
#ifndef KVD_CLIENT_LIBKVD_RPC_H
#define KVD_CLIENT_LIBKVD_RPC_H

#include "client/libkvd/handle.h"
#include "common/wire.h"

/* Gives back bounce memory. The queue pair is destroyed: the server READs no more. */
void rpc_bounces_release(struct kvd *handle);
void rpc_release(struct kvd *handle);

/* Lets the flight's request wait for its turn, after those that wait already. */
static inline void request_add(struct kvd *handle, struct flight *flight)
{
	flight->place = PLACE_QUEUED;
	list_add(&handle->requests, &flight->link);
	handle->attention = true;
}

/*
 * Posts the request of a synchronous call at once if it is next, else lets it wait. Submitted
 * operations always wait: those that wait together share a message. @now_ns: clock_raw_ns().
 */
void request_begin(struct kvd *handle, struct flight *flight, uint64_t now_ns);

/* Posts the request of a flight that is in no list: HELLO, the first of the connection. */
void request_post_now(struct kvd *handle, struct flight *flight);

/*
 * The window: how many requests the client may have outstanding, ACCESS messages included. Each
 * response sets it, and after a while without a post it lapses to 1 (common/PROTOCOL.md,
 * server/worker/window.h). Before a request is posted:
 *
 *	window_look(), with the current time;
 *	fewer than conn->window requests are outstanding, else wait for a response and look again;
 *	window_posted(), with a time not later than the post.
 */

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

/* Posts requests and ACCESS messages, as many as may be outstanding. */
void requests_post(struct kvd *handle);

/* Processes a response: the flight that waits for it moves on. */
void response_arrived(struct kvd *handle, const struct ibv_wc *wc);

/* The status of a response, for the caller; sets the text of what went wrong. */
enum kvd_status response_status(struct kvd *handle, const struct response *response);

#endif /* KVD_CLIENT_LIBKVD_RPC_H */
