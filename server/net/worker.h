/* SPDX-License-Identifier: MIT */
/*
 * A worker: a thread that serves its connections' requests and owns all it needs to do so: for each
 * device an poller (completion queue, shared receive queue, buffers, table of connections), a
 * thread cache of item memory, and its statistics.
 *
 *   W1. On the path of a request there is no malloc, no mutex, no system call and no logging.
 *	 (HELLO, STATS, FLUSH, failures and going to sleep are not on it. Seldom, a change wakes the
 *	 maintenance, which is a write(2), or waits for a grace period: when it makes room, or when a
 *	 limbo of large items and overflow buckets is full.)
 *   W2. At most BATCH_MAX completions are taken at a time from one poller, so a flood on one
 *	 device does not starve the other, nor the mailbox.
 *   W3. A worker sleeps only after it armed every completion queue and then found them all empty:
 *	 no wake-up is lost.
 *   W4. Receives are posted again before the responses that let clients send more: a client that
 *	 keeps to its window always meets a posted receive.
 */
#ifndef KVD_SERVER_NET_WORKER_H
#define KVD_SERVER_NET_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <urcu-qsbr.h>
#include <urcu/rculfhash.h>

#include "server/net/cpu.h"
#include "server/net/mailbox.h"
#include "server/net/nic.h"
#include "server/store/store.h"

#define BATCH_MAX 32 /* completions */

#define BUFFER_NONE UINT32_MAX

/* A message buffer: posted to the SRQ, holding a request, free, or holding a response on its way. */
struct buffer {
	uint32_t next; /* of the connection's responses under way */
};

/* What one worker has on one device. */
struct poller {
	struct worker *worker;
	struct nic *nic;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint8_t *memory; /* of all buffers */
	size_t memory_bytes;
	struct ibv_mr *mr;
	struct buffer *buffers;
	uint32_t *free; /* stack of buffers that are free for responses */
	uint32_t free_count;
	uint32_t extra; /* free buffers that connections may have beyond their windows */
	uint32_t inline_max;
	struct cds_lfht *conns; /* by qp_num */

	/* The control thread's. */
	uint32_t credits; /* windows not granted yet, in requests */
	uint32_t conns_count;
	uint32_t conns_max;
	bool limit_reached; /* of the SRQ; to be armed again */
};

/* What each worker needs of the configuration. */
struct worker_limits {
	uint64_t spin_ns;
	bool busy;
	uint32_t srq_depth;
	uint32_t buffer_bytes;
	uint32_t signal_every;
	uint32_t window;
	uint32_t conns_max; /* of one poller */
	uint32_t workers;
};

/* X(name, help); sums over all workers are in the server's statistics. */
#define WORKER_STATS(X)                                                                            \
	X(requests, "requests taken")                                                              \
	X(gets, "GETs by request")                                                                 \
	X(get_misses, "of those, not found")                                                       \
	X(get_copies, "of those, answered with a copy for the client to read")                     \
	X(puts, "PUTs, increments and decrements")                                                 \
	X(put_no_space,                                                                            \
	  "of those, failed because the memory, or the chain of the bucket, is full")              \
	X(put_too_large, "of those, failed because the value is larger than max_value")            \
	X(deletes, "DELETEs")                                                                      \
	X(delete_misses, "of those, not found")                                                    \
	X(touches, "expiry times set")                                                             \
	X(scans, "parts of scans")                                                                 \
	X(pulls, "large values read from clients")                                                 \
	X(pull_bytes, "bytes in them")                                                             \
	X(batches, "batches of completions")                                                       \
	X(responses, "responses sent")                                                             \
	X(responses_signaled, "of those, signaled")                                                \
	X(sleeps, "times a worker went to sleep")                                                  \
	X(connections_failed, "connections closed for a broken rule or a failed queue pair")       \
	X(protocol_errors, "messages that break the protocol")

struct worker_stats {
#define X(name, help) uint64_t name;
	WORKER_STATS(X)
#undef X
};

/* What the workers of a server share; constant while they run. */
struct worker_env {
	const struct config *config;
	struct store *store;
	struct nic *nics;
	unsigned int nic_count;
	unsigned int workers;
	struct mailbox *control; /* notes to the control thread */
	/* Writes the server's statistics from line @first on: see server/stats.h. */
	uint32_t (*stats_print)(const void *arg, uint32_t first, char *text, uint32_t size,
				uint32_t *next);
	const void *stats_arg;
};

struct worker {
	const struct worker_env *env; /* NULL: the worker was not initialised */
	struct mailbox mailbox;	      /* notes to this worker */
	struct poller pollers[NIC_MAX];
	unsigned int poller_count;
	struct store_thread store_thread;
	struct worker_limits limits;
	struct worker_stats stats;
	TAILQ_HEAD(copy_list, conn)
	copies; /* connections that have one, oldest first; server/net/copy.h */
	uint64_t copies_bytes;
	uint64_t copy_seed; /* the next copy's; random to begin with */
	unsigned int number;
	int cpu; /* to be pinned to, or -1 */
	pthread_t thread;
	bool started;
	_Atomic bool stop;
};

#endif /* KVD_SERVER_NET_WORKER_H */
