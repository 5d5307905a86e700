/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's stores: which URL belongs to which -d, and the protocols of memcached and
 * Redis against a socket of the test. A backend sends before it receives, so that the test can
 * write the response first, then call the backend and then compare the request.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/db.h"
#include "bench/server_stats.h"

#define TIMEOUT_MS 20000
#define SHORT_TIMEOUT_MS 20
#define VALUE_SIZE 16
#define LONG_LINE 70000

static char folder[] = "/tmp/kvd-test-db.XXXXXX";
static char path[64], url[160], error[DB_ERROR_MAX];
static int listener, peer;
static struct db_target target;
static struct db *db;

static int setup(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)state;
	unsetenv("KVD_URL");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/s", folder);
	memcpy(address.sun_path, path, strlen(path));
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
	       listen(listener, 1);
}

static int teardown(void **state)
{
	(void)state;
	close(listener);
	return unlink(path) || rmdir(folder);
}

static int target_is(const char *name, const char *address)
{
	return db_target_parse(&target, name, address, error);
}

static void connect_with(const char *name, const char *options, uint32_t timeout_ms)
{
	struct kvd_options kvd;

	kvd_options_init(&kvd);
	kvd.timeout_ms = timeout_ms;
	snprintf(url, sizeof(url), "%s://%s%s", name, path, options);
	assert_int_equal(target_is(name, url), 0);
	assert_int_equal(db_open(&db, &target, &kvd, error), KVD_OK);
	peer = accept(listener, NULL, NULL);
	assert_true(peer >= 0);
}

static void connect_to(const char *name)
{
	connect_with(name, "", TIMEOUT_MS);
}

static void disconnect(void)
{
	db_close(db);
	close(peer);
}

static void respond(const char *text)
{
	assert_int_equal(write(peer, text, strlen(text)), strlen(text));
}

static void expect_request(const char *text)
{
	char got[1024];
	const ssize_t len = recv(peer, got, sizeof(got) - 1, 0);

	assert_true(len >= 0);
	got[len] = '\0';
	assert_string_equal(got, text);
}

