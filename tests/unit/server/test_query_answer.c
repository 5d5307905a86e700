/* SPDX-License-Identifier: MIT */
/*
 * Tests of the control thread's half of CLIENTS and KILL (server/control/query_answer.h): what a
 * line says of a connection, by which clocks; that pages have each connection once; which one is
 * closed.
 */
#include "server/control/query_answer.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/users/user.h"
#include "server/worker/conn.h"

#define CONNS 20u
#define SECOND_NS 1000000000ull
/* The store's clock counts from 1970, the host's from its start. */
#define CLOCK_BASE (1000000 * SECOND_NS)
#define TEXT_BYTES 700u /* of some lines */

static struct store store;
static struct device dev = { .name = "fake0" };
static struct worker worker = { .number = 3 };
static struct net net;
static struct conn conns[CONNS];
static char text[TEXT_BYTES + 1];

static int setup(void **state)
{
	(void)state;
	store.table.clock_base = CLOCK_BASE;
	memset(&net, 0, sizeof(net));
	memset(conns, 0, sizeof(conns));
	net.env.store = &store;
	net.nics[0].dev = &dev;
	worker.pollers[0].worker = &worker;
	worker.pollers[0].nic = &net.nics[0];
	if (conn_registry_init(&net.registry, CONNS))
		return -1;
	for (unsigned int i = 0; i < CONNS; i++) {
		conns[i].poller = &worker.pollers[0];
		conns[i].client.worker = &worker;
		conns[i].client.connected_ns = clock_ns();
		conns[i].client.number = conn_registry_add(&net.registry, &conns[i].client);
		snprintf(conns[i].client.peer.address, sizeof(conns[i].client.peer.address),
			 "10.9.0.%u:1", i);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	conn_registry_release(&net.registry);
	return 0;
}

/* The first connection asks. */
static struct client *ask(enum wire_op op, uint64_t arg)
{
	struct query *query = &conns[0].query;
	struct client *kill;

	query->op = op;
	query->arg = arg;
	query->text = text;
	query->size = TEXT_BYTES;
	kill = query_answer(&net, &conns[0]);
	assert_true(query->len <= TEXT_BYTES);
	text[query->len] = '\0';
	return kill;
}

static uint64_t number_in_line(const char *name)
{
	const char *at = strstr(text, name);

	assert_non_null(at);
	return strtoull(at + strlen(name), NULL, 10);
}

/* The seconds from @then_ns on, as they were at some moment from @before_ns to @after_ns. */
static void assert_seconds(const char *name, uint64_t then_ns, uint64_t before_ns,
			   uint64_t after_ns)
{
	assert_in_range(number_in_line(name), (before_ns - then_ns) / SECOND_NS,
			(after_ns - then_ns) / SECOND_NS);
}

static void list_first(uint64_t *host_ns, uint64_t *store_ns)
{
	host_ns[0] = clock_ns();
	store_ns[0] = store_clock_ns(&store);
	assert_null(ask(WIRE_CLIENTS, 0));
	host_ns[1] = clock_ns();
	store_ns[1] = store_clock_ns(&store);
	assert_int_equal(conns[0].query.status, WIRE_OK);
	assert_memory_equal(text, "id=", 3);
	assert_true(number_in_line("id=") == conns[0].client.number);
}

/* When it connected is of the host's clock, when it was active last of the store's. */
static void age_and_idle(void **state)
{
	uint64_t host_ns[2], store_ns[2], active_ns;

	(void)state;
	conns[0].client.connected_ns = clock_ns() - 100 * SECOND_NS;
	/* A connection that has done nothing is idle since it connected. */
	list_first(host_ns, store_ns);
	assert_seconds(" age=", conns[0].client.connected_ns, host_ns[0], host_ns[1]);
	assert_true(number_in_line(" idle=") == number_in_line(" age="));
	active_ns = store_clock_ns(&store) - 40 * SECOND_NS;
	stat_set(&conns[0].client.active_ns, active_ns);
	list_first(host_ns, store_ns);
	assert_seconds(" age=", conns[0].client.connected_ns, host_ns[0], host_ns[1]);
	assert_seconds(" idle=", active_ns, store_ns[0], store_ns[1]);
	/* A worker's clock may be ahead of ours. */
	stat_set(&conns[0].client.active_ns, store_clock_ns(&store) + 1000 * SECOND_NS);
	list_first(host_ns, store_ns);
	assert_true(number_in_line(" idle=") == 0);
}

static void a_line(void **state)
{
	char expected[200];

	(void)state;
	stat_set(&conns[0].client.requests, 11);
	stat_set(&conns[0].client.received_bytes, 12);
	stat_set(&conns[0].client.sent_bytes, 13);
	stat_set(&conns[0].window_shown, 14);
	conns[0].client.connected_ns = UINT64_MAX; /* an age of 0 */
	for (unsigned int i = 0; i < 3; i++) {
		static const char *const states[] = { "hello", "open", "closing" };

		atomic_store(&conns[0].hello_done, i > 0);
		conns[0].stage = i > 1 ? CONN_FLUSHING : CONN_LIVE;
		conns[0].client.peer.uid_known = i;
		conns[0].client.peer.uid = 1000;
		snprintf(expected, sizeof(expected),
			 "id=%" PRIu64 " device=fake0 addr=10.9.0.0:1%s worker=3 state=%s age=0 "
			 "idle=0 requests=11 received=12 sent=13 window=14\n",
			 conns[0].client.number, i ? " uid=1000" : "", states[i]);
		ask(WIRE_CLIENTS, 0);
		*(strchr(text, '\n') + 1) = '\0';
		assert_string_equal(text, expected);
	}
}

/* Each page has whole lines, and all pages have each connection once. */
static void pages(void **state)
{
	unsigned int seen[CONNS] = { 0 }, pages = 0, n;
	uint64_t cursor = 0;
	const char *line;

	(void)state;
	conn_registry_remove(&net.registry, conns[7].client.number);
	do {
		ask(WIRE_CLIENTS, cursor);
		assert_true(conns[0].query.len > 0);
		assert_int_equal(text[conns[0].query.len - 1], '\n');
		for (line = text; *line; line = strchr(line, '\n') + 1) {
			assert_int_equal(sscanf(line, "id=%*u device=fake0 addr=10.9.0.%u:1", &n),
					 1);
			assert_true(n < CONNS);
			seen[n]++;
		}
		cursor = conns[0].query.cursor;
		assert_true(++pages < CONNS);
	} while (cursor);
	assert_true(pages > 2);
	for (unsigned int i = 0; i < CONNS; i++)
		assert_int_equal(seen[i], i != 7);
	/* After all of them there is nothing, however far. */
	ask(WIRE_CLIENTS, 1ull << 32);
	assert_int_equal(conns[0].query.len, 0);
	assert_int_equal(conns[0].query.cursor, 0);
	ask(WIRE_CLIENTS, UINT64_MAX);
	assert_int_equal(conns[0].query.len, 0);
	assert_int_equal(conns[0].query.cursor, 0);
	assert_int_equal(conns[0].query.status, WIRE_OK);
}

static void kills(void **state)
{
	(void)state;
	assert_ptr_equal(ask(WIRE_KILL, conns[5].client.number), &conns[5].client);
	assert_int_equal(conns[0].query.status, WIRE_OK);
	conn_registry_remove(&net.registry, conns[5].client.number);
	assert_null(ask(WIRE_KILL, conns[5].client.number));
	assert_int_equal(conns[0].query.status, WIRE_NOT_FOUND);
	assert_int_equal(conns[0].query.len, 0);
	/* A connection may close itself. */
	assert_ptr_equal(ask(WIRE_KILL, conns[0].client.number), &conns[0].client);
	assert_int_equal(conns[0].query.status, WIRE_OK);
}

/* A page looks at a bounded number of slots, however few of them are in use. */
static void pages_of_a_large_registry(void **state)
{
	unsigned int listed = 0, asked = 0;
	uint64_t cursor = 0;

	(void)state;
	conn_registry_release(&net.registry);
	assert_int_equal(conn_registry_init(&net.registry, 4 * QUERY_SLOTS_MAX), 0);
	conns[0].client.number = conn_registry_add(&net.registry, &conns[0].client);
	do {
		ask(WIRE_CLIENTS, cursor);
		listed += conns[0].query.len > 0;
		cursor = conns[0].query.cursor;
		assert_true(!cursor || cursor == ++asked * QUERY_SLOTS_MAX);
	} while (cursor);
	assert_int_equal(asked, 3);
	assert_int_equal(listed, 1);
}

static int modify_error;

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	assert_ptr_equal(qp, conns[0].qp);
	assert_int_equal(mask, IBV_QP_ACCESS_FLAGS);
	/* Guarantee D. */
	assert_int_equal(attr->qp_access_flags, IBV_ACCESS_REMOTE_READ);
	return modify_error;
}

