/* SPDX-License-Identifier: MIT */
/*
 * What a client may READ, and by which key. Where the device has memory windows of type 2B, each
 * connection has one: its key is valid for its own queue pair only, and until that ends. The
 * region's registration then has no REMOTE_READ, so its own key is valid for no client. On other
 * devices (nic->windows is false) all connections READ by the registration's key.
 *
 *	control	 grant_open()	 the connection is created
 *	control	 grant_allow()	 HELLO came: the queue pair may be READ by
 *	worker	 grant_bind()	 before the welcome is posted
 *	worker	 grant_rkey()	 for the welcome
 *	control	 grant_close()	 before the queue pair is destroyed
 *
 * The bind is a work request of the connection's send queue, like a response: it has a place there
 * and in the completion queue. Work requests posted after it start when it is done, so the welcome
 * need not wait for its completion; if it fails, so does the queue pair, and the welcome is not
 * sent.
 */
#ifndef KVD_SERVER_WORKER_GRANT_H
#define KVD_SERVER_WORKER_GRANT_H

#include "server/worker/conn.h"

/* Memory that a client may READ all of. */
struct conn_region {
	struct ibv_mr *mr;
	void *addr;
	uint64_t length;
};

/* The region of a connection: nothing else says what its client may READ. */
struct conn_region conn_region(const struct conn *conn);

/* 0; -ENOSPC: the device has no window left; or another negative errno. */
int grant_open(struct conn *conn);
/*
 * If the client is gone already, its queue pair may be in the error state, and the device refuses:
 * false, after logging. The connection ends anyway.
 */
bool grant_allow(const struct conn *conn);
/* False: the connection has failed. */
bool grant_bind(struct conn *conn);
uint32_t grant_rkey(const struct conn *conn);
/* From now on the key is worthless. May be called again. */
void grant_close(struct conn *conn);

#endif /* KVD_SERVER_WORKER_GRANT_H */
