/* SPDX-License-Identifier: MIT */
/*
 * The handle of a fleet: finds the member of each key by the fleet's map, and runs the operations
 * at the members' handles (client/libkvd/member.h).
 *
 * Order. The changes of a key take effect in the order of submission, as on one server. They go to
 * one member, until another map says otherwise. A shard is held when a request of it is refused, or
 * when a new map gives it to another member: what is submitted for it waits until the changes of it
 * that were sent are answered, and a round for the map has ended (client/libkvd/fleet_refresh.h).
 * Then what was refused is sent again, in order, and after it what has waited. A GET that was
 * submitted after a change of its key follows it: if the change is refused, the GET waits with it.
 * Between the keys of different shards there is no order.
 *
 * Exactly once. Each member's handle numbers its changes itself. A change that was sent to one
 * member goes to another one only after the first has refused it, which it records under the
 * change's number.
 */
#ifndef KVD_CLIENT_LIBKVD_FLEET_H
#define KVD_CLIENT_LIBKVD_FLEET_H

#include "client/libkvd/handle.h"

/* States of shards in the map, and of members for the handle (kvd_fleet_member.connection). */
#define FLEET_SHARD_STATES(X) X(open) X(closed) X(unowned)
#define FLEET_MEMBER_STATES(X) X(up) X(waiting) X(connecting) X(away) X(closed) X(unused)

/* How much of a fleet is in which state, by what its handle knows. */
struct fleet_states {
	uint64_t epoch;
	struct {
#define X(state) uint32_t state;
		FLEET_SHARD_STATES(X)
#undef X
	} shards;
	struct {
#define X(state) uint32_t state;
		FLEET_MEMBER_STATES(X)
#undef X
	} members;
};

void fleet_states_count(const struct kvd *handle, struct fleet_states *states);

/* Whether @url is a fleet's: "fleet://", "fleet+tcp://", "fleet+tls://" or "fleet+softnic://". */
bool fleet_is_url(const char *url);

/*
 * Makes @handle, which has its options, the fleet's at @url: connects to one of the members that it
 * names and gets the map. Blocks until @end_ns of clock_ns() at most, and to find addresses.
 */
enum kvd_status fleet_connect(struct kvd *handle, const char *url, uint64_t end_ns);

/* KVD_ERR_INVALID, with a text: the handle is not a fleet's. */
enum kvd_status fleet_check(struct kvd *handle);

/* Closes the members' handles, and frees the fleet. @handle may be half open. */
void fleet_release(struct kvd *handle);

/*
 * Waits until all operations that were submitted before fly at members: what a call about whole
 * members then sends them follows these.
 */
enum kvd_status fleet_settle(struct kvd *handle);
/*
 * Waits for a newer map, until @until_ns of clock_ns() at most. Returns whether a round for it has
 * ended, with one or without.
 */
bool fleet_map_wait(struct kvd *handle, uint64_t until_ns);
/* The map's epoch. */
uint64_t fleet_epoch(const struct kvd *handle);
/* Asks the member for the epoch of its map. A failure's text is that of the fleet's handle. */
enum kvd_status member_epoch(struct kvd *member, uint64_t *epoch);
/* How many members the map has. */
uint32_t fleet_members(const struct kvd *handle);
/*
 * The handle of member @number, connected or connecting. NULL: its device can't be opened now;
 * kvd_error() of @handle says why.
 */
struct kvd *fleet_member(struct kvd *handle, uint32_t number);
/*
 * Makes the call for each member, until one fails; @all: for the others, too. Returns the status
 * of the first that failed, and @home has its text.
 */
enum kvd_status fleet_each(struct kvd *home, enum kvd_status (*call)(struct kvd *member), bool all);

#endif /* KVD_CLIENT_LIBKVD_FLEET_H */
