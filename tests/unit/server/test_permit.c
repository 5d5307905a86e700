/* SPDX-License-Identifier: MIT */
/*
 * Tests of what a user may do (server/worker/permit.h): each operation with each right, prefixes,
 * limits; and what becomes of requests that are refused, alone and in batches.
 */
#include "server/worker/permit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/stat.h"
#include "server/worker/answers.h"
#include "tests/support/store_fixture.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (64u << 20)
#define LONG_NS 3600000000000ull

static struct test_conn *const conn = &test_conns[0];
static struct user_account account;
static struct user user;

static void user_reset(uint32_t rights)
{
	account = (struct user_account){ 0 };
	user = (struct user){ .name = "u", .rights = rights };
}

static int setup(void **state)
{
	(void)state;
	user_reset(USER_ALL);
	if (test_worker_create(REGION_BYTES, 1u << 20))
		return -1;
	conn->conn.client.account = &account;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_worker_destroy();
	return 0;
}

/* Operations, and the rights that each needs. */
static const struct {
	struct request request;
	uint32_t rights;
} needs[] = {
	{ { .op = WIRE_HELLO }, 0 },
	{ { .op = WIRE_PING }, 0 },
	{ { .op = WIRE_ACCESS }, 0 },
	{ { .op = WIRE_BATCH }, 0 },
	{ { .op = WIRE_GET }, USER_READ },
	{ { .op = WIRE_GET, .flags = WIRE_F_NO_VALUE }, USER_READ },
	{ { .op = WIRE_GET, .offset = 5 }, USER_READ },
	{ { .op = WIRE_PUT }, USER_WRITE },
	{ { .op = WIRE_PUT, .flags = WIRE_F_PULL }, USER_WRITE },
	{ { .op = WIRE_PUT, .mode = WIRE_PREPEND }, USER_WRITE },
	{ { .op = WIRE_PUT, .mode = WIRE_COPY }, USER_ADMIN },
	{ { .op = WIRE_PUT, .mode = WIRE_COPY, .flags = WIRE_F_PULL }, USER_ADMIN },
	{ { .op = WIRE_ARITH }, USER_WRITE },
	{ { .op = WIRE_TOUCH }, USER_WRITE },
	{ { .op = WIRE_TOUCH, .flags = WIRE_F_VALUE }, USER_READ | USER_WRITE },
	{ { .op = WIRE_DELETE }, USER_DELETE },
	{ { .op = WIRE_DELETE, .flags = WIRE_F_IF_VERSION }, USER_DELETE },
	{ { .op = WIRE_SCAN }, USER_SCAN },
	{ { .op = WIRE_SCAN, .flags = WIRE_F_VALUES }, USER_SCAN | USER_READ },
	{ { .op = WIRE_SCAN, .flags = WIRE_F_USES }, USER_SCAN | USER_READ },
	{ { .op = WIRE_FLUSH }, USER_FLUSH },
	{ { .op = WIRE_FLUSH, .ticket = 7 }, USER_FLUSH },
	{ { .op = WIRE_FLUSH, .mode = WIRE_FLUSH_CANCEL }, USER_FLUSH },
	{ { .op = WIRE_FLUSH, .mode = WIRE_FLUSH_CANCEL_ANY }, USER_FLUSH | USER_ADMIN },
	{ { .op = WIRE_STATS }, USER_STATS },
	{ { .op = WIRE_CLIENTS }, USER_ADMIN },
	{ { .op = WIRE_KILL }, USER_ADMIN },
	{ { .op = WIRE_REVOKE }, USER_ADMIN },
	{ { .op = WIRE_SHUTDOWN }, USER_ADMIN },
	{ { .op = WIRE_WHOAMI }, 0 },
	{ { .op = WIRE_REPORT }, USER_ADMIN },
	{ { .op = WIRE_MAP }, 0 },
	{ { .op = WIRE_EXTENTS }, 0 },
	{ { .op = WIRE_TENANT }, USER_ADMIN },
	{ { .op = WIRE_MOVE }, USER_ADMIN },
	{ { .op = WIRE_FLEET, .mode = WIRE_FLEET_REBALANCE }, USER_ADMIN },
	{ { .op = WIRE_CONFIG, .mode = WIRE_CONFIG_GET }, USER_ADMIN },
	{ { .op = WIRE_CONFIG, .mode = WIRE_CONFIG_SET }, USER_ADMIN },
};

