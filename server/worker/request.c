/* SPDX-License-Identifier: MIT */
/* Dispatches requests; those of the table are executed by server/worker/execute.h. */
#include "server/worker/request.h"

#include <string.h>

#include "common/util/stat.h"
#include "server/store/store.h"
#include "server/worker/answers.h"
#include "server/worker/batch.h"
#include "server/worker/conn_thread.h"
#include "server/worker/deferred.h"
#include "server/worker/execute.h"
#include "server/worker/hello.h"
#include "server/worker/operation.h"
#include "server/worker/permit.h"
#include "server/worker/pull.h"
#include "server/worker/query.h"
#include "server/worker/worker.h"

/* Whether it asks for what follows of a value, right after a part that the connection got. */
static bool is_next_part(const struct conn *conn, const struct request *request, uint64_t hash)
{
	return request->op == WIRE_GET && request->offset && request->offset == conn->part_offset &&
	       hash == conn->part_hash;
}

static void note_next_part(struct conn *conn, const struct request *request, uint64_t hash,
			   const struct response_wr *response)
{
	uint64_t end = request->offset + response->value_len;

	conn->part_hash = hash;
	conn->part_offset = response->value_len && end < response->head.result ? end : 0;
}

/* False: nothing was done yet; if room_pending(@room), room comes first, else the item is large. */
static bool request_operation(struct response_list *responses, struct conn *conn,
			      const struct request *request, uint64_t hash, struct room *room)
{
	struct response_wr *response = response_start(responses, conn, request->op, request->id);
	struct response_value value = { .sum = !conn->query.by_request };
	bool done;

	if (response_has_value(request)) {
		value.value = response_buffer(responses, response, &value.size);
		if (!value.value)
			return true;
	}
	done = execute(conn_thread(conn), request, hash, &response->head, &value, room);
	response->value_len = value.len;
	if (response_has_value(request))
		note_next_part(conn, request, hash, response);
	if (!done) {
		response_cancel(responses);
		return false;
	}
	operation_done(conn, request, &response->head);
	return true;
}

static_assert(sizeof(struct principal) <= FLUSH_OWNER_BYTES, "an owner is a principal");

static void flush_cancel(struct conn *conn, const struct request *request,
			 struct wire_response *head)
{
	bool any = request->mode == WIRE_FLUSH_CANCEL_ANY;

	head->result = maintenance_cancel(&conn->part->store->maintenance, request->ticket,
					  any ? NULL : conn->principal.name);
	head->status = head->result ? WIRE_OK : WIRE_NOT_FOUND;
}

static void request_flush(struct response_list *responses, struct conn *conn,
			  const struct request *request)
{
	struct response_wr *response = response_start(responses, conn, WIRE_FLUSH, request->id);
	struct maintenance *maintenance = &conn->part->store->maintenance;

	response->head.ticket = request->ticket;
	if (request->mode != WIRE_FLUSH_START) {
		flush_cancel(conn, request, &response->head);
		return;
	}
	if (request->ticket) {
		response->head.status = maintenance_flushed(maintenance, request->ticket) ?
						WIRE_OK :
						WIRE_BUSY;
		return;
	}
	response->head.ticket = maintenance_flush(maintenance, conn_thread(conn)->now_ns,
						  request->ttl, conn->principal.name);
	response->head.status = response->head.ticket ? WIRE_OK : WIRE_BUSY;
	conn_record(conn, request->change, &response->head);
}

/* A piece of a scan: the response has what was found until @until_ns, and the client goes on. */
static enum deferred_next scan_step(struct deferred *deferred, struct response_list *responses,
				    uint64_t until_ns)
{
	struct store_thread *thread = conn_thread(deferred->conn);
	const struct request *request = &deferred->request;
	struct response_value value = { 0 };
	struct response_wr *response;

	if (request->flags & WIRE_F_USES && thread->table->eviction == EVICTION_NONE) {
		conn_fail(deferred->conn, "a scan of uses, where nothing is evicted");
		return DEFERRED_DONE;
	}
	response = response_start(responses, deferred->conn, WIRE_SCAN, request->id);
	value.value = response_buffer(responses, response, &value.size);
	if (!value.value)
		return DEFERRED_DONE;
	execute_scan(thread, request, until_ns, &response->head, &value);
	if (response->head.status == WIRE_BUSY) {
		if (!deferred->scan.busy_since_ns)
			deferred->scan.busy_since_ns = until_ns;
		if (until_ns - deferred->scan.busy_since_ns < LOOKUP_NS_MAX) {
			response_cancel(responses);
			return DEFERRED_AGAIN;
		}
	}
	response->value_len = value.len;
	stat_add(&responses->poller->worker->stats.scans, 1);
	return DEFERRED_DONE;
}

