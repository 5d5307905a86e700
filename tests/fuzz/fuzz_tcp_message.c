/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of tcp_message_parse(), which reads what anybody who connects sends: what it takes
 * has numbers in their ranges, and is printed as the same bytes, with zeros for those unused.
 */
#include "common/rdma/tcp/message.h"
#include "tests/fuzz/fuzz.h"

/* Offsets in common/rdma/tcp/message.h. */
#define LINK_LAYER_AT 7
#define QP_NUM_AT 8
#define PRIVATE_LEN_AT 38
#define ZERO_AT 39
#define PRIVATE_AT 40
#define NUMBER_MAX 0xffffffu

/* The message as it was to be sent. */
static void canonical(uint8_t bytes[TCP_MESSAGE_BYTES], const struct tcp_message *message)
{
	bytes[ZERO_AT] = 0;
	memset(bytes + PRIVATE_AT + message->private_len, 0,
	       TCP_PRIVATE_MAX - message->private_len);
	if (message->kind == TCP_REQUEST || message->kind == TCP_ACCEPT)
		return;
	bytes[LINK_LAYER_AT] = 0;
	memset(bytes + QP_NUM_AT, 0, PRIVATE_LEN_AT - QP_NUM_AT);
}

static void check(const struct tcp_message *message)
{
	const struct tcp_end *end = &message->end;

	must(message->kind >= TCP_REQUEST && message->kind <= TCP_READY);
	must(message->private_len <= TCP_PRIVATE_MAX);
	if (message->kind != TCP_REQUEST && message->kind != TCP_ACCEPT)
		return;
	must(end->qp_num <= NUMBER_MAX && end->psn <= NUMBER_MAX);
	must(end->link_layer == IBV_LINK_LAYER_INFINIBAND ||
	     end->link_layer == IBV_LINK_LAYER_ETHERNET);
	must(end->gid_type <= IBV_GID_TYPE_ROCE_V2);
	must(end->mtu >= IBV_MTU_256 && end->mtu <= IBV_MTU_4096);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t given[TCP_MESSAGE_BYTES] = { 0 }, printed[TCP_MESSAGE_BYTES];
	struct tcp_message message, before;
	uint8_t *bytes;
	const char *error;

	memcpy(given, data, size < sizeof(given) ? size : sizeof(given));
	bytes = exact_copy(given, sizeof(given));
	memset(&message, 0xee, sizeof(message));
	before = message;
	error = tcp_message_parse(&message, bytes);
	if (error) {
		must(error[0] && !memcmp(&message, &before, sizeof(message)));
	} else {
		check(&message);
		canonical(given, &message);
		memset(printed, 0xee, sizeof(printed));
		tcp_message_print(printed, &message);
		must(!memcmp(printed, given, sizeof(printed)));
	}
	free(bytes);
	return 0;
}
