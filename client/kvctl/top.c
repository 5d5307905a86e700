/* SPDX-License-Identifier: MIT */
/*
 * kvctl top: what a server or a fleet does now, on the whole screen, or as plain text without a
 * terminal. If the server goes away, top retries until it is back.
 */
#define NCURSES_NOMACROS
#include <limits.h>
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
#include "client/kvctl/members.h"
#include "client/kvctl/report.h"
#include "client/kvctl/stats_text.h"
#include "client/kvctl/top_fleet.h"
#include "client/kvctl/top_view.h"
#include "common/util/clock.h"

#define SECONDS_DEFAULT 2u
#define SECONDS_MAX 3600u
#define S_NS 1000000000ull
#define S_MS 1000u
#define KEYS_TEXT "q quit  s r sort  m all size classes  + - interval  arrows scroll  space now"
/* Lines of everything else than size classes, workers, connections; lines of connections. */
#define LINES_BESIDE 17u
#define CONNECTIONS_LEFT 2u
#define SIZE_CLASSES_LEAST 2u
#define SIZE_CLASSES_MOST 10u

struct top_run {
	struct kvd *db;
	const char *server;
	struct top_sample samples[2];
	const struct arguments *arguments;
	bool is_fleet; /* it has these in place of `samples` */
	struct members members;
	struct top_fleet_sample fleet_samples[2];
	struct top_view view;
	unsigned int newest; /* of samples */
	uint64_t seconds;
	struct top_choice choice;
	bool all_size_classes;
	unsigned int first; /* the line of the view that is shown below the title */
	enum kvd_status status;
	char said[TOP_LINE_BYTES]; /* why the last sample failed; empty: it did not */
};

static void fleet_sample(struct top_run *run)
{
	top_fleet_sample_take(&run->fleet_samples[1 - run->newest], &run->members, run->arguments);
	run->newest = 1 - run->newest;
}

static void sample(struct top_run *run)
{
	struct top_sample *next = &run->samples[1 - run->newest];

	if (run->is_fleet) {
		fleet_sample(run);
		return;
	}
	run->status = top_sample_take(next, run->db);
	*run->said = '\0';
	if (!run->status)
		run->newest = 1 - run->newest;
	else
		snprintf(run->said, sizeof(run->said), "trying again: %s%s%s",
			 kvd_status_text(run->status), *kvd_error(run->db) ? ": " : "",
			 kvd_error(run->db));
}

static bool fleet_view_make(struct top_run *run)
{
	const struct top_fleet_sample *now = &run->fleet_samples[run->newest];
	const struct top_fleet_sample *before = &run->fleet_samples[1 - run->newest];

	if (!before->is_taken)
		return false;
	top_fleet_view_make(&run->view, &run->members, before, now);
	return true;
}

/* False: there are no two samples yet. */
static bool view_make(struct top_run *run)
{
	const struct top_sample *now = &run->samples[run->newest];
	const struct top_sample *before = &run->samples[1 - run->newest];

	if (run->is_fleet)
		return fleet_view_make(run);
	if (!now->is_taken || !before->is_taken)
		return false;
	top_view_make(&run->view, run->server, before, now, &run->choice);
	return true;
}

/* How many size classes to show: workers and some connections must fit, too. */
static unsigned int size_classes_fit(const struct top_run *run, unsigned int rows)
{
	const uint64_t others = LINES_BESIDE + CONNECTIONS_LEFT +
				stats_number(run->samples[run->newest].stats, "workers");

	if (run->all_size_classes)
		return UINT_MAX;
	if (rows < others + SIZE_CLASSES_LEAST)
		return SIZE_CLASSES_LEAST;
	return rows - others < SIZE_CLASSES_MOST ? (unsigned int)(rows - others) :
						   SIZE_CLASSES_MOST;
}

static unsigned int screen_rows(void)
{
	return LINES > 0 ? (unsigned int)LINES : 0;
}

/* How far the view may be scrolled: until its last line is visible. */
static unsigned int first_most(const struct top_run *run)
{
	const unsigned int rows = screen_rows();

	return rows > 2 && run->view.count + 1 > rows ? run->view.count + 1 - rows : 0;
}

