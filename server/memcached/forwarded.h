/* SPDX-License-Identifier: MIT */
/* A request that a worker has sent to another member of the fleet, on its way there and back. */
#ifndef KVD_SERVER_MEMCACHED_FORWARDED_H
#define KVD_SERVER_MEMCACHED_FORWARDED_H

#include <sys/queue.h>

#include "client/kvd.h"
#include "server/memcached/fleet_handle.h"
#include "server/worker/mailbox.h"

/* Members share lanes if the fleet has more of them. */
#define FORWARDER_LANES 64u
#define FORWARDER_LANE_MAX 128u

struct forward_route;
struct session;

struct forward {
	/* Set by the worker. */
	struct mailbox *back; /* where the note goes */
	struct note note;     /* NOTE_FORWARDED */
	enum forward_kind {
		FORWARD_OP, /* `op`, whose memory belongs to the forwarder until then */
		/* Of all members, after op.ttl_s seconds, by calls of op.timeout_ms. */
		FORWARD_FLUSH,
	} kind;
	struct kvd_op op;
	uint64_t end_ns; /* by clock_ns(): when it has ended at the latest */
	uint32_t lane;	 /* of the member, 0 to FORWARDER_LANES - 1 */
	char tenant[WIRE_TENANT_MAX + 1];

	/* The result, beside the op's: why it failed; "": the status says it. */
	char why[FLEET_HANDLE_WHY_MAX];

	/* The forwarder's. */
	TAILQ_ENTRY(forward) entry;
	struct forward_route *route;

	/* The worker's: server/memcached/forward.h. */
	struct session *session;
	LIST_ENTRY(forward) of_session;
	uint64_t command;
	unsigned int stage;
	bool done;
	char member[FLEET_NAME_MAX + 1];
	char error[FLEET_HANDLE_WHY_MAX + FLEET_NAME_MAX + 80];
	uint8_t *large; /* of malloc(), a long value with what goes out beside it; NULL: none */
	size_t large_bytes;
	uint8_t bytes[]; /* the key, then room for a value */
};

TAILQ_HEAD(forward_list, forward);

#endif /* KVD_SERVER_MEMCACHED_FORWARDED_H */
