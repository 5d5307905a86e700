/* SPDX-License-Identifier: MIT */
/*
 * Tests of the message parsers (common/wire.c): each operation with valid fields; each kind of
 * invalid field, recognised by the reason given; every length one byte off. A message lies at the
 * end of a heap block of exactly its size, so that AddressSanitizer detects a byte read too many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/sum.h"
#include "common/wire.h"

static struct request parsed;
static struct response response;

static const char *parse(struct wire_request head, size_t body)
{
	size_t len = sizeof(head) + body;
	uint8_t *msg = malloc(len);
	const char *error;

	assert_non_null(msg);
	memset(msg, 'x', len);
	memcpy(msg, &head, sizeof(head));
	error = wire_request_parse(&parsed, msg, len);
	/* The pointers are checked here, because the message is freed below. */
	if (!error && parsed.key)
		assert_ptr_equal(parsed.key, msg + sizeof(head));
	if (!error && parsed.value)
		assert_ptr_equal(parsed.value, msg + sizeof(head) + parsed.key_len);
	if (!error && parsed.access)
		assert_ptr_equal(parsed.access, msg + len - parsed.access_count * 8);
	free(msg);
	return error;
}

static const char *const bad_length = "message length is not the sum of its parts";

static void assert_good(struct wire_request head, size_t body)
{
	const char *error = parse(head, body);
	bool pull = head.flags & WIRE_F_PULL;

	if (error)
		fail_msg("%s refused: %s", wire_op_name((enum wire_op)head.op), error);
	assert_int_equal(parsed.op, head.op);
	assert_int_equal(parsed.id, head.id);
	assert_int_equal(parsed.key_len, head.key_len);
	assert_int_equal(parsed.key != NULL, head.key_len != 0);
	assert_int_equal(parsed.value_len, head.value_len);
	assert_int_equal(parsed.value != NULL, head.value_len && !pull);
	assert_int_equal(parsed.arg32, head.arg32);
	assert_int_equal(parsed.flags, head.flags);
	assert_int_equal(parsed.mode, head.mode);
	assert_true(parsed.arg64 == head.arg64);
	assert_true(parsed.arg_addr == head.arg_addr);
	assert_int_equal(parsed.pull_rkey, head.pull_rkey);
	assert_int_equal(parsed.ttl, head.ttl);
	assert_int_equal(parsed.access_count, head.access_count);
	assert_int_equal(parsed.access != NULL, head.access_count != 0);
	/* One byte more or less is refused. */
	assert_string_equal(parse(head, body + 1), bad_length);
	if (body)
		assert_string_equal(parse(head, body - 1), bad_length);
}

static void assert_bad(struct wire_request head, size_t body, const char *why)
{
	const char *error = parse(head, body);

	assert_non_null(error);
	assert_string_equal(error, why);
}

