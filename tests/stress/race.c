/* SPDX-License-Identifier: MIT */
/*
 * The race of writers and readers: makes values, runs the threads and checks every response against
 * the guarantees.
 */
#include "tests/stress/race.h"

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/splitmix.h"

#define KEYS 48
#define VALUE_MAX_BYTES 400000u
#define MANY 8
#define ERRORS_PRINTED_MAX 10
/* Bytes in front of the key, with flags. */
#define FRONT_SHORT 28u
#define FRONT_LONG 40u
/* One in this many operations on a mortal or mixed key is a DELETE. */
#define MORTAL_OPERATIONS 6
/* Flags: the sequence number in the low bits, the writer above. */
#define GENERATION_BITS 28
/* A reader checks whether to stop, and yields the CPU to writers, after this many reads. */
#define READS_PER_CHECK 256
#define READS_PER_YIELD 64
/* There are more threads than cores, so that waiting threads should sleep soon. */
#define SPIN_US 5
/* Half of all operations are on the first few keys. */
#define HOT_KEYS (2 * KINDS)
/* Longer than any machine takes until a read meets a change. */
#define GIVE_UP_NS 60000000000ull

enum kind { OWNED, MORTAL, SHARED, MIXED, KINDS };

static const char *const kind_names[KINDS] = { "owned", "mortal", "shared", "mixed" };

struct key {
	uint8_t bytes[KVD_KEY_MAX];
	uint32_t len;
	enum kind kind;
	/* Sequence numbers of the only writer's PUTs; versions if the key is shared. */
	_Atomic uint64_t started, acked, seen;
};

struct race {
	const struct race_options *options;
	const struct race_backend *backend;
	struct key keys[KEYS];
	_Atomic bool stop;
	_Atomic bool overlapped; /* a read met a change */
	_Atomic uint64_t reads, wrong;
	uint64_t start_ns;
};

struct counts {
	uint64_t reads, misses, puts, deletes;
	struct kvd_stats stats;
};

struct racer {
	struct race *race;
	struct kvd *kvd;
	pthread_t thread;
	unsigned int number;
	uint64_t random;
	uint64_t sequence; /* writers: the last one written to shared and mixed keys */
	uint8_t *value, *expected;
	struct counts counts;
};

static uint64_t random_next(struct racer *r)
{
	return splitmix_next(&r->random);
}

static unsigned int random_key(struct racer *r)
{
	uint64_t x = random_next(r);

	return (unsigned int)(x >> 1) % (x & 1 ? HOT_KEYS : KEYS);
}

static void wrong(struct race *race, const struct key *key, const char *what, uint64_t a,
		  uint64_t b, uint64_t c)
{
	if (atomic_fetch_add(&race->wrong, 1) < ERRORS_PRINTED_MAX)
		fprintf(stderr, "WRONG: %s key %ld: %s (%llu, %llu, %llu)\n", kind_names[key->kind],
			(long)(key - race->keys), what, (unsigned long long)a,
			(unsigned long long)b, (unsigned long long)c);
}

static void store_max(_Atomic uint64_t *to, uint64_t value)
{
	uint64_t now = atomic_load(to);

	while (now < value && !atomic_compare_exchange_weak(to, &now, value))
		;
}

/* Item sizes of many size classes, in ascending order; the larger, the rarer. */
static const uint32_t classes[] = {
	64,   80,   96,	  112,	128,   160,   192,   224,   256,   320,	   384,
	448,  512,  640,  768,	896,   1024,  1280,  1536,  1792,  2048,   2560,
	3072, 4096, 5120, 8192, 10240, 14336, 16384, 20480, 65536, 262080, 300000,
};

#define CLASS_COUNT (sizeof(classes) / sizeof(classes[0]))

/*
 * The length of the value with these flags. Four writes in a row are of sizes around that of one
 * class. A hot key alternates between two classes, so that freed memory is often allocated for the
 * same key again.
 */
