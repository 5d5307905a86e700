/* SPDX-License-Identifier: MIT */
/*
 * The torture on a store without a server: each thread's handle has its own store thread and READs
 * scattered pieces through a second mapping (tests/support/loopback.h); the server's maintenance
 * thread makes room for the index, and another thread evacuates random spans. The whole table is
 * checked at the end of each round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <urcu-qsbr.h>

#include "common/util/clock.h"
#include "server/store/evict.h"
#include "server/store/maintenance.h"
#include "tests/stress/mutants.h"
#include "tests/stress/torture.h"
#include "tests/support/loopback.h"

#define SWEEP_SHARE 20
#define FLUSH_POLL_US 200

static struct store store;
static struct maintenance maintenance;
static struct table_stats sums; /* of all rounds */

static void store_begin(const struct torture_round *round)
{
	const struct store_options options = { .fill = round->fill, .eviction = round->eviction };

	test_store_create_with(&store, round->region_bytes, round->level, round->threads, &options);
	mutant_table = &store.table;
	if (maintenance_init(&maintenance, &store.table, (uint8_t)round->threads, SWEEP_SHARE,
			     NULL) ||
	    maintenance_start(&maintenance)) {
		fprintf(stderr, "race_torture: no maintenance thread\n");
		exit(EXIT_FAILURE);
	}
}

static struct kvd *store_open(unsigned int thread, const struct kvd_options *options)
{
	struct loopback *loopback = loopback_open(&store, thread, options);

	loopback->scatter = true;
	if (mutant_active)
		loopback->before_read = mutant_before_read;
	if (mutant_active == MUTANT_LEVEL_IGNORED)
		loopback->after_read = mutant_after_read;
	return &loopback->kvd;
}

/* Evacuates the span of a random item, or the one with the fewest; a PUT does so to make room. */
static void store_disturb(uint64_t random)
{
	struct store_thread *thread = &test_threads[test_thread_count - 1];
	struct emptying emptying;
	void *block;

	rcu_register_thread();
	store_thread_clock(thread);
	if (random % 4 == 0)
		evict_compact(thread);
	else if (mem_sample_any(store.memory, &thread->random, &block, 1) &&
		 mem_evacuation_begin(&emptying.evacuation, store.memory, block)) {
		evict_evacuate(thread, &emptying, store.table.eviction);
		mem_evacuation_end(&emptying.evacuation);
	}
	rcu_unregister_thread();
}

static bool store_flush(struct kvd *kvd)
{
	uint64_t ticket;

	(void)kvd;
	/* Maintenance has to get each bucket; with a mutant this thread may hold one. */
	mutant_settle();
	ticket = maintenance_flush(&maintenance, clock_raw_ns() + store.table.clock_base, 0,
				   "uid=1");
	while (ticket && !maintenance_flushed(&maintenance, ticket))
		usleep(FLUSH_POLL_US);
	return ticket;
}

static void sums_add(void)
{
	for (unsigned int i = 0; i < store.table.thread_count; i++) {
#define X(name, help) sums.name += store.table.threads[i]->stats.name;
		TABLE_STATS(X)
#undef X
	}
}

static const char *store_end(void)
{
	const char *error;

	maintenance_stop(&maintenance);
	store_thread_idle(&maintenance.store_thread);
	sums_add();
	error = test_store_check(&store, NULL);
	maintenance_release(&maintenance);
	test_store_destroy(&store);
	return error;
}

static const char *store_missing(void)
{
	if (!sums.splits || !sums.overflow_buckets)
		return "no growth";
	if (!sums.large_changes)
		return "no change of a large item in steps";
	return sums.chains_shortened && sums.moves ? NULL : "no shortened chain, or no move";
}

static void store_report(void)
{
#define X(name, help) printf(#name " %llu, ", (unsigned long long)sums.name);
	TABLE_STATS(X)
#undef X
	printf("in the table\n");
}

const struct torture_backend *torture_store(const struct torture_options *options)
{
	static const struct torture_backend backend = {
		.begin = store_begin,
		.open = store_open,
		.disturb = store_disturb,
		.flush = store_flush,
		.leave = mutant_settle,
		.end = store_end,
		.missing = store_missing,
		.report = store_report,
	};

	(void)options;
	return &backend;
}
