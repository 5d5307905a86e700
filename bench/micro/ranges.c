/* SPDX-License-Identifier: MIT */
/*
 * Measures ranges of a large value beside GETs of all of it, in turn; bench/ranges.sh runs it.
 *
 *	micro ranges -a URL [-v VALUE_BYTES] [-r ROUNDS]
 *
 * A round is a GET of the whole value, then for each length some ranges at random offsets, one
 * after another: of one piece, of two halves, and shorter ones. Prints for each length: bytes, the
 * medians of us for a range and for a GET, and GET over range. Every byte is compared.
 */
#include "bench/micro/micro.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY "value"
#define ROUNDS_MAX 1001u
#define RANGES 16u /* of each length in a round */
#define TIMEOUT_MS 20000

/* Lengths, and what their offsets are multiples of. */
static const struct {
	size_t bytes, step;
} lengths[] = { { 4096, 1 }, { 65536, 65536 }, { 65536, 1 }, { 1048576, 65536 } };
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static struct {
	const char *url;
	unsigned int value_bytes, rounds;
} run = { .value_bytes = 32u << 20, .rounds = 21 };

static uint8_t *value, *found;
static struct random random_state;

static void check(struct kvd *db, enum kvd_status status, size_t offset, size_t bytes)
{
	if (status)
		errx(1, "%s", kvd_error(db));
	if (memcmp(found, value + offset, bytes) != 0)
		errx(1, "wrong bytes from %zu on", offset);
}

static double whole(struct kvd *db)
{
	uint64_t begin_ns = clock_ns(), end_ns;
	enum kvd_status status = kvd_get(db, KEY, sizeof(KEY) - 1, found, run.value_bytes, NULL);

	end_ns = clock_ns();
	check(db, status, 0, run.value_bytes);
	return us(end_ns - begin_ns);
}

/* The mean of some ranges of the length. */
static double ranges(struct kvd *db, unsigned int length)
{
	const size_t bytes = lengths[length].bytes, step = lengths[length].step;
	uint64_t begin_ns, sum_ns = 0;
	enum kvd_status status;
	size_t offset;

	for (unsigned int i = 0; i < RANGES; i++) {
		offset = random_below(&random_state, (run.value_bytes - bytes) / step + 1) * step;
		begin_ns = clock_ns();
		status = kvd_get_range(db, KEY, sizeof(KEY) - 1, offset, found, bytes, NULL);
		sum_ns += clock_ns() - begin_ns;
		check(db, status, offset, bytes);
	}
	return us(sum_ns / RANGES);
}

static double median(double *figures)
{
	qsort(figures, run.rounds, sizeof(*figures), compare_doubles);
	return figures[run.rounds / 2];
}

static void measure(struct kvd *db)
{
	static double gets[ROUNDS_MAX], of[LENGTHS][ROUNDS_MAX];
	double get, range;

	for (unsigned int round = 0; round < run.rounds; round++) {
		gets[round] = whole(db);
		for (unsigned int i = 0; i < LENGTHS; i++)
			of[i][round] = ranges(db, i);
	}
	get = median(gets);
	for (unsigned int i = 0; i < LENGTHS; i++) {
		range = median(of[i]);
		printf("%zu %zu %.1f %.1f %.1f\n", lengths[i].bytes, lengths[i].step, range, get,
		       get / range);
	}
}

static struct kvd *store_open(void)
{
	struct kvd_options options;
	struct kvd *db;

	kvd_options_init(&options);
	options.timeout_ms = TIMEOUT_MS;
	if (kvd_open(&db, run.url, &options))
		errx(1, "%s", kvd_error(NULL));
	if (kvd_put(db, KEY, sizeof(KEY) - 1, value, run.value_bytes, NULL, NULL))
		errx(1, "%s", kvd_error(db));
	return db;
}

static void usage(void)
{
	errx(2, "usage: micro ranges -a URL [-v VALUE_BYTES] [-r ROUNDS]");
}

int ranges_main(int argc, char **argv)
{
	struct kvd *db;
	int option;

	while ((option = getopt(argc, argv, "a:v:r:")) != -1)
		switch (option) {
		case 'a':
			run.url = optarg;
			break;
		case 'v':
			run.value_bytes = number(optarg, 1u << 20, 1u << 30);
			break;
		case 'r':
			run.rounds = number(optarg, 1, ROUNDS_MAX);
			break;
		default:
			usage();
		}
	if (optind != argc || !run.url)
		usage();
	value = malloc(run.value_bytes);
	found = malloc(run.value_bytes);
	if (!value || !found)
		errx(1, "no memory for a value of %u bytes", run.value_bytes);
	for (unsigned int i = 0; i < run.value_bytes; i++)
		value[i] = (uint8_t)(i * 31 + i / 251);
	memset(found, 0, run.value_bytes);
	random_init(&random_state, 1);
	db = store_open();
	measure(db);
	kvd_close(db);
	free(value);
	free(found);
	return 0;
}
