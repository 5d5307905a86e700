/* SPDX-License-Identifier: MIT */
/*
 * kvctl latency: how long GETs of one small value take by each path: by READ with and without the
 * place from the bucket cache, and by request. The paths take turns, so that each meets the same
 * load, and so do the members of a fleet; the table of percentiles and the histogram grow until the
 * end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/json.h"
#include "client/kvctl/members.h"
#include "client/kvctl/report.h"
#include "common/util/clock.h"
#include "common/util/hist.h"

#define VALUE_BYTES 100u
#define KEY_TTL_S 86400u
#define SECONDS_DEFAULT 5u /* of a script */
#define ROUND_NS 1000000000ull
#define BAR_COLUMNS 20	      /* a line then has 100 */
#define POWERS 65	      /* of two nanoseconds: 1 to 2^64 */
#define CLEAR "\033[H\033[2J" /* ECMA-48: CUP, ED */

enum path { WARM, COLD, REQUEST, PATHS };

static const char *const path_names[PATHS] = { "warm", "cold", "request" };
static const char *const path_texts[PATHS] = {
	"warm: one READ, its place from the cache",
	"cold: two READs, one after another",
	"request: a message and its response",
};

struct latency {
	struct kvd *db, *cold;		 /* the second one has no cache */
	char (*keys)[MEMBERS_KEY_BYTES]; /* one, or one of each member of a fleet */
	uint32_t key_count, next;
	struct hist hists[PATHS];
};

#define PREFIX "kvctl-latency"

static bool keys_make(struct latency *latency, const char *url)
{
	struct kvd_fleet_info info = { .members = 1 };
	struct kvd *fleet = members_url_is(url) ? latency->db : NULL;

	if (fleet)
		(void)kvd_fleet_info(fleet, &info, sizeof(info));
	latency->keys = calloc(info.members, sizeof(*latency->keys));
	latency->key_count = 0;
	/* A member without shards has no key. */
	for (uint32_t i = 0; latency->keys && i < info.members; i++)
		latency->key_count += members_key_make(fleet, i, PREFIX,
						       latency->keys[latency->key_count]);
	return latency->key_count;
}

/* The value expires if it is not removed. */
static enum kvd_status store(struct latency *latency, const char *key)
{
	const struct kvd_put_args args = { .ttl_s = KEY_TTL_S };
	const char value[VALUE_BYTES] = { 0 };

	return kvd_put(latency->db, key, strlen(key), value, sizeof(value), &args, NULL);
}

static enum kvd_status get(struct latency *latency, enum path path, const char *key)
{
	struct kvd *db = path == COLD ? latency->cold : latency->db;
	char value[VALUE_BYTES];
	struct kvd_item item;

	if (path == REQUEST)
		return kvd_get_by_request(db, key, strlen(key), value, sizeof(value), &item);
	return kvd_get(db, key, strlen(key), value, sizeof(value), &item);
}

/* One GET by each path. A key that was evicted or flushed is stored again. */
static int measure_once(struct latency *latency)
{
	const char *key = latency->keys[latency->next++ % latency->key_count];
	enum kvd_status status;
	uint64_t start_ns;

	for (enum path path = WARM; path < PATHS; path++) {
		start_ns = clock_ns();
		status = get(latency, path, key);
		if (!status)
			hist_record(&latency->hists[path], clock_ns() - start_ns);
		else if (status == KVD_NOT_FOUND)
			status = store(latency, key);
		if (status)
			return report(path == COLD ? latency->cold : latency->db, status);
	}
	return EX_OK;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static void print_table(const struct latency *latency)
{
	printf("%-44s %9s %8s %8s %8s %8s %9s\n", "GET of 100 bytes, microseconds", "count", "min",
	       "p50", "p99", "p99.9", "max");
	for (enum path path = WARM; path < PATHS; path++) {
		const struct hist *hist = &latency->hists[path];

		printf("%-44s %9" PRIu64 " %8.1f %8.1f %8.1f %8.1f %9.1f\n", path_texts[path],
		       hist_count(hist), us(hist_min(hist)), us(hist_quantile(hist, 0.5)),
		       us(hist_quantile(hist, 0.99)), us(hist_quantile(hist, 0.999)),
		       us(hist_max(hist)));
	}
}

/* For each power of two nanoseconds: how many values were below it, but not below its half. */
static void powers_of(const struct hist *hist, uint64_t counts[POWERS])
{
	memset(counts, 0, POWERS * sizeof(counts[0]));
	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		const unsigned int part = i / HIST_SUB_BUCKETS;

		/* The first two parts have values below 128, each in a bucket of its own. */
		if (part > 1)
			counts[part + HIST_SUB_BITS] += hist->buckets[i];
		else if (i)
			counts[64 - __builtin_clzll(i)] += hist->buckets[i];
	}
}

