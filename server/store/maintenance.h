/* SPDX-License-Identifier: MIT */
/*
 * The maintenance thread: removes expired items, makes room for the index to grow, moves items
 * together where slabs are sparse, and flushes, so that no worker has to.
 *
 *   MAINTENANCE-1. Sweeping expired items takes at most sweep_share percent of one CPU, by the
 *	 thread's own CPU clock, and nothing while no item has an expiry time; but one pass an hour
 *	 while items were pinned (PIN-3 in server/store/pins.h).
 *   MAINTENANCE-2. It holds a bucket's lock for one item at a time, as a worker does.
 *   MAINTENANCE-3. It sleeps when there is nothing to do, and wakes once a second to check
 *	 (guarantee E).
 *   MAINTENANCE-4. A flush with a delay has an owner, who may cancel it until it begins. An owner
 *	 has WIRE_FLUSHES_OWNER_MAX of them at most, so it leaves places to others. Flushes without
 *	 a delay that have not begun are one, of all who asked: they need two places, however many
 *	 ask.
 */
#ifndef KVD_SERVER_STORE_MAINTENANCE_H
#define KVD_SERVER_STORE_MAINTENANCE_H

#include <pthread.h>

#include "common/wire.h"
#include "server/store/table.h"

/* All of them, with one without a delay that is under way, and one that waits for the thread. */
#define FLUSHES_MAX (WIRE_FLUSHES_LATER_MAX + 2)
/* Bytes of the name of an owner, its zero included. */
#define FLUSH_OWNER_BYTES 272

struct flush {
	uint64_t ticket; /* 0: none is here */
	uint64_t at_ns;	 /* when it is due, by the server's clock */
	bool later;	 /* it has a delay, and so an owner */
	bool begun;
	char owner[FLUSH_OWNER_BYTES]; /* only compared */
};

/* X(name, help) */
#define MAINTENANCE_STATS(X)                                                                       \
	X(sweeps, "passes over the whole index to remove expired items and pins")                  \
	X(sweep_cpu_us, "CPU time they took")                                                      \
	X(flushes, "flushes finished")                                                             \
	X(index_steps, "steps of memory that the maintenance thread emptied for the index")        \
	X(compactions, "slabs that the maintenance thread emptied by moving their items")

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
	uint64_t ticket; /* of the last flush */

	/* The thread's own. */
	uint64_t flush_next_ns;	    /* when the next flush may begin: FLUSH_NS_MIN */
	uint64_t sweep_began_ns;    /* the server's clock when the sweep began with bucket 0 */
	uint64_t sweep_next;	    /* number of the next bucket to sweep */
	bool sweep_locks;	    /* each bucket: it is to find all pins that have ended */
	uint64_t sweep_next_ns;	    /* when the next slice may begin */
	uint64_t room_retry_ns;	    /* pause before the index's room is tried again; 0: none */
	uint64_t room_next_ns;	    /* when it is tried again */
	uint64_t compact_allocated; /* bytes allocated by all threads when compaction last ended */
};

/*
 * @id: of the thread, for store_thread_init(). @from: of the store that this one replaces, whose
 * thread does not run; the flushes that wait, and their tickets, are taken over. NULL: there is
 * none. Returns 0 or a negative errno; see store_thread_init().
 */
int maintenance_init(struct maintenance *maintenance, struct table *table, uint8_t id,
		     uint32_t sweep_share, const struct maintenance *from);
/* Starts the thread. Returns 0 or a negative errno, logged. */
int maintenance_start(struct maintenance *maintenance);
/* Stops the thread and waits for its end. Nothing if it was not started. */
void maintenance_stop(struct maintenance *maintenance);
/* After maintenance_stop(). Takes a struct of zero bytes, too. */
void maintenance_release(struct maintenance *maintenance);

/*
 * Requests a flush, @delay_s seconds after @now_ns: the removal of every item that is stored before
 * then. Returns its ticket; 0: too many of @owner's, or of all, are waiting (MAINTENANCE-4). Any
 * thread; does not wait for the flush.
 */
uint64_t maintenance_flush(struct maintenance *maintenance, uint64_t now_ns, uint32_t delay_s,
			   const char *owner);
/*
 * Whether the flush is finished, so that no reader can see an item that it was to remove, or was
 * cancelled. False also for unknown tickets. Any thread.
 */
bool maintenance_flushed(struct maintenance *maintenance, uint64_t ticket);
/*
 * Cancels the flush of @ticket, 0: all, that has a delay and has not begun, and that is @owner's;
 * NULL: whoever's. Returns how many. Any thread.
 */
unsigned int maintenance_cancel(struct maintenance *maintenance, uint64_t ticket,
				const char *owner);
/*
 * Copies the flushes with a delay that wait, WIRE_FLUSHES_LATER_MAX at most. Returns how many they
 * are. Any thread.
 */
unsigned int maintenance_waiting(struct maintenance *maintenance,
				 struct flush flushes[WIRE_FLUSHES_LATER_MAX]);

#endif /* KVD_SERVER_STORE_MAINTENANCE_H */
