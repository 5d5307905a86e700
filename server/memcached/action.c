/* SPDX-License-Identifier: MIT */
#include "server/memcached/action.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/worker/member.h"
#include "server/worker/permit.h"

/* A value for which less room than this is left waits until the output was sent. */
#define ROOM_MIN (SESSION_OUTPUT_BYTES / 4)
/* What follows a value at most: \r\n, and the END of a get. */
#define TAIL_MAX 16u

/* A value that does not fit the worker's output: copied in pieces, then sent as a whole. */
struct large_get {
	uint8_t *bytes; /* output_take(): the gap, the value, the tail; NULL: begun anew */
	struct wire_response head; /* of the version that is copied */
	uint64_t done;		   /* bytes of the value */
};

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
	action->gap = 0;
	action->no_value = false;
	memset(&action->head, 0, sizeof(action->head));
	if (command->key)
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

	if (user && !action->session->work && !action->session->get)
		status = permit_admit(client, user, &action->request, action->received);
	if (!status && client->fleet && action->request.key)
		status = member_admit_key(client, action->hash);
	return status;
}

static void work_end(struct session *session)
{
	free(session->work);
	session->work = NULL;
}

static void get_end(struct session *session)
{
	if (session->get)
		output_give(session, session->get->bytes);
	free(session->get);
	session->get = NULL;
}

void action_cancel(struct session *session)
{
	if (session->work)
		execution_cancel(&session->work->execution, &session->client);
	work_end(session);
	get_end(session);
}

/* Keeps the execution for further turns. False: no memory, and the request has failed. */
static bool work_keep(struct action *action, const struct execution *execution)
{
	struct session *session = action->session;

	session->work = calloc(1, sizeof(*session->work));
	if (!session->work)
		return false;
	/* It may be moved: no step has been made. */
	session->work->execution = *execution;
	return true;
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
	enum piece_next next;

	action->head.status = (uint8_t)action_admit(action);
	if (action->head.status) {
		if (session->work)
			execution_cancel(&session->work->execution, &session->client);
		work_end(session);
		return ACTION_DONE;
	}
	if (session->work)
		execution = &session->work->execution;
	else
		execution_init(&first);
	next = execution_run(execution, &session->client, &action->request, action->hash,
			     &action->head, &none, action->until_ns);
	if (next != PIECE_DONE) {
		if (session->work || work_keep(action, &first))
			return next_of(session, next);
		execution_cancel(&first, &session->client);
		action->head.status = WIRE_NO_SPACE;
	}
	work_end(session);
	execution_count(&session->client, &action->request, action->head.status);
	return ACTION_DONE;
}

/* Begins to copy a value that does not fit the worker's output. */
static enum action_next large_begin(struct action *action)
{
	struct session *session = action->session;
	size_t bytes = action->gap + action->head.result + TAIL_MAX;
	bool waits = false;

	if (!session->get)
		session->get = calloc(1, sizeof(*session->get));
	if (session->get)
		session->get->bytes = output_take(session, bytes, &waits);
	if (waits)
		return ACTION_WAIT;
	if (!session->get || !session->get->bytes) {
		get_end(session);
		action->head.status = WIRE_NO_SPACE;
		return ACTION_DONE;
	}
	session->get->head = action->head;
	session->get->done = 0;
	return ACTION_AGAIN;
}

/* Copies pieces of the value. A version is one value (LARGE-2): with another one it begins anew. */
static enum action_next large_read(struct action *action)
{
	const struct request *request = &action->request;
	struct large_get *get = action->session->get;
	struct item_ref ref;
	uint32_t len;

	action->head = get->head;
	do {
		action->head.status = (uint8_t)lookup_get_part(
			client_thread(&action->session->client), action->hash, request->key,
			request->key_len, get->done, get->bytes + action->gap + get->done,
			PIECE_STEP_BYTES, &ref, &len);
		if (action->head.status == WIRE_BUSY)
			return ACTION_AGAIN;
		if (action->head.status)
			break;
		if (ref.front.item.version != get->head.version) {
			output_give(action->session, get->bytes);
			get->bytes = NULL;
			return ACTION_AGAIN;
		}
		get->done += len;
		if (get->done == get->head.result)
			return ACTION_DONE;
	} while (clock_ns() < action->until_ns);
	if (!action->head.status)
		return ACTION_AGAIN;
	get_end(action->session);
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

enum action_next action_read(struct action *action, uint32_t gap)
{
	struct session *session = action->session;
	struct response_value value;
	bool fits, counted = session->get;

	action->gap = gap;
	action->head.status = (uint8_t)action_admit(action);
	if (action->head.status) {
		get_end(session);
		return ACTION_DONE;
	}
	if (session->get && session->get->bytes)
		return large_read(action);
	if (!output_room(session, gap + TAIL_MAX + ROOM_MIN))
		return ACTION_CLOGGED;
	fits = read_here(action, &value);
	if (!fits && session->sockets->output_len) {
		if (!output_send(session))
			return ACTION_CLOGGED;
		fits = read_here(action, &value);
	}
	if (!counted)
		execution_count(&session->client, &action->request, action->head.status);
	if (!fits)
		return large_begin(action);
	get_end(session);
	return ACTION_DONE;
}

enum action_next action_send_value(struct action *action, const char *line, uint32_t line_len,
				   const char *tail)
{
	struct session *session = action->session;
	struct large_get *get = session->get;
	uint32_t value_len = (uint32_t)action->head.result, end = action->gap + value_len;
	uint8_t *bytes;

	permit_charge(&session->client, line_len + value_len + 2,
		      client_thread(&session->client)->now_ns);
	if (!get) {
		output_value(session->sockets, action->gap, line, line_len, value_len);
		if (tail)
			output_line(session->sockets, tail);
		return ACTION_DONE;
	}
	bytes = get->bytes;
	get->bytes = NULL;
	get_end(session);
	memcpy(bytes + action->gap - line_len, line, line_len);
	end += (uint32_t)snprintf((char *)bytes + end, TAIL_MAX, "\r\n%s%s", tail ? tail : "",
				  tail ? "\r\n" : "");
	/* The worker's output is empty: it was sent before the value was read. */
	(void)output_keep(session, bytes, action->gap - line_len, end);
	return ACTION_DONE;
}

void action_too_large(struct action *action)
{
	struct wire_response head = { 0 };
	struct response_value none = { 0 };
	struct room room;

	action->head.status = (uint8_t)action_admit(action);
	if (action->head.status)
		return;
	action->head.status = WIRE_TOO_LARGE;
	if (action->request.mode != WIRE_SET)
		return;
	action->request.op = WIRE_DELETE;
	room_init(&room);
	/* A DELETE needs no room, and is done at once. */
	(void)execute(client_thread(&action->session->client), &action->request, action->hash,
		      &head, &none, &room);
}

void action_expire(struct action *action)
{
	struct request *request = &action->request;
	struct wire_response head = action->head;

	memset(request, 0, sizeof(*request));
	request->op = WIRE_DELETE;
	request->key = action->command->key;
	request->key_len = action->command->key_len;
	request->flags = WIRE_F_IF_VERSION;
	request->version = head.version;
	(void)action_run(action);
	action->head = head;
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
	case WIRE_AWAY:
		action_answer(action,
			      "SERVER_ERROR this member of the fleet does not serve the key");
		break;
	default:
		action_answer(action, "SERVER_ERROR busy: try again");
		break;
	}
}
