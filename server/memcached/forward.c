/* SPDX-License-Identifier: MIT */
#include "server/memcached/forward.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <urcu/compiler.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/config/config.h"
#include "server/fleet/fleet.h"
#include "server/memcached/output.h"

#define NS_PER_MS 1000000ull
/* Of a value that is stored or read, for which there is one ms more. */
#define BYTES_PER_MS (64u << 10)
/* Sessions that are woken when one request has come back. */
#define WAKES_MAX 8u

static_assert((int)KVD_PUT_SET == (int)WIRE_SET && (int)KVD_PUT_IF_ABSENT == (int)WIRE_ADD &&
		      (int)KVD_PUT_IF_PRESENT == (int)WIRE_REPLACE &&
		      (int)KVD_PUT_IF_VERSION == (int)WIRE_CAS &&
		      (int)KVD_PUT_APPEND == (int)WIRE_APPEND &&
		      (int)KVD_PUT_PREPEND == (int)WIRE_PREPEND,
	      "modes are alike");

struct forward *forward_of(const struct session *session, uint64_t command, unsigned int stage)
{
	struct forward *forward;

	if (!session->forwards)
		return NULL;
	LIST_FOREACH(forward, &session->forwards->list, of_session)
		if (forward->command == command && forward->stage == stage)
			return forward;
	return NULL;
}

static uint32_t owner_of(const struct session *session, uint64_t hash,
			 const struct fleet_view **view)
{
	*view = fleet_view(session->client.fleet);
	return fleet_row_owner((*view)->map->rows[fleet_shard(hash)]);
}

static uint32_t lane_of(const struct session *session, uint64_t hash)
{
	const struct fleet_view *view;

	return owner_of(session, hash, &view) % FORWARDER_LANES;
}

static bool lane_has_room(const struct sockets *sockets, uint32_t lane)
{
	return sockets->forwards < FORWARD_WORKER_MAX &&
	       sockets->forward_lanes[lane] < FORWARD_LANE_MAX;
}

bool forward_room(struct session *session, uint64_t hash, bool waits)
{
	struct session_forwards *forwards = session->forwards;
	struct sockets *sockets = session->sockets;
	uint32_t lane = lane_of(session, hash);

	/* One of its own comes back, and wakes it. */
	if (forwards->asked >= FORWARD_SESSION_MAX)
		return false;
	if (lane_has_room(sockets, lane))
		return true;
	if (!waits)
		return false;
	session->waits = true;
	forwards->lane = lane;
	if (!forwards->waits)
		TAILQ_INSERT_TAIL(&sockets->forward_waits, session, forwards->entry);
	forwards->waits = true;
	return false;
}

void forward_wait_end(struct session *session)
{
	if (!session->forwards || !session->forwards->waits)
		return;
	TAILQ_REMOVE(&session->sockets->forward_waits, session, forwards->entry);
	session->forwards->waits = false;
}

/* Wakes sessions that wait for room that there is; some, as each may take some. */
static void waits_look(struct sockets *sockets)
{
	struct session *session, *next;
	unsigned int woken = 0;

	for (session = TAILQ_FIRST(&sockets->forward_waits); session && woken < WAKES_MAX;
	     session = next) {
		next = TAILQ_NEXT(session, forwards->entry);
		if (!lane_has_room(sockets, session->forwards->lane))
			continue;
		forward_wait_end(session);
		session->client.wake(&session->client);
		woken++;
	}
}

static void op_read(struct kvd_op *op, const struct forward_ask *ask)
{
	const struct request *request = ask->request;

	if (request->op == WIRE_TOUCH)
		op->op = KVD_OP_GET_AND_TOUCH;
	else if (ask->no_value || request->flags & WIRE_F_NO_VALUE)
		op->op = KVD_OP_EXISTS;
	else
		op->op = KVD_OP_GET;
}

static void op_fill(struct kvd_op *op, const struct forward_ask *ask)
{
	const struct request *request = ask->request;

	op->ttl_s = request->ttl;
	switch ((enum wire_op)request->op) {
	case WIRE_PUT:
		op->op = KVD_OP_PUT;
		op->mode = (enum kvd_put_mode)request->mode;
		op->value_len = request->value_len;
		if (op->mode == KVD_PUT_APPEND || op->mode == KVD_PUT_PREPEND)
			op->ttl_s = 0;
		else
			op->flags = request->item_flags;
		if (op->mode == KVD_PUT_IF_VERSION)
			op->if_version = request->version;
		break;
	case WIRE_DELETE:
		op->op = KVD_OP_DELETE;
		if (request->flags & WIRE_F_IF_VERSION) {
			op->mode = KVD_PUT_IF_VERSION;
			op->if_version = request->version;
		}
		break;
	case WIRE_ARITH:
		op->op = request->mode == WIRE_INCR ? KVD_OP_INCR : KVD_OP_DECR;
		op->delta = request->delta;
		op->create = request->flags & WIRE_F_CREATE;
		op->initial = request->initial;
		break;
	case WIRE_TOUCH:
		op->op = KVD_OP_TOUCH;
		if (request->flags & WIRE_F_VALUE)
			op_read(op, ask);
		break;
	default:
		op_read(op, ask);
		break;
	}
}

