/* SPDX-License-Identifier: MIT */
/*
 * Remote procedure calls: a request to a worker of the server and its response; and access records
 * in messages of their own.
 */
#ifndef KVD_CLIENT_RPC_H
#define KVD_CLIENT_RPC_H

#include "client/handle.h"
#include "common/wire.h"

struct rpc {
	struct wire_request head; /* rpc_call() sets id, key_len and access_count */
	const void *key;
	size_t key_len;
	const void *value; /* head.value_len bytes; sent, unless head.flags has WIRE_F_PULL */
};

/*
 * Sends the request, together with waiting access records, and waits for the response. *@response
 * is valid until the next rpc_call() on the handle. Updates what is known of the server's clock.
 * Returns the status of the response.
 */
enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response);

/* PING: an empty request. */
enum kvd_status rpc_ping(struct kvd *handle);

/* A PING for the server's clock, which every response has, a refusal too: it is no failure. */
enum kvd_status rpc_clock(struct kvd *handle);

/*
 * Reports access records in a message of their own. Does not wait for its response, but for the
 * response to the one before, whose buffer it uses.
 */
enum kvd_status access_report(struct kvd *handle);
/* Reports all that wait, and waits for the responses, for at most @wait_ms. */
void access_report_all(struct kvd *handle, unsigned int wait_ms);

#endif /* KVD_CLIENT_RPC_H */
