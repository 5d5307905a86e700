/* SPDX-License-Identifier: MIT */
/*
 * What the client knows of the server's clock: an interval that holds it, at any local time.
 *
 * Every response carries the server's clock at an instant between the request's posting (t0) and
 * the response's arrival (t1), both local. So at t1 the server's clock was in [clock, clock + t1 -
 * t0]. From then on both bounds go with the local clock, and apart by DRIFT_PPM, since neither
 * clock's rate is exact: NTP slews CLOCK_MONOTONIC by up to 500 ppm on each host. The server's clock
 * never goes back.
 *
 * Why GETs that use it are linearizable. An item that expires at T is gone from the instant at which
 * the server's clock reaches T; the server decides by its own clock, so that instant is one for all.
 * A READ found the item valid at an instant t, when it was the key's only valid one (client/lookup.c,
 * G1). Then
 *
 *   - a hit is right if the server's clock had not reached T at t. It had not if the upper bound has
 *     not reached T *after* the READ: the clock never goes back.
 *   - "not found" is right if the server's clock had reached T at t. It had if the lower bound had
 *     reached T *before* the READ began. The bound after the READ would not do: between t and then
 *     another client may have replaced the item, before T, and the key never been absent.
 *   - between the two, nobody but the server knows: it is asked.
 *
 * What this rests on: the two hosts' CLOCK_MONOTONIC differ in rate by no more than DRIFT_PPM since the
 * last response, which is at most CLOCK_WIDTH_NS_MAX / 2 / DRIFT_PPM = 5 s ago, or the client PINGs
 * first. A virtual machine that is stopped while its clock stands still breaks that.
 */
#ifndef KVD_CLIENT_CLOCK_H
#define KVD_CLIENT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define DRIFT_PPM 1000u
/* A wider interval is made new before it is used. */
#define CLOCK_WIDTH_NS_MAX 10000000u

struct server_clock {
	uint64_t low_ns, high_ns; /* at local time at_ns, since 1970 */
	uint64_t at_ns;
	bool known;
};

/*
 * A response that says @clock_ns came at @received_ns for a request posted at @sent_ns. What was
 * known before narrows it, unless it contradicts.
 */
void server_clock_learn(struct server_clock *clock, uint64_t clock_ns, uint64_t sent_ns,
			uint64_t received_ns);

/* Bounds of the server's clock at local time @now_ns, which may lie before what was learnt. */
uint64_t server_clock_low(const struct server_clock *clock, uint64_t now_ns);
uint64_t server_clock_high(const struct server_clock *clock, uint64_t now_ns);
/* How far they are apart; UINT64_MAX if nothing is known. */
uint64_t server_clock_width(const struct server_clock *clock, uint64_t now_ns);

enum expiry {
	EXPIRY_VALID,
	EXPIRY_EXPIRED, /* and was before the READ */
	EXPIRY_REREAD,	/* is now: a READ that begins now can tell that it was before it */
	EXPIRY_UNKNOWN, /* who knows */
};

/*
 * Judges an item that expires at @expires_s (not 0), READ at some time between @since_ns (0: not
 * known) and @now_ns.
 */
enum expiry server_clock_judge(const struct server_clock *clock, uint32_t expires_s,
			       uint64_t since_ns, uint64_t now_ns);

#endif /* KVD_CLIENT_CLOCK_H */
