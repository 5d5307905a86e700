/* SPDX-License-Identifier: MIT */
/* Admits requests and hands them to the module that executes them. */
#include "server/worker/request.h"

#include "common/util/stat.h"
#include "server/store/store.h"
#include "server/worker/answers.h"
#include "server/worker/conn.h"
#include "server/worker/deferred.h"
#include "server/worker/execute.h"
#include "server/worker/extents.h"
#include "server/worker/hello.h"
#include "server/worker/map.h"
#include "server/worker/member.h"
#include "server/worker/move.h"
#include "server/worker/operation.h"
#include "server/worker/permit.h"
#include "server/worker/pull.h"
#include "server/worker/query.h"
#include "server/worker/worker.h"

/* A piece of a scan: the response has what was found until @until_ns, and the client goes on. */
static enum piece_next scan_step(struct deferred *deferred, struct response_list *responses,
				 uint64_t until_ns)
{
	struct store_thread *thread = conn_thread(deferred->conn);
	const struct request *request = &deferred->request;
	struct response_value value = { 0 };
	const uint64_t *served = NULL;
	struct response_wr *response;

	if (request->flags & WIRE_F_USES && thread->table->eviction == EVICTION_NONE) {
		conn_fail(deferred->conn, "a scan of uses, where nothing is evicted");
		return PIECE_DONE;
	}
	response = response_start(responses, deferred->conn, WIRE_SCAN, request->id);
	if (deferred->conn->client.fleet && !member_admit_scan(&deferred->conn->client, &served)) {
		operation_refuse(deferred->conn, request, WIRE_AWAY, &response->head);
		return PIECE_DONE;
	}
	value.value = response_buffer(responses, response, &value.size);
	if (!value.value)
		return PIECE_DONE;
	if (deferred->conn->client.fleet && member_freezes(&deferred->conn->client))
		response->head.status = WIRE_BUSY;
	else
		execute_scan(thread, request, served, until_ns, &response->head, &value);
	if (response->head.status == WIRE_BUSY) {
		if (!deferred->scan.busy_since_ns)
			deferred->scan.busy_since_ns = until_ns;
		if (until_ns - deferred->scan.busy_since_ns < LOOKUP_NS_MAX) {
			response_cancel(responses);
			return PIECE_AGAIN;
		}
	}
	response->value_len = value.len;
	trace_note(&responses->poller->worker->trace, &deferred->conn->client, request,
		   &response->head, deferred->arrived_ns);
	return PIECE_DONE;
}

static const struct deferred_kind scan_kind = { .step = scan_step };

static const struct deferred_kind *request_kind(const struct request *request)
{
	switch (request->op) {
	case WIRE_HELLO:
		return &hello_kind;
	case WIRE_SCAN:
		return &scan_kind;
	case WIRE_MAP:
		return &map_kind;
	case WIRE_MOVE:
		return &move_kind;
	case WIRE_FLEET:
		return &fleet_kind;
	case WIRE_STATS:
		return &stats_kind;
	case WIRE_CLIENTS:
	case WIRE_KILL:
	case WIRE_TENANT:
	case WIRE_REVOKE:
	case WIRE_SHUTDOWN:
	case WIRE_WHOAMI:
	case WIRE_REPORT:
	case WIRE_CONFIG:
		return &query_kind;
	case WIRE_EXTENTS:
		return &extents_kind;
	case WIRE_PUT:
		return request->flags & WIRE_F_PULL ? &pull_kind : &operation_kind;
	default:
		return &operation_kind;
	}
}

/*
 * What a request takes when it is admitted. That of ACCESS pays for its response: it is OK, too, if
 * the request is refused, which takes nothing.
 */
static uint64_t message_bytes(const struct request *request)
{
	return sizeof(struct wire_request) + request->key_len +
	       (request->flags & WIRE_F_PULL ? 0 : request->value_len) +
	       request_report_bytes(request) +
	       (request->op == WIRE_ACCESS ? sizeof(struct wire_response) : 0);
}

