/* SPDX-License-Identifier: MIT */
/*
 * Adopting a store that was kept (keep.h): makes the free lists of the item memory from the page
 * map and the descriptors of slabs that an earlier process left, and goes on with its index.
 */
#ifndef KVD_SERVER_STORE_ADOPT_H
#define KVD_SERVER_STORE_ADOPT_H

#include "server/store/slab.h"
#include "server/store/table.h"

/*
 * The span that begins at @page of a map that was kept. False: none does, or none that could hold
 * an item that is valid (KEEP-3).
 */
bool kept_span(const struct memory *memory, uint32_t page, struct span *span);

/*
 * Adopts all spans of the map from page @first on; the pages between them become free. Before
 * threads start.
 */
void memory_adopt(struct memory *memory, uint32_t first);

/* Adopts a store that was stopped cleanly, as it was. Before threads start. */
void store_adopt(struct table *table);
/* Access times go on. */
void ticks_adopt(struct table *table);

/* Stores what store_adopt() needs, after all threads have ended: KEEP-2. */
void store_keep(const struct table *table);
/* Stores what is needed after a kill, too. One thread, once a second. */
void store_keep_tick(const struct table *table);

#endif /* KVD_SERVER_STORE_ADOPT_H */
