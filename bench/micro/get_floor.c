/* SPDX-License-Identifier: MIT */
/*
 * Measures what a GET costs in addition to the memory accesses that it needs. bench/get-floor.sh
 * runs it against a kvd on softnic.
 *
 *	micro get-floor -a URL [-v VALUE_BYTES] [-b BATCH] [-n RECORDS] [-r ROUNDS]
 *
 * Three loops over all records in the same random order, in this process, on the same mapping of
 * the server's region, with the same buffers for the values:
 *
 *	bare	where each record's slot is, is known. For a batch: prefetch the buckets; read the
 *		slots and prefetch the items; then copy each item out, make its sum, and copy its
 *		value to the caller's buffer
 *	index	the same, but the slot is looked up: hash of the key, home bucket, tag, and the
 *		item's key is compared
 *	kvd	kvd_get_many(), or kvd_get() for batches of 1
 *
 * The first two are no store: nothing else may change the region. They are the floor for any client
 * that copies and verifies. The loops take turns in each round, whose order is new.
 *
 * Prints one line: VALUE_BYTES, BATCH, the median ns of each loop for one record, and the medians
 * of the rounds' ratios bare / kvd and index / kvd.
 */
#include "bench/micro/micro.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/slot_match.h"
#include "common/sum.h"
#include "common/util/prefetch.h"

#define BATCH_MAX 32u
#define VALUE_BYTES_MAX 2000u
#define RECORDS_MAX 100000000u
#define ROUNDS_MAX 1000u
#define LINE 64u
#define CACHE_BYTES_PER_RECORD 64 /* a bucket of the client's cache has 128, for about 7 records */
#define CACHE_BYTES_MIN (32u << 20)

enum loop { BARE, INDEX, KVD, LOOPS };

/* A key: 16 bytes, as they are sent. */
struct key {
	uint64_t words[2];
};

/* The records, in the order in which the loops read them. */
struct target {
	struct key key;
	const uint64_t *slot; /* in the region */
};

static struct {
	const char *url;
	unsigned int value_bytes, batch, records, rounds;
} run = { .value_bytes = 1000, .batch = 16, .records = 100000, .rounds = 21 };

static struct kvd *db;
static const uint8_t *region;
static const struct geometry *geometry;
static const struct sum_key sum_key = { "not the store's" };
static struct target *records, *targets;
static uint8_t scratch[BATCH_MAX][sizeof(union item_front) + sizeof(struct key) + VALUE_BYTES_MAX +
				  LINE] __attribute__((aligned(LINE)));
static uint8_t values[BATCH_MAX][VALUE_BYTES_MAX] __attribute__((aligned(LINE)));

static struct key key_of(uint64_t number)
{
	uint64_t state = number;

	return (struct key){ { splitmix_next(&state), number } };
}

/* Each value begins with the second word of its key. */
static void check_value(unsigned int at, const struct key *key)
{
	if (memcmp(values[at], &key->words[1], sizeof(key->words[1])))
		errx(1, "record %" PRIu64 " has the value of another", key->words[1]);
}

static void records_load(void)
{
	static uint8_t value[VALUE_BYTES_MAX];
	uint64_t i, state;
	size_t at;

	for (i = 0; i < run.records; i++) {
		records[i].key = key_of(i);
		state = i;
		for (at = 0; at + sizeof(state) <= run.value_bytes; at += sizeof(state)) {
			uint64_t word = splitmix_next(&state);

			memcpy(value + at, &word, sizeof(word));
		}
		memcpy(value, &i, sizeof(i));
		if (kvd_put(db, &records[i].key, sizeof(struct key), value, run.value_bytes, NULL,
			    NULL))
			errx(1, "%s", kvd_error(db));
	}
}

/* Finds where softnic mapped the server's region in this process. */
static void region_find(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	uint64_t start;

	if (!maps)
		err(1, "/proc/self/maps");
	while (!region && fgets(line, sizeof(line), maps))
		if (strstr(line, "/memfd:kvd-region") && sscanf(line, "%" SCNx64, &start) == 1)
			region = (const uint8_t *)(uintptr_t)start;
	fclose(maps);
	if (!region || ((const struct superblock *)(const void *)region)->magic != LAYOUT_MAGIC)
		errx(1, "%s: the server's region is not mapped here; get-floor needs softnic",
		     run.url);
	geometry = &((const struct superblock *)(const void *)region)->geometry;
}

static const struct bucket *bucket_at(uint64_t offset)
{
	return (const struct bucket *)(const void *)(region + offset);
}

