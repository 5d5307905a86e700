/* SPDX-License-Identifier: MIT */
/*
 * Tests of what softnic's verbs refuse, at each limit, and what they report and keep; of queue
 * pairs with a receive queue of their own; and that all memory is given back at the end.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/receive_queue.h"
#include "common/rdma/softnic/scatter_gather.h"
#include "common/rdma/softnic/send_queue.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define OWN_WR 24 /* of a queue pair with its own receive queue */
#define RECV_BYTES 64
#define INLINE_BYTES 64

static struct end server, client;
static int blocks; /* of the heap that are in use */
static int before;

static struct end_options paired, silent;

static void *count_alloc(void *user, size_t bytes)
{
	(void)user;
	blocks++;
	return malloc(bytes);
}

static void *count_realloc(void *user, void *memory, size_t bytes)
{
	(void)user;
	blocks += !memory;
	return realloc(memory, bytes);
}

static void count_free(void *user, void *memory)
{
	(void)user;
	blocks--;
	free(memory);
}

static int ends_start(const struct end_options *of_server, const struct end_options *of_client)
{
	char path[64];
	int ret;

	before = blocks;
	snprintf(path, sizeof(path), "%s", pair_path());
	ret = end_init(&server, DEVICE_LISTEN, path, of_server);
	return ret ?: end_init(&client, DEVICE_CONNECT, path, of_client);
}

static int setup(void **state)
{
	(void)state;
	return ends_start(&END_DEFAULTS, &END_DEFAULTS);
}

static int setup_paired(void **state)
{
	(void)state;
	return ends_start(&END_DEFAULTS, &paired);
}

static int setup_silent(void **state)
{
	(void)state;
	return ends_start(&silent, &silent);
}

/* Whatever the test did, no memory is left. */
static int teardown(void **state)
{
	(void)state;
	end_release(&client);
	end_release(&server);
	assert_int_equal(blocks, before);
	return 0;
}

static void completion_queues(void **state)
{
	static const struct {
		int cqe, result;
	} sizes[] = { { 0, -EINVAL },
		      { -1, -EINVAL },
		      { 1, 0 },
		      { SN_CQE_MAX, 0 },
		      { SN_CQE_MAX + 1, -EINVAL } };
	struct ibv_cq *cq;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(OPS->create_cq(client.dev, sizes[i].cqe, &server, NULL, &cq),
				 sizes[i].result);
		if (sizes[i].result)
			continue;
		assert_int_equal(cq->cqe, sizes[i].cqe);
		assert_ptr_equal(cq->cq_context, &server);
		assert_null(cq->channel);
		assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
		OPS->destroy_cq(cq);
	}
}

static void shared_receive_queues(void **state)
{
	static const struct {
		uint32_t wr, sge;
		int result;
	} sizes[] = {
		{ 0, 1, -EINVAL },
		{ 1, 1, 0 },
		{ 1, 0, 0 },
		{ SN_SRQ_WR_MAX, SN_SGE_MAX, 0 },
		{ SN_SRQ_WR_MAX + 1, 1, -EINVAL },
		{ 1, SN_SGE_MAX + 1, -EINVAL },
	};
	struct ibv_srq *srq;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_srq_init_attr attr = {
			.srq_context = &server,
			.attr = { .max_wr = sizes[i].wr, .max_sge = sizes[i].sge },
		};

		assert_int_equal(OPS->create_srq(client.pd, &attr, &srq), sizes[i].result);
		if (sizes[i].result)
			continue;
		assert_int_equal(attr.attr.max_sge, sizes[i].sge ?: 1);
		assert_ptr_equal(srq->srq_context, &server);
		assert_ptr_equal(srq->pd, client.pd);
		OPS->destroy_srq(srq);
	}
}

