/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of a user's limits. It asks for more than the server was told to
 * give it, and compares what it got with the time that passed: an upper bound that holds however
 * slow the machine is. Prints `ok` and `FAIL` lines as tests/system/lib.sh does.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "tests/support/checks.h"

#define DEADLINE_NS 300000000000ull
#define PINGS 1000
#define GETS 2000
#define BURST_REQUESTS 32u /* as conf/OPERATIONS.md says, for limits of less than 320 a second */
#define LARGE_BYTES (1u << 20)
#define MEDIUM_BYTES 1000u
#define PUTS 1000 /* more than the bucket holds */

static uint8_t value[LARGE_BYTES];

static enum kvd_status put(struct kvd *db, size_t len)
{
	return kvd_put(db, "key", 3, value, len, NULL, NULL);
}

/* What a loop of calls got. */
struct got {
	unsigned int done, refused;
};

static struct got pings(struct kvd *db, unsigned int count)
{
	struct got got = { 0 };

	while (count--) {
		enum kvd_status status = kvd_ping(db);

		got.done += !status;
		got.refused += status == KVD_ERR_LIMIT;
	}
	return got;
}

/* Until the server does one again. */
static bool ping_succeeds_later(struct kvd *db)
{
	uint64_t until = clock_ns() + DEADLINE_NS;
	enum kvd_status status;

	do
		status = kvd_ping(db);
	while (status == KVD_ERR_LIMIT && clock_ns() < until);
	return !status;
}

/* GETs are one-sided, and the messages with access records that they cause are no failures. */
static void gets_go_on(struct kvd *db)
{
	unsigned int done = 0;

	for (unsigned int i = 0; i < GETS; i++)
		done += !kvd_get(db, "key", 3, value, sizeof(value), NULL);
	check(done == GETS, "%u of %u GETs are done nevertheless", done, GETS);
}

/* URL, RATE: the user's requests. Two connections of one client have the same limit. */
static int command_requests(const char *url, uint64_t rate)
{
	struct kvd *db = must_open(url), *other = must_open(url);
	uint64_t begin = clock_ns(), max;
	struct got got, others;

	check(ping_succeeds_later(db) && !put(db, MEDIUM_BYTES), "the first request is done");
	got = pings(db, PINGS);
	others = pings(other, PINGS);
	max = BURST_REQUESTS + (clock_ns() - begin) * rate / 1000000000 + 1;
	check(got.done + got.refused == PINGS && others.done + others.refused == PINGS,
	      "%u and %u done, %u and %u refused, no other status", got.done, others.done,
	      got.refused, others.refused);
	check(got.done + others.done <= max, "%u done, at most %" PRIu64, got.done + others.done,
	      max);
	check(got.refused && others.refused, "some are refused: %s", kvd_error(db));
	gets_go_on(db);
	check(ping_succeeds_later(db) && ping_succeeds_later(other),
	      "after a while they are done again");
	kvd_close(other);
	kvd_close(db);
	return check_status();
}

/*
 * A call that follows one that moved @bytes since @begin must be refused until the time for them
 * has passed, less what the bucket held.
 */
static void debt_is_paid(struct kvd *db, const char *what, uint64_t bytes, uint64_t begin,
			 uint64_t rate)
{
	uint64_t owed_ns = (uint64_t)((double)(bytes - (rate / 10 > 65536 ? rate / 10 : 65536)) /
				      (double)rate * 1e9);
	unsigned int refused = 0;
	enum kvd_status status;
	uint64_t passed;

	while ((status = kvd_ping(db)) == KVD_ERR_LIMIT && clock_ns() - begin < DEADLINE_NS)
		refused++;
	passed = clock_ns() - begin;
	check(!status && passed >= owed_ns,
	      "%s of %" PRIu64 " bytes: the next request is done %.3f s later (%.3f are owed), "
	      "after %u refused",
	      what, bytes, (double)passed / 1e9, (double)owed_ns / 1e9, refused);
}

/* One after another, until one is refused: what the bucket held, and what came meanwhile. */
static void small_puts(const char *url, uint64_t rate)
{
	uint64_t held = rate / 10 > 65536 ? rate / 10 : 65536, begin = clock_ns(), most;
	struct kvd *db = must_open(url);
	enum kvd_status status = KVD_OK;
	unsigned int count = 0;

	while (count < PUTS && !(status = put(db, MEDIUM_BYTES)))
		count++;
	most = (held + (clock_ns() - begin) * rate / 1000000000) / MEDIUM_BYTES + 1;
	check(status == KVD_ERR_LIMIT ? strstr(kvd_error(db), "over its limit") != NULL :
					count == PUTS,
	      "%u small PUTs, then: %s", count, status ? kvd_error(db) : "no more");
	check(count <= most, "at most %" PRIu64, most);
	kvd_close(db);
}

/* A GET by request of the value, when the server does it; returns when that one began. */
static uint64_t large_get(struct kvd *db)
{
	enum kvd_status status;
	uint64_t begin;

	do {
		begin = clock_ns();
		status = kvd_get_by_request(db, "key", 3, value, sizeof(value), NULL);
	} while (status == KVD_ERR_LIMIT);
	check(!status, "a GET by request larger than the bucket is done alone");
	return begin;
}

/* URL, RATE: the user's bytes. */
static int command_bytes(const char *url, uint64_t rate)
{
	struct kvd *db = must_open(url), *other = must_open(url);
	uint64_t begin = clock_ns();

	check(!put(db, LARGE_BYTES), "a PUT larger than the bucket is done alone");
	debt_is_paid(other, "a large PUT", LARGE_BYTES, begin, rate);

	/* One in parts counts as a whole, too. */
	debt_is_paid(other, "a large GET by request", LARGE_BYTES, large_get(db), rate);
	kvd_close(other);
	kvd_close(db);

	small_puts(url, rate);
	return check_status();
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "requests"))
		return command_requests(argv[2], strtoull(argv[3], NULL, 10));
	if (argc == 4 && !strcmp(argv[1], "bytes"))
		return command_bytes(argv[2], strtoull(argv[3], NULL, 10));
	fputs("usage: sys_limits requests|bytes URL RATE\n", stderr);
	return 64;
}