static const struct item *item_at(uint64_t slot)
{
	return (const struct item *)(const void *)(region + slot_offset(slot));
}

static uint64_t home_offset(uint64_t hash)
{
	return geometry_bucket_offset(geometry, geometry_home(geometry, hash));
}

static bool item_has(const struct item *item, const struct key *key)
{
	return item_key_len(item) == sizeof(*key) && !memcmp(item_key(item), key, sizeof(*key));
}

/* The slot of @key in the chain that begins with @bucket, or NULL. */
static const uint64_t *slot_find(const struct bucket *bucket, uint64_t hash, const struct key *key)
{
	unsigned int matches, i;

	for (;; bucket = bucket_at((uint64_t)bucket->overflow * BUCKET_BYTES)) {
		matches = slots_match(bucket->slots, hash_tag(hash));
		for (; matches; matches &= matches - 1) {
			i = (unsigned int)__builtin_ctz(matches);
			if (bucket->slots[i] && item_has(item_at(bucket->slots[i]), key))
				return &bucket->slots[i];
		}
		if (!bucket->overflow)
			return NULL;
	}
}

static void records_find(void)
{
	uint64_t i, hash;

	for (i = 0; i < run.records; i++) {
		hash = key_hash(&records[i].key, sizeof(struct key), geometry->hash_seed);
		records[i].slot = slot_find(bucket_at(home_offset(hash)), hash, &records[i].key);
		if (!records[i].slot)
			errx(1, "record %" PRIu64 " is not in the region", i);
	}
}

static void prefetch(const void *from, size_t bytes)
{
	const uint8_t *line = (const uint8_t *)((uintptr_t)from & ~(uintptr_t)(LINE - 1));

	for (; line < (const uint8_t *)from + bytes; line += LINE)
		prefetch_line(line);
}

/*
 * Copies an item out, computes its sum, and copies its value. Only libkvd has the store's key, so
 * this sum uses another key: the same work, but nothing to compare it with. check_value() checks
 * the value instead.
 */
static const struct item *item_take(unsigned int at, uint64_t slot)
{
	const struct item *item = (const struct item *)(const void *)scratch[at];
	uint64_t sum;

	memcpy(scratch[at], item_at(slot), slot_bytes(slot));
	sum = item_sum(item, &sum_key, geometry->incarnation, slot_offset(slot));
	if (item_value_verifies(item, &sum_key) && sum == item->sum)
		errx(1, "an item verifies by a key that is not the store's");
	memcpy(values[at], item_value(item), item_value_len(item));
	return item;
}

static void bare(const struct target *batch, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		prefetch_line(batch[i].slot);
	for (i = 0; i < count; i++)
		prefetch(item_at(*batch[i].slot), slot_bytes(*batch[i].slot));
	for (i = 0; i < count; i++)
		item_take(i, *batch[i].slot);
}

static void index_and_item(const struct target *batch, unsigned int count)
{
	const struct bucket *buckets[BATCH_MAX];
	const uint64_t *slots[BATCH_MAX];
	uint64_t hashes[BATCH_MAX];
	unsigned int i, matches;

	for (i = 0; i < count; i++) {
		hashes[i] = key_hash(&batch[i].key, sizeof(struct key), geometry->hash_seed);
		buckets[i] = bucket_at(home_offset(hashes[i]));
		prefetch(buckets[i], BUCKET_BYTES);
	}
	for (i = 0; i < count; i++) {
		matches = slots_match(buckets[i]->slots, hash_tag(hashes[i]));
		slots[i] = matches ? &buckets[i]->slots[__builtin_ctz(matches)] :
				     slot_find(buckets[i], hashes[i], &batch[i].key);
		prefetch(item_at(*slots[i]), slot_bytes(*slots[i]));
	}
	for (i = 0; i < count; i++)
		if (!item_has(item_take(i, *slots[i]), &batch[i].key))
			item_take(i, *slot_find(buckets[i], hashes[i], &batch[i].key));
}

static void gets(const struct target *batch, unsigned int count)
{
	struct kvd_get_request requests[BATCH_MAX];
	unsigned int i;

	for (i = 0; i < count; i++) {
		requests[i].key = &batch[i].key;
		requests[i].key_len = sizeof(struct key);
		requests[i].value = values[i];
		requests[i].value_size = sizeof(values[i]);
	}
	if (kvd_get_many(db, requests, count))
		errx(1, "%s", kvd_error(db));
	for (i = 0; i < count; i++)
		if (requests[i].status || requests[i].item.value_len != run.value_bytes)
			errx(1, "a GET of a record that exists: %s",
			     kvd_status_text(requests[i].status));
}

