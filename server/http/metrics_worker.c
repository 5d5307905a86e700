/* SPDX-License-Identifier: MIT */
/* Metrics of workers, and of the requests and commands that they count together. */
#include <ctype.h>
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

#define X(name, label) label,
static const char *const front_names[] = { FRONTS(X) };
#undef X

/* A counter that is a sample of kvd_memcached_commands_total: its labels. */
struct memcached_command {
	const char *statistic, *command, *status;
};

/*
 * Commands whose series are there from the start: those of keys. Others, and other statuses than
 * OK, are there once they are not 0.
 */
static const enum wire_op commands[] = {
	WIRE_GET, WIRE_PUT, WIRE_DELETE, WIRE_ARITH, WIRE_TOUCH, WIRE_SCAN,
};
static const struct memcached_command memcached_commands[] = {
	{ "get_hits", "get", "hit" },	     { "get_misses", "get", "miss" },
	{ "delete_hits", "delete", "hit" },  { "delete_misses", "delete", "miss" },
	{ "incr_hits", "incr", "hit" },	     { "incr_misses", "incr", "miss" },
	{ "decr_hits", "decr", "hit" },	     { "decr_misses", "decr", "miss" },
	{ "cas_hits", "cas", "hit" },	     { "cas_misses", "cas", "miss" },
	{ "cas_badval", "cas", "badval" },   { "touch_hits", "touch", "hit" },
	{ "touch_misses", "touch", "miss" },
};

static const struct memcached_command *memcached_command(const char *statistic)
{
	for (size_t i = 0; i < COUNT_OF(memcached_commands); i++)
		if (!strcmp(memcached_commands[i].statistic, statistic))
			return &memcached_commands[i];
	return NULL;
}

/* The sum over all workers of the counter at @offset of struct worker. */
static uint64_t workers_sum(const struct net *net, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < net->workers_made; i++)
		sum += stat_read((const uint64_t *)((const char *)&net->workers[i] + offset));
	return sum;
}

/* Whether a series that is still 0 is written: rates then see its first change. */
static bool is_there(enum wire_op op, enum wire_status status)
{
	/* An alert goes by the rate of PUTs without space. */
	if (status == WIRE_NO_SPACE)
		return op == WIRE_PUT;
	for (size_t i = 0; i < COUNT_OF(commands); i++)
		if (commands[i] == op)
			return status == WIRE_OK;
	return false;
}

static void label_add_lower(struct labels *labels, const char *name, const char *upper)
{
	char text[32];
	size_t i;

	for (i = 0; i < sizeof(text) - 1 && upper[i]; i++)
		text[i] = (char)tolower((unsigned char)upper[i]);
	text[i] = '\0';
	label_add(labels, name, text);
}

static void command_sample(struct exposition *out, const struct command_counts *counts,
			   enum front front, enum wire_op op, enum wire_status status)
{
	struct labels labels = { 0 };

	label_add_lower(&labels, "command", wire_op_name(op));
	label_add_lower(&labels, "status", wire_status_name(status));
	label_add(&labels, "front", front_names[front]);
	exposition_number(out, &labels, counts->of[front][op][status]);
}

/*
 * At most 966 series, of 23 operations, 14 statuses and 3 fronts, 80 KiB in all; some 40 are usual.
 */
static void commands_total_write(struct exposition *out, const struct net *net)
{
	struct command_counts counts;

	net_commands(net, &counts);
	exposition_family(out, "kvd_commands_total", METRIC_COUNTER,
			  "commands by the status they were answered with and the front that they "
			  "came by; GETs by READ as clients report them");
	for (unsigned int front = 0; front < FRONTS_COUNT; front++)
		for (unsigned int op = 1; op <= WIRE_OP_MAX; op++)
			for (unsigned int status = 0; status <= WIRE_STATUS_MAX; status++)
				if (counts.of[front][op][status] || is_there(op, status))
					command_sample(out, &counts, front, op, status);
}

static void requests_write(struct exposition *out, const struct net *net)
{
	const size_t offset = offsetof(struct worker, stats);

	commands_total_write(out, net);
	for (size_t i = 0; i < COUNT_OF(worker_names); i++) {
		metrics_family(out, "", &worker_names[i], METRIC_COUNTER);
		exposition_number(out, NULL, workers_sum(net, offset + worker_names[i].offset));
	}
}

static void memcached_command_sample(struct exposition *out, const struct net *net,
				     const struct metrics_names *statistic)
{
	const struct memcached_command *command = memcached_command(statistic->name);
	struct labels labels = { 0 };

	if (!command)
		return;
	label_add(&labels, "command", command->command);
	label_add(&labels, "status", command->status);
	exposition_number(out, &labels,
			  workers_sum(net,
				      offsetof(struct worker, part.commands) + statistic->offset));
}

static void memcached_write(struct exposition *out, const struct net *net)
{
	const size_t offset = offsetof(struct worker, part.commands);

	exposition_family(out, "kvd_memcached_commands_total", METRIC_COUNTER,
			  "commands of clients of memcached's protocol, of the tenant default, by "
			  "their result");
	for (size_t i = 0; i < COUNT_OF(memcached_names); i++)
		memcached_command_sample(out, net, &memcached_names[i]);
	for (size_t i = 0; i < COUNT_OF(memcached_names); i++) {
		if (memcached_command(memcached_names[i].name))
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
	for (unsigned int i = 0; i < net->workers_made; i++) {
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
	for (unsigned int i = 0; i < net->workers_made; i++) {
		const struct labels labels = worker_label(i);

		exposition_ns(out, &labels, worker_cpu_ns(&net->workers[i]));
	}
}

static void workers_write(struct exposition *out, const struct net *net)
{
	exposition_family(out, "kvd_worker_turn_seconds", METRIC_HISTOGRAM,
			  "turns of the worker's loop that found something to do, by the clock");
	for (unsigned int i = 0; i < net->workers_made; i++)
		turns_write(out, &net->workers[i].turns, i);
	exposition_family(out, "kvd_worker_turn_max_seconds", METRIC_GAUGE,
			  "the longest turn of the worker since the start; includes the time of "
			  "other threads on its CPU");
	for (unsigned int i = 0; i < net->workers_made; i++) {
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
	pthread_mutex_lock(&source->net->workers_lock);
	requests_write(out, source->net);
	memcached_write(out, source->net);
	held_write(out, source->net, gathered);
	workers_write(out, source->net);
	pthread_mutex_unlock(&source->net->workers_lock);
}
