/* SPDX-License-Identifier: MIT */
/*
 * The maintenance thread: removes expired items, makes room for the index to grow, compacts sparse
 * slabs, empties extents, and flushes, so that no worker has to.
 *
 *   MAINTENANCE-1. Sweeping expired items takes at most sweep_share percent of one CPU, by the
 *	 thread's own CPU clock, and nothing while no item has an expiry time, except a pass an
 *	 hour while access fields have pins (PIN-3 in server/store/pins.h).
 *   MAINTENANCE-2. It holds a bucket's lock for one item at a time, as a worker does.
 *   MAINTENANCE-3. It sleeps when there is nothing to do, and wakes once a second to check
 *	 (guarantee E).
 *   MAINTENANCE-4. A flush with a delay has an owner, which may cancel it until it begins. An
 *	 owner has at most WIRE_FLUSHES_OWNER_MAX of them, so places are left to others. All flushes
 *	 without a delay that have not begun are one flush: they need two places, however many
 *	 clients ask.
 *   MAINTENANCE-5. A drop removes the items of some parts of the keys, DROP_NS at a time, so that
 *	 the index grows and flushes begin meanwhile. It finds all that were stored before it was
 *	 asked for; its caller sees to it that no thread stores such keys from then on.
 */
#ifndef KVD_SERVER_STORE_MAINTENANCE_H
#define KVD_SERVER_STORE_MAINTENANCE_H

#include <pthread.h>

#include "common/wire.h"
#include "server/store/extents.h"
#include "server/store/table.h"

/* Flushes with a delay, one without that is under way, and one that waits for the thread. */
#define FLUSHES_MAX (WIRE_FLUSHES_LATER_MAX + 2)
/* Bytes of an owner's name, its zero included. */
#define FLUSH_OWNER_BYTES 272

struct flush {
	uint64_t ticket; /* 0: the place is free */
	uint64_t at_ns;	 /* when it is due, by the server's clock */
	bool later;	 /* it has a delay, and so an owner */
	bool begun;
	char owner[FLUSH_OWNER_BYTES]; /* only compared */
};

/* X(name, help) */
#define MAINTENANCE_STATS(X)                                                                       \
	X(sweeps, "passes over the whole index to remove expired items and pins")                  \
	X(sweep_cpu_us, "CPU time of the sweeps, microseconds")                                    \
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

	pthread_mutex_t lock; /* guards what follows; its holder takes no other lock */
	struct flush waiting[FLUSHES_MAX];
	uint64_t ticket;    /* of the last flush */
	struct flush *kept; /* what an earlier process left in @waiting; NULL: nothing is kept */
	bool drop_wanted, drop_runs;
	uint64_t drop_parts[KEY_PARTS_WORDS]; /* wanted */
	uint64_t drop_now[KEY_PARTS_WORDS];   /* of the drop that runs; constant while it does */

	struct extents extents; /* has its own rules of who writes */

	/* The thread's own. */
	uint64_t drop_next;	    /* number of the next bucket to drop from */
	uint64_t flush_next_ns;	    /* when the next flush may begin: FLUSH_NS_MIN */
	uint64_t sweep_began_ns;    /* the server's clock when the sweep began with bucket 0 */
	uint64_t sweep_next;	    /* number of the next bucket to sweep */
	bool sweep_locks;	    /* lock every bucket, to find all pins that have ended */
	uint64_t sweep_next_ns;	    /* when the next slice may begin */
	uint64_t room_retry_ns;	    /* pause before the index's room is tried again; 0: none */
	uint64_t room_next_ns;	    /* when it is tried again */
	uint64_t compact_allocated; /* bytes allocated by all threads when compaction last ended */
};

/*
 * @id: of the thread, for store_thread_init(). @from: that of the store that this one replaces,
 * which does not run; its waiting flushes are taken over with their tickets. NULL: none. Returns 0
 * or a negative errno; see store_thread_init().
 */
int maintenance_init(struct maintenance *maintenance, struct table *table, uint8_t id,
		     uint32_t sweep_share, const struct maintenance *from);
/* Starts the thread. Returns 0 or a negative errno, logged. */
int maintenance_start(struct maintenance *maintenance);
/* Stops the thread and waits for its end. Does nothing if it was not started. */
void maintenance_stop(struct maintenance *maintenance);
/* After maintenance_stop(). A zeroed struct is fine, too. */
void maintenance_release(struct maintenance *maintenance);

/*
 * Requests a flush, @delay_s seconds after @now_ns: the removal of every item stored by then.
 * Returns its ticket; 0: too many flushes, of @owner or of all, are waiting (MAINTENANCE-4). Any
 * thread; does not wait for the flush.
 */
uint64_t maintenance_flush(struct maintenance *maintenance, uint64_t now_ns, uint32_t delay_s,
			   const char *owner);
/*
 * Whether the flush was cancelled, or has finished, so that no reader can see an item that it
 * removed. False also for unknown tickets. Any thread.
 */
bool maintenance_flushed(struct maintenance *maintenance, uint64_t ticket);
/*
 * Cancels the flush of @ticket (0: all flushes) if it has a delay, has not begun and is @owner's;
 * @owner NULL: of any owner. Returns how many were cancelled. Any thread.
 */
unsigned int maintenance_cancel(struct maintenance *maintenance, uint64_t ticket,
				const char *owner);
/*
 * Copies the waiting flushes with a delay, WIRE_FLUSHES_LATER_MAX at most. Returns their number.
 * Any thread.
 */
unsigned int maintenance_waiting(struct maintenance *maintenance,
				 struct flush flushes[WIRE_FLUSHES_LATER_MAX]);
/*
 * Requests the removal of all items of @parts (MAINTENANCE-5), beside what was requested before.
 * Any thread, also while the maintenance thread does not run; does not wait.
 */
void maintenance_drop(struct maintenance *maintenance, const uint64_t parts[KEY_PARTS_WORDS]);
/*
 * Whether a drop is not finished; @parts, unless NULL: of which parts. False: no reader can see an
 * item that a drop was to remove. Any thread.
 */
bool maintenance_drops(struct maintenance *maintenance, uint64_t parts[KEY_PARTS_WORDS]);

#endif /* KVD_SERVER_STORE_MAINTENANCE_H */
