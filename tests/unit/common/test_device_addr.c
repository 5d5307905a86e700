/* SPDX-License-Identifier: MIT */
/*
 * Tests of device_addr_parse(): the URLs that it accepts, those that it refuses, and that each
 * refusal says how to fix the URL.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/device.h"

#define WHY_MAX 256
#define URL_MAX 512

static void inet_is(enum device_kind kind, const char *url, const char *host, uint16_t port)
{
	struct device_addr addr;
	char why[WHY_MAX] = "";

	assert_int_equal(device_addr_parse(&addr, url, why, sizeof(why)), 0);
	assert_string_equal(why, "");
	assert_int_equal(addr.kind, kind);
	assert_string_equal(addr.host, host);
	assert_int_equal(addr.port, port);
	assert_string_equal(addr.path, "");
}

static void rdma_is(const char *url, const char *host, uint16_t port)
{
	inet_is(DEVICE_RDMA, url, host, port);
}

/* Refused with a sentence that has @word in it, and without touching the result. */
static void refused(const char *url, const char *word)
{
	struct device_addr addr, before;
	char why[WHY_MAX] = "";

	memset(&addr, 0x5a, sizeof(addr));
	before = addr;
	assert_int_equal(device_addr_parse(&addr, url, why, sizeof(why)), -EINVAL);
	assert_memory_equal(&addr, &before, sizeof(addr));
	if (!strstr(why, word))
		fail_msg("'%s' was refused with \"%s\", which lacks \"%s\"", url, why, word);
	assert_int_equal(why[strlen(why) - 1], '.');
}

static void rdma_addresses(void **state)
{
	(void)state;
	rdma_is("rdma://10.9.0.1:7471", "10.9.0.1", 7471);
	rdma_is("rdma://db-1.example.com:1", "db-1.example.com", 1);
	rdma_is("rdma://auto:65535", "auto", 65535);
	rdma_is("rdma://[fd00::1]:7471", "fd00::1", 7471);
	rdma_is("rdma://[fe80::1%eth0]:7471", "fe80::1%eth0", 7471);
	rdma_is("rdma://h:00080", "h", 80);
	inet_is(DEVICE_RDMA_TCP, "rdma+tcp://10.9.0.1:7472", "10.9.0.1", 7472);
	inet_is(DEVICE_RDMA_TCP, "rdma+tcp://[fd00::1]:1", "fd00::1", 1);
	inet_is(DEVICE_RDMA_TLS, "rdma+tls://kvd.example:7473?gid_index=3", "kvd.example", 7473);
	/* Each way has a default port. */
	rdma_is("rdma://host", "host", 7471);
	rdma_is("rdma://[fd00::1]", "fd00::1", 7471);
	rdma_is("rdma://10.9.0.1?traffic_class=106", "10.9.0.1", 7471);
	inet_is(DEVICE_RDMA_TCP, "rdma+tcp://[fd00::1]?gid_index=1", "fd00::1", 7472);
	inet_is(DEVICE_RDMA_TLS, "rdma+tls://kvd.example", "kvd.example", 7473);
}

static struct device_addr listening(const char *url, const char *text)
{
	char why[WHY_MAX] = "", made[DEVICE_URL_MAX];
	struct device_addr addr;

	if (device_listen_parse(&addr, url, why, sizeof(why)))
		fail_msg("%s: %s", url, why);
	device_addr_text(&addr, made);
	assert_string_equal(made, text);
	return addr;
}

static void not_listening(const char *url, const char *word)
{
	struct device_addr addr;
	char why[WHY_MAX] = "";

	assert_int_equal(device_listen_parse(&addr, url, why, sizeof(why)), -EINVAL);
	if (!strstr(why, word))
		fail_msg("'%s' was refused with \"%s\", which lacks \"%s\"", url, why, word);
}

