/* SPDX-License-Identifier: MIT */
/*
 * The torture of a growing index: chooses rounds, runs the threads, and has the recorded histories
 * checked.
 */
#include "tests/stress/torture.h"

#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/libkvd/handle.h"
#include "common/util/clock.h"
#include "common/util/splitmix.h"
#include "tests/stress/mutants.h"
#include "tests/stress/torture_actor.h"

#define ERRORS_PRINTED_MAX 5
/* There are more threads than cores, so that waiting threads should sleep soon. */
#define SPIN_US 5
#define TIMEOUT_MS 300000
#define ROUND_NS_MAX 1000000000ull
/* At least one round of each kind; of the two evictions, one. So the time may be exceeded. */
#define ROUND_KINDS 6
#define ROUNDS_WANTING_MAX (20 * ROUND_KINDS) /* while something was not tested */
/* Items that expire within the round live for one second, and up to one more. */
#define ROUND_NS_EXPIRING 2500000000ull
/* A thread yields the CPU after this many operations. */
#define STEPS_PER_YIELD 64
/* Before one read in this many the client forgets how the index has grown. */
#define ONE_FORGET_IN 50
#define DISTURB_PAUSE_NS 200000
#define FLUSH_EVERY 50
#define FILLERS_FIRST 1000
#define FILL_NO_GROWTH 100000

uint64_t actor_random(struct actor *a)
{
	return splitmix_next(&a->random);
}

void actor_wrong(struct actor *a, const char *format, ...)
{
	char text[256];
	va_list args;

	atomic_store(&a->torture->stop, true);
	if (atomic_fetch_add(&a->torture->wrong, 1) >= ERRORS_PRINTED_MAX)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "WRONG: thread %u: %s\n", a->number, text);
}

void actor_failed(struct actor *a, const char *what, enum kvd_status status)
{
	actor_wrong(a, "%s: %s: %s", what, kvd_status_text(status), kvd_error(a->kvd));
}

/* 24 bytes, which scans parse, and up to 30 bytes of padding. */
void key_make(const struct torture *t, struct torture_key *key, char kind, unsigned int writer,
	      uint64_t number)
{
	memset(key->bytes, 'k', sizeof(key->bytes));
	memset(key->bytes, 0, 24);
	key->bytes[0] = (uint8_t)kind;
	key->bytes[1] = (uint8_t)writer;
	memcpy(key->bytes + 8, &number, sizeof(number));
	memcpy(key->bytes + 16, &t->nonce, sizeof(t->nonce));
	key->len = 24 + number % 7 * 5;
}

uint32_t value_length(uint64_t random)
{
	static const uint32_t lengths[] = { 16, 24, 40, 100, 100, 230 };
	uint32_t odds = (uint32_t)(random >> 20) % 512;

	if (odds == 0)
		return 33000 + (uint32_t)random % 30000;
	if (odds < 20)
		return 1000 + (uint32_t)random % 4000;
	return lengths[(random >> 32) % 6] + (uint32_t)random % 8;
}

void value_fill(uint8_t *to, uint32_t len, uint64_t a, uint64_t b)
{
	uint64_t x = a * 0xd1342543de82ef95 ^ b << 48 ^ b;
	uint32_t at;

	for (at = 0; at + 8 <= len; at += 8) {
		x = x * 0xd1342543de82ef95 + 1;
		memcpy(to + at, &x, 8);
	}
	x = x * 0xd1342543de82ef95 + 1;
	x ^= x >> 32;
	memcpy(to + at, &x, len - at);
}

static void write_step(struct actor *a)
{
	uint64_t random = actor_random(a) % 16;
	unsigned int stay;

	if (random < 6) {
		hot_change(a);
	} else if (random < 7) {
		hot_get(a);
	} else if (random < 8) {
		/* Each stay key has one writer. */
		stay = (unsigned int)actor_random(a) % STAY_KEYS;
		stay -= stay % a->torture->options->writers;
		stay += a->number;
		if (stay < STAY_KEYS)
			stay_put(a, stay);
	} else if (random < 10) {
		filler_get_own(a);
	} else {
		filler_change(a);
	}
}

