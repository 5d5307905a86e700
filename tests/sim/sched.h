/* SPDX-License-Identifier: MIT */
/*
 * The scheduler of a simulation: a server and its clients are threads of one process, of which one
 * at a time runs, the one that holds the token. At a *point* (an access to memory, an atomic
 * operation, a lock, a system call; points.c, calls.c) a seeded generator chooses which thread has
 * it next. Time is virtual: it advances by what is executed, and jumps to the next deadline when
 * all threads wait. So a seed replays a run exactly: sim_trace() is a hash of all points.
 *
 * Two kinds of schedules, as the seed says. *Random walk*: after a number of points, whose mean is
 * the seed's, any thread that can run goes on; or the one that ran also stands still for a while,
 * as if its CPU had been taken away. *Priorities* (PCT: Burckhardt et al., ASPLOS 2010): each
 * thread has a random priority, the highest that can run does, and at a few random points the one
 * that runs gets the lowest; so does one that spins.
 *
 * Rules: no thread takes the token from another one, so the code between two points is atomic.
 * Names of functions that need the token begin with sim_.
 */
#ifndef KVD_TESTS_SIM_SCHED_H
#define KVD_TESTS_SIM_SCHED_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NEVER UINT64_MAX
/* Where the virtual clocks begin. A deadline of this or more is CLOCK_REALTIME's. */
#define SIM_MONOTONIC_NS 1000000000000000ull
#define SIM_REALTIME_NS 1800000000000000000ull

struct sim_options {
	uint64_t seed;		 /* of the schedule */
	uint64_t disturbances;	 /* switches and pauses that are not needed, at most */
	unsigned long steps_max; /* more points are a livelock */
	bool trace;		 /* a line for each disturbance */
};

/* The calling thread becomes the first one. */
void sim_begin(const struct sim_options *options);

/* From now on the schedule is disturbed, or not. Not, at first. */
void sim_disturb(bool on);

/* A point. @weight: a plain access to memory has 1. */
void sim_point(unsigned int weight, const void *where);

/*
 * A point before an ordered store (or @stores false: an access) to @address. In memory that clients
 * read, a thread stands still there more often than elsewhere.
 */
void sim_point_at(const volatile void *address, bool stores, const void *where);

/* Clients read this memory. */
void sim_region(const void *base, size_t bytes);

/* A point of a thread that waits for others by polling. @ns: the time that it takes. */
void sim_spin(uint64_t ns, const void *where);

/* Whether a thread that waits can go on. Called with the token; has no points. */
typedef bool sim_ready_fn(const void *arg);

/*
 * Waits until @ready, which is asked again whenever something changed (sim_changed()), or until the
 * virtual time @until_ns. Returns whether it is ready. @what: for a report of a deadlock.
 */
bool sim_wait(sim_ready_fn *ready, const void *arg, uint64_t until_ns, const char *what);

/* Something changed that threads may wait for. */
void sim_changed(void);

/* Virtual nanoseconds since the beginning. */
uint64_t sim_now(void);

/* A reading of the clock: no two are equal. */
uint64_t sim_clock(void);

uint64_t sim_random(void);

/* A timer: writes to @fd, an eventfd, at @when_ns and, if @every_ns, again and again. */
void sim_timer_set(int fd, uint64_t when_ns, uint64_t every_ns);
/* Ends it, if there is one. */
void sim_timer_end(int fd);
uint64_t sim_timer_left(int fd, uint64_t *every_ns);

int sim_thread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
		      void *arg);
int sim_thread_join(pthread_t thread, void **result);
/* The number of the thread that runs. */
unsigned int sim_thread_number(void);

/* Reports a violation and ends the process with status 1. */
_Noreturn void sim_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What happened so far, as a hash of all points. */
uint64_t sim_trace(void);
uint64_t sim_steps(void);
uint64_t sim_disturbances(void);

#endif /* KVD_TESTS_SIM_SCHED_H */
