/* SPDX-License-Identifier: MIT */
/*
 * Eviction: chooses what is evicted when memory is full, and empties slabs and places for large
 * items by moving and evicting what is in them. room.h makes room by it.
 *
 * There are no lists of items. item.access says when an item was last used, and how often, in a
 * time that goes by bytes added (server/store/access_time.h). Candidates are chosen at random and
 * the coldest is evicted. The server does not see one-sided GETs; clients report some of them
 * (common/PROTOCOL.md, access records).
 *
 *   EVICT-1. What was stored or used while the last quarter of the memory was added, the young, is
 *	 not evicted while there is something older, of whatever size, that is not pinned: it is
 *	 searched for, and young items in memory that is to be emptied are moved. Exceptions: those
 *	 of low priority, or in a full chain; where so little is old that LOOKS_MAX drawings miss
 *	 it, or that it makes no room (room.c).
 *
 * Items that are pinned are not chosen, but moved; those of low priority are colder than all
 * others.
 *
 * With eviction off nothing is evicted, but items are moved together.
 */
#ifndef KVD_SERVER_STORE_EVICT_H
#define KVD_SERVER_STORE_EVICT_H

#include "server/store/evacuate.h"
#include "server/store/table_maintain.h"

/* The coldest of some items that were drawn. */
struct candidate {
	void *block;
	uint64_t hash;
	uint64_t coldness; /* 0: there is none */
};

/* Of the items of a size class, or of all; what is in memory that is being emptied is not drawn. */
void evict_candidate_of_class(struct store_thread *thread, struct candidate *best,
			      unsigned int class_id);
void evict_candidate_of_any(struct store_thread *thread, struct candidate *best);
/* Evicts it. False: it is not there any more. No lock held; may wait for a grace period. */
bool evict_candidate(struct store_thread *thread, const struct candidate *candidate);

/*
 * A slot of a full, locked chain, whose item is to be evicted. NULL: eviction is off.
 *
 * Somebody made up the chain's keys, or the index could not grow. So that he can't choose whose key
 * goes, all of these hold:
 *
 *	not of the home bucket	what was there before him stays
 *	at random, not the coldest of them or the oldest: he may keep his own warm or new. A new key
 *		of another goes with each of his PUTs at 1 in 224 (CHAIN_MAX x BUCKET_SLOTS)
 *	pinned items are not safe	else he would pin his. But four are drawn, and the first that is
 *		not pinned is taken, so one of a few that are pinned stays
 */
uint64_t *evict_choose_slot(struct store_thread *thread, struct bucket *home, struct bucket **in);

/*
 * Emptying the spans of an evacuation, in steps: what is in them is moved elsewhere. With @evict,
 * items that are at least as cold as @warm, and those that find no room, are evicted. Blocks that
 * another thread is writing stay; and pinned items, and with @spares the young, for which a few
 * evictions make no room: with the first of those it ends. The struct must not be moved (struct
 * table_move).
 */
struct emptying {
	struct mem_evacuation evacuation;
	uint64_t warm; /* the caller's, as @spares: set before emptying_begin() */
	bool spares;
	/*
	 * The caller's: evicts what is older than the young item of @bytes that finds no room.
	 * NULL: the item is evicted. False: there is nothing, and it is, too.
	 */
	bool (*make_room)(struct store_thread *thread, size_t bytes);
	bool evict;
	bool moving; /* @move, of a large item, is under way */
	bool stays;  /* one that was to stay found no room: it does not get empty */
	struct table_move move;
};

/*
 * Before the first step; the evacuation is begun by the caller, who ends it, too. An evacuation
 * ends after limbo_empty(): items and buckets in limbo keep the spans from being empty.
 */
void emptying_begin(struct store_thread *thread, struct emptying *emptying, bool evict);
/*
 * Moves or evicts one block, or moves a part of a large item, some 20 us at most beside what
 * limbo_add() may wait. False: there were no more blocks. No lock held, no item or bucket in use.
 */
bool emptying_step(struct store_thread *thread, struct emptying *emptying);
/* Ends it early: a move that is under way is given up. */
void emptying_cancel(struct emptying *emptying);

/*
 * All steps, passing quiescent states in between; evicts nothing that can be moved. The caller has
 * begun the evacuation and set make_room, and ends it, with the block. Conditions as above.
 */
void evict_evacuate(struct store_thread *thread, struct emptying *emptying, bool evict);

/* Moves items together to empty one slab. False: there is none, or it did not get empty. */
bool evict_compact(struct store_thread *thread);

#endif /* KVD_SERVER_STORE_EVICT_H */
