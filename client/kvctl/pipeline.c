/* SPDX-License-Identifier: MIT */
/* Runs changes of a script concurrently: see pipeline.h. */
#include "client/kvctl/pipeline.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/failures.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/key.h"
#include "client/kvctl/progress.h"
#include "client/kvctl/report.h"
#include "client/kvctl/words.h"

#define SLOTS 1024u
#define BYTES_MAX (64u << 20) /* of lines under way; a longer line runs alone */
#define LINE_KEPT 65536u      /* longer memory of a line is freed at once */
#define BYTES_PER_MS 16384u   /* the least that a slow network moves in a millisecond */
#define STATUSES 64u
#define CODES 256u

struct slot {
	struct kvd_op op;
	struct key key;
	struct line line; /* has the value */
	uint64_t number;  /* of the line */
	struct slot *next;
};

struct pipeline {
	struct kvd *db;
	uint32_t timeout_ms;
	struct slot *slots, *free;
	uint64_t under_way_bytes;
	uint64_t line; /* that was read last */
	uint64_t done, failed;
	uint64_t by_status[STATUSES], by_code[CODES];
	enum kvd_status broken; /* not KVD_OK: the connection is lost */
	int code;		/* of the first that failed */
	struct progress progress;
};

/* Changes that can run concurrently, with the number of words and of the value's word; 0: none. */
static const struct row {
	const char *name;
	enum kvd_opcode op;
	enum kvd_put_mode mode;
	int words, value_at;
} rows[] = {
	{ "put", KVD_OP_PUT, KVD_PUT_SET, 2, 1 },
	{ "add", KVD_OP_PUT, KVD_PUT_IF_ABSENT, 2, 1 },
	{ "replace", KVD_OP_PUT, KVD_PUT_IF_PRESENT, 2, 1 },
	{ "cas", KVD_OP_PUT, KVD_PUT_IF_VERSION, 3, 2 },
	{ "append", KVD_OP_PUT, KVD_PUT_APPEND, 2, 1 },
	{ "prepend", KVD_OP_PUT, KVD_PUT_PREPEND, 2, 1 },
	{ "touch", KVD_OP_TOUCH, 0, 2, 0 },
	{ "del", KVD_OP_DELETE, 0, 1, 0 },
};

struct pipeline *pipeline_create(struct kvd *db, const struct arguments *arguments)
{
	struct pipeline *pipeline = calloc(1, sizeof(*pipeline));
	struct stat status;

	if (!pipeline)
		return NULL;
	pipeline->slots = calloc(SLOTS, sizeof(*pipeline->slots));
	if (!pipeline->slots) {
		free(pipeline);
		return NULL;
	}
	for (size_t i = 0; i < SLOTS; i++) {
		pipeline->slots[i].next = pipeline->free;
		pipeline->free = &pipeline->slots[i];
	}
	pipeline->db = db;
	pipeline->timeout_ms = arguments->options.timeout_ms;
	progress_begin(&pipeline->progress, false,
		       !fstat(STDIN_FILENO, &status) && S_ISREG(status.st_mode) ?
			       (uint64_t)status.st_size :
			       0);
	return pipeline;
}

static void note_status(struct pipeline *pipeline, uint64_t line, enum kvd_status status)
{
	report_line(line);
	const int code = report_of(pipeline->db, "", status);

	report_line(pipeline->line);
	pipeline->failed++;
	pipeline->by_status[(unsigned int)status % STATUSES]++;
	if (!pipeline->code)
		pipeline->code = code;
	if (failure_is_of_all(status))
		pipeline->broken = status;
}

void pipeline_note(struct pipeline *pipeline, int code)
{
	if (!code) {
		pipeline->done++;
		return;
	}
	pipeline->failed++;
	pipeline->by_code[(unsigned int)code % CODES]++;
	if (!pipeline->code)
		pipeline->code = code;
}

static void slot_free(struct pipeline *pipeline, struct slot *slot)
{
	pipeline->under_way_bytes -= slot->line.len;
	if (slot->line.size > LINE_KEPT)
		line_release(&slot->line);
	slot->next = pipeline->free;
	pipeline->free = slot;
}

static void take(struct pipeline *pipeline, const struct kvd_op *op)
{
	struct slot *slot = op->user;

	if (op->status)
		note_status(pipeline, slot->number, op->status);
	else
		pipeline->done++;
	slot_free(pipeline, slot);
}

/* Waits until @count more have ended, or all. */
static void wait_for(struct pipeline *pipeline, size_t count)
{
	struct kvd_op *done[SLOTS];
	const size_t n = kvd_wait(pipeline->db, done, SLOTS, count, UINT32_MAX);

	for (size_t i = 0; i < n; i++)
		take(pipeline, done[i]);
	pipeline->progress.keys = pipeline->done + pipeline->failed;
	progress_show(&pipeline->progress);
}

static void wait_for_all(struct pipeline *pipeline)
{
	while (kvd_outstanding(pipeline->db))
		wait_for(pipeline, SLOTS);
}

void pipeline_await_input(struct pipeline *pipeline, int fd)
{
	struct pollfd input = { .fd = fd, .events = POLLIN };

	while (kvd_outstanding(pipeline->db) && !interrupted() && !poll(&input, 1, 0))
		wait_for(pipeline, 1);
}

