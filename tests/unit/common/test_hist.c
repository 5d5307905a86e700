/* SPDX-License-Identifier: MIT */
/*
 * Tests of the latency histogram (common/util/hist.h): bucket borders over all 64 bits, the error
 * of quantiles compared with sorted values, and merging.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/util/hist.h"

#define SAMPLES 20000

static struct hist a, b;
static uint64_t values[SAMPLES];

static int compare(const void *x, const void *y)
{
	uint64_t l = *(const uint64_t *)x, r = *(const uint64_t *)y;

	return l < r ? -1 : l > r;
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void empty_is_all_zero(void **state)
{
	(void)state;
	hist_init(&a);
	assert_int_equal(hist_count(&a), 0);
	assert_int_equal(hist_min(&a), 0);
	assert_int_equal(hist_max(&a), 0);
	assert_int_equal(hist_quantile(&a, 0.5), 0);
	assert_true(hist_mean(&a) == 0);
}

/*
 * Buckets follow each other without a gap or an overlap, at every power of two and 1.25 times it.
 */
static void buckets_are_contiguous(void **state)
{
	uint64_t value;
	unsigned int bit;

	(void)state;
	assert_int_equal(hist_bucket(0), 0);
	assert_int_equal(hist_bucket(127), 127);
	assert_int_equal(hist_bucket(128), 128);
	assert_int_equal(hist_bucket(UINT64_MAX), HIST_BUCKETS - 1);
	for (bit = 7; bit < 64; bit++) {
		value = UINT64_C(1) << bit;
		assert_int_equal(hist_bucket(value), hist_bucket(value - 1) + 1);
		value += value >> 2;
		assert_int_equal(hist_bucket(value), hist_bucket(value - 1) + 1);
	}
}

/* One value alone comes back within 1.6 % and never too low, whatever its size. */
static void one_value_is_within_the_error(void **state)
{
	uint64_t seed = 88172645463325252u, value, got;
	int i;

	(void)state;
	for (i = 0; i < 200; i++) {
		value = random_next(&seed) >> (i % 60);
		hist_init(&a);
		hist_record(&a, value);
		hist_record(&a, UINT64_MAX); /* so that the maximum does not hide the bucket */
		got = hist_quantile(&a, 0.5);
		assert_true(got >= value);
		assert_true((double)(got - value) <= (double)value / 64);
	}
}

static void record_samples(struct hist *hist, uint64_t seed)
{
	int i;

	hist_init(hist);
	for (i = 0; i < SAMPLES; i++) {
		/* Spread evenly over the logarithm, 1 ns to 2^40 ns. */
		values[i] = random_next(&seed) >> (24 + random_next(&seed) % 40);
		hist_record(hist, values[i]);
	}
}

static void quantiles_match_sorted_values(void **state)
{
	static const double quantiles[] = { 0.001, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999 };
	uint64_t want, got;
	size_t i;

	(void)state;
	record_samples(&a, 1234567);
	qsort(values, SAMPLES, sizeof(values[0]), compare);
	for (i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
		want = values[(size_t)(quantiles[i] * SAMPLES + 0.999999) - 1];
		got = hist_quantile(&a, quantiles[i]);
		assert_true(got >= want);
		assert_true((double)(got - want) <= (double)want / 64);
	}
	assert_int_equal(hist_quantile(&a, 0), values[0]);
	assert_int_equal(hist_quantile(&a, 1), values[SAMPLES - 1]);
	assert_int_equal(hist_quantile(&a, 7), values[SAMPLES - 1]);
	assert_int_equal(hist_min(&a), values[0]);
	assert_int_equal(hist_max(&a), values[SAMPLES - 1]);
}

/* Ranks are rounded up and buckets end where the next begins. */
static void small_sets_are_exact(void **state)
{
	uint64_t value;

	(void)state;
	hist_init(&a);
	for (value = 1; value <= 10; value++)
		hist_record(&a, value);
	assert_int_equal(hist_quantile(&a, 0.05), 1);
	assert_int_equal(hist_quantile(&a, 0.5), 5);
	assert_int_equal(hist_quantile(&a, 0.51), 6);
	assert_int_equal(hist_quantile(&a, 0.99), 10);
	for (value = 128; value < UINT64_C(1) << 62; value *= 2) {
		hist_init(&a);
		hist_record(&a, value);
		hist_record(&a, UINT64_MAX);
		assert_int_equal(hist_quantile(&a, 0.5), value + value / 64 - 1);
	}
	assert_int_equal(hist_quantile(&a, 0.9), UINT64_MAX);
}

