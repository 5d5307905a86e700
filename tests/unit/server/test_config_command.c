/* SPDX-License-Identifier: MIT */
/*
 * Tests of CONFIG requests (server/config_command.h): the pages of a list, what a set refuses, also
 * from a client that sends anything, that it changes all options or none, and which ones a rewrite
 * writes.
 */
#include "server/config_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/control/conn_manager.h"
#include "server/control/worker_manager.h"

static unsigned int answers;

/* What changes of server.workers were asked for; NULL: they work. */
static unsigned int workers_set_to;
static const char *workers_why;

static bool fake_workers_set(const struct config *fresh, char *why, size_t size)
{
	workers_set_to = fresh->server.workers;
	if (workers_why)
		snprintf(why, size, "%s", workers_why);
	return !workers_why;
}

#define conn_manager_answered(conn) ((void)(conn), (void)answers++)
#define worker_manager_set(net, fresh, why, size) ((void)(net), fake_workers_set(fresh, why, size))
#include "server/config_command.c"
#undef conn_manager_answered
#undef worker_manager_set

#include "tests/support/log_fixture.h"

#define TEXT_BYTES 1100u
#define SECOND_NS 1000000000ull

static struct server server;
static struct config_source source;
static struct conn conn;
static char text[TEXT_BYTES + 1];

static int setup(void **state)
{
	static struct principal principal = { .name = "uid=7" };

	(void)state;
	memset(&server, 0, sizeof(server));
	memset(&conn, 0, sizeof(conn));
	config_init(&server.config);
	source = (struct config_source){ 0 };
	server.source = &source;
	server.net.env.config = &server.config;
	conn_manager_init(&server.net);
	conn.client.by_admin = true;
	conn.client.principal = &principal;
	conn.query.text = text;
	conn.query.size = TEXT_BYTES;
	answers = 0;
	return test_log_begin();
}

/* Returns the status; the text of the answer ends in a zero. */
static enum wire_status ask(enum wire_config mode, uint64_t cursor, const void *key, uint32_t len)
{
	const unsigned int before = answers;

	conn.query.op = WIRE_CONFIG;
	conn.query.mode = (uint8_t)mode;
	conn.query.arg = cursor;
	conn.query.len = len;
	if (len)
		memcpy(text, key, len);
	conn.queries = &server.net.config_queries;
	TAILQ_INSERT_TAIL(conn.queries, &conn, query_entry);
	config_command_run(&server);
	assert_int_equal(answers, before + 1);
	assert_null(conn.queries);
	assert_true(conn.query.len <= TEXT_BYTES);
	text[conn.query.len] = '\0';
	return conn.query.status;
}

static enum wire_status set_to(const char *assignments)
{
	return ask(WIRE_CONFIG_SET, 0, assignments, (uint32_t)strlen(assignments));
}

/* The set is refused, and nothing has changed. */
static void refuses(const char *assignments, const char *why)
{
	const struct config before = server.config;

	assert_int_equal(set_to(assignments), WIRE_INVALID);
	if (strncmp(text, why, strlen(why)) != 0)
		fail_msg("wanted '%s', got '%s'", why, text);
	assert_memory_equal(&before, &server.config, sizeof(before));
	for (unsigned int i = 0; i < OPTION_COUNT; i++)
		assert_false(server.options_set[i]);
}

/* Pages of any size make the whole list; a change between two of them is noticed. */
static void pages(void **state)
{
	char *whole = NULL;
	static char pages_text[65536];
	uint64_t cursor = 0;
	size_t length;
	FILE *out = open_memstream(&whole, &length);

	(void)state;
	assert_non_null(out);
	config_list(&server.config, out);
	fclose(out);
	for (uint32_t size = 1; size <= TEXT_BYTES; size += 366) {
		conn.query.size = size;
		*pages_text = '\0';
		do {
			assert_int_equal(ask(WIRE_CONFIG_GET, cursor, NULL, 0), WIRE_OK);
			assert_true(conn.query.len > 0);
			strcat(pages_text, text);
			cursor = conn.query.cursor;
		} while (cursor);
		assert_string_equal(pages_text, whole);
	}
	free(whole);
	conn.query.size = 600;
	ask(WIRE_CONFIG_GET, 0, NULL, 0);
	cursor = conn.query.cursor;
	assert_int_equal(set_to("log.level=info"), WIRE_OK);
	assert_int_equal(ask(WIRE_CONFIG_GET, cursor, NULL, 0), WIRE_BUSY);
	assert_int_equal(conn.query.len, 0);
	assert_int_equal(ask(WIRE_CONFIG_GET, 1ull << 32 | UINT32_MAX, NULL, 0), WIRE_INVALID);
	assert_string_equal(text, "the cursor is beyond the end of the options");
}

static void is_for_administrators(void **state)
{
	(void)state;
	conn.client.by_admin = false;
	for (unsigned int mode = 0; mode <= WIRE_CONFIG_MAX; mode++) {
		assert_int_equal(ask((enum wire_config)mode, 0, "log.level=info", 14),
				 WIRE_NOT_ALLOWED);
		assert_string_equal(text, no_admin);
	}
	assert_int_equal(server.config.log.level, LOG_NOTICE);
}

