/* SPDX-License-Identifier: MIT */
/*
 * The accounts of principals (server/worker/principal.h): how many connections each has, what they
 * have together used of its user's limits (server/users/account.h), and, for each tenant that it is
 * connected to, its gates of the budgets (server/worker/budget.h).
 *
 *   ACCOUNT-1. A principal has one account, as long as it has a connection or owes for what it
 *	 used: a client that closes its connections and connects again finds its account as it was.
 *   ACCOUNT-2. An account holds nothing from users.file, so reading the file again changes no
 *	 account.
 *   ACCOUNT-3. At most ACCOUNTS_OWING_MAX principals without a connection are remembered.
 *
 * Only the control thread uses accounts, except for the buckets, which any thread may use, and the
 * gates.
 */
#ifndef KVD_SERVER_CONTROL_ACCOUNTS_H
#define KVD_SERVER_CONTROL_ACCOUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/users/account.h"
#include "server/worker/budget_gate.h"
#include "server/worker/principal.h"

#define ACCOUNTS_OWING_MAX 4096u

struct client;
struct tenant;

struct accounts {
	void *tree; /* of struct account, for tsearch(3) */
	/* Accounts without a connection. */
	TAILQ_HEAD(account_list, account) owing;
	unsigned int owing_count;
};

void accounts_init(struct accounts *accounts);
/* No connection may be left. */
void accounts_release(struct accounts *accounts);

/*
 * Counts one more connection of @principal, to @tenant: that of @client, whose principal, buckets
 * and gates it sets. These stay until accounts_close(). False: no memory, and it sets nothing.
 * @now_ns: by the stores' clock.
 */
bool accounts_open(struct accounts *accounts, const struct principal *principal,
		   const struct tenant *tenant, struct client *client, uint64_t now_ns);
/* Counts one connection less, which accounts_open() counted with the same arguments. */
void accounts_close(struct accounts *accounts, const struct principal *principal,
		    const struct tenant *tenant, uint64_t now_ns);

/* How many connections the principal has. */
uint32_t accounts_connections(const struct accounts *accounts, const struct principal *principal);

#endif /* KVD_SERVER_CONTROL_ACCOUNTS_H */
