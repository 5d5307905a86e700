/* SPDX-License-Identifier: MIT */
/*
 * Tests of the maintenance thread, running beside a store: sweeps, flushes, growth of the index and
 * compaction. The clock is set while the thread does not run; what it should do is waited for by
 * means of its counters.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <urcu-qsbr.h>

#include "server/store/maintenance.h"

#include "tests/support/store_test.h"

#include "tests/support/store_hooks.h"

#define REGION_BYTES (8u << 20)
#define FILL 65
#define SHARE 50
#define DEADLINE_NS (300 * SECOND_NS)
#define SLICE_US 100 /* of CPU time, that the test pretends */

static struct maintenance maintenance;
static uint8_t value[100000];

void store_hook(const char *after)
{
	(void)after;
}

static int create(uint32_t level, enum eviction_policy policy)
{
	const struct store_options options = { .fill = FILL, .eviction = policy };

	test_store_create_with(&store, REGION_BYTES, level, 1, &options);
	set_now(ENGINE_NOW_NS);
	assert_int_equal(
		maintenance_init(&maintenance, &store.table, TEST_THREADS_MAX, SHARE, NULL), 0);
	rcu_register_thread();
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return create(6, EVICTION_NONE);
}

static int setup_evicts(void **state)
{
	(void)state;
	return create(6, EVICTION_OBJECT_HITS);
}

static int setup_wide(void **state)
{
	(void)state;
	return create(14, EVICTION_NONE);
}

static void start(void)
{
	assert_int_equal(maintenance_start(&maintenance), 0);
}

static void stop(void)
{
	/* The thread may be waiting for a grace period. */
	rcu_thread_offline();
	maintenance_stop(&maintenance);
	rcu_thread_online();
}

static int teardown(void **state)
{
	(void)state;
	stop();
	rcu_unregister_thread();
	assert_store(NULL);
	maintenance_release(&maintenance);
	test_store_destroy(&store);
	return 0;
}

static void pause_shortly(void)
{
	const struct timespec ms = { 0, 1000000 };

	rcu_thread_offline();
	nanosleep(&ms, NULL);
	rcu_thread_online();
}

