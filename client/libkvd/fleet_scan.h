/* SPDX-License-Identifier: MIT */
/*
 * Scans of a fleet: what a handle remembers of those that are under way, so that a key that is
 * there from the first call to the last is delivered although its shard moves (FLEET-14).
 *
 * One member after another is scanned. Its map has an epoch before that, and one after it: of the
 * shards that a map of the latter epoch, or a later one, gives to the member, those with `since` up
 * to the former were the member's all the time, so all of their keys were delivered. Members with
 * other shards are scanned again, until there are none; of shards whose keys were delivered no more
 * is delivered.
 *
 * A cursor has, from the high bits on: the member's own cursor, which loses its low bits; the
 * number of the scan; and the number of the member. For a cursor of another handle, or of a scan
 * that was forgotten since SCANS_MAX others have begun, nothing is known to have been delivered.
 */
#ifndef KVD_CLIENT_LIBKVD_FLEET_SCAN_H
#define KVD_CLIENT_LIBKVD_FLEET_SCAN_H

#include "client/libkvd/fleet_links.h"

#define CURSOR_MEMBER_BITS 12u
#define CURSOR_SCAN_BITS 16u
/* Of a cursor: what is the member's own. */
#define CURSOR_OWN (UINT64_MAX << (CURSOR_MEMBER_BITS + CURSOR_SCAN_BITS))
static_assert(FLEET_MEMBERS_MAX <= 1u << CURSOR_MEMBER_BITS, "each member has a number");

struct fleet_scan {
	uint32_t number; /* never 0 */
	uint64_t hash_seed;
	bool scanning;		     /* a member, */
	char member[FLEET_NAME_MAX]; /* this one, */
	uint64_t epoch;		     /* whose map had this epoch when its scan began; 0: unknown */
	uint64_t found[FLEET_SHARDS / 64]; /* shards of which all keys were delivered */
};

/* The scan of the cursor; a new one, if it is 0 or not known. NULL: no memory. */
struct fleet_scan *scan_find(struct kvd *home, uint64_t cursor);
void scan_forget(struct kvd *home, struct fleet_scan *scan);

/* Where a new scan begins; 0: no member has a shard. */
uint64_t scan_first(const struct kvd *home, const struct fleet_scan *scan);
/* Before a member's first request of a scan; nothing if it goes on with that member. */
enum kvd_status scan_member_begin(struct kvd *home, struct fleet_scan *scan, uint64_t cursor);
/*
 * After the member's last one. *@cursor gets where the scan goes on, or 0. Waits for the map that
 * the member has, and may close its handle.
 */
enum kvd_status scan_member_end(struct kvd *home, struct fleet_scan *scan, uint64_t *cursor);

/* Whether the key was delivered already: its shard was. */
bool scan_has(const struct fleet_scan *scan, const void *key, size_t key_len);

static inline uint32_t cursor_member(uint64_t cursor)
{
	return (uint32_t)cursor & ((1u << CURSOR_MEMBER_BITS) - 1);
}

static inline uint64_t cursor_make(const struct fleet_scan *scan, uint64_t own, uint32_t member)
{
	return (own & CURSOR_OWN) | (uint64_t)scan->number << CURSOR_MEMBER_BITS | member;
}

#endif /* KVD_CLIENT_LIBKVD_FLEET_SCAN_H */
