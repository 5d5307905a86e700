/* SPDX-License-Identifier: MIT */
/*
 * Tests of the lines of the audit log (server/worker/audit.h): each is a JSON object whatever a
 * peer sends, and what is beyond the limit
 * (server/worker/audit_limit.h) is counted instead of written.
 */
#include "server/worker/audit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/util/clock.h"
#include "server/worker/audit_limit.h"

#define LINES_MAX 1024
#define NS_PER_S 1000000000ull

static json_t *lines[LINES_MAX];
static unsigned int count;

/* What the clock shows; 0: what it is. */
static uint64_t now_ns;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!now_ns)
		return (int)syscall(SYS_clock_gettime, clock, now);
	*now = (struct timespec){ (time_t)(now_ns / NS_PER_S), (long)(now_ns % NS_PER_S) };
	return 0;
}

static void take(const char *line, size_t length)
{
	assert_true(count < LINES_MAX && length && length <= AUDIT_LINE_MAX);
	assert_int_equal(line[length - 1], '\n');
	assert_null(memchr(line, '\n', length - 1));
	lines[count] = json_loadb(line, length - 1, 0, NULL);
	assert_non_null(lines[count]);
	assert_int_equal(strlen(json_string_value(json_object_get(lines[count], "ts"))), 27);
	count++;
}

static int setup(void **state)
{
	(void)state;
	now_ns = 1000 * NS_PER_S;
	audit_set_sink(take);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	audit_set_sink(NULL);
	while (count)
		json_decref(lines[--count]);
	now_ns = 0;
	return 0;
}

static const char *field(unsigned int i, const char *name)
{
	const char *text = json_string_value(json_object_get(lines[i], name));

	assert_true(i < count);
	return text ? text : "(none)";
}

static long long number(unsigned int i, const char *name)
{
	json_t *value = json_object_get(lines[i], name);

	return value ? json_integer_value(value) : -1;
}

static const struct user admin = { .name = "ad\"min" };
static const struct principal somebody = { .name = "uid=7" };

static void client_init(struct client *client)
{
	memset(client, 0, sizeof(*client));
	client->kind = DEVICE_SOFTNIC;
	client->number = 385;
	client->principal = &somebody;
	client->peer = (struct cm_peer){ .address = "pid:4711", .uid_known = true, .uid = 7 };
	atomic_store(&client->user, &admin);
}

static void a_connection(void **state)
{
	struct client client;

	(void)state;
	client_init(&client);
	audit_opened(&client);
	assert_true(client_ends(&client, CLIENT_KILLED));
	assert_false(client_ends(&client, CLIENT_STOP)); /* what comes later has no effect */
	audit_closed(&client, NULL);
	client.peer.uid_known = false;
	client.kind = LISTEN_MEMCACHED_TLS;
	atomic_store(&client.user, NULL);
	audit_authenticated(&client);
	audit_closed(&client, "why");
	assert_int_equal(count, 4);
	assert_string_equal(field(0, "event"), "opened");
	assert_string_equal(field(0, "way"), "softnic");
	assert_string_equal(field(0, "address"), "pid:4711");
	assert_string_equal(field(0, "principal"), "uid=7");
	assert_string_equal(field(0, "user"), "ad\"min");
	assert_int_equal(number(0, "connection"), 385);
	assert_int_equal(number(0, "uid"), 7);
	assert_string_equal(field(1, "event"), "closed");
	assert_string_equal(field(1, "reason"), "killed");
	assert_string_equal(field(2, "event"), "authenticated");
	assert_string_equal(field(2, "way"), "memcached+tls");
	assert_string_equal(field(2, "user"), "(none)");
	assert_int_equal(number(2, "uid"), -1);
	assert_string_equal(field(3, "reason"), "why");
}

/* A connection that could not be set up has the line of its refusal only. */
static void never_opened(void **state)
{
	struct client client;

	(void)state;
	client_init(&client);
	audit_closed(&client, NULL);
	assert_int_equal(count, 0);
}

