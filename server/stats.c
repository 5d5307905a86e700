/* SPDX-License-Identifier: MIT */
/* Writes the statistics, line by line, from the counters of all modules. */
#include "server/stats.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/audit_file.h"
#include "server/log_writer.h"
#include "server/config/version.h"
#include "server/worker/budget.h"
#include "server/worker/worker_loop.h"

#define LINE_MAX_BYTES 512

/* The output: lines up to the first one that does not fit. */
struct lines {
	char *text;
	uint32_t size;
	uint32_t used; /* bytes of all lines, also those left out */
};

static void __attribute__((format(printf, 2, 3))) line(struct lines *l, const char *format, ...)
{
	char text[LINE_MAX_BYTES];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text) - 1, format, args);
	va_end(args);
	if (n > (int)sizeof(text) - 2)
		n = sizeof(text) - 2;
	text[n++] = '\n';
	if (l->used <= l->size && (uint32_t)n <= l->size - l->used)
		memcpy(l->text + l->used, text, (size_t)n);
	l->used += (uint32_t)n;
}

static void number(struct lines *l, const char *name, uint64_t value)
{
	line(l, "%s %llu", name, (unsigned long long)value);
}

static uint64_t micros(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000u + (uint64_t)t->tv_usec;
}

static void process_lines(struct lines *l, const struct stats_source *source)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	line(l, "version %s", KVD_SERVER_VERSION);
	number(l, "pid", (uint64_t)getpid());
	number(l, "uptime_s", (clock_ns() - source->started_ns) / 1000000000u);
	number(l, "cpu_user_us", micros(&usage.ru_utime));
	number(l, "cpu_system_us", micros(&usage.ru_stime));
	number(l, "workers", source->net->worker_count);
	number(l, "log_lines_lost", log_writer_lost());
	number(l, "audit_lines_lost", audit_file_lost());
}

static void tenants_lines(struct lines *l, const struct tenants *tenants)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < TENANTS_MAX; i++)
		count += tenants->list[i] != NULL;
	number(l, "tenants", count);
	number(l, "tenants_bytes", tenants->used);
}

/* A map that does not change. */
static void fleet_fixed_status(struct membership_status *status, const struct fleet_view *view)
{
	*status = (struct membership_status){ .move_state = "idle" };
	if (!view)
		return;
	status->epoch = view->map->head->epoch;
	status->members = view->map->head->members;
	status->shards = status->shards_served = view->shards;
}

static void name_line(struct lines *l, const char *what, const char *name)
{
	line(l, "%s %.*s", what, (int)FLEET_NAME_MAX, *name ? name : "none");
}

static void fleet_move_lines(struct lines *l, const struct membership_status *status)
{
	number(l, "fleet_moves_left", status->moves_left);
	number(l, "fleet_moved_shards", status->moved);
	number(l, "fleet_moves_failed", status->moves_failed);
	name_line(l, "fleet_move_to", status->move_to);
	line(l, "fleet_move_state %s", status->move_state ? status->move_state : "idle");
	line(l, "fleet_move_why %s", *status->move_why ? status->move_why : "none");
}

static void fleet_lines(struct lines *l, const struct stats_source *source)
{
	const struct fleet *fleet = source->fleet;
	struct membership_status status;
	uint64_t now_ns = 0;

	/* The thread replaces the view; this is no RCU reader. */
	if (source->membership)
		membership_thread_status(source->membership, &status, &now_ns);
	else
		fleet_fixed_status(&status, fleet->view);
	if (source->membership)
		name_line(l, "fleet_name", source->fleet_name);
	else
		name_line(l, "fleet_name", fleet->view ? fleet->view->map->head->name : "");
	name_line(l, "fleet_member", fleet->id);
	number(l, "fleet_epoch", status.epoch);
	number(l, "fleet_members", status.members);
	number(l, "fleet_shards", status.shards);
	number(l, "fleet_shards_served", status.shards_served);
	if (source->membership)
		number(l, "fleet_lease_ms",
		       status.end_ns > now_ns ? (status.end_ns - now_ns) / 1000000u : 0);
	else
		line(l, "fleet_lease_ms none");
	number(l, "fleet_registrations", status.registrations);
	number(l, "fleet_controller", status.controller);
	line(l, "fleet_waits %s", *status.waits ? status.waits : "none");
	fleet_move_lines(l, &status);
}

