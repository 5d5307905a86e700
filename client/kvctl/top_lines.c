/* SPDX-License-Identifier: MIT */
/* Makes lines of kvctl top: see top_lines.h. */
#include "client/kvctl/top_lines.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/kvctl/progress.h"
#include "client/kvctl/stats_text.h"

#define BAR_COLUMNS 36u

/* Adds a line. */
void top_line(struct top_view *view, const char *format, ...)
{
	va_list arguments;

	if (view->count == TOP_LINES)
		return;
	va_start(arguments, format);
	view->is_heading[view->count] = false;
	vsnprintf(view->lines[view->count++], TOP_LINE_BYTES, format, arguments);
	va_end(arguments);
}

/* The heading of a table. */
void top_heading(struct top_view *view, const char *format, ...)
{
	char text[TOP_LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	top_line(view, "%s", text);
	view->is_heading[view->count - 1] = true;
}

uint64_t top_value(const struct span *span, const char *name)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < span->count; i++)
		sum += stats_number(span->now[i], name);
	return sum;
}

/* Of the servers that are in both samples. */
double top_grown(const struct span *span, const char *name)
{
	double sum = 0;

	for (size_t i = 0; i < span->count; i++) {
		const uint64_t now = stats_number(span->now[i], name);
		const uint64_t before = stats_number(span->before[i], name);

		/* A server that restarted in between counts from 0. */
		if (*span->now[i] && *span->before[i])
			sum += (double)(now - (before <= now ? before : 0));
	}
	return sum;
}

double top_rate(const struct span *span, const char *name)
{
	return top_grown(span, name) / span->seconds;
}

double top_us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static const char *size(char text[16], const struct span *span, const char *name)
{
	return bytes_text(text, (double)top_value(span, name));
}

void top_add_requests(struct top_view *view, const struct span *span)
{
	const double gets = top_grown(span, "gets"), found = top_grown(span, "get_hits");
	char hits[32] = "no hits or misses";

	if (gets > 0)
		snprintf(hits, sizeof(hits), "%.1f %% hits", 100 * found / gets);
	top_line(view, "Requests   %.0f/s: PUT %.0f, DELETE %.0f, TOUCH %.0f, SCAN %.0f",
		 top_rate(span, "requests"), top_rate(span, "puts"), top_rate(span, "deletes"),
		 top_rate(span, "touches"), top_rate(span, "scans"));
	top_line(view, "GETs       %.0f/s (%s), %.0f/s of them by READ, as clients report",
		 top_rate(span, "gets"), hits, top_rate(span, "gets_reported"));
	top_line(view,
		 "Keys       %" PRIu64
		 ": %.0f/s added, %.0f/s removed, %.0f/s expired, %.0f/s evicted",
		 top_value(span, "items"), top_rate(span, "inserts"), top_rate(span, "removes"),
		 top_rate(span, "expired"), top_rate(span, "evictions"));
}

/* Draws a bar of @share of BAR_COLUMNS to @text, which has one byte more. */
static const char *bar(char text[BAR_COLUMNS + 1], double share)
{
	const double full = share < 0 ? 0 : share > 1 ? 1 : share;
	const size_t columns = (size_t)(full * BAR_COLUMNS + 0.5);

	memset(text, '#', columns);
	memset(text + columns, '.', BAR_COLUMNS - columns);
	text[BAR_COLUMNS] = '\0';
	return text;
}

void top_add_memory(struct top_view *view, const struct span *span)
{
	const double all = (double)top_value(span, "region_bytes");
	const double unused = (double)top_value(span, "memory.free");
	char text[BAR_COLUMNS + 1], a[16], b[16], c[16], d[16], e[16], f[16];

	top_line(view, "Memory     [%s] %5.1f %% of %s in use",
		 bar(text, all > 0 ? 1 - unused / all : 0), all > 0 ? 100 * (1 - unused / all) : 0,
		 bytes_text(a, all));
	top_line(view, "           index %s, slabs %s (%s free), large items %s",
		 size(a, span, "memory.index"), size(b, span, "memory.item_slabs"),
		 size(c, span, "memory.item_slabs_free"), size(d, span, "memory.large"));
	top_line(view, "           live %s, being emptied %s",
		 size(e, span, "item_memory_live_bytes"), size(f, span, "memory.evacuating"));
}

/* Counters of trouble that have grown. */
void top_add_trouble(struct top_view *view, const struct span *span)
{
	static const char *const names[] = {
		"connections_failed",  "connections_rejected", "protocol_errors",
		"access_errors",       "put_no_space",	       "put_too_large",
		"requests_over_limit", "pulls_stalled",	       "device_failures",
		"async_errors",
	};
	char text[TOP_LINE_BYTES] = "";
	size_t used = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && used < sizeof(text); i++)
		if (top_rate(span, names[i]) > 0)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %.1f/s",
						 used ? ", " : "", names[i],
						 top_rate(span, names[i]));
	top_line(view, "Trouble    %s", used ? text : "none");
}
