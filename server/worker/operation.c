/* SPDX-License-Identifier: MIT */
/* Executes the operations of a message one after another and fills in its response. */
#include "server/worker/operation.h"

#include <string.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/fleet/fleet.h"
#include "server/worker/answers.h"
#include "server/worker/budget.h"
#include "server/worker/conn.h"
#include "server/worker/execute.h"
#include "server/worker/member.h"
#include "server/worker/permit.h"
#include "server/worker/worker.h"

/*
 * What a message with one operation runs through, in the turn in which it arrives: the compiler
 * would not inline what deferred messages call as well, and a PUT would take 2 % more instructions.
 */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* An operation of a BATCH, decoded. */
struct batched {
	struct request request;
	uint64_t hash; /* of the key, if there is one */
	uint32_t end;  /* where the next one begins */
};

/* A message in one turn. */
struct message {
	struct worker *worker;
	struct conn *conn;
	const struct request *request; /* all of it: the operation, or the BATCH */
	uint64_t hash;		       /* of its key, if it has one */
	struct operations *state;
	struct response_wr *response;
	uint8_t *value; /* after the response's header; NULL: it needs none */
	uint32_t size;	/* of value, bytes */
	uint64_t until_ns;
	uint64_t arrived_ns;
};

static bool is_batch(const struct request *request)
{
	return request->op == WIRE_BATCH;
}

/* A change that was sent before (OPERATION-6); limits do not apply. */
static __attribute__((noinline)) void
operation_repeat(struct conn *conn, const struct request *request, struct wire_response *head)
{
	struct worker_stats *stats = &conn->poller->worker->stats;

	if (answers_repeat(conn->answers, request->change, head))
		stat_add(&stats->answers_repeated, 1);
	else
		stat_add(&stats->answers_unknown, 1);
}

__attribute__((noinline)) void operation_refuse(const struct conn *conn,
						const struct request *request,
						enum wire_status status, struct wire_response *head)
{
	/* ACCESS is a hint, for which clients expect no other status. */
	head->status = request->op == WIRE_ACCESS ? WIRE_OK : (uint8_t)status;
	if (status == WIRE_MOVED || status == WIRE_AWAY)
		member_refuse(conn, request, status, head);
}

void operation_report(struct conn *conn, const struct request *request)
{
	command_count_reads(&conn->poller->worker->commands, conn->client.kind, &request->gets);
	execute_access(conn_thread(conn), request);
}

/* The first admitted operation pays for the BATCH's own header. */
static uint64_t batched_bytes(const struct message *message, const struct request *request)
{
	uint64_t bytes = wire_batched_bytes(request);

	if (!message->state->paid)
		bytes += sizeof(struct wire_request) + sizeof(struct wire_response) +
			 request_report_bytes(message->request);
	return bytes;
}

/* What the user may not do of a BATCH. */
static enum wire_status batched_permit(struct message *message, const struct user *user,
				       const struct request *request)
{
	struct operations *state = message->state;
	struct conn *conn = message->conn;
	enum wire_status status;

	status = permit_admit(&conn->client, user, request, batched_bytes(message, request));
	if (!state->paid && status != WIRE_LIMIT) {
		state->paid = true;
		operation_report(conn, message->request);
	}
	return status;
}

/* OWNER-1 for an operation that was begun, or waited, in earlier turns. */
static enum wire_status operation_again(struct message *message, const struct request *request,
					uint64_t hash)
{
	enum wire_status status = member_admit(message->conn, request, hash);

	if (status)
		execution_cancel(&message->state->execution, &message->conn->client);
	return status;
}

/*
 * OPERATION-5, PERMIT-2, OWNER-1: WIRE_OK, or what the next operation of a BATCH is refused with.
 */