#define WAIT_FOR(condition)                                                                        \
	do {                                                                                       \
		uint64_t deadline_ns = clock_ns() + DEADLINE_NS;                                   \
		while (!(condition)) {                                                             \
			if (clock_ns() > deadline_ns)                                              \
				fail_msg("waited in vain for %s", #condition);                     \
			pause_shortly();                                                           \
		}                                                                                  \
	} while (0)

static enum wire_status put_ttl(uint64_t key, uint32_t len, uint32_t ttl)
{
	struct table_change change = {
		.key = &key, .key_len = 8, .value = value, .value_len = len, .ttl = ttl
	};

	return table_put(&test_threads[0], hash_of(&key, 8), &change);
}

static void put(uint64_t key, uint32_t len)
{
	assert_int_equal(put_ttl(key, len, 0), WIRE_OK);
}

static bool is_there(uint64_t key)
{
	struct store_value out;

	return test_store_get(&store, &key, 8, NULL, 0, &out) == WIRE_OK;
}

static uint64_t count_there(uint64_t from, uint64_t to)
{
	uint64_t n = 0;

	for (uint64_t key = from; key < to; key++)
		n += is_there(key);
	return n;
}

/* Expired items are freed though no client uses their keys. */
static void expired_items_go(void **state)
{
	uint64_t key;

	(void)state;
	for (key = 0; key < 2000; key++)
		assert_int_equal(put_ttl(key, 100, key % 4 ? (uint32_t)(key % 4) : 1000), WIRE_OK);
	for (; key < 3000; key++)
		put(key, 100);
	set_now(ENGINE_NOW_NS + 2 * SECOND_NS + SECOND_NS / 2);
	start();
	/* Items that live 1 and 2 seconds: half of the first. */
	WAIT_FOR(STAT(expired) == 1000);
	stop();
	assert_int_equal(STAT(removes), 1000);
	assert_int_equal(STAT(expiring), 1000);
	assert_int_equal(STAT(live_bytes), 2000 * item_bytes_for(8, 100, 0));
	assert_store(NULL);
	set_now(ENGINE_NOW_NS + 2000 * SECOND_NS);
	start();
	WAIT_FOR(STAT(expired) == 2000);
	assert_int_equal(STAT(expiring), 0);
	assert_int_equal(count_there(0, 3000), 1000);
	assert_int_equal(count_there(2000, 3000), 1000);
}

/* Chains are swept, too. */
static void expired_items_go_from_chains(void **state)
{
	struct store_census census;
	uint64_t key;

	(void)state;
	store.table.fill = STORE_NO_GROWTH;
	for (key = 0; key < 10000; key++)
		assert_int_equal(put_ttl(key, 10, 5), WIRE_OK);
	assert_store(&census);
	assert_true(census.overflow_buckets > 500);
	set_now(ENGINE_NOW_NS + 10 * SECOND_NS);
	start();
	WAIT_FOR(STAT(expired) == 10000);
	stop();
	assert_store(&census);
	assert_int_equal(census.items, 0);
	assert_int_equal(census.overflow_buckets, 0);
}

/* A thread has used so much more CPU time each time that it asks; 0: what it has used. */
static _Atomic uint64_t cpu_step_ns;

int clock_gettime(clockid_t id, struct timespec *now)
{
	static _Thread_local uint64_t used_ns;

	if (id != CLOCK_THREAD_CPUTIME_ID || !cpu_step_ns)
		return (int)syscall(SYS_clock_gettime, id, now);
	used_ns += cpu_step_ns;
	now->tv_sec = (time_t)(used_ns / SECOND_NS);
	now->tv_nsec = (long)(used_ns % SECOND_NS);
	return 0;
}

/*
 * MAINTENANCE-1: by the thread's own counters, a slice takes a step of its CPU clock; and no sweeps
 * if no item has an expiry time. A sleep is never shorter than asked for.
 */
static void sweeps_take_their_share(void **state)
{
	uint64_t begun, elapsed_us, ticket, slices;

	(void)state;
	start();
	ticket = maintenance_flush(&maintenance, ENGINE_NOW_NS, 0, "uid=1");
	WAIT_FOR(maintenance_flushed(&maintenance, ticket));
	assert_int_equal(stat_read(&maintenance.stats.sweeps), 0);
	assert_int_equal(stat_read(&maintenance.stats.sweep_cpu_us), 0);
	stop();
	for (uint64_t key = 0; key < 20000; key++)
		assert_int_equal(put_ttl(key, 0, 1000), WIRE_OK);
	maintenance.sweep_share = 5;
	cpu_step_ns = SLICE_US * 1000;
	begun = clock_ns();
	start();
	WAIT_FOR(stat_read(&maintenance.stats.sweeps) == 1);
	stop();
	elapsed_us = (clock_ns() - begun) / 1000;
	cpu_step_ns = 0;
	slices = (index_buckets(&store.table) + 63) / 64;
	assert_true(slices > 10);
	assert_true(maintenance.stats.sweep_cpu_us == slices * SLICE_US);
	/* The pause after the last one comes later. */
	assert_true(elapsed_us >= (slices - 1) * SLICE_US * 95 / 5);
}

static void flush_at_once(void **state)
{
	uint64_t key, ticket;

	(void)state;
	for (key = 0; key < 3000; key++)
		put(key, key % 2000);
	start();
	ticket = maintenance_flush(&maintenance, ENGINE_NOW_NS, 0, "uid=1");
	assert_true(ticket > 0);
	WAIT_FOR(maintenance_flushed(&maintenance, ticket));
	assert_int_equal(STAT(flushed), 3000);
	assert_int_equal(count_there(0, 3000), 0);
	for (key = 0; key < 3000; key += 2)
		put(key, 10);
	assert_int_equal(count_there(0, 3000), 1500);
	assert_false(maintenance_flushed(&maintenance, 0));
	assert_false(maintenance_flushed(&maintenance, ticket + 1));
	assert_true(maintenance_flushed(&maintenance, ticket));
}

/* A delayed flush removes nothing before its time, and then all that was stored before that. */
static void flush_later(void **state)
{
	uint64_t key, ticket, early;

	(void)state;
	for (key = 0; key < 100; key++)
		put(key, 10);
	ticket = maintenance_flush(&maintenance, ENGINE_NOW_NS, 3600, "uid=1");
	start();
	early = maintenance_flush(&maintenance, ENGINE_NOW_NS, 0, "uid=1");
	WAIT_FOR(maintenance_flushed(&maintenance, early));
	assert_false(maintenance_flushed(&maintenance, ticket));
	for (key = 0; key < 100; key++)
		put(key, 10);
	stop();
	set_now(ENGINE_NOW_NS + 1800 * SECOND_NS);
	/* Another one is done half an hour before that time, and this one not with it. */
	start();
	early = maintenance_flush(&maintenance, ENGINE_NOW_NS, 1800, "uid=1");
	WAIT_FOR(maintenance_flushed(&maintenance, early));
	stop();
	assert_false(maintenance_flushed(&maintenance, ticket));
	assert_int_equal(stat_read(&maintenance.stats.flushes), 2);
	for (key = 0; key < 100; key++)
		put(key, 10);
	set_now(ENGINE_NOW_NS + 3600 * SECOND_NS);
	start();
	WAIT_FOR(maintenance_flushed(&maintenance, ticket));
	assert_int_equal(count_there(0, 100), 0);
	assert_int_equal(stat_read(&maintenance.stats.flushes), 3);
	put(1, 10);
	assert_true(is_there(1));
}

/*
 * While a flush is under way a key that is changed gets a version above the flush's, however far
 * that is ahead of the thread's own; what was stored before counts as absent, and is removed.
 */
static void versions_are_above_a_flush(void **state)
{
	struct table_change change = { .mode = WIRE_ADD, .value = value, .value_len = 10 };
	const uint64_t floor = test_threads[0].clock + (1u << 30);
	uint64_t keys[] = { 1, 2 }, version;

	(void)state;
	put(1, 10);
	atomic_store(&store.table.flushing, floor);
	for (unsigned int i = 0; i < 2; i++) {
		change.key = &keys[i];
		change.key_len = 8;
		/* The first was there. */
		assert_int_equal(table_put(&test_threads[0], hash_of(&keys[i], 8), &change),
				 WIRE_OK);
		assert_int_equal(STAT(flushed), 1);
		version = change.version;
		assert_int_equal(version >> THREAD_ID_BITS, floor + 1 + i);
		assert_int_equal(table_put(&test_threads[0], hash_of(&keys[i], 8), &change),
				 WIRE_EXISTS);
		assert_true(is_there(keys[i]));
	}
	/* The flush itself ends where it said. */
	table_sweep_bucket(&test_threads[0], 0, floor << THREAD_ID_BITS);
	assert_int_equal(count_there(1, 3), 2);
	assert_int_equal(STAT(flushed), 1);
	assert_int_equal(STAT(removes), 1);
}

/* A sweep removes what has at most its version. */
static void swept_up_to_a_version(void **state)
{
	struct table_change change = {
		.key = &(uint64_t){ 1 }, .key_len = 8, .value = value, .value_len = 10
	};
	uint64_t number;

	(void)state;
	assert_int_equal(table_put(&test_threads[0], hash_of(change.key, 8), &change), WIRE_OK);
	number = index_number(&store.table, test_store_home(&store, change.key, 8));
	table_sweep_bucket(&test_threads[0], number, change.version - 1);
	assert_true(is_there(1));
	table_sweep_bucket(&test_threads[0], number, change.version);
	assert_false(is_there(1));
	assert_int_equal(STAT(flushed), 1);
	assert_int_equal(STAT(expired), 0);
}

/* Whether the key is in a part with an even number. */
static bool is_even(uint64_t key)
{
	return !(hash_of(&key, 8) >> KEY_PART_SHIFT & 1);
}

static void even_parts(uint64_t parts[KEY_PARTS_WORDS])
{
	memset(parts, 0x55, KEY_PARTS_WORDS * sizeof(*parts));
}

/* Half of the parts: the keys in them go, and no other; what has expired is not counted as that. */
static void drop_of_parts(void **state)
{
	uint64_t parts[KEY_PARTS_WORDS], key, even = 0;

	(void)state;
	even_parts(parts);
	for (key = 0; key < 3000; key++) {
		put(key, key % 2000);
		even += is_even(key);
	}
	assert_in_range(even, 1200, 1800);
	assert_int_equal(put_ttl(3000, 10, 1), WIRE_OK);
	stop();
	set_now(ENGINE_NOW_NS + 10 * SECOND_NS);
	assert_false(maintenance_drops(&maintenance, NULL));
	/* In two requests, which add up. */
	memset(parts, 0, sizeof(parts) / 2);
	maintenance_drop(&maintenance, parts);
	even_parts(parts);
	memset(parts + KEY_PARTS_WORDS / 2, 0, sizeof(parts) / 2);
	maintenance_drop(&maintenance, parts);
	assert_true(maintenance_drops(&maintenance, NULL));
	assert_int_equal(count_there(0, 3000), 3000);
	start();
	WAIT_FOR(!maintenance_drops(&maintenance, NULL));
	for (key = 0; key < 3000; key++)
		assert_int_equal(is_there(key), !is_even(key));
	assert_int_equal(STAT(dropped), even);
	assert_int_equal(STAT(flushed), 0);
	WAIT_FOR(STAT(expired) == 1);
	/* All keys can be stored again. */
	for (key = 0; key < 3000; key++)
		put(key, 10);
	assert_int_equal(count_there(0, 3000), 3000);
}

/* What is asked for while a drop runs is done after it, all of it anew; parts add up. */
static void drop_during_another(void **state)
{
	uint64_t first[KEY_PARTS_WORDS], second[KEY_PARTS_WORDS] = { 0 };
	uint64_t left[KEY_PARTS_WORDS], key;

	(void)state;
	even_parts(first);
	for (key = 0; key < 300; key++)
		put(key, 10);
	/* The first pass can't end. */
	atomic_store(&store.table.growing, 1);
	start();
	maintenance_drop(&maintenance, first);
	WAIT_FOR(!count_there(0, 300) || STAT(dropped) > 0);
	for (key = 0; key < 300; key++)
		WAIT_FOR(is_there(key) == !is_even(key));
	/* A key that was dropped is there again, and one of another part must go, too. */
	for (key = 0; !is_even(key); key++)
		;
	put(key, 10);
	for (uint64_t odd = 0; odd < 300; odd++)
		if (!is_even(odd))
			second[(hash_of(&odd, 8) >> KEY_PART_SHIFT & (KEY_PARTS - 1)) / 64] |=
				1ull << (hash_of(&odd, 8) >> KEY_PART_SHIFT & 63);
	second[(hash_of(&key, 8) >> KEY_PART_SHIFT & (KEY_PARTS - 1)) / 64] |=
		1ull << (hash_of(&key, 8) >> KEY_PART_SHIFT & 63);
	maintenance_drop(&maintenance, second);
	assert_true(maintenance_drops(&maintenance, left));
	for (unsigned int i = 0; i < KEY_PARTS_WORDS; i++)
		assert_true(left[i] == (first[i] | second[i]));
	atomic_store(&store.table.growing, 0);
	WAIT_FOR(!maintenance_drops(&maintenance, left));
	for (unsigned int i = 0; i < KEY_PARTS_WORDS; i++)
		assert_true(!left[i]);
	assert_int_equal(count_there(0, 300), 0);
}

static void pin(uint64_t key, uint32_t seconds)
{
	struct table_change change = { .key = &key,
				       .key_len = 8,
				       .value = value,
				       .value_len = 10,
				       .wish = { .pin = seconds } };

	assert_int_equal(table_put(&test_threads[0], hash_of(&key, 8), &change), WIRE_OK);
}

static uint64_t pin_fields(void)
{
	struct pins_stats stats;

	pins_stats(store.pins, &stats);
	return stats.fields;
}

static uint64_t pinned_items(void)
{
	struct pins_stats stats;

	pins_stats(store.pins, &stats);
	return stats.items;
}

/*
 * Pins end by the thread's clock, whatever clients do; it takes those that have out of the items'
 * fields before their clock has come around, and then has no reason to go on.
 */
static void ended_pins_are_swept(void **state)
{
	const uint32_t seconds = PIN_UNITS / 4 * 2 + 100;

	(void)state;
	store.table.pin_share = 25;
	store.table.pin_time_max = 2 * seconds;
	for (uint64_t key = 0; key < 100; key++)
		pin(key, 10);
	pin(1000, 2 * seconds);
	set_now(ENGINE_NOW_NS + 20 * SECOND_NS);
	start();
	WAIT_FOR(pinned_items() == 1);
	stop();
	assert_int_equal(pin_fields(), 101);
	assert_int_equal(stat_read(&maintenance.stats.sweeps), 0);
	set_now(ENGINE_NOW_NS + seconds * SECOND_NS);
	start();
	WAIT_FOR(pin_fields() == 1);
	WAIT_FOR(!pins_want_sweep(store.pins));
	stop();
	assert_int_equal(pinned_items(), 1);
	assert_int_equal(count_there(0, 100), 100);
}

/* A pin in a chain whose slots are being moved: without its lock, nothing is seen of it. */
static void pins_that_move_are_swept(void **state)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	const uint32_t seconds = PIN_UNITS / 4 * 2 + 100;
	uint64_t key = 7, slots[BUCKET_SLOTS], number;
	struct bucket *home;

	(void)state;
	store.table.pin_share = 25;
	store.table.pin_time_max = 2 * seconds;
	pin(key, 10);
	set_now(ENGINE_NOW_NS + seconds * SECOND_NS);
	number = index_number(&store.table, index_home(&store.table, hash_of(&key, 8)));
	home = index_lock_number(&store.table, number);
	memcpy(slots, home->slots, sizeof(slots));
	memset(home->slots, 0, sizeof(slots));
	start();
	/* As long as it takes the thread to pass the bucket, if it does not wait for the lock. */
	for (unsigned int i = 0; i < 50 && !stat_read(&maintenance.stats.sweeps); i++)
		nanosleep(&pause, NULL);
	memcpy(home->slots, slots, sizeof(slots));
	bucket_unlock(home);
	WAIT_FOR(!pins_want_sweep(store.pins));
	stop();
	assert_int_equal(pin_fields(), 0);
	assert_int_equal(pinned_items(), 0);
}