static void limits_of_a_shared_receive_queue(void **state)
{
	struct ibv_srq_attr attr = { .max_wr = 2 * PAIR_RECVS, .srq_limit = PAIR_RECVS };

	(void)state;
	assert_int_equal(OPS->modify_srq(client.srq, &attr, IBV_SRQ_MAX_WR), -EOPNOTSUPP);
	assert_int_equal(OPS->modify_srq(client.srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT),
			 -EOPNOTSUPP);
	assert_int_equal(OPS->modify_srq(client.srq, &attr, 0), -EINVAL);
	assert_int_equal(OPS->modify_srq(client.srq, &attr, IBV_SRQ_LIMIT), 0);
	attr.srq_limit++;
	assert_int_equal(OPS->modify_srq(client.srq, &attr, IBV_SRQ_LIMIT), -EINVAL);
	/* The one that was refused is not in force. */
	assert_int_equal(sn_container(client.srq, struct sn_srq, verbs)->limit, PAIR_RECVS);
}

/* The requests of a chain before the one that is refused are posted, and no later ones. */
static void chains_of_shared_receives(void **state)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 5, .max_sge = 2 } };
	struct ibv_sge sges[3] = { { 0 } };
	struct ibv_recv_wr wrs[4], *bad = NULL;
	struct ibv_srq *srq;
	struct sn_recv_queue *queue;

	(void)state;
	assert_int_equal(OPS->create_srq(client.pd, &attr, &srq), 0);
	queue = &sn_container(srq, struct sn_srq, verbs)->queue;
	for (unsigned int i = 0; i < 4; i++)
		wrs[i] = (struct ibv_recv_wr){ .wr_id = i,
					       .next = i < 3 ? &wrs[i + 1] : NULL,
					       .sg_list = sges,
					       .num_sge = i == 2 ? 3 : 2 };
	assert_int_equal(ibv_post_srq_recv(srq, wrs, &bad), EINVAL);
	assert_ptr_equal(bad, &wrs[2]);
	assert_int_equal(queue->head - queue->tail, 2);
	wrs[2].num_sge = -1;
	assert_int_equal(ibv_post_srq_recv(srq, &wrs[2], &bad), EINVAL);
	assert_ptr_equal(bad, &wrs[2]);
	/* Room for three more, though there is memory for eight. */
	wrs[2].num_sge = 0;
	assert_int_equal(ibv_post_srq_recv(srq, wrs, &bad), ENOMEM);
	assert_ptr_equal(bad, &wrs[3]);
	assert_int_equal(queue->head - queue->tail, 5);
	OPS->destroy_srq(srq);
}

static struct ibv_qp_init_attr qp_attr(struct end *end)
{
	return (struct ibv_qp_init_attr){
		.send_cq = end->cq,
		.recv_cq = end->recv_cq,
		.srq = end->srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 5, .max_send_sge = 2, .max_inline_data = 16 },
	};
}