static const struct deferred_kind scan_kind = { .step = scan_step };

/* It holds memory for which others wait, so it keeps a place for its response from the begin on. */
static void large_begin(struct deferred *deferred)
{
	operation_large_begin(&deferred->large, deferred->conn, &deferred->request, deferred->hash);
	deferred->reserved = true;
	response_reserve(deferred->conn);
}

static enum deferred_next large_step_until(struct deferred *deferred,
					   struct response_list *responses, uint64_t until_ns)
{
	const struct request *request = &deferred->request;
	struct conn *conn = deferred->conn;
	struct response_wr *response;
	enum deferred_next next;

	if (!deferred->large.begun)
		large_begin(deferred);
	response_unreserve(conn);
	response = response_start(responses, conn, request->op, request->id);
	next = operation_large_run(&deferred->large, conn, &response->head, until_ns);
	if (next != DEFERRED_DONE) {
		response_cancel(responses);
		response_reserve(conn);
		return next;
	}
	operation_done(conn, request, &response->head);
	return DEFERRED_DONE;
}

static bool large_request_cancel(struct deferred *deferred)
{
	operation_large_cancel(&deferred->large, deferred->conn);
	return true;
}

static const struct deferred_kind large_kind = {
	.step = large_step_until,
	.cancel = large_request_cancel,
};

/*
 * From when room is to be made for it the request keeps a place for its response. Others may wait
 * for what the room has closed, or for its part of the budget: so it waits for no client meanwhile.
 */
static void room_reserve(struct deferred *deferred)
{
	response_reserve(deferred->conn);
	deferred->reserved = true;
}

/* Steps of a room, until the time is up. DEFERRED_DONE: it has ended, and given the place back. */
static enum deferred_next room_run_until(struct deferred *deferred, uint64_t until_ns)
{
	enum deferred_next next = operation_room_run(&deferred->room, until_ns);

	if (next != DEFERRED_DONE)
		return next;
	response_unreserve(deferred->conn);
	deferred->reserved = false;
	return DEFERRED_DONE;
}

/* A point operation that there was no memory for. */
static enum deferred_next room_step_until(struct deferred *deferred,
					  struct response_list *responses, uint64_t until_ns)
{
	const struct request *request = &deferred->request;
	enum deferred_next next = room_run_until(deferred, until_ns);

	if (next != DEFERRED_DONE)
		return next;
	if (request_operation(responses, deferred->conn, request, deferred->hash, &deferred->room))
		return DEFERRED_DONE;
	if (room_pending(&deferred->room)) {
		room_reserve(deferred);
		return DEFERRED_AGAIN;
	}
	/* By now it is an append to a large item. */
	memset(&deferred->large, 0, sizeof(deferred->large));
	deferred->kind = &large_kind;
	return DEFERRED_AGAIN;
}

static bool room_request_cancel(struct deferred *deferred)
{
	room_cancel(&deferred->room);
	return true;
}

static const struct deferred_kind room_kind = {
	.step = room_step_until,
	.cancel = room_request_cancel,
};

/* Goes on later with a request that request_run() did not do. */
static void request_postpone(struct deferred *deferred, const struct room *room)
{
	deferred->kind = room_pending(room) ? &room_kind : &large_kind;
	if (!room_pending(room))
		return;
	deferred->room = *room;
	room_reserve(deferred);
}

/* False: nothing was done yet, and request_postpone() follows. @room: as request_operation(). */
static bool request_run(struct response_list *responses, struct conn *conn,
			const struct request *request, uint64_t hash, struct room *room)
{
	room_init(room);
	switch (request->op) {
	case WIRE_FLUSH:
		request_flush(responses, conn, request);
		break;
	case WIRE_PUT:
	case WIRE_PING:
	case WIRE_ACCESS:
	case WIRE_GET:
	case WIRE_DELETE:
	case WIRE_ARITH:
	case WIRE_TOUCH:
		return request_operation(responses, conn, request, hash, room);
	case WIRE_SCAN:	   /* scan_step() */
	case WIRE_HELLO:   /* server/worker/hello.h */
	case WIRE_STATS:   /* server/worker/query.h */
	case WIRE_CLIENTS: /* likewise */
	case WIRE_KILL:
	case WIRE_TENANT:
	case WIRE_REVOKE:
	case WIRE_BATCH: /* server/worker/batch.h */
		break;
	}
	return true;
}

