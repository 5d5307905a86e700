/* SPDX-License-Identifier: MIT */
/* Finds the shards of moves to a member, and forgets them when they are not moved any more. */
#include "server/fleet/accepts.h"

#include <string.h>

static bool has(const struct accepts *accepts, uint64_t epoch)
{
	for (uint32_t i = 0; i < accepts->count; i++)
		if (accepts->all[i].epoch == epoch)
			return true;
	return false;
}

/* The shards of one transaction, since no two make the same epoch. */
static void find(const struct fleet_map *map, uint32_t member, uint64_t epoch,
		 struct shard_set *found)
{
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (fleet_row_moves(map->rows[i], member, epoch))
			shard_set_add(found, i);
}

void accepts_begin(struct accepts *accepts, struct shards *shards, const struct fleet_map *map,
		   uint32_t member, uint64_t epoch)
{
	struct shard_set found = { 0 };

	if (accepts->count == FLEET_ACCEPTS_MAX || has(accepts, epoch))
		return;
	find(map, member, epoch, &found);
	if (shard_set_empty(&found) || !shards_accept(shards, &found))
		return;
	accepts->all[accepts->count].epoch = epoch;
	memcpy(accepts->all[accepts->count].shards, found.bits, sizeof(found.bits));
	accepts->count++;
}

/* Whether something of @accept is left. */
static bool narrow(struct fleet_accept *accept, const struct shard_set *accepted)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		any |= accept->shards[i] &= accepted->bits[i];
	return any;
}

void accepts_follow(struct accepts *accepts, const struct shards *shards)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < accepts->count; i++)
		if (narrow(&accepts->all[i], &shards->accepted))
			accepts->all[count++] = accepts->all[i];
	accepts->count = count;
}

void accepts_end(struct accepts *accepts, struct shards *shards)
{
	shards_refuse(shards);
	accepts->count = 0;
}
