/* SPDX-License-Identifier: MIT */
/*
 * The thread that copies items to another member which gets their shards (FLEET-8). The membership
 * says how far a move may go (enum move_state in membership.h), the mover how far it has come.
 *
 *   MOVER-1. All stores are copied, each on a connection to the target's tenant of its name. A
 *	 store that is made, replaced or dropped meanwhile ends the move: STORES-3.
 *   MOVER-2. First all items are copied, then the segments that are marked (server/store/moving.h),
 *	 until few are: each is cleared at the target, then copied again. The rest follows once
 *	 the shards are frozen, when nothing marks a segment but eviction and expiry. These no
 *	 client can see any more, so the target has the items as clients saw them last.
 *   MOVER-3. Before the shards are frozen the mover rests as long as it works, so that clients'
 *	 requests find the processors at both ends. If clients mark segments so fast that little
 *	 is never left, it works without a rest, and then lets the shards be frozen for longer: a
 *	 quarter of a lease at most.
 *   MOVER-4. It is an RCU reader only while it reads a store, and never while it waits.
 *
 * Threads: mover_order() and mover_report() are the fleet's thread's, the others the control
 * thread's.
 */
#ifndef KVD_SERVER_FLEET_MOVER_H
#define KVD_SERVER_FLEET_MOVER_H

#include <pthread.h>

#include "server/fleet/fleet_stores.h"
#include "server/fleet/fleet_tls.h"
#include "server/fleet/membership.h"

#define MOVER_WHY_MAX MEMBERSHIP_WAITS_MAX

struct mover_report {
	enum mover_news {
		MOVER_NONE,
		MOVER_ASKED, /* membership_asked(), and so on */
		MOVER_COPIED,
		MOVER_CONFIRMED,
		MOVER_FAILED,
	} news;
	uint64_t id; /* of the move */
	int64_t own; /* CONFIRMED: of the target */
	char why[MOVER_WHY_MAX];
};

/* What the membership says. */
struct mover_order {
	enum move_state state;
	uint64_t id, generation, epoch;
	char target[FLEET_NAME_MAX + 1];
	char urls[FLEET_URLS_MAX + 1];
	struct shard_set shards;
};

struct mover {
	struct fleet_tls *tls;
	struct fleet_stores *stores;
	uint64_t lease_ns;	    /* W */
	void (*wake)(void *thread); /* the fleet's thread: there is a report */
	void *fleet_thread;

	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t changed;
	bool stops;
	struct mover_order order;
	struct mover_report report;
};

/* The caller has filled in the first fields. 0, or a negative errno after logging. */
int mover_start(struct mover *mover);
/* Ends what is under way, and the thread: takes a call's timeout at most, 10 s. */
void mover_stop(struct mover *mover);

/* Goes on as the move's state says. */
void mover_order(struct mover *mover, const struct membership_move *move);
/* Takes a report. False: there is none. */
bool mover_report(struct mover *mover, struct mover_report *report);

#endif /* KVD_SERVER_FLEET_MOVER_H */
