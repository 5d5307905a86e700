/* SPDX-License-Identifier: MIT */
/*
 * The maintenance thread: a thread that does what nobody asks for, so that no worker has to: it removes items whose
 * time is over, makes room for the index to grow, moves items together where slabs stand half empty,
 * and flushes.
 *
 *   K1. Looking for expired items takes at most expiry.sweep_share percent of one CPU, as the thread's
 *	 own CPU clock says, and nothing while no item has an expiry time.
 *   K2. It holds a bucket's lock for one item at a time, as a worker does.
 *   K3. It sleeps when there is nothing to do, and wakes once a second to see (guarantee E).
 */
#ifndef KVD_SERVER_STORE_MAINTENANCE_H
#define KVD_SERVER_STORE_MAINTENANCE_H

#include <pthread.h>

#include "server/store/table.h"

/* Flushes that may be waiting for their time. */
#define FLUSHES_MAX 64
/* Of those, with a delay: so that one without finds a place. */
#define FLUSHES_LATER_MAX 56

struct flush {
	uint64_t ticket; /* 0: unused */
	uint64_t at_ns;	 /* the server's clock */
};

/* X(name, help) */
#define MAINTENANCE_STATS(X)                                                                       \
	X(sweeps, "passes over the whole index in search of expired items")                        \
	X(sweep_cpu_us, "CPU time they took")                                                      \
	X(flushes, "flushes done")                                                                 \
	X(index_steps,                                                                             \
	  "times memory was emptied by the maintenance thread and given to the index")             \
	X(compactions, "slabs that the maintenance thread emptied by moving what was left in them")

struct maintenance_stats {
#define X(name, help) uint64_t name;
	MAINTENANCE_STATS(X)
#undef X
};

struct maintenance {
	struct table *table;
	struct store_thread store_thread;
	struct maintenance_stats stats;
	uint32_t sweep_share; /* percent */
	int event_fd;
	pthread_t thread;
	bool started;
	_Atomic bool stop;

	pthread_mutex_t lock; /* guards what follows; taken by itself only */
	struct flush waiting[FLUSHES_MAX];
	uint64_t ticket; /* the last one given */

	/* The thread's own. */
	uint64_t sweep_next;	    /* number of the next bucket to sweep */
	uint64_t sweep_next_ns;	    /* when the next slice may begin */
	uint64_t room_retry_ns;	    /* pause before the index's room is tried again; 0: none */
	uint64_t room_next_ns;	    /* when it is tried again */
	uint64_t compact_allocated; /* bytes allocated by all threads when compaction last ended */
};

/* @id: of its thread. 0 or a negative errno, logged. */
int maintenance_init(struct maintenance *maintenance, struct table *table, uint8_t id,
		     uint32_t sweep_share);
/* 0 or a negative errno, logged. */
int maintenance_start(struct maintenance *maintenance);
/* Waits for the thread to end. */
void maintenance_stop(struct maintenance *maintenance);
/* After maintenance_stop(). */
void maintenance_release(struct maintenance *maintenance);

/*
 * Asks for a flush in @delay_s seconds: of every item that is stored before. Returns its ticket; 0:
 * FLUSHES_MAX, or with a delay FLUSHES_LATER_MAX, are waiting. Any thread, as the next.
 */
uint64_t maintenance_flush(struct maintenance *maintenance, uint64_t now_ns, uint32_t delay_s);
/* Whether no reader can see anything of what the flush was to remove. False also for unknown tickets. */
bool maintenance_flushed(struct maintenance *maintenance, uint64_t ticket);

#endif /* KVD_SERVER_STORE_MAINTENANCE_H */
