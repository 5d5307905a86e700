/* SPDX-License-Identifier: MIT */
#include "server/memcached/perform.h"

#include "common/util/stat.h"
#include "server/config/version.h"
#include "server/memcached/classic_run.h"
#include "server/memcached/forward.h"
#include "server/memcached/large_put.h"
#include "server/memcached/marks.h"
#include "server/memcached/meta_run.h"
#include "server/worker/permit.h"

/* Clients ask for a version of memcached to learn what a server can do. */
#define VERSION_LINE "VERSION 1.6.18-kvd-" KVD_SERVER_VERSION

static enum action_next refused(struct session *session, const struct mc_command *command)
{
	session->skip = command->swallow;
	if (command->error && !command->noreply)
		output_line(session->sockets, command->error);
	if (!command->close)
		return ACTION_DONE;
	(void)client_ends(&session->client, CLIENT_PROTOCOL);
	return ACTION_END;
}

/*
 * An item that was stored before flush_all is found no more once it is answered, so the session
 * waits for the flush.
 */
static enum action_next flush_wait(struct session *session)
{
	if (!maintenance_flushed(&session->client.part->store->maintenance, session->flush_ticket))
		return ACTION_WAIT;
	session->flush_ticket = 0;
	return ACTION_DONE;
}

/* A later flush replaces one with a delay, as memcached's does. */
static void flush_replace(struct session *session)
{
	const struct user *user = client_user(&session->client);

	if (!user || user->rights & USER_FLUSH)
		maintenance_cancel(&session->client.part->store->maintenance, 0,
				   session->client.principal->name);
}

/* All members flush, this one too. */
static enum action_next fleet_flush(struct session *session, struct action *action, int64_t delay)
{
	const struct user *user = client_user(&session->client);
	struct forward *forward = forward_of(session, session_command(session), 0);

	action->request.mode = WIRE_FLUSH_START;
	if (!forward) {
		if (user)
			action->head.status = (uint8_t)permit_admit(
				&session->client, user, &action->request, action->received);
		if (!action->head.status &&
		    forward_flush(session, delay == MC_EXPIRED ? 0 : (uint32_t)delay))
			return ACTION_WAIT;
		if (!action->head.status)
			action->head.status = WIRE_NO_SPACE;
		action_count(action);
		action_refuse(action);
		return ACTION_DONE;
	}
	if (!forward->done)
		return ACTION_WAIT;
	forward_result(forward, &action->head);
	if (action->head.status) {
		action_refuse(action);
		return ACTION_DONE;
	}
	stat_add(&session_counters(session)->cmd_flush, 1);
	action_answer(action, "OK");
	return ACTION_DONE;
}

static enum action_next flush(struct session *session, const struct mc_command *command,
			      uint32_t received, uint64_t until_ns)
{
	int64_t delay = action_ttl(command->exptime);
	struct action action;
	enum action_next next;

	action_init(&action, session, command, WIRE_FLUSH, received, until_ns);
	if (forwarder_of(session))
		return fleet_flush(session, &action, delay);
	if (session->flush_ticket) {
		next = flush_wait(session);
		if (next == ACTION_DONE)
			action_answer(&action, "OK");
		return next;
	}
	flush_replace(session);
	action.request.mode = WIRE_FLUSH_START;
	action.request.ttl = delay == MC_EXPIRED ? 0 : (uint32_t)delay;
	next = action_run(&action);
	if (next != ACTION_DONE)
		return next;
	if (action.head.status) {
		action_refuse(&action);
		return ACTION_DONE;
	}
	stat_add(&session_counters(session)->cmd_flush, 1);
	if (action.request.ttl) {
		action_answer(&action, "OK");
		return ACTION_DONE;
	}
	session->flush_ticket = action.head.ticket;
	return ACTION_AGAIN;
}

/* The control thread makes the text: server/memcached/stats_text.h. */
static enum action_next stats(struct session *session, const struct mc_command *command,
			      uint32_t received, uint64_t until_ns)
{
	const struct user *user = client_user(&session->client);
	struct session_query *query = session->query;
	struct action action;

	action_init(&action, session, command, WIRE_STATS, received, until_ns);
	if (session->ask == SESSION_ASKED)
		return ACTION_WAIT;
	if (session->ask == SESSION_ANSWERED) {
		if (!output_send(session))
			return ACTION_CLOGGED;
		session->ask = SESSION_ASKS_NOTHING;
		if (query->text)
			(void)output_keep(session, (uint8_t *)query->text, 0, query->len);
		else
			output_line(session->sockets, "SERVER_ERROR out of memory");
		query->text = NULL;
		session_query_free(session);
		action_count(&action);
		return ACTION_DONE;
	}
	if (user)
		action.head.status = (uint8_t)permit_admit(&session->client, user, &action.request,
							   received);
	if (action.head.status) {
		action_count(&action);
		action_refuse(&action);
		return ACTION_DONE;
	}
	session->query = calloc(1, sizeof(*session->query));
	if (!session->query) {
		output_line(session->sockets, "SERVER_ERROR out of memory");
		return ACTION_DONE;
	}
	session_query_name(session->query, command->key, command->key_len);
	session->ask = SESSION_ASKED;
	session_note_send(session, session->client.worker->env->control, NOTE_SESSION_ASKS);
	return ACTION_WAIT;
}

