/* SPDX-License-Identifier: MIT */
/*
 * kvctl stats: the statistics of a server, or of each member of a fleet, in groups for people, as
 * the server sends them for scripts, or as JSON; once or repeatedly.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/json.h"
#include "client/kvctl/members.h"
#include "client/kvctl/progress.h"
#include "client/kvctl/report.h"
#include "client/kvctl/size_classes.h"
#include "client/kvctl/stats_group.h"
#include "client/kvctl/stats_text.h"
#include "common/util/clock.h"

#define NAME_COLUMNS 28
#define SIZE_CLASSES_SHOWN 8u /* without -v */
#define CLEAR "\033[H\033[2J" /* ECMA-48: CUP, ED */

/* The server's statistics, and when they were taken. */
struct snapshot {
	bool is_taken;
	uint64_t at_ns;
	char text[STATS_BYTES];
};

/* The value of a counter in a snapshot; 0 if it is missing. */
static uint64_t number_of(const struct snapshot *snapshot, const struct stats_line *wanted)
{
	struct stats_line line;
	uint64_t number;

	if (!stats_find(snapshot->text, wanted->name, wanted->name_len, &line) ||
	    !stats_line_number(&line, &number))
		return 0;
	return number;
}

static void print_line(const struct stats_line *line, const struct snapshot *now,
		       const struct snapshot *before)
{
	const bool is_bytes = stats_is_bytes(line->name, line->name_len);
	char text[24];
	uint64_t number, old;
	double rate;

	printf("  %-*.*s ", NAME_COLUMNS, (int)line->name_len, line->name);
	if (!stats_line_number(line, &number)) {
		printf("%.*s\n", (int)line->value_len, line->value);
	} else if (before->is_taken && stats_is_counter(line->name, line->name_len)) {
		old = number_of(before, line);
		/* A server that restarted in between counts from 0. */
		rate = (double)(number - (old <= number ? old : 0)) /
		       ((double)(now->at_ns - before->at_ns) / 1e9);
		if (is_bytes)
			printf("%s/s\n", bytes_text(text, rate));
		else
			printf("%.1f/s\n", rate);
	} else if (is_bytes && number >= 1024) {
		printf("%" PRIu64 " (%s)\n", number, bytes_text(text, (double)number));
	} else if (line->name_len == strlen("uptime_s") &&
		   !memcmp(line->name, "uptime_s", line->name_len)) {
		printf("%" PRIu64 " (%s)\n", number, time_text(text, number));
	} else {
		printf("%" PRIu64 "\n", number);
	}
}

/* Hides counters that have not grown, and anything that is 0. */
static bool is_dull(const struct stats_line *line, const struct snapshot *before)
{
	uint64_t number;

	if (!stats_line_number(line, &number))
		return false;
	if (before->is_taken && stats_is_counter(line->name, line->name_len))
		return number == number_of(before, line);
	return !number;
}

/* Prints a table in place of one line for each number. */
static void print_size_classes(const char *text, const char *heading, bool all, bool any)
{
	static struct size_classes classes;
	char row[SIZE_CLASS_ROW_BYTES];
	unsigned int shown;

	size_classes_read(&classes, text);
	if (!classes.count)
		return;
	shown = all || classes.count < SIZE_CLASSES_SHOWN ? classes.count : SIZE_CLASSES_SHOWN;
	printf("%s%s\n  %s\n", any ? "\n" : "", heading, SIZE_CLASSES_HEADING);
	for (unsigned int i = 0; i < shown; i++)
		printf("  %s\n", size_class_text(row, &classes.rows[i]));
	if (shown < classes.count)
		printf("  and %u smaller classes: -v prints them\n", classes.count - shown);
}

static void print_groups(const struct snapshot *now, const struct snapshot *before, bool all)
{
	static const char *const headings[] = {
#define X(name, heading) heading,
		STATS_GROUPS(X)
#undef X
	};
	unsigned int hidden = 0;
	bool any = false;

	for (unsigned int group = 0; group < sizeof(headings) / sizeof(headings[0]); group++) {
		const char *at = now->text;
		bool first = true;
		struct stats_line line;

		if (group == STATS_SIZE_CLASSES) {
			print_size_classes(now->text, headings[group], all, any);
			continue;
		}
		while (stats_line_next(&at, &line)) {
			if (stats_group_of(line.name, line.name_len) != group)
				continue;
			if (!all && is_dull(&line, before)) {
				hidden++;
				continue;
			}
			if (first)
				printf("%s%s\n", any ? "\n" : "", headings[group]);
			first = false;
			any = true;
			print_line(&line, now, before);
		}
	}
	if (hidden)
		printf("\n%u more %s: -v prints them, kvd --help explains all\n", hidden,
		       before->is_taken ? "are 0 or have not grown" : "are 0");
}

