/* SPDX-License-Identifier: MIT */
#include "server/memcached/action.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/memcached/forward.h"
#include "server/memcached/large_get.h"
#include "server/worker/member.h"
#include "server/worker/permit.h"

/* A value for which less room than this is left waits until the output was sent. */
#define ROOM_MIN (SESSION_OUTPUT_BYTES / 4)
/* What follows a value at most: \r\n, and the END of a get. */
#define TAIL_MAX 16u

/*
 * What other members can't be asked for by kvd's protocol: marks of items (marks.h), when an item
 * was used, and changes other than a SET, or a DELETE, of one version.
 */
static bool is_only_here(const struct mc_command *command)
{
	switch (command->op) {
	case MC_META_GET:
		return mc_has(command, 'N') || mc_has(command, 'R') || mc_has(command, 'h') ||
		       mc_has(command, 'l');
	case MC_META_PUT:
		return mc_has(command, 'I') || (mc_has(command, 'C') && command->mode != WIRE_CAS);
	case MC_META_DELETE:
		return mc_has(command, 'I');
	case MC_META_ARITH:
		return mc_has(command, 'C');
	case MC_META_DEBUG:
		return true;
	default:
		return false;
	}
}

void action_init(struct action *action, struct session *session, const struct mc_command *command,
		 enum wire_op op, uint32_t received, uint64_t until_ns)
{
	action->session = session;
	action->command = command;
	memset(&action->request, 0, sizeof(action->request));
	action->request.op = op;
	action->request.key = command->key;
	action->request.key_len = command->key_len;
	action->received = received;
	action->until_ns = until_ns;
	action->only_here = !forwarder_of(session) || is_only_here(command);
	action->stage = 0;
	action->paid = session->forwards ? session->forwards->paid : 0;
	action->gap = 0;
	action->no_value = action->foreign = false;
	action->large = NULL;
	memset(&action->head, 0, sizeof(action->head));
	if (command->key &&
	    !ahead_take(&session->sockets->ahead, command->key, command->key_len, &action->hash))
		action->hash = table_hash(session->client.part->thread.table, command->key,
					  command->key_len);
}

int64_t action_ttl(int64_t exptime)
{
	return exptime ? mc_ttl(exptime, time(NULL)) : 0;
}

enum wire_status action_admit(const struct action *action)
{
	struct client *client = &action->session->client;
	const struct user *user = client_user(client);
	enum wire_status status = WIRE_OK;

	if (user && !action->session->work && action->paid <= action->stage)
		status = permit_admit(client, user, &action->request, action->received);
	if (!status && client->fleet && action->request.key)
		status = action->only_here ? member_admit_key(client, action->hash) :
					     member_find_key(client, action->hash);
	return status;
}

/* Whether action_admit() says that another member must be asked. */
static bool is_foreign(const struct action *action)
{
	return action->head.status == WIRE_MOVED && !action->only_here;
}

/* Asks another member, in the action's stage. */
static enum action_next foreign_ask(struct action *action)
{
	const struct forward_ask ask = {
		.command = session_command(action->session),
		.stage = action->stage,
		.request = &action->request,
		.hash = action->hash,
		.no_value = action->no_value,
	};

	action->session->forwards->paid = action->stage + 1;
	if (!forward_room(action->session, action->hash, true) ||
	    forward_ask(action->session, &ask))
		return ACTION_WAIT;
	action->head.status = WIRE_NO_SPACE;
	return ACTION_DONE;
}

/* What another member has answered, if it has. */
static enum action_next foreign_take(struct action *action, const struct forward *forward)
{
	if (!forward->done)
		return ACTION_WAIT;
	forward_result(forward, &action->head);
	action->foreign = true;
	action->stage++;
	return ACTION_DONE;
}

