/* SPDX-License-Identifier: MIT */
/* Reads what a server holds, and waits until that is as little as before. */
#include "tests/support/held.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/clock.h"

#define STATS_BYTES (64u << 10)
#define LOOKS 10
#define PAUSE_US 5000

/* Beside all whose names begin with this. */
#define PREFIX "held."
static const char *const names[] = { "connections", "pinned_items", "pinned_bytes",
				     "memory.evacuating" };
/* What is free in the region, or nobody's; the rest of region_bytes is in use. */
static const char *const free_names[] = { "memory.free", "memory.item_slabs_free",
					  "memory.bucket_slabs_free", "memory.slab_ends" };

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void held_add(struct held *held, const char *name, uint64_t value)
{
	if (held->count == HELD_MAX || strlen(name) >= HELD_NAME_MAX)
		die("held: too much");
	strcpy(held->list[held->count].name, name);
	held->list[held->count++].value = value;
}

/* The number after @name in the text, which has to be there. */
static uint64_t stat_of(const char *text, const char *name)
{
	size_t len = strlen(name);
	const char *at;

	for (at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (!strncmp(at, name, len) && at[len] == ' ')
			return strtoull(at + len, NULL, 10);
	}
	fprintf(stderr, "no statistic %s\n", name);
	exit(EXIT_FAILURE);
}

static void prefixed_add(struct held *held, const char *text)
{
	char name[HELD_NAME_MAX];
	const char *at, *space;

	for (at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		space = strchr(at, ' ');
		if (strncmp(at, PREFIX, strlen(PREFIX)) || !space || space - at >= HELD_NAME_MAX)
			continue;
		memcpy(name, at, (size_t)(space - at));
		name[space - at] = '\0';
		held_add(held, name, strtoull(space, NULL, 10));
	}
}

static uint64_t entries_of(uint64_t pid, const char *folder)
{
	const struct dirent *entry;
	uint64_t count = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/%s", pid, folder);
	dir = opendir(path);
	if (!dir)
		die(path);
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* Mappings of memory that softnic's peers share. */
static uint64_t mappings_of(uint64_t pid)
{
	char path[64], line[512];
	uint64_t count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/maps", pid);
	file = fopen(path, "r");
	if (!file)
		die(path);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, "/memfd:softnic") != NULL;
	fclose(file);
	return count;
}

static bool look(struct kvd *connection, struct held *now)
{
	static char text[STATS_BYTES];
	enum kvd_status status = kvd_server_stats(connection, text, sizeof(text), NULL);
	uint64_t in_use, pid;
	unsigned int i;

	if (status) {
		printf("statistics: %s: %s\n", kvd_status_text(status), kvd_error(connection));
		return false;
	}
	now->count = 0;
	prefixed_add(now, text);
	if (!now->count)
		die("no statistic " PREFIX "*");
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		held_add(now, names[i], stat_of(text, names[i]));
	in_use = stat_of(text, "region_bytes");
	for (i = 0; i < sizeof(free_names) / sizeof(free_names[0]); i++)
		in_use -= stat_of(text, free_names[i]);
	held_add(now, "memory in use", in_use);
	pid = stat_of(text, "pid");
	held_add(now, "descriptors", entries_of(pid, "fd"));
	held_add(now, "threads", entries_of(pid, "task"));
	held_add(now, "shared mappings", mappings_of(pid));
	return true;
}

/* Keeps the lower one of each; both have the same names. */
static void held_lower(struct held *least, const struct held *now)
{
	for (unsigned int i = 0; i < least->count; i++)
		if (now->list[i].value < least->list[i].value)
			least->list[i].value = now->list[i].value;
}

bool held_note(struct kvd *connection, struct held *noted)
{
	struct held now;

	if (!look(connection, noted))
		return false;
	for (unsigned int i = 1; i < LOOKS; i++) {
		usleep(PAUSE_US);
		if (!look(connection, &now))
			return false;
		held_lower(noted, &now);
	}
	return true;
}

static bool is_back(const struct held *least, const struct held *noted)
{
	for (unsigned int i = 0; i < noted->count; i++)
		if (least->list[i].value > noted->list[i].value)
			return false;
	return true;
}

bool held_wait(struct kvd *connection, const struct held *noted, uint64_t deadline_ns)
{
	uint64_t end = clock_ns() + deadline_ns;
	struct held least, now;

	if (!look(connection, &least))
		return false;
	while (!is_back(&least, noted) && clock_ns() < end) {
		usleep(PAUSE_US);
		if (!look(connection, &now))
			return false;
		held_lower(&least, &now);
	}
	for (unsigned int i = 0; i < noted->count; i++)
		if (least.list[i].value > noted->list[i].value)
			printf("%s: %" PRIu64 " before, still %" PRIu64 "\n", noted->list[i].name,
			       noted->list[i].value, least.list[i].value);
	return is_back(&least, noted);
}

void held_set(struct held *held, const char *name, uint64_t value)
{
	for (unsigned int i = 0; i < held->count; i++)
		if (!strcmp(held->list[i].name, name))
			held->list[i].value = value;
}

void held_save(const struct held *held, const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file || fwrite(held, sizeof(*held), 1, file) != 1 || fclose(file))
		die(path);
}

void held_load(struct held *held, const char *path)
{
	FILE *file = fopen(path, "r");

	if (!file || fread(held, sizeof(*held), 1, file) != 1)
		die(path);
	fclose(file);
}
