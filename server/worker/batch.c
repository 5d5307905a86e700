/* SPDX-License-Identifier: MIT */
/* Executes the requests of a BATCH one after the other and writes their results. */
#include "server/worker/batch.h"

#include <string.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/worker/conn_thread.h"
#include "server/worker/execute.h"
#include "server/worker/operation.h"
#include "server/worker/permit.h"
#include "server/worker/worker.h"

/* A request of the batch, decoded. */
struct batched {
	struct request request;
	uint64_t hash; /* of the key, if there is one */
	uint32_t end;  /* where the next one begins */
};

/* A batch in one turn. */
struct batch_turn {
	struct worker *worker;
	struct conn *conn;
	const struct request *message;
	struct deferred_batch *state;
	struct response_wr *response;
	uint8_t *results;
	uint32_t size; /* of results */
};

/* A6 */
static bool has_number(const struct request *message, const struct request *request)
{
	return message->change && wire_batched_numbered(request->op);
}

/* Decodes the next @count requests and prefetches what they will touch (A2). */
static void batch_decode(const struct batch_turn *b, struct batched *list, uint32_t count)
{
	struct table *table = b->conn->part->thread.table;
	uint32_t numbered = b->state->numbered, i;
	size_t at = b->state->at;

	for (i = 0; i < count; i++) {
		/* It was parsed before: it has no error. */
		(void)wire_batched_parse(&list[i].request, b->message->value, b->message->value_len,
					 &at);
		list[i].end = (uint32_t)at;
		list[i].hash = 0;
		if (has_number(b->message, &list[i].request))
			list[i].request.change = wire_change_of(b->message->change, numbered++);
		if (!list[i].request.key)
			continue;
		list[i].hash = table_hash(table, list[i].request.key, list[i].request.key_len);
		table_prefetch_bucket(table, list[i].hash);
	}
	for (i = 0; i < count && count > 1; i++)
		if (list[i].request.key)
			table_prefetch_item(table, list[i].hash);
}

/* The next request has its result, with a value of @value_len bytes behind it if it is a GET. */
static void batch_result(struct batch_turn *b, const struct batched *next,
			 const struct wire_response *head, uint32_t value_len)
{
	struct wire_result result = {
		.op = (uint8_t)next->request.op,
		.status = head->status,
		.flags = head->flags,
	};

	if (!head->status) {
		result.expires = head->expires;
		result.version = head->version;
		result.slot = head->slot;
		result.result = head->result;
	}
	if (!head->status && next->request.op == WIRE_GET) {
		result.item_flags = head->item_flags;
		result.value_len = value_len;
	}
	memcpy(b->results + b->state->used, &result, sizeof(result));
	b->state->used += (uint32_t)sizeof(result) + value_len;
	b->state->at = next->end;
	b->state->left--;
	b->state->numbered += next->request.change != 0;
	b->state->admitted = false;
	b->state->state = BATCH_NEXT;
	if (!permit_is_free(head->status) && !head->flags)
		permit_charge(b->conn, sizeof(result) + value_len, b->worker->part.thread.now_ns);
}

/* One that was sent before, which is no matter of limits. */
static bool batch_repeats(struct batch_turn *b, const struct batched *next,
			  struct wire_response *head)
{
	struct worker_stats *stats = &b->worker->stats;

	if (!next->request.change || b->state->numbered >= b->state->repeated)
		return false;
	if (answers_repeat(b->conn->answers, next->request.change, head))
		stat_add(&stats->answers_repeated, 1);
	else
		stat_add(&stats->answers_unknown, 1);
	return true;
}

/* The message's own header is paid for by the first that is admitted. */
static uint64_t batched_bytes(const struct batch_turn *b, const struct batched *next)
{
	uint64_t bytes = wire_batched_bytes(&next->request);

	if (!b->state->paid)
		bytes += sizeof(struct wire_request) + sizeof(struct wire_response) +
			 request_report_bytes(b->message);
	return bytes;
}

/* A5, V2: WIRE_OK, or what the request is refused with. */
static enum wire_status batch_admit(struct batch_turn *b, const struct batched *next)
{
	const struct user *user = conn_user(b->conn);
	uint64_t now_ns = b->worker->part.thread.now_ns;
	struct worker_stats *stats = &b->worker->stats;
	struct deferred_batch *state = b->state;
	enum wire_status status = WIRE_OK;

