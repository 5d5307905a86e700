/* SPDX-License-Identifier: MIT */
/*
 * The index's geometry: READs it from the superblock and computes offsets of buckets. The index
 * grows while clients read. A client's geometry may be older than the index, but never newer: the
 * server splits a bucket first and publishes that in the superblock afterwards. The level in a
 * bucket says whether some of its keys have moved (client/libkvd/lookup.c).
 */
#include "client/libkvd/geometry.h"

#include <string.h>

#include "client/libkvd/read.h"
#include "common/sum.h"
#include "common/util/clock.h"

/* How often the geometry is READ while it is being changed. */
#define REFRESH_TRIES 4
/* The shortest time between two refreshes: many keys may turn out moved while the index grows. */
#define REFRESH_NS_MIN 1000000u

#define GEOMETRY_OFFSET offsetof(struct superblock, geometry)
static_assert(sizeof(struct geometry) < RING_BYTES_MIN, "fits the ring");

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
	/* geometry_check() does not check segments past the end of the index. */
	if (segment >= SEGMENTS_MAX || g->segments[segment] < sizeof(struct superblock) ||
	    g->segments[segment] % BUCKET_BYTES)
		return false;
	*offset = geometry_bucket_offset(g, number);
	return *offset <= g->region_bytes - BUCKET_BYTES;
}

/* Whether @fresh is of the same region, with an index at least as large. */
static bool geometry_follows(const struct geometry *old, const struct geometry *fresh)
{
	return fresh->incarnation == old->incarnation && fresh->region_bytes == old->region_bytes &&
	       fresh->hash_seed == old->hash_seed && fresh->value_max == old->value_max &&
	       fresh->level_base == old->level_base &&
	       geometry_buckets(fresh) >= geometry_buckets(old);
}

bool geometry_due(const struct kvd *handle)
{
	return handle->geometry_flight.place == PLACE_QUEUED ||
	       handle->geometry_flight.place == PLACE_READING ||
	       clock_ns() - handle->geometry_ns >= REFRESH_NS_MIN;
}

static void geometry_add(struct kvd *handle, struct flight *f)
{
	if (read_add(handle, f, GEOMETRY_OFFSET, sizeof(struct geometry)))
		handle->stats.geometry_reads++;
	else
		read_wait(handle, f, sizeof(struct geometry));
}

/* Takes @data if it is a whole geometry of the same region, not an older one. */
static bool geometry_take(struct kvd *handle, const void *data)
{
	struct geometry g;

	memcpy(&g, data, sizeof(g));
	if (geometry_check(&g) || !geometry_follows(&handle->geometry, &g))
		return false;
	handle->geometry = g;
	bcache_level(&handle->cache, g.level);
	shared_geometry_put(handle->server, &g);
	return true;
}

bool geometry_adopt(struct kvd *handle)
{
	if (!shared_geometry_get(handle->server, &handle->geometry))
		return false;
	bcache_level(&handle->cache, handle->geometry.level);
	return true;
}

/* Takes the geometry, or READs it again; then the lookups that wait for it go on. */
static void geometry_done(struct kvd *handle, struct flight *f)
{
	struct list waiters;

	f->place = PLACE_NONE;
	if (!geometry_take(handle, f->lookup.buffer) && ++handle->geometry_tries < REFRESH_TRIES) {
		geometry_add(handle, f);
		return;
	}
	handle->geometry_ns = clock_ns();
	list_init(&waiters);
	list_move_all(&waiters, &handle->geometry_waiters);
	while (!list_empty(&waiters)) {
		f = list_entry(waiters.next, struct flight, link);
		list_remove(&f->link);
		f->ops->ready(handle, f);
	}
}

static const struct flight_ops geometry_ops = { .ready = geometry_add, .read_done = geometry_done };

void geometry_read(struct kvd *handle)
{
	struct flight *f = &handle->geometry_flight;

	if (f->place == PLACE_QUEUED || f->place == PLACE_READING)
		return;
	f->ops = &geometry_ops;
	f->kind = FLIGHT_OWN;
	handle->geometry_tries = 0;
	geometry_add(handle, f);
}
