/* SPDX-License-Identifier: MIT */
/*
 * The parsers of messages (common/wire.c): each operation as it should be, and each way in which it
 * should not, told by its reason; every length one byte off. Messages lie at the end of a heap block
 * of exactly their size, so that AddressSanitizer sees a byte read too many.
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
static struct response answered;

static const char *parse(struct wire_request head, size_t body)
{
	size_t len = sizeof(head) + body;
	uint8_t *msg = malloc(len);
	const char *error;

	assert_non_null(msg);
	memset(msg, 'x', len);
	memcpy(msg, &head, sizeof(head));
	error = wire_request_parse(&parsed, msg, len);
	/* The pointers are checked here, since the message goes. */
	if (!error && parsed.key)
		assert_ptr_equal(parsed.key, msg + sizeof(head));
	if (!error && parsed.value)
		assert_ptr_equal(parsed.value, msg + sizeof(head) + parsed.key_len);
	free(msg);
	return error;
}

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
	assert_int_equal(parsed.item_flags, head.item_flags);
	assert_int_equal(parsed.pull, pull);
	assert_true(parsed.pull_addr == head.pull_addr);
	assert_int_equal(parsed.pull_rkey, head.pull_rkey);
	/* Not one byte more or less. */
	assert_string_equal(parse(head, body + 1), "message length does not fit key and value");
	if (body)
		assert_string_equal(parse(head, body - 1),
				    "message length does not fit key and value");
}

static void assert_bad(struct wire_request head, size_t body, const char *why)
{
	const char *error = parse(head, body);

	assert_non_null(error);
	assert_string_equal(error, why);
}

static void every_operation_as_it_should_be(void **state)
{
	struct wire_request hello = { .op = WIRE_HELLO,
				      .id = 1,
				      .value_len = sizeof(struct wire_hello) };
	struct wire_request put = { .op = WIRE_PUT, .id = ~0u, .item_flags = ~0u };
	struct wire_request pull = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PULL,
		.key_len = 5,
		.value_len = ~0u,
		.pull_addr = ~0ull,
		.pull_rkey = ~0u,
	};

	(void)state;
	assert_good(hello, sizeof(struct wire_hello));
	assert_good((struct wire_request){ .op = WIRE_PING, .id = 7 }, 0);
	assert_good((struct wire_request){ .op = WIRE_STATS, .item_flags = 99 }, 0);
	for (uint16_t len = 1; len <= KEY_MAX; len = (uint16_t)(len + (len < 3 ? 1 : 1021 / 2))) {
		assert_good((struct wire_request){ .op = WIRE_GET, .key_len = len }, len);
		assert_good((struct wire_request){ .op = WIRE_DELETE, .key_len = len }, len);
		put.key_len = len;
		put.value_len = 0;
		assert_good(put, len);
		put.value_len = 1000;
		assert_good(put, len + 1000u);
	}
	assert_good(pull, 5);
	/* Nowhere is as good an address as any: the READ will tell. */
	pull.pull_addr = pull.pull_rkey = 0;
	assert_good(pull, 5);
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

static void flags_and_reserved_fields(void **state)
{
	const char *why = "unknown flag or reserved field in use";
	struct wire_request r = { .op = WIRE_PING };
	uint8_t op;

	(void)state;
	for (unsigned int bit = 1; bit < 8; bit++) {
		r.flags = (uint8_t)(1u << bit);
		assert_bad(r, 0, why);
	}
	for (unsigned int bit = 0; bit < 32; bit++)
		assert_bad((struct wire_request){ .op = WIRE_PING, .reserved = 1u << bit }, 0, why);
	for (op = 1; op <= WIRE_OP_MAX; op++)
		if (op != WIRE_PUT)
			assert_bad((struct wire_request){ .op = op, .flags = WIRE_F_PULL }, 0,
				   "pull flag on something other than PUT");
	assert_bad((struct wire_request){ .op = WIRE_PUT, .key_len = 1, .pull_addr = 1 }, 1,
		   "pull address without pull flag");
	assert_bad((struct wire_request){ .op = WIRE_GET, .key_len = 1, .pull_rkey = 1 }, 1,
		   "pull address without pull flag");
	assert_bad((struct wire_request){ .op = WIRE_PUT, .key_len = 1, .flags = WIRE_F_PULL }, 1,
		   "pull of an empty value");
}

