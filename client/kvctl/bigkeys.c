/* SPDX-License-Identifier: MIT */
/* kvctl bigkeys: the keys with the longest values, and how long keys and values are. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/failures.h"
#include "client/kvctl/glob.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/json.h"
#include "client/kvctl/key.h"
#include "client/kvctl/members.h"
#include "client/kvctl/progress.h"
#include "client/kvctl/report.h"
#include "client/kvctl/sizes.h"

#define TOP_DEFAULT 10u

struct bigkeys {
	const char *match; /* NULL: all */
	uint64_t left;	   /* samples that are still wanted */
	struct sizes keys, values;
	struct top top;
	struct progress progress;
};

static int take(void *arg, const struct kvd_entry *entry)
{
	struct bigkeys *b = arg;

	b->progress.done++;
	if (!b->left || (b->match && !glob_matches((const uint8_t *)b->match, strlen(b->match),
						   entry->key, entry->key_len)))
		return 0;
	b->left--;
	sizes_add(&b->keys, entry->key_len);
	sizes_add(&b->values, entry->item.value_len);
	top_add(&b->top, entry->key, entry->key_len, entry->item.value_len);
	b->progress.keys++;
	b->progress.bytes = b->keys.sum + b->values.sum;
	progress_show(&b->progress);
	return 0;
}

/* A scan returns keys in the order of their hashes, so its first keys are a sample. */
static enum kvd_status scan(struct kvd *db, struct bigkeys *b, const struct kvd_scan_args *args)
{
	struct retry retry = { 0 };
	enum kvd_status status;
	uint64_t cursor = 0;

	do {
		status = kvd_scan(db, &cursor, args, take, b);
		if (!retry_goes_on(&retry, status))
			return status;
		if (interrupted())
			b->left = 0;
	} while (b->left && (status || cursor));
	return KVD_OK;
}

static void json_sizes(struct json *json, const char *name, const struct sizes *sizes)
{
	uint64_t low, high;

	json_open(json, name, '{');
	json_number(json, "bytes", sizes->sum);
	json_number(json, "longest", sizes->max);
	json_open(json, "ranges", '[');
	for (unsigned int i = 0; i < SIZES_RANGES; i++) {
		if (!sizes->counts[i])
			continue;
		sizes_range(i, &low, &high);
		json_open(json, NULL, '{');
		json_number(json, "from", low);
		json_number(json, "to", high);
		json_number(json, "keys", sizes->counts[i]);
		json_number(json, "bytes", sizes->sums[i]);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_close(json, '}');
}

static void print_json(const struct bigkeys *b, const struct arguments *arguments)
{
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	json_number(&json, "keys", b->keys.count);
	json_bool(&json, "all", b->left > 0);
	json_open(&json, "biggest", '[');
	for (size_t i = 0; i < b->top.count; i++) {
		json_open(&json, NULL, '{');
		(arguments->hex.given ? json_hex : json_bytes)(&json, "key", b->top.keys[i].key,
							       b->top.keys[i].key_len);
		json_number(&json, "value_bytes", b->top.keys[i].number);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_sizes(&json, "key_sizes", &b->keys);
	json_sizes(&json, "value_sizes", &b->values);
	json_close(&json, '}');
	json_end(&json);
}

static void print_sizes(const char *name, const struct sizes *sizes)
{
	char range[48], bytes[16];
	uint64_t low, high;

	printf("\n%-24s %12s %7s  %s\n", name, "keys", "share", "bytes together");
	for (unsigned int i = 0; i < SIZES_RANGES; i++) {
		if (!sizes->counts[i])
			continue;
		sizes_range(i, &low, &high);
		if (low == high)
			snprintf(range, sizeof(range), "%" PRIu64, low);
		else
			snprintf(range, sizeof(range), "%" PRIu64 " to %" PRIu64, low, high);
		printf("  %-22s %12" PRIu64 " %5.1f %%  %s\n", range, sizes->counts[i],
		       100.0 * (double)sizes->counts[i] / (double)sizes->count,
		       bytes_text(bytes, (double)sizes->sums[i]));
	}
}

static void print_text(const struct bigkeys *b, const struct arguments *arguments)
{
	char keys[16], values[16];

	printf("%" PRIu64 " keys%s: %s of keys, %s of values\n", b->keys.count,
	       b->left ? "" : ", a sample", bytes_text(keys, (double)b->keys.sum),
	       bytes_text(values, (double)b->values.sum));
	if (!b->keys.count)
		return;
	printf("\n%24s  %s\n", "bytes of value", "key");
	for (size_t i = 0; i < b->top.count; i++) {
		printf("%24" PRIu64 "  ", b->top.keys[i].number);
		key_show(stdout, arguments, b->top.keys[i].key, b->top.keys[i].key_len);
		putchar('\n');
	}
	print_sizes("bytes of value", &b->values);
	print_sizes("bytes of key", &b->keys);
}

int command_bigkeys(struct kvd *db, const struct arguments *arguments)
{
	struct bigkeys b = { .match = arguments->match.text, .left = UINT64_MAX };
	struct kvd_scan_args args = { 0 };
	struct key prefix = { .len = 0 };
	enum kvd_status status;

	if (arguments->word_count && key_parse(&prefix, arguments, arguments->words[0]))
		return EX_USAGE;
	args.prefix = prefix.len ? prefix.bytes : NULL;
	args.prefix_len = prefix.len;
	if (arguments->samples.given)
		b.left = arguments->samples.number;
	if (!top_init(&b.top, arguments->top.given ? arguments->top.number : TOP_DEFAULT))
		return report_memory();
	progress_begin(&b.progress, arguments->progress.given,
		       prefix.len ? 0 : members_items(db, arguments));
	status = scan(db, &b, &args);
	progress_end(&b.progress);
	top_sort(&b.top);
	if (!status && arguments->json.given)
		print_json(&b, arguments);
	else if (!status)
		print_text(&b, arguments);
	top_release(&b.top);
	return report(db, status);
}
