/* SPDX-License-Identifier: MIT */
/* Executes the operations of clients step by step, and counts them. */
#include "server/worker/execution.h"

#include <string.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/worker/audit.h"
#include "server/worker/member.h"
#include "server/worker/worker.h"

/*
 * Of a value read in parts the first part counts, of a range each. A GET that failed for lack of
 * room is asked for again, and a check whether a key exists is not a GET.
 */
static void get_count(struct client *client, const struct request *request, enum wire_status status)
{
	struct store_thread *thread = client_thread(client);

	if ((request->offset && !request->length) || request->flags & WIRE_F_NO_VALUE ||
	    (status != WIRE_OK && status != WIRE_NOT_FOUND))
		return;
	stat_add(&thread->stats.gets, 1);
	stat_add(&thread->stats.get_hits, status == WIRE_OK);
	stat_add(&thread->stats.get_misses, status == WIRE_NOT_FOUND);
}

void execution_count(struct client *client, const struct request *request,
		     const struct wire_response *head, uint64_t arrived_ns)
{
	trace_note(&client->worker->trace, client, request, head, arrived_ns);
	if (request->op == WIRE_GET || (request->op == WIRE_TOUCH && request->flags & WIRE_F_VALUE))
		get_count(client, request, (enum wire_status)head->status);
}

static_assert(sizeof(struct principal) <= FLUSH_OWNER_BYTES, "an owner is a principal");

static void flush_cancel(struct client *client, const struct request *request,
			 struct wire_response *head)
{
	bool any = request->mode == WIRE_FLUSH_CANCEL_ANY;

	head->result = maintenance_cancel(&client->part->store->maintenance, request->ticket,
					  any ? NULL : client->principal->name);
	head->status = head->result ? WIRE_OK : WIRE_NOT_FOUND;
	audit_admin(client, "cancel FLUSH", client->part->tenant->name,
		    head->result ? "ok" : "no such flush waits");
}

static uint64_t flush_begin(struct client *client, const struct request *request)
{
	uint64_t ticket = maintenance_flush(&client->part->store->maintenance,
					    client_thread(client)->now_ns, request->ttl,
					    client->principal->name);

	/* Without a delay and a place, the client asks again until there is one. */
	if (ticket || request->ttl)
		audit_admin(client, request->ttl ? "FLUSH later" : "FLUSH",
			    client->part->tenant->name, ticket ? "ok" : "too many flushes wait");
	return ticket;
}

static void flush(struct client *client, const struct request *request, struct wire_response *head)
{
	struct maintenance *maintenance = &client->part->store->maintenance;
	bool done;

	head->ticket = request->ticket;
	if (request->mode != WIRE_FLUSH_START) {
		flush_cancel(client, request, head);
		return;
	}
	if (client->fleet && member_freezes(client)) {
		head->status = WIRE_BUSY;
		return;
	}
	if (request->ticket) {
		done = maintenance_flushed(maintenance, request->ticket);
	} else {
		head->ticket = flush_begin(client, request);
		done = head->ticket;
	}
	head->status = done ? WIRE_OK : WIRE_BUSY;
}

/* Steps on a large item, until the time is up. */
static enum piece_next large_run_steps(struct execution_large *large, struct client *client,
				       const struct request *request, uint64_t hash,
				       struct wire_response *head, uint64_t until_ns)
{
	enum large_next next;

	if (!large->begun)
		execute_large_begin(&large->steps, client_thread(client), request, hash);
	large->begun = true;
	do {
		if (!budget_take_build(client, &large->hold, &large->steps))
			return PIECE_WAIT;
		next = large_step(&large->steps, PIECE_STEP_BYTES);
	} while (next == LARGE_AGAIN && clock_ns() < until_ns);
	if (next != LARGE_DONE)
		return next == LARGE_RETRY ? PIECE_IDLE : PIECE_AGAIN;
	response_set_change(&large->steps.change, large->steps.status, head);
	budget_give_build(client, &large->hold);
	return PIECE_DONE;
}

enum piece_next execution_run(struct execution *execution, struct client *client,
			      const struct request *request, uint64_t hash,
			      struct wire_response *head, struct response_value *value,
			      uint64_t until_ns)
{
	enum piece_next next;

	turn_note(&client->worker->turn, request->op, client->number);
	if (execution->next == EXECUTION_ROOM) {
		next = piece_room(&execution->room, until_ns);
		if (next != PIECE_DONE)
			return next;
		execution->next = EXECUTION_TRY;
	}
	if (execution->next == EXECUTION_LARGE)
		return large_run_steps(&execution->large, client, request, hash, head, until_ns);
	if (request->op == WIRE_FLUSH) {
		flush(client, request, head);
		return PIECE_DONE;
	}
	if (execute(client_thread(client), request, hash, head, value, &execution->room))
		return PIECE_DONE;
	execution->next = room_pending(&execution->room) ? EXECUTION_ROOM : EXECUTION_LARGE;
	if (execution->next == EXECUTION_LARGE)
		memset(&execution->large, 0, sizeof(execution->large));
	return PIECE_AGAIN;
}

void execution_cancel(struct execution *execution, struct client *client)
{
	if (execution->next != EXECUTION_LARGE) {
		room_cancel(&execution->room);
	} else if (execution->large.begun) {
		large_cancel(&execution->large.steps);
		budget_give_build(client, &execution->large.hold);
	}
	execution_init(execution);
}
