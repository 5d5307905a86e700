/* SPDX-License-Identifier: MIT */
/*
 * Values in pieces: each byte goes where its piece is and nowhere else, whichever way the value
 * takes; wrong bytes are not delivered; and what is refused.
 */
#include "tests/support/form.h"
#include "tests/support/get_test.h"

#include "client/libkvd/memory.h"

#define ARENA_BYTES (2u << 20)
#define GAP 4096u

static uint8_t *arena;
static struct kvd_mem *mem;
static struct iovec iov[KVD_IOV_MAX + 1];
static uint32_t count;

static int setup_arena(void **state)
{
	setup(state);
	arena = aligned_alloc(4096, ARENA_BYTES);
	assert_non_null(arena);
	return 0;
}

static int teardown_arena(void **state)
{
	int failed = mem && kvd_deregister(mem);

	mem = NULL;
	free(arena);
	return teardown(state) || failed;
}

static void register_arena(void)
{
	assert_int_equal(kvd_register(kvd, arena, ARENA_BYTES, &mem), KVD_OK);
}

/* Pieces of @part bytes, the last one shorter, for @bytes: from the end of the arena down. */
static void cut(size_t bytes, size_t part)
{
	uint8_t *end = arena + ARENA_BYTES - GAP;

	memset(arena, 0xee, ARENA_BYTES);
	/* What reaches beyond the pieces is seen. */
	for (count = 0; count <= KVD_IOV_MAX; count++)
		iov[count] = (struct iovec){ arena, ARENA_BYTES };
	for (count = 0; bytes; count++) {
		assert_true(count < KVD_IOV_MAX);
		iov[count].iov_len = bytes < part ? bytes : part;
		end -= iov[count].iov_len + GAP;
		assert_true(end > arena);
		iov[count].iov_base = end;
		bytes -= iov[count].iov_len;
	}
}

/* All of the arena that is in no piece is as it was. */
static void assert_gaps(void)
{
	const uint8_t *end = arena + ARENA_BYTES, *at;
	uint32_t i;

	for (i = 0; i <= count; i++) {
		at = i < count ? (uint8_t *)iov[i].iov_base + iov[i].iov_len : arena;
		for (; at < end; at++)
			if (*at != 0xee)
				fail_msg("a byte outside of the pieces was overwritten");
		end = iov[i].iov_base;
	}
}

/* The pieces have the value, as far as it reaches, and nothing else of the arena has. */
static void assert_pieces(const uint8_t *want, size_t len)
{
	uint32_t i;
	size_t part;

	for (i = 0; i < count; i++) {
		part = iov[i].iov_len < len ? iov[i].iov_len : len;
		assert_memory_equal(iov[i].iov_base, want, part);
		want += part;
		len -= part;
	}
	assert_int_equal(len, 0);
	assert_gaps();
}

/* As a synchronous call, submitted, and by request. */
static void get_in_each_way(const uint8_t *want, size_t len)
{
	struct kvd_op op, *ops[] = { &op }, *done[1];
	struct kvd_item item;
	uint32_t i;

	assert_int_equal(kvd_getv(kvd, "key", 3, iov, count, &item), KVD_OK);
	assert_int_equal(item.value_len, len);
	assert_int_equal(item.flags, len ^ 0xf1a95);
	assert_pieces(want, len);
	for (i = 0; i < 2; i++) {
		memset(arena, 0xee, ARENA_BYTES);
		kvd_prep_getv(&op, "key", 3, iov, count);
		op.op = i ? KVD_OP_GET_BY_REQUEST : KVD_OP_GET;
		assert_int_equal(kvd_submit(kvd, ops, 1), KVD_OK);
		assert_int_equal(kvd_wait(kvd, done, 1, 1, UINT32_MAX), 1);
		assert_int_equal(op.status, KVD_OK);
		assert_int_equal(op.item.value_len, len);
		assert_pieces(want, len);
	}
}

