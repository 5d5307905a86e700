/* SPDX-License-Identifier: MIT */
/*
 * The users of a server: a snapshot of the file that users.file names. conf/OPERATIONS.md describes
 * the file.
 *
 * A snapshot is not changed after it was made; it stays as long as somebody holds it. All functions
 * are for the control thread; other threads may read the users of a snapshot that it holds.
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

/* What a user is recognised by: an identity, a number, or a network, each of one user. */
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
	/* In order. */
	struct user_keys identities, uids, networks;
	const struct user *other; /* "*", or NULL */
	char *text;		  /* into which names, identities and prefixes point */
};

/* Who is at the other end of a connection, as far as that is known. */
struct user_peer {
	const char *identity; /* as tls_identity() says it, or "" */
	bool uid_known;
	uid_t uid;
	const char *address; /* as ip_address_parse() takes it */
	bool open;	     /* the way that it came has no secret: its address counts */
};

/* The number of the local user @name: 0, or a negative errno. */
typedef int users_uid_of(const char *name, uid_t *uid);

/*
 * Reads the text of a file. 0; -ENOMEM; or -EINVAL with @why (USERS_WHY_MAX bytes), "line 3: ...":
 * the first thing that is wrong. users_put() frees *@users.
 */
int users_parse(struct users **users, const char *text, size_t length, users_uid_of *uid_of,
		char *why);

/*
 * The same of the file @path, which nobody but its owner, root or the server's own user, may write
 * to. @why: "PATH: ..." or "PATH: line 3: ...".
 */
int users_load(struct users **users, const char *path, char *why);

struct users *users_hold(struct users *users);
/* May be NULL. */
void users_put(struct users *users);

/*
 * The user that @peer is: of its identity, else its number, else, if it came by an open way, the
 * smallest network that has its address, else "*". NULL: none.
 */
const struct user *users_match(const struct users *users, const struct user_peer *peer);

#endif /* KVD_SERVER_USERS_USERS_H */
