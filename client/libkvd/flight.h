/* SPDX-License-Identifier: MIT */
/*
 * How flights begin and end. A flight is in one place at a time (enum flight_place), which leads to
 * it: a list, an entry of the FIFO of READs, a message. One that ends early is detached from there.
 * The READ or request then completes for nobody: its memory and buffers are the handle's, and are
 * free when it does.
 */
#ifndef KVD_CLIENT_LIBKVD_FLIGHT_H
#define KVD_CLIENT_LIBKVD_FLIGHT_H

#include "client/libkvd/handle.h"

/* What FLIGHT_LOOKUP of a synchronous call needs and lookup_start() does not set. */
static inline void flight_init_lookup(struct flight *f, unsigned int *left,
				      struct kvd_get_request *request)
{
	f->left = left;
	f->kind = FLIGHT_LOOKUP;
	f->place = PLACE_NONE;
	f->phase = PHASE_PLAIN;
	f->counted = false;
	f->sent = false;
	f->touching = false;
	f->direct = false;
	f->has_transfer = false;
	f->reads = 0;
	f->lookup.request = request;
	f->lookup.exists = false;
	f->lookup.pieces = false;
}

/* Calls @visit for all flights that have begun and not ended, but the handle's own. */
void each_flight(struct kvd *handle, void (*visit)(struct kvd *handle, struct flight *f));
/* Takes the flight from where it is. It may be ended then. */
void flight_detach(struct kvd *handle, struct flight *flight);
/* Ends it with @status, which is an error. */
void flight_fail(struct kvd *handle, struct flight *flight, enum kvd_status status);
/* Both: it ends early, with @status. */
void flight_cut(struct kvd *handle, struct flight *flight, enum kvd_status status);
/* Its results are written: ends it. */
void flight_end(struct kvd *handle, struct flight *flight);
/* Begins the lookups that waited for a change, or for a connection. Some may have to wait on. */
void blocked_begin(struct kvd *handle);

/* How long READs to the caller's memory may take that are in flight at the deadline. */
#define FLIGHT_DRAIN_NS 200000000ull
/* Whether its change was sent on the connection that was lost, and not answered. */
bool flight_may_have_acted(const struct flight *flight);
/*
 * Sets the text for an operation that the server did not do in time: KVD_ERR_TIMEOUT, or, if there
 * is no connection, KVD_ERR_DISCONNECTED (KVD_ERR_AUTH, if the last try was refused for that),
 * unless the flight's change was sent on the one before. @flight: NULL: it has none yet.
 */
enum kvd_status timeout_fail(struct kvd *handle, const struct flight *flight);
/*
 * Its deadline has passed: it ends with the status of timeout_fail(). True: when its READs to the
 * caller's memory have completed; call this again after FLIGHT_DRAIN_NS. If the caller's memory is
 * in use all the same, the connection is closed first.
 */
bool flight_expire(struct kvd *handle, struct flight *flight);

/*
 * Looks whether the caller registered all of the value's memory; then the flight has it until it
 * ends.
 */
bool flight_get_memory(struct kvd *handle, struct flight *flight, const void *value, size_t bytes);
void flight_put_memory(struct kvd *handle, struct flight *flight);
/*
 * The connection is broken: neither the device nor the server uses memory of the caller's any more
 * when this returns.
 */
void connection_let_go(struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_FLIGHT_H */
