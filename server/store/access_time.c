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
 * 2^UNIT_SHIFT ticks. That has 7 bits: so the counter has no more, and has fallen to 0 before the
 * time has come around.
 */
#define LFU_FIRST 5u
#define LFU_FACTOR 2u
#define LFU_UNIT_SHIFT 9
#define LFU_MAX 127u

const char *eviction_policy_name(uint32_t policy)
{
	return policy == EVICTION_LRU ? "lru" : policy == EVICTION_LFU ? "lfu" : "none";
}

static uint32_t tick_now(const struct table *table)
{
	return atomic_load_explicit(&table->tick, memory_order_relaxed);
}

static uint16_t lfu_make(uint32_t tick, uint32_t counter)
{
	return (uint16_t)((tick >> LFU_UNIT_SHIFT & LFU_MAX) << 8 | counter);
}

/* The counter at @tick: what has fallen since the last change is taken off. */
static uint32_t lfu_counter(uint32_t tick, uint16_t access)
{
	uint32_t units = ((tick >> LFU_UNIT_SHIFT) - (access >> 8)) & LFU_MAX;
	uint32_t counter = access & 0xff;

	return counter > units ? counter - units : 0;
}

/* Of an item that was stored, or used for the first time, at @tick. */
static uint16_t access_make(const struct table *table, uint32_t tick, bool low)
{
	if (low)
		return (uint16_t)(ACCESS_LOW | (tick & ACCESS_TIME_LOW));
	return table->eviction == EVICTION_LFU ? lfu_make(tick, LFU_FIRST) :
						 (uint16_t)(tick & ACCESS_TIME);
}

uint16_t access_time_initial(const struct store_thread *thread)
{
	return access_make(thread->table, tick_now(thread->table), false);
}

static bool pin_lasts(const struct store_thread *thread, uint16_t access)
{
	return access_is_pin(access) &&
	       pins_until(thread->table->pins, access) > thread->now_ns / PIN_UNIT_NS;
}

bool access_time_is_over(const struct store_thread *thread, uint16_t access)
{
	return access_is_pin(access) && !pin_lasts(thread, access);
}

/* The field of an item whose pin is over. */
static uint16_t access_after_pin(const struct table *table, uint16_t access)
{
	uint64_t until = pins_until(table->pins, access);

	return access_make(table, pins_tick(table->pins, until, tick_now(table)),
			   access_is_low(access));
}

static uint16_t normal_update(struct store_thread *thread, uint16_t access)
{
	uint32_t tick = tick_now(thread->table), counter, odds;

	if (thread->table->eviction != EVICTION_LFU)
		return (uint16_t)(tick & ACCESS_TIME);
	counter = lfu_counter(tick, access);
	odds = counter > LFU_FIRST ? LFU_FACTOR * (counter - LFU_FIRST) + 1 : 1;
	if (counter < LFU_MAX && store_thread_random(thread) % odds == 0)
		counter++;
	return lfu_make(tick, counter);
}

uint16_t access_time_update(struct store_thread *thread, uint16_t access)
{
	if (__builtin_expect(access & ACCESS_LOW, 0)) {
		if (access_time_is_over(thread, access))
			access = access_after_pin(thread->table, access);
		if (access & ACCESS_LOW)
			return access;
	}
	return normal_update(thread, access);
}

uint16_t access_time_store(struct store_thread *thread, const struct item *old,
			   const struct access_wish *wish)
{
	bool wishes = (wish->pin || wish->low) && thread->table->eviction != EVICTION_NONE;
	uint16_t access;

	if (__builtin_expect(wishes, 0))
		return wish->pin ?
			       access_pin_make(pin_until(thread->now_ns, wish->pin), wish->low) :
			       access_make(thread->table, tick_now(thread->table), true);
	access = old ? item_access_load(old) : ACCESS_LOW;
	return access & ACCESS_LOW ? access_time_initial(thread) : normal_update(thread, access);
}

void do_access_time_use(struct store_thread *thread, struct item *item)
{
	uint16_t access = item_access_load(item), used = access_time_update(thread, access);

	if (access_is_pin(access) && !access_is_pin(used))
		item_unpin(thread, item);
	item_access_store(item, used);
}

void do_access_time_settle(struct store_thread *thread, struct item *item)
{
	uint16_t access = item_access_load(item);

	if (!access_time_is_over(thread, access))
		return;
	item_unpin(thread, item);
	item_access_store(item, access_after_pin(thread->table, access));
}

static uint64_t pinned_max(const struct table *table)
{
	return memory_bytes(table->memory) / 100 * table->pin_share;
}

void access_time_advance_pins(const struct store_thread *thread)
{
	pins_advance(thread->table->pins, thread->now_ns, tick_now(thread->table));
}

enum wire_status access_time_may_pin(struct store_thread *thread, const struct access_wish *wish,
				     size_t bytes)
{
	const struct table *table = thread->table;

	if (!wish->pin)
		return WIRE_OK;
	if (wish->pin > table->pin_time_max)
		return WIRE_INVALID;
	if (table->eviction == EVICTION_NONE)
		return WIRE_OK;
	access_time_advance_pins(thread);
	return pins_may_take(table->pins,
			     access_pin_make(pin_until(thread->now_ns, wish->pin), false),
			     mem_class_bytes(bytes), pinned_max(table)) ?
		       WIRE_OK :
		       WIRE_BUSY;
}

bool access_time_pin(struct store_thread *thread, uint16_t access, size_t bytes, size_t instead)
{
	const struct table *table = thread->table;

	access_time_advance_pins(thread);
	return pins_take(table->pins, access, mem_class_bytes(bytes),
			 instead ? mem_class_bytes(instead) : 0, pinned_max(table));
}

bool access_time_is_pinned(const struct store_thread *thread, const struct item *item)
{
	return pin_lasts(thread, item_access_load(item)) &&
	       !is_expired(item_expires_load(item), thread->now_ns);
}

uint32_t access_time_coldness(const struct store_thread *thread, const struct item *item)
{
	const struct table *table = thread->table;
	uint16_t access = item_access_load(item);
	uint32_t tick = tick_now(table);

	if (is_expired(item_expires_load(item), thread->now_ns))
		return UINT32_MAX;
	if (__builtin_expect(access_is_pin(access), 0)) {
		if (pin_lasts(thread, access))
			return 0;
		access = access_after_pin(table, access);
	}
	if (access & ACCESS_LOW)
		return COLDNESS_LOW + ((tick - access) & ACCESS_TIME_LOW);
	if (table->eviction == EVICTION_LFU)
		return LFU_MAX + 1 - lfu_counter(tick, access);
	return ((tick - access) & ACCESS_TIME) + 1;
}

enum wire_use access_time_tell(const struct store_thread *thread, uint16_t access, uint32_t *number)
{
	const struct table *table = thread->table;
	uint32_t tick = tick_now(table);

	*number = 0;
	if (table->eviction == EVICTION_NONE)
		return WIRE_USE_NONE;
	if (access_is_pin(access)) {
		if (pin_lasts(thread, access))
			return WIRE_USE_PINNED;
		access = access_after_pin(table, access);
	}
	if (access & ACCESS_LOW) {
		*number = (tick - access) & ACCESS_TIME_LOW;
		return WIRE_USE_LOW;
	}
	if (table->eviction == EVICTION_LFU) {
		*number = lfu_counter(tick, access);
		return WIRE_USE_FREQUENCY;
	}
	*number = (tick - access) & ACCESS_TIME;
	return WIRE_USE_RECENCY;
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
