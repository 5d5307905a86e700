/* SPDX-License-Identifier: MIT */
/*
 * What the controller of a fleet does (FLEET-15): it gives the shards of members that are absent,
 * and those without an owner, to members that are present. One member at a time is the controller,
 * and asks this at each look at etcd. A function of its arguments: it calls, logs and remembers
 * nothing.
 *
 *   CONTROLLER-1. No row of a member that is present changes. A row is given closed, and its owner
 *	 opens it. FLEET_GIVEN is set only if no member can have served the shard: in rows that
 *	 are as kvd --fleet-init wrote them. (Rows without an owner after kvd --fleet-adopt may
 *	 have had one in a history that etcd has lost.) A drained member gets a row only if all
 *	 members that are present are drained.
 *   CONTROLLER-2. A plan names what its transaction has to compare: that the key of each member
 *	 that loses a row, or is marked as away, is absent, and that the key of each that gets a
 *	 row is the one that was seen. A create_revision of 0 is no key, so it is never compared
 *	 as one.
 *   CONTROLLER-3. It waits two leases from the first answer of etcd on, and from the first one
 *	 after an outage, which may be that of an earlier controller: members that are well have
 *	 had the time to register. After its election it waits a fifth of a lease: an earlier
 *	 controller may be well, too, and have lost its keys only.
 *   CONTROLLER-4. Losses are members that are absent and have shards, or that lost theirs in the
 *	 last CONTROLLER_LOST_S, also if they are back. While more than a third of all members are
 *	 (one always may be), no row of an absent member changes, and none is marked as away: the
 *	 fault is probably not theirs. All members are those that are present, or a loss. Shards
 *	 without an owner are no loss, nor is a drained member that has left without a shard.
 *   CONTROLLER-5. A plan is bounded, by CONTROLLER_ROWS_MAX and the numbers of members that it
 *	 names: etcd refuses transactions with more than 128 compares. What is left is for the next
 *	 look.
 *   CONTROLLER-6. Members that are absent are marked as away (FLEET_MEMBER_AWAY), so that none
 *	 gives them shards. A balance ends (FLEET_MEMBER_BALANCES of all members) once every shard
 *	 has an owner that is present, and is where the balance wants it.
 */
#ifndef KVD_SERVER_FLEET_CONTROLLER_H
#define KVD_SERVER_FLEET_CONTROLLER_H

#include "common/fleet/map.h"

#define CONTROLLER_ROWS_MAX 2048u
#define CONTROLLER_LOSERS_MAX 40u  /* members that lose rows, or are marked as away */
#define CONTROLLER_TARGETS_MAX 64u /* members that get some */
#define CONTROLLER_COMPARES_MAX (CONTROLLER_LOSERS_MAX + CONTROLLER_TARGETS_MAX)
#define CONTROLLER_LOST_S 600u
#define CONTROLLER_WHY_MAX 128

struct controller_input {
	const struct fleet_map *map;
	/* For each member of the map, by its number: the create_revision of its key; 0: absent. */
	const int64_t *present;
	/* By one clock. */
	uint64_t now_ns;
	uint64_t elected_ns;  /* since when it is the controller */
	uint64_t answered_ns; /* since when etcd has answered without an outage */
	uint64_t lease_ns;
	uint64_t time_s; /* the time of day, since 1970 */
};

/* What the transaction compares, beside the map's mod_revision and the controller's key. */
struct controller_compare {
	uint32_t member;  /* its number */
	int64_t revision; /* the create_revision of its key; 0: absent */
};

struct controller_plan {
	struct fleet_map *map; /* to write, the caller's to free; NULL: nothing changes */
	struct controller_compare compares[CONTROLLER_COMPARES_MAX];
	uint32_t compare_count;
	uint32_t rows; /* that change */
	/* Why what should change does not, without a full stop; "": all that should does. */
	char why[CONTROLLER_WHY_MAX];
};

void controller_plan(const struct controller_input *input, struct controller_plan *plan);

#endif /* KVD_SERVER_FLEET_CONTROLLER_H */
