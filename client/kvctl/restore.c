/* SPDX-License-Identifier: MIT */
/*
 * kvctl restore: stores the keys of a dump in a server; with --verify it only reads the dump. Each
 * block is verified as a whole before any of it is stored.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/dump_reader.h"
#include "client/kvctl/error.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/json.h"
#include "client/kvctl/progress.h"
#include "client/kvctl/report.h"
#include "client/kvctl/restore_state.h"
#include "client/kvctl/store.h"
#include "common/util/clock.h"

#define STATE_NS 1000000000u /* how often the progress is saved for --resume */

struct restore {
	const struct arguments *arguments;
	const char *name; /* NULL: the standard input */
	struct dump_reader reader;
	struct store store;
	struct store_block blocks[2];
	struct progress progress;
	struct restore_state state;
	uint64_t state_ns; /* when `state` was last written */
	uint64_t incarnation;
	bool has_state; /* `state` can be written */
};

/* Saves the progress. Whether --resume can go on from here. */
static bool state_save(struct restore *restore)
{
	int err;

	if (!restore->has_state || !restore->state.offset)
		return false;
	restore->state_ns = clock_ns();
	err = restore_state_write(restore->name, &restore->state);
	if (!err)
		return true;
	restore->has_state = false;
	report_about("kvctl: can't write %s" RESTORE_SUFFIX
		     ": %s; --resume can't continue from here",
		     restore->name, strerror(-err));
	return false;
}

static int stop_at_interrupt(struct restore *restore)
{
	bool resumes;

	progress_end(&restore->progress);
	resumes = state_save(restore);
	report_about("kvctl: interrupted after %" PRIu64 " keys%s", restore->state.stored.stored,
		     resumes ? "; --resume continues after them" : "");
	return EXIT_INTERRUPTED;
}

/* Prints why the reader stopped. Returns the exit status. */
static int stop_at_file(struct restore *restore, enum dump_result result)
{
	if (result == DUMP_FAILED && interrupted())
		return stop_at_interrupt(restore);
	progress_end(&restore->progress);
	report_error("%s", restore->reader.why);
	if (result == DUMP_FAILED)
		return errno == ENOMEM ? EX_OSERR : EX_IOERR;
	return EX_DATAERR;
}

static int stop_at_call(struct restore *restore, enum kvd_status status)
{
	progress_end(&restore->progress);
	if (state_save(restore))
		report_about("kvctl: --resume continues from here");
	return report(restore->store.db, status);
}

/* Notes that @block and all blocks before it are stored. */
static void state_note(struct restore *restore, const struct dump_block *block)
{
	struct restore_state *state = &restore->state;

	state->offset = block->offset + sizeof(*block) + block->bytes;
	state->before = block->sum;
	state->counts.blocks++;
	state->counts.records += block->records;
	if (clock_ns() - restore->state_ns >= STATE_NS)
		state_save(restore);
}

/* Waits for a block that is under way. EX_OK, or why the restore stops. */
static int block_end(struct restore *restore, struct store_block *block)
{
	struct store_counts *stored = &restore->state.stored;
	struct dump_end *counts = &restore->state.counts;
	struct dump_entry entry;
	uint64_t clock_ns_now;
	bool same;

	if (!block->count && !block->body.block.records)
		return EX_OK;
	store_block_end(&restore->store, block);
	if (restore->store.broken)
		return stop_at_call(restore, restore->store.broken);
	server_now(restore->store.db, &clock_ns_now, &restore->incarnation, &same);
	if (!same) {
		progress_end(&restore->progress);
		report_error("the server has restarted, and what was restored is gone: begin "
			     "anew, without --resume");
		return EX_SOFTWARE;
	}
	for (size_t at = 0; at < block->body.block.bytes;) {
		dump_record_get(&entry, block->body.bytes, &at);
		counts->key_bytes += entry.key_len;
		counts->value_bytes += entry.value_len;
	}
	stored->stored += block->counts.stored;
	stored->existed += block->counts.existed;
	stored->expired += block->counts.expired;
	stored->failed += block->counts.failed;
	state_note(restore, &block->body.block);
	block->body.block.records = 0;
	block->count = 0;
	restore->progress.done = restore->state.offset;
	restore->progress.keys = counts->records;
	restore->progress.bytes = counts->key_bytes + counts->value_bytes;
	progress_show(&restore->progress);
	return EX_OK;
}

/* Sets how much of the records' times to live has passed. */
static void age_set(struct restore *restore)
{
	const uint64_t began_ns = restore->reader.header.wall_ns;
	const uint64_t now_ns = clock_read_ns(CLOCK_REALTIME);

	if (restore->arguments->absolute.given)
		restore->store.age_ns = now_ns > began_ns ? now_ns - began_ns : 1;
}