/* One request of each kind, every field that the kind uses at its limit. */
static const struct {
	struct wire_request head;
	size_t body;
} kinds[] = {
	{ { .op = WIRE_HELLO, .id = 1, .value_len = sizeof(struct wire_hello) },
	  sizeof(struct wire_hello) },
	{ { .op = WIRE_PING, .id = 7 }, 0 },
	{ { .op = WIRE_GET, .key_len = KEY_MAX }, KEY_MAX },
	{ { .op = WIRE_GET, .key_len = 1, .flags = WIRE_F_NO_VALUE }, 1 },
	{ { .op = WIRE_GET, .key_len = 1, .offset = UINT64_MAX }, 1 },
	{ { .op = WIRE_GET, .key_len = 1, .length = UINT32_MAX }, 1 },
	{ { .op = WIRE_PUT, .key_len = 3, .value_len = 9, .item_flags = ~0u, .ttl = WIRE_TTL_MAX },
	  12 },
	{ { .op = WIRE_PUT, .mode = WIRE_ADD, .key_len = 3, .item_flags = 1, .ttl = 1 }, 3 },
	{ { .op = WIRE_PUT,
	    .key_len = 3,
	    .item_flags = 1,
	    .ttl = 1,
	    .flags = WIRE_F_PIN | WIRE_F_LOW,
	    .pin = WIRE_TTL_MAX },
	  3 },
	{ { .op = WIRE_PUT, .mode = WIRE_REPLACE, .key_len = 3, .item_flags = 1, .ttl = 1 }, 3 },
	{ { .op = WIRE_PUT,
	    .mode = WIRE_CAS,
	    .key_len = 3,
	    .value_len = 4,
	    .version = ~0ull,
	    .item_flags = 1,
	    .ttl = 1 },
	  7 },
	{ { .op = WIRE_PUT, .mode = WIRE_APPEND, .key_len = 3, .value_len = 4 }, 7 },
	{ { .op = WIRE_PUT, .mode = WIRE_PREPEND, .key_len = 3, .value_len = 4 }, 7 },
	{ { .op = WIRE_PUT,
	    .flags = WIRE_F_PULL,
	    .key_len = 5,
	    .value_len = ~0u,
	    .item_flags = 1,
	    .ttl = 1,
	    .pull_addr = ~0ull,
	    .pull_rkey = ~0u },
	  5 },
	{ { .op = WIRE_PUT,
	    .mode = WIRE_APPEND,
	    .flags = WIRE_F_PULL,
	    .key_len = 5,
	    .value_len = 6,
	    .pull_addr = 1,
	    .pull_rkey = 1 },
	  5 },
	{ { .op = WIRE_DELETE, .key_len = 9 }, 9 },
	{ { .op = WIRE_DELETE, .key_len = 9, .flags = WIRE_F_IF_VERSION, .version = ~0ull }, 9 },
	{ { .op = WIRE_STATS, .first_line = 99 }, 0 },
	{ { .op = WIRE_ARITH, .key_len = 2, .delta = ~0ull }, 2 },
	{ { .op = WIRE_ARITH,
	    .mode = WIRE_DECR,
	    .flags = WIRE_F_CREATE,
	    .key_len = 2,
	    .delta = 1,
	    .initial = ~0ull,
	    .item_flags = ~0u,
	    .ttl = WIRE_TTL_MAX },
	  2 },
	{ { .op = WIRE_TOUCH, .key_len = 2, .ttl = WIRE_TTL_MAX }, 2 },
	{ { .op = WIRE_TOUCH, .key_len = 2, .flags = WIRE_F_VALUE, .ttl = WIRE_TTL_MAX }, 2 },
	{ { .op = WIRE_SCAN }, 0 },
	{ { .op = WIRE_SCAN,
	    .key_len = KEY_MAX,
	    .flags = WIRE_F_VALUES,
	    .cursor = ~0ull,
	    .keys_max = ~0u },
	  KEY_MAX },
	{ { .op = WIRE_FLUSH, .ttl = WIRE_TTL_MAX }, 0 },
	{ { .op = WIRE_FLUSH, .ticket = ~0ull }, 0 },
	{ { .op = WIRE_FLUSH, .mode = WIRE_FLUSH_CANCEL }, 0 },
	{ { .op = WIRE_FLUSH, .mode = WIRE_FLUSH_CANCEL_ANY, .ticket = ~0ull }, 0 },
	{ { .op = WIRE_ACCESS, .access_count = 1 }, 8 },
	{ { .op = WIRE_CLIENTS, .cursor = ~0ull }, 0 },
	{ { .op = WIRE_KILL, .client = ~0ull }, 0 },
	{ { .op = WIRE_TENANT, .mode = WIRE_TENANT_LIST, .cursor = ~0ull }, 0 },
	{ { .op = WIRE_TENANT, .mode = WIRE_TENANT_CREATE, .key_len = 1, .bytes = ~0ull }, 1 },
	{ { .op = WIRE_TENANT, .mode = WIRE_TENANT_RESIZE, .key_len = 24, .bytes = 1 }, 24 },
	{ { .op = WIRE_TENANT, .mode = WIRE_TENANT_DROP, .key_len = 24 }, 24 },
	{ { .op = WIRE_SHUTDOWN }, 0 },
	{ { .op = WIRE_WHOAMI }, 0 },
	{ { .op = WIRE_REPORT, .mode = WIRE_REPORT_SLOW, .cursor = ~0ull }, 0 },
	{ { .op = WIRE_REPORT, .mode = WIRE_REPORT_RESET }, 0 },
	{ { .op = WIRE_REPORT, .mode = WIRE_REPORT_PROCESS, .cursor = ~0ull }, 0 },
	{ { .op = WIRE_REPORT, .mode = WIRE_REPORT_SAMPLE, .cursor = ~0ull, .every = ~0u }, 0 },
	{ { .op = WIRE_MAP, .offset = UINT64_MAX }, 0 },
	{ { .op = WIRE_MOVE, .mode = WIRE_MOVE_ASK }, 0 },
	{ { .op = WIRE_MOVE, .mode = WIRE_MOVE_BEGIN, .epoch = ~0ull, .generation = ~0ull }, 0 },
	{ { .op = WIRE_MOVE, .mode = WIRE_MOVE_CLEAR, .segment = ~0ull }, 0 },
	{ { .op = WIRE_MOVE, .mode = WIRE_MOVE_END, .counter = ~0ull }, 0 },
	{ { .op = WIRE_FLEET, .mode = WIRE_FLEET_DRAIN, .key_len = 1, .epoch = ~0ull }, 1 },
	{ { .op = WIRE_FLEET, .mode = WIRE_FLEET_UNDRAIN, .key_len = 24, .epoch = 1 }, 24 },
	{ { .op = WIRE_FLEET, .mode = WIRE_FLEET_REBALANCE, .epoch = 1 }, 0 },
	{ { .op = WIRE_CONFIG, .mode = WIRE_CONFIG_GET, .cursor = ~0ull }, 0 },
	{ { .op = WIRE_CONFIG, .mode = WIRE_CONFIG_SET, .key_len = 1 }, 1 },
	{ { .op = WIRE_CONFIG, .mode = WIRE_CONFIG_SET, .key_len = KEY_MAX }, KEY_MAX },
	{ { .op = WIRE_CONFIG, .mode = WIRE_CONFIG_REWRITE }, 0 },
	{ { .op = WIRE_REVOKE, .key_len = 1 }, 1 },
	{ { .op = WIRE_REVOKE, .key_len = KEY_MAX }, KEY_MAX },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void every_operation_as_it_should_be(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		assert_good(kinds[i].head, kinds[i].body);
	/* The parser accepts address 0: only the READ can tell whether an address is good. */
	assert_good(
		(struct wire_request){
			.op = WIRE_PUT, .flags = WIRE_F_PULL, .key_len = 5, .value_len = 1 },
		5);
}

static void access_records(void **state)
{
	struct wire_request head;
	uint16_t n;

	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		head = kinds[i].head;
		if (head.op == WIRE_HELLO || head.op == WIRE_ACCESS)
			continue;
		for (n = 1; n <= WIRE_ACCESS_MAX; n = (uint16_t)(n + 31)) {
			head.access_count = n;
			assert_good(head, kinds[i].body + n * 8u);
		}
		head.access_count = WIRE_ACCESS_MAX + 1;
		assert_bad(head, kinds[i].body + (WIRE_ACCESS_MAX + 1) * 8,
			   "too many access records");
	}
	head = kinds[0].head;
	head.access_count = 1;
	assert_bad(head, kinds[0].body + 8, "too many access records");
	assert_bad((struct wire_request){ .op = WIRE_ACCESS }, 0, "nothing reported");
	assert_good((struct wire_request){ .op = WIRE_ACCESS, .access_count = WIRE_ACCESS_MAX },
		    WIRE_ACCESS_MAX * 8);
	assert_bad((struct wire_request){ .op = WIRE_PING, .access_count = 0xffff }, 0,
		   "too many access records");
}

/* GETs and access records follow the value, at any alignment. */
static void reports_are_found(void **state)
{
	const struct wire_access records[2] = { wire_access_make(0x0123456789abcdefull, 3),
						wire_access_make(~0ull, 1u << 20) };
	const struct wire_gets gets = { .hits = 7, .misses = ~0u };
	uint8_t msg[sizeof(struct wire_request) + 3 + 4 + sizeof(gets) + sizeof(records)] = { 0 };
	struct wire_request head = { .op = WIRE_PUT,
				     .key_len = 3,
				     .value_len = 4,
				     .access_count = 2,
				     .flags = WIRE_F_GETS };

	(void)state;
	memcpy(msg, &head, sizeof(head));
	memcpy(msg + sizeof(head) + 7, &gets, sizeof(gets));
	memcpy(msg + sizeof(head) + 7 + sizeof(gets), records, sizeof(records));
	assert_null(wire_request_parse(&parsed, msg, sizeof(msg)));
	assert_memory_equal(&parsed.gets, &gets, sizeof(gets));
	assert_int_equal(request_report_bytes(&parsed), sizeof(gets) + sizeof(records));
	assert_int_equal(wire_access_hash(request_access(&parsed, 0)), 0x0123000089abcdefull);
	assert_int_equal(request_access(&parsed, 0).hits, 3);
	assert_int_equal(wire_access_hash(request_access(&parsed, 1)), 0xffff0000ffffffffull);
	assert_int_equal(request_access(&parsed, 1).hits, UINT16_MAX);
	/* Not one byte less; and none where the flag is missing. */
	assert_non_null(wire_request_parse(&parsed, msg, sizeof(msg) - 1));
	head.flags = 0;
	memcpy(msg, &head, sizeof(head));
	assert_non_null(wire_request_parse(&parsed, msg, sizeof(msg)));
	assert_null(wire_request_parse(&parsed, msg, sizeof(msg) - sizeof(gets)));
	assert_int_equal(parsed.gets.hits | parsed.gets.misses, 0);
	/* ACCESS may have them alone; HELLO, and what is in a BATCH, has none. */
	assert_good((struct wire_request){ .op = WIRE_ACCESS, .flags = WIRE_F_GETS }, sizeof(gets));
	assert_bad((struct wire_request){ .op = WIRE_HELLO,
					  .flags = WIRE_F_GETS,
					  .value_len = sizeof(struct wire_hello) },
		   sizeof(struct wire_hello) + sizeof(gets), "unknown flag");
}

