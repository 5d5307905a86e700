/* SPDX-License-Identifier: MIT */
/*
 * Ranges of values: each byte goes where it belongs and nowhere else, whichever way the range
 * takes; what is READ for it; wrong bytes, and those of two versions, are not delivered.
 */
#include "tests/support/get_test.h"

#include "client/libkvd/memory.h"
#include "common/sum.h"

#define ARENA_BYTES (5u << 20)
#define MARGIN 5000u

enum way { WAY_RING, WAY_DIRECT, WAY_NOW, WAY_NOW_DIRECT, WAY_REQUEST };

static uint8_t *arena;
static struct kvd_mem *mem;

static int setup_arena(void **state)
{
	setup(state);
	arena = aligned_alloc(4096, ARENA_BYTES);
	assert_non_null(arena);
	memset(arena, 0xee, ARENA_BYTES);
	return 0;
}

static int teardown_arena(void **state)
{
	int failed = mem && kvd_deregister(mem);

	mem = NULL;
	free(arena);
	return teardown(state) || failed;
}

static void way_set(enum way way)
{
	loopback->now_bytes = way == WAY_NOW || way == WAY_NOW_DIRECT ? UINT64_MAX : 0;
	kvd->conn.by_request = way == WAY_REQUEST;
	/* Nor has such a client a cached slot. */
	bcache_drop(&kvd->cache, table_hash(&store.table, "key", 3),
		    bcache_lookup(&kvd->cache, table_hash(&store.table, "key", 3)));
	if (way == WAY_DIRECT || way == WAY_NOW_DIRECT)
		assert_int_equal(kvd_register(kvd, arena, ARENA_BYTES, &mem), KVD_OK);
}

static void way_end(void)
{
	if (mem)
		assert_int_equal(kvd_deregister(mem), KVD_OK);
	mem = NULL;
	kvd->conn.by_request = false;
	loopback->now_bytes = 0;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The arena has the range of @want and, around the buffer, nothing else; it is then as before. */
static void assert_range(const uint8_t *want, size_t len, size_t offset, size_t size)
{
	size_t has = offset < len ? smaller(size, len - offset) : 0, i;

	assert_memory_equal(arena + MARGIN, want + (has ? offset : 0), has);
	for (i = 0; i < MARGIN; i++)
		if (arena[i] != 0xee || arena[MARGIN + size + i] != 0xee)
			fail_msg("a byte beside the buffer was overwritten");
	memset(arena + MARGIN, 0xee, size);
}

static void get_in_each_call(const uint8_t *want, size_t len, size_t offset, size_t size)
{
	struct kvd_op op, *ops[] = { &op }, *done[1];
	struct kvd_range range = {
		.key = "key",
		.key_len = 3,
		.offset = offset,
		.value = arena + MARGIN,
		.value_size = size,
	};
	struct kvd_item item;

	assert_int_equal(kvd_get_range(kvd, "key", 3, offset, arena + MARGIN, size, &item), KVD_OK);
	assert_int_equal(item.value_len, len);
	assert_int_equal(item.flags, len ^ 0xf1a95);
	assert_range(want, len, offset, size);
	kvd_prep_get_range(&op, "key", 3, offset, arena + MARGIN, size);
	assert_int_equal(kvd_submit(kvd, ops, 1), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, UINT32_MAX), 1);
	assert_int_equal(op.status, KVD_OK);
	assert_int_equal(op.item.value_len, len);
	assert_range(want, len, offset, size);
	assert_int_equal(kvd_get_ranges(kvd, &range, 1), KVD_OK);
	assert_int_equal(range.status, KVD_OK);
	assert_int_equal(range.item.value_len, len);
	assert_int_equal(range.item.version, item.version);
	assert_range(want, len, offset, size);
}

/* Ends of ranges where the way changes: of pieces, of the value, before and after these. */
static void get_each_range(const uint8_t *want, size_t len)
{
	static const size_t places[] = { 0,	 1,	 4095,	 65535,	 65536,	  65537,
					 131071, 131072, 199999, 200000, 1000000, 3000000 };
	const size_t count = sizeof(places) / sizeof(places[0]);

	for (size_t i = 0; i < count; i++)
		for (size_t j = i; j < count; j++)
			if (i == 0 || places[i - 1] <= len)
				get_in_each_call(want, len, places[i], places[j] - places[i]);
	get_in_each_call(want, len, len ? len - 1 : 0, 2);
	get_in_each_call(want, len, len, 100);
	get_in_each_call(want, len, SIZE_MAX, 100);
}