static void mean_is_exact(void **state)
{
	(void)state;
	hist_init(&a);
	hist_record(&a, 1000);
	hist_record(&a, 2000);
	hist_record(&a, 3001);
	assert_true(hist_mean(&a) > 2000.33 && hist_mean(&a) < 2000.34);
}

static void merge_adds_up(void **state)
{
	static struct hist both;

	(void)state;
	record_samples(&a, 42);
	hist_init(&both);
	hist_merge(&both, &a);
	hist_init(&b);
	hist_record(&b, 0);
	hist_record(&b, UINT64_C(1) << 50);
	hist_merge(&both, &b);
	assert_int_equal(hist_count(&both), SAMPLES + 2);
	assert_int_equal(hist_min(&both), 0);
	assert_int_equal(hist_max(&both), UINT64_C(1) << 50);
	assert_int_equal(both.sum_ns, a.sum_ns + b.sum_ns);
	hist_init(&b);
	hist_merge(&both, &b); /* an empty one changes nothing, the minimum included */
	assert_int_equal(hist_count(&both), SAMPLES + 2);
	assert_int_equal(hist_min(&both), 0);
}

static void merge_is_as_recorded_in_one(const uint64_t *first, const uint64_t *second, size_t count)
{
	static struct hist all;
	size_t i;

	hist_init(&a);
	hist_init(&b);
	hist_init(&all);
	for (i = 0; i < count; i++) {
		hist_record(&a, first[i]);
		hist_record(&b, second[i]);
		hist_record(&all, first[i]);
		hist_record(&all, second[i]);
	}
	hist_merge(&a, &b);
	assert_memory_equal(&a, &all, sizeof(all));
}

/* Each count of each bucket, the last one included, whichever has the larger and the smaller. */
static void merge_keeps_every_value(void **state)
{
	static const uint64_t low[] = { 5, 1000, 1 << 20 };
	static const uint64_t high[] = { 7, 1000, UINT64_MAX };

	(void)state;
	merge_is_as_recorded_in_one(low, high, 3);
	merge_is_as_recorded_in_one(high, low, 3);
}

/* The ends are no bounds of buckets, but what was measured. */
static void ends_are_exact(void **state)
{
	(void)state;
	hist_init(&a);
	hist_record(&a, 1000003);
	hist_record(&a, 2000003);
	assert_int_equal(hist_quantile(&a, 0), 1000003);
	assert_int_equal(hist_quantile(&a, 1), 2000003);
	assert_int_equal(hist_quantile(&a, 0.99), 2000003);
	assert_int_equal(hist_min(&a), 1000003);
}

/* The minimum and the maximum, in whatever order they come. */
static void sparse_has_its_ends(void **state)
{
	static const uint64_t points[] = { 5000, 300, 70000, 400 };
	struct hist_sparse sparse = { 0 };

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		hist_sparse_record(&sparse, points[i]);
	hist_sparse_expand(&sparse, &b);
	hist_sparse_release(&sparse);
	assert_int_equal(hist_count(&b), 4);
	assert_int_equal(hist_min(&b), 300);
	assert_int_equal(hist_max(&b), 70000);
	assert_int_equal(b.sum_ns, 75700);
}

/* The same values give the same histogram, at the ends of the range as well. */
static void sparse_is_the_same(void **state)
{
	static const uint64_t points[] = { 0, 1, 127, 128, 5000, 5001, 1 << 20, UINT64_MAX };
	struct hist_sparse sparse = { 0 };
	unsigned int i;

	(void)state;
	hist_init(&a);
	hist_sparse_expand(&sparse, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	for (i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		hist_record(&a, points[i]);
		hist_sparse_record(&sparse, points[i]);
	}
	hist_sparse_expand(&sparse, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_int_equal(sparse.part_count, 6);
	hist_sparse_release(&sparse);
	hist_sparse_expand(&sparse, &b);
	assert_int_equal(hist_count(&b), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_is_all_zero),
		cmocka_unit_test(buckets_are_contiguous),
		cmocka_unit_test(one_value_is_within_the_error),
		cmocka_unit_test(quantiles_match_sorted_values),
		cmocka_unit_test(small_sets_are_exact),
		cmocka_unit_test(mean_is_exact),
		cmocka_unit_test(merge_adds_up),
		cmocka_unit_test(merge_keeps_every_value),
		cmocka_unit_test(ends_are_exact),
		cmocka_unit_test(sparse_has_its_ends),
		cmocka_unit_test(sparse_is_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
