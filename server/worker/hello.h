/* SPDX-License-Identifier: MIT */
/*
 * HELLO. The worker checks it; the control thread grants the client remote read, a system call that
 * takes milliseconds on some devices, while the request is deferred (server/worker/query.h); then
 * the worker sends the welcome. Later requests are deferred until then. If the HELLO has an
 * identity with an older connection, that connection ends first: server/control/identity.h.
 */
#ifndef KVD_SERVER_WORKER_HELLO_H
#define KVD_SERVER_WORKER_HELLO_H

#include "server/worker/deferred.h"

/*
 * With eviction, a client's first call after this time reports its GETs, however few. Eviction
 * looks at ages of seconds, so 100 ms is soon enough; and a client that makes a call now and then
 * sends at most ten reports a second without a request.
 */
#define ACCESS_DELAY_MS 100

extern const struct deferred_kind hello_kind;

/* Whether the welcome was sent: other requests are allowed. */
static inline bool hello_done(const struct conn *conn)
{
	return atomic_load_explicit(&conn->hello_done, memory_order_relaxed);
}

#endif /* KVD_SERVER_WORKER_HELLO_H */
