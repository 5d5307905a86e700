/* SPDX-License-Identifier: MIT */
/*
 * What a try to connect ends with: each event, and each reject. The welcome, which answers HELLO
 * and says where the server's memory is: each field just inside and just outside its range, taken
 * or refused as a whole; bad ones of the next connection; and the geometry that the superblock has
 * later, whose fields are checked as well.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/connect.h"
#include "client/libkvd/geometry.h"
#include "client/libkvd/rpc.h"
#include "common/sum.h"
#include "common/util/clock.h"
#include "tests/support/fake_server.h"

#define LEVEL 4

static struct fake_server *server;
static struct kvd *kvd;
static uint64_t key = 7;
static uint8_t found[32];

static int setup(void **state)
{
	(void)state;
	server = fake_server_open(LEVEL, 4, 0, 0, NULL);
	kvd = &server->kvd;
	fake_server_put(server, key, 20, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

/* A field of the welcome and what is in it; its geometry's sum is made to fit. */
struct change {
	const char *name;
	size_t offset, bytes;
	uint64_t value;
	const char *text; /* in kvd_error(); NULL: it is taken */
};

#define FIELD(field)                                                                               \
#field, offsetof(struct wire_welcome, field), sizeof(((struct wire_welcome *)0)->field)

static void change_apply(const struct change *change, struct wire_welcome *welcome)
{
	memcpy((uint8_t *)welcome + change->offset, &change->value, change->bytes);
	if (change->offset != offsetof(struct wire_welcome, geometry.sum))
		welcome->geometry.sum = geometry_sum(&welcome->geometry);
}

/* In the order in which a server lays its memory out, the index has 2^LEVEL buckets. */
static const struct change changes[] = {
	{ FIELD(magic), 0, "does not speak kvd's protocol" },
	{ FIELD(magic), WIRE_MAGIC + 1, "does not speak kvd's protocol" },
	{ FIELD(abi), WIRE_ABI - 1, "protocol" },
	{ FIELD(abi), WIRE_ABI + 1, "protocol" },
	{ FIELD(window), 0, "window out of range" },
	{ FIELD(window), 1, NULL },
	{ FIELD(window), WIRE_WINDOW_MAX, NULL },
	{ FIELD(window), WIRE_WINDOW_MAX + 1, "window out of range" },
	{ FIELD(window), UINT32_MAX, "window out of range" },
	{ FIELD(request_bytes), 0, "request size out of range" },
	{ FIELD(request_bytes), WIRE_REQUEST_MIN - 1, "request size out of range" },
	{ FIELD(request_bytes), WIRE_REQUEST_MIN, NULL },
	{ FIELD(request_bytes), WIRE_RESPONSE_MAX, NULL },
	{ FIELD(request_bytes), WIRE_RESPONSE_MAX + 1, "request size out of range" },
	{ FIELD(extents), 0, "number of extents out of range" },
	{ FIELD(extents), 2, "size of extents out of range" },
	{ FIELD(extents), EXTENTS_MAX + 1, "number of extents out of range" },
	{ FIELD(extent_bytes), 0, "size of extents out of range" },
	{ FIELD(extent_bytes), FAKE_SERVER_REGION_BYTES / EXTENTS_MAX, NULL },
	{ FIELD(extent_bytes), FAKE_SERVER_REGION_BYTES / EXTENTS_MAX - 1,
	  "size of extents out of range" },
	{ FIELD(extent_bytes), FAKE_SERVER_REGION_BYTES / EXTENTS_MAX - BUCKET_BYTES,
	  "size of extents out of range" },
	{ FIELD(extent_bytes), FAKE_SERVER_REGION_BYTES + BUCKET_BYTES,
	  "size of extents out of range" },
	{ FIELD(access_rate), WIRE_ACCESS_RATE_MAX, NULL },
	{ FIELD(access_rate), WIRE_ACCESS_RATE_MAX + 1, "access rate out of range" },
	{ FIELD(by_request), 1, NULL },
	{ FIELD(by_request), 2, "fields that the protocol does not have" },
	{ FIELD(reserved), 1, "fields that the protocol does not have" },
	{ FIELD(identity_known), 1, NULL },
	{ FIELD(identity_known), 2, "a change that was never sent" },
	{ FIELD(change_last), 1, "a change that was never sent" },
	{ FIELD(change_last), UINT64_MAX, "a change that was never sent" },
	{ FIELD(geometry.sum), 1, "sum" },
	{ FIELD(geometry.region_bytes), 0, "region size" },
	{ FIELD(geometry.region_bytes), sizeof(struct superblock) + REGION_PAD - 1, "region size" },
	{ FIELD(geometry.region_bytes), REGION_BYTES_MAX, NULL },
	{ FIELD(geometry.region_bytes), REGION_BYTES_MAX + 1, "region size" },
	{ FIELD(geometry.value_max), VALUE_MAX, NULL },
	{ FIELD(geometry.value_max), VALUE_MAX + 1ull, "max_value" },
	{ FIELD(geometry.level), 33, "index level" },
	{ FIELD(geometry.level), LEVEL - 1, "index level" },
	{ FIELD(geometry.level_base), LEVEL + 1, "index level" },
	{ FIELD(geometry.split), (1u << LEVEL) - 1, NULL },
	{ FIELD(geometry.split), 1u << LEVEL, "index level" },
	{ FIELD(geometry.segments[0]), 0, "in the superblock" },
	{ FIELD(geometry.segments[0]), sizeof(struct superblock) - BUCKET_BYTES, "in the super" },
	{ FIELD(geometry.segments[0]), sizeof(struct superblock) + 8, "misaligned" },
	{ FIELD(geometry.segments[0]), FAKE_SERVER_REGION_BYTES - (BUCKET_BYTES << LEVEL), NULL },
	{ FIELD(geometry.segments[0]),
	  FAKE_SERVER_REGION_BYTES - (BUCKET_BYTES << LEVEL) + BUCKET_BYTES, "leaves the region" },
	{ FIELD(geometry.segments[0]), 1ull << 63, "leaves the region" },
};

