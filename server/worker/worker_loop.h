/* SPDX-License-Identifier: MIT */
/*
 * The loop of a worker's thread: it takes completions in batches, executes the requests in them,
 * and sleeps when there are none. It keeps the rules WORKER-1 to WORKER-4 of
 * server/worker/worker.h.
 */
#ifndef KVD_SERVER_WORKER_WORKER_LOOP_H
#define KVD_SERVER_WORKER_WORKER_LOOP_H

#include "server/worker/worker.h"

/*
 * Sets up all but the thread and its parts of tenants; also of a worker after worker_retire().
 * @cpu: the CPU to pin the thread to, or -1. 0 or a negative errno after logging, with nothing to
 * release.
 */
int worker_init(struct worker *worker, const struct worker_env *env, unsigned int number, int cpu);
/*
 * Sets up worker @number's part of the tenant with @store, before a worker uses it. 0 or a negative
 * errno after logging.
 */
int part_init(struct tenant_part *part, struct store *store, unsigned int number);
/*
 * Sets up the worker's poller of a device, or releases it; the thread does not poll it yet, or no
 * more: worker->attached. 0 or a negative errno after logging, with nothing to release.
 */
int worker_init_poller(struct worker *worker, const struct worker_env *env, unsigned int nic);
void worker_release_poller(struct worker *worker, unsigned int nic);
/* Connections that each of @workers may have, so that all have server.max_connections. */
uint32_t conns_share(const struct config *config, unsigned int workers);
/* Starts the thread. 0 or a negative errno after logging. */
int worker_start(struct worker *worker);
/*
 * CPU time of its threads, one after another. Called by the thread that starts and stops them, or
 * with net->workers_lock held.
 */
uint64_t worker_cpu_ns(const struct worker *worker);
/* Ends the thread. conn_manager_free_all() frees the connections that are left. */
void worker_stop(struct worker *worker);
/*
 * Releases what worker_init() has set up, but the mailbox, and not what the worker has counted: it
 * may be set up again. The thread has ended, and no connection is left. An RCU reader calls it.
 */
void worker_retire(struct worker *worker);
void worker_release(struct worker *worker);

#endif /* KVD_SERVER_WORKER_WORKER_LOOP_H */