static enum wire_status batched_admit(struct message *message, const struct request *request,
				      uint64_t hash)
{
	struct operations *state = message->state;
	const struct user *user = client_user(&message->conn->client);
	enum wire_status status = WIRE_OK;

	if (state->admitted)
		return message->conn->client.fleet ? operation_again(message, request, hash) :
						     WIRE_OK;
	if (user)
		status = batched_permit(message, user, request);
	if (!status && message->conn->client.fleet)
		status = member_admit(message->conn, request, hash);
	/*
	 * The operation stays admitted for all its pieces: what it holds is given back at its end.
	 */
	state->admitted = !status;
	return status;
}

/* Executes an admitted operation as far as it gets in this turn. */
static ALWAYS_INLINE enum piece_next operation_execute(struct message *message,
						       const struct request *request, uint64_t hash,
						       struct wire_response *head,
						       struct response_value *value)
{
	enum piece_next next = execution_run(&message->state->execution, &message->conn->client,
					     request, hash, head, value, message->until_ns);

	/* The client will ask for that value alone. */
	if (next == PIECE_DONE && value->whole && request->op == WIRE_GET && !head->status &&
	    head->result > value->size)
		head->status = WIRE_TOO_LARGE;
	return next;
}

/*
 * The next operation of the message. PIECE_DONE: @head and @value are filled in, else it goes on
 * in a later turn.
 */
static ALWAYS_INLINE enum piece_next operation_run(struct message *message,
						   const struct request *request, uint64_t hash,
						   struct wire_response *head,
						   struct response_value *value)
{
	struct operations *state = message->state;
	struct conn *conn = message->conn;
	enum piece_next next;
	enum wire_status status;

	if (request->change && state->numbered < state->verdict.repeated) {
		operation_repeat(conn, request, head);
		return PIECE_DONE;
	}
	status = is_batch(message->request) ? batched_admit(message, request, hash) :
					      (enum wire_status)state->verdict.status;
	if (status) {
		operation_refuse(conn, request, status, head);
	} else {
		next = operation_execute(message, request, hash, head, value);
		if (next != PIECE_DONE)
			return next;
		execution_count(&conn->client, request, head, message->arrived_ns);
	}
	conn_record(conn, request->change, head);
	return PIECE_DONE;
}

static ALWAYS_INLINE enum piece_next single_run(struct message *message)
{
	const struct request *request = message->request;
	struct response_wr *response = message->response;
	struct conn *conn = message->conn;
	struct response_value value = {
		.value = message->value,
		.size = message->size,
		.sum = !conn->query.by_request,
	};
	enum piece_next next = operation_run(message, request, message->hash, &response->head,
					     &value);

	response->value_len = value.len;
	if (next == PIECE_DONE && message->value)
		permit_note_part(conn, request, message->hash, value.len, response->head.result);
	return next;
}

static void batched_parse(const struct message *message, struct batched *next, size_t at,
			  uint32_t numbered)
{
	const struct request *batch = message->request;

	/* The whole BATCH was parsed before: no error. */
	(void)wire_batched_parse(&next->request, batch->value, batch->value_len, &at);
	next->end = (uint32_t)at;
	next->hash = 0;
	if (batch->change && wire_batched_numbered(next->request.op))
		next->request.change = wire_change_of(batch->change, numbered);
}

/* Decodes the next @count operations and prefetches what they will touch (OPERATION-2). */
static void batch_decode(const struct message *message, struct batched *list, uint32_t count)
{
	struct table *table = message->conn->client.part->thread.table;
	uint32_t numbered = message->state->numbered, i;
	size_t at = message->state->at;

	for (i = 0; i < count; i++) {
		batched_parse(message, &list[i], at, numbered);
		at = list[i].end;
		numbered += list[i].request.change != 0;
		if (!list[i].request.key)
			continue;
		list[i].hash = table_hash(table, list[i].request.key, list[i].request.key_len);
		table_prefetch_bucket(table, list[i].hash);
	}
	for (i = 0; i < count && count > 1; i++)
		if (list[i].request.key)
			table_prefetch_item(table, list[i].hash);
}

