/* SPDX-License-Identifier: MIT */
/*
 * The engine: one for synchronous and submitted operations. It takes completions from the device,
 * which moves the flights on that they belong to, and posts what these need next. Synchronous calls
 * run on it: rpc_call() is one request and its response.
 */
#ifndef KVD_CLIENT_LIBKVD_ENGINE_H
#define KVD_CLIENT_LIBKVD_ENGINE_H

#include "client/libkvd/handle.h"

/* engine_turn(), if there is something to wait for. */
enum kvd_status engine_turn_wait(struct kvd *handle);

/*
 * Waits until a synchronous call is next: all that was submitted before has begun. KVD_ERR_TIMEOUT;
 * or why the connection is lost.
 */
static inline enum kvd_status engine_turn(struct kvd *handle)
{
	return list_empty(&handle->waiting) ? KVD_OK : engine_turn_wait(handle);
}

/*
 * Does what flights of a synchronous call need until @left, their count, is 0. Those that do not
 * end before the deadline (handle->deadline_ns; 0: timeout_ms from the first wait on) end with
 * KVD_ERR_TIMEOUT, and those that the connection did not live to do with another status. Returns
 * KVD_OK if there were none of either, else their status.
 */
enum kvd_status engine_run(struct kvd *handle, struct flight *flights, unsigned int count,
			   const unsigned int *left);

/* Moves on what can be moved, without waiting. Returns the number of completions taken. */
unsigned int engine_progress(struct kvd *handle);

/* Posts what flights need that have just begun. */
void engine_post(struct kvd *handle);

/*
 * Waits until @stop(@handle, @arg) or *@deadline_ns (0: sets it, timeout_ms from the first poll in
 * vain on): first by polling, then asleep. False: it was the deadline.
 */
bool engine_wait(struct kvd *handle, bool (*stop)(struct kvd *handle, const void *arg),
		 const void *arg, uint64_t *deadline_ns);

/* When engine_progress() has something to do although nothing completes. UINT64_MAX: never. */
uint64_t engine_next_ns(const struct kvd *handle);

/*
 * Sends the request and waits for the response. *@response is valid until the next rpc_call() on
 * the handle. Returns the status of the response.
 */
enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response);

/* After a synchronous GET: if a message of reports is due, waits until it is posted. */
void access_settle(struct kvd *handle);
/* Reports all GETs that wait, and waits for the responses, for at most @wait_ms. */
void access_report_all(struct kvd *handle, unsigned int wait_ms);

#endif /* KVD_CLIENT_LIBKVD_ENGINE_H */