static void get(const struct target *target)
{
	struct kvd_item item;

	if (kvd_get(db, &target->key, sizeof(struct key), values[0], sizeof(values[0]), &item) ||
	    item.value_len != run.value_bytes)
		errx(1, "a GET of a record that exists: %s", kvd_error(db));
}

/* Nanoseconds for one record. */
static double loop_run(enum loop loop)
{
	uint64_t begin = clock_ns();
	unsigned int i, j, count;

	for (i = 0; i < run.records; i += count) {
		count = run.records - i < run.batch ? run.records - i : run.batch;
		if (loop == BARE)
			bare(&targets[i], count);
		else if (loop == INDEX)
			index_and_item(&targets[i], count);
		else if (run.batch > 1)
			gets(&targets[i], count);
		else
			get(&targets[i]);
		for (j = 0; j < count; j++)
			check_value(j, &targets[i + j].key);
	}
	return (double)(clock_ns() - begin) / run.records;
}

static void targets_shuffle(struct random *random)
{
	struct target swap;
	uint64_t i, j;

	memcpy(targets, records, run.records * sizeof(*targets));
	for (i = run.records - 1; i; i--) {
		j = random_below(random, i + 1);
		swap = targets[i];
		targets[i] = targets[j];
		targets[j] = swap;
	}
}

static double median(double *figures)
{
	qsort(figures, run.rounds, sizeof(figures[0]), compare_doubles);
	return figures[run.rounds / 2];
}

static void measure(void)
{
	static double ns[LOOPS][ROUNDS_MAX], ratios[LOOPS][ROUNDS_MAX];
	struct random random;
	unsigned int round, i;

	random_init(&random, 1);
	targets_shuffle(&random);
	for (i = 0; i < LOOPS; i++)
		loop_run((enum loop)i);
	for (round = 0; round < run.rounds; round++) {
		targets_shuffle(&random);
		/* Each loop comes first in every third round. */
		for (i = 0; i < LOOPS; i++) {
			enum loop loop = (enum loop)((round + i) % LOOPS);

			ns[loop][round] = loop_run(loop);
		}
		for (i = 0; i < KVD; i++)
			ratios[i][round] = ns[i][round] / ns[KVD][round];
	}
	printf("%u %u %.1f %.1f %.1f %.3f %.3f\n", run.value_bytes, run.batch, median(ns[BARE]),
	       median(ns[INDEX]), median(ns[KVD]), median(ratios[BARE]), median(ratios[INDEX]));
}

static void open_and_load(void)
{
	struct kvd_options options;

	kvd_options_init(&options);
	options.cache_bytes = (size_t)run.records * CACHE_BYTES_PER_RECORD;
	if (options.cache_bytes < CACHE_BYTES_MIN)
		options.cache_bytes = CACHE_BYTES_MIN;
	if (kvd_open(&db, run.url, &options))
		errx(1, "%s", kvd_error(NULL));
	records_load();
	/* Opens anew, for a cache as large as the index is now. The first READ maps the region. */
	kvd_close(db);
	if (kvd_open(&db, run.url, &options))
		errx(1, "%s", kvd_error(NULL));
	if (kvd_get(db, "no record", 9, NULL, 0, NULL) != KVD_NOT_FOUND)
		errx(1, "%s", kvd_error(db));
	region_find();
	records_find();
}

int get_floor_main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "a:b:n:r:v:")) != -1) {
		switch (option) {
		case 'a':
			run.url = optarg;
			break;
		case 'b':
			run.batch = number(optarg, 1, BATCH_MAX);
			break;
		case 'n':
			run.records = number(optarg, 1, RECORDS_MAX);
			break;
		case 'r':
			run.rounds = number(optarg, 1, ROUNDS_MAX);
			break;
		case 'v':
			run.value_bytes = number(optarg, sizeof(uint64_t), VALUE_BYTES_MAX);
			break;
		default:
			return 2;
		}
	}
	if (!run.url || optind != argc)
		errx(2, "usage: micro get-floor -a URL [-v VALUE_BYTES] [-b BATCH] [-n RECORDS] "
			"[-r ROUNDS]");
	records = calloc(run.records, sizeof(*records));
	targets = calloc(run.records, sizeof(*targets));
	if (!records || !targets)
		errx(1, "no memory for %u records", run.records);
	open_and_load();
	measure();
	kvd_close(db);
	free(targets);
	free(records);
	return 0;
}