enum action_next perform_too_large(struct session *session, const struct mc_command *command,
				   uint32_t received, uint64_t until_ns)
{
	struct action action;
	enum action_next next;

	if (!output_room(session, SESSION_ANSWER_MAX))
		return ACTION_CLOGGED;
	action_init(&action, session, command, WIRE_PUT, received, until_ns);
	action.request.mode = command->mode;
	next = action_too_large(&action);
	if (next != ACTION_DONE)
		return next;
	/* Maybe it has become a DELETE. */
	action.request.op = WIRE_PUT;
	action_count(&action);
	stat_add(&session_counters(session)->store_too_large, 1);
	action_refuse(&action);
	return ACTION_DONE;
}

static void put_request(struct action *action)
{
	if (action->command->op == MC_META_PUT)
		meta_put_request(action, NULL);
	else
		classic_put_request(&action->request, action->command, NULL);
}

static void put_done(struct action *action)
{
	if (action->command->op == MC_META_PUT)
		meta_put_done(action);
	else
		classic_put_done(action);
}

enum action_next perform_large(struct session *session, const struct mc_command *command,
			       const uint8_t *line, uint32_t received, uint64_t until_ns)
{
	struct action action;
	bool foreign;

	if (!output_room(session, SESSION_ANSWER_MAX))
		return ACTION_CLOGGED;
	action_init(&action, session, command, WIRE_PUT, received, until_ns);
	put_request(&action);
	/* The value has expired when it is stored: it need not arrive. */
	if (action.request.op != WIRE_PUT)
		return perform(session, command, NULL, received, until_ns);
	action.head.status = (uint8_t)action_admit(&action);
	foreign = action.head.status == WIRE_MOVED && !action.only_here;
	if (foreign)
		action.head.status = WIRE_OK;
	if (!action.head.status && !large_put_begin(session, &action, line, foreign))
		action.head.status = WIRE_NO_SPACE;
	if (action.head.status) {
		action_count(&action);
		put_done(&action);
	}
	return ACTION_DONE;
}

static void block_done(struct session *session, const struct wire_response *head, bool malformed,
		       uint64_t until_ns)
{
	struct mc_command command;
	struct action action;

	large_put_command(session, &command);
	action_init(&action, session, &command, WIRE_PUT, 0, until_ns);
	action.request.mode = command.mode;
	action.head = *head;
	if (malformed)
		action_answer(&action, "CLIENT_ERROR bad data chunk");
	else
		put_done(&action);
	large_put_end(session);
	forwards_end(session);
}

/* An item that is stale as soon as it is found: ms with I. */
static void stale_end(struct session *session, const struct wire_response *head, bool stored)
{
	struct mc_command command;
	struct action action;

	large_put_command(session, &command);
	action_init(&action, session, &command, WIRE_PUT, 0, 0);
	action.head = *head;
	meta_stale_end(&action, MARK_STALE, stored);
}

enum action_next perform_block(struct session *session, struct session_input *input,
			       uint64_t until_ns)
{
	struct wire_response head;
	enum action_next next;
	bool malformed, stale;
	uint64_t hash;

	if (!output_room(session, SESSION_ANSWER_MAX))
		return ACTION_CLOGGED;
	stale = large_put_is_stale(session, &hash);
	if (stale)
		meta_stale_begin(session, hash);
	next = large_put_run(session, input, &head, &malformed, until_ns);
	if (stale)
		stale_end(session, &head, next == ACTION_DONE && !malformed && !head.status);
	if (next == ACTION_DONE)
		block_done(session, &head, malformed, until_ns);
	return next;
}

enum action_next perform(struct session *session, const struct mc_command *command,
			 const uint8_t *block, uint32_t received, uint64_t until_ns)
{
	if (command->op >= MC_GET && command->op <= MC_TOUCH)
		return classic_run(session, command, block, received, until_ns);
	if (command->op >= MC_META_GET && command->op != MC_META_NOOP)
		return meta_run(session, command, block, received, until_ns);
	if (!output_room(session, SESSION_ANSWER_MAX))
		return ACTION_CLOGGED;
	switch (command->op) {
	case MC_REFUSED:
		return refused(session, command);
	case MC_FLUSH:
		return flush(session, command, received, until_ns);
	case MC_STATS:
		return stats(session, command, received, until_ns);
	case MC_VERSION:
		output_line(session->sockets, VERSION_LINE);
		return ACTION_DONE;
	case MC_VERBOSITY:
		if (!command->noreply)
			output_line(session->sockets, "OK");
		return ACTION_DONE;
	case MC_QUIT:
		return ACTION_END;
	case MC_SHUTDOWN:
		output_line(session->sockets, "ERROR: shutdown not enabled");
		return ACTION_DONE;
	default: /* MC_META_NOOP */
		output_line(session->sockets, "MN");
		return ACTION_DONE;
	}
}
