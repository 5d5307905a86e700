/* SPDX-License-Identifier: MIT */
/*
 * Draws records by YCSB's request distributions: see keys.h.
 */
#include "bench/keys.h"

#include <math.h>

void keys_init(struct keys *keys, const struct workload *workload)
{
	const double inserts = workload->proportions[OPERATION_INSERT];
	const double operations = (double)workload->operation_count;

	keys->distribution = workload->request_distribution;
	keys->first = workload->insert_start;
	keys->count = workload_load_count(workload);
	keys->hot_count = (uint64_t)((double)keys->count * workload->hotspot_data_fraction);
	keys->hot_fraction = workload->hotspot_operation_fraction;
	keys->gamma = -log(1 - workload->exponential_percentile / 100) /
		      ((double)workload->record_count * workload->exponential_fraction);
	/*
	 * The popular records must not change when records are inserted, so this is the final
	 * range, with twice the expected inserts as a margin, and 1 more since YCSB includes its
	 * bound.
	 */
	keys->scrambled_count = keys->count + (uint64_t)(operations * inserts * 2) + 1;
	atomic_init(&keys->sequence, 0);
	counter_init(&keys->inserted, workload->record_count);
	if (keys->distribution == DISTRIBUTION_LATEST)
		zipfian_init(&keys->zipfian,
			     workload->record_count > 1 ? workload->record_count - 1 : 1);
	else
		zipfian_init_scrambled(&keys->zipfian);
}

void key_chooser_init(struct key_chooser *chooser, struct keys *keys)
{
	chooser->keys = keys;
	chooser->latest = keys->zipfian;
}

static uint64_t hotspot_next(const struct keys *keys, struct random *random)
{
	if (random_double(random) < keys->hot_fraction)
		return keys->first + random_below(random, keys->hot_count);
	return keys->first + keys->hot_count + random_below(random, keys->count - keys->hot_count);
}

/* @last, the newest record, is the most popular one, then the previous one, and so on. */
static uint64_t latest_next(struct key_chooser *chooser, struct random *random, uint64_t last)
{
	return last ? last - zipfian_next(&chooser->latest, random, last) : 0;
}

/* Below the first record the number wraps, and exceeds that of any record. */
static uint64_t exponential_next(const struct keys *keys, struct random *random, uint64_t last)
{
	/* 1 - u is never 0, where the logarithm would be infinite. */
	return last - (uint64_t)(-log(1 - random_double(random)) / keys->gamma);
}

/* One draw; the record may not exist. */
static uint64_t draw(struct key_chooser *chooser, struct random *random, uint64_t last)
{
	struct keys *keys = chooser->keys;

	switch (keys->distribution) {
	case DISTRIBUTION_ZIPFIAN:
		return keys->first +
		       zipfian_next_scrambled(&keys->zipfian, random, keys->scrambled_count);
	case DISTRIBUTION_LATEST:
		return latest_next(chooser, random, last);
	case DISTRIBUTION_SEQUENTIAL:
		return keys->first +
		       atomic_fetch_add_explicit(&keys->sequence, 1, memory_order_relaxed) %
			       keys->count;
	case DISTRIBUTION_HOTSPOT:
		return hotspot_next(keys, random);
	case DISTRIBUTION_EXPONENTIAL:
		return exponential_next(keys, random, last);
	default:
		return keys->first + random_below(random, keys->count);
	}
}

uint64_t key_chooser_next(struct key_chooser *chooser, struct random *random)
{
	const uint64_t last = counter_limit(&chooser->keys->inserted) - 1;
	uint64_t number = 0;
	int i;

	for (i = 0; i < KEYS_DRAWS_MAX; i++) {
		number = draw(chooser, random, last);
		if (number <= last)
			return number;
	}
	return number % (last + 1);
}