/*
 * A request that fits a turn, but came behind one that does not, or when there was no room for its
 * response.
 */
static enum deferred_next request_step(struct deferred *deferred, struct response_list *responses,
				       uint64_t until_ns)
{
	struct room room;

	(void)until_ns;
	if (request_run(responses, deferred->conn, &deferred->request, deferred->hash, &room))
		return DEFERRED_DONE;
	request_postpone(deferred, &room);
	return DEFERRED_AGAIN;
}

static const struct deferred_kind request_kind = { .step = request_step };

static const struct deferred_kind *deferred_kind(const struct request *request)
{
	switch (request->op) {
	case WIRE_HELLO:
		return &hello_kind;
	case WIRE_SCAN:
		return &scan_kind;
	case WIRE_STATS:
		return &stats_kind;
	case WIRE_CLIENTS:
	case WIRE_KILL:
	case WIRE_TENANT:
	case WIRE_REVOKE:
		return &query_kind;
	case WIRE_BATCH:
		return &batch_kind;
	case WIRE_PUT:
		return request->flags & WIRE_F_PULL ? &pull_kind : &request_kind;
	default:
		return &request_kind;
	}
}

/* What is never refused: the first request, and those by which administrators find out and act. */
static bool request_is_exempt(const struct conn *conn, enum wire_op op)
{
	switch (op) {
	case WIRE_HELLO:
		return true;
	case WIRE_STATS:
	case WIRE_CLIENTS:
	case WIRE_KILL:
	case WIRE_REVOKE:
	case WIRE_TENANT:
		return conn->by_admin;
	default:
		return false;
	}
}

static uint64_t message_bytes(const struct request *request)
{
	return sizeof(struct wire_request) + request->key_len +
	       (request->flags & WIRE_F_PULL ? 0 : request->value_len) +
	       request_report_bytes(request);
}

/* Whether the request is beyond a limit of its connection. */
static bool request_is_limited(struct conn *conn, const struct request *request)
{
	struct worker *worker = conn->poller->worker;

	if (request_is_exempt(conn, request->op) ||
	    conn_limit_admit(&conn->limit, message_bytes(request), worker->part.thread.now_ns))
		return false;
	stat_add(&worker->stats.requests_limited, 1);
	return true;
}

/*
 * Access records are hints, so a message with nothing else is done by ignoring them; and clients
 * expect no status but OK of it.
 */
static void request_refuse(struct response_list *responses, struct conn *conn,
			   const struct request *request, enum wire_status status)
{
	struct response_wr *response = response_start(responses, conn, request->op, request->id);

	if (request->op != WIRE_ACCESS)
		response->head.status = (uint8_t)status;
	conn_record(conn, request->change, &response->head);
}

static const struct deferred_kind busy_kind, limit_kind, not_allowed_kind;

/* Of one of the three kinds of requests that are refused, what they are answered; else WIRE_OK. */
static enum wire_status refusal(const struct deferred_kind *kind)
{
	if (kind == &busy_kind)
		return WIRE_BUSY;
	if (kind == &limit_kind)
		return WIRE_LIMIT;
	return kind == &not_allowed_kind ? WIRE_NOT_ALLOWED : WIRE_OK;
}

/* A request that is refused, but came behind a deferred one, or when there was no room. */
static enum deferred_next refuse_step(struct deferred *deferred, struct response_list *responses,
				      uint64_t until_ns)
{
	(void)until_ns;
	request_refuse(responses, deferred->conn, &deferred->request, refusal(deferred->kind));
	return DEFERRED_DONE;
}

static const struct deferred_kind busy_kind = { .step = refuse_step };
static const struct deferred_kind limit_kind = { .step = refuse_step };
static const struct deferred_kind not_allowed_kind = { .step = refuse_step };

/* A change that was sent before. */
static void request_repeat(struct response_list *responses, struct conn *conn,
			   const struct request *request)
{
	struct response_wr *response = response_start(responses, conn, request->op, request->id);
	struct worker_stats *stats = &conn->poller->worker->stats;

	if (answers_repeat(conn->answers, request->change, &response->head))
		stat_add(&stats->answers_repeated, 1);
	else
		stat_add(&stats->answers_unknown, 1);
}

