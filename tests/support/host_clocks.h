/* SPDX-License-Identifier: MIT */
/*
 * The clocks of a host that differ from this one's, in a file that processes share: a member of a
 * fleet reads them by preload_clock.so, and tests/system/sys_clocks changes them meanwhile.
 *
 *	CLOCK_MONOTONIC_RAW	goes faster or slower, and stands while the host is suspended
 *	CLOCK_BOOTTIME		is ahead by what the host was suspended
 *	CLOCK_REALTIME, time()	is ahead
 *	others			as they are: timers and waits are the kernel's
 */
#ifndef KVD_TESTS_SUPPORT_HOST_CLOCKS_H
#define KVD_TESTS_SUPPORT_HOST_CLOCKS_H

#include <stdatomic.h>
#include <stdint.h>

#define HOST_CLOCKS_ENV "KVD_TEST_CLOCKS"

struct host_clocks_state {
	uint64_t since_ns; /* CLOCK_MONOTONIC_RAW of this host when the rate was set */
	int64_t raw_ns;	   /* ahead then */
	int64_t raw_ppm;
	int64_t boot_ns, real_ns; /* ahead */
};

struct host_clocks {
	_Atomic uint32_t sequence; /* odd: the state is being changed */
	struct host_clocks_state state;
};

/* What CLOCK_MONOTONIC_RAW is ahead when it is @now_ns on this host. */
static inline int64_t host_clocks_raw_ahead(const struct host_clocks_state *state, uint64_t now_ns)
{
	return state->raw_ns + (int64_t)(now_ns - state->since_ns) / 1000 * state->raw_ppm / 1000;
}

#endif /* KVD_TESTS_SUPPORT_HOST_CLOCKS_H */
