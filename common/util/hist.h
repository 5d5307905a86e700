/* SPDX-License-Identifier: MIT */
/*
 * A latency histogram: log-linear, in nanoseconds, in a fixed 30 KiB.
 *
 * Every power of two is cut into 64 buckets of equal width, so a value is known to within 1/64
 * (1.6 %) over the whole range of 64 bits; below 128 ns it is known exactly. Recording is a count
 * of leading zeros, a shift and an increment.
 *
 * Threads: no function locks. One thread records. Others may merge from it at any time; each count
 * that they get was true at some instant. All else is for when recording has stopped.
 */
#ifndef KVD_COMMON_UTIL_HIST_H
#define KVD_COMMON_UTIL_HIST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/stat.h"

#define HIST_SUB_BITS 6
#define HIST_SUB_BUCKETS (1u << HIST_SUB_BITS)
/* The first 128 values have a bucket each; each of the 57 higher powers of two adds 64. */
#define HIST_BUCKETS ((64u - HIST_SUB_BITS + 1) * HIST_SUB_BUCKETS)

struct hist {
	uint64_t count;
	uint64_t sum_ns; /* wraps after 584 years */
	uint64_t min_ns; /* UINT64_MAX while empty */
	uint64_t max_ns;
	uint64_t buckets[HIST_BUCKETS];
};

/* Makes @hist empty. */
void hist_init(struct hist *hist);

/* Adds everything in @from, to which another thread may record meanwhile, to @into. */
void hist_merge(struct hist *into, const struct hist *from);

/*
 * Returns the smallest value, rounded up to the end of its bucket, that at least the share
 * @quantile (0 to 1; values outside are taken as these) of all recorded values do not exceed. Never
 * less than the true value, never more than 1.6 % above it, never above the maximum. 0 if empty.
 */
uint64_t hist_quantile(const struct hist *hist, double quantile);

/* Returns the exact mean in nanoseconds, 0 if empty. */
double hist_mean(const struct hist *hist);

static inline uint64_t hist_count(const struct hist *hist)
{
	return hist->count;
}

/* Exact; 0 if empty. */
static inline uint64_t hist_min(const struct hist *hist)
{
	return hist->count ? hist->min_ns : 0;
}

/* Exact; 0 if empty. */
static inline uint64_t hist_max(const struct hist *hist)
{
	return hist->max_ns;
}

static inline unsigned int hist_bucket(uint64_t ns)
{
	unsigned int shift;

	if (ns < 2 * HIST_SUB_BUCKETS)
		return (unsigned int)ns;
	shift = 63 - (unsigned int)__builtin_clzll(ns) - HIST_SUB_BITS;
	return (shift << HIST_SUB_BITS) + (unsigned int)(ns >> shift);
}

static inline void hist_record(struct hist *hist, uint64_t ns)
{
	stat_add(&hist->count, 1);
	stat_add(&hist->sum_ns, ns);
	if (ns < hist->min_ns)
		stat_set(&hist->min_ns, ns);
	if (ns > hist->max_ns)
		stat_set(&hist->max_ns, ns);
	stat_add(&hist->buckets[hist_bucket(ns)], 1);
}

#define HIST_PARTS (HIST_BUCKETS / HIST_SUB_BUCKETS)

/*
 * A histogram with only the memory that its values need: 0.1 KiB, and 256 bytes for each power of
 * two with a value in it. For programs with thousands of histograms.
 */
struct hist_sparse {
	uint64_t count, sum_ns, min_ns, max_ns; /* as in struct hist */
	uint32_t (*parts)[HIST_SUB_BUCKETS];
	uint8_t part_count;
	uint8_t part_of[HIST_PARTS]; /* number of its part, from 1; 0: empty */
};

/* Frees its memory and makes it empty. Zeroed memory is an empty one, too. */
void hist_sparse_release(struct hist_sparse *sparse);
/* Allocates a part. False: there is no memory. */
bool hist_sparse_grow(struct hist_sparse *sparse, unsigned int part);

/* Allocates the part of the value if need be; without memory the value is dropped. */
static inline void hist_sparse_record(struct hist_sparse *sparse, uint64_t ns)
{
	unsigned int bucket = hist_bucket(ns), part = bucket / HIST_SUB_BUCKETS;
	uint32_t *counter;

	if (!sparse->part_of[part] && !hist_sparse_grow(sparse, part))
		return;
	if (!sparse->count++ || ns < sparse->min_ns)
		sparse->min_ns = ns;
	if (ns > sparse->max_ns)
		sparse->max_ns = ns;
	sparse->sum_ns += ns;
	counter = &sparse->parts[sparse->part_of[part] - 1][bucket % HIST_SUB_BUCKETS];
	*counter += *counter != UINT32_MAX;
}

/* Copies @sparse to @hist. */
void hist_sparse_expand(const struct hist_sparse *sparse, struct hist *hist);

#endif /* KVD_COMMON_UTIL_HIST_H */