static uint64_t flush_in(uint32_t delay_s, const char *owner)
{
	return maintenance_flush(&maintenance, ENGINE_NOW_NS, delay_s, owner);
}

/*
 * MAINTENANCE-4: an owner leaves places to others, and all of them leave those of flushes without a
 * delay.
 */
static void flushes_have_a_limit(void **state)
{
	uint64_t tickets[WIRE_FLUSHES_LATER_MAX], at_once;
	char owner[16];

	(void)state;
	for (unsigned int i = 0; i < WIRE_FLUSHES_LATER_MAX; i++) {
		snprintf(owner, sizeof(owner), "uid=%u", i / WIRE_FLUSHES_OWNER_MAX);
		tickets[i] = flush_in(10, owner);
		assert_true(tickets[i] > 0);
		if (i % WIRE_FLUSHES_OWNER_MAX == WIRE_FLUSHES_OWNER_MAX - 1)
			assert_int_equal(flush_in(10, owner), 0);
	}
	assert_int_equal(flush_in(10, "uid=1000"), 0);
	at_once = flush_in(0, "uid=0");
	assert_true(at_once > 0);
	for (unsigned int i = 0; i < 1000; i++)
		assert_int_equal(flush_in(0, i % 2 ? "uid=0" : "uid=1000"), at_once);
	set_now(ENGINE_NOW_NS + 10 * SECOND_NS);
	start();
	WAIT_FOR(maintenance_flushed(&maintenance, at_once));
	for (unsigned int i = 0; i < WIRE_FLUSHES_LATER_MAX; i++)
		WAIT_FOR(maintenance_flushed(&maintenance, tickets[i]));
	assert_true(flush_in(10, "uid=0") > 0);
}

