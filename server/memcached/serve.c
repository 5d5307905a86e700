/* SPDX-License-Identifier: MIT */
#include "server/memcached/serve.h"

#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/memcached/ahead.h"
#include "server/memcached/forward.h"
#include "server/memcached/forward_ahead.h"
#include "server/memcached/large_get.h"
#include "server/memcached/large_put.h"
#include "server/memcached/login.h"
#include "server/memcached/perform.h"
#include "server/memcached/stream.h"

/* Commands between two looks at the clock. */
#define LOOK_EVERY 8

static struct session_input input_open(struct session *session)
{
	if (session->input)
		return (struct session_input){ session->input, session->input_at,
					       session->input_len };
	return (struct session_input){ .bytes = session->sockets->input };
}

static void input_free(struct session *session)
{
	if (session->input && session->wipes)
		login_wipe(session->input, SESSION_INPUT_BYTES);
	free(session->input);
	session->input = NULL;
}

/* Keeps what has not been executed in memory of the session. False: no memory. */
static bool input_keep(struct session *session, const struct session_input *input)
{
	if (session->input)
		return true;
	session->input = malloc(SESSION_INPUT_BYTES);
	if (!session->input)
		return false;
	session->input_at = 0;
	session->input_len = input->len - input->at;
	memcpy(session->input, input->bytes + input->at, session->input_len);
	return true;
}

/* Keeps what has not been executed. False: no memory. */
static bool input_close(struct session *session, const struct session_input *input)
{
	bool kept = true;

	session->input_at = input->at;
	session->input_len = input->len;
	if (input->at == input->len)
		input_free(session);
	else
		kept = input_keep(session, input);
	if (!session->wipes)
		return kept;
	login_wipe(session->sockets->input, SESSION_INPUT_BYTES);
	session->wipes = login_due(session) || session->input;
	return kept;
}

/* Receives once. False: there was nothing, or the session is shut. */
static bool input_receive(struct session *session, struct session_input *input)
{
	struct worker *worker = session->client.worker;
	size_t n;

	ahead_reset(&session->sockets->ahead);
	if (input->at) {
		memmove(input->bytes, input->bytes + input->at, input->len - input->at);
		input->len -= input->at;
		input->at = 0;
	}
	n = session_receive(session, input->bytes + input->len, SESSION_INPUT_BYTES - input->len);
	if (!n)
		return false;
	/* The clock is read after a request has arrived, and before it is executed. */
	store_thread_clock(&worker->part.thread);
	stat_set(&session->client.active_ns, worker->part.thread.now_ns);
	input->len += (uint32_t)n;
	return true;
}

/* Drops the data block of a refused command, as far as it has arrived. */
static void input_skip(struct session *session, struct session_input *input)
{
	uint64_t left = input->len - input->at;
	uint32_t n = (uint32_t)(session->skip < left ? session->skip : left);

	input->at += n;
	session->skip -= n;
}

static void block_drop(struct session *session, const struct mc_command *command)
{
	session->skip = (uint64_t)command->value_len + 2;
}

static bool block_ends(const struct mc_command *command, const uint8_t *block)
{
	return block[command->value_len] == '\r' && block[command->value_len + 1] == '\n';
}

static enum action_next block_refuse(struct session *session, const struct mc_command *command)
{
	if (!output_room(session, SESSION_ANSWER_MAX))
		return ACTION_CLOGGED;
	if (!command->noreply)
		output_line(session->sockets, "CLIENT_ERROR bad data chunk");
	return ACTION_DONE;
}

/* A key of a get that was not looked at: @len bytes at @text follow it. */
static void keys_look(struct session *session, const struct mc_command *command,
		      const uint8_t *text, uint64_t len)
{
	struct ahead *ahead = &session->sockets->ahead;

	if (len && ahead->next == ahead->count)
		ahead_look(ahead, session->client.part->thread.table, text, len, command->more);
}

/*
 * Executes the command at the start of the input. ACTION_MORE: it is not all there. Unless it is
 * done it is decoded again the next time: the parser is as before.
 */