static void all_or_none(void **state)
{
	(void)state;
	refuses("log.level=debug\nserver.drain_timeout=never", "config set: server.drain_timeout:");
	refuses("log.level=debug\nmemory.size=2g",
		"config set: memory.size needs a restart: change it in its -o");
	source.file = "/etc/kvd/kvd.ini";
	refuses("log.level=debug\nmemory.size=1g",
		"config set: memory.size needs a restart: change it in /etc/kvd/kvd.ini, and");
	refuses("log.level=debug\nlog.level=info", "config set: log.level is given twice");
	/* Each is good, but they do not fit each other, or the other options. */
	refuses("log.level=debug\nusers.require_identity=yes",
		"config: users.require_identity = yes: server.listen = auto may be rdma://");
	refuses("log.level=debug\nusers.file=/none/users",
		"config set: users.file = /none/users can't be used: kvd's log says why");
	assert_logged("users.file = /none/users: No such file or directory");
	workers_why = "there is a reason";
	refuses("log.level=debug\nserver.workers=3",
		"config set: server.workers = 3: there is a reason");
	workers_why = NULL;
	assert_int_equal(set_to("server.workers=3"), WIRE_OK);
	assert_int_equal(workers_set_to, 3);
	assert_int_equal(server.config.server.workers, 3);
	assert_int_equal(set_to("log.level=debug\nserver.drain_timeout=7s\nrdma.networks=fd00::/8"),
			 WIRE_OK);
	assert_int_equal(conn.query.len, 0);
	assert_int_equal(server.config.log.level, LOG_DEBUG);
	assert_true(log_enabled(LOG_DEBUG));
	assert_true(server.config.server.drain_timeout == 7 * SECOND_NS);
	assert_string_equal(server.config.rdma.networks, "fd00::/8");
	assert_logged("CONFIG set by uid=7: rdma.networks is now fd00::/8, it was \n");
}

/* Bytes that kvctl would not send. */
static void hostile(void **state)
{
	static char key[KEY_MAX];

	(void)state;
	refuses("x", "config set: 'x' is not section.key=value");
	refuses("\n", "config set: '' is not section.key=value");
	refuses("log.level=debug\n", "config set: '' is not section.key=value");
	refuses("=", "config set: '=' is not section.key=value");
	refuses(".=", "config set: unknown option '.'");
	refuses("log.level=\x1b[31m", "config set: log.level: '?[31m' is not one of");
	refuses("users.file=/a\tb", "config set: users.file: the value has a control character");
	refuses("users.file=/a ;b", "config set: users.file: a space begins or ends the value");
	memset(key, 'a', sizeof(key));
	key[300] = '.';
	key[600] = '=';
	assert_int_equal(ask(WIRE_CONFIG_SET, 0, key, sizeof(key)), WIRE_INVALID);
	assert_memory_equal(text, "config set: unknown option 'aaa", 31);
	assert_int_equal(ask(WIRE_CONFIG_SET, 0, "log.level=debug\0x", 17), WIRE_INVALID);
	assert_string_equal(text, "config set: a value has a zero byte: remove it");
	assert_int_equal(server.config.log.level, LOG_NOTICE);
}

/* What was set is written, but what -o sets is not forgotten. */
static void rewrites(void **state)
{
	char path[] = "/tmp/kvd-test-config-XXXXXX", wanted[200];
	const char *assignments[] = { "log.format=json" };
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ask(WIRE_CONFIG_REWRITE, 0, NULL, 0), WIRE_INVALID);
	assert_string_equal(text, "kvd was started without a file: start it with -c FILE");
	source.file = path;
	assert_int_equal(set_to("log.level=info\nserver.drain_timeout=7s"), WIRE_OK);
	assert_int_equal(ask(WIRE_CONFIG_REWRITE, 0, NULL, 0), WIRE_OK);
	snprintf(wanted, sizeof(wanted), "%s: 2 options written\n", path);
	assert_string_equal(text, wanted);
	assert_int_equal(set_to("log.format=json"), WIRE_OK);
	source.assignments = assignments;
	source.count = 1;
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(ask(WIRE_CONFIG_REWRITE, 0, NULL, 0), WIRE_OK);
		snprintf(wanted, sizeof(wanted),
			 "%s: %u options written; kvd was started with -o for 1 of those", path,
			 !i);
		assert_memory_equal(text, wanted, strlen(wanted));
	}
	unlink(path);
	assert_int_equal(ask(WIRE_CONFIG_REWRITE, 0, NULL, 0), WIRE_INVALID);
	snprintf(wanted, sizeof(wanted), "%s: cannot read: No such file or directory", path);
	assert_string_equal(text, wanted);
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(pages),	CASE(is_for_administrators), CASE(all_or_none), CASE(hostile),
		CASE(rewrites),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
