/* SPDX-License-Identifier: MIT */
/*
 * Measures shifts of value sizes: see shift.h.
 */
#include "bench/shift.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/random.h"
#include "bench/server_stats.h"
#include "common/util/clock.h"

#define INTERVAL_NS UINT64_C(100000000)
#define INTERVALS_MAX 36000
#define FAILURES_MAX 100
#define KEY_BYTES 16
/* Bytes of an item without its value, 40 or 56, to know when enough is written. */
#define ITEM_OVERHEAD 48
#define VALUE_BYTES_MAX (1u << 20)
#define SEED 1

struct step {
	uint64_t low, high; /* bytes of value */
	uint64_t puts, failed;
	uint32_t intervals[INTERVALS_MAX]; /* PUTs in each */
	unsigned int count;
};

struct shift {
	struct db *db;
	struct random random;
	uint64_t key, times;
	uint8_t *value;
	struct server_stats stats;
};

static int stat_get(struct shift *shift, const char *name, uint64_t *number)
{
	server_stats_sample(&shift->stats, shift->db);
	if (server_stats_number(shift->stats.text, name, number))
		return 0;
	fprintf(stderr, "kvbench: can't read the statistic %s: %s\n", name, db_error(shift->db));
	return -EIO;
}

/* Returns the bytes that were written, or would have been. */
static uint64_t put_one(struct shift *shift, struct step *step)
{
	const uint64_t len = step->low + random_below(&shift->random, step->high - step->low + 1);
	char key[KEY_BYTES + 1];
	const struct db_change change = { key, KEY_BYTES, shift->value, len };
	enum kvd_status status;

	snprintf(key, sizeof(key), "%016" PRIx64, shift->key++);
	status = db_put(shift->db, &change, 1);
	if (!status)
		step->puts++;
	else if (!step->failed++)
		fprintf(stderr, "kvbench: PUT of %" PRIu64 " bytes: %s: %s\n", len,
			kvd_status_text(status), db_error(shift->db));
	return len + ITEM_OVERHEAD;
}

static int step_do(struct shift *shift, struct step *step)
{
	uint64_t left, bytes, start, interval;

	if (stat_get(shift, "item_memory_bytes", &left))
		return -EIO;
	left *= shift->times;
	start = clock_ns();
	while (left && step->failed < FAILURES_MAX) {
		bytes = put_one(shift, step);
		left = left > bytes ? left - bytes : 0;
		interval = (clock_ns() - start) / INTERVAL_NS;
		if (interval < INTERVALS_MAX) {
			step->intervals[interval]++;
			step->count = (unsigned int)interval + 1;
		}
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static int step_report(struct shift *shift, const struct step *step)
{
	const unsigned int whole = step->count > 1 ? step->count - 1 : 1, half = whole / 2;
	static uint32_t sorted[INTERVALS_MAX];
	uint32_t worst = UINT32_MAX, steady;
	uint64_t memory, live;
	unsigned int i;

	if (stat_get(shift, "item_memory_bytes", &memory) ||
	    stat_get(shift, "item_memory_live_bytes", &live))
		return -EIO;
	for (i = 0; i < whole; i++)
		worst = step->intervals[i] < worst ? step->intervals[i] : worst;
	memcpy(sorted, step->intervals + half, (whole - half) * sizeof(*sorted));
	qsort(sorted, whole - half, sizeof(*sorted), compare);
	steady = sorted[(whole - half) / 2];
	printf("%8" PRIu64 "-%-8" PRIu64 " %10" PRIu64 " %8.2f %11u %11u %7.2f %8.1f %8" PRIu64
	       "\n",
	       step->low, step->high, step->puts, (double)step->count / 10, steady * 10, worst * 10,
	       steady ? (double)worst / steady : 0.0, 100.0 * (double)live / (double)memory,
	       step->failed);
	fflush(stdout);
	return step->failed ? -EIO : 0;
}

/* SIZE or SIZE-SIZE. */
static int step_parse(struct step *step, const char *text)
{
	char *end;

	memset(step, 0, sizeof(*step));
	step->low = step->high = strtoull(text, &end, 10);
	if (*end == '-')
		step->high = strtoull(end + 1, &end, 10);
	if (!*end && *text && step->low <= step->high && step->high <= VALUE_BYTES_MAX)
		return 0;
	fprintf(stderr, "kvbench: shift takes SIZE or SIZE-SIZE, at most %u bytes, not %s\n",
		VALUE_BYTES_MAX, text);
	return -EINVAL;
}

static int steps_do(struct shift *shift, char *const *sizes, int count)
{
	static struct step step;
	int i, error, result = 0;

	printf("%17s %10s %8s %11s %11s %7s %8s %8s\n", "bytes of value", "PUTs", "seconds",
	       "steady/s", "worst/s", "ratio", "% live", "failed");
	for (i = 0; i < count; i++) {
		step_parse(&step, sizes[i]);
		error = step_do(shift, &step);
		if (!error)
			error = step_report(shift, &step);
		if (error)
			result = error;
	}
	return result;
}

int shift_run(const struct db_target *target, uint64_t times, char *const *sizes, int count)
{
	static struct shift shift;
	static struct step step;
	struct kvd_options options;
	char text[DB_ERROR_MAX];
	enum kvd_status status;
	int i, error;

	for (i = 0; i < count; i++)
		if (step_parse(&step, sizes[i]))
			return -EINVAL;
	shift.times = times;
	random_init(&shift.random, SEED);
	shift.value = calloc(1, VALUE_BYTES_MAX);
	if (!shift.value) {
		fprintf(stderr, "kvbench: out of memory\n");
		return -ENOMEM;
	}
	kvd_options_init(&options);
	status = db_open(&shift.db, target, &options, text);
	error = status ? db_connect_failed(target, status, text) : steps_do(&shift, sizes, count);
	db_close(shift.db);
	free(shift.value);
	return error;
}
