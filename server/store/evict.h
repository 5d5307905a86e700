/* SPDX-License-Identifier: MIT */
/*
 * Eviction: chooses what to evict when memory is full, and empties slabs and places for large items
 * by moving and evicting what is in them. room.h makes room with it.
 *
 * There are no lists of items. item.access says when an item was last used, and how often, in a
 * time that goes by bytes added (server/store/access_time.h). Candidates are chosen at random and
 * the coldest is evicted. The server does not see one-sided GETs; clients report some of them
 * (common/PROTOCOL.md, access records).
 *
 *   EVICT-1. What was stored or used while the last quarter of the memory was added, the young, is
 *	 not evicted while there is something older, of any size, that is not pinned: older items
 *	 are searched for, and young ones are moved out of memory that is being emptied. Exceptions:
 *	 items of low priority or in a full chain; and if so little is old that LOOKS_MAX draws
 *	 miss it, or that it makes no room (room.c).
 *
 * Pinned items are never chosen, only moved; items of low priority are colder than all others.
 *
 * With eviction off nothing is evicted, but items are still moved together.
 */
#ifndef KVD_SERVER_STORE_EVICT_H
#define KVD_SERVER_STORE_EVICT_H

#include "server/store/evacuate.h"
#include "server/store/table_maintain.h"

/* The coldest of some items drawn at random. */
struct candidate {
	void *block;
	uint64_t hash;
	uint64_t coldness; /* 0: there is none */
};

/* Draw a candidate of a size class, or of all items; none in memory that is being emptied. */
void evict_candidate_of_class(struct store_thread *thread, struct candidate *best,
			      unsigned int class_id);
void evict_candidate_of_any(struct store_thread *thread, struct candidate *best);
/* Evicts the candidate. False: it is gone. No lock held; may wait for a grace period. */
bool evict_candidate(struct store_thread *thread, const struct candidate *candidate);

/*
 * The slot of a full, locked chain whose item to evict. NULL: eviction is off.
 *
 * A chain is full if a client made up its keys, or if the index could not grow. Such a client must
 * not be able to choose the key that is evicted:
 *
 *	not of the home bucket	keys that were there first stay
 *	at random, not the coldest or the oldest: the client may keep its own warm or new. A new key
 *		of another goes at each of its PUTs with 1 in 224 (CHAIN_MAX x BUCKET_SLOTS)
 *	pinned items are not safe	else the client would pin its own. But four are drawn, and
 *		the first that is not pinned is taken, so one of a few that are pinned stays
 */
uint64_t *evict_choose_slot(struct store_thread *thread, struct bucket *home, struct bucket **in);

/*
 * Emptying the spans of an evacuation, in steps: what is in them is moved elsewhere. With @evict,
 * items that are at least as cold as @warm, and items that find no room, are evicted. Blocks that
 * another thread is writing stay. Pinned items, and with @spares young ones, stay if a few
 * evictions make no room for them; with @spares the emptying then ends. The struct must not be
 * moved (struct table_move).
 */
struct emptying {
	struct mem_evacuation evacuation;
	uint64_t warm; /* set by the caller before emptying_begin(), as @spares */
	bool spares;
	/*
	 * Set by the caller: makes room for a block of @bytes that finds none; 0: for an overflow
	 * bucket. With @evict it is called for items that must stay, for young ones, in whose place
	 * something older is evicted, and for buckets. If it is NULL or returns false, the young
	 * item is evicted.
	 */
	bool (*make_room)(struct store_thread *thread, size_t bytes);
	bool evict;
	uint64_t left; /* items that must not be evicted, and buckets, that found no room */
	bool moving;   /* @move, of a large item, is under way */
	bool stays;    /* an item that must stay found no room: the span does not get empty */
	struct table_move move;
};

/*
 * Before the first step. The caller begins the evacuation, and ends it after limbo_empty(): items
 * and buckets in limbo keep the spans from being empty.
 */
void emptying_begin(struct store_thread *thread, struct emptying *emptying, bool evict);
/*
 * Moves or evicts one block, or moves a part of a large item: some 20 us at most, plus what
 * limbo_add() may wait. False: there are no more blocks. No lock held, no item or bucket in use.
 */
bool emptying_step(struct store_thread *thread, struct emptying *emptying);
/* Ends the emptying early: gives up a move that is under way. */
void emptying_cancel(struct emptying *emptying);

/*
 * Runs all steps, passing quiescent states in between; evicts nothing that can be moved. The caller
 * has begun the evacuation and set make_room, and ends the evacuation. Conditions as above.
 */
void evict_evacuate(struct store_thread *thread, struct emptying *emptying, bool evict);

/* Moves items together to empty one slab. False: there is none, or it did not get empty. */
bool evict_compact(struct store_thread *thread);

#endif /* KVD_SERVER_STORE_EVICT_H */
