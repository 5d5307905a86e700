/* SPDX-License-Identifier: MIT */
/* Shares the receives of a poller between its active connections. */
#include "server/worker/window.h"

#include "common/util/stat.h"
#include "server/worker/worker.h"

/* Time from one look at an active connection to the next. The list is in the order of looks. */
#define LOOK_NS 1000000000ull
/* Connections looked at in one call. */
#define LOOKS_MAX 16

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void share_update(struct poller *poller)
{
	struct window_pool *pool = &poller->windows;
	uint32_t share = pool->lendable / (pool->active_count ? pool->active_count : 1);

	pool->share = 1 + min_u32(share, poller->limits.window - 1);
}

void window_pool_init(struct poller *poller)
{
	const struct poller_limits *limits = &poller->limits;
	struct window_pool *pool = &poller->windows;

	TAILQ_INIT(&pool->active);
	pool->active_count = 0;
	pool->lendable = limits->srq_depth - limits->admins_max - limits->conns_max;
	pool->left = pool->left_max = pool->lendable;
	pool->wanted = limits->conns_max;
	share_update(poller);
}

void window_reserve(struct poller *poller)
{
	const struct poller_limits *limits = &poller->limits;
	uint32_t wanted = atomic_load_explicit(&poller->conns_wanted, memory_order_relaxed);
	uint32_t has = atomic_load_explicit(&poller->conns_reserved, memory_order_relaxed), more;
	struct window_pool *pool = &poller->windows;

	pool->wanted = wanted;
	pool->lendable = limits->srq_depth - limits->admins_max - wanted;
	share_update(poller);
	more = wanted > has ? min_u32(wanted - has, pool->left) : wanted - has;
	pool->left -= more;
	pool->left_max -= more;
	/* The control thread makes that many connections: after they left the windows. */
	atomic_store_explicit(&poller->conns_reserved, has + more, memory_order_release);
}

static uint32_t beyond(uint32_t used, uint32_t share)
{
	return used > share ? used - share : 0;
}

/*
 * Sets the window. What the connection has outstanding beyond it is taken from the spare places;
 * false, with nothing changed, if those do not suffice. A larger window never fails.
 *
 * Whatever the window, a connection without room for a response, or for the READ of a pull, waits
 * for a signaled work request of its own. All other requests of the window may have reserved a
 * place, so at least 1 + SENDS_BESIDE_WINDOW work requests are posted then. RESPONSE_SIGNAL_EVERY
 * is no larger than that, so one of them is signaled.
 */
static bool window_set(struct conn *conn, uint32_t window)
{
	struct poller *poller = conn->poller;
	uint32_t share = sq_share(conn) - conn->window + window;
	uint32_t sends = poller->spare_sends + beyond(conn->sq_used, sq_share(conn));
	uint32_t buffers = poller->spare_buffers + beyond(conn->buffers, conn->window);

	if (beyond(conn->sq_used, share) > sends || beyond(conn->buffers, window) > buffers)
		return false;
	poller->spare_sends = sends - beyond(conn->sq_used, share);
	poller->spare_buffers = buffers - beyond(conn->buffers, window);
	poller->windows.left += conn->window;
	poller->windows.left -= window;
	conn->window = window;
	stat_set(&conn->window_shown, window);
	return true;
}

/* Grows the window to @window, as far as receives are left. */
static void window_grow(struct conn *conn, uint32_t window)
{
	struct worker_stats *stats = &conn->poller->worker->stats;
	uint32_t more = min_u32(beyond(window, conn->window), conn->poller->windows.left);

	if (more && window_set(conn, conn->window + more))
		stat_add(&stats->windows_grown, 1);
}

static void look_later(struct conn *conn, uint64_t now_ns)
{
	conn->window_look_ns = now_ns + LOOK_NS;
	TAILQ_INSERT_TAIL(&conn->poller->windows.active, conn, window_entry);
}

void window_activate(struct conn *conn)
{
	struct poller *poller = conn->poller;

	conn->window_active = true;
	conn->window_next = conn->window_told = conn->window;
	if (conn->admin)
		return;
	poller->windows.active_count++;
	share_update(poller);
	look_later(conn, poller->worker->part.thread.now_ns);
	window_grow(conn, poller->windows.share);
	conn->window_next = conn->window;
	conn->window_told = 0;
}

void window_known(struct conn *conn)
{
	uint32_t before = conn->window;

	if (!window_set(conn, conn->window_next))
		return;
	conn->window_next = conn->window_told;
	conn->window_known_at = conn->responses + before;
	stat_add(&conn->poller->worker->stats.windows_shrunk, 1);
}

uint32_t window_welcome(struct conn *conn)
{
	conn->window_told = conn->window;
	return conn->window;
}

/*
 * The share has changed since the client was told. If it is less than the window, the client is
 * told, and WINDOW-3 begins with this response. If WINDOW-3 has begun before, it goes on with the
 * larger of the two, so shares that change back and forth don't put it off.
 */
void window_change(struct conn *conn)
{
	uint32_t share = conn->poller->windows.share;
	bool known_soon = conn->window_next < conn->window;

	window_grow(conn, share);
	conn->window_told = min_u32(share, conn->window);
	if (known_soon && conn->window_next > conn->window_told)
		return;
	conn->window_next = conn->window_told;
	if (!known_soon)
		conn->window_known_at = conn->responses + conn->window;
}

static void deactivate(struct conn *conn)
{
	struct poller *poller = conn->poller;

	conn->window_active = false;
	if (conn->admin)
		return;
	TAILQ_REMOVE(&poller->windows.active, conn, window_entry);
	poller->windows.active_count--;
	share_update(poller);
}

static bool is_idle(const struct conn *conn, uint64_t now_ns)
{
	return now_ns > conn->client.active_ns + WINDOW_IDLE_NS && !conn->stopped &&
	       !conn->deferred_count;
}

/* Looks again a second later if outstanding responses leave too little room to shrink. */
static void look(struct conn *conn, uint64_t now_ns)
{
	struct poller *poller = conn->poller;

	if (!is_idle(conn, now_ns) || !window_set(conn, WIRE_WINDOW_LAPSED)) {
		TAILQ_REMOVE(&poller->windows.active, conn, window_entry);
		look_later(conn, now_ns);
		return;
	}
	deactivate(conn);
	conn->window_next = conn->window_told = WIRE_WINDOW_LAPSED;
	stat_add(&poller->worker->stats.windows_lapsed, 1);
}

void window_expire(struct poller *poller, uint64_t now_ns)
{
	unsigned int i;

	for (i = 0; i < LOOKS_MAX && window_due(poller, now_ns); i++)
		look(TAILQ_FIRST(&poller->windows.active), now_ns);
}

/* The connection has nothing outstanding any more, so the smaller window can always be set. */
void window_release(struct conn *conn)
{
	if (!conn->window_active)
		return;
	deactivate(conn);
	window_set(conn, 1);
}
