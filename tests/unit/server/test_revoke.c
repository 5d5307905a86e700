/* SPDX-License-Identifier: MIT */
/*
 * Tests of who is meant by a REVOKE: how it is written, whose connections it fits, and how long a
 * revocation is kept for those who come late.
 */
#include "server/control/revoke.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/users/user.h"

#define NOW 1000000000000ull

static bool parse(struct revoke *revoke, const char *text)
{
	return revoke_parse(revoke, text, strlen(text));
}

static void texts(void **state)
{
	static const char *const wrong[] = {
		"",	 "alice", "identity=", "identity", "Identity=alice",	       "uid=",
		"id=",	 "uid=x", "uid=-1",    "uid= 1",   "uid=18446744073709551616", "uid=1x",
		"addr=", "user",  "user=",
	};
	char name[sizeof("identity=") + TLS_IDENTITY_MAX];
	struct revoke revoke;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(parse(&revoke, wrong[i]));
	assert_true(parse(&revoke, "identity=al ice=x"));
	assert_int_equal(revoke.by, REVOKE_IDENTITY);
	assert_string_equal(revoke.name, "al ice=x");
	assert_true(parse(&revoke, "uid=18446744073709551615"));
	assert_int_equal(revoke.by, REVOKE_UID);
	assert_true(revoke.number == UINT64_MAX);
	assert_true(parse(&revoke, "id=0"));
	assert_int_equal(revoke.by, REVOKE_ID);
	assert_true(revoke.number == 0);
	assert_true(parse(&revoke, "addr=10.0.0.1"));
	assert_int_equal(revoke.by, REVOKE_ADDRESS);
	/* The longest name that there may be, and one byte more; and one that C would cut. */
	memset(name, 'n', sizeof(name));
	memcpy(name, "identity=", 9);
	assert_true(revoke_parse(&revoke, name, 9 + TLS_IDENTITY_MAX - 1));
	assert_int_equal(strlen(revoke.name), TLS_IDENTITY_MAX - 1);
	assert_false(revoke_parse(&revoke, name, 9 + TLS_IDENTITY_MAX));
	assert_false(revoke_parse(&revoke, "identity=alice\0bob", 18));
	/* What follows the text is not read. */
	assert_false(revoke_parse(&revoke, "uid=7", 4));
	assert_true(revoke_parse(&revoke, "uid=77", 5));
	assert_true(revoke.number == 7);
}

static bool matches(const char *text, const struct conn *conn)
{
	struct revoke revoke;

	assert_true(parse(&revoke, text));
	return revoke_matches(&revoke, &conn->client);
}

static void whose(void **state)
{
	static const struct user carol = { .name = "carol" };
	struct conn conn = {
		.client.number = 5,
		.client.peer = { .address = "10.0.0.1:4711", .identity = "alice" },
	};

	(void)state;
	assert_true(matches("identity=alice", &conn));
	assert_false(matches("identity=alic", &conn));
	assert_false(matches("identity=alice2", &conn));
	assert_true(matches("id=5", &conn));
	assert_false(matches("id=6", &conn));
	assert_true(matches("addr=10.0.0.1:4711", &conn));
	assert_true(matches("addr=10.0.0.1", &conn));
	assert_false(matches("addr=10.0.0.11", &conn));
	assert_false(matches("addr=10.0.0.", &conn));
	assert_false(matches("addr=10.0.0.1:471", &conn));
	/* Of root's number, and not known. */
	assert_false(matches("uid=0", &conn));
	conn.client.peer.uid_known = true;
	assert_true(matches("uid=0", &conn));
	assert_false(matches("uid=4294967296", &conn));
	conn.client.peer.uid = 77;
	assert_false(matches("uid=0", &conn));
	assert_true(matches("uid=77", &conn));
	snprintf(conn.client.peer.address, sizeof(conn.client.peer.address), "[fe80::1]:4711");
	assert_true(matches("addr=fe80::1", &conn));
	assert_true(matches("addr=[fe80::1]", &conn));
	assert_true(matches("addr=[fe80::1]:4711", &conn));
	assert_false(matches("addr=fe80", &conn));
	assert_false(matches("user=carol", &conn));
	atomic_store(&conn.client.user, &carol);
	assert_true(matches("user=carol", &conn));
	assert_false(matches("user=caro", &conn));
	assert_false(matches("user=alice", &conn));
	/* Connections without an identity, or a number, match nothing. */
	conn.client.number = 0;
	assert_false(matches("id=0", &conn));
}

static void kept(void **state)
{
	struct revoked revoked[REVOKED_MAX] = { 0 };
	struct cm_peer peer = { .identity = "n3", .since_ns = NOW };
	struct revoke revoke;
	char text[40];

	(void)state;
	assert_false(revoked_find(revoked, &peer, NOW));
	for (unsigned int i = 0; i < REVOKED_MAX; i++) {
		snprintf(text, sizeof(text), "identity=n%u", i);
		assert_true(parse(&revoke, text));
		assert_true(revoked_add(revoked, &revoke, NOW + i));
	}
	/* n3 was revoked at NOW + 3: that concerns clients that came until then. */
	peer.since_ns = NOW + 3;
	assert_true(revoked_find(revoked, &peer, NOW + 4));
	peer.since_ns = NOW + 4;
	assert_false(revoked_find(revoked, &peer, NOW + 4));
	/* Again: it is the same one, later. */
	assert_true(parse(&revoke, "identity=n3"));
	assert_true(revoked_add(revoked, &revoke, NOW + 20));
	assert_true(revoked_find(revoked, &peer, NOW + 20));
	/* Others have no place until the first is old, and others than identities need none. */
	assert_true(parse(&revoke, "uid=5"));
	assert_true(revoked_add(revoked, &revoke, NOW + 20));
	assert_true(parse(&revoke, "identity=late"));
	assert_false(revoked_add(revoked, &revoke, NOW + REVOKED_NS - 1));
	assert_true(revoked_find(revoked, &peer, NOW + 20 + REVOKED_NS - 1));
	assert_false(revoked_find(revoked, &peer, NOW + 20 + REVOKED_NS));
	assert_true(revoked_add(revoked, &revoke, NOW + REVOKED_NS));
	/* A peer without an identity came by another way. */
	peer = (struct cm_peer){ 0 };
	assert_false(revoked_find(revoked, &peer, NOW + REVOKED_NS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(whose),
		cmocka_unit_test(kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