	if ((!b->conn->limit.on && !user) || state->admitted)
		return WIRE_OK;
	if (b->conn->limit.on &&
	    !conn_limit_admit(&b->conn->limit, batched_bytes(b, next), now_ns)) {
		stat_add(&stats->requests_limited, 1);
		return WIRE_BUSY;
	}
	if (user)
		status = permit_request(user, b->conn->account, &next->request,
					batched_bytes(b, next), now_ns);
	stat_add(&stats->requests_over_limit, status == WIRE_LIMIT);
	stat_add(&stats->requests_not_allowed, status == WIRE_NOT_ALLOWED);
	state->admitted = !status;
	if (!state->paid && status != WIRE_LIMIT) {
		state->paid = true;
		execute_access(conn_thread(b->conn), b->message);
	}
	return status;
}

/* False: nothing was done, and state->state says what comes first. */
static bool batch_one(struct batch_turn *b, const struct batched *next, struct room *room)
{
	struct response_value value = {
		.value = b->results + b->state->used + sizeof(struct wire_result),
		.size = b->size - b->state->used -
			b->state->left * (uint32_t)sizeof(struct wire_result),
		.whole = true,
		.sum = !b->conn->query.by_request,
	};
	struct wire_response head = { 0 };

	if (batch_repeats(b, next, &head)) {
		value.len = 0;
	} else if ((head.status = (uint8_t)batch_admit(b, next))) {
		conn_record(b->conn, next->request.change, &head);
	} else if (!execute(conn_thread(b->conn), &next->request, next->hash, &head, &value,
			    room)) {
		b->state->state = room_pending(room) ? BATCH_ROOM : BATCH_LARGE;
		return false;
	} else {
		/* The client asks for that value alone. */
		if (next->request.op == WIRE_GET && !head.status && head.result > value.size)
			head.status = WIRE_TOO_LARGE;
		operation_done(b->conn, &next->request, &head);
	}
	batch_result(b, next, &head, value.len);
	return true;
}

/*
 * Executes requests until one has to wait, or until @until_ns, if that is not 0: one at least.
 * @room: of the first of them; it is initialised, or has made room. DEFERRED_DONE: of the last one,
 * too.
 */
static enum deferred_next batch_run(struct batch_turn *b, struct room *room, uint64_t until_ns)
{
	struct batched list[WIRE_BATCH_MAX];
	uint32_t i, count = b->state->left;

	batch_decode(b, list, count);
	for (i = 0; i < count; i++) {
		if (!batch_one(b, &list[i], room))
			return DEFERRED_AGAIN;
		room_init(room);
		if (until_ns && b->state->left && clock_ns() >= until_ns)
			return DEFERRED_AGAIN;
	}
	return DEFERRED_DONE;
}

/* A request on a large item, which is the next one. */
static enum deferred_next batch_run_large(struct batch_turn *b, uint64_t until_ns)
{
	struct deferred_large *large = &b->state->large;
	struct wire_response head = { 0 };
	enum deferred_next next;
	struct batched first;

	batch_decode(b, &first, 1);
	if (!large->begun)
		operation_large_begin(large, b->conn, &first.request, first.hash);
	next = operation_large_run(large, b->conn, &head, until_ns);
	if (next != DEFERRED_DONE)
		return next;
	operation_done(b->conn, &first.request, &head);
	batch_result(b, &first, &head, 0);
	room_init(&b->state->room);
	return b->state->left ? DEFERRED_AGAIN : DEFERRED_DONE;
}

/* A piece of a batch that is deferred. */
static enum deferred_next batch_continue(struct batch_turn *b, uint64_t until_ns)
{
	struct deferred_batch *state = b->state;
	struct room *room = &state->room;
	enum deferred_next next;

	if (state->state == BATCH_ROOM) {
		next = operation_room_run(room, until_ns);
		if (next != DEFERRED_DONE)
			return next;
		state->state = BATCH_NEXT;
	}
	if (state->state == BATCH_LARGE)
		return batch_run_large(b, until_ns);
	next = batch_run(b, room, until_ns);
	if (state->state == BATCH_LARGE)
		memset(&state->large, 0, sizeof(state->large));
	return next;
}

static void batch_begin(struct batch_turn *b, struct response_list *responses)
{
	b->worker = responses->poller->worker;
	b->response = response_start(responses, b->conn, WIRE_BATCH, b->message->id);
}

