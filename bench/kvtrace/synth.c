/* SPDX-License-Identifier: MIT */
/*
 * Generates synthetic traces: see synth.h.
 */
#include "bench/kvtrace/synth.h"

#include <math.h>

/* Between two scans lie on average 1 / scan_start zipfian accesses. */
void synth_init(struct synth *synth, const struct synth_shape *shape)
{
	synth->shape = *shape;
	random_init(&synth->random, shape->seed);
	zipfian_init(&synth->zipfian, shape->keys);
	synth->scan_start = shape->scan_share / (1 - shape->scan_share) / (double)shape->scan_run;
	synth->scan_next = SYNTH_KEYS_MAX;
	synth->scan_left = 0;
	synth->count = 0;
}

/* A step of splitmix64 is one to one. */
static uint64_t scatter(const struct synth *synth, uint64_t number)
{
	uint64_t state = number ^ synth->shape.seed << 41;

	return splitmix_next(&state);
}

static uint32_t size_of(const struct synth *synth, uint64_t key)
{
	const double min = synth->shape.size_min + 1.0, max = synth->shape.size_max + 1.0;
	double u;

	if (synth->shape.size_min == synth->shape.size_max)
		return synth->shape.size_min;
	u = (double)(splitmix_next(&key) >> 11) * 0x1p-53;
	return (uint32_t)(min * pow((max + 1) / min, u)) - 1;
}

/* Key 0 is the oldest; the newest one is the most popular. */
static uint64_t zipfian_key(struct synth *synth)
{
	const struct synth_shape *shape = &synth->shape;
	const uint64_t newest = shape->keys - 1 + (shape->drift ? synth->count / shape->drift : 0);

	synth->count++;
	return newest - zipfian_next(&synth->zipfian, &synth->random, shape->keys);
}

void synth_next(struct synth *synth, struct trace_access *access)
{
	uint64_t number;

	if (synth->scan_left) {
		synth->scan_left--;
		number = synth->scan_next++;
	} else {
		number = zipfian_key(synth);
		if (random_double(&synth->random) < synth->scan_start)
			synth->scan_left = synth->shape.scan_run;
	}
	access->key = scatter(synth, number);
	access->size = size_of(synth, access->key);
}
