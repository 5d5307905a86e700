/* SPDX-License-Identifier: MIT */
/*
 * Clients that see their server go and come back, for tests/system/outage.sh: a thread and a handle
 * each, which PUTs and GETs now and then. What they see is traced by kvd_trace() and kvd_set_log().
 * When all handles have connected again it prints a line that says so, and ends at SIGTERM: with
 * the trace, from the first loss on, and `ok` and `FAIL` lines as tests/system/lib.sh does.
 *
 *	sys_outage URL CLIENTS
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "tests/support/checks.h"

#define CLIENTS_MAX 256
/* Longer than any restart of the test, under sanitizers and in an emulated machine. */
#define TIMEOUT_MS 300000
#define PAUSE_NS 1000000
#define ROW_MS 100 /* of the table */
#define ROWS_MAX 40
#define CROWD_NS 10000000u
/*
 * Most tries of a client in an outage of @s seconds, on average: twice what the pauses lead to
 * (client/libkvd/reconnect.h), 7 until they are the longest, half a second on average, then 2 in a
 * second.
 */
#define TRIES_MAX(s) (14 + 4 * (s))

struct client {
	pthread_t thread;
	struct kvd *db;
	char key[16];
	uint64_t calls, unknown, failed;
	uint64_t longest_ns;
	char error[512]; /* of the first that failed */
};

/* A line of the library, when it came. */
struct note {
	uint64_t at_ns;
	unsigned int tries;
};

static struct client clients[CLIENTS_MAX];
static struct note losses[CLIENTS_MAX], returns[CLIENTS_MAX];
static atomic_uint loss_count, return_count, try_count;
static char first_loss[512], first_try[512];
static atomic_bool stop;

/* Called by any thread, of which each fills in an entry of its own. */
static void note(void *user, enum kvd_log_level level, const char *text)
{
	const char *tries = strstr(text, " s, ");
	unsigned int i;

	(void)user;
	(void)level;
	if (strstr(text, "connected again")) {
		i = atomic_fetch_add(&return_count, 1);
		if (i < CLIENTS_MAX)
			returns[i] = (struct note){ clock_ns(),
						    tries ? (unsigned int)atoi(tries + 4) : 0 };
	} else if (strstr(text, "is lost")) {
		i = atomic_fetch_add(&loss_count, 1);
		if (i < CLIENTS_MAX)
			losses[i].at_ns = clock_ns();
		if (!i)
			snprintf(first_loss, sizeof(first_loss), "%s", text);
	} else if (!strncmp(text, "try 1 ", 6) && !atomic_fetch_add(&try_count, 1)) {
		snprintf(first_try, sizeof(first_try), "%s", text);
	}
}

static void trace(void *user, const struct kvd_trace_event *event)
{
	struct client *c = user;

	if (!event->ended)
		return;
	c->calls++;
	if (event->end_ns - event->start_ns > c->longest_ns)
		c->longest_ns = event->end_ns - event->start_ns;
	if (event->status == KVD_ERR_UNKNOWN)
		c->unknown++;
	else if (event->status && event->status != KVD_NOT_FOUND)
		c->failed++;
}

