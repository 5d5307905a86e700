/* SPDX-License-Identifier: MIT */
/*
 * Pollers: what a worker has on one device. A completion queue, a shared receive queue, message
 * buffers and the connections by queue pair number; and how a completion says which work request it
 * belongs to.
 */
#ifndef KVD_SERVER_WORKER_POLLER_H
#define KVD_SERVER_WORKER_POLLER_H

#include <sys/queue.h>

#include <urcu-qsbr.h>
#include <urcu/rculfhash.h>

#include "server/worker/mailbox.h"
#include "server/worker/nic.h"

struct worker;
struct deferred;

/* Completions that a worker takes from a poller at a time, and receives posted at a time. */
#define BATCH_MAX 32

/* READs of large values that a connection has outstanding. */
#define PULL_DEPTH 4
/* All READs of a connection: those of pulls, and a keepalive probe. */
#define READS_MAX (PULL_DEPTH + 1)
/*
 * Work requests that each connection may have outstanding beside its window of responses: a READ of
 * a pull, a probe, and one more, for window_set().
 */
#define SENDS_BESIDE_WINDOW 3
/*
 * One in this many inline responses of a connection is signaled. A completion costs the worker a
 * cache line and a turn of its loop, so few are better; but a connection with a window of 1 needs
 * one among its last 1 + SENDS_BESIDE_WINDOW work requests to go on, so no larger than that.
 */
#define RESPONSE_SIGNAL_EVERY 4
/* Work requests at the end of a connection, beside all others (server/worker/teardown.h). */
#define MARKERS 1

/*
 * Messages of up to this many bytes are sent inline (inside the work request) if the device can:
 * that saves it a DMA read of host memory. It is enough for the header of a response and 164 bytes
 * of value. A response without a buffer must be inline, since its header is not in registered
 * memory.
 */
#define INLINE_WANTED 220
static_assert(INLINE_WANTED >= sizeof(struct wire_response), "responses without a buffer");

#define BUFFER_NONE UINT32_MAX

/*
 * A message buffer. Those for receives are posted to the SRQ or hold a request, which may be
 * deferred; the others are free or hold a response that was posted and has not completed.
 */
struct buffer {
	uint32_t next; /* buffer of the connection's next posted response; or refused receive */
};

/* What a poller needs of the configuration. */
struct poller_limits {
	uint32_t srq_depth;    /* receives */
	uint32_t buffer_bytes; /* of a message buffer */
	uint32_t signal_every; /* responses for each signaled one */
	uint32_t window;       /* largest one of a connection, in requests */
	uint32_t conns_max;    /* each has a receive at least; the control thread changes it */
	uint32_t conns_all;    /* conns_max of a worker that is the only one */
	uint32_t admins_max;   /* connections beyond conns_max, with a window of 1 each */
	bool dump;	       /* core dumps contain the buffers */
};

/* How a poller's receives are divided among windows: server/worker/window.h. */
struct window_pool {
	uint32_t lendable; /* receives for windows larger than 1 */
	uint32_t left;	   /* receives that no window covers */
	uint32_t left_max; /* `left` without connections */
	uint32_t wanted;   /* poller->conns_wanted, as `lendable` is for */
	uint32_t share;	   /* window of each active connection */
	uint32_t active_count;
	/* Active connections except those of administrators, by the time of the next look. */
	TAILQ_HEAD(active_list, conn) active;
};

struct poller {
	struct worker *worker;
	unsigned int worker_number; /* for the log */
	struct nic *nic;
	struct poller_limits limits;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint8_t *memory; /* of all buffers */
	size_t memory_bytes;
	struct ibv_mr *mr;
	struct buffer *buffers;
	uint32_t *free; /* stack of buffers that are free for responses */
	uint32_t free_count;
	uint32_t spare_buffers; /* free buffers that connections may take beyond their windows */
	uint32_t spare_sends;	/* work requests that they may have beyond theirs */
	/* The three numbers above without connections, for the statistics (held_show()). */
	uint32_t free_max, spare_buffers_max, spare_sends_max;
	uint32_t inline_max;	   /* bytes of the longest message that is sent inline */
	struct deferred *deferred; /* one for each receive buffer: server/worker/deferred.h */
	struct cds_lfht *conns;	   /* by qp_num */
	uint32_t posted;	   /* receives that the device has, or has just completed */
	uint32_t unposted;	   /* receive buffers that the device refused, linked by next */
	uint32_t unposted_count;
	uint64_t taken; /* completions, since the start */
	bool all_taken; /* the last poll took all that had arrived */
	/* Ending connections that wait for their last completion: server/worker/teardown.h. */
	TAILQ_HEAD(draining_list, conn) marked, unmarked;
	struct window_pool windows;
	/* Connections for which receives should be set aside, and are: window_reserve(). */
	_Atomic uint32_t conns_wanted, conns_reserved;

