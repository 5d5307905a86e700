/* SPDX-License-Identifier: MIT */
/*
 * Prints a report as text or JSON: see report.h.
 */
#include "bench/report.h"

#include <inttypes.h>

/* Operations as the table and the JSON name them, in enum operation's order. */
static const struct {
	const char *text, *json;
} names[OPERATION_COUNT] = {
	{ "READ", "read" },
	{ "UPDATE", "update" },
	{ "INSERT", "insert" },
	{ "READ-MODIFY-WRITE", "rmw" },
};

static const struct {
	const char *json;
	double quantile;
} quantiles[] = { { "p50", 0.5 }, { "p95", 0.95 }, { "p99", 0.99 }, { "p99_9", 0.999 } };

#define QUANTILES (sizeof(quantiles) / sizeof(quantiles[0]))

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static double per_second(const struct result *result, uint64_t count)
{
	return ratio((double)count * 1e9, (double)result->elapsed_ns);
}

/*
 * Each PUT or DELETE is one round trip. The rest are those of GETs, including GETs that asked the
 * server.
 */
static double round_trips_per_get(const struct kvd_stats *client)
{
	return ratio((double)client->round_trips - (double)client->puts - (double)client->deletes,
		     (double)client->gets);
}

/* In this case the round trips of the GETs can't be told apart. */
static bool changes_share_messages(const struct report *report)
{
	return report->options->target.depth > 1;
}

static const char *phase_name(enum phase phase)
{
	return phase == PHASE_LOAD ? "load" : "run";
}

static void text_head(const struct report *report, FILE *out)
{
	const struct db_target *target = &report->options->target;
	const struct workload *workload = report->workload;
	const struct result *result = report->result;

	fprintf(out, "%s %s: %" PRIu64 " thread%s, ", phase_name(report->options->phase),
		report->name, workload->threads, workload->threads == 1 ? "" : "s");
	if (report->options->phase == PHASE_RUN)
		fprintf(out, "%s over ", distribution_name(workload->request_distribution));
	fprintf(out, "%" PRIu64 " records of %" PRIu64 " x %" PRIu64 " B",
		workload_load_count(workload), workload->field_count, workload->field_length);
	if (report->options->phase == PHASE_RUN && report->options->batch > 1)
		fprintf(out, ", GETs in batches of %u", report->options->batch);
	if (target->depth > 1)
		fprintf(out, ",\n%u operations of each thread under way together", target->depth);
	if (report->options->registered)
		fprintf(out, ",\nvalues in registered memory");
	if (target->backend == &db_kvd)
		fprintf(out, "\nserver %s, %s device %s (%s)\n\n", target->url, result->device_kind,
			result->device_name, result->device_why);
	else
		fprintf(out, "\nserver %s (%s)\n\n", target->url, target->backend->name);
}

/* A time in microseconds in 10 columns; a larger one has fewer decimals. */
static void text_us(FILE *out, double ns)
{
	const double us = ns / 1000;

	fprintf(out, " %9.*f", us < 100 ? 2 : us < 10000 ? 1 : 0, us);
}

static void text_operation(const struct result *result, enum operation operation, FILE *out)
{
	const struct operation_stats *stats = &result->stats[operation];
	const uint64_t count = hist_count(&stats->latency);
	size_t i;

	if (!count && !stats->failed)
		return;
	fprintf(out, "%-18s %11" PRIu64 " %11.0f", names[operation].text, count,
		per_second(result, count));
	text_us(out, hist_mean(&stats->latency));
	for (i = 0; i < QUANTILES; i++)
		text_us(out, (double)hist_quantile(&stats->latency, quantiles[i].quantile));
	text_us(out, (double)hist_max(&stats->latency));
	fputc('\n', out);
}

static void text_table(const struct result *result, FILE *out)
{
	int i;

	fprintf(out, "%-18s %11s %11s %9s %9s %9s %9s %9s %9s\n", "", "count", "per second",
		"mean us", "p50", "p95", "p99", "p99.9", "max");
	for (i = 0; i < OPERATION_COUNT; i++)
		text_operation(result, (enum operation)i, out);
	fprintf(out, "%-18s %11" PRIu64 " %11.0f   in %.2f s\n\n", "all", result->operations,
		per_second(result, result->operations), (double)result->elapsed_ns / 1e9);
}

