/* SPDX-License-Identifier: MIT */
/* What was observed, as structures, as lines of text, and in Prometheus' exposition format. */
#include "client/libkvd/observe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/libkvd/fleet.h"
#include "common/util/heap.h"

/*
 * Bounds of Prometheus' buckets: powers of two, where buckets of struct hist end, so the counts are
 * exact. 2^8 ns is 256 ns, 2^34 ns is 17 s.
 */
#define BOUND_FIRST 8
#define BOUND_LAST 34

/* Text that is being written; what does not fit is only counted. */
struct text {
	char *to;
	size_t size, used;
};

static void __attribute__((format(printf, 2, 3)))
text_add(struct text *text, const char *format, ...)
{
	size_t room = text->used < text->size ? text->size - text->used : 0;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(room ? text->to + text->used : NULL, room, format, args);
	va_end(args);
	text->used += n > 0 ? (size_t)n : 0;
}

static const char *const op_names[OBSERVE_OPS] = {
	[KVD_OP_GET] = "get",
	[KVD_OP_PUT] = "put",
	[KVD_OP_DELETE] = "delete",
	[KVD_OP_SCAN] = "scan",
	[KVD_OP_INCR] = "incr",
	[KVD_OP_DECR] = "decr",
	[KVD_OP_TOUCH] = "touch",
	[KVD_OP_GET_BY_REQUEST] = "get_by_request",
	[KVD_OP_GET_AND_TOUCH] = "get_and_touch",
	[KVD_OP_PING] = "ping",
	[KVD_OP_EXISTS] = "exists",
	[KVD_OP_GET_RANGE] = "get_range",
};

static const char *const path_names[OBSERVE_PATHS] = {
	[KVD_PATH_NONE] = "none",	[KVD_PATH_WARM] = "warm", [KVD_PATH_COLD] = "cold",
	[KVD_PATH_REQUEST] = "request", [KVD_PATH_PULL] = "pull", [KVD_PATH_DIRECT] = "direct",
};

static const char *const status_names[OBSERVE_STATUSES] = {
#define X(name, number, text) [KVD_##name] = #name,
	KVD_STATUS_MAP(X)
#undef X
};

static struct kvd_times times_of(const struct hist *hist)
{
	return (struct kvd_times){
		.count = hist_count(hist),
		.sum_ns = hist->sum_ns,
		.min_ns = hist_min(hist),
		.max_ns = hist_max(hist),
		.p50_ns = hist_quantile(hist, 0.5),
		.p90_ns = hist_quantile(hist, 0.9),
		.p99_ns = hist_quantile(hist, 0.99),
		.p999_ns = hist_quantile(hist, 0.999),
	};
}

static struct kvd_op_stats op_stats_of(const struct cell *cell)
{
	return (struct kvd_op_stats){
		.count = cell_count(cell),
		.errors = cell_errors(cell),
		.queue = times_of(&cell->queue),
		.service = times_of(&cell->service),
	};
}

static enum kvd_status no_memory(void)
{
	return handle_error_set(NULL, KVD_ERR_NO_MEMORY, "no memory to sum what was observed");
}

enum kvd_status kvd_op_stats(const struct kvd *handle, enum kvd_opcode op, enum kvd_path path,
			     struct kvd_op_stats *stats, size_t size)
{
	struct kvd_op_stats all = { 0 };
	struct cell *cell;

	if ((unsigned int)op >= OBSERVE_OPS || (unsigned int)path >= OBSERVE_PATHS || !stats)
		return handle_error_set(
			NULL, KVD_ERR_INVALID,
			"no such operation or path, or the place for its figures is NULL");
	cell = heap_alloc(sizeof(*cell));
	if (!cell)
		return no_memory();
	cell_init(cell);
	if (observe_cell(handle, op, path, cell))
		all = op_stats_of(cell);
	heap_free(cell);
	memset(stats, 0, size);
	memcpy(stats, &all, size < sizeof(all) ? size : sizeof(all));
	return KVD_OK;
}

