/* SPDX-License-Identifier: MIT */
/*
 * Which shards of a member move where (FLEET-8, FLEET-16): a function of the map alone, so that it
 * needs no plan in etcd, and goes on where it stopped, whoever fails.
 *
 *   MOVES-1. Nothing moves but from a member that is drained, or while members balance: then each
 *	 member that is neither away nor drained gets its share by weight, and as few shards as
 *	 possible move (server/fleet/placement.h).
 */
#ifndef KVD_SERVER_FLEET_MOVES_H
#define KVD_SERVER_FLEET_MOVES_H

#include "common/fleet/map.h"
#include "server/fleet/shards.h"

/* Shards of a move: 1/32 of all. GETs of these are requests until they have moved. */
#define MOVE_SHARDS_MAX 512u

/*
 * Where each shard should be, in @owners: the number of a member, or FLEET_NO_OWNER. Shards of
 * members that are away stay theirs: the controller reassigns them.
 */
void moves_targets(const struct fleet_map *map, uint16_t owners[FLEET_SHARDS]);

/* How many shards of member @number should be elsewhere; UINT32_MAX: of all members. */
uint32_t moves_left(const struct fleet_map *map, uint32_t number);

/*
 * The next move of member @number: up to MOVE_SHARDS_MAX of its open shards in @served, to one
 * member, *@target. @skip: members, by number, that get none now; it may be NULL. Returns how many;
 * 0: none.
 */
uint32_t moves_choose(const struct fleet_map *map, uint32_t number, const struct shard_set *served,
		      const bool skip[FLEET_MEMBERS_MAX], uint32_t *target,
		      struct shard_set *shards);

#endif /* KVD_SERVER_FLEET_MOVES_H */