/* HELLO: remote read and nothing else; a device that refuses it has not granted it. */
static void grants(void **state)
{
	static const struct device_ops ops = { .modify_qp = modify_qp };
	struct ibv_qp qp;
	struct cm_id id = { .dev = &dev };

	(void)state;
	dev.ops = &ops;
	conns[0].id = &id;
	conns[0].qp = &qp;
	modify_error = 0;
	assert_null(ask(WIRE_HELLO, 0));
	assert_true(conns[0].query.granted);
	modify_error = -EINVAL;
	assert_null(ask(WIRE_HELLO, 0));
	assert_false(conns[0].query.granted);
}

/* A user that may not read all keys gets no remote read. */
static void withholds(void **state)
{
	struct user user = { .name = "u", .rights = USER_ALL };
	static const struct device_ops ops = { .modify_qp = modify_qp };
	struct ibv_qp qp;
	struct cm_id id = { .dev = &dev };

	(void)state;
	dev.ops = &ops;
	conns[0].id = &id;
	conns[0].qp = &qp;
	modify_error = -EINVAL; /* it is granted all the same where the device is not asked */
	atomic_store(&conns[0].client.user, &user);
	assert_null(ask(WIRE_HELLO, 0));
	assert_false(conns[0].query.granted);
	assert_false(conns[0].query.by_request);
	user.rights = USER_ALL & ~USER_READ;
	assert_null(ask(WIRE_HELLO, 0));
	assert_true(conns[0].query.granted);
	assert_true(conns[0].query.by_request);
	user.rights = USER_ALL;
	user.read.list[user.read.count++] = (struct user_prefix){ (const uint8_t *)"x", 1 };
	assert_null(ask(WIRE_HELLO, 0));
	assert_true(conns[0].query.granted);
	assert_true(conns[0].query.by_request);
	atomic_store(&conns[0].client.user, NULL);
}

