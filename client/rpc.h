/* SPDX-License-Identifier: MIT */
/*
 * Requests to a worker of the server, each with the response that it waits for; and access records in
 * messages of their own.
 */
#ifndef KVD_CLIENT_RPC_H
#define KVD_CLIENT_RPC_H

#include "client/handle.h"
#include "common/wire.h"

struct rpc {
	struct wire_request head; /* id, key_len and access_count are filled in */
	const void *key;
	size_t key_len;
	const void *value; /* value_len bytes of it go with the message, unless it is to be pulled */
};

/*
 * Sends the request, with what access records wait, and waits for the response, which stands until
 * the next rpc_call() on the handle. Learns the server's clock. Returns the status of the response.
 */
enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response);

/* PING: an empty request. */
enum kvd_status rpc_ping(struct kvd *handle);

/*
 * Sends access records in a message of their own. Does not wait for its response, but for that to the
 * one before.
 */
enum kvd_status access_report(struct kvd *handle);
/* Sends all that wait, and waits for the responses, for at most @wait_ms. */
void access_report_all(struct kvd *handle, unsigned int wait_ms);

#endif /* KVD_CLIENT_RPC_H */