/* Whether @head has the field that begins at @offset: the others must be 0. */
static bool has_field(const struct wire_request *head, size_t offset)
{
	static const struct wire_request zero;
	size_t bytes = offset == 16 || offset == 24 ? 8 : 4;

	return memcmp((const uint8_t *)head + offset, (const uint8_t *)&zero + offset, bytes);
}

/* Fields that a kind does not use must be 0: each such field is set in turn, for each kind. */
static void fields_where_none_belong(void **state)
{
	static const struct {
		size_t offset;
		const char *why;
	} fields[] = {
		{ offsetof(struct wire_request, arg32),
		  "arg32 in an operation that does not use it" },
		{ offsetof(struct wire_request, arg64),
		  "arg64 in an operation that does not use it" },
		{ offsetof(struct wire_request, arg_addr),
		  "arg_addr in an operation that does not use it" },
		{ offsetof(struct wire_request, pull_rkey),
		  "pull_rkey in an operation that does not use it" },
		{ offsetof(struct wire_request, ttl), "ttl in an operation that does not use it" },
		{ offsetof(struct wire_request, value_len),
		  "value in an operation that does not use it" },
	};
	struct wire_request head;

	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		for (size_t f = 0; f < 6; f++) {
			head = kinds[i].head;
			/* A PUT may have an empty value, a scan a cursor and a count, a flush a
			 * ticket, a GET of a value an offset and a length. */
			if (has_field(&head, fields[f].offset) || (f == 5 && head.op == WIRE_PUT) ||
			    (f < 2 && head.op == WIRE_SCAN) || (f == 1 && head.op == WIRE_FLUSH) ||
			    (f < 2 && head.op == WIRE_GET && !head.flags))
				continue;
			memset((uint8_t *)&head + fields[f].offset, 1, 1);
			assert_bad(head, kinds[i].body + (f == 5), fields[f].why);
		}
	/* A flush has a delay or a ticket, not both. */
	assert_bad((struct wire_request){ .op = WIRE_FLUSH, .ttl = 1, .mode = WIRE_FLUSH_CANCEL },
		   0, "ttl in an operation that does not use it");
	assert_bad((struct wire_request){ .op = WIRE_FLUSH, .ttl = 1, .ticket = 1 }, 0,
		   "ttl in an operation that does not use it");
}

static void modes_and_times_out_of_range(void **state)
{
	struct wire_request head;

	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		head = kinds[i].head;
		head.mode = head.op == WIRE_PUT	   ? WIRE_COPY + 1 :
			    head.op == WIRE_ARITH  ? 2 :
			    head.op == WIRE_FLUSH  ? WIRE_FLUSH_CANCEL_ANY + 1 :
			    head.op == WIRE_TENANT ? WIRE_TENANT_DROP + 1 :
			    head.op == WIRE_MOVE   ? WIRE_MOVE_END + 1 :
			    head.op == WIRE_FLEET  ? WIRE_FLEET_REBALANCE + 1 :
			    head.op == WIRE_REPORT ? WIRE_REPORT_MAX + 1 :
			    head.op == WIRE_CONFIG ? WIRE_CONFIG_REWRITE + 1 :
						     1;
		assert_bad(head, kinds[i].body, "mode out of range");
		head.mode = 255;
		assert_bad(head, kinds[i].body, "mode out of range");
		head = kinds[i].head;
		if (!head.ttl)
			continue;
		head.ttl = WIRE_TTL_MAX + 1;
		assert_bad(head, kinds[i].body, "time to live out of range");
		head.ttl = ~0u;
		assert_bad(head, kinds[i].body, "time to live out of range");
	}
}

static void a_sample_of_none(void **state)
{
	(void)state;
	assert_bad((struct wire_request){ .op = WIRE_REPORT, .mode = WIRE_REPORT_SAMPLE }, 0,
		   "a sample of no operation");
	assert_bad((struct wire_request){ .op = WIRE_REPORT, .every = 1 }, 0,
		   "arg32 in an operation that does not use it");
	assert_bad(
		(struct wire_request){ .op = WIRE_REPORT, .mode = WIRE_REPORT_RESET, .cursor = 1 },
		0, "arg64 in an operation that does not use it");
}

static void too_short_for_a_header(void **state)
{
	uint8_t *msg = calloc(1, sizeof(struct wire_request));

	(void)state;
	msg[0] = WIRE_PING;
	for (size_t len = 0; len < sizeof(struct wire_request); len++)
		assert_string_equal(
			wire_request_parse(&parsed, msg + sizeof(struct wire_request) - len, len),
			"message shorter than its header");
	assert_null(wire_request_parse(&parsed, msg, sizeof(struct wire_request)));
	free(msg);
}

static void unknown_operations(void **state)
{
	(void)state;
	for (unsigned int op = 0; op < 256; op++)
		if (op < 1 || op > WIRE_OP_MAX)
			assert_bad((struct wire_request){ .op = (uint8_t)op }, 0,
				   "unknown operation");
}

/* Every flag that the kind does not have. */
static void flags(void **state)
{
	static const uint16_t known[WIRE_OP_MAX + 1] = {
		[WIRE_GET] = WIRE_F_NO_VALUE,
		[WIRE_PUT] = WIRE_F_PULL | WIRE_F_PIN | WIRE_F_LOW,
		[WIRE_DELETE] = WIRE_F_IF_VERSION,
		[WIRE_ARITH] = WIRE_F_CREATE,
		[WIRE_TOUCH] = WIRE_F_VALUE,
		[WIRE_SCAN] = WIRE_F_VALUES | WIRE_F_USES,
	};
	struct wire_request head;
	unsigned int bit;

	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		for (bit = 0; bit < 16; bit++) {
			head = kinds[i].head;
			if ((known[head.op] | (head.op == WIRE_HELLO ? 0 : WIRE_F_GETS)) &
			    1u << bit)
				continue;
			head.flags |= (uint16_t)(1u << bit);
			assert_bad(head, kinds[i].body, "unknown flag");
		}
	assert_bad((struct wire_request){ .op = WIRE_PUT, .key_len = 1, .flags = WIRE_F_PULL }, 1,
		   "pull of an empty value");
}

/* What changes the store, and PING, may have a number. */
static void numbers_of_changes(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		struct wire_request head = kinds[i].head;
		bool numbered = head.op == WIRE_PUT || head.op == WIRE_DELETE ||
				head.op == WIRE_ARITH || head.op == WIRE_TOUCH ||
				head.op == WIRE_PING ||
				(head.op == WIRE_FLUSH && !head.mode && !head.ticket);

		for (unsigned int bit = 0; bit < 32; bit++) {
			head.change = 1u << bit;
			if (!numbered) {
				assert_bad(head, kinds[i].body,
					   "a number in an operation that changes nothing");
				continue;
			}
			assert_null(parse(head, kinds[i].body));
			assert_int_equal(parsed.change, head.change);
			/* The flag that only a request with a number has: flags() */
			head.flags |= WIRE_F_RESUME;
			assert_null(parse(head, kinds[i].body));
			assert_int_equal(parsed.flags, head.flags);
			head.flags = kinds[i].head.flags;
		}
	}
}