static void rights(void **state)
{
	unsigned int ops = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		ops |= 1u << needs[i].request.op;
		for (uint32_t set = 0; set <= USER_ALL; set++) {
			bool allowed = (set & needs[i].rights) == needs[i].rights;

			user_reset(set);
			if (permit_request(&user, &account, &needs[i].request, 1, 0) !=
			    (allowed ? WIRE_OK : WIRE_NOT_ALLOWED))
				fail_msg("op %d, flags %u with rights %u", needs[i].request.op,
					 needs[i].request.flags, set);
		}
	}
	/* Each that has a name. */
	for (unsigned int op = 1; op <= WIRE_OP_MAX; op++)
		assert_int_equal(!(ops & 1u << op),
				 !strcmp(wire_op_name((enum wire_op)op), "unknown"));
}

static enum wire_status of_key(enum wire_op op, uint32_t flags, const char *key)
{
	const struct request request = {
		.op = op,
		.flags = flags,
		.key = (const uint8_t *)key,
		.key_len = (uint32_t)strlen(key),
	};

	return permit_request(&user, &account, &request, 1, 0);
}

static struct user_prefix prefix(const char *text)
{
	return (struct user_prefix){ .bytes = (const uint8_t *)text, .length = strlen(text) };
}

static void prefixes(void **state)
{
	static const enum wire_op changes[] = { WIRE_PUT, WIRE_ARITH, WIRE_TOUCH, WIRE_DELETE };

	(void)state;
	user.read.list[0] = prefix("pub:");
	user.read.list[1] = prefix("mine:");
	user.read.count = 2;
	user.write.list[0] = prefix("mine:");
	user.write.list[1] = prefix("drop:");
	user.write.count = 2;
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(of_key(changes[i], 0, "mine:x"), WIRE_OK);
		assert_int_equal(of_key(changes[i], 0, "mine:"), WIRE_OK);
		assert_int_equal(of_key(changes[i], 0, "mine"), WIRE_NOT_ALLOWED);
		assert_int_equal(of_key(changes[i], 0, "pub:x"), WIRE_NOT_ALLOWED);
	}
	assert_int_equal(of_key(WIRE_GET, 0, "pub:x"), WIRE_OK);
	assert_int_equal(of_key(WIRE_GET, 0, "mine:x"), WIRE_OK);
	assert_int_equal(of_key(WIRE_GET, 0, "priv"), WIRE_NOT_ALLOWED);
	assert_int_equal(of_key(WIRE_GET, WIRE_F_NO_VALUE, "priv"), WIRE_NOT_ALLOWED);
	/* With the value a touch has to be in both. */
	assert_int_equal(of_key(WIRE_TOUCH, 0, "drop:x"), WIRE_OK);
	assert_int_equal(of_key(WIRE_TOUCH, WIRE_F_VALUE, "drop:x"), WIRE_NOT_ALLOWED);
	assert_int_equal(of_key(WIRE_TOUCH, WIRE_F_VALUE, "pub:x"), WIRE_NOT_ALLOWED);
	assert_int_equal(of_key(WIRE_TOUCH, WIRE_F_VALUE, "mine:x"), WIRE_OK);
	/* A scan is of a prefix: a shorter one has other keys. */
	assert_int_equal(of_key(WIRE_SCAN, 0, "pub:x"), WIRE_OK);
	assert_int_equal(of_key(WIRE_SCAN, 0, "pub"), WIRE_NOT_ALLOWED);
	assert_int_equal(of_key(WIRE_SCAN, 0, ""), WIRE_NOT_ALLOWED);
	assert_int_equal(of_key(WIRE_SCAN, WIRE_F_VALUES, "priv"), WIRE_NOT_ALLOWED);
	/* A copy is of any key. */
	assert_int_equal(permit_request(&user, &account,
					&(struct request){ .op = WIRE_PUT,
							   .mode = WIRE_COPY,
							   .key = (const uint8_t *)"priv",
							   .key_len = 4 },
					1, 0),
			 WIRE_OK);
	/* Nothing of a key. */
	assert_int_equal(of_key(WIRE_STATS, 0, ""), WIRE_OK);
	user.read.count = 0;
	assert_int_equal(of_key(WIRE_SCAN, 0, ""), WIRE_OK);
}

