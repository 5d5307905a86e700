/* SPDX-License-Identifier: MIT */
/*
 * How flights begin and end. A flight is in one place at a time (enum flight_place), which leads to
 * it: a list, an entry of the FIFO of READs, a message. A flight that ends early is detached from
 * there. Its READ or request then completes without an owner: memory and buffers are the handle's,
 * and are free after that.
 */
#ifndef KVD_CLIENT_LIBKVD_FLIGHT_H
#define KVD_CLIENT_LIBKVD_FLIGHT_H

#include "client/libkvd/handle.h"

/* What FLIGHT_LOOKUP of a synchronous call needs beside what lookup_start() sets. */
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
	f->at = NULL;
	f->reads = 0;
	f->lookup.request = request;
	f->lookup.part = PART_WHOLE;
	f->lookup.pieces = false;
}

/* Whether the flight is one of @handle's: all are, unless it is a member of a fleet. */
static inline bool flight_is_at(const struct kvd *handle, const struct flight *f)
{
	return !handle->member.home || f->at == handle;
}

/*
 * A GET sees the changes submitted before it, so it waits for those of the same key. While there is
 * no connection, which counts as a change, it waits for that.
 */
static inline bool change_blocks(const struct kvd *handle, uint64_t hash)
{
	return handle->changes &&
	       (!handle->up || handle->change_filter[hash % (1 << CHANGE_FILTER_BITS)]);
}

/* The handle whose engine moves the flight on: of a fleet's, a member's. */
static inline struct kvd *flight_handle(struct kvd *handle, const struct flight *f)
{
	return handle->fleet && f->at ? f->at : handle;
}

/* Calls @visit for all flights that have begun and not ended, but the handle's own. */
void each_flight(struct kvd *handle, void (*visit)(struct kvd *handle, struct flight *f));
/* Calls @visit for the flights in the list, one of the handle's, in order; it may end them. */
void each_waiting(struct kvd *handle, struct list *list,
		  void (*visit)(struct kvd *handle, struct flight *f));
/* Takes the flight out of its place. Then it may be ended. */
void flight_detach(struct kvd *handle, struct flight *flight);
/* Ends a detached flight with @status, which is an error. */
void flight_fail(struct kvd *handle, struct flight *flight, enum kvd_status status);
/* Detaches a flight and ends it early, with @status. */
void flight_cut(struct kvd *handle, struct flight *flight, enum kvd_status status);
/* Ends a flight whose results are written. */
void flight_end(struct kvd *handle, struct flight *flight);
/* Begins the lookups that waited for a change or a connection; some may have to wait again. */
void blocked_begin(struct kvd *handle);

/* How long READs to the caller's memory that are in flight at the deadline may still take. */
#define FLIGHT_DRAIN_NS 200000000ull
/* Whether the flight's change was sent, and its outcome is unknown. */
bool flight_may_have_acted(const struct flight *flight);
/*
 * Sets the text for an operation that the server did not do in time: KVD_ERR_TIMEOUT, or, if there
 * is no connection, KVD_ERR_DISCONNECTED (KVD_ERR_AUTH, if the last try was refused for that),
 * unless the flight's change was sent on the previous one. @flight may be NULL: there is none yet.
 */
enum kvd_status timeout_fail(struct kvd *handle, const struct flight *flight);
/*
 * Ends a flight whose deadline has passed, with the status of timeout_fail(). True: it will end
 * when its READs to the caller's memory have completed; call this again after FLIGHT_DRAIN_NS. If
 * that memory is still in use then, or the server READs it, the connection is closed first.
 */
bool flight_expire(struct kvd *handle, struct flight *flight);

/*
 * A server whose process hangs (SIGSTOP, a debugger, swapping) keeps the connection: its memory can
 * be READ, but no request is answered, and each would cost its caller a whole deadline. So the
 * first deadline that passes while the server owes responses and has sent none for SILENCE_NS makes
 * the connection silent: requests that were not sent end with KVD_ERR_AWAY, at once. Those that
 * were sent are the probe: the next response ends the silence. Nothing is lost, so this may be
 * wrong: SILENCE_NS is only longer than a busy host stops a server.
 *
 * GETs by READ go on. If they get no answer either (the host is gone; softnic, where READs wait for
 * the SENDs before them), the first deadline that passes for one closes the connection, and a new
 * one is the probe: the server stays away.
 */
#define SILENCE_NS 1000000000u

/* If the connection is silent: ends the flights that wait to be sent, or for the server's clock. */
void silence_end(struct kvd *handle);
/* On a silent connection: ends a flight, which is in none of its lists. */
void silence_cut(struct kvd *handle, struct flight *flight);

/*
 * Whether the caller registered all of the value's memory. If so the flight holds it until it ends.
 */
bool flight_get_memory(struct kvd *handle, struct flight *flight, const void *value, size_t bytes);
void flight_put_memory(struct kvd *handle, struct flight *flight);
/*
 * Destroys the queue pair of a broken connection if flights use the caller's memory: when this
 * returns, neither the device nor the server does.
 */
void connection_let_go(struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_FLIGHT_H */
