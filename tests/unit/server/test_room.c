/* SPDX-License-Identifier: MIT */
/*
 * Tests of making room in steps (server/store/room.h): what one step does is bounded, all steps
 * together do what room_run() does, a room can be cancelled after any step, and rooms that are made
 * at the same time don't fail because of each other.
 */
#include "server/store/room.h"

#include <urcu-qsbr.h>

#include "tests/support/form.h"
#include "tests/support/store_test.h"
#include "tests/support/test_clock.h"

#define REGION_BYTES (16u << 20)
#define LARGE_VALUE (1u << 20)
#define HUGE_VALUE (4u << 20)
#define FILL 65
#define STEPS_MAX 1000000u

/* As in server/store/room.c, evicted or moved by one step; evict.c; and evacuate.c. */
#define ITEMS_STEP 4
#define MOVE_STEP (64u << 10)
#define CLOSE_STEP (128u * PAGE_BYTES)
/* The pause after a room that failed. */
#define RETRY_NS 10000000u

static uint8_t value[HUGE_VALUE];

static void create(enum eviction_policy policy)
{
	const struct store_options options = { .fill = FILL, .eviction = policy };

	test_store_create_with(&store, REGION_BYTES, 15, 2, &options);
	/* With a random one, some stores would have a slab of overflow buckets. */
	store.region.geometry.hash_seed = 1;
	region_publish_geometry(&store.region);
	set_now(ENGINE_NOW_NS);
}

static int setup(void **state)
{
	(void)state;
	create(EVICTION_OBJECT_HITS);
	return 0;
}

static int setup_none(void **state)
{
	(void)state;
	create(EVICTION_NONE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_store(NULL);
	test_store_destroy(&store);
	return 0;
}

static enum wire_status put(uint64_t key, uint32_t len)
{
	return test_store_put(&store, &key, 8, value, len, NULL);
}

static void delete (uint64_t key)
{
	assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
}

/* Puts values until one was evicted, or did not fit. Returns the key after the last one. */
static uint64_t fill(uint64_t key, uint32_t len)
{
	uint64_t evicted = STAT(evictions);

	while (put(key, len) == WIRE_OK) {
		key++;
		if (STAT(evictions) > evicted)
			break;
	}
	return key;
}

static uint64_t evacuating(void)
{
	struct memory_stats stats;

	memory_stats(store.memory, &stats);
	return stats.evacuating;
}

/* Nothing of what was in the struct before matters. */
static void begin(struct room *room, unsigned int thread, size_t bytes)
{
	memset(room, 1, sizeof(*room));
	room_init(room);
	room_begin(room, &test_threads[thread], bytes);
}

/* Nothing is closed any more, and no room counts as open. */
static void assert_all_open(void)
{
	assert_int_equal(evacuating(), 0);
	assert_int_equal(mem_evacuations(store.memory), 0);
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int j = 0; j < 2; j++)
			assert_int_equal(test_threads[i].rooms_open[j], 0);
}

static void free_block(struct room *room)
{
	assert_non_null(room->block);
	room_cancel(room);
}

static void step_is_bounded(struct room *room, enum room_next *next)
{
	uint64_t items = STAT(evictions) + STAT(moves), closed = evacuating();
	uint64_t done = room->emptying.moving ? room->emptying.move.done : 0;

	*next = room_step(room);
	assert_true(STAT(evictions) + STAT(moves) - items <= ITEMS_STEP);
	/* A span is closed whole. */
	assert_true((int64_t)(evacuating() - closed) <= (int64_t)(CLOSE_STEP + LARGE_VALUE));
	if (room->emptying.moving)
		assert_true(room->emptying.move.done - done <= MOVE_STEP);
}

static unsigned int run_bounded(struct room *room)
{
	enum room_next next;
	unsigned int steps = 0;

	do {
		step_is_bounded(room, &next);
		rcu_quiescent_state();
		assert_true(++steps < STEPS_MAX);
	} while (next != ROOM_DONE);
	return steps;
}

/* Room for one value in a store full of small items takes many steps, each of which does little. */
static void steps_are_bounded(void **state)
{
	struct room room;

	(void)state;
	fill(0, 100);
	begin(&room, 0, HUGE_VALUE);
	assert_false(room_try(&room));
	assert_int_equal(evacuating(), 0);
	assert_true(run_bounded(&room) > HUGE_VALUE / 256);
	free_block(&room);
	assert_all_open();
	assert_int_equal(STAT(rooms), 1);
}

