/* SPDX-License-Identifier: MIT */
/*
 * Tests of the identities of clients (IDENTITY-1 to IDENTITY-3 in server/control/identity.h): one
 * connection for each, the last HELLO is the one that stays, and what is kept when there is no room
 * for all.
 */
#include "server/control/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/worker/conn.h"

#define MAX 16
#define KEEP_NS 1000u
#define CONNS 64

static struct identities identities;
static struct conn conns[CONNS], *closes;
static struct principal principals[CONNS];

static int setup(void **state)
{
	(void)state;
	memset(conns, 0, sizeof(conns));
	closes = NULL;
	return identities_init(&identities, MAX, KEEP_NS);
}

static int teardown(void **state)
{
	(void)state;
	identities_release(&identities);
	return 0;
}

/* HELLO of connection @c, of user @uid, with the identity @id, which has sent 9 changes. */
static bool hello(unsigned int c, unsigned int uid, uint64_t id)
{
	struct conn *conn = &conns[c];

	snprintf(principals[c].name, sizeof(principals[c].name), "uid=%u", uid);
	conn->client.principal = &principals[c];
	memcpy(conn->query.hello.identity, &id, sizeof(id));
	conn->query.hello.change_next = 10;
	conn->query.hello.answers = NULL;
	conn->query.hello.known = false;
	return identity_claim(&identities, conn, &closes);
}

static void assert_welcome(unsigned int c, unsigned int uid, uint64_t id, bool known)
{
	assert_true(hello(c, uid, id));
	assert_null(closes);
	assert_non_null(conns[c].query.hello.answers);
	assert_int_equal(conns[c].query.hello.known, known);
}

static struct conn *leave(unsigned int c, uint64_t now_ns)
{
	identity_disinherit(&conns[c]);
	return identity_leave(&identities, &conns[c], now_ns);
}

static void answers_stay(void **state)
{
	const struct wire_response head = { .op = WIRE_PUT, .version = 77 };
	struct answers *answers;

	(void)state;
	assert_welcome(0, 1, 5, false);
	answers = conns[0].query.hello.answers;
	assert_int_equal(answers->last, 9);
	answers_record(answers, 10, &head);
	assert_null(leave(0, 0));
	assert_welcome(1, 1, 5, true);
	assert_ptr_equal(conns[1].query.hello.answers, answers);
	assert_int_equal(answers->last, 10);
	assert_welcome(2, 1, 6, false);
	assert_int_equal(conns[2].query.hello.answers->last, 9);
	assert_int_equal(identities.count, 2);
}

/* Two that differ in a byte are two clients. */
static void each_byte_counts(void **state)
{
	(void)state;
	for (unsigned int byte = 0; byte < WIRE_IDENTITY_BYTES; byte++) {
		struct conn *conn = &conns[byte];

		conn->client.principal = &principals[byte];
		memset(conn->query.hello.identity, 7, WIRE_IDENTITY_BYTES);
		conn->query.hello.identity[byte] = 8;
		conn->query.hello.change_next = 10;
		assert_true(identity_claim(&identities, conn, &closes));
		assert_false(conn->query.hello.known);
	}
	assert_int_equal(identities.count, WIRE_IDENTITY_BYTES);
}

/* A whole number of buckets, and an identity each. */
static void bytes_of_all(void **state)
{
	(void)state;
	assert_true(identities_bytes(1024) ==
		    1024 * (sizeof(struct identity_bucket) + sizeof(struct identity)));
	assert_true(identities_bytes(1025) ==
		    2048 * sizeof(struct identity_bucket) + 1025 * sizeof(struct identity));
}

/* Identities of clients that came back can't make room. */
static void who_came_back_makes_no_room(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		assert_welcome(i, 1, i, false);
		assert_null(leave(i, 0));
	}
	for (unsigned int i = 0; i < 4; i++)
		assert_welcome(i, 1, i, true);
	for (unsigned int i = 4; i < MAX; i++)
		assert_welcome(i, 2, i, false);
	assert_null(leave(MAX - 1, 0));
	assert_welcome(MAX, 3, 100, false);
	assert_int_equal(identities.evicted, 1);
	for (unsigned int i = 0; i < MAX - 1; i++)
		assert_non_null(conns[i].identity);
}

/* All whose time is over go in one tick. */
static void many_expire(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < MAX; i++)
		assert_welcome(i, i, i, false);
	for (unsigned int i = 0; i < MAX; i++)
		assert_null(leave(i, i < MAX / 2 ? 5 : 6));
	identities_expire(&identities, 5 + KEEP_NS);
	assert_int_equal(identities.kept_count, MAX / 2);
	assert_int_equal(identities.count, MAX / 2);
}

static void the_next_connection_waits_for_the_end(void **state)
{
	struct answers *answers;

	(void)state;
	assert_welcome(0, 1, 5, false);
	answers = conns[0].query.hello.answers;
	assert_false(hello(1, 2, 5));
	assert_ptr_equal(closes, &conns[0]);
	assert_null(conns[1].query.hello.answers);
	assert_ptr_equal(leave(0, 0), &conns[1]);
	assert_ptr_equal(conns[1].query.hello.answers, answers);
	assert_true(conns[1].query.hello.known);
	/* The connection's query is answered then. */
	assert_true(identity_claim(&identities, &conns[1], &closes));
	assert_null(closes);
	assert_ptr_equal(conns[1].query.hello.answers, answers);
	assert_null(leave(0, 0));
	assert_null(leave(1, 0));
	assert_int_equal(identities.kept_count, 1);
}