static uint32_t value_length(const struct key *key, uint32_t flags)
{
	uint64_t h = splitmix_mix((uint64_t)key->len << 32 ^ key->bytes[0] ^ flags / 4);
	uint32_t around = (uint32_t)(splitmix_mix(h ^ flags) % 10), class, used;

	if (key->bytes[0] < HOT_KEYS)
		class = classes[8 + 2 * key->bytes[0] + (flags & 1)];
	else if (h % 128 < 100)
		class = classes[h / 128 % 17];
	else if (h % 128 < 124)
		class = classes[17 + h / 128 % 7];
	else
		class = classes[24 + h / 128 % (h / 8192 % 16 ? 6 : CLASS_COUNT - 24)];
	used = key->len + (class > 128 ? FRONT_LONG : FRONT_SHORT);
	return class + around > used ? class + around - used : 0;
}

static void value_fill(const struct key *key, uint32_t flags, uint8_t *to, uint32_t len)
{
	uint64_t x = splitmix_mix(key->bytes[0] + ((uint64_t)flags << 20) + key->len);
	uint32_t at;

	for (at = 0; at + 8 <= len; at += 8) {
		x = x * 0xd1342543de82ef95 + 1;
		memcpy(to + at, &x, 8);
	}
	x = x * 0xd1342543de82ef95 + 1;
	memcpy(to + at, &x, len - at);
}

/* A: length and bytes are those that were written with these flags. */
static bool value_is_whole(struct racer *r, const struct key *key, const struct kvd_item *item,
			   const uint8_t *value)
{
	uint32_t len = value_length(key, item->flags);

	if (item->value_len != len) {
		wrong(r->race, key, "A: the length does not match the flags", item->flags,
		      item->value_len, len);
		return false;
	}
	value_fill(key, item->flags, r->expected, len);
	if (memcmp(r->expected, value, len)) {
		wrong(r->race, key, "A: the bytes do not match the flags", item->flags, len, 0);
		return false;
	}
	return true;
}

static bool is_delete(enum kind kind, uint64_t sequence)
{
	return (kind == MORTAL || kind == MIXED) &&
	       sequence % MORTAL_OPERATIONS == MORTAL_OPERATIONS - 1;
}

/* The oldest PUT that a GET which begins now may return. */
static uint64_t key_floor(struct key *key)
{
	uint64_t acked = atomic_load(&key->acked), seen = atomic_load(&key->seen);

	return acked > seen ? acked : seen;
}

static void check_miss(struct racer *r, struct key *key, uint64_t floor, uint64_t ceiling)
{
	r->counts.misses++;
	if (key->kind == OWNED || key->kind == SHARED) {
		wrong(r->race, key, "C: a key that is never deleted is missed", floor, ceiling, 0);
	} else if (key->kind == MORTAL) {
		while (floor <= ceiling && !is_delete(key->kind, floor))
			floor++;
		if (floor > ceiling)
			wrong(r->race, key, "B, C: missed between two DELETEs", floor, ceiling, 0);
		else
			store_max(&key->seen, floor);
	}
}

static void check_value(struct racer *r, struct key *key, const struct kvd_item *item,
			const uint8_t *value, uint64_t floor, uint64_t ceiling)
{
	uint64_t at = item->flags & ((1u << GENERATION_BITS) - 1);

	if (!value_is_whole(r, key, item, value) || key->kind == MIXED)
		return;
	if (key->kind == SHARED)
		at = ceiling = item->version;
	if (at < floor || at > ceiling || is_delete(key->kind, at))
		wrong(r->race, key, "B: a value that is too old or too new", at, floor, ceiling);
	else
		store_max(&key->seen, at);
}

