/* SPDX-License-Identifier: MIT */
/*
 * Eviction: makes room when memory is full, by evicting items and by emptying slabs for other
 * sizes.
 *
 * There are no lists of items. item.access says when an item was last used (LRU) or how often
 * (LFU), in a time that goes by keys added: 1,024 ticks while as many are added as there are
 * (server/store/access_time.h). Candidates are chosen at random and the coldest is evicted. The
 * server does not see one-sided GETs; clients report some of them (common/PROTOCOL.md, access
 * records).
 *
 * Evicting an item of the size class that is needed makes room at once. So that memory also moves
 * between classes as one LRU (or LFU) over all items would move it, the coldest candidate of the
 * class is compared with the coldest of all items. If the latter is much colder, its slab is
 * emptied: items in it that are at least as cold as the class's candidate are evicted, the others
 * moved.
 *
 * With eviction off nothing is evicted, but items are moved together as long as that empties a
 * slab.
 */
#ifndef KVD_SERVER_STORE_EVICT_H
#define KVD_SERVER_STORE_EVICT_H

#include "server/store/evacuate.h"
#include "server/store/table.h"

/*
 * Allocates a block of @bytes, after making room if necessary; NULL: no room could be made. Takes
 * bucket locks and may wait for a grace period: no lock held, no item or bucket in use. Bounded by
 * ROOM_STEPS_MAX.
 */
void *evict_make_room(struct store_thread *thread, size_t bytes);
/* The same for an overflow bucket. The caller sets its home: mem_bucket_set_home(). */
struct bucket *evict_make_bucket(struct store_thread *thread);

/*
 * The slot of the coldest item in a locked bucket, to be evicted from a full chain. NULL: eviction
 * is off, or the bucket is empty.
 */
uint64_t *evict_choose_slot(const struct store_thread *thread, struct bucket *bucket);

/*
 * Moves the items and buckets in the spans elsewhere; with @evict, items that find no room are
 * evicted. Blocks that another thread is writing stay. The caller ends the evacuation. Conditions
 * as above.
 */
void evict_evacuate(struct store_thread *thread, struct mem_evacuation *evacuation, bool evict);

/* Moves items together to empty one slab. False: there is none, or it did not get empty. */
bool evict_compact(struct store_thread *thread);

#endif /* KVD_SERVER_STORE_EVICT_H */