static void assert_why(enum wire_op op, uint32_t flags, const char *key, const char *why)
{
	const struct request request = {
		.op = op,
		.flags = flags,
		.key = (const uint8_t *)key,
		.key_len = (uint32_t)strlen(key),
	};
	char text[PERMIT_WHY_BYTES] = "";
	uint32_t len = permit_why(&user, &request, text);

	assert_int_equal(len, strlen(why));
	assert_memory_equal(text, why, len);
}

static void reasons(void **state)
{
	static char longest[USER_NAME_MAX + 1];

	(void)state;
	user.name = "reader";
	user.rights = USER_READ;
	assert_why(WIRE_PUT, 0, "k", "user reader has no right 'write'");
	assert_why(WIRE_SCAN, WIRE_F_VALUES, "k", "user reader has no right 'scan'");
	assert_why(WIRE_REVOKE, 0, "k", "user reader has no right 'admin'");
	assert_why(WIRE_GET, 0, "k", "");
	user.rights = 0;
	assert_why(WIRE_TOUCH, WIRE_F_VALUE, "k", "user reader has no right 'read', nor 'write'");
	user.rights = USER_ALL;
	user.read.list[0] = prefix("pub:");
	user.read.count = 1;
	user.write.list[0] = prefix("mine:");
	user.write.count = 1;
	assert_why(WIRE_GET, 0, "k",
		   "user reader may not read this key: it begins with none of the user's "
		   "read_prefixes");
	memset(longest, 'u', USER_NAME_MAX);
	user.name = longest;
	assert_why(WIRE_DELETE, 0, "pub:k",
		   "user uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu may not "
		   "change this key: it begins with none of the user's write_prefixes");
}

/* PERMIT-2: what is not allowed is paid for; what is beyond the limit is not. */
static void limits(void **state)
{
	unsigned int i;

	(void)state;
	user.requests = 1;
	user.rights = USER_READ;
	for (i = 0; i < ACCOUNT_REQUESTS_MIN; i++)
		assert_int_equal(of_key(WIRE_PUT, 0, "k"), WIRE_NOT_ALLOWED);
	assert_int_equal(of_key(WIRE_PUT, 0, "k"), WIRE_LIMIT);
	assert_int_equal(of_key(WIRE_GET, 0, "k"), WIRE_LIMIT);
	assert_int_equal(of_key(WIRE_HELLO, 0, ""), WIRE_OK);
	assert_int_equal(of_key(WIRE_BATCH, 0, ""), WIRE_OK);
	user.requests = 0;
	assert_int_equal(of_key(WIRE_GET, 0, "k"), WIRE_OK);
}

static void access_records(void **state)
{
	struct request request = { .op = WIRE_PING, .access_count = 3, .gets = { 1, 2 } };

	(void)state;
	permit_access(&conn->conn, &request);
	assert_int_equal(request.access_count, 3);
	atomic_store(&conn->conn.client.user, &user);
	permit_access(&conn->conn, &request);
	assert_int_equal(request.access_count, 3);
	user.rights = USER_ALL & ~USER_READ;
	permit_access(&conn->conn, &request);
	assert_int_equal(request.access_count, 0);
	assert_int_equal(request.gets.hits | request.gets.misses, 0);
	/* One that may not READ all has GETs by request alone. */
	user.rights = USER_ALL;
	request = (struct request){ .op = WIRE_PING, .access_count = 3, .gets = { 1, 2 } };
	conn->conn.query.by_request = true;
	permit_access(&conn->conn, &request);
	assert_int_equal(request.access_count, 0);
	assert_int_equal(request.gets.hits | request.gets.misses, 0);
}

