/* SPDX-License-Identifier: MIT */
/* READs the words of a fleet's members, and moves on the lookups that wait for them. */
#include "client/libkvd/fleet_word.h"

#include <string.h>

#include "client/libkvd/flight.h"
#include "client/libkvd/get.h"
#include "client/libkvd/read.h"
#include "client/libkvd/word.h"
#include "common/sum.h"

/* How often the word is READ while it is being written: each is a write of 32 bytes. */
#define WORD_TRIES 4u

#define WORD_OFFSET offsetof(struct superblock, word)
static_assert(sizeof(struct fleet_word) < RING_BYTES_MIN, "fits the ring");

static void word_ended(struct kvd *handle, struct flight *f)
{
	handle->stats.away++;
	flight_cut(handle, f,
		   handle_error_set(handle, KVD_ERR_AWAY,
				    "the member of the fleet at %s is away: its lease has ended; "
				    "nothing was done",
				    handle->dev->address));
}

/* Moves on the lookups that have waited for the word. @read: it is the newest. */
static void waiters_run(struct kvd *handle, bool read)
{
	struct list waiters;
	struct flight *f;

	handle->member.word_clock = false;
	if (read && word_has_ended(handle)) {
		if (!list_empty(&handle->word_waiters))
			handle->member.home->fleet_ops->want(handle->member.home);
		each_waiting(handle, &handle->word_waiters, word_ended);
	}
	list_init(&waiters);
	list_move_all(&waiters, &handle->word_waiters);
	while (!list_empty(&waiters)) {
		f = list_entry(waiters.next, struct flight, link);
		list_remove(&f->link);
		if (read)
			lookup_again(handle, &f->lookup);
		else
			f->lookup.step = STEP_RPC;
		lookup_step(handle, f);
	}
}

void fleet_word_clock(struct kvd *handle)
{
	shared_clock_put(handle->server, &handle->clock);
	word_time(handle);
	waiters_run(handle, true);
}

static void word_add(struct kvd *handle, struct flight *f)
{
	if (!read_add(handle, f, WORD_OFFSET, sizeof(struct fleet_word)))
		read_wait(handle, f, sizeof(struct fleet_word));
}

static void word_done(struct kvd *handle, struct flight *f)
{
	struct fleet_word word;

	f->place = PLACE_NONE;
	memcpy(&word, f->lookup.buffer, sizeof(word));
	if (fleet_word_sum(&word, handle->geometry.incarnation) != word.sum) {
		if (++handle->member.word_tries < WORD_TRIES)
			word_add(handle, f);
		else
			waiters_run(handle, false);
		return;
	}
	word_take(handle, &word);
	if (!word_clock_is_wide(handle)) {
		waiters_run(handle, true);
		return;
	}
	if (shared_clock_get(handle->server, &handle->clock, clock_raw_ns())) {
		word_time(handle);
		waiters_run(handle, true);
		return;
	}
	handle->member.word_clock = true;
	clock_ask(handle);
}

static const struct flight_ops word_ops = { .ready = word_add, .read_done = word_done };

void fleet_word_read(struct kvd *handle)
{
	struct flight *f = &handle->word_flight;

	if (f->place == PLACE_QUEUED || f->place == PLACE_READING || handle->member.word_clock ||
	    handle->conn.by_request)
		return;
	f->ops = &word_ops;
	f->kind = FLIGHT_OWN;
	handle->member.word_tries = 0;
	word_add(handle, f);
}
