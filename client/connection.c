/* SPDX-License-Identifier: MIT */
/* The connection of a handle: what is set up once. */
#include "client/connection.h"

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
	conn->chain_max = GETS_MAX;
	conn->window = 1; /* for HELLO */
}
