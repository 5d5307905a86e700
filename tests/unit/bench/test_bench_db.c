/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's stores: which URL belongs to which -d, and the protocols of memcached and
 * Redis against a socket of the test. A backend sends before it receives, so that the test can
 * write the response first, then call the backend and then compare the request.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
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
#include "common/util/clock.h"

#define TIMEOUT_MS 300000
#define SHORT_TIMEOUT_MS 20
#define VALUE_SIZE 16
#define LONG_LINE 70000
/* A long value, longer than any buffer on its way, and the line before it. */
#define LONG_VALUE 4194304
#define LONG_HEAD 19
#define LONG_PART 50001

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

static void expect_no_more(void)
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
	assert_int_equal(target_is("kvd", "rdma+tcp://h:1?retry_count=7"), 0);
	assert_int_equal(target_is("kvd", "rdma+tls://h:1"), 0);
	assert_int_equal(target_is(NULL, "fleet+softnic:///a,/b/demo"), 0);
	assert_ptr_equal(target.backend, &db_kvd);
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
	assert_non_null(strstr(error, "-d redis takes redis://HOST:PORT"));
	assert_int_equal(target_is("redis", "rdma+tls://h:1"), -EINVAL);
	assert_non_null(strstr(error, "-d kvd"));
	assert_int_equal(target_is("kvd", "rdma://h:0"), -EINVAL);
	assert_non_null(strstr(error, "port"));
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

/* A miss is a GET, and no value that was found. */
static void assert_counted(uint64_t gets, uint64_t hits)
{
	struct kvd_stats stats;

	db_stats(db, &stats);
	assert_int_equal(stats.gets, gets);
	assert_int_equal(stats.hits, hits);
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
	assert_counted(2, 1);
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
	const struct db_change empty = { "", 0, "v", 1 };

	(void)state;
	memset(key, 'k', sizeof(key));
	connect_to("memcached");
	assert_int_equal(db_put(db, &long_key, 1), KVD_ERR_INVALID);
	assert_int_equal(db_delete(db, &blank, 1), KVD_ERR_INVALID);
	assert_int_equal(db_put(db, &empty, 1), KVD_ERR_INVALID);
	expect_no_more();
	respond("STORED\r\n");
	assert_int_equal(put(1), KVD_OK);
	disconnect();
}

/* What kvbench reports of a connection: a PUT or DELETE is a round trip, GETs together are one. */
static void expect_counts(const char *name, const char *responses)
{
	struct kvd_stats stats;
	struct kvd_info info;

	connect_to(name);
	respond(responses);
	assert_int_equal(put(2), KVD_OK);
	assert_int_equal(delete (2), KVD_OK);
	get(2);
	db_stats(db, &stats);
	assert_int_equal(stats.puts, 2);
	assert_int_equal(stats.deletes, 2);
	assert_int_equal(stats.gets, 2);
	assert_int_equal(stats.hits, 1);
	assert_int_equal(stats.round_trips, 5);
	db_info(db, &info);
	assert_string_equal(info.device_kind, name);
	disconnect();
}

static void calls_are_counted(void **state)
{
	(void)state;
	expect_counts("memcached", "STORED\r\nSTORED\r\nDELETED\r\nDELETED\r\n"
				   "VALUE b 0 5\r\nvalue\r\nEND\r\n");
	expect_counts("redis", "+OK\r\n+OK\r\n:1\r\n:1\r\n$-1\r\n$5\r\nvalue\r\n");
}

/* Responses of PUTs that were not waited for come before those of any other request. */
static void memcached_takes_what_is_pending(void **state)
{
	static struct server_stats stats;
	uint64_t items;

	(void)state;
	connect_with("memcached", "?pipeline=3", TIMEOUT_MS);
	assert_int_equal(put(1), KVD_OK);
	respond("STORED\r\nDELETED\r\n");
	assert_int_equal(delete (1), KVD_OK);
	assert_int_equal(put(1), KVD_OK);
	respond("STORED\r\nSTAT curr_items 12\r\nEND\r\n");
	server_stats_sample(&stats, db);
	assert_true(server_stats_number(stats.text, "items", &items) && items == 12);
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
	assert_counted(2, 1);
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
	/* The responses after a miss are taken, too: this one is of the PUT. */
	respond("+OK\r\n");
	assert_int_equal(put(1), KVD_OK);
	respond(":1\r\n:0\r\n");
	assert_int_equal(delete (2), KVD_NOT_FOUND);
	respond(":1\r\n:1\r\n");
	assert_int_equal(delete (2), KVD_OK);
	respond("-ERR unknown command\r\n");
	assert_int_equal(put(1), KVD_ERR_PROTOCOL);
	assert_int_equal(put(1), KVD_ERR_DISCONNECTED);
	disconnect();
}

static char long_value[LONG_VALUE], long_copy[LONG_VALUE];

/* No two parts of it are equal. */
static void long_value_fill(void)
{
	uint32_t i;

	for (i = 0; i < LONG_VALUE / sizeof(i); i++)
		memcpy(long_value + i * sizeof(i), &i, sizeof(i));
}

static void nothing(int number)
{
	(void)number;
}

static pthread_t sender;

/*
 * Reads a request with a long value. When its begin is there the sender is in sendmsg(2), and waits
 * there for room: a signal makes that return what was sent until then.
 */
