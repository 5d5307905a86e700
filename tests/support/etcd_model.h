/* SPDX-License-Identifier: MIT */
/*
 * A model of the etcd of a fleet, which executes the calls of members (server/fleet/registry.h):
 * its keys with their revisions, and leases that end when the test says so.
 */
#ifndef KVD_TESTS_SUPPORT_ETCD_MODEL_H
#define KVD_TESTS_SUPPORT_ETCD_MODEL_H

#include "server/fleet/registry.h"

struct etcd_model_key {
	char id[FLEET_NAME_MAX]; /* of the member; of the controller key: its value */
	int64_t create_revision; /* 0: there is no such key */
	int64_t lease;
	uint64_t incarnation;
};

struct etcd_model {
	uint64_t cluster_id;
	int64_t revision;
	struct fleet_map *map; /* NULL: there is none */
	int64_t map_revision;
	struct etcd_model_key *members; /* in the order in which they were asked for first */
	uint32_t member_count, members_max;
	uint32_t *slots; /* 2 * members_max: 1 + the index of a member, by a hash of its ID; or 0 */
	struct etcd_model_key controller;
	int64_t leases; /* that were granted */
	int64_t leases_max;
	bool *lives;
};

/* A fleet without members, as kvd --fleet-init makes it. */
void etcd_model_init(struct etcd_model *etcd, uint64_t generation);
void etcd_model_release(struct etcd_model *etcd);
/* A backup, or what it restores. */
void etcd_model_copy(struct etcd_model *to, const struct etcd_model *from);
/* kvd --fleet-adopt */
void etcd_model_adopt(struct etcd_model *etcd, uint64_t generation);

/* Executes @call now. */
void etcd_model_execute(struct etcd_model *etcd, const struct registry_call *call,
			struct registry_result *result);
/* Ends a lease, and its keys. */
void etcd_model_end(struct etcd_model *etcd, int64_t lease);
/* Puts a map, without any compare. */
void etcd_model_put(struct etcd_model *etcd, struct fleet_map *map);

struct fleet_map *etcd_model_map_copy(const struct fleet_map *map);
/* A copy of a call, with all that it points to, and its release. */
struct registry_call *etcd_model_call_copy(const struct registry_call *call);
void etcd_model_call_free(struct registry_call *call);

#endif /* KVD_TESTS_SUPPORT_ETCD_MODEL_H */