/* A large item that is in the way is moved in parts. */
static void large_items_move_in_steps(void **state)
{
	uint64_t key, end;
	unsigned int steps;
	struct room room;

	(void)state;
	end = fill(0, LARGE_VALUE);
	/* Runs of free pages that are too short for the value, and large items between them. */
	for (key = 1; key < end; key += 2)
		delete (key);
	store_thread_idle(&test_threads[0]);
	begin(&room, 0, HUGE_VALUE);
	assert_false(room_try(&room));
	steps = run_bounded(&room);
	print_message("%u steps\n", steps);
	assert_true(STAT(moves) > 0);
	assert_true(steps > STAT(moves) * (LARGE_VALUE / MOVE_STEP));
	assert_int_equal(STAT(evictions), 0);
	free_block(&room);
	assert_all_open();
}

/* What making room came to. */
struct outcome {
	uint64_t offset, evictions, moves, evacuations;
};

static struct outcome outcome_of(bool at_once, uint32_t full_of, size_t bytes)
{
	struct room room;
	struct outcome outcome;

	create(EVICTION_OBJECT_HITS);
	fill(0, full_of);
	begin(&room, 0, bytes);
	if (at_once)
		room_run(&room);
	else if (!room_try(&room))
		run_bounded(&room);
	outcome = (struct outcome){
		.offset = region_offset(&store.region, room.block),
		.evictions = STAT(evictions),
		.moves = STAT(moves),
		.evacuations = STAT(evacuations),
	};
	free_block(&room);
	assert_all_open();
	assert_store(NULL);
	test_store_destroy(&store);
	return outcome;
}

static void steps_do_the_same(void **state)
{
	static const uint32_t full_of[] = { 100, 1000, 40000 };
	static const size_t bytes[] = { 200, 5000, 40000, LARGE_VALUE, ROOM_BUCKET };

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		for (unsigned int j = long_form() ? 0 : i; j < 5; j += long_form() ? 1 : 3) {
			struct outcome once = outcome_of(true, full_of[i], bytes[j]);
			struct outcome steps = outcome_of(false, full_of[i], bytes[j]);

			assert_memory_equal(&once, &steps, sizeof(once));
		}
}

/* Cancelled after @steps, in the long form in every state: what was closed is given back. */
static void cancelled_after(unsigned int steps, size_t bytes, bool *ended)
{
	struct room room;

	store_thread_idle(&test_threads[0]);
	begin(&room, 0, bytes);
	*ended = room_try(&room);
	while (!*ended && steps--)
		*ended = room_step(&room) == ROOM_DONE;
	room_cancel(&room);
	assert_false(room_pending(&room));
	assert_null(room.block);
	assert_all_open();
	store_thread_idle(&test_threads[0]);
	/* All that is allocated is in the table. */
	assert_store(NULL);
}

static void cancel_with(size_t bytes, uint32_t full_of, unsigned int stride)
{
	unsigned int steps;
	bool ended = false;
	uint64_t key = 0;

	if (!long_form())
		stride *= 29;
	for (steps = 0; !ended; steps += stride) {
		key = fill(key, full_of);
		cancelled_after(steps, bytes, &ended);
	}
	assert_true(steps > stride);
}

static void cancelled(void **state)
{
	(void)state;
	cancel_with(LARGE_VALUE, 100, 511);
	cancel_with(200, 3000, 1);
	cancel_with(ROOM_BUCKET, 3000, 3);
}

/* Before its first step there is nothing to give back. */
static void cancelled_at_once(void **state)
{
	static const size_t sizes[] = { 200, LARGE_VALUE, ROOM_BUCKET };
	struct room room;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		begin(&room, 0, sizes[i]);
		room_cancel(&room);
		assert_false(room_pending(&room));
		assert_null(room.block);
		assert_all_open();
		/* Once more does nothing. */
		room_cancel(&room);
		assert_all_open();
	}
}

