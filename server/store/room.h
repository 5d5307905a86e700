/* SPDX-License-Identifier: MIT */
/*
 * Room: memory for one block, made when there is none, by evicting items and by emptying slabs or
 * places for large items (server/store/evict.h).
 *
 * Evicting an item of the size class that is needed makes room at once. So that memory also moves
 * between classes as one order of all items would move it, the coldest candidate of the class is
 * compared with the coldest of all items. If that is more than twice as cold, or old where the
 * former is young, its slab is emptied: items in it that are at least as cold as the class's
 * candidate are evicted, the others moved. For a large item one that is as long is evicted, or of
 * some places the one is emptied that has the least of what is young, and then of what is old. With
 * eviction off items are moved together as long as that empties a slab.
 *
 *   ROOM-1. Room is made in steps. A step takes 20 us at most, beside a grace period, and 1 to 3 ns
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
	ROOM_PLACE,   /* looks for a place to be emptied */
	ROOM_CLOSE,   /* closes it */
	ROOM_EMPTY,
	ROOM_OPEN,
	ROOM_WAITS, /* ROOM-3 */
};

enum room_next {
	ROOM_DONE,  /* room_take() */
	ROOM_AGAIN, /* another step */
	ROOM_WAIT,  /* the same, but others have to get on first */
};

struct room {
	struct store_thread *thread;
	size_t bytes;	    /* wanted; 0: nothing */
	unsigned int tries; /* for server/store/attempt.c: rooms begun for one change */

	/* The steps' own. */
	void *block; /* that was made */
	enum room_state state;
	unsigned int step;    /* choices made */
	unsigned int looks;   /* in vain for something old, one after the other */
	unsigned int spared;  /* evacuations in which the young stayed, and that failed */
	bool brief;	      /* inside of room_try() */
	bool blocks;	      /* inside of room_run() */
	bool waited;	      /* ROOM-3 */
	bool open;	      /* there is an evacuation, */
	bool for_block;	      /* of a place for the block itself */
	bool compacts;	      /* of the sparsest slab */
	uint64_t since_ns;    /* of the wait, */
	uint64_t evacuations; /* for those up to this number */
	struct candidate cold;
	struct mem_skip skip; /* what moving did not empty */
	struct mem_place place;
	struct emptying emptying;
};

/* There is nothing in it; so if all of it is zero. */
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
 * The first steps, as long as they take some us and need no grace period: an item of the class is
 * evicted. True: that was it. False: room_step() follows; the room may be moved before that.
 */
bool room_try(struct room *room);
/* One step (ROOM-1). No lock held, no item or bucket in use. */
enum room_next room_step(struct room *room);
/* All steps, one after the other: may wait for grace periods. */
void room_run(struct room *room);
/* The block, which is the caller's then; NULL: no room could be made. */
void *room_take(struct room *room);
/* Ends it, at any time, and frees the block if there is one. */
void room_cancel(struct room *room);

/* Whether steps are to follow. */
static inline bool room_pending(const struct room *room)
{
	return room->state != ROOM_ENDED;
}

/*
 * All in one: a block of @bytes, with or without making room; NULL: there is none. It waits for no
 * evacuation (ROOM-3), since the thread may have one of its own open.
 */
void *room_make(struct store_thread *thread, size_t bytes);

#endif /* KVD_SERVER_STORE_ROOM_H */
