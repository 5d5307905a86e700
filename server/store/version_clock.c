/* SPDX-License-Identifier: MIT */
/* The version clock: computes the first version of a start. */
#include "server/store/version_clock.h"

#include <assert.h>

#define S 1000000000ull
#define HOUR_NS (3600 * S)

static_assert((1ull << VERSION_TICKS_BITS) * 3 / 4 >=
		      (1ull << 25) + FLOOR_MARGIN * S / FLUSH_NS_MIN,
	      "CLOCK-1: changes and flushes leave a quarter of the ticks");
static_assert(1ull << VERSION_RANDOM_BITS <= (1ull << VERSION_TICKS_BITS) / 4,
	      "CLOCK-1: a second makes up for the random ticks");

uint64_t version_clock_start(uint64_t realtime_ns, uint64_t random)
{
	uint64_t seconds = realtime_ns / S, ticks;

	seconds = seconds < VERSION_EPOCH_S ? 0 : seconds - VERSION_EPOCH_S;
	seconds %= VERSION_SECONDS_MAX - VERSION_SECONDS_LEFT;
	ticks = (realtime_ns % S << VERSION_TICKS_BITS) / S;
	ticks += seconds << VERSION_TICKS_BITS;
	ticks += random & ((1ull << VERSION_RANDOM_BITS) - 1);
	return ticks << THREAD_ID_BITS | random >> (64 - THREAD_ID_BITS);
}

bool version_counter_may_be(uint64_t counter, uint64_t now_ns)
{
	return counter <= version_clock_start(now_ns + HOUR_NS, 0) >> THREAD_ID_BITS;
}
