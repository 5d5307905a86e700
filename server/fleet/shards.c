/* SPDX-License-Identifier: MIT */
/* Follows the map with the shards of one member. */
#include "server/fleet/shards.h"

#include <string.h>

bool shard_set_empty(const struct shard_set *set)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		any |= set->bits[i];
	return !any;
}

static void wait_end(struct shards *shards, uint32_t shard)
{
	shards->waiting -= shards->wait_until_ns[shard] != 0;
	shards->wait_until_ns[shard] = 0;
}

static void wait_begin(struct shards *shards, uint32_t shard, uint64_t row, uint64_t now_ns)
{
	wait_end(shards, shard);
	shards->wait_until_ns[shard] = row & FLEET_GIVEN ? now_ns : now_ns + shards->wait_ns;
	shards->waiting++;
}

static void serve(struct shards *shards, uint32_t shard)
{
	wait_end(shards, shard);
	shard_set_add(&shards->served, shard);
	shard_set_add(&shards->used, shard);
	shards->served_count++;
	shards->changed = true;
}

/* The items go after a view without the shard was published. */
static void unserve(struct shards *shards, uint32_t shard)
{
	shard_set_remove(&shards->served, shard);
	shard_set_add(&shards->to_drop, shard);
	shards->served_count--;
	shards->changed = true;
}

/* Whether @row is what the row of a served shard was, or becomes by the own transaction. */
static bool is_proven(const struct shards *shards, uint32_t shard, uint64_t old, uint64_t row)
{
	uint64_t opened = (old & ~FLEET_EPOCH_MAX) | FLEET_OPEN | shards->opening_epoch;

	return row == old || (shard_set_has(&shards->opening, shard) && row == opened);
}

void shards_follow(struct shards *shards, const struct fleet_map *old, const struct fleet_map *map,
		   uint32_t member, bool proves, uint64_t now_ns)
{
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		uint64_t row = map->rows[i], row_old = old ? old->rows[i] : 0;
		bool was_served = shard_set_has(&shards->served, i);
		bool mine = fleet_row_owner(row) == member && member != FLEET_NO_OWNER;

		if (was_served && mine && proves && old && is_proven(shards, i, row_old, row))
			continue;
		if (was_served)
			unserve(shards, i);
		if (!mine)
			wait_end(shards, i);
		else if (was_served || !shards->wait_until_ns[i] || !old || row != row_old)
			wait_begin(shards, i, row, now_ns);
	}
	shards->opening = (struct shard_set){ 0 };
}

void shards_serve(struct shards *shards, uint64_t now_ns)
{
	for (uint32_t i = 0; i < FLEET_SHARDS && shards->waiting; i++)
		if (shards->wait_until_ns[i] && shards->wait_until_ns[i] <= now_ns &&
		    !shard_set_has(&shards->used, i))
			serve(shards, i);
}

uint64_t shards_next_ns(const struct shards *shards)
{
	uint64_t next_ns = UINT64_MAX;

	for (uint32_t i = 0; i < FLEET_SHARDS && shards->waiting; i++)
		if (shards->wait_until_ns[i] && shards->wait_until_ns[i] < next_ns &&
		    !shard_set_has(&shards->used, i))
			next_ns = shards->wait_until_ns[i];
	return next_ns;
}

bool shards_open_unserved(const struct shards *shards, const struct fleet_map *map, uint32_t member)
{
	for (uint32_t i = 0; i < FLEET_SHARDS && shards->waiting; i++)
		if (shards->wait_until_ns[i] && map->rows[i] & FLEET_OPEN &&
		    fleet_row_owner(map->rows[i]) == member)
			return true;
	return false;
}

bool shards_drop(struct shards *shards)
{
	if (!shard_set_empty(&shards->dropping) || shard_set_empty(&shards->to_drop))
		return false;
	shards->dropping = shards->to_drop;
	shards->to_drop = (struct shard_set){ 0 };
	return true;
}

void shards_dropped(struct shards *shards)
{
	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		shards->used.bits[i] &= ~shards->dropping.bits[i];
	shards->dropping = (struct shard_set){ 0 };
}

bool shards_drops(const struct shards *shards)
{
	return !shard_set_empty(&shards->to_drop) || !shard_set_empty(&shards->dropping);
}