static void scroll_by(struct top_run *run, int lines)
{
	const unsigned int most = first_most(run);

	if (lines < 0)
		run->first -= run->first < (unsigned int)-lines ? run->first : (unsigned int)-lines;
	else
		run->first += (unsigned int)lines;
	if (run->first > most)
		run->first = most;
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

/* The title stays, the rest scrolls; the last line shows the keys, or an error. */
static void draw(struct top_run *run)
{
	const unsigned int rows = screen_rows();
	char keys[TOP_LINE_BYTES];

	erase();
	scroll_by(run, 0);
	for (unsigned int i = 0; i + 1 < rows; i++) {
		const unsigned int number = i ? i + run->first : 0;

		if (number >= run->view.count)
			break;
		draw_line((int)i,
			  run->view.is_heading[number] ? A_REVERSE :
			  i == 0		       ? A_BOLD :
							 A_NORMAL,
			  run->view.lines[number]);
	}
	snprintf(keys, sizeof(keys), "every %llu s  %s", (unsigned long long)run->seconds,
		 KEYS_TEXT);
	if (rows)
		draw_line((int)rows - 1, *run->said ? A_BOLD : A_DIM,
			  *run->said ? run->said : keys);
	refresh();
}

/* Handles keys that scroll. False: it was another key. */
static bool take_scroll_key(struct top_run *run, int key)
{
	const int page = LINES > 3 ? LINES - 3 : 1;

	switch (key) {
	case KEY_UP:
		scroll_by(run, -1);
		return true;
	case KEY_DOWN:
		scroll_by(run, 1);
		return true;
	case KEY_PPAGE:
		scroll_by(run, -page);
		return true;
	case KEY_NPAGE:
		scroll_by(run, page);
		return true;
	case KEY_HOME:
		run->first = 0;
		return true;
	case KEY_END:
		run->first = first_most(run);
		return true;
	default:
		return false;
	}
}

/* False: the key ends top. Else *@at_ns is when the next sample is due. */
static bool take_key(struct top_run *run, int key, uint64_t *at_ns)
{
	if (take_scroll_key(run, key))
		return true;
	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case 's':
	case KEY_RIGHT:
		run->choice.sort = (run->choice.sort + 1) % TOP_COLUMN_COUNT;
		break;
	case KEY_LEFT:
		run->choice.sort = (run->choice.sort + TOP_COLUMN_COUNT - 1) % TOP_COLUMN_COUNT;
		break;
	case 'r':
		run->choice.smallest_first = !run->choice.smallest_first;
		break;
	case 'm':
		run->all_size_classes = !run->all_size_classes;
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
	default: /* KEY_RESIZE: just draw again */
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
		uint64_t now_ns = clock_ns();
		int key;

		if (now_ns >= at_ns) {
			sample(run);
			at_ns = clock_ns() + run->seconds * S_NS;
			if (!*run->said && ++shown > times)
				break;
		}
		run->choice.size_classes = size_classes_fit(run, screen_rows());
		(void)view_make(run);
		draw(run);
		/* Read once: if at_ns passed in between, the timeout would be negative: forever. */
		now_ns = clock_ns();
		timeout(at_ns > now_ns ? (int)((at_ns - now_ns) / (S_NS / S_MS)) + 1 : 0);
		key = getch();
		if (key != ERR)
			goes_on = take_key(run, key, &at_ns);
	}
}

/* Plain text: a block for each sample, separated by a line. */
static int plain_loop(struct top_run *run, uint64_t times)
{
	int code;

	run->choice.size_classes = UINT_MAX;
	sample(run);
	code = report(run->db, run->status);
	for (uint64_t i = 0; !code && i < times; i++) {
		struct timespec pause = { .tv_sec = (time_t)run->seconds };

		(void)nanosleep(&pause, NULL);
		if (interrupted())
			break;
		sample(run);
		code = report(run->db, run->status);
		if (code || !view_make(run))
			break;
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
		run->choice.sort = (enum top_column)i;
		return true;
	}
	return false;
}

/* NULL: there is no usable terminal, so plain text is printed. */
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

static bool samples_init(struct top_run *run)
{
	const uint32_t members = run->members.info.members;

	if (run->is_fleet)
		return top_fleet_sample_init(&run->fleet_samples[0], members) &&
		       top_fleet_sample_init(&run->fleet_samples[1], members);
	return top_sample_init(&run->samples[0]) && top_sample_init(&run->samples[1]);
}

static void samples_release(struct top_run *run)
{
	for (unsigned int i = 0; i < 2; i++) {
		top_sample_release(&run->samples[i]);
		top_fleet_sample_release(&run->fleet_samples[i]);
	}
}

int command_top(struct kvd *db, const struct arguments *arguments)
{
	static struct top_run run;
	int code;

	memset(&run, 0, sizeof(run));
	run.db = db;
	run.server = arguments->server;
	run.arguments = arguments;
	run.is_fleet = members_url_is(arguments->server);
	run.seconds = arguments->watch.given ? arguments->watch.number : SECONDS_DEFAULT;
	if (!sort_parse(&run, arguments))
		return usage_error(arguments->sort.text,
				   "requests, received, sent, idle, age or id");
	code = run.is_fleet ? members_read(&run.members, db, run.server) : EX_OK;
	if (code)
		return code;
	if (samples_init(&run))
		code = top_run(&run, arguments);
	else
		code = report_memory();
	samples_release(&run);
	members_release(&run.members);
	return code;
}
