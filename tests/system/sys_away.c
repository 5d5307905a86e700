/* SPDX-License-Identifier: MIT */
/*
 * A client whose server goes away, for tests/system/outage.sh, which says on the standard input
 * what it has done to the server: `gone` (killed), `back` (started again), `hangs` (stopped by
 * SIGSTOP), `goes on`. After each it makes calls, and prints `ok` and `FAIL` lines as
 * tests/system/lib.sh does and then a line that says that it is done; at `end` it ends.
 *
 *	sys_away URL
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "tests/support/checks.h"

#define CALLS 10000u
/* Calls that sleep may be as many: this process may stand still for a second (libkvd's PROBE). */
#define SLEEPS_MAX 10u
#define TIMEOUT_MS 3000
#define PAUSE_NS 1000000
#define GIVE_UP_S 300
#define STATUSES 32u

static struct kvd *db;
static unsigned int seen[STATUSES]; /* calls by status */
static unsigned int wrong;	    /* values */
static uint64_t times_ns[CALLS];

static enum kvd_status get(void)
{
	char value[8];
	struct kvd_item item;
	enum kvd_status status = kvd_get(db, "key", 3, value, sizeof(value), &item);

	wrong += !status && (item.value_len != 5 || memcmp(value, "value", 5) != 0);
	seen[status % STATUSES]++;
	return status;
}

static enum kvd_status put(void)
{
	enum kvd_status status = kvd_put(db, "key", 3, "value", 5, NULL, NULL);

	seen[status % STATUSES]++;
	return status;
}

static int by_time(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t sleeps(void)
{
	struct kvd_stats stats;

	kvd_stats(db, &stats);
	return stats.sleeps;
}

/* Makes calls, of which each has to end with KVD_ERR_AWAY, or KVD_OK if @reads, without a sleep. */
static void call_all(enum kvd_status (*call)(void), const char *what)
{
	uint64_t begin_ns, slept = sleeps();
	unsigned int i;

	memset(seen, 0, sizeof(seen));
	for (i = 0; i < CALLS; i++) {
		begin_ns = clock_ns();
		call();
		times_ns[i] = clock_ns() - begin_ns;
	}
	slept = sleeps() - slept;
	qsort(times_ns, CALLS, sizeof(times_ns[0]), by_time);
	printf("%u %s: p50 %.2f us, p99 %.2f us, the longest %.0f us\n", CALLS, what,
	       (double)times_ns[CALLS / 2] / 1000, (double)times_ns[CALLS * 99 / 100] / 1000,
	       (double)times_ns[CALLS - 1] / 1000);
	check(seen[KVD_ERR_AWAY] == CALLS, "%s: all end at once: %u", what, seen[KVD_ERR_AWAY]);
	check(slept <= SLEEPS_MAX, "%s: none sleeps", what);
}

/* Calls until one has another status. Returns that. */
static enum kvd_status while_it_is(enum kvd_status (*call)(void), enum kvd_status status)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	time_t until = time(NULL) + GIVE_UP_S;
	enum kvd_status next;

	while ((next = call()) == status && time(NULL) < until)
		nanosleep(&pause, NULL);
	return next;
}

static void gone(void)
{
	enum kvd_status status = while_it_is(get, KVD_OK);

	check(status == KVD_ERR_DISCONNECTED, "the first lookup waits for the server: %s",
	      kvd_status_text(status));
	call_all(get, "lookups of a server that is gone");
	call_all(put, "changes of a server that is gone");
}

static void back(void)
{
	enum kvd_status status = while_it_is(get, KVD_ERR_AWAY);

	check(status == KVD_NOT_FOUND, "it is found again, empty: %s", kvd_status_text(status));
	check(!put() && !get(), "changes and lookups work");
}

static void hangs(void)
{
	enum kvd_status status = while_it_is(put, KVD_OK);

	check(status == KVD_ERR_TIMEOUT, "the first change waits for the server: %s",
	      kvd_status_text(status));
	call_all(put, "changes of a server that hangs");
	/* Softnic's READs wait for the SENDs before them; those of a device go on. */
	status = while_it_is(get, KVD_ERR_TIMEOUT);
	memset(seen, 0, sizeof(seen));
	for (unsigned int i = 0; i < CALLS; i++)
		get();
	check(seen[status] == CALLS && (!status || status == KVD_ERR_AWAY),
	      "lookups are done by READ, or end at once: %s", kvd_status_text(status));
}

static void goes_on(void)
{
	enum kvd_status status = while_it_is(put, KVD_ERR_AWAY);

	check(!status, "it is found again: %s", kvd_status_text(status));
	check(!get() && !put(), "lookups and changes work");
}

static const struct {
	const char *name;
	void (*run)(void);
} steps[] = {
	{ "gone", gone },
	{ "back", back },
	{ "hangs", hangs },
	{ "goes on", goes_on },
};

int main(int argc, char **argv)
{
	struct kvd_options options;
	char line[32];

	if (argc != 2) {
		fputs("usage: sys_away URL\n", stderr);
		return 64;
	}
	kvd_options_init(&options);
	options.timeout_ms = TIMEOUT_MS;
	if (kvd_open(&db, argv[1], &options))
		die("open", kvd_error(NULL));
	check(!put() && !get() && !get(), "a key is stored and read");
	printf("done: connected\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		for (unsigned int i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
			if (!strcmp(line, steps[i].name))
				steps[i].run();
		printf("done: %s\n", line);
		fflush(stdout);
		if (!strcmp(line, "end"))
			break;
	}
	check(!wrong, "no value was wrong");
	kvd_close(db);
	return check_status();
}