static void read_step(struct actor *a)
{
	uint64_t random = actor_random(a) % 16;

	/* As if the client had been idle while the index grew. */
	if (actor_random(a) % ONE_FORGET_IN == 0)
		a->kvd->geometry = a->geometry;
	if (random < 8)
		hot_get(a);
	else if (random < 10)
		hot_get_many(a);
	else if (random < 14)
		stay_get(a);
	else
		filler_get_any(a);
}

static void nap(uint64_t ns)
{
	const struct timespec pause = { 0, (long)ns };

	nanosleep(&pause, NULL);
}

static void disturb_step(struct actor *a)
{
	const struct torture *t = a->torture;

	if (t->round.flush && actor_random(a) % FLUSH_EVERY == 0)
		hot_flush(a);
	if (t->backend->disturb) {
		t->backend->disturb(actor_random(a));
		a->counts.disturbances++;
	}
	nap(DISTURB_PAUSE_NS);
}

static bool is_over(const struct torture *t)
{
	return atomic_load_explicit(&t->stop, memory_order_relaxed);
}

static void *actor_run(void *arg)
{
	struct actor *a = arg;
	struct torture *t = a->torture;
	unsigned int readers = t->options->writers + t->options->readers, i;

	while (!is_over(t)) {
		if (a->number == readers)
			cold_scan(a);
		else if (a->number > readers)
			disturb_step(a);
		else
			for (i = 0; i < STEPS_PER_YIELD && !is_over(t); i++)
				a->writes ? write_step(a) : read_step(a);
		sched_yield();
	}
	if (t->backend->leave)
		t->backend->leave();
	return NULL;
}

/* One reader in three has a cache, one has none, and one has a cache that is too small. */
static void actor_begin(struct actor *a, struct torture *t, unsigned int number)
{
	unsigned int reader = number - t->options->writers;
	struct kvd_options options;

	memset(&a->counts, 0, sizeof(a->counts));
	a->torture = t;
	a->number = number;
	a->writes = number < t->options->writers;
	a->random = t->round.seed * TORTURE_THREADS_MAX + number;
	a->tail = a->head = a->shrink_to = 0;
	memset(a->versions, 0, sizeof(a->versions));
	memset(a->filler_flags, 0, FILLERS_MAX * sizeof(*a->filler_flags));
	lin_log_init(&a->log, (uint16_t)number);
	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = TIMEOUT_MS;
	options.spin_us = SPIN_US;
	if (!a->writes && reader % 3 == 1)
		options.cache_bytes = 0;
	else if (!a->writes && reader % 3 == 2)
		options.cache_bytes = 512;
	a->kvd = t->backend->open(number, &options);
	a->geometry = a->kvd->geometry;
}

static void actor_end(struct actor *a, struct counts *all, struct kvd_stats *sums)
{
	struct kvd_stats stats;

	kvd_stats(a->kvd, &stats);
#define X(name, help) sums->name += stats.name;
	KVD_STATS_MAP(X)
#undef X
#define X(name) all->name += a->counts.name;
	COUNTS_MAP(X)
#undef X
	kvd_close(a->kvd);
}

/* The counts of all rounds. */
struct tally {
	struct counts counts;
	struct kvd_stats stats;
	uint64_t rounds, steps, buckets_max;
};

static bool judge(const char *what, int ret, const struct lin_result *result)
{
	if (!ret && result->verdict == LIN_RIGHT)
		return true;
	fprintf(stderr, "%s: ", what);
	if (ret)
		fprintf(stderr, "WRONG: %s\n", strerror(-ret));
	else
		lin_explain(stderr, result);
	return false;
}

/* Whether the recorded history is linearizable and its versions are right. */
static bool judge_history(const struct torture *t, const struct actor *actors, unsigned int count,
			  struct tally *tally)
{
	const struct lin_options options = { .vanish = t->round.eviction };
	struct lin_log logs[TORTURE_THREADS_MAX];
	struct lin_result result;
	unsigned int i;
	int ret;
	bool ok;

	for (i = 0; i < count; i++)
		logs[i] = actors[i].log;
	ret = lin_check(logs, count, &options, &result);
	tally->steps += result.steps;
	ok = judge("history", ret, &result);
	ret = lin_check_versions(logs, count, &result);
	return judge("versions", ret, &result) && ok;
}

/*
 * Before the race. With fillers put first, the stay keys are in those buckets of long chains that
 * are freed when chains are shortened.
 */
