/* SPDX-License-Identifier: MIT */
/*
 * What a fleet's handle knows: the map, and a link for each member, which has the member's handle
 * once that is used.
 */
#ifndef KVD_CLIENT_LIBKVD_FLEET_LINKS_H
#define KVD_CLIENT_LIBKVD_FLEET_LINKS_H

#include "client/libkvd/handle.h"

/* An offset after the end of every map: the answer to MAP has the epoch alone. */
#define EPOCH_ONLY UINT64_MAX
/* The bucket caches of all members together have the handle's size, but each has this at least. */
#define LINK_CACHE_MIN (256u << 10)

struct fleet_link {
	struct list entry;  /* in fleet->active, if `active` */
	struct kvd *handle; /* the member's; NULL: it was not used, or its device can't be opened */
	bool active;	    /* something flies there, or may arrive */
	/* While its device can't be opened: */
	unsigned int failures;
	uint64_t retry_ns; /* clock_ns() of the next try */
	enum kvd_status status;
	char why[WHY_BYTES];
	uint32_t number; /* in the map */
	char id[FLEET_NAME_MAX];
};

enum refresh_state {
	REFRESH_IDLE,
	REFRESH_FETCH, /* a member is asked for its map */
	REFRESH_PAUSE, /* no newer map was found; until refresh.next_ns */
	REFRESH_DRAIN, /* until all changes of shards that are held are answered */
};

/* On the way to the next map: client/libkvd/fleet_refresh.h. */
struct refresh {
	enum refresh_state state;
	bool wanted;
	uint64_t rounds;	/* that have ended, each with or without a newer map */
	unsigned int failures;	/* rounds without one, in a row: they set the pause */
	unsigned int refusals;	/* and those in which members refused requests */
	uint64_t next_ns;	/* the end of the pause, or the deadline of the fetch */
	struct kvd *asked;	/* REFRESH_FETCH: the member's handle */
	struct flight flight;	/* of the fetch */
	uint8_t *bytes;		/* the map as far as it has come */
	size_t size, used;	/* 0: the size is not known yet */
	uint64_t epoch;		/* of that map */
	struct fleet_map *map;	/* REFRESH_DRAIN: the new one; NULL: there is none */
	enum kvd_status status; /* of the last fetch; text in the fleet's handle */
};

/* Scans at a time of one handle (client/libkvd/fleet_scan.h); 2 KiB each. */
#define SCANS_MAX 8u
struct fleet_scan;

struct fleet {
	enum device_kind kind; /* how members are reached */
	char name[FLEET_NAME_MAX];
	struct fleet_map *map;	   /* has a member; NULL: none is known yet */
	struct fleet_link **links; /* one for each member of the map; then NULL, for nobody */
	struct list active;	   /* links */
	/* Flights of submitted operations that wait for a map, in order. */
	struct list refused; /* a member refused them */
	struct list waiting; /* their shards are held: client/libkvd/fleet.h */
	bool holds;	     /* some shard is held */
	bool busy;	     /* `holds` or refresh.wanted: operations do not begin at once */
	uint64_t held[FLEET_SHARDS / 64];
	/* Shards that a member refused by this map, but not since it had refused another change. */
	uint64_t frozen[FLEET_SHARDS / 64];
	struct refresh refresh;
	struct fleet_scan *scans[SCANS_MAX]; /* each at its number modulo SCANS_MAX */
	uint32_t scan_number;		     /* of the last one; 0: there was none */
	struct kvd_stats closed;	     /* of members' handles that were closed */
	uint16_t shards[FLEET_SHARDS];	     /* client/libkvd/member.h */
};

/*
 * Makes a member's handle for @url, which is connecting, for the first time; @opening: by one try
 * only. NULL: the device can't be opened, and kvd_error() of @home says why; *@status has the
 * status.
 */
struct kvd *member_make(struct kvd *home, const char *url, bool opening, enum kvd_status *status);

static inline bool fleet_holds(const struct fleet *fleet, uint64_t hash)
{
	uint32_t shard = fleet_shard(hash);

	return fleet->holds && fleet->held[shard / 64] >> shard % 64 & 1;
}

static inline void fleet_hold(struct fleet *fleet, uint32_t shard)
{
	fleet->holds = fleet->busy = true;
	fleet->held[shard / 64] |= 1ull << shard % 64;
}

/* Gives the fleet's handle the text of what failed at a member. Returns @status. */
enum kvd_status member_failed(const struct kvd *member, enum kvd_status status);

/* The link of the shard's owner; NULL: it has none. */
static inline struct fleet_link *fleet_owner(const struct fleet *fleet, uint64_t hash)
{
	return fleet->links[fleet->shards[fleet_shard(hash)] & SHARD_OWNER];
}

/*
 * The member's handle at which a synchronous operation can fly at once; NULL: something comes
 * first. The flight must be begun there, and then be given to fleet_ops->call().
 */
static inline struct kvd *fleet_ready(struct kvd *home, struct flight *f)
{
	struct fleet_link *link = fleet_owner(home->fleet, f->lookup.hash);
	struct kvd *member = link ? link->handle : NULL;

	if (!member || !member->up || home->fleet->busy)
		return NULL;
	home->calls = f;
	home->call_count = 1;
	f->at = member;
	member->member.flights++;
	return member;
}

/* The handle of the link's member, or NULL, and the link has status and reason. */
struct kvd *link_handle(struct kvd *home, struct fleet_link *link);
/* Has fleet_progress() look at it. */
void link_activate(struct fleet *fleet, struct fleet_link *link);
/* Whether the member's connection is lost, or a try to connect has failed. */
bool link_is_away(const struct fleet_link *link);

/*
 * Replaces the map by @map, which is the fleet's then. Members that do not leave keep their
 * handles. @seed, unless NULL, is a handle without a link. KVD_ERR_NO_MEMORY: @map was freed.
 */
enum kvd_status fleet_adopt(struct kvd *home, struct fleet_map *map, struct kvd *seed);
/* Whether member @number of @map leaves by @next: it is no member, or is reached by other URLs. */
bool member_leaves(const struct fleet_map *map, uint32_t number, const struct fleet_map *next);
/* Adds counters to counters. */
void stats_sum(struct kvd_stats *to, const struct kvd_stats *from);
/* Sets by its word and the map which READs of the member count (MEMBER-1). */
void member_judge(struct fleet *fleet, struct kvd *handle);
/* Whether the word is of an epoch that the map has, so that READs may count. */
bool word_fits(const struct fleet *fleet, const struct fleet_word *word);

#endif /* KVD_CLIENT_LIBKVD_FLEET_LINKS_H */