static void device_lines(struct lines *l, const struct stats_source *source)
{
	unsigned int i;

	for (i = 0; i < source->net->nic_count; i++) {
		const struct nic *nic = &source->net->nics[i];

		line(l, "device.%u.kind %s", i, device_kind_name(nic->kind));
		line(l, "device.%u.name %s", i, nic->name);
		line(l, "device.%u.address %s", i, nic->address);
		line(l, "device.%u.why %s", i, nic->why);
		line(l, "device.%u.windows %s", i, nic->windows ? "yes" : "no");
		line(l, "device.%u.state %s", i, nic->state == NIC_SERVES ? "serves" : "failed");
	}
}

/* The sum over all workers of the counter at @offset of struct worker. */
static uint64_t sum_workers(const struct stats_source *source, size_t offset)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < source->net->workers_made; i++)
		sum += stat_read(
			(const uint64_t *)((const char *)&source->net->workers[i] + offset));
	return sum;
}

/* The sum over all threads of the table, the maintenance thread's included. */
#define THREADS_SUM(field) table_sum(&store->table, offsetof(struct store_thread, field))

/* How the region is divided: the parts add up to region_bytes while no thread changes them. */
static void memory_lines(struct lines *l, const struct store *store)
{
	struct memory_stats stats;

	memory_stats(store->memory, &stats);
	number(l, "region_bytes", stat_read(&store->region.bytes));
	number(l, "region_page_bytes", store->region.page_bytes);
	number(l, "region_large_bytes", stat_read(&store->region.large_bytes));
	number(l, "region_kept", store->region.keep.head != NULL);
	line(l, "region_numa %s", store->region.numa);
	number(l, "memory.superblock", sizeof(struct superblock));
#define X(name, help) number(l, "memory." #name, stats.name);
	MEMORY_STATS(X)
#undef X
	number(l, "memory.pad", REGION_PAD);
	number(l, "item_memory_bytes", memory_bytes(store->memory));
	number(l, "item_memory_live_bytes", THREADS_SUM(stats.live_bytes));
	number(l, "item_memory_failures", THREADS_SUM(cache.failures));
	number(l, "held.limbo", THREADS_SUM(limbo.count));
}

/* One group of lines for each size class that has slabs. */
static void size_class_lines(struct lines *l, const struct store *store)
{
	for (unsigned int i = 0; i < MEM_CLASSES_MAX; i++) {
		struct size_class_stats stats;
		uint32_t bytes = size_class_stats(store->memory, i, &stats);

		if (!bytes)
			continue;
#define X(name, help) line(l, "size_class.%" PRIu32 "." #name " %" PRIu64, bytes, stats.name);
		SIZE_CLASS_STATS(X)
#undef X
		line(l, "size_class.%" PRIu32 ".evictions %" PRIu64, bytes,
		     THREADS_SUM(evicted[i]));
	}
}

static void curve_lines(struct lines *l, const struct store *store)
{
	struct curve_stats stats;

	if (!store->table.curve)
		return;
	curve_stats(store->table.curve, &stats);
	number(l, "curve.keys", stats.keys);
	number(l, "curve.one_in", stats.one_in);
	number(l, "curve.gets", stats.gets);
#define X(percent) number(l, "curve." #percent ".hits", stats.hits_##percent);
	CURVE_POINTS(X)
#undef X
}

static void store_lines(struct lines *l, const struct store *store)
{
	uint64_t buckets = index_buckets(&store->table);
	uint32_t youngest_s = evicted_youngest_s(&store->table);
	struct pins_stats pins;

	memory_lines(l, store);
	size_class_lines(l, store);
	curve_lines(l, store);
	number(l, "items", store_items(store));
	number(l, "index_buckets", buckets);
	number(l, "index_bytes", buckets * BUCKET_BYTES);
	pins_stats(store->pins, &pins);
	number(l, "pinned_bytes", pins.bytes);
	number(l, "pinned_items", pins.items);
	line(l, "eviction %s", eviction_policy_name(store->table.eviction));
	if (youngest_s == EVICTED_NONE)
		line(l, "evictions_youngest_s none");
	else
		number(l, "evictions_youngest_s", youngest_s);
#define X(name, help) number(l, #name, THREADS_SUM(stats.name));
	TABLE_STATS(X)
#undef X
#define X(name, help) number(l, #name, stat_read(&store->maintenance.stats.name));
	MAINTENANCE_STATS(X)
#undef X
}

