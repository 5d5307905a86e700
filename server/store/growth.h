/* SPDX-License-Identifier: MIT */
/*
 * Growth: how the index gets its first buckets, and more of them as keys are added. The rules are at
 * the head of server/store/index.h.
 */
#ifndef KVD_SERVER_STORE_GROWTH_H
#define KVD_SERVER_STORE_GROWTH_H

#include "server/store/chain.h"

/* Memory is added to the index in steps of so many buckets: 64 KiB. */
#define INDEX_STEP 512u

/* Formats the buckets the geometry begins with, in memory that is the index's. */
void index_format(struct table *table);

/* Called with no lock held after a key was added: splits a bucket if there are keys enough. */
void index_grow(struct store_thread *thread);

/*
 * Adds a step of memory to the index, if it is free. Else the maintenance thread has to empty it: false.
 */
bool index_extend(struct table *table);

#endif /* KVD_SERVER_STORE_GROWTH_H */