/*
 * MAINTENANCE-4: one's own, or whoever's; all or one; none that has no delay. What is left goes on.
 */
static void flushes_are_cancelled(void **state)
{
	struct flush waiting[WIRE_FLUSHES_LATER_MAX];
	uint64_t a[3], b, at_once;

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		a[i] = flush_in(100 + i, "user=a");
	b = flush_in(200, "user=b");
	at_once = flush_in(0, "user=a");
	assert_int_equal(maintenance_waiting(&maintenance, waiting), 4);
	assert_int_equal(waiting[3].ticket, b);
	assert_string_equal(waiting[3].owner, "user=b");
	assert_int_equal(waiting[3].at_ns, ENGINE_NOW_NS + 200 * SECOND_NS);
	assert_int_equal(maintenance_cancel(&maintenance, b, "user=a"), 0);
	assert_int_equal(maintenance_cancel(&maintenance, 0, "user="), 0);
	assert_int_equal(maintenance_cancel(&maintenance, at_once, NULL), 0);
	assert_int_equal(maintenance_cancel(&maintenance, a[1], "user=a"), 1);
	assert_true(maintenance_flushed(&maintenance, a[1]));
	assert_int_equal(maintenance_cancel(&maintenance, a[1], "user=a"), 0);
	assert_int_equal(maintenance_cancel(&maintenance, 0, "user=a"), 2);
	assert_int_equal(maintenance_waiting(&maintenance, waiting), 1);
	assert_false(maintenance_flushed(&maintenance, b));
	assert_false(maintenance_flushed(&maintenance, at_once));
	assert_int_equal(maintenance_cancel(&maintenance, b, NULL), 1);
	start();
	WAIT_FOR(maintenance_flushed(&maintenance, at_once));
	assert_int_equal(stat_read(&maintenance.stats.flushes), 1);
}

