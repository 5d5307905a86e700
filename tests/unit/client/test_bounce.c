/* SPDX-License-Identifier: MIT */
/*
 * Tests of the pool of bounce memory: values share chunks and do not overlap, its bound holds but
 * for one value of each handle, memory is given back, and a device that gives little is enough.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/random.h"
#include "client/libkvd/bounce.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define THREADS 4
#define HELD 24
#define ROUNDS 3000

/* A device whose memory is counted; nobody touches it where the test does not. */
static struct {
	_Atomic size_t registered;
	_Atomic unsigned int count, made;
	size_t longest; /* registration that succeeds */
	size_t limit;	/* of all together */
} fake;

/* Longer than asked for, as softnic does that for large pages. */
static int alloc_mem(struct device *dev, size_t bytes, struct device_mem *mem)
{
	(void)dev;
	if (bytes % (2 * MIB) >= MIB)
		bytes += 2 * MIB - bytes % (2 * MIB);
	*mem = (struct device_mem){ .addr = malloc(bytes), .length = bytes, .fd = -1 };
	return mem->addr ? 0 : -ENOMEM;
}

static void free_mem(struct device *dev, struct device_mem *mem)
{
	(void)dev;
	free(mem->addr);
}

static int reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access, struct ibv_mr **out)
{
	static _Atomic uint32_t rkey;

	assert_int_equal(access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (mem->length > fake.longest || fake.registered + mem->length > fake.limit)
		return -ENOMEM;
	*out = calloc(1, sizeof(**out));
	assert_non_null(*out);
	**out = (struct ibv_mr){
		.pd = pd, .addr = mem->addr, .length = mem->length, .rkey = ++rkey
	};
	fake.registered += mem->length;
	fake.count++;
	fake.made++;
	return 0;
}

static void dereg_mr(struct ibv_mr *mr)
{
	fake.registered -= mr->length;
	fake.count--;
	free(mr);
}

static const struct device_ops ops = {
	.alloc_mem = alloc_mem,
	.free_mem = free_mem,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
};
static struct device device = { .ops = &ops };
static struct bounce_pool pool;

static int setup(void **state)
{
	(void)state;
	fake.longest = fake.limit = SIZE_MAX;
	fake.made = 0;
	bounce_pool_init(&pool, &device);
	bounce_pool_hold(&pool);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	bounce_pool_leave(&pool);
	assert_int_equal(bounce_pool_bytes(&pool), 0);
	bounce_pool_release(&pool);
	return fake.registered || fake.count;
}

static uint8_t *addr_of(const struct bounce *bounce)
{
	uint32_t rkey;

	return bounce_addr(&pool, bounce, &rkey);
}

static void values_share_chunks(void **state)
{
	struct bounce bounces[32];
	unsigned int i;

	(void)state;
	for (i = 0; i < 32; i++)
		assert_int_equal(bounce_get(&pool, 8 * KIB, i == 0, &bounces[i]), 0);
	assert_int_equal(fake.count, 1);
	assert_int_equal(fake.registered, BOUNCE_CHUNK_MIN);
	for (i = 0; i < 32; i++)
		bounce_put(&pool, &bounces[i]);
	assert_int_equal(fake.count, 1);
	/* The more there are, the longer the next chunk. */
	for (i = 0; i < 16; i++)
		assert_int_equal(bounce_get(&pool, MIB, i == 0, &bounces[i]), 0);
	assert_true(fake.count <= 7);
	for (i = 0; i < 16; i++)
		bounce_put(&pool, &bounces[i]);
}

struct held {
	struct bounce bounce;
	size_t bytes;
	uint8_t mark;
};

static void held_check(struct held *held)
{
	const uint8_t *at = addr_of(&held->bounce);
	size_t i;

	for (i = 0; i < held->bytes; i += 511)
		if (at[i] != held->mark)
			abort();
	if (at[held->bytes - 1] != held->mark)
		abort();
}

/* Takes and gives back values of many lengths, and sees each one's bytes stay. */
static void *churn(void *arg)
{
	struct held held[HELD] = { { .bytes = 0 } };
	struct random random;
	unsigned int i, round;

	random_init(&random, (uintptr_t)arg);
	for (round = 0; round < ROUNDS; round++) {
		struct held *one = &held[random_below(&random, HELD)];

		if (one->bytes) {
			held_check(one);
			bounce_put(&pool, &one->bounce);
			one->bytes = 0;
			continue;
		}
		one->bytes = 1 + random_below(&random, 4096u << random_below(&random, 7));
		if (bounce_get(&pool, one->bytes, true, &one->bounce))
			abort();
		one->mark = (uint8_t)random_next(&random);
		memset(addr_of(&one->bounce), one->mark, one->bytes);
	}
	for (i = 0; i < HELD; i++) {
		if (!held[i].bytes)
			continue;
		held_check(&held[i]);
		bounce_put(&pool, &held[i].bounce);
	}
	return NULL;
}

static void values_do_not_overlap(void **state)
{
	pthread_t threads[THREADS];
	uintptr_t i;

	(void)state;
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* Lengths at which the last unit of a chunk is short. */
static void what_is_given_lies_within_the_registration(void **state)
{
	struct bounce bounces[64];
	size_t bytes, part, n;
	uint8_t *end;

	(void)state;
	for (bytes = 5000; bytes < 700 * KIB; bytes += 12345) {
		bounce_pool_leave(&pool);
		bounce_pool_hold(&pool);
		assert_int_equal(bounce_get(&pool, bytes, true, &bounces[0]), 0);
		end = addr_of(&bounces[0]) + fake.registered;
		bounce_put(&pool, &bounces[0]);
		part = bytes / 3;
		for (n = 0; n < 64 && fake.count == 1; n++)
			assert_int_equal(bounce_get(&pool, part, true, &bounces[n]), 0);
		while (n--) {
			if (bounces[n].chunk == 0)
				assert_true(addr_of(&bounces[n]) + part <= end);
			bounce_put(&pool, &bounces[n]);
		}
	}
}

/* After these values nothing of an earlier peak is remembered. */
static void forget_the_peak(void)
{
	struct bounce bounce;
	unsigned int i;

	for (i = 0; i < 2 * BOUNCE_PEAK_VALUES; i++) {
		assert_int_equal(bounce_get(&pool, 5000, true, &bounce), 0);
		bounce_put(&pool, &bounce);
	}
}

/* Beyond its bound only for a handle that has nothing. */
static void the_bound_holds(void **state)
{
	struct bounce bounces[20], more, other;
	unsigned int i;

	(void)state;
	for (i = 0; i < 8; i++)
		assert_int_equal(bounce_get(&pool, 16 * MIB, false, &bounces[i]), 0);
	assert_int_equal(bounce_get(&pool, 5000, false, &more), -EAGAIN);
	assert_int_equal(fake.registered, BOUNCE_BYTES_MAX);
	assert_int_equal(bounce_get(&pool, 16 * MIB, true, &more), 0);
	assert_int_equal(fake.registered, BOUNCE_BYTES_MAX + 16 * MIB);
	/* Neither the rest of such memory nor, when it is unused, all of it is for others. */
	bounce_put(&pool, &more);
	assert_int_equal(bounce_get(&pool, 5000, true, &more), 0);
	assert_int_equal(fake.registered, BOUNCE_BYTES_MAX + 16 * MIB);
	assert_int_equal(bounce_get(&pool, 5000, false, &other), -EAGAIN);
	bounce_put(&pool, &more);
	assert_int_equal(bounce_get(&pool, 5000, false, &other), -EAGAIN);
	assert_int_equal(bounce_get(&pool, 16 * MIB, false, &other), -EAGAIN);
	bounce_put(&pool, &bounces[0]);
	/* What is unused makes room for another size. */
	assert_int_equal(bounce_get(&pool, 5000, false, &bounces[0]), 0);
	assert_int_equal(bounce_get(&pool, 16 * MIB, false, &more), -EAGAIN);
	for (i = 0; i < 8; i++)
		bounce_put(&pool, &bounces[i]);
	forget_the_peak();
	assert_true(fake.registered <= BOUNCE_BYTES_MAX);
}

/* One alone may be as long as it is, and stays. */
static void one_beyond_the_bound(void **state)
{
	struct bounce one;
	unsigned int i;

	(void)state;
	for (i = 0; i < 2 * BOUNCE_PEAK_VALUES; i++) {
		assert_int_equal(bounce_get(&pool, 2 * BOUNCE_BYTES_MAX, true, &one), 0);
		assert_int_equal(fake.registered, 2 * BOUNCE_BYTES_MAX);
		bounce_put(&pool, &one);
	}
	assert_int_equal(fake.made, 1);
	/* The long chunk gives way to one within the bound. */
	assert_int_equal(bounce_get(&pool, 5000, false, &one), 0);
	assert_int_equal(fake.registered, BOUNCE_CHUNK_MIN);
	bounce_put(&pool, &one);
}

/* Handles with a value each, of which not all find room at a time: none makes a chunk again. */
static void what_handles_need_stays(void **state)
{
	struct bounce bounces[24];
	unsigned int i, n, made;

	(void)state;
	for (i = 0; i < 24; i++)
		assert_int_equal(bounce_get(&pool, 16 * MIB, true, &bounces[i]), 0);
	assert_int_equal(fake.registered, 24 * 16 * MIB);
	made = fake.made;
	for (n = 0; n < 2 * BOUNCE_PEAK_VALUES; n++) {
		bounce_put(&pool, &bounces[n % 24]);
		bounce_put(&pool, &bounces[(n + 7) % 24]);
		assert_int_equal(bounce_get(&pool, 16 * MIB, true, &bounces[n % 24]), 0);
		assert_int_equal(bounce_get(&pool, 16 * MIB, true, &bounces[(n + 7) % 24]), 0);
	}
	assert_int_equal(fake.made, made);
	/* Longer ones take the place of those. */
	for (i = 0; i < 24; i++)
		bounce_put(&pool, &bounces[i]);
	assert_int_equal(fake.registered, 24 * 16 * MIB);
	for (i = 0; i < 12; i++)
		assert_int_equal(bounce_get(&pool, 32 * MIB, true, &bounces[i]), 0);
	assert_int_equal(fake.registered, 24 * 16 * MIB);
	for (i = 0; i < 12; i++)
		bounce_put(&pool, &bounces[i]);
	forget_the_peak();
	assert_true(fake.registered <= BOUNCE_BYTES_MAX);
}

/* All places are taken by chunks that are too short, and nobody has one of them. */
static void a_place_is_found(void **state)
{
	static struct bounce bounces[BOUNCE_CHUNKS_MAX];
	struct bounce more;
	unsigned int i;

	(void)state;
	pool.mr_max = 8192;
	for (i = 0; i < BOUNCE_CHUNKS_MAX; i++)
		assert_int_equal(bounce_get(&pool, 8192, true, &bounces[i]), 0);
	assert_int_equal(bounce_get(&pool, 8192, true, &more), -ENOMEM);
	assert_int_equal(fake.count, BOUNCE_CHUNKS_MAX);
	bounce_put(&pool, &bounces[77]);
	pool.mr_max = SIZE_MAX;
	assert_int_equal(bounce_get(&pool, MIB, true, &bounces[77]), 0);
	assert_int_equal(fake.count, BOUNCE_CHUNKS_MAX);
	for (i = 0; i < BOUNCE_CHUNKS_MAX; i++)
		bounce_put(&pool, &bounces[i]);
}

static void the_last_user_frees_what_is_unused(void **state)
{
	struct bounce one, two;

	(void)state;
	bounce_pool_hold(&pool);
	assert_int_equal(bounce_get(&pool, MIB, true, &one), 0);
	assert_int_equal(bounce_get(&pool, MIB, false, &two), 0);
	bounce_put(&pool, &one);
	bounce_pool_leave(&pool);
	assert_int_equal(fake.count, 2);
	bounce_pool_leave(&pool);
	assert_int_equal(fake.count, 1);
	bounce_put(&pool, &two);
	bounce_pool_hold(&pool);
}

static void little_memory_is_enough_for_one(void **state)
{
	struct bounce one, two;

	(void)state;
	fake.limit = 20 * KIB;
	assert_int_equal(bounce_get(&pool, 10000, true, &one), 0);
	assert_int_equal(fake.registered, 10000);
	/* The handle waits for its own one; another handle's call fails. */
	assert_int_equal(bounce_get(&pool, 12 * KIB, false, &two), -EAGAIN);
	assert_int_equal(bounce_get(&pool, 12 * KIB, true, &two), -ENOMEM);
	bounce_put(&pool, &one);
	assert_int_equal(bounce_pool_bytes(&pool), 10000);
	fake.limit = SIZE_MAX;
	pool.mr_max = fake.longest = 100 * KIB;
	assert_int_equal(bounce_get(&pool, 100 * KIB, true, &one), 0);
	assert_int_equal(bounce_get(&pool, 50 * KIB, false, &two), 0);
	bounce_put(&pool, &two);
	assert_int_equal(bounce_get(&pool, 100 * KIB + 1, true, &two), -EFBIG);
	bounce_put(&pool, &one);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(values_share_chunks),
		CASE(values_do_not_overlap),
		CASE(what_is_given_lies_within_the_registration),
		CASE(the_bound_holds),
		CASE(one_beyond_the_bound),
		CASE(what_handles_need_stays),
		CASE(a_place_is_found),
		CASE(the_last_user_frees_what_is_unused),
		CASE(little_memory_is_enough_for_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
