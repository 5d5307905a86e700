/* SPDX-License-Identifier: MIT */
/*
 * Clients whose histories are checked, for tests/system/history.sh: each thread has a handle, on
 * which it submits operations one by one and in batches, at most PLACES at a time, beside
 * synchronous calls; it cancels some, and gives some too short a time. Of what they did
 *
 *	- all on keys that threads share must be linearizable (tests/linearizability/lin.h);
 *	- a range is of the value that was stored with its version;
 *	- what a handle did must be seen in its order: its changes of a key have growing versions,
 *	  and a GET sees what its handle submitted before;
 *	- a client that sees the second of two changes that a handle submitted in a row, of two
 *	  keys, sees the first.
 *
 *	sys_history URL SECONDS SEED [kill [URL]|restart|faults|crashes|failovers|losses]
 *
 * URL may be a fleet's. Between two keys of different members there is no order, so the last rule
 * is not tested then.
 *
 * With kill, connections are closed by another handle all the time, those to the server at its URL.
 * A change whose result is not known, after a timeout or a loss, may have taken effect at any time
 * from then on, or never.
 *
 * With restart, it prints a line `restart` in each round, at which the test kills the server with
 * SIGKILL, starts another one and answers with a line. The rule for the checker: that is a flush of
 * all keys, which takes effect once, between the line and the answer. What the old server did has
 * to come before it, and what the new one did after it; so a handle that keeps anything of the old
 * one, or READs the memory of a dead server, is found. Changes whose end is unknown were sent to
 * the old server; no GET of the new one may find them, and there have to be some. The rule of two
 * keys does not hold over a restart, and is not tested then.
 *
 * With faults, the test does something to the server, its host, its network or to this process: any
 * connection may be lost at any time. It goes on for at least SECONDS and until SIGTERM, and prints
 * a line `round N` when N rounds are judged, so that the test sees that all clients go on.
 *
 * With crashes, the server may be killed, too, and go on with its data, but without the answers of
 * its changes: the rule of two keys does not hold then, and is not tested.
 *
 * With failovers, that happens to members of a fleet, whose shards others then serve, empty. The
 * rule for the checker: each key may be flushed twice in a round, at any time. One client only
 * GETs, so no refused request tells it that a member has lost its shards.
 *
 * With losses, that may happen, and the test judges whether it had to: a round whose history is
 * right only if items were lost, at any time, prints a line `lost N` before its `round N`.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/rdma/softnic/fault.h"
#include "common/util/clock.h"
#include "common/util/splitmix.h"
#include "tests/linearizability/lin.h"
#include "tests/system/sys_history.h"

#define ROUND_OPS 700
#define ROUND_NS 400000000ull
#define KILLS 3	    /* in a round */
#define FAILOVERS 2 /* in a round, at most */
#define CALL_MS 300000
#define CALL_FAILOVER_MS 5000 /* a change that was sent to a frozen member has no answer */
#define LIST_BYTES 65536
#define GIVE_UP_NS 120000000000ull

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
	return splitmix_next(&c->random);
}

/* A handle of another depth each time. */
static struct kvd *open_handle(const char *url, uint64_t random)
{
	static const uint32_t depths[] = { 1, 3, 16, 64 };
	uint64_t until_ns = clock_ns() + GIVE_UP_NS;
	struct kvd_options options;
	struct kvd *kvd;

	kvd_options_init(&options);
	options.timeout_ms = run.loses || run.may_lose ? CALL_FAILOVER_MS : CALL_MS;
	if (!run.faults)
		options.connect_timeout_ms = CALL_MS;
	options.spin_us = random >> 8 & 1 ? 5 : 100;
	options.depth = depths[random % 4];
	if ((random >> 9 & 3) == 0)
		options.cache_bytes = 0;
	/* A fault may meet the opening of a handle, too. */
	while (kvd_open(&kvd, url, &options))
		if (clock_ns() > until_ns)
			die("kvd_open", kvd_error(NULL));
	return kvd;
}