/* A client is known by its user, or without one; in the tenant that it is in. */
static void who_one_is(void **state)
{
	static struct tenant tenant = { .name = "blue" };
	static struct tenant_part part = { .tenant = &tenant };
	const struct user user = {
		.name = "bob",
		.rights = USER_READ | USER_ADMIN,
		.read.count = 2,
	};

	(void)state;
	conns[0].client.part = &part;
	assert_null(ask(WIRE_WHOAMI, 0));
	assert_int_equal(conns[0].query.status, WIRE_OK);
	assert_memory_equal(text,
			    "user= rights=read,write,delete,scan,flush,stats,admin tenant=blue "
			    "addr=10.9.0.0:1 id=",
			    85);
	atomic_store(&conns[0].client.user, &user);
	conns[0].client.peer.uid_known = true;
	conns[0].client.peer.uid = 7;
	conns[0].client.peer.identity = "psk:bob";
	assert_null(ask(WIRE_WHOAMI, 0));
	assert_memory_equal(text,
			    "user=bob rights=read,admin tenant=blue read_prefixes=2 "
			    "write_prefixes=0 addr=10.9.0.0:1 uid=7 identity=psk:bob id=",
			    113);
	assert_false(net.stop_asked);
}

/* With users it is a matter of their rights (test_permit); else not of whoever can connect. */
static void stops(void **state)
{
	const struct user user = { .name = "bob", .rights = USER_ADMIN };
	const struct user reader = { .name = "ann", .rights = USER_READ };

	(void)state;
	assert_null(ask(WIRE_SHUTDOWN, 0));
	assert_int_equal(conns[0].query.status, WIRE_NOT_ALLOWED);
	assert_memory_equal(text, "only root", 9);
	assert_false(net.stop_asked);
	conns[0].client.by_admin = true;
	assert_null(ask(WIRE_SHUTDOWN, 0));
	assert_int_equal(conns[0].query.status, WIRE_OK);
	assert_true(net.stop_asked);
	net.stop_asked = false;
	/* The file of users was read after the worker had asked for the right. */
	atomic_store(&conns[0].client.user, &reader);
	assert_null(ask(WIRE_SHUTDOWN, 0));
	assert_int_equal(conns[0].query.status, WIRE_NOT_ALLOWED);
	assert_memory_equal(text, "user ann has no right 'admin'", 29);
	assert_int_equal(conns[0].query.len, 29);
	assert_false(net.stop_asked);
	conns[0].client.by_admin = false;
	atomic_store(&conns[0].client.user, &user);
	assert_null(ask(WIRE_SHUTDOWN, 0));
	assert_int_equal(conns[0].query.status, WIRE_OK);
	assert_true(net.stop_asked);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(age_and_idle),
		CASE(a_line),
		CASE(pages),
		CASE(kills),
		CASE(who_one_is),
		CASE(stops),
		CASE(pages_of_a_large_registry),
		CASE(grants),
		CASE(withholds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
