/* SPDX-License-Identifier: MIT */
/*
 * A user: which clients it stands for, and what they may do. It belongs to a snapshot of the file
 * of users (server/users/users.h), and does not change.
 */
#ifndef KVD_SERVER_USERS_USER_H
#define KVD_SERVER_USERS_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/wire.h"

/* X(upper, name) */
#define USER_RIGHTS(X)                                                                             \
	X(READ, "read")                                                                            \
	X(WRITE, "write")                                                                          \
	X(DELETE, "delete")                                                                        \
	X(SCAN, "scan")                                                                            \
	X(FLUSH, "flush")                                                                          \
	X(STATS, "stats")                                                                          \
	X(ADMIN, "admin")

enum user_right_number {
#define X(upper, name) USER_NUMBER_##upper,
	USER_RIGHTS(X)
#undef X
		USER_RIGHTS_COUNT,
};

enum user_right {
#define X(upper, name) USER_##upper = 1 << USER_NUMBER_##upper,
	USER_RIGHTS(X)
#undef X
		USER_ALL = (1 << USER_RIGHTS_COUNT) - 1,
};

#define USER_NAME_MAX 64 /* bytes, without its zero */
#define USER_PREFIXES_MAX 32
/* The tenant that has memory.size: that of a user for which no other is given. */
#define TENANT_DEFAULT "default"
/* What the name of any other tenant is, for messages. */
#define TENANT_NAME_RULE "1 to 24 letters, digits, '-', '_' and '.', and is not default"
static_assert(WIRE_TENANT_MAX == 24, "TENANT_NAME_RULE");
/* Bytes of a tenant's memory. */
#define USER_MEMORY_MIN (16ull << 20)
#define USER_MEMORY_MAX (512ull << 30)

/* A key must start with one of these. None: any key. */
struct user_prefixes {
	struct user_prefix {
		const uint8_t *bytes; /* 1 at least */
		size_t length;
	} list[USER_PREFIXES_MAX];
	unsigned int count;
};

struct user {
	const char *name;   /* "*": clients that match no other user */
	const char *tenant; /* the tenant whose store it uses */
	uint32_t rights;    /* USER_* */
	struct user_prefixes read, write;
	/* Limits of each of its clients; 0: no limit. */
	uint32_t connections;
	uint64_t requests, bytes; /* in a second */
	const char *password;	  /* its hash: server/users/password.h; NULL: none */
	uint64_t memory;   /* bytes of `tenant`, which kvd makes; 0: this user says no size */
	unsigned int line; /* where it begins in the file */
};

/*
 * The user of a client of memcached's protocol that has to give a password: it has no right, its
 * name is in no file, and it is in no snapshot.
 */
extern const struct user user_unauthenticated;

static inline bool tenant_name_valid(const char *name)
{
	char padded[WIRE_TENANT_MAX] = "";
	size_t length = strlen(name);

	if (length > sizeof(padded) || !strcmp(name, TENANT_DEFAULT))
		return false;
	memcpy(padded, name, length);
	return wire_tenant_length(padded);
}

/* Whether its clients are those that no other user matches. */
static inline bool user_is_wildcard(const struct user *user)
{
	return !strcmp(user->name, "*");
}

static inline bool user_prefixes_hold(const struct user_prefixes *prefixes, const uint8_t *key,
				      size_t key_len)
{
	for (unsigned int i = 0; i < prefixes->count; i++)
		if (key_len >= prefixes->list[i].length &&
		    !memcmp(key, prefixes->list[i].bytes, prefixes->list[i].length))
			return true;
	return !prefixes->count;
}

/* Whether it may read the whole store, so that its clients may READ it themselves. */
static inline bool user_reads_all(const struct user *user)
{
	return user->rights & USER_READ && !user->read.count;
}

static inline bool user_is_limited(const struct user *user)
{
	return user->requests || user->bytes;
}

#endif /* KVD_SERVER_USERS_USER_H */
