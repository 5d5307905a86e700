/* SPDX-License-Identifier: MIT */
/*
 * Clients for the system test of connections that are lost and made again. THREADS threads, each
 * with a handle, some with synchronous calls and some with submitted operations, add to one number
 * each and read it, until SIGTERM, while the test kills connections and servers. Then each number
 * has to be at least the acknowledged additions and at most these and the unknown ones. Prints a
 * line of counts, and `ok` and `FAIL` lines as tests/system/lib.sh does.
 *
 *	sys_reconnect URL THREADS same	one server
 *	sys_reconnect URL THREADS restart	it restarts, so numbers begin anew: only statuses count
 *	sys_reconnect URL THREADS KILLS	one server, and all connections are killed all the time, at
 *					least KILLS in all, and until REPEATED_MIN additions were
 *					sent again that had been executed; it ends by itself
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
#include "tests/support/checks.h"

#define THREADS_MAX 64
#define BATCH 8
/* Longer than any restart of the test, under sanitizers and in an emulated machine. */
#define TIMEOUT_MS 300000
/* Such an addition needs a kill between its execution and its answer. */
#define REPEATED_MIN 20
#define KILL_PAUSE_NS 2000000
#define KILL_GIVE_UP_S 600

struct worker {
	pthread_t thread;
	struct kvd *db;
	char key[16];
	size_t key_len;
	bool async;
	uint64_t acknowledged, unknown, reads, failed;
	_Atomic uint64_t repeated;
	char error[512]; /* of the first that failed */
	struct kvd_stats stats;
};

static _Atomic bool stop;
static const char *server_url;
static struct worker workers[THREADS_MAX];

static void failed(struct worker *w, enum kvd_status status)
{
	if (!w->failed++)
		snprintf(w->error, sizeof(w->error), "%s: %.400s", kvd_status_text(status),
			 kvd_error(w->db));
}

static void count(struct worker *w, enum kvd_status status)
{
	if (!status)
		w->acknowledged++;
	else if (status == KVD_ERR_UNKNOWN)
		w->unknown++;
	else
		failed(w, status);
}

static void count_read(struct worker *w, enum kvd_status status)
{
	if (status && status != KVD_NOT_FOUND)
		failed(w, status);
	w->reads++;
}

static void synchronous(struct worker *w)
{
	static const struct kvd_arith_args create = { .create = 1, .initial = 1 };
	char value[32];

	count(w, kvd_incr(w->db, w->key, w->key_len, 1, &create, NULL, NULL));
	count_read(w, kvd_get(w->db, w->key, w->key_len, value, sizeof(value), NULL));
}

static void submitted(struct worker *w)
{
	static const struct kvd_arith_args create = { .create = 1, .initial = 1 };
	struct kvd_op ops[BATCH], *list[BATCH], *done[BATCH];
	char values[BATCH][32];
	size_t i, n;

	for (i = 0; i < BATCH; i++) {
		list[i] = &ops[i];
		if (i % 2)
			kvd_prep_get(&ops[i], w->key, w->key_len, values[i], sizeof(values[i]));
		else
			kvd_prep_incr(&ops[i], w->key, w->key_len, 1, &create);
	}
	if (kvd_submit(w->db, list, BATCH)) {
		failed(w, KVD_ERR_INVALID);
		return;
	}
	while (kvd_outstanding(w->db)) {
		n = kvd_wait(w->db, done, BATCH, 1, UINT32_MAX);
		for (i = 0; i < n; i++) {
			if (done[i]->op == KVD_OP_GET)
				count_read(w, done[i]->status);
			else
				count(w, done[i]->status);
		}
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!stop) {
		if (w->async)
			submitted(w);
		else
			synchronous(w);
		kvd_stats(w->db, &w->stats);
		atomic_store(&w->repeated, w->stats.repeated);
	}
	return NULL;
}

