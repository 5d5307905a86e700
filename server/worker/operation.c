/* SPDX-License-Identifier: MIT */
/* Counts operations on the table, and runs the steps of those that take several turns. */
#include "server/worker/operation.h"

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/worker/build.h"
#include "server/worker/conn_thread.h"

/*
 * Of a value in parts the first one counts. What failed for want of room is asked for again; and to
 * ask whether a key exists is no GET.
 */
static void get_count(struct conn *conn, const struct request *request, enum wire_status status)
{
	struct store_thread *thread = conn_thread(conn);

	if (request->offset || request->flags & WIRE_F_NO_VALUE ||
	    (status != WIRE_OK && status != WIRE_NOT_FOUND))
		return;
	stat_add(&thread->stats.gets, 1);
	stat_add(&thread->stats.get_hits, status == WIRE_OK);
	stat_add(&thread->stats.get_misses, status == WIRE_NOT_FOUND);
}

static void operation_count(struct conn *conn, const struct request *request,
			    enum wire_status status)
{
	struct worker_stats *stats = &conn->poller->worker->stats;

	switch (request->op) {
	case WIRE_GET:
		get_count(conn, request, status);
		break;
	case WIRE_PUT:
	case WIRE_ARITH:
		stat_add(&stats->puts, 1);
		stat_add(&stats->put_no_space, status == WIRE_NO_SPACE);
		stat_add(&stats->put_too_large, status == WIRE_TOO_LARGE);
		break;
	case WIRE_DELETE:
		stat_add(&stats->deletes, 1);
		stat_add(&stats->delete_misses, status == WIRE_NOT_FOUND);
		break;
	case WIRE_TOUCH:
		stat_add(&stats->touches, 1);
		if (request->flags & WIRE_F_VALUE)
			get_count(conn, request, status);
		break;
	default:
		break;
	}
}

void operation_done(struct conn *conn, const struct request *request,
		    const struct wire_response *head)
{
	operation_count(conn, request, head->status);
	conn_record(conn, request->change, head);
}

enum deferred_next operation_room_run(struct room *room, uint64_t until_ns)
{
	enum room_next next;

	do
		next = room_step(room);
	while (next == ROOM_AGAIN && clock_ns() < until_ns);
	if (next == ROOM_DONE)
		return DEFERRED_DONE;
	return next == ROOM_WAIT ? DEFERRED_IDLE : DEFERRED_AGAIN;
}

void operation_large_begin(struct deferred_large *large, struct conn *conn,
			   const struct request *request, uint64_t hash)
{
	execute_large_begin(&large->steps, conn_thread(conn), request, hash);
	large->begun = true;
}

enum deferred_next operation_large_run(struct deferred_large *large, struct conn *conn,
				       struct wire_response *head, uint64_t until_ns)
{
	enum large_next next;

	do {
		if (!build_admit(conn, &large->hold, &large->steps))
			return DEFERRED_WAIT;
		next = large_step(&large->steps, DEFERRED_STEP_BYTES);
	} while (next == LARGE_AGAIN && clock_ns() < until_ns);
	if (next != LARGE_DONE)
		return next == LARGE_RETRY ? DEFERRED_IDLE : DEFERRED_AGAIN;
	response_set_change(&large->steps.change, large->steps.status, head);
	build_end(conn, &large->hold);
	return DEFERRED_DONE;
}

void operation_large_cancel(struct deferred_large *large, struct conn *conn)
{
	if (!large->begun)
		return;
	large_cancel(&large->steps);
	build_end(conn, &large->hold);
}
