/* SPDX-License-Identifier: MIT */
/*
 * Tests of the principal of a connection (PRINCIPAL-1 in server/worker/principal.h): who is the
 * same one.
 */
#include "server/worker/principal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_principal(const struct cm_peer *peer, const char *user, const char *name)
{
	const struct user of = { .name = user };
	struct principal principal;

	memset(&principal, 'x', sizeof(principal));
	principal_init(&principal, peer, user ? &of : NULL);
	assert_string_equal(principal.name, name);
}

static void assert_address(const char *address, const char *name)
{
	struct cm_peer peer = { 0 };

	strcpy(peer.address, address);
	assert_principal(&peer, NULL, name);
}

/* The first that is known. */
static void names(void **state)
{
	struct cm_peer peer = { .address = "10.9.0.1:4711" };

	(void)state;
	assert_principal(&peer, NULL, "addr=10.9.0.1");
	peer.uid_known = true;
	assert_principal(&peer, NULL, "uid=0");
	peer.uid = 4294967294u;
	assert_principal(&peer, NULL, "uid=4294967294");
	peer.identity = "psk:web";
	assert_principal(&peer, NULL, "identity=psk:web");
	assert_principal(&peer, "alice", "user=alice");
}

/* "*" are many clients: each is told apart as without users. */
static void others_are_many(void **state)
{
	(void)state;
	assert_principal(&(struct cm_peer){ .uid_known = true, .uid = 7 }, "*", "uid=7");
	assert_principal(&(struct cm_peer){ .address = "10.9.0.1:1" }, "*", "addr=10.9.0.1");
}

/* A process that forks, and a port, are nobody else. */
static void a_process_is_its_users(void **state)
{
	struct cm_peer parent = { .address = "pid:10", .uid_known = true, .uid = 1000 };
	struct cm_peer child = { .address = "pid:11", .uid_known = true, .uid = 1000 };
	struct principal a, b;

	(void)state;
	principal_init(&a, &parent, NULL);
	principal_init(&b, &child, NULL);
	assert_true(principal_is(&a, &b));
	child.uid = 1001;
	principal_init(&b, &child, NULL);
	assert_false(principal_is(&a, &b));
}

/* An IPv6 address stands for its network; an IPv4 one, also if mapped, for the host. */
static void addresses(void **state)
{
	(void)state;
	assert_address("10.9.0.1:7", "addr=10.9.0.1");
	assert_address("10.9.0.11:7", "addr=10.9.0.11");
	assert_address("[fd00:1:2:3:4:5:6:7]:4711", "addr=fd00:1:2:3::/64");
	assert_address("[fd00:1:2:3:ffff:ffff:ffff:ffff]:1", "addr=fd00:1:2:3::/64");
	assert_address("[fd00:1:2:4::7]:1", "addr=fd00:1:2:4::/64");
	assert_address("[fe80::1%eth0]:1", "addr=fe80::/64");
	assert_address("[::ffff:10.9.0.1]:1", "addr=10.9.0.1");
	assert_address("fake", "addr=fake");
}

/* The longest of each. */
static void fits(void **state)
{
	struct cm_peer peer = { 0 };
	char user[USER_NAME_MAX + 1] = { 0 };
	char name[PRINCIPAL_BYTES] = "identity=", identity[TLS_IDENTITY_MAX] = { 0 };

	(void)state;
	memset(identity, 'i', sizeof(identity) - 1);
	peer.identity = identity;
	strcat(name, identity);
	assert_int_equal(strlen(name), PRINCIPAL_BYTES - 1);
	assert_principal(&peer, NULL, name);
	memset(user, 'u', USER_NAME_MAX);
	strcpy(name, "user=");
	strcat(name, user);
	assert_principal(&peer, user, name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(others_are_many),
		cmocka_unit_test(a_process_is_its_users),
		cmocka_unit_test(addresses),
		cmocka_unit_test(fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
