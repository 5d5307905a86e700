/* SPDX-License-Identifier: MIT */
/*
 * The identities of clients, and the answers kept for each. All functions are for the control
 * thread.
 *
 *   IDENTITY-1. An identity has one connection at most, its owner, from the answer to its HELLO
 *	 until its NOTE_QUIESCED: from then on no request of that connection is executed. Meanwhile
 *	 that connection's worker owns the answers; the notes order the two threads.
 *   IDENTITY-2. A HELLO of another connection waits for that as the identity's heir; the connection
 *	 that it replaces is closed at once, and so is an earlier heir. So each closed connection
 *	 lets one go on, and the last to arrive stays.
 *   IDENTITY-3. Without a connection an identity is kept for server.identity_time, but there are at
 *	 most limits.identities with and without a connection. One more replaces a kept identity:
 *	 among those of the principals (server/worker/principal.h) that have most, the one whose
 *	 connection ended first, so what one principal leaves costs the others nothing. If none is
 *	 kept, the new client gets no identity.
 *
 * Principals are counted in IDENTITY_GROUPS groups, by their hashes. Each call takes a bounded time
 * that does not depend on the number of identities.
 */
#ifndef KVD_SERVER_CONTROL_IDENTITY_H
#define KVD_SERVER_CONTROL_IDENTITY_H

#include <stdint.h>
#include <sys/queue.h>

#include "server/worker/answers.h"

struct conn;

#define IDENTITY_GROUPS 64

struct identity {
	struct answers answers;
	uint8_t id[WIRE_IDENTITY_BYTES];
	struct conn *owner; /* NULL: its connection ended, and the identity is kept */
	struct conn *heir;  /* its HELLO waits for the end of the owner; or NULL */
	uint64_t ended_ns;  /* when the owner's connection ended */
	unsigned int group; /* of the owner's principal */
	LIST_ENTRY(identity) hash_entry;
	TAILQ_ENTRY(identity) kept_entry;  /* in kept, if it has no owner */
	TAILQ_ENTRY(identity) group_entry; /* in its group, likewise */
};

TAILQ_HEAD(identity_list, identity); /* in the order in which connections ended */

struct identities {
	LIST_HEAD(identity_bucket, identity) * buckets;
	uint32_t bucket_count; /* a power of two */
	uint32_t max;	       /* limits.identities */
	uint64_t keep_ns;      /* server.identity_time */
	uint64_t seed;	       /* of the hash, so that no client can choose a bucket */
	uint32_t count;	       /* with an owner or kept */
	uint32_t kept_count;
	struct identity_list kept;
	struct {
		struct identity_list kept;
		uint32_t count;
	} groups[IDENTITY_GROUPS];
	uint64_t evicted; /* identities replaced by new ones */
};

/* 0 or a negative errno. */
int identities_init(struct identities *identities, uint32_t max, uint64_t keep_ns);
/* No connection may be left. */
void identities_release(struct identities *identities);
/* The most memory that @max identities take. */
uint64_t identities_bytes(uint32_t max);

/*
 * Makes the connection, whose HELLO has an identity, the owner of that; conn->query.hello.answers
 * are the answers, NULL if there is no room. False: the connection waits until identity_leave()
 * returns it, and the caller closes *@closes.
 */
bool identity_claim(struct identities *identities, struct conn *conn, struct conn **closes);

/*
 * No request of the connection is executed any more. Returns the heir of its identity, which is the
 * owner now and whose HELLO goes on; or NULL.
 */
struct conn *identity_leave(struct identities *identities, struct conn *conn, uint64_t now_ns);

/* The connection is being closed: it is no longer an heir. */
void identity_disinherit(struct conn *conn);

/*
 * Adds an identity of an earlier process, whose connection ended at @ended_ns. False: there is no
 * room. Before connections are made.
 */
bool identity_restore(struct identities *identities, const uint8_t *id, unsigned int group,
		      const struct answers *answers, uint64_t ended_ns);

/* Forgets identities that were kept long enough, a bounded number at a time. */
void identities_expire(struct identities *identities, uint64_t now_ns);

#endif /* KVD_SERVER_CONTROL_IDENTITY_H */
