/* SPDX-License-Identifier: MIT */
/*
 * Tests of SIGHUP (server/reload.h): what is taken over, what is refused, and what the log says of
 * both, also the next time.
 */
#include "server/reload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "server/config/config.h"
#include "server/log_writer.h"

static unsigned int reopened, to_log;

#define log_writer_reopen() ((void)reopened++)
#define config_errors_to_log() ((void)to_log++, config_errors_to_log())
#include "server/reload.c"
#undef log_writer_reopen
#undef config_errors_to_log

#include "tests/support/log_fixture.h"

#define SECOND_NS 1000000000ull

static struct config test_config;

static int setup(void **state)
{
	(void)state;
	config_init(&test_config);
	test_config.log.level = LOG_NOTICE;
	return 0;
}

/* With these assignments of -o; the log has what that says. */
static void reload_with(const char *first, const char *second)
{
	const char *assignments[] = { "log.level=notice", first, second };
	const struct config_source source = {
		.assignments = assignments,
		.count = second ? 3 :
			 first	? 2 :
				  1,
	};

	assert_int_equal(test_log_begin(), 0);
	log_set_level((enum log_level)test_config.log.level);
	reopened = to_log = 0;
	reload(&test_config, &source);
	/* The log's file, which may have been moved; stderr, which may be gone. */
	assert_int_equal(reopened, 1);
	assert_int_equal(to_log, 1);
}

static void assert_counts(unsigned int taken, unsigned int refused)
{
	char text[100];

	snprintf(text, sizeof(text), "%u options taken over, %u need a restart\n", taken, refused);
	assert_logged(text);
}

static void nothing_changed(void **state)
{
	const struct config before = test_config;

	(void)state;
	reload_with(NULL, NULL);
	assert_counts(0, 0);
	assert_int_equal(test_log_lines(), 1);
	assert_memory_equal(&test_config, &before, sizeof(test_config));
}

/* log.level changes and is changed back, each time from the one in force. */
static void level(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		reload_with("log.level=debug", NULL);
		assert_counts(1, 0);
		assert_logged("SIGHUP: log.level is now debug, it was notice\n");
		assert_int_equal(test_config.log.level, LOG_DEBUG);
		assert_true(log_enabled(LOG_DEBUG));
		reload_with("log.level=debug", NULL);
		assert_counts(0, 0);
		assert_true(log_enabled(LOG_DEBUG));
		reload_with(NULL, NULL);
		assert_counts(1, 0);
		assert_logged("SIGHUP: log.level is now notice, it was debug\n");
		assert_int_equal(test_config.log.level, LOG_NOTICE);
		assert_false(log_enabled(LOG_INFO));
	}
}

static void drain_timeout(void **state)
{
	const uint64_t before = test_config.server.drain_timeout;

	(void)state;
	reload_with("server.drain_timeout=77s", NULL);
	assert_counts(1, 0);
	assert_true(test_config.server.drain_timeout == 77 * SECOND_NS);
	reload_with("server.drain_timeout=77s", NULL);
	assert_counts(0, 0);
	reload_with(NULL, NULL);
	assert_counts(1, 0);
	assert_true(test_config.server.drain_timeout == before);
}

/* The devices are told of them by net_renew(). */
static void tls(void **state)
{
	(void)state;
	reload_with("tls.certificate=/etc/kvd/new.pem", "tls.require_identity=no");
	assert_counts(2, 0);
	assert_string_equal(test_config.tls.certificate, "/etc/kvd/new.pem");
	assert_false(test_config.tls.require_identity);
	reload_with(NULL, NULL);
	assert_counts(2, 0);
	assert_string_equal(test_config.tls.certificate, "");
	assert_true(test_config.tls.require_identity);
}

/* Likewise; and who may connect is asked of the configuration. */
static void users(void **state)
{
	(void)state;
	reload_with("users.file=/etc/kvd/users", "rdma.networks=10.9.0.0/24");
	assert_counts(2, 0);
	assert_string_equal(test_config.users.file, "/etc/kvd/users");
	assert_string_equal(test_config.rdma.networks, "10.9.0.0/24");
	reload_with(NULL, NULL);
	assert_counts(2, 0);
	assert_string_equal(test_config.users.file, "");
	assert_string_equal(test_config.rdma.networks, "");
}

/* The option keeps its value at each SIGHUP; the other changes are taken over. */
static void needs_a_restart(void **state)
{
	const unsigned int before = (unsigned int)test_config.server.max_connections;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		reload_with("server.max_connections=33", "log.level=info");
		assert_counts(!i, 1);
		assert_logged("server.max_connections was changed from");
		assert_logged("to '33': restart kvd to apply it\n");
		assert_int_equal(test_config.server.max_connections, before);
		assert_int_equal(test_config.log.level, LOG_INFO);
	}
}

static void errors(void **state)
{
	const struct config before = test_config;

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		static const char *const good[] = { "log.level=debug", "users.file=/etc/kvd/users",
						    "tls.psk=/etc/kvd/keys",
						    "server.drain_timeout=77s" };

		reload_with(good[i], "server.max_connections=many");
		assert_logged("SIGHUP: the configuration has errors: kvd keeps the previous one\n");
		assert_memory_equal(&test_config, &before, sizeof(test_config));
		assert_false(log_enabled(LOG_INFO));
	}
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(nothing_changed), CASE(level),	      CASE(drain_timeout), CASE(tls),
		CASE(users),	       CASE(needs_a_restart), CASE(errors),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
