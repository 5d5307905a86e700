/* SPDX-License-Identifier: MIT */
/* Makes the lines of the log. All of it is async-signal-safe: the report of a crash uses it. */
#include "common/util/log_line.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "common/util/text.h"
#include "common/util/thread.h"

#define DOTS "..."

static _Atomic int style_now = LOG_STYLE_TEXT;
static _Atomic bool journal_now;

void log_set_style(enum log_style style)
{
	atomic_store(&style_now, (int)style);
}

void log_set_journal(bool journal)
{
	atomic_store(&journal_now, journal);
}

const char *log_level_name(enum log_level level)
{
	static const char *const names[LOG_LEVEL_COUNT] = {
		[LOG_OFF] = "off",	 [LOG_ERROR] = "error", [LOG_WARN] = "warn",
		[LOG_NOTICE] = "notice", [LOG_INFO] = "info",	[LOG_DEBUG] = "debug",
	};

	return (unsigned int)level < LOG_LEVEL_COUNT ? names[level] : "?";
}

/* Writes @value in @digits digits. */
static char *put_digits(char *at, uint64_t value, unsigned int digits)
{
	for (unsigned int i = digits; i-- > 0; value /= 10)
		at[i] = (char)('0' + value % 10);
	return at + digits;
}

/*
 * Writes the date of a day since 1970: gmtime_r(3) takes a lock. Years begin in March here, so that
 * a leap day is the last one: https://howardhinnant.github.io/date_algorithms.html
 */
static char *put_date(char *at, uint64_t day)
{
	const uint64_t of_era = (day + 719468) % 146097;
	const uint64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) /
				     365;
	const uint64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	const uint64_t month = (5 * of_year + 2) / 153;
	const uint64_t year = (day + 719468) / 146097 * 400 + year_of_era + (month >= 10);

	at = put_digits(at, year, 4);
	*at++ = '-';
	at = put_digits(at, month < 10 ? month + 3 : month - 9, 2);
	*at++ = '-';
	return put_digits(at, of_year - (153 * month + 2) / 5 + 1, 2);
}

void log_stamp(char text[LOG_STAMP_BYTES])
{
	struct timespec now;
	uint64_t s;
	char *at;

	clock_gettime(CLOCK_REALTIME, &now);
	s = (uint64_t)now.tv_sec;
	at = put_date(text, s / 86400);
	*at++ = 'T';
	at = put_digits(at, s / 3600 % 24, 2);
	*at++ = ':';
	at = put_digits(at, s / 60 % 60, 2);
	*at++ = ':';
	at = put_digits(at, s % 60, 2);
	*at++ = '.';
	at = put_digits(at, (uint64_t)now.tv_nsec / 1000, 6);
	*at++ = 'Z';
	*at = '\0';
}

static char *put_string(char *at, const char *string)
{
	return stpcpy(at, string);
}

/* Milliseconds are enough for people. */
static char *put_text_head(char *at, enum log_level level)
{
	char stamp[LOG_STAMP_BYTES];

	log_stamp(stamp);
	memcpy(at, stamp, LOG_STAMP_BYTES - 5);
	at = put_string(at + LOG_STAMP_BYTES - 5, "Z ");
	at = put_string(at, log_level_name(level));
	return put_string(at, " ");
}

static char *put_json_head(char *at, enum log_level level)
{
	at = put_string(at, "{\"ts\":\"");
	log_stamp(at);
	at = put_string(at + LOG_STAMP_BYTES - 1, "\",\"level\":\"");
	at = put_string(at, log_level_name(level));
	at = put_string(at, "\",\"thread\":\"");
	at = put_string(at, thread_name());
	return put_string(at, "\",\"msg\":\"");
}

/* The priority of syslog(3), which the journal takes off: sd-daemon(3). */
static char *put_priority(char *at, enum log_level level)
{
	static const char priorities[LOG_LEVEL_COUNT] = {
		[LOG_OFF] = '2',    [LOG_ERROR] = '3', [LOG_WARN] = '4',
		[LOG_NOTICE] = '5', [LOG_INFO] = '6',  [LOG_DEBUG] = '7',
	};

	*at++ = '<';
	*at++ = priorities[level];
	*at++ = '>';
	return at;
}

/*
 * Copies @text up to @end; if it is longer, it is cut after a whole character, and dots follow.
 * Returns the end of what it wrote.
 */
static char *put_text(char *at, const char *end, const char *text, size_t length, bool json)
{
	char *cut = at;

	for (size_t i = 0, n; i < length; i += n ? n : 1) {
		bool escape = json && (text[i] == '"' || text[i] == '\\');

		n = plain_len((const uint8_t *)text + i, length - i);
		if (end - at < (ptrdiff_t)(escape + (n ? n : 1)))
			return (char *)memcpy(cut, DOTS, sizeof(DOTS) - 1) + sizeof(DOTS) - 1;
		if (escape)
			*at++ = '\\';
		if (n)
			memcpy(at, text + i, n);
		else
			*at = '?';
		at += n ? n : 1;
		if (end - at >= (ptrdiff_t)sizeof(DOTS) - 1)
			cut = at;
	}
	return at;
}

char *log_json(char *at, const char *end, const char *text, size_t length)
{
	return put_text(at, end, text, length, true);
}

size_t log_line(char line[LOG_LINE_MAX], enum log_level level, const char *text, size_t length)
{
	bool json = atomic_load(&style_now) == LOG_STYLE_JSON, journal = atomic_load(&journal_now);
	char *at = line;

	if (journal)
		at = put_priority(at, level);
	if (json)
		at = put_json_head(at, level);
	else if (!journal)
		at = put_text_head(at, level);
	at = put_text(at, line + LOG_LINE_MAX - 1 - (json ? 2 : 0), text, length, json);
	if (json) {
		*at++ = '"';
		*at++ = '}';
	}
	*at++ = '\n';
	return (size_t)(at - line);
}
