/* SPDX-License-Identifier: MIT */
/*
 * What the client's calls put into their messages and make of the responses: modes and conditions,
 * arithmetic, expiry times, scans, flushes; which arguments they refuse; and what they say when two
 * threads or processes use one handle.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/libkvd/read.h"
#include "tests/support/fake_server.h"

static struct fake_server *server;
static struct kvd *kvd;
static struct request sent;	  /* the last request */
static struct wire_response next; /* fields of the next response: status, version, ... */
static uint8_t body[1500];
static unsigned int busy; /* responses that say that the flush is not done yet */

static void note(struct fake_server *p, const struct request *request,
		 struct wire_response *response, uint8_t *value)
{
	(void)p;
	sent = *request;
	response->status = next.status;
	response->version = next.version;
	response->arg64 = next.arg64;
	response->slot = next.slot;
	response->arg32 = next.arg32;
	response->flags = next.flags;
	response->value_len = next.value_len;
	memcpy(value, body, next.value_len);
	if (((request->op == WIRE_FLUSH && request->ticket) || request->op == WIRE_REVOKE) &&
	    busy) {
		busy--;
		response->status = WIRE_BUSY;
	}
}

static int setup(void **state)
{
	(void)state;
	server = fake_server_open(2, 1, 0, 0, NULL);
	kvd = &server->kvd;
	server->respond = note;
	memset(&sent, 0, sizeof(sent));
	memset(&next, 0, sizeof(next));
	busy = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

static void modes_of_put(void **state)
{
	struct kvd_put_args args = { .flags = 5, .ttl_s = 60 };
	uint64_t version = 0, in_both_halves = 77ull << 40 | 3;

	(void)state;
	next.version = in_both_halves;
	for (int mode = KVD_PUT_SET; mode <= KVD_PUT_PREPEND; mode++) {
		args.mode = (enum kvd_put_mode)mode;
		args.if_version = mode == KVD_PUT_IF_VERSION ? 9ull << 50 | 5 : 0;
		if (mode >= KVD_PUT_APPEND)
			args.flags = args.ttl_s = 0;
		assert_int_equal(kvd_put(kvd, "key", 3, "value", 5, &args, &version), KVD_OK);
		assert_int_equal(sent.op, WIRE_PUT);
		assert_int_equal(sent.mode, mode);
		assert_true(sent.version == args.if_version);
		assert_int_equal(sent.ttl, args.ttl_s);
		assert_int_equal(sent.item_flags, args.flags);
		assert_true(version == in_both_halves);
	}
	next.status = WIRE_EXISTS;
	args = (struct kvd_put_args){ .mode = KVD_PUT_IF_ABSENT };
	assert_int_equal(kvd_put(kvd, "key", 3, "v", 1, &args, &version), KVD_ERR_EXISTS);
	assert_string_equal(kvd_error(kvd), "the key exists, with version 84662395338755; nothing "
					    "was changed");
	args = (struct kvd_put_args){ .mode = KVD_PUT_IF_VERSION, .if_version = 7 };
	next.version = 9;
	assert_int_equal(kvd_put(kvd, "key", 3, "v", 1, &args, &version), KVD_ERR_EXISTS);
	assert_string_equal(kvd_error(kvd), "the key has version 9, not 7; nothing was changed");
	assert_true(version == in_both_halves);
	/* What the server says of a user's rights, without what a terminal would obey. */
	next.status = WIRE_NOT_ALLOWED;
	memcpy(body, "user \x1b has no right 'write'", 28);
	next.value_len = 28;
	assert_int_equal(kvd_put(kvd, "key", 3, "v", 1, NULL, &version), KVD_ERR_NOT_ALLOWED);
	assert_string_equal(kvd_error(kvd),
			    "user ? has no right 'write' (users.file of the server)");
	next.value_len = 0;
	next.status = WIRE_NOT_FOUND;
	assert_int_equal(kvd_put(kvd, "key", 3, "v", 1, NULL, &version), KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.puts, 10);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

/* A value too long for a message is pulled in every mode. */
static void modes_and_pulls(void **state)
{
	static const uint8_t value[5000];
	struct kvd_put_args args = { .mode = KVD_PUT_APPEND };

	(void)state;
	assert_int_equal(kvd_put(kvd, "key", 3, value, sizeof(value), &args, NULL), KVD_OK);
	assert_int_equal(sent.mode, WIRE_APPEND);
	assert_int_equal(sent.flags, WIRE_F_PULL);
	assert_int_equal(sent.value_len, 5000);
}

static uint8_t long_value[300001];
static uint64_t fill_next;	  /* where the next part begins */
static unsigned int fills, early; /* calls; of those, before the request */

/* All in front of what is left is there, what is left is not, and nothing is left out. */
static void fill(struct fake_device *fake, uint64_t addr, uint32_t left)
{
	const uint64_t begin = addr + left - sizeof(long_value);

	(void)fake;
	early += !sent.op;
	assert_true(!fills++ || addr > fill_next);
	fill_next = addr;
	assert_memory_equal((const void *)(uintptr_t)begin, long_value, addr - begin);
	assert_true(!left ||
		    memcmp((const void *)(uintptr_t)addr, long_value + (addr - begin), left) != 0);
	assert_true(!sent.op || sent.pull_addr == begin);
}

/*
 * Where the server waits, a long value is copied when the request was sent, and ends with the last
 * byte; a shorter one before.
 */
static void copied_while_it_is_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(long_value); i++)
		long_value[i] = (uint8_t)(i * 13 + (i >> 9));
	fills = early = 0;
	server->fake.fill = fill;
	assert_int_equal(kvd_put(kvd, "key", 3, long_value, sizeof(long_value), NULL, NULL),
			 KVD_OK);
	assert_int_equal(early, 1);
	assert_true(fills > 3);
	assert_true(fill_next == sent.pull_addr + sizeof(long_value));
	fills = 0;
	assert_int_equal(kvd_put(kvd, "key", 3, long_value, 60000, NULL, NULL), KVD_OK);
	assert_int_equal(fills, 0);
	assert_memory_equal((const void *)(uintptr_t)sent.pull_addr, long_value, 60000);
}

