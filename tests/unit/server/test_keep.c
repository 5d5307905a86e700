/* SPDX-License-Identifier: MIT */
/*
 * Tests of stores that outlive their process (server/store/keep.h): stopped cleanly, killed after
 * every store that readers depend on, and with files that must not be used. A kill is simulated by
 * a copy of the files, which is what another process would find.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <urcu-qsbr.h>

#include "common/util/log.h"
#include "server/store/adopt.h"
#include "server/store/evacuate.h"
#include "server/store/store.h"
#include "tests/support/log_fixture.h"
#include "tests/support/store_test.h"

#include "tests/support/store_hooks.h"

#define REGION_BYTES (8u << 20)
#define LEVEL 2
#define VALUE_BYTES 200000u
#define KEYS 400u
#define PATH_BYTES 128

static char folder[] = "/dev/shm/kvd-test-keep-XXXXXX";
static char file[PATH_BYTES], copy_file[PATH_BYTES];
static struct store_options options;
static uint8_t value[VALUE_BYTES], wanted[VALUE_BYTES], got[VALUE_BYTES];

/* The key that is changed, what it may have after a kill, and the kills so far. */
static struct {
	const char *key;
	uint32_t before_len, after_len;
	uint64_t before, after; /* of value_make(); 0: the key is missing */
	unsigned int kills;
} watched;
static unsigned int copy_extents; /* that the region had after the last one */

