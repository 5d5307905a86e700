/* SPDX-License-Identifier: MIT */
/*
 * REVOKE closes the connections of a user, an identity, a uid, an address, or one connection. When
 * it is answered, all their queue pairs are in the error state or destroyed, so no READ posted
 * later succeeds.
 *
 * REVOKE does not decide which clients may connect: a client with credentials that are still valid
 * may come again. But a client that showed its old credentials before, and was still connecting,
 * does not get in: the last revocations of identities are kept as long as a set-up may take.
 */
#ifndef KVD_SERVER_CONTROL_REVOKE_H
#define KVD_SERVER_CONTROL_REVOKE_H

#include "server/worker/conn.h"

/* Revocations kept; one more waits until the oldest is REVOKED_NS old. */
#define REVOKED_MAX 16
/* Longer than a set-up with TLS may take: SETUP_MS in common/rdma/tcp/setup.c. */
#define REVOKED_NS 10000000000ull

enum revoke_by { REVOKE_USER, REVOKE_IDENTITY, REVOKE_UID, REVOKE_ID, REVOKE_ADDRESS };

/* Which connections are revoked. */
struct revoke {
	enum revoke_by by;
	uint64_t number;	     /* uid, or number of a connection */
	char name[TLS_IDENTITY_MAX]; /* user, identity or address */
};

struct revoked {
	uint64_t at_ns; /* by clock_ns(); 0: no revocation */
	char identity[TLS_IDENTITY_MAX];
};

/*
 * Parses "user=NAME", "identity=NAME", "uid=NUMBER", "id=NUMBER" (all as CLIENTS says them) or
 * "addr=ADDRESS", with or without its port. False: it is none of these.
 */
bool revoke_parse(struct revoke *revoke, const char *text, size_t len);
/* The control thread calls it. */
bool revoke_matches(const struct revoke *revoke, const struct client *client);

/* Keeps the revocation of an identity; other kinds need not be kept. False: there is no room. */
bool revoked_add(struct revoked revoked[REVOKED_MAX], const struct revoke *revoke, uint64_t now_ns);
/* Whether @peer started to connect before its identity was revoked. */
bool revoked_find(const struct revoked revoked[REVOKED_MAX], const struct cm_peer *peer,
		  uint64_t now_ns);

#endif /* KVD_SERVER_CONTROL_REVOKE_H */