/* In the middle of a move: the copy is freed, and the item is where it was. */
static void cancelled_while_moving(void **state)
{
	uint64_t key, end, free_bytes;
	struct room room;

	(void)state;
	end = fill(0, LARGE_VALUE);
	for (key = 1; key < end; key += 2)
		delete (key);
	store_thread_idle(&test_threads[0]);
	free_bytes = memory_free_bytes(store.memory);
	begin(&room, 0, HUGE_VALUE);
	while (!room.emptying.moving || !room.emptying.move.done)
		assert_int_equal(room_step(&room), ROOM_AGAIN);
	room_cancel(&room);
	assert_all_open();
	assert_int_equal(memory_free_bytes(store.memory), free_bytes);
	for (key = 0; key < end; key += 2)
		assert_int_equal(test_store_get(&store, &key, 8, NULL, 0,
						&(struct store_value){ 0 }),
				 WIRE_OK);
}

/* Many rooms of two threads take turns: all get their block, and few have memory closed. */
static void rooms_take_turns(void **state)
{
	static const size_t sizes[] = { 200, LARGE_VALUE, 1000, 40000, ROOM_BUCKET, 6000 };
	static struct room rooms[24];
	unsigned int i, left, waits = 0, rounds = 0;

	(void)state;
	fill(0, 100);
	for (i = 0; i < 24; i++)
		begin(&rooms[i], i % 2,
		      sizes[i % 6] == LARGE_VALUE && i > 5 ? 300000 : sizes[i % 6]);
	do {
		for (i = left = 0; i < 24; i++) {
			if (!room_pending(&rooms[i]))
				continue;
			waits += room_step(&rooms[i]) == ROOM_WAIT;
			left++;
		}
		for (i = 0; i < 4; i++)
			assert_true(test_threads[i / 2].rooms_open[i % 2] <= ROOMS_OPEN_MAX);
		rcu_quiescent_state();
		assert_true(++rounds < STEPS_MAX);
	} while (left);
	assert_true(waits > 0);
	for (i = 0; i < 24; i++)
		free_block(&rooms[i]);
	assert_all_open();
}

/* Begins rooms of a thread until as many slabs are closed as may be. */
static void close_slabs(struct room *rooms, unsigned int thread)
{
	for (unsigned int i = 0; i < ROOMS_OPEN_MAX; i++) {
		begin(&rooms[i], thread, ROOM_BUCKET);
		while (!rooms[i].open)
			assert_int_equal(room_step(&rooms[i]), ROOM_AGAIN);
	}
	assert_int_equal(test_threads[thread].rooms_open[0], ROOMS_OPEN_MAX);
}

/*
 * Others have slabs closed. The items of one class are hot, so their memory would not be taken, but
 * a PUT of their size gets its block at once.
 */
static void small_rooms_do_not_wait(void **state)
{
	static struct room others[ROOMS_OPEN_MAX];
	uint64_t evictions;
	struct room room;
	unsigned int i;

	(void)state;
	fill(0, 100);
	for (uint64_t key = 1u << 20; key < (1u << 20) + 2000; key++)
		put(key, 1000);
	close_slabs(others, 0);
	for (i = 0; i < 50; i++) {
		evictions = STAT(evictions);
		begin(&room, 0, item_bytes_for(8, 1000, 0));
		assert_true(room_try(&room));
		assert_true(STAT(evictions) - evictions <= ITEMS_STEP);
		free_block(&room);
	}
	for (i = 0; i < ROOMS_OPEN_MAX; i++)
		room_cancel(&others[i]);
	assert_all_open();
}

/* Room for large items, that take their time, is counted by itself: buckets do not wait for it. */
static void large_rooms_are_apart(void **state)
{
	static struct room large[ROOMS_OPEN_MAX + 1], other;
	enum room_next next;

	(void)state;
	fill(0, 100);
	for (unsigned int i = 0; i < ROOMS_OPEN_MAX; i++) {
		begin(&large[i], 0, LARGE_VALUE);
		while (!large[i].open)
			assert_int_equal(room_step(&large[i]), ROOM_AGAIN);
	}
	assert_int_equal(test_threads[0].rooms_open[0], 0);
	assert_int_equal(test_threads[0].rooms_open[1], ROOMS_OPEN_MAX);
	begin(&large[ROOMS_OPEN_MAX], 0, LARGE_VALUE);
	while ((next = room_step(&large[ROOMS_OPEN_MAX])) == ROOM_AGAIN)
		;
	assert_int_equal(next, ROOM_WAIT);
	assert_false(large[ROOMS_OPEN_MAX].open);
	/* A large item that takes no more than a slab is one of the others. */
	begin(&other, 0, SLAB_BYTES_MAX);
	while (!other.open)
		assert_int_equal(room_step(&other), ROOM_AGAIN);
	assert_int_equal(test_threads[0].rooms_open[0], 1);
	room_cancel(&other);
	begin(&other, 0, ROOM_BUCKET);
	while ((next = room_step(&other)) != ROOM_DONE)
		assert_int_equal(next, ROOM_AGAIN);
	free_block(&other);
	for (unsigned int i = 0; i <= ROOMS_OPEN_MAX; i++)
		room_cancel(&large[i]);
	assert_all_open();
}