static void keys_out_of_range(void **state)
{
	static const uint8_t with[] = { WIRE_GET, WIRE_PUT, WIRE_DELETE };
	static const uint8_t without[] = { WIRE_HELLO, WIRE_PING, WIRE_STATS };
	const char *why = "key length out of range";

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		assert_bad((struct wire_request){ .op = with[i] }, 0, why);
		assert_bad((struct wire_request){ .op = with[i], .key_len = KEY_MAX + 1 },
			   KEY_MAX + 1, why);
		assert_bad((struct wire_request){ .op = with[i], .key_len = 0xffff }, 0xffff, why);
		assert_bad((struct wire_request){ .op = without[i], .key_len = 1 }, 1, why);
	}
}

static void values_and_flags_where_none_belong(void **state)
{
	static const uint8_t no_value[] = { WIRE_PING, WIRE_GET, WIRE_DELETE, WIRE_STATS };
	static const uint8_t no_flags[] = { WIRE_HELLO, WIRE_PING, WIRE_GET, WIRE_DELETE };
	unsigned int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		uint16_t key = no_value[i] == WIRE_GET || no_value[i] == WIRE_DELETE;

		assert_bad(
			(struct wire_request){ .op = no_value[i], .key_len = key, .value_len = 1 },
			key + 1u, "value where none belongs");
	}
	for (i = 0; i < 4; i++) {
		uint16_t key = no_flags[i] == WIRE_GET || no_flags[i] == WIRE_DELETE;

		assert_bad(
			(struct wire_request){ .op = no_flags[i], .key_len = key, .item_flags = 1 },
			key, "flags where none belong");
	}
}

/* Lengths whose sum is that of the message only if it is cut to 32 bits. */
static void lengths_that_overflow(void **state)
{
	(void)state;
	assert_bad((struct wire_request){ .op = WIRE_PUT, .key_len = 5, .value_len = 0xffffffff },
		   4, "message length does not fit key and value");
	assert_bad((struct wire_request){ .op = WIRE_PUT,
					  .key_len = 5,
					  .value_len = 0xffffffff - 31 - 5 + 1 },
		   0, "message length does not fit key and value");
}

static void hello_of_another_length(void **state)
{
	const uint32_t lens[] = { 0, 1, 23, 25, 48 };

	(void)state;
	for (unsigned int i = 0; i < 5; i++)
		assert_bad((struct wire_request){ .op = WIRE_HELLO, .value_len = lens[i] }, lens[i],
			   "HELLO of another length");
}

static const char *answer(struct wire_response head, size_t body)
{
	size_t len = sizeof(head) + body;
	uint8_t *msg = malloc(len);
	const char *error;

	assert_non_null(msg);
	memset(msg, 'x', len);
	memcpy(msg, &head, sizeof(head));
	error = wire_response_parse(&answered, msg, len);
	if (!error)
		assert_ptr_equal(answered.value, msg + sizeof(head));
	free(msg);
	return error;
}

static void responses(void **state)
{
	static const uint8_t statuses[] = { WIRE_OK,	   WIRE_NOT_FOUND, WIRE_TOO_LARGE,
					    WIRE_NO_SPACE, WIRE_PROTOCOL,  WIRE_BUSY };
	struct wire_response r = { .version = 1ull << 60,
				   .slot = 1ull << 61,
				   .seed = 1ull << 62,
				   .id = ~0u,
				   .item_flags = 12 };

	(void)state;
	for (unsigned int op = 1; op <= WIRE_OP_MAX; op++)
		for (unsigned int i = 0; i < 6; i++)
			for (unsigned int len = 0; len < 3; len++) {
				r.op = (uint8_t)op;
				r.status = statuses[i];
				r.value_len = len;
				assert_null(answer(r, len));
				assert_int_equal(answered.op, op);
				assert_int_equal(answered.status, statuses[i]);
				assert_int_equal(answered.value_len, len);
				assert_int_equal(answered.id, ~0u);
				assert_int_equal(answered.item_flags, 12);
				assert_true(answered.version == r.version &&
					    answered.slot == r.slot && answered.seed == r.seed);
				assert_string_equal(answer(r, len + 1),
						    "response length does not fit its value");
			}
	r.value_len = 5;
	assert_string_equal(answer(r, 4), "response length does not fit its value");
	r.value_len = VALUE_MAX + 1;
	assert_string_equal(answer(r, 0), "response length does not fit its value");
}

