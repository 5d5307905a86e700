/* SPDX-License-Identifier: MIT */
/*
 * Chooses the record of each operation: the request distributions of YCSB (CoreWorkload.java,
 * init() and nextKeynum(); SkewedLatestGenerator.java, HotspotIntegerGenerator.java,
 * ExponentialGenerator.java, SequentialGenerator.java, UniformLongGenerator.java).
 *
 * Threads: all share one struct keys; each thread draws through a struct key_chooser of its own.
 */
#ifndef KVD_BENCH_KEYS_H
#define KVD_BENCH_KEYS_H

#include <stdatomic.h>
#include <stdint.h>

#include "bench/counter.h"
#include "bench/random.h"
#include "bench/workload.h"
#include "bench/zipfian.h"

/*
 * How often a draw is repeated that gave a record not inserted yet; then a modulus gives one that
 * is. YCSB repeats without end. The bound is reached only if less than about 1 in 1,000 of the
 * expected records exist.
 */
#define KEYS_DRAWS_MAX 10000

struct keys {
	unsigned int distribution;
	uint64_t first, count;	  /* the records the load phase inserts */
	uint64_t hot_count;	  /* hot records, for hotspot */
	double hot_fraction;	  /* of operations, for hotspot */
	double gamma;		  /* for exponential */
	uint64_t scrambled_count; /* records now and at the end, for zipfian */
	struct zipfian zipfian;	  /* for zipfian, and the start of each chooser's for latest */
	_Alignas(64) _Atomic uint64_t sequence; /* for sequential */
	struct counter inserted;		/* by the run phase, from recordcount on */
};

struct key_chooser {
	struct keys *keys;
	struct zipfian latest; /* grows with the inserts */
};

/* For latest it takes 30 ns per record. */
void keys_init(struct keys *keys, const struct workload *workload);

void key_chooser_init(struct key_chooser *chooser, struct keys *keys);

/* Returns the number of a record that has been inserted. */
uint64_t key_chooser_next(struct key_chooser *chooser, struct random *random);

#endif /* KVD_BENCH_KEYS_H */