static bool op_reads_value(const struct kvd_op *op, const struct forward_ask *ask)
{
	return op->op == KVD_OP_GET || (op->op == KVD_OP_GET_AND_TOUCH && !ask->no_value);
}

/* A flush has its own thread: it takes no room from others, and a session has one at most. */
static void lane_count(struct sockets *sockets, const struct forward *forward, int more)
{
	if (forward->kind == FORWARD_FLUSH)
		return;
	sockets->forwards += (unsigned int)more;
	sockets->forward_lanes[forward->lane] += (unsigned int)more;
}

/* Adds it to what the session and its worker have under way, and sends it. */
static void forward_go(struct session *session, struct forward *forward, uint64_t ms)
{
	forward->done = false;
	forward->why[0] = '\0';
	forward->end_ns = clock_ns() + ms * NS_PER_MS;
	session->forwards->asked++;
	lane_count(session->sockets, forward, 1);
	stat_add(&session_counters(session)->forwarded, 1);
	forwarder_send(forwarder_of(session), forward);
}

static struct forward *forward_make(struct session *session, size_t bytes)
{
	struct forward *forward = malloc(sizeof(*forward) + bytes);

	if (!forward)
		return NULL;
	memset(forward, 0, sizeof(*forward));
	forward->back = &session->client.worker->mailbox;
	forward->note = (struct note){ .session = session, .kind = NOTE_FORWARDED };
	forward->session = session;
	forward->command = session->forwards->command;
	strcpy(forward->tenant, session->client.part->tenant->name);
	LIST_INSERT_HEAD(&session->forwards->list, forward, of_session);
	return forward;
}

static uint64_t ms_for(const struct session *session, uint64_t bytes)
{
	const struct config *config = session->client.worker->env->config;

	return stat_read(&config->memcached.forward_timeout) / NS_PER_MS + bytes / BYTES_PER_MS;
}

bool forward_ask(struct session *session, const struct forward_ask *ask)
{
	const struct request *request = ask->request;
	struct forward *forward;
	struct kvd_op op = { 0 };
	const struct fleet_view *view;
	size_t room = 0;
	uint32_t owner;

	op_fill(&op, ask);
	if (op_reads_value(&op, ask))
		room = FORWARD_VALUE_MAX;
	else if (op.op == KVD_OP_PUT && !ask->in_place)
		room = request->value_len;
	forward = forward_make(session, request->key_len + room);
	if (!forward)
		return false;
	memcpy(forward->bytes, request->key, request->key_len);
	op.key = forward->bytes;
	op.key_len = request->key_len;
	op.value = ask->in_place ? (void *)(uintptr_t)request->value :
				   forward->bytes + request->key_len;
	if (op.op == KVD_OP_PUT && !ask->in_place && room)
		memcpy(op.value, request->value, room);
	if (op.op != KVD_OP_PUT)
		op.value_len = room;
	forward->op = op;
	forward->command = ask->command;
	forward->stage = ask->stage;
	owner = owner_of(session, ask->hash, &view);
	forward->lane = owner % FORWARDER_LANES;
	if (owner < view->map->head->members)
		memcpy(forward->member, view->map->members[owner]->id, FLEET_NAME_MAX);
	forward_go(session, forward, ms_for(session, op.op == KVD_OP_PUT ? request->value_len : 0));
	return true;
}

bool forward_flush(struct session *session, uint32_t delay_s)
{
	struct forward *forward = forward_make(session, 0);

	if (!forward)
		return false;
	forward->kind = FORWARD_FLUSH;
	forward->op.ttl_s = delay_s;
	forward->op.timeout_ms = (uint32_t)ms_for(session, 0);
	forward_go(session, forward, 0);
	return true;
}

static void large_free(struct session *session, struct forward *forward)
{
	if (forward->large)
		free(forward_large_take(session, forward));
}

uint8_t *forward_large_take(struct session *session, struct forward *forward)
{
	uint8_t *large = forward->large;

	forward->large = NULL;
	output_drop(session, forward->large_bytes);
	return large;
}

bool forward_again(struct session *session, struct forward *forward, size_t beside, size_t gap,
		   bool *waits)
{
	struct kvd_op op = { .op = forward->op.op, .ttl_s = forward->op.ttl_s };
	size_t len = forward->op.item.value_len;

	/* The value may have grown. */
	large_free(session, forward);
	*waits = !output_count(session, len + beside);
	if (*waits)
		return false;
	forward->large = malloc(len + beside);
	if (!forward->large) {
		output_drop(session, len + beside);
		return false;
	}
	forward->large_bytes = len + beside;
	op.key = forward->op.key;
	op.key_len = forward->op.key_len;
	op.value = forward->large + gap;
	op.value_len = len;
	forward->op = op;
	forward_go(session, forward, ms_for(session, len));
	return true;
}