static bool worker_open(struct worker *w, unsigned int i)
{
	struct kvd_options options;

	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = TIMEOUT_MS;
	w->async = i % 2;
	w->key_len = (size_t)snprintf(w->key, sizeof(w->key), "number%u", i);
	if (kvd_open(&w->db, server_url, &options))
		die("open", kvd_error(NULL));
	/* The key is there if the program ran before. */
	kvd_delete(w->db, w->key, w->key_len);
	return !pthread_create(&w->thread, NULL, work, w);
}

/* Numbers may not be above what was asked for, nor below what was promised. */
static bool number_is_right(struct worker *w)
{
	char value[32] = "";
	struct kvd_item item;
	uint64_t number;

	if (kvd_get(w->db, w->key, w->key_len, value, sizeof(value) - 1, &item))
		return false;
	number = strtoull(value, NULL, 10);
	if (number >= w->acknowledged && number <= w->acknowledged + w->unknown)
		return true;
	printf("%s is %" PRIu64 ": %" PRIu64 " were acknowledged, %" PRIu64 " unknown\n", w->key,
	       number, w->acknowledged, w->unknown);
	return false;
}

static uint64_t repeated_sum(unsigned int count_of)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < count_of; i++)
		sum += atomic_load(&workers[i].repeated);
	return sum;
}

static void kill_all_the_time(uint64_t kills_min, unsigned int count_of)
{
	const struct timespec pause = { .tv_nsec = KILL_PAUSE_NS };
	struct kvd *db = must_open(server_url);
	time_t until = time(NULL) + KILL_GIVE_UP_S;
	uint64_t kills = 0;

	while ((kills < kills_min || repeated_sum(count_of) < REPEATED_MIN) && time(NULL) < until) {
		kills += connections_kill(db);
		nanosleep(&pause, NULL);
	}
	kvd_close(db);
	printf("%" PRIu64 " connections killed\n", kills);
	check(kills >= kills_min && repeated_sum(count_of) >= REPEATED_MIN,
	      "connections were killed, and additions sent again that had been executed");
}

int main(int argc, char **argv)
{
	uint64_t changes = 0, unknown = 0, reads = 0, failures = 0, reconnects = 0, resent = 0;
	uint64_t kills = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
	bool restarts = argc == 4 && !strcmp(argv[3], "restart");
	unsigned int i, count_of, right = 0;
	sigset_t set;
	int number;

	if (argc != 4 || (!kills && !restarts && strcmp(argv[3], "same"))) {
		fputs("usage: sys_reconnect URL THREADS same|restart|KILLS\n", stderr);
		return 64;
	}
	server_url = argv[1];
	count_of = (unsigned int)atoi(argv[2]);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (i = 0; i < count_of && i < THREADS_MAX; i++)
		if (!worker_open(&workers[i], i))
			die("thread", "can't start");
	printf("ok    all clients are connected\n");
	fflush(stdout);
	if (kills)
		kill_all_the_time(kills, count_of);
	else
		sigwait(&set, &number);
	stop = true;
	for (i = 0; i < count_of; i++) {
		struct worker *w = &workers[i];

		pthread_join(w->thread, NULL);
		changes += w->acknowledged;
		unknown += w->unknown;
		reads += w->reads;
		failures += w->failed;
		reconnects += w->stats.reconnects;
		resent += w->stats.resent;
		if (w->failed)
			printf("%s: %" PRIu64 " failed, first: %s\n", w->key, w->failed, w->error);
	}
	printf("%" PRIu64 " changes done, %" PRIu64 " unknown, %" PRIu64 " reads, %" PRIu64
	       " failed, %" PRIu64 " reconnects, %" PRIu64 " requests sent again, %" PRIu64
	       " of them executed before\n",
	       changes, unknown, reads, failures, reconnects, resent, repeated_sum(count_of));
	check(!failures, "no call failed");
	check(changes && reads, "changes and reads were done");
	check(reconnects > 0, "handles connected again");
	if (!restarts) {
		check(!unknown, "no change has an unknown end");
		for (i = 0; i < count_of; i++)
			right += number_is_right(&workers[i]);
		check(right == count_of, "each number is what was acknowledged, but the unknown");
	}
	for (i = 0; i < count_of; i++)
		kvd_close(workers[i].db);
	return check_status();
}
