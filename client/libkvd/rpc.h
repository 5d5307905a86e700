/* SPDX-License-Identifier: MIT */
/*
 * Remote procedure calls: requests to a worker of the server and their responses; and access
 * records in messages of their own.
 */
#ifndef KVD_CLIENT_LIBKVD_RPC_H
#define KVD_CLIENT_LIBKVD_RPC_H

#include "client/libkvd/handle.h"
#include "common/wire.h"

/* Makes the first buffers of messages: for HELLO. */
enum kvd_status rpc_open(struct kvd *handle);
/* The server takes messages of conn.request_bytes. Nothing is outstanding. */
enum kvd_status rpc_resize(struct kvd *handle);
/* Gives back the values' memory, when the queue pair is destroyed: the server READs no more. */
void rpc_bounces_release(struct kvd *handle);
void rpc_release(struct kvd *handle);

/* Lets the flight's request wait for its turn, behind those that wait already. */
static inline void request_add(struct kvd *handle, struct flight *flight)
{
	flight->place = PLACE_QUEUED;
	list_add(&handle->requests, &flight->link);
	handle->attention = true;
}

/*
 * Posts the request of a synchronous call at once if it is next, else lets it wait. Submitted ones
 * always wait: those that do so together share a message. @now_ns: clock_raw_ns().
 */
void request_begin(struct kvd *handle, struct flight *flight, uint64_t now_ns);

/* Posts the request of a flight that is in no list, the first of the connection. */
void request_post_now(struct kvd *handle, struct flight *flight);

/* Posts requests and ACCESS messages, as many as may be outstanding. */
void requests_post(struct kvd *handle);

/* Takes in a response: the flight that waits for it moves on. */
void response_arrived(struct kvd *handle, const struct ibv_wc *wc);

/* The status of a response, for the caller; with the text of what went wrong. */
enum kvd_status response_status(struct kvd *handle, const struct response *response);

#endif /* KVD_CLIENT_LIBKVD_RPC_H */