/* The text of a line of memcached's protocol ends before its end, and has what a peer sent. */
static void a_refusal(void **state)
{
	const struct cm_peer peer = { .address = "10.0.0.1:1" };
	struct client client;

	(void)state;
	client_init(&client);
	audit_refused(LISTEN_MEMCACHED, &peer, "no user \"\xff\x01\n\\\"\r\n");
	audit_login_failed(&client, "wrong password");
	assert_int_equal(count, 2);
	assert_string_equal(field(0, "event"), "refused");
	assert_string_equal(field(0, "reason"), "no user \"\?\?\?\\\"");
	assert_string_equal(field(0, "address"), "10.0.0.1:1");
	assert_string_equal(field(0, "principal"), "addr=10.0.0.1");
	assert_string_equal(field(0, "way"), "memcached");
	assert_int_equal(number(0, "connection"), -1);
	assert_string_equal(field(1, "event"), "login failed");
	assert_string_equal(field(1, "reason"), "wrong password");
	assert_int_equal(number(1, "connection"), 385);
}

static void fill(char *text, char with, size_t size)
{
	memset(text, with, size - 1);
	text[size - 1] = '\0';
}

/* All texts of a line are as long as can be, and have to be escaped: it still is one. */
static void hostile_names(void **state)
{
	char longest[2 * AUDIT_LINE_MAX], name[USER_NAME_MAX + 1];
	const struct user user = { .name = name };
	struct principal principal;
	struct client client;

	(void)state;
	fill(longest, '"', sizeof(longest));
	fill(name, '\\', sizeof(name));
	fill(principal.name, '"', sizeof(principal.name));
	client_init(&client);
	client.principal = &principal;
	atomic_store(&client.user, &user);
	fill(client.peer.address, '"', sizeof(client.peer.address));
	audit_admin(&client, longest, longest, longest);
	audit_opened(&client);
	audit_closed(&client, longest);
	assert_int_equal(count, 3);
	assert_string_equal(field(0, "user"), name);
	assert_string_equal(field(0, "address"), client.peer.address);
	assert_non_null(strstr(field(2, "reason"), "\"..."));
}

static void refuse(unsigned int times, const char *address)
{
	struct cm_peer peer = { 0 };

	strcpy(peer.address, address);
	for (unsigned int i = 0; i < times; i++)
		audit_refused(DEVICE_RDMA, &peer, "no");
}

/* A client that is refused in a loop does not fill the disk, and hides no other's refusals. */
static void many_refusals(void **state)
{
	(void)state;
	refuse(1000, "10.0.0.1:1");
	assert_int_equal(count, AUDIT_LINES_PER_S);
	refuse(1, "10.0.0.2:1");
	assert_string_equal(field(AUDIT_LINES_PER_S, "address"), "10.0.0.2:1");
	now_ns += NS_PER_S - 1;
	audit_tick(clock_ns());
	refuse(1, "10.0.0.1:2");
	assert_int_equal(count, AUDIT_LINES_PER_S + 1);
	now_ns += 1;
	audit_tick(clock_ns());
	assert_int_equal(count, AUDIT_LINES_PER_S + 2);
	assert_string_equal(field(count - 1, "event"), "more");
	assert_string_equal(field(count - 1, "of"), "refusals");
	assert_string_equal(field(count - 1, "principal"), "addr=10.0.0.1");
	assert_int_equal(number(count - 1, "count"), 1001 - AUDIT_LINES_PER_S);
	audit_tick(clock_ns());
	assert_int_equal(count, AUDIT_LINES_PER_S + 2);
}

/* The next second has its own lines, and first says what the last one left out. */
static void the_next_second(void **state)
{
	(void)state;
	refuse(AUDIT_LINES_PER_S + 3, "10.0.0.1:1");
	now_ns += NS_PER_S;
	refuse(AUDIT_LINES_PER_S, "10.0.0.1:1");
	assert_int_equal(count, 2 * AUDIT_LINES_PER_S + 1);
	assert_int_equal(number(AUDIT_LINES_PER_S, "count"), 3);
	now_ns += NS_PER_S;
	audit_tick(clock_ns());
	assert_int_equal(count, 2 * AUDIT_LINES_PER_S + 1);
}

