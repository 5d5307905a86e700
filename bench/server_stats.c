/* SPDX-License-Identifier: MIT */
/*
 * Samples and searches the server's statistics: see server_stats.h.
 */
#include "bench/server_stats.h"

#include <stdio.h>
#include <string.h>

#include "common/util/parse.h"

bool server_stats_find(const char *text, const char *name, char *value, size_t size)
{
	const size_t len = strlen(name);
	const char *end;

	while (text && *text) {
		end = strchr(text, '\n');
		if (!strncmp(text, name, len) && text[len] == ' ') {
			text += len + 1;
			snprintf(value, size, "%.*s", (int)(end ? end - text : (long)strlen(text)),
				 text);
			return true;
		}
		text = end ? end + 1 : NULL;
	}
	return false;
}

bool server_stats_number(const char *text, const char *name, uint64_t *number)
{
	char value[32];

	return server_stats_find(text, name, value, sizeof(value)) &&
	       !parse_uint(value, 0, UINT64_MAX, number, NULL);
}

void server_stats_sample(struct server_stats *stats, struct db *db)
{
	uint64_t user_us, system_us;

	stats->cpu = (struct server_cpu){ 0 };
	stats->text[0] = '\0';
	if (db_server_stats(db, stats->text, sizeof(stats->text)))
		return;
	if (!server_stats_number(stats->text, "cpu_user_us", &user_us) ||
	    !server_stats_number(stats->text, "cpu_system_us", &system_us))
		return;
	stats->cpu.us = user_us + system_us;
	stats->cpu.known = true;
	stats->cpu.parts_known =
		server_stats_number(stats->text, "worker.cpu_useful_us", &stats->cpu.useful_us) &&
		server_stats_number(stats->text, "worker.cpu_polling_us", &stats->cpu.polling_us);
}

struct server_cpu server_cpu_between(const struct server_stats *before,
				     const struct server_stats *after)
{
	const struct server_cpu *b = &before->cpu, *a = &after->cpu;
	/* A restarted server counts from 0, so there is no difference to compute. */
	struct server_cpu cpu = { .known = b->known && a->known && a->us >= b->us };
	uint64_t workers_us;

	if (!cpu.known)
		return cpu;
	cpu.us = a->us - b->us;
	cpu.parts_known = b->parts_known && a->parts_known && a->useful_us >= b->useful_us &&
			  a->useful_us + a->polling_us >= b->useful_us + b->polling_us;
	if (!cpu.parts_known)
		return cpu;
	/* The useful part includes time of other threads, so it may grow more than the whole. */
	workers_us = a->useful_us + a->polling_us - b->useful_us - b->polling_us;
	cpu.useful_us = a->useful_us - b->useful_us;
	if (cpu.useful_us > workers_us)
		cpu.useful_us = workers_us;
	cpu.polling_us = workers_us - cpu.useful_us;
	return cpu;
}