/* All steps at once wait for nobody's turn: the thread's own rooms would not get on meanwhile. */
static void all_at_once_beside_others(void **state)
{
	static struct room others[ROOMS_OPEN_MAX];
	size_t bytes = item_bytes_for(8, 5000, 0);
	void *block;

	(void)state;
	fill(0, 100);
	close_slabs(others, 0);
	block = room_make(&test_threads[0], bytes);
	assert_non_null(block);
	mem_free(&test_threads[0].cache, block, bytes);
	for (unsigned int i = 0; i < ROOMS_OPEN_MAX; i++)
		room_cancel(&others[i]);
	assert_all_open();
}

/* An item is reserved for a value that is pulled: others are evicted for it. */
static void reserved_in_full_memory(void **state)
{
	static const uint32_t lens[] = { 100, 5000, 40000, LARGE_VALUE };
	const uint64_t key = 1u << 30;
	uint64_t next = fill(0, 100);

	(void)state;
	for (unsigned int i = 0; i < 40; i++) {
		const struct table_change change = { .key = &key,
						     .key_len = 8,
						     .value_len = lens[i % 4] };
		struct item *item = table_reserve(&test_threads[0], &change);

		assert_non_null(item);
		assert_int_equal(item_value_len(item), lens[i % 4]);
		table_abandon(&test_threads[0], item);
		next = fill(next, 100);
	}
	assert_all_open();
}

/* What is in closed memory is no candidate: evicting it makes no room. */
static void closed_memory_is_not_drawn(void **state)
{
	static const uint32_t lens[] = { 1000, 40000 };
	struct mem_evacuation evacuation;
	struct table_change out;
	void *blocks[8], *block;
	uint64_t random = 1;

	(void)state;
	for (uint64_t key = 0; key < 2; key++) {
		unsigned int class_id = mem_class(item_bytes_for(8, lens[key], 0));

		assert_int_equal(test_store_put(&store, &key, 8, value, lens[key], &out), WIRE_OK);
		block = region_at(&store.region, slot_offset(out.slot));
		while (!mem_sample(store.memory, class_id, &random, blocks, 8))
			;
		assert_true(mem_evacuation_begin(&evacuation, store.memory, block));
		for (unsigned int i = 0; i < 10000; i++)
			assert_int_equal(mem_sample(store.memory, class_id, &random, blocks, 8), 0);
		mem_evacuation_end(&evacuation);
	}
}

/* Begins an evacuation of anything that others do not evacuate. */
static void evacuation_begin(struct mem_evacuation *evacuation)
{
	void *block;

	while (!mem_sample_any(store.memory, &test_threads[0].random, &block, 1) ||
	       !mem_evacuation_begin(evacuation, store.memory, block))
		;
}

/*
 * Without eviction: the memory that is left is closed by another room, which is for more than that.
 * The second one does not fail, but waits for the first one, however long that takes, and not for
 * what is closed later.
 */