static const uint32_t lens[] = { 1,	3,     100,   1500,   4000,   4096,   5000,   60000,
				 65491, 65536, 70000, 131072, 262037, 300001, 1000000 };
#define LENS (sizeof(lens) / sizeof(lens[0]))

static void get_lengths(bool registered)
{
	size_t part, extra;
	unsigned int i;

	for (i = 0; i < LENS; i++) {
		other_put("key", value + i, lens[i]);
		for (extra = 0; extra <= 50000; extra += 50000) {
			for (part = (lens[i] + extra) / 60 + 1; part < 3 * (lens[i] + extra);
			     part = part * (long_form() ? 4 : 9) + 13) {
				cut(lens[i] + extra, part);
				reset_stats();
				get_in_each_way(value + i, lens[i]);
				if (!registered || part < 4096)
					assert_int_equal(kvd->stats.direct_bytes, 0);
				else if (lens[i] > 4096 && iov[count - 1].iov_len >= 4096)
					assert_true(kvd->stats.direct_bytes >= 2 * lens[i]);
				assert_int_equal(kvd->stats.retries + kvd->stats.fallbacks, 0);
			}
		}
	}
}

static void values_go_to_plain_pieces(void **state)
{
	(void)state;
	get_lengths(false);
}

static void values_go_to_registered_pieces(void **state)
{
	(void)state;
	register_arena();
	get_lengths(true);
}

/* The device copies within the call, as softnic does; and no more from some byte on. */
static void values_that_are_copied_at_once(void **state)
{
	static const uint64_t most[] = { UINT64_MAX, 150000 };
	unsigned int i, n;

	(void)state;
	other_put("key", value, 1000000);
	for (n = 0; n < 2; n++) {
		for (i = 0; i < 2; i++) {
			cut(1000000, 70000);
			loopback->now_bytes = most[i];
			get_in_each_way(value, 1000000);
		}
		if (!n)
			register_arena();
	}
}

/* Registrations shorter than a piece. */
static void pieces_over_several_registrations(void **state)
{
	(void)state;
	loopback->fake.mr_max = 100000;
	register_arena();
	other_put("key", value, 1000000);
	cut(1000000, 130000);
	reset_stats();
	get_in_each_way(value, 1000000);
	assert_true(kvd->stats.direct_bytes >= 2000000);
}

/* One piece outside of the registered memory: all are copied to. */
static void a_piece_that_is_not_registered(void **state)
{
	static uint8_t other[20000];
	struct kvd_item item;

	(void)state;
	register_arena();
	other_put("key", value, 60000);
	cut(60000, 20000);
	iov[1].iov_base = other;
	reset_stats();
	assert_int_equal(kvd_getv(kvd, "key", 3, iov, count, &item), KVD_OK);
	assert_int_equal(kvd->stats.direct_bytes, 0);
	assert_memory_equal(iov[0].iov_base, value, 20000);
	assert_memory_equal(other, value + 20000, 20000);
	assert_memory_equal(iov[2].iov_base, value + 40000, 20000);
	/* Nobody has the memory any more. */
	assert_int_equal(kvd_deregister(mem), KVD_OK);
	mem = NULL;
}

