/* SPDX-License-Identifier: MIT */
/*
 * Clients whose histories are checked, for tests/system/history.sh: each thread has a handle, on
 * which it submits operations one by one and in batches, at most PLACES at a time, beside
 * synchronous calls; it cancels some, and gives some too short a time. Of what they did
 *
 *	- all on keys that threads share must be linearizable (tests/linearizability/lin.h);
 *	- what a handle did must be seen in its order: its changes of a key have growing versions,
 *	  and a GET sees what its handle submitted before;
 *	- whoever sees the second of two changes that a handle submitted one after the other, of two
 *	  keys, sees the first.
 *
 *	sys_history URL SECONDS SEED [kill]
 *
 * With kill, connections are closed by another handle all the time. A change whose result is not
 * known, after a timeout or a loss, may have taken effect at any time from then on, or never.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/util/clock.h"
#include "tests/linearizability/lin.h"
#include "tests/system/sys_history.h"

#define ROUND_OPS 700
#define ROUND_NS 400000000ull
#define KILLS 3 /* in a round */
#define CALL_MS 20000
#define LIST_BYTES 65536
/* Rounds with too many changes of unknown result for the checker, at most one in so many. */
#define UNDECIDED_ONE_IN 4
#define GIVE_UP_NS 30000000000ull

static struct run run;

