/* SPDX-License-Identifier: MIT */
/*
 * What the handles of a process share (client/libkvd/shared.h): which handles get the same, that a
 * server which contradicts itself is refused, and that threads may use one cache at a time.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/libkvd/shared.h"
#include "common/util/clock.h"

#define URL "softnic:///here"
#define OTHER_URL "softnic:///there"
#define CACHE_BYTES 4096
#define THREADS 4
#define ROUNDS 20000
#define LEVEL 4

static struct geometry geometry_of(uint64_t incarnation)
{
	return (struct geometry){
		.incarnation = incarnation,
		.region_bytes = 1 << 20,
		.hash_seed = 7,
		.value_max = 1000,
		.level_base = 3,
		.level = LEVEL,
	};
}

static struct shared_server *get(const char *url, uint64_t incarnation)
{
	struct geometry g = geometry_of(incarnation);
	struct shared_server *server;

	assert_int_equal(shared_server_get(&server, url, &g), 0);
	return server;
}

static void one_for_each_url_and_incarnation(void **state)
{
	struct shared_server *a = get(URL, 1), *b = get(URL, 1), *restarted = get(URL, 2),
			     *other = get(OTHER_URL, 1);

	(void)state;
	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, restarted);
	assert_ptr_not_equal(a, other);
	shared_server_put(a);
	assert_ptr_equal(get(URL, 1), b);
	shared_server_put(b);
	shared_server_put(b);
	shared_server_put(restarted);
	shared_server_put(other);
	shared_server_put(NULL);
}

/* The index may have grown meanwhile; all else is as it was said before, or the server lies. */
static void a_contradiction_is_refused(void **state)
{
	struct geometry g = geometry_of(1), lies[] = { g, g, g, g };
	struct shared_server *first = get(URL, 1), *second;
	unsigned int i;

	(void)state;
	g.level++;
	g.split = 3;
	assert_int_equal(shared_server_get(&second, URL, &g), 0);
	shared_server_put(second);
	lies[0].region_bytes *= 2;
	lies[1].hash_seed++;
	lies[2].value_max++;
	lies[3].level_base++;
	for (i = 0; i < 4; i++)
		assert_int_equal(shared_server_get(&second, URL, &lies[i]), -EPROTO);
	shared_server_put(first);
	/* Nobody remembers what it said before. */
	assert_int_equal(shared_server_get(&second, URL, &lies[0]), 0);
	shared_server_put(second);
}

/* What one handle READ, another one gets; an older one changes nothing. */
static void a_geometry_is_passed_on(void **state)
{
	struct shared_server *server = get(URL, 1);
	struct geometry old = geometry_of(1), mine = old, newer = old;

	(void)state;
	assert_false(shared_geometry_get(server, &mine));
	newer.level++;
	newer.split = 5;
	shared_geometry_put(server, &newer);
	shared_geometry_put(server, &old);
	assert_true(shared_geometry_get(server, &mine));
	assert_memory_equal(&mine, &newer, sizeof(mine));
	assert_false(shared_geometry_get(server, &mine));
	/* One that connects later is told a newer one. */
	mine.split++;
	assert_false(shared_geometry_get(server, &mine));
	shared_server_put(server);
}

/* The interval of another handle serves if it can be used now: not if it is too wide, or old. */
static void a_clock_is_passed_on(void **state)
{
	struct shared_server *server = get(URL, 1);
	uint64_t now = clock_raw_ns(), slept = clock_slept_ns();
	struct server_clock clock, known;

	(void)state;
	server_clock_forget(&clock, slept);
	assert_false(shared_clock_get(server, &clock, now));
	server_clock_forget(&known, slept);
	assert_true(server_clock_learn(&known, 1000000000, now - 1000, now));
	shared_clock_put(server, &known);
	assert_true(shared_clock_get(server, &clock, now));
	assert_memory_equal(&clock, &known, sizeof(clock));
	/* By then both bounds have drifted too far apart. */
	assert_false(shared_clock_get(server, &clock, now + 3000000000));
	/* The host slept since it was known. */
	known.slept_ns -= 2 * CLOCK_SLEPT_NS_MIN;
	shared_clock_put(server, &known);
	assert_false(shared_clock_get(server, &clock, now));
	/* A PING that took long. */
	server_clock_forget(&known, slept);
	assert_true(server_clock_learn(&known, 1000000000, now - 2 * CLOCK_WIDTH_NS_MAX, now));
	shared_clock_put(server, &known);
	assert_false(shared_clock_get(server, &clock, now));
	shared_server_put(server);
}

