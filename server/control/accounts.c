/* SPDX-License-Identifier: MIT */
/* The accounts of principals, by name in a tree of the C library. */
#include "server/control/accounts.h"

#include <search.h>
#include <stdlib.h>

#include "server/worker/client.h"

/* Accounts of `owing` looked at when one is added: several, so that the list shrinks. */
#define LOOKED_AT 4

struct tenant_account {
	const struct tenant *tenant;
	struct budget_gates gates;
	uint32_t connections;
	LIST_ENTRY(tenant_account) entry;
};

struct account {
	struct principal principal; /* first: the tree compares it */
	struct user_account buckets;
	uint32_t connections;
	LIST_HEAD(tenant_list, tenant_account) tenants; /* those with a connection */
	TAILQ_ENTRY(account) entry;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct principal *)a)->name, ((const struct principal *)b)->name);
}

static struct account *account_find(const struct accounts *accounts,
				    const struct principal *principal)
{
	void *node = tfind(principal, &accounts->tree, by_name);

	return node ? *(struct account **)node : NULL;
}

static void account_forget(struct accounts *accounts, struct account *account)
{
	tdelete(account, &accounts->tree, by_name);
	free(account);
}

static void owing_remove(struct accounts *accounts, struct account *account)
{
	TAILQ_REMOVE(&accounts->owing, account, entry);
	accounts->owing_count--;
}

static void owing_add(struct accounts *accounts, struct account *account)
{
	TAILQ_INSERT_TAIL(&accounts->owing, account, entry);
	accounts->owing_count++;
}

static bool account_owes(const struct account *account, uint64_t now_ns)
{
	return account_full_ns(&account->buckets) > now_ns - account->buckets.base_ns;
}

/* Forgets some accounts that owe nothing, or the first if there are too many. */
static void owing_shorten(struct accounts *accounts, uint64_t now_ns)
{
	bool full = accounts->owing_count >= ACCOUNTS_OWING_MAX;
	struct account *account;

	for (unsigned int i = 0; i < LOOKED_AT; i++) {
		account = TAILQ_FIRST(&accounts->owing);
		if (!account)
			break;
		owing_remove(accounts, account);
		if (account_owes(account, now_ns) && !full)
			owing_add(accounts, account);
		else
			account_forget(accounts, account);
		full = false;
	}
}

void accounts_init(struct accounts *accounts)
{
	*accounts = (struct accounts){ 0 };
	TAILQ_INIT(&accounts->owing);
}

void accounts_release(struct accounts *accounts)
{
	struct account *account;

	while ((account = TAILQ_FIRST(&accounts->owing))) {
		owing_remove(accounts, account);
		account_forget(accounts, account);
	}
}

static struct account *account_add(struct accounts *accounts, const struct principal *principal,
				   uint64_t now_ns)
{
	struct account *account = calloc(1, sizeof(*account));

	if (!account)
		return NULL;
	account->principal = *principal;
	account->buckets.base_ns = now_ns;
	if (tsearch(account, &accounts->tree, by_name))
		return account;
	free(account);
	return NULL;
}

static struct tenant_account *tenant_find(const struct account *account,
					  const struct tenant *tenant)
{
	struct tenant_account *in;

	LIST_FOREACH(in, &account->tenants, entry)
		if (in->tenant == tenant)
			break;
	return in;
}

static struct tenant_account *tenant_add(struct account *account, const struct tenant *tenant)
{
	struct tenant_account *in = calloc(1, sizeof(*in));

	if (!in)
		return NULL;
	in->tenant = tenant;
	budget_gates_init(&in->gates);
	LIST_INSERT_HEAD(&account->tenants, in, entry);
	return in;
}

/* The account has no connection any more. */
static void account_leave(struct accounts *accounts, struct account *account, uint64_t now_ns)
{
	if (account_owes(account, now_ns)) {
		owing_shorten(accounts, now_ns);
		owing_add(accounts, account);
	} else {
		account_forget(accounts, account);
	}
}

bool accounts_open(struct accounts *accounts, const struct principal *principal,
		   const struct tenant *tenant, struct client *client, uint64_t now_ns)
{
	struct account *account = account_find(accounts, principal);
	struct tenant_account *in;

	if (!account)
		account = account_add(accounts, principal, now_ns);
	else if (!account->connections)
		owing_remove(accounts, account);
	if (!account)
		return false;
	in = tenant_find(account, tenant);
	if (!in)
		in = tenant_add(account, tenant);
	if (!in) {
		if (!account->connections)
			account_leave(accounts, account, now_ns);
		return false;
	}
	account->connections++;
	in->connections++;
	client->principal = &account->principal;
	client->account = &account->buckets;
	client->gates = &in->gates;
	return true;
}

void accounts_close(struct accounts *accounts, const struct principal *principal,
		    const struct tenant *tenant, uint64_t now_ns)
{
	struct account *account = account_find(accounts, principal);
	struct tenant_account *in = tenant_find(account, tenant);

	if (!--in->connections) {
		LIST_REMOVE(in, entry);
		free(in);
	}
	if (!--account->connections)
		account_leave(accounts, account, now_ns);
}

uint32_t accounts_connections(const struct accounts *accounts, const struct principal *principal)
{
	const struct account *account = account_find(accounts, principal);

	return account ? account->connections : 0;
}
