/* SPDX-License-Identifier: MIT */
/*
 * Workers that come and go while the server runs, when server.workers changes. The workers that run
 * are always the first ones; env.workers of them get new connections.
 *
 *	come	a worker gets its queues on each device that serves, its part of each tenant and its
 *		thread, all in one call. If one of several can't be made, none comes
 *	go	the last workers get no new connections (WORKERS_ANSWERING), for ANSWER_NS, so that
 *		what has arrived is answered, the request that asked for the change included; their
 *		connections are closed (WORKERS_CLOSING); then the thread ends, and what the worker
 *		has is released
 *
 *   WORKERS-1. One thing at a time: workers come or go only while no tenant is being changed, no
 *	 failed device is being released and no other workers go; tenants and devices wait while
 *	 workers go. So a note to all workers is answered by the workers that it was sent to.
 *   WORKERS-2. The going is bounded, whatever clients do. A connection with a queue pair ends as
 *	 if its client had closed it; a session of memcached's protocol has FINISH_NS to take its
 *	 answers.
 *   WORKERS-3. What others may have a pointer to stays in its place: struct worker, its mailbox,
 *	 its parts of tenants, and all that they have counted. So late wake-ups meet a mailbox that
 *	 nobody reads, and no sum over workers falls. The next worker of that number goes on there.
 *   WORKERS-4. A thread that uses the workers by their number holds net->workers_lock, and the
 *	 control thread holds it while one starts or ends. The report of a crash reads without it:
 *	 the places of workers stay.
 *   WORKERS-5. What workers share is divided among env.workers of them. When that number falls,
 *	 each of the others may have more connections, as soon as it has set receives aside for
 *	 them: window_reserve(). The connections of those that go are closed when all have, or after
 *	 RESERVE_NS.
 */
#ifndef KVD_SERVER_CONTROL_WORKER_MANAGER_H
#define KVD_SERVER_CONTROL_WORKER_MANAGER_H

#include "server/control/net.h"

#define WORKERS_WHY_MAX 400

/*
 * Changes the number of workers to that of @config: they have come when it returns, or begin to go.
 * False: nothing has changed, and @why, of @size bytes, says why and what to do; the log may say
 * more.
 */
bool worker_manager_set(struct net *net, const struct config *config, char *why, size_t size);
/* Takes the next step of what is under way. Called after each wait for events. */
void worker_manager_run(struct net *net, uint64_t now_ns);

#endif /* KVD_SERVER_CONTROL_WORKER_MANAGER_H */