static int no_entry(void *arg, const struct kvd_entry *entry)
{
	(void)arg, (void)entry;
	fail();
	return 0;
}

static void answer_held(struct fake_device *fake)
{
	(void)fake;
	if (server->queued)
		fake_server_answer(server, 1);
}

/*
 * A response that comes right before the device takes the request for a notification causes none:
 * the call finds it before it sleeps.
 */
static void a_response_before_the_sleep(void **state)
{
	(void)state;
	kvd->options.spin_us = 0;
	server->hold_all = true;
	server->fake.before_notify = answer_held;
	for (int i = 0; i < 10; i++)
		assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(kvd->stats.sleeps, 0);
}

/* The numbers of messages begin anew at 1: no id is 0, and all are answered. */
static void message_numbers_wrap(void **state)
{
	const uint32_t last = UINT32_MAX / MESSAGES_MAX;

	(void)state;
	for (uint32_t from = 2; from <= 4; from++) {
		kvd->conn.number = last - from;
		for (int i = 0; i < 8; i++) {
			assert_int_equal(kvd_ping(kvd), KVD_OK);
			assert_in_range(kvd->conn.number, 1, last);
		}
		assert_in_range(kvd->conn.number, 4, 6);
		assert_int_equal(kvd_put(kvd, "key", 3, "v", 1, NULL, NULL), KVD_OK);
	}
}

/* Scans and lists hold the response until the next call: none of them costs a receive buffer. */
static void held_responses_come_back(void **state)
{
	uint64_t cursor = 0;
	char text[100];

	(void)state;
	for (unsigned int i = 0; i < 3 * MESSAGES_MAX; i++) {
		assert_int_equal(kvd_server_stats(kvd, text, sizeof(text), NULL), KVD_OK);
		assert_int_equal(kvd_client_list(kvd, text, sizeof(text), NULL), KVD_OK);
		assert_int_equal(kvd_scan(kvd, &cursor, NULL, no_entry, NULL), KVD_OK);
		if (i % 3)
			assert_int_equal(kvd_ping(kvd), KVD_OK);
		assert_int_equal(kvd->conn.recv_free_count + kvd->conn.receives + kvd->conn.held,
				 MESSAGES_CHUNK);
	}
	assert_int_equal(kvd->conn.message_count, MESSAGES_CHUNK);
}

/*
 * On softnic a call polls while it serves the READs of its value, for 1 ms a megabyte; this value
 * takes 20 of spin_us.
 */
static void polls_while_it_serves(void **state)
{
	static const uint8_t value[1 << 20];
	uint64_t sleeps = 1, before;
	unsigned int tries;

	(void)state;
	kvd->options.spin_us = 1;
	server->late_ns = 200000;
	/* More than once only if another program takes the CPU for longer. */
	for (tries = 0; sleeps && tries < 5; tries++) {
		before = kvd->stats.sleeps;
		assert_int_equal(kvd_put(kvd, "key", 3, value, sizeof(value), NULL, NULL), KVD_OK);
		sleeps = kvd->stats.sleeps - before;
	}
	assert_int_equal(sleeps, 0);
	/* A small one sleeps, unless the answer has come while another program had the CPU. */
	before = kvd->stats.sleeps;
	for (tries = 0; kvd->stats.sleeps == before && tries < 50; tries++)
		assert_int_equal(kvd_put(kvd, "key", 3, value, 1, NULL, NULL), KVD_OK);
	assert_true(kvd->stats.sleeps > before);
}

static void arguments_of_put(void **state)
{
	struct kvd_put_args args = { .mode = (enum kvd_put_mode)6 };

	(void)state;
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	args = (struct kvd_put_args){ .mode = KVD_PUT_APPEND, .flags = 1 };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	args = (struct kvd_put_args){ .mode = KVD_PUT_PREPEND, .ttl_s = 1 };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	args = (struct kvd_put_args){ .if_version = 1 };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	args = (struct kvd_put_args){ .mode = KVD_PUT_IF_VERSION, .if_version = 1, .pin_s = 1 };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	args = (struct kvd_put_args){ .mode = KVD_PUT_APPEND, .pin_s = 1 };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	args = (struct kvd_put_args){ .mode = KVD_PUT_PREPEND, .priority = KVD_PRIORITY_LOW };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	args = (struct kvd_put_args){ .priority = (enum kvd_priority)2 };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	args = (struct kvd_put_args){ .pin_s = KVD_TTL_MAX + 1 };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	args = (struct kvd_put_args){ .ttl_s = KVD_TTL_MAX + 1 };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	assert_int_equal(server->requests, 0);
	args.ttl_s = KVD_TTL_MAX;
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_OK);
}

