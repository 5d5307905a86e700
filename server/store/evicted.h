/* SPDX-License-Identifier: MIT */
/*
 * What was evicted: how many items of which age and size class, and how old the youngest was. An
 * item's age is the time since it was used last, or stored, as the server knows of it: of GETs by
 * READ it learns late, and not of all (client/libkvd/access.h).
 *
 * Any thread, but for evicted_tick(). Nothing blocks.
 */
#ifndef KVD_SERVER_STORE_EVICTED_H
#define KVD_SERVER_STORE_EVICTED_H

#include "server/store/table.h"

/* For a time this long the youngest that was evicted is remembered, and up to twice as long. */
#define EVICTED_PERIOD_S 60u

/* evicted_youngest_s() if none was evicted. */
#define EVICTED_NONE UINT32_MAX

/* Before threads start. */
void evicted_init(struct table *table);

/* Counts an item that is about to be evicted. Its bucket is locked. */
void do_evicted_count(struct store_thread *thread, const struct item *item);

/*
 * The age in seconds, at most a tick too much, of the youngest normal item that was evicted in the
 * last EVICTED_PERIOD_S, or twice that; or EVICTED_NONE.
 */
uint32_t evicted_youngest_s(const struct table *table);

/*
 * Once a second, by one thread. Whether a period has ended in which an item was evicted that was
 * younger than EVICTED_PERIOD_S, unless it was so in the one before; @youngest_s: how old.
 */
bool evicted_tick(struct table *table, uint64_t now_s, uint32_t *youngest_s);

#endif /* KVD_SERVER_STORE_EVICTED_H */
