/* SPDX-License-Identifier: MIT */
/*
 * What the connections of a worker hold of what is limited, as statistics (HELD_STATS): when no
 * client asks for anything, each is back at what it was before. One that is not is a leak.
 *
 * The worker keeps these numbers for its own use. It shows them, at little cost, when it has had
 * nothing to do for a while, after every HELD_TURNS turns, and for its own clients' STATS, so that
 * what such a request itself holds is always in its response.
 */
#ifndef KVD_SERVER_WORKER_HELD_H
#define KVD_SERVER_WORKER_HELD_H

#include "server/worker/worker.h"

/* Turns in which there was something to do, from one held_show() to the next. */
#define HELD_TURNS 64

/* The worker: shows in worker->held what is held now. */
void held_show(struct worker *worker);

#endif /* KVD_SERVER_WORKER_HELD_H */