/* A number is known by its low bits from one that is near; 0 has no number. */
static void numbers_go_on(void **state)
{
	const uint64_t wrap = 1ull << 32;

	(void)state;
	assert_true(wire_change_next(0) == 1 && wire_change_next(1) == 2);
	assert_true(wire_change_next(wrap - 1) == wrap + 1);
	assert_true(wire_change_next(7 * wrap - 1) == 7 * wrap + 1);
	assert_true(wire_change_next(wrap) == wrap + 1);
	assert_true(wire_change_near(5, 7) == 7 && wire_change_near(7, 5) == 5);
	assert_true(wire_change_near(wrap - 1, 1) == wrap + 1);
	assert_true(wire_change_near(wrap + 1, ~0u) == wrap - 1);
	assert_true(wire_change_near(9 * wrap + 3, 3) == 9 * wrap + 3);
	assert_true(wire_change_near(2, ~0u) > 2);
	assert_true(wire_change_of(7, 0) == 7 && wire_change_of(7, 31) == 38);
	assert_true(wire_change_of(~0u, 0) == ~0u && wire_change_of(~0u - 1, 1) == ~0u);
	assert_true(wire_change_of(~0u, 1) == 1 && wire_change_of(~0u - 1, 3) == 2);
}

/* Which modes of PUT have a pin, and a priority; and how long a pin may be. */
static void pins_and_priorities(void **state)
{
	static const uint64_t bad_times[] = { 0, WIRE_TTL_MAX + 1ull, 1ull << 32, ~0ull };
	struct wire_request head = { .op = WIRE_PUT, .key_len = 3 };
	unsigned int mode;

	(void)state;
	for (mode = 0; mode <= WIRE_PREPEND; mode++) {
		head.mode = (uint8_t)mode;
		head.flags = WIRE_F_LOW;
		head.pin = 0;
		if (mode <= WIRE_CAS)
			assert_good(head, 3);
		else
			assert_bad(head, 3, "low priority in a mode that keeps that of the item");
		head.flags = WIRE_F_PIN;
		head.pin = 1;
		if (mode <= WIRE_REPLACE)
			assert_good(head, 3);
		else
			assert_bad(head, 3, "pin in a mode that has none");
	}
	head.mode = WIRE_SET;
	for (unsigned int i = 0; i < sizeof(bad_times) / sizeof(bad_times[0]); i++) {
		head.pin = bad_times[i];
		assert_bad(head, 3, "time of a pin out of range");
	}
	head.flags = 0;
	head.pin = 1;
	assert_bad(head, 3, "arg64 in an operation that does not use it");
}

static struct wire_request copy_of(uint32_t use)
{
	return (struct wire_request){
		.op = WIRE_PUT,
		.mode = WIRE_COPY,
		.key_len = 3,
		.value_len = 4,
		.item_flags = ~0u,
		.version = 1,
		.ttl = WIRE_TTL_MAX,
		.use = use,
	};
}

/* A copy has a version, and its use in the place of a number, which says pin and priority. */
static void copies(void **state)
{
	static const uint32_t good[] = {
		0,
		1u << 30 | WIRE_USES_MAX << 14 | WIRE_AGE_MAX,
		1u << 30,
		2u << 30 | WIRE_AGE_MAX,
		3u << 30 | 1u << 14 | WIRE_AGE_MAX,
		3u << 30 | 1,
	};
	/* A bit that none has, uses that only others have, or fields without a use. */
	static const uint32_t bad[] = {
		1, 1u << 14, 1u << 29, 3u << 29, 2u << 30 | 1u << 14, 3u << 30 | 2u << 14, ~0u
	};
	struct wire_request copy;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_good(copy_of(good[i]), 7);
		assert_int_equal(parsed.use, good[i]);
		assert_int_equal(parsed.change, 0);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_bad(copy_of(bad[i]), 7, "the use of a copy out of range");
	assert_true(wire_use_pack(WIRE_USE_NORMAL, 3, 5) == (1u << 30 | 3u << 14 | 5));
	copy = copy_of(0);
	copy.version = 0;
	assert_bad(copy, 7, "a copy without a version");
	copy = copy_of(0);
	copy.flags = WIRE_F_LOW;
	assert_bad(copy, 7, "a pin, or low priority, beside the use of a copy");
	copy.flags = WIRE_F_PIN;
	assert_bad(copy, 7, "a pin, or low priority, beside the use of a copy");
	copy.flags = WIRE_F_PULL;
	copy.pull_addr = copy.pull_rkey = 1;
	assert_good(copy, 3);
	/* The use is no number, so a copy can't resume. */
	copy = copy_of(good[1]);
	copy.flags = WIRE_F_RESUME;
	assert_bad(copy, 7, "unknown flag");
	/* What is no copy has no use. */
	copy.flags = 0;
	copy.mode = WIRE_CAS;
	assert_null(parse(copy, 7));
	assert_int_equal(parsed.use, 0);
	assert_true(parsed.change == good[1]);
}

static void keys_out_of_range(void **state)
{
	const char *why = "key length out of range";
	struct wire_request head;

	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		size_t rest = kinds[i].body - kinds[i].head.key_len;

		head = kinds[i].head;
		if (head.key_len) {
			head.key_len = KEY_MAX + 1;
			assert_bad(head, rest + KEY_MAX + 1, why);
			head.key_len = 0xffff;
			assert_bad(head, rest + 0xffff, why);
			if (head.op == WIRE_TENANT || head.op == WIRE_FLEET) {
				head.key_len = WIRE_TENANT_MAX + 1;
				assert_bad(head, rest + WIRE_TENANT_MAX + 1, why);
			}
			head.key_len = 0;
			if (head.op != WIRE_SCAN)
				assert_bad(head, rest, why);
		} else if (head.op != WIRE_SCAN) {
			head.key_len = 1;
			assert_bad(head, rest + 1, why);
		}
	}
}

/* Lengths whose sum equals the message's length only modulo 2^32. */
static void lengths_that_overflow(void **state)
{
	(void)state;
	assert_bad((struct wire_request){ .op = WIRE_PUT, .key_len = 5, .value_len = 0xffffffff },
		   4, bad_length);
	assert_bad(
		(struct wire_request){
			.op = WIRE_PUT, .key_len = 5, .value_len = 0xfffffff8, .access_count = 1 },
		5, bad_length);
	assert_bad((struct wire_request){ .op = WIRE_PUT,
					  .key_len = 5,
					  .value_len = 0xffffffff - 47 - 5 + 1 },
		   0, bad_length);
}

static void hello_of_another_length(void **state)
{
	const uint32_t lens[] = { 0, 24, 47, 49, 96 };

	(void)state;
	for (unsigned int i = 0; i < 5; i++)
		assert_bad((struct wire_request){ .op = WIRE_HELLO, .value_len = lens[i] }, lens[i],
			   "HELLO of the wrong length");
}