static void queue_pairs(void **state)
{
	struct ibv_qp_init_attr attr;
	struct cm_id *id;

	(void)state;
	assert_int_equal(OPS->create_id(client.cm, &id), 0);
#define REFUSED(change, access, result)                                                            \
	do {                                                                                       \
		attr = qp_attr(&client);                                                           \
		change;                                                                            \
		assert_int_equal(OPS->create_qp(id, client.pd, &attr, access), result);            \
		assert_null(id->qp);                                                               \
	} while (0)
	REFUSED(attr.qp_type = IBV_QPT_UD, 0, -EOPNOTSUPP);
	REFUSED(attr.send_cq = NULL, 0, -EINVAL);
	REFUSED(attr.recv_cq = NULL, 0, -EINVAL);
	REFUSED((void)0, IBV_ACCESS_REMOTE_WRITE, -EINVAL);
	REFUSED((void)0, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, -EINVAL);
	REFUSED(attr.cap.max_send_wr = SN_WR_MAX + 1, 0, -EINVAL);
	REFUSED(attr.cap.max_recv_wr = SN_WR_MAX + 1, 0, -EINVAL);
	REFUSED(attr.cap.max_send_sge = SN_SGE_MAX + 1, 0, -EINVAL);
	REFUSED(attr.cap.max_recv_sge = SN_SGE_MAX + 1, 0, -EINVAL);
	REFUSED(attr.cap.max_inline_data = SN_INLINE_MAX + 1, 0, -EINVAL);
	attr = qp_attr(&client);
	attr.srq = NULL;
	attr.cap = (struct ibv_qp_cap){ .max_send_wr = SN_WR_MAX,
					.max_recv_wr = SN_WR_MAX,
					.max_send_sge = SN_SGE_MAX,
					.max_recv_sge = SN_SGE_MAX,
					.max_inline_data = SN_INLINE_MAX };
	assert_int_equal(OPS->create_qp(id, client.pd, &attr,
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
			 0);
	OPS->destroy_id(id);
}

static void assert_caps(struct ibv_qp_cap cap, uint32_t recv_wr, uint32_t recv_sge)
{
	assert_int_equal(cap.max_send_wr, 5);
	assert_int_equal(cap.max_send_sge, 2);
	assert_int_equal(cap.max_recv_wr, recv_wr);
	assert_int_equal(cap.max_recv_sge, recv_sge);
	assert_int_equal(cap.max_inline_data, 16);
}

/* With a shared receive queue it has none of its own, whatever it asks for. */
static void capacities_that_a_queue_pair_has(void **state)
{
	struct ibv_qp_init_attr attr = qp_attr(&client);
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad = NULL;
	struct ibv_qp_attr now;
	struct cm_id *ids[2];

	(void)state;
	attr.cap.max_recv_wr = 7;
	attr.cap.max_recv_sge = 3;
	assert_int_equal(OPS->create_id(client.cm, &ids[0]), 0);
	assert_int_equal(OPS->create_qp(ids[0], client.pd, &attr, 0), 0);
	assert_caps(attr.cap, 0, 0);
	assert_int_equal(OPS->query_qp(ids[0]->qp, &now, IBV_QP_CAP), 0);
	assert_caps(now.cap, 0, 0);
	assert_int_equal(ibv_post_recv(ids[0]->qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	attr = qp_attr(&client);
	attr.srq = NULL;
	attr.cap.max_recv_wr = 7;
	attr.cap.max_recv_sge = 3;
	assert_int_equal(OPS->create_id(client.cm, &ids[1]), 0);
	assert_int_equal(OPS->create_qp(ids[1], client.pd, &attr, 0), 0);
	assert_caps(attr.cap, 7, 3);
	OPS->destroy_id(ids[0]);
	OPS->destroy_id(ids[1]);
}

static void attributes_of_a_queue_pair(void **state)
{
	struct end_options options = END_DEFAULTS;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	(void)state;
	options.rnr_retry = 5;
	options.min_rnr_timer = 9;
	assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS, &options), 0);
	qp = client.id->qp;
	assert_int_equal(OPS->query_qp(qp, &attr, 0), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.cur_qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(attr.max_dest_rd_atomic, SN_READS_MAX);
	assert_int_equal(attr.port_num, 1);
	/* How often it repeats is its own; how long that takes is in its peer's hands. */
	assert_int_equal(attr.min_rnr_timer, 9);
	assert_int_equal(OPS->query_qp(server.id->qp, &attr, 0), 0);
	assert_int_equal(attr.min_rnr_timer, END_DEFAULTS.min_rnr_timer);
}

static void assert_modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask, int result)
{
	assert_int_equal(OPS->modify_qp(qp, &attr, mask), result);
}

/* Only what is named by the mask changes, and nothing if a part of it is refused. */
static void changes_of_a_queue_pair(void **state)
{
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	(void)state;
	assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS, &END_DEFAULTS),
			 0);
	qp = client.id->qp;
	assert_modify(qp, (struct ibv_qp_attr){ 0 }, 0, -EINVAL);
	assert_modify(qp, (struct ibv_qp_attr){ 0 }, IBV_QP_TIMEOUT, -EINVAL);
	assert_modify(qp, (struct ibv_qp_attr){ .min_rnr_timer = 3 },
		      IBV_QP_TIMEOUT | IBV_QP_MIN_RNR_TIMER, -EINVAL);
	assert_modify(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE, -EINVAL);
	assert_modify(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR }, IBV_QP_STATE, -EINVAL);
	assert_modify(qp,
		      (struct ibv_qp_attr){ .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
					    .min_rnr_timer = 3 },
		      IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER, -EINVAL);
	assert_modify(qp, (struct ibv_qp_attr){ .min_rnr_timer = 32 },
		      IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER, -EINVAL);
	assert_int_equal(OPS->query_qp(qp, &attr, 0), 0);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(attr.min_rnr_timer, END_DEFAULTS.min_rnr_timer);
	assert_modify(qp,
		      (struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR,
					    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
					    .min_rnr_timer = 31 },
		      IBV_QP_MIN_RNR_TIMER, 0);
	assert_int_equal(OPS->query_qp(qp, &attr, 0), 0);
	assert_int_equal(attr.min_rnr_timer, 31);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_modify(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_STATE, 0);
	assert_int_equal(OPS->query_qp(qp, &attr, 0), 0);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(attr.min_rnr_timer, 31);
	assert_modify(qp,
		      (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
					    .qp_access_flags = IBV_ACCESS_LOCAL_WRITE,
					    .min_rnr_timer = 77 },
		      IBV_QP_ACCESS_FLAGS | IBV_QP_STATE, 0);
	assert_int_equal(OPS->query_qp(qp, &attr, 0), 0);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(attr.min_rnr_timer, 31);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_modify(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE, 0);
	assert_int_equal(OPS->query_qp(qp, &attr, 0), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
}

