/* SPDX-License-Identifier: MIT */
/*
 * How long a worker's turns take (server/DESIGN.md says how long they may), and whether it rests
 * after one. A turn counts if there was something to do. It is measured by the clock, so a turn
 * includes the time for which the kernel let another thread run; its count of completions does not.
 *
 * The sum of all turns is the useful part of the worker's CPU time; the rest is polling in vain,
 * going to sleep and waking up.
 *
 * The cost is one more reading of the clock in each turn, and three additions, 30 ns.
 */
#ifndef KVD_SERVER_WORKER_TURN_H
#define KVD_SERVER_WORKER_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/hist.h"
#include "common/util/stat.h"

/* X(name, ns): the lines of the histogram in the statistics. */
#define TURN_CLASSES(X)                                                                            \
	X(1us, 1000ull)                                                                            \
	X(4us, 4000ull)                                                                            \
	X(16us, 16000ull)                                                                          \
	X(64us, 64000ull)                                                                          \
	X(256us, 256000ull)                                                                        \
	X(1ms, 1000000ull)                                                                         \
	X(4ms, 4000000ull)                                                                         \
	X(16ms, 16000000ull)                                                                       \
	X(more, UINT64_MAX)

/* Written by the worker, read by all. */
struct turn_stats {
	uint64_t ns_max;
	uint64_t ns_sum;
	uint64_t completions_max;
	uint64_t batched_max;	       /* requests of BATCHes, besides those in its piece */
	uint64_t counts[HIST_BUCKETS]; /* of turns, as struct hist has them */
};

/* The current turn. */
struct turn {
	uint64_t began_ns; /* 0: there was nothing to do yet; others may read it: turn_wait() */
	uint64_t completions;
	uint64_t batched; /* requests of BATCHes that were executed at once */
	/* The last operation that was begun or went on, in this turn or an earlier one. */
	uint64_t client; /* its connection's number */
	uint32_t op;	 /* enum wire_op; 0: none yet */
};

/* For the report of a crash (server/crash_report.h), which may be of another thread. */
static inline void turn_note(struct turn *turn, uint32_t op, uint64_t client)
{
	stat_set(&turn->client, client);
	__atomic_store_n(&turn->op, op, __ATOMIC_RELAXED);
}

/* The turn has found something to do. Further calls in a turn do nothing. */
static inline void turn_begin(struct turn *turn, uint64_t now_ns)
{
	if (!turn->began_ns)
		stat_set(&turn->began_ns, now_ns);
}

/* The turn that was begun has ended. */
void turn_end(struct turn *turn, struct turn_stats *stats, uint64_t now_ns);

/*
 * Waits until the turn that a worker is in, if it is in one, has ended. Another thread calls it,
 * after a grace period: then it sees each turn that began before that.
 */
void turn_wait(const struct turn *turn);

/* What a poll found to do, from the least to the most urgent. */
enum activity {
	ACTIVITY_NONE,
	ACTIVITY_UNAWAITED, /* access records, completed responses: no client waits for them */
	ACTIVITY_AWAITED,   /* a client or the control thread waits for it */
};

enum pace {
	PACE_ACTIVE,  /* the last turn had something that was awaited */
	PACE_WAITING, /* polls for more */
	PACE_WOKEN,   /* has slept, and has found nothing that was awaited since */
};

/*
 * A worker that is woken by unawaited activity rests again at once, since it expects no request to
 * follow. After a request it expects another, even if the completion of its response comes first.
 */
static inline bool pace_rests(enum pace pace, enum activity activity)
{
	return pace == PACE_WOKEN && activity == ACTIVITY_UNAWAITED;
}

/* Adds the turns of a worker to @hist, except their minimum. Any thread. */
void turn_stats_read(const struct turn_stats *stats, struct hist *hist);

/* How many turns took more than @above_ns and at most @ns, to within 1.6 %. */
uint64_t turn_class_count(const struct hist *hist, uint64_t above_ns, uint64_t ns);

#endif /* KVD_SERVER_WORKER_TURN_H */
