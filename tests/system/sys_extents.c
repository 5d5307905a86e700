/* SPDX-License-Identifier: MIT */
/*
 * A client for tests/system/memory_size.sh, which keeps its handle while the server's memory
 * changes:
 *
 *	sys_extents URL BYTES
 *
 * It reads commands, a line each, about the keys key-0, key-1, ... with values of BYTES bytes that
 * differ, and answers each with a line.
 *
 *	put FIRST END	stores key-FIRST to key-(END - 1): `stored`, or `full`
 *	get END		checks key-0 to key-(END - 1): `got`
 *	read END	does so again and again until it has READ all of them, none by a request: until
 *			it has the keys of all extents that it needs: `read`
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/kvd.h"
#include "tests/support/checks.h"

/* The client asks for keys 100 times a second at most. */
#define PAUSE_NS 10000000
#define PASSES_MAX 3000u

struct values {
	struct kvd *db;
	size_t bytes;
	uint8_t *wanted, *got; /* of @bytes bytes */
};

static size_t key_of(unsigned int i, char key[32])
{
	return (size_t)snprintf(key, 32, "key-%u", i);
}

static void value_of(const struct values *values, unsigned int i)
{
	for (size_t at = 0; at < values->bytes; at++)
		values->wanted[at] = (uint8_t)(at * 31 + i);
}

static const char *put_all(const struct values *values, unsigned int first, unsigned int end)
{
	enum kvd_status status;
	char key[32];
	size_t length;

	for (unsigned int i = first; i < end; i++) {
		length = key_of(i, key);
		value_of(values, i);
		status = kvd_put(values->db, key, length, values->wanted, values->bytes, NULL,
				 NULL);
		if (status == KVD_ERR_NO_SPACE)
			return "full";
		if (status)
			die(key, kvd_error(values->db));
	}
	return "stored";
}

static const char *get_all(const struct values *values, unsigned int end)
{
	struct kvd_item item;
	char key[32];
	size_t length;

	for (unsigned int i = 0; i < end; i++) {
		length = key_of(i, key);
		value_of(values, i);
		if (kvd_get(values->db, key, length, values->got, values->bytes, &item))
			die(key, kvd_error(values->db));
		if (item.value_len != values->bytes ||
		    memcmp(values->got, values->wanted, values->bytes) != 0)
			die(key, "another value");
	}
	return "got";
}

static uint64_t requests_of(struct kvd *db)
{
	struct kvd_stats stats;

	kvd_stats(db, &stats);
	return stats.fallbacks;
}

static const char *read_all(const struct values *values, unsigned int end)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t before;

	for (unsigned int pass = 0; pass < PASSES_MAX; pass++) {
		before = requests_of(values->db);
		get_all(values, end);
		if (requests_of(values->db) == before)
			return "read";
		nanosleep(&pause, NULL);
	}
	return "some are still requests";
}

static const char *execute(const struct values *values, const char *line)
{
	unsigned int first, end;

	if (sscanf(line, "put %u %u", &first, &end) == 2)
		return put_all(values, first, end);
	if (sscanf(line, "get %u", &end) == 1)
		return get_all(values, end);
	if (sscanf(line, "read %u", &end) == 1)
		return read_all(values, end);
	return "unknown command";
}

int main(int argc, char **argv)
{
	struct values values = { .bytes = argc == 3 ? strtoull(argv[2], NULL, 10) : 0 };
	char line[64];

	if (!values.bytes)
		die("usage", "sys_extents URL BYTES");
	values.wanted = malloc(values.bytes);
	values.got = malloc(values.bytes);
	if (!values.wanted || !values.got)
		die("values", "no memory");
	if (kvd_open(&values.db, argv[1], NULL))
		die("open", kvd_error(NULL));
	while (fgets(line, sizeof(line), stdin)) {
		puts(execute(&values, line));
		fflush(stdout);
	}
	kvd_close(values.db);
	free(values.wanted);
	free(values.got);
	return 0;
}