/* The request's id is the receive's number. True: it was executed at once. */
static bool receive(struct test_conn *c, uint32_t buffer, struct wire_request head, const char *key,
		    uint32_t value_len)
{
	uint8_t *to = test_recv(buffer);

	head.id = buffer;
	head.key_len = key ? (uint16_t)strlen(key) : 0;
	head.value_len = value_len;
	memcpy(to, &head, sizeof(head));
	if (key)
		memcpy(to + sizeof(head), key, head.key_len);
	memset(to + sizeof(head) + head.key_len, 'v', value_len);
	return test_receive(c, buffer, sizeof(head) + head.key_len + value_len);
}

#define RECEIVE(c, buffer, key, value_len, ...)                                                    \
	receive(c, buffer, (struct wire_request){ __VA_ARGS__ }, key, value_len)

static bool is_stored(const char *key)
{
	return test_store_get(&test_store, key, (uint32_t)strlen(key), NULL, 0,
			      &(struct store_value){ 0 }) != WIRE_NOT_FOUND;
}

static void requests(void **state)
{
	const struct test_conn *c = conn;

	(void)state;
	user.rights = USER_READ;
	atomic_store(&conn->conn.client.user, &user);
	assert_true(RECEIVE(conn, 0, "k", 5, .op = WIRE_PUT));
	assert_int_equal(c->response.status, WIRE_NOT_ALLOWED);
	assert_int_equal(c->response.value_len, strlen("user u has no right 'write'"));
	assert_memory_equal(c->value, "user u has no right 'write'", c->response.value_len);
	assert_false(is_stored("k"));
	assert_int_equal(stat_read(&test_worker.stats.requests_not_allowed), 1);
	assert_true(RECEIVE(conn, 1, "k", 0, .op = WIRE_GET));
	assert_int_equal(c->response.status, WIRE_NOT_FOUND);
	/* A right that it gets counts from the next request on. */
	user.rights |= USER_WRITE;
	assert_true(RECEIVE(conn, 2, "k", 5, .op = WIRE_PUT));
	assert_int_equal(c->response.status, WIRE_OK);
	assert_true(is_stored("k"));
	/* No scan is begun, no statistics are asked for. */
	user.rights = USER_READ;
	assert_true(RECEIVE(conn, 3, NULL, 0, .op = WIRE_SCAN));
	assert_int_equal(c->response.status, WIRE_NOT_ALLOWED);
	assert_true(RECEIVE(conn, 4, NULL, 0, .op = WIRE_STATS));
	assert_int_equal(c->response.status, WIRE_NOT_ALLOWED);
	assert_true(RECEIVE(conn, 5, NULL, 0, .op = WIRE_FLUSH));
	assert_int_equal(c->response.status, WIRE_NOT_ALLOWED);
	assert_true(is_stored("k"));
	assert_int_equal(c->responses, 6);
	assert_int_equal(stat_read(&test_worker.stats.requests_not_allowed), 4);
}

/* The value of a PUT that is not allowed is not READ from the client. */
static void pull(void **state)
{
	(void)state;
	user.rights = USER_READ;
	atomic_store(&conn->conn.client.user, &user);
	assert_true(receive(conn, 0, (struct wire_request){ .op = WIRE_PING }, NULL, 0));
	memcpy(test_recv(1),
	       &(struct wire_request){ .op = WIRE_PUT,
				       .id = 1,
				       .key_len = 1,
				       .value_len = 9000,
				       .flags = WIRE_F_PULL,
				       .pull_addr = 4096,
				       .pull_rkey = 1 },
	       sizeof(struct wire_request));
	test_recv(1)[sizeof(struct wire_request)] = 'k';
	assert_true(test_receive(conn, 1, sizeof(struct wire_request) + 1));
	assert_int_equal(conn->response.status, WIRE_NOT_ALLOWED);
	assert_int_equal(conn->read_count, 0);
}