void die(const char *what, const char *why)
{
	fprintf(stderr, "sys_history: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

void wrong(const char *what, uint32_t key, uint64_t a, uint64_t b)
{
	printf("WRONG: %s: key %u, %llu and %llu\n", what, key, (unsigned long long)a,
	       (unsigned long long)b);
	atomic_fetch_add(&run.wrong, 1);
}

uint64_t client_random(struct client *c)
{
	uint64_t x = c->random += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* A handle of another depth each time. */
static struct kvd *open_handle(uint64_t random)
{
	static const uint32_t depths[] = { 1, 3, 16, 64 };
	uint64_t until_ns = clock_ns() + GIVE_UP_NS;
	struct kvd_options options;
	struct kvd *kvd;

	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = CALL_MS;
	options.spin_us = random >> 8 & 1 ? 5 : 100;
	options.depth = depths[random % 4];
	if ((random >> 9 & 3) == 0)
		options.cache_bytes = 0;
	/* A fault may meet the opening of a handle, too. */
	while (kvd_open(&kvd, run.url, &options))
		if (clock_ns() > until_ns)
			die("kvd_open", kvd_error(NULL));
	return kvd;
}

static void client_open(struct client *c)
{
	c->kvd = open_handle(client_random(c));
	c->fd = client_random(c) % 2 ? kvd_fd(c->kvd) : -1;
}

/* What was in flight may still take effect, so it has other keys of its own then. */
static void client_reopen(struct client *c)
{
	client_drain(c);
	kvd_close(c->kvd);
	client_open(c);
	c->lost = false;
	c->losses++;
	c->pair_number = 0;
	c->generation++;
}

static void *client_run(void *arg)
{
	struct client *c = arg;
	uint64_t until_ns = clock_ns() + ROUND_NS;

	for (unsigned int i = 0; i < ROUND_OPS && clock_ns() < until_ns; i++) {
		client_step(c);
		atomic_fetch_add(&run.steps, 1);
		if (c->lost)
			client_reopen(c);
	}
	client_drain(c);
	if (c->lost)
		client_reopen(c);
	atomic_fetch_sub(&run.running, 1);
	return NULL;
}

/* Closes a connection, perhaps its own. */
static void kill_one(struct kvd **kvd, uint64_t random)
{
	static char text[LIST_BYTES];
	uint64_t ids[64];
	unsigned int n = 0;
	const char *line;
	enum kvd_status status = kvd_client_list(*kvd, text, sizeof(text), NULL);

	for (line = text; !status && line && n < 64; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "id=%lu", &ids[n]) == 1)
			n++;
	}
	if (!status && n)
		status = kvd_client_kill(*kvd, ids[random % n]);
	run.kills += !status;
	if (status != KVD_ERR_DISCONNECTED)
		return;
	kvd_close(*kvd);
	*kvd = open_handle(random);
}

/* Kills after equal parts of the round. */
static void kill_while_running(struct kvd **kvd)
{
	const struct timespec pause = { 0, 1000000 };
	uint64_t before = atomic_load(&run.steps), next = 0, all = (uint64_t)ROUND_OPS * CLIENTS;

	while (atomic_load(&run.running)) {
		nanosleep(&pause, NULL);
		if (next >= KILLS || atomic_load(&run.steps) - before < (next + 1) * all / 20)
			continue;
		next++;
		kill_one(kvd, run.nonce ^ next);
	}
}

static void judge(const char *what, int ret, const struct lin_result *result)
{
	if (!ret && result->verdict == LIN_RIGHT)
		return;
	if (!ret && result->verdict == LIN_UNDECIDED) {
		run.undecided++;
		return;
	}
	printf("WRONG: %s: %s\n", what, ret ? strerror(-ret) : "see below");
	fflush(stdout);
	if (!ret)
		lin_explain(stderr, result);
	atomic_fetch_add(&run.wrong, 1);
}

static void judge_all(void)
{
	struct lin_result result;
	struct lin_log logs[CLIENTS];

	for (unsigned int i = 0; i < CLIENTS; i++) {
		logs[i] = run.clients[i].log;
		client_judge_order(&run.clients[i]);
	}
	judge("history", lin_check(logs, CLIENTS, NULL, &result), &result);
	run.ops += result.ops;
	judge("versions", lin_check_versions(logs, CLIENTS, &result), &result);
}

static void round_run(struct kvd **killer)
{
	run.nonce = clock_ns();
	atomic_store(&run.running, CLIENTS);
	for (unsigned int i = 0; i < CLIENTS; i++)
		client_begin(&run.clients[i]);
	for (unsigned int i = 0; i < CLIENTS; i++)
		if (pthread_create(&run.clients[i].thread, NULL, client_run, &run.clients[i]))
			die("pthread_create", strerror(errno));
	if (*killer)
		kill_while_running(killer);
	for (unsigned int i = 0; i < CLIENTS; i++)
		pthread_join(run.clients[i].thread, NULL);
	judge_all();
	for (unsigned int i = 0; i < CLIENTS; i++)
		lin_log_release(&run.clients[i].log);
}

static bool report(unsigned int rounds, bool kills)
{
	struct counts all = { 0 };
	uint64_t losses = 0;

	for (unsigned int i = 0; i < CLIENTS; i++) {
#define X(name) all.name += run.clients[i].counts.name;
		COUNTS_MAP(X)
#undef X
		losses += run.clients[i].losses;
	}
	printf("%u rounds, %llu operations checked", rounds, (unsigned long long)run.ops);
#define X(name) printf(", " #name " %llu", (unsigned long long)all.name);
	COUNTS_MAP(X)
#undef X
	printf(", kills %llu, handles lost %llu\n", (unsigned long long)run.kills,
	       (unsigned long long)losses);
	printf("%u rounds undecided\n", run.undecided);
	if (all.canceled && all.batches && all.pairs && (!kills || run.kills) &&
	    run.undecided <= rounds / UNDECIDED_ONE_IN)
		return true;
	printf("nothing was tested\n");
	return false;
}

int main(int argc, char **argv)
{
	bool kills = argc > 4 && !strcmp(argv[4], "kill");
	struct kvd *killer = NULL;
	uint64_t until_ns;
	unsigned int rounds = 0;

	if (argc < 4)
		die("usage", "sys_history URL SECONDS SEED [kill]");
	run.url = argv[1];
	run.stays = !kills && !getenv("KVD_SOFTNIC_FAULTS");
	until_ns = clock_ns() + strtoull(argv[2], NULL, 10) * 1000000000ull;
	for (unsigned int i = 0; i < CLIENTS; i++) {
		client_init(&run.clients[i], &run, i, strtoull(argv[3], NULL, 10));
		client_open(&run.clients[i]);
		client_places(&run.clients[i]);
	}
	if (kills)
		killer = open_handle(1);
	do {
		round_run(&killer);
		rounds++;
	} while ((clock_ns() < until_ns || (run.undecided && rounds < UNDECIDED_ONE_IN)) &&
		 !atomic_load(&run.wrong));
	for (unsigned int i = 0; i < CLIENTS; i++)
		client_release(&run.clients[i]);
	kvd_close(killer);
	return report(rounds, kills) && !atomic_load(&run.wrong) ? EXIT_SUCCESS : EXIT_FAILURE;
}