static void memory_that_is_refused(void **state)
{
	const int both = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	static uint8_t bytes[64];
	struct ibv_mr *mr;

	(void)state;
#define REGISTER(address, bytes_, access)                                                          \
	OPS->reg_mr(client.pd,                                                                     \
		    &(struct device_mem){ .addr = (address), .length = (bytes_), .fd = -1 },       \
		    (access), &mr)
	assert_int_equal(REGISTER(bytes, sizeof(bytes), both | IBV_ACCESS_REMOTE_WRITE), -EINVAL);
	assert_int_equal(REGISTER(bytes, sizeof(bytes), both | IBV_ACCESS_ZERO_BASED), -EINVAL);
	assert_int_equal(REGISTER(NULL, sizeof(bytes), both), -EINVAL);
	assert_int_equal(REGISTER(bytes, 0, both), -EINVAL);
	assert_int_equal(REGISTER(bytes, SIZE_MAX, both), -EINVAL);
	assert_int_equal(REGISTER(bytes, (size_t)0 - (uintptr_t)bytes + 1, both), -EINVAL);
	assert_int_equal(REGISTER(bytes, sizeof(bytes), both), 0);
	assert_ptr_equal(mr->addr, bytes);
	assert_int_equal(mr->length, sizeof(bytes));
	assert_ptr_equal(mr->pd, client.pd);
	OPS->dereg_mr(mr);
}

static void sends_that_are_refused(void **state)
{
	struct ibv_sge sges[3];
	struct ibv_send_wr wr, *bad;

	(void)state;
	/* Before it is connected, whatever it is. */
	assert_int_equal(end_connect(&client, &client.id, &END_DEFAULTS), 0);
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, 0), -EINVAL);
	OPS->destroy_id(client.id);
	client.id = NULL;
	while (end_serve_cm(&server, &END_DEFAULTS) != -EAGAIN)
		;
	assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS, &END_DEFAULTS),
			 0);
	for (unsigned int i = 0; i < 3; i++)
		sges[i] = (struct ibv_sge){ (uintptr_t)client.mem, 8, client.mr->lkey };
