/* SPDX-License-Identifier: MIT */
/*
 * The shards of one member of a fleet: which it serves, which it waits for, which it has to drop,
 * which it may open, and of which it takes copies. A state without I/O or clock, which follows the
 * map; membership.h is its user, and has the rules MEMBERSHIP-1, MEMBERSHIP-2, MEMBERSHIP-8 and
 * MEMBERSHIP-9 that are kept here.
 */
#ifndef KVD_SERVER_FLEET_SHARDS_H
#define KVD_SERVER_FLEET_SHARDS_H

#include "common/fleet/map.h"

/* A bit for each shard. */
struct shard_set {
	uint64_t bits[FLEET_SHARDS / 64];
};

static inline bool shard_set_has(const struct shard_set *set, uint32_t shard)
{
	return set->bits[shard / 64] >> shard % 64 & 1;
}

static inline void shard_set_add(struct shard_set *set, uint32_t shard)
{
	set->bits[shard / 64] |= 1ull << shard % 64;
}

static inline void shard_set_remove(struct shard_set *set, uint32_t shard)
{
	set->bits[shard / 64] &= ~(1ull << shard % 64);
}

bool shard_set_empty(const struct shard_set *set);
uint32_t shard_set_count(const struct shard_set *set);

/* Zeroed at first: the member has served nothing yet, and its stores are empty. */
struct shards {
	uint64_t wait_ns; /* constant: how long the previous owner of a shard may still serve it */

	struct shard_set served;
	uint32_t served_count;
	struct shard_set used; /* may have items: was served or accepted, and not dropped since */
	/* Of those that are served: these may be another member's by now: no answers. */
	struct shard_set frozen;
	/* Another member's, of which copies are taken while the rows do not change. */
	struct shard_set accepted;

	/* Owned and not served: until when the shard waits. 0: it is served, or not owned. */
	uint64_t wait_until_ns[FLEET_SHARDS];
	uint32_t waiting;

	/* Own transactions that may be executed still open or close these in that epoch. */
	struct shard_set opening, closing;
	uint64_t attempt_epoch;

	struct shard_set to_drop;  /* not served or accepted any more, and used */
	struct shard_set dropping; /* the server was told to drop these */
	bool changed;		   /* a view has to be published */
};

/*
 * Follows the map from @old to @map, in which the member has the number @member; @old is NULL if
 * their epochs are not comparable. A shard stays served only if @proves, and if its row is as it
 * was, or as the transaction that opens or closes it would make it. One that was accepted, and was
 * given to the member, is served at once.
 */
void shards_follow(struct shards *shards, const struct fleet_map *old, const struct fleet_map *map,
		   uint32_t member, bool proves, uint64_t now_ns);
/* Serves the shards that have waited, and that nothing is left of. */
void shards_serve(struct shards *shards, uint64_t now_ns);
/* When shards_serve() may have something to do; UINT64_MAX: only after other calls. */
uint64_t shards_next_ns(const struct shards *shards);

/*
 * After the sets and attempt_epoch were set to those that another process of the member had with
 * @map: drops what is not served or accepted, and waits for the other shards of @member.
 */
void shards_return(struct shards *shards, const struct fleet_map *map, uint32_t member,
		   uint64_t now_ns);
/* The stores may have items of any shard, and none is served: drops all. */
void shards_forget(struct shards *shards);

/* Nobody is answered for the served shards of @set any more; and for all of them again. */
void shards_freeze(struct shards *shards, const struct shard_set *set);
void shards_thaw(struct shards *shards);

/* Takes copies of the shards of @set. False: there may still be items of some. */
bool shards_accept(struct shards *shards, const struct shard_set *set);
/* Takes no copies any more, and drops those that were taken. */
void shards_refuse(struct shards *shards);

/* Whether a row of @member is open in @map and not served, which no word may say. */
bool shards_open_unserved(const struct shards *shards, const struct fleet_map *map,
			  uint32_t member);

/* Begins to drop what has to be dropped, if nothing is being dropped. False: nothing to do. */
bool shards_drop(struct shards *shards);
/* What was begun is dropped. */
void shards_dropped(struct shards *shards);
/* Whether there is something to drop, or being dropped. */
bool shards_drops(const struct shards *shards);

#endif /* KVD_SERVER_FLEET_SHARDS_H */
