/* SPDX-License-Identifier: MIT */
/*
 * Conformance cases for the send queue: slots, chains, signaling, and flushing in the error state.
 */
#include "tests/conformance/conformance.h"

#include <stdlib.h>
#include <string.h>

#define CHAIN 16
/* More than any device grants to a caller that asks for a send queue of 8. */
#define SENDS_MAX 4096
#define SGES_MAX 64

static void unsignaled(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	for (unsigned int i = 0; i < 10; i++)
		CHECK_OK(recv_post(&pair.server, i, 0, 64));
	for (unsigned int i = 0; i < 9; i++)
		CHECK_OK(send_post(&pair.client, i, 0, 64, 0));
	CHECK_OK(send_post(&pair.client, 9, 0, 64, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 9, IBV_WC_SUCCESS);
	side_wc_none(&pair.client);
	for (unsigned int i = 0; i < 10; i++)
		side_wc_is(&pair.server, i, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void signal_all(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;

	options.sig_all = 1;
	pair_open(&pair, &options);
	for (unsigned int i = 0; i < 4; i++)
		CHECK_OK(read_post(&pair.client, i, 0, 64, 0, 0));
	for (unsigned int i = 0; i < 4; i++)
		side_wc_is(&pair.client, i, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/*
 * Sends that cannot complete, because no receive is posted, fill the queue: at least as many as
 * asked for fit, then post_send returns ENOMEM. Once they completed and were polled there is room
 * again.
 */
static void send_queue_full(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;
	unsigned int posted = 0;
	int err = 0;

	options.send_wr = 8;
	pair_open(&pair, &options);
	while (posted < SENDS_MAX && !err) {
		err = send_post(&pair.client, posted, 0, 16, IBV_SEND_SIGNALED);
		posted += !err;
	}
	CHECK_INT(err, ENOMEM);
	CHECK(posted >= 8 && posted >= pair.client.cap.max_send_wr);
	CHECK_INT(send_post(&pair.client, 0, 0, 16, IBV_SEND_SIGNALED), ENOMEM);
	for (unsigned int i = 0; i < posted; i++) {
		CHECK_OK(recv_post(&pair.server, i, 0, 16));
		side_wc_is(&pair.client, i, IBV_WC_SUCCESS);
		side_wc_is(&pair.server, i, IBV_WC_SUCCESS);
	}
	pair_ping(&pair);
	pair_close(&pair);
}

/*
 * An unsignaled request keeps its slot until a later signaled completion is polled. softnic only:
 * hardware behaves like that, but rxe frees a slot as soon as its request is done, so that its
 * queue is not full.
 */
static void unsignaled_hold_slots(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;
	unsigned int depth;

	options.send_wr = 8;
	pair_open(&pair, &options);
	depth = pair.client.cap.max_send_wr;
	for (unsigned int i = 0; i + 1 < depth; i++)
		CHECK_OK(read_post(&pair.client, i, 0, 16, 0, 0));
	CHECK_OK(read_post(&pair.client, depth, 0, 16, 0, IBV_SEND_SIGNALED));
	suite_sleep_us(SUITE_QUIET_MS * 1000);
	/* Nothing was polled, so no slot is free, however many requests are done. */
	CHECK_INT(read_post(&pair.client, 0, 0, 16, 0, 0), ENOMEM);
	side_wc_is(&pair.client, depth, IBV_WC_SUCCESS);
	for (unsigned int i = 0; i + 1 < depth; i++)
		CHECK_OK(read_post(&pair.client, i, 0, 16, 0, 0));
	CHECK_OK(read_post(&pair.client, depth, 0, 16, 0, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, depth, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void chain_of_reads(void)
{
	struct pair pair;
	struct ibv_sge sge[CHAIN];
	struct ibv_send_wr wr[CHAIN];
	struct ibv_send_wr *bad;

	pair_open(&pair, &PAIR_DEFAULTS);
	mem_fill(&pair.server, 0, CHAIN * 512, 6);
	memset(wr, 0, sizeof(wr));
	for (unsigned int i = 0; i < CHAIN; i++) {
		sge[i] = (struct ibv_sge){ (uintptr_t)pair.client.mem + i * 512, 512,
					   pair.client.mr->lkey };
		wr[i].wr_id = i;
		wr[i].next = i + 1 < CHAIN ? &wr[i + 1] : NULL;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].opcode = IBV_WR_RDMA_READ;
		wr[i].send_flags = i + 1 < CHAIN ? 0 : IBV_SEND_SIGNALED;
		wr[i].wr.rdma.remote_addr = pair.client.remote.addr + i * 512;
		wr[i].wr.rdma.rkey = pair.client.remote.rkey;
	}
	CHECK_OK(ibv_post_send(pair.client.id->qp, wr, &bad));
	side_wc_is(&pair.client, CHAIN - 1, IBV_WC_SUCCESS);
	mem_check(&pair.client, 0, CHAIN * 512, 6);
	side_wc_none(&pair.client);
	pair_close(&pair);
}

/* In a chain with a bad request, those before it are executed; it and those after it are not. */
static void chain_bad_wr(void)
{
	struct pair pair;
	struct ibv_sge sge[SGES_MAX];
	struct ibv_send_wr wr[3];
	struct ibv_send_wr *bad = NULL;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK(pair.client.cap.max_send_sge < SGES_MAX);
	for (size_t i = 0; i < SGES_MAX; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)pair.client.mem, 1, pair.client.mr->lkey };
	memset(wr, 0, sizeof(wr));
	for (unsigned int i = 0; i < 3; i++) {
		wr[i].wr_id = i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
		wr[i].sg_list = sge;
		wr[i].num_sge = 1;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		CHECK_OK(recv_post(&pair.server, i, 0, 64));
	}
	wr[1].num_sge = (int)pair.client.cap.max_send_sge + 1;
	CHECK(ibv_post_send(pair.client.id->qp, wr, &bad) != 0);
	CHECK(bad == &wr[1]);
	side_wc_is(&pair.client, 0, IBV_WC_SUCCESS);
	side_wc_none(&pair.client);
	side_wc_is(&pair.server, 0, IBV_WC_SUCCESS);
	side_wc_none(&pair.server);
	CHECK_OK(send_post(&pair.client, 7, 0, 16, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 7, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void qp_to_error(struct side *side)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	CHECK_OK(suite.ops->modify_qp(side->id->qp, &attr, IBV_QP_STATE));
}

/* In the error state all outstanding requests complete as flushed, in order, signaled or not. */
static void flush_on_error(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	for (unsigned int i = 0; i < 6; i++)
		CHECK_OK(send_post(&pair.client, i, 0, 16, i % 2 ? IBV_SEND_SIGNALED : 0));
	side_wc_none(&pair.client); /* no receive is posted */
	qp_to_error(&pair.client);
	for (unsigned int i = 0; i < 6; i++)
		side_wc_is(&pair.client, i, IBV_WC_WR_FLUSH_ERR);
	side_wc_none(&pair.client);
	side_qp_in_error(&pair.client);
	pair_close(&pair);
}

/* What is posted in the error state is accepted and flushed. */
static void post_in_error(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	qp_to_error(&pair.client);
	CHECK_OK(send_post(&pair.client, 1, 0, 16, 0));
	CHECK_OK(read_post(&pair.client, 2, 0, 16, 0, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 1, IBV_WC_WR_FLUSH_ERR);
	side_wc_is(&pair.client, 2, IBV_WC_WR_FLUSH_ERR);
	pair_close(&pair);
}

/*
 * How a server drains a queue pair: after disconnect() it posts a marker, whose flush is the queue
 * pair's last completion. It comes after the receives that were posted and after all requests,
 * wakes a sleeper, and may be empty and unsignaled.
 */
static void marker_is_last(void)
{
	struct pair pair;
	struct ibv_cq *cq;

	pair_open(&pair, &PAIR_DEFAULTS);
	for (unsigned int i = 0; i < 3; i++)
		CHECK_OK(recv_post(&pair.server, i, 0, 64));
	pair.client.other = NULL; /* the server doesn't poll what comes */
	for (unsigned int i = 0; i < 3; i++)
		CHECK_OK(send_post(&pair.client, i, 0, 16, IBV_SEND_SIGNALED));
	if (suite.kind == DEVICE_SOFTNIC) /* receives while it arms */
		CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	for (unsigned int i = 0; i < 3; i++)
		side_wc_is(&pair.client, i, IBV_WC_SUCCESS);
	pair.server.other = NULL;
	for (unsigned int i = 10; i < 14; i++) /* no receive is posted for them */
		CHECK_OK(send_post(&pair.server, i, 0, 16, i % 2 ? IBV_SEND_SIGNALED : 0));
	while (!suite.ops->get_cq_event(pair.server.comp, &cq))
		;
	CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	CHECK_OK(suite.ops->disconnect(pair.server.id));
	CHECK_OK(send_post(&pair.server, 99, 0, 0, 0));
	side_notified(&pair.server);
	for (unsigned int i = 0; i < 3; i++)
		side_wc_is(&pair.server, i, IBV_WC_SUCCESS);
	for (unsigned int i = 10; i < 14; i++)
		side_wc_is(&pair.server, i, IBV_WC_WR_FLUSH_ERR);
	side_wc_is(&pair.server, 99, IBV_WC_WR_FLUSH_ERR);
	side_wc_none(&pair.server);

	/* And one that is posted while the owner sleeps wakes it. */
	CHECK_OK(ibv_req_notify_cq(pair.server.cq, 0));
	CHECK_OK(send_post(&pair.server, 100, 0, 0, 0));
	side_notified(&pair.server);
	side_wc_is(&pair.server, 100, IBV_WC_WR_FLUSH_ERR);
	pair_close(&pair);
}

/* An unsignaled request that fails completes too, and those after it are flushed. */
static void error_of_unsignaled(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(read_post(&pair.client, 1, 0, 16, 0, 0));
	CHECK_OK(read_post(&pair.client, 2, 0, 16, SIDE_MEM_BYTES, 0)); /* out of bounds */
	CHECK_OK(read_post(&pair.client, 3, 0, 16, 0, 0));
	side_wc_is(&pair.client, 2, IBV_WC_REM_ACCESS_ERR);
	side_wc_is(&pair.client, 3, IBV_WC_WR_FLUSH_ERR);
	side_qp_in_error(&pair.client);
	pair_close(&pair);
}

/* Messages that were delivered stay delivered when the connection ends after them. */
static void received_before_end(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	mem_fill(&pair.client, 0, 100, 3);
	CHECK_OK(recv_post(&pair.server, 1, 0, 100));
	CHECK_OK(send_post(&pair.client, 2, 0, 100, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 2, IBV_WC_SUCCESS);
	CHECK_OK(suite.ops->disconnect(pair.client.id));
	side_event(&pair.server, CM_DISCONNECTED);
	side_wc_is(&pair.server, 1, IBV_WC_SUCCESS);
	mem_check(&pair.server, 0, 100, 3);
	pair_close(&pair);
}

const struct suite_case order_cases[] = {
	{ "unsignaled", unsignaled, ALL_DEVICES },
	{ "signal_all", signal_all, ALL_DEVICES },
	{ "send_queue_full", send_queue_full, ALL_DEVICES },
	{ "unsignaled_hold_slots", unsignaled_hold_slots, DEVICE_SOFTNIC },
	{ "chain_of_reads", chain_of_reads, ALL_DEVICES },
	{ "chain_bad_wr", chain_bad_wr, ALL_DEVICES },
	{ "flush_on_error", flush_on_error, ALL_DEVICES },
	{ "post_in_error", post_in_error, ALL_DEVICES },
	{ "marker_is_last", marker_is_last, ALL_DEVICES },
	{ "error_of_unsignaled", error_of_unsignaled, ALL_DEVICES },
	{ "received_before_end", received_before_end, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
