/* SPDX-License-Identifier: MIT */
/*
 * Tests of the order in which a server is set up, and of what is released if a step fails: the
 * steps are functions that note their letter, one of which fails.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/server.h"

static char steps[32];
static char failing; /* the step that fails; 0: none */

static int step(char letter)
{
	size_t n = strlen(steps);

	assert_true(n + 1 < sizeof(steps));
	steps[n] = letter;
	return letter == failing ? -EIO : 0;
}

static int fake_net_check(const struct config *config, bool warn)
{
	(void)config;
	assert_false(warn);
	return step('a');
}

static int fake_store_check(const struct store_options *options)
{
	(void)options;
	return step('c');
}

static int fake_net_open(struct net *net, const struct config *config)
{
	(void)net;
	(void)config;
	return step('o');
}

static int fake_store_create(struct store *store, const struct store_options *options)
{
	(void)store;
	(void)options;
	return step('s');
}

static int fake_net_init(struct net *net, const struct worker_env *env)
{
	(void)net;
	assert_non_null(env->store);
	assert_non_null(env->config);
	return step('n');
}

static void fake_net_release(struct net *net)
{
	(void)net;
	step('N');
}

static void fake_store_destroy(struct store *store)
{
	(void)store;
	step('S');
}

#define net_check fake_net_check
#define store_check fake_store_check
#define net_open fake_net_open
#define store_create fake_store_create
#define net_init fake_net_init
#define net_release fake_net_release
#define store_destroy fake_store_destroy
#include "server/server.c"

/* What takes long comes late; what failed leaves nothing, neither devices nor memory. */
static void steps_and_releases(void **state)
{
	static const struct {
		char failing;
		const char *steps;
	} cases[] = {
		{ 0, "acosn" },	  { 'a', "aNS" },    { 'c', "acNS" },
		{ 'o', "acoNS" }, { 's', "acosNS" }, { 'n', "acosnNS" },
	};
	static struct server server;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&server, 0, sizeof(server));
		config_init(&server.config);
		server.config.server.device = DEVICE_SOFTNIC;
		memset(steps, 0, sizeof(steps));
		failing = cases[i].failing;
		assert_int_equal(server_init(&server), failing ? -EIO : 0);
		assert_string_equal(steps, cases[i].steps);
	}
	/* In reverse: the devices have the store's memory registered. */
	memset(steps, 0, sizeof(steps));
	server_release(&server);
	assert_string_equal(steps, "NS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_and_releases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
