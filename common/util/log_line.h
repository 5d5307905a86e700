/* SPDX-License-Identifier: MIT */
/*
 * A line of the log, as text or as a JSON object:
 *
 *	2026-11-21T00:18:00.123Z notice ready
 *	{"ts":"2026-11-21T00:18:00.123456Z","level":"notice","thread":"kvd","msg":"ready"}
 *
 * The journal of systemd has times of its own, and gets the level as a priority: "<5>ready". That
 * is for the stream that is stderr; the log's thread makes an entry of it: server/journal.h.
 */
#ifndef KVD_COMMON_UTIL_LOG_LINE_H
#define KVD_COMMON_UTIL_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* The longest line, with its newline; a longer one is cut and ends in "...". */
#define LOG_LINE_MAX 1024

enum log_level {
	LOG_OFF,
	LOG_ERROR,
	LOG_WARN,
	LOG_NOTICE,
	LOG_INFO,
	LOG_DEBUG,
};

#define LOG_LEVEL_COUNT (LOG_DEBUG + 1)

/* "off", "error", "warn", "notice", "info", "debug". */
const char *log_level_name(enum log_level level);

enum log_style {
	LOG_STYLE_TEXT,
	LOG_STYLE_JSON,
};

/* Of the lines from now on. Any thread. */
void log_set_style(enum log_style style);

/* Whether the lines from now on are for the journal of systemd. Any thread. */
void log_set_journal(bool journal);

/* With its zero: 2026-11-21T00:18:00.123456Z */
#define LOG_STAMP_BYTES 28

/* Writes the time, in UTC and as RFC 3339 has it. Handlers of signals may call it. */
void log_stamp(char text[LOG_STAMP_BYTES]);

/*
 * Makes the line of @length bytes at @text, in which bytes that are no printable UTF-8 become '?'.
 * A text that is too long is cut and ends in "...". Returns the line's length, newline included;
 * there is no zero at its end. Handlers of signals may call it.
 */
size_t log_line(char line[LOG_LINE_MAX], enum log_level level, const char *text, size_t length);

/*
 * Writes the inside of a JSON string to @at, up to @end: @text, in which bytes that are no
 * printable UTF-8 become '?'. A text that is too long is cut and ends in "...". Returns its end;
 * there is no zero.
 */
char *log_json(char *at, const char *end, const char *text, size_t length);

#endif /* KVD_COMMON_UTIL_LOG_LINE_H */