/* In its place, after what takes several turns. */
static void in_order(void **state)
{
	static const uint32_t ids[] = { 0, 1, 2 };

	(void)state;
	user.rights = USER_SCAN;
	atomic_store(&conn->conn.client.user, &user);
	assert_false(RECEIVE(conn, 0, NULL, 0, .op = WIRE_SCAN));
	assert_false(RECEIVE(conn, 1, "k", 5, .op = WIRE_PUT));
	user.requests = 1;
	account.base_ns = test_worker.part.thread.now_ns;
	atomic_store(&account.requests_full, UINT64_MAX / 2);
	assert_false(RECEIVE(conn, 2, "k", 5, .op = WIRE_PUT));
	test_turns();
	assert_int_equal(conn->responses, 3);
	assert_memory_equal(conn->ids, ids, sizeof(ids));
	assert_int_equal(conn->response.status, WIRE_LIMIT);
	assert_false(is_stored("k"));
	assert_int_equal(stat_read(&test_worker.stats.requests_not_allowed), 1);
	assert_int_equal(stat_read(&test_worker.stats.requests_over_limit), 1);
}

/* PERMIT-3: what was refused is answered so again, and what was done stays done. */
static void repeated(void **state)
{
	struct answers answers;

	(void)state;
	answers_init(&answers, 1);
	conn->conn.answers = &answers;
	atomic_store(&conn->conn.client.user, &user);
	assert_true(RECEIVE(conn, 0, "a", 5, .op = WIRE_PUT, .change = 1));
	assert_int_equal(conn->response.status, WIRE_OK);
	user.rights = USER_READ;
	assert_true(RECEIVE(conn, 1, "b", 5, .op = WIRE_PUT, .change = 2));
	assert_int_equal(conn->response.status, WIRE_NOT_ALLOWED);
	assert_true(RECEIVE(conn, 2, "a", 5, .op = WIRE_PUT, .change = 1));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(conn->response.flags, WIRE_R_REPEATED);
	user.rights = USER_ALL;
	assert_true(RECEIVE(conn, 3, "b", 5, .op = WIRE_PUT, .change = 2));
	assert_int_equal(conn->response.status, WIRE_NOT_ALLOWED);
	assert_false(is_stored("b"));
	conn->conn.answers = NULL;
}

static uint32_t batch_add(uint8_t *to, uint32_t used, enum wire_op op, const char *key)
{
	const struct request request = {
		.op = op,
		.key = (const uint8_t *)key,
		.key_len = (uint32_t)strlen(key),
		.value = op == WIRE_PUT ? (const uint8_t *)"v" : NULL,
		.value_len = op == WIRE_PUT,
	};

	wire_batched_write(&request, to + used);
	return used + (uint32_t)wire_batched_bytes(&request);
}

/* GET, PUT, DELETE and a PUT of the key "k". */
static void batch_receive_four(uint32_t buffer)
{
	struct wire_request head = { .op = WIRE_BATCH, .id = buffer, .count = 4 };
	uint32_t used = sizeof(head);
	uint8_t *to = test_recv(buffer);

	used = batch_add(to, used, WIRE_GET, "k");
	used = batch_add(to, used, WIRE_PUT, "k");
	used = batch_add(to, used, WIRE_DELETE, "k");
	used = batch_add(to, used, WIRE_PUT, "k");
	head.value_len = used - (uint32_t)sizeof(head);
	memcpy(to, &head, sizeof(head));
	assert_true(test_receive(conn, buffer, used));
}

static void assert_results(enum wire_status a, enum wire_status b, enum wire_status c,
			   enum wire_status d)
{
	const enum wire_status expected[] = { a, b, c, d };
	struct response result;
	size_t at = 0;

	assert_int_equal(conn->response.status, WIRE_OK);
	for (unsigned int i = 0; i < 4; i++) {
		assert_null(wire_result_parse(&result, conn->value, conn->value_len, &at));
		assert_int_equal(result.status, expected[i]);
	}
}