/* @is_last: nothing follows in the line. */
static void print_bar(uint64_t count, uint64_t all, bool is_last)
{
	const int columns = all ? (int)((count * BAR_COLUMNS + all - 1) / all) : 0;

	printf(" %5.1f %%%s%.*s%*s", all ? 100.0 * (double)count / (double)all : 0.0,
	       columns || !is_last ? " " : "", columns, "####################",
	       is_last ? 0 : BAR_COLUMNS - columns, "");
}

static void print_histogram(const struct latency *latency)
{
	uint64_t counts[PATHS][POWERS];
	unsigned int low = POWERS, high = 0;

	for (enum path path = WARM; path < PATHS; path++) {
		powers_of(&latency->hists[path], counts[path]);
		for (unsigned int i = 0; i < POWERS; i++) {
			if (!counts[path][i])
				continue;
			low = i < low ? i : low;
			high = i > high ? i : high;
		}
	}
	printf("\n%13s", "below, us");
	for (enum path path = WARM; path < PATHS; path++)
		printf("  %-*s", path + 1 < PATHS ? BAR_COLUMNS + 7 : 0, path_names[path]);
	putchar('\n');
	for (unsigned int i = low; i <= high; i++) {
		printf("%13.3f", us(1ull << i));
		for (enum path path = WARM; path < PATHS; path++)
			print_bar(counts[path][i], hist_count(&latency->hists[path]),
				  path + 1 == PATHS);
		putchar('\n');
	}
}

static void print_json(const struct latency *latency)
{
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	for (enum path path = WARM; path < PATHS; path++) {
		const struct hist *hist = &latency->hists[path];

		json_open(&json, path_names[path], '{');
		json_number(&json, "count", hist_count(hist));
		json_double(&json, "min_us", us(hist_min(hist)), 1);
		json_double(&json, "p50_us", us(hist_quantile(hist, 0.5)), 1);
		json_double(&json, "p99_us", us(hist_quantile(hist, 0.99)), 1);
		json_double(&json, "p99_9_us", us(hist_quantile(hist, 0.999)), 1);
		json_double(&json, "max_us", us(hist_max(hist)), 1);
		json_close(&json, '}');
	}
	json_close(&json, '}');
	json_end(&json);
}

static void print(const struct latency *latency)
{
	print_table(latency);
	print_histogram(latency);
}

/* Measures for @seconds, or until it is interrupted. @live: shows the results each second. */
static int measure(struct latency *latency, uint64_t seconds, bool live)
{
	int code = EX_OK;

	for (uint32_t i = 0; !code && i < latency->key_count; i++)
		code = report(latency->db, store(latency, latency->keys[i]));
	for (uint64_t i = 0; !code && !interrupted() && i < seconds; i++) {
		const uint64_t until_ns = clock_ns() + ROUND_NS;

		do {
			code = measure_once(latency);
		} while (!code && !interrupted() && clock_ns() < until_ns);
		if (code || !live)
			continue;
		fputs(CLEAR, stdout);
		print(latency);
		code = output_flush();
	}
	return code;
}

int command_latency(struct kvd *db, const struct arguments *arguments)
{
	static struct latency latency;
	const bool live = isatty(STDOUT_FILENO) && !arguments->json.given;
	struct kvd_options options = arguments->options;
	struct sigaction before;
	enum kvd_status status;
	int code;

	latency.db = db;
	for (enum path path = WARM; path < PATHS; path++)
		hist_init(&latency.hists[path]);
	if (!keys_make(&latency, arguments->server)) {
		if (!latency.keys)
			return report_memory();
		free(latency.keys);
		report_error("no member of the fleet has a shard yet: kvctl fleet status says why");
		return EX_UNAVAILABLE;
	}
	options.cache_bytes = 0;
	status = kvd_open(&latency.cold, arguments->server, &options);
	if (status) {
		free(latency.keys);
		return report_open(status, 0);
	}
	interrupt_clear();
	interrupt_catch(&before);
	code = measure(&latency,
		       arguments->count.given ? arguments->count.number :
		       live		      ? UINT64_MAX :
						SECONDS_DEFAULT,
		       live);
	interrupt_leave(&before);
	for (uint32_t i = 0; i < latency.key_count; i++)
		(void)kvd_delete(db, latency.keys[i], strlen(latency.keys[i])); /* or it expires */
	free(latency.keys);
	kvd_close(latency.cold);
	if (!code && arguments->json.given)
		print_json(&latency);
	else if (!code && !live)
		print(&latency);
	return code;
}
