/* SPDX-License-Identifier: MIT */
/*
 * Extents: closes the spans of the last extents, moves what is in them, in passes until they are
 * empty, and takes their pages out of the heap.
 */
#include "server/store/extents.h"

#include <errno.h>
#include <stdio.h>

#include <urcu-qsbr.h>

#include "common/util/clock.h"
#include "server/store/room.h"
#include "server/store/slab.h"

/* One call of extents_run() works for about this long. */
#define RUN_NS 2000000u
/* Blocks emptied, or spans closed, between two quiescent states: some 50 us. */
#define STEPS_PER_QUIESCE 64

/*
 * Pause before a pass over pages that did not get empty, doubled from min to max: their blocks are
 * being written, or wait in other threads' limbos. After a room has failed, a thread tries none
 * again for 10 ms, so the pause is longer then.
 */
#define PAUSE_NS_MIN 1000000u
#define PAUSE_NS_MAX 100000000u
#define PAUSE_NS_NO_ROOM 15000000u
/* Items without room that end a pass, and passes with such items that end the closing. */
#define NO_ROOM_ITEMS 64
#define NO_ROOM_PASSES 3

int extents_close(struct extents *extents, const struct table *table, unsigned int count)
{
	struct memory *memory = table->memory;
	uint64_t bytes = memory_bytes(memory), used, first;

	if (atomic_load(&extents->state) == EXTENTS_CLOSING)
		return -EBUSY;
	extents->from = memory_end_page(count * table->region->extent_bytes);
	first = (stat_read(&table->region->bytes) - REGION_PAD - bytes) / PAGE_BYTES;
	/* As at the start, half of the region is for items. */
	if (first > extents->from / 2)
		return -ENOSPC;
	if (table->eviction == EVICTION_NONE) {
		used = bytes - memory_free_bytes(memory);
		if (used > (extents->from - first) * PAGE_BYTES)
			return -ENOSPC;
	}
	extents->count = count;
	extents->first = extents->closed = extents->from;
	extents->phase = EXTENTS_CLOSE;
	extents->empties = extents->busy = false;
	extents->no_room = 0;
	extents->pause_ns = extents->next_ns = 0;
	extents->why[0] = '\0';
	extents->emptying.moving = false;
	mem_evacuation_begin_from(&extents->emptying.evacuation, memory, extents->from);
	atomic_store(&extents->cancel, false);
	atomic_store(&extents->state, EXTENTS_CLOSING);
	return 0;
}

/* From now on all that is closed is opened again. */
static void open_begin(struct extents *extents)
{
	emptying_cancel(&extents->emptying);
	mem_evacuation_look(&extents->emptying.evacuation, extents->first,
			    extents->closed - extents->first);
	extents->phase = EXTENTS_OPEN;
	extents->next_ns = 0;
}

static void fail(struct extents *extents, const char *why)
{
	snprintf(extents->why, sizeof(extents->why), "%s", why);
	open_begin(extents);
}

static void open_step(struct extents *extents)
{
	if (!mem_evacuation_open(&extents->emptying.evacuation))
		atomic_store(&extents->state, extents->why[0] ? EXTENTS_FAILED : EXTENTS_IDLE);
}

static void close_step(struct extents *extents, struct store_thread *thread)
{
	struct mem_evacuation *evacuation = &extents->emptying.evacuation;
	struct table *table = thread->table;
	enum mem_close close = mem_evacuation_close_span(evacuation);

	if (evacuation->pages) {
		extents->first = evacuation->page;
		extents->closed = evacuation->page + evacuation->pages;
	}
	switch (close) {
	case MEM_CLOSED:
		extents->emptying.warm = UINT64_MAX;
		extents->emptying.spares = false;
		extents->emptying.make_room = room_ready;
		emptying_begin(thread, &extents->emptying, table->eviction != EVICTION_NONE);
		extents->next = extents->first;
		extents->phase = EXTENTS_EMPTY;
		break;
	case MEM_CLOSE_AGAIN:
		break;
	case MEM_CLOSE_FAILED:
		/* Another evacuation, which ends soon, has the span; unless it was the index's. */
		if (hint_load(&table->memory->heap.first) > extents->from)
			fail(extents, "the index has grown beyond the new size");
		else
			extents->next_ns = clock_ns() + PAUSE_NS_MIN;
		break;
	}
}

