/* SPDX-License-Identifier: MIT */
/* The messages by which queue pairs are set up: byte for byte, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/tcp/message.h"

/* As common/rdma/tcp/message.h says; the private data is 3 bytes long. */
static const uint8_t request[TCP_MESSAGE_BYTES] = {
	'k',  'v',  'd',  'Q',	0,  1,	  1,	2,    /* magic, version, kind, link layer */
	0,    0x12, 0x34, 0x56, 0,  0xfe, 0xdc, 0xba, /* queue pair, PSN */
	0,    1,    2,	  3,	4,  5,	  6,	7,    /* GID */
	8,    9,    10,	  11,	12, 13,	  14,	15,
	0x01, 0x02, 2,	  3,	16, 4,	  3,	0, /* LID, GID type, MTU, READs, private data */
	'a',  'b',  'c',
};

static const char *parse(const uint8_t *bytes)
{
	struct tcp_message message, before;
	const char *error;

	memset(&message, 0x5a, sizeof(message));
	before = message;
	error = tcp_message_parse(&message, bytes);
	if (error)
		assert_memory_equal(&message, &before, sizeof(message));
	return error;
}

/* One byte of the request is another one. */
static const char *parse_with(unsigned int offset, uint8_t byte)
{
	uint8_t bytes[TCP_MESSAGE_BYTES];

	memcpy(bytes, request, sizeof(bytes));
	bytes[offset] = byte;
	return parse(bytes);
}

static void refused_with(unsigned int offset, uint8_t byte, const char *word)
{
	const char *error = parse_with(offset, byte);

	assert_non_null(error);
	if (!strstr(error, word))
		fail_msg("offset %u: '%s' lacks '%s'", offset, error, word);
}

static void byte_for_byte(void **state)
{
	struct tcp_message message;
	uint8_t bytes[TCP_MESSAGE_BYTES];

	(void)state;
	assert_null(tcp_message_parse(&message, request));
	assert_int_equal(message.kind, TCP_REQUEST);
	assert_int_equal(message.end.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(message.end.qp_num, 0x123456);
	assert_int_equal(message.end.psn, 0xfedcba);
	assert_memory_equal(message.end.gid.raw, request + 16, 16);
	assert_int_equal(message.end.lid, 0x0102);
	assert_int_equal(message.end.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(message.end.mtu, IBV_MTU_1024);
	assert_int_equal(message.end.responder_resources, 16);
	assert_int_equal(message.end.initiator_depth, 4);
	assert_int_equal(message.private_len, 3);
	assert_memory_equal(message.private_data, "abc", 3);
	memset(bytes, 0xff, sizeof(bytes));
	tcp_message_print(bytes, &message);
	assert_memory_equal(bytes, request, sizeof(bytes));
}

/* The longest private data, in a message of each kind. */
static void kinds(void **state)
{
	struct tcp_message message, parsed;
	uint8_t bytes[TCP_MESSAGE_BYTES];

	(void)state;
	assert_null(tcp_message_parse(&message, request));
	message.private_len = TCP_PRIVATE_MAX;
	for (unsigned int i = 0; i < TCP_PRIVATE_MAX; i++)
		message.private_data[i] = (uint8_t)(i + 1);
	for (int kind = TCP_REQUEST; kind <= TCP_READY; kind++) {
		message.kind = (enum tcp_kind)kind;
		tcp_message_print(bytes, &message);
		assert_null(tcp_message_parse(&parsed, bytes));
		assert_int_equal(parsed.kind, kind);
		assert_int_equal(parsed.private_len, TCP_PRIVATE_MAX);
		assert_memory_equal(parsed.private_data, message.private_data, TCP_PRIVATE_MAX);
		/* The others say nothing of a queue pair. */
		assert_int_equal(parsed.end.qp_num, kind <= TCP_ACCEPT ? 0x123456 : 0);
	}
}

static void limits(void **state)
{
	(void)state;
	assert_null(parse_with(7, IBV_LINK_LAYER_INFINIBAND));
	assert_null(parse_with(34, IBV_GID_TYPE_IB));
	assert_null(parse_with(35, IBV_MTU_256));
	assert_null(parse_with(35, IBV_MTU_4096));
	assert_null(parse_with(36, 255));
	assert_null(parse_with(38, TCP_PRIVATE_MAX));
}

static void refusals(void **state)
{
	(void)state;
	refused_with(0, 'K', "as kvd does");
	refused_with(3, 0, "as kvd does");
	refused_with(4, 1, "another version");
	refused_with(5, 2, "another version");
	refused_with(6, 0, "unknown kind");
	refused_with(6, TCP_READY + 1, "unknown kind");
	refused_with(7, IBV_LINK_LAYER_UNSPECIFIED, "link layer");
	refused_with(7, 3, "link layer");
	refused_with(8, 1, "24-bit");
	refused_with(12, 1, "24-bit");
	refused_with(34, IBV_GID_TYPE_ROCE_V2 + 1, "GID");
	refused_with(35, 0, "MTU");
	refused_with(35, IBV_MTU_4096 + 1, "MTU");
	refused_with(38, TCP_PRIVATE_MAX + 1, "private data");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(byte_for_byte),
		cmocka_unit_test(kinds),
		cmocka_unit_test(limits),
		cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
