/* SPDX-License-Identifier: MIT */
/* Tells sleep of the host from the time between two readings of its clocks. */
#include "server/store/host_sleep.h"

#include <stdbool.h>

#include "common/util/clock.h"

/* Bounds of clock_slept_ns(). The lower one may be just below 0. */
static void slept_bounds(uint64_t *low, uint64_t *high)
{
	uint64_t before, boot, after;

	do {
		before = clock_ns();
		boot = clock_boot_ns();
		after = clock_ns();
	} while (after - before > SLEEP_READING_NS_MAX);
	*low = boot - after;
	*high = boot - before;
}

static bool is_sleep(uint64_t slept_ns, uint64_t known_ns)
{
	return (int64_t)(slept_ns - known_ns) >= (int64_t)CLOCK_SLEPT_NS_MIN;
}

void host_sleep_init(struct host_sleep *sleep)
{
	uint64_t low;

	slept_bounds(&low, &sleep->start_ns);
	atomic_init(&sleep->ns, 0);
}

uint64_t host_sleep_ns(struct host_sleep *sleep)
{
	uint64_t known = atomic_load_explicit(&sleep->ns, memory_order_relaxed), low, high;

	if (!is_sleep(clock_slept_ns() - sleep->start_ns, known))
		return known;
	slept_bounds(&low, &high);
	low -= sleep->start_ns;
	while (is_sleep(low, known))
		if (atomic_compare_exchange_weak_explicit(
			    &sleep->ns, &known, low, memory_order_relaxed, memory_order_relaxed))
			return low;
	return known;
}
