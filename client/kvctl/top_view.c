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

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void add_title(struct top_view *view, const char *server, const struct span *span)
{
	const uint64_t workers = top_value(span, "workers");
	const uint64_t connections = top_value(span, "connections");
	struct stats_line version = { .value = "", .value_len = 0 };
	char up[24];

	(void)stats_find(span->now[0], "version", strlen("version"), &version);
	top_line(view, "kvd %.*s  %s  up %s  %" PRIu64 " worker%s  %" PRIu64 " connection%s",
		 (int)version.value_len, version.value, server,
		 time_text(up, top_value(span, "uptime_s")), workers, plural(workers), connections,
		 plural(connections));
}

static void add_latency(struct top_view *view, const struct span *span,
			const struct top_sample *now)
{
	top_line(view, "Latency    PING from here: p50 %.1f, max %.1f us",
		 top_us(now->ping_ns[TOP_PINGS / 2]), top_us(now->ping_ns[TOP_PINGS - 1]));
	top_line(view,
		 "Turns      since the start: p50 %.1f, p99 %.1f, p99.9 %.1f, max %" PRIu64 " us",
		 top_us(top_value(span, "worker.turn_ns_p50")),
		 top_us(top_value(span, "worker.turn_ns_p99")),
		 top_us(top_value(span, "worker.turn_ns_p99_9")),
		 top_value(span, "worker.turn_us_max"));
}

static void add_size_classes(struct top_view *view, const struct span *span, unsigned int most)
{
	static struct size_classes classes;
	char text[SIZE_CLASS_ROW_BYTES];
	unsigned int shown;

	size_classes_read(&classes, span->now[0]);
	if (!classes.count || !most)
		return;
	shown = classes.count < most ? classes.count : most;
	top_line(view, "%s", "");
	top_heading(view, "%s", SIZE_CLASSES_HEADING);
	for (unsigned int i = 0; i < shown; i++)
		top_line(view, "%s", size_class_text(text, &classes.rows[i]));
	if (shown < classes.count)
		top_line(view, "and %u size classes with less memory", classes.count - shown);
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
	const uint64_t count = top_value(span, "workers");

	top_line(view, "%s", "");
	top_heading(view, "%-6s %8s %8s %8s %10s %8s %9s %9s", "WORKER", "USEFUL %", "POLLS %",
		    "SLEEPS %", "TURNS/s", "TURN us", "P99 us", "MAX us");
	for (uint64_t i = 0; i < count; i++) {
		char name[64];
		const double useful = top_rate(span, of_worker(name, i, "cpu_useful_us")) / 1e6;
		const double polls = top_rate(span, of_worker(name, i, "cpu_polling_us")) / 1e6;
		const double turns = top_rate(span, of_worker(name, i, "turns"));
		const uint64_t p99_ns = top_value(span, of_worker(name, i, "turn_ns_p99"));
		const uint64_t max_us = top_value(span, of_worker(name, i, "turn_us_max"));

		top_line(view, "%-6" PRIu64 " %8.1f %8.1f %8.1f %10.0f %8.1f %9.1f %9" PRIu64, i,
			 100 * useful, 100 * polls,
			 useful + polls < 1 ? 100 * (1 - useful - polls) : 0.0, turns,
			 turns > 0 ? 1e6 * useful / turns : 0.0, top_us(p99_ns), max_us);
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

	top_line(view, "%-9.0f %-9s %-21s %10.0f %11s/s %11s/s %6.0f %7.0f", client->values[TOP_id],
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
		top_line(view, "Connections: not allowed: to see them takes the right admin");
		free(old);
		return;
	}
	top_line(view, "Connections by %s%s", top_column_names[sort_now],
		 smallest_now ? ", smallest first" : "");
	top_heading(view, "%-9s %-9s %-21s %10s %13s %13s %6s %7s", "ID", "DEVICE", "ADDRESS",
		    "REQUESTS/s", "RECEIVED/s", "SENT/s", "IDLE s", "AGE s");
	if (clients)
		qsort(clients, count, sizeof(*clients), compare_clients);
	for (size_t i = 0; i < count && view->count + 1 < TOP_LINES; i++, shown++)
		add_client(view, &clients[i]);
	if (shown < count)
		top_line(view, "and %zu more", count - shown);
	free(clients);
	free(old);
}

void top_view_make(struct top_view *view, const char *server, const struct top_sample *before,
		   const struct top_sample *now, const struct top_choice *choice)
{
	const char *const texts[] = { before->stats, now->stats };
	const struct span span = {
		.before = &texts[0],
		.now = &texts[1],
		.count = 1,
		.seconds = (double)(now->at_ns - before->at_ns) / 1e9,
	};

	view->count = 0;
	sort_now = choice->sort;
	smallest_now = choice->smallest_first;
	add_title(view, server, &span);
	top_add_requests(view, &span);
	add_latency(view, &span, now);
	top_add_memory(view, &span);
	top_add_trouble(view, &span);
	add_size_classes(view, &span, choice->size_classes);
	add_workers(view, &span);
	add_clients(view, before, now, span.seconds);
}
