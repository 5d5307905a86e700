/* SPDX-License-Identifier: MIT */
/*
 * What a client may READ, and by which keys: the extents of its tenant's region, each of which has
 * a key. Where the device has memory windows of type 2B, each connection has one for each extent:
 * their keys are valid for its own queue pair only, and until that ends. The extents' registrations
 * then have no REMOTE_READ, so their own keys are valid for no client. On other devices
 * (nic->windows is false) all connections READ by the registrations' keys.
 *
 *	control	 grant_open()	 the connection is created, or the region gets an extent
 *	control	 grant_allow()	 HELLO came: the queue pair may be READ by
 *	worker	 grant_bind()	 before the welcome, or the response to EXTENTS, is posted
 *	worker	 grant_keys()	 for that
 *	control	 grant_close()	 before the queue pair is destroyed
 *
 * A bind is a work request of the connection's send queue, like a response: it has a place there
 * and in the completion queue. Work requests posted after it start when it is done, so the response
 * need not wait for its completion; if it fails, so does the queue pair, and the response is not
 * sent. The extents for which the queue has no room now are bound when the client asks for them
 * (EXTENTS); until then it GETs by request what lies there.
 */
#ifndef KVD_SERVER_WORKER_GRANT_H
#define KVD_SERVER_WORKER_GRANT_H

#include "server/worker/conn.h"

/* The registration of the extent that @p, in the connection's region, lies in. */
const struct ibv_mr *grant_mr(const struct conn *conn, const void *p);

/*
 * Allocates the windows of the first @extents extents that the connection does not have yet. 0;
 * -ENOSPC: the device has no window left, for the first one; or another negative errno. Without a
 * window for a later extent the client GETs by request what lies there.
 */
int grant_open(struct conn *conn, uint32_t extents);
/*
 * If the client is gone already, its queue pair may be in the error state, and the device refuses:
 * false, after logging. The connection ends anyway.
 */
bool grant_allow(const struct conn *conn);
/*
 * Grants the client what it has no key of: the first extent, and more as far as there is room.
 * False: the connection has failed.
 */
bool grant_bind(struct conn *conn);
/* The keys of the extents that were granted. */
void grant_keys(const struct conn *conn, uint32_t rkeys[EXTENTS_MAX]);
/* From now on the keys are worthless. May be called again. */
void grant_close(struct conn *conn);

#endif /* KVD_SERVER_WORKER_GRANT_H */
