/* SPDX-License-Identifier: MIT */
/* Keeps the answers to a client's last changes in a ring, and finds them by their numbers. */
#include "server/worker/answers.h"

#include <string.h>

void answers_init(struct answers *answers, uint64_t change_next)
{
	memset(answers, 0, sizeof(*answers));
	answers->last = change_next - 1;
}

static const struct answer *find(const struct answers *answers, uint64_t number)
{
	const struct answer *answer = &answers->ring[number % ANSWERS_MAX];

	return number && answer->number == number ? answer : NULL;
}

enum change_kind answers_admit(const struct answers *answers, uint64_t *admitted, uint32_t change)
{
	uint64_t number = wire_change_near(*admitted, change);

	if (number == wire_change_next(*admitted)) {
		*admitted = number;
		return CHANGE_NEXT;
	}
	if (!number || number > *admitted)
		return CHANGE_WRONG;
	return number <= answers->last || find(answers, number) ? CHANGE_OLD : CHANGE_WRONG;
}

void answers_record(struct answers *answers, uint32_t change, const struct wire_response *head)
{
	uint64_t number = wire_change_near(answers->last, change);
	struct answer *answer = &answers->ring[number % ANSWERS_MAX];

	if (number > answers->last)
		answers->last = number;
	if (answer->number > number)
		return;
	*answer = (struct answer){
		.number = number,
		.version = head->version,
		/* A TOUCH with VALUE has the value's sum here, valid on its own connection only. */
		.slot = head->op == WIRE_TOUCH ? 0 : head->slot,
		.arg64 = head->arg64,
		.expires = head->expires,
		.status = head->status,
	};
}

bool answers_repeat(const struct answers *answers, uint32_t change, struct wire_response *head)
{
	const struct answer *answer = find(answers, wire_change_near(answers->last, change));

	if (!answer) {
		head->status = WIRE_UNKNOWN;
		return false;
	}
	head->status = answer->status;
	head->flags = WIRE_R_REPEATED;
	head->version = answer->version;
	head->slot = answer->slot;
	head->arg64 = answer->arg64;
	head->expires = answer->expires;
	return true;
}