/* One request of each kind that may be in a batch, with what it needs, and its bytes. */
static const struct {
	struct request request;
	size_t bytes;
} batched[] = {
	{ { .op = WIRE_PING }, 16 },
	{ { .op = WIRE_GET, .key_len = KEY_MAX }, 16 + KEY_MAX },
	{ { .op = WIRE_PUT, .key_len = 3, .value_len = 9, .item_flags = ~0u, .ttl = WIRE_TTL_MAX },
	  16 + 12 },
	{ { .op = WIRE_PUT, .mode = WIRE_CAS, .key_len = 3, .version = ~0ull }, 16 + 8 + 3 },
	{ { .op = WIRE_PUT, .mode = WIRE_APPEND, .key_len = 3, .value_len = 4 }, 16 + 7 },
	{ { .op = WIRE_DELETE, .key_len = 5 }, 16 + 5 },
	{ { .op = WIRE_DELETE, .flags = WIRE_F_IF_VERSION, .key_len = 5, .version = 7 },
	  16 + 8 + 5 },
	{ { .op = WIRE_ARITH, .mode = WIRE_DECR, .key_len = 2, .delta = ~0ull }, 16 + 8 + 2 },
	{ { .op = WIRE_ARITH,
	    .flags = WIRE_F_CREATE,
	    .key_len = 2,
	    .delta = 1,
	    .initial = ~0ull,
	    .item_flags = 3,
	    .ttl = 4 },
	  16 + 16 + 2 },
	{ { .op = WIRE_TOUCH, .key_len = 2, .ttl = 5 }, 16 + 2 },
};

#define BATCHED (sizeof(batched) / sizeof(batched[0]))

static uint8_t batched_body[UINT16_MAX];

static size_t batched_write(size_t i, uint8_t *to)
{
	struct request request = batched[i].request;

	request.key = request.key_len ? batched_body : NULL;
	request.value = request.value_len ? batched_body : NULL;
	wire_batched_write(&request, to);
	assert_int_equal(wire_batched_bytes(&request), batched[i].bytes);
	return batched[i].bytes;
}

/* Parses a BATCH with these bytes, which end with their block. */
static const char *parse_numbered(uint32_t change, uint32_t count, const uint8_t *requests,
				  size_t len)
{
	const struct wire_request head = {
		.op = WIRE_BATCH, .count = count, .value_len = (uint32_t)len, .change = change
	};
	uint8_t *msg = malloc(sizeof(head) + len);
	const char *error;

	assert_non_null(msg);
	memcpy(msg, &head, sizeof(head));
	memcpy(msg + sizeof(head), requests, len);
	error = wire_request_parse(&parsed, msg, sizeof(head) + len);
	free(msg);
	return error;
}

static const char *parse_batch(uint32_t count, const uint8_t *requests, size_t len)
{
	return parse_numbered(0, count, requests, len);
}

static void a_batch_of_all_kinds(void **state)
{
	uint8_t requests[8192];
	size_t ends[BATCHED], len = 0, at = 0;
	struct request request;

	(void)state;
	for (size_t i = 0; i < BATCHED; i++)
		ends[i] = len += batched_write(i, requests + len);
	assert_null(parse_batch(BATCHED, requests, len));
	assert_int_equal(parsed.count, BATCHED);
	for (size_t i = 0; i < BATCHED; i++) {
		const struct request *expected = &batched[i].request;

		assert_null(wire_batched_parse(&request, requests, len, &at));
		assert_int_equal(at, ends[i]);
		assert_int_equal(request.op, expected->op);
		assert_int_equal(request.mode, expected->mode);
		assert_int_equal(request.flags, expected->flags);
		assert_int_equal(request.key_len, expected->key_len);
		assert_int_equal(request.value_len, expected->value_len);
		assert_int_equal(request.item_flags, expected->item_flags);
		assert_int_equal(request.ttl, expected->ttl);
		assert_true(request.version == expected->version);
		assert_true(request.initial == expected->initial);
		if (request.value)
			assert_ptr_equal(request.value, requests + at - request.value_len);
		if (request.key)
			assert_ptr_equal(request.key,
					 requests + at - request.value_len - request.key_len);
	}
	assert_true(wire_batched_numbered(WIRE_PUT) && !wire_batched_numbered(WIRE_GET));
	/* Cut at every byte, no count but the right one leads to the end. */
	for (size_t cut = 0; cut < len; cut++)
		assert_non_null(parse_batch(BATCHED, requests, cut));
	assert_string_equal(parse_batch(BATCHED - 1, requests, len),
			    "batch longer than its requests");
	assert_string_equal(parse_batch(BATCHED + 1, requests, len),
			    "batched request shorter than its header");
}

static void batches_that_are_refused(void **state)
{
	static const char *const why = "operation that may not be in a batch";
	static const char *const count = "number of requests in a batch out of range";
	uint8_t requests[(WIRE_BATCH_MAX + 1) * sizeof(struct wire_batched)] = { 0 };
	struct wire_batched *first = (struct wire_batched *)requests;

	(void)state;
	for (unsigned int op = 0; op < 256; op++) {
		*first = (struct wire_batched){ .op = (uint8_t)op };
		if (op < WIRE_PING || op == WIRE_STATS || op > WIRE_TOUCH)
			assert_string_equal(parse_batch(1, requests, sizeof(*first)), why);
	}
	*first = (struct wire_batched){ .op = WIRE_TOUCH, .flags = WIRE_F_VALUE, .key_len = 1 };
	assert_string_equal(parse_batch(1, requests, sizeof(*first) + 1), why);
	*first = (struct wire_batched){ .op = WIRE_GET, .flags = WIRE_F_NO_VALUE, .key_len = 1 };
	assert_string_equal(parse_batch(1, requests, sizeof(*first) + 1), why);
	*first = (struct wire_batched){ .op = WIRE_GET, .arg32 = 1, .key_len = 1 };
	assert_string_equal(parse_batch(1, requests, sizeof(*first) + 1), why);
	*first = (struct wire_batched){ .op = WIRE_PUT, .flags = WIRE_F_PULL, .key_len = 1 };
	assert_string_equal(parse_batch(1, requests, sizeof(*first) + 1), why);
	*first = (struct wire_batched){ .op = WIRE_PUT, .mode = WIRE_COPY, .key_len = 1 };
	assert_string_equal(parse_batch(1, requests, sizeof(*first) + 9), why);
	*first = (struct wire_batched){ .op = WIRE_PUT, .flags = WIRE_F_RESUME, .key_len = 1 };
	assert_string_equal(parse_batch(1, requests, sizeof(*first) + 1), "unknown flag");
	*first = (struct wire_batched){ .op = WIRE_PING, .key_len = 1 };
	assert_string_equal(parse_batch(1, requests, sizeof(*first) + 1),
			    "key length out of range");
	*first = (struct wire_batched){ .op = WIRE_PUT, .key_len = KEY_MAX, .value_len = ~0 };
	assert_string_equal(parse_batch(1, requests, sizeof(*first) + 1),
			    "batched request longer than the message");
	*first = (struct wire_batched){ .op = WIRE_DELETE, .key_len = 1, .arg32 = 1 };
	assert_string_equal(parse_batch(1, requests, sizeof(*first) + 1),
			    "arg32 in an operation that does not use it");
	for (unsigned int i = 0; i <= WIRE_BATCH_MAX; i++)
		first[i] = (struct wire_batched){ .op = WIRE_PING };
	assert_string_equal(parse_batch(0, requests, 0), count);
	assert_string_equal(parse_batch(~0u, requests, sizeof(requests)), count);
	assert_string_equal(parse_batch(WIRE_BATCH_MAX + 1, requests, sizeof(requests)), count);
	assert_null(parse_batch(WIRE_BATCH_MAX, requests, sizeof(requests) - sizeof(*first)));
}

