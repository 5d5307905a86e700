/* SPDX-License-Identifier: MIT */
/*
 * Test of EVICT-1 in server/store/evict.h where eight threads store, each items of a size of its
 * own.
 */
#include "server/store/evict.h"

#include <pthread.h>

#include "tests/support/fresh_test.h"

#define THREADS 8u

struct writer {
	pthread_t id;
	struct store_thread *thread;
	uint64_t first, n; /* keys */
	uint32_t len;
};

static void *write_some(void *arg)
{
	struct writer *w = arg;

	rcu_register_thread();
	for (uint64_t i = 0; i < w->n; i++)
		put_with(w->thread, w->first + i, w->len, 0);
	store_thread_idle(w->thread);
	rcu_unregister_thread();
	return NULL;
}

static void with_threads(void **state)
{
	struct writer writers[THREADS];

	(void)state;
	create(EVICTION_OBJECT_HITS, THREADS);
	fill(2000);
	for (unsigned int i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){ .thread = &test_threads[i],
					      .len = lengths[i % 6],
					      .first = KEYS_OF(1 + i),
					      .n = quarter() / THREADS / bytes_of(lengths[i % 6]) };
		assert_int_equal(pthread_create(&writers[i].id, NULL, write_some, &writers[i]), 0);
	}
	rcu_thread_offline();
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(writers[i].id, NULL);
	rcu_thread_online();
	for (unsigned int i = 0; i < THREADS; i++)
		assert_none_lost(writers[i].first, writers[i].n, 2000, writers[i].len);
	assert_store(NULL);
	test_store_destroy(&store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
