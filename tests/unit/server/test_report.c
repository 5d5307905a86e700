/* SPDX-License-Identifier: MIT */
/*
 * Tests of the control thread's half of REPORT (server/control/report.h) and of the records that it
 * keeps (server/control/trace_log.h): what a line says, who sees keys, pages, gaps where operations
 * were lost, what is kept of many, and a sample's cursor.
 */
#include "server/control/report.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "common/util/stat.h"
#include "server/control/query_answer.h"
#include "server/control/traces.h"
#include "server/users/user.h"
#include "server/worker/conn.h"

#define NS_PER_S 1000000000ull
#define NOW_NS (1000000 * NS_PER_S) /* 1970-01-12T13:46:40 */
#define SLOW_NS 1000000u
#define WORKERS 2u

static struct store store;
static struct worker workers[WORKERS];
static struct net net;
static struct conn conn;
static struct tenant tenant = { .name = "blue" }, other = { .name = "red" };
static struct tenant_part part = { .tenant = &tenant, .store = &store };
static char text[128u << 10];

static int setup(void **state)
{
	(void)state;
	memset(&net, 0, sizeof(net));
	memset(&conn, 0, sizeof(conn));
	memset(workers, 0, sizeof(workers));
	store.table.clock_base = NOW_NS;
	net.env.store = &store;
	net.workers = workers;
	net.worker_count = WORKERS;
	conn.poller = &workers[0].pollers[0];
	conn.client.part = &part;
	conn.client.kind = DEVICE_SOFTNIC;
	strcpy(conn.client.peer.address, "pid:5");
	for (unsigned int i = 0; i < WORKERS; i++) {
		workers[i].number = i;
		if (trace_init(&workers[i].trace, SLOW_NS))
			return -1;
	}
	if (traces_init(&net.traces) || conn_registry_init(&net.registry, 4))
		return -1;
	conn.client.number = conn_registry_add(&net.registry, &conn.client);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < WORKERS; i++)
		trace_release(&workers[i].trace);
	traces_release(&net.traces);
	conn_registry_release(&net.registry);
	atomic_store(&conn.client.user, NULL);
	return 0;
}

/* @worker executes a DELETE of @key, which takes @took_ns. */
static void executed(unsigned int worker, const char *key, uint64_t took_ns)
{
	const struct request request = {
		.op = WIRE_DELETE,
		.key = (const uint8_t *)key,
		.key_len = (uint32_t)strlen(key),
	};
	const struct wire_response head = { .status = WIRE_NOT_FOUND };

	trace_note(&workers[worker].trace, &conn.client, &request, &head, NOW_NS - took_ns);
	trace_turn_end(&workers[worker].trace, NOW_NS);
}

static enum wire_status status_of(enum wire_report what, uint64_t cursor, uint32_t size)
{
	struct query *query = &conn.query;

	query->op = WIRE_REPORT;
	query->mode = what;
	query->every = 1;
	query->arg = cursor;
	query->text = text;
	query->size = size;
	assert_null(query_answer(&net, &conn));
	assert_true(query->len <= size);
	text[query->len] = '\0';
	return query->status;
}

/* Returns the cursor of what comes next. */
static uint64_t ask(enum wire_report what, uint64_t cursor, uint32_t size)
{
	assert_int_equal(status_of(what, cursor, size), WIRE_OK);
	return conn.query.cursor;
}

static void assert_text(const char *expected)
{
	assert_int_equal(ask(WIRE_REPORT_SLOW, 0, sizeof(text) - 1), 0);
	assert_string_equal(text, expected);
}

static void a_line(void **state)
{
	char expected[500];

	(void)state;
	executed(1, "a key\x01%\xff", 2 * SLOW_NS + 1234);
	executed(0, "fast", SLOW_NS);
	snprintf(expected, sizeof(expected),
		 "number=1 time=1970-01-12T13:46:39.997998Z took_us=2001 op=DELETE "
		 "status=NOT_FOUND value_bytes=0 worker=1 id=%" PRIu64
		 " way=softnic addr=pid:5 tenant=blue key_bytes=8 key=a%%20key%%01%%25%%FF\n",
		 conn.client.number);
	assert_text(expected);
	assert_int_equal(net.stats.slow_requests, 1);
}

static void a_client_that_is_gone(void **state)
{
	(void)state;
	executed(0, "k", 2 * SLOW_NS);
	conn_registry_remove(&net.registry, conn.client.number);
	ask(WIRE_REPORT_SLOW, 0, sizeof(text) - 1);
	assert_null(strstr(text, "addr="));
	assert_null(strstr(text, " key="));
	assert_non_null(strstr(text, " key_bytes=1\n"));
	conn.client.number = conn_registry_add(&net.registry, &conn.client);
}

