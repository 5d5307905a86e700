/* SPDX-License-Identifier: MIT */
/*
 * Windows: how many requests each client may have outstanding, and that a receive is posted for
 * every one of them. A window of 1 is set aside for each connection that a poller may have, so that
 * the last newcomer gets one whatever the others do. The other receives are shared by the
 * connections that are active, in equal parts of up to request.window. Every response tells the
 * client its window, so windows follow use.
 *
 *   WINDOW-1. The windows of all connections, the receives that are not lent and the ones that are
 *	 set aside for connections that are not there add up to the receives. So a client that keeps
 *	 to its window meets a posted receive (with WORKER-4).
 *   WINDOW-2. `window` is what the client may believe in, at most: it grows before a response says
 *	 so, and is made smaller only when the client surely knows (WINDOW-3), or has lost it by the
 *	 clock (WINDOW-4).
 *   WINDOW-3. A client that was told a smaller window in response number a (of those on this
 *	 connection, in the order in which they are sent) knows it when a + window requests of it
 *	 have arrived. For before it took that response, it had taken a - 1 at most, and so had sent
 *	 fewer than a + window requests. No message has to say it. What it knows then is a window
 *	 that it was told in response a or later: the largest of those counts.
 *   WINDOW-4. A client that has posted no request for WIRE_WINDOW_LAPSE_MS takes its window for 1
 *	 when it posts the next one. The server counts that window back WINDOW_IDLE_NS after the
 *	 last request arrived, which was later than it was posted, when nothing of that client is
 *	 outstanding. So an idle client need not be told, nor answer. Between the client's look at
 *	 its clock and the arrival of the request may pass the difference, 4 s. One that takes
 *	 longer (a client that is stopped between the two or with its host, packets that were lost
 *	 several times) arrives as the first request of an idle connection does: it makes the
 *	 connection active, with the share of an active one as long as receives are left. Only if
 *	 none are left, and several such requests arrive together, do they exceed the window of 1.
 *	 (Responses that a client takes late, after its window has lapsed, do not revive it: with a
 *	 window of 1 it takes all responses before it posts anything, and all that come then were
 *	 sent after the server saw that.)
 *   WINDOW-5. Nobody depends on what another client gives back but for more than a window of 1. A
 *	 client that does nothing, or breaks the rules, keeps from the others one share for
 *	 WINDOW_IDLE_NS. One whose share became less keeps the larger one for some requests of its
 *	 own (WINDOW-3), which a client that wants to can send WINDOW_IDLE_NS apart, but not less
 *	 often, or it is idle. That ends after 2 x request.window of them: WINDOW-3 takes `window`
 *	 requests at most, and then the largest window counts that was told in the meantime, a part
 *	 of which may be from before the share became what it is. After as many again all that
 *	 counts was told since. With the defaults that is 80 s at most, in which the others have a
 *	 window of 1 at worst: each is served at once, but has one request outstanding. The clock
 *	 can't end it earlier: an honest client that computes between its requests looks the same,
 *	 and would send what it believes in.
 *
 * The window of an administrator's own place is 1 always.
 *
 * Response buffers and places in the completion queue follow the window (response.c, conn.h).
 */
#ifndef KVD_SERVER_WORKER_WINDOW_H
#define KVD_SERVER_WORKER_WINDOW_H

#include "server/worker/conn.h"

/* A connection is idle when nothing has arrived for so long. */
#define WINDOW_IDLE_NS 5000000000ull
static_assert(WINDOW_IDLE_NS > 2 * WIRE_WINDOW_LAPSE_MS * 1000000ull, "WINDOW-4");

/* Lends nothing yet. The poller's limits are set. */
void window_pool_init(struct poller *poller);

/* What window_request() and window_tell() have seldom to do. */
void window_activate(struct conn *conn);
void window_known(struct conn *conn);
void window_change(struct conn *conn);

/* A request arrived and is counted in conn->requests. Before its window is checked. */
static inline void window_request(struct conn *conn)
{
	if (!conn->window_active)
		window_activate(conn);
	else if (conn->window_next < conn->window && conn->requests >= conn->window_known_at)
		window_known(conn);
}

/* The window that the welcome, which is about to be sent, tells the client. */
uint32_t window_welcome(struct conn *conn);

/*
 * The window that the response to another request than HELLO tells the client. The response is the
 * next one that is sent, and is counted in conn->responses.
 */
static inline uint16_t window_tell(struct conn *conn)
{
	if (conn->window_active && !conn->admin && conn->window_told != conn->poller->windows.share)
		window_change(conn);
	return (uint16_t)conn->window_told;
}

/*
 * Takes the windows of idle connections back, by the server's clock at @now_ns. The last poll found
 * no more requests than it could take, so a worker that was stopped for a while mostly finds them
 * first. (Not always: softnic may look at a connection only in a later poll. Its requests then
 * arrive as those of an idle one do, see WINDOW-4.) Looks at a bounded number of connections, and
 * at each active one about once a second.
 */
void window_expire(struct poller *poller, uint64_t now_ns);

/* Takes the window of a connection back whose queue pair is destroyed. */
void window_release(struct conn *conn);

/* Whether window_expire() has something to do now. */
static inline bool window_due(const struct poller *poller, uint64_t now_ns)
{
	const struct conn *first = TAILQ_FIRST(&poller->windows.active);

	return first && now_ns >= first->window_look_ns;
}

/* Whether it has, some day, though no request arrives. */
static inline bool window_any_active(const struct poller *poller)
{
	return !TAILQ_EMPTY(&poller->windows.active);
}

#endif /* KVD_SERVER_WORKER_WINDOW_H */