/* What is left of the handle by a welcome that it does not take: what it had. */
static void assert_refused(const struct change *change, const struct wire_welcome *welcome)
{
	const struct connection before = kvd->conn;
	const struct geometry geometry = kvd->geometry;
	enum kvd_status status = open_welcome(kvd, welcome);

	if (status != KVD_ERR_PROTOCOL || !strstr(kvd_error(kvd), change->text))
		fail_msg("%s %llx: %s: %s", change->name, (unsigned long long)change->value,
			 kvd_status_text(status), kvd_error(kvd));
	assert_true(kvd->conn.broken);
	assert_int_equal(kvd->conn.window, before.window);
	assert_int_equal(kvd->conn.request_bytes, before.request_bytes);
	assert_true(kvd->conn.region_addr == before.region_addr);
	assert_int_equal(kvd->conn.rkeys[0], before.rkeys[0]);
	assert_memory_equal(&kvd->geometry, &geometry, sizeof(geometry));
}

static void assert_taken(const struct change *change, const struct wire_welcome *welcome)
{
	enum kvd_status status = open_welcome(kvd, welcome);
	struct kvd_info info;

	window_posted(&kvd->conn, clock_raw_ns());

	if (status)
		fail_msg("%s %llx: %s: %s", change->name, (unsigned long long)change->value,
			 kvd_status_text(status), kvd_error(kvd));
	kvd_info(kvd, &info);
	assert_int_equal(info.window, welcome->window);
	assert_int_equal(info.request_bytes, welcome->request_bytes);
	assert_true(info.value_max == welcome->geometry.value_max);
	assert_true(info.region_bytes == welcome->geometry.region_bytes);
	assert_true(info.incarnation == welcome->geometry.incarnation);
	assert_true(info.buckets == geometry_buckets(&welcome->geometry));
	assert_true(kvd->conn.region_addr == welcome->region_addr);
	assert_int_equal(kvd->conn.rkeys[0], welcome->by_request ? 0 : welcome->rkeys[0]);
}