/* The first request is refused although later ones are good, and lead to the end. */
static void one_bad_request_of_a_batch(void **state)
{
	const struct wire_batched requests[2] = { { .op = WIRE_STATS }, { .op = WIRE_PING } };

	(void)state;
	assert_string_equal(parse_batch(2, (const uint8_t *)requests, sizeof(requests)),
			    "operation that may not be in a batch");
}

/* A request's numbers of 8 bytes are not read beyond the message. */
static void a_batched_request_cut_in_its_numbers(void **state)
{
	uint8_t requests[64];
	struct request request;
	size_t at;

	(void)state;
	for (size_t i = 0; i < BATCHED; i++) {
		size_t len = batched[i].bytes - batched[i].request.key_len;

		if (batched[i].request.op != WIRE_ARITH)
			continue;
		batched_write(i, requests);
		for (size_t cut = sizeof(struct wire_batched); cut < len; cut++)
			assert_string_equal(parse_batch(1, requests, cut),
					    "batched request longer than the message");
	}
	at = 17;
	assert_string_equal(wire_batched_parse(&request, requests, 16, &at),
			    "batched request shorter than its header");
}

/* A batch may have a number if one of its requests changes the store, whichever that is. */
static void numbers_of_batches(void **state)
{
	static const char *const why = "a number in an operation that changes nothing";
	uint8_t requests[3 * (sizeof(struct wire_batched) + 8)];
	const struct wire_batched get = { .op = WIRE_GET, .key_len = 8 };
	const struct wire_batched put = { .op = WIRE_PUT, .key_len = 8 };
	const size_t bytes = sizeof(get) + 8;

	(void)state;
	memset(requests, 'x', sizeof(requests));
	for (unsigned int i = 0; i < 3; i++)
		memcpy(requests + i * bytes, &get, sizeof(get));
	assert_null(parse_numbered(0, 3, requests, sizeof(requests)));
	assert_string_equal(parse_numbered(1, 3, requests, sizeof(requests)), why);
	for (unsigned int i = 0; i < 3; i++) {
		memcpy(requests + i * bytes, &put, sizeof(put));
		assert_null(parse_numbered(9, 3, requests, sizeof(requests)));
		assert_int_equal(parsed.change, 9);
		memcpy(requests + i * bytes, &get, sizeof(get));
	}
}

static void results(void **state)
{
	struct wire_result r[2] = {
		{ .op = WIRE_GET,
		  .version = 5,
		  .expires = 6,
		  .item_flags = 7,
		  .value_sum = 8,
		  .value_len = 3 },
	};
	size_t len = sizeof(r[0]) + 3, at = 0;

	(void)state;
	assert_null(wire_result_parse(&response, r, len, &at));
	assert_int_equal(at, len);
	assert_int_equal(response.value_len, 3);
	assert_true(response.result == 3);
	assert_true(response.value_sum == 8);
	assert_int_equal(response.item_flags, 7);
	assert_int_equal(response.expires, 6);
	assert_true(response.version == 5);
	assert_ptr_equal(response.value, &r[1]);
	at = 0;
	assert_string_equal(wire_result_parse(&response, r, len - 1, &at),
			    "result longer than the message");
	at = 0;
	assert_string_equal(wire_result_parse(&response, r, sizeof(r[0]) - 1, &at),
			    "result shorter than its header");
	at = len + 1;
	assert_string_equal(wire_result_parse(&response, r, len, &at),
			    "result shorter than its header");
	/* No value follows a failure, or another operation. */
	r[0].status = WIRE_TOO_LARGE;
	at = 0;
	assert_null(wire_result_parse(&response, r, sizeof(r[0]), &at));
	r[0] = (struct wire_result){ .op = WIRE_ARITH, .result = ~0ull, .slot = 9 };
	at = 0;
	assert_null(wire_result_parse(&response, r, sizeof(r[0]), &at));
	assert_true(response.result == ~0ull && response.slot == 9 && !response.value_len);
	for (unsigned int v = 0; v < 256; v++) {
		at = 0;
		r[0] = (struct wire_result){ .op = (uint8_t)v };
		assert_int_equal(wire_result_parse(&response, r, sizeof(r[0]), &at) == NULL,
				 v >= WIRE_PING && v <= WIRE_TOUCH && v != WIRE_STATS);
	}
	at = 0;
	for (unsigned int bit = 0; bit < 16; bit++) {
		at = 0;
		r[0] = (struct wire_result){ .op = WIRE_PUT, .flags = (uint16_t)(1u << bit) };
		assert_int_equal(wire_result_parse(&response, r, sizeof(r[0]), &at) == NULL,
				 (1u << bit & (WIRE_R_REPEATED | WIRE_R_PINS)) != 0);
		if (1u << bit & (WIRE_R_REPEATED | WIRE_R_PINS))
			assert_int_equal(response.flags, 1u << bit);
	}
	at = 0;
	r[0] = (struct wire_result){ .op = WIRE_PUT, .status = 4 };
	assert_non_null(wire_result_parse(&response, r, sizeof(r[0]), &at));
}

static const char *parse_response(struct wire_response head, size_t body)
{
	size_t len = sizeof(head) + body;
	uint8_t *msg = malloc(len);
	const char *error;

	assert_non_null(msg);
	memset(msg, 'x', len);
	memcpy(msg, &head, sizeof(head));
	error = wire_response_parse(&response, msg, len);
	if (!error)
		assert_ptr_equal(response.value, msg + sizeof(head));
	free(msg);
	return error;
}

static void responses(void **state)
{
	static const uint8_t statuses[] = { WIRE_OK,	    WIRE_NOT_FOUND, WIRE_INVALID,
					    WIRE_TOO_LARGE, WIRE_NO_SPACE,  WIRE_PROTOCOL,
					    WIRE_BUSY,	    WIRE_EXISTS,    WIRE_NOT_A_NUMBER,
					    WIRE_UNKNOWN };
	struct wire_response r = { .version = 1ull << 60,
				   .slot = 1ull << 61,
				   .arg64 = 1ull << 62,
				   .clock_ns = 1ull << 63,
				   .expires = ~0u,
				   .id = ~0u,
				   .arg32 = 12 };

	(void)state;
	for (unsigned int op = 1; op <= WIRE_OP_MAX; op++)
		for (unsigned int i = 0; i < sizeof(statuses); i++)
			for (unsigned int len = 0; len < 3; len++) {
				r.op = (uint8_t)op;
				r.status = statuses[i];
				r.value_len = len;
				assert_null(parse_response(r, len));
				assert_int_equal(response.op, op);
				assert_int_equal(response.status, statuses[i]);
				assert_int_equal(response.value_len, len);
				assert_int_equal(response.id, ~0u);
				assert_int_equal(response.arg32, 12);
				assert_true(response.version == r.version &&
					    response.slot == r.slot && response.arg64 == r.arg64);
				assert_true(response.clock_ns == r.clock_ns);
				assert_int_equal(response.expires, ~0u);
				assert_string_equal(parse_response(r, len + 1),
						    "response length does not match its value");
			}
	r.window = WIRE_WINDOW_MAX;
	assert_null(parse_response(r, 2));
	assert_int_equal(response.window, WIRE_WINDOW_MAX);
	r.window++;
	assert_string_equal(parse_response(r, 2), "response with a window out of range");
	r.window = 0;
	r.value_len = 5;
	assert_string_equal(parse_response(r, 4), "response length does not match its value");
	r.value_len = VALUE_MAX + 1;
	assert_string_equal(parse_response(r, 0), "response length does not match its value");
}

