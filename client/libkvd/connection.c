/* SPDX-License-Identifier: MIT */
/* The connection of a handle: what is set up once, and what outlives it. */
#include "client/libkvd/connection.h"

#include <string.h>

void connection_init(struct connection *conn)
{
	unsigned int i;

	for (i = 0; i < GETS_MAX; i++)
		conn->read_wrs[i] = (struct ibv_send_wr){
			.next = i + 1 < GETS_MAX ? &conn->read_wrs[i + 1] : NULL,
			.sg_list = conn->read_sges[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_READ,
		};
	conn->send_wr = (struct ibv_send_wr){
		.sg_list = &conn->send_sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
	};
	conn->window = 1; /* for HELLO */
}

void connection_reset(struct connection *conn)
{
	struct reg_buf recvs[MESSAGES_MAX / MESSAGES_CHUNK], sends[MESSAGES_MAX / MESSAGES_CHUNK];
	uint32_t count = conn->message_count, bytes = conn->message_bytes, i;
	uint32_t sges_max = conn->read_sges_max;
	struct batch *batches = conn->batches;
	struct reg_buf ring = conn->ring;

	memcpy(recvs, conn->recvs, sizeof(recvs));
	memcpy(sends, conn->sends, sizeof(sends));
	memset(conn, 0, sizeof(*conn));
	connection_init(conn);
	memcpy(conn->recvs, recvs, sizeof(recvs));
	memcpy(conn->sends, sends, sizeof(sends));
	conn->ring = ring;
	conn->batches = batches;
	conn->read_sges_max = sges_max;
	conn->message_count = count;
	conn->message_bytes = bytes;
	for (i = count; i-- > 0;) {
		conn->free[conn->free_count++] = (uint8_t)i;
		conn->recv_free[conn->recv_free_count++] = (uint8_t)i;
	}
}
