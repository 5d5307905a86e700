/* SPDX-License-Identifier: MIT */
/* Metrics of workers, and of the requests and commands that they count together. */
#include <stddef.h>
#include <string.h>

#include "common/util/hist.h"
#include "common/util/stat.h"
#include "server/http/metrics.h"
#include "server/worker/worker_loop.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define X(name, help) METRICS_NAME(worker_stats, name, help)
static const struct metrics_names worker_names[] = { WORKER_STATS(X) };
#undef X
#define X(name, help) METRICS_NAME(mc_counters, name, help)
static const struct metrics_names memcached_names[] = { MC_COUNTERS(X) };
#undef X
#define X(name, help) METRICS_NAME(held_stats, name, help)
static const struct metrics_names held_names[] = { HELD_STATS(X) };
#undef X
#define X(name, help) METRICS_NAME(budget_stats, name, help)
static const struct metrics_names budget_names[] = { BUDGET_STATS(X) };
#undef X
#define X(name, ns) ns,
static const uint64_t turn_bounds_ns[] = { TURN_CLASSES(X) };
#undef X

/* A counter that is a sample of a family of several. */
struct command {
	const char *statistic, *command, *result;
};

/* Of kvd_commands_total and kvd_command_failures_total. */
static const struct command commands[] = {
	{ "puts", "put", NULL },
	{ "deletes", "delete", NULL },
	{ "touches", "touch", NULL },
	{ "scans", "scan", NULL },
};
static const struct command failures[] = {
	{ "put_no_space", "put", "no_space" },
	{ "put_too_large", "put", "too_large" },
	{ "delete_misses", "delete", "not_found" },
};
/* Of kvd_memcached_commands_total. */
static const struct command memcached_commands[] = {
	{ "get_hits", "get", "hit" },	     { "get_misses", "get", "miss" },
	{ "delete_hits", "delete", "hit" },  { "delete_misses", "delete", "miss" },
	{ "incr_hits", "incr", "hit" },	     { "incr_misses", "incr", "miss" },
	{ "decr_hits", "decr", "hit" },	     { "decr_misses", "decr", "miss" },
	{ "cas_hits", "cas", "hit" },	     { "cas_misses", "cas", "miss" },
	{ "cas_badval", "cas", "badval" },   { "touch_hits", "touch", "hit" },
	{ "touch_misses", "touch", "miss" },
};

static bool is_command(const char *statistic, const struct command *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(list[i].statistic, statistic))
			return true;
	return false;
}

static const struct metrics_names *names_find(const struct metrics_names *names, size_t count,
					      const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i].name, name))
			return &names[i];
	return NULL;
}

/* The sum over all workers of the counter at @offset of struct worker. */
static uint64_t workers_sum(const struct net *net, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < net->worker_count; i++)
		sum += stat_read((const uint64_t *)((const char *)&net->workers[i] + offset));
	return sum;
}

/* The samples of @list, whose statistics are at @offset of struct worker; @result: its label. */
static void commands_write(struct exposition *out, const struct net *net,
			   const struct command *list, size_t count, const char *result,
			   const struct metrics_names *names, size_t names_count, size_t offset)
{
	for (size_t i = 0; i < count; i++) {
		const struct metrics_names *statistic = names_find(names, names_count,
								   list[i].statistic);
		struct labels labels = { 0 };

		label_add(&labels, "command", list[i].command);
		if (list[i].result)
			label_add(&labels, result, list[i].result);
		exposition_number(out, &labels, workers_sum(net, offset + statistic->offset));
	}
}

static void get_sample(struct exposition *out, const struct gathered *gathered)
{
	struct labels labels = { 0 };
	uint64_t gets = 0;

	for (unsigned int i = 0; i < gathered->count; i++)
		gets += gathered->tenants[i].table.gets;
	exposition_number(out, label_add(&labels, "command", "get"), gets);
}

static void requests_write(struct exposition *out, const struct net *net,
			   const struct gathered *gathered)
{
	const size_t offset = offsetof(struct worker, stats);

	exposition_family(out, "kvd_commands_total", METRIC_COUNTER,
			  "commands of all clients, those of memcached's protocol included; GETs "
			  "by READ as clients report them");
	get_sample(out, gathered);
	commands_write(out, net, commands, COUNT_OF(commands), NULL, worker_names,
		       COUNT_OF(worker_names), offset);
	exposition_family(out, "kvd_command_failures_total", METRIC_COUNTER,
			  "commands of all clients that failed for this reason");
	commands_write(out, net, failures, COUNT_OF(failures), "reason", worker_names,
		       COUNT_OF(worker_names), offset);
	for (size_t i = 0; i < COUNT_OF(worker_names); i++) {
		if (is_command(worker_names[i].name, commands, COUNT_OF(commands)) ||
		    is_command(worker_names[i].name, failures, COUNT_OF(failures)))
			continue;
		metrics_family(out, "", &worker_names[i], METRIC_COUNTER);
		exposition_number(out, NULL, workers_sum(net, offset + worker_names[i].offset));
	}
}

