/* SPDX-License-Identifier: MIT */
/*
 * Placement: which member of a fleet owns which shard. A pure function of the members' weights and
 * of the owners until now, so that all who compute it agree.
 */
#ifndef KVD_SERVER_FLEET_PLACEMENT_H
#define KVD_SERVER_FLEET_PLACEMENT_H

#include "common/fleet/map.h"

/* The owner of a shard that has none. */
#define PLACEMENT_NONE UINT16_MAX

/*
 * Gives each shard an owner: member m gets its share by weight, weights[m] / (sum of all), rounded
 * down or up. @members is 1 to FLEET_MEMBERS_MAX, and some weight is not 0. @owners has the owners
 * until now, PLACEMENT_NONE or a number that is no member's for none. Only shards without an owner,
 * and those that a member has beyond its share, get another one.
 */
void placement_make(const uint32_t weights[], uint32_t members, uint16_t owners[FLEET_SHARDS]);

/*
 * As placement_make(), but no member loses a shard: only those without an owner get one. A member
 * that has more than its share keeps that, and the others share what is left, by weight. One whose
 * weight is 0 gets nothing, and keeps what it has.
 */
void placement_fill(const uint32_t weights[], uint32_t members, uint16_t owners[FLEET_SHARDS]);

#endif /* KVD_SERVER_FLEET_PLACEMENT_H */
