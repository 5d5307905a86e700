/* SPDX-License-Identifier: MIT */
/*
 * The latency histogram's functions off the hot path, merging and quantiles: see hist.h.
 */
#include "common/util/hist.h"

#include <string.h>

#include "common/util/heap.h"

void hist_init(struct hist *hist)
{
	memset(hist, 0, sizeof(*hist));
	hist->min_ns = UINT64_MAX;
}

void hist_merge(struct hist *into, const struct hist *from)
{
	uint64_t min_ns, max_ns;
	unsigned int i;

	for (i = 0; i < HIST_BUCKETS; i++)
		into->buckets[i] += stat_read(&from->buckets[i]);
	into->count += stat_read(&from->count);
	into->sum_ns += stat_read(&from->sum_ns);
	min_ns = stat_read(&from->min_ns);
	max_ns = stat_read(&from->max_ns);
	if (min_ns < into->min_ns)
		into->min_ns = min_ns;
	if (max_ns > into->max_ns)
		into->max_ns = max_ns;
}

/* The largest value that falls into @bucket. */
static uint64_t bucket_end(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < 2 * HIST_SUB_BUCKETS)
		return bucket;
	shift = (bucket >> HIST_SUB_BITS) - 1;
	/* The addition wraps to 0 for the very last bucket, which makes its end UINT64_MAX. */
	return ((uint64_t)(bucket - (shift << HIST_SUB_BITS) + 1) << shift) - 1;
}

uint64_t hist_quantile(const struct hist *hist, double quantile)
{
	uint64_t rank, seen = 0;
	double share;
	unsigned int i;

	if (!hist->count)
		return 0;
	if (!(quantile > 0))
		return hist->min_ns;
	if (quantile >= 1)
		return hist->max_ns;
	share = quantile * (double)hist->count;
	rank = (uint64_t)share;
	rank += share > (double)rank; /* rounds up; ceil() would make libkvd need libm */
	for (i = 0; i < HIST_BUCKETS; i++) {
		seen += hist->buckets[i];
		if (seen >= rank)
			break;
	}
	if (i == HIST_BUCKETS || bucket_end(i) > hist->max_ns)
		return hist->max_ns;
	return bucket_end(i);
}

double hist_mean(const struct hist *hist)
{
	return hist->count ? (double)hist->sum_ns / (double)hist->count : 0;
}

void hist_sparse_release(struct hist_sparse *sparse)
{
	heap_free(sparse->parts);
	memset(sparse, 0, sizeof(*sparse));
}

bool hist_sparse_grow(struct hist_sparse *sparse, unsigned int part)
{
	uint32_t(*parts)[HIST_SUB_BUCKETS];

	parts = heap_realloc(sparse->parts, (sparse->part_count + 1u) * sizeof(*parts));
	if (!parts)
		return false;
	memset(parts[sparse->part_count], 0, sizeof(*parts));
	sparse->parts = parts;
	sparse->part_of[part] = ++sparse->part_count;
	return true;
}

void hist_sparse_expand(const struct hist_sparse *sparse, struct hist *hist)
{
	unsigned int i, j;

	hist_init(hist);
	if (!sparse->count)
		return;
	hist->count = sparse->count;
	hist->sum_ns = sparse->sum_ns;
	hist->min_ns = sparse->min_ns;
	hist->max_ns = sparse->max_ns;
	for (i = 0; i < HIST_PARTS; i++)
		for (j = 0; sparse->part_of[i] && j < HIST_SUB_BUCKETS; j++)
			hist->buckets[i * HIST_SUB_BUCKETS + j] =
				sparse->parts[sparse->part_of[i] - 1][j];
}
