/* SPDX-License-Identifier: MIT */
/* Runs scripts of commands: see script.h. */
#include "client/kvctl/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/pipeline.h"
#include "client/kvctl/report.h"
#include "client/kvctl/run.h"
#include "client/kvctl/words.h"
#include "common/util/parse.h"

#define PIPE_DEPTH 256u

struct script {
	const struct arguments *outer;
	struct kvd *db;
	struct pipeline *pipeline; /* NULL: one line after another */
	struct line_input input;
	struct words words;
	uint64_t lines;
	size_t line_max;
	int code; /* of the first that failed */
};

static void note(struct script *script, int code)
{
	if (script->pipeline)
		pipeline_note(script->pipeline, code);
	if (!script->code)
		script->code = code;
}

static void note_bad(struct script *script, const char *what, int code)
{
	report_error("%s", what);
	note(script, code);
}

static void run_words(struct script *script, struct line *line)
{
	const size_t bom = script->lines == 1 ? bom_length(line->bytes, line->len) : 0;
	const char *wrong = words_split(&script->words, line->bytes + bom, line->len - bom);

	if (wrong)
		note_bad(script, wrong, EX_USAGE);
	else if (script->words.count == 1)
		return;
	else if (script->pipeline && pipeline_take(script->pipeline, &script->words, line))
		return; /* under way, or refused and noted */
	else
		note(script, run_line(script->db, script->outer, true, script->words.count,
				      words_argv(&script->words), &script->words));
}

static void before_read(void *arg)
{
	const struct script *script = arg;

	pipeline_await_input(script->pipeline, script->input.fd);
}

static int open_db(struct script *script)
{
	struct kvd_options options = script->outer->options;
	enum kvd_status status;
	struct kvd_info info;

	if (script->outer->pipe.given)
		options.depth = PIPE_DEPTH;
	status = kvd_open(&script->db, script->outer->server, &options);
	if (status)
		return report_open(status, !script->outer->url.given);
	kvd_info(script->db, &info);
	/* Each byte of a value may be \xHH, and a key and options as long as possible. */
	script->line_max = 4 * (info.value_max + KVD_KEY_MAX) + 4096;
	if (script->outer->pipe.given) {
		script->pipeline = pipeline_create(script->db, script->outer);
		if (!script->pipeline)
			return report_memory();
		script->input.before_read = before_read;
		script->input.arg = script;
	}
	return EX_OK;
}

static void run_lines(struct script *script)
{
	struct line line = { 0 };
	enum line_end end;

	do {
		end = line_read(&line, &script->input, script->line_max);
		if (end == LINE_EOF || (end == LINE_ERROR && interrupted()))
			break;
		script->lines++;
		report_line(script->lines);
		if (end == LINE_TOO_LONG)
			note_bad(script, "longer than any command with the server's longest value",
				 EX_USAGE);
		else if (end == LINE_NO_MEMORY)
			note_bad(script, "no memory for such a long line", EX_OSERR);
		else if (end == LINE_ERROR)
			note_bad(script, "can't read the standard input", EX_IOERR);
		else
			run_words(script, &line);
	} while (end == LINE_READ && !interrupted() && !output_is_lost() &&
		 (!script->pipeline || pipeline_goes_on(script->pipeline)));
	report_line(0);
	if (output_is_lost() || end == LINE_TOO_LONG || end == LINE_NO_MEMORY)
		report_error("no line after line %" PRIu64 " was run", script->lines);
	line_release(&line);
}

int script_run(const struct arguments *arguments, bool *is_empty)
{
	static struct script script;
	struct sigaction before;
	bool empty;

	memset(&script, 0, sizeof(script));
	script.outer = arguments;
	script.input.fd = STDIN_FILENO;
	empty = !line_input_fill(&script.input) && !script.input.err;
	if (is_empty)
		*is_empty = empty;
	if (is_empty && empty)
		return EX_OK;
	script.code = open_db(&script);
	interrupt_clear();
	if (script.pipeline)
		interrupt_catch_once(&before);
	if (!script.code)
		run_lines(&script);
	if (script.pipeline) {
		const int code = pipeline_end(script.pipeline, script.lines);

		script.code = code ? code : script.code;
		interrupt_leave(&before);
	}
	words_release(&script.words);
	if (script.db)
		kvd_close(script.db);
	return script.code;
}