/* What a PUT says of pin and priority, and what the two refusals of a pin become. */
static void pins_and_priorities(void **state)
{
	struct kvd_put_args args = { .pin_s = KVD_TTL_MAX };

	(void)state;
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_OK);
	assert_int_equal(sent.flags, WIRE_F_PIN);
	assert_int_equal(sent.pin, KVD_TTL_MAX);
	args = (struct kvd_put_args){ .mode = KVD_PUT_IF_VERSION,
				      .if_version = 9,
				      .priority = KVD_PRIORITY_LOW };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_OK);
	assert_int_equal(sent.flags, WIRE_F_LOW);
	assert_int_equal(sent.version, 9);
	args = (struct kvd_put_args){ .pin_s = 1, .priority = KVD_PRIORITY_LOW };
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_OK);
	assert_int_equal(sent.flags, WIRE_F_PIN | WIRE_F_LOW);
	next.status = WIRE_BUSY;
	next.flags = WIRE_R_PINS;
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(kvd), "memory.pin_share"));
	next.flags = 0;
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_BUSY);
	assert_null(strstr(kvd_error(kvd), "memory.pin_share"));
	next.status = WIRE_INVALID;
	assert_int_equal(kvd_put(kvd, "k", 1, "v", 1, &args, NULL), KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(kvd), "memory.pin_time_max"));
	next.status = WIRE_OK;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

static void deletes(void **state)
{
	static const uint64_t versions[] = { 0, 1, 42, UINT32_MAX, 1ull << 32, UINT64_MAX };

	(void)state;
	assert_int_equal(kvd_delete(kvd, "key", 3), KVD_OK);
	assert_int_equal(sent.flags, 0);
	/* A version that no item has is no less a condition. */
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		assert_int_equal(kvd_delete_if(kvd, "key", 3, versions[i]), KVD_OK);
		assert_int_equal(sent.op, WIRE_DELETE);
		assert_int_equal(sent.flags, WIRE_F_IF_VERSION);
		assert_true(sent.version == versions[i]);
	}
	next.status = WIRE_EXISTS;
	assert_int_equal(kvd_delete_if(kvd, "key", 3, 42), KVD_ERR_EXISTS);
	assert_string_equal(kvd_error(kvd),
			    "the key does not have version 42; nothing was changed");
	assert_int_equal(kvd_delete_if(kvd, "key", 0, 42), KVD_ERR_INVALID);
	assert_int_equal(kvd->stats.deletes, 2 + sizeof(versions) / sizeof(versions[0]));
}

