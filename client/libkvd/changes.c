/* SPDX-License-Identifier: MIT */
/* Exactly once: gives numbers to changes, and remembers which have no answer. */
#include "client/libkvd/changes.h"

#include <string.h>
#include <sys/random.h>

void changes_identify(struct changes *changes)
{
	if (getrandom(changes->identity, sizeof(changes->identity), GRND_NONBLOCK) !=
	    (ssize_t)sizeof(changes->identity))
		memset(changes->identity, 0, sizeof(changes->identity));
}

void changes_init(struct changes *changes)
{
	*changes = (struct changes){ .first = 1, .next = 1, .resend = 1 };
	changes_identify(changes);
}

static void answered_set(struct changes *changes, uint64_t number, bool answered)
{
	uint64_t *word = &changes->answered[number % CHANGES_MAX / 64], bit = 1ull << number % 64;

	*word = answered ? *word | bit : *word & ~bit;
}

static void first_find(struct changes *changes)
{
	while (changes->first != changes->next && change_is_answered(changes, changes->first))
		changes->first++;
}

void change_number(struct changes *changes, struct flight *f)
{
	if (f->rpc.change)
		return;
	f->rpc.change = changes->next++;
	if (changes->moved) {
		changes->resumed = f->rpc.change;
		changes->moved = false;
	}
	answered_set(changes, f->rpc.change, false);
	/* Numbers whose low half is 0 are left out, also in HELLO. */
	if (!(uint32_t)changes->next)
		answered_set(changes, changes->next++, true);
	changes->resend = changes->next;
}

void changes_answered_some(struct changes *changes, uint64_t first, uint32_t count)
{
	while (count--)
		answered_set(changes, first++, true);
	first_find(changes);
}

bool changes_are_missing(const struct changes *changes, uint64_t last)
{
	/* Numbers whose low half is 0 are left out. */
	last += !(uint32_t)(last + 1);
	return last + 1 < changes->first;
}

void changes_welcome(struct changes *changes, const struct wire_welcome *welcome)
{
	changes->limit = welcome->answers < CHANGES_MAX - 1 ? welcome->answers : CHANGES_MAX - 1;
	if (!welcome->identity_known || !changes->limit)
		changes->first = changes->next;
	changes->resend = changes->first;
}
