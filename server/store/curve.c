/* SPDX-License-Identifier: MIT */
/* The miss-ratio curve: a sample of keys in the order of their last use, and a histogram of it. */
#include "server/store/curve.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/util/stat.h"

/*
 * The order is an array of places, the most recently used key last, with a sum of bytes for each
 * BLOCK places: adding up all keys after a place takes at most BLOCKS + BLOCK steps. When the array
 * is full, once in CURVE_KEYS uses, the keys move together, which takes up to 15 us.
 */
#define PLACES (2 * CURVE_KEYS)
#define BLOCK 64u
#define BLOCKS (PLACES / BLOCK)

#define NONE UINT16_MAX
static_assert(PLACES <= NONE, "places and keys are numbers of 16 bits");

/*
 * The histogram counts GETs by the memory that they need to hit, in parts of the actual memory.
 * Keys further back than the last point needs are forgotten.
 */
#define PARTS 16u /* of the memory */
#define PARTS_MAX (4 * PARTS)
/* After this many GETs all counts are halved, so that the curve follows changes. */
#define GETS_MAX (1u << 18)

#define UNIT ITEM_ALIGN /* bytes are counted in these */

/* Places that each call looks at while the sample is being halved. */
#define SIEVE_PLACES 128u

#define SHIFT_MAX 30u /* curve_sample() has 5 bits */

struct sampled {
	uint64_t hash;
	uint32_t units;
	uint32_t expires;
	uint16_t place;
	bool stored;   /* and not used since */
	uint16_t next; /* of the same list, or of the free list */
};

struct curve {
	pthread_mutex_t lock;
	const struct table *table;
	uint64_t seed;		/* of the lists: clients can't tell which keys share one */
	_Atomic uint32_t shift; /* one of 2^shift keys is in the sample */
	_Atomic uint64_t lost;	/* GETs not recorded since the last do_want() */
	struct sampled keys[CURVE_KEYS];
	uint16_t lists[CURVE_KEYS]; /* by hash */
	uint16_t free;
	uint32_t count;
	uint16_t places[PLACES];
	uint64_t sums[BLOCKS];
	uint32_t first, end;	  /* all places taken are in [first, end) */
	uint32_t sieved;	  /* keys before this place are all in the sample */
	uint64_t units;		  /* of all keys */
	uint64_t hits[PARTS_MAX]; /* GETs that need i to i + 1 parts to hit */
	uint64_t misses;	  /* GETs that need PARTS_MAX parts or more */
	uint64_t gets;		  /* the sum of hits and misses */
	double wanted;		  /* GETs that the sample should have had */
	uint64_t wanted_at;	  /* GETs of all keys when @wanted was computed */
};

/* The bits of a hash that an access record has. */
static uint64_t record_hash(uint64_t hash)
{
	return hash & ~0xffff00000000ull;
}

static uint32_t shift_of(const struct curve *curve)
{
	return atomic_load_explicit(&curve->shift, memory_order_relaxed);
}

uint32_t curve_sample(const struct curve *curve)
{
	return shift_of(curve) + 1;
}

bool curve_samples(const struct curve *curve, uint64_t hash)
{
	return !(hash & ((1ull << shift_of(curve)) - 1));
}

static uint16_t *list_of(struct curve *curve, uint64_t hash)
{
	return &curve->lists[(hash * curve->seed) >> (64 - CURVE_KEYS_LOG2)];
}

static uint64_t gets_of_all(const struct curve *curve)
{
	return table_sum(curve->table, offsetof(struct store_thread, stats.gets));
}

/* Empties the curve, except the counts. */
static void do_empty(struct curve *curve)
{
	for (uint32_t i = 0; i < CURVE_KEYS; i++) {
		curve->lists[i] = NONE;
		curve->keys[i].next = (uint16_t)(i + 1 < CURVE_KEYS ? i + 1 : NONE);
	}
	curve->free = 0;
	curve->count = curve->first = curve->end = 0;
	curve->sieved = PLACES;
	curve->units = 0;
	memset(curve->places, 0xff, sizeof(curve->places));
	memset(curve->sums, 0, sizeof(curve->sums));
}

