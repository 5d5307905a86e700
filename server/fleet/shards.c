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

uint32_t shard_set_count(const struct shard_set *set)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		count += (uint32_t)__builtin_popcountll(set->bits[i]);
	return count;
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
	shard_set_remove(&shards->frozen, shard);
	shard_set_add(&shards->to_drop, shard);
	shards->served_count--;
	shards->changed = true;
}

static void refuse(struct shards *shards, uint32_t shard)
{
	shard_set_remove(&shards->accepted, shard);
	shard_set_add(&shards->to_drop, shard);
	shards->changed = true;
}

/* Whether @row is what the row of a served shard was, or becomes by an own transaction. */
static bool is_proven(const struct shards *shards, uint32_t shard, uint64_t old, uint64_t row)
{
	uint64_t opened = (old & ~FLEET_EPOCH_MAX) | FLEET_OPEN | shards->attempt_epoch;
	uint64_t closed = fleet_row(fleet_row_owner(old), false, shards->attempt_epoch);

	return row == old || (shard_set_has(&shards->opening, shard) && row == opened) ||
	       (shard_set_has(&shards->closing, shard) && row == closed);
}

static bool is_given(uint64_t row)
{
	return row & FLEET_OPEN && row & FLEET_GIVEN;
}

/* A shard that was accepted, and whose row has changed. True: it is served now, with its items. */
static bool accepted_end(struct shards *shards, uint32_t shard, bool is_given_to_it)
{
	if (!is_given_to_it) {
		refuse(shards, shard);
		return false;
	}
	shard_set_remove(&shards->accepted, shard);
	serve(shards, shard);
	return true;
}

void shards_follow(struct shards *shards, const struct fleet_map *old, const struct fleet_map *map,
		   uint32_t member, bool proves, uint64_t now_ns)
{
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		uint64_t row = map->rows[i], row_old = old ? old->rows[i] : 0;
		bool was_served = shard_set_has(&shards->served, i);
		bool mine = fleet_row_owner(row) == member && member != FLEET_NO_OWNER;
		bool keeps = mine && proves && old;

		if (was_served && keeps && is_proven(shards, i, row_old, row))
			continue;
		if (was_served)
			unserve(shards, i);
		if (shard_set_has(&shards->accepted, i) && !(old && row == row_old) &&
		    accepted_end(shards, i, keeps && is_given(row)))
			continue;
		if (!mine)
			wait_end(shards, i);
		else if (was_served || !shards->wait_until_ns[i] || !old || row != row_old)
			wait_begin(shards, i, row, now_ns);
	}
	shards->opening = shards->closing = (struct shard_set){ 0 };
}

void shards_return(struct shards *shards, const struct fleet_map *map, uint32_t member,
		   uint64_t now_ns)
{
	shards->served_count = shard_set_count(&shards->served);
	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		shards->to_drop.bits[i] = shards->used.bits[i] & ~shards->served.bits[i] &
					  ~shards->accepted.bits[i];
	for (uint32_t i = 0; i < FLEET_SHARDS && member != FLEET_NO_OWNER; i++)
		if (fleet_row_owner(map->rows[i]) == member && !shard_set_has(&shards->served, i))
			wait_begin(shards, i, map->rows[i], now_ns);
	shards->changed = true;
}

void shards_forget(struct shards *shards)
{
	memset(shards->used.bits, 0xff, sizeof(shards->used.bits));
	memset(shards->to_drop.bits, 0xff, sizeof(shards->to_drop.bits));
}

void shards_freeze(struct shards *shards, const struct shard_set *set)
{
	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		shards->frozen.bits[i] |= set->bits[i] & shards->served.bits[i];
	shards->changed = true;
}

void shards_thaw(struct shards *shards)
{
	shards->changed |= !shard_set_empty(&shards->frozen);
	shards->frozen = (struct shard_set){ 0 };
}

bool shards_accept(struct shards *shards, const struct shard_set *set)
{
	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		if (set->bits[i] & shards->used.bits[i])
			return false;
	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++) {
		shards->used.bits[i] |= set->bits[i];
		shards->accepted.bits[i] |= set->bits[i];
	}
	shards->changed = true;
	return true;
}

void shards_refuse(struct shards *shards)
{
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (shard_set_has(&shards->accepted, i))
			refuse(shards, i);
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