static enum action_next command_run(struct session *session, struct session_input *input,
				    uint64_t until_ns)
{
	const struct mc_parser before = session->parser;
	const uint8_t *bytes = input->bytes + input->at, *block = NULL;
	uint64_t left = input->len - input->at, used;
	struct mc_command command;
	enum action_next next;

	if (login_due(session))
		return login_run(session, input);
	if (before.state == MC_LINE_START)
		output_line_begin(session->sockets);
	used = mc_parse(&session->parser, &command, bytes, left);
	if (!used)
		return ACTION_MORE;
	if (command.op == MC_NONE) {
		input->at += (uint32_t)used;
		return ACTION_DONE;
	}
	if (perform_has_block(&command) && command.value_len > session_value_max(session)) {
		next = perform_too_large(session, &command, (uint32_t)used, until_ns);
		if (next == ACTION_DONE)
			block_drop(session, &command);
	} else if (perform_has_block(&command) && command.value_len > SESSION_BLOCK_MAX) {
		next = perform_large(session, &command, bytes, (uint32_t)used, until_ns);
		if (next == ACTION_DONE && !session->put)
			block_drop(session, &command);
	} else if (perform_has_block(&command)) {
		block = bytes + used;
		used += (uint64_t)command.value_len + 2;
		if (used > left)
			return ACTION_MORE;
		next = block_ends(&command, block) ?
			       perform(session, &command, block, (uint32_t)used, until_ns) :
			       block_refuse(session, &command);
	} else {
		if (command.op == MC_GET)
			keys_look(session, &command, bytes + used, left - used);
		if (command.op == MC_REFUSED && before.state != MC_LINE_START)
			output_line_drop(session->sockets);
		next = perform(session, &command, NULL, (uint32_t)used, until_ns);
	}
	if (next == ACTION_DONE || next == ACTION_END) {
		input->at += (uint32_t)used;
		forwards_end(session);
		return next;
	}
	if (next == ACTION_WAIT && session->forwards && session->forwards->asked &&
	    perform_is_read(&command))
		forward_ahead(session, &command, session->parser, bytes + used, left - used,
			      until_ns);
	session->parser = before;
	return next;
}

/* Looks at the clock now and then, and after output was sent: that takes long with TLS. */
static bool time_is_up(struct sockets *sockets, unsigned int ran, uint64_t until_ns)
{
	if (ran % LOOK_EVERY && !sockets->sent)
		return false;
	sockets->sent = false;
	return clock_ns() >= until_ns;
}

/* Executes commands until one is not done, or the share is used up: ACTION_AGAIN. */
static enum action_next commands_run(struct session *session, struct session_input *input,
				     uint64_t until_ns, unsigned int *commands)
{
	enum action_next next = ACTION_DONE;
	unsigned int ran = 0;

	while (next == ACTION_DONE && !session->clogged && !session->broken) {
		input_skip(session, input);
		if (large_get_begun(session)) {
			next = large_get_run(session, until_ns);
			continue;
		}
		if (session->put) {
			next = perform_block(session, input, until_ns);
			continue;
		}
		if (input->at == input->len)
			return ACTION_MORE;
		if (ran && (!*commands || time_is_up(session->sockets, ran, until_ns))) {
			stat_add(&session_counters(session)->conn_yields, 1);
			return ACTION_AGAIN;
		}
		*commands -= *commands > 0;
		next = command_run(session, input, until_ns);
		if (next == ACTION_DONE) {
			stat_add(&session->client.requests, 1);
			ran++;
		}
	}
	return next == ACTION_DONE ? ACTION_CLOGGED : next;
}

/* Sends the output of the turn and keeps the rest of the input. */
static enum serve_next serve_end(struct session *session, const struct session_input *input,
				 enum action_next next)
{
	bool sent = output_send(session) && !session->clogged;
	bool kept = input_close(session, input);

	if (next == ACTION_END)
		session->shut = session->ends = true;
	if (!kept)
		(void)client_ends(&session->client, CLIENT_FAILED);
	if (session->broken || !kept)
		return SERVE_END;
	if (session->ends || (session->shut && next == ACTION_MORE))
		return sent ? SERVE_END : SERVE_SOCKET;
	if (!sent || next == ACTION_MORE || next == ACTION_CLOGGED)
		return sent && session->unread ? SERVE_AGAIN : SERVE_SOCKET;
	return next == ACTION_WAIT ? SERVE_WAIT : SERVE_AGAIN;
}

enum serve_next serve(struct session *session, uint64_t until_ns, unsigned int *commands)
{
	struct session_input input;
	uint64_t before = session->client.requests;
	enum action_next next;
	bool received = false;

	session->clogged = session->sockets->sent = false;
	ahead_reset(&session->sockets->ahead);
	if (session->output && !output_resume(session))
		return session->broken ? SERVE_END : SERVE_SOCKET;
	if (session->ends)
		return SERVE_END;
	input = input_open(session);
	do {
		next = commands_run(session, &input, until_ns, commands);
		/*
		 * A block that is under way has received by itself; after commands were executed
		 * epoll(7) tells whether there are more.
		 */
		if (next != ACTION_MORE || received || session->shut || session->put ||
		    session->client.requests != before)
			break;
		received = input_receive(session, &input);
	} while (received);
	return serve_end(session, &input, next);
}

void serve_release(struct session *session)
{
	large_put_end(session);
	action_cancel(session);
	forwards_free(session);
	input_free(session);
	output_release(session);
	login_release(session);
	session_query_free(session);
}
