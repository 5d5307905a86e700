/* SPDX-License-Identifier: MIT */
/* Counts the turns of a worker by how long they took. */
#include "server/worker/turn.h"

#include <time.h>

/* Between two looks whether a turn has ended; most take less. */
#define WAIT_NS 50000

static void stat_max(uint64_t *max, uint64_t value)
{
	if (value > *max)
		stat_add(max, value - *max);
}

void turn_end(struct turn *turn, struct turn_stats *stats, uint64_t now_ns)
{
	uint64_t ns = now_ns - turn->began_ns;

	stat_add(&stats->counts[hist_bucket(ns)], 1);
	stat_add(&stats->ns_sum, ns);
	stat_max(&stats->ns_max, ns);
	stat_max(&stats->completions_max, turn->completions);
	stat_max(&stats->batched_max, turn->batched);
	turn->completions = turn->batched = 0;
	/* After all that the turn did: turn_wait(). */
	__atomic_store_n(&turn->began_ns, 0, __ATOMIC_RELEASE);
}

void turn_wait(const struct turn *turn)
{
	const struct timespec pause = { 0, WAIT_NS };
	uint64_t began_ns = __atomic_load_n(&turn->began_ns, __ATOMIC_ACQUIRE);

	while (began_ns && __atomic_load_n(&turn->began_ns, __ATOMIC_ACQUIRE) == began_ns)
		nanosleep(&pause, NULL);
}

void turn_stats_read(const struct turn_stats *stats, struct hist *hist)
{
	uint64_t count, max_ns = stat_read(&stats->ns_max);
	unsigned int i;

	for (i = 0; i < HIST_BUCKETS; i++) {
		count = stat_read(&stats->counts[i]);
		hist->buckets[i] += count;
		hist->count += count;
	}
	hist->sum_ns += stat_read(&stats->ns_sum);
	if (max_ns > hist->max_ns)
		hist->max_ns = max_ns;
}

uint64_t turn_class_count(const struct hist *hist, uint64_t above_ns, uint64_t ns)
{
	unsigned int i, first = above_ns ? hist_bucket(above_ns) + 1 : 0;
	uint64_t count = 0;

	for (i = first; i <= hist_bucket(ns); i++)
		count += hist->buckets[i];
	return count;
}
