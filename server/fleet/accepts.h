/* SPDX-License-Identifier: MIT */
/*
 * The moves of shards to a member (FLEET-8), at its end: whose items it takes. A state without I/O
 * or clock, part of membership.h, which has the rule MEMBERSHIP-9 that is kept here.
 */
#ifndef KVD_SERVER_FLEET_ACCEPTS_H
#define KVD_SERVER_FLEET_ACCEPTS_H

#include "server/fleet/fleet.h"
#include "server/fleet/shards.h"

/* Zeroed at first: none. Together they are the shards of struct shards that are `accepted`. */
struct accepts {
	struct fleet_accept all[FLEET_ACCEPTS_MAX];
	uint32_t count;
};

/*
 * Accepts the shards that another member than @member has closed in @epoch of @map, if there are
 * such, a move can be added, and nothing is left of them. Nothing happens if they are accepted.
 */
void accepts_begin(struct accepts *accepts, struct shards *shards, const struct fleet_map *map,
		   uint32_t member, uint64_t epoch);
/* After shards_follow(). */
void accepts_follow(struct accepts *accepts, const struct shards *shards);
/* Ends all. */
void accepts_end(struct accepts *accepts, struct shards *shards);

#endif /* KVD_SERVER_FLEET_ACCEPTS_H */