/*
 * A thread that stores keys one after the other until `enough`. The store does not get full however
 * long the test's own thread waits for a CPU: at key_limit this thread goes on with SPARE_KEYS
 * keys, again and again. Each round of the test sets the limit LEAD keys above where the last round
 * ended, so that at most 2 * LEAD keys are live; they take half of the store.
 */
#define LEAD 20000u
#define SPARE_KEY (1ull << 40)
#define SPARE_KEYS 64u

static _Atomic uint64_t next_key, key_limit;
static _Atomic uint64_t refused;
static _Atomic bool enough;

static void *store_on_and_on(void *arg)
{
	uint64_t spare = 0;

	(void)arg;
	rcu_register_thread();
	while (!atomic_load(&enough)) {
		uint64_t key = atomic_load(&next_key);
		bool lead = key < atomic_load(&key_limit);

		if (put_ttl(lead ? key : SPARE_KEY + spare++ % SPARE_KEYS, 10, 0) != WIRE_OK)
			atomic_fetch_add(&refused, 1);
		else if (lead)
			atomic_store(&next_key, key + 1);
		store_thread_clock(&test_threads[0]);
		rcu_quiescent_state();
	}
	rcu_unregister_thread();
	return NULL;
}

/* Flushes while the index grows: no older item is left, all newer ones are there. */
static void flush_while_keys_are_stored(void **state)
{
	uint64_t before, after, ticket, last_flushed = 0;
	struct store_thread looker;
	pthread_t thread;

	(void)state;
	assert_int_equal(store_thread_init(&looker, &store.table, TEST_THREADS_MAX + 1), 0);
	atomic_store(&next_key, 0);
	atomic_store(&key_limit, LEAD);
	atomic_store(&refused, 0);
	atomic_store(&enough, false);
	start();
	assert_int_equal(pthread_create(&thread, NULL, store_on_and_on, NULL), 0);
	for (unsigned int round = 0; round < 20; round++) {
		WAIT_FOR(atomic_load(&next_key) > last_flushed + 200);
		before = atomic_load(&next_key);
		ticket = maintenance_flush(&maintenance, ENGINE_NOW_NS, 0, "uid=1");
		WAIT_FOR(maintenance_flushed(&maintenance, ticket));
		/* The PUT of the next key may have been under way. */
		after = atomic_load(&next_key) + 1;
		for (uint64_t key = last_flushed; key < before; key++) {
			struct item_ref ref;

			assert_int_equal(lookup_get(&looker, hash_of(&key, 8), &key, 8, NULL, 0,
						    &ref),
					 WIRE_NOT_FOUND);
		}
		last_flushed = after;
		atomic_store(&key_limit, after + LEAD);
	}
	WAIT_FOR(atomic_load(&next_key) > after + 1000);
	atomic_store(&enough, true);
	rcu_thread_offline();
	pthread_join(thread, NULL);
	rcu_thread_online();
	stop();
	assert_int_equal(atomic_load(&refused), 0);
	assert_int_equal(count_there(after, atomic_load(&next_key)),
			 atomic_load(&next_key) - after);
	rcu_thread_offline();
	store_thread_release(&looker);
	rcu_thread_online();
	store.table.thread_count--;
	assert_store(NULL);
}

