/* SPDX-License-Identifier: MIT */
/*
 * index-reads: counts how many READs of the index one lookup takes in a real table, beside the
 * prediction of a Poisson distribution.
 *
 * A key whose slot is in overflow bucket number p of its chain costs 1 + p READs of buckets; a miss
 * costs the whole chain. Two tables for each fill:
 *
 *	one level	the index has 2^LEVEL buckets and does not grow
 *	a doubling	it grows at that fill by linear hashing, and the figure is the mean over
 *			POINTS moments of a doubling. Buckets that were split then hold half of what
 *			the others hold: at fill f, with the share x of the buckets split, the
 *			others have f (1 + x), and those that were split half of that.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/engine/engine.h"
#include "bench/random.h"

#define LEVEL 15u
#define POINTS 32u
#define REGION_BYTES (256ull << 20)

struct reads {
	double hit, miss; /* READs of buckets */
};

static struct engine engine;

/* Adds the keys from @have up to @want. Returns false if one did not fit. */
static bool keys_add(uint64_t have, uint64_t want)
{
	uint64_t state, key[2];

	for (; have < want; have++) {
		state = have;
		key[0] = splitmix_next(&state);
		key[1] = have;
		if (!engine_put(&engine, engine_hash(&engine, key, sizeof(key)), key, sizeof(key),
				key, 0))
			return false;
		engine_turn();
	}
	return true;
}

/* A miss goes to a bucket that was not split twice as often as to one that was. */
static struct reads reads_count(uint32_t level)
{
	const uint64_t buckets = engine_buckets(&engine), split = buckets - (UINT64_C(1) << level);
	double keys = 0, hits = 0, misses = 0;
	uint64_t i;

	for (i = 0; i < buckets; i++) {
		const bool whole = i >= split && i < UINT64_C(1) << level;
		const struct bucket *bucket = engine_bucket(&engine, i);
		unsigned int position = 0, slot;

		for (; bucket; bucket = engine_next(&engine, bucket)) {
			position++;
			for (slot = 0; slot < BUCKET_SLOTS; slot++) {
				keys += bucket->slots[slot] != 0;
				hits += bucket->slots[slot] ? position : 0;
			}
		}
		misses += position * (whole ? 2 : 1);
	}
	return (struct reads){ hits / keys, misses / (double)(UINT64_C(2) << level) };
}

/* For buckets with @mean keys on average, each key in the first free slot of its chain. */
static struct reads poisson(double mean)
{
	double p = exp(-mean), sum = 0, misses = 0, chain = 0;
	unsigned int n;

	for (n = 0; n < 40 * BUCKET_SLOTS; n++) {
		misses += p * (n <= BUCKET_SLOTS ? 1 : ceil((double)n / BUCKET_SLOTS));
		sum += p * chain;
		chain += 1 + n / BUCKET_SLOTS; /* the READs of key number n + 1 */
		p *= mean / (n + 1);
	}
	return (struct reads){ sum / mean, misses };
}

static struct reads poisson_doubling(double fill)
{
	struct reads whole, half, mean = { 0, 0 };
	unsigned int i;

	for (i = 0; i < POINTS; i++) {
		const double x = (i + 0.5) / POINTS;

		whole = poisson(fill * BUCKET_SLOTS * (1 + x));
		half = poisson(fill * BUCKET_SLOTS * (1 + x) / 2);
		mean.hit += ((1 - x) * whole.hit + x * half.hit) / POINTS;
		mean.miss += ((1 - x) * whole.miss + x * half.miss) / POINTS;
	}
	return mean;
}

static struct reads counted_level(double fill)
{
	const double slots = (double)(BUCKET_SLOTS << LEVEL);
	struct reads reads = { NAN, NAN };

	engine_create(&engine, REGION_BYTES, LEVEL, STORE_FILL_NEVER);
	if (keys_add(0, (uint64_t)(slots * fill)))
		reads = reads_count(LEVEL);
	engine_destroy(&engine);
	return reads;
}

/* Grows from one level below, so that the doubling starts as in a table in use. */
static struct reads counted_doubling(double fill)
{
	const double slots = (double)(BUCKET_SLOTS << LEVEL);
	struct reads reads, mean = { 0, 0 };
	uint64_t have = 0, want;
	unsigned int i;
	bool fits = true;

	engine_create(&engine, REGION_BYTES, LEVEL - 1, (uint32_t)lround(fill * 100));
	for (i = 0; fits && i < POINTS; i++, have = want) {
		want = (uint64_t)(slots * fill * (1 + (i + 0.5) / POINTS));
		fits = keys_add(have, want) && engine_buckets(&engine) >= UINT64_C(1) << LEVEL;
		reads = fits ? reads_count(LEVEL) : (struct reads){ NAN, NAN };
		mean.hit += reads.hit / POINTS;
		mean.miss += reads.miss / POINTS;
	}
	engine_destroy(&engine);
	return mean;
}

int main(void)
{
	unsigned int percent;

	printf("READs of the index for each lookup, %u slots a bucket; counted in %u buckets\n\n",
	       BUCKET_SLOTS, 1u << LEVEL);
	printf("%4s %35s %39s\n", "", "one level", "mean over a doubling");
	printf("%4s %17s %17s %21s %17s\n", "", "hit", "miss", "hit", "miss");
	printf("%4s %8s %8s %8s %8s %12s %8s %8s %8s\n", "fill", "counted", "Poisson", "counted",
	       "Poisson", "counted", "Poisson", "counted", "Poisson");
	for (percent = 50; percent <= 90; percent += 5) {
		const double fill = percent / 100.0;
		const struct reads counted = counted_level(fill),
				   level = poisson(fill * BUCKET_SLOTS);
		const struct reads growing = counted_doubling(fill);
		const struct reads doubling = poisson_doubling(fill);

		printf("%3u%% %8.4f %8.4f %8.4f %8.4f %12.4f %8.4f %8.4f %8.4f\n", percent,
		       counted.hit, level.hit, counted.miss, level.miss, growing.hit, doubling.hit,
		       growing.miss, doubling.miss);
		fflush(stdout);
	}
	return 0;
}
