/* SPDX-License-Identifier: MIT */
/* The send queue of a queue pair: send.c. */
#ifndef KVD_COMMON_RDMA_SOFTNIC_SEND_QUEUE_H
#define KVD_COMMON_RDMA_SOFTNIC_SEND_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/softnic.h"

#define SN_INLINE_MAX 512
#define SN_MESSAGE_MAX (1u << 30)

enum sn_send_state {
	SN_SEND_QUEUED,
	SN_SEND_FAULTY,	 /* names forbidden local memory: fails in its turn */
	SN_SEND_WAITING, /* in the ring: waits for the peer's acknowledgement or response */
	SN_SEND_DONE,
};

struct sn_send {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t length;
	uint32_t moved;	 /* bytes written to the ring (SEND) or received (READ) */
	uint32_t number; /* SEND: the peer has acknowledged it once it acknowledged this count */
	uint8_t opcode;	 /* enum ibv_wr_opcode */
	uint8_t state;
	uint8_t num_sge;
	bool signaled;
	bool fence;
	bool solicited;
	bool is_inline;
};

/*
 * The send queue. Its positions are counts of work requests, in the order
 * freed <= done <= pushed <= posted <= freed + max_wr.
 */
struct sn_send_queue {
	struct sn_send *wrs;
	struct ibv_sge *sges;
	uint8_t *inline_data; /* of requests that had to wait; NULL: none had to */
	uint32_t stride;      /* sges of one work request */
	uint32_t mask;	      /* requests that there is memory for, less 1 */
	uint32_t posted;
	uint32_t pushed;	/* in the ring, or read */
	uint32_t done;		/* complete */
	_Atomic uint32_t freed; /* its completion, or a later one's, was polled */
	uint32_t sends;		/* SENDs that are completely in the ring */
	uint32_t acked;		/* SENDs that the peer acknowledged */
	uint32_t reads;		/* READs that wait for the peer's response */
};

int sn_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int sn_send_queue_init(struct sn_qp *qp);
void sn_send_queue_release(struct sn_send_queue *sq);
void do_sn_send_push(struct sn_qp *qp);
void do_sn_send_complete(struct sn_qp *qp);
void do_sn_send_flush(struct sn_qp *qp, enum ibv_wc_status first);
int do_sn_send_acked(struct sn_qp *qp, uint32_t acked);
int do_sn_send_responses(struct sn_qp *qp);

#endif /* KVD_COMMON_RDMA_SOFTNIC_SEND_QUEUE_H */
