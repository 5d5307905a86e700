/* SPDX-License-Identifier: MIT */
/*
 * The fleet that a server is a member of: its map, and which member the server is.
 *
 *   OWNER-1. A keyed request (GET, PUT, DELETE, ARITH, TOUCH) is executed only by the member that
 *	 owns the key's shard. Any other answers MOVED, with the epoch of its map, before anything
 *	 of the request is done: no value is pulled (member_admit() in server/worker/member.h).
 *   OWNER-2. A refusal is the answer to a numbered change, and is recorded like any other: sent
 *	 again, the change gets the same answer, and is not executed (ANSWER-3).
 *   OWNER-3. A refusal costs its client what the request would have: so a client can't send those
 *	 beyond its limits (PERMIT-2).
 *   OWNER-4. All stores of all members hash keys with the seed of the map, so a key has one shard.
 *   OWNER-5. Every client that may connect gets the map, by MAP; its seed, too, which the welcome
 *	 of a client that may not READ leaves out.
 *
 * A server in no fleet has no struct fleet, and looks at one pointer for each request.
 */
#ifndef KVD_SERVER_FLEET_FLEET_H
#define KVD_SERVER_FLEET_FLEET_H

#include "common/fleet/map.h"

/* Does not change while the server runs: all threads may read it. */
struct fleet {
	struct fleet_map *map;
	uint32_t member; /* the server's number in the map */
	uint32_t shards; /* that it owns */
};

/*
 * Makes @fleet from the file at @path; @member is the server's name in it, "" if none was given.
 * Returns 0, or a negative errno after logging.
 */
int fleet_open(struct fleet *fleet, const char *path, const char member[FLEET_NAME_MAX + 1]);
/* Logs what the server is in the fleet. */
void fleet_announce(const struct fleet *fleet);
/* Of one that was opened, or is all zero. */
void fleet_close(struct fleet *fleet);

/* Whether the server owns the shard of the key with @hash. */
static inline bool fleet_owns(const struct fleet *fleet, uint64_t hash)
{
	return fleet_row_owner(fleet->map->rows[fleet_shard(hash)]) == fleet->member;
}

#endif /* KVD_SERVER_FLEET_FLEET_H */
