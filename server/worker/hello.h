/* SPDX-License-Identifier: MIT */
/*
 * HELLO. The worker checks it; the control thread grants the client remote read, a system call that
 * takes milliseconds on some devices, while the request is deferred (server/worker/query.h); then
 * the worker sends the welcome. Requests behind it are deferred, and executed after it. If the
 * HELLO has an identity whose older connection is still there, that one ends first:
 * server/control/identity.h.
 */
#ifndef KVD_SERVER_WORKER_HELLO_H
#define KVD_SERVER_WORKER_HELLO_H

#include "server/worker/deferred.h"

/*
 * Where items are evicted: a client's first call after this time reports its GETs, few as they may
 * be. Eviction looks at ages of seconds, so 100 ms is soon enough; and a client that makes a call
 * now and then sends at most ten reports a second that go with no request.
 */
#define ACCESS_DELAY_MS 100

extern const struct deferred_kind hello_kind;

/* Whether the welcome was sent: other requests are allowed. */
static inline bool hello_done(const struct conn *conn)
{
	return atomic_load_explicit(&conn->hello_done, memory_order_relaxed);
}

#endif /* KVD_SERVER_WORKER_HELLO_H */
