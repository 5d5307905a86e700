/* SPDX-License-Identifier: MIT */
/* Queues of posted receives, of one queue pair or shared (SRQ): srq.c. */
#ifndef KVD_COMMON_RDMA_SOFTNIC_RECEIVE_QUEUE_H
#define KVD_COMMON_RDMA_SOFTNIC_RECEIVE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/async_event.h"
#include "common/rdma/softnic/scatter_gather.h"
#include "common/rdma/softnic/softnic.h"

#define SN_SRQ_MAX 1024
#define SN_SRQ_WR_MAX 65536

/* A posted receive. */
struct sn_recv {
	uint64_t wr_id;
	uint32_t num_sge;
};

struct sn_recv_queue {
	struct sn_recv *wrs;
	struct ibv_sge *sges;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t mask;
	uint32_t head;
	uint32_t tail;
};

struct sn_srq {
	struct ibv_srq verbs;
	struct sn_context *ctx;
	pthread_mutex_t lock;
	struct sn_recv_queue queue;
	uint32_t limit; /* 0: not armed */
	struct sn_async limit_reached;
};

/* The receive into which an incoming message is being written. */
struct sn_incoming {
	bool active;
	bool waiting; /* there is a message and no receive */
	uint64_t waiting_since_ns;
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t total;
	uint32_t moved;
	struct ibv_sge sges[SN_SGE_MAX];
};

static inline struct sn_srq *to_sn_srq(struct ibv_srq *srq)
{
	return sn_container(srq, struct sn_srq, verbs);
}

int sn_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct ibv_srq **srq);
int sn_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
void sn_destroy_srq(struct ibv_srq *srq);
int sn_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
bool sn_srq_take(struct sn_srq *srq, struct sn_incoming *in);

/* @grows: the queue has memory for SN_QUEUE_FIRST receives at first. */
int sn_recv_queue_init(struct sn_recv_queue *queue, uint32_t max_wr, uint32_t max_sge, bool grows);
void sn_recv_queue_release(struct sn_recv_queue *queue);
int sn_recv_queue_post(struct sn_recv_queue *queue, const struct ibv_recv_wr *wr);
bool sn_recv_queue_take(struct sn_recv_queue *queue, struct sn_incoming *in);

#endif /* KVD_COMMON_RDMA_SOFTNIC_RECEIVE_QUEUE_H */