static void arithmetic(void **state)
{
	struct kvd_arith_args args = { .create = 1, .flags = 3, .ttl_s = 9, .initial = ~0ull };
	uint64_t number = 0, version = 0;

	(void)state;
	next.result = 1234;
	next.version = 5;
	assert_int_equal(kvd_incr(kvd, "key", 3, 7, NULL, &number, &version), KVD_OK);
	assert_int_equal(sent.op, WIRE_ARITH);
	assert_int_equal(sent.mode, WIRE_INCR);
	assert_int_equal(sent.delta, 7);
	assert_int_equal(sent.flags, 0);
	assert_true(number == 1234 && version == 5);
	assert_int_equal(kvd_decr(kvd, "key", 3, ~0ull, &args, NULL, NULL), KVD_OK);
	assert_int_equal(sent.mode, WIRE_DECR);
	assert_true(sent.delta == ~0ull && sent.initial == ~0ull);
	assert_int_equal(sent.flags, WIRE_F_CREATE);
	assert_int_equal(sent.ttl, 9);
	assert_int_equal(sent.item_flags, 3);
	next.status = WIRE_NOT_A_NUMBER;
	assert_int_equal(kvd_incr(kvd, "key", 3, 7, NULL, NULL, NULL), KVD_ERR_NOT_A_NUMBER);
	args.create = 0;
	assert_int_equal(kvd_incr(kvd, "key", 3, 7, &args, NULL, NULL), KVD_ERR_INVALID);
	args = (struct kvd_arith_args){ .create = 1, .ttl_s = ~0u };
	assert_int_equal(kvd_incr(kvd, "key", 3, 7, &args, NULL, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_incr(kvd, NULL, 3, 7, NULL, NULL, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd->stats.puts, 3);
}

static void touches(void **state)
{
	struct kvd_item item = { 0 };
	uint64_t version = 0, key = 4;
	char value[32];

	(void)state;
	next.version = 8;
	assert_int_equal(kvd_touch(kvd, "key", 3, 100, &version), KVD_OK);
	assert_int_equal(sent.op, WIRE_TOUCH);
	assert_int_equal(sent.ttl, 100);
	assert_int_equal(version, 8);
	assert_int_equal(kvd_touch(kvd, "key", 3, KVD_TTL_MAX + 1, NULL), KVD_ERR_INVALID);
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 9);
	assert_int_equal(kvd_get_and_touch(kvd, &key, 8, 5, value, sizeof(value), &item), KVD_OK);
	assert_int_equal(item.expires_s, FAKE_SERVER_CLOCK_S + 9);
	assert_int_equal(item.value_len, 20);
	assert_int_equal(kvd_get_by_request(kvd, &key, 8, value, 19, &item), KVD_ERR_BUFFER);
	assert_int_equal(kvd_get_by_request(kvd, "12345678", 8, value, 19, &item), KVD_NOT_FOUND);
	assert_int_equal(kvd_get_by_request(kvd, "", 0, value, 19, &item), KVD_ERR_INVALID);
	assert_int_equal(kvd_get_and_touch(kvd, &key, 8, ~0u, value, 19, &item), KVD_ERR_INVALID);
	assert_int_equal(kvd->stats.gets, 3);
	assert_int_equal(kvd->stats.hits, 2);
	assert_int_equal(kvd->stats.misses, 1);
	assert_int_equal(kvd->stats.reads, 0);
}

/* Appends an entry to the next response. */
static void entry_add(const char *key, uint32_t value_len, bool with_bytes)
{
	struct wire_entry entry = {
		.version = 1 + next.entries,
		.value_len = value_len,
		.value_sent = with_bytes ? value_len : 0,
		.item_flags = 6,
		.expires = 7,
		.key_len = (uint16_t)strlen(key),
	};

	memcpy(body + next.value_len, &entry, sizeof(entry));
	next.value_len += (uint32_t)sizeof(entry);
	memcpy(body + next.value_len, key, entry.key_len);
	next.value_len += entry.key_len;
	memset(body + next.value_len, 'v', entry.value_sent);
	next.value_len += entry.value_sent;
	next.entries++;
}

static char names[256];
static unsigned int with_value;
static int stop_at;

static int collect(void *arg, const struct kvd_entry *entry)
{
	strncat(names, entry->key, entry->key_len);
	strcat(names, " ");
	with_value += entry->value != NULL;
	if (entry->value && entry->item.value_len)
		assert_int_equal(((const char *)entry->value)[entry->item.value_len - 1], 'v');
	assert_int_equal(entry->item.flags, 6);
	assert_int_equal(entry->item.expires_s, 7);
	assert_ptr_equal(arg, &stop_at);
	return stop_at && --stop_at == 0;
}

static void scans(void **state)
{
	struct kvd_scan_args args = { .prefix = "a", .prefix_len = 1, .count = 9, .values = 1 };
	uint64_t cursor = 0;

	(void)state;
	names[0] = '\0';
	with_value = 0;
	stop_at = 0;
	entry_add("abc", 10, true);
	entry_add("abd", 100000, false);
	entry_add("a", 0, true);
	next.cursor = 555;
	assert_int_equal(kvd_scan(kvd, &cursor, &args, collect, &stop_at), KVD_OK);
	assert_int_equal(sent.op, WIRE_SCAN);
	assert_int_equal(sent.key_len, 1);
	assert_int_equal(sent.keys_max, 9);
	assert_int_equal(sent.flags, WIRE_F_VALUES);
	assert_true(sent.cursor == 0);
	assert_string_equal(names, "abc abd a ");
	assert_int_equal(with_value, 2);
	assert_true(cursor == 555);
	/* Without values: none, not even an empty one. */
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, collect, &stop_at), KVD_OK);
	assert_int_equal(with_value, 2);
	assert_true(sent.cursor == 555);
	assert_int_equal(sent.flags, 0);
	/* Stopped: the cursor is unchanged. */
	names[0] = '\0';
	stop_at = 2;
	next.cursor = 0;
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, collect, &stop_at), KVD_OK);
	assert_string_equal(names, "abc abd ");
	assert_true(cursor == 555);
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, collect, &stop_at), KVD_OK);
	assert_true(cursor == 0);
	/* Nothing delivered, but not complete. */
	next.value_len = next.entries = 0;
	next.cursor = 3;
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, collect, &stop_at), KVD_OK);
	assert_true(cursor == 3);
	assert_true(kvd_latency_ns(kvd, KVD_OP_SCAN, 0.5) > 0);
}

static void use_set(unsigned int at, uint16_t use, uint16_t uses, uint16_t age)
{
	struct wire_entry entry;

	memcpy(&entry, body + at, sizeof(entry));
	entry.use = use;
	entry.uses = uses;
	entry.age = age;
	memcpy(body + at, &entry, sizeof(entry));
}

static int collect_uses(void *arg, const struct kvd_used *used)
{
	char line[64];

	snprintf(line, sizeof(line), "%.*s %u %u %u, ", (int)used->key_len, (const char *)used->key,
		 used->use, used->uses, used->age);
	strcat(names, line);
	assert_int_equal(used->item.flags, 6);
	assert_int_equal(used->item.expires_s, 7);
	assert_int_equal(used->item.value_len, 10);
	assert_ptr_equal(arg, &stop_at);
	return stop_at && --stop_at == 0;
}

