/* SPDX-License-Identifier: MIT */
/* The state of a fleet: what its map has, what each member says of itself, and what is wrong. */
#ifndef KVD_CLIENT_KVCTL_FLEET_STATE_H
#define KVD_CLIENT_KVCTL_FLEET_STATE_H

#include "client/kvctl/members.h"

#define FLEET_NAME_BYTES 32
#define FLEET_PROBLEM_BYTES 320

/* What a member says. */
struct one {
	struct member *member;
	bool answers; /* else member->why has the cause */
	uint64_t epoch, lease_ms, served, items, memory;
	bool has_lease; /* of etcd; false: the map is a file's */
	bool controls;
	char waits[160];
	/* Moves from it to others: shards that should be elsewhere; shards; moves. */
	uint64_t moves_left, moved, moves_failed;
	char move_to[FLEET_NAME_BYTES], move_state[FLEET_NAME_BYTES]; /* "": none is under way */
	char move_why[160]; /* why the last one failed; "": it did not */
	char version[FLEET_NAME_BYTES];
};

struct fleet_state {
	struct kvd *db;
	struct members members;
	struct one *ones; /* members.info.members */
	uint64_t served;
	const struct one *controller; /* NULL: none is known */
	bool leases;		      /* members have leases of etcd */
};

/*
 * Reads what the map of @db has, which was opened by @url, into @fleet, which is zeroed. Returns an
 * exit status, after printing why it is not EX_OK. The caller releases @fleet, then too.
 */
int fleet_state_read(struct fleet_state *fleet, struct kvd *db, const char *url);
void fleet_state_release(struct fleet_state *fleet);
/* Asks each member. */
void fleet_state_ask(struct fleet_state *fleet, const struct arguments *arguments);

/* "up", "drained", "no lease" or "away". */
const char *fleet_state_text(const struct one *one);
/* How many shards their owners do not serve. */
uint64_t fleet_state_not_served(const struct fleet_state *fleet);
/*
 * Writes the next thing that is wrong, from *@at on, which it moves; it is 0 at first. False: there
 * is no more.
 */
bool fleet_state_problem(const struct fleet_state *fleet, uint32_t *at,
			 char text[FLEET_PROBLEM_BYTES]);

#endif /* KVD_CLIENT_KVCTL_FLEET_STATE_H */