static enum deferred_next repeat_step(struct deferred *deferred, struct response_list *responses,
				      uint64_t until_ns)
{
	(void)until_ns;
	request_repeat(responses, deferred->conn, &deferred->request);
	return DEFERRED_DONE;
}

static const struct deferred_kind repeat_kind = { .step = repeat_step };

/* The kind by which it is refused, or NULL. */
static const struct deferred_kind *request_forbid(struct conn *conn, const struct user *user,
						  const struct request *request, uint64_t bytes)
{
	struct worker *worker = conn->poller->worker;

	switch (permit_request(user, conn->account, request, bytes, worker->part.thread.now_ns)) {
	case WIRE_LIMIT:
		stat_add(&worker->stats.requests_over_limit, 1);
		return &limit_kind;
	case WIRE_NOT_ALLOWED:
		stat_add(&worker->stats.requests_not_allowed, 1);
		return &not_allowed_kind;
	default:
		return NULL;
	}
}

/*
 * The kind of a request that has arrived, behind HELLO; NULL: its connection has failed. What was
 * sent before is no matter of limits: BUSY would not say whether it was executed. What the client
 * reports with it was before the request, and is noted first; not so if it is refused.
 */
static const struct deferred_kind *request_admit(struct conn *conn, const struct request *request,
						 uint64_t hash)
{
	const struct user *user = conn_user(conn);
	const struct deferred_kind *refused = NULL;
	enum change_kind change = CHANGE_NEXT;
	bool paid = is_next_part(conn, request, hash);

	if (request->op == WIRE_BATCH) {
		/* Each of its requests for itself. With limits the first admitted one reports. */
		if (!conn->limit.on && !user)
			execute_access(conn_thread(conn), request);
		return &batch_kind;
	}
	if (request->change)
		change = conn_admit(conn, request->change);
	if (change == CHANGE_WRONG) {
		conn_fail(conn, "a number of a change that is not the next one");
		return NULL;
	}
	if (change == CHANGE_OLD) {
		execute_access(conn_thread(conn), request);
		return &repeat_kind;
	}
	if (conn->limit.on && !paid && request_is_limited(conn, request))
		return &busy_kind;
	if (user)
		refused = request_forbid(conn, user, request, paid ? 0 : message_bytes(request));
	if (refused)
		return refused;
	execute_access(conn_thread(conn), request);
	return deferred_kind(request);
}

/* A request that came behind a HELLO which was not done yet. */
static enum deferred_next early_step(struct deferred *deferred, struct response_list *responses,
				     uint64_t until_ns)
{
	(void)responses;
	(void)until_ns;
	if (!hello_done(deferred->conn)) {
		conn_fail(deferred->conn, "a request before HELLO");
		return DEFERRED_DONE;
	}
	deferred->kind = request_admit(deferred->conn, &deferred->request, deferred->hash);
	return deferred->kind ? DEFERRED_AGAIN : DEFERRED_DONE;
}

static const struct deferred_kind early_kind = { .step = early_step };

bool request_execute(struct response_list *responses, struct conn *conn,
		     const struct request *request, uint64_t hash, uint32_t buffer)
{
	const struct deferred_kind *kind;
	struct room room;

	if (!hello_done(conn) && request->op != WIRE_HELLO) {
		/* A client can't know yet whether it has an identity. */
		if (deferred_pending(conn) && !request->change) {
			deferred_start(conn, &early_kind, request, hash, buffer);
			return false;
		}
		conn_fail(conn, "a request before HELLO");
		return true;
	}
	kind = request_admit(conn, request, hash);
	if (!kind)
		return true;
	if (kind == &batch_kind)
		return batch_receive(responses, conn, request, buffer);
	if (kind == &pull_kind) {
		pull_receive(conn, request, hash, buffer);
		return false;
	}
	if ((kind != &request_kind && kind != &repeat_kind && !refusal(kind)) ||
	    deferred_pending(conn) || !response_room(conn)) {
		deferred_start(conn, kind, request, hash, buffer);
		return false;
	}
	if (kind != &request_kind) {
		if (kind == &repeat_kind)
			request_repeat(responses, conn, request);
		else
			request_refuse(responses, conn, request, refusal(kind));
		return true;
	}
	if (request_run(responses, conn, request, hash, &room))
		return true;
	deferred_start(conn, kind, request, hash, buffer);
	request_postpone(&conn->poller->deferred[buffer], &room);
	return false;
}
