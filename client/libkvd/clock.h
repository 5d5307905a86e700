/* SPDX-License-Identifier: MIT */
/*
 * The server's clock as the client knows it: an interval that contains it, at any local time. It
 * decides whether an item that a GET read has expired.
 *
 * Every response carries the server's clock at an instant between the posting of the request (t0)
 * and the arrival of the response (t1), both local, by clock_raw_ns(). So at t1 the server's clock
 * was in [clock, clock + t1 - t0]. From then on both bounds advance with the local clock and
 * diverge by DRIFT_PPM, since neither clock's rate is exact. The server's clock never goes back.
 *
 * Both clocks advance with CLOCK_MONOTONIC_RAW, which nothing steers; chrony slews CLOCK_MONOTONIC
 * by up to 83,333 ppm by default (maxslewrate), adjtimex(2) by 100,000. The remaining error is that
 * of a rate that the kernel took from the hardware at boot, at most 1,000 ppm on each host:
 *
 *   - the oscillator that calibrates the counter, 500 ppm: what the specification of the HPET
 *     allows (IA-PC HPET 1.0a, 2.2), and the most that the kernel's NTP code can correct
 *     (MAXFREQ, include/linux/timex.h); crystals of network cards keep within 100 ppm (IEEE 802.3);
 *   - the calibration, 500 ppm: what the kernel's fast one against the PIT accepts
 *     (quick_pit_calibrate(), arch/x86/kernel/tsc.c), if it can't refine it. A
 *     virtual machine that moved to another host may keep a rate that is 250 ppm wrong
 *     (kvm.tsc_tolerance_ppm). On arm64 the firmware states the counter's rate, exactly.
 *
 * Why GETs that use it are linearizable. An item that expires at T does so at the instant when the
 * server's clock reaches T: one instant for all clients. A READ found the item valid at an instant
 * t, when it was the key's only valid one (client/libkvd/lookup.c, GET-1). Then
 *
 *   - a hit is right if the server's clock had not reached T at t. That is so if the upper bound
 *     has not reached T *after* the READ, since the clock never goes back.
 *   - "not found" is right if the server's clock had reached T at t. That is so if the lower bound
 *     had reached T *before* the READ began. The lower bound after the READ is not enough: between
 *     t and then another client may have replaced the item, before T, and the key was never absent.
 *     (A READ may be a load of this core: clock_load_barrier() keeps it after the clock's.)
 *   - otherwise only the server knows: the client asks it.
 *
 * Assumption: since the last response the two hosts' clocks have differed in rate by no more than
 * DRIFT_PPM. That response is at most CLOCK_WIDTH_NS_MAX / 2 / DRIFT_PPM = 2.5 s ago; if it is
 * older, the client sends a PING first.
 *
 * The interval holds for all handles of the process with that incarnation of the server, since
 * their threads read one local clock: so a handle whose interval is too wide takes a narrower one
 * of another handle (client/libkvd/shared.h) before it sends a PING.
 *
 * The assumption fails when a host is suspended: CLOCK_MONOTONIC_RAW stands still. On the client's
 * host clock_slept_ns() shows that afterwards, and the interval is forgotten. The clock of a server
 * that has a lease in a fleet counts the sleep of its host (server/store/host_sleep.h), and so goes
 * on as the client expects; that of any other server does not. Nothing shows sleep in a
 * virtual machine that is stopped from outside, with all its clocks. Until the next response, at
 * most 2.5 s, the error is up to the length of the stop: a stopped client takes expired items for
 * valid, and clients of a stopped server take items for expired that it holds valid. The next
 * response does not fit the interval, and so shows the stop.
 */
#ifndef KVD_CLIENT_LIBKVD_CLOCK_H
#define KVD_CLIENT_LIBKVD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define DRIFT_PPM 2000u
/* Before a wider interval is used, a PING narrows it, and a response replaces it. */
#define CLOCK_WIDTH_NS_MAX 10000000u

struct server_clock {
	uint64_t low_ns, high_ns; /* at local time at_ns, since 1970 */
	uint64_t at_ns;		  /* clock_raw_ns() */
	uint64_t slept_ns;	  /* clock_slept_ns() when the interval was known */
	bool known;
};

/*
 * Takes a response that was received at @received_ns, to a request posted at @sent_ns, and carries
 * the server's clock, @clock_ns. Its interval is intersected with the previous one, if that is
 * narrow enough to be used and they overlap; else it replaces it. False: they do not overlap, so
 * one of the clocks has stood still or jumped.
 */
bool server_clock_learn(struct server_clock *clock, uint64_t clock_ns, uint64_t sent_ns,
			uint64_t received_ns);

/*
 * Whether this host was suspended since the interval was known. @slept_ns: clock_slept_ns(), read
 * after the time at which an item is judged.
 */
bool server_clock_slept(const struct server_clock *clock, uint64_t slept_ns);
/* Makes the interval unknown; sleep until now, @slept_ns, no longer counts. */
void server_clock_forget(struct server_clock *clock, uint64_t slept_ns);

/* Bounds of the server's clock at local time @now_ns, which may be before the last response. */
uint64_t server_clock_low(const struct server_clock *clock, uint64_t now_ns);
uint64_t server_clock_high(const struct server_clock *clock, uint64_t now_ns);
/* The distance between the bounds; UINT64_MAX before the first response. */
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

#endif /* KVD_CLIENT_LIBKVD_CLOCK_H */
