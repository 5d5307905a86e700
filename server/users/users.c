/* SPDX-License-Identifier: MIT */
/* Snapshots of the file of users: finds the user of a client, and counts holders. */
#include "server/users/users.h"

#include <stdlib.h>

#include "common/util/secret.h"

const struct user user_unauthenticated = {
	.name = "(unauthenticated)",
	.tenant = TENANT_DEFAULT,
};

struct users *users_hold(struct users *users)
{
	users->holders++;
	return users;
}

void users_put(struct users *users)
{
	if (!users || --users->holders)
		return;
	free(users->list);
	free(users->identities.list);
	free(users->uids.list);
	free(users->networks.list);
	secret_free(users->text, users->text_bytes);
	free(users);
}

const struct user *users_named(const struct users *users, const char *name)
{
	for (size_t i = 0; i < users->count; i++)
		if (!strcmp(users->list[i].name, name))
			return &users->list[i];
	return NULL;
}

static const struct user *key_user(const struct users *users, const struct user_key *key)
{
	return key ? &users->list[key->user] : NULL;
}

static int identity_compare(const void *a, const void *b)
{
	return strcmp(((const struct user_key *)a)->identity,
		      ((const struct user_key *)b)->identity);
}

static int uid_compare(const void *a, const void *b)
{
	uid_t x = ((const struct user_key *)a)->uid, y = ((const struct user_key *)b)->uid;

	return (x > y) - (x < y);
}

/* NULL: none. */
static const struct user_key *keys_find(const struct user_keys *keys, const struct user_key *key,
					int (*compare)(const void *, const void *))
{
	return keys->count ? bsearch(key, keys->list, keys->count, sizeof(*key), compare) : NULL;
}

static const struct user *network_match(const struct users *users, const char *text)
{
	const struct user_key *best = NULL, *key;
	struct ip_address address;

	if (!ip_address_parse(&address, text))
		return NULL;
	for (key = users->networks.list; key < users->networks.list + users->networks.count; key++)
		if (network_holds(&key->network, &address) &&
		    (!best || key->network.bits > best->network.bits))
			best = key;
	return key_user(users, best);
}

const struct user *users_match(const struct users *users, const struct user_peer *peer)
{
	const struct user_key identity = { .identity = peer->identity };
	const struct user_key uid = { .uid = peer->uid };
	const struct user *user = NULL;

	if (peer->identity)
		user = key_user(users, keys_find(&users->identities, &identity, identity_compare));
	if (!user && peer->uid_known)
		user = key_user(users, keys_find(&users->uids, &uid, uid_compare));
	if (!user && peer->open && users->networks.count)
		user = network_match(users, peer->address);
	return user ? user : users->other;
}
