/* SPDX-License-Identifier: MIT */
/*
 * Room: a state machine that evicts items, and empties slabs and places, in small steps.
 */
#include "server/store/room.h"

#include <urcu-qsbr.h>

#include "common/util/clock.h"
#include "common/util/spin.h"
#include "common/util/stat.h"
#include "server/store/access_time.h"

/* Choices for one room; each evicts some items or empties a span. */
#define ROOM_STEPS_MAX 64
/*
 * Draws until a candidate is old: 576 candidates of all items, which miss old items with 1 % of the
 * bytes 1 time in 300. Then the thread does not look again in the same tick of access times.
 */
#define LOOKS_MAX 48
/*
 * Spans that may fail to get empty because their young items must stay; then young items are
 * evicted, too. Old items may be too few, or too scattered, for the room wanted.
 */
#define SPARED_MAX 4
/* Steps of room_try(): each draws candidates and evicts one, 1 to 2 us. */
#define BRIEF_STEPS 4
/*
 * Large items evicted in one step, which waits for a grace period; only 1 if it has
 * LARGE_AT_ONCE_BYTES or more.
 */
#define LARGE_AT_ONCE 4
#define LARGE_AT_ONCE_BYTES (256u << 10)
/* Places drawn for a large item. */
#define PLACES 8
/* Spans emptied may be too short: every this many steps a place of the right length is emptied. */
#define STEPS_PER_PLACE 4
/* Blocks up to this size fit a slab of SLAB_BYTES_MIN without much waste. */
#define SLAB_SMALL_ITEM_BYTES 8192u

/* Steps of room_run() between two quiescent states: some 50 us. */
#define STEPS_PER_QUIESCE 64

/* Pause after moving items made no room, unless the thread frees something before. */
#define ROOM_RETRY_NS 10000000ull

/*
 * How long a room waits for other rooms' evacuations (ROOM-3) that do not end, which should not
 * happen; and in room_run(), where it may wait for the thread's own rooms.
 */
#define WAIT_NS 10000000000ull
#define WAIT_BLOCKS_NS 1000000000ull

/*
 * Once in this many times that a thread is about to evict, the first included, it takes the free
 * blocks of idle threads' magazines: that visits all caches, and a thread counts as idle if it did
 * nothing in between.
 */
#define ROOMS_PER_GATHER 64

static bool evicts(const struct room *room)
{
	return room->thread->table->eviction != EVICTION_NONE;
}

static struct memory *memory_of(const struct room *room)
{
	return room->thread->table->memory;
}

static bool is_large(const struct room *room)
{
	return room->bytes != ROOM_BUCKET && mem_class(room->bytes) == MEM_CLASS_LARGE;
}

static bool is_too_large(const struct room *room)
{
	return room->bytes != ROOM_BUCKET && room->bytes > memory_block_max(memory_of(room));
}

static void *block_alloc(const struct room *room)
{
	struct mem_cache *cache = &room->thread->cache;

	return room->bytes == ROOM_BUCKET ? mem_alloc_bucket(cache, 0) :
					    mem_alloc(cache, room->bytes);
}

static void block_free(const struct room *room)
{
	struct mem_cache *cache = &room->thread->cache;

	if (room->bytes == ROOM_BUCKET)
		mem_free_bucket(cache, room->block);
	else
		mem_free(cache, room->block, room->bytes);
}

static void limbo_settle(const struct room *room)
{
	limbo_empty(&room->thread->limbo, &room->thread->cache);
}

/* The thread's open evacuations that count with those of this room (ROOM-2). */
static uint32_t *rooms_open(const struct room *room)
{
	bool larger = is_large(room) && room->bytes > SLAB_BYTES_MAX;

	return &room->thread->rooms_open[larger];
}

static bool may_open(const struct room *room)
{
	return room->blocks || *rooms_open(room) < ROOMS_OPEN_MAX;
}

static void opened(struct room *room)
{
	room->open = true;
	++*rooms_open(room);
}

