/* SPDX-License-Identifier: MIT */
/* What libkvd(3), Costs, says of each call: READs, and messages to the server. */
#include "tests/support/get_test.h"

#define PART_BYTES (LOOPBACK_BUFFER_BYTES - sizeof(struct wire_response))

static void assert_calls_cost(uint64_t read_count, uint64_t messages)
{
	assert_int_equal(kvd->stats.reads, read_count);
	assert_int_equal(kvd->stats.requests, messages);
	reset_stats();
}

static char a[8], b[8], none[8], longer[8];

static bool homes_differ(void)
{
	const char *const keys[] = { a, b, none, longer };
	unsigned int i, j;

	for (i = 0; i < 4; i++)
		for (j = 0; j < i; j++)
			if (test_store_home(&store, keys[i], (uint32_t)strlen(keys[i])) ==
			    test_store_home(&store, keys[j], (uint32_t)strlen(keys[j])))
				return false;
	return true;
}

/* Each in a bucket of its own: the cache learns all of a bucket that is READ for one of them. */
static void choose_keys(void)
{
	unsigned int n = 0;

	do {
		snprintf(a, sizeof(a), "a%u", n);
		snprintf(b, sizeof(b), "b%u", n);
		snprintf(none, sizeof(none), "none%u", n);
		snprintf(longer, sizeof(longer), "long%u", n);
	} while (!homes_differ() && ++n < 1000);
	assert_true(n < 1000);
}

static void gets(void **state)
{
	struct kvd_get_request many[3];
	struct kvd_item item;

	(void)state;
	choose_keys();
	many[0] = (struct kvd_get_request){ a, strlen(a), found, 100, 0, { 0 } };
	many[1] = (struct kvd_get_request){ b, strlen(b), found + 100, 100, 0, { 0 } };
	many[2] = (struct kvd_get_request){ none, strlen(none), NULL, 0, 0, { 0 } };
	other_put(a, value, 100);
	other_put(b, value, 100);
	other_put(longer, value, 50000);
	reset_stats();
	assert_get(a, value, 100);
	assert_calls_cost(2, 0);
	assert_get(a, value, 100);
	assert_calls_cost(1, 0);
	assert_not_found(none);
	assert_calls_cost(1, 0);
	assert_get(longer, value, 50000);
	assert_calls_cost(2, 0);
	assert_get(longer, value, 50000);
	assert_calls_cost(1, 0);
	assert_get(b, value, 100);
	reset_stats();
	assert_int_equal(kvd_get_many(kvd, many, 3), KVD_OK);
	assert_calls_cost(3, 0);
	assert_int_equal(kvd_get_by_request(kvd, a, strlen(a), found, 100, &item), KVD_OK);
	assert_calls_cost(0, 1);
	assert_int_equal(kvd_get_and_touch(kvd, a, strlen(a), 100, found, 100, &item), KVD_OK);
	assert_calls_cost(0, 1);
	/* As many as it takes. */
	assert_int_equal(kvd_get_by_request(kvd, longer, strlen(longer), found, 50000, &item),
			 KVD_OK);
	assert_calls_cost(0, (50000 + PART_BYTES - 1) / PART_BYTES);
}

static void changes(void **state)
{
	struct kvd_item item;
	uint64_t number;

	(void)state;
	reset_stats();
	assert_int_equal(kvd_put(kvd, "a", 1, "1", 1, NULL, NULL), KVD_OK);
	assert_calls_cost(0, 1);
	assert_int_equal(kvd_put(kvd, "long", 4, value, 500000, NULL, NULL), KVD_OK);
	assert_calls_cost(0, 1);
	assert_int_equal(kvd_incr(kvd, "a", 1, 1, NULL, &number, NULL), KVD_OK);
	assert_calls_cost(0, 1);
	assert_int_equal(kvd_touch(kvd, "a", 1, 0, NULL), KVD_OK);
	assert_calls_cost(0, 1);
	/* A change tells the cache where the key is. */
	assert_int_equal(kvd_get(kvd, "a", 1, found, 100, &item), KVD_OK);
	assert_calls_cost(1, 0);
	assert_int_equal(kvd_delete(kvd, "a", 1), KVD_OK);
	assert_calls_cost(0, 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_calls_cost(0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(gets),
		CASE(changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