static void path_in(char path[PATH_BYTES], const char *name)
{
	snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

static void remove_files(const char *path)
{
	char state[PATH_BYTES + 8];

	snprintf(state, sizeof(state), "%s.state", path);
	unlink(path);
	unlink(state);
}

static int setup(void **state)
{
	(void)state;
	options = (struct store_options){
		.file = file,
		.prefault = true,
		.fill = 65,
		.eviction = EVICTION_NONE,
		.hash_seed = 1,
	};
	remove_files(file);
	watched.key = NULL;
	if (test_log_begin())
		return -1;
	test_store_create_with(&store, REGION_BYTES, LEVEL, 2, &options);
	return 0;
}

static int setup_evicts(void **state)
{
	(void)state;
	setup(state);
	test_store_destroy(&store);
	remove_files(file);
	options.eviction = EVICTION_OBJECT_HITS;
	options.pin_share = 50;
	options.pin_time_max = 600;
	test_store_create_with(&store, REGION_BYTES, LEVEL, 2, &options);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_store_destroy(&store);
	log_release();
	return 0;
}

static void again(void)
{
	test_store_create_with(&store, REGION_BYTES, LEVEL, 2, &options);
}

static void restart(void)
{
	test_store_destroy(&store);
	again();
}

/* As if the process had been killed: nothing is stored at its end. */
static void kill_and_restart(void)
{
	store.region.keep.serves = false;
	restart();
	assert_int_equal(store.region.keep.found, KEEP_FOUND_KILLED);
}

/* @from: a buffer for the value. */
static enum wire_status put_of(struct store_thread *thread, uint8_t *from, const char *key,
			       uint64_t salt, uint32_t len)
{
	struct table_change change = {
		.key = key, .key_len = (uint32_t)strlen(key), .value = from, .value_len = len
	};

	value_make(from, len, 0, salt);
	return table_put(thread, table_hash(thread->table, key, change.key_len), &change);
}

static void put(const char *key, uint64_t salt, uint32_t len)
{
	assert_int_equal(put_of(&test_threads[0], value, key, salt, len), WIRE_OK);
}

/* Whether the key has that value; @salt 0: whether it is missing. */
static bool has(struct store_thread *thread, const char *key, uint64_t salt, uint32_t len)
{
	uint32_t key_len = (uint32_t)strlen(key);
	enum wire_status status;
	struct item_ref ref;

	status = lookup_get(thread, table_hash(thread->table, key, key_len), key, key_len, got,
			    sizeof(got), &ref);
	if (!salt)
		return status == WIRE_NOT_FOUND;
	value_make(wanted, len, 0, salt);
	return status == WIRE_OK && item_value_len(&ref.front.item) == len &&
	       !memcmp(got, wanted, len);
}

static void assert_has(const char *key, uint64_t salt, uint32_t len)
{
	if (!has(&test_threads[0], key, salt, len))
		fail_msg("%s: not as expected", key);
}

static const uint32_t lengths[] = { 0, 1, 8, 60, 100, 101, 500, 3000, 4096, 20000, 33000, 200000 };
#define LENGTHS (sizeof(lengths) / sizeof(*lengths))

static void key_name(char name[16], unsigned int i)
{
	snprintf(name, 16, "key%u", i);
}

static uint32_t length_of(unsigned int i)
{
	return i % 40 < LENGTHS ? lengths[i % 40] : 50 + i;
}

static void fill(unsigned int keys)
{
	char name[16];

	for (unsigned int i = 0; i < keys; i++) {
		key_name(name, i);
		put(name, i + 1, length_of(i));
	}
	for (unsigned int i = 0; i < keys; i += 7) {
		key_name(name, i);
		assert_int_equal(test_store_delete(&store, name, (uint32_t)strlen(name)), WIRE_OK);
	}
}

static void assert_filled(unsigned int keys)
{
	char name[16];

	for (unsigned int i = 0; i < keys; i++) {
		key_name(name, i);
		assert_has(name, i % 7 ? i + 1 : 0, length_of(i));
	}
	assert_true(store_items(&store) == keys - (keys + 6) / 7);
	assert_store(NULL);
}

/* All is there, and the store goes on: its index, its memory and its versions. */
static void after_a_stop(void **state)
{
	uint64_t incarnation, clock;

	(void)state;
	fill(KEYS);
	incarnation = store.region.geometry.incarnation;
	clock = table_clock_max(&store.table);
	restart();
	assert_int_equal(store.region.keep.found, KEEP_FOUND_CLEAN);
	assert_true(store.region.geometry.incarnation == incarnation);
	assert_filled(KEYS);
	put("new", 1, 10);
	assert_true(table_clock_max(&store.table) > clock);
	for (unsigned int i = 0; i < 3; i++)
		restart();
	assert_has("new", 1, 10);
	assert_int_equal(test_store_delete(&store, "new", 3), WIRE_OK);
	assert_filled(KEYS);
}

static void after_a_kill(void **state)
{
	uint64_t incarnation, clock;

	(void)state;
	fill(KEYS);
	incarnation = store.region.geometry.incarnation;
	clock = table_clock_max(&store.table);
	kill_and_restart();
	assert_true(store.region.geometry.incarnation != incarnation);
	assert_filled(KEYS);
	put("new", 1, 10);
	assert_true(table_clock_max(&store.table) > clock);
	kill_and_restart();
	restart();
	assert_int_equal(store.region.keep.found, KEEP_FOUND_CLEAN);
	assert_has("new", 1, 10);
	assert_int_equal(test_store_delete(&store, "new", 3), WIRE_OK);
	assert_filled(KEYS);
}

/* An index that had grown is as long as its items need, and grows on. */
static void index_after_a_kill(void **state)
{
	char name[16];

	(void)state;
	for (unsigned int i = 0; i < 5000; i++) {
		key_name(name, i);
		put(name, 1, 8);
	}
	for (unsigned int round = 0; round < 2; round++) {
		kill_and_restart();
		for (unsigned int i = 0; i < 5000; i++) {
			key_name(name, i);
			assert_has(name, 1, 8);
		}
		assert_store(NULL);
		assert_true(index_buckets(&store.table) > 5000 / BUCKET_SLOTS);
	}
	for (unsigned int i = 5000; i < 9000; i++) {
		key_name(name, i);
		put(name, 1, 8);
	}
	restart();
	for (unsigned int i = 0; i < 9000; i++) {
		key_name(name, i);
		assert_has(name, 1, 8);
	}
}

/* Threads take the region in pieces of 16 MiB, which end within items. */
static void many_pieces_after_a_kill(void **state)
{
	char name[16];

	(void)state;
	test_store_destroy(&store);
	remove_files(file);
	test_store_create_with(&store, 64u << 20, LEVEL, 2, &options);
	for (unsigned int i = 0; i < 200; i++) {
		key_name(name, i);
		put(name, i + 1, VALUE_BYTES);
	}
	store.region.keep.serves = false;
	test_store_destroy(&store);
	test_store_create_with(&store, 64u << 20, LEVEL, 2, &options);
	assert_int_equal(store.region.keep.found, KEEP_FOUND_KILLED);
	for (unsigned int i = 0; i < 200; i++) {
		key_name(name, i);
		assert_has(name, i + 1, VALUE_BYTES);
	}
	assert_store(NULL);
}

static void file_write(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_true(write(fd, bytes, size) == (ssize_t)size);
	close(fd);
}

/* What a process finds that starts after this one was killed now. */
static void copy_files(void)
{
	char state[PATH_BYTES + 8];

	snprintf(state, sizeof(state), "%s.state", copy_file);
	file_write(copy_file, store.region.base, store.region.bytes);
	file_write(state, store.region.keep.head, store.region.keep.bytes);
	/* The rest is a hole. */
	assert_int_equal(truncate(copy_file, (off_t)store.region.bytes_max), 0);
}

static void assert_recovers(const char *after)
{
	struct store_options copy_options = options;
	struct store_thread thread;
	struct store copy;
	bool before, then;

	copy_options.file = copy_file;
	copy_options.bytes = REGION_BYTES;
	copy_options.hugepages = HUGEPAGES_OFF;
	copy_options.level = LEVEL;
	copy_options.value_max = VALUE_MAX;
	assert_int_equal(store_create(&copy, &copy_options), 0);
	assert_int_equal(copy.region.keep.found, KEEP_FOUND_KILLED);
	copy_extents = copy.region.extent_count;
	assert_int_equal(store_thread_init(&thread, &copy.table, 0), 0);
	before = has(&thread, watched.key, watched.before, watched.before_len);
	then = has(&thread, watched.key, watched.after, watched.after_len);
	if (!before && !then)
		fail_msg("killed after %s: %s has neither its old value nor the new one", after,
			 watched.key);
	if (!has(&thread, "other", 9, 100))
		fail_msg("killed after %s: another key has changed", after);
	assert_int_equal(put_of(&thread, wanted, watched.key, 99, 50), WIRE_OK);
	assert_true(has(&thread, watched.key, 99, 50));
	store_thread_release(&thread);
	store_destroy(&copy);
	watched.kills++;
}

void store_hook(const char *after)
{
	static bool inside; /* the recovery changes buckets, too */

	if (!watched.key || inside)
		return;
	inside = true;
	copy_files();
	assert_recovers(after);
	inside = false;
}

static void watch(uint64_t before, uint32_t before_len, uint64_t after, uint32_t after_len)
{
	watched.before = before;
	watched.before_len = before_len;
	watched.after = after;
	watched.after_len = after_len;
	watched.kills = 0;
	watched.key = "watched";
}

static void watch_end(unsigned int kills)
{
	watched.key = NULL;
	assert_true(watched.kills >= kills);
	assert_store(NULL);
}

#define EXTENT ((uint64_t)2 << 20)

static int setup_extents(void **state)
{
	(void)state;
	setup(state);
	test_store_destroy(&store);
	remove_files(file);
	options.bytes_max = EXTENTS_MAX * EXTENT;
	options.sweep_share = 5;
	again();
	return 0;
}

static void assert_extents(unsigned int extents)
{
	struct stat st;

	assert_int_equal(store.region.extent_count, extents);
	assert_int_equal(region_extents(&store.region), extents);
	assert_int_equal(stat(file, &st), 0);
	assert_true((uint64_t)st.st_size == EXTENTS_MAX * EXTENT);
	assert_true((uint64_t)st.st_blocks * 512 == extents * EXTENT);
}

/* The extents that exist are kept, whatever memory.size is; memory.max has to stay. */
static void extents_after_a_stop(void **state)
{
	const unsigned int at_start = REGION_BYTES / EXTENT;

	(void)state;
	assert_extents(at_start);
	assert_int_equal(region_extend(&store.region, &options, 7), 0);
	store_open_extents(&store, 7);
	fill(KEYS);
	assert_extents(7);
	restart();
	assert_int_equal(store.region.keep.found, KEEP_FOUND_CLEAN);
	assert_extents(7);
	assert_filled(KEYS);
	options.bytes_max *= 2;
	restart();
	assert_logged("memory.max was 32 MiB");
	assert_int_equal(store.region.extent_count, at_start / 2);
	options.bytes_max = 0;
	restart();
	assert_logged("memory.max was 64 MiB");
}

/* Stores the key, and returns where its item is. */
static uint64_t place_of(const char *key)
{
	uint32_t key_len = (uint32_t)strlen(key);
	struct item_ref ref;

	put(key, 1, VALUE_BYTES);
	assert_int_equal(lookup_get(&test_threads[0], hash_of(key, key_len), key, key_len, got,
				    sizeof(got), &ref),
			 WIRE_OK);
	return region_offset(&store.region, ref.item);
}

/* Killed before and after the new extents may have items. */
static void killed_in_growth(void **state)
{
	const unsigned int at_start = REGION_BYTES / EXTENT;
	unsigned int more = 0;
	char name[16];

	(void)state;
	fill(KEYS);
	assert_int_equal(region_extend(&store.region, &options, 7), 0);
	kill_and_restart();
	assert_extents(at_start);
	assert_filled(KEYS);
	assert_int_equal(region_extend(&store.region, &options, 7), 0);
	store_open_extents(&store, 7);
	do
		snprintf(name, sizeof(name), "more%u", more++);
	while (place_of(name) < REGION_BYTES);
	kill_and_restart();
	assert_extents(7);
	while (more--) {
		snprintf(name, sizeof(name), "more%u", more);
		assert_has(name, 1, VALUE_BYTES);
		assert_int_equal(test_store_delete(&store, name, (uint32_t)strlen(name)), WIRE_OK);
	}
	assert_filled(KEYS);
}

/* Kills while extents are emptied, after that, and after their memory was given back. */
static void killed_in_shrinking(void **state)
{
	static struct extents extents;
	uint64_t next;

	(void)state;
	assert_int_equal(region_extend(&store.region, &options, 7), 0);
	store_open_extents(&store, 7);
	put("other", 9, 100);
	put("watched", 3, VALUE_BYTES);
	for (unsigned int i = 0; i < 4; i++)
		put(i % 2 ? "a" : "b", i + 1, lengths[i + 8]);
	rcu_register_thread();
	assert_int_equal(extents_close(&extents, &store.table, 2), 0);
	watch(3, VALUE_BYTES, 3, VALUE_BYTES);
	do {
		next = extents_run(&extents, &test_threads[0]);
		/* A slow run may not have got to the first copy. */
		assert_true(!copy_extents || copy_extents == 7);
	} while (next);
	assert_int_equal(atomic_load(&extents.state), EXTENTS_CLOSED);
	store_hook("the extents were closed");
	assert_int_equal(copy_extents, 2);
	watch_end(15);
	rcu_unregister_thread();
	region_cut(&store.region);
	assert_extents(2);
	kill_and_restart();
	assert_extents(2);
	assert_has("watched", 3, VALUE_BYTES);
	assert_has("other", 9, 100);
}

/* Kills between the steps of a PUT that adds, replaces in place, or elsewhere. */
static void kills_in_puts(void **state)
{
	static const struct {
		uint32_t before, after;
	} cases[] = {
		{ 100, 100 },	  { 100, 90 },	      { 100, 2000 },	{ 2000, 0 },
		{ 2000, 100000 }, { 100000, 100000 }, { 100000, 2000 }, { 20000, 20001 },
	};

	(void)state;
	put("other", 9, 100);
	watch(0, 0, 1, 100);
	put("watched", 1, 100);
	watch_end(2);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		put("watched", i + 1, cases[i].before);
		watch(i + 1, cases[i].before, i + 2, cases[i].after);
		put("watched", i + 2, cases[i].after);
		watch_end(2);
	}
}

