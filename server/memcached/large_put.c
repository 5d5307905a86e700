/* SPDX-License-Identifier: MIT */
#include "server/memcached/large_put.h"

#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/memcached/forward.h"
#include "server/memcached/stream.h"
#include "server/worker/member.h"
#include "server/worker/permit.h"

struct large_put {
	enum {
		LARGE_PUT_ASKS, /* for memory */
		LARGE_PUT_ROOM,
		LARGE_PUT_VALUE,
		LARGE_PUT_STOPPED, /* it failed, or is done */
	} state;
	struct session *session;
	TAILQ_ENTRY(large_put) entry; /* in sockets->puts, while it holds memory */
	bool listed;
	struct request request; /* its key is @key */
	uint64_t hash;
	struct budget_hold hold, build;
	struct room room;
	struct table_change change;
	struct item *item; /* the steps', from LARGE_PUT_VALUE on; NULL: `foreign` */
	bool foreign;	   /* another member has the key, and may be asked */
	bool only_here;	   /* action->only_here */
	uint8_t *memory;   /* of a foreign value, of malloc() */
	struct large steps;
	uint32_t arrived;		/* of the block, with its end */
	uint8_t end[2];			/* what ends it */
	uint64_t since_ns, progress_ns; /* when memory was given, and when bytes arrived last */
	uint8_t key[KEY_MAX];
	uint32_t line_len;
	uint8_t line[MC_BUFFER_MIN];
};

static struct budget *budget_of(const struct session *session)
{
	return &session->client.part->tenant->pull_budget;
}

bool large_put_begin(struct session *session, const struct action *action, const uint8_t *line,
		     bool foreign)
{
	const struct mc_command *command = action->command;
	struct large_put *put = calloc(1, sizeof(*put));

	if (!put)
		return false;
	session->put = put;
	put->session = session;
	put->request = action->request;
	put->foreign = foreign;
	put->only_here = action->only_here;
	memcpy(put->key, command->key, command->key_len);
	put->request.key = put->key;
	put->line_len = action->received;
	memcpy(put->line, line, action->received);
	put->hash = table_hash(session->client.part->thread.table, put->key, command->key_len);
	put->hold = (struct budget_hold){
		.client = &session->client,
		.own = &session->client.gates->pulls,
	};
	room_init(&put->room);
	put_change_init(&put->request, &put->change);
	return true;
}

void large_put_command(const struct session *session, struct mc_command *command)
{
	const struct large_put *put = session->put;
	struct mc_parser parser = { .key_max = session->parser.key_max };

	(void)mc_parse(&parser, command, put->line, put->line_len);
}

bool large_put_is_stale(const struct session *session, uint64_t *hash)
{
	struct mc_command command;

	large_put_command(session, &command);
	*hash = session->put->hash;
	return command.mode != session->put->request.mode;
}

static void clock_stop(struct large_put *put)
{
	if (!put->listed)
		return;
	put->listed = false;
	TAILQ_REMOVE(&put->session->sockets->puts, put, entry);
	stat_sub(&put->session->client.worker->pulls_count, 1);
}

/* Gives back all that the put holds. */
static void put_stop(struct large_put *put)
{
	struct session *session = put->session;

	if (put->state == LARGE_PUT_STOPPED)
		return;
	if (put->state == LARGE_PUT_VALUE && put->item)
		large_cancel(&put->steps);
	free(put->memory);
	put->memory = NULL;
	room_cancel(&put->room);
	budget_give_build(&session->client, &put->build);
	budget_leave(budget_of(session), &put->hold);
	budget_give(budget_of(session), &put->hold, put->hold.bytes);
	clock_stop(put);
	put->state = LARGE_PUT_STOPPED;
}

void large_put_end(struct session *session)
{
	struct large_put *put = session->put;
	struct worker *worker = session->client.worker;

	if (!put)
		return;
	/* The client has not sent what it holds memory for: BUDGET-4. */
	if (put->listed)
		late_principals_add(worker->env->late_principals, session->client.principal,
				    clock_ns() + stat_read(&worker->limits.pull_ns));
	put_stop(put);
	session->skip = (uint64_t)put->request.value_len + 2 - put->arrived;
	free(put);
	session->put = NULL;
}

static void put_count(const struct large_put *put, const struct wire_response *head)
{
	const struct client *client = &put->session->client;

	command_count(&client->worker->commands, client->kind, WIRE_PUT, head->status, 0);
}

