/* SPDX-License-Identifier: MIT */
/*
 * The users of a server: a snapshot of the file that users.file names. conf/OPERATIONS.md describes
 * the file.
 *
 * A snapshot never changes, and stays as long as it is held. All functions are for the control
 * thread; other threads may read the users of a snapshot that it holds.
 */
#ifndef KVD_SERVER_USERS_USERS_H
#define KVD_SERVER_USERS_USERS_H

#include <sys/types.h>

#include "common/util/network.h"
#include "server/users/user.h"

#define USERS_MAX 4096
#define USERS_WHY_MAX 400
/* Bytes of a file of users. */
#define USERS_FILE_MAX (1u << 20)

/* What a user is recognised by: an identity, a uid, or a network, each of one user. */
struct user_key {
	union {
		const char *identity;
		uid_t uid;
		struct network network;
	};
	uint32_t user; /* of users->list */
	unsigned int line;
};

struct user_keys {
	struct user_key *list;
	size_t count, room;
};

struct users {
	unsigned int holders;
	struct user *list;
	size_t count;
	/* Sorted. */
	struct user_keys identities, uids, networks;
	const struct user *other; /* "*", or NULL */
	/* The first user with a password; NULL: clients give none. */
	const struct user *with_password;
	/* Names, identities, hashes and prefixes point into it: of secret_alloc(). */
	char *text;
	size_t text_bytes;
};

/* What is known of the client at the other end of a connection. */
struct user_peer {
	const char *identity; /* as tls_identity() says it, or NULL */
	bool uid_known;
	uid_t uid;
	const char *address; /* as ip_address_parse() takes it */
	bool open;	     /* its transport has no secret: its address counts */
};

/* Finds the uid of the local user @name: 0, or a negative errno. */
typedef int users_uid_of(const char *name, uid_t *uid);

/*
 * Parses the text of a file. 0; -ENOMEM; or -EINVAL with @why (USERS_WHY_MAX bytes), "line 3: ...",
 * for the first error. users_put() frees *@users.
 */
int users_parse(struct users **users, const char *text, size_t length, users_uid_of *uid_of,
		char *why);

/*
 * Reads and parses the file @path, which only its owner, root or the server's own user, may be able
 * to write, and which no user but those of its group may read if it has passwords. @why:
 * "PATH: ..." or "PATH: line 3: ...".
 */
int users_load(struct users **users, const char *path, char *why);

struct users *users_hold(struct users *users);
/* @users may be NULL. */
void users_put(struct users *users);

/*
 * The user of @peer: by its identity, else its uid, else, if its transport is open, the smallest
 * network that contains its address, else "*". NULL: none.
 */
const struct user *users_match(const struct users *users, const struct user_peer *peer);

/* The user of that name, or NULL. */
const struct user *users_named(const struct users *users, const char *name);

#endif /* KVD_SERVER_USERS_USERS_H */
