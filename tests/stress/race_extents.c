/* SPDX-License-Identifier: MIT */
/*
 * Race test of extents: threads put, get and delete items of all sizes while another
 * one grows and shrinks the region, with the maintenance thread, and unmaps what is closed. A
 * thread that read there would die.
 *
 *	race_extents [rounds of growing and shrinking]
 *
 * Each thread has keys of its own, and knows which value each of them has; with eviction off every
 * item must be there. All threads read the keys of the others, too: these have one of the values
 * that were ever stored, whole.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <urcu-qsbr.h>

#include "common/util/splitmix.h"
#include "tests/support/store_fixture.h"

#define EXTENT ((uint64_t)2 << 20)
#define WORKERS 3u
#define KEYS 1500u /* of each thread */
#define VALUE_BYTES (400u << 10)

static struct store store;
static struct store_options options;
static _Atomic bool stop;
static unsigned int rounds = 30;
static _Atomic uint64_t stored, refused;

#define check(ok)                                                                                  \
	do {                                                                                       \
		if (!(ok)) {                                                                       \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok);                   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct worker {
	struct store_thread *thread;
	uint64_t random;
	uint64_t first_key;
	uint32_t lengths[KEYS]; /* of the value; 0: there is no item */
	uint8_t value[VALUE_BYTES], got[VALUE_BYTES];
};

static uint64_t word_of(uint64_t key, uint32_t len)
{
	return (key + 1) * 0x9e3779b97f4a7c15u + len;
}

/* A value is one word, which depends on key and length, repeated. */
static void value_fill(uint8_t *value, uint64_t key, uint32_t len)
{
	uint64_t word = word_of(key, len);

	for (uint32_t i = 0; i < len; i += 8)
		memcpy(value + i, &word, 8);
}

static void value_check(const uint8_t *value, uint64_t key, uint32_t len)
{
	uint64_t word = word_of(key, len);

	for (uint32_t i = 0; i < len; i += 8)
		check(!memcmp(value + i, &word, 8));
}

static uint32_t draw_length(struct worker *worker)
{
	uint64_t x = splitmix_next(&worker->random);

	switch (x % 64) {
	case 0:
		return 8 * (1 + (uint32_t)(x >> 32) % (VALUE_BYTES / 8 - 1));
	case 1:
		return 8 * (1 + (uint32_t)(x >> 32) % 8000);
	default:
		return 8 * (1 + (uint32_t)(x >> 32) % 200);
	}
}

static void work_put(struct worker *worker, unsigned int i)
{
	uint64_t key = worker->first_key + i;
	struct table_change change = { .key = &key,
				       .key_len = sizeof(key),
				       .value = worker->value };
	enum wire_status status;

	change.value_len = draw_length(worker);
	value_fill(worker->value, key, change.value_len);
	status = table_put(worker->thread, table_hash(&store.table, &key, sizeof(key)), &change);
	check(!status || status == WIRE_NO_SPACE);
	if (!status)
		worker->lengths[i] = change.value_len;
	atomic_fetch_add(status ? &refused : &stored, 1);
}

static void work_delete(struct worker *worker, unsigned int i)
{
	uint64_t key = worker->first_key + i;
	const struct table_change change = { .key = &key, .key_len = sizeof(key) };
	enum wire_status status = table_delete(
		worker->thread, table_hash(&store.table, &key, sizeof(key)), &change);

	check(!status || (status == WIRE_NOT_FOUND && (options.eviction || !worker->lengths[i])));
	worker->lengths[i] = 0;
}

static void work_get(struct worker *worker, uint64_t key, const uint32_t *len)
{
	struct item_ref ref;
	uint64_t hash = table_hash(&store.table, &key, sizeof(key));
	enum wire_status status = lookup_get(worker->thread, hash, &key, sizeof(key), worker->got,
					     VALUE_BYTES, &ref);

	check(!status || status == WIRE_NOT_FOUND || status == WIRE_BUSY);
	if (!status)
		value_check(worker->got, key, item_value_len(&ref.front.item));
	if (len && status != WIRE_BUSY)
		check(status ? options.eviction || !*len : item_value_len(&ref.front.item) == *len);
}

static void work_some(struct worker *worker)
{
	uint64_t x = splitmix_next(&worker->random);
	unsigned int i = (unsigned int)(x >> 32) % KEYS;

	switch (x % 8) {
	case 0:
	case 1:
		work_put(worker, i);
		break;
	case 2:
		work_delete(worker, i);
		break;
	case 3:
		work_get(worker, splitmix_next(&worker->random) % (WORKERS * KEYS), NULL);
		break;
	default:
		work_get(worker, worker->first_key + i, &worker->lengths[i]);
		break;
	}
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	rcu_register_thread();
	for (unsigned int n = 0; !atomic_load(&stop); n++) {
		store_thread_clock(worker->thread);
		work_some(worker);
		if (n % 64 == 0)
			store_thread_idle(worker->thread);
		rcu_quiescent_state();
	}
	for (unsigned int i = 0; i < KEYS; i++)
		work_get(worker, worker->first_key + i, &worker->lengths[i]);
	store_thread_idle(worker->thread);
	rcu_unregister_thread();
	return NULL;
}

/* The parts of the region add up at the moments when no thread changes its size. */
static void check_parts(unsigned int extents)
{
	check(store.region.bytes == extents * EXTENT);
	check(memory_bytes(store.memory) < extents * EXTENT);
}

static bool shrink(unsigned int extents, bool cancel)
{
	const struct timespec us = { 0, 100000 };
	enum extents_state state;
	char why[EXTENTS_WHY_MAX];

	if (store_close_extents(&store, extents))
		return false;
	if (cancel)
		store_close_cancel(&store);
	while ((state = store_extents_state(&store, why, sizeof(why))) == EXTENTS_CLOSING)
		nanosleep(&us, NULL);
	if (state != EXTENTS_CLOSED)
		return false;
	check_parts(extents);
	region_cut(&store.region);
	return true;
}

static void resize(void)
{
	unsigned int cut = 0, extents = region_extents(&store.region), next;
	uint64_t random = 7;

	for (unsigned int i = 0; i < rounds; i++) {
		next = 2 + (unsigned int)(splitmix_next(&random) % 7);
		if (next > extents) {
			check(!region_extend(&store.region, &options, next));
			store_open_extents(&store, next);
			check_parts(next);
			extents = next;
		} else if (next < extents && shrink(next, i % 5 == 0)) {
			extents = next;
			cut++;
		}
	}
	printf("%u rounds, %u of them cut, %llu items stored, %llu refused\n", rounds, cut,
	       (unsigned long long)stored, (unsigned long long)refused);
	check(cut > 0);
}

static void run(enum eviction_policy eviction)
{
	static struct worker workers[WORKERS];
	pthread_t threads[WORKERS];
	const char *error;

	options = (struct store_options){ .bytes_max = EXTENTS_MAX * EXTENT,
					  .fill = INDEX_FILL,
					  .eviction = eviction,
					  .sweep_share = 5 };
	atomic_store(&stop, false);
	test_store_create_with(&store, 3 * EXTENT, 6, WORKERS, &options);
	check(!store_start(&store, NULL));
	for (unsigned int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){ .thread = &test_threads[i],
					      .random = i,
					      .first_key = i * KEYS };
		check(!pthread_create(&threads[i], NULL, work, &workers[i]));
	}
	resize();
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	store_stop(&store);
	error = test_store_check(&store, NULL);
	if (error)
		fprintf(stderr, "the store: %s\n", error);
	check(!error);
	test_store_destroy(&store);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		rounds = (unsigned int)strtoul(argv[1], NULL, 10);
	rcu_register_thread();
	rcu_thread_offline();
	run(EVICTION_NONE);
	run(EVICTION_OBJECT_HITS);
	rcu_unregister_thread();
	return EXIT_SUCCESS;
}