static void preload(struct torture *t, struct actor *actors)
{
	unsigned int i;

	for (i = 0; torture_has_chains(t) && i < FILLERS_FIRST; i++)
		filler_change(&actors[i % t->options->writers]);
	for (i = 0; i < STAY_KEYS; i++)
		stay_put(&actors[i % t->options->writers], i);
}

static void race(struct torture *t, struct actor *actors, unsigned int count)
{
	uint64_t start = clock_ns();
	unsigned int i;

	for (i = 0; i < count; i++)
		if (pthread_create(&actors[i].thread, NULL, actor_run, &actors[i]))
			abort();
	while (!is_over(t)) {
		nap(5000000);
		if (clock_ns() - start >= t->round.max_ns)
			atomic_store(&t->stop, true);
	}
	for (i = 0; i < count; i++)
		pthread_join(actors[i].thread, NULL);
}

static bool round_run(struct torture *t, struct actor *actors, struct tally *tally)
{
	unsigned int i, count = t->round.threads;
	struct kvd_info info;
	const char *error;
	bool ok;

	memset(t->stays, 0, sizeof(t->stays));
	memset((void *)t->expiring_ns, 0, sizeof(t->expiring_ns));
	memset((void *)t->fillers, 0, sizeof(t->fillers));
	t->nonce = clock_ns();
	atomic_store(&t->stop, false);
	t->backend->begin(&t->round);
	for (i = 0; i < count; i++)
		actor_begin(&actors[i], t, i);
	preload(t, actors);
	/* This thread waits for the others, which must not wait for it. */
	if (t->backend->leave)
		t->backend->leave();
	if (!is_over(t))
		race(t, actors, count);
	for (i = 0; i < count; i++) {
		kvd_info(actors[i].kvd, &info);
		if (info.buckets > tally->buckets_max)
			tally->buckets_max = info.buckets;
		actor_end(&actors[i], &tally->counts, &tally->stats);
	}
	ok = !atomic_load(&t->wrong);
	ok = judge_history(t, actors, count, tally) && ok;
	error = t->backend->end();
	if (error)
		fprintf(stderr, "WRONG: the store: %s\n", error);
	for (i = 0; i < count; i++)
		lin_log_release(&actors[i].log);
	return ok && !error;
}

/*
 * Chooses size, fill, eviction, expiry and flushes of a round; the first has none of the last
 * three.
 */
static void round_choose(struct torture *t, unsigned int number)
{
	static const uint32_t fills[ROUND_KINDS] = { 65, 400, 20, 200, 100, 300 };
	static const uint32_t levels[ROUND_KINDS] = { 0, 2, 6, 1, 4, 0 };
	struct torture_round *r = &t->round;

	*r = (struct torture_round){
		.seed = t->options->seed * 1000003 + number,
		.number = number,
		.threads = t->options->writers + t->options->readers + 2,
		.level = levels[(number + number / ROUND_KINDS) % ROUND_KINDS],
		.fill = fills[number % ROUND_KINDS],
		.region_bytes = 96u << 20,
		.fillers = FILLERS_MAX / 4,
		.max_ns = ROUND_NS_MAX,
		.flush = number % ROUND_KINDS == 2 || t->options->flush,
	};
	/* Short chains would hardly ever show this mutant. */
	if (t->options->mutant == MUTANT_EPOCH_STAYS) {
		r->fill = 400;
		return;
	}
	if (number % ROUND_KINDS == 4) {
		r->expiring = true;
		r->fillers = FILLERS_MAX;
		r->max_ns = ROUND_NS_EXPIRING;
	}
	if (number % ROUND_KINDS == 3) {
		r->eviction = 1 + (uint32_t)(number / ROUND_KINDS + t->options->seed) % 2;
		/* Full chains, in an index that does not grow. */
		if (r->eviction == EVICTION_BYTE_HITS) {
			r->fill = FILL_NO_GROWTH;
			r->level = 1;
		}
		r->region_bytes = 4u << 20;
	}
}

