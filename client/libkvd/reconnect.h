/* SPDX-License-Identifier: MIT */
/*
 * How a handle gets its connection, and another one when it is lost.
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
 * The pause. A server that restarts, or a switch that fails, takes the connections of all clients
 * at one instant, and they must not come back at one. So the pause before try n (from 0) is chosen
 * at random from the whole of [0, PAUSE_NS_MIN * 2^n], the latter at most PAUSE_NS_MAX: "full
 * jitter", of the policies that Marc Brooker compared the one with the fewest calls ("Exponential
 * Backoff And Jitter", AWS Architecture Blog, 2015). A connection that did no work does not start
 * the row again.
 */
#ifndef KVD_CLIENT_LIBKVD_RECONNECT_H
#define KVD_CLIENT_LIBKVD_RECONNECT_H

#include "client/libkvd/handle.h"

#define RECONNECT_PAUSE_NS_MIN 10000000u
#define RECONNECT_PAUSE_NS_MAX 1000000000u

/* The pause before the try behind @failures failed ones, in nanoseconds. @random: any number. */
uint64_t reconnect_pause_ns(unsigned int failures, uint64_t random);

/*
 * Takes the first step of the first try; a handle that is being opened has no second one. It ends
 * connect_timeout_ms after @begin_ns, since when the device has been looked for.
 */
void reconnect_open(struct kvd *handle, uint64_t begin_ns);

/*
 * The connection is lost. Flights that can be repeated wait for the next one; of the others it is
 * unknown what the server did. Closes the handle if it must not connect again.
 */
void reconnect_lost(struct kvd *handle);

/* Takes the steps that are due. Returns whether there was one. Not if the handle is up. */
bool reconnect_progress(struct kvd *handle);

/* When reconnect_progress() has something to do although nothing arrives. */
uint64_t reconnect_next_ns(const struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_RECONNECT_H */
