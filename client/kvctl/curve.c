/* SPDX-License-Identifier: MIT */
/* kvctl curve: how many GETs would hit with less memory, and with more, as the server estimates. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/json.h"
#include "client/kvctl/progress.h"
#include "client/kvctl/report.h"
#include "client/kvctl/stats_text.h"

#define PREFIX "curve."
#define HITS ".hits"

struct curve {
	const char *stats;
	uint64_t gets;	/* of the sample */
	uint64_t bytes; /* of the item memory */
};

/* Reads the next point of the curve from the text at *@at. False: there is none. */
static bool point_next(const struct curve *curve, const char **at, uint64_t *percent, double *ratio)
{
	struct stats_line line;
	uint64_t hits;
	char *end;

	while (stats_line_next(at, &line)) {
		if (strncmp(line.name, PREFIX, strlen(PREFIX)) || !stats_line_number(&line, &hits))
			continue;
		*percent = strtoull(line.name + strlen(PREFIX), &end, 10);
		if ((size_t)(line.name + line.name_len - end) != strlen(HITS) ||
		    memcmp(end, HITS, strlen(HITS)))
			continue;
		*ratio = curve->gets ? (double)hits / (double)curve->gets : 0;
		return true;
	}
	return false;
}

static double measured(const struct curve *curve)
{
	uint64_t gets = stats_number(curve->stats, "gets");

	return gets ? (double)stats_number(curve->stats, "get_hits") / (double)gets : 0;
}

static void print_json(const struct curve *curve)
{
	const char *at = curve->stats;
	struct json json;
	uint64_t percent;
	double ratio;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	json_number(&json, "keys", stats_number(curve->stats, "curve.keys"));
	json_number(&json, "one_in", stats_number(curve->stats, "curve.one_in"));
	json_number(&json, "gets", curve->gets);
	json_double(&json, "measured", measured(curve), 4);
	json_open(&json, "points", '[');
	while (point_next(curve, &at, &percent, &ratio)) {
		json_open(&json, NULL, '{');
		json_number(&json, "percent", percent);
		json_number(&json, "bytes", curve->bytes / 100 * percent);
		json_double(&json, "hit_ratio", ratio, 4);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	json_end(&json);
}

static void print_text(const struct curve *curve)
{
	const char *at = curve->stats;
	uint64_t percent;
	char bytes[16];
	double ratio;

	printf("estimated from one key in %" PRIu64 ": %" PRIu64 " keys, %" PRIu64 " GETs%s\n",
	       stats_number(curve->stats, "curve.one_in"), stats_number(curve->stats, "curve.keys"),
	       curve->gets, curve->gets ? "" : ": none yet");
	if (!curve->gets)
		return;
	printf("\n%8s %12s %10s\n", "memory", "bytes", "GETs hit");
	while (point_next(curve, &at, &percent, &ratio))
		printf("%6" PRIu64 " %% %12s %8.1f %%\n", percent,
		       bytes_text(bytes, (double)curve->bytes / 100 * (double)percent),
		       100 * ratio);
	printf("\n%.1f %% of all GETs since the start hit\n", 100 * measured(curve));
}

int command_curve(struct kvd *db, const struct arguments *arguments)
{
	static char text[STATS_BYTES];
	struct curve curve = { .stats = text };
	struct stats_line line;
	int code = report(db, kvd_server_stats(db, text, sizeof(text), NULL));

	if (code)
		return code;
	if (!stats_find(text, "curve.gets", strlen("curve.gets"), &line)) {
		report_error("the server estimates no curve: set memory.curve = yes in its "
			     "configuration, and restart it");
		return EX_SOFTWARE;
	}
	curve.gets = stats_number(text, "curve.gets");
	curve.bytes = stats_number(text, "item_memory_bytes");
	(arguments->json.given ? print_json : print_text)(&curve);
	return EX_OK;
}
