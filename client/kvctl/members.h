/* SPDX-License-Identifier: MIT */
/*
 * The members of a fleet as servers, each with a handle of its own: for the commands that ask each
 * server for what no fleet has as a whole.
 */
#ifndef KVD_CLIENT_KVCTL_MEMBERS_H
#define KVD_CLIENT_KVCTL_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvctl/stats_text.h"
#include "client/kvd.h"

struct arguments;

#define MEMBERS_URL_BYTES 1024

struct member {
	struct kvd_fleet_member map; /* as the map has it */
	char url[MEMBERS_URL_BYTES]; /* of the fleet's kind; "": it has none */
	struct kvd *db;		     /* NULL: not open */
	char why[256];		     /* why it did not answer, the last time */
};

struct members {
	struct kvd_fleet_info info;
	struct member *list; /* info.members */
};

/* Whether it is a fleet's URL. */
bool members_url_is(const char *url);
/* Writes the URL of the fleet of that name that has a member at @url. False: no URL of a server. */
bool members_url_make(char to[MEMBERS_URL_BYTES], const char *url, const char *name);

/*
 * Reads the members from the map of @fleet, which was opened by @url. Returns an exit status, after
 * printing why it is not EX_OK. The caller releases @members.
 */
int members_read(struct members *members, struct kvd *fleet, const char *url);
/* Closes the handles. */
void members_release(struct members *members);

/* Opens the member's handle, unless it is open. False: it is away, and member->why says why. */
bool member_open(struct member *member, const struct arguments *arguments);
void member_close(struct member *member);
/* Asks the member for its statistics. False: it is away. */
bool member_stats(struct member *member, const struct arguments *arguments, char text[STATS_BYTES]);

/*
 * What follows is about one member: prints a heading, unless in JSON, where each record gets the
 * member's name; errors get it, too. @first: no other heading was printed. NULL: that ends.
 */
void member_announce(const struct member *member, const struct arguments *arguments, bool first);

/* How many items the server has, or all members that answer have together; 0: unknown. */
uint64_t members_items(struct kvd *db, const struct arguments *arguments);

/*
 * Runs the command at each member of the fleet. Returns the exit status of the first one that
 * failed; EXIT_NOT_FOUND only if it is that of all.
 */
int members_run(struct kvd *fleet, const struct arguments *arguments,
		int (*run)(struct kvd *db, const struct arguments *arguments));

/* Longest key that members_key_make() makes, its zero included. */
#define MEMBERS_KEY_BYTES 48
/*
 * Makes a key that no other client uses: it begins with @prefix, has 64 random bits, and belongs to
 * member @number of @fleet; NULL: it is a server's. False: the member has no shard, or hardly any.
 */
bool members_key_make(struct kvd *fleet, uint32_t number, const char *prefix,
		      char key[MEMBERS_KEY_BYTES]);

#endif /* KVD_CLIENT_KVCTL_MEMBERS_H */