/* A key is shown to those that could GET it. */
static void who_sees_keys(void **state)
{
	static const struct user reader = { .name = "bob", .rights = USER_ADMIN | USER_READ };
	static const struct user admin = { .name = "ann", .rights = USER_ADMIN };
	static const struct user limited = {
		.name = "eve",
		.rights = USER_ADMIN | USER_READ,
		.read.count = 1,
	};

	(void)state;
	atomic_store(&conn.client.user, &reader);
	executed(0, "hidden", 2 * SLOW_NS);
	ask(WIRE_REPORT_SLOW, 0, sizeof(text) - 1);
	assert_non_null(strstr(text, " user=bob tenant=blue key_bytes=6 key=hidden\n"));
	atomic_store(&conn.client.user, &admin);
	ask(WIRE_REPORT_SLOW, 0, sizeof(text) - 1);
	assert_non_null(strstr(text, " user=bob tenant=blue key_bytes=6\n"));
	atomic_store(&conn.client.user, &limited);
	ask(WIRE_REPORT_SLOW, 0, sizeof(text) - 1);
	assert_null(strstr(text, "hidden"));
	atomic_store(&conn.client.user, NULL);
	ask(WIRE_REPORT_SLOW, 0, sizeof(text) - 1);
	assert_non_null(strstr(text, "hidden"));
	part.tenant = &other;
	ask(WIRE_REPORT_SLOW, 0, sizeof(text) - 1);
	part.tenant = &tenant;
	assert_null(strstr(text, "hidden"));
}