void room_begin(struct room *room, struct store_thread *thread, size_t bytes)
{
	room->thread = thread;
	room->bytes = bytes;
	room->block = NULL;
	room->state = ROOM_BEGIN;
	room->step = room->looks = room->spared = room->skip.count = 0;
	room->brief = room->blocks = room->waited = room->open = false;
	room->emptying.moving = room->emptying.spares = false;
	room->emptying.make_room = NULL;
	room->emptying.warm = UINT64_MAX;
}

/*
 * Whether moving made no room just now, and this thread has freed nothing since. Not for a bucket:
 * it needs much less, and an item that has its block already waits for it.
 */
static bool failed_just_now(const struct room *room)
{
	const struct store_thread *thread = room->thread;

	return !evicts(room) && room->bytes != ROOM_BUCKET &&
	       thread->room_failed_freed == thread->cache.freed_bytes + 1 &&
	       thread->now_ns - thread->room_failed_ns < ROOM_RETRY_NS;
}

static enum room_next room_go(struct room *room, enum room_state state)
{
	room->state = state;
	return ROOM_AGAIN;
}

static enum room_next room_end(struct room *room)
{
	room->state = ROOM_ENDED;
	return ROOM_DONE;
}

/*
 * Nothing could be freed. With eviction off, a larger block may be free, of a deleted item whose
 * slab could not be emptied: that is better than failing.
 */
static enum room_next room_end_without(struct room *room)
{
	if (!evicts(room) && room->bytes != ROOM_BUCKET)
		room->block = mem_alloc_wider(&room->thread->cache, room->bytes);
	return room_end(room);
}

/* There is no room, unless others' evacuations hold it (ROOM-3). */
static enum room_next room_fail(struct room *room)
{
	struct store_thread *thread = room->thread;

	if (!room->waited && mem_evacuations(memory_of(room))) {
		room->waited = true;
		room->since_ns = clock_ns();
		room->evacuations = mem_evacuations_begun(memory_of(room));
		return room_go(room, ROOM_WAITS);
	}
	thread->room_failed_freed = thread->cache.freed_bytes + 1;
	thread->room_failed_ns = thread->now_ns;
	room_end_without(room);
	stat_add(&thread->stats.rooms_failed, !room->block);
	return ROOM_DONE;
}

static enum room_next room_waits(struct room *room)
{
	if (!mem_evacuations_ended(memory_of(room), room->evacuations) &&
	    clock_ns() - room->since_ns < (room->blocks ? WAIT_BLOCKS_NS : WAIT_NS))
		return ROOM_WAIT;
	room->step = room->skip.count = 0;
	return room_go(room, ROOM_CHOOSE);
}

/* Takes free blocks that other threads do not need, which may be enough. */
static enum room_next room_gather(struct room *room)
{
	struct store_thread *thread = room->thread;

	if (is_too_large(room) || failed_just_now(room))
		return room_end_without(room);
	if (!evicts(room))
		memory_gather(memory_of(room));
	else if (thread->rooms++ % ROOMS_PER_GATHER == 0)
		stat_add(&thread->stats.gathered_bytes,
			 memory_gather_idle(memory_of(room), &thread->cache));
	return room_go(room, ROOM_CHOOSE);
}

static uint64_t block_cost(const void *thread, const void *block, size_t bytes)
{
	return access_time_cost(thread, block, bytes);
}

/* The next steps empty a place of @bytes. */
static enum room_next place_next(struct room *room, size_t bytes, bool for_block)
{
	mem_place_begin(&room->place, bytes, PLACES, for_block && evicts(room) ? block_cost : NULL,
			room->thread);
	room->for_block = for_block;
	room->compacts = false;
	return room_go(room, ROOM_PLACE);
}

/* The next step begins to empty the candidate's span. */
static enum room_next span_next(struct room *room, const struct candidate *cold)
{
	room->cold = *cold;
	room->for_block = room->compacts = false;
	return room_go(room, ROOM_SPAN);
}