static void get_all(enum way way)
{
	static const uint32_t lens[] = { 0,	1,     100,    5000,   60000,  65491,  65535,
					 65536, 65537, 131072, 131073, 200000, 300001, 3000000 };

	way_set(way);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		other_put("key", value + i, lens[i]);
		reset_stats();
		get_each_range(value + i, lens[i]);
		assert_int_equal(kvd->stats.retries, 0);
		if (way != WAY_REQUEST)
			assert_int_equal(kvd->stats.fallbacks, 0);
		if (lens[i] > PIECE_BYTES && way != WAY_REQUEST)
			assert_int_equal(!!kvd->stats.direct_bytes, mem != NULL);
	}
	way_end();
}

static void by_the_ring(void **state)
{
	(void)state;
	get_all(WAY_RING);
}

static void to_registered_memory(void **state)
{
	(void)state;
	get_all(WAY_DIRECT);
}

static void copied_at_once(void **state)
{
	(void)state;
	get_all(WAY_NOW);
}

static void copied_at_once_to_registered_memory(void **state)
{
	(void)state;
	get_all(WAY_NOW_DIRECT);
}

static void by_request(void **state)
{
	(void)state;
	get_all(WAY_REQUEST);
}

/* Once it can't be copied at once any more, the rest is READ, whatever was copied by then. */
static void copied_up_to_a_byte(void **state)
{
	(void)state;
	other_put("key", value, 3000000);
	for (uint64_t bytes = 1; bytes < 300000; bytes += bytes < 800 ? 1 : 997) {
		loopback->now_bytes = bytes;
		assert_int_equal(kvd_get_range(kvd, "key", 3, 99999, arena + MARGIN, 150000, NULL),
				 KVD_OK);
		assert_range(value, 3000000, 99999, 150000);
	}
}

/* A range costs its own pieces, with head and piece sums, and not the item. */
static void costs_its_pieces(void **state)
{
	const uint64_t head = sizeof(union item_front) + 3, sums = piece_sums_bytes(4000000);

	(void)state;
	other_put("key", value, 4000000);
	for (unsigned int way = WAY_RING; way <= WAY_NOW_DIRECT; way++) {
		way_set((enum way)way);
		assert_int_equal(kvd_get_range(kvd, "key", 3, 0, arena, 1, NULL), KVD_OK);
		reset_stats();
		assert_int_equal(kvd_get_range(kvd, "key", 3, 131072, arena, 65536, NULL), KVD_OK);
		assert_int_equal(kvd->stats.read_bytes, head + sums + PIECE_BYTES);
		reset_stats();
		assert_int_equal(kvd_get_range(kvd, "key", 3, 131071, arena, 2, NULL), KVD_OK);
		assert_int_equal(kvd->stats.read_bytes, head + sums + 2 * PIECE_BYTES);
		/* Nothing but the head, where the value has nothing. */
		reset_stats();
		assert_int_equal(kvd_get_range(kvd, "key", 3, 4000000, arena, 9, NULL), KVD_OK);
		assert_int_equal(kvd->stats.read_bytes, head);
		/* Of all pieces the sum is in the head. */
		reset_stats();
		assert_int_equal(kvd_get_range(kvd, "key", 3, 1, arena, 3999999, NULL), KVD_OK);
		assert_int_equal(kvd->stats.read_bytes, head + 4000000);
		way_end();
	}
	/* By request, a response holds it. */
	way_set(WAY_REQUEST);
	reset_stats();
	assert_int_equal(kvd_get_range(kvd, "key", 3, 3000000, arena, 1000, NULL), KVD_OK);
	assert_int_equal(kvd->stats.fallbacks, 1);
	assert_int_equal(kvd->stats.reads, 0);
	way_end();
}

static enum kvd_status get_at(size_t offset)
{
	return kvd_get_range(kvd, "key", 3, offset, arena + MARGIN, 10, NULL);
}

/* A byte of a piece that is wrong for good: the ranges of that piece fail, others don't. */
static void a_damaged_piece(void **state)
{
	(void)state;
	other_put("key", value, 300000);
	for (unsigned int way = WAY_RING; way <= WAY_REQUEST; way++) {
		way_set((enum way)way);
		item_value(item_of("key"))[150000] ^= 1;
		assert_int_equal(get_at(0), KVD_OK);
		assert_range(value, 300000, 0, 10);
		assert_int_equal(get_at(131062), KVD_OK);
		assert_int_equal(get_at(131063), KVD_ERR_BUSY);
		assert_int_equal(get_at(140000), KVD_ERR_BUSY);
		assert_int_equal(get_at(196607), KVD_ERR_BUSY);
		assert_int_equal(get_at(196608), KVD_OK);
		item_value(item_of("key"))[150000] ^= 1;
		assert_int_equal(get_at(140000), KVD_OK);
		memset(arena, 0xee, ARENA_BYTES);
		way_end();
	}
}

