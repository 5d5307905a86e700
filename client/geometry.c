/* SPDX-License-Identifier: MIT */
/*
 * The index's geometry: READs it from the superblock and computes buckets' offsets from it. The
 * index grows while clients read. A client's geometry may be older than the index, but never newer:
 * the server splits a bucket first and publishes that in the superblock afterwards. The level in a
 * bucket says whether some of its keys have moved (client/lookup.c).
 */
#include "client/geometry.h"

#include <string.h>

#include "client/read.h"
#include "common/util/clock.h"
#include "common/sum.h"

/* How often the geometry is READ while it is being changed. */
#define REFRESH_TRIES 4
/* The shortest time between two refreshes: many keys may turn out moved while the index grows. */
#define REFRESH_NS_MIN 1000000u

#define GEOMETRY_OFFSET offsetof(struct superblock, geometry)
static_assert(sizeof(struct geometry) <= GETS_MAX * BUCKET_BYTES, "READ to the buckets' buffer");

uint8_t bucket_level(const struct geometry *g, uint64_t number)
{
	bool deeper = number < g->split || number >> g->level;

	return (uint8_t)(g->level + deeper);
}

bool bucket_offset(const struct kvd *handle, uint64_t number, uint64_t *offset)
{
	const struct geometry *g = &handle->geometry;
	unsigned int segment = 0;

	if (number >> g->level_base)
		segment = 64 - (unsigned int)__builtin_clzll(number) - g->level_base;
	/* geometry_check() does not look at segments behind the index's end. */
	if (segment >= SEGMENTS_MAX || g->segments[segment] < sizeof(struct superblock) ||
	    g->segments[segment] % BUCKET_BYTES)
		return false;
	*offset = geometry_bucket_offset(g, number);
	return region_holds(handle, *offset, BUCKET_BYTES);
}

/* The same region, with an index at least as large. */
static bool geometry_follows(const struct geometry *old, const struct geometry *fresh)
{
	return fresh->incarnation == old->incarnation && fresh->region_bytes == old->region_bytes &&
	       fresh->hash_seed == old->hash_seed && fresh->value_max == old->value_max &&
	       fresh->level_base == old->level_base &&
	       geometry_buckets(fresh) >= geometry_buckets(old);
}

enum kvd_status geometry_refresh(struct kvd *handle)
{
	uint64_t now = clock_ns();
	enum kvd_status status;
	struct geometry g;
	unsigned int i;

	if (now - handle->geometry_ns < REFRESH_NS_MIN)
		return KVD_OK;
	handle->geometry_ns = now;
	for (i = 0; i < REFRESH_TRIES; i++) {
		handle->stats.geometry_reads++;
		read_add(handle, 0, GEOMETRY_OFFSET, &handle->buckets, 0, sizeof(g));
		status = read_chain(handle, 1);
		if (status)
			return status;
		memcpy(&g, handle->buckets.base, sizeof(g));
		if (!geometry_check(&g) && geometry_follows(&handle->geometry, &g)) {
			handle->geometry = g;
			bcache_level(&handle->cache, g.level);
			break;
		}
	}
	return KVD_OK;
}