static void batches(void **state)
{
	uint64_t full;

	(void)state;
	atomic_store(&conn->conn.client.user, &user);
	user.rights = USER_WRITE;
	batch_receive_four(0);
	assert_results(WIRE_NOT_ALLOWED, WIRE_OK, WIRE_NOT_ALLOWED, WIRE_OK);
	assert_true(is_stored("k"));
	assert_int_equal(stat_read(&test_worker.stats.requests_not_allowed), 2);
	user.rights = USER_READ | USER_DELETE;
	batch_receive_four(1);
	assert_results(WIRE_OK, WIRE_NOT_ALLOWED, WIRE_OK, WIRE_NOT_ALLOWED);
	assert_false(is_stored("k"));
	user_reset(USER_ALL);
	user.requests = 1;
	account.base_ns = test_worker.part.thread.now_ns;
	/* Two are left of the burst. */
	for (unsigned int i = 0; i < ACCOUNT_REQUESTS_MIN - 2; i++)
		assert_true(account_admit(&account, 1, 0, 1, account.base_ns));
	account.base_ns = test_worker.part.thread.now_ns + LONG_NS; /* no time passes */
	batch_receive_four(2);
	assert_results(WIRE_NOT_FOUND, WIRE_OK, WIRE_LIMIT, WIRE_LIMIT);
	assert_int_equal(stat_read(&test_worker.stats.requests_over_limit), 2);
	full = account.requests_full;
	batch_receive_four(3);
	assert_results(WIRE_LIMIT, WIRE_LIMIT, WIRE_LIMIT, WIRE_LIMIT);
	assert_true(account.requests_full == full);
}

/* Messages and values in both directions count; what is beyond the limit does not. */
static void bytes(void **state)
{
	uint64_t before;

	(void)state;
	atomic_store(&conn->conn.client.user, &user);
	user.bytes = 1u << 30;
	account.base_ns = test_worker.part.thread.now_ns + LONG_NS;
	assert_true(RECEIVE(conn, 0, "k", 1000, .op = WIRE_PUT));
	before = sizeof(struct wire_request) + 1 + 1000 + sizeof(struct wire_response);
	assert_in_range(account.bytes_full, account_cost(before, user.bytes) - 2,
			account_cost(before, user.bytes));
	before = account.bytes_full;
	assert_true(RECEIVE(conn, 1, "k", 0, .op = WIRE_GET));
	assert_in_range(account.bytes_full - before, account_cost(1000, user.bytes),
			account_cost(1200, user.bytes));
	account.bytes_full = UINT64_MAX / 2;
	assert_true(RECEIVE(conn, 2, "k", 0, .op = WIRE_GET));
	assert_int_equal(conn->response.status, WIRE_LIMIT);
	assert_true(account.bytes_full == UINT64_MAX / 2);
}

/* What follows of a value in parts is paid for by its first request, but not its responses. */
static void parts(void **state)
{
	static const uint8_t value[9000];
	uint32_t part;

	(void)state;
	assert_int_equal(test_store_put(&test_store, "k", 1, value, sizeof(value), NULL), WIRE_OK);
	atomic_store(&conn->conn.client.user, &user);
	user.bytes = 1u << 30;
	account.base_ns = test_worker.part.thread.now_ns + LONG_NS;
	assert_true(RECEIVE(conn, 0, "k", 0, .op = WIRE_TOUCH, .flags = WIRE_F_VALUE));
	assert_int_equal(conn->response.status, WIRE_OK);
	part = conn->value_len;
	test_conn_complete(conn);
	account.bytes_full = UINT64_MAX / 2;
	assert_true(RECEIVE(conn, 1, "k", 0, .op = WIRE_GET, .offset = 2 * part));
	assert_int_equal(conn->response.status, WIRE_LIMIT);
	assert_true(RECEIVE(conn, 2, "k", 0, .op = WIRE_GET, .offset = part));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(conn->value_len, part);
	assert_true(account.bytes_full > UINT64_MAX / 2);
	test_conn_complete(conn);
	/* What the user may not do is refused all the same. */
	user.rights = USER_WRITE;
	assert_true(RECEIVE(conn, 3, "k", 0, .op = WIRE_GET, .offset = 2 * part));
	assert_int_equal(conn->response.status, WIRE_NOT_ALLOWED);
}

