/* SPDX-License-Identifier: MIT */
/*
 * Evicted items: how many of each age and size class, and how old the youngest was. An item's age
 * is the time since its last use that the server knows of, or since it was stored: the server
 * learns of GETs by READ late, and not of all (client/libkvd/access.h).
 *
 * Any thread, but for evicted_tick(). Nothing blocks.
 */
#ifndef KVD_SERVER_STORE_EVICTED_H
#define KVD_SERVER_STORE_EVICTED_H

#include "server/store/table.h"

/* How long the youngest evicted item is remembered, at least; at most twice as long. */
#define EVICTED_PERIOD_S 60u

/* evicted_youngest_s() if no item was evicted. */
#define EVICTED_NONE UINT32_MAX

/* Before threads start. */
void evicted_init(struct table *table);

/* Counts an item that is about to be evicted. Its bucket is locked. */
void do_evicted_count(struct store_thread *thread, const struct item *item);

/*
 * The age in seconds, at most a tick too high, of the youngest normal item evicted in the last one
 * or two EVICTED_PERIOD_S; EVICTED_NONE if there is none.
 */
uint32_t evicted_youngest_s(const struct table *table);

/*
 * Called once a second, by one thread. Returns whether a period has ended in which an item younger
 * than EVICTED_PERIOD_S was evicted, and none in the period before; @youngest_s: its age.
 */
bool evicted_tick(struct table *table, uint64_t now_s, uint32_t *youngest_s);

#endif /* KVD_SERVER_STORE_EVICTED_H */
