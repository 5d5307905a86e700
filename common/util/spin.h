/* SPDX-License-Identifier: MIT */
/*
 * Waiting by polling: what a loop that waits for a device or another thread does between two polls,
 * and for how long it polls before it sleeps. It learns from its own waits whether others want its
 * CPU.
 *
 * A response takes less than 2 us if the thread that makes it runs on another CPU. Then nothing
 * beats polling. If that thread waits for this very CPU, each poll delays it. Which of the two it
 * is can only be guessed, from these signs:
 *
 *	Polls in vain. A wait first polls with a mere pause in between, for SPIN_PAUSE_NS, and only
 *	then yields the CPU between two polls. When that was in vain SPIN_VAIN_MAX times in a row,
 *	the thread yields at once: so two threads that share a CPU need one switch for a response.
 *	One wait in SPIN_PROBE_EVERY pauses all the same, to see whether this has changed.
 *
 *	Yields that take long. Threads that wait for each other give back the CPU within
 *	microseconds. A program that computes keeps it for a time slice, 1,000 times as long as a
 *	response takes. It has a right to its share, but some schedulers give it a slice at each
 *	yield (EEVDF: Linux 6.6 and later), and then yields leave next to nothing. If more than one
 *	in SPIN_LONG_EVERY took SPIN_LONG_NS, the thread is busy: it yields no more for
 *	SPIN_BUSY_TIMES the time that the last one took. It pauses as long as it may poll and then
 *	sleeps; when that was in vain several times, it sleeps at once. A thread that slept gets the
 *	CPU soon when it is woken, as it has used less than its share.
 *
 * A thread that need not wait at all, or not for long, yields once in SPIN_STRETCH_NS: otherwise
 * others on its CPU would get it only after a time slice, of some milliseconds.
 *
 * Where a yield does not hand over the CPU, which is up to the kernel's scheduler, a wait lasts
 * until the caller's limit at the latest, and ends asleep.
 *
 * A struct spin belongs to one thread at a time. All zero, it has learned nothing. Times are
 * clock_ns()'s.
 */
#ifndef KVD_COMMON_UTIL_SPIN_H
#define KVD_COMMON_UTIL_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/barrier.h"

#define SPIN_PAUSE_NS 5000u
#define SPIN_VAIN_MAX 4u
#define SPIN_PROBE_EVERY 256u
/* More than a hundred waiting threads need for a turn, and less than the shortest time slice. */
#define SPIN_LONG_NS 700000u
#define SPIN_LONG_EVERY 16u
/* Three long yields in a row may be a coincidence. */
#define SPIN_CREDIT_MAX (3 * SPIN_LONG_EVERY)
#define SPIN_BUSY_TIMES 16u
/* A yield to no other thread takes 0.3 us: 0.6 % of it. */
#define SPIN_STRETCH_NS 50000u

struct spin {
	bool busy;    /* others that compute want the CPU, too: no yields until busy_until_ns */
	bool yielded; /* yielded in this wait, as the pauses were in vain */
	unsigned int vain;   /* waits in a row whose pauses were in vain */
	unsigned int credit; /* SPIN_LONG_EVERY for each long yield that may come; others earn it */
	unsigned int waits;  /* waits without pauses, until the next probe */
	uint64_t since_ns;   /* when this wait began */
	uint64_t pause_ns;   /* how long this wait pauses */
	uint64_t limit_ns;   /* how long this wait polls */
	uint64_t shared_ns;  /* time of the last yield */
	uint64_t busy_until_ns;
};

/* A wait begins, after a poll that found nothing. It may poll for @limit_ns before it sleeps. */
void spin_begin(struct spin *spin, uint64_t limit_ns, uint64_t now_ns);

/* The wait has ended: by a poll that found work, or because the caller goes to sleep. */
void spin_end(struct spin *spin, bool asleep);

/* Yields the CPU, and learns from it. */
void spin_yield(struct spin *spin, uint64_t now_ns);

/* Yields the CPU to others although this thread does not wait in vain. */
static inline bool spin_share_due(const struct spin *spin, uint64_t now_ns)
{
	return now_ns - spin->shared_ns >= SPIN_STRETCH_NS;
}

/* Between two polls of a wait. Returns false at once if it is time to sleep. */
static inline bool spin_wait(struct spin *spin, uint64_t now_ns)
{
	uint64_t spent_ns = now_ns - spin->since_ns;

	if (spent_ns >= spin->limit_ns)
		return false;
	if (spin->busy || (spent_ns < spin->pause_ns && !spin_share_due(spin, now_ns)))
		cpu_relax();
	else
		spin_yield(spin, now_ns);
	return true;
}

/* For a loop that finds work at each poll, so that it does not wait. */
static inline void spin_share(struct spin *spin, uint64_t now_ns)
{
	if (!spin->busy && spin_share_due(spin, now_ns))
		spin_yield(spin, now_ns);
}

/* For a short wait without a struct spin, as for a lock whose holder may have lost its CPU. */
static inline void spin_pause(uint64_t spent_ns)
{
	if (spent_ns < SPIN_PAUSE_NS)
		cpu_relax();
	else
		sched_yield();
}

#endif /* KVD_COMMON_UTIL_SPIN_H */