bool action_ahead(struct action *action, uint64_t number)
{
	const struct forward_ask ask = {
		.command = number,
		.request = &action->request,
		.hash = action->hash,
		.no_value = action->no_value,
	};

	if (action->only_here || forward_of(action->session, number, 0) ||
	    member_find_key(&action->session->client, action->hash) != WIRE_MOVED)
		return true;
	if (!forward_room(action->session, action->hash, false))
		return false;
	/* What was paid is the current command's. */
	action->paid = 0;
	action->head.status = (uint8_t)action_admit(action);
	return is_foreign(action) && forward_ask(action->session, &ask);
}

static void work_end(struct session *session)
{
	free(session->work);
	session->work = NULL;
}

void action_cancel(struct session *session)
{
	if (session->work)
		execution_cancel(&session->work->execution, &session->client);
	work_end(session);
	large_get_end(session);
}

/* Keeps the execution for further turns. False: no memory, and the request has failed. */
static bool work_keep(struct action *action, const struct execution *execution)
{
	struct session *session = action->session;

	session->work = calloc(1, sizeof(*session->work));
	if (!session->work)
		return false;
	/* The execution may be moved: no step has been made. */
	session->work->execution = *execution;
	if (action->request.key)
		memcpy(session->work->key, action->request.key, action->request.key_len);
	return true;
}

void action_count(const struct action *action)
{
	const struct client *client = &action->session->client;

	command_count(&client->worker->commands, client->kind, action->request.op,
		      action->head.status, 0);
}

/* action_admit() does not allow it here. */
static enum action_next action_refused(struct action *action)
{
	if (is_foreign(action))
		return foreign_ask(action);
	action_count(action);
	return ACTION_DONE;
}

static void action_executed(const struct action *action)
{
	struct client *client = &action->session->client;

	action_count(action);
	execution_count(client, &action->request, &action->head, client->active_ns);
}

static enum action_next next_of(struct session *session, enum piece_next next)
{
	session->waits = next == PIECE_WAIT;
	return next == PIECE_WAIT ? ACTION_WAIT : ACTION_AGAIN;
}

enum action_next action_run(struct action *action)
{
	struct session *session = action->session;
	struct response_value none = { 0 };
	struct execution first, *execution = &first;
	struct forward *forward = forward_of(session, session_command(session), action->stage);
	enum piece_next next;

	if (forward)
		return foreign_take(action, forward);
	action->head.status = (uint8_t)action_admit(action);
	if (action->head.status) {
		if (session->work)
			execution_cancel(&session->work->execution, &session->client);
		work_end(session);
		return action_refused(action);
	}
	if (session->work) {
		execution = &session->work->execution;
		action->request.key = session->work->key;
	} else {
		execution_init(&first);
	}
	next = execution_run(execution, &session->client, &action->request, action->hash,
			     &action->head, &none, action->until_ns);
	if (next != PIECE_DONE) {
		if (session->work || work_keep(action, &first))
			return next_of(session, next);
		execution_cancel(&first, &session->client);
		action->head.status = WIRE_NO_SPACE;
	}
	work_end(session);
	action_executed(action);
	return ACTION_DONE;
}

/* Holds a value that does not fit the worker's output, if it is still the one of the result. */
static enum action_next large_hold(struct action *action)
{
	struct session *session = action->session;
	const struct request *request = &action->request;
	struct item_ref ref;
	bool waits;

	if (lookup_find(client_thread(&session->client), action->hash, request->key,
			request->key_len, &ref) != LOOKUP_FOUND ||
	    ref.front.item.version != action->head.version)
		return ACTION_AGAIN;
	if (large_get_hold(session, action->command, action->hash, &ref, &waits))
		return ACTION_DONE;
	if (waits)
		return ACTION_WAIT;
	action->head.status = WIRE_NO_SPACE;
	return ACTION_DONE;
}

/* Executes the request with the room that the worker's output has left. */
static bool read_here(struct action *action, struct response_value *value)
{
	struct sockets *sockets = action->session->sockets;
	struct room none;

	room_init(&none);
	*value = (struct response_value){
		.value = sockets->output + sockets->output_len + action->gap,
		.size = action->no_value ? 0 : output_left(sockets) - action->gap - TAIL_MAX,
	};
	/* A GET or TOUCH needs no room, and is done at once. */
	(void)execute(client_thread(&action->session->client), &action->request, action->hash,
		      &action->head, value, &none);
	return action->head.status || action->head.result == value->len || action->no_value;
}

