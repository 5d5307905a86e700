/* SPDX-License-Identifier: MIT */
/*
 * Windows: how many requests each client may have outstanding; a receive is posted for each of
 * them. A window of 1 is set aside for each connection that a poller may have, so that the last
 * newcomer gets one whatever the others do. The active connections share the other receives in
 * equal parts of up to request.window. Every response tells the client its window, so windows
 * follow use.
 *
 *   WINDOW-1. The windows of all connections, the receives not lent, and those set aside for
 *	 connections not yet made add up to all receives. So a client that keeps to its window meets
 *	 a posted receive (with WORKER-4).
 *   WINDOW-2. `window` is the most that the client may assume: it grows before a response says so,
 *	 and shrinks only once the client surely knows (WINDOW-3), or has lost it by the clock
 *	 (WINDOW-4).
 *   WINDOW-3. A client that was told a smaller window in response number a (counted on this
 *	 connection, in the order of sending) knows it once a + window of its requests have arrived:
 *	 before it took that response, it had taken at most a - 1, and so had sent fewer than a +
 *	 window requests. No message need say so. It then assumes a window that it was told in
 *	 response a or later: the largest of those counts.
 *   WINDOW-4. A client that has posted no request for WIRE_WINDOW_LAPSE_MS assumes a window of 1
 *	 when it posts the next one. The server takes the window back WINDOW_IDLE_NS after the last
 *	 request arrived, which was later than it was posted, if nothing of that client is
 *	 outstanding. So an idle client need not be told, nor answer. The difference, 4 s, may pass
 *	 between the client's look at its clock and the arrival of the request. A request that takes
 *	 longer (its client or host was stopped in between, or packets were lost several times)
 *	 arrives like the first request of an idle connection: it makes the connection active, with
 *	 the share of an active one as long as receives are left. Only if none are left, and several
 *	 such requests arrive together, do they exceed the window of 1. (Responses that a client
 *	 takes late, after its window has lapsed, do not revive it: with a window of 1 it takes all
 *	 responses before it posts anything, and any later response was sent after the server saw
 *	 that request.)
 *   WINDOW-5. A client depends on what others give back only for more than a window of 1. A client
 *	 that does nothing, or breaks the rules, keeps one share from the others for WINDOW_IDLE_NS.
 *	 A client whose share shrinks keeps the larger one for some requests of its own (WINDOW-3),
 *	 which it may choose to send up to WINDOW_IDLE_NS apart; later than that it is idle. That
 *	 ends after 2 x request.window of them: WINDOW-3 takes `window` requests at most, and then
 *	 the largest window told in the meantime counts, which may date from before the share
 *	 shrank. After that many requests again, all windows that count were told since. With the
 *	 defaults that takes 80 s at most, in which the others have a window of 1 at worst: each is
 *	 served at once, but has one request outstanding. The clock can't end it earlier: an honest
 *	 client that computes between its requests looks the same, and would use the window that it
 *	 was told.
 *
 * The window of an administrator's own place is always 1.
 *
 * Response buffers and places in the completion queue follow the window (response.c, conn.h).
 */
#ifndef KVD_SERVER_WORKER_WINDOW_H
#define KVD_SERVER_WORKER_WINDOW_H

#include "server/worker/conn.h"

/* A connection is idle when nothing has arrived for this long. */
#define WINDOW_IDLE_NS 5000000000ull
static_assert(WINDOW_IDLE_NS > 2 * WIRE_WINDOW_LAPSE_MS * 1000000ull, "WINDOW-4");

/* Lends nothing yet. The poller's limits are set. */
void window_pool_init(struct poller *poller);

/*
 * Sets receives aside for as many connections as the control thread wants (conns_wanted), when
 * workers come or go: takes them out of those that windows may have as they are given back, and
 * says in conns_reserved for how many there are.
 */
void window_reserve(struct poller *poller);

/* Whether window_reserve() has something to do. */
static inline bool window_reserves(const struct poller *poller)
{
	const uint32_t wanted = atomic_load_explicit(&poller->conns_wanted, memory_order_relaxed);

	return wanted != poller->windows.wanted ||
	       wanted != atomic_load_explicit(&poller->conns_reserved, memory_order_relaxed);
}

/* The rare parts of window_request() and window_tell(). */
void window_activate(struct conn *conn);
void window_known(struct conn *conn);
void window_change(struct conn *conn);

/* A request arrived and is counted in client.requests. Called before its window is checked. */
static inline void window_request(struct conn *conn)
{
	if (!conn->window_active)
		window_activate(conn);
	else if (conn->window_next < conn->window && conn->client.requests >= conn->window_known_at)
		window_known(conn);
}

/* The window that the welcome, which is about to be sent, tells the client. */
uint32_t window_welcome(struct conn *conn);

/*
 * The window that a response to any request but HELLO tells the client. The response is the next
 * one to be sent, and is counted in conn->responses.
 */
static inline uint16_t window_tell(struct conn *conn)
{
	if (conn->window_active && !conn->admin && conn->window_told != conn->poller->windows.share)
		window_change(conn);
	return (uint16_t)conn->window_told;
}

/*
 * Takes the windows of idle connections back, by the server's clock at @now_ns. The last poll took
 * all requests that it found, so a worker that was stopped for a while mostly sees them first. (Not
 * always: softnic may look at a connection only in a later poll. Its requests then arrive like
 * those of an idle one, see WINDOW-4.) Looks at a bounded number of connections, and at each active
 * one about once a second.
 */
void window_expire(struct poller *poller, uint64_t now_ns);

/* Takes back the window of a connection whose queue pair is destroyed. */
void window_release(struct conn *conn);

/* Whether window_expire() has something to do now. */
static inline bool window_due(const struct poller *poller, uint64_t now_ns)
{
	const struct conn *first = TAILQ_FIRST(&poller->windows.active);

	return first && now_ns >= first->window_look_ns;
}

/* Whether window_expire() will have something to do later even if no request arrives. */
static inline bool window_any_active(const struct poller *poller)
{
	return !TAILQ_EMPTY(&poller->windows.active);
}

#endif /* KVD_SERVER_WORKER_WINDOW_H */