static void scans_of_uses(void **state)
{
	struct kvd_scan_args args = { .prefix = "a", .prefix_len = 1, .count = 9 };
	uint32_t second = sizeof(struct wire_entry) + 3;
	uint64_t cursor = 0;

	(void)state;
	names[0] = '\0';
	stop_at = 0;
	kvd->access.rate = 1;
	entry_add("abc", 10, false);
	entry_add("abd", 10, false);
	use_set(0, WIRE_USE_NORMAL, 127, 192);
	use_set(second, WIRE_USE_PINNED, 0, 0);
	next.cursor = 555;
	assert_int_equal(kvd_scan_uses(kvd, &cursor, &args, collect_uses, &stop_at), KVD_OK);
	assert_int_equal(sent.op, WIRE_SCAN);
	assert_int_equal(sent.flags, WIRE_F_USES);
	assert_int_equal(sent.key_len, 1);
	assert_int_equal(sent.keys_max, 9);
	assert_string_equal(names, "abc 1 127 150, abd 3 0 0, ");
	assert_true(cursor == 555);
	/* The scan reports no hit. */
	assert_int_equal(kvd->access.count, 0);
	names[0] = '\0';
	stop_at = 1;
	next.cursor = 0;
	assert_int_equal(kvd_scan_uses(kvd, &cursor, NULL, collect_uses, &stop_at), KVD_OK);
	assert_string_equal(names, "abc 1 127 150, ");
	assert_true(cursor == 555);
	args.values = 1;
	assert_int_equal(kvd_scan_uses(kvd, &cursor, &args, collect_uses, &stop_at),
			 KVD_ERR_INVALID);
	/* One of them without a use: nothing is delivered. */
	names[0] = '\0';
	use_set(second, WIRE_USE_NONE, 0, 0);
	assert_int_equal(kvd_scan_uses(kvd, &cursor, NULL, collect_uses, &stop_at),
			 KVD_ERR_PROTOCOL);
	assert_string_equal(names, "");
}

/* And one with a use that was not asked for. */
static void a_scan_with_uses(void **state)
{
	uint64_t cursor = 0;

	(void)state;
	names[0] = '\0';
	entry_add("abc", 10, true);
	use_set(0, WIRE_USE_LOW, 0, 3);
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, collect, &stop_at), KVD_ERR_PROTOCOL);
	assert_string_equal(names, "");
}

/* A server that keeps no uses is not asked: an older one would end the connection. */
static void a_server_that_tells_no_uses(void **state)
{
	uint64_t cursor = 0;

	(void)state;
	kvd->access.rate = 0;
	assert_int_equal(kvd_scan_uses(kvd, &cursor, NULL, collect_uses, &stop_at),
			 KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(kvd), "memory.eviction = object-hits"));
	assert_int_equal(server->requests, 0);
}

static void arguments_of_scan(void **state)
{
	struct kvd_scan_args args = { .prefix_len = 1 };
	uint64_t cursor = 0;

	(void)state;
	assert_int_equal(kvd_scan(kvd, NULL, NULL, collect, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, NULL, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_scan(kvd, &cursor, &args, collect, NULL), KVD_ERR_INVALID);
	args = (struct kvd_scan_args){ .prefix = body, .prefix_len = KVD_KEY_MAX + 1 };
	assert_int_equal(kvd_scan(kvd, &cursor, &args, collect, NULL), KVD_ERR_INVALID);
	assert_int_equal(server->requests, 0);
}

/* A message with an error anywhere: none of it is delivered. */
static void a_malformed_scan(void **state)
{
	uint64_t cursor = 0;

	(void)state;
	names[0] = '\0';
	entry_add("abc", 10, true);
	entry_add("abd", 10, true);
	next.value_len--;
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, collect, &stop_at), KVD_ERR_PROTOCOL);
	assert_string_equal(names, "");
	assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
}

static void a_scan_with_a_wrong_count(void **state)
{
	uint64_t cursor = 0;

	(void)state;
	names[0] = '\0';
	entry_add("abc", 10, true);
	next.entries = 2;
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, collect, &stop_at), KVD_ERR_PROTOCOL);
	assert_string_equal(names, "");
}