static void each_field(void **state)
{
	const struct change *change;
	struct wire_welcome welcome;

	for (change = changes; change < changes + sizeof(changes) / sizeof(changes[0]); change++) {
		if (change > changes && teardown(state) + setup(state))
			fail();
		welcome = server->welcome;
		welcome.magic = WIRE_MAGIC;
		welcome.abi = WIRE_ABI;
		welcome.window = 3;
		welcome.request_bytes = WIRE_REQUEST_MIN;
		welcome.region_addr = (uintptr_t)server->region + 64;
		welcome.extents = 1;
		welcome.rkeys[0] = 99;
		welcome.geometry = server->geometry;
		welcome.geometry.incarnation++;
		welcome.extent_bytes = server->geometry.region_bytes;
		change_apply(change, &welcome);
		if (change->offset == offsetof(struct wire_welcome, geometry.region_bytes))
			welcome.extent_bytes = change->value;
		if (change->text)
			assert_refused(change, &welcome);
		else
			assert_taken(change, &welcome);
	}
}

/* Another handle of the process was told something else by the same start of the server. */
static void what_another_handle_was_told(void **state)
{
	struct wire_welcome welcome = server->welcome;

	(void)state;
	welcome.geometry = server->geometry;
	welcome.geometry.hash_seed++;
	welcome.geometry.sum = geometry_sum(&welcome.geometry);
	assert_int_equal(open_welcome(kvd, &welcome), KVD_ERR_PROTOCOL);
	assert_non_null(strstr(kvd_error(kvd), "another handle"));
}

static const struct change *greeting;
static int longer; /* by how much the welcome is longer */

static void greet(struct fake_server *p, struct wire_welcome *welcome)
{
	(void)p;
	change_apply(greeting, welcome);
}

static void respond_length(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	if (response->op == WIRE_HELLO)
		response->value_len += (uint32_t)longer;
}

static void accept_try(struct fake_device *fake)
{
	fake_device_event(fake, CM_ESTABLISHED, 0);
}

/* A connection with such a welcome is not used; the handle goes on trying, and takes the next. */
static void assert_next_connection_refused(const char *text)
{
	struct wire_welcome good = server->welcome;

	server->welcome.geometry = server->geometry;
	kvd->options.reconnect = 1;
	server->fake.connect = accept_try;
	fake_device_lose(&server->fake);
	assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
	while (!kvd->reconnect.tries)
		kvd_poll(kvd, NULL, 0);
	kvd->reconnect.next_ns = UINT64_MAX; /* no other try */
	kvd->options.timeout_ms = 1;
	assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
	assert_int_equal(server->hellos, 1);
	assert_int_equal(kvd->reconnect.status, KVD_ERR_PROTOCOL);
	assert_non_null(strstr(kvd->reconnect.why, text));
	assert_int_equal(server->pings, 0);
	server->greet = NULL;
	server->before_response = NULL;
	server->welcome = good;
	kvd->reconnect.next_ns = 0; /* the pause is over */
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(kvd_get(kvd, &key, 8, found, sizeof(found), NULL), KVD_OK);
	assert_int_equal(server->hellos, 2);
}

static void the_next_connection(void **state)
{
	static const struct change bad[] = {
		{ FIELD(window), WIRE_WINDOW_MAX + 1, "window out of range" },
		{ FIELD(window), 0, "window out of range" },
		{ FIELD(request_bytes), 0, "request size" },
		{ FIELD(reserved), 1, "fields" },
		{ FIELD(abi), WIRE_ABI + 1, "protocol" },
	};

	for (greeting = bad; greeting < bad + sizeof(bad) / sizeof(bad[0]); greeting++) {
		if (greeting > bad && teardown(state) + setup(state))
			fail();
		server->greet = greet;
		assert_next_connection_refused(greeting->text);
	}
	for (longer = -8; longer <= 8; longer += 16) {
		if (teardown(state) + setup(state))
			fail();
		server->before_response = respond_length;
		assert_next_connection_refused("welcome of ");
	}
}