/* A client that connects in a loop can't hide its FLUSH. */
static void classes(void **state)
{
	struct client client;

	(void)state;
	client_init(&client);
	for (unsigned int i = 0; i < 2 * AUDIT_LINES_PER_S; i++)
		audit_opened(&client);
	for (unsigned int i = 0; i < 2 * AUDIT_LINES_PER_S; i++)
		audit_admin(&client, "FLUSH", "default", "ok");
	assert_int_equal(count, 2 * AUDIT_LINES_PER_S);
	assert_string_equal(field(count - 1, "action"), "FLUSH");
	/* The server's own lines have no limit. */
	for (unsigned int i = 0; i < 2 * AUDIT_LINES_PER_S; i++)
		audit_admin(NULL, "reload", "users", "ok");
	assert_int_equal(count, 4 * AUDIT_LINES_PER_S);
	audit_set_sink(NULL); /* the end of the process */
	assert_int_equal(count, 4 * AUDIT_LINES_PER_S + 2);
	assert_int_equal(number(count - 1, "count"), AUDIT_LINES_PER_S);
}

/* Whatever addresses a flood has, there are at most AUDIT_LINES_MAX lines. */
static void many_principals(void **state)
{
	char address[32];

	(void)state;
	for (unsigned int i = 0; i < 10000; i++) {
		snprintf(address, sizeof(address), "10.0.%u.%u:1", i / 100, i % 100);
		refuse(AUDIT_LINES_PER_S + 1, address);
	}
	now_ns += NS_PER_S;
	audit_tick(clock_ns());
	assert_int_equal(count, AUDIT_LINES_MAX);
	assert_string_equal(field(count - 1, "principal"), "others");
	/* The places are free again. */
	refuse(1, "10.1.0.1:1");
	refuse(AUDIT_LINES_PER_S + 1, "10.1.0.2:1");
	assert_int_equal(count, AUDIT_LINES_MAX + 1 + AUDIT_LINES_PER_S);
}

static void administration(void **state)
{
	struct client client;

	(void)state;
	client_init(&client);
	audit_admin(&client, "KILL", "connection 12", "ok");
	audit_admin(NULL, "reload", "", "users.file is wrong");
	assert_int_equal(count, 2);
	assert_string_equal(field(0, "event"), "administration");
	assert_string_equal(field(0, "action"), "KILL");
	assert_string_equal(field(0, "target"), "connection 12");
	assert_string_equal(field(0, "result"), "ok");
	assert_string_equal(field(0, "user"), "ad\"min");
	assert_string_equal(field(1, "target"), "(none)");
	assert_string_equal(field(1, "result"), "users.file is wrong");
	assert_string_equal(field(1, "address"), "(none)");
}

static void lost_lines(void **state)
{
	char line[LOG_LINE_MAX];

	(void)state;
	take(line, audit_lost(line, 77));
	assert_string_equal(field(0, "event"), "lost");
	assert_int_equal(number(0, "lines"), 77);
}

static void switched_off(void **state)
{
	struct client client;

	(void)state;
	client_init(&client);
	audit_set_sink(NULL);
	audit_opened(&client);
	audit_closed(&client, NULL);
	audit_authenticated(&client);
	audit_login_failed(&client, "no");
	audit_admin(&client, "FLUSH", "", "ok");
	refuse(2 * AUDIT_LINES_PER_S, "10.0.0.1:1");
	now_ns += 2 * NS_PER_S;
	audit_tick(clock_ns());
	assert_int_equal(count, 0);
	audit_set_sink(take);
	assert_int_equal(count, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_connection),  TEST(never_opened),    TEST(a_refusal),
		TEST(hostile_names), TEST(many_refusals),   TEST(the_next_second),
		TEST(classes),	     TEST(many_principals), TEST(administration),
		TEST(lost_lines),    TEST(switched_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