static void responses_that_are_refused(void **state)
{
	struct wire_response r = { .op = WIRE_GET };
	uint8_t head[sizeof(r)] = { 0 };

	(void)state;
	for (size_t len = 0; len < sizeof(r); len++)
		assert_string_equal(wire_response_parse(&response, head + sizeof(r) - len, len),
				    "response shorter than its header");
	for (unsigned int v = 0; v < 256; v++) {
		if (v < 1 || v > WIRE_OP_MAX)
			assert_string_equal(
				parse_response((struct wire_response){ .op = (uint8_t)v }, 0),
				"response with an unknown operation or status");
		if (v > WIRE_AWAY || v == 16 || v == 18 || v == 21 || v == 4 || (v > 5 && v < 12))
			assert_string_equal(
				parse_response((struct wire_response){ .op = WIRE_GET,
								       .status = (uint8_t)v },
					       0),
				"response with an unknown operation or status");
	}
	for (unsigned int bit = 2; bit < 16; bit++) {
		r.flags = (uint16_t)(1u << bit);
		assert_string_equal(parse_response(r, 0), "response with unknown flags");
	}
	r.flags = WIRE_R_REPEATED;
	assert_null(parse_response(r, 0));
	assert_int_equal(response.flags, WIRE_R_REPEATED);
	r.flags = WIRE_R_PINS;
	r.status = WIRE_BUSY;
	assert_null(parse_response(r, 0));
	assert_int_equal(response.flags, WIRE_R_PINS);
	r.status = WIRE_OK;
	for (unsigned int bit = 0; bit < 16; bit++) {
		const char *error = parse_response(
			(struct wire_response){ .op = WIRE_GET, .tick = (uint16_t)(1u << bit) }, 0);

		assert_null(error);
		assert_int_equal(response.tick, 1u << bit);
	}
	/* Above the time, how many low bits of a hash have to be 0, plus 1. */
	assert_true(wire_sample_mask(0) == UINT64_MAX);
	assert_true(wire_sample_mask(ACCESS_TIME) == UINT64_MAX);
	assert_true(wire_sample_mask(1u << WIRE_SAMPLE_SHIFT) == 0);
	assert_true(wire_sample_mask(2u << WIRE_SAMPLE_SHIFT | 5) == 1);
	assert_true(wire_sample_mask(UINT16_MAX) == (1u << 30) - 1);
	/* Of another status than BUSY. */
	r.flags = WIRE_R_PINS;
	assert_string_equal(parse_response(r, 0), "response with unknown flags");
}

/* Parses one entry of a header and @body bytes, in a block of exactly its size. */
static const char *entry_of(struct wire_entry head, size_t body, size_t at_first)
{
	size_t len = at_first + sizeof(head) + body, at = at_first;
	struct scan_entry entry;
	uint8_t *msg = malloc(len);
	const char *error;

	assert_non_null(msg);
	memset(msg, 'x', len);
	memcpy(msg + at_first, &head, sizeof(head));
	error = wire_entry_parse(&entry, msg, len, &at);
	if (!error) {
		assert_int_equal(at, at_first + sizeof(head) + head.key_len + head.value_sent);
		assert_ptr_equal(entry.key, msg + at_first + sizeof(head));
		assert_int_equal(entry.key_len, head.key_len);
		assert_int_equal(entry.value_len, head.value_len);
		assert_int_equal(entry.value != NULL, head.value_sent == head.value_len);
		if (entry.value)
			assert_ptr_equal(entry.value, entry.key + head.key_len);
		assert_int_equal(entry.item_flags, head.item_flags);
		assert_int_equal(entry.expires, head.expires);
		assert_true(entry.version == head.version);
	}
	free(msg);
	return error;
}

static void entries(void **state)
{
	const char *longer = "entry longer than the message";
	const char *value = "entry whose value length is out of range";
	const char *key = "entry whose key length is out of range";
	const char *use = "entry whose use is out of range";
	struct wire_entry e = { .version = ~0ull, .item_flags = 5, .expires = 6, .key_len = 3 };

	(void)state;
	for (size_t first = 0; first < 70; first += 23) {
		assert_null(entry_of((struct wire_entry){ .key_len = KEY_MAX }, KEY_MAX, first));
		assert_null(entry_of((struct wire_entry){ .key_len = 1 }, 1, first));
		assert_null(entry_of(e, 3, first));
		assert_null(entry_of(e, 10, first));
		assert_string_equal(entry_of(e, 2, first), longer);
		e.value_len = e.value_sent = 4;
		assert_null(entry_of(e, 7, first));
		assert_string_equal(entry_of(e, 6, first), longer);
		e.value_sent = 3;
		assert_string_equal(entry_of(e, 7, first), value);
		e.value_sent = 5;
		assert_string_equal(entry_of(e, 8, first), value);
		e.value_sent = 0;
		e.value_len = VALUE_MAX;
		assert_null(entry_of(e, 3, first));
		e.value_sent = VALUE_MAX;
		assert_string_equal(entry_of(e, 7, first), longer);
		e.value_sent = e.value_len = VALUE_MAX + 1;
		assert_string_equal(entry_of(e, 7, first), value);
		e.value_sent = e.value_len = 0;
	}
	assert_string_equal(entry_of((struct wire_entry){ .key_len = 0 }, 0, 0), key);
	assert_string_equal(entry_of((struct wire_entry){ .key_len = KEY_MAX + 1 }, 2000, 0), key);
	for (e.use = 0; e.use <= WIRE_USE_MAX + 1; e.use++) {
		const uint16_t uses = e.use == WIRE_USE_NORMAL ? WIRE_USES_MAX : 0;
		const uint16_t age = e.use == WIRE_USE_NORMAL || e.use == WIRE_USE_LOW ?
					     WIRE_AGE_MAX :
					     0;

		e.uses = uses;
		e.age = age;
		if (e.use <= WIRE_USE_MAX)
			assert_null(entry_of(e, 3, 0));
		else
			assert_string_equal(entry_of(e, 3, 0), use);
		e.uses = uses + 1;
		assert_string_equal(entry_of(e, 3, 0), use);
		e.uses = uses;
		e.age = age + 1;
		assert_string_equal(entry_of(e, 3, 0), use);
	}
}