/* The options that prepare() handles; with any other option the line is no plain change. */
static bool options_are_known(const struct arguments *arguments)
{
	unsigned int known = arguments->hex.given + arguments->ttl.given + arguments->flags.given +
			     arguments->pin.given + arguments->low.given;

	for (size_t i = 0; i < option_row_count; i++) {
		const struct option_value *value = (const void *)((const char *)arguments +
								  option_rows[i].offset);

		known -= value->given;
	}
	return !known;
}

static const struct row *row_of(const struct arguments *arguments)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		const char *word;

		if (strcmp(row->name, arguments->command->name))
			continue;
		if (arguments->word_count != row->words || !options_are_known(arguments))
			return NULL;
		word = arguments->words[row->value_at];
		if (row->value_at && !strcmp(word, "-") && !word_is_quoted(arguments->line, word))
			return NULL;
		return row;
	}
	return NULL;
}

static int prepare(struct slot *slot, const struct row *row, const struct arguments *arguments)
{
	struct kvd_op *op = &slot->op;

	if (key_parse(&slot->key, arguments, arguments->words[0]))
		return EX_USAGE;
	kvd_prep(op, row->op, slot->key.bytes, slot->key.len);
	op->user = slot;
	op->mode = row->mode;
	op->ttl_s = (uint32_t)arguments->ttl.number;
	op->flags = (uint32_t)arguments->flags.number;
	op->pin_s = (uint32_t)arguments->pin.number;
	op->priority = arguments->low.given ? KVD_PRIORITY_LOW : KVD_PRIORITY_NORMAL;
	if (row->op == KVD_OP_TOUCH)
		return parse_ttl(arguments->words[1], &op->ttl_s);
	if (row->value_at) {
		op->value = arguments->words[row->value_at];
		op->value_len = word_len(arguments->line, op->value);
	}
	if (row->mode == KVD_PUT_IF_VERSION)
		return parse_number(arguments->words[1], 0, UINT64_MAX, &op->if_version);
	return EX_OK;
}

/* Swaps the memory of slot and line: the value stays in place for the slot. */
static void submit(struct pipeline *pipeline, struct slot *slot, struct line *line)
{
	const struct line other = slot->line;
	struct kvd_op *op = &slot->op;
	enum kvd_status status;

	slot->line = *line;
	*line = other;
	slot->number = pipeline->line;
	pipeline->under_way_bytes += slot->line.len;
	pipeline->progress.bytes += slot->key.len + op->value_len;
	op->timeout_ms = pipeline->timeout_ms +
			 (uint32_t)(pipeline->under_way_bytes / BYTES_PER_MS);
	status = kvd_submit(pipeline->db, &op, 1);
	if (!status)
		return;
	note_status(pipeline, slot->number, status);
	slot_free(pipeline, slot);
}

bool pipeline_take(struct pipeline *pipeline, struct words *words, struct line *line)
{
	struct arguments arguments;
	struct slot *slot;
	const struct row *row;

	pipeline->line = report_line_now();
	pipeline->progress.done += line->len + 1;
	if (arguments_parse(&arguments, ARGUMENTS_OF_LINE, words->count, words_argv(words))) {
		pipeline_note(pipeline, EX_USAGE);
		return true;
	}
	arguments.line = words;
	row = arguments.command && !arguments.help.given ? row_of(&arguments) : NULL;
	if (!row) {
		wait_for_all(pipeline);
		if (pipeline->broken)
			return true;
		return false;
	}
	if (!pipeline->free)
		wait_for(pipeline, SLOTS / 4);
	while (kvd_outstanding(pipeline->db) && pipeline->under_way_bytes + line->len > BYTES_MAX)
		wait_for(pipeline, 1);
	if (pipeline->broken)
		return true;
	slot = pipeline->free;
	if (prepare(slot, row, &arguments)) {
		pipeline_note(pipeline, EX_USAGE);
		return true;
	}
	pipeline->free = slot->next;
	submit(pipeline, slot, line);
	return true;
}

bool pipeline_goes_on(const struct pipeline *pipeline)
{
	return !pipeline->broken;
}

static void print_kinds(const struct pipeline *pipeline)
{
	for (unsigned int i = 0; i < STATUSES; i++)
		if (pipeline->by_status[i])
			report_about("  %" PRIu64 " %s", pipeline->by_status[i],
				     kvd_status_text((enum kvd_status)i));
#define X(number, text)                                                                            \
	if (pipeline->by_code[number])                                                             \
		report_about("  %" PRIu64 " %s", pipeline->by_code[number], text);
	KVCTL_STATUSES(X)
#undef X
}

int pipeline_end(struct pipeline *pipeline, uint64_t lines)
{
	const int code = pipeline->code;
	int end;

	wait_for_all(pipeline);
	progress_end(&pipeline->progress);
	report_about("kvctl: %" PRIu64 " lines read, %" PRIu64 " commands done, %" PRIu64 " failed",
		     lines, pipeline->done, pipeline->failed);
	print_kinds(pipeline);
	if (interrupted())
		report_about("kvctl: interrupted: no line after line %" PRIu64 " was run", lines);
	else if (pipeline->broken)
		report_about("kvctl: the connection was lost: no line after line %" PRIu64
			     " was run",
			     pipeline->line);
	end = interrupted() ? EXIT_INTERRUPTED : code ? code : pipeline->code;
	for (size_t i = 0; i < SLOTS; i++)
		line_release(&pipeline->slots[i].line);
	free(pipeline->slots);
	free(pipeline);
	return end;
}