static void memcached_write(struct exposition *out, const struct net *net)
{
	const size_t offset = offsetof(struct worker, part.commands);

	exposition_family(out, "kvd_memcached_commands_total", METRIC_COUNTER,
			  "commands of clients of memcached's protocol, of the tenant default, by "
			  "their result");
	commands_write(out, net, memcached_commands, COUNT_OF(memcached_commands), "status",
		       memcached_names, COUNT_OF(memcached_names), offset);
	for (size_t i = 0; i < COUNT_OF(memcached_names); i++) {
		if (is_command(memcached_names[i].name, memcached_commands,
			       COUNT_OF(memcached_commands)))
			continue;
		metrics_family(out, "memcached_", &memcached_names[i], METRIC_COUNTER);
		exposition_number(out, NULL, workers_sum(net, offset + memcached_names[i].offset));
	}
}

static void held_write(struct exposition *out, const struct net *net,
		       const struct gathered *gathered)
{
	for (size_t i = 0; i < COUNT_OF(held_names); i++) {
		metrics_family(out, "held_", &held_names[i], METRIC_GAUGE);
		exposition_number(
			out, NULL,
			workers_sum(net, offsetof(struct worker, held) + held_names[i].offset));
	}
	for (size_t i = 0; i < COUNT_OF(budget_names); i++) {
		metrics_family(out, "held_", &budget_names[i], METRIC_GAUGE);
		exposition_number(out, NULL, metrics_value(&gathered->budgets, &budget_names[i]));
	}
}

static struct labels worker_label(unsigned int worker)
{
	struct labels labels = { 0 };

	label_add_number(&labels, "worker", worker);
	return labels;
}

static void turns_write(struct exposition *out, const struct turn_stats *turns, unsigned int worker)
{
	const struct labels labels = worker_label(worker);
	uint64_t counts[COUNT_OF(turn_bounds_ns)], above_ns = 0;
	struct hist hist;

	hist_init(&hist);
	turn_stats_read(turns, &hist);
	for (size_t i = 0; i < COUNT_OF(counts); i++) {
		counts[i] = turn_class_count(&hist, above_ns, turn_bounds_ns[i]);
		above_ns = turn_bounds_ns[i];
	}
	exposition_histogram(out, &labels, turn_bounds_ns, counts, COUNT_OF(counts), hist.sum_ns);
}

/* A sample of each worker of the number at @offset of struct worker. */
static void of_workers(struct exposition *out, const struct net *net, size_t offset)
{
	for (unsigned int i = 0; i < net->worker_count; i++) {
		const struct labels labels = worker_label(i);
		const char *worker = (const char *)&net->workers[i];

		exposition_number(out, &labels, stat_read((const uint64_t *)(worker + offset)));
	}
}

static void cpu_write(struct exposition *out, const struct net *net)
{
	exposition_family(out, "kvd_worker_cpu_seconds_total", METRIC_COUNTER,
			  "CPU time of the worker; that in turns is the sum of "
			  "kvd_worker_turn_seconds, and the rest is polling in vain, going to "
			  "sleep and waking up");
	for (unsigned int i = 0; i < net->worker_count; i++) {
		const struct labels labels = worker_label(i);

		exposition_ns(out, &labels, worker_cpu_ns(&net->workers[i]));
	}
}

static void workers_write(struct exposition *out, const struct net *net)
{
	exposition_family(out, "kvd_worker_turn_seconds", METRIC_HISTOGRAM,
			  "turns of the worker's loop that found something to do, by the clock");
	for (unsigned int i = 0; i < net->worker_count; i++)
		turns_write(out, &net->workers[i].turns, i);
	exposition_family(out, "kvd_worker_turn_max_seconds", METRIC_GAUGE,
			  "the longest turn of the worker since the start; includes the time of "
			  "other threads on its CPU");
	for (unsigned int i = 0; i < net->worker_count; i++) {
		const struct labels labels = worker_label(i);

		exposition_ns(out, &labels, stat_read(&net->workers[i].turns.ns_max));
	}
	exposition_family(out, "kvd_worker_turn_completions_max", METRIC_GAUGE,
			  "most completions that the worker took in one turn");
	of_workers(out, net, offsetof(struct worker, turns.completions_max));
	exposition_family(out, "kvd_worker_turn_batched_max", METRIC_GAUGE,
			  "most requests of batched messages that the worker executed in one turn");
	of_workers(out, net, offsetof(struct worker, turns.batched_max));
	exposition_family(out, "kvd_worker_requests_total", METRIC_COUNTER,
			  "requests that the worker received");
	of_workers(out, net, offsetof(struct worker, stats.requests));
	cpu_write(out, net);
}

void metrics_worker(struct exposition *out, const struct metrics_source *source,
		    const struct gathered *gathered)
{
	requests_write(out, source->net, gathered);
	memcached_write(out, source->net);
	held_write(out, source->net, gathered);
	workers_write(out, source->net);
}
