/* SPDX-License-Identifier: MIT */
/* Queues deferred requests, one queue for each connection, and runs them piece by piece. */
#include "server/worker/deferred.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/worker/conn.h"
#include "server/worker/worker.h"

int deferred_init(struct poller *poller)
{
	poller->deferred = calloc(poller->limits.srq_depth, sizeof(*poller->deferred));
	return poller->deferred ? 0 : -ENOMEM;
}

void deferred_release(struct poller *poller)
{
	free(poller->deferred);
	poller->deferred = NULL;
}

/* The connection takes turns from now on, after the others. */
static void conn_run(struct conn *conn)
{
	if (conn->deferred_runs)
		return;
	conn->deferred_runs = true;
	TAILQ_INSERT_TAIL(&conn->poller->worker->deferred_conns, conn, deferred_entry);
}

static void conn_pause(struct conn *conn)
{
	if (!conn->deferred_runs)
		return;
	conn->deferred_runs = false;
	TAILQ_REMOVE(&conn->poller->worker->deferred_conns, conn, deferred_entry);
}

void deferred_start(struct conn *conn, const struct deferred_kind *kind,
		    const struct request *request, uint64_t hash, uint32_t buffer)
{
	struct deferred *deferred = &conn->poller->deferred[buffer];
	bool first = !deferred_pending(conn);

	/* An initializer would set the first member of the union only. */
	memset(deferred, 0, sizeof(*deferred));
	deferred->kind = kind;
	deferred->conn = conn;
	deferred->buffer = buffer;
	deferred->request = *request;
	deferred->hash = hash;
	deferred->arrived_ns = conn->poller->worker->part.thread.now_ns;
	TAILQ_INSERT_TAIL(&conn->deferred, deferred, entry);
	conn->deferred_count++;
	stat_add(&conn->poller->worker->stats.deferred, 1);
	if (first)
		conn_run(conn);
}

void deferred_wake(struct conn *conn)
{
	if (deferred_pending(conn))
		conn_run(conn);
}

void deferred_wake_client(struct client *client)
{
	deferred_wake(client_conn(client));
}

/* Before the response is sent: the client may then fill its window again (WORKER-4). */
static void deferred_end(struct deferred *deferred)
{
	struct conn *conn = deferred->conn;

	TAILQ_REMOVE(&conn->deferred, deferred, entry);
	conn->deferred_count--;
	poller_post_recvs(conn->poller, &deferred->buffer, 1);
}

void deferred_cancel(struct conn *conn)
{
	struct deferred *deferred, *next;

	for (deferred = TAILQ_FIRST(&conn->deferred); deferred; deferred = next) {
		next = TAILQ_NEXT(deferred, entry);
		if (!deferred->kind->cancel || deferred->kind->cancel(deferred))
			deferred_end(deferred);
	}
	conn_pause(conn);
}

/* Runs a piece of the connection. False: it got nowhere, or there was none. */
static bool conn_step(struct conn *conn, struct response_list *responses, uint64_t until_ns)
{
	struct deferred *deferred = TAILQ_FIRST(&conn->deferred);
	enum piece_next next;

	if (!deferred)
		return false;
	if (!deferred->reserved && !deferred->kind->needs_no_room && !response_room(conn)) {
		if (deferred->kind->no_room)
			deferred->kind->no_room(deferred);
		return false;
	}
	turn_note(&conn->poller->worker->turn, deferred->request.op, conn->client.number);
	next = deferred->kind->step(deferred, responses, until_ns);
	stat_add(&conn->poller->worker->stats.deferred_pieces, next != PIECE_IDLE);
	if (next == PIECE_DONE)
		deferred_end(deferred);
	if (next != PIECE_WAIT && deferred_pending(conn))
		conn_run(conn);
	return next != PIECE_IDLE;
}

/* The turn of one connection. False: it got nowhere. */
static bool conn_turn(struct conn *conn, uint64_t until_ns)
{
	struct response_list responses;
	bool done;

	conn_pause(conn);
	if (conn->stopped) {
		deferred_cancel(conn);
		return true;
	}
	responses.poller = conn->poller;
	responses.count = 0;
	rcu_read_lock();
	/* Sets the clock of the tenant's thread, which a request that goes on keeps using. */
	(void)conn_thread(conn);
	done = conn_step(conn, &responses, until_ns);
	responses_send(&responses);
	rcu_read_unlock();
	return done;
}

bool deferred_run(struct worker *worker)
{
	struct conn *conn, *last = TAILQ_LAST(&worker->deferred_conns, deferred_conns);
	uint64_t until_ns;

	if (!last)
		return false;
	/* As in a batch: the clock is read after the request arrived and before it is executed. */
	store_thread_clock(&worker->part.thread);
	turn_begin(&worker->turn, worker->part.thread.now_ns);
	until_ns = clock_ns() + PIECE_NS;
	while ((conn = TAILQ_FIRST(&worker->deferred_conns)))
		if (conn_turn(conn, until_ns) || conn == last || clock_ns() >= until_ns)
			break;
	return true;
}
