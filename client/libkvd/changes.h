/* SPDX-License-Identifier: MIT */
/*
 * Exactly once: the numbers of the changes that were sent (common/PROTOCOL.md, Exactly once).
 *
 * A change gets the next number when it is first sent. Numbers without an answer start at `first`;
 * `next` was never sent. When the handle has connected again and the server knows its identity, the
 * changes without an answer are sent again, in order, before anything else: their flights are in
 * handle->resends. For a change that was given up meanwhile, at its deadline say, a PING with its
 * number is sent, which takes the number if the change was not executed.
 *
 * When one was answered MOVED, the server refuses all later ones, and no new one is sent until all
 * have their answers. The next one has WIRE_F_RESUME, whenever it is sent again, too.
 */
#ifndef KVD_CLIENT_LIBKVD_CHANGES_H
#define KVD_CLIENT_LIBKVD_CHANGES_H

#include "client/libkvd/handle.h"

/* The first number is 1. */
void changes_init(struct changes *changes);

/* Gives the handle a new identity; none if there are no random bytes. */
void changes_identify(struct changes *changes);

/*
 * How many numbers can be given now. The next welcome may allow fewer than have no answer: then 0,
 * too.
 */
static inline uint32_t changes_room(const struct changes *changes)
{
	uint64_t used = changes->next - changes->first;

	if (changes->moved && used)
		return 0;
	return used < changes->limit ? changes->limit - (uint32_t)used : 0;
}

/* Whether changes must be sent again, before anything else. */
static inline bool changes_to_resend(const struct changes *changes)
{
	return changes->resend != changes->next;
}

/* Whether the flight's request gets a number, or has one. */
static inline bool change_is_numbered(const struct changes *changes, const struct flight *f)
{
	return changes->limit && f->rpc.on_loss == LOSS_UNKNOWN;
}

/*
 * Whether the request is a change of a key whose GET and touch has not ended: if another client
 * replaces the value before all of it has come, the key is touched again, and never after a later
 * change of this handle. The requests after it wait, too: changes take effect in the order of
 * submission. A change that has a number was sent before the touch.
 */
static inline bool request_waits(const struct kvd *handle, const struct flight *flight)
{
	return handle->touches && !flight->touching && !flight->rpc.change &&
	       flight->rpc.on_loss == LOSS_UNKNOWN &&
	       handle->touch_filter[flight->lookup.hash % (1 << TOUCH_FILTER_BITS)];
}

/*
 * Whether the request is a change that has no number yet, of a shard for whose next owner the
 * fleet's handle waits: others of the shard may have been refused, and come first.
 */
static inline bool change_is_held(const struct flight *f)
{
	const struct kvd *home = f->at ? f->at->member.home : NULL;

	return home && f->rpc.on_loss == LOSS_UNKNOWN && !f->rpc.change &&
	       home->fleet_ops->holds(home, f);
}

/* Gives the flight's request a number, unless it has one. There is room. */
void change_number(struct changes *changes, struct flight *f);

/* The flag of a request, alone or a BATCH, whose first number is @change; 0: it has none. */
static inline uint16_t change_flag(const struct changes *changes, uint64_t change)
{
	return change && change == changes->resumed ? WIRE_F_RESUME : 0;
}

/* changes_answered() when other numbers have no answer yet. */
void changes_answered_some(struct changes *changes, uint64_t first, uint32_t count);

/* @count numbers from @first on have their answers. */
static inline void changes_answered(struct changes *changes, uint64_t first, uint32_t count)
{
	if (first == changes->first && first + count == changes->next)
		changes->first = changes->next;
	else
		changes_answered_some(changes, first, count);
}

/* Whether a number that was sent has its answer. */
static inline bool change_is_answered(const struct changes *changes, uint64_t number)
{
	return changes->answered[number % CHANGES_MAX / 64] >> number % 64 & 1;
}

/*
 * Whether a server that knows the identity, with @last as the number of its last change, lacks
 * changes that have answers, and so are not sent again.
 */
bool changes_are_missing(const struct changes *changes, uint64_t last);

/* Takes the checked welcome: changes without an answer will be sent again, or are unknown. */
void changes_welcome(struct changes *changes, const struct wire_welcome *welcome);

#endif /* KVD_CLIENT_LIBKVD_CHANGES_H */