#define POST(change)                                                                               \
	(wr = (struct ibv_send_wr){ .sg_list = sges, .num_sge = 1, .opcode = IBV_WR_SEND },        \
	 change, bad = NULL, ibv_post_send(client.id->qp, &wr, &bad))
	assert_int_equal(POST(wr.num_sge = -1), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(POST(wr.num_sge = 3), EINVAL);
	assert_int_equal(POST(wr.send_flags = IBV_SEND_IP_CSUM), EINVAL);
	assert_int_equal(POST(wr.opcode = IBV_WR_RDMA_WRITE), EINVAL);
	assert_int_equal(POST(wr.opcode = IBV_WR_SEND_WITH_IMM), EINVAL);
	assert_int_equal(POST((wr.opcode = IBV_WR_RDMA_READ, wr.send_flags = IBV_SEND_INLINE)),
			 EINVAL);
	sges[0].length = INLINE_BYTES + 1;
	assert_int_equal(POST(wr.send_flags = IBV_SEND_INLINE), EINVAL);
	/* Longer than any message, in two pieces. */
	sges[0].length = SN_MESSAGE_MAX;
	sges[1].length = 1;
	assert_int_equal(POST(wr.num_sge = 2), EINVAL);
	assert_int_equal(POST((wr.num_sge = 2, wr.opcode = IBV_WR_RDMA_READ)), EINVAL);
	/* None of them broke anything. */
	sges[0].length = INLINE_BYTES;
	assert_int_equal(POST(wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED), 0);
}

/* Connects @client's id with a queue pair that has OWN_WR receives of its own. */
static void connect_with_own_receives(void)
{
	struct cm_param param = { .rnr_retry_count = 7, .min_rnr_timer = 12, .retry_count = 7 };
	const uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct ibv_qp_init_attr attr = qp_attr(&client);

	attr.srq = NULL;
	attr.cap.max_recv_wr = OWN_WR;
	attr.cap.max_recv_sge = 2;
	assert_int_equal(OPS->create_id(client.cm, &client.id), 0);
	assert_int_equal(OPS->create_qp(client.id, client.pd, &attr, IBV_ACCESS_REMOTE_READ), 0);
	assert_int_equal(OPS->connect(client.id, &param), 0);
	while (!client.connected || !server.connected) {
		end_serve_cm(&server, &END_DEFAULTS);
		end_serve_cm(&client, &END_DEFAULTS);
		assert_true(pair_now_ms() < deadline);
	}
}

/* Receives of two pieces, whose second half is in the other half of the memory. */
static int post_own_recv(unsigned int slot, uint32_t lkey)
{
	struct ibv_sge sges[2] = {
		{ (uintptr_t)client.mem + slot * RECV_BYTES, RECV_BYTES / 2, lkey },
		{ (uintptr_t)client.mem + PAIR_MEM_BYTES / 2 + slot * RECV_BYTES, RECV_BYTES / 2,
		  lkey },
	};
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = sges, .num_sge = 2 }, *bad = NULL;
	const int ret = ibv_post_recv(client.id->qp, &wr, &bad);

	assert_ptr_equal(bad, ret ? &wr : NULL);
	return ret;
}

static void take_message(unsigned int slot)
{
	struct ibv_wc wc;

	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wr_id, slot);
	assert_int_equal(wc.byte_len, RECV_BYTES);
	for (unsigned int i = 0; i < RECV_BYTES / 2; i++) {
		assert_int_equal(client.mem[slot * RECV_BYTES + i], slot + 1);
		assert_int_equal(client.mem[PAIR_MEM_BYTES / 2 + slot * RECV_BYTES + i], slot + 1);
	}
}

static void send_message(unsigned int slot)
{
	memset(server.mem + slot * RECV_BYTES, (int)slot + 1, RECV_BYTES);
	assert_int_equal(end_post_send(&server, server.id->qp, slot * RECV_BYTES, RECV_BYTES, 0),
			 0);
}

/*
 * Receives are taken in the order in which they were posted, each with its own pieces, also while
 * the queue grows with some of them taken, as that of a channel pair does.
 */
static void own_receives_keep_their_order(void **state)
{
	unsigned int i;

	(void)state;
	connect_with_own_receives();
	for (i = 0; i < 3; i++)
		assert_int_equal(post_own_recv(i, client.mr->lkey), 0);
	for (i = 0; i < 3; i++)
		send_message(i);
	for (i = 0; i < 3; i++)
		take_message(i);
	for (i = 3; i < 3 + OWN_WR; i++)
		assert_int_equal(post_own_recv(i, client.mr->lkey), 0);
	assert_int_equal(post_own_recv(i, client.mr->lkey), ENOMEM);
	for (i = 3; i < 3 + OWN_WR; i++) {
		send_message(i);
		take_message(i);
	}
}

