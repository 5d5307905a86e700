/* SPDX-License-Identifier: MIT */
/*
 * The server's clock as the client knows it: an interval that contains it, at any local time. It
 * decides whether an item that a GET read has expired.
 *
 * Every response carries the server's clock at an instant between the posting of the request (t0)
 * and the arrival of the response (t1), both local. So at t1 the server's clock was in [clock,
 * clock + t1 - t0]. From then on both bounds advance with the local clock and diverge by DRIFT_PPM,
 * since neither clock's rate is exact: NTP slews CLOCK_MONOTONIC by up to 500 ppm on each host. The
 * server's clock never goes back.
 *
 * Why GETs that use it are linearizable. An item that expires at T does so at the instant when the
 * server's clock reaches T: one instant for all clients. A READ found the item valid at an instant
 * t, when it was the key's only valid one (client/lookup.c, G1). Then
 *
 *   - a hit is right if the server's clock had not reached T at t. That is so if the upper bound
 *     has not reached T *after* the READ, since the clock never goes back.
 *   - "not found" is right if the server's clock had reached T at t. That is so if the lower bound
 *     had reached T *before* the READ began. The lower bound after the READ is not enough: between
 *     t and then another client may have replaced the item, before T, and the key was never absent.
 *   - otherwise only the server knows: the client asks it.
 *
 * Assumption: since the last response the two hosts' CLOCK_MONOTONIC have differed in rate by no
 * more than DRIFT_PPM. That response is at most CLOCK_WIDTH_NS_MAX / 2 / DRIFT_PPM = 5 s ago; if it
 * is older, the client sends a PING first. A virtual machine that is stopped while its clock stands
 * still breaks the assumption.
 */
#ifndef KVD_CLIENT_CLOCK_H
#define KVD_CLIENT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define DRIFT_PPM 1000u
/* Before a wider interval is used, a PING narrows it. */
#define CLOCK_WIDTH_NS_MAX 10000000u

struct server_clock {
	uint64_t low_ns, high_ns; /* at local time at_ns, since 1970 */
	uint64_t at_ns;
	bool known;
};

/*
 * Takes in a response that was received at @received_ns, to a request posted at @sent_ns, and has
 * the server's clock in it, @clock_ns. The interval is narrowed to its intersection with the one
 * before, if they have one; else it replaces that.
 */
void server_clock_learn(struct server_clock *clock, uint64_t clock_ns, uint64_t sent_ns,
			uint64_t received_ns);

/* Bounds of the server's clock at local time @now_ns, which may be before the last response. */
uint64_t server_clock_low(const struct server_clock *clock, uint64_t now_ns);
uint64_t server_clock_high(const struct server_clock *clock, uint64_t now_ns);
/* The distance of the bounds; UINT64_MAX before the first response. */
uint64_t server_clock_width(const struct server_clock *clock, uint64_t now_ns);

enum expiry {
	EXPIRY_VALID,	/* not expired when it was READ */
	EXPIRY_EXPIRED, /* expired before it was READ */
	EXPIRY_REREAD,	/* expired by now: a READ that begins now gives EXPIRY_EXPIRED */
	EXPIRY_UNKNOWN, /* only the server knows */
};

/*
 * Judges an item that expires at @expires_s (not 0) and was READ between @since_ns (0: unknown) and
 * @now_ns, local time.
 */
enum expiry server_clock_judge(const struct server_clock *clock, uint32_t expires_s,
			       uint64_t since_ns, uint64_t now_ns);

#endif /* KVD_CLIENT_CLOCK_H */
