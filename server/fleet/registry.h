/* SPDX-License-Identifier: MIT */
/*
 * What a fleet keeps in etcd, and how it is asked for: a call is described first (membership.h and
 * controller.h do that), then executed. Of the fleet NAME:
 *
 *	/kvd/NAME/map		the map (common/fleet/map.h), compressed (map_gzip.h)
 *	/kvd/NAME/members/ID	the incarnation of the kvd that is registered as ID, as decimal
 *				text; ends with that member's lease
 *	/kvd/NAME/controller	the ID of the member that is the controller; ends with its lease
 *
 * Each transaction that puts a map compares the map's revision (FLEET-1): so of several that
 * compare the same revision at most one is executed.
 */
#ifndef KVD_SERVER_FLEET_REGISTRY_H
#define KVD_SERVER_FLEET_REGISTRY_H

#include "common/fleet/map.h"
#include "server/fleet/etcd.h"

enum registry_kind {
	REGISTRY_GRANT,
	REGISTRY_KEEPALIVE,
	REGISTRY_REVOKE,
	REGISTRY_TXN,
};

/* MAP: the last change of the map; the others: the change that created the key. 0: no such key. */
struct registry_compare {
	enum registry_key { REGISTRY_MAP, REGISTRY_MEMBER, REGISTRY_CONTROLLER } key;
	char id[FLEET_NAME_MAX]; /* MEMBER */
	int64_t revision;
};

/* The call's own puts need 3 operations, and reads 4. */
#define REGISTRY_COMPARES_MAX ETCD_OPS_MAX

/* What a branch of a transaction reads, after what it puts. */
#define REGISTRY_READ_MAP 1u
#define REGISTRY_READ_OWN 2u	    /* the key of the member call->id */
#define REGISTRY_READ_MEMBERS 4u    /* the keys of all members */
#define REGISTRY_READ_CONTROLLER 8u /* the controller's */

struct registry_call {
	enum registry_kind kind;
	int64_t ttl_s;		 /* GRANT */
	int64_t lease;		 /* KEEPALIVE, REVOKE, and of the keys that TXN puts */
	char id[FLEET_NAME_MAX]; /* TXN: the member's own ID, */
	uint64_t incarnation;	 /* and its process */

	/* TXN: if all compares are true: the puts and reads[true]; else reads[false]. */
	const struct registry_compare *compares;
	unsigned int compare_count;
	const struct fleet_map *put_map; /* NULL: none */
	bool put_member, put_controller; /* the keys of the member itself */
	unsigned int reads[2];		 /* REGISTRY_READ_... */
};

struct registry_member {
	char id[FLEET_NAME_MAX];
	int64_t create_revision; /* of its key; never 0 */
};

struct registry_result {
	enum etcd_outcome outcome; /* GRANT, KEEPALIVE, REVOKE: SUCCEEDED or NOT_EXECUTED */
	int err;		   /* of etcd.h, if nothing was answered */
	int64_t lease, ttl_s;	   /* GRANT, KEEPALIVE */

	/* TXN. The rest is there if it was answered. */
	uint64_t cluster_id;
	int64_t revision;   /* of etcd's last change */
	unsigned int reads; /* what was read */
	struct fleet_map *map;
	int64_t map_revision;		 /* of its last change; 0: there is no map */
	const char *map_error;		 /* there is one, and map is NULL: why it can't be used */
	int64_t own_create_revision;	 /* 0: there is no such key */
	uint64_t own_incarnation;	 /* 0: its value is none */
	struct registry_member *members; /* in order of their IDs */
	uint32_t member_count;
	char controller[FLEET_NAME_MAX];
	int64_t controller_create_revision; /* 0: there is none */
};

struct registry {
	struct etcd *etcd;
	char name[FLEET_NAME_MAX + 1]; /* of the fleet */
	unsigned int timeout_ms;       /* of a call */
};

/* Executes @call, once at most; the caller releases @result. Why it failed: etcd_why(). */
void registry_execute(struct registry *registry, const struct registry_call *call,
		      struct registry_result *result);
/* Of one that may be zeroed. */
void registry_result_release(struct registry_result *result);

#endif /* KVD_SERVER_FLEET_REGISTRY_H */
