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
#include "client/kvctl/json.h"
#include "client/kvctl/key.h"
#include "client/kvctl/progress.h"
#include "client/kvctl/report.h"
#include "client/kvctl/stats_text.h"

/* Longest time to connect to one member: several may be away. */
#define CONNECT_MS_MAX 1000u
#define URL_BYTES 1024
#define NAME_BYTES 32

/* A member as the map has it, and as it says itself. */
struct one {
	struct kvd_fleet_member member;
	bool answers;
	char why[256]; /* if it does not */
	uint64_t epoch, lease_ms, served, items, memory;
	bool has_lease; /* of etcd; false: the map is a file's */
	bool controls;
	char waits[160];
	/* Moves from it to others. */
	uint64_t moves_left, moved,
		moves_failed; /* shards that should be elsewhere; shards; moves */
	char move_to[NAME_BYTES], move_state[NAME_BYTES]; /* "": none is under way */
	char move_why[160]; /* why the last one failed; "": it did not */
};

struct fleet {
	const char *url, *scheme; /* of the fleet, and of its members */
	struct kvd *db;
	struct kvd_fleet_info info;
	struct one *ones; /* info.members */
	uint64_t served;
	const struct one *controller; /* NULL: none is known */
	bool leases;		      /* members have leases of etcd */
};

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

/* Writes the URL of the fleet whose member the server at @url is: its statistics name it. */
static int url_of_fleet(struct kvd *db, const char *url, char to[URL_BYTES])
{
	static char stats[STATS_BYTES];
	char name[NAME_BYTES];
	int code = report(db, kvd_server_stats(db, stats, sizeof(stats), NULL));

	if (code)
		return code;
	text_of(stats, "fleet_name", name, sizeof(name));
	for (size_t i = 0; *name && i < SCHEMES; i++)
		if (begins_with(url, schemes[i].member)) {
			snprintf(to, URL_BYTES, "%s%s/%s", schemes[i].fleet,
				 url + strlen(schemes[i].member), name);
			return EX_OK;
		}
	report_error("the server at %s is in no fleet: fleet.etcd or fleet.file makes it a member",
		     url);
	return EX_SOFTWARE;
}

/* The first of the member's URLs that is of the fleet's kind. False: there is none. */
static bool member_url(const struct fleet *fleet, const struct one *one, char to[URL_BYTES])
{
	const char *at = one->member.urls;

	for (;;) {
		const size_t len = strcspn(at, ",");

		if (begins_with(at, fleet->scheme)) {
			snprintf(to, URL_BYTES, "%.*s", (int)len, at);
			return true;
		}
		if (!at[len])
			return false;
		at += len + 1;
	}
}

/* Asks the member for its statistics. */
static void one_ask(const struct fleet *fleet, const struct arguments *arguments, struct one *one)
{
	static char stats[STATS_BYTES];
	struct kvd_options options = arguments->options;
	struct kvd *db = NULL;
	struct stats_line line;
	char url[URL_BYTES];

	if (!member_url(fleet, one, url)) {
		snprintf(one->why, sizeof(one->why), "it has no URL that begins with %s",
			 fleet->scheme);
		return;
	}
	if (options.connect_timeout_ms > CONNECT_MS_MAX)
		options.connect_timeout_ms = CONNECT_MS_MAX;
	if (kvd_open(&db, url, &options) || kvd_server_stats(db, stats, sizeof(stats), NULL)) {
		snprintf(one->why, sizeof(one->why), "%s", kvd_error(db));
		kvd_close(db);
		return;
	}
	kvd_close(db);
	one->answers = true;
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
}

static void fleet_ask(struct fleet *fleet, const struct arguments *arguments)
{
	for (uint32_t i = 0; i < fleet->info.members; i++) {
		struct one *one = &fleet->ones[i];

		one_ask(fleet, arguments, one);
		fleet->leases |= one->has_lease;
		if (!one->has_lease || one->lease_ms)
			fleet->served += one->served;
		if (one->controls)
			fleet->controller = one;
	}
}

static const char *state_text(const struct one *one)
{
	if (!one->answers)
		return "away";
	if (one->has_lease && !one->lease_ms)
		return "no lease";
	return one->member.flags & KVD_FLEET_MEMBER_DRAINED ? "drained" : "up";
}

/* What the flags of a member say, with commas between them. */
static const char *flags_text(const struct kvd_fleet_member *member, char to[NAME_BYTES])
{
	snprintf(to, NAME_BYTES, "%s%s%s", member->flags & KVD_FLEET_MEMBER_AWAY ? ",away" : "",
		 member->flags & KVD_FLEET_MEMBER_DRAINED ? ",drained" : "",
		 member->flags & KVD_FLEET_MEMBER_BALANCES ? ",balances" : "");
	return *to ? to + 1 : "none";
}

