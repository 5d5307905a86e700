/* SPDX-License-Identifier: MIT */
#include "tests/stress/torture.h"

#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/handle.h"
#include "common/util/clock.h"
#include "tests/stress/mutants.h"
#include "tests/stress/torture_actor.h"

#define COMPLAINTS_MAX 5
/* There are more threads than cores: who waits, sleeps. */
#define SPIN_US 5
#define TIMEOUT_MS 60000
#define ROUND_NS_MAX 1000000000ull
/* What is to expire within the round has a second to live, and up to one more. */
#define ROUND_NS_BRIEF 2500000000ull
/* Operations between two looks at whether the round is over, and a chance for others to run. */
#define AT_A_STRETCH 64
/* Reads between two of which a client has forgotten how the index has grown. */
#define FORGET_ODDS 50
#define DISTURB_PAUSE_NS 200000
#define FLUSH_EVERY 50
#define FILLERS_FIRST 1000
#define FILL_NO_GROWTH 100000

uint64_t actor_random(struct actor *a)
{
	uint64_t x = a->random += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

void actor_wrong(struct actor *a, const char *format, ...)
{
	char text[256];
	va_list args;

	atomic_store(&a->torture->stop, true);
	if (atomic_fetch_add(&a->torture->wrong, 1) >= COMPLAINTS_MAX)
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

/* 24 bytes that are read again by scans, and some more for a few. */
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
		/* Each has one writer. */
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

	/* A client that was away while the index grew. */
	if (actor_random(a) % FORGET_ODDS == 0)
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
	if (t->side->disturb) {
		t->side->disturb(actor_random(a));
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
			for (i = 0; i < AT_A_STRETCH && !is_over(t); i++)
				a->writes ? write_step(a) : read_step(a);
		sched_yield();
	}
	if (t->side->leave)
		t->side->leave();
	return NULL;
}

/* Readers with a cache, without one, and with one that is too small. */
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
	options.timeout_ms = TIMEOUT_MS;
	options.spin_us = SPIN_US;
	if (!a->writes && reader % 3 == 1)
		options.cache_bytes = 0;
	else if (!a->writes && reader % 3 == 2)
		options.cache_bytes = 512;
	a->kvd = t->side->open(number, &options);
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

/* What the rounds came to. */
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

/* Whether the recorded history can be. */
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

/* With fillers before them, the stay keys are where chains that are shortened will lose buckets. */
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
	memset((void *)t->brief_ns, 0, sizeof(t->brief_ns));
	memset((void *)t->fillers, 0, sizeof(t->fillers));
	t->nonce = clock_ns();
	atomic_store(&t->stop, false);
	t->side->begin(&t->round);
	for (i = 0; i < count; i++)
		actor_begin(&actors[i], t, i);
	preload(t, actors);
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
	error = t->side->end();
	if (error)
		fprintf(stderr, "WRONG: the store: %s\n", error);
	for (i = 0; i < count; i++)
		lin_log_release(&actors[i].log);
	return ok && !error;
}

/* Sizes, fill and disturbances change from round to round; the first is the plain one. */
static void round_choose(struct torture *t, unsigned int number)
{
	static const uint32_t fills[] = { 65, 400, 20, 200, 100, 300 };
	static const uint32_t levels[] = { 0, 2, 6, 1, 4, 0 };
	struct torture_round *r = &t->round;

	*r = (struct torture_round){
		.seed = t->options->seed * 1000003 + number,
		.number = number,
		.threads = t->options->writers + t->options->readers + 2,
		.level = levels[(number + number / 6) % 6],
		.fill = fills[number % 6],
		.region_bytes = 96u << 20,
		.fillers = FILLERS_MAX / 4,
		.max_ns = ROUND_NS_MAX,
		.flush = number % 6 == 2 || t->options->flush,
	};
	/* In short chains it would hardly be found. */
	if (t->options->mutant == MUTANT_EPOCH_STAYS) {
		r->fill = 400;
		return;
	}
	if (number % 6 == 4) {
		r->brief = true;
		r->fillers = FILLERS_MAX;
		r->max_ns = ROUND_NS_BRIEF;
	}
	if (number % 6 == 3) {
		r->eviction = 1 + (uint32_t)(number / 6 + t->options->seed) % 2;
		/* Chains that can't get longer. */
		if (r->eviction == EVICTION_LFU) {
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
	printf("checker's steps %llu\n", (unsigned long long)tally->steps);
	printf("GETs: retries %llu, cached and stale %llu, geometry reads %llu, asked %llu, "
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

bool torture_run(const struct torture_options *options, const struct torture_side *side)
{
	static struct torture t;
	static struct actor actors[TORTURE_THREADS_MAX];
	uint64_t start = clock_ns(), limit = options->seconds * 1000000000ull;
	struct tally tally = { .rounds = 0 };
	const char *missing;
	bool ok = true;

	t.options = options;
	t.side = side;
	actors_alloc(actors);
	while (ok && (!tally.rounds || clock_ns() - start < limit)) {
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
	missing = side->report ? side->report() : NULL;
	if (missing && ok)
		printf("nothing was tested: %s\n", missing);
	return ok && !missing;
}

static unsigned int number_below(const char *text, unsigned int max)
{
	unsigned long n = strtoul(text, NULL, 0);

	return n < 1 ? 1 : n > max ? max : (unsigned int)n;
}

static void usage(const char *program)
{
	fprintf(stderr,
		"Usage: %s [-t SECONDS] [-s SEED] [-w WRITERS] [-r READERS] [-b BUG] [-F] "
		"[-S] [-u URL]\n-F: flushes in every round\n"
		"-S: through a server in this process; -u: one that runs, and that "
		"nobody else uses\n-b: with one of these bugs in the table\n",
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