static enum action_next put_fail(struct large_put *put, enum wire_status status,
				 struct wire_response *head)
{
	put_stop(put);
	head->status = (uint8_t)status;
	if (status)
		put_count(put, head);
	return ACTION_DONE;
}

static uint64_t memory_bytes_of(const struct request *request)
{
	return mem_class_bytes(
		item_bytes_for(request->key_len, request->value_len, request->item_flags));
}

/* LARGE-PUT-1. False: it waits. */
static bool put_admit(struct large_put *put)
{
	struct session *session = put->session;
	struct worker *worker = session->client.worker;
	bool waited = put->hold.wanted, admitted, late;

	late = late_principals_have(worker->env->late_principals, session->client.principal,
				    clock_ns());
	if (late || !waited)
		budget_set_late(budget_of(session), &put->hold, late);
	admitted = budget_take(budget_of(session), &put->hold, memory_bytes_of(&put->request));
	stat_add(&worker->stats.pulls_waited, !admitted && !waited);
	return admitted;
}

/* Memory was given: the client's time runs. */
static void clock_start(struct large_put *put)
{
	struct sockets *sockets = put->session->sockets;

	put->since_ns = put->progress_ns = clock_ns();
	put->listed = true;
	TAILQ_INSERT_TAIL(&sockets->puts, put, entry);
	stat_add(&put->session->client.worker->pulls_count, 1);
}

/* Makes the item, when there is memory for it. ACTION_DONE: it is made, or @status is an error. */
static enum action_next put_reserve(struct large_put *put, enum wire_status *status,
				    uint64_t until_ns)
{
	struct store_thread *thread = client_thread(&put->session->client);
	enum piece_next next;

	if (put->state == LARGE_PUT_ASKS && !put_admit(put)) {
		put->session->waits = true;
		return ACTION_WAIT;
	}
	if (put->foreign) {
		put->memory = malloc(put->request.value_len);
		*status = put->memory ? WIRE_OK : WIRE_NO_SPACE;
		put->state = put->memory ? LARGE_PUT_VALUE : put->state;
		if (put->memory)
			clock_start(put);
		return ACTION_DONE;
	}
	if (put->state == LARGE_PUT_ROOM) {
		next = piece_room(&put->room, until_ns);
		if (next != PIECE_DONE)
			return ACTION_AGAIN;
	}
	put->item = table_reserve_begin(thread, &put->change, &put->room);
	if (!put->item && room_pending(&put->room)) {
		put->state = LARGE_PUT_ROOM;
		return ACTION_AGAIN;
	}
	*status = put->item ? WIRE_OK : WIRE_NO_SPACE;
	if (!put->item)
		return ACTION_DONE;
	room_init(&put->room);
	large_commit(&put->steps, thread, put->hash, put->item, &put->change);
	put->state = LARGE_PUT_VALUE;
	permit_charge(&put->session->client, put->request.value_len, thread->now_ns);
	clock_start(put);
	return ACTION_DONE;
}

static uint32_t left_of(const struct large_put *put)
{
	return put->request.value_len + 2 - put->arrived;
}

static void bytes_arrived(struct large_put *put, uint32_t bytes)
{
	put->arrived += bytes;
	if (put->item && put->arrived <= put->request.value_len)
		put->steps.arrived = put->arrived;
}

/* Where the next byte of the block goes, and how many may go there. */
static uint8_t *place_of(struct large_put *put, uint32_t *room)
{
	uint32_t value_len = put->request.value_len;

	if (put->arrived < value_len) {
		*room = value_len - put->arrived;
		return (put->item ? (uint8_t *)table_reserved_value(put->item) : put->memory) +
		       put->arrived;
	}
	*room = left_of(put);
	return put->end + (put->arrived - value_len);
}

/* Takes what the worker's input has of the block. */
static void input_take(struct large_put *put, struct session_input *input)
{
	uint32_t room, n;
	uint8_t *to;

	while (left_of(put) && input->at < input->len) {
		to = place_of(put, &room);
		n = input->len - input->at < room ? input->len - input->at : room;
		memcpy(to, input->bytes + input->at, n);
		input->at += n;
		bytes_arrived(put, n);
	}
}

/* Receives a part of the value. False: there is none now; or the session is shut. */
static bool value_receive(struct large_put *put)
{
	uint32_t room;
	uint8_t *to = place_of(put, &room);
	size_t n;

	n = session_receive(put->session, to, room < PIECE_STEP_BYTES ? room : PIECE_STEP_BYTES);
	if (!n)
		return false;
	put->progress_ns = clock_ns();
	bytes_arrived(put, (uint32_t)n);
	return true;
}

