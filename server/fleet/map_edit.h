/* SPDX-License-Identifier: MIT */
/*
 * Makes the next map of a fleet from the last one. A map does not change, so whoever changes a row
 * or a member edits a copy:
 *
 *	struct map_edit *edit = map_edit_create(old);
 *	number = map_edit_member(edit, &me);
 *	map_edit_row(edit, shard, number, 0);
 *	error = map_edit_finish(edit, &map);
 *
 * Each new map has an epoch above the old one's, which is the `since` of the rows that were set. An
 * edit remembers the first error, and map_edit_finish() returns it: none between need be checked.
 * All of this is a function of its arguments, and of no other state.
 */
#ifndef KVD_SERVER_FLEET_MAP_EDIT_H
#define KVD_SERVER_FLEET_MAP_EDIT_H

#include "common/fleet/map.h"

/* The epoch of a new fleet's map, and so `since` in the rows of shards that never had an owner. */
#define MAP_EDIT_EPOCH_FIRST 1u

struct map_edit;

/* What a member's entry in a map has. */
struct map_member {
	char id[FLEET_NAME_MAX]; /* as wire_tenant_length() has it */
	uint64_t lost_s;	 /* when its shards were given to others, since 1970; 0: never */
	uint32_t session;
	uint32_t weight;
	uint32_t flags;	  /* FLEET_MEMBER_... */
	const char *urls; /* a string, with commas between URLs: 1 to FLEET_URLS_MAX bytes */
};

/*
 * Begins with a copy of @old, which has to stay until the edit is finished, and @old's epoch + 1.
 * NULL: no memory, which the other functions take for an edit that has failed.
 */
struct map_edit *map_edit_create(const struct fleet_map *old);
/*
 * Begins the map of a new fleet: the first epoch, no member, and no shard has an owner. @generation
 * and @seed are not 0; @lease_ns, W, never changes.
 */
struct map_edit *map_edit_create_first(const char name[FLEET_NAME_MAX], uint64_t generation,
				       uint64_t seed, uint64_t lease_ns);
/* Gives up an edit. May be NULL. */
void map_edit_destroy(struct map_edit *edit);

/*
 * Begins another history (kvd --fleet-adopt): the map has this @generation, which is not 0; the
 * epoch grows by @more in all, which is at least 1; every row is closed, and no owner can prove it.
 * Call it before rows are set.
 */
void map_edit_adopt(struct map_edit *edit, uint64_t generation, uint64_t more);

/* The epoch of the new map: the `since` of rows that are set. 0: the edit has failed. */
uint64_t map_edit_epoch(const struct map_edit *edit);

/*
 * Adds @member, or replaces the one with its ID, whose number stays. All of @member counts, lost_s
 * too. Returns the number; FLEET_NO_OWNER: the edit has failed.
 */
uint32_t map_edit_member(struct map_edit *edit, const struct map_member *member);
/* Notes when the shards of member @number were given to others. */
void map_edit_lost(struct map_edit *edit, uint32_t number, uint64_t lost_s);
/* Sets the flags of member @number, FLEET_MEMBER_... */
void map_edit_flags(struct map_edit *edit, uint32_t number, uint32_t flags);

/*
 * Sets the row of @shard: @owner is the number of a member, or FLEET_NO_OWNER, and @flags are
 * FLEET_OPEN and FLEET_GIVEN, or 0. `since` becomes the new epoch.
 */
void map_edit_row(struct map_edit *edit, uint32_t shard, uint32_t owner, uint64_t flags);

/*
 * Makes the new map, checked as one from elsewhere is, and frees the edit. Returns NULL, and *@map
 * is the caller's, to be freed by fleet_map_free(); or a static string that says what is wrong, as
 * fleet_map_make() does, and *@map is NULL.
 */
const char *map_edit_finish(struct map_edit *edit, struct fleet_map **map);

#endif /* KVD_SERVER_FLEET_MAP_EDIT_H */