static void responses_that_are_refused(void **state)
{
	struct wire_response r = { .op = WIRE_GET };
	uint8_t head[sizeof(r)] = { 0 };

	(void)state;
	for (size_t len = 0; len < sizeof(r); len++)
		assert_string_equal(wire_response_parse(&answered, head + sizeof(r) - len, len),
				    "response shorter than its header");
	for (unsigned int v = 0; v < 256; v++) {
		if (v < 1 || v > WIRE_OP_MAX)
			assert_string_equal(answer((struct wire_response){ .op = (uint8_t)v }, 0),
					    "response of an unknown kind");
		if (v > WIRE_BUSY || v == 2 || v == 4 || (v > 5 && v < 12))
			assert_string_equal(answer((struct wire_response){ .op = WIRE_GET,
									   .status = (uint8_t)v },
						   0),
					    "response of an unknown kind");
	}
	for (unsigned int bit = 1; bit < 16; bit++) {
		r.flags = (uint16_t)(1u << bit);
		assert_string_equal(answer(r, 0), "response with unknown flags");
	}
	r.flags = WIRE_R_COPY;
	r.op = WIRE_PUT;
	assert_string_equal(answer(r, 0), "response with unknown flags");
}

/* The value is elsewhere: its length is not the message's. */
static void a_response_with_a_copy(void **state)
{
	struct wire_response r = { .op = WIRE_GET, .flags = WIRE_R_COPY, .value_len = VALUE_MAX };

	(void)state;
	assert_null(answer(r, 0));
	assert_int_equal(answered.flags, WIRE_R_COPY);
	assert_int_equal(answered.value_len, VALUE_MAX);
	assert_string_equal(answer(r, 1), "response length does not fit its value");
	r.value_len++;
	assert_string_equal(answer(r, 0), "response length does not fit its value");
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
	BAD(g.segments[0] = 4096 - 128, "index segment misplaced");
	BAD(g.segments[0] = 0, "index segment misplaced");
	BAD(g.segments[1] = 8192 + 64, "index segment misplaced");
	BAD(g.segments[3] = 0, "index segment misplaced");
	BAD(g.segments[4] = 1, NULL); /* not in use */
	BAD(g.segments[3] = g.region_bytes - 64 * 128, NULL);
	BAD(g.segments[3] = g.region_bytes - 64 * 128 + 128, "index segment leaves the region");
	BAD(g.segments[2] = g.region_bytes + 128, "index segment leaves the region");
	BAD(g.segments[1] = ~0ull - 127, "index segment leaves the region");
	BAD(g.level_base = g.level = 32; g.split = 0, "index segment leaves the region");
	/* From 2^0 buckets to 2^32 it takes 33 segments. */
	BAD(g.level_base = 0; g.level = 32; g.split = 0, "more index segments than there can be");
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(wire_op_name(WIRE_HELLO), "HELLO");
	assert_string_equal(wire_op_name(WIRE_STATS), "STATS");
	assert_string_equal(wire_op_name((enum wire_op)0), "unknown");
	assert_string_equal(wire_op_name((enum wire_op)(WIRE_OP_MAX + 1)), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_as_it_should_be),
		cmocka_unit_test(too_short_for_a_header),
		cmocka_unit_test(unknown_operations),
		cmocka_unit_test(flags_and_reserved_fields),
		cmocka_unit_test(keys_out_of_range),
		cmocka_unit_test(values_and_flags_where_none_belong),
		cmocka_unit_test(lengths_that_overflow),
		cmocka_unit_test(hello_of_another_length),
		cmocka_unit_test(responses),
		cmocka_unit_test(responses_that_are_refused),
		cmocka_unit_test(a_response_with_a_copy),
		cmocka_unit_test(geometries),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
