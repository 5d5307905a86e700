/* SPDX-License-Identifier: MIT */
/* What a connection's worker works on the store of the connection's tenant with. */
#ifndef KVD_SERVER_WORKER_CONN_THREAD_H
#define KVD_SERVER_WORKER_CONN_THREAD_H

#include "server/worker/conn.h"
#include "server/worker/worker.h"

/*
 * The worker's thread of the tenant's store. Its clock is the worker's, as that was read last: once
 * for each batch, and not once for each tenant. The worker calls it.
 */
static inline struct store_thread *conn_thread(const struct conn *conn)
{
	struct store_thread *thread = &conn->part->thread;

	thread->now_ns = conn->poller->worker->part.thread.now_ns;
	return thread;
}

#endif /* KVD_SERVER_WORKER_CONN_THREAD_H */
