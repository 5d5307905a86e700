/* SPDX-License-Identifier: MIT */
/*
 * What a worker has executed: operations that took longer than log.slow, for the slow log, and a
 * sample of all, for `kvctl monitor`. They wait in a ring of the worker until the control thread
 * takes them (server/control/trace_log.h).
 *
 *   TRACE-1. No reader slows a worker or keeps it tracing: when the ring is full, further
 *	 operations are counted and lost, and the sample ends by itself when no reader has asked
 *	 for TRACE_SAMPLE_NS.
 *   TRACE-2. A full sample leaves a part of the ring to slow operations.
 *   TRACE-3. No operation reads the clock. It began when the clock was read after its message had
 *	 arrived, and ends with the turn in which its answer is sent, when the clock is read for
 *	 server/worker/turn.h. So all operations of a turn that the kernel held up are slow.
 *   TRACE-4. No core dump contains the ring: there are keys in it.
 *
 * A turn's operations stand after the ring's end until the turn ends; only then it is known which
 * of them are kept.
 */
#ifndef KVD_SERVER_WORKER_TRACE_H
#define KVD_SERVER_WORKER_TRACE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/util/stat.h"

struct client;
struct request;
struct wire_response;

/* Of a longer key the first bytes are kept. */
#define TRACE_KEY_BYTES 88u
/* A power of two: 128 KiB for each worker. */
#define TRACE_ENTRIES 1024u
/* TRACE-2: a sample fills at most this much of the ring. */
#define TRACE_SAMPLED_MAX (TRACE_ENTRIES / 4 * 3)
/* TRACE-1: readers ask several times in this time. */
#define TRACE_SAMPLE_NS 5000000000ull

struct trace_entry {
	uint64_t arrived_ns; /* by the server's clock, since 1970 */
	uint64_t took_ns;
	uint64_t client;    /* its number */
	uint64_t value_len; /* of the value that was stored or found; bytes */
	uint16_t key_len;   /* of the whole key */
	uint8_t op;	    /* enum wire_op */
	uint8_t status;	    /* enum wire_status */
	bool slow, sampled;
	uint8_t key[TRACE_KEY_BYTES];
};
static_assert(sizeof(struct trace_entry) == 128, "two cache lines");

struct trace {
	struct trace_entry *ring;
	/* Written by the control thread; the worker ends the sample, too. */
	uint64_t slow_ns;  /* longer ones are slow; 0: none is */
	uint64_t every;	   /* one operation in this many is sampled; 0: none is */
	uint64_t until_ns; /* the sample ends, by the server's clock */
	uint64_t tail;	   /* entries taken */
	/* Written by the worker, read by the control thread, too. */
	uint64_t head; /* entries put in */
	uint64_t slow_lost, sampled_lost;
	/* The worker's. */
	uint64_t unsampled; /* operations since the last sampled one */
	/* The turn's: entries after `head`, operations without room, the earliest arrival. */
	uint64_t pending, skipped;
	uint64_t oldest_ns; /* 0: no operation */
	bool sampled;	    /* any of them is */
};

/* 0 or -ENOMEM. @slow_ns: log.slow. */
int trace_init(struct trace *trace, uint64_t slow_ns);
/* Accepts one of all zero. */
void trace_release(struct trace *trace);

/*
 * Samples one operation in @every at least, for the next TRACE_SAMPLE_NS from @now_ns of the
 * server's clock on. The control thread calls it.
 */
void trace_sample(struct trace *trace, uint64_t every, uint64_t now_ns);

/* Takes the oldest entry. False: there is none. The control thread calls it. */
bool trace_take(struct trace *trace, struct trace_entry *entry);

static inline bool trace_is_on(const struct trace *trace)
{
	return stat_read(&trace->slow_ns) | stat_read(&trace->every);
}

void trace_add(struct trace *trace, const struct client *client, const struct request *request,
	       const struct wire_response *head, uint64_t arrived_ns);

/* An operation has ended, with this response; its message arrived at @arrived_ns. The worker. */
static inline void trace_note(struct trace *trace, const struct client *client,
			      const struct request *request, const struct wire_response *head,
			      uint64_t arrived_ns)
{
	if (__builtin_expect(trace_is_on(trace), false))
		trace_add(trace, client, request, head, arrived_ns);
}

static inline bool trace_is_slow(const struct trace *trace, uint64_t arrived_ns, uint64_t now_ns)
{
	const uint64_t slow_ns = stat_read(&trace->slow_ns);

	return slow_ns && now_ns > arrived_ns + slow_ns;
}

void trace_keep(struct trace *trace, uint64_t now_ns);

/* The turn has ended at @now_ns of the server's clock, or a client ends in it. The worker. */
static inline void trace_turn_end(struct trace *trace, uint64_t now_ns)
{
	if (!trace->oldest_ns)
		return;
	if (trace->sampled || trace_is_slow(trace, trace->oldest_ns, now_ns))
		trace_keep(trace, now_ns);
	trace->pending = trace->skipped = trace->oldest_ns = 0;
}

#endif /* KVD_SERVER_WORKER_TRACE_H */
