/* SPDX-License-Identifier: MIT */
/*
 * Tests of changes of large items in steps: a step's work is bounded, no bucket is
 * locked between steps, nothing is summed under the lock, and whatever happens to the key between
 * two steps, the result is one of a whole operation.
 */
#include "server/store/large.h"

#include <urcu-qsbr.h>

#include "common/barrier.h"
#include "tests/support/store_test.h"

#define REGION_BYTES (512u << 20)
#define VALUE_BYTES (64u << 20)
#define SMALL_BYTES (300u << 10) /* large, but quick */
#define MORE_BYTES 1000u
#define STEP_BYTES (64u << 10)
#define TTL 100

static const uint64_t key = 1;
static uint64_t neighbour; /* another key of its bucket */
static uint8_t *value, *more, *expected;
static struct large large;

static int group_setup(void **state)
{
	(void)state;
	value = malloc(VALUE_BYTES);
	expected = malloc(VALUE_BYTES + MORE_BYTES);
	more = malloc(SMALL_BYTES);
	if (!value || !expected || !more)
		return -1;
	value_make(value, VALUE_BYTES, 1, 2);
	value_make(more, SMALL_BYTES, 3, 4);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	free(value);
	free(expected);
	free(more);
	return 0;
}

static int setup(void **state)
{
	const struct store_options options = { .fill = STORE_NO_GROWTH };

	(void)state;
	rcu_register_thread();
	test_store_create_with(&store, REGION_BYTES, 4, 2, &options);
	set_now(ENGINE_NOW_NS);
	neighbour = 0;
	test_store_collide(&store, key, false, &neighbour);
	return 0;
}

/* assert_store() also finds what was allocated and not freed. */
static int teardown(void **state)
{
	(void)state;
	assert_store(NULL);
	test_store_destroy(&store);
	rcu_unregister_thread();
	return 0;
}

static void put_value(uint32_t len)
{
	assert_int_equal(test_store_put(&store, &key, 8, value, len, NULL), WIRE_OK);
}

static uint64_t hash(void)
{
	return hash_of(&key, 8);
}

static struct table_change change_of(enum wire_put mode)
{
	return (struct table_change){
		.key = &key, .key_len = 8, .mode = mode, .value = more, .value_len = MORE_BYTES
	};
}

/* A change of another key of the bucket, by another thread; it would wait for the bucket's lock. */
static void put_neighbour(void)
{
	struct table_change change = {
		.key = &neighbour, .key_len = 8, .value = "n", .value_len = 1
	};

	assert_int_equal(test_store_home(&store, &key, 8)->lock, 0);
	assert_int_equal(table_put(&test_threads[1], hash_of(&neighbour, 8), &change), WIRE_OK);
}

/* A step, after a quiescent state and a change of another key. Checks what it worked. */
static enum large_next step(void)
{
	uint64_t done = large.value_done;
	enum large_next next;

	rcu_quiescent_state();
	put_neighbour();
	next = large_step(&large, STEP_BYTES);
	if (large.state == LARGE_VALUE && large.value_done)
		assert_in_range(large.value_done - done, 1, STEP_BYTES);
	assert_int_not_equal(next, LARGE_RETRY);
	return next;
}

/* Steps until it has a part of the body. */
static void step_into_value(void)
{
	while (large.state != LARGE_VALUE || large.value_done < 2 * STEP_BYTES)
		assert_int_equal(step(), LARGE_AGAIN);
}

static unsigned int steps_to_end(void)
{
	unsigned int n = 1;

	while (step() != LARGE_DONE)
		n++;
	return n;
}

static void assert_value(const void *bytes, uint32_t len)
{
	struct store_value out;
	uint8_t *buffer = malloc(len);

	assert_non_null(buffer);
	assert_int_equal(test_store_get(&store, &key, 8, buffer, len, &out), WIRE_OK);
	assert_int_equal(out.value_len, len);
	assert_memory_equal(buffer, bytes, len);
	free(buffer);
}

/* What @len bytes of the value and MORE_BYTES of the other are together. */
static void expect(enum wire_put mode, const uint8_t *old, uint32_t len)
{
	bool appends = mode == WIRE_APPEND;

	memcpy(expected + (appends ? 0 : MORE_BYTES), old, len);
	memcpy(expected + (appends ? len : 0), more, MORE_BYTES);
}

static struct item *item_of_key(void)
{
	struct item_ref ref;

	assert_int_equal(lookup_find(&test_threads[0], hash(), &key, 8, &ref), LOOKUP_FOUND);
	return ref.item;
}

/*
 * An append of 64 MiB is made in steps, with no lock in between and no work of that size at the
 * end: what was wrong in the memory then is not in the sum.
 */