/* A flush's owner is the name of a principal: server/worker/request.c. */
static void flush_lines(struct lines *l, struct store *store, const struct principal *viewer)
{
	struct flush flushes[WIRE_FLUSHES_LATER_MAX];
	unsigned int count = maintenance_waiting(&store->maintenance, flushes);
	uint64_t now_ns = store_clock_ns(store);

	number(l, "flushes_waiting", count);
	for (unsigned int i = 0; i < count; i++) {
		uint64_t at_ns = flushes[i].at_ns > now_ns ? flushes[i].at_ns : now_ns;

		line(l, "flush.%" PRIu64 ".due_in_s %" PRIu64, flushes[i].ticket,
		     (at_ns - now_ns) / 1000000000u);
		if (!viewer || !strcmp(viewer->name, flushes[i].owner))
			line(l, "flush.%" PRIu64 ".owner %s", flushes[i].ticket, flushes[i].owner);
	}
}

/* Skips tenants that a job works on: they hold nothing, and the job owns them. */
static void budget_lines(struct lines *l, const struct tenants *tenants)
{
	struct budget_stats stats = { 0 };

	for (unsigned int i = 0; i < TENANTS_MAX; i++) {
		struct tenant *tenant = tenants->list[i];

		if (!tenant || tenant->state == TENANT_WORKING)
			continue;
		budget_count(&tenant->pull_budget, &stats.pull_bytes, &stats.pull_waits);
		budget_count(&tenant->build_budget, &stats.build_bytes, &stats.build_waits);
	}
#define X(name, help) number(l, "held." #name, stats.name);
	BUDGET_STATS(X)
#undef X
}

static void command_lines(struct lines *l, const struct stats_source *source)
{
	struct command_counts sums;
	struct command_stats stats;

	net_commands(source->net, &sums);
	stats = command_counts_stats(&sums);
#define X(name, help) number(l, #name, stats.name);
	COMMAND_STATS(X)
#undef X
}

