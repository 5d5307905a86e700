/* SPDX-License-Identifier: MIT */
/*
 * The thread that asks other members of the fleet for workers, by libkvd, so that a client of
 * memcached's protocol may ask any member for any key.
 *
 *	worker		makes a struct forward, and sends it
 *	this thread	submits its operation, with many others, and sends its note back when that
 *			has ended
 *	worker		answers its client, and frees it
 *
 *   FORWARDER-1. A worker never waits: it takes a lock for some instructions.
 *   FORWARDER-2. The owner never sends on what comes by kvd's own protocol, so nothing is forwarded
 *	 twice. An operation has an end (end_ns), however often it meets another map until then.
 *   FORWARDER-3. Of the operations for one member FORWARDER_LANE_MAX fly at a time; the rest waits
 *	 for these, in order. So a member that does not answer holds up its own keys alone.
 *   FORWARDER-4. A server is a client of other members under its own name, as when it moves shards
 *	 (server/fleet/mover.h), in the tenant of its own client.
 */
#ifndef KVD_SERVER_MEMCACHED_FORWARDER_H
#define KVD_SERVER_MEMCACHED_FORWARDER_H

#include <sys/queue.h>

#include "client/kvd.h"
#include "server/memcached/fleet_handle.h"
#include "server/worker/mailbox.h"

/* Members share lanes if the fleet has more of them. */
#define FORWARDER_LANES 64u
#define FORWARDER_LANE_MAX 128u

struct forwarder;
struct forward_route;

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

/* NULL: no memory, or no descriptor, after logging. */
struct forwarder *forwarder_make(const struct fleet_identity *identity);
/* Workers may send before it is started. 0, or a negative errno after logging. */
int forwarder_start(struct forwarder *forwarder);
/*
 * Ends the threads. Each forward has been sent back then, and what is sent from now on comes back
 * at once, with KVD_ERR_CANCELED. May take as long as a call of a flush. NULL, or not started: fine.
 */
void forwarder_stop(struct forwarder *forwarder);
/* Of one that is stopped, or NULL. */
void forwarder_free(struct forwarder *forwarder);

/* Any thread. Its note comes to its mailbox. */
void forwarder_send(struct forwarder *forwarder, struct forward *forward);

#endif /* KVD_SERVER_MEMCACHED_FORWARDER_H */
