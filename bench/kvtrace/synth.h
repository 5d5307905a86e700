/* SPDX-License-Identifier: MIT */
/*
 * Synthetic traces: zipfian accesses (theta 0.99), and on request
 *
 *	scans	runs of consecutive keys, each used once and never again; LRU evicts
 *		useful keys for them
 *	drift	now and then a new key becomes the most popular and all others lose a rank, as with
 *		news. Without it a cache that never evicts is as good as LRU, since the keys that it
 *		stored first stay the popular ones.
 *
 * The same seed gives the same trace.
 *
 * Key numbers are scattered over 64 bits, one to one: no two zipfian ranks share a key, as they may
 * in YCSB's scrambled zipfian.
 */
#ifndef KVD_BENCH_KVTRACE_SYNTH_H
#define KVD_BENCH_KVTRACE_SYNTH_H

#include "bench/kvtrace/trace.h"
#include "bench/zipfian.h"

/* Before they are scattered, key numbers from here on are those of scans. */
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
	uint64_t scan_left; /* accesses until the current scan ends */
};

/* Takes 30 ns a key: the sum zeta. */
void synth_init(struct synth *synth, const struct synth_shape *shape);

void synth_next(struct synth *synth, struct trace_access *access);

#endif /* KVD_BENCH_KVTRACE_SYNTH_H */
