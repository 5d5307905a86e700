/* SPDX-License-Identifier: MIT */
/* Tests of server/fleet/fleet_tls.h: threads that open handles while the paths change. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/fleet/fleet_tls.h"

#define CHANGES 20000u

static struct fleet_tls tls;
static _Atomic bool ended;

static void paths_fill(struct fleet_tls_paths *paths, unsigned int number)
{
	snprintf(paths->ca, sizeof(paths->ca), "%u", number);
	snprintf(paths->certificate, sizeof(paths->certificate), "%u", number);
	snprintf(paths->key, sizeof(paths->key), "%u", number);
	snprintf(paths->psk, sizeof(paths->psk), "%u", number);
}

static void *change(void *arg)
{
	struct fleet_tls_paths paths;

	for (unsigned int i = 1; i <= CHANGES; i++) {
		paths_fill(&paths, i);
		fleet_tls_set(&tls, &paths);
	}
	ended = true;
	return arg;
}

static void paths_of_one_change(void **state)
{
	struct kvd_options options = { 0 };
	struct fleet_tls_paths paths;
	pthread_t thread;

	(void)state;
	fleet_tls_init(&tls);
	paths_fill(&paths, 0);
	fleet_tls_set(&tls, &paths);
	assert_int_equal(pthread_create(&thread, NULL, change, NULL), 0);
	while (!ended) {
		fleet_tls_get(&tls, &paths, &options);
		assert_string_equal(options.tls_ca, options.tls_certificate);
		assert_string_equal(options.tls_ca, options.tls_key);
		assert_string_equal(options.tls_ca, options.tls_psk);
	}
	pthread_join(thread, NULL);
}

static void no_path_is_null(void **state)
{
	struct kvd_options options = { .tls_ca = "a", .tls_key = "k" };
	struct fleet_tls_paths paths = { .psk = "secret" };

	(void)state;
	fleet_tls_init(&tls);
	fleet_tls_set(&tls, &paths);
	fleet_tls_get(&tls, &paths, &options);
	assert_true(!options.tls_ca && !options.tls_certificate && !options.tls_key);
	assert_string_equal(options.tls_psk, "secret");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_path_is_null),
		cmocka_unit_test(paths_of_one_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