static void *long_request_take(void *argument)
{
	char *head = argument;
	size_t done, part;
	ssize_t got;

	for (done = 0; done < LONG_HEAD; done += (size_t)got) {
		got = recv(peer, head + done, LONG_HEAD - done, 0);
		if (got <= 0)
			return NULL;
	}
	if (pthread_kill(sender, SIGUSR1))
		return NULL;
	for (done = 0; done < LONG_VALUE; done += (size_t)got) {
		part = LONG_VALUE - done < LONG_PART ? LONG_VALUE - done : LONG_PART;
		got = recv(peer, long_copy + done, part, 0);
		if (got <= 0)
			return NULL;
	}
	respond("STORED\r\n");
	return argument;
}

/* The socket takes a small part of it at once, and the call ends before it has taken all. */
static void a_long_value_is_sent_whole(void **state)
{
	const struct db_change change = { "a", 1, long_value, LONG_VALUE };
	const struct sigaction interrupt = { .sa_handler = nothing }; /* no SA_RESTART */
	const int bytes = 4096;
	char head[LONG_HEAD + 1] = "", end[2];
	pthread_t thread;
	void *taken;

	(void)state;
	long_value_fill();
	connect_to("memcached");
	assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
	sender = pthread_self();
	assert_int_equal(sigaction(SIGUSR1, &interrupt, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, long_request_take, head), 0);
	assert_int_equal(db_put(db, &change, 1), KVD_OK);
	pthread_join(thread, &taken);
	assert_ptr_equal(taken, head);
	assert_string_equal(head, "set a 0 0 4194304\r\n");
	assert_memory_equal(long_copy, long_value, LONG_VALUE);
	assert_int_equal(recv(peer, end, sizeof(end), 0), 2);
	assert_memory_equal(end, "\r\n", 2);
	expect_no_more();
	disconnect();
}

static void *long_response_send(void *argument)
{
	static const char end[] = "\r\nEND\r\n";
	size_t done;
	ssize_t sent;

	respond("VALUE a 0 4194304\r\n");
	for (done = 0; done < LONG_VALUE; done += (size_t)sent) {
		sent = send(peer, long_value + done, LONG_VALUE - done, MSG_NOSIGNAL);
		if (sent <= 0)
			return NULL;
	}
	respond(end);
	return argument;
}

/* The start of the value comes with its line, the rest in many parts. */
static void a_long_value_is_received_whole(void **state)
{
	struct kvd_get_request request = {
		.key = "a", .key_len = 1, .value = long_copy, .value_size = LONG_VALUE
	};
	pthread_t thread;
	void *sent;

	(void)state;
	long_value_fill();
	memset(long_copy, 0, sizeof(long_copy));
	connect_to("memcached");
	assert_int_equal(pthread_create(&thread, NULL, long_response_send, long_value), 0);
	db_get(db, &request, 1);
	pthread_join(thread, &sent);
	assert_ptr_equal(sent, long_value);
	assert_int_equal(request.status, KVD_OK);
	assert_int_equal(request.item.value_len, LONG_VALUE);
	assert_memory_equal(long_copy, long_value, LONG_VALUE);
	respond("END\r\n");
	get(1);
	assert_int_equal(requests[0].status, KVD_NOT_FOUND);
	disconnect();
}

/* Over TCP, by an IPv4 address, a name, and an IPv6 address in brackets. */
static void tcp_connects(const char *host, int family)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&v4 :
						       (struct sockaddr *)&v6;
	socklen_t len = family == AF_INET ? sizeof(v4) : sizeof(v6);
	const int local = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct kvd_options kvd;

	if (local < 0 || bind(local, address, len)) {
		print_message("%s: this host has no such address\n", host);
		close(local);
		return;
	}
	assert_int_equal(listen(local, 1), 0);
	assert_int_equal(getsockname(local, address, &len), 0);
	snprintf(url, sizeof(url), "redis://%s:%u", host,
		 ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port));
	kvd_options_init(&kvd);
	assert_int_equal(target_is("redis", url), 0);
	if (db_open(&db, &target, &kvd, error))
		fail_msg("%s: %s", url, error);
	peer = accept(local, NULL, NULL);
	assert_true(peer >= 0);
	respond("+OK\r\n");
	assert_int_equal(put(1), KVD_OK);
	disconnect();
	close(local);
}

static void hosts_of_both_families(void **state)
{
	(void)state;
	tcp_connects("127.0.0.1", AF_INET);
	tcp_connects("localhost", AF_INET);
	tcp_connects("[::1]", AF_INET6);
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
	uint64_t start_ns;

	(void)state;
	connect_with("redis", "", SHORT_TIMEOUT_MS);
	start_ns = clock_ns();
	assert_int_equal(put(1), KVD_ERR_TIMEOUT);
	/* The kernel counts in its ticks. */
	assert_true(clock_ns() - start_ns >= SHORT_TIMEOUT_MS * 900000ull);
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
	/* A server that was started anew. */
	after = cpu_sample(99, 10, 20);
	assert_false(server_cpu_between(&before, &after).known);
	after = cpu_sample(1100, 19, 100);
	cpu = server_cpu_between(&before, &after);
	assert_true(cpu.known && !cpu.parts_known);
	after = cpu_sample(1100, 21, 48);
	assert_false(server_cpu_between(&before, &after).parts_known);
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
		cmocka_unit_test(calls_are_counted),
		cmocka_unit_test(memcached_takes_what_is_pending),
		cmocka_unit_test(redis_gets),
		cmocka_unit_test(redis_changes),
		cmocka_unit_test(a_long_value_is_sent_whole),
		cmocka_unit_test(a_long_value_is_received_whole),
		cmocka_unit_test(hosts_of_both_families),
		cmocka_unit_test(bad_responses_end_the_connection),
		cmocka_unit_test(no_response_is_a_timeout),
		cmocka_unit_test(statistics_have_the_names_of_kvd),
		cmocka_unit_test(cpu_time_between_samples),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
