/* SPDX-License-Identifier: MIT */
/*
 * Begins to READ large values; sums what has arrived and commits the values to the table, in pieces
 * of the worker's turns.
 */
#include "server/worker/pull.h"

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/store/store.h"
#include "server/worker/budget.h"
#include "server/worker/conn.h"
#include "server/worker/execute.h"
#include "server/worker/keepalive.h"
#include "server/worker/member.h"
#include "server/worker/permit.h"
#include "server/worker/pull_reads.h"

/* A pull while its value is READ, summed and put into the table. */
static const struct deferred_kind pulling_kind;

/* PULL-5: whether the first bytes can be READ without the client. */
static bool pull_is_now(const struct conn *conn, const struct request *request)
{
	return !conn->poller->nic->dev->ops->read_now(conn->qp, request->pull_rkey,
						      request->pull_addr, NULL, 0, NULL);
}

static uint64_t pull_bytes(const struct request *request)
{
	return mem_class_bytes(
		item_bytes_for(request->key_len, request->value_len, request->item_flags));
}

/*
 * BUDGET-3: whether the connection has served a READ. If not, it is probed, and the pull waits for
 * the answer as long as for a part of its value.
 */
static bool pull_is_served(struct worker *worker, struct conn *conn)
{
	if (conn->probes_answered)
		return true;
	if (!conn->pull_since_ns) {
		pull_clock_start(conn);
		stat_add(&worker->stats.pulls_probed, 1);
	}
	keepalive_post(conn);
	return false;
}

void pull_probed(struct conn *conn)
{
	if (!conn->pulls_reading)
		pull_clock_stop(conn);
}

static struct budget *budget_of(const struct conn *conn)
{
	return &conn->client.part->tenant->pull_budget;
}

/* BUDGET-4: the principal may have become late while the pull waited. */
static void pull_set_late(struct worker *worker, struct conn *conn)
{
	bool late = late_principals_have(worker->env->late_principals, conn->client.principal,
					 clock_ns());

	stat_add(&worker->stats.pulls_late, late && !conn->pull_hold.late);
	/* If it is no longer late, a waiting pull keeps its place. */
	if (late || !conn->pull_hold.wanted)
		budget_set_late(budget_of(conn), &conn->pull_hold, late);
}

/* Asks for memory. False: the pull waits for it, or for the answer to a probe. */
static bool pull_admit(struct conn *conn, const struct request *request)
{
	struct worker *worker = conn->poller->worker;
	bool waited = conn->pull_hold.wanted, admitted;

	if (!pull_is_served(worker, conn))
		return false;
	pull_set_late(worker, conn);
	admitted = budget_take(budget_of(conn), &conn->pull_hold, pull_bytes(request));
	stat_add(&worker->stats.pulls_waited, !admitted && !waited);
	return admitted;
}

/*
 * There is memory for the value: READs it from now on. @now: by PULL-5, only for the first pull of
 * a connection. The caller decides: a second look at the client's memory could say something else.
 */
static void pull_begin(struct deferred *deferred, struct item *item,
		       const struct table_change *change, bool now)
{
	const struct request *request = &deferred->request;
	struct conn *conn = deferred->conn;
	struct worker *worker = conn->poller->worker;
	struct pull *pull = &deferred->pull;

	stat_add(&worker->stats.pulls, 1);
	stat_add(&worker->stats.pull_bytes, request->value_len);
	permit_charge(&conn->client, request->value_len, worker->part.thread.now_ns);
	*pull = (struct pull){
		.addr = request->pull_addr,
		.to = table_reserved_value(item),
		.left = request->value_len,
	};
	large_commit(&pull->steps, conn_thread(conn), deferred->hash, item, change);
	deferred->kind = &pulling_kind;
	if (now)
		pull_now_begin(deferred);
	else
		pull_reads_begin(deferred);
}

static void response_set_put(struct deferred *deferred, struct response_list *responses,
			     const struct table_change *change, enum wire_status status)
{
	struct worker *worker = responses->poller->worker;
	const struct request *request = &deferred->request;
	struct response_wr *response = response_start(responses, deferred->conn, WIRE_PUT,
						      request->id);

	response_set_change(change, status, &response->head);
	if (status == WIRE_MOVED || status == WIRE_AWAY)
		member_refuse(deferred->conn, request, status, &response->head);
	conn_record(deferred->conn, request->change, &response->head);
	trace_note(&worker->trace, &deferred->conn->client, request, &response->head,
		   deferred->arrived_ns);
}

/* The item is in the table, or nothing was changed. */
static void pull_finish(struct deferred *deferred, struct response_list *responses)
{
	struct worker *worker = responses->poller->worker;
	struct conn *conn = deferred->conn;
	const struct large *steps = &deferred->pull.steps;

	response_unreserve(conn);
	response_set_put(deferred, responses, &steps->change, steps->status);
	budget_give_build(&conn->client, &deferred->pull.build);
	budget_give(budget_of(conn), &conn->pull_hold, pull_bytes(&deferred->request));
	conn->pull_arrived |= deferred->pull.arrived == deferred->request.value_len;
	conn->pulls--;
	conn->pull_tried = false;
	stat_sub(&worker->pulls_count, 1);
	pull_clock_next(conn);
}

