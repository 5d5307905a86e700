/* SPDX-License-Identifier: MIT */
/* Large items: makes and sums them in steps, and changes the table when all is prepared. */
#include "server/store/large.h"

#include <string.h>

#include "common/util/clock.h"
#include "common/util/spin.h"
#include "common/util/stat.h"
#include "server/store/lookup.h"

static void large_begin(struct large *large, struct store_thread *thread, uint64_t hash,
			const struct table_change *change)
{
	large->status = WIRE_BUSY;
	large->change = *change;
	large->arrived = 0;
	large->thread = thread;
	large->hash = hash;
	large->state = LARGE_BEGIN;
	large->item = large->value_item = NULL;
	room_init(&large->room);
	large->retry_since_ns = 0;
	large->restarts = 0;
}

void large_append(struct large *large, struct store_thread *thread, uint64_t hash,
		  const struct table_change *change)
{
	large_begin(large, thread, hash, change);
	large->kind = LARGE_APPEND;
}

/* The next steps fill in the value. */
static void value_begin(struct large *large, struct item *item)
{
	large->item = item;
	large->item_bytes = item_bytes(item);
	stat_add(&large->thread->stats.large_changes,
		 !large->restarts && large->item_bytes >= LARGE_BYTES);
	large->value_done = 0;
	value_sum_begin(&large->sum, &large->thread->table->region->sum_key);
	large->sum.piece_sums = item_piece_sums(item);
	large->state = LARGE_VALUE;
}

void large_commit(struct large *large, struct store_thread *thread, uint64_t hash,
		  struct item *item, const struct table_change *change)
{
	large_begin(large, thread, hash, change);
	large->kind = LARGE_COMMIT;
	large->from.version = 0;
	value_begin(large, item);
}

static void item_drop(struct large *large, struct item **item)
{
	if (*item)
		mem_free(&large->thread->cache, *item, item_bytes(*item));
	*item = NULL;
}

void large_cancel(struct large *large)
{
	item_drop(large, &large->item);
	item_drop(large, &large->value_item);
	room_cancel(&large->room);
	large->state = LARGE_ENDED;
}

static enum large_next large_end(struct large *large, enum wire_status status)
{
	large_cancel(large);
	large->status = status;
	return LARGE_DONE;
}

/* The key has another version by now, or is gone (LARGE-3). */
static enum large_next large_restart(struct large *large)
{
	item_drop(large, &large->item);
	large->state = LARGE_BEGIN;
	stat_add(&large->thread->stats.large_restarts, 1);
	if (++large->restarts > LARGE_RESTARTS_MAX)
		return large_end(large, WIRE_BUSY);
	return LARGE_AGAIN;
}

/* The item was being changed: the caller tries again, for a limited time. */
static enum large_next large_retry(struct large *large)
{
	uint64_t now = clock_ns();

	stat_add(&large->thread->stats.lookup_retries, 1);
	if (!large->retry_since_ns)
		large->retry_since_ns = now;
	if (now - large->retry_since_ns >= LOOKUP_NS_MAX)
		return large_end(large, WIRE_BUSY);
	return LARGE_RETRY;
}

/* The next step allocates the new item. */
static enum large_next allocate_next(struct large *large)
{
	large->item_bytes = item_bytes_for(large->change.key_len,
					   large->from.value_len + large->change.value_len,
					   large->from.flags);
	large->state = LARGE_ALLOCATE;
	return LARGE_AGAIN;
}

/* The next steps make the room that was begun. */
static enum large_next room_next(struct large *large, enum large_state after)
{
	large->after = after;
	large->state = LARGE_ROOM;
	return LARGE_AGAIN;
}

/* Makes the whole change if the item is not large any more, else gets what it begins with. */
static enum large_next change_begin(struct large *large)
{
	struct table_change *change = &large->change;
	enum wire_status status;

	change->room = &large->room;
	status = attempt_put(large->thread, large->hash, change);
	change->room = NULL;
	if (room_pending(&large->room))
		return room_next(large, LARGE_BEGIN);
	if (!change->large)
		return large_end(large, status);
	large->from = change->from;
	return allocate_next(large);
}

/* Begins to fill the new item. NULL: there is no memory for it. */
static enum large_next item_begin(struct large *large, struct item *item)
{
	const struct table_change *change = &large->change;

	if (!item)
		return large_end(large, WIRE_NO_SPACE);
	item_fill_head(item, change, large->from.value_len + change->value_len, large->from.flags);
	item->version = large->from.version;
	value_begin(large, item);
	return LARGE_AGAIN;
}

/* Allocates the new item. */
static enum large_next item_allocate(struct large *large)
{
	struct item *item = mem_alloc(&large->thread->cache, large->item_bytes);

	if (item)
		return item_begin(large, item);
	room_begin(&large->room, large->thread, large->item_bytes);
	room_try(&large->room);
	return room_next(large, LARGE_ALLOCATE);
}

static enum large_next room_made(struct large *large)
{
	switch (room_step(&large->room)) {
	case ROOM_AGAIN:
		return LARGE_AGAIN;
	case ROOM_WAIT:
		return LARGE_RETRY;
	case ROOM_DONE:
		break;
	}
	if (large->after == LARGE_ALLOCATE)
		return item_begin(large, room_take(&large->room));
	large->state = large->after;
	return LARGE_AGAIN;
}