/* The statuses that are answers, or refusals which each member would give. */
static enum wire_status status_of(const struct forward *forward)
{
	switch (forward->op.status) {
	case KVD_OK:
		return WIRE_OK;
	case KVD_ERR_BUFFER: /* the item is known */
		return WIRE_OK;
	case KVD_NOT_FOUND:
		return WIRE_NOT_FOUND;
	case KVD_ERR_EXISTS:
		return WIRE_EXISTS;
	case KVD_ERR_TOO_LARGE:
		return WIRE_TOO_LARGE;
	case KVD_ERR_NO_SPACE:
		return WIRE_NO_SPACE;
	case KVD_ERR_NOT_A_NUMBER:
		return WIRE_NOT_A_NUMBER;
	case KVD_ERR_BUSY:
		return forward->kind == FORWARD_OP ? WIRE_BUSY : WIRE_AWAY;
	default:
		return WIRE_AWAY;
	}
}

static bool is_change(const struct kvd_op *op)
{
	return op->op != KVD_OP_GET && op->op != KVD_OP_EXISTS;
}

/* What is known of the effect of a request that has failed. */
static const char *effect_of(const struct forward *forward)
{
	if (forward->kind == FORWARD_FLUSH)
		return "; some members may have flushed";
	if (!is_change(&forward->op))
		return "";
	switch (forward->op.status) {
	case KVD_ERR_TIMEOUT:
	case KVD_ERR_UNKNOWN:
		return "; the change may have been made";
	default:
		return "; nothing was changed";
	}
}

static void error_write(struct forward *forward)
{
	const char *why = *forward->why ? forward->why : kvd_status_text(forward->op.status);

	snprintf(forward->error, sizeof(forward->error), "SERVER_ERROR %s%s%s: %s%s",
		 *forward->member ? "member " : "", *forward->member ? forward->member : "fleet",
		 *forward->member ? " of the fleet" : "", why, effect_of(forward));
}

void forward_result(const struct forward *forward, struct wire_response *head)
{
	const struct kvd_op *op = &forward->op;

	*head = (struct wire_response){ .status = (uint8_t)status_of(forward) };
	if (head->status)
		return;
	head->version = op->item.version;
	head->item_flags = op->item.flags;
	head->expires = op->item.expires_s;
	head->result = op->op == KVD_OP_INCR || op->op == KVD_OP_DECR ? op->number :
									op->item.value_len;
}

const char *forward_error(const struct session *session)
{
	const struct forward *forward;

	if (!session->forwards)
		return NULL;
	LIST_FOREACH(forward, &session->forwards->list, of_session)
		if (forward->command == session->forwards->command && forward->done &&
		    *forward->error)
			return forward->error;
	return NULL;
}

static void forward_free(struct forward *forward)
{
	large_free(forward->session, forward);
	LIST_REMOVE(forward, of_session);
	free(forward);
}

struct session *forward_returned(struct note *note)
{
	struct forward *forward = caa_container_of(note, struct forward, note);
	struct session *session = forward->session;
	struct sockets *sockets = session->sockets;

	forward->done = true;
	session->forwards->asked--;
	lane_count(sockets, forward, -1);
	if (status_of(forward) == WIRE_AWAY) {
		stat_add(&session_counters(session)->forward_failed, 1);
		error_write(forward);
	}
	if (forward->command < session->forwards->command)
		forward_free(forward);
	waits_look(sockets);
	return session;
}

/* Goes on by that many commands, and frees what has come back for those before it. */
static void command_next(struct session *session, uint64_t commands)
{
	struct session_forwards *forwards = session->forwards;
	struct forward *forward, *next;
	uint64_t command;

	if (!forwards)
		return;
	command = forwards->command + commands;
	forwards->paid = 0;
	forwards->command = command;
	for (forward = LIST_FIRST(&forwards->list); forward; forward = next) {
		next = LIST_NEXT(forward, of_session);
		if (forward->command < command && forward->done)
			forward_free(forward);
	}
}

void forwards_end(struct session *session)
{
	command_next(session, 1);
}

void forwards_drop(struct session *session)
{
	command_next(session, SESSION_INPUT_BYTES);
}

void forwards_free(struct session *session)
{
	struct forward *forward;

	if (!session->forwards)
		return;
	forward_wait_end(session);
	while ((forward = LIST_FIRST(&session->forwards->list)))
		forward_free(forward);
	free(session->forwards);
	session->forwards = NULL;
}