/* Whether no READ of the value is posted, and its memory can be freed. */
static bool pull_is_idle(const struct deferred *deferred)
{
	return deferred->pull.now || deferred->pull.arrived == deferred->request.value_len;
}

/* OWNER-1: ends the pull, with its value or a part of it, before it changes anything. */
static void pull_refuse(struct deferred *deferred, struct response_list *responses,
			enum wire_status status)
{
	struct pull *pull = &deferred->pull;

	large_cancel(&pull->steps);
	pull->steps.status = status;
	if (!pull->now)
		pull_reads_summed(deferred, deferred->request.value_len);
	pull_finish(deferred, responses);
}

/* The bytes of the value that have been summed. */
static uint64_t pull_summed(const struct deferred *deferred, enum large_next next)
{
	const struct large *steps = &deferred->pull.steps;

	return next != LARGE_DONE && steps->kind == LARGE_COMMIT ? steps->value_done :
								   deferred->request.value_len;
}

/*
 * Sums what has arrived, and READs on; after the last byte the item enters the table, or is joined
 * to the key's value if it is an append or prepend.
 */
static enum piece_next pulling_step(struct deferred *deferred, struct response_list *responses,
				    uint64_t until_ns)
{
	struct pull *pull = &deferred->pull;
	struct conn *conn = deferred->conn;
	enum wire_status status;
	enum large_next next;

	/* A value that still arrives is refused when it has. */
	status = conn->client.fleet && pull_is_idle(deferred) ?
			 member_admit(conn, &deferred->request, deferred->hash) :
			 WIRE_OK;
	if (status) {
		pull_refuse(deferred, responses, status);
		pull_more(conn);
		return PIECE_DONE;
	}
	do {
		if (!budget_take_build(&conn->client, &pull->build, &pull->steps))
			return PIECE_WAIT;
		if (pull->now && pull->left && !pull_now_step(deferred, PIECE_STEP_BYTES))
			return pull_now_wait(deferred);
		next = large_step(&pull->steps, PIECE_STEP_BYTES);
		pull_reads_summed(deferred, pull_summed(deferred, next));
		if (next == LARGE_WAIT && pull->now)
			next = LARGE_AGAIN;
	} while (next == LARGE_AGAIN && clock_ns() < until_ns);
	if (next == LARGE_DONE)
		pull_finish(deferred, responses);
	pull_more(conn);
	if (next == LARGE_DONE)
		return PIECE_DONE;
	if (next == LARGE_RETRY)
		return PIECE_IDLE;
	return next == LARGE_WAIT ? PIECE_WAIT : PIECE_AGAIN;
}

/*
 * As long as READs are posted the device may write to the item, until the queue pair is destroyed.
 * A value that has arrived is released at once: it may block a room, or hold memory to build in,
 * and others need not wait for it.
 */
static bool pulling_cancel(struct deferred *deferred)
{
	struct conn *conn = deferred->conn;
	struct worker *worker = conn->poller->worker;
	struct pull *pull = &deferred->pull;
	bool idle = pull_is_idle(deferred);

	if (!idle && !conn->qp_destroyed)
		return false;
	large_cancel(&pull->steps);
	budget_give_build(&conn->client, &pull->build);
	/* The principal of a client that did not fill its memory is remembered: BUDGET-4. */
	if (idle && !pull->awaits)
		budget_give(budget_of(conn), &conn->pull_hold, pull_bytes(&deferred->request));
	conn->pulls--;
	conn->pull_next = NULL;
	stat_sub(&worker->pulls_count, 1);
	return true;
}

static const struct deferred_kind pulling_kind = {
	.step = pulling_step,
	.cancel = pulling_cancel,
	.needs_no_room = true, /* a place is reserved by the time it needs one */
};

enum pull_start { PULL_BEGUN, PULL_WAITS, PULL_ROOM, PULL_REFUSED };

/* For the first request of its connection: asks for memory, and for room. */
static enum pull_start pull_start(struct deferred *deferred, struct response_list *responses)
{
	const struct request *request = &deferred->request;
	struct conn *conn = deferred->conn;
	struct room *room = &deferred->pull.room;
	enum wire_status status = WIRE_OK;
	struct table_change change;
	struct item *item = NULL;

	put_change_init(request, &change);
	if (request->value_len > conn->client.part->thread.table->region->geometry.value_max)
		status = WIRE_TOO_LARGE;
	/* A pull that has room was admitted before. */
	if (!status && !room->bytes && !pull_admit(conn, request))
		return PULL_WAITS;
	if (!status && !room->bytes)
		status = table_may_pin(conn_thread(conn), &change);
	if (!status) {
		item = table_reserve_begin(conn_thread(conn), &change, room);
		if (!item && room_pending(room))
			return PULL_ROOM;
		status = item ? WIRE_OK : WIRE_NO_SPACE;
	}
	if (item) {
		pull_begin(deferred, item, &change, pull_is_now(conn, request));
		return PULL_BEGUN;
	}
	budget_give(budget_of(conn), &conn->pull_hold, conn->pull_hold.bytes);
	response_set_put(deferred, responses, &change, status);
	return PULL_REFUSED;
}

