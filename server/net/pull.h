/* SPDX-License-Identifier: MIT */
/*
 * Large values: the worker READs them from the client's registered memory into a fresh item, which
 * is in the table only once it is whole. The client writes nothing here (guarantee D), and its
 * buffer is its own until it is answered. One pull at a time for a connection.
 */
#ifndef KVD_SERVER_NET_PULL_H
#define KVD_SERVER_NET_PULL_H

#include "server/net/response.h"

/* Bytes of one READ; the device's longest message may be shorter. */
#define PULL_PIECE_BYTES (1u << 20)

/* Starts to fetch the value of @request; the response comes when it is there. Or an error at once. */
void pull_start(struct response_list *responses, struct conn *conn, const struct request *request,
		uint64_t hash);

/* A READ is done: asks for the next, or puts the item into the table and responses. */
void pull_done(struct response_list *responses, struct conn *conn, uint64_t wr_id);

/* The connection's queue pair is gone: gives the item's memory back. */
void pull_release(struct poller *poller, struct conn *conn);

#endif /* KVD_SERVER_NET_PULL_H */