/* All pages are reserved: takes them out of the heap. EXTENT-4, EXTENT-5. */
static void finish(struct extents *extents, struct store_thread *thread)
{
	struct mem_evacuation *evacuation = &extents->emptying.evacuation;
	struct region *region = thread->table->region;

	memory_cut(thread->table->memory, extents->count * region->extent_bytes);
	/* A span that reached into them began in an extent that stays. */
	mem_evacuation_look(evacuation, extents->first, extents->from - extents->first);
	while (mem_evacuation_open(evacuation))
		;
	synchronize_rcu();
	if (region->keep.head)
		atomic_store(&region->keep.head->extents, extents->count);
	atomic_store(&extents->state, EXTENTS_CLOSED);
}

/* All pages were looked at once. */
static void pass_end(struct extents *extents, struct store_thread *thread)
{
	uint64_t pause = 2 * extents->pause_ns;

	limbo_empty(&thread->limbo, &thread->cache);
	if (!extents->busy) {
		finish(extents, thread);
		return;
	}
	extents->no_room = extents->emptying.left ? extents->no_room + 1 : 0;
	if (extents->no_room == NO_ROOM_PASSES) {
		fail(extents, thread->table->eviction == EVICTION_NONE ?
				      "what is stored finds no room in the new size" :
				      "pinned items find no room in the new size");
		return;
	}
	if (pause < PAUSE_NS_MIN)
		pause = PAUSE_NS_MIN;
	if (extents->no_room && pause < PAUSE_NS_NO_ROOM)
		pause = PAUSE_NS_NO_ROOM;
	extents->pause_ns = pause < PAUSE_NS_MAX ? pause : PAUSE_NS_MAX;
	extents->next_ns = clock_ns() + extents->pause_ns;
	extents->next = extents->first;
	extents->emptying.left = 0;
	extents->busy = false;
}

static void empty_step(struct extents *extents, struct store_thread *thread)
{
	struct mem_evacuation *evacuation = &extents->emptying.evacuation;

	if (!extents->empties) {
		if (extents->next >= extents->closed || extents->emptying.left >= NO_ROOM_ITEMS) {
			/* There are pages that were not looked at. */
			extents->busy |= extents->next < extents->closed;
			pass_end(extents, thread);
			return;
		}
		extents->next = mem_evacuation_look_some(evacuation, extents->next,
							 extents->closed);
		extents->empties = true;
	}
	for (unsigned int n = 0; n < STEPS_PER_QUIESCE; n++) {
		if (!emptying_step(thread, &extents->emptying)) {
			extents->busy |= !mem_evacuation_is_empty(evacuation);
			extents->empties = false;
			return;
		}
		if (extents->emptying.moving)
			return;
	}
}

static void extents_step(struct extents *extents, struct store_thread *thread)
{
	switch (extents->phase) {
	case EXTENTS_CLOSE:
		close_step(extents, thread);
		break;
	case EXTENTS_EMPTY:
		empty_step(extents, thread);
		break;
	case EXTENTS_OPEN:
		open_step(extents);
		break;
	}
}

uint64_t extents_run(struct extents *extents, struct store_thread *thread)
{
	uint64_t until = clock_ns() + RUN_NS;

	if (atomic_load(&extents->state) != EXTENTS_CLOSING)
		return 0;
	if (atomic_load(&extents->cancel) && extents->phase != EXTENTS_OPEN)
		open_begin(extents);
	if (clock_ns() < extents->next_ns)
		return extents->next_ns;
	extents->next_ns = 0;
	do {
		extents_step(extents, thread);
		rcu_quiescent_state();
		store_thread_clock(thread);
	} while (atomic_load(&extents->state) == EXTENTS_CLOSING && !extents->next_ns &&
		 clock_ns() < until);
	if (atomic_load(&extents->state) != EXTENTS_CLOSING)
		return 0;
	return extents->next_ns ? extents->next_ns : 1;
}

void extents_release(struct extents *extents)
{
	if (atomic_load(&extents->state) != EXTENTS_CLOSING)
		return;
	if (extents->phase != EXTENTS_OPEN)
		open_begin(extents);
	while (atomic_load(&extents->state) == EXTENTS_CLOSING)
		open_step(extents);
}