/* All have their results. */
static void batch_finish(struct batch_turn *b)
{
	b->response->head.entries = b->message->count;
	b->response->value_len = b->state->used;
}

static void batch_state_init(struct deferred_batch *state, const struct request *message,
			     uint32_t repeated)
{
	*state = (struct deferred_batch){
		.left = message->count,
		.repeated = repeated,
		.buffer = BUFFER_NONE,
	};
	room_init(&state->room);
}

/* It keeps the buffer with its results, and a place for the response (A4). */
static void batch_keep(struct deferred *deferred, struct response_list *responses)
{
	deferred->batch.buffer = response_keep_buffer(responses);
	response_reserve(deferred->conn);
	deferred->reserved = true;
}

/* Executes as much of a batch as can be done at once; the rest is deferred. */
static bool batch_start(struct response_list *responses, struct conn *conn,
			const struct request *request, uint32_t buffer, uint32_t repeated)
{
	struct deferred *deferred;
	struct deferred_batch state;
	struct batch_turn b = { .conn = conn, .message = request, .state = &state };

	batch_state_init(&state, request, repeated);
	batch_begin(&b, responses);
	b.worker->turn.batched += request->count;
	b.results = response_buffer(responses, b.response, &b.size);
	if (!b.results)
		return true;
	if (batch_run(&b, &state.room, 0) == DEFERRED_DONE) {
		batch_finish(&b);
		return true;
	}
	deferred_start(conn, &batch_kind, request, 0, buffer);
	deferred = &conn->poller->deferred[buffer];
	if (state.state == BATCH_LARGE)
		memset(&state.large, 0, sizeof(state.large));
	deferred->batch = state;
	batch_keep(deferred, responses);
	return false;
}

/* A6: how many of the numbers were sent before. False: the connection has failed. */
static bool batch_admit_numbers(struct conn *conn, const struct request *message,
				uint32_t *repeated)
{
	enum change_kind kind;
	uint32_t i;

	*repeated = 0;
	for (i = 0; i < message->numbered && message->change; i++) {
		kind = conn_admit(conn, wire_change_of(message->change, i));
		if (kind == CHANGE_WRONG) {
			conn_fail(conn, "a number of a change that is not the next one");
			return false;
		}
		*repeated += kind == CHANGE_OLD;
	}
	return true;
}

bool batch_receive(struct response_list *responses, struct conn *conn,
		   const struct request *request, uint32_t buffer)
{
	struct worker *worker = responses->poller->worker;
	uint32_t repeated;

	stat_add(&worker->stats.requests, request->count - 1);
	stat_add(&worker->stats.batched, request->count);
	if (!batch_admit_numbers(conn, request, &repeated))
		return true;
	if (!deferred_pending(conn) && response_room(conn) &&
	    worker->turn.batched + request->count <= BATCHED_TURN_MAX)
		return batch_start(responses, conn, request, buffer, repeated);
	deferred_start(conn, &batch_kind, request, 0, buffer);
	conn->poller->deferred[buffer].batch.repeated = repeated;
	return false;
}

static enum deferred_next batch_step(struct deferred *deferred, struct response_list *responses,
				     uint64_t until_ns)
{
	struct deferred_batch *state = &deferred->batch;
	struct batch_turn b = { .conn = deferred->conn,
				.message = &deferred->request,
				.state = state };
	enum deferred_next next;

	if (deferred->reserved)
		response_unreserve(b.conn);
	else
		batch_state_init(state, b.message, state->repeated);
	batch_begin(&b, responses);
	if (deferred->reserved)
		b.results = response_buffer_again(responses, b.response, state->buffer, &b.size);
	else
		b.results = response_buffer(responses, b.response, &b.size);
	if (!b.results)
		return DEFERRED_DONE;
	next = batch_continue(&b, until_ns);
	if (next == DEFERRED_DONE)
		batch_finish(&b);
	else
		batch_keep(deferred, responses);
	return next;
}

static bool batch_cancel(struct deferred *deferred)
{
	struct deferred_batch *state = &deferred->batch;

	if (!deferred->reserved)
		return true;
	if (state->state == BATCH_LARGE)
		operation_large_cancel(&state->large, deferred->conn);
	else
		room_cancel(&state->room);
	response_buffer_free(deferred->conn, state->buffer);
	return true;
}

const struct deferred_kind batch_kind = { .step = batch_step, .cancel = batch_cancel };
