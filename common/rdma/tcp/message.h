/* SPDX-License-Identifier: MIT */
/*
 * The messages by which two ends bring up their queue pairs over a byte stream:
 *
 *	REQUEST	 connecting end: its queue pair, and the private data of connect()
 *	ACCEPT	 accepting end: its queue pair, which is in RTS, and the private data of accept()
 *	REJECT	 accepting end: private data alone, the reason
 *	READY	 connecting end: its queue pair is in RTS, too
 *
 * After READY nothing is sent: the stream stays open, and its end ends the connection. Each message
 * has TCP_MESSAGE_BYTES bytes, integers are big-endian as in InfiniBand, and unused bytes are zero:
 *
 *	offset	bytes
 *	0	4	magic, "kvdQ"
 *	4	2	version, 1
 *	6	1	kind
 *	7	1	link layer: 1 InfiniBand, 2 Ethernet (IBV_LINK_LAYER_*)
 *	8	4	queue pair number, 24 bits
 *	12	4	number of the first packet that is sent (PSN), 24 bits
 *	16	16	GID
 *	32	2	LID; 0 on Ethernet
 *	34	1	GID type: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2 (IBV_GID_TYPE_*)
 *	35	1	active MTU: 1 to 5 for 256 to 4096 bytes (IBV_MTU_*)
 *	36	1	READs that the receiver of this message may have outstanding, at most
 *	37	1	READs that its sender will have outstanding, at most
 *	38	1	bytes of private data
 *	39	1	0
 *	40	196	private data
 */
#ifndef KVD_COMMON_RDMA_TCP_MESSAGE_H
#define KVD_COMMON_RDMA_TCP_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "common/rdma/device.h"

#define TCP_MESSAGE_BYTES 236u
#define TCP_PRIVATE_MAX CM_PRIVATE_MAX_ACCEPT

enum tcp_kind { TCP_REQUEST = 1, TCP_ACCEPT, TCP_REJECT, TCP_READY };

/* What an end needs to know of the other's queue pair. */
struct tcp_end {
	uint32_t qp_num;
	uint32_t psn;
	union ibv_gid gid;
	uint16_t lid;
	uint8_t link_layer;
	uint8_t gid_type;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t responder_resources;
	uint8_t initiator_depth;
};

struct tcp_message {
	enum tcp_kind kind;
	struct tcp_end end; /* REQUEST and ACCEPT; else zeros */
	uint8_t private_len;
	uint8_t private_data[TCP_PRIVATE_MAX];
};

/* @message is one that tcp_message_parse() would accept. */
void tcp_message_print(uint8_t bytes[TCP_MESSAGE_BYTES], const struct tcp_message *message);

/*
 * NULL, or what is wrong with the message, without a full stop: then *message is not set. An
 * accepted message has all numbers in their ranges, fit for a queue pair's attributes.
 */
const char *tcp_message_parse(struct tcp_message *message, const uint8_t bytes[TCP_MESSAGE_BYTES]);

#endif /* KVD_COMMON_RDMA_TCP_MESSAGE_H */
