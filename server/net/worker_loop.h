/* SPDX-License-Identifier: MIT */
/*
 * A worker's thread: it takes completions in batches, executes the requests in them, and sleeps when
 * there are none. The rules W1 to W4 are at the head of server/net/worker.h.
 */
#ifndef KVD_SERVER_NET_WORKER_LOOP_H
#define KVD_SERVER_NET_WORKER_LOOP_H

#include "server/net/worker.h"

/* Sets up all but the thread. Logs what fails. */
int worker_init(struct worker *worker, const struct worker_env *env, unsigned int number, int cpu);
int worker_start(struct worker *worker);
/* Ends the thread; every connection must have been released before. */
void worker_stop(struct worker *worker);
void worker_release(struct worker *worker);

#endif /* KVD_SERVER_NET_WORKER_LOOP_H */
