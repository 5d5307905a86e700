/* SPDX-License-Identifier: MIT */
/*
 * Large items: changes that take time in proportion to an item's size, in steps of bounded work.
 * The caller decides when the next step is due, and serves other requests in between.
 *
 *   LARGE-1. A step copies and sums at most as many bytes as the caller allows, without a
 *	 bucket's lock. The lock is held only for the stores of TABLE-1, at the end, with everything
 *	 prepared.
 *   LARGE-2. Between two steps the caller may pass a quiescent state. So each step looks the item
 *	 up again, and goes on only if it still has the version that the first one found. Versions
 *	 are unique, and a large item is not rewritten in place (LOOKUP-3): the same version has the
 *	 same key and value, also when a touch has changed its expiry time or it was moved
 *	 meanwhile.
 *   LARGE-3. A change takes effect only if, under the lock, the key still has that version. Else
 *	 another change of the key took effect, and the change begins again. After
 *	 LARGE_RESTARTS_MAX times it fails with WIRE_BUSY, and nothing was changed (TABLE-4).
 *   LARGE-4. Where memory is short, steps make room for it (ROOM-1 in server/store/room.h).
 *
 *	large_append(&large, ...); or large_commit()
 *	do
 *		next = large_step(&large, bytes);
 *	while (next != LARGE_DONE);
 *	... large.status, large.change ...
 */
#ifndef KVD_SERVER_STORE_LARGE_H
#define KVD_SERVER_STORE_LARGE_H

#include "server/store/attempt.h"
#include "server/store/room.h"

#define LARGE_RESTARTS_MAX 64

enum large_next {
	LARGE_DONE,
	LARGE_AGAIN, /* another step is needed */
	/*
	 * Another step after a pause: another thread is changing the item, or the room waits for
	 * other threads.
	 */
	LARGE_RETRY,
	LARGE_WAIT, /* all bytes that have arrived are summed: see @arrived */
};

struct large {
	/* The results, after LARGE_DONE. */
	enum wire_status status;
	struct table_change change;

	/* Set by the caller at any time after large_commit(): bytes of the value that arrived. */
	uint32_t arrived;

	/* The steps' own. */
	struct store_thread *thread;
	uint64_t hash;
	enum { LARGE_APPEND, LARGE_COMMIT } kind;
	enum large_state {
		LARGE_BEGIN,
		LARGE_ALLOCATE,
		LARGE_VALUE,
		LARGE_END,
		LARGE_ROOM, /* makes room for what the state @after lacked */
		LARGE_ENDED,
	} state;
	enum large_state after;
	struct room room;
	struct change_from from; /* the item that the change begins with (LARGE-2) */
	struct item *item;	 /* the new one; NULL: none yet */
	size_t item_bytes;
	struct item *value_item; /* holds what is appended, if it was pulled */
	uint64_t value_done;	 /* bytes of the new value that are written and summed */
	struct value_sum sum;
	uint64_t retry_since_ns; /* when the item was first found changing; 0: it is not */
	unsigned int restarts;
};

/*
 * Begin. @key, @change->key and @change->value remain the caller's and stay until the end.
 *
 * large_append(): a PUT that appends or prepends (server/store/update.h); meant for changes for
 * which attempt_put() has set change->large, but valid for any.
 *
 * large_commit(): table_commit() of @item, of which the value has not arrived yet.
 */
void large_append(struct large *large, struct store_thread *thread, uint64_t hash,
		  const struct table_change *change);
void large_commit(struct large *large, struct store_thread *thread, uint64_t hash,
		  struct item *item, const struct table_change *change);

/* Bytes that the next step allocates; 0: none. The caller may delay that step. */
static inline size_t large_wants(const struct large *large)
{
	return large->state == LARGE_ALLOCATE ? large->item_bytes : 0;
}

/* One step, of at most @bytes_max bytes. No lock held. */
enum large_next large_step(struct large *large, uint32_t bytes_max);

/* After large_commit(): @bytes more of the value have arrived and are in large->sum. */
void large_summed(struct large *large, uint64_t bytes);

/* Runs all steps, one after another. All of the value has arrived. */
void large_run(struct large *large);

/* Ends the change before LARGE_DONE and frees what it holds. Nothing was changed. */
void large_cancel(struct large *large);

#endif /* KVD_SERVER_STORE_LARGE_H */
