/* SPDX-License-Identifier: MIT */
/*
 * Access times: the clock that ticks with the bytes added, the counter of uses, and what both make
 * of an item.
 */
#include "server/store/access_time.h"

#include "common/barrier.h"
#include "common/util/clock.h"
#include "server/store/size_class.h"

#define NS_PER_S 1000000000u

/* The age up to which an item is not stale. */
#define OLD_AGE_MAX (ACCESS_TICKS * 4)

#define USES_MAX 15u
static_assert(PIN_UNIT_NS == WIRE_PIN_UNIT_S * 1000000000ull && PIN_UNITS <= WIRE_AGE_MAX, "ABI");
static_assert(WIRE_USES_MAX == (1u << USES_MAX) - 1 && WIRE_AGE_MAX == ACCESS_TIME_LOW, "ABI");
/* After this many ticks without a use a counter falls by one, which halves the uses. */
#define USES_HALVE_TICKS (ACCESS_TICKS / 4)

/* In access_time_cost() one young unit outweighs all old bytes; the sum of 1 GiB fits. */
#define COST_YOUNG_SHIFT 36

const char *eviction_policy_name(uint32_t policy)
{
	return policy == EVICTION_OBJECT_HITS ? "object-hits" :
	       policy == EVICTION_BYTE_HITS   ? "byte-hits" :
						"none";
}

void access_time_init(struct table *table)
{
	uint64_t now_ns = table_clock_ns(table);

	for (unsigned int i = 0; i < TICKS_TOLD; i++)
		atomic_init(&table->tick_began_s[i], (uint32_t)(now_ns / NS_PER_S));
}

uint32_t access_time_now(const struct table *table)
{
	return atomic_load_explicit(&table->tick, memory_order_relaxed);
}

/* The access field of a normal item. */
static uint16_t normal_make(uint32_t tick, uint32_t uses)
{
	return (uint16_t)(uses << ACCESS_USES_SHIFT | (tick & ACCESS_TIME));
}

static uint32_t normal_age(uint32_t tick, uint16_t access)
{
	return (tick - access) & ACCESS_TIME;
}

static uint32_t low_age(uint32_t tick, uint16_t access)
{
	return (tick - access) & ACCESS_TIME_LOW;
}

/* The counter at @tick, less what it has fallen since the last use. */
static uint32_t normal_uses(uint32_t tick, uint16_t access)
{
	uint32_t uses = access >> ACCESS_USES_SHIFT;
	uint32_t halved = normal_age(tick, access) / USES_HALVE_TICKS;

	return uses > halved ? uses - halved : 0;
}

/* The access field of an item stored at @tick. */
static uint16_t access_make(uint32_t tick, bool low)
{
	return low ? (uint16_t)(ACCESS_LOW | (tick & ACCESS_TIME_LOW)) : normal_make(tick, 0);
}

