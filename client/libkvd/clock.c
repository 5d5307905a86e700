/* SPDX-License-Identifier: MIT */
/* The server's clock as the client knows it: the arithmetic of the interval. */
#include "client/libkvd/clock.h"

#include "common/util/clock.h"

/* A server may send any number: sums and differences stay inside 64 bits. */
static uint64_t saturating_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t saturating_sub(uint64_t a, uint64_t b)
{
	return a < b ? 0 : a - b;
}

/* How far two clocks may diverge in @ns, rounded up. */
static uint64_t drift_ns(uint64_t ns)
{
	return ns / (1000000 / DRIFT_PPM) + 1;
}

/* Before the last response the bounds diverge, too: the drift counts from it in both directions. */
inline uint64_t server_clock_low(const struct server_clock *clock, uint64_t now_ns)
{
	uint64_t age;

	if (!clock->known)
		return 0;
	if (now_ns < clock->at_ns) {
		age = clock->at_ns - now_ns;
		return saturating_sub(clock->low_ns, saturating_add(age, drift_ns(age)));
	}
	age = now_ns - clock->at_ns;
	return saturating_add(clock->low_ns, saturating_sub(age, drift_ns(age)));
}

inline uint64_t server_clock_high(const struct server_clock *clock, uint64_t now_ns)
{
	uint64_t age;

	if (!clock->known)
		return UINT64_MAX;
	if (now_ns < clock->at_ns) {
		age = clock->at_ns - now_ns;
		return saturating_sub(clock->high_ns, saturating_sub(age, drift_ns(age)));
	}
	age = now_ns - clock->at_ns;
	return saturating_add(clock->high_ns, saturating_add(age, drift_ns(age)));
}

uint64_t server_clock_width(const struct server_clock *clock, uint64_t now_ns)
{
	if (!clock->known)
		return UINT64_MAX;
	return server_clock_high(clock, now_ns) - server_clock_low(clock, now_ns);
}

/* Signed, since two readings may differ a little in either direction. */
bool server_clock_slept(const struct server_clock *clock, uint64_t slept_ns)
{
	return (int64_t)(slept_ns - clock->slept_ns) >= (int64_t)CLOCK_SLEPT_NS_MIN;
}

void server_clock_forget(struct server_clock *clock, uint64_t slept_ns)
{
	*clock = (struct server_clock){ .slept_ns = slept_ns };
}

bool server_clock_learn(struct server_clock *clock, uint64_t clock_ns, uint64_t sent_ns,
			uint64_t received_ns)
{
	uint64_t low = clock_ns, high, old_low, old_high, took = received_ns - sent_ns;
	bool fits;

	high = saturating_add(clock_ns, saturating_add(took, drift_ns(took)));
	old_low = server_clock_low(clock, received_ns);
	old_high = server_clock_high(clock, received_ns);
	fits = old_low <= high && low <= old_high;
	/* A wide interval is old: intersected, it would carry a jump since then along. */
	if (fits && old_high - old_low <= CLOCK_WIDTH_NS_MAX) {
		low = low > old_low ? low : old_low;
		high = high < old_high ? high : old_high;
	}
	*clock = (struct server_clock){
		.low_ns = low,
		.high_ns = high,
		.at_ns = received_ns,
		.slept_ns = clock->slept_ns,
		.known = true,
	};
	return fits;
}

enum expiry server_clock_judge(const struct server_clock *clock, uint32_t expires_s,
			       uint64_t since_ns, uint64_t now_ns)
{
	uint64_t expires_ns = expires_s * 1000000000ull;

	if (server_clock_high(clock, now_ns) < expires_ns)
		return EXPIRY_VALID;
	if (since_ns && server_clock_low(clock, since_ns) >= expires_ns)
		return EXPIRY_EXPIRED;
	if (server_clock_low(clock, now_ns) >= expires_ns)
		return EXPIRY_REREAD;
	return EXPIRY_UNKNOWN;
}
