/* SPDX-License-Identifier: MIT */
/* The accounts of principals, by name in a tree of the C library. */
#include "server/net/accounts.h"

#include <search.h>
#include <stdlib.h>

/* Accounts of `owing` that are looked at when one is added: several, so that it gets shorter. */
#define LOOKED_AT 4

struct account {
	struct principal principal; /* first: what the tree compares */
	struct user_account buckets;
	uint32_t connections;
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

/* Forgets some of those that have paid, or the first, if there are too many. */
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

struct user_account *accounts_open(struct accounts *accounts, const struct principal *principal,
				   uint64_t now_ns)
{
	struct account *account = account_find(accounts, principal);

	if (!account)
		account = account_add(accounts, principal, now_ns);
	else if (!account->connections)
		owing_remove(accounts, account);
	if (!account)
		return NULL;
	account->connections++;
	return &account->buckets;
}

void accounts_close(struct accounts *accounts, const struct principal *principal, uint64_t now_ns)
{
	struct account *account = account_find(accounts, principal);

	if (--account->connections)
		return;
	if (account_owes(account, now_ns)) {
		owing_shorten(accounts, now_ns);
		owing_add(accounts, account);
	} else {
		account_forget(accounts, account);
	}
}

uint32_t accounts_connections(const struct accounts *accounts, const struct principal *principal)
{
	const struct account *account = account_find(accounts, principal);

	return account ? account->connections : 0;
}