/* OWNER-1: ends a pull that waits for memory, or for room. */
static void pull_refuse_early(struct deferred *deferred, struct response_list *responses,
			      enum wire_status status)
{
	struct conn *conn = deferred->conn;
	struct table_change change;

	room_cancel(&deferred->pull.room);
	if (deferred->reserved)
		response_unreserve(conn);
	deferred->reserved = false;
	budget_leave(budget_of(conn), &conn->pull_hold);
	budget_give(budget_of(conn), &conn->pull_hold, conn->pull_hold.bytes);
	conn->pull_tried = false;
	put_change_init(&deferred->request, &change);
	response_set_put(deferred, responses, &change, status);
}

/* A pull without memory yet, or while room is made for it. */
static enum piece_next pull_step(struct deferred *deferred, struct response_list *responses,
				 uint64_t until_ns)
{
	struct room *room = &deferred->pull.room;
	struct conn *conn = deferred->conn;
	enum piece_next next;
	enum wire_status status;

	if (!deferred->pull.asked)
		room_init(room);
	deferred->pull.asked = true;
	if (conn->client.fleet) {
		status = member_admit(conn, &deferred->request, deferred->hash);
		if (status) {
			pull_refuse_early(deferred, responses, status);
			return PIECE_DONE;
		}
	}
	if (deferred->reserved) {
		next = piece_room(room, until_ns);
		if (next != PIECE_DONE)
			return next;
		response_unreserve(conn);
		deferred->reserved = false;
	}
	conn->pull_tried = false;
	switch (pull_start(deferred, responses)) {
	case PULL_WAITS:
		return PIECE_WAIT;
	case PULL_ROOM:
		/* Others may wait for its part of the budget, so it must not wait for a client. */
		response_reserve(conn);
		deferred->reserved = true;
		return PIECE_AGAIN;
	case PULL_REFUSED:
		return PIECE_DONE;
	case PULL_BEGUN:
		break;
	}
	if (deferred->pull.now)
		return pulling_step(deferred, responses, until_ns);
	pull_more(conn);
	return PIECE_WAIT;
}

/* Without room for a response it waits for its own client, perhaps forever: others go first. */
static void pull_leave(struct deferred *deferred)
{
	budget_leave(budget_of(deferred->conn), &deferred->conn->pull_hold);
}

static bool pull_cancel(struct deferred *deferred)
{
	if (deferred->pull.asked)
		room_cancel(&deferred->pull.room);
	pull_leave(deferred);
	return true;
}

const struct deferred_kind pull_kind = {
	.step = pull_step,
	.no_room = pull_leave,
	.cancel = pull_cancel,
};

/* PULL-3 */
static bool pull_begin_early(struct deferred *deferred)
{
	const struct request *request = &deferred->request;
	struct conn *conn = deferred->conn;
	struct worker *worker = conn->poller->worker;
	struct table_change change;
	struct item *item;

	if (!conn->pull_arrived || pull_is_now(conn, request) ||
	    TAILQ_FIRST(&conn->deferred)->pull.now ||
	    (conn->client.fleet && !member_serves(conn, request, deferred->hash)))
		return false;
	put_change_init(request, &change);
	if (request->value_len > conn->client.part->thread.table->region->geometry.value_max ||
	    late_principals_have(worker->env->late_principals, conn->client.principal,
				 clock_ns()) ||
	    table_may_pin(conn_thread(conn), &change) ||
	    !budget_take_more(budget_of(conn), &conn->pull_hold, pull_bytes(request)))
		return false;
	item = table_reserve_begin(conn_thread(conn), &change, NULL);
	if (item)
		pull_begin(deferred, item, &change, false);
	else
		budget_give(budget_of(conn), &conn->pull_hold, pull_bytes(request));
	return item;
}

/* The first request of the connection that does not pull; NULL: there is none. */
static struct deferred *pulls_end(struct conn *conn)
{
	struct deferred *deferred = TAILQ_FIRST(&conn->deferred);

	while (deferred && deferred->pulls)
		deferred = TAILQ_NEXT(deferred, entry);
	return deferred;
}

void pull_more(struct conn *conn)
{
	struct deferred *deferred;

	if (conn->stopped)
		return;
	while (!conn->pull_tried) {
		deferred = pulls_end(conn);
		if (!deferred || deferred->kind != &pull_kind || deferred->pull.asked)
			break;
		conn->pull_tried = !pull_begin_early(deferred);
	}
	pull_reads_fill(conn);
}

void pull_release(struct conn *conn)
{
	struct worker *worker = conn->poller->worker;

	pull_clock_stop(conn);
	/* Late even if room was still being made for the value. */
	if (conn->pull_hold.bytes)
		late_principals_add(worker->env->late_principals, conn->client.principal,
				    clock_ns() + stat_read(&worker->limits.pull_ns));
	budget_leave(budget_of(conn), &conn->pull_hold);
	budget_give(budget_of(conn), &conn->pull_hold, conn->pull_hold.bytes);
}