static void extends(enum wire_put mode)
{
	const struct table_change change = change_of(mode);
	struct item *item;
	uint64_t sum;

	put_value(VALUE_BYTES);
	large_append(&large, &test_threads[0], hash(), &change);
	while (large.state != LARGE_END)
		assert_int_equal(step(), LARGE_AGAIN);
	item = large.item;
	item_value(item)[VALUE_BYTES / 2] ^= 1;
	assert_int_equal(step(), LARGE_DONE);
	item_value(item)[VALUE_BYTES / 2] ^= 1;
	assert_int_equal(large.status, WIRE_OK);
	sum = item_sum(item, &store.region.sum_key, store.region.geometry.incarnation,
		       region_offset(&store.region, item));
	assert_int_equal(item->sum, sum);
	assert_true(item_value_verifies(item, &store.region.sum_key));
	assert_int_equal(large.change.version, item->version);
	expect(mode, value, VALUE_BYTES);
	assert_value(expected, VALUE_BYTES + MORE_BYTES);
}

static void append_in_steps(void **state)
{
	(void)state;
	extends(WIRE_APPEND);
}

static void prepend_in_steps(void **state)
{
	(void)state;
	extends(WIRE_PREPEND);
}

/* A touch is made under the lock, since it sums header and key only. */
static void touch_sums_no_value(void **state)
{
	struct table_change change = { .key = &key, .key_len = 8, .ttl = TTL };
	struct item *item;
	uint64_t version, sum;

	(void)state;
	put_value(VALUE_BYTES);
	item = item_of_key();
	version = item->version;
	item_value(item)[VALUE_BYTES / 2] ^= 1;
	assert_int_equal(table_touch(&test_threads[0], hash(), &change), WIRE_OK);
	item_value(item)[VALUE_BYTES / 2] ^= 1;
	sum = item_sum(item, &store.region.sum_key, store.region.geometry.incarnation,
		       region_offset(&store.region, item));
	assert_int_equal(item->sum, sum);
	assert_true(item_value_verifies(item, &store.region.sum_key));
	assert_int_equal(item->version, version);
	assert_int_equal(item->expires, ENGINE_NOW_NS / SECOND_NS + 1 + TTL);
	assert_int_equal(change.expires, item->expires);
	assert_value(value, VALUE_BYTES);
}

/* A value is summed as it arrives. */
static void commit_as_it_arrives(void **state)
{
	struct table_change change = {
		.key = &key, .key_len = 8, .value_len = SMALL_BYTES, .mode = WIRE_SET
	};
	struct item *item = table_reserve(&test_threads[0], &change);

	(void)state;
	assert_non_null(item);
	large_commit(&large, &test_threads[0], hash(), item, &change);
	assert_int_equal(large_step(&large, STEP_BYTES), LARGE_WAIT);
	for (uint32_t at = 0; at < SMALL_BYTES; at += 100000) {
		large.arrived = SMALL_BYTES - at < 100000 ? SMALL_BYTES : at + 100000;
		memcpy((uint8_t *)table_reserved_value(item) + at, value + at, large.arrived - at);
		while (large.state == LARGE_VALUE && large.value_done < large.arrived)
			assert_int_equal(step(), LARGE_AGAIN);
		if (large.arrived < SMALL_BYTES)
			assert_int_equal(large_step(&large, STEP_BYTES), LARGE_WAIT);
	}
	assert_int_equal(step(), LARGE_DONE);
	assert_int_equal(large.status, WIRE_OK);
	assert_value(value, SMALL_BYTES);
}

/* A value that is appended and arrives. */
static void pulled_append_in_steps(void **state)
{
	struct table_change change = {
		.key = &key, .key_len = 8, .value_len = MORE_BYTES, .mode = WIRE_APPEND
	};
	struct item *item = table_reserve(&test_threads[0], &change);

	(void)state;
	put_value(SMALL_BYTES);
	memcpy(table_reserved_value(item), more, MORE_BYTES);
	large_commit(&large, &test_threads[0], hash(), item, &change);
	large.arrived = MORE_BYTES;
	steps_to_end();
	assert_int_equal(large.status, WIRE_OK);
	expect(WIRE_APPEND, value, SMALL_BYTES);
	assert_value(expected, SMALL_BYTES + MORE_BYTES);
}

/* What other threads do to the key between two steps. */

static void replace(void)
{
	struct table_change change = {
		.key = &key, .key_len = 8, .value = value + 8, .value_len = SMALL_BYTES - 8
	};

	assert_int_equal(table_put(&test_threads[1], hash(), &change), WIRE_OK);
}

static void replace_by_small(void)
{
	struct table_change change = { .key = &key, .key_len = 8, .value = value, .value_len = 10 };

	assert_int_equal(table_put(&test_threads[1], hash(), &change), WIRE_OK);
}