struct curve *curve_create(const struct table *table)
{
	struct curve *curve = calloc(1, sizeof(*curve));

	if (!curve)
		return NULL;
	if (getrandom(&curve->seed, sizeof(curve->seed), 0) != sizeof(curve->seed)) {
		free(curve);
		return NULL;
	}
	curve->seed |= 1;
	curve->table = table;
	pthread_mutex_init(&curve->lock, NULL);
	do_empty(curve);
	return curve;
}

void curve_destroy(struct curve *curve)
{
	if (!curve)
		return;
	pthread_mutex_destroy(&curve->lock);
	free(curve);
}

static void do_leave_place(struct curve *curve, struct sampled *key)
{
	curve->places[key->place] = NONE;
	curve->sums[key->place / BLOCK] -= key->units;
	curve->units -= key->units;
}

static void do_move_together(struct curve *curve)
{
	uint32_t to = 0;

	memset(curve->sums, 0, sizeof(curve->sums));
	for (uint32_t from = curve->first; from < PLACES; from++) {
		uint16_t i = curve->places[from];

		if (i == NONE)
			continue;
		curve->places[to] = i;
		curve->keys[i].place = (uint16_t)to;
		curve->sums[to / BLOCK] += curve->keys[i].units;
		to++;
	}
	for (uint32_t i = to; i < PLACES; i++)
		curve->places[i] = NONE;
	curve->first = 0;
	curve->end = to;
	if (curve->sieved < PLACES)
		curve->sieved = 0;
}

static void do_take_place(struct curve *curve, struct sampled *key)
{
	if (curve->end == PLACES)
		do_move_together(curve);
	key->place = (uint16_t)curve->end++;
	curve->places[key->place] = (uint16_t)(key - curve->keys);
	curve->sums[key->place / BLOCK] += key->units;
	curve->units += key->units;
}

/* Units of the keys that were used after @key. */
static uint64_t do_later(const struct curve *curve, const struct sampled *key)
{
	uint32_t block = key->place / BLOCK;
	uint64_t units = 0;

	for (uint32_t i = key->place + 1u; i < (block + 1) * BLOCK; i++)
		if (curve->places[i] != NONE)
			units += curve->keys[curve->places[i]].units;
	for (uint32_t i = block + 1; i < BLOCKS; i++)
		units += curve->sums[i];
	return units;
}

static struct sampled *do_find(struct curve *curve, uint64_t hash)
{
	for (uint16_t i = *list_of(curve, hash); i != NONE; i = curve->keys[i].next)
		if (curve->keys[i].hash == hash)
			return &curve->keys[i];
	return NULL;
}

static void do_forget(struct curve *curve, struct sampled *key)
{
	uint16_t number = (uint16_t)(key - curve->keys), *at = list_of(curve, key->hash);

	while (*at != number)
		at = &curve->keys[*at].next;
	*at = key->next;
	do_leave_place(curve, key);
	key->next = curve->free;
	curve->free = number;
	curve->count--;
}

static void do_forget_oldest(struct curve *curve)
{
	while (curve->places[curve->first] == NONE)
		curve->first++;
	do_forget(curve, &curve->keys[curve->places[curve->first]]);
}

/* Updates the number of GETs that the sample should have had by now. */
static void do_want(struct curve *curve)
{
	const uint64_t gets = gets_of_all(curve);
	const uint64_t lost = atomic_exchange_explicit(&curve->lost, 0, memory_order_relaxed);

	curve->wanted += (double)(gets - curve->wanted_at) / (double)(1ull << shift_of(curve));
	curve->wanted -= (double)lost;
	if (curve->wanted < 0)
		curve->wanted = 0;
	curve->wanted_at = gets;
}

