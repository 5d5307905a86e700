/* SPDX-License-Identifier: MIT */
/*
 * The version clock: the first version of a start of the server, chosen so that no start repeats a
 * version of an earlier one. A client that holds a version from an earlier start, say of a lock,
 * must not match an item that was stored later.
 *
 * A version is 64 bits: a counter of 56, and the number of the thread that made it. The counters
 * (Lamport's, table.h) begin at the time of day in ticks, plus a random number of ticks, and the
 * threads' numbers begin at a random number.
 *
 *   CLOCK-1. Counters stay behind the time of day. A tick is 1/2^26 s. The highest counter rises by
 *	 one with a change that has seen the previous version: a chain of changes, one after
 *	 another, and for one key each under its bucket's lock. 2^25 a second would leave each 30
 *	 ns; a loop that replaces one key in the engine, without a request or a second thread, takes
 *	 67 ns. A flush raises counters by FLOOR_MARGIN, at most every FLUSH_NS_MIN: 2^24 a second.
 *	 Together that is 3/4 of the ticks, so the random ticks, at most 2^24, are made up for after
 *	 one second.
 *   CLOCK-2. So every version of a start is above all versions of any start at least a second
 *	 earlier, by the host's time of day. That time is read once: changes of it while the server
 *	 runs do not matter.
 *   CLOCK-3. If the time of day was set back between two starts, or both began within one
 *	 second, the server can't tell, and both may use the same ticks. Then a version of one
 *	 equals the version of an item in the other only if the random ticks (24 bits) and the
 *	 random thread number (8 bits) match: with a probability of at most 2^-32 for each
 *	 comparison.
 *   CLOCK-4. The counters do not overflow. 56 bits hold 2^30 s of ticks, until 2060; a start leaves
 *	 a year of them unused. For a later time of day they begin anew, and then CLOCK-3 holds, as
 *	 it does for a time of day before VERSION_EPOCH_S, which counts as that.
 *   CLOCK-5. Items that move here from another server keep their versions, and new ones are above
 *	 them (server/store/moving.h). So counters may run ahead of this host's time of day by as
 *	 much as that host's time is ahead.
 *
 * No version is 0: counters are raised before they are used.
 */
#ifndef KVD_SERVER_STORE_VERSION_CLOCK_H
#define KVD_SERVER_STORE_VERSION_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The low bits of a version are the thread's number, so that versions of two threads differ. */
#define THREAD_ID_BITS 8

#define VERSION_TICKS_BITS 26	      /* ticks of a second: 2^26 */
#define VERSION_RANDOM_BITS 24	      /* random ticks (CLOCK-1) */
#define VERSION_EPOCH_S 1767225600ull /* 2026-01-01T00:00:00Z */
#define VERSION_SECONDS_MAX (1ull << (64 - THREAD_ID_BITS - VERSION_TICKS_BITS))
/* A year of ticks for the counters of the last start (CLOCK-4). */
#define VERSION_SECONDS_LEFT (366 * 86400ull)

/* By how much a flush raises the counters, and how far apart two flushes are (maintenance.c). */
#define FLOOR_MARGIN (1ull << 14)
#define FLUSH_NS_MIN 1000000u

/*
 * Returns the version at which a start begins: its counter is the time of day @realtime_ns, in ns
 * since 1970, plus random ticks; its low bits are the number of thread 0. @random: the incarnation.
 */
uint64_t version_clock_start(uint64_t realtime_ns, uint64_t random);

/*
 * Whether a server may have made versions with this counter by @now_ns, since 1970, if its clock is
 * right to an hour. What another one says of its versions is checked by this: a counter near the
 * end of 56 bits would leave none for later changes.
 */
bool version_counter_may_be(uint64_t counter, uint64_t now_ns);

#endif /* KVD_SERVER_STORE_VERSION_CLOCK_H */