/* A server need not name its host or path; what it says is what clients may use. */
static void listen_addresses(void **state)
{
	struct device_addr addr = listening("rdma://", "rdma://:7471");

	(void)state;
	assert_int_equal(addr.kind, DEVICE_RDMA);
	assert_string_equal(addr.host, DEVICE_HOST_AUTO);
	assert_int_equal(addr.port, 7471);
	addr = listening("rdma+tcp://:80", "rdma+tcp://:80");
	assert_string_equal(addr.host, DEVICE_HOST_AUTO);
	listening("rdma+tls://", "rdma+tls://:7473");
	listening("rdma+tls://10.9.0.1", "rdma+tls://10.9.0.1:7473");
	listening("rdma+tcp://[::]", "rdma+tcp://[::]:7472");
	listening("rdma+tcp://[fe80::1%eth0]:1", "rdma+tcp://[fe80::1%eth0]:1");
	addr = listening("softnic://", "softnic://");
	assert_string_equal(addr.path, "");
	addr = listening("softnic:///run/s", "softnic:///run/s");
	assert_string_equal(addr.path, "/run/s");
	not_listening("rdma://[]", "host is missing");
	not_listening("rdma://:", "not a port");
	not_listening("rdma://h:1?traffic_class=1", "leave out '?traffic_class=1'");
	not_listening("rdma://h?", "leave out '?'");
	not_listening("softnic://s", "absolute");
	not_listening("rdma:/", "not a kvd URL");
}

/* Addresses for clients of memcached's protocol: of TCP, or of a Unix socket. */
static void memcached_addresses(void **state)
{
	struct device_addr addr = listening("memcached://", "memcached://:11211");

	(void)state;
	assert_int_equal(addr.kind, LISTEN_MEMCACHED);
	assert_string_equal(addr.host, DEVICE_HOST_AUTO);
	assert_int_equal(addr.port, 11211);
	assert_string_equal(addr.path, "");
	addr = listening("memcached://127.0.0.1", "memcached://127.0.0.1:11211");
	assert_string_equal(addr.host, "127.0.0.1");
	addr = listening("memcached://[::1]:65535", "memcached://[::1]:65535");
	assert_string_equal(addr.host, "::1");
	assert_int_equal(addr.port, 65535);
	addr = listening("memcached+tls://", "memcached+tls://:11212");
	assert_int_equal(addr.kind, LISTEN_MEMCACHED_TLS);
	addr = listening("memcached:///run/kvd/memcached.sock",
			 "memcached:///run/kvd/memcached.sock");
	assert_int_equal(addr.kind, LISTEN_MEMCACHED);
	assert_string_equal(addr.path, "/run/kvd/memcached.sock");
	assert_string_equal(addr.host, "");
	assert_int_equal(addr.port, 0);
	assert_int_equal(addr.mode, 0600);
	not_listening("memcached:///", "'/' is a directory: add the name of the socket");
	not_listening("memcached:///run/", "directory");
	not_listening("memcached://run/kvd.sock", "'run/kvd.sock' is not a host");
	not_listening("memcached://:0", "out of range");
	not_listening("memcached://:x", "not a port");
	not_listening("memcached://h?", "leave out '?'");
	not_listening("memcached+tls:///run/s", "'/run/s' is not a host");
	not_listening("memcached:/", "not a kvd URL");
}

/* libkvd does not speak that protocol. */
static void memcached_refusals(void **state)
{
	(void)state;
	refused("memcached://10.9.0.1:11211",
		"'memcached://10.9.0.1:11211' is for clients of memcached's protocol: write a URL "
		"like rdma://HOST or softnic:///PATH of server.listen.");
	refused("memcached://", "for clients of memcached's protocol");
	refused("memcached:///run/kvd/memcached.sock", "for clients of memcached's protocol");
	refused("memcached+tls://h", "for clients of memcached's protocol");
}

static struct device_link link_of(const char *url)
{
	struct device_addr addr;
	char why[WHY_MAX] = "";

	if (device_addr_parse(&addr, url, why, sizeof(why)))
		fail_msg("%s: %s", url, why);
	return addr.link;
}

