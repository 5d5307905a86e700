/* SPDX-License-Identifier: MIT */
/*
 * Counts the inserts of a workload: see counter.h.
 */
#include "bench/counter.h"

#include <string.h>

#define FLAGS_MASK (COUNTER_AHEAD_MAX - 1)

void counter_init(struct counter *counter, uint64_t start)
{
	memset(counter, 0, sizeof(*counter));
	atomic_init(&counter->next, start);
	atomic_init(&counter->limit, start);
	atomic_flag_clear(&counter->moving);
}

bool counter_take(struct counter *counter, uint64_t *number)
{
	uint64_t next = atomic_load_explicit(&counter->next, memory_order_relaxed);

	do {
		if (next - counter_limit(counter) >= COUNTER_AHEAD_MAX)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&counter->next, &next, next + 1, memory_order_relaxed, memory_order_relaxed));
	*number = next;
	return true;
}

/* Moves the limit over all acknowledged numbers. The caller has set the moving flag. */
static void limit_move(struct counter *counter)
{
	uint64_t limit = atomic_load(&counter->limit);

	while (atomic_load(&counter->flags[limit & FLAGS_MASK])) {
		/* The flag is cleared first, as it may be reused once the limit has moved. */
		atomic_store(&counter->flags[limit & FLAGS_MASK], 0);
		atomic_store(&counter->limit, ++limit);
	}
}

static bool limit_can_move(struct counter *counter)
{
	return atomic_load(&counter->flags[atomic_load(&counter->limit) & FLAGS_MASK]);
}

void counter_acknowledge(struct counter *counter, uint64_t number)
{
	atomic_store(&counter->flags[number & FLAGS_MASK], 1);
	/*
	 * A thread that moves the limit may miss a flag that is set meanwhile. It looks again after
	 * it has cleared `moving`. All these operations are sequentially consistent, so either it
	 * sees our flag then, or we see `moving` clear: no number is missed.
	 */
	while (limit_can_move(counter) && !atomic_flag_test_and_set(&counter->moving)) {
		limit_move(counter);
		atomic_flag_clear(&counter->moving);
	}
}