static void delete (void)
{
	const struct table_change change = { .key = &key, .key_len = 8 };

	assert_int_equal(table_delete(&test_threads[1], hash(), &change), WIRE_OK);
}

static void touch(void)
{
	struct table_change change = { .key = &key, .key_len = 8, .ttl = 2 * TTL };

	assert_int_equal(table_touch(&test_threads[1], hash(), &change), WIRE_OK);
}

static void move(void)
{
	assert_int_equal(table_move_block(&test_threads[1], hash(), item_of_key()), WIRE_OK);
}

static void begin(void)
{
	const struct table_change change = change_of(WIRE_APPEND);

	large_append(&large, &test_threads[0], hash(), &change);
}

/* Begins an append, runs @between in its middle, and ends it. Returns the restarts. */
static unsigned int interrupted(void (*between)(void))
{
	put_value(SMALL_BYTES);
	begin();
	step_into_value();
	between();
	steps_to_end();
	return large.restarts;
}

static void append_interrupted(void **state)
{
	(void)state;
	assert_int_equal(interrupted(replace), 1);
	assert_int_equal(large.status, WIRE_OK);
	expect(WIRE_APPEND, value + 8, SMALL_BYTES - 8);
	assert_value(expected, SMALL_BYTES - 8 + MORE_BYTES);

	assert_int_equal(interrupted(replace_by_small), 1);
	assert_int_equal(large.status, WIRE_OK);
	expect(WIRE_APPEND, value, 10);
	assert_value(expected, 10 + MORE_BYTES);

	assert_int_equal(interrupted(delete), 1);
	assert_int_equal(large.status, WIRE_NOT_FOUND);

	/* The expiry time is that of the touch; and a move does not matter. */
	assert_int_equal(interrupted(touch), 0);
	assert_int_equal(large.status, WIRE_OK);
	assert_int_equal(large.change.expires, ENGINE_NOW_NS / SECOND_NS + 1 + 2 * TTL);
	assert_int_equal(interrupted(move), 0);
	assert_int_equal(large.status, WIRE_OK);
	expect(WIRE_APPEND, value, SMALL_BYTES);
	assert_value(expected, SMALL_BYTES + MORE_BYTES);
}

/* No byte is copied of another version, which may be shorter. */
static void begins_again_at_once(void **state)
{
	(void)state;
	put_value(SMALL_BYTES);
	begin();
	step_into_value();
	replace_by_small();
	step();
	assert_int_equal(large.restarts, 1);
	steps_to_end();
	assert_int_equal(large.restarts, 1);
	expect(WIRE_APPEND, value, 10);
	assert_value(expected, 10 + MORE_BYTES);
}

/* Between the last byte and the end. */
static void interrupted_at_the_end(void **state)
{
	const struct table_change append = change_of(WIRE_APPEND);

	(void)state;
	put_value(SMALL_BYTES);
	large_append(&large, &test_threads[0], hash(), &append);
	while (large.state != LARGE_END)
		step();
	replace();
	steps_to_end();
	assert_int_equal(large.restarts, 1);
	/* Not that of the item that was prepared first, whose memory is another's by now. */
	assert_ptr_equal(large.change.key, &key);
	expect(WIRE_APPEND, value + 8, SMALL_BYTES - 8);
	assert_value(expected, SMALL_BYTES - 8 + MORE_BYTES);
	/* The append, and not what replaced the key. */
	assert_int_equal(STAT(large_changes), 1);
	assert_int_equal(STAT(large_restarts), 1);
}

/*
 * Another thread is changing the item: the step is tried again, and the time for that begins anew
 * each time.
 */
static void being_changed(void **state)
{
	struct item *item;
	uint64_t sum;

	(void)state;
	put_value(SMALL_BYTES);
	item = item_of_key();
	sum = item->sum;
	begin();
	for (unsigned int i = 0; i < 2; i++) {
		if (i)
			step_into_value();
		item_invalidate(item);
		if (i) {
			assert_int_equal(large_step(&large, STEP_BYTES), LARGE_RETRY);
			assert_int_equal(large_step(&large, STEP_BYTES), LARGE_RETRY);
			assert_int_not_equal(large.retry_since_ns, 0);
		}
		item_publish(item, sum);
		assert_int_equal(large_step(&large, STEP_BYTES), LARGE_AGAIN);
		assert_int_equal(large.retry_since_ns, 0);
	}
	item_invalidate(item);
	assert_int_equal(large_step(&large, STEP_BYTES), LARGE_RETRY);
	large.retry_since_ns = clock_ns() - LOOKUP_NS_MAX;
	assert_int_equal(large_step(&large, STEP_BYTES), LARGE_DONE);
	assert_int_equal(large.status, WIRE_BUSY);
	item_publish(item, sum);
	assert_value(value, SMALL_BYTES);
	assert_int_equal(STAT(lookup_retries), 4);
}