static void client_open(struct client *c)
{
	c->kvd = open_handle(run.url, client_random(c));
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

/* The last quarter of a round is for the new server. */
static void restart_wait(const struct client *c)
{
	const struct timespec pause = { 0, 1000000 };

	while (c->run->restarts && !atomic_load(&c->run->restarted))
		nanosleep(&pause, NULL);
}

static void *client_run(void *arg)
{
	struct client *c = arg;
	uint64_t until_ns = clock_ns() + ROUND_NS;

	for (unsigned int i = 0; i < ROUND_OPS && (c->run->restarts || clock_ns() < until_ns);
	     i++) {
		if (i == ROUND_OPS - ROUND_OPS / 4)
			restart_wait(c);
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
	*kvd = open_handle(run.killed, random);
}

/* Kills after equal parts of the round: of its steps or, where these take long, of its time. */
static void kill_while_running(struct kvd **kvd)
{
	const struct timespec pause = { 0, 1000000 };
	uint64_t before = atomic_load(&run.steps), all = (uint64_t)ROUND_OPS * CLIENTS;
	uint64_t start_ns = clock_ns(), next = 0;

	while (atomic_load(&run.running)) {
		nanosleep(&pause, NULL);
		if (next >= KILLS || (atomic_load(&run.steps) - before < (next + 1) * all / 20 &&
				      clock_ns() - start_ns < (next + 1) * (ROUND_NS / 20)))
			continue;
		next++;
		kill_one(kvd, run.nonce ^ next);
	}
}

/* Has the server restarted after a third of the round, and records that in @log. */
static void restart_while_running(struct lin_log *log)
{
	const struct timespec pause = { 0, 1000000 };
	uint64_t before = atomic_load(&run.steps);
	struct lin_op flush = { .kind = LIN_FLUSH };
	char line[16];

	while (atomic_load(&run.steps) - before < (uint64_t)ROUND_OPS * CLIENTS / 3)
		nanosleep(&pause, NULL);
	flush.call_ns = clock_ns();
	puts("restart");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		die("restart", "no answer");
	for (flush.key = 0; flush.key < KEYS; flush.key++)
		lin_return(log, lin_call(log, &flush), clock_ns(), LIN_OK, 0, NULL);
	atomic_store(&run.restarted, true);
	run.kills++;
}

/* Any member may be lost, with its items, once, and once more if the round takes long. */
static void failovers_record(struct lin_log *log)
{
	struct lin_op flush = { .kind = LIN_FLUSH, .call_ns = clock_ns() };

	for (flush.key = 0; flush.key < KEYS; flush.key++)
		for (unsigned int i = 0; i < FAILOVERS; i++)
			if (lin_call(log, &flush) < 0)
				die("lin_call", "out of memory");
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

static void judge_history(const struct lin_log logs[CLIENTS + 1])
{
	const struct lin_options loses = { .vanish = true };
	struct lin_result result;
	int ret = lin_check(logs, CLIENTS + 1, NULL, &result);

	if (run.may_lose && !ret && result.verdict == LIN_WRONG) {
		lin_explain(stderr, &result);
		run.lost = true;
		run.rounds_lost++;
		ret = lin_check(logs, CLIENTS + 1, &loses, &result);
	}
	judge("history", ret, &result);
	run.ops += result.ops;
}

static bool run_is_fleets(void)
{
	return !strncmp(run.url, "fleet", 5);
}

static void judge_all(const struct lin_log *server)
{
	struct lin_result result;
	struct lin_log logs[CLIENTS + 1];

	logs[CLIENTS] = *server;
	for (unsigned int i = 0; i < CLIENTS; i++) {
		logs[i] = run.clients[i].log;
		client_judge_order(&run.clients[i]);
		for (unsigned int j = 0; j < CLIENTS; j++)
			ranges_judge(&run.clients[i], &run.clients[j]);
		for (unsigned int j = 0; j < CLIENTS && run.restarts; j++)
			client_judge_unknown(&run.clients[i], &run.clients[j],
					     server->ops[0].return_ns);
	}
	judge_history(logs);
	judge("versions",
	      run_is_fleets() ? lin_check_fleet_versions(logs, CLIENTS + 1, &result) :
				lin_check_versions(logs, CLIENTS + 1, &result),
	      &result);
}

static void round_run(struct kvd **killer)
{
	struct lin_log server;

	lin_log_init(&server, CLIENTS);
	run.nonce = clock_ns();
	run.lost = false;
	atomic_store(&run.restarted, false);
	atomic_store(&run.running, CLIENTS);
	for (unsigned int i = 0; i < CLIENTS; i++)
		client_begin(&run.clients[i]);
	for (unsigned int i = 0; i < CLIENTS; i++)
		if (pthread_create(&run.clients[i].thread, NULL, client_run, &run.clients[i]))
			die("pthread_create", strerror(errno));
	if (run.loses)
		failovers_record(&server);
	if (run.restarts)
		restart_while_running(&server);
	else if (*killer)
		kill_while_running(killer);
	for (unsigned int i = 0; i < CLIENTS; i++)
		pthread_join(run.clients[i].thread, NULL);
	judge_all(&server);
	lin_log_release(&server);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		lin_log_release(&run.clients[i].log);
		client_end(&run.clients[i]);
	}
}

/* Whether connections were lost, and handles connected again. */
static bool breaks(void)
{
	const char *faults = getenv("KVD_SOFTNIC_FAULTS");

	return !run.stays && !run.faults &&
	       (!faults || strstr(faults, "drop") || strstr(faults, "kill") ||
		strstr(faults, "lose"));
}

struct totals {
	struct counts counts;
	uint64_t losses, reconnects;
};

static struct totals totals_now(void)
{
	struct totals all = { 0 };
	struct kvd_stats stats;

	for (unsigned int i = 0; i < CLIENTS; i++) {
		const struct client *c = &run.clients[i];
#define X(name) all.counts.name += c->counts.name;
		COUNTS_MAP(X)
#undef X
		all.losses += c->losses;
		kvd_stats(c->kvd, &stats);
		all.reconnects += stats.reconnects;
	}
	return all;
}

/* Whether the device's plan has done each thing that it names. */
static bool plan_is_done(void)
{
	const char *plan = getenv(FAULT_ENV);

#define X(name)                                                                                    \
	if (plan && strstr(plan, #name "=") && !fault_kind_count(FAULT_KIND_##name))               \
		return false;
	FAULT_KINDS(X)
#undef X
	return true;
}

/* Whether everything happened that a run is for. */
static bool is_tested(const struct totals *all, unsigned int rounds, bool kills)
{
	return all->counts.canceled && all->counts.batches && all->counts.in_pieces &&
	       all->counts.ranges &&
	       (run.restarts ? all->counts.unknown > 0 : !run.pairs || all->counts.pairs) &&
	       (!kills || run.kills) && (!breaks() || all->reconnects || all->losses) &&
	       plan_is_done() && run.undecided < rounds;
}

/* What the plan of the device did: the test knows what it asked for. */
static void faults_report(void)
{
	const char *comma = "faults:";

#define X(name)                                                                                    \
	printf("%s " #name " %llu", comma,                                                         \
	       (unsigned long long)fault_kind_count(FAULT_KIND_##name));                           \
	comma = ",";
	FAULT_KINDS(X)
#undef X
	printf("\n");
}

static void report(const struct totals *all, unsigned int rounds)
{
	printf("%u rounds, %llu operations checked", rounds, (unsigned long long)run.ops);
#define X(name) printf(", " #name " %llu", (unsigned long long)all->counts.name);
	COUNTS_MAP(X)
#undef X
	printf(", kills %llu, reconnects %llu, handles lost %llu\n", (unsigned long long)run.kills,
	       (unsigned long long)all->reconnects, (unsigned long long)all->losses);
	printf("%u rounds undecided\n", run.undecided);
	if (run.may_lose)
		printf("%u rounds lost\n", run.rounds_lost);
	faults_report();
}

/* SIGTERM is blocked in all threads: it only ends the rounds. */
static bool is_asked_to_end(void)
{
	sigset_t pending;

	return !sigpending(&pending) && sigismember(&pending, SIGTERM);
}

static void round_report(unsigned int rounds)
{
	if (!run.faults)
		return;
	if (run.lost)
		printf("lost %u\n", rounds);
	printf("round %u\n", rounds);
	fflush(stdout);
}

/* On a machine that is slow, or busy, it may take longer until everything has happened. */
static bool goes_on(uint64_t until_ns, bool tested)
{
	if (atomic_load(&run.wrong))
		return false;
	if (run.faults && !is_asked_to_end())
		return true;
	return clock_ns() < until_ns || (!tested && clock_ns() < until_ns + GIVE_UP_NS);
}

static bool rounds_run(uint64_t seconds, bool kills, struct kvd **killer)
{
	uint64_t until_ns = clock_ns() + seconds * 1000000000ull;
	unsigned int rounds = 0;
	struct totals all;
	bool tested;

	do {
		round_run(killer);
		all = totals_now();
		tested = is_tested(&all, ++rounds, kills);
		round_report(rounds);
	} while (goes_on(until_ns, tested));
	report(&all, rounds);
	if (!tested)
		printf("nothing was tested\n");
	return tested;
}

static void print_line(void *user, enum kvd_log_level level, const char *text)
{
	(void)user;
	printf("%llu ms, level %d: %s\n", (unsigned long long)clock_ns() / 1000000, (int)level,
	       text);
}

/* Before there are other threads. */
static void faults_begin(void)
{
	sigset_t term;

	run.faults = true;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &term, NULL))
		die("sigprocmask", strerror(errno));
	kvd_set_log(KVD_LOG_INFO, print_line, NULL);
}

int main(int argc, char **argv)
{
	bool kills, crashes, tested;
	const char *mode;
	struct kvd *killer = NULL;

	if (argc < 4)
		die("usage", "sys_history URL SECONDS SEED "
			     "[kill [URL]|restart|faults|crashes|failovers|losses]");
	run.url = run.killed = argv[1];
	if (argc > 5)
		run.killed = argv[5];
	mode = argc > 4 ? argv[4] : "";
	run.loses = !strcmp(mode, "failovers");
	run.may_lose = !strcmp(mode, "losses");
	crashes = !strcmp(mode, "crashes");
	if (run.loses || run.may_lose || crashes || !strcmp(mode, "faults"))
		faults_begin();
	kills = *mode && !run.faults;
	run.restarts = !strcmp(mode, "restart");
	run.pairs = !run.restarts && !crashes && !run_is_fleets();
	run.stays = !kills && !run.faults && !getenv("KVD_SOFTNIC_FAULTS");
	for (unsigned int i = 0; i < CLIENTS; i++) {
		client_init(&run.clients[i], &run, i, strtoull(argv[3], NULL, 10));
		client_open(&run.clients[i]);
		client_places(&run.clients[i]);
	}
	/* The device is open: what it does not take over now it never will. */
	if (getenv(FAULT_ENV) && !fault_on())
		die(FAULT_ENV, "the plan is not in force");
	if (kills && !run.restarts)
		killer = open_handle(run.killed, 1);
	tested = rounds_run(strtoull(argv[2], NULL, 10), kills, &killer);
	for (unsigned int i = 0; i < CLIENTS; i++)
		client_release(&run.clients[i]);
	kvd_close(killer);
	return tested && !atomic_load(&run.wrong) ? EXIT_SUCCESS : EXIT_FAILURE;
}
