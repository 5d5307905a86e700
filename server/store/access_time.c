/* SPDX-License-Identifier: MIT */
/*
 * Access times: the clock that ticks with the keys added, and the two ways to code an item's use in
 * its access field, LRU and LFU.
 */
#include "server/store/access_time.h"

#include "common/barrier.h"

/*
 * LFU: a logarithmic counter in the low byte, as in Redis (Morris, CACM 1978): one more use raises
 * it with a probability of 1 / (FACTOR * (counter - FIRST) + 1), and it falls by one for each unit
 * of time since it was last changed. The high byte is the time of that change, in units of
 * 2^UNIT_SHIFT ticks.
 */
#define LFU_FIRST 5u
#define LFU_FACTOR 2u
#define LFU_UNIT_SHIFT 9

const char *eviction_policy_name(uint32_t policy)
{
	return policy == EVICTION_LRU ? "lru" : policy == EVICTION_LFU ? "lfu" : "none";
}

static uint32_t tick_now(const struct table *table)
{
	return atomic_load_explicit(&table->tick, memory_order_relaxed);
}

/* Xorshift, of the thread's own state. */
static uint64_t random_next(struct store_thread *thread)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	return thread->random;
}

static uint16_t lfu_make(uint32_t tick, uint32_t counter)
{
	return (uint16_t)((tick >> LFU_UNIT_SHIFT & 0xff) << 8 | counter);
}

/* The counter at @tick: what has fallen since the last change is taken off. */
static uint32_t lfu_counter(uint32_t tick, uint16_t access)
{
	uint32_t units = ((tick >> LFU_UNIT_SHIFT) - (access >> 8)) & 0xff;
	uint32_t counter = access & 0xff;

	return counter > units ? counter - units : 0;
}

uint16_t access_time_initial(const struct store_thread *thread)
{
	uint32_t tick = tick_now(thread->table);

	return thread->table->eviction == EVICTION_LFU ? lfu_make(tick, LFU_FIRST) : (uint16_t)tick;
}

uint16_t access_time_update(struct store_thread *thread, uint16_t access)
{
	uint32_t tick = tick_now(thread->table), counter, odds;

	if (thread->table->eviction != EVICTION_LFU)
		return (uint16_t)tick;
	counter = lfu_counter(tick, access);
	odds = counter > LFU_FIRST ? LFU_FACTOR * (counter - LFU_FIRST) + 1 : 1;
	if (counter < 255 && random_next(thread) % odds == 0)
		counter++;
	return lfu_make(tick, counter);
}

uint32_t access_time_coldness(const struct store_thread *thread, const struct item *item)
{
	const struct table *table = thread->table;
	uint16_t access = item_access_load(item);
	uint32_t tick = tick_now(table);

	if (is_expired(item_expires_load(item), thread->now_ns))
		return UINT32_MAX;
	if (table->eviction == EVICTION_LFU)
		return 256 - lfu_counter(tick, access);
	return (uint16_t)(tick - access) + 1u;
}

void access_time_tick(struct table *table)
{
	int64_t items = atomic_load_explicit(&table->items, memory_order_relaxed);
	uint32_t each = items >> 10 > 1 ? (uint32_t)(items >> 10) : 1;

	if (table->eviction == EVICTION_NONE ||
	    atomic_fetch_add_explicit(&table->tick_inserts, 1, memory_order_relaxed) + 1 < each)
		return;
	atomic_store_explicit(&table->tick_inserts, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&table->tick, 1, memory_order_relaxed);
}