static void expect_no_request(void)
{
	char got;

	assert_int_equal(recv(peer, &got, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static struct kvd_get_request requests[2];
static char values[2][VALUE_SIZE + 1];

/* GETs of the first @count of the keys a and b. */
static void get(size_t count)
{
	static const char *const keys[] = { "a", "b" };
	size_t i;

	memset(values, 0, sizeof(values));
	for (i = 0; i < count; i++)
		requests[i] = (struct kvd_get_request){ .key = keys[i],
							.key_len = 1,
							.value = values[i],
							.value_size = VALUE_SIZE,
							.status = KVD_ERR_BUSY };
	db_get(db, requests, count);
}

static enum kvd_status put(size_t count)
{
	const struct db_change changes[] = { { "a", 1, "first", 5 }, { "b", 1, "", 0 } };

	return db_put(db, changes, count);
}

static enum kvd_status delete (size_t count) {
	const struct db_change changes[] = { { "a", 1, NULL, 0 }, { "b", 1, NULL, 0 } };

	return db_delete(db, changes, count);
}

static void urls_fit_their_store(void **state)
{
	(void)state;
	assert_int_equal(target_is(NULL, "softnic:///s"), 0);
	assert_ptr_equal(target.backend, &db_kvd);
	assert_int_equal(target_is("kvd", "rdma://h:1"), 0);
	assert_int_equal(target_is("memcached", "memcached://h:1"), 0);
	assert_ptr_equal(target.backend, &db_memcached);
	assert_int_equal(target_is("redis", "redis:///s"), 0);
	assert_ptr_equal(target.backend, &db_redis);
	assert_string_equal(target.url, "redis:///s");
}

static void urls_of_other_stores_are_refused(void **state)
{
	(void)state;
	assert_int_equal(target_is("etcd", "softnic:///s"), -EINVAL);
	assert_non_null(strstr(error, "etcd"));
	assert_int_equal(target_is("memcached", "softnic:///s"), -EINVAL);
	assert_non_null(strstr(error, "memcached://HOST:PORT"));
	assert_non_null(strstr(error, "-d kvd"));
	assert_int_equal(target_is(NULL, "redis:///s"), -EINVAL);
	assert_non_null(strstr(error, "-d redis"));
	assert_int_equal(target_is("redis", "127.0.0.1:1"), -EINVAL);
	assert_int_equal(target_is("redis", NULL), -EINVAL);
	assert_non_null(strstr(error, "KVD_URL"));
}

static void kvd_has_a_default(void **state)
{
	(void)state;
	assert_int_equal(target_is("kvd", NULL), 0);
	assert_int_equal(strncmp(target.url, "softnic:///", 11), 0);
	setenv("KVD_URL", "", 1);
	assert_int_equal(target_is(NULL, NULL), 0);
	assert_int_equal(strncmp(target.url, "softnic:///", 11), 0);
	setenv("KVD_URL", "rdma://10.0.0.1:7471", 1);
	assert_int_equal(target_is(NULL, NULL), 0);
	assert_string_equal(target.url, "rdma://10.0.0.1:7471");
	unsetenv("KVD_URL");
}

/* Asserts that @address is refused with @status and an error that contains @word. */
static void expect_no_connection(const char *name, const char *address, enum kvd_status status,
				 const char *word)
{
	struct kvd_options kvd;

	kvd_options_init(&kvd);
	assert_int_equal(target_is(name, address), 0);
	assert_int_equal(db_open(&db, &target, &kvd, error), status);
	assert_null(db);
	if (!strstr(error, word))
		fail_msg("%s: '%s' does not contain %s", address, error, word);
}

static void bad_addresses(void **state)
{
	(void)state;
	expect_no_connection("memcached", "memcached://host", KVD_ERR_INVALID, "HOST:PORT");
	expect_no_connection("memcached", "memcached://host:1x", KVD_ERR_INVALID, "HOST:PORT");
	expect_no_connection("redis", "redis://:1", KVD_ERR_INVALID, "HOST:PORT");
	expect_no_connection("redis", "redis:///nobody/listens", KVD_ERR_UNREACHABLE, "No such");
	expect_no_connection("memcached", "memcached:///s?pipeline=0", KVD_ERR_INVALID, "1 to");
	expect_no_connection("memcached", "memcached:///s?pipe=2", KVD_ERR_INVALID, "pipeline");
}

static void memcached_gets(void **state)
{
	(void)state;
	connect_to("memcached");
	respond("VALUE b 0 5\r\nvalue\r\nEND\r\n");
	get(2);
	expect_request("get a b\r\n");
	assert_int_equal(requests[0].status, KVD_NOT_FOUND);
	assert_int_equal(requests[1].status, KVD_OK);
	assert_int_equal(requests[1].item.value_len, 5);
	assert_string_equal(values[1], "value");
	disconnect();
}

static void memcached_changes(void **state)
{
	(void)state;
	connect_to("memcached");
	respond("STORED\r\nSTORED\r\n");
	assert_int_equal(put(2), KVD_OK);
	expect_request("set a 0 0 5\r\nfirst\r\nset b 0 0 0\r\n\r\n");
	respond("SERVER_ERROR out of memory storing object\r\n");
	assert_int_equal(put(1), KVD_ERR_NO_SPACE);
	assert_non_null(strstr(db_error(db), "out of memory"));
	expect_request("set a 0 0 5\r\nfirst\r\n");
	respond("NOT_FOUND\r\nDELETED\r\n");
	assert_int_equal(delete (2), KVD_NOT_FOUND);
	expect_request("delete a\r\ndelete b\r\n");
	respond("DELETED\r\n");
	assert_int_equal(delete (1), KVD_OK);
	disconnect();
}

static void memcached_pipelines(void **state)
{
	(void)state;
	connect_with("memcached", "?pipeline=3", TIMEOUT_MS);
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(put(1), KVD_OK);
	respond("STORED\r\nSTORED\r\nSERVER_ERROR\r\n");
	assert_int_equal(put(1), KVD_ERR_NO_SPACE);
	/* A GET receives the responses of the PUTs before it. */
	assert_int_equal(put(1), KVD_OK);
	respond("STORED\r\nEND\r\n");
	get(1);
	assert_int_equal(requests[0].status, KVD_NOT_FOUND);
	disconnect();
}

static void memcached_refuses_keys(void **state)
{
	char key[251];
	const struct db_change long_key = { key, sizeof(key), "v", 1 };
	const struct db_change blank = { "a b", 3, "v", 1 };

	(void)state;
	memset(key, 'k', sizeof(key));
	connect_to("memcached");
	assert_int_equal(db_put(db, &long_key, 1), KVD_ERR_INVALID);
	assert_int_equal(db_delete(db, &blank, 1), KVD_ERR_INVALID);
	expect_no_request();
	respond("STORED\r\n");
	assert_int_equal(put(1), KVD_OK);
	disconnect();
}

static void redis_gets(void **state)
{
	(void)state;
	connect_to("redis");
	respond("$-1\r\n$5\r\nvalue\r\n");
	get(2);
	expect_request("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n");
	assert_int_equal(requests[0].status, KVD_NOT_FOUND);
	assert_int_equal(requests[1].status, KVD_OK);
	assert_int_equal(requests[1].item.value_len, 5);
	assert_string_equal(values[1], "value");
	disconnect();
}

static void redis_changes(void **state)
{
	(void)state;
	connect_to("redis");
	respond("+OK\r\n-OOM command not allowed\r\n");
	assert_int_equal(put(2), KVD_ERR_NO_SPACE);
	assert_non_null(strstr(db_error(db), "OOM"));
	expect_request("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nfirst\r\n"
		       "*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$0\r\n\r\n");
	respond(":0\r\n:1\r\n");
	assert_int_equal(delete (2), KVD_NOT_FOUND);
	expect_request("*2\r\n$3\r\nDEL\r\n$1\r\na\r\n*2\r\n$3\r\nDEL\r\n$1\r\nb\r\n");
	respond("-ERR unknown command\r\n");
	assert_int_equal(put(1), KVD_ERR_PROTOCOL);
	assert_int_equal(put(1), KVD_ERR_DISCONNECTED);
	disconnect();
}

/*
 * Asserts that @response to a GET ends the connection with @status, and that the next call fails.
 */
static void expect_lost(const char *name, const char *response, enum kvd_status status)
{
	connect_to(name);
	respond(response);
	shutdown(peer, SHUT_WR);
	get(1);
	if (requests[0].status != status)
		fail_msg("%s: %d", response, requests[0].status);
	assert_true(*db_error(db));
	get(2);
	assert_int_equal(requests[0].status, KVD_ERR_DISCONNECTED);
	assert_int_equal(requests[1].status, KVD_ERR_DISCONNECTED);
	assert_int_equal(put(1), KVD_ERR_DISCONNECTED);
	disconnect();
}

static void bad_responses_end_the_connection(void **state)
{
	static char line[LONG_LINE];

	(void)state;
	expect_lost("memcached", "VALUE b 0 1\r\nx\r\nEND\r\n", KVD_ERR_PROTOCOL);
	expect_lost("memcached", "VALUE a 0 17\r\n", KVD_ERR_PROTOCOL);
	expect_lost("memcached", "VALUE a\r\n", KVD_ERR_PROTOCOL);
	expect_lost("memcached", "VALUE a 0 1\r\nxyzEND\r\n", KVD_ERR_PROTOCOL);
	expect_lost("memcached", "ERROR\r\n", KVD_ERR_PROTOCOL);
	expect_lost("memcached", "VALUE a 0 5\r\nval", KVD_ERR_DISCONNECTED);
	expect_lost("memcached", "", KVD_ERR_DISCONNECTED);
	expect_lost("redis", "$17\r\n", KVD_ERR_PROTOCOL);
	expect_lost("redis", "$-2\r\n", KVD_ERR_PROTOCOL);
	expect_lost("redis", "+OK\r\n", KVD_ERR_PROTOCOL);
	expect_lost("redis", "$1\r\nxyz", KVD_ERR_PROTOCOL);
	expect_lost("redis", "$5\r\nval", KVD_ERR_DISCONNECTED);
	memset(line, 'x', sizeof(line) - 1);
	expect_lost("memcached", line, KVD_ERR_PROTOCOL);
}

static void no_response_is_a_timeout(void **state)
{
	(void)state;
	connect_with("redis", "", SHORT_TIMEOUT_MS);
	assert_int_equal(put(1), KVD_ERR_TIMEOUT);
	assert_int_equal(put(1), KVD_ERR_DISCONNECTED);
	disconnect();
}

static void expect_stat(const struct server_stats *stats, const char *name, uint64_t want)
{
	uint64_t number;

	assert_true(server_stats_number(stats->text, name, &number));
	assert_int_equal(number, want);
}

static void expect_stats(const char *name, const char *response)
{
	static struct server_stats stats;

	connect_to(name);
	respond(response);
	server_stats_sample(&stats, db);
	assert_true(stats.cpu.known);
	assert_int_equal(stats.cpu.us, 2000003 + 1500000);
	assert_false(stats.cpu.parts_known);
	expect_stat(&stats, "items", 12);
	expect_stat(&stats, "evictions", 7);
	disconnect();
}

static void statistics_have_the_names_of_kvd(void **state)
{
	(void)state;
	expect_stats("memcached", "STAT version 1.6.18\r\nSTAT rusage_user 2.000003\r\n"
				  "STAT rusage_system 1.500000\r\nSTAT curr_items 12\r\n"
				  "STAT evictions 7\r\nEND\r\n");
	expect_stats("redis", "$93\r\n# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:2.000003\r\n"
			      "evicted_keys:7\r\ndb0:keys=12,expires=0\r\n\r\n");
}

static struct server_stats cpu_sample(uint64_t us, uint64_t useful_us, uint64_t polling_us)
{
	return (struct server_stats){
		.cpu = { true, us, true, useful_us, polling_us },
	};
}

static void cpu_time_between_samples(void **state)
{
	static struct server_stats before, after;
	struct server_cpu cpu;

	(void)state;
	before = cpu_sample(100, 20, 50);
	after = cpu_sample(1100, 320, 650);
	cpu = server_cpu_between(&before, &after);
	assert_true(cpu.known && cpu.parts_known);
	assert_int_equal(cpu.us, 1000);
	assert_int_equal(cpu.useful_us, 300);
	assert_int_equal(cpu.polling_us, 600);
	/* Useful turns that were interrupted: no more than all CPU time, and none was polling. */
	after = cpu_sample(1100, 640, 0);
	cpu = server_cpu_between(&before, &after);
	assert_int_equal(cpu.useful_us, 570);
	assert_int_equal(cpu.polling_us, 0);
	before.cpu.parts_known = false;
	cpu = server_cpu_between(&before, &after);
	assert_true(cpu.known && !cpu.parts_known);
	after.cpu.known = false;
	assert_false(server_cpu_between(&before, &after).known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urls_fit_their_store),
		cmocka_unit_test(urls_of_other_stores_are_refused),
		cmocka_unit_test(kvd_has_a_default),
		cmocka_unit_test(bad_addresses),
		cmocka_unit_test(memcached_gets),
		cmocka_unit_test(memcached_changes),
		cmocka_unit_test(memcached_pipelines),
		cmocka_unit_test(memcached_refuses_keys),
		cmocka_unit_test(redis_gets),
		cmocka_unit_test(redis_changes),
		cmocka_unit_test(bad_responses_end_the_connection),
		cmocka_unit_test(no_response_is_a_timeout),
		cmocka_unit_test(statistics_have_the_names_of_kvd),
		cmocka_unit_test(cpu_time_between_samples),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