static bool is_young(const struct candidate *candidate)
{
	return coldness_kind(candidate->coldness) == COLDNESS_IS_YOUNG;
}

/* Emptying for @any evicts items as cold as @own; if there is none, half as cold as @any. */
static void emptying_bounds(struct room *room, const struct candidate *own,
			    const struct candidate *any)
{
	room->emptying.spares = (!is_young(own) || !is_young(any)) && room->spared < SPARED_MAX;
	room->emptying.warm = own->coldness ? own->coldness : coldness_half(any->coldness);
	if (room->emptying.spares && room->emptying.warm < COLDNESS_OLD)
		room->emptying.warm = COLDNESS_OLD;
}

/* Whether the class of @own should get the memory of @any, which is much colder, or older. */
static bool goes_before(const struct candidate *any, const struct candidate *own)
{
	enum coldness_kind any_kind = coldness_kind(any->coldness);
	enum coldness_kind own_kind = coldness_kind(own->coldness);

	if (!own->coldness)
		return any->coldness;
	return any_kind != own_kind ? any_kind > own_kind :
				      coldness_half(any->coldness) > own->coldness;
}

/*
 * Draws a candidate of the class (overflow buckets have none) and one of all items. False: both are
 * young, and the next step looks again (EVICT-1 in server/store/evict.h).
 */
static bool candidates_draw(struct room *room, unsigned int class_id, struct candidate *own,
			    struct candidate *any)
{
	struct store_thread *thread = room->thread;
	uint32_t now = access_time_now(thread->table) + 1;

	own->coldness = 0;
	if (class_id != CLASS_BUCKETS)
		evict_candidate_of_class(thread, own, class_id);
	evict_candidate_of_any(thread, any);
	/* @any is of the class, too. */
	if (any->coldness > own->coldness && mem_class(item_bytes_hint(any->block)) == class_id)
		*own = *any;
	if (!is_young(own) || !is_young(any)) {
		room->looks = 0;
		return true;
	}
	if (thread->no_old == now)
		return true;
	if (room->looks++ < LOOKS_MAX) {
		room->step--;
		return false;
	}
	thread->no_old = now;
	return true;
}

static enum room_next choose_for_bucket(struct room *room)
{
	struct candidate none, any;

	if (!candidates_draw(room, CLASS_BUCKETS, &none, &any) || !any.coldness)
		return ROOM_AGAIN;
	emptying_bounds(room, &none, &any);
	return span_next(room, &any);
}

/* Evicts an item of the class, or empties a span with a colder one. */
static enum room_next choose_for_small(struct room *room, unsigned int step)
{
	struct store_thread *thread = room->thread;
	struct candidate own, any;

	if (!candidates_draw(room, mem_class(room->bytes), &own, &any))
		return ROOM_AGAIN;
	emptying_bounds(room, &own, &any);
	/* Another class's memory may have to wait; a block of the own class is free at once. */
	if (may_open(room) || is_young(&own)) {
		/* Large items may leave only runs that are too short for a slab. */
		if (step % STEPS_PER_PLACE == STEPS_PER_PLACE - 1)
			return place_next(room,
					  room->bytes > SLAB_SMALL_ITEM_BYTES ? SLAB_BYTES_MAX :
										SLAB_BYTES_MIN,
					  false);
		/* Also if the class has no candidate, so nothing to evict. */
		if (goes_before(&any, &own))
			return span_next(room, &any);
	}
	if (own.coldness)
		evict_candidate(thread, &own);
	return ROOM_AGAIN;
}

/*
 * Whether to empty a place now. Not if the candidate is as long as the item wanted, or has low
 * priority: those go first, and a place is chosen from only a few.
 */
static bool is_place_step(const struct room *room, unsigned int step, const struct candidate *own)
{
	if (step % STEPS_PER_PLACE == STEPS_PER_PLACE - 1)
		return true;
	return coldness_kind(own->coldness) < COLDNESS_IS_LOW &&
	       mem_class_bytes(item_bytes_hint(own->block)) < mem_class_bytes(room->bytes);
}