/* Asks again for a value that is longer than what came back has room for. */
static enum action_next foreign_large(struct action *action, struct forward *forward)
{
	size_t gap = action->gap + TAIL_MAX;
	bool waits;

	if (forward_again(action->session, forward, gap, action->gap, &waits) || waits)
		return ACTION_WAIT;
	action->foreign = true;
	action->head.status = WIRE_NO_SPACE;
	return ACTION_DONE;
}

/* Takes a value from another member: as action_read(). */
static enum action_next foreign_read(struct action *action, struct forward *forward)
{
	struct session *session = action->session;
	struct sockets *sockets = session->sockets;
	const struct kvd_op *op = &forward->op;

	if (!forward->done)
		return ACTION_WAIT;
	if (op->status == KVD_ERR_BUFFER && !action->no_value)
		return foreign_large(action, forward);
	if (!output_room(session, action->gap + TAIL_MAX + ROOM_MIN))
		return ACTION_CLOGGED;
	if (!op->status && forward->large) {
		/* The value goes out by itself. */
		if (!output_send(session))
			return ACTION_CLOGGED;
		action->large = forward;
	} else if (!op->status && !action->no_value) {
		memcpy(sockets->output + sockets->output_len + action->gap, op->value,
		       op->item.value_len);
	}
	return foreign_take(action, forward);
}

/* Sends a long value that has come from another member: the output before it was sent. */
static void foreign_send_large(struct action *action, const char *line, uint32_t line_len,
			       const char *tail)
{
	uint32_t end = action->gap + (uint32_t)action->head.result;
	uint8_t *bytes = forward_large_take(action->session, action->large);

	memcpy(bytes + action->gap - line_len, line, line_len);
	end += (uint32_t)snprintf((char *)bytes + end, TAIL_MAX, "\r\n%s%s", tail ? tail : "",
				  tail ? "\r\n" : "");
	(void)output_keep(action->session, bytes, action->gap - line_len, end);
}

enum action_next action_read(struct action *action, uint32_t gap)
{
	struct session *session = action->session;
	struct forward *forward = forward_of(session, session_command(session), action->stage);
	struct response_value value;
	bool fits;

	action->gap = gap;
	if (forward)
		return foreign_read(action, forward);
	/* Of a try before: the command begins anew. */
	large_get_end(session);
	action->head.status = (uint8_t)action_admit(action);
	if (action->head.status)
		return action_refused(action);
	if (!output_room(session, gap + TAIL_MAX + ROOM_MIN))
		return ACTION_CLOGGED;
	fits = read_here(action, &value);
	if (!fits && session->sockets->output_len) {
		if (!output_send(session))
			return ACTION_CLOGGED;
		fits = read_here(action, &value);
	}
	if (!fits) {
		enum action_next next = large_hold(action);

		if (next != ACTION_DONE)
			return next;
	}
	action_executed(action);
	return ACTION_DONE;
}

enum action_next action_send_value(struct action *action, const char *line, uint32_t line_len,
				   const char *tail)
{
	struct session *session = action->session;
	uint32_t value_len = (uint32_t)action->head.result;

	permit_charge(&session->client, line_len + value_len + 2,
		      client_thread(&session->client)->now_ns);
	if (action->large) {
		foreign_send_large(action, line, line_len, tail);
		return ACTION_DONE;
	}
	if (session->get) {
		large_get_begin(session, line, line_len, tail);
		return ACTION_DONE;
	}
	output_value(session->sockets, action->gap, line, line_len, value_len);
	if (tail)
		output_line(session->sockets, tail);
	return ACTION_DONE;
}

/* Removes the key of a SET that is here. */
static void too_large_remove(struct action *action)
{
	struct wire_response head = { 0 };
	struct response_value none = { 0 };
	struct room room;

	room_init(&room);
	/* A DELETE needs no room, and is done at once. */
	(void)execute(client_thread(&action->session->client), &action->request, action->hash,
		      &head, &none, &room);
}

