/* SPDX-License-Identifier: MIT */
/* kvctl hotkeys: the most used keys, by the records that a server keeps for eviction. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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
/* For keys with records kvd_used.uses is 2^n - 1; the largest n, and the largest age. */
#define USES_LOG_MAX 15u
#define AGE_MAX 1599u
#define HEATS ((USES_LOG_MAX + 1) * (AGE_MAX + 1))

struct hotkeys {
	const char *match; /* NULL: all */
	uint64_t left;	   /* samples that are still wanted */
	uint64_t keys;
	uint64_t not_noted; /* keys for which the server keeps no record of uses */
	struct top top;	    /* by heat() */
	uint64_t *counts;   /* keys by heat() */
	struct progress progress;
};

/* More uses are hotter; among equal ones, a more recent use is. */
static uint32_t heat(const struct kvd_used *used)
{
	uint32_t uses = used->uses ? 32 - (uint32_t)__builtin_clz(used->uses) : 0;
	uint32_t age = used->age;

	if (uses > USES_LOG_MAX)
		uses = USES_LOG_MAX;
	if (age > AGE_MAX)
		age = AGE_MAX;
	return uses * (AGE_MAX + 1) + AGE_MAX - age;
}

/* The inverse of heat(). */
static uint32_t heat_uses(uint64_t heat)
{
	return (1u << heat / (AGE_MAX + 1)) - 1;
}

static uint32_t heat_age(uint64_t heat)
{
	return AGE_MAX - (uint32_t)(heat % (AGE_MAX + 1));
}

static int take(void *arg, const struct kvd_used *used)
{
	struct hotkeys *h = arg;
	uint32_t hot;

	h->progress.done++;
	if (!h->left || (h->match && !glob_matches((const uint8_t *)h->match, strlen(h->match),
						   used->key, used->key_len)))
		return 0;
	h->left--;
	h->keys++;
	if (used->use == KVD_USE_NORMAL) {
		hot = heat(used);
		h->counts[hot]++;
		top_add(&h->top, used->key, used->key_len, hot);
	} else {
		h->not_noted++;
	}
	h->progress.keys++;
	h->progress.bytes += used->key_len;
	progress_show(&h->progress);
	return 0;
}

/* A scan returns keys in the order of their hashes, so its first keys are a sample. */
static enum kvd_status scan(struct kvd *db, struct hotkeys *h, const struct kvd_scan_args *args)
{
	struct retry retry = { 0 };
	enum kvd_status status;
	uint64_t cursor = 0;

	do {
		status = kvd_scan_uses(db, &cursor, args, take, h);
		if (!retry_goes_on(&retry, status))
			return status;
		if (interrupted())
			h->left = 0;
	} while (h->left && (status || cursor));
	return KVD_OK;
}

/* How many keys that are not printed are as hot as the last printed one. */
static uint64_t equal_count(const struct hotkeys *h)
{
	uint64_t last, n;

	if (!h->top.count)
		return 0;
	last = h->top.keys[h->top.count - 1].number;
	n = h->counts[last];
	for (size_t i = 0; n && i < h->top.count; i++)
		n -= h->top.keys[i].number == last;
	return n;
}

static void print_json(const struct hotkeys *h, const struct arguments *arguments,
		       uint32_t access_rate)
{
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	json_number(&json, "keys", h->keys);
	json_bool(&json, "all", h->left > 0);
	json_number(&json, "access_rate", access_rate);
	json_open(&json, "hottest", '[');
	for (size_t i = 0; i < h->top.count; i++) {
		json_open(&json, NULL, '{');
		(arguments->hex.given ? json_hex : json_bytes)(&json, "key", h->top.keys[i].key,
							       h->top.keys[i].key_len);
		json_number(&json, "uses", heat_uses(h->top.keys[i].number));
		json_number(&json, "age", heat_age(h->top.keys[i].number));
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_number(&json, "as_the_last", equal_count(h));
	json_number(&json, "not_noted", h->not_noted);
	json_close(&json, '}');
	json_end(&json);
}

static void print_text(const struct hotkeys *h, const struct arguments *arguments,
		       uint32_t access_rate)
{
	printf("%" PRIu64 " keys%s; clients report at most one in %u hits by READ\n", h->keys,
	       h->left ? "" : ", a sample", access_rate);
	if (h->top.count)
		printf("\n%8s %12s  %s\n", "uses", "added since", "key");
	for (size_t i = 0; i < h->top.count; i++) {
		printf("%8" PRIu32 " %10" PRIu32 " %%  ", heat_uses(h->top.keys[i].number),
		       heat_age(h->top.keys[i].number));
		key_show(stdout, arguments, h->top.keys[i].key, h->top.keys[i].key_len);
		putchar('\n');
	}
	if (equal_count(h))
		printf("\n%" PRIu64 " more keys are as hot as the last one\n", equal_count(h));
	if (h->not_noted)
		printf("\n%" PRIu64 " keys are pinned or of low priority: no uses are "
		       "recorded\n",
		       h->not_noted);
}

static int run(struct kvd *db, const struct arguments *arguments, struct hotkeys *h)
{
	struct kvd_scan_args args = { 0 };
	struct key prefix = { .len = 0 };
	enum kvd_status status;
	struct kvd_info info;

	if (arguments->word_count && key_parse(&prefix, arguments, arguments->words[0]))
		return EX_USAGE;
	args.prefix = prefix.len ? prefix.bytes : NULL;
	args.prefix_len = prefix.len;
	progress_begin(&h->progress, arguments->progress.given,
		       prefix.len ? 0 : members_items(db, arguments));
	status = scan(db, h, &args);
	progress_end(&h->progress);
	top_sort(&h->top);
	kvd_info(db, &info);
	if (!status)
		(arguments->json.given ? print_json : print_text)(h, arguments, info.access_rate);
	return report(db, status);
}

int command_hotkeys(struct kvd *db, const struct arguments *arguments)
{
	struct hotkeys h = {
		.match = arguments->match.text,
		.left = arguments->samples.given ? arguments->samples.number : UINT64_MAX,
		.counts = calloc(HEATS, sizeof(*h.counts)),
	};
	int status;

	if (top_init(&h.top, arguments->top.given ? arguments->top.number : TOP_DEFAULT) &&
	    h.counts)
		status = run(db, arguments, &h);
	else
		status = report_memory();
	top_release(&h.top);
	free(h.counts);
	return status;
}