static void check_response(struct racer *r, struct key *key, enum kvd_status status,
			   const struct kvd_item *item, const uint8_t *value, uint64_t floor)
{
	uint64_t ceiling = atomic_load(&key->started);

	/* A value that changed during all tries was not read, as kvd_get() says: others are. */
	if (status == KVD_ERR_BUSY)
		return;
	r->counts.reads++;
	if (status == KVD_OK) {
		check_value(r, key, item, value, floor, ceiling);
	} else if (status == KVD_NOT_FOUND) {
		check_miss(r, key, floor, ceiling);
	} else {
		fprintf(stderr, "GET: %s: %s\n", kvd_status_text(status), kvd_error(r->kvd));
		wrong(r->race, key, "an error", status, 0, 0);
		atomic_store(&r->race->stop, true);
	}
}

static void read_one(struct racer *r, struct key *key)
{
	uint64_t floor = key_floor(key);
	struct kvd_item item;
	enum kvd_status status;

	status = kvd_get(r->kvd, key->bytes, key->len, r->value, VALUE_MAX_BYTES, &item);
	check_response(r, key, status, &item, r->value, floor);
}

static void read_many(struct racer *r)
{
	struct kvd_get_request requests[MANY];
	uint64_t floors[MANY];
	struct key *keys[MANY];
	unsigned int i;

	for (i = 0; i < MANY; i++) {
		keys[i] = &r->race->keys[random_key(r)];
		floors[i] = key_floor(keys[i]);
		requests[i] = (struct kvd_get_request){
			.key = keys[i]->bytes,
			.key_len = keys[i]->len,
			.value = r->value + (size_t)i * VALUE_MAX_BYTES,
			.value_size = VALUE_MAX_BYTES,
		};
	}
	kvd_get_many(r->kvd, requests, MANY);
	for (i = 0; i < MANY; i++)
		check_response(r, keys[i], requests[i].status, &requests[i].item, requests[i].value,
			       floors[i]);
}

static uint64_t conflicts_of(const struct kvd_stats *stats)
{
	return stats->retries + stats->cache_stale;
}

static void overlap_note(const struct racer *r)
{
	struct kvd_stats stats;

	if (atomic_load_explicit(&r->race->overlapped, memory_order_relaxed))
		return;
	kvd_stats(r->kvd, &stats);
	if (conflicts_of(&stats))
		atomic_store(&r->race->overlapped, true);
}

/* Enough was read, or it took long enough; but on a busy machine no read may have met a change. */
static void race_end(struct race *race)
{
	if (atomic_load(&race->overlapped) || clock_ns() - race->start_ns > GIVE_UP_NS)
		atomic_store(&race->stop, true);
}

static void *reader_run(void *arg)
{
	struct racer *r = arg;
	struct race *race = r->race;
	bool many = r->number % 3 == 2;
	uint64_t before;
	unsigned int i;

	while (!atomic_load_explicit(&race->stop, memory_order_relaxed)) {
		before = r->counts.reads;
		while (r->counts.reads - before < READS_PER_CHECK) {
			for (i = 0; i < READS_PER_YIELD; i += many ? MANY : 1)
				if (many)
					read_many(r);
				else
					read_one(r, &race->keys[random_key(r)]);
			sched_yield();
		}
		overlap_note(r);
		before = r->counts.reads - before;
		if (atomic_fetch_add(&race->reads, before) + before >= race->options->reads &&
		    race->options->reads)
			race_end(race);
	}
	return NULL;
}

static void write_failed(struct racer *r, struct key *key, enum kvd_status status)
{
	fprintf(stderr, "PUT or DELETE: %s: %s\n", kvd_status_text(status), kvd_error(r->kvd));
	wrong(r->race, key, "an error", status, 0, 0);
	atomic_store(&r->race->stop, true);
}

static void write_put(struct racer *r, struct key *key, uint64_t sequence, uint64_t *version)
{
	uint32_t flags = r->number << GENERATION_BITS |
			 ((uint32_t)sequence & ((1u << GENERATION_BITS) - 1));
	struct kvd_put_args args = { .flags = flags };
	uint32_t len = value_length(key, flags);
	enum kvd_status status;

	value_fill(key, flags, r->value, len);
	status = kvd_put(r->kvd, key->bytes, key->len, r->value, len, &args, version);
	if (status)
		write_failed(r, key, status);
	r->counts.puts++;
}

