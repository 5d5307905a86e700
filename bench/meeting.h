/* SPDX-License-Identifier: MIT */
/*
 * Where client threads and the main thread wait for each other between the parts of a run. A client
 * arrives at a gate and sleeps until the main thread opens it. The main thread waits until all have
 * arrived; meanwhile it takes signals and prints progress.
 *
 * Threads: clients call meeting_arrive(), the main thread calls the other functions. Each side sees
 * everything that the other did before they met.
 */
#ifndef KVD_BENCH_MEETING_H
#define KVD_BENCH_MEETING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct meeting {
	int arrivals; /* eventfd, plus 1 for each client that arrives */
	int signals;  /* signalfd for SIGINT and SIGTERM */
	pthread_mutex_t lock;
	pthread_cond_t opened;
	unsigned int gates_open; /* under lock: how many gates have been opened */
	bool interrupted;	 /* a signal came; used by the main thread alone */
};

/* Functions that the main thread calls while it waits. */
struct meeting_watch {
	void *context;
	void (*interrupted)(void *context); /* a signal came; called once */
	void (*tick)(void *context);	    /* every tick_ns; may be NULL */
	uint64_t tick_ns;
};

/* Blocks SIGINT and SIGTERM, also in threads that start later. Returns 0 or -errno. */
int meeting_init(struct meeting *meeting);
void meeting_release(struct meeting *meeting);

/* Arrives at gate number @gate, from 0, and waits until it is open. */
void meeting_arrive(struct meeting *meeting, unsigned int gate);

/*
 * Waits until @count clients have arrived. The first signal calls watch->interrupted and unblocks
 * signals, so that the second one ends the process.
 */
void meeting_wait(struct meeting *meeting, unsigned int count, const struct meeting_watch *watch);

/* Opens the next gate. */
void meeting_open(struct meeting *meeting);

#endif /* KVD_BENCH_MEETING_H */
