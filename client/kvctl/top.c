/* SPDX-License-Identifier: MIT */
/*
 * kvctl top: what a server does now, on the whole screen; where there is none, as plain text. A
 * server that goes away is tried again until it is back.
 */
#define NCURSES_NOMACROS
#include <ncurses.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/report.h"
#include "client/kvctl/top_view.h"
#include "common/util/clock.h"

#define SECONDS_DEFAULT 2u
#define SECONDS_MAX 3600u
#define S_NS 1000000000ull
#define S_MS 1000u
#define KEYS_TEXT "q quit  s sort by the next column  r reverse  + - interval  space now"

struct top_run {
	struct kvd *db;
	const char *server;
	struct top_sample samples[2];
	struct top_view view;
	unsigned int newest; /* of samples */
	uint64_t seconds;
	enum top_column sort;
	bool smallest_first;
	char said[TOP_LINE_BYTES]; /* why there is no newer sample; empty: there is */
};

static void sample(struct top_run *run)
{
	struct top_sample *next = &run->samples[1 - run->newest];
	const enum kvd_status status = top_sample_take(next, run->db);

	*run->said = '\0';
	if (!status)
		run->newest = 1 - run->newest;
	else
		snprintf(run->said, sizeof(run->said), "trying again: %s%s%s",
			 kvd_status_text(status), *kvd_error(run->db) ? ": " : "",
			 kvd_error(run->db));
}

/* False: there are no two samples yet. */
static bool view_make(struct top_run *run)
{
	const struct top_sample *now = &run->samples[run->newest];
	const struct top_sample *before = &run->samples[1 - run->newest];

	if (!now->is_taken || !before->is_taken)
		return false;
	top_view_make(&run->view, run->server, before, now, run->sort, run->smallest_first);
	return true;
}

static void draw_line(int row, attr_t attributes, const char *text)
{
	attrset((int)attributes);
	mvaddnstr(row, 0, text, COLS);
	if (attributes & A_REVERSE)
		for (int column = (int)strlen(text); column < COLS; column++)
			mvaddch(row, column, ' ');
	attrset(A_NORMAL);
}

/* What has no place is left out; the last line has the keys, or what is wrong. */
static void draw(struct top_run *run)
{
	const unsigned int rows = LINES > 0 ? (unsigned int)LINES : 0;
	char keys[TOP_LINE_BYTES];

	erase();
	for (unsigned int i = 0; i < run->view.count && i + 1 < rows; i++)
		draw_line((int)i,
			  i == run->view.heading ? A_REVERSE :
			  i == 0		 ? A_BOLD :
						   A_NORMAL,
			  run->view.lines[i]);
	snprintf(keys, sizeof(keys), "every %llu s  %s", (unsigned long long)run->seconds,
		 KEYS_TEXT);
	if (rows)
		draw_line((int)rows - 1, *run->said ? A_BOLD : A_DIM,
			  *run->said ? run->said : keys);
	refresh();
}

/* False: it ends top. Else *@at_ns is when the next sample is due. */
static bool take_key(struct top_run *run, int key, uint64_t *at_ns)
{
	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case 's':
	case KEY_RIGHT:
		run->sort = (run->sort + 1) % TOP_COLUMN_COUNT;
		break;
	case KEY_LEFT:
		run->sort = (run->sort + TOP_COLUMN_COUNT - 1) % TOP_COLUMN_COUNT;
		break;
	case 'r':
		run->smallest_first = !run->smallest_first;
		break;
	case '+':
		run->seconds += run->seconds < SECONDS_MAX;
		break;
	case '-':
		run->seconds -= run->seconds > 1;
		break;
	case ' ':
		*at_ns = clock_ns();
		break;
	default: /* KEY_RESIZE: only to be drawn again */
		break;
	}
	return true;
}

static void screen_loop(struct top_run *run, uint64_t times)
{
	uint64_t shown = 0, at_ns = clock_ns() + S_NS / 5; /* the first rates come soon */
	bool goes_on = true;

	sample(run);
	while (goes_on && !interrupted()) {
		const uint64_t now_ns = clock_ns();
		int key;

		if (now_ns >= at_ns) {
			sample(run);
			at_ns = clock_ns() + run->seconds * S_NS;
			if (!*run->said && ++shown > times)
				break;
		}
		(void)view_make(run);
		draw(run);
		timeout(at_ns > clock_ns() ? (int)((at_ns - clock_ns()) / (S_NS / S_MS)) + 1 : 0);
		key = getch();
		if (key != ERR)
			goes_on = take_key(run, key, &at_ns);
	}
}

/* As plain text: a block for each sample, with a line between them. */
static int plain_loop(struct top_run *run, uint64_t times)
{
	int code = EX_OK;

	sample(run);
	for (uint64_t i = 0; !code && i < times; i++) {
		struct timespec pause = { .tv_sec = (time_t)run->seconds };

		if (*run->said) {
			fprintf(stderr, "kvctl: %s\n", run->said);
			return EX_SOFTWARE;
		}
		(void)nanosleep(&pause, NULL);
		if (interrupted())
			break;
		sample(run);
		if (*run->said || !view_make(run))
			continue;
		if (i)
			putchar('\n');
		for (unsigned int j = 0; j < run->view.count; j++)
			puts(run->view.lines[j]);
		code = output_flush();
	}
	return code;
}

static bool sort_parse(struct top_run *run, const struct arguments *arguments)
{
	if (!arguments->sort.given)
		return true;
	for (unsigned int i = 0; i < TOP_COLUMN_COUNT; i++) {
		if (strcmp(arguments->sort.text, top_column_names[i]))
			continue;
		run->sort = (enum top_column)i;
		return true;
	}
	return false;
}

/* NULL: there is none, and plain text has to do. */
static SCREEN *screen_open(void)
{
	const char *term = getenv("TERM");
	SCREEN *screen;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !term || !*term ||
	    !strcmp(term, "dumb"))
		return NULL;
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return NULL;
	cbreak();
	noecho();
	keypad(stdscr, true);
	curs_set(0);
	return screen;
}

static int top_run(struct top_run *run, const struct arguments *arguments)
{
	SCREEN *screen = screen_open();
	struct sigaction before;
	int code = EX_OK;

	interrupt_clear();
	interrupt_catch(&before);
	if (screen) {
		screen_loop(run, arguments->count.given ? arguments->count.number : UINT64_MAX);
		endwin();
		delscreen(screen);
	} else {
		code = plain_loop(run, arguments->count.given ? arguments->count.number : 1);
	}
	interrupt_leave(&before);
	return code;
}

int command_top(struct kvd *db, const struct arguments *arguments)
{
	static struct top_run run;
	int code;

	memset(&run, 0, sizeof(run));
	run.db = db;
	run.server = arguments->server;
	run.seconds = arguments->watch.given ? arguments->watch.number : SECONDS_DEFAULT;
	if (!sort_parse(&run, arguments))
		return usage_error(arguments->sort.text,
				   "requests, received, sent, idle, age or id");
	if (top_sample_init(&run.samples[0]) && top_sample_init(&run.samples[1]))
		code = top_run(&run, arguments);
	else
		code = report_memory();
	top_sample_release(&run.samples[0]);
	top_sample_release(&run.samples[1]);
	return code;
}