/* Of a value that is no longer than a piece, each range has all of it. */
static void a_damaged_short_value(void **state)
{
	static const uint32_t lens[] = { 200, 5000, 40000, 65536 };

	(void)state;
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		other_put("key", value, lens[i]);
		for (unsigned int way = WAY_RING; way <= WAY_REQUEST; way++) {
			way_set((enum way)way);
			item_value(item_of("key"))[lens[i] - 1] ^= 1;
			assert_int_equal(get_at(0), KVD_ERR_BUSY);
			item_value(item_of("key"))[lens[i] - 1] ^= 1;
			assert_int_equal(get_at(0), KVD_OK);
			way_end();
		}
	}
}

/* A wrong piece sum is no hit by READ; the server has the piece's own to compare with. */
static void a_damaged_sum(void **state)
{
	(void)state;
	other_put("key", value, 300000);
	for (unsigned int way = WAY_RING; way <= WAY_NOW_DIRECT; way++) {
		way_set((enum way)way);
		item_piece_sums(item_of("key"))[8] ^= 1;
		assert_int_equal(get_at(70000), KVD_ERR_BUSY);
		item_piece_sums(item_of("key"))[8] ^= 1;
		assert_int_equal(get_at(70000), KVD_OK);
		way_end();
	}
}

/* Nor are piece and sum right by each other: the head has the sum of all sums. */
static void a_piece_of_another_value(void **state)
{
	struct item *item;
	uint64_t sum;

	(void)state;
	other_put("key", value, 300000);
	item = item_of("key");
	item_value(item)[70000] ^= 1;
	sum = sum_bytes(&store.region.sum_key, item_value(item) + PIECE_BYTES, PIECE_BYTES);
	memcpy(item_piece_sums(item) + 8, &sum, sizeof(sum));
	for (unsigned int way = WAY_RING; way <= WAY_NOW_DIRECT; way++) {
		way_set((enum way)way);
		reset_stats();
		(void)get_at(70000);
		assert_int_equal(kvd->stats.fallbacks, 1);
		reset_stats();
		(void)get_at(200000);
		assert_int_equal(kvd->stats.fallbacks, 1);
		way_end();
	}
	other_delete("key");
}

static unsigned int damage_at;

static void damage(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)bytes;
	if (!in_index(offset) && ++reads == damage_at)
		item_value(item_of("key"))[150000] ^= 1;
}

static void repair(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)d, (void)to, (void)bytes;
	if (!in_index(offset) && reads == damage_at + 5)
		item_value(item_of("key"))[150000] ^= 1;
}

/* A byte that is wrong for a while: the range is READ again. */
static void wrong_bytes_are_read_again(void **state)
{
	(void)state;
	other_put("key", value, 300000);
	for (unsigned int way = WAY_RING; way <= WAY_NOW_DIRECT; way++) {
		way_set((enum way)way);
		damage_at = 2;
		loopback->before_read = damage;
		loopback->after_read = repair;
		reset_stats();
		assert_int_equal(get_at(140000), KVD_OK);
		assert_range(value, 300000, 140000, 10);
		assert_true(kvd->stats.retries + kvd->stats.cache_stale > 0);
		loopback->before_read = NULL;
		loopback->after_read = NULL;
		way_end();
	}
}

/* Another client stores another value, and a third in its memory, before the @damage_at-th READ. */
static void replace(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)offset, (void)bytes;
	if (++reads != damage_at)
		return;
	other_delete("key");
	other_put("else", value + 7, 300000);
	other_put("key", value + 1, 300000);
}

/* The range is of the value before or after, and not of both. */
static void one_version(void **state)
{
	const size_t offset = 60000, size = 200000;
	struct kvd_item item;

	(void)state;
	for (unsigned int way = WAY_RING; way <= WAY_NOW_DIRECT; way++)
		for (damage_at = 1; damage_at < 24; damage_at++) {
			way_set((enum way)way);
			other_put("key", value, 300000);
			assert_int_equal(get_at(0), KVD_OK);
			memset(arena, 0xee, ARENA_BYTES);
			reset_stats();
			loopback->before_read = replace;
			assert_int_equal(kvd_get_range(kvd, "key", 3, offset, arena + MARGIN, size,
						       &item),
					 KVD_OK);
			loopback->before_read = NULL;
			assert_int_equal(item.value_len, 300000);
			if (arena[MARGIN] == value[offset])
				assert_range(value, 300000, offset, size);
			else
				assert_range(value + 1, 300000, offset, size);
			way_end();
		}
}

