/* SPDX-License-Identifier: MIT */
/* A client, however it is connected: for whom requests are executed, and whom limits count. */
#ifndef KVD_SERVER_WORKER_CLIENT_H
#define KVD_SERVER_WORKER_CLIENT_H

#include "server/worker/principal.h"
#include "server/worker/tenant.h"

struct budget_gates;
struct fleet;
struct user;
struct user_account;

/* Fixed when the client is admitted, but for its user. */
struct client {
	struct tenant_part *part;     /* its worker's, of its tenant */
	struct principal principal;   /* charged for what it does */
	struct user_account *account; /* its principal's: server/control/accounts.h */
	struct budget_gates *gates;   /* likewise, in its tenant */
	const struct fleet *fleet;    /* of which the server is a member, or NULL */
	bool by_admin;		      /* peer_is_admin() */
	/*
	 * The client's user: server/worker/permit.h. The control thread may replace it; the old one
	 * stays for a grace period. NULL: the server has no users.
	 */
	_Atomic(const struct user *) user;
};

#endif /* KVD_SERVER_WORKER_CLIENT_H */