/* A split has moved keys to a bucket that is not in the index size yet: they are flushed, too. */
static void flush_during_a_split(void **state)
{
	uint64_t size = atomic_load(&store.table.index_size), ticket, until_ns;

	(void)state;
	for (uint64_t key = 0; key < 500; key++)
		put(key, 10);
	assert_int_equal(atomic_load(&store.table.index_size), size);
	start();
	assert_int_equal(atomic_exchange(&store.table.growing, 1), 0);
	split(&test_threads[0], index_size_split(size), index_size_level(size));
	ticket = maintenance_flush(&maintenance, ENGINE_NOW_NS, 0, "uid=1");
	/* The flush must not be finished before the split; it gets the time for that mistake. */
	for (until_ns = clock_ns() + SECOND_NS / 20; clock_ns() < until_ns;)
		pause_shortly();
	assert_false(maintenance_flushed(&maintenance, ticket));
	index_size_advance(&store.table, index_size_level(size), index_size_split(size) + 1);
	atomic_store(&store.table.growing, 0);
	WAIT_FOR(maintenance_flushed(&maintenance, ticket));
	assert_int_equal(count_there(0, 500), 0);
	assert_int_equal(STAT(flushed), 500);
}

/* A drop, too. */
static void drop_during_a_split(void **state)
{
	uint64_t size = atomic_load(&store.table.index_size), parts[KEY_PARTS_WORDS], even = 0;

	(void)state;
	for (uint64_t key = 0; key < 500; key++) {
		put(key, 10);
		even += is_even(key);
	}
	assert_int_equal(atomic_load(&store.table.index_size), size);
	assert_int_equal(atomic_exchange(&store.table.growing, 1), 0);
	split(&test_threads[0], index_size_split(size), index_size_level(size));
	even_parts(parts);
	start();
	maintenance_drop(&maintenance, parts);
	/* The drop must not end before the split; it gets the time for that mistake. */
	for (unsigned int i = 0; i < 50; i++)
		pause_shortly();
	assert_true(maintenance_drops(&maintenance, NULL));
	index_size_advance(&store.table, index_size_level(size), index_size_split(size) + 1);
	atomic_store(&store.table.growing, 0);
	WAIT_FOR(!maintenance_drops(&maintenance, NULL));
	for (uint64_t key = 0; key < 500; key++)
		assert_int_equal(is_there(key), !is_even(key));
	assert_int_equal(STAT(dropped), even);
}

