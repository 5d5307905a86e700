/* SPDX-License-Identifier: MIT */
/*
 * The answers to one client's last numbered changes, so that a change sent again after its
 * connection broke is executed once ("Exactly once" in common/PROTOCOL.md).
 *
 *   ANSWER-1. The result of a numbered change is recorded in the turn that executes it, before its
 *	 response is posted, whether or not posting succeeds: a change has an answer here, or
 *	 changed nothing.
 *   ANSWER-2. A number is executed only as the next one of its connection, which starts after the
 *	 last recorded one. So none is executed twice, whatever the client sends.
 *   ANSWER-3. A number has one answer. Every status counts as one, BUSY as well: a client that
 *	 tries again takes another number.
 *   ANSWER-4. Changes take effect in order. After a refusal (MOVED), which the client answers by
 *	 sending the change again with another number, `refuses` is set, and each numbered change of
 *	 a key is refused, until one has WIRE_F_RESUME: by then the client has learned of all
 *	 refusals. One that was sent before says nothing of refusals since.
 *
 * The answers belong to the worker of the client's connection, which touches them without a lock,
 * and to the control thread while there is no connection (server/control/identity.h).
 */
#ifndef KVD_SERVER_WORKER_ANSWERS_H
#define KVD_SERVER_WORKER_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

/* The most unanswered changes of a client, as the welcome says. A power of two. */
#define ANSWERS_MAX 128u

struct answer {
	uint64_t number; /* of the change; 0: none */
	/* As in struct wire_response. */
	uint64_t version;
	uint64_t slot;
	uint64_t arg64;
	uint32_t expires;
	uint8_t status;
};

struct answers {
	uint64_t last;			 /* the last number that was recorded */
	bool refuses;			 /* ANSWER-4 */
	struct answer ring[ANSWERS_MAX]; /* by number */
};

/* What a number means on a connection. */
enum change_kind {
	CHANGE_NEXT,  /* execute it */
	CHANGE_OLD,   /* sent before: answers_repeat() */
	CHANGE_WRONG, /* there is a gap before it, or it is outstanding on this connection */
};

/* No number below @change_next will ever be executed. */
void answers_init(struct answers *answers, uint64_t change_next);

/*
 * The kind of the request with the low bits @change, which has arrived. *@admitted is the last
 * number that the connection has admitted, at first answers->last; a CHANGE_NEXT advances it.
 */
enum change_kind answers_admit(const struct answers *answers, uint64_t *admitted, uint32_t change);

/* The change was executed, or refused, and @head is its response. */
void answers_record(struct answers *answers, uint32_t change, const struct wire_response *head);

/*
 * Fills in @head, a started response, for a change that was sent before: its answer, or
 * WIRE_UNKNOWN and false.
 */
bool answers_repeat(const struct answers *answers, uint32_t change, struct wire_response *head);

#endif /* KVD_SERVER_WORKER_ANSWERS_H */
