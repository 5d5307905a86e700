/* SPDX-License-Identifier: MIT */
/*
 * Timers of connection management. There are few delays, and timers with the same one expire in the
 * order in which they were set: so there is a queue for each delay, and setting, cancelling and
 * expiring a timer cost the same however many connections there are.
 */
#ifndef KVD_COMMON_RDMA_SOFTNIC_TIMER_H
#define KVD_COMMON_RDMA_SOFTNIC_TIMER_H

#include <stdint.h>
#include <sys/queue.h>

#define SN_HANDSHAKE_MS 60000 /* for each step of connecting that waits for the peer */
#define SN_RETRY_MS 10	      /* between attempts at a listener whose queue is full */

enum sn_delay {
	SN_DELAY_SOON,	    /* 1 ms: after the events that are being served */
	SN_DELAY_RETRY,	    /* SN_RETRY_MS */
	SN_DELAY_PAUSE,	    /* 100 ms: after a failure to accept, such as no descriptors left */
	SN_DELAY_HANDSHAKE, /* SN_HANDSHAKE_MS */
	SN_DELAY_COUNT,
};

struct sn_timer {
	void *owner;	  /* for the function that takes the timer */
	uint64_t when_ns; /* CLOCK_MONOTONIC; 0: not set */
	enum sn_delay delay;
	TAILQ_ENTRY(sn_timer) in_queue;
};

TAILQ_HEAD(sn_timer_queue, sn_timer);

struct sn_timers {
	struct sn_timer_queue queues[SN_DELAY_COUNT]; /* those that are set, the first due first */
};

void sn_timers_init(struct sn_timers *timers);

/* Sets the timer, again if it is set. @now_ns must not be less than in the previous call. */
void sn_timer_set(struct sn_timers *timers, struct sn_timer *timer, enum sn_delay delay,
		  uint64_t now_ns);

/* Does nothing if the timer is not set. */
void sn_timer_cancel(struct sn_timers *timers, struct sn_timer *timer);

/* When the first timer is due; 0: none is set. */
uint64_t sn_timers_first_ns(const struct sn_timers *timers);

/* Takes out a timer that is due, or NULL. */
struct sn_timer *sn_timers_take(struct sn_timers *timers, uint64_t now_ns);

#endif /* KVD_COMMON_RDMA_SOFTNIC_TIMER_H */