static void entries_too_short_for_a_header(void **state)
{
	uint8_t *msg = calloc(1, sizeof(struct wire_entry));
	struct scan_entry entry;
	size_t len, at;

	(void)state;
	for (len = 0; len < sizeof(struct wire_entry); len++) {
		at = 0;
		assert_string_equal(wire_entry_parse(&entry, msg + sizeof(struct wire_entry) - len,
						     len, &at),
				    "entry shorter than its header");
		assert_int_equal(at, 0);
	}
	at = 99;
	assert_string_equal(wire_entry_parse(&entry, msg, sizeof(struct wire_entry), &at),
			    "entry shorter than its header");
	free(msg);
}

static struct geometry good_geometry(void)
{
	struct geometry g = {
		.incarnation = 1,
		.region_bytes = 64 << 20,
		.hash_seed = 2,
		.value_max = 1 << 20,
		.level_base = 4,
		.level = 6,
		.split = 9,
		.segments = { 4096, 8192, 16384, 32768 },
	};

	return g;
}

static void assert_geometry(struct geometry g, const char *why)
{
	const char *error;

	g.sum = geometry_sum(&g);
	error = geometry_check(&g);
	if (!why) {
		assert_null(error);
		return;
	}
	assert_non_null(error);
	assert_string_equal(error, why);
}

#define BAD(change, why)                                                                           \
	do {                                                                                       \
		struct geometry g = good_geometry();                                               \
		change;                                                                            \
		assert_geometry(g, why);                                                           \
	} while (0)

static void geometries(void **state)
{
	struct geometry good = good_geometry();

	(void)state;
	assert_geometry(good, NULL);
	good.sum = geometry_sum(&good) ^ 1;
	assert_string_equal(geometry_check(&good), "geometry's sum is wrong");
	BAD(g.region_bytes = REGION_BYTES_MAX, NULL);
	BAD(g.region_bytes = REGION_BYTES_MAX + 1, "region size out of range");
	BAD(g.region_bytes = 8191, "region size out of range");
	BAD(g.level = 33, "index level out of range");
	BAD(g.level_base = 7, "index level out of range");
	BAD(g.split = 64, "index level out of range");
	BAD(g.split = 63, NULL);
	BAD(g.split = ~0ull, "index level out of range");
	BAD(g.value_max = VALUE_MAX, NULL);
	BAD(g.value_max = VALUE_MAX + 1ull, "max_value out of range");
	BAD(g.segments[0] = 4096 - 128, "index segment misaligned or in the superblock");
	BAD(g.segments[0] = 0, "index segment misaligned or in the superblock");
	BAD(g.segments[1] = 8192 + 64, "index segment misaligned or in the superblock");
	BAD(g.segments[3] = 0, "index segment misaligned or in the superblock");
	BAD(g.segments[4] = 1, NULL); /* not in use */
	BAD(g.segments[3] = g.region_bytes - 64 * 128, NULL);
	BAD(g.segments[3] = g.region_bytes - 64 * 128 + 128, "index segment leaves the region");
	BAD(g.segments[2] = g.region_bytes + 128, "index segment leaves the region");
	BAD(g.segments[1] = ~0ull - 127, "index segment leaves the region");
	BAD(g.level_base = g.level = 32; g.split = 0, "index segment leaves the region");
	/* From 2^0 buckets to 2^32 it takes 33 segments. */
	BAD(g.level_base = 0; g.level = 32; g.split = 0, "more index segments than SEGMENTS_MAX");
}

/* Segment 0 has as many buckets as segment 1. */
static void the_first_segment_leaves_the_region(void **state)
{
	const char *why = "index segment leaves the region";

	(void)state;
	BAD(g.segments[0] = g.region_bytes - 16 * BUCKET_BYTES, NULL);
	BAD(g.segments[0] = g.region_bytes - 15 * BUCKET_BYTES, why);
	BAD(g.segments[1] = g.region_bytes - 16 * BUCKET_BYTES, NULL);
	BAD(g.segments[1] = g.region_bytes - 15 * BUCKET_BYTES, why);
}

/* 2^31 buckets in the most segments; and one in the smallest region. */
static void geometries_at_their_limits(void **state)
{
	struct geometry g = good_geometry();

	(void)state;
	g.region_bytes = REGION_BYTES_MAX;
	g.level_base = 0;
	g.level = 31;
	g.split = 0;
	g.segments[0] = sizeof(struct superblock);
	for (unsigned int i = 1; i < SEGMENTS_MAX; i++)
		g.segments[i] = sizeof(struct superblock) + ((uint64_t)BUCKET_BYTES << (i - 1));
	assert_geometry(g, NULL);
	g = good_geometry();
	g.region_bytes = sizeof(struct superblock) + REGION_PAD;
	g.level_base = g.level = 0;
	g.split = 0;
	g.segments[0] = sizeof(struct superblock);
	assert_geometry(g, NULL);
	g.region_bytes--;
	assert_geometry(g, "region size out of range");
}

static void names(void **state)
{
	char text[WIRE_REJECT_TEXT_BYTES];

	(void)state;
	assert_string_equal(wire_op_name(WIRE_HELLO), "HELLO");
	assert_string_equal(wire_op_name(WIRE_STATS), "STATS");
	assert_string_equal(wire_op_name(WIRE_ACCESS), "ACCESS");
	assert_string_equal(wire_op_name(WIRE_BATCH), "BATCH");
	assert_string_equal(wire_op_name((enum wire_op)0), "unknown");
	/* The one that is older has to be updated. */
	wire_abi_text(text, 3, 4);
	assert_string_equal(text, "the client has protocol version 3 and the server 4: "
				  "update the client");
	wire_abi_text(text, 5, 4);
	assert_string_equal(text, "the client has protocol version 5 and the server 4: "
				  "update the server");
	assert_string_equal(wire_op_name((enum wire_op)(WIRE_OP_MAX + 1)), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_as_it_should_be),
		cmocka_unit_test(too_short_for_a_header),
		cmocka_unit_test(unknown_operations),
		cmocka_unit_test(flags),
		cmocka_unit_test(numbers_of_changes),
		cmocka_unit_test(numbers_go_on),
		cmocka_unit_test(pins_and_priorities),
		cmocka_unit_test(copies),
		cmocka_unit_test(keys_out_of_range),
		cmocka_unit_test(access_records),
		cmocka_unit_test(reports_are_found),
		cmocka_unit_test(fields_where_none_belong),
		cmocka_unit_test(modes_and_times_out_of_range),
		cmocka_unit_test(a_sample_of_none),
		cmocka_unit_test(lengths_that_overflow),
		cmocka_unit_test(hello_of_another_length),
		cmocka_unit_test(a_batch_of_all_kinds),
		cmocka_unit_test(batches_that_are_refused),
		cmocka_unit_test(one_bad_request_of_a_batch),
		cmocka_unit_test(a_batched_request_cut_in_its_numbers),
		cmocka_unit_test(numbers_of_batches),
		cmocka_unit_test(results),
		cmocka_unit_test(responses),
		cmocka_unit_test(responses_that_are_refused),
		cmocka_unit_test(entries),
		cmocka_unit_test(entries_too_short_for_a_header),
		cmocka_unit_test(geometries),
		cmocka_unit_test(the_first_segment_leaves_the_region),
		cmocka_unit_test(geometries_at_their_limits),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