static void waits_for_what_others_closed(void **state)
{
	struct mem_evacuation later;
	struct room other, room;
	unsigned int i;

	(void)state;
	/* Full of large items, but for one free run. */
	fill(0, LARGE_VALUE);
	while (put(1000, 3000) == WIRE_OK && put(random_next(), 3000) == WIRE_OK)
		;
	delete (0);
	store_thread_idle(&test_threads[0]);
	set_now(ENGINE_NOW_NS + SECOND_NS);
	begin(&other, 1, HUGE_VALUE);
	/* All places are taken in turn; the one with the free run is the cheapest. */
	for (i = 0; i < STEPS_MAX && evacuating() < HUGE_VALUE; i++)
		room_step(&other);
	assert_true(other.open);
	test_clock_stop();
	begin(&room, 0, LARGE_VALUE - 8192);
	for (i = 0; i < 1000; i++)
		assert_int_not_equal(room_step(&room), ROOM_DONE);
	assert_int_equal(room.state, ROOM_WAITS);
	evacuation_begin(&later);
	mem_evacuation_end(&later);
	for (i = 0; i < 9; i++) {
		test_clock_pass(SECOND_NS);
		assert_int_equal(room_step(&room), ROOM_WAIT);
	}
	evacuation_begin(&later);
	room_cancel(&other);
	assert_int_equal(room_step(&room), ROOM_AGAIN);
	mem_evacuation_end(&later);
	while (room_step(&room) != ROOM_DONE)
		;
	free_block(&room);
	test_clock_start();
	assert_all_open();
}

/* Takes all memory, in blocks that hold no items. Returns how many. */
static unsigned int take_all(void **blocks, size_t *bytes, unsigned int max)
{
	unsigned int n = 0;

	for (size_t next = LARGE_VALUE; next >= PAGE_BYTES; next /= 2)
		while (n < max && (blocks[n] = mem_alloc(&test_threads[1].cache, next)))
			bytes[n++] = next;
	assert_true(n < max);
	return n;
}

/*
 * A room that has waited begins anew: others may have taken what was given back, and there is
 * something to evict now.
 */
static void begins_anew_after_a_wait(void **state)
{
	struct mem_evacuation other;
	void *blocks[1000];
	size_t bytes[1000];
	struct room room;
	unsigned int i, n;

	(void)state;
	n = take_all(blocks, bytes, 1000);
	assert_true(mem_evacuation_begin(&other, store.memory, blocks[0]));
	begin(&room, 0, 5000);
	while (room.state != ROOM_WAITS)
		assert_int_equal(room_step(&room), ROOM_AGAIN);
	assert_int_equal(room_step(&room), ROOM_WAIT);
	for (i = 1; bytes[i] == LARGE_VALUE; i++)
		mem_free(&test_threads[1].cache, blocks[i], bytes[i]);
	fill(0, 100);
	mem_evacuation_end(&other);
	while (room_step(&room) != ROOM_DONE)
		rcu_quiescent_state();
	free_block(&room);
	for (; i < n; i++)
		mem_free(&test_threads[1].cache, blocks[i], bytes[i]);
	mem_free(&test_threads[1].cache, blocks[0], bytes[0]);
	assert_all_open();
}

/* A PUT with a room of its caller's. */
static struct table_change put_with(const uint64_t *key, struct room *room)
{
	return (struct table_change){
		.key = key, .key_len = 8, .value = value, .value_len = 3000, .room = room
	};
}

/* A PUT changes nothing before there is room. */
static void a_put_in_steps(void **state)
{
	const uint64_t key = 1u << 30;
	struct room room;
	struct table_change change = put_with(&key, &room);
	struct store_census before, after;
	static void *blocks[MAGAZINE_BLOCKS + SLAB_BYTES_MAX / 3000];
	unsigned int i, n = 0;

	(void)state;
	fill(0, 100);
	room_init(&room);
	assert_store(&before);
	assert_int_equal(attempt_put(&test_threads[0], hash_of(&key, 8), &change), WIRE_BUSY);
	assert_true(change_wants_room(&change));
	assert_false(change.large);
	assert_store(&after);
	assert_true(before.digest == after.digest);
	run_bounded(&room);
	assert_non_null(room.block);
	/* Nobody else can take the block: there is no other, and yet it is done. */
	while ((blocks[n] = mem_alloc(&test_threads[1].cache, item_bytes_for(8, 3000, 0))))
		n++;
	assert_int_equal(attempt_put(&test_threads[0], hash_of(&key, 8), &change), WIRE_OK);
	assert_false(change_wants_room(&change));
	assert_null(room.block);
	for (i = 0; i < n; i++)
		mem_free(&test_threads[1].cache, blocks[i], item_bytes_for(8, 3000, 0));
	assert_all_open();
}

