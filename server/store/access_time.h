/* SPDX-License-Identifier: MIT */
/*
 * Access times: what an item's access field says of its use, for LRU and for LFU, and how cold the
 * item is by that.
 *
 * Time goes in ticks by keys added: 1,024 ticks while as many keys are added as there are. Under
 * LRU the field is the low 16 bits of the tick of the last use; under LFU see access_time.c.
 *
 * Any thread, no lock; none of these block.
 */
#ifndef KVD_SERVER_STORE_ACCESS_TIME_H
#define KVD_SERVER_STORE_ACCESS_TIME_H

#include "server/store/table.h"

/* "none", "lru", "lfu" */
const char *eviction_policy_name(uint32_t policy);

/* item.access of a new item, and of one that was at @access and is used once more. */
uint16_t access_time_initial(const struct store_thread *thread);
uint16_t access_time_update(struct store_thread *thread, uint16_t access);

/* Advances the time, in ticks: a key was added. */
void access_time_tick(struct table *table);

/*
 * How cold an item is, from 1 up: the colder, the sooner it is evicted. An expired item has
 * UINT32_MAX. Reads the item without a lock: a hint, if it is not held.
 */
uint32_t access_time_coldness(const struct store_thread *thread, const struct item *item);

#endif /* KVD_SERVER_STORE_ACCESS_TIME_H */