static void kills_in_deletes(void **state)
{
	static const uint32_t lens[] = { 100, 100000 };

	(void)state;
	put("other", 9, 100);
	for (unsigned int i = 0; i < 2; i++) {
		put("watched", 1, lens[i]);
		watch(1, lens[i], 0, 0);
		assert_int_equal(test_store_delete(&store, "watched", 7), WIRE_OK);
		watch_end(2);
	}
}

/* An item with an expiry time is hidden while a change decides whether it is live. */
static void kills_while_hidden(void **state)
{
	struct table_change change = {
		.key = "watched", .key_len = 7, .value = value, .value_len = 100, .ttl = 1000
	};
	uint64_t hash = hash_of("watched", 7);

	(void)state;
	put("other", 9, 100);
	value_make(value, 100, 0, 1);
	assert_int_equal(table_put(&test_threads[0], hash, &change), WIRE_OK);
	/* A change that fails leaves the item as it was. */
	watch(1, 100, 1, 100);
	change.mode = WIRE_ADD;
	assert_int_equal(table_put(&test_threads[0], hash, &change), WIRE_EXISTS);
	assert_int_equal(table_touch(&test_threads[0], hash, &change), WIRE_OK);
	watch_end(6);
	watch(1, 100, 2, 100);
	value_make(value, 100, 0, 2);
	change.mode = WIRE_SET;
	assert_int_equal(table_put(&test_threads[0], hash, &change), WIRE_OK);
	watch_end(4);
	watch(2, 100, 3, 3000);
	put("watched", 3, 3000);
	watch_end(4);
}