/* One field of the superblock's geometry after the index has grown; its sum fits. */
static const struct change grown[] = {
	{ FIELD(geometry.incarnation), 1, NULL },
	{ FIELD(geometry.region_bytes), FAKE_SERVER_REGION_BYTES + REGION_PAD, NULL },
	{ FIELD(geometry.region_bytes), REGION_BYTES_MAX + 1, NULL },
	{ FIELD(geometry.hash_seed), 1, NULL },
	{ FIELD(geometry.value_max), 5, NULL },
	{ FIELD(geometry.level_base), LEVEL - 1, NULL },
	{ FIELD(geometry.level), LEVEL - 1, NULL },
	{ FIELD(geometry.level), 33, NULL },
	{ FIELD(geometry.split), 1u << LEVEL, NULL },
	{ FIELD(geometry.segments[0]), 64, NULL },
	{ FIELD(geometry.segments[1]), FAKE_SERVER_REGION_BYTES, NULL },
	{ FIELD(geometry.sum), 1, NULL },
};

/* READs the superblock's geometry, as the client does when it meets a bucket that was split. */
static void refresh(void)
{
	geometry_read(kvd);
	while (kvd->geometry_flight.place != PLACE_NONE) {
		kvd->attention = true;
		assert_int_equal(kvd_ping(kvd), KVD_OK);
	}
}

/* The client goes on with the superblock that it has. */
static void a_superblock_that_lies(void **state)
{
	struct superblock *super;
	struct wire_welcome read;
	struct geometry before;
	const struct change *lie;

	for (lie = grown; lie < grown + sizeof(grown) / sizeof(grown[0]); lie++) {
		if (lie > grown && teardown(state) + setup(state))
			fail();
		super = (struct superblock *)(void *)server->region;
		before = kvd->geometry;
		fake_server_split(server, 3);
		read.geometry = server->geometry;
		change_apply(lie, &read);
		super->geometry = read.geometry;
		refresh();
		assert_true(kvd->stats.geometry_reads > 0);
		if (memcmp(&kvd->geometry, &before, sizeof(before)))
			fail_msg("%s %llx was taken", lie->name, (unsigned long long)lie->value);
		/* The true one is. */
		fake_server_publish(server);
		refresh();
		assert_memory_equal(&kvd->geometry, &server->geometry, sizeof(before));
	}
}

/* What the device says of a try, and what it is to the caller: the statuses of kvd_open(). */
static const struct end {
	enum cm_event_type type;
	int err;
	enum kvd_status status;
	const char *text;
} ends[] = {
	{ CM_UNREACHABLE, -ECONNREFUSED, KVD_ERR_UNREACHABLE, "nobody listens" },
	{ CM_UNREACHABLE, -EHOSTUNREACH, KVD_ERR_UNREACHABLE, "can't connect" },
	{ CM_UNREACHABLE, -ENETUNREACH, KVD_ERR_UNREACHABLE, "can't connect" },
	{ CM_UNREACHABLE, -EXDEV, KVD_ERR_DEVICE, "uses another one now" },
	{ CM_UNREACHABLE, -ETIMEDOUT, KVD_ERR_TIMEOUT, "no response" },
	{ CM_UNREACHABLE, -EACCES, KVD_ERR_REFUSED, "softnic.socket_mode" },
	{ CM_UNREACHABLE, -EPERM, KVD_ERR_REFUSED, "softnic.socket_mode" },
	{ CM_UNREACHABLE, -ENOMEM, KVD_ERR_NO_MEMORY, "can't connect" },
	{ CM_UNREACHABLE, -EMFILE, KVD_ERR_NO_MEMORY, "can't connect" },
	{ CM_UNREACHABLE, -ENFILE, KVD_ERR_NO_MEMORY, "can't connect" },
	{ CM_UNREACHABLE, -ENOBUFS, KVD_ERR_NO_MEMORY, "can't connect" },
	{ CM_UNREACHABLE, -ECONNRESET, KVD_ERR_DISCONNECTED, "closed the connection" },
	{ CM_UNREACHABLE, -EPIPE, KVD_ERR_DISCONNECTED, "closed the connection" },
	{ CM_UNREACHABLE, -EPROTO, KVD_ERR_PROTOCOL, "does not speak kvd's protocol" },
	{ CM_UNREACHABLE, -EPROTONOSUPPORT, KVD_ERR_PROTOCOL, "another version" },
	{ CM_DISCONNECTED, 0, KVD_ERR_DISCONNECTED, "closed the connection" },
	{ CM_DEVICE_REMOVED, 0, KVD_ERR_DEVICE, "was removed" },
};
static const struct end *end;