static void text_client(const struct report *report, FILE *out)
{
	const struct kvd_stats *client = &report->result->client;
	const bool is_kvd = report->options->target.backend == &db_kvd;

	if (!client->gets)
		return;
	if (is_kvd)
		fprintf(out, "READs per GET        %.3f\n",
			ratio((double)client->reads, (double)client->gets));
	if (!changes_share_messages(report))
		fprintf(out, "round trips per GET  %.3f\n", round_trips_per_get(client));
	if (!is_kvd)
		return;
	fprintf(out,
		"bucket cache         %.2f %% of GETs hit, %" PRIu64 " stale\n"
		"retries              %" PRIu64 " reads again, %" PRIu64
		" fallbacks to the server\n",
		ratio((double)client->cache_hits * 100, (double)client->gets), client->cache_stale,
		client->retries, client->fallbacks);
}

static void text_cpu(const struct report *report, FILE *out)
{
	const struct db_backend *backend = report->options->target.backend;
	const struct result *result = report->result;
	const double operations = (double)result->operations;
	const double elapsed_us = (double)result->elapsed_ns / 1000;
	char label[32];

	snprintf(label, sizeof(label), "CPU, %s%s", backend->name,
		 backend == &db_kvd ? " process" : "");
	fprintf(out, "%-20s ", label);
	if (result->server_cpu.known)
		fprintf(out, "%.3f us per operation, %.1f %% of a core\n",
			ratio((double)result->server_cpu.us, operations),
			ratio((double)result->server_cpu.us * 100, elapsed_us));
	else
		fprintf(out, "not known: the server did not report it\n");
	if (result->server_cpu.parts_known)
		fprintf(out, "CPU, its workers     %.3f us per operation useful, %.3f us polling\n",
			ratio((double)result->server_cpu.useful_us, operations),
			ratio((double)result->server_cpu.polling_us, operations));
	fprintf(out, "CPU, kvbench         %.3f us per operation, %.1f %% of a core\n",
		ratio((double)result->client_cpu_us, operations),
		ratio((double)result->client_cpu_us * 100, elapsed_us));
}

static void text_not_found(const struct report *report, FILE *out)
{
	const struct result *result = report->result;

	fprintf(out, "%" PRIu64 " GETs found no record: it was not loaded, or it was evicted",
		result->not_found);
	if (result->evictions_known)
		fprintf(out, " (%" PRIu64 " evictions since the\nserver started)",
			result->evictions);
	fprintf(out,
		".\nLoad the records first, with the same recordcount, insertorder and "
		"zeropadding; or give the\nserver more memory (%s).\n",
		report->options->target.backend->memory_option);
}

static void text_end(const struct report *report, FILE *out)
{
	const struct result *result = report->result;

	if (report->options->phase == PHASE_RUN)
		fprintf(out, "not found            %" PRIu64 "\n", result->not_found);
	fprintf(out, "failed               %" PRIu64 "\n", result->failed);
	if (report->options->phase == PHASE_RUN && report->workload->check)
		fprintf(out, "wrong values         %" PRIu64 " of %" PRIu64 " checked\n",
			result->wrong, result->client.hits);
	else if (report->options->phase == PHASE_RUN)
		fprintf(out, "wrong values         not checked (dataintegrity=false)\n");
	if (result->interrupted)
		fprintf(out, "stopped by a signal before the end\n");
	if (result->ended)
		fprintf(out, "ended early: %s\n", kvd_status_text(result->ended));
	if (result->not_found)
		text_not_found(report, out);
}

void report_text(const struct report *report, FILE *out)
{
	text_head(report, out);
	text_table(report->result, out);
	text_client(report, out);
	text_cpu(report, out);
	text_end(report, out);
}

static void json_string(FILE *out, const char *name, const char *value)
{
	fprintf(out, "  \"%s\": \"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fprintf(out, "\\%c", *value);
		else if ((unsigned char)*value < 0x20)
			fprintf(out, "\\u%04x", (unsigned int)*value);
		else
			fputc(*value, out);
	}
	fprintf(out, "\",\n");
}

static void json_uint(FILE *out, const char *name, uint64_t value)
{
	fprintf(out, "  \"%s\": %" PRIu64 ",\n", name, value);
}

static void json_number(FILE *out, const char *name, double value)
{
	fprintf(out, "  \"%s\": %.3f,\n", name, value);
}

