/* SPDX-License-Identifier: MIT */
/*
 * Tests of what supervisors are told (server/http/http.h): /readyz while the server starts, serves,
 * stops, and without the fleet's lease; /healthz without a sign of life. tests/system/http.sh has
 * the rest.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "server/http/http.h"

#define SECOND_NS 1000000000ull

static struct config config;
static struct net net;
static struct fleet fleet;
static struct http *http;
static uint16_t port;
static uint64_t lease_end_ns;

static uint64_t lines_lost(void)
{
	return 0;
}

void __wrap_membership_thread_status(struct membership_thread *thread,
				     struct membership_status *status, uint64_t *now_ns);
void __wrap_membership_thread_status(struct membership_thread *thread,
				     struct membership_status *status, uint64_t *now_ns)
{
	(void)thread;
	*now_ns = 100;
	*status = (struct membership_status){ .end_ns = lease_end_ns };
}

/* A port that nobody listens at. */
static uint16_t port_find(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	close(fd);
	return ntohs(address.sin_port);
}

static void start(struct membership_thread *membership)
{
	const struct metrics_source source = {
		.net = &net,
		.fleet = &fleet,
		.membership = membership,
		.fleet_name = "f",
		.devices_folder = "/nonexistent",
		.log_lines_lost = lines_lost,
		.audit_lines_lost = lines_lost,
	};

	config_init(&config);
	net.env.config = &config;
	LIST_INIT(&net.sessions);
	port = port_find();
	snprintf(config.server.http, sizeof(config.server.http), "127.0.0.1:%u", port);
	assert_int_equal(http_check(&config, true), 0);
	assert_int_equal(http_open(&http, &config, &source), 0);
	assert_non_null(http);
	assert_int_equal(http_start(http), 0);
}

static int teardown(void **state)
{
	(void)state;
	http_stop(http);
	http_stop(http);
	http_close(&http);
	assert_null(http);
	return 0;
}

/* Asks for the page, and checks that the answer begins so, and ends so. */
static void assert_answer(const char *path, const char *status, const char *body)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[65536], *end;
	size_t length = 0;
	ssize_t n;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	dprintf(fd, "GET %s HTTP/1.1\r\nHost: kvd\r\nConnection: close\r\n\r\n", path);
	while ((n = recv(fd, text + length, sizeof(text) - 1 - length, 0)) > 0)
		length += (size_t)n;
	close(fd);
	text[length] = '\0';
	assert_int_equal(strncmp(text + strlen("HTTP/1.1 "), status, strlen(status)), 0);
	end = strstr(text, "\r\n\r\n");
	assert_non_null(end);
	if (!strstr(end, body))
		fail_msg("%s: not like '%s': %s", path, body, end);
}

static void phases(void **state)
{
	(void)state;
	start(NULL);
	assert_answer("/readyz", "503", "kvd starts");
	assert_answer("/healthz", "200", "ok");
	assert_answer("/metrics", "200", "\nkvd_up 1\n");
	http_set_phase(http, HTTP_SERVES);
	assert_answer("/readyz", "200", "ok");
	http_set_phase(http, HTTP_STOPS);
	assert_answer("/readyz", "503", "kvd stops");
	assert_answer("/healthz", "200", "ok");
}

static void leases(void **state)
{
	(void)state;
	start((struct membership_thread *)&fleet);
	http_set_phase(http, HTTP_SERVES);
	lease_end_ns = 100;
	assert_answer("/readyz", "503", "no lease of the fleet");
	lease_end_ns = 101;
	assert_answer("/readyz", "200", "ok");
}

static void signs_of_life(void **state)
{
	uint64_t now_ns = clock_ns();

	(void)state;
	start(NULL);
	http_set_phase(http, HTTP_SERVES);
	http_alive(http, now_ns - 2 * HTTP_ALIVE_NS);
	assert_answer("/healthz", "200", "ok");
	http_alive(http, now_ns - 60 * SECOND_NS);
	assert_answer("/healthz", "503", "has not answered for 60 s");
	http_alive(http, now_ns);
	assert_answer("/healthz", "200", "ok");
}

/* Metrics are made once in HTTP_SCRAPE_NS; the configuration is that of the last renewal. */
static void texts_are_kept(void **state)
{
	(void)state;
	start(NULL);
	assert_answer("/config", "200", "drain_timeout = 5s\n");
	config.server.drain_timeout = 7 * SECOND_NS;
	assert_answer("/config", "200", "drain_timeout = 5s\n");
	http_renew(http, &config, true);
	assert_answer("/config", "200", "drain_timeout = 7s\n");
}

/* Without server.http there is nothing, and nothing to do. */
static void nowhere(void **state)
{
	const struct metrics_source source = { .net = &net };

	(void)state;
	config_init(&config);
	assert_int_equal(http_check(&config, true), 0);
	assert_int_equal(http_open(&http, &config, &source), 0);
	assert_null(http);
	assert_int_equal(http_start(http), 0);
	http_tick(http);
	http_renew(http, &config, true);
	http_alive(http, 1);
	http_set_phase(http, HTTP_STOPS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(phases, teardown),
		cmocka_unit_test_teardown(leases, teardown),
		cmocka_unit_test_teardown(signs_of_life, teardown),
		cmocka_unit_test_teardown(texts_are_kept, teardown),
		cmocka_unit_test_teardown(nowhere, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