/* Other keys are stored meanwhile, and the index grows: all of them stay, and none of the parts. */
static void drop_while_keys_are_stored(void **state)
{
	uint64_t parts[KEY_PARTS_WORDS], key;

	(void)state;
	even_parts(parts);
	for (key = 0; key < 10000; key++)
		put(key, 10);
	start();
	maintenance_drop(&maintenance, parts);
	for (; maintenance_drops(&maintenance, NULL) && key < 40000; key++) {
		if (!is_even(key))
			put(key, 10);
		rcu_quiescent_state();
	}
	WAIT_FOR(!maintenance_drops(&maintenance, NULL));
	assert_true(STAT(splits) > 0);
	while (key--)
		assert_int_equal(is_there(key), !is_even(key));
}

/*
 * The index grows into pages with items: they are moved or, if there is no room elsewhere and
 * eviction is on, evicted.
 */
static void index_grows_over_items(uint64_t fill, uint32_t len, uint64_t small)
{
	uint64_t key, room;

	for (key = 0; key < fill; key++)
		put(key, len);
	room = atomic_load(&store.table.buckets_max);
	start();
	for (; key < fill + small; key++) {
		put(key, 0);
		rcu_quiescent_state();
	}
	/*
	 * Growth goes on with the next keys, once there is room. What is in this thread's limbo may
	 * be in the way: a worker empties its limbo when it is idle.
	 */
	WAIT_FOR((put(key++, 0), store_thread_idle(&test_threads[0]),
		  stat_read(&maintenance.stats.index_steps) > 0));
	WAIT_FOR((put(key++, 0), store_thread_idle(&test_threads[0]),
		  index_buckets(&store.table) * BUCKET_SLOTS * FILL / 100 + 2 * BUCKET_SLOTS >=
			  (uint64_t)atomic_load(&store.table.items)));
	stop();
	assert_true(atomic_load(&store.table.buckets_max) > room);
	assert_int_equal(atomic_load(&store.table.room_wanted), false);
	assert_store(NULL);
	if (store.table.eviction == EVICTION_NONE)
		assert_int_equal(count_there(0, key), key);
	else
		assert_true(count_there(fill + small / 2, key) > (key - fill - small / 2) * 9 / 10);
}

static void index_gets_room_by_moving(void **state)
{
	(void)state;
	/* Full, then with holes between items: those that came last follow the index. */
	for (uint64_t key = 1ull << 40; put_ttl(key, 3000, 0) == WIRE_OK; key++)
		assert_true(key < 1ull << 41);
	for (uint64_t key = 1ull << 40; is_there(key); key++)
		if (key % 4)
			assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
	set_now(ENGINE_NOW_NS + SECOND_NS);
	index_grows_over_items(0, 0, 10000);
}

static void index_gets_room_by_evicting(void **state)
{
	(void)state;
	index_grows_over_items(4000, 2500, 20000);
}

