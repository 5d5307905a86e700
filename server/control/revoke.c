/* SPDX-License-Identifier: MIT */
/* Parses revocations, matches connections, and keeps identities for clients still connecting. */
#include "server/control/revoke.h"

#include <string.h>

#include "server/users/user.h"

static const struct {
	const char *name;
	enum revoke_by by;
} kinds[] = {
	{ "user=", REVOKE_USER }, { "identity=", REVOKE_IDENTITY }, { "uid=", REVOKE_UID },
	{ "id=", REVOKE_ID },	  { "addr=", REVOKE_ADDRESS },
};

/* Parses a decimal number of @len digits that fits 64 bits. */
static bool number_parse(uint64_t *number, const char *digits, size_t len)
{
	*number = 0;
	for (size_t i = 0; i < len; i++) {
		unsigned int digit = (unsigned int)(digits[i] - '0');

		if (digit > 9 || __builtin_mul_overflow(*number, 10u, number) ||
		    __builtin_add_overflow(*number, digit, number))
			return false;
	}
	return len > 0;
}

/* No client has a name with a zero byte in it. */
static bool name_parse(char name[TLS_IDENTITY_MAX], const char *text, size_t len)
{
	if (!len || len >= TLS_IDENTITY_MAX || memchr(text, 0, len))
		return false;
	memcpy(name, text, len);
	name[len] = '\0';
	return true;
}

bool revoke_parse(struct revoke *revoke, const char *text, size_t len)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t skip = strlen(kinds[i].name);

		if (len < skip || memcmp(text, kinds[i].name, skip) != 0)
			continue;
		*revoke = (struct revoke){ .by = kinds[i].by };
		if (revoke->by == REVOKE_UID || revoke->by == REVOKE_ID)
			return number_parse(&revoke->number, text + skip, len - skip);
		return name_parse(revoke->name, text + skip, len - skip);
	}
	return false;
}

/* "10.9.0.1" and "10.9.0.1:4711" mean "10.9.0.1:4711", "fe80::1" means "[fe80::1]:4711". */
static bool address_matches(const char *wanted, const char *address)
{
	const char *port = strrchr(address, ':');
	size_t len = strlen(wanted), host = port ? (size_t)(port - address) : strlen(address);

	if (strcmp(wanted, address) == 0)
		return true;
	if (host == len && memcmp(wanted, address, len) == 0)
		return true;
	return *address == '[' && host == len + 2 && memcmp(wanted, address + 1, len) == 0;
}

bool revoke_matches(const struct revoke *revoke, const struct client *client)
{
	const struct user *user = atomic_load_explicit(&client->user, memory_order_relaxed);
	const struct cm_peer *peer = &client->peer;

	switch (revoke->by) {
	case REVOKE_USER:
		return user && strcmp(revoke->name, user->name) == 0;
	case REVOKE_IDENTITY:
		return peer->identity && strcmp(revoke->name, peer->identity) == 0;
	case REVOKE_UID:
		return peer->uid_known && peer->uid == revoke->number;
	case REVOKE_ID:
		return client->number && client->number == revoke->number;
	case REVOKE_ADDRESS:
		return address_matches(revoke->name, peer->address);
	}
	return false;
}

static bool is_old(const struct revoked *revoked, uint64_t now_ns)
{
	return !revoked->at_ns || now_ns - revoked->at_ns >= REVOKED_NS;
}

bool revoked_add(struct revoked revoked[REVOKED_MAX], const struct revoke *revoke, uint64_t now_ns)
{
	struct revoked *place = NULL;

	if (revoke->by != REVOKE_IDENTITY)
		return true;
	for (unsigned int i = 0; i < REVOKED_MAX; i++) {
		if (strcmp(revoked[i].identity, revoke->name) == 0) {
			place = &revoked[i];
			break;
		}
		if (!place && is_old(&revoked[i], now_ns))
			place = &revoked[i];
	}
	if (!place)
		return false;
	place->at_ns = now_ns;
	memcpy(place->identity, revoke->name, sizeof(place->identity));
	return true;
}

bool revoked_find(const struct revoked revoked[REVOKED_MAX], const struct cm_peer *peer,
		  uint64_t now_ns)
{
	for (unsigned int i = 0; peer->identity && i < REVOKED_MAX; i++)
		if (!is_old(&revoked[i], now_ns) && peer->since_ns <= revoked[i].at_ns &&
		    strcmp(revoked[i].identity, peer->identity) == 0)
			return true;
	return false;
}
