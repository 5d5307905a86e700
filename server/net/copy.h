/* SPDX-License-Identifier: MIT */
/*
 * Copies of items set aside for one reader each: what a GET by request answers with when the value
 * fits no response (server/store/lookup.h, lookup_copy()). A connection has one at a time, until its next
 * request or for COPY_NS_MAX; all workers' copies together take at most one part in COPIES_SHARE of
 * the item memory, or one copy for each worker, and the oldest go first (guarantee G). Whose copy was
 * taken back finds it invalid and asks again.
 */
#ifndef KVD_SERVER_NET_COPY_H
#define KVD_SERVER_NET_COPY_H

#include "server/net/conn.h"
#include "server/net/worker.h"

#define COPIES_SHARE 32

/* What the largest value takes on a slow network; a client that idles must not keep a copy for ever. */
#define COPY_NS_MAX 30000000000ull

/* Makes @item, a copy, that of @conn, which has none. */
void copy_keep(struct worker *worker, struct conn *conn, struct item *item);
/* Frees the connection's copy, if it has one. */
void copy_drop(struct worker *worker, struct conn *conn);
/* Frees those that are too old. */
void copy_expire(struct worker *worker);

#endif /* KVD_SERVER_NET_COPY_H */