/* Writes the result of the next operation, before its value of @value_len bytes. */
static void batch_result(struct message *message, const struct batched *next,
			 const struct wire_response *head, uint32_t value_len)
{
	struct operations *state = message->state;
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
	if (head->status == WIRE_EXISTS || head->status == WIRE_MOVED || head->status == WIRE_AWAY)
		result.version = head->version;
	if (!head->status && next->request.op == WIRE_GET) {
		result.item_flags = head->item_flags;
		result.value_len = value_len;
	}
	command_count(&message->worker->commands, message->conn->client.kind, next->request.op,
		      head->status, head->flags);
	memcpy(message->value + state->used, &result, sizeof(result));
	state->used += (uint32_t)sizeof(result) + value_len;
	if (head->status != WIRE_LIMIT && !head->flags)
		permit_charge(&message->conn->client, sizeof(result) + value_len,
			      message->worker->part.thread.now_ns);
}

static void batch_advance(struct operations *state, const struct batched *done)
{
	state->at = done->end;
	state->left--;
	state->numbered += done->request.change != 0;
	state->admitted = false;
	execution_init(&state->execution);
}

static enum piece_next batched_run(struct message *message, const struct batched *next)
{
	struct operations *state = message->state;
	struct response_value value = {
		.value = message->value + state->used + sizeof(struct wire_result),
		.size = message->size - state->used -
			state->left * (uint32_t)sizeof(struct wire_result),
		.whole = true,
		.sum = !message->conn->query.by_request,
	};
	struct wire_response head = { 0 };
	enum piece_next ran = operation_run(message, &next->request, next->hash, &head, &value);

	if (ran == PIECE_DONE) {
		batch_result(message, next, &head, value.len);
		batch_advance(state, next);
	}
	return ran;
}

/* Runs at least one operation, and more until one must wait or the time is up. */
static __attribute__((noinline)) enum piece_next batch_run(struct message *message)
{
	struct operations *state = message->state;
	struct batched list[WIRE_BATCH_MAX];
	uint32_t i, count = state->execution.next == EXECUTION_TRY ? state->left : 1;
	enum piece_next next;

	batch_decode(message, list, count);
	for (i = 0; i < count; i++) {
		next = batched_run(message, &list[i]);
		if (next != PIECE_DONE)
			return next;
		if (message->until_ns && clock_ns() >= message->until_ns)
			break;
	}
	if (state->left)
		return PIECE_AGAIN;
	message->response->head.entries = message->request->count;
	message->response->value_len = state->used;
	return PIECE_DONE;
}

static void operations_init(struct operations *state, const struct request *request,
			    struct verdict verdict)
{
	state->verdict = verdict;
	state->at = 0;
	state->left = request->count;
	state->buffer = BUFFER_NONE;
	state->used = 0;
	state->numbered = 0;
	state->paid = false;
	state->admitted = false;
	execution_init(&state->execution);
}

/* Starts the response. False: it has no place for a value, and the connection has failed. */
static ALWAYS_INLINE bool response_open(struct message *message, struct response_list *responses)
{
	const struct request *request = message->request;
	uint32_t buffer = message->state->buffer;

	message->worker = responses->poller->worker;
	message->response = response_start(responses, message->conn, request->op, request->id);
	if (buffer != BUFFER_NONE)
		message->value = response_buffer_again(responses, message->response, buffer,
						       &message->size);
	else if (!message->state->verdict.status &&
		 (is_batch(request) || response_has_value(request)))
		message->value = response_buffer(responses, message->response, &message->size);
	else
		return true;
	return message->value;
}

/* Says why the client's user may not do that, unless its rights allow it by now. */
static __attribute__((noinline)) void refusal_explain(struct response_list *responses,
						      struct response_wr *response,
						      const struct request *request)
{
	const struct user *user = client_user(&response->conn->client);
	char why[PERMIT_WHY_BYTES];
	uint32_t len = user ? permit_why(user, request, why) : 0, size;
	char *text;

	if (!len)
		return;
	text = response_buffer(responses, response, &size);
	if (!text)
		return;
	response->value_len = len < size ? len : size;
	memcpy(text, why, response->value_len);
}

