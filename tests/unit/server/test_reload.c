/* SPDX-License-Identifier: MIT */
/*
 * Tests of SIGHUP (server/reload.h) and of changes of options (server/option_change.h): what is
 * taken over, what is refused, and what the log says of both, also the next time.
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
#include "server/control/conn_manager.h"
#include "server/control/worker_manager.h"
#include "server/log_writer.h"
#include "server/option_change.h"

static unsigned int reopened, to_log;

/* What other modules were told. */
static unsigned int options_renewed, tls_reread, members_told, users_reread, http_renewed,
	http_reread;

#define conn_manager_renew_options(net) ((void)(net), (void)options_renewed++)
#define net_renew(net) ((void)(net), (void)tls_reread++)
#define server_renew_tls(server) ((void)(server), (void)members_told++)
#define conn_manager_renew_users(net) ((void)(net), (void)users_reread++)
#define http_renew(http, config, tls)                                                              \
	((void)(http), (void)(config), (void)http_renewed++, (void)(http_reread += (tls)))
#include "server/option_change.c"

/* Why server.workers can't change; NULL: it can. */
static const char *workers_why;

static bool fake_workers_set(char *why, size_t size)
{
	if (workers_why)
		snprintf(why, size, "%s", workers_why);
	return !workers_why;
}

#define worker_manager_set(net, fresh, why, size) ((void)(net), fake_workers_set(why, size))
#define log_writer_reopen() ((void)reopened++)
#define config_errors_to_log() ((void)to_log++, config_errors_to_log())
#include "server/reload.c"
#undef worker_manager_set
#undef log_writer_reopen
#undef config_errors_to_log

#include "tests/support/log_fixture.h"

#define SECOND_NS 1000000000ull

static struct server server;
#define test_config server.config

static int setup(void **state)
{
	(void)state;
	memset(&server, 0, sizeof(server));
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
	tls_reread = members_told = users_reread = http_reread = 0;
	server.source = &source;
	reload(&server);
	/* The log's file, which may have been moved; stderr, which may be gone. */
	assert_int_equal(reopened, 1);
	assert_int_equal(to_log, 1);
	/* The files that the configuration names may have changed, even if it has errors. */
	assert_true(tls_reread == 1 && members_told == 1 && users_reread == 1 && http_reread == 1);
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

/* If the number of workers can't change, the next SIGHUP tries again; all else is taken over. */
static void workers(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		workers_why = "a reason";
		reload_with("server.workers=5", "server.drain_timeout=9s");
		assert_int_equal(test_config.server.workers, 0);
		assert_int_equal(test_config.server.drain_timeout, 9 * SECOND_NS);
		assert_logged("SIGHUP: server.workers stays 0, and does not become 5: a reason; "
			      "the next SIGHUP tries again\n");
	}
	workers_why = NULL;
	reload_with("server.workers=5", "server.drain_timeout=9s");
	assert_counts(1, 0);
	assert_logged("SIGHUP: server.workers is now 5, it was 0\n");
	assert_int_equal(test_config.server.workers, 5);
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

/* Takes one option over as CONFIG set does. */
static void set(const char *assignment, bool marks[OPTION_COUNT])
{
	static struct principal principal = { .name = "uid=7" };
	const struct client client = { .principal = &principal };
	struct config fresh = test_config;

	assert_int_equal(test_log_begin(), 0);
	assert_int_equal(config_set_live(&fresh, assignment, NULL, marks), 0);
	tls_reread = members_told = users_reread = http_reread = options_renewed = http_renewed = 0;
	assert_int_equal(options_take(&server, &fresh, &client).taken, 1);
	assert_true(options_renewed == 1 && http_renewed == 1);
}

/* A change by CONFIG set rereads the files of its own section, and no others. */
static void files_of_its_section(void **state)
{
	bool marks[OPTION_COUNT] = { false };

	(void)state;
	set("server.spin_time=1ms", marks);
	assert_logged("CONFIG set by uid=7: server.spin_time is now 1ms, it was 50us\n");
	assert_true(!tls_reread && !members_told && !users_reread && !http_reread);
	set("tls.require_identity=no", marks);
	assert_true(tls_reread == 1 && members_told == 1 && !users_reread && http_reread == 1);
	set("users.require_identity=yes", marks);
	assert_true(!tls_reread && !members_told && users_reread == 1 && !http_reread);
}

/* What CONFIG set has set lasts until SIGHUP, which says so. */
static void ends_what_was_set(void **state)
{
	(void)state;
	set("server.drain_timeout=9s", server.options_set);
	reload_with(NULL, NULL);
	assert_counts(1, 0);
	assert_logged(
		"SIGHUP: server.drain_timeout is now 5s, it was 9s, set by kvctl config set\n");
	for (unsigned int i = 0; i < OPTION_COUNT; i++)
		assert_false(server.options_set[i]);
	reload_with("server.drain_timeout=9s", NULL);
	assert_logged("SIGHUP: server.drain_timeout is now 9s, it was 5s\n");
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(nothing_changed),	 CASE(workers), CASE(level),
		CASE(drain_timeout),	 CASE(tls),	CASE(users),
		CASE(needs_a_restart),	 CASE(errors),	CASE(files_of_its_section),
		CASE(ends_what_was_set),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
