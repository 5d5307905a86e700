/* SPDX-License-Identifier: MIT */
#include "server/memcached/classic_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/util/stat.h"
#include "server/memcached/forward.h"

/* "VALUE ", a key, and three numbers with the spaces before them and the line's end. */
#define VALUE_LINE_MAX (6 + KEY_MAX + 11 + 11 + 21 + 2)

/* Whether the result is neither that nor that the key has no item. */
static bool is_refused(const struct action *action)
{
	return action->head.status && action->head.status != WIRE_NOT_FOUND;
}

static void get_count(const struct action *action, bool hit)
{
	const struct mc_command *command = action->command;
	struct mc_counters *counters = session_counters(action->session);

	if (command->with_touch) {
		stat_add(&counters->cmd_touch, 1);
		stat_add(hit ? &counters->touch_hits : &counters->touch_misses, 1);
		stat_add(&counters->get_hits, hit);
		return;
	}
	stat_add(&counters->cmd_get, 1);
	stat_add(hit ? &counters->get_hits : &counters->get_misses, 1);
}

/* Writes @number in decimal digits and returns the end. */
static char *number_put(char *to, uint64_t number)
{
	char digits[20];
	unsigned int n = 0;

	do
		digits[n++] = (char)('0' + number % 10);
	while (number /= 10);
	while (n)
		*to++ = digits[--n];
	return to;
}

static uint32_t value_line(const struct action *action, char line[VALUE_LINE_MAX])
{
	const struct mc_command *command = action->command;
	char *to = line;

	memcpy(to, "VALUE ", 6);
	memcpy(to + 6, command->key, command->key_len);
	to += 6 + command->key_len;
	*to++ = ' ';
	to = number_put(to, action->head.item_flags);
	*to++ = ' ';
	to = number_put(to, action->head.result);
	if (command->with_cas) {
		*to++ = ' ';
		to = number_put(to, action->head.version);
	}
	*to++ = '\r';
	*to++ = '\n';
	return (uint32_t)(to - line);
}

/* The request of a key. Returns its new time to live. */
static int64_t get_request(struct action *action)
{
	const struct mc_command *command = action->command;
	int64_t ttl = command->with_touch ? action_ttl(command->exptime) : 0;

	if (command->with_touch && ttl != MC_EXPIRED) {
		action->request.op = WIRE_TOUCH;
		action->request.flags = WIRE_F_VALUE;
		action->request.ttl = (uint32_t)ttl;
	}
	return ttl;
}

bool classic_get_ahead(struct session *session, const struct mc_command *command, uint64_t number,
		       size_t received)
{
	struct action action;

	action_init(&action, session, command, WIRE_GET, (uint32_t)received, 0);
	return get_request(&action) != MC_EXPIRED && action_ahead(&action, number);
}

/* An error ends the answer to a line, so its other keys are dropped. */
static void get_refuse(const struct action *action)
{
	struct session *session = action->session;

	action_refuse(action);
	if (!action->command->more)
		return;
	session->parser.state = MC_LINE_REST;
	forwards_drop(session);
}

/* A key of get, gets, gat or gats. The last one of its line is followed by END. */
static enum action_next get(struct action *action)
{
	const struct mc_command *command = action->command;
	const char *tail = command->more ? NULL : "END";
	int64_t ttl;
	char line[VALUE_LINE_MAX];
	enum action_next next;

	if (!command->key) {
		if (!output_room(action->session, SESSION_ANSWER_MAX))
			return ACTION_CLOGGED;
		output_line(action->session->sockets, tail);
		return ACTION_DONE;
	}
	ttl = get_request(action);
	next = action_read(action, VALUE_LINE_MAX - KEY_MAX + command->key_len);
	if (next != ACTION_DONE)
		return next;
	if (is_refused(action)) {
		get_refuse(action);
		return ACTION_DONE;
	}
	if (!action->head.status && ttl == MC_EXPIRED) {
		next = action_expire(action);
		if (next != ACTION_DONE)
			return next;
	}
	get_count(action, !action->head.status);
	if (action->head.status) {
		if (tail)
			output_line(action->session->sockets, tail);
		return ACTION_DONE;
	}
	return action_send_value(action, line, value_line(action, line), tail);
}

/* What the status of a PUT is in memcached's words; NULL: an error. */
static const char *put_answer(const struct action *action)
{
	switch ((enum wire_status)action->head.status) {
	case WIRE_OK:
		return "STORED";
	case WIRE_EXISTS:
		return action->command->mode == WIRE_CAS ? "EXISTS" : "NOT_STORED";
	case WIRE_NOT_FOUND:
		return action->command->mode == WIRE_CAS ? "NOT_FOUND" : "NOT_STORED";
	default:
		return NULL;
	}
}