/* Writes the content of @cell, for one part of a text. */
typedef void (*cell_fn)(struct text *text, const char *op, const char *path,
			const struct cell *cell);

static void cells_write(struct text *text, const struct kvd *handle, struct cell *cell,
			cell_fn write)
{
	unsigned int op, path;

	for (op = 0; op < OBSERVE_OPS; op++)
		for (path = 0; path < OBSERVE_PATHS; path++) {
			cell_init(cell);
			if (observe_cell(handle, (enum kvd_opcode)op, (enum kvd_path)path, cell))
				write(text, op_names[op], path_names[path], cell);
		}
}

static void times_write(struct text *text, const char *op, const char *path, const char *what,
			const struct kvd_times *times)
{
	text_add(text, "%s_%s_%s_p50_ns %" PRIu64 "\n", op, path, what, times->p50_ns);
	text_add(text, "%s_%s_%s_p99_ns %" PRIu64 "\n", op, path, what, times->p99_ns);
	text_add(text, "%s_%s_%s_p999_ns %" PRIu64 "\n", op, path, what, times->p999_ns);
	text_add(text, "%s_%s_%s_max_ns %" PRIu64 "\n", op, path, what, times->max_ns);
}

static void cell_lines(struct text *text, const char *op, const char *path, const struct cell *cell)
{
	const struct kvd_op_stats stats = op_stats_of(cell);

	text_add(text, "%s_%s_count %" PRIu64 "\n", op, path, stats.count);
	text_add(text, "%s_%s_errors %" PRIu64 "\n", op, path, stats.errors);
	times_write(text, op, path, "queue", &stats.queue);
	times_write(text, op, path, "service", &stats.service);
}

static void fleet_lines(struct text *text, const struct kvd *handle)
{
	struct fleet_states states;

	fleet_states_count(handle, &states);
	text_add(text, "fleet_epoch %" PRIu64 "\n", states.epoch);
#define X(state) text_add(text, "fleet_shards_" #state " %" PRIu32 "\n", states.shards.state);
	FLEET_SHARD_STATES(X)
#undef X
#define X(state) text_add(text, "fleet_members_" #state " %" PRIu32 "\n", states.members.state);
	FLEET_MEMBER_STATES(X)
#undef X
}

static void lines_write(struct text *text, const struct kvd *handle, const struct kvd_stats *stats,
			struct cell *cell)
{
#define X(name, help) text_add(text, #name " %" PRIu64 "\n", stats->name);
	KVD_STATS_MAP(X)
#undef X
	if (handle && handle->fleet)
		fleet_lines(text, handle);
	cells_write(text, handle, cell, cell_lines);
}

static void cell_statuses(struct text *text, const char *op, const char *path,
			  const struct cell *cell)
{
	unsigned int i;

	for (i = 0; i < OBSERVE_STATUSES; i++)
		if (cell->statuses[i])
			text_add(text,
				 "kvd_client_operations_total{op=\"%s\",path=\"%s\",status=\"%s\"} "
				 "%" PRIu64 "\n",
				 op, path, status_names[i] ? status_names[i] : "?",
				 cell->statuses[i]);
}

static void histogram_write(struct text *text, const char *name, const char *op, const char *path,
			    const struct hist *hist)
{
	uint64_t count = 0, all = 0;
	unsigned int i, at = 0, end;

	for (i = BOUND_FIRST; i <= BOUND_LAST; i++) {
		for (end = hist_bucket(1ull << i); at < end; at++)
			count += hist->buckets[at];
		text_add(text, "%s_bucket{op=\"%s\",path=\"%s\",le=\"%.11g\"} %" PRIu64 "\n", name,
			 op, path, (double)((1ull << i) - 1) / 1e9, count);
	}
	/* Not hist->count, which may have been read a little earlier than the buckets. */
	for (i = 0; i < HIST_BUCKETS; i++)
		all += hist->buckets[i];
	text_add(text, "%s_bucket{op=\"%s\",path=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, op, path,
		 all);
	text_add(text, "%s_sum{op=\"%s\",path=\"%s\"} %.17g\n", name, op, path,
		 (double)hist->sum_ns / 1e9);
	text_add(text, "%s_count{op=\"%s\",path=\"%s\"} %" PRIu64 "\n", name, op, path, all);
}

