/* SPDX-License-Identifier: MIT */
/*
 * A worker of a fleet's member: which requests it refuses because another member owns their key
 * (OWNER-1 in server/fleet/fleet.h), and the answer to MAP. A server in no fleet reads one pointer
 * for each request, conn->fleet.
 */
#ifndef KVD_SERVER_WORKER_MEMBER_H
#define KVD_SERVER_WORKER_MEMBER_H

#include "server/worker/deferred.h"

/*
 * OWNER-1: WIRE_OK; WIRE_MOVED: another member has the key of the request, whose hash is @hash; or
 * WIRE_AWAY: no member has, or this one, which must not serve it now. That holds until the worker
 * passes a quiescent state. Only keyed requests have an owner: no SCAN, of a prefix, and no BATCH,
 * but those in it. The server is in a fleet, as conn->fleet says. Counts refusals. By ANSWER-4 the
 * status is WIRE_MOVED, too.
 */
enum wire_status member_admit(const struct conn *conn, const struct request *request,
			      uint64_t hash);
/* Fills in the answer of a request with that status of member_admit(). */
void member_refuse(const struct conn *conn, const struct request *request, enum wire_status status,
		   struct wire_response *head);
/* ANSWER-4: a request has arrived that was not sent before. */
void member_resume(const struct conn *conn, const struct request *request);
/* Whether the member serves the key of @hash now, as member_admit() would say. Counts nothing. */
bool member_serves(const struct conn *conn, uint64_t hash);
/*
 * *@served are the parts of the keys that a SCAN finds. False: the server must serve none now, and
 * the answer is WIRE_AWAY, which is counted.
 */
bool member_admit_scan(const struct conn *conn, const uint64_t **served);

/* MAP */
extern const struct deferred_kind map_kind;

#endif /* KVD_SERVER_WORKER_MEMBER_H */
