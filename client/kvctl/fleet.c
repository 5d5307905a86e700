/* SPDX-License-Identifier: MIT */
/* kvctl fleet: a fleet's members, their shards, and what is wrong; drains and rebalances it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/fleet_state.h"
#include "client/kvctl/json.h"
#include "client/kvctl/key.h"
#include "client/kvctl/progress.h"
#include "client/kvctl/report.h"

/* Writes the URL of the fleet whose member the server at @url is: its statistics name it. */
static int url_of_fleet(struct kvd *db, const char *url, char to[MEMBERS_URL_BYTES])
{
	static char stats[STATS_BYTES];
	char name[FLEET_NAME_BYTES] = "none";
	struct stats_line line;
	int code = report(db, kvd_server_stats(db, stats, sizeof(stats), NULL));

	if (code)
		return code;
	if (stats_find(stats, "fleet_name", strlen("fleet_name"), &line))
		snprintf(name, sizeof(name), "%.*s", (int)line.value_len, line.value);
	if (strcmp(name, "none") != 0 && members_url_make(to, url, name))
		return EX_OK;
	report_error("the server at %s is in no fleet: fleet.etcd or fleet.file makes it a member",
		     url);
	return EX_SOFTWARE;
}

/* What the flags of a member say, with commas between them. */
static const char *flags_text(const struct kvd_fleet_member *member, char to[FLEET_NAME_BYTES])
{
	snprintf(to, FLEET_NAME_BYTES, "%s%s%s",
		 member->flags & KVD_FLEET_MEMBER_AWAY ? ",away" : "",
		 member->flags & KVD_FLEET_MEMBER_DRAINED ? ",drained" : "",
		 member->flags & KVD_FLEET_MEMBER_BALANCES ? ",balances" : "");
	return *to ? to + 1 : "none";
}

static void print_head(const struct fleet_state *fleet)
{
	const struct kvd_fleet_info *info = &fleet->members.info;

	printf("fleet %s: epoch %" PRIu64 ", generation %016" PRIx64 "\n", info->name, info->epoch,
	       info->generation);
	printf("%u shards: %" PRIu64 " served", info->shards, fleet->served);
	if (fleet_state_not_served(fleet))
		printf(", %" PRIu64 " not served by their owners", fleet_state_not_served(fleet));
	if (info->unowned)
		printf(", %u without an owner", info->unowned);
	putchar('\n');
	if (fleet->leases)
		printf("controller: %s\n",
		       fleet->controller ? fleet->controller->member->map.id : "none");
}

static void print_members(const struct fleet_state *fleet)
{
	char lease[24], memory[16];

	printf("\n%-24s %-8s %7s %6s %6s %12s %9s  %s\n", "member", "state", "lease", "shards",
	       "served", "items", "memory", "URLs");
	for (uint32_t i = 0; i < fleet->members.info.members; i++) {
		const struct one *one = &fleet->ones[i];

		printf("%-24s %-8s ", one->member->map.id, fleet_state_text(one));
		if (!one->answers) {
			printf("%7s %6u %6s %12s %9s  %s\n", "", one->member->map.shards, "", "",
			       "", one->member->map.urls);
			continue;
		}
		snprintf(lease, sizeof(lease), "%.2f s", (double)one->lease_ms / 1e3);
		printf("%7s %6u %6" PRIu64 " %12" PRIu64 " %9s  %s\n", one->has_lease ? lease : "",
		       one->member->map.shards, one->served, one->items,
		       bytes_text(memory, (double)one->memory), one->member->map.urls);
	}
}

/* Begins a line about what goes on, or is wrong: the first one after @before. */
static void line_begin(unsigned int *count, const char *before)
{
	if (!(*count)++)
		fputs(before, stdout);
}

static void print_moves(const struct fleet_state *fleet)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < fleet->members.info.members; i++) {
		const struct one *one = &fleet->ones[i];

		if (!one->answers || (!one->moves_left && !*one->move_to))
			continue;
		line_begin(&count, "\n");
		printf("%s: %" PRIu64 " shards left to move, %" PRIu64 " moved",
		       one->member->map.id, one->moves_left, one->moved);
		if (*one->move_to)
			printf("; to %s: %s", one->move_to, one->move_state);
		if (*one->move_why)
			printf("; %" PRIu64 " moves failed: %s", one->moves_failed, one->move_why);
		putchar('\n');
	}
}

/* Prints what is wrong, after @before. Returns the number of lines. */
static unsigned int print_problems(const struct fleet_state *fleet, const char *before)
{
	char text[FLEET_PROBLEM_BYTES];
	unsigned int count = 0;
	uint32_t at = 0;

	while (fleet_state_problem(fleet, &at, text)) {
		line_begin(&count, before);
		report_result("%s", text);
	}
	return count;
}

static void flags_json(struct json *json, const struct kvd_fleet_member *member)
{
	json_bool(json, "away", member->flags & KVD_FLEET_MEMBER_AWAY);
	json_bool(json, "drained", member->flags & KVD_FLEET_MEMBER_DRAINED);
	json_bool(json, "balances", member->flags & KVD_FLEET_MEMBER_BALANCES);
}