	/* The control thread's. */
	uint32_t conns_fit;   /* conns_max can't be more */
	uint32_t conns_count; /* without those of administrators */
	bool limit_reached;   /* the SRQ's limit event came; arm it again */
	struct note note;     /* NOTE_DETACH, then NOTE_DETACHED, and NOTE_ATTACH */
};

/*
 * Sets up the poller of worker @number on @nic. Its limits are @limits, but conns_max may be lower,
 * so that receives and the device's completion queues suffice. If they suffice for more, up to
 * conns_all, conns_max can be raised later. 0 or a negative errno after logging.
 */
int poller_init(struct poller *poller, struct worker *worker, unsigned int number,
		const struct poller_limits *limits, struct nic *nic);
/* Leaves zeros, which may be released again. */
void poller_release(struct poller *poller);
/* Asks for an event when less than an eighth of the receives is left. 0 or a negative errno. */
int poller_arm_srq_limit(struct poller *poller);
/*
 * Posts @count receive buffers, BATCH_MAX at most, in one chain. Buffers that the device refuses
 * are kept; the worker may not sleep until poller_post_refused(), which tries BATCH_MAX at a time,
 * has posted them.
 */
void poller_post_recvs(struct poller *poller, const uint32_t *buffers, unsigned int count);
void poller_post_refused(struct poller *poller);

/*
 * Work requests that the send queue of a connection with windows up to @window holds, READs and the
 * marker included. A client that keeps the rules has at most `window` responses that it has not
 * taken, but their completions may come later than its next requests.
 */
static inline uint32_t sq_depth_of(uint32_t window, uint32_t signal_every)
{
	return 4 * window + signal_every + READS_MAX + MARKERS;
}

static inline uint32_t poller_sq_depth(const struct poller *poller, uint32_t window)
{
	return sq_depth_of(window, poller->limits.signal_every);
}

static inline uint8_t *poller_buffer(const struct poller *poller, uint32_t buffer)
{
	return poller->memory + (size_t)buffer * poller->limits.buffer_bytes;
}

static inline uint32_t buffer_take(struct poller *poller)
{
	return poller->free_count ? poller->free[--poller->free_count] : BUFFER_NONE;
}

static inline void buffer_put(struct poller *poller, uint32_t buffer)
{
	poller->free[poller->free_count++] = buffer;
}

/*
 * A work request's wr_id. In a failed completion only wr_id and the queue pair's number are valid,
 * so the wr_id says everything:
 *
 *	63    60 59        52 51           32 31        0
 *	+-------+------------+---------------+-----------+
 *	| kind  |   covers   | serial, 20 b  |  buffer   |
 *	+-------+------------+---------------+-----------+
 *
 * covers: work requests of this queue pair that are done when this one is, itself included; at most
 * RESPONSE_SIGNAL_EVERY.
 */
enum wr_kind { WR_RECV, WR_RESPONSE, WR_PULL, WR_PROBE, WR_BIND, WR_MARKER };

#define WR_SERIAL_MASK 0xfffffu

static inline uint64_t wr_id_make(enum wr_kind kind, uint32_t covers, uint32_t serial,
				  uint32_t buffer)
{
	return (uint64_t)kind << 60 | (uint64_t)covers << 52 |
	       (uint64_t)(serial & WR_SERIAL_MASK) << 32 | buffer;
}

static inline enum wr_kind wr_id_kind(uint64_t wr_id)
{
	return (enum wr_kind)(wr_id >> 60);
}

static inline uint32_t wr_id_covers(uint64_t wr_id)
{
	return wr_id >> 52 & 0xff;
}

static inline uint32_t wr_id_serial(uint64_t wr_id)
{
	return wr_id >> 32 & WR_SERIAL_MASK;
}

static inline uint32_t wr_id_buffer(uint64_t wr_id)
{
	return (uint32_t)wr_id;
}

#endif /* KVD_SERVER_WORKER_POLLER_H */