/* A part of the new value: its place and its bytes. */
struct part {
	uint64_t at, bytes;
	const uint8_t *from;
};

/* Copies the overlap of the part with the @bytes from value_done on. */
static bool part_copy(struct large *large, const struct part *part, const struct item_ref *ref,
		      uint64_t bytes)
{
	uint64_t first = large->value_done, end = first + bytes;

	if (first < part->at)
		first = part->at;
	if (end > part->at + part->bytes)
		end = part->at + part->bytes;
	return first >= end || lookup_ref_copy(ref, item_value(large->item) + first,
					       part->from + (first - part->at), end - first);
}

/* Copies bytes of the old value and of the one appended or prepended. */
static bool value_copy(struct large *large, const struct item_ref *ref, uint64_t bytes)
{
	const struct table_change *change = &large->change;
	bool prepends = change->mode == WIRE_PREPEND;
	const struct part old = {
		.at = prepends ? change->value_len : 0,
		.bytes = large->from.value_len,
		.from = lookup_ref_value(ref),
	};
	const struct part new = {
		.at = prepends ? 0 : large->from.value_len,
		.bytes = change->value_len,
		.from = change->value,
	};

	return part_copy(large, &old, ref, bytes) && part_copy(large, &new, ref, bytes);
}

void large_summed(struct large *large, uint64_t bytes)
{
	large->value_done += bytes;
	if (large->value_done == item_value_len(large->item))
		large->state = LARGE_END;
}

static void value_advance(struct large *large, uint64_t bytes)
{
	value_sum_add(&large->sum, item_value(large->item) + large->value_done, bytes);
	large_summed(large, bytes);
}

/* Makes the next bytes of a value from the key's item (LARGE-2). */
static enum large_next value_step(struct large *large, uint64_t bytes)
{
	const struct table_change *change = &large->change;
	struct item_ref ref;
	enum lookup_result result = lookup_find(large->thread, large->hash, change->key,
						change->key_len, &ref);

	if (result == LOOKUP_RETRY)
		return large_retry(large);
	if (result == LOOKUP_MISSING || ref.front.item.version != large->from.version)
		return large_restart(large);
	if (!value_copy(large, &ref, bytes))
		return large_retry(large);
	large->retry_since_ns = 0;
	large->item->expires = ref.front.item.expires;
	value_advance(large, bytes);
	return LARGE_AGAIN;
}

/* Sums the next bytes of a value that arrives from its client. */
static enum large_next arrived_step(struct large *large, uint64_t bytes)
{
	uint64_t there = large->arrived - large->value_done;

	if (!there && large->value_done < item_value_len(large->item))
		return LARGE_WAIT;
	value_advance(large, bytes < there ? bytes : there);
	return LARGE_AGAIN;
}

static enum large_next large_value(struct large *large, uint32_t bytes_max)
{
	uint64_t left = item_value_len(large->item) - large->value_done;
	uint64_t bytes = left < bytes_max ? left : bytes_max;

	return large->kind == LARGE_COMMIT ? arrived_step(large, bytes) : value_step(large, bytes);
}

/* The pulled value is appended: its item is not the one that is stored. */
static enum large_next pulled_append(struct large *large)
{
	struct item *value = large->item;

	large->value_item = value;
	large->item = NULL;
	large->change.key = item_key(value);
	large->change.key_len = item_key_len(value);
	large->change.value = item_value(value);
	large->change.value_len = item_value_len(value);
	large->kind = LARGE_APPEND;
	large->state = LARGE_BEGIN;
	return LARGE_AGAIN;
}

static enum large_next change_end(struct large *large)
{
	struct table_change *change = &large->change;
	const void *key = change->key;
	enum wire_status status;

	item_value_sum_store(large->item, value_sum_end(&large->sum));
	change->room = &large->room;
	status = attempt_commit(large->thread, large->hash, change, large->item,
				large->from.version);
	if (!room_pending(&large->room))
		large->item = NULL;
	change->key = key; /* the item is gone */
	change->room = NULL;
	if (room_pending(&large->room))
		return room_next(large, LARGE_END);
	return change->large ? large_restart(large) : large_end(large, status);
}

enum large_next large_step(struct large *large, uint32_t bytes_max)
{
	switch (large->state) {
	case LARGE_BEGIN:
		return change_begin(large);
	case LARGE_ALLOCATE:
		return item_allocate(large);
	case LARGE_VALUE:
		return large_value(large, bytes_max);
	case LARGE_END:
		if (large->kind == LARGE_COMMIT &&
		    (large->change.mode == WIRE_APPEND || large->change.mode == WIRE_PREPEND))
			return pulled_append(large);
		return change_end(large);
	case LARGE_ROOM:
		return room_made(large);
	case LARGE_ENDED:
		break;
	}
	return LARGE_DONE;
}

void large_run(struct large *large)
{
	enum large_next next;

	if (large->kind == LARGE_COMMIT)
		large->arrived = item_value_len(large->item);
	do {
		if (room_pending(&large->room))
			room_run(&large->room);
		next = large_step(large, UINT32_MAX);
		if (next == LARGE_RETRY)
			spin_pause(clock_ns() - large->retry_since_ns);
	} while (next != LARGE_DONE);
}
