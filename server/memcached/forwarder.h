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

#include "server/memcached/forwarded.h"

struct forwarder;

/* NULL: no memory, or no descriptor, after logging. */
struct forwarder *forwarder_make(const struct fleet_identity *identity);
/* Workers may send before it is started. 0, or a negative errno after logging. */
int forwarder_start(struct forwarder *forwarder);
/*
 * Ends the threads. Each forward has been sent back then, and what is sent from now on comes back
 * at once, with KVD_ERR_CANCELED. May take as long as a call of a flush. NULL, or one that was not
 * started: fine.
 */
void forwarder_stop(struct forwarder *forwarder);
/* Of one that is stopped, or NULL. */
void forwarder_free(struct forwarder *forwarder);

/* Any thread. Its note comes to its mailbox. */
void forwarder_send(struct forwarder *forwarder, struct forward *forward);

#endif /* KVD_SERVER_MEMCACHED_FORWARDER_H */