/* Each option is set by its name, and only that one; 0 is not the same as nothing. */
static void link_options(void **state)
{
	static const char *const texts[LINK_OPTIONS_COUNT] = {
		"gid_index=0",	  "pkey_index=255", "traffic_class=106", "service_level=15",
		"ack_timeout=31", "retry_count=7",  "rnr_retry=0",	 "max_rd_atomic=254",
	};
	static const uint8_t values[LINK_OPTIONS_COUNT] = { 0, 255, 106, 15, 31, 7, 0, 254 };
	struct device_link link;
	char url[URL_MAX];

	(void)state;
	assert_int_equal(link_of("rdma://h:1").set, 0);
	for (enum link_option i = 0; i < LINK_OPTIONS_COUNT; i++) {
		snprintf(url, sizeof(url), "rdma+tcp://[fd00::1]:1?%s", texts[i]);
		link = link_of(url);
		assert_int_equal(link.set, 1u << i);
		assert_int_equal(link_or(&link, i, 77), values[i]);
		assert_int_equal(link_or(&link, (i + 1) % LINK_OPTIONS_COUNT, 77), 77);
	}
	link = link_of("rdma://h:1?traffic_class=1&ack_timeout=2&traffic_class=3");
	assert_int_equal(link.set, 1u << LINK_TRAFFIC_CLASS | 1u << LINK_ACK_TIMEOUT);
	assert_int_equal(link.value[LINK_TRAFFIC_CLASS], 3);
	assert_int_equal(link.value[LINK_ACK_TIMEOUT], 2);
}

static void link_refusals(void **state)
{
	(void)state;
	refused("rdma://h:1?", "'' is not an option of a URL: write one of gid_index, pkey_index,");
	refused("rdma://h:1?gid=1", "'gid' is not an option");
	refused("rdma://h:1?gid_indexes=1", "'gid_indexes' is not an option");
	refused("rdma+tcp://h:1?gid_index=1&", "'' is not an option");
	refused("rdma://h:1?traffic_class", "write traffic_class=0 to 255");
	refused("rdma://h:1?traffic_class=", "write traffic_class=0 to 255");
	refused("rdma://h:1?traffic_class=256", "write traffic_class=0 to 255");
	refused("rdma://h:1?traffic_class=0001", "write traffic_class=0 to 255");
	refused("rdma://h:1?traffic_class=-1", "write traffic_class=0 to 255");
	refused("rdma://h:1?traffic_class=1x", "write traffic_class=0 to 255");
	refused("rdma://h:1?ack_timeout=0", "write ack_timeout=1 to 31");
	refused("rdma://h:1?ack_timeout=32", "write ack_timeout=1 to 31");
	refused("rdma://h:1?max_rd_atomic=0", "write max_rd_atomic=1 to 254");
	refused("rdma://h:1?gid_index=1", "gid_index can't be set here");
	refused("rdma://h:1?pkey_index=1", "connect by rdma+tcp://");
	refused("rdma+tcp://h?gid_index=1:7471", "write gid_index=0 to 255");
}

/* What is missing is said with the scheme of the URL. */
static void tcp_refusals(void **state)
{
	(void)state;
	refused("rdma+tcp://", "rdma+tcp://HOST:PORT");
	refused("rdma+tcp://:7472", "rdma+tcp://HOST:PORT");
	refused("rdma+tcp://[fd00::1", "rdma+tcp://[ADDRESS]:PORT");
	refused("rdma+tcp://fd00::1:7472", "rdma+tcp://[ADDRESS]:PORT");
	refused("rdma+tcp:/host:7472", "not a kvd URL");
	refused("tcp://host:7472", "rdma+tcp://10.0.0.1:7472");
}

static void rdma_refusals(void **state)
{
	(void)state;
	refused("rdma://", "host is missing");
	refused("rdma://?traffic_class=1", "host is missing");
	refused("rdma://:7471", "host is missing");
	refused("rdma://[]:7471", "host is missing");
	refused("rdma://host:", "not a port");
	refused("rdma://host:x", "not a port");
	refused("rdma://host:7471/", "not a port");
	refused("rdma://host:-1", "not a port");
	refused("rdma://host:+1", "not a port");
	refused("rdma://host: 1", "not a port");
	refused("rdma://host:0", "out of range");
	refused("rdma://host:65536", "out of range");
	refused("rdma://host:99999", "out of range");
	refused("rdma://host:100000", "not a port");
	refused("rdma://fd00::1:7471", "brackets");
	refused("rdma://[fd00::1", "']'");
	refused("rdma://[fd00::1]7471", "'7471' follows the ']': write rdma://[ADDRESS]:PORT");
	refused("rdma://ho st:7471", "not a host");
	refused("rdma://a/b:7471", "not a host");
	refused("rdma://user@host:7471", "not a host");
}

