/* SPDX-License-Identifier: MIT */
/* Makes the lines of kvctl top: see top_view.h. */
#include "client/kvctl/top_view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvctl/progress.h"
#include "client/kvctl/size_classes.h"
#include "client/kvctl/stats_text.h"
#include "common/util/clock.h"

#define BAR_COLUMNS 36u

const char *const top_column_names[TOP_COLUMN_COUNT] = {
#define X(name, heading, rate) #name,
	TOP_COLUMNS(X)
#undef X
};

bool top_sample_init(struct top_sample *sample)
{
	sample->is_taken = false;
	sample->clients = malloc(TOP_CLIENTS_BYTES);
	if (sample->clients)
		*sample->clients = '\0';
	return sample->clients;
}

void top_sample_release(struct top_sample *sample)
{
	free(sample->clients);
	sample->clients = NULL;
}

static int compare_ns(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static enum kvd_status ping(struct top_sample *sample, struct kvd *db)
{
	enum kvd_status status = KVD_OK;

	for (unsigned int i = 0; !status && i < TOP_PINGS; i++) {
		const uint64_t start_ns = clock_ns();

		status = kvd_ping(db);
		sample->ping_ns[i] = clock_ns() - start_ns;
	}
	qsort(sample->ping_ns, TOP_PINGS, sizeof(sample->ping_ns[0]), compare_ns);
	return status;
}

/* Without the right to see the connections, a user sees the rest. */
enum kvd_status top_sample_take(struct top_sample *sample, struct kvd *db)
{
	enum kvd_status status;

	sample->is_taken = false;
	status = kvd_server_stats(db, sample->stats, sizeof(sample->stats), NULL);
	sample->at_ns = clock_ns();
	if (!status)
		status = ping(sample, db);
	if (status)
		return status;
	status = kvd_client_list(db, sample->clients, TOP_CLIENTS_BYTES, NULL);
	if (status)
		*sample->clients = '\0';
	if (status && status != KVD_ERR_NOT_ALLOWED)
		return status;
	sample->is_taken = true;
	return KVD_OK;
}

/* Adds a line. */
static void __attribute__((format(printf, 2, 3)))
line(struct top_view *view, const char *format, ...)
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
static void __attribute__((format(printf, 2, 3)))
heading(struct top_view *view, const char *format, ...)
{
	char text[TOP_LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	line(view, "%s", text);
	view->is_heading[view->count - 1] = true;
}

/* The two samples, and the seconds between them. */
struct span {
	const char *before, *now;
	double seconds;
};

static double grown(const struct span *span, const char *name)
{
	const uint64_t now = stats_number(span->now, name);
	const uint64_t before = stats_number(span->before, name);

	/* A server that restarted in between counts from 0. */
	return (double)(now - (before <= now ? before : 0));
}

static double rate(const struct span *span, const char *name)
{
	return grown(span, name) / span->seconds;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static const char *size(char text[16], const struct span *span, const char *name)
{
	return bytes_text(text, (double)stats_number(span->now, name));
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void add_title(struct top_view *view, const char *server, const struct span *span)
{
	const uint64_t workers = stats_number(span->now, "workers");
	const uint64_t connections = stats_number(span->now, "connections");
	struct stats_line version = { .value = "", .value_len = 0 };
	char up[24];

	(void)stats_find(span->now, "version", strlen("version"), &version);
	line(view, "kvd %.*s  %s  up %s  %" PRIu64 " worker%s  %" PRIu64 " connection%s",
	     (int)version.value_len, version.value, server,
	     time_text(up, stats_number(span->now, "uptime_s")), workers, plural(workers),
	     connections, plural(connections));
}

static void add_requests(struct top_view *view, const struct span *span)
{
	const double gets = grown(span, "gets"), found = grown(span, "get_hits");
	char hits[32] = "no hits or misses";

	if (gets > 0)
		snprintf(hits, sizeof(hits), "%.1f %% hits", 100 * found / gets);
	line(view, "Requests   %.0f/s: PUT %.0f, DELETE %.0f, TOUCH %.0f, SCAN %.0f",
	     rate(span, "requests"), rate(span, "puts"), rate(span, "deletes"),
	     rate(span, "touches"), rate(span, "scans"));
	line(view, "GETs       %.0f/s (%s), %.0f/s of them by READ, as clients report",
	     rate(span, "gets"), hits, rate(span, "gets_reported"));
	line(view,
	     "Keys       %" PRIu64 ": %.0f/s added, %.0f/s removed, %.0f/s expired, %.0f/s evicted",
	     stats_number(span->now, "items"), rate(span, "inserts"), rate(span, "removes"),
	     rate(span, "expired"), rate(span, "evictions"));
}

static void add_latency(struct top_view *view, const struct span *span,
			const struct top_sample *now)
{
	line(view, "Latency    PING from here: p50 %.1f, max %.1f us",
	     us(now->ping_ns[TOP_PINGS / 2]), us(now->ping_ns[TOP_PINGS - 1]));
	line(view, "Turns      since the start: p50 %.1f, p99 %.1f, p99.9 %.1f, max %" PRIu64 " us",
	     us(stats_number(span->now, "worker.turn_ns_p50")),
	     us(stats_number(span->now, "worker.turn_ns_p99")),
	     us(stats_number(span->now, "worker.turn_ns_p99_9")),
	     stats_number(span->now, "worker.turn_us_max"));
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

static void add_memory(struct top_view *view, const struct span *span)
{
	const double all = (double)stats_number(span->now, "region_bytes");
	const double unused = (double)stats_number(span->now, "memory.free");
	char text[BAR_COLUMNS + 1], a[16], b[16], c[16], d[16], e[16], f[16];

	line(view, "Memory     [%s] %5.1f %% of %s in use",
	     bar(text, all > 0 ? 1 - unused / all : 0), all > 0 ? 100 * (1 - unused / all) : 0,
	     bytes_text(a, all));
	line(view, "           index %s, slabs %s (%s free), large items %s",
	     size(a, span, "memory.index"), size(b, span, "memory.item_slabs"),
	     size(c, span, "memory.item_slabs_free"), size(d, span, "memory.large"));
	line(view, "           live %s, being emptied %s", size(e, span, "item_memory_live_bytes"),
	     size(f, span, "memory.evacuating"));
}

/* Counters of trouble that have grown. */
static void add_trouble(struct top_view *view, const struct span *span)
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
		if (rate(span, names[i]) > 0)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %.1f/s",
						 used ? ", " : "", names[i], rate(span, names[i]));
	line(view, "Trouble    %s", used ? text : "none");
}

static void add_size_classes(struct top_view *view, const struct span *span, unsigned int most)
{
	static struct size_classes classes;
	char text[SIZE_CLASS_ROW_BYTES];
	unsigned int shown;

	size_classes_read(&classes, span->now);
	if (!classes.count || !most)
		return;
	shown = classes.count < most ? classes.count : most;
	line(view, "%s", "");
	heading(view, "%s", SIZE_CLASSES_HEADING);
	for (unsigned int i = 0; i < shown; i++)
		line(view, "%s", size_class_text(text, &classes.rows[i]));
	if (shown < classes.count)
		line(view, "and %u size classes with less memory", classes.count - shown);
}

/* One of the numbers of worker @i. */
static const char *of_worker(char text[64], uint64_t i, const char *name)
{
	snprintf(text, 64, "worker.%" PRIu64 ".%s", i, name);
	return text;
}

/*
 * The shares of each worker's time: working on requests, polling in vain, and asleep. TURN us is
 * the average in this interval; the columns after it count since the start.
 */
static void add_workers(struct top_view *view, const struct span *span)
{
	const uint64_t count = stats_number(span->now, "workers");

	line(view, "%s", "");
	heading(view, "%-6s %8s %8s %8s %10s %8s %9s %9s", "WORKER", "USEFUL %", "POLLS %",
		"SLEEPS %", "TURNS/s", "TURN us", "P99 us", "MAX us");
	for (uint64_t i = 0; i < count; i++) {
		char name[64];
		const double useful = rate(span, of_worker(name, i, "cpu_useful_us")) / 1e6;
		const double polls = rate(span, of_worker(name, i, "cpu_polling_us")) / 1e6;
		const double turns = rate(span, of_worker(name, i, "turns"));
		const uint64_t p99_ns = stats_number(span->now, of_worker(name, i, "turn_ns_p99"));
		const uint64_t max_us = stats_number(span->now, of_worker(name, i, "turn_us_max"));

		line(view, "%-6" PRIu64 " %8.1f %8.1f %8.1f %10.0f %8.1f %9.1f %9" PRIu64, i,
		     100 * useful, 100 * polls,
		     useful + polls < 1 ? 100 * (1 - useful - polls) : 0.0, turns,
		     turns > 0 ? 1e6 * useful / turns : 0.0, us(p99_ns), max_us);
	}
}

/* A line of the text of kvd_client_list(), and its fields that are shown. */
struct client {
	const char *text;
	double values[TOP_COLUMN_COUNT];
};

static int compare_id(const void *a, const void *b)
{
	const double x = ((const struct client *)a)->values[TOP_id];
	const double y = ((const struct client *)b)->values[TOP_id];

	return (x > y) - (x < y);
}

static enum top_column sort_now;
static bool smallest_now;

static int compare_clients(const void *a, const void *b)
{
	const double x = ((const struct client *)a)->values[sort_now];
	const double y = ((const struct client *)b)->values[sort_now];
	const int order = (x > y) - (x < y);

	if (!order)
		return compare_id(a, b);
	return smallest_now ? order : -order;
}

/* The clients of a text, sorted by id. NULL: there is none, or no memory. */
static struct client *clients_of(const char *text, size_t *count)
{
	struct client *clients;
	size_t lines = 0;

	for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
		lines++;
	*count = 0;
	clients = lines ? calloc(lines, sizeof(*clients)) : NULL;
	for (const char *at = text; clients && *at; at += strcspn(at, "\n"), at += *at == '\n') {
		struct client *client = &clients[(*count)++];

		client->text = at;
		for (unsigned int i = 0; i < TOP_COLUMN_COUNT; i++)
			client->values[i] = (double)field_number(at, top_column_names[i]);
	}
	if (clients)
		qsort(clients, *count, sizeof(*clients), compare_id);
	return clients;
}

static const char *text_of(char text[32], const char *of, const char *name)
{
	size_t len = 0;
	const char *value = field_find(of, name, &len);

	snprintf(text, 32, "%.*s", (int)len, value ? value : "");
	return text;
}

static void add_client(struct top_view *view, const struct client *client)
{
	char addr[32], device[32], received[16], sent[16];

	line(view, "%-9.0f %-9s %-21s %10.0f %11s/s %11s/s %6.0f %7.0f", client->values[TOP_id],
	     text_of(device, client->text, "device"), text_of(addr, client->text, "addr"),
	     client->values[TOP_requests], bytes_text(received, client->values[TOP_received]),
	     bytes_text(sent, client->values[TOP_sent]), client->values[TOP_idle],
	     client->values[TOP_age]);
}

static void add_clients(struct top_view *view, const struct top_sample *before,
			const struct top_sample *now, double seconds)
{
	static const bool is_rate[TOP_COLUMN_COUNT] = {
#define X(name, heading, rate) rate,
		TOP_COLUMNS(X)
#undef X
	};
	size_t count, old_count, shown = 0;
	struct client *clients = clients_of(now->clients, &count);
	struct client *old = clients_of(before->clients, &old_count);

	for (size_t i = 0; i < count; i++) {
		const struct client *same = old ? bsearch(&clients[i], old, old_count, sizeof(*old),
							  compare_id) :
						  NULL;

		for (unsigned int j = 0; j < TOP_COLUMN_COUNT; j++)
			if (is_rate[j])
				clients[i].values[j] = (clients[i].values[j] -
							(same ? same->values[j] : 0)) /
						       seconds;
	}
	/* The list has at least the client that asked. */
	if (!*now->clients) {
		line(view, "Connections: not allowed: to see them takes the right admin");
		free(old);
		return;
	}
	line(view, "Connections by %s%s", top_column_names[sort_now],
	     smallest_now ? ", smallest first" : "");
	heading(view, "%-9s %-9s %-21s %10s %13s %13s %6s %7s", "ID", "DEVICE", "ADDRESS",
		"REQUESTS/s", "RECEIVED/s", "SENT/s", "IDLE s", "AGE s");
	if (clients)
		qsort(clients, count, sizeof(*clients), compare_clients);
	for (size_t i = 0; i < count && view->count + 1 < TOP_LINES; i++, shown++)
		add_client(view, &clients[i]);
	if (shown < count)
		line(view, "and %zu more", count - shown);
	free(clients);
	free(old);
}

void top_view_make(struct top_view *view, const char *server, const struct top_sample *before,
		   const struct top_sample *now, const struct top_choice *choice)
{
	const struct span span = {
		.before = before->stats,
		.now = now->stats,
		.seconds = (double)(now->at_ns - before->at_ns) / 1e9,
	};

	view->count = 0;
	sort_now = choice->sort;
	smallest_now = choice->smallest_first;
	add_title(view, server, &span);
	add_requests(view, &span);
	add_latency(view, &span, now);
	add_memory(view, &span);
	add_trouble(view, &span);
	add_size_classes(view, &span, choice->size_classes);
	add_workers(view, &span);
	add_clients(view, before, now, span.seconds);
}
