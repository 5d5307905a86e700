/* SPDX-License-Identifier: MIT */
/*
 * kvctl dump: all keys of a server, or some, to a file. A scan delivers keys and short values, and
 * GETs the others. What is in the file, and how consistent that is: DUMP.md.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/dump_writer.h"
#include "client/kvctl/error.h"
#include "client/kvctl/failures.h"
#include "client/kvctl/fetch.h"
#include "client/kvctl/glob.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/json.h"
#include "client/kvctl/key.h"
#include "client/kvctl/members.h"
#include "client/kvctl/progress.h"
#include "client/kvctl/report.h"
#include "common/util/clock.h"

/* Calls of the scan before values are fetched; a resumed dump repeats the keys that waited. */
#define SCANS_MAX 32u

#define WRITTEN "what was written is in %s; --resume continues it"

struct dump {
	struct kvd *db;
	struct dump_writer writer;
	struct dump_header header;
	uint8_t filter[2 * DUMP_FILTER_MAX];
	struct fetch fetch;
	struct progress progress;
	struct failures failures;
	uint64_t incarnation;
	uint64_t gone; /* keys that were removed before their value was read */
	int code;      /* the exit status, once the reason was printed */
};

static int stop_at_interrupt(struct dump *dump)
{
	progress_end(&dump->progress);
	if (dump->writer.partial)
		report_about("kvctl: interrupted: " WRITTEN, dump->writer.partial);
	else
		report_about("kvctl: interrupted");
	return dump->code = EXIT_INTERRUPTED;
}

static int stop_at_write(struct dump *dump)
{
	if (interrupted())
		return stop_at_interrupt(dump);
	progress_end(&dump->progress);
	report_error("%s%s", dump->writer.why,
		     dump->writer.partial && dump->writer.offset ?
			     "; what was written stays there; --resume continues it" :
			     "");
	return dump->code = EX_IOERR;
}

static int stop_at_call(struct dump *dump, enum kvd_status status)
{
	progress_end(&dump->progress);
	dump->code = report(dump->db, status);
	if (dump->writer.partial)
		report_about("kvctl: " WRITTEN, dump->writer.partial);
	return dump->code;
}

static int stop_at_restart(struct dump *dump)
{
	progress_end(&dump->progress);
	report_error("the server has restarted, and its keys are gone: start the dump again");
	return dump->code = EX_SOFTWARE;
}

static int write_entry(struct dump *dump, const struct kvd_entry *entry)
{
	const struct dump_entry record = {
		.key = entry->key,
		.key_len = (uint32_t)entry->key_len,
		.value = entry->value,
		.value_len = (uint32_t)entry->item.value_len,
		.flags = entry->item.flags,
		.expires_s = entry->item.expires_s,
	};

	if (dump_writer_add(&dump->writer, &record))
		return stop_at_write(dump);
	dump->progress.keys++;
	dump->progress.bytes += entry->key_len + entry->item.value_len;
	progress_show(&dump->progress);
	return 0;
}

/* Receives a GET's result. */
static int take_fetched(void *arg, const struct kvd_entry *entry, enum kvd_status status)
{
	struct dump *dump = arg;

	if (status == KVD_OK)
		return write_entry(dump, entry);
	if (status == KVD_NOT_FOUND) {
		dump->gone++;
		return 0;
	}
	if (failure_is_of_all(status))
		return stop_at_call(dump, status);
	if (!entry->key_len)
		return dump->code = report_memory();
	failures_note(&dump->failures, entry->key, entry->key_len, status);
	return 0;
}

/* Receives an entry of the scan. The scan's handle can't be used here. */
static int take_scanned(void *arg, const struct kvd_entry *entry)
{
	struct dump *dump = arg;
	const struct dump_header *header = &dump->header;

	dump->progress.done++;
	if (header->match_len && !glob_matches(dump->filter + header->prefix_len, header->match_len,
					       entry->key, entry->key_len))
		return 0;
	if (entry->value || !entry->item.value_len)
		return write_entry(dump, entry);
	if (fetch_add(&dump->fetch, entry->key, entry->key_len, entry->item.value_len))
		return 0;
	return dump->code = report_memory();
}

/* One call of the scan, retried if that may help. */
static int scan_some(struct dump *dump, uint64_t *cursor)
{
	const struct kvd_scan_args args = {
		.prefix = dump->header.prefix_len ? dump->filter : NULL,
		.prefix_len = dump->header.prefix_len,
		.values = 1,
	};
	struct retry retry = { 0 };
	enum kvd_status status;
	bool same;

	status = server_now(dump->db, &dump->writer.clock_ns, &dump->incarnation, &same);
	while (!status) {
		status = kvd_scan(dump->db, cursor, &args, take_scanned, dump);
		if (!failure_passes(status) || !retry_pause(&retry))
			break;
		status = KVD_OK;
	}
	if (dump->code)
		return dump->code;
	if (status)
		return stop_at_call(dump, status);
	server_now(dump->db, &dump->writer.clock_ns, &dump->incarnation, &same);
	return same ? 0 : stop_at_restart(dump);
}

/*
 * A block may hold the cursor of a call once all keys of the call are in it or in an earlier block,
 * that is, when no key waits for its value. It never holds the 0 of the scan's end, which would
 * mean the start.
 */
