/* SPDX-License-Identifier: MIT */
/* Makes the lines of kvctl top about a fleet: see top_fleet.h. */
#include "client/kvctl/top_fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"

bool top_fleet_sample_init(struct top_fleet_sample *sample, uint32_t count)
{
	sample->is_taken = false;
	sample->stats = calloc(count, sizeof(*sample->stats));
	sample->ping_ns = calloc(count, sizeof(*sample->ping_ns));
	return sample->stats && sample->ping_ns;
}

void top_fleet_sample_release(struct top_fleet_sample *sample)
{
	free(sample->stats);
	free(sample->ping_ns);
}

void top_fleet_sample_take(struct top_fleet_sample *sample, struct members *members,
			   const struct arguments *arguments)
{
	for (uint32_t i = 0; i < members->info.members; i++) {
		struct member *member = &members->list[i];
		uint64_t start_ns;

		if (!member_stats(member, arguments, sample->stats[i])) {
			*sample->stats[i] = '\0';
			continue;
		}
		start_ns = clock_ns();
		(void)kvd_ping(member->db);
		sample->ping_ns[i] = clock_ns() - start_ns;
	}
	sample->at_ns = clock_ns();
	sample->is_taken = true;
}

static void add_title(struct top_view *view, const struct members *members, const struct span *span)
{
	const uint64_t served = top_value(span, "fleet_shards_served");
	uint32_t there = 0;

	for (uint32_t i = 0; i < members->info.members; i++)
		there += *span->now[i] != '\0';
	top_line(view,
		 "fleet %s  %" PRIu32 " of %" PRIu32 " members  %" PRIu64 " of %" PRIu32
		 " shards served  %" PRIu64 " to move  %" PRIu64 " connections",
		 members->info.name, there, members->info.members, served, members->info.shards,
		 top_value(span, "fleet_moves_left"), top_value(span, "connections"));
}

/* The share of the workers' time in which they worked on requests. */
static double useful(const struct span *span)
{
	const uint64_t workers = top_value(span, "workers");
	double sum = 0;

	for (uint64_t i = 0; i < workers; i++) {
		char name[64];

		snprintf(name, sizeof(name), "worker.%" PRIu64 ".cpu_useful_us", i);
		sum += top_rate(span, name) / 1e6;
	}
	return workers ? sum / (double)workers : 0;
}

static void add_member(struct top_view *view, const struct member *member, const struct span *span,
		       uint64_t ping_ns)
{
	const double memory = (double)top_value(span, "region_bytes");
	const double unused = (double)top_value(span, "memory.free");
	const double gets = top_grown(span, "gets");
	char hits[16] = "-";

	if (!*span->now[0]) {
		top_line(view, "%-24s away: %s", member->map.id, member->why);
		return;
	}
	if (gets > 0)
		snprintf(hits, sizeof(hits), "%.1f", 100 * top_grown(span, "get_hits") / gets);
	top_line(view, "%-24s %7" PRIu64 " %9.0f %9.0f %6s %10" PRIu64 " %6.1f %8.1f %9.1f",
		 member->map.id, top_value(span, "fleet_shards_served"), top_rate(span, "requests"),
		 top_rate(span, "gets"), hits, top_value(span, "items"),
		 memory > 0 ? 100 * (1 - unused / memory) : 0, 100 * useful(span), top_us(ping_ns));
}

static void add_all(struct top_view *view, const struct members *members, const struct span *span,
		    const uint64_t *ping_ns)
{
	const uint32_t count = members->info.members;
	uint64_t known = count;

	add_title(view, members, span);
	top_add_requests(view, span);
	top_add_memory(view, span);
	top_add_trouble(view, span);
	top_line(view, "%s", "");
	top_heading(view, "%-24s %7s %9s %9s %6s %10s %6s %8s %9s", "MEMBER", "SHARDS", "REQ/s",
		    "GETs/s", "HITS %", "KEYS", "USED %", "USEFUL %", "PING us");
	for (uint32_t i = 0; i < count; i++) {
		const struct span one = { &span->before[i], &span->now[i], 1, span->seconds };

		add_member(view, &members->list[i], &one, ping_ns[i]);
		if (top_value(&one, "fleet_members") > known)
			known = top_value(&one, "fleet_members");
	}
	if (known > count)
		top_line(view, "and %" PRIu64 " that have joined: start top again", known - count);
}

void top_fleet_view_make(struct top_view *view, const struct members *members,
			 const struct top_fleet_sample *before, const struct top_fleet_sample *now)
{
	const uint32_t count = members->info.members;
	const char **olds = calloc(count, sizeof(*olds)), **news = calloc(count, sizeof(*news));
	const struct span span = {
		.before = olds,
		.now = news,
		.count = count,
		.seconds = (double)(now->at_ns - before->at_ns) / 1e9,
	};

	view->count = 0;
	for (uint32_t i = 0; olds && news && i < count; i++) {
		olds[i] = before->stats[i];
		news[i] = now->stats[i];
	}
	if (olds && news)
		add_all(view, members, &span, now->ping_ns);
	free(olds);
	free(news);
}