/* Whether @change is the next number, or one that was sent before, which @repeated counts. */
static inline bool number_admit(struct conn *conn, uint32_t change, uint32_t *repeated)
{
	enum change_kind kind = conn_admit(conn, change);

	*repeated += kind == CHANGE_OLD;
	return kind != CHANGE_WRONG;
}

/* number_admit() for each number of the message, which has some (OPERATION-6). */
static bool numbers_admit(struct conn *conn, const struct request *request, uint32_t *repeated)
{
	if (request->op != WIRE_BATCH)
		return number_admit(conn, request->change, repeated);
	for (uint32_t i = 0; i < request->numbered; i++)
		if (!number_admit(conn, wire_change_of(request->change, i), repeated))
			return false;
	return true;
}

/*
 * Decides about a request that has arrived after HELLO. NULL: its connection has failed. Limits do
 * not apply to a change that was sent before: LIMIT would not say whether it was executed. GETs
 * that the client reports with a request happened before it, and are recorded first, unless its
 * user may not make the request. The operations of a BATCH are admitted one by one, when they are
 * executed.
 */
static const struct deferred_kind *request_admit(struct conn *conn, const struct request *request,
						 uint64_t hash, struct verdict *verdict)
{
	const struct user *user = client_user(&conn->client);
	bool batch = request->op == WIRE_BATCH;

	*verdict = (struct verdict){ 0 };
	if (request->change && !numbers_admit(conn, request, &verdict->repeated)) {
		conn_fail(conn, "a number of a change that is not the next one");
		return NULL;
	}
	if (user && !batch && !verdict->repeated)
		verdict->status = (uint8_t)permit_admit(
			&conn->client, user, request,
			permit_is_paid(conn, request, hash) ? 0 : message_bytes(request));
	if (request_is_move(request) && !verdict->status)
		verdict->status = (uint8_t)move_admit(conn);
	/* In a BATCH of a user the first admitted operation records the reports. */
	if (request_reports(request) && !verdict->status && !(batch && user))
		operation_report(conn, request);
	if (conn->client.fleet && !verdict->repeated) {
		member_resume(conn, request);
		if (!verdict->status)
			verdict->status = (uint8_t)member_admit(conn, request, hash);
	}
	/* Refused or sent before: the answer is known, whatever the request is. */
	if (verdict->status || (verdict->repeated && !batch))
		return &operation_kind;
	return request_kind(request);
}

/* A request that arrived while HELLO was being answered. */
static enum piece_next early_step(struct deferred *deferred, struct response_list *responses,
				  uint64_t until_ns)
{
	struct verdict verdict;

	(void)responses;
	(void)until_ns;
	if (!hello_done(deferred->conn)) {
		conn_fail(deferred->conn, "a request before HELLO");
		return PIECE_DONE;
	}
	deferred->kind = request_admit(deferred->conn, &deferred->request, deferred->hash,
				       &verdict);
	if (deferred->kind == &operation_kind)
		deferred->operations.verdict = verdict;
	return deferred->kind ? PIECE_AGAIN : PIECE_DONE;
}

static const struct deferred_kind early_kind = { .step = early_step };

bool request_execute(struct response_list *responses, struct conn *conn,
		     const struct request *request, uint64_t hash, uint32_t buffer)
{
	const struct deferred_kind *kind;
	struct verdict verdict;

	if (!hello_done(conn) && request->op != WIRE_HELLO) {
		/* A client can't know yet whether it has an identity. */
		if (deferred_pending(conn) && !request->change) {
			deferred_start(conn, &early_kind, request, hash, buffer);
			return false;
		}
		conn_fail(conn, "a request before HELLO");
		return true;
	}
	kind = request_admit(conn, request, hash, &verdict);
	if (!kind)
		return true;
	if (kind == &operation_kind)
		return operation_receive(responses, conn, request, hash, buffer, verdict);
	deferred_start(conn, kind, request, hash, buffer);
	if (kind == &pull_kind)
		pull_more(conn);
	return false;
}
