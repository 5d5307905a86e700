/* SPDX-License-Identifier: MIT */
/*
 * A worker of a fleet's member: what other members ask of it to move shards here, MOVE, and what
 * administrators ask of the fleet, FLEET. The fleet's thread does what takes longer: a worker tells
 * it what is wanted, and answers BUSY until a view says that it is so (server/fleet/fleet.h).
 */
#ifndef KVD_SERVER_WORKER_MOVE_H
#define KVD_SERVER_WORKER_MOVE_H

#include "server/worker/deferred.h"

/* Whether it is for administrators of a fleet alone: MOVE, FLEET, and PUT in mode COPY. */
static inline bool request_is_move(const struct request *request)
{
	return (unsigned int)request->op - WIRE_MOVE <= WIRE_FLEET - WIRE_MOVE ||
	       request->mode == WIRE_COPY;
}
static_assert(WIRE_FLEET == WIRE_MOVE + 1, "no other operation is between them");

/*
 * WIRE_OK, or the answer to such a request, which is refused then. NOT_FOUND: the server is in no
 * fleet; INVALID: the map of its fleet does not change. A server without users lets any client make
 * it, as it lets any client flush.
 */
enum wire_status move_admit(const struct conn *conn);

extern const struct deferred_kind move_kind;
extern const struct deferred_kind fleet_kind;

#endif /* KVD_SERVER_WORKER_MOVE_H */