/*
 * Makes the request one that leaves no item, for a value that is expired when it is stored. False:
 * the mode has no such one; an append keeps the time of its item.
 */
static void put_expired(struct request *request)
{
	switch ((enum wire_put)request->mode) {
	case WIRE_CAS:
		request->flags = WIRE_F_IF_VERSION;
		/* fall through */
	case WIRE_SET:
	case WIRE_REPLACE:
		request->op = WIRE_DELETE;
		break;
	case WIRE_ADD:
		request->op = WIRE_GET;
		request->flags = WIRE_F_NO_VALUE;
		break;
	default:
		break;
	}
}

/* The status of a PUT for that of the request that put_expired() made. */
static uint8_t expired_status(const struct request *request, uint8_t status)
{
	if (request->op == WIRE_PUT || (status && status != WIRE_NOT_FOUND))
		return status;
	if (request->op == WIRE_GET)
		return status ? WIRE_OK : WIRE_EXISTS;
	return request->mode == WIRE_SET ? WIRE_OK : status;
}

void classic_put_request(struct request *request, const struct mc_command *command,
			 const uint8_t *block)
{
	int64_t ttl = action_ttl(command->exptime);

	request->mode = command->mode;
	request->value = block;
	request->value_len = command->value_len;
	request->item_flags = command->client_flags;
	request->version = command->cas;
	request->ttl = ttl == MC_EXPIRED ? 0 : (uint32_t)ttl;
	if (ttl == MC_EXPIRED)
		put_expired(request);
}

void classic_put_done(struct action *action)
{
	const char *answer;

	action->head.status = expired_status(&action->request, action->head.status);
	action_count_put(action);
	answer = put_answer(action);
	if (answer)
		action_answer(action, answer);
	else
		action_refuse(action);
}

static enum action_next put(struct action *action, const uint8_t *block)
{
	enum action_next next;

	classic_put_request(&action->request, action->command, block);
	next = action_run(action);
	if (next == ACTION_DONE)
		classic_put_done(action);
	return next;
}

static enum action_next erase(struct action *action)
{
	struct mc_counters *counters = session_counters(action->session);
	enum action_next next = action_run(action);

	if (next != ACTION_DONE)
		return next;
	if (is_refused(action)) {
		action_refuse(action);
		return ACTION_DONE;
	}
	stat_add(action->head.status ? &counters->delete_misses : &counters->delete_hits, 1);
	action_answer(action, action->head.status ? "NOT_FOUND" : "DELETED");
	return ACTION_DONE;
}

static enum action_next arith(struct action *action)
{
	const struct mc_command *command = action->command;
	enum action_next next;
	char number[24];

	action->request.mode = command->mode;
	action->request.delta = command->delta;
	next = action_run(action);
	if (next != ACTION_DONE)
		return next;
	if (is_refused(action)) {
		action_refuse(action);
		return ACTION_DONE;
	}
	action_count_arith(action);
	snprintf(number, sizeof(number), "%" PRIu64, action->head.result);
	action_answer(action, action->head.status ? "NOT_FOUND" : number);
	return ACTION_DONE;
}

static enum action_next touch(struct action *action)
{
	struct mc_counters *counters = session_counters(action->session);
	int64_t ttl = action_ttl(action->command->exptime);
	enum action_next next;

	if (ttl == MC_EXPIRED)
		action->request.op = WIRE_DELETE;
	else
		action->request.ttl = (uint32_t)ttl;
	next = action_run(action);
	if (next != ACTION_DONE)
		return next;
	if (is_refused(action)) {
		action_refuse(action);
		return ACTION_DONE;
	}
	stat_add(&counters->cmd_touch, 1);
	stat_add(action->head.status ? &counters->touch_misses : &counters->touch_hits, 1);
	action_answer(action, action->head.status ? "NOT_FOUND" : "TOUCHED");
	return ACTION_DONE;
}

enum action_next classic_run(struct session *session, const struct mc_command *command,
			     const uint8_t *block, uint32_t received, uint64_t until_ns)
{
	static const enum wire_op ops[] = {
		[MC_GET] = WIRE_GET,	 [MC_PUT] = WIRE_PUT,	  [MC_DELETE] = WIRE_DELETE,
		[MC_ARITH] = WIRE_ARITH, [MC_TOUCH] = WIRE_TOUCH,
	};
	struct action action;

	action_init(&action, session, command, ops[command->op], received, until_ns);
	/* A get finds its own room. */
	if (command->op == MC_GET)
		return get(&action);
	if (!output_room(session, SESSION_ANSWER_MAX))
		return ACTION_CLOGGED;
	switch (command->op) {
	case MC_PUT:
		return put(&action, block);
	case MC_DELETE:
		return erase(&action);
	case MC_ARITH:
		return arith(&action);
	default:
		return touch(&action);
	}
}
