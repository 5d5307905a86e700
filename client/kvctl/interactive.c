/* SPDX-License-Identifier: MIT */
/*
 * Interactive mode: see interactive.h. libedit edits the lines and reads ~/.editrc (editrc(5)).
 */
#include "client/kvctl/interactive.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/complete.h"
#include "client/kvctl/error.h"
#include "client/kvctl/help.h"
#include "client/kvctl/history_file.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/report.h"
#include "client/kvctl/run.h"
#include "client/kvctl/words.h"
#include "common/util/clock.h"
#include "common/util/text.h"

#define HISTORY_LINES 1000
#define SLOW_NS 500000000u /* longer times are printed, as by redis-cli */
#define COLUMNS 80

struct session {
	const struct arguments *outer;
	struct kvd *db;
	EditLine *editor;
	History *history;
	char path[PATH_MAX]; /* of the history; empty: it is not kept */
	char prompt[KVD_URL_MAX + 8];
	struct words words;
	struct completion completion;
};

static struct session session_now;

static const char *prompt(EditLine *editor)
{
	(void)editor;
	return session_now.prompt;
}

static void print_words(const struct completion *c)
{
	size_t widest = 0, columns;

	for (size_t i = 0; i < c->count; i++)
		widest = strlen(c->words[i]) > widest ? strlen(c->words[i]) : widest;
	columns = COLUMNS / (widest + 2) ? COLUMNS / (widest + 2) : 1;
	putchar('\n');
	for (size_t i = 0; i < c->count; i++)
		printf("%-*s%s", (int)widest + 2, c->words[i],
		       i + 1 == c->count || (i + 1) % columns == 0 ? "\n" : "");
	fflush(stdout);
}

/* If there is nothing to offer, the command's help says what is expected. */
static unsigned char tab(EditLine *editor, int key)
{
	struct completion *c = &session_now.completion;
	const LineInfo *line = el_line(editor);
	size_t common;

	(void)key;
	complete(c, session_now.db, line->buffer, (size_t)(line->cursor - line->buffer));
	common = complete_common(c);
	if (c->count == 1 || common > c->begun) {
		char text[COMPLETE_WORD_MAX + 1];

		snprintf(text, sizeof(text), "%.*s%s", (int)(common - c->begun),
			 c->words[0] + c->begun, c->count == 1 ? " " : "");
		if (*text && el_insertstr(editor, text))
			return CC_ERROR;
		return CC_REFRESH;
	}
	if (c->count) {
		print_words(c);
		return CC_REDISPLAY;
	}
	if (!c->command)
		return CC_ERROR;
	putchar('\n');
	help_print_brief(stdout, c->command);
	fflush(stdout);
	return CC_REDISPLAY;
}

/* Only this user may read the history, which has values in it. */
static void history_keep(struct session *session)
{
	const mode_t mask = umask(077);
	HistEvent event;

	if (*session->path && history(session->history, &event, H_SAVE, session->path) < 0)
		report_error("can't keep the history in %s: %m", session->path);
	umask(mask);
}

/* A line that begins with a blank is not kept, as in shells. */
static void history_add(struct session *session, const char *line)
{
	HistEvent event;

	if (*line != ' ' && *line != '\n')
		history(session->history, &event, H_ENTER, line);
}

static bool editor_open(struct session *session)
{
	HistEvent event;

	setlocale(LC_CTYPE, "");
	/* libedit drops bytes that are no characters of the locale; kvd takes all bytes. */
	if (!strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968"))
		setlocale(LC_CTYPE, "C.UTF-8");
	session->history = history_init();
	session->editor = el_init("kvctl", stdin, stdout, stderr);
	if (!session->history || !session->editor)
		return false;
	history(session->history, &event, H_SETSIZE, HISTORY_LINES);
	history(session->history, &event, H_SETUNIQUE, 1);
	if (!history_file(session->path))
		*session->path = '\0';
	else
		history(session->history, &event, H_LOAD, session->path);
	el_set(session->editor, EL_PROMPT, prompt);
	el_set(session->editor, EL_EDITOR, "emacs");
	el_set(session->editor, EL_HIST, history, session->history);
	el_set(session->editor, EL_ADDFN, "kvctl-complete", "complete a word", tab);
	el_set(session->editor, EL_BIND, "^I", "kvctl-complete", NULL);
	el_source(session->editor, NULL);
	return true;
}

static void editor_close(struct session *session)
{
	if (session->editor)
		el_end(session->editor);
	if (session->history)
		history_end(session->history);
}

static bool is_quit(const struct words *words)
{
	const char *word = words->count == 2 ? word_text(words->word[1]) : "";

	return !strcmp(word, "quit") || !strcmp(word, "exit");
}

/* False: it says to end. */
static bool run_typed(struct session *session, char *line, size_t len)
{
	const char *wrong = words_split(&session->words, line, len);
	uint64_t start_ns;

	if (wrong)
		report_error("%s", wrong);
	if (wrong || session->words.count == 1)
		return true;
	if (is_quit(&session->words))
		return false;
	start_ns = clock_ns();
	(void)run_line(session->db, session->outer, false, session->words.count,
		       words_argv(&session->words), &session->words);
	if (clock_ns() - start_ns > SLOW_NS)
		printf("(%.2f s)\n", (double)(clock_ns() - start_ns) / 1e9);
	fflush(stdout);
	return true;
}

static void read_lines(struct session *session)
{
	const char *typed;
	bool goes_on = true;
	char *line;
	int len;

	while (goes_on) {
		interrupt_clear();
		typed = el_gets(session->editor, &len);
		if (!typed && (interrupted() || (len < 0 && errno == EINTR))) {
			el_reset(session->editor);
			puts("^C");
			continue;
		}
		if (!typed || len <= 0)
			break;
		history_add(session, typed);
		line = strndup(typed, (size_t)len);
		if (!line) {
			(void)report_memory();
			continue;
		}
		if (line[len - 1] == '\n')
			line[--len] = '\0';
		goes_on = run_typed(session, line, (size_t)len);
		free(line);
	}
	if (goes_on)
		putchar('\n');
}

int interactive_run(const struct arguments *arguments)
{
	struct session *session = &session_now;
	struct sigaction before;
	enum kvd_status status;
	struct kvd_info info;

	memset(session, 0, sizeof(*session));
	session->outer = arguments;
	status = kvd_open(&session->db, arguments->server, &arguments->options);
	if (status)
		return report_open(status, !arguments->url.given);
	kvd_info(session->db, &info);
	snprintf(session->prompt, sizeof(session->prompt), "%s> ", arguments->server);
	text_mask(session->prompt, strlen(session->prompt));
	if (!editor_open(session)) {
		editor_close(session);
		kvd_close(session->db);
		return report_memory();
	}
	printf("kvctl %s, %s %s. help, help COMMAND, TAB; quit or ^D ends.\n", kvd_version(),
	       info.device_kind, info.device_name);
	interrupt_catch(&before);
	read_lines(session);
	interrupt_leave(&before);
	history_keep(session);
	editor_close(session);
	words_release(&session->words);
	kvd_close(session->db);
	return EX_OK;
}