static void cell_queue(struct text *text, const char *op, const char *path, const struct cell *cell)
{
	histogram_write(text, "kvd_client_queue_seconds", op, path, &cell->queue);
}

static void cell_service(struct text *text, const char *op, const char *path,
			 const struct cell *cell)
{
	if (hist_count(&cell->service))
		histogram_write(text, "kvd_client_service_seconds", op, path, &cell->service);
}

static void head_write(struct text *text, const char *name, const char *type, const char *help)
{
	text_add(text, "# HELP %s %s.\n# TYPE %s %s\n", name, help, name, type);
}

static void fleet_prometheus(struct text *text, const struct kvd *handle)
{
	struct fleet_states states;

	fleet_states_count(handle, &states);
	head_write(text, "kvd_client_fleet_epoch", "gauge", "epoch of the handle's map");
	text_add(text, "kvd_client_fleet_epoch %" PRIu64 "\n", states.epoch);
	head_write(text, "kvd_client_fleet_shards", "gauge", "shards by their state in the map");
#define X(state)                                                                                   \
	text_add(text, "kvd_client_fleet_shards{state=\"" #state "\"} %" PRIu32 "\n",              \
		 states.shards.state);
	FLEET_SHARD_STATES(X)
#undef X
	head_write(text, "kvd_client_fleet_members", "gauge",
		   "members by the state of the handle's connection to them");
#define X(state)                                                                                   \
	text_add(text, "kvd_client_fleet_members{state=\"" #state "\"} %" PRIu32 "\n",             \
		 states.members.state);
	FLEET_MEMBER_STATES(X)
#undef X
}

static void prometheus_write(struct text *text, const struct kvd *handle,
			     const struct kvd_stats *stats, struct cell *cell)
{
#define X(name, help)                                                                              \
	head_write(text, "kvd_client_" #name "_total", "counter", help);                           \
	text_add(text, "kvd_client_" #name "_total %" PRIu64 "\n", stats->name);
	KVD_STATS_MAP(X)
#undef X
	if (handle && handle->fleet)
		fleet_prometheus(text, handle);
	head_write(text, "kvd_client_operations_total", "counter",
		   "operations that have ended, by operation, path and status");
	cells_write(text, handle, cell, cell_statuses);
	head_write(text, "kvd_client_queue_seconds", "histogram",
		   "time from the start of an operation until its first READ or request was "
		   "posted");
	cells_write(text, handle, cell, cell_queue);
	head_write(text, "kvd_client_service_seconds", "histogram",
		   "time from the first post of an operation to its end");
	cells_write(text, handle, cell, cell_service);
}

enum kvd_status kvd_stats_text(const struct kvd *handle, enum kvd_stats_format format, char *text,
			       size_t size, size_t *len)
{
	struct text out = { .to = text, .size = size };
	struct kvd_stats stats;
	struct cell *cell;

	if ((unsigned int)format > KVD_STATS_PROMETHEUS || (size && !text))
		return handle_error_set(NULL, KVD_ERR_INVALID,
					"no such format, or the place for the text is NULL");
	cell = heap_alloc(sizeof(*cell));
	if (!cell)
		return no_memory();
	if (handle)
		kvd_stats(handle, &stats);
	else
		kvd_process_stats(&stats, sizeof(stats));
	if (format == KVD_STATS_PROMETHEUS)
		prometheus_write(&out, handle, &stats, cell);
	else
		lines_write(&out, handle, &stats, cell);
	heap_free(cell);
	if (len)
		*len = out.used;
	if (out.used < size)
		return KVD_OK;
	return handle_error_set(NULL, KVD_ERR_BUFFER, "the text has %zu bytes, and the buffer %zu",
				out.used, size);
}
