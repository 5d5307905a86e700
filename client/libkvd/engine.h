/* SPDX-License-Identifier: MIT */
/*
 * The engine: one for synchronous and submitted operations. It takes completions from the device,
 * which moves the flights on that they belong to, and posts what these need next. Synchronous calls
 * run on it: rpc_call() is one request and its response.
 */
#ifndef KVD_CLIENT_LIBKVD_ENGINE_H
#define KVD_CLIENT_LIBKVD_ENGINE_H

#include "client/libkvd/handle.h"

/* engine_turn() when submitted operations wait for a slot. */
enum kvd_status engine_turn_wait(struct kvd *handle);

/*
 * Waits until a synchronous call is next: all operations submitted before have begun.
 * KVD_ERR_TIMEOUT, or why the connection is lost.
 */
static inline enum kvd_status engine_turn(struct kvd *handle)
{
	return list_empty(&handle->waiting) ? KVD_OK : engine_turn_wait(handle);
}

/*
 * Runs the flights of a synchronous call until @left, the count of those that have not ended, is 0.
 * Flights that do not end before the deadline (handle->deadline_ns; 0: timeout_ms from the first
 * wait on) end with KVD_ERR_TIMEOUT, or, without a connection, as timeout_fail() says. Returns
 * KVD_OK if all ended in time, else why not.
 */
enum kvd_status engine_run(struct kvd *handle, struct flight *flights, unsigned int count,
			   const unsigned int *left);

/* Posts what flights that have just begun need, and takes the completions that are there. */
void engine_step(struct kvd *handle);

/* Moves on what can be moved, without waiting. Returns the number of completions taken. */
unsigned int engine_progress(struct kvd *handle);

/*
 * For a call while the server is away: takes the steps of the try that are due. If the last call
 * was long ago, it also waits for the next ones, for at most 20 ms or @timeout_ms: a program that
 * calls seldom would never be connected again if each of its calls took one step, for the server
 * and connect_timeout_ms end a try that stands still.
 */
void engine_probe(struct kvd *handle, uint32_t timeout_ms);

/* Posts what flights that have just begun need. */
void engine_post(struct kvd *handle);

/*
 * Waits until @stop(@handle, @arg) or *@deadline_ns (0: set to timeout_ms after the first poll that
 * finds nothing): first by polling, then asleep. False: the deadline has passed.
 */
bool engine_wait(struct kvd *handle, bool (*stop)(struct kvd *handle, const void *arg),
		 const void *arg, uint64_t *deadline_ns);

/* When engine_progress() has work even if nothing completes. UINT64_MAX: never. */
uint64_t engine_next_ns(const struct kvd *handle);

/*
 * Sends the request and waits for the response. *@response is valid until the next rpc_call() on
 * the handle. Returns the status of the response.
 */
enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response);

/* After a synchronous GET: if a message of reports is due, waits until it is posted. */
void access_settle(struct kvd *handle);
/* Sends all reports of GETs, and waits for the responses, for at most @wait_ms. */
void access_report_all(struct kvd *handle, unsigned int wait_ms);

#endif /* KVD_CLIENT_LIBKVD_ENGINE_H */
