/* SPDX-License-Identifier: MIT */
/*
 * Tests of the token bucket (server/worker/token_bucket.h), against exact arithmetic of 128 bits,
 * and of what the limits of a connection make of it (server/worker/conn_limit.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/worker/conn_limit.h"

#define S 1000000000ull
#define STEPS 300000
#define START 1000000u

__extension__ typedef __int128 wide; /* signed */

static struct token_bucket bucket;

/* How many tokens are taken one by one until there is none. */
static uint64_t take_all(uint64_t now_ns)
{
	uint64_t taken = 0;

	token_bucket_refill(&bucket, now_ns);
	while (token_bucket_ready(&bucket)) {
		token_bucket_take(&bucket, 1);
		taken++;
	}
	return taken;
}

static void exact(void **state)
{
	(void)state;
	token_bucket_init(&bucket, 3, 5);
	assert_int_equal(take_all(START), 5);
	assert_int_equal(take_all(START), 0);
	/* Three in a second: the first after 333,333,333.3 ns. */
	assert_int_equal(take_all(START + 333333333), 0);
	assert_int_equal(take_all(START + 333333334), 1);
	assert_int_equal(take_all(START + 666666666), 0);
	assert_int_equal(take_all(START + 666666667), 1);
	assert_int_equal(take_all(START + S - 1), 0);
	assert_int_equal(take_all(START + S), 1);
	assert_int_equal(bucket.missing, bucket.depth);
	assert_int_equal(take_all(START + 100 * S), 5);
}

/* Nothing is lost in many small steps. */
static void small_steps(void **state)
{
	uint64_t taken = 0;

	(void)state;
	token_bucket_init(&bucket, 7, 2);
	assert_int_equal(take_all(START), 2);
	for (uint64_t ns = 0; ns <= 2 * S; ns += 10007)
		taken += take_all(START + ns);
	assert_int_equal(taken, 13);
	assert_int_equal(take_all(START + 2 * S), 1);
}

static void no_limit(void **state)
{
	(void)state;
	token_bucket_init(&bucket, 0, 1);
	for (unsigned int i = 0; i < 4; i++) {
		token_bucket_take(&bucket, UINT64_MAX);
		assert_true(token_bucket_ready(&bucket));
		token_bucket_refill(&bucket, i);
	}
}

static void debt(void **state)
{
	(void)state;
	token_bucket_init(&bucket, 10, 1);
	token_bucket_refill(&bucket, START);
	assert_true(token_bucket_ready(&bucket));
	token_bucket_take(&bucket, 1001);
	/* 1,000 short, and one is wanted. */
	token_bucket_refill(&bucket, START + 100 * S);
	assert_false(token_bucket_ready(&bucket));
	token_bucket_refill(&bucket, START + 100 * S + S / 10 - 1);
	assert_false(token_bucket_ready(&bucket));
	token_bucket_refill(&bucket, START + 100 * S + S / 10);
	assert_true(token_bucket_ready(&bucket));
	assert_int_equal(take_all(START + 100 * S + S / 10), 1);
}

static void clock_jumps(void **state)
{
	(void)state;
	token_bucket_init(&bucket, 1, 4);
	assert_int_equal(take_all(UINT64_MAX), 4);
	/* Back: nothing comes, but from there on it fills again. */
	assert_int_equal(take_all(START), 0);
	assert_int_equal(take_all(START + S - 1), 0);
	assert_int_equal(take_all(START + S), 1);
	/* Ahead: no more than a full bucket. */
	assert_int_equal(take_all(UINT64_MAX), 4);
	assert_int_equal(take_all(UINT64_MAX), 0);
}

static void overflow(void **state)
{
	(void)state;
	/* The product of time and rate has more than 64 bits: it is full, not nearly empty. */
	token_bucket_init(&bucket, 1ull << 40, 1ull << 30);
	token_bucket_take(&bucket, 1ull << 30);
	assert_false(token_bucket_ready(&bucket));
	token_bucket_refill(&bucket, 1ull << 24);
	assert_int_equal(bucket.missing, 0);
	/* A debt that can't be counted is the largest one; it does not wrap to a credit. */
	token_bucket_take(&bucket, UINT64_MAX);
	assert_int_equal(bucket.missing, UINT64_MAX);
	token_bucket_take(&bucket, 1);
	assert_int_equal(bucket.missing, UINT64_MAX);
	token_bucket_take(&bucket, UINT64_MAX);
	assert_false(token_bucket_ready(&bucket));
	token_bucket_refill(&bucket, (1ull << 24) + 1);
	assert_int_equal(bucket.missing, UINT64_MAX - (1ull << 40));
	/* Nor does the deepest bucket. */
	token_bucket_init(&bucket, 1, UINT64_MAX);
	assert_int_equal(bucket.depth, TOKEN_DEPTH_MAX * TOKEN_UNITS);
	assert_true(token_bucket_ready(&bucket));
}

