/* SPDX-License-Identifier: MIT */
/*
 * The principal of a connection: the one name by which the server tells clients apart, and charges
 * all connections of a client for what one of them does. Nothing else of a peer is used: a process
 * id, a port and a connection's number are new with each fork() or connect().
 *
 *   PRINCIPAL-1. The principal is the first of these that is known of the client, in the words of
 *	 CLIENTS and REVOKE:
 *
 *	 user=NAME		the user of users.file that it is; not "*", which is many clients,
 *				and not user_unauthenticated
 *	 identity=psk:NAME	what it proved by TLS
 *	 uid=NUMBER		owner of the process at the Unix socket (SO_PEERCRED)
 *	 addr=10.9.0.1		its address
 *	 addr=fd00:1:2:3::/64	with IPv6 its network: the host chooses the last 64 bits itself
 *				(RFC 4291, 2.5.1; RFC 7421), and change all the time (RFC 8981)
 *
 *   PRINCIPAL-2. All clients of a principal are treated as one. To tell two clients apart, give
 *	 them two users, identities or uids.
 *   PRINCIPAL-3. The principal stays as it was when the client connected, or authenticated by a
 *	 password, whatever users.file says later.
 */
#ifndef KVD_SERVER_WORKER_PRINCIPAL_H
#define KVD_SERVER_WORKER_PRINCIPAL_H

#include <stdbool.h>
#include <string.h>

#include "common/rdma/device.h"
#include "server/users/user.h"

/* Bytes of the name, its zero included. The longest is an identity. */
#define PRINCIPAL_BYTES (sizeof("identity=") - 1 + TLS_IDENTITY_MAX)

struct principal {
	char name[PRINCIPAL_BYTES];
};

/* @user: the client's; NULL if the server has no users. */
void principal_init(struct principal *principal, const struct cm_peer *peer,
		    const struct user *user);

static inline bool principal_is(const struct principal *a, const struct principal *b)
{
	return !strcmp(a->name, b->name);
}

#endif /* KVD_SERVER_WORKER_PRINCIPAL_H */