static struct item *item_of(const char *key)
{
	uint32_t key_len = (uint32_t)strlen(key);
	struct bucket *home = index_lock_home(&store.table, hash_of(key, key_len));
	struct chain_pos pos;

	do_chain_find(&test_threads[0], &pos, home, hash_of(key, key_len), key, key_len);
	bucket_unlock(home);
	return pos.item;
}

static void kills_in_moves(void **state)
{
	static const uint32_t lens[] = { 100, 5000, 150000 };

	(void)state;
	put("other", 9, 100);
	for (unsigned int i = 0; i < 3; i++) {
		put("watched", 1, lens[i]);
		watch(1, lens[i], 1, lens[i]);
		assert_int_equal(table_move_block(&test_threads[0], hash_of("watched", 7),
						  item_of("watched")),
				 WIRE_OK);
		watch_end(3);
	}
}

/* The index is split under the watched key, and its chain gets longer and shorter. */
static void kills_in_splits(void **state)
{
	char name[16];

	(void)state;
	put("other", 9, 100);
	put("watched", 1, 100);
	for (unsigned int i = 0; i < 150; i++) {
		key_name(name, i);
		if (i % 3)
			watched.key = NULL;
		else
			watch(1, 100, 1, 100);
		put(name, 1, 8);
	}
	watched.key = NULL;
	assert_store(NULL);
	assert_true(STAT(splits) > 0);
}

