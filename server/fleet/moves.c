/* SPDX-License-Identifier: MIT */
/* Compares where the shards of a fleet are with where they should be. */
#include "server/fleet/moves.h"

#include <string.h>

#include "server/fleet/placement.h"

/* Members that keep what they have, whatever others have: nobody moves it but the controller. */
#define NEVER_TARGET (FLEET_MEMBER_AWAY | FLEET_MEMBER_DRAINED)

static uint32_t flags_of(const struct fleet_map *map, uint32_t owner)
{
	return owner < map->head->members ? map->members[owner]->flags : 0;
}

/* The flags that some member has. */
static uint32_t flags_any(const struct fleet_map *map)
{
	uint32_t flags = 0;

	for (uint32_t i = 0; i < map->head->members; i++)
		flags |= map->members[i]->flags;
	return flags;
}

/* Whether some member may get shards. */
static bool weights_set(const struct fleet_map *map, uint32_t weights[FLEET_MEMBERS_MAX])
{
	bool any = false;

	for (uint32_t i = 0; i < map->head->members; i++) {
		const struct fleet_member *member = map->members[i];

		weights[i] = member->flags & NEVER_TARGET ? 0 : member->weight;
		any |= weights[i] != 0;
	}
	return any;
}

/* Whether a member, not the controller, moves the shards of @owner. */
static bool moves(const struct fleet_map *map, uint32_t owner)
{
	return owner != FLEET_NO_OWNER && !(flags_of(map, owner) & FLEET_MEMBER_AWAY);
}

/*
 * In a balance the shards of members that are away, and those without an owner, count for those
 * that will get them: so nobody gives away what it would have to take back.
 */
void moves_targets(const struct fleet_map *map, uint16_t owners[FLEET_SHARDS])
{
	const bool balances = flags_any(map) & FLEET_MEMBER_BALANCES;
	uint32_t weights[FLEET_MEMBERS_MAX];
	const bool any = weights_set(map, weights);

	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		const uint32_t owner = fleet_row_owner(map->rows[i]), flags = flags_of(map, owner);
		const bool stays = balances ? moves(map, owner) :
					      !moves(map, owner) || !(flags & FLEET_MEMBER_DRAINED);

		owners[i] = any && !stays ? PLACEMENT_NONE : (uint16_t)owner;
	}
	if (any && balances)
		placement_make(weights, map->head->members, owners);
	else if (any)
		placement_fill(weights, map->head->members, owners);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (!moves(map, fleet_row_owner(map->rows[i])))
			owners[i] = (uint16_t)fleet_row_owner(map->rows[i]);
}

/* Whether moves_targets() can say anything but where the shards are. */
static bool may_move(const struct fleet_map *map)
{
	return flags_any(map) & (FLEET_MEMBER_DRAINED | FLEET_MEMBER_BALANCES);
}

uint32_t moves_left(const struct fleet_map *map, uint32_t number)
{
	uint16_t owners[FLEET_SHARDS];
	uint32_t left = 0;

	if (!may_move(map))
		return 0;
	moves_targets(map, owners);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		const uint32_t owner = fleet_row_owner(map->rows[i]);

		left += owners[i] != owner && (number == UINT32_MAX || owner == number);
	}
	return left;
}

/* Members give to different ones first, and each to all in turn. */
static uint32_t target_choose(const struct fleet_map *map, uint32_t number, const bool *skip,
			      const uint32_t counts[FLEET_MEMBERS_MAX])
{
	const uint32_t members = map->head->members;
	const uint64_t first = number + map->head->epoch;

	for (uint32_t i = 0; i < members; i++) {
		const uint32_t target = (uint32_t)((first + i) % members);

		if (counts[target] && !(skip && skip[target]))
			return target;
	}
	return members;
}

uint32_t moves_choose(const struct fleet_map *map, uint32_t number, const struct shard_set *served,
		      const bool skip[FLEET_MEMBERS_MAX], uint32_t *target,
		      struct shard_set *shards)
{
	uint32_t counts[FLEET_MEMBERS_MAX] = { 0 }, count = 0;
	uint16_t owners[FLEET_SHARDS];

	*shards = (struct shard_set){ 0 };
	if (!may_move(map))
		return 0;
	moves_targets(map, owners);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		const uint64_t row = map->rows[i];

		if (fleet_row_owner(row) == number && owners[i] != number && row & FLEET_OPEN &&
		    shard_set_has(served, i))
			counts[owners[i]]++;
		else
			owners[i] = FLEET_NO_OWNER;
	}
	*target = target_choose(map, number, skip, counts);
	if (*target == map->head->members)
		return 0;
	for (uint32_t i = 0; i < FLEET_SHARDS && count < MOVE_SHARDS_MAX; i++)
		if (owners[i] == *target) {
			shard_set_add(shards, i);
			count++;
		}
	return count;
}