static void print_head(const struct fleet *fleet)
{
	const struct kvd_fleet_info *info = &fleet->info;

	printf("fleet %s: epoch %" PRIu64 ", generation %016" PRIx64 "\n", info->name, info->epoch,
	       info->generation);
	printf("%u shards: %" PRIu64 " served", info->shards, fleet->served);
	if (fleet->served + info->unowned < info->shards)
		printf(", %" PRIu64 " not served by their owners",
		       info->shards - info->unowned - fleet->served);
	if (info->unowned)
		printf(", %u without an owner", info->unowned);
	putchar('\n');
	if (fleet->leases)
		printf("controller: %s\n",
		       fleet->controller ? fleet->controller->member.id : "none");
}

static void print_members(const struct fleet *fleet)
{
	char lease[24], memory[16];

	printf("\n%-24s %-8s %7s %6s %6s %12s %9s  %s\n", "member", "state", "lease", "shards",
	       "served", "items", "memory", "URLs");
	for (uint32_t i = 0; i < fleet->info.members; i++) {
		const struct one *one = &fleet->ones[i];

		printf("%-24s %-8s ", one->member.id, state_text(one));
		if (!one->answers) {
			printf("%7s %6u %6s %12s %9s  %s\n", "", one->member.shards, "", "", "",
			       one->member.urls);
			continue;
		}
		snprintf(lease, sizeof(lease), "%.2f s", (double)one->lease_ms / 1e3);
		printf("%7s %6u %6" PRIu64 " %12" PRIu64 " %9s  %s\n", one->has_lease ? lease : "",
		       one->member.shards, one->served, one->items,
		       bytes_text(memory, (double)one->memory), one->member.urls);
	}
}

/* Begins a line about what goes on, or is wrong: the first one after @before. */
static void line_begin(unsigned int *count, const char *before)
{
	if (!(*count)++)
		fputs(before, stdout);
}

static void print_moves(const struct fleet *fleet)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < fleet->info.members; i++) {
		const struct one *one = &fleet->ones[i];

		if (!one->answers || (!one->moves_left && !*one->move_to))
			continue;
		line_begin(&count, "\n");
		printf("%s: %" PRIu64 " shards left to move, %" PRIu64 " moved", one->member.id,
		       one->moves_left, one->moved);
		if (*one->move_to)
			printf("; to %s: %s", one->move_to, one->move_state);
		if (*one->move_why)
			printf("; %" PRIu64 " moves failed: %s", one->moves_failed, one->move_why);
		putchar('\n');
	}
}

static void print_problem_of(const struct one *one, unsigned int *count, const char *before)
{
	const char *id = one->member.id;

	if (one->answers && !*one->waits && (!one->has_lease || one->lease_ms))
		return;
	line_begin(count, before);
	if (!one->answers)
		printf("%s is away: %s\n", id, one->why);
	else if (*one->waits)
		printf("%s: %s\n", id, one->waits);
	else
		printf("%s has no lease: see its log\n", id);
}

/* Prints what is wrong, after @before. Returns the number of lines. */
static unsigned int print_problems(const struct fleet *fleet, const char *before)
{
	const struct kvd_fleet_info *info = &fleet->info;
	unsigned int count = 0;

	for (uint32_t i = 0; i < info->members; i++)
		print_problem_of(&fleet->ones[i], &count, before);
	if (info->unowned) {
		line_begin(&count, before);
		printf("%u shards have no owner yet\n", info->unowned);
	}
	if (fleet->served + info->unowned < info->shards) {
		line_begin(&count, before);
		printf("%" PRIu64 " shards are not served by their owners\n",
		       info->shards - info->unowned - fleet->served);
	}
	if (fleet->leases && !fleet->controller) {
		line_begin(&count, before);
		printf("no member is the controller\n");
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
	json_text(json, "id", one->member.id);
	json_text(json, "state", state_text(one));
	json_text(json, "urls", one->member.urls);
	json_number(json, "weight", one->member.weight);
	json_number(json, "shards", one->member.shards);
	json_number(json, "open", one->member.open);
	flags_json(json, &one->member);
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
		json_text(json, "why", one->why);
	}
	json_close(json, '}');
}

