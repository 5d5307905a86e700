/* SPDX-License-Identifier: MIT */
/*
 * kvshift: fills a store that evicts with values of one size after another and watches what that does
 * to it: how much of the item memory holds live items when it is full again, and whether the rate of
 * PUTs falls while slabs of the old size are emptied for the new one.
 *
 *	kvshift -a URL [-t TIMES] SIZE|SIZE-SIZE...
 *
 * A phase PUTs new keys with values of SIZE bytes, or of any size in between, until TIMES (2) times the
 * item memory has been written. Rates are of windows of 100 ms. The steady rate is the median of the second
 * half of the phase, when the shift is over; the worst is the lowest of all windows but the last.
 * Fails if a PUT did.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "common/util/parse.h"

#define WINDOW_NS 100000000ull
#define WINDOWS_MAX 36000
#define STATS_BYTES 65536
#define KEY_BYTES 16
#define PER_ITEM 48 /* header and key, to know when enough was written */
#define VALUE_BYTES_MAX (1u << 20)

struct phase {
	uint64_t low, high; /* bytes of value */
	uint64_t puts, failed;
	uint32_t windows[WINDOWS_MAX]; /* PUTs in each */
	unsigned int count;
};

struct shift {
	struct kvd *db;
	uint64_t key, random;
	uint64_t times;
	uint8_t *value;
};

static uint64_t random_next(struct shift *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random;
}

static uint64_t stat_of(struct shift *s, const char *name)
{
	static char text[STATS_BYTES];
	size_t len = strlen(name);
	const char *line;

	if (kvd_server_stats(s->db, text, sizeof(text), NULL)) {
		fprintf(stderr, "kvshift: statistics: %s\n", kvd_error(s->db));
		exit(EX_SOFTWARE);
	}
	for (line = text; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0)
		if (!strncmp(line, name, len) && line[len] == ' ')
			return strtoull(line + len, NULL, 10);
	fprintf(stderr, "kvshift: the server has no statistic %s\n", name);
	exit(EX_SOFTWARE);
}

static uint64_t put_one(struct shift *s, struct phase *phase)
{
	uint64_t len = phase->low + random_next(s) % (phase->high - phase->low + 1);
	char key[KEY_BYTES + 1];

	snprintf(key, sizeof(key), "%016llx", (unsigned long long)s->key++);
	if (kvd_put(s->db, key, KEY_BYTES, s->value, len, NULL, NULL)) {
		if (!phase->failed++)
			fprintf(stderr, "kvshift: PUT of %llu bytes: %s\n", (unsigned long long)len,
				kvd_error(s->db));
		return len + PER_ITEM;
	}
	phase->puts++;
	return len + PER_ITEM;
}

static void phase_run(struct shift *s, struct phase *phase)
{
	uint64_t left = s->times * stat_of(s, "item_memory_bytes"), bytes;
	uint64_t start = clock_ns(), window;

	while (left && phase->failed < 100) {
		bytes = put_one(s, phase);
		left = left > bytes ? left - bytes : 0;
		window = (clock_ns() - start) / WINDOW_NS;
		if (window < WINDOWS_MAX) {
			phase->windows[window]++;
			phase->count = (unsigned int)window + 1;
		}
	}
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void phase_report(struct shift *s, const struct phase *phase)
{
	unsigned int whole = phase->count > 1 ? phase->count - 1 : 1, half = whole / 2, i;
	uint64_t memory = stat_of(s, "item_memory_bytes");
	static uint32_t sorted[WINDOWS_MAX];
	uint32_t worst = UINT32_MAX, steady;

	for (i = 0; i < whole; i++)
		worst = phase->windows[i] < worst ? phase->windows[i] : worst;
	memcpy(sorted, phase->windows + half, (whole - half) * sizeof(*sorted));
	qsort(sorted, whole - half, sizeof(*sorted), compare);
	steady = sorted[(whole - half) / 2];
	printf("%8llu-%-8llu %10llu %8.2f %11u %11u %7.2f %8.1f %8llu\n",
	       (unsigned long long)phase->low, (unsigned long long)phase->high,
	       (unsigned long long)phase->puts, (double)phase->count / 10, steady * 10, worst * 10,
	       steady ? (double)worst / steady : 0.0,
	       100.0 * (double)stat_of(s, "item_memory_live_bytes") / (double)memory,
	       (unsigned long long)phase->failed);
	fflush(stdout);
}

static bool phase_parse(struct phase *phase, const char *text)
{
	char *end;

	phase->low = phase->high = strtoull(text, &end, 10);
	if (*end == '-')
		phase->high = strtoull(end + 1, &end, 10);
	return !*end && *text && phase->low <= phase->high && phase->high <= VALUE_BYTES_MAX;
}

static _Noreturn void usage(void)
{
	fprintf(stderr, "Usage: kvshift -a URL [-t TIMES] SIZE|SIZE-SIZE...\n"
			"Sizes are bytes of value, at most 1048576.\n");
	exit(EX_USAGE);
}

int main(int argc, char **argv)
{
	struct shift s = { .random = 88172645463325252ull, .times = 2 };
	static struct phase phase;
	const char *url = NULL;
	uint64_t failed = 0;
	int c;

	while ((c = getopt(argc, argv, "a:t:")) != -1) {
		if (c == 'a')
			url = optarg;
		else if (c == 't')
			s.times = strtoull(optarg, NULL, 10);
		else
			usage();
	}
	if (!url || optind == argc || !s.times)
		usage();
	s.value = calloc(1, VALUE_BYTES_MAX);
	if (!s.value || kvd_open(&s.db, url, NULL)) {
		fprintf(stderr, "kvshift: %s: %s\n", url, s.value ? kvd_error(NULL) : "no memory");
		return EX_UNAVAILABLE;
	}
	printf("%17s %10s %8s %11s %11s %7s %8s %8s\n", "bytes of value", "PUTs", "seconds",
	       "steady/s", "worst/s", "ratio", "% live", "failed");
	for (; optind < argc; optind++) {
		memset(&phase, 0, sizeof(phase));
		if (!phase_parse(&phase, argv[optind]))
			usage();
		phase_run(&s, &phase);
		phase_report(&s, &phase);
		failed += phase.failed;
	}
	kvd_close(s.db);
	free(s.value);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