/* The next operation on a key that only this writer changes. */
static void write_owned(struct racer *r, struct key *key)
{
	uint64_t sequence = atomic_load(&key->started) + 1;
	enum kvd_status status;

	atomic_store(&key->started, sequence);
	if (is_delete(key->kind, sequence)) {
		status = kvd_delete(r->kvd, key->bytes, key->len);
		if (status)
			write_failed(r, key, status);
		r->counts.deletes++;
	} else {
		write_put(r, key, sequence, NULL);
	}
	atomic_store(&key->acked, sequence);
}

static void write_shared(struct racer *r, struct key *key)
{
	uint64_t sequence = ++r->sequence, version;
	enum kvd_status status;

	if (is_delete(key->kind, sequence)) {
		status = kvd_delete(r->kvd, key->bytes, key->len);
		if (status && status != KVD_NOT_FOUND)
			write_failed(r, key, status);
		r->counts.deletes++;
		return;
	}
	write_put(r, key, sequence, &version);
	if (key->kind == SHARED)
		store_max(&key->acked, version);
}

static bool is_mine(const struct racer *r, unsigned int key)
{
	return key / KINDS % r->race->options->writers == r->number;
}

/* Writes random keys, and sometimes reads the key just written. */
static void *writer_run(void *arg)
{
	struct racer *r = arg;
	struct race *race = r->race;
	unsigned int i;

	while (!atomic_load_explicit(&race->stop, memory_order_relaxed)) {
		i = random_key(r);
		if (race->keys[i].kind == SHARED || race->keys[i].kind == MIXED)
			write_shared(r, &race->keys[i]);
		else if (is_mine(r, i))
			write_owned(r, &race->keys[i]);
		else
			continue;
		if (random_next(r) % 8 == 0)
			read_one(r, &race->keys[i]);
	}
	return NULL;
}

static void keys_init(struct race *race)
{
	static const uint32_t lens[] = { 1, 8, 15, 16, 17, 33, 200, KVD_KEY_MAX };
	unsigned int i;

	for (i = 0; i < KEYS; i++) {
		struct key *key = &race->keys[i];

		key->kind = (enum kind)(i % KINDS);
		key->len = lens[i / KINDS % 8];
		memset(key->bytes, (int)i, key->len);
	}
}

/* Before the race: each writer's handle writes the first value of the keys assigned to it. */
static void preload(struct racer *r)
{
	struct race *race = r->race;

	for (unsigned int i = 0; i < KEYS; i++) {
		if (!is_mine(r, i))
			continue;
		if (race->keys[i].kind == OWNED || race->keys[i].kind == MORTAL)
			write_owned(r, &race->keys[i]);
		else
			write_shared(r, &race->keys[i]);
	}
}

/* One reader in three has a cache, one has none, and one has too small a cache and GETs many. */
static void racer_open(struct racer *r)
{
	bool reads = r->number >= r->race->options->writers;
	struct kvd_options options;

	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = 300000;
	options.spin_us = SPIN_US;
	if (reads && r->number % 3 == 1)
		options.cache_bytes = 0;
	else if (reads && r->number % 3 == 2)
		options.cache_bytes = 512;
	r->kvd = r->race->backend->open(r->race->backend->arg, r->number, &options);
	r->value = malloc((size_t)MANY * VALUE_MAX_BYTES);
	r->expected = malloc(VALUE_MAX_BYTES);
	if (!r->kvd || !r->value || !r->expected) {
		fprintf(stderr, "race: no handle or no memory\n");
		exit(EXIT_FAILURE);
	}
}

static void racer_close(struct racer *r, struct counts *all)
{
	struct kvd_stats stats;

	kvd_stats(r->kvd, &stats);
	all->reads += r->counts.reads;
	all->misses += r->counts.misses;
	all->puts += r->counts.puts;
	all->deletes += r->counts.deletes;
#define X(name, help) all->stats.name += stats.name;
	KVD_STATS_MAP(X)
#undef X
	kvd_close(r->kvd);
	free(r->value);
	free(r->expected);
}