/* Evicts large items, which may leave enough room, or empties a place of the size. */
static enum room_next choose_for_large(struct room *room, unsigned int step)
{
	unsigned int i, n = room->bytes < LARGE_AT_ONCE_BYTES ? LARGE_AT_ONCE : 1;
	struct store_thread *thread = room->thread;
	struct candidate own, any;

	if (!candidates_draw(room, MEM_CLASS_LARGE, &own, &any))
		return ROOM_AGAIN;
	if (!own.coldness || goes_before(&any, &own) || is_place_step(room, step, &own)) {
		emptying_bounds(room, &(struct candidate){ .coldness = 0 },
				any.coldness > own.coldness ? &any : &own);
		return place_next(room, room->bytes, true);
	}
	for (i = 0; i < n && own.coldness && !(i && is_young(&own)); i++) {
		evict_candidate(thread, &own);
		evict_candidate_of_class(thread, &own, MEM_CLASS_LARGE);
	}
	return ROOM_AGAIN;
}

static enum room_next room_choose(struct room *room)
{
	unsigned int step = room->step;

	if (!room->brief)
		limbo_settle(room);
	room->block = block_alloc(room);
	if (room->block)
		return room_end(room);
	if (step == ROOM_STEPS_MAX)
		return room_fail(room);
	room->step++;
	if (!evicts(room))
		return room_go(room, ROOM_COMPACT);
	if (room->bytes == ROOM_BUCKET)
		return choose_for_bucket(room);
	return is_large(room) ? choose_for_large(room, step) : choose_for_small(room, step);
}

static enum room_next empty_next(struct room *room)
{
	emptying_begin(room->thread, &room->emptying, evicts(room));
	return room_go(room, ROOM_EMPTY);
}

static enum room_next room_span(struct room *room)
{
	if (!may_open(room))
		return ROOM_WAIT;
	if (!mem_evacuation_begin(&room->emptying.evacuation, memory_of(room), room->cold.block))
		return room_go(room, ROOM_CHOOSE);
	opened(room);
	return empty_next(room);
}

/* Moving gained nothing, but it may still give a large item its place. */
static enum room_next compact_fails(struct room *room)
{
	return is_large(room) ? place_next(room, room->bytes, true) : room_fail(room);
}

static enum room_next room_compact(struct room *room)
{
	if (!may_open(room))
		return ROOM_WAIT;
	if (!mem_evacuation_begin_sparse(&room->emptying.evacuation, memory_of(room), &room->skip))
		return compact_fails(room);
	room->for_block = false;
	room->compacts = true;
	opened(room);
	return empty_next(room);
}

/* A place was not emptied: chooses what follows. */
static enum room_next place_fails(struct room *room)
{
	return evicts(room) ? room_go(room, ROOM_CHOOSE) : room_fail(room);
}

static enum room_next room_place(struct room *room)
{
	struct memory *memory = memory_of(room);

	if (!may_open(room))
		return ROOM_WAIT;
	if (mem_place_step(&room->place, memory, &room->thread->random))
		return ROOM_AGAIN;
	if (room->place.best == UINT64_MAX)
		return place_fails(room);
	mem_evacuation_begin_place(&room->emptying.evacuation, memory, &room->place);
	opened(room);
	return room_go(room, ROOM_CLOSE);
}

static enum room_next room_close(struct room *room)
{
	switch (mem_evacuation_close(&room->emptying.evacuation)) {
	case MEM_CLOSE_AGAIN:
		return ROOM_AGAIN;
	case MEM_CLOSED:
		return empty_next(room);
	case MEM_CLOSE_FAILED:
		break;
	}
	return room_go(room, ROOM_OPEN);
}

static enum room_next room_empty(struct room *room)
{
	struct mem_evacuation *evacuation = &room->emptying.evacuation;
	struct store_thread *thread = room->thread;
	bool emptied;