static void json_head(const struct report *report, FILE *out)
{
	const struct workload *workload = report->workload;
	const struct result *result = report->result;

	json_string(out, "version", kvd_version());
	json_string(out, "command", phase_name(report->options->phase));
	json_string(out, "workload", report->name);
	json_string(out, "db", report->options->target.backend->name);
	json_string(out, "url", report->options->target.url);
	json_string(out, "device_kind", result->device_kind);
	json_string(out, "device_name", result->device_name);
	json_string(out, "device_why", result->device_why);
	json_string(out, "distribution", distribution_name(workload->request_distribution));
	json_uint(out, "records", workload_load_count(workload));
	json_uint(out, "record_bytes_max", workload_record_max(workload));
	json_uint(out, "threads", workload->threads);
	json_uint(out, "batch", report->options->batch);
	json_uint(out, "depth", report->options->target.depth);
	fprintf(out, "  \"registered\": %s,\n", report->options->registered ? "true" : "false");
	json_uint(out, "seed", result->seed);
	json_number(out, "seconds", (double)result->elapsed_ns / 1e9);
	json_uint(out, "operations", result->operations);
	json_number(out, "operations_per_second", per_second(result, result->operations));
}

static void json_operation(const struct result *result, enum operation operation, FILE *out)
{
	const struct operation_stats *stats = &result->stats[operation];
	const uint64_t count = hist_count(&stats->latency);
	const char *name = names[operation].json;
	size_t i;

	if (!count && !stats->failed)
		return;
	fprintf(out, "  \"%s_count\": %" PRIu64 ",\n", name, count);
	fprintf(out, "  \"%s_failed\": %" PRIu64 ",\n", name, stats->failed);
	fprintf(out, "  \"%s_per_second\": %.1f,\n", name, per_second(result, count));
	fprintf(out, "  \"%s_mean_us\": %.3f,\n", name, hist_mean(&stats->latency) / 1000);
	for (i = 0; i < QUANTILES; i++)
		fprintf(out, "  \"%s_%s_us\": %.3f,\n", name, quantiles[i].json,
			(double)hist_quantile(&stats->latency, quantiles[i].quantile) / 1000);
	fprintf(out, "  \"%s_min_us\": %.3f,\n", name, (double)hist_min(&stats->latency) / 1000);
	fprintf(out, "  \"%s_max_us\": %.3f,\n", name, (double)hist_max(&stats->latency) / 1000);
}

static void json_client(const struct report *report, FILE *out)
{
	const struct kvd_stats *client = &report->result->client;
	char name[64];

	json_number(out, "reads_per_get", ratio((double)client->reads, (double)client->gets));
	if (!changes_share_messages(report))
		json_number(out, "round_trips_per_get", round_trips_per_get(client));
#define X(field, help)                                                                             \
	snprintf(name, sizeof(name), "client_%s", #field);                                         \
	json_uint(out, name, client->field);
	KVD_STATS_MAP(X)
#undef X
}

/* Members for the CPU time of a process, or of threads in it. */
static void json_cpu(FILE *out, const char *whose, uint64_t us, double operations)
{
	fprintf(out, "  \"%s_us\": %" PRIu64 ",\n", whose, us);
	fprintf(out, "  \"%s_us_per_operation\": %.3f,\n", whose, ratio((double)us, operations));
}

static void json_end(const struct report *report, FILE *out)
{
	const struct result *result = report->result;
	const double operations = (double)result->operations;

	json_cpu(out, "client_cpu", result->client_cpu_us, operations);
	if (result->server_cpu.known)
		json_cpu(out, "server_cpu", result->server_cpu.us, operations);
	if (result->server_cpu.parts_known) {
		json_cpu(out, "server_useful", result->server_cpu.useful_us, operations);
		json_cpu(out, "server_polling", result->server_cpu.polling_us, operations);
	}
	fprintf(out, "  \"checked\": %s,\n", report->workload->check ? "true" : "false");
	fprintf(out, "  \"interrupted\": %s,\n", result->interrupted ? "true" : "false");
	json_string(out, "ended", kvd_status_text(result->ended));
	json_uint(out, "not_found", result->not_found);
	json_uint(out, "failed", result->failed);
	/* The last member has no comma after it. */
	fprintf(out, "  \"wrong\": %" PRIu64 "\n", result->wrong);
}

void report_json(const struct report *report, FILE *out)
{
	int i;

	fprintf(out, "{\n");
	json_head(report, out);
	for (i = 0; i < OPERATION_COUNT; i++)
		json_operation(report->result, (enum operation)i, out);
	json_client(report, out);
	json_end(report, out);
	fprintf(out, "}\n");
}