/* A key that is replaced all the time: the change gives up, after a bounded number of tries. */
static void replaced_all_the_time(void **state)
{
	unsigned int n = 0;

	(void)state;
	put_value(SMALL_BYTES);
	begin();
	do {
		replace();
		assert_true(++n < 10 * LARGE_RESTARTS_MAX);
	} while (step() != LARGE_DONE);
	assert_int_equal(large.status, WIRE_BUSY);
	assert_value(value + 8, SMALL_BYTES - 8);
	assert_int_equal(item_of_key()->expires, 0);
}

/* Cancelled after any number of steps, it has changed nothing and keeps no memory. */
static void cancelled(void **state)
{
	uint64_t free_bytes;

	(void)state;
	put_value(SMALL_BYTES);
	put_neighbour();
	limbo_empty(&test_threads[0].limbo, &test_threads[0].cache);
	free_bytes = memory_free_bytes(store.memory);
	for (unsigned int n = 0; n < 8; n++) {
		begin();
		for (unsigned int j = 0; j < n && large.state != LARGE_END; j++)
			step();
		large_cancel(&large);
		assert_int_equal(memory_free_bytes(store.memory), free_bytes);
	}
	assert_value(value, SMALL_BYTES);
	assert_int_equal(item_of_key()->expires, 0);
}

/* Without memory a change is given up after room could not be made. */
static void no_memory(void **state)
{
	struct mem_cache *cache = &test_threads[0].cache;
	static void *blocks[1000];
	static size_t sizes[1000];
	unsigned int n = 0;

	(void)state;
	put_value(SMALL_BYTES);
	for (size_t next = VALUE_BYTES; next > SMALL_BYTES / 2; next /= 2)
		while ((blocks[n] = mem_alloc(cache, next)))
			sizes[n++] = next;
	begin();
	large_run(&large);
	assert_int_equal(large.status, WIRE_NO_SPACE);
	assert_int_equal(STAT(rooms_failed), 1);
	assert_value(value, SMALL_BYTES);
	while (n--)
		mem_free(cache, blocks[n], sizes[n]);
	begin();
	large_run(&large);
	assert_int_equal(large.status, WIRE_OK);
}

/* Expired between two steps, or before the first: as if it was not there. */
static void expires_meanwhile(void **state)
{
	struct table_change put = {
		.key = &key, .key_len = 8, .value = value, .value_len = SMALL_BYTES, .ttl = 1
	};

	(void)state;
	assert_int_equal(table_put(&test_threads[0], hash(), &put), WIRE_OK);
	set_now(put.expires * SECOND_NS);
	begin();
	assert_int_equal(steps_to_end(), 1);
	assert_int_equal(large.status, WIRE_NOT_FOUND);
	assert_int_equal(table_put(&test_threads[0], hash(), &put), WIRE_OK);
	begin();
	step_into_value();
	set_now(test_threads[0].now_ns + 3 * SECOND_NS);
	steps_to_end();
	assert_int_equal(large.status, WIRE_NOT_FOUND);
}

/* Nothing changes for what is small, or too large. */
static void other_sizes(void **state)
{
	const uint64_t value_max = store.region.geometry.value_max;
	struct table_change change = change_of(WIRE_APPEND);

	(void)state;
	put_value(100);
	large_append(&large, &test_threads[0], hash(), &change);
	assert_int_equal(steps_to_end(), 1);
	assert_int_equal(large.status, WIRE_OK);
	large_append(&large, &test_threads[0], hash_of("none", 4),
		     &(struct table_change){ .key = "none", .key_len = 4, .mode = WIRE_APPEND });
	assert_int_equal(steps_to_end(), 1);
	assert_int_equal(large.status, WIRE_NOT_FOUND);
	store.region.geometry.value_max = SMALL_BYTES + 10;
	put_value(SMALL_BYTES);
	large_append(&large, &test_threads[0], hash(), &change);
	assert_int_equal(steps_to_end(), 1);
	assert_int_equal(large.status, WIRE_TOO_LARGE);
	assert_value(value, SMALL_BYTES);
	store.region.geometry.value_max = value_max;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(append_in_steps),
		CASE(prepend_in_steps),
		CASE(touch_sums_no_value),
		CASE(commit_as_it_arrives),
		CASE(pulled_append_in_steps),
		CASE(append_interrupted),
		CASE(begins_again_at_once),
		CASE(interrupted_at_the_end),
		CASE(being_changed),
		CASE(replaced_all_the_time),
		CASE(cancelled),
		CASE(no_memory),
		CASE(expires_meanwhile),
		CASE(other_sizes),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