	if (emptying_step(thread, &room->emptying))
		return ROOM_AGAIN;
	limbo_settle(room);
	if (room->for_block) {
		room->block = mem_evacuation_take(evacuation, &thread->cache, room->bytes);
		emptied = room->block;
	} else {
		emptied = mem_evacuation_is_empty(evacuation);
	}
	stat_add(&thread->stats.evacuations_failed, !emptied);
	room->spared += room->emptying.spares && !emptied;
	/* Without eviction, a span that did not get empty won't next time. */
	room->compacts = room->compacts && !emptied;
	if (room->compacts)
		room->skip.pages[room->skip.count++] = evacuation->page;
	return room_go(room, ROOM_OPEN);
}

static enum room_next room_open(struct room *room)
{
	if (mem_evacuation_open(&room->emptying.evacuation))
		return ROOM_AGAIN;
	room->open = false;
	--*rooms_open(room);
	if (room->block)
		return room_end(room);
	if (room->compacts && room->skip.count == MEM_SKIP_MAX)
		return compact_fails(room);
	return room->for_block ? place_fails(room) : room_go(room, ROOM_CHOOSE);
}

enum room_next room_step(struct room *room)
{
	switch (room->state) {
	case ROOM_BEGIN:
		return room_gather(room);
	case ROOM_CHOOSE:
		return room_choose(room);
	case ROOM_SPAN:
		return room_span(room);
	case ROOM_COMPACT:
		return room_compact(room);
	case ROOM_PLACE:
		return room_place(room);
	case ROOM_CLOSE:
		return room_close(room);
	case ROOM_EMPTY:
		return room_empty(room);
	case ROOM_OPEN:
		return room_open(room);
	case ROOM_WAITS:
		return room_waits(room);
	case ROOM_ENDED:
		break;
	}
	return ROOM_DONE;
}

bool room_try(struct room *room)
{
	unsigned int i;

	if (is_too_large(room) || failed_just_now(room)) {
		room_end_without(room);
		return true;
	}
	room->brief = evicts(room) && !is_large(room) && room->bytes != ROOM_BUCKET;
	for (i = 0; room->brief && i <= BRIEF_STEPS; i++)
		if (room->state == ROOM_BEGIN || room->state == ROOM_CHOOSE)
			room_step(room);
	room->brief = false;
	stat_add(&room->thread->stats.rooms, room_pending(room));
	return !room_pending(room);
}

void room_run(struct room *room)
{
	enum room_next next;
	unsigned int n = 0;

	room->blocks = true;
	while ((next = room_step(room)) != ROOM_DONE) {
		/* The grace periods of other threads don't wait until all is done. */
		if (next == ROOM_WAIT || room->emptying.moving || ++n % STEPS_PER_QUIESCE == 0)
			rcu_quiescent_state();
		if (next == ROOM_WAIT)
			spin_pause(SPIN_PAUSE_NS);
	}
}

void *room_take(struct room *room)
{
	void *block = room->block;

	room->block = NULL;
	room->bytes = 0;
	return block;
}

void room_cancel(struct room *room)
{
	if (room_pending(room) && room->open) {
		emptying_cancel(&room->emptying);
		while (mem_evacuation_open(&room->emptying.evacuation))
			;
		--*rooms_open(room);
	}
	if (room->block)
		block_free(room);
	room_init(room);
}

void *room_make(struct store_thread *thread, size_t bytes)
{
	void *block = mem_alloc(&thread->cache, bytes);
	struct room room;

	if (block)
		return block;
	room_init(&room);
	room_begin(&room, thread, bytes);
	room.waited = true;
	room_run(&room);
	return room_take(&room);
}

bool room_ready(struct store_thread *thread, size_t bytes)
{
	struct room room;
	bool ready;

	room_init(&room);
	room_begin(&room, thread, bytes ? bytes : ROOM_BUCKET);
	room.waited = true;
	room_run(&room);
	ready = room.block;
	room_cancel(&room);
	return ready;
}