static void list_of_clients(void **state)
{
	char text[200];
	size_t len = 0;

	(void)state;
	next.value_len = 5;
	memcpy(body, "id=1\n", 5);
	assert_int_equal(kvd_client_list(kvd, text, sizeof(text), &len), KVD_OK);
	assert_int_equal(sent.op, WIRE_CLIENTS);
	assert_true(sent.cursor == 0 && len == 5);
	assert_string_equal(text, "id=1\n");
	assert_int_equal(kvd_client_list(kvd, text, 5, NULL), KVD_ERR_BUFFER);
	assert_int_equal(kvd_client_list(kvd, NULL, 5, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_client_list(kvd, text, 0, NULL), KVD_ERR_INVALID);
	next.status = WIRE_BUSY;
	next.value_len = 0;
	assert_int_equal(kvd_client_list(kvd, text, sizeof(text), NULL), KVD_ERR_BUSY);
	/* A list that does not get on would never end. */
	next.status = WIRE_OK;
	next.cursor = 7;
	assert_int_equal(kvd_client_list(kvd, text, sizeof(text), NULL), KVD_ERR_PROTOCOL);
	assert_int_equal(sent.cursor, 7);
}

static unsigned int pages, page_requests;

/* A text of three pages; each request for a later page is refused, but the busy-th. */
static void respond_pages(struct fake_server *p, const struct request *request,
			  struct wire_response *response, uint8_t *value)
{
	uint64_t page = request->op == WIRE_STATS ? request->first_line : request->cursor;

	(void)p;
	if (busy && (page ? page_requests++ % busy != busy - 1 : busy == ~0u)) {
		response->status = WIRE_BUSY;
		return;
	}
	pages++;
	response->value_len = 2;
	memcpy(value, "a\n", 2);
	value[0] = (uint8_t)('a' + page);
	if (page == 2)
		return;
	if (request->op == WIRE_STATS)
		response->next_line = (uint32_t)page + 1;
	else
		response->cursor = page + 1;
}

/* What a server that limits the connection refuses of a text is asked for again. */
static void pages_that_are_refused(void **state)
{
	char text[200];

	(void)state;
	server->respond = respond_pages;
	pages = page_requests = 0;
	busy = 3;
	assert_int_equal(kvd_server_stats(kvd, text, sizeof(text), NULL), KVD_OK);
	assert_string_equal(text, "a\nb\nc\n");
	assert_int_equal(kvd_client_list(kvd, text, sizeof(text), NULL), KVD_OK);
	assert_string_equal(text, "a\nb\nc\n");
	assert_int_equal(pages, 6);
	assert_int_equal(page_requests, 12);
	/* The first page is the caller's to ask for again, and none is for ever. */
	kvd->options.timeout_ms = 5;
	pages = 0;
	busy = ~0u;
	assert_int_equal(kvd_client_list(kvd, text, sizeof(text), NULL), KVD_ERR_BUSY);
	assert_int_equal(pages, 0);
	busy = 1u << 30;
	assert_int_equal(kvd_client_list(kvd, text, sizeof(text), NULL), KVD_ERR_BUSY);
	assert_int_equal(pages, 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

static void kills(void **state)
{
	(void)state;
	assert_int_equal(kvd_client_kill(kvd, ~0ull), KVD_OK);
	assert_int_equal(sent.op, WIRE_KILL);
	assert_true(sent.client == ~0ull);
	next.status = WIRE_NOT_FOUND;
	assert_int_equal(kvd_client_kill(kvd, 5), KVD_NOT_FOUND);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

/* Names and sizes, and what the server says where it refuses. */
static void tenants(void **state)
{
	(void)state;
	assert_int_equal(kvd_tenant_create(kvd, "alpha", 1ull << 40), KVD_OK);
	assert_int_equal(sent.op, WIRE_TENANT);
	assert_int_equal(sent.mode, WIRE_TENANT_CREATE);
	assert_int_equal(sent.key_len, 5);
	assert_memory_equal(sent.key, "alpha", 5);
	assert_true(sent.bytes == 1ull << 40);
	assert_int_equal(kvd_tenant_resize(kvd, "a", 7), KVD_OK);
	assert_int_equal(sent.mode, WIRE_TENANT_RESIZE);
	assert_true(sent.bytes == 7);
	assert_int_equal(kvd_tenant_drop(kvd, "123456789012345678901234"), KVD_OK);
	assert_int_equal(sent.mode, WIRE_TENANT_DROP);
	assert_int_equal(sent.key_len, 24);
	assert_int_equal(kvd_tenant_drop(kvd, "1234567890123456789012345"), KVD_ERR_INVALID);
	assert_int_equal(kvd_tenant_drop(kvd, ""), KVD_ERR_INVALID);
	next.status = WIRE_NOT_FOUND;
	assert_int_equal(kvd_tenant_drop(kvd, "x"), KVD_NOT_FOUND);
	next.status = WIRE_NO_SPACE;
	assert_int_equal(kvd_tenant_create(kvd, "x", 1), KVD_ERR_NO_SPACE);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

/* The list, what is set, and what the server says. */
static void configures(void **state)
{
	char buffer[100], long_text[KVD_KEY_MAX + 2];
	size_t len = 0;

	(void)state;
	assert_int_equal(kvd_config_get(kvd, buffer, sizeof(buffer), &len), KVD_OK);
	assert_int_equal(sent.op, WIRE_CONFIG);
	assert_int_equal(sent.mode, WIRE_CONFIG_GET);
	assert_int_equal(kvd_config_set(kvd, "a.b=1\nc.d=2"), KVD_OK);
	assert_int_equal(sent.mode, WIRE_CONFIG_SET);
	assert_int_equal(sent.key_len, 11);
	assert_memory_equal(sent.key, "a.b=1\nc.d=2", 11);
	memset(long_text, 'x', sizeof(long_text));
	long_text[KVD_KEY_MAX + 1] = '\0';
	assert_int_equal(kvd_config_set(kvd, long_text), KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(kvd), "have 1 to 1024 bytes together"));
	assert_int_equal(kvd_config_set(kvd, ""), KVD_ERR_INVALID);
	long_text[KVD_KEY_MAX] = '\0';
	assert_int_equal(kvd_config_set(kvd, long_text), KVD_OK);
	next.status = WIRE_INVALID;
	assert_int_equal(kvd_config_set(kvd, "a.b=1"), KVD_ERR_INVALID);
	assert_int_equal(kvd_config_rewrite(kvd, buffer, sizeof(buffer), &len), KVD_ERR_INVALID);
	assert_int_equal(sent.mode, WIRE_CONFIG_REWRITE);
	next.status = WIRE_OK;
	assert_int_equal(kvd_config_rewrite(kvd, buffer, sizeof(buffer), &len), KVD_OK);
	assert_int_equal(len, 0);
	assert_int_equal(kvd_config_rewrite(kvd, buffer, 0, &len), KVD_ERR_INVALID);
}

/* How many there were; asked again while the server is not certain, and then some may be gone. */
static void revokes(void **state)
{
	char who[KVD_KEY_MAX + 2];
	uint64_t closed = 0;

	(void)state;
	next.result = 7;
	assert_int_equal(kvd_revoke(kvd, "identity=alice", &closed), KVD_OK);
	assert_int_equal(sent.op, WIRE_REVOKE);
	assert_int_equal(sent.key_len, 14);
	assert_memory_equal(sent.key, "identity=alice", 14);
	assert_true(closed == 7);
	busy = 2;
	assert_int_equal(kvd_revoke(kvd, "identity=alice", &closed), KVD_OK);
	assert_int_equal(busy, 0);
	assert_true(closed == 7);
	busy = 1;
	next.status = WIRE_NOT_FOUND;
	assert_int_equal(kvd_revoke(kvd, "identity=alice", &closed), KVD_OK);
	assert_true(closed == 7);
	next.result = 0;
	assert_int_equal(kvd_revoke(kvd, "identity=alice", &closed), KVD_NOT_FOUND);
	assert_true(closed == 0);
	next.status = WIRE_INVALID;
	assert_int_equal(kvd_revoke(kvd, "alice", &closed), KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(kvd), "use user=NAME, identity=NAME, uid=N"));
	next.status = WIRE_OK;
	memset(who, 'x', sizeof(who));
	who[KVD_KEY_MAX + 1] = '\0';
	assert_int_equal(kvd_revoke(kvd, who, &closed), KVD_ERR_INVALID);
	assert_int_equal(kvd_revoke(kvd, "", &closed), KVD_ERR_INVALID);
	who[KVD_KEY_MAX] = '\0';
	assert_int_equal(kvd_revoke(kvd, who, NULL), KVD_OK);
	assert_int_equal(sent.key_len, KVD_KEY_MAX);
	/* Not for ever. */
	kvd->options.timeout_ms = 5;
	busy = ~0u;
	assert_int_equal(kvd_revoke(kvd, "uid=1", &closed), KVD_ERR_BUSY);
	/* Of one that has begun, a limit does not say that nothing was done. */
	busy = 1;
	next.status = WIRE_LIMIT;
	next.result = 7;
	assert_int_equal(kvd_revoke(kvd, "uid=1", &closed), KVD_ERR_BUSY);
	assert_int_equal(busy, 0);
	assert_true(closed == 7);
	assert_int_equal(kvd_revoke(kvd, "uid=1", &closed), KVD_ERR_LIMIT);
}

static void flushes(void **state)
{
	uint64_t ticket = 0, cancelled = 0;

	(void)state;
	next.ticket = 31;
	assert_int_equal(kvd_flush_start(kvd, 5, &ticket), KVD_OK);
	assert_int_equal(sent.op, WIRE_FLUSH);
	assert_int_equal(sent.ttl, 5);
	assert_true(sent.ticket == 0 && ticket == 31);
	assert_int_equal(kvd_flush_start(kvd, 0, NULL), KVD_OK);
	busy = 1;
	assert_int_equal(kvd_flush_done(kvd, ticket), KVD_ERR_BUSY);
	assert_int_equal(kvd_flush_done(kvd, ticket), KVD_OK);
	assert_int_equal(sent.ttl, 0);
	assert_true(sent.ticket == 31);
	assert_int_equal(kvd_flush_done(kvd, 0), KVD_ERR_INVALID);
	assert_int_equal(kvd_flush_start(kvd, KVD_TTL_MAX + 1, NULL), KVD_ERR_INVALID);
	next.arg64 = 3;
	assert_int_equal(kvd_flush_cancel(kvd, 0, 0, &cancelled), KVD_OK);
	assert_int_equal(cancelled, 3);
	assert_int_equal(sent.op, WIRE_FLUSH);
	assert_int_equal(sent.mode, WIRE_FLUSH_CANCEL);
	assert_true(sent.ticket == 0);
	assert_int_equal(kvd_flush_cancel(kvd, 31, 1, NULL), KVD_OK);
	assert_int_equal(sent.mode, WIRE_FLUSH_CANCEL_ANY);
	assert_true(sent.ticket == 31);
	next.status = WIRE_NOT_FOUND;
	assert_int_equal(kvd_flush_cancel(kvd, 31, 1, &cancelled), KVD_NOT_FOUND);
	assert_int_equal(cancelled, 3);
	/* That too many wait concerns only those with a delay. */
	next.status = WIRE_BUSY;
	assert_int_equal(kvd_flush_start(kvd, 5, &ticket), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(kvd), "kvctl flush --cancel"));
	assert_int_equal(kvd_flush_start(kvd, 0, &ticket), KVD_ERR_BUSY);
	assert_null(strstr(kvd_error(kvd), "flush --cancel"));
	next.status = WIRE_OK;
	busy = 3;
	assert_int_equal(kvd_flush_all(kvd), KVD_OK);
	assert_int_equal(busy, 0);
	/* Not in time: the connection still works. */
	busy = ~0u;
	kvd->options.timeout_ms = 5;
	assert_int_equal(kvd_flush_all(kvd), KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	next.version = 0;
	assert_int_equal(kvd_flush_start(kvd, 0, &ticket), KVD_ERR_PROTOCOL);
}

static enum kvd_status other_status;
static char other_text[200];

static void *ping_beside(void *arg)
{
	(void)arg;
	other_status = kvd_ping(kvd);
	snprintf(other_text, sizeof(other_text), "%s", kvd_error(NULL));
	return NULL;
}

/* A whole call of another thread, while this thread's call waits for its response. */
static void call_beside(struct fake_server *p, struct wire_response *response)
{
	pthread_t other;

	(void)response;
	p->before_response = NULL;
	assert_int_equal(pthread_create(&other, NULL, ping_beside, NULL), 0);
	assert_int_equal(pthread_join(other, NULL), 0);
}

/* The second is refused, and the first does not notice. */
static void two_threads_at_once(void **state)
{
	(void)state;
	server->before_response = call_beside;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(other_status, KVD_ERR_INVALID);
	assert_non_null(strstr(other_text, "another thread"));
	assert_int_equal(server->pings, 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

/* One after the other is allowed. */
static void two_threads_in_turn(void **state)
{
	(void)state;
	call_beside(server, NULL);
	assert_int_equal(other_status, KVD_OK);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	call_beside(server, NULL);
	assert_int_equal(other_status, KVD_OK);
}

static void respond_late(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	response->id--;
}

/* No second user is detected, so the text says that there may be one. */
static void a_response_that_is_not_ours(void **state)
{
	(void)state;
	server->before_response = respond_late;
	assert_int_equal(kvd_ping(kvd), KVD_ERR_PROTOCOL);
	assert_non_null(strstr(kvd_error(kvd), "one process"));
}

static void respond_twice(struct fake_server *p, struct wire_response *response)
{
	static struct wire_response first;

	(void)p;
	if (server->pings == 1)
		first = *response;
	*response = first;
}

static void two_responses(void **state)
{
	(void)state;
	server->before_response = respond_twice;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_PROTOCOL);
	assert_non_null(strstr(kvd_error(kvd), "one process"));
}

/* As if a chain of READs of another call completed first. */
static void complete_before(struct fake_server *p, uint64_t offset, uint32_t bytes)
{
	(void)offset, (void)bytes;
	p->fake.wcs[p->fake.wc_count++] = (struct ibv_wc){
		.wr_id = wr_id_make(WR_READ, kvd->conn.read_tail - 1),
	};
}

static void a_read_that_is_not_ours(void **state)
{
	(void)state;
	server->before_read = complete_before;
	assert_int_equal(kvd_get(kvd, "key", 3, body, sizeof(body), NULL), KVD_ERR_PROTOCOL);
	assert_non_null(strstr(kvd_error(kvd), "one process"));
}

/* A handle of the child's own makes its parent's no less foreign. */
static bool child_has_its_own(void)
{
	struct kvd *own = calloc(1, sizeof(*own));
	bool good;

	if (!own)
		return false;
	handle_init(own, NULL);
	good = !handle_is_inherited(own) && handle_is_inherited(kvd);
	free(own);
	return good;
}

/* The device is the parent's: the child's kvd_close() must not get here. */
static void closed_by_the_child(struct fake_device *fake)
{
	(void)fake;
	_exit(2);
}

static bool child_is_refused(void)
{
	bool good = kvd_ping(kvd) == KVD_ERR_DISCONNECTED && strstr(kvd_error(kvd), "fork") &&
		    kvd_put(kvd, "k", 1, "v", 1, NULL, NULL) == KVD_ERR_DISCONNECTED &&
		    kvd_get(kvd, "k", 1, body, sizeof(body), NULL) == KVD_ERR_DISCONNECTED;

	good &= child_has_its_own();
	server->fake.close = closed_by_the_child;
	kvd_close(kvd);
	return good;
}

/* As on a kernel that gives no page that a child finds zeroed. */
static bool child_closes_without_the_page(void)
{
	kvd->owner_page = NULL;
	server->fake.close = closed_by_the_child;
	kvd_close(kvd);
	return true;
}

static void child_does(bool (*what)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		_exit(!what());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_child_process(void **state)
{
	(void)state;
	server->before_response = respond_late;
	child_does(child_is_refused);
	child_does(child_closes_without_the_page);
	/* The child's calls and its kvd_close() did nothing to the parent's connection. */
	server->before_response = NULL;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

static void statuses(void **state)
{
	(void)state;
	assert_string_equal(kvd_status_text(KVD_ERR_EXISTS),
			    "the key exists or has another version");
	assert_int_equal(KVD_ERR_EXISTS, 14);
	assert_int_equal(KVD_ERR_NOT_A_NUMBER, 15);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(modes_of_put),
		CASE(modes_and_pulls),
		CASE(copied_while_it_is_read),
		CASE(a_response_before_the_sleep),
		CASE(message_numbers_wrap),
		CASE(held_responses_come_back),
		CASE(polls_while_it_serves),
		CASE(arguments_of_put),
		CASE(pins_and_priorities),
		CASE(deletes),
		CASE(arithmetic),
		CASE(touches),
		CASE(scans),
		CASE(scans_of_uses),
		CASE(a_scan_with_uses),
		CASE(a_server_that_tells_no_uses),
		CASE(arguments_of_scan),
		CASE(a_malformed_scan),
		CASE(a_scan_with_a_wrong_count),
		CASE(list_of_clients),
		CASE(pages_that_are_refused),
		CASE(kills),
		CASE(tenants),
		CASE(configures),
		CASE(revokes),
		CASE(flushes),
		CASE(two_threads_at_once),
		CASE(two_threads_in_turn),
		CASE(a_response_that_is_not_ours),
		CASE(two_responses),
		CASE(a_read_that_is_not_ours),
		CASE(a_child_process),
		CASE(statuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
