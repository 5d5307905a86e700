/* SPDX-License-Identifier: MIT */
/*
 * The counter of inserts: see counter.h.
 */
#include "bench/counter.h"

#include <string.h>

#define WINDOW_MASK (COUNTER_WINDOW - 1)

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
		if (next - counter_limit(counter) >= COUNTER_WINDOW)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&counter->next, &next, next + 1, memory_order_relaxed, memory_order_relaxed));
	*number = next;
	return true;
}

/* Moves the limit over all that is acknowledged. The caller has set the moving flag. */
static void limit_move(struct counter *counter)
{
	uint64_t limit = atomic_load(&counter->limit);

	while (atomic_load(&counter->window[limit & WINDOW_MASK])) {
		/* Cleared first: once the limit has moved, the slot may be taken again. */
		atomic_store(&counter->window[limit & WINDOW_MASK], 0);
		atomic_store(&counter->limit, ++limit);
	}
}

static bool limit_can_move(struct counter *counter)
{
	return atomic_load(&counter->window[atomic_load(&counter->limit) & WINDOW_MASK]);
}

void counter_acknowledge(struct counter *counter, uint64_t number)
{
	atomic_store(&counter->window[number & WINDOW_MASK], 1);
	/*
	 * A number set while another thread moves the limit may be missed by its last look. That
	 * thread looks again after it has cleared the flag, and in the one order of all sequentially
	 * consistent operations either it sees the number or we saw the flag clear: none is left out.
	 */
	while (limit_can_move(counter) && !atomic_flag_test_and_set(&counter->moving)) {
		limit_move(counter);
		atomic_flag_clear(&counter->moving);
	}
}
