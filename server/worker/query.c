/* SPDX-License-Identifier: MIT */
/* The worker's half of CLIENTS, KILL, REVOKE, TENANT, SHUTDOWN, WHOAMI, REPORT, CONFIG, STATS. */
#include "server/worker/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/stat.h"
#include "server/worker/conn.h"
#include "server/worker/execute.h"
#include "server/worker/snapshot.h"
#include "server/worker/worker.h"

void query_send(struct conn *conn, enum wire_op op, uint64_t arg)
{
	struct query *query = &conn->query;

	query->op = op;
	query->arg = arg;
	query->answered = false;
	mailbox_send(conn->poller->worker->env->control, &conn->notes[NOTE_QUERY]);
}

/* False: no memory for the text, which is allocated once, as long as a response may be. */
static bool query_ask(struct conn *conn, const struct request *request)
{
	struct query *query = &conn->query;

	query->size = conn->response_bytes - (uint32_t)sizeof(struct wire_response);
	if (!query->text)
		query->text = malloc(query->size);
	if (!query->text)
		return false;
	/* The receive may be posted again before the control thread has read it. */
	if (request->op == WIRE_REVOKE || request->op == WIRE_CONFIG) {
		query->len = request->key_len;
		if (query->len)
			memcpy(query->text, request->key, query->len);
	}
	query->mode = request->mode;
	query->every = request->every;
	if (request->op == WIRE_TENANT)
		snprintf(query->tenant, sizeof(query->tenant), "%.*s", (int)request->key_len,
			 (const char *)request->key);
	query_send(conn, request->op, request->arg64);
	return true;
}

/* Whether the response also says why the request failed. */
static bool says_why(enum wire_op op)
{
	return op == WIRE_TENANT || op == WIRE_SHUTDOWN || op == WIRE_CONFIG || op == WIRE_REPORT;
}

/* Whether the response has a part of a list, which the cursor goes on with. */
static bool has_pages(enum wire_op op)
{
	return op == WIRE_CLIENTS || op == WIRE_TENANT || op == WIRE_REPORT || op == WIRE_CONFIG;
}

static void query_respond(struct deferred *deferred, struct response_list *responses,
			  enum wire_status status)
{
	const struct query *query = &deferred->conn->query;
	struct response_wr *response = response_start(responses, deferred->conn,
						      deferred->request.op, deferred->request.id);
	uint32_t size;
	char *text;

	response->head.status = (uint8_t)status;
	if (deferred->request.op == WIRE_REVOKE)
		response->head.result = query->closed;
	if (status && !says_why(deferred->request.op))
		return;
	/* A page may be empty without being the last one. */
	if (has_pages(deferred->request.op))
		response->head.cursor = query->cursor;
	if (!query->len)
		return;
	text = response_buffer(responses, response, &size);
	if (!text)
		return;
	memcpy(text, query->text, query->len);
	response->value_len = query->len;
}

static enum piece_next query_step(struct deferred *deferred, struct response_list *responses,
				  uint64_t until_ns)
{
	struct conn *conn = deferred->conn;

	(void)until_ns;
	if (!deferred->query.asked) {
		deferred->query.asked = query_ask(conn, &deferred->request);
		if (deferred->query.asked)
			return PIECE_WAIT;
		query_respond(deferred, responses, WIRE_BUSY);
	} else if (conn->query.answered) {
		query_respond(deferred, responses, conn->query.status);
	} else {
		return PIECE_WAIT;
	}
	return PIECE_DONE;
}

const struct deferred_kind query_kind = { .step = query_step };

/* A page of the connection's snapshot, which it keeps until the last one. */
static void stats_respond(struct deferred *deferred, struct response_list *responses)
{
	struct query *query = &deferred->conn->query;
	struct response_wr *response = response_start(responses, deferred->conn, WIRE_STATS,
						      deferred->request.id);
	uint32_t size;
	char *text;

	if (!query->stats) {
		response->head.status = WIRE_BUSY;
		return;
	}
	text = response_buffer(responses, response, &size);
	if (!text)
		return;
	response->value_len = snapshot_page(query->stats, deferred->request.first_line, text, size,
					    &query->stats_place, &response->head.next_line);
	if (response->head.next_line)
		return;
	snapshot_drop(query->stats);
	query->stats = NULL;
}

static void poller_add(struct held_stats *held, const struct poller *poller)
{
	const struct window_pool *windows = &poller->windows;

	held->receives += poller->limits.srq_depth - poller->posted;
	held->response_buffers += poller->free_max - poller->free_count;
	held->spare_buffers += poller->spare_buffers_max - poller->spare_buffers;
	held->spare_sends += poller->spare_sends_max - poller->spare_sends;
	held->windows += windows->left_max - windows->left;
}

void held_show(struct worker *worker)
{
	struct held_stats held = {
		.pulls = worker->pulls_count,
	};

	for (unsigned int i = 0; i < worker->poller_count; i++)
		if (worker->attached[i])
			poller_add(&held, &worker->pollers[i]);
#define X(name, help) stat_set(&worker->held.name, held.name);
	HELD_STATS(X)
#undef X
}

/* The first page asks for a new snapshot, and so does another page whose snapshot is gone. */
static bool stats_ask(struct deferred *deferred)
{
	struct query *query = &deferred->conn->query;

	if (deferred->query.asked || (deferred->request.first_line && query->stats))
		return false;
	snapshot_drop(query->stats);
	query->stats = NULL;
	query->stats_place = (struct snapshot_place){ 0 };
	deferred->query.asked = true;
	held_show(deferred->conn->poller->worker);
	query_send(deferred->conn, WIRE_STATS, 0);
	return true;
}

static enum piece_next stats_step(struct deferred *deferred, struct response_list *responses,
				  uint64_t until_ns)
{
	struct conn *conn = deferred->conn;

	(void)until_ns;
	if (stats_ask(deferred))
		return PIECE_WAIT;
	if (deferred->query.asked && !conn->query.answered)
		return PIECE_WAIT;
	stats_respond(deferred, responses);
	return PIECE_DONE;
}

const struct deferred_kind stats_kind = { .step = stats_step };

void query_answered(struct conn *conn)
{
	conn->query.answered = true;
	deferred_wake(conn);
}
