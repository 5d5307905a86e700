/* SPDX-License-Identifier: MIT */
/*
 * A worker of a fleet's member: which requests it refuses because another member owns their key
 * (OWNER-1 in server/fleet/fleet.h), or because it does not accept the item of a move (OWNER-7), or
 * while shards are frozen (OWNER-8). A server in no fleet reads one pointer for each request,
 * conn->client.fleet.
 */
#ifndef KVD_SERVER_WORKER_MEMBER_H
#define KVD_SERVER_WORKER_MEMBER_H

#include "server/worker/conn.h"

/*
 * OWNER-1: WIRE_OK; WIRE_MOVED: another member has the key of the request, whose hash is @hash; or
 * WIRE_AWAY: no member has, or this one, which must not serve it now. That holds until the worker
 * passes a quiescent state. Only keyed requests have an owner: no SCAN, of a prefix, and no BATCH,
 * but those in it. The server is in a fleet, as client.fleet says. Counts refusals. The status is
 * WIRE_MOVED by ANSWER-4, too, and for keys of frozen shards. OWNER-7: a PUT in mode COPY has no
 * owner, and is WIRE_AWAY unless the shard is of the move that the connection has begun.
 */
enum wire_status member_admit(const struct conn *conn, const struct request *request,
			      uint64_t hash);
/* OWNER-1 alone, for any client and the hash of a key. */
enum wire_status member_admit_key(const struct client *client, uint64_t hash);
/*
 * As member_admit_key(), for a client for whom other members are asked: WIRE_MOVED is no refusal,
 * and not counted.
 */
enum wire_status member_find_key(const struct client *client, uint64_t hash);
/* Fills in the answer of a request with that status of member_admit(). */
void member_refuse(const struct conn *conn, const struct request *request, enum wire_status status,
		   struct wire_response *head);
/* ANSWER-4: a request has arrived that was not sent before. */
void member_resume(const struct conn *conn, const struct request *request);
/* Whether member_admit() would say WIRE_OK to a PUT without a number. Counts nothing. */
bool member_serves(const struct conn *conn, const struct request *request, uint64_t hash);
/* OWNER-8: no flush is begun or confirmed, and no scan answered. That holds as member_admit(). */
bool member_freezes(const struct client *client);
/*
 * *@served are the parts of the keys that a SCAN finds. False: the server must serve none now, and
 * the answer is WIRE_AWAY, which is counted.
 */
bool member_admit_scan(const struct client *client, const uint64_t **served);

/* The shards that the connection's move brings; NULL: it has begun none, or that is over. */
const struct fleet_accept *member_accept(const struct conn *conn);

#endif /* KVD_SERVER_WORKER_MEMBER_H */