static void status_json(const struct fleet *fleet)
{
	char generation[17];
	struct json json;

	snprintf(generation, sizeof(generation), "%016" PRIx64, fleet->info.generation);
	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	json_text(&json, "name", fleet->info.name);
	json_number(&json, "epoch", fleet->info.epoch);
	json_text(&json, "generation", generation);
	json_number(&json, "shards", fleet->info.shards);
	json_number(&json, "served", fleet->served);
	json_number(&json, "unowned", fleet->info.unowned);
	if (fleet->controller)
		json_text(&json, "controller", fleet->controller->member.id);
	json_open(&json, "members", '[');
	for (uint32_t i = 0; i < fleet->info.members; i++)
		one_json(&json, &fleet->ones[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	json_end(&json);
}

static int fleet_status(struct fleet *fleet, const struct arguments *arguments)
{
	fleet_ask(fleet, arguments);
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

static int fleet_health(struct fleet *fleet, const struct arguments *arguments)
{
	fleet_ask(fleet, arguments);
	if (print_problems(fleet, ""))
		return EXIT_ERRORS;
	printf("fleet %s: %u members serve all %u shards\n", fleet->info.name, fleet->info.members,
	       fleet->info.shards);
	return EX_OK;
}

/* By the map alone. */
static int fleet_members(struct fleet *fleet, const struct arguments *arguments)
{
	char flags[NAME_BYTES];
	struct json json;

	for (uint32_t i = 0; i < fleet->info.members; i++) {
		const struct kvd_fleet_member *member = &fleet->ones[i].member;

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

static const char *owner_text(const struct fleet *fleet, const struct kvd_fleet_shard *shard)
{
	return shard->member < fleet->info.members ? fleet->ones[shard->member].member.id :
						     "no owner";
}

static void print_shards(const struct fleet *fleet, const struct arguments *arguments,
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
static int map_all(const struct fleet *fleet, const struct arguments *arguments)
{
	struct kvd_fleet_shard before = { 0 }, shard;
	uint32_t first = 0, i;

	for (i = 0; i < fleet->info.shards; i++, before = shard) {
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
static int map_keys(const struct fleet *fleet, const struct arguments *arguments)
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

static int fleet_map(struct fleet *fleet, const struct arguments *arguments)
{
	return arguments->word_count > 1 ? map_keys(fleet, arguments) : map_all(fleet, arguments);
}

static int fleet_drain(struct fleet *fleet, const struct arguments *arguments)
{
	const char *id = arguments->words[1];
	const int code = report(fleet->db, kvd_fleet_drain(fleet->db, id));

	if (!code)
		printf("%s gives its shards to other members, and can be stopped when it has none: "
		       "kvctl fleet status shows how many are left\n",
		       id);
	return code;
}

static int fleet_undrain(struct fleet *fleet, const struct arguments *arguments)
{
	const char *id = arguments->words[1];
	const int code = report(fleet->db, kvd_fleet_undrain(fleet->db, id));

	if (!code)
		printf("%s keeps the shards that it has: kvctl fleet rebalance gives it its "
		       "share\n",
		       id);
	return code;
}

static int fleet_rebalance(struct fleet *fleet, const struct arguments *arguments)
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
	int (*run)(struct fleet *fleet, const struct arguments *arguments);
} actions[] = {
	{ "status", 1, 1, fleet_status },	{ "members", 1, 1, fleet_members },
	{ "map", 1, WORDS_ANY, fleet_map },	{ "health", 1, 1, fleet_health },
	{ "drain", 2, 2, fleet_drain },		{ "undrain", 2, 2, fleet_undrain },
	{ "rebalance", 1, 1, fleet_rebalance },
};
#define ACTIONS (sizeof(actions) / sizeof(actions[0]))

/* With a handle of the fleet. */
static int fleet_run(struct fleet *fleet, const struct arguments *arguments, size_t action)
{
	enum kvd_status status = KVD_OK;
	int code = report(fleet->db, kvd_fleet_info(fleet->db, &fleet->info, sizeof(fleet->info)));

	if (code)
		return code;
	fleet->ones = calloc(fleet->info.members + 1, sizeof(*fleet->ones));
	if (!fleet->ones)
		return report_memory();
	for (uint32_t i = 0; i < fleet->info.members && !status; i++)
		status = kvd_fleet_member(fleet->db, i, &fleet->ones[i].member,
					  sizeof(fleet->ones[i].member));
	for (size_t i = 0; i < SCHEMES; i++)
		if (begins_with(fleet->url, schemes[i].fleet))
			fleet->scheme = schemes[i].member;
	code = status ? report(fleet->db, status) : actions[action].run(fleet, arguments);
	free(fleet->ones);
	return code;
}

int command_fleet(struct kvd *db, const struct arguments *arguments)
{
	struct fleet fleet = { .db = db, .url = arguments->server };
	char url[URL_BYTES];
	size_t action = 0;
	int code;

	while (action < ACTIONS && strcmp(arguments->words[0], actions[action].name) != 0)
		action++;
	if (action == ACTIONS || arguments->word_count < actions[action].words_min ||
	    arguments->word_count > actions[action].words_max)
		return usage_error(arguments->words[0],
				   "status, members, map [KEY...], health, drain ID, undrain ID "
				   "or rebalance");
	if (begins_with(fleet.url, "fleet"))
		return fleet_run(&fleet, arguments, action);
	code = url_of_fleet(db, fleet.url, url);
	if (code)
		return code;
	fleet.url = url;
	if (kvd_open(&fleet.db, url, &arguments->options)) {
		report_error("%s: %s", url, kvd_error(NULL));
		return EX_UNAVAILABLE;
	}
	code = fleet_run(&fleet, arguments, action);
	kvd_close(fleet.db);
	return code;
}