static void pieces_that_are_empty(void **state)
{
	struct kvd_item item;

	(void)state;
	other_put("key", value, 300000);
	cut(300000, 100000);
	memmove(iov + 2, iov + 1, 2 * sizeof(*iov));
	iov[1] = (struct iovec){ NULL, 0 };
	iov[4] = (struct iovec){ NULL, 0 };
	assert_int_equal(kvd_getv(kvd, "key", 3, iov, 5, &item), KVD_OK);
	assert_memory_equal(iov[0].iov_base, value, 100000);
	assert_memory_equal(iov[2].iov_base, value + 100000, 100000);
	assert_memory_equal(iov[3].iov_base, value + 200000, 100000);
	assert_int_equal(kvd_putv(kvd, "new", 3, iov, 5, NULL, NULL), KVD_OK);
	assert_memory_equal(item_value(item_of("new")), value, 300000);
	assert_int_equal(kvd_putv(kvd, "new", 3, iov + 4, 1, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_putv(kvd, "new", 3, NULL, 0, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_getv(kvd, "new", 3, NULL, 0, &item), KVD_OK);
	assert_int_equal(item.value_len, 0);
}

static void pieces_that_are_too_short(void **state)
{
	struct kvd_item item;
	unsigned int i, n;

	(void)state;
	for (n = 0; n < 2; n++) {
		for (i = 1; i < LENS; i++) {
			other_put("key", value, lens[i]);
			cut(lens[i] - 1, lens[i] / 3 + 4096);
			assert_int_equal(kvd_getv(kvd, "key", 3, iov, count, &item),
					 KVD_ERR_BUFFER);
			assert_int_equal(item.value_len, lens[i]);
			assert_gaps();
		}
		if (!n)
			register_arena();
	}
	other_delete("key");
	assert_int_equal(kvd_getv(kvd, "key", 3, iov, count, &item), KVD_NOT_FOUND);
}

static void puts_gather_the_pieces(void **state)
{
	struct kvd_op op, *ops[] = { &op }, *done[1];
	uint64_t version;
	unsigned int i, n;
	size_t at;

	(void)state;
	for (n = 0; n < 2; n++) {
		for (i = 0; i < LENS; i++) {
			cut(lens[i], lens[i] / 7 + 1);
			at = i;
			for (uint32_t k = 0; k < count; at += iov[k++].iov_len)
				memcpy(iov[k].iov_base, value + at, iov[k].iov_len);
			assert_int_equal(kvd_putv(kvd, "key", 3, iov, count, NULL, &version),
					 KVD_OK);
			assert_true(version > 0);
			assert_int_equal(item_value_len(item_of("key")), lens[i]);
			assert_memory_equal(item_value(item_of("key")), value + i, lens[i]);
			other_delete("key");
			kvd_prep_putv(&op, "key", 3, iov, count, NULL);
			assert_int_equal(kvd_submit(kvd, ops, 1), KVD_OK);
			assert_int_equal(kvd_wait(kvd, done, 1, 1, UINT32_MAX), 1);
			assert_int_equal(op.status, KVD_OK);
			assert_memory_equal(item_value(item_of("key")), value + i, lens[i]);
		}
		if (!n)
			register_arena();
	}
}

static unsigned int damages;

static void damage_value(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)bytes;
	if (!in_index(offset) && !damages++)
		item_value(item_of("key"))[299999] ^= 1;
}

static void repair_value(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)d, (void)to, (void)bytes;
	if (!in_index(offset) && ++reads == 12)
		item_value(item_of("key"))[299999] ^= 1;
}

/* One wrong byte of the last piece is seen. */
static void wrong_bytes_are_not_delivered(void **state)
{
	struct kvd_item item;
	unsigned int n;

	(void)state;
	for (n = 0; n < 2; n++) {
		other_put("key", value, 300000);
		cut(300000, 70000);
		damages = reads = 0;
		reset_stats();
		loopback->before_read = damage_value;
		loopback->after_read = repair_value;
		assert_int_equal(kvd_getv(kvd, "key", 3, iov, count, &item), KVD_OK);
		assert_pieces(value, 300000);
		assert_true(kvd->stats.retries > 0);
		loopback->before_read = NULL;
		loopback->after_read = NULL;
		if (!n)
			register_arena();
	}
}

static void assert_refused(enum kvd_opcode code, const void *value_set, size_t len)
{
	struct kvd_op op, *ops[] = { &op };

	kvd_prep_getv(&op, "key", 3, iov, count);
	op.op = code;
	op.value = (void *)(uintptr_t)value_set;
	op.value_len = len;
	assert_int_equal(kvd_submit(kvd, ops, 1), KVD_ERR_INVALID);
}

