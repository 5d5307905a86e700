/* SPDX-License-Identifier: MIT */
/*
 * Clients whose windows follow their use, for tests/system/windows.sh: many open and idle beside
 * one that works, and then all of them at work. Uses libkvd alone.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "tests/support/checks.h"

#define CONNS_MAX 200
#define LIST_BYTES (CONNS_MAX * 512)
#define DEADLINE_NS (SYS_TIMEOUT_MS * 2000000ull)
#define VALUE_BYTES 300
#define PAUSE_US 2000

static struct kvd *conns[CONNS_MAX];
static unsigned int count;

static void must(enum kvd_status status, const struct kvd *db, const char *what)
{
	if (status)
		die(what, kvd_error(db));
}

static void open_all(const char *url)
{
	struct kvd_options options;
	unsigned int i;

	kvd_options_init(&options);
	options.timeout_ms = SYS_TIMEOUT_MS;
	options.connect_timeout_ms = SYS_TIMEOUT_MS;
	for (i = 0; i < count; i++)
		must(kvd_open(&conns[i], url, &options), NULL, "open");
}

/* A PUT and the GET by request of what it stored. */
static void work(unsigned int i)
{
	uint8_t value[VALUE_BYTES], got[VALUE_BYTES];

	memset(value, (int)i, sizeof(value));
	must(kvd_put(conns[i], &i, sizeof(i), value, sizeof(value), NULL, NULL), conns[i], "PUT");
	must(kvd_get_by_request(conns[i], &i, sizeof(i), got, sizeof(got), NULL), conns[i], "GET");
	if (memcmp(value, got, sizeof(value)))
		die("GET", "another value");
}

static uint32_t window(unsigned int i)
{
	struct kvd_info info;

	kvd_info(conns[i], &info);
	return info.window;
}

/* How many connections the server lists with this window; *@sum: of all. */
static unsigned int listed(unsigned int wanted, unsigned int *sum)
{
	static char text[LIST_BYTES];
	unsigned int n = 0, w;
	const char *at;

	must(kvd_client_list(conns[0], text, sizeof(text), NULL), conns[0], "list");
	*sum = 0;
	for (at = text; (at = strstr(at, " window=")); n += w == wanted) {
		w = (unsigned int)atoi(at + strlen(" window="));
		*sum += w;
		at++;
	}
	return n;
}

/* Only the first client works: it gets the largest window, and the others give theirs back. */
static void one_active(unsigned int largest)
{
	uint64_t end = clock_ns() + DEADLINE_NS;
	unsigned int idle, sum, all = largest + count - 1;

	do {
		work(0);
		usleep(PAUSE_US);
		idle = listed(1, &sum);
	} while ((window(0) != largest || idle != count - 1 || sum != all) && clock_ns() < end);
	check(window(0) == largest, "the window of the active client is %u", window(0));
	check(idle == count - 1, "%u of %u idle clients have a window of 1", idle, count - 1);
	check(sum == all, "all windows are %u together", sum);
	check(window(1) == 1, "an idle client takes its window for %u", window(1));
}

static bool all_have(unsigned int share)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (window(i) != share)
			return false;
	return true;
}

/* All work: everybody is served, and in the end all have the same window. */
static void all_active(unsigned int share, unsigned int receives)
{
	uint64_t end = clock_ns() + DEADLINE_NS;
	unsigned int i, sum, sum_max = 0, rounds = 0;

	do {
		for (i = 0; i < count; i++)
			work(i);
		listed(share, &sum);
		sum_max = sum > sum_max ? sum : sum_max;
		rounds++;
	} while ((!all_have(share) || listed(share, &sum) < count) && clock_ns() < end);
	check(all_have(share), "all clients have a window of %u, after %u rounds", share, rounds);
	check(listed(share, &sum) == count, "the server lists it");
	check(sum_max <= receives, "all windows were %u together, of %u receives", sum_max,
	      receives);
}

/* URL, COUNT, LARGEST, SHARE, RECEIVES */
int main(int argc, char **argv)
{
	unsigned int i;

	if (argc != 6) {
		fputs("usage: sys_window URL COUNT LARGEST SHARE RECEIVES\n", stderr);
		return 64;
	}
	count = (unsigned int)atoi(argv[2]);
	if (count < 2 || count > CONNS_MAX)
		die("COUNT", "out of range");
	open_all(argv[1]);
	one_active((unsigned int)atoi(argv[3]));
	all_active((unsigned int)atoi(argv[4]), (unsigned int)atoi(argv[5]));
	one_active((unsigned int)atoi(argv[3]));
	for (i = 0; i < count; i++)
		kvd_close(conns[i]);
	return check_status();
}