static _Atomic bool noted_end;

static void *note_again_and_again(void *argument)
{
	struct keep_change *change = argument;
	const struct item *item = item_of("watched");

	while (!atomic_load(&noted_end))
		keep_change_begin(change, store.region.base, item, item->sum, item, 200);
	return NULL;
}

/* A kill at any instant of a change that is noted twice finds a note. */
static void noted_all_the_time(void **state)
{
	struct keep_change *change = &store.region.keep.changes[0];
	unsigned int missing = 0;
	pthread_t thread;

	(void)state;
	put("watched", 1, 1000);
	assert_int_equal(pthread_create(&thread, NULL, note_again_and_again, change), 0);
	while (!__atomic_load_n(&change->new_at, __ATOMIC_ACQUIRE))
		sched_yield();
	for (unsigned int i = 0; i < 1000000; i++)
		missing += !__atomic_load_n(&change->new_at, __ATOMIC_RELAXED);
	atomic_store(&noted_end, true);
	pthread_join(thread, NULL);
	keep_change_end(change);
	assert_int_equal(missing, 0);
}

/* A recovery ends at its beginning, and so does the process; the next one finds that. */
static void cancelled_and_again(void)
{
	static _Atomic bool cancel = true;
	struct store_options all = options;

	test_store_destroy(&store);
	all.bytes = REGION_BYTES;
	all.level = LEVEL;
	all.value_max = VALUE_MAX;
	all.prefault = false; /* which would be cancelled first */
	all.cancel = &cancel;
	assert_int_equal(store_create(&store, &all), -ECANCELED);
	again();
	assert_int_equal(store.region.keep.found, KEEP_FOUND_KILLED);
}