/* Reads one block while the one before it is stored. */
static int restore_blocks(struct restore *restore)
{
	const bool skips = restore->arguments->skip_damaged.given;
	enum dump_result result;
	unsigned int i;
	int code;

	for (i = 0;; i ^= 1) {
		struct store_block *block = &restore->blocks[i];

		code = block_end(restore, block);
		if (!code && interrupted())
			code = stop_at_interrupt(restore);
		if (code)
			return code;
		do {
			result = dump_reader_next(&restore->reader, &block->body);
			if (result == DUMP_SKIPPED && skips)
				report_about("kvctl: %s: skipped", restore->reader.why);
		} while (result == DUMP_SKIPPED && skips);
		if (result != DUMP_BLOCK)
			break;
		age_set(restore);
		if (!store_block_begin(&restore->store, block))
			return report_memory();
		if (block->body.block.bytes > DUMP_BODY_MAX) {
			/* Only one long value is in memory at a time. */
			code = block_end(restore, &restore->blocks[i ^ 1]);
			code = code ? code : block_end(restore, block);
			dump_body_release(&block->body);
			if (code)
				return code;
		}
	}
	restore->blocks[i].body.block.records = 0;
	code = block_end(restore, &restore->blocks[i ^ 1]);
	if (code || result == DUMP_IS_DONE)
		return code;
	return stop_at_file(restore, result);
}

static void print_result(struct restore *restore)
{
	const struct store_counts *counts = &restore->state.stored;
	struct json json;

	if (restore->arguments->json.given) {
		json_begin(&json, stdout);
		json_open(&json, NULL, '{');
		json_number(&json, "stored", counts->stored);
		json_number(&json, "existed", counts->existed);
		json_number(&json, "expired", counts->expired);
		json_number(&json, "failed", counts->failed);
		json_number(&json, "damaged_blocks", restore->reader.skipped);
		json_number(&json, "missing", restore->reader.counts.missing);
		json_close(&json, '}');
		json_end(&json);
		return;
	}
	printf("%" PRIu64 " keys stored", counts->stored);
	if (counts->existed)
		printf(", %" PRIu64 " existed and were kept", counts->existed);
	if (counts->expired)
		printf(", %" PRIu64 " had expired", counts->expired);
	if (counts->failed)
		printf(", %" PRIu64 " failed", counts->failed);
	putchar('\n');
}

/* Ends the restore after the whole file was read. */
static int finish(struct restore *restore)
{
	progress_end(&restore->progress);
	if (restore->name)
		restore_state_remove(restore->name);
	print_result(restore);
	if (restore->reader.counts.missing)
		report_about("kvctl: the dump itself is not complete: %" PRIu64 " keys could not "
			     "be read when it was made",
			     restore->reader.counts.missing);
	if (restore->state.stored.failed)
		return EX_SOFTWARE;
	return restore->reader.skipped ? EX_DATAERR : EX_OK;
}

/* Resumes at the place in the state file. EX_OK, or why it can't. */
static int resume(struct restore *restore)
{
	struct restore_state *state = &restore->state;
	const int err = restore_state_read(restore->name, state);
	const char *why = NULL;

	if (err)
		why = err == -ENOENT ? "there is nothing to resume: start without --resume" :
		      err == -EINVAL ? "it is damaged: start without --resume" :
				       strerror(-err);
	else if (state->dump != restore->reader.header.sum)
		why = "it belongs to another dump: start without --resume";
	else if (state->incarnation != restore->incarnation)
		why = "the server has restarted since, or is another one: start without --resume";
	if (why) {
		report_error("%s" RESTORE_SUFFIX ": %s", restore->name, why);
		return err && err != -ENOENT && err != -EINVAL ? EX_IOERR : EX_DATAERR;
	}
	if (!dump_reader_seek(&restore->reader, state->offset, state->before, &state->counts))
		return stop_at_file(restore, DUMP_FAILED);
	restore->progress.done = state->offset;
	restore->progress.keys = state->counts.records;
	restore->progress.bytes = state->counts.key_bytes + state->counts.value_bytes;
	progress_resume(&restore->progress);
	return EX_OK;
}

static int restore_begin(struct restore *restore, struct kvd *db)
{
	const struct arguments *arguments = restore->arguments;
	const struct dump_header *header = &restore->reader.header;
	struct store *store = &restore->store;
	uint64_t clock_now;
	enum kvd_status status;
	bool same;

	store->db = db;
	store->timeout_ms = arguments->options.timeout_ms;
	store->skip_existing = arguments->skip_existing.given;
	store->dump_ns = header->clock_ns;
	status = server_now(db, &clock_now, &restore->incarnation, &same);
	if (status)
		return report(db, status);
	progress_begin(&restore->progress, arguments->progress.given, restore->reader.bytes);
	restore->state.dump = header->sum;
	restore->state.incarnation = restore->incarnation;
	restore->state_ns = clock_ns();
	restore->has_state = restore->name && restore->reader.bytes; /* else it is a pipe */
	return arguments->resume.given ? resume(restore) : EX_OK;
}

static int restore_to(struct restore *restore, struct kvd *db)
{
	int code = restore_begin(restore, db);

	if (!code)
		code = restore_blocks(restore);
	if (!code) {
		code = finish(restore);
	} else {
		/* The handle may outlive the blocks' memory. */
		store_block_end(&restore->store, &restore->blocks[0]);
		store_block_end(&restore->store, &restore->blocks[1]);
		state_save(restore);
	}
	progress_end(&restore->progress);
	return code;
}

