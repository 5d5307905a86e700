/* SPDX-License-Identifier: MIT */
/* kvctl scan and count: the keys of a server. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/failures.h"
#include "client/kvctl/glob.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/json.h"
#include "client/kvctl/key.h"
#include "client/kvctl/report.h"

struct scan {
	const struct arguments *arguments;
	bool prints;
	bool shows; /* for people: on a terminal */
	uint64_t keys;
};

static void print_value(const struct scan *scan, const struct kvd_entry *entry)
{
	putchar('\t');
	if (entry->value)
		(scan->shows ? value_show : value_print)(stdout, scan->arguments, entry->value,
							 entry->item.value_len);
	else
		printf("(%zu bytes)", entry->item.value_len);
}

/* A scan does not deliver a value that is too long for a message. */
static void print_json(const struct arguments *arguments, const struct kvd_entry *entry)
{
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	key_json(&json, arguments, entry->key, entry->key_len);
	if (entry->value)
		value_json(&json, arguments, entry->value, entry->item.value_len);
	json_number(&json, "value_bytes", entry->item.value_len);
	json_number(&json, "version", entry->item.version);
	json_number(&json, "flags", entry->item.flags);
	json_number(&json, "expires", entry->item.expires_s);
	json_close(&json, '}');
	json_end(&json);
}

/* Prints a line. Not 0: it could not be written. */
static int take(void *arg, const struct kvd_entry *entry)
{
	struct scan *scan = arg;
	const struct arguments *arguments = scan->arguments;
	const char *match = arguments->match.text;

	if (match &&
	    !glob_matches((const uint8_t *)match, strlen(match), entry->key, entry->key_len))
		return 0;
	scan->keys++;
	if (!scan->prints)
		return 0;
	if (arguments->json.given) {
		print_json(arguments, entry);
		return ferror(stdout);
	}
	(scan->shows ? key_show : key_print)(stdout, arguments, entry->key, entry->key_len);
	if (arguments->verbose.given)
		print_value(scan, entry);
	putchar(arguments->null.given ? '\0' : '\n');
	return ferror(stdout);
}

static int scan_run(struct kvd *db, struct scan *scan)
{
	const struct arguments *arguments = scan->arguments;
	struct kvd_scan_args args = { .values = arguments->verbose.given };
	struct retry retry = { 0 };
	enum kvd_status status;
	struct key prefix;
	uint64_t cursor = 0;
	int code;

	if (arguments->match.given &&
	    (!*arguments->match.text || strlen(arguments->match.text) > KVD_KEY_MAX))
		return usage_error("--match", "a pattern has 1 to 1024 bytes");
	if (arguments->word_count > 0) {
		if (key_parse(&prefix, arguments, arguments->words[0]))
			return EX_USAGE;
		args.prefix = prefix.bytes;
		args.prefix_len = prefix.len;
	}
	do {
		status = kvd_scan(db, &cursor, &args, take, scan);
	} while (retry_goes_on(&retry, status) && (status || cursor) && !ferror(stdout) &&
		 !interrupted());
	code = output_flush();
	return code ? code : report(db, status);
}

int command_scan(struct kvd *db, const struct arguments *arguments)
{
	struct scan scan = {
		.arguments = arguments,
		.prints = true,
		.shows = !arguments->null.given && isatty(STDOUT_FILENO),
	};

	return scan_run(db, &scan);
}

int command_count(struct kvd *db, const struct arguments *arguments)
{
	struct scan scan = { .arguments = arguments };
	const int code = scan_run(db, &scan);

	if (!code)
		printf(arguments->json.given ? "{\"keys\": %" PRIu64 "}\n" : "%" PRIu64 "\n",
		       scan.keys);
	return code;
}
