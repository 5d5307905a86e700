/* SPDX-License-Identifier: MIT */
/*
 * A worker: a thread that executes its connections' requests and owns all it needs for that. It has
 * a poller for each device, a thread cache of item memory, and statistics.
 *
 *   WORKER-1. On the path of a request there is no malloc, no mutex, no system call and no logging.
 *	 (HELLO, STATS, CLIENTS, KILL and REVOKE are not on it: a write(2) passes them to the
 *	 control thread. Nor are FLUSH, failures and going to sleep. Rarely, a change wakes the
 *	 maintenance thread, by a write(2), or waits for a grace period: when a limbo of large items
 *	 and overflow buckets is full, or in a piece that makes room. Making room takes caches_lock
 *	 of server/store/slab.h. A large value takes the lock of its budget, which spins, and may
 *	 wake another worker: server/worker/budget.h.)
 *   WORKER-2. At most BATCH_MAX completions are taken from one poller at a time, so a flood on one
 *	 device starves neither other devices nor the mailbox.
 *   WORKER-3. A worker sleeps only after it has armed every completion queue and then found them
 *	 all empty: no wake-up is lost.
 *   WORKER-4. Receives are posted again before the responses that allow clients to send more: a
 *	 client that keeps to its window always meets a posted receive. A deferred request's receive
 *	 is posted just before its response; until then the request is outstanding in the window of
 *	 its client, so only that client has fewer receives to meet.
 *   WORKER-5. A turn runs one piece of deferred requests, after the batches:
 *	 server/worker/deferred.h.
 */
#ifndef KVD_SERVER_WORKER_WORKER_H
#define KVD_SERVER_WORKER_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "server/store/store.h"
#include "server/worker/client.h"
#include "server/worker/commands.h"
#include "server/worker/late_principals.h"
#include "server/worker/mailbox.h"
#include "server/worker/poller.h"
#include "server/worker/tenant.h"
#include "server/worker/trace.h"
#include "server/worker/turn.h"

/* What a worker needs of the configuration, beside its pollers. */
struct worker_limits {
	/* The control thread changes them by stat_set(), so they are for stat_read(). */
	uint64_t spin_ns;	/* how long an idle worker polls before it sleeps */
	uint64_t pull_ns;	/* how long a large value may take */
	uint64_t pull_stall_ns; /* how long no part of it may arrive */
	uint64_t workers;	/* that share what all have together */
	bool busy;		/* never sleeps */
};

/* X(name, help); sums over all workers are in the server's statistics. */
#define WORKER_STATS(X)                                                                            \
	X(requests, "requests received; each in a message with several counts")                    \
	X(request_bytes, "bytes of requests received")                                             \
	X(batched, "requests received in messages with several")                                   \
	X(requests_not_allowed,                                                                    \
	  "requests refused: their user lacks the right, or a prefix of the key (users.file)")     \
	X(requests_over_limit, "requests beyond a limit of their user (users.file)")               \
	X(fleet_refused, "requests refused: another member of the fleet has the key")              \
	X(fleet_away, "requests refused: no member of the fleet has the key, or this one must "    \
		      "not serve it now")                                                          \
	X(pulls, "large values READ from clients")                                                 \
	X(pull_bytes, "bytes of large values READ from clients")                                   \
	X(pulls_probed,                                                                            \
	  "connections that had to answer a READ of no bytes before their first large value")      \
	X(pulls_waited, "large values that had to wait for memory (memory.pull_share)")            \
	X(pulls_late, "large values of late clients, which together may have what one client may") \
	X(pulls_stalled, "connections closed because their large value, or the answer to the "     \
			 "READ of no bytes before the first one, did not arrive in time")          \
	X(large_waited, "appends to large values that had to wait for memory (memory.pull_share)") \
	X(deferred, "requests that took several turns: in pieces, or answered by the control "     \
		    "thread, or after such a request")                                             \
	X(deferred_pieces,                                                                         \
	  "pieces of requests that took several turns, and of large values that arrive")           \
	X(batches, "batches of completions")                                                       \
	X(responses, "responses sent")                                                             \
	X(response_bytes, "bytes of responses sent")                                               \
	X(responses_signaled, "responses sent signaled")                                           \
	X(windows_grown, "times a connection's window became larger")                              \
	X(windows_shrunk,                                                                          \
	  "times a connection's window became smaller, since more connections are active")         \
	X(windows_lapsed, "times a connection's window became 1, since the connection was idle")   \
	X(answers_repeated,                                                                        \
	  "changes that a client sent again, answered as when they were executed")                 \
	X(answers_unknown, "changes that a client sent again, whose answer was forgotten")         \
	X(sleeps, "times a worker went to sleep")                                                  \
	X(connections_failed, "connections closed because the client broke the protocol, the "     \
			      "queue pair failed, or a large value did not arrive in time")        \
	X(protocol_errors, "messages that break the protocol")

struct worker_stats {
#define X(name, help) uint64_t name;
	WORKER_STATS(X)
#undef X
};

/* X(name, help): what connections hold now, as held.NAME: held_show(). */
#define HELD_STATS(X)                                                                              \
	X(receives, "receives that are not posted: of requests, or refused by the device")         \
	X(response_buffers, "buffers of responses, or of results, that are not sent")              \
	X(spare_buffers, "buffers of responses not sent, beyond the windows of their connections") \
	X(spare_sends, "work requests outstanding beyond the windows of their connections")        \
	X(windows, "receives that windows larger than 1 cover")                                    \
	X(pulls, "large values that are being READ from clients, or have arrived and are summed")

