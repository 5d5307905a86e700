/* SPDX-License-Identifier: MIT */
/*
 * Access times: how it is noted in an item that it was used, for LRU and for LFU, and how cold an item
 * is by that.
 */
#ifndef KVD_SERVER_STORE_ACCESS_TIME_H
#define KVD_SERVER_STORE_ACCESS_TIME_H

#include "server/store/table.h"

/* "none", "lru", "lfu" */
const char *eviction_policy_name(uint32_t policy);

/* item.access of an item that is new, and of one that is used once more. */
uint16_t access_time_initial(const struct store_thread *thread);
uint16_t access_time_update(struct store_thread *thread, uint16_t access);

/* A key was added: time goes on. */
void access_time_tick(struct table *table);

/*
 * How cold an item is: the larger, the sooner it is evicted; an item that has expired is the coldest of
 * all.
 */
uint32_t access_time_coldness(const struct store_thread *thread, const struct item *item);

#endif /* KVD_SERVER_STORE_ACCESS_TIME_H */