/* Completions that wait to be polled keep their order while their queue grows. */
static void completions_keep_their_order(void **state)
{
	struct ibv_wc wcs[OWN_WR];
	unsigned int i;
	int got = 0;

	(void)state;
	connect_with_own_receives();
	for (i = 0; i < OWN_WR; i++)
		assert_int_equal(post_own_recv(i, client.mr->lkey), 0);
	for (i = 0; i < 3; i++)
		send_message(i);
	assert_int_equal(ibv_poll_cq(client.cq, 0, wcs), 0);
	/* The queue is never empty: it does not begin at its first entry again. */
	assert_int_equal(ibv_poll_cq(client.cq, 2, wcs), 2);
	for (i = 3; i < OWN_WR; i++)
		send_message(i);
	assert_int_equal(ibv_poll_cq(client.cq, 0, wcs), 0);
	while (got < OWN_WR - 2) {
		const int more = ibv_poll_cq(client.cq, OWN_WR, wcs + got);

		assert_true(more >= 0);
		got += more;
	}
	for (i = 0; i < OWN_WR - 2; i++) {
		assert_int_equal(wcs[i].wr_id, 2 + i);
		assert_int_equal(wcs[i].status, IBV_WC_SUCCESS);
	}
}

/* In the error state receives are flushed in order, those that are posted then, too. */
static void own_receives_are_flushed(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	connect_with_own_receives();
	for (i = 0; i < 5; i++)
		assert_int_equal(post_own_recv(i, client.mr->lkey), 0);
	assert_int_equal(OPS->modify_qp(client.id->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(post_own_recv(5, client.mr->lkey), 0);
	for (i = 0; i < 6; i++) {
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
}

/* A receive whose memory has another key: an error of both sides, and no byte is written. */
static void a_receive_with_a_wrong_key(void **state)
{
	struct ibv_wc wc;

	(void)state;
	connect_with_own_receives();
	memset(client.mem, 0xee, RECV_BYTES);
	assert_int_equal(post_own_recv(0, client.mr->lkey + 1), 0);
	assert_int_equal(post_own_recv(1, client.mr->lkey), 0);
	send_message(0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.wr_id, 0);
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_wait(&server, &client, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_REM_OP_ERR);
	assert_int_equal(client.mem[0], 0xee);
}

static bool has_event(void)
{
	struct ibv_comp_channel *channel = client.cq->channel;
	struct pollfd pfd = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *cq;

	while (poll(&pfd, 1, 0) == 1)
		if (!OPS->get_cq_event(channel, &cq)) {
			assert_ptr_equal(cq, client.cq);
			return true;
		} else if (!ibv_poll_cq(client.cq, 0, NULL)) {
			return false;
		}
	return false;
}

/* Sends message @slot with @flags; the client has it, and has not polled its completion. */
static void send_and_arrive(unsigned int slot, unsigned int flags)
{
	struct ibv_wc stray;

	assert_int_equal(
		end_post_send(&server, server.id->qp, slot * RECV_BYTES, RECV_BYTES, flags), 0);
	assert_int_equal(ibv_poll_cq(client.cq, 0, &stray), 0);
}

/* A thread that waits for solicited events only is not woken by another message. */
static void solicited_events(void **state)
{
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	connect_with_own_receives();
	for (i = 0; i < 6; i++)
		assert_int_equal(post_own_recv(i, client.mr->lkey), 0);
	assert_int_equal(ibv_req_notify_cq(client.cq, 1), 0);
	send_and_arrive(0, 0);
	assert_false(has_event());
	send_and_arrive(1, IBV_SEND_SOLICITED);
	assert_true(has_event());
	send_and_arrive(2, IBV_SEND_SOLICITED);
	assert_false(has_event());
	assert_int_equal(ibv_req_notify_cq(client.cq, 0), 0);
	send_and_arrive(3, 0);
	assert_true(has_event());
	/* An error is an event for everybody. */
	assert_int_equal(ibv_req_notify_cq(client.cq, 1), 0);
	assert_false(has_event());
	assert_int_equal(OPS->modify_qp(client.id->qp,
					&(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR },
					IBV_QP_STATE),
			 0);
	assert_true(has_event());
	for (i = 0; i < 6; i++) {
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
		assert_int_equal(wc.wr_id, i);
	}
}

/* Inline data are copied when they are posted, whether or not there is room for them yet. */
static void inline_data_that_have_to_wait(void **state)
{
	const unsigned int large = 4, large_bytes = end_recv_bytes(), small = 40;
	uint8_t data[INLINE_BYTES];
	struct ibv_sge sges[2] = { { (uintptr_t)data, INLINE_BYTES / 2, 0 },
				   { (uintptr_t)data + INLINE_BYTES / 2, INLINE_BYTES / 2, 0 } };
	struct ibv_send_wr wr = { .sg_list = sges,
				  .num_sge = 2,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE },
			   *bad;
	struct ibv_wc wc;
	unsigned int i, j;

	(void)state;
	assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS, &paired), 0);
	for (i = 0; i < large; i++)
		assert_int_equal(end_post_send(&client, client.id->qp, 0, large_bytes, 0), 0);
	for (i = 0; i < small; i++) {
		for (j = 0; j < INLINE_BYTES; j++)
			data[j] = (uint8_t)(3 * i + j);
		wr.wr_id = i;
		assert_int_equal(ibv_post_send(client.id->qp, &wr, &bad), 0);
	}
	memset(data, 0xff, sizeof(data));
	for (i = 0; i < large + small; i++) {
		assert_int_equal(end_wait(&server, &client, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, i < large ? large_bytes : INLINE_BYTES);
		for (j = 0; i >= large && j < INLINE_BYTES; j++)
			assert_int_equal(end_recv_slot(&server, (unsigned int)wc.wr_id)[j],
					 (uint8_t)(3 * (i - large) + j));
	}
}

/* A peer that asks for memory although the queue pair does not serve any. */
static void a_served_read_needs_the_right(void **state)
{
	struct end_options none = silent;
	struct ibv_wc wc;

	(void)state;
	none.access = 0;
	assert_int_equal(ends_connect(&server, &client, &client.id, &none, &silent), 0);
	side_store(&to_sn_qp(server.id->qp)->mine->serves, 1);
	server.mem[0] = 7;
	client.mem[0] = 1;
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 64, (uintptr_t)server.mem,
				       server.mr->rkey),
			 0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(client.mem[0], 1);
}

static int group_setup(void **state)
{
	(void)state;
	paired = silent = END_DEFAULTS;
	paired.paired = true;
	silent.share = false;
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	pair_path_release();
	return 0;
}

int main(void)
{
	static const struct heap_functions counted = { count_alloc, count_realloc, count_free,
						       NULL };
	const struct CMUnitTest tests[] = {
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(completion_queues, setup),
		TEST(shared_receive_queues, setup),
		TEST(limits_of_a_shared_receive_queue, setup),
		TEST(chains_of_shared_receives, setup),
		TEST(queue_pairs, setup),
		TEST(capacities_that_a_queue_pair_has, setup),
		TEST(attributes_of_a_queue_pair, setup),
		TEST(changes_of_a_queue_pair, setup),
		TEST(memory_that_is_refused, setup),
		TEST(sends_that_are_refused, setup),
		TEST(own_receives_keep_their_order, setup_paired),
		TEST(completions_keep_their_order, setup_paired),
		TEST(own_receives_are_flushed, setup_paired),
		TEST(a_receive_with_a_wrong_key, setup),
		TEST(solicited_events, setup),
		TEST(inline_data_that_have_to_wait, setup_paired),
		TEST(a_served_read_needs_the_right, setup_silent),
	};

	if (heap_set(&counted))
		return EXIT_FAILURE;
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
