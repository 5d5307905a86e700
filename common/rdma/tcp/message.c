/* SPDX-License-Identifier: MIT */
#include "common/rdma/tcp/message.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#define MAGIC 0x6b766451u /* "kvdQ" */
#define VERSION 1u
#define BITS_24_MAX 0xffffffu

/* As it is sent. */
struct layout {
	uint32_t magic;
	uint16_t version;
	uint8_t kind;
	uint8_t link_layer;
	uint32_t qp_num;
	uint32_t psn;
	uint8_t gid[16];
	uint16_t lid;
	uint8_t gid_type;
	uint8_t mtu;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t private_len;
	uint8_t zero;
	uint8_t private_data[TCP_PRIVATE_MAX];
};
static_assert(sizeof(struct layout) == TCP_MESSAGE_BYTES, "as message.h says");

void tcp_message_print(uint8_t bytes[TCP_MESSAGE_BYTES], const struct tcp_message *message)
{
	const struct tcp_end *end = &message->end;
	struct layout layout = {
		.magic = htobe32(MAGIC),
		.version = htobe16(VERSION),
		.kind = (uint8_t)message->kind,
		.link_layer = end->link_layer,
		.qp_num = htobe32(end->qp_num),
		.psn = htobe32(end->psn),
		.lid = htobe16(end->lid),
		.gid_type = end->gid_type,
		.mtu = end->mtu,
		.responder_resources = end->responder_resources,
		.initiator_depth = end->initiator_depth,
		.private_len = message->private_len,
	};

	memcpy(layout.gid, end->gid.raw, sizeof(layout.gid));
	memcpy(layout.private_data, message->private_data, message->private_len);
	memcpy(bytes, &layout, sizeof(layout));
}

static const char *end_check(const struct tcp_end *end)
{
	if (end->link_layer != IBV_LINK_LAYER_INFINIBAND &&
	    end->link_layer != IBV_LINK_LAYER_ETHERNET)
		return "its link layer is neither InfiniBand nor Ethernet";
	if (end->qp_num > BITS_24_MAX || end->psn > BITS_24_MAX)
		return "a 24-bit number is larger";
	if (end->gid_type > IBV_GID_TYPE_ROCE_V2)
		return "its GID is neither InfiniBand's nor RoCE v1's or v2's";
	if (end->mtu < IBV_MTU_256 || end->mtu > IBV_MTU_4096)
		return "its MTU is not one of 256 to 4096 bytes";
	return NULL;
}

const char *tcp_message_parse(struct tcp_message *message, const uint8_t bytes[TCP_MESSAGE_BYTES])
{
	struct tcp_message parsed = { 0 };
	const char *error = NULL;
	struct layout layout;

	memcpy(&layout, bytes, sizeof(layout));
	if (layout.magic != htobe32(MAGIC))
		return "the peer does not set up queue pairs as kvd does";
	if (layout.version != htobe16(VERSION))
		return "the peer sets up queue pairs by another version of kvd: use the same on "
		       "both sides";
	if (layout.kind < TCP_REQUEST || layout.kind > TCP_READY)
		return "a message of an unknown kind";
	if (layout.private_len > TCP_PRIVATE_MAX)
		return "its private data is too long";
	parsed.kind = layout.kind;
	parsed.private_len = layout.private_len;
	memcpy(parsed.private_data, layout.private_data, layout.private_len);
	if (parsed.kind == TCP_REQUEST || parsed.kind == TCP_ACCEPT) {
		parsed.end = (struct tcp_end){
			.qp_num = be32toh(layout.qp_num),
			.psn = be32toh(layout.psn),
			.lid = be16toh(layout.lid),
			.link_layer = layout.link_layer,
			.gid_type = layout.gid_type,
			.mtu = layout.mtu,
			.responder_resources = layout.responder_resources,
			.initiator_depth = layout.initiator_depth,
		};
		memcpy(parsed.end.gid.raw, layout.gid, sizeof(layout.gid));
		error = end_check(&parsed.end);
	}
	if (!error)
		*message = parsed;
	return error;
}