/* A kill while the store is recovered: the next recovery finds both kinds of sums. */
static void kill_in_recovery(void **state)
{
	(void)state;
	fill(KEYS);
	store.region.keep.serves = false;
	cancelled_and_again();
	/* Half of the items have the sum of an incarnation that was never completed. */
	store.region.keep.head->incarnation[1] = 77;
	for (unsigned int i = 1; i < KEYS; i += 2) {
		char name[16];
		struct item *item;

		key_name(name, i);
		item = item_of(name);
		if (item)
			item->sum = item_sum(item, &store.region.sum_key, 77,
					     region_offset(&store.region, item));
	}
	store.region.keep.serves = false;
	for (unsigned int i = 0; i < test_thread_count; i++)
		store_thread_release(&test_threads[i]);
	store_destroy(&store);
	again();
	assert_true(store.region.geometry.incarnation == 77);
	assert_filled(KEYS);
}

/* So does one after a stop whose items get new sums, since limits.max_value is another. */
static void kill_in_renewal(void **state)
{
	(void)state;
	fill(KEYS);
	store.region.geometry.value_max = VALUE_MAX / 2;
	region_publish_geometry(&store.region);
	cancelled_and_again();
	assert_filled(KEYS);
}

/* What does not verify is not kept, and its memory is free. */
static void damaged(void **state)
{
	struct item *item;

	(void)state;
	put("short", 1, 60);
	put("long", 2, 3000);
	put("large", 3, 100000);
	put("header", 4, 60);
	put("whole", 5, 3000);
	put("sums", 6, 200000);
	put("larger", 7, 200000);
	item_value(item_of("short"))[7] ^= 1;
	item_value(item_of("long"))[1234] ^= 1;
	item_value(item_of("large"))[77777] ^= 1;
	item_piece_sums(item_of("sums"))[8] ^= 1;
	item = item_of("header");
	item->version ^= 1u << 20;
	store.region.keep.serves = false;
	for (unsigned int i = 0; i < test_thread_count; i++)
		store_thread_release(&test_threads[i]);
	store_destroy(&store);
	again();
	assert_has("short", 0, 0);
	assert_has("long", 0, 0);
	assert_has("large", 0, 0);
	assert_has("header", 0, 0);
	assert_has("sums", 0, 0);
	assert_has("whole", 5, 3000);
	assert_has("larger", 7, 200000);
	assert_true(store_items(&store) == 2);
	assert_store(NULL);
}

/* A flush that had got its version is finished; items stored since then are kept. */
static void kill_in_flush(void **state)
{
	(void)state;
	put("old", 1, 100);
	put("old large", 1, 100000);
	atomic_store(&store.region.keep.head->flushing, table_clock_max(&store.table));
	put("new", 2, 100);
	kill_and_restart();
	assert_has("old", 0, 0);
	assert_has("old large", 0, 0);
	assert_has("new", 2, 100);
	assert_true(store.region.keep.flushed);
	kill_and_restart();
	assert_has("new", 2, 100);
	assert_false(store.region.keep.flushed);
}

static void maintenance_again(struct maintenance *maintenance, bool begin)
{
	maintenance_release(maintenance);
	store.region.keep.serves = !begin;
	restart();
	assert_int_equal(
		maintenance_init(maintenance, &store.table, MAINTENANCE_THREAD_ID, 1, NULL), 0);
}