static uint64_t slot_of(uint16_t tag, unsigned int thread)
{
	return slot_make(tag, 64ull * (thread + 1), 64);
}

static void one_cache(void **state)
{
	struct shared_server *server = get(URL, 1), *other = get(URL, 2);
	struct bcache none, a, b, c;

	(void)state;
	assert_int_equal(shared_server_cache(server, 0, &none), 0);
	assert_null(none.lines);
	assert_int_equal(shared_server_cache(server, CACHE_BYTES, &a), 0);
	assert_int_equal(shared_server_cache(server, 16 * CACHE_BYTES, &b), 0);
	assert_int_equal(shared_server_cache(other, CACHE_BYTES, &c), 0);
	assert_ptr_equal(a.lines, b.lines);
	assert_int_equal(bcache_bytes(&b), CACHE_BYTES);
	assert_ptr_not_equal(a.lines, c.lines);
	bcache_level(&a, LEVEL);
	bcache_level(&b, LEVEL);
	bcache_learn(&a, (uint64_t)9 << 48, slot_of(9, 0));
	assert_int_equal(bcache_lookup(&b, (uint64_t)9 << 48), slot_of(9, 0));
	shared_server_put(server);
	shared_server_put(other);
}

/* A slot that is found is one that some thread stored, whole, with the tag that was asked for. */
static void *cache_use(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg, i;
	struct geometry mine;
	struct bcache cache;

	for (i = 0; i < ROUNDS; i++) {
		struct shared_server *server = get(URL, 1);
		uint16_t tag = (uint16_t)(i % 61 + 1);
		uint64_t hash = (uint64_t)tag << 48, slot;

		assert_int_equal(shared_server_cache(server, CACHE_BYTES, &cache), 0);
		bcache_level(&cache, LEVEL);
		bcache_learn(&cache, hash, slot_of(tag, thread));
		slot = bcache_lookup(&cache, hash);
		if (slot && slot_tag(slot) == tag) {
			assert_int_equal(slot_offset(slot) % 64, 0);
			assert_in_range(slot_offset(slot), 64, 64 * THREADS);
		}
		bcache_drop(&cache, hash, slot);
		mine = geometry_of(1);
		mine.split = i % 16;
		shared_geometry_put(server, &mine);
		shared_geometry_get(server, &mine);
		assert_int_equal(mine.region_bytes, 1 << 20);
		shared_server_put(server);
	}
	return NULL;
}

static void threads_share_a_cache(void **state)
{
	pthread_t threads[THREADS];
	uintptr_t i;

	(void)state;
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, cache_use, (void *)i);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* A child begins anew: what its parent has is not its own. */
static void a_child_shares_nothing(void **state)
{
	struct shared_server *server = get(URL, 1);
	int status = -1;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct geometry g = geometry_of(1);
		struct shared_server *own = NULL;

		g.region_bytes *= 2;
		_exit(shared_server_get(&own, URL, &g) || own == server);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	shared_server_put(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_for_each_url_and_incarnation),
		cmocka_unit_test(a_contradiction_is_refused),
		cmocka_unit_test(a_geometry_is_passed_on),
		cmocka_unit_test(a_clock_is_passed_on),
		cmocka_unit_test(one_cache),
		cmocka_unit_test(threads_share_a_cache),
		cmocka_unit_test(a_child_shares_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