static void wait_until_stopped(struct race *race)
{
	const struct timespec pause = { 0, 10000000 };
	uint64_t limit = race->options->seconds * 1000000000ull;

	while (!atomic_load(&race->stop)) {
		nanosleep(&pause, NULL);
		if (limit && clock_ns() - race->start_ns >= limit)
			race_end(race);
	}
}

static bool report(const char *name, const struct race *race, const struct counts *all, uint64_t ns)
{
	uint64_t conflicts = conflicts_of(&all->stats);

	printf("%s: seed %llu, %u writers, %u readers, %.1f s\n"
	       "reads %llu (misses %llu), puts %llu, deletes %llu\n"
	       "torn or invalid %llu (fresh %llu, cached %llu), fallbacks %llu, cache hits %llu, "
	       "pulled bytes %llu\n"
	       "wrong = %llu\n",
	       name, (unsigned long long)race->options->seed, race->options->writers,
	       race->options->readers, (double)ns / 1e9, (unsigned long long)all->reads,
	       (unsigned long long)all->misses, (unsigned long long)all->puts,
	       (unsigned long long)all->deletes, (unsigned long long)conflicts,
	       (unsigned long long)all->stats.retries, (unsigned long long)all->stats.cache_stale,
	       (unsigned long long)all->stats.fallbacks, (unsigned long long)all->stats.cache_hits,
	       (unsigned long long)all->stats.pulled_bytes,
	       (unsigned long long)atomic_load(&race->wrong));
	if (!conflicts)
		printf("no read overlapped a change: nothing was tested\n");
	return conflicts && !atomic_load(&race->wrong);
}

bool race_run(const char *name, const struct race_options *options,
	      const struct race_backend *backend)
{
	static struct race race;
	static struct racer racers[RACE_THREADS_MAX];
	unsigned int i, n = options->writers + options->readers;
	struct counts all = { 0 };
	uint64_t ns;

	race.options = options;
	race.backend = backend;
	keys_init(&race);
	for (i = 0; i < n; i++) {
		racers[i] = (struct racer){
			.race = &race,
			.number = i,
			.random = splitmix_mix(options->seed * RACE_THREADS_MAX + i),
		};
		racer_open(&racers[i]);
		if (i < options->writers)
			preload(&racers[i]);
	}
	race.start_ns = clock_ns();
	for (i = 0; i < n; i++)
		if (pthread_create(&racers[i].thread, NULL,
				   i < options->writers ? writer_run : reader_run, &racers[i]))
			abort();
	wait_until_stopped(&race);
	for (i = 0; i < n; i++)
		pthread_join(racers[i].thread, NULL);
	ns = clock_ns() - race.start_ns;
	for (i = 0; i < n; i++)
		racer_close(&racers[i], &all);
	return report(name, &race, &all, ns);
}

static unsigned int threads(const char *text)
{
	unsigned long n = strtoul(text, NULL, 0);

	return n < 1 ? 1 : n > RACE_THREADS_MAX / 2 ? RACE_THREADS_MAX / 2 : (unsigned int)n;
}

void race_options_parse(struct race_options *options, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:t:s:w:r:T:u:")) != -1) {
		switch (c) {
		case 'n':
			options->reads = strtoull(optarg, NULL, 0);
			options->seconds = 0;
			break;
		case 't':
			options->seconds = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 's':
			options->seed = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			options->writers = threads(optarg);
			break;
		case 'r':
			options->readers = threads(optarg);
			break;
		case 'T':
			options->tear = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 'u':
			options->url = optarg;
			break;
		default:
			fprintf(stderr,
				"Usage: %s [-n READS] [-t SECONDS] [-s SEED] [-w WRITERS] "
				"[-r READERS] [-T BYTES] [-u URL]\n",
				argv[0]);
			exit(EXIT_FAILURE);
		}
	}
}
