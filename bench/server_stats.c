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

	stats->valid = false;
	stats->text[0] = '\0';
	if (db_server_stats(db, stats->text, sizeof(stats->text)))
		return;
	if (!server_stats_number(stats->text, "cpu_user_us", &user_us) ||
	    !server_stats_number(stats->text, "cpu_system_us", &system_us))
		return;
	stats->cpu_us = user_us + system_us;
	stats->valid = true;
}