uint16_t access_time_initial(const struct store_thread *thread)
{
	return access_make(access_time_now(thread->table), false);
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

/* The access field of an item whose pin has ended. */
static uint16_t access_after_pin(const struct table *table, uint16_t access)
{
	uint64_t until = pins_until(table->pins, access);

	return access_make(pins_tick(table->pins, until, access_time_now(table)),
			   access_is_low(access));
}

/* The counter after @uses more uses: the log2 of all uses, rounded up or down at random. */
static uint32_t counter_add(struct store_thread *thread, uint32_t counter, uint32_t uses)
{
	const uint32_t sum = (1u << counter) + uses;
	const uint32_t low = 31 - (uint32_t)__builtin_clz(sum), power = 1u << low;

	counter = low + ((store_thread_random(thread) & (power - 1)) < sum - power);
	return counter < USES_MAX ? counter : USES_MAX;
}

static uint16_t normal_update(struct store_thread *thread, uint16_t access, uint32_t uses)
{
	uint32_t tick = access_time_now(thread->table);

	return normal_make(tick, counter_add(thread, normal_uses(tick, access), uses));
}

uint16_t access_time_update(struct store_thread *thread, uint16_t access, uint32_t uses)
{
	if (__builtin_expect(access & ACCESS_LOW, 0)) {
		if (access_time_is_over(thread, access))
			access = access_after_pin(thread->table, access);
		if (access & ACCESS_LOW)
			return access;
	}
	return normal_update(thread, access, uses);
}

uint16_t access_time_again(const struct store_thread *thread, uint16_t access)
{
	const uint16_t time = access & ACCESS_LOW ? ACCESS_TIME_LOW : ACCESS_TIME;

	if (access_is_pin(access) || thread->table->eviction == EVICTION_NONE)
		return access;
	return (uint16_t)((access & ~time) | (access_time_now(thread->table) & time));
}

uint16_t access_time_store(struct store_thread *thread, const struct item *old,
			   const struct access_wish *wish)
{
	bool wishes = (wish->pin || wish->low) && thread->table->eviction != EVICTION_NONE;
	uint16_t access;

	if (__builtin_expect(wishes, 0))
		return wish->pin ?
			       access_pin_make(pin_until(thread->now_ns, wish->pin), wish->low) :
			       access_make(access_time_now(thread->table), true);
	access = old ? item_access_load(old) : ACCESS_LOW;
	return access & ACCESS_LOW ? access_time_initial(thread) : normal_update(thread, access, 1);
}

void do_access_time_use(struct store_thread *thread, struct item *item, uint32_t uses)
{
	uint16_t access = item_access_load(item), used = access_time_update(thread, access, uses);

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
	pins_advance(thread->table->pins, thread->now_ns, access_time_now(thread->table));
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

/*
 * Called for each candidate. Sizes are counted in CLASS_STEP, the smallest step between blocks. The
 * item's lengths may be garbage.
 */
uint64_t access_time_coldness(const struct store_thread *thread, const struct item *item)
{
	const struct table *table = thread->table;
	uint16_t access = item_access_load(item);
	uint64_t coldness;
	uint32_t age;

	if (is_expired(item_expires_load(item), thread->now_ns))
		return UINT64_MAX;
	if (__builtin_expect(access & ACCESS_LOW, 0)) {
		if (pin_lasts(thread, access))
			return 0;
		if (access_is_pin(access))
			access = access_after_pin(table, access);
		if (access & ACCESS_LOW)
			return COLDNESS_LOW + low_age(access_time_now(table), access);
	}
	age = normal_age(access_time_now(table), access);
	if (__builtin_expect(age > OLD_AGE_MAX, 0))
		return COLDNESS_STALE + age;
	coldness = (uint64_t)(age + 1) << !(access >> ACCESS_USES_SHIFT);
	if (table->eviction == EVICTION_OBJECT_HITS)
		coldness *= item_bytes_hint(item) / CLASS_STEP;
	return age > ACCESS_YOUNG_MAX ? COLDNESS_OLD + coldness : coldness;
}

uint64_t access_time_cost(const struct store_thread *thread, const void *block, size_t bytes)
{
	uint64_t units = bytes / CLASS_STEP;
	const struct item *item = block;

	/* A block without an item is free, in a magazine; pages without one wait for their item. */
	if (item_sum_first(item) == ITEM_SUM_INVALID)
		return bytes > CLASS_BYTES_MAX ? units << COST_YOUNG_SHIFT : 0;
	switch (coldness_kind(access_time_coldness(thread, item))) {
	case COLDNESS_IS_YOUNG:
		return units << COST_YOUNG_SHIFT;
	case COLDNESS_IS_OLD:
		return units;
	case COLDNESS_IS_STALE:
	case COLDNESS_IS_LOW:
	case COLDNESS_IS_EXPIRED:
		break;
	}
	return 0;
}

struct access_told access_time_tell(const struct store_thread *thread, uint16_t access)
{
	const struct table *table = thread->table;
	uint32_t tick = access_time_now(table);
	struct access_told told = { .use = WIRE_USE_NONE };

	if (table->eviction == EVICTION_NONE)
		return told;
	if (access_is_pin(access)) {
		told.use = WIRE_USE_PINNED;
		if (pin_lasts(thread, access))
			return told;
		access = access_after_pin(table, access);
	}
	told.use = access & ACCESS_LOW ? WIRE_USE_LOW : WIRE_USE_NORMAL;
	if (told.use == WIRE_USE_LOW) {
		told.age = low_age(tick, access);
	} else {
		told.age = normal_age(tick, access);
		told.uses = (1u << normal_uses(tick, access)) - 1;
	}
	return told;
}

struct access_told access_time_tell_copy(const struct store_thread *thread, uint16_t access)
{
	struct access_told told = access_time_tell(thread, access);
	uint64_t now = thread->now_ns / PIN_UNIT_NS, until;

	if (told.use == WIRE_USE_NORMAL && !access_is_pin(access))
		told.uses = (1u << (access >> ACCESS_USES_SHIFT)) - 1;
	if (told.use != WIRE_USE_PINNED)
		return told;
	until = pins_until(thread->table->pins, access);
	told.age = until > now ? (uint32_t)(until - now) : 0;
	told.uses = access_is_low(access);
	return told;
}

static uint16_t pin_copy(const struct store_thread *thread, uint32_t uses, uint32_t age)
{
	uint32_t left_s = age * WIRE_PIN_UNIT_S, max_s = thread->table->pin_time_max;

	return access_pin_make(pin_until(thread->now_ns, left_s < max_s ? left_s : max_s), uses);
}

uint16_t access_time_copy(const struct store_thread *thread, uint32_t use)
{
	uint32_t uses = use >> 14 & WIRE_USES_MAX, age = use & WIRE_AGE_MAX;
	uint32_t tick = access_time_now(thread->table) - age;

	if (thread->table->eviction == EVICTION_NONE)
		return access_time_initial(thread);
	switch ((enum wire_use)(use >> 30)) {
	case WIRE_USE_PINNED:
		return pin_copy(thread, uses, age);
	case WIRE_USE_LOW:
		return access_make(tick, true);
	case WIRE_USE_NORMAL:
		return normal_make(age < ACCESS_TIME ? tick : tick + age - ACCESS_TIME,
				   31 - (uint32_t)__builtin_clz(uses + 1));
	case WIRE_USE_NONE:
		break;
	}
	return access_time_initial(thread);
}

uint16_t access_time_unpinned(const struct store_thread *thread, uint16_t access)
{
	return access_make(access_time_now(thread->table), access_is_low(access));
}

/* Notes that @count ticks after @tick begin now. One large item may take many ticks. */
static void ticks_began(const struct store_thread *thread, uint32_t tick, uint32_t count)
{
	for (uint32_t i = 1; i <= count && i <= TICKS_TOLD; i++)
		atomic_store_explicit(&thread->table->tick_began_s[(tick + i) % TICKS_TOLD],
				      (uint32_t)(thread->now_ns / NS_PER_S), memory_order_relaxed);
}

uint32_t access_time_age_s(const struct store_thread *thread, uint32_t ticks)
{
	uint32_t tick = access_time_now(thread->table) - ticks;
	uint32_t now_s = (uint32_t)(thread->now_ns / NS_PER_S);
	uint32_t began_s = atomic_load_explicit(&thread->table->tick_began_s[tick % TICKS_TOLD],
						memory_order_relaxed);

	return now_s > began_s ? now_s - began_s : 0;
}

void access_time_add(struct store_thread *thread, size_t bytes)
{
	struct table *table = thread->table;
	uint64_t each = memory_bytes(table->memory) / ACCESS_TICKS, added;
	uint32_t tick, ticks;

	if (table->eviction == EVICTION_NONE ||
	    atomic_fetch_add_explicit(&table->tick_bytes, bytes, memory_order_relaxed) + bytes <
		    each)
		return;
	/* One of several threads gets all the bytes added. */
	added = atomic_exchange_explicit(&table->tick_bytes, 0, memory_order_relaxed);
	ticks = (uint32_t)(added / each);
	tick = atomic_fetch_add_explicit(&table->tick, ticks, memory_order_relaxed);
	ticks_began(thread, tick, ticks);
	atomic_fetch_add_explicit(&table->tick_bytes, added % each, memory_order_relaxed);
}