/* The private data of a reject. */
static const struct {
	struct wire_reject reject;
	size_t bytes;
	enum kvd_status status;
	const char *text;
} rejects[] = {
	{ { .magic = WIRE_MAGIC }, 0, KVD_ERR_PROTOCOL, "is it kvd?" },
	{ { .magic = WIRE_MAGIC, .abi = WIRE_ABI, .reason = 2, .text = "full" },
	  sizeof(struct wire_reject) - 1,
	  KVD_ERR_PROTOCOL,
	  "is it kvd?" },
	{ { .magic = WIRE_MAGIC + 1, .abi = WIRE_ABI, .reason = 2, .text = "full" },
	  sizeof(struct wire_reject),
	  KVD_ERR_PROTOCOL,
	  "is it kvd?" },
	{ { .magic = WIRE_MAGIC, .abi = WIRE_ABI, .reason = 2, .text = "it is full" },
	  sizeof(struct wire_reject),
	  KVD_ERR_REFUSED,
	  "it is full" },
	{ { .magic = WIRE_MAGIC, .abi = WIRE_ABI, .reason = 3, .text = "it is stopping" },
	  sizeof(struct wire_reject),
	  KVD_ERR_REFUSED,
	  "it is stopping" },
	{ { .magic = WIRE_MAGIC, .abi = WIRE_ABI, .reason = WIRE_REJECT_USER, .text = "who?" },
	  sizeof(struct wire_reject),
	  KVD_ERR_AUTH,
	  "who?" },
	{ { .magic = WIRE_MAGIC, .abi = WIRE_ABI, .reason = WIRE_REJECT_LIMIT, .text = "many" },
	  sizeof(struct wire_reject),
	  KVD_ERR_LIMIT,
	  "many" },
	{ { .magic = WIRE_MAGIC, .abi = WIRE_ABI + 1, .reason = WIRE_REJECT_VERSION },
	  sizeof(struct wire_reject),
	  KVD_ERR_PROTOCOL,
	  "protocol" },
	{ { .magic = WIRE_MAGIC, .abi = WIRE_ABI, .reason = WIRE_REJECT_VERSION, .text = "odd" },
	  sizeof(struct wire_reject),
	  KVD_ERR_PROTOCOL,
	  "odd" },
};
static size_t rejected;

static void end_try(struct fake_device *fake)
{
	fake_device_event(fake, end->type, end->err);
}

static void reject_try(struct fake_device *fake)
{
	fake_device_event(fake, CM_REJECTED, 0);
	memcpy(fake->events[0].private_data, &rejects[rejected].reject, sizeof(struct wire_reject));
	fake->events[0].private_len = (uint8_t)rejects[rejected].bytes;
}

/* One try, which ends so. The handle is not up, and the next try is as any. */
static void assert_try_ends(enum kvd_status status, const char *text)
{
	kvd->options.reconnect = 1;
	fake_device_lose(&server->fake);
	while (!kvd->reconnect.tries)
		assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
	if (kvd->reconnect.status != status || !strstr(kvd->reconnect.why, text))
		fail_msg("not %s, %s: %s: %s", kvd_status_text(status), text,
			 kvd_status_text(kvd->reconnect.status), kvd->reconnect.why);
	assert_false(kvd->up);
	assert_int_equal(kvd->reconnect.device_died, status == KVD_ERR_DEVICE);
	server->fake.connect = accept_try;
	kvd->reconnect.device_died = false; /* there is no other one here */
	kvd->reconnect.next_ns = 0;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

static void each_end_of_a_try(void **state)
{
	for (end = ends; end < ends + sizeof(ends) / sizeof(ends[0]); end++) {
		if (end > ends && teardown(state) + setup(state))
			fail();
		server->fake.connect = end_try;
		assert_try_ends(end->status, end->text);
	}
	for (rejected = 0; rejected < sizeof(rejects) / sizeof(rejects[0]); rejected++) {
		if (teardown(state) + setup(state))
			fail();
		server->fake.connect = reject_try;
		assert_try_ends(rejects[rejected].status, rejects[rejected].text);
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_end_of_a_try),
		CASE(each_field),
		CASE(what_another_handle_was_told),
		CASE(the_next_connection),
		CASE(a_superblock_that_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
