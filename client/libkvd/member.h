/* SPDX-License-Identifier: MIT */
/*
 * A fleet in libkvd: a handle for it (`fleet` is set, there is no connection) and a handle for each
 * member that is in use (`member.home` leads to the fleet's). The operations of the fleet's handle
 * are its own: slots, deadlines, statistics. Each flies at one member, whose engine moves it on.
 * common/fleet/DESIGN.md has the rules of fleets.
 *
 *   MEMBER-1. A READ counts, hit or miss, only by the row and the word that the handle had when it
 *	 was posted (FLEET-6): the row is the member's, open, and not newer than the word's epoch,
 *	 which is not newer than the map's, of the same generation; and after the completion the
 *	 word has not ended (client/libkvd/word.h). So a lookup reads only if they allow it when it
 *	 starts, and starts again if they were others by its end (`judgement`). Else the server is
 *	 asked, which serves a key only if it owns the shard.
 *   MEMBER-2. A handle that was opened by a member's own URL has no map, so it READs nothing: it
 *	 would take the absence of another member's key for a miss.
 */
#ifndef KVD_CLIENT_LIBKVD_MEMBER_H
#define KVD_CLIENT_LIBKVD_MEMBER_H

#include "client/kvd.h"
#include "common/fleet/map.h"
#include "common/layout.h"
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
	/* Whether the flight's shard waits for the next map. */
	bool (*holds)(const struct kvd *handle, const struct flight *flight);
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
	/* The member's word has another epoch or generation. */
	void (*judge)(struct kvd *member);
	/*
	 * READs the member's word, unless that is under way; then the lookups in word_waiters go
	 * on, or end with KVD_ERR_AWAY if the word has ended.
	 */
	void (*word_read)(struct kvd *member);
	/* The member's clock is known, for which its word has waited. */
	void (*word_clock)(struct kvd *member);
	/* A member does not serve what it should: there may be a newer map. */
	void (*want)(struct kvd *handle);
};

/*
 * What a fleet's handle has of each shard: the number of its owner in the map, that of the members
 * if it has none, and whether READs of the owner count by MEMBER-1 until the owner's word ends.
 */
#define SHARD_OWNER 0x1fffu
#define SHARD_COUNTS 0x8000u
/* Of no shard. */
#define SHARD_NONE UINT16_MAX
static_assert(FLEET_MEMBERS_MAX < SHARD_OWNER, "each owner has a number, and nobody");

/* Of a member's handle. */
struct member {
	struct kvd *home;	/* the fleet's handle; NULL: the handle is no member's */
	const uint16_t *shards; /* of the fleet; NULL: the handle is no member's, all READs count */
	uint16_t mine;		/* of a shard of which READs at this member count */
	uint32_t judgement;	/* changes with the rows, or the word's epoch, that judge READs */
	/* By clock_boot_ns(); 0: the word has no end, or there is none, and no clock is read. */
	uint64_t fresh_ns; /* until then READs count, and the word is not READ again */
	uint64_t until_ns; /* until then READs count */
	struct fleet_link *link;
	uint32_t flights;	/* that are at the member */
	struct fleet_word word; /* the newest */
	unsigned int word_tries;
	bool word_clock;	 /* the word waits for the server's clock */
	char id[FLEET_NAME_MAX]; /* as the welcome had it */
	uint64_t refused_epoch;	 /* the largest with which the member refused a request */
	bool refused_first; /* the last one that it refused, but not since it had refused another */
};

#endif /* KVD_CLIENT_LIBKVD_MEMBER_H */
