/* SPDX-License-Identifier: MIT */
/* The pace of a worker: what it does between two turns, and whether it rests at once. */
#ifndef KVD_SERVER_WORKER_PACE_H
#define KVD_SERVER_WORKER_PACE_H

#include <stdbool.h>

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
 * follow. After a request it does, also if the completion of its response comes first.
 */
static inline bool pace_rests(enum pace pace, enum activity activity)
{
	return pace == PACE_WOKEN && activity == ACTIVITY_UNAWAITED;
}

#endif /* KVD_SERVER_WORKER_PACE_H */