/* What connections hold of all tenants' budgets (server/worker/budget.h), as held.NAME, too. */
#define BUDGET_STATS(X)                                                                            \
	X(pull_bytes, "memory that large values hold of memory.pull_share")                        \
	X(pull_waits, "large values that wait for such memory")                                    \
	X(build_bytes, "memory that appends to large values hold of memory.pull_share")            \
	X(build_waits, "appends to large values that wait for memory")

struct held_stats {
#define X(name, help) uint64_t name;
	HELD_STATS(X)
#undef X
};

struct budget_stats {
#define X(name, help) uint64_t name;
	BUDGET_STATS(X)
#undef X
};

struct fleet;
struct fleet_stores;
struct forwarder;
struct sockets;
struct stats_source;
struct worker;

/* What serves clients beside queue pairs, as a worker's loop sees it. The worker calls all. */
struct front_ops {
	/* Before the worker's thread runs. 0 or a negative errno after logging. */
	int (*init)(struct worker *worker);
	/* After init() too that failed, or was not called. */
	void (*release)(struct worker *worker);
	/* Readable if there is something to do, for run(), or mail. */
	int (*fd)(const struct worker *worker);
	/* A note of one of its clients. */
	void (*note)(struct worker *worker, struct note *note);
	/* A share of a turn. False: there was nothing to do. */
	bool (*run)(struct worker *worker);
	/* For how long the worker may sleep; -1: for ever. */
	int (*wait_ms)(const struct worker *worker);
};

/* What the workers of a server share; constant while they run, but for `workers`. */
struct worker_env {
	const struct config *config;
	struct store *store; /* of the tenant default, once it is made */
	/* Of that store; other tenants' options differ in what depends on their size. */
	const struct store_options *store_options;
	const _Atomic bool *cancel; /* ends the making of stores early. NULL: never */
	struct nic *nics;
	unsigned int nic_count;
	unsigned int workers;	   /* those that get connections: server/control/worker_manager.h */
	const struct fleet *fleet; /* NULL: the server is in none */
	struct fleet_stores *fleet_stores;	 /* NULL: likewise */
	struct forwarder *forwarder;		 /* server/memcached/forwarder.h; NULL: likewise */
	struct mailbox *control;		 /* notes to the control thread */
	const struct front_ops *front;		 /* NULL: no URL of server.listen asks for it */
	struct late_principals *late_principals; /* a value of theirs did not arrive */
	/* Writes the statistics for clients of a tenant: see server/stats.h. */
	uint32_t (*stats_print)(const struct stats_source *source, const struct tenant *tenant,
				const struct principal *viewer, char *text, uint32_t size);
	const struct stats_source *stats_source;
	/* The last lines of the log: server/log_writer.h. NULL: there are none. */
	size_t (*log_read)(uint64_t *at, char *text, size_t size);
};

/* A worker that was taken away keeps its place, its mailbox and what it counted. */
struct worker {
	const struct worker_env *env; /* NULL: the worker was not initialised */
	struct mailbox mailbox;	      /* notes to this worker */
	struct note *mail;	      /* taken from the mailbox and not handled yet, oldest first */
	struct poller pollers[NIC_MAX];
	unsigned int poller_count;
	bool attached[NIC_MAX]; /* pollers in use; the devices of others have failed */
	/* The default tenant's part. Its thread's now_ns is the worker's clock, too. */
	struct tenant_part part;
	struct sockets *sockets; /* of env->front */
	/* Parts of the other tenants of which the worker has, or had, connections. */
	LIST_HEAD(part_list, tenant_part) parts;
	struct worker_limits limits;
	struct spin spin;
	struct worker_stats stats;
	struct command_counts commands;
	struct turn turn;
	struct turn_stats turns;
	struct trace trace;
	struct held_stats held;	 /* as of the last held_show() */
	unsigned int held_turns; /* busy turns, counted for HELD_TURNS */
	/* Connections from which a value is pulled, oldest pull first (server/worker/pull.h). */
	TAILQ_HEAD(pull_list, conn) pulls;
	/* The same connections, the one whose last READ completed earliest first. */
	TAILQ_HEAD(progress_list, conn) pulls_by_progress;
	_Atomic bool budgets_look; /* set by others: a connection may have its turn */
	uint64_t pulls_count;	   /* pulls begun and not ended; other threads may read it */
	/* Connections whose first deferred request can run, in the order of their turns. */
	TAILQ_HEAD(deferred_conns, conn) deferred_conns;
	unsigned int number;
	int cpu; /* to pin the thread to, or -1 */
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	uint64_t cpu_ended_ns; /* CPU time of its earlier threads */
};

/* Iterates over the parts of tenants that the worker serves: NULL begins, and ends. */
static inline struct tenant_part *worker_part_next(struct worker *worker, struct tenant_part *part)
{
	if (!part)
		return &worker->part;
	return part == &worker->part ? LIST_FIRST(&worker->parts) : LIST_NEXT(part, entry);
}

/*
 * The worker's thread of the client's tenant's store, with the worker's clock, which is read once
 * for each batch and not once for each tenant. The worker calls it.
 */
static inline struct store_thread *client_thread(const struct client *client)
{
	struct store_thread *thread = &client->part->thread;

	thread->now_ns = client->worker->part.thread.now_ns;
	return thread;
}

/* From now on the worker looks after what the requests of the client's tenant leave. */
static inline void client_attach(struct client *client)
{
	struct worker *worker = client->worker;
	struct tenant_part *part = client->part;

	if (part == &worker->part || part->attached)
		return;
	part->attached = true;
	LIST_INSERT_HEAD(&worker->parts, part, entry);
}

#endif /* KVD_SERVER_WORKER_WORKER_H */
