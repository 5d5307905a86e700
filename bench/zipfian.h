/* SPDX-License-Identifier: MIT */
/*
 * Zipfian numbers as YCSB draws them, by the method of Gray et al., "Quickly Generating
 * Billion-Record Synthetic Databases" (SIGMOD 1994): item 0 is the most popular, item k has a share
 * of about 1 / ((k + 1)^0.99 * zeta).
 *
 * YCSB facts (brianfrankcooper/YCSB, site.ycsb.generator): ZipfianGenerator.java,
 * ScrambledZipfianGenerator.java, and Utils.java for the hash.
 *
 * Threads: a struct zipfian belongs to one thread if zipfian_next() is given growing item counts;
 * with a fixed count it is never written and may be shared.
 */
#ifndef KVD_BENCH_ZIPFIAN_H
#define KVD_BENCH_ZIPFIAN_H

#include <stdint.h>

#include "bench/random.h"

#define ZIPFIAN_THETA 0.99
/*
 * The scrambled kind draws from this many items, whatever the size of the store, so that its zeta
 * need not be summed up each time: zeta(10^10, 0.99), which YCSB carries precomputed.
 */
#define ZIPFIAN_SCRAMBLED_ITEMS UINT64_C(10000000000)
#define ZIPFIAN_SCRAMBLED_ZETA 26.46902820178302

struct zipfian {
	uint64_t items;
	uint64_t zeta_items; /* the number of items in the sum zeta */
	double zeta;
	double zeta2; /* zeta(2) */
	double eta;
	double alpha;
	double second; /* item 1 lies below this times 1/zeta */
};

/* For @items items, at least 1. Takes about 30 ns an item: zeta is a sum over all. */
void zipfian_init(struct zipfian *zipfian, uint64_t items);

/* Initializes @zipfian for scrambled draws. */
void zipfian_init_scrambled(struct zipfian *zipfian);

/*
 * Returns an item in [0, items). @items may be larger than at the last call, zeta is then extended;
 * a smaller one is drawn with the larger zeta, as in YCSB.
 */
uint64_t zipfian_next(struct zipfian *zipfian, struct random *random, uint64_t items);

/* FNV-1a of the 8 bytes of @value, lowest first, made non-negative as Java's Math.abs() does. */
static inline uint64_t fnv_hash(uint64_t value)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	int i;

	for (i = 0; i < 8; i++, value >>= 8)
		hash = (hash ^ (value & 0xff)) * UINT64_C(1099511628211);
	return hash >> 63 ? 0 - hash : hash;
}

/*
 * Returns an item in [0, items), the popular ones scattered over the range by their hash. Never
 * writes to @zipfian.
 */
uint64_t zipfian_next_scrambled(const struct zipfian *zipfian, struct random *random,
				uint64_t items);

#endif /* KVD_BENCH_ZIPFIAN_H */