static void what_is_refused(void **state)
{
	unsigned int i;

	(void)state;
	cut(1000, 100);
	assert_refused(KVD_OP_DELETE, NULL, 0);
	assert_refused(KVD_OP_INCR, NULL, 0);
	assert_refused(KVD_OP_EXISTS, NULL, 0);
	assert_refused(KVD_OP_GET, arena, 0);
	assert_refused(KVD_OP_GET, NULL, 1000);
	assert_refused(KVD_OP_PUT, NULL, 999);
	assert_refused(KVD_OP_PUT, arena, 1000);
	assert_int_equal(kvd_getv(kvd, "key", 3, NULL, 1, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_putv(kvd, "key", 3, NULL, 1, NULL, NULL), KVD_ERR_INVALID);
	for (i = 0; i <= KVD_IOV_MAX; i++)
		iov[i] = (struct iovec){ arena + i, 1 };
	assert_int_equal(kvd_getv(kvd, "key", 3, iov, KVD_IOV_MAX + 1, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_putv(kvd, "key", 3, iov, KVD_IOV_MAX + 1, NULL, NULL),
			 KVD_ERR_INVALID);
	assert_int_equal(kvd_putv(kvd, "key", 3, iov, KVD_IOV_MAX, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_getv(kvd, "key", 3, iov, KVD_IOV_MAX, NULL), KVD_OK);
	iov[5].iov_base = NULL;
	assert_int_equal(kvd_getv(kvd, "key", 3, iov, 6, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_putv(kvd, "key", 3, iov, 6, NULL, NULL), KVD_ERR_INVALID);
	iov[5] = (struct iovec){ arena, (size_t)KVD_VALUE_MAX + 1 };
	assert_int_equal(kvd_getv(kvd, "key", 3, iov, 6, NULL), KVD_ERR_INVALID);
	iov[5].iov_len = SIZE_MAX - 4;
	assert_int_equal(kvd_putv(kvd, "key", 3, iov, 6, NULL, NULL), KVD_ERR_INVALID);
	iov[5].iov_len = KVD_VALUE_MAX;
	assert_int_equal(kvd_putv(kvd, "key", 3, iov, 6, NULL, NULL), KVD_ERR_TOO_LARGE);
}

/* The most that pieces can have: their sum is more than 32 bits hold. */
static void the_longest_pieces(void **state)
{
	static const uint32_t counts[] = { 3, 4, 5, 8, KVD_IOV_MAX };
	struct kvd_item item;
	size_t c;

	(void)state;
	other_put("key", value, 5000);
	for (c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		for (count = 0; count < counts[c]; count++)
			iov[count] = (struct iovec){ arena, KVD_VALUE_MAX };
		memset(arena, 0xee, ARENA_BYTES);
		assert_int_equal(kvd_getv(kvd, "key", 3, iov, count, &item), KVD_OK);
		assert_int_equal(item.value_len, 5000);
		assert_memory_equal(arena, value, 5000);
		assert_int_equal(arena[5000], 0xee);
		assert_int_equal(kvd_putv(kvd, "key", 3, iov, count, NULL, NULL),
				 KVD_ERR_TOO_LARGE);
	}
}

int main(void)
{
#define ARENA_CASE(test) cmocka_unit_test_setup_teardown(test, setup_arena, teardown_arena)
	const struct CMUnitTest tests[] = {
		ARENA_CASE(values_go_to_plain_pieces),
		ARENA_CASE(values_go_to_registered_pieces),
		ARENA_CASE(values_that_are_copied_at_once),
		ARENA_CASE(pieces_over_several_registrations),
		ARENA_CASE(a_piece_that_is_not_registered),
		ARENA_CASE(pieces_that_are_empty),
		ARENA_CASE(pieces_that_are_too_short),
		ARENA_CASE(the_longest_pieces),
		ARENA_CASE(puts_gather_the_pieces),
		ARENA_CASE(wrong_bytes_are_not_delivered),
		ARENA_CASE(what_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