static void softnic_addresses(void **state)
{
	struct device_addr addr;
	char why[WHY_MAX] = "";

	(void)state;
	assert_int_equal(device_addr_parse(&addr, "softnic:///run/kvd.sock", why, sizeof(why)), 0);
	assert_int_equal(addr.kind, DEVICE_SOFTNIC);
	assert_string_equal(addr.path, "/run/kvd.sock");
	assert_string_equal(addr.host, "");
	assert_int_equal(addr.port, 0);
	assert_int_equal(addr.mode, 0600);
}

static void softnic_refusals(void **state)
{
	(void)state;
	refused("softnic://", "absolute");
	refused("softnic://run/kvd.sock", "absolute");
	refused("softnic:///", "directory");
	refused("softnic:///run/", "directory");
}

static void scheme_refusals(void **state)
{
	(void)state;
	refused("", "not a kvd URL");
	refused("10.9.0.1:7471", "not a kvd URL");
	refused("RDMA://host:7471", "not a kvd URL");
	refused("tcp://host:7471", "not a kvd URL");
	refused("softnic:/run/kvd.sock", "not a kvd URL");
}

/* The longest host and path fit, one byte more does not. */
static void lengths(void **state)
{
	struct device_addr addr;
	char url[URL_MAX], why[WHY_MAX], text[DEVICE_HOST_MAX + 1];

	(void)state;
	memset(text, 'h', sizeof(text));
	snprintf(url, sizeof(url), "rdma://%.*s:1", DEVICE_HOST_MAX - 1, text);
	assert_int_equal(device_addr_parse(&addr, url, why, sizeof(why)), 0);
	assert_int_equal(strlen(addr.host), DEVICE_HOST_MAX - 1);
	snprintf(url, sizeof(url), "rdma://%.*s:1", DEVICE_HOST_MAX, text);
	refused(url, "bytes long");

	snprintf(url, sizeof(url), "softnic:///%.*s", DEVICE_PATH_MAX - 2, text);
	assert_int_equal(device_addr_parse(&addr, url, why, sizeof(why)), 0);
	assert_int_equal(strlen(addr.path), DEVICE_PATH_MAX - 1);
	snprintf(url, sizeof(url), "softnic:///%.*s", DEVICE_PATH_MAX - 1, text);
	refused(url, "bytes long");
	snprintf(url, sizeof(url), "memcached:///%.*s", DEVICE_PATH_MAX - 2, text);
	assert_int_equal(device_listen_parse(&addr, url, why, sizeof(why)), 0);
	assert_int_equal(strlen(addr.path), DEVICE_PATH_MAX - 1);
	snprintf(url, sizeof(url), "memcached:///%.*s", DEVICE_PATH_MAX - 1, text);
	not_listening(url, "The path is 108 bytes long: a Unix socket's may be 107.");
}

/* The reason is cut to its buffer, and there need not be a buffer. */
static void why_sizes(void **state)
{
	struct device_addr addr;
	char why[8];

	(void)state;
	memset(why, 'x', sizeof(why));
	assert_int_equal(device_addr_parse(&addr, "rdma://host:0", why, 4), -EINVAL);
	assert_int_equal(strlen(why), 3);
	assert_int_equal(why[4], 'x');
	assert_int_equal(device_addr_parse(&addr, "rdma://host:0", NULL, 0), -EINVAL);
}

/* With or without an RDMA device, the result and the name agree. */
static void presence(void **state)
{
	char name[IBV_SYSFS_NAME_MAX] = "";

	(void)state;
	assert_int_equal(device_verbs_present(name), name[0] != '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_addresses),      cmocka_unit_test(rdma_refusals),
		cmocka_unit_test(listen_addresses),    cmocka_unit_test(tcp_refusals),
		cmocka_unit_test(memcached_addresses), cmocka_unit_test(memcached_refusals),
		cmocka_unit_test(link_options),	       cmocka_unit_test(link_refusals),
		cmocka_unit_test(softnic_addresses),   cmocka_unit_test(softnic_refusals),
		cmocka_unit_test(scheme_refusals),     cmocka_unit_test(lengths),
		cmocka_unit_test(why_sizes),	       cmocka_unit_test(presence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