static void one_json(struct json *json, const struct one *one)
{
	json_open(json, NULL, '{');
	json_text(json, "id", one->member->map.id);
	json_text(json, "state", fleet_state_text(one));
	json_text(json, "urls", one->member->map.urls);
	json_number(json, "weight", one->member->map.weight);
	json_number(json, "shards", one->member->map.shards);
	json_number(json, "open", one->member->map.open);
	flags_json(json, &one->member->map);
	if (one->answers) {
		json_number(json, "epoch", one->epoch);
		if (one->has_lease)
			json_number(json, "lease_ms", one->lease_ms);
		json_number(json, "served", one->served);
		json_number(json, "items", one->items);
		json_number(json, "memory", one->memory);
		json_text(json, "waits", one->waits);
		json_number(json, "moves_left", one->moves_left);
		json_number(json, "moved", one->moved);
		json_number(json, "moves_failed", one->moves_failed);
		json_text(json, "move_to", one->move_to);
		json_text(json, "move_state", one->move_state);
		json_text(json, "move_why", one->move_why);
	} else {
		json_text(json, "why", one->member->why);
	}
	json_close(json, '}');
}

static void status_json(const struct fleet_state *fleet)
{
	char generation[17];
	struct json json;

	snprintf(generation, sizeof(generation), "%016" PRIx64, fleet->members.info.generation);
	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	json_text(&json, "name", fleet->members.info.name);
	json_number(&json, "epoch", fleet->members.info.epoch);
	json_text(&json, "generation", generation);
	json_number(&json, "shards", fleet->members.info.shards);
	json_number(&json, "served", fleet->served);
	json_number(&json, "unowned", fleet->members.info.unowned);
	if (fleet->controller)
		json_text(&json, "controller", fleet->controller->member->map.id);
	json_open(&json, "members", '[');
	for (uint32_t i = 0; i < fleet->members.info.members; i++)
		one_json(&json, &fleet->ones[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	json_end(&json);
}

static int fleet_status(struct fleet_state *fleet, const struct arguments *arguments)
{
	fleet_state_ask(fleet, arguments);
	if (arguments->json.given) {
		status_json(fleet);
		return EX_OK;
	}
	print_head(fleet);
	print_members(fleet);
	print_moves(fleet);
	print_problems(fleet, "\n");
	return EX_OK;
}

static int fleet_health(struct fleet_state *fleet, const struct arguments *arguments)
{
	fleet_state_ask(fleet, arguments);
	if (print_problems(fleet, ""))
		return EXIT_ERRORS;
	printf("fleet %s: %u members serve all %u shards\n", fleet->members.info.name,
	       fleet->members.info.members, fleet->members.info.shards);
	return EX_OK;
}

/* By the map alone. */
static int fleet_members(struct fleet_state *fleet, const struct arguments *arguments)
{
	char flags[FLEET_NAME_BYTES];
	struct json json;

	for (uint32_t i = 0; i < fleet->members.info.members; i++) {
		const struct kvd_fleet_member *member = &fleet->members.list[i].map;

		if (arguments->json.given) {
			json_begin(&json, stdout);
			json_open(&json, NULL, '{');
			json_text(&json, "id", member->id);
			json_number(&json, "weight", member->weight);
			json_number(&json, "shards", member->shards);
			json_number(&json, "open", member->open);
			flags_json(&json, member);
			json_text(&json, "urls", member->urls);
			json_close(&json, '}');
			json_end(&json);
			continue;
		}
		printf("id=%s weight=%u shards=%u open=%u flags=%s urls=%s\n", member->id,
		       member->weight, member->shards, member->open, flags_text(member, flags),
		       member->urls);
	}
	return EX_OK;
}

static const char *owner_text(const struct fleet_state *fleet, const struct kvd_fleet_shard *shard)
{
	return shard->member < fleet->members.info.members ?
		       fleet->members.list[shard->member].map.id :
		       "no owner";
}

static void print_shards(const struct fleet_state *fleet, const struct arguments *arguments,
			 uint32_t first, uint32_t last, const struct kvd_fleet_shard *shard)
{
	struct json json;

	if (!arguments->json.given) {
		printf("%5u-%-5u %-24s %-6s since %" PRIu64 "\n", first, last,
		       owner_text(fleet, shard), shard->open ? "open" : "closed", shard->since);
		return;
	}
	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	json_number(&json, "first", first);
	json_number(&json, "last", last);
	json_text(&json, "owner", owner_text(fleet, shard));
	json_bool(&json, "open", shard->open);
	json_number(&json, "since", shard->since);
	json_close(&json, '}');
	json_end(&json);
}

static bool is_same(const struct kvd_fleet_shard *a, const struct kvd_fleet_shard *b)
{
	return a->member == b->member && a->open == b->open && a->since == b->since;
}

/* All shards, neighbours of one owner in a line. */
static int map_all(const struct fleet_state *fleet, const struct arguments *arguments)
{
	struct kvd_fleet_shard before = { 0 }, shard;
	uint32_t first = 0, i;

	for (i = 0; i < fleet->members.info.shards; i++, before = shard) {
		if (kvd_fleet_shard(fleet->db, i, &shard, sizeof(shard)))
			return report(fleet->db, KVD_ERR_INVALID);
		if (i && !is_same(&before, &shard)) {
			print_shards(fleet, arguments, first, i - 1, &before);
			first = i;
		}
	}
	print_shards(fleet, arguments, first, i - 1, &before);
	return EX_OK;
}

/* Where these keys are. */
static int map_keys(const struct fleet_state *fleet, const struct arguments *arguments)
{
	struct kvd_fleet_shard shard;
	enum kvd_status status;
	struct key key;
	uint32_t number;

	for (int i = 1; i < arguments->word_count; i++) {
		if (key_parse(&key, arguments, arguments->words[i]))
			return EX_USAGE;
		status = kvd_fleet_key(fleet->db, key.bytes, key.len, &number);
		if (!status)
			status = kvd_fleet_shard(fleet->db, number, &shard, sizeof(shard));
		if (status)
			return report_of(fleet->db, arguments->words[i], status);
		if (arguments->json.given) {
			print_shards(fleet, arguments, number, number, &shard);
			continue;
		}
		key_show(stdout, arguments, key.bytes, key.len);
		printf(": shard %u, %s, %s\n", number, owner_text(fleet, &shard),
		       shard.open ? "open" : "closed");
	}
	return EX_OK;
}

static int fleet_map(struct fleet_state *fleet, const struct arguments *arguments)
{
	return arguments->word_count > 1 ? map_keys(fleet, arguments) : map_all(fleet, arguments);
}

static int fleet_drain(struct fleet_state *fleet, const struct arguments *arguments)
{
	const char *id = arguments->words[1];
	const int code = report(fleet->db, kvd_fleet_drain(fleet->db, id));

	if (!code)
		printf("%s gives its shards to other members, and can be stopped when it has none: "
		       "kvctl fleet status shows how many are left\n",
		       id);
	return code;
}

static int fleet_undrain(struct fleet_state *fleet, const struct arguments *arguments)
{
	const char *id = arguments->words[1];
	const int code = report(fleet->db, kvd_fleet_undrain(fleet->db, id));

	if (!code)
		printf("%s keeps the shards that it has: kvctl fleet rebalance gives it its "
		       "share\n",
		       id);
	return code;
}

static int fleet_rebalance(struct fleet_state *fleet, const struct arguments *arguments)
{
	const int code = report(fleet->db, kvd_fleet_rebalance(fleet->db));

	(void)arguments;
	if (!code)
		puts("each member gets its share of the shards: kvctl fleet status shows how many "
		     "are left to move");
	return code;
}

static const struct {
	const char *name;
	int words_min, words_max;
	int (*run)(struct fleet_state *fleet, const struct arguments *arguments);
} actions[] = {
	{ "status", 1, 1, fleet_status },	{ "members", 1, 1, fleet_members },
	{ "map", 1, WORDS_ANY, fleet_map },	{ "health", 1, 1, fleet_health },
	{ "drain", 2, 2, fleet_drain },		{ "undrain", 2, 2, fleet_undrain },
	{ "rebalance", 1, 1, fleet_rebalance },
};
#define ACTIONS (sizeof(actions) / sizeof(actions[0]))

/* With a handle of the fleet. */
static int fleet_run(struct kvd *db, const char *url, const struct arguments *arguments,
		     size_t action)
{
	struct fleet_state fleet = { 0 };
	int code = fleet_state_read(&fleet, db, url);

	if (!code)
		code = actions[action].run(&fleet, arguments);
	fleet_state_release(&fleet);
	return code;
}

int command_fleet(struct kvd *db, const struct arguments *arguments)
{
	const char *name = arguments->words[0];
	char url[MEMBERS_URL_BYTES];
	size_t action = 0;
	struct kvd *fleet;
	int code;

	if (!strcmp(name, "init") || !strcmp(name, "adopt"))
		return usage_error(name, "kvd does that, with its configuration, which names etcd: "
					 "kvd --fleet-init, kvd --fleet-adopt");
	while (action < ACTIONS && strcmp(name, actions[action].name) != 0)
		action++;
	if (action == ACTIONS || arguments->word_count < actions[action].words_min ||
	    arguments->word_count > actions[action].words_max)
		return usage_error(name, "status, members, map [KEY...], health, drain ID, undrain "
					 "ID or rebalance");
	if (members_url_is(arguments->server))
		return fleet_run(db, arguments->server, arguments, action);
	code = url_of_fleet(db, arguments->server, url);
	if (code)
		return code;
	if (kvd_open(&fleet, url, &arguments->options)) {
		report_error("%s: %s", url, kvd_error(NULL));
		return EX_UNAVAILABLE;
	}
	code = fleet_run(fleet, url, arguments, action);
	kvd_close(fleet);
	return code;
}