/* By request, where a range takes several responses. */
static void replace_at_response(struct loopback *d, struct wire_response *response)
{
	(void)d, (void)response;
	if (++requests == 2)
		other_put("key", value + 1, 300000);
}

static void one_version_by_request(void **state)
{
	(void)state;
	other_put("key", value, 300000);
	way_set(WAY_REQUEST);
	loopback->before_response = replace_at_response;
	assert_int_equal(kvd_get_range(kvd, "key", 3, 60000, arena + MARGIN, 200000, NULL), KVD_OK);
	loopback->before_response = NULL;
	assert_true(requests > 4);
	assert_range(value + 1, 300000, 60000, 200000);
	way_end();
}

/* More than are under way together, of several keys and lengths, with misses and bad ones. */
static void many_ranges(void **state)
{
	static const uint32_t lens[] = { 100, 70000, 300000, 1000000 };
	struct kvd_range ranges[100] = { 0 };
	char names[100][8];
	uint32_t i;

	(void)state;
	for (i = 0; i < 4; i++) {
		snprintf(names[i], sizeof(names[i]), "%u", i);
		other_put(names[i], value + i, lens[i]);
	}
	for (i = 0; i < 100; i++) {
		snprintf(names[i], sizeof(names[i]), "%u", i % 5);
		ranges[i] = (struct kvd_range){
			.key = names[i],
			.key_len = i == 77 ? 0 : 1,
			.offset = i * 9973ul,
			.value = i == 78 ? NULL : arena + i * 1000ul,
			.value_size = 1000,
		};
	}
	assert_int_equal(kvd_get_ranges(kvd, ranges, 100), KVD_OK);
	for (i = 0; i < 100; i++) {
		size_t at = i * 9973ul, len = i % 5 < 4 ? lens[i % 5] : 0;

		if (i == 77 || i == 78) {
			assert_int_equal(ranges[i].status, KVD_ERR_INVALID);
		} else if (i % 5 == 4) {
			assert_int_equal(ranges[i].status, KVD_NOT_FOUND);
		} else {
			assert_int_equal(ranges[i].status, KVD_OK);
			assert_int_equal(ranges[i].item.value_len, len);
			if (at < len)
				assert_memory_equal(ranges[i].value, value + i % 5 + at,
						    smaller(1000, len - at));
		}
	}
	assert_int_equal(kvd_get_ranges(kvd, NULL, 0), KVD_OK);
	assert_int_equal(kvd_get_ranges(kvd, NULL, 1), KVD_ERR_INVALID);
}

static void what_is_refused(void **state)
{
	struct iovec iov = { arena, 100 };
	struct kvd_op op, *ops[] = { &op };

	(void)state;
	assert_int_equal(kvd_get_range(kvd, "key", 3, 0, NULL, 1, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_get_range(kvd, "key", 0, 0, arena, 1, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_get_range(kvd, "key", 3, 0, arena, 1, NULL), KVD_NOT_FOUND);
	kvd_prep_get_range(&op, "key", 3, 0, NULL, 0);
	op.iov = &iov;
	op.iov_count = 1;
	assert_int_equal(kvd_submit(kvd, ops, 1), KVD_ERR_INVALID);
}

int main(void)
{
#define ARENA_CASE(test) cmocka_unit_test_setup_teardown(test, setup_arena, teardown_arena)
	const struct CMUnitTest tests[] = {
		ARENA_CASE(by_the_ring),
		ARENA_CASE(to_registered_memory),
		ARENA_CASE(copied_at_once),
		ARENA_CASE(copied_at_once_to_registered_memory),
		ARENA_CASE(by_request),
		ARENA_CASE(copied_up_to_a_byte),
		ARENA_CASE(costs_its_pieces),
		ARENA_CASE(a_damaged_piece),
		ARENA_CASE(a_damaged_short_value),
		ARENA_CASE(a_damaged_sum),
		ARENA_CASE(a_piece_of_another_value),
		ARENA_CASE(wrong_bytes_are_read_again),
		ARENA_CASE(one_version),
		ARENA_CASE(one_version_by_request),
		ARENA_CASE(many_ranges),
		ARENA_CASE(what_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