static void flushes_that_wait(void **state)
{
	static struct maintenance maintenance; /* the table knows its thread to the end */
	uint64_t now_ns = test_threads[0].now_ns, ticket, later;

	(void)state;
	assert_int_equal(
		maintenance_init(&maintenance, &store.table, MAINTENANCE_THREAD_ID, 1, NULL), 0);
	ticket = maintenance_flush(&maintenance, now_ns, 1000, "uid=7");
	for (unsigned int i = 0; i < 2; i++) {
		struct flush waiting[WIRE_FLUSHES_LATER_MAX];

		maintenance_again(&maintenance, i);
		assert_int_equal(maintenance_waiting(&maintenance, waiting), 1);
		assert_true(waiting[0].ticket == ticket && !waiting[0].begun);
		assert_string_equal(waiting[0].owner, "uid=7");
		assert_true(waiting[0].at_ns == now_ns + 1000 * SECOND_NS);
		maintenance.waiting[0].begun = maintenance.kept[0].begun = true;
	}
	/* Tickets are not given twice. */
	later = maintenance_flush(&maintenance, now_ns, 2000, "uid=7");
	assert_true(later > ticket);
	/* A flush with a version is finished by the recovery. */
	atomic_store(&store.region.keep.head->flushing, 1);
	maintenance_again(&maintenance, true);
	assert_true(maintenance_flushed(&maintenance, ticket));
	assert_false(maintenance_flushed(&maintenance, later));
	maintenance_release(&maintenance);
}

/* Items that are stale by marks, which are not kept, are removed when the store starts. */
static void stale_items_go(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		put("stale", 1, 100);
		put("replaced", 2, 100000);
		put("fresh", 3, 100);
		keep_note_stale(&store.region.keep, hash_of("stale", 5), item_of("stale")->version);
		keep_note_stale(&store.region.keep, hash_of("replaced", 8),
				item_of("replaced")->version);
		put("replaced", 4, 100000);
		store.region.keep.serves = i;
		restart();
		assert_int_equal(store_start(&store, NULL), 0);
		store_stop(&store);
		assert_has("stale", 0, 0);
		assert_has("replaced", 4, 100000);
		assert_has("fresh", 3, 100);
		restart();
	}
}

