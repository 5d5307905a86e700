/* SPDX-License-Identifier: MIT */
/*
 * Made-up traces: zipfian accesses (theta 0.99), and on request
 *
 *	scans	runs of keys one after the other, each used once and never again: LRU's enemy
 *	drift	now and then a new key becomes the most popular and all others fall by a rank, as news
 *		do. Without it a cache that never evicts is as good as LRU, since the keys it met
 *		first are the popular ones for ever.
 *
 * The same seed gives the same trace.
 *
 * Key numbers are scattered over 64 bits, one to one: no two of the zipfian ranks share a key, as
 * YCSB's scrambled zipfian would have it.
 */
#ifndef KVD_BENCH_KVTRACE_SYNTH_H
#define KVD_BENCH_KVTRACE_SYNTH_H

#include "bench/kvtrace/trace.h"
#include "bench/zipfian.h"

/* Numbers of keys from here on, before they are scattered, are the scans'. */
#define SYNTH_KEYS_MAX (UINT64_C(1) << 40)

struct synth_shape {
	uint64_t keys;		     /* of the zipfian part, 1 to SYNTH_KEYS_MAX */
	double scan_share;	     /* of the accesses, 0 to below 1 */
	uint64_t scan_run;	     /* keys of one scan, at least 1 */
	uint64_t drift;		     /* zipfian accesses for each new key; 0: none */
	uint32_t size_min, size_max; /* bytes; a key's size is its own, log-uniform in between */
	uint64_t seed;
};

struct synth {
	struct synth_shape shape;
	struct random random;
	struct zipfian zipfian;
	double scan_start;  /* probability of a scan after a zipfian access */
	uint64_t scan_next; /* key */
	uint64_t count;	    /* of zipfian accesses */
	uint64_t scan_left; /* accesses of the scan that is going on */
};

/* Takes 30 ns a key. */
void synth_init(struct synth *synth, const struct synth_shape *shape);

void synth_next(struct synth *synth, struct trace_access *access);

#endif /* KVD_BENCH_KVTRACE_SYNTH_H */