static void do_halve_counts(struct curve *curve)
{
	do_want(curve);
	curve->wanted /= 2;
	curve->gets = curve->misses /= 2;
	for (unsigned int i = 0; i < PARTS_MAX; i++)
		curve->gets += curve->hits[i] /= 2;
}

static void do_halve_sample(struct curve *curve)
{
	do_halve_counts(curve);
	/* While all keys were in the sample it lacked no GETs. */
	if (!shift_of(curve))
		curve->wanted = (double)curve->gets;
	atomic_fetch_add_explicit(&curve->shift, 1, memory_order_relaxed);
	curve->sieved = 0;
}

/* Removes some of the keys that a halving has taken out of the sample. */
static void do_sieve(struct curve *curve)
{
	for (uint32_t n = 0; n < SIEVE_PLACES && curve->sieved < PLACES; n++, curve->sieved++) {
		uint16_t i = curve->places[curve->sieved];

		if (i != NONE && !curve_samples(curve, curve->keys[i].hash))
			do_forget(curve, &curve->keys[i]);
	}
}

/* Makes room for one more key, and forgets keys that no point needs. */
static void do_trim(struct curve *curve)
{
	const uint64_t most = memory_bytes(curve->table->memory) / UNIT * (PARTS_MAX / PARTS);

	/* Not during a sieve: some of the bytes are of keys that leave. */
	while (curve->sieved == PLACES && curve->count && curve->units > most >> shift_of(curve))
		do_forget_oldest(curve);
	if (curve->count < CURVE_KEYS)
		return;
	if (shift_of(curve) < SHIFT_MAX && curve->sieved == PLACES) {
		do_halve_sample(curve);
		do_sieve(curve);
	}
	while (curve->count == CURVE_KEYS)
		do_forget_oldest(curve);
}

/* The part of the memory that a GET of the key needs to hit. */
static uint64_t do_part(const struct curve *curve, const struct sampled *key)
{
	const uint64_t memory = memory_bytes(curve->table->memory) / UNIT;

	return ((do_later(curve, key) + key->units) << shift_of(curve)) * PARTS / memory;
}

/* Makes the key the most recently used. */
static void do_use(struct curve *curve, struct sampled *key)
{
	do_leave_place(curve, key);
	do_take_place(curve, key);
	key->stored = false;
}

/* Adds a key that is missing. NULL: it is not in the sample any more. */
static struct sampled *do_add(struct curve *curve, uint64_t hash)
{
	struct sampled *key;

	do_trim(curve);
	if (!curve_samples(curve, hash))
		return NULL;
	key = &curve->keys[curve->free];
	curve->free = key->next;
	curve->count++;
	key->hash = hash;
	key->next = *list_of(curve, hash);
	*list_of(curve, hash) = (uint16_t)(key - curve->keys);
	return key;
}

static void do_store(struct curve *curve, uint64_t hash, uint32_t units, uint32_t expires)
{
	struct sampled *key = do_find(curve, hash);

	if (key)
		do_leave_place(curve, key);
	else
		key = do_add(curve, hash);
	if (!key)
		return;
	key->units = units;
	key->expires = expires;
	key->stored = true;
	do_take_place(curve, key);
}

void curve_lose(struct curve *curve, uint32_t gets)
{
	atomic_fetch_add_explicit(&curve->lost, gets, memory_order_relaxed);
}

static void do_count(struct curve *curve, uint64_t part)
{
	/* During a sieve the part is too large: keys that will leave still count. */
	if (curve->sieved < PLACES) {
		curve_lose(curve, 1);
		return;
	}
	if (part < PARTS_MAX)
		curve->hits[part]++;
	else
		curve->misses++;
	curve->gets++;
	if (curve->gets >= GETS_MAX)
		do_halve_counts(curve);
}

/* Takes the lock. False: another thread has it. */
static bool take(struct curve *curve)
{
	if (pthread_mutex_trylock(&curve->lock))
		return false;
	do_sieve(curve);
	return true;
}