static void report(const struct torture *t, const struct tally *tally, uint64_t ns)
{
	printf("race_torture: seed %llu, %u writers, %u readers, %.1f s, %llu rounds, up to %llu "
	       "buckets\n",
	       (unsigned long long)t->options->seed, t->options->writers, t->options->readers,
	       (double)ns / 1e9, (unsigned long long)tally->rounds,
	       (unsigned long long)tally->buckets_max);
#define X(name) printf(#name " %llu, ", (unsigned long long)tally->counts.name);
	COUNTS_MAP(X)
#undef X
	printf("steps of the checker %llu\n", (unsigned long long)tally->steps);
	printf("GETs: retries %llu, cached and stale %llu, geometry reads %llu, by request %llu, "
	       "expired %llu\n",
	       (unsigned long long)tally->stats.retries,
	       (unsigned long long)tally->stats.cache_stale,
	       (unsigned long long)tally->stats.geometry_reads,
	       (unsigned long long)tally->stats.fallbacks,
	       (unsigned long long)tally->stats.expired);
}

static void actors_alloc(struct actor *actors)
{
	for (unsigned int i = 0; i < TORTURE_THREADS_MAX; i++) {
		actors[i].value = malloc((size_t)MANY * VALUE_BYTES_MAX);
		actors[i].expected = malloc(VALUE_BYTES_MAX);
		actors[i].filler_flags = malloc(FILLERS_MAX * sizeof(*actors[i].filler_flags));
		if (!actors[i].value || !actors[i].expected || !actors[i].filler_flags)
			abort();
	}
}

static void actors_free(struct actor *actors)
{
	for (unsigned int i = 0; i < TORTURE_THREADS_MAX; i++) {
		free(actors[i].value);
		free(actors[i].expected);
		free(actors[i].filler_flags);
	}
}

static const char *missing(const struct torture *t)
{
	return t->backend->missing ? t->backend->missing() : NULL;
}

/* Beside others that want its CPUs, a thread may meet no other one for many rounds. */
static bool goes_on(const struct torture *t, uint64_t rounds, uint64_t ns)
{
	return rounds < ROUND_KINDS || ns < t->options->seconds * 1000000000ull ||
	       (rounds < ROUNDS_WANTING_MAX && missing(t));
}

bool torture_run(const struct torture_options *options, const struct torture_backend *backend)
{
	static struct torture t;
	static struct actor actors[TORTURE_THREADS_MAX];
	struct tally tally = { .rounds = 0 };
	uint64_t start = clock_ns();
	bool ok = true;

	t.options = options;
	t.backend = backend;
	actors_alloc(actors);
	while (ok && goes_on(&t, tally.rounds, clock_ns() - start)) {
		round_choose(&t, (unsigned int)tally.rounds);
		ok = round_run(&t, actors, &tally);
		if (!ok)
			printf("round %u: level %u, fill %u, eviction %u, flush %d\n",
			       t.round.number, t.round.level, t.round.fill, t.round.eviction,
			       t.round.flush);
		tally.rounds++;
	}
	actors_free(actors);
	report(&t, &tally, clock_ns() - start);
	if (backend->report)
		backend->report();
	if (ok && missing(&t))
		printf("nothing was tested: %s\n", missing(&t));
	return ok && !missing(&t);
}

static unsigned int number_below(const char *text, unsigned int max)
{
	unsigned long n = strtoul(text, NULL, 0);

	return n < 1 ? 1 : n > max ? max : (unsigned int)n;
}

static void usage(const char *program)
{
	fprintf(stderr,
		"Usage: %s [-t SECONDS] [-s SEED] [-w WRITERS] [-r READERS] [-b MUTANT] [-F] "
		"[-S] [-u URL]\n"
		"-F: flush in every round\n"
		"-S: use a server in this process\n"
		"-u: use a running server, which nobody else may use\n"
		"-b: activate one of these mutants, without -S and -u:\n",
		program);
	for (unsigned int i = 1; i < MUTANTS; i++)
		fprintf(stderr, "    %2u  %s\n", i, mutant_text(i));
	exit(EXIT_FAILURE);
}

void torture_options_parse(struct torture_options *options, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "t:s:w:r:b:FSu:")) != -1) {
		switch (c) {
		case 't':
			options->seconds = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 's':
			options->seed = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			options->writers = number_below(optarg, TORTURE_WRITERS_MAX);
			break;
		case 'r':
			options->readers = number_below(optarg, TORTURE_READERS_MAX);
			break;
		case 'b':
			options->mutant = number_below(optarg, MUTANTS - 1);
			break;
		case 'F':
			options->flush = true;
			break;
		case 'S':
			options->server = true;
			break;
		case 'u':
			options->url = optarg;
			break;
		default:
			usage(argv[0]);
		}
	}
}