static void print_verified(const struct restore *restore)
{
	const struct dump_reader *reader = &restore->reader;
	const struct dump_header *header = &reader->header;
	const time_t began_s = (time_t)(header->wall_ns / 1000000000u);
	char date[40] = "", bytes[16], missing[64] = "";
	struct json json;
	struct tm tm;

	if (gmtime_r(&began_s, &tm))
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (restore->arguments->json.given) {
		json_begin(&json, stdout);
		json_open(&json, NULL, '{');
		json_text(&json, "file", reader->name);
		json_text(&json, "began", date);
		json_number(&json, "keys", reader->counts.records);
		json_number(&json, "key_bytes", reader->counts.key_bytes);
		json_number(&json, "value_bytes", reader->counts.value_bytes);
		json_number(&json, "blocks", reader->counts.blocks);
		json_number(&json, "damaged_blocks", reader->skipped);
		json_number(&json, "missing", reader->counts.missing);
		json_bytes(&json, "prefix", reader->filter, header->prefix_len);
		json_bytes(&json, "match", reader->filter + header->prefix_len, header->match_len);
		json_close(&json, '}');
		json_end(&json);
		return;
	}
	if (reader->counts.missing)
		snprintf(missing, sizeof(missing), ", %" PRIu64 " keys could not be read",
			 reader->counts.missing);
	report_result("%s: of %s, %" PRIu64 " keys, %s of values%s: %s", reader->name, date,
		      reader->counts.records, bytes_text(bytes, (double)reader->counts.value_bytes),
		      missing, reader->skipped ? "damaged" : "intact");
}

/* Names every damaged block. */
static int verify(struct restore *restore)
{
	struct dump_body body = { 0 };
	enum dump_result result;

	progress_begin(&restore->progress, restore->arguments->progress.given,
		       restore->reader.bytes);
	do {
		result = dump_reader_next(&restore->reader, &body);
		if (result == DUMP_SKIPPED)
			report_about("kvctl: %s", restore->reader.why);
		restore->progress.done = restore->reader.offset;
		restore->progress.keys = restore->reader.counts.records;
		restore->progress.bytes = restore->reader.counts.key_bytes +
					  restore->reader.counts.value_bytes;
		progress_show(&restore->progress);
	} while ((result == DUMP_BLOCK || result == DUMP_SKIPPED) && !interrupted());
	dump_body_release(&body);
	if (result == DUMP_BLOCK || result == DUMP_SKIPPED)
		return stop_at_interrupt(restore);
	if (result != DUMP_IS_DONE)
		return stop_at_file(restore, result);
	progress_end(&restore->progress);
	print_verified(restore);
	return restore->reader.skipped ? EX_DATAERR : EX_OK;
}

/* The command opens the connection itself, since --verify needs none. */
static int connect_and_restore(struct restore *restore, struct kvd *db)
{
	const struct arguments *arguments = restore->arguments;
	enum kvd_status status;
	struct kvd *own;
	int code;

	if (db)
		return restore_to(restore, db);
	status = kvd_open(&own, arguments->server, &arguments->options);
	if (status)
		return report_open(status, !arguments->url.given);
	code = restore_to(restore, own);
	kvd_close(own);
	return code;
}

static int restore_file(struct restore *restore, struct kvd *db, int fd)
{
	const char *name = restore->name ? restore->name : "standard input";
	const enum dump_result result = dump_reader_begin(&restore->reader, fd, name);
	int code;

	if (result != DUMP_BLOCK)
		return stop_at_file(restore, result);
	code = restore->arguments->verify.given ? verify(restore) :
						  connect_and_restore(restore, db);
	store_block_release(&restore->blocks[0]);
	store_block_release(&restore->blocks[1]);
	return code;
}

static int usage_check(const struct restore *restore)
{
	const struct arguments *arguments = restore->arguments;

	if (arguments->skip_existing.given && arguments->replace.given)
		return usage_error("--skip-existing", "is the opposite of --replace");
	if (arguments->resume.given && (!restore->name || arguments->verify.given))
		return usage_error("--resume", "needs the name of the file, and no --verify");
	if (!restore->name && (arguments->input_is_script || isatty(STDIN_FILENO)))
		return usage_error("restore", "the standard input is a terminal: name a file");
	return EX_OK;
}

int command_restore(struct kvd *db, const struct arguments *arguments)
{
	const char *name = arguments->word_count ? arguments->words[0] : "-";
	struct restore *restore = calloc(1, sizeof(*restore));
	int fd = STDIN_FILENO, code;

	if (!restore)
		return report_memory();
	restore->arguments = arguments;
	restore->name = strcmp(name, "-") ? name : NULL;
	code = usage_check(restore);
	if (!code && restore->name)
		fd = open(name, O_RDONLY | O_CLOEXEC);
	if (!code && fd < 0) {
		report_error("can't open %s: %m", name);
		code = EX_IOERR;
	}
	if (!code)
		code = restore_file(restore, db, fd);
	if (restore->name && fd >= 0 && fd != STDIN_FILENO)
		close(fd);
	free(restore);
	return code;
}