static void the_last_one_that_waits_stays(void **state)
{
	(void)state;
	assert_welcome(0, 1, 5, false);
	assert_false(hello(1, 1, 5));
	assert_ptr_equal(closes, &conns[0]);
	assert_false(hello(2, 1, 5));
	assert_ptr_equal(closes, &conns[1]);
	assert_null(leave(1, 0));
	assert_false(hello(3, 1, 5));
	assert_ptr_equal(closes, &conns[2]);
	assert_ptr_equal(leave(0, 0), &conns[3]);
	assert_null(leave(2, 0));
	assert_ptr_equal(conns[3].identity->owner, &conns[3]);
	assert_int_equal(identities.count, 1);
	assert_int_equal(identities.kept_count, 0);
}

/* One that waits and is gone before the end. */
static void an_heir_that_ends(void **state)
{
	(void)state;
	assert_welcome(0, 1, 5, false);
	assert_false(hello(1, 1, 5));
	assert_null(leave(1, 0));
	assert_null(leave(0, 0));
	assert_welcome(2, 1, 5, true);
	/* The owner that is closed itself is no heir. */
	identity_disinherit(&conns[2]);
	assert_ptr_equal(conns[2].identity->owner, &conns[2]);
}

static void kept_for_a_time(void **state)
{
	(void)state;
	assert_welcome(0, 1, 5, false);
	assert_welcome(1, 1, 6, false);
	assert_welcome(2, 1, 7, false);
	leave(0, 100);
	leave(1, 200);
	identities_expire(&identities, 100 + KEEP_NS - 1);
	assert_int_equal(identities.kept_count, 2);
	identities_expire(&identities, 100 + KEEP_NS);
	assert_int_equal(identities.kept_count, 1);
	assert_welcome(3, 1, 6, true);
	assert_welcome(4, 1, 5, false);
	identities_expire(&identities, 1000 * KEEP_NS);
	assert_int_equal(identities.count, 3);
	assert_int_equal(identities.evicted, 0);
}

static void without_room(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < MAX; i++)
		assert_welcome(i, 1, i + 1, false);
	assert_true(hello(MAX, 1, 99));
	assert_null(closes);
	assert_null(conns[MAX].query.hello.answers);
	assert_null(conns[MAX].identity);
	assert_null(leave(MAX, 0));
	assert_int_equal(identities.count, MAX);
	leave(3, 0);
	assert_welcome(MAX + 1, 1, 99, false);
	assert_int_equal(identities.count, MAX);
	assert_int_equal(identities.evicted, 1);
}

/* The one that ended first goes first. */
static void evicted_in_order(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < MAX; i++)
		assert_welcome(i, 1, i + 1, false);
	for (unsigned int i = 0; i < MAX; i++)
		leave(MAX - 1 - i, i);
	for (unsigned int i = 0; i < MAX / 2; i++)
		assert_welcome(MAX + i, 1, 100 + i, false);
	for (unsigned int i = 0; i < MAX / 2; i++)
		assert_welcome(2 * MAX + i, 1, i + 1, true);
	assert_int_equal(identities.evicted, MAX / 2);
}

/* A storm of identities of one principal costs the others none of theirs. */
static void a_storm_is_its_principals_loss(void **state)
{
	(void)state;
	assert_welcome(0, 1, 1, false);
	leave(0, 0);
	assert_welcome(0, 1, 2, false);
	leave(0, 0);
	for (unsigned int i = 0; i < 1000; i++) {
		assert_welcome(1, 2, 1000 + i, false);
		leave(1, i);
		assert_true(identities.count <= MAX);
	}
	assert_int_equal(identities.evicted, 1002 - MAX);
	assert_welcome(0, 1, 1, true);
	assert_welcome(1, 1, 2, true);
	assert_int_equal(identities_bytes(MAX) >= MAX * sizeof(struct identity), 1);
}

/* server.identity_time or limits.identities of 0. */
static void none_is_kept(void **state)
{
	(void)state;
	identities_release(&identities);
	assert_int_equal(identities_init(&identities, 0, KEEP_NS), 0);
	assert_true(hello(0, 1, 5));
	assert_null(conns[0].query.hello.answers);
	assert_int_equal(identities_bytes(0), 0);
	identities_release(&identities);
	assert_int_equal(identities_init(&identities, 1, 0), 0);
	assert_welcome(0, 1, 5, false);
	leave(0, 50);
	identities_expire(&identities, 50);
	assert_int_equal(identities.count, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(answers_stay),
		CASE(the_next_connection_waits_for_the_end),
		CASE(the_last_one_that_waits_stays),
		CASE(an_heir_that_ends),
		CASE(kept_for_a_time),
		CASE(without_room),
		CASE(evicted_in_order),
		CASE(a_storm_is_its_principals_loss),
		CASE(none_is_kept),
		CASE(each_byte_counts),
		CASE(bytes_of_all),
		CASE(who_came_back_makes_no_room),
		CASE(many_expire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
