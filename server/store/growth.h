/* SPDX-License-Identifier: MIT */
/*
 * Growth: formats the index's first buckets, and adds buckets as keys are added. The rules are at
 * the head of server/store/index.h.
 */
#ifndef KVD_SERVER_STORE_GROWTH_H
#define KVD_SERVER_STORE_GROWTH_H

#include "server/store/chain.h"

/* Buckets by which the memory of the index grows: 64 KiB. */
#define INDEX_STEP 512u

/*
 * Formats the buckets that the geometry has at the start, before threads start. Returns 0, or
 * -ECANCELED soon after @cancel, unless NULL, was set.
 */
int index_format(struct table *table, const _Atomic bool *cancel);

/*
 * Splits a bucket if there are more keys than table.fill allows. Call it with no lock held after a
 * key was added. Does nothing if another thread is splitting; may wait for a grace period.
 */
void index_grow(struct store_thread *thread);

/*
 * Adds a step of memory to the index if the pages after it are free; else returns false, and the
 * maintenance thread must empty them. The caller holds table.growing.
 */
bool index_extend(struct table *table);

#endif /* KVD_SERVER_STORE_GROWTH_H */