static void print_json(const struct snapshot *now)
{
	const char *at = now->text;
	struct stats_line line;
	struct json json;
	char name[64];

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	while (stats_line_next(&at, &line)) {
		snprintf(name, sizeof(name), "%.*s", (int)line.name_len, line.name);
		json_word(&json, name, line.value, line.value_len);
	}
	json_close(&json, '}');
	json_end(&json);
}

static void print(const struct arguments *arguments, const struct snapshot *now,
		  const struct snapshot *before)
{
	if (arguments->json.given)
		print_json(now);
	else if (arguments->raw.given || (!isatty(STDOUT_FILENO) && !arguments->watch.given))
		fputs(now->text, stdout);
	else
		print_groups(now, before, arguments->verbose.given);
}

static void pause_s(uint64_t seconds)
{
	struct timespec left = { .tv_sec = (time_t)seconds };

	while (nanosleep(&left, &left) && errno == EINTR && !interrupted())
		;
}

/* What separates the output from what is there. */
static void print_space(const struct arguments *arguments, bool first)
{
	if (arguments->json.given)
		return;
	if (arguments->watch.given && isatty(STDOUT_FILENO) && !arguments->raw.given)
		fputs(CLEAR, stdout);
	else if (!first)
		putchar('\n');
}

/* A server, or a member of a fleet. */
struct source {
	struct kvd *db;
	struct member *member; /* NULL: `db` is not a fleet's */
	struct snapshot snapshots[2];
};

/* Prints its statistics for time number @i. */
static int source_print(struct source *source, const struct arguments *arguments, uint64_t i)
{
	struct snapshot *now = &source->snapshots[i % 2], *before = &source->snapshots[(i + 1) % 2];

	now->is_taken = false;
	if (source->member && !member_stats(source->member, arguments, now->text)) {
		report_error("%s", source->member->why);
		return EX_UNAVAILABLE;
	}
	if (!source->member) {
		const int code = report(source->db, kvd_server_stats(source->db, now->text,
								     sizeof(now->text), NULL));

		if (code)
			return code;
	}
	now->at_ns = clock_ns();
	now->is_taken = true;
	print(arguments, now, before);
	return EX_OK;
}

/* With --watch a member that is away may come back, so that goes on. */
static int sources_print(struct source *sources, size_t count, const struct arguments *arguments,
			 uint64_t i)
{
	int code = EX_OK, one;

	print_space(arguments, !i);
	for (size_t j = 0; j < count && !interrupted(); j++) {
		if (sources[j].member)
			member_announce(sources[j].member, arguments, !j);
		one = source_print(&sources[j], arguments, i);
		if (one)
			code = one;
	}
	member_announce(NULL, arguments, false);
	return code && sources->member && arguments->watch.given ? EX_OK : code;
}

static int run(struct source *sources, size_t count, const struct arguments *arguments)
{
	const uint64_t times = arguments->count.given ? arguments->count.number :
			       arguments->watch.given ? UINT64_MAX :
							1;
	int code = EX_OK, flushed = EX_OK;

	for (uint64_t i = 0; i < times && !code && !flushed && !interrupted(); i++) {
		if (i)
			pause_s(arguments->watch.number);
		if (interrupted())
			break;
		code = sources_print(sources, count, arguments, i);
		flushed = output_flush();
	}
	return code ? code : flushed;
}

int command_stats(struct kvd *db, const struct arguments *arguments)
{
	struct members members = { .info.members = 1 };
	const bool is_fleet = members_url_is(arguments->server);
	struct source *sources;
	int code;

	if (arguments->count.given && !arguments->watch.given)
		return usage_error("--count", "how often: with --watch");
	code = is_fleet ? members_read(&members, db, arguments->server) : EX_OK;
	if (code)
		return code;
	sources = calloc(members.info.members, sizeof(*sources));
	for (uint32_t i = 0; sources && i < members.info.members; i++) {
		sources[i].db = db;
		sources[i].member = is_fleet ? &members.list[i] : NULL;
	}
	code = sources ? run(sources, members.info.members, arguments) : report_memory();
	free(sources);
	members_release(&members);
	return code;
}
