/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of a connection's limits. It asks for more than the server was told
 * to give it, and compares what it got with the time that passed: an upper bound that holds however
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
#define OTHERS_PINGS 20
#define BURST_REQUESTS 32u /* as conf/OPERATIONS.md says, for limits of less than 320 a second */
#define LARGE_BYTES (1u << 20)
#define MEDIUM_BYTES 1000u
#define STATS_BYTES (64u << 10)
#define PUTS 1000	   /* more than the bucket holds */
#define MESSAGES_BYTES 300 /* of a PUT and its response, beside the value, at most */

static uint8_t value[LARGE_BYTES];

static enum kvd_status put(struct kvd *db, size_t len)
{
	return kvd_put(db, "key", 3, value, len, NULL, NULL);
}

/* What a loop of calls got. */
struct got {
	unsigned int done, busy;
};

static struct got pings(struct kvd *db, unsigned int count)
{
	struct got got = { 0 };

	while (count--) {
		enum kvd_status status = kvd_ping(db);

		got.done += !status;
		got.busy += status == KVD_ERR_BUSY;
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
	while (status == KVD_ERR_BUSY && clock_ns() < until);
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

/*
 * An administrator gets the statistics: on the Unix socket the kernel says who it is. Others do
 * not, unless the machine was so slow that tokens have come meanwhile.
 */
static void stats_are_for_administrators(struct kvd *db, bool admin)
{
	static char text[STATS_BYTES];
	enum kvd_status status;
	unsigned int tries = 0;

	do {
		while (!kvd_ping(db))
			;
		status = kvd_server_stats(db, text, sizeof(text), NULL);
	} while (!admin && !status && ++tries < PINGS);
	check(admin ? !status : status == KVD_ERR_BUSY, "statistics: %s", kvd_status_text(status));
}

/* URL, RATE: the server's limits.connection_requests. */
static int command_requests(const char *url, uint64_t rate)
{
	struct kvd *db = must_open(url), *other;
	bool admin = !strncmp(url, "softnic:", 8);
	uint64_t begin = clock_ns(), max;
	struct got got;

	check(!put(db, MEDIUM_BYTES), "the first request is done");
	got = pings(db, PINGS);
	max = BURST_REQUESTS + (clock_ns() - begin) * rate / 1000000000 + 1;
	check(got.done + got.busy == PINGS, "%u done, %u BUSY, no other status", got.done,
	      got.busy);
	check(got.done <= max, "%u done, at most %" PRIu64, got.done, max);
	check(got.done >= BURST_REQUESTS - 1, "at least the burst is done");
	check(got.busy, "some are BUSY: %s", kvd_error(db));
	gets_go_on(db);
	other = must_open(url);
	got = pings(other, OTHERS_PINGS);
	check(got.done == OTHERS_PINGS, "another connection has its own limit: %u of %u", got.done,
	      OTHERS_PINGS);
	kvd_close(other);
	check(ping_succeeds_later(db), "after a while it is done again");
	stats_are_for_administrators(db, admin);
	kvd_close(db);
	return check_status();
}

/*
 * A call that follows one that moved @bytes since @begin must be BUSY until the time for them has
 * passed, less what the bucket held.
 */
static void debt_is_paid(struct kvd *db, const char *what, uint64_t bytes, uint64_t begin,
			 uint64_t rate)
{
	uint64_t owed_ns = (uint64_t)((double)(bytes - (rate / 10 > 65536 ? rate / 10 : 65536)) /
				      (double)rate * 1e9);
	unsigned int busy = 0;
	enum kvd_status status;
	uint64_t passed;

	while ((status = kvd_ping(db)) == KVD_ERR_BUSY && clock_ns() - begin < DEADLINE_NS)
		busy++;
	passed = clock_ns() - begin;
	check(!status && passed >= owed_ns,
	      "%s of %" PRIu64 " bytes: the next request is done %.3f s later (%.3f are owed), "
	      "after %u BUSY",
	      what, bytes, (double)passed / 1e9, (double)owed_ns / 1e9, busy);
}

/* One after the other, until one is BUSY: what the bucket held, and what came meanwhile. */
static void small_puts(const char *url, uint64_t rate)
{
	uint64_t held = rate / 10 > 65536 ? rate / 10 : 65536, begin = clock_ns(), most;
	struct kvd *db = must_open(url);
	enum kvd_status status = KVD_OK;
	unsigned int count = 0;

	while (count < PUTS && !(status = put(db, MEDIUM_BYTES)))
		count++;
	most = (held + (clock_ns() - begin) * rate / 1000000000) / MEDIUM_BYTES + 1;
	check(status == KVD_ERR_BUSY ? strstr(kvd_error(db), "limits.connection_bytes") != NULL :
				       count == PUTS,
	      "%u small PUTs, then: %s", count, status ? kvd_error(db) : "no more");
	check(count <= most, "at most %" PRIu64, most);
	check(count >= held / (MEDIUM_BYTES + MESSAGES_BYTES), "at least what the bucket held");
	kvd_close(db);
}

/* URL, RATE: the server's limits.connection_bytes. */
static int command_bytes(const char *url, uint64_t rate)
{
	struct kvd *db = must_open(url), *other = must_open(url);
	uint64_t begin = clock_ns();

	check(!put(db, LARGE_BYTES), "a PUT larger than the bucket is done alone");
	check(!put(other, MEDIUM_BYTES), "another connection has its own limit");
	debt_is_paid(db, "a large PUT", LARGE_BYTES, begin, rate);
	kvd_close(db);

	/* One in parts counts as a whole, too. */
	db = must_open(url);
	check(!put(other, LARGE_BYTES), "a value for the other direction");
	begin = clock_ns();
	check(!kvd_get_by_request(db, "key", 3, value, sizeof(value), NULL),
	      "a GET by request larger than the bucket is done alone");
	debt_is_paid(db, "a large GET by request", LARGE_BYTES, begin, rate);
	kvd_close(db);

	small_puts(url, rate);
	kvd_close(other);
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