static void traffic_lines(struct lines *l, const struct stats_source *source)
{
#define X(name, help) number(l, #name, stat_read(&source->net->stats.name));
	NET_STATS(X)
#undef X
#define X(name, help) number(l, #name, sum_workers(source, offsetof(struct worker, stats.name)));
	WORKER_STATS(X)
#undef X
	command_lines(l, source);
#define X(name, help)                                                                              \
	number(l, "memcached." #name,                                                              \
	       sum_workers(source, offsetof(struct worker, part.commands.name)));
	MC_COUNTERS(X)
#undef X
#define X(name, help)                                                                              \
	number(l, "held." #name, sum_workers(source, offsetof(struct worker, held.name)));
	HELD_STATS(X)
#undef X
	budget_lines(l, &source->net->tenants);
}

/* The lines of one worker, whose turns are added to @all. */
static void worker_turn_lines(struct lines *l, const struct turn_stats *turns, unsigned int i,
			      struct hist *all)
{
	struct hist own;

	hist_init(&own);
	turn_stats_read(turns, &own);
	hist_merge(all, &own);
	line(l, "worker.%u.turns %" PRIu64, i, hist_count(&own));
	line(l, "worker.%u.turn_us_max %" PRIu64, i, hist_max(&own) / 1000);
	line(l, "worker.%u.turn_ns_p99 %" PRIu64, i, hist_quantile(&own, 0.99));
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void turn_lines(struct lines *l, const struct stats_source *source)
{
	uint64_t completions_max = 0, batched_max = 0, above = 0;
	const struct turn_stats *turns;
	struct hist hist;
	unsigned int i;

	hist_init(&hist);
	for (i = 0; i < source->net->workers_made; i++) {
		turns = &source->net->workers[i].turns;
		worker_turn_lines(l, turns, i, &hist);
		completions_max = max_u64(completions_max, stat_read(&turns->completions_max));
		batched_max = max_u64(batched_max, stat_read(&turns->batched_max));
	}
	number(l, "worker.turns", hist_count(&hist));
	number(l, "worker.turn_us_max", hist_max(&hist) / 1000);
	number(l, "worker.turn_ns_p50", hist_quantile(&hist, 0.5));
	number(l, "worker.turn_ns_p99", hist_quantile(&hist, 0.99));
	number(l, "worker.turn_ns_p99_9", hist_quantile(&hist, 0.999));
	number(l, "worker.turn_completions_max", completions_max);
	number(l, "worker.turn_batched_max", batched_max);
#define X(name, ns)                                                                                \
	number(l, "worker.turns_" #name, turn_class_count(&hist, above, ns));                      \
	above = ns;
	TURN_CLASSES(X)
#undef X
}

/* Turns are wall time: other threads on the CPU may make them longer than the CPU time. */
static void worker_cpu(const struct worker *worker, uint64_t *useful_us, uint64_t *polling_us)
{
	uint64_t cpu_ns = worker_cpu_ns(worker), turns_ns = stat_read(&worker->turns.ns_sum);

	if (turns_ns > cpu_ns)
		turns_ns = cpu_ns;
	*useful_us = turns_ns / 1000;
	*polling_us = (cpu_ns - turns_ns) / 1000;
}

static void worker_cpu_lines(struct lines *l, const struct stats_source *source)
{
	uint64_t useful_us, polling_us, useful_sum_us = 0, polling_sum_us = 0;
	unsigned int i;

	for (i = 0; i < source->net->workers_made; i++) {
		worker_cpu(&source->net->workers[i], &useful_us, &polling_us);
		line(l, "worker.%u.cpu_useful_us %" PRIu64, i, useful_us);
		line(l, "worker.%u.cpu_polling_us %" PRIu64, i, polling_us);
		useful_sum_us += useful_us;
		polling_sum_us += polling_us;
	}
	number(l, "worker.cpu_useful_us", useful_sum_us);
	number(l, "worker.cpu_polling_us", polling_sum_us);
}

uint32_t stats_print(const struct stats_source *source, const struct tenant *tenant,
		     const struct principal *viewer, char *text, uint32_t size)
{
	struct lines l = { .text = text, .size = size };
	bool is_default = tenant->now.store == source->net->env.store;

	process_lines(&l, source);
	line(&l, "tenant %s", tenant->name);
	if (is_default) {
		tenants_lines(&l, &source->net->tenants);
		fleet_lines(&l, source);
	}
	device_lines(&l, source);
	store_lines(&l, tenant->now.store);
	flush_lines(&l, tenant->now.store, viewer);
	if (!is_default)
		return l.used;
	traffic_lines(&l, source);
	turn_lines(&l, source);
	worker_cpu_lines(&l, source);
	return l.used;
}

void stats_help(FILE *out)
{
#define X(name, help) fprintf(out, "  %-24s %s\n", #name, help);
	PROCESS_STATS(X)
	TABLE_STATS(X)
	MAINTENANCE_STATS(X)
	NET_STATS(X)
	WORKER_STATS(X)
	COMMAND_STATS(X)
	TURN_STATS(X)
#undef X
#define X(name, ns)                                                                                \
	fprintf(out, "  worker.turns_%-11s %s\n", #name,                                           \
		"turns of at most this time, and longer than the next lower class");
	TURN_CLASSES(X)
#undef X
#define X(name, help) fprintf(out, "  memcached.%-14s %s\n", #name, help);
	MC_COUNTERS(X)
#undef X
#define X(name, help) fprintf(out, "  held.%-19s %s\n", #name, help);
	HELD_STATS(X)
	BUDGET_STATS(X)
#undef X
#define X(name, help) fprintf(out, "  memory.%-17s %s\n", #name, help);
	MEMORY_STATS(X)
#undef X
#define X(name, help) fprintf(out, "  size_class.N.%-11s %s\n", #name, help);
	SIZE_CLASS_STATS(X)
#undef X
	fprintf(out, "  size_class.N.%-11s %s\n", "evictions", "evicted items of this size class");
	fprintf(out, "  curve.%-18s %s\n", "keys",
		"with memory.curve: keys in the sample, evicted ones included");
	fprintf(out, "  curve.%-18s %s\n", "one_in", "one of this many keys is in the sample");
	fprintf(out, "  curve.%-18s %s\n", "gets",
		"GETs of keys in the sample; older ones count less");
	fprintf(out, "  curve.%-18s %s\n", "N.hits",
		"curve.gets that would hit with N percent of the memory");
}
