/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of the library's hooks: which lines a program gets of connections
 * that are opened, refused, lost and closed, and of memory that is registered. Prints `ok` and
 * `FAIL` lines as tests/system/lib.sh does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"
#include "tests/support/checks.h"

#define VALUE_BYTES 300000u /* does not fit the first buffers */

static char lines[65536];
static unsigned int counts[KVD_LOG_DEBUG + 1];

static void note(void *user, enum kvd_log_level level, const char *text)
{
	size_t used = strlen(lines);

	if (user != counts || level < KVD_LOG_ERROR || level > KVD_LOG_DEBUG)
		die("a line", "with the wrong user or level");
	counts[level]++;
	snprintf(lines + used, sizeof(lines) - used, "%s\n", text);
}

static void clear(void)
{
	memset(counts, 0, sizeof(counts));
	lines[0] = '\0';
}

/* The id of the only other connection than @db's, the last in the list. */
static uint64_t last_client(struct kvd *db)
{
	static char text[65536];
	char *line, *save;
	uint64_t id = 0, found;

	if (kvd_client_list(db, text, sizeof(text), NULL))
		die("kvd_client_list", kvd_error(db));
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, "id=%lu", &found) == 1 && found > id)
			id = found;
	return id;
}

static void all_levels(const char *url)
{
	static char value[VALUE_BYTES];
	struct kvd *db;

	kvd_set_log(KVD_LOG_DEBUG, note, counts);
	db = must_open(url);
	check(counts[KVD_LOG_INFO] == 1 && strstr(lines, "connected to ") && strstr(lines, " us: "),
	      "one line for a connection that is opened");
	check(counts[KVD_LOG_DEBUG] && strstr(lines, "registered "),
	      "registrations and their time");
	clear();
	if (kvd_put(db, "large", 5, value, sizeof(value), NULL, NULL))
		die("PUT", kvd_error(db));
	check(strstr(lines, "registered 30") != NULL, "a buffer for a large value");
	kvd_close(db);
	check(counts[KVD_LOG_INFO] == 1 && strstr(lines, " is closed\n"), "one when it is closed");
	check(!counts[KVD_LOG_WARN] && !counts[KVD_LOG_ERROR], "nothing is a warning");
}

static void lost(const char *url)
{
	struct kvd_options options;
	struct kvd *db, *other;

	kvd_set_log(KVD_LOG_WARN, note, counts);
	clear();
	db = must_open(url);
	other = must_open(url);
	check(!lines[0], "below the level there are none");
	if (kvd_client_kill(db, last_client(db)))
		die("kvd_client_kill", kvd_error(db));
	while (!kvd_ping(other))
		;
	check(counts[KVD_LOG_WARN] == 1 && strstr(lines, kvd_error(other)),
	      "a connection that is lost, once, with its text");
	kvd_ping(other);
	check(counts[KVD_LOG_WARN] == 1, "not again at the next call");
	kvd_close(other);
	kvd_close(db);
	clear();
	kvd_options_init(&options);
	options.timeout_ms = 0;
	kvd_open(&db, url, &options);
	kvd_open(&db, "softnic:///nowhere/kvd.sock", NULL);
	check(counts[KVD_LOG_WARN] == 2 && strstr(lines, "timeout_ms is 0") &&
		      strstr(lines, kvd_error(NULL)),
	      "one for each that could not be opened");
}

int main(int argc, char **argv)
{
	struct kvd *db;

	if (argc != 2) {
		fputs("usage: sys_hooks URL\n", stderr);
		return 64;
	}
	check(kvd_set_log(KVD_LOG_DEBUG, NULL, NULL) == KVD_ERR_INVALID &&
		      kvd_set_log(6, note, NULL) == KVD_ERR_INVALID,
	      "bad arguments are refused");
	all_levels(argv[1]);
	lost(argv[1]);
	clear();
	kvd_set_log(KVD_LOG_OFF, NULL, NULL);
	db = must_open(argv[1]);
	kvd_close(db);
	check(!lines[0], "none when it is off");
	return check_status();
}
