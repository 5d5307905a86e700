/* SPDX-License-Identifier: MIT */
/* Asks the members of a fleet: see members.h. */
#include "client/kvctl/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/error.h"
#include "client/kvctl/failures.h"
#include "client/kvctl/report.h"
#include "common/util/clock.h"

/* Longest time to connect to one member: several may be away. */
#define CONNECT_MS_MAX 1000u
/* A member with one shard of 16,384 gets a key after some 16,384 tries. */
#define KEY_TRIES (1u << 18)

static const struct {
	const char *member, *fleet;
} schemes[] = {
	{ "rdma://", "fleet://" },
	{ "rdma+tcp://", "fleet+tcp://" },
	{ "rdma+tls://", "fleet+tls://" },
	{ "softnic://", "fleet+softnic://" },
};
#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

static bool begins_with(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* The scheme of the members' URLs; NULL: it is no fleet's URL. */
static const char *scheme_of(const char *url)
{
	for (size_t i = 0; i < SCHEMES; i++)
		if (begins_with(url, schemes[i].fleet))
			return schemes[i].member;
	return NULL;
}

bool members_url_is(const char *url)
{
	return scheme_of(url);
}

bool members_url_make(char to[MEMBERS_URL_BYTES], const char *url, const char *name)
{
	for (size_t i = 0; i < SCHEMES; i++)
		if (begins_with(url, schemes[i].member)) {
			snprintf(to, MEMBERS_URL_BYTES, "%s%s/%s", schemes[i].fleet,
				 url + strlen(schemes[i].member), name);
			return true;
		}
	return false;
}

/* The first of the member's URLs with the scheme. */
static void url_find(struct member *member, const char *scheme)
{
	const char *at = member->map.urls;

	for (;; at++) {
		const size_t len = strcspn(at, ",");

		if (begins_with(at, scheme)) {
			snprintf(member->url, sizeof(member->url), "%.*s", (int)len, at);
			return;
		}
		at += len;
		if (!*at)
			break;
	}
	snprintf(member->why, sizeof(member->why), "it has no URL that begins with %s", scheme);
}

int members_read(struct members *members, struct kvd *fleet, const char *url)
{
	enum kvd_status status = kvd_fleet_info(fleet, &members->info, sizeof(members->info));

	members->list = NULL;
	if (status)
		return report(fleet, status);
	members->list = calloc(members->info.members + 1, sizeof(*members->list));
	if (!members->list)
		return report_memory();
	for (uint32_t i = 0; i < members->info.members && !status; i++) {
		struct member *member = &members->list[i];

		status = kvd_fleet_member(fleet, i, &member->map, sizeof(member->map));
		url_find(member, scheme_of(url));
	}
	if (status)
		members_release(members);
	return report(fleet, status);
}

void members_release(struct members *members)
{
	for (uint32_t i = 0; members->list && i < members->info.members; i++)
		member_close(&members->list[i]);
	free(members->list);
	members->list = NULL;
}

bool member_open(struct member *member, const struct arguments *arguments)
{
	struct kvd_options options = arguments->options;

	if (member->db || !*member->url)
		return member->db;
	if (options.connect_timeout_ms > CONNECT_MS_MAX)
		options.connect_timeout_ms = CONNECT_MS_MAX;
	if (!kvd_open(&member->db, member->url, &options))
		return true;
	snprintf(member->why, sizeof(member->why), "%s", kvd_error(NULL));
	member->db = NULL;
	return false;
}

void member_close(struct member *member)
{
	if (member->db)
		kvd_close(member->db);
	member->db = NULL;
}

bool member_stats(struct member *member, const struct arguments *arguments, char text[STATS_BYTES])
{
	enum kvd_status status;

	if (!member_open(member, arguments))
		return false;
	status = kvd_server_stats(member->db, text, STATS_BYTES, NULL);
	if (status)
		snprintf(member->why, sizeof(member->why), "%s%s%s", kvd_status_text(status),
			 *kvd_error(member->db) ? ": " : "", kvd_error(member->db));
	return !status;
}

void member_announce(const struct member *member, const struct arguments *arguments, bool first)
{
	report_member(member ? member->map.id : NULL);
	if (member && !arguments->json.given)
		printf("%smember %s\n", first ? "" : "\n", member->map.id);
}

uint64_t members_items(struct kvd *db, const struct arguments *arguments)
{
	struct members members;
	uint64_t items = 0;

	if (!members_url_is(arguments->server))
		return server_stat(db, "items");
	if (members_read(&members, db, arguments->server))
		return 0;
	for (uint32_t i = 0; i < members.info.members; i++)
		if (member_open(&members.list[i], arguments))
			items += server_stat(members.list[i].db, "items");
	members_release(&members);
	return items;
}

static int run_at(struct member *member, const struct arguments *arguments,
		  int (*run)(struct kvd *db, const struct arguments *arguments))
{
	struct arguments own = *arguments;
	int code;

	own.server = member->url;
	if (member_open(member, arguments)) {
		code = run(member->db, &own);
	} else {
		report_error("%s", member->why);
		code = EX_UNAVAILABLE;
	}
	member_close(member);
	return code;
}

int members_run(struct kvd *fleet, const struct arguments *arguments,
		int (*run)(struct kvd *db, const struct arguments *arguments))
{
	struct members members;
	int code = members_read(&members, fleet, arguments->server), worst = EX_OK;
	bool found = false;

	for (uint32_t i = 0; !code && i < members.info.members && !output_is_lost(); i++) {
		member_announce(&members.list[i], arguments, !i);
		code = run_at(&members.list[i], arguments, run);
		if (output_flush())
			code = EX_IOERR;
		found |= !code;
		if (code && (!worst || worst == EXIT_NOT_FOUND))
			worst = code;
		code = EX_OK;
	}
	member_announce(NULL, arguments, false);
	if (code)
		return code;
	members_release(&members);
	return worst == EXIT_NOT_FOUND && found ? EX_OK : worst;
}

bool members_key_make(struct kvd *fleet, uint32_t number, const char *prefix,
		      char key[MEMBERS_KEY_BYTES])
{
	struct kvd_fleet_shard shard;
	uint64_t random = clock_ns();
	uint32_t of_key;

	(void)!getrandom(&random, sizeof(random), 0);
	for (unsigned int i = 0; i < KEY_TRIES; i++) {
		snprintf(key, MEMBERS_KEY_BYTES, "%s:%016llx", prefix,
			 (unsigned long long)(random + i));
		if (!fleet)
			return true;
		if (kvd_fleet_key(fleet, key, strlen(key), &of_key) ||
		    kvd_fleet_shard(fleet, of_key, &shard, sizeof(shard)))
			return false;
		if (shard.member == number)
			return true;
	}
	return false;
}
