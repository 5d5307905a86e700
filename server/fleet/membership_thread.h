/* SPDX-License-Identifier: MIT */
/*
 * The thread of a member of a fleet whose map is in etcd. It asks etcd what the membership says
 * (membership.h), and does for the server what follows from the answers: it publishes views, has
 * items dropped, and publishes the word, in this order. What clients and other members want, and
 * what the mover reports (mover.h), it tells the membership.
 *
 * Threads: the control thread calls all functions.
 */
#ifndef KVD_SERVER_FLEET_MEMBERSHIP_THREAD_H
#define KVD_SERVER_FLEET_MEMBERSHIP_THREAD_H

#include <pthread.h>

#include "server/fleet/fleet.h"
#include "server/fleet/fleet_stores.h"
#include "server/fleet/membership.h"
#include "server/fleet/mover.h"

struct membership_thread {
	struct membership_options options;
	struct registry registry;
	struct registry_result first; /* of membership_thread_open() */
	struct fleet *fleet;
	struct fleet_inbox inbox; /* the fleet's */
	struct mover mover;	  /* mover.tls is the caller's */
	struct fleet_stores *stores;
	const struct table *clock; /* the server's: table_clock_ns() */
	/* The stores outlive the process: memory.file, and the region of `default`. NULL: not. */
	const char *file;
	const struct keep *keep;
	/* Whether all workers had a turn since it was true last; wakes them. */
	bool (*turned)(void *workers);
	void *workers;

	/* The thread's. */
	struct membership *member;
	struct membership_kept kept; /* what was written last; all zero: nothing */
	bool drops;		     /* something is being dropped */
	bool has_served;	     /* it had a word */
	uint64_t turned_ns;	     /* when all workers had had a turn last */
	bool hangs;		     /* the log says that they have not */

	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t wake;
	bool stops;
	bool poked; /* there is something wanted, or a report of the mover */
	struct membership_status status;
};

/*
 * Reads the map of the fleet @name from etcd, which may take a lease, and makes @fleet of it: it
 * serves nothing yet. 0, or a negative errno after logging. membership_thread_close() ends it.
 */
int membership_thread_open(struct membership_thread *thread, const struct etcd_options *etcd,
			   const char *name, const struct membership_options *options,
			   struct fleet *fleet);
/*
 * Starts the thread, once the server listens; the caller has filled in stores, clock, file, keep,
 * turned and workers. 0, or a negative errno after logging.
 */
int membership_thread_start(struct membership_thread *thread);
/* Ends the word, and the thread; the lease, which takes half of one at most, if no file is kept. */
void membership_thread_stop(struct membership_thread *thread);
/* Of one that is all zero, too. */
void membership_thread_close(struct membership_thread *thread);

/* The state at one time, by *@now_ns of the server's clock. */
void membership_thread_status(struct membership_thread *thread, struct membership_status *status,
			      uint64_t *now_ns);

#endif /* KVD_SERVER_FLEET_MEMBERSHIP_THREAD_H */
