/* SPDX-License-Identifier: MIT */
/* Tests of networks of addresses (common/util/network.c). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/network.h"

static char long_text[4096];

static int setup(void **state)
{
	(void)state;
	memset(long_text, '1', sizeof(long_text) - 1);
	return 0;
}

static bool holds(const char *text, const char *address)
{
	struct ip_address ip;
	struct network network;

	assert_int_equal(network_parse(&network, text, NULL), 0);
	assert_true(ip_address_parse(&ip, address));
	return network_holds(&network, &ip);
}

static void refused(const char *text, const char *expected)
{
	struct network network;
	struct parse_why why;

	assert_int_equal(network_parse(&network, text, NULL), -EINVAL);
	assert_int_equal(network_parse(&network, text, &why), -EINVAL);
	if (!strstr(why.text, expected))
		fail_msg("'%s' is refused with: %s", text, why.text);
}

static void v4(void **state)
{
	(void)state;
	assert_true(holds("10.9.0.0/24", "10.9.0.255:4711"));
	assert_false(holds("10.9.0.0/24", "10.9.1.0:4711"));
	assert_false(holds("10.9.0.0/24", "10.8.0.1:4711"));
	assert_true(holds("10.9.0.128/25", "10.9.0.128"));
	assert_false(holds("10.9.0.128/25", "10.9.0.127"));
	assert_true(holds("10.9.0.7", "10.9.0.7:1"));
	assert_false(holds("10.9.0.7", "10.9.0.6:1"));
	assert_true(holds("10.9.0.6/31", "10.9.0.7:1"));
	assert_true(holds("0.0.0.0/0", "255.1.2.3:1"));
	assert_false(holds("0.0.0.0/0", "[::1]:1"));
}

static void v6(void **state)
{
	(void)state;
	assert_true(holds("fd00::/8", "[fdff::1]:4711"));
	assert_false(holds("fd00::/8", "[fe00::1]:4711"));
	assert_true(holds("fe80::/10", "[febf::1%eth0]:4711"));
	assert_false(holds("fe80::/10", "fec0::1"));
	assert_true(holds("2001:db8::7/128", "2001:db8::7"));
	assert_false(holds("2001:db8::7", "2001:db8::6"));
	assert_true(holds("2001:db8:0:0:0:0:0:6/127", "2001:db8::7"));
	assert_true(holds("::/0", "[2001:db8::1]:1"));
	assert_false(holds("::/0", "10.9.0.1:1"));
}

/* A listener on :: sees clients of IPv4 so; ::/0 is no way around a list of IPv4. */
static void mapped(void **state)
{
	struct ip_address v4, v6;

	(void)state;
	assert_true(ip_address_parse(&v4, "10.9.0.1:4711"));
	assert_true(ip_address_parse(&v6, "[::ffff:10.9.0.1]:4711"));
	assert_false(v6.v6);
	assert_memory_equal(v6.bytes, v4.bytes, sizeof(v6.bytes));
	assert_true(holds("10.9.0.0/24", "[::ffff:10.9.0.1]:4711"));
	assert_false(holds("10.9.0.0/24", "[::ffff:10.9.1.1]:4711"));
	assert_false(holds("::/0", "[::ffff:10.9.0.1]:4711"));
}

static void refuses(void **state)
{
	(void)state;
	refused("", "is not a network");
	refused("10.9.0", "is not a network");
	refused("10.9.0.0/", "number of bits");
	refused("10.9.0.0/33", "number of bits");
	refused("10.9.0.0/-1", "number of bits");
	refused("10.9.0.0/8x", "number of bits");
	refused("::/129", "number of bits");
	refused("10.9.0.1/24", "bits set after");
	refused("fd00::1/64", "bits set after");
	refused("host.example/24", "is not a network");
	refused(long_text, "is not a network");
	refused("1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb/8", "is not a network");
}

static void no_addresses(void **state)
{
	static const char *const texts[] = {
		"",
		"pid:4711",
		"(unknown)",
		"10.9.0:1",
		"[]:1",
		"fe80::1::2",
		"1111111111111111111111111111111111111111111111",
	};
	struct ip_address ip;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (ip_address_parse(&ip, texts[i]))
			fail_msg("'%s' is an address", texts[i]);
	assert_false(ip_address_parse(&ip, long_text));
}

static void lists(void **state)
{
	static const char list[] = "10.9.0.0/24,fd00::/8,192.0.2.7";
	char with_long[sizeof(long_text) + 16];

	(void)state;
	snprintf(with_long, sizeof(with_long), "%s,10.9.0.0/24", long_text);
	assert_true(networks_hold(with_long, "10.9.0.1:4711"));
	assert_true(networks_hold(list, "10.9.0.1:4711"));
	assert_true(networks_hold(list, "[fd00::1]:4711"));
	assert_true(networks_hold(list, "192.0.2.7:1"));
	assert_false(networks_hold(list, "192.0.2.8:1"));
	assert_false(networks_hold(list, "(unknown)"));
	assert_false(networks_hold("0.0.0.0/0,::/0", "(unknown)"));
	assert_true(networks_hold("", "192.0.2.8:1"));
	assert_true(networks_hold("", "(unknown)"));
	assert_false(networks_hold("x", "192.0.2.8:1"));
}

static void compares(void **state)
{
	static const char *const sorted[] = { "10.0.0.0/8",   "10.0.0.0/9", "10.0.0.1",
					      "192.0.2.0/24", "::/0",	    "::/1",
					      "fd00::/8" };
	const int count = sizeof(sorted) / sizeof(sorted[0]);
	struct network a, b;

	(void)state;
	for (int i = 0; i < count; i++)
		for (int j = 0; j < count; j++) {
			network_parse(&a, sorted[i], NULL);
			network_parse(&b, sorted[j], NULL);
			assert_int_equal(network_compare(&a, &b) < 0, i < j);
			assert_int_equal(network_compare(&a, &b) > 0, i > j);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(v4),	    cmocka_unit_test(v6),    cmocka_unit_test(mapped),
		cmocka_unit_test(refuses),  cmocka_unit_test(lists), cmocka_unit_test(no_addresses),
		cmocka_unit_test(compares),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
