/* SPDX-License-Identifier: MIT */
/* Requests: dispatches each operation and starts its response. */
#ifndef KVD_SERVER_WORKER_REQUEST_H
#define KVD_SERVER_WORKER_REQUEST_H

#include "server/worker/response.h"

/*
 * Executes @request of @conn, which is in receive buffer @buffer, and starts its response; a PUT
 * whose value is pulled is answered when the value has arrived. @hash is the key's, if there is a
 * key. A request that the protocol does not allow now fails the connection. False: the request was
 * deferred (server/worker/deferred.h) and keeps its buffer.
 */
bool request_execute(struct response_list *responses, struct conn *conn,
		     const struct request *request, uint64_t hash, uint32_t buffer);

#endif /* KVD_SERVER_WORKER_REQUEST_H */
