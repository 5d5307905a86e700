/* SPDX-License-Identifier: MIT */
/*
 * Clients of both ways to the same keys, libkvd and memcached's protocol, for
 * tests/system/fronts.sh: what they all did has to be one linearizable history
 * (tests/linearizability/lin.h). The cas unique of a gets is the item's version, so the history has
 * the same versions whichever way an operation went.
 *
 *	sys_fronts URL PORT SECONDS SEED
 *
 * Values have the sizes at which the front goes another way: a few bytes, which are in the worker's
 * buffers as a whole; 20 KiB, received into their item; 70 KiB, also sent from their item. Half of
 * the last kind are sent and taken in two parts, between which the same thread changes the same key
 * by another connection: so a value that goes out is replaced meanwhile, and one that comes in
 * meets a change, however busy the machine is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "tests/support/checks.h"
#include "tests/system/sys_fronts.h"

#define ROUND_NS 400000000ull
#define GIVE_UP_NS 120000000000ull

static struct run run;
static struct thread threads[THREADS];
static uint64_t ops;
static unsigned int rounds, undecided, wrong;

static void judge(const char *what, int ret, const struct lin_result *result)
{
	if (!ret && result->verdict == LIN_RIGHT)
		return;
	if (!ret && result->verdict == LIN_UNDECIDED) {
		undecided++;
		return;
	}
	printf("WRONG: %s: %s\n", what, ret ? strerror(-ret) : "see below");
	fflush(stdout);
	if (!ret)
		lin_explain(stderr, result);
	wrong++;
}

static void judge_all(void)
{
	struct lin_log logs[THREADS];
	struct lin_result result;
	int ret;

	for (unsigned int i = 0; i < THREADS; i++)
		logs[i] = threads[i].log;
	ret = lin_check(logs, THREADS, NULL, &result);
	judge("history", ret, &result);
	ops += ret ? 0 : result.ops;
	ret = lin_check_versions(logs, THREADS, &result);
	judge("versions", ret, &result);
}

static void round_run(void)
{
	unsigned int i;
	int ret;

	run.nonce = clock_ns();
	run.until_ns = run.nonce + ROUND_NS;
	for (i = 0; i < THREADS; i++) {
		ret = pthread_create(&threads[i].id, NULL, thread_run, &threads[i]);
		if (ret)
			die("pthread_create", strerror(ret));
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i].id, NULL);
	judge_all();
	for (i = 0; i < THREADS; i++)
		lin_log_release(&threads[i].log);
	thread_delete_keys(&threads[0]);
	rounds++;
}

/* GETs of the clients of libkvd that sent no request. */
static uint64_t gets_by_read(void)
{
	static const enum kvd_path paths[] = { KVD_PATH_WARM, KVD_PATH_COLD };
	struct kvd_op_stats stats;
	uint64_t count = 0;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (kvd_op_stats(NULL, KVD_OP_GET, paths[i], &stats, sizeof(stats)))
			die("kvd_op_stats", kvd_error(NULL));
		count += stats.count - stats.errors;
	}
	return count;
}

static struct counts counts_of(bool is_mc)
{
	struct counts all = { 0 };

	for (unsigned int i = 0; i < THREADS; i++) {
		if (threads[i].is_mc != is_mc)
			continue;
#define X(name) all.name += threads[i].counts.name;
		COUNTS_MAP(X)
		PARTS_MAP(X)
#undef X
	}
	return all;
}

/* Whether everything has happened that the test is for. */
static bool is_tested(void)
{
	struct counts kvd = counts_of(false), mc = counts_of(true);

#define X(name)                                                                                    \
	if (!kvd.name || !mc.name)                                                                 \
		return false;
	COUNTS_MAP(X)
#undef X
#define X(name)                                                                                    \
	if (!mc.name)                                                                              \
		return false;
	PARTS_MAP(X)
#undef X
	return gets_by_read() && undecided < rounds;
}

static void counts_print(const char *way, const struct counts *counts)
{
	printf("%s:", way);
#define X(name) printf(" " #name " %llu", (unsigned long long)counts->name);
	COUNTS_MAP(X)
	PARTS_MAP(X)
#undef X
	printf("\n");
}

static void report(void)
{
	struct counts kvd = counts_of(false), mc = counts_of(true);

	printf("%u rounds, %llu operations checked\n", rounds, (unsigned long long)ops);
	printf("%u rounds undecided\n", undecided);
	counts_print("libkvd", &kvd);
	printf("GETs by READ alone: %llu\n", (unsigned long long)gets_by_read());
	counts_print("memcached", &mc);
}

int main(int argc, char **argv)
{
	uint64_t until_ns;
	unsigned int i;
	bool tested;

	if (argc != 5)
		die("usage", "sys_fronts URL PORT SECONDS SEED");
	run.url = argv[1];
	run.port = (uint16_t)strtoul(argv[2], NULL, 10);
	for (i = 0; i < THREADS; i++)
		thread_init(&threads[i], &run, i, strtoull(argv[4], NULL, 10));
	until_ns = clock_ns() + strtoull(argv[3], NULL, 10) * 1000000000ull;
	/* On a machine that is slow, or busy, it may take longer until everything has happened. */
	do {
		round_run();
		tested = is_tested();
	} while (!wrong &&
		 (clock_ns() < until_ns || (!tested && clock_ns() < until_ns + GIVE_UP_NS)));
	report();
	if (!tested)
		printf("nothing was tested\n");
	for (i = 0; i < THREADS; i++)
		thread_release(&threads[i]);
	return tested && !wrong ? EXIT_SUCCESS : EXIT_FAILURE;
}