enum action_next action_too_large(struct action *action)
{
	struct session *session = action->session;
	const bool removes = action->request.mode == WIRE_SET;
	struct forward *forward = forward_of(session, session_command(session), 0);
	enum action_next next;

	if (forward) {
		next = foreign_take(action, forward);
		if (action->head.status == WIRE_OK || action->head.status == WIRE_NOT_FOUND)
			action->head.status = WIRE_TOO_LARGE;
		return next;
	}
	action->head.status = (uint8_t)action_admit(action);
	if (action->head.status && !is_foreign(action))
		return ACTION_DONE;
	if (removes)
		action->request.op = WIRE_DELETE;
	if (removes && is_foreign(action))
		return foreign_ask(action);
	if (removes)
		too_large_remove(action);
	action->head.status = WIRE_TOO_LARGE;
	return ACTION_DONE;
}

enum action_next action_expire(struct action *action)
{
	struct request *request = &action->request;
	struct wire_response head = action->head;
	enum action_next next;

	memset(request, 0, sizeof(*request));
	request->op = WIRE_DELETE;
	request->key = action->command->key;
	request->key_len = action->command->key_len;
	request->flags = WIRE_F_IF_VERSION;
	request->version = head.version;
	next = action_run(action);
	action->head = head;
	return next;
}

void action_count_put(const struct action *action)
{
	struct mc_counters *counters = session_counters(action->session);
	enum wire_status status = (enum wire_status)action->head.status;

	stat_add(&counters->cmd_set, 1);
	stat_add(&counters->store_too_large, status == WIRE_TOO_LARGE);
	stat_add(&counters->store_no_memory, status == WIRE_NO_SPACE);
	if (action->command->mode != WIRE_CAS)
		return;
	stat_add(&counters->cas_hits, status == WIRE_OK);
	stat_add(&counters->cas_misses, status == WIRE_NOT_FOUND);
	stat_add(&counters->cas_badval, status == WIRE_EXISTS);
}

void action_count_arith(const struct action *action)
{
	struct mc_counters *counters = session_counters(action->session);
	bool miss = action->head.status;

	if (action->command->mode == WIRE_INCR)
		stat_add(miss ? &counters->incr_misses : &counters->incr_hits, 1);
	else
		stat_add(miss ? &counters->decr_misses : &counters->decr_hits, 1);
}

void action_answer(const struct action *action, const char *line)
{
	if (!action->command->noreply)
		output_line(action->session->sockets, line);
}

void action_refuse(const struct action *action)
{
	const struct user *user = client_user(&action->session->client);
	char why[PERMIT_WHY_BYTES] = "", line[PERMIT_WHY_BYTES + 32];
	const char *error;

	switch ((enum wire_status)action->head.status) {
	case WIRE_NOT_ALLOWED:
		if (user)
			(void)permit_why(user, &action->request, why);
		snprintf(line, sizeof(line), "CLIENT_ERROR %s", *why ? why : "not allowed");
		action_answer(action, line);
		break;
	case WIRE_LIMIT:
		action_answer(action, "SERVER_ERROR beyond a limit of the user (users.file)");
		break;
	case WIRE_NO_SPACE:
		action_answer(action, "SERVER_ERROR out of memory storing object");
		break;
	case WIRE_TOO_LARGE:
		action_answer(action, "SERVER_ERROR object too large for cache");
		break;
	case WIRE_NOT_A_NUMBER:
		action_answer(action,
			      "CLIENT_ERROR cannot increment or decrement non-numeric value");
		break;
	case WIRE_MOVED:
		action_answer(action, "SERVER_ERROR another member of the fleet has the key, and "
				      "must be asked for this itself");
		break;
	case WIRE_AWAY:
		error = forward_error(action->session);
		action_answer(action, error ? error :
					      "SERVER_ERROR no member of the fleet serves the key "
					      "now");
		break;
	default:
		action_answer(action, "SERVER_ERROR busy: try again");
		break;
	}
}
