/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of the library's hooks: which lines a program gets of connections
 * that are opened, refused, lost and closed, and of memory that is registered; and that all memory
 * comes from the program's functions and is returned. Prints `ok` and `FAIL` lines as
 * tests/system/lib.sh does.
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

static size_t allocated, allocations;

static void *count_alloc(void *user, size_t bytes)
{
	void *memory = malloc(bytes);

	/* Not zeroed, as an allocator's memory may be. */
	if (user == &allocated && memory) {
		memset(memory, 0xee, bytes);
		allocated++;
		allocations++;
	}
	return memory;
}

static void *count_realloc(void *user, void *memory, size_t bytes)
{
	if (user == &allocated && !memory)
		allocated++;
	return realloc(memory, bytes);
}

static void count_free(void *user, void *memory)
{
	if (user == &allocated && memory)
		allocated--;
	free(memory);
}

static void allocator_set(void)
{
	const struct kvd_allocator half = { .alloc = count_alloc, .free = count_free },
				   all = { count_alloc, count_realloc, count_free, &allocated };

	check(kvd_set_allocator(&half) == KVD_ERR_INVALID, "half an allocator is refused");
	check(kvd_set_allocator(&all) == KVD_OK, "an allocator is taken");
}

/* Every part of the library that allocates. */
static void use_all(const char *url)
{
	static char value[VALUE_BYTES];
	struct kvd *db = must_open(url), *other = must_open(url);
	struct kvd_op op, *ops[] = { &op }, *done[1];
	char text[100];

	check(allocated > 0 && kvd_set_allocator(NULL) == KVD_ERR_BUSY,
	      "it stays, once memory is allocated");
	kvd_observe(db, KVD_OBSERVE_OPS);
	kvd_prep_put(&op, "large", 5, value, sizeof(value), NULL);
	if (kvd_submit(db, ops, 1) || kvd_wait(db, done, 1, 1, SYS_TIMEOUT_MS) != 1 || op.status ||
	    kvd_get(other, "large", 5, value, sizeof(value), NULL) ||
	    kvd_get(db, "large", 5, value, sizeof(value), NULL))
		die("PUT and GET", kvd_error(db));
	kvd_stats_text(NULL, KVD_STATS_LINES, text, sizeof(text), NULL);
	kvd_close(db);
	kvd_close(other);
	kvd_open(&db, "softnic:///nowhere/kvd.sock", NULL);
	check(allocated > 0, "what was observed is kept");
	kvd_observe(NULL, 0);
	check(!allocated, "all memory is returned: %zu of %zu pieces are not", allocated,
	      allocations);
}

static void clear(void)
{
	memset(counts, 0, sizeof(counts));
	lines[0] = '\0';
}

/* Whether @id is among the ids that kvd_client_list() gave. */
static bool listed(const char *list, uint64_t id)
{
	char line[32];

	snprintf(line, sizeof(line), "id=%llu ", (unsigned long long)id);
	return strstr(list, line) != NULL;
}

/* Opens a handle and closes its connection, by @db. @reconnect: as in struct kvd_options. */
static struct kvd *open_killed(const char *url, struct kvd *db, uint32_t reconnect)
{
	static char before[65536], after[65536];
	unsigned long long id = 0;
	struct kvd_options options;
	struct kvd *killed;
	char *line, *save;

	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = SYS_TIMEOUT_MS;
	options.reconnect = reconnect;

	if (kvd_client_list(db, before, sizeof(before), NULL))
		die("kvd_client_list", kvd_error(db));
	if (kvd_open(&killed, url, &options))
		die("kvd_open", kvd_error(NULL));
	if (kvd_client_list(db, after, sizeof(after), NULL))
		die("kvd_client_list", kvd_error(db));
	for (line = strtok_r(after, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, "id=%llu", &id) == 1 && !listed(before, id))
			break;
	if (!line || kvd_client_kill(db, id))
		die("kvd_client_kill", kvd_error(db));
	return killed;
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

/* A handle that connects again logs a line for the loss and one for the next connection. */
static void reconnected(const char *url, struct kvd *db)
{
	struct kvd *killed = open_killed(url, db, 1);
	struct kvd_info info;

	kvd_set_log(KVD_LOG_INFO, note, counts);
	clear();
	do {
		if (kvd_ping(killed))
			die("PING", kvd_error(killed));
		kvd_info(killed, &info);
	} while (!info.reconnects);
	check(counts[KVD_LOG_WARN] == 1 && strstr(lines, "is lost ("),
	      "a connection that is lost, once");
	check(counts[KVD_LOG_INFO] == 1 && strstr(lines, "connected again to ") &&
		      strstr(lines, ", 0 tries failed\n"),
	      "and the next one");
	kvd_close(killed);
}

/* One that is told not to. */
static void lost(const char *url)
{
	struct kvd_options options;
	struct kvd *db, *other;

	kvd_set_log(KVD_LOG_WARN, note, counts);
	clear();
	db = must_open(url);
	reconnected(url, db);
	kvd_set_log(KVD_LOG_WARN, note, counts);
	clear();
	other = open_killed(url, db, 0);
	check(!lines[0], "below the level there are none");
	while (!kvd_ping(other))
		;
	check(counts[KVD_LOG_WARN] == 1 && strstr(lines, kvd_error(other)),
	      "a connection that stays lost, once, with its text");
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
	allocator_set();
	use_all(argv[1]);
	all_levels(argv[1]);
	lost(argv[1]);
	clear();
	kvd_set_log(KVD_LOG_OFF, NULL, NULL);
	db = must_open(argv[1]);
	kvd_close(db);
	check(!lines[0], "none when it is off");
	return check_status();
}
