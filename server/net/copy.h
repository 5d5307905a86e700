/* SPDX-License-Identifier: MIT */
/*
 * Copies of items, each for one client to READ: a GET by request gets one when the value does not
 * fit a response (server/store/lookup.h, lookup_copy()). A connection has at most one, until its
 * next request or for COPY_NS_MAX. All workers' copies together take at most 1/COPIES_SHARE of a
 * tenant's item memory, or one copy for each worker; the oldest are freed first (guarantee G). A
 * client whose copy was freed finds it invalid and asks again.
 */
#ifndef KVD_SERVER_NET_COPY_H
#define KVD_SERVER_NET_COPY_H

#include "server/net/conn.h"
#include "server/net/worker.h"

#define COPIES_SHARE 32

/*
 * Enough to READ the largest value on a slow network; an idle client must not keep a copy for ever.
 */
#define COPY_NS_MAX 30000000000ull

/* Gives the copy @item to @conn, which has none; may free older ones of other connections. */
void copy_keep(struct worker *worker, struct conn *conn, struct item *item);
/* Frees the connection's copy, if it has one. */
void copy_drop(struct worker *worker, struct conn *conn);
/* Frees the copies that are older than COPY_NS_MAX, by the store thread's last reading. */
void copy_expire(struct worker *worker);

#endif /* KVD_SERVER_NET_COPY_H */
