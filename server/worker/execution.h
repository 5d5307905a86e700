/* SPDX-License-Identifier: MIT */
/*
 * Executes an operation of a client, however that is connected, in as many turns as it takes.
 *
 *	execution_init(&execution);
 *	do, in one turn or in several
 *		next = execution_run(&execution, client, request, ...);
 *	while (next != PIECE_DONE);
 *	execution_count(client, request, head, arrived_ns);
 *
 * Key and value of the request stay until the end. execution_cancel() ends it early.
 */
#ifndef KVD_SERVER_WORKER_EXECUTION_H
#define KVD_SERVER_WORKER_EXECUTION_H

#include "server/worker/budget.h"
#include "server/worker/execute.h"
#include "server/worker/piece.h"

/* How an operation goes on. */
enum execution_next {
	EXECUTION_TRY,	 /* not tried yet, or its room is made */
	EXECUTION_ROOM,	 /* steps of room */
	EXECUTION_LARGE, /* steps on a large item */
};

/* An operation on a large item. All zero before it is begun. */
struct execution_large {
	bool begun;
	struct large steps;
	struct budget_hold hold; /* budget_take_build() */
};

struct execution {
	enum execution_next next;
	union {
		struct room room;
		struct execution_large large;
	};
};

static inline void execution_init(struct execution *execution)
{
	execution->next = EXECUTION_TRY;
	room_init(&execution->room);
}

/*
 * Executes an admitted operation as far as it gets until @until_ns of clock_ns(). PIECE_DONE: @head
 * and @value are filled in, as by execute(). A FLUSH is executed, too.
 */
enum piece_next execution_run(struct execution *execution, struct client *client,
			      const struct request *request, uint64_t hash,
			      struct wire_response *head, struct response_value *value,
			      uint64_t until_ns);

/* Gives back what the operation holds: it is not executed any further. */
void execution_cancel(struct execution *execution, struct client *client);

/* Counts an operation whose message arrived at @arrived_ns, and that has ended with @head. */
void execution_count(struct client *client, const struct request *request,
		     const struct wire_response *head, uint64_t arrived_ns);

#endif /* KVD_SERVER_WORKER_EXECUTION_H */
