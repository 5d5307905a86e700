/* SPDX-License-Identifier: MIT */
/* What the server does for each kind of request. */
#ifndef KVD_SERVER_NET_REQUEST_H
#define KVD_SERVER_NET_REQUEST_H

#include "server/net/response.h"

/*
 * Does @request of @conn and starts its response; a PUT whose value is to be pulled is replied to when
 * it is there. @hash is that of the key, if there is one. A request that the protocol does not allow
 * now fails the connection.
 */
void request_execute(struct response_list *responses, struct conn *conn,
		     const struct request *request, uint64_t hash);

#endif /* KVD_SERVER_NET_REQUEST_H */
