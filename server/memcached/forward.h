/* SPDX-License-Identifier: MIT */
/*
 * What a session has asked other members of the fleet for. Each of its commands may ask several
 * times, one after another: its stages. All functions are the worker's.
 *
 *   FORWARD-1. A session answers in the order of its commands, whatever comes back first. Only
 *	 reads are asked for ahead of their turn: no change overtakes another command.
 *   FORWARD-2. A session has FORWARD_SESSION_MAX requests under way at most, a worker
 *	 FORWARD_WORKER_MAX, and FORWARD_LANE_MAX of them for one member. A session that finds no
 *	 room waits until some comes back, of which each has an end. So a member that does not
 *	 answer delays only sessions that ask for its keys.
 *   FORWARD-3. With a request goes a value of SESSION_BLOCK_MAX at most, and one of
 *	 FORWARD_VALUE_MAX comes back. A longer one that comes back is within memcached.output
 *	 (SESSION-4), one that is stored within memory.pull_share (LARGE-PUT-1).
 *   FORWARD-4. A session that ends stays until all that it has asked for has come back.
 */
#ifndef KVD_SERVER_MEMCACHED_FORWARD_H
#define KVD_SERVER_MEMCACHED_FORWARD_H

#include "server/memcached/forwarder.h"
#include "server/memcached/session.h"

#define FORWARD_SESSION_MAX 64u
#define FORWARD_WORKER_MAX 2048u
#define FORWARD_LANE_MAX 128u
/* The longest value that comes back without being asked for again. */
#define FORWARD_VALUE_MAX (8u << 10)

/* What is asked for. */
struct forward_ask {
	uint64_t command; /* of the session, by its number */
	unsigned int stage;
	const struct request *request;
	uint64_t hash;
	bool no_value; /* the request reads, and wants no value */
	bool in_place; /* request->value stays where it is until it has come back */
};

/* What the session's command has asked for in the stage; NULL: nothing. */
struct forward *forward_of(const struct session *session, uint64_t command, unsigned int stage);
/*
 * Whether the session may ask for a key with that hash now. Otherwise, if it @waits, it is woken
 * when it may.
 */
bool forward_room(struct session *session, uint64_t hash, bool waits);
/* The session does not wait for room any more. */
void forward_wait_end(struct session *session);
/* Asks. False: no memory. There is room. */
bool forward_ask(struct session *session, const struct forward_ask *ask);
/* Asks for a flush of all members. */
bool forward_flush(struct session *session, uint32_t delay_s);
/*
 * Asks again for an item that has come back without its value, which goes to forward->large, with
 * @beside bytes more, @gap of them before it. False: no memory; or, with *@waits, the session waits
 * for its part of memcached.output (SESSION-4).
 */
bool forward_again(struct session *session, struct forward *forward, size_t beside, size_t gap,
		   bool *waits);
/* Hands forward->large over, which is not counted for memcached.output any more. */
uint8_t *forward_large_take(struct session *session, struct forward *forward);

/* What has come back says of the request. WIRE_AWAY: forward_error() has a line. */
void forward_result(const struct forward *forward, struct wire_response *head);
/* The line that says why the current command has failed at another member; NULL: it has not. */
const char *forward_error(const struct session *session);

/* Takes what has come back. Returns its session. */
struct session *forward_returned(struct note *note);
/* The command is over: frees what it has asked for. */
void forwards_end(struct session *session);
/* Commands after this one may be dropped: what was asked for ahead is not for those that come. */
void forwards_drop(struct session *session);
/* The session is over: frees all. */
void forwards_free(struct session *session);

/* Whether members of its fleet can be asked for the session. */
static inline struct forwarder *forwarder_of(const struct session *session)
{
	return session->client.fleet ? session->client.worker->env->forwarder : NULL;
}

#endif /* KVD_SERVER_MEMCACHED_FORWARD_H */
