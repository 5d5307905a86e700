/* SPDX-License-Identifier: MIT */
/*
 * How a handle gets its connection, and a new one when that is lost.
 *
 *	(kvd_open)					lost
 *	    |						 |
 *	    v			 no			 v
 *	CONNECTING -- HELLO -- welcome -- up	     PAUSE
 *	    ^	  \	   \			       |
 *	    |	   `--------`-- failed: PAUSE again    |
 *	    `------------------------------------------'  when the pause has ended
 *
 * None of the steps waits: reconnect_progress() takes those that are due, and the engine calls it
 * while there is no connection. Meanwhile flights wait: lookups in handle->blocked, requests in
 * handle->requests; each has its deadline.
 *
 * Away. A loss costs one deadline, not one for each call (a circuit breaker). When a deadline
 * passes without a connection, half of timeout_ms or more after the loss, the server is away:
 * whatever needs a connection, and was not sent, ends at once with KVD_ERR_AWAY. The tries go on,
 * and the one that succeeds ends that. An operation with a short deadline of its own, or one that
 * had used up most of its deadline before the loss, does not end the others in the first half.
 *
 * The pause. A server that restarts, or a switch that fails, breaks the connections of all clients
 * at one instant, and they must not all come back at one. So the pause before try n (from 0) is
 * random in [0, min(PAUSE_NS_MIN * 2^n, PAUSE_NS_MAX)]: "full jitter", the policy with the fewest
 * calls of those that Marc Brooker compared ("Exponential Backoff And Jitter", AWS Architecture
 * Blog, 2015). A connection that did no work does not reset n.
 */
#ifndef KVD_CLIENT_LIBKVD_RECONNECT_H
#define KVD_CLIENT_LIBKVD_RECONNECT_H

#include "client/libkvd/handle.h"

#define RECONNECT_PAUSE_NS_MIN 10000000u
#define RECONNECT_PAUSE_NS_MAX 1000000000u

/*
 * A pause in [0, min(@least_ns * 2^@failures, @most_ns)]. @random: any number.
 */
uint64_t jitter_ns(uint64_t least_ns, uint64_t most_ns, unsigned int failures, uint64_t random);
/* The pause before the next try after @failures failed ones, in ns. */
uint64_t reconnect_pause_ns(unsigned int failures, uint64_t random);

/*
 * Takes the first step of the only try of a handle that is being opened. The try ends
 * connect_timeout_ms after @begin_ns, when opening the device began.
 */
void reconnect_open(struct kvd *handle, uint64_t begin_ns);

/* Connects for the first time, as after a loss: flights wait, and tries are repeated. */
void reconnect_first(struct kvd *handle);

/*
 * The connection is lost. Flights that can be repeated wait for the next connection; the outcome of
 * the others is unknown. Closes the handle if it must not connect again.
 */
void reconnect_lost(struct kvd *handle);

/* While the server is away: ends the flights and submitted operations that were not sent. */
void away_end(struct kvd *handle);

/* Takes the steps that are due while the handle is not up. Returns whether there was one. */
bool reconnect_progress(struct kvd *handle);

/* When reconnect_progress() has work even if nothing arrives. UINT64_MAX: never. */
uint64_t reconnect_next_ns(const struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_RECONNECT_H */
