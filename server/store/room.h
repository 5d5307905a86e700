/* SPDX-License-Identifier: MIT */
/*
 * Room: memory for one block, made when none is free, by evicting items and by emptying slabs or
 * places for large items (server/store/evict.h).
 *
 * Evicting an item of the size class that is needed makes room at once. So that memory also moves
 * between classes, as a single order of all items would move it, the coldest candidate of the class
 * is compared with the coldest of all items. If the latter is more than twice as cold, or old where
 * the former is young, its slab is emptied: items in it that are at least as cold as the class's
 * candidate are evicted, the rest moved. For a large item one that is as long is evicted; or, of
 * some places, the one with the fewest young bytes, and among those the fewest old bytes, is
 * emptied. With eviction off items are moved together as long as that empties a slab.
 *
 *   ROOM-1. Room is made in steps. A step takes 20 us at most, plus a grace period, and 1 to 3 ns
 *	 for each free page of a place. Between two steps the caller may do anything, pass a
 *	 quiescent state, and make other rooms.
 *   ROOM-2. What a step closes (server/store/evacuate.h) is open again when the room has ended, in
 *	 whatever way. The rooms of a thread have ROOMS_OPEN_MAX evacuations open at once, of slabs
 *	 and places of that size, and as many of larger ones. Further ones evict what they can, or
 *	 wait (ROOM_WAIT): for rooms whose steps the same thread runs, so their caller must not make
 *	 them wait for anything else.
 *   ROOM-3. A room fails after ROOM_STEPS_MAX choices. If others' evacuations hold memory by then,
 *	 it waits until all of those have ended, whatever was begun later, and then tries once more.
 *
 *	room_init(&room);
 *	room_begin(&room, thread, bytes);
 *	if (!room_try(&room))
 *		while (room_step(&room) != ROOM_DONE)
 *			...
 *	block = room_take(&room);
 */
#ifndef KVD_SERVER_STORE_ROOM_H
#define KVD_SERVER_STORE_ROOM_H

#include "server/store/evict.h"

#define ROOMS_OPEN_MAX 4

/* In place of the bytes of a block: an overflow bucket. The caller sets its home. */
#define ROOM_BUCKET SIZE_MAX

enum room_state {
	ROOM_ENDED,
	ROOM_BEGIN,
	ROOM_CHOOSE,
	ROOM_SPAN,    /* begins to empty the span of @cold */
	ROOM_COMPACT, /* begins to empty the sparsest slab */
	ROOM_PLACE,   /* looks for a place to empty */
	ROOM_CLOSE,   /* closes the place */
	ROOM_EMPTY,
	ROOM_OPEN,
	ROOM_WAITS, /* ROOM-3 */
};

enum room_next {
	ROOM_DONE,  /* room_take() */
	ROOM_AGAIN, /* another step is needed */
	ROOM_WAIT,  /* another step, after other rooms or threads have made progress */
};

struct room {
	struct store_thread *thread;
	size_t bytes;	    /* wanted; 0: nothing */
	unsigned int tries; /* for server/store/attempt.c: rooms begun for one change */

	/* The steps' own. */
	void *block; /* the room, once made */
	enum room_state state;
	unsigned int step;    /* choices made */
	unsigned int looks;   /* consecutive draws that found nothing old */
	unsigned int spared;  /* failed evacuations in which young items stayed */
	bool brief;	      /* inside room_try() */
	bool blocks;	      /* inside room_run() */
	bool waited;	      /* ROOM-3 */
	bool open;	      /* an evacuation is open */
	bool for_block;	      /* it is of a place for the block itself */
	bool compacts;	      /* it is of the sparsest slab */
	uint64_t since_ns;    /* when the wait began */
	uint64_t evacuations; /* the wait is for evacuations up to this number */
	struct candidate cold;
	struct mem_skip skip; /* slabs that moving did not empty */
	struct mem_place place;
	struct emptying emptying;
};

/* Makes the room empty, as a zeroed struct is. */
static inline void room_init(struct room *room)
{
	room->bytes = 0;
	room->tries = 0;
	room->block = NULL;
	room->state = ROOM_ENDED;
}

/* Begins to make room for a block of @bytes. The room must not be moved until it has ended. */
void room_begin(struct room *room, struct store_thread *thread, size_t bytes);
/*
 * Runs the first steps, which take some us and need no grace period: evicts an item of the class.
 * True: the room is made. False: room_step() must follow; the room may be moved before that.
 */
bool room_try(struct room *room);
/* One step (ROOM-1). No lock held, no item or bucket in use. */
enum room_next room_step(struct room *room);
/* Runs all steps, one after another. May wait for grace periods. */
void room_run(struct room *room);
/* Returns the block, now the caller's; NULL: no room could be made. */
void *room_take(struct room *room);
/* Ends the room, at any time, and frees the block if there is one. */
void room_cancel(struct room *room);

/* Whether steps must follow. */
static inline bool room_pending(const struct room *room)
{
	return room->state != ROOM_ENDED;
}

/*
 * Allocates a block of @bytes, making room if necessary. NULL: there is none. Waits for no
 * evacuation (ROOM-3), since the thread may have one open.
 */
void *room_make(struct store_thread *thread, size_t bytes);

/*
 * Makes room for a block of @bytes, 0: for an overflow bucket, and leaves it free. False: there is
 * none.
 */
bool room_ready(struct store_thread *thread, size_t bytes);

#endif /* KVD_SERVER_STORE_ROOM_H */