/* PIECE_DONE: its response is started, or the connection has failed. */
static ALWAYS_INLINE enum piece_next message_run(struct message *message,
						 struct response_list *responses)
{
	enum piece_next next;

	if (!response_open(message, responses))
		return PIECE_DONE;
	next = is_batch(message->request) ? batch_run(message) : single_run(message);
	if (message->state->verdict.status == WIRE_NOT_ALLOWED)
		refusal_explain(responses, message->response, message->request);
	return next;
}

/* OPERATION-4 */
static void message_keep(struct deferred *deferred, struct response_list *responses)
{
	deferred->operations.buffer = response_keep_buffer(responses);
	response_reserve(deferred->conn);
	deferred->reserved = true;
}

/* Defers what is left of a message that was begun. */
static __attribute__((noinline)) void
message_defer(const struct message *message, struct response_list *responses, uint32_t buffer)
{
	struct deferred *deferred = &message->conn->poller->deferred[buffer];

	deferred_start(message->conn, &operation_kind, message->request, message->hash, buffer);
	deferred->operations = *message->state;
	message_keep(deferred, responses);
}

/* OPERATION-3 */
static bool turn_takes(struct worker *worker, const struct conn *conn,
		       const struct request *request)
{
	uint64_t batched = worker->turn.batched + request->count;

	if (request->op == WIRE_GET && request->length)
		return conn->query.by_request;
	if (!is_batch(request))
		return true;
	if (batched > BATCHED_TURN_MAX)
		return false;
	worker->turn.batched = batched;
	return true;
}

bool operation_receive(struct response_list *responses, struct conn *conn,
		       const struct request *request, uint64_t hash, uint32_t buffer,
		       struct verdict verdict)
{
	struct worker *worker = responses->poller->worker;
	struct operations state;
	struct message message = {
		.conn = conn,
		.request = request,
		.hash = hash,
		.state = &state,
		.arrived_ns = worker->part.thread.now_ns,
	};

	if (is_batch(request)) {
		stat_add(&worker->stats.requests, request->count - 1);
		stat_add(&worker->stats.batched, request->count);
	}
	if (deferred_pending(conn) || !response_room(conn) || !turn_takes(worker, conn, request)) {
		deferred_start(conn, &operation_kind, request, hash, buffer);
		conn->poller->deferred[buffer].operations.verdict = verdict;
		return false;
	}
	operations_init(&state, request, verdict);
	if (message_run(&message, responses) == PIECE_DONE)
		return true;
	message_defer(&message, responses, buffer);
	return false;
}

static enum piece_next operation_step(struct deferred *deferred, struct response_list *responses,
				      uint64_t until_ns)
{
	struct operations *state = &deferred->operations;
	struct message message = {
		.conn = deferred->conn,
		.request = &deferred->request,
		.hash = deferred->hash,
		.state = state,
		.until_ns = until_ns,
		.arrived_ns = deferred->arrived_ns,
	};
	enum piece_next next;

	if (deferred->reserved)
		response_unreserve(message.conn);
	else
		operations_init(state, message.request, state->verdict);
	if (message.conn->client.fleet && !is_batch(message.request) && !state->verdict.status &&
	    !state->verdict.repeated)
		state->verdict.status = (uint8_t)operation_again(&message, message.request,
								 message.hash);
	next = message_run(&message, responses);
	if (next != PIECE_DONE)
		message_keep(deferred, responses);
	return next;
}

static bool operation_cancel(struct deferred *deferred)
{
	struct operations *state = &deferred->operations;
	struct conn *conn = deferred->conn;

	if (!deferred->reserved)
		return true;
	execution_cancel(&state->execution, &conn->client);
	if (state->buffer != BUFFER_NONE)
		response_buffer_free(conn, state->buffer);
	return true;
}

const struct deferred_kind operation_kind = { .step = operation_step, .cancel = operation_cancel };