static void pins_stay(void **state)
{
	struct table_change change = {
		.key = "pinned",
		.key_len = 6,
		.value = value,
		.value_len = 5000,
		.wish = { .pin = 500 },
	};
	struct pins_stats before, after;

	(void)state;
	assert_int_equal(table_put(&test_threads[0], hash_of("pinned", 6), &change), WIRE_OK);
	pins_stats(store.pins, &before);
	assert_int_equal(before.items, 1);
	restart();
	pins_stats(store.pins, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	/* A killed thread may have held the lock. */
	memset(store.pins, 1, sizeof(uint32_t));
	store.region.keep.serves = false;
	for (unsigned int i = 0; i < test_thread_count; i++)
		store_thread_release(&test_threads[i]);
	store_destroy(&store);
	again();
	pins_stats(store.pins, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_store(NULL);
}

/* Versions of items from other servers, which may be far ahead of the time of day. */
static void versions_from_elsewhere(void **state)
{
	uint64_t ahead = table_clock_max(&store.table) + (1ull << 40);

	(void)state;
	table_raise_versions(&store.table, ahead);
	kill_and_restart();
	put("key", 1, 10);
	assert_true(item_of("key")->version >> THREAD_ID_BITS > ahead);
}

/* Of a store that has the clock of another one, the next process goes on with that. */
static void clock_of_another(void **state)
{
	uint64_t clock_base = store.table.clock_base + 1000 * SECOND_NS;

	(void)state;
	store_set_clock(&store, clock_base);
	restart();
	assert_true(store.table.clock_base == clock_base);
}

static void head_set_layout(struct keep_head *head)
{
	head->layout++;
}

static void head_set_boot(struct keep_head *head)
{
	head->boot[0] ^= 1;
}

static void head_set_state(struct keep_head *head)
{
	atomic_store(&head->state, KEEP_INCOMPLETE);
}

static void head_set_magic(struct keep_head *head)
{
	head->magic++;
}

static void head_set_nothing(struct keep_head *head)
{
	(void)head;
}

/* Files that are not used, with the reason in the log. */
static void begins_empty(void **state)
{
	static const struct {
		void (*change)(struct keep_head *head);
		const char *why;
		uint64_t bytes;
		bool cold;
		uint64_t hash_seed, value_max;
	} cases[] = {
		{ .change = head_set_layout, .why = "layout 7.4" },
		{ .change = head_set_boot, .why = "restarted" },
		{ .change = head_set_state, .why = "before it was complete" },
		{ .change = head_set_magic, .why = "not one of kvd's" },
		{ .change = head_set_nothing, .why = "memory.size was 8 MiB", .bytes = 16u << 20 },
		{ .change = head_set_nothing, .why = "memory.recover is cold", .cold = true },
		{ .change = head_set_nothing, .why = "another fleet", .hash_seed = 5 },
		{ .change = head_set_nothing, .why = "limits.max_value", .value_max = 1000 },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct store_options all = options;
		put("key", 1, 10);
		cases[i].change(store.region.keep.head);
		store.region.keep.serves = false;
		test_store_destroy(&store);
		all.bytes = cases[i].bytes ? cases[i].bytes : REGION_BYTES;
		all.level = LEVEL;
		all.value_max = cases[i].value_max ? cases[i].value_max : VALUE_MAX;
		all.recover = cases[i].cold ? RECOVER_COLD : RECOVER_VERIFY;
		all.hash_seed = cases[i].hash_seed;
		assert_int_equal(store_create(&store, &all), 0);
		assert_logged(cases[i].why);
		assert_int_equal(store.region.keep.found, KEEP_FOUND_NONE);
		assert_int_equal(store_items(&store), 0);
		store_destroy(&store);
		remove_files(file);
		again();
	}
}

/* Another process uses the files, or another user might. */
static void refused(void **state)
{
	struct store_options all = options;
	struct store other;

	(void)state;
	all.bytes = REGION_BYTES;
	all.level = LEVEL;
	all.value_max = VALUE_MAX;
	assert_int_equal(store_create(&other, &all), -EBUSY);
	put("key", 1, 10);
	test_store_destroy(&store);
	assert_int_equal(chmod(file, 0644), 0);
	assert_int_equal(store_create(&other, &all), -EPERM);
	assert_int_equal(chmod(file, 0600), 0);
	assert_int_equal(rename(file, copy_file), 0);
	assert_int_equal(symlink(copy_file, file), 0);
	assert_int_equal(store_create(&other, &all), -ELOOP);
	assert_int_equal(rename(copy_file, file), 0);
	again();
	assert_has("key", 1, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(after_a_stop, setup, teardown),
		cmocka_unit_test_setup_teardown(after_a_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(index_after_a_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(many_pieces_after_a_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(extents_after_a_stop, setup_extents, teardown),
		cmocka_unit_test_setup_teardown(killed_in_growth, setup_extents, teardown),
		cmocka_unit_test_setup_teardown(killed_in_shrinking, setup_extents, teardown),
		cmocka_unit_test_setup_teardown(kills_in_puts, setup, teardown),
		cmocka_unit_test_setup_teardown(kills_in_deletes, setup, teardown),
		cmocka_unit_test_setup_teardown(kills_while_hidden, setup, teardown),
		cmocka_unit_test_setup_teardown(kills_in_moves, setup, teardown),
		cmocka_unit_test_setup_teardown(kills_in_splits, setup, teardown),
		cmocka_unit_test_setup_teardown(noted_all_the_time, setup, teardown),
		cmocka_unit_test_setup_teardown(kill_in_recovery, setup, teardown),
		cmocka_unit_test_setup_teardown(kill_in_renewal, setup, teardown),
		cmocka_unit_test_setup_teardown(damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(kill_in_flush, setup, teardown),
		cmocka_unit_test_setup_teardown(flushes_that_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(stale_items_go, setup, teardown),
		cmocka_unit_test_setup_teardown(pins_stay, setup_evicts, teardown),
		cmocka_unit_test_setup_teardown(versions_from_elsewhere, setup, teardown),
		cmocka_unit_test_setup_teardown(clock_of_another, setup, teardown),
		cmocka_unit_test_setup_teardown(begins_empty, setup, teardown),
		cmocka_unit_test_setup_teardown(refused, setup, teardown),
	};
	int failed;

	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	path_in(file, "region");
	path_in(copy_file, "copy");
	failed = cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
	remove_files(file);
	remove_files(copy_file);
	rmdir(folder);
	return failed;
}
