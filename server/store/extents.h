/* SPDX-License-Identifier: MIT */
/*
 * Extents: the equal parts of a region that grows and shrinks while it is served. This module
 * empties the last ones, as work of the maintenance thread; server/store/region.h maps them.
 *
 *	region_extend(), store_open_extents()		more of them
 *	store_close_extents(), EXTENTS_CLOSED, region_cut()	fewer
 *
 *   EXTENT-1. Neither a span nor a run of pages crosses from an extent to the next, nor does a READ
 *	 of an item that is rounded up to SLOT_UNIT. So each extent can be registered with devices,
 *	 mapped and READ on its own. The index, which is READ bucket by bucket, crosses.
 *   EXTENT-2. From the time that all spans of the closing extents are closed, nothing is allocated
 *	 there. What is there moves to other extents. Where an item finds no place, items are
 *	 evicted by the store's policy, or the closing fails with eviction off, or if pinned items
 *	 do not fit. A block that is being written stays until its writer has ended.
 *   EXTENT-3. A closing that fails or is cancelled opens all of its spans again. No item was lost
 *	 but those evicted.
 *   EXTENT-4. At EXTENTS_CLOSED no slot and no bucket leads to the extents, the heap and
 *	 region.bytes end before them, and a grace period has passed since: so no RCU reader uses
 *	 them, not even by a hint that is outdated.
 *   EXTENT-5. With memory.file, the state's number of extents is raised before an item is stored in
 *	 a new one, and lowered after EXTENT-4. So a kill at any time leaves each item in an extent
 *	 that counts; what the file has beyond is given back at the next start.
 *   EXTENT-6. A step is as short as the other work of the maintenance thread, which goes on in
 *	 between. No room waits for a closing (ROOM-3 in server/store/room.h), which may take long.
 */
#ifndef KVD_SERVER_STORE_EXTENTS_H
#define KVD_SERVER_STORE_EXTENTS_H

#include "server/store/evict.h"

#define EXTENTS_WHY_MAX 128

enum extents_state {
	EXTENTS_IDLE,
	EXTENTS_CLOSING,
	EXTENTS_CLOSED, /* EXTENT-4 */
	EXTENTS_FAILED, /* EXTENT-3 */
};

/* All zero: nothing was closed yet. */
struct extents {
	_Atomic uint32_t state; /* enum extents_state */
	_Atomic bool cancel;
	char why[EXTENTS_WHY_MAX]; /* of EXTENTS_FAILED */

	/* The maintenance thread's, while EXTENTS_CLOSING. */
	enum { EXTENTS_CLOSE, EXTENTS_EMPTY, EXTENTS_OPEN } phase;
	unsigned int count;	    /* extents that stay */
	uint32_t from;		    /* the first page that goes */
	uint32_t first, closed;	    /* the pages closed so far: whole spans */
	uint32_t next;		    /* the page after those that are being emptied */
	bool empties;		    /* some of them are being emptied */
	bool busy;		    /* in this pass over the pages, some were not empty */
	unsigned int no_room;	    /* passes, one after another, with items that found no room */
	uint64_t pause_ns, next_ns; /* before the next pass; when it begins, 0: at once */
	struct emptying emptying;
};

/*
 * Asks to close all extents of the table's region but the first @count, which must be fewer than
 * there are. One thread at a time. Returns 0; -EBUSY if that is under way; -ENOSPC if the index, or
 * with eviction off what is stored, can't fit the rest.
 */
int extents_close(struct extents *extents, const struct table *table, unsigned int count);
/* Works for about 2 ms. Returns the clock_ns() of the next time, 1: at once, 0: nothing to do. */
uint64_t extents_run(struct extents *extents, struct store_thread *thread);
/* Ends a closing that is under way, at the end of the thread. */
void extents_release(struct extents *extents);

#endif /* KVD_SERVER_STORE_EXTENTS_H */