static void *work(void *arg)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct client *c = arg;
	size_t len = strlen(c->key);
	char value[32];

	while (!atomic_load(&stop)) {
		kvd_put(c->db, c->key, len, c->key, len, NULL, NULL);
		kvd_get(c->db, c->key, len, value, sizeof(value), NULL);
		if (c->failed && !c->error[0])
			snprintf(c->error, sizeof(c->error), "%s", kvd_error(c->db));
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void client_start(struct client *c, const char *url, unsigned int i)
{
	struct kvd_options options;

	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = TIMEOUT_MS;
	snprintf(c->key, sizeof(c->key), "client%u", i);
	if (kvd_open(&c->db, url, &options) || kvd_trace(c->db, trace, c))
		die("open", kvd_error(NULL));
	if (pthread_create(&c->thread, NULL, work, c))
		die("pthread_create", "failed");
}

static int by_time(const void *a, const void *b)
{
	const struct note *x = a, *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static unsigned int until(const struct note *notes, unsigned int count, uint64_t ns)
{
	unsigned int n = 0;

	while (n < count && notes[n].at_ns <= ns)
		n++;
	return n;
}

static void table_print(unsigned int count)
{
	uint64_t begin_ns = losses[0].at_ns, at_ns;
	unsigned int lost, back = 0, row;

	printf("     ms  lost  connected again\n");
	for (row = 1; back < count && row <= ROWS_MAX; row++) {
		at_ns = begin_ns + row * ROW_MS * 1000000ull;
		lost = until(losses, count, at_ns);
		back = until(returns, count, at_ns);
		printf("  %5u %5u %6u\n", row * ROW_MS, lost, back);
	}
}

/* The most that connected within CROWD_NS. */
static unsigned int crowd_of(unsigned int count)
{
	unsigned int i, n, most = 0;

	for (i = 0; i < count; i++) {
		n = until(returns, count, returns[i].at_ns + CROWD_NS) - i;
		if (n > most)
			most = n;
	}
	return most;
}

static void judge(unsigned int count)
{
	uint64_t calls = 0, unknown = 0, failed = 0, longest_ns = 0, tries = 0, outage_ns;
	unsigned int i;

	qsort(losses, count, sizeof(losses[0]), by_time);
	qsort(returns, count, sizeof(returns[0]), by_time);
	outage_ns = returns[count - 1].at_ns - losses[0].at_ns;
	for (i = 0; i < count; i++) {
		calls += clients[i].calls;
		unknown += clients[i].unknown;
		failed += clients[i].failed;
		tries += returns[i].tries;
		if (clients[i].longest_ns > longest_ns)
			longest_ns = clients[i].longest_ns;
		if (clients[i].failed)
			printf("%s: %s\n", clients[i].key, clients[i].error);
	}
	printf("the first lines: %.90s...\n                 %.90s...\n", first_loss, first_try);
	table_print(count);
	printf("%u clients, %" PRIu64 " calls, %" PRIu64 " failed, %" PRIu64
	       " changes unknown, longest call %" PRIu64 " ms\n",
	       count, calls, failed, unknown, longest_ns / 1000000);
	printf("all back after %" PRIu64 " ms, %" PRIu64
	       " tries failed; most connected within %u ms: %u\n",
	       outage_ns / 1000000, tries, CROWD_NS / 1000000, crowd_of(count));
	check(!failed, "no call failed");
	check(calls >= 2 * count, "calls were made");
	check(unknown <= count, "at most the one change that each had sent is unknown");
	/* Nobody listened for a while. */
	check(tries && first_try[0], "tries failed");
	check(tries <= count * TRIES_MAX(outage_ns / 1000000000 + 1),
	      "clients did not try again and again: %" PRIu64 " tries", tries);
}

/* Whether SIGTERM came. */
static bool pause_until_term(const sigset_t *set)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	return sigtimedwait(set, NULL, &pause) == SIGTERM;
}

int main(int argc, char **argv)
{
	unsigned int i, count = argc == 3 ? (unsigned int)atoi(argv[2]) : 0;
	bool said = false, tries_said = false;
	sigset_t set;

	if (!count || count > CLIENTS_MAX) {
		fputs("usage: sys_outage URL CLIENTS\n", stderr);
		return 64;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	kvd_set_log(KVD_LOG_INFO, note, NULL);
	for (i = 0; i < count; i++)
		client_start(&clients[i], argv[1], i);
	printf("all are connected\n");
	fflush(stdout);
	while (!pause_until_term(&set)) {
		if (!tries_said && atomic_load(&try_count)) {
			tries_said = true;
			printf("tries fail\n");
			fflush(stdout);
		}
		if (said || atomic_load(&return_count) < count)
			continue;
		said = true;
		printf("all are back\n");
		fflush(stdout);
	}
	atomic_store(&stop, true);
	for (i = 0; i < count; i++)
		pthread_join(clients[i].thread, NULL);
	check(said && atomic_load(&loss_count) == count && atomic_load(&return_count) == count,
	      "each was lost once and connected again once");
	if (said)
		judge(count);
	kvd_set_log(KVD_LOG_OFF, NULL, NULL);
	for (i = 0; i < count; i++)
		kvd_close(clients[i].db);
	return check_status();
}