/* The longest line fits a page of the least size. */
static void the_longest_line(void **state)
{
	char key[1025];
	char name[USER_NAME_MAX + 1] = "";
	const struct user user = { .name = name, .rights = USER_ALL };

	(void)state;
	memset(key, 1, sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	memset(name, 'n', USER_NAME_MAX);
	atomic_store(&conn.client.user, &user);
	memset(conn.client.peer.address, '1', sizeof(conn.client.peer.address) - 1);
	strcpy(tenant.name, "abcdefghijklmnopqrstuvwx");
	executed(0, key, NOW_NS - 1);
	ask(WIRE_REPORT_SLOW, 0, WIRE_RESPONSE_MIN - sizeof(struct wire_response));
	strcpy(tenant.name, "blue");
	assert_non_null(strstr(text, "%01\n"));
}

/* Of many the last are kept; pages have each once; what a ring lost leaves a gap. */
static void many(void **state)
{
	const uint64_t last = TRACE_ENTRIES;
	uint64_t cursor = 0, expected = last - TRACE_SLOW_MAX + 1;
	unsigned int pages = 0;
	const char *at;

	(void)state;
	for (unsigned int i = 0; i < TRACE_ENTRIES + 50; i++)
		executed(0, "k", 2 * SLOW_NS);
	do {
		cursor = ask(WIRE_REPORT_SLOW, cursor, 1000);
		for (at = text; (at = strstr(at, "number=")); at++, expected++)
			assert_int_equal(strtoull(at + 7, NULL, 10), expected);
		pages++;
	} while (cursor);
	assert_int_equal(expected, last + 1);
	assert_true(pages > 10);
	assert_int_equal(net.stats.slow_requests, TRACE_ENTRIES + 50);
	executed(0, "k", 2 * SLOW_NS);
	ask(WIRE_REPORT_SLOW, last + 1, sizeof(text) - 1);
	assert_int_equal(strtoull(text + 7, NULL, 10), TRACE_ENTRIES + 51);
}

static void emptied(void **state)
{
	(void)state;
	executed(0, "old", 2 * SLOW_NS);
	assert_int_equal(ask(WIRE_REPORT_RESET, 0, 1000), 0);
	assert_string_equal(text, "");
	assert_text("");
	executed(0, "new", 2 * SLOW_NS);
	ask(WIRE_REPORT_SLOW, 0, sizeof(text) - 1);
	assert_non_null(strstr(text, "key=new\n"));
	assert_null(strstr(text, "key=old\n"));
}

static void a_sample(void **state)
{
	uint64_t cursor;

	(void)state;
	executed(0, "before", 1);
	cursor = ask(WIRE_REPORT_SAMPLE, 0, 1000);
	assert_int_equal(cursor, 1);
	assert_string_equal(text, "");
	executed(1, "after", 1);
	cursor = ask(WIRE_REPORT_SAMPLE, cursor, 1000);
	assert_int_equal(cursor, 2);
	assert_non_null(strstr(text, "key=after\n"));
	cursor = ask(WIRE_REPORT_SAMPLE, cursor, 1000);
	assert_int_equal(cursor, 2);
	assert_string_equal(text, "");
	/* A reader that is too slow sees a gap, and another one sees all that is there. */
	for (unsigned int i = 0; i < 10; i++) {
		for (unsigned int j = 0; j < TRACE_SAMPLED_MAX; j++)
			executed(0, "many", 1);
		traces_take(&net);
	}
	cursor = ask(WIRE_REPORT_SAMPLE, cursor, 1000);
	assert_int_equal(strtoull(text + 7, NULL, 10),
			 10 * TRACE_SAMPLED_MAX + 2 - TRACE_SAMPLE_MAX);
	/* A cursor that this process did not give begins anew. */
	assert_int_equal(ask(WIRE_REPORT_SAMPLE, UINT64_MAX, 1000), 10 * TRACE_SAMPLED_MAX + 2);
	assert_string_equal(text, "");
	/* What a worker lost is a gap, too. */
	for (unsigned int j = 0; j < TRACE_SAMPLED_MAX + 7; j++)
		executed(0, "more", 1);
	traces_take(&net);
	executed(0, "last", 1);
	cursor = 11 * TRACE_SAMPLED_MAX + 2;
	ask(WIRE_REPORT_SAMPLE, cursor, 1000);
	assert_int_equal(strtoull(text + 7, NULL, 10), cursor + 7);
}

static size_t log_read(uint64_t *at, char *to, size_t size)
{
	static const char lines[] = "one\ntwo\nthree\n";
	const size_t rest = *at < strlen(lines) ? strlen(lines) - *at : 0;
	const size_t len = rest < size ? rest : size;

	memcpy(to, lines + *at, len);
	*at += len;
	return len;
}

/* Asks for all pages of @what, of @size bytes; returns how many there were. */
static unsigned int pages(enum wire_report what, uint32_t size, char *all)
{
	uint64_t cursor = 0, next;
	unsigned int count = 0;

	*all = '\0';
	do {
		next = ask(what, cursor, size);
		assert_true(!next || next > cursor);
		strcat(all, text);
		cursor = next;
		count++;
	} while (cursor);
	return count;
}

static void texts_in_pages(void **state)
{
	static char all[sizeof(text)];
	char blank;

	(void)state;
	/* The server has no users: it does not say this to any client. */
	assert_int_equal(status_of(WIRE_REPORT_LOG, 0, 1000), WIRE_NOT_ALLOWED);
	assert_non_null(strstr(text, "are for administrators"));
	assert_int_equal(status_of(WIRE_REPORT_PROCESS, 0, 1000), WIRE_NOT_ALLOWED);
	conn.client.by_admin = true;
	assert_int_equal(pages(WIRE_REPORT_LOG, 1000, all), 1);
	assert_string_equal(all, "");
	net.env.log_read = log_read;
	assert_int_equal(pages(WIRE_REPORT_LOG, 8, all), 3);
	assert_string_equal(all, "one\ntwo\nthree\n");
	assert_true(pages(WIRE_REPORT_PROCESS, 1000, all) > 1);
	assert_memory_equal(all, "kernel ", 7);
	assert_non_null(strstr(all, " r-xp /"));
	assert_non_null(strstr(all, "test_report\n"));
	/* Addresses are no business of a client. */
	assert_null(strstr(all, "-7f"));
	/* A cursor that is beyond the end. */
	assert_int_equal(ask(WIRE_REPORT_PROCESS, UINT64_MAX, 1000), 0);
	assert_string_equal(text, "");
	/* A mapping of no file has a line of its own, too. */
	ask(WIRE_REPORT_PROCESS, 0, sizeof(text) - 1);
	assert_non_null(strstr(text, "p \n"));
	for (const char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1)
		assert_int_equal(sscanf(line, "%*u %*4[-rwxps]%c", &blank), 1);
}

/* All pages are of one moment, though the process changes meanwhile. The next reader sees that. */
static void process_of_one_moment(void **state)
{
	const size_t bytes = 12345 * 4096;
	uint64_t cursor;
	bool seen;
	char line[32];
	void *p;

	(void)state;
	conn.client.by_admin = true;
	snprintf(line, sizeof(line), "\n%zu rw-s ", bytes);
	cursor = ask(WIRE_REPORT_PROCESS, 0, 100);
	assert_int_equal(cursor, 100);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	ask(WIRE_REPORT_PROCESS, cursor, sizeof(text) - 1);
	assert_null(strstr(text, line));
	assert_null(conn.query.process);
	ask(WIRE_REPORT_PROCESS, 0, sizeof(text) - 1);
	seen = strstr(text, line);
	munmap(p, bytes);
	assert_true(seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_line, setup, teardown),
		cmocka_unit_test_setup_teardown(a_client_that_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(who_sees_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(the_longest_line, setup, teardown),
		cmocka_unit_test_setup_teardown(many, setup, teardown),
		cmocka_unit_test_setup_teardown(emptied, setup, teardown),
		cmocka_unit_test_setup_teardown(a_sample, setup, teardown),
		cmocka_unit_test_setup_teardown(texts_in_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(process_of_one_moment, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