/* Receives, and sums what has arrived, until the time is up. ACTION_DONE: all has arrived. */
static enum action_next value_arrive(struct large_put *put, struct session_input *input,
				     uint64_t until_ns)
{
	input_take(put, input);
	while (left_of(put)) {
		if (!value_receive(put))
			return ACTION_MORE;
		if (put->item && put->steps.arrived - put->steps.value_done >= PIECE_STEP_BYTES)
			(void)large_step(&put->steps, PIECE_STEP_BYTES);
		if (clock_ns() >= until_ns)
			return ACTION_AGAIN;
	}
	clock_stop(put);
	return ACTION_DONE;
}

/* Sums the rest and commits the item. */
static enum action_next value_commit(struct large_put *put, struct wire_response *head,
				     uint64_t until_ns)
{
	struct client *client = &put->session->client;
	enum large_next next;

	do {
		if (!budget_take_build(client, &put->build, &put->steps)) {
			put->session->waits = true;
			return ACTION_WAIT;
		}
		next = large_step(&put->steps, PIECE_STEP_BYTES);
	} while (next == LARGE_AGAIN && clock_ns() < until_ns);
	if (next != LARGE_DONE)
		return ACTION_AGAIN;
	response_set_change(&put->steps.change, put->steps.status, head);
	return ACTION_DONE;
}

/* Has the key's member store the value. */
static enum action_next value_forward(struct large_put *put, struct wire_response *head)
{
	struct session *session = put->session;
	const struct forward *forward = forward_of(session, session_command(session), 0);
	const struct forward_ask ask = {
		.command = session_command(session),
		.request = &put->request,
		.hash = put->hash,
		.in_place = true,
	};

	if (forward && !forward->done)
		return ACTION_WAIT;
	if (forward) {
		forward_result(forward, head);
		return ACTION_DONE;
	}
	put->request.value = put->memory;
	if (!forward_room(session, put->hash, true) || forward_ask(session, &ask))
		return ACTION_WAIT;
	head->status = WIRE_NO_SPACE;
	return ACTION_DONE;
}

/*
 * OWNER-1: whether the value may be stored here, also after each wait. What has arrived for an item
 * is not sent to another member: clients try again what is WIRE_BUSY.
 */
static enum wire_status put_find(struct large_put *put)
{
	const struct client *client = &put->session->client;
	enum wire_status status;

	if (!client->fleet || put->foreign)
		return WIRE_OK;
	if (put->only_here)
		return member_admit_key(client, put->hash);
	status = member_find_key(client, put->hash);
	if (status != WIRE_MOVED)
		return status;
	if (put->state == LARGE_PUT_VALUE)
		return WIRE_BUSY;
	room_cancel(&put->room);
	put->foreign = true;
	return WIRE_OK;
}

enum action_next large_put_run(struct session *session, struct session_input *input,
			       struct wire_response *head, bool *malformed, uint64_t until_ns)
{
	struct large_put *put = session->put;
	struct client *client = &session->client;
	enum wire_status status = put_find(put);
	enum action_next next;

	*malformed = false;
	*head = (struct wire_response){ 0 };
	if (!status && put->state != LARGE_PUT_VALUE) {
		next = put_reserve(put, &status, until_ns);
		if (next != ACTION_DONE)
			return next;
	}
	if (status)
		return put_fail(put, status, head);
	next = value_arrive(put, input, until_ns);
	if (next != ACTION_DONE)
		return next;
	if (memcmp(put->end, "\r\n", 2) != 0) {
		*malformed = true;
		return put_fail(put, WIRE_OK, head);
	}
	next = put->foreign ? value_forward(put, head) : value_commit(put, head, until_ns);
	if (next != ACTION_DONE)
		return next;
	put_stop(put);
	if (put->foreign)
		return ACTION_DONE;
	put_count(put, head);
	execution_count(client, &put->request, head, client->active_ns);
	return ACTION_DONE;
}

struct session *large_puts_expired(struct sockets *sockets, uint64_t now_ns)
{
	const struct worker_limits *limits = &sockets->worker->limits;
	struct large_put *put;

	TAILQ_FOREACH(put, &sockets->puts, entry)
		if (now_ns >= put->since_ns + stat_read(&limits->pull_ns) ||
		    now_ns >= put->progress_ns + stat_read(&limits->pull_stall_ns))
			return put->session;
	return NULL;
}
