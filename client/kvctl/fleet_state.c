/* SPDX-License-Identifier: MIT */
/* Asks a fleet for its state: see fleet_state.h. */
#include "client/kvctl/fleet_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/report.h"

static void text_of(const char *stats, const char *name, char *to, size_t size)
{
	struct stats_line line;

	*to = '\0';
	if (stats_find(stats, name, strlen(name), &line))
		snprintf(to, size, "%.*s", (int)line.value_len, line.value);
}

/* text_of() a statistic that is "none" without a text. */
static void maybe_text_of(const char *stats, const char *name, char *to, size_t size)
{
	text_of(stats, name, to, size);
	if (!strcmp(to, "none"))
		*to = '\0';
}

/* Asks the member for its statistics. */
static void one_ask(struct one *one, const struct arguments *arguments)
{
	static char stats[STATS_BYTES];
	struct stats_line line;

	one->answers = member_stats(one->member, arguments, stats);
	if (!one->answers)
		return;
	one->epoch = stats_number(stats, "fleet_epoch");
	one->served = stats_number(stats, "fleet_shards_served");
	one->items = stats_number(stats, "items");
	one->memory = stats_number(stats, "item_memory_bytes");
	one->has_lease = stats_find(stats, "fleet_lease_ms", strlen("fleet_lease_ms"), &line) &&
			 stats_line_number(&line, &one->lease_ms);
	one->controls = stats_number(stats, "fleet_controller");
	maybe_text_of(stats, "fleet_waits", one->waits, sizeof(one->waits));
	one->moves_left = stats_number(stats, "fleet_moves_left");
	one->moved = stats_number(stats, "fleet_moved_shards");
	one->moves_failed = stats_number(stats, "fleet_moves_failed");
	maybe_text_of(stats, "fleet_move_to", one->move_to, sizeof(one->move_to));
	maybe_text_of(stats, "fleet_move_state", one->move_state, sizeof(one->move_state));
	maybe_text_of(stats, "fleet_move_why", one->move_why, sizeof(one->move_why));
	text_of(stats, "version", one->version, sizeof(one->version));
}

int fleet_state_read(struct fleet_state *fleet, struct kvd *db, const char *url)
{
	int code = members_read(&fleet->members, db, url);

	fleet->db = db;
	if (code)
		return code;
	fleet->ones = calloc(fleet->members.info.members + 1, sizeof(*fleet->ones));
	for (uint32_t i = 0; fleet->ones && i < fleet->members.info.members; i++)
		fleet->ones[i].member = &fleet->members.list[i];
	return fleet->ones ? EX_OK : report_memory();
}

void fleet_state_release(struct fleet_state *fleet)
{
	members_release(&fleet->members);
	free(fleet->ones);
}

void fleet_state_ask(struct fleet_state *fleet, const struct arguments *arguments)
{
	for (uint32_t i = 0; i < fleet->members.info.members; i++) {
		struct one *one = &fleet->ones[i];

		one_ask(one, arguments);
		member_close(one->member);
		fleet->leases |= one->has_lease;
		if (!one->has_lease || one->lease_ms)
			fleet->served += one->served;
		if (one->controls)
			fleet->controller = one;
	}
}

const char *fleet_state_text(const struct one *one)
{
	if (!one->answers)
		return "away";
	if (one->has_lease && !one->lease_ms)
		return "no lease";
	return one->member->map.flags & KVD_FLEET_MEMBER_DRAINED ? "drained" : "up";
}

uint64_t fleet_state_not_served(const struct fleet_state *fleet)
{
	const struct kvd_fleet_info *info = &fleet->members.info;
	const uint64_t known = fleet->served + info->unowned;

	return known < info->shards ? info->shards - known : 0;
}

static bool one_problem(const struct one *one, char text[FLEET_PROBLEM_BYTES])
{
	const char *id = one->member->map.id;

	if (!one->answers)
		snprintf(text, FLEET_PROBLEM_BYTES, "%s is away: %s", id, one->member->why);
	else if (*one->waits)
		snprintf(text, FLEET_PROBLEM_BYTES, "%s: %s", id, one->waits);
	else if (one->has_lease && !one->lease_ms)
		snprintf(text, FLEET_PROBLEM_BYTES, "%s has no lease: see its log", id);
	else
		return false;
	return true;
}

/* Something that may be wrong with the whole fleet. */
static bool whole_problem(const struct fleet_state *fleet, uint32_t number,
			  char text[FLEET_PROBLEM_BYTES])
{
	const uint64_t not_served = fleet_state_not_served(fleet);

	switch (number) {
	case 0:
		snprintf(text, FLEET_PROBLEM_BYTES, "%u shards have no owner yet",
			 fleet->members.info.unowned);
		return fleet->members.info.unowned;
	case 1:
		snprintf(text, FLEET_PROBLEM_BYTES,
			 "%" PRIu64 " shards are not served by their owners", not_served);
		return not_served;
	default:
		snprintf(text, FLEET_PROBLEM_BYTES, "no member is the controller");
		return fleet->leases && !fleet->controller;
	}
}
#define WHOLE_PROBLEMS 3u

bool fleet_state_problem(const struct fleet_state *fleet, uint32_t *at,
			 char text[FLEET_PROBLEM_BYTES])
{
	const uint32_t members = fleet->members.info.members;

	while (*at < members + WHOLE_PROBLEMS) {
		const uint32_t i = (*at)++;

		if (i < members ? one_problem(&fleet->ones[i], text) :
				  whole_problem(fleet, i - members, text))
			return true;
	}
	return false;
}