/* Nor do the parts of a range; but one range after another is not one in parts. */
static void parts_of_a_range(void **state)
{
	static const uint8_t value[9000];
	uint32_t part;

	(void)state;
	assert_int_equal(test_store_put(&test_store, "k", 1, value, sizeof(value), NULL), WIRE_OK);
	atomic_store(&conn->conn.client.user, &user);
	conn->conn.query.by_request = true;
	user.bytes = 1u << 30;
	account.base_ns = test_worker.part.thread.now_ns + LONG_NS;
	assert_true(RECEIVE(conn, 0, "k", 0, .op = WIRE_GET, .length = 1));
	assert_int_equal(conn->response.status, WIRE_OK);
	account.bytes_full = UINT64_MAX / 2;
	assert_true(RECEIVE(conn, 1, "k", 0, .op = WIRE_GET, .offset = 1, .length = 1));
	assert_int_equal(conn->response.status, WIRE_LIMIT);
	test_conn_complete(conn);
	account.bytes_full = 0;
	assert_true(RECEIVE(conn, 0, "k", 0, .op = WIRE_GET, .length = 8999));
	part = conn->value_len;
	assert_in_range(part, 1, 8998);
	test_conn_complete(conn);
	account.bytes_full = UINT64_MAX / 2;
	assert_true(RECEIVE(conn, 1, "k", 0, .op = WIRE_GET, .offset = part));
	assert_int_equal(conn->response.status, WIRE_LIMIT);
	assert_true(RECEIVE(conn, 2, "k", 0, .op = WIRE_GET, .offset = part, .length = 1));
	assert_int_equal(conn->response.status, WIRE_LIMIT);
	assert_true(
		RECEIVE(conn, 3, "k", 0, .op = WIRE_GET, .offset = part, .length = 8999 - part));
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(conn->value_len, part);
}

/* PERMIT-4: a client that may not READ gets values as others do, in parts, but not their sums. */
static void values_by_request(void **state)
{
	static uint8_t value[9000];
	uint32_t at, part = TEST_BUFFER_BYTES - (uint32_t)sizeof(struct wire_response);

	(void)state;
	for (uint32_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(test_store_put(&test_store, "k", 1, value, sizeof(value), NULL), WIRE_OK);
	for (unsigned int by_request = 0; by_request < 2; by_request++) {
		conn->conn.query.by_request = by_request;
		for (at = 0; at < sizeof(value); at += part) {
			assert_true(RECEIVE(conn, 0, "k", 0, .op = WIRE_GET, .offset = at));
			assert_int_equal(conn->response.status, WIRE_OK);
			assert_int_equal(conn->response.flags, 0);
			assert_int_equal(conn->response.result, sizeof(value));
			assert_int_equal(conn->response.value_len, conn->value_len);
			assert_int_equal(!conn->response.value_sum, by_request);
			assert_int_equal(conn->value_len,
					 at + part < sizeof(value) ? part : sizeof(value) - at);
			assert_memory_equal(conn->value, value + at, conn->value_len);
			test_conn_complete(conn);
		}
		assert_true(RECEIVE(conn, 1, "k", 0, .op = WIRE_TOUCH, .flags = WIRE_F_VALUE));
		assert_int_equal(conn->value_len, part);
		assert_int_equal(!conn->response.value_sum, by_request);
		test_conn_complete(conn);
		assert_true(RECEIVE(conn, 2, "k", 0, .op = WIRE_GET, .flags = WIRE_F_NO_VALUE));
		assert_int_equal(conn->response.status, WIRE_OK);
		assert_int_equal(conn->response.result, sizeof(value));
		assert_int_equal(conn->value_len, 0);
		assert_int_equal(!conn->response.value_sum, by_request);
		test_conn_complete(conn);
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(reasons),	      CASE(rights),
		CASE(prefixes),	      CASE(limits),
		CASE(access_records), CASE(requests),
		CASE(pull),	      CASE(in_order),
		CASE(repeated),	      CASE(batches),
		CASE(bytes),	      CASE(values_by_request),
		CASE(parts),	      CASE(parts_of_a_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