void curve_hit(struct curve *curve, uint64_t hash)
{
	struct sampled *key;

	if (!take(curve)) {
		curve_lose(curve, 1);
		return;
	}
	key = do_find(curve, record_hash(hash));
	if (key) {
		do_count(curve, do_part(curve, key));
		do_use(curve, key);
	} else {
		/* The key was stored while another thread held the lock. */
		curve_lose(curve, 1);
	}
	pthread_mutex_unlock(&curve->lock);
}

/* Whether the key was stored after the miss, reported late: young, it was not evicted (EVICT-1). */
static bool is_new(const struct curve *curve, const struct sampled *key)
{
	return key->stored && do_part(curve, key) < PARTS * ACCESS_YOUNG_MAX / ACCESS_TICKS;
}

static void do_miss(struct curve *curve, uint64_t hash, uint64_t now_ns)
{
	struct sampled *key = do_find(curve, hash);

	/* No memory size would have kept it. */
	if (key && is_expired(key->expires, now_ns)) {
		do_forget(curve, key);
		key = NULL;
	}
	if (!key) {
		do_count(curve, PARTS_MAX);
	} else if (is_new(curve, key)) {
		curve_lose(curve, 1);
	} else {
		do_count(curve, do_part(curve, key));
		do_use(curve, key);
	}
}

void curve_miss(struct curve *curve, uint64_t hash, uint64_t now_ns)
{
	if (!take(curve)) {
		curve_lose(curve, 1);
		return;
	}
	do_miss(curve, record_hash(hash), now_ns);
	pthread_mutex_unlock(&curve->lock);
}

void curve_put(struct curve *curve, uint64_t hash, uint64_t bytes, uint32_t expires)
{
	hash = record_hash(hash);
	if (!take(curve))
		return;
	do_store(curve, hash, (uint32_t)((bytes + UNIT - 1) / UNIT), expires);
	pthread_mutex_unlock(&curve->lock);
}

void curve_remove(struct curve *curve, uint64_t hash)
{
	struct sampled *key;

	if (!take(curve))
		return;
	key = do_find(curve, record_hash(hash));
	if (key)
		do_forget(curve, key);
	pthread_mutex_unlock(&curve->lock);
}

void curve_clear(struct curve *curve)
{
	pthread_mutex_lock(&curve->lock);
	do_empty(curve);
	atomic_store_explicit(&curve->shift, 0, memory_order_relaxed);
	memset(curve->hits, 0, sizeof(curve->hits));
	curve->misses = curve->gets = 0;
	curve->wanted = 0;
	curve->wanted_at = gets_of_all(curve);
	atomic_store_explicit(&curve->lost, 0, memory_order_relaxed);
	pthread_mutex_unlock(&curve->lock);
}

/* GETs that hit with @percent of the memory. */
static uint64_t do_hits(const struct curve *curve, unsigned int percent)
{
	uint64_t hits = 0;

	for (unsigned int i = 0; i < PARTS * percent / 100; i++)
		hits += curve->hits[i];
	return hits;
}

void curve_stats(struct curve *curve, struct curve_stats *stats)
{
	int64_t lacking = 0;

	pthread_mutex_lock(&curve->lock);
	do_want(curve);
	/*
	 * Negative if a key in the sample is used much more than others. While all keys are in the
	 * sample, it can lack only GETs that were not reported.
	 */
	if (shift_of(curve))
		lacking = (int64_t)curve->wanted - (int64_t)curve->gets;
	if (lacking < -(int64_t)curve->hits[0])
		lacking = -(int64_t)curve->hits[0];
	*stats = (struct curve_stats){ .keys = curve->count,
				       .one_in = 1ull << shift_of(curve),
				       .gets = curve->gets + (uint64_t)lacking,
#define X(percent) .hits_##percent = do_hits(curve, percent) + (uint64_t)lacking,
				       CURVE_POINTS(X)
#undef X
	};
	pthread_mutex_unlock(&curve->lock);
}
