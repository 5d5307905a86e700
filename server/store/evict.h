/* SPDX-License-Identifier: MIT */
/*
 * Making room: what is evicted when memory is full, and how slabs are emptied for other sizes.
 *
 * There are no lists of items. item.access says when an item was last used (lru) or how often (lfu),
 * in a time that goes by keys added: 1,024 ticks while as many are added as there are. Candidates are
 * chosen at random and the coldest goes. Servers do not see one-sided GETs; clients tell of a part of
 * them (common/PROTOCOL.md, access records).
 *
 * An item of the class that is needed makes room at once. So that memory moves between classes as one
 * LRU (or LFU) over all items would move it, the class's coldest candidate is compared with the
 * coldest of any class; if that is much colder, the slab it lives in is emptied: what in it is colder
 * than the class's own candidate is evicted, the rest moved.
 *
 * With eviction off nothing is evicted, but items are moved together as long as that empties a slab.
 */
#ifndef KVD_SERVER_STORE_EVICT_H
#define KVD_SERVER_STORE_EVICT_H

#include "server/store/evacuate.h"
#include "server/store/table.h"

/*
 * A block of @bytes, made free if need be; NULL: there is no room to be had. Takes bucket locks, may
 * wait for a grace period: no lock held, nothing of the table in hand. Bounded by ROOM_STEPS_MAX.
 */
void *evict_make_room(struct store_thread *thread, size_t bytes);
/* The same for an overflow bucket. Its home is to be set. */
struct bucket *evict_make_bucket(struct store_thread *thread);

/*
 * The slot of the coldest item in a locked bucket, to make room in a chain that is full; NULL: nothing
 * is evicted.
 */
uint64_t *evict_choose_slot(const struct store_thread *thread, struct bucket *bucket);

/*
 * Moves what lives in the spans elsewhere; with @evict, what finds no room is evicted. The caller
 * ends the evacuation. Blocks whose owners are at work on them stay.
 */
void evict_evacuate(struct store_thread *thread, struct mem_evacuation *evacuation, bool evict);

/* Moves items together to empty one slab. False: nothing can be gained that way. */
bool evict_compact(struct store_thread *thread);

#endif /* KVD_SERVER_STORE_EVICT_H */