/*
 * The value that is appended to got shorter while room was made: the block that is too large now is
 * given back, and one of the size that is needed is used. So if it got longer.
 */
static void room_for_another_length(void **state)
{
	static const uint32_t lens[] = { 10, 2900, 6000 };
	const uint64_t key = 1u << 30;
	struct room room;
	struct table_change change = put_with(&key, &room);
	enum wire_status status;

	(void)state;
	change.mode = WIRE_APPEND;
	for (unsigned int i = 0; i < 3; i++) {
		unsigned int runs = 0;

		assert_int_equal(put(key, 3000), WIRE_OK);
		fill(0, 100);
		room_init(&room);
		while ((status = attempt_put(&test_threads[0], hash_of(&key, 8), &change)) ==
		       WIRE_BUSY) {
			assert_true(change_wants_room(&change));
			run_bounded(&room);
			if (!runs++)
				assert_int_equal(put(key, lens[i]), WIRE_OK);
			assert_true(runs < 10);
		}
		assert_int_equal(status, WIRE_OK);
		assert_true(runs > 0);
		assert_int_equal(room.bytes, 0);
		assert_null(room.block);
		assert_all_open();
		assert_store(NULL);
	}
}

/* Where no room can be made it fails, as it does without steps, and again at once. */
static void a_put_fails(void **state)
{
	const uint64_t key = 1u << 30;
	struct room room;
	struct table_change change = put_with(&key, &room);
	enum wire_status status;
	unsigned int runs = 0;

	(void)state;
	fill(0, 100);
	set_now(ENGINE_NOW_NS + SECOND_NS);
	room_init(&room);
	while ((status = attempt_put(&test_threads[0], hash_of(&key, 8), &change)) == WIRE_BUSY) {
		run_bounded(&room);
		/* So that it is not for the failure just now that there is no second room. */
		set_now(ENGINE_NOW_NS + (2 + ++runs) * SECOND_NS);
	}
	assert_int_equal(status, WIRE_NO_SPACE);
	assert_int_equal(runs, 1);
	room_init(&room);
	assert_int_equal(attempt_put(&test_threads[0], hash_of(&key, 8), &change), WIRE_BUSY);
	run_bounded(&room);
	room_init(&room);
	assert_int_equal(attempt_put(&test_threads[0], hash_of(&key, 8), &change), WIRE_NO_SPACE);
	assert_int_equal(STAT(evictions), 0);
	assert_all_open();
}

/* No second room is begun for a value that is pulled, and none for one that can't wait for it. */
static void a_reservation_fails(void **state)
{
	const uint64_t key = 1u << 30;
	const struct table_change change = { .key = &key, .key_len = 8, .value_len = LARGE_VALUE };
	struct room room;

	(void)state;
	fill(0, 100);
	set_now(ENGINE_NOW_NS + SECOND_NS);
	assert_null(table_reserve_begin(&test_threads[0], &change, NULL));
	assert_int_equal(STAT(rooms), 0);
	room_init(&room);
	for (unsigned int i = 1; i <= 2; i++) {
		assert_null(table_reserve_begin(&test_threads[0], &change, &room));
		assert_true(room_pending(&room));
		run_bounded(&room);
		set_now(ENGINE_NOW_NS + (1 + i) * SECOND_NS);
		assert_null(table_reserve_begin(&test_threads[0], &change, &room));
		assert_false(room_pending(&room));
		assert_int_equal(room.bytes, 0);
		assert_int_equal(STAT(rooms), i);
	}
	assert_all_open();
}

/*
 * A room that could not be made is not tried again at once: only when some time has passed, or the
 * thread has freed something.
 */
static void not_again_at_once(void **state)
{
	const uint64_t key = 1u << 30;
	uint64_t failed;

	(void)state;
	fill(0, 100);
	set_now(ENGINE_NOW_NS + SECOND_NS);
	failed = STAT(rooms_failed);
	assert_true(failed > 0);
	for (unsigned int i = 1; i < 4; i++) {
		assert_int_equal(put(key, 3000), WIRE_NO_SPACE);
		assert_int_equal(STAT(rooms_failed), failed + i);
		/* The store's clock goes on, the thread's does not. */
		test_threads[0].now_ns += RETRY_NS - 1;
		assert_int_equal(put(key, 3000), WIRE_NO_SPACE);
		assert_int_equal(STAT(rooms_failed), failed + i);
		if (i == 1)
			test_threads[0].now_ns++;
		else
			delete (i);
	}
	assert_int_equal(STAT(rooms), 0);
}