/* The same bucket in 128 bits, which counts what it has. */
struct model {
	wide has;
	uint64_t at_ns;
};

static void model_refill(struct model *model, uint64_t now_ns)
{
	if (now_ns > model->at_ns) {
		/* Up to 2^128: too much for the signed type. */
		unsigned __int128 gain = (unsigned __int128)(now_ns - model->at_ns) * bucket.rate;

		if (gain >= (unsigned __int128)(bucket.depth - model->has))
			model->has = bucket.depth;
		else
			model->has += (wide)gain;
	}
	model->at_ns = now_ns;
}

static uint64_t random_bits(void)
{
	uint64_t bits = (uint64_t)random() << 33 ^ (uint64_t)random() << 16 ^ (uint64_t)random();

	return bits >> (unsigned int)random() % 64;
}

/* Times, rates and amounts of all magnitudes, up to a debt that has no 64 bits. */
static void as_the_model(void **state)
{
	struct model model = { 0 };
	uint64_t now_ns = START;

	(void)state;
	srandom(1);
	for (unsigned int i = 0; i < STEPS; i++) {
		uint64_t tokens = random_bits();

		if (i % 100 == 0) {
			token_bucket_init(&bucket, random_bits() | 1, random_bits() | 1);
			model.has = bucket.depth;
		}
		now_ns = random() % 50 ? now_ns + (random_bits() >> 8) : random_bits();
		token_bucket_refill(&bucket, now_ns);
		model_refill(&model, now_ns);
		assert_true(bucket.depth - model.has == bucket.missing);
		assert_int_equal(token_bucket_ready(&bucket), model.has >= (wide)TOKEN_UNITS);
		if (!token_bucket_ready(&bucket))
			continue;
		token_bucket_take(&bucket, tokens);
		model.has -= (wide)tokens * TOKEN_UNITS;
		if (bucket.depth - model.has > UINT64_MAX)
			model.has = (wide)bucket.depth - UINT64_MAX;
	}
}

/* LIMIT-1 and LIMIT-3 in server/worker/conn_limit.h. */
static void limits(void **state)
{
	struct conn_limit limit;
	unsigned int i;

	(void)state;
	conn_limit_init(&limit, 0, 0);
	assert_false(limit.on);
	conn_limit_charge(&limit, UINT64_MAX);
	conn_limit_init(&limit, 10, 0);
	assert_true(limit.on);
	for (i = 0; i < LIMIT_REQUESTS_MIN; i++)
		assert_true(conn_limit_admit(&limit, 1u << 30, START));
	for (i = 0; i < 10; i++)
		assert_false(conn_limit_admit(&limit, 1, START));
	/* Refusals took nothing. */
	assert_true(conn_limit_admit(&limit, 1, START + S / 10));
	assert_false(conn_limit_admit(&limit, 1, START + S / 10));
	/* A tenth of a second's worth, where that is more than the least. */
	conn_limit_init(&limit, 1000, 0);
	for (i = 0; i < 100; i++)
		assert_true(conn_limit_admit(&limit, 1, START));
	assert_false(conn_limit_admit(&limit, 1, START));
	/* Far more than the bucket: alone, and then the debt is paid. */
	conn_limit_init(&limit, 0, 1u << 20);
	assert_true(conn_limit_admit(&limit, 100, START));
	conn_limit_charge(&limit, 10u << 20);
	assert_false(conn_limit_admit(&limit, 100, START + 9 * S));
	assert_true(conn_limit_admit(&limit, 100, START + 10 * S));
	/* One limit refuses although the other would not, and then takes nothing of it. */
	conn_limit_init(&limit, 10, 1);
	assert_true(conn_limit_admit(&limit, 2 * LIMIT_BYTES_MIN, START));
	assert_false(conn_limit_admit(&limit, 1, START + S));
	assert_int_equal(limit.requests.missing, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact),    cmocka_unit_test(small_steps),
		cmocka_unit_test(no_limit), cmocka_unit_test(debt),
		cmocka_unit_test(overflow), cmocka_unit_test(clock_jumps),
		cmocka_unit_test(limits),   cmocka_unit_test(as_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
