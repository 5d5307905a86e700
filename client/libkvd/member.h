/* SPDX-License-Identifier: MIT */
/*
 * A fleet in libkvd: a handle for it (`fleet` is set, there is no connection) and a handle for each
 * member that is in use (`member.home` leads to the fleet's). The operations of the fleet's handle
 * are its own: slots, deadlines, statistics. Each flies at one member, whose engine moves it on.
 * common/fleet/DESIGN.md has the rules of fleets.
 *
 *   MEMBER-1. A READ counts, hit or miss, only if the row of the key's shard is the member's,
 *	 open, and not newer than the member's map, which is not newer than the handle's (FLEET-6).
 *	 Else the server is asked, which serves a key only if it owns the shard.
 *   MEMBER-2. A handle that was opened by a member's own URL has no map, so it READs nothing: it
 *	 would take the absence of another member's key for a miss.
 */
#ifndef KVD_CLIENT_LIBKVD_MEMBER_H
#define KVD_CLIENT_LIBKVD_MEMBER_H

#include "client/kvd.h"
#include "common/fleet/map.h"
#include "common/rdma/device.h"

struct kvd;
struct flight;
struct fleet_link;

/* What the engine, and the calls of the API, ask of a fleet: client/libkvd/fleet.c. */
struct fleet_ops {
	/* Moves on all that flies. Returns the number of completions taken. */
	unsigned int (*progress)(struct kvd *handle);
	/* Posts what the members' flights need. */
	void (*post)(struct kvd *handle);
	/* When progress() has work even if nothing completes. UINT64_MAX: never. */
	uint64_t (*next_ns)(const struct kvd *handle);
	/* Has each completion that arrives from now on make the descriptor readable. */
	void (*arm)(struct kvd *handle);
	void (*disarm)(struct kvd *handle);
	/* Begins a submitted operation's flight. */
	void (*begin)(struct kvd *handle, struct flight *flight);
	/*
	 * A submitted operation's flight has ended at @member. True: its member has refused it, and
	 * it goes on at another one.
	 */
	bool (*ended)(struct kvd *member, struct flight *flight);
	/* Runs the flights of a synchronous call until @left is 0, or the deadline has passed. */
	void (*call)(struct kvd *handle, struct flight *flights, unsigned int count,
		     unsigned int *left);
	/*
	 * A member's handle for what kvd_info() says of one server. NULL: none was used.
	 * *@incarnation is the sum of those of all that were used.
	 */
	const struct kvd *(*any)(const struct kvd *handle, uint64_t *incarnation);
	void (*name)(const struct kvd *handle, char name[FLEET_NAME_MAX], enum device_kind *kind);
	/* The next member's handle that is used, from *@at on, which it moves; NULL: no more. */
	struct kvd *(*next)(struct kvd *handle, uint32_t *at);
	/* Adds the statistics of all members' handles. */
	void (*stats_add)(const struct kvd *handle, struct kvd_stats *stats);
	/* The member's connection is lost. */
	void (*lost)(struct kvd *member);
	/* A server has welcomed the handle. KVD_ERR_PROTOCOL: it is not that member. */
	enum kvd_status (*welcome)(struct kvd *member, const struct wire_welcome *welcome);
};

/* Of a member's handle. */
struct member {
	struct kvd *home; /* the fleet's handle; NULL: the handle is no member's */
	struct fleet_link *link;
	uint32_t flights;     /* that are at the member */
	const uint64_t *rows; /* of the fleet's map; NULL: the handle has none */
	uint64_t mine;	      /* a row >> 47 that is the member's and open */
	uint64_t since_max;   /* the member's epoch; 0: the map does not fit it, no READ counts */
	/* As the welcome had them. */
	uint64_t generation, epoch;
	char id[FLEET_NAME_MAX];
	uint64_t refused_epoch; /* the largest with which the member refused a request */
};

/* MEMBER-1. */
static inline bool member_read_counts(const struct member *member, uint64_t hash)
{
	uint64_t row;

	if (!member->home)
		return true;
	if (!member->rows)
		return false;
	row = member->rows[fleet_shard(hash)];
	return row >> (FLEET_OWNER_SHIFT - 1) == member->mine &&
	       fleet_row_since(row) <= member->since_max;
}

#endif /* KVD_CLIENT_LIBKVD_MEMBER_H */
