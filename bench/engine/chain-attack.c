/* SPDX-License-Identifier: MIT */
/*
 * chain-attack: measures what a client that knows the hash seed does to another's key: it makes
 * keys of that key's home bucket, so that the chain there gets as long as it may be.
 *
 *	chain-attack
 *
 * For chains of 0 overflow buckets, 1, 2, 4 and so on, as long as they get, with keys of different
 * tags, and of the victim's tag alone, prints the ns of the server's CPU for operations of the
 * victim, whose key is the last of its chain, and how many READs a one-sided client would need:
 *
 *	get, put	of the victim's key; put replaces it
 *	miss		a get of a key that is not in the chain
 *	delete, add	of the victim's key, one after the other
 *	split		of the bucket, whose keys all stay in one half, by a PUT elsewhere
 *	READs		of buckets and of items for a GET of the victim's key that has no place
 *
 * BUCKETS chains are attacked, and used in turn, so that they are in no near cache of the CPU; the
 * lowest of ROUNDS means. All are done under the lock of the home bucket, but for get.
 * Then it prints what a key of a wanted hash costs: of 8 bytes, for which XXH3 is undone, and of
 * others, which are tried.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/chosen_keys.h"
#include "bench/engine/engine.h"
#include "common/util/clock.h"

#define LEVEL 10u
#define BUCKETS 256u
#define ROUNDS 25u
#define REGION_BYTES (256ull << 20)
#define VALUE_BYTES 32u
/* Of the victim's key, and of one that is not there: no attacker's key has them. */
#define VICTIM 60000u
#define ABSENT 60001u

static struct engine engine;
static uint8_t value[VALUE_BYTES];
static bool same_tag;

static uint64_t key_make(uint32_t bucket, uint32_t n, uint64_t *hash)
{
	*hash = chosen_hash(bucket | UINT64_C(0xa5) << 48, n, same_tag);
	return chosen_key(*hash, engine.store.region.geometry.hash_seed);
}

static bool put(uint32_t bucket, uint32_t n)
{
	uint64_t hash, key = key_make(bucket, n, &hash);

	return engine_put(&engine, hash, &key, sizeof(key), value, sizeof(value));
}

static bool get(uint32_t bucket, uint32_t n)
{
	uint64_t hash, key = key_make(bucket, n, &hash);
	uint8_t found[VALUE_BYTES];

	return engine_get(&engine, hash, &key, sizeof(key), found, sizeof(found));
}

static bool drop(uint32_t bucket, uint32_t n)
{
	uint64_t hash, key = key_make(bucket, n, &hash);

	return engine_delete(&engine, hash, &key, sizeof(key));
}

static void victim_get(uint32_t bucket)
{
	if (!get(bucket, VICTIM))
		errx(1, "the victim's key is missing");
}

static void victim_put(uint32_t bucket)
{
	if (!put(bucket, VICTIM))
		errx(1, "the victim's PUT failed");
}

static void victim_miss(uint32_t bucket)
{
	if (get(bucket, ABSENT))
		errx(1, "a key that was never stored is there");
}

static void victim_delete_add(uint32_t bucket)
{
	if (!drop(bucket, VICTIM) || !put(bucket, VICTIM))
		errx(1, "the victim's DELETE or PUT failed");
}

/* What a key costs that the attacker makes, to be taken off. */
static void key_only(uint32_t bucket)
{
	uint64_t hash, key = key_make(bucket, VICTIM, &hash);

	__asm__ volatile("" : : "r"(key), "r"(hash));
}

static double measure(void (*operation)(uint32_t bucket))
{
	double best = 1e18, mean;
	uint64_t begin;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		begin = clock_ns();
		for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
			operation(bucket);
			engine_turn();
		}
		mean = (double)(clock_ns() - begin) / BUCKETS;
		if (mean < best)
			best = mean;
	}
	return best;
}

/* A key that is added to an index that is full splits one bucket, the attacked ones first. */
static double measure_splits(void)
{
	uint64_t begin = clock_ns();

	engine.store.table.fill = 0;
	for (uint32_t n = 0; n < BUCKETS; n++)
		if (!put(BUCKETS + n, 0))
			errx(1, "a PUT of a key in another bucket failed");
	if (engine_buckets(&engine) < (1u << LEVEL) + BUCKETS)
		errx(1, "the attacked buckets were not split");
	return (double)(clock_ns() - begin) / BUCKETS;
}

/* The READs of a client that follows the chain and looks at each item of the tag. */
static void print_reads(uint32_t bucket)
{
	uint64_t hash, key = key_make(bucket, VICTIM, &hash);
	unsigned int buckets = 0, items = 0;
	const struct bucket *at;

	for (at = engine_bucket(&engine, bucket); at; at = engine_next(&engine, at)) {
		buckets++;
		for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
			items += at->slots[i] && slot_tag(at->slots[i]) == hash_tag(hash);
	}
	(void)key;
	printf(" %8u %8u\n", buckets, items);
}

/*
 * A chain of @length overflow buckets that is full, the victim's key the last. False: it can't get
 * as long.
 */
static bool chains_fill(unsigned int length)
{
	const unsigned int keys = (length + 1) * BUCKET_SLOTS - 1;

	for (uint32_t n = 0; n < keys; n++)
		for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
			if (!put(bucket, n))
				return false;
	for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
		victim_put(bucket);
	return true;
}

static void line(unsigned int length)
{
	double key, other[4];

	key = measure(key_only);
	other[0] = measure(victim_get) - key;
	other[1] = measure(victim_put) - key;
	other[2] = measure(victim_miss) - key;
	other[3] = measure(victim_delete_add) - 2 * key;
	printf("%-6s %8u %8u %8.0f %8.0f %8.0f %8.0f", same_tag ? "same" : "others", length,
	       (length + 1) * BUCKET_SLOTS, other[0], other[1], other[2], other[3]);
	printf(" %8.0f", measure_splits());
	print_reads(0);
	fflush(stdout);
}

static void keys_cost(void)
{
	const uint64_t count = 1u << 20;
	uint64_t begin = clock_ns(), hash = 0, key[2] = { 0 };

	for (uint64_t i = 0; i < count; i++)
		hash ^= chosen_key(i, hash);
	printf("\na key of 8 bytes with any hash that is wanted: %.0f ns; ",
	       (double)(clock_ns() - begin) / (double)count);
	begin = clock_ns();
	for (key[1] = 0; key[1] < count; key[1]++)
		hash ^= key_hash(key, sizeof(key), hash);
	printf("a try of one of 16 bytes: %.1f ns, 2^level of them for a key of one bucket\n",
	       (double)(clock_ns() - begin) / (double)count);
	__asm__ volatile("" : : "r"(hash));
}

int main(void)
{
	printf("%-6s %8s %8s %8s %8s %8s %8s %8s %8s %8s\n", "tags", "overflow", "keys", "get",
	       "put", "miss", "del+add", "split", "buckets", "items");
	for (unsigned int tags = 0; tags < 2; tags++) {
		same_tag = tags;
		for (unsigned int length = 0, fits = 1; fits; length += length + !length) {
			engine_create(&engine, REGION_BYTES, LEVEL, STORE_FILL_NEVER);
			fits = chains_fill(length);
			if (fits)
				line(length);
			engine_destroy(&engine);
		}
	}
	keys_cost();
	return 0;
}