/* Slabs that are half empty are compacted, unless enough memory is free. */
static void loose_slabs_are_emptied(void **state)
{
	struct memory_stats before, after;
	uint64_t key, end;

	(void)state;
	for (key = 0; put_ttl(key, 200, 0) == WIRE_OK; key++)
		;
	for (end = key, key = 0; key < end; key++)
		if (key % 3)
			assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
	memory_stats(store.memory, &before);
	assert_true(before.item_slabs_free > before.item_slabs / 2);
	start();
	table_wake_maintenance(&store.table);
	WAIT_FOR(stat_read(&maintenance.stats.compactions) > 3);
	WAIT_FOR((memory_stats(store.memory, &after),
		  after.item_slabs_free <= after.item_slabs / 16 ||
			  after.free > memory_bytes(store.memory) / 16));
	stop();
	assert_true(after.free > before.free);
	assert_store(NULL);
	for (key = 0; key < end; key += 3)
		assert_true(is_there(key));
}

static void stops_and_starts(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 20; i++) {
		start();
		if (i % 2) {
			uint64_t ticket = maintenance_flush(&maintenance, ENGINE_NOW_NS, 0,
							    "uid=1");

			WAIT_FOR(maintenance_flushed(&maintenance, ticket));
		}
		stop();
		stop();
	}
}

/* The thread sleeps again after it was woken, as it would not if the wake-up were still there. */
static void a_wake_up_is_taken(void **state)
{
	struct pollfd fd = { .events = POLLIN };

	(void)state;
	fd.fd = maintenance.event_fd;
	start();
	table_wake_maintenance(&store.table);
	WAIT_FOR(poll(&fd, 1, 0) == 0);
	stop();
}

/* One that can't be created leaves nothing, and the store as it was; so does one that ends. */
static void one_too_many(void **state)
{
	const unsigned int count = store.table.thread_count;
	struct maintenance other;
	int fd = dup(0);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	store.table.thread_count = STORE_THREADS_MAX;
	assert_int_equal(maintenance_init(&other, &store.table, 0, SHARE, NULL), -ENOMEM);
	store.table.thread_count = count;
	assert_null(other.table);
	assert_int_equal(dup(0), fd);
	close(fd);
	maintenance_release(&other);
	assert_int_equal(store.table.wake_fd, maintenance.event_fd);
	assert_int_equal(maintenance_init(&other, &store.table, 0, SHARE, NULL), 0);
	assert_int_equal(store.table.wake_fd, other.event_fd);
	rcu_thread_offline();
	maintenance_release(&other);
	rcu_thread_online();
	assert_int_equal(store.table.wake_fd, -1);
	assert_int_equal(dup(0), fd);
	close(fd);
	store.table.thread_count = count;
	store.table.wake_fd = maintenance.event_fd;
}

/* Without a maintenance thread the store works, and no thread is woken. */
static void nobody_to_wake(void **state)
{
	struct table table = { .wake_fd = -1 };
	struct maintenance none = { .table = NULL };
	uint64_t count;

	(void)state;
	errno = 0;
	table_wake_maintenance(&table);
	assert_int_equal(errno, 0); /* nothing was written */
	maintenance_stop(&none);
	maintenance_release(&none);
	assert_int_equal(errno, 0);
	table.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(table.wake_fd >= 0);
	table_wake_maintenance(&table);
	table_wake_maintenance(&table);
	assert_int_equal(read(table.wake_fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 2);
	close(table.wake_fd);
}

#define CASE(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(expired_items_go, setup),
		CASE(expired_items_go_from_chains, setup),
		CASE(sweeps_take_their_share, setup_wide),
		CASE(drop_of_parts, setup),
		CASE(drop_during_another, setup),
		CASE(drop_during_a_split, setup),
		CASE(drop_while_keys_are_stored, setup),
		CASE(flush_at_once, setup),
		CASE(flush_later, setup),
		CASE(versions_are_above_a_flush, setup),
		CASE(swept_up_to_a_version, setup),
		CASE(ended_pins_are_swept, setup_evicts),
		CASE(pins_that_move_are_swept, setup_evicts),
		CASE(flushes_have_a_limit, setup),
		CASE(flushes_are_cancelled, setup),
		CASE(flush_while_keys_are_stored, setup),
		CASE(flush_during_a_split, setup),
		CASE(index_gets_room_by_moving, setup),
		CASE(index_gets_room_by_evicting, setup_evicts),
		CASE(loose_slabs_are_emptied, setup),
		CASE(stops_and_starts, setup),
		CASE(a_wake_up_is_taken, setup),
		CASE(one_too_many, setup),
		cmocka_unit_test(nobody_to_wake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
