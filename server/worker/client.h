/* SPDX-License-Identifier: MIT */
/* A client, however it is connected: for whom requests are executed, and whom limits count. */
#ifndef KVD_SERVER_WORKER_CLIENT_H
#define KVD_SERVER_WORKER_CLIENT_H

#include "common/rdma/device.h"
#include "server/worker/principal.h"
#include "server/worker/tenant.h"

struct budget_gates;
struct fleet;
struct user;
struct user_account;
struct users;
struct worker;

/* Why a connection ends, for the audit log. */
#define CLIENT_ENDS(X)                                                                             \
	X(LEFT, "the client ended it")                                                             \
	X(FAILED, "it failed")                                                                     \
	X(PROTOCOL, "it broke memcached's protocol")                                               \
	X(ACCESS, "READ with a key that is not its own, or outside the region")                    \
	X(HELLO_LATE, "no valid HELLO within server.handshake_timeout")                            \
	X(LOGIN_LATE, "it did not authenticate within server.handshake_timeout")                   \
	X(SILENT, "no answer to a keepalive probe")                                                \
	X(REPLACED, "its client connected anew")                                                   \
	X(KILLED, "killed")                                                                        \
	X(REVOKED, "revoked")                                                                      \
	X(USERS, "users.file changed")                                                             \
	X(TENANT, "its tenant is resized or dropped")                                              \
	X(MEMORY, "memory.size was lowered")                                                       \
	X(DEVICE, "its device failed")                                                             \
	X(WORKER, "its worker is taken away (server.workers)")                                     \
	X(STOP, "the server stops")

enum client_end {
#define X(name, text) CLIENT_##name,
	CLIENT_ENDS(X)
#undef X
};

struct client {
	/* Fixed when the client is admitted. */
	struct worker *worker;
	/* By a login, the control thread may change these, up to `gates`: LOGIN-2. */
	struct tenant_part *part; /* its worker's, of its tenant */
	/* Whom it is charged to, in its account: server/control/accounts.h. */
	const struct principal *principal;
	struct user_account *account;
	struct budget_gates *gates; /* in its tenant */
	const struct fleet *fleet;  /* of which the server is a member, or NULL */
	/* What a request waits for may have come. The worker calls it. */
	void (*wake)(struct client *client);
	enum device_kind kind; /* of the URL that it connected to */
	bool by_admin;	       /* peer_is_admin() */
	bool audited;	       /* audit_opened(): the control thread's */
	_Atomic uint8_t end;   /* client_ends() */
	bool by_password;      /* it is its user by a login: the control thread's, as `users` */
	struct cm_peer peer;
	uint64_t connected_ns; /* by clock_ns() */
	uint64_t number;       /* in net->registry, for users; 0: not there */
	/*
	 * The client's user: server/worker/permit.h. The control thread may replace it; the old one
	 * stays for a grace period. NULL: the server has no users.
	 */
	_Atomic(const struct user *) user;

	/* The control thread's. */
	struct users *users;	 /* that `user` belongs to; NULL: none */
	struct users *users_old; /* to put later: clients_renew() */

	/* Written by the worker, read by the control thread, too. */
	uint64_t requests;	 /* received */
	uint64_t received_bytes; /* in them */
	uint64_t sent_bytes;	 /* in responses */
	uint64_t active_ns; /* last request, or a session's start, by the server's clock; or 0 */
};

/* Whether it is a struct session, of memcached's protocol, and no struct conn. */
static inline bool client_is_session(const struct client *client)
{
	return client->kind & LISTEN_MEMCACHED_ALL;
}

/* NULL: the server has no users, and everything is allowed. */
static inline const struct user *client_user(const struct client *client)
{
	return atomic_load_explicit(&client->user, memory_order_acquire);
}

/* Whether the client is an administrator now: as its user's rights say, or peer_is_admin(). */
static inline bool client_is_admin(const struct client *client)
{
	const struct user *user = client_user(client);

	return user ? user->rights & USER_ADMIN : client->by_admin;
}

/*
 * Whether the client may see what other principals do, and change what they see: an administrator
 * may, and all clients of a server that has no users.
 */
static inline bool client_sees_others(const struct client *client)
{
	const struct user *user = client_user(client);

	return !user || user->rights & USER_ADMIN;
}

/* Says why the connection ends. The first reason counts: returns whether this is it. Any thread. */
static inline bool client_ends(struct client *client, enum client_end end)
{
	uint8_t none = CLIENT_LEFT;

	return atomic_compare_exchange_strong(&client->end, &none, (uint8_t)end);
}

#endif /* KVD_SERVER_WORKER_CLIENT_H */