static int dump_all(struct dump *dump)
{
	uint64_t cursor = dump->writer.cursor;
	unsigned int calls = 0; /* since the cursor was noted */

	do {
		if (scan_some(dump, &cursor))
			return dump->code;
		if ((fetch_is_full(&dump->fetch) || ++calls >= SCANS_MAX || !cursor) &&
		    fetch_run(&dump->fetch, take_fetched, dump))
			return dump->code;
		if (!dump->fetch.count && cursor) {
			dump->writer.cursor = cursor;
			calls = 0;
		}
		progress_show(&dump->progress);
		if (cursor && interrupted())
			return stop_at_interrupt(dump);
	} while (cursor);
	return EX_OK;
}

static void print_done(const struct dump *dump, const struct arguments *arguments)
{
	const struct dump_end *counts = &dump->writer.counts;
	struct json json;
	char text[16];

	if (!dump->writer.name)
		return;
	if (arguments->json.given) {
		json_begin(&json, stdout);
		json_open(&json, NULL, '{');
		json_text(&json, "file", dump->writer.name);
		json_number(&json, "keys", counts->records);
		json_number(&json, "key_bytes", counts->key_bytes);
		json_number(&json, "value_bytes", counts->value_bytes);
		json_number(&json, "missing", counts->missing);
		json_number(&json, "file_bytes", dump->writer.offset);
		json_close(&json, '}');
		json_end(&json);
		return;
	}
	report_result("%s: %" PRIu64 " keys, %s", dump->writer.name, counts->records,
		      bytes_text(text, (double)dump->writer.offset));
}

static int finish(struct dump *dump, const struct arguments *arguments)
{
	dump->writer.counts.missing = dump->failures.count;
	if (dump_writer_end(&dump->writer))
		return stop_at_write(dump);
	progress_end(&dump->progress);
	print_done(dump, arguments);
	if (!dump->failures.count)
		return EX_OK;
	report_error("%" PRIu64 " keys could not be read, and are missing from the dump",
		     dump->failures.count);
	return EX_SOFTWARE;
}

/* The prefix and the pattern. EX_OK or EX_USAGE. */
static int filter_parse(struct dump *dump, const struct arguments *arguments)
{
	const char *match = arguments->match.text;
	struct key prefix = { .len = 0 };

	if (arguments->word_count > 1 && key_parse(&prefix, arguments, arguments->words[1]))
		return EX_USAGE;
	memcpy(dump->filter, prefix.bytes, prefix.len);
	dump->header.prefix_len = (uint16_t)prefix.len;
	if (!match)
		return EX_OK;
	if (!*match || strlen(match) > DUMP_FILTER_MAX)
		return usage_error(match, "a pattern has 1 to 1024 bytes");
	memcpy(dump->filter + prefix.len, match, strlen(match));
	dump->header.match_len = (uint16_t)strlen(match);
	return EX_OK;
}

/* Creates the file, or opens the one that is there. */
static int file_begin(struct dump *dump, const struct arguments *arguments, const char *name)
{
	struct dump_writer *writer = &dump->writer;
	struct dump_header header = dump->header;
	bool same;
	enum kvd_status status;

	status = kvd_ping(dump->db);
	if (!status)
		status = server_now(dump->db, &header.clock_ns, &dump->incarnation, &same);
	if (status)
		return report(dump->db, status);
	header.incarnation = dump->incarnation;
	header.wall_ns = clock_read_ns(CLOCK_REALTIME);
	writer->clock_ns = header.clock_ns;
	if (arguments->resume.given ? dump_writer_resume(writer, name, &header, dump->filter) :
				      dump_writer_begin(writer, name, &header, dump->filter)) {
		report_error("%s", writer->why);
		return EX_IOERR;
	}
	progress_begin(&dump->progress, arguments->progress.given,
		       dump->header.prefix_len ? 0 : members_items(dump->db, arguments));
	dump->progress.done = dump->progress.keys = writer->counts.records;
	dump->progress.bytes = writer->counts.key_bytes + writer->counts.value_bytes;
	progress_resume(&dump->progress);
	return EX_OK;
}

/* Whether @name leads to the standard output, as /dev/stdout does. */
static bool is_output(const char *name)
{
	struct stat named, output;

	return !stat(name, &named) && !fstat(STDOUT_FILENO, &output) &&
	       named.st_dev == output.st_dev && named.st_ino == output.st_ino;
}

int command_dump(struct kvd *db, const struct arguments *arguments)
{
	const char *name = arguments->word_count ? arguments->words[0] : "-";
	struct dump dump = { .db = db };
	int code;

	if (!*name)
		return usage_error("dump", "the file has no name: give one, or - for the standard "
					   "output");
	if (!strcmp(name, "-") || is_output(name))
		name = NULL;
	if (!name && isatty(STDOUT_FILENO))
		return usage_error("dump", "a dump can't go to a terminal: name a file");
	if (!name && arguments->resume.given)
		return usage_error("--resume", "needs the name of the file");
	if (filter_parse(&dump, arguments))
		return EX_USAGE;
	fetch_init(&dump.fetch, db, arguments->options.timeout_ms);
	code = file_begin(&dump, arguments, name);
	if (!code)
		code = dump_all(&dump);
	if (!code)
		code = finish(&dump, arguments);
	progress_end(&dump.progress);
	dump_writer_release(&dump.writer);
	fetch_release(&dump.fetch);
	return code;
}
