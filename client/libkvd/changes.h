/* SPDX-License-Identifier: MIT */
/*
 * Exactly once: the numbers of the changes that were sent (common/PROTOCOL.md, Exactly once).
 *
 * A change gets the next number when it is first sent. From `first` on there are numbers without an
 * answer, up to `next`, which was never sent. When the handle has connected again and the server
 * knows its identity, all of these are sent again, in order, before anything else: their
 * flights are in handle->resends. A number whose change was given up meanwhile, at its deadline
 * say, is sent as a PING: its place is taken then, if the change was not executed.
 */
#ifndef KVD_CLIENT_LIBKVD_CHANGES_H
#define KVD_CLIENT_LIBKVD_CHANGES_H

#include "client/libkvd/handle.h"

/* The first number is 1. */
void changes_init(struct changes *changes);

/* Makes the handle's identity, or another one. Without random bytes it has none. */
void changes_identify(struct changes *changes);

/*
 * Numbers that can be given now: 0 if there are as many without an answer as there may be, or more:
 * the next welcome may allow fewer.
 */
static inline uint32_t changes_room(const struct changes *changes)
{
	uint64_t used = changes->next - changes->first;

	return used < changes->limit ? changes->limit - (uint32_t)used : 0;
}

/* Whether there are changes that are still to be sent again, before anything else. */
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
 * Whether it is a change of a key whose GET and touch has not ended: if another client replaces the
 * value before all of it has come, the key is touched again, which must not be after a later change
 * of this handle. Those behind it wait, too: changes take effect in the order of submission. One
 * that has a number was sent before the touch.
 */
static inline bool request_waits(const struct kvd *handle, const struct flight *flight)
{
	return handle->touches && !flight->touching && !flight->rpc.change &&
	       flight->rpc.on_loss == LOSS_UNKNOWN &&
	       handle->touch_filter[flight->lookup.hash % (1 << TOUCH_FILTER_BITS)];
}

/* Gives the flight's request a number, unless it has one. There is room. */
void change_number(struct changes *changes, struct flight *f);

/* changes_answered(), where others have no answer yet. */
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
 * Whether changes are missing on a server that knows the identity, and as the number of the last
 * one @last: some that it has not executed, and that are not sent again since they have answers.
 */
bool changes_are_missing(const struct changes *changes, uint64_t last);

/* Takes in the welcome, which was checked: those without an answer are sent again, or unknown. */
void changes_welcome(struct changes *changes, const struct wire_welcome *welcome);

#endif /* KVD_CLIENT_LIBKVD_CHANGES_H */
