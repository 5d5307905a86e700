/* SPDX-License-Identifier: MIT */
/*
 * Unit tests of server/control/user_tenants.c: what the tenants of users with `memory` need
 * together, and who has a tenant.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/control/user_tenants.h"
#include "server/worker/tenant.h"
#include "tests/support/log_fixture.h"

#define MIB (1ull << 20)
#define OF(name, uid, more) "[user " name "]\nuid = " uid "\nrights = all\n" more

static struct config config;
static struct users *users;

static void users_are(const char *text)
{
	char why[USERS_WHY_MAX] = "";

	users_put(users);
	users = NULL;
	if (users_parse(&users, text, strlen(text), NULL, why))
		fail_msg("%s", why);
}

static int setup(void **state)
{
	(void)state;
	config_init(&config);
	config.tenants.memory = 64 * MIB;
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	users_put(users);
	users = NULL;
	return 0;
}

/* All together. */
static void fit(void **state)
{
	(void)state;
	strcpy(config.users.file, "/users");
	assert_int_equal(user_tenants_fit(NULL, &config), 0);
	users_are(OF("alice", "1", "memory = 32m\n") OF("bob", "2", "tenant = alice\n")
			  OF("carol", "3", "tenant = beta\nmemory = 32m\n"));
	assert_int_equal(user_tenants_fit(users, &config), 0);
	assert_int_equal(test_log_lines(), 0);
	users_are(OF("alice", "1", "memory = 32m\n") OF("bob", "2", "memory = 33m\n"));
	assert_int_equal(user_tenants_fit(users, &config), -EINVAL);
	assert_logged("users.file = /users: the tenants of users need 65 MiB of memory, and "
		      "tenants.memory is 64 MiB: raise that, or lower the sizes");
}

/* As many as there are places beside the default one, and one more. */
static void places(void **state)
{
	char text[TENANTS_MAX * 64], *at = text;

	(void)state;
	config.tenants.memory = TENANTS_MAX * 16 * MIB;
	for (unsigned int i = 0; i < TENANTS_MAX; i++) {
		if (i == TENANTS_MAX - 1) {
			users_are(text);
			assert_int_equal(user_tenants_fit(users, &config), 0);
		}
		at += sprintf(at, OF("u%u", "%u", "memory = 16m\n"), i, i);
	}
	users_are(text);
	assert_int_equal(user_tenants_fit(users, &config), -EINVAL);
	assert_logged("there are 65 tenants with default, and 64 is the maximum");
}

static void holders(void **state)
{
	(void)state;
	assert_null(user_tenants_holder(NULL, "default", false));
	users_are(OF("bob", "2", "tenant = alice\n") OF("alice", "1", "memory = 32m\n")
			  OF("carol", "3", "tenant = beta\n"));
	assert_string_equal(user_tenants_holder(users, "alice", false)->name, "bob");
	assert_string_equal(user_tenants_holder(users, "alice", true)->name, "alice");
	assert_string_equal(user_tenants_holder(users, "beta", false)->name, "carol");
	assert_null(user_tenants_holder(users, "beta", true));
	assert_null(user_tenants_holder(users, "bob", false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		CASE(fit),
		CASE(places),
		CASE(holders),
#undef CASE
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