/*
 * Without eviction: a block that is being written keeps the sparsest slab from being emptied. Those
 * that are less sparse are emptied instead.
 */
static void a_pinned_slab_is_left_out(void **state)
{
	struct mem_cache *cache = &test_threads[1].cache;
	size_t bytes = item_bytes_for(8, 3000, 0);
	unsigned int n = (unsigned int)(SLAB_BYTES_MIN / mem_class_bytes(bytes)), i;
	void *blocks[SLAB_BYTES_MIN / 3000];
	struct room room;
	uint64_t key;

	(void)state;
	for (i = 0; i < n; i++)
		blocks[i] = mem_alloc(cache, bytes);
	for (key = 0; key < 6ull * n; key++)
		assert_int_equal(put(key, 3000), WIRE_OK);
	fill(1u << 20, 100);
	for (i = 1; i < n; i++)
		mem_free(cache, blocks[i], bytes);
	for (key = 0; key < 6ull * n; key++)
		if (key % 5)
			delete (key);
	store_thread_idle(&test_threads[0]);
	store_thread_idle(&test_threads[1]);
	set_now(ENGINE_NOW_NS + SECOND_NS);
	begin(&room, 0, item_bytes_for(8, 6000, 0));
	assert_false(room_try(&room));
	run_bounded(&room);
	assert_true(STAT(evacuations_failed) > 0);
	free_block(&room);
	mem_free(cache, blocks[0], bytes);
	store_thread_idle(&test_threads[1]);
	assert_all_open();
}

/*
 * Without eviction, where no slab can be emptied: a value takes a larger block that is free, and
 * the block is one of its own class again when the value is deleted.
 */
static void a_wider_block(void **state)
{
	const unsigned int count = 20, stride = 97;
	const uint64_t small = 1u << 30, large = 1u << 29;
	uint64_t key, end;

	(void)state;
	end = fill(0, 600);
	assert_true(end > count * stride);
	for (unsigned int round = 0; round < 3; round++) {
		/* One at a time, so that nobody waits to try again. */
		for (unsigned int i = 0; i < count; i++)
			delete (round ? large + i : stride * i);
		/* Of more than twice the bytes: then one deleted item would be one small one. */
		assert_int_equal(put(small, 100), WIRE_NO_SPACE);
		for (key = 0; put(small + key, 350) == WIRE_OK; key++)
			assert_true(key <= count);
		assert_int_equal(key, count);
		assert_int_equal(put(small + key, 3000), WIRE_NO_SPACE);
		for (key = 0; key < count; key++)
			delete (small + key);
		assert_int_equal(
			magazines_count(store.memory, mem_class(item_bytes_for(8, 350, 0))), 0);
		for (key = 0; put(large + key, 600) == WIRE_OK; key++)
			assert_true(key <= count);
		assert_int_equal(key, count);
	}
	assert_int_equal(STAT(evictions), 0);
}

#define EVICTS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define NONE(test) cmocka_unit_test_setup_teardown(test, setup_none, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EVICTS(steps_are_bounded),
		NONE(large_items_move_in_steps),
		cmocka_unit_test(steps_do_the_same),
		EVICTS(cancelled),
		EVICTS(cancelled_at_once),
		NONE(cancelled_while_moving),
		EVICTS(rooms_take_turns),
		EVICTS(small_rooms_do_not_wait),
		EVICTS(large_rooms_are_apart),
		EVICTS(all_at_once_beside_others),
		EVICTS(reserved_in_full_memory),
		EVICTS(closed_memory_is_not_drawn),
		NONE(waits_for_what_others_closed),
		EVICTS(begins_anew_after_a_wait),
		EVICTS(a_put_in_steps),
		EVICTS(room_for_another_length),
		NONE(a_put_fails),
		NONE(a_wider_block),
		NONE(a_reservation_fails),
		NONE(not_again_at_once),
		NONE(a_pinned_slab_is_left_out),
	};

	int failed;

	rcu_register_thread();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_unregister_thread();
	return failed;
}
